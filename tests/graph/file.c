/* Graphs saved and loaded: the same bytes again, the same values; and files that are not whole. */
#include "graph/file.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "graph/dim.h"
#include "graph/graphs.h"
#include "support/support.h"

enum { HEADER_BYTES = 72, MAX_VALUE_BYTES = 1 << 16, MUTATIONS = 10000 };

/* ---- saving and loading ---- */

/* The graph that is loaded has its arguments and named constants from the one that was saved. */
static const char *name_of_w(void *context, mica_array constant) {
    const test_graph *g = context;
    return constant.node == g->w.node ? "model.w" : NULL;
}

static mica_status read_constant(void *context, mica_array constant, void *data, size_t bytes) {
    (void)context;
    return mica_read(constant, data, bytes);
}

static mica_array inside(void *context, mica_scope *into, const mc_layout *layout,
                         const void *data) {
    (void)context;
    return mica_from_data(into, data, layout->dtype, layout->shape, layout->ndim);
}

static mica_array copy(mica_scope *into, mica_array x) {
    static char bytes[MAX_VALUE_BYTES];
    const mc_layout *l = mc_layout_of(x);
    size_t n = (size_t)mc_layout_bytes(l);
    assert_true(n <= sizeof bytes);
    assert_int_equal(mica_read(x, bytes, n), MICA_OK);
    return mica_from_data(into, bytes, l->dtype, l->shape, l->ndim);
}

static mica_array named(void *context, mica_scope *into, const char *name,
                        const mc_layout *layout) {
    test_graph *g = context;
    (void)layout;
    if (strcmp(name, "model.w") == 0) return copy(into, g->w);
    return mc_scope_fail(into, MICA_ENOENT, "there is no tensor %s", name);
}

static mica_array param(void *context, mica_scope *into, const mc_graph_port *port,
                        const mc_layout *layout) {
    test_graph *g = context;
    (void)layout;
    return copy(into, strcmp(port->name, "x") == 0   ? g->x
                      : strcmp(port->name, "k") == 0 ? g->k
                                                     : g->cache);
}

static mc_graph_saver saver_of(test_graph *g) {
    return (mc_graph_saver){.name = name_of_w, .read = read_constant, .context = g};
}

static mc_graph_loader loader_of(test_graph *g) {
    return (mc_graph_loader){.param = param, .named = named, .inside = inside, .context = g};
}

static mc_buffer save(test_graph *g) {
    mc_buffer file = {0};
    mc_graph_saver saver = saver_of(g);
    if (mc_graph_write(g->s, &g->ports, &saver, &file) != MICA_OK)
        fail_msg("%s", mica_last_error());
    return file;
}

/* A graph loaded, with what it was loaded by. */
typedef struct loaded {
    mica_scope *s;
    mc_arena arena;
    mc_graph_ports ports;
    mica_status status;
} loaded;

static loaded load(mica_device *device, const mc_graph_loader *loader, const void *data,
                   size_t bytes) {
    loaded l = {0};
    assert_int_equal(mica_scope_open(device, &l.s), MICA_OK);
    l.status = mc_graph_read(data, bytes, "a.graph", l.s, loader, &l.arena, &l.ports);
    return l;
}

static void unload(loaded *l) {
    mica_scope_close(&l->s);
    mc_arena_deinit(&l->arena);
}

static void expect_same_values(mica_array x, mica_array y) {
    static char a[MAX_VALUE_BYTES], b[MAX_VALUE_BYTES];
    size_t n = (size_t)mc_layout_bytes(mc_layout_of(x));
    assert_true(n <= sizeof a && (int64_t)n == mc_layout_bytes(mc_layout_of(y)));
    assert_int_equal(mica_array_dtype(x), mica_array_dtype(y));
    assert_true(mc_layout_same_shape(mc_layout_of(x), mc_layout_of(y)));
    assert_int_equal(mica_read(x, a, n), MICA_OK);
    assert_int_equal(mica_read(y, b, n), MICA_OK);
    assert_memory_equal(a, b, n);
}

static void test_every_op_is_saved_and_loaded(void **state) {
    test_graph g;
    test_graph_open(&g, *state, NULL);
    bool seen[MC_OP_COUNT] = {false};
    for (uint32_t i = 0; i < mc_scope_count(g.s); i++)
        seen[mc_scope_node(g.s, i)->op] = true;
    for (int op = 0; op < MC_OP_COUNT; op++)
        if (!seen[op])
            fail_msg("no graph of these tests has the op %s", mc_op_get((mc_op)op)->name);

    mc_buffer first = save(&g);
    mc_graph_loader loader = loader_of(&g);
    loaded l = load(*state, &loader, first.data, first.len);
    if (l.status != MICA_OK) fail_msg("%s", mica_last_error());
    assert_int_equal(mc_graph_verify(l.s), MICA_OK);
    assert_int_equal(l.ports.n_params, g.ports.n_params);
    assert_int_equal(l.ports.n_results, g.ports.n_results);
    for (size_t i = 0; i < g.ports.n_params; i++) {
        assert_string_equal(l.ports.params[i].name, g.params[i].name);
        assert_true(l.ports.params[i].donate == g.params[i].donate);
    }

    test_graph again = {.s = l.s, .w = {l.s, MC_ABSENT}, .ports = l.ports};
    for (uint32_t i = 0; i < mc_scope_count(l.s); i++) /* the constant that was named */
        if (mica_array_dim((mica_array){l.s, i}, 1) == 64 && again.w.node == MC_ABSENT)
            again.w.node = i;
    mc_buffer second = save(&again);
    assert_int_equal(first.len, second.len);
    assert_memory_equal(first.data, second.data, first.len);

    for (size_t i = 0; i < g.ports.n_results; i++)
        expect_same_values((mica_array){g.s, g.results[i]}, (mica_array){l.s, l.ports.results[i]});
    mc_buffer third = save(&g); /* evaluated nodes are still the ops that they are */
    assert_int_equal(first.len, third.len);
    assert_memory_equal(first.data, third.data, first.len);
    mc_buffer_deinit(&first);
    mc_buffer_deinit(&second);
    mc_buffer_deinit(&third);
    unload(&l);
    test_graph_close(&g);
}

static void test_what_no_result_needs_is_left_out(void **state) {
    test_graph g;
    test_graph_open(&g, *state, &test_graph_parts[0]);
    g.ports.n_results = 1;
    mc_buffer file = save(&g);
    mc_graph_loader loader = loader_of(&g);
    loaded l = load(*state, &loader, file.data, file.len);
    assert_int_equal(l.status, MICA_OK);
    assert_int_equal(mc_scope_count(l.s), 4); /* three parameters and an op */
    mc_buffer text = {0};
    assert_int_equal(mc_graph_print(l.s, &l.ports, &text), MICA_OK);
    assert_string_equal(mc_buffer_cstr(&text), "param %0 x\n"
                                               "param %1 k\n"
                                               "param %2 cache donated\n"
                                               "%0 = leaf f32[4,6] ready\n"
                                               "%1 = leaf i32[4,6] ready\n"
                                               "%2 = leaf f32[8,6] ready\n"
                                               "%3 = abs f32[4,6] %0\n"
                                               "result %3\n");
    mc_buffer_deinit(&text);
    mc_buffer_deinit(&file);
    unload(&l);
    test_graph_close(&g);
}

/* Without a function for parameters they are leaves without data; one may be any node. */
static void test_parameters_without_data(void **state) {
    test_graph g;
    test_graph_open(&g, *state, &test_graph_parts[0]);
    mica_array sum = mica_add(g.s, g.x, mica_f32(g.s, 2));
    mica_array y = mica_exp(g.s, sum);
    g.params[0].node = sum.node;
    g.ports.n_params = 1;
    g.results[0] = y.node;
    g.ports.n_results = 1;
    mc_buffer file = save(&g);
    loaded l = load(*state, &(mc_graph_loader){.inside = inside}, file.data, file.len);
    assert_int_equal(l.status, MICA_OK);
    assert_int_equal(mc_graph_verify(l.s), MICA_OK);
    assert_int_equal(mc_scope_count(l.s), 2);
    assert_true(mc_scope_node(l.s, 0)->param);
    assert_true(mica_eval(l.s, (mica_array){l.s, l.ports.results[0]}) != MICA_OK);
    mc_buffer_deinit(&file);
    unload(&l);
    test_graph_close(&g);
}

static mica_status read_and_record(void *context, mica_array constant, void *data, size_t bytes) {
    (void)context;
    for (int i = 0; i < 300; i++)
        assert_true(mica_valid(mica_f32(constant.scope, 1)));
    return mica_read(constant, data, bytes);
}

/* What a saver records meanwhile is no part of the graph. */
static void test_a_saver_that_records(void **state) {
    test_graph g;
    test_graph_open(&g, *state, &test_graph_parts[6]);
    mc_buffer first = {0}, second = {0};
    mc_graph_saver saver = {.read = read_constant};
    assert_int_equal(mc_graph_write(g.s, &g.ports, &saver, &first), MICA_OK);
    saver.read = read_and_record;
    assert_int_equal(mc_graph_write(g.s, &g.ports, &saver, &second), MICA_OK);
    assert_int_equal(first.len, second.len);
    assert_memory_equal(first.data, second.data, first.len);
    mc_buffer_deinit(&first);
    mc_buffer_deinit(&second);
    test_graph_close(&g);
}

/* ---- what cannot be saved ---- */

static void expect_unsaved(test_graph *g, mica_status status, const char *part) {
    mc_buffer file = {0};
    mc_graph_saver saver = saver_of(g);
    assert_true(mc_buffer_add_text(&file, "before"));
    assert_int_equal(mc_graph_write(g->s, &g->ports, &saver, &file), status);
    if (!strstr(mica_last_error(), part)) fail_msg("\"%s\"", mica_last_error());
    assert_string_equal(mc_buffer_cstr(&file), "before");
    mc_buffer_deinit(&file);
}

static const char *bad_name(void *context, mica_array constant) {
    (void)context, (void)constant;
    return "\xff";
}

static mica_status refuse_to_read(void *context, mica_array constant, void *data, size_t bytes) {
    (void)context, (void)constant, (void)data, (void)bytes;
    return mc_fail(MICA_EDEVICE, "it is elsewhere");
}

static void test_what_cannot_be_saved(void **state) {
    test_graph g;
    test_graph_open(&g, *state, &test_graph_parts[7]);
    const test_graph whole = g;
    g.ports.params = g.params;
    g.params[1].node = g.params[0].node;
    expect_unsaved(&g, MICA_EINVAL, "listed twice");
    g.params[1].node = mc_scope_count(g.s);
    expect_unsaved(&g, MICA_EINVAL, "no node");
    g.params[1] = whole.params[1];
    g.params[1].name = "\xc3(";
    expect_unsaved(&g, MICA_EINVAL, "UTF-8");
    g.params[1] = whole.params[1];
    g.results[0] = MC_ABSENT;
    expect_unsaved(&g, MICA_EINVAL, "no node");
    for (uint32_t i = 0; i < mc_scope_count(g.s); i++)
        if (mc_scope_node(g.s, i)->op == MC_OP_SDPA_LSE) g.results[0] = i;
    expect_unsaved(&g, MICA_EINVAL, "several results");
    g.results[0] = whole.results[0];

    mc_buffer file = {0};
    mc_graph_saver saver = {.name = bad_name, .read = read_constant};
    assert_int_equal(mc_graph_write(g.s, &g.ports, &saver, &file), MICA_EINVAL);
    saver = (mc_graph_saver){.read = refuse_to_read};
    assert_int_equal(mc_graph_write(g.s, &g.ports, &saver, &file), MICA_EDEVICE);
    assert_int_equal(file.len, 0);
    mc_buffer_deinit(&file);

    mica_array moved = mica_move(g.s, g.w); /* a constant that is gone */
    assert_true(mica_valid(moved));
    expect_unsaved(&g, MICA_EINVAL, "has no data");
    test_graph_close(&g);
}

/* ---- what cannot be loaded ---- */

/* Sets the size and the hash of a changed file, so that what is behind them is read. */
static void mend(char *file, uint64_t bytes) {
    if (bytes < HEADER_BYTES) return;
    memcpy(file + 16, &bytes, sizeof bytes);
    uint64_t hash = mc_hash(file + 32, bytes - 32, 0);
    memcpy(file + 24, &hash, sizeof hash);
}

static void expect_unloaded(mica_device *device, const mc_graph_loader *loader, const void *data,
                            size_t bytes, mica_status status, const char *part) {
    loaded l = load(device, loader, data, bytes);
    assert_int_equal(l.status, status);
    if (!strstr(mica_last_error(), part)) fail_msg("\"%s\"", mica_last_error());
    assert_int_equal(l.ports.n_results, 0);
    unload(&l);
}

static void replace(mc_buffer *file, const char *from, const char *to) {
    for (size_t i = 0; i + strlen(from) <= file->len; i++) {
        if (memcmp(file->data + i, from, strlen(from)) != 0) continue;
        memcpy(file->data + i, to, strlen(to));
        mend(file->data, file->len);
        return;
    }
    fail_msg("%s is not in the file", from);
}

static void test_what_is_unknown(void **state) {
    test_graph g;
    test_graph_open(&g, *state, &test_graph_parts[7]);
    mc_graph_loader loader = loader_of(&g);
    mc_buffer file = save(&g);
    replace(&file, "layer_norm", "layer_form");
    expect_unloaded(*state, &loader, file.data, file.len, MICA_EUNSUPPORTED, "layer_form");
    replace(&file, "layer_form", "layer_norm");
    replace(&file, "softcap", "softcat");
    expect_unloaded(*state, &loader, file.data, file.len, MICA_EUNSUPPORTED, "softcat of sdpa");
    replace(&file, "softcat", "softcap");
    replace(&file, "model.w", "model.v");
    expect_unloaded(*state, &loader, file.data, file.len, MICA_ENOENT, "no tensor model.v");
    loader.named = NULL;
    expect_unloaded(*state, &loader, file.data, file.len, MICA_ENOENT,
                    "model.v is not in the file");
    file.data[8] = 7;
    expect_unloaded(*state, &loader, file.data, file.len, MICA_EUNSUPPORTED, "version 7");
    file.data[0] = 'N';
    expect_unloaded(*state, &loader, file.data, file.len, MICA_EFORMAT, "no graph's file");
    mc_buffer_deinit(&file);
    test_graph_close(&g);
}

/* An op of the application that is not registered here is named. */
static void test_an_unregistered_op(void **state) {
    test_graph g;
    test_graph_open(&g, *state, &test_graph_parts[10]);
    mc_graph_loader loader = loader_of(&g);
    mc_buffer file = save(&g);
    replace(&file, "test.difference", "test.indifferen");
    expect_unloaded(*state, &loader, file.data, file.len, MICA_EUNSUPPORTED,
                    "the op \"test.indifferen\" is not registered");
    mc_buffer_deinit(&file);
    test_graph_close(&g);
}

static mica_array other_shape(void *context, mica_scope *into, const char *name,
                              const mc_layout *layout) {
    (void)context, (void)name, (void)layout;
    return mica_from_data(into, (float[2]){0}, MICA_F32, (const int64_t[]){2}, 1);
}

/* The file's only result, the PART that is its last node, becomes the node before it. */
static void test_a_result_of_several(void **state) {
    test_graph g;
    test_graph_open(&g, *state, &test_graph_parts[7]);
    mc_graph_loader loader = loader_of(&g);
    for (uint32_t i = 0; i < mc_scope_count(g.s); i++)
        if (mc_scope_node(g.s, i)->op == MC_OP_PART) g.results[0] = i;
    g.ports.n_params = 0;
    g.ports.n_results = 1;
    mc_buffer file = save(&g);
    uint64_t result; /* behind the numbers of symbols and lengths, and its name, which is empty */
    char *at = file.data + HEADER_BYTES + 3 * sizeof result;
    memcpy(&result, at, sizeof result);
    result--;
    memcpy(at, &result, sizeof result);
    mend(file.data, file.len);
    expect_unloaded(*state, &loader, file.data, file.len, MICA_EFORMAT, "an op of several");
    mc_buffer_deinit(&file);
    test_graph_close(&g);
}

static void test_a_constant_of_another_shape(void **state) {
    test_graph g;
    test_graph_open(&g, *state, &test_graph_parts[7]);
    mc_graph_loader loader = loader_of(&g);
    mc_buffer file = save(&g);
    loader.named = other_shape;
    expect_unloaded(*state, &loader, file.data, file.len, MICA_EFORMAT,
                    "a leaf is f32[2], and the graph wants f32[4,64]");
    mc_buffer_deinit(&file);
    test_graph_close(&g);
}

/* Every beginning of a file, as it is and with a size and a hash that are right, from a block that
 * ends with it. */
static void test_files_that_were_cut(void **state) {
    test_graph g;
    test_graph_open(&g, *state, &test_graph_parts[7]);
    mc_graph_loader loader = loader_of(&g);
    mc_buffer file = save(&g);
    for (size_t bytes = 0; bytes < file.len; bytes++) {
        char *cut = malloc(bytes ? bytes : 1);
        assert_non_null(cut);
        memcpy(cut, file.data, bytes);
        expect_unloaded(*state, &loader, cut, bytes, MICA_EFORMAT, "a.graph: ");
        mend(cut, bytes);
        if (bytes % 64 == 0)
            expect_unloaded(*state, &loader, cut, bytes, MICA_EFORMAT, "a.graph: ");
        free(cut);
    }
    mc_buffer_deinit(&file);
    test_graph_close(&g);
}

static uint64_t next_random(uint64_t *state) { /* splitmix64 */
    uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

/* Whether evaluating it costs little. */
static bool is_small(const mica_scope *s) {
    for (uint32_t i = 0; i < mc_scope_count(s); i++)
        if (mc_layout_size(&mc_scope_node(s, i)->layout) > 4096) return false;
    return true;
}

static void look_at(loaded *l, bool evaluate) {
    mc_buffer text = {0};
    assert_int_equal(mc_graph_verify(l->s), MICA_OK);
    assert_int_equal(mc_graph_print(l->s, &l->ports, &text), MICA_OK);
    mc_buffer_deinit(&text);
    for (size_t i = 0; evaluate && i < l->ports.n_results; i++)
        (void)mica_eval(l->s, (mica_array){l->s, l->ports.results[i]});
}

/* A few bytes, or a word, of a file changed, whose hash is right: a status, or a graph. */
static void test_files_that_were_changed(void **state) {
    test_graph g;
    uint64_t random = 1;
    int loads = 0;
    for (size_t part = 0; part < test_graph_n_parts; part++) {
        test_graph_open(&g, *state, &test_graph_parts[part]);
        mc_graph_loader loader = loader_of(&g);
        mc_buffer file = save(&g);
        char *changed = malloc(file.len);
        assert_non_null(changed);
        for (size_t i = 0; i < MUTATIONS / test_graph_n_parts; i++) {
            memcpy(changed, file.data, file.len);
            for (uint64_t n = 1 + next_random(&random) % 3; n > 0; n--) {
                uint64_t word = next_random(&random);
                size_t at = HEADER_BYTES - 40 + next_random(&random) % (file.len - 32);
                changed[at] = (char)(word % 3 == 0 ? word >> 8 : word >> 8 & 3);
            }
            if (i % 8) mend(changed, file.len);
            loaded l = load(*state, &loader, changed, file.len);
            if (l.status == MICA_OK) look_at(&l, ++loads % 4 == 0 && is_small(l.s));
            if (l.status != MICA_OK) assert_true(*mica_last_error());
            unload(&l);
        }
        free(changed);
        mc_buffer_deinit(&file);
        test_graph_close(&g);
    }
    assert_true(loads > MUTATIONS / 10);
}

/* ---- files that are small, and graphs that are not ---- */

static void add(mc_buffer *file, uint64_t word) {
    assert_true(mc_buffer_add(file, &word, sizeof word));
}

static void add_name(mc_buffer *file, const char *text) {
    char padded[16] = {0};
    size_t n = strlen(text);
    memcpy(padded, text, n);
    add(file, n);
    assert_true(mc_buffer_add(file, padded, (n + 7) / 8 * 8));
}

static void add_true(mc_buffer *file) {
    add(file, UINT64_C(1) << 32 | UINT32_MAX); /* a leaf that is a number */
    add(file, MICA_BOOL);
    add(file, 1);
}

/* n branches, whose functions are one that gives n_results. */
static mc_buffer branches(uint64_t n, uint64_t n_results) {
    mc_buffer file = {0};
    const uint64_t head[9] = {0, UINT64_C(0x01020304) << 32 | 3, 0, 0, 1, n + 1};
    assert_true(mc_buffer_add(&file, head, sizeof head));
    memcpy(file.data, "MICAGRPH", 8);
    add_name(&file, "if");
    add(&file, 2);
    add_name(&file, "then_graph");
    add(&file, 1);
    add_name(&file, "else_graph");
    add(&file, 1);
    add(&file, 1); /* a subgraph: without parameters, a node */
    add(&file, 0);
    add(&file, 1);
    add(&file, n_results);
    for (uint64_t i = 0; i < n_results; i++)
        add(&file, 0);
    add_true(&file);
    add_true(&file);
    for (uint64_t i = 0; i < n; i++) {
        add(&file, UINT64_C(1) << 32);
        for (int k = 0; k < 3; k++) /* the condition, both subgraphs */
            add(&file, 0);
    }
    while (file.len % 64)
        add(&file, 0);
    memcpy(file.data + 64, &file.len, sizeof file.len);
    mend(file.data, file.len);
    return file;
}

/* Version 4 has no name of it. */
static void test_an_unregistered_op_of_version_4(void **state) {
    mc_graph_loader loader = {.inside = inside};
    mc_buffer file = {0};
    const uint64_t head[9] = {0, UINT64_C(0x01020304) << 32 | 4, 0, 0, 1, 2};
    assert_true(mc_buffer_add(&file, head, sizeof head));
    memcpy(file.data, "MICAGRPH", 8);
    add(&file, 0); /* symbols */
    add_name(&file, "custom");
    add(&file, 1);
    add_name(&file, "op");
    add(&file, 1);
    add(&file, 0); /* subgraphs */
    add_true(&file);
    add(&file, UINT64_C(1) << 32); /* the op, of one operand */
    add(&file, 0);
    add(&file, 12345);
    while (file.len % 64)
        add(&file, 0);
    memcpy(file.data + 64, &file.len, sizeof file.len);
    mend(file.data, file.len);
    expect_unloaded(*state, &loader, file.data, file.len, MICA_EUNSUPPORTED,
                    "no op with the number 12345 is registered");
    mc_buffer_deinit(&file);
}

/* A parameter [n, d], where d is a word, of a file with these words as lengths. */
static mc_buffer lengths(uint64_t n_lengths, const uint64_t *words, size_t n_words, uint64_t d) {
    mc_buffer file = {0};
    const uint64_t head[9] = {0, UINT64_C(0x01020304) << 32 | 6, 0, 0, 0, 1, 1};
    assert_true(mc_buffer_add(&file, head, sizeof head));
    memcpy(file.data, "MICAGRPH", 8);
    add(&file, 1); /* symbols */
    add_name(&file, "n");
    add(&file, n_lengths);
    assert_true(mc_buffer_add(&file, words, n_words * sizeof *words));
    add_name(&file, "x");
    add(&file, 0);
    add(&file, 0); /* custom */
    add(&file, 0); /* subgraphs */
    add(&file, UINT32_MAX);
    add(&file, UINT64_C(2) << 32 | MICA_F32);
    add(&file, MC_DIM_FIRST);
    add(&file, d);
    while (file.len % 64)
        add(&file, 0);
    memcpy(file.data + 64, &file.len, sizeof file.len);
    mend(file.data, file.len);
    return file;
}

/* What is computed in f32 is no length until it is rounded, and has as many operands as its op. */
static void test_lengths_with_fractions(void **state) {
    const uint64_t n = MC_DIM_FIRST, tenths = 0x3E99999A; /* 0.3 in f32 */
    const struct {
        uint64_t count, words[16];
        size_t n;
        uint64_t d;
        const char *error;
    } cases[] = {
        /* floor(n * 0.3) */
        {3, {4, 0, tenths, 0, 4, 3, n, n + 1, 4, 7, n + 2, 0}, 12, n + 3, NULL},
        {2, {4, 0, tenths, 0, 4, 3, n, n + 1}, 8, n + 2, "axis 1 has a fraction"},
        {1, {4, 0, tenths, 0}, 4, n + 1, "axis 1 has a fraction"},
        {2,
         {4, 0, tenths, 0, 3, 1, 2, 2, n, n + 1},
         10,
         n + 2,
         "a part of a length has a fraction"},
        {2, {4, 0, tenths, 0, 2, n, n + 1}, 7, n + 2, "a part of a length has a fraction"},
        {3, {4, 0, tenths, 0, 4, 3, n, n + 1, 4, 7, n + 2, 1}, 12, n + 3, "from something else"},
        {1, {4, 0, tenths, 1}, 4, n, "from something else"},
        {1, {4, 0, tenths | UINT64_C(1) << 40, 0}, 4, n, "from something else"}};
    mc_graph_loader loader = {.inside = inside};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        mc_buffer file = lengths(cases[i].count, cases[i].words, cases[i].n, cases[i].d);
        if (cases[i].error) {
            expect_unloaded(*state, &loader, file.data, file.len, MICA_EFORMAT, cases[i].error);
        } else {
            loaded l = load(*state, &loader, file.data, file.len);
            if (l.status != MICA_OK) fail_msg("%s", mica_last_error());
            unload(&l);
        }
        mc_buffer_deinit(&file);
    }
}

/* As a number, too. */
static void test_numbers_with_fractions(void **state) {
    mica_scope *s = NULL;
    assert_int_equal(mica_scope_open(*state, &s), MICA_OK);
    int64_t n = mica_program_dim(s, "n");
    int64_t part = mc_dim_compute(MC_DIM_MUL_F32, n, mc_dim_real(0.3f));
    assert_true(mica_valid(mica_scalar(s, (double)mc_dim_compute(MC_DIM_CEIL, part, 0), MICA_I64)));
    assert_false(mica_valid(mica_scalar(s, (double)part, MICA_I64)));
    assert_non_null(strstr(mica_last_error(), "a length has a fraction"));
    mica_scope_close(&s);
}

/* Of two numbers the one itself, though f32 does not hold it. */
static void test_least_and_greatest_numbers(void **state) {
    (void)state;
    enum { LARGE = (1 << 24) + 1 };
    mc_dims_retain();
    int64_t half = mc_dim_real(0.5f);
    assert_true(mc_dim_compute(MC_DIM_MAX, LARGE, half) == LARGE);
    assert_true(mc_dim_compute(MC_DIM_MAX, half, LARGE) == LARGE);
    assert_true(mc_dim_compute(MC_DIM_MIN, LARGE, half) == half);
    assert_true(mc_dim_compute(MC_DIM_MIN, LARGE, LARGE + 1) == LARGE);
    mc_dims_release();
}

static void test_what_subgraphs_take_is_bounded(void **state) {
    mc_graph_loader loader = {.inside = inside};
    mc_buffer file = branches(100, 100);
    loaded l = load(*state, &loader, file.data, file.len);
    if (l.status != MICA_OK) fail_msg("%s", mica_last_error());
    unload(&l);
    mc_buffer_deinit(&file);
    file = branches(1000, 1000); /* 40 KB */
    expect_unloaded(*state, &loader, file.data, file.len, MICA_EFORMAT,
                    "a.graph: control flow takes more than 67108864 bytes");
    mc_buffer_deinit(&file);
}

/* ---- no memory ---- */

typedef struct attempt {
    test_graph *g;
    mica_device *device;
} attempt;

static bool save_and_load(void *context) {
    const attempt *a = context;
    mc_buffer file = {0};
    mc_graph_saver saver = saver_of(a->g);
    mc_graph_loader loader = loader_of(a->g);
    mica_scope *s = NULL;
    mc_arena arena = {0};
    mc_graph_ports ports;
    mica_status status = mc_graph_write(a->g->s, &a->g->ports, &saver, &file);
    if (status == MICA_OK) status = mica_scope_open(a->device, &s);
    if (status == MICA_OK)
        status = mc_graph_read(file.data, file.len, "a.graph", s, &loader, &arena, &ports);
    assert_true(status == MICA_OK || status == MICA_ENOMEM);
    mica_scope_close(&s);
    mc_arena_deinit(&arena);
    mc_buffer_deinit(&file);
    return status == MICA_OK;
}

static void test_every_failing_allocation_is_an_error(void **state) {
    for (size_t part = 6; part < 10; part += 3) { /* matmul, control */
        test_graph g;
        test_graph_open(&g, *state, &test_graph_parts[part]);
        assert_true(test_fail_each_allocation(save_and_load, &(attempt){&g, *state}) > 5);
        test_graph_close(&g);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_op_is_saved_and_loaded),
        cmocka_unit_test(test_what_no_result_needs_is_left_out),
        cmocka_unit_test(test_parameters_without_data),
        cmocka_unit_test(test_a_saver_that_records),
        cmocka_unit_test(test_what_cannot_be_saved),
        cmocka_unit_test(test_what_is_unknown),
        cmocka_unit_test(test_an_unregistered_op),
        cmocka_unit_test(test_an_unregistered_op_of_version_4),
        cmocka_unit_test(test_a_constant_of_another_shape),
        cmocka_unit_test(test_a_result_of_several),
        cmocka_unit_test(test_files_that_were_cut),
        cmocka_unit_test(test_files_that_were_changed),
        cmocka_unit_test(test_lengths_with_fractions),
        cmocka_unit_test(test_numbers_with_fractions),
        cmocka_unit_test(test_least_and_greatest_numbers),
        cmocka_unit_test(test_what_subgraphs_take_is_bounded),
        cmocka_unit_test(test_every_failing_allocation_is_an_error),
    };
    return cmocka_run_group_tests(tests, test_graph_open_device, test_graph_close_device);
}
