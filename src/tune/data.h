/* The sets of a training: train, valid and test, from a folder or a file.
 * Threads: one at a time. */
#ifndef TUNE_DATA_H
#define TUNE_DATA_H

#include "tune/batches.h"
#include "tune/tuner.h"

typedef enum mc_set {
    MC_SET_TRAIN = MICA_TUNE_SET_TRAIN,
    MC_SET_VALID = MICA_TUNE_SET_VALID,
    MC_SET_TEST = MICA_TUNE_SET_TEST,
    MC_SETS
} mc_set;

typedef struct mc_data {
    mc_examples examples[MC_SETS]; /* path NULL: none. A valid set that was split off has none */
    mc_batches batches[MC_SETS];   /* count 0: none */
    uint32_t n[MC_SETS];           /* examples */
    uint64_t hash;                 /* of the tokens of the train set's file */
    double valid_share;            /* of its examples that were split off; 0: none */
} mc_data;

/* Reads what the options ask for: all filled in.
 * errors  those of mica_tune. Closed by mc_data_close, after an error too */
mica_status mc_data_open(mc_data *data, const mica_tuner *tuner, const mica_tune_options *options,
                         bool pairs, bool mask_prompt);
void mc_data_close(mc_data *data);

#endif
