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

/* Sums are made in PARTS, so that additions overlap. */
#define PARTS 4

static void delta_scan(int64_t length, int64_t n, const float *restrict q, const float *restrict k,
                       const float *restrict v, const float *restrict decay,
                       const float *restrict beta, float scale, float *restrict state,
                       float *restrict o) {
    for (int64_t t = 0; t < length; t++) {
        float sum[PARTS][MK_LANES] = {{0}}, d[MK_LANES];
        for (int64_t i = 0; i < n; i++) {
            float *h = state + i * MK_LANES, *part = sum[i % PARTS], ki = k[i];
            EACH_LANE {
                float kept = h[lane] * decay[t];
                h[lane] = kept;
                part[lane] += ki * kept;
            }
        }
        EACH_LANE {
            float known = (sum[0][lane] + sum[1][lane]) + (sum[2][lane] + sum[3][lane]);
            d[lane] = beta[t] * (v[lane] - known);
        }
        for (int p = 0; p < PARTS; p++)
            EACH_LANE sum[p][lane] = 0;
        for (int64_t i = 0; i < n; i++) {
            float *h = state + i * MK_LANES, *part = sum[i % PARTS], ki = k[i], qi = q[i];
            EACH_LANE {
                float next = h[lane] + ki * d[lane];
                h[lane] = next;
                part[lane] += qi * next;
            }
        }
        EACH_LANE o[lane] = scale * ((sum[0][lane] + sum[1][lane]) + (sum[2][lane] + sum[3][lane]));
        q += n, k += n, v += MK_LANES, o += MK_LANES;
    }
}

static void linear_scan(int64_t length, int64_t n, const float *restrict q, const float *restrict k,
                        const float *restrict v, const float *restrict decay, float *restrict state,
                        float *restrict o) {
    for (int64_t t = 0; t < length; t++) {
        float sum[PARTS][MK_LANES] = {{0}};
        for (int64_t i = 0; i < n; i++) {
            float *h = state + i * MK_LANES, *part = sum[i % PARTS], ki = k[i], qi = q[i];
            EACH_LANE {
                float next = h[lane] * decay[t] + ki * v[lane];
                h[lane] = next;
                part[lane] += qi * next;
            }
        }
        EACH_LANE o[lane] = (sum[0][lane] + sum[1][lane]) + (sum[2][lane] + sum[3][lane]);
        q += n, k += n, v += MK_LANES, o += MK_LANES;
    }
}

void FILL(mk_kernels *kernels) {
    kernels->selective_scan = selective_scan;
    kernels->selective_back = selective_back;
    kernels->delta_scan = delta_scan;
    kernels->linear_scan = linear_scan;
}
