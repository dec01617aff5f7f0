#include "converting.h"

#include "interrupt.h"
#include "model.h"
#include "path.h"
#include "print.h"
#include "report.h"
#include "ui.h"
#include "verb.h"

#include <inttypes.h>

static const char *const dtype_names[] = {NULL, "float32", "float16", "bfloat16"};

const cli_option cli_convert_options[CLI_CONVERT_OPTIONS] = {
    CLI_OPTION(FOLDER, "model", cli_convert_values, model, .letter = 'm', .placeholder = "MODEL",
               .own_variable = true, .help = "the model's folder"),
    CLI_OPTION(FOLDER, "output", cli_convert_values, output, .letter = 'o', .placeholder = "FOLDER",
               .help = "the folder to make, or the GGUF file"),
    CLI_OPTION(CHOICE, "dtype", cli_convert_values, dtype, .placeholder = "DTYPE",
               .initial = "source", .choices = "source float32 float16 bfloat16",
               .help = "dtype of what is not quantised, and of scales; source: as it is"),
    CLI_OPTION(INT, "shard-size", cli_convert_values, shard_size, .placeholder = "MB",
               .initial = "5120" /* CLI_SHARD_SIZE */, .min = 1, .max = 1e9,
               .help = "maximum size of a file of weights, in units of 1,048,576 bytes"),
    CLI_OPTION(INT, "threads", cli_convert_values, threads, .letter = 't', .placeholder = "N",
               .initial = "0", .max = 4096, .help = "number of threads; 0: one per core"),
    CLI_OPTION(FLAG, "quiet", cli_convert_values, quiet, .letter = 'q',
               .help = "print no progress on stderr"),
};

const cli_option cli_quant_options[CLI_QUANT_OPTIONS] = {
    CLI_OPTION(INT, "bits", cli_quant_values, bits, .letter = 'b', .placeholder = "N",
               .initial = "0", .max = 8,
               .help =
                   "bits of a weight: 2, 3, 4, 5, 6 or 8; 0: the mode's own, 4, or 8 for mxfp8"),
    CLI_OPTION(INT, "group-size", cli_quant_values, group_size, .letter = 'g', .placeholder = "N",
               .initial = "0", .max = 128,
               .help =
                   "weights that share a scale: 32, 64 or 128; 0: the mode's own, 64 for affine"),
    CLI_OPTION(CHOICE, "mode", cli_quant_values, mode, .placeholder = "MODE", .initial = "affine",
               .choices = "affine mxfp4 mxfp8 nvfp4",
               .help = "affine: integers with a scale and a bias; the others: floats of 4 or 8 "
                       "bits with a scale"),
    CLI_OPTION(
        CHOICE, "recipe", cli_quant_values, recipe, .placeholder = "NAME", .initial = "none",
        .choices = "none mixed_2_6 mixed_3_4 mixed_3_6 mixed_4_6",
        .help = "mixed bits: the second number for sensitive matrices, the first for all others"),
    CLI_OPTION(FLAG, "dequantize", cli_quant_values, dequantize, .letter = 'd',
               .help = "dequantise a quantised model instead"),
};

void cli_quant_set(const cli_quant_values *values, mica_convert_options *options) {
    options->dequantise = values->dequantize;
    options->quant =
        (mica_quant){(mica_quant_mode)values->mode, (int)values->bits, (int)values->group_size};
    options->recipe = values->recipe ? mica_recipe_name((size_t)values->recipe - 1) : NULL;
}

/* Watched by Ctrl-C: the first one ends the conversion, which removes what it has written. */
static mica_status convert(const char *from, const char *to, mica_convert_options *options,
                           bool quiet, mica_convert_result *result) {
    mica_cancel *cancel = NULL;
    mica_status status = mica_cancel_open(&cancel);
    if (status != MICA_OK) return status;
    cli_interrupt_watch_task(cancel);
    options->cancel = cancel;
    options->progress = cli_progress_tick;
    cli_progress_start("converting", quiet);
    status = mica_convert(from, to, options, result);
    cli_progress_clear();
    cli_interrupt_watch_task(NULL);
    mica_cancel_close(&cancel);
    return status;
}

/* The path of a GGUF file, else of a model's folder. */
static const char *find_source(const char *option, const char *word, const char *verb_name,
                               int *code) {
    const char *name = option ? option : word;
    if (name && cli_path_ends(name, ".gguf") && !cli_is_model(name)) return name;
    return cli_model_find(option, word, false, verb_name, code);
}

static void print_result(const char *to, const mica_convert_result *result) {
    char bytes[CLI_NUMBER], parameters[CLI_NUMBER];
    cli_print(stdout, "%s: %s parameters, %s, %.3f bits per parameter", to,
              cli_format_count(result->parameters, parameters),
              cli_format_bytes(result->bytes, bytes), result->bits);
    if (result->quantised) printf(", %" PRIu64 " matrices quantised", result->quantised);
    if (result->dequantised)
        printf(", %" PRIu64 " dequantised, for which GGUF has no blocks", result->dequantised);
    if (result->divergence != 0) printf(", mean KL %.6f", result->divergence);
    if (result->fused) printf(", %" PRIu64 " fused", result->fused);
    putchar('\n');
}

int cli_convert(const cli_convert_values *values, const char *verb_name, char **args, int count,
                mica_convert_options *options) {
    const char *word = NULL, *to = values->output;
    mica_convert_result result = {.struct_bytes = sizeof result};
    int code, used = 0;
    if (!values->model && used < count) word = args[used++];
    if (!to && used < count) to = args[used++];
    if (used < count) return cli_usage(verb_name, "'%s' is one argument too many", args[used]);
    if (!to) return cli_usage(verb_name, "name the folder to make, or a file.gguf");
    const char *from = find_source(values->model, word, verb_name, &code);
    if (!from) return code;
    options->struct_bytes = sizeof *options;
    options->dtype = dtype_names[values->dtype];
    options->shard_bytes = (uint64_t)values->shard_size << 20;
    options->threads = (int)values->threads;
    mica_status status = convert(from, to, options, values->quiet, &result);
    if (status == MICA_ECANCELLED) return CLI_INTERRUPTED;
    if (status != MICA_OK) return cli_fail_status(status);
    print_result(to, &result);
    return cli_flush() ? CLI_DONE : CLI_FAILED;
}
