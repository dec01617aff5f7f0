/* Adding an adapter's low-rank factors to a model's matrices, and putting the tensors that were
 * trained whole in the place of a model's own.
 *
 * Threads: a fusing belongs to one. */
#ifndef CONVERT_FUSE_H
#define CONVERT_FUSE_H

#include "base/status.h"
#include "convert/source.h"
#include "io/adapter.h"

typedef struct mc_fuse {
    mc_adapter *adapter;
    const mc_part *embed; /* the embedding; NULL: the model has none */
    /* [parts] NULL: the adapter has none for the part. A substitute is put before factors are added
     * to it. */
    const mc_adapter_substitute **substitutes;
    const mc_adapter_pair **pairs;  /* of matrices */
    const mc_adapter_pair **biases; /* of biases: pairs that have some, too */
    size_t count;                   /* number of parts that have one */
} mc_fuse;

/* Opens an adapter and finds the part of each of its pairs and substitutes. Where PEFT changes the
 * embedding or the head of a model whose head is the embedding, the source gets a head of its own:
 * what PEFT's merge gives.
 *
 * errors  those of mc_adapter_open; MICA_ENOENT the model lacks modules of the adapter (the text
 *         lists them); MICA_EFORMAT two pairs for one matrix; MICA_ESHAPE, MICA_EDTYPE factors that
 *         do not fit; MICA_EUNSUPPORTED a bias of factors, where the model has none. mc_fuse_close
 *         is needed in any case */
mica_status mc_fuse_open(const char *folder, mc_source *source, mc_fuse *fuse);
void mc_fuse_close(mc_fuse *fuse);

/* Whether an adapter changes parts[i]. false for a fuse that was not opened. */
bool mc_fuse_changes(const mc_fuse *fuse, size_t i);

/* The elements x of parts[i], in the dtype that is written, as the adapter changes them:
 * x + scale * A B, where the product is computed in f32 and rounded to x's dtype before it is
 * added, as mlx-lm does; or of the tensor in its place. */
mica_array mc_fuse_apply(mica_scope *s, const mc_fuse *fuse, const mc_part *part, size_t i,
                         mica_array x);

#endif
