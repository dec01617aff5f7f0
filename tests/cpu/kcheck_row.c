/* Checks of the row family. */
#include "cpu/kcheck.h"

/* Checks an f32 function: within `ulps` of `want`, with the bits of the reference, in place too. */
static void check_function(check *c, void (*run)(int64_t, const float *, float *),
                           void (*ref)(int64_t, const float *, float *), double (*want)(double),
                           double ulps) {
    static const float special[] = {0.0f, -0.0f, 1e-30f, -90.0f, 90.0f, -INFINITY, INFINITY, NAN};
    for (int64_t n = 1; n < 70; n++) {
        guarded x = floats(c, n), y = floats(c, n);
        float *in = x.data, *out = y.data, other[70];
        for (int64_t i = 0; i < n; i++)
            in[i] = n > 8 && i < 8 ? special[i] : random_float() * (float)(1 << n % 8);
        run(n, in, out);
        ref(n, in, other);
        same_bits(c, out, other, n, "not the reference's bits");
        for (int64_t i = 0; i < n; i++) {
            double v = want((double)in[i]);
            if (isfinite(v)) judge(c, (double)out[i], v, ulps * UNIT * fabs(v) + 1e-36);
        }
        run(n, in, in);
        same_bits(c, in, other, n, "differs in place");
        release(c, &x), release(c, &y);
    }
}

static double want_silu(double x) {
    return x / (1 + exp(-x));
}

static double want_gelu_approx(double x) {
    return x / (1 + exp(-2 * 0.79788456080286535588 * (x + 0.044715 * x * x * x)));
}

static void check_silu(check *c) {
    mk_kernels ref = reference();
    check_function(c, c->kern->silu, ref.silu, want_silu, 16);
}

/* The argument of its exponential grows with x, and the error with it. */
static void check_gelu_approx(check *c) {
    mk_kernels ref = reference();
    check_function(c, c->kern->gelu_approx, ref.gelu_approx, want_gelu_approx, 1000);
}

static void check_tanh(check *c) {
    mk_kernels ref = reference();
    check_function(c, c->kern->tanh, ref.tanh, tanh, 8);
}

static void check_rms_norm(check *c) {
    mk_kernels ref = reference();
    for (int64_t n = 1; n < 150; n += n < 40 ? 1 : 13) {
        guarded x = floats(c, n), w = floats(c, n), y = floats(c, n);
        float *in = x.data, *weight = w.data, other[150];
        fill_floats(in, n, PLAIN);
        fill_floats(weight, n, PLAIN);
        double squares = 0;
        for (int64_t i = 0; i < n; i++)
            squares += (double)in[i] * (double)in[i];
        double factor = 1 / sqrt(squares / (double)n + 1e-6);
        for (int pass = 0; pass < 2; pass++) {
            c->kern->rms_norm(n, in, pass == 0 ? NULL : weight, 1e-6, y.data);
            ref.rms_norm(n, in, pass == 0 ? NULL : weight, 1e-6, other);
            same_bits(c, y.data, other, n, "not the reference's bits");
            for (int64_t i = 0; i < n; i++) {
                double want = (double)in[i] * factor * (pass == 0 ? 1 : (double)weight[i]);
                judge(c, (double)((float *)y.data)[i], want, 8 * UNIT * fabs(want));
            }
        }
        c->kern->rms_norm(n, in, weight, 1e-6, in);
        same_bits(c, in, other, n, "differs in place");
        release(c, &x), release(c, &w), release(c, &y);
    }
}

static void check_norm_gradient(check *c) {
    mk_kernels ref = reference();
    for (int64_t n = 1; n < 150; n += n < 40 ? 1 : 13) {
        guarded x = floats(c, n), dy = floats(c, n), y = floats(c, n);
        float *in = x.data, *g = dy.data, other[150];
        fill_floats(in, n, PLAIN);
        fill_floats(g, n, PLAIN);
        double squares = 0, products = 0;
        for (int64_t i = 0; i < n; i++) {
            squares += (double)in[i] * (double)in[i];
            products += (double)in[i] * (double)g[i];
        }
        double factor = 1 / sqrt(squares / (double)n + 1e-6);
        double along = factor * factor * products / (double)n;
        c->kern->norm_gradient(n, in, g, 1e-6, y.data);
        ref.norm_gradient(n, in, g, 1e-6, other);
        same_bits(c, y.data, other, n, "not the reference's bits");
        for (int64_t i = 0; i < n; i++) {
            double less = (double)in[i] * along, most = fabs((double)g[i]) + fabs(less);
            judge(c, (double)((float *)y.data)[i], factor * ((double)g[i] - less),
                  8 * UNIT * factor * most);
        }
        c->kern->norm_gradient(n, in, g, 1e-6, g);
        same_bits(c, g, other, n, "differs in place of g");
        release(c, &x), release(c, &dy), release(c, &y);
    }
}

static void check_rope(check *c) {
    mk_kernels ref = reference();
    for (int64_t half = 1; half < 70; half++) {
        guarded t = floats(c, 2 * half), x = floats(c, 2 * half), y = floats(c, 2 * half);
        float *table = t.data, *in = x.data, other[140];
        fill_floats(table, 2 * half, PLAIN);
        fill_floats(in, 2 * half, PLAIN);
        c->kern->rope(half, table, in, y.data);
        ref.rope(half, table, in, other);
        same_bits(c, y.data, other, 2 * half, "not the reference's bits");
        for (int64_t i = 0; i < half; i++) {
            double a = (double)in[i] * (double)table[i], b = (double)in[half + i];
            double s = b * (double)table[half + i];
            judge(c, (double)((float *)y.data)[i], a - s, 2 * UNIT * (fabs(a) + fabs(s)));
            a = (double)in[i] * (double)table[half + i], s = b * (double)table[i];
            judge(c, (double)((float *)y.data)[half + i], a + s, 2 * UNIT * (fabs(a) + fabs(s)));
        }
        release(c, &t), release(c, &x), release(c, &y);
    }
}

/* Numbers, infinities, and a NaN at every index. */
static void check_largest(check *c) {
    for (int64_t n = 0; n < 150; n += n < 70 ? 1 : 13) {
        guarded x = floats(c, n);
        float *in = x.data, want = -INFINITY;
        fill_floats(in, n, PLAIN);
        if (n > 9) in[n - 9] = -INFINITY;
        for (int64_t i = 0; i < n; i++)
            want = in[i] > want ? in[i] : want;
        float got = c->kern->largest(n, in);
        same_bits(c, &got, &want, 1, "not the largest");
        for (int64_t i = 0; i < n; i++) {
            float was = in[i];
            in[i] = NAN;
            if (!isnan(c->kern->largest(n, in))) fail_check(c, "NaN is lost");
            in[i] = INFINITY;
            want = c->kern->largest(n, in);
            if (!(want == INFINITY)) fail_check(c, "infinity is lost");
            in[i] = was;
        }
        release(c, &x);
    }
}

/* Checks the group of element l: no element is off by more than half a step, the largest / 127. */
static void judge_q8(check *c, const float *x, const uint8_t *row, int64_t n, int64_t l) {
    double max = 0;
    bool whole = true;
    for (int64_t i = l / MK_Q8_GROUP * MK_Q8_GROUP; i < n && i / MK_Q8_GROUP == l / MK_Q8_GROUP;
         i++) {
        whole = whole && isfinite(x[i]);
        if (fabs((double)x[i]) > max) max = fabs((double)x[i]);
    }
    if (!whole && !isnan(q8_value(row, n, l))) fail_check(c, "a group with NaN is not NaN");
    if (whole) judge(c, q8_value(row, n, l), (double)x[l], max / 254 * (1 + 0x1p-7) + 1e-34);
}

static void check_narrow_q8(check *c) {
    mk_kernels ref = reference();
    for (int64_t n = 1; n < 300; n += n < 70 ? 1 : 23) {
        int64_t bytes = mk_q8_bytes(n);
        guarded x = floats(c, n), row = guarded_new((size_t)bytes, c->where);
        uint8_t other[400];
        float *in = x.data;
        fill_floats(in, n, (kind)(n % KINDS));
        if (n % 5 == 0) in[n / 2] = n % 2 ? NAN : -INFINITY;
        c->kern->narrow_q8(n, in, row.data);
        ref.narrow_q8(n, in, other);
        c->cases++;
        if (memcmp(row.data, other, (size_t)bytes) != 0) fail_check(c, "not the reference's bits");
        for (int64_t l = 0; l < n; l++)
            judge_q8(c, in, row.data, n, l);
        for (int64_t i = n; i < mk_q8_scales(n); i++)
            if (((uint8_t *)row.data)[i] != 0) fail_check(c, "does not fill with zeros");
        release(c, &x), release(c, &row);
    }
}

static void check_widen_q8(check *c) {
    for (int64_t n = 1; n < 300; n += n < 70 ? 1 : 23) {
        int64_t scales = (n + MK_Q8_GROUP - 1) / MK_Q8_GROUP;
        guarded row = guarded_new((size_t)n, c->where), y = floats(c, n);
        guarded scale = guarded_new((size_t)scales * sizeof(uint16_t), c->where);
        uint8_t whole[400] = {0};
        float *got = y.data;
        for (int64_t i = 0; i < n; i++)
            ((uint8_t *)row.data)[i] = whole[i] = (uint8_t)random_bits();
        fill_halves(scale.data, scales, MK_BF16);
        memcpy(whole + mk_q8_scales(n), scale.data, (size_t)scales * sizeof(uint16_t));
        c->kern->widen_q8(n, row.data, scale.data, got);
        for (int64_t l = 0; l < n; l++) {
            c->cases++;
            if ((double)got[l] != q8_value(whole, n, l)) fail_check(c, "is not exact");
        }
        release(c, &row), release(c, &scale), release(c, &y);
    }
}

static const kcheck_row rows[] = {
#define KERN(name, result, args) {#name, check_##name},
#include "cpu/kern/row/row_list.h"
#undef KERN
};

static bool same(const mk_kernels *a, const mk_kernels *b) {
    bool same = true;
#define KERN(name, result, args) same = same && a->name == b->name;
#include "cpu/kern/row/row_list.h"
#undef KERN
    return same;
}

const kcheck_family kcheck_row_ops = {rows, COUNT(rows), same};
