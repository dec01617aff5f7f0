/* Checks that memory does not grow over many generations, or over opens and closes: the resident
 * memory and the device's.
 *
 *     memory MODEL [GENERATIONS [TOKENS [DEVICE [OPENS]]]]
 *
 * One session answers again and again, each time with an empty history; a long answer is told of in
 * ten parts. Then the model is opened, answers once, and is closed, OPENS times. Fails where the
 * resident memory grows by a tenth and 16 MiB from the first quarter on. */
#define _POSIX_C_SOURCE 200809L

#include <mica/mica.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

enum { LONG = 10000, PARTS = 10, CONTEXT = 256 };

/* Peak resident memory so far, in the system's unit, KiB on Linux. A leak makes it grow. */
static double resident(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_maxrss;
}

/* What was resident at a quarter of a run, and whether the end is as large. */
static double early;

static void note(int64_t i, int64_t all) {
    if (i == (all + 3) / 4) early = resident();
}

static mica_status is_flat(void) {
    if (early == 0 || resident() <= early * 1.1 + 16384) return MICA_OK;
    fprintf(stderr, "memory: %.0f KiB were resident at a quarter, and %.0f at the end\n", early,
            resident());
    return MICA_ENOMEM;
}

static mica_status generate(mica_session *session, int64_t tokens, mica_metrics *metrics) {
    const mica_generate_options options = {
        .max_tokens = tokens, .temperature = 0.8f, .top_p = 0.95f, .ignore_eos = true};
    mica_stream *stream = NULL;
    mica_token token;
    mica_session_reset(session);
    mica_status status = mica_generate(session, "What is curl?", 0, &options, &stream);
    if (status) return status;
    for (int64_t i = 1; mica_stream_next(stream, &token); i++) {
        if (tokens < LONG) continue;
        note(i, tokens);
        if (i % (tokens / PARTS) != 0) continue;
        mica_stream_metrics(stream, metrics);
        printf("%10lld tokens, %8.1f a second, %10.0f KiB resident, %8.1f MiB of the device\n",
               (long long)i, metrics->decode_rate, resident(),
               (double)metrics->active_bytes / 1048576.0);
        fflush(stdout);
    }
    mica_stream_metrics(stream, metrics);
    status = mica_stream_status(stream);
    mica_stream_close(&stream);
    return status;
}

static mica_status run(mica_session *session, int generations, int64_t tokens) {
    mica_metrics metrics = {.struct_bytes = sizeof metrics};
    double first = 1.0;
    if (generations > 0)
        printf("generation  tokens/s  most resident, of the first's  active MiB  peak MiB\n");
    for (int i = 1; i <= generations; i++) {
        mica_status status = generate(session, tokens, &metrics);
        if (status) return status;
        if (i == 1) first = resident();
        if (generations > 1) note(i, generations);
        if (i > 2 && i % 10 != 0 && i != generations) continue;
        printf("%10d  %8.1f  %29.3f  %10.1f  %8.1f\n", i, metrics.decode_rate, resident() / first,
               (double)metrics.active_bytes / 1048576.0, (double)metrics.peak_bytes / 1048576.0);
        fflush(stdout);
    }
    return generations > 0 ? is_flat() : MICA_OK;
}

/* Opens a model, lets a session answer, and closes both. */
static mica_status answer(const char *path, const char *device, int generations, int64_t tokens) {
    mica_model *model = NULL;
    mica_session *session = NULL;
    mica_model_options options = {.struct_bytes = sizeof options,
                                  .device_name = device,
                                  .context_length = tokens < LONG ? 0 : CONTEXT};
    mica_metrics metrics = {.struct_bytes = sizeof metrics};
    mica_status status = mica_model_open(path, &options, &model);
    if (!status) status = mica_session_open(model, NULL, &session);
    if (!status)
        status = generations > 0 ? run(session, generations, tokens)
                                 : generate(session, tokens, &metrics);
    if (status) fprintf(stderr, "%s\n", mica_last_error());
    mica_session_close(&session);
    mica_model_close(&model);
    return status;
}

int main(int argc, char **argv) {
    if (argc < 2) {
        fprintf(stderr, "usage: %s MODEL [GENERATIONS [TOKENS [DEVICE [OPENS]]]]\n", argv[0]);
        return 2;
    }
    int generations = argc > 2 ? atoi(argv[2]) : 100, opens = argc > 5 ? atoi(argv[5]) : 0;
    int64_t tokens = argc > 3 ? atoi(argv[3]) : 50;
    const char *device = argc > 4 ? argv[4] : NULL;
    mica_status status = MICA_OK;
    if (generations > 0) status = answer(argv[1], device, generations, tokens);
    early = 0;
    for (int i = 1; i <= opens && !status; i++) {
        status = answer(argv[1], device, 0, tokens);
        note(i, opens);
        if (i != 1 && i % 10 != 0 && i != opens) continue;
        printf("%10d opens, %10.0f KiB resident\n", i, resident());
        fflush(stdout);
    }
    if (!status && opens > 0) status = is_flat();
    return status != MICA_OK;
}
