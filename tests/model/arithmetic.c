/* Fast arithmetic compared with exact: how much the default model's predictions differ on the text
 * of its golden conversations. */
#include "model/fixture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_TOKENS 1024
#define FAST MICA_ARITHMETIC_FAST
#define EXACT MICA_ARITHMETIC_EXACT

static mica_device *device;
static mc_lm *lm;

static int open_default(void **state) {
    (void)state;
    char *path = test_format("%s/default", test_models_dir());
    mica_status status = test_device_open(&(mica_device_options){.threads = 2}, &device);
    if (status == MICA_OK) status = mc_lm_open(path, device, NULL, &lm);
    if (status != MICA_OK) fprintf(stderr, "%s\n", mica_last_error());
    free(path);
    return status != MICA_OK;
}

static int close_default(void **state) {
    (void)state;
    mc_lm_close(&lm);
    mica_device_close(&device);
    return 0;
}

/* As wide models have it. */
static void set_one_code(void) {
    mc_lm_slot *w;
    for (size_t i = 0; (w = mc_lm_next_matrix(lm, &i));)
        w->linear.fast = w->linear.fast != 0;
    lm->head.fast = 1;
}

/* ids [len] -> logits [len, vocab]; freed with free(). */
static float *run(mica_arithmetic arithmetic, bool one_code, mica_cache_type cache,
                  const int32_t *ids, int64_t len) {
    const int64_t shape[] = {1, len};
    size_t bytes = (size_t)(len * lm->spec.vocab) * sizeof(float);
    float *logits = malloc(bytes);
    mica_scope *s;
    assert_non_null(logits);
    assert_int_equal(mica_scope_open(device, &s), MICA_OK);
    mc_lm_set_arithmetic(lm, arithmetic);
    if (one_code) set_one_code();
    mc_lm_set_cache(lm, cache);
    mica_array y = mc_lm_forward(s, lm, mica_from_data(s, ids, MICA_I32, shape, 2), mica_i32(s, 0),
                                 NULL, MC_ALL_LOGITS);
    if (mica_eval(s, y) != MICA_OK || mica_read(y, logits, bytes) != MICA_OK)
        fail_msg("%s", mica_last_error());
    mica_scope_close(&s);
    return logits;
}

static size_t top_of(const float *x, size_t n) {
    size_t top = 0;
    for (size_t i = 1; i < n; i++)
        if (x[i] > x[top]) top = i;
    return top;
}

/* log sum exp(x) */
static double log_total(const float *x, size_t n) {
    double max = (double)x[top_of(x, n)], total = 0;
    for (size_t i = 0; i < n; i++)
        total += exp((double)x[i] - max);
    return max + log(total);
}

/* sum p log(p / q) of the softmax of p and q */
static double divergence(const float *p, const float *q, size_t n) {
    double total_p = log_total(p, n), total_q = log_total(q, n), sum = 0;
    for (size_t i = 0; i < n; i++) {
        double log_p = (double)p[i] - total_p, log_q = (double)q[i] - total_q;
        sum += exp(log_p) * (log_p - log_q);
    }
    return sum;
}

static int64_t add_ids(mc_json list, int32_t *ids, int64_t count) {
    for (mc_json_iter it = mc_json_begin(list); mc_json_next(&it);) {
        int64_t id;
        assert_true(mc_json_get_int(it.value, &id) && count < MAX_TOKENS);
        ids[count++] = (int32_t)id;
    }
    return count;
}

/* A variant compared with exact arithmetic and keys and values in f32. */
typedef struct setting {
    const char *name;
    mica_arithmetic arithmetic;
    bool one_code;
    mica_cache_type cache;
    double bound;      /* limit of the mean divergence */
    double total, max; /* divergence */
    size_t same;       /* tokens with the same likeliest next token */
} setting;

static void compare(setting *w, const float *exact, const int32_t *ids, int64_t len) {
    size_t vocab = (size_t)lm->spec.vocab;
    float *logits = run(w->arithmetic, w->one_code, w->cache, ids, len);
    bool differs = memcmp(exact, logits, vocab * (size_t)len * sizeof *exact) != 0;
    assert_true(differs || test_device_is_other()); /* which may compute in f32 all the same */
    for (size_t i = 0; i < (size_t)len; i++) {
        const float *p = exact + i * vocab, *q = logits + i * vocab;
        double d = divergence(p, q, vocab);
        w->total += d;
        if (d > w->max) w->max = d;
        if (top_of(p, vocab) == top_of(q, vocab)) w->same++;
    }
    free(logits);
}

static void test_divergence(void **state) {
    (void)state;
    mc_json_doc *doc;
    setting settings[] = {{"one code", FAST, true, MICA_CACHE_DEFAULT, 1e-3, 0, 0, 0},
                          {"one, f32", FAST, true, MICA_CACHE_F32, 1e-3, 0, 0, 0},
                          {"one, int8", FAST, true, MICA_CACHE_INT8, 1e-3, 0, 0, 0},
                          {"two codes", FAST, false, MICA_CACHE_DEFAULT, 1e-5, 0, 0, 0},
                          {"two, f32", FAST, false, MICA_CACHE_F32, 1e-6, 0, 0, 0},
                          {"exact, bf16", EXACT, false, MICA_CACHE_BF16, 1e-5, 0, 0, 0},
                          {"exact, f16", EXACT, false, MICA_CACHE_F16, 1e-6, 0, 0, 0},
                          {"exact, int8", EXACT, false, MICA_CACHE_INT8, 1e-4, 0, 0, 0}};
    size_t rows = 0, n_settings = sizeof settings / sizeof *settings;
    char *path = test_format("%s/default/golden.json", test_models_dir());
    doc = test_load_json(path);
    for (mc_json_iter it = mc_json_begin(mc_json_root(doc)); mc_json_next(&it);) {
        int32_t ids[MAX_TOKENS];
        int64_t len = add_ids(mc_json_find(it.value, "prompt_ids"), ids, 0);
        len = add_ids(mc_json_find(it.value, "greedy_ids"), ids, len);
        float *exact = run(EXACT, false, MICA_CACHE_DEFAULT, ids, len);
        for (size_t w = 0; w < n_settings; w++)
            compare(&settings[w], exact, ids, len);
        rows += (size_t)len;
        free(exact);
        if (!test_device_keeps_order()) break; /* MLX takes its time */
    }
    mc_json_close(&doc);
    free(path);
    assert_true(rows > 0);
    for (size_t i = 0; i < n_settings; i++) {
        const setting *w = &settings[i];
        double mean = w->total / (double)rows, same = (double)w->same / (double)rows;
        printf("%-12s %zu tokens: mean divergence %.6f, most %.6f, %.2f %% the same first token\n",
               w->name, rows, mean, w->max, 100 * same);
        bool other = w->arithmetic == FAST && test_device_is_other(); /* rounds in another way */
        assert_true(mean < (other ? 1e-3 : w->bound));
        assert_true(same > 0.99);
    }
}

static void check_rows(bool one_code, mica_cache_type cache) {
    enum { MOST = 40 };
    int32_t ids[MOST];
    size_t vocab = (size_t)lm->spec.vocab;
    int64_t all = test_device_rounds_prompts() ? 31 : MOST; /* attention, from 32 queries on */
    for (int i = 0; i < MOST; i++)
        ids[i] = 2 + 37 * i;
    float *whole = run(FAST, one_code, cache, ids, all);
    for (int64_t len = 1; len < all; len += len < 10 ? 1 : 7) {
        float *part = run(FAST, one_code, cache, ids, len);
        assert_memory_equal(part, whole, (size_t)len * vocab * sizeof *part);
        free(part);
    }
    free(whole);
}

/* The bits of a row do not depend on the number of rows, nor on the threads. */
static void test_rows(void **state) {
    (void)state;
    if (!test_device_keeps_order()) skip(); /* its rows differ in their last bits */
    check_rows(false, MICA_CACHE_DEFAULT);
    check_rows(true, MICA_CACHE_DEFAULT);
    check_rows(true, MICA_CACHE_INT8);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_divergence),
        cmocka_unit_test(test_rows),
    };
    return cmocka_run_group_tests(tests, open_default, close_default);
}
