/* Tokens drawn by the device that computed their logits, so that the next pass begins before the
 * host has seen them.
 *
 * The host draws each token all the same, from the logits (session/sampler.h), and its token is the
 * answer's. Both draw with the same number of the same seed. So the device's token is a guess that
 * is nearly always right, though its sums are in f32 and top_p sees MC_LARGEST tokens alone: a pass
 * over a wrong one is dropped, as after a wrong draft.
 *
 * A draw is a program: what changes logits, the tokens that may be drawn and the fraction of the
 * draw are one array of words that is uploaded while the pass runs. Programs are kept by the number
 * of rows and by what they can do.
 *
 * Threads: one at a time. */
#ifndef SESSION_DEVICE_DRAW_H
#define SESSION_DEVICE_DRAW_H

#include "base/buffer.h"
#include "device/device.h"
#include "session/programs.h"
#include "session/sampler.h"

/* A row, and what its token is drawn by: as mc_sampler_draw's arguments. */
typedef struct mc_device_draw {
    const mc_sampler *sampler;
    const int32_t *history; /* [n_history] */
    size_t n_history;
} mc_device_draw;

enum { MC_DRAW_PROGRAMS = 4 };

typedef struct mc_device_draws {
    mica_scope *recording; /* empty but while a program is recorded. Borrowed */
    mc_pass_program programs[MC_DRAW_PROGRAMS];
    mc_buffer words; /* uint32: what is uploaded */
    mc_buffer edits; /* of one row */
} mc_device_draws;

/* What was launched. */
typedef struct mc_device_drawn {
    mc_fence fence; /* what to wait for, once; 0: it is over */
    mica_array ids; /* i32 [rows, 1] */
    /* What mc_largest_read reads; MICA_NONE: of logits that a row changes, or where none is asked
     * for. */
    mica_array largest;
} mc_device_drawn;

void mc_device_draws_init(mc_device_draws *draws, mica_scope *recording);
void mc_device_draws_deinit(mc_device_draws *draws);

/* Whether the device can draw by a sampler's parameters. */
bool mc_device_draw_can(const mc_sampling *params);

/* Launches draws, each from a row of logits.
 *
 *  s        of the arguments and results
 *  logits   [rows, 1, vocab] f32 of s, that a launch leaves
 *  largest  whether the rows' largest logits are wanted, too
 *  errors   MICA_ENOMEM; those of mc_program_launch. Nothing was launched */
mica_status mc_device_draws_launch(mc_device_draws *draws, mica_scope *s, mica_array logits,
                                   const mc_device_draw *rows, size_t n, bool largest,
                                   mc_device_drawn *drawn);

#endif
