/* The largest logits of rows (session/largest.h): what a device finds, and what is drawn from it:
 * nothing else than from the whole rows. */
#include "model/fixture.h"

#include "base/alloc.h"
#include "device/device.h"
#include "session/pool.h"
#include "session/stream.h"
#include "support/witness.h"
#include "task/batch.h"

#include <mica/ops.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 10, VOCAB = 40007, SEEDS = 12 };

static float rows[ROWS][VOCAB]; /* rows of all kinds; the last two are broken */
static mc_largest found[ROWS];  /* by the device */

/* ---- rows ---- */

static uint64_t random_state = 7;

static double uniform(void) {
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return ((double)(random_state >> 11) + 0.5) * 0x1p-53;
}

static void fill_normal(float *row, double deviation) {
    for (int i = 0; i < VOCAB; i++)
        row[i] =
            (float)(deviation * sqrt(-2.0 * log(uniform())) * cos(6.283185307179586 * uniform()));
}

static void fill_rows(void) {
    for (int r = 0; r < ROWS; r++)
        fill_normal(rows[r], r < 3 ? 1.0 + 2.0 * r : 2.5);
    for (int r = 3; r < 5; r++) /* a few tokens stand out, many of which are as likely */
        for (int i = 0; i < 50; i++)
            rows[r][(int)(uniform() * VOCAB)] = r == 3 ? (float)(20.0 - 0.3 * i) : 15.0f;
    for (int i = 0; i < VOCAB; i++) {
        rows[5][i] = (float)(i * 37 % 11); /* ties, more than are listed */
        rows[6][i] = i % 5000 == 7 ? (float)i * 1e-4f : -INFINITY;
        rows[7][i] = -1000.0f - (float)(i % 300);
    }
    rows[8][VOCAB - 1] = NAN;
    rows[9][VOCAB / 2] = INFINITY;
}

static int by_likelihood(const void *a, const void *b) {
    const float *x = *(const float *const *)a, *y = *(const float *const *)b;
    if (isnan(*x) != isnan(*y)) return isnan(*x) ? -1 : 1;
    if (*x != *y && !isnan(*x)) return *x > *y ? -1 : 1;
    return x < y ? -1 : x > y;
}

/* The same by a plain sort, and in double. */
static mc_largest largest_of(const float *row, int64_t vocab) {
    mc_largest largest;
    double total = 0.0;
    const float **order = malloc((size_t)vocab * sizeof *order);
    assert_non_null(order);
    for (int64_t i = 0; i < vocab; i++)
        order[i] = &row[i];
    qsort(order, (size_t)vocab, sizeof *order, by_likelihood);
    for (int i = 0; i < MC_LARGEST; i++) {
        largest.logits[i] = *order[i];
        largest.ids[i] = (int32_t)(order[i] - row);
    }
    for (int64_t i = 0; i < vocab; i++)
        total += exp((double)row[i] - (double)*order[0]);
    largest.log_total = (float)(log(total) + (double)*order[0]);
    free(order);
    return largest;
}

static void find(mica_device *device, const float *logits, size_t n, int64_t vocab,
                 mc_largest *largest) {
    const int64_t shape[] = {1, (int64_t)n, vocab};
    mica_scope *s;
    assert_int_equal(mica_scope_open(device, &s), MICA_OK);
    mica_array a = mc_largest_record(s, mica_from_data(s, logits, MICA_F32, shape, 3));
    assert_int_equal(mica_eval(s, a), MICA_OK);
    if (mc_largest_read(a, largest, n) != MICA_OK) fail_msg("%s", mica_last_error());
    mica_scope_close(&s);
}

static int open_rows(void **state) {
    mica_device *device;
    (void)state;
    fill_rows();
    assert_int_equal(test_device_open(NULL, &device), MICA_OK);
    find(device, &rows[0][0], ROWS, VOCAB, found);
    mica_device_close(&device);
    return 0;
}

static void expect_largest(const mc_largest *got, const mc_largest *want, const char *what) {
    for (int i = 0; i < MC_LARGEST; i++) {
        if (got->ids[i] != want->ids[i])
            fail_msg("%s: %d is number %d, want %d", what, (int)got->ids[i], i, (int)want->ids[i]);
        assert_memory_equal(&got->logits[i], &want->logits[i], sizeof(float));
    }
    if (!isfinite(want->log_total)) return;
    double off = (double)got->log_total - (double)want->log_total;
    if (!(fabs(expm1(off)) < mc_largest_error(want) / 2))
        fail_msg("%s: the total is off by %g", what, off);
}

static void test_found(void **state) {
    (void)state;
    static const int64_t sizes[] = {MC_LARGEST + 1, 300, 4096, 4099};
    mica_device *device;
    for (int r = 0; r < ROWS; r++) {
        const mc_largest want = largest_of(rows[r], VOCAB);
        char *what = test_format("row %d", r);
        if (r != 8) expect_largest(&found[r], &want, what);
        free(what);
    }
    assert_true(isnan(found[8].logits[0]) && found[9].logits[0] == INFINITY);
    assert_int_equal(test_device_open(NULL, &device), MICA_OK);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        mc_largest got[2];
        find(device, rows[1], 2, sizes[i], got);
        for (int r = 0; r < 2; r++) {
            const mc_largest want = largest_of(rows[1] + r * sizes[i], sizes[i]);
            expect_largest(&got[r], &want, "a short row");
        }
    }
    mica_device_close(&device);
}

/* A peak before which all others are small, which a sum in f32 would lose. */
static void test_totals_keep_small_terms(void **state) {
    (void)state;
    mica_device *device;
    mc_largest got;
    float *row = malloc(VOCAB * sizeof *row);
    assert_non_null(row);
    assert_int_equal(test_device_open(NULL, &device), MICA_OK);
    for (int place = 0; place < VOCAB; place += VOCAB / 3) {
        for (int i = 0; i < VOCAB; i++)
            row[i] = -17.0f;
        row[place] = 0.0f;
        find(device, row, 1, VOCAB, &got);
        double want = 1.0 + (VOCAB - 1) * exp(-17.0);
        assert_true(fabs(exp((double)got.log_total) / want - 1.0) < mc_largest_error(&got) / 2);
    }
    mica_device_close(&device);
    free(row);
}

/* ---- draws ---- */

/* Draws from a row in both ways; true: the largest were enough. */
static bool draw_both(const mc_sampling *sampling, float *row, int64_t vocab,
                      const mc_largest *largest) {
    mc_sampler samplers[2];
    int32_t token, want;
    bool enough;
    for (int i = 0; i < 2; i++)
        mc_sampler_init(&samplers[i], sampling);
    mica_status status = mc_sampler_draw_largest(&samplers[0], largest, &token, &enough);
    assert_int_equal(mc_sampler_draw(&samplers[1], row, vocab, NULL, 0, &want), status);
    if (status != MICA_OK) enough = false;
    assert_int_equal(samplers[0].draws, enough);
    if (enough) { /* the next draws, from all logits, are the same, too */
        assert_int_equal(token, want);
        assert_int_equal(mc_sampler_draw(&samplers[1], row, vocab, NULL, 0, &want), MICA_OK);
    }
    if (status == MICA_OK) {
        assert_int_equal(mc_sampler_draw(&samplers[0], row, vocab, NULL, 0, &token), MICA_OK);
        assert_int_equal(token, want);
    }
    for (int i = 0; i < 2; i++)
        mc_sampler_deinit(&samplers[i]);
    return enough;
}

static const mc_sampling settings[] = {
    {.temperature = 0.8f, .top_k = 1},
    {.temperature = 1.0f, .top_k = 40},
    {.temperature = 3.0f, .top_k = MC_LARGEST},
    {.temperature = 1.0f, .top_k = 20, .top_p = 0.9f},
    {.temperature = 1.0f, .top_k = 50, .min_p = 0.1f},
    {.temperature = 1.0f, .top_k = MC_LARGEST, .top_p = 0.8f, .min_p = 0.02f},
    {.temperature = 1.0f, .top_p = 0.5f},
    {.temperature = 0.7f, .top_p = 0.95f},
    {.temperature = 1.0f, .min_p = 0.05f},
    {.temperature = 1.0f, .top_p = 0.9f, .min_p = 0.05f},
};

enum { SETTINGS = sizeof settings / sizeof *settings };

static void test_draws(void **state) {
    (void)state;
    int enough[SETTINGS] = {0};
    for (int k = 0; k < SETTINGS; k++)
        for (int r = 0; r < ROWS - 2; r++)
            for (int seed = 0; seed < SEEDS; seed++) {
                mc_sampling sampling = settings[k];
                sampling.seed = (uint64_t)seed;
                enough[k] += draw_both(&sampling, rows[r], VOCAB, &found[r]);
            }
    for (int k = 0; k < 3; k++) /* top_k alone needs no more, whatever the row is */
        assert_int_equal(enough[k], (ROWS - 2) * SEEDS);
    for (int k = 3; k < SETTINGS; k++) {
        if (enough[k] < 2 * SEEDS) fail_msg("settings %d: enough %d times", k, enough[k]);
        assert_true(settings[k].top_k || enough[k] < (ROWS - 2) * SEEDS);
    }
}

/* Where top_p ends within the error of the total, the row is asked for; right beside it is not. */
static void test_doubtful_totals(void **state) {
    (void)state;
    static const float wrong[] = {-0.02f, -3e-4f, -1e-5f, 0.0f, 1e-5f, 3e-4f, 0.02f};
    float row[300];
    for (int i = 0; i < 300; i++) /* the first token has exactly a half */
        row[i] = i == 0 ? 0.0f : i < 5 ? logf(0.25f) : -INFINITY;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        mc_largest largest = largest_of(row, 300);
        bool enough;
        int32_t token;
        mc_sampler sampler;
        largest.log_total += wrong[i];
        mc_sampler_init(&sampler, &(mc_sampling){.temperature = 1.0f, .top_p = 0.5f});
        assert_int_equal(mc_sampler_draw_largest(&sampler, &largest, &token, &enough), MICA_OK);
        assert_int_equal(enough, fabsf(wrong[i]) > 2.5e-4f);
        largest.log_total = i % 2 ? NAN : INFINITY;
        assert_int_equal(mc_sampler_draw_largest(&sampler, &largest, &token, &enough), MICA_OK);
        assert_false(enough);
        mc_sampler_deinit(&sampler);
    }
}

static void test_broken_rows(void **state) {
    (void)state;
    const mc_sampling sampling = settings[1];
    for (int r = ROWS - 2; r < ROWS; r++) {
        mc_sampler sampler;
        int32_t token;
        bool enough;
        mc_sampler_init(&sampler, &sampling);
        assert_int_equal(mc_sampler_draw(&sampler, rows[r], VOCAB, NULL, 0, &token), MICA_EINVAL);
        char *error = test_format("%s", mica_last_error());
        assert_int_equal(mc_sampler_draw_largest(&sampler, &found[r], &token, &enough),
                         MICA_EINVAL);
        assert_string_equal(mica_last_error(), error);
        assert_false(enough);
        free(error);
        mc_sampler_deinit(&sampler);
    }
}

/* What wants more than the largest logits is not drawn from these. */
static void test_what_wants_rows(void **state) {
    (void)state;
    static const mica_logit_bias bias = {3, 1.0f};
    static const mc_sampling wants[] = {
        {.temperature = 0.0f},
        {.temperature = 1.0f},
        {.temperature = 1.0f, .top_k = MC_LARGEST + 1},
        {.temperature = 1.0f, .top_p = 1.0f},
        {.temperature = 1.0f, .top_k = 5, .bias = &bias, .bias_count = 1},
        {.temperature = 1.0f, .top_k = 5, .repetition_penalty = 1.1f},
        {.temperature = 1.0f, .top_k = 5, .presence_penalty = 0.1f},
    };
    for (size_t i = 0; i < sizeof wants / sizeof *wants; i++) {
        assert_false(mc_sampling_takes_largest(&wants[i]));
        assert_false(draw_both(&wants[i], rows[3], VOCAB, &found[3]));
    }
    const int32_t banned = 5;
    const uint32_t allowed[VOCAB / 32 + 1] = {6};
    for (int i = 0; i < 2; i++) {
        mc_sampler sampler;
        int32_t token;
        bool enough = true;
        mc_sampler_init(&sampler, &settings[1]);
        if (i) sampler.allowed = allowed;
        if (!i) sampler.banned = &banned, sampler.banned_count = 1;
        assert_int_equal(mc_sampler_draw_largest(&sampler, &found[3], &token, &enough), MICA_OK);
        assert_false(enough);
        mc_sampler_deinit(&sampler);
    }
}

/* ---- answers ---- */

enum { TOKENS = 16, ANSWERS = 7, PROMPT = 5 };

static const mica_logit_bias biased = {17, 2.0f};

/* Some are drawn from the largest logits alone, some never, some as it turns out. */
static const mica_generate_options answers[ANSWERS] = {
    {.max_tokens = TOKENS, .temperature = 1.0f, .top_k = 20, .seed = 1},
    {.max_tokens = TOKENS, .temperature = 0.8f, .top_p = 0.6f, .seed = 2},
    {.max_tokens = TOKENS},
    {.max_tokens = TOKENS, .temperature = 2.0f, .top_p = 0.99f, .seed = 3},
    {.max_tokens = TOKENS,
     .temperature = 1.0f,
     .top_k = 8,
     .seed = 4,
     .logit_bias = &biased,
     .logit_bias_count = 1},
    {.max_tokens = TOKENS,
     .temperature = 1.0f,
     .top_k = 40,
     .min_p = 0.02f,
     .seed = 5,
     .logprobs = true,
     .top_logprobs = 3},
    {.max_tokens = TOKENS, .temperature = 0.3f, .top_k = 3, .seed = 6},
};

static const int32_t *prompt_of(size_t answer) {
    static const int32_t ids[] = {3, 14, 15, 92, 65, 35, 8, 9, 79, 32, 38};
    return ids + answer;
}

static mica_status answer(mc_session *session, const mica_generate_options *options,
                          const int32_t *prompt, int32_t *ids, int *n) {
    mc_stream *stream;
    mica_token token;
    *n = 0;
    assert_int_equal(mc_stream_open(session, prompt, PROMPT, options, &stream), MICA_OK);
    while (mc_stream_next(stream, &token))
        ids[(*n)++] = token.id;
    mica_status status = mc_stream_status(stream);
    mc_stream_close(&stream);
    return status;
}

/* far: rows of logits stay on the device. Returns how many tokens were drawn from the largest. */
static int run_alone(const model_fixture *f, bool far, const mica_generate_options *options,
                     const int32_t *prompt, int32_t *ids) {
    const mc_session_model model = {.lm = f->lm, .device = f->device, .far_memory = far};
    mc_session *session;
    mc_stream *stream;
    mica_token token;
    int n = 0, largest = 0;
    assert_int_equal(mc_session_open(&model, 0, &session), MICA_OK);
    assert_int_equal(mc_stream_open(session, prompt, PROMPT, options, &stream), MICA_OK);
    for (; mc_stream_next(stream, &token); n++) {
        ids[n] = token.id;
        largest += mc_session_largest(session) != NULL;
    }
    if (mc_stream_status(stream) != MICA_OK) fail_msg("%s", mica_last_error());
    assert_int_equal(n, TOKENS);
    mc_stream_close(&stream);
    mc_session_close(&session);
    return largest;
}

static void check_answers(const char *name, int draft_tokens) {
    static const bool uses[ANSWERS] = {true, true, false, true, false, false, true};
    model_fixture f;
    fixture_open(name, &f);
    const size_t step = draft_tokens && test_device_is_other() ? 3 : 1;
    for (size_t i = 0; i < ANSWERS; i += step) {
        mica_generate_options options = answers[i];
        int32_t ids[2][TOKENS];
        options.draft_tokens = draft_tokens;
        assert_int_equal(run_alone(&f, false, &options, prompt_of(i), ids[0]), 0);
        int largest = run_alone(&f, true, &options, prompt_of(i), ids[1]);
        assert_memory_equal(ids[0], ids[1], sizeof ids[0]);
        assert_int_equal(largest > 0, uses[i]);
        /* an answer whose rows are read all the same asks for them at once before long */
        assert_int_equal(largest == TOKENS, uses[i] && i != 3);
    }
    fixture_close(&f);
}

/* Copies that fail end the answer with that error; the session then goes on with another. */
static void test_failed_copies(void **state) {
    (void)state;
    model_fixture f;
    fixture_open("gemma3_text_f32", &f);
    const mc_session_model model = {.lm = f.lm, .device = f.device, .far_memory = true};
    bool failed = f.device->backend == &witness_backend;
    for (uint64_t n = 1; failed; n += 1 + n / 3) {
        mc_session *session;
        int32_t ids[2][TOKENS];
        int count = 0;
        assert_int_equal(mc_session_open(&model, 0, &session), MICA_OK);
        witness_fail(f.device, WITNESS_COPY, n);
        mica_status status = answer(session, &answers[3], prompt_of(3), ids[0], &count);
        failed = witness_has_failed(f.device, WITNESS_COPY);
        witness_fail(f.device, WITNESS_COPY, 0);
        assert_int_equal(status, failed ? MICA_EDEVICE : MICA_OK);
        assert_int_equal(answer(session, &answers[3], prompt_of(3), ids[1], &count), MICA_OK);
        assert_int_equal(count, TOKENS);
        mc_session_close(&session);
    }
    fixture_close(&f);
}

static void test_answers(void **state) {
    (void)state;
    check_answers("gemma3_text_f32", 0);
}

static void test_drafts(void **state) {
    (void)state;
    check_answers("gemma3_text_f32", 5);
}

static mica_status encode(void *context, size_t i, int32_t **ids, size_t *n) {
    (void)context;
    *ids = mc_alloc(PROMPT * sizeof **ids);
    if (!*ids) return mc_fail_nomem("a prompt");
    memcpy(*ids, prompt_of(i), PROMPT * sizeof **ids);
    *n = PROMPT;
    return MICA_OK;
}

/* Answers of all kinds are rows of one batch. */
static mica_batch_results *run_together(const model_fixture *f, bool far, mc_kv_pool *pool) {
    const mc_session_model model = {
        .lm = f->lm, .device = f->device, .far_memory = far, .pool = pool};
    mica_batch_item items[ANSWERS];
    mica_batch_results *results;
    for (size_t i = 0; i < ANSWERS; i++)
        items[i] = (mica_batch_item){.options = &answers[i]};
    const mc_batch_task task = {&model, items, ANSWERS, encode, NULL, NULL};
    if (mc_batch_generate(&task, &(mica_batch_options){.parallel = 4}, &results) != MICA_OK)
        fail_msg("%s", mica_last_error());
    return results;
}

static void test_rows_of_a_batch(void **state) {
    (void)state;
    for (int pooled = 0; pooled < 2; pooled++) {
        model_fixture f;
        mc_kv_pool *pool = NULL;
        mica_batch_results *got[2];
        fixture_open("gemma3_text_f32", &f);
        const mc_kv_pool_options options = {.bytes = 8u << 20};
        if (pooled) assert_int_equal(mc_kv_pool_open(f.lm, f.device, &options, &pool), MICA_OK);
        for (int far = 0; far < 2; far++)
            got[far] = run_together(&f, far, pool);
        for (size_t i = 0; i < ANSWERS; i++) {
            for (int far = 0; far < 2; far++)
                if (got[far]->rows[i].status != MICA_OK) fail_msg("%s", got[far]->rows[i].error);
            assert_int_equal(got[0]->rows[i].count, TOKENS);
            assert_int_equal(got[1]->rows[i].count, TOKENS);
            assert_memory_equal(got[0]->rows[i].ids, got[1]->rows[i].ids, TOKENS * sizeof(int32_t));
        }
        for (int far = 0; far < 2; far++)
            mica_batch_free(&got[far]);
        mc_kv_pool_close(&pool);
        fixture_close(&f);
    }
}

/* A fork draws from the row that its source has, which goes on meanwhile. */
static void test_forks(void **state) {
    (void)state;
    model_fixture f;
    mc_session *session, *fork;
    const float *none;
    float *row;
    fixture_open("gemma3_text_f32", &f);
    const size_t bytes = (size_t)f.lm->spec.vocab * sizeof(float);
    mc_session_model model = {.lm = f.lm, .device = f.device};
    const mc_kv_pool_options options = {.bytes = 8u << 20};
    assert_int_equal(mc_kv_pool_open(f.lm, f.device, &options, &model.pool), MICA_OK);
    assert_int_equal(mc_session_open(&model, 0, &session), MICA_OK);
    session->largest = true;
    assert_int_equal(mc_session_feed(session, prompt_of(0), PROMPT, &none), MICA_OK);
    assert_null(none);
    assert_int_equal(mc_session_fork(session, &fork), MICA_OK);
    const mc_largest want = *mc_session_largest(session);
    assert_int_equal(mc_session_read_row(session, &row), MICA_OK);
    float *first = malloc(bytes);
    assert_non_null(first);
    memcpy(first, row, bytes);
    assert_int_equal(mc_session_feed(session, prompt_of(1), 1, &none), MICA_OK);
    assert_memory_equal(mc_session_largest(fork), &want, sizeof want);
    assert_int_equal(mc_session_read_row(fork, &row), MICA_OK);
    assert_memory_equal(row, first, bytes);
    mc_session_reset(fork);
    assert_int_equal(mc_session_read_row(fork, &row), MICA_EINVAL); /* it is gone */
    free(first);
    mc_session_close(&fork);
    mc_session_close(&session);
    mc_kv_pool_close(&model.pool);
    fixture_close(&f);
}

/* Nobody asks for the largest of so few. */
static void test_small_vocabularies(void **state) {
    (void)state;
    static mc_lm lm;
    const mc_session_model model = {.lm = &lm};
    for (int more = 0; more < 2; more++) {
        lm.spec.vocab = MC_LARGEST + more;
        const mc_session session = {.model = &model, .largest = true};
        assert_int_equal(mc_session_wants_largest(&session), more);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_found),           cmocka_unit_test(test_totals_keep_small_terms),
        cmocka_unit_test(test_draws),           cmocka_unit_test(test_doubtful_totals),
        cmocka_unit_test(test_broken_rows),     cmocka_unit_test(test_what_wants_rows),
        cmocka_unit_test(test_answers),         cmocka_unit_test(test_drafts),
        cmocka_unit_test(test_rows_of_a_batch), cmocka_unit_test(test_forks),
        cmocka_unit_test(test_failed_copies),   cmocka_unit_test(test_small_vocabularies),
    };
    return cmocka_run_group_tests_name("session/largest", tests, open_rows, NULL);
}
