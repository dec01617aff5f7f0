/* Finding the models of a machine: model folders under a path or in the Hugging Face cache.
 *
 *     mica_model_list *list = NULL;
 *     mica_discover(NULL, &list);
 *     for (size_t i = 0; i < list->count; i++) puts(list->models[i]->name);
 *     mica_model_list_free(&list);
 *
 * Only file names, sizes and config.json are read, and the names of the tensors if config.json
 * names no architecture. No weights are read.
 *
 * Threads: every function here may be called from any thread, also several at once. */
#ifndef MICA_DISCOVER_H
#define MICA_DISCOVER_H

#include <mica/api.h>
#include <mica/status.h>

#include <stddef.h>
#include <stdint.h>

MICA_BEGIN

/** A model folder: config.json and weights (*.safetensors). Strings live as long as the list. */
typedef struct mica_found_model {
    size_t struct_bytes;      /* see mica/api.h */
    const char *path;         /* for mica_model_open */
    const char *name;         /* in the Hugging Face cache "org/name", else the path relative to the
                                 searched folder; for the searched folder itself its last part */
    const char *family;       /* "gemma3"; NULL: mica does not know the architecture */
    const char *architecture; /* config.json's model_type, else its first architecture, else "" */
    const char *quantization; /* "4 bit, groups of 32 (affine)", "none"; or the method of another
                                 program, such as "gptq" */
    uint64_t weight_bytes;    /* size of the weights' files */
    uint64_t weight_files;    /* their number */
    int bits;                 /* of an element of most quantised weights; 0: none is quantised, or
                                 config.json does not tell, or mica cannot open them */
    int group_size;           /* elements that share a scale there; 0: likewise */
} mica_found_model;

/** The models found, sorted by name. Plain data: any one thread may free it. */
typedef struct mica_model_list {
    const mica_found_model *const *models; /* [count] */
    size_t count;                          /* number of models */
} mica_model_list;

/** Looks for model folders in a folder and below it, eight levels deep.
 *
 *  The search skips hidden folders, folders inside a model folder, folders that it cannot read, and
 *  models whose config.json is not a JSON object. It follows links, but searches no folder twice.
 *  Of a repository in the Hugging Face cache (models--org--name) it takes the snapshot that
 *  refs/main names, else the newest. Folders that mica_gguf_folder made count while the files that
 *  they were made of are there, and the same.
 *
 *  path    the folder. NULL: the Hugging Face cache, which is $HF_HUB_CACHE, else $HF_HOME/hub,
 *          else $XDG_CACHE_HOME/huggingface/hub, else ~/.cache/huggingface/hub; if it does not
 *          exist, the list is empty; and the cache of mica_gguf_folder. Borrowed.
 *  list    receives the list, owned by the caller; NULL after an error.
 *  errors  MICA_ENOENT, MICA_EIO the path cannot be read; MICA_EINVAL list is NULL; MICA_ENOMEM */
MICA_API mica_status mica_discover(const char *path, mica_model_list **list);

/** Frees *list and sets it to NULL. Does nothing for NULL. */
MICA_API void mica_model_list_free(mica_model_list **list);

MICA_END

#endif
