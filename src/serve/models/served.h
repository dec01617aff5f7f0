/* What is known of the models of a server: serve/models/loader.h loads and closes them,
 * serve/models/models.h gives them to requests, and says how all of it works. */
#ifndef SERVE_MODELS_SERVED_H
#define SERVE_MODELS_SERVED_H

#include "base/cancel.h"
#include "schedule/schedule.h"
#include "serve/events/publisher.h"
#include "serve/http/exchange.h"
#include "serve/models/catalog.h"
#include "serve/models/made.h"
#include "session/lead.h"

#include <mica/serve.h>

#include <pthread.h>

typedef enum mc_served_state {
    MC_SERVED_IDLE,
    MC_SERVED_WANTED,
    MC_SERVED_LOADING,
    MC_SERVED_LOADED,
    MC_SERVED_CLOSING
} mc_served_state;

#define MC_KEEP_ALWAYS INT64_MAX

/* A model that is served. */
typedef struct mc_served {
    /* Never change. */
    struct mc_models *models;
    char *name;
    char *base;    /* the name of the model that has the adapter; NULL: it has none */
    char *folder;  /* NULL: it was given open, and stays so */
    char *adapter; /* its folder; NULL: none */
    bool stays;    /* it is named on the command line: only a request to unload it closes it */
    int64_t made;  /* of its files, seconds since 1970; 0: not known */
    mica_serving_options options; /* strings owned */
    /* Of a loaded one, for who has a reference. */
    const mica_model *model;
    mc_schedule *schedule; /* computes its answers */
    mc_kv_source *events;  /* of its caches; NULL: none are published */
    mc_lead *lead;         /* tells other ranks what the schedule does; NULL: there are none */
    int64_t created;       /* seconds since 1970: when it was loaded */
    /* Guarded by the lock of the models. */
    struct mc_served *next;
    mc_served_state state;
    size_t refs;           /* requests that use it or wait for it */
    mc_exchange *waiting;  /* those that wait, by http->next_waiting */
    size_t waiting_count;  /* how many these are: as many as may wait in its queue */
    int64_t keep_us;       /* how long it stays unused; MC_KEEP_ALWAYS: as long as there is room */
    uint64_t used_us;      /* when it was last used, or loaded */
    uint64_t wanted_us;    /* when it was asked for */
    uint64_t weight_bytes; /* of its folder; of a loaded one with that of its adapter */
    uint64_t cache_bytes;  /* budget of a loaded one */
    bool removed;          /* its files are being removed: no more request finds it */
    bool was_loaded;
    uint64_t failed_us; /* when it last failed to load; 0: it has not since */
    mica_status status; /* of that, with its text */
    char error[1024];
} mc_served;

/* How models are loaded; set once. */
typedef struct mc_loading {
    mica_model_options model;                /* strings owned */
    mica_serving_options serving;            /* strings owned */
    char **adapter_names, **adapter_folders; /* [adapter_count] */
    size_t adapter_count;
    int64_t keep_us;
    int max_models;        /* in memory; 0: no limit */
    uint64_t memory_bytes; /* of weights and caches; 0: three quarters of the device's */
} mc_loading;

typedef struct mc_models {
    mc_handlers *handlers; /* of the server */
    mc_catalog catalog;
    mc_made_list made;       /* of these, by requests */
    mc_kv_publisher *events; /* of the server; NULL: none are published */
    mc_team *team;           /* the ranks that compute together; NULL: this process alone does */
    int64_t leads;           /* of the team, so far: of the loader */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    mc_served *first;
    mc_loading loading;
    mica_device *device; /* that loaded models share; NULL: the cpu, and none is loaded */
    mica_cancel cancel;  /* ends the load under way */
    pthread_t thread;
    bool has_thread, ending;
    uint64_t loads, failures, unloads; /* since the server was opened */
} mc_models;

#endif
