/* The functions of emit_list.h, and the table of them. */
#ifndef MLX_EMIT_H
#define MLX_EMIT_H

#include "device/backend.h"
#include "mlx/call.h"

/* Whether there is a row for an op over these layouts; attr, in and out NULL: over some. */
bool mc_mlx_supports(mc_mlx_place place, mc_op op, const void *attr, const mc_layout *const *in,
                     int n_in, const mc_layout *out);

/* On the thread: builds MLX's graph for an op that has a row, views too; frees what the call
 * owns. errors  MICA_EDEVICE */
mica_status mc_mlx_emit(mc_mlx_call *c);

#define EMIT(op, function) void function(mc_mlx_call *c);
#define EMIT_IF(op, function, supports) void function(mc_mlx_call *c);
#define AS_IS(op, name)
#define WIDE(op, name)
#include "mlx/emit_list.h"

/* Of EMIT_IF's rows; takes NULL as mc_mlx_supports does. */
typedef bool (*mc_mlx_supports_fn)(mc_mlx_place place, const void *attr, const mc_layout *const *in,
                                   int n_in, const mc_layout *out);

/* Writes to one element come in the order of the indices. */
bool mc_mlx_supports_in_order(mc_mlx_place place, const void *attr, const mc_layout *const *in,
                              int n_in, const mc_layout *out);
/* Rows of more than one group, on CUDA. */
bool mc_mlx_supports_gather_qmm(mc_mlx_place place, const void *attr, const mc_layout *const *in,
                                int n_in, const mc_layout *out);
/* The same, and on CUDA no batch that is broadcast, nor many rows in f32 of large groups. */
bool mc_mlx_supports_quantized_matmul(mc_mlx_place place, const void *attr,
                                      const mc_layout *const *in, int n_in, const mc_layout *out);
/* Results whose rows are multiples of 8 where those of the first operand are, on CUDA. */
bool mc_mlx_supports_gather_mm(mc_mlx_place place, const void *attr, const mc_layout *const *in,
                               int n_in, const mc_layout *out);
/* Not a number for each position. */
bool mc_mlx_supports_rope(mc_mlx_place place, const void *attr, const mc_layout *const *in,
                          int n_in, const mc_layout *out);
/* Scores without a cap, keys and values that are floats. */
bool mc_mlx_supports_sdpa(mc_mlx_place place, const void *attr, const mc_layout *const *in,
                          int n_in, const mc_layout *out);
/* Groups where MLX has them right, padding that adds, and something to compute. */
bool mc_mlx_supports_conv(mc_mlx_place place, const void *attr, const mc_layout *const *in,
                          int n_in, const mc_layout *out);

#endif
