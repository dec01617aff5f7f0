/* The accounts of a device's memory, and their limits. */
#include "device/device.h"

/* Reads, and where `set` is given changes, one number under the lock. */
static uint64_t exchange(const mica_device *device, const uint64_t *field, const uint64_t *set) {
    mc_memory *m = (mc_memory *)(uintptr_t)&device->memory;
    pthread_mutex_lock(&m->lock);
    uint64_t value = *field;
    if (set) *(uint64_t *)(uintptr_t)field = *set;
    pthread_mutex_unlock(&m->lock);
    return value;
}

/* The accounts of a device that keeps them itself; NULL: they are in device->memory. */
static const mc_memory_ops *own_accounts(const mica_device *device) {
    return device->backend->memory;
}

uint64_t mica_device_active_bytes(const mica_device *device) {
    if (!device) return 0;
    return own_accounts(device) ? own_accounts(device)->active(device->state)
                                : exchange(device, &device->memory.active, NULL);
}

uint64_t mica_device_peak_bytes(const mica_device *device) {
    if (!device) return 0;
    return own_accounts(device) ? own_accounts(device)->peak(device->state)
                                : exchange(device, &device->memory.peak, NULL);
}

uint64_t mica_device_cached_bytes(const mica_device *device) {
    if (!device) return 0;
    return own_accounts(device) ? own_accounts(device)->cached(device->state)
                                : exchange(device, &device->memory.cached, NULL);
}

void mica_device_reset_peak(mica_device *device) {
    if (!device) return;
    if (own_accounts(device)) {
        own_accounts(device)->reset_peak(device->state);
        return;
    }
    pthread_mutex_lock(&device->memory.lock);
    device->memory.peak = device->memory.active;
    pthread_mutex_unlock(&device->memory.lock);
}

void mica_device_clear_cache(mica_device *device) {
    if (!device) return;
    if (own_accounts(device))
        own_accounts(device)->clear_cache(device->state);
    else
        mc_memory_clear(&device->memory);
}

uint64_t mica_device_set_cache_limit(mica_device *device, uint64_t bytes) {
    if (!device) return 0;
    if (own_accounts(device)) return own_accounts(device)->set_cache_limit(device->state, bytes);
    uint64_t before = exchange(device, &device->memory.cache_limit, &bytes);
    if (mica_device_cached_bytes(device) > bytes) mica_device_clear_cache(device);
    return before;
}

void mc_device_limit_fallback(mica_device *device) {
    mica_device *fallback = atomic_load_explicit(&device->fallback, memory_order_acquire);
    if (!fallback) return;
    uint64_t bytes = exchange(device, &device->memory.memory_limit, NULL);
    (void)exchange(fallback, &fallback->memory.memory_limit, &bytes);
}

uint64_t mc_device_memory_limit(const mica_device *device) {
    return exchange(device, &device->memory.memory_limit, NULL);
}

uint64_t mica_device_set_memory_limit(mica_device *device, uint64_t bytes) {
    if (!device) return 0;
    uint64_t before = exchange(device, &device->memory.memory_limit, &bytes);
    mc_device_limit_fallback(device);
    if (own_accounts(device)) (void)own_accounts(device)->set_memory_limit(device->state, bytes);
    return before;
}

uint64_t mica_device_set_wired_limit(mica_device *device, uint64_t bytes) {
    if (!device || !own_accounts(device)) return 0;
    return own_accounts(device)->set_wired_limit(device->state, bytes);
}
