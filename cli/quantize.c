/* mica quantize: a model with quantised weights, or with dequantised ones. */
#include "converting.h"
#include "model.h"
#include "report.h"
#include "verb.h"

typedef struct quantize_values {
    cli_convert_values common;
    cli_quant_values quant;
    const char *calibrate; /* file; NULL: none */
    double target_bits;
} quantize_values;

static int run(const void *verb_values, char **args, int count) {
    const quantize_values *values = verb_values;
    mica_convert_options options = {.quantise = !values->quant.dequantize,
                                    .calibration = values->calibrate,
                                    .target_bits = values->target_bits};
    cli_quant_set(&values->quant, &options);
    return cli_convert(&values->common, "quantize", args, count, &options);
}

static const cli_option calibrate_options[] = {
    CLI_OPTION(FILE, "calibrate", quantize_values, calibrate, .placeholder = "FILE",
               .help =
                   "choose the bits of each layer by the divergence that they cause on this text"),
    CLI_OPTION(REAL, "target-bits", quantize_values, target_bits, .placeholder = "X",
               .initial = "0", .max = 32,
               .help =
                   "with --calibrate: bits per parameter of the result, scales included; 0: 4.5"),
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
    .groups = {{"Weights", cli_quant_options, CLI_QUANT_OPTIONS, offsetof(quantize_values, quant)},
               {"Calibration", calibrate_options, CLI_COUNT(calibrate_options), 0},
               {"Files", cli_convert_options, CLI_CONVERT_OPTIONS,
                offsetof(quantize_values, common)}},
    .run = run,
};
