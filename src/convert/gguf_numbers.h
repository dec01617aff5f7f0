/* The numbers of a model that GGUF's metadata has: of a decoder's spec, of a file, and as a file's.
 *
 * What is written is first read again (mc_gguf_misfit): a model that would not be the same is
 * refused. */
#ifndef CONVERT_GGUF_NUMBERS_H
#define CONVERT_GGUF_NUMBERS_H

#include "base/buffer.h"
#include "base/status.h"
#include "convert/gguf_arch.h"
#include "io/gguf_write.h"

/* A model's numbers. */
typedef struct mc_gguf_numbers {
    double of[MC_GGUF_NUMBERS];
    int layers;
    bool tied;                       /* the head is the embedding */
    bool values_of_keys;             /* layers without windows have no matrix of values */
    uint8_t kinds[MC_MAX_LAYERS];    /* mc_gguf_kind */
    bool rotates[MC_MAX_LAYERS];     /* attention has RoPE */
    int64_t kv_heads[MC_MAX_LAYERS]; /* 0: the layer has no attention */
    int64_t widths[MC_MAX_LAYERS];   /* of MLPs, or of experts, where they stand alone */
    double sparse[MC_MAX_LAYERS];    /* mc_gated_spec */
    const mc_gguf *gguf;             /* NULL: the numbers are a spec's, */
    const mc_decoder_spec *spec;     /* this one's */
    mc_rope_spec full, sliding;      /* of layers without windows, and with */
} mc_gguf_numbers;

/* The numbers of a spec. */
void mc_gguf_numbers_of(const mc_gguf_arch *arch, const mc_decoder_spec *spec,
                        mc_gguf_numbers *numbers);

/* The numbers of a file.
 * errors  MICA_EFORMAT keys are missing, are out of range, or are lists of another length;
 *         MICA_EUNSUPPORTED a RoPE that mica does not have */
mica_status mc_gguf_numbers_read(const mc_gguf *gguf, const mc_gguf_arch *arch,
                                 mc_gguf_numbers *numbers);

/* Adds them as metadata. false: no memory */
bool mc_gguf_numbers_put(const mc_gguf_arch *arch, const mc_gguf_numbers *numbers,
                         mc_gguf_pairs *out);

/* Writes config.json's text, without what a file's tokenizer says, and without the closing brace.
 * false: no memory */
bool mc_gguf_numbers_config(const mc_gguf_arch *arch, const mc_gguf_numbers *numbers,
                            mc_buffer *out);

/* What files and configs call an mc_activation; NULL: they have none. */
const char *mc_gguf_function(double activation);

/* Whether the tensor of a row of MC_GGUF_FOUND is there, in any layer. */
bool mc_gguf_found(const mc_gguf_arch *arch, const mc_gguf_numbers *numbers,
                   const mc_gguf_row *row);

/* What a model has, and a model that was written as an architecture and read again has not; NULL:
 * it is the same. */
const char *mc_gguf_misfit(const mc_decoder_spec *model, const mc_decoder_spec *again);

#endif
