/* Texts as vectors by ollama's API: /api/embed and the older /api/embeddings. */
#include "serve/ollama/ollama.h"

#include "serve/jobs/evaluation.h"
#include "serve/jobs/inputs.h"
#include "serve/jobs/prompts.h"
#include "serve/jobs/state.h"

#include "base/alloc.h"
#include "engine/model.h"
#include "task/embed.h"
#include "task/encode.h"

typedef struct embed_values {
    mc_str model, prompt;
    mc_json input, keep_alive;
    int64_t dimensions; /* 0: all */
    bool truncate;
} embed_values;

#define AT(member) offsetof(embed_values, member)

#define MODEL_FIELD                                                                    \
    {                                                                                  \
        .name = "model", .kind = MC_FIELD_TEXT, .required = true, .offset = AT(model), \
        .help = "the model's name, with or without :latest"                            \
    }
#define KEEP_FIELD                                                                    \
    {                                                                                 \
        .name = "keep_alive", .kind = MC_FIELD_JSON,                                  \
        .types = MC_FIELD_IS_NUMBER | MC_FIELD_IS_TEXT, .offset = AT(keep_alive),     \
        .help = "how long the model stays in memory after this, as for /api/generate" \
    }
#define OPTIONS_FIELD                                              \
    {                                                              \
        .name = "options", .kind = MC_FIELD_ONLY, .choices = "{}", \
        .help = "none of them is about vectors"                    \
    }

const mc_field mc_ollama_embed_fields[MC_OLLAMA_EMBED_FIELDS] = {
    MODEL_FIELD,
    MC_FIELD_AT(
        JSON, "input", AT(input), .types = MC_FIELD_IS_TEXT | MC_FIELD_IS_ARRAY,
        .help =
            "a text, or up to 2048 texts. Without any, the answer says that the model is loaded"),
    MC_FIELD_AT(BOOL, "truncate", AT(truncate), .initial = 1,
                .help = "cut the end of a text that is longer than the context, or an embedder's "
                        "maximum; false: refuse it"),
    MC_FIELD_AT(
        INT, "dimensions", AT(dimensions), .min = 1, .max = INT32_MAX,
        .help =
            "only so many of the first numbers, normalised anew; at most the model's hidden size"),
    OPTIONS_FIELD,
    KEEP_FIELD,
};

const mc_field mc_ollama_embeddings_fields[MC_OLLAMA_EMBEDDINGS_FIELDS] = {
    MODEL_FIELD,
    MC_FIELD_AT(TEXT, "prompt", AT(prompt), .help = "a text"),
    OPTIONS_FIELD,
    KEEP_FIELD,
};

/* ---- the computation ---- */

typedef struct vectors {
    mc_evaluation evaluation;
    mc_completion_prompt *prompts; /* [count] */
    size_t count, dimensions;
    const mc_lm *lm; /* of run */
    bool older;      /* /api/embeddings: one vector, which is not normalised */
    mica_embed_options options;
} vectors;

static vectors *vectors_of(mc_evaluation *evaluation) {
    return (vectors *)(void *)evaluation;
}

/* key: of the older answer; NULL: an element of the list. */
static bool put_vector(mc_put *put, const char *key, vectors *at, const mica_embed_results *results,
                       size_t i) {
    const mica_embed_row *row = &results->rows[i];
    float *vector = (float *)(uintptr_t)row->vector;
    if (row->status != MICA_OK)
        return mc_evaluation_fail(&at->evaluation, mc_fail(row->status, "%s", row->error), "input");
    mc_vector_shorten(at->lm, &at->options, vector);
    mc_put_open(put, key, '[');
    for (size_t k = 0; k < at->dimensions; k++)
        mc_put_real(put, NULL, (double)vector[k]);
    mc_put_close(put, ']');
    return true;
}

/* The older answer has nothing but its vector. */
static bool put_older(mc_put *put, vectors *at, const mica_embed_results *results) {
    if (at->count) return put_vector(put, "embedding", at, results, 0);
    mc_put_open(put, "embedding", '[');
    mc_put_close(put, ']');
    return true;
}

static bool put_all(mc_put *put, vectors *at, const mica_embed_results *results) {
    int64_t tokens = 0;
    mc_put_text(put, "model", mc_models_name(at->evaluation.http));
    mc_put_open(put, "embeddings", '[');
    for (size_t i = 0; i < at->count && !put->failed; i++) {
        if (!put_vector(put, NULL, at, results, i)) return false;
        tokens += (int64_t)at->prompts[i].n;
    }
    mc_put_close(put, ']');
    mc_put_int(put, "total_duration", (int64_t)(results->seconds * 1e9));
    mc_put_int(put, "load_duration", 0);
    mc_put_int(put, "prompt_eval_count", tokens);
    at->evaluation.http->prompt_tokens = tokens;
    return true;
}

static bool run_embeddings(mc_evaluation *evaluation) {
    vectors *at = vectors_of(evaluation);
    mc_exchange *http = evaluation->http;
    const mc_session_model *local;
    mica_status status = mc_model_local(evaluation->served->model, &local);
    if (status != MICA_OK) return mc_failure_of(&http->failure, status, "model");
    mica_embed_results *results = NULL;
    mc_text *texts = NULL;
    at->lm = local->lm;
    status = mc_inputs_texts(at->prompts, at->count, &texts);
    if (status == MICA_OK) status = mc_embed_texts(local, texts, at->count, &at->options, &results);
    mc_free(texts);
    if (status != MICA_OK) return mc_evaluation_fail(evaluation, status, "input");
    mc_put put = mc_put_into(&http->out);
    mc_put_open(&put, NULL, '{');
    bool done = (at->older ? put_older : put_all)(&put, at, results);
    mica_embed_texts_free(&results);
    if (!done) return false;
    mc_put_close(&put, '}');
    return !put.failed || mc_failure_of(&http->failure, mc_fail_nomem("an answer"), NULL);
}

static void on_close(mc_evaluation *evaluation) {
    vectors *at = vectors_of(evaluation);
    if (at->prompts) mc_prompts_free(at->prompts, at->count);
    mc_free(at);
}

static const mc_evaluation_ops ops = {
    .kind = MC_EVALUATION_EMBED, .run = run_embeddings, .close = on_close};

/* ---- the requests ---- */

/* Cuts prompts that are longer than the context, or refuses them. */
static bool fit(vectors *at, bool truncate, int64_t context, mc_failure *failure) {
    for (size_t i = 0; i < at->count; i++) {
        mc_completion_prompt *prompt = &at->prompts[i];
        if ((int64_t)prompt->n <= context) continue;
        if (!truncate)
            return mc_failure_set(failure, 400, "context_length_exceeded", "input",
                                  "input %zu has %zu tokens, the model's context %lld", i,
                                  prompt->n, (long long)context);
        prompt->n = (size_t)context;
    }
    return true;
}

static bool check_texts(mc_json input, mc_failure *failure) {
    mc_str text;
    for (mc_json_iter it = mc_json_begin(input); mc_json_next(&it);)
        if (!mc_json_get_str(it.value, &text))
            return mc_failure_set(failure, 400, "invalid_type", "input",
                                  "input: want a string, or an array of strings");
    return true;
}

static bool is_empty(mc_json input) {
    mc_str text;
    if (mc_json_get_str(input, &text)) return text.len == 0;
    return mc_json_count(input) == 0;
}

/* Sets what is to be computed. input NONE, or empty: nothing. */
static bool prepare(vectors *at, const embed_values *values, mc_json input, mc_failure *failure) {
    mica_model_info info = {.struct_bytes = sizeof info};
    const mica_model *model = at->evaluation.served->model;
    const mica_tokenizer *tok = mica_model_tokenizer(model);
    const mc_input_form form = {.whole = !at->older && !values->truncate};
    const mc_text_reader *reader;
    mc_text_reader own;
    mica_model_get_info(model, &info);
    int64_t width = mc_encode_model_width(model);
    if (values->dimensions > width)
        return mc_failure_set(failure, 400, "invalid_value", "dimensions",
                              "dimensions: the model's vectors have %lld numbers",
                              (long long)width);
    at->dimensions = (size_t)(values->dimensions ? values->dimensions : width);
    at->options.dimensions = values->dimensions;
    if (is_empty(input)) return true;
    return check_texts(input, failure) && mc_input_reader(model, &form, &own, &reader, failure) &&
           mc_prompts_read(input, at->older ? "prompt" : "input", tok,
                           mica_tokenizer_vocab_size(tok), reader, &at->prompts, &at->count,
                           failure) &&
           fit(at, values->truncate, info.context_length, failure);
}

static bool embed(mc_exchange *http, bool older) {
    embed_values values = {0};
    int64_t keep_us;
    bool keeps;
    if (!mc_exchange_read(http, &values) ||
        !mc_ollama_read_keep(values.keep_alive, &keep_us, &keeps, &http->failure))
        return false;
    mc_served *served = mc_ollama_take(http, values.model);
    if (!served || (keeps && !mc_models_keep(http, keep_us))) return false;
    vectors *at = mc_calloc(1, sizeof *at);
    if (!at) return mc_failure_of(&http->failure, mc_fail_nomem("a request"), NULL);
    at->evaluation = (mc_evaluation){.ops = &ops, .http = http, .served = served};
    at->older = older;
    at->options = (mica_embed_options){
        .struct_bytes = sizeof at->options,
        .normalise = !older,
        .progress = mc_evaluation_progress,
        .progress_user = &at->evaluation,
        .cancel = &at->evaluation.cancel,
    };
    mc_json input = older ? mc_json_find(mc_json_root(http->doc), "prompt") : values.input;
    if (prepare(at, &values, input, &http->failure))
        return mc_evaluation_start(&at->evaluation, &http->server->evaluator);
    on_close(&at->evaluation);
    return false;
}

bool mc_ollama_embed(mc_exchange *http) {
    return embed(http, false);
}

bool mc_ollama_embeddings(mc_exchange *http) {
    return embed(http, true);
}
