#include "task/embed.h"

#include "base/alloc.h"
#include "task/task.h"

#include <math.h>

typedef struct pool {
    int64_t width; /* hidden */
    int64_t last;  /* index of the last token */
    bool mean;
    mc_buffer chunk; /* float [n, width]: hidden states of a chunk */
    double *sum;     /* [width] */
} pool;

/* results[0] [1, n, width] */
static mica_status take_chunk(void *context, const mica_array *results, int64_t at, int64_t n) {
    pool *p = context;
    size_t bytes = (size_t)(n * p->width) * sizeof(float);
    if (!p->mean && at + n <= p->last) return MICA_OK;
    mc_buffer_clear(&p->chunk);
    if (!mc_buffer_reserve(&p->chunk, bytes)) return mc_fail_nomem("the states of a text");
    const float *states = MC_BUFFER_AT(&p->chunk, float);
    MC_TRY(mica_read(results[0], p->chunk.data, bytes));
    for (int64_t i = p->mean ? 0 : n - 1; i < n; i++)
        for (int64_t j = 0; j < p->width; j++)
            p->sum[j] += (double)states[i * p->width + j];
    return MICA_OK;
}

static mica_status finish(const pool *p, bool normalise, float *vector) {
    double scale = p->mean ? 1.0 / (double)(p->last + 1) : 1.0, square = 0.0;
    for (int64_t i = 0; i < p->width; i++)
        square += p->sum[i] * p->sum[i];
    if (!isfinite(square)) return mc_task_broken("a hidden state");
    if (normalise) scale = square > 0.0 ? 1.0 / sqrt(square) : 0.0;
    for (int64_t i = 0; i < p->width; i++)
        vector[i] = (float)(p->sum[i] * scale);
    return MICA_OK;
}

mica_status mc_embed(const mc_session_model *model, const int32_t *ids, size_t n,
                     const mica_embed_options *options, float **vector) {
    const mc_session_wish wish = {.wanted = MC_HIDDEN};
    pool p = {.width = model->lm->spec.hidden,
              .last = (int64_t)n - 1,
              .mean = options->pooling == MICA_POOLING_MEAN};
    const mica_task_options task = {.progress = options->progress,
                                    .progress_user = options->progress_user,
                                    .cancel = options->cancel};
    mica_array hidden;
    *vector = NULL;
    if (!p.mean && options->pooling != MICA_POOLING_LAST)
        return mc_fail(MICA_EINVAL, "pooling %d: want MICA_POOLING_MEAN or MICA_POOLING_LAST",
                       (int)options->pooling);
    p.sum = mc_calloc((size_t)p.width, sizeof *p.sum);
    *vector = mc_array_alloc((size_t)p.width, sizeof **vector);
    mica_status status = p.sum && *vector ? MICA_OK : mc_fail_nomem("a text's vector");
    if (status == MICA_OK)
        status = mc_task_feed(model, ids, n, &task, &wish, &hidden, take_chunk, &p);
    if (status == MICA_OK) status = finish(&p, options->normalise, *vector);
    mc_buffer_deinit(&p.chunk);
    mc_free(p.sum);
    if (status == MICA_OK) return MICA_OK;
    mc_free(*vector);
    *vector = NULL;
    return status;
}
