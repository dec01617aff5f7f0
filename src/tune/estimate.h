/* What memory training takes, before it starts. Threads: any. */
#ifndef TUNE_ESTIMATE_H
#define TUNE_ESTIMATE_H

#include "tune/step.h"

typedef struct mc_estimate_case {
    const mc_lm *lm;
    uint64_t trained;     /* numbers in parameters */
    uint64_t param_bytes; /* of them */
    uint64_t state_bytes;
    int64_t rows, length; /* of the largest batch */
    int64_t chunk_rows;   /* of the head */
    bool checkpoint;
    bool packed;
} mc_estimate_case;

/* Bytes of weights, parameters, gradients, moments and activations: an estimate. */
uint64_t mc_estimate_bytes(const mc_estimate_case *c);

/* MICA_ENOMEM if the estimate is above the limit: the text says what would fit. */
mica_status mc_estimate_check(const mc_estimate_case *c, uint64_t limit);

#endif
