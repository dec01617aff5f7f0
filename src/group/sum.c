/* Sums over ranks, in the order of ranks: what a back end moves is added here, so that timing,
 * the back end and the way of the bytes change nothing.
 *
 * Few bytes go to all at once: one exchange. Of many each rank gets and adds a part, and gives it
 * to the others: less is moved. Both have the same bits. */
#include "group/group.h"

#include <string.h>

#include "base/alloc.h"
#include "base/half.h"

enum { FEW_BYTES = 1 << 15 };

/* sum [n] of terms at in, in + step, ..., `ranks` of them, in this order. */
#define SUM_OF(name, type)                                                          \
    static void name(const void *in, size_t step, int ranks, size_t n, void *out) { \
        const type *x = in;                                                         \
        type *y = out;                                                              \
        for (size_t i = 0; i < n; i++) {                                            \
            type sum = x[i];                                                        \
            for (int r = 1; r < ranks; r++)                                         \
                sum = (type)(sum + x[i + (size_t)r * step]);                        \
            y[i] = sum;                                                             \
        }                                                                           \
    }
SUM_OF(sum_u8, uint8_t)
SUM_OF(sum_u16, uint16_t)
SUM_OF(sum_u32, uint32_t)
SUM_OF(sum_u64, uint64_t)
SUM_OF(sum_f32, float)

#define SUM_OF_HALVES(name, widen, narrow)                                          \
    static void name(const void *in, size_t step, int ranks, size_t n, void *out) { \
        const uint16_t *x = in;                                                     \
        uint16_t *y = out;                                                          \
        for (size_t i = 0; i < n; i++) {                                            \
            float sum = widen(x[i]);                                                \
            for (int r = 1; r < ranks; r++)                                         \
                sum += widen(x[i + (size_t)r * step]);                              \
            y[i] = narrow(sum);                                                     \
        }                                                                           \
    }
SUM_OF_HALVES(sum_f16, mc_f16_to_f32, mc_f32_to_f16)
SUM_OF_HALVES(sum_bf16, mc_bf16_to_f32, mc_f32_to_bf16)

typedef void sum_function(const void *in, size_t step, int ranks, size_t n, void *out);

/* Integers wrap, whatever their sign. */
static sum_function *const sums[MICA_DTYPE_COUNT] = {
    [MICA_U8] = sum_u8,   [MICA_U16] = sum_u16,   [MICA_U32] = sum_u32, [MICA_U64] = sum_u64,
    [MICA_I8] = sum_u8,   [MICA_I16] = sum_u16,   [MICA_I32] = sum_u32, [MICA_I64] = sum_u64,
    [MICA_F16] = sum_f16, [MICA_BF16] = sum_bf16, [MICA_F32] = sum_f32,
};

bool mc_group_adds(mica_dtype dtype) {
    return sums[dtype] != NULL;
}

static void *take_room(mica_group *group, size_t bytes) {
    void *room = mc_alloc(bytes ? bytes : 1);
    if (!room) (void)mc_group_end_on(group, mc_fail_nomem("a collective"));
    return room;
}

mica_status mc_group_reduce_scatter(mica_group *group, const void *in, size_t n, mica_dtype dtype,
                                    void *out) {
    int size = mica_group_size(group);
    size_t bytes = n * mica_dtype_bytes(dtype);
    void *parts = take_room(group, (size_t)size * bytes);
    if (!parts) return MICA_ENOMEM;
    mica_status status = mc_group_all_to_all(group, in, bytes, parts);
    if (status == MICA_OK) sums[dtype](parts, n, size, n, out);
    mc_free(parts);
    return status;
}

static mica_status reduce_few(mica_group *group, const void *in, size_t n, mica_dtype dtype,
                              void *out) {
    int size = mica_group_size(group);
    size_t bytes = n * mica_dtype_bytes(dtype);
    void *all = take_room(group, (size_t)size * bytes);
    if (!all) return MICA_ENOMEM;
    mica_status status = mc_group_all_gather(group, in, bytes, all);
    if (status == MICA_OK) sums[dtype](all, n, size, n, out);
    mc_free(all);
    return status;
}

/* The last part is filled with zeros. */
static mica_status reduce_many(mica_group *group, const void *in, size_t n, mica_dtype dtype,
                               void *out) {
    size_t size = (size_t)mica_group_size(group), item = mica_dtype_bytes(dtype);
    size_t part = (n + size - 1) / size, bytes = part * item;
    uint8_t *all = take_room(group, 2 * size * bytes), *own = all ? all + size * bytes : NULL;
    if (!all) return MICA_ENOMEM;
    memcpy(all, in, n * item);
    memset(all + n * item, 0, size * bytes - n * item);
    mica_status status = mc_group_all_to_all(group, all, bytes, own);
    if (status == MICA_OK) {
        sums[dtype](own, part, (int)size, part, own);
        status = mc_group_all_gather(group, own, bytes, all);
    }
    if (status == MICA_OK) memcpy(out, all, n * item);
    mc_free(all);
    return status;
}

mica_status mc_group_all_reduce(mica_group *group, const void *in, size_t n, mica_dtype dtype,
                                void *out) {
    size_t bytes = n * mica_dtype_bytes(dtype);
    if (mica_group_size(group) == 1) {
        if (in != out) memcpy(out, in, bytes);
        return MICA_OK;
    }
    return bytes <= FEW_BYTES ? reduce_few(group, in, n, dtype, out)
                              : reduce_many(group, in, n, dtype, out);
}
