/* Models from one form to another: quantised, dequantised, with an adapter fused into them, in
 * another dtype, in other shards, of or as GGUF files, of the formats of other programs.
 *
 *     mica_convert_options options = {.quantise = true, .quant = {MICA_QUANT_AFFINE, 4, 64}};
 *     mica_status status = mica_convert("models/qwen3", "models/qwen3-4bit", &options, NULL);
 *
 * Tensors are converted one after the other, so memory is bounded by about one tensor. Other files
 * of the model (tokenizer, chat template, generation_config.json, ...) are copied. The new folder
 * appears whole or not at all. mica, mlx-lm and, if nothing is quantised, transformers load it.
 *
 * Threads: any number of conversions may run at once. */
#ifndef MICA_CONVERT_H
#define MICA_CONVERT_H

#include <mica/api.h>
#include <mica/model.h>
#include <mica/ops.h>
#include <mica/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

MICA_BEGIN

/** Options of mica_convert; zero means the default: a copy in one dtype and new shards. */
typedef struct mica_convert_options {
    size_t struct_bytes; /* see mica/api.h */
    const char *adapter; /* folder of a LoRA adapter (mlx-lm's or PEFT's) to fuse: scale * A B is
                            added to its weights; or of full training, whose tensors take their
                            place. A quantised weight is dequantised before and quantised as it was
                            afterwards. NULL: none. Borrowed */
    mica_quant quant;   /* how matrices are quantised; bits and group_size 0: the mode's own (affine
                            4 and 64, mxfp4 4 and 32, mxfp8 8 and 32, nvfp4 4 and 16) */
    const char *recipe; /* "mixed_2_6", "mixed_3_4", "mixed_3_6" or "mixed_4_6": affine, with the
                            second number of bits for the head, and for the value and down
                            projections of the first and last eighth of the layers and every third
                            one between; the first number for all others. NULL: none. Borrowed */
    const char *dtype;  /* "float32", "float16" or "bfloat16" of what is not quantised, and of
                            scales; NULL: as it is, and with `quantise` what config.json says.
                            Borrowed */
    uint64_t shard_bytes;      /* maximum size of a file's tensors; 0: 5 GiB */
    mica_progress progress;    /* in bytes of the source; may be NULL */
    void *progress_user;       /* given to progress */
    const mica_cancel *cancel; /* watched; may be NULL. Borrowed */
    int threads;               /* 0: one per usable core */
    bool quantise;             /* quantise the matrices whose rows are whole groups. Those of vision
                                  and audio towers stay as they are */
    bool dequantise;           /* dequantise all matrices */
    const char *calibration; /* a file of text, of which the first 256 tokens count: with `quantise`
                                in the mode affine, the bits of attention and MLP of each layer, of
                                embedding and head are chosen by the divergence of the model's
                                predictions on it, measured with each number of bits. It takes one
                                pass over the text for each of them. NULL: none. Borrowed */
    double target_bits;      /* bits per parameter of the whole model that a calibration may spend,
                           scales and what is not quantised included; 0: 4.5 */
} mica_convert_options;

/** What a conversion has made. */
typedef struct mica_convert_result {
    size_t struct_bytes;  /* see mica/api.h */
    uint64_t parameters;  /* logical: a 4-bit weight counts as one */
    uint64_t bytes;       /* of all tensors */
    uint64_t quantised;   /* number of quantised matrices */
    double bits;          /* per parameter */
    uint64_t fused;       /* number of matrices that the adapter has changed */
    uint64_t dequantised; /* number of matrices for which a GGUF file has no blocks of their own */
    double divergence;    /* of a calibration: mean KL(model || quantised) on its text, in nats */
} mica_convert_result;

/** The number of recipes; the name of the i-th, NULL past the end. */
MICA_API size_t mica_recipe_count(void);
MICA_API const char *mica_recipe_name(size_t i);

/** Converts a model. Codes, scales and biases equal those of MLX bit for bit, and
 *  recipes and names of files those of mlx-lm. Left out are tensors that no program reads: inverse
 *  frequencies of RoPE, and the head of a model whose config ties it to the embedding.
 *
 *  from     a model folder, of MLX's layout or one that other programs have quantised (fp8,
 *           compressed-tensors, GPTQ, AWQ, mxfp4, mxfp8, nvfp4); or a GGUF file, or one of several
 *           that are one model. Borrowed.
 *           Matrices that others have quantised become MLX's layout, some of them in 8 bits anew;
 *           with `quantise` or `dequantise` they are made of the numbers that they stand for.
 *           Blocks of a GGUF file become quantised matrices in groups of 32: Q4_0, Q4_1, Q5_0,
 *           Q5_1, Q8_0, MXFP4, TQ1_0 and TQ2_0 with the same weights, Q4_K and Q5_K with scales
 *           and biases rounded to f16, Q2_K, Q3_K, IQ4_NL and IQ4_XS in 6 bits anew, Q6_K in 8.
 *           F32, F16 and BF16 stay as they are, Q8_K becomes f16. The file must have all tensors
 *           of its architecture, and no others. tokenizer.json, tokenizer_config.json and
 *           generation_config.json are made of its metadata.
 *  to       a new folder, or an empty one. Borrowed. A name that ends in .gguf is that of a new
 *           file, which llama.cpp loads. Its matrices keep their quantisation if GGUF has blocks
 *           that hold exactly the same weights: affine of 4 bits or fewer as Q4_0 or Q4_1, of 5
 *           bits as Q5_0 or Q5_1, of 8 bits as Q8_0 if the bias of each group is -128 * scale, all
 *           if scales and biases are numbers of f16; mxfp4 as MXFP4. Others are dequantised, and
 *           counted. Vectors are f32. It holds the tokenizer (byte-level ones, Llama 2's,
 *           Gemma's) and the chat template; "none" for a folder without tokenizer.json. shard_bytes
 *           is not read.
 *           docs/formats.md lists the architectures, tokenizers and formats of both directions.
 *  options  NULL for the defaults. Borrowed.
 *  result   is filled; may be NULL.
 *  errors   MICA_EINVAL `to` exists; options that exclude each other; bits or groups that the mode
 *           does not have; `quantise` of a model that is quantised, or that has no matrix
 *           whose rows are whole groups; from a GGUF file to another
 *           MICA_ENOENT no such model, adapter or parent folder; the adapter is for another model
 *           (the text lists the modules that the model lacks)
 *           MICA_ESHAPE the adapter's factors do not fit; a tensor of a GGUF file has another shape
 *           than its metadata says
 *           MICA_EUNSUPPORTED a tensor's dtype is none of mica's; a GGUF file of another
 *           architecture, tokenizer or kind of block: the text names it; a model, a tokenizer or,
 *           with `quantise`, a quantisation that GGUF does not have
 *           MICA_EFORMAT, MICA_EIO, MICA_ENOMEM, MICA_ECANCELLED. After an error nothing is left
 *  source   MLX's layout of quantised weights; mlx-lm 0.32 (convert, fuse). */
MICA_API mica_status mica_convert(const char *from, const char *to,
                                  const mica_convert_options *options, mica_convert_result *result);

/** Options of mica_gguf_folder; zero means the default. Strings are borrowed. */
typedef struct mica_gguf_options {
    size_t struct_bytes; /* see mica/api.h */
    const char *name;    /* what mica_discover calls the model: "org/name-GGUF:Q4_K_M"; NULL: after
                              the file */
    const char *cache;   /* folder of the cache; NULL, "": $MICA_GGUF_CACHE, else mica/gguf in
                              $XDG_CACHE_HOME or ~/.cache */
    mica_progress progress;    /* in bytes of the files, if they are converted; may be NULL */
    void *progress_user;       /* given to progress */
    int threads;               /* 0: one per usable core */
    const mica_cancel *cancel; /* watched; may be NULL */
} mica_gguf_options;

/** The model folder of a GGUF file: converted once, as mica_convert does without options, kept in a
 *  cache, and found there as long as the file of that path has the same size, time and inode.
 *
 *  A conversion that was broken off leaves nothing that counts. Of several processes that want one
 *  model, one converts and the others wait.
 *
 *  path     a GGUF file; one of several that are one model (-00001-of-00003.gguf); or a folder that
 *           holds one model in such files, those of vision towers (mmproj) aside. Borrowed.
 *  options  NULL for the defaults. Borrowed.
 *  folder   receives the path, for mica_model_open; freed with mica_free. NULL after an error.
 *  errors   those of mica_convert from a GGUF file
 *           MICA_EINVAL the folder holds several models; the cache has a folder of that name that
 *           was not made of a GGUF file, which stays; name leads out of the cache; the file's path
 *           has a line break
 *           MICA_ENOENT there is no file, one of several is missing, or there is no place for the
 *           cache; MICA_EIO the cache cannot be written, or the disk is full */
MICA_API mica_status mica_gguf_folder(const char *path, const mica_gguf_options *options,
                                      char **folder);

MICA_END

#endif
