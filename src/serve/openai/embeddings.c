/* /v1/embeddings: texts as vectors. */
#include "base/alloc.h"
#include "base/base64.h"
#include "engine/model.h"
#include "serve/http/endpoint.h"
#include "serve/jobs/evaluation.h"
#include "serve/jobs/inputs.h"
#include "serve/jobs/state.h"
#include "task/embed.h"
#include "task/encode.h"

/* The most numbers of all vectors of an answer together. */
enum { MAX_VALUES = 1 << 23 };

typedef struct embedding_values {
    mc_str model, prompt_name, task, prompt;
    mc_json input;
    int64_t dimensions; /* 0: all */
    int format, pooling;
    bool normalise;
} embedding_values;

#define AT(member) offsetof(embedding_values, member)

static const mc_field fields[] = {
    MC_FIELD_AT(TEXT, "model", AT(model), .help = "the model; without it, the first one"),
    MC_FIELD_AT(JSON, "input", AT(input), .types = MC_FIELD_IS_TEXT | MC_FIELD_IS_ARRAY,
                .required = true,
                .help = "a text, up to 2048 texts, token ids, or up to 2048 arrays of token ids; "
                        "one that is longer than the context is refused. An embedder's texts get "
                        "its default prompt and are cut to its maximum"),
    MC_FIELD_AT(CHOICE, "encoding_format", AT(format), .choices = "float base64",
                .help = "base64: the vector's f32, little-endian"),
    MC_FIELD_AT(
        INT, "dimensions", AT(dimensions), .min = 1, .max = INT32_MAX,
        .help =
            "only so many of the first numbers, normalised anew; at most the model's hidden size"),
    MC_FIELD_AT(CHOICE, "pooling", AT(pooling), .choices = "model mean last",
                .help = "the vector is the mean of the tokens' hidden states, or the last token's; "
                        "model: what an embedder's files say, else the mean"),
    MC_FIELD_AT(
        TEXT, "prompt_name", AT(prompt_name),
        .help = "the embedder's prompt of that name before each text, such as query; \"\": none"),
    MC_FIELD_AT(TEXT, "prompt", AT(prompt),
                .help = "this text before each text, instead of a prompt of the embedder"),
    MC_FIELD_AT(TEXT, "task", AT(task), .help = "Jina's name of prompt_name: retrieval.query, say"),
    MC_FIELD(ONLY, "late_chunking", .choices = "false", .help = "each text has its own vector"),
    MC_FIELD_AT(BOOL, "normalize", AT(normalise), .initial = 1,
                .help =
                    "to a Euclidean length of 1; an embedder whose files say so does it always"),
    MC_FIELD(NOTED, "user", .help = "names the client's user, of whom nothing is kept"),
};

typedef struct embeddings {
    mc_evaluation evaluation;
    mc_inputs inputs;
    mica_embed_options options;
    const mc_lm *lm; /* of run */
    size_t dimensions;
    bool base64;
    mc_buffer scratch; /* of a vector in base64 */
} embeddings;

static embeddings *embeddings_of(mc_evaluation *evaluation) {
    return (embeddings *)(void *)evaluation;
}

/* ---- vectors ---- */

static void put_vector(mc_put *put, embeddings *e, const float *vector) {
    if (e->base64) { /* mica's platforms are little-endian */
        mc_buffer_clear(&e->scratch);
        if (!mc_base64_encode(vector, e->dimensions * sizeof *vector, &e->scratch))
            put->failed = true;
        mc_put_str(put, "embedding", (mc_str){e->scratch.data, e->scratch.len});
        return;
    }
    mc_put_open(put, "embedding", '[');
    for (size_t i = 0; i < e->dimensions; i++)
        mc_put_real(put, NULL, (double)vector[i]);
    mc_put_close(put, ']');
}

static bool put_input(mc_put *put, embeddings *e, const mica_embed_results *results, size_t i) {
    const mica_embed_row *row = &results->rows[i];
    float *vector = (float *)(uintptr_t)row->vector;
    if (row->status != MICA_OK)
        return mc_evaluation_fail(&e->evaluation, mc_fail(row->status, "%s", row->error), "input");
    mc_vector_shorten(e->lm, &e->options, vector);
    mc_put_open(put, NULL, '{');
    mc_put_text(put, "object", "embedding");
    mc_put_int(put, "index", (int64_t)i);
    put_vector(put, e, vector);
    mc_put_close(put, '}');
    return true;
}

static bool put_all(embeddings *e, const mica_embed_results *results) {
    mc_exchange *http = e->evaluation.http;
    mc_put put = mc_put_into(&http->out);
    mc_put_open(&put, NULL, '{');
    mc_put_text(&put, "object", "list");
    mc_put_text(&put, "model", mc_models_name(http));
    mc_put_open(&put, "data", '[');
    for (size_t i = 0; i < results->count && !put.failed; i++)
        if (!put_input(&put, e, results, i)) return false;
    mc_put_close(&put, ']');
    mc_inputs_put_usage(&put, e->inputs.tokens);
    mc_put_close(&put, '}');
    http->prompt_tokens = e->inputs.tokens;
    return !put.failed || mc_failure_of(&http->failure, mc_fail_nomem("an answer"), NULL);
}

static bool run_embeddings(mc_evaluation *evaluation) {
    embeddings *e = embeddings_of(evaluation);
    const mc_session_model *local;
    mica_embed_results *results = NULL;
    mc_text *texts = NULL;
    mica_status status = mc_model_local(evaluation->served->model, &local);
    if (status != MICA_OK) return mc_failure_of(&evaluation->http->failure, status, "model");
    status = mc_inputs_texts(e->inputs.prompts, e->inputs.count, &texts);
    if (status == MICA_OK)
        status = mc_embed_texts(local, texts, e->inputs.count, &e->options, &results);
    mc_free(texts);
    if (status != MICA_OK) return mc_evaluation_fail(evaluation, status, "input");
    e->lm = local->lm;
    bool done = put_all(e, results);
    mica_embed_texts_free(&results);
    return done;
}

static void on_close(mc_evaluation *evaluation) {
    embeddings *e = embeddings_of(evaluation);
    mc_inputs_free(&e->inputs);
    mc_buffer_deinit(&e->scratch);
    mc_free(e);
}

static const mc_evaluation_ops ops = {
    .kind = MC_EVALUATION_EMBED, .run = run_embeddings, .close = on_close};

/* ---- the request ---- */

static bool check(embeddings *e, const embedding_values *values, mc_failure *failure) {
    int64_t width = mc_encode_model_width(e->evaluation.served->model);
    e->dimensions = (size_t)(values->dimensions ? values->dimensions : width);
    if (values->dimensions > width)
        return mc_failure_set(failure, 400, "invalid_value", "dimensions",
                              "dimensions: the model's vectors have %lld numbers",
                              (long long)width);
    if (e->inputs.count > MAX_VALUES / e->dimensions)
        return mc_failure_set(failure, 400, "invalid_value", "input",
                              "input: %zu vectors of %zu numbers are more than an answer may have, "
                              "%d numbers",
                              e->inputs.count, e->dimensions, MAX_VALUES);
    return true;
}

/* One of the ways to name a prompt. */
static bool check_prompts(const embedding_values *values, mc_failure *failure) {
    int n = (values->prompt.ptr != NULL) + (values->prompt_name.ptr != NULL) +
            (values->task.ptr != NULL);
    return n <= 1 || mc_failure_set(failure, 400, "invalid_value", "prompt",
                                    "want one of prompt_name, prompt and task");
}

static bool embed(mc_exchange *http) {
    embedding_values values;
    if (!mc_exchange_read(http, &values)) return false;
    mc_served *served = mc_models_take(&http->server->models, http, values.model);
    if (!served) return false;
    embeddings *e = mc_calloc(1, sizeof *e);
    if (!e) return mc_failure_of(&http->failure, mc_fail_nomem("a request"), NULL);
    e->evaluation = (mc_evaluation){.ops = &ops, .http = http, .served = served};
    e->base64 = values.format == 1;
    e->options = (mica_embed_options){
        .struct_bytes = sizeof e->options,
        .pooling = (mica_pooling)values.pooling,
        .normalise = values.normalise,
        .dimensions = values.dimensions,
        .progress = mc_evaluation_progress,
        .progress_user = &e->evaluation,
        .cancel = &e->evaluation.cancel,
    };
    const mc_input_form form = {.prompt_name = values.task.ptr ? values.task : values.prompt_name,
                                .prompt = values.prompt};
    if (check_prompts(&values, &http->failure) &&
        mc_inputs_read(values.input, "input", served->model, &form, &e->inputs, &http->failure) &&
        check(e, &values, &http->failure))
        return mc_evaluation_start(&e->evaluation, &http->server->evaluator);
    on_close(&e->evaluation);
    return false;
}

static const mc_endpoint endpoints[] = {
    MC_ENDPOINT("POST", "/v1/embeddings", embed,
                .tables = {{fields, sizeof fields / sizeof *fields, 0}},
                .help = "texts as vectors: the hidden states after the model's last norm, pooled "
                        "(as mica_embed)"),
};

const mc_endpoint_list mc_endpoints_embeddings = {"OpenAI: embeddings", endpoints,
                                                  sizeof endpoints / sizeof *endpoints};
