/* Models of which the device has some layers and the processor the others: the logits of those that
 * the device has whole, in sessions of their own and on a pool, whatever the number of layers. */
#define _POSIX_C_SOURCE 200809L
#include "model/fixture.h"
#include "support/witness.h"

#include "cost/rates.h"
#include "device/device.h"
#include "session/session.h"

#include <math.h>
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

/* ---- plans ---- */

static mica_device *fallback_of(void) {
    mica_device *fallback;
    must(mc_device_fallback(device, &fallback));
    return fallback;
}

/* A device whose memory is limited gets what fits, and less the less there is; where layers have
 * experts, first these are left out alone, then whole layers beside them. What cannot fit the
 * device tells. */
static void check_fitting(const char *name, bool experts) {
    model_fixture f;
    fixture_open(name, &f);
    const mc_decoder_spec *spec = &f.lm->spec;
    size_t count = (size_t)STEPS * (size_t)spec->vocab;
    float *want = malloc(count * sizeof *want), *got = malloc(count * sizeof *got);
    int32_t ids[IDS];
    bool whole = false, alone = false, both = false;
    assert_true(want && got);
    for (int i = 0; i < IDS; i++)
        ids[i] = (int32_t)((i * 7 + 3) % spec->vocab);
    compute(&f, 99, false, ids, IDS, want);
    for (uint64_t sixteenths = 32; sixteenths > 0; sixteenths--) {
        const mc_lm_places places = {.tokens = 1, .element_bytes = 4};
        mc_lm *lm;
        uint64_t limit = mica_device_active_bytes(device) + f.lm->weight_bytes * sixteenths / 16;
        uint64_t old = mica_device_set_memory_limit(device, limit);
        mica_status status = mc_lm_open_placed(f.path, device, NULL, &places, &lm);
        (void)mica_device_set_memory_limit(device, old);
        assert_true(status == MICA_OK || status == MICA_ENOMEM);
        if (status != MICA_OK) break;
        if (sixteenths == 32) assert_true(lm->far_layers == 0 && lm->far_experts == 0);
        assert_false(lm->far_measured);
        whole = whole || (lm->far_layers && lm->far_experts <= lm->far_layers);
        alone = alone || (!lm->far_layers && lm->far_experts);
        both = both || (lm->far_layers && lm->far_experts > lm->far_layers);
        const mc_session_model shared = {.lm = lm, .device = device, .far_memory = true};
        feed(&shared, ids, IDS, got);
        fixture_compare(got, want, count, f.tolerance, "%s with %d layers and %d experts apart",
                        name, lm->far_layers, lm->far_experts);
        mc_lm_close(&lm);
    }
    assert_true(whole || both);
    assert_int_equal(alone, experts);
    assert_int_equal(both, experts);
    free(want);
    free(got);
    fixture_close(&f);
}

static void test_as_many_as_fit(void **state) {
    (void)state;
    setenv("MICA_CALIBRATION", "off", 1); /* the CPU reads as little as can be */
    check_fitting("qwen3_tied", false);
    check_fitting("../families/qwen3_moe_q4", true);
    check_fitting("../families/gpt_oss_mxfp4_q8", true);
    unsetenv("MICA_CALIBRATION");
}

enum { KINDS = 3, MOST_LAYERS = 8 };

static const mc_rate products[KINDS] = {MC_RATE_MATVEC_F32, MC_RATE_MATVEC_BF16, MC_RATE_MATVEC_Q4};

/* What a layer has, or its experts have: bytes, and those that a token reads, by kinds. */
typedef struct need {
    double bytes, read[KINDS];
} need;

static void add_need(need *n, const mc_weight_tensor *t, double part) {
    int kind = t->dtype == MICA_F32 ? 0 : mica_dtype_bytes(t->dtype) == 2 ? 1 : 2;
    n->bytes += (double)t->bytes;
    n->read[kind] += part * (double)t->bytes;
}

/* By the names that the files have: experts are what stands in the MLP of a layer that has some,
 * and the norm before it. The last layer is what lies in none. */
static void read_needs(const mc_lm *lm, double picked, need *all, need *experts) {
    bool has[MOST_LAYERS + 1] = {false};
    for (int twice = 0; twice < 2; twice++) {
        for (size_t i = 0; i < mc_weights_count(lm->weights); i++) {
            const mc_weight_tensor *t = mc_weights_at(lm->weights, i);
            const char *at = strstr(t->name, "layers."), *mlp = at ? strstr(at, ".mlp.") : NULL;
            int layer = at ? atoi(at + strlen("layers.")) : lm->spec.n_layers;
            bool expert = mlp && (!strncmp(mlp, ".mlp.experts.", 13) || strstr(mlp, "switch_mlp"));
            if (!twice) {
                has[layer] = has[layer] || expert;
                continue;
            }
            add_need(&all[layer], t, expert ? picked : 1);
            if (has[layer] && (mlp || strstr(t->name, ".post_attention_layernorm.")))
                add_need(&experts[layer], t, expert ? picked : 1);
        }
    }
}

static mc_rates given; /* as measured; they are kept nowhere */
static mica_status give_rates(mica_device *of, mc_rates *rates, mc_quiet *quiet) {
    (void)of;
    *rates = given;
    quiet->starved = true;
    return MICA_OK;
}

/* A number between 1 and 10^digits. */
static double draw(uint32_t *seed, double digits) {
    *seed = *seed * 1664525u + 1013904223u;
    return pow(10, digits * (double)(*seed >> 8) / (double)(1 << 24));
}

static mc_rates draw_rates(uint32_t *seed) {
    mc_rates r;
    for (int i = 0; i < MC_RATE_COUNT; i++)
        r.of[i] = 1e9 * draw(seed, 2);
    r.of[MC_RATE_MEMORY_LARGE] = 1e10 * draw(seed, 2);
    r.of[MC_RATE_ROUNDTRIP] = 1e-9 * draw(seed, 6);
    return r;
}

static double seconds_of(const need *n, const mc_rates *r) {
    double seconds = 0;
    for (int k = 0; k < KINDS; k++)
        seconds += n->read[k] / fmin(r->of[products[k]], r->of[MC_RATE_MEMORY_LARGE]);
    return seconds;
}

/* The time of a token with the first layers, and the experts of those before another, by the
 * fallback; *bytes: what lies with the device. */
static double token_seconds(const need *all, const need *experts, int n, int far, int far_experts,
                            const mc_rates *near, const mc_rates *fallback, double hidden,
                            double *bytes) {
    double seconds = seconds_of(&all[n], near), crossings = far > 0;
    *bytes = all[n].bytes;
    for (int i = 0; i < n; i++) {
        bool whole = i < far, part = !whole && i < far_experts && experts[i].bytes > 0;
        seconds += seconds_of(&all[i], whole ? fallback : near);
        if (part) seconds += seconds_of(&experts[i], fallback) - seconds_of(&experts[i], near);
        *bytes += whole ? 0 : all[i].bytes - (part ? experts[i].bytes : 0);
        crossings += part;
    }
    return seconds +
           crossings * (near->of[MC_RATE_ROUNDTRIP] + 4 * hidden / near->of[MC_RATE_UPLOAD] +
                        4 * hidden / near->of[MC_RATE_DOWNLOAD]);
}

static bool ignore_none(const mc_decoder_spec *spec, const char *name) {
    (void)spec, (void)name;
    return false;
}

/* Of all plans that fit none takes less time, whatever the rates; some are of each kind. */
static void check_plans(const char *name, bool has_experts) {
    model_fixture f;
    fixture_open(name, &f);
    const mc_decoder_spec *spec = &f.lm->spec;
    const mica_model_info info = mc_lm_describe(f.lm);
    need all[MOST_LAYERS + 1] = {{0}}, experts[MOST_LAYERS + 1] = {{0}};
    int n = spec->n_layers, kinds[3] = {0};
    uint32_t seed = 7;
    assert_in_range(n, 1, MOST_LAYERS);
    read_needs(f.lm, has_experts ? (double)info.experts_per_token / (double)info.experts : 1, all,
               experts);
    for (int trial = 0; trial < 400; trial++) {
        const mc_lm_places places = {.element_bytes = 0};
        const mc_rates near = draw_rates(&seed), far = draw_rates(&seed);
        mc_lm plan = {.spec = *spec};
        given = near;
        must(mc_calibrate_device(device, MC_CALIBRATION_KEPT, true, give_rates));
        given = far;
        must(mc_calibrate_device(fallback_of(), MC_CALIBRATION_KEPT, true, give_rates));
        uint64_t room = f.lm->weight_bytes * (uint64_t)(trial % 16 + 1) / 16;
        uint64_t old =
            mica_device_set_memory_limit(device, mica_device_active_bytes(device) + room);
        must(mc_lm_place(&plan, f.lm->weights, device, &places, ignore_none));
        (void)mica_device_set_memory_limit(device, old);
        double least = INFINITY, bytes, hidden = (double)spec->hidden;
        double usable = (double)(room - room / 8), whole;
        (void)token_seconds(all, experts, n, 0, 0, &near, &far, hidden, &whole);
        for (int a = 0; a <= n; a++)
            for (int b = a; b <= n; b++) {
                double seconds = token_seconds(all, experts, n, a, b, &near, &far, hidden, &bytes);
                if (bytes <= usable && seconds < least) least = seconds;
            }
        double taken = token_seconds(all, experts, n, plan.far_layers, plan.far_experts, &near,
                                     &far, hidden, &bytes);
        bool none = !plan.far_layers && !plan.far_experts;
        assert_true(none == (whole <= usable || isinf(least)));
        if (none) continue;
        assert_true(plan.far_measured);
        if (bytes > usable || taken > least * (1 + 1e-9))
            fail_msg("%s, trial %d: %d layers and %d experts take %g s and %.0f of %.0f bytes; "
                     "%g s are possible",
                     name, trial, plan.far_layers, plan.far_experts, taken, bytes, usable, least);
        kinds[plan.far_experts <= plan.far_layers ? 0 : plan.far_layers ? 1 : 2]++;
    }
    assert_true(kinds[0] > 0);
    if (has_experts) assert_true(kinds[1] > 0 && kinds[2] > 0);
    fixture_close(&f);
}

static void test_plans_are_the_fastest(void **state) {
    (void)state;
    check_plans("qwen3_tied", false);
    check_plans("../families/qwen3_moe_q4", true);
    check_plans("../families/gpt_oss_mxfp4_q8", true);
    check_plans("../families/gpt_oss_hf_mxfp4", true);
    check_plans("../families/glm4_moe_lite_hf", true); /* experts of tensors of their own; MLA */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_family),
        cmocka_unit_test(test_long_texts),
        cmocka_unit_test(test_as_many_as_fit),
        cmocka_unit_test(test_plans_are_the_fastest),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
