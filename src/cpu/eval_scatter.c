/* scatter: slices of updates are set, added, multiplied ... at indexed places. One thread goes
 * through the indices in order, so later writes win and sums are the same every time. */
#include <mica/ops.h>

#include <string.h>

#include "base/half.h"
#include "cpu/copy.h"
#include "cpu/eval.h"
#include "cpu/index.h"
#include "graph/attr.h"

/* to = combine(to, from) for n elements; steps are in bytes. */
typedef void (*combine_fn)(char *to, int64_t to_step, const char *from, int64_t from_step,
                           int64_t n);

#define COMBINE(NAME, type, EXPR)                                                                 \
    static void NAME(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t n) { \
        for (; n > 0; n--, to += to_step, from += from_step) {                                    \
            type a, b;                                                                            \
            memcpy(&a, to, sizeof a);                                                             \
            memcpy(&b, from, sizeof b);                                                           \
            a = (type)(EXPR);                                                                     \
            memcpy(to, &a, sizeof a);                                                             \
        }                                                                                         \
    }

/* Integers wrap: the arithmetic is unsigned, of full width. */
#define COMBINE_INTEGER(name, type)                          \
    COMBINE(name##_add, type, (uint64_t)a + (uint64_t)b)     \
    COMBINE(name##_multiply, type, (uint64_t)a *(uint64_t)b) \
    COMBINE(name##_maximum, type, a > b ? a : b)             \
    COMBINE(name##_minimum, type, a < b ? a : b)

/* f16 and bf16 are rounded at each step. maximum and minimum of NaN are NaN. */
#define COMBINE_FLOAT(name, type, load, store)                                      \
    COMBINE(name##_add, type, store(load(a) + load(b)))                             \
    COMBINE(name##_multiply, type, store(load(a) * load(b)))                        \
    COMBINE(name##_maximum, type, load(a) != load(a) || load(a) >= load(b) ? a : b) \
    COMBINE(name##_minimum, type, load(a) != load(a) || load(a) <= load(b) ? a : b)

COMBINE(bool_or, uint8_t, a | b)
COMBINE(bool_and, uint8_t, a &b)
COMBINE_INTEGER(u8, uint8_t)
COMBINE_INTEGER(u16, uint16_t)
COMBINE_INTEGER(u32, uint32_t)
COMBINE_INTEGER(u64, uint64_t)
COMBINE_INTEGER(i8, int8_t)
COMBINE_INTEGER(i16, int16_t)
COMBINE_INTEGER(i32, int32_t)
COMBINE_INTEGER(i64, int64_t)
#define SAME(x) (x)
COMBINE_FLOAT(f16, uint16_t, mc_f16_to_f32, mc_f32_to_f16)
COMBINE_FLOAT(bf16, uint16_t, mc_bf16_to_f32, mc_f32_to_bf16)
COMBINE_FLOAT(f32, float, SAME, SAME)

/* [dtype][mode - 1]; MICA_SCATTER_SET is a copy. */
#define ROW(name) \
    { name##_add, name##_multiply, name##_maximum, name##_minimum }
static const combine_fn combine[MICA_DTYPE_COUNT][4] = {
    [MICA_BOOL] = {bool_or, bool_and, bool_or, bool_and},
    [MICA_U8] = ROW(u8),
    [MICA_U16] = ROW(u16),
    [MICA_U32] = ROW(u32),
    [MICA_U64] = ROW(u64),
    [MICA_I8] = ROW(i8),
    [MICA_I16] = ROW(i16),
    [MICA_I32] = ROW(i32),
    [MICA_I64] = ROW(i64),
    [MICA_F16] = ROW(f16),
    [MICA_BF16] = ROW(bf16),
    [MICA_F32] = ROW(f32),
};

/* Combines one slice: both layouts have the same shape, which is not empty. */
static void combine_slice(combine_fn fn, char *to, const mc_layout *to_layout, const char *from,
                          const mc_layout *from_layout) {
    int64_t item = (int64_t)mica_dtype_bytes(to_layout->dtype);
    int last = to_layout->ndim - 1;
    mc_layout to_lines = *to_layout, from_lines = *from_layout;
    to_lines.shape[last] = from_lines.shape[last] = 1;
    mc_walk wt = mc_walk_begin(&to_lines), wf = mc_walk_begin(&from_lines);
    do {
        fn(to + wt.offset * item, to_layout->strides[last] * item, from + wf.offset * item,
           from_layout->strides[last] * item, to_layout->shape[last]);
        mc_walk_next(&wf);
    } while (mc_walk_next(&wt));
}

/* updates has the index shape, then the slice shape. */
mica_status mc_eval_scatter(const mc_call *call) {
    const mc_attr_scatter *a = call->attr;
    const mc_layout *out = call->out.layout, *updates = call->in[1].layout;
    mc_copy_base(call, &call->in[0]);
    if (mc_layout_size(updates) == 0) return MICA_OK;
    int n_index = updates->ndim - out->ndim;
    mc_layout from = {.dtype = out->dtype, .ndim = out->ndim};
    memcpy(from.shape, updates->shape + n_index, (size_t)out->ndim * sizeof *from.shape);
    memcpy(from.strides, updates->strides + n_index, (size_t)out->ndim * sizeof *from.strides);
    mc_layout to = from;
    memcpy(to.strides, out->strides, sizeof to.strides);
    mc_copy copy;
    mc_copy_init(&copy, &to, &from);

    mc_layout places = *updates; /* where the update of each index begins */
    places.ndim = n_index;
    mc_walk place = mc_walk_begin(&places);
    mc_index_walk w = mc_index_walk_begin("scatter", call->in + 2, (int)a->n, a->axes, out);
    do {
        int64_t offset;
        MC_TRY(mc_index_walk_offset(&w, &offset));
        char *target = (char *)call->out.data + offset * copy.item;
        const char *update = (const char *)call->in[1].data + place.offset * copy.item;
        if (a->mode == MICA_SCATTER_SET) {
            mc_copy_at(&copy, target, update);
        } else {
            combine_slice(combine[out->dtype][a->mode - 1], target, &to, update, &from);
        }
        mc_walk_next(&place);
    } while (mc_index_walk_next(&w));
    return MICA_OK;
}
