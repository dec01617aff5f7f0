/* Models as other programs than MLX publish them: what their matrices stand for, and broken ones.
 * Their logits are compared with goldens where those of all models are (model/lm.c). */
#include "model/fixture.h"

#include "io/published_make.h"
#include "io/save_weights.h"
#include "model/family.h"

#include <mica/convert.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static mica_device *device;

/* Runs check for all cases of published/. */
static void each_published(void (*check)(const model_fixture *f)) {
    char *dir = test_format("%s/published", test_fixtures_dir());
    test_list list = test_list_folders(dir);
    assert_true(list.count > 0);
    for (size_t i = 0; i < list.count; i++) {
        char *path = test_format("%s/%s", dir, list.names[i]);
        char *json = test_format("%s/golden.json", path),
             *values = test_format("%s/golden.safetensors", path);
        model_fixture f = {.name = list.names[i], .path = path, .device = device};
        f.golden = test_load_json(json);
        assert_int_equal(mc_weights_open(values, NULL, &f.tensors), MICA_OK);
        if (mc_lm_open(path, device, NULL, &f.lm) != MICA_OK)
            fail_msg("%s: %s", f.name, mica_last_error());
        check(&f);
        mc_lm_close(&f.lm);
        assert_int_equal(mica_device_active_bytes(device), 0);
        mc_weights_close(&f.tensors);
        mc_json_close(&f.golden);
        free(json);
        free(values);
        free(path);
    }
    test_list_free(&list);
    free(dir);
}

static mc_str text_of(const model_fixture *f, const char *key) {
    mc_str text;
    assert_true(mc_json_get_str(mc_json_find(mc_json_root(f->golden), key), &text));
    return text;
}

static bool is_exact(const model_fixture *f) {
    bool exact;
    assert_true(mc_json_get_bool(mc_json_find(mc_json_root(f->golden), "exact"), &exact));
    return exact;
}

/* ---- values ---- */

/* Elements [rows, columns] of a matrix; of experts, of one of them: to be freed with free(). */
static float *elements(const mc_linear *linear, int64_t expert, int64_t rows) {
    mica_scope *s;
    size_t bytes = (size_t)(rows * linear->in) * sizeof(float);
    float *x = malloc(bytes);
    assert_non_null(x);
    assert_int_equal(mica_scope_open(device, &s), MICA_OK);
    mc_linear one = *linear;
    if (linear->experts) {
        mica_array at = mica_i32(s, (int32_t)expert),
                   *parts[] = {&one.weight, &one.scales, &one.biases, &one.gains};
        if (mica_valid(linear->places)) at = mica_take(s, linear->places, at, 0);
        for (size_t i = 0; i < 4; i++)
            if (mica_valid(*parts[i])) *parts[i] = mica_take(s, *parts[i], at, 0);
    }
    mica_array ids = mica_arange(s, 0.0, (double)rows, 1.0, MICA_I32);
    if (mica_read(mc_linear_rows(s, &one, ids), x, bytes) != MICA_OK)
        fail_msg("%s", mica_last_error());
    mica_scope_close(&s);
    return x;
}

/* The matrix that a golden has the first rows of, and the number of its expert. */
static const mc_linear *find_matrix(const model_fixture *f, int64_t *expert) {
    char name[128];
    mc_str module = mc_decoder_name(text_of(f, "values_of"));
    snprintf(name, sizeof name, "%.*s", MC_STR_ARG(module));
    char *number = strstr(name, "experts.");
    *expert = number ? strtol(number + 8, NULL, 10) : 0;
    if (number) snprintf(name, sizeof name, "layers.0.mlp.switch_mlp.down_proj");
    mc_lm_slot *slot = mc_lm_find(f->lm, mc_str_of(name));
    if (!slot) fail_msg("%s: no %s", f->name, name);
    return &slot->linear;
}

/* Half a step of 8 bits in groups, of the largest of which a code of 127 is at least; bf16 rounds
 * the step up. */
static double half_step(const float *row, int64_t i, int64_t group) {
    double most = 0;
    for (int64_t k = i / group * group; k < (i / group + 1) * group; k++)
        most = fmax(most, fabs((double)row[k]));
    return most / 127 * (1 + 0x1p-7) / 2;
}

static void check_values(const model_fixture *f) {
    const int64_t *shape;
    int64_t expert;
    const float *want = fixture_floats(f, &shape, "values");
    const mc_linear *linear = find_matrix(f, &expert);
    assert_non_null(want);
    assert_int_equal(shape[1], linear->in);
    float *got = elements(linear, expert, shape[0]);
    for (int64_t i = 0; i < shape[0] * shape[1]; i++) {
        const float *row = want + i / shape[1] * shape[1];
        double bound = 0, error = fabs((double)got[i] - (double)want[i]);
        /* The factor of a matrix is a product of its own, rounded once. */
        if (mica_valid(linear->gains)) bound = fabs((double)want[i]) * 0x1p-22;
        if (!is_exact(f)) bound = half_step(row, i % shape[1], linear->quant.group_size);
        if (!(error <= bound))
            fail_msg("%s: element %lld is %.9g, want %.9g", f->name, (long long)i, (double)got[i],
                     (double)want[i]);
    }
    free(got);
}

static void test_values(void **state) {
    (void)state;
    each_published(check_values);
}

/* What is made of a matrix, and what that costs, is told. */
static void check_notes(const model_fixture *f) {
    const char *notes = f->lm->notes.len ? f->lm->notes.data : "";
    if (!strstr(notes, "published as ") || !strstr(notes, "MB in the files") ||
        !strstr(notes, is_exact(f) ? "exactly" : "within half a step"))
        fail_msg("%s: %s", f->name, notes);
}

static void test_notes(void **state) {
    (void)state;
    each_published(check_notes);
}

/* ---- headers alone, and other forms ---- */

/* What headers say of shapes is what the data has. Scales that happen to be powers of two, and
 * columns that happen to be in order, which headers do not show, need no factors, and no order. */
static void check_headers(const model_fixture *f) {
    mc_weights *w;
    const mc_weights_options headers = {.headers = true};
    assert_int_equal(mc_weights_open(f->path, &headers, &w), MICA_OK);
    for (size_t i = 0; i < mc_weights_count(w); i++) {
        const mc_weight_tensor *a = mc_weights_at(w, i);
        const mc_weight_tensor *b = mc_weights_find(f->lm->weights, a->name);
        if (!b && (strstr(a->name, ".gains") || strstr(a->name, ".order"))) continue;
        if (!b) fail_msg("%s: only headers have %s", f->name, a->name);
        assert_int_equal(a->ndim, b->ndim);
        if (is_exact(f)) assert_int_equal(a->bytes, b->bytes);
        assert_null(a->data);
        assert_null(a->made);
    }
    mc_weights_close(&w);
}

static void test_headers(void **state) {
    (void)state;
    each_published(check_headers);
}

static float *logits_of(const model_fixture *f, const char *path, size_t *n) {
    mc_lm *lm;
    const int32_t *ids = fixture_ints(f, n, "prompt2.ids");
    if (mc_lm_open(path, device, NULL, &lm) != MICA_OK)
        fail_msg("%s: %s", f->name, mica_last_error());
    float *logits = fixture_logits(device, lm, ids, *n);
    *n *= (size_t)lm->spec.vocab;
    mc_lm_close(&lm);
    return logits;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* How the logits of a position differ from the golden's, the root of the mean square: of the
 * positions the one in the middle, for at some a router may pick another expert. */
static double differ(const model_fixture *f, const char *path) {
    size_t n, rows;
    (void)fixture_ints(f, &rows, "prompt2.ids");
    const float *want = fixture_floats(f, NULL, "prompt2.logits");
    float *got = logits_of(f, path, &n);
    double *each = calloc(rows, sizeof *each);
    assert_non_null(each);
    for (size_t i = 0; i < n; i++)
        each[i / (n / rows)] += pow((double)got[i] - (double)want[i], 2);
    qsort(each, rows, sizeof *each, compare);
    double middle = sqrt(each[rows / 2] / (double)(n / rows));
    free(each);
    free(got);
    return middle;
}

/* Files of MLX's layout, and of floats, are made of them: bf16, or 8 bits where the run's form has
 * factors of rows, change these logits by a few hundredths of their own deviation, 3.5. */
static void check_converted(const model_fixture *f) {
    static const mica_convert_options ways[] = {
        {.shard_bytes = 0},
        {.dequantise = true},
        {.quantise = true, .quant = {MICA_QUANT_AFFINE, 8, 32}}};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        char *dir = test_temp_dir(), *to = test_format("%s/to", dir);
        if (mica_convert(f->path, to, &ways[i], NULL) != MICA_OK)
            fail_msg("%s: %s", f->name, mica_last_error());
        double rms = differ(f, to);
        if (!(rms < 0.1)) fail_msg("%s: way %zu: differs by %g", f->name, i, rms);
        free(to);
        test_temp_dir_remove(dir);
    }
}

static void test_converted(void **state) {
    (void)state;
    each_published(check_converted);
}

/* ---- without memory ---- */

static bool open_it(void *path) {
    mc_lm *lm;
    mica_status status = mc_lm_open(path, device, NULL, &lm);
    assert_true(status == MICA_OK || status == MICA_ENOMEM);
    mc_lm_close(&lm);
    return status == MICA_OK;
}

static void check_memory(const model_fixture *f) {
    if (f->lm->spec.n_layers == 1 && !strstr(f->name, "moe"))
        assert_true(test_fail_each_allocation(open_it, f->path) > 10);
}

static void test_no_memory(void **state) {
    (void)state;
    each_published(check_memory);
}

/* ---- broken ones ---- */

static void expect_error(const char *dir, const char *what, mica_status status, const char *words) {
    mc_lm *lm;
    mica_status got = mc_lm_open(dir, device, NULL, &lm);
    assert_null(lm);
    if (got != status || !strstr(mica_last_error(), words))
        fail_msg("%s: %s: %s; want %s with \"%s\"", what, mica_status_name(got), mica_last_error(),
                 mica_status_name(status), words);
    assert_int_equal(mica_device_active_bytes(device), 0);
}

static const struct {
    const char *model, *file, *from, *to;
    mica_status status;
    const char *words;
} broken[] = {
#define T "model.safetensors"
#define C "config.json"
    {"fp8_rows", T, "up_proj.weight_scale", "up_proj.weight_scalf", MICA_ENOENT,
     "up_proj.weight_scale"},
    {"int4_groups", T, "up_proj.weight_scale", "up_proj.weight_scalf", MICA_ENOENT,
     "its scales, *_scale, are not beside it"},
    {"gptq", T, "up_proj.scales", "up_proj.scalex", MICA_ENOENT, "its scales, *.scales, are not"},
    {"gptq", T, "up_proj.qzeros", "up_proj.qzerox", MICA_ENOENT, "has no qzeros beside it"},
    {"awq", T, "up_proj.qzeros", "up_proj.qzerox", MICA_ENOENT, "has no qzeros beside it"},
    {"gptq", C, "\"group_size\": 32", "\"group_size\": 7", MICA_ESHAPE, "no group_size of config"},
    {"awq", C, "\"group_size\": 32", "\"group_size\": 1000000007", MICA_ESHAPE, "no group_size"},
    {"int4_groups", C, "\"group_size\": 32", "\"group_size\": -32", MICA_ESHAPE, "no group_size"},
    {"fp8_block", T, "\"shape\":[2,1]", "\"shape\":[1,2]", MICA_ESHAPE, "fits neither blocks"},
    {"fp8_block", C, "128,\n   128", "0,\n   128", MICA_OK, ""},
    {"fp8_block", C, "128,\n   128", "64,\n   128", MICA_ESHAPE, "fits neither blocks of 64 x 128"},
    {"fp8_rows", T, "\"shape\":[96,1]", "\"shape\":[1,96]", MICA_ESHAPE, "fits neither"},
    {"fp8_rows", T, "up_proj.weight_scale\":{\"dtype\":\"BF16\"",
     "up_proj.weight_scale\":{\"dtype\":\"I16\"", MICA_EDTYPE, "is I16, want F32"},
    {"gptq", T, "up_proj.scales\":{\"dtype\":\"F16\"", "up_proj.scales\":{\"dtype\":\"I16\"",
     MICA_ESHAPE, "scales floats"},
    {"gptq_order", T, "up_proj.g_idx\":{\"dtype\":\"I32\"", "up_proj.g_idx\":{\"dtype\":\"F32\"",
     MICA_EDTYPE, "is F32, want I32"},
    {"nvfp4_modelopt", T, "up_proj.weight_scale_2\":{\"dtype\":\"F32\"",
     "up_proj.weight_scale_2\":{\"dtype\":\"I32\"", MICA_EDTYPE, "is I32, want F32"},
    {"nvfp4_moe", T, "experts.3.up_proj.weight_global_scale",
     "experts.3.up_proj.weight_global_scalf", MICA_EUNSUPPORTED,
     "experts.3.up_proj is quantised unlike the first expert"},
    {"int4_rows", T, "up_proj.weight_zero_point\":{\"dtype\":\"I32\",\"shape\":[12,1]",
     "up_proj.weight_zero_point\":{\"dtype\":\"I32\",\"shape\":[1,12]", MICA_ESHAPE, "want [12,1]"},
    {"awq", C, "\"version\": \"gemm\"", "\"version\": \"gemv\"", MICA_EUNSUPPORTED,
     "\"gemv\" of awq: mica does not read this layout"},
    {"gptq", C, "\"gptq\"", "\"bitsandbytes\"", MICA_EUNSUPPORTED,
     "\"bitsandbytes\": mica does not read weights quantised so: take the model"},
#undef T
#undef C
};

static void test_broken(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        char *path = test_format("%s/published/%s", test_cases_dir(), broken[i].model);
        char *dir = fixture_copy_folder(path, broken[i].file, broken[i].from, broken[i].to);
        char *what = test_format("%s with %s", broken[i].model, broken[i].to);
        if (broken[i].status != MICA_OK) expect_error(dir, what, broken[i].status, broken[i].words);
        free(what);
        free(path);
        test_temp_dir_remove(dir);
    }
}

/* A copy of a case in which a byte of a tensor is another. */
static char *spoil(const char *model, const char *tensor, size_t at, uint8_t byte) {
    char *path = test_format("%s/published/%s", test_cases_dir(), model);
    char *dir = fixture_copy_folder(path, NULL, NULL, NULL);
    char *file = test_format("%s/model.safetensors", dir);
    size_t size;
    mc_weights *w;
    char *bytes = test_read_file(file, &size);
    assert_int_equal(mc_weights_parse(bytes, size, file, &w), MICA_OK);
    const mc_weight_tensor *t = mc_weights_find(w, tensor);
    assert_non_null(t);
    assert_true(at < t->bytes);
    bytes[(const char *)t->data - bytes + (ptrdiff_t)at] = (char)byte;
    test_write_file(file, bytes, size);
    mc_weights_close(&w);
    free(bytes);
    free(file);
    free(path);
    return dir;
}

static const struct {
    const char *model, *tensor;
    size_t at;
    uint8_t byte;
    const char *words;
} spoilt[] = {
    {"gptq_order", "model.layers.0.mlp.down_proj.g_idx", 4, 200, "column 1 is of group 200, of 3"},
    {"gptq", "model.layers.0.mlp.up_proj.g_idx", 7, 0x80, "column 1 is of group -"},
    {"int4_order", "model.layers.0.mlp.down_proj.weight_g_idx", 0, 3,
     "column 0 is of group 3, of 3"},
    {"int4_groups", "model.layers.0.mlp.up_proj.weight_shape", 8, 5, "have 25 bits"},
    {"int4_groups", "model.layers.0.mlp.up_proj.weight_shape", 15, 0xff, "columns of 4 words"},
    {"fp8_block", "model.layers.0.mlp.down_proj.weight", 3, 0x7f, "row 0, column 3 is no number"},
    {"fp8_block", "model.layers.0.mlp.down_proj.weight_scale_inv", 3, 0x7f, "is no number"},
    {"int4_groups", "model.layers.0.mlp.up_proj.weight_scale", 1, 0x7f, "row 0 is scaled by is no"},
    {"fp8_rows", "model.layers.0.mlp.gate_proj.weight_scale", 1, 0x7f, "row 0 is scaled by is no"},
    {"nvfp4_modelopt", "model.layers.0.mlp.gate_proj.weight_scale_2", 3, 0x7f, "is scaled by is"},
    {"nvfp4_moe", "model.layers.0.self_attn.o_proj.weight_global_scale", 3, 0x7f, "is scaled by"},
};

static void test_spoilt(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof spoilt / sizeof *spoilt; i++) {
        char *dir = spoil(spoilt[i].model, spoilt[i].tensor, spoilt[i].at, spoilt[i].byte);
        mc_lm *lm;
        mica_status status = mc_lm_open(dir, device, NULL, &lm);
        assert_null(lm);
        assert_true(status == MICA_EFORMAT || status == MICA_ESHAPE);
        if (!strstr(mica_last_error(), spoilt[i].words))
            fail_msg("%s: %s", spoilt[i].words, mica_last_error());
        test_temp_dir_remove(dir);
    }
}

/* ---- blocks of experts ---- */

/* Opens [4,64,32] of fp8 in blocks of [48,32], whose scales are `scales`, and makes it. Returns
 * whether rows have factors. */
static bool open_blocks(const float scales[8]) {
    static const char config[] = "{\"quantization_config\": {\"quant_method\": \"fp8\", "
                                 "\"weight_block_size\": [48, 32]}}";
    static uint8_t codes[4 * 64 * 32], made[4 * 64 * 32];
    char *dir = test_temp_dir(), *file = test_format("%s/model.safetensors", dir);
    const mc_weight_tensor tensors[] = {
        {.name = "x", .kind = "F8_E4M3", .ndim = 3, .shape = {4, 64, 32}, .data = codes},
        {.name = "x_scale_inv", .kind = "F32", .ndim = 3, .shape = {4, 2, 1}, .data = scales}};
    mc_weights *w;
    memset(codes, 0x38, sizeof codes);
    test_write_below(dir, "config.json", config);
    assert_int_equal(save_weights(file, tensors, 2, NULL, 0), MICA_OK);
    if (mc_weights_open(dir, NULL, &w) != MICA_OK) fail_msg("%s", mica_last_error());
    bool factors = mc_weights_find(w, "x.gains") != NULL;
    for (size_t i = 0; i < mc_weights_count(w); i++) {
        const mc_weight_tensor *t = mc_weights_at(w, i);
        assert_true(t->bytes <= sizeof made);
        if (t->made && mc_made_fill(t, made) != MICA_OK) fail_msg("%s", mica_last_error());
    }
    mc_weights_close(&w);
    free(file);
    test_temp_dir_remove(dir);
    return factors;
}

/* Each matrix of a stack has blocks of its own: one scale that is no power of two is found. */
static void test_blocks(void **state) {
    (void)state;
    float scales[8] = {1, 2, 4, 1, 2, 4, 1, 0.5f};
    assert_false(open_blocks(scales));
    for (size_t i = 0; i < 8; i++) {
        float old = scales[i];
        scales[i] = 3;
        assert_true(open_blocks(scales));
        scales[i] = old;
    }
}

/* ---- codes in words ---- */

enum { WORD_ROWS = 12, WORD_COLUMNS = 64, WORD_GROUPS = 2 };

/* Numbers below 1 << bits, the same ones each time. */
static uint32_t number_at(size_t i, int bits) {
    return (uint32_t)(i * 2654435761u >> 7) & ((1u << bits) - 1);
}

/* Numbers [rows, columns] along rows, a row's words together; whole: none is in two words. */
static int64_t pack_words(int64_t rows, int64_t columns, int bits, bool whole, uint32_t *words) {
    int64_t each = 32 / bits, n = whole ? (columns + each - 1) / each : (columns * bits + 31) / 32;
    memset(words, 0, (size_t)(rows * n) * sizeof *words);
    for (int64_t i = 0; i < rows * columns; i++)
        for (int b = 0; b < bits; b++) {
            int64_t k = i % columns, at = whole ? k / each * 32 + k % each * bits : k * bits;
            uint32_t bit = number_at((size_t)i, bits) >> b & 1;
            words[i / columns * n + (at + b) / 32] |= bit << (at + b) % 32;
        }
    return n;
}

/* Saves a matrix of such codes, with zero points, in a new folder. */
static char *save_packed(int bits, bool whole) {
    static uint32_t codes[WORD_ROWS * WORD_COLUMNS], turned[WORD_ROWS * WORD_GROUPS],
        zeros[WORD_ROWS * WORD_GROUPS];
    static const int64_t shape[] = {WORD_ROWS, WORD_COLUMNS};
    float scales[WORD_ROWS * WORD_GROUPS];
    int64_t words = pack_words(WORD_ROWS, WORD_COLUMNS, bits, whole, codes);
    int64_t high = pack_words(WORD_GROUPS, WORD_ROWS, bits, whole, turned);
    for (int64_t i = 0; i < high * WORD_GROUPS; i++)
        zeros[i] = turned[i % WORD_GROUPS * high + i / WORD_GROUPS];
    for (int i = 0; i < WORD_ROWS * WORD_GROUPS; i++)
        scales[i] = 1.0f + (float)i;
    const mc_weight_tensor tensors[] = {
        {.name = "x.weight_packed",
         .kind = "I32",
         .ndim = 2,
         .shape = {WORD_ROWS, words},
         .data = codes},
        {.name = "x.weight_zero_point",
         .kind = "I32",
         .ndim = 2,
         .shape = {high, WORD_GROUPS},
         .data = zeros},
        {.name = "x.weight_scale",
         .kind = "F32",
         .ndim = 2,
         .shape = {WORD_ROWS, WORD_GROUPS},
         .data = scales},
        {.name = "x.weight_shape", .kind = "I64", .ndim = 1, .shape = {2}, .data = shape}};
    char *dir = test_temp_dir(), *file = test_format("%s/model.safetensors", dir);
    char *config =
        test_format("{\"quantization_config\": {\"quant_method\": \"compressed-tensors\","
                    "\"num_bits\": %d, \"group_size\": 32}}",
                    bits);
    test_write_below(dir, "config.json", config);
    assert_int_equal(save_weights(file, tensors, 4, NULL, 0), MICA_OK);
    free(config);
    free(file);
    return dir;
}

/* Makes a tensor, or has it as it is. */
static void make_tensor(const mc_weights *w, const char *name, mc_weight_tensor *t, void *out) {
    const mc_weight_tensor *found = mc_weights_find(w, name);
    assert_non_null(found);
    *t = *found;
    assert_true(t->bytes <= WORD_ROWS * WORD_COLUMNS);
    if (t->data) memcpy(out, t->data, t->bytes);
    if (t->made && mc_made_fill(t, out) != MICA_OK) fail_msg("%s", mica_last_error());
}

static void check_packed(int bits, bool whole, bool headers) {
    char *dir = save_packed(bits, whole);
    uint32_t want[WORD_ROWS * WORD_COLUMNS / 4], got[WORD_ROWS * WORD_COLUMNS / 4];
    float *biases = (float *)got;
    const mc_weights_options options = {.headers = headers};
    mc_weight_tensor t;
    mc_weights *w;
    if (mc_weights_open(dir, &options, &w) != MICA_OK) fail_msg("%s", mica_last_error());
    make_tensor(w, "x.weight", &t, got);
    int64_t words = pack_words(WORD_ROWS, WORD_COLUMNS, bits, false, want);
    assert_int_equal(t.quant.bits, bits);
    assert_int_equal(t.shape[1], words);
    if (!headers) assert_memory_equal(got, want, t.bytes);
    make_tensor(w, "x.biases", &t, got);
    for (int64_t i = 0; !headers && i < WORD_ROWS * WORD_GROUPS; i++) {
        size_t turned = (size_t)(i % WORD_GROUPS * WORD_ROWS + i / WORD_GROUPS);
        float zero = (float)number_at(turned, bits);
        assert_true(biases[i] == -(1.0f + (float)i) * zero);
    }
    mc_weights_close(&w);
    test_temp_dir_remove(dir);
}

/* Codes of 3, 5 and 6 bits follow each other through words, or leave a word's last bits free. */
static void test_words(void **state) {
    (void)state;
    for (int bits = 2; bits <= 8; bits++)
        for (int way = 0; bits != 7 && way < 4; way++)
            check_packed(bits, way % 2, way / 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),    cmocka_unit_test(test_notes),
        cmocka_unit_test(test_headers),   cmocka_unit_test(test_converted),
        cmocka_unit_test(test_broken),    cmocka_unit_test(test_spoilt),
        cmocka_unit_test(test_no_memory), cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_words),
    };
    if (test_device_open(&(mica_device_options){.threads = 2}, &device) != MICA_OK) return 1;
    int failed = cmocka_run_group_tests_name("model/published", tests, NULL, NULL);
    mica_device_close(&device);
    return failed;
}
