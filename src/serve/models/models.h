/* The models of a server, by name: those that it was given open, and those of folders, which are
 * loaded when they are asked for.
 *
 * Names. A model of a folder is one that mica_server_load names, or an installed one (catalog.h),
 * or "BASE:ADAPTER": one of these with an adapter that mica_server_load names. A model with an
 * adapter is a model of its own, with a schedule and caches of its own; the weights are the same
 * mapped files. Of two names for one folder and adapter the first stands for both.
 *
 * Ownership. A request takes its model by mc_models_take, and has a reference to it until
 * mc_exchange_free, after all of its work was closed. A model that has references is not closed,
 * and its entry is not freed: a handler, and what it attached, use it without a lock.
 *
 * States. The loader (loader.c), a thread of its own, loads models, one at a time, and closes
 * them; who is asked to close one does so itself:
 *
 *     IDLE     not in memory             -> WANTED   somebody asks for it
 *     WANTED   it will be loaded         -> LOADING  it is next, and there is room for it
 *     LOADING  the loader opens it       -> LOADED, or IDLE with the failure
 *     LOADED   it answers                -> CLOSING  it has no references, and its time is over, or
 *                                                    its room is needed
 *     CLOSING  it is being closed        -> IDLE, or WANTED where somebody has asked meanwhile
 *
 * Waiting. No handler's thread waits for a model. mc_models_take returns NULL and sets
 * http->awaited; the handler returns; mc_models_wait then puts the request, with its reference,
 * among those that wait for the model. The loader gives each of them its model, or the failure, and
 * adds it to the handlers, which call the endpoint's function once more from its beginning. So an
 * endpoint does nothing of effect before mc_models_take. As many wait as the model's queue is long;
 * one whose client goes is taken out. A request that the server itself makes (http->background)
 * does not wait: it is refused as where a queue is full, and made again.
 *
 * Ending. A server that drains goes on loading: who waits was accepted. mc_loader_end cancels the
 * load that is under way, refuses all who wait, and ends the loader; it comes after the last
 * connection and before the handlers end.
 *
 * Locks: the catalog's before this one, this one before those of handlers and schedules. Threads:
 * any. */
#ifndef SERVE_MODELS_MODELS_H
#define SERVE_MODELS_MODELS_H

#include "base/str.h"
#include "serve/common/failure.h"
#include "serve/models/served.h"

void mc_models_init(mc_models *models, mc_handlers *handlers);
void mc_models_deinit(mc_models *models); /* no request is left; mc_loader_end was called */

/* errors  as mica_server_add */
mica_status mc_models_add(mc_models *models, const char *name, const mica_model *model,
                          const mica_serving_options *options);

/* broken: called once if a rank of the models' is gone. errors  as mica_server_load */
mica_status mc_models_load(mc_models *models, const mica_loading_options *options,
                           void (*broken)(void *user), void *user);

/* ---- for requests ---- */

/* The model that a request names; ptr NULL: the first of those that stay. The request keeps a
 * reference to it, and has no other model.
 * returns  NULL: http->failure says why, or http->awaited is to be loaded: the endpoint returns
 *          false */
mc_served *mc_models_take(mc_models *models, mc_exchange *http, mc_str name);

/* What answers call the model that a request has: the name of one that was made of another
 * (serve/made.h), else the model's own. */
const char *mc_models_name(const mc_exchange *http);

/* How long the request's model stays in memory after it; 0: no longer than it is used. One that was
 * named on the command line stays longer than any other time.
 * returns  false: it was given open and stays; http->failure says so */
bool mc_models_keep(mc_exchange *http, int64_t keep_us);

/* Closes a model, at once or when it has no requests any more.
 * returns  false: there is no such model, or it stays; *failure says why */
bool mc_models_unload(mc_models *models, mc_str name, mc_failure *failure);

/* How long the request may wait and be computed from now on, of its model's max_seconds: what
 * loading, and an evaluation before the answer, took is over. 0: no limit. */
double mc_models_left_seconds(const mc_exchange *http);

/* ---- for exchanges ---- */

/* Has a request, whose handler has returned, wait for http->awaited. It may run again at once: the
 * caller must not touch it any more. */
void mc_models_wait(mc_exchange *http);

/* Refuses those that wait and whose time is over: the loader may be busy for longer. */
void mc_models_refuse_late(mc_models *models);

/* ---- for lists ---- */

/* Whether all that was to be loaded at first is there, and something can be asked. */
bool mc_models_ready(mc_models *models);

/* The loaded models, with a reference to each; NULL: there is none, or no memory. */
mc_served **mc_models_hold(mc_models *models, size_t *count);
void mc_models_drop(mc_models *models, mc_served **held, size_t count); /* also frees the array */

/* What can be named by a request. */
typedef struct mc_model_row {
    const char *name, *base; /* base: of one with an adapter; NULL: it has none */
    bool loaded;
    int64_t time;         /* when it was loaded, else made; seconds since 1970 */
    int64_t expires;      /* when it is closed if nobody asks; -1: never */
    uint64_t cache_bytes; /* budget of a loaded one */
    int64_t max_tokens;   /* that its answers may have; 0: no limit, or it is not loaded */
    /* Of a loaded one: what it can be asked for. */
    bool completes, embeds, ranks, calls, thinks;
    mica_model_info info; /* of one that is not loaded: family, architecture, quantization and
                             weight_bytes; else "" and 0 */
} mc_model_row;

/* All of them, the first one first. Strings are in the arena, too.
 * errors  MICA_ENOMEM */
mica_status mc_models_list(mc_models *models, mc_arena *arena, mc_model_row **rows, size_t *count);

/* One of them.
 * returns  false: *failure says why */
bool mc_models_row(mc_models *models, mc_str name, mc_arena *arena, mc_model_row *row,
                   mc_failure *failure);

/* ---- for the hub ---- */

/* Installed models have changed. */
void mc_models_refresh(mc_models *models);

/* Removes a repository ORG/NAME from the cache, and closes its models, if they are loaded and have
 * no requests. Meanwhile no request finds them. If it cannot be removed they stay as they are.
 * returns  false: *failure says why: 409 it has requests, stays, or is being downloaded; 404 */
bool mc_models_remove(mc_models *models, const char *repository, mc_failure *failure);

#endif
