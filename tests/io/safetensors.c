/* io/safetensors: every fixture against a naive reading of its header, and every way to be
 * wrong. */
#define _POSIX_C_SOURCE 200809L

#include "io/safetensors.h"

#include "base/filemap.h"

#include "support/support.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- files made here ---- */

typedef struct blob {
    unsigned char *bytes;
    size_t size;
} blob;

/* A file of this header and `data_bytes` bytes 0, 1, 2, ... */
static blob make(const char *header, size_t data_bytes) {
    size_t len = strlen(header);
    blob b = {malloc(8 + len + data_bytes), 8 + len + data_bytes};
    assert_non_null(b.bytes);
    for (int i = 0; i < 8; i++)
        b.bytes[i] = (unsigned char)((uint64_t)len >> 8 * i);
    memcpy(b.bytes + 8, header, len);
    for (size_t i = 0; i < data_bytes; i++)
        b.bytes[8 + len + i] = (unsigned char)i;
    return b;
}

static void write_model(const char *dir, const char *name, const char *header, size_t data_bytes) {
    char *path = test_format("%s/%s", dir, name);
    blob b = make(header, data_bytes);
    test_write_file(path, b.bytes, b.size);
    free(b.bytes);
    free(path);
}

static void write_text(const char *dir, const char *name, const char *text) {
    char *path = test_format("%s/%s", dir, name);
    test_write_file(path, text, strlen(text));
    free(path);
}

static void expect(mica_status status, mica_status want, const char *const *parts) {
    if (status != want) {
        fail_msg("%s, not %s: %s", mica_status_name(status), mica_status_name(want),
                 mica_last_error());
    }
    for (; *parts; parts++) {
        if (!strstr(mica_last_error(), *parts)) {
            fail_msg("'%s' does not say '%s'", mica_last_error(), *parts);
        }
    }
}
#define EXPECT(status, want, ...) expect((status), (want), (const char *const[]){__VA_ARGS__, NULL})

/* ---- fixtures ---- */

/* Reads `"name":{...}` out of the header's text by searching, as a person would. */
static void check_by_eye(const mc_weight_tensor *t, const char *file, size_t size) {
    uint64_t header = 0;
    for (int i = 8; i-- > 0;)
        header = header << 8 | (unsigned char)file[i];
    char *quoted = test_format("\"%s\":{", t->name), shape[256] = "[", kind[16];
    const char *entry = strstr(file + 8, quoted);
    assert_non_null(entry);
    assert_int_equal(sscanf(strstr(entry, "\"dtype\":") + 8, "\"%15[^\"]", kind), 1);
    assert_string_equal(kind, t->kind);
    for (int i = 0; i < t->ndim; i++) {
        size_t len = strlen(shape);
        snprintf(shape + len, sizeof shape - len, "%s%" PRId64, i ? "," : "", t->shape[i]);
    }
    const char *there = strstr(entry, "\"shape\":") + 8;
    for (const char *s = shape; *s; s++, there++) {
        while (*there == ' ')
            there++;
        assert_int_equal(*there, *s);
    }
    assert_int_equal(*there, ']');
    unsigned long long begin, end;
    const char *offsets = strstr(entry, "\"data_offsets\":") + 15;
    assert_int_equal(sscanf(offsets, "[%llu, %llu]", &begin, &end), 2);
    assert_int_equal(t->begin, begin);
    assert_int_equal(t->bytes, end - begin);
    assert_true(8 + header + end <= size);
    if (t->data) assert_memory_equal(t->data, file + 8 + header + begin, t->bytes);
    free(quoted);
}

static size_t count_text(const char *text, const char *what) {
    size_t n = 0;
    for (text = strstr(text, what); text; text = strstr(text + 1, what))
        n++;
    return n;
}

/* What a watch was told. */
typedef struct told {
    uint64_t count, done, total;
    uint64_t max; /* the work is ended when it was told so often; 0: never */
} told;

static mica_status watch(void *context, uint64_t done, uint64_t total) {
    told *t = context;
    assert_true(done >= t->done && done <= total);
    assert_true(t->count == 0 || t->total == total);
    *t = (told){t->count + 1, done, total, t->max};
    return t->max && t->count == t->max ? mc_fail(MICA_ECANCELLED, "enough") : MICA_OK;
}

static void check_model(const char *dir, const mc_weights_options *options) {
    mc_weights *w;
    told told_last = {0};
    mc_weights_options watched = *options;
    watched.watch = watch;
    watched.context = &told_last;
    mica_status status = mc_weights_open(dir, &watched, &w);
    if (status != MICA_OK) fail_msg("%s: %s", dir, mica_last_error());
    size_t checked = 0, listed = 0;
    uint64_t bytes = 0;
    test_list files = test_list_files(dir, ".safetensors");
    for (size_t f = 0; f < files.count; f++) {
        if (strncmp(files.names[f], "model", 5) != 0) continue; /* golden.safetensors */
        char *path = test_format("%s/%s", dir, files.names[f]);
        size_t size;
        char *file = test_read_file(path, &size);
        bytes += size;
        listed += count_text(file + 8, "\"data_offsets\":");
        for (size_t i = 0; i < mc_weights_count(w); i++) {
            const mc_weight_tensor *t = mc_weights_at(w, i);
            if (strcmp(t->file, path) != 0) continue;
            assert_ptr_equal(mc_weights_find(w, t->name), t);
            assert_int_equal(t->data == NULL, options->headers);
            if (t->has_dtype) assert_int_equal((uintptr_t)t->data % mica_dtype_bytes(t->dtype), 0);
            check_by_eye(t, file, size);
            checked++;
        }
        free(file);
        free(path);
    }
    assert_int_equal(checked, mc_weights_count(w));
    assert_int_equal(checked, listed);
    bool reads = options->no_mmap || options->prefetch;
    assert_int_equal(told_last.done, reads ? bytes : 0);
    assert_int_equal(told_last.total, reads ? bytes : 0);
    assert_true(checked > 0);
    test_list_free(&files);
    mc_weights_close(&w);
}

static const mc_weights_options loadings[] = {
    {0}, {.no_mmap = true}, {.prefetch = true}, {.no_mmap = true, .prefetch = true}};
static const mc_weights_options headers = {.headers = true};

static void test_fixtures(void **state) {
    (void)state;
    char *models = test_format("%s/models", test_fixtures_dir());
    test_list cases = test_list_folders(models);
    assert_true(cases.count > 0);
    for (size_t i = 0; i < cases.count; i++) {
        char *dir = test_format("%s/%s", models, cases.names[i]);
        for (size_t o = 0; o < sizeof loadings / sizeof *loadings; o++)
            check_model(dir, &loadings[o]);
        check_model(dir, &headers);
        free(dir);
    }
    print_message("%zu models, every tensor as its header says\n", cases.count);
    test_list_free(&cases);
    free(models);
}

/* A file that the system has forgotten is read when it is opened, where that is asked for; one that
 * is in memory is not. Some file systems forget nothing. */
static void test_cold(void **state) {
    (void)state;
    enum { BYTES = 32 << 20 }; /* more than comes along with the header */
    char *dir = test_temp_dir(), *path = test_format("%s/x.safetensors", dir);
    char *header = test_format(
        "{\"x\": {\"dtype\": \"U8\", \"shape\": [%d], \"data_offsets\": [0, %d]}}", BYTES, BYTES);
    blob file = make(header, BYTES);
    test_write_file(path, file.bytes, file.size);
    for (int i = 0; i < 2; i++) {
        told t = {0};
        mc_filemap map;
        mc_weights *w;
        int fd = open(path, O_RDONLY);
        assert_true(fd >= 0);
        fsync(fd);
#ifdef POSIX_FADV_DONTNEED
        if (i == 0) assert_int_equal(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
#endif
        close(fd);
        assert_int_equal(mc_filemap_open(path, MC_FILE_WEIGHTS, &map), MICA_OK);
        bool cold = !mc_filemap_is_present(&map);
        mc_filemap_close(&map);
        assert_true(i == 0 || !cold);
        const mc_weights_options options = {.cold = true, .watch = watch, .context = &t};
        assert_int_equal(mc_weights_open(path, &options, &w), MICA_OK);
        assert_true(mc_weights_were_read(w) == cold);
        assert_int_equal(t.done, cold ? file.size : 0);
        assert_int_equal(t.total, t.done);
        mc_weights_close(&w);
    }
    free(file.bytes);
    free(header);
    free(path);
    test_temp_dir_remove(dir);
}

/* ---- good files ---- */

static void test_every_dtype(void **state) {
    (void)state;
    static const struct {
        const char *kind;
        unsigned bits;
        int dtype; /* -1: none */
    } kinds[] = {
        {"BOOL", 8, MICA_BOOL}, {"U8", 8, MICA_U8},      {"U16", 16, MICA_U16},
        {"U32", 32, MICA_U32},  {"U64", 64, MICA_U64},   {"I8", 8, MICA_I8},
        {"I16", 16, MICA_I16},  {"I32", 32, MICA_I32},   {"I64", 64, MICA_I64},
        {"F16", 16, MICA_F16},  {"BF16", 16, MICA_BF16}, {"F32", 32, MICA_F32},
        {"F64", 64, MICA_F64},  {"C64", 64, MICA_C64},   {"F8_E4M3", 8, -1},
        {"F8_E5M2", 8, -1},     {"F8_E8M0", 8, -1},      {"F6_E2M3", 6, -1},
        {"F6_E3M2", 6, -1},     {"F4", 4, -1},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        size_t bytes = 24 * kinds[i].bits / 8;
        char *header = test_format("{\"__metadata__\":{\"format\":\"mlx\"},\"x\":{\"dtype\":\"%s\","
                                   "\"shape\":[2,3,4],\"data_offsets\":[0,%zu]}}",
                                   kinds[i].kind, bytes);
        blob b = make(header, bytes);
        mc_weights *w;
        assert_int_equal(mc_weights_parse(b.bytes, b.size, "x", &w), MICA_OK);
        assert_int_equal(mc_weights_count(w), 1);
        const mc_weight_tensor *t = mc_weights_find(w, "x");
        assert_string_equal(t->kind, kinds[i].kind);
        assert_int_equal(t->has_dtype, kinds[i].dtype >= 0);
        if (t->has_dtype) assert_int_equal(t->dtype, kinds[i].dtype);
        assert_int_equal(t->ndim, 3);
        assert_true(t->shape[0] == 2 && t->shape[1] == 3 && t->shape[2] == 4);
        assert_int_equal(t->bytes, bytes);
        assert_memory_equal(t->data, b.bytes + b.size - bytes, bytes);
        mc_weights_close(&w);
        free(b.bytes);
        free(header);
    }
}

static void test_scalars_and_empty_tensors(void **state) {
    (void)state;
    blob b = make("{\"s\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]},"
                  "\"none\":{\"dtype\":\"F32\",\"shape\":[3,0],\"data_offsets\":[1,1]},"
                  "\"caf\\u00e9\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}   ",
                  3);
    mc_weights *w;
    assert_int_equal(mc_weights_parse(b.bytes, b.size, "x", &w), MICA_OK);
    assert_int_equal(mc_weights_count(w), 3);
    assert_string_equal(mc_weights_at(w, 0)->name, "s");
    assert_int_equal(mc_weights_at(w, 0)->ndim, 0);
    assert_string_equal(mc_weights_at(w, 1)->name, "none");
    assert_int_equal(mc_weights_at(w, 1)->bytes, 0);
    assert_non_null(mc_weights_find(w, "caf\xC3\xA9"));
    assert_non_null(mc_weights_find(w, "s"));
    assert_null(mc_weights_find(w, "norm.weight"));
    mc_weights_close(&w);
    mc_weights_close(&w);
    free(b.bytes);
    b = make("{}", 0);
    assert_int_equal(mc_weights_parse(b.bytes, b.size, "x", &w), MICA_OK);
    assert_int_equal(mc_weights_count(w), 0);
    assert_null(mc_weights_find(w, "s"));
    mc_weights_close(&w);
    free(b.bytes);
}

/* Wherever the data happens to begin, what is handed out is aligned and the same. */
static void test_unaligned_data_is_copied(void **state) {
    (void)state;
    static const char *const pads[] = {"", " ", "  ", "   ", "    ", "     ", "      ", "       "};
    for (size_t i = 0; i < 8; i++) {
        char *header =
            test_format("{\"b\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]},"
                        "\"x\":{\"dtype\":\"I64\",\"shape\":[5],\"data_offsets\":[3,43]}}%s",
                        pads[i]);
        blob b = make(header, 43);
        mc_weights *w;
        assert_int_equal(mc_weights_parse(b.bytes, b.size, "x", &w), MICA_OK);
        const mc_weight_tensor *t = mc_weights_find(w, "x");
        assert_int_equal((uintptr_t)t->data % 8, 0);
        assert_int_equal(((const int64_t *)t->data)[0], INT64_C(0x0a09080706050403));
        assert_memory_equal(t->data, b.bytes + b.size - 40, 40);
        mc_weights_close(&w);
        free(b.bytes);
        free(header);
    }
}

/* ---- bad files ---- */

#define ONE(dtype, shape, offsets) \
    "{\"a.weight\":{\"dtype\":" dtype ",\"shape\":" shape ",\"data_offsets\":" offsets "}}"
#define TWO(first, second)                                           \
    "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":" first \
    "},\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":" second "}}"

static const struct {
    const char *header;
    size_t data_bytes;
    mica_status status;
    const char *field, *why;
} bad_headers[] = {
    {ONE("\"U8\"", "[4]", "[0,4]"), 3, MICA_EFORMAT, "'a.weight': data_offsets", "cut short"},
    {ONE("\"U8\"", "[4]", "[0,4]"), 5, MICA_EFORMAT, "x/m:", "1 bytes follow"},
    {ONE("\"U8\"", "[4]", "[4,0]"), 4, MICA_EFORMAT, "'a.weight': data_offsets", "begins after"},
    {ONE("\"U8\"", "[4]", "[-4,0]"), 4, MICA_EFORMAT, "'a.weight': data_offsets", "integers >= 0"},
    {ONE("\"U8\"", "[4]", "[0]"), 4, MICA_EFORMAT, "'a.weight': data_offsets", "two integers"},
    {ONE("\"U8\"", "[4]", "[0,2,4]"), 4, MICA_EFORMAT, "'a.weight': data_offsets", "two integers"},
    {ONE("\"U8\"", "[4]", "[0,\"4\"]"), 4, MICA_EFORMAT, "'a.weight': data_offsets",
     "two integers"},
    {ONE("\"U8\"", "[4]", "null"), 4, MICA_EFORMAT, "'a.weight'", "has no data_offsets"},
    {ONE("\"U8\"", "[4]", "[0,18446744073709551615]"), 4, MICA_EFORMAT, "data_offsets", "integers"},
    {ONE("\"U8\"", "[4]", "[9223372036854775806,9223372036854775807]"), 4, MICA_EFORMAT,
     "'a.weight': data_offsets", "cut short"},
    {ONE("\"F32\"", "[4]", "[0,4]"), 4, MICA_EFORMAT, "'a.weight'", "F32 make 16"},
    {ONE("\"U8\"", "[3]", "[0,4]"), 4, MICA_EFORMAT, "'a.weight'", "U8 make 3"},
    {ONE("\"U8\"", "[0]", "[0,4]"), 4, MICA_EFORMAT, "'a.weight'", "U8 make 0"},
    {ONE("\"F4\"", "[3]", "[0,2]"), 2, MICA_EFORMAT, "'a.weight': shape", "not an integer"},
    {ONE("\"U8\"", "[-4]", "[0,4]"), 4, MICA_EFORMAT, "'a.weight': shape", "integers >= 0"},
    {ONE("\"U8\"", "[2.5]", "[0,4]"), 4, MICA_EFORMAT, "'a.weight': shape", "integers >= 0"},
    {ONE("\"U8\"", "4", "[0,4]"), 4, MICA_EFORMAT, "'a.weight': shape", "a list"},
    {ONE("\"U8\"", "null", "[0,4]"), 4, MICA_EFORMAT, "'a.weight'", "has no shape"},
    {ONE("\"U64\"", "[4294967296,4294967296]", "[0,4]"), 4, MICA_EFORMAT, "'a.weight'",
     "overflows"},
    {ONE("\"U8\"", "[9223372036854775807,3]", "[0,4]"), 4, MICA_EFORMAT, "'a.weight'", "overflows"},
    {ONE("\"U8\"", "[0,576460752303423489]", "[0,0]"), 0, MICA_EFORMAT, "'a.weight'", "overflows"},
    {ONE("\"F16\"", "[4294967296,0,4294967296]", "[0,0]"), 0, MICA_EFORMAT, "'a.weight'",
     "overflows"},
    {ONE("\"U8\"", "[1,1,1,1,1,1,1,1,4]", "[0,4]"), 4, MICA_EUNSUPPORTED, "'a.weight'", "8 axes"},
    {ONE("\"Q4\"", "[4]", "[0,4]"), 4, MICA_EUNSUPPORTED, "'a.weight': dtype", "'Q4'"},
    {ONE("\"u8\"", "[4]", "[0,4]"), 4, MICA_EUNSUPPORTED, "'a.weight': dtype", "'u8'"},
    {ONE("8", "[4]", "[0,4]"), 4, MICA_EFORMAT, "'a.weight': dtype", "want a text"},
    {ONE("null", "[4]", "[0,4]"), 4, MICA_EFORMAT, "'a.weight'", "has no dtype"},
    {TWO("[0,4]", "[3,7]"), 7, MICA_EFORMAT, "tensor 'b': data_offsets", "overlaps"},
    {TWO("[0,4]", "[0,4]"), 4, MICA_EFORMAT, "tensor 'b': data_offsets", "overlaps"},
    {TWO("[0,4]", "[5,9]"), 9, MICA_EFORMAT, "tensor 'b': data_offsets", "hole"},
    {TWO("[5,9]", "[1,5]"), 9, MICA_EFORMAT, "tensor 'b': data_offsets", "hole"},
    {"{\"a\":1}", 0, MICA_EFORMAT, "tensor 'a'", "an object"},
    {"[1]", 0, MICA_EFORMAT, "x/m:", "not a JSON object"},
    {"", 0, MICA_EFORMAT, "x/m:", "is empty"},
    {"{\"a\":", 0, MICA_EFORMAT, "x/m:", "header"},
    {"{\"\xFF\":{}}", 0, MICA_EFORMAT, "x/m:", "UTF-8"},
    {"{\"a\\u0000b\":{}}", 0, MICA_EFORMAT, "tensor 'a", "zero byte"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
     "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
     2, MICA_EFORMAT, "tensor 'a'", "twice"},
};

static void test_bad_headers(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof bad_headers / sizeof bad_headers[0]; i++) {
        blob b = make(bad_headers[i].header, bad_headers[i].data_bytes);
        mc_weights *w;
        EXPECT(mc_weights_parse(b.bytes, b.size, "x/m", &w), bad_headers[i].status,
               "x/m: ", bad_headers[i].field, bad_headers[i].why);
        assert_null(w);
        free(b.bytes);
    }
}

/* Which is told of the whole file and of its header alone. */
static void test_pointer(void **state) {
    (void)state;
    static const char text[] = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n";
    char *dir = test_temp_dir(), *path = test_format("%s/model.safetensors", dir);
    const mc_weights_options *const all[] = {NULL, &headers};
    test_write_file(path, text, sizeof text - 1);
    for (size_t i = 0; i < 2; i++) {
        mc_weights *w;
        EXPECT(mc_weights_open(path, all[i], &w), MICA_EFORMAT, "a pointer of Git LFS");
    }
    free(path);
    test_temp_dir_remove(dir);
}

static void test_deep_header(void **state) {
    (void)state;
    enum { LEVELS = 5000 };
    char header[2 * LEVELS + 1];
    memset(header, '[', LEVELS);
    memset(header + LEVELS, ']', LEVELS);
    header[2 * LEVELS] = 0;
    blob b = make(header, 0);
    mc_weights *w;
    EXPECT(mc_weights_parse(b.bytes, b.size, "x/m", &w), MICA_EFORMAT, "x/m", "256 levels");
    free(b.bytes);
}

static void test_bad_lengths(void **state) {
    (void)state;
    mc_weights *w;
    unsigned char bytes[16] = {0};
    for (size_t n = 0; n < 8; n++) {
        EXPECT(mc_weights_parse(bytes, n, "x", &w), MICA_EFORMAT, "x: ", "too few");
    }
    bytes[0] = 9; /* one more than there is */
    EXPECT(mc_weights_parse(bytes, 16, "x", &w), MICA_EFORMAT, "x: a header of 9 bytes", "has 8");
    memset(bytes, 0xFF, 8);
    EXPECT(mc_weights_parse(bytes, 16, "x", &w), MICA_EFORMAT, "18446744073709551615", "at most");
    memset(bytes, 0, 8);
    bytes[4] = 1; /* 4 GB */
    EXPECT(mc_weights_parse(bytes, 16, "x", &w), MICA_EFORMAT, "4294967296", "at most 100000000");
}

/* Every shorter beginning of a good file is an error and reads nothing beyond (ASan watches). */
static void test_cut_anywhere(void **state) {
    (void)state;
    char *dir = test_temp_dir(), *path = test_format("%s/cut", dir);
    blob b = make(TWO("[0,4]", "[4,8]"), 8);
    for (size_t n = 0; n < b.size; n++) {
        unsigned char *part = malloc(n ? n : 1);
        assert_non_null(part);
        memcpy(part, b.bytes, n);
        mc_weights *w;
        assert_int_equal(mc_weights_parse(part, n, "x", &w), MICA_EFORMAT);
        assert_null(w);
        test_write_file(path, part, n);
        EXPECT(mc_weights_open(path, &headers, &w), MICA_EFORMAT, path);
        assert_null(w);
        free(part);
    }
    free(b.bytes);
    free(path);
    test_temp_dir_remove(dir);
}

/* ---- folders ---- */

#define TENSOR(name) "{\"" name "\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}"
#define INDEX "model.safetensors.index.json"

static void test_choice_of_files(void **state) {
    (void)state;
    char *dir = test_temp_dir();
    mc_weights *w;
    EXPECT(mc_weights_open(dir, NULL, &w), MICA_ENOENT, dir, "*.safetensors");
    write_model(dir, "z.safetensors", TENSOR("z"), 1);
    write_model(dir, "y.safetensors", TENSOR("y"), 1);
    assert_int_equal(mc_weights_open(dir, NULL, &w), MICA_OK);
    assert_int_equal(mc_weights_count(w), 2);
    assert_string_equal(mc_weights_at(w, 0)->name, "y");
    mc_weights_close(&w);
    write_model(dir, "model-2.safetensors", TENSOR("two"), 1);
    write_model(dir, "model-1.safetensors", TENSOR("one"), 1);
    assert_int_equal(mc_weights_open(dir, NULL, &w), MICA_OK);
    assert_int_equal(mc_weights_count(w), 2);
    assert_string_equal(mc_weights_at(w, 0)->name, "one");
    mc_weights_close(&w);
    write_model(dir, "model.safetensors", TENSOR("m"), 1);
    assert_int_equal(mc_weights_open(dir, NULL, &w), MICA_OK);
    assert_int_equal(mc_weights_count(w), 1);
    assert_string_equal(mc_weights_at(w, 0)->name, "m");
    mc_weights_close(&w);
    write_text(dir, INDEX, "{\"weight_map\":{\"z\":\"z.safetensors\",\"y\":\"y.safetensors\"}}");
    assert_int_equal(mc_weights_open(dir, NULL, &w), MICA_OK);
    assert_int_equal(mc_weights_count(w), 2);
    assert_non_null(mc_weights_find(w, "z"));
    mc_weights_close(&w);
    char *one = test_format("%s/z.safetensors", dir); /* a file by its own name */
    assert_int_equal(mc_weights_open(one, NULL, &w), MICA_OK);
    assert_int_equal(mc_weights_count(w), 1);
    mc_weights_close(&w);
    free(one);
    test_temp_dir_remove(dir);
    EXPECT(mc_weights_open("/no/such/model", NULL, &w), MICA_ENOENT, "/no/such/model");
}

/* Reading ends where the watch says, and nothing is left behind. */
static void test_ended(void **state) {
    (void)state;
    char *dir = test_temp_dir();
    write_model(dir, "a.safetensors", TENSOR("a"), 1);
    write_model(dir, "b.safetensors", TENSOR("b"), 1);
    for (size_t i = 1; i < sizeof loadings / sizeof *loadings; i++) {
        for (uint64_t max = 1; max <= 3; max++) {
            mc_weights *w;
            told t = {.max = max};
            mc_weights_options options = loadings[i];
            options.watch = watch;
            options.context = &t;
            mica_status status = mc_weights_open(dir, &options, &w);
            assert_int_equal(status, max <= 2 ? MICA_ECANCELLED : MICA_OK); /* a tick a file */
            assert_int_equal(w == NULL, max <= 2);
            assert_int_equal(t.count, max <= 2 ? max : 2);
            mc_weights_close(&w);
        }
    }
    test_temp_dir_remove(dir);
}

/* Whatever the limit of this process is: locked, or an error that names the file. */
static void test_locked(void **state) {
    (void)state;
    char *dir = test_temp_dir(), *path = test_format("%s/a.safetensors", dir);
    write_model(dir, "a.safetensors",
                "{\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                "\"odd\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[1,9]}}",
                9);
    for (int no_mmap = 0; no_mmap < 2; no_mmap++) {
        mc_weights *w;
        const mc_weights_options options = {.no_mmap = no_mmap, .lock = true};
        mica_status status = mc_weights_open(dir, &options, &w);
        if (status == MICA_OK)
            assert_int_equal(((const uint8_t *)mc_weights_find(w, "b")->data)[0], 0);
        else
            EXPECT(status, MICA_ENOMEM, path, "cannot be locked");
        mc_weights_close(&w);
    }
    free(path);
    test_temp_dir_remove(dir);
}

/* Weights that were read are there whatever becomes of their file. */
static void test_cut_file(void **state) {
    (void)state;
    char *dir = test_temp_dir(), *path = test_format("%s/a.safetensors", dir);
    const mc_weights_options options = {.no_mmap = true};
    mc_weights *w;
    write_model(dir, "a.safetensors",
                "{\"a\":{\"dtype\":\"U8\",\"shape\":[9],\"data_offsets\":[0,9]}}", 9);
    assert_int_equal(mc_weights_open(dir, &options, &w), MICA_OK);
    const mc_weight_tensor *a = mc_weights_find(w, "a");
    uint8_t before[9];
    memcpy(before, a->data, sizeof before);
    test_write_file(path, "", 0);
    assert_memory_equal(a->data, before, sizeof before);
    mc_weights_close(&w);
    free(path);
    test_temp_dir_remove(dir);
}

static void test_bad_index(void **state) {
    (void)state;
    char *dir = test_temp_dir();
    mc_weights *w;
    write_model(dir, "a.safetensors", TENSOR("a"), 1);
    write_model(dir, "b.safetensors", TENSOR("b"), 1);
    write_model(dir, "a2.safetensors", TENSOR("a"), 1);
    static const struct {
        const char *text;
        mica_status status;
        const char *first, *second;
    } cases[] = {
        {"{\"weight_map\":{\"a\":\"gone.safetensors\"}}", MICA_ENOENT, INDEX, "gone.safetensors"},
        {"{\"weight_map\":{\"a\":\"a.safetensors\",\"c\":\"a.safetensors\"}}", MICA_ENOENT,
         "tensor 'c'", "not in a.safetensors"},
        {"{\"weight_map\":{\"a\":\"b.safetensors\",\"b\":\"a.safetensors\"}}", MICA_ENOENT,
         "tensor", "where the index has it"},
        {"{\"weight_map\":{\"a\":\"a.safetensors\",\"x\":\"a2.safetensors\"}}", MICA_EFORMAT,
         "tensor 'a'", "is stored twice"},
        {"{\"weight_map\":{\"a\":1}}", MICA_EFORMAT, "weight_map.a", "name of a file"},
        {"{\"weight_map\":{\"a\":\"../a.safetensors\"}}", MICA_EFORMAT, "../a",
         "not a file in this"},
        {"{\"weight_map\":{\"a\":\"a\\\\..\\\\..\\\\b.safetensors\"}}", MICA_EFORMAT,
         "b.safetensors", "not a file in this"},
        {"{\"weight_map\":{\"a\":\"/etc/passwd\"}}", MICA_EFORMAT, "/etc/passwd",
         "not a file in this"},
        {"{\"weight_map\":{\"a\":\"\"}}", MICA_EFORMAT, "weight_map.a", "not a file in this"},
        {"{\"weight_map\":{}}", MICA_EFORMAT, "weight_map", "lists no tensors"},
        {"{\"weight_map\":[]}", MICA_EFORMAT, "weight_map", "want an object"},
        {"{}", MICA_EFORMAT, "weight_map", "want an object"},
        {"{", MICA_EFORMAT, INDEX, "not valid JSON"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_text(dir, INDEX, cases[i].text);
        EXPECT(mc_weights_open(dir, NULL, &w), cases[i].status, dir, cases[i].first,
               cases[i].second);
        assert_null(w);
    }
    test_temp_dir_remove(dir);
}

static void test_files_that_cannot_be_read(void **state) {
    (void)state;
    char *dir = test_temp_dir(), *path = test_format("%s/model.safetensors", dir);
    mc_weights *w;
    test_write_file(path, "", 0);
    EXPECT(mc_weights_open(dir, NULL, &w), MICA_EFORMAT, path, "0 bytes");
    write_model(dir, "model.safetensors", TENSOR("a"), 0);
    EXPECT(mc_weights_open(dir, NULL, &w), MICA_EFORMAT, path, "tensor 'a'", "cut short");
    assert_int_equal(chmod(path, 0), 0);
    if (test_lose_rights())
        EXPECT(mc_weights_open(dir, NULL, &w), MICA_EIO, path, "Permission denied");
    test_regain_rights();
    unlink(path);
    assert_int_equal(mkdir(path, 0700), 0);
    EXPECT(mc_weights_open(dir, NULL, &w), MICA_EIO, path, "is a folder");
    rmdir(path);
    free(path);
    test_temp_dir_remove(dir);
}

/* ---- memory ---- */

typedef struct opening {
    const char *dir;
    mc_weights_options options;
} opening;

static bool open_and_close(void *arg) {
    const opening *o = arg;
    mc_weights *w;
    mica_status status = mc_weights_open(o->dir, &o->options, &w);
    assert_true(status == MICA_OK || status == MICA_ENOMEM);
    assert_true((w != NULL) == (status == MICA_OK));
    mc_weights_close(&w);
    return status == MICA_OK;
}

static void test_no_memory(void **state) {
    (void)state;
    char *dir = test_temp_dir();
    write_model(dir, "a.safetensors", TENSOR("a"), 1);
    opening mapped = {dir, {0}}, read = {dir, {.no_mmap = true}}, head = {dir, headers};
    test_fail_each_allocation(open_and_close, &mapped); /* a listed folder */
    test_fail_each_allocation(open_and_close, &read);
    test_fail_each_allocation(open_and_close, &head);
    write_model(dir, "b.safetensors",
                "{\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                "\"odd\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[1,9]}}",
                9);
    write_text(dir, INDEX,
               "{\"weight_map\":{\"a\":\"a.safetensors\",\"b\":\"b.safetensors\","
               "\"odd\":\"b.safetensors\"}}");
    test_fail_each_allocation(open_and_close, &mapped); /* an index, and a copy */
    test_fail_each_allocation(open_and_close, &read);
    test_temp_dir_remove(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fixtures),
        cmocka_unit_test(test_cold),
        cmocka_unit_test(test_every_dtype),
        cmocka_unit_test(test_scalars_and_empty_tensors),
        cmocka_unit_test(test_unaligned_data_is_copied),
        cmocka_unit_test(test_bad_headers),
        cmocka_unit_test(test_pointer),
        cmocka_unit_test(test_deep_header),
        cmocka_unit_test(test_bad_lengths),
        cmocka_unit_test(test_cut_anywhere),
        cmocka_unit_test(test_choice_of_files),
        cmocka_unit_test(test_ended),
        cmocka_unit_test(test_locked),
        cmocka_unit_test(test_cut_file),
        cmocka_unit_test(test_bad_index),
        cmocka_unit_test(test_files_that_cannot_be_read),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
