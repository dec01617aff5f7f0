/* Recurrent layers: RNN, GRU, LSTM, each as a scan over the steps of a direction.
 *
 * X [T, B, I], W [directions, gates * H, I], R [directions, gates * H, H], B [directions, 2 *
 * gates * H], initial states [directions, B, H]. The part of the gates that X gives is one product
 * over all steps. */
#include "onnx/import.h"

#include <mica/control.h>
#include <mica/ops.h>

enum { RNN = 1, GRU = 3, LSTM = 4 }; /* gates */

typedef struct layer {
    int gates;
    int64_t hidden;
    bool reset_last; /* of a GRU: the reset gate is applied behind the product */
    mica_array r;    /* [H, gates * H] */
    mica_array bias; /* [gates * H], of r */
} layer;

/* Gate k of [B, gates * H]. */
static mica_array gate(const layer *l, mica_scope *s, mica_array x, int k) {
    return mica_slice_axis(s, x, -1, k * l->hidden, (k + 1) * l->hidden);
}

static mica_array lstm(const layer *l, mica_scope *s, mica_array gates, mica_array *cell) {
    mica_array i = mica_sigmoid(s, gate(l, s, gates, 0)), o = mica_sigmoid(s, gate(l, s, gates, 1));
    mica_array f = mica_sigmoid(s, gate(l, s, gates, 2)), c = mica_tanh(s, gate(l, s, gates, 3));
    *cell = mica_add(s, mica_multiply(s, f, *cell), mica_multiply(s, i, c));
    return mica_multiply(s, o, mica_tanh(s, *cell));
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

/* args: h, of an LSTM the cell, then a row of X's part; results: the same, then h once more. */
static mica_status step(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                        mica_array *results, size_t n_results) {
    const layer *l = user;
    mica_array h = args[0], xs = args[n_args - 1], cell = args[n_args - 2];
    if (l->gates == GRU) {
        h = gru(l, s, xs, h);
    } else {
        mica_array gates = mica_add(s, xs, mica_add(s, mica_matmul(s, h, l->r), l->bias));
        h = l->gates == LSTM ? lstm(l, s, gates, &cell) : mica_tanh(s, gates);
    }
    results[0] = h;
    if (l->gates == LSTM) results[1] = cell;
    results[n_results - 1] = h;
    return mica_scope_status(s);
}

/* Row `direction` of an operand without its axis; zeros of a shape where it is absent. */
static mica_array part(mc_onnx_node *n, size_t i, int direction, const int64_t *shape, int ndim) {
    mica_array x = mc_onnx_x(n, i);
    if (!x.scope) return mica_zeros(n->s, shape, ndim, mica_array_dtype(n->in[0].x));
    x = mica_slice_axis(n->s, x, 0, direction, direction + 1);
    return mica_squeeze(n->s, x, 0);
}

/* A direction: y [T, B, H], and the states at its end [B, H]. */
static mica_status run_direction(mc_onnx_node *n, layer *l, int direction, bool reverse,
                                 mica_array *y, mica_array states[2]) {
    mica_array x = n->in[0].x;
    const int64_t width = l->gates * l->hidden, both[] = {2 * width};
    const int64_t state[] = {mica_array_dim(x, 1), l->hidden};
    mica_array w = part(n, 1, direction, NULL, 0), bias = part(n, 3, direction, both, 1);
    l->r = mica_transpose(n->s, part(n, 2, direction, NULL, 0), NULL);
    l->bias = mica_slice_axis(n->s, bias, 0, width, 2 * width);
    mica_array xs = mica_matmul(n->s, x, mica_transpose(n->s, w, NULL));
    xs = mica_add(n->s, xs, mica_slice_axis(n->s, bias, 0, 0, width));
    mica_array init[2] = {part(n, 5, direction, state, 2)};
    if (l->gates == LSTM) init[1] = part(n, 6, direction, state, 2);
    const mica_scan_options options = {.reverse = reverse};
    return mica_scan(n->s, step, l, init, l->gates == LSTM ? 2 : 1, &xs, 1, &options, states, y, 1);
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
    if (mc_onnx_int(n, "layout", 0) != 0) return mc_onnx_refuse("this layout");
    if (!are_default(n, l->gates) || mc_onnx_attr(n, "clip") || mc_onnx_int(n, "input_forget", 0))
        return mc_onnx_refuse("other activations of recurrent layers");
    if (mc_onnx_has(n, 4)) return mc_onnx_refuse("lengths of sequences");
    if (mc_onnx_has(n, 7)) return mc_onnx_refuse("peepholes");
    bool fits = mica_array_ndim(x) == 3 && mica_array_ndim(w) == 3 && mica_array_ndim(r) == 3 &&
                l->hidden >= 1 && l->hidden < INT32_MAX && mica_array_dim(w, 0) == directions &&
                mica_array_dim(r, 0) == directions &&
                mica_array_dim(w, 1) == l->gates * l->hidden &&
                mica_array_dim(r, 1) == l->gates * l->hidden && mica_array_dim(r, 2) == l->hidden;
    return fits ? MICA_OK : mc_fail(MICA_ESHAPE, "its weights do not fit");
}

static mica_status build(mc_onnx_node *n, int gates) {
    mica_array ys[2], states[2][2], merged[2];
    mc_str direction = mc_onnx_text(n, "direction", "forward");
    bool reverse = mc_str_is(direction, "reverse");
    int directions = mc_str_is(direction, "bidirectional") ? 2 : 1;
    if (!reverse && directions == 1 && !mc_str_is(direction, "forward"))
        return mc_onnx_refuse("this direction");
    layer l = {.gates = gates, .reset_last = mc_onnx_int(n, "linear_before_reset", 0) != 0};
    l.hidden = mc_onnx_int(n, "hidden_size", mica_array_dim(n->in[2].x, -1));
    MC_TRY(check_layer(n, &l, directions));
    for (int d = 0; d < directions; d++)
        MC_TRY(run_direction(n, &l, d, reverse || d == 1, &ys[d], states[d]));
    MC_TRY(mc_onnx_give(n, 0, mica_stack(n->s, ys, directions, 1)));
    for (int k = 0; k < (gates == LSTM ? 2 : 1); k++) {
        for (int d = 0; d < directions; d++)
            merged[d] = states[d][k];
        MC_TRY(mc_onnx_give(n, (size_t)k + 1, mica_stack(n->s, merged, directions, 0)));
    }
    return MICA_OK;
}

mica_status mc_onnx_rnn(mc_onnx_node *n) {
    return build(n, RNN);
}
mica_status mc_onnx_gru(mc_onnx_node *n) {
    return build(n, GRU);
}
mica_status mc_onnx_lstm(mc_onnx_node *n) {
    return build(n, LSTM);
}
