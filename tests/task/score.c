/* Scores against log-softmax of the golden logits, worked out here in f64. */
#include "model/fixture.h"

#include "task/many.h"
#include "task/score.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static mc_session_model shared_of(const model_fixture *f) {
    return (mc_session_model){.lm = f->lm, .device = f->device};
}

/* ln P(id) under logits [vocab]. */
static double logprob(const float *logits, size_t vocab, int32_t id) {
    double max = -INFINITY, sum = 0.0;
    for (size_t i = 0; i < vocab; i++)
        max = fmax(max, (double)logits[i]);
    for (size_t i = 0; i < vocab; i++)
        sum += exp((double)logits[i] - max);
    return (double)logits[id] - max - log(sum);
}

static void check_prompt(const model_fixture *f, int prompt) {
    size_t n, vocab = (size_t)f->lm->spec.vocab;
    const int32_t *ids = fixture_ints(f, &n, "prompt%d.ids", prompt);
    const float *logits = fixture_floats(f, NULL, "prompt%d.logits", prompt);
    mc_session_model model = shared_of(f);
    mica_score_result *r;
    double total = 0.0;
    if (!ids || !logits || n < 2) return;
    if (mc_score(&model, ids, n, &(mica_task_options){0}, &r) != MICA_OK)
        fail_msg("%s: %s", f->name, mica_last_error());
    assert_int_equal(r->count, n);
    assert_memory_equal(r->ids, ids, n * sizeof *ids);
    assert_true(r->logprobs[0] == 0.0f);
    for (size_t i = 1; i < n; i++) {
        double want = logprob(logits + (i - 1) * vocab, vocab, ids[i]);
        total += want;
        /* Each logit is off by the tolerance at most, and so is ln of their exponentials' sum. */
        if (fabs((double)r->logprobs[i] - want) > 2.0 * f->tolerance)
            fail_msg("%s: prompt%d: token %zu has %g, want %g", f->name, prompt, i,
                     (double)r->logprobs[i], want);
    }
    double steps = (double)(n - 1);
    assert_true(fabs(r->total - total) <= 2.0 * f->tolerance * steps);
    assert_true(fabs(log(r->perplexity) + total / steps) <= 2.0 * f->tolerance);
    mica_score_free(&r);
    mica_score_free(&r);
    assert_null(r);
}

/* Alternatives are the golden logits' largest, in their order where these are far enough apart, and
 * the token itself has the same bits among them as alone. */
static void check_top(const model_fixture *f, int prompt) {
    enum { TOP = 5 };
    size_t n, vocab = (size_t)f->lm->spec.vocab;
    const int32_t *ids = fixture_ints(f, &n, "prompt%d.ids", prompt);
    const float *logits = fixture_floats(f, NULL, "prompt%d.logits", prompt);
    mc_session_model model = shared_of(f);
    mica_score_result *r, *plain;
    mica_alternative *top;
    if (!ids || !logits || n < 2) return;
    assert_int_equal(mc_score_top(&model, ids, n, TOP, &(mica_task_options){0}, &r, &top), MICA_OK);
    assert_int_equal(mc_score(&model, ids, n, &(mica_task_options){0}, &plain), MICA_OK);
    assert_memory_equal(r->logprobs, plain->logprobs, n * sizeof *r->logprobs);
    for (size_t i = 1; i < n; i++) {
        const float *row = logits + (i - 1) * vocab;
        for (size_t k = 0; k < TOP; k++) {
            mica_alternative at = top[i * TOP + k];
            double want = logprob(row, vocab, at.id);
            size_t larger = 0; /* logits that are so for certain */
            if (fabs((double)at.logprob - want) > 2.0 * f->tolerance)
                fail_msg("%s: token %zu, alternative %zu", f->name, i, k);
            for (size_t j = 0; j < vocab; j++)
                larger += (double)row[j] > (double)row[at.id] + 2.0 * f->tolerance;
            assert_true(larger <= k);
            assert_true(k == 0 || at.logprob <= top[i * TOP + k - 1].logprob);
            if (at.id == ids[i]) assert_memory_equal(&at.logprob, &r->logprobs[i], sizeof(float));
        }
    }
    mc_free(top);
    mica_score_free(&r);
    mica_score_free(&plain);
}

static void check_prompts(const model_fixture *f) {
    for (int i = 0; i < 16; i++)
        check_prompt(f, i);
    for (int i = 0; i < 16; i++)
        check_top(f, i);
    assert_non_null(fixture_floats(f, NULL, "prompt3.logits"));
}

static void test_goldens(void **state) {
    (void)state;
    fixture_each(check_prompts);
}

static void fill(const model_fixture *f, int32_t *ids, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        ids[i] = (int32_t)((i * i * 31 + i * 7 + 3) % f->lm->spec.vocab);
}

/* Over chunks of prefill and slices of logits: a text's beginning has the same score, bit for bit,
 * whatever follows it; each score is that of feeding token by token. */
static void test_chunks(void **state) {
    (void)state;
    enum { LONG = 1300 };
    model_fixture f;
    fixture_open("gemma3_text_f32", &f);
    mc_session_model model = shared_of(&f);
    mica_score_result *whole, *part;
    mc_session *session;
    const float *logits;
    int32_t ids[LONG];
    size_t vocab = (size_t)f.lm->spec.vocab;
    fill(&f, ids, LONG);
    assert_int_equal(mc_score(&model, ids, LONG, &(mica_task_options){0}, &whole), MICA_OK);
    assert_int_equal(mc_score(&model, ids, 513, &(mica_task_options){0}, &part), MICA_OK);
    assert_memory_equal(whole->logprobs, part->logprobs, 513 * sizeof(float));
    assert_int_equal(mc_session_open(&model, 0, &session), MICA_OK);
    for (size_t i = 0; i + 1 < LONG; i++) {
        assert_int_equal(mc_session_feed(session, ids + i, 1, &logits), MICA_OK);
        assert_true(fabs((double)whole->logprobs[i + 1] - logprob(logits, vocab, ids[i + 1])) <
                    1e-5);
    }
    mc_session_close(&session);
    mica_score_free(&part);
    mica_score_free(&whole);
    fixture_close(&f);
}

/* ---- many texts ---- */

/* Each row has the bits that its text has alone. */
static void check_many(const char *name, mica_arithmetic arithmetic) {
    model_fixture f;
    fixture_open(name, &f);
    mc_lm_set_arithmetic(f.lm, arithmetic);
    mc_lm_set_cache(f.lm, MICA_CACHE_DEFAULT);
    many *m = make_many(f.lm->spec.vocab);
    mc_session_model model = shared_of(&f);
    mica_score_results *r;
    assert_int_equal(mc_score_texts(&model, m->texts, MANY, &(mica_task_options){0}, &r), MICA_OK);
    for (size_t i = 0; i < MANY; i++) {
        const mica_score_row *row = &r->rows[i];
        bool good = i != MANY_EMPTY && i != MANY_PAST;
        assert_int_equal(row->status, good ? MICA_OK : MICA_EINVAL);
        if (!good) {
            assert_null(row->score);
            assert_non_null(strstr(row->error, i == MANY_EMPTY ? "empty" : "vocabulary"));
            continue;
        }
        mica_score_result *alone;
        size_t n = (size_t)m->texts[i].n;
        assert_int_equal(mc_score(&model, m->ids[i], n, &(mica_task_options){0}, &alone), MICA_OK);
        assert_int_equal(row->score->count, n);
        assert_memory_equal(row->score->ids, m->ids[i], n * sizeof(int32_t));
        fixture_compare(row->score->logprobs, alone->logprobs, n, fixture_same(&f), "%s: text %d",
                        name, (int)i);
        assert_true(fabs(row->score->total - alone->total) <= fixture_same(&f) * (double)n);
        assert_true(row->score->perplexity > 1.0);
        mica_score_free(&alone);
    }
    mica_score_texts_free(&r);
    mica_score_texts_free(&r);
    assert_null(r);
    free(m);
    fixture_close(&f);
}

static void test_many(void **state) {
    (void)state;
    static const char *const names[] = {"gemma3_text_f32", "q4g64_qwen3", "llama_untied_f32"};
    for (size_t i = 0; i < 3; i++) {
        check_many(names[i], MICA_ARITHMETIC_EXACT);
        check_many(names[i], MICA_ARITHMETIC_FAST);
    }
}

/* An encoder has no next tokens, whatever the number of texts. */
static void test_encoders(void **state) {
    (void)state;
    static const int32_t ids[] = {3, 4, 5, 6};
    const mc_text texts[] = {{ids, 4, 0}, {ids, 4, 0}};
    model_fixture f;
    mica_score_results *r;
    fixture_open("gemma3_text_f32", &f);
    mc_lm lm = *f.lm;
    lm.spec.both_ways = true;
    const mc_session_model model = {.lm = &lm, .device = f.device};
    assert_int_equal(mc_score_texts(&model, texts, 2, &(mica_task_options){0}, &r), MICA_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(r->rows[i].status, MICA_EUNSUPPORTED);
        assert_null(r->rows[i].score);
    }
    mica_score_texts_free(&r);
    fixture_close(&f);
}

static bool score_many_once(void *arg) {
    const model_fixture *f = arg;
    mc_session_model model = shared_of(f);
    static const int32_t ids[] = {3, 4, 5, 6};
    const mc_text texts[] = {{ids, 4, 0}, {ids + 1, 3, 0}, {ids, 3, 0}, {ids, 1, 0}};
    mica_score_results *r;
    bool ok = true;
    test_forget_plans(f->device);
    mica_status status = mc_score_texts(&model, texts, 4, &(mica_task_options){0}, &r);
    assert_true(status == MICA_OK || (status == MICA_ENOMEM && !r));
    for (size_t i = 0; r && i < 3; i++) {
        ok = ok && r->rows[i].status == MICA_OK;
        assert_true(r->rows[i].status == MICA_OK || r->rows[i].status == MICA_ENOMEM);
    }
    mica_score_texts_free(&r);
    return status == MICA_OK && ok;
}

static void cancel_at_once(void *user, uint64_t done, uint64_t total) {
    assert_true(done > 0 && done < total);
    mica_cancel_set(user);
}

static void test_refusals(void **state) {
    (void)state;
    enum { LONG = 2100 }; /* more than a pass has */
    model_fixture f;
    fixture_open("gemma3_text_f32", &f);
    mc_session_model model = shared_of(&f);
    const int32_t one[] = {1}, past[] = {1, 558};
    const mica_task_options none = {0};
    mica_score_result *r;
    mica_cancel *cancel;
    int32_t ids[LONG];
    fill(&f, ids, LONG);
    assert_int_equal(mc_score(&model, one, 0, &none, &r), MICA_EINVAL);
    assert_int_equal(mc_score(&model, one, 1, &none, &r), MICA_EINVAL);
    assert_non_null(strstr(mica_last_error(), "two"));
    assert_int_equal(mc_score(&model, past, 2, &none, &r), MICA_EINVAL);
    assert_non_null(strstr(mica_last_error(), "558"));
    assert_int_equal(mica_cancel_open(&cancel), MICA_OK);
    const mica_task_options stop = {
        .progress = cancel_at_once, .progress_user = cancel, .cancel = cancel};
    assert_int_equal(mc_score(&model, ids, LONG, &stop, &r), MICA_ECANCELLED);
    assert_null(r);
    mica_cancel_close(&cancel);
    mc_lm lm = *f.lm;
    lm.spec.context = 10;
    model.lm = &lm;
    assert_int_equal(mc_score(&model, ids, 11, &none, &r), MICA_ECONTEXT);
    assert_non_null(
        strstr(mica_last_error(), "11 tokens, the model's context 10: shorten the text"));
    fixture_close(&f);
}

static bool score_once(void *arg) {
    const model_fixture *f = arg;
    mc_session_model model = shared_of(f);
    const int32_t ids[] = {3, 4, 5, 6};
    mica_score_result *r;
    test_forget_plans(f->device);
    mica_status status = mc_score(&model, ids, 4, &(mica_task_options){0}, &r);
    assert_true(status == MICA_OK || (status == MICA_ENOMEM && !r));
    mica_score_free(&r);
    return status == MICA_OK;
}

static void test_broken_weights(void **state) {
    (void)state;
    const int32_t ids[] = {4, 5, 6};
    model_fixture f;
    fixture_open("gemma3_text_f32", &f);
    fixture_break(&f);
    mc_session_model model = shared_of(&f);
    mica_score_result *r;
    assert_int_equal(mc_score(&model, ids, 3, &(mica_task_options){0}, &r), MICA_EINVAL);
    assert_string_equal(mica_last_error(),
                        "a logit is not a number: the model's weights are broken");
    assert_null(r);
    fixture_close(&f);
}

static void test_no_memory(void **state) {
    (void)state;
    model_fixture f;
    fixture_open("q4g64_gemma3_mm", &f);
    test_fail_each_allocation(score_once, &f);
    test_fail_each_allocation(score_many_once, &f);
    fixture_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_goldens),   cmocka_unit_test(test_chunks),
        cmocka_unit_test(test_refusals),  cmocka_unit_test(test_broken_weights),
        cmocka_unit_test(test_no_memory), cmocka_unit_test(test_many),
        cmocka_unit_test(test_encoders),
    };
    return cmocka_run_group_tests_name("task/score", tests, NULL, NULL);
}
