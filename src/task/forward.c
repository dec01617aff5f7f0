/* mica/forward.h for models that this process computes. */
#include "model/forward.h"
#include "base/options.h"
#include "engine/model.h"
#include "graph/graph.h"

/* The model for passes in a scope; NULL: the scope keeps why there is none. */
static const mc_lm *local(mica_scope *s, const mica_model *model, const char *name) {
    const mc_session_model *found = NULL;
    if (!s) (void)mc_fail(MICA_EINVAL, "%s: the scope is NULL", name);
    if (!s || mica_scope_status(s) != MICA_OK) return NULL;
    if (!model) {
        mc_scope_fail(s, MICA_EINVAL, "%s: the model is NULL", name);
        return NULL;
    }
    if (mc_scope_set_status(s, mc_model_local(model, &found)) != MICA_OK) return NULL;
    if (mica_scope_device(s) == found->device) return found->lm;
    mc_scope_fail(s, MICA_EINVAL, "%s: the scope is of another device than the model", name);
    return NULL;
}

static mica_array none(mica_scope *s) {
    return s ? mc_invalid(s) : MICA_NONE;
}

mica_array mica_model_forward(mica_scope *s, const mica_model *model, mica_array ids,
                              const mica_forward_options *options) {
    mica_forward_options given;
    const mc_lm *lm = local(s, model, __func__);
    if (!lm || mc_scope_set_status(
                   s, MC_OPTIONS_COPY(mica_forward_options, store, &given, options)) != MICA_OK)
        return none(s);
    return mc_forward(s, lm, ids, &given, __func__);
}

mica_array mica_model_embed(mica_scope *s, const mica_model *model, mica_array ids) {
    const mc_lm *lm = local(s, model, __func__);
    return lm ? mc_forward_embed(s, lm, ids, __func__) : none(s);
}

mica_array mica_model_head(mica_scope *s, const mica_model *model, mica_array hidden) {
    const mc_lm *lm = local(s, model, __func__);
    return lm ? mc_forward_head(s, lm, hidden, __func__) : none(s);
}
