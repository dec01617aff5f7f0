/* mica bench: prefill and decode rates. */
#define _POSIX_C_SOURCE 200809L
#include "disk.h"
#include "info.h"
#include "interrupt.h"
#include "model.h"
#include "print.h"
#include "report.h"
#include "text.h"
#include "ui.h"
#include "verb.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_REPEATS = 100 };

typedef struct bench_values {
    cli_model_values model; /* except threads and context */
    cli_ints prompts, threads;
    int64_t generate, repeat;
    bool json, distances;
} bench_values;

/* One row: medians over the repeats. */
typedef struct row {
    int threads;
    int64_t prompt, generated;
    double prefill_rate, decode_rate;
    uint64_t peak_bytes;
    uint64_t disk_bytes; /* read from disks meanwhile, the warm-up included */
} row;

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, size_t n) {
    qsort(values, n, sizeof *values, by_value);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/* Pseudo-random ids, the same in every run, without special ones. returns NULL: out of memory */
static int32_t *make_ids(const mica_model *model, int64_t count) {
    const mica_tokenizer *tok = mica_model_tokenizer(model);
    uint64_t vocab = mica_tokenizer_vocab_size(tok);
    int32_t *ids = malloc((size_t)count * sizeof *ids);
    uint64_t state = 1;
    for (int64_t i = 0; ids && i < count; i++) {
        int32_t id = 0;
        for (int tries = 0; tries < 100; tries++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            id = (int32_t)((state >> 33) % vocab);
            if (!mica_tokenizer_is_special(tok, id)) break;
        }
        ids[i] = id;
    }
    return ids;
}

/* The progress of a row, in tokens. */
typedef struct progress {
    uint64_t done, total; /* done: before this run */
} progress;

static void prefill_tick(void *user, uint64_t done, uint64_t total) {
    const progress *p = user;
    (void)total;
    cli_progress_tick(NULL, p->done + done, p->total);
}

/* Measures one prompt and its answer in an empty session. returns an exit code */
static int measure(mica_session *session, const int32_t *ids, int64_t prompt, int64_t generate,
                   progress *p, mica_metrics *metrics) {
    mica_stream *stream = NULL;
    mica_token token;
    mica_generate_options options = {
        .max_tokens = generate, .ignore_eos = true, .progress = prefill_tick, .progress_user = p};
    uint64_t tokens = (uint64_t)(prompt + generate), left = (uint64_t)generate;
    mica_session_reset(session);
    mica_status status = mica_generate_ids(session, ids, (size_t)prompt, &options, &stream);
    if (status == MICA_OK) {
        cli_interrupt_watch(stream);
        while (mica_stream_next(stream, &token))
            cli_progress_tick(NULL, p->done + tokens - --left, p->total);
        cli_interrupt_watch(NULL);
        status = mica_stream_status(stream);
        *metrics = cli_metrics(stream);
    }
    mica_stream_close(&stream);
    p->done += tokens;
    if (status == MICA_ECANCELLED) return CLI_INTERRUPTED;
    return status == MICA_OK ? CLI_DONE : cli_fail_status(status);
}

/* Measures a row: a warm-up that is not counted, then the repeats. */
static int measure_row(const mica_model *model, mica_session *session, const bench_values *values,
                       int64_t prompt, row *out) {
    double prefill[MAX_REPEATS], decode[MAX_REPEATS];
    mica_metrics metrics = {0};
    char label[80];
    progress p = {.total = (uint64_t)((values->repeat + 1) * (prompt + values->generate))};
    int threads = cli_device_info(mica_model_device(model)).threads;
    int32_t *ids = make_ids(model, prompt);
    uint64_t disk_bytes = cli_disk_read_bytes();
    int code = ids ? CLI_DONE : cli_fail("out of memory");
    snprintf(label, sizeof label, "threads %d, prompt %" PRId64, threads, prompt);
    cli_progress_start(label, false);
    for (int64_t i = -1; code == CLI_DONE && i < values->repeat; i++) {
        if (i == 0) mica_device_reset_peak(mica_model_device(model));
        code = measure(session, ids, prompt, values->generate, &p, &metrics);
        if (i >= 0) {
            prefill[i] = metrics.prefill_rate;
            decode[i] = metrics.decode_rate;
        }
    }
    cli_progress_clear();
    free(ids);
    if (code != CLI_DONE) return code;
    *out = (row){.threads = threads,
                 .prompt = prompt,
                 .generated = metrics.generated_tokens,
                 .prefill_rate = median(prefill, (size_t)values->repeat),
                 .decode_rate = median(decode, (size_t)values->repeat),
                 .peak_bytes = metrics.peak_bytes,
                 .disk_bytes = cli_disk_read_bytes() - disk_bytes};
    return CLI_DONE;
}

/* Prints the kernels of the matmuls, a line for each kind of matrices:
 * "fast: 4 bit, groups of 64 (affine) by int8; one row avx512vnni, many amx". */
static void print_kernels(const mica_model *model) {
    mica_model_kernels k = {.struct_bytes = sizeof k};
    for (size_t i = 0; mica_model_get_kernels(model, i, &k); i++)
        cli_print(stdout, "%-7s %s: %s%s by %s; one row %s, many %s\n", i == 0 ? "kernels" : "",
                  k.attention ? "attention" : cli_arithmetic_name(k.arithmetic),
                  k.attention ? "caches of " : "", k.matrix, k.activations, k.one_row, k.many_rows);
}

static void print_kernels_json(const mica_model *model, cli_text *json) {
    mica_model_kernels k = {.struct_bytes = sizeof k};
    cli_text_printf(json, ",\n  \"kernels\": [");
    for (size_t i = 0; mica_model_get_kernels(model, i, &k); i++) {
        cli_text_printf(json, "%s\n    {\"kernel_for\": \"%s\", \"matrix\": ", i == 0 ? "" : ",",
                        k.attention ? "attention" : "weights");
        cli_text_append_json(json, k.matrix, strlen(k.matrix));
        cli_text_printf(json,
                        ", \"arithmetic\": \"%s\", \"activations\": \"%s\", \"one_row\": \"%s\""
                        ", \"many_rows\": \"%s\"}",
                        cli_arithmetic_name(k.arithmetic), k.activations, k.one_row, k.many_rows);
    }
    cli_text_printf(json, "\n  ]");
}

/* Prints the table's head. json: receives JSON instead; NULL: a table is printed. */
static void print_head(const mica_model *model, const bench_values *values, cli_text *json) {
    mica_model_info info = cli_model_info(model);
    mica_device_info device = cli_device_info(mica_model_device(model));
    char count[CLI_NUMBER], bytes[CLI_NUMBER], read[CLI_NUMBER];
    if (json) {
        cli_text_printf(json, "{\n  \"mica\": \"%s\",\n  \"model\": ", mica_version());
        cli_text_append_json(json, info.path, strlen(info.path));
        cli_text_printf(json, ",\n  \"device\": ");
        cli_text_append_json(json, device.name, strlen(device.name));
        cli_text_printf(json, ",\n  \"description\": ");
        cli_text_append_json(json, device.description, strlen(device.description));
        cli_text_printf(json, ",\n  \"architecture\": ");
        cli_text_append_json(json, device.architecture, strlen(device.architecture));
        cli_text_printf(json, ",\n  \"arithmetic\": \"%s\",\n  \"quantization\": ",
                        cli_arithmetic_name(info.arithmetic));
        cli_text_append_json(json, info.quantization, strlen(info.quantization));
        cli_text_printf(json, ",\n  \"dtype\": ");
        cli_text_append_json(json, info.dtype, strlen(info.dtype));
        cli_text_printf(json, ",\n  \"weight_bytes\": %" PRIu64 ",\n  \"active_bytes\": %" PRIu64,
                        info.weight_bytes, info.active_bytes);
        print_kernels_json(model, json);
        cli_text_printf(json, ",\n  \"repeat\": %" PRId64 ",\n  \"results\": [", values->repeat);
        return;
    }
    cli_print(stdout, "model   %s, %s parameters, %s\n", info.path,
              cli_format_count(info.parameters, count), cli_format_bytes(info.weight_bytes, bytes));
    if (info.active_bytes)
        cli_print(stdout, "reads   %s of these for a token\n",
                  cli_format_bytes(info.active_bytes, read));
    if (mica_model_device(model))
        cli_print(stdout, "device  %s, %s%s%s\n", device.name, device.description,
                  device.architecture[0] ? ", " : "", device.architecture);
    else
        cli_print(stdout, "engine  %s\n", info.engine);
    print_kernels(model);
    printf("median of %" PRId64 "\n\n", values->repeat);
    cli_print(stdout, "%7s  %7s  %13s  %9s  %12s  %11s  %9s\n", "threads", "prompt",
              "prefill tok/s", "generated", "decode tok/s", "peak memory", "from disk");
}

static void print_row(const row *r, cli_text *json, bool first) {
    char bytes[CLI_NUMBER], disk[CLI_NUMBER];
    if (json)
        cli_text_printf(json,
                        "%s\n    {\"threads\": %d, \"prompt_tokens\": %" PRId64
                        ", \"generated_tokens\": %" PRId64 ", \"prefill_rate\": %.2f"
                        ", \"decode_rate\": %.2f, \"peak_bytes\": %" PRIu64
                        ", \"disk_bytes\": %" PRIu64 "}",
                        first ? "" : ",", r->threads, r->prompt, r->generated, r->prefill_rate,
                        r->decode_rate, r->peak_bytes, r->disk_bytes);
    else
        cli_print(stdout, "%7d  %7" PRId64 "  %13.1f  %9" PRId64 "  %12.1f  %11s  %9s\n",
                  r->threads, r->prompt, r->prefill_rate, r->generated, r->decode_rate,
                  cli_format_bytes(r->peak_bytes, bytes), cli_format_bytes(r->disk_bytes, disk));
}

/* Measures all rows of one number of threads. *rows counts the printed rows. */
static int bench_threads(const char *path, int threads, const bench_values *values, cli_text *json,
                         size_t *rows) {
    mica_session *session = NULL;
    mica_model_options options = cli_model_get_options(&values->model);
    options.threads = threads;
    mica_model *model = cli_model_open(path, &options, values->json);
    int code = CLI_DONE;
    if (!model) return CLI_FAILED;
    if (*rows == 0) print_head(model, values, json);
    mica_status status = mica_session_open(model, NULL, &session);
    if (status != MICA_OK) code = cli_fail_status(status);

    int64_t context = cli_model_info(model).context_length;
    for (size_t i = 0; code == CLI_DONE && i < values->prompts.count; i++) {
        row r;
        int64_t prompt = values->prompts.values[i];
        if (prompt + values->generate > context) {
            fprintf(stderr,
                    "mica: skipped: %" PRId64 " and %" PRId64
                    " tokens do not fit the context of %" PRId64 "\n",
                    prompt, values->generate, context);
            continue;
        }
        code = measure_row(model, session, values, prompt, &r);
        if (code == CLI_DONE) {
            print_row(&r, json, *rows == 0);
            ++*rows;
            code = cli_flush() ? CLI_DONE : CLI_FAILED;
        }
    }
    mica_session_close(&session);
    mica_model_close(&model);
    return code;
}

static int bench(const char *path, const bench_values *values, cli_text *json) {
    int code = CLI_DONE;
    size_t rows = 0;
    for (size_t i = 0; code == CLI_DONE && i < values->threads.count; i++)
        code = bench_threads(path, (int)values->threads.values[i], values, json, &rows);
    return code == CLI_DONE && rows == 0 ? cli_fail("nothing was measured") : code;
}

/* Prints JSON when all is measured; nothing if a run fails. */
static int bench_json(const char *path, const bench_values *values) {
    cli_text json = {0};
    int code = bench(path, values, &json);
    cli_text_printf(&json, "\n  ]\n}\n");
    if (json.failed) code = CLI_FAILED;
    if (code == CLI_DONE) cli_print_result(json.data, json.len);
    free(json.data);
    return code;
}

/* ---- distances of prefetches ---- */

/* Measures with one distance, in bytes; 0: each kernel's own. */
static int bench_distance(const char *path, const bench_values *values, int bytes, row *out) {
    char text[16];
    mica_session *session = NULL;
    mica_model_options options = cli_model_get_options(&values->model);
    options.threads = (int)values->threads.values[0];
    snprintf(text, sizeof text, "%d", bytes);
    if ((bytes ? setenv("MICA_AHEAD", text, 1) : unsetenv("MICA_AHEAD")) != 0)
        return cli_fail("out of memory");
    mica_model *model = cli_model_open(path, &options, true);
    if (!model) return CLI_FAILED;
    mica_status status = mica_session_open(model, NULL, &session);
    int code = status == MICA_OK ? CLI_DONE : cli_fail_status(status);
    if (code == CLI_DONE)
        code = measure_row(model, session, values, values->prompts.values[0], out);
    mica_session_close(&session);
    mica_model_close(&model);
    return code;
}

static void print_best(const char *what, int distance, double rate, double own) {
    if (distance == 0)
        cli_print(stdout, "best %s: the kernels' own distances\n", what);
    else
        cli_print(stdout, "best %s: MICA_AHEAD=%d, %+.1f %%\n", what, distance,
                  100 * (rate / own - 1));
}

/* Measures with several distances, and names the best for each rate. The kernels' own are measured
 * before and after the others, and the better of the two counts. */
static int bench_distances(const char *path, const bench_values *values) {
    static const int distances[] = {0, 1024, 2048, 4096, 8192, 16384, 32768, 0};
    enum { LAST = sizeof distances / sizeof *distances - 1 };
    row rows[LAST + 1] = {{0}};
    int code = CLI_DONE, prefill = 0, decode = 0;
    cli_print(stdout, "%8s  %13s  %12s\n", "distance", "prefill tok/s", "decode tok/s");
    for (int i = 0; code == CLI_DONE && i <= LAST; i++) {
        char name[16] = "own";
        code = bench_distance(path, values, distances[i], &rows[i]);
        if (code != CLI_DONE) return code;
        if (distances[i]) snprintf(name, sizeof name, "%d", distances[i]);
        cli_print(stdout, "%8s  %13.1f  %12.1f\n", name, rows[i].prefill_rate, rows[i].decode_rate);
        if (rows[i].prefill_rate > rows[prefill].prefill_rate) prefill = i;
        if (rows[i].decode_rate > rows[decode].decode_rate) decode = i;
        code = cli_flush() ? CLI_DONE : CLI_FAILED;
    }
    const row *first = &rows[0], *last = &rows[LAST];
    print_best("prefill", distances[prefill], rows[prefill].prefill_rate,
               first->prefill_rate > last->prefill_rate ? first->prefill_rate : last->prefill_rate);
    print_best("decode", distances[decode], rows[decode].decode_rate,
               first->decode_rate > last->decode_rate ? first->decode_rate : last->decode_rate);
    return code;
}

static int run(const void *verb_values, char **args, int count) {
    const bench_values *values = verb_values;
    int code = CLI_DONE;
    if (values->distances && values->json)
        return cli_usage("bench", "--prefetch-distance prints a table: it does not go with --json");
    const char *path = cli_model_find(values->model.model, count > 0 ? args[0] : NULL,
                                      values->model.yes, "bench", &code);
    if (!path) return code;
    if (values->distances) return bench_distances(path, values);
    return values->json ? bench_json(path, values) : bench(path, values, NULL);
}

static const cli_option bench_options[] = {
    CLI_OPTION(INTS, "prompt", bench_values, prompts, .letter = 'p', .placeholder = "N,...",
               .initial = "128,512", .min = 1, .max = 1e9,
               .help = "lengths of the prompts, in tokens"),
    CLI_OPTION(INT, "generate", bench_values, generate, .letter = 'n', .placeholder = "N",
               .initial = "64", .min = 1, .max = 1e9,
               .help = "number of tokens to generate after each prompt"),
    CLI_OPTION(INTS, "threads", bench_values, threads, .letter = 't', .placeholder = "N,...",
               .initial = "0", .max = 1024,
               .help = "numbers of threads that compute; 0: one per core"),
    CLI_OPTION(INT, "repeat", bench_values, repeat, .letter = 'r', .placeholder = "N",
               .initial = "3", .min = 1, .max = MAX_REPEATS,
               .help = "number of runs, after a warm-up; their median is printed"),
    CLI_OPTION(FLAG, "prefetch-distance", bench_values, distances,
               .help = "try how far ahead of their use weights are prefetched, and print the best"),
    CLI_OPTION(FLAG, "json", bench_values, json, .help = "print a JSON object"),
};

const cli_verb cli_verb_bench = {
    .synopsis = "[MODEL]",
    .details =
        "Measures the rates of prefill and decode, in tokens a second, for each number of\n"
        "threads and each length of prompt, the memory beside the weights, and what was read\n"
        "from disks meanwhile: of a model that is larger than the memory, more than once.\n"
        "The environment variable MICA_CPU limits the instruction sets: avx2 uses none\n"
        "after AVX2; an unknown name lists them all.\n"
        "\n"
        "--prefetch-distance measures with the first prompt and the first number of threads.\n"
        "The variable MICA_AHEAD gives most kernels one distance, in bytes. On a processor\n"
        "that mica was not timed on, please report the best.\n"
        "\n" CLI_DEFAULT_MODEL_HELP,
    .examples = "  mica bench ~/models/gemma-3-1b-it --prompt 512,4096 --threads 1,2,4\n",
    .max_args = 1,
    .words = CLI_WORDS_FOLDERS,
    .values_bytes = sizeof(bench_values),
    .groups = {{"Measurement", bench_options, CLI_COUNT(bench_options), 0},
               {"Model", cli_model_options, CLI_MODEL_LOADING, offsetof(bench_values, model)}},
    .run = run,
};
