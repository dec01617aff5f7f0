/* Recurrent layers: RNN, GRU, LSTM, each as a scan over the steps of a direction.
 *
 * X [T, B, I], W [directions, gates * H, I], R [directions, gates * H, H], B [directions, 2 *
 * gates * H], initial states [directions, B, H]. The part of the gates that X gives is one product
 * over all steps. */
#include "onnx/import.h"

#include "graph/dim.h"

#include <mica/control.h>
#include <mica/ops.h>

enum { RNN = 1, GRU = 3, LSTM = 4 }; /* gates */

typedef struct layer {
    int gates;
    int64_t hidden;
    bool reset_last; /* of a GRU: the reset gate is applied behind the product */
    bool ends;       /* rows have lengths of their own */
    mica_array r;    /* [H, gates * H] */
    mica_array bias; /* [gates * H], of r */
    mica_array peep; /* [3 * H] of an LSTM: what its cell gives to the gates i, o, f; or none */
    mc_onnx_node *n;
    bool quantised;       /* products of integers: of w and r as steps, not of r */
    mc_onnx_steps wq, rq; /* [I, gates * H], [H, gates * H] */
} layer;

/* Gate k of [B, gates * H]. */
static mica_array gate(const layer *l, mica_scope *s, mica_array x, int k) {
    return mica_slice_axis(s, x, -1, k * l->hidden, (k + 1) * l->hidden);
}

/* Gate k < 3 of an LSTM, which a peephole lets see the cell. */
static mica_array open_gate(const layer *l, mica_scope *s, mica_array gates, int k,
                            mica_array cell) {
    mica_array x = gate(l, s, gates, k);
    if (l->peep.scope) x = mica_add(s, x, mica_multiply(s, gate(l, s, l->peep, k), cell));
    return mica_sigmoid(s, x);
}

static mica_array lstm(const layer *l, mica_scope *s, mica_array gates, mica_array *cell) {
    mica_array i = open_gate(l, s, gates, 0, *cell), f = open_gate(l, s, gates, 2, *cell);
    mica_array c = mica_tanh(s, gate(l, s, gates, 3));
    *cell = mica_add(s, mica_multiply(s, f, *cell), mica_multiply(s, i, c));
    return mica_multiply(s, open_gate(l, s, gates, 1, *cell), mica_tanh(s, *cell));
}

/* xs: what X gives; h before. */
static mica_array gru(const layer *l, mica_scope *s, mica_array xs, mica_array h) {
    mica_array hs = mica_add(s, mica_matmul(s, h, l->r), l->bias);
    mica_array z = mica_sigmoid(s, mica_add(s, gate(l, s, xs, 0), gate(l, s, hs, 0)));
    mica_array reset = mica_sigmoid(s, mica_add(s, gate(l, s, xs, 1), gate(l, s, hs, 1)));
    mica_array last = gate(l, s, hs, 2);
    if (l->reset_last) {
        last = mica_multiply(s, reset, last);
    } else {
        last = mica_matmul(s, mica_multiply(s, reset, h), gate(l, s, l->r, 2));
        last = mica_add(s, last, gate(l, s, l->bias, 2));
    }
    mica_array c = mica_tanh(s, mica_add(s, gate(l, s, xs, 2), last));
    return mica_add(s, c, mica_multiply(s, z, mica_subtract(s, h, c)));
}

/* What goes on where a row has ended: nothing changes. */
static mica_array unless_over(mica_scope *s, mica_array alive, mica_array x, mica_array before) {
    return alive.scope ? mica_where(s, alive, x, before) : x;
}

/* args: h, of an LSTM the cell, then a row of X's part, and whether rows go on [B, 1] where they
 * end; results: the same, then h once more, or zeros. */
static mica_status step(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                        mica_array *results, size_t n_results) {
    const layer *l = user;
    size_t n_carried = l->gates == LSTM ? 2 : 1;
    mica_array h = args[0], xs = args[n_carried], cell = args[n_carried - 1];
    mica_array alive = l->ends ? args[n_args - 1] : MICA_NONE, hr = MICA_NONE;
    if (l->quantised)
        MC_TRY(mc_onnx_dynamic_product(l->n, s, h, &l->rq, &hr));
    else if (l->gates != GRU)
        hr = mica_matmul(s, h, l->r);
    if (l->gates == GRU) {
        h = gru(l, s, xs, h);
    } else {
        mica_array gates = mica_add(s, xs, mica_add(s, hr, l->bias));
        h = l->gates == LSTM ? lstm(l, s, gates, &cell) : mica_tanh(s, gates);
    }
    results[0] = unless_over(s, alive, h, args[0]);
    if (l->gates == LSTM) results[1] = unless_over(s, alive, cell, args[1]);
    results[n_results - 1] = unless_over(s, alive, h, mica_scalar(s, 0, mica_array_dtype(h)));
    return mica_scope_status(s);
}

/* Row `direction` of an operand without its axis, of a shape where one is given; zeros of it where
 * the operand is absent. */
static mica_array part(mc_onnx_node *n, size_t i, int direction, const int64_t *shape, int ndim) {
    mica_array x = mc_onnx_x(n, i);
    if (!x.scope) return mica_zeros(n->s, shape, ndim, mica_array_dtype(n->in[0].x));
    x = mica_slice_axis(n->s, x, 0, direction, direction + 1);
    x = mica_squeeze(n->s, x, 0);
    return shape && mica_array_ndim(x) == ndim ? mc_onnx_fit(n->s, x, shape, ndim, -1) : x;
}

/* Whether step t is one of each row: [T, B, 1]. */
static mica_status steps_of(mc_onnx_node *n, mica_array x, mica_array *alive) {
    int64_t steps = mica_array_dim(x, 0);
    mica_array t = mica_arange(n->s, 0, (double)steps, 1, MICA_I64);
    t = mica_reshape(n->s, t, (int64_t[]){steps, 1, 1}, 3);
    mica_array lengths = mica_astype(n->s, n->in[4].x, MICA_I64);
    const int64_t rows[] = {mica_array_dim(x, 1)};
    if (mica_array_ndim(lengths) != 1 || !mc_dim_may_equal(mica_array_dim(lengths, 0), rows[0]))
        return mc_fail(MICA_ESHAPE, "its lengths do not fit");
    lengths = mc_onnx_fit(n->s, lengths, rows, 1, -1);
    *alive = mica_less(n->s, t, mica_expand_dims(n->s, mica_expand_dims(n->s, lengths, 0), 2));
    return mica_scope_status(n->s);
}

/* Row `direction` of weights as bytes, scales and zero points: operands i, j and j + 1. */
static mica_status steps_at(mc_onnx_node *n, size_t i, size_t j, int direction,
                            mc_onnx_steps *steps) {
    mica_array *const to[] = {&steps->q, &steps->scale, &steps->zero};
    const size_t from[] = {i, j, j + 1};
    for (int k = 0; k < 3; k++) {
        mica_scope *s = n->in[from[k]].known ? n->import->constants : n->s;
        mica_array x = mica_slice_axis(s, n->in[from[k]].x, 0, direction, direction + 1);
        *to[k] = mica_squeeze(s, x, 0);
        if (s == n->s) continue;
        MC_TRY(mica_eval(s, *to[k]));
        MC_TRY(mc_onnx_hold(n->import, *to[k]));
    }
    return mica_scope_status(n->s);
}

/* What x gives to the gates: [T, B, gates * H]. */
static mica_status times_w(mc_onnx_node *n, layer *l, mica_array x, int direction, mica_array *y) {
    if (!l->quantised) {
        mica_array w = part(n, 1, direction, NULL, 0);
        l->r = mica_transpose(n->s, part(n, 2, direction, NULL, 0), NULL);
        *y = mica_matmul(n->s, x, mica_transpose(n->s, w, NULL));
        return mica_scope_status(n->s);
    }
    MC_TRY(steps_at(n, 1, 8, direction, &l->wq));
    MC_TRY(steps_at(n, 2, 10, direction, &l->rq));
    return mc_onnx_dynamic_product(n, n->s, x, &l->wq, y);
}

/* A direction: y [T, B, H], and the states at its end [B, H]. */
static mica_status run_direction(mc_onnx_node *n, mica_array x, layer *l, int direction,
                                 bool reverse, mica_array *y, mica_array states[2]) {
    const int64_t width = l->gates * l->hidden, both[] = {2 * width};
    const int64_t state[] = {mica_array_dim(x, 1), l->hidden};
    mica_array bias = part(n, 3, direction, both, 1), xs[2];
    MC_TRY(times_w(n, l, x, direction, &xs[0]));
    l->bias = mica_slice_axis(n->s, bias, 0, width, 2 * width);
    xs[0] = mica_add(n->s, xs[0], mica_slice_axis(n->s, bias, 0, 0, width));
    l->peep = MICA_NONE;
    if (l->gates == LSTM && mc_onnx_has(n, 7))
        l->peep = part(n, 7, direction, (int64_t[]){3 * l->hidden}, 1);
    if (l->ends) MC_TRY(steps_of(n, x, &xs[1]));
    mica_array init[2] = {part(n, 5, direction, state, 2)};
    if (l->gates == LSTM) init[1] = part(n, 6, direction, state, 2);
    const mica_scan_options options = {.reverse = reverse};
    return mica_scan(n->s, step, l, init, l->gates == LSTM ? 2 : 1, xs, l->ends ? 2 : 1, &options,
                     states, y, 1);
}

/* Whether `activations` are absent or, for each direction, what holds where they are. */
static bool are_default(const mc_onnx_node *n, int gates) {
    static const char *const names[] = {"Sigmoid", "Tanh", "Tanh"};
    const char *const *want = gates == RNN ? names + 1 : names;
    const mc_onnx_attribute *a = mc_onnx_attr(n, "activations");
    size_t each = gates == RNN ? 1 : gates == GRU ? 2 : 3;
    for (size_t i = 0; a && i < a->n_strings; i++) {
        mc_str name = {a->strings[i].data ? (const char *)a->strings[i].data : "",
                       a->strings[i].len};
        if (!mc_str_is(name, want[i % each])) return false;
    }
    return true;
}

static mica_status check_layer(const mc_onnx_node *n, const layer *l, int directions) {
    mica_array x = n->in[0].x, w = n->in[1].x, r = n->in[2].x;
    if (!are_default(n, l->gates) || mc_onnx_attr(n, "clip") || mc_onnx_int(n, "input_forget", 0))
        return mc_onnx_refuse("other activations of recurrent layers");
    int gates = l->quantised ? 2 : 1; /* their axis */
    bool fits = mica_array_ndim(x) == 3 && mica_array_ndim(w) == 3 && mica_array_ndim(r) == 3 &&
                l->hidden >= 1 && l->hidden < INT32_MAX && mica_array_dim(w, 0) == directions &&
                mica_array_dim(r, 0) == directions &&
                mica_array_dim(w, gates) == l->gates * l->hidden &&
                mica_array_dim(r, gates) == l->gates * l->hidden &&
                mica_array_dim(r, 3 - gates) == l->hidden;
    if (l->gates == LSTM && mc_onnx_has(n, 7)) {
        mica_array p = n->in[7].x; /* [directions, 3 hidden] */
        fits = fits && mica_array_ndim(p) == 2 && mica_array_dim(p, 0) == directions &&
               mica_array_dim(p, 1) == 3 * l->hidden;
    }
    return fits ? MICA_OK : mc_fail(MICA_ESHAPE, "its weights do not fit");
}

static mica_status build(mc_onnx_node *n, int gates, bool quantised) {
    mica_array ys[2], states[2][2], merged[2];
    mc_str direction = mc_onnx_text(n, "direction", "forward");
    bool reverse = mc_str_is(direction, "reverse");
    int directions = mc_str_is(direction, "bidirectional") ? 2 : 1;
    if (!reverse && directions == 1 && !mc_str_is(direction, "forward"))
        return mc_onnx_refuse("this direction");
    layer l = {.n = n,
               .quantised = quantised,
               .gates = gates,
               .reset_last = mc_onnx_int(n, "linear_before_reset", 0) != 0};
    l.hidden = mc_onnx_int(n, "hidden_size", mica_array_dim(n->in[2].x, quantised ? 1 : -1));
    l.ends = mc_onnx_has(n, 4);
    MC_TRY(check_layer(n, &l, directions));
    bool rows_first = mc_onnx_int(n, "layout", 0) != 0; /* x [B, T, I], states [B, directions, H] */
    mica_array x = n->in[0].x;
    if (rows_first) x = mica_swapaxes(n->s, x, 0, 1);
    for (size_t i = 5; rows_first && i < 7; i++)
        if (mc_onnx_has(n, i)) n->in[i].x = mica_swapaxes(n->s, n->in[i].x, 0, 1);
    for (int d = 0; d < directions; d++)
        MC_TRY(run_direction(n, x, &l, d, reverse || d == 1, &ys[d], states[d]));
    mica_array y = mica_stack(n->s, ys, directions, 1); /* [T, directions, B, H] */
    if (rows_first) y = mica_transpose(n->s, y, (int[]){2, 0, 1, 3});
    MC_TRY(mc_onnx_give(n, 0, y));
    for (int k = 0; k < (gates == LSTM ? 2 : 1); k++) {
        for (int d = 0; d < directions; d++)
            merged[d] = states[d][k];
        int at = rows_first ? 1 : 0;
        MC_TRY(mc_onnx_give(n, (size_t)k + 1, mica_stack(n->s, merged, directions, at)));
    }
    return MICA_OK;
}

mica_status mc_onnx_rnn(mc_onnx_node *n) {
    return build(n, RNN, false);
}
mica_status mc_onnx_gru(mc_onnx_node *n) {
    return build(n, GRU, false);
}
mica_status mc_onnx_lstm(mc_onnx_node *n) {
    return build(n, LSTM, false);
}
/* W and R [directions, K, gates * H] as bytes; operands from 8 on are their scales, [directions] or
 * one for each column, and zero points. */
mica_status mc_onnx_dynamic_quantize_lstm(mc_onnx_node *n) {
    MC_TRY(mc_onnx_need(n, 8, 11));
    return build(n, LSTM, true);
}
