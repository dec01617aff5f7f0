/* Times a prompt and its answer by the process's own clock, so that other programs on the machine
 * count little.
 *
 *     own_clock MODEL PROMPT GENERATE [THREADS]
 *
 * Prints the tokens a second of the prompt and of the answer's, after one run that is not counted:
 * of THREADS (1) times the processor's time, which is what threads have that run all the time.
 * `mica bench` prints rates by the clock on the wall. */
#define _POSIX_C_SOURCE 200809L
#include <mica/mica.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { MAX_PROMPT = 1 << 16, BYTES = 256 };

static double own_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Seconds of the prompt, which the first token ends, and of the other tokens. */
static mica_status measure(mica_session *session, const int32_t *ids, size_t n, int64_t generate,
                           double seconds[2]) {
    mica_stream *stream = NULL;
    mica_token token;
    mica_session_reset(session);
    double began = own_seconds(), first = began;
    mica_status status = mica_generate_ids(
        session, ids, n, &(mica_generate_options){.max_tokens = generate + 1, .ignore_eos = true},
        &stream);
    for (int64_t i = 0; status == MICA_OK && mica_stream_next(stream, &token); i++)
        if (i == 0) first = own_seconds();
    seconds[0] = first - began;
    seconds[1] = own_seconds() - first;
    if (status == MICA_OK) status = mica_stream_status(stream);
    mica_stream_close(&stream);
    return status;
}

int main(int argc, char **argv) {
    int prompt = argc > 3 ? atoi(argv[2]) : 0, generate = argc > 3 ? atoi(argv[3]) : 0;
    int threads = argc > 4 ? atoi(argv[4]) : 1;
    static int32_t ids[MAX_PROMPT];
    double seconds[2] = {1, 1};
    mica_model *model = NULL;
    mica_session *session = NULL;
    if (prompt < 1 || prompt > MAX_PROMPT || generate < 1 || threads < 1) {
        fprintf(stderr, "usage: own_clock MODEL PROMPT GENERATE [THREADS]\n");
        return 2;
    }
    uint32_t state = 1;
    for (int i = 0; i < prompt; i++)
        ids[i] = (int32_t)((state = state * 1664525u + 1013904223u) >> 16) % BYTES;
    mica_status status =
        mica_model_open(argv[1], &(mica_model_options){.threads = threads}, &model);
    if (status == MICA_OK) status = mica_session_open(model, NULL, &session);
    for (int run = 0; status == MICA_OK && run < 2; run++)
        status = measure(session, ids, (size_t)prompt, generate, seconds);
    if (status == MICA_OK)
        printf("[%.2f, %.2f]\n", prompt * threads / seconds[0], generate * threads / seconds[1]);
    else
        fprintf(stderr, "%s\n", mica_last_error());
    mica_session_close(&session);
    mica_model_close(&model);
    return status != MICA_OK;
}
