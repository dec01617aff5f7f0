/* A step of training: loss and gradients of low-rank factors on all matrices of every layer, each
 * layer a checkpoint, head and loss in checkpoints of a part of the rows.
 *
 *     train_step MODEL [TOKENS [STEPS [RANK [THREADS [exact] [whole]]]]]
 *
 * Prints what memory the program says that it will take, what the device and the system then count,
 * and each step's time: by the clock, and of all threads. exact: matmuls do not round activations.
 * whole: no layer is a checkpoint. $MICA_DEVICE names the device. */
#define _POSIX_C_SOURCE 200809L

#include <mica/mica.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "graph/graph.h"
#include "model/load/load.h"

enum { MAX_FACTORS = 2048, CHUNK = 256 };

typedef struct options {
    const char *model;
    int64_t tokens, rank;
    int steps, threads;
    bool exact, whole;
} options;

typedef struct step {
    options o;
    mica_device *device;
    mica_scope *s; /* the graph's */
    mc_lm *lm;
    mica_program *program;
    mica_array factors[MAX_FACTORS];
    size_t n;
} step;

static double seconds_of(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double mib(uint64_t bytes) {
    return (double)bytes / 1048576.0;
}

/* A line of /proc/self/status in KiB; 0 where there is no such file. */
static double status_kib(const char *name) {
    char line[128];
    double kib = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, name, strlen(name)) == 0) kib = atof(line + strlen(name) + 1);
    if (file) fclose(file);
    return kib;
}

/* ---- the model ---- */

/* Adds factors to a matrix, as parameters. */
static void adapt(step *t, mc_linear *w) {
    const int64_t a[] = {w->in, t->o.rank}, b[] = {t->o.rank, w->out};
    w->lora_a = t->factors[t->n++] = mica_program_param(t->s, MICA_F32, a, 2);
    w->lora_b = t->factors[t->n++] = mica_program_param(t->s, MICA_F32, b, 2);
}

/* args: hidden states [1, rows, hidden], targets [1, rows]; the sum of the losses. */
static mica_status record_loss(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                               mica_array *results, size_t n_results) {
    (void)n_args, (void)n_results;
    mica_array logits = mc_lm_head(s, user, args[0]);
    results[0] = mica_sum(s, mica_cross_entropy(s, logits, args[1]), NULL, 0, false);
    return mica_scope_status(s);
}

static mica_array loss_of(step *t, mica_array ids, mica_array targets) {
    mica_scope *s = t->s;
    mica_array loss = mica_f32(s, 0);
    mica_array x = mc_lm_forward(s, t->lm, ids, mica_i32(s, 0), NULL, MC_HIDDEN);
    for (int64_t i = 0; i < t->o.tokens; i += CHUNK) {
        int64_t end = i + CHUNK < t->o.tokens ? i + CHUNK : t->o.tokens;
        const mica_array args[] = {mica_slice_axis(s, x, 1, i, end),
                                   mica_slice_axis(s, targets, 1, i, end)};
        mica_array part = MICA_NONE;
        mc_scope_set_status(s, mica_checkpoint(s, record_loss, t->lm, args, 2, &part, 1));
        loss = mica_add(s, loss, part);
    }
    return mica_divide(s, loss, mica_f32(s, (float)t->o.tokens));
}

static mica_status build(step *t) {
    static mica_param params[MAX_FACTORS + 2];
    static mica_array results[MAX_FACTORS + 1];
    const int64_t shape[] = {1, t->o.tokens};
    mc_lm_slot *w;
    t->lm->checkpoint = t->o.whole ? NULL : mica_checkpoint;
    for (size_t i = 0; (w = mc_lm_next_matrix(t->lm, &i)) && t->n + 2 <= MAX_FACTORS;)
        adapt(t, &w->linear);
    for (size_t i = 0; i < t->n; i++)
        params[i] = (mica_param){.array = t->factors[i]};
    for (size_t i = 0; i < 2; i++)
        params[t->n + i].array = mica_program_param(t->s, MICA_I32, shape, 2);
    results[0] = loss_of(t, params[t->n].array, params[t->n + 1].array);
    mica_status status = mica_grad(t->s, results[0], MICA_NONE, t->factors, t->n, &results[1]);
    if (status) return status;
    return mica_program_build(t->s, params, t->n + 2, results, t->n + 1, NULL, &t->program);
}

/* ---- runs ---- */

/* The factors, small numbers, and the tokens. */
static mica_status make_args(step *t, mica_scope *s, mica_array *args) {
    int32_t *tokens = malloc((size_t)t->o.tokens * sizeof *tokens);
    const int64_t shape[] = {1, t->o.tokens};
    if (!tokens) return MICA_ENOMEM;
    for (size_t i = 0; i < t->n + 2; i++) {
        mica_port port = {.struct_bytes = sizeof port};
        (void)mica_program_get_param(t->program, i, &port);
        if (i < t->n) {
            args[i] = mica_random_normal(s, mica_random_key(s, i), port.shape, port.ndim, MICA_F32,
                                         0.0, 0.02);
            continue;
        }
        for (int64_t k = 0; k < t->o.tokens; k++)
            tokens[k] = (int32_t)((k + (int64_t)(i - t->n)) * 7919 % t->lm->spec.vocab);
        args[i] = mica_from_data(s, tokens, MICA_I32, shape, 2);
    }
    free(tokens);
    return mica_eval_n(s, args, t->n + 2);
}

static mica_status run_steps(step *t) {
    static mica_array args[MAX_FACTORS + 2], results[MAX_FACTORS + 1];
    mica_program_memory told = {.struct_bytes = sizeof told};
    mica_scope *s = NULL;
    double loss = 0;
    mica_status status = mica_program_get_memory(t->program, &told);
    if (!status) status = mica_scope_open(t->device, &s);
    if (!status) status = make_args(t, s, args);
    printf("weights %.1f MiB, arguments %.1f MiB; told: %.1f MiB more at the peak, of them results "
           "%.1f\n",
           mib(t->lm->weight_bytes), mib(told.argument_bytes), mib(told.peak_bytes),
           mib(told.result_bytes));
    mica_device_clear_cache(t->device);
    for (int i = 0; i < t->o.steps && !status; i++) {
        mica_device_reset_peak(t->device);
        uint64_t before = mica_device_active_bytes(t->device);
        double start = seconds_of(CLOCK_MONOTONIC), work = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
        status = mica_program_run(t->program, s, args, results);
        double seconds = seconds_of(CLOCK_MONOTONIC) - start;
        work = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - work;
        uint64_t more = mica_device_peak_bytes(t->device) - before;
        if (!status) status = mica_item_f64(results[0], &loss);
        printf("step %d: %.3f s, of all threads %.3f s, %.1f tokens/s, loss %.4f; peak %.1f MiB "
               "more, told / that %.3f; "
               "VmHWM %.1f MiB\n",
               i, seconds, work, (double)t->o.tokens / seconds, loss, mib(more),
               (double)told.peak_bytes / (double)more, status_kib("VmHWM:") / 1024.0);
        fflush(stdout);
        if (!status) status = mica_scope_collect(s, args, t->n + 2);
    }
    mica_scope_close(&s);
    return status;
}

int main(int argc, char **argv) {
    static step t;
    if (argc < 2) {
        fprintf(stderr, "usage: %s MODEL [TOKENS [STEPS [RANK [THREADS [exact] [whole]]]]]\n",
                argv[0]);
        return 2;
    }
    t.o = (options){.model = argv[1],
                    .tokens = argc > 2 ? atol(argv[2]) : 512,
                    .steps = argc > 3 ? atoi(argv[3]) : 3,
                    .rank = argc > 4 ? atol(argv[4]) : 8,
                    .threads = argc > 5 ? atoi(argv[5]) : 0};
    for (int i = 6; i < argc; i++) {
        t.o.exact = t.o.exact || strcmp(argv[i], "exact") == 0;
        t.o.whole = t.o.whole || strcmp(argv[i], "whole") == 0;
    }
    const char *name = getenv("MICA_DEVICE");
    mica_status status = mica_device_open(
        name ? name : "cpu", &(mica_device_options){.threads = t.o.threads}, &t.device);
    if (!status) status = mica_scope_open(t.device, &t.s);
    if (!status) status = mc_lm_open(t.o.model, t.device, NULL, &t.lm);
    if (!status && !t.o.exact) mc_lm_set_arithmetic(t.lm, MICA_ARITHMETIC_DEFAULT);
    double start = seconds_of(CLOCK_MONOTONIC);
    if (!status) status = build(&t);
    if (!status) printf("built in %.2f s\n", seconds_of(CLOCK_MONOTONIC) - start);
    if (!status) status = run_steps(&t);
    if (status) fprintf(stderr, "%s\n", mica_last_error());
    mica_program_close(&t.program);
    mica_scope_close(&t.s);
    mc_lm_close(&t.lm);
    mica_device_close(&t.device);
    return status != MICA_OK;
}
