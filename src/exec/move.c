/* Values from scope to scope, and from device to device. */
#include "base/alloc.h"
#include "device/device.h"
#include "exec/bind.h"

mica_array mc_copy_leaf(mica_scope *s, const mc_node *leaf) {
    if (leaf->scalar) return mc_scalar_like(s, leaf);
    return mc_leaf(s, &leaf->layout, mc_storage_retain(leaf->storage), leaf->offset_bytes);
}

static mica_status check_ready(mica_array x, const char *what) {
    MC_TRY(mc_check_valid(x, what));
    return mica_eval(x.scope, x);
}

/* x's data as a leaf of s; `take` moves the reference and leaves x gone. */
static mica_array share(mica_scope *s, mica_array x, const char *what, bool take, bool movable) {
    if (!s) return mc_scope_fail(NULL, MICA_EINVAL, "%s: the scope is NULL", what);
    if (mica_scope_status(s) != MICA_OK) return mc_invalid(s);
    if (mc_scope_set_status(s, check_ready(x, what)) != MICA_OK) return mc_invalid(s);
    if (mica_scope_device(x.scope) != mica_scope_device(s))
        return mc_scope_fail(s, MICA_EINVAL,
                             "%s: the array belongs to another device; mica_to_device copies it",
                             what);
    mc_node *node = mc_node_of(x);
    mica_array y = mc_copy_leaf(s, node);
    if (!mica_valid(y) || node->scalar) return y;
    mc_node_of(y)->movable = movable;
    if (take) mc_node_leave(mc_node_of(x), MC_GONE);
    return y;
}

mica_array mica_materialize(mica_scope *outer, mica_array x) {
    return share(outer, x, "materialize", true, false);
}

mica_array mica_move(mica_scope *s, mica_array x) {
    return share(s, x, "move", true, true);
}

size_t mica_array_release(mica_array x) {
    mc_node *node = mc_node_of(x);
    if (!node) return 0;
    mc_scope_set_status(x.scope, mica_wait(x.scope));
    if (node->state != MC_READY || node->param) return 0;
    mc_storage *storage = node->storage;
    bool last = storage && !storage->read_only && mc_storage_count(storage) == 1;
    size_t bytes = last ? storage->bytes : 0;
    mc_node_leave(node, MC_GONE);
    return bytes;
}

mica_array mica_detach(mica_scope *s, mica_array x) {
    return share(s, x, "detach", false, false);
}

/* The elements of x, dense, as a leaf of s on its device. */
static mica_status copy_to(mica_scope *s, mica_array x, mica_array *out) {
    mc_layout layout = *mc_layout_of(x);
    mc_layout_set_dense(&layout);
    size_t bytes = (size_t)mc_layout_bytes(&layout);
    void *data = mc_alloc(bytes ? bytes : 1);
    if (!data) return mc_fail_nomem("a copy of an array to another device");
    mica_status status = mica_read(x, data, bytes);
    if (status == MICA_OK) {
        *out = mica_from_data(s, data, layout.dtype, layout.shape, layout.ndim);
        status = mica_scope_status(s);
    }
    mc_free(data);
    return status;
}

mica_array mc_copy_to(mica_scope *s, mica_array x, bool fallback) {
    mica_array y = MICA_NONE;
    bool before = mc_scope_falls_back(s);
    mc_scope_set_fallback(s, fallback);
    mica_status status = copy_to(s, x, &y);
    mc_scope_set_fallback(s, before);
    return mc_scope_set_status(s, status) == MICA_OK ? y : mc_invalid(s);
}

mica_array mica_to_device(mica_scope *s, mica_array x) {
    if (!s) return mc_scope_fail(NULL, MICA_EINVAL, "to_device: the scope is NULL");
    if (mica_scope_status(s) != MICA_OK) return mc_invalid(s);
    mica_array y = MICA_NONE;
    mica_status status = check_ready(x, "to_device");
    if (status == MICA_OK && mica_scope_device(x.scope) == mica_scope_device(s))
        return share(s, x, "to_device", false, false);
    if (status == MICA_OK) status = copy_to(s, x, &y);
    return mc_scope_set_status(s, status) == MICA_OK ? y : mc_invalid(s);
}

mica_status mica_scope_collect(mica_scope *s, mica_array *live, size_t n) {
    if (!s || (!live && n > 0)) return mc_fail(MICA_EINVAL, "scope_collect: NULL");
    if (mc_scope_is_within_call(s))
        return mc_fail(MICA_EINVAL, "scope_collect: a function records into the scope, whose "
                                    "arguments would be gone; collect when it has returned");
    MC_TRY(mica_eval_n(s, live, n));
    return mc_scope_keep(s, live, n);
}
