#include "convert/calibrate.h"

#include "base/alloc.h"
#include "base/cancel.h"
#include "base/filemap.h"
#include "base/utf8.h"
#include "convert/recipe.h"
#include "graph/graph.h"
#include "model/family.h"
#include "model/load/load.h"

#include <mica/tokenizer.h>

#include <math.h>
#include <string.h>

enum {
    MAX_TEXT = 1 << 16, /* bytes of the text that are read */
    MAX_TOKENS = 256,
    MIN_TOKENS = 16,
    MAX_LOGITS = 1 << 26 /* of the predictions that are compared */
};

const int mc_bits[MC_BITS] = {2, 3, 4, 5, 6, 8};

/* ---- the choice ---- */

/* What a group gains by a bit of its weights, from choice `a` to `b`. */
static double gain(const double costs[MC_BITS], uint64_t weights, int a, int b) {
    return (costs[a] - costs[b]) / ((double)weights * (mc_bits[b] - mc_bits[a]));
}

bool mc_spend_bits(const double (*costs)[MC_BITS], const uint64_t *weights, size_t groups,
                   double budget, int from, int *choice) {
    for (size_t i = 0; i < groups; i++) {
        choice[i] = from;
        budget -= (double)weights[i] * mc_bits[from];
    }
    if (budget < 0) return false;
    for (;;) {
        double best = 0, price = 0;
        size_t at = 0;
        int to = 0;
        for (size_t i = 0; i < groups; i++)
            for (int b = choice[i] + 1; b < MC_BITS; b++) {
                double more = (double)weights[i] * (mc_bits[b] - mc_bits[choice[i]]);
                double g = gain(costs[i], weights[i], choice[i], b);
                if (more > budget || !(g > best)) continue;
                best = g;
                price = more;
                at = i;
                to = b;
            }
        if (best == 0) return true;
        choice[at] = to;
        budget -= price;
    }
}

/* ---- groups ---- */

/* The matrices of a block, or the embedding, or the head. */
typedef struct group {
    int layer, block; /* layer EMBED, HEAD: outside the layers */
} group;

enum { EMBED = -1, HEAD = -2 };

typedef struct calibrating {
    const mc_source *source;
    const mica_convert_options *options;
    mica_device *device;
    mica_scope *s;    /* of a pass */
    mica_dtype dtype; /* of scales, if `cast`; else they have that of their weights */
    bool cast;
    int group_size;
    mc_lm *lm;
    mc_arena arena;
    int32_t *ids;
    size_t n;      /* number of ids */
    int32_t *rows; /* [n_rows] positions whose predictions are compared */
    int64_t n_rows;
    float *reference; /* [n_rows, vocab] logits of the model */
    float *logits;    /* the same of a pass */
    group *groups;    /* [count] */
    size_t count;
    size_t *of; /* [parts] group of a part; SIZE_MAX: none */
    uint64_t *weights;
    double (*costs)[MC_BITS];
    int *choice;
    uint64_t done, total; /* passes */
    double parameters;    /* that count for target_bits */
} calibrating;

static mica_status no_memory(void) {
    return mc_fail_nomem("a calibration");
}

/* The group of a matrix; false: it is none of the decoder's. */
static bool find_group(const calibrating *c, const char *name, group *g) {
    const mc_str ending = MC_STR(".weight");
    const mc_decoder_names *names = &c->lm->spec.names;
    mc_str module = mc_decoder_name(mc_str_of(name));
    mc_spec_slot at;
    if (!mc_str_ends(module, ending)) return false;
    module.len -= ending.len;
    if (mc_spec_find(c->source->spec, module, &at)) {
        *g = (group){at.layer, at.block};
        return at.spec->kind->slots[at.slot].kind == MC_SLOT_MATRIX;
    }
    *g = (group){mc_str_is(module, names->head) ? HEAD : EMBED, 0};
    return g->layer == HEAD || mc_str_is(module, names->embed);
}

static bool is_quantised(const calibrating *c, const mc_part *part) {
    return mc_source_is_matrix(c->source, part) && part->shape[part->ndim - 1] > 0 &&
           part->shape[part->ndim - 1] % c->group_size == 0;
}

static mica_status list_groups(calibrating *c) {
    size_t n = c->source->count;
    c->groups = mc_arena_calloc(&c->arena, (n + 1) * sizeof *c->groups);
    c->of = mc_arena_calloc(&c->arena, (n + 1) * sizeof *c->of);
    c->weights = mc_arena_calloc(&c->arena, (n + 1) * sizeof *c->weights);
    c->costs = mc_arena_calloc(&c->arena, (n + 1) * sizeof *c->costs);
    c->choice = mc_arena_calloc(&c->arena, (n + 1) * sizeof *c->choice);
    if (!c->groups || !c->of || !c->weights || !c->costs || !c->choice) return no_memory();
    for (size_t i = 0; i < n; i++) {
        const mc_part *part = &c->source->parts[i];
        group g;
        size_t k = 0;
        c->of[i] = SIZE_MAX;
        if (!is_quantised(c, part) || !find_group(c, part->name, &g)) continue;
        if (g.layer == HEAD && c->lm->tied) continue; /* it is left out */
        while (k < c->count && (c->groups[k].layer != g.layer || c->groups[k].block != g.block))
            k++;
        if (k == c->count) c->groups[c->count++] = g;
        c->of[i] = k;
        uint64_t weights = 1;
        for (int axis = 0; axis < part->ndim; axis++)
            weights *= (uint64_t)part->shape[axis];
        c->weights[k] += weights;
    }
    c->total = c->count * MC_BITS + 3;
    return MICA_OK;
}

/* ---- the text ---- */

static mica_status encode(calibrating *c, const char *text, size_t len) {
    mica_tokenizer *tok;
    int32_t *ids;
    MC_TRY(mica_tokenizer_open(c->source->folder, &tok));
    mica_status status = mica_tokenizer_encode(tok, text, len, true, &ids, &c->n);
    mica_tokenizer_close(&tok);
    if (status != MICA_OK) return mc_fail_context(status, "%s", c->options->calibration);
    size_t max = c->lm->spec.context < MAX_TOKENS ? (size_t)c->lm->spec.context : MAX_TOKENS;
    if (c->n > max) c->n = max;
    c->ids = mc_arena_alloc(&c->arena, c->n * sizeof *ids);
    if (c->ids) memcpy(c->ids, ids, c->n * sizeof *ids);
    mica_free(ids);
    if (!c->ids) return no_memory();
    if (c->n >= MIN_TOKENS) return MICA_OK;
    return mc_fail(MICA_EINVAL, "%s: has %zu tokens, a calibration needs %d or more",
                   c->options->calibration, c->n, MIN_TOKENS);
}

static mica_status read_text(calibrating *c) {
    mc_filemap map;
    size_t size;
    MC_TRY(mc_filemap_read_head(c->options->calibration, MAX_TEXT, &map, &size));
    const char *text = (const char *)map.data;
    size_t len = map.size;
    while (size > len && len > 0 && ((uint8_t)text[len - 1] & 0xc0) == 0x80)
        len--; /* the last character may be cut */
    if (size > map.size && len > 0) len--;
    mica_status status = encode(c, text, len);
    mc_filemap_close(&map);
    return status;
}

/* Predictions are compared at all positions, or at so many that memory allows. */
static mica_status pick_rows(calibrating *c) {
    int64_t vocab = c->lm->spec.vocab, n = (int64_t)c->n;
    c->n_rows = MAX_LOGITS / vocab < n ? MAX_LOGITS / vocab : n;
    if (c->n_rows < 1) c->n_rows = 1;
    c->rows = mc_arena_alloc(&c->arena, (size_t)c->n_rows * sizeof *c->rows);
    size_t bytes = (size_t)(c->n_rows * vocab) * sizeof(float);
    c->reference = mc_alloc(bytes);
    c->logits = mc_alloc(bytes);
    if (!c->rows || !c->reference || !c->logits) return no_memory();
    for (int64_t i = 0; i < c->n_rows; i++)
        c->rows[i] = (int32_t)(i * n / c->n_rows);
    return MICA_OK;
}

/* ---- passes ---- */

static mica_status run_sample(calibrating *c, float *logits) {
    const int64_t shape[] = {1, (int64_t)c->n};
    mica_scope *s = c->s;
    mica_array ids = mica_from_data(s, c->ids, MICA_I32, shape, 2);
    mica_array hidden = mc_lm_forward(s, c->lm, ids, mica_i32(s, 0), NULL, MC_HIDDEN);
    mica_array rows = mica_from_data(s, c->rows, MICA_I32, &c->n_rows, 1);
    mica_array y = mc_lm_head(s, c->lm, mica_take(s, hidden, rows, 1));
    mica_status status = mica_eval(s, y);
    if (status == MICA_OK)
        status = mica_read(y, logits, (size_t)(c->n_rows * c->lm->spec.vocab) * sizeof *logits);
    mc_scope_reset(s);
    c->done++;
    if (c->options->progress) c->options->progress(c->options->progress_user, c->done, c->total);
    return status;
}

static double log_sum(const float *x, int64_t n) {
    double max = (double)x[0], sum = 0;
    for (int64_t i = 1; i < n; i++)
        max = fmax(max, (double)x[i]);
    for (int64_t i = 0; i < n; i++)
        sum += exp((double)x[i] - max);
    return max + log(sum);
}

/* The mean over the rows of KL(model || pass), in nats. A pass that makes no numbers is worst. */
static double divergence(const calibrating *c) {
    int64_t vocab = c->lm->spec.vocab;
    double sum = 0;
    for (int64_t row = 0; row < c->n_rows; row++) {
        const float *p = c->reference + row * vocab, *q = c->logits + row * vocab;
        double p_norm = log_sum(p, vocab), q_norm = log_sum(q, vocab);
        for (int64_t i = 0; i < vocab; i++) {
            double log_p = (double)p[i] - p_norm;
            if (log_p > -INFINITY) sum += exp(log_p) * (log_p - ((double)q[i] - q_norm));
        }
    }
    return isnan(sum) ? INFINITY : sum / (double)c->n_rows;
}

/* Quantises a matrix, as mica_quantize does after the cast that the conversion makes. */
static mica_status quantise(calibrating *c, mc_linear *linear, int bits) {
    const mica_quant quant = {MICA_QUANT_AFFINE, bits, c->group_size};
    mica_array x = linear->weight;
    if (c->cast) x = mica_astype(c->s, x, c->dtype);
    linear->quantised = true;
    linear->quant = quant;
    return mica_quantize(c->s, x, quant, &linear->weight, &linear->scales, &linear->biases);
}

/* Without numbers there is nothing to compare with. */
static mica_status check_reference(const calibrating *c) {
    int64_t vocab = c->lm->spec.vocab;
    for (int64_t row = 0; row < c->n_rows; row++)
        if (!isfinite(log_sum(c->reference + row * vocab, vocab)))
            return mc_fail(MICA_EINVAL, "%s: the model's predictions on it are no finite numbers",
                           c->options->calibration);
    return MICA_OK;
}

/* Calls a function for each matrix of a group that is quantised. */
static mica_status each_matrix(calibrating *c, size_t k, int bits,
                               mica_status (*use)(calibrating *c, mc_linear *linear, int bits)) {
    const group *g = &c->groups[k];
    if (g->layer == HEAD) return use(c, &c->lm->head, bits);
    if (g->layer == EMBED) {
        MC_TRY(use(c, &c->lm->embed, bits));
        return c->lm->tied ? use(c, &c->lm->head, bits) : MICA_OK;
    }
    mc_lm_slot *w;
    for (size_t i = 0; (w = mc_lm_next_matrix(c->lm, &i));)
        if (w->layer == g->layer && w->block == g->block && w->linear.in % c->group_size == 0)
            MC_TRY(use(c, &w->linear, bits));
    return MICA_OK;
}

/* The matrices of the model as they were opened. */
typedef struct kept {
    mc_lm_slot *slots;
    mc_linear embed, head;
} kept;

static mica_status keep(calibrating *c, kept *k) {
    size_t bytes = c->lm->n_slots * sizeof *k->slots;
    k->slots = mc_arena_alloc(&c->arena, bytes);
    if (!k->slots) return no_memory();
    memcpy(k->slots, c->lm->slots, bytes);
    k->embed = c->lm->embed;
    k->head = c->lm->head;
    return MICA_OK;
}

static void restore(calibrating *c, const kept *k) {
    memcpy(c->lm->slots, k->slots, c->lm->n_slots * sizeof *k->slots);
    c->lm->embed = k->embed;
    c->lm->head = k->head;
}

/* Measures a group with each number of bits. More bits never count as worse: what is worse by
 * chance would stop the choice from looking further. */
static mica_status measure_group(calibrating *c, const kept *k, size_t g) {
    for (int b = 0; b < MC_BITS; b++) {
        MC_TRY(mc_cancel_check(c->options->cancel));
        mica_status status = each_matrix(c, g, mc_bits[b], quantise);
        if (status == MICA_OK) status = run_sample(c, c->logits);
        restore(c, k);
        MC_TRY(status);
        double cost = divergence(c);
        c->costs[g][b] = b > 0 ? fmin(cost, c->costs[g][b - 1]) : cost;
    }
    return MICA_OK;
}

/* The divergence of the whole choice. */
static mica_status measure_all(calibrating *c, const kept *k, double *result) {
    mica_status status = MICA_OK;
    for (size_t g = 0; status == MICA_OK && g < c->count; g++)
        status = each_matrix(c, g, mc_bits[c->choice[g]], quantise);
    if (status == MICA_OK) status = run_sample(c, c->logits);
    restore(c, k);
    if (status == MICA_OK) *result = divergence(c);
    return status;
}

/* ---- the whole ---- */

/* The bits of the weights alone that the target leaves: it counts scales, biases, and what is not
 * quantised, too. */
static double find_budget(calibrating *c) {
    double fixed = 0;
    for (size_t i = 0; i < c->source->count; i++) {
        const mc_part *part = &c->source->parts[i];
        double n = 1;
        if (mc_lm_ignores(c->source->spec, part->name)) continue;
        group g;
        if (c->lm->tied && find_group(c, part->name, &g) && g.layer == HEAD) continue;
        for (int k = 0; k < part->ndim; k++)
            n *= (double)part->shape[k];
        c->parameters += n;
        bool cast = c->cast && mica_dtype_is_float(part->dtype);
        double bits = 8.0 * (double)mica_dtype_bytes(cast ? c->dtype : part->dtype);
        fixed += n * (c->of[i] != SIZE_MAX ? 2 * bits / c->group_size : bits);
    }
    return c->options->target_bits * c->parameters - fixed;
}

static bool spend(calibrating *c, double budget, int from) {
    return mc_spend_bits((const double(*)[MC_BITS])c->costs, c->weights, c->count, budget, from,
                         c->choice);
}

static mica_status check_budget(calibrating *c, double budget) {
    double least = 0, target = c->options->target_bits;
    if (!c->count)
        return mc_fail(MICA_EINVAL,
                       "the model has no matrix whose rows are whole groups of %d: none can be "
                       "quantised",
                       c->group_size);
    if (spend(c, budget, 0)) return MICA_OK;
    for (size_t i = 0; i < c->count; i++)
        least += (double)c->weights[i] * mc_bits[0];
    return mc_fail(MICA_EINVAL,
                   "the model cannot have %.3f bits per parameter: with 2 bits in groups of %d, "
                   "scales, and what is not quantised, it has %.3f",
                   target, c->group_size, target + (least - budget) / c->parameters);
}

/* Takes the better of the two choices. */
static mica_status choose(calibrating *c, const kept *k, double budget, double *result) {
    size_t bytes = c->count * sizeof *c->choice;
    int *first = mc_arena_alloc(&c->arena, bytes + 1), from = MC_BITS - 1;
    double other;
    if (!first) return no_memory();
    MC_TRY(check_budget(c, budget));
    MC_TRY(measure_all(c, k, result));
    memcpy(first, c->choice, bytes);
    while (!spend(c, budget, from)) /* two bits fit */
        from--;
    MC_TRY(measure_all(c, k, &other));
    if (other < *result)
        *result = other;
    else
        memcpy(c->choice, first, bytes);
    return MICA_OK;
}

static mica_status calibrate(calibrating *c, int *bits, double *result) {
    kept k;
    const mc_weights_options floats = {.form = MC_FORM_FLOATS};
    MC_TRY(mc_lm_open(c->source->folder, c->device, &floats, &c->lm));
    MC_TRY(mica_scope_open(c->device, &c->s));
    mica_scope_set_cancel(c->s, c->options->cancel);
    MC_TRY(read_text(c));
    MC_TRY(list_groups(c));
    double budget = find_budget(c);
    MC_TRY(check_budget(c, budget)); /* before measuring takes its time */
    MC_TRY(pick_rows(c));
    MC_TRY(keep(c, &k));
    MC_TRY(run_sample(c, c->reference));
    MC_TRY(check_reference(c));
    for (size_t g = 0; g < c->count; g++)
        MC_TRY(measure_group(c, &k, g));
    MC_TRY(choose(c, &k, budget, result));
    for (size_t i = 0; i < c->source->count; i++)
        bits[i] = c->of[i] == SIZE_MAX ? 0 : mc_bits[c->choice[c->of[i]]];
    return MICA_OK;
}

mica_status mc_calibrate(const mc_source *source, const mica_convert_options *options,
                         mica_device *device, mica_dtype dtype, bool cast, int *bits,
                         double *result) {
    calibrating c = {.source = source,
                     .options = options,
                     .device = device,
                     .dtype = dtype,
                     .cast = cast,
                     .group_size = options->quant.group_size ? options->quant.group_size : 64};
    mica_status status = calibrate(&c, bits, result);
    mica_scope_close(&c.s);
    mc_lm_close(&c.lm);
    mc_free(c.reference);
    mc_free(c.logits);
    mc_arena_deinit(&c.arena);
    return status;
}
