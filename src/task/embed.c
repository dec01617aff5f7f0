#include "task/embed.h"

#include "base/alloc.h"
#include "base/system.h"
#include "task/encode.h"
#include "task/task.h"

#include <math.h>
#include <string.h>

typedef struct pool {
    int64_t width; /* hidden */
    int64_t last;  /* index of the last token */
    bool mean;
    mc_buffer chunk; /* float [n, width]: hidden states of a chunk */
    double *sum;     /* [width] */
} pool;

/* Adds the states [n, width] of tokens of which the last one is pooled, or all are. */
static void add_states(const pool *p, const float *states, int64_t n) {
    for (int64_t i = p->mean ? 0 : n - 1; i < n; i++)
        for (int64_t j = 0; j < p->width; j++)
            p->sum[j] += (double)states[i * p->width + j];
}

/* results[0] [1, n, width] */
static mica_status take_chunk(void *context, const mica_array *results, int64_t at, int64_t n) {
    pool *p = context;
    size_t bytes = (size_t)(n * p->width) * sizeof(float);
    if (!p->mean && at + n <= p->last) return MICA_OK;
    mc_buffer_clear(&p->chunk);
    if (!mc_buffer_reserve(&p->chunk, bytes)) return mc_fail_nomem("the states of a text");
    const float *states = MC_BUFFER_AT(&p->chunk, float);
    MC_TRY(mica_read(results[0], p->chunk.data, bytes));
    add_states(p, states, n);
    return MICA_OK;
}

static mica_status finish(const pool *p, bool normalise, float *vector) {
    double scale = p->mean ? 1.0 / (double)(p->last + 1) : 1.0, square = 0.0;
    for (int64_t i = 0; i < p->width; i++)
        square += p->sum[i] * p->sum[i];
    if (!isfinite(square)) return mc_task_broken("a hidden state");
    for (int64_t i = 0; i < p->width; i++)
        vector[i] = (float)(p->sum[i] * scale);
    if (normalise) mc_vector_normalise(vector, (size_t)p->width);
    return MICA_OK;
}

static mica_status open_pool(pool *p, const mc_session_model *model,
                             const mica_embed_options *options) {
    *p = (pool){.width = model->lm->spec.hidden, .mean = options->pooling != MICA_POOLING_LAST};
    p->sum = mc_calloc((size_t)p->width, sizeof *p->sum);
    return p->sum ? MICA_OK : mc_fail_nomem("a text's vector");
}

static void close_pool(pool *p) {
    mc_buffer_deinit(&p->chunk);
    mc_free(p->sum);
}

/* The vector of a text that is computed alone, with a pool of zeros. */
static mica_status embed(const mc_session_model *model, const int32_t *ids, size_t n,
                         const mica_task_options *task, bool normalise, pool *p, float *vector) {
    const mc_session_wish wish = {.wanted = MC_HIDDEN};
    mica_array hidden;
    p->last = (int64_t)n - 1;
    MC_TRY(mc_task_feed(model, ids, n, task, &wish, &hidden, take_chunk, p));
    return finish(p, normalise, vector);
}

/* By an encoder, or as an embedder's files say. */
static mica_status encode_alone(const mc_session_model *model, const mc_text *alone,
                                const mica_embed_options *options, float **vector) {
    const mc_encode_text text = {.ids = alone->ids, .n = (size_t)alone->n, .skip = alone->skip};
    mica_embed_options given = *options;
    given.progress = NULL; /* which counts texts there, tokens here */
    *vector = mc_array_alloc((size_t)mc_encode_width(model->lm), sizeof **vector);
    if (!*vector) return mc_fail_nomem("a text's vector");
    mica_status status = mc_encode_vectors(model, &text, 1, &given, *vector, NULL, NULL);
    if (status == MICA_OK) {
        if (options->progress) options->progress(options->progress_user, text.n, text.n);
        return MICA_OK;
    }
    mc_free(*vector);
    *vector = NULL;
    return status;
}

mica_status mc_embed(const mc_session_model *model, const mc_text *text,
                     const mica_embed_options *options, float **vector) {
    const mica_task_options task = {.progress = options->progress,
                                    .progress_user = options->progress_user,
                                    .cancel = options->cancel};
    pool p;
    *vector = NULL;
    MC_TRY(mc_pooling_check(options->pooling));
    if (mc_encodes(model->lm)) return encode_alone(model, text, options, vector);
    mica_status status = open_pool(&p, model, options);
    *vector = mc_array_alloc((size_t)p.width, sizeof **vector);
    if (status == MICA_OK && !*vector) status = mc_fail_nomem("a text's vector");
    if (status == MICA_OK)
        status = embed(model, text->ids, (size_t)text->n, &task, options->normalise, &p, *vector);
    close_pool(&p);
    if (status == MICA_OK) return MICA_OK;
    mc_free(*vector);
    *vector = NULL;
    return status;
}

/* ---- many texts ---- */

typedef struct embedding {
    const mica_embed_options *options;
    mica_embed_results *results;
    mc_texts texts;
    pool pool;
    size_t done; /* rows */
} embedding;

static void end_row(embedding *e, size_t i, mica_status status) {
    mica_embed_row *row = &e->results->rows[i];
    if (status != MICA_OK) {
        mc_free((void *)row->vector);
        *row = (mica_embed_row){
            .status = status, .error = mc_task_error(status), .tokens = row->tokens};
    }
    e->done++;
    if (e->options->progress)
        e->options->progress(e->options->progress_user, e->done, e->results->count);
}

/* Begins the vector of row i: the pool has zeros, and the row has memory. */
static mica_status begin_row(embedding *e, size_t i) {
    mica_embed_row *row = &e->results->rows[i];
    size_t width = (size_t)e->pool.width;
    MC_TRY(mc_cancel_check(e->options->cancel));
    if (!row->vector) row->vector = mc_array_alloc(width, sizeof *row->vector);
    if (!row->vector) return mc_fail_nomem("a text's vector");
    memset(e->pool.sum, 0, width * sizeof *e->pool.sum);
    return MICA_OK;
}

/* Within a long text. */
static void tell_progress(void *context, uint64_t done, uint64_t total) {
    const embedding *e = context;
    (void)done, (void)total;
    if (e->options->progress)
        e->options->progress(e->options->progress_user, e->done, e->results->count);
}

static mica_status embed_alone(embedding *e, size_t i, const mc_text *text) {
    const mica_task_options task = {
        .progress = tell_progress, .progress_user = e, .cancel = e->options->cancel};
    MC_TRY(begin_row(e, i));
    return embed(e->texts.model, text->ids, (size_t)text->n, &task, e->options->normalise, &e->pool,
                 (float *)e->results->rows[i].vector);
}

/* The vector of a row of a pass, from the states [L, width] of its tokens and padding. */
static mica_status embed_row(embedding *e, size_t i, const mc_text *text, const float *states) {
    MC_TRY(begin_row(e, i));
    add_states(&e->pool, states, text->n);
    e->pool.last = text->n - 1;
    return finish(&e->pool, e->options->normalise, (float *)e->results->rows[i].vector);
}

/* Reads the states [n, L, width] of several texts. *row receives L * width. */
static mica_status compute_together(embedding *e, const mc_text *texts, size_t n, size_t *row) {
    mica_array hidden;
    MC_TRY(mc_cancel_check(e->options->cancel));
    MC_TRY(mc_texts_compute(&e->texts, texts, n, MC_HIDDEN, &hidden));
    size_t size = (size_t)mica_array_size(hidden), bytes = size * sizeof(float);
    mc_buffer_clear(&e->pool.chunk);
    if (!mc_buffer_reserve(&e->pool.chunk, bytes)) return mc_fail_nomem("the states of texts");
    *row = size / n;
    return mica_read(hidden, e->pool.chunk.data, bytes);
}

/* Where a pass fails, each text is computed alone: one's failure is its own. */
static void embed_group(void *context, const size_t *indices, const mc_text *texts, size_t n) {
    embedding *e = context;
    size_t row = 0;
    bool together = n > 1 && compute_together(e, texts, n, &row) == MICA_OK;
    for (size_t i = 0; i < n; i++) {
        const float *states = MC_BUFFER_AT(&e->pool.chunk, float);
        mica_status status = together ? embed_row(e, indices[i], &texts[i], states + i * row)
                                      : embed_alone(e, indices[i], &texts[i]);
        end_row(e, indices[i], status);
    }
}

/* Texts that can be computed; the others end. */
static mica_status check_texts(embedding *e, const mc_text *texts, mc_text **good) {
    size_t count = e->results->count;
    *good = mc_array_alloc(count + 1, sizeof **good);
    if (!*good) return mc_fail_nomem("texts");
    for (size_t i = 0; i < count; i++) {
        mica_status status = mc_task_check_ids(e->texts.model, texts[i].ids, (size_t)texts[i].n);
        (*good)[i] = status == MICA_OK ? texts[i] : (mc_text){0};
        e->results->rows[i].tokens = texts[i].n;
        if (status != MICA_OK) end_row(e, i, status);
    }
    return MICA_OK;
}

static mica_status embed_all(embedding *e, const mc_session_model *model, const mc_text *texts) {
    mc_text *good = NULL;
    mica_status status = mc_texts_init(&e->texts, model);
    if (status == MICA_OK) status = open_pool(&e->pool, model, e->options);
    if (status == MICA_OK) status = check_texts(e, texts, &good);
    if (status == MICA_OK) status = mc_texts_each(model, good, e->results->count, embed_group, e);
    mc_free(good);
    close_pool(&e->pool);
    mc_texts_deinit(&e->texts);
    return status;
}

/* Texts that are fit for an encoder; the others' rows get their errors. order: whose they are. */
static size_t choose(const mc_session_model *model, const mc_text *texts,
                     mica_embed_results *results, mc_encode_text *good, size_t *order) {
    size_t n = 0;
    for (size_t i = 0; i < results->count; i++) {
        mica_embed_row *row = &results->rows[i];
        good[n] =
            (mc_encode_text){.ids = texts[i].ids, .n = (size_t)texts[i].n, .skip = texts[i].skip};
        row->tokens = texts[i].n;
        row->status = mc_encode_check(model, &good[n]);
        row->error = mc_task_error(row->status);
        if (row->status == MICA_OK) order[n++] = i;
    }
    return n;
}

/* Texts of an encoder, or of an embedder with files. */
typedef struct encoded {
    mica_embed_results *results;
    const size_t *order;  /* whose the texts are */
    const float *vectors; /* [n, width] */
} encoded;

static void end_encoded(void *user, size_t text, mica_status status) {
    const encoded *e = user;
    size_t width = e->results->width, bytes = width * sizeof(float);
    mica_embed_row *row = &e->results->rows[e->order[text]];
    float *vector = status == MICA_OK ? mc_alloc(bytes) : NULL;
    if (vector) memcpy(vector, e->vectors + text * width, bytes);
    row->vector = vector;
    row->status = status == MICA_OK && !vector ? mc_fail_nomem("a text's vector") : status;
    row->error = mc_task_error(row->status);
}

static mica_status encode_all(const mc_session_model *model, const mc_text *texts,
                              const mica_embed_options *options, mica_embed_results *results) {
    mc_encode_text *good = mc_array_alloc(results->count + 1, sizeof *good);
    size_t *order = mc_array_alloc(results->count + 1, sizeof *order);
    float *vectors = mc_array_alloc(results->count + 1, results->width * sizeof *vectors);
    encoded e = {results, order, vectors};
    mica_status status = good && order && vectors ? MICA_OK : mc_fail_nomem("texts");
    if (status == MICA_OK) {
        size_t n = choose(model, texts, results, good, order);
        status = mc_encode_vectors(model, good, n, options, vectors, end_encoded, &e);
    }
    mc_free(good);
    mc_free(order);
    mc_free(vectors);
    return status;
}

mica_status mc_embed_texts(const mc_session_model *model, const mc_text *texts, size_t count,
                           const mica_embed_options *options, mica_embed_results **out) {
    uint64_t start = mc_now_us();
    embedding e = {.options = options};
    *out = NULL;
    MC_TRY(mc_pooling_check(options->pooling));
    mica_embed_results *results = mc_calloc(1, sizeof *results);
    if (!results) return mc_fail_nomem("the vectors of texts");
    *results = (mica_embed_results){.rows = mc_calloc(count + 1, sizeof *results->rows),
                                    .count = count,
                                    .width = (size_t)mc_encode_width(model->lm)};
    e.results = results;
    for (size_t i = 0; results->rows && i < count; i++)
        results->rows[i].error = "";
    mica_status status = results->rows ? MICA_OK : mc_fail_nomem("the vectors of texts");
    if (status == MICA_OK)
        status = mc_encodes(model->lm) ? encode_all(model, texts, options, results)
                                       : embed_all(&e, model, texts);
    results->seconds = (double)(mc_now_us() - start) * 1e-6;
    if (status == MICA_OK)
        *out = results;
    else
        mica_embed_texts_free(&results);
    return status;
}

void mica_embed_texts_free(mica_embed_results **results) {
    if (!results || !*results) return;
    for (size_t i = 0; (*results)->rows && i < (*results)->count; i++) {
        mc_task_error_free((*results)->rows[i].status, (*results)->rows[i].error);
        mc_free((void *)(*results)->rows[i].vector);
    }
    mc_free((*results)->rows);
    mc_free(*results);
    *results = NULL;
}
