/* Passes over rows of logits, written for vector registers: what samplers know of a row.
 *
 * Threads: any. */
#ifndef SESSION_LOGITS_H
#define SESSION_LOGITS_H

#include <stdint.h>

/* The smallest of x[n] above -infinity; infinity where there is none. No NaN is among them. */
float mc_logits_smallest(const float *x, int64_t n);

/* The sum of exp(x - best) over x[n], all at most best: each within 2e-7 of it, below 2^-126 taken
 * as that. */
double mc_logits_exp_sum(const float *x, int64_t n, float best);

/* w[i] = 2^((x[i] - best) * per), x at most best and per above 0: within 1e-11 of it, below 2^-1000
 * taken as that. Returns their sum. */
double mc_logits_weigh(const float *x, int64_t n, float best, double per, double *w);

/* places[i] = (best - x[i]) * scale, at most `last`, as a whole number: never less for a smaller
 * x. */
void mc_logits_places(const float *x, int64_t n, float best, float scale, int32_t last,
                      int32_t *places);

#endif
