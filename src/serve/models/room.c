#include "serve/models/room.h"

#include "base/system.h"
#include "device/device.h"

#include <inttypes.h>
#include <string.h>

/* The least that a model without a budget of its own gets for its caches. */
enum { MIN_CACHE_BYTES = 16 << 20 };

/* Which of the loaded models are counted. */
typedef enum kept { KEPT_ALL, KEPT_BUSY, KEPT_NAMED } kept;

/* Whether a model may be closed for the room of others. */
static bool may_go(const mc_served *served) {
    return served->folder && !served->stays;
}

static bool is_kept(const mc_served *served, kept which) {
    if (served->state != MC_SERVED_LOADED) return false;
    return which == KEPT_ALL || !may_go(served) || (which == KEPT_BUSY && served->refs > 0);
}

static uint64_t device_bytes(const mc_models *models) {
    return models->device ? mc_device_memory_bytes(models->device) : mc_memory_bytes();
}

static uint64_t limit_of(const mc_models *models) {
    uint64_t given = models->loading.memory_bytes;
    return given ? given : device_bytes(models) / 4 * 3;
}

/* Whether the device reads the files where they are mapped. */
static bool maps(const mc_models *models) {
    mica_device_info info = {.struct_bytes = sizeof info};
    if (!models->device) return true;
    mica_device_get_info(models->device, &info);
    return info.unified_memory;
}

/* Whether one that is counted stands before it in the list and maps the same files. */
static bool is_shared(const mc_models *models, const mc_served *served, const mc_served *next,
                      kept which) {
    if (!maps(models)) return false;
    for (const mc_served *at = models->first; served->folder && at != served; at = at->next)
        if ((at == next || is_kept(at, which)) && at->folder &&
            strcmp(at->folder, served->folder) == 0)
            return true;
    return false;
}

static uint64_t least_cache(const mc_served *next) {
    return next->options.cache_bytes ? next->options.cache_bytes : MIN_CACHE_BYTES;
}

/* What those that are kept take, and `next` (NULL: none). *count: how many these are. */
static uint64_t count(const mc_models *models, const mc_served *next, kept which, int *n) {
    uint64_t bytes = 0;
    *n = 0;
    for (const mc_served *at = models->first; at; at = at->next) {
        if (at != next && !is_kept(at, which)) continue;
        if (!is_shared(models, at, next, which)) bytes += at->weight_bytes;
        bytes += at == next ? least_cache(at) : at->cache_bytes;
        ++*n;
    }
    return bytes;
}

static bool fits(const mc_models *models, const mc_served *next, kept which) {
    int n;
    const mc_loading *loading = &models->loading;
    uint64_t bytes = count(models, next, which, &n);
    return bytes <= limit_of(models) && (!loading->max_models || n <= loading->max_models);
}

mc_room mc_room_find(const mc_models *models, const mc_served *next) {
    if (next->stays || fits(models, next, KEPT_BUSY)) return MC_ROOM_THERE;
    return fits(models, next, KEPT_NAMED) ? MC_ROOM_LATER : MC_ROOM_NEVER;
}

mc_served *mc_room_oldest(const mc_models *models, const mc_served *spared) {
    mc_served *oldest = NULL;
    for (mc_served *at = models->first; at; at = at->next)
        if (at != spared && at->state == MC_SERVED_LOADED && may_go(at) && !at->refs &&
            (!oldest || at->used_us < oldest->used_us))
            oldest = at;
    return oldest;
}

mc_served *mc_room_find_oldest(const mc_models *models, const mc_served *next,
                               const mc_served *spared) {
    return fits(models, next, KEPT_ALL) ? NULL : mc_room_oldest(models, spared);
}

uint64_t mc_room_cache_bytes(const mc_models *models, const mc_served *next) {
    int n;
    uint64_t limit = limit_of(models);
    if (next->options.cache_bytes) return next->options.cache_bytes;
    uint64_t taken = count(models, next, KEPT_BUSY, &n) - MIN_CACHE_BYTES;
    uint64_t left = taken < limit ? limit - taken : 0;
    if (left < MIN_CACHE_BYTES) left = MIN_CACHE_BYTES; /* one that stays */
    return left < device_bytes(models) / 4 ? left : 0;
}

mica_status mc_room_fail(const mc_models *models, const mc_served *next) {
    int n;
    uint64_t bytes = count(models, next, KEPT_BUSY, &n), limit = limit_of(models);
    if (bytes > limit)
        return mc_fail(MICA_ENOMEM,
                       "it and what is in use need %" PRIu64 " MiB, and models may have %" PRIu64
                       " MiB",
                       bytes >> 20, limit >> 20);
    return mc_fail(MICA_ENOMEM, "%d models may be in memory, and all are in use",
                   models->loading.max_models);
}
