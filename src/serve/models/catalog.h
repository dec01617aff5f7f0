/* The models of this machine that a server may load: what mica_discover finds in its places.
 *
 * A request's name is compared with the names of this list and with nothing else, so no path from a
 * request reaches the file system. The places are searched again when something is looked up and
 * the last search is MC_CATALOG_SECONDS old, or was forgotten.
 *
 * Threads: any; the lock is held for as long as what was found is used. */
#ifndef SERVE_MODELS_CATALOG_H
#define SERVE_MODELS_CATALOG_H

#include "base/arena.h"
#include "base/status.h"
#include "base/str.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum { MC_CATALOG_SECONDS = 1 };

/* An installed model. Strings live until the catalog is unlocked. */
typedef struct mc_installed {
    const char *name, *folder; /* folder: without links */
    const char *family, *architecture, *quantization;
    uint64_t weight_bytes;
    int64_t made; /* when it was downloaded or made, seconds since 1970; 0: not known */
} mc_installed;

typedef struct mc_catalog {
    pthread_mutex_t lock;
    const char **places; /* [place_count], NULL among them: the Hugging Face cache */
    size_t place_count;
    mc_installed *models; /* [count] */
    size_t count;
    mc_arena arena;   /* of what was found */
    uint64_t read_us; /* when the places were searched; 0: never */
} mc_catalog;

void mc_catalog_init(mc_catalog *catalog);
void mc_catalog_deinit(mc_catalog *catalog);

/* places: [count]. Copied. errors  MICA_ENOMEM */
mica_status mc_catalog_set_places(mc_catalog *catalog, const char *const *places, size_t count);

/* Locks it, and searches the places if that is due. A place that cannot be read has no models. */
void mc_catalog_lock(mc_catalog *catalog);
void mc_catalog_unlock(mc_catalog *catalog);

/* Called with the lock held. NULL: there is none of that name. */
const mc_installed *mc_catalog_find(const mc_catalog *catalog, mc_str name);

/* When a folder's model was made or downloaded, seconds since 1970; 0: not known. Needs no lock. */
int64_t mc_catalog_made(const char *folder);

/* The next lock searches the places again. Called with the lock held. */
void mc_catalog_forget(mc_catalog *catalog);

#endif
