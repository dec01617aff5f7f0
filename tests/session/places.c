/* Models of which the device has some layers and the processor the others: the logits of those that
 * the device has whole, in sessions of their own and on a pool, whatever the number of layers. */
#include "model/fixture.h"
#include "support/witness.h"

#include "device/device.h"
#include "session/session.h"

#include <stdlib.h>
#include <string.h>

enum { IDS = 11, LONG = 300, STEPS = 3, POOL_BYTES = 1 << 23 };

static mica_device *device;

static void must(mica_status status) {
    if (status != MICA_OK) fail_msg("%s", mica_last_error());
}

static int open_device(void **state) {
    (void)state;
    const char *name = getenv("MICA_TEST_DEVICE");
    const mica_device_options options = {.threads = 1};
    if (name && name[0] != '\0') return mica_device_open(name, &options, &device) != MICA_OK;
    return mc_device_open_backend(&witness_backend, "fused", &options, &device) != MICA_OK;
}

static int close_device(void **state) {
    (void)state;
    mica_device_close(&device);
    return 0;
}

/* Where a session's keys and values lie, or what else it carries. */
static void check_places(const mc_lm *lm, const mc_session *session) {
    for (int i = 0; i < session->cache.plan.n; i++) {
        const mc_state *state = session->cache.states[i];
        mica_array *refs[64];
        size_t n =
            state->kind->arrays ? state->kind->arrays((mc_state *)(uintptr_t)state, NULL) : 0;
        if (n == 0 || n > 64) continue;
        n = state->kind->arrays((mc_state *)(uintptr_t)state, refs);
        for (size_t k = 0; k < n; k++) {
            const mc_node *node = mc_node_of(*refs[k]);
            assert_int_equal(node->storage->fallback, mc_lm_layer_falls_back(lm, state->layer));
        }
    }
}

/* Logits after a text of n tokens, of which the last STEPS are fed alone: [STEPS, vocab]. */
static void feed(const mc_session_model *shared, const int32_t *ids, int64_t n, float *logits) {
    mc_session *session, *copy = NULL;
    const float *last = NULL;
    size_t vocab = (size_t)shared->lm->spec.vocab;
    must(mc_session_open(shared, 64, &session));
    for (int64_t at = 0, step; at < n - STEPS; at += step) {
        step = n - STEPS - at < 64 ? n - STEPS - at : 64;
        must(mc_session_feed(session, ids + at, step, NULL));
    }
    must(mc_session_fork(session, &copy));
    mc_session_close(&session);
    for (int64_t i = 0; i < STEPS; i++) {
        must(mc_session_feed(copy, ids + n - STEPS + i, 1, &last));
        assert_non_null(last);
        memcpy(logits + (size_t)i * vocab, last, vocab * sizeof *last);
    }
    check_places(shared->lm, copy);
    mc_session_close(&copy);
}

/* Opens the model with so many layers on the device, or, with 99, all, and feeds it. */
static void compute(const model_fixture *f, int layers, bool pooled, const int32_t *ids, int64_t n,
                    float *logits) {
    const mc_lm_places places = {.layers = layers, .element_bytes = 4};
    mc_lm *lm;
    must(mc_lm_open_placed(f->path, device, NULL, layers == 99 ? NULL : &places, &lm));
    assert_int_equal(lm->far_layers,
                     layers == 99 ? 0 : lm->spec.n_layers - (layers < 0 ? 0 : layers));
    mc_session_model shared = {.lm = lm, .device = device, .far_memory = true};
    const mc_kv_pool_options options = {.bytes = POOL_BYTES, .sessions = 2};
    if (pooled) must(mc_kv_pool_open(lm, device, &options, &shared.pool));
    feed(&shared, ids, n, logits);
    mc_kv_pool_close(&shared.pool);
    mc_lm_close(&lm);
}

static void check_model(const model_fixture *f, int64_t n) {
    const mc_decoder_spec *spec = &f->lm->spec;
    int32_t ids[LONG];
    size_t count = (size_t)STEPS * (size_t)spec->vocab;
    const int numbers[] = {-1, 1, spec->n_layers - 1};
    if (spec->both_ways || spec->context < n) return;
    float *want = malloc(count * sizeof *want), *got = malloc(count * sizeof *got);
    assert_true(want && got);
    for (int i = 0; i < n; i++)
        ids[i] = (int32_t)((i * 7 + 3) % spec->vocab);
    compute(f, 99, false, ids, n, want);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (i > 0 && (numbers[i] <= 0 || numbers[i] >= spec->n_layers)) continue;
        for (int pooled = 0; pooled < 2; pooled++) {
            compute(f, numbers[i], pooled, ids, n, got);
            fixture_compare(got, want, count, f->tolerance, "%s with %d layers on the device%s",
                            f->name, numbers[i], pooled ? ", on a pool" : "");
        }
    }
    free(want);
    free(got);
}

static void check_short(const model_fixture *f) {
    check_model(f, IDS);
}

static void test_every_family(void **state) {
    (void)state;
    fixture_each(check_short);
}

/* Buffers grow, windows slide, and what is moved stays where it is. */
static void test_long_texts(void **state) {
    (void)state;
    static const char *const names[] = {"gemma3_text_f32", "qwen3_tied"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        model_fixture f;
        fixture_open(names[i], &f);
        check_model(&f, LONG);
        fixture_close(&f);
    }
}

/* A device whose memory is limited gets as many layers as fit, and fewer the less there is; where
 * layers have experts, first these are left out alone. What cannot fit the device tells. */
static void check_fitting(const char *name, bool experts) {
    model_fixture f;
    fixture_open(name, &f);
    const mc_decoder_spec *spec = &f.lm->spec;
    size_t count = (size_t)STEPS * (size_t)spec->vocab;
    float *want = malloc(count * sizeof *want), *got = malloc(count * sizeof *got);
    int32_t ids[IDS];
    int least = 0;
    bool alone = false;
    assert_true(want && got);
    for (int i = 0; i < IDS; i++)
        ids[i] = (int32_t)((i * 7 + 3) % spec->vocab);
    compute(&f, 99, false, ids, IDS, want);
    for (uint64_t eighths = 16; eighths > 0; eighths--) {
        const mc_lm_places places = {.tokens = 1, .element_bytes = 4};
        mc_lm *lm;
        uint64_t limit = mica_device_active_bytes(device) + f.lm->weight_bytes * eighths / 8;
        uint64_t old = mica_device_set_memory_limit(device, limit);
        mica_status status = mc_lm_open_placed(f.path, device, NULL, &places, &lm);
        (void)mica_device_set_memory_limit(device, old);
        assert_true(status == MICA_OK || status == MICA_ENOMEM);
        if (status != MICA_OK) break;
        if (eighths == 16) assert_int_equal(lm->far_layers, 0);
        assert_true(lm->far_layers >= least || !lm->far_kind);
        least = lm->far_layers;
        alone = alone || (lm->far_layers && lm->far_kind);
        const mc_session_model shared = {.lm = lm, .device = device, .far_memory = true};
        feed(&shared, ids, IDS, got);
        fixture_compare(got, want, count, f.tolerance, "%s with %d layers apart", name, least);
        mc_lm_close(&lm);
    }
    assert_true(least > 0);
    assert_int_equal(alone, experts);
    free(want);
    free(got);
    fixture_close(&f);
}

static void test_as_many_as_fit(void **state) {
    (void)state;
    check_fitting("qwen3_tied", false);
    check_fitting("../families/qwen3_moe_q4", true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_family),
        cmocka_unit_test(test_long_texts),
        cmocka_unit_test(test_as_many_as_fit),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
