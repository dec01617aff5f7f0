#include "model/own_family.h"

#include "graph/graph.h"
#include "model/family.h"
#include "session/session.h"
#include "session/session_file.h"

#include <mica/mica.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const int32_t own_text[OWN_TEXT] = {5,  17, 301, 17, 5,  42, 9,   77,  108, 3, 444,
                                    12, 5,  17,  60, 61, 62, 200, 301, 8,   31};

enum { VOCAB = 448, MAX_ARRAYS = 256 };

/* ---- a folder ---- */

typedef struct writer {
    mica_scope *s;
    mica_named_array arrays[MAX_ARRAYS];
    size_t n;
} writer;

static void add_tensor(writer *w, char *name, const int64_t *shape, int ndim, double middle) {
    mica_array key = mica_random_key(w->s, 7 + w->n);
    assert_true(w->n < MAX_ARRAYS);
    w->arrays[w->n++] = (mica_named_array){
        name, mica_random_uniform(w->s, key, shape, ndim, MICA_F32, middle - 0.4, middle + 0.4)};
}

static void add_slot(writer *w, const mc_block_spec *block, int i, int layer) {
    const mc_slot *slot = &block->kind->slots[i];
    int64_t shape[3];
    int ndim = 0;
    if (!block->names[i]) return;
    const char *star = strchr(block->names[i], '*');
    if (slot->experts && !star) shape[ndim++] = slot->experts(block);
    shape[ndim++] = slot->rows(block);
    if (slot->kind == MC_SLOT_KERNEL) shape[ndim++] = 1;
    if (slot->columns) shape[ndim++] = slot->columns(block);
    double middle = slot->kind == MC_SLOT_NORM ? 1.0 : 0.0;
    int64_t each = star ? slot->experts(block) : 1;
    for (int64_t k = 0; k < each; k++)
        add_tensor(w,
                   star ? test_format("model.layers.%d.%.*s%d%s.weight", layer,
                                      (int)(star - block->names[i]), block->names[i], (int)k,
                                      star + 1)
                        : test_format("model.layers.%d.%s%s", layer, block->names[i],
                                      slot->bare ? "" : ".weight"),
                   shape, ndim, middle);
    if (mc_block_has_bias(block, i))
        add_tensor(w, test_format("model.layers.%d.%s.bias", layer, block->names[i]), shape, 1, 0);
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const mica_named_array *)a)->name, ((const mica_named_array *)b)->name);
}

/* The same, but one of the experts' matrices is far from the others. */
static int by_name_but_one(const void *a, const void *b) {
    const char *x = ((const mica_named_array *)a)->name, *y = ((const mica_named_array *)b)->name;
    bool last_x = strstr(x, "experts.5.up_proj"), last_y = strstr(y, "experts.5.up_proj");
    return last_x != last_y ? last_x - last_y : strcmp(x, y);
}

/* Saves them in the order of names, as transformers does, unless not even. */
static void save(const char *folder, mica_named_array *arrays, size_t n, bool even) {
    char *path = test_format("%s/model.safetensors", folder);
    qsort(arrays, n, sizeof *arrays, even ? by_name : by_name_but_one);
    if (mica_save_safetensors(path, arrays, n, NULL, 0) != MICA_OK)
        fail_msg("%s", mica_last_error());
    free(path);
}

static void add_family(const mc_family *family) {
    for (size_t i = 0; mc_family_at(i); i++)
        if (mc_family_at(i) == family) return;
    mc_family_add(family);
}

char *own_model(const mc_family *family, const char *config) {
    static mc_decoder_spec spec; /* static for its size */
    static writer w;
    mc_config *json;
    mica_device *device;
    const mc_block_spec *block;
    char *dir = test_temp_dir(), *other = fixture_path("llama3_rope_sharded/tokenizer.json");
    char *path = test_format("%s/tokenizer.json", dir);
    test_copy_file(other, path);
    test_write_below(dir, "config.json", config);
    add_family(family);
    assert_int_equal(mc_config_parse(config, strlen(config), "config.json", &json), MICA_OK);
    mc_config_scope root = mc_config_root(json);
    spec = (mc_decoder_spec){.family = family->name};
    if (family->read(&root, &spec) != MICA_OK) fail_msg("%s", mica_last_error());
    assert_int_equal(mica_device_open("cpu", NULL, &device), MICA_OK);
    w = (writer){0};
    assert_int_equal(mica_scope_open(device, &w.s), MICA_OK);
    add_tensor(&w, test_format("model.%s.weight", spec.names.embed),
               (int64_t[]){VOCAB, spec.hidden}, 2, 0);
    add_tensor(&w, test_format("model.%s.weight", spec.names.norm), &spec.hidden, 1, 1);
    for (int layer = 0; layer < spec.n_layers; layer++)
        for (int k = 0; (block = mc_spec_block(&spec, layer, k)); k++)
            for (int i = 0; i < block->kind->n_slots; i++)
                add_slot(&w, block, i, layer);
    save(dir, w.arrays, w.n, true);
    for (size_t i = 0; i < w.n; i++)
        free((void *)(uintptr_t)w.arrays[i].name);
    mica_scope_close(&w.s);
    mica_device_close(&device);
    mc_config_close(&json);
    free(path);
    free(other);
    return dir;
}

mc_lm *own_open(mica_device *device, const char *folder) {
    mc_lm *lm;
    if (mc_lm_open(folder, device, NULL, &lm) != MICA_OK) fail_msg("%s", mica_last_error());
    return lm;
}

/* Adds experts' matrices as tensors of their own, or any other tensor as it is. */
static void split(writer *w, const mica_named_array *x, int experts) {
    static const char mark[] = "switch_mlp.";
    const char *at = strstr(x->name, mark);
    for (int i = 0; i < (at ? experts : 1); i++) {
        mica_named_array *to = &w->arrays[w->n++];
        assert_true(w->n <= MAX_ARRAYS);
        to->name = at ? test_format("%.*sexperts.%d.%s", (int)(at - x->name), x->name, i,
                                    at + strlen(mark))
                      : test_format("%s", x->name);
        to->array =
            at ? mica_squeeze(w->s, mica_slice_axis(w->s, x->array, 0, i, i + 1), 0) : x->array;
    }
}

static char *list_experts(const char *folder, const char *type, int experts, bool even) {
    static writer w;
    char *from = test_format("%s\"", type), *to = test_format("%s\", \"listed\": true", type);
    char *dir = fixture_copy_folder(folder, "config.json", from, to);
    mica_device *device;
    mica_named_array *arrays;
    size_t n;
    w = (writer){0};
    assert_int_equal(mica_device_open("cpu", NULL, &device), MICA_OK);
    assert_int_equal(mica_scope_open(device, &w.s), MICA_OK);
    assert_int_equal(mica_load_safetensors(dir, w.s, &arrays, &n), MICA_OK);
    for (size_t i = 0; i < n; i++)
        split(&w, &arrays[i], experts);
    save(dir, w.arrays, w.n, even);
    for (size_t i = 0; i < w.n; i++)
        free((void *)(uintptr_t)w.arrays[i].name);
    mica_free(arrays);
    mica_scope_close(&w.s);
    mica_device_close(&device);
    free(from);
    free(to);
    return dir;
}

char *own_list_experts(const char *folder, const char *type, int experts) {
    return list_experts(folder, type, experts, true);
}

/* ---- passes ---- */

/* Logits of [rows, n] ids; freed with free(). */
static float *run(mica_device *device, const mc_lm *lm, const int32_t *ids, int64_t rows,
                  int64_t n) {
    const int64_t shape[] = {rows, n};
    size_t bytes = (size_t)(rows * n * VOCAB) * sizeof(float);
    float *logits = malloc(bytes);
    mica_scope *s;
    assert_int_equal(mica_scope_open(device, &s), MICA_OK);
    mica_array x = mica_from_data(s, ids, MICA_I32, shape, 2);
    mica_array y = mc_lm_forward(s, lm, x, mica_i32(s, 0), NULL, MC_ALL_LOGITS);
    if (mica_read(y, logits, bytes) != MICA_OK) fail_msg("%s", mica_last_error());
    mica_scope_close(&s);
    return logits;
}

/* Feeds a session the text from `from` to `to` in chunks, and compares each chunk's last logits. */
static void feed(mc_session *session, int from, int to, int chunk, const float *want) {
    const float *got;
    for (int at = from; at < to; at += chunk) {
        int n = at + chunk < to ? chunk : to - at;
        if (mc_session_feed(session, own_text + at, n, &got) != MICA_OK)
            fail_msg("%s", mica_last_error());
        fixture_compare(got, want + (size_t)(at + n - 1) * VOCAB, VOCAB, 0.0,
                        "token %d of %d by %d", at, to, chunk);
    }
}

void own_check_passes(const char *folder) {
    static const int chunks[] = {1, 4, OWN_TEXT};
    mica_device *device;
    mc_session *session;
    assert_int_equal(mica_device_open("cpu", &(mica_device_options){.threads = 2}, &device),
                     MICA_OK);
    mc_lm *lm = own_open(device, folder);
    const mc_session_model model = {.lm = lm, .device = device};
    float *whole = run(device, lm, own_text, 1, OWN_TEXT);
    for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i++) {
        assert_int_equal(mc_session_open(&model, 0, &session), MICA_OK);
        feed(session, 0, OWN_TEXT, chunks[i], whole);
        mc_session_close(&session);
    }
    float *batch = run(device, lm, own_text, 3, OWN_TEXT / 3);
    for (int row = 0; row < 3; row++) {
        float *alone = run(device, lm, own_text + row * OWN_TEXT / 3, 1, OWN_TEXT / 3);
        fixture_compare(batch + (size_t)row * OWN_TEXT / 3 * VOCAB, alone, OWN_TEXT / 3 * VOCAB,
                        0.0, "row %d", row);
        free(alone);
    }
    free(batch);
    free(whole);
    mc_lm_close(&lm);
    mica_device_close(&device);
}

static void check_sessions(const char *folder, bool pooled) {
    mica_device *device;
    mc_kv_pool *pool = NULL;
    mc_session *session, *again = NULL;
    int32_t wrong[OWN_TEXT];
    assert_int_equal(mica_device_open("cpu", &(mica_device_options){.threads = 2}, &device),
                     MICA_OK);
    mc_lm *lm = own_open(device, folder);
    const mc_kv_pool_options options = {.bytes = 1 << 22, .block = 32, .sessions = 4};
    if (pooled && mc_kv_pool_open(lm, device, &options, &pool) != MICA_OK)
        fail_msg("%s", mica_last_error());
    const mc_session_model model = {.lm = lm, .device = device, .pool = pool};
    float *whole = run(device, lm, own_text, 1, OWN_TEXT);
    char *dir = test_temp_dir(), *path = test_format("%s/session", dir);
    assert_int_equal(mc_session_open(&model, 0, &session), MICA_OK);
    feed(session, 0, 10, 10, whole);
    if (mc_session_save(session, path) != MICA_OK ||
        mc_session_load(&model, path, 0, &again) != MICA_OK)
        fail_msg("%s", mica_last_error());
    feed(again, 10, OWN_TEXT, 3, whole);
    mc_session_close(&again);
    /* Tokens ahead, of which the second is wrong. */
    memcpy(wrong, own_text, sizeof wrong);
    wrong[11] = (wrong[11] + 1) % VOCAB;
    assert_int_equal(mc_session_look_ahead(session, wrong + 10, 4), MICA_OK);
    feed(session, 10, 14, 1, whole);
    /* Another text with the same beginning. */
    memcpy(wrong, own_text, sizeof wrong);
    wrong[8] = (wrong[8] + 1) % VOCAB;
    int64_t kept = mc_session_reuse(session, wrong, OWN_TEXT);
    assert_in_range(kept, 0, 8);
    const float *got;
    float *want = run(device, lm, wrong, 1, OWN_TEXT);
    assert_int_equal(mc_session_feed(session, wrong + kept, OWN_TEXT - kept, &got), MICA_OK);
    fixture_compare(got, want + (size_t)(OWN_TEXT - 1) * VOCAB, VOCAB, 0.0, "another text");
    mc_session_close(&session);
    free(want);
    free(whole);
    free(path);
    test_temp_dir_remove(dir);
    mc_kv_pool_close(&pool);
    mc_lm_close(&lm);
    mica_device_close(&device);
}

void own_check_sessions(const char *folder) {
    check_sessions(folder, false);
    check_sessions(folder, true);
}

/* ---- weights ---- */

/* The mean of |a - b| over the mean of |a|. */
static double distance(const float *a, const float *b, size_t n) {
    double difference = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        difference += fabs((double)a[i] - (double)b[i]);
        size += fabs((double)a[i]);
    }
    return difference / size;
}

/* Logits of the text by the model of a folder, with an adapter unless that is NULL. */
static float *logits_of(const char *folder, const char *adapter, const char *module,
                        bool *quantised) {
    mica_device *device;
    assert_int_equal(mica_device_open("cpu", &(mica_device_options){.threads = 2}, &device),
                     MICA_OK);
    mc_lm *lm = own_open(device, folder);
    if (adapter && mc_lm_adapt(lm, adapter) != MICA_OK) fail_msg("%s", mica_last_error());
    const mc_lm_slot *w = mc_lm_find(lm, mc_str_of(module));
    assert_non_null(w);
    if (adapter) assert_true(mica_valid(w->linear.lora_a));
    if (quantised) *quantised = w->linear.quantised;
    float *logits = run(device, lm, own_text, 1, OWN_TEXT);
    mc_lm_close(&lm);
    mica_device_close(&device);
    return logits;
}

/* Whether the models of two folders compute much the same. */
static void expect_near(float *a, float *b, double least, double most, const char *what) {
    double d = distance(a, b, OWN_TEXT * VOCAB);
    printf("%s: %g\n", what, d);
    if (!(d >= least && d <= most)) fail_msg("%s: %g, want %g..%g", what, d, least, most);
}

void own_check_quantised(const char *folder, const char *module, const char *written) {
    static const int bits[] = {8, 4};
    char *dir = test_temp_dir();
    float *before = logits_of(folder, NULL, module, NULL);
    for (size_t i = 0; i < 2; i++) {
        bool quantised;
        char *to = test_format("%s/q%d", dir, bits[i]);
        const mica_convert_options options = {.quantise = true,
                                              .quant = {.bits = bits[i], .group_size = 32}};
        if (mica_convert(folder, to, &options, NULL) != MICA_OK) fail_msg("%s", mica_last_error());
        float *after = logits_of(to, NULL, written ? written : module, &quantised);
        assert_true(quantised);
        expect_near(before, after, 1e-4, bits[i] == 8 ? 0.1 : 1.0, "quantised");
        free(after);
        free(to);
    }
    free(before);
    test_temp_dir_remove(dir);
}

static void compare_listed(const char *stacked, const char *listed, const char *module, bool even) {
    mica_device *device;
    assert_int_equal(mica_device_open("cpu", NULL, &device), MICA_OK);
    mc_lm *a = own_open(device, stacked), *b = own_open(device, listed);
    float *want = run(device, a, own_text, 1, OWN_TEXT);
    float *got = run(device, b, own_text, 1, OWN_TEXT);
    fixture_compare(got, want, OWN_TEXT * VOCAB, 0.0, "%s", listed);
    const mc_linear *l = &mc_lm_find(b, mc_str_of(module))->linear;
    const mc_layout *layout = &mc_node_of(l->weight)->layout;
    bool apart = layout->strides[0] > layout->shape[1] * layout->shape[2];
    assert_true(mica_valid(l->places) == even && apart == even);
    free(want);
    free(got);
    mc_lm_close(&a);
    mc_lm_close(&b);
    mica_device_close(&device);
}

void own_check_listed(const char *folder, const char *type, int experts, const char *module) {
    const mica_convert_options options = {.quantise = true, .quant = {.bits = 4, .group_size = 32}};
    char *dir = test_temp_dir();
    char *from = test_format("%s/stacked", dir), *to = test_format("%s/listed", dir);
    char *even = list_experts(folder, type, experts, true);
    char *uneven = list_experts(folder, type, experts, false);
    compare_listed(folder, even, module, true);
    compare_listed(folder, uneven, module, false);
    if (mica_convert(folder, from, &options, NULL) != MICA_OK ||
        mica_convert(even, to, &options, NULL) != MICA_OK)
        fail_msg("%s", mica_last_error());
    compare_listed(from, to, module, true);
    free(from);
    free(to);
    test_temp_dir_remove(dir);
    test_temp_dir_remove(even);
    test_temp_dir_remove(uneven);
}

/* Divides a folder's weights: those of the second expert go to a file of their own. */
static void shard(const char *folder) {
    static mica_named_array parts[2][MAX_ARRAYS];
    size_t counts[2] = {0}, n;
    char *whole = test_format("%s/model.safetensors", folder);
    mica_device *device;
    mica_scope *s;
    mica_named_array *arrays;
    assert_int_equal(mica_device_open("cpu", NULL, &device), MICA_OK);
    assert_int_equal(mica_scope_open(device, &s), MICA_OK);
    assert_int_equal(mica_load_safetensors(folder, s, &arrays, &n), MICA_OK);
    for (size_t i = 0; i < n; i++) {
        int part = strstr(arrays[i].name, "experts.1.") != NULL;
        parts[part][counts[part]++] = arrays[i];
    }
    for (int i = 0; i < 2; i++) {
        char *path = test_format("%s/model-0000%d-of-00002.safetensors", folder, i + 1);
        assert_true(counts[i] > 0);
        assert_int_equal(mica_save_safetensors(path, parts[i], counts[i], NULL, 0), MICA_OK);
        free(path);
    }
    assert_int_equal(remove(whole), 0);
    mica_free(arrays);
    mica_scope_close(&s);
    mica_device_close(&device);
    free(whole);
}

void own_check_sharded(const char *folder, const char *type, const char *module) {
    char *listed = own_list_experts(folder, type, 2);
    shard(listed);
    compare_listed(folder, listed, module, false);
    test_temp_dir_remove(listed);
}

void own_check_tuned(const char *folder, const char *module) {
    mica_tuner *tuner;
    char *dir = test_temp_dir(), *adapter = test_format("%s/adapter", dir);
    char *fused = test_format("%s/fused", dir);
    const char *modules[] = {strchr(strchr(module, '.') + 1, '.') + 1};
    const mica_optimizer_options adam = {.name = "adam", .learning_rate = 1e-2};
    const mica_tune_options options = {
        .data = dir, .adapter = adapter, .optimizer = &adam, .batch_size = 2, .iterations = 4};
    test_write_below(dir, "train.jsonl",
                     "{\"text\": \"a b\"}\n"
                     "{\"text\": \"c d e\"}\n");
    if (mica_tuner_open(folder, &(mica_tuner_options){.threads = 2}, &tuner) != MICA_OK ||
        mica_lora_apply(tuner,
                        &(mica_lora_options){.rank = 2, .modules = modules, .n_modules = 1}) !=
            MICA_OK ||
        mica_tune(tuner, &options, NULL) != MICA_OK ||
        mica_convert(folder, fused, &(mica_convert_options){.adapter = adapter}, NULL) != MICA_OK)
        fail_msg("%s", mica_last_error());
    mica_tuner_close(&tuner);
    float *before = logits_of(folder, NULL, module, NULL);
    float *beside = logits_of(folder, adapter, module, NULL);
    float *within = logits_of(fused, NULL, module, NULL);
    expect_near(before, beside, 1e-3, 10.0, "tuned");
    expect_near(beside, within, 0.0, 1e-4, "fused");
    free(before);
    free(beside);
    free(within);
    free(adapter);
    free(fused);
    test_temp_dir_remove(dir);
}
