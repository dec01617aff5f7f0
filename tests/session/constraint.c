/* Streams under a constraint: what they draw, where they end, and that they fail closed. The
 * constraints of real grammars are tested in tests/grammar. */
#include "model/fixture.h"

#include "base/alloc.h"
#include "session/stream.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static model_fixture fixture; /* gemma3_text_f32: vocabulary 558 */
static const int32_t *prompt; /* prompt1, 7 tokens */
static const int32_t *golden; /* its 24 greedy tokens */

static int open_fixture(void **state) {
    size_t n, steps;
    (void)state;
    fixture_open("gemma3_text_f32", &fixture);
    prompt = fixture_ints(&fixture, &n, "prompt1.ids");
    golden = fixture_ints(&fixture, &steps, "prompt1.greedy");
    return !(prompt && golden && n == 7 && steps == 24);
}

static int close_fixture(void **state) {
    (void)state;
    fixture_close(&fixture);
    return 0;
}

/* ---- a constraint: ids whose remainder by `divisor` is that of the position ---- */

static int open_count; /* constraints that are open */

typedef struct toy {
    mc_constraint constraint;
    int32_t divisor;
    size_t below; /* and only ids below it; 0: all */
    int at;       /* tokens accepted */
    int end_at;   /* the answer may end after so many; at last_at it must */
    int last_at;  /* no token is allowed after so many */
    int fail_at;  /* mask fails after so many; -1: never */
    bool all;     /* every token may come, until last_at */
} toy;

static bool toy_allows(const toy *t, size_t id) {
    return (int32_t)id % t->divisor == t->at % t->divisor && (!t->below || id < t->below);
}

static mica_status toy_mask(mc_constraint *constraint, mc_token_mask *mask) {
    toy *t = (toy *)constraint;
    if (t->at == t->fail_at) return mc_fail(MICA_EFORMAT, "the toy is broken");
    memset(mask->allowed, 0, (mask->vocab + 31) / 32 * 4);
    for (size_t id = 0; id < mask->vocab && t->at < t->last_at; id++)
        if (toy_allows(t, id)) mask->allowed[id / 32] |= 1u << id % 32;
    mask->all = t->all && t->at < t->last_at;
    mask->may_end = t->at >= t->end_at;
    return MICA_OK;
}

static mica_status toy_accept(mc_constraint *constraint, int32_t id) {
    toy *t = (toy *)constraint;
    if (!t->all && !toy_allows(t, (size_t)id)) return mc_fail(MICA_EINVAL, "%d is not allowed", id);
    t->at++;
    return MICA_OK;
}

static void toy_close(mc_constraint *constraint) {
    free(constraint);
    open_count--;
}

static mc_constraint *toy_open(toy values) {
    static const mc_constraint_ops ops = {toy_mask, toy_accept, toy_close};
    toy *t = malloc(sizeof *t);
    assert_non_null(t);
    *t = values;
    t->constraint.ops = &ops;
    open_count++;
    return &t->constraint;
}

/* Never ends, never fails. */
static const toy endless = {.divisor = 5, .end_at = 1000, .last_at = 1000, .fail_at = -1};

/* ---- answers ---- */

static mc_session *open_session(const int32_t *stops, size_t count) {
    static mc_session_model shared; /* one session at a time */
    mc_session *session;
    shared = (mc_session_model){.lm = fixture.lm, .device = fixture.device};
    shared.stop_ids = stops;
    shared.stop_count = count;
    if (mc_session_open(&shared, 0, &session) != MICA_OK) fail_msg("%s", mica_last_error());
    return session;
}

typedef struct answer {
    int32_t ids[64];
    float logprobs[64];
    size_t n;
    mica_finish finish;
    mica_status status;
    mica_metrics metrics;
} answer;

/* The whole answer of a new session; t NULL: free. worker: computes masks ahead; NULL: none. */
static answer answer_with(const toy *t, const int32_t *stops, size_t n_stops,
                          mica_generate_options options, mc_mask_worker *worker) {
    answer a = {0};
    mica_token token;
    mc_stream *stream;
    mc_session *session = open_session(stops, n_stops);
    assert_int_equal(mc_stream_open(session, prompt, 7, &options, &stream), MICA_OK);
    if (t) assert_int_equal(mc_stream_constrain(stream, toy_open(*t), worker), MICA_OK);
    for (;; a.n++) {
        mc_stream_mask_ahead(stream);
        if (!mc_stream_next(stream, &token)) break;
        assert_true(a.n < 64);
        a.ids[a.n] = token.id;
        a.logprobs[a.n] = token.logprob;
    }
    a.finish = mc_stream_finish(stream);
    a.status = mc_stream_status(stream);
    a.metrics = mc_stream_metrics(stream);
    mc_stream_close(&stream);
    mc_session_close(&session);
    assert_int_equal(open_count, 0);
    return a;
}

/* The same, which must not depend on who computes the masks. */
static answer answer_of(const toy *t, const int32_t *stops, size_t n_stops,
                        mica_generate_options options) {
    mc_mask_worker *worker;
    assert_int_equal(mc_mask_worker_open(&worker), MICA_OK);
    answer ahead = answer_with(t, stops, n_stops, options, worker);
    mc_mask_worker_close(&worker);
    answer a = answer_with(t, stops, n_stops, options, NULL);
    assert_int_equal(ahead.n, a.n);
    assert_memory_equal(ahead.ids, a.ids, sizeof a.ids);
    assert_memory_equal(ahead.logprobs, a.logprobs, sizeof a.logprobs);
    assert_int_equal(ahead.finish, a.finish);
    assert_int_equal(ahead.status, a.status);
    return a;
}

/* ---- tests ---- */

/* The first token is the likeliest of the allowed ones, by the log-probabilities of the free
 * answer; these do not change. */
static void test_greedy(void **state) {
    (void)state;
    const mica_alternative *alternatives;
    mica_token token;
    mc_stream *stream;
    mc_session *session = open_session(NULL, 0);
    const mica_generate_options every = {.max_tokens = 1, .top_logprobs = 558};
    assert_int_equal(mc_stream_open(session, prompt, 7, &every, &stream), MICA_OK);
    assert_true(mc_stream_next(stream, &token));
    alternatives = token.alternatives;
    for (int32_t divisor = 2; divisor < 558; divisor *= 3) {
        toy t = endless;
        size_t best = 0;
        t.divisor = divisor;
        while (alternatives[best].id % divisor)
            best++;
        answer a = answer_of(&t, NULL, 0, (mica_generate_options){.max_tokens = 1});
        assert_int_equal(a.ids[0], alternatives[best].id);
        a = answer_of(&t, NULL, 0, (mica_generate_options){.max_tokens = 1, .logprobs = true});
        assert_int_equal(a.ids[0], alternatives[best].id);
        assert_true(fabsf(a.logprobs[0] - alternatives[best].logprob) < 1e-6f);
    }
    mc_stream_close(&stream);
    mc_session_close(&session);
}

/* A constraint that allows all is none. */
static void test_all(void **state) {
    (void)state;
    toy t = endless;
    t.divisor = 1;
    for (int all = 0; all < 2; all++) {
        t.all = all;
        answer a = answer_of(&t, NULL, 0, (mica_generate_options){.max_tokens = 24});
        assert_int_equal(a.n, 24);
        assert_memory_equal(a.ids, golden, 24 * sizeof *golden);
    }
}

static void test_sampled(void **state) {
    (void)state;
    int differ = 0;
    for (uint64_t seed = 0; seed < 8; seed++) {
        const mica_generate_options options = {.max_tokens = 20,
                                               .temperature = 3.0f,
                                               .seed = seed,
                                               .penalty_window = 8,
                                               .presence_penalty = 0.5f};
        answer a = answer_of(&endless, NULL, 0, options),
               free_one = answer_of(NULL, NULL, 0, options);
        assert_int_equal(a.n, 20);
        assert_int_equal(a.finish, MICA_FINISH_LENGTH);
        for (size_t i = 0; i < a.n; i++)
            assert_int_equal(a.ids[i] % 5, i % 5);
        differ += memcmp(a.ids, free_one.ids, sizeof a.ids) != 0;
    }
    assert_int_equal(differ, 8);
}

/* Drafts change nothing. */
static void test_drafts(void **state) {
    (void)state;
    toy t = endless;
    t.divisor = 4;
    t.below = 12; /* so texts repeat, and drafts are right */
    for (int sampled = 0; sampled < 2; sampled++) {
        mica_generate_options options = {.max_tokens = 40, .temperature = 0.2f * (float)sampled};
        answer plain = answer_of(&t, NULL, 0, options);
        options.draft_tokens = 4;
        answer drafted = answer_of(&t, NULL, 0, options);
        assert_int_equal(drafted.n, 40);
        assert_true(drafted.metrics.accepted_tokens > 0);
        assert_memory_equal(drafted.ids, plain.ids, sizeof plain.ids);
    }
}

/* A stop id ends the answer only where the constraint lets it end: of the model's and the
 * caller's. */
static void test_stops(void **state) {
    (void)state;
    toy t = endless;
    int32_t stops[558];
    for (int32_t i = 0; i < 558; i++)
        stops[i] = i;
    t.divisor = 2;
    /* Every odd token is a stop id: the second one must come, so the answer cannot go on. */
    int32_t odd[279];
    for (int32_t i = 0; i < 279; i++)
        odd[i] = 2 * i + 1;
    for (int own = 0; own < 2; own++) {
        mica_generate_options options = {.max_tokens = 9, .temperature = 2.0f};
        if (own) {
            options.stop_ids = odd;
            options.stop_count = 279;
        }
        answer a = answer_of(&t, own ? NULL : odd, own ? 0 : 279, options);
        assert_int_equal(a.n, 1);
        assert_int_equal(a.finish, MICA_FINISH_ERROR);
        assert_int_equal(a.status, MICA_EINVAL);
    }
    /* With stop ids in either class the answer goes on until it may end, and then ends soon. */
    t = endless;
    t.divisor = 1;
    t.end_at = 6;
    answer a =
        answer_of(&t, stops, 540, (mica_generate_options){.max_tokens = 60, .temperature = 9});
    assert_true(a.n >= 6 && a.n < 12);
    assert_int_equal(a.finish, MICA_FINISH_STOP);
    for (size_t i = 0; i < a.n; i++)
        assert_true(a.ids[i] >= 540);
    /* min_tokens puts that off. */
    a = answer_of(&t, stops, 540,
                  (mica_generate_options){.max_tokens = 60, .min_tokens = 30, .temperature = 9});
    assert_true(a.n >= 30 && a.n < 36);
}

/* Where nothing may come but the end, the answer ends: without a stop id, and below min_tokens. */
static void test_complete(void **state) {
    (void)state;
    toy t = endless;
    t.end_at = t.last_at = 3;
    for (int early = 0; early < 2; early++)
        for (int all = 0; all < 2; all++) {
            t.all = all;
            answer a = answer_of(
                &t, NULL, 0, (mica_generate_options){.max_tokens = 9, .min_tokens = early ? 5 : 0});
            assert_int_equal(a.n, 3);
            assert_int_equal(a.finish, MICA_FINISH_STOP);
            assert_int_equal(a.status, MICA_OK);
        }
}

static void test_fails_closed(void **state) {
    (void)state;
    toy t = endless;
    t.last_at = 4; /* nothing may come, and no end */
    answer a = answer_of(&t, golden, 1, (mica_generate_options){.max_tokens = 9});
    assert_int_equal(a.n, 4);
    assert_int_equal(a.finish, MICA_FINISH_ERROR);
    assert_int_equal(a.status, MICA_EINVAL);
    assert_non_null(strstr(mica_last_error(), "allows no token"));
    t = endless;
    t.fail_at = 2;
    a = answer_of(&t, NULL, 0, (mica_generate_options){.max_tokens = 9});
    assert_int_equal(a.n, 2);
    assert_int_equal(a.status, MICA_EFORMAT);
    assert_non_null(strstr(mica_last_error(), "the toy is broken"));
}

static void test_taken_over(void **state) {
    (void)state;
    mica_token token;
    mc_stream *stream;
    mc_session *session = open_session(NULL, 0);
    assert_int_equal(mc_stream_open(session, prompt, 7, NULL, &stream), MICA_OK);
    mc_alloc_fail_at(1);
    assert_int_equal(mc_stream_constrain(stream, toy_open(endless), NULL), MICA_ENOMEM);
    mc_alloc_fail_at(0);
    assert_int_equal(mc_stream_constrain(stream, toy_open(endless), NULL), MICA_OK);
    assert_int_equal(open_count, 1);
    assert_int_equal(mc_stream_constrain(stream, toy_open(endless), NULL), MICA_EINVAL);
    assert_true(mc_stream_next(stream, &token));
    assert_int_equal(mc_stream_constrain(stream, toy_open(endless), NULL), MICA_EINVAL);
    assert_int_equal(open_count, 1);
    mc_stream_close(&stream);
    assert_int_equal(open_count, 0);
    mc_session_close(&session);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_greedy),       cmocka_unit_test(test_all),
        cmocka_unit_test(test_sampled),      cmocka_unit_test(test_drafts),
        cmocka_unit_test(test_stops),        cmocka_unit_test(test_complete),
        cmocka_unit_test(test_fails_closed), cmocka_unit_test(test_taken_over),
    };
    return cmocka_run_group_tests(tests, open_fixture, close_fixture);
}
