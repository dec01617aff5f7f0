/* The largest logits of rows, found by the device that computed them, while the rows stay where
 * they are: the best token of each, or as many as tokens can be drawn from
 * (mc_sampler_draw_largest).
 *
 * Threads: any. */
#ifndef SESSION_LARGEST_H
#define SESSION_LARGEST_H

#include "base/status.h"

#include <mica/array.h>

/* The largest logit of a row, NaN if any of the row is, and the first token that has it. */
typedef struct mc_best {
    int32_t id;
    float logit;
} mc_best;

enum { MC_BEST_ARRAYS = 2 }; /* of mc_best_record */

/* The best tokens of logits [..., vocab]: recorded in a graph, and read after its evaluation, of
 * MC_MAX_ROWS rows at most. The logits themselves need not be read. */
void mc_best_record(mica_scope *s, mica_array logits, mica_array arrays[MC_BEST_ARRAYS]);
mica_status mc_best_read(const mica_array arrays[MC_BEST_ARRAYS], mc_best *best, size_t rows);

enum { MC_LARGEST = 64 }; /* logits of a row */

/* Of a row of logits; of 32-bit words alone, as the device leaves them. */
typedef struct mc_largest {
    float logits[MC_LARGEST]; /* the largest first, NaN before all others */
    int32_t ids[MC_LARGEST];  /* their tokens, of equals the lower first */
    float log_total;          /* the row's logsumexp, within mc_largest_error */
} mc_largest;

/* A bound of the relative error of exp(log_total). A device may add up in any order, in f32: sums
 * of n numbers above 0 are off by less than n 2^-24, and n is here twice the square root of the
 * vocabulary, 1024 for 262,144 tokens. That is 6e-5; 2e-4 also holds for two million tokens, and
 * for exponentials a dozen units of the last place off. Logarithms are rounded in their own. */
double mc_largest_error(const mc_largest *largest);

/* Records the largest of logits [rows, 1, vocab] or [1, rows, vocab], vocab > MC_LARGEST: an array
 * that mc_largest_read reads after its evaluation. Errors are in s. */
mica_array mc_largest_record(mica_scope *s, mica_array logits);
mica_status mc_largest_read(mica_array array, mc_largest *largest, size_t rows);

/* mc_largest_record in two: what is found in rows [rows, vocab], and the array made of it. */
typedef struct mc_largest_parts {
    mica_array values, ids, log_total; /* [rows, MC_LARGEST] f32 and u32, [rows, 1] f32 */
} mc_largest_parts;

mc_largest_parts mc_largest_find(mica_scope *s, mica_array rows);
mica_array mc_largest_join(mica_scope *s, const mc_largest_parts *parts);

#endif
