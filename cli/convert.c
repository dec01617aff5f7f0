/* mica convert: a model in another dtype or other files, of a GGUF file or as one. */
#include "converting.h"
#include "model.h"
#include "verb.h"

typedef struct convert_values {
    cli_convert_values common;
} convert_values;

static int run(const void *verb_values, char **args, int count) {
    const convert_values *values = verb_values;
    mica_convert_options options = {0};
    return cli_convert(&values->common, "convert", args, count, &options);
}

const cli_verb cli_verb_convert = {
    .synopsis = "[MODEL] [FOLDER]",
    .details =
        "Copies MODEL in another dtype, or in files of another size. MODEL may also be a GGUF\n"
        "file: blocks that MLX's quantisation has, too, are kept as they are (Q4_0, Q4_1,\n"
        "Q5_0, Q5_1, Q8_0, MXFP4), others are dequantised.\n"
        "\n" CLI_CONVERT_HELP "\n" CLI_DEFAULT_MODEL_HELP,
    .examples = "  mica convert qwen3-0.6b-q8_0.gguf ~/models/qwen3-0.6b-8bit\n"
                "  mica convert ~/models/qwen3-0.6b-4bit qwen3-0.6b.gguf\n"
                "  mica convert ~/models/qwen3-0.6b small --dtype float16\n"
                "  mica convert ~/models/qwen3-0.6b pieces --shard-size 1024\n",
    .max_args = 2,
    .words = CLI_WORDS_FOLDERS,
    .values_bytes = sizeof(convert_values),
    .groups = {{"Files", cli_convert_options, CLI_CONVERT_OPTIONS,
                offsetof(convert_values, common)}},
    .run = run,
};
