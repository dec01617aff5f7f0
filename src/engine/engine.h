/* Engines. An engine computes a model's tokens; it is a row of engine_list.h and a file, or an
 * application registers it (mica/engine.h).
 *
 * An engine takes token ids and gives tokens. Prompts, chat formats and the tokenizer are handled
 * above it and are the same for all engines. */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include "base/filemap.h"
#include "base/status.h"
#include "model/family.h"
#include "session/constraint.h"
#include "text/chat/prompt.h"

#include <mica/engine.h>

/* A model as its engine opened it. */
typedef struct mc_engine_model {
    void *state;
    mica_device *device;  /* NULL: the engine uses no mica_device */
    const char *chat;     /* built-in chat format of the model's family; NULL: none */
    mica_model_info info; /* all but path and engine */
} mc_engine_model;

/* An engine. `outside` is what mc_outside_ops call; other engines leave it NULL. */
typedef struct mc_engine {
    const char *name, *description;
    int64_t preference;
    const struct mc_engine_ops *ops;
    const mica_engine *outside;
} mc_engine;

typedef struct mc_engine_ops {
    /* As in mica_engine. */
    mica_status (*available)(const mc_engine *engine, const mica_model_options *options);
    bool (*takes)(const mc_engine *engine, const char *folder);

    /* Opens a model; after an error nothing is left open. Another thread opens the folder's
     * tokenizer and chat template meanwhile. If that fails, the watch ends this call. */
    mica_status (*open)(const mc_engine *engine, const char *folder,
                        const mica_model_options *options, const mc_file_watch *watch,
                        mc_engine_model *model);
    /* Reads weights ahead until all are read or the watch ends it: runs while the tokenizer is
     * still being opened. NULL: nothing to read. */
    void (*prefetch)(const void *model, const mc_file_watch *watch);
    /* `prompt` (tokenizer, stop ids) outlives the model. Called once, before any session. Sessions
     * are closed before the models that they were opened with, streams before their session. */
    void (*take_prompt)(void *model, const mc_prompt *prompt);
    void (*close)(void *model);
    /* As mica_model_get_kernels fills in; NULL: it cannot tell. */
    mica_model_kernels (*kernels)(const void *model, size_t i);
    uint64_t (*cache_bytes)(const void *model, int64_t tokens);
    /* The model for sessions in this process (mica/tasks.h); NULL: the engine computes
     * elsewhere. */
    const struct mc_session_model *(*local)(const void *model);

    mica_status (*session_open)(const void *model, const mica_session_options *options,
                                void **session);
    void (*session_close)(void *session);
    void (*session_reset)(void *session);
    /* As mica_session_fork, mica_session_save and mica_session_load; NULL: the engine cannot. */
    mica_status (*session_fork)(void *session, void **fork);
    mica_status (*session_save)(void *session, const char *path);
    mica_status (*session_load)(const void *model, const char *path,
                                const mica_session_options *options, void **session);

    /* As mica_generate_ids and the mica_stream functions. */
    mica_status (*stream_open)(void *session, const int32_t *ids, size_t count,
                               const mica_generate_options *options, void **stream);
    /* As mc_stream_constrain; NULL: the engine cannot. */
    mica_status (*stream_constrain)(void *stream, mc_constraint *constraint);
    void (*stream_close)(void *stream);
    bool (*stream_next)(void *stream, mica_token *token);
    mica_finish (*stream_finish)(const void *stream);
    mica_status (*stream_status)(const void *stream);
    void (*stream_cancel)(void *stream); /* async-signal-safe */
    mica_metrics (*stream_metrics)(const void *stream);
} mc_engine_ops;

/* Of engines that a mica_engine describes. */
extern const mc_engine_ops mc_outside_ops;

#define ENGINE(name) extern const mc_engine mc_engine_##name;
#include "engine/engine_list.h"

/* The engine for a folder, held: it stays registered until mc_engine_release. */
typedef struct mc_engine_choice {
    const mc_engine *engine;
    char hint[768]; /* for an error of the engine: which other engine would take the folder, and why
                       it is not available; "": none */
} mc_engine_choice;

/* Finds the engine of that name; name NULL: the first that takes the folder and is available, else
 * the first of all, whose error will say what is wrong with the folder.
 * errors  MICA_EINVAL no such engine (the text lists them); of an engine that is named and not
 *         available; those of mc_model_folder_check where no engine takes the folder */
mica_status mc_engine_choose(const char *name, const char *folder,
                             const mica_model_options *options, mc_engine_choice *choice);
void mc_engine_release(const mc_engine *engine); /* takes NULL */

/* The family of a folder's model as its config.json tells by model_type or architectures; NULL: it
 * has neither.
 * errors  those of the config readers and of mc_family_find */
mica_status mc_engine_find_family(const char *folder, const mc_family **family);

#endif
