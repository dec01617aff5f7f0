#include "task/rerank.h"

#include "base/alloc.h"
#include "base/buffer.h"
#include "base/cancel.h"
#include "base/options.h"
#include "engine/model.h"
#include "model/sentence.h"
#include "task/classify.h"
#include "task/encode.h"
#include "task/encode_text.h"
#include "text/chat/prompt.h"

#include <string.h>

/* ---- cross-encoders ---- */

enum { PAIRS = 256 }; /* held at a time */

typedef struct ranking {
    const mc_session_model *model;
    const mc_pairs *asked;
    const mica_task_options *options;
    int32_t *query; /* [n], without special tokens */
    size_t n;
    size_t max; /* tokens of a pair */
    mc_encode_text pairs[PAIRS];
    int64_t tokens; /* of all pairs */
} ranking;

static void free_pairs(ranking *r) {
    for (size_t i = 0; i < PAIRS; i++) {
        mica_free((void *)(uintptr_t)r->pairs[i].ids);
        mica_free((void *)(uintptr_t)r->pairs[i].types);
        r->pairs[i] = (mc_encode_text){0};
    }
}

static mica_status encode_pair(ranking *r, mc_str document, mc_encode_text *pair) {
    const mica_tokenizer *tok = r->model->tokenizer;
    int32_t *own, *ids, *types;
    size_t n, max = r->asked->max_document;
    MC_TRY(mc_cancel_check(r->options->cancel));
    MC_TRY(mica_tokenizer_encode(tok, document.ptr, document.len, false, &own, &n));
    mica_status status = mc_encode_pair(tok, r->query, r->n, own, max && max < n ? max : n, r->max,
                                        &ids, &types, &pair->n);
    mica_free(own);
    pair->ids = ids;
    pair->types = types;
    r->tokens += (int64_t)pair->n;
    return status;
}

static mica_status rank_some(ranking *r, size_t first, size_t count, float *scores) {
    mica_status status = MICA_OK;
    for (size_t i = 0; status == MICA_OK && i < count; i++) {
        status = encode_pair(r, r->asked->documents[first + i], &r->pairs[i]);
        if (r->options->progress)
            r->options->progress(r->options->progress_user, first, r->asked->count);
    }
    if (status == MICA_OK)
        status = mc_encode_scores(r->model, r->pairs, count, r->asked->logits, r->options,
                                  scores + first);
    free_pairs(r);
    return status;
}

static mica_status rank_pairs(const mc_session_model *model, const mc_pairs *pairs,
                              const mica_task_options *options, float *scores, int64_t *tokens) {
    ranking *r = mc_calloc(1, sizeof *r);
    if (!r) return mc_fail_nomem("pairs of texts");
    r->model = model;
    r->asked = pairs;
    r->options = options;
    r->max = mc_encode_max_tokens(model->tokenizer, model->lm);
    mica_status status = mica_tokenizer_encode(model->tokenizer, pairs->query.ptr, pairs->query.len,
                                               false, &r->query, &r->n);
    for (size_t at = 0, n; status == MICA_OK && at < pairs->count; at += n) {
        n = pairs->count - at < PAIRS ? pairs->count - at : PAIRS;
        status = rank_some(r, at, n, scores);
    }
    if (tokens) *tokens = r->tokens;
    mica_free(r->query);
    mc_free(r);
    return status;
}

/* ---- language models ---- */

typedef struct asking {
    const mc_session_model *model;
    const mc_pairs *asked;
    int64_t tokens; /* of all questions */
} asking;

/* What Qwen3-Reranker was trained with. */
static bool write_question(const mc_pairs *asked, mc_str document, mc_buffer *out) {
    const char *instruction =
        asked->instruction
            ? asked->instruction
            : "Given a web search query, retrieve relevant passages that answer the query";
    return mc_buffer_printf(
               out,
               "<|im_start|>system\nJudge whether the Document meets the requirements based on the "
               "Query and the Instruct provided. Note that the answer can only be \"yes\" or "
               "\"no\".<|im_end|>\n<|im_start|>user\n<Instruct>: %s\n<Query>: ",
               instruction) &&
           mc_buffer_add(out, asked->query.ptr, asked->query.len) &&
           mc_buffer_add_text(out, "\n<Document>: ") &&
           mc_buffer_add(out, document.ptr, document.len) &&
           mc_buffer_add_text(out, "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n");
}

/* The text of a document's first tokens, freed with mica_free; NULL: it is whole. */
static mica_status cut_document(const mica_tokenizer *tok, size_t max, mc_str document, char **text,
                                size_t *len) {
    int32_t *ids;
    size_t n;
    *text = NULL;
    if (!max) return MICA_OK;
    MC_TRY(mica_tokenizer_encode(tok, document.ptr, document.len, false, &ids, &n));
    mica_status status = n > max ? mica_tokenizer_decode(tok, ids, max, false, text, len) : MICA_OK;
    mica_free(ids);
    return status;
}

static mica_status encode_question(void *context, size_t i, int32_t **ids, size_t *n) {
    asking *a = context;
    const mica_tokenizer *tok = a->model->tokenizer;
    mc_str document = a->asked->documents[i];
    mc_buffer text = {0};
    char *cut;
    MC_TRY(cut_document(tok, a->asked->max_document, document, &cut, &document.len));
    if (cut) document.ptr = cut;
    mica_status status = write_question(a->asked, document, &text)
                             ? mc_prompt_encode(tok, text.data, text.len, ids, n)
                             : mc_fail_nomem("a question");
    if (status == MICA_OK) a->tokens += (int64_t)*n;
    mc_buffer_deinit(&text);
    mica_free(cut);
    return status;
}

static mica_status find_answer(const mica_tokenizer *tok, const char *word, int32_t *id) {
    int32_t *ids;
    size_t n;
    MC_TRY(mica_tokenizer_encode(tok, word, strlen(word), false, &ids, &n));
    if (n) *id = ids[0];
    mica_free(ids);
    return n ? MICA_OK : mc_fail(MICA_EUNSUPPORTED, "the tokenizer has no word '%s'", word);
}

/* Questions have ChatML's marks, whatever the format of the model's chats is. */
static mica_status check_chatml(const mica_tokenizer *tok) {
    mc_str mark = MC_STR("<|im_start|>");
    if (mica_tokenizer_find(tok, mark.ptr, mark.len) >= 0) return MICA_OK;
    return mc_fail(MICA_EUNSUPPORTED, "the tokenizer lacks %s, which questions begin with",
                   mark.ptr);
}

/* The tokens of yes and no: the model's files may name them. */
static mica_status find_answers(const mc_session_model *model, int32_t answers[2]) {
    const mc_sentence *sentence = model->lm->sentence;
    if (sentence && sentence->answers) {
        MC_TRY(check_chatml(model->tokenizer));
        answers[0] = (int32_t)sentence->yes;
        answers[1] = (int32_t)sentence->no;
        return MICA_OK;
    }
    MC_TRY(find_answer(model->tokenizer, "yes", &answers[0]));
    MC_TRY(find_answer(model->tokenizer, "no", &answers[1]));
    for (int i = 0; i < 2; i++)
        if (answers[i] >= model->lm->spec.vocab)
            return mc_fail(MICA_EUNSUPPORTED, "the model has no token for yes, or for no");
    return MICA_OK;
}

static mica_status take_answers(const mica_classify_results *results, float *scores) {
    for (size_t i = 0; i < results->count; i++) {
        const mica_classify_row *row = &results->rows[i];
        if (row->status != MICA_OK) return mc_fail(row->status, "document %zu: %s", i, row->error);
        double both = row->labels[0] + row->labels[1];
        scores[i] = (float)(both > 0.0 ? row->labels[0] / both : 0.0);
    }
    return MICA_OK;
}

static mica_status ask(const mc_session_model *model, const mc_pairs *pairs,
                       const mica_task_options *options, float *scores, int64_t *tokens) {
    int32_t answers[2];
    asking a = {.model = model, .asked = pairs};
    const mc_classify_task task = {.model = model,
                                   .encode = encode_question,
                                   .context = &a,
                                   .count = pairs->count,
                                   .labels = answers};
    const mica_classify_options classify = {.label_count = 2,
                                            .progress = options->progress,
                                            .progress_user = options->progress_user,
                                            .cancel = options->cancel};
    mica_classify_results *results = NULL;
    MC_TRY(find_answers(model, answers));
    mica_status status = mc_classify(&task, &classify, &results);
    if (status == MICA_OK) status = take_answers(results, scores);
    mica_classify_free(&results);
    if (tokens) *tokens = a.tokens;
    return status;
}

/* ---- both ---- */

bool mc_reranks(const mc_lm *lm) {
    const char *chat = lm->spec.chat;
    if (lm->ranker || lm->spec.both_ways) return lm->ranker != NULL;
    return (chat && strcmp(chat, "chatml") == 0) || (lm->sentence && lm->sentence->answers);
}

mica_status mc_rerank(const mc_session_model *model, const mc_pairs *pairs,
                      const mica_task_options *options, float *scores, int64_t *tokens) {
    return (model->lm->ranker ? rank_pairs : ask)(model, pairs, options, scores, tokens);
}

static mica_status rerank(const mc_session_model *model, const char *query,
                          const char *const *documents, size_t count,
                          const mica_rerank_options *options, float *scores) {
    const mica_task_options task = {.cancel = options->cancel};
    mc_str *texts = mc_array_alloc(count, sizeof *texts);
    if (!texts) return mc_fail_nomem("documents");
    for (size_t i = 0; i < count; i++)
        texts[i] = mc_str_of(documents[i]);
    const mc_pairs pairs = {.query = mc_str_of(query),
                            .documents = texts,
                            .count = count,
                            .logits = options->logits,
                            .instruction = options->instruction};
    mica_status status = mc_rerank(model, &pairs, &task, scores, NULL);
    mc_free(texts);
    return status;
}

mica_status mica_rerank(const mica_model *model, const char *query, const char *const *documents,
                        size_t count, const mica_rerank_options *options, float *scores) {
    mica_rerank_options given;
    const mc_session_model *local;
    if (!model || !query || !documents || !count || !scores)
        return mc_fail(MICA_EINVAL, "mica_rerank: there are no documents, or an argument is NULL");
    for (size_t i = 0; i < count; i++)
        if (!documents[i]) return mc_fail(MICA_EINVAL, "mica_rerank: document %zu is NULL", i);
    MC_TRY(MC_OPTIONS_COPY(mica_rerank_options, cancel, &given, options));
    MC_TRY(mc_model_local(model, &local));
    if (!mc_reranks(local->lm))
        return mc_fail(MICA_EUNSUPPORTED,
                       "mica_rerank: %s is neither a cross-encoder nor a language model with "
                       "ChatML's format or a LogitScore module",
                       local->lm->spec.family);
    mc_model_retain(model);
    mica_status status = rerank(local, query, documents, count, &given, scores);
    mc_model_release(model);
    return status;
}
