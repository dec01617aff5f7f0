/* Batches of examples.
 *
 * Texts are sorted by length, so that those of a batch are about as long, and cut into batches;
 * an epoch goes through these in a random order. A text is a row, padded to the next multiple of 32
 * and one. Packed, a row is several texts, each of which attends to itself alone. So both give the
 * gradients of the texts computed one by one.
 *
 * Threads: one at a time. */
#ifndef TUNE_BATCHES_H
#define TUNE_BATCHES_H

#include "tune/examples.h"
#include "tune/order.h"
#include "tune/step.h"

typedef struct mc_batches {
    const mc_examples *examples;
    mc_buffer rows;   /* uint32: numbers of texts, row after row */
    mc_buffer starts; /* uint32: where rows begin in it, and its end */
    int64_t per_batch;
    size_t count; /* batches of an epoch; the last one may have fewer rows */
    bool pairs, packed, mask_prompt;
    int64_t max_length;
    mc_order order;
    uint32_t *indices; /* [count] of this epoch */
    uint64_t next;     /* number of the next batch, over all epochs */
    uint64_t epoch;    /* whose order indices is; counted from 1 */
    /* the batch that was made last */
    mc_buffer ids, mask, seen;
    uint64_t tokens;  /* in it, without padding */
    uint64_t trained; /* those that count in the loss */
} mc_batches;

typedef struct mc_batches_options {
    int64_t batch_size;
    int64_t max_length;
    uint64_t seed;
    bool pairs, pack, mask_prompt, drop_last, shuffle;
} mc_batches_options;

/* texts  [n] numbers of texts (of pairs those of the chosen ones), in order of the file
 * errors MICA_EINVAL fewer examples than a batch takes, with drop_last; MICA_ENOMEM */
mica_status mc_batches_open(mc_batches *b, const mc_examples *examples, const uint32_t *texts,
                            size_t n, const mc_batches_options *options);
void mc_batches_close(mc_batches *b);

/* Makes the next batch, which lives until the next call. */
mica_status mc_batches_next(mc_batches *b, mc_batch *batch);
/* Goes to a batch by its number, as if those before it had been made. */
void mc_batches_seek(mc_batches *b, uint64_t next);
/* Lines of the texts in the last batch, for reports: "3, 17, 20". */
const char *mc_batches_lines(mc_batches *b, char text[128]);
/* The longest row that there is, padded. */
int64_t mc_batches_longest(const mc_batches *b);

#endif
