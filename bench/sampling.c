/* Times sampling: microseconds a token for a vocabulary of 262,144, absolute and over greedy.
 *
 *     sampling [DEVICE]
 *
 * With a device: of rows that it has just computed, where each row is read and drawn from, and
 * where only the largest logits are (session/largest.h); on the cpu these are not used.
 *
 * There are three kinds of rows, all normally distributed. In flat ones (standard deviation 1),
 * some tokens are about equally likely. Wide ones have a deviation of 5. Confident ones (2.5) have
 * a few dozen tokens far above the others. A row is in the processor's caches as far as it fits,
 * like a row that was just computed. */
#include "base/system.h"
#include "exec/program.h"
#include "session/sampler.h"

#include <mica/ops.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { VOCAB = 262144, HISTORY = 4096, ROUNDS = 50 };

static uint64_t random_state = 1;

static double uniform(void) {
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return ((double)(random_state >> 11) + 0.5) * 0x1p-53;
}

static void fill(double deviation, bool confident, float *logits, int32_t *history) {
    for (int i = 0; i < VOCAB; i++) {
        double normal = sqrt(-2.0 * log(uniform())) * cos(6.283185307179586 * uniform());
        logits[i] = (float)(deviation * normal);
    }
    for (int i = 0; confident && i < 40; i++) {
        int token = (int)(uniform() * VOCAB);
        logits[token] = (float)(24.0 - 0.3 * i);
    }
    for (int i = 0; i < HISTORY; i++)
        history[i] = (int32_t)(uniform() * VOCAB);
}

/* Microseconds per token: the median of five runs. */
static double measure(const mc_sampling *sampling, float *logits, const int32_t *history,
                      bool logprobs) {
    double runs[5] = {0};
    mc_sampler sampler;
    int32_t token;
    mc_sampler_init(&sampler, sampling);
    for (int run = 0; run < 5; run++) {
        uint64_t start = mc_now_us();
        for (int i = 0; i < ROUNDS; i++) {
            float logprob;
            const mica_alternative *alternatives;
            size_t count;
            mica_status status = mc_sampler_draw(&sampler, logits, VOCAB, history, HISTORY, &token);
            if (status == MICA_OK && logprobs)
                status = mc_sampler_logprobs(&sampler, logits, VOCAB, token, 20, &logprob,
                                             &alternatives, &count);
            if (status != MICA_OK) runs[run] = NAN;
        }
        runs[run] += (double)(mc_now_us() - start) / ROUNDS;
        for (int i = run; i > 0 && runs[i] < runs[i - 1]; i--) {
            double other = runs[i];
            runs[i] = runs[i - 1];
            runs[i - 1] = other;
        }
    }
    mc_sampler_deinit(&sampler);
    return runs[2];
}

/* ---- rows of a device ---- */

enum { MAX_ROWS = 16 };

typedef struct device_bench {
    mica_device *device;
    mica_scope *s;
    mica_program *programs[2]; /* the rows; their largest logits and the rows */
    mica_array rows;           /* [n, 1, VOCAB] */
    int64_t n;
    float *logits;
    mc_largest largest[MAX_ROWS];
    mc_sampler sampler;
    int missed; /* draws that wanted the row */
} device_bench;

static mica_status build(device_bench *b) {
    mica_scope *s;
    const int64_t shape[] = {b->n, 1, VOCAB};
    MC_TRY(mica_scope_open(b->device, &s));
    mica_array x = mica_program_param(s, MICA_F32, shape, 3);
    mica_array y = mica_add(s, x, x), results[] = {y, mc_largest_record(s, y)};
    const mica_param param = {.array = x};
    mica_status status = mica_scope_status(s);
    for (size_t i = 0; i < 2 && status == MICA_OK; i++)
        status = mica_program_build(s, &param, 1, results, i + 1, NULL, &b->programs[i]);
    mica_scope_close(&s);
    return status;
}

/* Computes the rows, and draws from each. */
static mica_status draw_rows(device_bench *b, int way) {
    mica_array results[2];
    int32_t token;
    mc_scope_reset(b->s);
    mica_array x = mica_detach(b->s, b->rows);
    MC_TRY(mica_program_run(b->programs[way], b->s, &x, results));
    MC_TRY(way ? mc_largest_read(results[1], b->largest, (size_t)b->n)
               : mica_read(results[0], b->logits, (size_t)b->n * VOCAB * sizeof(float)));
    for (int64_t i = 0; i < b->n; i++) {
        bool enough = true;
        MC_TRY(way ? mc_sampler_draw_largest(&b->sampler, &b->largest[i], &token, &enough)
                   : mc_sampler_draw(&b->sampler, b->logits + i * VOCAB, VOCAB, NULL, 0, &token));
        b->missed += !enough;
    }
    return MICA_OK;
}

/* Microseconds for the rows of a step: the median of five runs. */
static mica_status measure_rows(device_bench *b, int way, double *us) {
    enum { STEPS = 20 };
    double runs[5];
    for (int run = -1; run < 5; run++) {
        uint64_t start = mc_now_us();
        for (int i = 0; i < STEPS; i++)
            MC_TRY(draw_rows(b, way));
        if (run < 0) continue;
        double took = (double)(mc_now_us() - start) / STEPS;
        int at = run;
        for (; at > 0 && runs[at - 1] > took; at--)
            runs[at] = runs[at - 1];
        runs[at] = took;
    }
    *us = runs[2];
    return MICA_OK;
}

static mica_status bench_rows(device_bench *b) {
    static const struct {
        const char *name;
        mc_sampling sampling;
    } rows[] = {{"top_k 40", {.temperature = 0.8f, .top_k = 40}},
                {"min_p 0.05", {.temperature = 0.8f, .min_p = 0.05f}},
                {"top_p 0.9", {.temperature = 0.8f, .top_p = 0.9f}}};
    mica_scope *outer;
    const int64_t shape[] = {b->n, 1, VOCAB};
    MC_TRY(mica_scope_open(b->device, &outer));
    MC_TRY(mica_scope_open(b->device, &b->s));
    b->rows = mica_from_data(outer, b->logits, MICA_F32, shape, 3);
    MC_TRY(mica_eval(outer, b->rows));
    MC_TRY(build(b));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double us[2];
        b->missed = 0;
        mc_sampler_init(&b->sampler, &rows[i].sampling);
        MC_TRY(measure_rows(b, 0, &us[0]));
        MC_TRY(measure_rows(b, 1, &us[1]));
        mc_sampler_deinit(&b->sampler);
        printf("%2lld rows, %-12s  %8.0f us by rows, %8.0f by the largest, %d not enough\n",
               (long long)b->n, rows[i].name, us[0], us[1], b->missed);
    }
    mica_program_close(&b->programs[0]);
    mica_program_close(&b->programs[1]);
    mica_scope_close(&b->s);
    mica_scope_close(&outer);
    return MICA_OK;
}

static int bench_device(const char *name) {
    static int32_t unused[HISTORY];
    device_bench b = {.logits = malloc((size_t)MAX_ROWS * VOCAB * sizeof(float))};
    mica_status status =
        b.logits ? mica_device_open(name, NULL, &b.device) : mc_fail_nomem("a bench");
    for (b.n = 1; b.n <= MAX_ROWS && status == MICA_OK; b.n *= 4) {
        for (int64_t i = 0; i < b.n; i++)
            fill(2.5, true, b.logits + i * VOCAB, unused);
        for (int64_t i = 0; i < b.n * VOCAB; i++)
            b.logits[i] *= 0.5f; /* the device doubles them */
        status = bench_rows(&b);
    }
    if (status != MICA_OK) fprintf(stderr, "sampling: %s\n", mica_last_error());
    mica_device_close(&b.device);
    free(b.logits);
    return status == MICA_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv) {
    if (argc > 1) return bench_device(argv[1]);
    static const struct {
        const char *name;
        mc_sampling sampling;
        bool logprobs;
    } rows[] = {
        {"greedy", {.temperature = 0.0f}, false},
        {"temperature alone", {.temperature = 0.8f}, false},
        {"top_k 40", {.temperature = 0.8f, .top_k = 40}, false},
        {"min_p 0.05", {.temperature = 0.8f, .min_p = 0.05f}, false},
        {"top_p 0.95", {.temperature = 0.8f, .top_p = 0.95f}, false},
        {"top_p 0.95, min_p 0.05, top_k 64",
         {.temperature = 0.8f, .top_p = 0.95f, .min_p = 0.05f, .top_k = 64},
         false},
        {"these and penalties, window 64",
         {.temperature = 0.8f,
          .top_p = 0.95f,
          .min_p = 0.05f,
          .top_k = 64,
          .repetition_penalty = 1.1f,
          .presence_penalty = 0.5f,
          .frequency_penalty = 0.5f,
          .penalty_window = 64},
         false},
        {"greedy, penalties, window 4,096",
         {.repetition_penalty = 1.1f, .frequency_penalty = 0.5f, .penalty_window = HISTORY},
         false},
        {"greedy, logprobs with 20 others", {.temperature = 0.0f}, true},
    };
    static const struct {
        const char *name;
        double deviation;
        bool confident;
    } kinds[] = {{"flat", 1.0, false}, {"wide", 5.0, false}, {"confident", 2.5, true}};
    float *logits = malloc(VOCAB * sizeof *logits);
    int32_t *history = malloc(HISTORY * sizeof *history);
    if (!logits || !history) return EXIT_FAILURE;
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++) {
        double greedy = 0.0;
        fill(kinds[kind].deviation, kinds[kind].confident, logits, history);
        printf("%-9s, %d logits                us a token  over greedy\n", kinds[kind].name, VOCAB);
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            double us = measure(&rows[i].sampling, logits, history, rows[i].logprobs);
            if (i == 0) greedy = us;
            printf("%-40s  %8.1f  %11.1f\n", rows[i].name, us, us - greedy);
        }
    }
    free(history);
    free(logits);
    return EXIT_SUCCESS;
}
