/* The open device: backend, memory, plan cache, background thread. */
#ifndef DEVICE_DEVICE_H
#define DEVICE_DEVICE_H

#include <stdatomic.h>

#include "device/backend.h"
#include "device/memory.h"
#include "device/worker.h"

struct mica_device {
    const mc_backend *backend;
    void *state;       /* the backend's */
    atomic_uint count; /* the opener's reference, and one for each scope and storage */
    mc_memory memory;
    struct mc_plan_cache *plans;
    mc_worker worker; /* runs what mica_eval_async starts */
};

/* A storage of at least `bytes`, count one, content undefined. For memory an array lives in, and
 * for what a plan needs while it runs.
 * errors  MICA_ENOMEM, with the sizes and the limit */
mica_status mc_storage_new(mica_device *device, size_t bytes, mc_storage **storage);

void mc_device_retain(mica_device *device);
void mc_device_release(mica_device *device);

#endif
