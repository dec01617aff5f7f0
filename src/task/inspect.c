#include "task/inspect.h"

#include "base/alloc.h"
#include "task/task.h"

#include <string.h>

typedef struct looking {
    mica_attention *found;
    mc_buffer chunk; /* float [heads, n, head_dim] of a chunk */
} looking;

/* Copies x [1, heads, n, D] to tokens [at, at + n) of out [heads, tokens, D]. */
static mica_status copy_chunk(looking *w, mica_array x, int64_t heads, int64_t at, int64_t n,
                              float *out) {
    int64_t tokens = w->found->tokens, width = w->found->head_dim;
    size_t bytes = (size_t)(n * width) * sizeof(float);
    mc_buffer_clear(&w->chunk);
    if (!mc_buffer_reserve(&w->chunk, bytes * (size_t)heads))
        return mc_fail_nomem("queries and keys");
    MC_TRY(mica_read(x, w->chunk.data, bytes * (size_t)heads));
    for (int64_t h = 0; h < heads; h++)
        memcpy(out + (h * tokens + at) * width, w->chunk.data + (size_t)h * bytes, bytes);
    return MICA_OK;
}

static mica_status take_chunk(void *context, const mica_array *results, int64_t at, int64_t n) {
    looking *w = context;
    for (size_t i = 0; i < w->found->count; i++) {
        const mica_attention_layer *layer = &w->found->layers[i];
        MC_TRY(copy_chunk(w, results[2 * i], w->found->heads, at, n, (float *)layer->q));
        MC_TRY(copy_chunk(w, results[2 * i + 1], w->found->kv_heads, at, n, (float *)layer->k));
    }
    return MICA_OK;
}

static mica_status check_layers(const mc_lm *lm, const int64_t *layers, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (layers[i] < 0 || layers[i] >= lm->spec.n_layers)
            return mc_fail(MICA_EINVAL, "layer %lld: the model's layers are 0 to %d",
                           (long long)layers[i], lm->spec.n_layers - 1);
        for (size_t j = 0; j < i; j++)
            if (layers[j] == layers[i])
                return mc_fail(MICA_EINVAL, "layer %lld is asked for twice", (long long)layers[i]);
    }
    return MICA_OK;
}

/* All layers have queries and keys of one shape. */
static mica_status check_shape(const mc_lm *lm, int layer, const mica_attention *found) {
    const mc_attention_spec *a = mc_spec_attention(&lm->spec, layer);
    if (a->heads == found->heads && a->kv_heads == found->kv_heads &&
        a->head_dim == found->head_dim)
        return MICA_OK;
    return mc_fail(MICA_EUNSUPPORTED, "layer %d has %s: name the layers that are wanted", layer,
                   a->heads ? "heads unlike those of most layers" : "no attention");
}

/* Allocates the results. layers NULL: all layers. */
static mica_status make_room(const mc_lm *lm, const int32_t *ids, const int64_t *layers,
                             mica_attention *found) {
    size_t token = (size_t)found->head_dim * (size_t)found->tokens;
    int32_t *copy = mc_array_alloc((size_t)found->tokens, sizeof *copy);
    found->ids = copy;
    found->layers = mc_calloc(found->count, sizeof *found->layers);
    if (!copy || !found->layers) return mc_fail_nomem("queries and keys");
    memcpy(copy, ids, (size_t)found->tokens * sizeof *copy);
    for (size_t i = 0; i < found->count; i++) {
        mica_attention_layer *layer = &found->layers[i];
        layer->layer = layers ? layers[i] : (int64_t)i;
        MC_TRY(check_shape(lm, (int)layer->layer, found));
        layer->q = mc_array_alloc((size_t)lm->spec.heads * token, sizeof(float));
        layer->k = mc_array_alloc((size_t)lm->spec.kv_heads * token, sizeof(float));
        if (!layer->q || !layer->k) return mc_fail_nomem("queries and keys");
    }
    return MICA_OK;
}

static mica_status inspect(const mc_session_model *model, const mica_task_options *options,
                           mica_attention *found) {
    looking w = {.found = found};
    int64_t *layers = mc_array_alloc(found->count, sizeof *layers);
    mica_array *results = mc_array_alloc(2 * found->count, sizeof *results);
    mica_status status = layers && results ? MICA_OK : mc_fail_nomem("queries and keys");
    for (size_t i = 0; status == MICA_OK && i < found->count; i++)
        layers[i] = found->layers[i].layer;
    const mc_session_wish wish = {
        .wanted = MC_NO_LOGITS, .layers = layers, .n_layers = found->count};
    if (status == MICA_OK)
        status = mc_task_feed(model, found->ids, (size_t)found->tokens, options, &wish, results,
                              take_chunk, &w);
    mc_buffer_deinit(&w.chunk);
    mc_free(results);
    mc_free(layers);
    return status;
}

mica_status mc_inspect(const mc_session_model *model, const int32_t *ids, size_t n,
                       const int64_t *layers, size_t count, const mica_task_options *options,
                       mica_attention **out) {
    const mc_lm *lm = model->lm;
    *out = NULL;
    MC_TRY(mc_task_check_ids(model, ids, n));
    if (!layers)
        count = (size_t)lm->spec.n_layers;
    else
        MC_TRY(check_layers(lm, layers, count));
    mica_attention *found = mc_calloc(1, sizeof *found);
    if (!found) return mc_fail_nomem("queries and keys");
    *found = (mica_attention){.tokens = (int64_t)n,
                              .heads = lm->spec.heads,
                              .kv_heads = lm->spec.kv_heads,
                              .head_dim = lm->spec.head_dim,
                              .count = count};
    mica_status status = make_room(lm, ids, layers, found);
    if (status == MICA_OK) status = inspect(model, options, found);
    if (status == MICA_OK)
        *out = found;
    else
        mica_attention_free(&found);
    return status;
}

void mica_attention_free(mica_attention **attention) {
    if (!attention || !*attention) return;
    mica_attention *a = *attention;
    for (size_t i = 0; a->layers && i < a->count; i++) {
        mc_free((void *)a->layers[i].q);
        mc_free((void *)a->layers[i].k);
    }
    mc_free(a->layers);
    mc_free((void *)a->ids);
    mc_free(a);
    *attention = NULL;
}
