/* /v1/classify: which of some labels comes next, without an answer being computed. */
#include "base/alloc.h"
#include "base/arena.h"
#include "serve/common/chance.h"
#include "serve/http/endpoint.h"
#include "serve/jobs/evaluation.h"
#include "serve/jobs/inputs.h"
#include "serve/jobs/state.h"

#include <mica/tasks.h>

#include <string.h>
#include <time.h>

typedef struct class_values {
    mc_str model;
    mc_json input, labels;
    bool as_chat;
} class_values;

#define AT(member) offsetof(class_values, member)

static const mc_field fields[] = {
    MC_FIELD_AT(TEXT, "model", AT(model), .help = "the model; without it, the first one"),
    MC_FIELD_AT(JSON, "input", AT(input), .types = MC_FIELD_IS_TEXT | MC_FIELD_IS_ARRAY,
                .required = true,
                .help = "a text, or up to 2048 texts. Put what many of them begin with first: it "
                        "is computed once"),
    MC_FIELD_AT(JSON, "labels", AT(labels), .types = MC_FIELD_IS_ARRAY,
                .help = "texts: probs has the probability of each one's first token behind the "
                        "input, among all tokens, and label the likeliest. Write the space before "
                        "a word if tokens include it"),
    MC_FIELD_AT(BOOL, "as_chat", AT(as_chat),
                .help = "each input is a user's message in the model's chat format"),
};

typedef struct classes {
    mc_evaluation evaluation;
    mc_arena arena; /* of the texts */
    const char **prompts, **labels;
    size_t count, label_count;
    bool as_chat;
} classes;

static classes *classes_of(mc_evaluation *evaluation) {
    return (classes *)(void *)evaluation;
}

static void put_row(mc_put *put, const classes *e, const mica_classify_row *row, size_t i) {
    mc_put_open(put, NULL, '{');
    mc_put_int(put, "index", (int64_t)i);
    mc_put_text(put, "label", e->label_count ? e->labels[row->label] : NULL);
    mc_put_open(put, "probs", '[');
    for (size_t j = 0; j < e->label_count; j++)
        mc_put_real(put, NULL, row->labels[j]);
    mc_put_close(put, ']');
    mc_put_int(put, "num_classes", (int64_t)e->label_count);
    mc_put_int(put, "token", row->token);
    mc_put_text(put, "text", row->text);
    mc_put_real(put, "probability", row->probability);
    mc_put_close(put, '}');
}

static bool put_rows(mc_put *put, classes *e, const mica_classify_results *results) {
    mc_exchange *http = e->evaluation.http;
    char id[MC_NAME_BYTES];
    mc_chance_name("classify", id);
    mc_put_open(put, NULL, '{');
    mc_put_text(put, "id", id);
    mc_put_text(put, "object", "list");
    mc_put_int(put, "created", (int64_t)time(NULL));
    mc_put_text(put, "model", mc_models_name(e->evaluation.http));
    mc_put_open(put, "data", '[');
    for (size_t i = 0; i < results->count; i++) {
        const mica_classify_row *row = &results->rows[i];
        if (row->status != MICA_OK) {
            mica_status status = mc_fail(row->status, "input %zu: %s", i, row->error);
            return mc_evaluation_fail(&e->evaluation, status, "input");
        }
        put_row(put, e, row, i);
        http->prompt_tokens += row->prompt_tokens;
    }
    mc_put_close(put, ']');
    mc_inputs_put_usage(put, http->prompt_tokens);
    mc_put_close(put, '}');
    return !put->failed || mc_failure_of(&http->failure, mc_fail_nomem("an answer"), NULL);
}

static bool run_classes(mc_evaluation *evaluation) {
    classes *e = classes_of(evaluation);
    mica_classify_results *results;
    const mica_classify_options options = {.struct_bytes = sizeof options,
                                           .labels = e->labels,
                                           .label_count = e->label_count,
                                           .as_chat = e->as_chat,
                                           .progress = mc_evaluation_progress,
                                           .progress_user = evaluation,
                                           .cancel = &evaluation->cancel};
    mica_status status =
        mica_classify(evaluation->served->model, e->prompts, e->count, &options, &results);
    if (status == MICA_EINVAL || status == MICA_EFORMAT)
        return mc_evaluation_fail(evaluation, status, "labels");
    if (status != MICA_OK) return mc_evaluation_fail(evaluation, status, NULL);
    mc_put put = mc_put_into(&evaluation->http->out);
    bool done = put_rows(&put, e, results);
    mica_classify_free(&results);
    return done;
}

static void on_close(mc_evaluation *evaluation) {
    classes *e = classes_of(evaluation);
    mc_arena_deinit(&e->arena);
    mc_free(e);
}

static const mc_evaluation_ops ops = {
    .kind = MC_EVALUATION_CLASSIFY, .run = run_classes, .close = on_close};

/* ---- the request ---- */

/* Reads a text or an array of texts. */
static bool read_texts(classes *e, mc_json value, const char *name, size_t min, const char ***texts,
                       size_t *n) {
    mc_failure *failure = &e->evaluation.http->failure;
    bool one = mc_json_get_type(value) == MC_JSON_STRING;
    size_t count = one ? 1 : mc_json_count(value);
    mc_json_iter it = mc_json_begin(value);
    if (count < min || count > MC_PROMPTS)
        return mc_failure_set(failure, 400, "invalid_value", name, "%s: want %zu to %d texts", name,
                              min, MC_PROMPTS);
    *texts = mc_arena_calloc(&e->arena, (count + 1) * sizeof **texts);
    if (!*texts) return mc_failure_of(failure, mc_fail_nomem("texts"), NULL);
    for (size_t i = 0; i < count; i++) {
        mc_str text;
        if (!one) mc_json_next(&it);
        if (!mc_json_get_str(one ? value : it.value, &text) || !text.len ||
            memchr(text.ptr, '\0', text.len))
            return mc_failure_set(failure, 400, "invalid_value", name,
                                  "%s[%zu]: want a text, not empty and without NUL characters",
                                  name, i);
        (*texts)[i] = mc_arena_strndup(&e->arena, text.ptr, text.len);
        if (!(*texts)[i]) return mc_failure_of(failure, mc_fail_nomem("texts"), NULL);
    }
    *n = count;
    return true;
}

static bool classify(mc_exchange *http) {
    class_values values;
    if (!mc_exchange_read(http, &values)) return false;
    mc_served *served = mc_models_take(&http->server->models, http, values.model);
    if (!served) return false;
    classes *e = mc_calloc(1, sizeof *e);
    if (!e) return mc_failure_of(&http->failure, mc_fail_nomem("a request"), NULL);
    e->evaluation = (mc_evaluation){.ops = &ops, .http = http, .served = served};
    e->as_chat = values.as_chat;
    if (read_texts(e, values.input, "input", 1, &e->prompts, &e->count) &&
        read_texts(e, values.labels, "labels", 0, &e->labels, &e->label_count))
        return mc_evaluation_start(&e->evaluation, &http->server->evaluator);
    on_close(&e->evaluation);
    return false;
}

static const mc_endpoint endpoints[] = {
    MC_ENDPOINT(
        "POST", "/v1/classify", classify, .tables = {{fields, sizeof fields / sizeof *fields, 0}},
        .help =
            "the next token's probabilities behind texts, and those of labels (as mica_classify)"),
};

const mc_endpoint_list mc_endpoints_classes = {"mica's own: classes", endpoints,
                                               sizeof endpoints / sizeof *endpoints};
