#define _POSIX_C_SOURCE 200809L /* clock_gettime */
/* kcheck --bench: how fast each kernel reads its weights.
 *
 * Matmuls with one row of x go through weights of a model's shape, split over the threads as in a
 * decode step. A figure is the best of several passes over weights larger than the caches. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

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
    else if (strcmp(j->name, "matmul_nt_f16") == 0)
        j->kern->matmul_nt_f16(1, count, LENGTH, j->x, LENGTH, (uint16_t *)(void *)w, LENGTH, y, 1);
    else if (strcmp(j->name, "matmul_nt_bf16") == 0)
        j->kern->matmul_nt_bf16(1, count, LENGTH, j->x, LENGTH, (uint16_t *)(void *)w, LENGTH, y,
                                1);
    else if (strncmp(j->name, "matvec_q4", 9) == 0)
        j->kern->matvec_q4(&rows, count, j->x, y);
    else if (strcmp(j->name, "matvec") == 0)
        j->kern->matvec(&rows, count, j->x, y);
    else
        j->kern->matvec_q8(&rows, count, j->x, y);
}

static void run_tasks(void *context, int begin, int end, int worker) {
    (void)worker;
    job *j = context;
    int64_t first = j->n * begin / TASKS;
    run_rows(j, first, j->n * end / TASKS - first);
}

/* GB/s of the best pass. */
static double time_job(job *j, mc_pool *pool) {
    double best = 0;
    for (int pass = 0; pass < PASSES; pass++) {
        uint64_t start = mc_now_us();
        mc_pool_run(pool, TASKS, run_tasks, j);
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

/* GFLOP/s of many rows of x from the first-level caches: a tile of a prefill. */
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

/* ---- fast matmuls compared with exact ones ---- */

#define FAST_PASSES 15
#define FAST_WEIGHTS (96 << 20) /* bytes, too many for the caches */

/* A fast matmul: x of m rows, quantised. */
typedef struct int8_job {
    job j;
    int64_t m;
    mk_xrows x;
    mk_tiles tiles;
    float *y;
} int8_job;

/* CPU seconds of this thread. */
static double thread_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void run_int8(int8_job *f) {
    const mk_kernels *kern = f->j.kern;
    if (f->m <= kern->int8_streamed) {
        kern->int8_matvec(&f->j.rows, f->j.n, f->m, &f->x, f->y, f->j.n);
        return;
    }
    for (int64_t r = 0; r < f->j.n; r += 2 * MK_TILE) {
        mk_qrows rows = mk_qrows_at(&f->j.rows, r);
        int64_t count = f->j.n - r < 2 * MK_TILE ? f->j.n - r : 2 * MK_TILE;
        f->tiles.winograd = kern->int8_winograd;
        kern->int8_pack(&rows, count, &f->tiles);
        kern->int8_matmul(f->m, &f->x, count, &f->tiles, f->y + r, f->j.n);
    }
}

static void time_once(double *best, double start) {
    double seconds = thread_seconds() - start;
    if (*best == 0 || seconds < *best) *best = seconds;
}

/* GB/s of a loop that only reads. */
static double read_rate(const char *weights) {
    const uint64_t *words = (const void *)weights;
    double best = 0;
    for (int pass = 0; pass < FAST_PASSES; pass++) {
        uint64_t any[4] = {0};
        double start = thread_seconds();
        for (size_t i = 0; i < FAST_WEIGHTS / sizeof *words; i += 4)
            for (int l = 0; l < 4; l++)
                any[l] |= words[i + (size_t)l];
        volatile uint64_t seen = any[0] | any[1] | any[2] | any[3];
        (void)seen;
        time_once(&best, start);
    }
    return FAST_WEIGHTS / best / 1e9;
}

static bool int8_job_init(int8_job *f, int64_t m, int group) {
    size_t rows = (size_t)m, groups = LENGTH / (size_t)group;
    f->m = m;
    f->x = (mk_xrows){LENGTH,
                      group,
                      malloc(rows * LENGTH),
                      malloc(rows * groups * sizeof(float)),
                      malloc(rows * groups * sizeof(float)),
                      malloc(rows * groups * sizeof(int32_t))};
    f->tiles = (mk_tiles){.codes = malloc(2 * MK_TILE * LENGTH),
                          .scales = malloc(2 * MK_TILE * 2 * groups * sizeof(float)),
                          .offsets = malloc(2 * MK_TILE * groups * sizeof(int32_t))};
    f->y = malloc(rows * (size_t)f->j.n * sizeof(float));
    return f->x.codes && f->x.scales && f->x.sums && f->x.winograd && f->tiles.codes &&
           f->tiles.scales && f->tiles.offsets && f->y;
}

static void int8_job_deinit(int8_job *f) {
    free(f->x.codes);
    free(f->x.scales);
    free(f->x.sums);
    free(f->x.winograd);
    free(f->tiles.codes);
    free(f->tiles.scales);
    free(f->tiles.offsets);
    free(f->y);
}

/* GB/s of weights for several numbers of rows of x, alternating with the exact matvec. */
static void compare(const mk_kernels *kern, void *weights, float *x, int bits, int group) {
    static const int64_t counts[] = {1, 2, 4, 8, 16, 128};
    enum { COUNTS = sizeof counts / sizeof *counts };
    int8_job jobs[COUNTS];
    double exact = 0, best[COUNTS] = {0};
    bool ready = true;
    memset(jobs, 0, sizeof jobs);
    for (int i = 0; i < COUNTS; i++) {
        jobs[i].j = (job){.kern = kern, .weights = weights, .x = x};
        describe(&jobs[i].j,
                 bits == 4   ? "matvec_q4"
                 : bits == 8 ? "matvec_q8"
                             : "matvec",
                 bits, group);
        jobs[i].j.n = FAST_WEIGHTS / jobs[i].j.row_bytes;
        ready = ready && int8_job_init(&jobs[i], counts[i], group);
        jobs[i].j.y = jobs[i].y;
        if (ready) kern->int8_quantize(counts[i], x, LENGTH, (1 << bits) - 1, &jobs[i].x);
    }
    for (int pass = 0; ready && pass < FAST_PASSES; pass++) {
        double start = thread_seconds();
        run_rows(&jobs[0].j, 0, jobs[0].j.n);
        time_once(&exact, start);
        for (int i = 0; i < COUNTS; i++) {
            if (counts[i] > 16 && pass > 1) continue;
            start = thread_seconds();
            run_int8(&jobs[i]);
            time_once(&best[i], start);
        }
    }
    double bytes = (double)(jobs[0].j.n * jobs[0].j.row_bytes);
    printf("q%d g%-4d %10s  exact %5.1f GB/s, fast %5.1f (%.2f times); rows:", bits, group,
           mk_isa_name(kern->isa), bytes / exact / 1e9, bytes / best[0] / 1e9, exact / best[0]);
    for (int i = 1; i < COUNTS; i++)
        printf(" %d: %.2f", (int)counts[i], best[i] / best[0]);
    double ops = 2.0 * (double)counts[COUNTS - 1] * LENGTH * (double)jobs[0].j.n;
    printf(" (%.0f GOP/s)\n", ops / best[COUNTS - 1] / 1e9);
    for (int i = 0; i < COUNTS; i++)
        int8_job_deinit(&jobs[i]);
}

int kbench_int8(void) {
    static const struct {
        int bits, group;
    } formats[] = {{4, 32}, {4, 64}, {4, 128}, {8, 64}, {6, 64}, {5, 64}, {3, 64}, {2, 64}};
    char *weights = malloc(WEIGHTS);
    float *x = malloc(128 * LENGTH * sizeof *x);
    if (weights == NULL || x == NULL) return EXIT_FAILURE;
    fill_floats((float *)(void *)weights, WEIGHTS / 4, PLAIN);
    fill_floats(x, 128 * LENGTH, PLAIN);
    printf(
        "one thread, its own time; GB/s of weights, where reading alone has %.1f; rows of x: time "
        "over that of one\n",
        read_rate(weights));
    mk_kernels kern;
    mk_kernels_fill(&kern, MK_ISA_ref);
    for (int isa = 1; isa < MK_ISA_COUNT; isa++) {
        if (!mk_isa_has((mk_isa)isa)) continue;
        void (*weaker)(const mk_qrows *, int64_t, int64_t, const mk_xrows *, float *, int64_t) =
            kern.int8_matvec;
        mk_kernels_fill(&kern, (mk_isa)isa);
        if (kern.int8_matvec == weaker) continue; /* the set has no kernel of its own */
        for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
            compare(&kern, weights, x, formats[i].bits, formats[i].group);
    }
    free(weights);
    free(x);
    return EXIT_SUCCESS;
}

int kbench(void) {
    static const struct {
        const char *name;
        int bits, group;
    } jobs[] = {{"matmul_nt", 32, 0},       {"matmul_nt_f16", 16, 0}, {"matmul_nt_bf16", 16, 0},
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
