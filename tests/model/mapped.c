/* Models that are larger than the memory run from the map of their files: of experts those are read
 * that a token picks, and of the inputs of layers its row. A guard counts the pages that are
 * touched: nobody may read them, until the handler of the fault lets it. */
#define _DEFAULT_SOURCE
#include "model/own_family.h"

#include "session/session.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- the guard ---- */

enum { MAX_PAGES = 1 << 14 };

static struct {
    uint8_t *from;
    size_t pages, page;
    atomic_bool touched[MAX_PAGES];
} guard;

static struct sigaction before[2];

static void note(int signal, siginfo_t *info, void *context) {
    uintptr_t at = (uintptr_t)info->si_addr, from = (uintptr_t)guard.from;
    (void)context;
    if (!guard.from || at < from || at >= from + guard.pages * guard.page) {
        sigaction(signal, &before[signal == SIGBUS], NULL); /* the fault comes again */
        return;
    }
    size_t page = (at - from) / guard.page;
    int error = errno;
    mprotect(guard.from + page * guard.page, guard.page, PROT_READ);
    errno = error;
    guard.touched[page] = true;
}

/* Guards the whole pages from the first to the last of the tensors that have a text in their name;
 * they lie in one file. */
static void guard_tensors(const mc_lm *lm, const char *part) {
    static const int signals[] = {SIGSEGV, SIGBUS}; /* the latter is Darwin's */
    uintptr_t from = UINTPTR_MAX, to = 0;
    struct sigaction action = {.sa_flags = SA_SIGINFO};
    for (size_t i = 0; i < mc_weights_count(lm->weights); i++) {
        const mc_weight_tensor *t = mc_weights_at(lm->weights, i);
        uintptr_t data = (uintptr_t)t->data;
        if (!strstr(t->name, part)) continue;
        if (data < from) from = data;
        if (data + t->bytes > to) to = data + t->bytes;
    }
    guard.page = (size_t)sysconf(_SC_PAGESIZE);
    from = (from + guard.page - 1) / guard.page * guard.page;
    to = to / guard.page * guard.page;
    guard.pages = to > from ? (to - from) / guard.page : 0;
    assert_true(guard.pages <= MAX_PAGES);
    memset((void *)guard.touched, 0, sizeof guard.touched);
    guard.from = (uint8_t *)from;
    action.sa_sigaction = note;
    for (int i = 0; i < 2; i++)
        assert_int_equal(sigaction(signals[i], &action, &before[i]), 0);
    assert_int_equal(mprotect(guard.from, guard.pages * guard.page, PROT_NONE), 0);
}

static void unguard(void) {
    mprotect(guard.from, guard.pages * guard.page, PROT_READ);
    guard.from = NULL;
    sigaction(SIGSEGV, &before[0], NULL);
    sigaction(SIGBUS, &before[1], NULL);
}

/* How many of the pages that lie wholly within some bytes were touched; *of: how many there are. */
static size_t touched_within(const uint8_t *data, size_t bytes, size_t *of) {
    uintptr_t base = (uintptr_t)guard.from, from = (uintptr_t)data, to = from + bytes;
    size_t n = 0;
    *of = 0;
    for (size_t i = 0; i < guard.pages; i++) {
        uintptr_t page = base + i * guard.page;
        if (page < from || page + guard.page > to) continue;
        n += guard.touched[i];
        ++*of;
    }
    return n;
}

static const mc_weight_tensor *tensor_of(const mc_lm *lm, const char *name) {
    const mc_weight_tensor *t = mc_weights_find(lm->weights, name);
    if (!t) fail_msg("there is no tensor %s", name);
    return t;
}

/* A decode step. */
static void step(mica_device *device, const mc_lm *lm, int32_t id) {
    const mc_session_model shared = {.lm = lm, .device = device};
    mc_session *session;
    const float *logits;
    assert_int_equal(mc_session_open(&shared, 0, &session), MICA_OK);
    if (mc_session_feed(session, &id, 1, &logits) != MICA_OK) fail_msg("%s", mica_last_error());
    mc_session_close(&session);
}

/* ---- experts ---- */

enum { EXPERTS = 8, PICKS = 2, LAYERS = 3 };

/* [layer] which experts' pages of a kind of matrices were touched. A page belongs to the experts
 * whose bytes are all over it. */
static unsigned picked(const mc_lm *lm, int layer, const char *kind) {
    char *name = test_format("model.layers.%d.mlp.switch_mlp.%s.weight", layer, kind);
    const mc_weight_tensor *t = tensor_of(lm, name);
    size_t each = t->bytes / EXPERTS, of;
    unsigned all = 0;
    for (unsigned i = 0; i < EXPERTS; i++) {
        size_t n = touched_within((const uint8_t *)t->data + i * each, each, &of);
        assert_true(of > 0);
        if (n != 0 && n != of) fail_msg("%s: %zu of %zu pages of expert %u", name, n, of, i);
        all |= (unsigned)(n > 0) << i;
    }
    free(name);
    return all;
}

static int count(unsigned bits) {
    int n = 0;
    for (; bits; bits &= bits - 1)
        n++;
    return n;
}

static void test_experts(void **state) {
    (void)state;
    char *folder = own_model(
        &mc_family_qwen3_moe,
        "{\"model_type\": \"qwen3_moe\", \"hidden_size\": 128, \"num_hidden_layers\": 3, "
        "\"intermediate_size\": 128, \"moe_intermediate_size\": 256, \"num_experts\": 8, "
        "\"num_experts_per_tok\": 2, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, "
        "\"head_dim\": 32, \"vocab_size\": 448, \"norm_topk_prob\": true, "
        "\"tie_word_embeddings\": true}");
    mica_device *device;
    unsigned all = 0;
    assert_int_equal(mica_device_open("cpu", &(mica_device_options){.threads = 2}, &device),
                     MICA_OK);
    mc_lm *lm = own_open(device, folder);
    mica_model_info info = mc_lm_describe(lm);
    size_t matrix = tensor_of(lm, "model.layers.0.mlp.switch_mlp.up_proj.weight")->bytes;
    assert_int_equal(info.weight_bytes - info.active_bytes,
                     3 * LAYERS * matrix / EXPERTS * (EXPERTS - PICKS));
    for (int32_t id = 5; id < 300; id += 37) {
        guard_tensors(lm, "switch_mlp");
        step(device, lm, id);
        for (int i = 0; i < LAYERS; i++) {
            unsigned gate = picked(lm, i, "gate_proj");
            assert_int_equal(count(gate), PICKS);
            assert_int_equal(picked(lm, i, "up_proj"), gate);
            assert_int_equal(picked(lm, i, "down_proj"), gate);
            all |= gate;
        }
        unguard();
    }
    assert_true(count(all) > PICKS);
    mc_lm_close(&lm);
    mica_device_close(&device);
    test_temp_dir_remove(folder);
}

/* ---- inputs of layers ---- */

static size_t spared; /* pages of tables that were not touched */

static uintptr_t base_of(const mc_weight_tensor *t) {
    return (uintptr_t)t->data - t->begin;
}

/* Whether a tensor lies where others of its file do: one that is unaligned there is a copy, whose
 * pages others of the heap share. */
static bool is_mapped(const mc_lm *lm, const mc_weight_tensor *t) {
    for (size_t i = 0; i < mc_weights_count(lm->weights); i++) {
        const mc_weight_tensor *other = mc_weights_at(lm->weights, i);
        if (other != t && other->data && base_of(other) == base_of(t)) return true;
    }
    return false;
}

/* Of every model of the fixtures that has such a table in its map. */
static void check_table(const model_fixture *f) {
    static const char *const table_name = "embed_tokens_per_layer.weight";
    const mc_weight_tensor *table = NULL;
    for (size_t i = 0; i < mc_weights_count(f->lm->weights); i++) {
        const mc_weight_tensor *t = mc_weights_at(f->lm->weights, i);
        if (strstr(t->name, table_name)) table = t;
    }
    if (!table || !is_mapped(f->lm, table)) return;
    size_t of, row = table->bytes / (size_t)table->shape[0];
    guard_tensors(f->lm, table_name);
    step(f->device, f->lm, (int32_t)(table->shape[0] / 2));
    size_t n = touched_within(table->data, table->bytes, &of);
    unguard();
    if (n > row / guard.page + 1)
        fail_msg("%s: %zu of %zu pages are read for a row of %zu bytes", f->name, n, of, row);
    spared += of - n;
}

static void test_layer_inputs(void **state) {
    (void)state;
    spared = 0;
    fixture_each(check_table);
    if (sysconf(_SC_PAGESIZE) <= 4096) assert_true(spared > 0); /* tables are small */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_experts),
        cmocka_unit_test(test_layer_inputs),
    };
    return cmocka_run_group_tests_name("model/mapped", tests, NULL, NULL);
}
