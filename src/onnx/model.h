/* ONNX's files: what onnx.proto describes, decoded by protobuf-c, and their tensors.
 *
 * protobuf-c unpacks nested messages by recursion, without a limit, and makes structures of empty
 * messages. So before it runs the nesting is checked, and its memory is bounded by the file's size.
 *
 * Threads: a model belongs to one.
 * Source: onnx.ai/onnx/repo-docs/IR.html, and the field numbers of its schema. */
#ifndef ONNX_MODEL_H
#define ONNX_MODEL_H

#include <mica/array.h>

#include <onnx.pb-c.h>

#include "base/buffer.h"
#include "base/filemap.h"
#include "base/status.h"
#include "base/str.h"

typedef Mc__Onnx__Model mc_onnx_model;
typedef Mc__Onnx__Graph mc_onnx_graph;
typedef Mc__Onnx__Node mc_onnx_proto_node;
typedef Mc__Onnx__Attribute mc_onnx_attribute;
typedef Mc__Onnx__Tensor mc_onnx_tensor;
typedef Mc__Onnx__Value mc_onnx_port;
typedef Mc__Onnx__Function mc_onnx_function;

enum { MC_ONNX_DEPTH = 16 }; /* how deep graphs may nest */

/* Decodes a file's bytes.
 *
 * model   owned by the caller; NULL after an error.
 * errors  MICA_EFORMAT; MICA_EUNSUPPORTED graphs nest too deep; MICA_ENOMEM */
mica_status mc_onnx_decode(const void *data, size_t bytes, mc_onnx_model **model);
void mc_onnx_close(mc_onnx_model **model); /* nothing for NULL */

/* The files of tensors' data that is outside of the model. The last one stays open. Tensors that
 * share bytes of a file are charged for what they take beyond the files' sizes. */
typedef struct mc_onnx_outside {
    const char *folder;    /* that the files are in; NULL: there are none */
    uint64_t *more_left;   /* what tensors may still take beyond that */
    uint64_t more_by_byte; /* what it grows by, for each byte of a file */
    char *name;            /* what follows is zero at the beginning */
    mc_filemap map;
    mc_buffer seen;  /* mc_path_info.id of files */
    uint64_t unread; /* bytes of the files seen that no tensor took yet */
    bool rounds_f64; /* a tensor of f64 was read that has numbers which f32 has not */
} mc_onnx_outside;
void mc_onnx_outside_close(mc_onnx_outside *outside);

enum { MC_ONNX_DOUBLE = 11 /* ONNX's number of f64, with which mica computes as f32 */ };

/* A type of eight bits or fewer that mica has no dtype for (small.c). */
typedef struct mc_onnx_small mc_onnx_small;
const mc_onnx_small *mc_onnx_small_of(int64_t number); /* NULL: it is none */
const char *mc_onnx_small_name(const mc_onnx_small *type);
/* The dtype of its values, or of its codes. */
mica_dtype mc_onnx_small_dtype(const mc_onnx_small *type);
bool mc_onnx_small_is_float(const mc_onnx_small *type);
int mc_onnx_small_bits(const mc_onnx_small *type); /* of a value in a file */
/* The least and the greatest of an integer. */
void mc_onnx_small_range(const mc_onnx_small *type, double *lo, double *hi);
/* The bytes that n of it take in a file, and these as one byte each: out [n]. */
size_t mc_onnx_small_bytes(const mc_onnx_small *type, size_t n);
void mc_onnx_small_unpack(const mc_onnx_small *type, const uint8_t *data, size_t n, uint8_t *out);

/* The dtype that mica computes with, by ONNX's number of one.
 * errors  MICA_EUNSUPPORTED mica has none of the kind */
mica_status mc_onnx_dtype(int64_t number, mica_dtype *dtype);
/* The same where a small type will do, too: of others it is NULL. */
mica_status mc_onnx_any_dtype(int64_t number, mica_dtype *dtype, const mc_onnx_small **small);

/* A tensor as an evaluated array of s; s NULL: it is only checked.
 * errors  MICA_EFORMAT its data has another size than its shape; MICA_EUNSUPPORTED its dtype, or
 *         tensors share too many bytes of a file;
 *         MICA_EINVAL its file is not in the model's folder; those of mc_filemap_open */
mica_status mc_onnx_tensor_array(const mc_onnx_tensor *tensor, mc_onnx_outside *outside,
                                 mica_scope *s, mica_array *x);

#endif
