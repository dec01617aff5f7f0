/* longrope on both sides of the context before it was stretched, compared with whole texts as
 * transformers computes them: whole, cached, and on a pool. */
#include "model/fixture.h"

#include "base/integer.h"
#include "session/prefix.h"
#include "session/session.h"

#include <stdlib.h>
#include <string.h>

#define TOLERANCE 1e-3 /* as that of the model's golden */

static mica_device *device;
static char *folder;
static mc_lm *usual, *stretched;
static model_fixture f; /* of the goldens; without a model */

static mc_lm *open_model(void) {
    mc_lm *lm;
    if (mc_lm_open(folder, device, NULL, &lm) != MICA_OK) fail_msg("%s", mica_last_error());
    return lm;
}

static int open_all(void **state) {
    (void)state;
    char *path = test_format("%s/longrope.safetensors", test_cases_dir());
    char *model = test_format("%s/families/phi3_longrope_hf", test_cases_dir());
    folder = fixture_copy_folder(model, "config.json", "\"original_max_position_embeddings\": 4096",
                                 "\"original_max_position_embeddings\": 32");
    if (test_device_open(NULL, &device)) fail_msg("%s", mica_last_error());
    usual = open_model();
    stretched = open_model();
    assert_int_equal(usual->spec.context, 32);
    assert_int_equal(stretched->spec.long_context, 131072);
    assert_int_equal(mc_lm_stretch(stretched), MICA_OK);
    assert_int_equal(stretched->spec.context, 131072);
    if (mc_weights_open(path, NULL, &f.tensors) != MICA_OK) fail_msg("%s", mica_last_error());
    f.name = "longrope";
    free(model);
    free(path);
    return 0;
}

static int close_all(void **state) {
    (void)state;
    mc_weights_close(&f.tensors);
    mc_lm_close(&usual);
    mc_lm_close(&stretched);
    mica_device_close(&device);
    test_temp_dir_remove(folder);
    return 0;
}

/* The golden's rows are the last ones. */
static void check_whole(const char *name, const mc_lm *lm) {
    size_t n;
    const int64_t *shape;
    const int32_t *ids = fixture_ints(&f, &n, "%s.ids", name);
    const float *want = fixture_floats(&f, &shape, "%s.logits", name);
    float *got = fixture_logits(device, lm, ids, n);
    size_t skipped = (n - (size_t)shape[0]) * (size_t)shape[1];
    fixture_compare(got + skipped, want, (size_t)(shape[0] * shape[1]), TOLERANCE, "%s", name);
    free(got);
}

static void test_whole(void **state) {
    (void)state;
    check_whole("short", usual);
    check_whole("border", usual);
    check_whole("long", stretched);
    check_whole("longer", stretched);
}

static int32_t best_of(const float *logits, int64_t vocab) {
    int64_t best = 0;
    for (int64_t i = 1; i < vocab; i++)
        if (logits[i] > logits[best]) best = i;
    return (int32_t)best;
}

static const float *feed(mc_session *session, const int32_t *ids, int64_t n) {
    const float *logits = NULL;
    for (int64_t at = 0; at < n; at += session->chunk)
        if (mc_session_feed(session, ids + at, mc_min(session->chunk, n - at), &logits) != MICA_OK)
            fail_msg("%s", mica_last_error());
    return logits;
}

/* The last logits of a text whose parts are computed one after the other, and a greedy answer. */
static void check_cached(const char *name, const mc_session_model *model, int64_t chunk) {
    size_t n, steps = 0;
    const int64_t *shape;
    mc_session *session;
    const int32_t *ids = fixture_ints(&f, &n, "%s.ids", name);
    const int32_t *answer = fixture_ints(&f, &steps, "%s.greedy", name);
    const float *want = fixture_floats(&f, &shape, "%s.logits", name);
    if (mc_session_open(model, chunk, &session) != MICA_OK) fail_msg("%s", mica_last_error());
    const float *logits = feed(session, ids, (int64_t)n);
    fixture_compare(logits, want + (shape[0] - 1) * shape[1], (size_t)shape[1], TOLERANCE,
                    "%s, cached", name);
    for (size_t i = 0; i < steps; i++) {
        int32_t token = best_of(logits, shape[1]);
        assert_int_equal(token, answer[i]);
        if (i + 1 < steps) logits = feed(session, &token, 1);
    }
    mc_session_close(&session);
}

/* Texts that begin below the border and end above it, too. */
static void check_all_cached(mc_session_model models[2]) {
    for (int64_t chunk = 1; chunk <= 512; chunk *= 8) {
        check_cached("short", &models[0], chunk);
        check_cached("border", &models[0], chunk);
        check_cached("long", &models[1], chunk);
        check_cached("longer", &models[1], chunk);
    }
}

static void test_cached(void **state) {
    (void)state;
    mc_session_model models[2] = {{.lm = usual, .device = device},
                                  {.lm = stretched, .device = device}};
    check_all_cached(models);
}

/* Prefixes that a session leaves are another's: "long" and "longer" begin alike. */
static void test_pool(void **state) {
    (void)state;
    mc_session_model models[2] = {{.lm = usual, .device = device},
                                  {.lm = stretched, .device = device}};
    for (int i = 0; i < 2; i++) {
        const mc_kv_pool_options options = {
            .bytes = UINT64_C(1) << 22, .block = 32, .keep = mc_prefix_available()};
        assert_int_equal(mc_kv_pool_open(models[i].lm, device, &options, &models[i].pool), MICA_OK);
    }
    check_all_cached(models);
    for (int i = 0; i < 2; i++)
        mc_kv_pool_close(&models[i].pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole),
        cmocka_unit_test(test_cached),
        cmocka_unit_test(test_pool),
    };
    return cmocka_run_group_tests_name("session/longrope", tests, open_all, close_all);
}
