/* Strided copies compared with a walk over both layouts, element by element: every element size,
 * axes in any order and direction, gaps that must not change, and sizes that threads share. */
#include "cpu/copy.h"

#include <stdlib.h>
#include <string.h>

#include "support/support.h"

static uint64_t random_state = 88172645463325252u;

/* A random number from 0 to n - 1. */
static int64_t below(int64_t n) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (int64_t)((random_state >> 11) % (uint64_t)n);
}

/* A layout of this shape in a buffer of *size elements, with axes in random order and direction,
 * some with gaps; *first is the element at coordinates 0. With stretch some axes have stride 0. */
static mc_layout random_layout(mica_dtype dtype, const int64_t *shape, int ndim, bool stretch,
                               int64_t *first, int64_t *size) {
    mc_layout l;
    assert_int_equal(mc_layout_init(&l, dtype, shape, ndim), MICA_OK);
    int order[MICA_MAX_NDIM];
    for (int k = 0; k < ndim; k++)
        order[k] = k;
    for (int k = ndim - 1; k > 0 && below(2); k--) {
        int other = (int)below(k + 1), axis = order[k];
        order[k] = order[other];
        order[other] = axis;
    }
    int64_t stride = 1;
    *first = 0;
    for (int k = ndim - 1; k >= 0; k--) {
        int axis = order[k];
        if (below(4) == 0) stride += below(3);
        l.strides[axis] = stretch && below(5) == 0 ? 0 : stride;
        if (l.strides[axis] == 0) continue;
        stride *= shape[axis];
        if (below(4) != 0) continue;
        *first += (shape[axis] - 1) * l.strides[axis];
        l.strides[axis] = -l.strides[axis];
    }
    *size = stride;
    return l;
}

static unsigned char *filled(size_t bytes, unsigned char (*next)(size_t i)) {
    unsigned char *p = malloc(bytes + 1);
    assert_non_null(p);
    for (size_t i = 0; i < bytes; i++)
        p[i] = next(i);
    return p;
}

static unsigned char noise(size_t i) {
    return (unsigned char)(i * 2654435761u >> 11);
}

static unsigned char blank(size_t i) {
    (void)i;
    return 0xa5;
}

/* Copies both ways, in this thread or with the device's threads, and compares the whole target. */
static void check(const mc_call *call, mica_dtype dtype, const int64_t *shape, int ndim) {
    int64_t to_first, to_size, from_first, from_size;
    mc_layout to = random_layout(dtype, shape, ndim, false, &to_first, &to_size);
    mc_layout from = random_layout(dtype, shape, ndim, true, &from_first, &from_size);
    size_t item = mica_dtype_bytes(dtype);
    size_t to_bytes = (size_t)to_size * item, from_bytes = (size_t)from_size * item;
    unsigned char *source = filled(from_bytes, noise);
    unsigned char *got = filled(to_bytes, blank), *want = filled(to_bytes, blank);

    if (mc_layout_size(&to) > 0) {
        mc_walk wt = mc_walk_begin(&to), wf = mc_walk_begin(&from);
        do {
            memcpy(want + (to_first + wt.offset) * (int64_t)item,
                   source + (from_first + wf.offset) * (int64_t)item, item);
            mc_walk_next(&wf);
        } while (mc_walk_next(&wt));
    }
    mc_copy copy;
    mc_copy_init(&copy, &to, &from);
    unsigned char *target = got + to_first * (int64_t)item;
    const unsigned char *start = source + from_first * (int64_t)item;
    if (call == NULL) {
        mc_copy_at(&copy, target, start);
    } else {
        mc_copy_run(call, &copy, target, start);
    }
    assert_memory_equal(got, want, to_bytes);
    free(source);
    free(got);
    free(want);
}

static const mica_dtype dtypes[] = {MICA_U8, MICA_BF16, MICA_F32, MICA_I64};

static void small_copies(void **state) {
    (void)state;
    for (int i = 0; i < 4000; i++) {
        int64_t shape[MICA_MAX_NDIM];
        int ndim = (int)below(6);
        for (int k = 0; k < ndim; k++)
            shape[k] = below(40) == 0 ? 0 : 1 + below(5);
        check(NULL, dtypes[below(4)], shape, ndim);
    }
}

static void tiles(void **state) {
    (void)state;
    for (int i = 0; i < 100; i++) {
        int64_t shape[] = {1 + below(3), 20 + below(60), 20 + below(60)};
        check(NULL, dtypes[below(4)], shape + below(2), 2);
        check(NULL, dtypes[below(4)], shape, 3);
    }
}

static void copies_by_threads(void **state) {
    (void)state;
    mica_device *device = NULL;
    mica_device_options options = {.threads = 3};
    assert_int_equal(mica_device_open("cpu", &options, &device), MICA_OK);
    mc_call call = {.state = mc_backend_state(device)};
    for (int i = 0; i < 30; i++) {
        int64_t shape[] = {1 + below(4), 100 + below(100), 1 + below(4), 100 + below(100)};
        check(&call, dtypes[below(4)], shape, 4);
        int64_t row[] = {100000 + below(100000)};
        check(&call, dtypes[below(4)], row, 1);
        int64_t nothing[] = {3, 0};
        check(&call, MICA_F32, nothing, 2);
    }
    mica_device_close(&device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_copies),
        cmocka_unit_test(tiles),
        cmocka_unit_test(copies_by_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
