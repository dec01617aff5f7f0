/* A pass by the options of mica/forward.h. Threads: as model/lm.h. */
#ifndef MODEL_FORWARD_H
#define MODEL_FORWARD_H

#include "model/lm.h"

#include <mica/forward.h>

/* What a pass attends to that has a mask and keeps nothing. */
typedef struct mc_masked {
    const mc_lm *lm;
    mica_array mask; /* bool [B, 1, L, L] */
} mc_masked;

/* A store of it, which borrows it. */
mc_kv_store mc_masked_store(mc_masked *masked);

/* As mica_model_forward, mica_model_embed and mica_model_head. name: of the function that the
 * caller called; options: of this library's size. */
mica_array mc_forward(mica_scope *s, const mc_lm *lm, mica_array ids,
                      const mica_forward_options *options, const char *name);
mica_array mc_forward_embed(mica_scope *s, const mc_lm *lm, mica_array ids, const char *name);
mica_array mc_forward_head(mica_scope *s, const mc_lm *lm, mica_array hidden, const char *name);

#endif
