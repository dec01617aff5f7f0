/* mica quantize: a model with quantised weights, or with dequantised ones. */
#include "converting.h"
#include "model.h"
#include "report.h"
#include "verb.h"

typedef struct quantize_values {
    cli_convert_values common;
    int64_t bits, group_size; /* 0: the mode's own */
    int64_t mode;             /* a mica_quant_mode */
    int64_t recipe;           /* 0: none, else 1 + its number */
    bool dequantize;
    const char *calibrate; /* file; NULL: none */
    double target_bits;
} quantize_values;

static int run(const void *verb_values, char **args, int count) {
    const quantize_values *values = verb_values;
    mica_convert_options options = {
        .quantise = !values->dequantize,
        .dequantise = values->dequantize,
        .quant = {(mica_quant_mode)values->mode, (int)values->bits, (int)values->group_size},
        .recipe = values->recipe ? mica_recipe_name((size_t)values->recipe - 1) : NULL,
        .calibration = values->calibrate,
        .target_bits = values->target_bits};
    return cli_convert(&values->common, "quantize", args, count, &options);
}

static const cli_option quantize_options[] = {
    {.name = "bits",
     .letter = 'b',
     .kind = CLI_INT,
     .placeholder = "N",
     .initial = "0",
     .max = 8,
     .help = "bits of a weight: 2, 3, 4, 5, 6 or 8; 0: the mode's own, 4, or 8 for mxfp8",
     .offset = offsetof(quantize_values, bits)},
    {.name = "group-size",
     .letter = 'g',
     .kind = CLI_INT,
     .placeholder = "N",
     .initial = "0",
     .max = 128,
     .help = "weights that share a scale: 32, 64 or 128; 0: the mode's own, 64 for affine",
     .offset = offsetof(quantize_values, group_size)},
    {.name = "mode",
     .kind = CLI_CHOICE,
     .placeholder = "MODE",
     .initial = "affine",
     .choices = "affine mxfp4 mxfp8 nvfp4",
     .help = "affine: integers with a scale and a bias; the others: floats of 4 or 8 bits with a "
             "scale",
     .offset = offsetof(quantize_values, mode)},
    {.name = "recipe",
     .kind = CLI_CHOICE,
     .placeholder = "NAME",
     .initial = "none",
     .choices = "none mixed_2_6 mixed_3_4 mixed_3_6 mixed_4_6",
     .help = "mixed bits: the second number for sensitive matrices, the first for all others",
     .offset = offsetof(quantize_values, recipe)},
    {.name = "calibrate",
     .kind = CLI_FILE,
     .placeholder = "FILE",
     .help = "choose the bits of each layer by the divergence that they cause on this text",
     .offset = offsetof(quantize_values, calibrate)},
    {.name = "target-bits",
     .kind = CLI_REAL,
     .placeholder = "X",
     .initial = "0",
     .max = 32,
     .help = "with --calibrate: bits per parameter of the result, scales included; 0: 4.5",
     .offset = offsetof(quantize_values, target_bits)},
    {.name = "dequantize",
     .letter = 'd',
     .kind = CLI_FLAG,
     .help = "dequantise a quantised model instead",
     .offset = offsetof(quantize_values, dequantize)},
};

const cli_verb cli_verb_quantize = {
    .synopsis = "[MODEL] [FOLDER]",
    .details =
        "Quantises the matrices of MODEL as MLX does, to the same bits. mica, mlx-lm and\n"
        "MLX load the result. `mica eval FOLDER --reference MODEL` measures what it costs.\n"
        "--calibrate quantises each layer with 2, 3, 4, 5, 6 and 8 bits, measures on a text\n"
        "what that changes, and spends the bits where they count most.\n"
        "\n" CLI_CONVERT_HELP "\n" CLI_DEFAULT_MODEL_HELP,
    .examples = "  mica quantize ~/models/qwen3-0.6b ~/models/qwen3-0.6b-4bit\n"
                "  mica quantize ~/models/qwen3-0.6b small --recipe mixed_3_6\n"
                "  mica quantize ~/models/qwen3-0.6b small --mode mxfp4\n"
                "  mica quantize ~/models/qwen3-0.6b small --calibrate text.txt --target-bits 4\n"
                "  mica quantize ~/models/qwen3-0.6b-4bit dense --dequantize\n",
    .max_args = 2,
    .words = CLI_WORDS_FOLDERS,
    .values_bytes = sizeof(quantize_values),
    .groups = {{"Weights", quantize_options, CLI_COUNT(quantize_options), 0},
               {"Files", cli_convert_options, CLI_CONVERT_OPTIONS,
                offsetof(quantize_values, common)}},
    .run = run,
};
