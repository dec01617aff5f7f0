/* Where a conversion reads from: a model as a list of parts, each a tensor by what it stands for.
 * A quantised matrix is one part: its codes, scales and biases are its value.
 *
 * Threads: a source belongs to one. */
#ifndef CONVERT_SOURCE_H
#define CONVERT_SOURCE_H

#include "base/arena.h"
#include "base/cancel.h"
#include "base/json.h"
#include "base/status.h"
#include "io/safetensors.h"
#include "model/spec.h"

#include <mica/array.h>
#include <mica/ops.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mc_part {
    const char *name; /* as in files: "model.layers.0.mlp.up_proj.weight" */
    int ndim;
    int64_t shape[MICA_MAX_NDIM]; /* of the elements that it stands for */
    mica_dtype dtype; /* of the elements; of the scales if they are affine; bf16 for other modes */
    bool quantised;
    mica_quant quant;
    bool has_biases;
    uint64_t bytes; /* in the source */
    size_t copy_of; /* 1 + the index of the part whose value it has; 0: its own */
} mc_part;

/* The value of a part. scales MICA_NONE: weight holds the elements. */
typedef struct mc_value {
    mica_array weight, scales, biases;
} mc_value;

typedef struct mc_source mc_source;
struct mc_source {
    mc_part *parts; /* [count], in the arena */
    size_t count;
    mc_arena arena;
    mc_json config;            /* config.json's root */
    const char *folder;        /* NULL: the source is no folder */
    const mc_weights *weights; /* of a folder */
    mc_decoder_spec *spec;     /* of mc_source_know; NULL: a family that mica does not know */
    bool own_head;             /* the config ties the head, but there is one unlike the embedding */
    /* Not NULL: gives blocks the forms that the source's tensors show, where it is no folder. */
    void (*find_forms)(const mc_source *source, mc_decoder_spec *spec);
    /* Makes the value of parts[i] in s, where errors go. Its data lives as long as the source and
     * the scope. */
    mica_status (*load)(const mc_source *source, size_t i, mica_scope *s, mc_value *value);
    /* Writes what the model has besides config.json and weights. */
    mica_status (*write_files)(const mc_source *source, const char *folder);
    void (*close)(mc_source *source); /* frees `own` */
    void *own;
};

/* Opens a model folder as a source.
 *  form    of matrices that are quantised otherwise than MLX does: not MC_FORM_RUN
 *  errors  as mica_convert; there is nothing to close then */
mica_status mc_source_open_folder(const char *folder, mc_weight_form form, mc_source *source);

/* Opens a GGUF file as a source. Blocks that groups of 32 codes with a scale and a bias hold stay
 * quantised, if none of these overflows f16: all blocks are looked at. Others are dequantised.
 * cancel  watched here; may be NULL. Borrowed by the source
 * errors  as mica_convert; there is nothing to close then */
mica_status mc_source_open_gguf(const char *path, const mica_cancel *cancel, mc_source *source);

/* Gives a folder's source that is not quantised the names and shapes that mlx-lm writes, where the
 * files' own are others and mlx-lm would not read them once they are quantised: matrices of experts
 * in stacks of gate, up and down, of MLPs beside these apart, MLA's by heads; and what mlx-lm
 * changes along with them. Nothing for others.
 * errors  MICA_ENOENT, MICA_ESHAPE experts are missing, or differ; MICA_ENOMEM */
mica_status mc_source_as_mlx(mc_source *source);

/* Closes a source; nothing for a zero one. */
void mc_source_close(mc_source *source);

/* What config.json says of the model. errors  MICA_EUNSUPPORTED, MICA_EFORMAT, MICA_ENOENT */
mica_status mc_source_spec(const mc_source *source, mc_decoder_spec *spec);

/* Reads source->spec. errors  those of mc_source_spec; spec is NULL then */
mica_status mc_source_know(mc_source *source);

/* Whether a part is a matrix that may be quantised: one of floats, [rows, columns], or, with an
 * axis before these, one that the family says is of experts. */
bool mc_source_is_matrix(const mc_source *source, const mc_part *part);

/* Gives a source whose head is the embedding a head of its own, with the embedding's value.
 * errors  MICA_ENOENT there is no embedding; MICA_ENOMEM */
mica_status mc_source_untie(mc_source *source);

typedef enum mc_end { MC_END_EMBED, MC_END_HEAD, MC_END_NONE } mc_end;

/* Which end of the decoder a module, or a tensor of it, is by its name. */
mc_end mc_source_end(const mc_source *source, const char *name);

/* The matrix of an end; NULL: there is none. */
const mc_part *mc_source_find_end(const mc_source *source, mc_end end);

/* The part that a cross-encoder's logits are made with; NULL: the model has no such head. */
const mc_part *mc_source_ranker(const mc_source *source);

/* Whether a part is one of such a head. */
bool mc_source_ranks(const mc_source *source, const mc_part *part);

/* Checks that a source has all tensors of its model, each with its shape, and no others: the model
 * may be saved in a form that does not tell them. `path` goes into error texts.
 * errors  those of mc_source_spec; MICA_EFORMAT tensors are missing, or of no use (the text lists
 *         them); MICA_ESHAPE one has another shape */
mica_status mc_source_check(const mc_source *source, const char *path);

#endif
