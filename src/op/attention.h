/* What attention and its gradient share. */
#ifndef OP_ATTENTION_H
#define OP_ATTENTION_H

#include "graph/attr.h"
#include "graph/gradient.h"
#include "op/work.h"

#include <mica/ops.h>

/* The operands of sdpa and sdpa_lse, and those of sdpa_gradient and paged_sdpa. */
enum {
    MC_SDPA_Q,
    MC_SDPA_K,
    MC_SDPA_V,
    MC_SDPA_MASK,
    MC_SDPA_OFFSET,
    MC_SDPA_SINKS,
    MC_SDPA_DY,
    MC_SDPA_DLSE,
    MC_SDPA_OPERANDS,
    MC_SDPA_TABLE = MC_SDPA_DY /* of paged_sdpa, whose mask is absent */
};

/* Reads the options of a builder: sets attr, and mask, offset and sinks of in. q is valid. false:
 * they are refused, which s keeps. */
bool mc_sdpa_read_options(mica_scope *s, const mica_sdpa_options *options, mica_array q,
                          mc_attr_sdpa *attr, mica_array *in);

MC_WORK_RULE(mc_sdpa_work);
mica_status mc_sdpa_infer(const void *attr, const mc_layout *const *in, int n_in, mc_layout *out);

/* The softmax of the scores of q and k, floats and at least one key: [B, Hq, Lq, Lk] f32.
 *
 *  tanh  receives the scores before the mask, divided by the cap; MICA_NONE if there is no cap.
 *  lse   receives [B, Hq, Lq]; may be NULL. */
mica_array mc_sdpa_weights(mica_scope *s, const mc_attr_sdpa *a, const mica_array *in,
                           mica_array *tanh, mica_array *lse);

/* The rule of sdpa and sdpa_lse. */
bool mc_sdpa_vjp(const mc_gradient_node *n, const mica_array *dy, mica_array *dx);

#endif
