/* Cached decoding compared with goldens. */
#include "model/fixture.h"
#include "support/info.h"

#include "base/integer.h"
#include "session/session.h"

static mc_session *open_session(const mc_session_model *shared, int64_t chunk) {
    mc_session *session;
    if (mc_session_open(shared, chunk, &session) != MICA_OK) fail_msg("%s", mica_last_error());
    return session;
}

/* Feeds a text in chunks. */
static const float *feed(mc_session *session, const int32_t *ids, int64_t n) {
    const float *logits = NULL;
    for (int64_t at = 0; at < n; at += session->chunk)
        if (mc_session_feed(session, ids + at, mc_min(session->chunk, n - at), &logits) != MICA_OK)
            fail_msg("%s", mica_last_error());
    return logits;
}

static int32_t best_of(const float *logits, int64_t vocab) {
    int64_t best = 0;
    for (int64_t i = 1; i < vocab; i++)
        if (logits[i] > logits[best]) best = i;
    return (int32_t)best;
}

static void check_greedy(const model_fixture *f, int prompt, int64_t chunk) {
    size_t n, steps;
    int64_t vocab = f->lm->spec.vocab;
    const int32_t *ids = fixture_ints(f, &n, "prompt%d.ids", prompt);
    const int32_t *want = fixture_ints(f, &steps, "prompt%d.greedy", prompt);
    if (!ids || !want) return;
    const float *rows = fixture_floats(f, NULL, "prompt%d.greedy_logits", prompt);
    const mc_session_model shared = {.lm = f->lm, .device = f->device};
    mc_session *session = open_session(&shared, chunk);
    const float *logits = feed(session, ids, (int64_t)n);
    for (size_t i = 0; i < steps; i++) {
        if (rows)
            fixture_compare(logits, rows + i * (size_t)vocab, (size_t)vocab, f->tolerance,
                            "%s: prompt%d, cached step %zu", f->name, prompt, i);
        int32_t token = best_of(logits, vocab);
        if (token != want[i])
            fail_msg("%s: prompt%d: greedy token %zu is %d, want %d", f->name, prompt, i,
                     (int)token, (int)want[i]);
        if (i + 1 < steps) logits = feed(session, &token, 1);
    }
    mc_session_close(&session);
}

/* Whole, and in chunks that end within windows, convolutions and chunks of recurrences. */
static void check_greedy_paths(const model_fixture *f) {
    for (int i = 0; i < 16; i++)
        check_greedy(f, i, 0);
    check_greedy(f, 3, 9);
    assert_non_null(fixture_floats(f, NULL, "prompt3.greedy_logits"));
}

static void test_greedy_paths(void **state) {
    (void)state;
    fixture_each(check_greedy_paths);
}

/* What `mica show --fit` adds up is what a session of each family holds, beside its logits; where
 * layers carry states also what these are kept as to go back to. */
static void check_bytes(const model_fixture *f) {
    size_t n;
    if (strncmp(test_device_info(f->device).name, "mlx", 3) == 0) return; /* counts all it has */
    const int32_t *ids = fixture_ints(f, &n, "prompt3.ids");
    const mc_session_model shared = {.lm = f->lm, .device = f->device};
    uint64_t before = mica_device_active_bytes(f->device);
    mc_session *session = open_session(&shared, 0);
    feed(session, ids, (int64_t)n);
    uint64_t held = mica_device_active_bytes(f->device) - before;
    uint64_t want = mc_session_bytes(&shared, (int64_t)n);
    uint64_t logits = 2 * (uint64_t)f->lm->spec.vocab * sizeof(float) + 2048;
    bool carries = false;
    for (int i = 0; i < f->lm->spec.n_layers; i++)
        carries = carries || mc_spec_carrier(&f->lm->spec, i);
    if (held > want + logits || want > held * (carries ? 3 : 1))
        fail_msg("%s: a session holds %llu bytes, estimated are %llu", f->name,
                 (unsigned long long)held, (unsigned long long)want);
    mc_session_close(&session);
}

static void test_bytes(void **state) {
    (void)state;
    fixture_each(check_bytes);
}

static void check_adapted_path(const model_fixture *f) {
    assert_non_null(fixture_ints(f, NULL, "prompt1.greedy"));
    check_greedy(f, 1, 0);
}

static void test_adapters(void **state) {
    (void)state;
    fixture_each_adapter(check_adapted_path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_greedy_paths),
        cmocka_unit_test(test_adapters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
