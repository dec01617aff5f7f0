/* The scan family in plain C: a template, compiled as FILL for each instruction set. The compiler
 * may not contract or reorder sums and products, so all of them give the same bits. */
#include "cpu/kern/scan/scan.h"
#include "cpu/kern/vmath.h"

#define EACH_LANE for (int lane = 0; lane < MK_LANES; lane++)

static void selective_scan(int64_t length, int64_t n, const float *restrict x,
                           const float *restrict delta, const float *restrict a,
                           const float *restrict b, const float *restrict c, float *restrict state,
                           float *restrict y) {
    for (int64_t t = 0; t < length; t++) {
        float dx[MK_LANES], d[MK_LANES], sum[MK_LANES];
        EACH_LANE {
            d[lane] = delta[lane];
            dx[lane] = delta[lane] * x[lane];
            sum[lane] = 0;
        }
        for (int64_t i = 0; i < n; i++) {
            const float *ai = a + i * MK_LANES;
            float *h = state + i * MK_LANES, bi = b[i], ci = c[i];
            EACH_LANE {
                float next = mk_expf(d[lane] * ai[lane]) * h[lane] + dx[lane] * bi;
                h[lane] = next;
                sum[lane] += ci * next;
            }
        }
        EACH_LANE y[lane] = sum[lane];
        x += MK_LANES, delta += MK_LANES, y += MK_LANES, b += n, c += n;
    }
}

/* The sum of all lanes, by halves. */
static float lane_sum(float *v) {
    for (int half = MK_LANES / 2; half > 0; half /= 2)
        for (int lane = 0; lane < half; lane++)
            v[lane] += v[half + lane];
    return v[0];
}

static void selective_back(int64_t n, const float *restrict x, const float *restrict delta,
                           const float *restrict dy, const float *restrict a,
                           const float *restrict b, const float *restrict c,
                           const float *restrict before, const float *restrict after,
                           float *restrict carry, float *restrict dx, float *restrict ddelta,
                           float *restrict da, float *restrict db, float *restrict dc) {
    float gb[MK_LANES] = {0}, rise[MK_LANES] = {0};
    for (int64_t i = 0; i < n; i++) {
        float of_b[MK_LANES], of_c[MK_LANES], bi = b[i], ci = c[i];
        const int64_t at = i * MK_LANES;
        EACH_LANE {
            float ai = a[at + lane], d = delta[lane];
            float w = mk_expf(d * ai), g = dy[lane] * ci + carry[at + lane];
            float gwh = g * w * before[at + lane];
            gb[lane] += g * bi;
            rise[lane] += gwh * ai;
            da[at + lane] += gwh * d;
            carry[at + lane] = w * g;
            of_b[lane] = g * (d * x[lane]);
            of_c[lane] = dy[lane] * after[at + lane];
        }
        db[i] += lane_sum(of_b);
        dc[i] += lane_sum(of_c);
    }
    EACH_LANE {
        dx[lane] = gb[lane] * delta[lane];
        ddelta[lane] = rise[lane] + gb[lane] * x[lane];
    }
}

/* The recurrences of matrices go by columns of a register each: what WIDTH lanes of all steps need
 * of the state is read and written in registers. Sums are made in PARTS, so that additions
 * overlap. */
typedef float lanes __attribute__((vector_size(BYTES), aligned(4), may_alias));
#define WIDTH ((int)(BYTES / sizeof(float)))
#define PARTS 4

static inline lanes *lanes_at(float *x) {
    return (lanes *)(void *)x;
}

/* state *= decay; sum += k state */
static inline void decay_row(float *state, float decay, float k, lanes *sum) {
    lanes next = *lanes_at(state) * decay;
    *lanes_at(state) = next;
    *sum += next * k;
}

/* state += k d; sum += q state */
static inline void add_row(float *state, float k, float q, const lanes *d, lanes *sum) {
    lanes next = *lanes_at(state) + *d * k;
    *lanes_at(state) = next;
    *sum += next * q;
}

/* state = decay state + k v; sum += q state */
static inline void mix_row(float *state, float decay, float k, float q, const lanes *v,
                           lanes *sum) {
    lanes next = *lanes_at(state) * decay + *v * k;
    *lanes_at(state) = next;
    *sum += next * q;
}

#define EACH_PART for (int p = 0; p < PARTS; p++)

/* For rows i of n, whose sums go to part i % PARTS. */
#define EACH_ROW(n, row)                     \
    do {                                     \
        int64_t i = 0;                       \
        for (; i + PARTS <= n; i += PARTS)   \
            EACH_PART row(i + p);            \
        EACH_PART if (i + p < n) row(i + p); \
    } while (0)

static void delta_columns(int64_t length, int64_t n, const float *restrict q,
                          const float *restrict k, const float *v, const float *restrict decay,
                          const float *restrict beta, float scale, float *state, float *o) {
    for (int64_t t = 0; t < length; t++) {
        lanes sum[PARTS] = {{0}}, d;
#define ROW(at) decay_row(state + (at)*MK_LANES, decay[t], k[at], &sum[p])
        EACH_ROW(n, ROW);
#undef ROW
        d = (*(const lanes *)(const void *)v - ((sum[0] + sum[1]) + (sum[2] + sum[3]))) * beta[t];
        EACH_PART sum[p] = (lanes){0};
#define ROW(at) add_row(state + (at)*MK_LANES, k[at], q[at], &d, &sum[p])
        EACH_ROW(n, ROW);
#undef ROW
        *lanes_at(o) = ((sum[0] + sum[1]) + (sum[2] + sum[3])) * scale;
        q += n, k += n, v += MK_LANES, o += MK_LANES;
    }
}

static void delta_scan(int64_t length, int64_t n, const float *q, const float *k, const float *v,
                       const float *decay, const float *beta, float scale, float *state, float *o) {
    for (int c = 0; c < MK_LANES; c += WIDTH)
        delta_columns(length, n, q, k, v + c, decay, beta, scale, state + c, o + c);
}

static void linear_columns(int64_t length, int64_t n, const float *restrict q,
                           const float *restrict k, const float *v, const float *restrict decay,
                           float *state, float *o) {
    for (int64_t t = 0; t < length; t++) {
        lanes sum[PARTS] = {{0}}, value = *(const lanes *)(const void *)v;
#define ROW(at) mix_row(state + (at)*MK_LANES, decay[t], k[at], q[at], &value, &sum[p])
        EACH_ROW(n, ROW);
#undef ROW
        *lanes_at(o) = (sum[0] + sum[1]) + (sum[2] + sum[3]);
        q += n, k += n, v += MK_LANES, o += MK_LANES;
    }
}

static void linear_scan(int64_t length, int64_t n, const float *q, const float *k, const float *v,
                        const float *decay, float *state, float *o) {
    for (int c = 0; c < MK_LANES; c += WIDTH)
        linear_columns(length, n, q, k, v + c, decay, state + c, o + c);
}

void FILL(mk_kernels *kernels) {
    kernels->selective_scan = selective_scan;
    kernels->selective_back = selective_back;
    kernels->delta_scan = delta_scan;
    kernels->linear_scan = linear_scan;
}
