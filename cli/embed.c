/* mica embed: prints the embedding of each text. */
#include "print.h"
#include "records.h"
#include "report.h"
#include "task.h"
#include "ui.h"
#include "verb.h"

typedef struct embed_values {
    cli_model_values model;
    int64_t pooling; /* a mica_pooling */
    int64_t dimensions;
    const char *prompt;
    bool normalise, quiet;
} embed_values;

static void print_vector(const char *id, const float *vector, size_t n) {
    cli_print(stdout, "{\"id\": %s, \"embedding\": [", id);
    for (size_t i = 0; i < n; i++)
        cli_print(stdout, "%s%.9g", i ? ", " : "", (double)vector[i]);
    puts("]}");
}

/* Texts that are embedded at once. */
enum { TEXTS = 256 };

typedef struct group {
    cli_record records[TEXTS];
    const char *texts[TEXTS];
    size_t n;
} group;

static void drop_group(group *g) {
    for (size_t i = 0; i < g->n; i++)
        cli_record_deinit(&g->records[i]);
    g->n = 0;
}

/* Reads the next texts. Returns whether a line was wrong, which it reported. */
static bool read_group(cli_records *records, group *g) {
    bool failed = false;
    int got = 1;
    while (g->n < TEXTS && (got = cli_records_next(records, &g->records[g->n])) != 0) {
        failed |= got < 0;
        if (got < 0)
            cli_record_deinit(&g->records[g->n]);
        else
            g->texts[g->n] = g->records[g->n].text, g->n++;
    }
    return failed;
}

/* Prints the vectors of texts. An error of one is reported; others go on. */
static int print_rows(const group *g, const mica_embed_results *results) {
    int code = CLI_DONE;
    cli_progress_wipe();
    for (size_t i = 0; i < g->n; i++) {
        const mica_embed_row *row = &results->rows[i];
        if (row->status == MICA_ECANCELLED) return CLI_INTERRUPTED;
        if (row->status == MICA_OK)
            print_vector(g->records[i].id, row->vector, results->width);
        else
            code = cli_fail("id %s: %s", g->records[i].id, row->error);
    }
    return cli_flush() ? code : CLI_FAILED;
}

static int embed(const cli_task *task, const embed_values *values, const group *g) {
    const mica_embed_options options = {.pooling = (mica_pooling)values->pooling,
                                        .normalise = values->normalise,
                                        .prompt_name = values->prompt,
                                        .dimensions = values->dimensions,
                                        .cancel = task->cancel};
    mica_embed_results *results = NULL;
    mica_status status = mica_embed_texts(task->model, g->texts, g->n, &options, &results);
    int code = status == MICA_OK ? print_rows(g, results) : cli_task_fail(status);
    mica_embed_texts_free(&results);
    return code;
}

static int run(const void *verb_values, char **args, int count) {
    static group g; /* static for its size */
    const embed_values *values = verb_values;
    const char *model_word, *file;
    cli_records records = {0};
    cli_task task = {0};
    bool failed = false;
    cli_model_split(values->model.model, args, count, &model_word, &file);
    int code = cli_records_open(&records, "embed", file);
    if (code == CLI_DONE)
        code = cli_task_open(&task, &values->model, model_word, "embed", values->quiet);
    if (code == CLI_DONE) cli_progress_start("texts", values->quiet);
    while (code == CLI_DONE) {
        failed |= read_group(&records, &g);
        if (!g.n) break;
        int one = embed(&task, values, &g);
        drop_group(&g);
        cli_progress_tick(NULL, records.at, records.input.len);
        failed |= one == CLI_FAILED;
        if (one == CLI_INTERRUPTED || (one == CLI_FAILED && !cli_flush())) code = one;
    }
    cli_progress_clear();
    cli_task_close(&task);
    cli_records_close(&records);
    return code == CLI_DONE && failed ? CLI_FAILED : code;
}

static const cli_option embed_options[] = {
    CLI_OPTION(CHOICE, "pooling", embed_values, pooling, .choices = "model mean last",
               .placeholder = "mean|last", .initial = "model",
               .help = "the mean of all tokens' hidden states, or the last token's; model: what an "
                       "embedder's files say, else the mean"),
    CLI_OPTION(FLAG, "normalise", embed_values, normalise,
               .help = "scale each vector to a length of 1"),
    CLI_OPTION(INT, "dimensions", embed_values, dimensions, .placeholder = "N", .max = INT32_MAX,
               .help = "only the first N numbers of each vector"),
    CLI_OPTION(TEXT, "prompt-name", embed_values, prompt, .placeholder = "NAME",
               .help = "put the embedder's prompt of that name before texts, such as query"),
    CLI_OPTION(FLAG, "quiet", embed_values, quiet, .letter = 'q',
               .help = "print no progress on stderr"),
};

const cli_verb cli_verb_embed = {
    .synopsis = "[MODEL] [FILE]",
    .details =
        "Prints a JSON object {\"id\", \"embedding\"} for each text of FILE. The embedding is\n"
        "one vector: the text's hidden states after the model's last norm, pooled. An\n"
        "embedder, whose folder has the files of sentence-transformers, does what these say\n"
        "unless an option says more.\n"
        "\n" CLI_RECORDS_HELP "\n" CLI_DEFAULT_MODEL_HELP,
    .examples =
        "  mica embed texts.txt --normalise > vectors.jsonl\n"
        "  echo '{\"id\": \"a\", \"text\": \"What is curl?\"}' | mica embed --pooling last\n",
    .max_args = 2,
    .words = CLI_WORDS_FILES,
    .values_bytes = sizeof(embed_values),
    .groups = {{"Vectors", embed_options, CLI_COUNT(embed_options), 0},
               {"Model", cli_model_options, CLI_MODEL_OPTIONS, offsetof(embed_values, model)}},
    .run = run,
};
