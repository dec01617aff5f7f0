/* Tables of the members of attributes. */
#include "graph/attr.h"

#include <stddef.h>

#define FIELD(name, member, what)                                           \
    {                                                                       \
#member, MC_ATTR_##what, (int)offsetof(mc_attr_##name, member) / 8, \
            (int)sizeof(((mc_attr_##name *)0)->member) / 8                  \
    }

#define ATTR(name) \
    _Static_assert(sizeof(mc_attr_##name) <= MC_ATTR_MAX_WORDS * sizeof(int64_t), #name);
#include "graph/attr_list.h"

const mc_attr_field mc_attr_part_fields[] = {
    FIELD(part, index, INT),
    {0},
};

const mc_attr_field mc_attr_dtype_fields[] = {
    FIELD(dtype, dtype, DTYPE),
    {0},
};

const mc_attr_field mc_attr_q8_fields[] = {
    FIELD(q8, length, INT),
    FIELD(q8, dtype, DTYPE),
    {0},
};

const mc_attr_field mc_attr_axis_fields[] = {
    FIELD(axis, axis, INT),
    {0},
};

const mc_attr_field mc_attr_reduce_fields[] = {
    FIELD(reduce, axes, MASK),
    {0},
};

const mc_attr_field mc_attr_scan_fields[] = {
    FIELD(scan, reverse, INT),
    FIELD(scan, inclusive, INT),
    {0},
};

const mc_attr_field mc_attr_topk_fields[] = {
    FIELD(topk, k, INT),
    {0},
};

const mc_attr_field mc_attr_range_fields[] = {
    FIELD(range, start, REAL),
    FIELD(range, step, REAL),
    FIELD(range, count, INT),
    FIELD(range, dtype, DTYPE),
    {0},
};

const mc_attr_field mc_attr_shape_fields[] = {
    FIELD(shape, ndim, COUNT),
    FIELD(shape, shape, LIST),
    {0},
};

const mc_attr_field mc_attr_transpose_fields[] = {
    FIELD(transpose, axes, AXES),
    {0},
};

const mc_attr_field mc_attr_slice_fields[] = {
    FIELD(slice, start, AXES),
    FIELD(slice, step, AXES),
    FIELD(slice, count, AXES),
    {0},
};

const mc_attr_field mc_attr_strided_fields[] = {
    FIELD(strided, ndim, COUNT),
    FIELD(strided, shape, LIST),
    FIELD(strided, strides, LIST),
    FIELD(strided, offset, INT),
    {0},
};

const mc_attr_field mc_attr_gather_fields[] = {
    FIELD(gather, n, COUNT),
    FIELD(gather, axes, LIST),
    FIELD(gather, slice_sizes, AXES),
    {0},
};

const mc_attr_field mc_attr_scatter_fields[] = {
    FIELD(scatter, n, COUNT),
    FIELD(scatter, axes, LIST),
    FIELD(scatter, mode, INT),
    {0},
};

const mc_attr_field mc_attr_matmul_fields[] = {
    FIELD(matmul, fast, INT),
    {0},
};

const mc_attr_field mc_attr_quant_fields[] = {
    FIELD(quant, mode, INT),
    FIELD(quant, bits, INT),
    FIELD(quant, group_size, INT),
    FIELD(quant, transpose, INT),
    FIELD(quant, dtype, DTYPE),
    FIELD(quant, fast, INT),
    {0},
};

const mc_attr_field mc_attr_norm_fields[] = {
    FIELD(norm, eps, REAL),
    {0},
};

const mc_attr_field mc_attr_rope_fields[] = {
    FIELD(rope, dims, INT),
    FIELD(rope, traditional, INT),
    FIELD(rope, base, REAL),
    FIELD(rope, scale, REAL),
    {0},
};

const mc_attr_field mc_attr_sdpa_fields[] = {
    FIELD(sdpa, scale, REAL), FIELD(sdpa, softcap, REAL), FIELD(sdpa, causal, INT),
    FIELD(sdpa, window, INT), FIELD(sdpa, keep, INT),     {0},
};

const mc_attr_field mc_attr_bits_fields[] = {
    FIELD(bits, width_bytes, INT),
    FIELD(bits, ndim, COUNT),
    FIELD(bits, shape, LIST),
    {0},
};

const mc_attr_field mc_attr_if_fields[] = {
    FIELD(if, then_graph, GRAPH),
    FIELD(if, else_graph, GRAPH),
    {0},
};

const mc_attr_field mc_attr_while_fields[] = {
    FIELD(while, cond, GRAPH),
    FIELD(while, body, GRAPH),
    FIELD(while, max_rounds, INT),
    {0},
};

const mc_attr_field mc_attr_scan_over_fields[] = {
    FIELD(scan_over, body, GRAPH),
    FIELD(scan_over, n_carried, INT),
    FIELD(scan_over, n_xs, INT),
    FIELD(scan_over, length, INT),
    FIELD(scan_over, reverse, INT),
    FIELD(scan_over, checkpoints, INT),
    {0},
};

const mc_attr_field mc_attr_require_fields[] = {
    FIELD(require, what, INT),
    FIELD(require, axis, INT),
    {0},
};

const mc_attr_field mc_attr_custom_fields[] = {
    FIELD(custom, op, ID),
    FIELD(custom, n, COUNT),
    FIELD(custom, numbers, NUMBERS),
    {0},
};

const mc_attr_field mc_attr_collective_fields[] = {
    FIELD(collective, group, ID),
    FIELD(collective, rank, ID),
    {0},
};

const mc_attr_field mc_attr_conv_fields[] = {
    FIELD(conv, spatial, COUNT),
    FIELD(conv, stride, LIST),
    FIELD(conv, padding_lo, LIST),
    FIELD(conv, padding_hi, LIST),
    FIELD(conv, kernel_dilation, LIST),
    FIELD(conv, input_dilation, LIST),
    FIELD(conv, groups, INT),
    FIELD(conv, flip, INT),
    {0},
};

const mc_attr_field mc_attr_window_fields[] = {
    FIELD(window, kind, INT),   FIELD(window, axis, INT),     FIELD(window, size, INT),
    FIELD(window, stride, INT), FIELD(window, dilation, INT), FIELD(window, base, INT),
    FIELD(window, lo, INT),     FIELD(window, hi, INT),       {0},
};

const mc_attr_field mc_attr_fft_fields[] = {
    FIELD(fft, inverse, INT),
    {0},
};
