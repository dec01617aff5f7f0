/* mica list: lists the models of this machine. */
#define _POSIX_C_SOURCE 200809L
#include "model.h"
#include "print.h"
#include "report.h"
#include "ui.h"
#include "verb.h"
#include "width.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

typedef struct list_values {
    bool json;
} list_values;

enum { COLUMNS = 6, AGE = 24 };

/* When the model was downloaded or made, in seconds since 1970; 0: not known. In the cache, its
 * config.json is a link that is as old as the model there. */
static int64_t made_at(const mica_found_model *model) {
    char path[4096];
    struct stat info;
    int n = snprintf(path, sizeof path, "%s/config.json", model->path);
    return n > 0 && (size_t)n < sizeof path && lstat(path, &info) == 0 ? (int64_t)info.st_mtime : 0;
}

static const char *format_age(int64_t made, char out[AGE]) {
    static const struct {
        const char *unit;
        int64_t seconds;
    } units[] = {{"year", 31557600}, {"month", 2629800}, {"week", 604800},
                 {"day", 86400},     {"hour", 3600},     {"minute", 60}};
    int64_t age = made ? (int64_t)time(NULL) - made : -1;
    if (age < 0) return "?";
    for (size_t i = 0; i < CLI_COUNT(units); i++) {
        int64_t n = age / units[i].seconds;
        if (n == 0) continue;
        snprintf(out, AGE, "%" PRId64 " %s%s", n, units[i].unit, n == 1 ? "" : "s");
        return out;
    }
    return "now";
}

/* Sets the texts of a model's row; `bytes` and `age` receive two of them. */
static void row(const mica_found_model *model, char bytes[CLI_NUMBER], char age[AGE],
                const char *out[COLUMNS]) {
    out[0] = model->name;
    out[1] = *model->architecture ? model->architecture : "?";
    out[2] = model->quantization;
    out[3] = cli_format_bytes(model->weight_bytes, bytes);
    out[4] = format_age(made_at(model), age);
    out[5] = model->family ? model->path : "(mica does not know this family)";
}

static void print_row(const char *const texts[COLUMNS], const int widths[COLUMNS]) {
    for (int c = 0; c < COLUMNS - 1; c++)
        cli_print_cell(stdout, texts[c], widths[c] + 2);
    cli_print(stdout, "%s\n", texts[COLUMNS - 1]);
}

static void print_table(mica_model_list *const *lists, size_t count) {
    static const char *const head[COLUMNS] = {"name",    "architecture", "quantisation",
                                              "weights", "age",          "path"};
    char bytes[CLI_NUMBER], age[AGE];
    const char *texts[COLUMNS];
    int widths[COLUMNS];
    for (int c = 0; c < COLUMNS; c++)
        widths[c] = (int)strlen(head[c]);
    for (int printing = 0; printing < 2; printing++) { /* widths first */
        if (printing) print_row(head, widths);
        for (size_t l = 0; l < count; l++) {
            for (size_t i = 0; i < lists[l]->count; i++) {
                row(lists[l]->models[i], bytes, age, texts);
                if (printing) print_row(texts, widths);
                for (int c = 0; c < COLUMNS; c++) {
                    int width = cli_width_of(texts[c], strlen(texts[c]));
                    if (width > widths[c]) widths[c] = width;
                }
            }
        }
    }
}

static void print_json(mica_model_list *const *lists, size_t count) {
    bool first = true;
    fputs("[", stdout);
    for (size_t l = 0; l < count; l++) {
        for (size_t i = 0; i < lists[l]->count; i++, first = false) {
            const mica_found_model *m = lists[l]->models[i];
            cli_print(stdout, "%s\n  {\"name\": ", first ? "" : ",");
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
            printf(", \"bits\": %d, \"group_size\": %d, \"weight_bytes\": %" PRIu64
                   ", \"weight_files\": %" PRIu64 ", \"made_at\": %" PRId64 "}",
                   m->bits, m->group_size, m->weight_bytes, m->weight_files, made_at(m));
        }
    }
    cli_print(stdout, "%s\n", first ? "]" : "\n]");
}

static int run(const void *verb_values, char **args, int count) {
    static const char nothing[] =
        "There are no models. Name folders to look in, or download one with mica pull.";
    static const char nothing_else[] =
        "There are no models but the one that comes with mica. Name folders to look in, or "
        "download one with mica pull.";
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
        cli_hint(count > 0 ? nothing : nothing_else);
    for (size_t i = 0; i < place_count; i++)
        mica_model_list_free(&lists[i]);
    free(lists);
    return code;
}

static const cli_option list_options[] = {
    CLI_OPTION(FLAG, "json", list_values, json, .help = "print a JSON array"),
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
