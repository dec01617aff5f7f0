/* Compares sessions on a pool of blocks with sessions that have buffers of their own: tokens a
 * second of decode steps, in turns on one machine, and how much of a step blocks cost.
 *
 *     paged MODEL [DEPTH [ROWS [BLOCK [THREADS]]]]
 *
 * Rows begin with DEPTH tokens each, 1024 by default. ROWS 0: 1, then 8. BLOCK: tokens of a block,
 * 0 for the default. The best of several rounds counts. */
#include <stdio.h>
#include <stdlib.h>

#include "base/system.h"
#include "model/load/load.h"
#include "task/batch.h"

enum { MAX = 16, STEPS = 16, ROUNDS = 8 };

typedef struct side {
    mc_session_model model;
    mc_batch batch;
    mc_session *sessions[MAX];
    double best; /* seconds of a round */
} side;

static mica_status open_side(side *s, const mc_session_model *model, mc_kv_pool *pool, int rows,
                             int64_t depth) {
    *s = (side){.model = *model};
    s->model.pool = pool;
    MC_TRY(mc_batch_init(&s->batch, &s->model));
    for (int i = 0; i < rows; i++) {
        MC_TRY(mc_session_open(&s->model, 0, &s->sessions[i]));
        s->sessions[i]->greedy = true;
        for (int64_t at = 0, n; at < depth; at += n) {
            int32_t ids[512];
            for (n = 0; n < 512 && at + n < depth; n++)
                ids[n] = (int32_t)((at + n) * 37 % 100);
            const float *logits;
            MC_TRY(mc_session_feed(s->sessions[i], ids, n, &logits));
        }
    }
    return MICA_OK;
}

static void close_side(side *s) {
    for (int i = 0; i < MAX; i++)
        mc_session_close(&s->sessions[i]);
    mc_batch_deinit(&s->batch);
}

static mica_status step(side *s, int rows, int32_t id) {
    int32_t ids[MAX];
    const float *logits;
    for (int i = 0; i < rows; i++)
        ids[i] = id;
    if (rows == 1) return mc_session_feed(s->sessions[0], ids, 1, &logits);
    for (int i = 0; i < rows; i++)
        MC_TRY(mc_session_reserve(s->sessions[i], 1));
    MC_TRY(mc_batch_feed(&s->batch, s->sessions, ids, (size_t)rows));
    for (int i = 0; i < rows; i++)
        MC_TRY(mc_session_feed(s->sessions[i], &ids[i], 1, &logits));
    return MICA_OK;
}

static mica_status time_round(side *s, int rows) {
    uint64_t start = mc_now_us();
    for (int i = 0; i < STEPS; i++)
        MC_TRY(step(s, rows, i));
    double took = (double)(mc_now_us() - start) * 1e-6;
    if (s->best == 0.0 || took < s->best) s->best = took;
    return MICA_OK;
}

static mica_status compare(const mc_session_model *model, int rows, int64_t depth, int64_t block) {
    side sides[2] = {{.best = 0}};
    mc_kv_pool *pool = NULL;
    int64_t tokens = rows * (depth + (ROUNDS + 1) * STEPS + 1024);
    const mc_kv_pool_options options = {.bytes = mc_session_bytes(model, tokens), .block = block};
    mica_status status = mc_kv_pool_open(model->lm, model->device, &options, &pool);
    for (int i = 0; i < 2 && status == MICA_OK; i++)
        status = open_side(&sides[i], model, i ? pool : NULL, rows, depth);
    for (int round = -1; round < ROUNDS && status == MICA_OK; round++)
        for (int i = 0; i < 2 && status == MICA_OK; i++) {
            status = time_round(&sides[i], rows);
            if (round < 0) sides[i].best = 0.0;
        }
    if (status == MICA_OK)
        printf("%4d  %5lld  %9.1f  %9.1f  %10.3f\n", rows, (long long)depth,
               STEPS * rows / sides[0].best, STEPS * rows / sides[1].best,
               sides[0].best / sides[1].best);
    fflush(stdout);
    for (int i = 0; i < 2; i++)
        close_side(&sides[i]);
    mc_kv_pool_close(&pool);
    return status;
}

int main(int argc, char **argv) {
    int64_t depth = argc > 2 ? atoi(argv[2]) : 1024, block = argc > 4 ? atoi(argv[4]) : 0;
    int rows = argc > 3 ? atoi(argv[3]) : 0;
    mica_device *device = NULL;
    mc_lm *lm = NULL;
    if (argc < 2 || depth < 1 || rows < 0 || rows > MAX || block < 0) {
        fprintf(stderr, "usage: %s MODEL [DEPTH [ROWS [BLOCK [THREADS]]]], at most %d rows\n",
                argv[0], MAX);
        return 2;
    }
    const mica_device_options options = {.threads = argc > 5 ? atoi(argv[5]) : 0};
    mica_status status = mica_device_open("cpu", &options, &device);
    if (status == MICA_OK) status = mc_lm_open(argv[1], device, NULL, &lm);
    if (status == MICA_OK) {
        const mc_session_model model = {.lm = lm, .device = device};
        mc_lm_set_arithmetic(lm, MICA_ARITHMETIC_FAST);
        mc_lm_set_cache(lm, MICA_CACHE_DEFAULT);
        printf("rows  depth   buffers/s   blocks/s  of buffers\n");
        if (rows != 0) status = compare(&model, rows, depth, block);
        for (rows = rows ? MAX : 1; rows <= 8 && status == MICA_OK; rows += 7)
            status = compare(&model, rows, depth, block);
    }
    if (status != MICA_OK) fprintf(stderr, "%s\n", mica_last_error());
    mc_lm_close(&lm);
    mica_device_close(&device);
    return status != MICA_OK;
}
