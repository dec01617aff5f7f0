#include "serve/models.h"

#include "base/alloc.h"
#include "task/model.h"

#include <time.h>

void mc_models_init(mc_models *models) {
    *models = (mc_models){.last = &models->first};
    pthread_mutex_init(&models->lock, NULL);
}

static void close_one(mc_served *served) {
    mc_schedule_close(&served->schedule);
    mc_grammars_close(&served->grammars);
    mc_model_release(served->model);
    mc_free(served->name);
    mc_free(served);
}

void mc_models_deinit(mc_models *models) {
    for (mc_served *at = models->first, *next; at; at = next) {
        next = at->next;
        close_one(at);
    }
    pthread_mutex_destroy(&models->lock);
}

const mc_served *mc_models_first(mc_models *models) {
    pthread_mutex_lock(&models->lock);
    const mc_served *first = models->first;
    pthread_mutex_unlock(&models->lock);
    return first;
}

static mc_served *find(mc_models *models, mc_str name) {
    pthread_mutex_lock(&models->lock);
    mc_served *at = models->first;
    while (at && name.ptr && !mc_str_is(name, at->name))
        at = at->next;
    pthread_mutex_unlock(&models->lock);
    return at;
}

static mica_status open_grammars(mc_served *served) {
    mica_model_info info = {.struct_bytes = sizeof info};
    mica_model_get_info(served->model, &info);
    mica_status status = mc_grammars_open(mica_model_tokenizer(served->model),
                                          (size_t)info.vocab_size, &served->grammars);
    return status == MICA_EUNSUPPORTED ? MICA_OK : status;
}

mica_status mc_models_add(mc_models *models, const char *name, const mica_model *model,
                          const mica_serving_options *options) {
    if (!name || !*name) return mc_fail(MICA_EINVAL, "a served model needs a name");
    if (!model) return mc_fail(MICA_EINVAL, "mica_server_add: model is NULL");
    if (find(models, mc_str_of(name)))
        return mc_fail(MICA_EINVAL, "a model called %s is served already", name);
    mc_served *served = mc_calloc(1, sizeof *served);
    if (!served) return mc_fail_nomem("a served model");
    served->name = mc_strdup(name);
    served->model = mc_model_retain(model);
    served->options = *options;
    mica_status status = served->name ? MICA_OK : mc_fail_nomem("a served model");
    if (status == MICA_OK)
        status = mc_schedule_open(model,
                                  &(mc_schedule_options){.rows = options->rows,
                                                         .step_tokens = options->step_tokens,
                                                         .queue = options->queue,
                                                         .draft_tokens = options->draft_tokens,
                                                         .cache_bytes = options->cache_bytes},
                                  &served->schedule);
    if (status == MICA_OK) status = open_grammars(served);
    if (status != MICA_OK) {
        close_one(served);
        return status;
    }
    served->created = (int64_t)time(NULL);
    pthread_mutex_lock(&models->lock);
    *models->last = served;
    models->last = &served->next;
    pthread_mutex_unlock(&models->lock);
    return MICA_OK;
}

mc_served *mc_models_find(mc_models *models, mc_str name, mc_failure *failure) {
    mc_served *served = find(models, name);
    if (served) return served;
    if (!mc_models_first(models))
        mc_failure_set(failure, 503, "loading", "model", "the model is being loaded");
    else
        mc_failure_set(failure, 404, "model_not_found", "model", "there is no model %.*s",
                       (int)(name.len < 200 ? name.len : 200), name.ptr);
    return NULL;
}
