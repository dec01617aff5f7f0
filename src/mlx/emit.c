#include "mlx/emit.h"

#include <limits.h>
#include <string.h>

typedef struct row {
    void (*emit)(mc_mlx_call *c);
    mc_mlx_supports_fn supports; /* NULL: all layouts */
    size_t function;             /* of AS_IS and WIDE: where it is in mc_mlx_library */
} row;

/* The function of an AS_IS or WIDE row, over one operand or two. */
static void call_plain(mc_mlx_call *c, const row *r, mlx_array a, mlx_array b) {
    const char *at = (const char *)&mc_mlx + r->function;
    if (c->n_in == 1) {
        mc_mlx_unary function;
        memcpy(&function, at, sizeof function);
        mc_mlx_give(c, 0, mc_mlx_apply(c, function, a));
    } else {
        mc_mlx_binary function;
        memcpy(&function, at, sizeof function);
        mc_mlx_give(c, 0, mc_mlx_combine(c, function, a, b));
    }
}

static void emit_as_is(mc_mlx_call *c);
static void emit_wide(mc_mlx_call *c);

static const row rows[MC_OP_COUNT] = {
#define EMIT(op, function) [MC_OP_##op] = {function, NULL, 0},
#define EMIT_IF(op, function, name) [MC_OP_##op] = {function, mc_mlx_supports_##name, 0},
#define AS_IS(op, name) [MC_OP_##op] = {emit_as_is, NULL, offsetof(mc_mlx_library, name)},
#define WIDE(op, name) [MC_OP_##op] = {emit_wide, NULL, offsetof(mc_mlx_library, name)},
#include "mlx/emit_list.h"
};

static void emit_as_is(mc_mlx_call *c) {
    call_plain(c, &rows[c->op], c->in[0], c->n_in > 1 ? c->in[1] : c->in[0]);
}

static void emit_wide(mc_mlx_call *c) {
    mlx_array a = c->narrow ? c->in[0] : mc_mlx_wide(c, 0);
    call_plain(c, &rows[c->op], a, c->n_in > 1 ? mc_mlx_wide(c, 1) : a);
}

static bool lengths_fit(const mc_layout *l) {
    for (int k = 0; l && k < l->ndim; k++)
        if (l->shape[k] > INT_MAX) return false;
    return true;
}

/* GPUs have none: it passes through MLX as its bits, and the CPU converts it. */
static bool is_double(const mc_layout *l) {
    return l && l->dtype == MICA_F64;
}

bool mc_mlx_supports(mc_mlx_place place, mc_op op, const void *attr, const mc_layout *const *in,
                     int n_in, const mc_layout *out) {
    if (!rows[op].emit || !lengths_fit(out) || is_double(out)) return false;
    for (int i = 0; i < n_in; i++)
        if (!lengths_fit(in[i]) || is_double(in[i])) return false;
    return !rows[op].supports || rows[op].supports(place, attr, in, n_in, out);
}

/* Results without elements need nothing computed; take still looks at its indices. */
static bool is_empty(const mc_mlx_call *c) {
    for (int i = 0; i < mc_op_n_out(mc_op_get(c->op)); i++)
        if (mc_layout_size(&c->to[i]) > 0) return false;
    return c->op != MC_OP_TAKE;
}

/* ---- narrow values ----
 *
 * A matmul in `fast` arithmetic gives bf16 or f16 on a GPU, where its node is f32. Its result stays
 * so, and so do those of these ops that read it, up to an op that reads something else in f32: each
 * cast would cost as much as a small op. */

/* How many of the first operands have to be narrow for the result to stay so; 0: it never does. */
static const int deciding[MC_OP_COUNT] = {
    [MC_OP_RESHAPE] = 1,    [MC_OP_TRANSPOSE] = 1, [MC_OP_BROADCAST_TO] = 1, [MC_OP_SLICE] = 1,
    [MC_OP_CONTIGUOUS] = 1, [MC_OP_ADD] = 2,       [MC_OP_MULTIPLY] = 2,     [MC_OP_SIGMOID] = 1,
    [MC_OP_RMS_NORM] = 1,   [MC_OP_ROPE] = 1,      [MC_OP_SDPA] = 1,
};

/* Ops that choose the dtypes of their operands. */
static const bool choosing[MC_OP_COUNT] = {
    [MC_OP_ASTYPE] = true,    [MC_OP_MATMUL] = true,     [MC_OP_QUANTIZED_MATMUL] = true,
    [MC_OP_GATHER_MM] = true, [MC_OP_GATHER_QMM] = true, [MC_OP_SDPA] = true,
};

static bool is_narrow(const mc_mlx_call *c, int k) {
    return c->in[k].ctx && mc_mlx.array_dtype(c->in[k]) != mc_mlx_dtype(c->from[k]->dtype);
}

static void settle_dtypes(mc_mlx_call *c) {
    int n = deciding[c->op] < c->n_in ? deciding[c->op] : c->n_in;
    c->narrow = n > 0;
    for (int k = 0; k < n; k++)
        c->narrow = c->narrow && is_narrow(c, k);
    for (int k = c->narrow ? n : 0; k < c->n_in && !choosing[c->op]; k++)
        if (is_narrow(c, k)) c->in[k] = mc_mlx_in(c, k, c->from[k]->dtype);
}

mica_status mc_mlx_emit(mc_mlx_call *c) {
    settle_dtypes(c);
    if (is_empty(c)) {
        for (int i = 0; i < mc_op_n_out(mc_op_get(c->op)); i++)
            mc_mlx_give(c, i, mc_mlx_zeros(c, &c->to[i]));
    } else {
        rows[c->op].emit(c);
    }
    for (int i = 0; i < c->n_temps; i++)
        mc_mlx.array_free(c->temps[i]);
    return c->failed ? mc_mlx_fail(mc_op_get(c->op)->name) : MICA_OK;
}
