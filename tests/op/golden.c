/* Runs the goldens of ops: see golden.h. */
#include "op/golden_complex.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"

/* ---- tensor files ---- */

typedef struct tensors {
    char *bytes;
    size_t size;
    mc_json_doc *doc; /* of the file's header */
    const char *data;
    size_t data_size;
} tensors;

static void tensors_open(const char *path, tensors *t) {
    t->bytes = test_read_file(path, &t->size);
    uint64_t len;
    assert_true(t->size >= sizeof len);
    memcpy(&len, t->bytes, sizeof len);
    assert_true(len <= t->size - sizeof len);
    assert_int_equal(mc_json_parse(t->bytes + sizeof len, (size_t)len, path, &t->doc), MICA_OK);
    t->data = t->bytes + sizeof len + len;
    t->data_size = t->size - sizeof len - (size_t)len;
}

static void tensors_close(tensors *t) {
    mc_json_close(&t->doc);
    free(t->bytes);
}

/* MICA_NONE if the file has no tensor of that name. */
static mica_array tensor_load(const tensors *t, mica_scope *s, const char *name) {
    mc_json entry = mc_json_find(mc_json_root(t->doc), name);
    mc_str dtype_name;
    if (!mc_json_get_str(mc_json_find(entry, "dtype"), &dtype_name)) return MICA_NONE;
    char text[16];
    snprintf(text, sizeof text, "%.*s", MC_STR_ARG(dtype_name));
    mica_dtype dtype;
    if (!golden_dtype_of(text, &dtype)) fail_msg("%s: dtype %s", name, text);
    int64_t shape[MICA_MAX_NDIM], range[2] = {0, 0};
    int ndim = 0, n_range = 0;
    for (mc_json_iter it = mc_json_begin(mc_json_find(entry, "shape")); mc_json_next(&it);) {
        assert_true(ndim < MICA_MAX_NDIM);
        assert_true(mc_json_get_int(it.value, &shape[ndim++]));
    }
    for (mc_json_iter it = mc_json_begin(mc_json_find(entry, "data_offsets")); mc_json_next(&it);) {
        assert_true(n_range < 2);
        assert_true(mc_json_get_int(it.value, &range[n_range++]));
    }
    assert_true(range[0] >= 0 && range[1] >= range[0] && (size_t)range[1] <= t->data_size);
    mica_array x = mica_from_data(s, t->data + range[0], dtype, shape, ndim);
    if (!mica_valid(x)) fail_msg("%s: %s", name, mica_last_error());
    assert_int_equal(mica_array_size(x) * (int64_t)mica_dtype_bytes(dtype), range[1] - range[0]);
    return x;
}

/* ---- reading a record's arguments ---- */

bool golden_dtype_of(const char *name, mica_dtype *out) {
    static const struct {
        const char *name;
        mica_dtype dtype;
    } names[] = {{"bool", MICA_BOOL}, {"u8", MICA_U8},   {"u16", MICA_U16},   {"u32", MICA_U32},
                 {"u64", MICA_U64},   {"i8", MICA_I8},   {"i16", MICA_I16},   {"i32", MICA_I32},
                 {"i64", MICA_I64},   {"f16", MICA_F16}, {"bf16", MICA_BF16}, {"f32", MICA_F32},
                 {"c64", MICA_C64},   {"f64", MICA_F64}};
    char lower[16] = {0};
    for (size_t i = 0; i + 1 < sizeof lower && name[i]; i++)
        lower[i] = name[i] >= 'A' && name[i] <= 'Z' ? (char)(name[i] + 32) : name[i];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(lower, names[i].name)) continue;
        *out = names[i].dtype;
        return true;
    }
    return false;
}

mica_array golden_in(const golden *g, const char *name) {
    for (int i = 0; i < g->n_in; i++)
        if (!strcmp(g->in_name[i], name)) return g->in[i];
    return MICA_NONE;
}

bool golden_differentiate(golden *g, mica_array y, double relative) {
    mica_array xs[GOLDEN_MAX], dy = golden_in(g, "dy");
    size_t n = 0;
    for (int i = 0; i < g->n_in; i++)
        if (mica_dtype_is_float(mica_array_dtype(g->in[i])) && g->in[i].node != dy.node)
            xs[n++] = g->in[i];
    g->out[0] = y;
    if (mica_grad(g->s, y, dy, xs, n, g->out + 1) != MICA_OK)
        print_error("%s: %s\n", g->name, mica_last_error());
    g->by_row = true;
    g->relative = relative;
    g->absolute = 2e-5; /* rows of which all is cancelled */
    return true;
}

bool golden_is_also(golden *g, int i, mica_array other) {
    int64_t n = mica_array_size(other);
    if (!mica_valid(other) || mica_array_size(g->out[i]) != n) {
        print_error("%s: output %d: %s\n", g->name, i, mica_last_error());
        return false;
    }
    const size_t bytes = (size_t)n * sizeof(float);
    float *a = malloc(2 * bytes + 1), *b = a + n;
    assert_non_null(a);
    bool good = mica_read(other, a, bytes) == MICA_OK && mica_read(g->out[i], b, bytes) == MICA_OK;
    if (!good) print_error("%s: %s\n", g->name, mica_last_error());
    for (int64_t k = 0; k < n && good; k++) {
        good = a[k] - b[k] <= 1e-5f && b[k] - a[k] <= 1e-5f;
        if (!good)
            print_error("%s: output %d, element %lld: %g by its own name, else %g\n", g->name, i,
                        (long long)k, (double)a[k], (double)b[k]);
    }
    free(a);
    return good;
}

bool golden_has(const golden *g, const char *key) {
    return mc_json_exists(mc_json_find(g->args, key));
}

int64_t golden_int(const golden *g, const char *key, int64_t otherwise) {
    mc_json_get_int(mc_json_find(g->args, key), &otherwise);
    return otherwise;
}

double golden_float(const golden *g, const char *key, double otherwise) {
    mc_json_get_float(mc_json_find(g->args, key), &otherwise);
    return otherwise;
}

bool golden_bool(const golden *g, const char *key, bool otherwise) {
    mc_json_get_bool(mc_json_find(g->args, key), &otherwise);
    return otherwise;
}

int golden_ints(const golden *g, const char *key, int64_t *out, int max) {
    mc_json v = mc_json_find(g->args, key);
    if (!mc_json_exists(v)) return -1;
    if (mc_json_get_type(v) != MC_JSON_ARRAY) {
        assert_true(max > 0 && mc_json_get_int(v, out));
        return 1;
    }
    int n = 0;
    for (mc_json_iter it = mc_json_begin(v); mc_json_next(&it); n++) {
        assert_true(n < max);
        assert_true(mc_json_get_int(it.value, &out[n]));
    }
    return n;
}

static bool text_of(mc_json v, char *out, size_t size) {
    mc_str text;
    if (!mc_json_get_str(v, &text)) return false;
    snprintf(out, size, "%.*s", MC_STR_ARG(text));
    return true;
}

bool golden_text(const golden *g, const char *key, char out[64]) {
    return text_of(mc_json_find(g->args, key), out, 64);
}

mica_dtype golden_dtype(const golden *g, const char *key, mica_dtype otherwise) {
    char text[64];
    if (golden_text(g, key, text) && !golden_dtype_of(text, &otherwise))
        fail_msg("%s: %s %s is not a dtype", g->name, key, text);
    return otherwise;
}

mica_quant golden_quant_of(const golden *g) {
    static const char *const names[] = {"affine", "mxfp4", "mxfp8", "nvfp4"};
    mica_quant quant = {MICA_QUANT_AFFINE, (int)golden_int(g, "bits", 0),
                        (int)golden_int(g, "group_size", 0)};
    char mode[64] = "affine";
    golden_text(g, "mode", mode);
    for (int i = 0; i < 4; i++)
        if (strcmp(mode, names[i]) == 0) quant.mode = (mica_quant_mode)i;
    return quant;
}

/* ---- comparing ---- */

static double float_at(const void *data, mica_dtype dtype, int64_t i) {
    switch (dtype) {
    case MICA_F16:
        return (double)mc_f16_to_f32(((const uint16_t *)data)[i]);
    case MICA_BF16:
        return (double)mc_bf16_to_f32(((const uint16_t *)data)[i]);
    default:
        return (double)((const float *)data)[i];
    }
}

/* The bits of a half as an integer that rises with the value: neighbours differ by 1. */
static int half_order(const void *data, int64_t i) {
    int bits = ((const uint16_t *)data)[i];
    return bits & 0x8000 ? -(bits & 0x7fff) : bits;
}

static double row_largest(const void *want, mica_dtype dtype, int64_t begin, int64_t n) {
    double largest = 0;
    for (int64_t i = begin; i < begin + n; i++) {
        double v = fabs(float_at(want, dtype, i));
        if (isfinite(v) && v > largest) largest = v;
    }
    return largest;
}

static bool same_floats(const golden *g, int which, mica_dtype dtype, const void *got,
                        const void *want, int64_t n, int64_t row) {
    double relative = dtype == MICA_F16 ? 2e-3 : dtype == MICA_BF16 ? 1.6e-2 : g->relative;
    if (dtype != MICA_F32 && g->half_factor > 0) relative *= g->half_factor;
    bool by_row = g->by_row || dtype != MICA_F32;
    double largest = 0;
    for (int64_t i = 0; i < n; i++) {
        if (by_row && i % row == 0) largest = row_largest(want, dtype, i, row);
        double x = float_at(got, dtype, i), y = float_at(want, dtype, i);
        if ((isnan(x) && isnan(y)) || x == y) continue;
        bool good;
        if (g->ulps > 0 && dtype != MICA_F32)
            good = abs(half_order(got, i) - half_order(want, i)) <= g->ulps;
        else
            good = fabs(x - y) <= relative * (by_row ? largest : fabs(y)) + g->absolute;
        if (good) continue;
        print_error("%s: output %d, element %lld: %.9g, golden %.9g\n", g->name, which,
                    (long long)i, x, y);
        return false;
    }
    return true;
}

static bool same(golden *g, int which) {
    mica_array x = golden_as_pairs(g->s, g->out[which]), want = g->want[which];
    if (!mica_valid(x)) {
        print_error("%s: %s\n", g->name, mica_last_error());
        return false;
    }
    mica_dtype dtype = mica_array_dtype(want);
    bool same_shape = mica_array_ndim(x) == mica_array_ndim(want);
    for (int k = 0; same_shape && k < mica_array_ndim(x); k++)
        same_shape = mica_array_dim(x, k) == mica_array_dim(want, k);
    if (!same_shape || mica_array_dtype(x) != dtype) {
        print_error("%s: output %d is %s of %d axes, %lld elements; golden %s of %d, %lld\n",
                    g->name, which, mica_dtype_name(mica_array_dtype(x)), mica_array_ndim(x),
                    (long long)mica_array_size(x), mica_dtype_name(dtype), mica_array_ndim(want),
                    (long long)mica_array_size(want));
        return false;
    }
    int64_t n = mica_array_size(x);
    size_t bytes = (size_t)n * mica_dtype_bytes(dtype);
    void *a = malloc(bytes + 1), *b = malloc(bytes + 1);
    assert_non_null(a);
    assert_non_null(b);
    bool good = false;
    if (mica_read(x, a, bytes) || mica_read(want, b, bytes)) {
        print_error("%s: %s\n", g->name, mica_last_error());
    } else if (mica_dtype_is_float(dtype)) {
        int64_t row = mica_array_ndim(want) ? mica_array_dim(want, -1) : 1;
        good = same_floats(g, which, dtype, a, b, n, row);
    } else {
        size_t i = 0, size = mica_dtype_bytes(dtype);
        while (i < (size_t)n && !memcmp((char *)a + i * size, (char *)b + i * size, size))
            i++;
        good = i == (size_t)n;
        if (!good) print_error("%s: output %d, element %zu differs\n", g->name, which, i);
    }
    free(a);
    free(b);
    return good;
}

/* ---- records of ops that are not there yet ---- */

typedef struct wanted {
    const char *group, *op, *issue;
    int records; /* records skipped for it */
} wanted;

static wanted wanted_list[] = {
#define WANTED(group, op, issue) {group, op, issue, 0},
#include "op/golden_wanted_list.h"
};

static bool is_or_any(const char *listed, const char *name) {
    return !strcmp(listed, "*") || !strcmp(listed, name);
}

void golden_lacks(const char *group, const char *op, const char *record, golden_count *count) {
    for (size_t i = 0; i < sizeof wanted_list / sizeof *wanted_list; i++) {
        wanted *w = &wanted_list[i];
        if (!is_or_any(w->group, group) || !is_or_any(w->op, op)) continue;
        w->records++;
        count->skipped++;
        return;
    }
    print_error("%s: %s: there is no %s, and golden_wanted_list.h does not name it\n", group,
                record, op);
    count->failed++;
}

/* ---- records ---- */

static const golden_row *find_row(const golden_group *group, const char *op) {
    for (size_t i = 0; group && i < group->n_rows; i++)
        if (!strcmp(group->rows[i].op, op)) return &group->rows[i];
    return NULL;
}

/* Whether the record uses a dtype that mica lacks; `missing` receives its name. */
static bool foreign_dtype(mc_json record, char missing[64]) {
    mica_dtype dtype;
    for (mc_json_iter it = mc_json_begin(mc_json_find(record, "out_dtypes")); mc_json_next(&it);)
        if (text_of(it.value, missing, 64) && !golden_dtype_of(missing, &dtype)) return true;
    return false;
}

/* The file says of complex inputs that they are stored as pairs. */
static mica_array as_stored(mica_scope *s, mc_json root, const char *path, mica_array x) {
    bool complex = mc_json_exists(mc_json_find(mc_json_find(root, "stored_as"), path));
    return complex ? golden_as_complex(s, x) : x;
}

static void load_record(golden *g, const tensors *t, mc_json root, mc_json record) {
    char path[128];
    for (mc_json_iter it = mc_json_begin(mc_json_find(record, "in")); mc_json_next(&it);) {
        assert_true(g->n_in < GOLDEN_MAX);
        char *name = g->in_name[g->n_in];
        assert_true(text_of(it.value, name, sizeof g->in_name[0]));
        snprintf(path, sizeof path, "%s/in/%s", g->name, name);
        g->in[g->n_in] = as_stored(g->s, root, path, tensor_load(t, g->s, path));
        if (!mica_valid(g->in[g->n_in++])) fail_msg("%s is missing", path);
    }
    int64_t n_out = 0;
    mc_json_get_int(mc_json_find(record, "n_out"), &n_out);
    assert_true(n_out > 0 && n_out <= GOLDEN_MAX);
    g->n_out = (int)n_out;
    for (int i = 0; i < g->n_out; i++) {
        snprintf(path, sizeof path, "%s/out/%d", g->name, i);
        g->want[i] = tensor_load(t, g->s, path);
        if (!mica_valid(g->want[i])) fail_msg("%s is missing", path);
    }
}

static void run_record(mica_device *device, const tensors *t, const golden_row *row, golden *g,
                       mc_json root, mc_json record, golden_count *count) {
    assert_int_equal(mica_scope_open(device, &g->s), MICA_OK);
    load_record(g, t, root, record);
    g->relative = row->relative > 0 ? row->relative : 1e-5;
    g->absolute = 1e-6;
    bool good = true;
    if (!row->run(g)) {
        print_message("  %s: skipped, no such arguments\n", g->name);
        count->skipped++;
    } else {
        for (int i = 0; i < g->n_out && good; i++)
            good = row->check ? row->check(g, i) : same(g, i);
        count->passed += good;
        count->failed += !good;
    }
    mica_scope_close(&g->s);
}

static void run_cases(mica_device *device, const char *name, const golden_group *group,
                      mc_json root, const tensors *t, golden_count *count) {
    for (mc_json_iter it = mc_json_begin(mc_json_find(root, "cases")); mc_json_next(&it);) {
        char record[64], op[64], note[128] = "", missing[64];
        assert_true(text_of(mc_json_find(it.value, "name"), record, sizeof record));
        assert_true(text_of(mc_json_find(it.value, "op"), op, sizeof op));
        text_of(mc_json_find(it.value, "note"), note, sizeof note);
        const golden_row *row = find_row(group, op);
        if (!row) {
            golden_lacks(name, op, record, count);
        } else if (foreign_dtype(it.value, missing)) {
            golden_lacks(name, missing, record, count);
        } else {
            golden g = {
                .name = record, .op = op, .note = note, .args = mc_json_find(it.value, "args")};
            run_record(device, t, row, &g, root, it.value, count);
        }
    }
}

/* ---- files ---- */

static const golden_group *const groups[] = {
#define GROUP(name) &golden_##name,
#include "op/golden_list.h"
};

static const golden_group *find_group(const char *name) {
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        if (!strcmp(groups[i]->name, name)) return groups[i];
    return NULL;
}

static void run_file(mica_device *device, const char *dir, const char *file, golden_count *all) {
    char *name = test_format("%.*s", (int)(strlen(file) - strlen(".json")), file);
    char *json_path = test_format("%s/%s", dir, file);
    char *data_path = test_format("%s/%s.safetensors", dir, name);
    const golden_group *group = find_group(name);

    mc_json_doc *doc = NULL;
    doc = test_load_json(json_path);
    golden_count count = {0};
    if (group && group->whole) {
        group->whole(device, mc_json_root(doc), &count);
    } else {
        tensors t = {0};
        tensors_open(data_path, &t);
        run_cases(device, name, group, mc_json_root(doc), &t, &count);
        tensors_close(&t);
    }
    print_message("%s: %d passed, %d skipped, %d failed\n", name, count.passed, count.skipped,
                  count.failed);
    all->passed += count.passed;
    all->skipped += count.skipped;
    all->failed += count.failed;
    mc_json_close(&doc);
    free(json_path);
    free(data_path);
    free(name);
}

static void every_record(void **state) {
    (void)state;
    char *dir = test_format("%s/ops", test_fixtures_dir());
    test_list files = test_list_files(dir, ".json");
    assert_true(files.count > 0);
    mica_device *device = NULL;
    if (test_device_open(NULL, &device) != MICA_OK) fail_msg("%s", mica_last_error());

    golden_count all = {0};
    for (size_t i = 0; i < files.count; i++)
        run_file(device, dir, files.names[i], &all);
    print_message("ops: %d passed, %d skipped, %d failed\n", all.passed, all.skipped, all.failed);
    assert_true(all.passed > 0);
    assert_int_equal(all.failed, 0);
    /* Graphs that MLX compiled keep their constants. */
    if (!test_device_is_other()) assert_int_equal(mica_device_active_bytes(device), 0);

    mica_device_close(&device);
    test_list_free(&files);
    free(dir);
}

static void print_wanted(void) {
    const char *issue = "";
    for (size_t i = 0; i < sizeof wanted_list / sizeof *wanted_list; i++) {
        const wanted *w = &wanted_list[i];
        if (w->records == 0) continue;
        if (strcmp(w->issue, issue)) print_message("\nskipped until there are %s:", w->issue);
        print_message(" %s %d", strcmp(w->op, "*") ? w->op : w->group, w->records);
        issue = w->issue;
    }
    print_message("\n");
}

/* A row of the list fails if its op exists by now. A record without a row fails, too. */
static void the_wanted(void **state) {
    (void)state;
    golden_count count = {0};
    for (size_t i = 0; i < sizeof wanted_list / sizeof *wanted_list; i++) {
        const wanted *w = &wanted_list[i];
        mica_dtype dtype;
        if (find_row(find_group(w->group), w->op) || golden_dtype_of(w->op, &dtype))
            fail_msg("golden_wanted_list.h: %s of %s is there", w->op, w->group);
    }
    print_wanted();
    golden_lacks("grad", "quantized_matmul_x", "quantized_matmul_x.0", &count);
    assert_int_equal(count.skipped, 1);
    assert_int_equal(count.failed, 0);
    golden_lacks("grad", "quantized_matmul_y", "quantized_matmul_y.0", &count);
    assert_int_equal(count.skipped, 1);
    assert_int_equal(count.failed, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_record),
        cmocka_unit_test(the_wanted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
