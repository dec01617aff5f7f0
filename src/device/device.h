/* The open device: backend, memory, background thread. */
#ifndef DEVICE_DEVICE_H
#define DEVICE_DEVICE_H

#include <pthread.h>
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
    _Atomic(mc_device_part *) graphs; /* exec's cache of graphs; NULL until it is first needed */
    _Atomic(mc_device_part *) rates;  /* what cost/rates.h measured; NULL until it is needed */
    _Atomic(mica_device *) fallback;  /* NULL until it is first needed */
    int threads;                      /* as the options of the opening said: for the fallback */
    bool is_fallback;                 /* of another device */
    atomic_ullong fallback_ops;       /* mica_device_fallback_ops */
    pthread_mutex_t prepared_lock;    /* of the next */
    struct mc_prepared *prepared;     /* what kernels made of constants (exec/steps/prepared.h) */
    mc_worker worker;                 /* runs what mica_eval_async starts */
};

/* mica_device_open with a backend that need not be in device_list.h. variant: as mc_backend.open
 * takes it. */
mica_status mc_device_open_backend(const mc_backend *backend, const char *variant,
                                   const mica_device_options *options, mica_device **device);

/* A storage of at least `bytes`, count one, content undefined. For memory an array lives in, and
 * for what a plan needs while it runs.
 * errors  MICA_ENOMEM, with the sizes and the limit */
mica_status mc_storage_new(mica_device *device, size_t bytes, mc_storage **storage);

/* A storage over memory of the host that outlives it, or that a release function frees (also after
 * an error): a mapped file. Never written. release_host(owner) may be NULL.
 * errors  those of mc_backend.adopt; MICA_ENOMEM */
mica_status mc_storage_adopt(mica_device *device, const void *host, size_t bytes,
                             void (*release_host)(void *owner), void *owner, mc_storage **storage);

/* Bytes from the host into a storage of the device, and back.
 * errors  those of mc_backend.copy */
mica_status mc_storage_write(mica_device *device, mc_storage *storage, size_t offset,
                             const void *from, size_t bytes);
mica_status mc_storage_read(mica_device *device, const mc_storage *storage, size_t offset, void *to,
                            size_t bytes);

/* mc_storage_read of what copies left, or launches that were waited for: launches that came behind
 * them are not waited for (mc_backend.read_ended). */
mica_status mc_storage_read_ended(mica_device *device, const mc_storage *storage, size_t offset,
                                  void *to, size_t bytes);

/* The elements of a view for the host to read, with their strides: *data is the first one. They are
 * borrowed where the host sees the storage, and else copied, the gaps between them too: *owned is
 * freed by the caller with mc_free.
 * errors  MICA_ENOMEM; those of mc_backend.copy */
mica_status mc_storage_view(mica_device *device, const mc_storage *storage, int64_t offset_bytes,
                            const mc_layout *layout, const void **data, void **owned);

/* A complete device, for what this one has no kernel for. It is opened when it is first asked for,
 * and closed with this one.
 * errors  those of mica_device_open */
mica_status mc_device_fallback(mica_device *device, mica_device **fallback);
/* Where the memory of what is made in a scope is: the scope's device, or its fallback
 * (mc_scope_set_fallback). errors  as mc_device_fallback */
mica_status mc_device_of_data(const mica_scope *s, mica_device **device);
/* Gives such a device, where there is one, the memory limit of this one. */
void mc_device_limit_fallback(mica_device *device);

/* What mica_device_set_memory_limit set; 0: none. */
uint64_t mc_device_memory_limit(const mica_device *device);

/* The bytes that arrays may have: those of the device's memory, or of the working set that its
 * maker recommends, or of its limit, where one is less. What budgets are shares of. */
uint64_t mc_device_memory_bytes(const mica_device *device);
/* Those of them that no array has, nor anybody else, where the device tells. */
uint64_t mc_device_free_bytes(const mica_device *device);

/* Waits for a launch of the device: once for each fence; nothing for 0.
 * errors  those of mc_backend.wait */
mica_status mc_device_wait(mica_device *device, mc_fence fence);
/* The same after an error, which it returns with its text; what the wait tells is lost. */
mica_status mc_device_wait_after(mica_device *device, mc_fence fence, mica_status error);

void mc_device_retain(mica_device *device);
void mc_device_release(mica_device *device);

#endif
