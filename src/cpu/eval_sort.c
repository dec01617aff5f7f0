/* Sorting rows. Values become unsigned keys of the same order. Pairs (key, index) are sorted by a
 * radix sort, 11 bits at a time. It is stable and linear: top-p sampling sorts the logits of a
 * vocabulary for each token. */
#include <string.h>

#include "base/half.h"
#include "cpu/block.h"
#include "cpu/cpu.h"
#include "cpu/eval.h"
#include "graph/attr.h"

/* ---- keys ---- */

static uint32_t f32_key(float x) {
    if (x != x) return UINT32_MAX;                  /* NaN sorts behind infinity */
    uint32_t u = mc_f32_bits(x == 0.0f ? 0.0f : x); /* zeros of both signs are equal */
    return u & 0x80000000u ? ~u : u | 0x80000000u;
}

/* The keys of elements [begin, begin + n) of x, in the order of their values. */
static void block_keys(const mc_operand *x, int64_t begin, int64_t n, mc_block *block,
                       uint64_t *keys) {
    mica_dtype dtype = x->layout->dtype;
    if (mica_dtype_is_float(dtype)) {
        const float *v = mc_block_f32(x, begin, n, block);
        for (int64_t i = 0; i < n; i++)
            keys[i] = f32_key(v[i]);
        return;
    }
    /* Inverting the sign bit puts negative numbers first. Narrow dtypes have keys of 32 bits. */
    uint64_t flip = !mica_dtype_is_signed(dtype) ? 0 : dtype == MICA_I64 ? 1ull << 63 : 1ull << 31;
    uint64_t mask = mica_dtype_bytes(dtype) == 8 ? UINT64_MAX : UINT32_MAX;
    const int64_t *v = mc_block_i64(x, begin, n, block);
    for (int64_t i = 0; i < n; i++)
        keys[i] = ((uint64_t)v[i] & mask) ^ flip;
}

static bool is_wide(mica_dtype dtype) {
    return dtype == MICA_I64 || dtype == MICA_U64;
}

/* ---- a row ---- */

/* A pair is a key's 32 bits above the index. Wide keys are sorted twice, by their low half
 * first. */
typedef struct work {
    const mc_call *call;
    int64_t length;  /* of a row */
    bool descending; /* by inverted keys: of equal values the one with the lower index is first */
    uint64_t *pairs; /* [2, length]: pairs, and room for as many */
    uint64_t *keys;  /* [length], for wide keys */
} work;

static void insertion_sort(uint64_t *pairs, int64_t n) {
    for (int64_t i = 1; i < n; i++) {
        uint64_t pair = pairs[i];
        int64_t j = i;
        for (; j > 0 && pairs[j - 1] >> 32 > pair >> 32; j--)
            pairs[j] = pairs[j - 1];
        pairs[j] = pair;
    }
}

#define DIGIT_BITS 11
#define DIGITS (1u << DIGIT_BITS)
#define SHORT_ROW 64

/* Stable sort by the upper 32 bits. other: [n]. Returns where the result is: pairs or other. */
static uint64_t *sort_pairs(uint64_t *pairs, uint64_t *other, int64_t n) {
    if (n <= SHORT_ROW) {
        insertion_sort(pairs, n);
        return pairs;
    }
    for (int shift = 32; shift < 64; shift += DIGIT_BITS) {
        uint32_t start[DIGITS] = {0};
        for (int64_t i = 0; i < n; i++)
            start[pairs[i] >> shift & (DIGITS - 1)]++;
        uint32_t sum = 0;
        for (uint32_t d = 0; d < DIGITS; d++) {
            uint32_t count = start[d];
            start[d] = sum;
            sum += count;
        }
        for (int64_t i = 0; i < n; i++)
            other[start[pairs[i] >> shift & (DIGITS - 1)]++] = pairs[i];
        uint64_t *swap = pairs;
        pairs = other;
        other = swap;
    }
    return pairs;
}

/* The sorted pairs of a row. */
static const uint64_t *sort_row(const work *w, int64_t row) {
    const mc_operand *x = &w->call->in[0];
    uint64_t *pairs = w->pairs, *other = w->pairs + w->length;
    mc_block block;
    uint64_t keys[MC_BLOCK];
    bool wide = is_wide(x->layout->dtype);
    for (int64_t at = 0; at < w->length; at += MC_BLOCK) {
        int64_t n = w->length - at < MC_BLOCK ? w->length - at : MC_BLOCK;
        block_keys(x, row * w->length + at, n, &block, keys);
        for (int64_t i = 0; w->descending && i < n; i++)
            keys[i] = ~keys[i];
        for (int64_t i = 0; i < n; i++)
            pairs[at + i] = keys[i] << 32 | (uint64_t)(at + i);
        if (wide) memcpy(w->keys + at, keys, (size_t)n * sizeof *keys);
    }
    uint64_t *sorted = sort_pairs(pairs, other, w->length);
    if (!wide) return sorted;
    for (int64_t i = 0; i < w->length; i++) {
        uint64_t index = sorted[i] & UINT32_MAX;
        sorted[i] = (w->keys[index] & ~(uint64_t)UINT32_MAX) | index;
    }
    return sort_pairs(sorted, sorted == pairs ? other : pairs, w->length);
}

/* ---- results ---- */

static int64_t last_length(const mc_layout *l) {
    return l->shape[l->ndim - 1];
}

static void put_indices(const mc_operand *out, int64_t row, const uint64_t *pairs) {
    int64_t k = last_length(out->layout);
    uint32_t *y = (uint32_t *)out->data + row * k;
    for (int64_t i = 0; i < k; i++)
        y[i] = (uint32_t)pairs[i];
}

/* Writes the row's elements by their indices. x may have any strides. */
static void put_values(const mc_operand *x, const mc_operand *out, int64_t row,
                       const uint64_t *pairs) {
    int64_t count = last_length(out->layout);
    size_t size = mica_dtype_bytes(x->layout->dtype);
    int64_t stride = x->layout->strides[x->layout->ndim - 1];
    /* offset of the row, from the layout without the last axis */
    mc_layout rows = *x->layout;
    rows.ndim--;
    int64_t offset = 0, rest = row;
    for (int k = rows.ndim - 1; k >= 0; k--) {
        offset += rest % rows.shape[k] * rows.strides[k];
        rest /= rows.shape[k];
    }
    const char *from = (const char *)x->data + offset * (int64_t)size;
    char *to = (char *)out->data + row * count * (int64_t)size;
    for (int64_t i = 0; i < count; i++) {
        int64_t index = (int64_t)(pairs[i] & UINT32_MAX);
        memcpy(to + i * (int64_t)size, from + index * stride * (int64_t)size, size);
    }
}

typedef enum direction { ASCENDING, DESCENDING } direction;

/* Sorts rows one after another: with short rows threads gain less than their memory costs. values
 * and indices, of which one may be NULL, take the largest ones, as many as they have room for. */
static mica_status sort_rows(const mc_call *call, direction way, const mc_operand *values,
                             const mc_operand *indices) {
    const mc_layout *l = call->in[0].layout;
    work w = {.call = call, .length = last_length(l), .descending = way == DESCENDING};
    int64_t k = last_length(values ? values->layout : indices->layout);
    if (mc_layout_size(l) == 0) return MICA_OK;
    size_t words = (size_t)w.length * (is_wide(l->dtype) ? 3 : 2);
    w.pairs = mc_run_scratch(call->run, words * sizeof *w.pairs);
    if (!w.pairs) return MICA_ENOMEM;
    w.keys = w.pairs + 2 * w.length;
    int64_t rows = mc_layout_size(l) / w.length;
    for (int64_t row = 0; row < rows; row++) {
        const uint64_t *pairs = sort_row(&w, row) + (w.descending ? 0 : w.length - k);
        if (indices) put_indices(indices, row, pairs);
        if (values) put_values(&call->in[0], values, row, pairs);
    }
    return MICA_OK;
}

mica_status mc_eval_sort(const mc_call *call) {
    return sort_rows(call, ASCENDING, &call->out, NULL);
}

mica_status mc_eval_argsort(const mc_call *call) {
    return sort_rows(call, ASCENDING, NULL, &call->out);
}

mica_status mc_eval_topk(const mc_call *call) {
    return sort_rows(call, ASCENDING, &call->out, NULL);
}

mica_status mc_eval_topk_indices(const mc_call *call) {
    return sort_rows(call, DESCENDING, &call->out, call->more);
}
