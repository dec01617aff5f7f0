/* Device memory under arrays: a counted block.
 *
 * A device makes storages (device/memory.h), a mapped file may stand behind one (weights). The
 * count is the only thing that changes after the making; at zero, `release` frees. A count of one
 * and a moved array is what allows an op to write in place.
 *
 * Threads: retain and release are safe from any thread. */
#ifndef GRAPH_STORAGE_H
#define GRAPH_STORAGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mc_storage mc_storage;
struct mc_storage {
    atomic_uint count;
    void *data;
    size_t bytes;
    bool read_only;                       /* a mapped file: never written in place */
    void (*release)(mc_storage *storage); /* frees data and the struct */
    void *owner;                          /* for release */
};

static inline mc_storage *mc_storage_retain(mc_storage *storage) {
    atomic_fetch_add_explicit(&storage->count, 1u, memory_order_relaxed);
    return storage;
}

static inline void mc_storage_release(mc_storage *storage) {
    if (!storage) return;
    if (atomic_fetch_sub_explicit(&storage->count, 1u, memory_order_acq_rel) == 1u)
        storage->release(storage);
}

static inline unsigned mc_storage_count(mc_storage *storage) {
    return atomic_load_explicit(&storage->count, memory_order_acquire);
}

#endif
