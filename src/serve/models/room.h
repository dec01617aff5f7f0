/* Room for the models of a server: how many may be in memory, and how large (mc_loading). Weights
 * count once for a folder, whatever adapters it is loaded with; caches count by their budgets.
 *
 * Threads: the models' lock is held in all calls. */
#ifndef SERVE_MODELS_ROOM_H
#define SERVE_MODELS_ROOM_H

#include "serve/models/served.h"

typedef enum mc_room {
    MC_ROOM_THERE, /* now, or when models without requests are closed */
    MC_ROOM_LATER, /* when some of those that have requests now have none */
    MC_ROOM_NEVER  /* as long as those stay that were named */
} mc_room;

/* Whether there is room for a model that is not loaded. For one that stays there always is. */
mc_room mc_room_find(const mc_models *models, const mc_served *next);

/* The model to close next so that there is room for a model (NULL: for those that are loaded, when
 * `spared` must not go): the one used longest ago of those that have no requests and need not stay.
 * NULL: there is room, or nothing more to close. */
mc_served *mc_room_find_oldest(const mc_models *models, const mc_served *next,
                               const mc_served *spared);

/* The same whether or not there is room: memory is short for another reason. */
mc_served *mc_room_oldest(const mc_models *models, const mc_served *spared);

/* The budget for the caches of a model that is about to be opened: what is asked for, or what those
 * with requests leave; 0: the schedule's own default, which is less. */
uint64_t mc_room_cache_bytes(const mc_models *models, const mc_served *next);

/* Says why there is none. errors  MICA_ENOMEM, always */
mica_status mc_room_fail(const mc_models *models, const mc_served *next);

#endif
