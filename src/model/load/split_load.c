/* A rank's part of a model that was loaded whole: views of what is mapped. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "device/device.h"
#include "group/group.h"
#include "model/load/load.h"

/* ---- parts of what was loaded ---- */

typedef struct span {
    int64_t from, to;
} span;

/* Rows [from, to) along an axis, counted from the end where it is below 0. */
static mica_array rows_of(mica_scope *s, mica_array x, int axis, span rows) {
    return mica_valid(x) ? mica_slice_axis(s, x, axis, rows.from, rows.to) : x;
}

/* Rows of a matrix, also of each expert's; views of it. */
static mc_linear take_rows(mica_scope *s, const mc_linear *linear, span rows) {
    mc_linear part = *linear;
    int axis = linear->experts ? 1 : 0;
    part.out = rows.to - rows.from;
    part.weight = rows_of(s, linear->weight, axis, rows);
    part.scales = rows_of(s, linear->scales, axis, rows);
    part.biases = rows_of(s, linear->biases, axis, rows);
    part.bias = rows_of(s, linear->bias, -1, rows);
    part.gains = rows_of(s, linear->gains, -1, rows);
    part.lora_b = rows_of(s, linear->lora_b, 1, rows);
    part.dora = rows_of(s, linear->dora, -1, rows);
    return part;
}

/* Some of the matrices of one with an axis for them. */
static mc_linear take_matrices(mica_scope *s, const mc_linear *linear, span matrices) {
    mc_linear part = *linear;
    mica_array *const arrays[] = {&part.weight, &part.scales, &part.biases, &part.bias,
                                  &part.gains,  &part.lora_a, &part.lora_b, &part.dora};
    part.experts = matrices.to - matrices.from;
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        *arrays[i] = rows_of(s, *arrays[i], 0, matrices);
    return part;
}

static mica_array concatenated(mica_scope *s, mica_array a, mica_array b, int axis) {
    const mica_array both[] = {a, b};
    return mica_valid(a) ? mica_concatenate(s, both, 2, axis) : b;
}

/* Two lists of rows of one matrix as one: a copy. */
static mc_linear append_rows(mica_scope *s, const mc_linear *a, const mc_linear *b) {
    mc_linear all = *a;
    int axis = a->experts ? 1 : 0;
    all.out = a->out + b->out;
    all.weight = concatenated(s, a->weight, b->weight, axis);
    all.scales = concatenated(s, a->scales, b->scales, axis);
    all.biases = concatenated(s, a->biases, b->biases, axis);
    all.bias = concatenated(s, a->bias, b->bias, -1);
    all.gains = concatenated(s, a->gains, b->gains, -1);
    all.lora_b = concatenated(s, a->lora_b, b->lora_b, 1);
    all.dora = concatenated(s, a->dora, b->dora, -1);
    return all;
}

/* Computes what was sliced, so that passes find views, not slices. */
static mica_status settle(mica_scope *s, mc_linear *l) {
    mica_array *const parts[] = {&l->weight, &l->scales, &l->biases, &l->bias,
                                 &l->gains,  &l->lora_a, &l->lora_b, &l->dora};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (mica_valid(*parts[i])) MC_TRY(mica_eval(s, *parts[i]));
    return mica_scope_status(s);
}

/* ---- the whole ---- */

/* A model being split among the ranks of a group: those of a stage, and for the head all. */
typedef struct splitting {
    mc_lm *lm;
    mica_group *group;
    int64_t rank, size;
    bool divided[MC_MAX_BLOCKS];
} splitting;

/* A rank's of `rows` equal ones, of which there are `local` each. Where ranks are more than parts,
 * several have the same. */
static span own_span(const splitting *w, int64_t rows, int64_t local) {
    int64_t parts = rows / local, first = w->rank * parts / w->size * local;
    return (span){first, first + local};
}

/* Gives a matrix whose results all ranks want a part of its rows; few rows stay whole. */
static mica_status split_gathered(const splitting *w, mc_linear *l) {
    int64_t rows = l->out, part = (rows + w->size - 1) / w->size;
    l->group = w->group;
    if (w->size == 1 || rows < w->size * 4 || part * (w->size - 1) >= rows) return MICA_OK;
    int64_t first = w->rank * part < rows - part ? w->rank * part : rows - part;
    *l = take_rows(w->lm->scope, l, (span){first, first + part});
    l->whole = rows;
    return settle(w->lm->scope, l);
}

/* A part of the rows of slots [first, last], which lie one behind the other in one matrix. */
static mica_status split_joined(const splitting *w, const mc_lm_slot *slot,
                                const mc_block_spec *whole, const mc_block_spec *own,
                                mc_linear *l) {
    mc_linear all = {0};
    int64_t at = 0;
    for (int i = slot->slot->first; i <= slot->slot->last; i++) {
        const mc_slot *kind = &whole->kind->slots[i];
        int64_t rows = kind->rows(whole), local = kind->rows(own);
        span part = own_span(w, rows, local);
        mc_linear next = take_rows(w->lm->scope, l, (span){at + part.from, at + part.to});
        all = i == slot->slot->first ? next : append_rows(w->lm->scope, &all, &next);
        at += rows;
    }
    *l = all;
    return settle(w->lm->scope, l);
}

/* Where gates and ups take turns, a part has both of its own. */
static bool lies_apart(const mc_lm_slot *slot, const mc_block_spec *block) {
    bool turns = slot->slot->by_heads || (slot->slot->experts && block->experts.interleaved);
    return slot->slot->last && !turns;
}

static mica_status split_kept(const splitting *w, mc_lm_slot *slot, const mc_block_spec *whole,
                              const mc_block_spec *own) {
    mica_scope *s = w->lm->scope;
    int64_t rows = slot->slot->rows(whole), local = slot->slot->rows(own);
    if (slot->slot->kind != MC_SLOT_MATRIX) {
        slot->vector = rows_of(s, slot->vector, 0, own_span(w, rows, local));
        return mica_valid(slot->vector) ? mica_eval(s, slot->vector) : MICA_OK;
    }
    if (lies_apart(slot, whole)) return split_joined(w, slot, whole, own, &slot->linear);
    mc_extent *experts = slot->slot->experts;
    if (experts && experts(whole) != experts(own))
        slot->linear = take_matrices(s, &slot->linear, own_span(w, experts(whole), experts(own)));
    else
        slot->linear = take_rows(s, &slot->linear, own_span(w, rows, local));
    return settle(s, &slot->linear);
}

static mica_status split_slot(const splitting *w, mc_lm_slot *slot) {
    mc_decoder_spec *spec = &w->lm->spec;
    int block = spec->layers[slot->layer].blocks[slot->block];
    mc_slot_split how = slot->slot->split;
    if (!slot->name) return MICA_OK;
    if ((how == MC_SPLIT_KEPT || how == MC_SPLIT_OWN) && w->divided[block])
        return split_kept(w, slot, &w->lm->whole[block], &spec->blocks[block]);
    if (how == MC_SPLIT_OWN || slot->slot->kind != MC_SLOT_MATRIX || slot->slot->exact)
        return MICA_OK;
    slot->linear.joins = how == MC_SPLIT_JOINED && w->divided[block];
    return split_gathered(w, &slot->linear);
}

/* Divides the numbers of all blocks with keys and values, as layers may share these, or of none;
 * and of each other block. */
static void divide_blocks(splitting *w) {
    mc_decoder_spec *spec = &w->lm->spec;
    bool keys = true;
    for (int i = 0; i < spec->n_blocks; i++) {
        mc_block_spec *block = &spec->blocks[i];
        w->divided[i] = block->kind->divide && block->kind->divide(block, w->size);
        if (block->kind->state == MC_STATE_KEYS) keys &= w->divided[i];
    }
    for (int i = 0; i < spec->n_blocks && !keys; i++) {
        if (spec->blocks[i].kind->state != MC_STATE_KEYS) continue;
        spec->blocks[i] = w->lm->whole[i];
        w->divided[i] = false;
    }
}

/* Leaves of the matrix of layers' inputs the rows of this rank's layers. */
static void take_inputs(mc_lm *lm) {
    const mc_decoder_spec *spec = &lm->spec;
    const span rows = {lm->before * spec->layer_width,
                       (spec->n_layers - lm->behind) * spec->layer_width};
    if (lm->before || lm->behind)
        lm->layer_projection = take_rows(lm->scope, &lm->layer_projection, rows);
}

static mica_status split_outside(const splitting *w) {
    mc_lm *lm = w->lm;
    int n = (int)lm->spec.streams - 1;
    if (lm->spec.layer_width) {
        take_inputs(lm);
        MC_TRY(settle(lm->scope, &lm->layer_projection));
        MC_TRY(split_gathered(w, &lm->layer_projection));
    }
    for (int i = 0; i < n; i++) {
        MC_TRY(split_gathered(w, &lm->streams[i]));
        MC_TRY(split_gathered(w, &lm->unstreams[i]));
    }
    return MICA_OK;
}

/* What is inside a stage. */
static mica_status split_stage(splitting *w) {
    mc_lm *lm = w->lm;
    size_t n = (size_t)lm->spec.n_blocks;
    lm->whole = mc_array_alloc(n, sizeof *lm->whole);
    if (!lm->whole) return mc_fail_nomem("a rank's part of a model");
    memcpy(lm->whole, lm->spec.blocks, n * sizeof *lm->whole);
    if (w->size > 1) divide_blocks(w);
    MC_TRY(split_outside(w));
    for (size_t i = 0; w->size > 1 && i < lm->n_slots; i++)
        if (mc_lm_has_layer(lm, lm->slots[i].layer)) MC_TRY(split_slot(w, &lm->slots[i]));
    return MICA_OK;
}

/* ---- stages ---- */

/* Whether layers from `at` on read keys and values of none before it. */
static bool can_part(const mc_decoder_spec *spec, int at) {
    for (int i = at; i < spec->n_layers; i++)
        if (mc_spec_source(spec, i) < at) return false;
    return true;
}

/* Where a stage of n begins: of the layers from `least` on at which the model can be parted the one
 * that is nearest to equal parts. */
static int stage_start(const mc_decoder_spec *spec, int stage, int n, int least) {
    int64_t wanted = (int64_t)spec->n_layers * stage / n;
    int best = spec->n_layers;
    for (int i = spec->n_layers; i >= least; i--)
        if (can_part(spec, i) && llabs(i - wanted) <= llabs(best - wanted)) best = i;
    return best;
}

static void take_layers(mc_lm *lm, int stage, int n) {
    int end = 0;
    for (int i = 0; i <= stage; i++) {
        lm->before = end;
        end = i == n - 1 ? lm->spec.n_layers : stage_start(&lm->spec, i + 1, n, end);
    }
    lm->behind = lm->spec.n_layers - end;
}

static mica_status check_sizes(int64_t size, int *tensor, int *pipeline) {
    int64_t t = *tensor, p = *pipeline;
    if (!t) t = p ? size / p : size;
    if (!p) p = size / t;
    *tensor = (int)t;
    *pipeline = (int)p;
    if (t >= 1 && p >= 1 && t * p == size) return MICA_OK;
    return mc_fail(MICA_EINVAL,
                   "tensor_parallel %lld times pipeline_parallel %lld is not the number of ranks, "
                   "%lld",
                   (long long)t, (long long)p, (long long)size);
}

/* Lets the device have the collectives of the model's groups. */
static mica_status join(const mc_lm *lm) {
    mica_device *device = mica_scope_device(lm->scope);
    mica_group *const groups[] = {lm->group, lm->stages, lm->peers};
    for (size_t i = 0; i < 3 && device->backend->join; i++)
        if (groups[i]) MC_TRY(device->backend->join(device->state, groups[i]));
    return MICA_OK;
}

mica_status mc_lm_split(mc_lm *lm, mica_group *group, int tensor, int pipeline) {
    int rank = mica_group_rank(group), size = mica_group_size(group);
    MC_TRY(check_sizes(size, &tensor, &pipeline));
    if (size == 1) return MICA_OK;
    if (lm->spec.both_ways || lm->sentence || lm->ranker)
        return mc_fail(MICA_EUNSUPPORTED, "%s models are not divided among the ranks of a group",
                       lm->spec.family);
    int stage = rank / tensor;
    mica_group *peers = NULL;
    splitting all = {.lm = lm, .group = group, .rank = rank, .size = size};
    lm->group = mc_group_retain(group);
    MC_TRY(mc_group_outcome(group, split_gathered(&all, &lm->head)));
    if (pipeline > 1) {
        MC_TRY(mica_group_split(group, rank % tensor, rank, &lm->stages));
        MC_TRY(mica_group_split(group, stage, rank, &peers));
        take_layers(lm, stage, pipeline);
    }
    splitting own = {
        .lm = lm, .group = peers ? peers : group, .rank = rank % tensor, .size = tensor};
    lm->peers = peers;
    MC_TRY(join(lm));
    return split_stage(&own);
}
