#include "io/folder.h"

#include "base/alloc.h"
#include "base/arena.h"
#include "base/filemap.h"
#include "io/recognise.h"

bool mc_model_folder_is(const char *path) {
    char *config = mc_path_join(path, "config.json");
    bool is = config && mc_path_is_file(config);
    mc_free(config);
    return is;
}

/* Opens config.json: the only reliable check that it can be read. */
static mica_status check_config(const char *path, bool *there) {
    char *name = mc_path_join(path, "config.json");
    if (!name) return mc_fail_nomem(path);
    mc_filemap map;
    mica_status status = mc_filemap_open(name, MC_FILE_CONFIG, &map);
    mc_filemap_close(&map);
    mc_free(name);
    *there = status == MICA_OK;
    return status == MICA_ENOENT ? MICA_OK : status;
}

static mica_status check_weights(const char *path, bool *there) {
    mc_arena arena = {0};
    const char **names;
    size_t count = 0;
    mica_status status = mc_dir_list(path, ".safetensors", &arena, &names, &count);
    mc_arena_deinit(&arena);
    *there = count > 0;
    return status;
}

mica_status mc_model_folder_check(const char *path) {
    if (mc_path_is_file(path)) return mc_recognise_file(path);
    bool config = false, weights = false;
    mica_status status = check_weights(path, &weights);
    if (status == MICA_ENOENT) return mc_fail(status, "%s: no such folder", path);
    if (status != MICA_OK) return status;
    MC_TRY(check_config(path, &config));
    if (config && weights) return MICA_OK;
    return mc_recognise_folder(path, config    ? "weights (*.safetensors) are"
                                     : weights ? "config.json is"
                                               : "config.json and weights (*.safetensors) are");
}
