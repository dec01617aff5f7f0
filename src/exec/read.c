#include "exec/read.h"

#include <string.h>

#include "base/alloc.h"
#include "base/integer.h"
#include "device/device.h"
#include "exec/element.h"

/* Evaluates x and lets the host see its elements: at *data, whose copy, if it is one, is *owned. */
static mica_status open_data(mica_array x, const char *what, const void **data, void **owned) {
    *owned = NULL;
    MC_TRY(mc_check_valid(x, what));
    MC_TRY(mica_eval(x.scope, x));
    const mc_node *node = mc_node_of(x);
    if (node->scalar) {
        *data = &node->value; /* little-endian, as all of mica's formats */
        return MICA_OK;
    }
    return mc_storage_view(mica_scope_device(x.scope), node->storage, node->offset_bytes,
                           &node->layout, data, owned);
}

/* The elements in logical order. */
static void gather(const mc_layout *l, const void *data, char *to) {
    size_t size = mica_dtype_bytes(l->dtype);
    mc_walk w = mc_walk_begin(l);
    do {
        memcpy(to, (const char *)data + w.offset * (int64_t)size, size);
        to += size;
    } while (mc_walk_next(&w));
}

mica_status mica_read(mica_array x, void *out, size_t out_bytes) {
    const void *data;
    void *owned;
    MC_TRY(mc_check_valid(x, "read"));
    MC_TRY(mica_eval(x.scope, x));
    const mc_node *node = mc_node_of(x);
    const mc_layout *l = &node->layout;
    size_t want = (size_t)mc_layout_bytes(l);
    if (out_bytes != want || (!out && want > 0)) {
        char text[MC_LAYOUT_TEXT];
        return mc_fail(MICA_EINVAL, "read: %s has %zu bytes, there is room for %zu",
                       mc_layout_text(l, text), want, out_bytes);
    }
    if (want == 0) return MICA_OK;
    if (!node->scalar && mc_layout_is_dense(l))
        return mc_storage_read(mica_scope_device(x.scope), node->storage,
                               (size_t)node->offset_bytes, out, want);
    MC_TRY(open_data(x, "read", &data, &owned));
    gather(l, data, out);
    mc_free(owned);
    return MICA_OK;
}

mica_status mc_read_part(mica_array x, size_t offset_bytes, void *out, size_t bytes) {
    char text[MC_LAYOUT_TEXT];
    MC_TRY(mc_check_valid(x, "read"));
    const mc_node *node = mc_node_of(x);
    const mc_layout *l = &node->layout;
    size_t have = (size_t)mc_layout_bytes(l);
    if (node->state != MC_READY || node->scalar || !mc_layout_is_dense(l) || offset_bytes > have ||
        bytes > have - offset_bytes)
        return mc_fail(MICA_EINVAL, "read: %zu bytes from %zu on of %s", bytes, offset_bytes,
                       mc_layout_text(l, text));
    return mc_storage_read_ended(mica_scope_device(x.scope), node->storage,
                                 (size_t)node->offset_bytes + offset_bytes, out, bytes);
}

mica_status mica_array_host(mica_array x, const void **pointer) {
    if (!pointer) return mc_fail(MICA_EINVAL, "array_host: pointer is NULL");
    *pointer = NULL;
    MC_TRY(mc_check_valid(x, "array_host"));
    MC_TRY(mica_eval(x.scope, x));
    const mc_node *node = mc_node_of(x);
    char text[MC_LAYOUT_TEXT];
    if (mc_layout_size(&node->layout) == 0) return MICA_OK;
    if (!mc_layout_is_dense(&node->layout))
        return mc_fail(MICA_EINVAL,
                       "array_host: the elements of %s are not in row-major order; take "
                       "mica_contiguous of it, or mica_read",
                       mc_layout_text(&node->layout, text));
    *pointer = mc_data(x);
    if (*pointer) return MICA_OK;
    return mc_fail(MICA_EUNSUPPORTED,
                   "array_host: the host cannot see the memory of device %s; use mica_read",
                   mica_scope_device(x.scope)->backend->name);
}

bool mica_next(mica_array x, mica_iter *it) {
    it->status = mc_check_valid(x, "next");
    if (it->status == MICA_OK) it->status = mica_eval(x.scope, x);
    if (it->status != MICA_OK) return false;
    const mc_node *node = mc_node_of(x);
    const mc_layout *l = &node->layout;
    if (it->next >= mc_layout_size(l)) return false;
    int64_t offset = 0, item = (int64_t)mica_dtype_bytes(l->dtype);
    for (int i = 0; i < l->ndim; i++)
        offset += it->coords[i] * l->strides[i];
    if (node->scalar)
        it->element = node->value;
    else
        it->status = mc_storage_read(mica_scope_device(x.scope), node->storage,
                                     (size_t)(node->offset_bytes + offset * item), &it->element,
                                     (size_t)item);
    if (it->status != MICA_OK) return false;
    it->value = &it->element;
    it->index = it->next++;
    for (int i = l->ndim - 1; i >= 0; i--) {
        if (++it->coords[i] < l->shape[i]) break;
        it->coords[i] = 0;
    }
    return true;
}

/* ---- one element ---- */

static mica_status read_bits(mica_array x, mica_dtype *dtype, uint64_t *bits) {
    if (mica_valid(x) && mica_array_size(x) != 1) {
        char text[MC_LAYOUT_TEXT];
        return mc_fail(MICA_ESHAPE, "item: %s is not one element",
                       mc_layout_text(mc_layout_of(x), text));
    }
    const void *data;
    void *owned;
    if (mica_valid(x) && mica_array_dtype(x) == MICA_C64)
        return mc_fail(MICA_EDTYPE,
                       "item: a complex number has two parts: use mica_real, mica_imag");
    MC_TRY(open_data(x, "item", &data, &owned));
    *dtype = mc_layout_of(x)->dtype;
    *bits = 0;
    memcpy(bits, data, mica_dtype_bytes(*dtype));
    mc_free(owned);
    return MICA_OK;
}

mica_status mica_item_f64(mica_array x, double *out) {
    mica_dtype dtype;
    uint64_t bits;
    if (!out) return mc_fail(MICA_EINVAL, "item: out is NULL");
    MC_TRY(read_bits(x, &dtype, &bits));
    *out = mc_element_is_real(dtype)     ? mc_element_real(dtype, bits)
           : mica_dtype_is_signed(dtype) ? (double)mc_element_signed(dtype, bits)
                                         : (double)bits;
    return MICA_OK;
}

mica_status mica_item_i64(mica_array x, int64_t *out) {
    mica_dtype dtype;
    uint64_t bits;
    if (!out) return mc_fail(MICA_EINVAL, "item: out is NULL");
    MC_TRY(read_bits(x, &dtype, &bits));
    if (mc_element_is_real(dtype))
        *out = mc_to_i64(mc_element_real(dtype, bits));
    else if (mica_dtype_is_signed(dtype))
        *out = mc_element_signed(dtype, bits);
    else
        *out = bits > INT64_MAX ? INT64_MAX : (int64_t)bits;
    return MICA_OK;
}
