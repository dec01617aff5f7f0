/* mica/tasks.h: checks arguments, turns texts to ids, and calls the tasks of this folder. A task
 * retains its model: its caller's callbacks may close it. */
#include "base/alloc.h"
#include "base/cancel.h"
#include "base/options.h"
#include "engine/model.h"
#include "task/batch.h"
#include "task/classify.h"
#include "task/compare.h"
#include "task/embed.h"
#include "task/encode.h"
#include "task/encode_text.h"
#include "task/inspect.h"
#include "task/score.h"
#include "task/task.h"

#include <string.h>

/* ---- texts ---- */

static mica_status encode(const mica_model *model, const char *text, size_t len, int32_t **ids,
                          size_t *n) {
    if (!text) return mc_fail(MICA_EINVAL, "the text is NULL");
    if (!len) len = strlen(text);
    if (!len) return mc_fail(MICA_EINVAL, "the text is empty: give at least one character");
    return mc_prompt_encode(mica_model_tokenizer(model), text, len, ids, n);
}

/* The beginning of all tasks of one text: checks and tokenises it. */
static mica_status open_text(const char *function, const mica_model *model, const char *text,
                             size_t len, const mc_session_model **local, int32_t **ids, size_t *n) {
    if (!model) return mc_fail(MICA_EINVAL, "%s: model is NULL", function);
    MC_TRY(mc_model_local(model, local));
    mica_status status = encode(model, text, len, ids, n);
    return status == MICA_OK ? MICA_OK : mc_fail_context(status, "%s", function);
}

/* ---- vectors ---- */

/* A text as the model's vectors are made of it. *skip: see mc_text. */
static mica_status encode_embedded(const mc_text_reader *reader, const mica_model *model,
                                   const char *text, size_t len, int32_t **ids, size_t *n,
                                   size_t *skip) {
    *skip = 0;
    if (!mc_encodes(reader->lm)) return encode(model, text, len, ids, n);
    if (!text) return mc_fail(MICA_EINVAL, "the text is NULL");
    return mc_encode_ids(reader, (mc_str){text, len ? len : strlen(text)}, ids, n, skip);
}

static mica_status open_reader(const mica_model *model, const mc_lm *lm, const char *prompt_name,
                               mc_text_reader *reader) {
    mc_str name = prompt_name ? mc_str_of(prompt_name) : (mc_str){0};
    return mc_text_reader_init(mica_model_tokenizer(model), lm, name, reader);
}

static mica_status check_dimensions(const mc_lm *lm, int64_t dimensions) {
    int64_t width = mc_encode_width(lm);
    if (dimensions >= 0 && dimensions <= width) return MICA_OK;
    return mc_fail(MICA_EINVAL, "dimensions %lld: the model's vectors have %lld numbers",
                   (long long)dimensions, (long long)width);
}

mica_status mica_embed(const mica_model *model, const char *text, size_t len,
                       const mica_embed_options *options, float **vector, size_t *n) {
    mica_embed_options given;
    const mc_session_model *local;
    int32_t *ids = NULL;
    size_t count, skip;
    mc_text_reader reader;
    if (!vector || !n)
        return mc_fail(MICA_EINVAL, "mica_embed: %s is NULL", vector ? "n" : "vector");
    *vector = NULL;
    *n = 0;
    MC_TRY(MC_OPTIONS_COPY(mica_embed_options, dimensions, &given, options));
    if (!model) return mc_fail(MICA_EINVAL, "mica_embed: model is NULL");
    MC_TRY(mc_model_local(model, &local));
    MC_TRY(check_dimensions(local->lm, given.dimensions));
    mica_status status = open_reader(model, local->lm, given.prompt_name, &reader);
    if (status == MICA_OK) status = encode_embedded(&reader, model, text, len, &ids, &count, &skip);
    if (status != MICA_OK) return mc_fail_context(status, "mica_embed");
    mc_model_retain(model);
    const mc_text whole = {.ids = ids, .n = (int64_t)count, .skip = skip};
    status = mc_embed(local, &whole, &given, vector);
    if (status == MICA_OK) *n = mc_vector_shorten(local->lm, &given, *vector);
    mc_model_release(model);
    mica_free(ids);
    return status;
}

/* ---- many texts ---- */

/* Tokens of texts; and of those that have none, why. */
typedef struct encoded {
    mc_text *texts;      /* [count] */
    mica_status *status; /* [count] */
    const char **errors; /* [count] mc_task_error's */
    size_t count;
} encoded;

static void encoded_free(encoded *e) {
    for (size_t i = 0; e->texts && e->errors && e->status && i < e->count; i++) {
        mica_free((void *)e->texts[i].ids);
        mc_task_error_free(e->status[i], e->errors[i]);
    }
    mc_free(e->texts);
    mc_free(e->status);
    mc_free(e->errors);
}

/* embedded: options of vectors, or NULL. */
static mica_status encode_texts(const char *function, const mica_model *model,
                                const char *const *texts, size_t count,
                                const mica_embed_options *embedded, encoded *e,
                                const mc_session_model **local) {
    *e = (encoded){.count = count};
    if (!model || !texts || !count)
        return mc_fail(MICA_EINVAL, "%s: %s", function,
                       !model   ? "model is NULL"
                       : !texts ? "texts is NULL"
                                : "there are no texts");
    mc_text_reader reader;
    MC_TRY(mc_model_local(model, local));
    if (embedded) MC_TRY(open_reader(model, (*local)->lm, embedded->prompt_name, &reader));
    e->texts = mc_calloc(count, sizeof *e->texts);
    e->status = mc_calloc(count, sizeof *e->status);
    e->errors = mc_calloc(count, sizeof *e->errors);
    if (!e->texts || !e->status || !e->errors) return mc_fail_nomem("texts");
    for (size_t i = 0; i < count; i++) {
        int32_t *ids = NULL;
        size_t n = 0, skip = 0;
        e->status[i] = embedded ? encode_embedded(&reader, model, texts[i], 0, &ids, &n, &skip)
                                : encode(model, texts[i], 0, &ids, &n);
        e->errors[i] = mc_task_error(e->status[i]);
        if (e->status[i] == MICA_OK) e->texts[i] = (mc_text){ids, (int64_t)n, skip};
    }
    return MICA_OK;
}

/* Gives a row whose text has no tokens the reason. */
static void set_error(encoded *e, size_t i, mica_status *status, const char **error) {
    if (e->status[i] == MICA_OK) return;
    mc_task_error_free(*status, *error);
    *status = e->status[i];
    *error = e->errors[i];
    e->status[i] = MICA_OK; /* it is the row's now */
}

static void shorten_rows(const mc_lm *lm, const mica_embed_options *options,
                         mica_embed_results *results) {
    for (size_t i = 0; i < results->count; i++)
        results->width = mc_vector_shorten(lm, options, (float *)results->rows[i].vector);
}

mica_status mica_embed_texts(const mica_model *model, const char *const *texts, size_t count,
                             const mica_embed_options *options, mica_embed_results **results) {
    mica_embed_options given;
    const mc_session_model *local;
    encoded e;
    if (!results) return mc_fail(MICA_EINVAL, "mica_embed_texts: results is NULL");
    *results = NULL;
    MC_TRY(MC_OPTIONS_COPY(mica_embed_options, dimensions, &given, options));
    mica_status status = encode_texts("mica_embed_texts", model, texts, count, &given, &e, &local);
    if (status == MICA_OK) status = check_dimensions(local->lm, given.dimensions);
    if (status == MICA_OK) {
        mc_model_retain(model);
        status = mc_embed_texts(local, e.texts, count, &given, results);
        if (status == MICA_OK) shorten_rows(local->lm, &given, *results);
        mc_model_release(model);
    }
    for (size_t i = 0; status == MICA_OK && i < count; i++)
        set_error(&e, i, &(*results)->rows[i].status, &(*results)->rows[i].error);
    encoded_free(&e);
    return status;
}

mica_status mica_score_texts(const mica_model *model, const char *const *texts, size_t count,
                             const mica_task_options *options, mica_score_results **results) {
    mica_task_options given;
    const mc_session_model *local;
    encoded e;
    if (!results) return mc_fail(MICA_EINVAL, "mica_score_texts: results is NULL");
    *results = NULL;
    MC_TRY(MC_OPTIONS_COPY(mica_task_options, cancel, &given, options));
    mica_status status = encode_texts("mica_score_texts", model, texts, count, NULL, &e, &local);
    if (status == MICA_OK) {
        mc_model_retain(model);
        status = mc_score_texts(local, e.texts, count, &given, results);
        mc_model_release(model);
    }
    for (size_t i = 0; status == MICA_OK && i < count; i++)
        set_error(&e, i, &(*results)->rows[i].status, &(*results)->rows[i].error);
    encoded_free(&e);
    return status;
}

/* ---- scores ---- */

mica_status mica_score(const mica_model *model, const char *text, size_t len,
                       const mica_task_options *options, mica_score_result **result) {
    const mc_session_model *local;
    int32_t *ids;
    size_t n;
    if (!result) return mc_fail(MICA_EINVAL, "mica_score: result is NULL");
    *result = NULL;
    MC_TRY(open_text("mica_score", model, text, len, &local, &ids, &n));
    mica_status status = mica_score_ids(model, ids, n, options, result);
    mica_free(ids);
    return status;
}

mica_status mica_score_ids(const mica_model *model, const int32_t *ids, size_t n,
                           const mica_task_options *options, mica_score_result **result) {
    mica_task_options given;
    const mc_session_model *local;
    if (!result) return mc_fail(MICA_EINVAL, "mica_score: result is NULL");
    *result = NULL;
    if (!model || (!ids && n))
        return mc_fail(MICA_EINVAL, "mica_score: %s is NULL", model ? "ids" : "model");
    MC_TRY(MC_OPTIONS_COPY(mica_task_options, cancel, &given, options));
    MC_TRY(mc_model_local(model, &local));
    mc_model_retain(model);
    mica_status status = mc_score(local, ids, n, &given, result);
    mc_model_release(model);
    return status;
}

mica_status mica_compare_ids(const mica_model *reference, const mica_model *model,
                             const int32_t *ids, size_t n, const mica_task_options *options,
                             mica_comparison *sums) {
    mica_task_options given;
    const mc_session_model *first, *second;
    if (!sums || !reference || !model || (!ids && n))
        return mc_fail(MICA_EINVAL, "mica_compare_ids: %s is NULL",
                       !sums        ? "sums"
                       : !reference ? "reference"
                       : !model     ? "model"
                                    : "ids");
    MC_TRY(MC_OPTIONS_COPY(mica_task_options, cancel, &given, options));
    MC_TRY(mc_model_local(reference, &first));
    MC_TRY(mc_model_local(model, &second));
    mc_model_retain(reference);
    mc_model_retain(model);
    mica_status status = mc_compare(first, second, ids, n, &given, sums);
    mc_model_release(model);
    mc_model_release(reference);
    return status;
}

mica_status mica_inspect_attention(const mica_model *model, const char *prompt, size_t len,
                                   const int64_t *layers, size_t count,
                                   const mica_task_options *options, mica_attention **attention) {
    mica_task_options given;
    const mc_session_model *local;
    int32_t *ids;
    size_t n;
    if (!attention) return mc_fail(MICA_EINVAL, "mica_inspect_attention: attention is NULL");
    *attention = NULL;
    if ((!layers) != (count == 0))
        return mc_fail(MICA_EINVAL, "mica_inspect_attention: %s",
                       layers ? "count is 0: give at least one layer, or layers NULL for all"
                              : "layers is NULL, but count is not 0");
    MC_TRY(MC_OPTIONS_COPY(mica_task_options, cancel, &given, options));
    MC_TRY(open_text("mica_inspect_attention", model, prompt, len, &local, &ids, &n));
    mc_model_retain(model);
    mica_status status = mc_inspect(local, ids, n, layers, count, &given, attention);
    mc_model_release(model);
    mica_free(ids);
    return status;
}

/* ---- classes ---- */

typedef struct prompts {
    const mica_model *model;
    const char *const *texts;
    bool as_chat;
    const mica_cancel *cancel;
} prompts;

static mica_status encode_prompt(void *context, size_t i, int32_t **ids, size_t *n) {
    const prompts *p = context;
    if (!p->as_chat || !p->texts[i]) return encode(p->model, p->texts[i], 0, ids, n);
    const mica_generate_options options = {.cancel = p->cancel};
    return mc_model_chat(p->model, &(mica_message){.role = "user", .content = p->texts[i]}, 1,
                         &options, ids, n);
}

static mica_status find_label(const mica_model *model, const mica_classify_options *options,
                              size_t i, int32_t *labels) {
    const char *label = options->labels[i];
    mica_model_info info = {.struct_bytes = sizeof info};
    int32_t *ids;
    size_t n;
    if (!label) return mc_fail(MICA_EINVAL, "label %zu is NULL", i);
    mica_status status =
        mica_tokenizer_encode(mica_model_tokenizer(model), label, strlen(label), false, &ids, &n);
    if (status != MICA_OK) return mc_fail_context(status, "label %zu", i);
    if (n) labels[i] = ids[0];
    mica_free(ids);
    if (!n)
        return mc_fail(MICA_EINVAL,
                       "label %zu, \"%s\", tokenises to nothing: it has no "
                       "probability",
                       i, label);
    mica_model_get_info(model, &info);
    if (labels[i] >= info.vocab_size)
        return mc_fail(MICA_EINVAL,
                       "label %zu, \"%s\", begins with token %d, past the model's "
                       "vocabulary of %lld",
                       i, label, (int)labels[i], (long long)info.vocab_size);
    for (size_t j = 0; j < i; j++)
        if (labels[j] == labels[i])
            return mc_fail(MICA_EINVAL,
                           "labels %zu, \"%s\", and %zu, \"%s\", begin with the same token, %d: "
                           "their probabilities cannot be told apart",
                           j, options->labels[j], i, label, (int)labels[i]);
    return MICA_OK;
}

static mica_status find_labels(const mica_model *model, const mica_classify_options *options,
                               int32_t **labels) {
    if (!options->labels && options->label_count)
        return mc_fail(MICA_EINVAL, "mica_classify: labels is NULL, label_count %zu",
                       options->label_count);
    *labels = mc_calloc(options->label_count, sizeof **labels);
    if (!*labels) return mc_fail_nomem("labels");
    for (size_t i = 0; i < options->label_count; i++)
        MC_TRY(find_label(model, options, i, *labels));
    return MICA_OK;
}

/* Checks what would fail every row. If it is cancelled, the rows have that status. */
static mica_status check_chat(const mica_model *model, const mica_cancel *cancel) {
    const mica_generate_options options = {.cancel = cancel};
    int32_t *ids;
    size_t n;
    mica_status status = mc_model_chat(model, &(mica_message){.role = "user", .content = "?"}, 1,
                                       &options, &ids, &n);
    if (status == MICA_ECANCELLED) return MICA_OK;
    if (status == MICA_OK) mica_free(ids);
    return status;
}

mica_status mica_classify(const mica_model *model, const char *const *texts, size_t count,
                          const mica_classify_options *options, mica_classify_results **results) {
    mica_classify_options given;
    prompts p = {.model = model, .texts = texts};
    mc_classify_task task = {.encode = encode_prompt, .context = &p, .count = count};
    int32_t *labels = NULL;
    if (!results) return mc_fail(MICA_EINVAL, "mica_classify: results is NULL");
    *results = NULL;
    if (!model) return mc_fail(MICA_EINVAL, "mica_classify: model is NULL");
    if (!texts || !count) return mc_fail(MICA_EINVAL, "mica_classify: no prompts");
    MC_TRY(MC_OPTIONS_COPY(mica_classify_options, cancel, &given, options));
    p.as_chat = given.as_chat;
    p.cancel = given.cancel;
    MC_TRY(mc_model_local(model, &task.model));
    if (given.as_chat) MC_TRY(check_chat(model, given.cancel));
    mica_status status = find_labels(model, &given, &labels);
    task.labels = labels;
    mc_model_retain(model);
    if (status == MICA_OK) status = mc_classify(&task, &given, results);
    mc_model_release(model);
    mc_free(labels);
    return status;
}

/* ---- many answers at once ---- */

typedef struct conversations {
    const mica_model *model;
    const mica_batch_item *items;
    const mica_cancel *cancel;
} conversations;

static mica_status encode_item(void *context, size_t i, int32_t **ids, size_t *n) {
    const conversations *c = context;
    const mica_batch_item *item = &c->items[i];
    if (item->prompt && item->messages)
        return mc_fail(MICA_EINVAL, "item %zu has a prompt and messages: give one of them", i);
    if (!item->messages) return encode(c->model, item->prompt, 0, ids, n);
    mica_generate_options options;
    MC_TRY(MC_OPTIONS_COPY(mica_generate_options, constraint_text, &options, item->options));
    mica_cancel either;
    mc_cancel_init_either(&either, options.cancel, c->cancel);
    options.cancel = &either;
    return mc_model_chat(c->model, item->messages, item->message_count, &options, ids, n);
}

static mica_status constrain_item(void *context, size_t i, const int32_t *ids, size_t n,
                                  const mica_generate_options *options,
                                  mc_constraint **constraint) {
    const conversations *c = context;
    return mc_model_constrain(c->model, ids, n, c->items[i].messages != NULL, options, constraint);
}

mica_status mica_batch_generate(const mica_model *model, const mica_batch_item *items, size_t count,
                                const mica_batch_options *options, mica_batch_results **results) {
    mica_batch_options given;
    if (!results) return mc_fail(MICA_EINVAL, "mica_batch_generate: results is NULL");
    *results = NULL;
    if (!model) return mc_fail(MICA_EINVAL, "mica_batch_generate: model is NULL");
    if (!items || !count) return mc_fail(MICA_EINVAL, "mica_batch_generate: no items");
    MC_TRY(MC_OPTIONS_COPY(mica_batch_options, cancel, &given, options));
    conversations c = {model, items, given.cancel};
    mc_batch_task task = {.items = items,
                          .count = count,
                          .encode = encode_item,
                          .constrain = constrain_item,
                          .context = &c};
    mc_model_retain(model);
    mica_status status = mc_model_local(model, &task.model) == MICA_OK
                             ? mc_batch_generate(&task, &given, results)
                             : mc_batch_in_turn(model, &task, &given, results);
    mc_model_release(model);
    return status;
}
