/* Checkpoints as published: matrices that programs other than MLX have quantised, seen as MLX's
 * x.weight, x.scales and x.biases, or as floats.
 *
 * fp8 with scales of blocks, rows or matrices; compressed-tensors (integers, fp8, nvfp4, mxfp4,
 * mxfp8); GPTQ; AWQ; nvfp4 and fp8 of ModelOpt. Which one a matrix has, its tensors show, so that
 * lists of modules that were left alone are not needed; of the config's quantization_config only
 * what tensors do not show is read. A table of formats (published.c) has a row for each.
 *
 * Source: the formats' descriptions by their programs (compressed-tensors 0.20, AutoGPTQ, AutoAWQ,
 * ModelOpt, transformers 5); tools/make_published_goldens.py compares them with those programs. */
#ifndef IO_PUBLISHED_H
#define IO_PUBLISHED_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/map.h"
#include "io/config.h"
#include "io/weight.h"

/* Checks that mica reads what a quantization_config with a quant_method says.
 *
 * method  receives its quant_method.
 * errors  MICA_EUNSUPPORTED naming method, or format, and what to do; MICA_EFORMAT */
mica_status mc_published_check(const mc_config_scope *quantization, mc_str *method);

/* Whether some of the tensors are of such matrices. */
bool mc_published_has(const mc_buffer *tensors, const mc_map *by_name);

/* Puts what they are seen as in the place of such tensors.
 *
 * config   quantization_config; NONE: there is none
 * arena    of what tensors point to. It outlives them.
 * tensors  mc_weight_tensor[]; changed
 * by_name  indices in tensors; what it finds is wrong afterwards
 * errors   MICA_ENOENT, MICA_ESHAPE, MICA_EDTYPE, MICA_EFORMAT naming the tensor; MICA_ENOMEM */
mica_status mc_published_see(mc_json config, mc_weight_form form, mc_arena *arena,
                             mc_buffer *tensors, const mc_map *by_name);

#endif
