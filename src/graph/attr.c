/* Tables of the members of attributes. */
#include "graph/attr.h"

#include <stddef.h>

#define FIELD(name, member, what)                                           \
    {                                                                       \
#member, MC_ATTR_##what, (int)offsetof(mc_attr_##name, member) / 8, \
            (int)sizeof(((mc_attr_##name *)0)->member) / 8                  \
    }

#define TABLE(name, ...) const mc_attr_field mc_attr_##name##_fields[] = {__VA_ARGS__, {0}}

#define ATTR(name) \
    _Static_assert(sizeof(mc_attr_##name) <= MC_ATTR_MAX_WORDS * sizeof(int64_t), #name);
#include "graph/attr_list.h"

TABLE(part, FIELD(part, index, INT));
TABLE(dtype, FIELD(dtype, dtype, DTYPE));
TABLE(q8, FIELD(q8, length, INT), FIELD(q8, dtype, DTYPE));
TABLE(axis, FIELD(axis, axis, INT));
TABLE(reduce, FIELD(reduce, axes, MASK));
TABLE(scan, FIELD(scan, reverse, INT), FIELD(scan, inclusive, INT));
TABLE(topk, FIELD(topk, k, INT));
TABLE(range, FIELD(range, start, REAL), FIELD(range, step, REAL), FIELD(range, count, INT),
      FIELD(range, dtype, DTYPE));
TABLE(shape, FIELD(shape, ndim, COUNT), FIELD(shape, shape, LIST));
TABLE(transpose, FIELD(transpose, axes, AXES));
TABLE(slice, FIELD(slice, start, AXES), FIELD(slice, step, AXES), FIELD(slice, count, AXES));
TABLE(strided, FIELD(strided, ndim, COUNT), FIELD(strided, shape, LIST),
      FIELD(strided, strides, LIST), FIELD(strided, offset, INT));
TABLE(gather, FIELD(gather, n, COUNT), FIELD(gather, axes, LIST), FIELD(gather, slice_sizes, AXES));
TABLE(scatter, FIELD(scatter, n, COUNT), FIELD(scatter, axes, LIST), FIELD(scatter, mode, INT));
TABLE(matmul, FIELD(matmul, fast, INT));
TABLE(quant, FIELD(quant, mode, INT), FIELD(quant, bits, INT), FIELD(quant, group_size, INT),
      FIELD(quant, transpose, INT), FIELD(quant, dtype, DTYPE), FIELD(quant, fast, INT));
TABLE(norm, FIELD(norm, eps, REAL));
TABLE(rope, FIELD(rope, dims, INT), FIELD(rope, traditional, INT), FIELD(rope, base, REAL),
      FIELD(rope, scale, REAL));
TABLE(sdpa, FIELD(sdpa, scale, REAL), FIELD(sdpa, softcap, REAL), FIELD(sdpa, causal, INT),
      FIELD(sdpa, window, INT), FIELD(sdpa, keep, INT));
TABLE(bits, FIELD(bits, width_bytes, INT), FIELD(bits, ndim, COUNT), FIELD(bits, shape, LIST));
TABLE(if, FIELD(if, then_graph, GRAPH), FIELD(if, else_graph, GRAPH));
TABLE(while, FIELD(while, cond, GRAPH), FIELD(while, body, GRAPH), FIELD(while, max_rounds, INT));
TABLE(scan_over, FIELD(scan_over, body, GRAPH), FIELD(scan_over, n_carried, INT),
      FIELD(scan_over, n_xs, INT), FIELD(scan_over, length, INT), FIELD(scan_over, reverse, INT),
      FIELD(scan_over, checkpoints, INT));
TABLE(require, FIELD(require, what, INT), FIELD(require, axis, INT));
TABLE(custom, FIELD(custom, op, ID), FIELD(custom, n, COUNT), FIELD(custom, numbers, NUMBERS));
TABLE(collective, FIELD(collective, group, ID), FIELD(collective, rank, ID));
TABLE(conv, FIELD(conv, spatial, COUNT), FIELD(conv, stride, LIST), FIELD(conv, padding_lo, LIST),
      FIELD(conv, padding_hi, LIST), FIELD(conv, kernel_dilation, LIST),
      FIELD(conv, input_dilation, LIST), FIELD(conv, groups, INT), FIELD(conv, flip, INT));
TABLE(window, FIELD(window, kind, INT), FIELD(window, axis, INT), FIELD(window, size, INT),
      FIELD(window, stride, INT), FIELD(window, dilation, INT), FIELD(window, base, INT),
      FIELD(window, lo, INT), FIELD(window, hi, INT));
TABLE(fft, FIELD(fft, inverse, INT));
