/* Ops of several results: evaluated once for all parts that are asked for, by their kernel, by
 * plainer ops, on two devices, and in programs. */
#include <mica/mica.h>

#include <string.h>

#include "device/device.h"
#include "exec/lower.h"
#include "exec/split.h"
#include "exec/steps/steps.h"
#include "support/support.h"

#include "cpu/cpu.h"

enum { N = 12, TOP = 5 };

static mica_device *device;
static mc_backend changed; /* the cpu's, with other slots */
static mc_step_ops steps;  /* the cpu's, with calls of topk_indices counted */
static mc_kernel topk;
static int calls;
static int firsts[8]; /* the first element of the operand of each of the first calls */

static mica_status counted(const mc_call *call) {
    if (calls < 8) firsts[calls] = (int)*(const float *)call->in[0].data;
    calls++;
    return topk(call);
}

static mc_kernel find(const void *state, mc_op op, const void *attr, const mc_layout *const *in,
                      int n_in, const mc_layout *out, int n_out) {
    mc_kernel kernel = mc_cpu_steps.find(state, op, attr, in, n_in, out, n_out);
    if (op != MC_OP_TOPK_INDICES) return kernel;
    assert_int_equal(n_out, 2);
    assert_int_equal(out[0].dtype, MICA_F32);
    assert_int_equal(out[1].dtype, MICA_U32);
    topk = kernel;
    return counted;
}

static mica_status compile(mica_device *d, mc_lowered *lowered, mc_executable **executable) {
    return mc_steps_compile(d, &steps, lowered, executable);
}

static int open_device(void **state) {
    (void)state;
    steps = mc_cpu_steps;
    steps.find = find;
    changed = mc_backend_cpu;
    changed.complete = false;
    changed.compile = compile;
    calls = 0;
    assert_int_equal(mica_device_open("cpu", &(mica_device_options){.threads = 1}, &device), 0);
    device->backend = &changed;
    return 0;
}

static int close_device(void **state) {
    (void)state;
    assert_int_equal(mica_device_active_bytes(device), 0);
    mica_device_close(&device);
    return 0;
}

static mica_scope *open_scope(void) {
    mica_scope *s;
    assert_int_equal(mica_scope_open(device, &s), MICA_OK);
    return s;
}

static mica_array numbers(mica_scope *s) {
    static const float x[N] = {3, -7, 2, 9, -1, 9, 4, 0, 8, -4, 5, 6};
    return mica_from_data(s, x, MICA_F32, (int64_t[]){N}, 1);
}

static const float TOP_VALUES[TOP] = {9, 9, 8, 6, 5};
static const uint32_t TOP_INDICES[TOP] = {3, 5, 8, 11, 10};

static void expect_values(mica_array x, float sign) {
    float got[TOP];
    if (mica_read(x, got, sizeof got) != MICA_OK) fail_msg("%s", mica_last_error());
    for (int i = 0; i < TOP; i++)
        assert_true(got[i] == sign * TOP_VALUES[i]);
}

static void expect_indices(mica_array x) {
    uint32_t got[TOP];
    if (mica_read(x, got, sizeof got) != MICA_OK) fail_msg("%s", mica_last_error());
    assert_memory_equal(got, TOP_INDICES, sizeof got);
}

static void test_both_are_computed_at_once(void **state) {
    (void)state;
    mica_scope *s = open_scope();
    mica_array indices, values = mica_topk_indices(s, numbers(s), TOP, 0, &indices);
    mica_array minus = mica_negative(s, values);
    assert_int_equal(mica_eval_n(s, (mica_array[]){indices, minus, values, indices}, 4), MICA_OK);
    assert_int_equal(calls, 1);
    expect_values(values, 1);
    expect_values(minus, -1);
    expect_indices(indices);
    assert_int_equal(calls, 1);
    assert_int_equal(mc_graph_verify(s), MICA_OK);
    mica_scope_close(&s);
}

static void test_one_alone(void **state) {
    (void)state;
    mica_scope *s = open_scope(), *outer = open_scope();
    mica_array indices, values = mica_topk_indices(s, numbers(s), TOP, 0, &indices);
    expect_indices(indices);
    mica_array moved = mica_move(outer, indices);
    expect_indices(moved);
    assert_int_equal(mica_eval(s, indices), MICA_EINVAL);
    expect_values(mica_negative(s, values), -1); /* the op runs again */
    assert_int_equal(calls, 2);
    assert_int_equal(mc_graph_verify(s), MICA_OK);
    assert_int_equal(mica_scope_collect(s, &values, 1), MICA_OK);
    expect_values(values, 1);
    mica_scope_close(&s);
    mica_scope_close(&outer);
}

static void test_the_node_is_no_array(void **state) {
    (void)state;
    mica_scope *s = open_scope();
    mica_array indices;
    (void)mica_topk_indices(s, numbers(s), TOP, 0, &indices);
    mica_array both = {s, mc_node_of(indices)->in[0]};
    mc_buffer text = {0};
    assert_int_equal(mica_eval(s, both), MICA_EINVAL);
    assert_int_equal(mc_graph_print(s, NULL, &text), MICA_OK);
    assert_non_null(strstr(text.data, "= topk_indices f32[5] u32[5] %0 k=5\n"));
    assert_non_null(strstr(text.data, "= part u32[5] %1 index=1\n"));
    mc_buffer_deinit(&text);
    mica_program *program;
    assert_int_equal(mica_program_build(s, NULL, 0, &both, 1, NULL, &program), MICA_EINVAL);
    mc_node_of(indices)->in = &(uint32_t){0}; /* a part of an op of one */
    assert_int_equal(mc_graph_verify(s), MICA_EINTERNAL);
    mica_scope_close(&s);
}

static void test_programs(void **state) {
    (void)state;
    mica_scope *s = open_scope();
    mica_array x = mica_program_param(s, MICA_F32, (int64_t[]){N}, 1), results[2], got[2];
    mica_program *program;
    results[0] = mica_topk_indices(s, mica_square(s, x), N, 0, &results[1]);
    results[0] = mica_sqrt(s, results[0]);
    const mica_param param = {.array = x, .donate = true};
    assert_int_equal(mica_program_build(s, &param, 1, results, 2, NULL, &program), MICA_OK);
    for (int i = 0; i < 3; i++) {
        mica_scope *into = open_scope();
        mica_array arg = mica_abs(into, numbers(into));
        assert_int_equal(mica_program_run(program, into, &arg, got), MICA_OK);
        float values[N];
        uint32_t indices[N];
        assert_int_equal(mica_read(got[0], values, sizeof values), MICA_OK);
        assert_int_equal(mica_read(got[1], indices, sizeof indices), MICA_OK);
        assert_true(values[0] == 9 && values[N - 1] == 0 && values[3] == 7);
        assert_true(indices[0] == 3 && indices[1] == 5 && indices[N - 1] == 7 && indices[3] == 1);
        mica_scope_close(&into);
    }
    assert_int_equal(calls, 3);
    mica_program_close(&program);
    mica_scope_close(&s);
}

static mica_status record_topk(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                               mica_array *results, size_t n_results) {
    (void)user, (void)n_args, (void)n_results;
    results[0] = mica_topk_indices(s, args[0], 2, -1, &results[1]);
    return MICA_OK;
}

static void test_other_lengths(void **state) {
    (void)state;
    mica_function *f;
    const mica_compile_options options = {.shapeless = true};
    assert_int_equal(mica_compile(device, record_topk, NULL, &options, &f), MICA_OK);
    mica_scope *s = open_scope();
    for (int64_t rows = 4; rows > 0; rows--) {
        mica_array x = mica_reshape(s, numbers(s), (int64_t[]){4, 3}, 2), got[2], want[2];
        x = mica_slice_axis(s, x, 0, 0, rows);
        want[0] = mica_topk_indices(s, x, 2, -1, &want[1]);
        assert_int_equal(mica_function_call(f, s, &x, 1, got, 2), MICA_OK);
        for (int i = 0; i < 2; i++) {
            int64_t same;
            mica_array all = mica_all(s, mica_equal(s, got[i], want[i]), NULL, 0, false);
            assert_int_equal(mica_array_dim(got[i], 0), rows);
            assert_int_equal(mica_item_i64(all, &same), MICA_OK);
            assert_int_equal(same, 1);
        }
    }
    assert_true(mica_function_traces(f) == 2);
    mica_scope_close(&s);
    mica_function_close(&f);
}

/* ---- other devices ---- */

static mc_op missing[2];

static mc_support supports_others(const void *state, mc_op op, const void *attr,
                                  const mc_layout *const *in, int n_in, const mc_layout *out,
                                  int n_out) {
    assert_int_equal(n_out, mc_op_n_out(mc_op_get(op)));
    if (op == missing[0] || op == missing[1]) return (mc_support){.yes = false};
    return mc_backend_cpu.supports(state, op, attr, in, n_in, out, n_out);
}

/* Parts that an op without a kernel reads: cumsum falls back. */
static bool sum_parts(void) {
    mica_scope *s = NULL;
    float sums[TOP];
    bool ok = mica_scope_open(device, &s) == MICA_OK;
    if (ok) {
        mica_array indices, x = mica_square(s, numbers(s));
        mica_array values = mica_sqrt(s, mica_topk_indices(s, x, TOP, 0, &indices));
        indices = mica_cumsum(s, mica_astype(s, indices, MICA_F32), 0, false, true);
        mica_array y = mica_add(s, mica_cumsum(s, values, 0, false, true), indices);
        ok = mica_read(y, sums, sizeof sums) == MICA_OK;
    }
    mica_scope_close(&s);
    /* of 9, 9, 8, 7, 6 at 3, 5, 8, 1, 11 */
    if (ok) assert_memory_equal(sums, ((float[]){12, 26, 42, 50, 67}), sizeof sums);
    return ok;
}

static void sum_without(mc_op one, mc_op other) {
    missing[0] = one;
    missing[1] = other;
    changed.supports = supports_others;
    if (!sum_parts()) fail_msg("%s", mica_last_error());
    test_forget_plans(device);
}

static void test_with_a_fallback_and_plainer_ops(void **state) {
    (void)state;
    sum_without(MC_OP_LEAF, MC_OP_LEAF);
    assert_int_equal(calls, 1);
    sum_without(MC_OP_CUMSUM, MC_OP_LEAF);
    assert_int_equal(calls, 2);
    sum_without(MC_OP_TOPK_INDICES, MC_OP_LEAF);
    sum_without(MC_OP_TOPK_INDICES, MC_OP_CUMSUM);
    sum_without(MC_OP_TOPK_INDICES, MC_OP_ARGSORT);
    assert_int_equal(calls, 2);
}

/* The op itself on the other device: both of its results come back. */
static void test_split_at_the_op(void **state) {
    (void)state;
    mica_scope *s = open_scope();
    mc_arena arena = {0};
    mc_trace trace = {0};
    mc_buffer fallback = {0};
    mc_lowered *lowered;
    mc_part *parts;
    mica_array indices, x = mica_square(s, numbers(s));
    mica_array values = mica_topk_indices(s, x, TOP, 0, &indices);
    x = mica_add(s, values, mica_astype(s, mica_flip(s, indices, 0), MICA_F32));
    mica_array xs[2] = {x, indices};
    assert_int_equal(mc_trace_make(&trace, &arena, s, xs, 2), MICA_OK);
    assert_int_equal(mc_lower_ops(device, &trace, &lowered, &fallback), MICA_OK);
    uint32_t op = 0, n_parts, slots[2], n_slots;
    while (mc_scope_node(lowered->graph, op)->op != MC_OP_TOPK_INDICES)
        op++;
    assert_int_equal(mc_split(device, lowered, &op, 1, &arena, &parts, &n_parts, slots, &n_slots),
                     MICA_OK);
    assert_int_equal(n_parts, 3);
    assert_true(parts[1].fallback && !parts[0].fallback && !parts[2].fallback);
    assert_int_equal(parts[0].lowered->n_results, 1);
    assert_int_equal(parts[1].lowered->n_params, 1);
    assert_int_equal(parts[1].lowered->n_results, 2);
    assert_int_equal(parts[2].lowered->n_params, 2);
    assert_int_equal(parts[2].lowered->n_results, 1);
    assert_int_equal(slots[1], parts[1].results[1]);
    for (uint32_t i = 0; i < n_parts; i++) {
        assert_int_equal(mc_graph_verify(parts[i].lowered->graph), MICA_OK);
        mc_lowered_free(parts[i].lowered);
    }
    mc_lowered_free(lowered);
    mc_buffer_deinit(&fallback);
    mc_buffer_deinit(&trace.key);
    mc_arena_deinit(&arena);
    mica_scope_close(&s);
}

/* x + cumsum(x + ...), STEPS times, where x is read through VIEWS views. */
static mica_array read_through_views(mica_scope *s) {
    enum { VIEWS = 2048, STEPS = 64 };
    mica_array x = numbers(s), y = x;
    for (int i = 0; i < VIEWS; i++)
        x = mica_flip(s, x, 0);
    for (int i = 0; i < STEPS; i++)
        y = mica_add(s, mica_cumsum(s, y, 0, false, true), x);
    return y;
}

/* Each part makes the views that it reads anew: there are no more than so many of them. */
static void test_parts_are_as_large_as_the_graph(void **state) {
    (void)state;
    mica_scope *s = open_scope();
    mc_arena arena = {0};
    mc_trace trace = {0};
    mc_buffer fallback = {0};
    mc_lowered *lowered;
    mc_part *parts;
    mica_array y = read_through_views(s);
    missing[0] = MC_OP_CUMSUM;
    missing[1] = MC_OP_LEAF;
    changed.supports = supports_others;
    assert_int_equal(mc_trace_make(&trace, &arena, s, &y, 1), MICA_OK);
    assert_int_equal(mc_lower_ops(device, &trace, &lowered, &fallback), MICA_OK);
    uint32_t n_parts, slot, n_slots;
    assert_int_equal(mc_split(device, lowered, MC_BUFFER_AT(&fallback, uint32_t),
                              (uint32_t)MC_BUFFER_COUNT(&fallback, uint32_t), &arena, &parts,
                              &n_parts, &slot, &n_slots),
                     MICA_OK);
    uint32_t nodes = 0;
    for (uint32_t i = 0; i < n_parts; i++) {
        nodes += mc_scope_count(parts[i].lowered->graph);
        mc_lowered_free(parts[i].lowered);
    }
    if (nodes > 3 * mc_scope_count(s)) fail_msg("%u nodes of %u", nodes, mc_scope_count(s));
    mc_lowered_free(lowered);
    mc_buffer_deinit(&fallback);
    mc_buffer_deinit(&trace.key);
    mc_arena_deinit(&arena);
    mica_scope_close(&s);
}

static void test_long_chains_of_views(void **state) {
    (void)state;
    float got[2][N];
    missing[1] = MC_OP_LEAF;
    changed.supports = supports_others;
    for (int split = 0; split < 2; split++) {
        mica_scope *s = open_scope();
        missing[0] = split ? MC_OP_CUMSUM : MC_OP_LEAF;
        if (mica_read(read_through_views(s), got[split], sizeof *got) != MICA_OK)
            fail_msg("%s", mica_last_error());
        mica_scope_close(&s);
        test_forget_plans(device);
    }
    assert_memory_equal(got[0], got[1], sizeof *got);
}

/* ---- ops in order ---- */

enum { ORDERED = 6, WIDTH = 3 };

/* Stands for an op whose order must not change, a collective: it has a value and a token, and reads
 * the token of the one before it, if there is one. */
static mica_array ordered(mica_scope *s, mica_array x, mica_array *token) {
    mica_array both[] = {x, MICA_NONE};
    if (mica_valid(*token)) {
        both[1] = mica_astype(s, *token, MICA_F32);
        x = mica_concatenate(s, both, 2, 0);
    }
    return mica_topk_indices(s, x, 1, 0, token);
}

/* Op i reads row i of x [ORDERED, WIDTH], the odd ones by way of the fallback device. A matmul of x
 * reads what each gives, and the planner joins matmuls of one operand where it may. The results:
 * the matmuls, those of the last ops first, or the last token alone. */
static mica_program *build_ordered(bool tokens, bool alone) {
    mica_scope *s = open_scope();
    mica_array x = mica_program_param(s, MICA_F32, (int64_t[]){ORDERED, WIDTH}, 2);
    mica_array results[ORDERED], token = MICA_NONE;
    mica_program *program;
    for (int64_t i = 0; i < ORDERED; i++) {
        mica_array row = mica_flatten(s, mica_slice_axis(s, x, 0, i, i + 1), 0, 1);
        if (i % 2) row = mica_cumsum(s, row, 0, false, true);
        if (!tokens) token = MICA_NONE;
        mica_array w = mica_contiguous(
            s, mica_broadcast_to(s, ordered(s, row, &token), (int64_t[]){WIDTH, 2}, 2));
        results[ORDERED - 1 - i] = mica_matmul(s, x, w);
    }
    if (alone) results[0] = token;
    const mica_param param = {.array = x};
    if (mica_program_build(s, &param, 1, results, alone ? 1 : ORDERED, NULL, &program) != MICA_OK)
        fail_msg("%s", mica_last_error());
    mica_scope_close(&s);
    return program;
}

/* Runs it twice. Whether the ops were computed in their order each time. */
static bool is_in_order(mica_program *program, bool alone) {
    mica_scope *s = open_scope();
    mica_array got[ORDERED];
    float rows[ORDERED][WIDTH] = {{0}};
    bool in_order = true;
    for (int i = 0; i < ORDERED; i++)
        rows[i][0] = (float)(10 + i);
    mica_array x = mica_from_data(s, rows, MICA_F32, (int64_t[]){ORDERED, WIDTH}, 2);
    for (int run = 0; run < 2; run++) {
        calls = 0;
        assert_int_equal(mica_program_run(program, s, &x, got), MICA_OK);
        assert_int_equal(calls, ORDERED);
        for (int i = 0; i < ORDERED; i++)
            in_order = in_order && firsts[i] == 10 + i;
        float value[ORDERED][2];
        for (int i = 0; i < ORDERED && !alone; i++) {
            assert_int_equal(mica_read(got[ORDERED - 1 - i], value, sizeof value), MICA_OK);
            assert_true(value[0][0] == 10.0f * (float)(10 + i));
        }
    }
    mica_scope_close(&s);
    mica_program_close(&program);
    return in_order;
}

/* Tokens keep the order of ops that nothing else orders, in one graph and where a graph is split,
 * also of ops of which nothing else is wanted. Without tokens the split would change it. */
static void test_tokens_keep_an_order(void **state) {
    (void)state;
    missing[1] = MC_OP_LEAF;
    changed.supports = supports_others;
    for (int split = 0; split < 2; split++) {
        missing[0] = split ? MC_OP_CUMSUM : MC_OP_LEAF;
        assert_true(is_in_order(build_ordered(true, false), false));
        assert_true(is_in_order(build_ordered(true, true), true));
        test_forget_plans(device);
    }
    assert_false(is_in_order(build_ordered(false, false), false));
}

static bool sum_anew(void *arg) {
    (void)arg;
    bool ok = sum_parts();
    test_forget_plans(device);
    return ok;
}

static void test_every_failing_allocation_is_a_status(void **state) {
    (void)state;
    static const mc_op missed[] = {MC_OP_LEAF, MC_OP_CUMSUM, MC_OP_TOPK_INDICES};
    for (int i = 0; i < 3; i++) {
        missing[0] = missed[i];
        missing[1] = MC_OP_LEAF;
        changed.supports = supports_others;
        assert_true(test_fail_each_allocation(sum_anew, NULL) > 20);
    }
}

#define WITH_DEVICE(name) cmocka_unit_test_setup_teardown(name, open_device, close_device)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_DEVICE(test_both_are_computed_at_once),
        WITH_DEVICE(test_one_alone),
        WITH_DEVICE(test_the_node_is_no_array),
        WITH_DEVICE(test_programs),
        WITH_DEVICE(test_other_lengths),
        WITH_DEVICE(test_with_a_fallback_and_plainer_ops),
        WITH_DEVICE(test_split_at_the_op),
        WITH_DEVICE(test_parts_are_as_large_as_the_graph),
        WITH_DEVICE(test_long_chains_of_views),
        WITH_DEVICE(test_tokens_keep_an_order),
        WITH_DEVICE(test_every_failing_allocation_is_a_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
