/* The planner: which steps a plan has, which of them run together, and over what memory. */
#include "exec/steps/plan.h"

#include "base/alloc.h"
#include "cpu/cpu.h"
#include "device/device.h"
#include "exec/lower.h"
#include "exec/steps/run.h"
#include "op/integer.h"
#include "op/matmul.h"
#include "op/quant.h"
#include "support/support.h"

#include <mica/ops.h>

static const mica_quant quant = {MICA_QUANT_AFFINE, 4, 64};

typedef struct fixture {
    mica_device *device;
    const mc_step_ops *steps;
    mica_scope *s;
    mica_array codes, scales;
    mica_array others[16]; /* scales, too: matmuls over one x are of several weights */
    size_t n_others;
} fixture;

static int open_fixture(void **state) {
    static fixture f;
    f.steps = &mc_cpu_steps;
    assert_int_equal(mica_device_open("cpu", &(mica_device_options){.threads = 2}, &f.device), 0);
    assert_int_equal(mica_scope_open(f.device, &f.s), MICA_OK);
    f.codes = mica_contiguous(f.s, mica_zeros(f.s, (int64_t[]){64, 8}, 2, MICA_U32));
    f.scales = mica_contiguous(f.s, mica_ones(f.s, (int64_t[]){64, 1}, 2, MICA_F32));
    assert_int_equal(mica_eval_n(f.s, (mica_array[]){f.codes, f.scales}, 2), MICA_OK);
    f.n_others = 0;
    for (size_t i = 0; i < sizeof f.others / sizeof *f.others; i++) {
        f.others[i] = mica_contiguous(f.s, mica_ones(f.s, (int64_t[]){64, 1}, 2, MICA_F32));
        assert_int_equal(mica_eval(f.s, f.others[i]), MICA_OK);
    }
    *state = &f;
    return 0;
}

static int close_fixture(void **state) {
    fixture *f = *state;
    mica_scope_close(&f->s);
    mica_device_close(&f->device);
    return 0;
}

static mica_array matmul(fixture *f, mica_array x) {
    mica_array scales = f->others[f->n_others++ % (sizeof f->others / sizeof *f->others)];
    return mc_quantized_matmul(f->s, x, f->codes, scales, scales, quant, true);
}

static mc_plan *plan_of(const fixture *f, const mica_array *xs, size_t n) {
    mc_arena arena = {0};
    mc_trace trace = {0};
    mc_buffer fallback = {0};
    mc_lowered *lowered;
    mc_plan *plan;
    assert_int_equal(mc_trace_make(&trace, &arena, f->s, xs, n), MICA_OK);
    assert_int_equal(mc_lower_ops(f->device, &trace, &lowered, &fallback), MICA_OK);
    assert_int_equal(fallback.len, 0);
    assert_int_equal(mc_plan_make(f->device, f->steps, lowered, &plan), MICA_OK);
    mc_buffer_deinit(&fallback);
    mc_buffer_deinit(&trace.key);
    mc_arena_deinit(&arena);
    return plan;
}

/* What a span writes has memory of its own, also where a step of it is done with some of its
 * rows. */
static void check_memory(const mc_plan *p, uint32_t from) {
    uint32_t to = from + p->steps[from].span;
    for (uint32_t i = from; i < to; i++) {
        const mc_root *a = &p->roots[p->values[p->steps[i].out].root];
        for (uint32_t j = from; j < to; j++) {
            for (uint32_t k = 0; k < p->steps[j].n_in; k++) {
                if (p->steps[j].in[k] == MC_ABSENT) continue;
                const mc_root *b = &p->roots[p->values[p->steps[j].in[k]].root];
                if (a == b || !a->placed || !b->placed) continue;
                assert_true(a->offset + a->bytes <= b->offset || b->offset + b->bytes <= a->offset);
            }
        }
    }
}

/* The plan of xs: how many steps each of its spans has, 0 after the last. */
static void plan_runs(const fixture *f, const mica_array *xs, size_t n, uint32_t *runs) {
    mc_plan *plan = plan_of(f, xs, n);
    assert_int_equal(mc_plan_verify(plan), MICA_OK);
    for (uint32_t i = 0; i < plan->n_steps; i += plan->steps[i].span) {
        assert_true(plan->steps[i].span >= 1);
        for (uint32_t k = 1; k < plan->steps[i].span; k++)
            assert_int_equal(plan->steps[i + k].span, 0);
        check_memory(plan, i);
        *runs++ = plan->steps[i].span;
    }
    *runs = 0;
    mc_plan_free(plan);
}

static void expect_runs(const fixture *f, const mica_array *xs, size_t n, const uint32_t *want) {
    uint32_t runs[32];
    plan_runs(f, xs, n, runs);
    for (int i = 0; i == 0 || want[i - 1] != 0; i++)
        assert_int_equal(runs[i], want[i]);
}

static void matmuls_of_one_x_run_together(void **state) {
    fixture *f = *state;
    mica_array x = mica_ones(f->s, (int64_t[]){1, 64}, 2, MICA_F32);
    assert_int_equal(mica_eval(f->s, x), MICA_OK);
    mica_array q = mica_rms_norm(f->s, matmul(f, x), MICA_NONE, 1e-6f);
    mica_array k = mica_rms_norm(f->s, matmul(f, x), MICA_NONE, 1e-6f);
    mica_array v = matmul(f, x);
    mica_array y = matmul(f, mica_add(f->s, mica_add(f->s, q, k), v));
    /* q k v; two norms, two additions and the last product, which quantises what they give */
    expect_runs(f, &y, 1, (uint32_t[]){3, 5, 0});
}

/* Views of the same numbers are one x; of others, or of another form, they are not. */
static void views_of_the_same_numbers_are_one_x(void **state) {
    fixture *f = *state;
    mica_scope *s = f->s;
    mica_array x = mica_arange(s, 0, 256, 1, MICA_F32), y[2];
    x = mica_reshape(s, x, (int64_t[]){4, 64}, 2);
    assert_int_equal(mica_eval(s, x), MICA_OK);
    const int64_t one[] = {1, 64}, other[] = {1, 1, 64};
    y[0] = matmul(f, mica_reshape(s, mica_slice_axis(s, x, 0, 1, 2), one, 2));
    y[1] = matmul(f, mica_slice_axis(s, mica_slice_axis(s, x, 0, 0, 2), 0, 1, 2));
    expect_runs(f, y, 2, (uint32_t[]){2, 0});
    y[1] = matmul(f, mica_slice_axis(s, x, 0, 2, 3));
    expect_runs(f, y, 2, (uint32_t[]){1, 1, 0});
    y[1] = matmul(f, mica_reshape(s, mica_slice_axis(s, x, 0, 1, 2), other, 3));
    expect_runs(f, y, 2, (uint32_t[]){1, 1, 0});
    y[1] = matmul(f, mica_slice_axis(s, x, 0, 1, 3));
    expect_runs(f, y, 2, (uint32_t[]){1, 1, 0});
    mica_array bits = mica_view(s, x, MICA_I32); /* the same bytes, read as another dtype */
    y[1] = matmul(f, mica_view(s, mica_slice_axis(s, bits, 0, 1, 2), MICA_F32));
    expect_runs(f, y, 2, (uint32_t[]){2, 0});
}

/* But no matmul runs together with itself: a checkpoint has it again to save memory. */
static void what_is_computed_again_stays_where_it_is(void **state) {
    const fixture *f = *state;
    mica_array x = mica_ones(f->s, (int64_t[]){1, 64}, 2, MICA_F32);
    assert_int_equal(mica_eval(f->s, x), MICA_OK);
    mica_array wide = mica_quantized_matmul(f->s, x, f->codes, f->scales, f->scales, quant, true);
    mica_array y = mica_sum(f->s, wide, NULL, 0, true);
    wide = mica_quantized_matmul(f->s, x, f->codes, f->scales, f->scales, quant, true);
    y = mica_add(f->s, y, mica_sum(f->s, wide, NULL, 0, true));
    expect_runs(f, &y, 1, (uint32_t[]){1, 1, 1, 1, 1, 0});
}

/* So do those of dense weights, which lie as they like, and norms before them are a part of it. */
static void dense_matmuls_run_together(void **state) {
    const fixture *f = *state;
    mica_scope *s = f->s;
    mica_array x = mica_ones(s, (int64_t[]){4, 64}, 2, MICA_F32);
    mica_array w = mica_negative(s, mica_ones(s, (int64_t[]){64, 64}, 2, MICA_BF16)); /* dense */
    mica_array v = mica_negative(s, mica_ones(s, (int64_t[]){64, 64}, 2, MICA_BF16));
    mica_array batch = mica_ones(s, (int64_t[]){3, 64, 64}, 3, MICA_F32);
    assert_int_equal(mica_eval_n(s, (mica_array[]){x, w, v, batch}, 4), MICA_OK);
    mica_array norm = mica_rms_norm(s, mica_add(s, x, x), MICA_NONE, 1e-6f);
    mica_array fast = mc_matmul_rows(s, norm, w, true), other = mc_matmul_rows(s, norm, v, true);
    mica_array y = mica_add(s, fast, other);
    const mc_cpu *cpu = mc_backend_state(f->device);
    bool pairs = cpu->kern->bf16_matmul; /* and x is rounded for them */
    expect_runs(f, &y, 1, pairs ? (uint32_t[]){4, 1, 0} : (uint32_t[]){2, 2, 1, 0});
    /* nothing is made of x here, and of one x for each of the batch there */
    y = mica_add(s, fast, mica_matmul(s, norm, w));
    expect_runs(f, &y, 1, (uint32_t[]){2, 2, 1, 0});
    y = mica_add(s, fast, mica_matmul(s, norm, batch));
    expect_runs(f, &y, 1, (uint32_t[]){2, 2, 1, 0});
}

/* Also one that an earlier joint has moved behind what was its operand's last reader. */
static void the_last_matmul_of_two_xs_runs_with_the_others(void **state) {
    fixture *f = *state;
    mica_array x = mica_ones(f->s, (int64_t[]){1, 64}, 2, MICA_F32);
    assert_int_equal(mica_eval(f->s, x), MICA_OK);
    mica_array q = matmul(f, x), y = mica_sin(f->s, q);
    mica_array a = matmul(f, y), b = matmul(f, y), k = matmul(f, x);
    /* q k; the sine and both products of it */
    expect_runs(f, (mica_array[]){a, b, k}, 3, (uint32_t[]){2, 3, 0});
}

static void matmuls_that_wait_for_others_do_not(void **state) {
    fixture *f = *state;
    mica_array x = mica_ones(f->s, (int64_t[]){1, 64}, 2, MICA_F32);
    assert_int_equal(mica_eval(f->s, x), MICA_OK);
    mica_array a = matmul(f, x);
    /* the same x, but the scales come from a */
    mica_array scales = mica_add(f->s, f->scales, mica_transpose(f->s, a, (int[]){1, 0}));
    mica_array b = mc_quantized_matmul(f->s, x, f->codes, scales, f->scales, quant, true);
    expect_runs(f, &b, 1, (uint32_t[]){1, 1, 1, 0});
}

static void no_more_than_a_kernel_takes(void **state) {
    fixture *f = *state;
    mica_array x = mica_ones(f->s, (int64_t[]){1, 64}, 2, MICA_F32), y[2 * MC_MAX_JOINT + 1];
    assert_int_equal(mica_eval(f->s, x), MICA_OK);
    for (int i = 0; i < 2 * MC_MAX_JOINT + 1; i++)
        y[i] = matmul(f, x);
    expect_runs(f, y, 2 * MC_MAX_JOINT + 1, (uint32_t[]){MC_MAX_JOINT, MC_MAX_JOINT, 1, 0});
}

/* x [1, 64] as one query, over itself. */
static mica_array attend(const fixture *f, mica_array x) {
    mica_array q = mica_reshape(f->s, x, (int64_t[]){1, 1, 1, 64}, 4);
    return mica_reshape(f->s, mica_sdpa(f->s, q, q, q, NULL), (int64_t[]){1, 64}, 2);
}

static void attention_of_rows_runs_together(void **state) {
    fixture *f = *state;
    mica_array x = mica_ones(f->s, (int64_t[]){1, 64}, 2, MICA_F32), y[3];
    assert_int_equal(mica_eval(f->s, x), MICA_OK);
    for (int i = 0; i < 3; i++) /* each after a product of its own */
        y[i] = attend(f, matmul(f, mica_multiply(f->s, x, mica_f32(f->s, (float)i))));
    mica_array sum = mica_add(f->s, mica_add(f->s, y[0], y[1]), y[2]);
    /* three times x by i and a product, then attention, two additions */
    expect_runs(f, &sum, 1, (uint32_t[]){2, 2, 2, 3, 2, 0});
}

static void attention_keeps_other_joints(void **state) {
    fixture *f = *state;
    mica_array x = mica_ones(f->s, (int64_t[]){1, 64}, 2, MICA_F32);
    assert_int_equal(mica_eval(f->s, x), MICA_OK);
    mica_array a = attend(f, x), z = mica_add(f->s, x, x);
    mica_array b = attend(f, mica_add(f->s, matmul(f, z), matmul(f, z)));
    mica_array y = mica_add(f->s, a, b);
    /* z, two products, their sum, attention twice, y */
    expect_runs(f, &y, 1, (uint32_t[]){3, 1, 2, 1, 0});
}

static void attention_that_waits_does_not(void **state) {
    const fixture *f = *state;
    mica_array x = mica_ones(f->s, (int64_t[]){1, 64}, 2, MICA_F32);
    assert_int_equal(mica_eval(f->s, x), MICA_OK);
    mica_array a = attend(f, x), b = attend(f, mica_add(f->s, a, x));
    mica_array y = mica_add(f->s, b, attend(f, b));
    expect_runs(f, &y, 1, (uint32_t[]){1, 1, 1, 1, 1, 0});
}

/* ---- chains ---- */

/* Data of the shape, which is computed. */
static mica_array data(const fixture *f, const int64_t *shape, int ndim) {
    mica_array x = mica_ones(f->s, shape, ndim, MICA_F32);
    assert_int_equal(mica_eval(f->s, x), MICA_OK);
    return x;
}

static void rows_go_through_many_steps(void **state) {
    fixture *f = *state;
    mica_scope *s = f->s;
    mica_array x = data(f, (int64_t[]){1, 6, 64}, 3), cache = data(f, (int64_t[]){1, 4, 9, 16}, 4);
    mica_array y = mica_rms_norm(s, mica_add(s, x, x), MICA_NONE, 1e-6f);
    mica_array q = matmul(f, y), k = matmul(f, y);
    k = mica_rms_norm(s, mica_reshape(s, k, (int64_t[]){1, 6, 4, 16}, 4), MICA_NONE, 1e-6f);
    k = mica_transpose(s, k, (int[]){0, 2, 1, 3});
    k = mica_rope(s, k, mica_i32(s, 0), MICA_NONE, NULL);
    k = mica_slice_update_at(s, cache, k, mica_i32(s, 1), 2);
    mica_array gate = mica_multiply(s, mica_silu(s, q), q);
    /* add norm (q k); norm rope update silu multiply and the last product */
    expect_runs(f, (mica_array[]){k, matmul(f, gate)}, 2, (uint32_t[]){4, 6, 0});
}

static void other_rows_end_a_chain(void **state) {
    const fixture *f = *state;
    mica_scope *s = f->s;
    mica_array y = mica_negative(s, mica_square(s, data(f, (int64_t[]){8, 16}, 2)));
    mica_array more = mica_negative(s, mica_square(s, data(f, (int64_t[]){2, 8, 16}, 3)));
    mica_array others[] = {
        mica_flip(s, y, 0),
        mica_broadcast_to(s, mica_slice_axis(s, y, 0, 1, 2), (int64_t[]){8, 16}, 2),
        mica_as_strided(s, y, (int64_t[]){8, 16}, (int64_t[]){15, 1}, 2, 0),
        mica_as_strided(s, more, (int64_t[]){8, 17}, (int64_t[]){16, 1}, 2, 0),
        mica_as_strided(s, y, (int64_t[]){8, 2, 8}, (int64_t[]){16, 8, 1}, 3, 0),
        mica_flip(s, y, 1),
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        mica_array z = mica_square(s, mica_abs(s, others[i]));
        const uint32_t apart[] = {2, 2, 0}, on[] = {4, 0};
        expect_runs(f, &z, 1, i == 4 ? on : apart);
    }
}

/* The axis that goes on is chosen, wherever it then is. */
static void a_chain_takes_the_axis_that_goes_on(void **state) {
    const fixture *f = *state;
    mica_scope *s = f->s;
    mica_array y = mica_negative(s, mica_square(s, data(f, (int64_t[]){8, 9, 16}, 3)));
    mica_array z = mica_slice_axis(s, mica_swapaxes(s, y, 0, 1), 0, 2, 4); /* not that of 9 */
    z = mica_square(s, mica_abs(s, z));
    expect_runs(f, &z, 1, (uint32_t[]){4, 0});
}

/* Two threads are busy with 8 rows, not with 2: then more rows are better than more steps. */
static void few_rows_are_no_chain_where_there_are_many(void **state) {
    const fixture *f = *state;
    mica_scope *s = f->s;
    for (int64_t rows = 2; rows <= 8; rows *= 2) {
        mica_array y = mica_negative(s, mica_square(s, data(f, (int64_t[]){rows, 64, 16}, 3)));
        mica_array z = mica_square(s, mica_abs(s, mica_slice_axis(s, y, 1, 8, 32)));
        const uint32_t many[] = {2, 2, 0}, few[] = {4, 0};
        expect_runs(f, &z, 1, rows < 8 ? many : few);
    }
}

/* No axis of many rows has a chain, that of few has. */
static void few_rows_are_a_chain_where_no_others_are(void **state) {
    const fixture *f = *state;
    mica_scope *s = f->s;
    mica_array y = mica_square(s, data(f, (int64_t[]){2, 64, 16}, 3));
    mica_array z = mica_abs(s, mica_slice_axis(s, y, 1, 8, 32));
    expect_runs(f, &z, 1, (uint32_t[]){2, 0});
}

static void one_row_of_many_is_no_row(void **state) {
    const fixture *f = *state;
    mica_scope *s = f->s;
    mica_array y = mica_negative(s, mica_square(s, data(f, (int64_t[]){8, 16}, 2)));
    mica_array last = mica_square(s, mica_abs(s, mica_slice_axis(s, y, 0, 7, 8)));
    expect_runs(f, &last, 1, (uint32_t[]){2, 2, 0});
}

/* x may be written over by the step that reads it last: not where another step of the chain reads
 * other rows of it. */
static void rows_that_others_read_stay(void **state) {
    const fixture *f = *state;
    mica_scope *s = f->s;
    for (int flipped = 0; flipped < 2; flipped++) {
        mica_array x = data(f, (int64_t[]){8, 16}, 2);
        x = mica_cumsum(s, x, 1, false, true);
        mica_array xs[2] = {mica_negative(s, flipped ? mica_flip(s, x, 0) : x), MICA_NONE};
        xs[1] = mica_exp(s, mica_square(s, x));
        mc_plan *plan = plan_of(f, xs, 2);
        assert_int_equal(plan->n_steps, 4);
        const mc_step *negative = &plan->steps[1], *square = &plan->steps[2];
        assert_int_equal(negative->span, 3);
        bool over = plan->values[square->in[0]].root == plan->values[square->out].root;
        assert_int_equal(over, !flipped);
        mc_plan_free(plan);
    }
}

/* What the verifier of plans is for: plans in which something is wrong. */
static void wrong_plans_are_found(void **state) {
    fixture *f = *state;
    mica_scope *s = f->s;
    mica_array x = mica_cumsum(s, data(f, (int64_t[]){8, 16}, 2), 1, false, true);
    mica_array y = mica_cumsum(s, mica_exp(s, x), 1, false, true);
    y = mica_cumsum(s, mica_add(s, mica_cumsum(s, mica_multiply(s, x, y), 0, false, true), y), 1,
                    true, true);
    mc_plan *plan = plan_of(f, &y, 1);
    assert_int_equal(mc_plan_verify(plan), MICA_OK);

    mc_root *temp[2] = {NULL, NULL};
    for (uint32_t i = 0; i < plan->n_roots; i++)
        if (plan->roots[i].placed) temp[temp[0] != NULL] = &plan->roots[i];
    assert_non_null(temp[1]);
    int64_t offset = temp[1]->offset;
    temp[1]->offset = temp[0]->offset; /* on what still lives */
    assert_int_equal(mc_plan_verify(plan), MICA_EINTERNAL);
    assert_non_null(strstr(mica_last_error(), "writes over what is still needed"));
    temp[1]->offset = plan->temp_bytes;
    assert_int_equal(mc_plan_verify(plan), MICA_EINTERNAL);
    assert_non_null(strstr(mica_last_error(), "outside of the temporaries"));
    temp[1]->offset = offset;

    mc_step first = plan->steps[0]; /* the last one first */
    plan->steps[0] = plan->steps[plan->n_steps - 1];
    plan->steps[plan->n_steps - 1] = first;
    assert_int_equal(mc_plan_verify(plan), MICA_EINTERNAL);
    assert_non_null(strstr(mica_last_error(), "reads what no step before it makes"));
    plan->steps[plan->n_steps - 1] = plan->steps[0];
    plan->steps[0] = first;
    plan->steps[1].out = plan->steps[0].out;
    assert_int_equal(mc_plan_verify(plan), MICA_EINTERNAL);
    mc_plan_free(plan);
}

static void no_longer_than_a_kernel_takes(void **state) {
    fixture *f = *state;
    mica_array x = data(f, (int64_t[]){4, 64}, 2);
    for (int i = 0; i < 2 * MC_MAX_CHAIN; i++)
        x = mica_negative(f->s, x);
    x = matmul(f, x);
    expect_runs(f, &x, 1, (uint32_t[]){MC_MAX_CHAIN, MC_MAX_CHAIN + 1, 0});
}

static void a_backend_without_chains_has_none(void **state) {
    fixture *f = *state;
    mc_step_ops plain = mc_cpu_steps;
    mica_array x = data(f, (int64_t[]){4, 64}, 2);
    mica_array square = mica_square(f->s, x), negative = mica_negative(f->s, x);
    x = mica_add(f->s, square, matmul(f, negative));
    plain.rows = NULL;
    plain.chain = NULL;
    f->steps = &plain;
    expect_runs(f, &x, 1, (uint32_t[]){1, 1, 1, 1, 0});
    f->steps = &mc_cpu_steps;
    expect_runs(f, &x, 1, (uint32_t[]){3, 1, 0});
}

static void a_backend_without_joint_kernels_runs_steps_alone(void **state) {
    fixture *f = *state;
    mc_step_ops plain = mc_cpu_steps;
    mica_array x = data(f, (int64_t[]){4, 64}, 2);
    mica_array q = matmul(f, x), k = matmul(f, x);
    x = mica_square(f->s, mica_add(f->s, q, k));
    plain.joint = NULL;
    f->steps = &plain;
    expect_runs(f, &x, 1, (uint32_t[]){1, 1, 2, 0});
    f->steps = &mc_cpu_steps;
    expect_runs(f, &x, 1, (uint32_t[]){2, 2, 0});
}

/* x, values and indices live at once, whoever reads them. */
static void results_have_places_of_their_own(void **state) {
    const fixture *f = *state;
    mica_array x = mica_square(f->s, mica_arange(f->s, 0, 40, 1, MICA_F32)), indices;
    mica_array values = mica_topk_indices(f->s, x, 40, 0, &indices);
    values = mica_reshape(f->s, values, (int64_t[]){8, 5}, 2);
    mica_array y = mica_negative(f->s, mica_swapaxes(f->s, values, 0, 1)); /* not in place */
    mc_plan *plan = plan_of(f, &y, 1);
    const mc_step *step = NULL;
    for (uint32_t i = 0; i < plan->n_steps; i++)
        if (plan->steps[i].op == MC_OP_TOPK_INDICES) step = &plan->steps[i];
    assert_non_null(step);
    assert_int_equal(step->n_out, 2);
    assert_int_equal(step->span, 1);
    assert_int_equal(plan->values[step->out + 1].layout.dtype, MICA_U32);
    const uint32_t values_of[] = {step->in[0], step->out, step->out + 1};
    for (int i = 0; i < 3; i++) {
        const mc_root *a = &plan->roots[plan->values[values_of[i]].root];
        assert_true(a->placed && a->bytes == 160 && a->offset + a->bytes <= plan->temp_bytes);
        for (int k = 0; k < i; k++) {
            const mc_root *b = &plan->roots[plan->values[values_of[k]].root];
            assert_true(a->offset + a->bytes <= b->offset || b->offset + b->bytes <= a->offset);
        }
    }
    mc_plan_free(plan);
}

#define WITH_DEVICE(name) cmocka_unit_test_setup_teardown(name, open_fixture, close_fixture)

static mc_support supports_no_gelu(const void *state, mc_op op, const void *attr,
                                   const mc_layout *const *in, int n_in, const mc_layout *out,
                                   int n_out) {
    if (op == MC_OP_GELU) return (mc_support){.yes = false};
    return mc_backend_cpu.supports(state, op, attr, in, n_in, out, n_out);
}

/* Those of a launch, and behind them those of the plan, from a decomposition. */
static void scalars_lie_in_one_block(void **state) {
    const fixture *f = *state;
    mc_backend poor = mc_backend_cpu;
    poor.supports = supports_no_gelu;
    f->device->backend = &poor;
    mica_array x = mica_ones(f->s, (int64_t[]){4}, 1, MICA_F32);
    assert_int_equal(mica_eval(f->s, x), MICA_OK);
    mica_array y = mica_add(f->s, mica_multiply(f->s, x, mica_f32(f->s, 3)), mica_f32(f->s, 5));
    y = mica_gelu(f->s, y);
    mc_plan *plan = plan_of(f, &y, 1);
    mc_run *run = mc_run_new(f->device, plan);
    assert_non_null(run);
    assert_int_equal(plan->lowered->n_scalars, 2);
    assert_true(plan->n_scalars > 2);
    uint32_t n = 0;
    for (uint32_t i = 0; i < plan->n_roots; i++) {
        const mc_root *root = &plan->roots[i];
        if (root->kind != MC_ROOT_SCALAR) continue;
        assert_ptr_equal(run->roots[i], &run->scalars[root->index]);
        assert_true(root->index < plan->n_scalars);
        if (root->index >= 2) assert_memory_equal(run->roots[i], &root->value, sizeof root->value);
        n++;
    }
    assert_int_equal(n, plan->n_scalars);
    mc_run_free(run);
    mc_plan_free(plan);
    f->device->backend = &mc_backend_cpu;
}

/* Bytes of floats and back, as networks quantised to 8 bits have them. */
static mica_array rounded(const fixture *f, mica_array x) {
    mica_array q = mica_round(f->s, mica_divide(f->s, x, mica_f32(f->s, 0.03f)));
    return mica_astype(f->s, mica_add(f->s, q, mica_f32(f->s, 99)), MICA_U8);
}

static mica_array floats_of(const fixture *f, mica_array q) {
    mica_array x = mica_subtract(f->s, mica_astype(f->s, q, MICA_F32), mica_f32(f->s, 99));
    return mica_multiply(f->s, x, mica_f32(f->s, 0.03f));
}

/* The bytes of temporaries that kernels of xs write; what stays in registers has no memory. */
static int64_t temporaries_of(const fixture *f, const mica_array *xs, size_t n) {
    mc_plan *plan = plan_of(f, xs, n);
    int64_t before = plan->temp_bytes;
    assert_int_equal(mc_run_place(f->device, plan), MICA_OK);
    assert_int_equal(mc_plan_verify(plan), MICA_OK);
    int64_t bytes = plan->temp_bytes;
    assert_true(bytes <= before);
    mc_plan_free(plan);
    return bytes;
}

/* A product that rounds, tables, loops: floats between bytes are nowhere, and bytes once. But what
 * somebody else reads is. */
static void what_no_kernel_touches_has_no_memory(void **state) {
    const fixture *f = *state;
    mica_scope *s = f->s;
    enum { N = 16 * 16 * 32 };
    const int64_t shape[] = {1, 16, 16, 32};
    mica_array bytes = mica_contiguous(s, mica_zeros(s, shape, 4, MICA_U8));
    mica_array w = mica_contiguous(s, mica_ones(s, (int64_t[]){32, 3, 3, 32}, 4, MICA_I8));
    assert_int_equal(mica_eval_n(s, (mica_array[]){bytes, w}, 2), MICA_OK);
    const mica_conv_options conv = {.padding_lo = {1, 1}, .padding_hi = {1, 1}};
    const mc_integer_rest rest = {.scale = mica_f32(s, 0.01f)};
    mica_array x = mc_integer_conv(s, bytes, w, &conv, &rest), q = rounded(f, x);
    assert_int_equal(temporaries_of(f, &q, 1), 0);
    mica_array table = rounded(f, mica_silu(s, floats_of(f, q)));
    assert_int_equal(temporaries_of(f, &table, 1), N);
    const mica_array both[] = {table, x};
    assert_int_equal(temporaries_of(f, both, 2), N); /* x is a result, and the bytes of a table */
    mica_array sum = rounded(f, mica_add(s, floats_of(f, q), floats_of(f, bytes)));
    assert_int_equal(temporaries_of(f, &sum, 1), N + 4 * N); /* a loop keeps one array */
    mica_array turned = mica_transpose(s, mica_silu(s, floats_of(f, q)), NULL);
    turned = mica_softmax(s, mica_contiguous(s, turned), 0); /* reads what a loop makes */
    assert_true(temporaries_of(f, &turned, 1) >= 4 * N);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_DEVICE(matmuls_of_one_x_run_together),
        WITH_DEVICE(views_of_the_same_numbers_are_one_x),
        WITH_DEVICE(what_is_computed_again_stays_where_it_is),
        WITH_DEVICE(the_last_matmul_of_two_xs_runs_with_the_others),
        WITH_DEVICE(dense_matmuls_run_together),
        WITH_DEVICE(matmuls_that_wait_for_others_do_not),
        WITH_DEVICE(no_more_than_a_kernel_takes),
        WITH_DEVICE(attention_of_rows_runs_together),
        WITH_DEVICE(attention_keeps_other_joints),
        WITH_DEVICE(attention_that_waits_does_not),
        WITH_DEVICE(rows_go_through_many_steps),
        WITH_DEVICE(other_rows_end_a_chain),
        WITH_DEVICE(a_chain_takes_the_axis_that_goes_on),
        WITH_DEVICE(few_rows_are_no_chain_where_there_are_many),
        WITH_DEVICE(few_rows_are_a_chain_where_no_others_are),
        WITH_DEVICE(one_row_of_many_is_no_row),
        WITH_DEVICE(rows_that_others_read_stay),
        WITH_DEVICE(no_longer_than_a_kernel_takes),
        WITH_DEVICE(wrong_plans_are_found),
        WITH_DEVICE(a_backend_without_chains_has_none),
        WITH_DEVICE(a_backend_without_joint_kernels_runs_steps_alone),
        WITH_DEVICE(results_have_places_of_their_own),
        WITH_DEVICE(scalars_lie_in_one_block),
        WITH_DEVICE(what_no_kernel_touches_has_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
