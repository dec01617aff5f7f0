#include "session/device_draw.h"

#include "base/integer.h"
#include "exec/program.h"
#include "graph/graph.h"

#include <mica/ops.h>

#include <math.h>
#include <string.h>

/* How a token is found: the largest logit; any, in order of ids; one of the largest, in order of
 * likelihood. */
typedef enum kind { GREEDY = 1, PLAIN = 2, CUTS = 4 } kind;

/* The words of a row: these numbers, then for each edit a slot, what is added, the penalty and what
 * is subtracted, then the mask. */
enum { AT_KIND, AT_UNIFORM, AT_COLDNESS, AT_TOP_P, AT_MIN, AT_TOP_K, HEAD };
enum { EDIT_SLOT, EDIT_ADD, EDIT_PENALTY, EDIT_LESS, EDIT_WORDS };
enum { MIN_EDITS = 32, MAX_EDITS = 512, MASK_BITS = 32, PART = 512 };

/* What a program does. */
typedef struct drawing {
    int64_t rows, vocab, edits; /* edits: of a row */
    uint32_t kinds;             /* bits of `kind` */
    bool mask, largest;
} drawing;

/* The logit of a token becomes (logit + add), over or times the penalty, - less. */
typedef struct edit {
    int32_t id;
    float add, penalty, less;
    bool seen; /* in the penalties' window */
} edit;

void mc_device_draws_init(mc_device_draws *draws, mica_scope *recording) {
    *draws = (mc_device_draws){.recording = recording};
}

void mc_device_draws_deinit(mc_device_draws *draws) {
    mc_pass_close_all(draws->programs, MC_DRAW_PROGRAMS);
    mc_buffer_deinit(&draws->words);
    mc_buffer_deinit(&draws->edits);
}

/* ---- what a row asks for ---- */

static bool cuts_nucleus(const mc_sampling *params) {
    return params->top_p > 0.0f && params->top_p < 1.0f;
}

static kind kind_of(const mc_sampling *params) {
    if (params->temperature == 0.0f) return GREEDY;
    return params->top_k || cuts_nucleus(params) ? CUTS : PLAIN;
}

static size_t window_of(const mc_sampling *params) {
    if (!mc_sampling_penalises(params)) return 0;
    return params->penalty_window ? (size_t)params->penalty_window : MC_PENALTY_WINDOW;
}

/* How many logits a draw changes at most. */
static size_t max_edits(const mc_sampler *sampler) {
    return sampler->params.bias_count + window_of(&sampler->params) + sampler->banned_count;
}

bool mc_device_draw_can(const mc_sampling *params) {
    if (params->temperature != 0.0f && params->top_k > MC_LARGEST) return false;
    return params->bias_count + window_of(params) <= MAX_EDITS / 2;
}

static drawing drawing_of(const mc_device_draw *rows, size_t n, int64_t vocab, bool largest) {
    drawing d = {.rows = (int64_t)n, .vocab = vocab, .largest = largest};
    size_t edits = 0;
    for (size_t i = 0; i < n; i++) {
        size_t more = max_edits(rows[i].sampler);
        edits = more > edits ? more : edits;
        d.kinds |= (uint32_t)kind_of(&rows[i].sampler->params);
        d.mask |= rows[i].sampler->allowed != NULL;
    }
    if (edits)
        for (d.edits = MIN_EDITS; d.edits < (int64_t)edits;)
            d.edits *= 2;
    d.largest = d.largest && !d.edits && !d.mask;
    return d;
}

static int64_t mask_words(const drawing *d) {
    return d->mask ? (d->vocab + MASK_BITS - 1) / MASK_BITS : 0;
}

static int64_t row_words(const drawing *d) {
    return HEAD + EDIT_WORDS * d->edits + mask_words(d);
}

/* ---- the program ---- */

/* Words [from, to) of each row, as numbers of a dtype. */
static mica_array words_of(mica_scope *s, mica_array words, int64_t from, int64_t to,
                           mica_dtype dtype) {
    return mica_view(s, mica_slice_axis(s, words, 1, from, to), dtype);
}

static mica_array number(mica_scope *s, mica_array words, int64_t at) {
    return words_of(s, words, at, at + 1, MICA_F32);
}

/* x [rows, vocab] with the edits, written where they belong as rows of one number. */
static mica_array edited(mica_scope *s, const drawing *d, mica_array x, mica_array words) {
    const int64_t n = d->rows * d->edits, rows[] = {d->rows * d->vocab, 1}, flat[] = {1, n},
                  given[] = {d->rows, d->edits}, few[] = {1, 1, n, 1},
                  all[] = {1, d->rows, d->vocab, 1};
    mica_array of[EDIT_WORDS];
    for (int i = 0; i < EDIT_WORDS; i++)
        of[i] = words_of(s, words, HEAD + i * d->edits, HEAD + (i + 1) * d->edits,
                         i == EDIT_SLOT ? MICA_I32 : MICA_F32);
    mica_array slots = mica_reshape(s, of[EDIT_SLOT], flat, 2);
    mica_array t = mica_take(s, mica_reshape(s, x, rows, 2), mica_reshape(s, slots, &n, 1), 0);
    t = mica_add(s, mica_reshape(s, t, given, 2), of[EDIT_ADD]);
    t = mica_where(s, mica_less(s, t, mica_f32(s, 0)), mica_multiply(s, t, of[EDIT_PENALTY]),
                   mica_divide(s, t, of[EDIT_PENALTY]));
    t = mica_reshape(s, mica_subtract(s, t, of[EDIT_LESS]), few, 4);
    x = mica_kv_write(s, mica_reshape(s, x, all, 4), t, slots);
    return mica_reshape(s, x, (const int64_t[]){d->rows, d->vocab}, 2);
}

static mica_array masked(mica_scope *s, const drawing *d, mica_array x, mica_array words) {
    int64_t n = mask_words(d), at = row_words(d) - n;
    mica_array mask = mica_expand_dims(s, words_of(s, words, at, at + n, MICA_U32), -1);
    mica_array places = mica_arange(s, 0, MASK_BITS, 1, MICA_U32),
               one = mica_scalar(s, 1, MICA_U32);
    mica_array bits = mica_bitwise_and(s, mica_right_shift(s, mask, places), one);
    bits = mica_slice_axis(s, mica_flatten(s, bits, 1, 2), 1, 0, d->vocab);
    return mica_where(s, mica_equal(s, bits, one), x, mica_f32(s, -INFINITY));
}

/* Sums of the first numbers of each row, [rows, n] -> [rows, n]: each of them anew. */
static mica_array running_sums(mica_scope *s, mica_array x) {
    const int last = -1;
    mica_array places = mica_arange(s, 0, (double)mica_array_dim(x, 1), 1, MICA_I32);
    mica_array before = mica_less_equal(s, places, mica_expand_dims(s, places, -1));
    mica_array terms = mica_where(s, before, mica_expand_dims(s, x, 1), mica_f32(s, 0));
    return mica_sum(s, terms, &last, 1, false);
}

/* Of sums [rows, n]: how many do not exceed `rest` [rows, 1], n - 1 at most. */
static mica_array place_of(mica_scope *s, mica_array sums, mica_array rest) {
    const int last = -1;
    mica_array passed = mica_astype(s, mica_less_equal(s, sums, rest), MICA_I32);
    return mica_minimum(s, mica_sum(s, passed, &last, 1, true),
                        mica_i32(s, (int32_t)mica_array_dim(sums, 1) - 1));
}

static mica_array last_of(mica_scope *s, mica_array x) {
    int64_t n = mica_array_dim(x, 1);
    return mica_slice_axis(s, x, 1, n - 1, n);
}

/* exp((x - best) / temperature), 0 where `keep` is false. */
static mica_array weights(mica_scope *s, mica_array x, mica_array best, mica_array words,
                          mica_array keep) {
    mica_array t = mica_multiply(s, mica_subtract(s, x, best), number(s, words, AT_COLDNESS));
    return mica_where(s, keep, mica_exp(s, t), mica_f32(s, 0));
}

/* Draws in order of ids: a part of the row first, then one of its tokens. */
static mica_array draw_plain(mica_scope *s, const drawing *d, mica_array x, mica_array words) {
    const int last = -1;
    const int64_t parts = (d->vocab + PART - 1) / PART, cut[] = {parts, PART},
                  more[] = {d->rows, parts * PART - d->vocab};
    mica_array best = mica_max(s, x, &last, 1, true);
    mica_array least = mica_add(s, best, number(s, words, AT_MIN));
    mica_array w = weights(s, x, best, words, mica_greater_equal(s, x, least));
    if (more[1]) {
        const mica_array both[] = {w, mica_zeros(s, more, 2, MICA_F32)};
        w = mica_concatenate(s, both, 2, 1);
    }
    w = mica_unflatten(s, w, 1, cut, 2);
    mica_array sums = running_sums(s, mica_sum(s, w, &last, 1, false));
    mica_array rest = mica_multiply(s, last_of(s, sums), number(s, words, AT_UNIFORM));
    mica_array part = place_of(s, sums, rest);
    mica_array below =
        mica_where(s, mica_less_equal(s, sums, rest), sums, mica_f32(s, 0)); /* none: 0 */
    rest = mica_subtract(s, rest, mica_max(s, below, &last, 1, true));
    mica_array starts = mica_arange(s, 0, (double)(d->rows * parts), (double)parts, MICA_I32);
    mica_array rows = mica_add(s, mica_squeeze(s, part, 1), starts);
    w = mica_take(s, mica_flatten(s, w, 0, 1), rows, 0);
    mica_array place = place_of(s, running_sums(s, w), rest);
    mica_array id = mica_add(s, mica_multiply(s, part, mica_i32(s, PART)), place);
    return mica_minimum(s, id, mica_i32(s, (int32_t)d->vocab - 1));
}

/* Draws from the largest in order of likelihood. */
static mica_array draw_cut(mica_scope *s, mica_array values, mica_array ids, mica_array log_total,
                           mica_array words) {
    const int last = -1;
    mica_array best = mica_slice_axis(s, values, 1, 0, 1);
    mica_array ranks = mica_arange(s, 0, MC_LARGEST, 1, MICA_F32);
    mica_array likely = mica_exp(s, mica_subtract(s, values, best));
    mica_array total = mica_exp(s, mica_subtract(s, log_total, best));
    mica_array before = mica_subtract(s, running_sums(s, likely), likely);
    mica_array reach = mica_multiply(s, total, number(s, words, AT_TOP_P));
    mica_array least = mica_add(s, best, number(s, words, AT_MIN));
    mica_array keep =
        mica_logical_and(s, mica_less(s, before, reach), mica_greater_equal(s, values, least));
    keep = mica_logical_and(s, keep, mica_less(s, ranks, number(s, words, AT_TOP_K)));
    mica_array sums = running_sums(s, weights(s, values, best, words, keep));
    mica_array rest = mica_multiply(s, last_of(s, sums), number(s, words, AT_UNIFORM));
    mica_array at = mica_astype(s, place_of(s, sums, rest), MICA_F32);
    mica_array id =
        mica_where(s, mica_equal(s, ranks, at), mica_astype(s, ids, MICA_I32), mica_i32(s, 0));
    return mica_sum(s, id, &last, 1, true);
}

/* The token of each row by its kind, of those that the program knows. */
static mica_array draw(mica_scope *s, const drawing *d, mica_array x, mica_array words,
                       mica_array *largest) {
    mica_array kinds = words_of(s, words, AT_KIND, AT_KIND + 1, MICA_I32), id = MICA_NONE;
    mc_largest_parts parts = {MICA_NONE, MICA_NONE, MICA_NONE};
    if (d->largest || d->kinds & CUTS) parts = mc_largest_find(s, x);
    if (d->largest) *largest = mc_largest_join(s, &parts);
    for (uint32_t k = GREEDY; k <= CUTS; k *= 2) {
        mica_array one = MICA_NONE;
        if (!(d->kinds & k)) continue;
        if (k == GREEDY) one = mica_astype(s, mica_argmax(s, x, -1, true), MICA_I32);
        if (k == PLAIN) one = draw_plain(s, d, x, words);
        if (k == CUTS) one = draw_cut(s, parts.values, parts.ids, parts.log_total, words);
        id = mica_valid(id) ? mica_where(s, mica_equal(s, kinds, mica_i32(s, (int32_t)k)), one, id)
                            : one;
    }
    return id;
}

static mica_status record(mica_scope *s, const drawing *d, mica_program **program) {
    const int64_t shape[] = {d->rows, 1, d->vocab}, given[] = {d->rows, row_words(d)};
    const mica_param params[] = {
        {.name = "logits", .array = mica_program_param(s, MICA_F32, shape, 3)},
        {.name = "words", .array = mica_program_param(s, MICA_U32, given, 2)},
    };
    mica_array words = params[1].array, x = mica_squeeze(s, params[0].array, 1),
               results[2] = {MICA_NONE, MICA_NONE};
    if (d->edits) x = edited(s, d, x, words);
    if (d->mask) x = masked(s, d, x, words);
    results[0] = draw(s, d, x, words, &results[1]);
    MC_TRY(mica_scope_status(s));
    return mica_program_build(s, params, 2, results, d->largest ? 2 : 1, NULL, program);
}

static mica_status find_program(mc_device_draws *draws, const drawing *d) {
    const mc_pass_key key = {.rows = (size_t)d->rows,
                             .n = d->edits,
                             .shape = d->kinds | (d->mask ? 8u : 0u),
                             .largest = d->largest};
    if (mc_pass_find(draws->programs, MC_DRAW_PROGRAMS, &key)) return MICA_OK;
    mica_status status = record(draws->recording, d, &draws->programs[0].program);
    mc_scope_reset(draws->recording);
    return status;
}

/* ---- the words ---- */

static edit *edit_of(mc_buffer *edits, int32_t id) {
    edit *all = MC_BUFFER_AT(edits, edit);
    size_t n = MC_BUFFER_COUNT(edits, edit);
    for (size_t i = 0; i < n; i++)
        if (all[i].id == id) return &all[i];
    (void)MC_BUFFER_PUSH(edits, edit, ((edit){.id = id, .penalty = 1.0f})); /* there is room */
    return &MC_BUFFER_AT(edits, edit)[n];
}

/* A token of the window; `own`: of the answer. */
static void penalise(edit *e, const mc_sampling *params, bool own) {
    if (params->repetition_penalty != 0.0f) e->penalty = params->repetition_penalty;
    if (!own) return;
    e->less += params->frequency_penalty + (e->seen ? 0.0f : params->presence_penalty);
    e->seen = true;
}

static void list_edits(mc_buffer *edits, const mc_device_draw *row, int64_t vocab) {
    const mc_sampler *sampler = row->sampler;
    const mc_sampling *params = &sampler->params;
    size_t window = window_of(params), n = row->n_history;
    mc_buffer_clear(edits);
    if (window > n) window = n;
    size_t others = window > sampler->generated ? window - sampler->generated : 0;
    for (size_t i = 0; i < params->bias_count; i++)
        edit_of(edits, params->bias[i].id)->add += params->bias[i].bias;
    for (size_t i = 0; i < window; i++) {
        int32_t id = row->history[n - window + i];
        if (id >= 0 && id < vocab) penalise(edit_of(edits, id), params, i >= others);
    }
    for (size_t i = 0; i < sampler->banned_count; i++)
        if (sampler->banned[i] >= 0 && sampler->banned[i] < vocab)
            edit_of(edits, sampler->banned[i])->less = INFINITY;
}

static void put(uint32_t *word, float x) {
    memcpy(word, &x, sizeof x);
}

/* A place that is left has the first edit again, or changes nothing. */
static void put_edits(uint32_t *words, const drawing *d, const mc_buffer *edits, int64_t row) {
    const edit none = {.penalty = 1.0f}, *all = MC_BUFFER_AT(edits, edit);
    int64_t n = (int64_t)MC_BUFFER_COUNT(edits, edit);
    for (int64_t i = 0; i < d->edits; i++) {
        const edit *e = n ? &all[i < n ? i : 0] : &none;
        words[EDIT_SLOT * d->edits + i] = (uint32_t)(row * d->vocab + e->id);
        put(&words[EDIT_ADD * d->edits + i], e->add);
        put(&words[EDIT_PENALTY * d->edits + i], e->penalty);
        put(&words[EDIT_LESS * d->edits + i], e->less);
    }
}

static void put_row(uint32_t *words, const drawing *d, const mc_device_draw *row) {
    const mc_sampling *params = &row->sampler->params;
    kind k = kind_of(params);
    words[AT_KIND] = (uint32_t)k;
    put(&words[AT_UNIFORM], (float)mc_sampler_uniform(params->seed, row->sampler->draws));
    put(&words[AT_COLDNESS], k == GREEDY ? 1.0f : 1.0f / params->temperature);
    put(&words[AT_TOP_P], cuts_nucleus(params) ? params->top_p : INFINITY);
    put(&words[AT_MIN], params->min_p > 0.0f ? logf(params->min_p) : -INFINITY);
    put(&words[AT_TOP_K], params->top_k ? (float)params->top_k : (float)MC_LARGEST);
    uint32_t *mask = words + HEAD + EDIT_WORDS * d->edits;
    size_t bytes = (size_t)mask_words(d) * sizeof *mask;
    if (row->sampler->allowed)
        memcpy(mask, row->sampler->allowed, bytes);
    else
        memset(mask, 0xff, bytes);
}

static mica_status put_words(mc_device_draws *draws, const drawing *d, const mc_device_draw *rows) {
    size_t n = (size_t)row_words(d), edits = (size_t)d->edits;
    mc_buffer_clear(&draws->words);
    mc_buffer_clear(&draws->edits);
    if (!mc_buffer_reserve(&draws->words, (size_t)d->rows * n * sizeof(uint32_t)) ||
        (edits && !mc_buffer_reserve(&draws->edits, edits * sizeof(edit))))
        return mc_fail_nomem("a draw");
    for (int64_t i = 0; i < d->rows; i++) {
        uint32_t *words = MC_BUFFER_AT(&draws->words, uint32_t) + (size_t)i * n;
        put_row(words, d, &rows[i]);
        if (!edits) continue;
        list_edits(&draws->edits, &rows[i], d->vocab);
        put_edits(words + HEAD, d, &draws->edits, i);
    }
    return MICA_OK;
}

mica_status mc_device_draws_launch(mc_device_draws *draws, mica_scope *s, mica_array logits,
                                   const mc_device_draw *rows, size_t n, bool largest,
                                   mc_device_drawn *drawn) {
    const drawing d = drawing_of(rows, n, mica_array_dim(logits, 2), largest);
    const int64_t shape[] = {d.rows, row_words(&d)};
    mica_array results[2] = {MICA_NONE, MICA_NONE};
    *drawn = (mc_device_drawn){.fence = 0};
    MC_TRY(find_program(draws, &d));
    MC_TRY(put_words(draws, &d, rows));
    const mica_array args[] = {logits, mica_from_data(s, draws->words.data, MICA_U32, shape, 2)};
    MC_TRY(mica_scope_status(s));
    MC_TRY(mc_program_launch(draws->programs[0].program, s, args, results, &drawn->fence));
    drawn->ids = results[0];
    drawn->largest = results[1];
    return MICA_OK;
}
