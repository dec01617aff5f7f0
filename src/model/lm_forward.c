#include "model/pass.h"
#include "model/split.h"

#include <mica/signal.h>

#include <math.h>
#include <string.h>

#include "graph/graph.h"

/* ---- what blocks are written with ---- */

mica_array mc_block_apply(const mc_lm_pass *p, const mc_block_at *at, int slot, mica_array x) {
    return mc_split_apply(p->s, &at->slots[slot].linear, x, p->order);
}

mica_array mc_block_pick(const mc_lm_pass *p, const mc_block_at *at, int slot, mica_array x,
                         mica_array picks) {
    return mc_split_pick(p->s, &at->slots[slot].linear, x, picks, p->order);
}

bool mc_block_has(const mc_block_at *at, int slot) {
    return at->slots[slot].name != NULL;
}

mica_array mc_block_part(const mc_lm_pass *p, mica_array x, int64_t from, int64_t to) {
    return mica_slice_axis(p->s, x, -1, from, to);
}

mica_array mc_block_carried(const mc_lm_pass *p, const mc_block_at *at, int i) {
    const mc_carried *c = &at->spec->carried[i];
    int64_t shape[MICA_MAX_NDIM] = {p->batch};
    if (p->store && p->store->before)
        return p->store->before(p->store->context, p->s, at->layer, i);
    memcpy(shape + 1, c->shape, (size_t)c->ndim * sizeof *shape);
    return mica_zeros(p->s, shape, c->ndim + 1, c->dtype);
}

void mc_block_carry(const mc_lm_pass *p, const mc_block_at *at, int i, mica_array next) {
    if (p->store && p->store->after) p->store->after(p->store->context, p->s, at->layer, i, next);
}

mica_array mc_block_convolve(const mc_lm_pass *p, const mc_block_at *at, int slot, int i,
                             mica_array x) {
    mica_array kernel = at->slots[slot].vector;
    mica_array parts[] = {mc_block_carried(p, at, i), x};
    mica_array all = mica_concatenate(p->s, parts, 2, 1);
    const mica_conv_options options = {.groups = mica_array_dim(kernel, 0)};
    int64_t kept = mica_array_dim(kernel, 1) - 1;
    mica_array last = mica_slice_axis(p->s, all, 1, -kept, MICA_END_OF_AXIS);
    /* A view would hold the memory of a whole chunk as long as the state lives. */
    if (mica_array_dim(x, 1) > kept) last = mica_contiguous(p->s, last);
    mc_block_carry(p, at, i, last);
    return mica_conv_general(p->s, all, kernel, &options);
}

mica_array mc_block_normalise(const mc_lm_pass *p, const mc_block_at *at, int slot, mica_array x) {
    const mc_lm_slot *norm = &at->slots[slot];
    float eps = (float)at->spec->norm_eps;
    if (!mica_valid(norm->vector)) return x;
    if (at->spec->centred) return mica_layer_norm(p->s, x, norm->vector, norm->linear.bias, eps);
    return mica_rms_norm(p->s, x, norm->vector, eps);
}

mica_array mc_block_rows_from(const mc_lm_pass *p, mica_array x, int64_t first) {
    return first ? mica_slice_axis(p->s, x, 1, first, p->length) : x;
}

mica_array mc_block_last_rows(const mc_lm_pass *p, mica_array left, mica_array x) {
    int64_t all = mica_array_dim(left, 1);
    int64_t first = all - mica_array_dim(x, 1);
    return first ? mica_slice_axis(p->s, left, 1, first, all) : left;
}

mica_array mc_block_activate(const mc_lm_pass *p, int64_t activation, mica_array x) {
    if (activation == MC_SILU) return mica_silu(p->s, x);
    if (activation == MC_RELU2) return mica_square(p->s, mica_relu(p->s, x));
    return activation == MC_GELU ? mica_gelu(p->s, x) : mica_gelu_approx(p->s, x);
}

/* ---- layers ---- */

/* x [B, L, hidden] -> rows [first, L) of [B, L, hidden]. */
static mica_array add_block(const mc_lm_pass *p, const mc_block_at *at, mica_array x) {
    bool last = at->spec->norm_last;
    if (at->spec->kind->replaces) return at->spec->kind->forward(p, at, x);
    mica_array y = last ? x : mc_block_normalise(p, at, MC_BLOCK_NORM, x);
    p->notes->seen = y;
    y = at->spec->kind->forward(p, at, y);
    y = mc_block_normalise(p, at, MC_BLOCK_POST_NORM, y);
    if (at->spec->factor != 1.0)
        y = mica_multiply(p->s, y, mica_f32(p->s, (float)at->spec->factor));
    y = mica_add(p->s, mc_block_rows_from(p, x, at->first), y);
    return last ? mc_block_normalise(p, at, MC_BLOCK_NORM, y) : y;
}

/* The last block of a layer that reads other positions; 0: none does. */
static int last_mixer(const mc_decoder_spec *spec, int layer) {
    int last = 0;
    const mc_block_spec *block;
    for (int k = 0; (block = mc_spec_block(spec, layer, k)); k++)
        if (block->kind->state) last = k;
    return last;
}

/* What blocks do behind the others of their layer. */
static mica_array finish_layer(const mc_lm_pass *p, int i, mica_array x) {
    mc_block_at at = {.layer = i};
    for (int k = 0; (at.spec = mc_spec_block(&p->lm->spec, i, k)); k++) {
        at.slots = mc_lm_block(p->lm, i, k);
        if (at.spec->kind->finish) x = at.spec->kind->finish(p, &at, x);
    }
    return x;
}

/* Layer i: x [B, L, hidden] -> rows [first, L) of [B, L, hidden]; or with streams before hidden. */
static mica_array decode_layer(const mc_lm_pass *whole, int i, int64_t first, mica_array x) {
    int last = last_mixer(&whole->lm->spec, i);
    mc_block_at at = {.layer = i};
    mc_layer_notes notes = {MICA_NONE, MICA_NONE};
    mc_lm_pass here = *whole, *p = &here;
    here.notes = &notes;
    for (int k = 0; (at.spec = mc_spec_block(&p->lm->spec, i, k)); k++) {
        at.slots = mc_lm_block(p->lm, i, k);
        at.first = k == last && at.spec->kind->state ? first : 0;
        if (k == last && !at.first) x = mc_block_rows_from(p, x, first);
        x = add_block(p, &at, x);
    }
    return finish_layer(p, i, x);
}

typedef struct layer_call {
    const mc_lm_pass *p;
    int layer;
    int64_t first;
} layer_call;

/* Takes keys and values behind x, if the layer shares them, and its input behind all; leaves its
 * own keys and values behind the result, if others share them. */
static mica_status record_layer(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                                mica_array *results, size_t n_results) {
    const layer_call *call = user;
    const mc_decoder_spec *spec = &call->p->lm->spec;
    int source = mc_spec_source(spec, call->layer), shared = mc_spec_shared(spec, source);
    mica_array kv[MC_MAX_SOURCES][2];
    mc_lm_pass p = *call->p;
    p.shared = kv;
    if (source != call->layer) memcpy(kv[shared], args + 1, sizeof kv[shared]);
    if (mica_valid(p.input)) p.input = args[n_args - 1];
    results[0] = decode_layer(&p, call->layer, call->first, args[0]);
    if (n_results > 1) memcpy(results + 1, kv[shared], sizeof kv[shared]);
    return mica_scope_status(s);
}

static mica_array checkpoint_layer(const mc_lm_pass *p, int i, int64_t first, mica_array x) {
    layer_call call = {p, i, first};
    const mc_decoder_spec *spec = &p->lm->spec;
    int source = mc_spec_source(spec, i), shared = mc_spec_shared(spec, source);
    mica_array args[4] = {x}, y[3];
    size_t n_args = source == i ? 1 : 3, n = source == i && shared >= 0 ? 3 : 1;
    if (n_args > 1) memcpy(args + 1, p->shared[shared], sizeof p->shared[shared]);
    if (mica_valid(p->input)) args[n_args++] = p->input;
    /* The scope keeps the error. */
    mc_scope_set_status(p->s, p->lm->checkpoint(p->s, record_layer, &call, args, n_args, y, n));
    if (n > 1) memcpy(p->shared[shared], y + 1, sizeof p->shared[shared]);
    return y[0];
}

static mica_array apply_head(mica_scope *s, const mc_lm *lm, mica_array hidden, mica_array *order) {
    float cap = (float)lm->spec.final_softcap;
    mica_array logits = mc_split_apply(s, &lm->head, hidden, order);
    if (lm->spec.logit_scale != 0.0)
        logits = mica_multiply(s, logits, mica_f32(s, (float)lm->spec.logit_scale));
    if (cap == 0.0f) return logits;
    mica_array scale = mica_f32(s, cap);
    return mica_multiply(s, mica_tanh(s, mica_divide(s, logits, scale)), scale);
}

mica_array mc_lm_head(mica_scope *s, const mc_lm *lm, mica_array hidden) {
    mica_array order = MICA_NONE;
    return apply_head(s, lm, hidden, &order);
}

/* A norm outside the layers; x, if there is none. */
static mica_array normalise(mica_scope *s, const mc_lm *lm, mica_array x, mica_array weight,
                            mica_array bias) {
    float eps = (float)lm->spec.norm_eps;
    if (!mica_valid(weight)) return x;
    return lm->spec.centred ? mica_layer_norm(s, x, weight, bias, eps)
                            : mica_rms_norm(s, x, weight, eps);
}

/* The positions of ids [B, L]. RoBERTa counts tokens; pads stand at the one before the first. */
static mica_array places(mica_scope *s, const mc_lm *lm, mica_array ids) {
    int64_t first = lm->spec.first_position;
    if (!first) return mica_arange(s, 0, (double)mica_array_dim(ids, 1), 1, MICA_I32);
    mica_array pad = mica_i32(s, (int32_t)first - 1);
    mica_array real = mica_astype(s, mica_not_equal(s, ids, pad), MICA_I32);
    return mica_add(s, mica_multiply(s, mica_cumsum(s, real, 1, false, true), real), pad);
}

/* Adds the embeddings of types and of positions to x [B, L, hidden], where an encoder has them. */
static mica_array add_places(mica_scope *s, const mc_lm *lm, mica_array x, mica_array ids,
                             mica_array types) {
    if (lm->spec.types) {
        if (!mica_valid(types)) types = mica_arange(s, 0, 1, 1, MICA_I32);
        x = mica_add(s, x, mc_linear_rows(s, &lm->types, types));
    }
    if (!lm->spec.positions) return x;
    return mica_add(s, x, mc_linear_rows(s, &lm->positions, places(s, lm, ids)));
}

mica_array mc_lm_embed_typed(mica_scope *s, const mc_lm *lm, mica_array ids, mica_array types) {
    float scale = (float)lm->spec.embed_scale;
    mica_array x = mc_linear_rows(s, &lm->embed, ids);
    if (scale != 1.0f) x = mica_multiply(s, x, mica_f32(s, scale));
    return normalise(s, lm, add_places(s, lm, x, ids, types), lm->embed_norm, lm->embed_norm_bias);
}

mica_array mc_lm_embed(mica_scope *s, const mc_lm *lm, mica_array ids) {
    return mc_lm_embed_typed(s, lm, ids, MICA_NONE);
}

/* ids, and the first where the table of layers' inputs has no row. */
static mica_array with_rows(mica_scope *s, const mc_decoder_spec *spec, mica_array ids) {
    if (spec->layer_rows >= spec->vocab) return ids;
    mica_dtype dtype = mica_array_dtype(ids);
    mica_array end = mica_astype(s, mica_i32(s, (int32_t)spec->layer_rows), dtype);
    mica_array first = mica_astype(s, mica_i32(s, 0), dtype);
    return mica_where(s, mica_less(s, ids, end), ids, first);
}

/* The part of layers' inputs, along the last axis, of the layers that are computed here. */
static mica_array own_inputs(mica_scope *s, const mc_lm *lm, mica_array x) {
    const mc_decoder_spec *spec = &lm->spec;
    if (!lm->before && !lm->behind) return x;
    return mica_slice_axis(s, x, -1, lm->before * spec->layer_width,
                           (spec->n_layers - lm->behind) * spec->layer_width);
}

/* What tokens give to each layer that is computed here, [B, L, layers, layer_width]: a norm of what
 * the embeddings x make, and, unless ids are embeddings, a row of the table. MICA_NONE: the model
 * has none. */
static mica_array layer_inputs(const mc_lm_pass *p, mica_array ids, mica_array x) {
    mica_scope *s = p->s;
    const mc_lm *lm = p->lm;
    const mc_decoder_spec *spec = &lm->spec;
    const int64_t split[] = {spec->n_layers - lm->before - lm->behind, spec->layer_width};
    double root = sqrt((double)spec->layer_width), half = sqrt(0.5);
    if (!spec->layer_width || !split[0]) return MICA_NONE;
    mica_array scale = mica_f32(s, (float)(1 / sqrt((double)spec->hidden)));
    mica_array y = mica_multiply(s, mc_split_apply(s, &lm->layer_projection, x, p->order), scale);
    y = mica_rms_norm(s, mica_unflatten(s, y, -1, split, 2), lm->layer_norm, (float)spec->norm_eps);
    if (mica_array_ndim(ids) == 3) return y;
    mica_array rows = mc_linear_rows(s, &lm->layer_embed, with_rows(s, spec, ids));
    rows = mica_unflatten(s, own_inputs(s, lm, rows), -1, split, 2);
    rows = mica_multiply(s, rows, mica_f32(s, (float)root));
    return mica_multiply(s, mica_add(s, y, rows), mica_f32(s, (float)half));
}

/* ---- streams ---- */

/* The root of the mean square of x over its last axis, of a mean that is `least` or more. */
static mica_array size_of(mica_scope *s, mica_array x, double least) {
    mica_array mean = mica_mean(s, mica_square(s, x), (int[]){-1}, 1, true);
    if (least > 0) mean = mica_maximum(s, mean, mica_f32(s, (float)least));
    return mica_sqrt(s, mean);
}

/* A stream that a matrix makes of x, as large as `size`. */
static mica_array turn_stream(const mc_lm_pass *p, const mc_linear *matrix, mica_array x,
                              mica_array size) {
    mica_scope *s = p->s;
    x = mc_split_apply(s, matrix, x, p->order);
    return mica_multiply(s, x, mica_divide(s, size, size_of(s, x, 1e-5)));
}

/* x [B, L, hidden] -> [B, L, streams, hidden]: x, and what is made of it. */
static mica_array open_streams(const mc_lm_pass *p, mica_array x) {
    mica_scope *s = p->s;
    const mc_lm *lm = p->lm;
    mica_array all[MC_MAX_STREAMS] = {x}, size = size_of(s, x, 0);
    int n = (int)lm->spec.streams;
    if (!n) return x;
    for (int i = 1; i < n; i++)
        all[i] = turn_stream(p, &lm->streams[i - 1], x, size);
    return mica_stack(s, all, n, 2);
}

/* The mean of the streams, each brought back to the size of the first. */
static mica_array close_streams(const mc_lm_pass *p, mica_array x) {
    mica_scope *s = p->s;
    const mc_lm *lm = p->lm;
    int64_t n = lm->spec.streams;
    if (!n) return x;
    mica_array first = mica_squeeze(s, mica_slice_axis(s, x, 2, 0, 1), 2), sum = first;
    mica_array size = size_of(s, first, 0);
    for (int64_t i = 1; i < n; i++) {
        mica_array next = mica_squeeze(s, mica_slice_axis(s, x, 2, i, i + 1), 2);
        sum = mica_add(s, sum, turn_stream(p, &lm->unstreams[i - 1], next, size));
    }
    return mica_multiply(s, sum, mica_f32(s, 1.0f / (float)n));
}

/* ---- stages of a pipeline ---- */

/* What the first layer here finds: x, of the embeddings, or what the stage before has left. */
static mica_array take_over(const mc_lm_pass *p, mica_array x) {
    const mc_lm *lm = p->lm;
    int64_t streams = lm->spec.streams, shape[] = {p->batch, p->length, lm->spec.hidden, 0};
    int stage = mica_group_rank(lm->stages);
    if (!stage) return x;
    if (streams) {
        shape[2] = streams;
        shape[3] = lm->spec.hidden;
    }
    mica_array like = mica_zeros(p->s, shape, streams ? 4 : 3, MICA_F32);
    return mica_recv(p->s, lm->stages, like, stage - 1, p->order);
}

/* The input of the head, of the last stage's last layer, for all stages. */
static mica_array share_hidden(const mc_lm_pass *p, mica_array x, mc_wanted wanted) {
    const mc_lm *lm = p->lm;
    const int64_t rows = wanted == MC_LAST_LOGITS ? 1 : p->length;
    const int64_t shape[] = {p->batch, rows, lm->spec.hidden};
    if (!lm->stages) return x;
    if (mc_lm_passes_on(lm)) x = mica_zeros(p->s, shape, 3, MICA_F32);
    return mica_broadcast(p->s, lm->stages, x, mica_group_size(lm->stages) - 1, p->order);
}

/* ---- the whole ---- */

static mica_array input_of(mica_scope *s, mica_array inputs, int layer) {
    if (!mica_valid(inputs)) return MICA_NONE;
    return mica_squeeze(s, mica_slice_axis(s, inputs, 2, layer, layer + 1), 2);
}

mica_array mc_lm_forward(mica_scope *s, const mc_lm *lm, mica_array ids, mica_array position,
                         const mc_kv_store *store, mc_wanted wanted) {
    mica_array shared[MC_MAX_SOURCES][2], order = MICA_NONE;
    mc_lm_pass p = {.s = s,
                    .lm = lm,
                    .store = store,
                    .position = position,
                    .batch = mica_array_dim(ids, 0),
                    .length = mica_array_dim(ids, 1),
                    .shared = shared,
                    .input = MICA_NONE,
                    .order = &order};
    mica_array x = mica_array_ndim(ids) == 3 ? ids : mc_lm_embed(s, lm, ids);
    mica_array inputs = layer_inputs(&p, ids, x);
    x = take_over(&p, open_streams(&p, x));
    mica_array taken = order;

    /* The last layer computes keys and values of all rows, and the rest only for the rows that are
     * wanted. */
    bool on = mc_lm_passes_on(lm);
    bool all = on || lm->spec.both_ways || (store && store->observe) ||
               !mc_lm_has_layer(lm, lm->spec.n_layers - 1);
    int64_t last = wanted == MC_LAST_LOGITS && !all ? p.length - 1 : 0;
    for (int i = lm->before; mc_lm_has_layer(lm, i); i++) {
        int64_t first = i == lm->spec.n_layers - 1 ? last : 0;
        p.input = input_of(s, inputs, i - lm->before);
        x = lm->checkpoint ? checkpoint_layer(&p, i, first, x) : decode_layer(&p, i, first, x);
        if (store && store->leave) store->leave(store->observer, s, x);
    }
    if (on) (void)mica_send(s, lm->stages, x, mica_group_rank(lm->stages) + 1, &order);
    if (wanted == MC_NO_LOGITS) return !lm->stages ? MICA_NONE : on ? order : taken;
    if (!on) {
        if (wanted == MC_LAST_LOGITS && last == 0) x = mc_block_rows_from(&p, x, p.length - 1);
        x = normalise(s, lm, close_streams(&p, x), lm->norm, lm->norm_bias);
    }
    x = share_hidden(&p, x, wanted);
    return wanted == MC_HIDDEN ? x : apply_head(s, lm, x, &order);
}
