/* Engines: what computes the tokens of models. The library has its own, "native"; an application
 * may register others at run time. The public functions for models, sessions, streams and batches
 * (mica/model.h, mica/tasks.h) then serve a registered engine's models, too.
 *
 * An engine takes token ids and gives tokens. Prompts, chat formats, the tokenizer, stop strings
 * and limits are handled by the library and are the same for all engines.
 *
 *     static mica_status next(void *answer, mica_token *token, mica_finish *finish) { ... }
 *     const mica_engine engine = {.struct_bytes = sizeof engine, .name = "mine", ...};
 *     mica_status status = mica_engine_register(&engine);
 *     if (!status) status = mica_model_open(path, &(mica_model_options){.engine = "mine"}, &model);
 *     ...
 *     mica_model_close(&model);
 *     status = mica_engine_unregister("mine");
 *
 * If a caller of mica_model_open names no engine, the first that takes the folder and is available
 * opens it: in order of preference, and of equal preferences in the order of registration.
 *
 * Threads: every function here may be called from any thread, but not from within an engine's own
 * functions, mica_engine_fail excepted. */
#ifndef MICA_ENGINE_H
#define MICA_ENGINE_H

#include <mica/api.h>
#include <mica/model.h>
#include <mica/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

MICA_BEGIN

/** Room for an engine's name, with its NUL. */
#define MICA_ENGINE_NAME 32

/** An engine: its functions. Those marked "may be NULL" are optional. A function that returns an
 *  error has called mica_engine_fail for its text.
 *
 *  What an engine is asked and cannot do is an error (MICA_EUNSUPPORTED) that names the option: an
 *  option is never ignored. The library has checked the ranges of options before, and does the work
 *  of stop_strings, ignore_eos, echo, truncate, template_variables and tools itself. It refuses a
 *  constraint for all engines but "native". Options are structs of the library: their struct_bytes
 *  says which members it knows.
 *
 *  Threads: functions of one session and of its answers are called by one thread at a time,
 *  answer_cancel excepted; those of different sessions, and those of the engine and of its models,
 *  by any number of threads at once. */
typedef struct mica_engine {
    size_t struct_bytes;     /* sizeof(mica_engine), or 0: see mica/api.h */
    const char *name;        /* lower-case letters, digits, '_', '-' and '.'. Copied */
    const char *description; /* a line for people; NULL: none. Copied */
    void *user;              /* given to available, takes and model_open */
    int64_t preference;      /* engines with a higher one are asked first; that of "native" is 0 */

    /** Whether the engine can work here, asked before each use: MICA_OK, or a status whose text
     *  says what is missing and how to get it. options: of the model to be opened, NULL: none yet.
     *  May be NULL: always. */
    mica_status (*available)(void *user, const mica_model_options *options);
    /** Whether the engine can open a folder, for callers that name no engine: a cheap check. May be
     *  NULL: it never opens a folder unless it is named. */
    bool (*takes)(void *user, const char *path);

    /** Opens a model. After an error nothing is left open. *model: not NULL. */
    mica_status (*model_open)(void *user, const char *path, const mica_model_options *options,
                              void **model);
    /** Closes a model. */
    void (*model_close)(void *model);
    /** What the model is, in the engine's own memory, as long as the model. path and engine are
     *  filled in by the library. A vocab_size of 0 is the tokenizer's, a context_length of 0 is no
     *  limit. May be NULL: nothing is known. */
    const mica_model_info *(*model_info)(const void *model);

    /** Opens a session. Sessions are closed before their model. All three may be NULL: a session
     *  has no state, and answer_open gets the model instead. session_reset alone may be, too. */
    mica_status (*session_open)(void *model, const mica_session_options *options, void **session);
    /** Closes a session. */
    void (*session_close)(void *session);
    /** Forgets what the session has computed. */
    void (*session_reset)(void *session);

    /** Begins an answer to ids[count], count >= 1; nothing needs to be computed yet. options:
     *  stop_ids include the model's own, unless ignore_eos is set. ids, options and what these
     *  point at are borrowed for the call. Answers are closed before their session, which may begin
     *  another before that: the library then asks no more of the first. *answer: not NULL. */
    mica_status (*answer_open)(void *session, const int32_t *ids, size_t count,
                               const mica_generate_options *options, void **answer);
    /** Computes the next token: sets token->id and, if asked for, logprob and the alternatives,
     *  which stay valid until the next call. A token of stop_ids may be given: it ends the answer.
     *  Or there is no token, and *finish, MICA_FINISH_NONE before, becomes MICA_FINISH_STOP or
     *  MICA_FINISH_LENGTH. It is not called again after that or after an error. */
    mica_status (*answer_next)(void *answer, mica_token *token, mica_finish *finish);
    /** The answer is not wanted any more: a running or later answer_next returns soon, with
     *  MICA_ECANCELLED. Called from any thread and from signal handlers, also after the end. May be
     *  NULL: it is cancelled between two tokens. */
    void (*answer_cancel)(void *answer);
    /** What the engine measured, in its own memory, until the next call: 0 is not measured, and the
     *  library's own figures stand for it. May be NULL. */
    const mica_metrics *(*answer_metrics)(const void *answer);
    /** Closes an answer, at any time between two calls of answer_next. */
    void (*answer_close)(void *answer);
} mica_engine;

/** Sets the error text of the calling thread, for functions of an engine, and returns `status`.
 *
 *  text  UTF-8, cut at 1,023 bytes. Borrowed. */
MICA_API mica_status mica_engine_fail(mica_status status, const char *text);

/** Adds an engine to those that mica_model_open knows.
 *
 *  engine  copied; its functions and `user` must work until it is unregistered.
 *  errors  MICA_EINVAL a name that is malformed, too long or taken; a function that is missing (the
 *          text names it); MICA_ENOMEM */
MICA_API mica_status mica_engine_register(const mica_engine *engine);

/** Takes an engine away. After MICA_OK none of its functions is called any more.
 *
 *  errors  MICA_EINVAL no engine of that name, it is built in, or it is in use: by open models
 *          (sessions and streams keep theirs open), or by a call in another thread that asks it.
 *          It then stays registered */
MICA_API mica_status mica_engine_unregister(const char *name);

/** Options of the engine "mlx_lm", which computes by Python's mlx-lm in a process of its own
 *  (mica_model_options.mlx_lm); zero means the environment variable, else the default.
 *
 *  The engine does what mlx-lm can: it neither drafts nor forgets tokens, and leaves the type of
 *  caches, threads and device to mlx-lm; options for these are MICA_EUNSUPPORTED. Activations stay
 *  floats, whatever `arithmetic` says. Answers of a model come one at a time, others wait in turn.
 *  The folder's tokenizer and chat template are read by mica, as for all engines.
 *
 *  A process that dies, hangs or talks nonsense is MICA_EIO or MICA_EFORMAT of all its answers, and
 *  is ended; opening the model again starts a new one. */
typedef struct mica_mlx_lm_options {
    size_t struct_bytes;  /* see mica/api.h */
    const char *python;   /* a program, or its name on PATH. MICA_MLX_LM_PYTHON; "python3", on
                             Windows "python". Borrowed */
    const char *paths;    /* folders, separated by ':', on Windows by ';', in which Python looks for
                             modules first. MICA_MLX_LM_PATH; none. Borrowed */
    double start_seconds; /* how long Python may take to tell whether mlx-lm is there.
                             MICA_MLX_LM_START_SECONDS; 30 */
    double load_seconds;  /* how long it may take to load a model. MICA_MLX_LM_LOAD_SECONDS; 600 */
    double silence_seconds; /* how long it may take for a token, or for a chunk of prefill.
                               MICA_MLX_LM_SILENCE_SECONDS; 300 */
} mica_mlx_lm_options;

/** What an engine is, and whether it can be used. */
typedef struct mica_engine_info {
    size_t struct_bytes;         /* see mica/api.h */
    char name[MICA_ENGINE_NAME]; /* "native" */
    char description[128];       /* a line for people; "" for none */
    int64_t preference;          /* as in mica_engine */
    int64_t users;               /* open models, and calls that ask it now */
    bool built_in;               /* false: an application registered it */
    bool asked;                  /* whether it was asked if it is available */
    bool available;              /* the last answer; false if it was not asked */
    char
        reason[509]; /* why it is not available, and how to get it; "" if it is, or was not asked */
} mica_engine_info;

/** The i-th engine in order of preference, without asking it anything: `available` and `reason` are
 *  of the last time that somebody did.
 *
 *  info     is filled; may be NULL.
 *  returns  false past the end; *info is then all zero */
MICA_API bool mica_engine_list(size_t i, mica_engine_info *info);

/** An engine by its name, which is asked whether it is available.
 *
 *  info    is filled; may be NULL.
 *  errors  MICA_EINVAL no such engine (the text lists them) */
MICA_API mica_status mica_engine_get(const char *name, mica_engine_info *info);

/** The engine that mica_model_open chooses if its caller names none.
 *
 *  path    the folder; NULL: the first engine that is available.
 *  info    is filled; may be NULL.
 *  errors  MICA_ENOENT, MICA_EINVAL, MICA_EIO the path is no model folder; MICA_EUNSUPPORTED no
 *          engine that is available takes it (the text has the reasons); MICA_ENOMEM */
MICA_API mica_status mica_engine_default(const char *path, mica_engine_info *info);

MICA_END

#endif
