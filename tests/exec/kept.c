/* Which errors stay in a scope: mica/array.h states it, and this holds each kind of call to it. */
#include <mica/mica.h>

#include "exec/expect.h"

#define SHAPE(...) (const int64_t[]){__VA_ARGS__}, (int)(sizeof((int64_t[]){__VA_ARGS__}) / 8)

static mica_device *device;

/* Arrays to go wrong with. */
typedef struct operands {
    mica_array three, four; /* f32 [3], [4] */
    mica_array rows;        /* f32 [2, 3] */
    mica_array whole;       /* i32 [4] */
    mica_array beyond;      /* an element that is not there: known when it is evaluated */
} operands;

static operands operands_of(mica_scope *s) {
    operands o = {.three = mica_zeros(s, SHAPE(3), MICA_F32),
                  .four = mica_zeros(s, SHAPE(4), MICA_F32),
                  .rows = mica_zeros(s, SHAPE(2, 3), MICA_F32),
                  .whole = mica_zeros(s, SHAPE(4), MICA_I32)};
    const int32_t at = 9;
    o.beyond = mica_take(s, o.three, mica_from_data(s, &at, MICA_I32, SHAPE(1)), 0);
    must(mica_scope_status(s));
    return o;
}

/* A function whose op fails. */
static mica_status mismatch(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                            mica_array *results, size_t n_results) {
    (void)user, (void)n_args, (void)n_results;
    results[0] = mica_add(s, args[0], mica_zeros(s, SHAPE(7), MICA_F32));
    return mica_scope_status(s);
}

/* One that calls a function whose op fails. */
static mica_status inlined(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                           mica_array *results, size_t n_results) {
    mica_status status = mica_function_call(user, s, args, n_args, results, n_results);
    assert_int_not_equal(status, MICA_OK);
    must(mica_scope_status(s));
    results[0] = mica_sum(s, args[0], NULL, 0, false);
    return mica_scope_status(s);
}

/* ---- calls; each fails ---- */

#define CALL(name) static mica_status name(mica_scope *s, const operands *o)
#define ARRAY(name, call)               \
    CALL(name) {                        \
        (void)o;                        \
        assert_false(mica_valid(call)); \
        return mica_scope_status(s);    \
    }
#define STATUS(name, call)           \
    CALL(name) {                     \
        mica_array out[4];           \
        (void)s, (void)o, (void)out; \
        return call;                 \
    }

ARRAY(an_op, mica_add(s, o->three, o->four))
ARRAY(materialize, mica_materialize(s, o->beyond))
ARRAY(move, mica_move(s, o->beyond))
ARRAY(detach, mica_detach(s, o->beyond))
ARRAY(to_device, mica_to_device(s, o->beyond))
ARRAY(stop_gradient, mica_stop_gradient(s, MICA_NONE))
ARRAY(param, mica_program_param(s, MICA_F32, (const int64_t[]){-5}, 1))
ARRAY(file_load, mica_array_file_load(NULL, 0, s))
CALL(dim) {
    (void)o;
    assert_int_equal(mica_program_dim(s, NULL), 0);
    return mica_scope_status(s);
}
STATUS(split, mica_split(s, o->four, NULL, -1, 0, out))
STATUS(quantize,
       mica_quantize(s, o->whole, (mica_quant){MICA_QUANT_AFFINE, 4, 64}, out, out + 1, out + 2))
STATUS(norm_backward,
       mica_layer_norm_backward(s, o->four, MICA_NONE, o->three, 1e-5f, out, out + 1, out + 2))
STATUS(rms_backward, mica_rms_norm_backward(s, o->whole, MICA_NONE, o->whole, 1e-5f, out, out + 1))

STATUS(eval, mica_eval(s, o->beyond))
STATUS(eval_none, mica_eval(s, MICA_NONE))
STATUS(eval_n, mica_eval_n(s, &o->beyond, 1))
CALL(wait) {
    must(mica_eval_async(s, &o->beyond, 1));
    return mica_wait(s);
}
CALL(read) {
    float out;
    (void)s;
    return mica_read(o->beyond, &out, sizeof out);
}
CALL(host) {
    const void *at;
    (void)s;
    return mica_array_host(o->beyond, &at);
}
CALL(item_f64) {
    double out;
    (void)s;
    return mica_item_f64(o->beyond, &out);
}
CALL(item_i64) {
    int64_t out;
    (void)s;
    return mica_item_i64(o->four, &out);
}
CALL(text) {
    char out[64];
    (void)s;
    return mica_array_text(o->beyond, NULL, out, sizeof out, NULL);
}
CALL(next) {
    mica_iter it = {0};
    (void)s;
    assert_false(mica_next(o->beyond, &it));
    return it.status;
}
CALL(collect) {
    mica_array live = o->beyond;
    return mica_scope_collect(s, &live, 1);
}
CALL(build) {
    mica_program *p;
    return mica_program_build(s, &(mica_param){.array = o->three}, 1, &o->beyond, 1, NULL, &p);
}

/* x + x of [3], as a program. */
static mica_program *doubles(void) {
    mica_scope *s;
    mica_program *p;
    must(mica_scope_open(device, &s));
    mica_array x = mica_program_param(s, MICA_F32, SHAPE(3)), y = mica_add(s, x, x);
    must(mica_program_build(s, &(mica_param){.array = x}, 1, &y, 1, NULL, &p));
    mica_scope_close(&s);
    return p;
}

CALL(program) {
    mica_program *p = doubles();
    mica_array y;
    mica_status status = mica_program_run(p, s, &o->four, &y);
    mica_program_close(&p);
    return status;
}
CALL(executable) {
    mica_program *p = doubles();
    mica_executable *x;
    mica_array y;
    must(mica_executable_open(p, NULL, &x));
    mica_status status =
        mica_executable_run(x, &(mica_input){.name = "0", .array = o->four}, 1, s, &y);
    mica_executable_close(&x);
    mica_program_close(&p);
    return status;
}
CALL(function) {
    mica_function *f;
    mica_array y;
    must(mica_compile(device, mismatch, NULL, NULL, &f));
    mica_status status = mica_function_call(f, s, &o->three, 1, &y, 1);
    mica_function *outer;
    must(mica_compile(device, inlined, f, NULL, &outer));
    must(mica_function_call(outer, s, &o->three, 1, &y, 1));
    mica_function_close(&outer);
    mica_function_close(&f);
    return status;
}
STATUS(branch, mica_if(s, o->four, mismatch, mismatch, NULL, &o->three, 1, out, 1))
STATUS(branches, mica_if_each(s, o->four, mismatch, mismatch, NULL, &o->three, 1, out, 1))
STATUS(loop, mica_while(s, mismatch, mismatch, NULL, &o->three, 1, NULL, out, NULL))
STATUS(scan, mica_scan(s, mismatch, NULL, &o->three, 1, NULL, 0, NULL, out, NULL, 0))
STATUS(grad, mica_grad(s, o->three, o->four, &o->three, 1, out))
STATUS(value_and_grad,
       mica_value_and_grad(s, mismatch, NULL, &o->three, 1, NULL, 0, out, 1, out + 1))
STATUS(vjp, mica_vjp(s, mismatch, NULL, &o->three, 1, &o->three, out, 1, out + 1))
STATUS(jvp, mica_jvp(s, mismatch, NULL, &o->three, 1, &o->three, out, 1, out + 1))
STATUS(checkpoint, mica_checkpoint(s, mismatch, NULL, &o->three, 1, out, 1))
STATUS(vmap, mica_vmap(s, mismatch, NULL, &o->rows, 1, NULL, out, 1))
STATUS(custom_vjp, mica_custom_vjp(s, &(mica_custom_gradient){.fn = mismatch, .vjp = mismatch},
                                   NULL, &o->three, 1, out, 1))
STATUS(loss, mica_loss(s, "mse", (const mica_array[]){o->three, o->four}, 2, NULL, out))
CALL(optimizer) {
    mica_optimizer *optimizer;
    mica_array y;
    must(mica_optimizer_open(device, NULL, &optimizer));
    mica_status status = mica_optimizer_update(optimizer, s, &o->beyond, &o->beyond, 1, 0.1, &y);
    mica_optimizer_close(&optimizer);
    return status;
}
CALL(load) {
    mica_named_array *arrays;
    size_t n;
    (void)o;
    return mica_load_safetensors("/nowhere/x.safetensors", s, &arrays, &n);
}

static const struct row {
    const char *name;
    mica_status (*call)(mica_scope *s, const operands *o);
    bool keeps;
    bool takes; /* it is given the scope, and so returns an error that is there */
} rows[] = {
#define KEEPS(name) \
    { #name, name, true, true }
#define LEAVES(name) \
    { #name, name, false, true }
#define READS(name) \
    { #name, name, false, false }
    KEEPS(an_op),        KEEPS(materialize),
    KEEPS(move),         KEEPS(detach),
    KEEPS(to_device),    KEEPS(stop_gradient),
    KEEPS(param),        KEEPS(file_load),
    KEEPS(dim),          KEEPS(split),
    KEEPS(quantize),     KEEPS(norm_backward),
    KEEPS(rms_backward), LEAVES(eval),
    LEAVES(eval_none),   LEAVES(eval_n),
    READS(wait),         READS(read),
    READS(host),         READS(item_f64),
    READS(item_i64),     READS(text),
    READS(next),         LEAVES(collect),
    LEAVES(build),       LEAVES(program),
    READS(executable),   READS(function),
    LEAVES(branch),      LEAVES(branches),
    LEAVES(loop),        LEAVES(scan),
    LEAVES(grad),        LEAVES(value_and_grad),
    LEAVES(vjp),         LEAVES(jvp),
    LEAVES(checkpoint),  LEAVES(vmap),
    LEAVES(custom_vjp),  LEAVES(loss),
    LEAVES(optimizer),   LEAVES(load),
};

static void test_what_is_kept(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        mica_scope *s;
        must(mica_scope_open(device, &s));
        operands o = operands_of(s);
        mica_status status = rows[i].call(s, &o);
        if (status == MICA_OK) fail_msg("%s did not fail", rows[i].name);
        mica_status kept = mica_scope_status(s);
        if (kept != (rows[i].keeps ? status : MICA_OK))
            fail_msg("%s: %s, and the scope has %s", rows[i].name, mica_status_name(status),
                     mica_status_name(kept));
        bool goes_on = mica_eval(s, mica_add(s, o.four, o.four)) == MICA_OK;
        if (goes_on == rows[i].keeps) fail_msg("after %s", rows[i].name);
        mica_scope_close(&s);
    }
}

/* An error that is there is what each call with the scope returns, and it stays. */
static void test_the_first_one_stays(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        mica_scope *s;
        if (!rows[i].takes) continue;
        must(mica_scope_open(device, &s));
        operands o = operands_of(s);
        assert_false(mica_valid(mica_reshape(s, o.four, SHAPE(5))));
        assert_int_equal(mica_scope_status(s), MICA_ESHAPE);
        expect_refused(rows[i].call(s, &o), MICA_ESHAPE, "reshape");
        expect_refused(mica_scope_status(s), MICA_ESHAPE, "reshape");
        mica_scope_close(&s);
    }
}

static int set_up(void **state) {
    (void)state;
    return mica_device_open("cpu", &(mica_device_options){.threads = 1}, &device) != MICA_OK;
}

static int tear_down(void **state) {
    (void)state;
    mica_device_close(&device);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_kept),
        cmocka_unit_test(test_the_first_one_stays),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
