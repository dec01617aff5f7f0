/* Clients of a schedule, each of which asks anew when its answer has ended: tokens a second of all,
 * the time to the first token, and that between two tokens.
 *
 *     schedule MODEL [CLIENTS [PROMPT [ANSWER [STEP_TOKENS [ROUNDS [SHARED [TEMPERATURE
 *              [DRAFT_TOKENS [SCHEMA]]]]]]]]]
 *
 * PROMPT and ANSWER are numbers of tokens, 200 and 50 by default; STEP_TOKENS as in
 * mc_schedule_options. CLIENTS 0: 1, 4, 8 and 16. Each client asks ROUNDS times, 4 by default. The
 * first SHARED tokens of all prompts are alike. Answers are greedy, or drawn at TEMPERATURE, with
 * up to DRAFT_TOKENS guesses. With SCHEMA, a file, they are documents of that JSON schema; the last
 * columns are then what masks took and what answers waited for them, with nothing known of the
 * schema at first. $MICA_DEVICE names the device. */
#define _POSIX_C_SOURCE 200809L

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/buffer.h"
#include "base/filemap.h"
#include "base/system.h"
#include "grammar/answer_grammar.h"
#include "grammar/grammar_constraint.h"
#include "schedule/schedule.h"
#include "timing.h"

enum { MAX_CLIENTS = 256, MAX_PROMPT = 32768 };

typedef struct bench {
    mc_schedule *schedule;
    mica_generate_options generate;
    size_t prompt, shared;
    int64_t vocab;
    const mica_tokenizer *tokenizer;
    mc_grammar *grammar; /* NULL: answers are free */
    mc_grammars *grammars;
    mc_buffer first, gaps; /* double: seconds */
    uint64_t tokens;
    mica_status status;
} bench;

typedef struct client {
    bench *b;
    int left; /* requests to come */
    unsigned seed;
    uint64_t latest;
    mc_request *request;
} client;

static bool on_token(void *user, size_t choice, const mica_token *token) {
    client *c = user;
    uint64_t now = mc_now_us();
    (void)choice;
    (void)token;
    if (c->latest) (void)MC_BUFFER_PUSH(&c->b->gaps, double, (double)(now - c->latest) * 1e-6);
    c->latest = now;
    c->b->tokens++;
    return true;
}

static void submit(client *c);

static void on_end(void *user, size_t choice, const mc_choice_end *end) {
    client *c = user;
    (void)choice;
    if (end->status != MICA_OK) c->b->status = end->status;
    (void)MC_BUFFER_PUSH(&c->b->first, double, end->first_token_seconds);
    mc_request_close(&c->request);
    if (c->left) submit(c);
}

/* In the main thread at first, then in the schedule's. */
static void submit(client *c) {
    static const int32_t first = 2;
    int32_t *ids = malloc(c->b->prompt * sizeof *ids);
    c->left--;
    c->latest = 0;
    if (!ids) return;
    for (size_t i = 0; i < c->b->prompt; i++) {
        c->seed = c->seed * 1664525u + 1013904223u;
        unsigned drawn = i < c->b->shared ? (unsigned)i * 7919u : c->seed >> 8;
        ids[i] = i ? (int32_t)(drawn % (unsigned)c->b->vocab) : first;
    }
    mc_constraint *constraint = NULL;
    if (c->b->grammar)
        c->b->status = mc_grammars_constrain(c->b->grammars, c->b->grammar, 0, &constraint);
    mica_status status = mc_schedule_submit(c->b->schedule,
                                            &(mc_request_options){.ids = ids,
                                                                  .n_ids = c->b->prompt,
                                                                  .generate = &c->b->generate,
                                                                  .constraints = &constraint,
                                                                  .token = on_token,
                                                                  .end = on_end,
                                                                  .user = c},
                                            &c->request);
    if (status != MICA_OK) c->b->status = status;
    free(ids);
}

/* A quantile in milliseconds; sorts. */
static double quantile(mc_buffer *seconds, double q) {
    size_t n = MC_BUFFER_COUNT(seconds, double);
    if (!n) return 0.0;
    double *all = MC_BUFFER_AT(seconds, double);
    qsort(all, n, sizeof *all, compare);
    return 1e3 * all[(size_t)(q * (double)(n - 1) + 0.5)];
}

static mica_status run(const mica_model *model, bench *b, int clients, int64_t step_tokens,
                       int rounds) {
    static client all[MAX_CLIENTS];
    mc_schedule_stats stats;
    b->tokens = 0;
    if (b->grammar) MC_TRY(mc_grammars_open(b->tokenizer, (size_t)b->vocab, &b->grammars));
    MC_TRY(
        mc_schedule_open(model, &(mc_schedule_options){.step_tokens = step_tokens}, &b->schedule));
    uint64_t start = mc_now_us();
    for (int i = 0; i < clients; i++) {
        all[i] = (client){.b = b, .left = rounds, .seed = (unsigned)i + 1};
        submit(&all[i]);
    }
    do { /* a client whose answer has ended asks again */
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        mc_schedule_get_stats(b->schedule, &stats);
    } while (stats.running + stats.waiting > 0);
    double took = (double)(mc_now_us() - start) * 1e-6;
    printf("%7d  %9.1f  %8.0f  %8.0f  %8.0f  %8.0f  %9.2f", clients, (double)b->tokens / took,
           quantile(&b->first, 0.5), quantile(&b->first, 0.99), quantile(&b->gaps, 0.5),
           quantile(&b->gaps, 0.99), (double)stats.step_rows / (double)stats.steps);
    if (b->grammar)
        printf("  %11.1f  %11.1f", 1e6 * stats.mask_seconds / (double)b->tokens,
               1e6 * stats.mask_wait_seconds / (double)b->tokens);
    printf("\n");
    fflush(stdout);
    mc_schedule_close(&b->schedule);
    mc_grammars_close(&b->grammars);
    mc_buffer_deinit(&b->first);
    mc_buffer_deinit(&b->gaps);
    return b->status;
}

/* Reads the grammar of a JSON schema, of answers without thoughts. */
static mica_status read_schema(const char *path, mc_grammar **grammar) {
    mc_filemap map;
    mc_answer_format format = {0};
    MC_TRY(mc_filemap_open(path, MC_FILE_CONFIG, &map));
    mica_status status =
        mc_answer_grammar_document(MICA_CONSTRAINT_JSON_SCHEMA, (const char *)map.data, map.size,
                                   &format, MC_THINKING_NONE, grammar);
    mc_filemap_close(&map);
    return status;
}

static int argument(int argc, char **argv, int i, int otherwise) {
    return argc > i ? atoi(argv[i]) : otherwise;
}

int main(int argc, char **argv) {
    static const int sizes[] = {1, 4, 8, 16};
    mica_model *model = NULL;
    mica_model_info info = {.struct_bytes = sizeof info};
    int clients = argument(argc, argv, 2, 0), prompt = argument(argc, argv, 3, 200);
    int answer = argument(argc, argv, 4, 50), step_tokens = argument(argc, argv, 5, 0);
    int rounds = argument(argc, argv, 6, 4), shared = argument(argc, argv, 7, 0);
    int draft_tokens = argument(argc, argv, 9, 0);
    float temperature = argc > 8 ? (float)atof(argv[8]) : 0.0f;
    if (argc < 2 || clients < 0 || clients > MAX_CLIENTS || prompt < 1 || prompt > MAX_PROMPT ||
        answer < 1 || rounds < 1 || shared < 0) {
        fprintf(stderr,
                "usage: %s MODEL [CLIENTS [PROMPT [ANSWER [STEP_TOKENS [ROUNDS [SHARED "
                "[TEMPERATURE [DRAFT_TOKENS [SCHEMA]]]]]]]]]\n",
                argv[0]);
        return 2;
    }
    mica_status status = mica_model_open(
        argv[1], &(mica_model_options){.device_name = getenv("MICA_DEVICE")}, &model);
    mica_model_get_info(model, &info);
    bench b = {.generate = {.max_tokens = answer,
                            .ignore_eos = true,
                            .temperature = temperature,
                            .draft_tokens = draft_tokens},
               .prompt = (size_t)prompt,
               .shared = (size_t)shared,
               .vocab = info.vocab_size,
               .tokenizer = model ? mica_model_tokenizer(model) : NULL};
    if (!status && argc > 10) status = read_schema(argv[10], &b.grammar);
    printf("clients   tokens/s   first p50, p99 ms   between p50, p99 ms  rows/step%s\n",
           b.grammar ? "  mask us/token, waited" : "");
    if (!status && clients) status = run(model, &b, clients, step_tokens, rounds);
    for (size_t i = 0; !status && !clients && i < sizeof sizes / sizeof *sizes; i++)
        status = run(model, &b, sizes[i], step_tokens, rounds);
    if (status) fprintf(stderr, "%s\n", mica_last_error());
    mc_grammar_close(&b.grammar);
    mica_model_close(&model);
    return status != MICA_OK;
}
