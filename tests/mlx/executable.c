/* Launches of the device mlx: what is taken, what is kept, errors, and how often MLX's graph is
 * built. */
#define _POSIX_C_SOURCE 200809L
#include "mlx/executable.h"

#include <mica/mica.h>

#include <stdlib.h>
#include <string.h>

#include "device/device.h"
#include "exec/executable.h"
#include "model/fixture.h"
#include "session/session.h"

static mica_device *open_in(const char *mode) {
    mica_device *device;
    setenv("MICA_MLX_MODE", mode, 1);
    if (mica_device_open("mlx:cpu", NULL, &device) != MICA_OK) fail_msg("%s", mica_last_error());
    return device;
}

/* A launch that the memory limit refuses leaves a moved array as it is. */
static void test_a_refused_launch_takes_nothing(void **state) {
    (void)state;
    enum { N = 1 << 16 };
    const int64_t n = N;
    static float got[N];
    mica_device *device = open_in("lazy");
    mica_scope *s;
    assert_int_equal(mica_scope_open(device, &s), MICA_OK);
    mica_array x = mica_arange(s, 0, N, 1, MICA_F32);
    assert_int_equal(mica_eval(s, x), MICA_OK);
    mica_array y = mica_add(s, mica_move(s, x), mica_f32(s, 1));
    mica_device_set_memory_limit(device, N * sizeof *got + 100);
    assert_int_equal(mica_eval(s, y), MICA_ENOMEM);
    mica_device_set_memory_limit(device, 0);
    if (mica_read(y, got, sizeof got) != MICA_OK) fail_msg("%s", mica_last_error());
    assert_true(got[0] == 1 && got[N - 1] == N);
    assert_int_equal(mica_device_active_bytes(device), n * (int64_t)sizeof *got);
    mica_scope_close(&s);
    mica_device_close(&device);
}

/* ---- memory that a result shares with an argument ---- */

static float lent[64];
static bool given_back;

static void give_back(void *owner) {
    (void)owner;
    given_back = true;
}

static const uint8_t *read_lent(const mlx_array array) {
    (void)array;
    return (const uint8_t *)lent;
}

/* Metal computes in memory of the host, and an op that copies nothing gives a result in it: the
 * memory must stay until the result is freed. MLX's CPU copies, so the test says that the result is
 * there. */
static void test_memory_is_kept_for_a_result_in_it(void **state) {
    (void)state;
    mica_device *device = open_in("lazy");
    mica_scope *s, *outer;
    const int64_t n = sizeof lent / sizeof *lent;
    assert_int_equal(mica_scope_open(device, &s), MICA_OK);
    assert_int_equal(mica_scope_open(device, &outer), MICA_OK);
    given_back = false;
    mica_array x = mc_leaf_memory(s, lent, MICA_F32, &n, 1, give_back, NULL);
    mica_array y = mica_square(s, x);
    __typeof__(mc_mlx.array_data_uint8) own = mc_mlx.array_data_uint8;
    mc_mlx.array_data_uint8 = read_lent;
    assert_int_equal(mica_eval(s, y), MICA_OK);
    mc_mlx.array_data_uint8 = own;
    mica_array kept = mica_materialize(outer, y);
    assert_true(mica_valid(kept));
    mica_scope_close(&s);
    assert_false(given_back);
    mica_scope_close(&outer);
    assert_true(given_back);
    mica_device_close(&device);
}

/* ---- errors ---- */

static int left; /* calls of a function of MLX until it fails */

static int negate_or_fail(mlx_array *y, const mlx_array x, const mlx_stream stream) {
    (void)y, (void)x, (void)stream;
    return 1;
}

static __typeof__(mc_mlx.array_eval) array_eval;

static int evaluate_or_fail(mlx_array array) {
    return left-- > 0 ? array_eval(array) : 1;
}

/* Op by op, an error says which: the second here. */
static void test_an_eager_failure_names_the_op(void **state) {
    (void)state;
    mica_device *device = open_in("eager");
    mica_scope *s;
    const float data[] = {1, 2, 3};
    const char *const want[] = {"mlx: exp (node ", "mlx: negative (node "};
    assert_int_equal(mica_scope_open(device, &s), MICA_OK);
    mica_array x = mica_from_data(s, data, MICA_F32, (int64_t[]){3}, 1);
    mica_array y = mica_negative(s, mica_exp(s, x));
    array_eval = mc_mlx.array_eval;
    for (int i = 0; i < 2; i++) {
        left = i;
        mc_mlx.array_eval = evaluate_or_fail;
        assert_int_equal(mica_eval(s, y), MICA_EDEVICE);
        mc_mlx.array_eval = array_eval;
        const char *at = strstr(mica_last_error(), want[i]);
        if (!at || !strstr(at, "f32[3]")) fail_msg("%s", mica_last_error());
    }
    assert_int_equal(mica_eval(s, y), MICA_OK);
    mica_scope_close(&s);
    mica_device_close(&device);
}

/* Between a launch and its end the graph may be built again, and the building fail. */
static void test_a_launch_keeps_its_checks(void **state) {
    (void)state;
    mica_device *device = open_in("lazy");
    mica_scope *s, *into;
    mica_program *p;
    mica_array result;
    mc_fence bad, failed;
    const float data[] = {1, 2, 3};
    assert_int_equal(mica_scope_open(device, &s), MICA_OK);
    assert_int_equal(mica_scope_open(device, &into), MICA_OK);
    mica_array in = mica_program_param(s, MICA_F32, (int64_t[]){3}, 1);
    mica_array at = mica_program_param(s, MICA_I32, (int64_t[]){1}, 1);
    mica_array y = mica_take(s, mica_negative(s, in), at, 0);
    const mica_param params[] = {{.array = in}, {.array = at}};
    assert_int_equal(mica_program_build(s, params, 2, &y, 1, NULL, &p), MICA_OK);
    mica_array args[] = {mica_from_data(into, data, MICA_F32, (int64_t[]){3}, 1),
                         mica_from_data(into, &(int32_t){7}, MICA_I32, (int64_t[]){1}, 1)};
    assert_int_equal(mc_program_launch(p, into, args, &result, &bad), MICA_OK);
    (void)mica_device_active_bytes(device); /* the graph is built now */
    __typeof__(mc_mlx.negative) negative = mc_mlx.negative;
    mc_mlx.negative = negate_or_fail;
    assert_int_equal(mc_program_launch(p, into, args, &result, &failed), MICA_OK);
    assert_int_equal(mc_device_wait(device, failed), MICA_EDEVICE);
    mc_mlx.negative = negative;
    assert_int_equal(mc_device_wait(device, bad), MICA_EINVAL);
    assert_string_equal(mica_last_error(), "take: index 7 is outside axis 0, which has 3 elements");
    mica_program_close(&p);
    mica_scope_close(&into);
    mica_scope_close(&s);
    mica_device_close(&device);
}

/* ---- compiled graphs ---- */

static uint64_t traces_of(const mc_session *session) {
    uint64_t traces = 0;
    for (int i = 0; i < MC_SESSION_PROGRAMS; i++) {
        const mica_program *p = session->programs[i].program;
        for (uint32_t k = 0; p && k < p->cached->compiled->n_segments; k++)
            traces += mc_mlx_traces(p->cached->compiled->segments[k].executable);
    }
    return traces;
}

/* Feeds a prompt and n tokens one by one; traces[i] is how often MLX's graphs of the session's
 * programs were built when i tokens were. */
static void decode(const char *mode, int n, uint64_t *traces) {
    model_fixture f;
    const int32_t prompt[] = {3, 14, 15, 92};
    setenv("MICA_MLX_MODE", mode, 1);
    fixture_open("q4g64_qwen3", &f);
    const mc_session_model shared = {.lm = f.lm, .device = f.device};
    mc_session *session;
    assert_int_equal(mc_session_open(&shared, 0, &session), MICA_OK);
    assert_int_equal(mc_session_feed(session, prompt, 4, NULL), MICA_OK);
    for (int i = 0; i < n; i++) {
        const float *logits;
        traces[i] = traces_of(session);
        assert_int_equal(mc_session_feed(session, &(int32_t){i % 100}, 1, &logits), MICA_OK);
    }
    mc_session_close(&session);
    fixture_close(&f);
}

/* Compiled, MLX's graph of a decode step is built at the first and replayed by all others. */
static void test_a_decode_step_is_traced_once(void **state) {
    (void)state;
    enum { N = 100 };
    uint64_t traces[N];
    if (system("command -v g++ > /dev/null") != 0) skip(); /* MLX compiles nothing without it */
    decode("compiled", N, traces);
    assert_int_equal(traces[1], traces[0] + 1);
    for (int i = 2; i < N; i++)
        assert_int_equal(traces[i], traces[1]);
    decode("lazy", N, traces); /* built each time, so that the count counts */
    assert_int_equal(traces[N - 1], traces[0] + N - 1);
}

/* ---- modes ---- */

/* How often MLX's graph of a program is built where an executable of that mode runs it four times.
 */
static uint64_t count_traces(mica_device *device, mica_mode mode) {
    enum { RUNS = 4 };
    mica_scope *s;
    mica_program *p;
    mica_executable *x;
    mica_array y;
    float got[3];
    assert_int_equal(mica_scope_open(device, &s), MICA_OK);
    mica_array in = mica_program_param(s, MICA_F32, (int64_t[]){3}, 1);
    mica_array doubled = mica_add(s, in, in);
    const mica_param param = {.array = in, .name = "in"};
    assert_int_equal(mica_program_build(s, &param, 1, &doubled, 1, NULL, &p), MICA_OK);
    if (mica_executable_open(p, &(mica_executable_options){.mode = mode}, &x) != MICA_OK)
        fail_msg("%s", mica_last_error());
    for (int i = 0; i < RUNS; i++) {
        const float data[] = {(float)i, 1, 2};
        const mica_input input = {
            .name = "in", .data = data, .bytes = sizeof data, .dtype = MICA_F32};
        assert_int_equal(mica_executable_run(x, &input, 1, s, &y), MICA_OK);
        assert_int_equal(mica_read(y, got, sizeof got), MICA_OK);
        assert_true(got[0] == 2 * (float)i && got[1] == 2 && got[2] == 4);
    }
    uint64_t traces = mc_mlx_traces(x->bounds->first->compiled->segments[0].executable);
    mica_executable_close(&x);
    mica_program_close(&p);
    mica_scope_close(&s);
    return traces;
}

/* An executable says how MLX runs its graph, where MICA_MLX_MODE does not. */
static void test_an_executable_has_a_mode(void **state) {
    (void)state;
    if (system("command -v g++ > /dev/null") != 0) skip(); /* MLX compiles nothing without it */
    mica_device *device = open_in("");
    assert_int_equal(count_traces(device, MICA_MODE_COMPILED), 1);
    assert_int_equal(count_traces(device, MICA_MODE_LAZY), 4);
    assert_int_equal(count_traces(device, MICA_MODE_DEFAULT), 4);
    setenv("MICA_MODE", "compiled", 1);
    assert_int_equal(count_traces(device, MICA_MODE_DEFAULT), 1);
    assert_int_equal(count_traces(device, MICA_MODE_LAZY), 4);
    unsetenv("MICA_MODE");
    mica_device_close(&device);
    device = open_in("lazy");
    assert_int_equal(count_traces(device, MICA_MODE_COMPILED), 4);
    mica_device_close(&device);
    device = open_in("compiled");
    assert_int_equal(count_traces(device, MICA_MODE_LAZY), 1);
    mica_device_close(&device);
}

int main(void) {
    setenv("MICA_TEST_DEVICE", "mlx:cpu", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_refused_launch_takes_nothing),
        cmocka_unit_test(test_memory_is_kept_for_a_result_in_it),
        cmocka_unit_test(test_an_eager_failure_names_the_op),
        cmocka_unit_test(test_a_launch_keeps_its_checks),
        cmocka_unit_test(test_a_decode_step_is_traced_once),
        cmocka_unit_test(test_an_executable_has_a_mode),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
