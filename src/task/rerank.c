#include "task/rerank.h"

#include "base/alloc.h"
#include "base/buffer.h"
#include "base/cancel.h"
#include "base/options.h"
#include "engine/model.h"
#include "task/encode.h"
#include "task/encode_text.h"

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
    size_t n, most = r->asked->max_document;
    MC_TRY(mc_cancel_check(r->options->cancel));
    MC_TRY(mica_tokenizer_encode(tok, document.ptr, document.len, false, &own, &n));
    mica_status status = mc_encode_pair(tok, r->query, r->n, own, most && most < n ? most : n,
                                        r->max, &ids, &types, &pair->n);
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

mica_status mc_rerank_pairs(const mc_session_model *model, const mc_pairs *pairs,
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

static mica_status rank_pairs(const mc_session_model *model, const char *query,
                              const char *const *documents, size_t count,
                              const mica_rerank_options *options, float *scores) {
    const mica_task_options task = {.cancel = options->cancel};
    mc_str *texts = mc_array_alloc(count, sizeof *texts);
    if (!texts) return mc_fail_nomem("documents");
    for (size_t i = 0; i < count; i++)
        texts[i] = mc_str_of(documents[i]);
    const mc_pairs pairs = {mc_str_of(query), texts, count, 0, options->logits};
    mica_status status = mc_rerank_pairs(model, &pairs, &task, scores, NULL);
    mc_free(texts);
    return status;
}

/* ---- language models ---- */

/* What Qwen3-Reranker was trained with. */
static bool write_question(const char *instruction, const char *query, const char *document,
                           mc_buffer *out) {
    return mc_buffer_printf(
        out,
        "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query "
        "and the Instruct provided. Note that the answer can only be \"yes\" or "
        "\"no\".<|im_end|>\n<|im_start|>user\n<Instruct>: %s\n<Query>: %s\n<Document>: "
        "%s<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n",
        instruction, query, document);
}

static void free_questions(char **questions, size_t count) {
    for (size_t i = 0; questions && i < count; i++)
        mc_free(questions[i]);
    mc_free(questions);
}

static mica_status write_questions(const mica_rerank_options *options, const char *query,
                                   const char *const *documents, size_t count, char **questions) {
    const char *instruction =
        options->instruction
            ? options->instruction
            : "Given a web search query, retrieve relevant passages that answer the query";
    for (size_t i = 0; i < count; i++) {
        mc_buffer text = {0};
        if (write_question(instruction, query, documents[i], &text))
            questions[i] = mc_buffer_take(&text);
        mc_buffer_deinit(&text);
        if (!questions[i]) return mc_fail_nomem("a question");
    }
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

static mica_status ask(const mica_model *model, const char *query, const char *const *documents,
                       size_t count, const mica_rerank_options *options, float *scores) {
    static const char *const labels[] = {"yes", "no"};
    const mica_classify_options classify = {
        .labels = labels, .label_count = 2, .cancel = options->cancel};
    mica_classify_results *results = NULL;
    char **questions = mc_calloc(count, sizeof *questions);
    mica_status status = questions ? write_questions(options, query, documents, count, questions)
                                   : mc_fail_nomem("questions");
    if (status == MICA_OK)
        status = mica_classify(model, (const char *const *)questions, count, &classify, &results);
    if (status == MICA_OK) status = take_answers(results, scores);
    mica_classify_free(&results);
    free_questions(questions, count);
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
    const char *chat = local->lm->spec.chat;
    if (!local->lm->ranker && (local->lm->spec.both_ways || !chat || strcmp(chat, "chatml") != 0))
        return mc_fail(MICA_EUNSUPPORTED,
                       "mica_rerank: %s is neither a cross-encoder nor a language model with "
                       "ChatML's format",
                       local->lm->spec.family);
    mc_model_retain(model);
    mica_status status = local->lm->ranker
                             ? rank_pairs(local, query, documents, count, &given, scores)
                             : ask(model, query, documents, count, &given, scores);
    mc_model_release(model);
    return status;
}
