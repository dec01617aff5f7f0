/* Tasks other than a conversation: classification, batches of answers, embeddings, scores of texts,
 * the divergence of two models, and the queries and keys of attention.
 *
 *     mica_batch_item items[] = {{.prompt = "The sea is"}, {.prompt = "The sun is"}};
 *     mica_batch_results *results = NULL;
 *     mica_status status = mica_batch_generate(model, items, 2, NULL, &results);
 *     for (size_t i = 0; !status && i < results->count; i++) puts(results->rows[i].text);
 *     mica_batch_free(&results);
 *
 * Each of these functions opens the sessions that it needs and returns when all is done. A function
 * for many texts gives each text a row in its results, with a status of its own: a row that fails
 * does not affect others, and the call still returns MICA_OK. A row has the same bits as if its
 * text were the only one.
 *
 * Where a model's weights are broken, so that a logit or a hidden state is not a number, a task, or
 * its row, is MICA_EINVAL.
 *
 * Results belong to the caller. One function frees them and all that they point at.
 *
 * Threads: any number of these functions may run on one model at once, each in a thread of its own.
 * Engines that do not compute in this process answer the rows of a batch one after another, and
 * refuse the other tasks (MICA_EUNSUPPORTED, naming the engine that can). */
#ifndef MICA_TASKS_H
#define MICA_TASKS_H

#include <mica/api.h>
#include <mica/model.h>
#include <mica/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

MICA_BEGIN

/** Options of scores, comparisons and attention; zero means the default. */
typedef struct mica_task_options {
    size_t struct_bytes;       /* see mica/api.h */
    mica_progress progress;    /* of the prefill, in tokens; may be NULL */
    void *progress_user;       /* given to progress */
    const mica_cancel *cancel; /* watched; may be NULL. Borrowed */
} mica_task_options;

/* ---- classes ---- */

/** Options of mica_classify; zero means the default. */
typedef struct mica_classify_options {
    size_t struct_bytes;       /* see mica/api.h */
    const char *const *labels; /* [label_count] UTF-8. A row has the probability of each label's
                                  first token. Labels are tokenised alone: write the space before a
                                  word if the model's tokens include it. Borrowed */
    size_t label_count;        /* number of labels; 0: none */
    bool as_chat;              /* each prompt is a user's message in the model's chat format */
    bool logits;               /* keep each row's logits: 4 bytes per token of the vocabulary */
    float temperature;         /* of the draw of a row's token; 0: the likeliest is taken */
    int top_k;                 /* draw from the k likeliest tokens; 0: from all */
    uint64_t seed;             /* of a row's draw: that of the first token of an answer with it */
    mica_progress progress;    /* in prompts; may be NULL */
    void *progress_user;       /* given to progress */
    const mica_cancel *cancel; /* once set, the rows to come are MICA_ECANCELLED; may be NULL.
                                  Borrowed */
} mica_classify_options;

/** The model's prediction after one prompt. In a row that failed, all but status and error is 0 or
 *  NULL. */
typedef struct mica_classify_row {
    mica_status status;    /* MICA_OK, or the error of this row */
    const char *error;     /* the error's text; "" for MICA_OK. Never NULL */
    int32_t token;         /* the likeliest next token; of equals, the lowest id. With a
                              temperature the one that was drawn */
    const char *text;      /* that token's text, decoded alone; NUL-terminated */
    double probability;    /* that token's, among all tokens: softmax of the logits */
    const double *labels;  /* [label_count] probability of each label's first token, among all
                               tokens; NULL if no labels were given */
    size_t label;          /* index of the likeliest label; of equals, the first */
    const float *logits;   /* [vocab]; NULL if not asked for */
    int64_t prompt_tokens; /* length of the prompt */
} mica_classify_row;

/** The rows of mica_classify, in the order of the prompts. */
typedef struct mica_classify_results {
    mica_classify_row *rows; /* [count] */
    size_t count;            /* number of prompts */
    size_t label_count;      /* number of labels */
    size_t vocab;            /* length of a row's logits */
    double seconds;          /* time of the whole call */
} mica_classify_results;

/** The next token's probabilities after each of many prompts: one prefill per prompt, no decoding.
 *  The common beginning of a prompt and the one before it is not computed again: put an instruction
 *  that many prompts share first.
 *
 *  prompts  [count] UTF-8. Borrowed. A prompt that is NULL, empty, not UTF-8 or too long fails its
 *           row only.
 *  options  NULL for the defaults. Borrowed.
 *  results  receives the rows, freed with mica_classify_free; NULL after an error.
 *  errors   MICA_EINVAL no prompts, an option out of range, a label of no tokens, two labels with
 *           the same first token (the text names them); MICA_EFORMAT a label is not UTF-8;
 *           MICA_EUNSUPPORTED as_chat is set and the model has no chat format; MICA_ENOMEM */
MICA_API mica_status mica_classify(const mica_model *model, const char *const *prompts,
                                   size_t count, const mica_classify_options *options,
                                   mica_classify_results **results);

/** Frees *results and sets it to NULL. Does nothing for NULL. */
MICA_API void mica_classify_free(mica_classify_results **results);

/* ---- many answers at once ---- */

/** One prompt of a batch: raw, or a conversation. */
typedef struct mica_batch_item {
    const char *prompt;                   /* UTF-8; NULL: the item has messages. Borrowed */
    const mica_message *messages;         /* [message_count], put into the model's chat format; NULL
                                             if prompt is given. Borrowed */
    size_t message_count;                 /* number of messages */
    const mica_generate_options *options; /* of this row; NULL for the defaults. Borrowed */
} mica_batch_item;

/** One answer of a batch. The strings, arrays and metrics live as long as the results. */
typedef struct mica_batch_row {
    mica_status status;    /* MICA_OK, MICA_ECANCELLED or the error that ended this row */
    const char *error;     /* the error's text; "" for MICA_OK. Never NULL */
    mica_finish finish;    /* why the answer ended */
    const int32_t *ids;    /* [count] the answer's tokens; after an error, those before it */
    const float *logprobs; /* [count]; NULL if the row's options do not ask for them. Alternatives
                              (top_logprobs) come with the tokens of mica_batch_options.token */
    size_t count;          /* number of tokens */
    const char *text;      /* the answer's text; NUL-terminated. Never NULL */
    size_t len;            /* bytes of text */

    /** Never NULL. decode_seconds includes the rows that were computed in the same steps. */
    const mica_metrics *metrics;
} mica_batch_row;

/** The rows of mica_batch_generate, in the order of the items. */
typedef struct mica_batch_results {
    mica_batch_row *rows;     /* [count] */
    size_t count;             /* number of items */
    int64_t prompt_tokens;    /* of all rows */
    int64_t generated_tokens; /* of all rows */
    double seconds;           /* time of the whole call */
} mica_batch_results;

/** Options of mica_batch_generate; zero means the default. */
typedef struct mica_batch_options {
    size_t struct_bytes; /* see mica/api.h */
    int parallel; /* number of rows computed together; when a row ends, the next item begins. At
                     most 256; 0: 8 */

    /** Called with each token of each row; returning false cancels that row. May be NULL. Runs in
     *  the caller's thread. The token is valid until it returns. */
    bool (*token)(void *user, size_t row, const mica_token *token);
    /** Called when a row has ended. May be NULL. Runs in the caller's thread. The result lives as
     *  long as the batch's results. */
    void (*done)(void *user, size_t row, const mica_batch_row *result);
    void *user;                /* given to token and done */
    const mica_cancel *cancel; /* once set, all rows end as cancelled; may be NULL. Borrowed */
} mica_batch_options;

/** Answers to many prompts. `parallel` rows are decoded together, so that the weights are read once
 *  for all of them. A row has the same tokens as its prompt alone with the same options; but in a
 *  model that was opened with a context_length, where the context has no end, a row without
 *  max_tokens ends after as many tokens as the context has.
 *
 *  items    [count]. Borrowed. An item that mica_generate or mica_chat would refuse fails its row
 *           only.
 *  options  NULL for the defaults. Borrowed.
 *  results  receives the rows, freed with mica_batch_free; NULL after an error.
 *  errors   MICA_EINVAL no items, parallel out of range; those of mica_session_open; MICA_ENOMEM */
MICA_API mica_status mica_batch_generate(const mica_model *model, const mica_batch_item *items,
                                         size_t count, const mica_batch_options *options,
                                         mica_batch_results **results);

/** Frees *results and sets it to NULL. Does nothing for NULL. */
MICA_API void mica_batch_free(mica_batch_results **results);

/* ---- embeddings ---- */

/** How the hidden states of a text's tokens become one vector. */
typedef enum mica_pooling {
    MICA_POOLING_DEFAULT, /* as an embedder's files say; the mean where they say nothing */
    MICA_POOLING_MEAN,    /* the mean of all tokens */
    MICA_POOLING_LAST     /* the last token's, which has seen all others */
} mica_pooling;

/** Options of mica_embed; zero means the default. */
typedef struct mica_embed_options {
    size_t struct_bytes;       /* see mica/api.h */
    mica_pooling pooling;      /* how hidden states become one vector */
    bool normalise;            /* to a Euclidean length of 1 */
    mica_progress progress;    /* of the prefill, in tokens; may be NULL */
    void *progress_user;       /* given to progress */
    const mica_cancel *cancel; /* watched; may be NULL. Borrowed */
    const char *prompt_name;   /* of an embedder's prompts: "query"; "": none; NULL: its default.
                                  Borrowed */
    int64_t dimensions;        /* only so many of the first numbers; 0: all */
} mica_embed_options;

/** The embedding of a text: the hidden states after the model's last norm, pooled. Tokens that the
 *  tokenizer puts around a text (<bos>, once: see mica_generate) are included.
 *
 *  An embedder, whose folder has the files of sentence-transformers, does what these say: prompts
 *  before texts, a maximum that longer texts are cut to, pooling (where options have no
 *  other), dense modules, normalisation. Its texts may be empty.
 *
 *  text, len  UTF-8, len bytes; len 0: NUL-terminated. Borrowed.
 *  options    NULL for the defaults. Borrowed.
 *  vector, n  receive f32 [n], n the model's hidden_size unless options or an embedder's dense
 *             modules say another number; freed with mica_free. Sums are in f64. With fewer
 *             dimensions a vector that was normalised is normalised anew.
 *  errors     MICA_EINVAL an empty text, an option out of range, no prompt of that name;
 *             MICA_EFORMAT not UTF-8, or files of an embedder; MICA_EUNSUPPORTED a module of
 *             these; MICA_ECONTEXT; MICA_ECANCELLED; MICA_ENOMEM */
MICA_API mica_status mica_embed(const mica_model *model, const char *text, size_t len,
                                const mica_embed_options *options, float **vector, size_t *n);

/** The embedding of one of many texts. In a row that failed, vector is NULL. */
typedef struct mica_embed_row {
    mica_status status;  /* MICA_OK, or the error of this row */
    const char *error;   /* the error's text; "" for MICA_OK. Never NULL */
    const float *vector; /* [width] */
    int64_t tokens;      /* of the text */
} mica_embed_row;

/** The rows of mica_embed_texts, in the order of the texts. */
typedef struct mica_embed_results {
    mica_embed_row *rows; /* [count] */
    size_t count;         /* number of texts */
    size_t width;         /* of vectors, as mica_embed's n */
    double seconds;       /* time of the whole call */
} mica_embed_results;

/** The embeddings of many texts. Short ones are computed together, those of like lengths side by
 *  side; rows therefore end in another order than that of the texts.
 *
 *  texts    [count] UTF-8, as mica_embed's. Borrowed. A text that is NULL, not UTF-8, too long, or
 *           empty where the model is no embedder fails its row only.
 *  options  NULL for the defaults; progress counts texts. Borrowed.
 *  results  receives the rows, freed with mica_embed_texts_free; NULL after an error.
 *  errors   MICA_EINVAL no texts, an option out of range, no prompt of that name;
 *           MICA_EUNSUPPORTED as mica_embed's; MICA_ENOMEM */
MICA_API mica_status mica_embed_texts(const mica_model *model, const char *const *texts,
                                      size_t count, const mica_embed_options *options,
                                      mica_embed_results **results);

/** Frees *results and sets it to NULL. Does nothing for NULL. */
MICA_API void mica_embed_texts_free(mica_embed_results **results);

/* ---- ranks of documents ---- */

/** Options of mica_rerank; zero means the default. */
typedef struct mica_rerank_options {
    size_t struct_bytes;       /* see mica/api.h */
    bool logits;               /* a cross-encoder's scores are logits, whatever its config says */
    const char *instruction;   /* to a language model: what documents are judged for; NULL: whether
                                  they answer a web search query. Borrowed */
    const mica_cancel *cancel; /* watched; may be NULL. Borrowed */
} mica_rerank_options;

/** How relevant documents are to a query: larger is better.
 *
 *  A cross-encoder (BERT, RoBERTa, ModernBERT with a head of one label) reads the query and a
 *  document as a pair, cut to the model's maximum; its score is the logit's sigmoid unless its
 *  config says Identity. A language model is asked as Qwen3-Reranker was trained to be, with that
 *  one's text, if its family's format is ChatML's, or its modules.json has a LogitScore module,
 *  which names the tokens of yes and no; its score is P("yes") / (P("yes") + P("no")) at the first
 *  token of its answer.
 *
 *  documents  [count] UTF-8, NUL-terminated, may be empty. Borrowed.
 *  options    NULL for the defaults. Borrowed.
 *  scores     [count] receives the scores.
 *  errors     MICA_EINVAL no documents; MICA_EFORMAT not UTF-8; MICA_EUNSUPPORTED the model can do
 *             neither, or has a LogitScore module and no token <|im_start|>; MICA_ECONTEXT;
 *             MICA_ECANCELLED; MICA_ENOMEM
 *  source     CrossEncoder.predict of sentence-transformers; Qwen3-Reranker's model card */
MICA_API mica_status mica_rerank(const mica_model *model, const char *query,
                                 const char *const *documents, size_t count,
                                 const mica_rerank_options *options, float *scores);

/* ---- scores of texts ---- */

/** How likely a text is according to the model. */
typedef struct mica_score_result {
    const int32_t *ids;    /* [count] the text's tokens, a BOS first if the tokenizer adds it */
    const float *logprobs; /* [count] ln P(ids[i] | ids[0 .. i - 1]); 0 for the first token, which
                              nothing predicts */
    size_t count;          /* number of tokens, at least 2 */
    double total;          /* sum of logprobs */
    double perplexity;     /* exp(-total / (count - 1)) */
    double seconds;        /* time of the whole call */
} mica_score_result;

/** The log-probability of a text and of each of its tokens, and the perplexity. At most a few MB of
 *  logits are held at a time.
 *
 *  text, len  UTF-8, len bytes; len 0: NUL-terminated. Borrowed.
 *  ids, n     the text as token ids; none are added. Borrowed.
 *  options    NULL for the defaults. Borrowed.
 *  result     receives the result, freed with mica_score_free; NULL after an error.
 *  errors     MICA_EINVAL fewer than two tokens, an id past the vocabulary; MICA_EFORMAT not UTF-8;
 *             MICA_ECONTEXT; MICA_ECANCELLED; MICA_ENOMEM */
MICA_API mica_status mica_score(const mica_model *model, const char *text, size_t len,
                                const mica_task_options *options, mica_score_result **result);
MICA_API mica_status mica_score_ids(const mica_model *model, const int32_t *ids, size_t n,
                                    const mica_task_options *options, mica_score_result **result);

/** Frees *result and sets it to NULL. Does nothing for NULL. */
MICA_API void mica_score_free(mica_score_result **result);

/** The score of one of many texts. */
typedef struct mica_score_row {
    mica_status status;       /* MICA_OK, or the error of this row */
    const char *error;        /* the error's text; "" for MICA_OK. Never NULL */
    mica_score_result *score; /* NULL in a row that failed. Its seconds are 0 */
} mica_score_row;

/** The rows of mica_score_texts, in the order of the texts. */
typedef struct mica_score_results {
    mica_score_row *rows; /* [count] */
    size_t count;         /* number of texts */
    double seconds;       /* time of the whole call */
} mica_score_results;

/** The scores of many texts. Short ones are computed together, as mica_embed_texts does.
 *
 *  texts    [count] UTF-8, as mica_score's. Borrowed. A text that is NULL, not UTF-8, too short or
 *           too long fails its row only.
 *  options  NULL for the defaults; progress counts texts. Borrowed.
 *  results  receives the rows, freed with mica_score_texts_free; NULL after an error.
 *  errors   MICA_EINVAL no texts; MICA_ENOMEM */
MICA_API mica_status mica_score_texts(const mica_model *model, const char *const *texts,
                                      size_t count, const mica_task_options *options,
                                      mica_score_results **results);

/** Frees *results and sets it to NULL. Does nothing for NULL. */
MICA_API void mica_score_texts_free(mica_score_results **results);

/* ---- the divergence of two models ---- */

/** How much a model's predictions differ from a reference's: sums over the tokens of one or more
 *  texts. Zero is the sum over no text. */
typedef struct mica_comparison {
    uint64_t count;    /* predicted tokens: all but the first of each text */
    uint64_t same;     /* of these, where both models have the same likeliest token (of equals, the
                          lowest id) */
    double divergence; /* sum of KL(reference || model), in nats: sum_i p_i ln(p_i / q_i) over the
                                 vocabulary, p of the reference, q of the model */
    double max;        /* the largest of these divergences */
    double reference_logprob; /* sum of ln P(token | tokens before it) by the reference */
    double model_logprob;     /* the same by the model */
} mica_comparison;

/** Compares two models with the same vocabulary on a text: for instance one model in exact and in
 *  fast arithmetic, or quantised to different bits. Sums are in f64. At most a few MB of logits are
 *  held at a time.
 *
 *  reference, model  may be the same model.
 *  ids, n            the text's tokens, 2 or more. Borrowed.
 *  options           NULL for the defaults. Borrowed.
 *  sums              the text's sums are added to these; unchanged after an error.
 *  errors            MICA_EINVAL fewer than two tokens, an id past the vocabulary, vocabularies of
 *                    different sizes; MICA_ECONTEXT; MICA_ECANCELLED; MICA_ENOMEM */
MICA_API mica_status mica_compare_ids(const mica_model *reference, const mica_model *model,
                                      const int32_t *ids, size_t n,
                                      const mica_task_options *options, mica_comparison *sums);

/* ---- attention ---- */

/** Queries and keys of one layer, after q_norm and k_norm (if the model has them) and RoPE. */
typedef struct mica_attention_layer {
    int64_t layer;  /* index of the layer, from 0 */
    const float *q; /* [heads, tokens, head_dim] */
    const float *k; /* [kv_heads, tokens, head_dim] */
} mica_attention_layer;

/** The result of mica_inspect_attention. */
typedef struct mica_attention {
    const int32_t *ids; /* [tokens] of the prompt */
    int64_t tokens;     /* length of the prompt */
    int64_t heads;      /* query heads */
    int64_t kv_heads;   /* key heads: query head h reads key head h / (heads / kv_heads) */
    int64_t head_dim;   /* width of a head */
    mica_attention_layer *layers; /* [count], in the order asked for */
    size_t count;                 /* number of layers */
} mica_attention;

/** The queries and keys of a prompt in some layers. An attention score before softmax is q . k
 *  times the model's scale.
 *
 *  prompt, len    UTF-8, len bytes; len 0: NUL-terminated. Borrowed.
 *  layers, count  indices of layers; NULL and 0: all layers. Borrowed.
 *  options        NULL for the defaults. Borrowed.
 *  attention      receives the result, freed with mica_attention_free; NULL after an error.
 *  errors         MICA_EINVAL an empty prompt, a layer that does not exist or is given twice;
 *                 MICA_EUNSUPPORTED a layer that has no attention; MICA_EFORMAT not UTF-8;
 *                 MICA_ECONTEXT; MICA_ECANCELLED; MICA_ENOMEM */
MICA_API mica_status mica_inspect_attention(const mica_model *model, const char *prompt, size_t len,
                                            const int64_t *layers, size_t count,
                                            const mica_task_options *options,
                                            mica_attention **attention);

/** Frees *attention and sets it to NULL. Does nothing for NULL. */
MICA_API void mica_attention_free(mica_attention **attention);

MICA_END

#endif
