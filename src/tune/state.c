#include "tune/state.h"

#include "base/alloc.h"
#include "base/buffer.h"
#include "base/str.h"
#include "io/safetensors.h"

#include <mica/io.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { NAME_BYTES = 32, POSITION_BYTES = sizeof(mc_position) };

static const char position_name[] = "tune.position", settings_name[] = "tune.settings";

static mica_named_array bytes_array(mica_scope *s, const char *name, const void *data,
                                    size_t bytes) {
    const int64_t shape = (int64_t)bytes;
    return (mica_named_array){name, mica_from_data(s, data, MICA_U8, &shape, 1)};
}

mica_status mc_state_save(const char *path, mc_trainable *t, mc_steps *steps,
                          const mc_position *position, const mc_buffer *settings) {
    size_t n = mc_trainable_count(t), m = mc_steps_state_count(steps);
    mica_scope *s = NULL;
    mica_named_array *arrays = mc_calloc(n + m + 2, sizeof *arrays);
    char(*names)[NAME_BYTES] = mc_calloc(m + 1, sizeof *names);
    mica_status status = arrays && names ? mica_scope_open(mica_scope_device(t->scope), &s)
                                         : mc_fail_nomem("the state of training");
    for (size_t i = 0; i < n && status == MICA_OK; i++)
        arrays[i] = (mica_named_array){mc_trainable_at(t, i)->name, mc_trainable_at(t, i)->value};
    for (size_t i = 0; i < m && status == MICA_OK; i++) {
        snprintf(names[i], NAME_BYTES, "tune.state.%zu", i);
        arrays[n + i] = (mica_named_array){names[i], *mc_steps_state(steps, i)};
    }
    if (status == MICA_OK) {
        arrays[n + m] = bytes_array(s, position_name, position, POSITION_BYTES);
        arrays[n + m + 1] = bytes_array(s, settings_name, settings->data, settings->len);
        status = mica_scope_status(s);
    }
    if (status == MICA_OK) status = mica_save_safetensors(path, arrays, n + m + 2, NULL, 0);
    mica_scope_close(&s);
    mc_free(arrays);
    mc_free(names);
    return status;
}

/* ---- settings ---- */

/* Takes the next word of a text; empty: there is none. */
static mc_str next_word(mc_str *text) {
    while (text->len && *text->ptr == ' ')
        *text = (mc_str){text->ptr + 1, text->len - 1};
    mc_str word = {text->ptr, 0};
    while (word.len < text->len && word.ptr[word.len] != ' ')
        word.len++;
    *text = (mc_str){text->ptr + word.len, text->len - word.len};
    return word;
}

/* The value of a name, which is the word behind it. A setting that a text does not name is none. */
static mc_str value_of(mc_str text, mc_str name) {
    for (mc_str key = next_word(&text); key.len; key = next_word(&text)) {
        mc_str value = next_word(&text);
        if (mc_str_eq(key, name)) return value;
    }
    return MC_STR("none");
}

static bool put_difference(mc_buffer *out, mc_str name, mc_str old, mc_str now) {
    if (mc_str_eq(old, now)) return true;
    return mc_buffer_printf(out, "%s%.*s %.*s, now %.*s", out->len ? "; " : "", MC_STR_ARG(name),
                            MC_STR_ARG(old), MC_STR_ARG(now));
}

/* Adds each setting whose value differs. */
static bool put_differences(mc_buffer *out, mc_str old, mc_str now) {
    bool done = true;
    mc_str left = old;
    for (mc_str key = next_word(&left); done && key.len; key = next_word(&left))
        done = put_difference(out, key, next_word(&left), value_of(now, key));
    left = now;
    for (mc_str key = next_word(&left); done && key.len; key = next_word(&left)) {
        mc_str value = next_word(&left), was = value_of(old, key);
        if (mc_str_is(was, "none")) done = put_difference(out, key, was, value);
    }
    return done && mc_buffer_cstr(out);
}

static mica_status check_settings(const mc_weights *w, const char *path,
                                  const mc_buffer *settings) {
    const mc_weight_tensor *x = mc_weights_find(w, settings_name);
    if (!x) return mc_fail(MICA_EFORMAT, "%s: is no state of training", path);
    mc_buffer text = {0};
    mica_status status = MICA_OK;
    if (!put_differences(&text, (mc_str){x->data, x->bytes},
                         (mc_str){settings->data, settings->len}))
        status = mc_fail_nomem(path);
    else if (text.len > 0)
        status =
            mc_fail(MICA_EINVAL, "%s: is of a training with other settings: %s", path, text.data);
    mc_buffer_deinit(&text);
    return status;
}

/* ---- loading ---- */

static mica_status load_states(const mc_weights *w, const char *path, mc_trainable *t,
                               mc_steps *steps, mica_array *states) {
    for (size_t i = 0; i < mc_steps_state_count(steps); i++) {
        char name[NAME_BYTES];
        snprintf(name, sizeof name, "tune.state.%zu", i);
        const mc_weight_tensor *x = mc_weights_find(w, name);
        mica_array old = *mc_steps_state(steps, i);
        bool fits =
            x && x->has_dtype && x->dtype == MICA_F32 && x->ndim == mica_array_ndim(old) &&
            memcmp(x->shape, mica_array_shape(old), (size_t)x->ndim * sizeof *x->shape) == 0;
        if (!fits) return mc_fail(MICA_EFORMAT, "%s: tensor %s is missing or unfit", path, name);
        states[i] = mica_from_data(t->scope, x->data, MICA_F32, x->shape, x->ndim);
        MC_TRY(mica_eval(t->scope, states[i]));
    }
    return MICA_OK;
}

static mica_status read_position(const mc_weights *w, const char *path, mc_position *p) {
    const mc_weight_tensor *x = mc_weights_find(w, position_name);
    if (!x || x->bytes != POSITION_BYTES)
        return mc_fail(MICA_EFORMAT, "%s: tensor %s is missing or unfit", path, position_name);
    memcpy(p, x->data, POSITION_BYTES);
    bool counts = p->iteration >= 0 && p->updates >= 0 && p->updates <= p->iteration &&
                  p->gradients >= 0 && p->gradients <= p->iteration && p->trained_tokens >= 0;
    if (counts && isfinite(p->loss_sum) && isfinite(p->weight_sum) && isfinite(p->report_tokens))
        return MICA_OK;
    return mc_fail(MICA_EFORMAT, "%s: tensor %s holds no position", path, position_name);
}

static mica_status load(const mc_weights *w, const char *path, mc_trainable *t, mc_steps *steps,
                        mc_position *position, const mc_buffer *settings) {
    MC_TRY(check_settings(w, path, settings));
    mc_position read;
    MC_TRY(read_position(w, path, &read));
    size_t m = mc_steps_state_count(steps);
    mica_array *states = mc_calloc(m + 1, sizeof *states);
    if (!states) return mc_fail_nomem("the state of training");
    mica_status status = load_states(w, path, t, steps, states);
    if (status == MICA_OK) status = mc_trainable_load(t, w);
    for (size_t i = 0; i < m && status == MICA_OK; i++)
        *mc_steps_state(steps, i) = states[i];
    if (status == MICA_OK) status = mc_trainable_collect(t, states, m);
    for (size_t i = 0; i < m && status == MICA_OK; i++)
        *mc_steps_state(steps, i) = states[i];
    if (status == MICA_OK) *position = read;
    mc_free(states);
    return status;
}

mica_status mc_state_load(const char *path, mc_trainable *t, mc_steps *steps, mc_position *position,
                          const mc_buffer *settings) {
    mc_weights *w = NULL;
    MC_TRY(mc_weights_open(path, &(mc_weights_options){.no_mmap = true}, &w));
    mica_status status = load(w, path, t, steps, position, settings);
    mc_weights_close(&w);
    return status;
}
