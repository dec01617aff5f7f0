/* The models that a server serves, by name. Threads: any. */
#ifndef SERVE_MODELS_H
#define SERVE_MODELS_H

#include "base/str.h"
#include "grammar/grammar_constraint.h"
#include "schedule/schedule.h"
#include "serve/failure.h"

#include <mica/serve.h>

#include <pthread.h>

/* A model that is served. Lives as long as the server. */
typedef struct mc_served {
    struct mc_served *next;
    char *name;
    const mica_model *model;
    mc_schedule *schedule; /* computes its answers */
    mc_grammars *grammars; /* constrain them; NULL: the tokenizer allows none */
    mica_serving_options options;
    int64_t created; /* seconds since 1970 */
} mc_served;

typedef struct mc_models {
    pthread_mutex_t lock;
    mc_served *first, **last;
} mc_models;

void mc_models_init(mc_models *models);
void mc_models_deinit(mc_models *models);

/* errors  as mica_server_add */
mica_status mc_models_add(mc_models *models, const char *name, const mica_model *model,
                          const mica_serving_options *options);

/* The first one; NULL: there is none yet. The others follow by `next`. */
const mc_served *mc_models_first(mc_models *models);

/* The model that a request names; ptr NULL: the first one.
 * returns  NULL: *failure says 404, or 503 while there is none yet */
mc_served *mc_models_find(mc_models *models, mc_str name, mc_failure *failure);

#endif
