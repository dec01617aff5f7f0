#include "io/config.h"

#include "base/alloc.h"
#include "base/filemap.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define TEXT_BYTES 512
#define FOUND_BYTES 64

struct mc_config {
    mc_json_doc *doc;
    char *name; /* path, for error texts */
};

/* ---- errors ---- */

mica_status mc_config_fail(const mc_config_scope *scope, const char *key, mica_status status,
                           const char *fmt, ...) {
    char text[TEXT_BYTES];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return mc_fail(status, "%s: %s%s: %s", scope->file, scope->path, key, text);
}

/* The value as text, as it is in the file. */
static const char *show(mc_json v, char out[FOUND_BYTES]) {
    bool flag = false;
    int64_t whole = 0;
    double number = 0;
    mc_str text = {0};
    switch (mc_json_get_type(v)) {
    case MC_JSON_NONE:
        return "nothing";
    case MC_JSON_NULL:
        return "null";
    case MC_JSON_ARRAY:
        return "a list";
    case MC_JSON_OBJECT:
        if (!mc_json_get_str(mc_json_find(v, "__float__"), &text)) return "an object";
        snprintf(out, FOUND_BYTES, "%.*s", text.len < 40 ? (int)text.len : 40, text.ptr);
        return out; /* Infinity, or NaN: see base/json.h */
    case MC_JSON_BOOL:
        mc_json_get_bool(v, &flag);
        return flag ? "true" : "false";
    case MC_JSON_INT:
        mc_json_get_int(v, &whole);
        snprintf(out, FOUND_BYTES, "%" PRId64, whole);
        return out;
    case MC_JSON_FLOAT:
        mc_json_get_float(v, &number);
        snprintf(out, FOUND_BYTES, "%g", number);
        return out;
    case MC_JSON_STRING:
        mc_json_get_str(v, &text);
        snprintf(out, FOUND_BYTES, "\"%.*s%s\"", text.len < 40 ? (int)text.len : 40, text.ptr,
                 text.len < 40 ? "" : "...");
        return out;
    }
    return "nothing";
}

static mica_status wrong(const mc_config_scope *scope, const char *key, mc_json v,
                         const char *want) {
    char found[FOUND_BYTES];
    return mc_config_fail(scope, key, MICA_EFORMAT, "want %s, found %s", want, show(v, found));
}

/* Finds a key. *v is NONE if an optional key is absent. */
static mica_status look(const mc_config_scope *scope, const char *key, mc_config_need need,
                        mc_json *v) {
    *v = mc_json_find(scope->object, key);
    if (mc_json_exists(*v)) return MICA_OK;
    *v = (mc_json){0};
    if (need == MC_OPTIONAL) return MICA_OK;
    return mc_config_fail(scope, key, MICA_ENOENT, "is missing");
}

/* ---- loading ---- */

static mica_status adopt(mc_json_doc *doc, const char *name, mc_config **config) {
    mc_config *made = NULL;
    mica_status status = MICA_OK;
    if (mc_json_get_type(mc_json_root(doc)) != MC_JSON_OBJECT) {
        status = mc_fail(MICA_EFORMAT, "%s: want a JSON object", name);
    } else if (!(made = mc_calloc(1, sizeof *made)) || !(made->name = mc_strdup(name))) {
        status = mc_fail_nomem(name);
    }
    if (status != MICA_OK) {
        mc_free(made);
        mc_json_close(&doc);
        return status;
    }
    made->doc = doc;
    *config = made;
    return MICA_OK;
}

mica_status mc_config_load(const char *folder, const char *name, mc_config_need need,
                           mc_config **config) {
    *config = NULL;
    char *path = mc_path_join(folder, name);
    if (!path) return mc_fail_nomem(name);
    mc_json_doc *doc;
    mica_status status = mc_json_load(path, MC_FILE_CONFIG, &doc);
    bool absent = status == MICA_ENOENT && need == MC_OPTIONAL;
    if (status == MICA_OK) status = adopt(doc, path, config);
    mc_free(path);
    return absent ? MICA_OK : status;
}

mica_status mc_config_parse(const char *text, size_t len, const char *name, mc_config **config) {
    *config = NULL;
    mc_json_doc *doc;
    MC_TRY(mc_json_parse(text, len, name, &doc));
    return adopt(doc, name, config);
}

void mc_config_close(mc_config **config) {
    if (!*config) return;
    mc_json_close(&(*config)->doc);
    mc_free((*config)->name);
    mc_free(*config);
    *config = NULL;
}

mc_config_scope mc_config_root(const mc_config *config) {
    if (!config) return (mc_config_scope){.file = ""};
    return (mc_config_scope){.file = config->name, .object = mc_json_root(config->doc)};
}

bool mc_config_has(const mc_config_scope *scope, const char *key) {
    return mc_json_exists(mc_json_find(scope->object, key));
}

/* ---- reading ---- */

mica_status mc_config_object(const mc_config_scope *scope, const char *key, mc_config_need need,
                             mc_config_scope *value) {
    mc_json v;
    MC_TRY(look(scope, key, need, &v));
    if (v.doc && mc_json_get_type(v) != MC_JSON_OBJECT) return wrong(scope, key, v, "an object");
    mc_config_scope inner = {.file = scope->file, .object = v};
    size_t len = strlen(scope->path);
    memcpy(inner.path, scope->path, len);
    snprintf(inner.path + len, sizeof inner.path - len, "%s.", key);
    *value = inner;
    return MICA_OK;
}

static mica_status take_int(const mc_config_scope *scope, const char *key, mc_json v, int64_t min,
                            int64_t max, int64_t *value) {
    int64_t x;
    if (mc_json_get_int(v, &x) && x >= min && x <= max) {
        *value = x;
        return MICA_OK;
    }
    char want[FOUND_BYTES];
    snprintf(want, sizeof want, "an integer in %" PRId64 "..%" PRId64, min, max);
    return wrong(scope, key, v, want);
}

mica_status mc_config_int(const mc_config_scope *scope, const char *key, mc_config_need need,
                          int64_t min, int64_t max, int64_t *value) {
    mc_json v;
    MC_TRY(look(scope, key, need, &v));
    return v.doc ? take_int(scope, key, v, min, max, value) : MICA_OK;
}

/* A number; infinite ones are objects (base/json.h). */
static bool get_number(mc_json v, double *x) {
    mc_str text;
    if (mc_json_get_float(v, x)) return true;
    if (!mc_json_get_str(mc_json_find(v, "__float__"), &text)) return false;
    *x = mc_str_is(text, "-Infinity") ? -INFINITY : INFINITY;
    return *x < 0 || mc_str_is(text, "Infinity");
}

static mica_status take_float(const mc_config_scope *scope, const char *key, mc_json v, double min,
                              double max, double *value) {
    double x;
    if (get_number(v, &x) && x >= min && x <= max) {
        *value = x;
        return MICA_OK;
    }
    char want[FOUND_BYTES];
    snprintf(want, sizeof want, "a number in %g..%g", min, max);
    return wrong(scope, key, v, want);
}

mica_status mc_config_float(const mc_config_scope *scope, const char *key, mc_config_need need,
                            double min, double max, double *value) {
    mc_json v;
    MC_TRY(look(scope, key, need, &v));
    return v.doc ? take_float(scope, key, v, min, max, value) : MICA_OK;
}

mica_status mc_config_bool(const mc_config_scope *scope, const char *key, mc_config_need need,
                           bool *value) {
    mc_json v;
    MC_TRY(look(scope, key, need, &v));
    if (!v.doc || mc_json_get_bool(v, value)) return MICA_OK;
    return wrong(scope, key, v, "true or false");
}

mica_status mc_config_str(const mc_config_scope *scope, const char *key, mc_config_need need,
                          mc_str *value) {
    mc_json v;
    MC_TRY(look(scope, key, need, &v));
    if (!v.doc || mc_json_get_str(v, value)) return MICA_OK;
    return wrong(scope, key, v, "a text");
}

/* Sets *count to the list's length, which must not exceed `room`. */
static mica_status take_count(const mc_config_scope *scope, const char *key, mc_json v, size_t room,
                              size_t *count) {
    size_t n = mc_json_count(v);
    if (n > room) {
        return mc_config_fail(scope, key, MICA_EFORMAT, "has %zu elements, at most %zu are taken",
                              n, room);
    }
    *count = n;
    return MICA_OK;
}

mica_status mc_config_ints(const mc_config_scope *scope, const char *key, mc_config_need need,
                           int64_t min, int64_t max, int64_t *values, size_t room, size_t *count) {
    mc_json v;
    MC_TRY(look(scope, key, need, &v));
    if (!v.doc) return MICA_OK;
    if (mc_json_get_type(v) != MC_JSON_ARRAY) {
        if (room == 0) return wrong(scope, key, v, "an empty list");
        MC_TRY(take_int(scope, key, v, min, max, &values[0]));
        *count = 1;
        return MICA_OK;
    }
    size_t n = 0, i = 0;
    MC_TRY(take_count(scope, key, v, room, &n));
    for (mc_json_iter it = mc_json_begin(v); mc_json_next(&it); i++) {
        MC_TRY(take_int(scope, key, it.value, min, max, &values[i]));
    }
    *count = n;
    return MICA_OK;
}

mica_status mc_config_floats(const mc_config_scope *scope, const char *key, mc_config_need need,
                             double min, double max, double *values, size_t room, size_t *count) {
    mc_json v;
    size_t n = 0, i = 0;
    MC_TRY(look(scope, key, need, &v));
    if (!v.doc) return MICA_OK;
    if (mc_json_get_type(v) != MC_JSON_ARRAY) return wrong(scope, key, v, "a list of numbers");
    MC_TRY(take_count(scope, key, v, room, &n));
    for (mc_json_iter it = mc_json_begin(v); mc_json_next(&it); i++)
        MC_TRY(take_float(scope, key, it.value, min, max, &values[i]));
    *count = n;
    return MICA_OK;
}

mica_status mc_config_strs(const mc_config_scope *scope, const char *key, mc_config_need need,
                           mc_str *values, size_t room, size_t *count) {
    mc_json v;
    MC_TRY(look(scope, key, need, &v));
    if (!v.doc) return MICA_OK;
    if (mc_json_get_type(v) != MC_JSON_ARRAY) return wrong(scope, key, v, "a list of texts");
    size_t n = 0, i = 0;
    MC_TRY(take_count(scope, key, v, room, &n));
    for (mc_json_iter it = mc_json_begin(v); mc_json_next(&it); i++) {
        if (!mc_json_get_str(it.value, &values[i])) {
            return wrong(scope, key, it.value, "a list of texts");
        }
    }
    *count = n;
    return MICA_OK;
}
