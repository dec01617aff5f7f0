#include "model/fixture.h"

#include "model/family.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char *fixture_path(const char *name) {
    return test_format("%s/models/%s", test_cases_dir(), name);
}

char *fixture_adapter_path(const char *name) {
    return test_format("%s/lora/%s", test_cases_dir(), name);
}

static bool find_tolerance(const model_fixture *f, const char *key, double *value) {
    mc_json tolerance = mc_json_find(mc_json_root(f->golden), "tolerance");
    return mc_json_get_float(mc_json_find(tolerance, key), value);
}

static void load_golden(const char *name, char *path, model_fixture *f) {
    *f = (model_fixture){.name = name, .path = path};
    char *json = test_format("%s/golden.json", f->path);
    f->golden = test_load_json(json);
    free(json);
}

static void open_lm(model_fixture *f, const char *path) {
    char *tensors = test_format("%s/golden.safetensors", f->path);
    if (mc_weights_open(tensors, NULL, &f->tensors) != MICA_OK) fail_msg("%s", mica_last_error());
    free(tensors);
    if (test_device_open(&(mica_device_options){.threads = 2}, &f->device) != MICA_OK)
        fail_msg("%s", mica_last_error());
    f->active_bytes = mica_device_active_bytes(f->device);
    if (mc_lm_open(path, f->device, NULL, &f->lm) != MICA_OK) fail_msg("%s", mica_last_error());
}

static void load_model(model_fixture *f) {
    if (!find_tolerance(f, "logits_max_abs_f32_compute", &f->tolerance))
        fail_msg("%s: golden.json has no tolerance.logits_max_abs_f32_compute", f->name);
    /* Goldens of families whose caches hold more than keys have one bound for all of it. */
    if (!find_tolerance(f, "k_max_abs", &f->key_tolerance) &&
        !find_tolerance(f, "cache_max_abs", &f->key_tolerance))
        fail_msg("%s: golden.json has neither tolerance.k_max_abs nor cache_max_abs", f->name);
    open_lm(f, f->path);
}

/* Opens the model of a golden that is not in the model's folder. */
static void load_base(model_fixture *f) {
    mc_str base;
    mc_json golden = mc_json_root(f->golden);
    if (!mc_json_get_float(mc_json_find(golden, "tolerance"), &f->tolerance) ||
        !mc_json_get_str(mc_json_find(golden, "base"), &base))
        fail_msg("%s: golden.json lacks tolerance or base", f->name);
    char *path = test_format("%s/%.*s", test_fixtures_dir(), MC_STR_ARG(base));
    open_lm(f, path);
    free(path);
}

static void load_adapter(model_fixture *f) {
    load_base(f);
    if (mc_lm_adapt(f->lm, f->path) != MICA_OK) fail_msg("%s", mica_last_error());
}

static void load_context(model_fixture *f) {
    load_base(f);
    if (!mc_json_get_int(mc_json_find(mc_json_root(f->golden), "context"), &f->context))
        fail_msg("%s: golden.json lacks context", f->name);
}

void fixture_open(const char *name, model_fixture *f) {
    load_golden(name, fixture_path(name), f);
    load_model(f);
}

void fixture_break(model_fixture *f) {
    int64_t n = f->lm->spec.hidden;
    float *broken = malloc((size_t)n * sizeof *broken);
    assert_non_null(broken);
    for (int64_t i = 0; i < n; i++)
        broken[i] = NAN;
    f->lm->norm = mica_from_data(f->lm->scope, broken, MICA_F32, &n, 1);
    assert_int_equal(mica_scope_status(f->lm->scope), MICA_OK);
    free(broken);
}

void fixture_close(model_fixture *f) {
    mc_lm_close(&f->lm);
    if (f->device) assert_int_equal(test_active_bytes(f->device), f->active_bytes);
    mica_device_close(&f->device);
    mc_weights_close(&f->tensors);
    mc_json_close(&f->golden);
    free(f->path);
}

static bool family_known(const model_fixture *f) {
    mc_str family;
    const mc_family *known;
    assert_true(mc_json_get_str(mc_json_find(mc_json_root(f->golden), "family"), &family));
    for (size_t i = 0; (known = mc_family_at(i)); i++)
        for (const char *const *type = known->model_types; *type; type++)
            if (mc_str_is(family, *type)) return true;
    return false;
}

/* Runs check for each case of a folder of known family. Returns how many these are. */
static size_t each_known(const char *folder, size_t *cases, void (*check)(const model_fixture *f)) {
    char *dir = test_format("%s/%s", test_fixtures_dir(), folder);
    bool there = access(dir, F_OK) == 0;
    test_list list = there ? test_list_folders(dir) : (test_list){0};
    size_t checked = 0;
    for (size_t i = 0; i < list.count; i++) {
        model_fixture f;
        load_golden(list.names[i], test_format("%s/%s", dir, list.names[i]), &f);
        if (family_known(&f)) {
            load_model(&f);
            check(&f);
            checked++;
        } else {
            printf("%s: its family is not known\n", f.name);
        }
        fixture_close(&f);
    }
    *cases = list.count;
    printf("%s: %zu of %zu checked\n", folder, checked, list.count);
    test_list_free(&list);
    free(dir);
    return checked;
}

void fixture_each(void (*check)(const model_fixture *f)) {
    size_t cases, known = each_known("models", &cases, check);
    assert_true(known > 0);
    static const char *const whole[] = {"families", "published"};
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
        known = each_known(whole[i], &cases, check);
        assert_int_equal(known, cases);
    }
}

void fixture_each_adapter(void (*check)(const model_fixture *f)) {
    char *dir = test_format("%s/lora", test_fixtures_dir());
    test_list cases = test_list_folders(dir);
    for (size_t i = 0; i < cases.count; i++) {
        model_fixture f;
        load_golden(cases.names[i], test_format("%s/%s", dir, cases.names[i]), &f);
        load_adapter(&f);
        check(&f);
        fixture_close(&f);
    }
    printf("adapters: %zu checked\n", cases.count);
    assert_true(cases.count > 0);
    test_list_free(&cases);
    free(dir);
}

bool fixture_each_context(void (*check)(const model_fixture *f)) {
    char *dir = test_format("%s/context", test_fixtures_dir());
    bool there = access(dir, F_OK) == 0;
    test_list cases = there ? test_list_folders(dir) : (test_list){0};
    for (size_t i = 0; i < cases.count; i++) {
        model_fixture f;
        load_golden(cases.names[i], test_format("%s/%s", dir, cases.names[i]), &f);
        load_context(&f);
        check(&f);
        fixture_close(&f);
    }
    printf("contexts: %zu checked\n", cases.count);
    test_list_free(&cases);
    free(dir);
    return there;
}

static const mc_weight_tensor *find(const model_fixture *f, const char *fmt, va_list args) {
    char name[128];
    vsnprintf(name, sizeof name, fmt, args);
    return mc_weights_find(f->tensors, name);
}

const float *fixture_floats(const model_fixture *f, const int64_t **shape, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    const mc_weight_tensor *t = find(f, fmt, args);
    va_end(args);
    if (!t) return NULL;
    assert_int_equal(t->dtype, MICA_F32);
    if (shape) *shape = t->shape;
    return t->data;
}

const int32_t *fixture_ints(const model_fixture *f, size_t *count, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    const mc_weight_tensor *t = find(f, fmt, args);
    va_end(args);
    if (!t) return NULL;
    assert_int_equal(t->dtype, MICA_I32);
    if (count) *count = t->bytes / sizeof(int32_t);
    return t->data;
}

/* Sums that differ in their last bits round to other entries of a cache here and there. Rounding
 * all entries changes the logits of the fixtures by up to 0.05, 0.6 and 1.5 (f16, bf16, int8;
 * measured). That has the variance step^2 / 12 an entry; a share p of entries that are a step off
 * has p step^2, and p is the difference of the sums (4e-6, relative) in steps. */
static double rounding_of(mica_dtype cache) {
    double steps = 0, effect = 0;
    if (cache == MICA_F16) steps = 0x1p11, effect = 0.05;
    if (cache == MICA_BF16) steps = 0x1p8, effect = 0.6;
    if (cache == MICA_U8) steps = 127, effect = 1.5;
    return effect * sqrt(12 * 4e-6 * steps);
}

double fixture_same(const model_fixture *f) {
    if (!test_device_is_other()) return 0.0;
    return f->tolerance + rounding_of(f->lm->kv_dtype);
}

float *fixture_logits(mica_device *device, const mc_lm *lm, const int32_t *ids, size_t n) {
    const int64_t shape[] = {1, (int64_t)n};
    size_t bytes = n * (size_t)lm->spec.vocab * sizeof(float);
    float *logits = malloc(bytes);
    mica_scope *s;
    assert_non_null(logits);
    assert_int_equal(mica_scope_open(device, &s), MICA_OK);
    mica_array y = mc_lm_forward(s, lm, mica_from_data(s, ids, MICA_I32, shape, 2), mica_i32(s, 0),
                                 NULL, MC_ALL_LOGITS);
    if (mica_read(y, logits, bytes) != MICA_OK) fail_msg("%s", mica_last_error());
    mica_scope_close(&s);
    return logits;
}

void fixture_compare(const float *got, const float *want, size_t n, double tolerance,
                     const char *fmt, ...) {
    char what[256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    for (size_t i = 0; i < n; i++)
        if (!(fabs((double)got[i] - (double)want[i]) <= tolerance))
            fail_msg("%s: element %zu is %.9g, want %.9g (tolerance %g)", what, i, (double)got[i],
                     (double)want[i], tolerance);
}

/* Relative to the largest key. In tests/fixtures errors of 4e-6 occur, with keys of up to 6. */
static const double key_rounding = 2e-5;

void fixture_compare_cache(const model_fixture *f, const char *what, int layer, const float *got,
                           const float *want, size_t n) {
    double largest = 0;
    for (size_t i = 0; i < n; i++)
        largest = fmax(largest, fabs((double)want[i]));
    fixture_compare(got, want, n, f->key_tolerance + key_rounding * largest, "%s: %s of layer %d",
                    f->name, what, layer);
}

/* ---- changed copies ---- */

static bool replace_text(char **text, size_t *size, const char *from, const char *to) {
    char *at = strstr(*text, from);
    if (!at) return false;
    size_t before = (size_t)(at - *text), skip = before + strlen(from), add = strlen(to);
    char *changed = malloc(*size - strlen(from) + add + 1);
    assert_non_null(changed);
    memcpy(changed, *text, before);
    memcpy(changed + before, to, add);
    memcpy(changed + before + add, *text + skip, *size - skip + 1);
    *size = before + add + *size - skip;
    free(*text);
    *text = changed;
    return true;
}

static void change_header(const char *path, const char *from, const char *to) {
    size_t size;
    char *file = test_read_file(path, &size);
    uint64_t len;
    memcpy(&len, file, sizeof len);
    size_t header_len = (size_t)len;
    char *header = malloc(header_len + 1);
    assert_non_null(header);
    memcpy(header, file + sizeof len, header_len);
    header[header_len] = 0;
    if (!replace_text(&header, &header_len, from, to)) fail_msg("%s: no %s", path, from);

    size_t rest = size - sizeof len - (size_t)len;
    char *changed = malloc(sizeof len + header_len + rest);
    assert_non_null(changed);
    uint64_t new_len = header_len;
    memcpy(changed, &new_len, sizeof new_len);
    memcpy(changed + sizeof len, header, header_len);
    memcpy(changed + sizeof len + header_len, file + sizeof len + len, rest);
    test_write_file(path, changed, sizeof len + header_len + rest);
    free(changed);
    free(header);
    free(file);
}

static void change_text(const char *path, const char *from, const char *to) {
    size_t size;
    char *text = test_read_file(path, &size);
    if (!replace_text(&text, &size, from, to)) fail_msg("%s: no %s", path, from);
    test_write_file(path, text, size);
    free(text);
}

char *fixture_copy(const char *model, const char *name, const char *from, const char *to) {
    char *source = fixture_path(model);
    char *dir = fixture_copy_folder(source, name, from, to);
    free(source);
    return dir;
}

char *fixture_copy_folder(const char *source, const char *name, const char *from, const char *to) {
    char *dir = test_temp_dir();
    test_list files = test_list_files(source, "");
    for (size_t i = 0; i < files.count; i++) {
        if (strncmp(files.names[i], "golden.", 7) == 0) continue;
        char *a = test_format("%s/%s", source, files.names[i]);
        char *b = test_format("%s/%s", dir, files.names[i]);
        test_copy_file(a, b);
        free(a);
        free(b);
    }
    if (from) {
        char *path = test_format("%s/%s", dir, name);
        if (strstr(name, ".safetensors") && !strstr(name, ".json"))
            change_header(path, from, to);
        else
            change_text(path, from, to);
        free(path);
    }
    test_list_free(&files);
    return dir;
}
