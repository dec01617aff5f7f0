/* Finding the models of a machine: model folders under a path, and in the Hugging Face cache.
 *
 *     mica_model_list *list = NULL;
 *     mica_discover(NULL, &list);
 *     for (size_t i = 0; i < list->count; i++) puts(list->models[i].name);
 *     mica_model_list_free(&list);
 *
 * Names, sizes and config.json are looked at; where that names no architecture, the names of the
 * tensors too. No weights are read. */
#ifndef MICA_DISCOVER_H
#define MICA_DISCOVER_H

#include <mica/api.h>
#include <mica/status.h>

#include <stddef.h>
#include <stdint.h>

MICA_BEGIN

/** A model folder: config.json and weights (*.safetensors). Strings live as long as the list. */
typedef struct mica_found_model {
    const char *path;         /* for mica_model_open */
    const char *name;         /* "org/name" in the Hugging Face cache, else the path below the one
                                 that was searched, or that one's own last part */
    const char *family;       /* "gemma3"; NULL: config and tensors are of none that mica knows */
    const char *architecture; /* config.json's model_type, else its first architecture, else "" */
    const char *quantization; /* "4 bit, groups of 32 (affine)", "none"; "gptq" and the like, which
                                 mica does not open */
    uint64_t weight_bytes;    /* size of the weights' files */
} mica_found_model;

/** The models found, by name. Plain data, which one thread may free. */
typedef struct mica_model_list {
    const mica_found_model *models; /* [count] */
    size_t count;                   /* how many */
} mica_model_list;

/** Looks for model folders in a folder and below it, eight levels deep.
 *
 *  What is in a model folder is not searched, nor are hidden folders. Of a repository of the
 *  Hugging Face cache (models--org--name) the snapshot is taken that refs/main names, else the
 *  newest. Folders that cannot be read and configs that are no JSON objects are passed over; links
 *  are followed, but no folder is searched twice.
 *
 *  path    the folder; NULL: the Hugging Face cache, which is $HF_HUB_CACHE, else $HF_HOME/hub,
 *          else $XDG_CACHE_HOME/huggingface/hub, else ~/.cache/huggingface/hub, and which need not
 *          be there. Borrowed.
 *  list    receives the list, owned by the caller; NULL after an error.
 *  errors  MICA_ENOENT, MICA_EIO the path cannot be read; MICA_EINVAL list is NULL; MICA_ENOMEM */
MICA_API mica_status mica_discover(const char *path, mica_model_list **list);

/** Frees *list and sets it to NULL; nothing for NULL. */
MICA_API void mica_model_list_free(mica_model_list **list);

MICA_END

#endif
