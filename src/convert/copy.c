#include "convert/copy.h"

#include "base/alloc.h"
#include "base/arena.h"
#include "base/filemap.h"
#include "base/folder.h"
#include "base/json.h"
#include "base/save.h"
#include "base/str.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Endings of what is not copied. */
static const char *const left_out[] = {
    ".safetensors", ".safetensors.index.json",
    ".bin",         ".bin.index.json",
    ".pt",          ".pth",
    ".gguf",        ".h5",
    ".msgpack",     ".onnx",
    ".npz",         ".ot",
};

static bool is_left_out(mc_str name) {
    for (size_t i = 0; i < sizeof left_out / sizeof *left_out; i++)
        if (mc_str_ends(name, mc_str_of(left_out[i]))) return true;
    return false;
}

static bool is_copied(mc_str name) {
    return !is_left_out(name) && !mc_str_is(name, "config.json");
}

/* Of a module's folder: its weights, too. */
static bool is_modules(mc_str name) {
    return !is_left_out(name) || mc_str_ends(name, MC_STR(".safetensors")) ||
           mc_str_ends(name, MC_STR(".safetensors.index.json"));
}

static mica_status copy_bytes(FILE *in, const char *from, mc_save *save) {
    char bytes[1 << 14];
    size_t n;
    errno = 0;
    while ((n = fread(bytes, 1, sizeof bytes, in)) > 0)
        if (fwrite(bytes, 1, n, save->file) != n)
            return mc_fail_errno(errno ? errno : EIO, "cannot write %s", save->path);
    return ferror(in) ? mc_fail_errno(errno ? errno : EIO, "cannot read %s", from) : MICA_OK;
}

static mica_status copy_file(const char *from, const char *to) {
    mc_save save;
    FILE *in = fopen(from, "rb");
    if (!in) return mc_fail_errno(errno, "cannot read %s", from);
    mica_status status = mc_save_open(&save, to);
    if (status == MICA_OK) status = mc_save_close(&save, copy_bytes(in, from, &save));
    fclose(in);
    return status;
}

static mica_status copy_entry(const char *from_dir, const char *to_dir, const char *name) {
    char *from = mc_path_join(from_dir, name), *to = mc_path_join(to_dir, name);
    mica_status status = from && to ? MICA_OK : mc_fail_nomem(name);
    if (status == MICA_OK && mc_path_is_file(from)) status = copy_file(from, to);
    mc_free(from);
    mc_free(to);
    return status;
}

static mica_status copy_folder(const char *from, const char *to, bool (*wanted)(mc_str name)) {
    mc_arena arena = {0};
    const char **names;
    size_t count = 0;
    mica_status status = mc_dir_list(from, "", &arena, &names, &count);
    for (size_t i = 0; status == MICA_OK && i < count; i++)
        if (wanted(mc_str_of(names[i]))) status = copy_entry(from, to, names[i]);
    mc_arena_deinit(&arena);
    return status;
}

/* ---- the modules of sentence-transformers ---- */

static mica_status copy_module(const char *from_dir, const char *to_dir, mc_str path) {
    char name[256];
    if (path.len >= sizeof name || !mc_is_entry_name(path))
        return MICA_OK; /* the model's own folder; others are none of a model */
    snprintf(name, sizeof name, "%.*s", MC_STR_ARG(path));
    char *from = mc_path_join(from_dir, name), *to = mc_path_join(to_dir, name);
    mica_status status = from && to ? MICA_OK : mc_fail_nomem(name);
    if (status == MICA_OK && mc_path_is_dir(from)) { /* that of a norm may be absent */
        status = mc_folder_make(to);
        if (status == MICA_OK) status = copy_folder(from, to, is_modules);
    }
    mc_free(from);
    mc_free(to);
    return status;
}

static mica_status copy_modules(const char *from, const char *to) {
    mc_json_doc *doc = NULL;
    char *path = mc_path_join(from, "modules.json");
    if (!path) return mc_fail_nomem("path");
    bool there = mc_path_is_file(path);
    mica_status status = there ? mc_json_load(path, MC_FILE_CONFIG, &doc) : MICA_OK;
    mc_free(path);
    if (!there || status != MICA_OK) return status;
    for (mc_json_iter it = mc_json_begin(mc_json_root(doc)); mc_json_next(&it);) {
        mc_str folder = MC_STR("");
        mc_json_get_str(mc_json_find(it.value, "path"), &folder);
        if (status == MICA_OK) status = copy_module(from, to, folder);
    }
    mc_json_close(&doc);
    return status;
}

mica_status mc_copy_model_files(const char *from, const char *to) {
    MC_TRY(copy_folder(from, to, is_copied));
    return copy_modules(from, to);
}
