/* Classes against softmax of the golden logits, worked out here. */
#include "model/fixture.h"

#include "device/backend.h"
#include "session/stream.h"
#include "task/classify.h"
#include "task/prompts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static mica_status try_classify(const mc_session_model *model, const prompts *p, size_t count,
                                const int32_t *labels, const mica_classify_options *options,
                                mica_classify_results **results) {
    const mc_classify_task task = {model, encode, (void *)p, count, labels};
    return mc_classify(&task, options, results);
}

static mica_classify_results *classify(const mc_session_model *model, const prompts *p,
                                       size_t count, const int32_t *labels,
                                       const mica_classify_options *options) {
    mica_classify_results *results;
    if (try_classify(model, p, count, labels, options, &results) != MICA_OK)
        fail_msg("%s", mica_last_error());
    assert_int_equal(results->count, count);
    return results;
}

/* ---- goldens ---- */

/* One row against the golden logits [vocab] behind its prompt. */
static void check_row(const model_fixture *f, const mica_classify_row *row, const float *want,
                      const int32_t *labels, size_t label_count) {
    int64_t vocab = f->lm->spec.vocab, best = 0;
    double sum = 0.0;
    if (row->status != MICA_OK) fail_msg("%s: %s", f->name, row->error);
    for (int64_t i = 0; i < vocab; i++)
        if (want[i] > want[best]) best = i;
    for (int64_t i = 0; i < vocab; i++)
        sum += exp((double)want[i] - (double)want[best]);
    fixture_compare(row->logits, want, (size_t)vocab, f->tolerance, "%s: logits", f->name);
    assert_int_equal(row->token, best);
    assert_true(fabs(row->probability - 1.0 / sum) <= 2.1 * f->tolerance);
    for (size_t i = 0; i < label_count; i++) {
        double p = exp((double)want[labels[i]] - (double)want[best]) / sum;
        if (!(fabs(row->labels[i] - p) <= 2.1 * f->tolerance))
            fail_msg("%s: label %zu has %g, want %g", f->name, i, row->labels[i], p);
        assert_true(row->labels[i] <= row->labels[row->label]);
    }
}

static void check_prompts(const model_fixture *f) {
    static const int32_t labels[] = {7, 3, 100};
    static const char *const names[] = {"a", "b", "c"};
    const mica_classify_options options = {.labels = names, .label_count = 3, .logits = true};
    mc_session_model model = {.lm = f->lm, .device = f->device};
    size_t vocab = (size_t)f->lm->spec.vocab, count = 0;
    const float *want[MAX_PROMPTS];
    prompts p = {0};
    for (int i = 0; i < 16; i++) {
        p.ids[count] = fixture_ints(f, &p.lengths[count], "prompt%d.ids", i);
        want[count] = fixture_floats(f, NULL, "prompt%d.logits", i);
        if (p.ids[count] && want[count]) count++;
    }
    assert_true(count >= 4);
    mica_classify_results *results = classify(&model, &p, count, labels, &options);
    assert_int_equal(results->vocab, vocab);
    assert_int_equal(results->label_count, 3);
    for (size_t i = 0; i < count; i++) {
        check_row(f, &results->rows[i], want[i] + (p.lengths[i] - 1) * vocab, labels, 3);
        assert_int_equal(results->rows[i].prompt_tokens, p.lengths[i]);
    }
    mica_classify_free(&results);
    mica_classify_free(&results);
    assert_null(results);
}

static void check_batch(const model_fixture *f) {
    mc_session_model model = {.lm = f->lm, .device = f->device};
    size_t n, rows, vocab = (size_t)f->lm->spec.vocab;
    const int32_t *ids = fixture_ints(f, &n, "batch.ids");
    const int32_t *lengths = fixture_ints(f, &rows, "batch.lengths");
    const float *want = fixture_floats(f, NULL, "batch.last_logits");
    prompts p = {0};
    for (size_t i = 0; i < rows; i++) {
        p.ids[i] = ids + i * (n / rows);
        p.lengths[i] = (size_t)lengths[i];
    }
    mica_classify_results *results =
        classify(&model, &p, rows, NULL, &(mica_classify_options){.logits = true});
    for (size_t i = 0; i < rows; i++)
        check_row(f, &results->rows[i], want + i * vocab, NULL, 0);
    mica_classify_free(&results);
}

static void check_goldens(const model_fixture *f) {
    check_prompts(f);
    check_batch(f);
}

static void test_goldens(void **state) {
    (void)state;
    fixture_each(check_goldens);
}

/* ---- rows of their own ---- */

static void count_rows(void *user, uint64_t done, uint64_t total) {
    size_t *rows = user;
    assert_int_equal(done, ++*rows);
    assert_int_equal(total, 6);
}

/* Bad prompts among good ones, and prompts that begin alike: each row has the bits of a session of
 * its own. */
static void test_rows(void **state) {
    (void)state;
    static const int32_t past[] = {3, 558};
    model_fixture f;
    fixture_open("gemma3_text_f32", &f);
    mc_session_model model = {.lm = f.lm, .device = f.device};
    size_t n, done = 0;
    const int32_t *ids = fixture_ints(&f, &n, "prompt3.ids");
    const prompts p = {{ids, NULL, ids, past, ids, ids}, {30, 0, 41, 2, 41, 0}};
    const mica_classify_options options = {
        .logits = true, .progress = count_rows, .progress_user = &done};
    mica_classify_results *results = classify(&model, &p, 6, NULL, &options);
    const mica_classify_row *rows = results->rows;
    assert_int_equal(done, 6);
    assert_int_equal(rows[1].status, MICA_EFORMAT);
    assert_string_equal(rows[1].error, "prompt 1 is broken");
    assert_null(rows[1].logits);
    assert_int_equal(rows[3].status, MICA_EINVAL);
    assert_non_null(strstr(rows[3].error, "558"));
    assert_int_equal(rows[5].status, MICA_EINVAL);
    assert_non_null(strstr(rows[5].error, "empty"));
    for (size_t i = 0; i < 6; i += 2) {
        mc_session *session;
        const float *want;
        assert_int_equal(mc_session_open(&model, 0, &session), MICA_OK);
        assert_int_equal(mc_session_feed(session, ids, (int64_t)p.lengths[i], &want), MICA_OK);
        assert_string_equal(rows[i].error, "");
        assert_null(rows[i].labels);
        assert_memory_equal(rows[i].logits, want, 558 * sizeof *want);
        mc_session_close(&session);
    }
    mica_classify_free(&results);
    fixture_close(&f);
}

/* With a temperature a row's token is the first that an answer with these options has; the rest is
 * as without. */
static void test_draws(void **state) {
    (void)state;
    model_fixture f;
    size_t n;
    fixture_open("gemma3_text_f32", &f);
    const int32_t *ids = fixture_ints(&f, &n, "prompt3.ids");
    mc_session_model model = {.lm = f.lm, .device = f.device};
    const prompts p = {{ids, ids, ids}, {30, 0, 41}};
    mica_classify_results *greedy = classify(&model, &p, 3, NULL, &(mica_classify_options){0});
    int others = 0;
    for (uint64_t seed = 0; seed < 12; seed++) {
        const mica_classify_options options = {
            .temperature = 1.5f, .top_k = seed < 6 ? 5 : 0, .seed = seed, .logits = true};
        const mica_generate_options same = {
            .temperature = 1.5f, .top_k = options.top_k, .seed = seed, .max_tokens = 1};
        mica_classify_results *results = classify(&model, &p, 3, NULL, &options);
        assert_int_equal(results->rows[1].status, MICA_EINVAL);
        for (size_t i = 0; i < 3; i += 2) {
            const mica_classify_row *row = &results->rows[i];
            mc_session *session;
            mc_stream *stream;
            mica_token token;
            assert_int_equal(mc_session_open(&model, 0, &session), MICA_OK);
            assert_int_equal(mc_stream_open(session, ids, p.lengths[i], &same, &stream), MICA_OK);
            assert_true(mc_stream_next(stream, &token));
            assert_int_equal(row->token, token.id);
            double best =
                exp((double)row->logits[row->token] - (double)row->logits[greedy->rows[i].token]);
            assert_true(fabs(row->probability - best * greedy->rows[i].probability) < 1e-9);
            others += row->token != greedy->rows[i].token;
            mc_stream_close(&stream);
            mc_session_close(&session);
        }
        mica_classify_free(&results);
    }
    assert_true(others > 0);
    mica_classify_free(&greedy);
    mica_classify_results *none;
    const mica_classify_options wrong[] = {{.temperature = -1.0f}, {.top_k = -1}};
    for (int i = 0; i < 2; i++)
        assert_int_equal(try_classify(&model, &p, 1, NULL, &wrong[i], &none), MICA_EINVAL);
    assert_null(none);
    fixture_close(&f);
}

static void test_broken_weights(void **state) {
    (void)state;
    model_fixture f;
    fixture_open("gemma3_text_f32", &f);
    fixture_break(&f);
    mc_session_model model = {.lm = f.lm, .device = f.device};
    const int32_t ids[] = {4, 5, 6};
    const prompts p = {{ids}, {3}};
    mica_classify_results *results = classify(&model, &p, 1, NULL, &(mica_classify_options){0});
    assert_int_equal(results->rows[0].status, MICA_EINVAL);
    assert_string_equal(results->rows[0].error,
                        "a logit is not a number: the model's weights are broken");
    mica_classify_free(&results);
    fixture_close(&f);
}

/* Prompts that are rows of one pass have the bits that they have alone: of many lengths, some with
 * a beginning in common, one too long for a row, one broken. */
static void check_together(const model_fixture *f) {
    enum { N = 20, LONG = 80 };
    mc_session_model model = {.lm = f->lm, .device = f->device};
    int32_t ids[N][LONG];
    prompts p = {0};
    for (int i = 0; i < N; i++) {
        p.ids[i] = i == 9 ? NULL : ids[i];
        p.lengths[i] = i == 13 ? LONG : 1 + (size_t)(i * 5 % 13) + (i == 5 || i == 6 ? 12 : 0);
        for (int k = 0; k < LONG; k++)
            ids[i][k] =
                (int32_t)((k * 31 + (i == 6 && k < 12 ? 5 : i) * 17 + 3) % f->lm->spec.vocab);
    }
    const mica_classify_options options = {.logits = true, .temperature = 0.8f, .seed = 7};
    mica_classify_results *all = classify(&model, &p, N, NULL, &options);
    for (int i = 0; i < N; i++) {
        const prompts one = {{p.ids[i]}, {p.lengths[i]}};
        mica_classify_results *alone = classify(&model, &one, 1, NULL, &options);
        assert_int_equal(all->rows[i].status, i == 9 ? MICA_EFORMAT : MICA_OK);
        assert_string_equal(all->rows[i].error, i == 9 ? "prompt 9 is broken" : "");
        assert_int_equal(all->rows[i].prompt_tokens, i == 9 ? 0 : p.lengths[i]);
        if (i != 9) {
            fixture_compare(all->rows[i].logits, alone->rows[0].logits, all->vocab, fixture_same(f),
                            "%s: row %d", f->name, i);
            assert_int_equal(all->rows[i].token, alone->rows[0].token);
        }
        mica_classify_free(&alone);
    }
    mica_classify_free(&all);
}

static void test_together(void **state) {
    (void)state;
    fixture_each(check_together);
}

/* ---- longer rows ---- */

enum { LONG_ROWS = 8, LONG_ROW = 64 };

/* Prompts of 33 to 64 tokens with different beginnings; equal: of 40 each. */
static void make_long(prompts *p, int32_t ids[LONG_ROWS][LONG_ROW], int64_t vocab, bool equal) {
    for (int i = 0; i < LONG_ROWS; i++) {
        p->ids[i] = ids[i];
        p->lengths[i] = equal ? 40 : (size_t[]){33, 64, 48, 63, 50, 49, 34, 32}[i];
        for (int k = 0; k < LONG_ROW; k++)
            ids[i][k] = (int32_t)((k * 29 + i * 13 + 5) % vocab);
    }
}

static const mc_backend *real;
static int launches;

static mica_status count_launch(mc_executable *executable, mc_binding *args,
                                const uint64_t *scalars, mc_result *results, mc_fence *fence) {
    launches++;
    return real->launch(executable, args, scalars, results, fence);
}

/* Classifies, and returns how often the device computed. */
static int count_launches(const model_fixture *f, const prompts *p, size_t count) {
    mc_session_model model = {.lm = f->lm, .device = f->device};
    mc_backend counting = *f->device->backend;
    real = f->device->backend;
    counting.launch = count_launch;
    f->device->backend = &counting;
    launches = 0;
    mica_classify_results *results = classify(&model, p, count, NULL, &(mica_classify_options){0});
    f->device->backend = real;
    mica_classify_free(&results);
    return launches;
}

/* Prompts of several tokens are rows of passes, as those of a few are: of no more than a fifth of
 * padding. */
static void check_passes(const model_fixture *f) {
    int32_t ids[LONG_ROWS][LONG_ROW];
    prompts p = {0};
    make_long(&p, ids, f->lm->spec.vocab, true);
    assert_int_equal(count_launches(f, &p, LONG_ROWS), 1);
    p.lengths[3] = LONG_ROW;
    assert_int_equal(count_launches(f, &p, LONG_ROWS), 3);
}

static void test_passes(void **state) {
    (void)state;
    fixture_each(check_passes);
}

/* Such rows have the bits that they have alone. */
static void check_rows(const model_fixture *f, bool equal) {
    mc_session_model model = {.lm = f->lm, .device = f->device};
    int32_t ids[LONG_ROWS][LONG_ROW];
    prompts p = {0};
    make_long(&p, ids, f->lm->spec.vocab, equal);
    const mica_classify_options options = {.logits = true};
    mica_classify_results *all = classify(&model, &p, LONG_ROWS, NULL, &options);
    for (int i = 0; i < LONG_ROWS; i++) {
        mc_session *session;
        const float *want;
        assert_int_equal(mc_session_open(&model, 0, &session), MICA_OK);
        assert_int_equal(mc_session_feed(session, ids[i], (int64_t)p.lengths[i], &want), MICA_OK);
        fixture_compare(all->rows[i].logits, want, all->vocab, fixture_same(f),
                        "%s: row %d of %d tokens", f->name, i, (int)p.lengths[i]);
        mc_session_close(&session);
    }
    mica_classify_free(&all);
}

static void check_long(const model_fixture *f) {
    static const struct {
        mica_cache_type cache;
        mica_arithmetic arithmetic;
    } ways[] = {{MICA_CACHE_F32, MICA_ARITHMETIC_EXACT},
                {MICA_CACHE_F16, MICA_ARITHMETIC_EXACT},
                {MICA_CACHE_BF16, MICA_ARITHMETIC_FAST},
                {MICA_CACHE_INT8, MICA_ARITHMETIC_FAST}};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        mc_lm_set_arithmetic(f->lm, ways[i].arithmetic);
        mc_lm_set_cache(f->lm, ways[i].cache);
        check_rows(f, true);
        check_rows(f, false);
    }
}

static void test_long(void **state) {
    (void)state;
    fixture_each(check_long);
}

static void cancel_after_two(void *user, uint64_t done, uint64_t total) {
    (void)total;
    if (done == 2) mica_cancel_set(user);
}

static void test_cancelled(void **state) {
    (void)state;
    model_fixture f;
    fixture_open("gemma3_text_f32", &f);
    mc_session_model model = {.lm = f.lm, .device = f.device};
    mica_cancel *cancel;
    assert_int_equal(mica_cancel_open(&cancel), MICA_OK);
    const int32_t ids[] = {4, 5, 6};
    const prompts p = {{ids, ids, ids, ids}, {3, 3, 3, 3}};
    const mica_classify_options options = {
        .progress = cancel_after_two, .progress_user = cancel, .cancel = cancel};
    mica_classify_results *results = classify(&model, &p, 4, NULL, &options);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(results->rows[i].status, i < 2 ? MICA_OK : MICA_ECANCELLED);
    assert_true(results->rows[0].probability == results->rows[1].probability);
    mica_classify_free(&results);
    mica_cancel_close(&cancel);
    fixture_close(&f);
}

static bool classify_once(void *arg) {
    static const char *const names[] = {"a"};
    const model_fixture *f = arg;
    mc_session_model model = {.lm = f->lm, .device = f->device};
    const int32_t ids[] = {4, 5, 6}, labels[] = {9};
    const prompts p = {{ids, ids}, {3, 2}};
    mica_classify_results *results;
    test_forget_plans(f->device);
    mica_status status = try_classify(
        &model, &p, 2, labels,
        &(mica_classify_options){.labels = names, .label_count = 1, .logits = true}, &results);
    assert_true(status == MICA_OK || (status == MICA_ENOMEM && !results));
    bool good = status == MICA_OK;
    for (size_t i = 0; results && i < 2; i++) {
        good = good && results->rows[i].status == MICA_OK;
        assert_true(results->rows[i].status == MICA_OK || results->rows[i].status == MICA_ENOMEM);
    }
    mica_classify_free(&results);
    return good;
}

static void test_no_memory(void **state) {
    (void)state;
    model_fixture f;
    fixture_open("q4g64_gemma3_mm", &f);
    test_fail_each_allocation(classify_once, &f);
    fixture_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_goldens),   cmocka_unit_test(test_rows),
        cmocka_unit_test(test_draws),     cmocka_unit_test(test_broken_weights),
        cmocka_unit_test(test_cancelled), cmocka_unit_test(test_together),
        cmocka_unit_test(test_passes),    cmocka_unit_test(test_long),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests_name("task/classify", tests, NULL, NULL);
}
