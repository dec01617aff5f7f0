#include "graph/file_primes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "graph/attr.h"

enum { SMALL = 128, NEAR = 64, LARGE = 4096, MAX_SYMBOLS = 16, MAX_LARGE = 512 };
#define MAX_PLACE ((int64_t)1 << 40)

typedef struct pair pair;
struct pair {
    pair *next; /* in the list of large ones */
    int64_t number, dim;
    bool unclear; /* there are two */
};

struct mc_primes {
    mc_arena *arena;
    const char *name;
    mc_symbol symbols[MAX_SYMBOLS];
    int64_t lengths[MAX_SYMBOLS];
    size_t n;
    mc_map pairs; /* of axes, by number */
    pair *large;  /* those above LARGE with symbols, the last first */
    size_t n_large;
};

mica_status mc_primes_open(mc_arena *arena, const char *name, mc_primes **primes) {
    *primes = mc_arena_calloc(arena, sizeof **primes);
    if (!*primes) return mc_fail_nomem("a graph's file");
    (*primes)->arena = arena;
    (*primes)->name = name;
    return MICA_OK;
}

void mc_primes_close(mc_primes *p) {
    if (p) mc_map_deinit(&p->pairs);
}

bool mc_primes_symbol(mc_primes *p, int64_t length, int64_t dim) {
    static const uint16_t primes[MAX_SYMBOLS] = {20753, 22147, 23539, 24923, 26309, 27697,
                                                 29077, 30643, 31847, 33223, 34613, 36187,
                                                 37379, 38767, 40151, 41539};
    bool known = false;
    for (size_t i = 0; i < MAX_SYMBOLS; i++)
        known = known || primes[i] == length;
    for (size_t i = 0; i < p->n; i++)
        known = known && p->lengths[i] != length;
    if (!known || p->n == MAX_SYMBOLS) return false;
    p->symbols[p->n].dim = dim;
    p->lengths[p->n++] = length;
    return true;
}

/* The number that a dimension had. */
static int64_t number_of(const mc_primes *p, int64_t dim) {
    const mc_dim_values values = {p->symbols, p->lengths, p->n};
    int64_t number;
    return mc_dim_value(dim, &values, &number) == MICA_OK ? number : 0;
}

static pair *pair_of(const mc_primes *p, int64_t number) {
    uint64_t at;
    mc_str key = {(const char *)&number, sizeof number};
    return mc_map_find(&p->pairs, key, &at) ? (pair *)(uintptr_t)at : NULL;
}

static mica_status add_axis(mc_primes *p, int64_t dim) {
    int64_t number = number_of(p, dim);
    pair *at = number > SMALL ? pair_of(p, number) : NULL;
    if (at) at->unclear = at->unclear || at->dim != dim;
    if (at || number <= SMALL) return MICA_OK;
    bool large = number > LARGE && dim != number;
    if (large && p->n_large++ == MAX_LARGE)
        return mc_fail(MICA_EFORMAT, "%s: too many different lengths with symbols", p->name);
    pair *added = mc_arena_alloc(p->arena, sizeof *added);
    if (!added) return mc_fail_nomem("a graph's file");
    *added = (pair){p->large, number, dim, false};
    if (large) p->large = added;
    mc_str key = {(const char *)&added->number, sizeof added->number};
    bool put = mc_map_put(&p->pairs, key, (uintptr_t)added);
    return put ? MICA_OK : mc_fail_nomem("a graph's file");
}

mica_status mc_primes_add(mc_primes *p, mica_array node) {
    const mc_node *made = mc_node_of(node);
    for (int i = 0; i < mc_node_n_out(made); i++) {
        const mc_layout *l = &mc_node_results(made)[i];
        for (int k = 0; k < l->ndim; k++)
            MC_TRY(add_axis(p, l->shape[k]));
    }
    return MICA_OK;
}

/* What a number follows from. False: it stays. */
static bool find_pair(const mc_primes *p, int64_t number, pair *found) {
    const pair *same = pair_of(p, number);
    if (same) {
        *found = *same;
        return true;
    }
    for (int near = 0; near < 2; near++)
        for (size_t i = 0; i < p->n; i++)
            if (near ? llabs(number - p->lengths[i]) <= NEAR : number % p->lengths[i] == 0) {
                *found = (pair){.number = p->lengths[i], .dim = p->symbols[i].dim};
                return true;
            }
    for (const pair *at = p->large; at; at = at->next)
        if (number == at->number - 1 || number % at->number == 0) {
            *found = *at;
            return true;
        }
    return false;
}

mica_status mc_primes_dim(const mc_primes *p, int64_t number, int64_t *dim) {
    int64_t factor = 1, rest = number < 0 && number > INT64_MIN ? -number : number;
    pair found;
    *dim = number;
    if (rest <= SMALL || rest > (int64_t)1 << 50) return MICA_OK;
    while (rest > SMALL && find_pair(p, rest, &found)) {
        if (found.unclear)
            return mc_fail(MICA_EFORMAT, "%s: axes of length %lld became different ones", p->name,
                           (long long)found.number);
        bool whole = rest % found.number == 0;
        factor = mc_dim_mul(factor, whole ? found.dim : mc_dim_add(found.dim, rest - found.number));
        rest = whole ? rest / found.number : 1;
    }
    factor = mc_dim_mul(factor, rest);
    *dim = number < 0 ? mc_dim_sub(0, factor) : factor;
    return MICA_OK;
}

/* ---- attributes ---- */

/* A place along an axis: from its beginning, or from its end. */
static mica_status place_of(const mc_primes *p, int64_t place, int64_t before, int64_t now,
                            int64_t *dim) {
    MC_TRY(mc_primes_dim(p, place, dim));
    if (*dim == place && before != now && place > (before < 2 * LARGE ? before / 2 : LARGE))
        *dim = mc_dim_sub(now, before - place);
    return MICA_OK;
}

/* Whether a number is one that parts of an axis have; the op refuses others. */
static bool is_place(int64_t number) {
    return number >= -MAX_PLACE && number <= MAX_PLACE;
}

/* A part of an axis: steps that ended at an end of it end there again. */
static mica_status part_of(const mc_primes *p, int64_t now, int64_t *start, int64_t *count,
                           int64_t step) {
    int64_t before = number_of(p, now), from = *start, n = *count, last;
    if (n == 0 || !is_place(from) || !is_place(n) || !is_place(step)) return MICA_OK;
    if (step != 0 && llabs(n) > MAX_PLACE / llabs(step)) return MICA_OK; /* the op refuses it */
    bool to_end = step > 0 && from + n * step >= before, to_begin = from + n * step < 0;
    MC_TRY(place_of(p, from, before, now, start));
    if ((before != now || *start != from) && (to_end || to_begin)) {
        int64_t rest = to_end ? mc_dim_sub(now, *start) : mc_dim_add(*start, 1);
        *count = mc_dim_div_up(rest, step < 0 ? -step : step);
        return MICA_OK;
    }
    MC_TRY(mc_primes_dim(p, n, count));
    if (step != 1 || *count != n) return MICA_OK;
    MC_TRY(place_of(p, from + n, before, now, &last));
    if (last != from + n) *count = mc_dim_sub(last, *start);
    return MICA_OK;
}

static mica_status words_of(const mc_primes *p, mc_attr_kind kind, int64_t *words, int n) {
    double real;
    for (int i = 0; i < n; i++) {
        if (kind == MC_ATTR_INT || kind == MC_ATTR_LIST || kind == MC_ATTR_AXES ||
            kind == MC_ATTR_NUMBERS)
            MC_TRY(mc_primes_dim(p, words[i], &words[i]));
        memcpy(&real, &words[i], sizeof real);
        if (kind != MC_ATTR_REAL || !(fabs(real) < 1e15) || floor(real) != real) continue;
        MC_TRY(mc_primes_dim(p, (int64_t)real, &words[i]));
        real = (double)words[i];
        memcpy(&words[i], &real, sizeof real);
    }
    return MICA_OK;
}

mica_status mc_primes_attr(const mc_primes *p, mc_op op, mica_array first, int64_t *attr) {
    const mc_layout *l = mc_layout_of(first);
    mc_attr_slice *part = (mc_attr_slice *)(void *)attr;
    if (l && (op == MC_OP_SLICE || op == MC_OP_SLICE_UPDATE)) {
        for (int k = 0; k < l->ndim; k++)
            MC_TRY(part_of(p, l->shape[k], &part->start[k], &part->count[k], part->step[k]));
        return MICA_OK;
    }
    for (const mc_attr_field *f = mc_op_get(op)->attr_fields; f && f->name; f++)
        MC_TRY(words_of(p, f->kind, attr + f->at, f->words));
    return MICA_OK;
}

/* ---- numbers ---- */

/* The whole number that was rounded to x, or whose inverse was: it is a multiple of a length, where
 * f32 cannot hold it. 0: there is none. */
static int64_t whole_of(const mc_primes *p, float x, bool inverse) {
    double whole = inverse ? 1.0 / (double)x : (double)x;
    if (!(whole < 0x1p50)) return 0;
    int64_t n = llround(whole);
    if (n <= 1 << 24) return (float)(inverse ? 1.0 / (double)n : (double)n) == x ? n : 0;
    for (const pair *at = p->large; at; at = at->next) {
        n = llround(whole / (double)at->number) * at->number;
        if ((float)(inverse ? 1.0 / (double)n : (double)n) == x) return n;
    }
    return 0;
}

static mica_status scalar_of(const mc_primes *p, mica_dtype dtype, uint64_t bits, int64_t *dim,
                             bool *inverse) {
    int64_t value = 0;
    float real;
    *inverse = false;
    memcpy(&real, &bits, sizeof real);
    if (dtype == MICA_F32 && isfinite(real) && real > 0) {
        *inverse = real < 1;
        value = whole_of(p, real, *inverse);
    }
    if (dtype == MICA_I32) value = (int32_t)(uint32_t)bits;
    if (dtype == MICA_U32) value = (int64_t)(uint32_t)bits;
    if (dtype == MICA_I64 || dtype == MICA_U64) memcpy(&value, &bits, sizeof value);
    return mc_primes_dim(p, value, dim);
}

mica_status mc_primes_scalar(const mc_primes *p, mica_scope *s, mica_dtype dtype, uint64_t bits,
                             mica_array *x) {
    int64_t dim;
    bool inverse;
    MC_TRY(scalar_of(p, dtype, bits, &dim, &inverse));
    if (!mc_dim_has_symbols(dim)) {
        *x = mc_scalar_bits(s, dtype, bits);
        return MICA_OK;
    }
    *x = mc_scalar_length(s, dtype, dim);
    if (inverse) *x = mc_record(s, MC_OP_RECIPROCAL, NULL, x, 1);
    return MICA_OK;
}
