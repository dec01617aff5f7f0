/* Vectors of texts. The goldens hold no hidden states, but their logits are the head's view of
 * them: the head over the last token's vector gives the last row of logits, over the mean it gives
 * the mean of the rows, for the head is linear (where it has a cap, before that). */
#include "model/fixture.h"

#include "task/embed.h"
#include "task/many.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static mc_session_model shared_of(const model_fixture *f) {
    return (mc_session_model){.lm = f->lm, .device = f->device};
}

static float *embed(const model_fixture *f, const int32_t *ids, size_t n,
                    mica_embed_options options) {
    mc_session_model model = shared_of(f);
    float *vector;
    if (mc_embed(&model, &(mc_text){.ids = ids, .n = (int64_t)n}, &options, &vector) != MICA_OK)
        fail_msg("%s: %s", f->name, mica_last_error());
    return vector;
}

/* The head over a vector; freed with free(). */
static float *head(const model_fixture *f, const float *vector) {
    size_t bytes = (size_t)f->lm->spec.vocab * sizeof(float);
    const int64_t shape[] = {1, 1, f->lm->spec.hidden};
    float *logits = malloc(bytes);
    mica_scope *s;
    assert_non_null(logits);
    assert_int_equal(mica_scope_open(f->device, &s), MICA_OK);
    mica_array y = mc_lm_head(s, f->lm, mica_from_data(s, vector, MICA_F32, shape, 3));
    if (mica_read(y, logits, bytes) != MICA_OK) fail_msg("%s", mica_last_error());
    mica_scope_close(&s);
    return logits;
}

/* What the head makes of the mean of the states behind rows of logits [n, vocab]. */
static float *mean_logits(const float *logits, size_t n, size_t vocab, double cap) {
    float *mean = malloc(vocab * sizeof *mean);
    assert_non_null(mean);
    for (size_t i = 0; i < vocab; i++) {
        double sum = 0.0;
        for (size_t row = 0; row < n; row++) {
            double x = (double)logits[row * vocab + i];
            sum += cap > 0.0 ? cap * atanh(x / cap) : x;
        }
        sum /= (double)n;
        mean[i] = (float)(cap > 0.0 ? cap * tanh(sum / cap) : sum);
    }
    return mean;
}

static void check_prompt(const model_fixture *f, int prompt) {
    size_t n, vocab = (size_t)f->lm->spec.vocab, hidden = (size_t)f->lm->spec.hidden;
    const int32_t *ids = fixture_ints(f, &n, "prompt%d.ids", prompt);
    const float *logits = fixture_floats(f, NULL, "prompt%d.logits", prompt);
    if (!ids || !logits) return;
    float *last = embed(f, ids, n, (mica_embed_options){.pooling = MICA_POOLING_LAST});
    float *mean = embed(f, ids, n, (mica_embed_options){.pooling = MICA_POOLING_MEAN});
    float *unit = embed(f, ids, n, (mica_embed_options){.normalise = true});
    float *seen = head(f, last);
    fixture_compare(seen, logits + (n - 1) * vocab, vocab, f->tolerance, "%s: prompt%d, last",
                    f->name, prompt);
    free(seen);
    float *want = mean_logits(logits, n, vocab, f->lm->spec.final_softcap);
    seen = head(f, mean);
    fixture_compare(seen, want, vocab, 2.0 * f->tolerance, "%s: prompt%d, mean", f->name, prompt);
    double square = 0.0, product = 0.0, length = 0.0;
    for (size_t i = 0; i < hidden; i++) {
        square += (double)unit[i] * (double)unit[i];
        product += (double)unit[i] * (double)mean[i];
        length += (double)mean[i] * (double)mean[i];
    }
    assert_true(fabs(square - 1.0) < 1e-5);
    assert_true(fabs(product - sqrt(length)) < 1e-4 * sqrt(length));
    free(want);
    free(seen);
    mica_free(last);
    mica_free(mean);
    mica_free(unit);
}

static void check_prompts(const model_fixture *f) {
    for (int i = 0; i < 16; i++)
        check_prompt(f, i);
}

static void test_goldens(void **state) {
    (void)state;
    fixture_each(check_prompts);
}

/* A text of several chunks: its last vector is that of its last token. */
static void test_chunks(void **state) {
    (void)state;
    enum { LONG = 1025 };
    model_fixture f;
    fixture_open("gemma3_text_f32", &f);
    int32_t ids[LONG];
    for (int i = 0; i < LONG; i++)
        ids[i] = (i * 31 + 7) % 558;
    mc_session_model model = shared_of(&f);
    mc_session *session;
    const float *want;
    assert_int_equal(mc_session_open(&model, 300, &session), MICA_OK);
    for (int at = 0; at < LONG; at += 205)
        assert_int_equal(mc_session_feed(session, ids + at, 205, &want), MICA_OK);
    float *last = embed(&f, ids, LONG, (mica_embed_options){.pooling = MICA_POOLING_LAST});
    float *seen = head(&f, last);
    fixture_compare(seen, want, 558, 0.0, "a long text");
    free(seen);
    mica_free(last);
    mc_session_close(&session);
    fixture_close(&f);
}

/* ---- many texts ---- */

static void count_texts(void *user, uint64_t done, uint64_t total) {
    uint64_t *seen = user;
    assert_true(done >= *seen && done <= *seen + 1);
    assert_int_equal(total, MANY);
    *seen = done;
}

/* Each row has the bits that its text has alone. */
static void check_many(const char *name, mica_arithmetic arithmetic, mica_embed_options options) {
    model_fixture f;
    uint64_t done = 0;
    fixture_open(name, &f);
    mc_lm_set_arithmetic(f.lm, arithmetic);
    mc_lm_set_cache(f.lm, MICA_CACHE_DEFAULT);
    many *m = make_many(f.lm->spec.vocab);
    mc_session_model model = shared_of(&f);
    const mica_embed_options counted = {.pooling = options.pooling,
                                        .normalise = options.normalise,
                                        .progress = count_texts,
                                        .progress_user = &done};
    mica_embed_results *r;
    assert_int_equal(mc_embed_texts(&model, m->texts, MANY, &counted, &r), MICA_OK);
    assert_int_equal(done, MANY);
    assert_int_equal(r->width, f.lm->spec.hidden);
    for (size_t i = 0; i < MANY; i++) {
        const mica_embed_row *row = &r->rows[i];
        bool good = i != MANY_EMPTY && i != MANY_PAST;
        assert_int_equal(row->status, good ? MICA_OK : MICA_EINVAL);
        assert_int_equal(row->tokens, m->texts[i].n);
        if (!good) {
            assert_null(row->vector);
            assert_non_null(strstr(row->error, i == MANY_EMPTY ? "empty" : "vocabulary"));
            continue;
        }
        float *alone = embed(&f, m->texts[i].ids, (size_t)m->texts[i].n, options);
        fixture_compare(row->vector, alone, r->width, fixture_same(&f), "%s: text %d", name,
                        (int)i);
        mica_free(alone);
    }
    mica_embed_texts_free(&r);
    mica_embed_texts_free(&r);
    assert_null(r);
    free(m);
    fixture_close(&f);
}

static void test_many(void **state) {
    (void)state;
    static const char *const names[] = {"gemma3_text_f32", "q4g64_qwen3", "llama_untied_f32"};
    for (size_t i = 0; i < 3; i++) {
        check_many(names[i], MICA_ARITHMETIC_EXACT, (mica_embed_options){0});
        check_many(names[i], MICA_ARITHMETIC_FAST,
                   (mica_embed_options){.pooling = MICA_POOLING_LAST, .normalise = true});
    }
}

/* Short texts are rows of passes: they take few, and each is computed once. */
static void test_groups(void **state) {
    (void)state;
    enum { COUNT = 100 };
    model_fixture f;
    int32_t ids[4] = {5, 6, 7, 8};
    mc_text texts[COUNT];
    fixture_open("gemma3_text_f32", &f);
    mc_session_model model = shared_of(&f);
    for (int i = 0; i < COUNT; i++)
        texts[i] = (mc_text){.ids = ids, .n = 1 + i % 4};
    assert_true(mc_texts_fit(&model, texts + 3, 1));
    assert_false(mc_texts_fit(&model, texts, MC_TEXT_ROWS + 1));
    assert_false(mc_texts_fit(&model, (mc_text[]){{ids, 1, 0}, {ids, 60, 0}}, 2));
    assert_false(mc_texts_fit(&model, (mc_text[]){{ids, MC_TEXT_TOKENS + 1, 0}}, 1));
    model.context = 3;
    assert_false(mc_texts_fit(&model, texts + 3, 1));
    fixture_close(&f);
}

static bool embed_many_once(void *arg) {
    const model_fixture *f = arg;
    mc_session_model model = shared_of(f);
    static const int32_t ids[] = {3, 4, 5, 6};
    const mc_text texts[] = {{ids, 4, 0}, {ids + 1, 3, 0}, {ids, 3, 0}, {ids, 0, 0}};
    mica_embed_results *r;
    bool ok = true;
    test_forget_plans(f->device);
    mica_status status = mc_embed_texts(&model, texts, 4, &(mica_embed_options){0}, &r);
    assert_true(status == MICA_OK || (status == MICA_ENOMEM && !r));
    for (size_t i = 0; r && i < 3; i++) {
        ok = ok && r->rows[i].status == MICA_OK;
        assert_true(r->rows[i].status == MICA_OK || r->rows[i].status == MICA_ENOMEM);
    }
    mica_embed_texts_free(&r);
    return status == MICA_OK && ok;
}

static void test_broken_weights(void **state) {
    (void)state;
    const int32_t ids[] = {4, 5, 6};
    model_fixture f;
    float *vector;
    fixture_open("gemma3_text_f32", &f);
    fixture_break(&f);
    mc_session_model model = shared_of(&f);
    for (int i = 0; i < 4; i++) {
        const mica_embed_options options = {
            .pooling = i & 1 ? MICA_POOLING_LAST : MICA_POOLING_MEAN, .normalise = i >= 2};
        assert_int_equal(mc_embed(&model, &(mc_text){.ids = ids, .n = 3}, &options, &vector),
                         MICA_EINVAL);
        assert_string_equal(mica_last_error(),
                            "a hidden state is not a number: the model's weights are broken");
        assert_null(vector);
    }
    fixture_close(&f);
}

static void test_refusals(void **state) {
    (void)state;
    model_fixture f;
    fixture_open("gemma3_text_f32", &f);
    mc_session_model model = shared_of(&f);
    const int32_t ids[] = {1, -1};
    float *vector;
    mica_cancel *cancel;
    assert_int_equal(
        mc_embed(&model, &(mc_text){.ids = ids, .n = 0}, &(mica_embed_options){0}, &vector),
        MICA_EINVAL);
    assert_int_equal(
        mc_embed(&model, &(mc_text){.ids = ids, .n = 2}, &(mica_embed_options){0}, &vector),
        MICA_EINVAL);
    assert_int_equal(mc_embed(&model, &(mc_text){.ids = ids, .n = 1},
                              &(mica_embed_options){.pooling = (mica_pooling)7}, &vector),
                     MICA_EINVAL);
    assert_non_null(strstr(mica_last_error(), "pooling 7"));
    assert_int_equal(mica_cancel_open(&cancel), MICA_OK);
    mica_cancel_set(cancel);
    assert_int_equal(mc_embed(&model, &(mc_text){.ids = ids, .n = 1},
                              &(mica_embed_options){.cancel = cancel}, &vector),
                     MICA_ECANCELLED);
    assert_null(vector);
    mica_cancel_close(&cancel);
    fixture_close(&f);
}

static bool embed_once(void *arg) {
    const model_fixture *f = arg;
    mc_session_model model = shared_of(f);
    const int32_t ids[] = {3, 4, 5, 6};
    float *vector;
    test_forget_plans(f->device);
    mica_status status =
        mc_embed(&model, &(mc_text){.ids = ids, .n = 4}, &(mica_embed_options){0}, &vector);
    assert_true(status == MICA_OK || (status == MICA_ENOMEM && !vector));
    mica_free(vector);
    return status == MICA_OK;
}

static void test_no_memory(void **state) {
    (void)state;
    model_fixture f;
    fixture_open("q4g64_gemma3_mm", &f);
    test_fail_each_allocation(embed_once, &f);
    test_fail_each_allocation(embed_many_once, &f);
    fixture_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_goldens),        cmocka_unit_test(test_chunks),
        cmocka_unit_test(test_broken_weights), cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_many),           cmocka_unit_test(test_groups),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests_name("task/embed", tests, NULL, NULL);
}
