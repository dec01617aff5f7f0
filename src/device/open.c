/* Devices: which there are, opening and closing. */
#include "device/device.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/options.h"
#include "base/str.h"
#include "base/system.h"

static const mc_backend *const backends[] = {
#define DEVICE(name) &mc_backend_##name,
#include "device/device_list.h"
};

size_t mica_device_count(void) {
    return sizeof backends / sizeof *backends;
}

const char *mica_device_name(size_t i) {
    return i < mica_device_count() ? backends[i]->name : NULL;
}

/* The device that a name such as "cpu" or "mlx:gpu" means; *variant receives what is behind the
 * colon. */
static const mc_backend *find_backend(const char *name, const char **variant) {
    *variant = "";
    if (!name) return backends[0];
    size_t len = strcspn(name, ":");
    if (name[len] == ':') *variant = name + len + 1;
    for (size_t i = 0; i < mica_device_count(); i++)
        if (mc_str_is((mc_str){name, len}, backends[i]->name)) return backends[i];
    return NULL;
}

static mica_status fail_unknown(const char *name) {
    char names[128] = "";
    for (size_t i = 0, len = 0; i < mica_device_count() && len < sizeof names; i++)
        len += (size_t)snprintf(names + len, sizeof names - len, "%s%s", i > 0 ? ", " : "",
                                mica_device_name(i));
    return mc_fail(MICA_EDEVICE, "there is no device \"%s\"; there are: %s", name, names);
}

/* Opens the parts in order; what was opened before a failure is closed again. */
static mica_status open_parts(mica_device *device, const mica_device_options *options,
                              const char *variant) {
    const mc_backend *backend = device->backend;
    uint64_t cache_limit = options->cache_limit_bytes, memory_limit = options->memory_limit_bytes;
    MC_TRY(backend->open(options, variant, &device->state));
    if (cache_limit == 0 && backend->cache_bytes) cache_limit = backend->cache_bytes(device->state);
    if (backend->memory) cache_limit = 0; /* it keeps what is freed itself */
    mica_status status =
        mc_memory_init(&device->memory, backend, device->state, memory_limit, cache_limit);
    if (status != MICA_OK) goto close_backend;
    if (pthread_mutex_init(&device->prepared_lock, NULL) != 0) {
        status = mc_fail(MICA_EDEVICE, "cannot make a mutex for a device");
        goto close_memory;
    }
    status = mc_worker_init(&device->worker);
    if (status == MICA_OK) return MICA_OK;
    pthread_mutex_destroy(&device->prepared_lock);
close_memory:
    mc_memory_deinit(&device->memory);
close_backend:
    device->backend->close(device->state);
    return status;
}

mica_status mc_device_open_backend(const mc_backend *backend, const char *variant,
                                   const mica_device_options *options, mica_device **device) {
    *device = NULL;
    mica_device_options given;
    MC_TRY(MC_OPTIONS_COPY(mica_device_options, cache_limit_bytes, &given, options));
    mica_device *d = mc_calloc(1, sizeof *d);
    if (!d) return mc_fail_nomem("a device");
    d->backend = backend;
    d->threads = given.threads;
    atomic_init(&d->count, 1u);
    atomic_init(&d->fallback_ops, 0);
    mica_status status = open_parts(d, &given, variant);
    if (status != MICA_OK) {
        mc_free(d);
        return status;
    }
    mc_log_line(MICA_LOG_INFO, "opened the device %s", backend->name);
    *device = d;
    return MICA_OK;
}

mica_status mica_device_open(const char *name, const mica_device_options *options,
                             mica_device **device) {
    if (!device) return mc_fail(MICA_EINVAL, "mica_device_open: device is NULL");
    *device = NULL;
    const char *variant;
    const mc_backend *backend = find_backend(name, &variant);
    if (!backend) return fail_unknown(name);
    return mc_device_open_backend(backend, variant, options, device);
}

mica_status mica_device_available(const char *name) {
    const char *variant;
    const mc_backend *backend = find_backend(name, &variant);
    if (!backend) return fail_unknown(name);
    return backend->available ? backend->available(variant) : MICA_OK;
}

void mc_device_retain(mica_device *device) {
    atomic_fetch_add_explicit(&device->count, 1u, memory_order_relaxed);
}

void mc_device_release(mica_device *device) {
    if (atomic_fetch_sub_explicit(&device->count, 1u, memory_order_acq_rel) != 1u) return;
    mc_log_line(MICA_LOG_INFO, "closed the device %s", device->backend->name);
    mc_worker_deinit(&device->worker);
    mc_device_part *graphs = atomic_load_explicit(&device->graphs, memory_order_acquire);
    if (graphs) graphs->free(graphs);
    mc_device_part *rates = atomic_load_explicit(&device->rates, memory_order_acquire);
    if (rates) rates->free(rates);
    mica_device *fallback = atomic_load_explicit(&device->fallback, memory_order_acquire);
    mica_device_close(&fallback);
    mc_memory_deinit(&device->memory);
    pthread_mutex_destroy(&device->prepared_lock);
    device->backend->close(device->state);
    mc_free(device);
}

mica_status mc_device_fallback(mica_device *device, mica_device **fallback) {
    *fallback = atomic_load_explicit(&device->fallback, memory_order_acquire);
    if (*fallback) return MICA_OK;
    mica_device *opened;
    const mica_device_options options = {.threads = device->threads};
    MC_TRY(mica_device_open(backends[0]->name, &options, &opened));
    opened->is_fallback = true;
    if (!atomic_compare_exchange_strong(&device->fallback, fallback, opened)) {
        mica_device_close(&opened); /* another thread was first */
        return MICA_OK;
    }
    *fallback = opened;
    mc_device_limit_fallback(device);
    return MICA_OK;
}

mica_status mc_device_of_data(const mica_scope *s, mica_device **device) {
    *device = mica_scope_device(s);
    if (!mc_scope_falls_back(s) || (*device)->backend->complete) return MICA_OK;
    return mc_device_fallback(*device, device);
}

mica_status mc_device_wait(mica_device *device, mc_fence fence) {
    return fence ? device->backend->wait(device->state, fence) : MICA_OK;
}

mica_status mc_device_wait_after(mica_device *device, mc_fence fence, mica_status error) {
    char text[1024];
    snprintf(text, sizeof text, "%s", mica_last_error());
    (void)mc_device_wait(device, fence);
    return mc_fail(error, "%s", text);
}

void mica_device_close(mica_device **device) {
    if (!device || !*device) return;
    mica_device *d = *device;
    *device = NULL;
    mc_device_release(d);
}

/* Here, for the graph does not know what a device is. */
mica_status mica_scope_open(mica_device *device, mica_scope **scope) {
    MC_TRY(mc_scope_open(device, scope));
    mc_device_retain(device);
    mc_scope_set_release(*scope, mc_device_release);
    return MICA_OK;
}

void mica_device_get_info(const mica_device *device, mica_device_info *info) {
    mica_device_info found = {.name = "", .description = "", .architecture = ""};
    if (device) {
        found.name = device->backend->name;
        found.memory_bytes = mc_memory_bytes();
        device->backend->info(device->state, &found);
    }
    MC_INFO_COPY(mica_device_info, working_set_bytes, info, &found);
}

uint64_t mc_device_memory_bytes(const mica_device *device) {
    mica_device_info info = {.struct_bytes = sizeof info};
    mica_device_get_info(device, &info);
    const uint64_t less[] = {info.working_set_bytes, mc_device_memory_limit(device)};
    for (int i = 0; i < 2; i++)
        if (less[i] > 0 && less[i] < info.memory_bytes) info.memory_bytes = less[i];
    return info.memory_bytes;
}

uint64_t mc_device_free_bytes(const mica_device *device) {
    uint64_t bytes = mc_device_memory_bytes(device), active = mica_device_active_bytes(device);
    uint64_t own = active < bytes ? bytes - active : 0, there = UINT64_MAX;
    if (device->backend->free_bytes) there = device->backend->free_bytes(device->state);
    uint64_t kept = mica_device_cached_bytes(device); /* of freed memory, which is given again */
    return there < own && own - there > kept ? there + kept : own;
}

/* ---- ops ---- */

size_t mica_op_count(void) {
    return MC_OP_COUNT;
}

const char *mica_op_name(size_t i) {
    return i < MC_OP_COUNT ? mc_op_get((mc_op)i)->name : NULL;
}

mica_op_support mica_device_op_support(const mica_device *device, size_t i) {
    if (!device || i >= MC_OP_COUNT) return MICA_OP_UNKNOWN;
    mc_op op = (mc_op)i;
    const mc_op_def *def = mc_op_get(op);
    if (def->view || op == MC_OP_LEAF || op == MC_OP_PART) return MICA_OP_NO_WORK;
    if (device->backend->supports(device->state, op, NULL, NULL, 0, NULL, 0).yes)
        return MICA_OP_NATIVE;
    if (def->decompose || mc_op_is_control(def)) return MICA_OP_DECOMPOSED;
    return device->backend->complete ? MICA_OP_UNKNOWN : MICA_OP_FALLBACK;
}

uint64_t mica_device_fallback_ops(const mica_device *device) {
    return device ? atomic_load_explicit(&device->fallback_ops, memory_order_relaxed) : 0;
}

void *mc_backend_state(mica_device *device) {
    return device->state;
}
