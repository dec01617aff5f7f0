/* kcheck --bench: how fast each kernel reads its weights.
 *
 * Products with one row of x run over rows of a model's shape, split over the threads as in a
 * decode step. Each figure is the best of several passes over weights larger than the caches. */
#include <stdio.h>
#include <stdlib.h>

#include "base/pool.h"
#include "base/system.h"
#include "cpu/kcheck.h"

#define WEIGHTS (192 << 20) /* bytes */
#define LENGTH 2048         /* of a row */
#define PASSES 9
#define TASKS 64

typedef struct job {
    const mk_kernels *kern;
    const char *name;
    int64_t n; /* rows */
    int64_t row_bytes;
    void *weights;
    mk_qrows rows;
    float *x, *y;
} job;

static void run_rows(job *j, int64_t first, int64_t count) {
    char *w = (char *)j->weights + first * j->row_bytes;
    mk_qrows rows = mk_qrows_at(&j->rows, first);
    float *y = j->y + first;
    if (strcmp(j->name, "matmul_nt") == 0)
        j->kern->matmul_nt(1, count, LENGTH, j->x, LENGTH, (float *)(void *)w, LENGTH, y, 1);
    else if (strcmp(j->name, "matvec_f16") == 0)
        j->kern->matvec_f16(count, LENGTH, j->x, (uint16_t *)(void *)w, LENGTH, y);
    else if (strcmp(j->name, "matvec_bf16") == 0)
        j->kern->matvec_bf16(count, LENGTH, j->x, (uint16_t *)(void *)w, LENGTH, y);
    else if (strncmp(j->name, "matvec_q4", 9) == 0)
        j->kern->matvec_q4(&rows, count, j->x, y);
    else if (strcmp(j->name, "matvec") == 0)
        j->kern->matvec(&rows, count, j->x, y);
    else
        j->kern->matvec_q8(&rows, count, j->x, y);
}

static void run_task(void *context, int task, int worker) {
    (void)worker;
    job *j = context;
    int64_t first = j->n * task / TASKS, end = j->n * (task + 1) / TASKS;
    run_rows(j, first, end - first);
}

/* GB/s of the best pass. */
static double time_job(job *j, mc_pool *pool) {
    double best = 0;
    for (int pass = 0; pass < PASSES; pass++) {
        uint64_t start = mc_now_us();
        mc_pool_run(pool, TASKS, run_task, j);
        double rate = (double)(j->n * j->row_bytes) / (double)(mc_now_us() - start) / 1e3;
        if (rate > best) best = rate;
    }
    return best;
}

static void describe(job *j, const char *name, int bits, int group) {
    j->name = name;
    j->row_bytes = LENGTH * bits / 8;
    if (group > 0) {
        j->row_bytes += LENGTH / group * 4; /* scale and bias, 16 bits each */
        j->rows = (mk_qrows){.k = LENGTH, .bits = bits, .group = group, .mode = MK_AFFINE};
        j->rows.type = MK_BF16;
        j->rows.codes_stride = LENGTH * bits / 32;
        j->rows.scales_stride = LENGTH / group;
    }
    j->n = WEIGHTS / j->row_bytes;
    j->rows.codes = j->weights;
    j->rows.scales = j->rows.codes + j->n * j->rows.codes_stride;
    j->rows.biases = (const uint16_t *)j->rows.scales + j->n * j->rows.scales_stride;
}

/* GFLOP/s of many rows of x, from the first cache levels: a tile of a prefill. */
static double time_tile(const mk_kernels *kern, const float *x, const float *w, float *y) {
    const int64_t m = 96, n = 32, k = 1024;
    double best = 0;
    for (int pass = 0; pass < PASSES; pass++) {
        uint64_t start = mc_now_us();
        for (int i = 0; i < 20; i++)
            kern->matmul_nt(m, n, k, x, k, w, k, y, n);
        double rate = 20.0 * 2.0 * (double)(m * n * k) / (double)(mc_now_us() - start) / 1e3;
        if (rate > best) best = rate;
    }
    return best;
}

int kbench(void) {
    static const struct {
        const char *name;
        int bits, group;
    } jobs[] = {{"matmul_nt", 32, 0},       {"matvec_f16", 16, 0},    {"matvec_bf16", 16, 0},
                {"matvec_q8 g64", 8, 64},   {"matvec_q4 g32", 4, 32}, {"matvec_q4 g64", 4, 64},
                {"matvec_q4 g128", 4, 128}, {"matvec", 6, 64}};
    mc_pool *pools[2] = {NULL, NULL};
    char *weights = malloc(WEIGHTS);
    float *x = malloc(WEIGHTS / 64), *y = malloc(WEIGHTS / 64);
    if (weights == NULL || x == NULL || y == NULL || mc_pool_open(2, &pools[1]) != MICA_OK)
        return EXIT_FAILURE;
    fill_floats((float *)(void *)weights, WEIGHTS / 4, PLAIN);
    fill_floats(x, WEIGHTS / 256, PLAIN);

    printf("%-16s %8s %12s %12s\n", "kernel", "isa", "1 thread", "2 threads");
    for (int isa = 0; isa < MK_ISA_COUNT; isa++) {
        if (!mk_isa_has((mk_isa)isa)) continue;
        mk_kernels kern;
        mk_kernels_fill(&kern, (mk_isa)isa);
        for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
            job j = {.kern = &kern, .weights = weights, .x = x, .y = y};
            describe(&j, jobs[i].name, jobs[i].bits, jobs[i].group);
            printf("%-16s %8s", j.name, mk_isa_name((mk_isa)isa));
            for (int t = 0; t < 2; t++)
                printf(" %7.1f GB/s", time_job(&j, pools[t]));
            printf("\n");
        }
        printf("%-16s %8s %5.1f GFLOP/s\n", "matmul_nt tile", mk_isa_name((mk_isa)isa),
               time_tile(&kern, x, (float *)(void *)weights, y));
    }
    mc_pool_close(&pools[1]);
    free(weights);
    free(x);
    free(y);
    return EXIT_SUCCESS;
}
