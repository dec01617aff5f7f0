/* io/gguf, io/ggml_block: a file that the Python package gguf wrote, its blocks as that package
 * decodes them, and every way to be wrong. */
#include "io/gguf.h"

#include "base/half.h"
#include "io/safetensors.h"
#include "support/support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static char *path_of(const char *name) {
    return test_format("%s/gguf/%s", test_cases_dir(), name);
}

static mc_gguf *open_types(void) {
    mc_gguf *g;
    char *path = path_of("types.gguf");
    if (mc_gguf_open(path, &g) != MICA_OK) fail_msg("%s", mica_last_error());
    free(path);
    return g;
}

static void test_metadata(void **state) {
    (void)state;
    mc_gguf *g = open_types();
    int64_t i = 0;
    double x = 0;
    bool yes = false;
    mc_str text;
    assert_true(mc_gguf_int(g, "a.u8", &i) && i == 200);
    assert_true(mc_gguf_int(g, "a.i16", &i) && i == -200);
    assert_true(mc_gguf_int(g, "a.u64", &i) && i == 1ll << 40);
    assert_true(mc_gguf_number(g, "a.f32", &x) && x == 0.5);
    assert_true(mc_gguf_number(g, "a.f64", &x) && x == -0.1);
    assert_true(mc_gguf_number(g, "a.i16", &x) && x == -200);
    assert_true(mc_gguf_bool(g, "a.bool", &yes) && yes);
    assert_true(mc_gguf_str(g, "a.string", &text) && mc_str_is(text, "text \xc3\xa9"));
    assert_false(mc_gguf_int(g, "a.f32", &i));
    assert_false(mc_gguf_int(g, "a.bool", &i));
    assert_false(mc_gguf_int(g, "a.none", &i));
    assert_false(mc_gguf_str(g, "a.u8", &text));
    assert_false(mc_gguf_bool(g, "a.u8", &yes));
    mc_gguf_close(&g);
    mc_gguf_close(&g);
}

static void test_arrays(void **state) {
    (void)state;
    static const char *const texts[] = {"one", "", "three"};
    static const int64_t integers[] = {1, -2, 3};
    mc_gguf *g = open_types();
    size_t n = 0;
    assert_int_equal(mc_gguf_array(g, "a.strings"), 3);
    assert_int_equal(mc_gguf_array(g, "a.string"), 0);
    for (mc_gguf_iter it = mc_gguf_begin(g, "a.strings"); mc_gguf_next(&it); n++) {
        assert_int_equal(it.index, n);
        assert_true(mc_str_is(it.text, texts[n]));
    }
    for (mc_gguf_iter it = mc_gguf_begin(g, "a.integers"); mc_gguf_next(&it); n++)
        assert_int_equal(it.integer, integers[n - 3]);
    for (mc_gguf_iter it = mc_gguf_begin(g, "a.numbers"); mc_gguf_next(&it); n++)
        assert_true(it.number == (n == 6 ? 0.5 : -1.5));
    assert_int_equal(n, 8);
    mc_gguf_iter none = mc_gguf_begin(g, "a.none");
    assert_false(mc_gguf_next(&none));
    mc_gguf_close(&g);
}

/* Every type as the package decodes it; sums of a few products may round otherwise. */
static void test_blocks(void **state) {
    (void)state;
    mc_gguf *g = open_types();
    mc_weights *want;
    char *path = path_of("types.safetensors");
    assert_int_equal(mc_weights_open(path, NULL, &want), MICA_OK);
    assert_int_equal(mc_weights_count(want), mc_gguf_count(g));
    for (size_t i = 0; i < mc_gguf_count(g); i++) {
        const mc_gguf_tensor *t = mc_gguf_at(g, i);
        const mc_weight_tensor *w = mc_weights_find(want, t->name);
        float out[256];
        size_t n = 0;
        assert_non_null(w);
        assert_string_equal(t->type->name, t->name);
        assert_int_equal(t->ndim, 2);
        assert_int_equal(t->shape[0], w->shape[0]);
        assert_int_equal(t->shape[1], w->shape[1]);
        for (size_t at = 0; at < t->bytes; at += t->type->bytes) {
            t->type->decode((const uint8_t *)t->data + at, out);
            for (unsigned k = 0; k < t->type->block; k++, n++) {
                float x = ((const float *)w->data)[n];
                if (!(fabsf(out[k] - x) <= 4e-6F * (1 + fabsf(x))))
                    fail_msg("%s: element %zu: %g, not %g", t->name, n, (double)out[k], (double)x);
            }
        }
        assert_int_equal(n * sizeof(float), w->bytes);
    }
    mc_weights_close(&want);
    mc_gguf_close(&g);
    free(path);
}

/* Joining what was split gives the same bytes. */
static void test_join(void **state) {
    (void)state;
    mc_gguf *g = open_types();
    size_t blocks = 0;
    for (size_t i = 0; i < mc_gguf_count(g); i++) {
        const mc_gguf_tensor *t = mc_gguf_at(g, i);
        uint8_t codes[32], block[32 + 2 + 4];
        uint16_t scale, bias;
        assert_true(!t->type->join || t->type->bits != 0);
        for (size_t at = 0; t->type->join && at < t->bytes; at += t->type->bytes, blocks++) {
            t->type->split((const uint8_t *)t->data + at, codes, &scale, &bias);
            t->type->join(codes, scale, bias, block);
            assert_memory_equal(block, (const uint8_t *)t->data + at, t->type->bytes);
        }
    }
    assert_int_equal(blocks, 6 * 4);
    mc_gguf_close(&g);
}

/* Codes with scale and bias are what decode gives: the same, but for what a type loses. Of Q4_K and
 * Q5_K scales and biases are rounded; others are quantised anew to 2^bits levels. */
static void check_block(const mc_gguf_tensor *t, const uint8_t *block) {
    uint8_t codes[MC_GGML_BLOCK];
    uint16_t scales[MC_GGML_GROUPS], biases[MC_GGML_GROUPS];
    float out[MC_GGML_BLOCK];
    bool rounded =
        t->type->block == 256 && (t->type->bits == 4 || strcmp(t->type->name, "Q5_K") == 0);
    bool exact = t->type->join || t->type->bits == 2;
    t->type->split(block, codes, scales, biases);
    t->type->decode(block, out);
    for (unsigned k = 0; k < t->type->block; k++) {
        float scale = mc_f16_to_f32(scales[k / 32]), bias = mc_f16_to_f32(biases[k / 32]);
        float x = scale * (float)codes[k] + bias;
        float limit = exact ? 1e-5F * (1 + fabsf(x))
                            : (rounded ? 0.02F : 0.51F) * fabsf(scale) + 1e-3F * fabsf(bias);
        assert_true(codes[k] < 1 << t->type->bits);
        if (!(fabsf(x - out[k]) <= limit))
            fail_msg("%s: %g, want %g", t->type->name, (double)x, (double)out[k]);
    }
}

static void test_split(void **state) {
    (void)state;
    mc_gguf *g = open_types();
    int checked = 0;
    for (size_t i = 0; i < mc_gguf_count(g); i++) {
        const mc_gguf_tensor *t = mc_gguf_at(g, i);
        if (!t->type->bits || t->type->mode != MICA_QUANT_AFFINE) continue;
        for (size_t at = 0; at < t->bytes; at += t->type->bytes)
            check_block(t, (const uint8_t *)t->data + at);
        checked++;
    }
    assert_int_equal(checked, 16);
    mc_gguf_close(&g);
}

/* Whatever is cut off, the result is an error that names the file, and nothing is read behind the
 * end. */
static void test_cut_anywhere(void **state) {
    (void)state;
    size_t size;
    char *path = path_of("types.gguf"), *bytes = test_read_file(path, &size);
    for (size_t n = 0; n < size; n += n < 1500 ? 1 : 97) {
        char *copy = malloc(n + 1);
        mc_gguf *g;
        assert_non_null(copy);
        memcpy(copy, bytes, n);
        char *exact = realloc(copy, n ? n : 1);
        mica_status status = mc_gguf_parse(exact, n, "cut.gguf", &g);
        assert_int_equal(status, MICA_EFORMAT);
        assert_non_null(strstr(mica_last_error(), "cut.gguf"));
        assert_null(g);
        free(exact);
    }
    free(bytes);
    free(path);
}

static void expect(const char *name, mica_status want, const char *says) {
    char *path = test_format("%s/../../fuzz/corpus/gguf/%s", test_cases_dir(), name);
    mc_gguf *g;
    mica_status got = mc_gguf_open(path, &g);
    if (got != want) fail_msg("%s: %s: %s", name, mica_status_name(got), mica_last_error());
    if (want != MICA_OK && !strstr(mica_last_error(), says))
        fail_msg("'%s' does not say '%s'", mica_last_error(), says);
    mc_gguf_close(&g);
    free(path);
}

static void test_malformed(void **state) {
    (void)state;
    expect("none", MICA_ENOENT, "none");
    expect("empty", MICA_OK, "");
    expect("f32", MICA_OK, "");
    expect("text", MICA_EFORMAT, "does not begin with GGUF");
    expect("big_endian", MICA_EUNSUPPORTED, "version");
    expect("behind_the_end", MICA_EFORMAT, "tensor x ends behind the file");
    expect("overflow", MICA_EFORMAT, "overflows");
    expect("no_whole_block", MICA_EFORMAT, "no whole blocks of 32");
    expect("twice", MICA_EFORMAT, "a is there twice");
    expect("many", MICA_EFORMAT, "a key of the metadata is ill-formed");
    expect("alignment", MICA_EFORMAT, "general.alignment 3");
    expect("array_of_arrays", MICA_EFORMAT, "array of the unknown type 9");
    expect("long_array", MICA_EFORMAT, "ends within a");
    expect("axes", MICA_EUNSUPPORTED, "9 axes");
}

/* Where the type of a tensor of two axes is in a file; its offset is behind it. */
static size_t type_at(const char *bytes, const char *name) {
    char entry[40] = "";
    size_t at = 0, len = strlen(name);
    assert_true(len < 32);
    memcpy(entry, &(uint64_t){len}, 8);
    memcpy(entry + 8, name, len);
    while (memcmp(bytes + at, entry, 8 + len) != 0)
        at++;
    return at + 8 + len + 4 + 2 * 8; /* the number of axes, two of them */
}

/* Blocks that mica cannot read are refused by their name, with another file to take. */
static void test_refused_types(void **state) {
    (void)state;
    mc_gguf *g = open_types(), *refused;
    char *path = path_of("types.gguf");
    size_t size, n = 0;
    char *bytes = test_read_file(path, &size);
    size_t at = type_at(bytes, mc_gguf_at(g, 1)->name);
    const mc_ggml_type *type;
    for (size_t i = 0; (type = mc_ggml_type_at(i)); i++) {
        if (type->decode) continue;
        memcpy(bytes + at, &type->id, sizeof type->id);
        char *says = test_format("has blocks of %s, ", type->name);
        assert_int_equal(mc_gguf_parse(bytes, size, "x", &refused), MICA_EUNSUPPORTED);
        if (!strstr(mica_last_error(), says) || !strstr(mica_last_error(), "IQ4_XS") ||
            !strstr(mica_last_error(), " in its name"))
            fail_msg("%s: %s", type->name, mica_last_error());
        if (strcmp(type->name, "NVFP4") == 0)
            assert_true(strstr(mica_last_error(), " in its name, or the folder"));
        free(says);
        n++;
    }
    assert_int_equal(n, 8);
    memcpy(bytes + at, &(uint32_t){99}, 4);
    assert_int_equal(mc_gguf_parse(bytes, size, "x", &refused), MICA_EUNSUPPORTED);
    if (!strstr(mica_last_error(), "ggml's type 99")) fail_msg("%s", mica_last_error());
    mc_gguf_close(&g);
    free(bytes);
    free(path);
}

/* The second tensor is put where the first one is. */
static void test_overlap(void **state) {
    (void)state;
    mc_gguf *g = open_types();
    const char *name = mc_gguf_at(g, 1)->name;
    char *path = path_of("types.gguf");
    size_t size;
    char *bytes = test_read_file(path, &size);
    size_t at = type_at(bytes, name) + 4;
    uint64_t offset = 0;
    memcpy(bytes + at, &offset, sizeof offset);
    char *says = test_format("tensors %s and %s overlap", mc_gguf_at(g, 0)->name, name);
    char *other = test_format("tensors %s and %s overlap", name, mc_gguf_at(g, 0)->name);
    mc_gguf *damaged;
    assert_int_equal(mc_gguf_parse(bytes, size, "x", &damaged), MICA_EFORMAT);
    if (!strstr(mica_last_error(), says) && !strstr(mica_last_error(), other))
        fail_msg("%s", mica_last_error());
    mc_gguf_close(&g);
    free(says);
    free(other);
    free(bytes);
    free(path);
}

static bool open_once(void *path) {
    mc_gguf *g;
    mica_status status = mc_gguf_open(path, &g);
    if (status != MICA_OK) assert_int_equal(status, MICA_ENOMEM);
    mc_gguf_close(&g);
    return status == MICA_OK;
}

static void test_out_of_memory(void **state) {
    (void)state;
    char *path = path_of("types.gguf");
    test_fail_each_allocation(open_once, path);
    free(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_metadata),  cmocka_unit_test(test_arrays),
        cmocka_unit_test(test_blocks),    cmocka_unit_test(test_split),
        cmocka_unit_test(test_join),      cmocka_unit_test(test_cut_anywhere),
        cmocka_unit_test(test_malformed), cmocka_unit_test(test_refused_types),
        cmocka_unit_test(test_overlap),   cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
