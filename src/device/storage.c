/* Storages of a device, and the accounts of its memory. */
#include "device/device.h"

static void release(mc_storage *storage) {
    mica_device *device = storage->owner;
    mc_memory_put(&device->memory, storage);
    mc_device_release(device);
}

mica_status mc_storage_new(mica_device *device, size_t bytes, mc_storage **storage) {
    MC_TRY(mc_memory_get(&device->memory, bytes, storage));
    (*storage)->release = release;
    (*storage)->owner = device;
    mc_device_retain(device);
    return MICA_OK;
}

/* ---- accounts ---- */

/* Reads, and where `set` is given changes, one number under the lock. */
static uint64_t exchange(const mica_device *device, const uint64_t *field, const uint64_t *set) {
    mc_memory *m = (mc_memory *)(uintptr_t)&device->memory;
    pthread_mutex_lock(&m->lock);
    uint64_t value = *field;
    if (set) *(uint64_t *)(uintptr_t)field = *set;
    pthread_mutex_unlock(&m->lock);
    return value;
}

uint64_t mica_device_active_bytes(const mica_device *device) {
    return device ? exchange(device, &device->memory.active, NULL) : 0;
}

uint64_t mica_device_peak_bytes(const mica_device *device) {
    return device ? exchange(device, &device->memory.peak, NULL) : 0;
}

uint64_t mica_device_cached_bytes(const mica_device *device) {
    return device ? exchange(device, &device->memory.cached, NULL) : 0;
}

void mica_device_reset_peak(mica_device *device) {
    if (!device) return;
    pthread_mutex_lock(&device->memory.lock);
    device->memory.peak = device->memory.active;
    pthread_mutex_unlock(&device->memory.lock);
}

void mica_device_clear_cache(mica_device *device) {
    if (!device) return;
    mc_memory_clear(&device->memory);
}

uint64_t mica_device_set_cache_limit(mica_device *device, uint64_t bytes) {
    if (!device) return 0;
    uint64_t before = exchange(device, &device->memory.cache_limit, &bytes);
    if (mica_device_cached_bytes(device) > bytes) mica_device_clear_cache(device);
    return before;
}

uint64_t mica_device_set_memory_limit(mica_device *device, uint64_t bytes) {
    return device ? exchange(device, &device->memory.memory_limit, &bytes) : 0;
}
