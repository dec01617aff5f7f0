/* The sampler chain against goldens, and its draws. The chain is the host's; on other devices the
 * goldens' logits are what a program of the device gives. */
#include "support/support.h"

#include "base/json.h"
#include "io/safetensors.h"
#include "session/sampler.h"

#include <mica/ops.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- goldens ---- */

static float param(mc_json params, const char *key, float fallback) {
    double value = (double)fallback;
    mc_json_get_float(mc_json_find(params, key), &value);
    return (float)value;
}

static mc_sampling sampling_of(mc_json params) {
    return (mc_sampling){
        .temperature = param(params, "temperature", 1.0f),
        .top_k = (int)param(params, "top_k", 0.0f),
        .top_p = param(params, "top_p", 0.0f),
        .min_p = param(params, "min_p", 0.0f),
        .repetition_penalty = param(params, "repetition_penalty", 0.0f),
        .penalty_window = (int)param(params, "repetition_context_size", 0.0f),
    };
}

static size_t read_tokens(mc_json list, int32_t *tokens, size_t room) {
    size_t n = 0;
    int64_t value;
    for (mc_json_iter it = mc_json_begin(list); mc_json_next(&it); n++) {
        assert_true(n < room && mc_json_get_int(it.value, &value));
        tokens[n] = (int32_t)value;
    }
    return n;
}

static size_t find_token(const int32_t *tokens, size_t n, mc_json id, size_t number) {
    int64_t value;
    size_t i = 0;
    assert_true(mc_json_get_int(id, &value));
    while (i < n && tokens[i] != value)
        i++;
    if (i == n) fail_msg("case %zu: %lld did not survive", number, (long long)value);
    return i;
}

/* Checks the probabilities; probs_of names their tokens if a golden does not list all. */
static void check_survivors(mc_json golden, size_t number, const int32_t *survivors,
                            const double *probs, size_t count) {
    mc_json listed = mc_json_find(golden, "survivors"), of = mc_json_find(golden, "probs_of");
    if (count != mc_json_count(listed))
        fail_msg("case %zu: %zu survivors, want %zu", number, count, mc_json_count(listed));
    for (mc_json_iter it = mc_json_begin(listed); mc_json_next(&it);)
        find_token(survivors, count, it.value, number);

    mc_json_iter id = mc_json_begin(mc_json_exists(of) ? of : listed);
    for (mc_json_iter it = mc_json_begin(mc_json_find(golden, "probs")); mc_json_next(&it);) {
        double want = 0;
        assert_true(mc_json_next(&id) && mc_json_get_float(it.value, &want));
        size_t i = find_token(survivors, count, id.value, number);
        if (fabs(probs[i] - want) > 1e-5)
            fail_msg("case %zu: %d has %g, want %g", number, (int)survivors[i], probs[i], want);
    }
}

/* The logits from a device that has computed them, which changes no bit: -(-x). */
static float *compute_logits(mica_device *device, const mc_weight_tensor *t) {
    mica_scope *s;
    float *row = malloc(t->bytes);
    assert_non_null(row);
    assert_int_equal(mica_scope_open(device, &s), MICA_OK);
    mica_array x = mica_from_data(s, t->data, MICA_F32, t->shape, t->ndim);
    mica_array y = mica_negative(s, mica_negative(s, x));
    if (mica_read(y, row, t->bytes) != MICA_OK) fail_msg("%s", mica_last_error());
    mica_scope_close(&s);
    return row;
}

static void check_case(mica_device *device, mc_json golden, size_t number,
                       const mc_weights *logits) {
    mc_json params = mc_json_find(golden, "params");
    mc_sampling sampling = sampling_of(params);
    mc_sampler sampler;
    mc_str name;
    char text[64];
    int32_t tokens[512];
    const int32_t *survivors;
    const double *probs;
    size_t count, n = read_tokens(mc_json_find(params, "tokens"), tokens, 512);
    assert_true(mc_json_get_str(mc_json_find(golden, "logits"), &name));
    snprintf(text, sizeof text, "%.*s", MC_STR_ARG(name));
    const mc_weight_tensor *t = mc_weights_find(logits, text);
    assert_non_null(t);
    float *row = compute_logits(device, t);
    mc_sampler_init(&sampler, &sampling);
    assert_int_equal(
        mc_sampler_survivors(&sampler, row, t->shape[0], tokens, n, &survivors, &probs, &count),
        MICA_OK);
    check_survivors(golden, number, survivors, probs, count);
    assert_memory_equal(row, t->data, t->bytes); /* bias and penalties are undone */
    mc_sampler_deinit(&sampler);
    free(row);
}

static void test_goldens(void **state) {
    (void)state;
    mc_json_doc *doc;
    mc_weights *logits;
    mica_device *device;
    size_t number = 0;
    char *json = test_format("%s/sampling/sampling.json", test_fixtures_dir());
    char *tensors = test_format("%s/sampling/logits.safetensors", test_fixtures_dir());
    doc = test_load_json(json);
    assert_int_equal(test_device_open(NULL, &device), MICA_OK);
    assert_int_equal(mc_weights_open(tensors, NULL, &logits), MICA_OK);
    for (mc_json_iter it = mc_json_begin(mc_json_find(mc_json_root(doc), "cases"));
         mc_json_next(&it);)
        check_case(device, it.value, number++, logits);
    printf("sampling: %zu checked\n", number);
    assert_true(number > 0);
    mica_device_close(&device);
    mc_weights_close(&logits);
    mc_json_close(&doc);
    free(json);
    free(tensors);
}

/* ---- large vocabularies, compared with a plain sort ---- */

enum { LARGE = 70001 };
static float large[LARGE];
static int32_t sorted[LARGE];

static int by_likelihood(const void *a, const void *b) {
    int32_t i = *(const int32_t *)a, j = *(const int32_t *)b;
    if (large[i] != large[j]) return large[i] > large[j] ? -1 : 1;
    return i < j ? -1 : 1;
}

/* How many of the sorted tokens survive, by the definitions. */
static size_t count_survivors(const mc_sampling *sampling) {
    double total = 0.0, sum = 0.0;
    size_t n = 0;
    for (int i = 0; i < LARGE; i++)
        total += exp((double)large[i] - (double)large[sorted[0]]);
    while (n < LARGE && large[sorted[n]] > -INFINITY &&
           (sampling->top_p == 0 || sum < (double)sampling->top_p * total) &&
           (!sampling->top_k || n < (size_t)sampling->top_k)) {
        double weight = exp((double)large[sorted[n]] - (double)large[sorted[0]]);
        if (weight < (double)sampling->min_p) break;
        sum += weight;
        n++;
    }
    return n;
}

static void check_large(mc_sampling sampling) {
    mc_sampler sampler;
    const int32_t *survivors;
    const double *probs;
    size_t count, want = count_survivors(&sampling);
    if (sampling.temperature == 0) sampling.temperature = 0.8f;
    mc_sampler_init(&sampler, &sampling);
    assert_int_equal(
        mc_sampler_survivors(&sampler, large, LARGE, NULL, 0, &survivors, &probs, &count), MICA_OK);
    assert_int_equal(count, want);
    if (sampling.top_p > 0 || sampling.top_k > 0)
        assert_memory_equal(survivors, sorted, count * sizeof *survivors);
    mc_sampler_deinit(&sampler);
}

/* Logits with a spread, and steps so coarse that many are equal. */
static void test_large_vocabularies(void **state) {
    (void)state;
    for (int spread = 1; spread <= 100; spread *= 10) {
        uint32_t random = 1;
        for (int i = 0; i < LARGE; i++) {
            random = random * 1664525u + 1013904223u;
            large[i] = (float)(random >> 20) / 4096.0f * (float)spread;
            sorted[i] = i;
        }
        qsort(sorted, LARGE, sizeof *sorted, by_likelihood);
        check_large((mc_sampling){.top_k = 40});
        check_large((mc_sampling){.top_k = 30000});
        check_large((mc_sampling){.top_p = 0.3f});
        check_large((mc_sampling){.top_p = 0.95f});
        check_large((mc_sampling){.min_p = 0.07f});
        check_large((mc_sampling){.top_p = 0.9f, .min_p = 0.3f, .top_k = 5000});
        for (int k = 1; k < 270; k += 3) { /* few survivors: the nucleus is found by bounds */
            check_large((mc_sampling){.top_p = 0.9f, .top_k = k});
            check_large((mc_sampling){.top_p = 0.002f * (float)k, .top_k = 270});
            check_large((mc_sampling){.top_p = 0.5f, .min_p = 0.9f, .top_k = k});
        }
    }
}

/* ---- draws, compared with the definition ---- */

/* Draw n of a seed, as sampler.h defines it. */
static double fraction(uint64_t seed, uint64_t n) {
    uint64_t z = seed;
    for (uint64_t i = 0; i <= n; i++)
        z += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (double)((z ^ (z >> 31)) >> 11) / 9007199254740992.0;
}

/* The survivors in the order of drawing: likeliest first if any cut counts tokens, else by ids. */
static size_t list_survivors(const mc_sampling *sampling, int32_t *list) {
    size_t n = count_survivors(sampling), kept = 0;
    if (sampling->top_p > 0 || sampling->top_k > 0) {
        memcpy(list, sorted, n * sizeof *list);
        return n;
    }
    static bool survives[LARGE];
    memset(survives, 0, sizeof survives);
    for (size_t i = 0; i < n; i++)
        survives[sorted[i]] = true;
    for (int32_t id = 0; id < LARGE; id++)
        if (survives[id]) list[kept++] = id;
    return n;
}

static void check_draws(mc_sampling sampling) {
    enum { DRAWS = 3 };
    static int32_t list[LARGE];
    static double weights[LARGE];
    size_t n = list_survivors(&sampling, list);
    double total = 0.0;
    for (size_t i = 0; i < n; i++) {
        double above = (double)large[list[i]] - (double)large[sorted[0]];
        weights[i] = exp(above / (double)sampling.temperature);
        total += weights[i];
    }
    mc_sampler sampler;
    mc_sampler_init(&sampler, &sampling);
    for (uint64_t draws = 0; draws < DRAWS; draws++) {
        double rest = fraction(sampling.seed, draws) * total;
        int32_t token;
        size_t i = 0;
        while (i + 1 < n && rest >= weights[i])
            rest -= weights[i++];
        assert_int_equal(mc_sampler_draw(&sampler, large, LARGE, NULL, 0, &token), MICA_OK);
        if (token != list[i])
            fail_msg("draw %d: token %d, want %d", (int)draws, (int)token, (int)list[i]);
    }
    mc_sampler_deinit(&sampler);
}

/* Makes a row of a kind: flat; wide, with a few tokens far above; in steps; all equal; close
 * together and far from zero; half of it -infinity. */
enum { KINDS = 7 };
static float logit_of_kind(int kind, int i, uint32_t random) {
    float x = (float)(random >> 8) * 0x1p-24f, bell = x * x * x - (float)(random & 255) / 256.0f;
    switch (kind) {
    case 0:
        return 4.0f * bell;
    case 1:
        return 60.0f * bell;
    case 2:
        return i % 1777 ? 4.0f * bell : 14.0f + x;
    case 3:
        return floorf(8.0f * bell);
    case 4:
        return -3.25f;
    case 5:
        return 1000.0f + 0.01f * x;
    default:
        return i % 2 ? -INFINITY : 3.0f * bell;
    }
}

static void test_large_draws(void **state) {
    (void)state;
    static const mc_sampling settings[] = {
        {.temperature = 0.8f},
        {.temperature = 1.7f, .min_p = 0.05f},
        {.temperature = 1.0f, .top_k = 40},
        {.temperature = 1.0f, .top_k = 9999},
        {.temperature = 0.7f, .top_p = 0.3f},
        {.temperature = 1.2f, .top_p = 0.95f},
        {.temperature = 30.0f, .top_p = 0.9999f},
        {.temperature = 0.9f, .top_p = 0.95f, .min_p = 0.01f},
        {.temperature = 0.9f, .top_p = 0.9f, .min_p = 0.3f, .top_k = 5000},
        {.temperature = 0.9f, .top_p = 0.99f, .top_k = 273},
    };
    uint32_t random = 1;
    for (int kind = 0; kind < KINDS; kind++) {
        for (int i = 0; i < LARGE; i++) {
            random = random * 1664525u + 1013904223u;
            large[i] = logit_of_kind(kind, i, random);
            sorted[i] = i;
        }
        qsort(sorted, LARGE, sizeof *sorted, by_likelihood);
        for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
            mc_sampling sampling = settings[i];
            sampling.seed = (uint64_t)kind * 100 + i;
            check_large(sampling);
            check_draws(sampling);
        }
    }
}

/* ---- draws ---- */

static int32_t draw(const mc_sampling *sampling, float *logits, int64_t vocab, uint64_t n) {
    mc_sampler sampler;
    int32_t token = -1;
    mc_sampler_init(&sampler, sampling);
    sampler.draws = n;
    assert_int_equal(mc_sampler_draw(&sampler, logits, vocab, NULL, 0, &token), MICA_OK);
    assert_int_equal(sampler.draws, n + 1);
    mc_sampler_deinit(&sampler);
    return token;
}

/* In 20,000 draws tokens are as frequent as their probabilities, within five standard
 * deviations. */
static void test_frequencies(void **state) {
    (void)state;
    enum { N = 20000 };
    static const double probs[] = {0.5, 0.3, 0.15, 0.05};
    const mc_sampling sampling = {.temperature = 1.0f, .seed = 7};
    float logits[4];
    int seen[4] = {0};
    for (int i = 0; i < 4; i++)
        logits[i] = (float)log(probs[i]) + 3.0f;
    for (uint64_t n = 0; n < N; n++)
        seen[draw(&sampling, logits, 4, n)]++;
    for (int i = 0; i < 4; i++) {
        double deviation = sqrt(N * probs[i] * (1.0 - probs[i]));
        assert_true(fabs(seen[i] - N * probs[i]) < 5.0 * deviation);
    }
}

static void test_seeds(void **state) {
    (void)state;
    float logits[50] = {0};
    int differ = 0;
    for (uint64_t n = 0; n < 50; n++) {
        const mc_sampling a = {.temperature = 1.0f, .seed = 1},
                          b = {.temperature = 1.0f, .seed = 2};
        assert_int_equal(draw(&a, logits, 50, n), draw(&a, logits, 50, n));
        differ += draw(&a, logits, 50, n) != draw(&b, logits, 50, n);
    }
    assert_true(differ > 30);
}

static void test_greedy_takes_the_first_of_equals(void **state) {
    (void)state;
    float logits[] = {1.0f, 4.0f, -INFINITY, 4.0f};
    const mc_sampling sampling = {0};
    assert_int_equal(draw(&sampling, logits, 4, 0), 1);
}

static void test_cut_logits_are_never_drawn(void **state) {
    (void)state;
    float logits[] = {-INFINITY, 0.0f, -INFINITY, -200.0f};
    const mc_sampling sampling = {.temperature = 2.0f, .seed = 3};
    for (uint64_t n = 0; n < 200; n++)
        assert_int_equal(draw(&sampling, logits, 4, n), 1);
}

/* ---- bias, penalties, bans ---- */

/* Greedy sampling takes the largest edited logit. The wanted tokens are computed by hand from the
 * formula in sampler.h. */
static void test_changed_logits(void **state) {
    (void)state;
    static const mica_logit_bias up[] = {{2, 2.5f}, {2, 2.5f}}, never[] = {{1, -INFINITY}};
    const int32_t history[] = {3, 0, 1, 1, 1, 0, 77, -4};
    float logits[] = {3.0f, 4.0f, -0.5f, 3.9f};
    const struct {
        mc_sampling sampling;
        int32_t banned, want;
        size_t prompt; /* tokens of the history before the answer's */
    } rows[] = {
        {{.temperature = 0.0f}, -1, 1, 0},
        {{.temperature = 0.0f}, 1, 3, 0},
        {{.bias = up, .bias_count = 2}, -1, 2, 0}, /* -0.5 + 5 */
        {{.bias = never, .bias_count = 1}, -1, 3, 0},
        {{.repetition_penalty = 1.5f}, -1, 1, 0}, /* 2, 2.67, -0.5, 2.6 */
        {{.presence_penalty = 5.0f}, -1, 2, 0},   /* -2, -1, -0.5, -1.1 */
        /* the 3 is outside the window */
        {{.presence_penalty = 5.0f, .penalty_window = 7}, -1, 3, 0},
        {{.frequency_penalty = 0.4f}, -1, 3, 0},                       /* 2.2, 2.8, -0.5, 3.5 */
        {{.frequency_penalty = -1.0f, .penalty_window = 6}, -1, 1, 0}, /* 5, 7 */
        {{.frequency_penalty = -1.0f, .penalty_window = 3},
         -1,
         0,
         0}, /* 4 and 4: equals, the lower */
        {{.repetition_penalty = 0.5f, .penalty_window = 3}, -1, 0, 0}, /* 6 */
        /* the answer has 1, 0 and no token of the vocabulary; or nothing of it is in the window */
        {{.presence_penalty = 5.0f}, -1, 3, 4},   /* -2, -1, -0.5, 3.9 */
        {{.frequency_penalty = 0.4f}, -1, 3, 3},  /* 2.6, 3.2, -0.5, 3.9 */
        {{.frequency_penalty = 0.05f}, -1, 1, 4}, /* 2.95, 3.95, -0.5, 3.9 */
        {{.presence_penalty = 5.0f, .frequency_penalty = 5.0f}, -1, 1, 8},
        {{.repetition_penalty = 1.5f}, -1, 1, 8}, /* the prompt's too: 2, 2.67, -0.5, 2.6 */
        {{.presence_penalty = 5.0f, .penalty_window = 2}, -1, 1, 5},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        mc_sampler sampler;
        int32_t token;
        float before[4];
        memcpy(before, logits, sizeof logits);
        mc_sampler_init(&sampler, &rows[i].sampling);
        sampler.banned = &rows[i].banned;
        sampler.banned_count = 1;
        sampler.generated = 8 - rows[i].prompt;
        for (int again = 0; again < 2; again++) {
            assert_int_equal(mc_sampler_draw(&sampler, logits, 4, history, 8, &token), MICA_OK);
            if (token != rows[i].want) fail_msg("row %zu: %d", i, (int)token);
            assert_memory_equal(logits, before, sizeof logits);
        }
        mc_sampler_deinit(&sampler);
    }
}

/* ---- tokens that a constraint allows ---- */

/* The reference: the others have logits of -infinity. `every`: one token in so many is allowed, or
 * not allowed, as `most` says. */
static void check_allowed(const mc_sampling *sampling, int every, bool most) {
    static uint32_t allowed[(LARGE + 31) / 32];
    static float kept[LARGE];
    static int32_t want[LARGE];
    mc_sampler sampler, reference;
    const int32_t *survivors, history[] = {0, 5, 5, 64};
    const double *probs;
    int32_t token, expected;
    size_t n, count;
    memset(allowed, 0, sizeof allowed);
    for (int i = 0; i < LARGE; i++) {
        bool may = (i % every == 0) != most;
        allowed[i / 32] |= (uint32_t)may << i % 32;
        kept[i] = may ? large[i] : -INFINITY;
    }
    mc_sampler_init(&sampler, sampling);
    mc_sampler_init(&reference, sampling);
    sampler.allowed = allowed;
    assert_int_equal(
        mc_sampler_survivors(&reference, kept, LARGE, history, 4, &survivors, &probs, &n), MICA_OK);
    memcpy(want, survivors, n * sizeof *want);
    assert_int_equal(
        mc_sampler_survivors(&sampler, large, LARGE, history, 4, &survivors, &probs, &count),
        MICA_OK);
    assert_int_equal(count, n);
    assert_memory_equal(survivors, want, n * sizeof *want);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(mc_sampler_draw(&reference, kept, LARGE, history, 4, &expected), MICA_OK);
        assert_int_equal(mc_sampler_draw(&sampler, large, LARGE, history, 4, &token), MICA_OK);
        assert_int_equal(token, expected);
    }
    mc_sampler_deinit(&sampler);
    mc_sampler_deinit(&reference);
}

static void test_allowed(void **state) {
    (void)state;
    static const mica_logit_bias bias[] = {{64, 30.0f}};
    static const mc_sampling settings[] = {
        {.temperature = 0.0f},
        {.temperature = 0.8f, .seed = 5},
        {.temperature = 1.0f, .top_k = 40},
        {.temperature = 1.2f, .top_p = 0.95f},
        {.temperature = 0.9f, .top_p = 0.9f, .min_p = 0.1f, .top_k = 5000},
        {.temperature = 1.0f, .bias = bias, .bias_count = 1, .repetition_penalty = 1.3f},
    };
    uint32_t random = 1;
    for (int i = 0; i < LARGE; i++) {
        random = random * 1664525u + 1013904223u;
        large[i] = logit_of_kind(2, i, random);
    }
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        for (int every = 2; every < LARGE; every *= 8) {
            check_allowed(&settings[i], every, false);
            check_allowed(&settings[i], every, true);
        }
}

/* The row is as it was, the log-probabilities are those of the whole row, and a mask without a bit
 * of the vocabulary is an error. */
static void test_allowed_leaves_the_row(void **state) {
    (void)state;
    float logits[] = {1.0f, 4.0f, 2.0f, 3.0f, 0.0f}, before[5], logprob;
    uint32_t allowed = 1u << 2 | 1u << 4 | 1u << 5; /* no token 5 */
    const mica_alternative *alternatives;
    mc_sampler sampler;
    int32_t token;
    size_t count;
    memcpy(before, logits, sizeof logits);
    mc_sampler_init(&sampler, &(mc_sampling){0});
    sampler.allowed = &allowed;
    for (int all = 0; all < 2; all++, allowed = ~2u) { /* few allowed, few not allowed */
        assert_int_equal(mc_sampler_draw(&sampler, logits, 5, NULL, 0, &token), MICA_OK);
        assert_int_equal(token, all ? 3 : 2);
        assert_memory_equal(logits, before, sizeof logits);
        assert_int_equal(
            mc_sampler_logprobs(&sampler, logits, 5, token, 1, &logprob, &alternatives, &count),
            MICA_OK);
        assert_int_equal(alternatives[0].id, 1);
        assert_true(fabs(logprob - (before[token] - log(exp(1) + exp(4) + exp(2) + exp(3) + 1))) <
                    1e-6);
    }
    allowed = 1u << 5;
    assert_int_equal(mc_sampler_draw(&sampler, logits, 5, NULL, 0, &token), MICA_EINVAL);
    assert_non_null(strstr(mica_last_error(), "allows no token"));
    assert_memory_equal(logits, before, sizeof logits);
    mc_sampler_deinit(&sampler);
}

/* ---- log-probabilities ---- */

static void test_logprobs(void **state) {
    (void)state;
    mc_sampler sampler;
    float logprob;
    const mica_alternative *others;
    size_t count;
    double total = 0.0;
    for (int i = 0; i < LARGE; i++) {
        large[i] = (float)((i * 7919) % LARGE) / 5000.0f - (i % 3 ? 3.0f : 0.0f);
        sorted[i] = i;
        total += exp((double)large[i]);
    }
    large[17] = -INFINITY;
    qsort(sorted, LARGE, sizeof *sorted, by_likelihood);
    mc_sampler_init(&sampler, &(mc_sampling){.temperature = 3.0f, .top_k = 2});
    for (size_t max = 0; max < 40; max += 13) {
        assert_int_equal(
            mc_sampler_logprobs(&sampler, large, LARGE, 123, max, &logprob, &others, &count),
            MICA_OK);
        assert_true(fabs((double)logprob - ((double)large[123] - log(total))) < 1e-5);
        assert_int_equal(count, max);
        for (size_t i = 0; i < count; i++) {
            assert_int_equal(others[i].id, sorted[i]);
            double want = (double)large[sorted[i]] - log(total);
            assert_true(fabs((double)others[i].logprob - want) < 1e-5);
        }
    }
    assert_int_equal(
        mc_sampler_logprobs(&sampler, large, LARGE, 0, LARGE + 5, &logprob, &others, &count),
        MICA_OK);
    assert_int_equal(count, LARGE - 1);
    mc_sampler_deinit(&sampler);
}

/* ---- bad input ---- */

static void expect_refused(float *logits, int64_t vocab, const char *word) {
    mc_sampler sampler;
    int32_t token;
    for (int greedy = 0; greedy < 2; greedy++) {
        mc_sampler_init(&sampler, &(mc_sampling){.temperature = greedy ? 0.0f : 1.0f});
        assert_int_equal(mc_sampler_draw(&sampler, logits, vocab, NULL, 0, &token), MICA_EINVAL);
        assert_non_null(strstr(mica_last_error(), word));
        mc_sampler_deinit(&sampler);
    }
}

static void test_broken_logits(void **state) {
    (void)state;
    float nan[] = {1.0f, NAN, 2.0f}, nan_first[] = {NAN, 1.0f};
    float infinite[] = {1.0f, INFINITY}, nothing[] = {-INFINITY, -INFINITY};
    expect_refused(nan, 3, "not a number");
    expect_refused(nan_first, 2, "not a number");
    expect_refused(infinite, 2, "infinite");
    expect_refused(nothing, 2, "infinite");
}

static void expect_option(mica_generate_options options, const char *word) {
    mc_sampling sampling;
    assert_int_equal(mc_sampling_check(&options, 10, &sampling), MICA_EINVAL);
    assert_non_null(strstr(mica_last_error(), word));
}

static void test_options(void **state) {
    (void)state;
    mc_sampling sampling;
    expect_option((mica_generate_options){.temperature = -1.0f}, "temperature");
    expect_option((mica_generate_options){.temperature = NAN}, "temperature");
    expect_option((mica_generate_options){.temperature = INFINITY}, "temperature");
    expect_option((mica_generate_options){.top_k = -1}, "top_k");
    expect_option((mica_generate_options){.top_p = 1.5f}, "top_p");
    expect_option((mica_generate_options){.min_p = NAN}, "min_p");
    expect_option((mica_generate_options){.repetition_penalty = -2.0f}, "repetition_penalty");
    expect_option((mica_generate_options){.penalty_window = -2}, "penalty_window");
    expect_option((mica_generate_options){.presence_penalty = NAN}, "presence_penalty");
    expect_option((mica_generate_options){.frequency_penalty = -INFINITY}, "frequency_penalty");
    expect_option((mica_generate_options){.logit_bias_count = 1}, "logit_bias is NULL");
    for (int i = 0; i < 4; i++) {
        static const mica_logit_bias wrong[] = {{10, 1.0f}, {-1, 1.0f}, {3, NAN}, {3, INFINITY}};
        const mica_logit_bias both[] = {{9, -INFINITY}, wrong[i]};
        expect_option((mica_generate_options){.logit_bias = both, .logit_bias_count = 2},
                      "logit_bias[1]");
    }
    assert_int_equal(mc_sampling_check(&(mica_generate_options){0}, 10, &sampling), MICA_OK);
}

static bool draw_once(void *arg) {
    static const mica_logit_bias bias = {2, 1.0f};
    const float before[] = {1.0f, 2.0f, 3.0f};
    float logits[] = {1.0f, 2.0f, 3.0f}, logprob;
    const mica_alternative *others;
    size_t count;
    mc_sampler sampler;
    int32_t token, history = 1;
    (void)arg;
    mc_sampler_init(&sampler, &(mc_sampling){.temperature = 1.0f,
                                             .top_p = 0.9f,
                                             .repetition_penalty = 1.5f,
                                             .bias = &bias,
                                             .bias_count = 1});
    mica_status status = mc_sampler_draw(&sampler, logits, 3, &history, 1, &token);
    if (status == MICA_OK)
        status = mc_sampler_logprobs(&sampler, logits, 3, token, 2, &logprob, &others, &count);
    assert_memory_equal(logits, before, sizeof before);
    mc_sampler_deinit(&sampler);
    return status == MICA_OK;
}

static void test_no_memory(void **state) {
    (void)state;
    test_fail_each_allocation(draw_once, NULL);
}

int main(void) {
    const struct CMUnitTest goldens[] = {cmocka_unit_test(test_goldens)};
    if (test_device_is_other())
        return cmocka_run_group_tests_name("session/sampler", goldens, NULL, NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_goldens),
        cmocka_unit_test(test_large_vocabularies),
        cmocka_unit_test(test_large_draws),
        cmocka_unit_test(test_frequencies),
        cmocka_unit_test(test_seeds),
        cmocka_unit_test(test_greedy_takes_the_first_of_equals),
        cmocka_unit_test(test_cut_logits_are_never_drawn),
        cmocka_unit_test(test_changed_logits),
        cmocka_unit_test(test_allowed),
        cmocka_unit_test(test_allowed_leaves_the_row),
        cmocka_unit_test(test_logprobs),
        cmocka_unit_test(test_broken_logits),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests_name("session/sampler", tests, NULL, NULL);
}
