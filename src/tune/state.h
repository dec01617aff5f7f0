/* The state of a training between two steps, as one file: parameters, the optimiser's states, the
 * position, and the settings that it is of. Threads: one at a time. */
#ifndef TUNE_STATE_H
#define TUNE_STATE_H

#include "base/buffer.h"
#include "tune/step.h"

#define MC_STATE_FILE "tune_state.safetensors"

/* Where a training is. */
typedef struct mc_position {
    int64_t iteration;      /* batches done */
    int64_t updates;        /* of parameters */
    int64_t gradients;      /* taken since the start */
    int64_t trained_tokens; /* that counted in losses */
    double loss_sum;        /* since the last report: of loss times weight */
    double weight_sum;      /* likewise */
    double report_tokens;
} mc_position;

/* settings: a text that must be the same when training goes on. */
mica_status mc_state_save(const char *path, mc_trainable *t, mc_steps *steps,
                          const mc_position *position, const mc_buffer *settings);

/* errors  MICA_ENOENT no such file; MICA_EINVAL other settings; MICA_EFORMAT, MICA_ESHAPE ... it is
 *         not this training's. Nothing is changed then */
mica_status mc_state_load(const char *path, mc_trainable *t, mc_steps *steps, mc_position *position,
                          const mc_buffer *settings);

#endif
