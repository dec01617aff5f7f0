/* Random graphs of plain ops, each evaluated in several ways that must agree to the last bit: node
 * by node as it is recorded, so that nothing is planned together; many targets at once; with leaves
 * that were moved in and may be overwritten; that in the background; and as a program that is
 * recorded over other values of the leaves and run twice. All of it once more on a device
 * without the fused kernels, on ones that leave every third op to the fallback device, on one
 * without chains, and on one that takes each row through a chain before the next, the last one
 * first. */
#include <mica/mica.h>

#include <stdlib.h>
#include <string.h>

#include "cpu/chain.h"
#include "cpu/eval_chain.h"
#include "device/device.h"
#include "exec/steps/steps.h"
#include "op/matmul.h"
#include "support/support.h"

enum { GRAPHS = 300, MAX_NODES = 28, MAX_ELEMENTS = 400, MAX_BYTES = 8 * MAX_ELEMENTS };

typedef enum how { SINGLY, TOGETHER, MOVED, MOVED_IN_BACKGROUND, PROGRAM, MODES } how;

/* A leaf that a program is recorded over with another value, and its own. */
typedef struct leaf {
    mica_array x;
    bool moved, scalar;
    mica_dtype dtype;
    int64_t shape[4];
    int ndim;
    float values[216];
} leaf;

typedef struct graph {
    mica_scope *s;
    mica_scope *outer; /* where moved leaves come from */
    how mode;
    uint64_t random; /* decides on the structure and the data: the same in every way */
    int n;
    mica_array all[MAX_NODES];
    int n_leaves;
    leaf leaves[2 * MAX_NODES];
} graph;

/* 0 to n - 1. splitmix64 (Steele, Lea & Flood 2014). */
static int below(graph *g, int n) {
    uint64_t z = g->random += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return (int)((z ^ (z >> 31)) % (uint64_t)n);
}

/* An operand: one of the last few half of the time, so that chains grow long. */
static mica_array pick(graph *g) {
    int few = g->n < 4 ? g->n : 4;
    return g->all[below(g, 2) ? g->n - 1 - below(g, few) : below(g, g->n)];
}

static bool is_float(mica_array x) {
    return mica_dtype_is_float(mica_array_dtype(x));
}

static mica_array as_float(graph *g, mica_array x) {
    return is_float(x) ? x : mica_astype(g->s, x, MICA_F32);
}

/* An axis of x; -1: it has none. */
static int axis_of(graph *g, mica_array x) {
    int ndim = mica_array_ndim(x);
    return ndim > 0 ? below(g, ndim) : -1;
}

/* ---- leaves ---- */

static mica_array data(graph *g) {
    static const float others[216] = {1, 5, -3, 2};
    static const mica_dtype dtypes[] = {MICA_F32, MICA_F32, MICA_I32, MICA_BF16, MICA_U8};
    leaf *l = &g->leaves[g->n_leaves++];
    int64_t size = 1;
    l->dtype = dtypes[below(g, 5)];
    l->ndim = below(g, 4);
    l->scalar = false;
    for (int k = 0; k < l->ndim; k++) {
        l->shape[k] = below(g, 12) == 0 ? 0 : 1 + below(g, 6);
        if (l->ndim == 1 && below(g, 2)) l->shape[k] = 120 + below(g, 97); /* a tile of elements */
        size *= l->shape[k];
    }
    for (int64_t i = 0; i < size; i++)
        l->values[i] = (float)(below(g, 4001) - 2000) / 1000.0f;
    l->moved = below(g, 3) > 0 && g->mode >= MOVED;
    mica_scope *s = l->moved ? g->outer : g->s;
    mica_array x = l->x =
        mica_from_data(s, g->mode == PROGRAM ? others : l->values, MICA_F32, l->shape, l->ndim);
    if (l->dtype != MICA_F32) x = mica_astype(s, x, l->dtype);
    return l->moved ? l->x = mica_move(g->s, x) : x;
}

static mica_array scalar(graph *g) {
    leaf *l = &g->leaves[g->n_leaves++];
    *l = (leaf){.scalar = true, .dtype = MICA_F32, .values = {(float)below(g, 9) - 4.0f}};
    mica_array x = l->x = mica_f32(g->s, g->mode == PROGRAM ? 9.0f : l->values[0]);
    int64_t shape[] = {1 + below(g, 4), 1 + below(g, 4)};
    return below(g, 2) ? x : mica_broadcast_to(g->s, x, shape, 2);
}

static mica_array arange(graph *g) {
    return mica_arange(g->s, 0, 1 + below(g, 30), 1, below(g, 2) ? MICA_F32 : MICA_I32);
}

/* ---- element by element ---- */

static mica_array unary(graph *g) {
    mica_array x = pick(g);
    switch (below(g, 6)) {
    case 0:
        return mica_array_dtype(x) == MICA_BOOL ? mica_logical_not(g->s, x)
                                                : mica_negative(g->s, x);
    case 1:
        return mica_abs(g->s, x);
    case 2:
        return mica_square(g->s, x);
    case 3:
        return mica_tanh(g->s, x);
    case 4:
        return mica_astype(g->s, x, below(g, 2) ? MICA_I32 : MICA_BF16);
    default:
        return mica_astype(g->s, x, MICA_F32);
    }
}

static bool fits(mica_array x, mica_array y) {
    int a = mica_array_ndim(x), b = mica_array_ndim(y);
    int64_t size = 1;
    for (int k = 1; k <= a || k <= b; k++) {
        int64_t m = k <= a ? mica_array_dim(x, -k) : 1, n = k <= b ? mica_array_dim(y, -k) : 1;
        if (m != n && m != 1 && n != 1) return false;
        size *= m == 1 ? n : m;
    }
    return size <= MAX_ELEMENTS;
}

/* One that x broadcasts with: x itself where chance finds none. */
static mica_array partner(graph *g, mica_array x) {
    for (int i = 0; i < 8; i++) {
        mica_array y = pick(g);
        if (fits(x, y)) return y;
    }
    return x;
}

static mica_array binary(graph *g) {
    mica_array x = pick(g), y = partner(g, x);
    switch (below(g, 7)) {
    case 0:
        return mica_add(g->s, x, y);
    case 1:
        return mica_subtract(g->s, as_float(g, x), y);
    case 2:
        return mica_multiply(g->s, y, x);
    case 3:
        return mica_maximum(g->s, x, y);
    case 4:
        return mica_minimum(g->s, y, x);
    case 5:
        return mica_less(g->s, x, y);
    default:
        return mica_where(g->s, mica_less(g->s, x, y), y, x);
    }
}

/* Each row with the next one: operands that overlap. */
static mica_array neighbours(graph *g) {
    mica_array x = as_float(g, pick(g));
    int axis = axis_of(g, x);
    if (axis < 0) return mica_add(g->s, x, x);
    mica_array first = mica_slice_axis(g->s, x, axis, 0, -1);
    mica_array second = mica_slice_axis(g->s, x, axis, 1, MICA_END_OF_AXIS);
    return below(g, 2) ? mica_subtract(g->s, first, second) : mica_maximum(g->s, second, first);
}

/* ---- views ---- */

static mica_array reshape(graph *g) {
    mica_array x = pick(g);
    int64_t size = mica_array_size(x), first = 1 + below(g, 6);
    if (size % first != 0) return mica_flatten(g->s, x, 0, -1);
    return mica_reshape(g->s, x, (int64_t[]){first, size / first}, 2);
}

static mica_array transpose(graph *g) {
    mica_array x = pick(g);
    int ndim = mica_array_ndim(x);
    if (ndim < 2 || below(g, 3) == 0) return mica_transpose(g->s, x, NULL);
    return mica_swapaxes(g->s, x, below(g, ndim), below(g, ndim));
}

static mica_array slice(graph *g) {
    mica_array x = pick(g);
    int64_t start[MICA_MAX_NDIM], stop[MICA_MAX_NDIM], step[MICA_MAX_NDIM];
    for (int k = 0; k < mica_array_ndim(x); k++) {
        int n = (int)mica_array_dim(x, k);
        bool back = below(g, 4) == 0;
        start[k] = back ? n - 1 - below(g, 2) : below(g, 2);
        stop[k] = back ? MICA_END_OF_AXIS : n - below(g, 2);
        step[k] = (back ? -1 : 1) * (1 + below(g, 2));
    }
    return mica_slice(g->s, x, start, stop, step);
}

static mica_array broadcast(graph *g) {
    mica_array x = pick(g);
    int ndim = mica_array_ndim(x);
    int64_t shape[MICA_MAX_NDIM], n = 1 + below(g, 3);
    if (ndim > 3 || n * mica_array_size(x) > MAX_ELEMENTS) return mica_flatten(g->s, x, 0, -1);
    shape[0] = n;
    for (int k = 0; k < ndim; k++)
        shape[k + 1] = mica_array_dim(x, k);
    return mica_broadcast_to(g->s, x, shape, ndim + 1);
}

static mica_array strided(graph *g) {
    mica_array x = pick(g);
    int size = (int)mica_array_size(x);
    if (size < 4) return mica_flatten(g->s, x, 0, -1);
    int offset = below(g, size / 2), room = (size - offset) / 2; /* of each axis */
    int64_t shape[] = {1 + below(g, room), 1 + below(g, room)};
    while (shape[0] * shape[1] > MAX_ELEMENTS)
        shape[0] = shape[0] / 2;
    return mica_as_strided(g->s, x, shape, (int64_t[]){1, 1}, 2, offset);
}

static mica_array bits(graph *g) {
    mica_array x = pick(g);
    switch (mica_array_dtype(x)) {
    case MICA_F32:
        return mica_view(g->s, x, MICA_I32);
    case MICA_BF16:
        return mica_view(g->s, x, MICA_U16);
    case MICA_I32:
        return mica_view(g->s, x, MICA_U32);
    default:
        return mica_flatten(g->s, x, 0, -1);
    }
}

/* ---- moving data ---- */

static mica_array concatenate(graph *g) {
    mica_array x = pick(g), y = pick(g);
    int axis = axis_of(g, x);
    bool same = axis >= 0 && mica_array_ndim(y) == mica_array_ndim(x);
    for (int k = 0; same && k < mica_array_ndim(x); k++)
        same = k == axis || mica_array_dim(x, k) == mica_array_dim(y, k);
    if (axis < 0) return mica_stack(g->s, (mica_array[]){x, x}, 2, 0);
    if (!same) y = mica_flip(g->s, x, axis);
    if (mica_array_size(x) + mica_array_size(y) > MAX_ELEMENTS) return y;
    return mica_concatenate(g->s, (mica_array[]){x, y}, 2, axis);
}

/* Some of x's rows written over others of x, which may overlap; or a number over some. */
static mica_array slice_update(graph *g) {
    mica_array x = pick(g);
    int axis = axis_of(g, x), n = (int)mica_array_dim(x, axis);
    if (axis < 0 || n == 0) return mica_negative(g->s, as_float(g, x));
    int from = below(g, n), to = below(g, n);
    int length = 1 + below(g, n - (from > to ? from : to));
    mica_array rows = mica_slice_axis(g->s, x, axis, from, from + length);
    if (below(g, 2)) rows = mica_square(g->s, rows);
    if (below(g, 2)) return mica_slice_update_at(g->s, x, rows, mica_i32(g->s, to), axis);
    int64_t start[MICA_MAX_NDIM] = {0}, stop[MICA_MAX_NDIM];
    for (int k = 0; k < mica_array_ndim(x); k++)
        stop[k] = MICA_END_OF_AXIS;
    start[axis] = to;
    stop[axis] = to + length;
    return mica_slice_update(g->s, x, below(g, 3) ? rows : mica_f32(g->s, 3), start, stop, NULL);
}

static mica_array take(graph *g) {
    mica_array x = pick(g);
    int axis = axis_of(g, x), n = (int)mica_array_dim(x, axis);
    if (axis < 0 || n == 0) return mica_abs(g->s, x);
    int32_t indices[3];
    int64_t count = n < 3 ? n : 3;
    for (int i = 0; i < count; i++)
        indices[i] = below(g, 2 * n) - n;
    mica_array index = mica_from_data(g->s, indices, MICA_I32, &count, 1);
    return mica_take(g->s, x, index, axis);
}

/* ---- along an axis ---- */

static mica_array along(graph *g) {
    mica_array x = as_float(g, pick(g));
    int axis = axis_of(g, x);
    if (axis < 0) return mica_square(g->s, x);
    switch (below(g, 6)) {
    case 0:
        return mica_sum(g->s, x, &axis, 1, below(g, 2));
    case 1:
        if (mica_array_dim(x, axis) > 0) return mica_max(g->s, x, &axis, 1, true);
        return mica_sum(g->s, x, NULL, 0, false);
    case 2:
        return mica_cumsum(g->s, x, axis, false, true);
    case 4:
        return mica_gelu_approx(g->s, x);
    case 3:
        return mica_rms_norm(g->s, x, MICA_NONE, 1e-5f);
    default:
        return mica_softmax(g->s, x, axis);
    }
}

/* Both results of an op of two, or one of them. */
static mica_array topk(graph *g) {
    mica_array x = as_float(g, pick(g)), indices;
    int axis = axis_of(g, x), n = axis < 0 ? 0 : (int)mica_array_dim(x, axis);
    if (n == 0) return mica_tanh(g->s, x);
    mica_array values = mica_topk_indices(g->s, x, 1 + below(g, n), axis, &indices);
    switch (below(g, 4)) {
    case 0:
        return values;
    case 1:
        return indices;
    case 2:
        return mica_subtract(g->s, values, mica_astype(g->s, indices, mica_array_dtype(x)));
    default:
        return mica_multiply(g->s, values, mica_f32(g->s, 2));
    }
}

/* x as rows of its last axis [rows, columns]; none: they would be too many. */
static mica_array as_rows(graph *g, mica_array x) {
    int64_t columns = mica_array_dim(x, -1), rows = columns > 0 ? mica_array_size(x) / columns : 0;
    if (rows == 0 || rows * rows > MAX_ELEMENTS) return MICA_NONE;
    return mica_reshape(g->s, x, (int64_t[]){rows, columns}, 2);
}

/* x x^T */
static mica_array matmul(graph *g) {
    mica_array x = as_float(g, pick(g)), rows = as_rows(g, x);
    if (!mica_valid(rows)) return mica_negative(g->s, x);
    return mica_matmul(g->s, rows, mica_transpose(g->s, rows, NULL));
}

/* The sum of products of tanh x with weights in bf16, which are there before; those of the seventh
 * have a batch axis. */
static mica_array matmuls(graph *g) {
    enum { MAX = 9 };
    mica_array x = as_float(g, pick(g)), w = as_float(g, pick(g)), ws[MAX], sum = MICA_NONE;
    mica_array rows = as_rows(g, x);
    int64_t columns = mica_array_dim(x, -1), size = mica_array_size(w);
    int n = 1 + below(g, MAX);
    if (!mica_valid(rows) || size < columns) return mica_square(g->s, x);
    w = mica_slice_axis(g->s, mica_reshape(g->s, w, &size, 1), 0, 0, columns);
    w = mica_reshape(g->s, w, (int64_t[]){1, columns}, 2);
    for (int i = 0; i < n; i++)
        ws[i] = mica_astype(g->s, mica_add(g->s, w, mica_f32(g->s, (float)i)), MICA_BF16);
    rows = mica_tanh(g->s, rows);
    for (int i = 0; i < n; i++) {
        mica_array y;
        if (i == 6) {
            w = mica_reshape(g->s, ws[i], (int64_t[]){1, columns, 1}, 3);
            y = mica_matmul(g->s, rows, w);
            y = mica_reshape(g->s, y, (int64_t[]){mica_array_dim(rows, 0), 1}, 2);
        } else {
            y = mc_matmul_rows(g->s, rows, ws[i], true);
        }
        sum = i == 0 ? y : mica_add(g->s, sum, y);
    }
    return sum;
}

/* ---- a graph ---- */

static mica_array next_node(graph *g) {
    static mica_array (*const ops[])(graph *) = {
        data,         scalar,    arange, unary,  unary,      binary,      binary,
        reshape,      transpose, slice,  bits,   strided,    concatenate, slice_update,
        along,        binary,    unary,  matmul, neighbours, take,        broadcast,
        slice_update, matmuls,   topk,   topk};
    if (g->n < 2) return data(g);
    return ops[below(g, sizeof ops / sizeof *ops)](g);
}

/* What a graph gave: the nodes asked for, and with TOGETHER the others too, asked for
 * afterwards. */
typedef struct outcome {
    bool known[MAX_NODES];
    size_t bytes[MAX_NODES];
    unsigned char values[MAX_NODES][MAX_BYTES];
} outcome;

static void read_node(const graph *g, int i, outcome *out) {
    out->bytes[i] =
        (size_t)mica_array_size(g->all[i]) * mica_dtype_bytes(mica_array_dtype(g->all[i]));
    assert_true(out->bytes[i] <= MAX_BYTES);
    if (mica_read(g->all[i], out->values[i], out->bytes[i]) != MICA_OK)
        fail_msg("node %d: %s", i, mica_last_error());
    out->known[i] = true;
}

static mica_status read_array(mica_array x, outcome *out, int i) {
    mica_status status = mica_read(x, out->values[i], out->bytes[i]);
    out->known[i] = status == MICA_OK;
    return status;
}

/* The leaves' own values, in scopes of their own, as arguments. */
static void list_args(const graph *g, mica_scope *s, mica_array *args) {
    for (int i = 0; i < g->n_leaves; i++) {
        const leaf *l = &g->leaves[i];
        if (l->scalar) {
            args[i] = mica_f32(s, l->values[0]);
            continue;
        }
        args[i] = mica_from_data(s, l->values, MICA_F32, l->shape, l->ndim);
        if (l->moved && l->dtype != MICA_F32) args[i] = mica_astype(s, args[i], l->dtype);
    }
}

/* A program of the leaves, which is run twice; all nodes asked for are read of the second run. */
static mica_status run_as_program(graph *g, const mica_array *xs, const int *targets, size_t n,
                                  outcome *out) {
    mica_program *program;
    mica_param params[2 * MAX_NODES];
    mica_array args[2 * MAX_NODES], results[8];
    for (int i = 0; i < g->n_leaves; i++)
        params[i] = (mica_param){.array = g->leaves[i].x, .donate = g->leaves[i].moved};
    mica_status status =
        mica_program_build(g->s, params, (size_t)g->n_leaves, xs, n, NULL, &program);
    for (int i = 0; status == MICA_OK && i < 2; i++) {
        mica_scope *s;
        assert_int_equal(mica_scope_open(mica_scope_device(g->s), &s), MICA_OK);
        list_args(g, s, args);
        status = mica_program_run(program, s, args, results);
        for (size_t k = 0; status == MICA_OK && k < n; k++)
            status = read_array(results[k], out, targets[k]);
        mica_scope_close(&s);
    }
    mica_program_close(&program);
    return status;
}

static mica_status evaluate(graph *g, const mica_array *xs, size_t n) {
    return g->mode == MOVED_IN_BACKGROUND ? mica_eval_async(g->s, xs, n) : mica_eval_n(g->s, xs, n);
}

static void run(mica_device *device, int number, how mode, outcome *out) {
    graph g = {.mode = mode, .random = (uint64_t)number};
    *out = (outcome){0};
    assert_int_equal(mica_scope_open(device, &g.s), MICA_OK);
    assert_int_equal(mica_scope_open(device, &g.outer), MICA_OK);
    int nodes = 4 + below(&g, MAX_NODES - 3);
    while (g.n < nodes) {
        g.all[g.n] = next_node(&g);
        if (!mica_valid(g.all[g.n])) fail_msg("graph %d: %s", number, mica_last_error());
        if (mode == SINGLY) read_node(&g, g.n, out);
        g.n++;
    }
    int targets[8], n = 1 + below(&g, 8); /* some of them twice */
    mica_array xs[8];
    for (int i = 0; i < n; i++) {
        targets[i] = below(&g, g.n);
        xs[i] = g.all[targets[i]];
    }
    for (int i = 0; i < n; i++)
        out->bytes[targets[i]] =
            (size_t)mica_array_size(xs[i]) * mica_dtype_bytes(mica_array_dtype(xs[i]));
    mica_status status = mode == PROGRAM ? run_as_program(&g, xs, targets, (size_t)n, out)
                                         : evaluate(&g, xs, (size_t)n);
    if (status != MICA_OK) fail_msg("graph %d: %s", number, mica_last_error());
    for (int i = 0; mode != PROGRAM && i < n; i++)
        read_node(&g, targets[i], out);
    for (int i = 0; mode == TOGETHER && i < g.n; i++)
        read_node(&g, i, out);
    assert_int_equal(mc_graph_verify(g.s), MICA_OK);
    mica_scope_close(&g.s);
    mica_scope_close(&g.outer);
}

static void compare_all(mica_device *device) {
    static outcome want, got;
    for (int number = 1; number <= GRAPHS; number++) {
        run(device, number, SINGLY, &want);
        for (how mode = TOGETHER; mode < MODES; mode++) {
            run(device, number, mode, &got);
            for (int i = 0; i < MAX_NODES; i++) {
                if (!got.known[i]) continue;
                if (got.bytes[i] != want.bytes[i] ||
                    memcmp(got.values[i], want.values[i], want.bytes[i]) != 0)
                    fail_msg("graph %d, mode %d: node %d differs", number, (int)mode, i);
            }
        }
        assert_int_equal(mica_device_active_bytes(device), 0);
    }
}

static bool pairs; /* the device multiplies pairs of bf16, which x is rounded for */

static const mc_step_ops *steps; /* of the device */

static mica_status compile_by_steps(mica_device *device, mc_lowered *lowered,
                                    mc_executable **executable) {
    return mc_steps_compile(device, steps, lowered, executable);
}

/* The cpu by other kernels, or supporting other ops. */
static void compare_by(const mc_step_ops *by, const mc_backend *backend, int threads) {
    mica_device *device = NULL;
    assert_int_equal(mica_device_open("cpu", &(mica_device_options){.threads = threads}, &device),
                     0);
    mc_backend changed = *backend;
    changed.compile = compile_by_steps;
    device->backend = &changed;
    steps = by;
    const mc_cpu *cpu = mc_backend_state(device);
    pairs = cpu->kern->bf16_matmul;
    compare_all(device);
    mica_device_close(&device);
}

static void test_every_way_gives_the_same_bits(void **state) {
    (void)state;
    compare_by(&mc_cpu_steps, &mc_backend_cpu, 2);
}

static mc_support supports_plain(const void *state, mc_op op, const void *attr,
                                 const mc_layout *const *in, int n_in, const mc_layout *out,
                                 int n_out) {
    if (mc_op_get(op)->decompose != NULL) return (mc_support){.yes = false};
    return mc_backend_cpu.supports(state, op, attr, in, n_in, out, n_out);
}

static void test_so_do_decompositions(void **state) {
    (void)state;
    mc_backend plain = mc_backend_cpu;
    plain.supports = supports_plain;
    compare_by(&mc_cpu_steps, &plain, 1);
}

static unsigned declined; /* of three ops, which one */

/* Two ops of three, and these over dense operands. */
static mc_support supports_parts(const void *state, mc_op op, const void *attr,
                                 const mc_layout *const *in, int n_in, const mc_layout *out,
                                 int n_out) {
    if ((unsigned)op % 3 == declined) return (mc_support){.yes = false};
    mc_support support = mc_backend_cpu.supports(state, op, attr, in, n_in, out, n_out);
    for (int k = 0; k < n_in; k++)
        if (in[k] && !mc_layout_is_dense(in[k])) support.dense |= UINT32_C(1) << k;
    return support;
}

static void test_so_do_parts_on_the_fallback(void **state) {
    (void)state;
    mc_backend partial = mc_backend_cpu;
    partial.supports = supports_parts;
    partial.complete = false;
    for (declined = 0; declined < 3; declined++)
        compare_by(&mc_cpu_steps, &partial, 1);
}

static int chained; /* steps */
static int ending_in_matmuls;

/* What a product makes of the rows that it ends a chain with is its own affair. */
static mica_status run_backwards(const mc_call *call) {
    mc_chain chain;
    if (!mc_is_stage(call[call->span - 1].op)) {
        ending_in_matmuls++;
        return mc_eval_chain(call);
    }
    mica_status status = mc_chain_measure(&chain, call, call->span);
    if (status != MICA_OK) return status;
    void *memory = mc_run_scratch(call->run, chain.bytes);
    if (memory == NULL) return MICA_ENOMEM;
    if ((status = mc_chain_prepare(&chain, memory)) != MICA_OK) return status;
    for (int64_t row = chain.stages[0].rows - 1; row >= 0; row--)
        mc_chain_rows(&chain, row, row + 1, 0);
    chained += chain.n;
    return MICA_OK;
}

static void test_so_do_rows_of_chains(void **state) {
    (void)state;
    mc_step_ops backwards = mc_cpu_steps;
    backwards.chain = run_backwards;
    backwards.touch = NULL; /* its loops are of one step */
    compare_by(&backwards, &mc_backend_cpu, 1);
    assert_true(chained > 1000);
    assert_true(ending_in_matmuls > 50 || !pairs);
}

static void test_so_do_steps_without_chains(void **state) {
    (void)state;
    mc_step_ops apart = mc_cpu_steps;
    apart.rows = NULL;
    apart.chain = NULL;
    compare_by(&apart, &mc_backend_cpu, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_way_gives_the_same_bits),
        cmocka_unit_test(test_so_do_rows_of_chains),
        cmocka_unit_test(test_so_do_steps_without_chains),
        cmocka_unit_test(test_so_do_decompositions),
        cmocka_unit_test(test_so_do_parts_on_the_fallback),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
