/* A kind of state for tests: a recurrence c = c / 2 + v, which is what a layer's queries get
 * instead of values. It carries c, f32 [kv_heads, 1, head_dim], and, if there is a second array,
 * a count in it. */
#ifndef SESSION_DECAY_H
#define SESSION_DECAY_H

#include "support/support.h"

#include "session/state.h"

#include <mica/ops.h>

enum { DECAY_TOKENS = 128 }; /* max of a pass */

static inline mc_attended append_decay(mc_state_rows rows, mica_scope *s, int slot, mica_array k,
                                       mica_array v) {
    mc_state *state = rows.states[0];
    const mica_array half = mica_f32(s, 0.5f);
    mica_array c = state->kind->before(state, s, 0), all[DECAY_TOKENS];
    int64_t n = mica_array_dim(v, 2);
    if (n > DECAY_TOKENS || slot) fail_msg("a recurrence of %lld tokens", (long long)n);
    if (n < 1) return (mc_attended){.k = k, .v = v}; /* of an error */
    for (int64_t i = 0; i < n && i < DECAY_TOKENS; i++) {
        mica_array one = mica_astype(s, mica_slice_axis(s, v, 2, i, i + 1), MICA_F32);
        all[i] = c = mica_add(s, mica_multiply(s, c, half), one);
    }
    state->kind->after(state, s, 0, c);
    if (state->n_carried > 1) { /* a count */
        mica_array count = state->kind->before(state, s, 1);
        state->kind->after(state, s, 1, mica_add(s, count, mica_f32(s, 1.0f)));
    }
    mica_array values = mica_concatenate(s, all, (int)n, 2);
    return (mc_attended){.k = k,
                         .v = mica_astype(s, values, state->lm->kv_dtype),
                         .offset = mica_i32(s, 0),
                         .window = 1};
}

static mc_state_ops decay;

static inline void open_decay(void) {
    decay = mc_state_carried;
    decay.name = "decay";
    decay.append = append_decay;
}

#endif
