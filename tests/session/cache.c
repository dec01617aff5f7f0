/* Sliding contexts, compared with mlx-lm's caches, and with passes over only the tokens that each
 * token attends to. */
#include "model/fixture.h"

#include "session/session.h"

#include <stdlib.h>
#include <string.h>

static mc_session *open_session(const mc_session_model *shared, int64_t chunk) {
    mc_session *session;
    if (mc_session_open(shared, chunk, &session) != MICA_OK) fail_msg("%s", mica_last_error());
    return session;
}

static const float *feed(mc_session *session, const int32_t *ids, int64_t n) {
    const float *logits = NULL;
    for (int64_t at = 0, step; at < n; at += step) {
        step = n - at < session->chunk ? n - at : session->chunk;
        if (mc_session_feed(session, ids + at, step, &logits) != MICA_OK)
            fail_msg("%s", mica_last_error());
    }
    return logits;
}

/* ---- compared with mlx-lm ---- */

/* Answers past the context, prompts past it, and prompts so long that caches drop entries. */
static void check_golden(const model_fixture *f) {
    const mc_session_model shared = {.lm = f->lm, .device = f->device, .context = f->context};
    size_t vocab = (size_t)f->lm->spec.vocab, n, steps;
    int prompt = 0;
    for (const int32_t *ids; (ids = fixture_ints(f, &n, "prompt%d.ids", prompt)); prompt++) {
        const int32_t *want = fixture_ints(f, &steps, "prompt%d.greedy", prompt);
        const float *rows = fixture_floats(f, NULL, "prompt%d.greedy_logits", prompt);
        mc_session *session = open_session(&shared, 100);
        const float *logits = feed(session, ids, (int64_t)n);
        for (size_t i = 0; i < steps; i++) {
            fixture_compare(logits, rows + i * vocab, vocab, f->tolerance, "%s: prompt%d, step %zu",
                            f->name, prompt, i);
            logits = feed(session, &want[i], 1);
        }
        mc_session_close(&session);
    }
    assert_true(prompt >= 3);
}

static void test_goldens(void **state) {
    (void)state;
    if (!fixture_each_context(check_golden)) skip();
}

/* ---- compared with the tokens attended to ---- */

enum { MAX_LAYERS = 8 };

/* Computes a text token by token. Keeps the keys and values that the next token attends to, and no
 * others: a token attends to all that is kept. */
typedef struct seen {
    const mc_lm *lm;
    int64_t context;
    mica_scope *home;
    mica_array k[MAX_LAYERS], v[MAX_LAYERS]; /* MICA_NONE before the first token */
} seen;

/* x behind the kept entries; then only the first and the last that a token attends to. */
static mica_array see(const seen *c, mica_scope *s, int layer, mica_array old, mica_array x) {
    int64_t window = mc_spec_attention(&c->lm->spec, layer)->window, keep = 0;
    if (c->context && (!window || window > c->context)) {
        keep = c->context < 8 ? c->context / 2 : 4;
        window = c->context;
    }
    if (!mica_valid(old)) return x;
    mica_array all = mica_concatenate(s, (mica_array[]){old, x}, 2, 2);
    int64_t n = mica_array_dim(all, 2);
    if (!window || n <= window) return all;
    const mica_array ends[] = {mica_slice_axis(s, all, 2, 0, keep),
                               mica_slice_axis(s, all, 2, n - window + keep, n)};
    return mica_concatenate(s, ends, 2, 2);
}

static mc_attended append_seen(void *context, mica_scope *s, int layer, mica_array k,
                               mica_array v) {
    seen *c = context;
    c->k[layer] = see(c, s, layer, c->k[layer], k);
    c->v[layer] = see(c, s, layer, c->v[layer], v);
    int64_t n = mica_array_dim(c->k[layer], 2);
    return (mc_attended){.k = c->k[layer], .v = c->v[layer], .offset = mica_i32(s, (int32_t)n - 1)};
}

/* The logits of the token at `position`. */
static void compute_seen(seen *c, mica_device *device, int32_t id, int32_t position,
                         float *logits) {
    mica_scope *s;
    assert_int_equal(mica_scope_open(device, &s), MICA_OK);
    const mc_kv_store store = {.append = append_seen, .context = c};
    mica_array ids = mica_from_data(s, &id, MICA_I32, (int64_t[]){1, 1}, 2);
    mica_array all[2 * MAX_LAYERS + 1];
    int layers = c->lm->spec.n_layers;
    all[0] = mc_lm_forward(s, c->lm, ids, mica_i32(s, position), &store, MC_LAST_LOGITS);
    memcpy(all + 1, c->k, (size_t)layers * sizeof *all);
    memcpy(all + 1 + layers, c->v, (size_t)layers * sizeof *all);
    if (mica_eval_n(s, all, 2 * (size_t)layers + 1) != MICA_OK ||
        mica_read(all[0], logits, (size_t)c->lm->spec.vocab * sizeof *logits) != MICA_OK)
        fail_msg("%s", mica_last_error());
    mica_scope *before = c->home;
    assert_int_equal(mica_scope_open(device, &c->home), MICA_OK);
    for (int i = 0; i < layers; i++) {
        c->k[i] = mica_materialize(c->home, c->k[i]);
        c->v[i] = mica_materialize(c->home, c->v[i]);
    }
    assert_int_equal(mica_scope_status(c->home), MICA_OK);
    mica_scope_close(&before);
    mica_scope_close(&s);
}

/* Chunks of many sizes, so that caches drop entries several times. */
static void check_seen(const model_fixture *f, int64_t context, int n) {
    static const int64_t sizes[] = {1, 1, 5, 30, 1, 64};
    const mc_session_model shared = {.lm = f->lm, .device = f->device, .context = context};
    seen c = {.lm = f->lm, .context = context};
    size_t vocab = (size_t)f->lm->spec.vocab;
    float *want = malloc(vocab * sizeof *want);
    int32_t *ids = malloc((size_t)n * sizeof *ids);
    assert_true(f->lm->spec.n_layers <= MAX_LAYERS);
    assert_non_null(want);
    assert_non_null(ids);
    mc_session *session = open_session(&shared, 64);
    for (int at = 0, i = 0; i < n; i++) {
        ids[i] = (int32_t)((i * i * 31 + i * 7 + 3) % f->lm->spec.vocab);
        compute_seen(&c, f->device, ids[i], i, want);
        if (i + 1 - at < sizes[i % 6] && i + 1 < n) continue;
        const float *got = feed(session, ids + at, i + 1 - at);
        fixture_compare(got, want, vocab, 2e-4, "%s: context %lld, token %d", f->name,
                        (long long)context, i);
        at = i + 1;
    }
    mica_scope_close(&c.home);
    mc_session_close(&session);
    free(want);
    free(ids);
}

static void test_what_is_seen(void **state) {
    (void)state;
    static const int64_t contexts[] = {0, 1, 2, 3, 5, 8, 15, 16, 17, 40};
    static const char *const models[] = {"llama_untied_f32", "gemma3_text_f32"};
    for (int m = 0; m < 2; m++) {
        model_fixture f;
        fixture_open(models[m], &f);
        for (size_t i = 0; i < sizeof contexts / sizeof *contexts; i++)
            check_seen(&f, contexts[i], 70);
        check_seen(&f, 24, test_device_is_other() ? 450 : 1000);
        fixture_close(&f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_goldens),
        cmocka_unit_test(test_what_is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
