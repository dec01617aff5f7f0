/* mica tune: trains an adapter of a model. */
#include "tune.h"

#include "interrupt.h"
#include "model.h"
#include "print.h"
#include "ranks.h"
#include "report.h"
#include "text.h"
#include "ui.h"
#include "verb.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- words that stand for numbers ---- */

/* The place of a word in a list, separated by blanks; -1: it is not there. */
static int find_word(const char *words, const char *word) {
    size_t len = strlen(word);
    for (int i = 0; *words; i++) {
        size_t n = strcspn(words, " ");
        if (n == len && strncmp(words, word, n) == 0) return i;
        words += n + (words[n] == ' ');
    }
    return -1;
}

static int choose(const char *option, const char *words, const char *word, int *choice) {
    *choice = word ? find_word(words, word) : 0;
    if (*choice >= 0) return CLI_DONE;
    return cli_usage("tune", "--%s takes no '%s'; it takes one of: %s", option, word, words);
}

/* ---- reports ---- */

static void format_time(double seconds, char out[32]) {
    long s = lround(seconds);
    if (s >= 3600)
        snprintf(out, 32, "%ldh%02ldm", s / 3600, s / 60 % 60);
    else if (s >= 60)
        snprintf(out, 32, "%ldm%02lds", s / 60, s % 60);
    else
        snprintf(out, 32, "%lds", s);
}

static void print_train(const mica_tune_report *r) {
    char memory[CLI_NUMBER], left[32];
    format_time(r->seconds_left, left);
    cli_print(stdout, "%lld/%lld  loss %.4f  rate %.3g  %.0f tokens/s  %s  %s left\n",
              (long long)r->iteration, (long long)r->iterations, r->loss, r->rate,
              r->tokens_per_second, cli_format_bytes(r->memory_bytes, memory), left);
}

/* user: what stops training. If nobody reads what is printed, it is saved and stops. */
static void print_report(void *user, const mica_tune_report *r) {
    char memory[CLI_NUMBER];
    switch (r->event) {
    case MICA_TUNE_PLAN:
        cli_print(stdout, "%s; about %s of memory\n", r->text,
                  cli_format_bytes(r->memory_bytes, memory));
        break;
    case MICA_TUNE_TRAIN:
        print_train(r);
        break;
    case MICA_TUNE_VALID:
        printf("%lld/%lld  validation loss %.4f\n", (long long)r->iteration,
               (long long)r->iterations, r->loss);
        break;
    case MICA_TUNE_TEST:
        printf("test loss %.4f, perplexity %.4f\n", r->loss, exp(r->loss));
        break;
    case MICA_TUNE_SAVED:
        cli_print(stdout, "%lld/%lld  saved to %s\n", (long long)r->iteration,
                  (long long)r->iterations, r->text);
        break;
    case MICA_TUNE_NOTE:
        cli_print(stdout, "%s\n", r->text);
        break;
    }
    if (fflush(stdout) != 0) mica_cancel_set(user);
}

/* ---- the library's options ---- */

static int set_lora(const tune_values *v, mica_lora_options *o) {
    int kind;
    int code = choose("fine-tune-type", "lora dora full", v->fine_tune_type, &kind);
    *o = (mica_lora_options){
        .kind = (mica_tune_kind)kind,
        .modules = v->modules.count ? v->modules.values : NULL,
        .n_modules = v->modules.count,
        .layers = v->num_layers < 0 ? 0
                  : v->num_layers   ? v->num_layers
                                    : 16,
        .rank = v->rank,
        .scale = (float)v->scale,
        .alpha = (float)v->alpha,
        .dropout = (float)v->dropout,
        .bf16 = v->bf16 > 0,
        .seed = (uint64_t)v->seed,
        .memory_limit_bytes = (uint64_t)v->max_memory * 1000000,
    };
    return code;
}

static int set_tune(const tune_values *v, const tune_extras *x, mica_optimizer_options *optimizer,
                    mica_tune_options *o) {
    int format, too_long, average;
    int code = choose("format", "mlx peft", v->format, &format);
    if (code == CLI_DONE) code = choose("too-long", "cut split refuse", v->too_long, &too_long);
    if (code == CLI_DONE) code = choose("average", "tokens steps", v->average, &average);
    if (code != CLI_DONE) return code;
    *optimizer = x->settings;
    optimizer->name = v->optimizer ? v->optimizer : "adam";
    optimizer->learning_rate = v->learning_rate;
    *o = (mica_tune_options){
        .struct_bytes = sizeof *o,
        .data = v->data,
        .adapter = v->adapter_path ? v->adapter_path : "adapters",
        .format = (mica_adapter_format)format,
        .loss = v->loss,
        .loss_options = {.beta = v->beta},
        .optimizer = optimizer,
        .schedule = *x->schedule ? &x->lr : NULL,
        .batch_size = v->batch_size,
        .iterations = v->iters,
        .accumulate = v->grad_accumulation_steps,
        .max_seq_length = v->max_seq_length,
        .valid_batches = v->val_batches,
        .test_batches = v->test_batches,
        .report_every = v->steps_per_report,
        .valid_every = v->steps_per_eval,
        .save_every = v->save_every,
        .valid_share = v->valid_share,
        .clip_norm = v->clip_grad_norm,
        .seed = (uint64_t)v->seed,
        .too_long = (mica_tune_long)too_long,
        .mask_prompt = v->mask_prompt > 0,
        .pack = v->pack > 0,
        .checkpoint = v->grad_checkpoint > 0,
        .skip_bad = v->skip_bad > 0,
        .resume = v->resume > 0,
        .test = v->test > 0,
        .no_train = v->train < 0 || (v->test > 0 && v->train <= 0),
        .memory_limit_bytes = (uint64_t)v->max_memory * 1000000,
        .log = v->log,
        .tensorboard = v->tensorboard,
        .watch = v->quiet ? NULL : print_report,
        .average = (mica_tune_average)average,
        .keep_existing = v->force <= 0,
        .prompt_key = v->prompt_feature,
        .completion_key = v->completion_feature,
        .messages_key = v->chat_feature,
        .text_key = v->text_feature,
        .group = cli_ranks_group(),
    };
    return CLI_DONE;
}

/* ---- the whole ---- */

/* An estimate that exceeds the memory says itself what would fit. */
static int fail(mica_status status) {
    const char *error = mica_last_error();
    if (status == MICA_EINVAL && strstr(error, "holds an adapter")) {
        cli_fail("%s", error);
        cli_hint("--force writes over it, --resume goes on, --adapter-path names another folder.");
        return CLI_FAILED;
    }
    if (status != MICA_ENOMEM) return cli_fail_status(status);
    cli_fail("%s", error);
    if (strstr(error, "out of memory"))
        cli_hint("Try --grad-checkpoint, a smaller --batch-size, --max-seq-length or --rank.");
    return CLI_FAILED;
}

static int finish(mica_status status, const mica_tune_result *result, const char *adapter,
                  bool trained) {
    if (status == MICA_ECANCELLED && result->iteration == 0) {
        fputs("mica: stopped before the first step\n", stderr);
        return CLI_INTERRUPTED;
    }
    if (status == MICA_ECANCELLED) {
        cli_print(stderr, "mica: stopped after step %lld; --resume goes on from %s\n",
                  (long long)result->iteration, adapter);
        return CLI_INTERRUPTED;
    }
    if (status != MICA_OK) return fail(status);
    if (trained)
        cli_print(stdout, "the adapter is in %s: mica run --adapter %s\n", adapter, adapter);
    return CLI_DONE;
}

static int train(const tune_values *v, const tune_extras *x, mica_tuner *tuner) {
    mica_lora_options lora;
    mica_optimizer_options optimizer;
    mica_tune_options options;
    mica_tune_result result = {.struct_bytes = sizeof result};
    mica_cancel *cancel = NULL;
    int code = set_lora(v, &lora);
    if (code == CLI_DONE) code = set_tune(v, x, &optimizer, &options);
    if (code != CLI_DONE) return code;
    mica_status status = mica_lora_apply(tuner, &lora);
    if (status == MICA_OK && v->resume_adapter_file)
        status = mica_tuner_load(tuner, v->resume_adapter_file);
    if (status == MICA_OK) status = mica_cancel_open(&cancel);
    if (status != MICA_OK) return fail(status);
    cli_interrupt_watch_task(cancel);
    cli_interrupt_survive_pipe();
    options.cancel = cancel;
    options.watch_user = cancel;
    status = mica_tune(tuner, &options, &result);
    cli_interrupt_watch_task(NULL);
    mica_cancel_close(&cancel);
    return finish(status, &result, options.adapter, !options.no_train && !v->quiet);
}

static int open_and_train(const tune_values *v, const tune_extras *x, const char *word) {
    int code = CLI_FAILED;
    cli_text template = {0};
    mica_tuner *tuner = NULL;
    const char *path = cli_model_find(v->model, word, false, "tune", &code);
    if (!path) return code;
    if (v->chat_template_file &&
        (!cli_text_read_file(&template, CLI_TEXT_OF_TEMPLATE, v->chat_template_file) ||
         !cli_text_check(&template, v->chat_template_file))) {
        free(template.data);
        return CLI_FAILED;
    }
    const mica_tuner_options options = {.device_name = v->device,
                                        .threads = (int)v->threads,
                                        .chat_template = template.data,
                                        .arithmetic = v->arithmetic == 0 ? MICA_ARITHMETIC_FAST
                                                                         : MICA_ARITHMETIC_EXACT};
    mica_status status = mica_tuner_open(path, &options, &tuner);
    code = status == MICA_OK ? train(v, x, tuner) : fail(status);
    mica_tuner_close(&tuner);
    free(template.data);
    return code;
}

static int run(const void *verb_values, char **args, int count) {
    tune_values values = *(const tune_values *)verb_values;
    tune_extras extras = {.n_texts = 0};
    int code = CLI_DONE;
    if (values.config) code = tune_read_config(values.config, &values, &extras);
    if (code == CLI_DONE && !values.data)
        code = cli_usage("tune", "there is no data: give --data, a folder with train.jsonl");
    if (code == CLI_DONE) code = open_and_train(&values, &extras, count > 0 ? args[0] : NULL);
    tune_extras_deinit(&extras);
    return code;
}

const cli_verb cli_verb_tune = {
    .synopsis = "[MODEL] --data PATH",
    .details =
        "Trains an adapter: low-rank factors beside the model's matrices, which stay as\n"
        "they are, quantised too. Its lines of data are JSON: {\"messages\": [...]},\n"
        "{\"prompt\": \"...\", \"completion\": \"...\"} or {\"text\": \"...\"}; for dpo and\n"
        "orpo {\"prompt\": \"...\", \"chosen\": \"...\", \"rejected\": \"...\"}. Alpaca's and\n"
        "ShareGPT's keys, one JSON array, and CSV are read, too.\n\n"
        "The options, and the keys of --config, are those of mlx_lm.lora, and some more.\n"
        "Ctrl-C saves and stops; --resume goes on to the very same result. Started by mpirun\n"
        "or srun, ranks have the steps of an update at once, to that result, too.\n"
        "\n" CLI_DEFAULT_MODEL_HELP,
    .examples = "  mica tune --data examples/tune --iters 60 --learning-rate 3e-4 --mask-prompt\n"
                "  mica tune ~/models/Qwen3-0.6B-4bit --config lora.yaml\n"
                "  mica run --adapter adapters \"What is curl?\"\n",
    .max_args = 1,
    .words = CLI_WORDS_FOLDERS,
    .ranks = CLI_RANKS_TOGETHER,
    .values_bytes = sizeof(tune_values),
    .given_offset = offsetof(tune_values, given),
    .groups = {{"Tune", tune_options, TUNE_OPTIONS, 0}},
    .run = run,
};
