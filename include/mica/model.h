/* Models, sessions and streams of tokens.
 *
 *     mica_model *model = NULL;
 *     mica_session *session = NULL;
 *     mica_stream *stream = NULL;
 *     mica_model_open("models/default", NULL, &model);
 *     mica_session_open(model, NULL, &session);
 *     mica_message message = {.role = "user", .content = "What is curl?"};
 *     mica_chat(session, &message, 1, NULL, &stream);
 *     for (mica_token t; mica_stream_next(stream, &t);) fwrite(t.text, 1, t.len, stdout);
 *     mica_status status = mica_stream_status(stream);   // an error comes after the stream
 *     mica_stream_close(&stream);
 *     mica_session_close(&session);
 *     mica_model_close(&model);
 *
 * A model is weights and a tokenizer. It never changes, and any number of sessions in any threads
 * share it. A session is the caches and the history of one conversation. A stream is one answer
 * while it is computed. Sessions and streams belong to one thread at a time; only
 * mica_stream_cancel may be called from any thread. They may be closed in any order: a stream keeps
 * its session open, a session its models, a model its device. What is closed while others use it
 * ends with the last of them. */
#ifndef MICA_MODEL_H
#define MICA_MODEL_H

#include <mica/api.h>
#include <mica/device.h>
#include <mica/status.h>
#include <mica/tokenizer.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

MICA_BEGIN

/** Weights and a tokenizer. */
typedef struct mica_model mica_model;
/** The caches and the history of one conversation. */
typedef struct mica_session mica_session;
/** One answer while it is computed. */
typedef struct mica_stream mica_stream;

struct mica_mlx_lm_options;

/** Called from time to time during long work: `done` of `total` (bytes, tokens) are done. */
typedef void (*mica_progress)(void *user, uint64_t done, uint64_t total);

/** A flag by which one thread ends the work of another. Any number of calls may watch one flag. */
typedef struct mica_cancel mica_cancel;

/** Opens a flag that is not set. It must outlive the calls that watch it.
 *  errors  MICA_EINVAL, MICA_ENOMEM */
MICA_API mica_status mica_cancel_open(mica_cancel **cancel);

/** Sets the flag; it stays set. Calls that watch it stop within one chunk of prefill or one token.
 *  May be called from any thread and from a signal handler. Does nothing for NULL. */
MICA_API void mica_cancel_set(mica_cancel *cancel);

/** Closes *cancel and sets it to NULL. Does nothing for NULL. */
MICA_API void mica_cancel_close(mica_cancel **cancel);

/** The arithmetic of matmuls with weights. */
typedef enum mica_arithmetic {
    MICA_ARITHMETIC_DEFAULT, /* fast */
    MICA_ARITHMETIC_EXACT,   /* activations stay floats: the reference */
    MICA_ARITHMETIC_FAST /* activations are quantised to int8 in the groups of quantised weights,
                            and rounded to bf16 for bf16 and mxfp8 weights; only if the device has
                            faster kernels for that */
} mica_arithmetic;

/** The type of a session's cached keys and values. Attention reads half the bytes in half the time.
 *  With bf16, a device may also round queries and softmax weights to bf16, and then all operands to
 *  int16 (mica_sdpa). */
typedef enum mica_cache_type {
    MICA_CACHE_DEFAULT, /* f32 in exact arithmetic, else bf16 */
    MICA_CACHE_F32,     /* as they were computed */
    MICA_CACHE_F16,     /* rounded to 11 bits; values above 65504 overflow */
    MICA_CACHE_BF16,    /* rounded to 8 bits with the range of f32; most models are trained in it */
    /* int8 codes with one bf16 scale for 32 elements: 8.5 bits an element (mica_to_q8). Queries may
     * be rounded to it, too */
    MICA_CACHE_INT8
} mica_cache_type;

/** mica_model_options.accelerator_layers for none. */
#define MICA_NO_LAYERS (-1)

/** Options of mica_model_open; zero means the default. */
typedef struct mica_model_options {
    size_t struct_bytes;     /* see mica/api.h */
    const char *engine;      /* "native", or another that mica/engine.h lists; NULL: the first in
                               order of preference that takes the folder and is available */
    mica_device *device;     /* kept until the model ends; NULL: the model opens its own */
    const char *device_name; /* of the model's own device, as for mica_device_open; NULL: "cpu".
                                Borrowed */
    int threads;             /* of the model's own device; 0: one per usable core */
    int64_t context_length; /* maximum number of tokens in a session's caches. A longer text, also a
                               longer prompt, is possible: a token then sees the first 4 tokens and
                               the last context_length - 4, itself among them, in all layers without
                               a smaller window (a context_length below 8 keeps half for the first);
                               mica_metrics.forgotten_tokens counts the others. A session's memory
                               and file then stop growing with the text: of forgotten tokens a
                               session keeps the number and a hash, which still recognise a prompt
                               that begins with the whole text. So the context does not end: no
                               prompt is refused (MICA_ECONTEXT) or cut for its length, and an
                               answer goes on until a stop or max_tokens (or 2^31 - 1 tokens).
                               More than the model's own counts as the model's own, with a
                               mica_model_info.note. But a model with longrope has two: its own
                               ends where the divisors for long texts would begin, and more than
                               that takes these, for all texts, with a note.
                               0: the model's own, where the context ends: longer prompts are
                               refused, and answers end there */
    const char *adapter;    /* folder of a LoRA adapter, mlx-lm's (adapters.safetensors) or PEFT's
                               (adapter_model.safetensors), each with adapter_config.json. Its
                               low-rank matmuls are added to the model's. NULL: none. Borrowed */
    int accelerator_layers; /* number of layers, the last ones, for the device to compute. The CPU
                               computes the others, whose weights and caches stay in its memory;
                               MICA_NO_LAYERS: the device has none. 0: what is fastest, by rates
                               that are measured (mica/cost.h), with what is free of its memory and
                               caches of context_length tokens (0: 8,192, or the model's own
                               context where that is less); the CPU may have experts alone.
                               mica_model_info.note says which layers the CPU computes, or that
                               this has no effect */
    mica_arithmetic arithmetic; /* of matmuls with quantised and bf16 weights */
    mica_cache_type cache;      /* of sessions' keys and values */
    bool no_mmap;  /* read the weights into the process's memory (in large pages if the system has
                      them) instead of mapping the files. Opening is slower, other processes do not
                      share the memory, and the files may be changed afterwards */
    bool prefetch; /* read all mapped weights ahead: also those that the system says are in memory,
                      and those that would fill more than half of it */
    bool mlock;    /* keep the weights in memory until the model is closed: the system never swaps
                      or drops them. Reads them ahead, too */
    const struct mica_mlx_lm_options *mlx_lm; /* of the engine "mlx_lm" (mica/engine.h); others
                                                 ignore them. NULL: the defaults. Borrowed */
    mica_progress progress;                   /* loading, in bytes; may be NULL. Engines that
                                                 cannot tell do not call it */
    void *progress_user;                      /* given to progress */
    const mica_cancel *cancel; /* watched while weights are read; may be NULL. Borrowed */
    const char *chat_template; /* a Jinja template to use instead of the folder's own or the
                                  family's built-in format; NULL: those. Borrowed */
    struct mica_group *group;  /* the ranks that compute it together (mica/group.h): all open the
                                 same model with the same options, and call the same functions of
                                 it in the same order. Each reads its own part of the files alone,
                                 but with no_mmap, prefetch or mlock all. Kept until the model ends.
                                 NULL: this process alone */
    int tensor_parallel;   /* ranks, neighbours in the group, that have a part of every matrix of
                              the same layers; 0: what pipeline_parallel leaves */
    int pipeline_parallel; /* parts of the layers, one behind the other. Times tensor_parallel it
                              is the size of the group. 0: what tensor_parallel leaves, or 1 */
} mica_model_options;

/** Opens a model folder (config.json, tokenizer.json, *.safetensors). Weights are mapped, not
 *  copied, unless no_mmap is set. Files that are not in memory yet and fit in half of it are read
 *  ahead, and `progress` reports that. Others are read when they are first used, unless prefetch or
 *  mlock is set. Mapped weights do not count towards the device's memory limit. The tokenizer is
 *  opened in a thread of its own; `progress` is called in the caller's thread.
 *
 *  A file of mapped weights must not change while the model is open. A read from a part that was
 *  cut off, or that the disk cannot read, raises SIGBUS, which ends a program that does not handle
 *  it. mica handles no signals; a program that must survive this sets no_mmap.
 *
 *  path    the folder. Borrowed.
 *  options NULL for the defaults. Borrowed.
 *  model   receives the model, owned by the caller; NULL after an error.
 *  errors  the text names the file and the tensor or key:
 *          MICA_EINVAL an option is out of range, no such engine (the text lists them)
 *          MICA_ENOENT a file is missing; the adapter is for another model (the text lists the
 *          modules that the model lacks)
 *          MICA_EFORMAT a file is malformed; a config, tokenizer, template or index is larger than
 *          its kind of file may be (about ten times the largest known one) and so is not read;
 *          options.chat_template is ill-formed (a folder's own is an error of mica_chat)
 *          MICA_EDEVICE no device of that name, or it cannot start: the text says what is missing
 *          MICA_ENOMEM no memory; mlock exceeds what the process may lock (RLIMIT_MEMLOCK): the
 *          text says how much
 *          MICA_EUNSUPPORTED the model is of a kind that mica does not know, and no other engine
 *          that is available takes it: the text says which would, what it lacks, and how to get
 *          that
 *          MICA_EIO, MICA_ESHAPE, MICA_EDTYPE, MICA_ECANCELLED; those of an engine that is named
 *          and not available */
MICA_API mica_status mica_model_open(const char *path, const mica_model_options *options,
                                     mica_model **model);

/** Closes *model and sets it to NULL. Does nothing for NULL. A model that sessions, streams or
 *  tasks still use ends with the last of them. May be called from any thread. */
MICA_API void mica_model_close(mica_model **model);

/** What a model is. Strings live as long as the model. */
typedef struct mica_model_info {
    size_t struct_bytes;         /* see mica/api.h */
    const char *path;            /* the folder */
    const char *engine;          /* "native" */
    const char *family;          /* "gemma3" */
    const char *architecture;    /* config.json's model_type, "gemma3_text" */
    const char *dtype;           /* of the weights that are not quantised: "bf16" */
    const char *quantization;    /* "4 bit, groups of 32 (affine)", "none" */
    mica_arithmetic arithmetic;  /* what is used: exact if the device has no fast kernels for any of
                                    the weights, whatever was asked for (mica_model_get_kernels) */
    uint64_t parameters;         /* logical: a 4-bit weight counts as one */
    uint64_t weight_bytes;       /* in the files */
    int64_t layers;              /* decoder blocks */
    int64_t hidden_size;         /* width of the residual stream */
    int64_t heads;               /* of the queries */
    int64_t kv_heads;            /* of keys and values */
    int64_t head_dim;            /* width of a head */
    int64_t intermediate_size;   /* width inside the MLP, of layers or beside experts; 0: none */
    int64_t vocab_size;          /* rows of the head: the logits of a token */
    int64_t context_length;      /* maximum number of tokens in a session's caches */
    int64_t sliding_window;      /* 0: none */
    int64_t sliding_layers;      /* number of layers that have the window */
    const char *adapter;         /* the folder of its adapter; NULL: none */
    uint64_t adapter_parameters; /* of the adapter; not among the parameters above */
    const char *note; /* remarks from opening, one a line: tensors that no layer reads, options
                         without effect; NULL: none */
    int bits;         /* of a quantised weight's code, as `quantization` has it; 0: not quantised */
    int group_size;   /* quantised weights that share a scale; 0: not quantised */
    uint64_t active_parameters; /* those that a token is computed with: of experts, the ones that it
                                   picks, of layers' inputs its row; 0: not known */
    uint64_t active_bytes; /* of weight_bytes, those that a token reads: of experts the ones that it
                              picks, of tables its rows; 0: not known */
    const char *call_format;  /* how its answers call tools, by the names of docs/structured.md:
                                "hermes"; NULL: it has no chat template that shows that */
    const char *thought_mark; /* what begins a thought in its answers: "<think>"; NULL: none */
    const char *thinking_variable; /* the chat template's, for how hard it thinks or whether it
                                      does: "reasoning_effort", "enable_thinking", "thinking" ...;
                                      NULL: none, or no thought_mark was found */
    int64_t experts;               /* of a layer that has any; 0: none has, or it is not known */
    int64_t experts_per_token;     /* those that a token picks there */
    int64_t expert_size;           /* width inside an expert */
} mica_model_info;

/** Fills *info with what the model is; all zero for a NULL model. */
MICA_API void mica_model_get_info(const mica_model *model, mica_model_info *info);

/** The kernels chosen for matmuls with one kind of a model's matrices. Strings live as long as the
 *  model. */
typedef struct mica_model_kernels {
    size_t struct_bytes;        /* see mica/api.h */
    const char *matrix;         /* "4 bit, groups of 64 (affine)", "bf16" */
    bool attention;             /* true: the matrices are cached keys; false: weights */
    mica_arithmetic arithmetic; /* exact: activations (or queries) stay f32 */
    const char *activations;    /* their type in the kernel: "int8", "int16" (with scales), "bf16",
                                   "f32" */
    const char *one_row;        /* name of the kernels for one token: decode */
    const char *many_rows;      /* name of the kernels for many tokens: prefill */
} mica_model_kernels;

/** The i-th kind of matrices and its kernels: first weights, in the order of the forward pass, then
 *  attention. An adapter's factors are not listed; their matmuls are exact.
 *
 *  kernels  is filled; all zero past the end, for a NULL model, and if the engine cannot tell.
 *  returns  false past the end and for a NULL model. */
MICA_API bool mica_model_get_kernels(const mica_model *model, size_t i,
                                     mica_model_kernels *kernels);

/** Bytes of one session's caches at `tokens` of context. 0 for NULL, for tokens < 1, and if the
 *  engine cannot tell. A number above INT32_MAX, the largest position, counts as INT32_MAX. */
MICA_API uint64_t mica_model_cache_bytes(const mica_model *model, int64_t tokens);

/** The model's tokenizer and device. Both live as long as the model. NULL for NULL; the device is
 *  NULL if the model's engine uses none. */
MICA_API const mica_tokenizer *mica_model_tokenizer(const mica_model *model);
MICA_API mica_device *mica_model_device(const mica_model *model);

/** Options of mica_session_open; zero means the default. */
typedef struct mica_session_options {
    size_t struct_bytes;           /* see mica/api.h */
    int64_t prefill_chunk;         /* tokens computed at once in prefill; 0: 512,
                                      2,048 on cuda */
    const mica_model *draft_model; /* a smaller model with the same vocabulary that drafts tokens
                                      (mica_generate_options.draft_tokens). If it fails, for example
                                      without memory, an answer goes on without drafts. NULL: none.
                                      Kept until the session ends */
} mica_session_options;

/** Opens an empty session on a model.
 *  errors  MICA_EINVAL an option is out of range, the draft model has another vocabulary;
 *          MICA_EUNSUPPORTED another engine computes the draft model; MICA_ENOMEM */
MICA_API mica_status mica_session_open(const mica_model *model, const mica_session_options *options,
                                       mica_session **session);

/** Closes *session and sets it to NULL. Does nothing for NULL. A session with open streams ends
 *  with the last of them. */
MICA_API void mica_session_close(mica_session **session);

/** Forgets the history and frees the caches. Does nothing for NULL. The stream of an unfinished
 *  answer ends with MICA_EINVAL. */
MICA_API void mica_session_reset(mica_session *session);

/** Opens a session with the history and the caches of another one: both go on from there. They
 *  share memory until one of them writes to it. The fork has the same draft model, which reads the
 *  history anew. A fork that is kept is a snapshot, to which mica_session_cut cannot always go
 *  back.
 *
 *  session  not of an unfinished answer's stream meanwhile.
 *  fork     receives the session, owned by the caller; NULL after an error.
 *  errors   MICA_EINVAL a NULL argument; MICA_EUNSUPPORTED the engine cannot fork sessions; those
 *           of mica_eval; MICA_ENOMEM */
MICA_API mica_status mica_session_fork(mica_session *session, mica_session **fork);

/** Saves a session: its history and caches. The file appears whole or not at all, as with
 *  mica_file_save. It is in the computer's byte order and fits only the same model, adapter and
 *  context_length.
 *
 *  path    path of the file. An existing file is replaced. Borrowed.
 *  errors  those of mica_file_save; MICA_EUNSUPPORTED the engine cannot save sessions. After an
 *          error the session and an existing file are unchanged */
MICA_API mica_status mica_session_save(const mica_session *session, const char *path);

/** Opens a saved session: it continues as the saved one would have. The file is mapped until this
 *  returns and must not be cut meanwhile (mica_model_open says why). mica_session_save may run
 *  meanwhile: it replaces the file and does not write into it.
 *
 *  options NULL for the defaults. Borrowed.
 *  session receives the session, owned by the caller; NULL after an error.
 *  errors  MICA_ENOENT, MICA_EIO; MICA_EFORMAT the file is not a session, has another version or
 *          byte order, is cut short or altered; MICA_EINVAL it was saved with another model,
 *          adapter or context_length; those of mica_session_open;
 *          MICA_EUNSUPPORTED the engine cannot load sessions; MICA_ENOMEM */
MICA_API mica_status mica_session_load(const mica_model *model, const char *path,
                                       const mica_session_options *options, mica_session **session);

/** A call of a tool. */
typedef struct mica_tool_call {
    const char *name;      /* the tool's */
    const char *arguments; /* a JSON object, or what an answer that was cut off has of one */
    const char *id;        /* by which the result names the call; NULL: it has none */
} mica_tool_call;

/** One message of a conversation. Texts are UTF-8; a member that is NULL or 0 is not there. */
typedef struct mica_message {
    size_t struct_bytes;  /* see mica/api.h */
    const char *role;     /* "system", "user", "assistant", "tool", or what else the chat format
                            knows */
    const char *content;  /* the text. An answer that calls tools may have none, and may also be the
                            text as the model wrote it, with its calls; the result of a call is the
                            content of a message of role "tool", or of the user's */
    const char *name;     /* of who speaks, or of the tool whose result it is */
    const char *thoughts; /* what the assistant thought: templates get it as reasoning_content */
    const mica_tool_call *tool_calls; /* [tool_call_count] of the assistant */
    size_t tool_call_count;           /* number of calls */
    const char *tool_call_id;         /* the call whose result it is */
    const char *const *images;        /* [image_count] refused: no model of mica's takes images */
    size_t image_count;               /* number of images */
} mica_message;

/** A number to add to a token's logit, before all else in the sampling chain. */
typedef struct mica_logit_bias {
    int32_t id; /* below the vocabulary's size */
    float bias; /* finite, or -INFINITY: never this token */
} mica_logit_bias;

/** What an answer is constrained to (mica_generate_options.constraint), and what constraint_text
 *  has then. */
typedef enum mica_constraint_kind {
    MICA_CONSTRAINT_NONE,        /* nothing; NULL */
    MICA_CONSTRAINT_JSON_OBJECT, /* any JSON object; NULL */
    MICA_CONSTRAINT_JSON_SCHEMA, /* a document of a JSON schema: its text */
    MICA_CONSTRAINT_REGEX,       /* what matches a regular expression as a whole: the expression */
    MICA_CONSTRAINT_CHOICE,      /* one of 1 to 256 texts: a JSON array of them */
    MICA_CONSTRAINT_GRAMMAR,     /* what a grammar has, in GBNF or in Lark's notation: the grammar,
                                    whose beginning tells the notation */
    MICA_CONSTRAINT_GBNF,        /* the same, in GBNF */
    MICA_CONSTRAINT_LARK         /* the same, in Lark's notation */
} mica_constraint_kind;

/** Options of an answer; zero means the default. All that they point at is borrowed until the
 *  stream is open (rows of a batch: until that returns), but progress_user, which must outlive the
 *  stream. The sampling chain is
 *  logit_bias -> repetition, presence, frequency penalty -> top_p -> min_p -> top_k -> temperature
 *  -> a draw. The op mica_sample (mica/nn.h) has another order: temperature, top_k, top_p, min_p.
 *
 *  Penalties apply to the tokens among the last penalty_window ones: the repetition penalty to
 *  those of the prompt, too, presence and frequency penalties to those of the answer only, as
 *  OpenAI defines them. The logit x of a token that occurs there, c times in the answer, becomes
 *
 *      (x < 0 ? x * repetition_penalty : x / repetition_penalty)
 *          - (c > 0 ? presence_penalty : 0) - c * frequency_penalty
 *
 *  Stop strings: the stop string that is complete first ends the answer; of several at once, the
 *  longest. Neither the stop string nor text after it is handed out, but the token that completes
 *  it is, for it was generated. Text that may become a stop string is held back until that is
 *  decided.
 *
 *  draft_tokens (speculative decoding): drafted tokens are computed together with the last token,
 *  which takes less time than one by one. If the last tokens occurred in the text before, the draft
 *  is what followed them then; else the session's draft model makes it, if there is one. Wrong
 *  drafts are dropped: tokens, text and logprobs have the same bits as without drafts, whatever the
 *  options. The number of drafted tokens, up to draft_tokens, follows how many were right lately.
 *  Answers that repeat the prompt or themselves (summaries, edited code) get faster, others hardly
 *  slower. Rows of mica_batch_generate are not drafted; those of a server are (mica/serve.h).
 *
 *  constraint: each token is drawn from those that the constraint allows, greedily or not, so the
 *  text of an answer that ends by itself (MICA_FINISH_STOP, without a stop string) is a whole
 *  document. One that max_tokens, the context or a stop string ends is the beginning of a document,
 *  perhaps not a whole one. Stop ids are drawn only where a document may end; where nothing else
 *  may follow, the answer ends there, also below min_tokens. docs/structured.md says what schemas,
 *  expressions and grammars may have. Log-probabilities stay those of the raw logits, and drafts
 *  change no bit. In a conversation whose chat template marks thoughts (<think>), these may come
 *  first, freely, and the document behind the mark of their end; the template variable
 *  enable_thinking, false, forbids them. A prompt of any kind that ends with the mark of their
 *  beginning is answered by the rest of the thought, then the document.
 *
 *  A prompt longer than the context is MICA_ECONTEXT. With `truncate` it is cut instead: it keeps
 *  its first token (such as <bos>) and loses the oldest of the others. A prompt that leaves no room
 *  for max_tokens is cut, too. A cut prompt is half the context long, or longer if that leaves room
 *  for max_tokens (of 1 or more). In a model that was opened with a context_length the context has
 *  no end: nothing of this applies, and only max_tokens limits an answer; a row of
 *  mica_batch_generate without it gets as many tokens as the context has. */
typedef struct mica_generate_options {
    size_t struct_bytes;      /* see mica/api.h */
    int64_t max_tokens;       /* 0: until a stop or the end of the context, if that has one */
    int64_t min_tokens;       /* before this many tokens, stop ids are not drawn and stop strings do
                                 not end the answer; at most max_tokens */
    float temperature;        /* sampling temperature; 0: greedy, always the likeliest token */
    int top_k;                /* keep the k likeliest tokens; 0: all */
    float top_p;              /* keep the fewest tokens whose probabilities reach p; 0 or 1: all */
    float min_p;              /* keep tokens of at least min_p times the best one's probability */
    float repetition_penalty; /* of tokens in the window; 0 or 1: none */
    float presence_penalty;   /* of the answer's tokens in the window; below 0 favours them */
    float frequency_penalty;  /* the same, for each of their occurrences there */
    int penalty_window;       /* number of last tokens that penalties apply to; 0: 20 */
    const mica_logit_bias *logit_bias; /* [logit_bias_count]; those of one id add up */
    size_t logit_bias_count;           /* number of biases */
    uint64_t seed;           /* same seed, options, device and threads: same tokens. 0 is a seed as
                                any other, and draws the same tokens each time */
    const int32_t *stop_ids; /* more ids that end the answer, [stop_count] */
    size_t stop_count;       /* number of stop ids */
    const char *const *stop_strings; /* texts that end the answer, [stop_string_count] */
    size_t stop_string_count;        /* number of stop strings */
    /** maximum number of tokens drafted at once, 1 to 63: see above; 0: none, or 7 if the session
     * has a draft model */
    int draft_tokens;
    bool ignore_eos; /* the model's own stop ids do not end the answer: for benchmarks */
    bool logprobs;   /* tokens come with their log-probability */
    /** tokens also come with this many of the likeliest alternatives; implies logprobs */
    int top_logprobs;
    bool echo;          /* the prompt's tokens are handed out first */
    bool truncate;      /* cut a prompt that is too long: see above. Nothing is if the
                                       model was opened with a context_length */
    bool continue_last; /* mica_chat: the answer continues the last message, which is the
                                       assistant's; what is handed out comes after it */
    const char *template_variables; /* mica_chat: a JSON object of variables for the model's chat
                                       template, such as {"enable_thinking": false}; NULL: none */
    const char *tools;              /* mica_chat: a JSON array of tools, as chat templates take
                                       them: [{"type": "function", "function": {"name",
                                       "description", "parameters"}}]. A template or built-in format
                                       that has no place for tools gets their descriptions in the
                                       system message. NULL: none */
    mica_progress progress;         /* prefill, in tokens; may be NULL */
    void *progress_user;            /* given to progress */
    const mica_cancel *cancel;      /* mica_chat: watched while the template is rendered; the answer
                                       itself is cancelled by mica_stream_cancel. May be NULL */
    mica_constraint_kind constraint; /* what the answer may say: see above */
    const char *constraint_text;     /* a schema, an expression, texts or a grammar, as the kind of
                                        the constraint says; NULL without one */
} mica_generate_options;

/** Start an answer.
 *
 *  mica_generate      to a raw prompt: UTF-8, len bytes; len 0: NUL-terminated. Borrowed. It gets
 *                     the special tokens that the tokenizer puts around a text, such as <bos>; a
 *                     prompt that begins with its own <bos> gets no second one, as in mlx-lm.
 *  mica_chat          to a conversation in the model's chat format: the folder's template, else the
 *                     family's built-in one.
 *  mica_generate_ids  to token ids; none are added.
 *
 *  Special tokens are recognised in prompts, and in the contents of messages, too, as transformers,
 *  mlx-lm and llama.cpp do it: who writes "<end_of_turn>" in a message can end it and forge others.
 *  A text that is not trusted may be checked before: encode it (mica_tokenizer_encode), and refuse
 *  or rewrite it if mica_tokenizer_is_special is true of one of its ids.
 *
 *  Nothing is computed before the first mica_stream_next. The common beginning of the prompt and
 *  the session's history is not computed again, as far as the caches still hold it. A session has
 *  one answer at a time: once the first token of another is asked for, an earlier one that has not
 *  ended ends with MICA_EINVAL when it is read.
 *
 *  stream  receives the stream, owned by the caller; NULL after an error.
 *  errors  MICA_EINVAL the prompt or a stop string is empty, an option is out of range, the chat
 *          format refuses the roles, a message has no role, or neither content nor calls, the last
 *          is to be continued and is not the assistant's, or is changed by the format; an id is
 *          past the vocabulary; MICA_EFORMAT text is not UTF-8,
 *          JSON or the template is malformed; MICA_ECONTEXT the prompt is longer than the context
 *          (the text has the numbers; never if the model was opened with a context_length);
 *          MICA_EUNSUPPORTED the model has no chat format, or variables were given for a format
 *          without a template; a message has images, or what its family's built-in format has no
 *          place for; MICA_ECANCELLED options.cancel was set; MICA_ENOMEM
 *          those of a constraint name it and the place in its text: MICA_EINVAL there is no such
 *          kind, its text is missing or not wanted, nothing satisfies it, or it is too large;
 *          MICA_EFORMAT it is malformed; MICA_EUNSUPPORTED it has what mica does not support or
 *          takes too long for a token, or the model's engine has no constraints */
MICA_API mica_status mica_generate(mica_session *session, const char *prompt, size_t len,
                                   const mica_generate_options *options, mica_stream **stream);
MICA_API mica_status mica_chat(mica_session *session, const mica_message *messages, size_t count,
                               const mica_generate_options *options, mica_stream **stream);
MICA_API mica_status mica_generate_ids(mica_session *session, const int32_t *ids, size_t count,
                                       const mica_generate_options *options, mica_stream **stream);

/** Renders a conversation as mica_chat does, without a session: to the text of its prompt, to the
 *  tokens, or to both. So it can be shown, counted and compared with the context before it is
 *  answered; mica_generate_ids answers the tokens. With a constraint, an answer of mica_chat may
 *  begin with thoughts where the template marks them; one of mica_generate_ids may not.
 *
 *  options  of the answer: template_variables, tools, continue_last and cancel are read.
 *           NULL: none. Borrowed.
 *  text     receives the prompt's text, in which special tokens are spelled out; NUL-terminated,
 *           freed with mica_free. NULL: it is not wanted.
 *  len      receives the bytes of text; may be NULL.
 *  ids      receives the tokens [n], freed with mica_free. NULL: they are not wanted.
 *  n        receives the number of tokens; may be NULL, if ids is.
 *  errors   those of mica_chat for messages; all that is received is then NULL or 0 */
MICA_API mica_status mica_model_render(const mica_model *model, const mica_message *messages,
                                       size_t count, const mica_generate_options *options,
                                       char **text, size_t *len, int32_t **ids, size_t *n);

/** A likely token at the place of another. */
typedef struct mica_alternative {
    int32_t id;    /* a token */
    float logprob; /* as in mica_token */
} mica_alternative;

/** One token of an answer. */
typedef struct mica_token {
    int32_t id;       /* -1: no token, only held-back text at the end of the answer */
    const char *text; /* whole characters; empty while one is incomplete, and for special tokens
                         (mica_tokenizer_token has their spelling). Valid until the next call */
    size_t len;       /* bytes of text; a NUL follows them */
    bool prompt;      /* a token of the prompt (options.echo); it has no logprob */
    float logprob;    /* natural logarithm of the token's probability: softmax of the model's raw
                         logits (no bias, penalty, temperature); 0 if not asked for */
    const mica_alternative *alternatives; /* the options.top_logprobs likeliest tokens, likeliest
                                             first; this token is included if it is among them.
                                             Valid until the next call */
    size_t alternative_count;             /* number of alternatives */
} mica_token;

/** Computes the next token. The first call runs the prefill.
 *
 *  returns true with *token set; false at the end: mica_stream_finish and mica_stream_status tell
 *          why; false for NULL. A stop id is not handed out; text that was held back before it is
 *          handed out with the id -1. A token that completes a stop string is handed out, with the
 *          text before that string, and counted. */
MICA_API bool mica_stream_next(mica_stream *stream, mica_token *token);

/** Why a stream ended. */
typedef enum mica_finish {
    MICA_FINISH_NONE,      /* not at the end yet */
    MICA_FINISH_STOP,      /* a stop id, or a stop string */
    MICA_FINISH_LENGTH,    /* max_tokens, or the end of the context, which has none in a model that
                              was opened with a context_length */
    MICA_FINISH_CANCELLED, /* mica_stream_cancel */
    MICA_FINISH_ERROR      /* mica_stream_status tells which */
} mica_finish;

/** The name of a reason as OpenAI's and mica's own interfaces spell it: "none", "stop", "length",
 *  "cancelled", "error". Never NULL; static storage. */
MICA_API const char *mica_finish_name(mica_finish finish);

/** Why the stream ended, and its status: MICA_OK, MICA_ECANCELLED or an error. The error's text is
 *  mica_last_error() in the thread that called mica_stream_next. For NULL they return
 *  MICA_FINISH_NONE and MICA_EINVAL. */
MICA_API mica_finish mica_stream_finish(const mica_stream *stream);
MICA_API mica_status mica_stream_status(const mica_stream *stream);

/** Asks the stream to end: its current or next mica_stream_next returns false within one chunk of
 *  prefill or one token. May be called from any thread and from a signal handler while the stream
 *  is open. Does nothing for NULL. */
MICA_API void mica_stream_cancel(mica_stream *stream);

/** Counts and rates of an answer so far. */
typedef struct mica_metrics {
    size_t struct_bytes;      /* see mica/api.h */
    int64_t prompt_tokens;    /* length of the prompt after truncation */
    int64_t reused_tokens;    /* tokens of the prompt that were in the caches already */
    int64_t truncated_tokens; /* tokens that options.truncate cut from the prompt */
    int64_t forgotten_tokens; /* tokens of the prompt and the answer so far that the next token will
                                 not see: the model was opened with a smaller context_length.
                                 Before the first token is computed: those of the prompt */
    int64_t generated_tokens; /* tokens handed out */
    int64_t drafted_tokens;   /* tokens drafted (options.draft_tokens) */
    int64_t accepted_tokens;  /* drafted tokens that were right */
    double prefill_seconds;   /* time spent on the prompt */
    double decode_seconds;    /* time spent on the tokens after it */
    double prefill_rate;      /* tokens a second; 0: nothing was measured yet */
    double decode_rate;       /* tokens a second; 0: nothing was measured yet */
    uint64_t active_bytes;    /* mica_device_active_bytes, now */
    uint64_t peak_bytes;      /* mica_device_peak_bytes */
    uint64_t fallback_ops;    /* mica_device_fallback_ops */
    double total_seconds;     /* from when the prompt's tokens were known (a text is rendered and
                                 encoded before) until the answer's end, or until now; the time that
                                 the caller spent between tokens is included */
} mica_metrics;

/** Fills *metrics with those of the stream up to now; all zero for a NULL stream. */
MICA_API void mica_stream_metrics(const mica_stream *stream, mica_metrics *metrics);

/** Closes *stream and sets it to NULL. Does nothing for NULL. */
MICA_API void mica_stream_close(mica_stream **stream);

MICA_END

#endif
