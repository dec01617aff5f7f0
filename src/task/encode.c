#include "task/encode.h"

#include "base/alloc.h"
#include "base/cancel.h"
#include "engine/model.h"
#include "graph/graph.h"
#include "model/sentence.h"
#include "task/task.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of a pass; lengths are multiples of STEP, and one of LONG tokens is computed layer by layer. */
enum { ROWS = 64, TOKENS = 1024, STEP = 16, LONG = 1024 };

bool mc_encodes(const mc_lm *lm) {
    return lm->spec.both_ways || lm->sentence;
}

int64_t mc_encode_width(const mc_lm *lm) {
    return mc_sentence_width(lm->sentence, lm->spec.hidden);
}

int64_t mc_encode_model_width(const mica_model *model) {
    const mc_session_model *local;
    mica_model_info info = {.struct_bytes = sizeof info};
    if (mc_model_local(model, &local) == MICA_OK) return mc_encode_width(local->lm);
    mica_model_get_info(model, &info);
    return info.hidden_size;
}

/* ---- vectors ---- */

void mc_vector_normalise(float *vector, size_t n) {
    double square = 0.0;
    for (size_t i = 0; i < n; i++)
        square += (double)vector[i] * (double)vector[i];
    double scale = square > 0.0 ? 1.0 / sqrt(square) : 0.0;
    for (size_t i = 0; i < n; i++)
        vector[i] = (float)((double)vector[i] * scale);
}

size_t mc_vector_shorten(const mc_lm *lm, const mica_embed_options *options, float *vector) {
    size_t n = (size_t)options->dimensions, width = (size_t)mc_encode_width(lm);
    bool unit = options->normalise || (lm->sentence && lm->sentence->normalise);
    if (!n || n >= width) return width;
    if (vector && unit) mc_vector_normalise(vector, n);
    return n;
}

/* ---- a pass ---- */

/* What rows see of each other's columns: all but padding. */
static mc_attended see(void *context, mica_scope *s, int layer, mica_array k, mica_array v) {
    const mica_array *mask = context;
    (void)layer;
    return (mc_attended){.k = k, .v = v, .offset = mica_i32(s, 0), .mask = *mask};
}

typedef struct pass {
    const mc_session_model *model;
    mica_scope *s;
    const mc_encode_text *texts;
    const size_t *rows; /* [count] of texts */
    size_t count;
    int64_t length;
    const mica_task_options *task; /* watched; NULL: nobody does */
    size_t done, total;            /* texts, for its progress */
    bool steps;                    /* it is computed layer by layer */
    mica_array layer;              /* what the last one left */
} pass;

/* An array i32 [count, length] of the texts' ids or types, padded with 0. */
static mica_array fill(const pass *p, bool types) {
    const int64_t shape[] = {(int64_t)p->count, p->length};
    int32_t *all = mc_calloc(p->count * (size_t)p->length, sizeof *all);
    if (!all) return mc_scope_fail(p->s, MICA_ENOMEM, "no memory for a pass");
    for (size_t i = 0; i < p->count; i++) {
        const mc_encode_text *t = &p->texts[p->rows[i]];
        const int32_t *from = types ? t->types : t->ids;
        if (from) memcpy(all + i * (size_t)p->length, from, t->n * sizeof *from);
    }
    mica_array array = mica_from_data(p->s, all, MICA_I32, shape, 2);
    mc_free(all);
    return array;
}

/* bool [count, 1, 1, length]: which columns are tokens. */
static mica_array real_columns(const pass *p) {
    const int64_t shape[] = {(int64_t)p->count, 1, 1, 1};
    int32_t lengths[ROWS];
    for (size_t i = 0; i < p->count; i++)
        lengths[i] = (int32_t)p->texts[p->rows[i]].n;
    mica_array n = mica_from_data(p->s, lengths, MICA_I32, shape, 4);
    return mica_less(p->s, mica_arange(p->s, 0, (double)p->length, 1, MICA_I32), n);
}

static bool has_types(const pass *p) {
    bool any = false;
    for (size_t i = 0; i < p->count; i++)
        any |= p->texts[p->rows[i]].types != NULL;
    return any && p->model->lm->spec.types > 1;
}

/* A long pass is computed layer by layer, so that it ends soon once it is cancelled. */
static void end_layer(void *observer, mica_scope *s, mica_array x) {
    pass *p = observer;
    if (!p->steps || !mica_valid(x)) return;
    if (p->task->progress) p->task->progress(p->task->progress_user, p->done, p->total);
    mica_status status = mc_cancel_check(p->task->cancel);
    if (status == MICA_OK) status = mica_eval(s, x);
    mc_scope_set_status(s, status);
    mica_array_release(p->layer); /* nothing reads it any more */
    p->layer = x;
}

/* Whether a pass is long, and nothing of a layer but its result is read by later ones. */
static bool is_in_steps(const pass *p) {
    const mc_decoder_spec *spec = &p->model->lm->spec;
    bool in_steps = p->task && (int64_t)p->count * p->length >= LONG;
    for (int i = 0; i < spec->n_layers; i++)
        in_steps = in_steps && mc_spec_source(spec, i) == i;
    return in_steps;
}

/* [count, length, hidden] f32. A decoder's tokens see nothing of the padding behind them. */
static mica_array record(pass *p) {
    const mc_lm *lm = p->model->lm;
    mica_array x = fill(p, false), mask;
    mc_kv_store store = {
        .context = &mask, .keeps_nothing = true, .leave = end_layer, .observer = p};
    p->steps = is_in_steps(p);
    p->layer = MICA_NONE;
    if (lm->spec.both_ways) {
        x = mc_lm_embed_typed(p->s, lm, x, has_types(p) ? fill(p, true) : MICA_NONE);
        store.append = see;
        mask = real_columns(p);
    }
    return mc_lm_forward(p->s, lm, x, mica_i32(p->s, 0), &store, MC_HIDDEN);
}

static mica_status compute(pass *p, mc_buffer *states) {
    size_t bytes = p->count * (size_t)p->length * (size_t)p->model->lm->spec.hidden * sizeof(float);
    mc_buffer_clear(states);
    if (!mc_buffer_reserve(states, bytes)) return mc_fail_nomem("the states of texts");
    mica_array hidden = record(p);
    return mica_read(hidden, states->data, bytes);
}

/* ---- groups of texts ---- */

/* What is made of the states of texts. */
typedef struct encoding {
    pass pass;
    mica_task_options task;
    mc_encode_end end; /* NULL: the first failure ends all */
    void *user;        /* given to end */
    mc_sentence_pooling pooling;
    mc_buffer states; /* f32 [count, length, hidden] */
    float *pooled;    /* [ROWS, hidden] */
    size_t width;     /* of a result */
    mica_array (*finish)(const struct encoding *e, mica_array pooled);
    bool normalise;
    float *results; /* [all texts, width] */
} encoding;

/* The states of one text, pooled, in f64. */
static void pool(const encoding *e, const mc_encode_text *t, const float *states, float *out) {
    int64_t width = e->pass.model->lm->spec.hidden, n = (int64_t)t->n;
    int64_t first = (int64_t)(t->skip < t->n ? t->skip : 0), last = n;
    if (e->pooling == MC_SENTENCE_CLS) last = first + 1;
    if (e->pooling == MC_SENTENCE_LAST) first = n - 1;
    bool max = e->pooling == MC_SENTENCE_MAX, weighted = e->pooling == MC_SENTENCE_WEIGHTED;
    for (int64_t j = 0; j < width; j++) {
        double sum = max ? -INFINITY : 0.0, weights = 0.0;
        for (int64_t i = first; i < last; i++) {
            double x = (double)states[i * width + j], w = weighted ? (double)(i + 1) : 1.0;
            sum = max ? (isgreater(x, sum) || isnan(x) ? x : sum) : sum + w * x;
            weights += w;
        }
        if (e->pooling == MC_SENTENCE_MEAN_SQRT) weights = sqrt(weights);
        out[j] = (float)(max ? sum : sum / weights);
    }
}

static mica_status take_vector(const encoding *e, const float *row, float *result) {
    for (size_t j = 0; j < e->width; j++)
        if (!isfinite(row[j])) return mc_task_broken("a hidden state");
    memcpy(result, row, e->width * sizeof *result);
    if (e->normalise) mc_vector_normalise(result, e->width);
    return MICA_OK;
}

/* The results of a group: e->states has them, f32 [count, width]. */
static mica_status compute_group(encoding *e) {
    pass *p = &e->pass;
    const int64_t hidden = p->model->lm->spec.hidden, shape[] = {(int64_t)p->count, hidden};
    MC_TRY(mc_cancel_check(e->task.cancel));
    mc_scope_reset(p->s);
    MC_TRY(compute(p, &e->states));
    for (size_t i = 0; i < p->count; i++)
        pool(e, &p->texts[p->rows[i]],
             MC_BUFFER_AT(&e->states, float) + (int64_t)i * p->length * hidden,
             e->pooled + (int64_t)i * hidden);
    mica_array y = e->finish(e, mica_from_data(p->s, e->pooled, MICA_F32, shape, 2));
    size_t bytes = p->count * e->width * sizeof(float);
    mc_buffer_clear(&e->states);
    if (!mc_buffer_reserve(&e->states, bytes)) return mc_fail_nomem("the vectors of texts");
    return mica_read(y, e->states.data, bytes);
}

static mica_status end_text(const encoding *e, size_t text, mica_status status) {
    if (!e->end) return status;
    e->end(e->user, text, status);
    return MICA_OK;
}

/* Puts a group's results where its texts are. Where it fails, each text is computed alone: one's
 * failure is its own. */
static mica_status encode_group(encoding *e) {
    pass *p = &e->pass;
    const pass whole = *p;
    mica_status status = compute_group(e);
    if (status != MICA_OK && whole.count > 1 && e->end) {
        for (size_t i = 0; i < whole.count; i++) {
            p->rows = whole.rows + i;
            p->count = 1;
            MC_TRY(encode_group(e));
        }
        *p = whole;
        return MICA_OK;
    }
    for (size_t i = 0; i < p->count; i++) {
        mica_status own = status;
        if (own == MICA_OK)
            own = take_vector(e, MC_BUFFER_AT(&e->states, float) + i * e->width,
                              e->results + p->rows[i] * e->width);
        MC_TRY(end_text(e, p->rows[i], own));
    }
    return MICA_OK;
}

static int64_t padded(size_t n) {
    return (int64_t)((n + STEP - 1) / STEP * STEP);
}

/* The length of a pass of rows up to n tokens, within the model's positions. */
static int64_t length_of(const mc_lm *lm, size_t n) {
    int64_t length = padded(n);
    return lm->spec.positions && length > lm->spec.context ? (int64_t)n : length;
}

/* Groups of the texts that are sorted by length. */
static mica_status encode_sorted(encoding *e, const size_t *order, size_t count) {
    pass *p = &e->pass;
    for (size_t at = 0; at < count; at += p->count) {
        p->rows = order + at;
        p->count = 1;
        while (p->count < ROWS && at + p->count < count &&
               (p->count + 1) * p->texts[order[at + p->count]].n <= TOKENS)
            p->count++;
        p->done = at;
        p->length = length_of(p->model->lm, p->texts[order[at + p->count - 1]].n);
        MC_TRY(encode_group(e));
        if (e->task.progress) e->task.progress(e->task.progress_user, at + p->count, count);
    }
    return MICA_OK;
}

typedef struct place {
    size_t n, index;
} place;

static int by_length(const void *a, const void *b) {
    const place *x = a, *y = b;
    if (x->n != y->n) return x->n < y->n ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

static mica_status sort(const mc_encode_text *texts, size_t count, size_t *order) {
    place *places = mc_array_alloc(count + 1, sizeof *places);
    if (!places) return mc_fail_nomem("texts");
    for (size_t i = 0; i < count; i++)
        places[i] = (place){texts[i].n, i};
    qsort(places, count, sizeof *places, by_length);
    for (size_t i = 0; i < count; i++)
        order[i] = places[i].index;
    mc_free(places);
    return MICA_OK;
}

/* Where a model has one type, all are that one. */
static mica_status check_types(const mc_session_model *model, const mc_encode_text *text) {
    int64_t types = model->lm->spec.types;
    for (size_t i = 0; text->types && types > 1 && i < text->n; i++)
        if (text->types[i] < 0 || text->types[i] >= types)
            return mc_fail(MICA_EINVAL,
                           "token %zu is of type %d, as tokenizer.json says: the model has %lld "
                           "types",
                           i, (int)text->types[i], (long long)types);
    return MICA_OK;
}

mica_status mc_encode_check(const mc_session_model *model, const mc_encode_text *text) {
    int64_t context = model->lm->spec.context;
    MC_TRY(mc_task_check_ids(model, text->ids, text->n));
    MC_TRY(check_types(model, text));
    if (!model->lm->spec.both_ways || (int64_t)text->n <= context) return MICA_OK;
    return mc_fail(MICA_ECONTEXT, "a text of %zu tokens: the model has %lld positions", text->n,
                   (long long)context);
}

static mica_status check_texts(const mc_session_model *model, const mc_encode_text *texts,
                               size_t count) {
    for (size_t i = 0; i < count; i++)
        MC_TRY(mc_encode_check(model, &texts[i]));
    return MICA_OK;
}

static mica_status encode_all(encoding *e, const mc_encode_text *texts, size_t count) {
    size_t *order = mc_array_alloc(count + 1, sizeof *order);
    size_t hidden = (size_t)e->pass.model->lm->spec.hidden;
    e->pooled = mc_array_alloc(ROWS * hidden, sizeof *e->pooled);
    e->pass.texts = texts;
    e->pass.task = &e->task;
    e->pass.total = count;
    mica_status status = order && e->pooled ? MICA_OK : mc_fail_nomem("texts");
    if (status == MICA_OK) status = check_texts(e->pass.model, texts, count);
    if (status == MICA_OK) status = sort(texts, count, order);
    if (status == MICA_OK) status = mica_scope_open(e->pass.model->device, &e->pass.s);
    if (status == MICA_OK) status = encode_sorted(e, order, count);
    mica_scope_close(&e->pass.s);
    mc_buffer_deinit(&e->states);
    mc_free(e->pooled);
    mc_free(order);
    return status;
}

/* ---- what is asked for ---- */

mica_status mc_encode_states(const mc_session_model *model, const mc_encode_text *text,
                             float *states) {
    const size_t first = 0;
    pass p = {.model = model, .texts = text, .rows = &first, .count = 1};
    mc_buffer all = {0};
    MC_TRY(check_texts(model, text, 1));
    p.length = length_of(model->lm, text->n);
    MC_TRY(mica_scope_open(model->device, &p.s));
    mica_status status = compute(&p, &all);
    if (status == MICA_OK)
        memcpy(states, all.data, text->n * (size_t)model->lm->spec.hidden * sizeof *states);
    mica_scope_close(&p.s);
    mc_buffer_deinit(&all);
    return status;
}

static mica_array project(const encoding *e, mica_array pooled) {
    const mc_sentence *sentence = e->pass.model->lm->sentence;
    return sentence ? mc_sentence_project(e->pass.s, sentence, pooled) : pooled;
}

mica_status mc_pooling_check(mica_pooling pooling) {
    if ((int)pooling >= MICA_POOLING_DEFAULT && pooling <= MICA_POOLING_LAST) return MICA_OK;
    return mc_fail(MICA_EINVAL, "pooling %d: want MICA_POOLING_DEFAULT, _MEAN or _LAST",
                   (int)pooling);
}

static mc_sentence_pooling pooling_of(const mc_sentence *sentence, mica_pooling asked) {
    if (asked == MICA_POOLING_LAST) return MC_SENTENCE_LAST;
    return asked == MICA_POOLING_DEFAULT && sentence ? sentence->pooling : MC_SENTENCE_MEAN;
}

mica_status mc_encode_vectors(const mc_session_model *model, const mc_encode_text *texts,
                              size_t count, const mica_embed_options *options, float *vectors,
                              mc_encode_end end, void *user) {
    const mc_sentence *sentence = model->lm->sentence;
    encoding e = {.pass = {.model = model},
                  .task = {.progress = options->progress,
                           .progress_user = options->progress_user,
                           .cancel = options->cancel},
                  .end = end,
                  .user = user,
                  .width = (size_t)mc_encode_width(model->lm),
                  .finish = project,
                  .normalise = options->normalise || (sentence && sentence->normalise),
                  .results = vectors};
    MC_TRY(mc_pooling_check(options->pooling));
    if (sentence) MC_TRY(mc_sentence_check(sentence));
    e.pooling = pooling_of(sentence, options->pooling);
    return encode_all(&e, texts, count);
}

static mica_array rank(const encoding *e, mica_array pooled) {
    return mc_ranker_apply(e->pass.s, e->pass.model->lm->ranker, pooled);
}

mica_status mc_encode_scores(const mc_session_model *model, const mc_encode_text *texts,
                             size_t count, bool logits, const mica_task_options *options,
                             float *scores) {
    const mc_ranker *ranker = model->lm->ranker;
    encoding e = {
        .pass = {.model = model}, .task = *options, .width = 1, .finish = rank, .results = scores};
    if (!ranker)
        return mc_fail(MICA_EUNSUPPORTED,
                       "the model is no cross-encoder: it has no head for pairs");
    if (ranker->out.out != 1)
        return mc_fail(MICA_EUNSUPPORTED,
                       "a model of %lld labels, which classifies texts: it says not how well one "
                       "answers another, as models of one label do",
                       (long long)ranker->out.out);
    e.pooling = ranker->mean ? MC_SENTENCE_MEAN : MC_SENTENCE_CLS;
    MC_TRY(encode_all(&e, texts, count));
    for (size_t i = 0; ranker->sigmoid && !logits && i < count; i++)
        scores[i] = (float)(1.0 / (1.0 + exp(-(double)scores[i])));
    return MICA_OK;
}
