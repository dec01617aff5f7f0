/* io/arrays: arrays to files and back, and every way to be wrong. */
#include <mica/io.h>

#include <mica/ops.h>

#include "support/support.h"

#include <stdlib.h>
#include <string.h>

static char *dir, *path;
static mica_device *device;
static mica_scope *s;

static int open_all(void **state) {
    (void)state;
    dir = test_temp_dir();
    path = test_format("%s/x.safetensors", dir);
    assert_int_equal(test_device_open(NULL, &device), MICA_OK);
    assert_int_equal(mica_scope_open(device, &s), MICA_OK);
    return 0;
}

static int close_all(void **state) {
    (void)state;
    mica_scope_close(&s);
    mica_device_close(&device);
    free(path);
    test_temp_dir_remove(dir);
    return 0;
}

static const uint16_t codes[6] = {1, 2, 3, 4, 5, 65535};
static const float values[6] = {1, 2, 3, 4, 5, 6};
static const int64_t shape[2] = {2, 3};

/* Arrays of several dtypes, one of them a view, one not yet evaluated. */
static void make(mica_named_array out[4]) {
    mica_array x = mica_from_data(s, values, MICA_F32, shape, 2);
    out[0] = (mica_named_array){"u16", mica_from_data(s, codes, MICA_U16, shape, 2)};
    out[1] = (mica_named_array){"transposed", mica_transpose(s, x, NULL)};
    out[2] = (mica_named_array){"sum", mica_add(s, x, x)};
    out[3] = (mica_named_array){"scalar", mica_f32(s, 2.5F)};
}

static void check(const mica_named_array *x, const char *name, mica_dtype dtype, int ndim,
                  const void *data, size_t bytes) {
    char found[64];
    assert_string_equal(x->name, name);
    assert_int_equal(mica_array_dtype(x->array), dtype);
    assert_int_equal(mica_array_ndim(x->array), ndim);
    assert_int_equal(mica_read(x->array, found, bytes), MICA_OK);
    assert_memory_equal(found, data, bytes);
}

static void test_round_trip(void **state) {
    (void)state;
    mica_named_array saved[4], *loaded;
    size_t n;
    const mica_metadata notes = {"format", "mlx"};
    const float turned[6] = {1, 4, 2, 5, 3, 6}, doubled[6] = {2, 4, 6, 8, 10, 12}, scalar = 2.5F;
    make(saved);
    if (mica_save_safetensors(path, saved, 4, &notes, 1) != MICA_OK)
        fail_msg("%s", mica_last_error());
    assert_int_equal(mica_load_safetensors(path, s, &loaded, &n), MICA_OK);
    assert_int_equal(n, 4); /* those with small elements are last */
    check(&loaded[0], "transposed", MICA_F32, 2, turned, sizeof turned);
    check(&loaded[1], "sum", MICA_F32, 2, doubled, sizeof doubled);
    check(&loaded[2], "scalar", MICA_F32, 0, &scalar, sizeof scalar);
    check(&loaded[3], "u16", MICA_U16, 2, codes, sizeof codes);
    assert_int_equal(mica_array_dim(loaded[0].array, 0), 3);
    mica_free(loaded);
}

static void test_file(void **state) {
    (void)state;
    mica_named_array saved[4];
    const mica_metadata notes[] = {{"format", "mlx"}, {"step", "7"}};
    mica_array_file *file;
    mica_metadata entry;
    size_t i = 99;
    make(saved);
    assert_int_equal(mica_save_safetensors(path, saved, 4, notes, 2), MICA_OK);
    assert_int_equal(mica_array_file_open(path, &file), MICA_OK);
    assert_int_equal(mica_array_file_count(file), 4);
    assert_false(mica_array_file_find(file, "none", &i));
    assert_int_equal(i, 99);
    assert_true(mica_array_file_find(file, "u16", &i));
    assert_string_equal(mica_array_file_name(file, i), "u16");
    assert_null(mica_array_file_name(file, 4));
    assert_true(mica_array_file_metadata(file, 1, &entry));
    assert_string_equal(entry.key, "step");
    assert_string_equal(entry.value, "7");
    assert_false(mica_array_file_metadata(file, 2, &entry));
    mica_array x = mica_array_file_load(file, i, s);
    mica_array_file_close(&file);
    mica_array_file_close(&file);
    check(&(mica_named_array){"u16", x}, "u16", MICA_U16, 2, codes, sizeof codes);
}

static void test_no_arrays(void **state) {
    (void)state;
    mica_named_array *loaded;
    size_t n = 9;
    assert_int_equal(mica_save_safetensors(path, NULL, 0, NULL, 0), MICA_OK);
    assert_int_equal(mica_load_safetensors(path, s, &loaded, &n), MICA_OK);
    assert_int_equal(n, 0);
    mica_free(loaded);
}

static void test_refused(void **state) {
    (void)state;
    mica_named_array x[4], *loaded;
    mica_array_file *file;
    size_t n;
    make(x);
    assert_int_equal(mica_save_safetensors(NULL, x, 1, NULL, 0), MICA_EINVAL);
    assert_int_equal(mica_save_safetensors(path, NULL, 1, NULL, 0), MICA_EINVAL);
    assert_int_equal(mica_save_safetensors(path, x, 1, NULL, 1), MICA_EINVAL);
    x[1].name = "u16";
    assert_int_equal(mica_save_safetensors(path, x, 4, NULL, 0), MICA_EINVAL);
    assert_non_null(strstr(mica_last_error(), "two tensors are called 'u16'"));
    x[1] = (mica_named_array){"none", MICA_NONE};
    assert_int_equal(mica_save_safetensors(path, x, 4, NULL, 0), MICA_EINVAL);
    assert_non_null(strstr(mica_last_error(), "'none'"));
    assert_int_equal(mica_array_file_open(path, &file), MICA_ENOENT);
    assert_null(file);
    assert_int_equal(mica_load_safetensors(path, s, &loaded, &n), MICA_ENOENT);
    assert_null(loaded);
    assert_int_equal(mica_array_file_open(NULL, &file), MICA_EINVAL);
    assert_int_equal(mica_array_file_count(NULL), 0);
    assert_int_equal(test_count_entries(dir), 0);
    x[1] = (mica_named_array){"bad", mica_matmul(s, x[0].array, x[0].array)};
    assert_int_equal(mica_save_safetensors(path, x, 4, NULL, 0), mica_scope_status(s));
    assert_int_equal(test_count_entries(dir), 0);
}

/* A dtype that mica lacks is an error of that array, in its scope. */
static void test_foreign_dtype(void **state) {
    (void)state;
    static const char header[] =
        "{\"x\":{\"dtype\":\"F8_E4M3\",\"shape\":[8],\"data_offsets\":[0,8]}}";
    char bytes[8 + sizeof header - 1 + 8] = {(char)(sizeof header - 1)};
    mica_named_array *loaded;
    size_t n;
    memcpy(bytes + 8, header, sizeof header - 1);
    test_write_file(path, bytes, sizeof bytes);
    assert_int_equal(mica_load_safetensors(path, s, &loaded, &n), MICA_EDTYPE);
    assert_non_null(strstr(mica_last_error(), "'x': mica has no dtype F8_E4M3"));
    assert_null(loaded);
}

static bool round_trip(void *arg) {
    mica_scope *own = NULL;
    mica_named_array *loaded = NULL;
    size_t n;
    mica_status status = mica_save_safetensors(path, arg, 4, NULL, 0);
    if (status == MICA_OK) status = mica_scope_open(device, &own);
    if (status == MICA_OK) status = mica_load_safetensors(path, own, &loaded, &n);
    mica_scope_close(&own);
    mica_free(loaded);
    if (status != MICA_OK) assert_int_equal(status, MICA_ENOMEM);
    return status == MICA_OK;
}

static void test_out_of_memory(void **state) {
    (void)state;
    mica_named_array x[4];
    make(x);
    for (int i = 0; i < 4; i++)
        assert_int_equal(mica_eval(s, x[i].array), MICA_OK);
    test_fail_each_allocation(round_trip, x);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_all, close_all)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_round_trip), TEST(test_file),          TEST(test_no_arrays),
        TEST(test_refused),    TEST(test_foreign_dtype), TEST(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
