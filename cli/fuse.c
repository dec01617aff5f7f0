/* mica fuse: a model with an adapter's weights added to its own. */
#include "converting.h"
#include "model.h"
#include "report.h"
#include "verb.h"

typedef struct fuse_values {
    cli_convert_values common;
    const char *adapter;
    bool dequantize;
} fuse_values;

static int run(const void *verb_values, char **args, int count) {
    const fuse_values *values = verb_values;
    mica_convert_options options = {.adapter = values->adapter, .dequantise = values->dequantize};
    if (!values->adapter) return cli_usage("fuse", "name the adapter's folder: --adapter FOLDER");
    return cli_convert(&values->common, "fuse", args, count, &options);
}

static const cli_option fuse_options[] = {
    CLI_OPTION(FOLDER, "adapter", fuse_values, adapter, .letter = 'a', .placeholder = "FOLDER",
               .help =
                   "an adapter of the model, of mica, mlx-lm or PEFT: LoRA, DoRA or full training"),
    CLI_OPTION(FLAG, "dequantize", fuse_values, dequantize, .letter = 'd',
               .help =
                   "dequantise all matrices: those that the adapter changes are not rounded again"),
};

const cli_verb cli_verb_fuse = {
    .synopsis = "[MODEL] [FOLDER] --adapter FOLDER",
    .details =
        "Adds an adapter to the weights of MODEL, so that the result needs no adapter. Of a\n"
        "quantised model, the matrices that the adapter changes are dequantised, changed,\n"
        "and quantised as they were.\n"
        "\n" CLI_CONVERT_HELP "\n" CLI_DEFAULT_MODEL_HELP,
    .examples = "  mica fuse ~/models/qwen3-0.6b fused --adapter adapters\n"
                "  mica fuse ~/models/qwen3-0.6b-4bit fused --adapter adapters --dequantize\n",
    .max_args = 2,
    .words = CLI_WORDS_FOLDERS,
    .values_bytes = sizeof(fuse_values),
    .groups = {{"Adapter", fuse_options, CLI_COUNT(fuse_options), 0},
               {"Files", cli_convert_options, CLI_CONVERT_OPTIONS, offsetof(fuse_values, common)}},
    .run = run,
};
