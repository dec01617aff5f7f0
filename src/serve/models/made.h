/* Models that requests have made of others (/api/create, /api/copy): a name, the system prompt that
 * conversations without one begin with, and parameters. Each key has its own; they end with the
 * server. The weights, caches and steps are those of the other model.
 *
 * Threads: any. A request that names one holds it until it ends. */
#ifndef SERVE_MODELS_MADE_H
#define SERVE_MODELS_MADE_H

#include "base/json.h"
#include "serve/common/failure.h"

#include <pthread.h>

enum { MC_MADE_MODELS = 256, MC_MADE_BYTES = 1 << 16 };

typedef struct mc_made {
    char *name, *base; /* base: that the server has */
    char *system;      /* "": none */
    char *parameters;  /* an object in JSON, of ollama's options */
    mc_json_doc *doc;  /* of these */
    size_t key;        /* whose it is */
    size_t refs;       /* requests that hold it, and the list */
    struct mc_made *next;
} mc_made;

typedef struct mc_made_list {
    pthread_mutex_t lock;
    mc_made *first;
} mc_made_list;

void mc_made_init(mc_made_list *list);
void mc_made_deinit(mc_made_list *list); /* no request is left */

/* Adds one, in place of another of that name and key. What it is given is copied.
 * returns  false: *failure says why: there are MC_MADE_MODELS, a text is too long, no memory */
bool mc_made_add(mc_made_list *list, size_t key, mc_str name, mc_str base, mc_str system,
                 mc_str parameters, mc_failure *failure);

/* Takes one out. false: there is none */
bool mc_made_remove(mc_made_list *list, size_t key, mc_str name);

/* One of them, to be dropped; NULL: there is none. */
mc_made *mc_made_hold(mc_made_list *list, size_t key, mc_str name);
void mc_made_drop(mc_made_list *list, mc_made *made); /* takes NULL */

/* The i-th of a key's, to be dropped; NULL: there are no more. */
mc_made *mc_made_at(mc_made_list *list, size_t key, size_t i);

#endif
