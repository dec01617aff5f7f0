/* mica rerank: sorts texts by how well they answer a query. */
#include "print.h"
#include "records.h"
#include "report.h"
#include "task.h"
#include "verb.h"

#include <stdlib.h>

typedef struct rerank_values {
    cli_model_values model;
    const char *query, *instruction;
    int64_t top;
    bool logits, quiet;
} rerank_values;

typedef struct documents {
    cli_record *records; /* [count] */
    const char **texts;  /* [count] */
    float *scores;       /* [count] */
    size_t count, room;
} documents;

static void close_documents(documents *d) {
    for (size_t i = 0; i < d->count; i++)
        cli_record_deinit(&d->records[i]);
    free(d->records);
    free(d->texts);
    free(d->scores);
}

static bool grow(documents *d) {
    size_t room = d->room ? 2 * d->room : 64;
    if (d->count < d->room) return true;
    cli_record *records = realloc(d->records, room * sizeof *records);
    if (records) d->records = records;
    const char **texts = realloc((void *)d->texts, room * sizeof *texts);
    if (texts) d->texts = texts;
    float *scores = realloc(d->scores, room * sizeof *scores);
    if (scores) d->scores = scores;
    if (!records || !texts || !scores) return false;
    d->room = room;
    return true;
}

/* Reads all texts; a line that is wrong ends it. */
static int read_documents(cli_records *records, documents *d) {
    int got = 1;
    while (got) {
        if (!grow(d)) return cli_fail("no memory for the texts");
        got = cli_records_next(records, &d->records[d->count]);
        if (got < 0) cli_record_deinit(&d->records[d->count]);
        if (got < 0) return CLI_FAILED;
        if (got) {
            d->texts[d->count] = d->records[d->count].text;
            d->count++;
        }
    }
    return d->count ? CLI_DONE : cli_fail("there are no texts");
}

typedef struct rank {
    size_t index;
    float score;
} rank;

/* The best first; of equals, the first. */
static int compare(const void *a, const void *b) {
    const rank *x = a, *y = b;
    if (x->score < y->score || x->score > y->score) return x->score < y->score ? 1 : -1;
    return x->index < y->index ? -1 : x->index > y->index;
}

static int print_ranks(const documents *d, int64_t top) {
    rank *ranks = malloc(d->count * sizeof *ranks);
    if (!ranks) return cli_fail("no memory for the texts");
    for (size_t i = 0; i < d->count; i++)
        ranks[i] = (rank){i, d->scores[i]};
    qsort(ranks, d->count, sizeof *ranks, compare);
    for (size_t i = 0; i < d->count && (!top || i < (size_t)top); i++)
        cli_print(stdout, "{\"id\": %s, \"score\": %.9g}\n", d->records[ranks[i].index].id,
                  (double)ranks[i].score);
    free(ranks);
    return cli_flush() ? CLI_DONE : CLI_FAILED;
}

static int rank_documents(const cli_task *task, const rerank_values *values, documents *d) {
    const mica_rerank_options options = {
        .logits = values->logits, .instruction = values->instruction, .cancel = task->cancel};
    mica_status status =
        mica_rerank(task->model, values->query, d->texts, d->count, &options, d->scores);
    return status == MICA_OK ? print_ranks(d, values->top) : cli_task_fail(status);
}

static int run(const void *verb_values, char **args, int count) {
    const rerank_values *values = verb_values;
    const char *model_word, *file;
    cli_records records = {0};
    cli_task task = {0};
    documents d = {0};
    if (!values->query) return cli_usage("rerank", "there is no query: give --query TEXT");
    cli_model_split(values->model.model, args, count, &model_word, &file);
    int code = cli_records_open(&records, "rerank", file);
    if (code == CLI_DONE) code = read_documents(&records, &d);
    if (code == CLI_DONE)
        code = cli_task_open(&task, &values->model, model_word, "rerank", values->quiet);
    if (code == CLI_DONE) code = rank_documents(&task, values, &d);
    close_documents(&d);
    cli_task_close(&task);
    cli_records_close(&records);
    return code;
}

static const cli_option rerank_options[] = {
    CLI_OPTION(TEXT, "query", rerank_values, query, .placeholder = "TEXT", .help = "what is asked"),
    CLI_OPTION(INT, "top", rerank_values, top, .placeholder = "N", .max = INT32_MAX,
               .help = "print only the N best texts"),
    CLI_OPTION(FLAG, "logits", rerank_values, logits,
               .help = "print a cross-encoder's logits, not their sigmoid"),
    CLI_OPTION(TEXT, "instruction", rerank_values, instruction, .placeholder = "TEXT",
               .help = "what a language model is told to judge texts for"),
    CLI_OPTION(FLAG, "quiet", rerank_values, quiet, .letter = 'q',
               .help = "print no progress on stderr"),
};

const cli_verb cli_verb_rerank = {
    .synopsis = "[MODEL] [FILE] --query TEXT",
    .details =
        "Prints a JSON object {\"id\", \"score\"} for each text of FILE, the best first. MODEL is\n"
        "a cross-encoder, such as BAAI/bge-reranker-v2-m3, or a language model that answers\n"
        "yes or no, as Qwen3-Reranker does.\n"
        "\n" CLI_RECORDS_HELP "\n" CLI_DEFAULT_MODEL_HELP,
    .examples = "  mica rerank texts.txt --query 'who wrote the letter?' --top 3\n",
    .max_args = 2,
    .words = CLI_WORDS_FILES,
    .values_bytes = sizeof(rerank_values),
    .groups = {{"Ranks", rerank_options, CLI_COUNT(rerank_options), 0},
               {"Model", cli_model_options, CLI_MODEL_OPTIONS, offsetof(rerank_values, model)}},
    .run = run,
};
