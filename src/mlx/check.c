#include "mlx/check.h"

#include <string.h>

/* The index as mica reads it; u64 beyond int64 is outside any axis. */
static int64_t load(mica_dtype dtype, const void *at) {
    uint64_t bits = 0;
    size_t bytes = mica_dtype_bytes(dtype);
    memcpy(&bits, at, bytes);
    if (!mica_dtype_is_signed(dtype)) return bits > INT64_MAX ? INT64_MAX : (int64_t)bits;
    int unused = 64 - 8 * (int)bytes;
    return (int64_t)(bits << unused) >> unused;
}

mica_status mc_mlx_check_read(const mc_mlx_check *check, mlx_array array) {
    const char *data = (const char *)mc_mlx.array_data_uint8(array);
    size_t n = mc_mlx.array_size(array), item = mica_dtype_bytes(check->dtype);
    for (size_t i = 0; i < n; i++) {
        int64_t index = load(check->dtype, data + i * item);
        if (check->count > 0 && (index < 0 || index > check->length - check->count))
            return mc_fail(MICA_EINVAL,
                           "%s: %lld elements from %lld on do not fit into axis %d, which has %lld",
                           check->op, (long long)check->count, (long long)index, check->axis,
                           (long long)check->length);
        if (check->count == 0 && (index < -check->length || index >= check->length))
            return mc_fail(MICA_EINVAL,
                           "%s: index %lld is outside axis %d, which has %lld elements", check->op,
                           (long long)index, check->axis, (long long)check->length);
    }
    return MICA_OK;
}
