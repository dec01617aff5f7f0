/* ONNX's graphs as mica's: names of values, nodes and what their builders ask.
 *
 * What is computed from constants alone is evaluated at once, in a scope of its own: lengths and
 * axes that ONNX computes are numbers then. Everything else is recorded in the program's scope, or
 * in that of a branch or loop; so is what would take more work or memory than a file may ask for.
 * Known values of the file's graph are released when the last node that reads them is built.
 *
 * Convolutions and pools compute with the channels last, as mica's kernels do. A value that one of
 * them made has both forms, and ops that go element by element go on with that one: the layout
 * changes where a network needs it, not at each convolution.
 *
 * Threads: an import belongs to one. */
#ifndef ONNX_IMPORT_H
#define ONNX_IMPORT_H

#include <mica/onnx.h>
#include <mica/signal.h>

#include "base/arena.h"
#include "base/buffer.h"
#include "base/map.h"
#include "onnx/model.h"

/* A convolution whose weights are known: a norm behind it changes these instead. */
typedef struct mc_onnx_conv {
    mica_array x, w, bias;     /* x and w with the channels last; bias [O] or none */
    mica_conv_options options; /* of mica_conv_general */
} mc_onnx_conv;

/* A known value as a kernel reads it, made once for all nodes that read the value; and what
 * releases it. Names of one value share it. */
typedef struct mc_onnx_form {
    int64_t kind;     /* 0: none yet */
    mica_array x;     /* of the scope of constants */
    uint64_t uses;    /* how often the value is still to be read */
    uint64_t charged; /* bytes that it took of those that known values may take */
} mc_onnx_form;

/* Small integers of which some have symbols: what Shape tells of a length that varies; and what is
 * computed of them in f32, which may have a fraction. */
enum { MC_ONNX_LENGTHS = 64 };
typedef struct mc_onnx_lengths {
    int ndim, count; /* 0 and 1, or 1 or 2 and how many there are */
    int columns;     /* of two axes */
    mica_dtype dtype;
    int64_t at[MC_ONNX_LENGTHS]; /* dimensions (graph/dim.h) */
} mc_onnx_lengths;

enum { MC_ONNX_TRANSPOSED = -1, MC_ONNX_LAST = -2 }; /* kinds; others are numbers of groups */

/* Of a value that is (q - zero) scale: what it was made of. */
typedef struct mc_onnx_steps {
    mica_array q, last; /* i8 or u8; last as that of the value */
    mica_array scale;   /* float [] or, with an axis, [its length], or with blocks as many as these
                           along it and as long as q along other axes */
    mica_array zero;    /* of the shape of scale and the dtype of q, or none */
    int axis;           /* -1: there is none */
    int64_t block;      /* elements of a block of the axis; 0: there are none */
    int bits;           /* that q has in the file: 8, 4 or 2 */
} mc_onnx_steps;

/* What a value joins along an axis. */
typedef struct mc_onnx_joined mc_onnx_joined;

/* A product of integers, which takes a scale and a bias that follow it (op_integer.c). */
typedef struct mc_onnx_product mc_onnx_product;

/* A length that depends on values: how many elements along an axis are there, the first ones. */
typedef struct mc_onnx_bound {
    int axis;
    mica_array count; /* i64 [] */
} mc_onnx_bound;

/* A list of values, of a length that is known (op_sequence.c). */
typedef struct mc_onnx_sequence mc_onnx_sequence;

typedef struct mc_onnx_value {
    mica_array x;                   /* as ONNX has it; MICA_NONE: absent */
    mica_array last;                /* [N, ..., C] where x is [N, C, ...]; or none */
    bool known;                     /* evaluated while importing */
    const mc_onnx_lengths *lengths; /* what it is; x is recorded where an array is needed */
    uint64_t charged;               /* of a known value without a name yet */
    const mc_onnx_bound *bound;     /* NULL: all elements are there */
    const mc_onnx_small *small;     /* the file's type where mica has no dtype for it; or NULL */
    const mc_onnx_conv *conv;
    const mc_onnx_steps *steps;
    const mc_onnx_joined *joined;
    const mc_onnx_product *product;
    mc_onnx_form *form;               /* of a known value with a name; else NULL */
    const mc_onnx_sequence *sequence; /* what it is, and no array; or NULL */
    bool missing;                     /* it comes from a node that mica lacks something for */
} mc_onnx_value;

struct mc_onnx_joined {
    size_t n;
    const mc_onnx_value *parts; /* [n] */
    int axis;
};

struct mc_onnx_sequence {
    size_t n;
    mc_onnx_value *items; /* [n] */
};

/* Lengths that a run counts (count.c). */
typedef struct mc_onnx_count mc_onnx_count;

/* What an option for a length is for. */
typedef enum mc_onnx_use {
    MC_ONNX_NO_USE, /* there is no such name */
    MC_ONNX_HIDDEN, /* options for places go before it */
    MC_ONNX_USED
} mc_onnx_use;

/* What would help where mica lacks something. */
typedef enum mc_onnx_help {
    MC_ONNX_NEED_OP,
    MC_ONNX_NEED_VALUE,  /* that a run is given */
    MC_ONNX_NEED_LENGTH, /* a number for it */
    MC_ONNX_NEED_FORM,   /* another form of the operator, dtype or attribute */
    MC_ONNX_NEED_TOLD,   /* what the text itself says */
    MC_ONNX_NEEDS
} mc_onnx_help;

typedef struct mc_onnx_import {
    mica_device *device;
    mica_scope *constants; /* of known values */
    mica_scope *s;         /* of the program */
    const mica_onnx_options *options;
    int64_t opset; /* version of ONNX's own operators */
    mc_onnx_outside outside;
    mc_arena arena;
    mc_buffer values;     /* mc_onnx_value; names are maps to indices */
    mc_map uses;          /* by name: how often nodes and outputs read it */
    mc_map functions;     /* by domain, name and overload: their numbers in the model */
    const char *mistyped; /* an attribute that a builder asked for as another type; or NULL */
    const mc_onnx_model *model;
    mc_onnx_use *dims_used;      /* by option */
    bool *inputs_used;           /* by option */
    const mc_onnx_count *counts; /* or NULL */
    bool misnamed;               /* an option has a name that is not there */
    mc_buffer missing;           /* what mica lacks (missing.c) */
    mc_buffer notes;             /* lines of text */
    bool casts_to_f64;           /* a node does: noted once */
    size_t missed;               /* how often something was */
    mc_onnx_help need;           /* of the node that is built: why it fails */
    mc_buffer holders;           /* uint32_t by node of the constants: how often it is held */
    uint64_t fold_left;          /* bytes that known values may still take */
    double work_left;            /* operations that computing them may still take */
    int64_t nodes_left;          /* and tensors that loops which are written out may still record */
    int depth; /* graphs within graphs, and functions within functions, being read */
} mc_onnx_import;

enum { MC_ONNX_NODES = 1 << 18 }; /* of a file, and that are recorded of it */

/* A graph while it is read: the names in it, and in those around it. */
typedef struct mc_onnx_names mc_onnx_names;

/* A node that calls a function of the model. */
typedef struct mc_onnx_call {
    const mc_onnx_function *function;
    const mc_onnx_proto_node *node;
    const mc_onnx_names *names; /* that the node is in */
} mc_onnx_call;

struct mc_onnx_names {
    mica_scope *s; /* that its nodes are recorded in */
    mc_map map;
    mc_onnx_names *outer;
    const mc_onnx_call *call; /* of a function's nodes, which see no names around them; or NULL */
};

/* A node while it is built. */
typedef struct mc_onnx_node {
    mc_onnx_import *import;
    mc_onnx_names *names;
    const mc_onnx_proto_node *proto;
    mica_scope *s;     /* where its results are recorded */
    size_t n_in;       /* operands, and what they are */
    mc_onnx_value *in; /* [n_in] */
    size_t n_out;
    mc_onnx_value *out; /* [n_out] receives its results */
    bool open;          /* its builder says: results of known values are not computed at once */
} mc_onnx_node;

typedef mica_status (*mc_onnx_build)(mc_onnx_node *n);

/* An operator: a row of op_list.h. */
typedef struct mc_onnx_op {
    const char *name;
    size_t min_in, max_in;
    mc_onnx_build build;
} mc_onnx_op;

/* The version of a domain's operators. */
int64_t mc_onnx_version(const mc_onnx_model *model, const char *domain);

/* ---- what is missing (missing.c) ---- */

/* Notes what mica lacks for something by its name, such as a node. errors  MICA_ENOMEM */
mica_status mc_onnx_miss(mc_onnx_import *import, const char *name, mc_onnx_help need,
                         const char *what);
/* What was noted before something that may be given up: it begins anew. Then either what was noted
 * since is added to it, or not. errors  MICA_ENOMEM */
typedef struct mc_onnx_missing {
    mc_buffer rows;
    size_t missed;
} mc_onnx_missing;
void mc_onnx_set_missing_aside(mc_onnx_import *import, mc_onnx_missing *before);
mica_status mc_onnx_merge_missing(mc_onnx_import *import, mc_onnx_missing *before, bool add);
/* Notes what mica_onnx_print tells of a file that is built all the same. errors  MICA_ENOMEM */
__attribute__((format(printf, 2, 3))) mica_status mc_onnx_note(mc_onnx_import *import,
                                                               const char *format, ...);
/* Adds all of it to a text, parted by a text; past max_bytes only how much more there is. */
bool mc_onnx_print_missing(const mc_onnx_import *import, const char *between, size_t max_bytes,
                           mc_buffer *text);
/* Adds what to do about it, parted by a text, behind `begin`; nothing where that is not known. */
bool mc_onnx_print_advice(const mc_onnx_import *import, const char *begin, const char *between,
                          mc_buffer *text);
/* errors  MICA_EUNSUPPORTED something is missing; the text lists all, and what to do;
 *         MICA_EINVAL it is numbers for lengths alone */
mica_status mc_onnx_fail_missing(const mc_onnx_import *import);

/* The name of a length; NULL: it has none, or what writers put where they have none. */
const char *mc_onnx_length_name(const Mc__Onnx__Dimension *dim);
/* Adds what a file asks for to a text: opsets, inputs, results, operators; lengths and inputs as
 * the options fix them. errors  MICA_ENOMEM */
mica_status mc_onnx_print(const mc_onnx_model *model, const mica_onnx_options *options,
                          mc_buffer *text);

/* ---- graphs ---- */

/* order [nodes of the graph] receives which is built when: none before what it reads.
 * errors  MICA_EFORMAT nodes wait for each other; MICA_ENOMEM */
mica_status mc_onnx_order(const mc_onnx_graph *graph, uint32_t *order);

/* ---- functions of the model (function.c) ---- */

/* Lists the functions of the model by name, of two with one name the last. errors  MICA_ENOMEM */
mica_status mc_onnx_list_functions(mc_onnx_import *import);
/* The function that a node calls; NULL: none. */
const mc_onnx_function *mc_onnx_find_function(const mc_onnx_import *import,
                                              const mc_onnx_proto_node *node);
/* A function's nodes as a graph, which borrows them. */
mc_onnx_graph mc_onnx_body_of(const mc_onnx_function *f);

void mc_onnx_names_init(mc_onnx_names *names, mica_scope *s, mc_onnx_names *outer);
void mc_onnx_names_deinit(mc_onnx_names *names);

/* Gives a name to a value. errors  MICA_EFORMAT the graph has it already; MICA_ENOMEM */
mica_status mc_onnx_define(mc_onnx_import *import, mc_onnx_names *names, const char *name,
                           const mc_onnx_value *value);
/* Finds a value, in the graphs around, too. errors  MICA_EFORMAT there is none */
mica_status mc_onnx_lookup(const mc_onnx_import *import, const mc_onnx_names *names,
                           const char *name, mc_onnx_value *value);
/* Initializers and nodes of a graph, whose inputs are defined. */
mica_status mc_onnx_read_graph(mc_onnx_import *import, mc_onnx_names *names,
                               const mc_onnx_graph *graph);

/* How often nodes and outputs read a name. */
uint64_t mc_onnx_uses_of(const mc_onnx_import *import, const char *name);
/* Counts how often the graph and those within it read each name. errors  MICA_ENOMEM */
mica_status mc_onnx_count_uses(mc_onnx_import *import, const mc_onnx_graph *graph);
/* Keeps an array of the scope of constants from being released; nothing for those of other scopes.
 * errors  MICA_ENOMEM */
mica_status mc_onnx_hold(mc_onnx_import *import, mica_array x);

/* The opposite: frees the array once nobody holds it. */
void mc_onnx_release(mc_onnx_import *import, mica_array x);

/* Takes bytes from those that known values may take.
 * errors  MICA_EUNSUPPORTED there are not so many left */
mica_status mc_onnx_charge(mc_onnx_import *import, uint64_t bytes);

/* The same for what a node reads of the file each time that it is built: only of nodes that may be
 * built several times. Where there are not so many left, the import ends. */
mica_status mc_onnx_charge_again(const mc_onnx_node *n, uint64_t bytes);

/* Takes nodes from those that may still be recorded. errors  MICA_EUNSUPPORTED too many */
mica_status mc_onnx_take_nodes(mc_onnx_import *import, uint64_t count);

/* A known value of bits of the host. */
mica_status mc_onnx_constant(mc_onnx_import *import, const void *data, mica_dtype dtype,
                             const int64_t *shape, int ndim, mc_onnx_value *value);

/* ---- lengths with symbols (length.c) ---- */

/* Where a node computes lengths of lengths, its results without arrays. *done: it did. */
mica_status mc_onnx_fold_lengths(mc_onnx_node *n, bool *done);
/* Sets the result to lengths; to a known value where none has a symbol. */
mica_status mc_onnx_give_lengths(mc_onnx_node *n, size_t i, const mc_onnx_lengths *lengths);
/* Records the array of a value of lengths in s; nothing for others. */
mica_status mc_onnx_record_lengths(const mc_onnx_import *import, mica_scope *s,
                                   mc_onnx_value *value);

/* ---- lengths that a run counts (count.c) ---- */

/* The length that is `count`, an i64 [], of a room; the same one for the same array. */
mica_status mc_onnx_count_dim(mc_onnx_import *import, mica_array count, int64_t room, int64_t *dim);
bool mc_onnx_is_counted(const mc_onnx_import *import, int64_t d);
/* The most that a length can be: with the rooms for what is counted; MC_DIM_NONE: that is not
 * known. */
int64_t mc_onnx_room(const mc_onnx_import *import, int64_t d);
/* A length as an array []: i64, or f32 where it has a fraction. */
mica_array mc_onnx_record_dim(const mc_onnx_import *import, mica_scope *s, int64_t d);

/* ---- lengths that depend on values (bound.c) ---- */

/* Sets the result to an array of which the first `count` elements along an axis are there. */
mica_status mc_onnx_give_counted(mc_onnx_node *n, size_t i, mica_array x, int axis,
                                 mica_array count);
/* Which places of x along the axis are there: bool, of one element along others. */
mica_array mc_onnx_count_mask(mica_scope *s, mica_array x, const mc_onnx_bound *bound);
/* The array of a value that has a count, as a result of a program. */
mica_array mc_onnx_trim(mica_scope *s, const mc_onnx_value *value);
bool mc_onnx_has_bounds(const mc_onnx_node *n);
/* Before a node with such operands is built, and after it. errors  MICA_EUNSUPPORTED the operator
 * does not go on with them */
mica_status mc_onnx_check_bounds(mc_onnx_node *n);
mica_status mc_onnx_carry_bounds(mc_onnx_node *n);

/* ---- types of few bits (small.c) ---- */

typedef enum mc_onnx_rounding { MC_ONNX_NEAREST, MC_ONNX_UP, MC_ONNX_DOWN } mc_onnx_rounding;

/* What x stands for: f32, or of integers x itself. */
mica_array mc_onnx_small_decode(mica_scope *s, const mc_onnx_small *type, mica_array x);
/* The opposite, of any numbers: integers keep their low bits; floats beyond the largest become it
 * (saturate), or infinite or NaN. */
mica_array mc_onnx_small_encode(mica_scope *s, const mc_onnx_small *type, mica_array x,
                                bool saturate, mc_onnx_rounding rounding);
/* moved: the type that the node's results have, as its first operand; NULL: its builder says.
 * errors  MICA_EUNSUPPORTED the operator does not read an operand's type */
mica_status mc_onnx_check_small(const mc_onnx_node *n, const mc_onnx_small **moved);

/* ---- what builders ask ---- */

/* The i-th operand; MICA_NONE: it is absent. */
mica_array mc_onnx_x(const mc_onnx_node *n, size_t i);
bool mc_onnx_has(const mc_onnx_node *n, size_t i);
bool mc_onnx_known(const mc_onnx_node *n, size_t i);
/* errors  MICA_EFORMAT one of the operands from the first to the last is absent */
mica_status mc_onnx_need(const mc_onnx_node *n, size_t first, size_t last);
/* Whether nothing else reads the i-th operand. */
bool mc_onnx_used_once(const mc_onnx_node *n, size_t i);

/* make of the i-th operand. That of a known one is evaluated and shared by all that ask for the
 * kind; where the value has another kind already, it is recorded. */
typedef mica_array (*mc_onnx_make)(mica_scope *s, mica_array x, int64_t kind);
mica_status mc_onnx_formed(mc_onnx_node *n, size_t i, int64_t kind, mc_onnx_make make,
                           mica_array *y);

/* Attributes, or what holds where there is none. Texts are borrowed. One of another type fails the
 * node when its builder is done. */
const mc_onnx_attribute *mc_onnx_attr(const mc_onnx_node *n, const char *name);
int64_t mc_onnx_int(const mc_onnx_node *n, const char *name, int64_t otherwise);
double mc_onnx_real(const mc_onnx_node *n, const char *name, double otherwise);
mc_str mc_onnx_text(const mc_onnx_node *n, const char *name, const char *otherwise);
/* A list: count receives how many there are, -1 where there is none.
 * errors  MICA_EFORMAT more than max */
mica_status mc_onnx_ints(const mc_onnx_node *n, const char *name, int max, int64_t *list,
                         int *count);

/* errors  MICA_EUNSUPPORTED operand i depends on what a run is given, or takes too much work */
mica_status mc_onnx_need_known(const mc_onnx_node *n, size_t i);

/* A number, or x, as f32. */
mica_array mc_onnx_f32(const mc_onnx_node *n, double value);
mica_array mc_onnx_as_f32(const mc_onnx_node *n, mica_array x);

/* A vector along an axis of ndim: [1, .., L, .., 1]. */
mica_array mc_onnx_along(mica_scope *s, mica_array v, int axis, int ndim);

/* The integers that an operand has; count receives how many, -1 where it is absent.
 * errors  MICA_EUNSUPPORTED they depend on what a run is given; MICA_EFORMAT more than max;
 *         MICA_EUNSUPPORTED one is a length with symbols */
mica_status mc_onnx_operand_ints(const mc_onnx_node *n, size_t i, int max, int64_t *list,
                                 int *count);
/* The same where lengths with symbols will do. */
mica_status mc_onnx_operand_dims(const mc_onnx_node *n, size_t i, int max, int64_t *list,
                                 int *count);
/* mc_onnx_operand_dims for the shape of a result, with rooms; *axis: the one that has a count,
 * which is *counted; -1: none. */
mica_status mc_onnx_operand_shape(mc_onnx_node *n, size_t i, int64_t shape[MICA_MAX_NDIM],
                                  int *count, int *axis, mica_array *counted);
/* The same of an operand of one number. errors  also MICA_EFORMAT it has another number */
mica_status mc_onnx_operand_real(const mc_onnx_node *n, size_t i, double otherwise, double *value);
/* A number, or a length with symbols as mica_scalar takes it. */
mica_status mc_onnx_operand_scalar(const mc_onnx_node *n, size_t i, double otherwise,
                                   double *value);
/* errors  MICA_EUNSUPPORTED a length has symbols, where `what` needs a number */
mica_status mc_onnx_need_number(mc_onnx_import *import, const char *what, int64_t length);

/* As mc_onnx_operand_dims; of an older file the attribute that the operand was. */
mica_status mc_onnx_dims_or(const mc_onnx_node *n, size_t i, const char *name, int max,
                            int64_t *list, int *count);

/* The ends of a Slice. */
mica_status mc_onnx_slice_ends(const mc_onnx_node *n, int64_t ends[MICA_MAX_NDIM], int *count);

/* Axes of an operand (from operand `at`, else the attribute "axes") as numbers from 0 on. */
mica_status mc_onnx_axes(const mc_onnx_node *n, size_t at, int ndim, int axes[MICA_MAX_NDIM],
                         int *count);
/* The attribute "axis" from 0 on. errors  MICA_EFORMAT there is no such axis */
mica_status mc_onnx_axis(const mc_onnx_node *n, int64_t otherwise, int ndim, int *axis);

/* Sets the result to an array. Its scope's error is what fails. */
mica_status mc_onnx_give(mc_onnx_node *n, size_t i, mica_array x);
/* The same of an array with the channels last. */
mica_status mc_onnx_give_last(mc_onnx_node *n, size_t i, mica_array last);

/* x with lengths [ndim of x] where its own are other expressions and may be equal, as n and
 * 2 (n / 2) for even n; they must be then. Those of the axis `but` (-1: none) may differ. */
mica_array mc_onnx_fit(mica_scope *s, mica_array x, const int64_t *shape, int ndim, int but);

/* mc_onnx_fit with the lengths of `like`, from the last axis on, but for those of one element. */
mica_array mc_onnx_align(mica_scope *s, mica_array x, mica_array like);

/* An array [N, C, ...] with the channels last. */
mica_array mc_onnx_to_last(mica_scope *s, mica_array x);
/* The form with the channels last of an operand. */
mica_array mc_onnx_last(const mc_onnx_node *n, size_t i);

/* What a builder fails with where mica lacks something of an operator. */
mica_status mc_onnx_refuse(const char *what);

/* Whether a domain is ONNX's own; it may be NULL. */
bool mc_onnx_is_own(const char *domain);

/* [B, L, heads * D] as [B, heads, L, D], and the opposite. errors  MICA_ESHAPE */
mica_status mc_onnx_split_heads(mc_onnx_node *n, mica_array x, int64_t heads, mica_array *y);
mica_array mc_onnx_join_heads(mc_onnx_node *n, mica_array x);

typedef mica_array (*mc_onnx_reduction)(mica_scope *s, mica_array x, const int *axes, int n_axes,
                                        bool keepdims);

/* ---- builders that others use ---- */

/* Whether an operator reads sequences and optional values. */
bool mc_onnx_reads_sequences(const char *op);

/* f of one operand, or of two that broadcast, element by element, in the form that they have. */
typedef mica_array (*mc_onnx_unary)(mica_scope *s, mica_array x);
typedef mica_array (*mc_onnx_binary)(mica_scope *s, mica_array a, mica_array b);
mica_status mc_onnx_map(mc_onnx_node *n, mc_onnx_unary f);
mica_status mc_onnx_map2(mc_onnx_node *n, mc_onnx_binary f);
/* The same with what else f needs. */
typedef mica_array (*mc_onnx_mapped)(mc_onnx_node *n, mica_array x, const double *numbers);
mica_status mc_onnx_map_with(mc_onnx_node *n, mc_onnx_mapped f, const double *numbers);

/* y = f(x) of what was dequantised: a product of integers, where both operands of the node have
 * steps that allow it. w_rows: the second operand is [N, K], not [K, N]. bias: the operand that is
 * one, or 0. *done: the node has its result. */
mica_status mc_onnx_steps_matmul(mc_onnx_node *n, bool w_rows, size_t bias, bool *done);
mica_status mc_onnx_steps_conv(mc_onnx_node *n, const mica_conv_options *options, bool *done);
/* x W, where W was dequantised from known weights and x was not, or W in blocks (op_packed.c):
 * arguments as of mc_onnx_steps_matmul. */
mica_status mc_onnx_packed_matmul(mc_onnx_node *n, bool w_rows, size_t bias, bool *done);
/* Elements of a table that was dequantised. *done: the node has its result. */
mica_status mc_onnx_packed_gather(mc_onnx_node *n, int axis, bool *done);

/* Cast, Mul and Add behind a product of integers. *done: they are part of it. */
mica_status mc_onnx_join_cast(mc_onnx_node *n, mica_dtype dtype, bool *done);
mica_status mc_onnx_join_scale(mc_onnx_node *n, bool *done);
mica_status mc_onnx_join_bias(mc_onnx_node *n, bool *done);

/* Whether `steps`, which may be NULL, are those of a scale and zero point of one number each, which
 * quantising gives back: known ones. */
bool mc_onnx_has_steps(const mc_onnx_import *import, const mc_onnx_steps *steps, mica_array scale,
                       mica_array zero, mica_dtype dtype);
/* Builds a node that moves elements with the integers that its operands were dequantised from.
 * *done: it has its results, which are dequantised, too. */
mica_status mc_onnx_move_steps(mc_onnx_node *n, mc_onnx_build build, bool *done);
/* Says that the first result is xs joined along an axis of theirs, which are of the layout `last`;
 * what quantises it then quantises these. */
mica_status mc_onnx_keep_parts(mc_onnx_node *n, const mica_array *xs, size_t count, int axis,
                               bool last);
/* operands joined along an axis */
mica_status mc_onnx_join(mc_onnx_node *n, int axis);
/* A node that quantises, by operand 1, what joins values with steps: the result joins integers. */
mica_status mc_onnx_quantise_joined(mc_onnx_node *n, const mc_onnx_joined *joined, mica_array zero,
                                    mica_dtype dtype);

/* clamp(round(x / scale) + zero) as a dtype of 16 bits or fewer; x f32, scale and zero f32 or none.
 * (x - zero) scale, f32. */
mica_array mc_onnx_quantised(mc_onnx_node *n, mica_array x, mica_array scale, mica_array zero,
                             mica_dtype dtype);
mica_array mc_onnx_dequantised(mc_onnx_node *n, mica_array q, mica_array scale, mica_array zero);
/* What DynamicQuantizeLinear makes of x. */
typedef struct mc_onnx_dynamic {
    mica_array q, scale, zero; /* u8; f32 []; u8 [] */
} mc_onnx_dynamic;
mc_onnx_dynamic mc_onnx_quantise(mc_onnx_node *n, mica_array x);
/* The product of a f32 [.., K], quantised so, and b [K, N], recorded in s. */
mica_status mc_onnx_dynamic_product(mc_onnx_node *n, mica_scope *s, mica_array a,
                                    const mc_onnx_steps *b, mica_array *y);

#define ONNX_OP(name, min_in, max_in, build) mica_status build(mc_onnx_node *n);
#include "onnx/op_list.h"
#include "onnx/op_ml_list.h"
#include "onnx/op_ms_list.h"
#undef ONNX_OP

#endif
