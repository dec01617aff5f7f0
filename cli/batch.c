/* mica batch: answers to a file of prompts. */
#define _POSIX_C_SOURCE 200809L
#include "batch_item.h"
#include "ids.h"
#include "info.h"
#include "print.h"
#include "report.h"
#include "talk.h"
#include "task.h"
#include "ui.h"
#include "verb.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct batch_values {
    cli_model_values model;
    cli_answer_values answer;
    cli_constraint_values constraint;
    cli_talk_values talk; /* has no system message */
    const char *output;
    int64_t parallel;
    bool quiet;
} batch_values;

/* Number of items per call of the library: many, to keep its rows busy, but not all, because the
 * answers are in memory until the call returns. */
enum { AT_ONCE = 256 };

typedef struct batch {
    const batch_values *values;
    cli_task task;
    cli_records records;
    cli_text variables; /* of the chat template, as JSON */
    cli_constraint constraint;
    FILE *out;              /* stdout, or --output */
    cli_ids done;           /* ids that an earlier run answered */
    cli_ids seen;           /* ids of the input so far */
    cli_batch_item *items;  /* [AT_ONCE] */
    size_t count;           /* number of items now */
    size_t finished, total; /* numbers of items, for the progress bar */
    int64_t answered, skipped, failed, generated_tokens;
    double seconds;
    bool cannot_write;
} batch;

/* ---- output ---- */

/* How a row begins: "{"id": ", an id, and then one of two members. */
#define ROW_ID "{\"id\": "
#define ROW_TEXT ", \"text\": "
#define ROW_ERROR ", \"error\": "

/* Whether two texts agree as far as the shorter one goes. */
static bool agree(const char *text, size_t len, const char *other) {
    size_t n = strlen(other);
    return memcmp(text, other, len < n ? len : n) == 0;
}

/* Whether a text is the beginning of a row, cut off anywhere. */
static bool begins_row(const char *text, size_t len) {
    size_t at = strlen(ROW_ID);
    if (!agree(text, len, ROW_ID)) return false;
    if (at < len && text[at] == '"') /* to the quote that ends it */
        for (at++; at < len && text[at] != '"'; at++)
            at += text[at] == '\\';
    while (at < len && text[at] != ',')
        at++;
    return at >= len || agree(text + at, len - at, ROW_TEXT) ||
           agree(text + at, len - at, ROW_ERROR);
}

static int refuse_output(const char *path, size_t line) {
    int code = cli_fail("%s, line %zu: this is not an output of mica batch", path, line);
    cli_hint("Name another --output, or remove that file.");
    return code;
}

/* Reads the id of an earlier run's row. A prompt that failed is left out.  returns an exit code */
static int read_row(batch *b, const cli_records *earlier, const cli_json *json, size_t line) {
    const cli_json_node *row = &json->nodes[0];
    if (cli_json_find(json, row, "error")) return CLI_DONE;
    bool answered = cli_json_find(json, row, "id") && cli_json_find(json, row, "text");
    char *id = answered ? cli_records_id(earlier, json, line) : NULL;
    if (!id) return refuse_output(earlier->name, line);
    int code = cli_ids_add(&b->done, id) ? CLI_DONE : CLI_FAILED;
    free(id);
    return code;
}

/* Reads the ids of an earlier run's answers. Text after the last line feed, an incomplete row, is
 * cut off the file once all of it is known to be an earlier run's.  returns an exit code */
static int read_earlier(batch *b, const char *path) {
    cli_records earlier = {.name = path, .number = 1};
    cli_json json = {0};
    const char *why;
    char *data;
    size_t len, line;
    struct stat info;
    if (stat(path, &info) != 0 || !S_ISREG(info.st_mode))
        return CLI_DONE; /* opening it for writing will fail, too */
    cli_text *input = &earlier.input;
    int code = cli_text_read_file(input, CLI_TEXT_OF_ANSWERS, path) ? CLI_DONE : CLI_FAILED;
    size_t whole = input->len, all = input->len; /* without a byte order mark */
    while (whole > 0 && input->data[whole - 1] != '\n')
        whole--;
    input->len = whole;
    while (code == CLI_DONE && (data = cli_records_line(&earlier, &len, &line)))
        code = cli_json_parse(&json, data, len, &why) ? read_row(b, &earlier, &json, line)
                                                      : refuse_output(path, line);
    if (code == CLI_DONE && !begins_row(input->data + whole, all - whole))
        code = refuse_output(path, earlier.number);
    if (code == CLI_DONE && whole < all && truncate(path, info.st_size - (off_t)(all - whole)) != 0)
        code = cli_fail("cannot shorten %s: %s", path, strerror(errno));
    cli_json_deinit(&json);
    cli_records_close(&earlier);
    return code;
}

static int fail_write(const batch *b) {
    return cli_fail("cannot write %s: %s", b->values->output, strerror(errno));
}

static int open_output(batch *b) {
    const char *path = b->values->output;
    b->out = stdout;
    if (!path) return CLI_DONE;
    int code = read_earlier(b, path);
    if (code != CLI_DONE) return code;
    b->out = fopen(path, "ab");
    return b->out ? CLI_DONE : fail_write(b);
}

static const char *finish_name(mica_finish finish) {
    return finish == MICA_FINISH_LENGTH ? "length" : "stop";
}

/* Prints the line of a row that has ended. */
static void print_row(FILE *out, const char *id, const mica_batch_row *result) {
    cli_print(out, ROW_ID "%s", id);
    if (result->status != MICA_OK) {
        cli_print(out, "%s", ROW_ERROR);
        cli_print_json(result->error, out);
    } else {
        cli_print(out, "%s", ROW_TEXT);
        cli_print_json_bytes(result->text, result->len, out);
        cli_print(out,
                  ", \"finish\": \"%s\", \"prompt_tokens\": %" PRId64 ", \"generated_tokens\": %zu",
                  finish_name(result->finish), result->metrics->prompt_tokens, result->count);
    }
    fputs("}\n", out);
}

/* Flushes the output; false after it reported that writing failed. */
static bool flush(batch *b) {
    if (b->out == stdout)
        b->cannot_write = !cli_flush();
    else if (fflush(b->out) != 0 || ferror(b->out))
        b->cannot_write = fail_write(b) != CLI_DONE;
    return !b->cannot_write;
}

/* Prints a row as soon as it ends, so that it survives an interruption. An interrupted row is not
 * printed: the next run repeats it. */
static void row_done(void *user, size_t row, const mica_batch_row *result) {
    batch *b = user;
    if (result->status == MICA_ECANCELLED || b->cannot_write) return;
    cli_progress_wipe();
    print_row(b->out, b->items[row].id, result);
    if (!flush(b)) {
        mica_cancel_set(b->task.cancel);
        return;
    }
    if (result->status == MICA_OK) {
        b->answered++;
        b->generated_tokens += (int64_t)result->count;
    } else {
        b->failed++;
    }
    cli_progress_tick(NULL, ++b->finished, b->total);
}

/* ---- work ---- */

/* Answers the items read so far, and frees them. returns an exit code */
static int answer(batch *b) {
    mica_batch_item rows[AT_ONCE];
    mica_generate_options options[AT_ONCE];
    mica_batch_results *results = NULL;
    double start = cli_seconds();
    for (size_t i = 0; i < b->count; i++) {
        const cli_batch_item *item = &b->items[i];
        options[i] = cli_answer_generate_options(&item->values);
        options[i].progress = NULL; /* the bar counts items */
        cli_constraint_set(&b->constraint, &options[i]);
        cli_constraint_set(&item->constraint, &options[i]); /* instead of that */
        if (item->messages && b->variables.len > 0)
            options[i].template_variables = b->variables.data;
        rows[i] = (mica_batch_item){item->prompt, item->messages, item->message_count, &options[i]};
    }
    mica_batch_options all = {.parallel = (int)b->values->parallel,
                              .done = row_done,
                              .user = b,
                              .cancel = b->task.cancel};
    mica_status status = mica_batch_generate(b->task.model, rows, b->count, &all, &results);
    int code = status == MICA_OK ? CLI_DONE : cli_task_fail(status);
    for (size_t i = 0; code == CLI_DONE && i < results->count; i++)
        if (results->rows[i].status == MICA_ECANCELLED) code = CLI_INTERRUPTED;
    if (b->cannot_write) code = CLI_FAILED;
    mica_batch_free(&results);
    while (b->count > 0)
        cli_batch_item_deinit(&b->items[--b->count]);
    b->seconds += cli_seconds() - start;
    return code;
}

/* Reports the error of a line, and prints a row with it. returns an exit code */
static int refuse(batch *b, const cli_batch_item *item, const char *why) {
    const mica_batch_row row = {.status = MICA_EFORMAT, .error = why};
    cli_records_complain(&b->records, item->line, why);
    print_row(b->out, item->id, &row);
    b->failed++;
    return flush(b) ? CLI_DONE : CLI_FAILED;
}

/* Takes the item at the end of b->items for an answer, refuses it, or skips it if an earlier run
 * has answered it. returns an exit code */
static int take(batch *b) {
    cli_batch_item *item = &b->items[b->count];
    int code = CLI_DONE;
    bool good = false;
    if (item->why[0]) {
        code = refuse(b, item, item->why);
    } else if (cli_ids_has(&b->seen, item->id)) {
        code = refuse(b, item, "its id is that of an earlier line");
    } else if (!cli_ids_add(&b->seen, item->id)) {
        code = CLI_FAILED;
    } else if (cli_ids_has(&b->done, item->id)) {
        b->skipped++;
    } else {
        b->count++;
        good = true;
    }
    if (good) return code;
    cli_batch_item_deinit(item);
    b->finished++;
    return code;
}

/* Reads all lines and answers those that an earlier run has not. returns an exit code */
static int answer_all(batch *b) {
    int code = CLI_DONE, got = 1;
    while (code == CLI_DONE && got > 0) {
        got = cli_batch_item_next(&b->records, &b->values->answer, &b->items[b->count]);
        if (got < 0) code = CLI_FAILED;
        if (got > 0) code = take(b);
        bool last = got == 0 && b->count > 0;
        if (code == CLI_DONE && (b->count == AT_ONCE || last)) code = answer(b);
    }
    while (b->count > 0)
        cli_batch_item_deinit(&b->items[--b->count]);
    return code;
}

static size_t count_lines(const cli_text *text) {
    size_t count = 0;
    for (size_t i = 0; i < text->len; i++)
        count += text->data[i] != '\n' && (i + 1 == text->len || text->data[i + 1] == '\n');
    return count;
}

static void print_summary(const batch *b) {
    cli_set_style(CLI_DIM);
    fprintf(stderr, "%" PRId64 " answered", b->answered);
    if (b->skipped > 0) fprintf(stderr, ", %" PRId64 " already there", b->skipped);
    if (b->failed > 0) fprintf(stderr, ", %" PRId64 " failed", b->failed);
    if (b->answered > 0)
        fprintf(stderr, ", %" PRId64 " tokens at %.1f tok/s", b->generated_tokens,
                (double)b->generated_tokens / b->seconds);
    cli_set_style(CLI_PLAIN);
    fputc('\n', stderr);
}

static int run(const void *verb_values, char **args, int count) {
    const batch_values *values = verb_values;
    const char *model_word, *file;
    batch b = {.values = values};
    const char *reads_stdin = cli_constraint_stdin(&values->constraint);
    cli_model_split(values->model.model, args, count, &model_word, &file);
    if (reads_stdin && (!file || strcmp(file, "-") == 0))
        return cli_usage("batch", "standard input has the prompts, not the file of %s",
                         reads_stdin);
    int code = cli_talk_variables(&values->talk, "batch", &b.variables);
    if (code == CLI_DONE) code = cli_constraint_read("batch", &values->constraint, &b.constraint);
    if (code == CLI_DONE) code = cli_records_open(&b.records, "batch", file);
    if (code == CLI_DONE) code = open_output(&b);
    if (code == CLI_DONE)
        code = cli_task_open(&b.task, &values->model, model_word, "batch", values->quiet);
    cli_answer_values answers = values->answer;
    if (code == CLI_DONE && !cli_answer_check(&answers, b.task.model)) code = CLI_FAILED;
    if (code == CLI_DONE) {
        b.items = calloc(AT_ONCE, sizeof *b.items);
        if (!b.items) code = cli_fail("out of memory");
    }
    if (code == CLI_DONE) {
        b.total = count_lines(&b.records.input);
        cli_progress_start("answers", values->quiet);
        code = answer_all(&b);
        cli_progress_clear();
        if (!values->quiet) print_summary(&b);
    }
    /* Some file systems report a write that failed only here. */
    if (b.out && b.out != stdout && fclose(b.out) != 0 && !b.cannot_write) code = fail_write(&b);
    cli_task_close(&b.task);
    cli_records_close(&b.records);
    cli_ids_deinit(&b.done);
    cli_ids_deinit(&b.seen);
    free(b.items);
    cli_constraint_deinit(&b.constraint);
    free(b.variables.data);
    return code == CLI_DONE && b.failed > 0 ? CLI_FAILED : code;
}

static const cli_option batch_options[] = {
    {.name = "output",
     .letter = 'o',
     .kind = CLI_FILE,
     .placeholder = "FILE",
     .help = "append answers to FILE, and skip prompts whose ids are in FILE already",
     .offset = offsetof(batch_values, output)},
    {.name = "parallel",
     .kind = CLI_INT,
     .placeholder = "N",
     .initial = "0",
     .max = 256,
     .help = "number of answers computed together; 0: the default, 8",
     .offset = offsetof(batch_values, parallel)},
    {.name = "quiet",
     .letter = 'q',
     .kind = CLI_FLAG,
     .help = "print no rates and no progress on stderr",
     .offset = offsetof(batch_values, quiet)},
};

const cli_verb cli_verb_batch = {
    .synopsis = "[MODEL] [FILE]",
    .details =
        "Answers each line of FILE. A line is a JSON object with a \"prompt\" (raw text), or\n"
        "with \"messages\": an array of {\"role\", \"content\"} for the model's chat format.\n"
        "It may have an \"id\" (default: the line's number) and options of an answer by\n"
        "their names: \"max_tokens\", \"temperature\", \"stop\", \"json_schema\" ...\n"
        "\n"
        "Each answer is printed on a line as soon as it is complete: {\"id\", \"text\",\n"
        "\"finish\", \"prompt_tokens\", \"generated_tokens\"} or {\"id\", \"error\"}. With "
        "--output\n"
        "an interrupted run continues where it ended, and repeats prompts that failed.\n"
        "\n"
        "FILE is standard input if it is - or missing. A single word is FILE, unless it is\n"
        "a model's folder. With --model it is always FILE.\n"
        "\n" CLI_DEFAULT_MODEL_HELP,
    .examples = "  mica batch prompts.jsonl --output answers.jsonl\n"
                "  echo '{\"prompt\": \"curl is\", \"max_tokens\": 8}' | mica batch\n",
    .max_args = 2,
    .words = CLI_WORDS_FILES,
    .values_bytes = sizeof(batch_values),
    .groups = {{"Batch", batch_options, CLI_COUNT(batch_options), 0},
               {"Answer", cli_answer_options, CLI_ANSWER_BATCH, offsetof(batch_values, answer)},
               {"Structured output", cli_constraint_options, CLI_CONSTRAINT_OPTIONS,
                offsetof(batch_values, constraint)},
               {"Chat format", cli_talk_options + 1, CLI_TALK_OPTIONS - 1,
                offsetof(batch_values, talk)},
               {"Model", cli_model_options, CLI_MODEL_CHAT, offsetof(batch_values, model)}},
    .run = run,
};
