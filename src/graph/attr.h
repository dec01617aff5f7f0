/* Attributes of ops: the constants that are part of a graph's structure.
 *
 * They are compared and hashed as bytes, so every member is 8 bytes wide and there is no padding.
 * Axes are already counted from the front. Files hold them by the names of their members: a member
 * that is renamed is another one, and one that is added means with 0 what was meant without it. */
#ifndef GRAPH_ATTR_H
#define GRAPH_ATTR_H

#include <mica/array.h>
#include <mica/ops.h> /* enums that attributes hold */

#include <stdbool.h>
#include <stdint.h>

/* A subgraph (graph/subgraph.h) in attributes. Keys and files hold what it is, not where. */
typedef union mc_graph_ref {
    const struct mc_subgraph *graph;
    uint64_t word;
} mc_graph_ref;

typedef struct mc_attr_part {
    int64_t index;
} mc_attr_part;

typedef struct mc_attr_dtype { /* astype, view, from_fp8 */
    int64_t dtype;
} mc_attr_dtype;

typedef struct mc_attr_q8 { /* from_q8 */
    int64_t length;
    int64_t dtype;
} mc_attr_q8;

typedef struct mc_attr_axis { /* take, concatenate, slice_update_at ... */
    int64_t axis;
} mc_attr_axis;

/* Scans, sorting, topk and softmax work along the last axis: builders bring it there by a view. */

typedef struct mc_attr_reduce { /* reduced axes keep length 1; builders drop them by a reshape */
    int64_t axes;               /* bit i: axis i is reduced */
} mc_attr_reduce;

typedef struct mc_attr_scan { /* cumsum ... */
    int64_t reverse;
    int64_t inclusive;
} mc_attr_scan;

typedef struct mc_attr_topk {
    int64_t k;
} mc_attr_topk;

typedef struct mc_attr_range { /* arange */
    double start;
    double step;
    int64_t count;
    int64_t dtype;
} mc_attr_range;

typedef struct mc_attr_shape { /* reshape, broadcast_to */
    int64_t ndim;
    int64_t shape[MICA_MAX_NDIM];
} mc_attr_shape;

typedef struct mc_attr_transpose {
    int64_t axes[MICA_MAX_NDIM];
} mc_attr_transpose;

typedef struct mc_attr_slice { /* slice, slice_update: element i of axis k is start + i * step */
    int64_t start[MICA_MAX_NDIM];
    int64_t step[MICA_MAX_NDIM];
    int64_t count[MICA_MAX_NDIM];
} mc_attr_slice;

typedef struct mc_attr_strided { /* as_strided */
    int64_t ndim;
    int64_t shape[MICA_MAX_NDIM];
    int64_t strides[MICA_MAX_NDIM];
    int64_t offset;
} mc_attr_strided;

typedef struct mc_attr_gather { /* gather: in = x, indices...; slice_sizes [ndim of x] */
    int64_t n;
    int64_t axes[MICA_MAX_NDIM];
    int64_t slice_sizes[MICA_MAX_NDIM];
} mc_attr_gather;

typedef struct mc_attr_scatter { /* in = x, updates, indices... */
    int64_t n;
    int64_t axes[MICA_MAX_NDIM];
    int64_t mode; /* mica_scatter_mode */
} mc_attr_scatter;

typedef struct mc_attr_matmul {
    int64_t fast; /* a may be rounded to bf16 where b is */
} mc_attr_matmul;

typedef struct mc_attr_quant { /* dequantize, quantized_matmul */
    int64_t mode;              /* mica_quant_mode */
    int64_t bits;
    int64_t group_size;
    int64_t transpose; /* quantized_matmul */
    int64_t dtype;     /* dequantize: of the result */
    /* quantized_matmul: an element of x may become so many codes of 8 bits, 1 or 2, or bf16; 0: it
     * stays f32 */
    int64_t fast;
} mc_attr_quant;

typedef struct mc_attr_norm {
    double eps;
} mc_attr_norm;

typedef struct mc_attr_rope {
    int64_t dims;
    int64_t traditional;
    double base; /* not read where freqs are given */
    double scale;
} mc_attr_rope;

typedef struct mc_attr_sdpa { /* in = q, k, v, mask, offset, sinks; the last three optional; of
                                sdpa_gradient dy and, optional, dlse after them, of paged_sdpa the
                                table */
    double scale;
    double softcap;
    int64_t causal;
    int64_t window;
    int64_t keep;
} mc_attr_sdpa;

typedef struct mc_attr_bits { /* random_bits */
    int64_t width_bytes;
    int64_t ndim;
    int64_t shape[MICA_MAX_NDIM];
} mc_attr_bits;

typedef struct mc_attr_if { /* in = pred, then the parameters of both */
    mc_graph_ref then_graph;
    mc_graph_ref else_graph;
} mc_attr_if;

typedef struct mc_attr_while { /* in = the parameters of both: carried values, then captures */
    mc_graph_ref cond;
    mc_graph_ref body;  /* gives the carried values */
    int64_t max_rounds; /* 0: any number */
} mc_attr_while;

typedef struct mc_attr_scan_over { /* in = carried values, xs, captures; body has a row of each x */
    mc_graph_ref body;             /* gives the carried values, and a row of each y */
    int64_t n_carried;
    int64_t n_xs;
    int64_t length;
    int64_t reverse;
    int64_t checkpoints; /* how many carried values a gradient keeps; 0: the root of length */
} mc_attr_scan_over;

/* What `require` can ask: rows of graph/require_list.h. */
typedef enum mc_requirement {
#define REQUIRE(ENUM, op, thing, text) MC_REQUIRE_##ENUM,
#include "graph/require_list.h"
    MC_REQUIRE_COUNT
} mc_requirement;

typedef struct mc_attr_require {
    int64_t what; /* mc_requirement */
    int64_t axis; /* of MC_REQUIRE_TRIM: whose first elements count */
} mc_attr_require;

typedef struct mc_attr_custom {
    int64_t op; /* mc_custom_id */
    int64_t n;
    int64_t numbers[MICA_MAX_NDIM];
} mc_attr_custom;

typedef struct mc_attr_collective { /* in = x, token; the latter optional */
    int64_t group;                  /* mc_group_number */
    int64_t rank;                   /* the root, or the one that sends or receives; else 0 */
} mc_attr_collective;

typedef struct mc_attr_conv { /* conv_general: a number for each of `spatial` axes */
    int64_t spatial;
    int64_t stride[3];
    int64_t padding_lo[3];
    int64_t padding_hi[3];
    int64_t kernel_dilation[3];
    int64_t input_dilation[3];
    int64_t groups;
    int64_t flip;
} mc_attr_conv;

typedef struct mc_attr_window { /* reduce_window: along one axis */
    int64_t kind;               /* mica_window_kind, no mean */
    int64_t axis;
    int64_t size;
    int64_t stride;
    int64_t dilation;
    int64_t base;
    int64_t lo;
    int64_t hi;
} mc_attr_window;

typedef struct mc_attr_fft {
    int64_t inverse;
} mc_attr_fft;

/* ---- what the members are: for text and files ---- */

typedef enum mc_attr_kind {
    MC_ATTR_INT,
    MC_ATTR_REAL,
    MC_ATTR_DTYPE,
    MC_ATTR_MASK,  /* bit i: axis i */
    MC_ATTR_COUNT, /* how many elements of the struct's MC_ATTR_LISTs count */
    MC_ATTR_LIST,
    MC_ATTR_AXES, /* a list of one element for each axis of the first operand */
    MC_ATTR_GRAPH,
    MC_ATTR_ID,     /* a number that is no length, whatever it is */
    MC_ATTR_NUMBERS /* a list of an application's numbers, lengths or not, which may be large */
} mc_attr_kind;

typedef struct mc_attr_field {
    const char *name;
    mc_attr_kind kind;
    int at, words; /* of 8 bytes; all fields together are the struct, in its order */
} mc_attr_field;

enum { MC_ATTR_MAX_WORDS = 3 * MICA_MAX_NDIM, MC_ATTR_MAX_FIELDS = 8 };

/* Whether words of a kind may be lengths, which have symbols then. */
static inline bool mc_attr_has_dims(mc_attr_kind kind) {
    return kind != MC_ATTR_GRAPH && kind != MC_ATTR_ID;
}

/* The subgraph of a field that is one. */
static inline const struct mc_subgraph *mc_attr_graph(const void *attr, const mc_attr_field *f) {
    return ((const mc_graph_ref *)attr + f->at)->graph;
}

/* mc_attr_<name>_fields, up to one without a name. */
#define ATTR(name) extern const mc_attr_field mc_attr_##name##_fields[];
#include "graph/attr_list.h"

/* In an op's description: that its attributes are a struct mc_attr_<name>. */
#define MC_ATTR(name) .attr_bytes = sizeof(mc_attr_##name), .attr_fields = mc_attr_##name##_fields

#endif
