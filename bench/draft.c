/* Compares speculative with plain decoding, on answers that repeat themselves or their prompt, and
 * on others.
 *
 *     draft MODEL [DRAFT_TOKENS [TOKENS]]
 *
 * Greedy and sampled answers to some prompts are decoded with and without drafts, alternately; the
 * best of several runs counts. Both answers must be the same. */
#include <mica/mica.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RUNS = 5, MAX = 1024 };

typedef struct text {
    const char *name, *prompt;
    float temperature;
} text;

static const text texts[] = {
    {"greedy: loops", "curl is", 0.0f},
    {"greedy: a list", "1. one\n2. two\n3. three\n4. four\n5. five\n6.", 0.0f},
    {"greedy: code",
     "static int add(int a, int b) { return a + b; }\nstatic int sub(int a, int b) { return a - b; "
     "}\n"
     "static int mul(int a, int b) {",
     0.0f},
    {"drawn at 0.7", "The sea was calm that morning, and", 0.7f},
    {"drawn at 1", "The sea was calm that morning, and", 1.0f},
    {"drawn at 1.5", "Once upon a time", 1.5f},
};

typedef struct run {
    int32_t ids[MAX];
    size_t count;
    mica_metrics metrics;
    double seconds; /* of the best run */
} run;

static mica_status measure(mica_session *session, const text *t, int draft, int64_t tokens,
                           run *r) {
    const mica_generate_options options = {.max_tokens = tokens,
                                           .temperature = t->temperature,
                                           .seed = 7,
                                           .ignore_eos = true,
                                           .draft_tokens = draft};
    mica_stream *stream = NULL;
    mica_token token;
    mica_session_reset(session);
    mica_status status = mica_generate(session, t->prompt, 0, &options, &stream);
    r->count = 0;
    while (stream && mica_stream_next(stream, &token))
        if (token.id >= 0) r->ids[r->count++] = token.id;
    if (stream) {
        status = mica_stream_status(stream);
        r->metrics.struct_bytes = sizeof r->metrics;
        mica_stream_metrics(stream, &r->metrics);
    }
    mica_stream_close(&stream);
    if (r->seconds == 0.0 || r->metrics.decode_seconds < r->seconds)
        r->seconds = r->metrics.decode_seconds;
    return status;
}

static mica_status compare(mica_session *session, const text *t, int draft, int64_t tokens) {
    static run plain, guessed;
    plain.seconds = guessed.seconds = 0.0;
    for (int i = 0; i < RUNS; i++) {
        mica_status status = measure(session, t, 0, tokens, &plain);
        if (!status) status = measure(session, t, draft, tokens, &guessed);
        if (status) return status;
    }
    const mica_metrics *m = &guessed.metrics;
    bool same = plain.count == guessed.count &&
                memcmp(plain.ids, guessed.ids, plain.count * sizeof *plain.ids) == 0;
    printf("%-16s  %8.1f  %8.1f  %6.2f  %7lld  %8lld%s\n", t->name,
           (double)plain.count / plain.seconds, (double)guessed.count / guessed.seconds,
           plain.seconds / guessed.seconds, (long long)m->drafted_tokens,
           (long long)m->accepted_tokens, same ? "" : "  NOT THE SAME");
    fflush(stdout);
    return MICA_OK;
}

int main(int argc, char **argv) {
    mica_model *model = NULL;
    mica_session *session = NULL;
    if (argc < 2) {
        fprintf(stderr, "usage: %s MODEL [DRAFT_TOKENS [TOKENS]]\n", argv[0]);
        return 2;
    }
    int draft = argc > 2 ? atoi(argv[2]) : 7;
    int64_t tokens = argc > 3 ? atoi(argv[3]) : 256;
    if (tokens > MAX) tokens = MAX;
    mica_status status = mica_model_open(argv[1], NULL, &model);
    if (!status) status = mica_session_open(model, NULL, &session);
    printf("%-16s  plain t/s  with t/s   ratio  drafted  accepted\n", "");
    for (size_t i = 0; !status && i < sizeof texts / sizeof *texts; i++)
        status = compare(session, &texts[i], draft, tokens);
    if (status) fprintf(stderr, "%s\n", mica_last_error());
    mica_session_close(&session);
    mica_model_close(&model);
    return status != MICA_OK;
}
