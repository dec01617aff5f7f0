/* The block of experts against plain loops in double, for each kind of router and of expert; other
 * forms of files; configs that make no sense. */
#include "model/family.h"
#include "model/own_family.h"
#include "model/pass.h"

#include <mica/mica.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 5, HIDDEN = 8, EXPERTS = 8, WIDTH = 6, SHARED = 4 };

/* ---- plain loops ---- */

typedef struct numbers {
    float x[ROWS][HIDDEN], router[EXPERTS][HIDDEN], choice[EXPERTS], factors[EXPERTS];
    float gate[EXPERTS][WIDTH][HIDDEN], up[EXPERTS][WIDTH][HIDDEN], down[EXPERTS][HIDDEN][WIDTH];
    float up_bias[EXPERTS][WIDTH];
    float shared_gate[SHARED][HIDDEN], shared_up[SHARED][HIDDEN], shared_down[HIDDEN][SHARED];
    float open[1][HIDDEN];
} numbers;

typedef struct variant {
    mc_experts_spec spec;
    bool choice, factors, gated, joined, bias, shared, open;
} variant;

static double dot(const float *a, const float *b) {
    double sum = 0;
    for (int i = 0; i < HIDDEN; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

static double sigmoid(double x) {
    return 1 / (1 + exp(-x));
}

/* The index of the largest of n scores that is not taken, which it becomes. */
static int take_best(const double *scores, int n, bool *taken) {
    int best = -1;
    for (int i = 0; i < n; i++)
        if (!taken[i] && (best < 0 || scores[i] > scores[best])) best = i;
    taken[best] = true;
    return best;
}

/* Takes all experts but those of the best groups. */
static void take_groups(const mc_experts_spec *e, const double *scores, bool *taken) {
    int each = EXPERTS / (int)e->groups;
    double sums[EXPERTS];
    bool kept[EXPERTS] = {false};
    for (int g = 0; g < e->groups; g++) {
        bool in_group[EXPERTS] = {false};
        sums[g] = 0;
        for (int i = 0; i < 2 && i < each; i++)
            sums[g] += scores[g * each + take_best(scores + g * each, each, in_group)];
    }
    for (int i = 0; i < e->top_groups; i++)
        take_best(sums, (int)e->groups, kept);
    for (int i = 0; i < EXPERTS; i++)
        taken[i] = !kept[i / each];
}

static void route(const numbers *n, const variant *v, const float *x, int *picks, double *weights) {
    const mc_experts_spec *e = &v->spec;
    double scores[EXPERTS], choice[EXPERTS], sum = 0, all = 0;
    bool taken[EXPERTS] = {false};
    for (int i = 0; i < EXPERTS; i++) {
        scores[i] = dot(n->router[i], x);
        scores[i] = e->scoring == MC_SCORE_SIGMOID ? sigmoid(scores[i]) : exp(scores[i]);
        choice[i] = scores[i] + (v->choice ? (double)n->choice[i] : 0);
        all += scores[i];
    }
    if (e->groups > 1) take_groups(e, choice, taken);
    for (int k = 0; k < e->picks; k++) {
        picks[k] = take_best(choice, EXPERTS, taken);
        sum += weights[k] = scores[picks[k]];
    }
    for (int k = 0; k < e->picks; k++) {
        if (e->scoring == MC_SCORE_SOFTMAX) weights[k] /= all;
        if (e->scoring == MC_SCORE_PICKED_SOFTMAX) weights[k] /= sum;
        if (e->renormalised)
            weights[k] /= (e->scoring == MC_SCORE_SOFTMAX ? sum / all : sum) + e->least_sum;
        weights[k] *= e->factor * (v->factors ? (double)n->factors[picks[k]] : 1);
    }
}

static double activate(const variant *v, double gate, double up) {
    const mc_experts_spec *e = &v->spec;
    if (!v->gated) return up > 0 ? up * up : 0;
    if (e->limit != 0) {
        gate = fmin(gate, e->limit);
        up = fmax(fmin(up, e->limit), -e->limit);
        return (up + 1) * gate * sigmoid(1.702 * gate);
    }
    return gate * sigmoid(gate) * up;
}

static void add_expert(const variant *v, int width, const float (*gate)[HIDDEN],
                       const float (*up)[HIDDEN], const float *bias, const float *down,
                       const float *x, double weight, double *y) {
    for (int i = 0; i < width; i++) {
        double u = dot(up[i], x) + (bias ? (double)bias[i] : 0);
        double a = activate(v, v->gated ? dot(gate[i], x) : 0, u);
        for (int j = 0; j < HIDDEN; j++)
            y[j] += weight * a * (double)down[j * width + i];
    }
}

static void compute(const numbers *n, const variant *v, const float *x, float *out) {
    int picks[EXPERTS];
    double weights[EXPERTS], y[HIDDEN] = {0};
    route(n, v, x, picks, weights);
    for (int k = 0; k < v->spec.picks; k++) {
        int i = picks[k];
        add_expert(v, WIDTH, n->gate[i], n->up[i], v->bias ? n->up_bias[i] : NULL, n->down[i][0], x,
                   weights[k], y);
    }
    if (v->shared)
        add_expert(v, SHARED, n->shared_gate, n->shared_up, NULL, n->shared_down[0], x,
                   v->open ? sigmoid(dot(n->open[0], x)) : 1, y);
    for (int j = 0; j < HIDDEN; j++)
        out[j] = (float)y[j];
}

/* ---- the block ---- */

static mica_array array(mica_scope *s, const float *data, int64_t a, int64_t b, int64_t c) {
    const int64_t shape[] = {a, b, c};
    int skip = a == 0 ? (b == 0 ? 2 : 1) : 0;
    return mica_from_data(s, data, MICA_F32, shape + skip, 3 - skip);
}

static void put(mica_scope *s, mc_lm_slot *slots, int slot, const float *data, int64_t experts,
                int64_t rows, int64_t columns) {
    slots[slot] = (mc_lm_slot){.name = "here"};
    slots[slot].vector = slots[slot].linear.weight = array(s, data, experts, rows, columns);
    slots[slot].linear.out = rows;
    slots[slot].linear.in = columns;
    slots[slot].linear.experts = experts;
}

/* The rows of gate and up: one after the other, or in turns. */
static void join(const numbers *n, bool interleaved, float *both) {
    for (int e = 0; e < EXPERTS; e++)
        for (int i = 0; i < WIDTH; i++)
            for (int part = 0; part < 2; part++) {
                int row = interleaved ? 2 * i + part : part * WIDTH + i;
                memcpy(both + (e * 2 * WIDTH + row) * HIDDEN, part ? n->up[e][i] : n->gate[e][i],
                       sizeof n->up[e][i]);
            }
}

static void put_slots(mica_scope *s, const numbers *n, const variant *v, mc_lm_slot *slots) {
    static float both[EXPERTS * 2 * WIDTH * HIDDEN];
    put(s, slots, MC_EXPERTS_ROUTER, n->router[0], 0, EXPERTS, HIDDEN);
    if (v->choice) put(s, slots, MC_EXPERTS_CHOICE, n->choice, 0, 0, EXPERTS);
    if (v->factors) put(s, slots, MC_EXPERTS_FACTORS, n->factors, 0, 0, EXPERTS);
    join(n, v->spec.interleaved, both);
    if (v->joined)
        put(s, slots, MC_EXPERTS_GATE_UP, both, EXPERTS, 2 * WIDTH, HIDDEN);
    else
        put(s, slots, MC_EXPERTS_UP, n->up[0][0], EXPERTS, WIDTH, HIDDEN);
    if (!v->joined && v->gated)
        put(s, slots, MC_EXPERTS_GATE, n->gate[0][0], EXPERTS, WIDTH, HIDDEN);
    if (v->bias) slots[MC_EXPERTS_UP].linear.bias = array(s, n->up_bias[0], 0, EXPERTS, WIDTH);
    put(s, slots, MC_EXPERTS_DOWN, n->down[0][0], EXPERTS, HIDDEN, WIDTH);
    if (!v->shared) return;
    if (v->gated) put(s, slots, MC_EXPERTS_SHARED_GATE, n->shared_gate[0], 0, SHARED, HIDDEN);
    put(s, slots, MC_EXPERTS_SHARED_UP, n->shared_up[0], 0, SHARED, HIDDEN);
    put(s, slots, MC_EXPERTS_SHARED_DOWN, n->shared_down[0], 0, HIDDEN, SHARED);
    if (v->open) put(s, slots, MC_EXPERTS_SHARED_SWITCH, n->open[0], 0, 1, HIDDEN);
}

static void check(mica_device *device, const numbers *n, const variant *v, int i) {
    mc_lm_slot slots[MC_EXPERTS_SLOTS] = {0};
    mc_block_spec spec = {.kind = &mc_block_experts, .hidden = HIDDEN, .experts = v->spec};
    mica_scope *s;
    float want[ROWS][HIDDEN], got[ROWS][HIDDEN];
    assert_int_equal(mica_scope_open(device, &s), MICA_OK);
    spec.experts.count = EXPERTS;
    spec.experts.width = WIDTH;
    spec.experts.shared_width = SHARED;
    put_slots(s, n, v, slots);
    const mc_lm_pass p = {.s = s, .batch = 1, .length = ROWS};
    const mc_block_at at = {.spec = &spec, .slots = slots};
    variant whole = *v;
    whole.spec = spec.experts;
    for (int r = 0; r < ROWS; r++)
        compute(n, &whole, n->x[r], want[r]);
    mica_array x = array(s, n->x[0], 1, ROWS, HIDDEN);
    if (mica_read(mc_block_experts.forward(&p, &at, x), got, sizeof got) != MICA_OK)
        fail_msg("variant %d: %s", i, mica_last_error());
    fixture_compare(got[0], want[0], ROWS * HIDDEN, 1e-4, "variant %d", i);
    mica_scope_close(&s);
}

/* Bits of a simple generator, in +-1. */
static void fill(numbers *n) {
    float *at = (float *)n;
    uint32_t state = 7;
    for (size_t i = 0; i < sizeof *n / sizeof *at; i++) {
        state = state * 1664525u + 1013904223u;
        at[i] = (float)(state >> 8) / (float)(1 << 23) - 1.0f;
    }
}

static void test_variants(void **state) {
    (void)state;
    static const variant variants[] = {
        {.spec = {.picks = 3, .factor = 1}, .gated = true},
        {.spec = {.picks = 3, .factor = 1, .renormalised = 1}, .gated = true, .joined = true},
        {.spec = {.picks = 2, .factor = 1, .scoring = MC_SCORE_PICKED_SOFTMAX, .limit = 0.5},
         .gated = true},
        {.spec = {.picks = 2, .factor = 1, .interleaved = 1, .limit = 0.3},
         .gated = true,
         .joined = true},
        {.spec = {.picks = 4, .factor = 1, .renormalised = 1}, .gated = true, .factors = true},
        {.spec = {.picks = 3,
                  .factor = 2.5,
                  .scoring = MC_SCORE_SIGMOID,
                  .renormalised = 1,
                  .least_sum = 0.25},
         .choice = true,
         .gated = true,
         .shared = true},
        {.spec = {.picks = 3, .factor = 1, .scoring = MC_SCORE_SIGMOID, .activation = MC_RELU2},
         .bias = true,
         .shared = true,
         .open = true},
        {.spec = {.picks = 3,
                  .factor = 1.5,
                  .scoring = MC_SCORE_SIGMOID,
                  .renormalised = 1,
                  .groups = 4,
                  .top_groups = 2},
         .choice = true,
         .gated = true},
        {.spec =
             {.picks = 2, .factor = 1, .scoring = MC_SCORE_SIGMOID, .groups = 8, .top_groups = 3},
         .choice = true,
         .gated = true},
    };
    static numbers n;
    mica_device *device;
    fill(&n);
    assert_int_equal(mica_device_open("cpu", NULL, &device), MICA_OK);
    for (int i = 0; i < (int)(sizeof variants / sizeof *variants); i++)
        check(device, &n, &variants[i], i);
    mica_device_close(&device);
}

/* ---- gpt-oss in bf16: transposed, under the same names without ".weight" ---- */

static mica_array turned(mica_scope *s, const mica_named_array *arrays, size_t n, size_t codes) {
    const mica_quant quant = {MICA_QUANT_MXFP4, 4, 32};
    size_t len = strlen(arrays[codes].name) - strlen("weight"), i = 0;
    while (i < n && (strncmp(arrays[i].name, arrays[codes].name, len) != 0 ||
                     strcmp(arrays[i].name + len, "scales") != 0))
        i++;
    assert_true(i < n);
    mica_array x =
        mica_dequantize(s, arrays[codes].array, arrays[i].array, MICA_NONE, quant, MICA_BF16);
    return mica_swapaxes(s, x, 1, 2);
}

static void write_turned(const char *folder) {
    mica_named_array *arrays, all[128];
    size_t n, count = 0;
    mica_device *device;
    mica_scope *s;
    char *path = test_format("%s/model.safetensors", folder);
    assert_int_equal(mica_device_open("cpu", NULL, &device), MICA_OK);
    assert_int_equal(mica_scope_open(device, &s), MICA_OK);
    assert_int_equal(mica_load_safetensors(folder, s, &arrays, &n), MICA_OK);
    for (size_t i = 0; i < n; i++) {
        bool codes = mica_array_dtype(arrays[i].array) == MICA_U32;
        if (strstr(arrays[i].name, ".scales")) continue;
        assert_true(count < 128);
        int len = (int)(strlen(arrays[i].name) - (codes ? strlen(".weight") : 0));
        all[count++] = (mica_named_array){test_format("%.*s", len, arrays[i].name),
                                          codes ? turned(s, arrays, n, i) : arrays[i].array};
    }
    if (mica_save_safetensors(path, all, count, NULL, 0) != MICA_OK)
        fail_msg("%s", mica_last_error());
    for (size_t i = 0; i < count; i++)
        free((void *)(uintptr_t)all[i].name);
    mica_free(arrays);
    mica_scope_close(&s);
    mica_device_close(&device);
    free(path);
}

static void test_transposed(void **state) {
    (void)state;
    char *blocks = fixture_path("../families/gpt_oss_hf_mxfp4");
    char *dir = fixture_copy_folder(blocks, "config.json", "\"mxfp4\"", "\"mxfp4\"");
    mica_device *device;
    assert_int_equal(mica_device_open("cpu", NULL, &device), MICA_OK);
    write_turned(dir);
    mc_lm *a = own_open(device, blocks), *b = own_open(device, dir);
    const mc_linear *down = &mc_lm_find(b, MC_STR("layers.1.mlp.experts.down_proj"))->linear;
    assert_true(down->transposed && !down->quantised);
    assert_int_equal(b->notes.len, 0);
    int32_t ids[OWN_TEXT];
    for (int i = 0; i < OWN_TEXT; i++)
        ids[i] = own_text[i] % (int32_t)a->spec.vocab;
    float *want = fixture_logits(device, a, ids, OWN_TEXT);
    float *got = fixture_logits(device, b, ids, OWN_TEXT);
    fixture_compare(got, want, OWN_TEXT * (size_t)a->spec.vocab, 1e-3, "bf16");
    free(want);
    free(got);
    mc_lm_close(&a);
    mc_lm_close(&b);
    mica_device_close(&device);
    test_temp_dir_remove(dir);
    free(blocks);
}

/* ---- adapters ---- */

#define CONFIG                                                                           \
    "{\"model_type\": \"qwen3_moe\", \"hidden_size\": 64, \"intermediate_size\": 64, "   \
    "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, " \
    "\"head_dim\": 16, \"num_experts\": 4, \"num_experts_per_tok\": 2, "                 \
    "\"moe_intermediate_size\": 32, \"norm_topk_prob\": true, \"vocab_size\": 448, "     \
    "\"tie_word_embeddings\": true}"

/* Factors are trained, applied and fused by mlx-lm's names, whatever the files call experts. */
static void test_tuned(void **state) {
    (void)state;
    char *stacked = own_model(&mc_family_qwen3_moe, CONFIG);
    char *listed = own_list_experts(stacked, "qwen3_moe", 4);
    own_check_tuned(stacked, "layers.1.mlp.switch_mlp.up_proj");
    own_check_tuned(listed, "layers.0.mlp.switch_mlp.gate_proj");
    own_check_quantised(listed, "layers.0.mlp.experts.3.gate_proj",
                        "layers.0.mlp.switch_mlp.gate_proj");
    own_check_passes(listed);
    own_check_sessions(listed);
    test_temp_dir_remove(stacked);
    test_temp_dir_remove(listed);
}

/* ---- configs that make no sense ---- */

static void test_refused(void **state) {
    (void)state;
    static const struct {
        const char *model, *from, *to, *word;
        mica_status status;
    } cases[] = {
        {"qwen3_moe_hf", "\"num_experts\": 6", "\"num_experts\": 0", "num_experts", MICA_EFORMAT},
        {"qwen3_moe_hf", "\"num_experts\": 6", "\"num_experts\": 1000000000000", "num_experts",
         MICA_EFORMAT},
        {"qwen3_moe_hf", "\"num_experts\": 6", "\"num_experts\": 16384", "mlp.gate.weight",
         MICA_ESHAPE},
        {"qwen3_moe_hf", "\"num_experts_per_tok\": 3", "\"num_experts_per_tok\": 7",
         "7 of 6 experts", MICA_EFORMAT},
        {"qwen3_moe_hf", "\"moe_intermediate_size\": 16", "\"moe_intermediate_size\": 17",
         "experts.0.gate_proj.weight", MICA_ESHAPE},
        {"qwen3_moe_q4", "\"moe_intermediate_size\": 64", "\"moe_intermediate_size\": 16777216",
         "switch_mlp", MICA_ESHAPE},
        {"qwen3_moe_hf", "\"mlp_only_layers\": []", "\"mlp_only_layers\": [1]", "mlp.up_proj",
         MICA_ENOENT},
        {"qwen3_moe_hf", "\"decoder_sparse_step\": 1", "\"decoder_sparse_step\": 0",
         "decoder_sparse_step", MICA_EFORMAT},
        {"mixtral_hf", "\"num_local_experts\": 6", "\"num_local_experts\": 1", "2 of 1 experts",
         MICA_EFORMAT},
        {"gpt_oss_hf_mxfp4", "\"num_local_experts\": 6", "\"num_local_experts\": 5", "[5,",
         MICA_ESHAPE},
        {"granitehyb_moe_hf", "\"num_local_experts\": 6", "\"local_experts\": 6", "[8,",
         MICA_ESHAPE}, /* 8 is the default */
        {"gpt_oss_hf_mxfp4", "\"num_attention_heads\": 4", "\"num_attention_heads\": 8", "q_proj",
         MICA_ESHAPE},
    };
    mica_device *device;
    mc_lm *lm;
    assert_int_equal(mica_device_open("cpu", NULL, &device), MICA_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *name = test_format("../families/%s", cases[i].model), *path = fixture_path(name);
        char *dir = fixture_copy_folder(path, "config.json", cases[i].from, cases[i].to);
        mica_status status = mc_lm_open(dir, device, NULL, &lm);
        if (status != cases[i].status || !strstr(mica_last_error(), cases[i].word))
            fail_msg("%s with %s: %s", cases[i].model, cases[i].to, mica_last_error());
        test_temp_dir_remove(dir);
        free(path);
        free(name);
    }
    mica_device_close(&device);
}

static mica_status read_groups(const char *config, int64_t count, int64_t picks) {
    mc_config *json;
    mc_experts_spec e = {.count = count, .picks = picks};
    assert_int_equal(mc_config_parse(config, strlen(config), "config.json", &json), MICA_OK);
    mc_config_scope root = mc_config_root(json);
    mica_status status = mc_family_expert_groups(&root, &e);
    mc_config_close(&json);
    return status;
}

static void test_groups(void **state) {
    (void)state;
    assert_int_equal(read_groups("{\"n_group\": 4, \"topk_group\": 2}", 16, 8), MICA_OK);
    assert_int_equal(read_groups("{\"n_group\": 1, \"topk_group\": 1}", 7, 3), MICA_OK);
    assert_int_equal(read_groups("{\"n_group\": 4, \"topk_group\": 2}", 14, 2), MICA_EFORMAT);
    assert_int_equal(read_groups("{\"n_group\": 4, \"topk_group\": 5}", 16, 2), MICA_EFORMAT);
    assert_int_equal(read_groups("{\"n_group\": 4, \"topk_group\": 1}", 16, 5), MICA_EFORMAT);
    assert_int_equal(read_groups("{\"n_group\": 4}", 16, 2), MICA_EFORMAT);
    assert_int_equal(read_groups("{\"n_group\": -4}", 16, 2), MICA_EFORMAT);
}

/* An expert's tensor may be called as its module. */
static void test_bare_in_list(void **state) {
    (void)state;
    static const int32_t ids[] = {3, 1, 4, 1, 5, 9, 2, 6};
    const size_t n = sizeof ids / sizeof *ids;
    mica_device *device;
    char *path = fixture_path("../families/mixtral_hf");
    char *dir =
        fixture_copy_folder(path, "model.safetensors", "experts.1.w1.weight\"", "experts.1.w1\"");
    assert_int_equal(mica_device_open("cpu", NULL, &device), MICA_OK);
    mc_lm *lm = own_open(device, path), *bare = own_open(device, dir);
    float *want = fixture_logits(device, lm, ids, n), *got = fixture_logits(device, bare, ids, n);
    fixture_compare(got, want, n * (size_t)lm->spec.vocab, 0.0, "a bare tensor");
    free(want);
    free(got);
    mc_lm_close(&lm);
    mc_lm_close(&bare);
    mica_device_close(&device);
    test_temp_dir_remove(dir);
    free(path);
}

/* An adapter's bias of experts has a row for each. */
static void test_bias_replaced(void **state) {
    (void)state;
    mica_device *device;
    mica_scope *s;
    char *path = fixture_path("../families/gpt_oss_mxfp4_q8");
    char *dir = test_temp_dir(), *file = test_format("%s/adapters.safetensors", dir);
    test_write_below(dir, "adapter_config.json", "{\"fine_tune_type\": \"full\"}");
    assert_int_equal(mica_device_open("cpu", NULL, &device), MICA_OK);
    assert_int_equal(mica_scope_open(device, &s), MICA_OK);
    for (int ndim = 1; ndim <= 2; ndim++) {
        mc_lm *lm = own_open(device, path);
        mc_linear *up = &mc_lm_find(lm, MC_STR("layers.0.mlp.experts.up_proj"))->linear;
        const int64_t shape[] = {up->experts, up->out};
        const mica_named_array bias = {"model.layers.0.mlp.experts.up_proj.bias",
                                       mica_ones(s, shape + 2 - ndim, ndim, MICA_F32)};
        assert_int_equal(mica_save_safetensors(file, &bias, 1, NULL, 0), MICA_OK);
        assert_int_equal(mc_lm_adapt(lm, dir), ndim == 2 ? MICA_OK : MICA_ESHAPE);
        assert_int_equal(mica_array_ndim(up->bias), 2);
        mc_lm_close(&lm);
    }
    mica_scope_close(&s);
    mica_device_close(&device);
    test_temp_dir_remove(dir);
    free(file);
    free(path);
}

/* Codes whose scales are absent are told by the name of these. */
static void test_no_scales(void **state) {
    (void)state;
    mica_device *device;
    mc_lm *lm;
    char *path = fixture_path("../families/gpt_oss_hf_mxfp4");
    char *dir = fixture_copy_folder(path, "model.safetensors", "0.mlp.experts.down_proj_scales",
                                    "0.mlp.experts.down_proj_skales");
    assert_int_equal(mica_device_open("cpu", NULL, &device), MICA_OK);
    assert_int_equal(mc_lm_open(dir, device, NULL, &lm), MICA_ENOENT);
    if (!strstr(mica_last_error(), "layers.0.mlp.experts.down_proj.scales"))
        fail_msg("%s", mica_last_error());
    mica_device_close(&device);
    test_temp_dir_remove(dir);
    free(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_variants),      cmocka_unit_test(test_transposed),
        cmocka_unit_test(test_tuned),         cmocka_unit_test(test_refused),
        cmocka_unit_test(test_groups),        cmocka_unit_test(test_bare_in_list),
        cmocka_unit_test(test_bias_replaced), cmocka_unit_test(test_no_scales),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
