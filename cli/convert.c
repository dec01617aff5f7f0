/* mica convert: a model in another dtype or other files, of a GGUF file or as one; an ONNX file as
 * a program. */
#include "converting.h"
#include "model.h"
#include "path.h"
#include "report.h"
#include "verb.h"

typedef struct convert_values {
    cli_convert_values common;
    cli_texts dims;
} convert_values;

static int run(const void *verb_values, char **args, int count) {
    const convert_values *values = verb_values;
    mica_convert_options options = {0};
    const char *from = values->common.model, *to = values->common.output;
    int used = 0;
    if (!from && used < count) from = args[used++];
    if (!to && used < count) to = args[used++];
    if (from && cli_path_ends(from, ".onnx")) {
        if (used < count) return cli_usage("convert", "'%s' is one argument too many", args[used]);
        if (!to) return cli_usage("convert", "name the file to make, such as net.mica");
        if (values->common.dtype != 0 || values->common.shard_size != CLI_SHARD_SIZE)
            return cli_usage("convert", "--dtype and --shard-size are not for ONNX files");
        return cli_convert_onnx(from, to, &values->dims);
    }
    if (values->dims.count > 0) return cli_usage("convert", "--dim is for ONNX files");
    return cli_convert(&values->common, "convert", args, count, &options);
}

static const cli_option onnx_options[] = {
    {.name = "dim",
     .kind = CLI_TEXTS,
     .placeholder = "NAME=N",
     .help = "a length that the ONNX file has by name: batch=1",
     .offset = offsetof(convert_values, dims),
     .no_variable = true},
};

const cli_verb cli_verb_convert = {
    .synopsis = "[MODEL] [FOLDER]",
    .details =
        "Copies MODEL in another dtype, or in files of another size. MODEL may also be a GGUF\n"
        "file: blocks that MLX's quantisation has, too, are kept as they are (Q4_0, Q4_1,\n"
        "Q5_0, Q5_1, Q8_0, MXFP4), others are dequantised.\n"
        "\n" CLI_CONVERT_HELP "\n" CLI_DEFAULT_MODEL_HELP "\n"
        "Or MODEL is an ONNX file, of opset 13 to 28, and FOLDER the file of a program to\n"
        "make (mica help program). What the file's constants decide is computed. Operators\n"
        "that mica lacks are listed, all of them.\n",
    .examples = "  mica convert qwen3-0.6b-q8_0.gguf ~/models/qwen3-0.6b-8bit\n"
                "  mica convert ~/models/qwen3-0.6b-4bit qwen3-0.6b.gguf\n"
                "  mica convert ~/models/qwen3-0.6b small --dtype float16\n"
                "  mica convert ~/models/qwen3-0.6b pieces --shard-size 1024\n"
                "  mica convert resnet.onnx resnet.mica --dim batch=1\n",
    .max_args = 2,
    .words = CLI_WORDS_FOLDERS,
    .values_bytes = sizeof(convert_values),
    .groups = {{"Files", cli_convert_options, CLI_CONVERT_OPTIONS,
                offsetof(convert_values, common)},
               {"ONNX", onnx_options, CLI_COUNT(onnx_options), 0}},
    .run = run,
};
