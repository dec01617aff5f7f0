#include "io/recognise.h"

#include "base/arena.h"
#include "base/buffer.h"
#include "base/filemap.h"
#include "base/str.h"
#include "base/system.h"

#include <string.h>

enum { HEAD = 512, MAX_NAMED = 3 };

#define TORCH_TEXT                                                        \
    "of PyTorch, which mica does not read: save them as safetensors, as " \
    "AutoModel.from_pretrained(FOLDER).save_pretrained(NEW) of transformers does"

/* ---- files ---- */

/* A kind of file: by its first bytes from `at` on, or by the ending of its name. */
typedef struct file_kind {
    const char *bytes;
    size_t at;
    const char *ending, *text;
} file_kind;

static const file_kind file_kinds[] = {
    {"GGUF", 0, ".gguf", "is a GGUF file: make a model folder of it: mica convert FILE FOLDER"},
    {NULL, 0, ".onnx",
     "is an ONNX network: make a program of it: mica convert FILE PROGRAM, then mica program run "
     "PROGRAM"},
    {NULL, 0, ".bin", "has weights " TORCH_TEXT},
    {NULL, 0, ".pt", "has weights " TORCH_TEXT},
    {NULL, 0, ".pth", "has weights " TORCH_TEXT},
    {"PK\003\004", 0, ".zip", "is a zip archive: unpack it, and name the folder"},
    {"ustar", 257, ".tar", "is a tar archive: unpack it, and name the folder"},
    {"\037\213", 0, ".gz", "is compressed by gzip: unpack it, and name the folder"},
    {"\050\265\057\375", 0, ".zst", "is compressed by zstd: unpack it, and name the folder"},
    {"\3757zXZ", 0, ".xz", "is compressed by xz: unpack it, and name the folder"},
    {NULL, 0, "adapters.safetensors",
     "has the weights of an adapter: name the model, and the adapter's folder beside it"},
    {NULL, 0, "adapter_model.safetensors",
     "has the weights of an adapter: name the model, and the adapter's folder beside it"},
    {NULL, 0, ".safetensors",
     "has weights alone: name the folder that holds it, with config.json and tokenizer.json"},
    {NULL, 0, ".json", "is one file of a model: name the folder that holds it"},
};

static bool is_of_kind(const file_kind *kind, const char *path, const mc_filemap *head) {
    size_t n = kind->bytes ? strlen(kind->bytes) : 0;
    if (n > 0 && head->size >= kind->at + n && memcmp(head->data + kind->at, kind->bytes, n) == 0)
        return true;
    return kind->ending && mc_str_ends(mc_str_of(path), mc_str_of(kind->ending));
}

mica_status mc_recognise_file(const char *path) {
    mc_filemap head = {.size = 0};
    size_t size;
    const char *text = "is a file: a model is the folder that holds config.json and the weights "
                       "(*.safetensors)";
    mica_status status = mc_filemap_read_head(path, HEAD, &head, &size);
    if (status != MICA_OK) return status;
    status = mc_file_check_pointer(path, head.data, head.size);
    for (size_t i = sizeof file_kinds / sizeof *file_kinds; i-- > 0;)
        if (is_of_kind(&file_kinds[i], path, &head)) text = file_kinds[i].text;
    mc_filemap_close(&head);
    return status == MICA_OK ? mc_fail(MICA_EINVAL, "%s: %s", path, text) : status;
}

/* ---- folders ---- */

typedef struct folder_kind {
    const char *ending; /* of a file in it */
    const char *text;
} folder_kind;

static const folder_kind folder_kinds[] = {
    {"adapter_config.json",
     "is an adapter: name the model that it belongs to, and this folder beside it"},
    {".gguf", "holds a GGUF file: make a model folder of it: mica convert FILE FOLDER"},
    {".bin", "holds weights " TORCH_TEXT},
    {".pt", "holds weights " TORCH_TEXT},
    {".pth", "holds weights " TORCH_TEXT},
    {".h5", "holds weights of TensorFlow, which mica does not read: get the model's safetensors"},
    {".msgpack", "holds weights of Flax, which mica does not read: get the model's safetensors"},
    {".onnx", "holds an ONNX network: make a program of it: mica convert FILE PROGRAM"},
    {".zip", "holds an archive: unpack it, and name its folder"},
    {".tar", "holds an archive: unpack it, and name its folder"},
    {".tar.gz", "holds an archive: unpack it, and name its folder"},
    {".tgz", "holds an archive: unpack it, and name its folder"},
};

/* Appends the names of folders in a folder that hold a model, the first ones; *n: how many.
 * returns  false where memory is out */
static bool add_models(const char *path, const char **names, size_t count, mc_buffer *out,
                       size_t *n) {
    *n = 0;
    for (size_t i = 0; i < count; i++) {
        mc_buffer inner = {0};
        bool made =
            mc_buffer_printf(&inner, "%s/%s/config.json", path, names[i]) && mc_buffer_cstr(&inner);
        bool is = made && mc_path_is_file(inner.data);
        mc_buffer_deinit(&inner);
        if (!made) return false;
        if (is && (*n)++ < MAX_NAMED &&
            !mc_buffer_printf(out, "%s%s", out->len > 0 ? ", " : "", names[i]))
            return false;
    }
    if (*n > MAX_NAMED && !mc_buffer_printf(out, " and %zu more", *n - MAX_NAMED)) return false;
    return mc_buffer_cstr(out) != NULL;
}

/* A folder of the Hugging Face cache: the cache, a repository in it, or one of its folders. */
static bool is_of_cache(const char *path, const char **names, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (strncmp(names[i], "models--", 8) == 0) return true;
    const char *at = strstr(path, "models--");
    return at && (at == path || mc_is_slash(at[-1]));
}

static mica_status recognise(const char *path, const char *missing, const char **names,
                             size_t count, mc_buffer *models) {
    size_t n;
    if (count == 0)
        return mc_fail(MICA_ENOENT,
                       "%s: is an empty folder: a model's has config.json, tokenizer.json and "
                       "*.safetensors; mica pull ORG/NAME downloads one",
                       path);
    if (!add_models(path, names, count, models, &n)) return mc_fail_nomem(path);
    if (is_of_cache(path, names, count))
        return mc_fail(MICA_ENOENT,
                       "%s: is a folder of the Hugging Face cache: name the model as ORG/NAME, or "
                       "its folder below snapshots%s%s",
                       path, n > 0 ? ", which is here: " : "", n > 0 ? models->data : "");
    for (size_t i = 0; i < sizeof folder_kinds / sizeof *folder_kinds; i++)
        for (size_t k = 0; k < count; k++)
            if (mc_str_ends(mc_str_of(names[k]), mc_str_of(folder_kinds[i].ending)))
                return mc_fail(MICA_ENOENT, "%s: %s (%s)", path, folder_kinds[i].text, names[k]);
    if (n > 0)
        return mc_fail(MICA_ENOENT, "%s: is a folder of models: name one of them: %s", path,
                       models->data);
    return mc_fail(MICA_ENOENT,
                   "%s: not a model folder: %s missing: get it from where the model is from", path,
                   missing);
}

mica_status mc_recognise_folder(const char *path, const char *missing) {
    mc_arena arena = {0};
    mc_buffer models = {0};
    const char **names = NULL;
    size_t count = 0;
    mica_status status = mc_dir_list(path, "", &arena, &names, &count);
    if (status == MICA_OK) status = recognise(path, missing, names, count, &models);
    mc_buffer_deinit(&models);
    mc_arena_deinit(&arena);
    return status;
}
