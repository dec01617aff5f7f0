/* The file is a JSON object, the newest last: {"PROGRAM cpu DEVICE mlx:gpu DEVICE": true, ...},
 * where PROGRAM and DEVICE are hashes. */
#include "cost/choices.h"

#include <mica/version.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/json_write.h"
#include "base/map.h"
#include "base/save.h"
#include "cost/rates.h"
#include "exec/program.h"
#include "exec/trace.h"

#define FILE_NAME "choices.json"

enum { MAX_CHOICES = 1000 };

static uint64_t add_text(uint64_t hash, const char *text) {
    return mc_hash(text, strlen(text) + 1, hash);
}

/* The device's name, and a hash of what else it is. */
static const char *identify(mica_device *device, uint64_t *hash) {
    mica_device_info info = {.struct_bytes = sizeof info};
    mc_rates rates = {0};
    mica_device_get_info(device, &info);
    (void)mc_rates_get(device, &rates); /* unmeasured: zeros */
    *hash = add_text(0, mica_version());
    *hash = add_text(*hash, info.description);
    *hash = add_text(*hash, info.architecture);
    *hash = mc_hash(&info.threads, sizeof info.threads, *hash);
    *hash = mc_hash(rates.of, sizeof rates.of, *hash);
    return info.name;
}

mica_status mc_choice_key(const mica_program *program, mica_device *first, mica_device *second,
                          mc_choice *choice) {
    uint64_t a, b;
    mc_arena arena = {0};
    mc_trace trace = {0};
    mica_status status =
        mc_trace_make(&trace, &arena, program->graph, program->results, program->n_results);
    const char *first_name = identify(first, &a), *second_name = identify(second, &b);
    snprintf(choice->key, sizeof choice->key,
             "%016" PRIx64 " %.40s %016" PRIx64 " %.40s %016" PRIx64, trace.hash, first_name, a,
             second_name, b);
    mc_buffer_deinit(&trace.key);
    mc_arena_deinit(&arena);
    return status;
}

/* NULL: there is none that can be read. */
static mc_json_doc *load(void) {
    mc_buffer path = {0};
    mc_json_doc *doc = NULL;
    if (mc_cache_path(FILE_NAME, &path) == MICA_OK)
        (void)mc_json_load(path.data, MC_FILE_CALIBRATION, &doc);
    mc_buffer_deinit(&path);
    return doc;
}

bool mc_choice_find(const mc_choice *choice, bool *other) {
    mc_calibration mode;
    if (mc_calibration_mode(&mode) != MICA_OK || mode != MC_CALIBRATION_KEPT) return false;
    mc_json_doc *doc = load();
    bool found = doc && mc_json_get_bool(mc_json_find(mc_json_root(doc), choice->key), other);
    mc_json_close(&doc);
    return found;
}

static bool put_choice(mc_buffer *out, mc_str key, bool other) {
    return mc_buffer_add_text(out, out->len > 1 ? ",\n" : "\n") && mc_json_put_str(out, key) &&
           mc_buffer_add_text(out, other ? ": true" : ": false");
}

/* The file with this choice as the last. */
static bool put_all(mc_buffer *out, const mc_json_doc *doc, const mc_choice *choice, bool other) {
    mc_json root = doc ? mc_json_root(doc) : (mc_json){0};
    size_t count = doc ? mc_json_count(root) : 0, i = 0;
    bool ok = mc_buffer_add_byte(out, '{');
    for (mc_json_iter it = mc_json_begin(root); ok && doc && mc_json_next(&it); i++) {
        bool kept;
        if (i + MAX_CHOICES <= count || mc_str_is(it.key, choice->key)) continue;
        if (mc_json_get_bool(it.value, &kept)) ok = put_choice(out, it.key, kept);
    }
    return ok && put_choice(out, mc_str_of(choice->key), other) && mc_buffer_add_text(out, "\n}\n");
}

void mc_choice_keep(const mc_choice *choice, bool other) {
    mc_calibration mode;
    if (mc_calibration_mode(&mode) != MICA_OK || mode == MC_CALIBRATION_OFF) return;
    mc_buffer path = {0}, text = {0};
    mc_save save;
    mc_json_doc *doc = load();
    if (put_all(&text, doc, choice, other) && mc_cache_path(FILE_NAME, &path) == MICA_OK &&
        mc_save_open(&save, path.data) == MICA_OK) {
        bool written = fwrite(text.data, 1, text.len, save.file) == text.len;
        (void)mc_save_close(&save, written ? MICA_OK : MICA_EIO);
    }
    mc_json_close(&doc);
    mc_buffer_deinit(&text);
    mc_buffer_deinit(&path);
}
