/* Checks of the scan family: against recurrences in f64, and the bits of the reference. */
#include "cpu/kcheck.h"

enum { STEPS = 3, MAX_N = 20, LANES = MK_LANES };

static double exp_of(float a, float b) {
    return exp((double)(a * b));
}

static void fill(guarded *g, float scale) {
    float *x = g->data;
    for (size_t i = 0; i < g->bytes / sizeof *x; i++)
        x[i] = scale * random_float();
}

static guarded filled(const check *c, int64_t n, float scale) {
    guarded g = floats(c, n);
    fill(&g, scale);
    return g;
}

/* The states after each step and their results, in f64. */
static void judge_scan(check *c, int64_t n, const float *x, const float *delta, const float *a,
                       const float *b, const float *v, const float *first, const float *state,
                       const float *y) {
    double h[MAX_N][LANES];
    for (int64_t i = 0; i < n; i++)
        for (int lane = 0; lane < LANES; lane++)
            h[i][lane] = (double)first[i * LANES + lane];
    for (int64_t t = 0; t < STEPS; t++)
        for (int lane = 0; lane < LANES; lane++) {
            double sum = 0, size = 0;
            for (int64_t i = 0; i < n; i++) {
                double d = (double)delta[t * LANES + lane];
                h[i][lane] = exp_of(delta[t * LANES + lane], a[i * LANES + lane]) * h[i][lane] +
                             d * (double)x[t * LANES + lane] * (double)b[t * n + i];
                sum += (double)v[t * n + i] * h[i][lane];
                size += fabs((double)v[t * n + i]) * (fabs(h[i][lane]) + 1);
            }
            judge(c, (double)y[t * LANES + lane], sum, 40 * UNIT * size);
        }
    for (int64_t i = 0; i < n; i++)
        for (int lane = 0; lane < LANES; lane++)
            judge(c, (double)state[i * LANES + lane], h[i][lane],
                  40 * UNIT * (fabs(h[i][lane]) + 1));
}

static void check_selective_scan(check *c) {
    mk_kernels ref = reference();
    for (int64_t n = 1; n <= MAX_N; n++) {
        guarded x = filled(c, STEPS * LANES, 1), delta = filled(c, STEPS * LANES, 1);
        guarded a = filled(c, n * LANES, 1), b = filled(c, STEPS * n, 1);
        guarded v = filled(c, STEPS * n, 1), state = filled(c, n * LANES, 1);
        guarded y = floats(c, STEPS * LANES);
        float first[MAX_N * LANES], other[MAX_N * LANES], z[STEPS * LANES];
        memcpy(first, state.data, state.bytes);
        memcpy(other, state.data, state.bytes);
        c->kern->selective_scan(STEPS, n, x.data, delta.data, a.data, b.data, v.data, state.data,
                                y.data);
        ref.selective_scan(1, n, x.data, delta.data, a.data, b.data, v.data, other, z);
        ref.selective_scan(STEPS - 1, n, (float *)x.data + LANES, (float *)delta.data + LANES,
                           a.data, (float *)b.data + n, (float *)v.data + n, other, z + LANES);
        same_bits(c, y.data, z, STEPS * LANES, "not the reference's bits");
        same_bits(c, state.data, other, n * LANES, "not the reference's state");
        judge_scan(c, n, x.data, delta.data, a.data, b.data, v.data, first, state.data, y.data);
        release(c, &x), release(c, &delta), release(c, &a), release(c, &b), release(c, &v);
        release(c, &state), release(c, &y);
    }
}

/* Operands of selective_back, and what it writes. */
typedef struct step {
    guarded x, delta, dy, a, b, v, before, after, carry, dx, ddelta, da, db, dc;
} step;

/* The sums of one lane and of one row of the state, in f64, where da, db and dc began with 0. */
static void judge_back(check *c, const step *s, const float *carry, int64_t n) {
    const float *x = s->x.data, *delta = s->delta.data, *dy = s->dy.data, *a = s->a.data;
    const float *b = s->b.data, *v = s->v.data, *before = s->before.data;
    for (int lane = 0; lane < LANES; lane++) {
        double gb = 0, rise = 0, d = (double)delta[lane];
        for (int64_t i = 0; i < n; i++) {
            int64_t at = i * LANES + lane;
            double w = exp_of(delta[lane], a[at]);
            double g = (double)dy[lane] * (double)v[i] + (double)carry[at];
            gb += g * (double)b[i];
            rise += g * w * (double)before[at] * (double)a[at];
            judge(c, (double)((float *)s->carry.data)[at], g * w, 40 * UNIT * (fabs(g * w) + 3));
            judge(c, (double)((float *)s->da.data)[at], g * w * (double)before[at] * d,
                  40 * UNIT * 9);
        }
        judge(c, (double)((float *)s->dx.data)[lane], gb * d, 40 * UNIT * 2 * (double)n);
        judge(c, (double)((float *)s->ddelta.data)[lane], rise + gb * (double)x[lane],
              40 * UNIT * 8 * (double)n);
    }
    for (int64_t i = 0; i < n; i++) {
        double db = 0, dc = 0;
        for (int lane = 0; lane < LANES; lane++) {
            int64_t at = i * LANES + lane;
            double g = (double)dy[lane] * (double)v[i] + (double)carry[at];
            db += g * (double)delta[lane] * (double)x[lane];
            dc += (double)dy[lane] * (double)((float *)s->after.data)[at];
        }
        judge(c, (double)((float *)s->db.data)[i], db, 40 * UNIT * LANES);
        judge(c, (double)((float *)s->dc.data)[i], dc, 40 * UNIT * LANES);
    }
}

static void check_selective_back(check *c) {
    mk_kernels ref = reference();
    for (int64_t n = 1; n <= MAX_N; n++) {
        int64_t state = n * LANES;
        step s = {filled(c, LANES, 1), filled(c, LANES, 1), filled(c, LANES, 1),
                  filled(c, state, 1), filled(c, n, 1),     filled(c, n, 1),
                  filled(c, state, 1), filled(c, state, 1), filled(c, state, 1),
                  floats(c, LANES),    floats(c, LANES),    filled(c, state, 0),
                  filled(c, n, 0),     filled(c, n, 0)};
        float carry[MAX_N * LANES], other[MAX_N * LANES], da[MAX_N * LANES] = {0};
        float dx[LANES], ddelta[LANES], db[MAX_N] = {0}, dc[MAX_N] = {0};
        memcpy(carry, s.carry.data, s.carry.bytes);
        memcpy(other, s.carry.data, s.carry.bytes);
        c->kern->selective_back(n, s.x.data, s.delta.data, s.dy.data, s.a.data, s.b.data, s.v.data,
                                s.before.data, s.after.data, s.carry.data, s.dx.data, s.ddelta.data,
                                s.da.data, s.db.data, s.dc.data);
        ref.selective_back(n, s.x.data, s.delta.data, s.dy.data, s.a.data, s.b.data, s.v.data,
                           s.before.data, s.after.data, other, dx, ddelta, da, db, dc);
        same_bits(c, s.carry.data, other, state, "not the reference's carry");
        same_bits(c, s.dx.data, dx, LANES, "not the reference's dx");
        same_bits(c, s.ddelta.data, ddelta, LANES, "not the reference's ddelta");
        same_bits(c, s.da.data, da, state, "not the reference's da");
        same_bits(c, s.db.data, db, n, "not the reference's db");
        same_bits(c, s.dc.data, dc, n, "not the reference's dc");
        judge_back(c, &s, carry, n);
        guarded *all[] = {&s.x,     &s.delta, &s.dy, &s.a,      &s.b,  &s.v,  &s.before,
                          &s.after, &s.carry, &s.dx, &s.ddelta, &s.da, &s.db, &s.dc};
        for (int i = 0; i < COUNT(all); i++)
            release(c, all[i]);
    }
}

static void judge_delta(check *c, int64_t n, const float *q, const float *k, const float *v,
                        const float *decay, const float *beta, float scale, const float *first,
                        const float *o) {
    double h[MAX_N][LANES];
    for (int64_t i = 0; i < n; i++)
        for (int lane = 0; lane < LANES; lane++)
            h[i][lane] = (double)first[i * LANES + lane];
    for (int64_t t = 0; t < STEPS; t++)
        for (int lane = 0; lane < LANES; lane++) {
            double known = 0, sum = 0;
            for (int64_t i = 0; i < n; i++) {
                h[i][lane] *= (double)decay[t];
                known += (double)k[t * n + i] * h[i][lane];
            }
            double d = (double)beta[t] * ((double)v[t * LANES + lane] - known);
            for (int64_t i = 0; i < n; i++) {
                h[i][lane] += (double)k[t * n + i] * d;
                sum += (double)q[t * n + i] * h[i][lane];
            }
            double size = 8 * (double)(n + 4);
            judge(c, (double)o[t * LANES + lane], (double)scale * sum, UNIT * size);
        }
}

static void check_delta_scan(check *c) {
    mk_kernels ref = reference();
    for (int64_t n = 1; n <= MAX_N; n++) {
        guarded q = filled(c, STEPS * n, 1), k = filled(c, STEPS * n, 0.3f);
        guarded v = filled(c, STEPS * LANES, 1), decay = filled(c, STEPS, 1);
        guarded beta = filled(c, STEPS, 1), state = filled(c, n * LANES, 1);
        guarded o = floats(c, STEPS * LANES);
        float first[MAX_N * LANES], other[MAX_N * LANES], z[STEPS * LANES];
        memcpy(first, state.data, state.bytes);
        memcpy(other, state.data, state.bytes);
        c->kern->delta_scan(STEPS, n, q.data, k.data, v.data, decay.data, beta.data, 0.5f,
                            state.data, o.data);
        ref.delta_scan(STEPS, n, q.data, k.data, v.data, decay.data, beta.data, 0.5f, other, z);
        same_bits(c, o.data, z, STEPS * LANES, "not the reference's bits");
        same_bits(c, state.data, other, n * LANES, "not the reference's state");
        judge_delta(c, n, q.data, k.data, v.data, decay.data, beta.data, 0.5f, first, o.data);
        release(c, &q), release(c, &k), release(c, &v), release(c, &decay), release(c, &beta);
        release(c, &state), release(c, &o);
    }
}

static void judge_linear(check *c, int64_t n, const float *q, const float *k, const float *v,
                         const float *decay, const float *state, const float *o) {
    for (int64_t lane = 0; lane < LANES; lane++) {
        double h[MAX_N];
        for (int64_t i = 0; i < n; i++)
            h[i] = (double)state[i * LANES + lane];
        for (int64_t t = 0; t < STEPS; t++) {
            double sum = 0;
            for (int64_t i = 0; i < n; i++) {
                h[i] = h[i] * (double)decay[t] + (double)k[t * n + i] * (double)v[t * LANES + lane];
                sum += (double)q[t * n + i] * h[i];
            }
            judge(c, (double)o[t * LANES + lane], sum, UNIT * 8 * (double)(n + 4));
        }
    }
}

static void check_linear_scan(check *c) {
    mk_kernels ref = reference();
    for (int64_t n = 1; n <= MAX_N; n++) {
        guarded q = filled(c, STEPS * n, 1), k = filled(c, STEPS * n, 0.3f);
        guarded v = filled(c, STEPS * LANES, 1), decay = filled(c, STEPS, 1);
        guarded state = filled(c, n * LANES, 1), o = floats(c, STEPS * LANES);
        float first[MAX_N * LANES], other[MAX_N * LANES], z[STEPS * LANES];
        memcpy(first, state.data, state.bytes);
        memcpy(other, state.data, state.bytes);
        c->kern->linear_scan(STEPS, n, q.data, k.data, v.data, decay.data, state.data, o.data);
        ref.linear_scan(STEPS, n, q.data, k.data, v.data, decay.data, other, z);
        same_bits(c, o.data, z, STEPS * LANES, "not the reference's bits");
        same_bits(c, state.data, other, n * LANES, "not the reference's state");
        judge_linear(c, n, q.data, k.data, v.data, decay.data, first, o.data);
        release(c, &q), release(c, &k), release(c, &v), release(c, &decay);
        release(c, &state), release(c, &o);
    }
}

static const kcheck_row rows[] = {
#define KERN(name, result, args) {#name, check_##name},
#include "cpu/kern/scan/scan_list.h"
#undef KERN
};

static bool same(const mk_kernels *a, const mk_kernels *b) {
    bool same = true;
#define KERN(name, result, args) same = same && a->name == b->name;
#include "cpu/kern/scan/scan_list.h"
#undef KERN
    return same;
}

const kcheck_family kcheck_scan = {rows, COUNT(rows), same};
