#include "model.h"

#include "ranks.h"
#include "report.h"
#include "ui.h"
#include "verb.h"

#include <stdlib.h>
#include <string.h>

const cli_option cli_model_options[CLI_MODEL_SESSION] = {
    CLI_OPTION(FOLDER, "model", cli_model_values, model, .letter = 'm', .placeholder = "MODEL",
               .own_variable = true, .help = "the model: a folder, a GGUF file, or a name"),
    CLI_OPTION(FLAG, "yes", cli_model_values, yes, .letter = 'y',
               .help = "download a model that is not there without asking"),
    CLI_OPTION(FOLDER, "adapter", cli_model_values, adapter, .letter = 'a', .placeholder = "FOLDER",
               .help = "a LoRA adapter of the model, made by mlx-lm or PEFT"),
    CLI_OPTION(TEXT, "device", cli_model_values, device, .placeholder = "NAME",
               .help = "the device that computes: cpu, cuda, mlx, mlx:gpu, mlx:cpu (mica devices "
                       "lists those of this machine); the default is cpu"),
    CLI_OPTION(INT, "gpu-layers", cli_model_values, gpu_layers, .placeholder = "N", .initial = "-1",
               .min = -1, .max = 1e6,
               .help = "layers, the last ones, that --device computes; the CPU computes the "
                       "others, whose weights and caches it keeps; -1: what is fastest "
                       "with the memory that the device has"),
    CLI_OPTION(TEXT, "engine", cli_model_values, engine, .placeholder = "NAME",
               .help = "the engine that computes: native, or mlx_lm for Python's mlx-lm (mica "
                       "devices lists them); the default is the first that knows the model"),
    CLI_OPTION(CHOICE, "arithmetic", cli_model_values, arithmetic, .placeholder = "fast|exact",
               .initial = "fast", .choices = "fast exact",
               .help = "fast: activations in int8 for quantised weights, in bf16 for bf16 weights "
                       "if the machine is faster with that; exact: in floats"),
    CLI_OPTION(CHOICE, "cache", cli_model_values, cache, .placeholder = "TYPE", .initial = "auto",
               .choices = "auto f32 f16 bf16 int8",
               .help = "type of cached keys and values: f32, f16, bf16 or int8 (with a scale for "
                       "each 32); auto: bf16 in fast arithmetic, else f32"),
    CLI_OPTION(FLAG, "no-mmap", cli_model_values, no_mmap,
               .help = "read the weights into memory instead of mapping their files"),
    CLI_OPTION(FLAG, "prefetch", cli_model_values, prefetch,
               .help = "read all mapped weights ahead, before the first token"),
    CLI_OPTION(FLAG, "mlock", cli_model_values, mlock,
               .help = "lock the weights in memory, so that they are never swapped"),
    CLI_OPTION(INT, "threads", cli_model_values, threads, .letter = 't', .placeholder = "N",
               .initial = "0", .max = 1024,
               .help = "number of threads that compute; 0: one per core"),
    CLI_OPTION(INT, "context", cli_model_values, context, .letter = 'c', .placeholder = "N",
               .initial = "0", .max = 1e9,
               .help = "context length in tokens; older tokens are forgotten; 0: the model's own, "
                       "and a longer prompt is an error"),
    CLI_OPTION(TEXT, "chat-template", cli_model_values, chat_template, .placeholder = "TEXT",
               .help = "a Jinja template to use instead of the model's own"),
    CLI_OPTION(FILE, "chat-template-file", cli_model_values, chat_template_file,
               .placeholder = "FILE", .help = "read the Jinja template from FILE"),
    CLI_OPTION(INT, "prefill-chunk", cli_model_values, prefill_chunk, .placeholder = "N",
               .initial = "0", .max = 1e6,
               .help = "number of the prompt's tokens computed at once; 0: 512, "
                       "2048 on cuda"),
};

const cli_option cli_model_ranks[CLI_MODEL_RANKS] = {
    CLI_OPTION(INT, "tensor-parallel", cli_model_values, tensor_parallel, .placeholder = "N",
               .initial = "0", .max = 1024,
               .help = "of the ranks that mpirun or srun has started, those that have a part of "
                       "each matrix; 0: all that --pipeline-parallel leaves"),
    CLI_OPTION(INT, "pipeline-parallel", cli_model_values, pipeline_parallel, .placeholder = "N",
               .initial = "0", .max = 1024,
               .help =
                   "parts of the layers, each of other ranks; 0: what --tensor-parallel leaves, "
                   "or 1"),
};

mica_model_options cli_model_get_options(const cli_model_values *values) {
    return (mica_model_options){
        .engine = values->engine,
        .device_name = values->device,
        .accelerator_layers = values->gpu_layers < 0    ? 0
                              : values->gpu_layers == 0 ? MICA_NO_LAYERS
                                                        : (int)values->gpu_layers,
        .adapter = values->adapter,
        .arithmetic = values->arithmetic == 0 ? MICA_ARITHMETIC_FAST : MICA_ARITHMETIC_EXACT,
        .cache = (mica_cache_type)values->cache, /* the choices have the enum's order */
        .no_mmap = values->no_mmap,
        .prefetch = values->prefetch,
        .mlock = values->mlock,
        .threads = (int)values->threads,
        .context_length = values->context,
        .group = cli_ranks_group(),
        .tensor_parallel = (int)values->tensor_parallel,
        .pipeline_parallel = (int)values->pipeline_parallel,
    };
}

const char *cli_arithmetic_name(mica_arithmetic arithmetic) {
    return arithmetic == MICA_ARITHMETIC_FAST ? "fast" : "exact";
}

mica_model *cli_model_open(const char *path, const mica_model_options *options, bool quiet) {
    mica_model_options with_progress = *options;
    mica_model *model = NULL;
    with_progress.progress = cli_progress_tick;
    cli_progress_start("loading", quiet);
    mica_status status = mica_model_open(path, &with_progress, &model);
    cli_progress_clear();
    if (status != MICA_OK) cli_model_report(status, path, options);
    return model;
}

void cli_model_report(mica_status status, const char *path, const mica_model_options *options) {
    if (status == MICA_ENOMEM && options->mlock)
        cli_fail("%s", mica_last_error()); /* without advice: there may be plenty of memory */
    else
        cli_fail_status(status);
    if (status == MICA_ENOENT && !cli_is_model(path))
        cli_hint("A model is a folder that holds config.json, tokenizer.json and *.safetensors.");
}

int cli_model_read_template(const cli_model_values *values, const char *verb_name, cli_text *out) {
    const char *text = values->chat_template, *file = values->chat_template_file;
    if (text && file)
        return cli_usage(verb_name, "two templates: --chat-template and --chat-template-file %s",
                         file);
    if (text && !strchr(text, '{'))
        return cli_usage(verb_name,
                         "--chat-template: '%s' is not a Jinja template; to read one from a file "
                         "use --chat-template-file",
                         text);
    bool read =
        text   ? cli_text_append(out, text, strlen(text))
        : file ? cli_text_read_file(out, CLI_TEXT_OF_TEMPLATE, file) && cli_text_check(out, file)
               : true;
    return read ? CLI_DONE : CLI_FAILED;
}

mica_model *cli_model_open_default(const cli_model_values *values, const char *word,
                                   const char *verb_name, bool quiet, int *code) {
    cli_text chat_template = {0};
    mica_model *model = NULL;
    mica_model_options options = cli_model_get_options(values);
    const char *path = cli_model_find(values->model, word, values->yes, verb_name, code);
    if (path) *code = cli_model_read_template(values, verb_name, &chat_template);
    if (path && *code == CLI_DONE) {
        *code = CLI_FAILED;
        options.chat_template = chat_template.data;
        model = cli_model_open(path, &options, quiet);
    }
    free(chat_template.data);
    return model;
}

mica_session *cli_model_open_session(const mica_model *model, const cli_model_values *values,
                                     const char *folder, bool quiet, mica_model **draft) {
    int code;
    mica_session *session = NULL;
    mica_model_options options = cli_model_get_options(values);
    options.adapter = NULL;
    options.accelerator_layers = 0; /* of the model's own layers */
    options.device = mica_model_device(model);
    const char *path = folder ? cli_model_find(folder, NULL, values->yes, "", &code) : NULL;
    *draft = path ? cli_model_open(path, &options, quiet) : NULL;
    if (folder && !*draft) return NULL;
    const mica_session_options session_options = {.prefill_chunk = values->prefill_chunk,
                                                  .draft_model = *draft};
    mica_status status = mica_session_open(model, &session_options, &session);
    if (status != MICA_OK) cli_fail_status(status);
    return session;
}
