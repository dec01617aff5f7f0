/* Device memory under arrays: a counted block.
 *
 * A device makes storages: of its own memory (mc_storage_new), or over memory of the host that it
 * adopts, such as a mapped file (mc_storage_adopt). Where a block lies is the device's `address`,
 * which nobody else reads through; `host` is the same memory for the host, where it can see it. The
 * count is the only thing that changes after the making; at zero, `release` frees. A count of one
 * and a donated array is what allows an op to write in place.
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
    void *address; /* the device's; an offset may be added in mc_backend.copy alone */
    void *host;    /* where the host reads it; NULL: it cannot */
    size_t bytes;
    bool read_only;                       /* a mapped file: never written in place */
    bool fallback;                        /* of the device that the scope's own falls back to */
    void (*release)(mc_storage *storage); /* frees the memory and the struct */
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
