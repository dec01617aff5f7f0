#define _POSIX_C_SOURCE 200809L
#include "model.h"

#include "exe.h"
#include "report.h"
#include "ui.h"
#include "verb.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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

bool cli_is_model(const char *path) {
    char file[4096];
    struct stat info;
    int n = snprintf(file, sizeof file, "%s/config.json", path);
    return n > 0 && (size_t)n < sizeof file && stat(file, &info) == 0;
}

/* The model that comes with mica: beside an installed program, in the source tree of one that was
 * built there, where `make install` puts it. */
static const char *find_own(char *out, size_t out_bytes) {
    static const char *const compiled[] = {MICA_SOURCE_MODELS, MICA_INSTALLED_MODELS};
    if (cli_exe_path(out, out_bytes)) {
        for (int up = 0; up < 2; up++) { /* .../bin/mica */
            char *slash = strrchr(out, '/');
            *(slash ? slash : out) = '\0';
        }
        size_t at = strlen(out);
        int n = snprintf(out + at, out_bytes - at, "/share/mica/models/default");
        if (n > 0 && (size_t)n < out_bytes - at && cli_is_model(out)) return out;
    }
    for (size_t i = 0; i < CLI_COUNT(compiled); i++) {
        snprintf(out, out_bytes, "%s/default", compiled[i]);
        if (cli_is_model(out)) return out;
    }
    return NULL;
}

const char *cli_model_find(const char *option, const char *word, const char *verb_name, int *code) {
    static char path[4096];
    if (option && word) {
        *code = cli_usage(verb_name, "two models: --model %s and %s", option, word);
        return NULL;
    }
    if (option || word) return option ? option : word;

    const char *model = getenv("MICA_MODEL");
    const char *models = getenv("MICA_MODELS");
    if (model && *model) return model;
    if (models && *models) {
        snprintf(path, sizeof path, "%s/default", models);
        return path;
    }
    if (find_own(path, sizeof path)) return path;
    *code = cli_fail("there is no default model at %s/default", MICA_INSTALLED_MODELS);
    cli_hint("Name a model's folder, or set MICA_MODEL to one.");
    return NULL;
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
    mica_session *session = NULL;
    mica_model_options options = cli_model_get_options(values);
    options.adapter = NULL;
    options.device = mica_model_device(model);
    *draft = folder ? cli_model_open(folder, &options, quiet) : NULL;
    if (folder && !*draft) return NULL;
    const mica_session_options with_draft = {.draft_model = *draft};
    mica_status status = mica_session_open(model, &with_draft, &session);
    if (status != MICA_OK) cli_fail_status(status);
    return session;
}

void cli_model_split(const char *option, char **args, int count, const char **model,
                     const char **text) {
    bool first_is_model = count == 2 || (count == 1 && !option && cli_is_model(args[0]));
    *model = first_is_model ? args[0] : NULL;
    *text = count > first_is_model ? args[first_is_model] : NULL;
}
