/* The graph: nodes in a scope, each made by an op from earlier nodes.
 *
 * Invariants (mc_graph_verify checks them):
 *  - the inputs of a node have smaller indices than the node: every pass is a loop;
 *  - a node's dtype and shape are what its op's infer says; they never change;
 *  - a node of an op of several results is read by PART alone, which names one of them, and never
 *    READY: its PARTs are;
 *  - a PENDING node has no storage, a READY node has storage or an inline value or is a parameter,
 *    a GONE node was moved away or overwritten and may not be read;
 *  - operands from other scopes were brought in as LEAF nodes that share their storage, one for
 *    each; in a scope within another (mc_scope_open_within), as parameters.
 *
 * Nodes live in the scope's arena and are freed with it. Threads: as mica/array.h says. */
#ifndef GRAPH_GRAPH_H
#define GRAPH_GRAPH_H

#include <mica/grad.h>

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/status.h"
#include "graph/dim.h"
#include "graph/layout.h"
#include "graph/storage.h"

typedef enum mc_op {
#define OP(ENUM, name) MC_OP_##ENUM,
#include "graph/op_list.h"
    MC_OP_COUNT
} mc_op;

#define MC_ABSENT UINT32_MAX /* the index of an optional input that was not given */

typedef enum mc_node_state { MC_PENDING, MC_READY, MC_GONE } mc_node_state;

typedef struct mc_node {
    mc_op op;
    mc_node_state state;
    bool movable;  /* came by mica_move: may be overwritten by the op that reads it last */
    bool scalar;   /* a leaf whose value is inline, not part of the structure */
    bool param;    /* a leaf without a value: what a program is given each time it runs */
    bool kept;     /* while mc_scope_keep runs: stays */
    bool fallback; /* param: its value lies with the fallback device (mc_leaf_falls_back) */
    uint32_t n_in;
    uint32_t attr_bytes;
    const uint32_t *in; /* [n_in] node indices or MC_ABSENT */
    const void *attr;   /* a struct of graph/attr.h, or NULL */
    mc_layout layout;   /* strides hold once READY; of an op of several results: of the first */
    const mc_layout *results; /* [n_out] of an op of several results, dense; NULL for the others */
    uint32_t n_out;           /* of an op of several results: how many */
    mc_storage *storage;      /* READY, not scalar: owned reference */
    int64_t offset_bytes;     /* of the first element in the storage */
    uint64_t value;           /* scalar: the element's bytes */
    int64_t length;           /* scalar: the dimension with symbols that it is; 0: it is value */
} mc_node;

/* What computing an op takes, for an estimate of its time. */
typedef enum mc_work_kind {
    MC_WORK_ELEMENTS, /* by element; a function such as exp counts as MC_WORK_FUNCTION operations */
    MC_WORK_MATMUL,
    MC_WORK_CONV,
    MC_WORK_ATTENTION,
    MC_WORK_REDUCE,
    MC_WORK_SCAN,
    MC_WORK_FFT
} mc_work_kind;

enum { MC_WORK_FUNCTION = 8 };

typedef struct mc_work {
    mc_work_kind kind;
    double operations; /* on numbers: a product of [m, k] and [k, n] is 2 m k n */
    double bytes;      /* read and written */
} mc_work;

/* What the graph knows of an op. One constant each, mc_op_<name>. */
typedef struct mc_op_def {
    const char *name;
    int min_in, max_in; /* operands: max_in, of which those from min_in on may be absent */
    bool variadic;      /* any number from min_in to max_in instead, none of them absent */
    bool acts; /* does more than compute: is not computed ahead, nor made one with another */
    int n_out; /* results; 0: one, or count_out says */
    size_t attr_bytes;
    const struct mc_attr_field *attr_fields; /* NULL where there are none (MC_ATTR, graph/attr.h) */

    /* The shape rule: checks operands (NULL where absent) and attributes, sets dtype, ndim and
     * shape of out, or of each of out [n_out]. Errors are said with mc_fail, beginning with the
     * op's name. Operands and attributes may come from a file: what it lets through must be safe
     * for view, decompose and every kernel, which check nothing again. */
    mica_status (*infer)(const void *attr, const mc_layout *const *in, int n_in, mc_layout *out);

    /* For ops that only look at in[0] in another way: sets out's strides (dtype and shape are set)
     * and the offset in bytes from in[0]'s first element. false: data must be moved; the planner
     * then puts CONTIGUOUS before it. NULL for the others. */
    bool (*view)(const void *attr, const mc_layout *in, mc_layout *out, int64_t *offset_bytes);

    /* The same values from plainer ops, recorded in s, into out [n_out]: what a device without the
     * kernel runs, and what tests compare a kernel with. NULL for the plainest. `in` may hold
     * MICA_NONE. Its constants are scalars: it makes no arrays from data, which a plan could not
     * hold. */
    void (*decompose)(mica_scope *s, const void *attr, const mica_array *in, int n_in,
                      mica_array *out);

    /* What computing it takes. *work holds what it is where this is NULL: one operation for each
     * element of the results, all elements of operands read and of results written. in and out as
     * infer has them, with their strides. */
    void (*work)(const void *attr, const mc_layout *const *in, int n_in, const mc_layout *out,
                 mc_work *work);

    /* Of ops whose attributes hold subgraphs (graph/subgraph.h), how many results these give, 1 or
     * more; they count as several. No device sees such an op: exec/control.h runs it. */
    int (*count_out)(const void *attr);

    /* How many of the first operands the first result may take the memory of, where nobody else
     * needs it and the layouts are equal and dense: 0 none, 1 in[0], 2 in[0] or in[1] ... */
    int in_place;
} mc_op_def;

/* Defines the op `op` of MIN to MAX operands, with its other members by name. */
#define MC_OP(op, MIN, MAX, ...) \
    const mc_op_def mc_op_##op = {.name = #op, .min_in = MIN, .max_in = MAX, __VA_ARGS__}

#define OP(ENUM, name) extern const mc_op_def mc_op_##name;
#include "graph/op_list.h"

const mc_op_def *mc_op_get(mc_op op);
mc_op mc_op_find(const char *name); /* MC_OP_COUNT: there is none; a leaf is no op */

/* How many results an op has that is not control flow. */
static inline int mc_op_n_out(const mc_op_def *def) {
    return def->n_out > 1 ? def->n_out : 1;
}
static inline bool mc_op_is_control(const mc_op_def *def) {
    return def->count_out != NULL;
}

/* How many results a node has, and their layouts, one after the other. */
static inline int mc_node_n_out(const mc_node *node) {
    return node->results ? (int)node->n_out : 1;
}
static inline const mc_layout *mc_node_results(const mc_node *node) {
    return node->results ? node->results : &node->layout;
}

/* ---- recording: what builders in src/op/ use ---- */

/* Records op over in[n_in] in s and returns the new array: operands are brought into s, infer runs,
 * attr (of the op's attr_bytes; NULL for 0) is copied. Where the scope has an error already, or
 * finds one here, returns mc_invalid(s). Of an op of several results it returns the node, which
 * only mc_record_part takes. */
mica_array mc_record(mica_scope *s, mc_op op, const void *attr, const mica_array *in, int n_in);

/* Records a PART: the result number `index` of the node of an op of several. */
mica_array mc_record_part(mica_scope *s, mica_array node, int index);

/* The layout that a PART with these attributes names; NULL: there is none. */
const mc_layout *mc_part_layout(const void *attr, const mc_node *operand);

/* Which result of its operand a node is; -1: it is none of several. */
int mc_node_part(const mc_node *node);

/* The layout that an op with these attributes sees of an operand. NULL: it cannot take that; nodes
 * of several results are for PART, and PART is for these. */
static inline const mc_layout *mc_operand_layout(mc_op op, const void *attr,
                                                 const mc_node *operand) {
    if (op == MC_OP_PART) return mc_part_layout(attr, operand);
    return operand->results ? NULL : &operand->layout;
}

/* errors  MICA_EINVAL x is the node of an op of several results, and no array: "<what>: ..." */
mica_status mc_check_array(mica_array x, const char *what);

/* The layout of a valid array (strides only once evaluated), NULL for MICA_NONE. */
const mc_layout *mc_layout_of(mica_array x);

/* What an op that failed in s, which may be NULL, returns: an invalid array that names s. The
 * thread's text becomes that of s's first error. */
mica_array mc_invalid(mica_scope *s);

/* Keeps an error as the scope's first one and returns mc_invalid(s). */
mica_array mc_scope_fail(mica_scope *s, mica_status status, const char *fmt, ...) MC_PRINTF(3, 4);

/* True where all required operands are valid and the scope has no error; else leaves the error of
 * mc_check_valid in s. For builders that look at layouts first. */
bool mc_operands_ok(mica_scope *s, const char *op, const mica_array *in, int n_in);

/* errors  x is invalid: the first error of the scope that it names; MICA_EINVAL there is none,
 *         "<what>: the invalid array" */
mica_status mc_check_valid(mica_array x, const char *what);

/* Counts an axis from the front. errors  MICA_EINVAL "<op>: there is no axis 2 in f32[2,3]" */
mica_status mc_axis(const char *op, const mc_layout *l, int axis, int *out);

/* The shape that both broadcast to. errors  MICA_ESHAPE "<op>: f32[2,3] and f32[4] ..." */
mica_status mc_broadcast_shapes(const char *op, const mc_layout *a, const mc_layout *b,
                                int64_t shape[MICA_MAX_NDIM], int *ndim);

/* The array in s: itself, or the leaf of s that stands for an array of another scope. The invalid
 * array after an error, which s keeps. */
mica_array mc_import(mica_scope *s, const char *op, mica_array x);

/* ---- regions: what a function recorded, where gradients treat it as a whole ---- */

/* The nodes [begin, end) of a scope. Regions nest and do not overlap otherwise. They live until
 * the scope is reset or collected. */
typedef struct mc_region mc_region;
struct mc_region {
    mc_region *older; /* those that end later or enclose others are newer */
    uint32_t begin, end;
    mica_custom_gradient custom; /* fn NULL: the nodes are recorded again for the backward pass */
    void *user;                  /* of custom, as the rest */
    size_t n_args, n_results;
    const mica_array *args;    /* [n_args] */
    const mica_array *results; /* [n_results] different nodes of the region */
};

/* Copies a region and its lists into the scope. errors  MICA_ENOMEM */
mica_status mc_scope_add_region(mica_scope *s, const mc_region *region);
/* The newest; NULL: there is none. */
const mc_region *mc_scope_regions(const mica_scope *s);

/* How many functions may be recording at once, each called by the one before it. */
enum { MC_RECORDING_DEPTH = 256 };

/* Between the two calls a function records into s: functions that it calls become a part of it
 * (mica_function_call).
 * errors  MICA_EINVAL MC_RECORDING_DEPTH functions are recording, into s or the scopes around it;
 *         then there is nothing to end */
mica_status mc_scope_begin_recording(mica_scope *s);
void mc_scope_end_recording(mica_scope *s);
bool mc_scope_is_recording(const mica_scope *s);
/* Whether a function records into it or into a scope within it: its nodes must stay. */
bool mc_scope_is_within_call(const mica_scope *s);

/* ---- data ---- */

/* A 0-dimensional leaf whose bytes are the low ones of `bits`. */
mica_array mc_scalar_bits(mica_scope *s, mica_dtype dtype, uint64_t bits);
/* The same of a dimension with symbols, which has its value once these have. */
mica_array mc_scalar_length(mica_scope *s, mica_dtype dtype, int64_t length);
/* The scalar that a leaf is, in s. */
mica_array mc_scalar_like(mica_scope *s, const mc_node *scalar);

/* A leaf over storage (a reference is taken over, released on error): how weights, caches and
 * results enter a scope. layout holds the strides. */
mica_array mc_leaf(mica_scope *s, const mc_layout *layout, mc_storage *storage,
                   int64_t offset_bytes);

/* A leaf over memory of the host, dense, which outlives the array's scope and every scope that uses
 * it, or which a release function frees: a mapped file. `release(owner)` may be NULL. Errors go to
 * s. (device/data.c) */
mica_array mc_leaf_memory(mica_scope *s, const void *data, mica_dtype dtype, const int64_t *shape,
                          int ndim, void (*release)(void *owner), void *owner);

/* A leaf without a value, of a layout with its strides: a parameter (mica_program_param). movable:
 * it is donated. */
mica_array mc_leaf_param(mica_scope *s, const mc_layout *layout, bool movable);

/* Whether a leaf's memory is, or of a parameter will be, the fallback device's: what reads it runs
 * there. */
bool mc_leaf_falls_back(const mc_node *leaf);

/* Says of a scope that what is made in it from data, or from nothing, and parameters lie with the
 * fallback device (mc_device_fallback) from here on, or no longer. It changes nothing on a device
 * without one. */
void mc_scope_set_fallback(mica_scope *s, bool fallback);
bool mc_scope_falls_back(const mica_scope *s);

/* The first element of an evaluated array for the host; NULL where it is not READY, or where the
 * host cannot see it. */
const void *mc_data(mica_array x);

/* ---- scopes within the library ---- */

/* A scope that does not keep its device alive: mica_scope_open without mc_scope_set_release. */
mica_status mc_scope_open(mica_device *device, mica_scope **scope);
/* A scope within another, for a function that becomes a subgraph of a node of that one: arrays of
 * the outer scopes that are used in it become parameters, its captures. The outer one stays as it
 * is, but for leaves and captures of its own, until this one is closed. */
mica_status mc_scope_open_within(mica_scope *outer, mica_scope **scope);

/* An array of the outer scope, and the parameter that stands for it within. */
typedef struct mc_capture {
    mica_array outer, inner;
} mc_capture;

/* The captures so far, in the order of their first use. */
size_t mc_scope_captures(const mica_scope *s, const mc_capture **captures);

/* The symbol of that name of a scope, or of the one around it, made where there is none.
 * errors  MICA_EINVAL the name is no UTF-8, empty, or has more than 63 bytes; there are
 *         MC_MAX_SYMBOLS; MICA_ENOMEM */
mica_status mc_scope_symbol(mica_scope *s, const char *name, mc_symbol *symbol);
/* The same for all symbols that another scope has, in a scope without an outer one.
 * errors  MICA_ENOMEM */
mica_status mc_scope_take_symbols(mica_scope *s, const mica_scope *from);
/* All, in the order in which they were made; they stay when the scope is reset. */
size_t mc_scope_symbols(const mica_scope *s, const mc_symbol **symbols);
/* Of a length: errors  MICA_EINVAL it was made from one with symbols by C's operators, or has a
 * symbol that the scope lacks; MICA_ESHAPE, MICA_ENOMEM it is MC_DIM_NONE, and the scope has
 * some */
mica_status mc_scope_check_dim(const mica_scope *s, int64_t d);

/* Makes room for n nodes more. errors  MICA_ENOMEM */
mica_status mc_scope_reserve(mica_scope *s, size_t n);

/* Says of a new scope that it will have few nodes: it takes less memory at first. */
void mc_scope_expect_few(mica_scope *s);

/* What is called with the device when the scope has closed. */
void mc_scope_set_release(mica_scope *s, void (*release)(mica_device *device));

/* Drops all nodes and the error, keeps the memory for the next use: a decode step. */
void mc_scope_reset(mica_scope *s);

/* Drops all nodes but live [n], evaluated arrays of s, which are leaves then; live receives their
 * new handles. Arrays that are there twice stay one.
 * errors  MICA_ENOMEM: nothing has changed */
mica_status mc_scope_keep(mica_scope *s, mica_array *live, size_t n);

uint32_t mc_scope_count(const mica_scope *s); /* nodes so far */
size_t mc_scope_bytes(const mica_scope *s);   /* that it takes of the heap, imports aside */
mc_node *mc_scope_node(const mica_scope *s, uint32_t index);
mc_node *mc_node_of(mica_array x); /* NULL for MICA_NONE */

/* What mica_scope_set_cancel set, or NULL. */
const struct mica_cancel *mc_scope_cancel(const mica_scope *s);

/* The device's hook for evaluations in the background: waits for the one in flight. */
typedef mica_status (*mc_wait_fn)(mica_scope *s, void *run);
void mc_scope_set_run(mica_scope *s, void *run, mc_wait_fn wait);
void *mc_scope_run(const mica_scope *s);
/* What evaluation keeps with a scope, freed with it. */
void *mc_scope_space(const mica_scope *s);
void mc_scope_set_space(mica_scope *s, void *space, void (*free_space)(void *space));
mica_status mc_scope_set_status(mica_scope *s,
                                mica_status status); /* keeps the first, with its text */

/* ---- looking ---- */

/* What goes into a graph and comes out of it, by its nodes. */
typedef struct mc_graph_port {
    const char *name; /* never NULL */
    uint32_t node;
    bool donate; /* the argument may be written over */
} mc_graph_port;

typedef struct mc_graph_ports {
    const mc_graph_port *params; /* [n_params] */
    size_t n_params;
    const uint32_t *results;         /* [n_results] nodes */
    const char *const *result_names; /* [n_results] never NULL; the list: they have none */
    size_t n_results;
    const mc_symbol *symbols; /* [n_symbols] */
    size_t n_symbols;
} mc_graph_ports;

/* Checks the first three of the invariants above. errors  MICA_EINTERNAL naming the node;
 * MICA_ENOMEM */
mica_status mc_graph_verify(const mica_scope *s);

/* One line a node, "%7 = reshape f32[2,3] %5 shape=[2,3]", into text; around them, where ports are
 * given, lines "param %0 x" and "result %7 y". For tests and debugging. */
mica_status mc_graph_print(const mica_scope *s, const mc_graph_ports *ports, mc_buffer *text);

#endif
