/* Values in and out of arrays. */
#include <string.h>

#include "base/half.h"
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
    if (bytes > 0) memcpy(storage->data, data, bytes);
    return mc_leaf(s, &layout, storage, 0);
}

/* ---- scalars ---- */

mica_array mica_f32(mica_scope *s, float value) {
    return mc_scalar_bits(s, MICA_F32, mc_f32_bits(value));
}

mica_array mica_i32(mica_scope *s, int32_t value) {
    return mc_scalar_bits(s, MICA_I32, (uint32_t)value);
}

static int64_t to_i64(double value) {
    if (!(value > -0x1p63)) return value <= -0x1p63 ? INT64_MIN : 0; /* NaN is 0 */
    return value < 0x1p63 ? (int64_t)value : INT64_MAX;
}

static uint64_t to_u64(double value) {
    if (!(value >= 0x1p63)) return (uint64_t)to_i64(value);
    return value < 0x1p64 ? (uint64_t)value : UINT64_MAX;
}

mica_array mica_scalar(mica_scope *s, double value, mica_dtype dtype) {
    uint64_t bits;
    if (mica_dtype_bytes(dtype) == 0)
        return mc_scope_fail(s, MICA_EINVAL, "scalar: dtype %d is unknown", (int)dtype);
    switch (dtype) {
    case MICA_BOOL:
        bits = value != 0;
        break;
    case MICA_F16:
        bits = mc_f32_to_f16((float)value);
        break;
    case MICA_BF16:
        bits = mc_f32_to_bf16((float)value);
        break;
    case MICA_F32:
        bits = mc_f32_bits((float)value);
        break;
    case MICA_U64:
        bits = to_u64(value);
        break;
    default:
        bits = (uint64_t)to_i64(value);
        break; /* the low bytes count */
    }
    return mc_scalar_bits(s, dtype, bits);
}

/* ---- reading ---- */

/* Makes x ready and returns its first element. */
static mica_status open_data(mica_array x, const char *what, const void **data) {
    MC_TRY(mc_check_valid(x, what));
    MC_TRY(mica_eval(x.scope, x));
    *data = mc_data(x);
    return MICA_OK;
}

mica_status mica_read(mica_array x, void *out, size_t out_bytes) {
    const void *data;
    MC_TRY(open_data(x, "read", &data));
    const mc_layout *l = mc_layout_of(x);
    size_t want = (size_t)mc_layout_bytes(l), size = mica_dtype_bytes(l->dtype);
    if (out_bytes != want || (!out && want > 0)) {
        char text[MC_LAYOUT_TEXT];
        return mc_fail(MICA_EINVAL, "read: %s has %zu bytes, there is room for %zu",
                       mc_layout_text(l, text), want, out_bytes);
    }
    if (want == 0) return MICA_OK;
    if (mc_layout_is_dense(l)) {
        memcpy(out, data, want);
        return MICA_OK;
    }
    char *to = out;
    mc_walk w = mc_walk_begin(l);
    do {
        memcpy(to, (const char *)data + w.offset * (int64_t)size, size);
        to += size;
    } while (mc_walk_next(&w));
    return MICA_OK;
}

bool mica_next(mica_array x, mica_iter *it) {
    const void *data;
    it->status = open_data(x, "next", &data);
    if (it->status != MICA_OK) return false;
    const mc_layout *l = mc_layout_of(x);
    if (it->next >= mc_layout_size(l)) return false;
    int64_t offset = 0;
    for (int i = 0; i < l->ndim; i++)
        offset += it->coords[i] * l->strides[i];
    it->value = (const char *)data + offset * (int64_t)mica_dtype_bytes(l->dtype);
    it->index = it->next++;
    for (int i = l->ndim - 1; i >= 0; i--) {
        if (++it->coords[i] < l->shape[i]) break;
        it->coords[i] = 0;
    }
    return true;
}

/* One element as both kinds of number. */
static mica_status read_item(mica_array x, double *real, int64_t *whole) {
    if (mica_valid(x) && mica_array_size(x) != 1) {
        char text[MC_LAYOUT_TEXT];
        return mc_fail(MICA_ESHAPE, "item: %s is not one element",
                       mc_layout_text(mc_layout_of(x), text));
    }
    const void *data;
    MC_TRY(open_data(x, "item", &data));
    mica_dtype dtype = mc_layout_of(x)->dtype;
    uint64_t bits = 0;
    size_t bytes = mica_dtype_bytes(dtype);
    memcpy(&bits, data, bytes); /* little-endian, as all of mica's formats */
    if (mica_dtype_is_float(dtype)) {
        *real = dtype == MICA_F32   ? mc_f32_from_bits((uint32_t)bits)
                : dtype == MICA_F16 ? mc_f16_to_f32((uint16_t)bits)
                                    : mc_bf16_to_f32((uint16_t)bits);
        *whole = to_i64(*real);
        return MICA_OK;
    }
    if (mica_dtype_is_signed(dtype)) {
        unsigned unused = 64u - 8u * (unsigned)bytes;
        *whole = (int64_t)(bits << unused) >> unused;
        *real = (double)*whole;
    } else {
        *whole = bits > INT64_MAX ? INT64_MAX : (int64_t)bits;
        *real = (double)bits;
    }
    return MICA_OK;
}

mica_status mica_item_f64(mica_array x, double *out) {
    int64_t whole;
    double real = 0;
    MC_TRY(read_item(x, &real, &whole));
    *out = real;
    return MICA_OK;
}

mica_status mica_item_i64(mica_array x, int64_t *out) {
    int64_t whole = 0;
    double real;
    MC_TRY(read_item(x, &real, &whole));
    *out = whole;
    return MICA_OK;
}
