/* Times sampling: microseconds a token for a vocabulary of 262,144, absolute and over greedy.
 *
 *     sampling
 *
 * There are three kinds of rows, all normally distributed. In flat ones (standard deviation 1),
 * some tokens are about equally likely. Wide ones have a deviation of 5. Confident ones (2.5) have
 * a few dozen tokens far above the others. A row is in the processor's caches as far as it fits,
 * like a row that was just computed. */
#include "base/system.h"
#include "session/sampler.h"

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

int main(void) {
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
