/* Shared by `quantize`, `fuse` and `convert`: their common options, and the run. */
#ifndef CLI_CONVERTING_H
#define CLI_CONVERTING_H

#include "options.h"

#include <mica/mica.h>

typedef struct cli_convert_values {
    const char *model, *output;
    int64_t dtype;      /* of the option's choices: 0 is the source's */
    int64_t shard_size; /* in MB */
    int64_t threads;    /* 0: one per usable core */
    bool quiet;
} cli_convert_values;

/* The first CLI_CONVERT_FILES rows are without --quiet, whose letter is `convert`'s --quantize. */
enum {
    CLI_CONVERT_FILES = 5,
    CLI_CONVERT_OPTIONS = 6,
    CLI_SHARD_SIZE = 5120 /* where no option gives another */
};
extern const cli_option cli_convert_options[CLI_CONVERT_OPTIONS];

/* How matrices are quantised, or that they are dequantised: of `quantize` and `convert`. */
typedef struct cli_quant_values {
    int64_t bits, group_size; /* 0: the mode's own */
    int64_t mode;             /* a mica_quant_mode */
    int64_t recipe;           /* 0: none, else 1 + its number */
    bool dequantize;
} cli_quant_values;

enum { CLI_QUANT_OPTIONS = 5 };
extern const cli_option cli_quant_options[CLI_QUANT_OPTIONS];

/** Sets the members of options that these values are for, but not `quantise`. */
void cli_quant_set(const cli_quant_values *values, mica_convert_options *options);

/* A paragraph of --help. */
#define CLI_CONVERT_HELP                                                                    \
    "FOLDER is made, and must not exist. It holds all that the model needs: config.json,\n" \
    "weights, tokenizer, chat template. It appears whole or not at all. If its name ends\n" \
    "in .gguf it becomes a GGUF file, as llama.cpp loads it. Quantised matrices are kept\n" \
    "in it if GGUF has blocks that hold them exactly (affine of 2 to 5 bits whose scales\n" \
    "are numbers of f16, symmetric 8 bits, mxfp4); others are dequantised.\n"

/** Converts the model that the options and words name.
 *
 *  args, count  [MODEL] [FOLDER]; each is one that no option gives.
 *  options      the verb's own; the common ones are filled in.
 *  returns      an exit code; what was made is printed on stdout */
int cli_convert(const cli_convert_values *values, const char *verb_name, char **args, int count,
                mica_convert_options *options);

/** Makes a program's file of an ONNX file (convert_onnx.c).
 *
 *  dims     of --dim: NAME=N
 *  inputs   of --input: NAME=VALUE
 *  returns  an exit code; what was made is printed on stdout */
int cli_convert_onnx(const char *from, const char *to, const cli_texts *dims,
                     const cli_texts *inputs);

#endif
