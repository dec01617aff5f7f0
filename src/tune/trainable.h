/* What of a model is trained: low-rank factors beside its matrices, or the weights themselves.
 *
 * Parameters are arrays outside of the model, which stays as it was opened. A pass over the trained
 * model is recorded over a view: a copy of the model's struct in which parameters, given as arrays
 * of the recording scope, take the places of the model's own.
 *
 * Threads: one at a time. */
#ifndef TUNE_TRAINABLE_H
#define TUNE_TRAINABLE_H

#include "base/arena.h"
#include "base/buffer.h"
#include "model/lm.h"

#include <mica/tune.h>

/* What a parameter is of its module. */
typedef enum mc_part {
    MC_PART_A, /* [in, rank] */
    MC_PART_B, /* [rank, out] */
    MC_PART_M, /* [out] magnitudes of DoRA */
    MC_PART_WEIGHT,
    MC_PART_BIAS,
    MC_PART_VECTOR
} mc_part;

typedef struct mc_parameter {
    const char *name;   /* as in files: "model.layers.0.self_attn.q_proj.lora_a" */
    const char *module; /* "model.layers.0.self_attn.q_proj" */
    mc_part part;
    size_t at;        /* number of its slot in the model */
    mica_array value; /* evaluated, in the trainable's scope */
} mc_parameter;

typedef struct mc_trainable {
    const mc_lm *lm;
    mica_scope *scope; /* of the values, and of what their owner keeps beside them: collected */
    mica_scope *constants;
    mc_arena arena; /* names */
    mc_buffer list; /* mc_parameter, sorted by name */
    mica_lora_options options;
    double scale;     /* of the low-rank product */
    mc_buffer sites;  /* mc_site */
    int first_layer;  /* layers from it on are trained */
    uint64_t trained; /* numbers in the parameters */
} mc_trainable;

/* A matrix with factors. */
typedef struct mc_site {
    size_t at;        /* number of its slot in the model */
    mica_array norms; /* DoRA: [out] f32, squares of the norms of the weight's rows: a constant */
} mc_site;

/* Makes the parameters that the options ask for, with their first values. lm is borrowed.
 * errors  MICA_EINVAL, MICA_ENOENT, MICA_EUNSUPPORTED, MICA_ENOMEM: as mica_lora_apply */
mica_status mc_trainable_init(mc_trainable *t, const mc_lm *lm, mica_device *device,
                              const mica_lora_options *options);
void mc_trainable_deinit(mc_trainable *t);

size_t mc_trainable_count(const mc_trainable *t);
mc_parameter *mc_trainable_at(const mc_trainable *t, size_t i);
/* Bytes of all values, and of what arrays on their device may have at most. */
uint64_t mc_trainable_bytes(const mc_trainable *t);
uint64_t mc_trainable_memory_bytes(const mc_trainable *t);

/* Drops what the scope holds beside the values and `more`, arrays of it, which are given new
 * handles. errors  those of mica_scope_collect */
mica_status mc_trainable_collect(mc_trainable *t, mica_array *more, size_t n_more);

/* Reads the values of all parameters from tensors of their names. After an error they are as they
 * were. errors  as mica_tuner_load, without the file's name */
mica_status mc_trainable_load(mc_trainable *t, const mc_weights *w);

/* Makes a view: `values` [count] of s stand for the parameters. The view is closed by
 * mc_trainable_end_view; after an error there is none.
 *
 * key     u32 [2] for dropout; MICA_NONE: nothing is dropped
 * errors  MICA_ENOMEM; those of s */
mica_status mc_trainable_view(const mc_trainable *t, mica_scope *s, const mica_array *values,
                              mica_array key, mc_lm *view);
void mc_trainable_end_view(mc_lm *view);

#endif
