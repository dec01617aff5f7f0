/* Tensors of DLPack: the same memory out and in, kept for as long as somebody has it. The structs
 * are written from its specification, and not those of src/exec/dlpack.c. */
#include <mica/mica.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "exec/expect.h"

typedef struct dl_tensor {
    void *data;
    int32_t device_type, device_id, ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} dl_tensor;

typedef struct dl_managed {
    dl_tensor tensor;
    void *context;
    void (*deleter)(struct dl_managed *self);
} dl_managed;

typedef struct dl_versioned {
    uint32_t major, minor;
    void *context;
    void (*deleter)(struct dl_versioned *self);
    uint64_t flags;
    dl_tensor tensor;
} dl_versioned;

static mica_device *device;
static mica_scope *s;

static int open_scope(void **state) {
    (void)state;
    must(mica_device_open("cpu", &(mica_device_options){.threads = 1}, &device));
    return (int)mica_scope_open(device, &s);
}

static int close_scope(void **state) {
    (void)state;
    mica_scope_close(&s);
    mica_device_close(&device);
    return 0;
}

static void *lend(mica_array x, bool versioned, bool writable) {
    void *tensor = NULL;
    must(mica_array_to_dlpack(x, versioned, writable, &tensor));
    assert_non_null(tensor);
    return tensor;
}

static void test_a_tensor_says_what_it_is(void **state) {
    (void)state;
    static const uint8_t codes[MICA_DTYPE_COUNT][2] = {
        [MICA_BOOL] = {6, 8}, [MICA_U8] = {1, 8},   [MICA_U16] = {1, 16},  [MICA_U32] = {1, 32},
        [MICA_U64] = {1, 64}, [MICA_I8] = {0, 8},   [MICA_I16] = {0, 16},  [MICA_I32] = {0, 32},
        [MICA_I64] = {0, 64}, [MICA_F16] = {2, 16}, [MICA_BF16] = {4, 16}, [MICA_F32] = {2, 32},
        [MICA_F64] = {2, 64}, [MICA_C64] = {5, 64}};
    for (mica_dtype dtype = MICA_BOOL; dtype < MICA_DTYPE_COUNT; dtype++) {
        mica_array x = mica_from_data(s, (const char[6 * 8]){0}, dtype, (const int64_t[]){2, 3}, 2);
        dl_versioned *v = lend(x, true, false);
        const dl_tensor *t = &v->tensor;
        const void *at;
        must(mica_array_host(x, &at));
        assert_ptr_equal((char *)t->data + t->byte_offset, at);
        assert_int_equal(v->major, 1);
        assert_int_equal(v->minor, 0);
        assert_int_equal(v->flags, 1); /* read-only */
        assert_int_equal(t->device_type, 1);
        assert_int_equal(t->device_id, 0);
        assert_int_equal(t->ndim, 2);
        assert_true(t->shape[0] == 2 && t->shape[1] == 3);
        assert_true(t->strides[0] == 3 && t->strides[1] == 1);
        assert_true(t->code == codes[dtype][0] && t->bits == codes[dtype][1] && t->lanes == 1);
        v->deleter(v);
        v = lend(x, true, true);
        assert_int_equal(v->flags, 0);
        v->deleter(v);
    }
}

/* A view is not copied: its strides say where the elements are. */
static void test_views(void **state) {
    (void)state;
    mica_array x = mica_reshape(s, mica_arange(s, 0, 12, 1, MICA_F32), (const int64_t[]){3, 4}, 2);
    must(mica_eval(s, x));
    const float *at;
    must(mica_array_host(x, (const void **)&at));
    dl_managed *m = lend(mica_slice_axis(s, mica_transpose(s, x, NULL), 0, 1, 3), false, false);
    const float *data = (const float *)m->tensor.data;
    assert_ptr_equal(data, at + 1);
    for (int64_t i = 0; i < m->tensor.shape[0]; i++)
        for (int64_t j = 0; j < m->tensor.shape[1]; j++)
            assert_true(data[i * m->tensor.strides[0] + j * m->tensor.strides[1]] ==
                        (float)(j * 4 + i + 1));
    m->deleter(m);
    m = lend(mica_f32(s, 2.5f), false, false);
    assert_int_equal(m->tensor.ndim, 0);
    assert_true(*(float *)m->tensor.data == 2.5f);
    m->deleter(m);
    m = lend(mica_zeros(s, (const int64_t[]){0, 2}, 2, MICA_I8), false, false);
    assert_int_equal(m->tensor.shape[0], 0);
    m->deleter(m);
}

static void *end(void *tensor) {
    dl_versioned *v = tensor;
    assert_true(((float *)v->tensor.data)[2] == 6);
    v->deleter(v);
    return NULL;
}

static void test_memory_outlives_scope_and_device(void **state) {
    (void)state;
    mica_array x = mica_from_data(s, (const float[]){1, 2, 3}, MICA_F32, (const int64_t[]){3}, 1);
    dl_versioned *v = lend(mica_add(s, x, x), true, false);
    mica_scope_close(&s);
    mica_device_close(&device);
    assert_true(((float *)v->tensor.data)[2] == 6);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, end, v), 0);
    pthread_join(thread, NULL);
    open_scope(NULL);
}

static int deleted;

static void count_managed(dl_managed *m) {
    assert_non_null(m);
    deleted++;
}

static void count_versioned(dl_versioned *v) {
    assert_non_null(v);
    deleted++;
}

static float values[] = {1, 2, 3, 4, 5, 6};
static int64_t shape[] = {2, 3}, strides[] = {3, 1}, columns[] = {1, 2};

static dl_tensor tensor_of_values(void) {
    return (dl_tensor){.data = values,
                       .device_type = 1,
                       .ndim = 2,
                       .code = 2,
                       .bits = 32,
                       .lanes = 1,
                       .shape = shape,
                       .strides = strides};
}

static void test_memory_of_others(void **state) {
    (void)state;
    deleted = 0;
    dl_managed m = {.tensor = tensor_of_values(), .deleter = count_managed};
    dl_versioned v = {.major = 1, .minor = 3, .deleter = count_versioned, .flags = 1};
    v.tensor = tensor_of_values();
    v.tensor.strides = NULL;
    v.tensor.shape = shape + 1;
    v.tensor.ndim = 1;
    v.tensor.byte_offset = 3 * sizeof(float);
    mica_array a = mica_from_dlpack(s, &m, false), b = mica_from_dlpack(s, &v, true);
    const void *at;
    must(mica_array_host(a, &at));
    assert_ptr_equal(at, values);
    must(mica_array_host(b, &at));
    assert_ptr_equal(at, values + 3);
    double sum;
    must(mica_item_f64(mica_sum(s, mica_add(s, a, b), NULL, 0, false), &sum));
    assert_true(sum == 51);
    assert_int_equal(deleted, 0);
    mica_scope_close(&s);
    assert_int_equal(deleted, 2);
    must(mica_scope_open(device, &s));
    /* without a deleter; out of place in memory */
    char bytes[sizeof values + 1];
    memcpy(bytes + 1, values, sizeof values);
    dl_managed odd = {.tensor = tensor_of_values()};
    odd.tensor.data = bytes + 1;
    float out[6];
    must(mica_read(mica_from_dlpack(s, &odd, false), out, sizeof out));
    assert_memory_equal(out, values, sizeof out);
}

static void expect_not_taken(dl_versioned *v, mica_status status, const char *words) {
    int before = deleted;
    v->deleter = count_versioned;
    assert_false(mica_valid(mica_from_dlpack(s, v, true)));
    assert_int_equal(mica_scope_status(s), status);
    assert_non_null(strstr(mica_last_error(), words));
    assert_int_equal(deleted, before + 1);
    mica_scope_clear_error(s);
}

static void test_what_is_refused(void **state) {
    (void)state;
    dl_versioned good = {.major = 1, .tensor = tensor_of_values()}, v = good;
    v.major = 2;
    expect_not_taken(&v, MICA_EUNSUPPORTED, "version 2");
    v = good;
    v.tensor.device_type = 2;
    expect_not_taken(&v, MICA_EUNSUPPORTED, "memory of a device");
    v = good;
    v.tensor.lanes = 4;
    expect_not_taken(&v, MICA_EDTYPE, "4 lanes");
    v = good;
    v.tensor.code = 5;
    v.tensor.bits = 128;
    expect_not_taken(&v, MICA_EDTYPE, "128 bits");
    v = good;
    v.tensor.strides = columns;
    expect_not_taken(&v, MICA_EINVAL, "row-major");
    v = good;
    v.tensor.ndim = 9;
    expect_not_taken(&v, MICA_EINVAL, "9 axes");
    v = good;
    v.tensor.data = NULL;
    expect_not_taken(&v, MICA_EINVAL, "NULL");
    int64_t huge[] = {INT64_MAX, 3};
    v = good;
    v.tensor.shape = huge;
    expect_not_taken(&v, MICA_EINVAL, "");
    huge[0] = -1;
    expect_not_taken(&v, MICA_EINVAL, "");
    assert_false(mica_valid(mica_from_dlpack(s, NULL, true)));
    mica_scope_clear_error(s);
    void *tensor = &v;
    assert_int_equal(mica_array_to_dlpack(MICA_NONE, true, false, &tensor), MICA_EINVAL);
    assert_null(tensor);
    assert_int_equal(mica_array_to_dlpack(mica_f32(s, 1), true, false, NULL), MICA_EINVAL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_tensor_says_what_it_is, open_scope, close_scope),
        cmocka_unit_test_setup_teardown(test_views, open_scope, close_scope),
        cmocka_unit_test_setup_teardown(test_memory_outlives_scope_and_device, open_scope,
                                        close_scope),
        cmocka_unit_test_setup_teardown(test_memory_of_others, open_scope, close_scope),
        cmocka_unit_test_setup_teardown(test_what_is_refused, open_scope, close_scope),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
