/* The gradient of every op, by the list of ops: against central differences, tangents against
 * gradients, second derivatives, halves against f32, operands that lie in other ways against dense
 * ones, and rules of fused ops against their decompositions.
 *
 * The ops are the nodes of the graphs of tests/graph/graphs.c, and of one here that has those which
 * are not over floats there, and other attributes. */
#include <mica/mica.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/attr.h"
#include "graph/gradient.h"
#include "graph/graphs.h"
#include "op/floats.h"

enum { MAX_IN = 8, MAX_OUT = 6 };

/* ---- values ---- */

typedef struct domain {
    bool smooth;
    double lo, hi;
} domain;

#undef DOMAIN /* the math.h of macOS has one */
#define DOMAIN(name, low, high) static const domain domain_##name = {true, low, high};
#define NOWHERE(name) static const domain domain_##name = {false, 0, 0};
#include "grad/domain_list.h"

static const domain *domain_of(mc_op op) {
    static const domain *const table[MC_OP_COUNT] = {
#define OP(ENUM, name) [MC_OP_##ENUM] = &domain_##name,
#include "graph/op_list.h"
    };
    return table[op];
}

/* Value i of n of operand k: all values differ by more than they are moved, so that nothing that is
 * chosen changes. */
static float value_at(const domain *d, int64_t i, int64_t n, uint32_t k) {
    int64_t step = 7; /* to take them in another order */
    while (n % step == 0)
        step += 2;
    double at = ((double)((i * step + 3) % n) + 0.25 + 0.31 * (double)k) / (double)n;
    return (float)(d->lo + (d->hi - d->lo) * fmod(at, 1));
}

static float direction_at(int64_t i, uint32_t seed) {
    uint32_t x = (uint32_t)i * 2654435761u + seed * 40503u + 12345u;
    x ^= x >> 15;
    x *= 2246822519u;
    x ^= x >> 13;
    return (float)(x >> 8) * 0x1p-23f - 1;
}

static bool is_float(mica_array x) {
    return mica_valid(x) && mica_dtype_is_float(mica_array_dtype(x));
}

static mica_array directions(mica_scope *s, mica_array like, uint32_t seed) {
    int64_t n = mica_array_size(like);
    float *values = malloc((size_t)n * sizeof *values + 1);
    assert_non_null(values);
    for (int64_t i = 0; i < n; i++)
        values[i] = direction_at(i, seed);
    mica_array x =
        mica_from_data(s, values, MICA_F32, mica_array_shape(like), mica_array_ndim(like));
    free(values);
    return x;
}

/* ---- an op as a function of its operands ---- */

typedef struct subject {
    mc_op op;
    const void *attr;
    int n_in, n_out;
    mica_array in[MAX_IN]; /* evaluated; floats are f32 */
} subject;

static void record(const subject *f, mica_scope *s, const mica_array *in, mica_array *out) {
    mica_array made = mc_record(s, f->op, f->attr, in, f->n_in);
    if (!mica_valid(made)) fail_msg("%s: %s", mc_op_get(f->op)->name, mica_last_error());
    for (int k = 0; k < f->n_out; k++)
        out[k] = mc_node_of(made)->results ? mc_record_part(s, made, k) : made;
}

/* sum of v (y + y^2 / 2) over the float results, in f32: a scalar whose derivatives do not end with
 * the op's. */
static mica_array scalar_of(const subject *f, mica_scope *s, const mica_array *in) {
    mica_array out[MAX_OUT], sum = mica_f32(s, 0);
    record(f, s, in, out);
    for (int k = 0; k < f->n_out; k++) {
        if (!is_float(out[k])) continue;
        mica_array y = mica_astype(s, out[k], MICA_F32); /* -inf is where a scan begins */
        y = mica_where(s, mica_isfinite(s, y), y, mica_f32(s, 0));
        y = mica_add(s, y, mica_multiply(s, mica_square(s, y), mica_f32(s, 0.5f)));
        y = mica_multiply(s, y, directions(s, out[k], 90 + (uint32_t)k));
        sum = mica_add(s, sum, mica_sum(s, y, NULL, 0, false));
    }
    return sum;
}

/* The gradient of that by operand which. */
static mica_array gradient_of(const subject *f, mica_scope *s, const mica_array *in, int which) {
    mica_array dx = MICA_NONE;
    mica_array y = scalar_of(f, s, in);
    if (mica_grad(s, y, MICA_NONE, &in[which], 1, &dx) != MICA_OK)
        fail_msg("%s: %s", mc_op_get(f->op)->name, mica_last_error());
    return dx;
}

/* The sum of w times that: of order 1 the scalar itself. */
static mica_array function_of(const subject *f, mica_scope *s, const mica_array *in, int which,
                              int order) {
    if (order == 1) return scalar_of(f, s, in);
    mica_array dx = gradient_of(f, s, in, which);
    return mica_sum(s, mica_multiply(s, dx, directions(s, dx, 55)), NULL, 0, false);
}

static double dot(const float *a, const float *b, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

/* ---- central differences ---- */

/* The scalar where operand which is moved by h in a direction. */
static double moved(mica_device *device, const subject *f, int which, int order, uint32_t seed,
                    double h) {
    mica_scope *s;
    double y;
    mica_array in[MAX_IN];
    assert_int_equal(mica_scope_open(device, &s), MICA_OK);
    memcpy(in, f->in, sizeof in);
    in[which] = mica_add(s, f->in[which],
                         mica_multiply(s, directions(s, in[which], seed), mica_f32(s, (float)h)));
    if (mica_eval(s, in[which]) != MICA_OK) fail_msg("%s", mica_last_error());
    if (mica_item_f64(function_of(f, s, in, which, order), &y) != MICA_OK)
        fail_msg("%s: %s", mc_op_get(f->op)->name, mica_last_error());
    mica_scope_close(&s);
    return y;
}

static void check_differences(mica_device *device, const subject *f, int which, int order) {
    mica_scope *s;
    assert_int_equal(mica_scope_open(device, &s), MICA_OK);
    mica_array y = function_of(f, s, f->in, which, order), dx;
    assert_int_equal(mica_grad(s, y, MICA_NONE, &f->in[which], 1, &dx), MICA_OK);
    float *got = read_f32(dx);
    int64_t n = mica_array_size(dx);
    double size;
    if (mica_item_f64(y, &size) != MICA_OK) fail_msg("%s", mica_last_error());
    const domain *d = domain_of(f->op);
    /* no value meets another */
    const double h = fmax(0x1p-10, fmin(0x1p-8, (d->hi - d->lo) / (16 * (double)n)));
    for (uint32_t seed = 1; seed <= 2; seed++) {
        double wide =
            moved(device, f, which, order, seed, h) - moved(device, f, which, order, seed, -h);
        double near = moved(device, f, which, order, seed, h / 2) -
                      moved(device, f, which, order, seed, -h / 2);
        double want = (8 * near - wide) / (6 * h); /* without the error in h^2 */
        float *u = read_f32(directions(s, dx, seed));
        double is = dot(got, u, n), scale = sqrt(dot(got, got, n));
        if (!(fabs(is - want) <= 2e-3 * (1 + scale + fabs(size))))
            fail_msg("%s, operand %d (%d axes, %lld), order %d: %g, by central differences %g",
                     mc_op_get(f->op)->name, which, mica_array_ndim(dx), (long long)n, order, is,
                     want);
        free(u);
    }
    free(got);
    mica_scope_close(&s);
}

/* ---- tangents ---- */

static mica_status call(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                        mica_array *results, size_t n_results) {
    (void)n_args, (void)n_results;
    record(user, s, args, results);
    return MICA_OK;
}

static void add_dot(mica_array x, mica_array y, double *sum, double *size) {
    float *a = read_f32(x), *b = read_f32(y);
    for (int64_t i = 0; i < mica_array_size(x); i++) {
        *sum += (double)a[i] * (double)b[i];
        *size += fabs((double)a[i] * (double)b[i]);
    }
    free(a);
    free(b);
}

/* <v, J u> = <J^T v, u>, of all operands and results at once. */
static void check_tangents(mica_device *device, subject *f) {
    mica_scope *s;
    mica_array args[MAX_IN], du[MAX_IN], grads[MAX_IN], v[MAX_OUT], y[MAX_OUT], dy[MAX_OUT];
    subject packed = *f; /* without the absent operands, which are no arguments */
    assert_int_equal(mica_scope_open(device, &s), MICA_OK);
    for (int i = 0; i < f->n_in; i++)
        if (!f->in[i].scope) goto done; /* operands are arguments here: none may be absent */
    for (int i = 0; i < f->n_in; i++) {
        args[i] = f->in[i];
        du[i] = is_float(args[i]) ? directions(s, args[i], 20 + (uint32_t)i) : MICA_NONE;
    }
    size_t n_in = (size_t)f->n_in, n_out = (size_t)f->n_out;
    if (mica_jvp(s, call, &packed, args, n_in, du, y, n_out, dy) != MICA_OK)
        fail_msg("%s: %s", mc_op_get(f->op)->name, mica_last_error());
    for (size_t k = 0; k < n_out; k++)
        v[k] = is_float(y[k]) ? directions(s, y[k], 30 + (uint32_t)k) : MICA_NONE;
    if (mica_vjp(s, call, &packed, args, n_in, v, y, n_out, grads) != MICA_OK)
        fail_msg("%s: %s", mc_op_get(f->op)->name, mica_last_error());
    double forward = 0, back = 0, size = 0;
    for (size_t k = 0; k < n_out; k++)
        if (v[k].scope) add_dot(v[k], mica_astype(s, dy[k], MICA_F32), &forward, &size);
    for (size_t i = 0; i < n_in; i++)
        if (du[i].scope) add_dot(du[i], grads[i], &back, &size);
    double loose = f->op == MC_OP_ASTYPE ? 1e-2 : 2e-5;
    if (!(fabs(forward - back) <= loose * (1 + size)))
        fail_msg("%s: <v, Ju> %.9g, <J'v, u> %.9g", mc_op_get(f->op)->name, forward, back);
done:
    mica_scope_close(&s);
}

/* ---- other dtypes, other layouts, the decomposition ---- */

static void expect_close(const subject *f, const char *what, mica_scope *s, mica_array x,
                         mica_array want, double slack) {
    float *a = read_f32(mica_astype(s, x, MICA_F32)), *b = read_f32(mica_astype(s, want, MICA_F32));
    int64_t n = mica_array_size(want);
    double largest = 1e-3;
    assert_int_equal(mica_array_size(x), n);
    for (int64_t i = 0; i < n; i++)
        largest = fmax(largest, fabs((double)b[i]));
    for (int64_t i = 0; i < n; i++)
        if (!(fabs((double)a[i] - (double)b[i]) <= slack * largest))
            fail_msg("%s, %s: element %lld is %g, not %g", mc_op_get(f->op)->name, what,
                     (long long)i, (double)a[i], (double)b[i]);
    free(a);
    free(b);
}

static void check_halves(mica_device *device, const subject *f, int which) {
    static const mica_dtype halves[] = {MICA_F16, MICA_BF16};
    static const double slack[] = {8e-3, 6e-2};
    if (f->op == MC_OP_ROPE && which == 2) return; /* which are f32 */
    if (f->op == MC_OP_CUSTOM) return;             /* which takes no others */
    for (int d = 0; d < 2; d++) {
        mica_scope *s;
        mica_array in[MAX_IN], wide[MAX_IN];
        assert_int_equal(mica_scope_open(device, &s), MICA_OK);
        for (int i = 0; i < f->n_in; i++) {
            in[i] = wide[i] = f->in[i];
            if (!is_float(in[i]) || (f->op == MC_OP_ROPE && i == 2)) continue;
            in[i] = mica_detach(s, mica_astype(s, f->in[i], halves[d]));
            wide[i] = mica_detach(s, mica_astype(s, in[i], MICA_F32));
        }
        mica_array dx = gradient_of(f, s, in, which);
        assert_int_equal(mica_array_dtype(dx), halves[d]);
        expect_close(f, mica_dtype_name(halves[d]), s, dx, gradient_of(f, s, wide, which),
                     slack[d]);
        mica_scope_close(&s);
    }
}

/* x lying in another way, of the same values or fewer: 0 transposed, 1 reversed, 2 part of a wider
 * array, 3 repeated, 4 empty; MICA_NONE: it cannot. */
static mica_array lay(mica_scope *s, mica_array x, int way) {
    int ndim = mica_array_ndim(x);
    mica_array twice[] = {x, x};
    if (ndim == 0) return MICA_NONE;
    if (way == 0) {
        mica_array y = mica_detach(s, mica_contiguous(s, mica_transpose(s, x, NULL)));
        return mica_transpose(s, y, NULL);
    }
    if (way == 1) return mica_flip(s, mica_detach(s, mica_contiguous(s, mica_flip(s, x, -1))), -1);
    if (way == 2) {
        mica_array y = mica_detach(s, mica_concatenate(s, twice, 2, -1));
        return mica_slice_axis(s, y, -1, 0, mica_array_dim(x, -1));
    }
    if (way == 3) {
        mica_array y = mica_slice_axis(s, x, 0, 0, 1);
        return mica_broadcast_to(s, y, mica_array_shape(x), ndim);
    }
    return mica_slice_axis(s, x, 0, 0, 0);
}

/* The gradient by operand which, as it lies in that way, and as a dense copy of the same. */
static void check_layouts(mica_device *device, const subject *f, int which) {
    for (int way = 0; way < 5; way++) {
        mica_scope *s;
        mica_array in[MAX_IN], dense[MAX_IN];
        assert_int_equal(mica_scope_open(device, &s), MICA_OK);
        memcpy(in, f->in, sizeof in);
        in[which] = lay(s, f->in[which], way);
        memcpy(dense, in, sizeof in);
        bool possible = mica_valid(in[which]) && mica_eval(s, in[which]) == MICA_OK;
        if (possible) dense[which] = mica_detach(s, mica_contiguous(s, in[which]));
        mica_scope *trial;
        assert_int_equal(mica_scope_open(device, &trial), MICA_OK);
        possible = possible && mica_valid(mc_record(trial, f->op, f->attr, in, f->n_in));
        mica_scope_close(&trial);
        if (possible)
            expect_close(f, "in another layout", s, gradient_of(f, s, in, which),
                         gradient_of(f, s, dense, which), 2e-6);
        mica_scope_close(&s);
    }
}

/* The gradient by the op's rule, and by its decomposition. */
static void check_decomposition(mica_device *device, const subject *f, int which) {
    const mc_op_def *def = mc_op_get(f->op);
    mica_scope *s;
    mica_array out[2][MAX_OUT], dx[2];
    if (!def->decompose) return;
    assert_int_equal(mica_scope_open(device, &s), MICA_OK);
    mica_array in[MAX_IN];
    for (int i = 0; i < f->n_in; i++) /* decompositions take arrays of the scope */
        in[i] = f->in[i].scope ? mc_import(s, "test", f->in[i]) : MICA_NONE;
    record(f, s, in, out[0]);
    def->decompose(s, f->attr, in, f->n_in, out[1]);
    for (int k = 0; k < f->n_out; k++) {
        if (!is_float(out[0][k])) continue;
        mica_array dy = directions(s, out[0][k], 70);
        for (int i = 0; i < 2; i++)
            if (mica_grad(s, out[i][k], dy, &in[which], 1, &dx[i]) != MICA_OK)
                fail_msg("%s: %s", def->name, mica_last_error());
        expect_close(f, "by its decomposition", s, dx[0], dx[1], 2e-5);
    }
    mica_scope_close(&s);
}

/* ---- every op ---- */

/* Results in f16 and bf16 go by steps. */
static bool goes_by_steps(const subject *f) {
    return f->op == MC_OP_ASTYPE && ((const mc_attr_dtype *)f->attr)->dtype != MICA_F32;
}

/* A copy of the node for f32 operands with values where the op is smooth; false: it has none. */
static bool subject_of(mica_scope *s, const mica_scope *from, const mc_node *node, subject *f) {
    const domain *d = domain_of(node->op);
    bool has_floats = false;
    *f = (subject){.op = node->op, .attr = node->attr, .n_in = (int)node->n_in};
    f->n_out = mc_op_n_out(mc_op_get(node->op));
    assert_true(f->n_in <= MAX_IN && f->n_out <= MAX_OUT);
    for (uint32_t k = 0; k < node->n_in; k++) {
        if (node->in[k] == MC_ABSENT) continue;
        const mica_array x = {(mica_scope *)(uintptr_t)from, node->in[k]};
        if (mica_eval(x.scope, x) != MICA_OK) fail_msg("%s", mica_last_error());
        f->in[k] = x;
        if (!is_float(x)) continue;
        has_floats = true;
        int64_t n = mica_array_size(x);
        float *values = malloc((size_t)n * sizeof *values + 1);
        assert_non_null(values);
        for (int64_t i = 0; i < n; i++)
            values[i] = value_at(d, i, n, k);
        f->in[k] = mica_from_data(s, values, MICA_F32, mica_array_shape(x), mica_array_ndim(x));
        free(values);
    }
    return has_floats;
}

static void check_op(mica_device *device, subject *f) {
    for (int i = 0; i < f->n_in; i++) {
        if (!is_float(f->in[i])) continue;
        for (int order = 1; order <= 2 && !goes_by_steps(f); order++)
            check_differences(device, f, i, order);
        if (!mc_op_is_control(mc_op_get(f->op))) check_halves(device, f, i); /* holds dtypes */
        check_layouts(device, f, i);
        check_decomposition(device, f, i);
    }
    check_tangents(device, f);
}

static bool seen[MC_OP_COUNT];

static void check_nodes(mica_device *device, const mica_scope *from) {
    uint32_t count = mc_scope_count(from);
    for (uint32_t i = 0; i < count; i++) {
        const mc_node *node = mc_scope_node(from, i);
        mica_scope *s;
        subject f;
        if (node->op == MC_OP_LEAF || node->op == MC_OP_PART || !domain_of(node->op)->smooth)
            continue;
        assert_int_equal(mica_scope_open(device, &s), MICA_OK);
        if (subject_of(s, from, node, &f)) {
            check_op(device, &f);
            seen[node->op] = true;
        }
        mica_scope_close(&s);
    }
}

/* What tests/graph/graphs.c records over integers, and what attributes and shapes it lacks. */
static void record_more(mica_scope *s) {
    mica_array x = mica_zeros(s, SHAPE(3, 4), MICA_F32), y = mica_zeros(s, SHAPE(4), MICA_F32);
    mica_array m = mica_zeros(s, SHAPE(2, 3, 4), MICA_F32), none = mica_f32(s, 0);
    mica_array at = i32s(s, (const int32_t[]){1, -3, 1, 0}, SHAPE(4));
    mica_array along = i32s(s, (const int32_t[]){0, 2, 0, -1, 1, 1}, SHAPE(3, 2));
    mica_multiply(s, x, y);
    mica_subtract(s, none, x);
    mica_remainder(s, x, y);
    mica_power(s, x, y);
    mica_minimum(s, x, y);
    mica_broadcast_to(s, mica_reshape(s, y, SHAPE(4, 1)), SHAPE(2, 4, 3));
    mica_where(s, mica_greater(s, i32s(s, (const int32_t[]){1, 0, 1, 0}, SHAPE(4)), mica_i32(s, 0)),
               x, y);
    mica_prod(s, m, (const int[]){0, 2}, 2, false);
    mica_prod(s, x, NULL, 0, true);
    mica_max(s, m, (const int[]){1}, 1, true);
    mica_min(s, m, NULL, 0, false);
    mica_sum(s, m, (const int[]){2, 0}, 2, false);
    mica_logsumexp(s, m, (const int[]){0, 1}, 2, false);
    for (int reverse = 0; reverse < 2; reverse++)
        for (int inclusive = 0; inclusive < 2; inclusive++) {
            mica_cumsum(s, x, 1, reverse, inclusive);
            mica_cumprod(s, x, 1, reverse, inclusive);
            mica_cummax(s, x, 1, reverse, inclusive);
            mica_cummin(s, x, 1, reverse, inclusive);
            mica_logcumsumexp(s, x, 1, reverse, inclusive);
        }
    mica_topk(s, x, 3, -1);
    mica_sort(s, m, 1);
    mica_contiguous(s, mica_transpose(s, m, NULL));
    mica_as_strided(s, x, LIST(3, 3), LIST(2, 1), 2, 1);
    mica_take(s, m, at, 1);
    mica_take(s, x, mica_i32(s, 2), 0);
    mica_take_along_axis(s, x, along, 1);
    mica_put_along_axis(s, x, along, mica_zeros(s, SHAPE(3, 2), MICA_F32), 1);
    mica_array both[] = {at, mica_i32(s, 1)};
    mica_gather(s, m, both, 2, (const int[]){1, 0}, LIST(1, 1, 3));
    for (mica_scatter_mode mode = MICA_SCATTER_SET; mode <= MICA_SCATTER_MINIMUM; mode++)
        mica_scatter(s, m, both, 2, (const int[]){1, 0}, mica_zeros(s, SHAPE(4, 1, 1, 3), MICA_F32),
                     mode);
    mica_matmul(s, m, mica_zeros(s, SHAPE(4, 2), MICA_F32));
    mica_matmul(s, m, mica_zeros(s, SHAPE(5, 1, 4, 2), MICA_F32));
    mica_matmul(s, mica_zeros(s, SHAPE(1, 4), MICA_F32), mica_zeros(s, SHAPE(2, 4, 3), MICA_F32));
    mica_astype(s, x, MICA_F16);
    mica_layer_norm(s, x, y, y, 1e-5f);
    assert_int_equal(mica_scope_status(s), MICA_OK);
}

/* Attention with all that it may be given. */
static void record_attention(mica_scope *s) {
    mica_array q = mica_zeros(s, SHAPE(2, 4, 3, 4), MICA_F32);
    mica_array k = mica_zeros(s, SHAPE(2, 2, 5, 4), MICA_F32);
    mica_array v = mica_zeros(s, SHAPE(2, 2, 5, 6), MICA_F32);
    mica_sdpa_options o = {.mask = mica_zeros(s, SHAPE(4, 1, 5), MICA_F32),
                           .sinks = mica_zeros(s, SHAPE(4), MICA_F32)};
    mica_array lse, freqs = mica_zeros(s, SHAPE(2), MICA_F32);
    mica_sdpa(s, q, k, v, NULL);
    mica_sdpa_lse(s, q, k, v, &o, &lse);
    o = (mica_sdpa_options){.causal = true, .softcap = 2, .scale = 0.7f};
    mica_sdpa(s, q, k, v, &o);
    const int32_t starts[2] = {1, 4};
    o = (mica_sdpa_options){.causal = true, .window = 2, .offset = i32s(s, starts, SHAPE(2))};
    mica_sdpa(s, q, k, v, &o);
    mica_array pool = mica_zeros(s, SHAPE(2, 3, 4, 4), MICA_F32);
    const int32_t table[4] = {2, 0, 1, -1}, slots[10] = {3, 0, 11, 5, 4, 1, -2, 7, 8, 2};
    mica_array new_keys = mica_kv_write(s, pool, k, i32s(s, slots, SHAPE(2, 5)));
    o = (mica_sdpa_options){.causal = true, .offset = i32s(s, starts, SHAPE(2))};
    mica_paged_sdpa(s, q, new_keys, pool, i32s(s, table, SHAPE(2, 2)), &o);
    mica_rope(s, q, mica_i32(s, 2), freqs, NULL);
    mica_rope(s, q, i32s(s, starts, SHAPE(2)), MICA_NONE,
              &(mica_rope_options){.traditional = true});
    assert_int_equal(mica_scope_status(s), MICA_OK);
}

static mica_device *device;

static int open_device(void **state) {
    (void)state;
    return test_device_open(&(mica_device_options){.threads = 2}, &device) != MICA_OK;
}

static int close_device(void **state) {
    (void)state;
    int64_t left = (int64_t)mica_device_active_bytes(device);
    mica_device_close(&device);
    return left != 0;
}

static void test_graphs(void **state) {
    (void)state;
    for (size_t i = 0; i < test_graph_n_parts; i++) {
        test_graph g;
        test_graph_open(&g, device, &test_graph_parts[i]);
        check_nodes(device, g.s);
        test_graph_close(&g);
    }
}

static void test_more(void **state) {
    (void)state;
    mica_scope *s;
    assert_int_equal(mica_scope_open(device, &s), MICA_OK);
    record_more(s);
    record_attention(s);
    check_nodes(device, s);
    mica_scope_close(&s);
}

/* The rows of domain_list.h say what the rules say, and every op that has one was checked. */
static void test_all_ops(void **state) {
    (void)state;
    for (int op = 0; op < MC_OP_COUNT; op++) {
        const mc_op_gradient *g = mc_op_gradient_get((mc_op)op);
        const mc_op_def *def = mc_op_get((mc_op)op);
        bool has = g->kind == MC_GRADIENT_RULES || g->kind == MC_GRADIENT_DECOMPOSED;
        if (g->why) has = false; /* that of view: it has rules for complex numbers alone */
        if (has != domain_of((mc_op)op)->smooth) fail_msg("%s: domain_list.h", def->name);
        if (has && !seen[op]) fail_msg("%s was not checked", def->name);
        if (g->kind == MC_GRADIENT_RULES) assert_true((g->vjp && g->jvp) || def->decompose);
        if (g->kind == MC_GRADIENT_DECOMPOSED) assert_non_null(def->decompose);
        if (g->kind == MC_GRADIENT_NONE) assert_true(strlen(g->why) > 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_graphs),
        cmocka_unit_test(test_more),
        cmocka_unit_test(test_all_ops),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
