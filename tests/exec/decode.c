/* A decode step of a model as a program whose token, position and caches are fed by its own results
 * (handles out0, out1, ...): a run takes nothing and gives the next token. It gives the tokens of
 * mica_generate_ids, allocates nothing, writes its caches where they are, and copies none. */
#include <mica/mica.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "device/device.h"
#include "exec/expect.h"
#include "graph/graph.h"
#include "model/load/load.h"

enum { ROOM = 64, TOKENS = 24, MAX_LAYERS = 64, FIRST = 2 };

/* The caches while a pass is recorded: parameters, and what they become. */
typedef struct caches {
    mica_array position;
    mica_array before[2 * MAX_LAYERS], after[2 * MAX_LAYERS];
} caches;

static mc_attended append(void *context, mica_scope *s, int layer, mica_array k, mica_array v) {
    caches *c = context;
    mica_array *after = &c->after[2 * layer], *before = &c->before[2 * layer];
    after[0] = mica_slice_update_at(s, before[0], k, c->position, 2);
    after[1] = mica_slice_update_at(s, before[1], v, c->position, 2);
    return (mc_attended){.k = after[0], .v = after[1], .offset = c->position};
}

/* Parameters out0, the token i32 [1, 1], out1, its position i32 [], then keys and values of each
 * layer; results the same of the next step. */
static mica_program *record(mica_device *device, const mc_lm *lm) {
    mica_scope *s;
    caches c;
    mica_param params[FIRST + 2 * MAX_LAYERS];
    mica_array results[FIRST + 2 * MAX_LAYERS];
    char names[FIRST + 2 * MAX_LAYERS][16];
    const char *result_names[FIRST + 2 * MAX_LAYERS];
    const int n = FIRST + 2 * lm->spec.n_layers;
    const int64_t shape[4] = {1, lm->spec.kv_heads, ROOM, mc_lm_kv_width(lm, lm->spec.head_dim)};
    mica_program *p;
    assert_true(lm->spec.n_layers <= MAX_LAYERS);
    must(mica_scope_open(device, &s));
    mica_array token = mica_program_param(s, MICA_I32, (int64_t[]){1, 1}, 2);
    c.position = mica_program_param(s, MICA_I32, NULL, 0);
    for (int i = 0; i < n; i++) {
        snprintf(names[i], sizeof names[i], "out%d", i);
        params[i] = (mica_param){.name = names[i], .donate = i >= FIRST};
        result_names[i] = i == 0 ? "token" : names[i];
        if (i >= FIRST) c.before[i - FIRST] = mica_program_param(s, lm->kv_dtype, shape, 4);
        params[i].array = i == 0 ? token : i == 1 ? c.position : c.before[i - FIRST];
    }
    const mc_kv_store store = {.append = append, .context = &c};
    mica_array logits = mc_lm_forward(s, lm, token, c.position, &store, MC_LAST_LOGITS);
    results[0] = mica_astype(s, mica_argmax(s, logits, -1, false), MICA_I32);
    results[1] = mica_add(s, c.position, mica_i32(s, 1));
    memcpy(&results[FIRST], c.after, (size_t)(n - FIRST) * sizeof *results);
    must(mica_program_build(s, params, (size_t)n, results, (size_t)n,
                            &(mica_program_options){.result_names = result_names}, &p));
    mica_scope_close(&s);
    return p;
}

/* The ids that mica gives after a prompt. */
static void generate(const char *folder, const int32_t *prompt, size_t n, int32_t *ids) {
    const mica_model_options options = {.arithmetic = MICA_ARITHMETIC_EXACT};
    const mica_generate_options greedy = {.max_tokens = TOKENS, .ignore_eos = true};
    mica_model *model;
    mica_session *session;
    mica_stream *stream;
    mica_token token;
    must(mica_model_open(folder, &options, &model));
    must(mica_session_open(model, NULL, &session));
    must(mica_generate_ids(session, prompt, n, &greedy, &stream));
    for (int i = 0; i < TOKENS; i++) {
        if (!mica_stream_next(stream, &token)) fail_msg("%d tokens: %s", i, mica_last_error());
        ids[i] = token.id;
    }
    mica_stream_close(&stream);
    mica_session_close(&session);
    mica_model_close(&model);
}

/* Where the caches are. */
static void find_caches(mica_executable *x, mica_device *device, int n, void **memory) {
    mica_scope *s;
    mica_array cache;
    must(mica_scope_open(device, &s));
    for (int i = 0; i < n; i++) {
        char name[16];
        snprintf(name, sizeof name, "out%d", FIRST + i);
        must(mica_executable_get(x, name, s, &cache));
        memory[i] = mc_node_of(cache)->storage->address;
    }
    mica_scope_close(&s);
}

/* Only the token has a slot: caches are not copied out. */
static const int32_t *open_slots(mica_executable *x, mica_executable *clone) {
    const mica_slot *slots;
    size_t n_slots;
    must(mica_executable_slots(clone, &slots, &n_slots));
    assert_int_equal(n_slots, 1);
    must(mica_executable_slots(x, &slots, &n_slots));
    assert_int_equal(n_slots, 1);
    assert_string_equal(slots[0].name, "token");
    assert_int_equal(slots[0].offset, 0);
    assert_int_equal(slots[0].bytes, sizeof(int32_t));
    return mica_executable_arena(x);
}

static void decode(mica_device *device, const mc_lm *lm, mica_mode mode, const int32_t *prompt,
                   size_t n, const int32_t *want) {
    const int n_caches = 2 * lm->spec.n_layers;
    const mica_executable_options options = {
        .mode = mode, .slots = (const char *const[]){"token"}, .n_slots = 1};
    mica_program *p = record(device, lm);
    mica_executable *x, *clone;
    void *before[2 * MAX_LAYERS], *after[2 * MAX_LAYERS];
    must(mica_executable_open(p, &options, &x));
    for (size_t i = 1; i < mica_program_param_count(p); i++) {
        mica_port port;
        must(mica_program_get_param(p, i, &port));
        must(mica_executable_fill(x, port.name, 0));
    }
    must(mica_executable_clone(x, &clone));
    const int32_t *next = open_slots(x, clone);
    mica_executable_close(&clone);
    const void *inputs[FIRST + 2 * MAX_LAYERS] = {NULL};
    for (size_t i = 0; i < n; i++) { /* of the prompt, one by one; what they give is not fed */
        inputs[0] = &prompt[i];
        must(mica_executable_run_slots(x, inputs, mica_program_param_count(p)));
    }
    inputs[0] = NULL;
    find_caches(x, device, n_caches, before);
    for (int i = 0; i < TOKENS; i++) {
        if (*next != want[i]) fail_msg("token %d is %d, not %d", i, (int)*next, (int)want[i]);
        uint64_t allocations = mc_alloc_count();
        must(mica_executable_run_slots(x, inputs, mica_program_param_count(p)));
        if (mode != MICA_MODE_EAGER && i > 0) assert_int_equal(mc_alloc_count(), allocations);
    }
    find_caches(x, device, n_caches, after);
    for (int i = 0; mode != MICA_MODE_EAGER && i < n_caches; i++)
        assert_ptr_equal(after[i], before[i]);
    mica_executable_close(&x);
    mica_program_close(&p);
}

static void test_a_decode_step(void **state) {
    (void)state;
    static const int32_t prompt[] = {1, 40, 77, 5, 93};
    char *folder = test_format("%s/default", test_models_dir());
    int32_t want[TOKENS];
    mica_device *device;
    mc_lm *lm;
    generate(folder, prompt, sizeof prompt / sizeof *prompt, want);
    assert_true(want[0] != want[1] || want[1] != want[2]); /* not one token again and again */
    must(mica_device_open("cpu", &(mica_device_options){.threads = 2}, &device));
    must(mc_lm_open(folder, device, NULL, &lm));
    for (mica_mode mode = MICA_MODE_LAZY; mode <= MICA_MODE_COMPILED; mode++)
        decode(device, lm, mode, prompt, sizeof prompt / sizeof *prompt, want);
    mc_lm_close(&lm);
    mica_device_close(&device);
    free(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_decode_step)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
