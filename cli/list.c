/* mica list: lists the models of this machine. */
#include "model.h"
#include "report.h"
#include "ui.h"
#include "verb.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct list_values {
    bool json;
} list_values;

enum { COLUMNS = 5 };

/* Sets the texts of a model's row; `bytes` receives its size as text. */
static void row(const mica_found_model *model, char bytes[CLI_NUMBER], const char *out[COLUMNS]) {
    out[0] = model->name;
    out[1] = *model->architecture ? model->architecture : "?";
    out[2] = model->quantization;
    out[3] = cli_format_bytes(model->weight_bytes, bytes);
    out[4] = model->family ? model->path : "(mica does not know this family)";
}

static void print_row(const char *const texts[COLUMNS], const int widths[COLUMNS]) {
    for (int c = 0; c < COLUMNS - 1; c++)
        printf("%-*s  ", widths[c], texts[c]);
    puts(texts[COLUMNS - 1]);
}

static void print_table(mica_model_list *const *lists, size_t count) {
    static const char *const head[COLUMNS] = {"name", "architecture", "quantisation", "weights",
                                              "path"};
    char bytes[CLI_NUMBER];
    const char *texts[COLUMNS];
    int widths[COLUMNS];
    for (int c = 0; c < COLUMNS; c++)
        widths[c] = (int)strlen(head[c]);
    for (int printing = 0; printing < 2; printing++) { /* widths first */
        if (printing) print_row(head, widths);
        for (size_t l = 0; l < count; l++) {
            for (size_t i = 0; i < lists[l]->count; i++) {
                row(&lists[l]->models[i], bytes, texts);
                if (printing) print_row(texts, widths);
                for (int c = 0; c < COLUMNS; c++)
                    if ((int)strlen(texts[c]) > widths[c]) widths[c] = (int)strlen(texts[c]);
            }
        }
    }
}

static void print_json(mica_model_list *const *lists, size_t count) {
    bool first = true;
    fputs("[", stdout);
    for (size_t l = 0; l < count; l++) {
        for (size_t i = 0; i < lists[l]->count; i++, first = false) {
            const mica_found_model *m = &lists[l]->models[i];
            printf("%s\n  {\"name\": ", first ? "" : ",");
            cli_print_json(m->name, stdout);
            fputs(", \"path\": ", stdout);
            cli_print_json(m->path, stdout);
            fputs(", \"family\": ", stdout);
            if (m->family)
                cli_print_json(m->family, stdout);
            else
                fputs("null", stdout);
            fputs(", \"architecture\": ", stdout);
            cli_print_json(m->architecture, stdout);
            fputs(", \"quantization\": ", stdout);
            cli_print_json(m->quantization, stdout);
            printf(", \"weight_bytes\": %" PRIu64 "}", m->weight_bytes);
        }
    }
    puts(first ? "]" : "\n]");
}

static int run(const void *verb_values, char **args, int count) {
    const list_values *values = verb_values;
    const char *places[CLI_MODEL_PLACES];
    size_t found = 0, place_count = count > 0 ? (size_t)count : cli_model_places(places);
    int code = CLI_DONE;
    mica_model_list **lists = calloc(place_count, sizeof *lists);
    if (!lists) return cli_fail("out of memory");
    for (size_t i = 0; code == CLI_DONE && i < place_count; i++) {
        mica_status status = mica_discover(count > 0 ? args[i] : places[i], &lists[i]);
        if (status != MICA_OK)
            code = cli_fail_status(status);
        else
            found += lists[i]->count;
    }
    if (code == CLI_DONE && values->json)
        print_json(lists, place_count);
    else if (code == CLI_DONE && found > 0)
        print_table(lists, place_count);
    else if (code == CLI_DONE)
        cli_hint("There are no models. Name folders to look in, or download one with hf download.");
    for (size_t i = 0; i < place_count; i++)
        mica_model_list_free(&lists[i]);
    free(lists);
    return code;
}

static const cli_option list_options[] = {
    {.name = "json",
     .kind = CLI_FLAG,
     .help = "print a JSON array",
     .offset = offsetof(list_values, json)},
};

const cli_verb cli_verb_list = {
    .synopsis = "[FOLDER...]",
    .details = "Lists the models in and below each FOLDER. Without FOLDER it lists those of the\n"
               "Hugging Face cache and of $MICA_MODELS, if that is set.\n",
    .examples = "  mica list\n"
                "  mica list ~/models /data/models --json\n",
    .max_args = -1,
    .words = CLI_WORDS_FOLDERS,
    .values_bytes = sizeof(list_values),
    .groups = {{"Output", list_options, CLI_COUNT(list_options), 0}},
    .run = run,
};
