/* Queries and keys: keys against the goldens, the first layer's queries against the same worked out
 * here in f64 from the weights. */
#include "model/fixture.h"

#include "task/inspect.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const mica_task_options no_options;

static mica_attention *inspect(const model_fixture *f, const int32_t *ids, size_t n,
                               const int64_t *layers, size_t count) {
    mc_session_model model = {.lm = f->lm, .device = f->device};
    mica_attention *found;
    if (mc_inspect(&model, ids, n, layers, count, &no_options, &found) != MICA_OK)
        fail_msg("%s: %s", f->name, mica_last_error());
    assert_int_equal(found->tokens, n);
    assert_memory_equal(found->ids, ids, n * sizeof *ids);
    return found;
}

/* ---- keys ---- */

/* The layers whose heads are as most: some may have others, or no attention. */
static size_t list_layers(const mc_decoder_spec *spec, int64_t *layers) {
    size_t count = 0;
    for (int i = 0; i < spec->n_layers; i++) {
        const mc_attention_spec *a = mc_spec_attention(spec, i);
        if (a->heads == spec->heads && a->kv_heads == spec->kv_heads &&
            a->head_dim == spec->head_dim)
            layers[count++] = i;
    }
    return count;
}

/* Returns whether there is a golden of the layer. Those of windows have the last keys alone, those
 * of MLA the latents, which keys begin with. */
static bool check_layer(const model_fixture *f, const int32_t *ids, size_t n,
                        const mica_attention *all, const mica_attention_layer *layer) {
    const int64_t *shape, only[] = {layer->layer};
    size_t size = (size_t)(all->kv_heads * all->tokens * all->head_dim);
    const float *want = fixture_floats(f, &shape, "prompt2.layer%d.k", (int)layer->layer);
    mica_attention *one = inspect(f, ids, n, only, 1);
    assert_int_equal(one->count, 1);
    fixture_compare(one->layers[0].k, layer->k, size, 0.0, "one layer");
    mica_attention_free(&one);
    if (!want) return false;
    int64_t latent = mc_spec_attention(&f->lm->spec, (int)layer->layer)->latent;
    int64_t width = latent ? latent : all->head_dim, dropped = all->tokens - shape[1];
    assert_true(shape[0] == all->kv_heads && shape[2] == width && dropped >= 0);
    for (int64_t i = 0; i < all->kv_heads * shape[1]; i++) {
        int64_t row = i / shape[1] * all->tokens + dropped + i % shape[1];
        fixture_compare_cache(f, "k", (int)layer->layer, layer->k + row * all->head_dim,
                              want + i * width, (size_t)width);
    }
    return true;
}

static void check_keys(const model_fixture *f) {
    size_t n, checked = 0;
    int64_t layers[MC_MAX_LAYERS];
    const int32_t *ids = fixture_ints(f, &n, "prompt2.ids");
    size_t count = list_layers(&f->lm->spec, layers);
    bool whole = count == (size_t)f->lm->spec.n_layers;
    mica_attention *all = inspect(f, ids, n, whole ? NULL : layers, whole ? 0 : count);
    assert_int_equal(all->count, count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(all->layers[i].layer, layers[i]);
        checked += check_layer(f, ids, n, all, &all->layers[i]);
    }
    assert_true(checked > 0);
    mica_attention_free(&all);
    mica_attention_free(&all);
    assert_null(all);
}

static void test_keys(void **state) {
    (void)state;
    fixture_each(check_keys);
}

/* ---- queries ---- */

static float *read_array(mica_array x) {
    size_t bytes = (size_t)mica_array_size(x) * sizeof(float);
    float *out = malloc(bytes);
    assert_non_null(out);
    assert_int_equal(mica_array_dtype(x), MICA_F32);
    if (mica_read(x, out, bytes) != MICA_OK) fail_msg("%s", mica_last_error());
    return out;
}

/* x[n], over the root of its mean square, times the weight where there is one. */
static void normalise(double *x, int64_t n, const float *weight, double eps) {
    double square = 0.0;
    for (int64_t i = 0; i < n; i++)
        square += x[i] * x[i];
    for (int64_t i = 0; i < n; i++)
        x[i] *= (weight ? (double)weight[i] : 1.0) / sqrt(square / (double)n + eps);
}

/* The first layer's query of one token and head. */
static void query(const mc_lm *lm, const float *embedding, const float *norm, const float *q_weight,
                  const float *q_norm, int64_t position, int64_t head, double *out) {
    const mc_decoder_spec *spec = &lm->spec;
    const mc_rope_spec *rope = &spec->ropes[mc_spec_attention(spec, 0)->rope];
    int64_t d = spec->head_dim;
    double x[512];
    assert_true(spec->hidden <= 512 && rope->kind != MC_ROPE_LLAMA3);
    for (int64_t i = 0; i < spec->hidden; i++)
        x[i] = (double)embedding[i] * spec->embed_scale;
    normalise(x, spec->hidden, norm, spec->norm_eps);
    for (int64_t i = 0; i < d; i++) {
        out[i] = 0.0;
        for (int64_t j = 0; j < spec->hidden; j++)
            out[i] += (double)q_weight[(head * d + i) * spec->hidden + j] * x[j];
    }
    if (q_norm) normalise(out, d, q_norm, spec->norm_eps);
    for (int64_t i = 0; i < d / 2; i++) {
        double angle =
            (double)position / rope->factor * pow(rope->base, -2.0 * (double)i / (double)d);
        double a = out[i], b = out[i + d / 2];
        out[i] = a * cos(angle) - b * sin(angle);
        out[i + d / 2] = b * cos(angle) + a * sin(angle);
    }
}

static void check_queries(const char *name) {
    model_fixture f;
    fixture_open(name, &f);
    const mc_lm *lm = f.lm;
    const mc_lm_slot *layer = mc_lm_block(lm, 0, 0);
    size_t n;
    const int32_t *ids = fixture_ints(&f, &n, "prompt2.ids");
    float *embedding = read_array(lm->embed.weight),
          *weight = read_array(layer[MC_ATTENTION_Q].linear.weight);
    float *norm = read_array(layer[MC_BLOCK_NORM].vector);
    mica_array q_norms = layer[MC_ATTENTION_Q_NORM].vector;
    float *q_norm = mica_valid(q_norms) ? read_array(q_norms) : NULL;
    const int64_t first[] = {0};
    mica_attention *found = inspect(&f, ids, n, first, 1);
    assert_int_equal(found->heads, lm->spec.heads);
    for (int64_t head = 0; head < found->heads; head++)
        for (int64_t t = 0; t < found->tokens; t++) {
            double want[512];
            const float *got = found->layers[0].q + (head * found->tokens + t) * found->head_dim;
            query(lm, embedding + ids[t] * lm->spec.hidden, norm, weight, q_norm, t, head, want);
            for (int64_t i = 0; i < found->head_dim; i++)
                if (fabs((double)got[i] - want[i]) > f.key_tolerance)
                    fail_msg("%s: query of head %d, token %d is %g at %d, want %g", name, (int)head,
                             (int)t, (double)got[i], (int)i, want[i]);
        }
    mica_attention_free(&found);
    free(embedding);
    free(weight);
    free(norm);
    free(q_norm);
    fixture_close(&f);
}

static void test_queries(void **state) {
    (void)state;
    check_queries("gemma3_text_f32");
    check_queries("llama_untied_f32");
}

/* ---- the rest ---- */

/* Over several chunks: what comes later changes nothing. */
static void test_chunks(void **state) {
    (void)state;
    enum { LONG = 1100, SHORT = 40 };
    model_fixture f;
    fixture_open("gemma3_text_f32", &f);
    const int64_t layers[] = {5, 1};
    int32_t ids[LONG];
    for (int i = 0; i < LONG; i++)
        ids[i] = (i * 31 + 7) % 558;
    mica_attention *longer = inspect(&f, ids, LONG, layers, 2);
    mica_attention *shorter = inspect(&f, ids, SHORT, layers, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(longer->layers[i].layer, layers[i]);
        for (int64_t head = 0; head < longer->heads; head++)
            assert_memory_equal(longer->layers[i].q + head * LONG * longer->head_dim,
                                shorter->layers[i].q + head * SHORT * longer->head_dim,
                                (size_t)(SHORT * longer->head_dim) * sizeof(float));
    }
    mica_attention_free(&shorter);
    mica_attention_free(&longer);
    fixture_close(&f);
}

static void test_refusals(void **state) {
    (void)state;
    model_fixture f;
    fixture_open("gemma3_text_f32", &f);
    mc_session_model model = {.lm = f.lm, .device = f.device};
    const int32_t ids[] = {1, 2};
    const int64_t past[] = {1, 6}, twice[] = {3, 3}, negative[] = {-1};
    mica_attention *found;
    assert_int_equal(mc_inspect(&model, ids, 0, NULL, 0, &no_options, &found), MICA_EINVAL);
    assert_int_equal(mc_inspect(&model, ids, 2, past, 2, &no_options, &found), MICA_EINVAL);
    assert_non_null(strstr(mica_last_error(), "layer 6"));
    assert_int_equal(mc_inspect(&model, ids, 2, twice, 2, &no_options, &found), MICA_EINVAL);
    assert_non_null(strstr(mica_last_error(), "twice"));
    assert_int_equal(mc_inspect(&model, ids, 2, negative, 1, &no_options, &found), MICA_EINVAL);
    assert_null(found);
    fixture_close(&f);
}

static bool inspect_once(void *arg) {
    const model_fixture *f = arg;
    mc_session_model model = {.lm = f->lm, .device = f->device};
    const int32_t ids[] = {3, 4, 5, 6};
    mica_attention *found;
    test_forget_plans(f->device);
    mica_status status = mc_inspect(&model, ids, 4, NULL, 0, &no_options, &found);
    assert_true(status == MICA_OK || (status == MICA_ENOMEM && !found));
    mica_attention_free(&found);
    return status == MICA_OK;
}

static void test_no_memory(void **state) {
    (void)state;
    model_fixture f;
    fixture_open("q4g64_gemma3_mm", &f);
    test_fail_each_allocation(inspect_once, &f);
    fixture_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys),      cmocka_unit_test(test_queries),
        cmocka_unit_test(test_chunks),    cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests_name("task/inspect", tests, NULL, NULL);
}
