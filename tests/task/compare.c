/* Divergences against those of golden logits and of logits fed token by token, worked out here in
 * f64. */
#include "model/fixture.h"

#include "task/compare.h"

#include <math.h>
#include <string.h>

enum { VOCAB = 160, LONG = 2100 /* more than a pass has */, MAX_VOCAB = 600 };

static model_fixture reference, other; /* two models with one size of vocabulary */
static size_t vocab = VOCAB;           /* of the logits that are worked out here */

static int open_fixtures(void **state) {
    (void)state;
    fixture_open("q4g32_llama", &reference);
    fixture_open("q4g64_qwen3", &other);
    return reference.lm->spec.vocab != VOCAB || other.lm->spec.vocab != VOCAB;
}

static int close_fixtures(void **state) {
    (void)state;
    fixture_close(&reference);
    fixture_close(&other);
    return 0;
}

static mc_session_model shared_of(const model_fixture *f) {
    return (mc_session_model){.lm = f->lm, .device = f->device};
}

static size_t top_of(const double *x) {
    size_t top = 0;
    for (size_t i = 1; i < vocab; i++)
        if (x[i] > x[top]) top = i;
    return top;
}

/* ln of the softmax. */
static void log_softmax(const float *logits, double *out) {
    double max = -INFINITY, sum = 0;
    for (size_t i = 0; i < vocab; i++)
        max = fmax(max, (double)logits[i]);
    for (size_t i = 0; i < vocab; i++)
        sum += exp((double)logits[i] - max);
    for (size_t i = 0; i < vocab; i++)
        out[i] = (double)logits[i] - max - log(sum);
}

static void add_row(const float *p_logits, const float *q_logits, int32_t next,
                    mica_comparison *sums) {
    double p[MAX_VOCAB], q[MAX_VOCAB], divergence = 0;
    log_softmax(p_logits, p);
    log_softmax(q_logits, q);
    for (size_t i = 0; i < vocab; i++)
        divergence += exp(p[i]) * (p[i] - q[i]);
    sums->count++;
    sums->same += top_of(p) == top_of(q);
    sums->divergence += divergence;
    sums->max = fmax(sums->max, divergence);
    sums->reference_logprob += p[next];
    sums->model_logprob += q[next];
}

static void expect_near(const mica_comparison *got, const mica_comparison *want, double each) {
    double all = each * (double)want->count;
    assert_int_equal(got->count, want->count);
    uint64_t off = test_device_rounds_prompts(); /* near ties of passes of other lengths */
    assert_true(got->same + off >= want->same && got->same <= want->same + off);
    assert_true(fabs(got->divergence - want->divergence) <= all);
    assert_true(fabs(got->max - want->max) <= each);
    assert_true(fabs(got->reference_logprob - want->reference_logprob) <= all);
    assert_true(fabs(got->model_logprob - want->model_logprob) <= all);
}

/* Logits [n, vocab] by feeding one token after the other. */
static float *feed(const model_fixture *f, const int32_t *ids, size_t n) {
    mc_session_model model = shared_of(f);
    mc_session *session;
    float *all = mc_array_alloc(n * vocab, sizeof *all);
    assert_non_null(all);
    assert_int_equal(mc_session_open(&model, 0, &session), MICA_OK);
    for (size_t i = 0; i < n; i++) {
        const float *logits;
        assert_int_equal(mc_session_feed(session, ids + i, 1, &logits), MICA_OK);
        memcpy(all + i * vocab, logits, vocab * sizeof *all);
    }
    mc_session_close(&session);
    return all;
}

static void compare(const int32_t *ids, size_t n, mica_comparison *sums) {
    mc_session_model p = shared_of(&reference), q = shared_of(&other);
    if (mc_compare(&p, &q, ids, n, &(mica_task_options){0}, sums) != MICA_OK)
        fail_msg("%s", mica_last_error());
}

/* The reference's probabilities are those of its golden logits, of another program. Sums of two
 * texts add up. */
static void test_goldens(void **state) {
    (void)state;
    mica_comparison got = {0}, want = {0};
    for (int prompt = 0; prompt < 16; prompt++) {
        size_t n;
        const int32_t *ids = fixture_ints(&reference, &n, "prompt%d.ids", prompt);
        const float *logits = fixture_floats(&reference, NULL, "prompt%d.logits", prompt);
        if (!ids || !logits || n < 2) continue;
        float *q = feed(&other, ids, n);
        for (size_t i = 0; i + 1 < n; i++)
            add_row(logits + i * VOCAB, q + i * VOCAB, ids[i + 1], &want);
        compare(ids, n, &got);
        mc_free(q);
    }
    assert_true(want.count > 40 && want.divergence > 1e-3 * (double)want.count);
    /* p is off by 2 tolerances of the logits at most, times what ln p - ln q may be. */
    expect_near(&got, &want, 2.0 * reference.tolerance * 20.0);
}

/* The divergence of every family in fast arithmetic, from golden logits. */
static void check_family(const model_fixture *f) {
    model_fixture fast = *f;
    mica_comparison got = {0}, want = {0};
    size_t n;
    const int32_t *ids = fixture_ints(f, &n, "prompt2.ids");
    const float *logits = fixture_floats(f, NULL, "prompt2.logits");
    if (mc_lm_open(f->path, f->device, NULL, &fast.lm) != MICA_OK)
        fail_msg("%s: %s", f->name, mica_last_error());
    mc_lm_set_arithmetic(fast.lm, MICA_ARITHMETIC_FAST);
    vocab = (size_t)f->lm->spec.vocab;
    assert_true(vocab <= MAX_VOCAB);
    float *q = feed(&fast, ids, n);
    for (size_t i = 0; i + 1 < n; i++)
        add_row(logits + i * vocab, q + i * vocab, ids[i + 1], &want);
    mc_session_model a = shared_of(f), b = shared_of(&fast);
    if (mc_compare(&a, &b, ids, n, &(mica_task_options){0}, &got) != MICA_OK)
        fail_msg("%s: %s", f->name, mica_last_error());
    expect_near(&got, &want, 2.0 * f->tolerance * 20.0);
    mc_free(q);
    mc_lm_close(&fast.lm);
    vocab = VOCAB;
}

static void test_families(void **state) {
    (void)state;
    fixture_each(check_family);
}

/* Over chunks of prefill and slices of logits. */
static void test_chunks(void **state) {
    (void)state;
    int32_t ids[LONG];
    mica_comparison got = {0}, want = {0};
    for (int64_t i = 0; i < LONG; i++)
        ids[i] = (int32_t)((i * i * 31 + i * 7 + 3) % VOCAB);
    float *p = feed(&reference, ids, LONG), *q = feed(&other, ids, LONG);
    for (size_t i = 0; i + 1 < LONG; i++)
        add_row(p + i * VOCAB, q + i * VOCAB, ids[i + 1], &want);
    compare(ids, LONG, &got);
    expect_near(&got, &want, 1e-5);
    mc_free(p);
    mc_free(q);
}

static void test_itself(void **state) {
    (void)state;
    const int32_t ids[] = {3, 4, 5, 6, 7};
    mc_session_model p = shared_of(&reference);
    mica_comparison sums = {0};
    assert_int_equal(mc_compare(&p, &p, ids, 5, &(mica_task_options){0}, &sums), MICA_OK);
    assert_int_equal(sums.count, 4);
    assert_int_equal(sums.same, 4);
    assert_true(fabs(sums.divergence) == 0.0 && sums.max == 0.0);
    assert_true(fabs(sums.reference_logprob - sums.model_logprob) == 0.0);
}

/* Either model's weights may be broken. */
static void test_broken_weights(void **state) {
    (void)state;
    const int32_t ids[] = {3, 4, 5};
    model_fixture f;
    fixture_open("q4g32_llama", &f);
    fixture_break(&f);
    for (int i = 0; i < 2; i++) {
        mc_session_model p = shared_of(i ? &f : &reference), q = shared_of(i ? &reference : &f);
        mica_comparison sums = {.count = 7};
        assert_int_equal(mc_compare(&p, &q, ids, 3, &(mica_task_options){0}, &sums), MICA_EINVAL);
        assert_string_equal(mica_last_error(),
                            "a logit is not a number: the model's weights are broken");
        assert_int_equal(sums.count, 7);
    }
    fixture_close(&f);
}

static void cancel_at_once(void *user, uint64_t done, uint64_t total) {
    assert_true(done > 0 && done < total);
    mica_cancel_set(user);
}

static void test_refusals(void **state) {
    (void)state;
    const int32_t ids[LONG] = {1, VOCAB};
    const mica_task_options none = {0};
    mc_session_model p = shared_of(&reference), q = shared_of(&other);
    mica_comparison sums = {.count = 7};
    mica_cancel *cancel;
    assert_int_equal(mc_compare(&p, &q, ids, 0, &none, &sums), MICA_EINVAL);
    assert_int_equal(mc_compare(&p, &q, ids, 1, &none, &sums), MICA_EINVAL);
    assert_non_null(strstr(mica_last_error(), "two"));
    assert_int_equal(mc_compare(&p, &q, ids, 2, &none, &sums), MICA_EINVAL);
    assert_int_equal(mica_cancel_open(&cancel), MICA_OK);
    const mica_task_options stop = {
        .progress = cancel_at_once, .progress_user = cancel, .cancel = cancel};
    const int32_t same[LONG] = {0};
    assert_int_equal(mc_compare(&p, &q, same, LONG, &stop, &sums), MICA_ECANCELLED);
    mica_cancel_close(&cancel);
    mc_lm lm = *other.lm;
    lm.spec.vocab = VOCAB - 1;
    q.lm = &lm;
    assert_int_equal(mc_compare(&p, &q, same, 2, &none, &sums), MICA_EINVAL);
    assert_non_null(strstr(mica_last_error(), "159"));
    assert_int_equal(sums.count, 7);
    assert_true(sums.max == 0.0);
}

static bool compare_once(void *arg) {
    (void)arg;
    const int32_t ids[] = {3, 4, 5, 6};
    mc_session_model p = shared_of(&reference), q = shared_of(&other);
    mica_comparison sums = {0};
    test_forget_plans(reference.device);
    test_forget_plans(other.device);
    mica_status status = mc_compare(&p, &q, ids, 4, &(mica_task_options){0}, &sums);
    assert_true(status == MICA_OK || status == MICA_ENOMEM);
    assert_int_equal(sums.count, status == MICA_OK ? 3 : 0);
    return status == MICA_OK;
}

static void test_no_memory(void **state) {
    (void)state;
    test_fail_each_allocation(compare_once, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_goldens),   cmocka_unit_test(test_families),
        cmocka_unit_test(test_chunks),    cmocka_unit_test(test_itself),
        cmocka_unit_test(test_refusals),  cmocka_unit_test(test_broken_weights),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests_name("task/compare", tests, open_fixtures, close_fixtures);
}
