/* The models of a server for those who list them. */
#include "answer/format.h"
#include "base/alloc.h"
#include "base/system.h"
#include "engine/model.h"
#include "model/sentence.h"
#include "serve/models/loader.h"
#include "serve/models/models.h"
#include "session/session.h"
#include "task/encode.h"
#include "text/find.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

bool mc_models_ready(mc_models *models) {
    pthread_mutex_lock(&models->lock);
    bool ready = models->first || models->has_thread;
    for (const mc_served *at = models->first; at; at = at->next)
        ready = ready && (at->was_loaded || !at->stays);
    pthread_mutex_unlock(&models->lock);
    return ready;
}

mc_served **mc_models_hold(mc_models *models, size_t *count) {
    size_t room = 0;
    *count = 0;
    pthread_mutex_lock(&models->lock);
    for (const mc_served *at = models->first; at; at = at->next)
        room += at->state == MC_SERVED_LOADED;
    mc_served **held = room ? mc_calloc(room, sizeof *held) : NULL;
    for (mc_served *at = models->first; held && at; at = at->next) {
        if (at->state != MC_SERVED_LOADED) continue;
        at->refs++;
        held[(*count)++] = at;
    }
    pthread_mutex_unlock(&models->lock);
    return held;
}

void mc_models_drop(mc_models *models, mc_served **held, size_t count) {
    pthread_mutex_lock(&models->lock);
    for (size_t i = 0; i < count; i++)
        held[i]->refs--;
    pthread_cond_broadcast(&models->changed);
    pthread_mutex_unlock(&models->lock);
    mc_free(held);
}

/* ---- rows ---- */

/* Rows that are being made. */
typedef struct listing {
    mc_models *models;
    mc_arena *arena;
    mc_model_row *rows; /* [count], with room for all that may come */
    size_t count;
    bool failed;
} listing;

static const char *copy(listing *l, const char *text) {
    const char *copied = text ? mc_arena_strndup(l->arena, text, strlen(text)) : NULL;
    l->failed = l->failed || (text && !copied);
    return copied;
}

/* A new row: list_all has made room for all. */
static mc_model_row *add(listing *l, const char *name, const char *base, int64_t time) {
    mc_model_row *row = &l->rows[l->count++];
    *row = (mc_model_row){.name = copy(l, name), .base = copy(l, base), .time = time};
    row->expires = -1;
    row->info.path = row->info.engine = row->info.family = row->info.architecture = "";
    row->info.quantization = "";
    return row;
}

/* The most tokens of an answer: the limit, or all of a context that has an end; 0: no limit. */
static int64_t longest_answer(const mc_served *served, int64_t context) {
    const mc_session_model *local;
    int64_t limit = served->options.max_tokens;
    if (mc_model_local(served->model, &local) == MICA_OK && local->context) return limit;
    return limit && (limit < context || !context) ? limit : context;
}

/* An embedder or ranker with a language model's layers says no next token that means anything. */
static void set_uses(const mica_model *model, mc_model_row *row) {
    const mc_session_model *local;
    mc_str template = mc_model_template(model);
    const mc_lm *lm = mc_model_local(model, &local) == MICA_OK ? local->lm : NULL;
    row->embeds = lm && !lm->ranker && mc_encodes(lm) &&
                  (!lm->sentence || mc_sentence_check(lm->sentence) == MICA_OK);
    row->ranks = lm && (lm->ranker || (lm->sentence && lm->sentence->answers));
    row->completes = !lm || (!lm->spec.both_ways && !row->embeds && !row->ranks);
    row->calls = row->completes && mc_find(template, MC_STR("tools"), 0) < template.len;
    row->thinks = row->completes && mc_model_format(model)->think_end;
}

static void add_loaded(listing *l, const mc_served *served) {
    mc_model_row *row = add(l, served->name, served->base, served->created);
    uint64_t expires = mc_served_expires(served), now = mc_now_us();
    row->loaded = true;
    row->cache_bytes = served->cache_bytes;
    row->info.struct_bytes = sizeof row->info;
    mica_model_get_info(served->model, &row->info);
    row->max_tokens = longest_answer(served, row->info.context_length);
    set_uses(served->model, row);
    row->info.family = copy(l, row->info.family);
    row->info.architecture = copy(l, row->info.architecture);
    row->info.quantization = copy(l, row->info.quantization);
    row->info.path = row->info.engine = ""; /* would live no longer than the model */
    if (expires != UINT64_MAX)
        row->expires = (int64_t)time(NULL) +
                       (expires > now ? (int64_t)((expires - now + 999999) / 1000000) : 0);
}

static void add_installed(listing *l, const char *name, const char *base,
                          const mc_installed *installed) {
    mc_model_row *row = add(l, name, base, installed->made);
    row->info.family = copy(l, installed->family);
    row->info.architecture = copy(l, installed->architecture);
    row->info.quantization = copy(l, installed->quantization);
    row->info.weight_bytes = installed->weight_bytes;
}

static const mc_installed *find_installed(const mc_catalog *catalog, const char *folder) {
    for (size_t i = 0; i < catalog->count; i++)
        if (strcmp(catalog->models[i].folder, folder) == 0) return &catalog->models[i];
    return NULL;
}

static void add_served(listing *l, const mc_served *served) {
    const mc_installed *installed =
        served->folder ? find_installed(&l->models->catalog, served->folder) : NULL;
    if (served->state == MC_SERVED_LOADED)
        add_loaded(l, served);
    else if (installed)
        add_installed(l, served->name, served->base, installed);
    else if (served->stays)
        add(l, served->name, served->base, served->made)->info.weight_bytes = served->weight_bytes;
}

static bool is_listed(const listing *l, const char *name) {
    for (size_t i = 0; i < l->count; i++)
        if (l->rows[i].name && strcmp(l->rows[i].name, name) == 0) return true;
    return false;
}

/* Whether a folder is served already, under whatever name. */
static bool is_served(const mc_models *models, const char *folder) {
    for (const mc_served *at = models->first; at; at = at->next)
        if (!at->removed && at->folder && !at->base && strcmp(at->folder, folder) == 0) return true;
    return false;
}

/* The models that stay, with each of the adapters that no request has asked for yet. */
static void add_adapters(listing *l) {
    const mc_loading *loading = &l->models->loading;
    for (const mc_served *at = l->models->first; at; at = at->next) {
        if (!at->stays || !at->folder) continue;
        for (size_t i = 0; i < loading->adapter_count; i++) {
            size_t bytes = strlen(at->name) + strlen(loading->adapter_names[i]) + 2;
            char *name = mc_arena_alloc(l->arena, bytes);
            l->failed = l->failed || !name;
            if (!name) return;
            snprintf(name, bytes, "%s:%s", at->name, loading->adapter_names[i]);
            if (!is_listed(l, name))
                add(l, name, at->name, at->made)->info.weight_bytes = at->weight_bytes;
        }
    }
}

/* Called with both locks. */
static void list_all(listing *l) {
    const mc_catalog *catalog = &l->models->catalog;
    size_t entries = 0;
    for (const mc_served *at = l->models->first; at; at = at->next)
        entries++;
    size_t room = entries * (1 + l->models->loading.adapter_count) + catalog->count;
    l->rows = mc_arena_calloc(l->arena, (room ? room : 1) * sizeof *l->rows);
    l->failed = !l->rows;
    if (l->failed) return;
    for (const mc_served *at = l->models->first; at; at = at->next)
        if (!at->removed) add_served(l, at);
    add_adapters(l);
    for (size_t i = 0; i < catalog->count; i++)
        if (!is_served(l->models, catalog->models[i].folder) &&
            !is_listed(l, catalog->models[i].name))
            add_installed(l, catalog->models[i].name, NULL, &catalog->models[i]);
}

mica_status mc_models_list(mc_models *models, mc_arena *arena, mc_model_row **rows, size_t *count) {
    listing l = {.models = models, .arena = arena};
    mc_catalog_lock(&models->catalog);
    pthread_mutex_lock(&models->lock);
    list_all(&l);
    pthread_mutex_unlock(&models->lock);
    mc_catalog_unlock(&models->catalog);
    *rows = l.rows;
    *count = l.count;
    return l.failed ? mc_fail_nomem("a list of models") : MICA_OK;
}

bool mc_models_row(mc_models *models, mc_str name, mc_arena *arena, mc_model_row *row,
                   mc_failure *failure) {
    mc_model_row *rows;
    size_t count;
    if (mc_models_list(models, arena, &rows, &count) != MICA_OK)
        return mc_failure_of(failure, mc_fail_nomem("a list of models"), NULL);
    for (size_t i = 0; i < count; i++) {
        if (!mc_str_is(name, rows[i].name)) continue;
        *row = rows[i];
        return true;
    }
    return mc_failure_set(failure, 404, "model_not_found", "model",
                          "there is no model %.*s; /v1/models has those that there are",
                          (int)(name.len < 200 ? name.len : 200), name.ptr);
}
