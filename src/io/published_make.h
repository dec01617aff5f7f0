/* Data of tensors that are made of published ones (io/published.h), row by row.
 *
 * Threads: any number may make tensors. */
#ifndef IO_PUBLISHED_MAKE_H
#define IO_PUBLISHED_MAKE_H

#include "base/status.h"
#include "io/weight.h"

/* Makes the data of a tensor whose `made` is set: out [t->bytes], aligned for its dtype. Besides, a
 * row of the matrix is held as floats and as codes.
 * errors  MICA_EFORMAT a value is no number, or a zero point out of range; MICA_ENOMEM */
mica_status mc_made_fill(const mc_weight_tensor *t, void *out);

/* The i-th tensor of the files that a tensor is made of; NULL past the end. */
const mc_weight_tensor *mc_made_source(const mc_weight_tensor *t, size_t i);

/* What became of a matrix. */
typedef struct mc_made_info {
    const char *what;     /* "AWQ" */
    mica_quant quant;     /* bits 0: floats of `dtype` */
    mica_dtype dtype;     /* of floats, or of affine scales */
    bool exact;           /* its values are those that the files stand for */
    uint64_t bytes, made; /* in the files, and so */
} mc_made_info;

/* Describes the matrix that a tensor is the codes, or the elements, of. false: it is none of a
 * published one. */
bool mc_made_describe(const mc_weight_tensor *t, mc_made_info *info);

#endif
