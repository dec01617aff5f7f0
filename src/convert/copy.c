#include "convert/copy.h"

#include "base/alloc.h"
#include "base/arena.h"
#include "base/filemap.h"
#include "base/save.h"
#include "base/str.h"

#include <errno.h>
#include <stdio.h>

/* Endings of what is not copied. */
static const char *const left_out[] = {
    ".safetensors", ".safetensors.index.json",
    ".bin",         ".bin.index.json",
    ".pt",          ".pth",
    ".gguf",        ".h5",
    ".msgpack",     ".onnx",
    ".npz",         ".ot",
};

static bool is_copied(mc_str name) {
    for (size_t i = 0; i < sizeof left_out / sizeof *left_out; i++)
        if (mc_str_ends(name, mc_str_of(left_out[i]))) return false;
    return !mc_str_is(name, "config.json");
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

mica_status mc_copy_model_files(const char *from, const char *to) {
    mc_arena arena = {0};
    const char **names;
    size_t count = 0;
    mica_status status = mc_dir_list(from, "", &arena, &names, &count);
    for (size_t i = 0; status == MICA_OK && i < count; i++)
        if (is_copied(mc_str_of(names[i]))) status = copy_entry(from, to, names[i]);
    mc_arena_deinit(&arena);
    return status;
}
