/* Arrays from values. */
#include "device/device.h"

mica_array mica_from_data(mica_scope *s, const void *data, mica_dtype dtype, const int64_t *shape,
                          int ndim) {
    if (!s) return mc_scope_fail(NULL, MICA_EINVAL, "from_data: the scope is NULL");
    if (mica_scope_status(s) != MICA_OK) return mc_invalid(s);
    mc_layout layout;
    mc_storage *storage = NULL;
    mica_device *device = NULL;
    mica_status status = mc_layout_init(&layout, dtype, shape, ndim);
    size_t bytes = status == MICA_OK ? (size_t)mc_layout_bytes(&layout) : 0;
    if (status == MICA_OK && !data && bytes > 0)
        status = mc_fail(MICA_EINVAL, "from_data: data is NULL");
    if (status == MICA_OK) status = mc_device_of_data(s, &device);
    if (status == MICA_OK) status = mc_storage_new(device, bytes, &storage);
    if (mc_scope_set_status(s, status) != MICA_OK) return mc_invalid(s);
    status = mc_storage_write(device, storage, 0, data, bytes);
    if (mc_scope_set_status(s, status) != MICA_OK) {
        mc_storage_release(storage);
        return mc_invalid(s);
    }
    return mc_leaf(s, &layout, storage, 0);
}

mica_array mc_leaf_memory(mica_scope *s, const void *host, mica_dtype dtype, const int64_t *shape,
                          int ndim, void (*release_host)(void *owner), void *owner) {
    mc_layout layout;
    mc_storage *storage = NULL;
    mica_device *device;
    mica_status status = mc_layout_init(&layout, dtype, shape, ndim);
    if (status == MICA_OK) status = mc_device_of_data(s, &device);
    if (mc_scope_set_status(s, status) != MICA_OK) {
        if (release_host) release_host(owner);
        return mc_invalid(s);
    }
    status = mc_storage_adopt(device, host, (size_t)mc_layout_bytes(&layout), release_host, owner,
                              &storage);
    if (mc_scope_set_status(s, status) != MICA_OK) return mc_invalid(s);
    return mc_leaf(s, &layout, storage, 0);
}

/* Whether memory of the caller's can be an array of s. */
static mica_status check_host(mica_scope *s, const void *data, mica_dtype dtype,
                              const int64_t *shape, int ndim) {
    mc_layout layout;
    MC_TRY(mica_scope_status(s));
    MC_TRY(mc_scope_set_status(s, mc_layout_init(&layout, dtype, shape, ndim)));
    size_t align = mica_dtype_bytes(dtype) / (dtype == MICA_C64 ? 2 : 1);
    mica_status status = MICA_OK;
    if (!data && mc_layout_bytes(&layout) > 0)
        status = mc_fail(MICA_EINVAL, "from_host: data is NULL");
    else if ((uintptr_t)data % align != 0)
        status = mc_fail(MICA_EINVAL, "from_host: data is not aligned to %zu bytes, as %s must be",
                         align, mica_dtype_name(dtype));
    return mc_scope_set_status(s, status);
}

mica_array mica_from_host(mica_scope *s, const void *data, mica_dtype dtype, const int64_t *shape,
                          int ndim, mica_release release, void *user) {
    if (s && check_host(s, data, dtype, shape, ndim) == MICA_OK)
        return mc_leaf_memory(s, data, dtype, shape, ndim, release, user);
    if (release) release(user);
    if (!s) return mc_scope_fail(NULL, MICA_EINVAL, "from_host: the scope is NULL");
    return mc_invalid(s);
}
