#include "serve/models/made.h"

#include "base/alloc.h"

void mc_made_init(mc_made_list *list) {
    *list = (mc_made_list){.first = NULL};
    pthread_mutex_init(&list->lock, NULL);
}

static void free_one(mc_made *made) {
    if (!made) return;
    mc_json_close(&made->doc);
    mc_free(made->name);
    mc_free(made->base);
    mc_free(made->system);
    mc_free(made->parameters);
    mc_free(made);
}

/* Called with the lock held. */
static void unref(mc_made *made) {
    if (made && --made->refs == 0) free_one(made);
}

void mc_made_deinit(mc_made_list *list) {
    for (mc_made *at = list->first, *next; at; at = next) {
        next = at->next;
        free_one(at);
    }
    pthread_mutex_destroy(&list->lock);
}

/* What leads to one; to NULL, at the end, where there is none. Called with the lock held. */
static mc_made **find_made(mc_made_list *list, size_t key, mc_str name) {
    mc_made **link = &list->first;
    while (*link && ((*link)->key != key || !mc_str_is(name, (*link)->name)))
        link = &(*link)->next;
    return link;
}

static mc_made *new_one(size_t key, mc_str name, mc_str base, mc_str system, mc_str parameters) {
    mc_made *made = mc_calloc(1, sizeof *made);
    if (!made) return NULL;
    made->key = key;
    made->refs = 1;
    made->name = mc_strndup(name.ptr, name.len);
    made->base = mc_strndup(base.ptr, base.len);
    made->system = mc_strndup(system.len ? system.ptr : "", system.len);
    made->parameters = mc_strndup(parameters.ptr, parameters.len);
    if (made->name && made->base && made->system && made->parameters &&
        mc_json_parse(made->parameters, parameters.len, "parameters", &made->doc) == MICA_OK)
        return made;
    free_one(made);
    return NULL;
}

bool mc_made_add(mc_made_list *list, size_t key, mc_str name, mc_str base, mc_str system,
                 mc_str parameters, mc_failure *failure) {
    if (system.len + parameters.len > MC_MADE_BYTES)
        return mc_failure_set(failure, 413, "too_large", "system",
                              "system and parameters have %zu bytes, the limit is %d",
                              system.len + parameters.len, MC_MADE_BYTES);
    mc_made *made = new_one(key, name, base, system, parameters);
    if (!made) return mc_failure_of(failure, mc_fail_nomem("a model"), NULL);
    size_t count = 0;
    pthread_mutex_lock(&list->lock);
    mc_made **link = find_made(list, key, name), *old = *link;
    for (mc_made *at = list->first; at; at = at->next)
        count++;
    bool room = old || count < MC_MADE_MODELS;
    if (room) {
        made->next = old ? old->next : NULL;
        *link = made;
        unref(old);
    }
    pthread_mutex_unlock(&list->lock);
    if (room) return true;
    free_one(made);
    return mc_failure_set(failure, 409, "too_many_models", "model",
                          "%d models were made: remove one by /api/delete", MC_MADE_MODELS);
}

bool mc_made_remove(mc_made_list *list, size_t key, mc_str name) {
    pthread_mutex_lock(&list->lock);
    mc_made **link = find_made(list, key, name), *old = *link;
    if (old) *link = old->next;
    unref(old);
    pthread_mutex_unlock(&list->lock);
    return old != NULL;
}

mc_made *mc_made_hold(mc_made_list *list, size_t key, mc_str name) {
    pthread_mutex_lock(&list->lock);
    mc_made *made = name.ptr ? *find_made(list, key, name) : NULL;
    if (made) made->refs++;
    pthread_mutex_unlock(&list->lock);
    return made;
}

void mc_made_drop(mc_made_list *list, mc_made *made) {
    pthread_mutex_lock(&list->lock);
    unref(made);
    pthread_mutex_unlock(&list->lock);
}

mc_made *mc_made_at(mc_made_list *list, size_t key, size_t i) {
    pthread_mutex_lock(&list->lock);
    mc_made *made = list->first;
    while (made && (made->key != key || i-- > 0))
        made = made->next;
    if (made) made->refs++;
    pthread_mutex_unlock(&list->lock);
    return made;
}
