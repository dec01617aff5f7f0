/* Adding an adapter's low-rank factors to a model's matrices, or putting the tensors of full
 * training in the place of a model's own.
 *
 * Threads: a fusing belongs to one. */
#ifndef CONVERT_FUSE_H
#define CONVERT_FUSE_H

#include "base/status.h"
#include "convert/source.h"
#include "io/adapter.h"

typedef struct mc_fuse {
    mc_adapter *adapter;
    const mc_adapter_pair **pairs;         /* [parts] NULL: the adapter has none for the part */
    const mc_weight_tensor **replacements; /* [parts] likewise; parts have the one or the other */
    size_t count;                          /* number of parts that have one */
} mc_fuse;

/* Opens an adapter and finds the part of each of its pairs.
 * errors  those of mc_adapter_open; MICA_ENOENT the model lacks modules of the adapter (the text
 *         lists them); MICA_EFORMAT two pairs for one matrix; MICA_ESHAPE, MICA_EDTYPE factors that
 *         do not fit. mc_fuse_close is needed in any case */
mica_status mc_fuse_open(const char *folder, const mc_source *source, mc_fuse *fuse);
void mc_fuse_close(mc_fuse *fuse);

/* Whether an adapter changes parts[i]. false for a fuse that was not opened. */
bool mc_fuse_changes(const mc_fuse *fuse, size_t i);

/* The elements x of parts[i], in the dtype that is written, as the adapter changes them:
 * x + scale * A B, where the product is computed in f32 and rounded to x's dtype before it is
 * added, as mlx-lm does; or the tensor in its place. */
mica_array mc_fuse_apply(mica_scope *s, const mc_fuse *fuse, const mc_part *part, size_t i,
                         mica_array x);

#endif
