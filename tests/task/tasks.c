/* Tasks as callers use them: the default model's golden answers together, labels, texts, memory,
 * refusals. Numbers are tested in tests/session. */
#define _POSIX_C_SOURCE 200809L
#include "engine/default_model.h"
#include "support/info.h"
#include "support/support.h"

#include "base/json.h"

#include <mica/mica.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void expect(mica_status got, mica_status want, const char *word) {
    if (got != want)
        fail_msg("%s, want %s: %s", mica_status_name(got), mica_status_name(want),
                 mica_last_error());
    if (want != MICA_OK && !strstr(mica_last_error(), word))
        fail_msg("\"%s\" lacks %s", mica_last_error(), word);
}

/* ---- many answers ---- */

enum { MAX = 64, TURNS = 16 };

/* The conversations of the default model's golden.json. */
typedef struct conversations {
    mica_batch_item items[MAX];
    mica_message messages[MAX][TURNS];
    char *texts[MAX * TURNS * 2];
    size_t count, n_texts;
} conversations;

static char *keep_text(conversations *c, mc_json value) {
    mc_str text;
    assert_true(mc_json_get_str(value, &text) && c->n_texts < MAX * TURNS * 2);
    return c->texts[c->n_texts++] = test_format("%.*s", MC_STR_ARG(text));
}

static void read_conversations(mc_json root, conversations *c) {
    for (mc_json_iter it = mc_json_begin(root); mc_json_next(&it); c->count++) {
        size_t n = 0;
        assert_true(c->count < MAX);
        for (mc_json_iter m = mc_json_begin(mc_json_find(it.value, "messages")); mc_json_next(&m);
             n++) {
            assert_true(n < TURNS);
            c->messages[c->count][n] =
                (mica_message){.role = keep_text(c, mc_json_find(m.value, "role")),
                               .content = keep_text(c, mc_json_find(m.value, "content"))};
        }
        c->items[c->count] =
            (mica_batch_item){.messages = c->messages[c->count], .message_count = n};
    }
}

/* All golden answers, three at a time. */
static void test_golden_answers(void **state) {
    (void)state;
    mc_json_doc *doc;
    static conversations c;
    mica_batch_results *results;
    size_t i = 0;
    char *path = test_format("%s/golden.json", default_path);
    doc = test_load_json(path);
    read_conversations(mc_json_root(doc), &c);
    expect(mica_batch_generate(pebble, c.items, c.count, &(mica_batch_options){.parallel = 3},
                               &results),
           MICA_OK, "");
    for (mc_json_iter it = mc_json_begin(mc_json_root(doc)); mc_json_next(&it); i++) {
        const mica_batch_row *row = &results->rows[i];
        mc_str want;
        int64_t id;
        size_t n = 0;
        if (row->status != MICA_OK) fail_msg("answer %zu: %s", i, row->error);
        assert_int_equal(row->finish, MICA_FINISH_STOP);
        mc_json ids = mc_json_find(it.value, "greedy_ids"); /* the last is the stop */
        assert_int_equal(row->count + 1, mc_json_count(ids));
        for (mc_json_iter k = mc_json_begin(ids); n < row->count && mc_json_next(&k); n++)
            assert_true(mc_json_get_int(k.value, &id) && row->ids[n] == id);
        assert_true(mc_json_get_str(mc_json_find(it.value, "text"), &want));
        assert_int_equal(row->len, want.len);
        assert_memory_equal(row->text, want.ptr, want.len);
        assert_int_equal(row->text[row->len], 0);
    }
    printf("default model: %zu answers checked\n", i);
    assert_true(i > 0);
    mica_batch_free(&results);
    for (i = 0; i < c.n_texts; i++)
        free(c.texts[i]);
    mc_json_close(&doc);
    free(path);
}

/* A row with all that streams can do is what a session of its own hands out. */
static void check_alone(const mica_batch_item *item, const mica_batch_row *row) {
    mica_session *session;
    mica_stream *stream;
    mica_token token;
    size_t n = 0, len = 0;
    bool logprobs = item->options->logprobs || item->options->top_logprobs;
    expect(mica_session_open(pebble, NULL, &session), MICA_OK, "");
    expect(mica_generate(session, item->prompt, 0, item->options, &stream), MICA_OK, "");
    while (mica_stream_next(stream, &token)) {
        assert_true(len + token.len <= row->len);
        assert_memory_equal(row->text + len, token.text, token.len);
        len += token.len;
        if (token.id < 0) continue;
        assert_true(n < row->count);
        assert_int_equal(row->ids[n], token.id);
        if (logprobs) assert_true(row->logprobs[n] == token.logprob);
        n++;
    }
    assert_int_equal(n, row->count);
    assert_int_equal(len, row->len);
    assert_int_equal(mica_stream_finish(stream), row->finish);
    assert_int_equal(test_metrics(stream).generated_tokens, row->metrics->generated_tokens);
    if (!logprobs) assert_null(row->logprobs);
    mica_stream_close(&stream);
    mica_session_close(&session);
}

static void test_rows_alone(void **state) {
    (void)state;
    static const char *const stops[] = {"the", ". "};
    const mica_generate_options options[] = {
        {.max_tokens = 40, .temperature = 1.2f, .seed = 9, .ignore_eos = true, .logprobs = true},
        {.max_tokens = 60, .stop_strings = stops, .stop_string_count = 2, .min_tokens = 8},
        {.max_tokens = 12, .echo = true, .ignore_eos = true},
        {.max_tokens = 30,
         .temperature = 0.7f,
         .seed = 4,
         .presence_penalty = 0.5f,
         .frequency_penalty = 0.2f,
         .penalty_window = 16,
         .ignore_eos = true},
        {.max_tokens = 5, .echo = true, .top_logprobs = 3},
    };
    const char *const prompts[] = {"GNU is", "The old lighthouse", "curl", "A package for", "vim"};
    enum { ROWS = 5 };
    mica_batch_item items[ROWS];
    mica_batch_results *results;
    for (size_t i = 0; i < ROWS; i++)
        items[i] = (mica_batch_item){.prompt = prompts[i], .options = &options[i]};
    for (int parallel = 1; parallel <= ROWS; parallel += 2) {
        expect(mica_batch_generate(pebble, items, ROWS, &(mica_batch_options){.parallel = parallel},
                                   &results),
               MICA_OK, "");
        for (size_t i = 0; i < ROWS; i++)
            check_alone(&items[i], &results->rows[i]);
        mica_batch_free(&results);
    }
}

static void test_batch_refusals(void **state) {
    (void)state;
    const mica_message message = {.role = "user", .content = "What is curl?"},
                       oracle = {.role = "oracle", .content = "?"};
    const mica_generate_options few = {.max_tokens = 4};
    const mica_batch_item items[] = {
        {.prompt = ""},
        {.prompt = "\xff"},
        {.prompt = NULL},
        {.prompt = "a", .messages = &message, .message_count = 1},
        {.messages = &oracle, .message_count = 1},
        {.messages = &message, .message_count = 1, .options = &few},
    };
    mica_batch_results *results;
    expect(mica_batch_generate(pebble, items, 6, NULL, &results), MICA_OK, "");
    assert_int_equal(results->rows[0].status, MICA_EINVAL);
    assert_int_equal(results->rows[1].status, MICA_EFORMAT);
    assert_int_equal(results->rows[2].status, MICA_EINVAL);
    assert_int_equal(results->rows[3].status, MICA_EINVAL);
    assert_true(results->rows[4].status != MICA_OK);
    for (size_t i = 0; i < 5; i++) {
        assert_true(strlen(results->rows[i].error) > 5);
        assert_int_equal(results->rows[i].finish, MICA_FINISH_ERROR);
        assert_int_equal(results->rows[i].count, 0);
    }
    assert_int_equal(results->rows[5].status, MICA_OK);
    assert_memory_equal(results->rows[5].text, "curl", 4);
    mica_batch_free(&results);
    expect(mica_batch_generate(pebble, items, 0, NULL, &results), MICA_EINVAL, "no items");
    assert_null(results);
    expect(mica_batch_generate(pebble, NULL, 1, NULL, &results), MICA_EINVAL, "no items");
    expect(mica_batch_generate(NULL, items, 1, NULL, &results), MICA_EINVAL, "model");
    expect(mica_batch_generate(pebble, items, 1, NULL, NULL), MICA_EINVAL, "results");
}

/* ---- classes ---- */

/* The default model begins with "You can ..." where it can help and with "I don't know" where it
 * cannot: "What is the weather tomorrow?" is one of its golden refusals. */
static void test_classify(void **state) {
    (void)state;
    static const char *const labels[] = {"You", "I"};
    static const char *const prompts[] = {"give me something to compress files", "", NULL,
                                          "What is the weather tomorrow?", "What is curl?"};
    const mica_classify_options options = {.labels = labels, .label_count = 2, .as_chat = true};
    mica_classify_results *results;
    expect(mica_classify(pebble, prompts, 5, &options, &results), MICA_OK, "");
    const mica_classify_row *rows = results->rows;
    assert_int_equal(rows[0].status, MICA_OK);
    assert_int_equal(rows[0].label, 0);
    assert_true(rows[0].labels[0] > 0.9 && rows[0].labels[1] < 0.1);
    assert_string_equal(rows[0].text, "You");
    assert_true(rows[0].probability == rows[0].labels[0]);
    assert_null(rows[0].logits);
    assert_int_equal(rows[2].status, MICA_EINVAL);
    assert_int_equal(rows[3].label, 1);
    assert_string_equal(rows[3].text, "I");
    assert_int_equal(rows[4].status, MICA_OK);
    assert_string_equal(rows[4].text, "curl");
    assert_int_equal(rows[4].prompt_tokens, 13); /* as in golden.json */
    mica_classify_free(&results);

    expect(mica_classify(pebble, &prompts[4], 1, NULL, &results), MICA_OK, ""); /* raw */
    assert_int_not_equal(results->rows[0].prompt_tokens, 13);
    assert_null(results->rows[0].labels);
    mica_classify_free(&results);
}

static void expect_labels(const char *a, const char *b, mica_status status, const char *word) {
    const char *const labels[] = {a, b};
    const char *const prompts[] = {"curl"};
    const mica_classify_options options = {.labels = labels, .label_count = 2};
    mica_classify_results *results;
    expect(mica_classify(pebble, prompts, 1, &options, &results), status, word);
    assert_null(results);
}

static void test_classify_refusals(void **state) {
    (void)state;
    static const char *const prompts[] = {"curl"};
    mica_classify_results *results;
    expect_labels("Yes", "", MICA_EINVAL, "tokenises to nothing");
    expect_labels("Yes", "Yes", MICA_EINVAL, "\"Yes\", and 1, \"Yes\"");
    expect_labels("Yes", NULL, MICA_EINVAL, "label 1");
    expect_labels("\xff", "No", MICA_EFORMAT, "label 0");
    expect(mica_classify(pebble, prompts, 0, NULL, &results), MICA_EINVAL, "no prompts");
    expect(mica_classify(pebble, NULL, 1, NULL, &results), MICA_EINVAL, "no prompts");
    expect(mica_classify(NULL, prompts, 1, NULL, &results), MICA_EINVAL, "model");
    expect(mica_classify(pebble, prompts, 1, NULL, NULL), MICA_EINVAL, "results");
    expect(mica_classify(pebble, prompts, 1, &(mica_classify_options){.label_count = 1}, &results),
           MICA_EINVAL, "labels is NULL");
}

/* ---- cancelling while a template is rendered ---- */

static struct {
    mica_cancel *cancel;
    int until; /* renderings that begin before it is set; the clock is asked once for each */
} canceller;

/* In place of the C library's, which the library calls. */
struct tm *localtime_r(const time_t *restrict now, struct tm *restrict out) {
    (void)now;
    *out = (struct tm){.tm_year = 100, .tm_mday = 1};
    if (canceller.cancel && canceller.until-- == 0) mica_cancel_set(canceller.cancel);
    return out;
}

/* A model whose template takes a while and then fails, but for the message "?". */
static mica_model *open_failing(void) {
    mica_model *model;
    const mica_model_options options = {
        .threads = 1,
        .chat_template =
            "{{ bos_token }}{% if messages[0].content != '?' %}{% for i in range(99999) %}"
            "{% endfor %}{{ raise_exception('rendered') }}{% endif %}"};
    expect(mica_model_open(default_path, &options, &model), MICA_OK, "");
    return model;
}

static void cancel_after(int renderings) {
    assert_int_equal(mica_cancel_open(&canceller.cancel), MICA_OK);
    canceller.until = renderings;
}

/* A row with a flag of its own sees the batch's, too. */
static void test_batch_cancelled_in_a_template(void **state) {
    (void)state;
    mica_model *model = open_failing();
    mica_message message = {.role = "user", .content = "What is curl?"};
    mica_cancel *own;
    assert_int_equal(mica_cancel_open(&own), MICA_OK);
    const mica_generate_options with_own = {.cancel = own};
    const mica_batch_item items[] = {
        {.messages = &message, .message_count = 1},
        {.messages = &message, .message_count = 1, .options = &with_own},
        {.messages = &message, .message_count = 1}};
    mica_batch_results *results;
    cancel_after(1);
    const mica_batch_options options = {.parallel = 1, .cancel = canceller.cancel};
    expect(mica_batch_generate(model, items, 3, &options, &results), MICA_OK, "");
    assert_int_equal(results->rows[0].status, MICA_EINVAL);
    assert_non_null(strstr(results->rows[0].error, "rendered"));
    assert_int_equal(results->rows[1].status, MICA_ECANCELLED);
    assert_int_equal(results->rows[2].status, MICA_ECANCELLED);
    mica_batch_free(&results);
    mica_cancel_close(&canceller.cancel);

    mica_cancel_set(own); /* which ends its row alone */
    expect(mica_batch_generate(model, items, 3, NULL, &results), MICA_OK, "");
    for (int i = 0; i < 3; i++)
        assert_int_equal(results->rows[i].status, i == 1 ? MICA_ECANCELLED : MICA_EINVAL);
    mica_batch_free(&results);
    mica_cancel_close(&own);
    mica_model_close(&model);
}

/* One template is rendered before all others, to see whether the model has any. */
static void test_classify_cancelled_in_a_template(void **state) {
    (void)state;
    static const char *const prompts[] = {"What is curl?", "What is tar?", "?"};
    mica_model *model = open_failing();
    for (int before = 0; before < 3; before++) {
        mica_classify_results *results;
        cancel_after(before);
        const mica_classify_options options = {.as_chat = true, .cancel = canceller.cancel};
        expect(mica_classify(model, prompts, 3, &options, &results), MICA_OK, "");
        assert_int_equal(results->rows[0].status, before < 2 ? MICA_ECANCELLED : MICA_EINVAL);
        assert_int_equal(results->rows[1].status, MICA_ECANCELLED);
        assert_int_equal(results->rows[2].status, MICA_ECANCELLED);
        mica_classify_free(&results);
        mica_cancel_close(&canceller.cancel);
    }
    mica_model_close(&model);
}

/* ---- vectors, scores, attention ---- */

static double cosine(const float *a, const float *b, size_t n) {
    double sum = 0.0;
    for (size_t i = 0; i < n; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

static void test_embed(void **state) {
    (void)state;
    static const char *const texts[] = {"vim is a text editor.", "emacs is a text editor.",
                                        "The sea was calm that night."};
    const mica_embed_options unit = {.normalise = true};
    float *vectors[3], *vector;
    size_t n;
    for (size_t i = 0; i < 3; i++) {
        expect(mica_embed(pebble, texts[i], 0, &unit, &vectors[i], &n), MICA_OK, "");
        assert_int_equal(n, 384);
    }
    assert_true(fabs(cosine(vectors[0], vectors[0], n) - 1.0) < 1e-5);
    assert_true(cosine(vectors[0], vectors[1], n) > cosine(vectors[0], vectors[2], n));
    for (size_t i = 0; i < 3; i++)
        mica_free(vectors[i]);
    expect(mica_embed(pebble, "", 0, NULL, &vector, &n), MICA_EINVAL, "empty");
    assert_null(vector);
    expect(mica_embed(pebble, "\xff", 1, NULL, &vector, &n), MICA_EFORMAT, "mica_embed");
    expect(mica_embed(pebble, NULL, 0, NULL, &vector, &n), MICA_EINVAL, "NULL");
    expect(mica_embed(NULL, "a", 0, NULL, &vector, &n), MICA_EINVAL, "model");
    expect(mica_embed(pebble, "a", 0, NULL, NULL, &n), MICA_EINVAL, "vector");
    expect(mica_embed(pebble, "a", 0, NULL, &vector, NULL), MICA_EINVAL, "n is NULL");
}

/* Rows of many texts, bad ones among them. */
static void test_texts(void **state) {
    (void)state;
    static const char *const texts[] = {"vim is a text editor", "\xff", NULL,
                                        "The sea was calm that night.", ""};
    mica_embed_results *vectors;
    mica_score_results *scores;
    expect(mica_embed_texts(pebble, texts, 5, NULL, &vectors), MICA_OK, "");
    expect(mica_score_texts(pebble, texts, 5, NULL, &scores), MICA_OK, "");
    assert_int_equal(vectors->width, 384);
    for (size_t i = 0; i < 5; i++) {
        const mica_embed_row *row = &vectors->rows[i];
        if (i % 3 == 0) {
            mica_score_result *alone;
            float *vector;
            size_t n;
            expect(mica_embed(pebble, texts[i], 0, NULL, &vector, &n), MICA_OK, "");
            expect(mica_score(pebble, texts[i], 0, NULL, &alone), MICA_OK, "");
            assert_memory_equal(row->vector, vector, n * sizeof *vector);
            assert_int_equal(row->tokens, alone->count);
            assert_true(scores->rows[i].score->total == alone->total);
            mica_score_free(&alone);
            mica_free(vector);
            continue;
        }
        mica_status want = i == 1 ? MICA_EFORMAT : MICA_EINVAL;
        const char *why = i == 1 ? "UTF-8" : i == 2 ? "NULL" : "empty";
        assert_int_equal(row->status, want);
        assert_int_equal(scores->rows[i].status, want);
        assert_null(row->vector);
        assert_null(scores->rows[i].score);
        assert_non_null(strstr(row->error, why));
        assert_non_null(strstr(scores->rows[i].error, why));
    }
    mica_embed_texts_free(&vectors);
    mica_score_texts_free(&scores);
    expect(mica_embed_texts(pebble, texts, 0, NULL, &vectors), MICA_EINVAL, "no texts");
    expect(mica_embed_texts(pebble, NULL, 1, NULL, &vectors), MICA_EINVAL, "texts is NULL");
    expect(mica_embed_texts(NULL, texts, 1, NULL, &vectors), MICA_EINVAL, "model");
    expect(mica_embed_texts(pebble, texts, 1, &(mica_embed_options){.pooling = (mica_pooling)9},
                            &vectors),
           MICA_EINVAL, "pooling 9");
    assert_null(vectors);
    expect(mica_score_texts(pebble, texts, 0, NULL, &scores), MICA_EINVAL, "no texts");
    expect(mica_score_texts(pebble, texts, 1, NULL, NULL), MICA_EINVAL, "results");
}

/* What the model has seen is likelier than the same words in disorder; a greedy answer's
 * log-probabilities are those of its stream. */
static void test_score(void **state) {
    (void)state;
    mica_score_result *good, *bad;
    const int32_t past[] = {3, 8192};
    expect(mica_score(pebble, "vim is a text editor", 0, NULL, &good), MICA_OK, "");
    expect(mica_score(pebble, "editor a vim text is", 0, NULL, &bad), MICA_OK, "");
    assert_true(good->perplexity < bad->perplexity);
    assert_int_equal(good->ids[0], 2); /* <bos> */
    mica_score_free(&good);
    mica_score_free(&bad);
    expect(mica_score(pebble, "", 0, NULL, &bad), MICA_EINVAL, "empty");
    expect(mica_score_ids(pebble, past, 2, NULL, &bad), MICA_EINVAL, "8192");
    expect(mica_score_ids(pebble, past, 1, NULL, &bad), MICA_EINVAL, "two or more");
    expect(mica_score_ids(pebble, NULL, 1, NULL, &bad), MICA_EINVAL, "ids");
    assert_null(bad);
    expect(mica_score(pebble, "a", 0, NULL, NULL), MICA_EINVAL, "result");
}

static void test_score_agrees_with_streams(void **state) {
    (void)state;
    const mica_generate_options options = {
        .max_tokens = 20, .ignore_eos = true, .logprobs = true, .echo = true};
    const mica_batch_item item = {.prompt = "GNU is", .options = &options};
    mica_batch_results *results;
    mica_score_result *score;
    expect(mica_batch_generate(pebble, &item, 1, NULL, &results), MICA_OK, "");
    const mica_batch_row *row = &results->rows[0];
    expect(mica_score_ids(pebble, row->ids, row->count, NULL, &score), MICA_OK, "");
    for (size_t i = row->count - 20; i < row->count; i++)
        assert_true(fabsf(row->logprobs[i] - score->logprobs[i]) < 1e-4f);
    mica_score_free(&score);
    mica_batch_free(&results);
}

/* A long text: its logits would take 65 MB; no more than a few are held. */
static void test_score_memory(void **state) {
    (void)state;
    enum { LONG = 2000 };
    mica_device *device = mica_model_device(pebble);
    mica_score_result *score;
    int32_t ids[LONG];
    for (int i = 0; i < LONG; i++)
        ids[i] = (i * 31 + 7) % 8000;
    mica_device_reset_peak(device);
    uint64_t idle = mica_device_active_bytes(device);
    expect(mica_score_ids(pebble, ids, LONG, NULL, &score), MICA_OK, "");
    uint64_t peak = mica_device_peak_bytes(device) - idle;
    uint64_t caches = mica_model_cache_bytes(pebble, LONG);
    printf("peak of %d tokens: %.1f MB, caches %.1f MB\n", LONG, (double)peak * 1e-6,
           (double)caches * 1e-6);
    assert_true(peak < caches + (30u << 20));
    assert_int_equal(mica_device_active_bytes(device), idle);
    mica_score_free(&score);
}

static void test_attention(void **state) {
    (void)state;
    const int64_t layers[] = {3, 0}, past[] = {8};
    mica_attention *found;
    expect(mica_inspect_attention(pebble, "GNU is", 0, layers, 2, NULL, &found), MICA_OK, "");
    assert_int_equal(found->count, 2);
    assert_int_equal(found->layers[0].layer, 3);
    assert_int_equal(found->layers[1].layer, 0);
    assert_int_equal(found->heads, 6);
    assert_int_equal(found->kv_heads, 2);
    assert_int_equal(found->head_dim, 64);
    assert_int_equal(found->ids[0], 2);
    assert_true(found->tokens >= 2);
    mica_attention_free(&found);
    expect(mica_inspect_attention(pebble, "GNU", 0, NULL, 0, NULL, &found), MICA_OK, "");
    assert_int_equal(found->count, 8);
    mica_attention_free(&found);
    expect(mica_inspect_attention(pebble, "GNU", 0, past, 1, NULL, &found), MICA_EINVAL, "layer 8");
    expect(mica_inspect_attention(pebble, "GNU", 0, past, 0, NULL, &found), MICA_EINVAL, "layers");
    expect(mica_inspect_attention(pebble, "", 0, NULL, 0, NULL, &found), MICA_EINVAL, "empty");
    assert_null(found);
    expect(mica_inspect_attention(pebble, "GNU", 0, NULL, 0, NULL, NULL), MICA_EINVAL, "attention");
}

/* ---- models that are closed meanwhile ---- */

static mica_model *open_small(void) {
    mica_model *model;
    char *path = test_format("%s/models/gemma3_text_f32", test_cases_dir());
    expect(mica_model_open(path, &(mica_model_options){.threads = 1}, &model), MICA_OK, "");
    free(path);
    return model;
}

static void close_at_once(void *user, uint64_t done, uint64_t total) {
    (void)done;
    (void)total;
    mica_model_close(user);
}

static void test_closed_by_progress(void **state) {
    (void)state;
    static const char *const texts[] = {"The old", "A"};
    mica_model *model = open_small();
    mica_embed_results *vectors;
    mica_score_results *scores;
    const mica_embed_options embed = {
        .dimensions = 8, .normalise = true, .progress = close_at_once, .progress_user = &model};
    expect(mica_embed_texts(model, texts, 2, &embed, &vectors), MICA_OK, "");
    assert_null(model);
    assert_int_equal(vectors->width, 8);
    for (int i = 0; i < 2; i++) {
        double square = 0.0;
        for (int k = 0; k < 8; k++)
            square += (double)vectors->rows[i].vector[k] * (double)vectors->rows[i].vector[k];
        assert_true(fabs(square - 1.0) < 1e-5);
    }
    mica_embed_texts_free(&vectors);
    model = open_small();
    const mica_task_options score = {.progress = close_at_once, .progress_user = &model};
    expect(mica_score_texts(model, texts, 2, &score, &scores), MICA_OK, "");
    assert_null(model);
    assert_int_equal(scores->rows[1].status, MICA_OK);
    mica_score_texts_free(&scores);
}

/* ---- memory ---- */

/* Every task once, with a small model; true where all went well. */
static bool all_tasks(void *arg) {
    static const char *const labels[] = {"a", "b"};
    static const char *const prompts[] = {"The old lighthouse"};
    const mica_generate_options few = {.max_tokens = 2, .logprobs = true};
    const mica_batch_item items[] = {{.prompt = "The old", .options = &few},
                                     {.prompt = "A", .options = &few}};
    const int64_t layers[] = {1};
    const mica_model *model = arg;
    mica_device *device = mica_model_device(model);
    mica_classify_results *classes = NULL;
    mica_batch_results *batch = NULL;
    mica_score_result *score = NULL;
    mica_attention *attention = NULL;
    float *vector = NULL;
    size_t n;
    uint64_t idle = mica_device_active_bytes(device);
    test_forget_plans(device);
    mica_status status = mica_embed(model, "The old", 0, NULL, &vector, &n);
    if (!status) status = mica_score(model, "The old", 0, NULL, &score);
    if (!status) status = mica_inspect_attention(model, "The", 0, layers, 1, NULL, &attention);
    if (!status)
        status =
            mica_classify(model, prompts, 1,
                          &(mica_classify_options){.labels = labels, .label_count = 2}, &classes);
    if (!status) status = mica_batch_generate(model, items, 2, NULL, &batch);
    assert_true(status == MICA_OK || status == MICA_ENOMEM);
    bool good =
        !status && !classes->rows[0].status && !batch->rows[0].status && !batch->rows[1].status;
    mica_free(vector);
    mica_score_free(&score);
    mica_attention_free(&attention);
    mica_classify_free(&classes);
    mica_batch_free(&batch);
    assert_int_equal(mica_device_active_bytes(device), idle);
    return good;
}

/* What a model can do with many texts. */
typedef struct able {
    mica_model *model;
    bool scores, ranks; /* beside vectors */
} able;

/* Vectors, scores and ranks of many texts, as far as the model has them; whether all went well. */
static bool many_texts(void *arg) {
    static const char *const texts[] = {"The old lighthouse", "A", "The old", "seven green boats"};
    enum { N = sizeof texts / sizeof *texts };
    const able *a = arg;
    mica_device *device = mica_model_device(a->model);
    mica_embed_results *vectors = NULL;
    mica_score_results *scores = NULL;
    float ranks[N];
    uint64_t idle = mica_device_active_bytes(device);
    test_forget_plans(device);
    mica_status status = MICA_OK;
    if (!a->ranks) status = mica_embed_texts(a->model, texts, N, NULL, &vectors);
    if (!status && a->scores) status = mica_score_texts(a->model, texts, N, NULL, &scores);
    if (!status && a->ranks) status = mica_rerank(a->model, "a light", texts, N, NULL, ranks);
    assert_true(status == MICA_OK || status == MICA_ENOMEM);
    bool good = !status;
    for (size_t i = 0; i < N && !status; i++) {
        if (vectors) good = good && !vectors->rows[i].status;
        if (scores) good = good && (i == 1 || !scores->rows[i].status); /* of one token */
    }
    mica_embed_texts_free(&vectors);
    mica_score_texts_free(&scores);
    assert_int_equal(mica_device_active_bytes(device), idle);
    return good;
}

static void fail_many_texts(const able *a, const char *name) {
    uint64_t rounds = test_fail_each_allocation(many_texts, (void *)(uintptr_t)a);
    printf("no memory: %s: %llu allocations failed, one after the other\n", name,
           (unsigned long long)rounds);
}

static void test_no_memory(void **state) {
    (void)state;
    mica_model *model = open_small();
    uint64_t rounds = test_fail_each_allocation(all_tasks, model);
    printf("no memory: %llu allocations failed, one after the other\n", (unsigned long long)rounds);
    fail_many_texts(&(able){model, .scores = true}, "a language model");
    mica_model_close(&model);
}

/* Every embedder and cross-encoder of the fixtures. */
static void test_no_memory_for_encoders(void **state) {
    (void)state;
    char *dir = test_format("%s/embedders", test_fixtures_dir());
    test_list names = test_list_folders(dir);
    assert_true(names.count > 3);
    for (size_t i = 0; i < names.count; i++) {
        char *path = test_format("%s/%s", dir, names.names[i]);
        able a = {.model = NULL};
        float score;
        expect(mica_model_open(path, &(mica_model_options){.threads = 1}, &a.model), MICA_OK, "");
        a.ranks = mica_rerank(a.model, "a", &(const char *){"b"}, 1, NULL, &score) == MICA_OK;
        fail_many_texts(&a, names.names[i]);
        mica_model_close(&a.model);
        free(path);
    }
    test_list_free(&names);
    free(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_answers),
        cmocka_unit_test(test_rows_alone),
        cmocka_unit_test(test_batch_refusals),
        cmocka_unit_test(test_classify),
        cmocka_unit_test(test_classify_refusals),
        cmocka_unit_test(test_batch_cancelled_in_a_template),
        cmocka_unit_test(test_classify_cancelled_in_a_template),
        cmocka_unit_test(test_embed),
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_score),
        cmocka_unit_test(test_score_agrees_with_streams),
        cmocka_unit_test(test_score_memory),
        cmocka_unit_test(test_attention),
        cmocka_unit_test(test_closed_by_progress),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_no_memory_for_encoders),
    };
    return cmocka_run_group_tests_name("task/tasks", tests, open_default, close_default);
}
