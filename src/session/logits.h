/* Sums and bounds over a row of logits, for samplers. Written so that compilers vectorise them.
 *
 * Threads: any. */
#ifndef SESSION_LOGITS_H
#define SESSION_LOGITS_H

#include <stdint.h>

/* The smallest of x[n] above -infinity; infinity if there is none. x has no NaN. */
float mc_logits_smallest(const float *x, int64_t n);

/* The sum of exp(x - best) over x[n], where no x exceeds best. Each term has a relative error below
 * 2e-7; terms below 2^-126 count as 2^-126. */
double mc_logits_exp_sum(const float *x, int64_t n, float best);

/* w[i] = 2^((x[i] - best) * per), where no x exceeds best and per > 0. The relative error is below
 * 1e-11; values below 2^-1000 count as 2^-1000. Returns the sum. */
double mc_logits_weigh(const float *x, int64_t n, float best, double per, double *w);

/* places[i] = (best - x[i]) * scale, cut to an integer of no more than `last`. A smaller x never
 * has a smaller place. */
void mc_logits_places(const float *x, int64_t n, float best, float scale, int32_t last,
                      int32_t *places);

#endif
