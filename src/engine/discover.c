/* mica/discover.h: describes the model folders that are found, by their configs. */
#include "base/alloc.h"
#include "base/filemap.h"
#include "io/config.h"
#include "io/gguf_cache.h"
#include "io/hub_cache.h"
#include "io/model_search.h"
#include "io/safetensors.h"
#include "model/family.h"
#include "model/packing.h"

#include <mica/discover.h>

#include <stdlib.h>
#include <string.h>

typedef struct found_list {
    mica_model_list list; /* the first member: callers hold a pointer to it */
    mc_arena arena;       /* holds the models and all texts */
} found_list;

/* ---- configs ---- */

static mica_status copy(mc_arena *arena, mc_str text, const char **out) {
    *out = mc_arena_strndup(arena, text.len ? text.ptr : "", text.len);
    return *out ? MICA_OK : mc_fail_nomem("a list of models");
}

/* Finds the family by the names of the tensors, for a config that names no family. */
static mica_status find_by_tensors(const mc_config_scope *root, const char *folder,
                                   const mc_family **family) {
    mc_weights *weights;
    const mc_weights_options headers = {.headers = true};
    mica_status status = mc_weights_open(folder, &headers, &weights);
    if (status == MICA_OK) status = mc_family_find(root, weights, family);
    mc_weights_close(&weights);
    return status;
}

/* A key of the wrong type counts as absent; mica_model_open will report it. */
static mica_status describe_family(const mc_config_scope *root, mc_arena *arena,
                                   mica_found_model *model) {
    mc_str text = {NULL, 0}, names[16];
    size_t count = 0;
    (void)mc_config_str(root, "model_type", MC_OPTIONAL, &text);
    (void)mc_config_strs(root, "architectures", MC_OPTIONAL, names, 16, &count);
    if (!text.len && count) text = names[0];
    const mc_family *family = NULL;
    mica_status status = text.len ? mc_family_find(root, NULL, &family)
                                  : find_by_tensors(root, model->path, &family);
    if (status == MICA_ENOMEM) return status;
    if (status == MICA_OK) model->family = family->name;
    return copy(arena, text, &model->architecture);
}

/* Whether some modules are quantised differently from the others. */
static bool has_exceptions(const mc_packing *packing) {
    for (mc_json_iter it = mc_json_begin(packing->scope.object); mc_json_next(&it);)
        if (mc_json_get_type(it.value) == MC_JSON_OBJECT) return true;
    return false;
}

static mica_status describe_packing(const mc_config_scope *root, mc_arena *arena,
                                    mica_found_model *model) {
    mc_packing packing;
    mc_str method = MC_STR("unknown");
    char text[MC_PACKING_TEXT];
    if (mc_packing_read(root, &packing) != MICA_OK) {
        mc_json object = mc_json_find(root->object, "quantization_config");
        (void)mc_json_get_str(mc_json_find(object, "quant_method"), &method);
        return copy(arena, method, &model->quantization);
    }
    if (!packing.stated) return copy(arena, MC_STR("none"), &model->quantization);
    model->bits = packing.common.bits;
    model->group_size = packing.common.group_size;
    if (packing.method.len && !packing.common.bits)
        return copy(arena, packing.method, &model->quantization);
    if (!packing.common.bits || !packing.common.group_size)
        return copy(arena, mc_str_of(mc_packing_mode_name(packing.common.mode)),
                    &model->quantization);
    mc_packing_describe(&packing.common, has_exceptions(&packing), text);
    return copy(arena, mc_str_of(text), &model->quantization);
}

static mica_status keep(const mica_found_model *model, mc_arena *arena, mc_buffer *models) {
    mica_found_model *kept = mc_arena_alloc(arena, sizeof *kept);
    if (!kept) return mc_fail_nomem("a list of models");
    *kept = *model;
    return MC_BUFFER_PUSH(models, mica_found_model *, kept) ? MICA_OK
                                                            : mc_fail_nomem("a list of models");
}

/* Adds the model in a folder. Skips a folder whose config cannot be read. */
static mica_status add_model(const mc_found_folder *folder, mc_arena *arena, mc_buffer *models) {
    mc_config *config;
    mica_status status = mc_config_load(folder->path, "config.json", MC_REQUIRED, &config);
    if (status != MICA_OK) return status == MICA_ENOMEM ? status : MICA_OK;
    mica_found_model model = {.struct_bytes = sizeof model,
                              .path = folder->path,
                              .name = folder->name,
                              .weight_bytes = folder->weight_bytes,
                              .weight_files = folder->weight_files};
    mc_config_scope root = mc_config_root(config);
    status = describe_family(&root, arena, &model);
    if (status == MICA_OK) status = describe_packing(&root, arena, &model);
    if (status == MICA_OK) status = keep(&model, arena, models);
    mc_config_close(&config);
    return status;
}

/* ---- lists ---- */

static int compare(const void *a, const void *b) {
    const mica_found_model *x = *(mica_found_model *const *)a, *y = *(mica_found_model *const *)b;
    int order = strcmp(x->name, y->name);
    return order ? order : strcmp(x->path, y->path);
}

static mica_status describe_all(found_list *made, const mc_buffer *folders, mc_buffer *models) {
    for (size_t i = 0; i < MC_BUFFER_COUNT(folders, mc_found_folder); i++)
        MC_TRY(add_model(&MC_BUFFER_AT(folders, mc_found_folder)[i], &made->arena, models));
    size_t count = MC_BUFFER_COUNT(models, mica_found_model *);
    if (!count) return MICA_OK;
    const mica_found_model **sorted = mc_arena_alloc(&made->arena, models->len);
    if (!sorted) return mc_fail_nomem("a list of models");
    memcpy(sorted, models->data, models->len);
    qsort(sorted, count, sizeof *sorted, compare);
    made->list = (mica_model_list){sorted, count};
    return MICA_OK;
}

/* Adds the models of a cache, which need not be there. path: owned by this; NULL: no such cache. */
static mica_status search_cache(char *path, found_list *made, mc_buffer *folders) {
    mica_status status = path ? mc_model_folders_find(path, &made->arena, folders) : MICA_OK;
    mc_free(path);
    return status == MICA_ENOENT ? MICA_OK : status;
}

/* Drops, from the i-th on, folders whose GGUF files are gone or have changed. */
static mica_status drop_outdated(mc_buffer *folders, size_t i) {
    size_t kept = i, count = MC_BUFFER_COUNT(folders, mc_found_folder);
    mc_found_folder *all = MC_BUFFER_AT(folders, mc_found_folder);
    for (; i < count; i++) {
        mc_gguf_made origin;
        mica_status status = mc_gguf_origin_find(all[i].path, &origin);
        if (status == MICA_ENOMEM) return status;
        if (status != MICA_OK || origin != MC_GGUF_MADE) all[kept++] = all[i];
    }
    folders->len = kept * sizeof *all;
    return MICA_OK;
}

static mica_status search_caches(found_list *made, mc_buffer *folders) {
    char *cache = NULL;
    MC_TRY(mc_hub_cache_find(&cache));
    MC_TRY(search_cache(cache, made, folders));
    size_t count = MC_BUFFER_COUNT(folders, mc_found_folder);
    MC_TRY(mc_gguf_cache_find(&cache));
    MC_TRY(search_cache(cache, made, folders));
    return drop_outdated(folders, count);
}

static mica_status search(const char *path, found_list *made) {
    mc_buffer folders = {0}, models = {0};
    mica_status status =
        path ? mc_model_folders_find(path, &made->arena, &folders) : search_caches(made, &folders);
    if (status == MICA_OK) status = describe_all(made, &folders, &models);
    mc_buffer_deinit(&folders);
    mc_buffer_deinit(&models);
    return status;
}

mica_status mica_discover(const char *path, mica_model_list **list) {
    if (!list) return mc_fail(MICA_EINVAL, "mica_discover: list is NULL");
    *list = NULL;
    found_list *made = mc_calloc(1, sizeof *made);
    if (!made) return mc_fail_nomem("a list of models");
    mica_model_list *result = &made->list;
    mica_status status = search(path, made);
    if (status == MICA_OK)
        *list = result;
    else
        mica_model_list_free(&result);
    return status;
}

void mica_model_list_free(mica_model_list **list) {
    if (!list || !*list) return;
    found_list *made = (found_list *)(void *)*list;
    mc_arena_deinit(&made->arena);
    mc_free(made);
    *list = NULL;
}
