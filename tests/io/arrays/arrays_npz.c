/* io/arrays, io/npz, io/npy, io/zip: files of numpy and of MLX read, the bytes of numpy.save
 * written, and every way to be wrong. */
#include <mica/io.h>

#include "io/npz.h"
#include "support/support.h"

#include <mica/ops.h>

#include <stdlib.h>
#include <string.h>

static char *dir, *path;
static mica_device *device;
static mica_scope *s;

static int open_all(void **state) {
    (void)state;
    dir = test_temp_dir();
    path = test_format("%s/x.npz", dir);
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

static char *golden(const char *name) {
    return test_format("%s/npz/%s", test_cases_dir(), name);
}

/* Whether the build can unpack. */
static bool has_zlib(void) {
    uint8_t out;
    static const uint8_t stored[] = {1, 1, 0, 0xfe, 0xff, 'x'};
    return mc_inflate("x", stored, sizeof stored, &out, 1, true) == MICA_OK && out == 'x';
}

static size_t size_of(mica_array x) {
    return (size_t)mica_array_size(x) * mica_dtype_bytes(mica_array_dtype(x));
}

static void check_same(const char *name, mica_array x, mica_array y) {
    size_t bytes = size_of(x);
    void *a = malloc(bytes + 1), *b = malloc(bytes + 1);
    assert_int_equal(mica_array_dtype(x), mica_array_dtype(y));
    assert_int_equal(mica_array_ndim(x), mica_array_ndim(y));
    for (int i = 0; i < mica_array_ndim(x); i++)
        assert_int_equal(mica_array_dim(x, i), mica_array_dim(y, i));
    assert_int_equal(size_of(y), bytes);
    assert_int_equal(mica_read(x, a, bytes), MICA_OK);
    assert_int_equal(mica_read(y, b, bytes), MICA_OK);
    if (memcmp(a, b, bytes) != 0) fail_msg("%s differs", name);
    free(a);
    free(b);
}

/* ---- numpy's files ---- */

static void check_file(const char *name) {
    char *file = golden(name), *values = golden("values.safetensors");
    mica_named_array *got, *want;
    size_t n, m, checked = 0;
    if (mica_load_npz(file, s, &got, &n) != MICA_OK) fail_msg("%s", mica_last_error());
    assert_int_equal(mica_load_safetensors(values, s, &want, &m), MICA_OK);
    assert_int_equal(n, m + 1); /* safetensors of MLX hold no complex numbers that mica reads */
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < m; k++)
            if (strcmp(got[i].name, want[k].name) == 0) {
                check_same(got[i].name, got[i].array, want[k].array);
                checked++;
            }
    assert_int_equal(checked, m);
    mica_free(got);
    mica_free(want);
    free(file);
    free(values);
}

static void test_numpy(void **state) {
    (void)state;
    check_file("stored.npz");
    if (has_zlib()) check_file("compressed.npz");
}

static void test_fortran(void **state) {
    (void)state;
    char *plain = golden("f4.npy"), *turned = golden("fortran.npy");
    mica_named_array *x, *y;
    size_t n;
    assert_int_equal(mica_load_npz(plain, s, &x, &n), MICA_OK);
    assert_string_equal(x->name, "arr_0");
    assert_int_equal(mica_load_npz(turned, s, &y, &n), MICA_OK);
    assert_int_equal(n, 1);
    check_same("fortran", x->array, y->array);
    mica_free(x);
    mica_free(y);
    free(plain);
    free(turned);
}

static void test_mlx(void **state) {
    (void)state;
    char *file = golden("mlx.npz");
    mica_array_file *f;
    mica_metadata entry;
    size_t i;
    uint16_t bits[2];
    if (mica_array_file_open(file, &f) != MICA_OK) fail_msg("%s", mica_last_error());
    assert_int_equal(mica_array_file_count(f), 2);
    assert_false(mica_array_file_find(f, "none", &i));
    assert_true(mica_array_file_find(f, "bf16", &i));
    assert_false(mica_array_file_metadata(f, 0, &entry));
    mica_array x = mica_array_file_load(f, i, s);
    mica_array_file_close(&f);
    assert_int_equal(mica_array_dtype(x), MICA_BF16);
    assert_int_equal(mica_read(x, bits, sizeof bits), MICA_OK);
    assert_int_equal(bits[0], 0x3f80);
    assert_int_equal(bits[1], 0xc020);
    free(file);
}

/* ---- writing ---- */

static void check_equal_files(const char *a, const char *b) {
    size_t n, m;
    char *x = test_read_file(a, &n), *y = test_read_file(b, &m);
    if (n != m || memcmp(x, y, n) != 0) fail_msg("%s is unlike %s", a, b);
    free(x);
    free(y);
}

/* Each array that numpy has saved in a file of its own gives the same bytes. */
static void test_npy_bytes(void **state) {
    (void)state;
    char *folder = golden("");
    test_list files = test_list_files(folder, ".npy");
    size_t checked = 0;
    for (size_t i = 0; i < files.count; i++) {
        char *file = test_format("%s%s", folder, files.names[i]);
        mica_named_array *x;
        size_t n;
        bool odd =
            strcmp(files.names[i], "fortran.npy") == 0 || strcmp(files.names[i], "big.npy") == 0;
        if (!odd) {
            assert_int_equal(mica_load_npz(file, s, &x, &n), MICA_OK);
            if (mica_save_npy(path, x->array) != MICA_OK) fail_msg("%s", mica_last_error());
            check_equal_files(path, file);
            mica_free(x);
            checked++;
        }
        free(file);
    }
    assert_true(checked >= 14);
    test_list_free(&files);
    free(folder);
}

static void check_round_trip(bool compress) {
    char *file = golden("stored.npz"), *again = test_format("%s/again.npz", dir);
    mica_named_array *x, *y;
    size_t n, m;
    assert_int_equal(mica_load_npz(file, s, &x, &n), MICA_OK);
    if (mica_save_npz(path, x, n, compress) != MICA_OK) fail_msg("%s", mica_last_error());
    assert_int_equal(mica_save_npz(again, x, n, compress), MICA_OK);
    check_equal_files(path, again);
    if (mica_load_npz(path, s, &y, &m) != MICA_OK) fail_msg("%s", mica_last_error());
    assert_int_equal(n, m);
    for (size_t i = 0; i < n; i++) {
        assert_string_equal(x[i].name, y[i].name);
        check_same(x[i].name, x[i].array, y[i].array);
    }
    if (getenv("MICA_NPZ")) test_copy_file(path, getenv("MICA_NPZ"));
    mica_free(x);
    mica_free(y);
    free(file);
    free(again);
}

static void test_round_trip(void **state) {
    (void)state;
    check_round_trip(false);
    if (has_zlib()) check_round_trip(true);
}

/* Views, and arrays that are not evaluated yet; none at all. */
static void test_views(void **state) {
    (void)state;
    const float values[] = {1, 2, 3, 4, 5, 6}, turned[] = {1, 4, 2, 5, 3, 6};
    const int64_t shape[] = {2, 3};
    float found[6];
    mica_array x = mica_from_data(s, values, MICA_F32, shape, 2);
    const mica_named_array saved[] = {{"t", mica_transpose(s, x, NULL)},
                                      {"sum", mica_add(s, x, x)}};
    mica_named_array *loaded;
    size_t n;
    assert_int_equal(mica_save_npz(path, saved, 2, false), MICA_OK);
    assert_int_equal(mica_load_npz(path, s, &loaded, &n), MICA_OK);
    assert_int_equal(mica_read(loaded[0].array, found, sizeof found), MICA_OK);
    assert_memory_equal(found, turned, sizeof found);
    mica_free(loaded);
    assert_int_equal(mica_save_npz(path, NULL, 0, false), MICA_OK);
    assert_int_equal(mica_load_npz(path, s, &loaded, &n), MICA_OK);
    assert_int_equal(n, 0);
    mica_free(loaded);
}

/* f64 comes from numpy's file as it is, and goes into files as it came. */
static void test_f64(void **state) {
    (void)state;
    char *file = golden("foreign.npz");
    mica_named_array *loaded, *again;
    size_t n;
    double got[2] = {0};
    assert_int_equal(mica_load_npz(file, s, &loaded, &n), MICA_OK);
    assert_int_equal(n, 2);
    assert_string_equal(loaded[0].name, "f8");
    assert_int_equal(mica_array_dtype(loaded[0].array), MICA_F64);
    assert_int_equal(mica_read(loaded[0].array, got, sizeof got), MICA_OK);
    assert_true(got[0] == 1 && got[1] == 1);
    const double values[3] = {0.1, -1e300, 4e-324};
    const float pairs[4] = {1, -2, 0.5f, 3};
    const mica_named_array saved[] = {
        {"wide", mica_from_data(s, values, MICA_F64, (int64_t[]){3}, 1)},
        {"pairs", mica_from_data(s, pairs, MICA_C64, (int64_t[]){2}, 1)}};
    for (int kind = 0; kind < 2; kind++) {
        assert_int_equal(kind ? mica_save_npz(path, saved, 2, true)
                              : mica_save_safetensors(path, saved, 2, NULL, 0),
                         MICA_OK);
        assert_int_equal(kind ? mica_load_npz(path, s, &again, &n)
                              : mica_load_safetensors(path, s, &again, &n),
                         MICA_OK);
        for (size_t i = 0; i < n; i++) {
            bool wide = strcmp(again[i].name, "wide") == 0;
            char bytes[24];
            size_t size = wide ? sizeof values : sizeof pairs;
            assert_int_equal(mica_array_dtype(again[i].array), wide ? MICA_F64 : MICA_C64);
            assert_int_equal(mica_read(again[i].array, bytes, size), MICA_OK);
            assert_memory_equal(bytes, wide ? (const void *)values : pairs, size);
        }
        assert_int_equal(n, 2);
        mica_free(again);
    }
    assert_int_equal(remove(path), 0);
    mica_free(loaded);
    free(file);
}

/* ---- what is refused ---- */

static void refuse_file(const char *name, mica_status want, const char *says) {
    char *file = golden(name);
    mica_named_array *x;
    size_t n;
    mica_scope *own;
    assert_int_equal(mica_scope_open(device, &own), MICA_OK);
    mica_status status = mica_load_npz(file, own, &x, &n);
    if (status != want) fail_msg("%s: %s", name, mica_last_error());
    if (!strstr(mica_last_error(), says)) fail_msg("'%s' says no '%s'", mica_last_error(), says);
    assert_null(x);
    mica_scope_close(&own);
    free(file);
}

/* A kind of numpy's that mica lacks. */
static void test_foreign_kind(void **state) {
    (void)state;
    static const char pairs[] = "\x93NUMPY\1\0v\0" /* of numpy.save */
                                "{'descr': '<c16', 'fortran_order': False, 'shape': (0,), }"
                                "                                                           \n";
    mica_named_array *loaded;
    size_t n;
    mica_scope *own;
    assert_int_equal(mica_scope_open(device, &own), MICA_OK);
    test_write_file(path, pairs, sizeof pairs - 1);
    assert_int_equal(mica_load_npz(path, own, &loaded, &n), MICA_EDTYPE);
    assert_non_null(strstr(mica_last_error(), "mica has no dtype for numpy's kind '<c16'"));
    assert_int_equal(remove(path), 0);
    mica_scope_close(&own);
}

static void test_refused(void **state) {
    (void)state;
    const float one = 1;
    mica_array x = mica_from_data(s, &one, MICA_F32, NULL, 0);
    mica_named_array two[] = {{"a", x}, {"a", x}}, *loaded;
    char *npz = golden("stored.npz"), *none = test_format("%s/none/x.npz", dir);
    size_t n;
    refuse_file("objects.npz", MICA_EUNSUPPORTED, "'|O'");
    refuse_file("big.npy", MICA_EUNSUPPORTED, "'>f4'");
    refuse_file("values.safetensors", MICA_EFORMAT, "neither an npz nor an npy");
    assert_int_equal(mica_load_safetensors(npz, s, &loaded, &n), MICA_EFORMAT);
    assert_non_null(strstr(mica_last_error(), "want safetensors"));
    assert_int_equal(mica_load_npz(path, s, &loaded, &n), MICA_ENOENT);
    assert_int_equal(mica_load_npz(NULL, s, &loaded, &n), MICA_EINVAL);
    assert_int_equal(mica_save_npz(path, two, 2, false), MICA_EINVAL);
    assert_non_null(strstr(mica_last_error(), "two arrays are called 'a'"));
    two[1].name = "";
    assert_int_equal(mica_save_npz(path, two, 2, false), MICA_EINVAL);
    two[1] = (mica_named_array){"none", MICA_NONE};
    assert_int_equal(mica_save_npz(path, two, 2, false), MICA_EINVAL);
    assert_int_equal(mica_save_npz(NULL, two, 1, false), MICA_EINVAL);
    assert_int_equal(mica_save_npz(none, two, 1, false), MICA_ENOENT);
    assert_int_equal(mica_save_npy(path, MICA_NONE), MICA_EINVAL);
    assert_int_equal(mica_save_npy("/dev/full", x), MICA_EIO);
    assert_int_equal(test_count_entries(dir), 0);
    free(npz);
    free(none);
}

/* A file that is cut short anywhere, or in which any byte has changed, is an error or is read: it
 * is never read behind its end (the sanitizers watch), and checksums find what the headers hide. */
static void check_damage(const char *name) {
    char *file = golden(name);
    size_t size, errors = 0;
    char *bytes = test_read_file(file, &size), *copy = malloc(size);
    mc_npz *z;
    void *data;
    for (size_t i = 0; i < size; i += 3) {
        memcpy(copy, bytes, size);
        copy[i] = (char)(copy[i] ^ (1 << i % 8));
        mica_status status = mc_npz_parse(copy, size, "damaged", &z);
        for (size_t k = 0; status == MICA_OK && k < mc_npz_count(z); k++) {
            status = mc_npz_read(z, k, &data);
            mc_free(data);
        }
        errors += status != MICA_OK;
        mc_npz_close(&z);
        char *cut = malloc(i + 1);
        memcpy(cut, bytes, i);
        status = mc_npz_parse(cut, i, "cut", &z);
        assert_int_not_equal(status, MICA_OK);
        free(cut);
    }
    assert_true(errors > size / 6);
    free(bytes);
    free(copy);
    free(file);
}

static void put(uint8_t *at, uint64_t value) {
    for (int i = 0; i < 8; i++)
        at[i] = (uint8_t)(value >> 8 * i);
}

/* Two arrays whose data is the same bytes of the file: so a small file could unpack to any size. */
static void test_overlap(void **state) {
    (void)state;
    const float zeros[1024] = {0};
    const int64_t n = 1024;
    const mica_named_array two[] = {{"a", mica_from_data(s, zeros, MICA_F32, &n, 1)},
                                    {"b", mica_from_data(s, zeros, MICA_F32, &n, 1)}};
    const size_t listed =
        46 + 5 + 28; /* a header, "a.npy", 64-bit fields: the last is a position */
    size_t size, list = 0;
    mc_npz *z;
    assert_int_equal(mica_save_npz(path, two, 2, false), MICA_OK);
    uint8_t *bytes = (uint8_t *)test_read_file(path, &size);
    while (memcmp(bytes + list, "PK\1\2", 4) != 0)
        list++;
    size_t begin = list / 2, cut = list - begin; /* b's own data is left out */
    memmove(bytes + begin, bytes + list, size - list);
    size -= cut;
    uint8_t *end = bytes + begin + 2 * listed;
    put(end - 8, 0);
    put(end + 48, begin);
    put(end + 56 + 8, begin + 2 * listed);
    assert_int_equal(mc_npz_parse(bytes, size, "overlap", &z), MICA_EFORMAT);
    if (!strstr(mica_last_error(), "b.npy overlaps other files")) fail_msg("%s", mica_last_error());
    free(bytes);
}

static void test_damage(void **state) {
    (void)state;
    check_damage("stored.npz");
    if (has_zlib()) check_damage("compressed.npz");
}

static bool round_trip(void *arg) {
    mica_scope *own = NULL;
    mica_named_array *loaded = NULL;
    size_t n;
    mica_status status = mica_save_npz(path, arg, 2, has_zlib());
    if (status == MICA_OK) status = mica_scope_open(device, &own);
    if (status == MICA_OK) status = mica_load_npz(path, own, &loaded, &n);
    mica_scope_close(&own);
    mica_free(loaded);
    if (status != MICA_OK) assert_int_equal(status, MICA_ENOMEM);
    return status == MICA_OK;
}

static void test_out_of_memory(void **state) {
    (void)state;
    const float one = 1;
    mica_array x = mica_from_data(s, &one, MICA_F32, NULL, 0);
    mica_named_array two[] = {{"a", x}, {"b", x}};
    assert_true(round_trip(two)); /* zlib is known before an allocation fails */
    test_fail_each_allocation(round_trip, two);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_all, close_all)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_numpy),        TEST(test_fortran),    TEST(test_mlx),
        TEST(test_npy_bytes),    TEST(test_round_trip), TEST(test_views),
        TEST(test_refused),      TEST(test_damage),     TEST(test_f64),
        TEST(test_foreign_kind), TEST(test_overlap),    TEST(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
