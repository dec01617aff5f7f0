/* Checks that memory does not grow over many generations: the resident memory and the device's.
 *
 *     memory MODEL [GENERATIONS [TOKENS]]
 *
 * One session answers again and again, each time with an empty history. */
#define _POSIX_C_SOURCE 200809L

#include <mica/mica.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

/* Peak resident memory so far, in the system's unit. A leak makes it grow. */
static double resident(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_maxrss;
}

static mica_status generate(mica_session *session, int64_t tokens, mica_metrics *metrics) {
    const mica_generate_options options = {
        .max_tokens = tokens, .temperature = 0.8f, .top_p = 0.95f, .ignore_eos = true};
    mica_stream *stream = NULL;
    mica_token token;
    mica_session_reset(session);
    mica_status status = mica_generate(session, "What is curl?", 0, &options, &stream);
    if (status) return status;
    while (mica_stream_next(stream, &token)) {}
    mica_stream_metrics(stream, metrics);
    status = mica_stream_status(stream);
    mica_stream_close(&stream);
    return status;
}

static mica_status run(mica_session *session, int generations, int64_t tokens) {
    mica_metrics metrics = {.struct_bytes = sizeof metrics};
    double first = 1.0;
    printf("generation  tokens/s  most resident, of the first's  active MiB  peak MiB\n");
    for (int i = 1; i <= generations; i++) {
        mica_status status = generate(session, tokens, &metrics);
        if (status) return status;
        if (i == 1) first = resident();
        if (i > 2 && i % 10 != 0 && i != generations) continue;
        printf("%10d  %8.1f  %29.3f  %10.1f  %8.1f\n", i, metrics.decode_rate, resident() / first,
               (double)metrics.active_bytes / 1048576.0, (double)metrics.peak_bytes / 1048576.0);
        fflush(stdout);
    }
    return MICA_OK;
}

int main(int argc, char **argv) {
    mica_model *model = NULL;
    mica_session *session = NULL;
    if (argc < 2) {
        fprintf(stderr, "usage: %s MODEL [GENERATIONS [TOKENS]]\n", argv[0]);
        return 2;
    }
    mica_status status = mica_model_open(argv[1], NULL, &model);
    if (!status) status = mica_session_open(model, NULL, &session);
    if (!status)
        status = run(session, argc > 2 ? atoi(argv[2]) : 100, argc > 3 ? atoi(argv[3]) : 50);
    if (status) fprintf(stderr, "%s\n", mica_last_error());
    mica_session_close(&session);
    mica_model_close(&model);
    return status != MICA_OK;
}
