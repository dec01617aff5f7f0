#define _XOPEN_SOURCE 700 /* realpath */
#include "serve/models/models.h"

#include "base/alloc.h"
#include "base/options.h"
#include "base/system.h"
#include "device/device.h"
#include "engine/model.h"
#include "serve/models/loader.h"

#include <mica/hub.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the list ---- */

void mc_models_init(mc_models *models, mc_handlers *handlers) {
    *models = (mc_models){.handlers = handlers};
    mc_catalog_init(&models->catalog);
    mc_made_init(&models->made);
    mc_cancel_init_either(&models->cancel, NULL, NULL);
    pthread_mutex_init(&models->lock, NULL);
    pthread_cond_init(&models->changed, NULL);
}

static void free_loading(mc_loading *loading) {
    mica_model_options *model = &loading->model;
    for (size_t i = 0; i < loading->adapter_count; i++) {
        mc_free(loading->adapter_names[i]);
        mc_free(loading->adapter_folders[i]);
    }
    mc_free(loading->adapter_names);
    mc_free(loading->adapter_folders);
    mc_free((char *)loading->serving.prefix_cache);
    mc_free((char *)model->engine);
    mc_free((char *)model->device_name);
    mc_free((char *)model->adapter);
    mc_free((char *)model->chat_template);
    if (model->device) mc_device_release(model->device);
}

/* Lets the other ranks end, unless one of them has done so. */
static void end_team(mc_models *models) {
    mc_lead *lead;
    if (models->team && mc_lead_open(models->team, 0, &lead) == MICA_OK) {
        mc_lead_say(lead, MC_LEAD_END, NULL, 0);
        (void)mc_lead_send(lead);
        mc_lead_close(&lead);
    }
    mc_team_close(&models->team);
}

void mc_models_deinit(mc_models *models) {
    mc_loader_end(models);
    for (mc_served *at = models->first, *next; at; at = next) {
        next = at->next;
        mc_served_free(at);
    }
    end_team(models);
    if (models->device) mc_device_release(models->device);
    free_loading(&models->loading);
    mc_catalog_deinit(&models->catalog);
    mc_made_deinit(&models->made);
    pthread_cond_destroy(&models->changed);
    pthread_mutex_destroy(&models->lock);
}

/* Whether an entry stands for a model that is not in memory, and was not named: it will be taken
 * out. Whether there is such a model the catalog knows. */
static bool is_nothing(const mc_served *served) {
    bool idle = served->state == MC_SERVED_IDLE || served->state == MC_SERVED_CLOSING;
    return idle && !served->refs && !served->stays && !mc_served_has_failed(served);
}

/* Called with the lock held, as all of the static functions below unless they take it. */
static mc_served *find_model(const mc_models *models, mc_str name) {
    mc_served *at = models->first;
    while (at && (at->removed || is_nothing(at) || !mc_str_is(name, at->name)))
        at = at->next;
    return at;
}

/* The model of a folder with an adapter; NULL: none. */
static mc_served *find_folder(const mc_models *models, const char *folder, const char *adapter) {
    for (mc_served *at = models->first; at; at = at->next)
        if (!at->removed && at->folder && strcmp(at->folder, folder) == 0 &&
            strcmp(at->adapter ? at->adapter : "", adapter ? adapter : "") == 0)
            return at;
    return NULL;
}

static void append(mc_models *models, mc_served *served) {
    mc_served **link = &models->first;
    while (*link)
        link = &(*link)->next;
    *link = served;
}

static char *copy(const char *text, bool *done) {
    char *copied = text ? mc_strdup(text) : NULL;
    *done = *done && (copied || !text);
    return copied;
}

/* A new entry; NULL: no memory. */
static mc_served *new_one(mc_models *models, mc_str name, const char *base, const char *folder,
                          const char *adapter, const mica_serving_options *options) {
    mc_served *served = mc_calloc(1, sizeof *served);
    bool done = true;
    if (!served) return NULL;
    served->models = models;
    served->options = *options;
    served->keep_us = MC_KEEP_ALWAYS;
    served->name = mc_strndup(name.ptr, name.len);
    served->base = copy(base, &done);
    served->folder = copy(folder, &done);
    served->adapter = copy(adapter, &done);
    served->options.prefix_cache = copy(options->prefix_cache, &done);
    if (done && served->name) return served;
    mc_served_free(served);
    return NULL;
}

/* ---- models that are given open ---- */

mica_status mc_models_add(mc_models *models, const char *name, const mica_model *model,
                          const mica_serving_options *options) {
    if (!name || !*name) return mc_fail(MICA_EINVAL, "a served model needs a name");
    const mc_session_model *local;
    if (!model) return mc_fail(MICA_EINVAL, "mica_server_add: model is NULL");
    if (mc_model_local(model, &local) == MICA_OK && local->lm->group)
        return mc_fail(MICA_EUNSUPPORTED, "mica_server_add: the model is over several ranks: "
                                          "mica_server_load opens such models");
    mc_served *served = new_one(models, mc_str_of(name), NULL, NULL, NULL, options);
    if (!served) return mc_fail_nomem("a served model");
    served->stays = served->was_loaded = true;
    mica_status status = mc_served_open(served, mc_model_retain(model), options->cache_bytes);
    pthread_mutex_lock(&models->lock);
    if (status == MICA_OK && find_model(models, mc_str_of(name)))
        status = mc_fail(MICA_EINVAL, "a model called %s is served already", name);
    if (status == MICA_OK) {
        served->state = MC_SERVED_LOADED;
        append(models, served);
        pthread_cond_broadcast(&models->changed);
    }
    pthread_mutex_unlock(&models->lock);
    if (status != MICA_OK) mc_served_free(served);
    return status;
}

/* ---- models of folders ---- */

static mica_status take_adapters(mc_loading *loading, const mica_loading_options *given) {
    bool done = true;
    size_t n = given->adapter_count;
    if (!n) return MICA_OK;
    loading->adapter_names = mc_calloc(n, sizeof *loading->adapter_names);
    loading->adapter_folders = mc_calloc(n, sizeof *loading->adapter_folders);
    if (!loading->adapter_names || !loading->adapter_folders) return mc_fail_nomem("adapters");
    for (size_t i = 0; done && i < n; i++) {
        const char *name = given->adapter_names[i];
        if (!name || !*name || strchr(name, ':'))
            return mc_fail(MICA_EINVAL, "an adapter needs a name without a colon");
        for (size_t k = 0; k < i; k++)
            if (strcmp(name, given->adapter_names[k]) == 0)
                return mc_fail(MICA_EINVAL, "two adapters are called %s", name);
        loading->adapter_count = i + 1;
        loading->adapter_names[i] = copy(name, &done);
        loading->adapter_folders[i] = copy(given->adapter_folders[i], &done);
    }
    return done ? MICA_OK : mc_fail_nomem("adapters");
}

static mica_status take_serving(mica_serving_options *serving, const mica_serving_options *given) {
    mica_serving_options options;
    bool done = true;
    if (!given) return MICA_OK;
    MC_TRY(MC_OPTIONS_COPY(mica_serving_options, max_tokens, &options, given));
    options.prefix_cache = copy(options.prefix_cache, &done);
    *serving = options;
    return done ? MICA_OK : mc_fail_nomem("options of models");
}

/* The device that models share, if it is named: what there is room for is asked of it before the
 * first of them is opened. */
static mica_status open_device(mc_models *models) {
    const mica_model_options *model = &models->loading.model;
    const mica_device_options options = {.threads = model->threads};
    models->device = model->device;
    if (models->device)
        mc_device_retain(models->device);
    else if (model->device_name)
        MC_TRY(mica_device_open(model->device_name, &options, &models->device));
    return MICA_OK;
}

static mica_status take_options(mc_models *models, const mica_loading_options *given) {
    mc_loading *loading = &models->loading;
    bool done = true;
    if (given->model)
        MC_TRY(
            MC_OPTIONS_COPY(mica_model_options, pipeline_parallel, &loading->model, given->model));
    mica_model_options *model = &loading->model;
    if (model->device) mc_device_retain(model->device);
    model->engine = copy(model->engine, &done);
    model->device_name = copy(model->device_name, &done);
    model->adapter = copy(model->adapter, &done);
    model->chat_template = copy(model->chat_template, &done);
    if (!done) return mc_fail_nomem("options of models");
    if (model->cancel) return mc_fail(MICA_EINVAL, "mica_server_load: model.cancel is not watched");
    MC_TRY(take_serving(&loading->serving, given->serving));
    double keep = given->keep_alive_seconds != 0 ? given->keep_alive_seconds : 300;
    loading->keep_us = keep < 0 || keep > 1e9 ? MC_KEEP_ALWAYS : (int64_t)(keep * 1e6);
    loading->max_models = given->max_models;
    loading->memory_bytes = given->memory_bytes;
    if (given->max_models < 0)
        return mc_fail(MICA_EINVAL, "max_models %d: want 0 or more", given->max_models);
    MC_TRY(mc_catalog_set_places(&models->catalog, given->places, given->place_count));
    MC_TRY(take_adapters(loading, given));
    return open_device(models);
}

/* Other ranks load what was named, and no other model. */
static mica_status open_team(mc_models *models) {
    mica_group *group = models->loading.model.group;
    if (mica_group_size(group) == 1) return MICA_OK;
    if (mica_group_rank(group) > 0)
        return mc_fail(MICA_EINVAL, "mica_server_load: of rank 0; rank %d calls mica_server_follow",
                       mica_group_rank(group));
    MC_TRY(mc_catalog_set_places(&models->catalog, NULL, 0));
    return mc_team_open(group, &models->team);
}

/* Adds the models that are loaded at first. */
static mica_status add_named(mc_models *models, const mica_loading_options *given) {
    for (size_t i = 0; i < given->count; i++) {
        const char *name = given->names[i];
        if (!name || !*name) return mc_fail(MICA_EINVAL, "a served model needs a name");
        char *real = realpath(given->folders[i], NULL);
        mc_served *served = new_one(models, mc_str_of(name), NULL, real ? real : given->folders[i],
                                    models->loading.model.adapter, &models->loading.serving);
        free(real);
        if (!served) return mc_fail_nomem("a served model");
        served->stays = true;
        served->made = mc_catalog_made(served->folder);
        pthread_mutex_lock(&models->lock);
        bool known = find_model(models, mc_str_of(name)) != NULL;
        if (!known) {
            served->state = MC_SERVED_WANTED;
            served->wanted_us = mc_now_us();
            append(models, served);
        }
        pthread_mutex_unlock(&models->lock);
        if (!known) continue;
        mc_served_free(served);
        return mc_fail(MICA_EINVAL, "a model called %s is served already", name);
    }
    return MICA_OK;
}

/* Waits until they are there. */
static mica_status wait_for_named(mc_models *models) {
    mica_status status = MICA_OK;
    pthread_mutex_lock(&models->lock);
    for (mc_served *at = models->first; at && status == MICA_OK;) {
        if (!at->stays || at->was_loaded)
            at = at->next;
        else if (at->failed_us)
            status = mc_fail(at->status, "%s", at->error);
        else
            pthread_cond_wait(&models->changed, &models->lock);
    }
    pthread_mutex_unlock(&models->lock);
    return status;
}

mica_status mc_models_load(mc_models *models, const mica_loading_options *options,
                           void (*broken)(void *user), void *user) {
    if (models->has_thread) return mc_fail(MICA_EINVAL, "mica_server_load was called before");
    MC_TRY(take_options(models, options));
    MC_TRY(open_team(models));
    if (models->team) mc_team_watch(models->team, broken, user);
    MC_TRY(add_named(models, options));
    MC_TRY(mc_loader_start(models));
    return wait_for_named(models);
}

/* ---- names ---- */

/* The adapter that a name "BASE:ADAPTER" ends with, which is taken off it; NULL: none. */
static const char *split_adapter(const mc_loading *loading, mc_str *name) {
    for (size_t i = 0; i < loading->adapter_count; i++) {
        mc_str end = mc_str_of(loading->adapter_names[i]);
        if (name->len < end.len + 2 || !mc_str_ends(*name, end) ||
            name->ptr[name->len - end.len - 1] != ':')
            continue;
        name->len -= end.len + 1;
        return loading->adapter_folders[i];
    }
    return NULL;
}

/* Finds or adds the model of an installed folder, or of a served one with an adapter; NULL: there
 * is none, *nomem, or its entry has no memory. Called with the catalog's lock, too. */
static mc_served *add_installed(mc_models *models, mc_str name, bool *nomem) {
    mc_str base = name;
    const char *adapter = split_adapter(&models->loading, &base);
    const mc_served *served = adapter ? find_model(models, base) : NULL;
    const mc_installed *installed = served ? NULL : mc_catalog_find(&models->catalog, base);
    const char *folder = served ? served->folder : installed ? installed->folder : NULL;
    if (!folder || (served && served->base)) return NULL;
    mc_served *same = find_folder(models, folder, adapter);
    if (same) return same;
    const char *base_name = served ? served->name : installed->name;
    mc_served *added = new_one(models, name, adapter ? base_name : NULL, folder, adapter,
                               &models->loading.serving);
    *nomem = !added;
    if (!added) return NULL;
    added->made = installed ? installed->made : served->made;
    added->weight_bytes = installed ? installed->weight_bytes : served->weight_bytes;
    append(models, added);
    return added;
}

/* The model of a name, with a reference. Takes both locks. */
static mc_served *find_held(mc_models *models, mc_str name, mc_failure *failure) {
    bool nomem = false;
    pthread_mutex_lock(&models->lock);
    bool any = models->first || models->has_thread, loads = models->has_thread;
    mc_served *served = name.ptr ? find_model(models, name) : models->first;
    if (served && !name.ptr && !served->stays) served = NULL;
    if (served) served->refs++;
    pthread_mutex_unlock(&models->lock);
    if (!served && name.ptr && loads) {
        mc_catalog_lock(&models->catalog);
        pthread_mutex_lock(&models->lock);
        served = find_model(models, name); /* somebody else may have added it */
        if (!served) served = add_installed(models, name, &nomem);
        if (served) served->refs++;
        pthread_mutex_unlock(&models->lock);
        mc_catalog_unlock(&models->catalog);
    }
    if (served) return served;
    if (nomem)
        mc_failure_of(failure, mc_fail_nomem("a model"), NULL);
    else if (!any)
        mc_failure_set(failure, 503, "loading", "model", "the model is being loaded");
    else if (!name.ptr)
        mc_failure_set(failure, 400, "missing_field", "model",
                       "model is missing, and no model was named when the server was started");
    else
        mc_failure_set(failure, 404, "model_not_found", "model",
                       "there is no model %.*s; /v1/models has those that there are",
                       (int)(name.len < 200 ? name.len : 200), name.ptr);
    return NULL;
}

/* ---- references ---- */

enum { MAX_WAITING = 256 }; /* of requests for one model, without an option that says so */

/* Whether a model that is not loaded will be: then the request waits, but one of the server's own,
 * which comes again. Where memory was short, a client's request has it tried again at once; another
 * would come for ever. */
static bool is_coming(mc_models *models, mc_served *served, mc_exchange *http) {
    mc_failure *failure = &http->failure;
    size_t most = served->options.queue ? served->options.queue : MAX_WAITING;
    if (models->ending)
        return mc_failure_set(failure, 503, "draining", NULL, "the server is being stopped");
    if (served->state == MC_SERVED_IDLE && mc_served_has_failed(served) &&
        (served->status != MICA_ENOMEM || http->background))
        return mc_served_refuse(served, failure);
    if (served->state == MC_SERVED_IDLE) {
        served->state = MC_SERVED_WANTED;
        served->wanted_us = mc_now_us();
        pthread_cond_broadcast(&models->changed);
    }
    if (http->background)
        return mc_failure_set(failure, 503, "overloaded", "model", "the model is being loaded");
    return served->waiting_count < most ||
           mc_failure_set(failure, 503, "overloaded", "model",
                          "%zu requests wait for the model to be loaded, as many as may", most);
}

static void release(mc_exchange *http) {
    mc_served *served = http->served ? http->served : http->awaited;
    mc_made_drop(&http->models->made, http->made);
    http->made = NULL;
    if (!served) return;
    mc_models *models = served->models;
    pthread_mutex_lock(&models->lock);
    served->used_us = mc_now_us();
    if (--served->refs == 0) pthread_cond_broadcast(&models->changed);
    pthread_mutex_unlock(&models->lock);
}

const char *mc_models_name(const mc_exchange *http) {
    return http->made ? http->made->name : http->served->name;
}

mc_served *mc_models_take(mc_models *models, mc_exchange *http, mc_str name) {
    if (http->served) return http->served;   /* the handler runs again */
    mc_made_drop(&models->made, http->made); /* of another name that was tried */
    http->made = mc_made_hold(&models->made, http->key, name);
    http->models = models;
    http->release = release;
    if (http->made) name = mc_str_of(http->made->base);
    mc_served *served = find_held(models, name, &http->failure);
    if (!served) return NULL;
    pthread_mutex_lock(&models->lock);
    if (served->state == MC_SERVED_LOADED) {
        http->served = served;
    } else if (is_coming(models, served, http)) {
        http->failure = (mc_failure){0}; /* of another name that was tried */
        http->awaited = served;
        http->awaited_us = mc_now_us();
    } else {
        served->refs--;
    }
    pthread_mutex_unlock(&models->lock);
    return http->served;
}

double mc_models_left_seconds(const mc_exchange *http) {
    double seconds = http->served->options.max_seconds;
    if (seconds <= 0.0) return 0.0;
    double left = seconds - (double)(http->load_us + http->evaluated_us) / 1e6;
    return left > 1e-3 ? left : 1e-3;
}

/* Takes a request out of those that wait. false: it is not among them. */
static bool take_out(mc_served *served, mc_exchange *http) {
    mc_exchange **link = &served->waiting;
    while (*link && *link != http)
        link = &(*link)->next_waiting;
    if (!*link) return false;
    *link = http->next_waiting;
    served->waiting_count--;
    return true;
}

/* The client of a request that may wait is gone. The model lives as long as the request, which may
 * run already, and have given its reference back. */
static void on_gone(void *user) {
    mc_exchange *http = user;
    mc_models *models = http->models;
    pthread_mutex_lock(&models->lock);
    mc_served *served = http->awaited;
    if (served && take_out(served, http)) mc_loader_settle(models, served, http);
    pthread_mutex_unlock(&models->lock);
}

void mc_models_wait(mc_exchange *http) {
    mc_served *served = http->awaited;
    mc_models *models = served->models;
    mc_exchange_attach(http, &(mc_exchange_work){.hangup = on_gone, .user = http});
    pthread_mutex_lock(&models->lock);
    bool waits = !models->ending && mc_cancel_check(&http->cancel) == MICA_OK &&
                 (served->state == MC_SERVED_WANTED || served->state == MC_SERVED_LOADING ||
                  served->state == MC_SERVED_CLOSING);
    if (waits) {
        http->next_waiting = served->waiting;
        served->waiting = http;
        served->waiting_count++;
    } else {
        mc_loader_settle(models, served, http);
    }
    pthread_mutex_unlock(&models->lock);
}

/* One of those that wait for a model whose time is over; NULL: none. */
static mc_exchange *find_late(const mc_served *served) {
    mc_exchange *http = served->waiting;
    while (http && !mc_loader_is_late(served, http))
        http = http->next_waiting;
    return http;
}

void mc_models_refuse_late(mc_models *models) {
    mc_exchange *http;
    pthread_mutex_lock(&models->lock);
    for (mc_served *served = models->first; served; served = served->next)
        while ((http = find_late(served)) && take_out(served, http))
            mc_loader_settle(models, served, http);
    pthread_mutex_unlock(&models->lock);
}

/* ---- how long they stay ---- */

static bool set_keep(mc_served *served, int64_t keep_us, mc_failure *failure) {
    if (!served->folder && keep_us == 0)
        return mc_failure_set(failure, 400, "unsupported_value", "keep_alive",
                              "keep_alive: 0 is not supported: this model stays");
    if (keep_us == 0 || !served->stays) served->keep_us = keep_us;
    return true;
}

bool mc_models_keep(mc_exchange *http, int64_t keep_us) {
    mc_models *models = http->served->models;
    pthread_mutex_lock(&models->lock);
    bool done = set_keep(http->served, keep_us, &http->failure);
    pthread_mutex_unlock(&models->lock);
    return done;
}

bool mc_models_unload(mc_models *models, mc_str name, mc_failure *failure) {
    mc_served *served = find_held(models, name, failure);
    if (!served) return false;
    pthread_mutex_lock(&models->lock);
    bool done = set_keep(served, 0, failure);
    served->used_us = mc_now_us();
    served->refs--;
    if (done && served->state == MC_SERVED_LOADED && !served->refs) mc_loader_close(models, served);
    pthread_cond_broadcast(&models->changed);
    pthread_mutex_unlock(&models->lock);
    return done;
}

/* ---- the hub ---- */

void mc_models_refresh(mc_models *models) {
    mc_catalog_lock(&models->catalog);
    mc_catalog_forget(&models->catalog);
    mc_catalog_unlock(&models->catalog);
    pthread_mutex_lock(&models->lock);
    for (mc_served *at = models->first; at; at = at->next)
        if (at->was_loaded || !at->stays) at->failed_us = 0;
    pthread_cond_broadcast(&models->changed);
    pthread_mutex_unlock(&models->lock);
}

/* Whether a model's files, or its adapter's, are in that repository of the cache; or a model that
 * stays is called like it. */
static bool is_of(const mc_served *served, const char *part, const char *repository) {
    mica_model_info info = {.struct_bytes = sizeof info};
    const char *folder = served->folder;
    if (!folder) {
        mica_model_get_info(served->model, &info);
        folder = info.path;
    }
    return strstr(folder, part) || (served->adapter && strstr(served->adapter, part)) ||
           (served->stays && strcmp(served->name, repository) == 0);
}

/* Has no request come to the models of a repository any more. false: one of them is in use, and
 * all are as before. */
static bool take_off(mc_models *models, const char *part, const char *repository) {
    for (const mc_served *at = models->first; at; at = at->next)
        if (!at->removed && is_of(at, part, repository) &&
            (at->stays || at->refs > 0 || at->state == MC_SERVED_WANTED ||
             at->state == MC_SERVED_LOADING || at->state == MC_SERVED_CLOSING))
            return false;
    for (mc_served *at = models->first; at; at = at->next)
        at->removed = at->removed || is_of(at, part, repository);
    return true;
}

/* Closes the models whose files are gone; or, if these are still there, has requests come to them
 * again. */
static void settle_removed(mc_models *models, bool gone) {
    for (mc_served *at = models->first; at;) {
        if (!gone) at->removed = false; /* the catalog's lock is held: all are of one repository */
        bool closes = at->removed && at->state == MC_SERVED_LOADED;
        if (closes) mc_loader_close(models, at);
        at = closes ? models->first : at->next; /* the list may have changed meanwhile */
    }
}

bool mc_models_remove(mc_models *models, const char *repository, mc_failure *failure) {
    char part[300];
    const char *slash = strchr(repository, '/');
    int owner = slash ? (int)(slash - repository) : 0;
    snprintf(part, sizeof part, "/models--%.*s--%s/", owner, repository,
             slash ? slash + 1 : repository);
    mc_catalog_lock(&models->catalog);
    pthread_mutex_lock(&models->lock);
    bool idle = take_off(models, part, repository);
    pthread_mutex_unlock(&models->lock);
    mica_status status = idle ? mica_cache_remove(repository, NULL, NULL) : MICA_OK;
    pthread_mutex_lock(&models->lock);
    if (idle) settle_removed(models, status == MICA_OK);
    pthread_mutex_unlock(&models->lock);
    mc_catalog_forget(&models->catalog);
    mc_catalog_unlock(&models->catalog);
    if (!idle)
        return mc_failure_set(failure, 409, "model_in_use", "model", "%s is being served",
                              repository);
    if (status == MICA_EBUSY)
        return mc_failure_set(failure, 409, "model_in_use", "model", "%s", mica_last_error());
    return status == MICA_OK || mc_failure_of(failure, status, "model");
}
