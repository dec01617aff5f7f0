/* Checks of the elem family: each step by itself against plain C and the bits of the reference, and
 * several in memory that they share. */
#include "cpu/kcheck.h"

enum { MAX_N = 300 };

static float add(float a, float b) {
    return a + b;
}
static float subtract(float a, float b) {
    return a - b;
}
static float multiply(float a, float b) {
    return a * b;
}
static float divide(float a, float b) {
    return a / b;
}
static float maximum(float a, float b) {
    return isnan(a) || a > b ? a : b;
}
static float minimum(float a, float b) {
    return isnan(a) || a < b ? a : b;
}

/* The step with an array, which those with a number and with itself follow, and where operands may
 * not change places, those from an array and from a number. */
static const struct binary_row {
    mk_step_op first;
    float (*of)(float a, float b);
    int forms;
} binary_rows[] = {
    {MK_STEP_add_array, add, 3},           {MK_STEP_subtract_array, subtract, 5},
    {MK_STEP_multiply_array, multiply, 3}, {MK_STEP_divide_array, divide, 5},
    {MK_STEP_maximum_array, maximum, 5},   {MK_STEP_minimum_array, minimum, 5},
};

static double want_negative(double x) {
    return -x;
}
static double want_square(double x) {
    return x * x;
}
static double want_reciprocal(double x) {
    return 1 / x;
}
static double want_rsqrt(double x) {
    return 1 / sqrt(x);
}
static double want_sigmoid(double x) {
    return 1 / (1 + exp(-x));
}
static double want_silu(double x) {
    return x / (1 + exp(-x));
}
static double want_gelu(double x) {
    return x * erfc(x * -0.70710678118654752440) * 0.5;
}
static double want_gelu_approx(double x) {
    return x / (1 + exp(-2 * 0.79788456080286535588 * (x + 0.044715 * x * x * x)));
}

static const struct unary_row {
    mk_step_op op;
    double (*of)(double x);
    double ulps;
} unary_rows[] = {
    {MK_STEP_abs, fabs, 0},
    {MK_STEP_negative, want_negative, 0},
    {MK_STEP_square, want_square, 1},
    {MK_STEP_reciprocal, want_reciprocal, 1},
    {MK_STEP_sqrt, sqrt, 1},
    {MK_STEP_rsqrt, want_rsqrt, 3},
    {MK_STEP_exp, exp, 4},
    {MK_STEP_log, log, 8},
    {MK_STEP_sigmoid, want_sigmoid, 8},
    {MK_STEP_tanh, tanh, 8},
    {MK_STEP_silu, want_silu, 16},
    {MK_STEP_erf, erf, 4},
    {MK_STEP_gelu, want_gelu, 8},
    {MK_STEP_gelu_approx, want_gelu_approx, 1000},
};

static void fill(guarded *g, int64_t n) {
    static const float special[] = {0.0f, -0.0f, 1e-30f, -90.0f, 90.0f, -INFINITY, INFINITY, NAN};
    float *x = g->data;
    for (int64_t i = 0; i < n; i++)
        x[i] = n > 8 && i % 11 < 8 && i > 20 ? special[i % 11] : random_float() * 4;
}

/* y = op(x, other) of n elements, but the first `begin`. */
static void run(const mk_kernels *kern, int64_t begin, int64_t n, mk_step_op op, const float *x,
                const float *other, float *y) {
    const mk_step steps[] = {
        {.op = MK_STEP_load, .x = x}, {.op = op, .x = other}, {.op = MK_STEP_store, .y = y}};
    kern->elem_steps(begin, n, steps, 3);
}

static void check_binary(check *c, const struct binary_row *row, int form, int64_t n,
                         int64_t begin) {
    mk_kernels ref = reference();
    mk_step_op op = (mk_step_op)((int)row->first + form);
    guarded x = floats(c, n), z = floats(c, n), y = floats(c, n);
    float *a = x.data, *b = z.data, *out = y.data, other[MAX_N];
    fill(&x, n), fill(&z, n);
    run(c->kern, begin, n, op, a, b, out);
    run(&ref, begin, n, op, a, b, other);
    same_bits(c, out + begin, other + begin, n - begin, "not the reference's bits");
    for (int64_t i = begin; i < n; i++) {
        float with = form == 1 || form == 4 ? b[0] : form == 2 ? a[i] : b[i];
        float want = form > 2 ? row->of(with, a[i]) : row->of(a[i], with);
        if (memcmp(&out[i], &want, sizeof want) != 0 && !(isnan(out[i]) && isnan(want)))
            fail_check(c, "not the bits of the op in C");
    }
    run(c->kern, begin, n, op, a, b, a);
    same_bits(c, a + begin, other + begin, n - begin, "differs in place");
    release(c, &x), release(c, &z), release(c, &y);
}

static void check_unary(check *c, const struct unary_row *row, int64_t n, int64_t begin) {
    mk_kernels ref = reference();
    guarded x = floats(c, n), y = floats(c, n);
    float *a = x.data, *out = y.data, other[MAX_N];
    fill(&x, n);
    run(c->kern, begin, n, row->op, a, NULL, out);
    run(&ref, begin, n, row->op, a, NULL, other);
    same_bits(c, out + begin, other + begin, n - begin, "not the reference's bits");
    for (int64_t i = begin; i < n; i++) {
        double want = row->of((double)a[i]);
        if (isnan(want) != isnan(out[i])) fail_check(c, "NaN");
        if (isfinite(want) && fabs(want) < 3e38)
            judge(c, (double)out[i], want, row->ulps * UNIT * fabs(want) + 1e-36);
    }
    release(c, &x), release(c, &y);
}

/* (3 - x) into y, then into x, which is read again, as one of both operands. */
static void check_shared_memory(check *c, int64_t n) {
    guarded x = floats(c, n), y = floats(c, n), three = floats(c, 1);
    float *a = x.data, *b = y.data, before[MAX_N];
    *(float *)three.data = 3;
    for (int64_t i = 0; i < n; i++)
        a[i] = before[i] = random_float();
    const mk_step steps[] = {{.op = MK_STEP_load_number, .x = three.data},
                             {.op = MK_STEP_subtract_array, .x = a},
                             {.op = MK_STEP_store, .y = b},
                             {.op = MK_STEP_multiply_itself},
                             {.op = MK_STEP_store, .y = a},
                             {.op = MK_STEP_load, .x = a},
                             {.op = MK_STEP_divide_from_array, .x = b},
                             {.op = MK_STEP_store, .y = a}};
    c->kern->elem_steps(0, n, steps, COUNT(steps));
    for (int64_t i = 0; i < n; i++) {
        float left = 3 - before[i], want = left / (left * left);
        if (memcmp(&b[i], &left, sizeof left) != 0 || memcmp(&a[i], &want, sizeof want) != 0)
            fail_check(c, "what an earlier step stored is not read");
    }
    release(c, &x), release(c, &y), release(c, &three);
}

/* An array of rows that are there again and again, beside one with all elements. */
static void check_rows(check *c, int64_t n, int64_t begin) {
    static const int64_t forms[][2] = {{1, 1},   {1, 7},   {1, 130},   {3, 3},     {16, 64},
                                       {24, 48}, {96, 96}, {128, 128}, {130, 260}, {MAX_N, MAX_N}};
    for (int f = 0; f < COUNT(forms); f++) {
        const int64_t row = forms[f][0], every = forms[f][1];
        int64_t count = (n + every - 1) / every * row;
        guarded x = floats(c, n), z = floats(c, count), y = floats(c, n);
        float *a = x.data, *b = z.data, *out = y.data;
        for (int64_t i = 0; i < n; i++)
            a[i] = random_float();
        for (int64_t i = 0; i < count; i++)
            b[i] = random_float();
        const mk_step steps[] = {
            {.op = MK_STEP_load, .x = b, .row = row, .every = every},
            {.op = MK_STEP_subtract_array, .x = a},
            {.op = MK_STEP_divide_from_array, .x = b, .row = row, .every = every},
            {.op = MK_STEP_store, .y = out}};
        c->kern->elem_steps(begin, n, steps, COUNT(steps));
        for (int64_t i = begin; i < n; i++) {
            float v = b[i / every * row + i % row], want = v / (v - a[i]);
            if (memcmp(&out[i], &want, sizeof want) != 0 && !(isnan(want) && isnan(out[i])))
                fail_check(c, "not the element of a row that repeats");
        }
        release(c, &x), release(c, &z), release(c, &y);
    }
}

/* ---- integers ---- */

static void fill_bytes(void *data, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        ((uint8_t *)data)[i] = (uint8_t)(random_bits() >> 8);
}

static void check_loads(check *c, int64_t n, int64_t begin) {
    guarded x = guarded_new((size_t)n * sizeof(int32_t), c->where), y = floats(c, n);
    const float *out = y.data;
    fill_bytes(x.data, n * 4);
    for (int k = 0; k < 3; k++) {
        const mk_step steps[] = {{.op = (mk_step_op)(MK_STEP_load_u8 + k), .x = x.data},
                                 {.op = MK_STEP_store, .y = y.data}};
        c->kern->elem_steps(begin, n, steps, 2);
        for (int64_t i = begin; i < n; i++) {
            float want = k == 0   ? (float)((uint8_t *)x.data)[i]
                         : k == 1 ? (float)((int8_t *)x.data)[i]
                                  : (float)((int32_t *)x.data)[i];
            same_bits(c, &out[i], &want, 1, "not the integer");
        }
    }
    release(c, &x), release(c, &y);
}

/* Elements from the middle of two integers on, and far beyond. */
static void fill_near(float *x, int64_t n, float scale) {
    static const float special[] = {NAN, INFINITY, -INFINITY, -0.0f, 1e30f, -1e30f, 3e9f, -3e9f};
    for (int64_t i = 0; i < n; i++) {
        float at = (float)((int)(random_bits() >> 40) % 600 - 300);
        float by = i % 4 == 0 ? 0.5f : i % 4 == 1 ? 0.49999f : i % 4 == 2 ? 0.50001f : 0.3f;
        x[i] = i % 23 == 7 ? special[i / 23 % COUNT(special)] : (at + by) * scale;
    }
}

static int32_t saturated(float v, bool is_signed) {
    const float lo = is_signed ? -128 : 0, hi = is_signed ? 127 : 255;
    return isnan(v) ? 0 : (int32_t)fminf(fmaxf(truncf(v), lo), hi);
}

/* Bytes in memory, and as what goes on. scale NULL: they are not divided. */
static void check_bytes(check *c, int64_t n, int64_t begin, bool rounds, bool is_signed,
                        const float *scale, const float *zero) {
    guarded x = floats(c, n), y = guarded_new((size_t)n, c->where), z = floats(c, n);
    float *in = x.data;
    fill_near(in, n, scale && fabsf(*scale) < 1e20f && *scale > 1e-20f ? *scale : 1);
    mk_step_op op = rounds ? MK_STEP_round_u8 : MK_STEP_store_u8;
    const mk_step steps[] = {{.op = MK_STEP_load, .x = in},
                             {.op = (mk_step_op)(op + is_signed),
                              .x = rounds ? scale : NULL,
                              .zero = rounds ? zero : NULL,
                              .y = y.data},
                             {.op = MK_STEP_store, .y = z.data}};
    c->kern->elem_steps(begin, n, steps, 3);
    for (int64_t i = begin; i < n; i++) {
        float v = in[i];
        if (rounds) v = rintf(scale ? v / *scale : v) + (zero ? *zero : 0);
        int32_t want = saturated(v, is_signed);
        int32_t got = is_signed ? ((int8_t *)y.data)[i] : ((uint8_t *)y.data)[i];
        if (got != want) fail_check(c, "another byte");
        float whole = (float)want;
        same_bits(c, (float *)z.data + i, &whole, 1, "what goes on is not the byte");
    }
    const mk_step alone[] = {
        steps[0], {.op = steps[1].op, .x = steps[1].x, .zero = steps[1].zero}, steps[2]};
    c->kern->elem_steps(begin, n, alone, 3);
    release(c, &x), release(c, &y), release(c, &z);
}

static void check_integers(check *c, int64_t n, int64_t begin) {
    static const float scales[] = {1,    0.0173f, 3,        1e-25f, 0x1p-140f, 1e38f,
                                   0.5f, -0.7f,   INFINITY, 0,      NAN};
    static const float zeros[] = {0, 128, -128, 255, 0.5f, 1000, NAN, 7};
    check_loads(c, n, begin);
    for (int k = 0; k < 2; k++) {
        check_bytes(c, n, begin, false, k, NULL, NULL);
        check_bytes(c, n, begin, true, k, NULL, NULL);
        for (int i = 0; i < COUNT(scales); i++)
            check_bytes(c, n, begin, true, k, &scales[i], &zeros[(i + k + n) % COUNT(zeros)]);
    }
}

static void check_elem_table(check *c) {
    uint8_t table[256];
    fill_bytes(table, 256);
    for (int64_t n = 1; n < 300; n += n < 130 ? 1 : 13) {
        guarded x = guarded_new((size_t)n, c->where), y = guarded_new((size_t)n, c->where);
        fill_bytes(x.data, n);
        c->kern->elem_table(n, x.data, table, y.data);
        for (int64_t i = 0; i < n; i++, c->cases++)
            if (((uint8_t *)y.data)[i] != table[((uint8_t *)x.data)[i]])
                fail_check(c, "another byte");
        release(c, &x), release(c, &y);
    }
}

static void check_elem_steps(check *c) {
    static const int64_t sizes[] = {1,  7,  16,  31,  32,  33,  63,  64,
                                    65, 96, 127, 128, 129, 200, 257, MAX_N};
    for (int i = 0; i < COUNT(sizes); i++)
        for (int64_t begin = 0; begin < sizes[i]; begin += begin ? sizes[i] : 5) {
            for (int k = 0; k < COUNT(binary_rows); k++)
                for (int form = 0; form < binary_rows[k].forms; form++)
                    check_binary(c, &binary_rows[k], form, sizes[i], begin);
            for (int k = 0; k < COUNT(unary_rows); k++)
                check_unary(c, &unary_rows[k], sizes[i], begin);
            check_shared_memory(c, sizes[i]);
            check_rows(c, sizes[i], begin);
            check_integers(c, sizes[i], begin);
        }
}

static const kcheck_row rows[] = {
#define KERN(name, result, args) {#name, check_##name},
#include "cpu/kern/elem/elem_list.h"
#undef KERN
};

static bool same(const mk_kernels *a, const mk_kernels *b) {
    return a->elem_steps == b->elem_steps && a->elem_table == b->elem_table;
}

const kcheck_family kcheck_elem = {rows, COUNT(rows), same};
