/* Training steps: the gradient of a batch, and the update by an optimiser, as compiled functions.
 *
 * A step is two programs. The first gives the loss and gradients; the host looks whether they are
 * finite. The second gives new parameters and states, in the memory of the old ones. So a step that
 * is not taken changes nothing. Threads: one at a time. */
#ifndef TUNE_STEP_H
#define TUNE_STEP_H

#include "tune/loss.h"
#include "tune/optimizer.h"
#include "tune/trainable.h"

/* A batch on the host. */
typedef struct mc_batch {
    int64_t rows, length;
    const int32_t *ids; /* [rows, length] */
    const float *mask;  /* [rows, length - 1] */
    const bool *seen;   /* [rows, length - 1, length - 1]; NULL: all before a token */
} mc_batch;

typedef struct mc_steps mc_steps;

typedef struct mc_steps_options {
    const char *loss;
    mica_loss_options loss_options;
    const mica_optimizer_options *optimizer; /* NULL: the defaults */
    bool checkpoint;
    int64_t chunk_rows;      /* rows of the head at once; 0: by the vocabulary */
    double clip_norm;        /* 0: gradients are not clipped */
    uint64_t seed;           /* of dropout */
    mica_compile_fn loss_fn; /* the loss, in the place of that of the name; NULL: none */
    void *loss_user;
    bool alike; /* gradients of batches are averaged alike, not by their weights */
    struct mica_group
        *group; /* whose ranks have the same parameters, and compute a batch each at once;
                          NULL: one rank */
} mc_steps_options;

/* What a batch of one of the ranks has come to; set by the owner before, what it says of it. */
typedef struct mc_step_result {
    int64_t status; /* a mica_status, with its text */
    double loss, weight;
    double tokens, trained;
    int64_t cancelled;
    char error[512], lines[128]; /* lines: of its examples */
} mc_step_result;

/* t is borrowed, its values are replaced by steps.
 * errors  MICA_EINVAL no such loss or optimiser, a loss that trains no model; MICA_ENOMEM */
mica_status mc_steps_open(mc_trainable *t, mica_device *device, const mc_steps_options *options,
                          mc_steps **steps);
void mc_steps_close(mc_steps **steps);

/* Adds the gradient of a batch to those since the last update.
 *
 *  loss, weight  receive the loss, and by what it counts in a mean over batches
 *  errors        MICA_EINVAL the loss is not finite: nothing was added; those of a program */
mica_status mc_steps_gradient(mc_steps *steps, const mc_batch *batch, double *loss, double *weight);

/* The same of n batches at once, one each of the first n ranks, as if one rank added them in the
 * order of ranks: with gradients in f32 they are the same to the bit. All ranks call it together.
 *
 *  batch    this rank's; not read if it is not one of the first n
 *  results  [size of the group]: this rank's; receives those of all
 *  errors   of the first rank that has one, on all: that of making its batch, which results[rank]
 *           has, or of mc_steps_gradient; MICA_ECANCELLED a rank says so; MICA_EDEVICE */
mica_status mc_steps_gradients(mc_steps *steps, const mc_batch *batch, size_t n,
                               mc_step_result *results);

/* The same of losses alone, without dropout. */
mica_status mc_steps_losses(mc_steps *steps, const mc_batch *batch, size_t n,
                            mc_step_result *results);

/* The loss of a batch alone, without dropout. */
mica_status mc_steps_evaluate(mc_steps *steps, const mc_batch *batch, double *loss, double *weight);

/* The i-th parameter's gradient, since the last update. */
mica_array mc_steps_grad(const mc_steps *steps, size_t i);

/* Updates the parameters by the mean of the added gradients, which are weighed as their losses are,
 * and forgets these.
 *
 *  norm    receives the gradients' norm, before clipping
 *  errors  MICA_EINVAL a gradient is not finite (the text names the first): nothing was changed */
mica_status mc_steps_update(mc_steps *steps, double rate, double *norm);

/* Sets the numbers of updates and of gradients so far: those of a state that was loaded. */
void mc_steps_go_on(mc_steps *steps, int64_t updates, int64_t gradients);
/* The optimiser's states, in order, and their number. For files. */
size_t mc_steps_state_count(const mc_steps *steps);
mica_array *mc_steps_state(mc_steps *steps, size_t i);

/* ---- before steps are opened ---- */

/* Rows of the head at once, if options do not say it. */
int64_t mc_steps_chunk_rows(const mc_lm *lm);
/* Bytes that the states of an optimiser, whose options are complete, will take. */
uint64_t mc_steps_state_bytes(const mc_trainable *t, const mica_optimizer_options *options);

#endif
