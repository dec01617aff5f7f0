#include "tune/tuner.h"

#include "base/alloc.h"
#include "base/options.h"
#include "graph/graph.h"
#include "io/folder.h"
#include "model/forward.h"
#include "model/load/load.h"

#include <string.h>

static mica_status open_parts(mica_tuner *t, const char *path, const mica_tuner_options *o) {
    t->path = mc_strdup(path);
    if (!t->path) return mc_fail_nomem("a model to train");
    MC_TRY(mc_model_folder_check(path));
    t->device = o->device;
    if (!t->device) {
        const mica_device_options own = {.threads = o->threads};
        MC_TRY(mica_device_open(o->device_name, &own, &t->device));
        t->own_device = true;
    }
    const mc_weights_options weights = {.no_mmap = o->no_mmap, .cold = true};
    MC_TRY(mc_lm_open(path, t->device, &weights, &t->lm));
    mc_lm_set_arithmetic(t->lm, o->arithmetic);
    return mc_prompt_open(path, o->chat_template, &t->prompt);
}

mica_status mica_tuner_open(const char *path, const mica_tuner_options *options, mica_tuner **out) {
    mica_tuner_options given;
    if (!out) return mc_fail(MICA_EINVAL, "mica_tuner_open: tuner is NULL");
    *out = NULL;
    if (!path) return mc_fail(MICA_EINVAL, "mica_tuner_open: path is NULL");
    MC_TRY(MC_OPTIONS_COPY(mica_tuner_options, chat_template, &given, options));
    mica_tuner *t = mc_calloc(1, sizeof *t);
    if (!t) return mc_fail_nomem("a model to train");
    mica_status status = open_parts(t, path, &given);
    if (status == MICA_OK)
        *out = t;
    else
        mica_tuner_close(&t);
    return status;
}

void mica_tuner_close(mica_tuner **tuner) {
    mica_tuner *t = tuner ? *tuner : NULL;
    if (!t) return;
    if (t->applied) mc_trainable_deinit(&t->trainable);
    mc_prompt_close(&t->prompt);
    mc_lm_close(&t->lm);
    if (t->own_device) mica_device_close(&t->device);
    mc_free(t->path);
    mc_free(t);
    *tuner = NULL;
}

mica_status mica_lora_apply(mica_tuner *t, const mica_lora_options *options) {
    mica_lora_options given;
    mc_trainable fresh;
    if (!t) return mc_fail(MICA_EINVAL, "mica_lora_apply: tuner is NULL");
    MC_TRY(MC_OPTIONS_COPY(mica_lora_options, memory_limit_bytes, &given, options));
    MC_TRY(mc_trainable_init(&fresh, t->lm, t->device, &given));
    if (t->applied) mc_trainable_deinit(&t->trainable);
    fresh.options.modules = NULL;
    fresh.options.n_modules = 0;
    t->trainable = fresh;
    t->applied = true;
    return MICA_OK;
}

mica_status mc_tuner_check(const mica_tuner *t, const char *function) {
    if (!t) return mc_fail(MICA_EINVAL, "%s: tuner is NULL", function);
    if (!t->applied)
        return mc_fail(MICA_EINVAL, "%s: nothing is trained yet: call mica_lora_apply", function);
    return MICA_OK;
}

size_t mica_tuner_parameter_count(const mica_tuner *t) {
    return t && t->applied ? mc_trainable_count(&t->trainable) : 0;
}

mica_status mica_tuner_get_parameter(const mica_tuner *t, size_t i, mica_parameter *parameter) {
    if (!parameter || i >= mica_tuner_parameter_count(t))
        return mc_fail(MICA_EINVAL, "no parameter %zu of %zu", i, mica_tuner_parameter_count(t));
    const mc_parameter *p = mc_trainable_at(&t->trainable, i);
    const mica_parameter found = {.name = p->name, .value = p->value};
    MC_INFO_COPY(mica_parameter, value, parameter, &found);
    return MICA_OK;
}

mica_status mica_tuner_set_parameter(mica_tuner *t, size_t i, const float *values, size_t n) {
    if (!values || i >= mica_tuner_parameter_count(t))
        return mc_fail(MICA_EINVAL, "no parameter %zu of %zu", i, mica_tuner_parameter_count(t));
    mc_parameter *p = mc_trainable_at(&t->trainable, i);
    mica_scope *s = t->trainable.scope;
    if ((int64_t)n != mica_array_size(p->value))
        return mc_fail(MICA_EINVAL, "%s has %lld numbers, not %zu", p->name,
                       (long long)mica_array_size(p->value), n);
    mica_array x =
        mica_from_data(s, values, MICA_F32, mica_array_shape(p->value), mica_array_ndim(p->value));
    x = mica_astype(s, x, mica_array_dtype(p->value));
    MC_TRY(mica_eval(s, x));
    p->value = x;
    return mc_trainable_collect(&t->trainable, NULL, 0);
}

uint64_t mica_tuner_trained(const mica_tuner *t) {
    return t && t->applied ? t->trainable.trained : 0;
}

void mica_tuner_get_info(const mica_tuner *t, mica_model_info *info) {
    mica_model_info found = {0};
    if (t) {
        found = mc_lm_describe(t->lm);
        found.path = t->path;
        found.engine = "native";
    }
    MC_INFO_COPY(mica_model_info, expert_size, info, &found);
}

mica_device *mica_tuner_device(const mica_tuner *t) {
    return t ? t->device : NULL;
}

const mica_tokenizer *mica_tuner_tokenizer(const mica_tuner *t) {
    return t ? t->prompt.tokenizer : NULL;
}

/* ---- passes ---- */

static mica_status check_parameters(const mica_tuner *t, const mica_array *params) {
    for (size_t i = 0; i < mc_trainable_count(&t->trainable); i++) {
        const mc_parameter *p = mc_trainable_at(&t->trainable, i);
        int ndim = mica_array_ndim(p->value);
        bool fits = mica_array_ndim(params[i]) == ndim;
        for (int axis = 0; fits && axis < ndim; axis++)
            fits = mica_array_dim(params[i], axis) == mica_array_dim(p->value, axis);
        if (!mica_valid(params[i]) || mica_array_dtype(params[i]) != mica_array_dtype(p->value))
            return mc_fail(MICA_EDTYPE,
                           "mica_tuner_forward: params[%zu] is no array of %s, as %s is", i,
                           mica_dtype_name(mica_array_dtype(p->value)), p->name);
        if (!fits)
            return mc_fail(MICA_ESHAPE, "mica_tuner_forward: params[%zu] has not the shape of %s",
                           i, p->name);
    }
    return MICA_OK;
}

static mica_status open_view(const mica_tuner *t, mica_scope *s, const mica_array *params,
                             mc_lm *view) {
    size_t n = mc_trainable_count(&t->trainable);
    if (params) {
        MC_TRY(check_parameters(t, params));
        return mc_trainable_view(&t->trainable, s, params, MICA_NONE, view);
    }
    mica_array *values = mc_array_alloc(n + 1, sizeof *values);
    if (!values) return mc_fail_nomem("the parameters of a pass");
    for (size_t i = 0; i < n; i++)
        values[i] = mc_trainable_at(&t->trainable, i)->value;
    mica_status status = mc_trainable_view(&t->trainable, s, values, MICA_NONE, view);
    mc_free(values);
    return status;
}

mica_array mica_tuner_forward(mica_scope *s, const mica_tuner *t, const mica_array *params,
                              mica_array ids, const mica_forward_options *options) {
    mica_forward_options given;
    mc_lm view;
    if (!s) (void)mc_fail(MICA_EINVAL, "mica_tuner_forward: the scope is NULL");
    if (!s) return MICA_NONE;
    if (mica_scope_status(s) != MICA_OK) return mc_invalid(s);
    mica_status status = mc_tuner_check(t, "mica_tuner_forward");
    if (status == MICA_OK && mica_scope_device(s) != t->device)
        status = mc_fail(MICA_EINVAL,
                         "mica_tuner_forward: the scope is of another device than the tuner");
    if (status == MICA_OK) status = MC_OPTIONS_COPY(mica_forward_options, store, &given, options);
    if (status == MICA_OK) status = open_view(t, s, params, &view);
    if (mc_scope_set_status(s, status) != MICA_OK) return mc_invalid(s);
    mica_array y = mc_forward(s, &view, ids, &given, "mica_tuner_forward");
    mc_trainable_end_view(&view);
    return y;
}
