/* /v1/score and /v1/rerank: how likely texts are, how alike they are, and how well they answer a
 * query. */
#include "base/alloc.h"
#include "engine/model.h"
#include "serve/common/chance.h"
#include "serve/http/endpoint.h"
#include "serve/jobs/evaluation.h"
#include "serve/jobs/inputs.h"
#include "serve/jobs/state.h"
#include "task/embed.h"
#include "task/encode.h"
#include "task/rerank.h"
#include "task/score.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct scores {
    mc_evaluation evaluation;
    mc_inputs first;    /* texts, text_1, the query */
    mc_inputs second;   /* text_2, documents */
    size_t count;       /* of results */
    mc_json *documents; /* [second.count] as they were given; NULL: not asked for */
    bool list;          /* the answer is an array, as text-embeddings-inference has it */
    mc_pairs pairs;     /* for a model that ranks */
    mc_str *texts;      /* [pairs.count] of them; NULL: another model */
} scores;

static scores *scores_of(mc_evaluation *evaluation) {
    return (scores *)(void *)evaluation;
}

static void on_close(mc_evaluation *evaluation) {
    scores *e = scores_of(evaluation);
    mc_free(e->texts);
    mc_free(e->documents);
    mc_inputs_free(&e->first);
    mc_inputs_free(&e->second);
    mc_free(e);
}

static scores *new_scores(mc_exchange *http, mc_str model, const mc_evaluation_ops *ops) {
    mc_served *served = mc_models_take(&http->server->models, http, model);
    scores *e = served ? mc_calloc(1, sizeof *e) : NULL;
    if (e) e->evaluation = (mc_evaluation){.ops = ops, .http = http, .served = served};
    if (served && !e) mc_failure_of(&http->failure, mc_fail_nomem("a request"), NULL);
    return e;
}

static mica_task_options options_of(scores *e) {
    mica_task_options options = {.struct_bytes = sizeof options,
                                 .progress = mc_evaluation_progress,
                                 .progress_user = &e->evaluation,
                                 .cancel = &e->evaluation.cancel};
    return options;
}

static mc_put begin(scores *e, const char *prefix, const char *list) {
    char id[MC_NAME_BYTES];
    mc_put put = mc_put_into(&e->evaluation.http->out);
    mc_chance_name(prefix, id);
    mc_put_open(&put, NULL, '{');
    mc_put_text(&put, "id", id);
    mc_put_text(&put, "object", "list");
    mc_put_int(&put, "created", (int64_t)time(NULL));
    mc_put_text(&put, "model", mc_models_name(e->evaluation.http));
    mc_put_open(&put, list, '[');
    return put;
}

static bool finish(scores *e, mc_put *put, int64_t tokens) {
    mc_exchange *http = e->evaluation.http;
    mc_put_close(put, ']');
    mc_inputs_put_usage(put, tokens);
    mc_put_close(put, '}');
    http->prompt_tokens = tokens;
    return !put->failed || mc_failure_of(&http->failure, mc_fail_nomem("an answer"), NULL);
}

/* ---- /v1/score ---- */

typedef struct score_values {
    mc_str model;
    mc_json input, text_1, text_2;
} score_values;

#define SCORE(member) offsetof(score_values, member)

static const mc_field score_fields[] = {
    MC_FIELD_AT(TEXT, "model", SCORE(model), .help = "the model; without it, the first one"),
    MC_FIELD_AT(JSON, "input", SCORE(input), .types = MC_FIELD_IS_TEXT | MC_FIELD_IS_ARRAY,
                .help = "a text, texts, token ids, or arrays of these, of two tokens or more each: "
                        "token_logprobs are ln P(token | those before it), null for the first one, "
                        "logprob their sum, perplexity exp(-logprob / (tokens - 1))"),
    MC_FIELD_AT(JSON, "text_1", SCORE(text_1), .types = MC_FIELD_IS_TEXT | MC_FIELD_IS_ARRAY,
                .help = "instead of input: a text for all of text_2, or as many texts"),
    MC_FIELD_AT(JSON, "text_2", SCORE(text_2), .types = MC_FIELD_IS_TEXT | MC_FIELD_IS_ARRAY,
                .help = "score is the cosine of the angle between the embeddings of the pair's "
                        "texts, as /v1/embeddings gives them"),
};

static void put_score(mc_put *put, const mica_score_result *result, size_t i) {
    mc_put_open(put, NULL, '{');
    mc_put_int(put, "index", (int64_t)i);
    mc_put_text(put, "object", "score");
    mc_put_open(put, "tokens", '[');
    for (size_t j = 0; j < result->count; j++)
        mc_put_int(put, NULL, result->ids[j]);
    mc_put_close(put, ']');
    mc_put_open(put, "token_logprobs", '[');
    mc_put_null(put, NULL);
    for (size_t j = 1; j < result->count; j++)
        mc_put_real(put, NULL, (double)result->logprobs[j]);
    mc_put_close(put, ']');
    mc_put_real(put, "logprob", result->total);
    mc_put_real(put, "perplexity", result->perplexity);
    mc_put_close(put, '}');
}

static bool put_scores(scores *e, const mica_score_results *results) {
    mc_put put = begin(e, "score", "data");
    for (size_t i = 0; i < e->count && !put.failed; i++)
        put_score(&put, results->rows[i].score, i);
    return finish(e, &put, e->first.tokens);
}

static bool run_score(mc_evaluation *evaluation) {
    scores *e = scores_of(evaluation);
    const mica_task_options options = options_of(e);
    const mc_session_model *local;
    mica_score_results *results = NULL;
    mc_text *texts = NULL;
    mica_status status = mc_model_local(evaluation->served->model, &local);
    if (status == MICA_OK) status = mc_inputs_texts(e->first.prompts, e->count, &texts);
    if (status == MICA_OK) status = mc_score_texts(local, texts, e->count, &options, &results);
    for (size_t i = 0; status == MICA_OK && i < e->count; i++)
        if (results->rows[i].status != MICA_OK)
            status = mc_fail(results->rows[i].status, "%s", results->rows[i].error);
    bool done = status == MICA_OK && put_scores(e, results);
    mc_free(texts);
    mica_score_texts_free(&results);
    return status == MICA_OK ? done : mc_evaluation_fail(evaluation, status, "input");
}

/* The vectors of texts [count, hidden], freed with mc_free. NULL: http->failure says why. */
static float *embed_all(scores *e, const mc_inputs *inputs, const mc_session_model *local) {
    size_t hidden = (size_t)mc_encode_width(local->lm);
    const mica_embed_options options = {.struct_bytes = sizeof options,
                                        .normalise = true,
                                        .progress = mc_evaluation_progress,
                                        .progress_user = &e->evaluation,
                                        .cancel = &e->evaluation.cancel};
    float *all = mc_array_alloc(inputs->count * hidden, sizeof *all);
    mica_embed_results *results = NULL;
    mc_text *texts = NULL;
    mica_status status = all ? MICA_OK : mc_fail_nomem("vectors");
    if (status == MICA_OK) status = mc_inputs_texts(inputs->prompts, inputs->count, &texts);
    if (status == MICA_OK) status = mc_embed_texts(local, texts, inputs->count, &options, &results);
    for (size_t i = 0; status == MICA_OK && i < inputs->count; i++) {
        const mica_embed_row *row = &results->rows[i];
        if (row->status != MICA_OK) status = mc_fail(row->status, "%s", row->error);
        if (status == MICA_OK) memcpy(all + i * hidden, row->vector, hidden * sizeof *all);
    }
    mc_free(texts);
    mica_embed_texts_free(&results);
    if (status == MICA_OK) return all;
    mc_free(all);
    mc_evaluation_fail(&e->evaluation, status, NULL);
    return NULL;
}

static double dot(const float *a, const float *b, size_t n) {
    double sum = 0.0;
    for (size_t i = 0; i < n; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

static bool run_pairs(mc_evaluation *evaluation) {
    scores *e = scores_of(evaluation);
    const mc_session_model *local;
    mica_status status = mc_model_local(evaluation->served->model, &local);
    if (status != MICA_OK) return mc_evaluation_fail(evaluation, status, "model");
    size_t hidden = (size_t)mc_encode_width(local->lm);
    float *first = embed_all(e, &e->first, local);
    float *second = first ? embed_all(e, &e->second, local) : NULL;
    if (second) {
        mc_put put = begin(e, "score", "data");
        for (size_t i = 0; i < e->count && !put.failed; i++) {
            mc_put_open(&put, NULL, '{');
            mc_put_int(&put, "index", (int64_t)i);
            mc_put_text(&put, "object", "score");
            mc_put_real(
                &put, "score",
                dot(first + (e->first.count > 1 ? i : 0) * hidden, second + i * hidden, hidden));
            mc_put_close(&put, '}');
        }
        finish(e, &put, e->first.tokens + e->second.tokens);
    }
    bool done = second && !evaluation->http->failure.status;
    mc_free(first);
    mc_free(second);
    return done;
}

static const mc_evaluation_ops score_ops = {
    .kind = MC_EVALUATION_SCORE, .run = run_score, .close = on_close};
static const mc_evaluation_ops pair_ops = {
    .kind = MC_EVALUATION_SCORE, .run = run_pairs, .close = on_close};

/* Whether input, or text_1 and text_2 are given. */
static bool check_fields(const score_values *values, mc_failure *failure) {
    bool pairs = mc_json_exists(values->text_1) || mc_json_exists(values->text_2);
    if (pairs == mc_json_exists(values->input))
        return mc_failure_set(failure, 400, pairs ? "invalid_value" : "missing_field", "input",
                              "want either input, or text_1 and text_2");
    const char *missing = !pairs                            ? NULL
                          : !mc_json_exists(values->text_1) ? "text_1"
                          : !mc_json_exists(values->text_2) ? "text_2"
                                                            : NULL;
    return !missing ||
           mc_failure_set(failure, 400, "missing_field", missing, "%s is missing", missing);
}

static bool read_pairs(scores *e, const score_values *values) {
    mc_failure *failure = &e->evaluation.http->failure;
    const mica_model *model = e->evaluation.served->model;
    if (!mc_inputs_read(values->text_1, "text_1", model, &(mc_input_form){0}, &e->first, failure) ||
        !mc_inputs_read(values->text_2, "text_2", model, &(mc_input_form){0}, &e->second, failure))
        return false;
    e->count = e->second.count;
    return e->first.count == 1 || e->first.count == e->count ||
           mc_failure_set(failure, 400, "invalid_value", "text_1",
                          "text_1 has %zu texts, text_2 %zu: want one, or as many", e->first.count,
                          e->count);
}

static bool score(mc_exchange *http) {
    score_values values;
    if (!mc_exchange_read(http, &values) || !check_fields(&values, &http->failure)) return false;
    bool pairs = mc_json_exists(values.text_1);
    scores *e = new_scores(http, values.model, pairs ? &pair_ops : &score_ops);
    if (!e) return false;
    bool done = pairs ? read_pairs(e, &values)
                      : mc_inputs_read(values.input, "input", e->evaluation.served->model, NULL,
                                       &e->first, &http->failure);
    if (!pairs) e->count = e->first.count;
    if (done) return mc_evaluation_start(&e->evaluation, &http->server->evaluator);
    on_close(&e->evaluation);
    return false;
}

/* ---- /v1/rerank ---- */

typedef struct rerank_values {
    mc_str model, query;
    mc_json documents, texts;
    int64_t top_n, max_tokens; /* 0: all */
    bool return_documents, return_text, raw_scores, truncate;
} rerank_values;

#define RERANK(member) offsetof(rerank_values, member)

static const mc_field rerank_fields[] = {
    MC_FIELD_AT(TEXT, "model", RERANK(model), .help = "the model; without it, the first one"),
    MC_FIELD_AT(TEXT, "query", RERANK(query), .required = true, .help = "what is asked"),
    MC_FIELD_AT(
        JSON, "documents", RERANK(documents), .types = MC_FIELD_IS_ARRAY,
        .help = "up to 2048 texts, or objects with a text. relevance_score is a cross-encoder's "
                "score of the query and the document; a language model with ChatML's format, or a "
                "LogitScore module, is asked, as by mica_rerank; of another one it is the "
                "geometric mean of the probabilities of the query's tokens behind the document and "
                "a line feed: exp(1/n sum ln P(q[i] | document, line feed, q[0 .. i - 1]))"),
    MC_FIELD_AT(JSON, "texts", RERANK(texts), .types = MC_FIELD_IS_ARRAY,
                .help = "the same, as text-embeddings-inference calls them: the answer is an array "
                        "of index, score and text then"),
    MC_FIELD_AT(INT, "top_n", RERANK(top_n), .min = 1, .max = INT32_MAX,
                .help = "only so many of the best; all by default"),
    MC_FIELD_AT(BOOL, "return_documents", RERANK(return_documents), .initial = 1,
                .help = "repeat each document in its result"),
    MC_FIELD_AT(BOOL, "return_text", RERANK(return_text), .help = "the same, of texts"),
    MC_FIELD_AT(INT, "max_tokens_per_doc", RERANK(max_tokens), .min = 1, .max = INT32_MAX,
                .help = "only so many tokens from the beginning of a document; all by default"),
    MC_FIELD(ONLY, "max_chunks_per_doc", .choices = "1", .help = "documents are read whole"),
    MC_FIELD(ONLY, "rank_fields", .choices = "[\"text\"]"),
    MC_FIELD_AT(BOOL, "raw_scores", RERANK(raw_scores),
                .help = "a cross-encoder's logits, whatever its config says of scores"),
    MC_FIELD_AT(BOOL, "truncate", RERANK(truncate),
                .help = "a cross-encoder cuts pairs to its maximum always, the longer text first"),
    MC_FIELD(ONLY, "priority", .choices = "0"),
};

typedef struct rank {
    size_t index;
    double score;
} rank;

/* The best first; of equals, the first. */
static int compare_ranks(const void *a, const void *b) {
    const rank *x = a, *y = b;
    if (x->score != y->score) return x->score < y->score ? 1 : -1;
    return x->index < y->index ? -1 : x->index > y->index;
}

/* The score of document i. */
static mica_status score_document(scores *e, size_t i, double *result) {
    const mc_completion_prompt *query = &e->first.prompts[0], *document = &e->second.prompts[i];
    const mica_task_options options = options_of(e);
    size_t n = document->n + query->n;
    int32_t *ids = mc_array_alloc(n, sizeof *ids);
    mica_score_result *scored;
    if (!ids) return mc_fail_nomem("token ids");
    memcpy(ids, document->ids, document->n * sizeof *ids);
    memcpy(ids + document->n, query->ids, query->n * sizeof *ids);
    mica_status status = mica_score_ids(e->evaluation.served->model, ids, n, &options, &scored);
    mc_free(ids);
    if (status != MICA_OK) return status;
    double sum = 0.0;
    for (size_t j = document->n; j < n; j++)
        sum += (double)scored->logprobs[j];
    *result = exp(sum / (double)query->n);
    mica_score_free(&scored);
    return MICA_OK;
}

/* A result of an array, of texts. */
static void put_ranked_text(mc_put *put, const scores *e, const rank *ranked) {
    mc_put_open(put, NULL, '{');
    mc_put_int(put, "index", (int64_t)ranked->index);
    mc_put_real(put, "score", ranked->score);
    if (e->documents) mc_put_value(put, "text", e->documents[ranked->index]);
    mc_put_close(put, '}');
}

static void put_document(mc_put *put, mc_json document) {
    mc_str text;
    if (!mc_json_get_str(document, &text)) {
        mc_put_value(put, "document", document);
        return;
    }
    mc_put_open(put, "document", '{');
    mc_put_str(put, "text", text);
    mc_put_close(put, '}');
}

/* The ranked documents, the best first. */
static bool put_ranks(scores *e, const rank *ranks) {
    mc_exchange *http = e->evaluation.http;
    int64_t tokens = e->second.tokens; /* of pairs, the query's are among them */
    if (!e->texts) tokens += (int64_t)e->second.count * (int64_t)e->first.prompts[0].n;
    mc_put put = e->list ? mc_put_into(&http->out) : begin(e, "rerank", "results");
    if (e->list) mc_put_open(&put, NULL, '[');
    for (size_t i = 0; i < e->count && !put.failed; i++) {
        if (e->list) {
            put_ranked_text(&put, e, &ranks[i]);
            continue;
        }
        mc_put_open(&put, NULL, '{');
        mc_put_int(&put, "index", (int64_t)ranks[i].index);
        if (e->documents) put_document(&put, e->documents[ranks[i].index]);
        mc_put_real(&put, "relevance_score", ranks[i].score);
        mc_put_close(&put, '}');
    }
    if (!e->list) return finish(e, &put, tokens);
    mc_put_close(&put, ']');
    http->prompt_tokens = tokens;
    return !put.failed || mc_failure_of(&http->failure, mc_fail_nomem("an answer"), NULL);
}

/* The scores of all pairs by the model's head. */
static mica_status score_pairs(scores *e, rank *ranks) {
    const mc_session_model *local;
    size_t count = e->second.count;
    float *all = mc_array_alloc(count, sizeof *all);
    if (!all) return mc_fail_nomem("scores");
    const mica_task_options options = options_of(e);
    mica_status status = mc_model_local(e->evaluation.served->model, &local);
    if (status == MICA_OK) status = mc_rerank(local, &e->pairs, &options, all, &e->second.tokens);
    for (size_t i = 0; status == MICA_OK && i < count; i++)
        ranks[i] = (rank){.index = i, .score = (double)all[i]};
    mc_free(all);
    return status;
}

static mica_status score_documents(scores *e, rank *ranks) {
    mica_status status = MICA_OK;
    if (e->texts) return score_pairs(e, ranks);
    for (size_t i = 0; status == MICA_OK && i < e->second.count; i++) {
        ranks[i].index = i;
        status = score_document(e, i, &ranks[i].score);
    }
    return status;
}

static bool run_rerank(mc_evaluation *evaluation) {
    scores *e = scores_of(evaluation);
    rank *ranks = mc_array_alloc(e->second.count, sizeof *ranks);
    mica_status status = ranks ? MICA_OK : mc_fail_nomem("scores");
    if (status == MICA_OK) status = score_documents(e, ranks);
    if (status == MICA_OK) {
        qsort(ranks, e->second.count, sizeof *ranks, compare_ranks);
        put_ranks(e, ranks);
    }
    mc_free(ranks);
    if (status != MICA_OK) return mc_evaluation_fail(evaluation, status, "documents");
    return !evaluation->http->failure.status;
}

static const mc_evaluation_ops rerank_ops = {
    .kind = MC_EVALUATION_RERANK, .run = run_rerank, .close = on_close};

/* Sets input i to a text and what stands behind it. */
static bool encode(scores *e, mc_str text, const char *behind, bool add_special,
                   mc_completion_prompt *input, const char *name) {
    mc_failure *failure = &e->evaluation.http->failure;
    mc_buffer whole = {0};
    mica_status status = MICA_OK;
    if (!mc_buffer_add(&whole, text.ptr, text.len) || !mc_buffer_add_text(&whole, behind))
        status = mc_fail_nomem("a text");
    if (status == MICA_OK)
        status = mica_tokenizer_encode(mica_model_tokenizer(e->evaluation.served->model),
                                       whole.data, whole.len, add_special, &input->ids, &input->n);
    mc_buffer_deinit(&whole);
    return status == MICA_OK || mc_failure_of(failure, status, name);
}

/* A document and a line feed; max_tokens: of its beginning only so many, 0: all. */
static bool encode_document(scores *e, mc_str text, int64_t max_tokens, mc_completion_prompt *input,
                            const char *name) {
    mc_completion_prompt feed = {0};
    if (!encode(e, text, "\n", true, input, name)) return false;
    if (!max_tokens || input->n <= (size_t)max_tokens + 1) return true;
    mica_free(input->ids); /* the line feed may be part of its last token */
    input->ids = NULL;
    if (!encode(e, text, "", true, input, name)) return false;
    bool done = encode(e, MC_STR("\n"), "", false, &feed, name);
    for (size_t i = 0; done && i < feed.n && (size_t)max_tokens + i < input->n; i++)
        input->ids[(size_t)max_tokens + i] = feed.ids[i];
    if (input->n > (size_t)max_tokens + feed.n) input->n = (size_t)max_tokens + feed.n;
    mica_free(feed.ids);
    return done;
}

/* Makes room for the documents of pairs, if the model ranks. */
static bool open_pairs(scores *e, const rerank_values *values, size_t count) {
    mc_failure *failure = &e->evaluation.http->failure;
    const mc_session_model *local;
    bool is_local = mc_model_local(e->evaluation.served->model, &local) == MICA_OK;
    bool reads = is_local && mc_reranks(local->lm);
    if (!(reads && local->lm->ranker) && (values->raw_scores || values->truncate))
        return mc_failure_set(failure, 400, "invalid_value",
                              values->raw_scores ? "raw_scores" : "truncate",
                              "true is for cross-encoders, which the model is not");
    if (!reads) return true;
    e->texts = mc_array_alloc(count, sizeof *e->texts);
    e->pairs = (mc_pairs){.query = values->query,
                          .documents = e->texts,
                          .count = count,
                          .max_document = (size_t)values->max_tokens,
                          .logits = values->raw_scores};
    return e->texts || mc_failure_of(failure, mc_fail_nomem("documents"), NULL);
}

static bool read_documents(scores *e, const rerank_values *values) {
    mc_failure *failure = &e->evaluation.http->failure;
    const char *field = e->list ? "texts" : "documents";
    mc_json documents = e->list ? values->texts : values->documents;
    bool told = e->list ? values->return_text : values->return_documents;
    size_t count = mc_json_count(documents), i = 0;
    if (e->list == mc_json_exists(values->documents))
        return mc_failure_set(failure, 400, e->list ? "invalid_value" : "missing_field",
                              "documents", "want either documents, or texts");
    if (!count || count > MC_PROMPTS)
        return mc_failure_set(failure, 400, "invalid_value", field, "%s: want 1 to %d of them",
                              field, MC_PROMPTS);
    e->second.prompts = mc_calloc(count, sizeof *e->second.prompts);
    if (told) e->documents = mc_calloc(count, sizeof *e->documents);
    if (!e->second.prompts || (told && !e->documents))
        return mc_failure_of(failure, mc_fail_nomem("documents"), NULL);
    if (!open_pairs(e, values, count)) return false;
    for (mc_json_iter it = mc_json_begin(documents); mc_json_next(&it); i++) {
        mc_str text;
        bool object = !e->list && mc_json_get_type(it.value) == MC_JSON_OBJECT;
        if (!mc_json_get_str(object ? mc_json_find(it.value, "text") : it.value, &text) ||
            mc_json_count(it.value) > 1)
            return mc_failure_set(failure, 400, "invalid_type", field, "%s[%zu]: want a string%s",
                                  field, i,
                                  e->list ? "" : ", or an object with nothing but a text");
        e->second.count = i + 1;
        if (e->documents) e->documents[i] = it.value;
        if (e->texts) {
            e->texts[i] = text;
            continue;
        }
        if (!encode_document(e, text, values->max_tokens, &e->second.prompts[i], field))
            return false;
        e->second.tokens += (int64_t)e->second.prompts[i].n;
    }
    return true;
}

static bool read_query(scores *e, const rerank_values *values) {
    mc_failure *failure = &e->evaluation.http->failure;
    if (!values->query.len)
        return mc_failure_set(failure, 400, "invalid_value", "query", "query is empty");
    e->first.prompts = mc_calloc(1, sizeof *e->first.prompts);
    if (!e->first.prompts) return mc_failure_of(failure, mc_fail_nomem("a query"), NULL);
    e->first.count = 1;
    if (e->texts) return true;
    return encode(e, values->query, "", false, &e->first.prompts[0], "query");
}

static bool rerank(mc_exchange *http) {
    rerank_values values;
    if (!mc_exchange_read(http, &values)) return false;
    scores *e = new_scores(http, values.model, &rerank_ops);
    if (!e) return false;
    e->list = mc_json_exists(values.texts);
    if (read_documents(e, &values) && read_query(e, &values)) {
        size_t top = (size_t)values.top_n;
        e->count = top && top < e->second.count ? top : e->second.count;
        return mc_evaluation_start(&e->evaluation, &http->server->evaluator);
    }
    on_close(&e->evaluation);
    return false;
}

#define RERANK_TABLE \
    { rerank_fields, sizeof rerank_fields / sizeof *rerank_fields, 0 }

static const mc_endpoint endpoints[] = {
    MC_ENDPOINT(
        "POST", "/v1/score", score,
        .tables = {{score_fields, sizeof score_fields / sizeof *score_fields, 0}},
        .help = "the log-probabilities of texts (as mica_score), or how alike pairs of texts are"),
    MC_ENDPOINT(
        "POST", "/v1/rerank", rerank, .tables = {RERANK_TABLE},
        .help = "documents by their relevance to a query, the best first, as Jina's API has it"),
    MC_ENDPOINT("POST", "/v2/rerank", rerank, .tables = {RERANK_TABLE},
                .help = "the same, where Cohere's clients ask for it"),
    MC_ENDPOINT("POST", "/rerank", rerank, .tables = {RERANK_TABLE},
                .help = "the same, where llama.cpp's and text-embeddings-inference's clients do"),
};

const mc_endpoint_list mc_endpoints_scores = {"mica's own: scores", endpoints,
                                              sizeof endpoints / sizeof *endpoints};
