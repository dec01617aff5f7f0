/* mica classify: the label that the model would most likely say after each text. */
#include "print.h"
#include "records.h"
#include "report.h"
#include "task.h"
#include "ui.h"
#include "verb.h"

#include <stdlib.h>
#include <string.h>

typedef struct classify_values {
    cli_model_values model;
    cli_texts labels;
    const char *labels_file, *template;
    bool chat, json, quiet;
} classify_values;

enum { AT_ONCE = 32 };

typedef struct classifier {
    const classify_values *values;
    cli_task task;
    cli_records records;
    const char **labels; /* [label_count], borrowed */
    size_t label_count;
    cli_text label_text; /* content of the file of --labels */
    bool failed;         /* some text or line */
} classifier;

/* ---- labels ---- */

static bool add_label(classifier *c, const char *label) {
    const char **grown = realloc(c->labels, (c->label_count + 1) * sizeof *grown);
    if (!grown) {
        cli_fail("out of memory");
        return false;
    }
    c->labels = grown;
    c->labels[c->label_count++] = label;
    return true;
}

static int read_labels(classifier *c) {
    const classify_values *values = c->values;
    for (size_t i = 0; i < values->labels.count; i++)
        if (!add_label(c, values->labels.values[i])) return CLI_FAILED;
    if (!values->labels_file) return CLI_DONE;
    if (!cli_text_read_file(&c->label_text, CLI_TEXT_OF_LABELS, values->labels_file) ||
        !cli_text_check(&c->label_text, values->labels_file))
        return CLI_FAILED;
    for (char *line = c->label_text.data; *line;) {
        size_t len = strcspn(line, "\n");
        char *next = line + len + (line[len] == '\n');
        line[len] = '\0';
        if (len > 0 && !add_label(c, line)) return CLI_FAILED;
        line = next;
    }
    return CLI_DONE;
}

/* ---- texts ---- */

/* The prompt of a text: the template with the text in place of each {}.  returns NULL after it
 * reported the error; freed with free */
static char *make_prompt(const char *template, const char *text) {
    cli_text prompt = {0};
    bool made = true;
    while (made && *template) {
        const char *hole = strstr(template, "{}");
        size_t len = hole ? (size_t)(hole - template) : strlen(template);
        made = cli_text_append(&prompt, template, len) &&
               (!hole || cli_text_append(&prompt, text, strlen(text)));
        template += len + (hole ? 2 : 0);
    }
    if (made) return prompt.data;
    free(prompt.data);
    return NULL;
}

static void print_row_json(const classifier *c, const mica_classify_row *row, const char *id) {
    cli_print(stdout, "{\"id\": %s", id);
    if (row->status != MICA_OK) {
        fputs(", \"error\": ", stdout);
        cli_print_json(row->error, stdout);
    } else if (c->label_count == 0) {
        fputs(", \"token\": ", stdout);
        cli_print_json(row->text, stdout);
        printf(", \"probability\": %.9g", row->probability);
    } else {
        fputs(", \"label\": ", stdout);
        cli_print_json(c->labels[row->label], stdout);
        printf(", \"probability\": %.9g, \"labels\": {", row->labels[row->label]);
        for (size_t i = 0; i < c->label_count; i++) {
            cli_print(stdout, "%s", i ? ", " : "");
            cli_print_json(c->labels[i], stdout);
            printf(": %.9g", row->labels[i]);
        }
        putchar('}');
    }
    puts("}");
}

static void print_row(const classifier *c, const mica_classify_row *row, const cli_record *record) {
    if (row->status != MICA_OK) {
        cli_fail("id %s: %s", record->id, row->error);
        return;
    }
    bool labelled = c->label_count > 0;
    const char *said = labelled ? c->labels[row->label] : row->text;
    printf("%8.6f  ", labelled ? row->labels[row->label] : row->probability);
    int printed = cli_print_line(said, strlen(said), stdout);
    cli_print(stdout, "%*s  ", printed < 12 ? 12 - printed : 0, "");
    cli_print_line(record->text, strlen(record->text), stdout);
    putchar('\n');
}

/* Classifies count texts. returns an exit code */
static int classify(classifier *c, const cli_record *records, size_t count) {
    const char *prompts[AT_ONCE] = {NULL};
    mica_classify_results *results = NULL;
    mica_classify_options options = {.labels = c->labels,
                                     .label_count = c->label_count,
                                     .as_chat = c->values->chat,
                                     .cancel = c->task.cancel};
    int code = CLI_DONE;
    for (size_t i = 0; i < count; i++) {
        prompts[i] = make_prompt(c->values->template, records[i].text);
        if (!prompts[i]) code = CLI_FAILED;
    }
    mica_status status = MICA_OK;
    if (code == CLI_DONE) status = mica_classify(c->task.model, prompts, count, &options, &results);
    if (status != MICA_OK) code = cli_task_fail(status);
    for (size_t i = 0; code == CLI_DONE && i < count; i++) {
        const mica_classify_row *row = &results->rows[i];
        if (row->status == MICA_ECANCELLED) {
            code = CLI_INTERRUPTED;
            break;
        }
        cli_progress_wipe();
        c->failed |= row->status != MICA_OK;
        if (c->values->json)
            print_row_json(c, row, records[i].id);
        else
            print_row(c, row, &records[i]);
    }
    if (!cli_flush()) code = CLI_FAILED;
    mica_classify_free(&results);
    for (size_t i = 0; i < count; i++)
        free((char *)(uintptr_t)prompts[i]);
    return code;
}

/* Classifies all texts, AT_ONCE per call. returns an exit code */
static int classify_all(classifier *c) {
    cli_record batch[AT_ONCE];
    size_t count = 0;
    int code = CLI_DONE, got = 1;
    while (code == CLI_DONE && got != 0) {
        got = cli_records_next(&c->records, &batch[count]);
        if (got > 0) count++;
        c->failed |= got < 0;
        if (count < AT_ONCE && (got != 0 || count == 0)) continue;
        code = classify(c, batch, count);
        cli_progress_tick(NULL, c->records.at, c->records.input.len);
        while (count > 0)
            cli_record_deinit(&batch[--count]);
    }
    return code;
}

static int run(const void *verb_values, char **args, int count) {
    const classify_values *values = verb_values;
    const char *model_word, *file;
    classifier c = {.values = values};
    cli_model_split(values->model.model, args, count, &model_word, &file);
    int code = read_labels(&c);
    if (code == CLI_DONE) code = cli_records_open(&c.records, "classify", file);
    if (code == CLI_DONE)
        code = cli_task_open(&c.task, &values->model, model_word, "classify", values->quiet);
    if (code == CLI_DONE) {
        cli_progress_start("texts", values->quiet);
        code = classify_all(&c);
        cli_progress_clear();
    }
    cli_task_close(&c.task);
    cli_records_close(&c.records);
    free(c.labels);
    free(c.label_text.data);
    return code == CLI_DONE && c.failed ? CLI_FAILED : code;
}

static const cli_option classify_options[] = {
    CLI_OPTION(TEXTS, "label", classify_values, labels, .letter = 'l', .placeholder = "TEXT",
               .help = "a label; its first token is what counts; may be repeated"),
    CLI_OPTION(FILE, "labels", classify_values, labels_file, .placeholder = "FILE",
               .help = "a file of labels, one per line"),
    CLI_OPTION(TEXT, "template", classify_values, template, .placeholder = "TEXT", .initial = "{}",
               .help = "the prompt, with {} in place of the text"),
    CLI_OPTION(FLAG, "chat", classify_values, chat,
               .help = "put each prompt in the model's chat format"),
    CLI_OPTION(FLAG, "json", classify_values, json,
               .help = "print a JSON object per line, with the probability of each label"),
    CLI_OPTION(FLAG, "quiet", classify_values, quiet, .letter = 'q',
               .help = "print no progress on stderr"),
};

const cli_verb cli_verb_classify = {
    .synopsis = "[MODEL] [FILE]",
    .details =
        "Prints for each text of FILE the label that the model would most likely say\n"
        "next, and its probability among all tokens; without labels the likeliest token.\n"
        "If the model's tokens include the space before a word, write it: --label \" yes\".\n"
        "\n" CLI_RECORDS_HELP "\n" CLI_DEFAULT_MODEL_HELP,
    .examples =
        "  mica classify reviews.txt --template \"Review: {} It is\" -l \" good\" -l \" bad\"\n"
        "  mica classify --labels labels.txt --json < texts.jsonl\n",
    .max_args = 2,
    .words = CLI_WORDS_FILES,
    .values_bytes = sizeof(classify_values),
    .groups = {{"Classes", classify_options, CLI_COUNT(classify_options), 0},
               {"Model", cli_model_options, CLI_MODEL_CHAT, offsetof(classify_values, model)}},
    .run = run,
};
