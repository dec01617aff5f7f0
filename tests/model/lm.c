/* The forward pass compared with goldens of the reference implementation: logits, batches,
 * and what layers carry. */
#include "model/fixture.h"

#include "cpu/cpu.h"
#include "exec/lower.h"
#include "exec/steps/plan.h"
#include "exec/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ids [batch, len] -> logits of every position, [batch, len, vocab]; freed with free(). */
static float *run(const model_fixture *f, const int32_t *ids, int64_t batch, int64_t len,
                  const mc_kv_store *store) {
    const int64_t shape[] = {batch, len};
    size_t bytes = (size_t)(batch * len * f->lm->spec.vocab) * sizeof(float);
    float *logits = malloc(bytes);
    mica_scope *s;
    assert_non_null(logits);
    assert_int_equal(mica_scope_open(f->device, &s), MICA_OK);
    mica_array y = mc_lm_forward(s, f->lm, mica_from_data(s, ids, MICA_I32, shape, 2),
                                 mica_i32(s, 0), store, MC_ALL_LOGITS);
    if (mica_eval(s, y) != MICA_OK || mica_read(y, logits, bytes) != MICA_OK)
        fail_msg("%s: %s", f->name, mica_last_error());
    mica_scope_close(&s);
    return logits;
}

static void check_prompt(const model_fixture *f, const char *prompt) {
    size_t n;
    const int64_t *shape;
    const int32_t *ids = fixture_ints(f, &n, "%s.ids", prompt);
    const float *want = fixture_floats(f, &shape, "%s.logits", prompt);
    if (!ids || !want) return;
    assert_int_equal(shape[0], n);
    assert_int_equal(shape[1], f->lm->spec.vocab);
    float *got = run(f, ids, 1, (int64_t)n, NULL);
    fixture_compare(got, want, n * (size_t)shape[1], f->tolerance, "%s: %s.logits", f->name,
                    prompt);
    free(got);
}

static void check_prompts(const model_fixture *f) {
    char name[24];
    for (int i = 0; i < 16; i++) {
        snprintf(name, sizeof name, "prompt%d", i);
        check_prompt(f, name);
    }
    check_prompt(f, "text");
    assert_non_null(fixture_floats(f, NULL, "prompt0.logits"));
}

static void check_batch(const model_fixture *f) {
    size_t n, rows;
    const int64_t *shape;
    const int32_t *ids = fixture_ints(f, &n, "batch.ids");
    const int32_t *lengths = fixture_ints(f, &rows, "batch.lengths");
    const float *want = fixture_floats(f, &shape, "batch.last_logits");
    assert_true(ids && lengths && want && shape[0] == (int64_t)rows);
    size_t len = n / rows, vocab = (size_t)shape[1];
    float *got = run(f, ids, (int64_t)rows, (int64_t)len, NULL);
    for (size_t i = 0; i < rows; i++) {
        size_t last = i * len + (size_t)lengths[i] - 1;
        fixture_compare(got + last * vocab, want + i * vocab, vocab, f->tolerance,
                        "%s: row %zu of the batch", f->name, i);
        /* A row is the same as alone. */
        float *alone = run(f, ids + i * len, 1, lengths[i], NULL);
        fixture_compare(alone + (size_t)(lengths[i] - 1) * vocab, got + last * vocab, vocab,
                        fixture_same(f), "%s: row %zu of the batch against the row alone", f->name,
                        i);
        free(alone);
    }
    free(got);
}

/* ---- what a layer carries ---- */

/* A store that keeps what one layer leaves. */
typedef struct watcher {
    const mc_lm *lm;
    int layer;
    mica_array k, v, carried[MC_BLOCK_CARRIED];
} watcher;

static mc_attended watch(void *context, mica_scope *s, int layer, mica_array k, mica_array v) {
    watcher *w = context;
    if (layer == w->layer) w->k = k, w->v = v;
    (void)s;
    return (mc_attended){.k = k, .v = v, .window = mc_spec_attention(&w->lm->spec, layer)->window};
}

static void watch_after(void *context, mica_scope *s, int layer, int i, mica_array next) {
    watcher *w = context;
    if (layer == w->layer) w->carried[i] = next;
    (void)s;
}

static mica_array find_carried(const watcher *w, int ndim) {
    for (int i = 0; i < MC_BLOCK_CARRIED; i++)
        if (w->carried[i].scope && mica_array_ndim(w->carried[i]) == ndim) return w->carried[i];
    return MICA_NONE;
}

static float *read_floats(mica_array x, size_t *n) {
    *n = (size_t)mica_array_size(x);
    float *data = malloc(*n * sizeof *data);
    assert_non_null(data);
    if (mica_read(x, data, *n * sizeof *data) != MICA_OK) fail_msg("%s", mica_last_error());
    return data;
}

static void compare_carried(const model_fixture *f, const char *part, int layer, mica_array got,
                            mica_array want) {
    size_t n, count;
    float *a = read_floats(got, &n), *b = read_floats(want, &count);
    assert_int_equal(n, count);
    fixture_compare_cache(f, part, layer, a, b, n);
    free(a);
    free(b);
}

/* Goldens of windows have the last keys, [kv_heads, n, D]. */
static mica_array last_entries(mica_scope *s, mica_array x, const int64_t *shape) {
    int64_t n = mica_array_dim(x, 2);
    assert_true(shape[1] <= n);
    return mica_slice_axis(s, x, 2, n - shape[1], n);
}

/* Of MLA "k" are latents, and "v" is what RoPE rotates: the first of all pairs, then the second. */
static mica_array latent_entries(mica_scope *s, const watcher *w, const char *part) {
    static const int axes[] = {0, 1, 2, 4, 3};
    int64_t n = mc_spec_attention(&w->lm->spec, w->layer)->latent;
    if (*part == 'k') return mica_slice_axis(s, w->k, 3, 0, n);
    mica_array pairs = mica_slice_axis(s, w->k, 3, n, MICA_END_OF_AXIS);
    pairs = mica_unflatten(s, pairs, 3, (int64_t[]){-1, 2}, 2);
    return mica_flatten(s, mica_transpose(s, pairs, axes), 3, 4);
}

/* A convolution's golden is [C, K], the newest input last; what is carried is [1, K - 1, C]. */
static mica_array turned(mica_scope *s, mica_array golden) {
    static const int axes[] = {1, 0};
    golden = mica_slice_axis(s, golden, 1, 1, mica_array_dim(golden, 1));
    return mica_transpose(s, golden, axes);
}

static bool check_part(const model_fixture *f, mica_scope *s, const watcher *w, const char *part) {
    const int64_t *shape;
    const float *data = fixture_floats(f, &shape, "prompt2.layer%d.%s", w->layer, part);
    if (!data) return false;
    bool conv = strcmp(part, "conv_state") == 0, recurrent = strcmp(part, "state") == 0;
    mica_array want = mica_from_data(s, data, MICA_F32, shape, conv ? 2 : 3), got;
    if (recurrent && mc_spec_carrier(&f->lm->spec, w->layer)->kind == &mc_block_mamba2)
        want = mica_swapaxes(s, want, 1, 2); /* [heads, head_dim, state] */
    if (conv)
        got = find_carried(w, 3), want = turned(s, want);
    else if (recurrent)
        got = find_carried(w, 4);
    else if (mc_spec_attention(&f->lm->spec, w->layer)->latent)
        got = latent_entries(s, w, part);
    else
        got = last_entries(s, *part == 'k' ? w->k : w->v, shape);
    if (!mica_valid(got)) fail_msg("%s: layer %d leaves no %s", f->name, w->layer, part);
    compare_carried(f, part, w->layer, got, want);
    return true;
}

/* Returns how many goldens the layer has. */
static int check_layer(const model_fixture *f, int layer) {
    static const char *const parts[] = {"k", "v", "conv_state", "state"};
    size_t n;
    int checked = 0;
    const int32_t *ids = fixture_ints(f, &n, "prompt2.ids");
    const int64_t shape[] = {1, (int64_t)n};
    watcher w = {.lm = f->lm, .layer = layer};
    const mc_kv_store store = {
        .append = watch, .after = watch_after, .context = &w, .keeps_nothing = true};
    mica_scope *s;
    assert_int_equal(mica_scope_open(f->device, &s), MICA_OK);
    mc_lm_forward(s, f->lm, mica_from_data(s, ids, MICA_I32, shape, 2), mica_i32(s, 0), &store,
                  MC_NO_LOGITS);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        checked += check_part(f, s, &w, parts[i]);
    mica_scope_close(&s);
    return checked;
}

static void check_carried(const model_fixture *f) {
    int checked = 0;
    for (int layer = 0; layer < f->lm->spec.n_layers; layer++)
        checked += check_layer(f, layer);
    assert_true(checked > 0);
}

/* The number of steps that threads run one after the other, in the plan of one token without
 * caches. */
static int count_spans(const model_fixture *f) {
    const int32_t id = 1;
    mc_arena arena = {0};
    mc_trace trace = {0};
    mc_buffer fallback = {0};
    mc_lowered *lowered;
    mc_plan *plan;
    mica_scope *s;
    int spans = 0;
    assert_int_equal(mica_scope_open(f->device, &s), MICA_OK);
    mica_array ids = mica_from_data(s, &id, MICA_I32, (int64_t[]){1, 1}, 2);
    mica_array y = mc_lm_forward(s, f->lm, ids, mica_i32(s, 0), NULL, MC_ALL_LOGITS);
    assert_int_equal(mc_trace_make(&trace, &arena, s, &y, 1), MICA_OK);
    assert_int_equal(mc_lower_ops(f->device, &trace, &lowered, &fallback), MICA_OK);
    assert_int_equal(fallback.len, 0);
    assert_int_equal(mc_plan_make(f->device, &mc_cpu_steps, lowered, &plan), MICA_OK);
    for (uint32_t i = 0; i < plan->n_steps; i += plan->steps[i].span)
        spans++;
    mc_plan_free(plan);
    mc_buffer_deinit(&fallback);
    mc_buffer_deinit(&trace.key);
    mc_arena_deinit(&arena);
    mica_scope_close(&s);
    return spans;
}

static int models_planned;

static bool is_plain(const mc_decoder_spec *spec) {
    for (int i = 0; i < spec->n_blocks; i++)
        if (spec->blocks[i].kind != &mc_block_attention && spec->blocks[i].kind != &mc_block_gated)
            return false;
    return true;
}

/* Of a quantised layer with norms of q and k these are nine: both norms, RoPE of q and of k,
 * attention, its output matmul, and three matmul regions, each with the row-by-row ops before it:
 * gate and up, down, and the next layer's first. They are ten if weights with one input have
 * several formats. */
static void check_spans(const model_fixture *f) {
    if (strcmp(f->lm->quantization, "none") == 0 || !is_plain(&f->lm->spec)) return;
    mc_lm_set_arithmetic(f->lm, MICA_ARITHMETIC_FAST);
    int spans = count_spans(f), layers = f->lm->spec.n_layers;
    models_planned++;
    if (spans > 10 * layers + 8) fail_msg("%s: %d steps for %d layers", f->name, spans, layers);
}

static void test_prompts(void **state) {
    (void)state;
    fixture_each(check_prompts);
}

static void test_batches(void **state) {
    (void)state;
    fixture_each(check_batch);
}

static void test_carried(void **state) {
    (void)state;
    fixture_each(check_carried);
}

static void test_last_logits(void **state) {
    (void)state;
    model_fixture f;
    fixture_open("gemma3_text_f32", &f);
    size_t n;
    const int32_t *ids = fixture_ints(&f, &n, "prompt2.ids");
    const int64_t shape[] = {1, (int64_t)n};
    size_t vocab = (size_t)f.lm->spec.vocab;
    float *all = run(&f, ids, 1, (int64_t)n, NULL), *last = malloc(vocab * sizeof *last);
    mica_scope *s;
    assert_non_null(last);
    assert_int_equal(mica_scope_open(f.device, &s), MICA_OK);
    mica_array y = mc_lm_forward(s, f.lm, mica_from_data(s, ids, MICA_I32, shape, 2),
                                 mica_i32(s, 0), NULL, MC_LAST_LOGITS);
    assert_int_equal(mica_array_dim(y, 1), 1);
    assert_int_equal(mica_read(y, last, vocab * sizeof *last), MICA_OK);
    fixture_compare(last, all + (n - 1) * vocab, vocab, fixture_same(&f), "the last row alone");
    mica_scope_close(&s);
    free(last);
    free(all);
    fixture_close(&f);
}

static void test_spans(void **state) {
    (void)state;
    if (test_device_is_other()) skip(); /* steps are the cpu's */
    models_planned = 0;
    fixture_each(check_spans);
    if (models_planned == 0) skip(); /* none is quantised */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prompts), cmocka_unit_test(test_batches),
        cmocka_unit_test(test_carried), cmocka_unit_test(test_last_logits),
        cmocka_unit_test(test_spans),
    };
    return cmocka_run_group_tests_name("model/lm", tests, NULL, NULL);
}
