/* mica batch: answers to a file of prompts. */
#define _DEFAULT_SOURCE /* flock */
#define _DARWIN_C_SOURCE
#include "batch_row.h"
#include "ids.h"
#include "info.h"
#include "interrupt.h"
#include "print.h"
#include "report.h"
#include "shard.h"
#include "talk.h"
#include "task.h"
#include "ui.h"
#include "verb.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct batch_values {
    cli_model_values model;
    cli_answer_values answer;
    cli_constraint_values constraint;
    cli_talk_values talk; /* has no system message */
    const char *output, *shard;
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
    bool again; /* some failed for want of memory, or by the device */
    cli_shard shard;
    size_t place;      /* of the next line among those that are not empty */
    const char *name;  /* the model's, in answers of OpenAI's form */
    double told, from; /* when the last line of progress was written, and the first was due */
} batch;

/* ---- output ---- */

static int refuse_output(const char *path, size_t line) {
    int code = cli_fail("%s, line %zu: this is not an output of mica batch", path, line);
    cli_hint("Name another --output, or remove that file.");
    return code;
}

/* Reads the id of an earlier run's row. A prompt that failed is left out.  returns an exit code */
static int read_row(batch *b, const cli_records *earlier, const cli_json *json, size_t line) {
    bool answered;
    if (!cli_batch_row_is(json, &answered)) return refuse_output(earlier->name, line);
    if (!answered) return CLI_DONE;
    char *id = cli_records_id(earlier, json, line);
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
    if (code == CLI_DONE && !cli_batch_row_begins(input->data + whole, all - whole))
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
    b->out = fopen(path, "ab");
    if (!b->out) return fail_write(b);
    if (flock(fileno(b->out), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return cli_fail("another mica batch is writing %s: each needs an --output of its own",
                        path);
    return read_earlier(b, path);
}

/* Flushes the output; false after it reported that writing failed. */
static bool flush(batch *b) {
    if (b->out == stdout)
        b->cannot_write = !cli_flush();
    else if (fflush(b->out) != 0 || ferror(b->out))
        b->cannot_write = fail_write(b) != CLI_DONE;
    return !b->cannot_write;
}

/* A line of JSON a minute, where nobody sees a bar: for a scheduler's log. */
static void tell_progress(batch *b) {
    enum { EACH_S = 60 };
    double now = cli_seconds();
    if (b->values->quiet || cli_stderr_is_terminal() || now < b->told + EACH_S) return;
    b->told = now;
    fprintf(stderr,
            "{\"shard\": \"%zu/%zu\", \"answered\": %" PRId64 ", \"failed\": %" PRId64
            ", \"skipped\": %" PRId64 ", \"total\": %zu, \"generated_tokens\": %" PRId64
            ", \"seconds\": %.0f}\n",
            b->shard.index + 1, b->shard.count, b->answered, b->failed, b->skipped, b->total,
            b->generated_tokens, now - b->from);
}

/* Prints a row as soon as it ends, so that it survives an interruption. An interrupted row is not
 * printed: the next run repeats it. */
static void row_done(void *user, size_t row, const mica_batch_row *result) {
    batch *b = user;
    if (result->status == MICA_ECANCELLED || b->cannot_write) return;
    cli_progress_wipe();
    cli_batch_row_print(b->out, &b->items[row], result, b->name);
    if (!flush(b)) {
        mica_cancel_set(b->task.cancel);
        return;
    }
    if (result->status == MICA_OK) {
        b->answered++;
        b->generated_tokens += (int64_t)result->count;
    } else {
        b->failed++;
        b->again |= result->status == MICA_ENOMEM || result->status == MICA_EDEVICE ||
                    result->status == MICA_EIO;
    }
    cli_progress_tick(NULL, ++b->finished, b->total);
    tell_progress(b);
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
    cli_batch_row_print(b->out, item, &row, b->name);
    b->failed++;
    return flush(b) ? CLI_DONE : CLI_FAILED;
}

/* Takes the item at the end of b->items for an answer, refuses it, or skips it if an earlier run
 * has answered it, or another process does. returns an exit code */
static int take_item(batch *b) {
    cli_batch_item *item = &b->items[b->count];
    int code = CLI_DONE;
    bool good = false;
    if (!cli_shard_has(&b->shard, b->place++)) {
        cli_batch_item_deinit(item);
        return CLI_DONE;
    }
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
        if (got > 0) code = take_item(b);
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
    if (b->shard.count > 1)
        cli_print(stderr, "shard %zu of %zu%s%s%s%s%s: ", b->shard.index + 1, b->shard.count,
                  b->shard.source ? " (" : "", b->shard.source ? b->shard.source : "",
                  b->shard.and_source ? ", " : "", b->shard.and_source ? b->shard.and_source : "",
                  b->shard.source ? ")" : "");
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
    if (!cli_shard_read(values->shard, &b.shard))
        return cli_usage("batch", "--shard: '%s' is not I/N, with I from 1 to N", values->shard);
    if (b.shard.gaps)
        return cli_usage("batch",
                         "%s: some jobs of this array are missing, so --shard I/N must "
                         "say which part is meant",
                         b.shard.source);
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
        size_t lines = count_lines(&b.records.input);
        b.total = (lines + b.shard.count - 1 - b.shard.index) / b.shard.count;
        b.name = cli_model_info(b.task.model).path;
        b.from = b.told = cli_seconds();
        cli_interrupt_take_term();
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
    /* What was not answered for no fault of its own can be tried again. */
    if (cli_interrupt_by_term() || b.cannot_write || b.again) return CLI_AGAIN;
    return code == CLI_DONE && b.failed > 0 ? CLI_FAILED : code;
}

static const cli_option batch_options[] = {
    CLI_OPTION(FILE, "output", batch_values, output, .letter = 'o', .placeholder = "FILE",
               .help = "append answers to FILE, and skip prompts whose ids are in FILE already"),
    CLI_OPTION(TEXT, "shard", batch_values, shard, .placeholder = "I/N",
               .help = "answer the I-th of N parts of the lines, I from 1 to N; the default is "
                       "what Slurm, Grid Engine, LSF or mpirun has set for this process"),
    CLI_OPTION(INT, "parallel", batch_values, parallel, .placeholder = "N", .initial = "0",
               .max = 256, .help = "number of answers computed together; 0: the default, 8"),
    CLI_OPTION(FLAG, "quiet", batch_values, quiet, .letter = 'q',
               .help = "print no rates and no progress on stderr"),
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
        "A line may also be a request of OpenAI's batches, {\"custom_id\", \"body\"}, of chat\n"
        "or of completions. Its answer is as there: {\"custom_id\", \"response\", \"error\"}.\n"
        "\n"
        "The exit code is 0 if all prompts are answered, 75 if the same command may answer\n"
        "more: SIGTERM has ended it, memory or the device failed, or the output is full.\n"
        "\n"
        "FILE is standard input if it is - or missing. A single word is FILE, unless it is\n"
        "a model's folder. With --model it is always FILE.\n"
        "\n" CLI_DEFAULT_MODEL_HELP,
    .examples = "  mica batch prompts.jsonl --output answers.jsonl\n"
                "  echo '{\"prompt\": \"curl is\", \"max_tokens\": 8}' | mica batch\n",
    .max_args = 2,
    .words = CLI_WORDS_FILES,
    .ranks = CLI_RANKS_APART,
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
