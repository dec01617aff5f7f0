/* Storages of a device. */
#include "device/device.h"
#include "device/mapped.h"

#include <string.h>

#include "base/alloc.h"

static void release(mc_storage *storage) {
    mica_device *device = storage->owner;
    mc_memory_put(&device->memory, storage);
    mc_device_release(device);
}

/* What mc_memory_get gave is the device's, which lives as long. */
static mc_storage *hold(mica_device *device, mc_storage *storage) {
    storage->release = release;
    storage->owner = device;
    storage->fallback = device->is_fallback;
    mc_device_retain(device);
    return storage;
}

mica_status mc_storage_new(mica_device *device, size_t bytes, mc_storage **storage) {
    MC_TRY(mc_memory_get(&device->memory, bytes, storage));
    hold(device, *storage);
    return MICA_OK;
}

/* ---- memory of the host ---- */

typedef struct adopted {
    mc_storage storage; /* first */
    mc_storage *copy;   /* on the device; NULL: that reads the host's memory */
    void (*release)(void *owner);
    void *owner;
    const mc_filemap *file; /* whose bytes it is; NULL: that is not said */
} adopted;

/* Waits for launches that may read memory of the host where it is: copies come after them. */
static void end_launches(mica_device *device, const mc_storage *storage) {
    char byte;
    if (storage->bytes > 0 && device->backend->late)
        (void)device->backend->copy(device->state, MC_TO_HOST, &byte, 0, storage->address, 0, 1);
}

static void release_adopted(mc_storage *storage) {
    adopted *a = (adopted *)(void *)storage;
    mica_device *device = storage->owner;
    if (a->copy)
        mc_storage_release(a->copy);
    else if (storage->address != storage->host)
        device->backend->free(device->state, storage->address, storage->bytes);
    else
        end_launches(device, storage);
    if (a->release) a->release(a->owner);
    mc_free(a);
    mc_device_release(device);
}

/* Copies memory of the host to the device, which has no other use for it: what a function releases
 * goes, and what lies in a file stays for the host to read. */
static mica_status upload(mica_device *device, adopted *a, const void *host, size_t bytes) {
    MC_TRY(mc_memory_get_exact(&device->memory, bytes, &a->copy));
    hold(device, a->copy);
    MC_TRY(mc_storage_write(device, a->copy, 0, host, bytes));
    a->storage.address = a->copy->address;
    if (!a->release) return MICA_OK;
    a->release(a->owner);
    a->release = NULL;
    a->storage.host = NULL;
    return MICA_OK;
}

static mica_status adopt(mica_device *device, adopted *a, const void *host, size_t bytes) {
    if (!device->backend->adopt) return upload(device, a, host, bytes);
    return device->backend->adopt(device->state, host, bytes, &a->storage.address);
}

mica_status mc_storage_adopt(mica_device *device, const void *host, size_t bytes,
                             void (*release_host)(void *owner), void *owner, mc_storage **storage) {
    *storage = NULL;
    adopted *a = mc_calloc(1, sizeof *a);
    if (!a) {
        if (release_host) release_host(owner);
        return mc_fail_nomem("an array over mapped memory");
    }
    atomic_init(&a->storage.count, 1u);
    a->storage.host = (void *)(uintptr_t)host; /* never written: read_only */
    a->storage.bytes = bytes;
    a->storage.read_only = true;
    a->storage.release = release_adopted;
    a->storage.owner = device;
    a->storage.fallback = device->is_fallback;
    a->release = release_host;
    a->owner = owner;
    mica_status status = adopt(device, a, host, bytes);
    if (status != MICA_OK) {
        mc_storage_release(a->copy);
        if (release_host) release_host(owner);
        mc_free(a);
        return status;
    }
    mc_device_retain(device);
    *storage = &a->storage;
    return MICA_OK;
}

void mc_storage_set_file(mc_storage *storage, const mc_filemap *file) {
    if (storage->release == release_adopted && storage->address == storage->host)
        ((adopted *)(void *)storage)->file = file;
}

void mc_storage_leave_memory(const mc_storage *storage, const void *address, size_t bytes) {
    const adopted *a = (const adopted *)(const void *)storage;
    if (storage->release == release_adopted && a->file) mc_filemap_release(a->file, address, bytes);
}

/* ---- copies ---- */

/* The next piece of `bytes` that are left of a copy from or to the host. */
static size_t piece_of(const mica_device *device, size_t bytes) {
    size_t most = device->backend->staging_bytes;
    return most > 0 && bytes > most ? most : bytes;
}

mica_status mc_storage_write(mica_device *device, mc_storage *storage, size_t offset,
                             const void *from, size_t bytes) {
    if (bytes > 0 && storage->host) {
        memcpy((char *)storage->host + offset, from, bytes);
        return MICA_OK;
    }
    for (size_t at = 0, n; at < bytes; at += n) {
        n = piece_of(device, bytes - at);
        MC_TRY(device->backend->copy(device->state, MC_TO_DEVICE, storage->address, offset + at,
                                     from, at, n));
    }
    return MICA_OK;
}

mica_status mc_storage_read(mica_device *device, const mc_storage *storage, size_t offset, void *to,
                            size_t bytes) {
    if (bytes > 0 && storage->host) {
        memcpy(to, (const char *)storage->host + offset, bytes);
        return MICA_OK;
    }
    for (size_t at = 0, n; at < bytes; at += n) {
        n = piece_of(device, bytes - at);
        MC_TRY(device->backend->copy(device->state, MC_TO_HOST, to, at, storage->address,
                                     offset + at, n));
    }
    return MICA_OK;
}

mica_status mc_storage_read_ended(mica_device *device, const mc_storage *storage, size_t offset,
                                  void *to, size_t bytes) {
    if (storage->host || !device->backend->read_ended)
        return mc_storage_read(device, storage, offset, to, bytes);
    if (!bytes) return MICA_OK;
    return device->backend->read_ended(device->state, to, storage->address, offset, bytes);
}

mica_status mc_storage_view(mica_device *device, const mc_storage *storage, int64_t offset_bytes,
                            const mc_layout *layout, const void **data, void **owned) {
    *owned = NULL;
    *data = NULL;
    if (storage->host) {
        *data = (const char *)storage->host + offset_bytes;
        return MICA_OK;
    }
    int64_t first, bytes;
    mc_layout_span(layout, &first, &bytes);
    if (bytes == 0) return MICA_OK;
    char *copy = mc_alloc((size_t)bytes);
    if (!copy) return mc_fail_nomem("a copy of an array for the host");
    mica_status status =
        mc_storage_read(device, storage, (size_t)(offset_bytes + first), copy, (size_t)bytes);
    if (status != MICA_OK) {
        mc_free(copy);
        return status;
    }
    *owned = copy;
    *data = copy - first;
    return MICA_OK;
}
