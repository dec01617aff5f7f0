#include "exec/lengths.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/attr.h"

enum { SMALL = 128, NEAR = MC_SYMBOL_NEAR, LARGE = 4096 }; /* LARGE: whose multiples follow, too */
#define MAX ((int64_t)1 << 50)                             /* no number of elements */

typedef struct pair {
    int64_t before, now;
    bool unclear; /* there are two nows */
} pair;

static pair *pairs_of(const mc_lengths *lengths, size_t *n) {
    *n = MC_BUFFER_COUNT(&lengths->pairs, pair);
    return MC_BUFFER_AT(&lengths->pairs, pair);
}

static mica_status add(mc_lengths *lengths, int64_t before, int64_t now) {
    size_t n;
    pair *pairs = pairs_of(lengths, &n);
    for (size_t i = 0; i < n; i++)
        if (pairs[i].before == before) {
            pairs[i].unclear = pairs[i].unclear || pairs[i].now != now;
            return MICA_OK;
        }
    const pair added = {.before = before, .now = now};
    return mc_buffer_add(&lengths->pairs, &added, sizeof added) ? MICA_OK
                                                                : mc_fail_nomem("lengths");
}

mica_status mc_lengths_open(mc_lengths *lengths, const mc_symbol *symbols, const int64_t *values,
                            size_t n) {
    *lengths = (mc_lengths){.n_symbols = n};
    for (size_t i = 0; i < n; i++) {
        mica_status status = add(lengths, symbols[i].length, values[i]);
        if (status == MICA_OK) continue;
        mc_lengths_close(lengths);
        return status;
    }
    return MICA_OK;
}

void mc_lengths_close(mc_lengths *lengths) {
    mc_buffer_deinit(&lengths->pairs);
}

mica_status mc_lengths_add(mc_lengths *lengths, const mc_layout *before, const mc_layout *now) {
    for (int k = 0; k < before->ndim; k++)
        if (before->shape[k] > SMALL) MC_TRY(add(lengths, before->shape[k], now->shape[k]));
    return MICA_OK;
}

static mica_status times(int64_t a, int64_t b, int64_t *product) {
    if (a > 0 && b > INT64_MAX / a) return mc_fail(MICA_ESHAPE, "a length is above 2^63");
    *product = a * b;
    return MICA_OK;
}

/* The pair by which a number follows: that of the number itself, or of a symbol that divides it, or
 * is near to it, or of another length that divides it or is one more. NULL: it stays. */
static const pair *find_pair(const mc_lengths *lengths, int64_t number) {
    size_t n;
    const pair *pairs = pairs_of(lengths, &n);
    for (size_t i = 0; i < n; i++)
        if (pairs[i].before == number) return &pairs[i];
    for (size_t i = 0; i < lengths->n_symbols; i++)
        if (number % pairs[i].before == 0) return &pairs[i];
    for (size_t i = 0; i < lengths->n_symbols; i++)
        if (llabs(number - pairs[i].before) <= NEAR) return &pairs[i];
    for (size_t i = 0; i < n; i++) {
        if (pairs[i].before <= LARGE || pairs[i].before == pairs[i].now) continue;
        if (number == pairs[i].before - 1 || number % pairs[i].before == 0) return &pairs[i];
    }
    return NULL;
}

mica_status mc_lengths_follow(const mc_lengths *lengths, int64_t before, int64_t *now) {
    int64_t factor = 1, rest = before < 0 && before > INT64_MIN ? -before : before;
    const pair *p;
    *now = before;
    if (rest <= SMALL || rest > MAX) return MICA_OK;
    while (rest > SMALL && (p = find_pair(lengths, rest)) != NULL) {
        if (p->unclear)
            return mc_fail(MICA_ESHAPE, "the length %lld, as recorded, became different ones",
                           (long long)p->before);
        if (rest % p->before == 0) {
            MC_TRY(times(factor, p->now, &factor));
            rest /= p->before;
            continue;
        }
        rest += p->now - p->before;
        if (rest < 0) return mc_fail(MICA_ESHAPE, "a length is %lld", (long long)rest);
        break;
    }
    MC_TRY(times(factor, rest, &factor));
    *now = before < 0 ? -factor : factor;
    return MICA_OK;
}

/* ---- attributes ---- */

/* A place along an axis whose length changed: from its beginning, or from its end. */
static mica_status follow_place(const mc_lengths *lengths, int64_t place, int64_t before,
                                int64_t now, int64_t *to) {
    MC_TRY(mc_lengths_follow(lengths, place, to));
    if (*to != place || place <= (before < 2 * LARGE ? before / 2 : LARGE)) return MICA_OK;
    *to = now - (before - place);
    if (before < 2 * LARGE || before - place <= LARGE) return MICA_OK;
    return mc_fail(MICA_ESHAPE, "place %lld of %lld, as recorded, follows from no symbol",
                   (long long)place, (long long)before);
}

/* Of n elements of an axis that kept its length, from a place that moved. */
static mica_status follow_count(const mc_lengths *lengths, int64_t from, int64_t n, int64_t start,
                                int64_t *count) {
    int64_t last;
    MC_TRY(mc_lengths_follow(lengths, n, count));
    if (*count != n) return MICA_OK;
    MC_TRY(mc_lengths_follow(lengths, from + n, &last));
    if (last != from + n) {
        *count = last - start;
        return MICA_OK;
    }
    if (n <= SMALL || start == from) return MICA_OK;
    return mc_fail(MICA_ESHAPE,
                   "%lld elements from %lld on, as recorded: their end follows from no symbol",
                   (long long)n, (long long)from);
}

/* How many steps there are in so many elements. */
static int64_t steps_within(int64_t elements, int64_t step) {
    int64_t size = step < 0 ? -step : step;
    return elements > 0 ? (elements + size - 1) / size : 0;
}

/* A part of an axis that kept its length, whose places may follow symbols. */
static mica_status follow_fixed(const mc_lengths *lengths, int64_t length, int64_t *start,
                                int64_t *count, int64_t step) {
    int64_t from = *start, n = *count;
    if (n == 0) return MICA_OK;
    MC_TRY(mc_lengths_follow(lengths, from, start));
    bool to_end = step > 0 && from + n * step >= length, to_begin = from + n * step < 0;
    if (*start != from && (to_end || to_begin)) {
        *count = steps_within(to_end ? length - *start : *start + 1, step);
        return MICA_OK;
    }
    return step == 1 ? follow_count(lengths, from, n, *start, count)
                     : mc_lengths_follow(lengths, n, count);
}

/* A part of an axis: steps that end at an end of it end there again. */
static mica_status follow_part(const mc_lengths *lengths, int64_t before, int64_t now,
                               int64_t *start, int64_t *count, int64_t step) {
    int64_t from = *start, n = *count, last;
    if (n == 0) return MICA_OK;
    if (before == now) return follow_fixed(lengths, now, start, count, step);
    bool to_end = step > 0 && from + n * step >= before, to_begin = from + n * step < 0;
    MC_TRY(follow_place(lengths, from, before, now, start));
    if (to_end || to_begin) {
        *count = steps_within(to_end ? now - *start : *start + 1, step);
        return MICA_OK;
    }
    if (step != 1) return mc_lengths_follow(lengths, n, count);
    MC_TRY(follow_place(lengths, from + n, before, now, &last));
    *count = last - *start;
    return MICA_OK;
}

static mica_status follow_slice(const mc_lengths *lengths, const mc_layout *before,
                                const mc_layout *now, mc_attr_slice *a) {
    for (int k = 0; k < before->ndim; k++) {
        MC_TRY(follow_part(lengths, before->shape[k], now->shape[k], &a->start[k], &a->count[k],
                           a->step[k]));
        if (a->count[k] == 0) a->start[k] = 0;
        if (a->count[k] <= 1) a->step[k] = 1;
    }
    return MICA_OK;
}

/* A whole number. */
static mica_status follow_real(const mc_lengths *lengths, double *x) {
    int64_t now;
    if (!(fabs(*x) < 1e15) || floor(*x) != *x) return MICA_OK;
    MC_TRY(mc_lengths_follow(lengths, (int64_t)*x, &now));
    *x = (double)now;
    return MICA_OK;
}

static mica_status follow_words(const mc_lengths *lengths, mc_attr_kind kind, int64_t *words,
                                int n) {
    double real;
    switch (kind) {
    case MC_ATTR_INT:
    case MC_ATTR_LIST:
    case MC_ATTR_AXES:
        for (int i = 0; i < n; i++)
            MC_TRY(mc_lengths_follow(lengths, words[i], &words[i]));
        return MICA_OK;
    case MC_ATTR_REAL:
        memcpy(&real, words, sizeof real);
        MC_TRY(follow_real(lengths, &real));
        memcpy(words, &real, sizeof real);
        return MICA_OK;
    default:
        return MICA_OK;
    }
}

mica_status mc_lengths_attr(const mc_lengths *lengths, mc_op op, const mc_layout *before,
                            const mc_layout *now, int64_t *attr) {
    if (op == MC_OP_SLICE || op == MC_OP_SLICE_UPDATE)
        return follow_slice(lengths, before, now, (mc_attr_slice *)(void *)attr);
    const mc_attr_field *f = mc_op_get(op)->attr_fields;
    for (; f && f->name; f++)
        MC_TRY(follow_words(lengths, f->kind, attr + f->at, f->words));
    return MICA_OK;
}

/* ---- numbers ---- */

/* A whole number as f32, or its inverse. */
static float rounded(int64_t n, bool inverse) {
    return (float)(inverse ? 1.0 / (double)n : (double)n);
}

/* The whole number that was rounded to x, or whose inverse was: it is a multiple of a length of its
 * own, where f32 cannot hold it. 0: there is none. */
static int64_t find_whole(const mc_lengths *lengths, float x, bool inverse) {
    enum { EXACT = 1 << 24 };
    size_t count;
    const pair *pairs = pairs_of(lengths, &count);
    double whole = inverse ? 1.0 / (double)x : (double)x;
    if (!(whole < (double)MAX)) return 0;
    int64_t n = llround(whole);
    if (n <= EXACT) return rounded(n, inverse) == x ? n : 0;
    for (size_t i = 0; i < count; i++) {
        if (pairs[i].before <= LARGE || pairs[i].before == pairs[i].now) continue;
        int64_t m = llround(whole / (double)pairs[i].before), now;
        n = m * pairs[i].before;
        bool same = rounded(n, inverse) == x;
        if (same && (m <= SMALL || (mc_lengths_follow(lengths, m, &now) == MICA_OK && now != m)))
            return n;
    }
    return 0;
}

static mica_status follow_f32(const mc_lengths *lengths, float *x) {
    int64_t now, n;
    float size = fabsf(*x);
    bool inverse = size < 1.0f;
    if (!(size > 0.0f) || !isfinite(size)) return MICA_OK;
    n = find_whole(lengths, size, inverse);
    if (n <= SMALL) return MICA_OK;
    MC_TRY(mc_lengths_follow(lengths, n, &now));
    if (now == n) return MICA_OK;
    size = rounded(now, inverse);
    *x = *x < 0.0f ? -size : size;
    return MICA_OK;
}

mica_status mc_lengths_scalar(const mc_lengths *lengths, mica_dtype dtype, uint64_t *bits) {
    int64_t value = 0;
    float real;
    switch (dtype) {
    case MICA_I32:
        value = (int32_t)(uint32_t)*bits;
        break;
    case MICA_U32:
        value = (int64_t)(uint32_t)*bits;
        break;
    case MICA_I64:
    case MICA_U64: /* from 2^63 on it is negative, and no length */
        memcpy(&value, bits, sizeof value);
        break;
    case MICA_F32:
        memcpy(&real, bits, sizeof real);
        MC_TRY(follow_f32(lengths, &real));
        *bits = 0;
        memcpy(bits, &real, sizeof real);
        return MICA_OK;
    default: /* too small for the length of a symbol */
        return MICA_OK;
    }
    if (dtype == MICA_U64 && value < 0) return MICA_OK;
    MC_TRY(mc_lengths_follow(lengths, value, &value));
    *bits = dtype == MICA_I32 || dtype == MICA_U32 ? (uint64_t)(uint32_t)value : (uint64_t)value;
    return MICA_OK;
}
