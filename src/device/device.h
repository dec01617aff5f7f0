/* The open device: backend, memory, background thread. */
#ifndef DEVICE_DEVICE_H
#define DEVICE_DEVICE_H

#include <stdatomic.h>

#include "device/backend.h"
#include "device/memory.h"
#include "device/worker.h"

/* What another room keeps with a device: freed with it. The first member of its struct. */
typedef struct mc_device_part mc_device_part;
struct mc_device_part {
    void (*free)(mc_device_part *part);
};

struct mica_device {
    const mc_backend *backend;
    void *state;       /* the backend's */
    atomic_uint count; /* the opener's reference, and one for each scope and storage */
    mc_memory memory;
    _Atomic(mc_device_part *) plans; /* exec's plan cache; NULL until it is first needed */
    mc_worker worker; /* runs what mica_eval_async starts */
};

/* A storage of at least `bytes`, count one, content undefined. For memory an array lives in, and
 * for what a plan needs while it runs.
 * errors  MICA_ENOMEM, with the sizes and the limit */
mica_status mc_storage_new(mica_device *device, size_t bytes, mc_storage **storage);

void mc_device_retain(mica_device *device);
void mc_device_release(mica_device *device);

#endif
