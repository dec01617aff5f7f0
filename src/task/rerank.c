/* mica_rerank: documents by their relevance to a query. */
#include "base/alloc.h"
#include "base/buffer.h"
#include "base/options.h"
#include "engine/model.h"
#include "task/encode.h"
#include "task/encode_text.h"

#include <string.h>

/* ---- cross-encoders ---- */

static void free_pairs(mc_encode_text *pairs, size_t count) {
    for (size_t i = 0; pairs && i < count; i++) {
        mica_free((void *)(uintptr_t)pairs[i].ids);
        mica_free((void *)(uintptr_t)pairs[i].types);
    }
    mc_free(pairs);
}

static mica_status encode_pairs(const mica_model *model, const mc_lm *lm, const char *query,
                                const char *const *documents, size_t count, mc_encode_text *pairs) {
    mica_status status = MICA_OK;
    for (size_t i = 0; status == MICA_OK && i < count; i++) {
        int32_t *ids, *types;
        status = mc_encode_pair(mica_model_tokenizer(model), lm, mc_str_of(query),
                                mc_str_of(documents[i]), 0, &ids, &types, &pairs[i].n);
        pairs[i].ids = ids;
        pairs[i].types = types;
    }
    return status;
}

static mica_status rank_pairs(const mica_model *model, const mc_session_model *local,
                              const char *query, const char *const *documents, size_t count,
                              const mica_rerank_options *options, float *scores) {
    mc_encode_text *pairs = mc_calloc(count, sizeof *pairs);
    mica_status status = pairs ? encode_pairs(model, local->lm, query, documents, count, pairs)
                               : mc_fail_nomem("pairs of texts");
    if (status == MICA_OK)
        status = mc_encode_scores(local, pairs, count, options->logits, options->cancel, scores);
    free_pairs(pairs, count);
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
                             ? rank_pairs(model, local, query, documents, count, &given, scores)
                             : ask(model, query, documents, count, &given, scores);
    mc_model_release(model);
    return status;
}
