/* Chains of views against an oracle that keeps, for every element, the number of the base element
 * it shows. Whatever the strides, mica_read and mica_next must give the elements in logical
 * order. */
#include <mica/mica.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/support.h"

enum { MAX_SIZE = 3000, MAX_NDIM = 6, CHAINS = 3000, MAX_CHAIN = 7 };

/* ---- random numbers: the same every time ---- */

static uint64_t random_state = 0x9e3779b97f4a7c15u;

/* 0 to n - 1. */
static int64_t below(int64_t n) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (int64_t)((random_state >> 11) % (uint64_t)n);
}

/* ---- the oracle ---- */

typedef struct shown {
    int ndim;
    int64_t shape[MICA_MAX_NDIM];
    int64_t size;
    int64_t base[MAX_SIZE]; /* row-major */
} shown;

static int64_t size_of(const int64_t *shape, int ndim) {
    int64_t size = 1;
    for (int k = 0; k < ndim; k++)
        size *= shape[k];
    return size;
}

/* Row-major position to coordinates, and back. */
static void coords_of(const shown *x, int64_t i, int64_t *coords) {
    for (int k = x->ndim - 1; k >= 0; k--) {
        coords[k] = i % x->shape[k];
        i /= x->shape[k];
    }
}

static int64_t position_of(const shown *x, const int64_t *coords) {
    int64_t i = 0;
    for (int k = 0; k < x->ndim; k++)
        i = i * x->shape[k] + coords[k];
    return i;
}

static void set_shape(shown *x, const int64_t *shape, int ndim) {
    x->ndim = ndim;
    memcpy(x->shape, shape, (size_t)ndim * sizeof *shape);
    x->size = size_of(shape, ndim);
    assert_true(x->size <= MAX_SIZE);
}

/* ---- one step: the op, and the same on the oracle ---- */

typedef struct chain {
    mica_scope *s;
    mica_array x;
    shown want;
    char text[1024]; /* what was done, for messages */
} chain;

static void note(chain *c, const char *op, const int64_t *numbers, int n) {
    size_t used = strlen(c->text);
    used += (size_t)snprintf(c->text + used, sizeof c->text - used, " %s(", op);
    for (int i = 0; i < n && used + 32 < sizeof c->text; i++)
        used += (size_t)snprintf(c->text + used, sizeof c->text - used, i > 0 ? ",%lld" : "%lld",
                                 (long long)numbers[i]);
    if (used + 2 < sizeof c->text) snprintf(c->text + used, sizeof c->text - used, ")");
}

static void step_transpose(chain *c) {
    shown old = c->want;
    int axes[MICA_MAX_NDIM];
    int64_t shape[MICA_MAX_NDIM] = {0}, coords[MICA_MAX_NDIM], from[MICA_MAX_NDIM];
    for (int k = 0; k < old.ndim; k++)
        axes[k] = k;
    for (int k = old.ndim - 1; k > 0; k--) {
        int other = (int)below(k + 1), axis = axes[k];
        axes[k] = axes[other];
        axes[other] = axis;
    }
    for (int k = 0; k < old.ndim; k++)
        shape[k] = old.shape[axes[k]];
    set_shape(&c->want, shape, old.ndim);
    for (int64_t i = 0; i < c->want.size; i++) {
        coords_of(&c->want, i, coords);
        for (int k = 0; k < old.ndim; k++)
            from[axes[k]] = coords[k];
        c->want.base[i] = old.base[position_of(&old, from)];
    }
    if (below(2) && old.ndim > 0) axes[0] -= old.ndim; /* counted from the end */
    note(c, "transpose", c->want.shape, c->want.ndim);
    c->x = mica_transpose(c->s, c->x, axes);
}

/* The elements of a Python slice, found one by one. Returns how many. */
static int64_t list_slice(int64_t n, int64_t start, int64_t stop, int64_t step, int64_t *out) {
    int64_t count = 0;
    int64_t first = start < 0 ? start + n : start;
    int64_t end = stop < 0 ? stop + n : stop;
    if (step > 0) {
        if (stop == MICA_END_OF_AXIS) end = n;
        for (int64_t i = first < 0 ? 0 : first; i < n && i < end; i += step)
            out[count++] = i;
    } else {
        if (stop == MICA_END_OF_AXIS) end = -1;
        if (end < -1) end = -1;
        for (int64_t i = first > n - 1 ? n - 1 : first; i >= 0 && i > end; i += step)
            out[count++] = i;
    }
    return count;
}

static void step_slice(chain *c) {
    shown old = c->want;
    int64_t start[MICA_MAX_NDIM], stop[MICA_MAX_NDIM], step[MICA_MAX_NDIM], shape[MICA_MAX_NDIM];
    static int64_t kept[MICA_MAX_NDIM][MAX_SIZE];
    for (int k = 0; k < old.ndim; k++) {
        int64_t n = old.shape[k];
        bool empty = below(40) == 0; /* now and then, on purpose */
        do {
            step[k] = (below(2) ? 1 : -1) * (1 + below(3));
            start[k] = below(4) ? below(2 * n + 3) - n - 1 : step[k] > 0 ? 0 : MICA_END_OF_AXIS;
            stop[k] = below(3) ? below(2 * n + 3) - n - 1 : MICA_END_OF_AXIS;
            shape[k] = list_slice(n, start[k], stop[k], step[k], kept[k]);
        } while (shape[k] == 0 && !empty && n > 0);
    }
    set_shape(&c->want, shape, old.ndim);
    for (int64_t i = 0; i < c->want.size; i++) {
        int64_t coords[MICA_MAX_NDIM], from[MICA_MAX_NDIM];
        coords_of(&c->want, i, coords);
        for (int k = 0; k < old.ndim; k++)
            from[k] = kept[k][coords[k]];
        c->want.base[i] = old.base[position_of(&old, from)];
    }
    note(c, "slice from", start, old.ndim);
    note(c, "to", stop, old.ndim);
    note(c, "by", step, old.ndim);
    c->x = mica_slice(c->s, c->x, start, stop, step);
}

static void step_reshape(chain *c) {
    int64_t shape[MICA_MAX_NDIM], left = c->want.size;
    int ndim = 0;
    while (ndim < MAX_NDIM - 1 && (left != 1 || below(3) == 0) && below(8) != 0) {
        int64_t divisor = left == 0 ? 1 : 1 + below(left);
        while (left != 0 && left % divisor != 0)
            divisor--;
        shape[ndim++] = divisor;
        if (left != 0) left /= divisor;
    }
    if (left != 1 || ndim == 0) shape[ndim++] = left;
    set_shape(&c->want, shape, ndim);
    if (left > 0 && below(3) == 0) shape[below(ndim)] = -1;
    note(c, "reshape", shape, ndim);
    c->x = mica_reshape(c->s, c->x, shape, ndim);
}

static void step_broadcast(chain *c) {
    shown old = c->want;
    int64_t shape[MICA_MAX_NDIM], coords[MICA_MAX_NDIM], from[MICA_MAX_NDIM];
    int extra = old.ndim < MAX_NDIM ? (int)below(2) : 0, ndim = old.ndim + extra;
    if (extra) shape[0] = 1 + below(3);
    for (int k = 0; k < old.ndim; k++)
        shape[k + extra] = old.shape[k] == 1 ? 1 + below(4) : old.shape[k];
    if (size_of(shape, ndim) > MAX_SIZE) return;
    set_shape(&c->want, shape, ndim);
    for (int64_t i = 0; i < c->want.size; i++) {
        coords_of(&c->want, i, coords);
        for (int k = 0; k < old.ndim; k++)
            from[k] = old.shape[k] == 1 ? 0 : coords[k + extra];
        c->want.base[i] = old.base[position_of(&old, from)];
    }
    note(c, "broadcast_to", shape, ndim);
    c->x = mica_broadcast_to(c->s, c->x, shape, ndim);
}

static void step_as_strided(chain *c) {
    shown old = c->want;
    int64_t shape[MICA_MAX_NDIM], strides[MICA_MAX_NDIM], first = 0, last = 0;
    int ndim = (int)below(4);
    if (old.size == 0) return;
    for (int k = 0; k < ndim; k++) {
        shape[k] = 1 + below(4);
        strides[k] = below(9) - 4;
        int64_t reach = (shape[k] - 1) * strides[k];
        if (last - first + llabs(reach) >= old.size) strides[k] = reach = 0;
        if (reach < 0) first += reach;
        if (reach > 0) last += reach;
    }
    int64_t offset = -first + below(old.size - (last - first));
    set_shape(&c->want, shape, ndim);
    for (int64_t i = 0; i < c->want.size; i++) {
        int64_t coords[MICA_MAX_NDIM], at = offset;
        coords_of(&c->want, i, coords);
        for (int k = 0; k < ndim; k++)
            at += coords[k] * strides[k];
        c->want.base[i] = old.base[at];
    }
    note(c, "as_strided", shape, ndim);
    note(c, "strides", strides, ndim);
    c->x = mica_as_strided(c->s, c->x, shape, strides, ndim, offset);
}

static void step(chain *c) {
    switch (below(6)) {
    case 0:
        step_transpose(c);
        break;
    case 1:
        step_slice(c);
        break;
    case 2:
    case 3:
        step_reshape(c);
        break;
    case 4:
        step_broadcast(c);
        break;
    default:
        step_as_strided(c);
        break;
    }
    if (!mica_valid(c->x)) fail_msg("%s: %s", c->text, mica_last_error());
    /* Views of evaluated views are views of their memory. */
    if (below(4) == 0) {
        note(c, "eval", NULL, 0);
        assert_int_equal(mica_eval(c->s, c->x), MICA_OK);
    }
}

/* ---- comparing ---- */

static const mica_dtype dtypes[] = {MICA_U16, MICA_I32, MICA_I64};

static int64_t value_at(mica_dtype dtype, const void *at) {
    uint16_t u16;
    int32_t i32;
    int64_t i64;
    switch (dtype) {
    case MICA_U16:
        memcpy(&u16, at, sizeof u16);
        return u16;
    case MICA_I32:
        memcpy(&i32, at, sizeof i32);
        return i32;
    default:
        memcpy(&i64, at, sizeof i64);
        return i64;
    }
}

static void check(chain *c, mica_dtype dtype) {
    bool same = mica_array_ndim(c->x) == c->want.ndim;
    for (int k = 0; same && k < c->want.ndim; k++)
        same = mica_array_dim(c->x, k) == c->want.shape[k];
    if (!same) fail_msg("%s: another shape", c->text);

    size_t item = mica_dtype_bytes(dtype), bytes = (size_t)c->want.size * item;
    static unsigned char got[MAX_SIZE * 8 + 1];
    if (mica_read(c->x, got, bytes) != MICA_OK) fail_msg("%s: %s", c->text, mica_last_error());
    for (int64_t i = 0; i < c->want.size; i++)
        if (value_at(dtype, got + (size_t)i * item) != c->want.base[i])
            fail_msg("%s: element %lld is %lld, not %lld", c->text, (long long)i,
                     (long long)value_at(dtype, got + (size_t)i * item),
                     (long long)c->want.base[i]);

    mica_iter it = {0};
    int64_t n = 0;
    while (mica_next(c->x, &it)) {
        if (it.index != n || n >= c->want.size || value_at(dtype, it.value) != c->want.base[n])
            fail_msg("%s: the iterator differs at element %lld", c->text, (long long)n);
        n++;
    }
    assert_int_equal(it.status, MICA_OK);
    assert_int_equal(n, c->want.size);
}

/* A base of a random shape whose elements are their own numbers. */
static void begin(chain *c, mica_dtype dtype) {
    static int64_t numbers[MAX_SIZE];
    int64_t shape[MICA_MAX_NDIM];
    int ndim = (int)below(5);
    for (int k = 0; k < ndim; k++)
        shape[k] = below(30) == 0 ? 0 : 1 + below(6);
    set_shape(&c->want, shape, ndim);
    for (int64_t i = 0; i < c->want.size; i++)
        c->want.base[i] = i;
    unsigned char *at = (unsigned char *)numbers;
    size_t item = mica_dtype_bytes(dtype);
    for (int64_t i = 0; i < c->want.size; i++) {
        uint16_t u16 = (uint16_t)i;
        int32_t i32 = (int32_t)i;
        const void *from = dtype == MICA_U16   ? (const void *)&u16
                           : dtype == MICA_I32 ? (const void *)&i32
                                               : (const void *)&i;
        memcpy(at + (size_t)i * item, from, item);
    }
    c->text[0] = '\0';
    note(c, "base", shape, ndim);
    c->x = mica_from_data(c->s, numbers, dtype, shape, ndim);
    assert_true(mica_valid(c->x));
}

static void chains_of_views(void **state) {
    (void)state;
    mica_device *device = NULL;
    assert_int_equal(mica_device_open("cpu", NULL, &device), MICA_OK);
    static chain c;
    for (int i = 0; i < CHAINS; i++) {
        mica_dtype dtype = dtypes[below(3)];
        assert_int_equal(mica_scope_open(device, &c.s), MICA_OK);
        begin(&c, dtype);
        for (int64_t n = 1 + below(MAX_CHAIN); n > 0; n--)
            step(&c);
        check(&c, dtype);
        mica_scope_close(&c.s);
    }
    assert_int_equal(mica_device_active_bytes(device), 0);
    mica_device_close(&device);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(chains_of_views)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
