/* mica convert: a model in another dtype or other files, of a GGUF file or as one; an ONNX file as
 * a program. */
#include "converting.h"
#include "model.h"
#include "path.h"
#include "report.h"
#include "verb.h"

typedef struct convert_values {
    cli_convert_values common;
    cli_quant_values quant;
    bool quantize;
    cli_texts dims, inputs;
} convert_values;

/* As mlx_lm.convert: without -q nothing is quantised, and what says how would do nothing.  returns
 * an exit code */
static int check_quant(const convert_values *values) {
    const cli_quant_values *q = &values->quant;
    bool how = q->bits != 0 || q->group_size != 0 || q->mode != 0 || q->recipe != 0;
    if (values->quantize && q->dequantize)
        return cli_usage("convert", "--quantize and --dequantize are two conversions");
    return how && !values->quantize
               ? cli_usage("convert", "--bits, --group-size, --mode and --recipe need --quantize")
               : CLI_DONE;
}

static int run(const void *verb_values, char **args, int count) {
    const convert_values *values = verb_values;
    mica_convert_options options = {.quantise = values->quantize};
    const char *from = values->common.model, *to = values->common.output;
    int used = 0, code = check_quant(values);
    if (code != CLI_DONE) return code;
    if (!from && used < count) from = args[used++];
    if (!to && used < count) to = args[used++];
    if (from && cli_path_ends(from, ".onnx")) {
        if (used < count) return cli_usage("convert", "'%s' is one argument too many", args[used]);
        if (!to) return cli_usage("convert", "name the file to make, such as net.mica");
        if (values->common.dtype != 0 || values->common.shard_size != CLI_SHARD_SIZE)
            return cli_usage("convert", "--dtype and --shard-size are not for ONNX files");
        if (values->quantize || values->quant.dequantize)
            return cli_usage("convert", "--quantize and --dequantize are not for ONNX files");
        return cli_convert_onnx(from, to, &values->dims, &values->inputs);
    }
    if (values->dims.count > 0 || values->inputs.count > 0)
        return cli_usage("convert", "--dim and --input are for ONNX files");
    cli_quant_set(&values->quant, &options);
    return cli_convert(&values->common, "convert", args, count, &options);
}

static const cli_option convert_options[] = {
    CLI_OPTION(FLAG, "quiet", convert_values, common.quiet,
               .help = "print no progress on stderr; it has no letter here: -q is --quantize"),
    CLI_OPTION(FLAG, "quantize", convert_values, quantize, .letter = 'q',
               .help = "quantise the matrices, as mica quantize and mlx_lm.convert do"),
};

static const cli_option onnx_options[] = {
    CLI_OPTION(TEXTS, "dim", convert_values, dims, .placeholder = "NAME=N", .no_variable = true,
               .help = "fix a length that the ONNX file leaves open, by its name or by input and "
                       "axis: batch=1, x.0=1; others stay open"),
    CLI_OPTION(
        TEXTS, "input", convert_values, inputs, .placeholder = "NAME=VALUE", .no_variable = true,
        .help =
            "fix an input of the ONNX file: a number for all elements, or a file with an array"),
};

const cli_verb cli_verb_convert = {
    .synopsis = "[MODEL] [FOLDER]",
    .details =
        "Copies MODEL in another dtype, in files of another size, or quantised (-q), with the\n"
        "options of mlx_lm.convert. MODEL may also be a GGUF\n"
        "file: blocks that MLX's quantisation has, too, are kept as they are (Q4_0, Q4_1,\n"
        "Q5_0, Q5_1, Q8_0, MXFP4), others are dequantised.\n"
        "\n" CLI_CONVERT_HELP "\n" CLI_DEFAULT_MODEL_HELP "\n"
        "Or MODEL is an ONNX file, of opset 6 to 28, and FOLDER the file of a program to\n"
        "make (mica help program). What the file's constants decide is computed; lengths that\n"
        "it leaves open stay so. All that mica lacks of it is listed.\n",
    .examples = "  mica convert qwen3-0.6b-q8_0.gguf ~/models/qwen3-0.6b-8bit\n"
                "  mica convert ~/models/qwen3-0.6b-4bit qwen3-0.6b.gguf\n"
                "  mica convert ~/models/qwen3-0.6b small --dtype float16\n"
                "  mica convert --hf-path ~/models/qwen3-0.6b -q --mlx-path qwen3-0.6b-4bit\n"
                "  mica convert ~/models/qwen3-0.6b pieces --shard-size 1024\n"
                "  mica convert resnet.onnx resnet.mica --dim batch=1\n",
    .max_args = 2,
    .words = CLI_WORDS_FOLDERS,
    .values_bytes = sizeof(convert_values),
    .groups = {{"Files", cli_convert_options, CLI_CONVERT_FILES, offsetof(convert_values, common)},
               {"Conversion", convert_options, CLI_COUNT(convert_options), 0},
               {"Weights", cli_quant_options, CLI_QUANT_OPTIONS, offsetof(convert_values, quant)},
               {"ONNX", onnx_options, CLI_COUNT(onnx_options), 0}},
    .run = run,
};
