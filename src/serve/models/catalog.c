#define _XOPEN_SOURCE 700 /* realpath */
#include "serve/models/catalog.h"

#include "base/alloc.h"
#include "base/system.h"

#include <mica/discover.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void mc_catalog_init(mc_catalog *catalog) {
    *catalog = (mc_catalog){0};
    pthread_mutex_init(&catalog->lock, NULL);
}

static void free_places(mc_catalog *catalog) {
    for (size_t i = 0; i < catalog->place_count; i++)
        mc_free((char *)catalog->places[i]);
    mc_free(catalog->places);
    catalog->places = NULL;
    catalog->place_count = 0;
}

void mc_catalog_deinit(mc_catalog *catalog) {
    free_places(catalog);
    mc_free(catalog->models);
    mc_arena_deinit(&catalog->arena);
    pthread_mutex_destroy(&catalog->lock);
}

mica_status mc_catalog_set_places(mc_catalog *catalog, const char *const *places, size_t count) {
    pthread_mutex_lock(&catalog->lock);
    free_places(catalog);
    bool done = true;
    catalog->places = count ? mc_calloc(count, sizeof *catalog->places) : NULL;
    for (size_t i = 0; catalog->places && done && i < count; i++) {
        catalog->places[i] = places[i] ? mc_strdup(places[i]) : NULL;
        done = catalog->places[i] || !places[i];
        catalog->place_count = i + 1;
    }
    catalog->read_us = 0;
    pthread_mutex_unlock(&catalog->lock);
    return done && (catalog->places || !count) ? MICA_OK : mc_fail_nomem("places of models");
}

/* ---- searching ---- */

static const char *copy(mc_arena *arena, const char *text) {
    return mc_arena_strndup(arena, text, strlen(text));
}

/* A folder without links, so that one model has one name for it; NULL: no memory. */
static const char *real_folder(mc_arena *arena, const char *path) {
    char *real = realpath(path, NULL);
    const char *folder = copy(arena, real ? real : path);
    free(real);
    return folder;
}

/* In the cache of Hugging Face config.json is a link that is as old as the model there. */
int64_t mc_catalog_made(const char *folder) {
    char path[4096];
    struct stat info;
    int n = snprintf(path, sizeof path, "%s/config.json", folder);
    return n > 0 && (size_t)n < sizeof path && lstat(path, &info) == 0 ? (int64_t)info.st_mtime : 0;
}

static bool add(mc_catalog *catalog, const mica_found_model *found) {
    mc_arena *arena = &catalog->arena;
    mc_installed *models =
        mc_realloc(catalog->models, (catalog->count + 1) * sizeof *catalog->models);
    if (!models) return false;
    catalog->models = models;
    mc_installed model = {
        .name = copy(arena, found->name),
        .folder = real_folder(arena, found->path),
        .family = copy(arena, found->family),
        .architecture = copy(arena, found->architecture),
        .quantization = copy(arena, found->quantization),
        .weight_bytes = found->weight_bytes,
        .made = mc_catalog_made(found->path),
    };
    if (!model.name || !model.folder || !model.family || !model.architecture || !model.quantization)
        return false;
    models[catalog->count++] = model;
    return true;
}

/* Searches a place. Of two models of one name the first counts, and those of a family that mica
 * does not know do not. */
static void search(mc_catalog *catalog, const char *place) {
    mica_model_list *list = NULL;
    if (mica_discover(place, &list) != MICA_OK) return;
    bool done = true;
    for (size_t i = 0; done && i < list->count; i++)
        if (list->models[i]->family && !mc_catalog_find(catalog, mc_str_of(list->models[i]->name)))
            done = add(catalog, list->models[i]);
    mica_model_list_free(&list);
}

void mc_catalog_lock(mc_catalog *catalog) {
    pthread_mutex_lock(&catalog->lock);
    uint64_t now = mc_now_us();
    if (catalog->read_us && now - catalog->read_us < MC_CATALOG_SECONDS * 1000000u) return;
    catalog->count = 0;
    mc_arena_deinit(&catalog->arena);
    catalog->arena = (mc_arena){0};
    for (size_t i = 0; i < catalog->place_count; i++)
        search(catalog, catalog->places[i]);
    catalog->read_us = now;
}

void mc_catalog_unlock(mc_catalog *catalog) {
    pthread_mutex_unlock(&catalog->lock);
}

const mc_installed *mc_catalog_find(const mc_catalog *catalog, mc_str name) {
    for (size_t i = 0; i < catalog->count; i++)
        if (mc_str_is(name, catalog->models[i].name)) return &catalog->models[i];
    return NULL;
}

void mc_catalog_forget(mc_catalog *catalog) {
    catalog->read_us = 0;
}
