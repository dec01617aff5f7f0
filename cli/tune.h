/* The options of `mica tune`, which its config file sets, too. */
#ifndef CLI_TUNE_H
#define CLI_TUNE_H

#include "options.h"

enum { TUNE_NAME = 64, TUNE_ARGUMENTS = 4, TUNE_OPTIONS = 52 };

/* What only a config can say. */
typedef struct tune_extras {
    char optimizer[TUNE_NAME]; /* whose optimizer_config was read */
    mica_optimizer_options settings;
    char schedule[TUNE_NAME]; /* "": none */
    mica_schedule lr;
    char *texts[CLI_TEXTS_MAX * 2]; /* of the config, which members point to */
    size_t n_texts;
} tune_extras;

/* Zero, or NULL, is not given: a config may say it, and then the library's default holds. */
typedef struct tune_values {
    const char *model, *data, *adapter_path, *config, *resume_adapter_file;
    const char *fine_tune_type, *optimizer, *loss, *format, *too_long, *device;
    const char *log, *tensorboard, *chat_template_file;
    const char *average, *prompt_feature, *completion_feature, *chat_feature, *text_feature;
    int64_t batch_size, iters, val_batches, test_batches, steps_per_report, steps_per_eval;
    int64_t save_every, max_seq_length, num_layers, rank, grad_accumulation_steps, threads, seed;
    int64_t max_memory, arithmetic;
    double learning_rate, scale, alpha, dropout, beta, clip_grad_norm, valid_share;
    int force, train, test, mask_prompt, grad_checkpoint, pack, skip_bad, resume, bf16;
    cli_texts modules;
    bool quiet;
    bool given[CLI_MAX_OPTIONS]; /* by the command line */
} tune_values;

extern const cli_option tune_options[TUNE_OPTIONS];

/** Sets what a config says and the command line does not.
 *
 *  extras   receives the rest; freed with tune_extras_deinit, after an error too
 *  returns  CLI_DONE, or an exit code after it reported the error */
int tune_read_config(const char *path, tune_values *values, tune_extras *extras);
void tune_extras_deinit(tune_extras *extras);

#endif
