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

enum { MC_ONNX_TRANSPOSED = -1, MC_ONNX_LAST = -2 }; /* kinds; others are numbers of groups */

typedef struct mc_onnx_value {
    mica_array x;     /* as ONNX has it; MICA_NONE: absent */
    mica_array last;  /* [N, ..., C] where x is [N, C, ...]; or none */
    bool known;       /* evaluated while importing */
    uint64_t charged; /* of a known value without a name yet */
    const mc_onnx_conv *conv;
    mc_onnx_form *form; /* of a known value with a name; else NULL */
} mc_onnx_value;

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
    const char *mistyped; /* an attribute that a builder asked for as another type; or NULL */
    mc_buffer holders;    /* uint32_t by node of the constants: how often it is held */
    uint64_t fold_left;   /* bytes that known values may still take */
    double work_left;     /* operations that computing them may still take */
    int64_t nodes_left;   /* and tensors that loops which are written out may still record */
} mc_onnx_import;

enum { MC_ONNX_NODES = 1 << 18 }; /* of a file, and that are recorded of it */

/* A graph while it is read: the names in it, and in those around it. */
typedef struct mc_onnx_names mc_onnx_names;
struct mc_onnx_names {
    mica_scope *s; /* that its nodes are recorded in */
    mc_map map;
    mc_onnx_names *outer;
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
} mc_onnx_node;

typedef mica_status (*mc_onnx_build)(mc_onnx_node *n);

/* An operator: a row of op_list.h. */
typedef struct mc_onnx_op {
    const char *name;
    size_t min_in, max_in;
    mc_onnx_build build;
} mc_onnx_op;

/* Finds an operator; NULL: there is none. */
const mc_onnx_op *mc_onnx_find_op(const char *name, const char *domain);

/* ---- graphs ---- */

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

/* Counts how often the graph and those within it read each name. errors  MICA_ENOMEM */
mica_status mc_onnx_count_uses(mc_onnx_import *import, const mc_onnx_graph *graph);
/* Keeps an array of the scope of constants from being released; nothing for those of other scopes.
 * errors  MICA_ENOMEM */
mica_status mc_onnx_hold(mc_onnx_import *import, mica_array x);

/* Takes bytes from those that known values may take.
 * errors  MICA_EUNSUPPORTED there are not so many left */
mica_status mc_onnx_charge(mc_onnx_import *import, uint64_t bytes);

/* A known value of bits of the host. */
mica_status mc_onnx_constant(mc_onnx_import *import, const void *data, mica_dtype dtype,
                             const int64_t *shape, int ndim, mc_onnx_value *value);

/* ---- what builders ask ---- */

/* The i-th operand; MICA_NONE: it is absent. */
mica_array mc_onnx_x(const mc_onnx_node *n, size_t i);
bool mc_onnx_has(const mc_onnx_node *n, size_t i);
bool mc_onnx_known(const mc_onnx_node *n, size_t i);
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

/* A vector along an axis of ndim: [1, .., L, .., 1]. */
mica_array mc_onnx_along(mica_scope *s, mica_array v, int axis, int ndim);

/* The integers that an operand has; count receives how many, -1 where it is absent.
 * errors  MICA_EUNSUPPORTED they depend on what a run is given; MICA_EFORMAT more than max */
mica_status mc_onnx_operand_ints(const mc_onnx_node *n, size_t i, int max, int64_t *list,
                                 int *count);
/* The same of an operand of one number. errors  also MICA_EFORMAT it has another number */
mica_status mc_onnx_operand_real(const mc_onnx_node *n, size_t i, double otherwise, double *value);

/* Axes of an operand (from operand `at`, else the attribute "axes") as numbers from 0 on. */
mica_status mc_onnx_axes(const mc_onnx_node *n, size_t at, int ndim, int axes[MICA_MAX_NDIM],
                         int *count);
/* The attribute "axis" from 0 on. errors  MICA_EFORMAT there is no such axis */
mica_status mc_onnx_axis(const mc_onnx_node *n, int64_t otherwise, int ndim, int *axis);

/* Sets the result to an array. Its scope's error is what fails. */
mica_status mc_onnx_give(mc_onnx_node *n, size_t i, mica_array x);
/* The same of an array with the channels last. */
mica_status mc_onnx_give_last(mc_onnx_node *n, size_t i, mica_array last);

/* An array [N, C, ...] with the channels last. */
mica_array mc_onnx_to_last(mica_scope *s, mica_array x);
/* The form with the channels last of an operand. */
mica_array mc_onnx_last(const mc_onnx_node *n, size_t i);

/* What a builder fails with where mica lacks something of an operator. */
mica_status mc_onnx_refuse(const char *what);

/* Whether a domain is ONNX's own; it may be NULL. */
bool mc_onnx_is_own(const char *domain);

typedef mica_array (*mc_onnx_reduction)(mica_scope *s, mica_array x, const int *axes, int n_axes,
                                        bool keepdims);

/* ---- builders that others use ---- */

/* f of one operand, or of two that broadcast, element by element, in the form that they have. */
typedef mica_array (*mc_onnx_unary)(mica_scope *s, mica_array x);
typedef mica_array (*mc_onnx_binary)(mica_scope *s, mica_array a, mica_array b);
mica_status mc_onnx_map(mc_onnx_node *n, mc_onnx_unary f);
mica_status mc_onnx_map2(mc_onnx_node *n, mc_onnx_binary f);
/* The same with what else f needs. */
typedef mica_array (*mc_onnx_mapped)(mc_onnx_node *n, mica_array x, const double *numbers);
mica_status mc_onnx_map_with(mc_onnx_node *n, mc_onnx_mapped f, const double *numbers);

#define ONNX_OP(name, min_in, max_in, build) mica_status build(mc_onnx_node *n);
#include "onnx/op_list.h"
#undef ONNX_OP

#endif
