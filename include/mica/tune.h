/* Fine-tuning: training low-rank adapters of a model, or the model's own weights.
 *
 *     mica_tuner *tuner = NULL;
 *     mica_status status = mica_tuner_open("models/default", NULL, &tuner);
 *     if (status == MICA_OK) status = mica_lora_apply(tuner, &(mica_lora_options){.rank = 8});
 *     if (status == MICA_OK)
 *         status = mica_tune(tuner, &(mica_tune_options){.data = "data", .adapter = "adapter"});
 *     mica_tuner_close(&tuner);
 *
 * The adapter is a folder that mica_model_options.adapter, mlx-lm and PEFT load. Losses and
 * optimisers are here over arrays, too, for loops of one's own (mica/grad.h).
 *
 * Options: 0 is the default, everywhere here. Where 0 itself may be wanted of an optimiser, any
 * negative number is 0. A number that is an argument of a call has no default.
 *
 * Threads: a tuner and an optimiser belong to one thread at a time. */
#ifndef MICA_TUNE_H
#define MICA_TUNE_H

#include <mica/array.h>
#include <mica/forward.h>
#include <mica/model.h>

MICA_BEGIN

/* ---- losses ---- */

/** Options of losses; zero means the default. */
typedef struct mica_loss_options {
    size_t struct_bytes; /* see mica/api.h */
    double beta; /* dpo: how closely the model stays to that before training; orpo: the weight of
                    the preference. 0: 0.1 */
} mica_loss_options;

/** The number of losses; the name of the i-th, NULL past the end.
 *
 *  summary  receives a line on it; may be NULL */
MICA_API size_t mica_loss_count(void);
MICA_API const char *mica_loss_name(size_t i, const char **summary);

/** Records a loss.
 *
 *      cross_entropy         logits [..., V], targets integer [...]:
 *                            mean(logsumexp(logits) - logits[target])
 *      masked_cross_entropy  logits, targets, mask f32 [...]: sum(mask x) / sum(mask), x being the
 *                            same
 *      mse                   values, targets: mean((values - targets)^2)
 *      dpo                   log-probabilities [B] of the chosen and the rejected answers, and
 *                            those by the model before training:
 *                            mean(-log sigmoid(beta ((c - r) - (c0 - r0))))
 *      orpo                  means of the log-probabilities of the tokens of chosen and rejected
 *                            answers [B], and the cross-entropy nll of the chosen ones:
 *                            nll - beta mean(log sigmoid(log odds(c) - log odds(r))),
 *                            log odds(x) = x - log(1 - exp(x)) of min(x, -1e-7)
 *
 *  inputs   [n] as above. Borrowed.
 *  options  NULL for the defaults. Borrowed.
 *  loss     receives an array of s, [] f32.
 *  errors   MICA_EINVAL no such loss (the text lists them), or another number of inputs; those of
 *           the ops
 *  grad     inputs that are floats.
 *  source   Rafailov et al. 2023 (arXiv:2305.18290), eq. 7; Hong et al. 2024 (arXiv:2403.07691),
 *           eq. 6 and 7. */
MICA_API mica_status mica_loss(mica_scope *s, const char *name, const mica_array *inputs, size_t n,
                               const mica_loss_options *options, mica_array *loss);

/* ---- optimisers ---- */

/** An optimiser with its states. */
typedef struct mica_optimizer mica_optimizer;

/** Options of an optimiser; zero means the default, a negative number 0. Defaults are the
 *  optimiser's own: */
typedef struct mica_optimizer_options {
    size_t struct_bytes;  /* see mica/api.h */
    const char *name;     /* adamw, adam, sgd, lion, adafactor, muon; NULL: adam */
    double learning_rate; /* 0: 1e-5 */
    double beta1;         /* below 1. adam, adamw, lion: 0.9; adafactor: of a momentum, none */
    double beta2;         /* below 1. adam, adamw: 0.999; lion: 0.99 */
    double eps;           /* adam, adamw: 1e-8 */
    double weight_decay;  /* adamw, muon: 0.01; others: none */
    bool bias_correction; /* adam, adamw: moments are divided by 1 - beta^step, as PyTorch does;
                             MLX does not */
    bool nesterov;        /* sgd */
    bool no_nesterov;     /* muon */
    bool relative_step;   /* adafactor: the rate is min(0.01, 1 / sqrt(step)) */
    double momentum;      /* muon: 0.95; sgd: none */
} mica_optimizer_options;

/** The number of optimisers; the name of the i-th, NULL past the end.
 *
 *  summary  receives a line on it; may be NULL */
MICA_API size_t mica_optimizer_count(void);
MICA_API const char *mica_optimizer_name(size_t i, const char **summary);

/** Opens an optimiser, without states yet.
 *
 *  options    NULL for the defaults. Borrowed.
 *  optimizer  receives it, owned by the caller; NULL after an error.
 *  errors     MICA_EINVAL no such optimiser (the text lists them), a value out of range;
 *             MICA_ENOMEM */
MICA_API mica_status mica_optimizer_open(mica_device *device, const mica_optimizer_options *options,
                                         mica_optimizer **optimizer);
/** Closes *optimizer and sets it to NULL; nothing for NULL. */
MICA_API void mica_optimizer_close(mica_optimizer **optimizer);

/** Updates parameters by their gradients. States, f32, are kept by a parameter's number: zeros at
 *  its first update. A later call may have more parameters, or fewer: the states of the others
 *  stay.
 *
 *      adamw      m = b1 m + (1 - b1) g, v = b2 v + (1 - b2) g^2,
 *                 p = p (1 - rate decay) - rate m / (sqrt(v) + eps)
 *      sgd        g = g + decay p, v = momentum v + g, p = p - rate v
 *      lion       p = p (1 - rate decay) - rate sign(b1 m + (1 - b1) g), m = b2 m + (1 - b2) g
 *      adafactor  second moments of rows and columns; the rate is times max(1e-3, rms(p))
 *      muon       the momentum of a matrix is made nearly orthogonal by five Newton-Schulz steps
 *
 *  params      [n] floats of s, or evaluated ones. Borrowed.
 *  grads       [n] of the shapes of params. Borrowed.
 *  rate        the learning rate of this step: that of the options (mica_optimizer_rate) or of a
 *              schedule (mica_schedule_rate). 0 moves nothing.
 *  new_params  [n] receives evaluated arrays of s, of params' dtypes; may be params. Computed in
 *              f32, rounded once.
 *  errors      those of mica_eval; MICA_ESHAPE a gradient has not its parameter's shape, or a
 *              parameter not that of its first update; MICA_EDTYPE a parameter is no float;
 *              MICA_EINVAL an invalid array, a rate that is negative or no finite f32; MICA_ENOMEM.
 *              States, the number of steps and new_params are then as they were
 *  source      Loshchilov & Hutter 2019 (arXiv:1711.05101); Chen et al. 2023 (arXiv:2302.06675);
 *              Shazeer & Stern 2018 (arXiv:1804.04235); Jordan et al. 2024 (Muon) */
MICA_API mica_status mica_optimizer_update(mica_optimizer *optimizer, mica_scope *s,
                                           const mica_array *params, const mica_array *grads,
                                           size_t n, double rate, mica_array *new_params);
/** The learning rate of the options that it was opened with; 0 for NULL. */
MICA_API double mica_optimizer_rate(const mica_optimizer *optimizer);
/** The number of updates since it was opened or reset; 0 for NULL. */
MICA_API int64_t mica_optimizer_steps(const mica_optimizer *optimizer);
/** Forgets the number of steps, and frees the states. */
MICA_API void mica_optimizer_reset(mica_optimizer *optimizer);

/** The learning rate of a step, counted from 0, by a schedule as mlx-lm names them.
 *
 *      constant           rate
 *      linear_schedule    init, end, steps: from init to end, which stays
 *      cosine_decay       init, steps, [end]: half a cosine, then end, 0 where it is not given
 *      exponential_decay  init, rate: init rate^step
 *      step_decay         init, rate, size: init rate^floor(step / size)
 *
 *  With warmup steps before it, the rate goes from warmup_init to the schedule's first value in a
 *  line; the schedule begins at the step behind them. */
typedef struct mica_schedule {
    const char *name;    /* NULL: constant */
    double arguments[4]; /* as above */
    size_t n_arguments;  /* number of them */
    int64_t warmup;      /* steps; 0: none */
    double warmup_init;  /* rate of the first one */
} mica_schedule;

/** rate    receives it.
 *  errors  MICA_EINVAL no such schedule (the text lists them), another number of arguments, a rate
 *          that is no finite f32 */
MICA_API mica_status mica_schedule_rate(const mica_schedule *schedule, int64_t step, double *rate);

/* ---- models that are trained ---- */

/** A model with parameters that are trained. */
typedef struct mica_tuner mica_tuner;

/** Options of mica_tuner_open; zero means the default. */
typedef struct mica_tuner_options {
    size_t struct_bytes;        /* see mica/api.h */
    mica_device *device;        /* kept until the tuner ends; NULL: it opens its own */
    const char *device_name;    /* of its own device; NULL: "cpu" */
    int threads;                /* of its own device; 0: one per usable core */
    bool no_mmap;               /* read the weights into memory instead of mapping them */
    mica_arithmetic arithmetic; /* of matmuls with weights that are not trained */
    const char *chat_template;  /* instead of the folder's own; NULL: that */
} mica_tuner_options;

/** Opens a model's folder for training. In fast arithmetic, the default, activations are rounded as
 *  they are when the trained model is run, and gradients to bf16 where the machine multiplies
 *  these; gradients go through the rounding as if it were none.
 *
 *  options  NULL for the defaults. Borrowed.
 *  tuner    receives it, owned by the caller; NULL after an error.
 *  errors   those of mica_model_open of the engine native */
MICA_API mica_status mica_tuner_open(const char *path, const mica_tuner_options *options,
                                     mica_tuner **tuner);
/** Closes *tuner and sets it to NULL; nothing for NULL. */
MICA_API void mica_tuner_close(mica_tuner **tuner);

/** What is trained. */
typedef enum mica_tune_kind {
    MICA_TUNE_LORA, /* factors A and B beside a matrix: y = W x + scale B A x */
    MICA_TUNE_DORA, /* the same, and the norms of the rows of W + scale B A */
    MICA_TUNE_FULL  /* the weights and norms of the layers themselves */
} mica_tune_kind;

/** Options of mica_lora_apply; zero means the default. */
typedef struct mica_lora_options {
    size_t struct_bytes;         /* see mica/api.h */
    mica_tune_kind kind;         /* what is trained */
    const char *const *modules;  /* [n_modules] matrices that get factors: names within a layer
                                   ("self_attn.q_proj", "q_proj"), whole names
                                   ("model.layers.3.mlp.up_proj"), or regular expressions of either
                                   in PCRE2's syntax. Borrowed for the call */
    size_t n_modules;            /* 0: all matrices of the layers */
    int64_t layers;              /* the last ones are trained, so many of them; 0: all */
    int64_t rank;                /* of the factors; 0: 8 */
    float scale;                 /* of the product of the factors; 0: 20, or by alpha */
    float alpha;                 /* instead of scale: scale = alpha / rank */
    float dropout;               /* share of the factors' input that is dropped in training */
    bool bf16;                   /* factors are bf16; moments and updates stay f32 */
    uint64_t seed;               /* of A */
    uint64_t memory_limit_bytes; /* that weights, parameters and gradients may take; 0: the
                                    device's memory */
} mica_lora_options;

/** Makes the parameters to train, in place of earlier ones. A is uniform in +-1 / sqrt(in), B is
 *  zero: the model gives what it gave before.
 *
 *  options  NULL for the defaults. Borrowed.
 *  errors   MICA_EINVAL a value out of range; MICA_ENOENT a module that no layer has;
 *           MICA_EFORMAT one that is no regular expression, or one of more than 1,024 bytes;
 *           MICA_EUNSUPPORTED full training of quantised weights, or regular expressions that take
 *           too much memory or work; MICA_ENOMEM also where parameters and gradients exceed the
 *           memory: the text says what would fit, and none is made
 *  source   Hu et al. 2021 (arXiv:2106.09685); Liu et al. 2024 (arXiv:2402.09353) */
MICA_API mica_status mica_lora_apply(mica_tuner *tuner, const mica_lora_options *options);

/** A parameter; the name lives as long as what mica_lora_apply made. */
typedef struct mica_parameter {
    size_t struct_bytes; /* see mica/api.h */
    const char *name;    /* "model.layers.0.self_attn.q_proj.lora_a" */
    mica_array value;    /* A [in, rank], B [rank, out], m [out], or a weight. Borrowed: until
                            mica_tune, mica_lora_apply, mica_tuner_set_parameter or mica_tuner_load
                            is called for its tuner, or that is closed */
} mica_parameter;

/** The number of parameters, and the i-th, in the order of names. errors  MICA_EINVAL */
MICA_API size_t mica_tuner_parameter_count(const mica_tuner *tuner);
MICA_API mica_status mica_tuner_get_parameter(const mica_tuner *tuner, size_t i,
                                              mica_parameter *parameter);
/** Replaces the i-th parameter's value by numbers, which are rounded to its dtype.
 *
 *  values  f32 [n], n being the size of the parameter, in the order of its axes. Borrowed.
 *  errors  MICA_EINVAL no such parameter, another n, values is NULL; MICA_ENOMEM */
MICA_API mica_status mica_tuner_set_parameter(mica_tuner *tuner, size_t i, const float *values,
                                              size_t n);
/** The number of numbers in all parameters. */
MICA_API uint64_t mica_tuner_trained(const mica_tuner *tuner);

/** Fills *info with what the model is, as mica_model_get_info does: the engine is "native", and the
 *  arithmetic the one that was asked for; all zero for a NULL tuner. Strings live as long as it. */
MICA_API void mica_tuner_get_info(const mica_tuner *tuner, mica_model_info *info);

/** The device and the tokenizer of a tuner. Both live as long as it. NULL for NULL. */
MICA_API mica_device *mica_tuner_device(const mica_tuner *tuner);
MICA_API const mica_tokenizer *mica_tuner_tokenizer(const mica_tuner *tuner);

/** Records a pass of the model that is trained, without dropout: mica_model_forward with the
 *  parameters in their places, for losses and loops of one's own.
 *
 *      mica_array logits = mica_tuner_forward(s, tuner, params, ids, NULL);
 *      ...                                                  // a loss of these
 *      mica_grad(s, loss, MICA_NONE, params, n, grads);
 *
 *  params   [mica_tuner_parameter_count] arrays of s, or evaluated ones, of the parameters' shapes
 *           and dtypes; NULL: the parameters' values. Borrowed.
 *  ids, options, returns  as of mica_model_forward.
 *  errors   those of mica_model_forward; MICA_EINVAL there are no parameters yet; MICA_ESHAPE,
 *           MICA_EDTYPE a parameter
 *  grad     params, and embeddings */
MICA_API mica_array mica_tuner_forward(mica_scope *s, const mica_tuner *tuner,
                                       const mica_array *params, mica_array ids,
                                       const mica_forward_options *options);

/** Who is to load an adapter. mica loads both. */
typedef enum mica_adapter_format {
    MICA_ADAPTER_MLX, /* adapters.safetensors, adapter_config.json of mlx-lm */
    MICA_ADAPTER_PEFT /* adapter_model.safetensors, adapter_config.json of PEFT */
} mica_adapter_format;

/** Saves the parameters as an adapter: the tensors, then the config. Each file is written whole or
 *  not at all; after an error that of the tensors may be new and the config old, or missing.
 *
 *  folder  is made if it does not exist.
 *  errors  MICA_EUNSUPPORTED in PEFT's format full parameters, or factors of experts in a model as
 *          mlx-lm writes it (switch_mlp), for which PEFT has no name; MICA_EIO, MICA_ENOENT,
 *          MICA_ENOMEM; MICA_EINVAL there are no parameters yet */
MICA_API mica_status mica_tuner_save(const mica_tuner *tuner, const char *folder,
                                     mica_adapter_format format);

/** Reads the values of the parameters from an adapter of mlx-lm: its folder, or its file of
 *  tensors.
 *
 *  errors  MICA_ENOENT no such file, or a parameter is not in it; MICA_ESHAPE, MICA_EDTYPE a tensor
 *          does not fit; MICA_EFORMAT, MICA_EIO, MICA_ENOMEM. Values are then as they were */
MICA_API mica_status mica_tuner_load(mica_tuner *tuner, const char *path);

/* ---- the loop ---- */

/** What is done with examples that are longer than max_seq_length. */
typedef enum mica_tune_long {
    MICA_TUNE_CUT,   /* their end is cut off */
    MICA_TUNE_SPLIT, /* they become several; pairs are cut */
    MICA_TUNE_REFUSE /* an error that names their lines */
} mica_tune_long;

/** How the gradients of the batches of an update are averaged. */
typedef enum mica_tune_average {
    MICA_TUNE_AVERAGE_TOKENS, /* by the tokens that count in their losses: as one large batch */
    MICA_TUNE_AVERAGE_STEPS   /* each batch alike, as mlx-lm does: so that all are full, the rows
                                 that are left at the end of an epoch are no batch */
} mica_tune_average;

/** The sets of examples. */
typedef enum mica_tune_set {
    MICA_TUNE_SET_TRAIN, /* which is trained with */
    MICA_TUNE_SET_VALID, /* whose loss is told from time to time */
    MICA_TUNE_SET_TEST   /* whose loss is told at the end */
} mica_tune_set;

/** An example from memory: a line of data, or tokens. */
typedef struct mica_tune_example {
    size_t struct_bytes; /* see mica/api.h */
    const char *line;    /* a JSON object as of a line of data; NULL: tokens */
    size_t len;          /* bytes of line; 0: it is NUL-terminated */
    const int32_t *ids;  /* [count] tokens of a text, with those that begin and end it */
    size_t count;        /* number of tokens */
    size_t prompt;       /* number of the first ones that are its prompt (mask_prompt) */
} mica_tune_example;

/** Gives the examples of a set, one a call: those to train with, then of the validation set, or
 *  those of the test set, as the options ask for. Called before the first step, in mica_tune's
 *  thread.
 *
 *  example  zero but for struct_bytes: is filled in. What it points to is read before the next
 *           call.
 *  there    receives whether there is another one; false is the end of the set. Sets but that to
 *           train with, or to test, may be empty.
 *  returns  MICA_OK, or an error, which ends mica_tune with it */
typedef mica_status (*mica_tune_source)(void *user, mica_tune_set set, mica_tune_example *example,
                                        bool *there);

/** What a report is on. */
typedef enum mica_tune_event {
    MICA_TUNE_PLAN,  /* before the first step: parameters, examples, memory_bytes as estimated */
    MICA_TUNE_TRAIN, /* the mean loss since the last such report */
    MICA_TUNE_VALID, /* the loss of the validation set */
    MICA_TUNE_TEST,  /* the loss of the test set */
    MICA_TUNE_SAVED, /* a checkpoint was written */
    MICA_TUNE_NOTE   /* text alone: what a user may want to know of the data */
} mica_tune_event;

/** A report. Strings live during the call. */
typedef struct mica_tune_report {
    size_t struct_bytes;          /* see mica/api.h */
    mica_tune_event event;        /* what it is on */
    int64_t iteration;            /* steps done */
    int64_t iterations;           /* steps in all */
    double loss;                  /* of TRAIN, VALID, TEST */
    double rate;                  /* learning rate */
    double norm;                  /* of the last gradients, before clipping */
    double tokens_per_second;     /* since the last report */
    double iterations_per_second; /* likewise */
    uint64_t trained_tokens;      /* that counted in losses, in all: no padding, no masked ones */
    uint64_t memory_bytes;        /* peak of the device's arrays; of PLAN the estimate */
    double seconds_left;          /* of TRAIN, by the rate of now; 0: not known */
    const char *text;             /* of NOTE and SAVED; "" otherwise */
} mica_tune_report;

/** Called with reports, in the caller's thread. */
typedef void (*mica_tune_watch)(void *user, const mica_tune_report *report);

/** Options of mica_tune; zero means the default. Defaults are mlx-lm's. */
typedef struct mica_tune_options {
    size_t struct_bytes; /* see mica/api.h */
    const char *data;    /* a folder with train.jsonl, .json or .csv, and perhaps valid and test,
                                or one file; each may be compressed, .gz or .zst. NULL: source
                                gives the examples */
    const char *adapter; /* folder for the adapter and the state of training; NULL: nothing is
                                saved */
    mica_adapter_format format; /* of the adapter */
    const char *loss;           /* NULL: cross_entropy, or with mask_prompt masked_cross_entropy */
    mica_loss_options loss_options;          /* of the loss */
    const mica_optimizer_options *optimizer; /* NULL: adam. Borrowed */
    const mica_schedule *schedule;           /* of the learning rate; NULL: constant. Borrowed */
    int64_t batch_size;                      /* rows of a batch; 0: 4 */
    int64_t iterations;                      /* batches; 0: 1000 */
    int64_t accumulate;                      /* batches whose gradients an update takes; the last
                                                one takes those that are left; 0: 1 */
    int64_t max_seq_length;  /* tokens of a row; 0: 2048, or the model's context if that is less */
    int64_t valid_batches;   /* of the validation set; 0: 25; negative: all */
    int64_t test_batches;    /* of the test set; 0: 500; negative: all */
    int64_t report_every;    /* iterations; 0: 10 */
    int64_t valid_every;     /* iterations; 0: 200 */
    int64_t save_every;      /* iterations; 0: 100 */
    double valid_share;      /* of the examples are split off for validation, if there is no file of
                                them; 0: none */
    double clip_norm;        /* gradients whose norm is above it are scaled down; 0: none are */
    uint64_t seed;           /* of the order of batches and of dropout */
    mica_tune_long too_long; /* examples longer than max_seq_length */
    bool mask_prompt;        /* only the answer counts in the loss */
    bool pack;               /* rows hold several texts, which do not attend to each other; not
                                of models with layers that carry more than keys and values */
    bool checkpoint;         /* layers are computed again in the backward pass: less memory */
    bool skip_bad;           /* lines that are no examples are left out, and told */
    bool resume;             /* go on from the state in the adapter's folder, if there is one */
    bool test;               /* compute the loss of the test set at the end */
    bool no_train;           /* only that of the test set */
    uint64_t memory_limit_bytes; /* that training may take; 0: the device's memory */
    const char *log;             /* file for lines of JSON, one a report; NULL: none */
    const char *tensorboard;     /* folder for an event file of TensorBoard; NULL: none */
    mica_tune_watch watch;       /* NULL: none */
    void *watch_user;            /* given to watch */
    const mica_cancel *cancel;   /* watched: the state is saved then. NULL: none. Borrowed */
    mica_tune_average average;   /* of gradients, with accumulate */
    bool keep_existing;          /* an adapter that is in the folder is an error, unless training
                                    goes on from its state */
    const char *prompt_key;      /* keys of lines of data in the place of "prompt", */
    const char *completion_key;  /* "completion", */
    const char *messages_key;    /* "messages" */
    const char *text_key;        /* and "text"; NULL: these */
    mica_tune_source source;     /* gives the examples, in the place of data; NULL: none */
    void *source_user;           /* given to source */
    mica_compile_fn loss_fn;     /* records the loss, in the place of `loss`: args are logits
                                    [B, T, vocab] f32, targets i32 [B, T], mask f32 [B, T], which is
                                    1 where a target counts; the result is a mean over these, f32
                                    []. Gradients of batches are averaged by their number. All
                                    logits are in memory at once. NULL: none */
    void *loss_user;             /* given to loss_fn */
    struct mica_group *group;    /* ranks that train one adapter (mica/group.h), each with the whole
                                    model: the batches of an update are divided among them, so
                                    `accumulate` is a multiple of their number, and by default that.
                                    All have the same model and options, and see the data and the
                                    adapter's folder, to which rank 0 writes. Results are those of
                                    one rank with the same options, parameters in f32 to the bit.
                                    NULL: this process alone */
} mica_tune_options;

/** What training came to. */
typedef struct mica_tune_result {
    size_t struct_bytes;     /* see mica/api.h */
    int64_t iteration;       /* steps done */
    double train_loss;       /* of the last report; NaN: there was none. So with the next two */
    double valid_loss;       /* at the end */
    double test_loss;        /* with options.test */
    uint64_t trained_tokens; /* that counted in the losses of updates */
    uint64_t peak_bytes;     /* of the device's arrays */
    double seconds;          /* of this call */
} mica_tune_result;

/** Trains the parameters on a set of examples.
 *
 *  Lines of data are mlx-lm's: {"messages": [...]}, with {"tools": [...]} if there are any;
 *  {"prompt": "...", "completion": "..."}; {"text": "..."}. Or Alpaca's {"instruction", "input",
 *  "output"}, or ShareGPT's {"conversations": [{"from", "value"}, ...]}. For dpo and orpo:
 *  {"prompt", "chosen", "rejected"}, texts or messages. A file is lines of JSON, one JSON array, or
 *  CSV whose first line names the columns (by its name: .csv).
 *
 *  The folder `adapter` gets the adapter and tune_state.safetensors: parameters, the optimiser's
 *  moments and the position, in one file that is written whole or not at all. Going on from it
 *  gives the very parameters of a run that was not interrupted.
 *
 *  options  Borrowed.
 *  result   is filled, after an error too; may be NULL.
 *  errors   MICA_EINVAL an option is out of range; the loss or a gradient is not finite (the text
 *           says where it began; parameters are those before that step, the last checkpoint stays);
 *           other settings than those of the state to go on from; another training writes to the
 *           folder; with keep_existing, there is an adapter in it
 *           MICA_EFORMAT lines that are no examples, no examples at all
 *           MICA_ENOMEM the estimate exceeds the memory: the text says what would fit
 *           MICA_ECANCELLED after the state was saved, unless no step was done
 *           MICA_ENOENT, MICA_EIO, MICA_EUNSUPPORTED */
MICA_API mica_status mica_tune(mica_tuner *tuner, const mica_tune_options *options,
                               mica_tune_result *result);

MICA_END

#endif
