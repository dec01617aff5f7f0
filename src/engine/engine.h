/* Engines. An engine computes a model's tokens; it is a row of engine_list.h and a file.
 *
 * An engine takes token ids and gives tokens. Prompts, chat formats and the tokenizer are handled
 * above it and are the same for all engines. */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include "base/filemap.h"
#include "base/status.h"
#include "text/chat/prompt.h"

#include <mica/model.h>

/* A model as its engine opened it. */
typedef struct mc_engine_model {
    void *state;
    mica_device *device;  /* NULL: the engine uses no mica_device */
    const char *chat;     /* built-in chat format of the model's family; NULL: none */
    mica_model_info info; /* all but path and engine */
} mc_engine_model;

typedef struct mc_engine {
    const char *name;

    /* Whether the engine can open such a folder: a cheap check that sets no error. */
    bool (*takes)(const char *folder);

    /* Opens a model; after an error nothing is left open. Another thread opens the folder's
     * tokenizer and chat template meanwhile. If that fails, the watch ends this call. */
    mica_status (*open)(const char *folder, const mica_model_options *options,
                        const mc_file_watch *watch, mc_engine_model *model);
    /* Reads weights ahead until all are read or the watch ends it: runs while the tokenizer is
     * still being opened. NULL: nothing to read. */
    void (*prefetch)(const void *model, const mc_file_watch *watch);
    /* `prompt` (tokenizer, stop ids) outlives the model. Called once, before any session. Sessions
     * are closed before the models that they were opened with, streams before their session. */
    void (*take_prompt)(void *model, const mc_prompt *prompt);
    void (*close)(void *model);
    /* As mica_model_get_kernels fills in. */
    mica_model_kernels (*kernels)(const void *model, size_t i);
    uint64_t (*cache_bytes)(const void *model, int64_t tokens);
    /* The model for sessions in this process (mica/tasks.h); NULL: the engine computes
     * elsewhere. */
    const struct mc_session_model *(*local)(const void *model);

    mica_status (*session_open)(const void *model, const mica_session_options *options,
                                void **session);
    void (*session_close)(void *session);
    void (*session_reset)(void *session);
    /* As mica_session_save and mica_session_load; NULL: the engine cannot. */
    mica_status (*session_save)(void *session, const char *path);
    mica_status (*session_load)(const void *model, const char *path,
                                const mica_session_options *options, void **session);

    /* As mica_generate_ids and the mica_stream functions. */
    mica_status (*stream_open)(void *session, const int32_t *ids, size_t count,
                               const mica_generate_options *options, void **stream);
    void (*stream_close)(void *stream);
    bool (*stream_next)(void *stream, mica_token *token);
    mica_finish (*stream_finish)(const void *stream);
    mica_status (*stream_status)(const void *stream);
    void (*stream_cancel)(void *stream); /* async-signal-safe */
    mica_metrics (*stream_metrics)(const void *stream);
} mc_engine;

#define ENGINE(name) extern const mc_engine mc_engine_##name;
#include "engine/engine_list.h"

/* The engine of that name; name NULL: the first engine that takes the folder.
 * errors  MICA_EINVAL no such engine (the text lists them); those of mc_model_folder_check;
 *         MICA_EUNSUPPORTED no engine takes the folder */
mica_status mc_engine_find(const char *name, const char *folder, const mc_engine **engine);

#endif
