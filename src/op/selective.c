/* Selective scan (Mamba), and its gradient as an op: neither needs an array of all states.
 *
 *      h_t = exp(delta_t A) h_{t-1} + delta_t x_t B_t      [H, N] of each batch row
 *      y_t = sum_n C_t[n] h_t[., n]
 *
 *  in       x, delta [B, L, H]; A [H, N]; B, C [B, L, N]; initial [B, H, N] or absent: zeros
 *  results  y [B, L, H], the last state [B, H, N], both f32
 *
 * What else mica_selective_scan has is around the op: D, z and the softplus of delta. */
#include <mica/nn.h>

#include <string.h>

#include "base/options.h"
#include "op/build.h"
#include "op/gradient.h"
#include "op/work.h"

enum { X, DELTA, A, B, C, INITIAL, DY, DLAST };

static mica_status check_shape(const char *op, const char *name, const mc_layout *l, int ndim,
                               const int64_t *shape) {
    char text[MC_LAYOUT_TEXT], text_want[MC_LAYOUT_TEXT];
    mc_layout want;
    if (!mica_dtype_is_float(l->dtype))
        return mc_fail(MICA_EDTYPE, "%s: %s is %s, not a float", op, name, mc_layout_text(l, text));
    MC_TRY(mc_set_result(op, &want, l->dtype, shape, ndim));
    if (mc_layout_same_shape(l, &want)) return MICA_OK;
    return mc_fail(MICA_ESHAPE, "%s: %s is %s; by x and A it is %s", op, name,
                   mc_layout_text(l, text), mc_layout_text(&want, text_want));
}

/* Checks the operands up to the initial state; shapes receives those of x and of the state. */
static mica_status check(const char *op, const mc_layout *const *in, mc_layout *y,
                         mc_layout *last) {
    char text[MC_LAYOUT_TEXT], text_a[MC_LAYOUT_TEXT];
    const mc_layout *x = in[X], *a = in[A];
    if (x->ndim != 3 || a->ndim != 2 || a->shape[0] != x->shape[2])
        return mc_fail(MICA_ESHAPE, "%s: x %s and A %s; [B, L, H] and [H, N] are needed", op,
                       mc_layout_text(x, text), mc_layout_text(a, text_a));
    const int64_t state[3] = {x->shape[0], x->shape[2], a->shape[1]};
    const int64_t vectors[3] = {x->shape[0], x->shape[1], a->shape[1]};
    MC_TRY(check_shape(op, "x", x, 3, x->shape));
    MC_TRY(check_shape(op, "delta", in[DELTA], 3, x->shape));
    MC_TRY(check_shape(op, "A", a, 2, a->shape));
    MC_TRY(check_shape(op, "B", in[B], 3, vectors));
    MC_TRY(check_shape(op, "C", in[C], 3, vectors));
    if (in[INITIAL]) MC_TRY(check_shape(op, "the initial state", in[INITIAL], 3, state));
    MC_TRY(mc_set_result(op, y, MICA_F32, x->shape, 3));
    return mc_set_result(op, last, MICA_F32, state, 3);
}

static mica_status selective_scan_infer(const void *attr, const mc_layout *const *in, int n_in,
                                        mc_layout *out) {
    (void)attr, (void)n_in;
    return check("selective_scan", in, &out[0], &out[1]);
}

/* ---- plain ops ---- */

/* x [B, L, H] as [B, L, H, 1] or [B, L, N] as [B, L, 1, N], f32. */
static mica_array wide(mica_scope *s, mica_array x, int axis) {
    return mica_expand_dims(s, mc_cast(s, x, MICA_F32), axis);
}

/* x moved by `by` places along axis 1 from its beginning, with `fill` before it. */
static mica_array moved(mica_scope *s, mica_array x, int64_t by, float fill) {
    int64_t before[MICA_MAX_NDIM] = {0, by}, after[MICA_MAX_NDIM] = {0};
    mica_array part = mica_slice_axis(s, x, 1, 0, mc_dim_sub(mica_array_dim(x, 1), by));
    return mica_pad(s, part, before, after, mica_f32(s, fill));
}

/* One block of all_states: doubles the number of steps that each place covers. */
static mica_array block_states(mica_scope *s, mica_array w, mica_array u, mica_array before) {
    int64_t length = mica_array_dim(w, 1);
    for (int64_t by = 1; by < length; by *= 2) {
        u = mica_add(s, u, mica_multiply(s, w, moved(s, u, by, 0)));
        w = mica_multiply(s, w, moved(s, w, by, 1));
    }
    return mica_add(s, u, mica_multiply(s, w, before));
}

/* The states h_t = w_t h_{t-1} + u_t after each step, of w and u [B, L, H, N], L > 0, and h_0
 * [B, 1, H, N]. A block of at least 64 steps at a time, 64 blocks at most. */
static mica_array all_states(mica_scope *s, mica_array w, mica_array u, mica_array before) {
    enum { BLOCK = 64 };
    int64_t length = mica_array_dim(w, 1), block = (length + BLOCK - 1) / BLOCK;
    if (mc_dim_has_symbols(length)) return mc_need_number(s, "selective_scan", length);
    if (block < BLOCK) block = BLOCK;
    mica_array parts[BLOCK];
    int n = 0;
    for (int64_t at = 0; at < length; at += block) {
        int64_t end = at + block < length ? at + block : length;
        parts[n] = block_states(s, mica_slice_axis(s, w, 1, at, end),
                                mica_slice_axis(s, u, 1, at, end), before);
        before = mica_slice_axis(s, parts[n++], 1, end - at - 1, end - at);
    }
    return mica_concatenate(s, parts, n, 1);
}

/* What the steps are made of. */
typedef struct steps {
    mica_array x, delta, b, c, a; /* [B, L, H, 1], [B, L, 1, N], [H, N] */
    mica_array w, h, first;       /* [B, L, H, N], [B, 1, H, N] */
} steps;

static steps steps_of(mica_scope *s, const mica_array *in) {
    steps t = {.x = wide(s, in[X], -1),
               .delta = wide(s, in[DELTA], -1),
               .b = wide(s, in[B], 2),
               .c = wide(s, in[C], 2),
               .a = mc_cast(s, in[A], MICA_F32)};
    const int64_t shape[4] = {mica_array_dim(in[X], 0), 1, mica_array_dim(in[A], 0),
                              mica_array_dim(in[A], 1)};
    t.first = in[INITIAL].scope ? mica_expand_dims(s, mc_cast(s, in[INITIAL], MICA_F32), 1)
                                : mica_zeros(s, shape, 4, MICA_F32);
    t.w = mica_exp(s, mica_multiply(s, t.delta, t.a));
    mica_array u = mica_multiply(s, mica_multiply(s, t.delta, t.x), t.b);
    t.h = mica_array_dim(in[X], 1) > 0 ? all_states(s, t.w, u, t.first) : t.w;
    return t;
}

static void selective_scan_decompose(mica_scope *s, const void *attr, const mica_array *in,
                                     int n_in, mica_array *out) {
    (void)attr, (void)n_in;
    const int last = -1;
    steps t = steps_of(s, in);
    int64_t length = mica_array_dim(in[X], 1);
    out[0] = mica_sum(s, mica_multiply(s, t.h, t.c), &last, 1, false);
    mica_array end =
        length > 0 ? mica_slice_axis(s, t.h, 1, mc_dim_sub(length, 1), length) : t.first;
    out[1] = mica_squeeze(s, end, 1);
}

/* 8 for each element of each state. */
static MC_WORK_RULE(selective_scan_work) {
    (void)attr, (void)n_in, (void)out;
    work->kind = MC_WORK_SCAN;
    work->operations = 8 * (double)mc_layout_size(in[X]) * (double)in[A]->shape[1];
}

/* The states again, and the way back. */
static MC_WORK_RULE(selective_scan_gradient_work) {
    selective_scan_work(attr, in, n_in, out, work);
    work->operations *= 3;
}

MC_OP(selective_scan, 5, 6, .n_out = 2, .infer = selective_scan_infer,
      .decompose = selective_scan_decompose, .work = selective_scan_work);

static bool selective_scan_vjp(const mc_gradient_node *n, const mica_array *dy, mica_array *dx) {
    mica_array in[8] = {MICA_NONE};
    memcpy(in, n->in, (size_t)n->n_in * sizeof *in);
    in[DY] = mc_or_zeros(n->s, dy[0], n->out[0]);
    in[DLAST] = dy[1];
    mica_array made = mc_record(n->s, MC_OP_SELECTIVE_SCAN_GRADIENT, NULL, in, 8);
    for (int i = 0; i < n->n_in; i++)
        if (n->wanted[i]) dx[i] = mc_record_part(n->s, made, i);
    return true;
}
MC_GRADIENT(selective_scan, selective_scan_vjp, NULL);

/* ---- the gradient ----
 *
 * With w_t = exp(delta_t A), and from the last step back
 *
 *      g_t = dy_t C_t + w_{t+1} g_{t+1}, after the last one dlast instead of w g
 *      dx = sum_n g delta B               dB = sum_h g delta x      dC = sum_h dy h
 *      ddelta = sum_n g (A w h_{t-1} + B x)    dA = sum_{b,t} g h_{t-1} w delta
 *      dinitial = w_1 g_1
 *
 *  in       those of selective_scan; dy [B, L, H] float; dlast [B, H, N] float or absent
 *  results  dx, ddelta, dA, dB, dC, dinitial, f32 */

static mica_status selective_scan_gradient_infer(const void *attr, const mc_layout *const *in,
                                                 int n_in, mc_layout *out) {
    (void)attr, (void)n_in;
    static const char *const name = "selective_scan_gradient";
    mc_layout y, last;
    MC_TRY(check(name, in, &y, &last));
    if (!in[DY]) return mc_fail(MICA_EINVAL, "%s: dy is absent", name);
    MC_TRY(check_shape(name, "dy", in[DY], 3, y.shape));
    if (in[DLAST]) MC_TRY(check_shape(name, "dlast", in[DLAST], 3, last.shape));
    for (int i = X; i <= C; i++) {
        out[i] = *in[i];
        out[i].dtype = MICA_F32;
    }
    out[INITIAL] = last;
    return MICA_OK;
}

static mica_array sum_over(mica_scope *s, mica_array x, int axis) {
    return mica_sum(s, x, &axis, 1, false);
}

/* g of all steps: the scan of the reversed steps, in which each has the next one's w. */
static mica_array all_gradients(mica_scope *s, const steps *t, mica_array dy, mica_array dlast) {
    mica_array next = moved(s, mica_flip(s, t->w, 1), 1, 1);
    mica_array u = mica_flip(s, mica_multiply(s, dy, t->c), 1);
    return mica_flip(s, all_states(s, next, u, dlast), 1);
}

static void selective_scan_gradient_decompose(mica_scope *s, const void *attr, const mica_array *in,
                                              int n_in, mica_array *out) {
    (void)attr, (void)n_in;
    const int first_two[2] = {0, 1};
    steps t = steps_of(s, in);
    int64_t length = mica_array_dim(in[X], 1);
    mica_array dlast = in[DLAST].scope ? mica_expand_dims(s, mc_cast(s, in[DLAST], MICA_F32), 1)
                                       : mc_zeros_like(s, t.first);
    if (length == 0) {
        for (int i = X; i <= C; i++)
            out[i] = mica_zeros(s, mica_array_shape(in[i]), mica_array_ndim(in[i]), MICA_F32);
        out[INITIAL] = mica_squeeze(s, dlast, 1);
        return;
    }
    mica_array dy = wide(s, in[DY], -1), g = all_gradients(s, &t, dy, dlast);
    mica_array parts[2] = {t.first, mica_slice_axis(s, t.h, 1, 0, mc_dim_sub(length, 1))};
    mica_array before = mica_concatenate(s, parts, 2, 1);
    mica_array gwh = mica_multiply(s, mica_multiply(s, g, t.w), before);
    mica_array dx =
        mica_multiply(s, sum_over(s, mica_multiply(s, g, t.b), -1), mica_squeeze(s, t.delta, -1));
    out[X] = dx;
    mica_array part = mica_multiply(s, gwh, t.a);
    part = mica_add(s, part, mica_multiply(s, mica_multiply(s, g, t.b), t.x));
    out[DELTA] = sum_over(s, part, -1);
    out[A] = mica_sum(s, mica_multiply(s, gwh, t.delta), first_two, 2, false);
    out[B] = sum_over(s, mica_multiply(s, g, mica_multiply(s, t.delta, t.x)), 2);
    out[C] = sum_over(s, mica_multiply(s, dy, t.h), 2);
    mica_array end =
        mica_multiply(s, mica_slice_axis(s, g, 1, 0, 1), mica_slice_axis(s, t.w, 1, 0, 1));
    out[INITIAL] = mica_squeeze(s, end, 1);
}

MC_OP(selective_scan_gradient, 5, 8, .n_out = 6, .infer = selective_scan_gradient_infer,
      .decompose = selective_scan_gradient_decompose, .work = selective_scan_gradient_work);
MC_DECOMPOSED_GRADIENT(selective_scan_gradient);

/* ---- the builder ---- */

mica_array mica_selective_scan(mica_scope *s, mica_array x, mica_array delta, mica_array a,
                               mica_array b, mica_array c,
                               const mica_selective_scan_options *options, mica_array *last) {
    mica_selective_scan_options o;
    if (last) *last = mc_invalid(s);
    mica_status status = MC_OPTIONS_COPY(mica_selective_scan_options, initial, &o, options);
    if (status != MICA_OK) return mc_fail_in(s, status);
    mica_array in[6] = {x, delta, a, b, c, o.initial};
    if (!mc_operands_ok(s, "selective_scan", in, 5)) return mc_invalid(s);
    mica_dtype dtype = mica_array_dtype(x);
    if (o.delta_softplus) in[DELTA] = mica_softplus(s, mc_cast(s, delta, MICA_F32));
    mica_array made = mc_record(s, MC_OP_SELECTIVE_SCAN, NULL, in, 6);
    if (!mica_valid(made)) return made;
    mica_array y = mc_record_part(s, made, 0);
    if (o.d.scope) {
        mica_array d = o.d;
        if (!mc_operands_ok(s, "selective_scan", &d, 1)) return mc_invalid(s);
        status = check_shape("selective_scan", "D", mc_layout_of(d), 1, mica_array_shape(a));
        if (status != MICA_OK) return mc_fail_in(s, status);
        d = mica_multiply(s, mc_cast(s, d, MICA_F32), mc_cast(s, x, MICA_F32));
        y = mica_add(s, y, d);
    }
    if (o.z.scope) {
        mica_array z = o.z;
        if (!mc_operands_ok(s, "selective_scan", &z, 1)) return mc_invalid(s);
        status = check_shape("selective_scan", "z", mc_layout_of(z), 3, mica_array_shape(x));
        if (status != MICA_OK) return mc_fail_in(s, status);
        y = mica_multiply(s, y, mica_silu(s, mc_cast(s, z, MICA_F32)));
    }
    if (last) *last = mc_record_part(s, made, 1);
    return mc_cast(s, y, dtype);
}
