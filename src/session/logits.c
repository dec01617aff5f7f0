#include "session/logits.h"

#include <math.h>
#include <string.h>

enum { LANES = 16 };

float mc_logits_smallest(const float *x, int64_t n) {
    float min[LANES];
    int64_t i = 0;
    for (int k = 0; k < LANES; k++)
        min[k] = INFINITY;
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; k++) {
            float finite = x[i + k] > -INFINITY ? x[i + k] : INFINITY;
            min[k] = finite < min[k] ? finite : min[k];
        }
    for (; i < n; i++)
        if (x[i] > -INFINITY && x[i] < min[0]) min[0] = x[i];
    for (int k = 1; k < LANES; k++)
        min[0] = min[k] < min[0] ? min[k] : min[0];
    return min[0];
}

/* exp(x - best) = 2^n 2^f with |f| <= 1/2: a series gives 2^f, and n is added to the exponent
 * bits. */
static void add_exps(const float *x, float best, float *sums) {
    const float round = 0x1.8p23f; /* adding it leaves the nearest integer in the low bits */
    float t[LANES], y[LANES];
    uint32_t n[LANES], bits[LANES];
    for (int k = 0; k < LANES; k++)
        t[k] = (x[k] - best) * 1.44269504f;
    for (int k = 0; k < LANES; k++)
        t[k] = t[k] > -126.0f ? t[k] : -126.0f;
    for (int k = 0; k < LANES; k++) {
        float shifted = t[k] + round, f = t[k] - (shifted - round);
        t[k] = shifted;
        y[k] = 1.0f +
               f * (0.693147181f +
                    f * (0.240226507f +
                         f * (0.0555041087f +
                              f * (0.00961812911f + f * (0.00133335581f + f * 0.000154035304f)))));
    }
    memcpy(n, t, sizeof n);
    memcpy(bits, y, sizeof bits);
    for (int k = 0; k < LANES; k++)
        bits[k] += n[k] << 23;
    memcpy(y, bits, sizeof y);
    for (int k = 0; k < LANES; k++)
        sums[k] += y[k];
}

double mc_logits_exp_sum(const float *x, int64_t n, float best) {
    float sums[LANES] = {0};
    double total = 0.0;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        add_exps(x + i, best, sums);
    for (; i < n; i++)
        sums[0] += expf(x[i] - best);
    for (int k = 0; k < LANES; k++)
        total += (double)sums[k];
    return total;
}

static double sum_of(const double *x, int64_t n) {
    double a = 0.0, b = 0.0, c = 0.0, d = 0.0;
    int64_t i = 0;
    for (; i + 4 <= n; i += 4) {
        a += x[i];
        b += x[i + 1];
        c += x[i + 2];
        d += x[i + 3];
    }
    for (; i < n; i++)
        a += x[i];
    return (a + b) + (c + d);
}

/* As above, in double. r = f ln 2, |r| <= 0.35, and the series of e^r to the ninth power. Its parts
 * do not depend on each other. */
double mc_logits_weigh(const float *x, int64_t n, float best, double per, double *w) {
    const double round = 0x1.8p52;
    for (int64_t i = 0; i < n; i++) {
        double t = ((double)x[i] - (double)best) * per;
        t = t > -1000.0 ? t : -1000.0;
        double shifted = t + round, r = (t - (shifted - round)) * 0x1.62e42fefa39efp-1;
        double r2 = r * r, r4 = r2 * r2;
        double y = 1.0 + r + r2 * (1.0 / 2 + r * (1.0 / 6)) +
                   r4 * (1.0 / 24 + r * (1.0 / 120) + r2 * (1.0 / 720 + r * (1.0 / 5040)) +
                         r4 * (1.0 / 40320 + r * (1.0 / 362880)));
        uint64_t whole, bits;
        memcpy(&whole, &shifted, sizeof whole);
        memcpy(&bits, &y, sizeof bits);
        bits += whole << 52;
        memcpy(&w[i], &bits, sizeof bits);
    }
    return sum_of(w, n);
}

void mc_logits_places(const float *x, int64_t n, float best, float scale, int32_t last,
                      int32_t *places) {
    for (int64_t i = 0; i < n; i++) {
        float place = (best - x[i]) * scale;
        place = place < (float)last ? place : (float)last;
        places[i] = (int32_t)place;
    }
}
