/* Arrays from values. */
#include "device/device.h"

mica_array mica_from_data(mica_scope *s, const void *data, mica_dtype dtype, const int64_t *shape,
                          int ndim) {
    if (!s) return mc_scope_fail(NULL, MICA_EINVAL, "from_data: the scope is NULL");
    if (mica_scope_status(s) != MICA_OK) return mc_invalid(s);
    mc_layout layout;
    mc_storage *storage = NULL;
    mica_status status = mc_layout_init(&layout, dtype, shape, ndim);
    size_t bytes = status == MICA_OK ? (size_t)mc_layout_bytes(&layout) : 0;
    if (status == MICA_OK && !data && bytes > 0)
        status = mc_fail(MICA_EINVAL, "from_data: data is NULL");
    if (status == MICA_OK) status = mc_storage_new(mica_scope_device(s), bytes, &storage);
    if (mc_scope_set_status(s, status) != MICA_OK) return mc_invalid(s);
    status = mc_storage_write(mica_scope_device(s), storage, 0, data, bytes);
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
    mica_status status = mc_scope_set_status(s, mc_layout_init(&layout, dtype, shape, ndim));
    if (status != MICA_OK) {
        if (release_host) release_host(owner);
        return mc_invalid(s);
    }
    status = mc_storage_adopt(mica_scope_device(s), host, (size_t)mc_layout_bytes(&layout),
                              release_host, owner, &storage);
    if (mc_scope_set_status(s, status) != MICA_OK) return mc_invalid(s);
    return mc_leaf(s, &layout, storage, 0);
}
