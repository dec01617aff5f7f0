#include "model.h"

#include "report.h"
#include "ui.h"
#include "verb.h"

const cli_option cli_model_options[CLI_MODEL_OPTIONS] = {
    {.name = "model",
     .letter = 'm',
     .kind = CLI_FOLDER,
     .placeholder = "MODEL",
     .help = "the model's folder",
     .offset = offsetof(cli_model_values, model),
     .own_variable = true},
    {.name = "adapter",
     .letter = 'a',
     .kind = CLI_FOLDER,
     .placeholder = "FOLDER",
     .help = "a LoRA adapter of the model, made by mlx-lm or PEFT",
     .offset = offsetof(cli_model_values, adapter)},
    {.name = "arithmetic",
     .kind = CLI_CHOICE,
     .placeholder = "fast|exact",
     .initial = "fast",
     .choices = "fast exact",
     .help = "fast: activations in 8 bits where weights are quantised, in bf16 where "
             "these are bf16 and the machine is faster for it; exact: in floats",
     .offset = offsetof(cli_model_values, arithmetic)},
    {.name = "cache",
     .kind = CLI_CHOICE,
     .placeholder = "TYPE",
     .initial = "auto",
     .choices = "auto f32 f16 bf16 int8",
     .help = "keys and values are kept in f32, f16, bf16 or int8 (with a scale for each 32); auto: "
             "bf16 in fast arithmetic, else f32",
     .offset = offsetof(cli_model_values, cache)},
    {.name = "no-mmap",
     .kind = CLI_FLAG,
     .help = "read the weights into memory instead of mapping their files",
     .offset = offsetof(cli_model_values, no_mmap)},
    {.name = "prefetch",
     .kind = CLI_FLAG,
     .help = "read mapped weights ahead, before the first token",
     .offset = offsetof(cli_model_values, prefetch)},
    {.name = "mlock",
     .kind = CLI_FLAG,
     .help = "keep the weights in memory, so that they are never swapped",
     .offset = offsetof(cli_model_values, mlock)},
    {.name = "threads",
     .letter = 't',
     .kind = CLI_INT,
     .placeholder = "N",
     .initial = "0",
     .max = 1024,
     .help = "threads that compute; 0: one a core",
     .offset = offsetof(cli_model_values, threads)},
    {.name = "context",
     .letter = 'c',
     .kind = CLI_INT,
     .placeholder = "N",
     .initial = "0",
     .max = 1e9,
     .help = "tokens to keep in mind, the oldest are forgotten; 0: as many as the model can, and "
             "an error above",
     .offset = offsetof(cli_model_values, context)},
};

mica_model_options cli_model_get_options(const cli_model_values *values) {
    return (mica_model_options){
        .adapter = values->adapter,
        .arithmetic = values->arithmetic == 0 ? MICA_ARITHMETIC_FAST : MICA_ARITHMETIC_EXACT,
        .cache = (mica_cache_type)values->cache, /* the choices are in its order */
        .no_mmap = values->no_mmap,
        .prefetch = values->prefetch,
        .mlock = values->mlock,
        .threads = (int)values->threads,
        .context_length = values->context,
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
    if (status == MICA_OK) return model;
    if (status == MICA_ENOMEM && options->mlock)
        cli_fail("%s", mica_last_error()); /* memory may be plenty: the text says what is not */
    else
        cli_fail_status(status);
    if (status == MICA_ENOENT && !cli_is_model(path))
        cli_hint("A model is a folder that holds config.json, tokenizer.json and *.safetensors.");
    return NULL;
}

mica_model *cli_model_open_default(const cli_model_values *values, const char *word,
                                   const char *verb_name, bool quiet, int *code) {
    const char *path = cli_model_find(values->model, word, verb_name, code);
    if (!path) return NULL;
    *code = CLI_FAILED;
    const mica_model_options options = cli_model_get_options(values);
    return cli_model_open(path, &options, quiet);
}

mica_session *cli_model_open_session(const mica_model *model, const cli_model_values *values,
                                     const char *folder, bool quiet, mica_model **draft) {
    int code;
    mica_session *session = NULL;
    mica_model_options options = cli_model_get_options(values);
    options.adapter = NULL;
    options.device = mica_model_device(model);
    const char *path = folder ? cli_model_find(folder, NULL, "", &code) : NULL;
    *draft = path ? cli_model_open(path, &options, quiet) : NULL;
    if (folder && !*draft) return NULL;
    const mica_session_options with_draft = {.draft_model = *draft};
    mica_status status = mica_session_open(model, &with_draft, &session);
    if (status != MICA_OK) cli_fail_status(status);
    return session;
}
