/* Models, sessions and streams of tokens.
 *
 *     mica_model *model = NULL;
 *     mica_session *session = NULL;
 *     mica_stream *stream = NULL;
 *     mica_model_open("models/default", NULL, &model);
 *     mica_session_open(model, NULL, &session);
 *     mica_chat(session, &(mica_message){"user", "What is curl?"}, 1, NULL, &stream);
 *     for (mica_token t; mica_stream_next(stream, &t);) fwrite(t.text, 1, t.len, stdout);
 *     mica_status status = mica_stream_status(stream);   // an error comes after the stream
 *     mica_stream_close(&stream);
 *     mica_session_close(&session);
 *     mica_model_close(&model);
 *
 * A model is weights and a tokenizer: immutable, shared by any number of sessions in any threads.
 * A session is the caches and the history of one conversation, a stream is one answer in the
 * making; each belongs to one thread at a time, but for mica_stream_cancel. Close streams before
 * their session, sessions before their model. */
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
/** One answer in the making. */
typedef struct mica_stream mica_stream;

/** Told from time to time how far a long work is: done of total (bytes, tokens). */
typedef void (*mica_progress)(void *user, uint64_t done, uint64_t total);

/** A flag by which one thread ends the work of another. Any number of calls may watch one. */
typedef struct mica_cancel mica_cancel;

/** Opens a flag that is not set. It must outlive the calls that watch it.
 *  errors  MICA_EINVAL, MICA_ENOMEM */
MICA_API mica_status mica_cancel_open(mica_cancel **cancel);

/** Sets the flag, for good: whoever watches it stops within one chunk of prefill or one token. May
 *  be called from any thread and from a signal handler. Nothing for NULL. */
MICA_API void mica_cancel_set(mica_cancel *cancel);

/** Closes *cancel and sets it to NULL; nothing for NULL. */
MICA_API void mica_cancel_close(mica_cancel **cancel);

/** How products with weights are computed. */
typedef enum mica_arithmetic {
    MICA_ARITHMETIC_DEFAULT, /* fast */
    MICA_ARITHMETIC_EXACT,   /* activations stay floats: the reference */
    MICA_ARITHMETIC_FAST /* activations that meet quantised weights are quantised to 8 bits, in the
                            weights' groups; those that meet bf16 or mxfp8 are rounded to bf16;
                            both where the device has faster kernels for that */
} mica_arithmetic;

/** In what a session keeps keys and values, which queries of attention meet. Half the bytes are
 *  read in half the time. With bf16, queries and the weights of the softmax may be rounded to it
 *  too, and then all that is multiplied to int16 (mica_sdpa). */
typedef enum mica_cache_type {
    MICA_CACHE_DEFAULT, /* f32 in exact arithmetic, else bf16 */
    MICA_CACHE_F32,     /* as they were computed */
    MICA_CACHE_F16,     /* rounded to 11 bits; values above 65504 overflow */
    MICA_CACHE_BF16,    /* rounded to 8 bits, of f32's range: what most models were trained in */
    /* rounded to whole numbers up to 127, times a scale for each 32 of them: 8.5 bits an element
     * (mica_to_q8). Queries may be rounded to it too */
    MICA_CACHE_INT8
} mica_cache_type;

/** Options of mica_model_open; zero means the default. */
typedef struct mica_model_options {
    const char *engine;  /* "native"; NULL: the first that takes the folder */
    mica_device *device; /* borrowed, must outlive the model; NULL: the model opens its own */
    int threads;         /* of a device of its own; 0: one a usable core */
    int64_t
        context_length;  /* tokens that a session may hold. Beyond it a token sees the first 4 and
                               the last context_length - 4, its own among them (below 8: half of
                               them the first), in layers that have no smaller window of their own;
                               a prompt may be longer too: mica_metrics.forgotten_tokens. Then a
                               session's memory, and its file, do not grow with its text: of tokens
                               that it cannot go back to it keeps their number and a hash, by which
                               a prompt that begins with the whole text is still known.
                               0: no such limit but the model's own, past which a prompt is
                               refused */
    const char *adapter; /* folder of a LoRA adapter, mlx-lm's (adapters.safetensors) or PEFT's
                               (adapter_model.safetensors), each with adapter_config.json; its
                               products are added to the model's. NULL: none. Borrowed */
    int accelerator_layers; /* how many layers an accelerator shall compute; 0: the engine decides.
                               Where it has no effect, the model's note says so */
    mica_arithmetic arithmetic; /* of products with quantised weights, and with bf16 ones */
    mica_cache_type cache;      /* of sessions' keys and values */
    bool no_mmap;  /* read the weights into memory of the process, in large pages where the system
                      gives them, instead of mapping their files: slower to open, and not shared
                      with other processes. Their files may be changed afterwards */
    bool prefetch; /* read mapped weights ahead, also those that are said to be in memory or would
                      fill more than half of it */
    bool mlock;    /* keep the weights in memory until the model is closed, so that they are never
                      swapped or dropped; reads them ahead too */
    mica_progress progress;    /* loading, in bytes; may be NULL */
    void *progress_user;       /* given to progress */
    const mica_cancel *cancel; /* watched while weights are read; may be NULL. Borrowed */
    const char *chat_template; /* a Jinja template that is taken instead of the folder's own or its
                                  family's built-in format; NULL: those. Borrowed */
} mica_model_options;

/** Opens a model folder (config.json, tokenizer.json, *.safetensors). Weights are mapped, not
 *  copied, but for the option no_mmap. Files that are not in memory yet, and fit in half of it, are
 *  read ahead, which progress tells; others are read when they are first used, but for the options
 *  prefetch and mlock. They are no memory of the device: its limit does not count them. The
 *  tokenizer is opened in a thread of its own; progress is told in the caller's.
 *
 *  A file of mapped weights must stay as it is while the model is open: whoever reads what was cut
 *  off, or what its disk cannot read, gets the signal SIGBUS, which ends a program that does not
 *  handle it. mica handles no signals; a program that must live through it sets no_mmap.
 *
 *  path    the folder. Borrowed.
 *  options NULL for the defaults. Borrowed.
 *  model   receives the model, owned by the caller; NULL after an error.
 *  errors  MICA_ENOENT, MICA_EIO, MICA_EFORMAT, MICA_EUNSUPPORTED, MICA_ESHAPE, MICA_EDTYPE,
 *          MICA_ENOMEM; the text names the file and the tensor or key. MICA_EFORMAT also a
 *          config, tokenizer, template or index beyond what one of its kind may have, some ten
 *          times the largest known: it is not read. MICA_ENOENT also an adapter
 *          for another model: the text lists what it changes and the model lacks. MICA_ENOMEM also
 *          mlock beyond what the process may lock (RLIMIT_MEMLOCK): the text says how much.
 *          MICA_EINVAL an option out of range. MICA_EFORMAT also an ill-formed chat_template: that
 *          of a folder is an error of mica_chat. MICA_ECANCELLED */
MICA_API mica_status mica_model_open(const char *path, const mica_model_options *options,
                                     mica_model **model);

/** Closes *model and sets it to NULL; nothing for NULL. */
MICA_API void mica_model_close(mica_model **model);

/** What a model is. Strings live as long as the model. */
typedef struct mica_model_info {
    const char *path;            /* the folder */
    const char *engine;          /* "native" */
    const char *family;          /* "gemma3" */
    const char *architecture;    /* config.json's model_type, "gemma3_text" */
    const char *dtype;           /* of the weights that are not quantised: "bf16" */
    const char *quantization;    /* "4 bit, groups of 32 (affine)", "none" */
    mica_arithmetic arithmetic;  /* exact where its device makes products with none of the weights
                                    fast, whatever was asked for: see mica_model_get_kernels */
    uint64_t parameters;         /* logical: a 4-bit weight counts as one */
    uint64_t weight_bytes;       /* in the files */
    int64_t layers;              /* decoder blocks */
    int64_t hidden_size;         /* width of the residual stream */
    int64_t heads;               /* of the queries */
    int64_t kv_heads;            /* of keys and values */
    int64_t head_dim;            /* width of a head */
    int64_t intermediate_size;   /* width inside the MLP */
    int64_t vocab_size;          /* rows of the head: the logits of a token */
    int64_t context_length;      /* the most tokens that a session may hold */
    int64_t sliding_window;      /* 0: none */
    int64_t sliding_layers;      /* how many of the layers have it */
    const char *adapter;         /* the folder of its adapter; NULL: none */
    uint64_t adapter_parameters; /* of the adapter; not among the parameters above */
    const char *note; /* lines on what was found in opening it: tensors that nothing reads, options
                         without effect; NULL: nothing */
} mica_model_info;

/** What the model is; all zero for NULL. */
MICA_API mica_model_info mica_model_get_info(const mica_model *model);

/** What products with one kind of a model's matrices are computed with. Strings live as long as the
 *  model. */
typedef struct mica_model_kernels {
    const char *matrix;         /* "4 bit, groups of 64 (affine)", "bf16" */
    bool attention;             /* the matrices are keys, as sessions keep them; else weights */
    mica_arithmetic arithmetic; /* exact where activations, or queries, stay f32 */
    const char *activations;    /* what these become: "int8", "int16" (and scales), "bf16", "f32" */
    const char *one_row;        /* instruction set whose kernels compute a token: decode */
    const char *many_rows;      /* the same for many tokens at once: prefill */
} mica_model_kernels;

/** The i-th kind of matrices, and its kernels as the model's device has chosen them: those of the
 *  weights in the order in which a token meets them, then attention's. An adapter's factors are not
 *  listed: their products are exact. All zero past the end, and for NULL. */
MICA_API mica_model_kernels mica_model_get_kernels(const mica_model *model, size_t i);

/** Bytes that one session needs for its caches at `tokens` of context: none below 1, and above
 *  INT32_MAX, more than a position can be, what it needs at that. 0 for NULL. */
MICA_API uint64_t mica_model_cache_bytes(const mica_model *model, int64_t tokens);

/** The model's tokenizer and device: borrowed, as long as the model; NULL for NULL. */
MICA_API const mica_tokenizer *mica_model_tokenizer(const mica_model *model);
MICA_API mica_device *mica_model_device(const mica_model *model);

/** Options of mica_session_open; zero means the default. */
typedef struct mica_session_options {
    int64_t prefill_chunk;         /* tokens computed at once in prefill; 0: 512 */
    const mica_model *draft_model; /* a smaller model with the same vocabulary, which guesses tokens
                                      for this one: options.draft_tokens of an answer. Where it
                                      fails (out of memory), an answer goes on without guesses.
                                      NULL: none. Borrowed, must outlive the session */
} mica_session_options;

/** Opens an empty session on a model.
 *  errors  MICA_EINVAL an option out of range, a draft model with another vocabulary;
 *          MICA_EUNSUPPORTED a draft model that another engine computes; MICA_ENOMEM */
MICA_API mica_status mica_session_open(const mica_model *model, const mica_session_options *options,
                                       mica_session **session);
MICA_API void mica_session_close(mica_session **session);

/** Forgets the history and frees the caches; nothing for NULL. An answer in the making is over: its
 *  stream ends with MICA_EINVAL. */
MICA_API void mica_session_reset(mica_session *session);

/** Saves a session: its history and caches. The file appears whole or not at all, as by
 *  mica_file_save. What it holds is in the computer's byte order and bound to the model, its
 *  adapter and context_length.
 *
 *  path    of the file; one that is there is replaced. Borrowed.
 *  errors  those of mica_file_save; MICA_EUNSUPPORTED the engine cannot. The session is unharmed,
 *          and what was at `path` too */
MICA_API mica_status mica_session_save(const mica_session *session, const char *path);

/** Opens a session on a model as it was saved: it goes on as the saved one would have. The file is
 *  mapped until this returns, and must not be cut meanwhile (mica_model_open says why);
 *  mica_session_save replaces it instead.
 *
 *  options NULL for the defaults. Borrowed.
 *  session receives the session, owned by the caller; NULL after an error.
 *  errors  MICA_ENOENT, MICA_EIO; MICA_EFORMAT no session file, one of another version or byte
 *          order, cut short, or altered; MICA_EINVAL one of another model, adapter or
 *          context_length, or as mica_session_open;
 *          MICA_EUNSUPPORTED the engine cannot; MICA_ENOMEM */
MICA_API mica_status mica_session_load(const mica_model *model, const char *path,
                                       const mica_session_options *options, mica_session **session);

/** One message of a conversation. */
typedef struct mica_message {
    const char *role;    /* "system", "user", "assistant" */
    const char *content; /* UTF-8 */
} mica_message;

/** What is added to a token's logit before anything else. */
typedef struct mica_logit_bias {
    int32_t id; /* below the vocabulary's size */
    float bias; /* finite, or -INFINITY: never this token */
} mica_logit_bias;

/** Options of an answer; zero means the default. Sampling goes
 *  logit_bias -> repetition, presence, frequency penalty -> top_p -> min_p -> top_k -> temperature
 *  -> a draw.
 *
 *  The penalties look at the last penalty_window tokens, the prompt's among them. A token that is
 *  there c > 0 times has its logit x changed to
 *
 *      (x < 0 ? x * repetition_penalty : x / repetition_penalty)
 *          - presence_penalty - c * frequency_penalty
 *
 *  Stop strings: the first to be complete ends the answer, of several the longest. Neither it nor
 *  what follows is handed out. Text that may yet become one is held back until that is decided.
 *
 *  draft_tokens (speculative decoding): where the last tokens were in the text before, what
 *  followed them then is guessed to follow again, and computed together with the last token, which
 *  takes less time than one by one. Guesses that the answer does not come to are dropped. Tokens,
 *  their text and logprobs are to the bit what they are without, whatever the options; how many are
 *  guessed, up to draft_tokens, goes by how many were right lately. Answers that repeat their
 *  prompt or themselves (summaries, code that is changed) gain; others lose little. Where nothing
 *  of the text is worth guessing, the session's draft model guesses, if it has one. Rows of a batch
 *  do not guess.
 *
 *  A prompt longer than the context is MICA_ECONTEXT. With truncate it loses tokens instead, the
 *  oldest but for the first (such as <bos>), as does one that leaves no room for max_tokens: down
 *  to half the context where max_tokens is 0 or more than that. */
typedef struct mica_generate_options {
    int64_t max_tokens;       /* 0: until a stop or the end of the context */
    int64_t min_tokens;       /* before so many tokens, stop ids are not drawn and stop strings do
                                 not end the answer; at most max_tokens */
    float temperature;        /* 0: greedy, always the likeliest token */
    int top_k;                /* only the k likeliest; 0: all */
    float top_p;              /* the fewest tokens whose probabilities reach p; 0 or 1: all */
    float min_p;              /* only tokens with at least min_p times the best's probability */
    float repetition_penalty; /* of tokens seen lately; 0 or 1: none */
    float presence_penalty;   /* of tokens seen lately; below 0 favours them */
    float frequency_penalty;  /* the same, for each time that they were seen */
    int penalty_window;       /* how many tokens are "lately"; 0: 20 */
    const mica_logit_bias *logit_bias; /* [logit_bias_count], those of one id add up. Borrowed */
    size_t logit_bias_count;           /* how many */
    uint64_t seed;                     /* same seed, options, device and threads: same tokens */
    const int32_t *stop_ids;           /* more ids that end the answer, [stop_count]. Borrowed */
    size_t stop_count;                 /* how many */
    const char *const *stop_strings; /* texts that end the answer, [stop_string_count]. Borrowed */
    size_t stop_string_count;        /* how many */
    /** tokens that may be guessed and computed at once, 1 to 63: see above; 0: none, or 7 where the
     * session has a draft model */
    int draft_tokens;
    bool ignore_eos; /* the model's own stop ids do not end the answer: benchmarks */
    bool logprobs;   /* tokens come with their log-probability */
    /** and with those of so many of the likeliest at their place; implies logprobs */
    int top_logprobs;
    bool echo;                      /* the prompt's tokens are handed out first */
    bool truncate;                  /* see above */
    const char *template_variables; /* mica_chat: a JSON object of variables for the model's chat
                                       template, such as {"enable_thinking": false}; NULL: none */
    const char *tools;              /* mica_chat: a JSON array of tools, as the template wants them;
                                       NULL: none */
    mica_progress progress;         /* prefill, in tokens; may be NULL */
    void *progress_user;            /* given to progress */
    const mica_cancel *cancel;      /* mica_chat: watched while the template is rendered (the answer
                                       itself ends by mica_stream_cancel); may be NULL. Borrowed */
} mica_generate_options;

/** Starts an answer: to a raw prompt (UTF-8, NUL-terminated, or len bytes), to a conversation in
 *  the model's chat format (its folder's template, or else its family's built-in one), to ids.
 *  Nothing is computed before the first mica_stream_next. What the prompt and the session's history
 *  begin with in common is not computed again, as far as the caches still hold it.
 *
 *  stream  receives the stream, owned by the caller; NULL after an error.
 *  errors  MICA_EINVAL an empty prompt, an option out of range, an empty stop string, roles that
 *          the format refuses, an id past the vocabulary; MICA_EFORMAT text that is not UTF-8, JSON
 *          or a template that is none; MICA_ECONTEXT a prompt longer than the context (with the
 *          numbers); MICA_EUNSUPPORTED no chat format, or tools and variables for one without a
 *          template; MICA_ECANCELLED options.cancel; MICA_ENOMEM */
MICA_API mica_status mica_generate(mica_session *session, const char *prompt, size_t len,
                                   const mica_generate_options *options, mica_stream **stream);
MICA_API mica_status mica_chat(mica_session *session, const mica_message *messages, size_t count,
                               const mica_generate_options *options, mica_stream **stream);
MICA_API mica_status mica_generate_ids(mica_session *session, const int32_t *ids, size_t count,
                                       const mica_generate_options *options, mica_stream **stream);

/** A token that might have been drawn. */
typedef struct mica_alternative {
    int32_t id;    /* a token */
    float logprob; /* as in mica_token */
} mica_alternative;

/** One token of an answer. */
typedef struct mica_token {
    int32_t id;       /* -1: only text that had been held back, at the end */
    const char *text; /* whole characters, none while one is incomplete; until the next call */
    size_t len;       /* bytes of text; a NUL follows them */
    bool prompt;      /* one of the prompt's, with options.echo; it has no logprob */
    float logprob; /* natural logarithm of its probability under the softmax of the model's logits
                         as they are (no bias, penalty, temperature); 0 where not asked for */
    const mica_alternative *alternatives; /* the options.top_logprobs likeliest tokens, likeliest
                                             first, this one among them where it belongs; until the
                                             next call */
    size_t alternative_count;             /* how many */
} mica_token;

/** Computes the next token. The first call runs the prefill.
 *
 *  returns true with *token set; false at the end, whose cause mica_stream_finish and
 *          mica_stream_status tell. The token that stops an answer is not handed out; text that was
 *          held back before it is, with the id -1. */
MICA_API bool mica_stream_next(mica_stream *stream, mica_token *token);

/** Why a stream ended. */
typedef enum mica_finish {
    MICA_FINISH_NONE,      /* not at the end yet */
    MICA_FINISH_STOP,      /* a stop id, or a stop string */
    MICA_FINISH_LENGTH,    /* max_tokens, or the end of the context */
    MICA_FINISH_CANCELLED, /* mica_stream_cancel */
    MICA_FINISH_ERROR      /* mica_stream_status tells which */
} mica_finish;

/** Why the stream ended, and its status: MICA_OK, MICA_ECANCELLED or the error, whose text is then
 *  mica_last_error() of the thread that called mica_stream_next. NULL: none, and
 *  MICA_EINVAL. */
MICA_API mica_finish mica_stream_finish(const mica_stream *stream);
MICA_API mica_status mica_stream_status(const mica_stream *stream);

/** Asks the stream to end: its next or current mica_stream_next returns false within one chunk of
 *  prefill or one token. May be called from any thread and from a signal handler, while the stream
 *  is open. Nothing for NULL. */
MICA_API void mica_stream_cancel(mica_stream *stream);

/** Counts and rates of an answer so far. */
typedef struct mica_metrics {
    int64_t prompt_tokens;    /* of the prompt, without those that truncation took */
    int64_t reused_tokens;    /* of these, already in the caches */
    int64_t truncated_tokens; /* taken from the prompt by options.truncate */
    int64_t forgotten_tokens; /* of the prompt and the answer so far: those that the next token will
                                 not see, for the model was opened with a smaller context_length.
                                 Those of the prompt before its first token is computed */
    int64_t generated_tokens; /* handed out */
    int64_t drafted_tokens;   /* guessed, with options.draft_tokens */
    int64_t accepted_tokens;  /* of these, right */
    double prefill_seconds;   /* spent on the prompt */
    double decode_seconds;    /* spent on the tokens after it */
    double prefill_rate;      /* tokens a second; 0 before anything was measured */
    double decode_rate;       /* tokens a second; 0 before anything was measured */
    uint64_t active_bytes;    /* of the device, now */
    uint64_t peak_bytes;      /* of the device, the most */
} mica_metrics;

/** The metrics of the stream up to now; all zero for NULL. */
MICA_API mica_metrics mica_stream_metrics(const mica_stream *stream);

/** Closes *stream and sets it to NULL; nothing for NULL. */
MICA_API void mica_stream_close(mica_stream **stream);

MICA_END

#endif
