/* promotion.json: the dtype of a result for every dtype of the operands. */
#include <stdio.h>
#include <string.h>

#include <mica/signal.h>

#include "op/golden.h"

static const int64_t shape[2] = {2, 2};

/* Counts a record. got must have the dtype that `want` names, or be an error if want names one. */
static void count_dtype(const char *what, const char *of, mica_array got, mc_str want,
                        golden_count *count) {
    char name[32];
    snprintf(name, sizeof name, "%.*s", MC_STR_ARG(want));
    mica_dtype dtype;
    bool error = mc_str_starts(want, MC_STR("error"));
    bool good =
        error ? !mica_valid(got)
              : golden_dtype_of(name, &dtype) && mica_valid(got) && mica_array_dtype(got) == dtype;
    count->passed += good;
    count->failed += !good;
    if (!good)
        print_error("promotion: %s of %s is %s, golden %s\n", what, of,
                    mica_valid(got) ? mica_dtype_name(mica_array_dtype(got)) : mica_last_error(),
                    name);
}

/* The dtype that a key names. false, and counted as skipped: mica has none of that name. */
static bool key_dtype(mc_str key, char name[32], mica_dtype *dtype, golden_count *count) {
    snprintf(name, 32, "%.*s", MC_STR_ARG(key));
    bool known = golden_dtype_of(name, dtype);
    if (!known) golden_lacks("promotion", name, "a dtype", count);
    return known;
}

static void sums(mica_device *device, mc_json table, golden_count *count) {
    for (mc_json_iter a = mc_json_begin(table); mc_json_next(&a);) {
        for (mc_json_iter b = mc_json_begin(a.value); mc_json_next(&b);) {
            char left[32], right[32], of[80];
            mica_dtype da, db;
            mc_str want;
            assert_true(mc_json_get_str(b.value, &want));
            if (!key_dtype(a.key, left, &da, count) || !key_dtype(b.key, right, &db, count))
                continue;
            mica_scope *s = NULL;
            assert_int_equal(mica_scope_open(device, &s), MICA_OK);
            snprintf(of, sizeof of, "%s and %s", left, right);
            mica_array y = mica_add(s, mica_ones(s, shape, 2, da), mica_ones(s, shape, 2, db));
            if (da == MICA_F64 || db == MICA_F64) { /* the dtype alone: nothing computes with it */
                assert_int_equal(mica_scope_status(s), MICA_EDTYPE);
                mica_scope_close(&s);
                assert_int_equal(mica_scope_open(device, &s), MICA_OK);
                y = mica_zeros(s, shape, 2, mica_dtype_promote(da, db));
            }
            count_dtype("add", of, y, want, count);
            assert_int_equal(mica_eval(s, y), MICA_OK);
            mica_scope_close(&s);
        }
    }
}

/* Applies the op that the table names; false if mica has none. Python's scalars are weak: an int
 * takes the array's dtype, i32 for bool; a float takes the array's float, or f32. */
static bool apply(mica_scope *s, const char *op, mica_array x, mica_array *y) {
    const int last = -1;
    mica_dtype dtype = mica_array_dtype(x);
    mica_dtype whole = dtype == MICA_BOOL ? MICA_I32 : dtype;
    mica_dtype inexact = mica_dtype_is_float(dtype) ? dtype : MICA_F32;
#define IS(name, expr)       \
    if (!strcmp(op, name)) { \
        *y = (expr);         \
        return true;         \
    }
    IS("divide", mica_divide(s, x, x))
    IS("floor_divide", mica_floor_divide(s, x, x))
    IS("power", mica_power(s, x, x))
    IS("remainder", mica_remainder(s, x, x))
    IS("sum", mica_sum(s, x, NULL, 0, false))
    IS("prod", mica_prod(s, x, NULL, 0, false))
    IS("mean", mica_mean(s, x, NULL, 0, false))
    IS("max", mica_max(s, x, NULL, 0, false))
    IS("var", mica_var(s, x, NULL, 0, false, 0))
    IS("logsumexp", mica_logsumexp(s, x, &last, 1, false))
    IS("cumsum", mica_cumsum(s, x, 0, false, true))
    IS("exp", mica_exp(s, x))
    IS("sqrt", mica_sqrt(s, x))
    IS("abs", mica_abs(s, x))
    IS("negative", mica_negative(s, x))
    IS("square", mica_square(s, x))
    IS("sign", mica_sign(s, x))
    IS("round", mica_round(s, x))
    IS("floor", mica_floor(s, x))
    IS("softmax", mica_softmax(s, x, -1))
    IS("argmax", mica_argmax(s, x, -1, false))
    IS("matmul", mica_matmul(s, x, x))
    IS("equal", mica_equal(s, x, x))
    IS("bitwise_and", mica_bitwise_and(s, x, x))
    IS("left_shift", mica_left_shift(s, x, x))
    IS("invert", mica_bitwise_invert(s, x))
    IS("topk", mica_topk(s, x, 1, -1))
    IS("where(bool,x,i32)",
       mica_where(s, mica_ones(s, shape, 2, MICA_BOOL), x, mica_ones(s, shape, 2, MICA_I32)))
    IS("x + 1", mica_add(s, x, mica_scalar(s, 1, whole)))
    IS("x + 1.5", mica_add(s, x, mica_scalar(s, 1.5, inexact)))
    IS("x + True", mica_add(s, x, mica_scalar(s, 1, MICA_BOOL)))
    IS("x * 1j", mica_multiply(s, x, mica_complex(s, mica_f32(s, 0), mica_f32(s, 1))))
    IS("maximum_scalar_f", mica_maximum(s, x, mica_scalar(s, 1.5, inexact)))
#undef IS
    return false;
}

static void ops(mica_device *device, mc_json table, golden_count *count) {
    for (mc_json_iter a = mc_json_begin(table); mc_json_next(&a);) {
        for (mc_json_iter b = mc_json_begin(a.value); mc_json_next(&b);) {
            char name[32], op[64];
            mica_dtype dtype;
            mc_str want;
            assert_true(mc_json_get_str(b.value, &want));
            snprintf(op, sizeof op, "%.*s", MC_STR_ARG(b.key));
            mica_scope *s = NULL;
            assert_int_equal(mica_scope_open(device, &s), MICA_OK);
            mica_array y = MICA_NONE;
            bool known = key_dtype(a.key, name, &dtype, count);
            if (known && !apply(s, op, mica_ones(s, shape, 2, dtype), &y)) {
                golden_lacks("promotion", op, name, count);
            } else if (known && (dtype == MICA_C64 || dtype == MICA_F64) && !mica_valid(y) &&
                       mica_scope_status(s) == MICA_EDTYPE &&
                       !mc_str_starts(want, MC_STR("error"))) {
                golden_lacks("promotion", dtype == MICA_C64 ? "an op of c64" : "an op of f64", name,
                             count);
            } else if (known) {
                count_dtype(op, name, y, want, count);
                if (mica_valid(y)) assert_int_equal(mica_eval(s, y), MICA_OK);
            }
            mica_scope_close(&s);
        }
    }
}

static void whole(mica_device *device, mc_json root, golden_count *count) {
    sums(device, mc_json_find(root, "binary_result_dtype(add)"), count);
    ops(device, mc_json_find(root, "per_op_result_dtype"), count);
    /* the dtypes of Python's literals, which mica has not */
    count->skipped += (int)mc_json_count(mc_json_find(root, "scalar_defaults"));
}

const golden_group golden_promotion = {"promotion", NULL, 0, whole};
