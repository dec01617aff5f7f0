/* mica/engine.h: the engines, built in and registered. */
#include "base/alloc.h"
#include "base/cancel.h"
#include "base/options.h"
#include "engine/engine.h"
#include "io/folder.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

typedef struct entry {
    mc_engine engine; /* the first member: mc_engine_release is given it */
    bool built_in;
    struct entry *next; /* in order of preference */
    int64_t users;
    /* The last answer to available(). */
    bool asked;
    mica_status status;
    char reason[sizeof((mica_engine_info *)0)->reason];
    /* Of registered engines. */
    mica_engine outside;
    char name[MICA_ENGINE_NAME];
    char description[sizeof((mica_engine_info *)0)->description];
} entry;

static const mc_engine *const built_in[] = {
#define ENGINE(name) &mc_engine_##name,
#include "engine/engine_list.h"
};

#define BUILT_IN (sizeof built_in / sizeof *built_in)

/* The list and all that entries hold but functions and names are guarded by the lock. Engines'
 * functions are called without it, by who holds the entry. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static entry first_entries[BUILT_IN];
static entry *head;

/* ---- the list ---- */

/* Puts an entry behind those of the same preference. */
static void insert(entry *e) {
    entry **at = &head;
    while (*at && (*at)->engine.preference >= e->engine.preference)
        at = &(*at)->next;
    e->next = *at;
    *at = e;
}

/* Takes the lock; the list has the engines that are built in from the first time on. */
static void lock_list(void) {
    pthread_mutex_lock(&lock);
    for (size_t i = 0; !first_entries[BUILT_IN - 1].built_in && i < BUILT_IN; i++) {
        first_entries[i].engine = *built_in[i];
        first_entries[i].built_in = true;
        insert(&first_entries[i]);
    }
}

static void unlock_list(void) {
    pthread_mutex_unlock(&lock);
}

static entry *find_engine(const char *name) {
    entry *e = head;
    while (e && strcmp(e->engine.name, name) != 0)
        e = e->next;
    return e;
}

static mica_status no_engine(const char *name) {
    char known[256] = "";
    size_t len = 0;
    for (const entry *e = head; e && len < sizeof known; e = e->next)
        len += (size_t)snprintf(known + len, sizeof known - len, "%s%s", len ? ", " : "",
                                e->engine.name);
    return mc_fail(MICA_EINVAL, "there is no engine \"%s\"; the engines are: %s", name, known);
}

static mica_status hold_named(const char *name, entry **held) {
    lock_list();
    *held = find_engine(name);
    mica_status status = *held ? MICA_OK : no_engine(name);
    if (*held) (*held)->users++;
    unlock_list();
    return status;
}

static void release(entry *e) {
    lock_list();
    e->users--;
    unlock_list();
}

/* The entry behind a held one, held, which is released; NULL: the first. */
static entry *hold_next(entry *held) {
    lock_list();
    entry *next = held ? held->next : head;
    if (next) next->users++;
    if (held) held->users--;
    unlock_list();
    return next;
}

void mc_engine_release(const mc_engine *engine) {
    if (engine) release((entry *)(void *)engine);
}

/* ---- choosing ---- */

/* Asks a held engine whether it is available, and keeps the answer. */
static mica_status ask(entry *e, const mica_model_options *options) {
    const mc_engine *engine = &e->engine;
    mica_status status = engine->ops->available ? engine->ops->available(engine, options) : MICA_OK;
    lock_list();
    e->asked = true;
    e->status = status;
    *e->reason = 0;
    if (status != MICA_OK) mica_error_text(e->reason, sizeof e->reason);
    unlock_list();
    return status;
}

/* Finds the first engine that takes the folder (NULL: any) and is available; NULL: none. *hint gets
 * the reason of the first that would take it. */
static entry *find_first(const char *folder, const mica_model_options *options, char *hint,
                         size_t hint_bytes) {
    *hint = 0;
    for (entry *e = hold_next(NULL); e; e = hold_next(e)) {
        const mc_engine *engine = &e->engine;
        if (folder && !engine->ops->takes(engine, folder)) continue;
        if (ask(e, options) == MICA_OK) return e;
        if (!*hint)
            snprintf(hint, hint_bytes, "the engine \"%s\" may open it, but is not available: %s",
                     engine->name, mica_last_error());
    }
    return NULL;
}

static mica_status choose_named(const char *name, const mica_model_options *options,
                                mc_engine_choice *choice) {
    entry *e;
    MC_TRY(hold_named(name, &e));
    mica_status status = ask(e, options);
    if (status == MICA_OK) {
        choice->engine = &e->engine;
        return MICA_OK;
    }
    mc_fail(status, "the engine \"%s\" is not available: %s", name, mica_last_error());
    release(e);
    return status;
}

mica_status mc_engine_choose(const char *name, const char *folder,
                             const mica_model_options *options, mc_engine_choice *choice) {
    *choice = (mc_engine_choice){.engine = NULL};
    if (name) return choose_named(name, options, choice);
    entry *e = find_first(folder, options, choice->hint, sizeof choice->hint);
    if (e) {
        *choice->hint = 0;
    } else {
        MC_TRY(mc_cancel_check(options->cancel)); /* or no engine could answer */
        MC_TRY(mc_model_folder_check(folder));
        MC_TRY(hold_named(built_in[0]->name, &e));
    }
    choice->engine = &e->engine;
    return MICA_OK;
}

mica_status mc_engine_find_family(const char *folder, const mc_family **family) {
    mc_config *config;
    *family = NULL;
    MC_TRY(mc_config_load(folder, "config.json", MC_REQUIRED, &config));
    mc_config_scope root = mc_config_root(config);
    mica_status status = MICA_OK;
    if (mc_config_has(&root, "model_type") || mc_config_has(&root, "architectures"))
        status = mc_family_find(&root, NULL, family);
    mc_config_close(&config);
    return status;
}

/* ---- registering ---- */

/* The functions that an engine must have; NULL: it has them. */
static const char *find_missing(const mica_engine *e) {
    if (!e->model_open) return "model_open";
    if (!e->model_close) return "model_close";
    if (!e->session_open && (e->session_close || e->session_reset)) return "session_open";
    if (e->session_open && !e->session_close) return "session_close";
    if (!e->answer_open) return "answer_open";
    if (!e->answer_next) return "answer_next";
    return e->answer_close ? NULL : "answer_close";
}

static mica_status check(const mica_engine *engine) {
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyz0123456789_-.";
    size_t len = engine->name ? strlen(engine->name) : 0;
    if (!len || len >= MICA_ENGINE_NAME || strspn(engine->name, allowed) != len)
        return mc_fail(MICA_EINVAL,
                       "an engine's name is 1 to %d lower-case letters, digits, '_', '-' or '.', "
                       "not \"%s\"",
                       MICA_ENGINE_NAME - 1, engine->name ? engine->name : "");
    const char *missing = find_missing(engine);
    if (missing) return mc_fail(MICA_EINVAL, "engine %s: %s is NULL", engine->name, missing);
    return MICA_OK;
}

static mica_status add(entry *made) {
    lock_list();
    bool taken = find_engine(made->name) != NULL;
    if (!taken) insert(made);
    unlock_list();
    if (!taken) return MICA_OK;
    return mc_fail(MICA_EINVAL,
                   "there is an engine \"%s\" already: unregister it, or take another "
                   "name",
                   made->name);
}

mica_status mica_engine_register(const mica_engine *engine) {
    if (!engine) return mc_fail(MICA_EINVAL, "mica_engine_register: engine is NULL");
    entry *made = mc_calloc(1, sizeof *made);
    if (!made) return mc_fail_nomem("an engine");
    mica_engine *given = &made->outside;
    mica_status status = MC_OPTIONS_COPY(mica_engine, answer_close, given, engine);
    if (status == MICA_OK) status = check(given);
    if (status == MICA_OK) {
        snprintf(made->name, sizeof made->name, "%s", given->name);
        snprintf(made->description, sizeof made->description, "%s",
                 given->description ? given->description : "");
        given->name = made->name;
        given->description = made->description;
        made->engine = (mc_engine){.name = made->name,
                                   .description = made->description,
                                   .preference = given->preference,
                                   .ops = &mc_outside_ops,
                                   .outside = given};
        status = add(made);
    }
    if (status != MICA_OK) mc_free(made);
    return status;
}

/* Why an entry may not be removed. */
static mica_status check_unused(const entry *e) {
    if (e->built_in)
        return mc_fail(MICA_EINVAL, "the engine \"%s\" is built in: it cannot be unregistered",
                       e->engine.name);
    if (e->users)
        return mc_fail(MICA_EINVAL,
                       "the engine \"%s\" has %lld users: close the models that it opened, their "
                       "sessions and streams first",
                       e->name, (long long)e->users);
    return MICA_OK;
}

mica_status mica_engine_unregister(const char *name) {
    if (!name) return mc_fail(MICA_EINVAL, "mica_engine_unregister: name is NULL");
    lock_list();
    entry *e = find_engine(name), **at = &head;
    mica_status status = e ? check_unused(e) : no_engine(name);
    if (status == MICA_OK) {
        while (*at != e)
            at = &(*at)->next;
        *at = e->next;
    }
    unlock_list();
    if (status == MICA_OK) mc_free(e);
    return status;
}

mica_status mica_engine_fail(mica_status status, const char *text) {
    return mc_fail(status, "%s", text ? text : "");
}

/* ---- information ---- */

static mica_engine_info describe(const entry *e) {
    mica_engine_info info = {
        .preference = e->engine.preference,
        .users = e->users,
        .built_in = e->built_in,
        .asked = e->asked,
        .available = e->asked && e->status == MICA_OK,
    };
    snprintf(info.name, sizeof info.name, "%s", e->engine.name);
    snprintf(info.description, sizeof info.description, "%s", e->engine.description);
    snprintf(info.reason, sizeof info.reason, "%s", e->reason);
    return info;
}

bool mica_engine_list(size_t i, mica_engine_info *info) {
    mica_engine_info found = {0};
    lock_list();
    const entry *e = head;
    for (; e && i > 0; i--)
        e = e->next;
    if (e) found = describe(e);
    unlock_list();
    MC_INFO_COPY(mica_engine_info, reason, info, &found);
    return e != NULL;
}

/* Fills in what is known of a held entry, and releases it. */
static void describe_and_release(entry *e, mica_engine_info *info) {
    lock_list();
    e->users--;
    mica_engine_info found = describe(e);
    unlock_list();
    MC_INFO_COPY(mica_engine_info, reason, info, &found);
}

mica_status mica_engine_get(const char *name, mica_engine_info *info) {
    entry *e;
    if (!name) return mc_fail(MICA_EINVAL, "mica_engine_get: name is NULL");
    MC_TRY(hold_named(name, &e));
    (void)ask(e, NULL);
    describe_and_release(e, info);
    return MICA_OK;
}

mica_status mica_engine_default(const char *path, mica_engine_info *info) {
    char hint[sizeof((mc_engine_choice *)0)->hint];
    entry *e = find_first(path, NULL, hint, sizeof hint);
    if (e) {
        describe_and_release(e, info);
        return MICA_OK;
    }
    if (path) MC_TRY(mc_model_folder_check(path));
    return mc_fail(MICA_EUNSUPPORTED, "%s%sno engine of this build takes it%s%s", path ? path : "",
                   path ? ": " : "", *hint ? "; " : "", hint);
}
