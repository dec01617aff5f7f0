/* Work with a model that is no conversation: classes of texts, many answers at once, vectors of
 * texts, probabilities of texts, how far two models are apart, and a look at the attention.
 *
 *     mica_batch_item items[] = {{.prompt = "The sea is"}, {.prompt = "The sun is"}};
 *     mica_batch_results *results = NULL;
 *     mica_status status = mica_batch_generate(model, items, 2, NULL, &results);
 *     for (size_t i = 0; !status && i < results->count; i++) puts(results->rows[i].text);
 *     mica_batch_free(&results);
 *
 * Each of these functions opens the sessions that it needs and returns when all is done. Where
 * there are many texts, each has a row of its own in the results, with its own status: one that
 * fails disturbs no other, and the call itself still returns MICA_OK. A row has the same bits as it
 * has alone.
 *
 * Results belong to the caller; one function frees them, and all that they point at.
 *
 * Threads: any number of these may run on one model at once, each in a thread of its own. An engine
 * that does not compute in this process may refuse them all (MICA_EUNSUPPORTED). */
#ifndef MICA_TASKS_H
#define MICA_TASKS_H

#include <mica/api.h>
#include <mica/model.h>
#include <mica/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

MICA_BEGIN

/** What every task takes, or nothing of it; zero means the default. */
typedef struct mica_task_options {
    mica_progress progress;    /* of the prefill, in tokens; may be NULL */
    void *progress_user;       /* given to progress */
    const mica_cancel *cancel; /* watched; may be NULL. Borrowed */
} mica_task_options;

/* ---- classes ---- */

/** Options of mica_classify; zero means the default. */
typedef struct mica_classify_options {
    const char *const *labels; /* [label_count] UTF-8: of each, the probability of its first token
                                  is told. A label is tokenised alone: where words carry the space
                                  before them, write it. Borrowed */
    size_t label_count;        /* how many; 0: none */
    bool as_chat;              /* each prompt is a user's message in the model's chat format */
    bool logits;               /* keep each row's logits: 4 bytes a token of the vocabulary */
    mica_progress progress;    /* in prompts; may be NULL */
    void *progress_user;       /* given to progress */
    const mica_cancel *cancel; /* once set, the rows to come are MICA_ECANCELLED; may be NULL.
                                  Borrowed */
} mica_classify_options;

/** What the model would say next to one prompt. Of a row that failed, all but status and error is
 *  0 or NULL. */
typedef struct mica_classify_row {
    mica_status status;    /* MICA_OK, or why the row has nothing */
    const char *error;     /* its text; "" for MICA_OK. Never NULL */
    int32_t token;         /* the likeliest next token, the lowest id of equals */
    const char *text;      /* its text, decoded alone; a NUL follows it */
    double probability;    /* of it, among all tokens: softmax of the logits */
    const double *labels;  /* [label_count]: of each label's first token, among all tokens; NULL
                               where no labels were given */
    size_t label;          /* the likeliest label, the first of equals */
    const float *logits;   /* [vocab], where they were asked for; else NULL */
    int64_t prompt_tokens; /* of the prompt */
} mica_classify_row;

/** The rows of mica_classify, in the order of the prompts. */
typedef struct mica_classify_results {
    mica_classify_row *rows; /* [count] */
    size_t count;            /* as many as prompts */
    size_t label_count;      /* as given */
    size_t vocab;            /* length of a row's logits */
    double seconds;          /* that all took */
} mica_classify_results;

/** The next token's probabilities after each of many prompts: one prefill a prompt, no decoding.
 *  What a prompt has in common with the one before it is not computed again: where many share an
 *  instruction, let it come first.
 *
 *  prompts  [count] UTF-8. Borrowed. A prompt that is NULL, empty, not UTF-8 or too long fails its
 *           row alone.
 *  options  NULL for the defaults. Borrowed.
 *  results  receives the rows, freed with mica_classify_free; NULL after an error.
 *  errors   MICA_EINVAL no prompts, a label that tokenises to nothing, two labels with the same
 *           first token (the text names them); MICA_EFORMAT a label that is not UTF-8;
 *           MICA_EUNSUPPORTED as_chat without a chat format; MICA_ENOMEM */
MICA_API mica_status mica_classify(const mica_model *model, const char *const *prompts,
                                   size_t count, const mica_classify_options *options,
                                   mica_classify_results **results);

/** Frees *results and sets it to NULL; nothing for NULL. */
MICA_API void mica_classify_free(mica_classify_results **results);

/* ---- many answers at once ---- */

/** One of many prompts: a raw one, or a conversation. */
typedef struct mica_batch_item {
    const char *prompt;                   /* UTF-8; NULL: the messages. Borrowed */
    const mica_message *messages;         /* [message_count], in the model's chat format; NULL where
                                             prompt is given. Borrowed */
    size_t message_count;                 /* how many */
    const mica_generate_options *options; /* of this row; NULL for the defaults. Borrowed */
} mica_batch_item;

/** One answer of many. */
typedef struct mica_batch_row {
    mica_status status;    /* MICA_OK, MICA_ECANCELLED or the error that ended this row */
    const char *error;     /* its text; "" for MICA_OK. Never NULL */
    mica_finish finish;    /* why it ended */
    const int32_t *ids;    /* [count] the tokens handed out: those before an error too */
    const float *logprobs; /* [count] of them, where the row's options ask for them; else NULL */
    size_t count;          /* how many */
    const char *text;      /* theirs; a NUL follows it. Never NULL */
    size_t len;            /* bytes of text */
    mica_metrics metrics;  /* decode_seconds are those of the rows that were computed with it too */
} mica_batch_row;

/** The rows of mica_batch_generate, in the order of the items. */
typedef struct mica_batch_results {
    mica_batch_row *rows;     /* [count] */
    size_t count;             /* as many as items */
    int64_t prompt_tokens;    /* of all rows */
    int64_t generated_tokens; /* of all rows */
    double seconds;           /* that all took */
} mica_batch_results;

/** Options of mica_batch_generate; zero means the default. */
typedef struct mica_batch_options {
    int parallel; /* rows computed together; as one ends, the next item begins. At most 256;
                     0: 8 */

    /** Told each piece of each row as it comes; false cancels that row. May be NULL. Called in the
     *  caller's thread; the token lives until it returns. */
    bool (*token)(void *user, size_t row, const mica_token *token);
    /** Told that a row has ended; the result lives as long as all. May be NULL. Called in the
     *  caller's thread. */
    void (*done)(void *user, size_t row, const mica_batch_row *result);
    void *user;                /* given to token and done */
    const mica_cancel *cancel; /* once set, all rows end as cancelled; may be NULL. Borrowed */
} mica_batch_options;

/** Answers to many prompts, `parallel` of them at a time: their tokens are computed together, so
 *  that the weights are read once for all. A row's tokens are, bit for bit, those of the prompt
 *  alone with the same options.
 *
 *  items    [count]. Borrowed. An item that mica_generate or mica_chat would refuse fails its row
 *           alone.
 *  options  NULL for the defaults. Borrowed.
 *  results  receives the rows, freed with mica_batch_free; NULL after an error.
 *  errors   MICA_EINVAL no items, parallel out of range; MICA_ENOMEM */
MICA_API mica_status mica_batch_generate(const mica_model *model, const mica_batch_item *items,
                                         size_t count, const mica_batch_options *options,
                                         mica_batch_results **results);

/** Frees *results and sets it to NULL; nothing for NULL. */
MICA_API void mica_batch_free(mica_batch_results **results);

/* ---- vectors of texts ---- */

/** How the vectors of a text's tokens become one. */
typedef enum mica_pooling {
    MICA_POOLING_MEAN, /* their mean, over all tokens of the text */
    MICA_POOLING_LAST  /* the last token's, which has seen all others */
} mica_pooling;

/** Options of mica_embed; zero means the default. */
typedef struct mica_embed_options {
    mica_pooling pooling;   /* the mean, or the last */
    bool normalise;         /* to a Euclidean length of 1 */
    mica_task_options task; /* progress and cancelling */
} mica_embed_options;

/** A text as one vector: the hidden states behind the model's last norm, pooled. What the
 *  tokenizer puts around a text (<bos>) counts as its tokens.
 *
 *  text, len  UTF-8, len bytes; len 0: NUL-terminated. Borrowed.
 *  options    NULL for the defaults. Borrowed.
 *  vector, n  receive f32 [n], n the model's hidden_size; freed with mica_free. Sums are in f64.
 *  errors     MICA_EINVAL an empty text, an option out of range; MICA_EFORMAT not UTF-8;
 *             MICA_ECONTEXT; MICA_ECANCELLED; MICA_ENOMEM */
MICA_API mica_status mica_embed(const mica_model *model, const char *text, size_t len,
                                const mica_embed_options *options, float **vector, size_t *n);

/* ---- probabilities of texts ---- */

/** How likely a text is to the model. */
typedef struct mica_score_result {
    const int32_t *ids;    /* [count] the text's tokens, bos included where there is one */
    const float *logprobs; /* [count] ln P(ids[i] | ids[0 .. i - 1]); the first, which follows
                              nothing, has 0 and is not counted below */
    size_t count;          /* at least 2 */
    double total;          /* sum of logprobs */
    double perplexity;     /* exp(-total / (count - 1)) */
    double seconds;        /* that it took */
} mica_score_result;

/** The log-probability of a text, of every token of it, and its perplexity. No more than a few MB
 *  of logits are held at a time.
 *
 *  text, len  UTF-8, len bytes; len 0: NUL-terminated. Borrowed.
 *  ids, n     the same, tokenised: exactly these.
 *  options    NULL for the defaults. Borrowed.
 *  result     receives it, freed with mica_score_free; NULL after an error.
 *  errors     MICA_EINVAL fewer than two tokens, an id past the vocabulary; MICA_EFORMAT not UTF-8;
 *             MICA_ECONTEXT; MICA_ECANCELLED; MICA_ENOMEM */
MICA_API mica_status mica_score(const mica_model *model, const char *text, size_t len,
                                const mica_task_options *options, mica_score_result **result);
MICA_API mica_status mica_score_ids(const mica_model *model, const int32_t *ids, size_t n,
                                    const mica_task_options *options, mica_score_result **result);

/** Frees *result and sets it to NULL; nothing for NULL. */
MICA_API void mica_score_free(mica_score_result **result);

/* ---- two models on one text ---- */

/** How far one model's predictions are from another's; sums over the tokens of a text. Zero is the
 *  sum over none, and results of several texts may be added up. */
typedef struct mica_comparison {
    uint64_t count;    /* tokens that were predicted: all but the first of each text */
    uint64_t same;     /* where both have the same likeliest token, the lowest id of equals */
    double divergence; /* sum of KL(reference || model), in nats: sum_i p_i ln(p_i / q_i) of
                                 the probabilities p and q that they give each next token */
    double max;        /* the largest of these */
    double reference_logprob; /* sum of ln P(token | those before it), of the reference */
    double model_logprob;     /* the same, of the model */
} mica_comparison;

/** Compares two models with one vocabulary on a text: the same model in two kinds of arithmetic, or
 *  quantised in two ways. Sums are in f64. No more than a few MB of logits are held at a time.
 *
 *  reference, model  may be one and the same.
 *  ids, n            the text's tokens, 2 or more. Borrowed.
 *  options           NULL for the defaults. Borrowed.
 *  sums              the text's are added to these; unchanged after an error.
 *  errors            MICA_EINVAL fewer than two tokens, an id past the vocabulary, vocabularies of
 *                    two sizes; MICA_ECONTEXT; MICA_ECANCELLED; MICA_ENOMEM */
MICA_API mica_status mica_compare_ids(const mica_model *reference, const mica_model *model,
                                      const int32_t *ids, size_t n,
                                      const mica_task_options *options, mica_comparison *sums);

/* ---- attention ---- */

/** Queries and keys of one layer, behind the norm of the heads (where there is one) and turned to
 *  their positions. */
typedef struct mica_attention_layer {
    int64_t layer;  /* its number, counted from 0 */
    const float *q; /* [heads, tokens, head_dim] */
    const float *k; /* [kv_heads, tokens, head_dim] */
} mica_attention_layer;

/** What mica_inspect_attention found. */
typedef struct mica_attention {
    const int32_t *ids;           /* [tokens] of the prompt */
    int64_t tokens;               /* how many */
    int64_t heads;                /* of the queries */
    int64_t kv_heads;             /* of the keys: head h looks at key head h / (heads / kv_heads) */
    int64_t head_dim;             /* width of a head */
    mica_attention_layer *layers; /* [count], in the order asked for */
    size_t count;                 /* how many */
} mica_attention;

/** The queries and keys that layers compute for a prompt; q . k, times the model's scale, is a
 *  score before softmax.
 *
 *  prompt, len    UTF-8, len bytes; len 0: NUL-terminated. Borrowed.
 *  layers, count  numbers of layers, each below the model's; NULL and 0: all. Borrowed.
 *  options        NULL for the defaults. Borrowed.
 *  attention      receives it, freed with mica_attention_free; NULL after an error.
 *  errors         MICA_EINVAL an empty prompt, a layer that is not there or named twice;
 *                 MICA_EFORMAT not UTF-8; MICA_ECONTEXT; MICA_ECANCELLED; MICA_ENOMEM */
MICA_API mica_status mica_inspect_attention(const mica_model *model, const char *prompt, size_t len,
                                            const int64_t *layers, size_t count,
                                            const mica_task_options *options,
                                            mica_attention **attention);

/** Frees *attention and sets it to NULL; nothing for NULL. */
MICA_API void mica_attention_free(mica_attention **attention);

MICA_END

#endif
