/* Failures of a device, wherever they come: a status, nothing lost, and the next call works. The
 * witness (support/witness.h) fails as it is told. */
#include "support/witness.h"

#include "device/device.h"
#include "exec/cache.h"
#include "model/fixture.h"
#include "session/session.h"
#include "support/support.h"

#include <mica/executable.h>
#include <mica/ops.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { N = 6, IDS = 12 };

static mica_device *open_witness(void) {
    mica_device *device;
    if (mc_device_open_backend(&witness_backend, "", &(mica_device_options){.threads = 1},
                               &device) != MICA_OK)
        fail_msg("%s", mica_last_error());
    return device;
}

/* Native, decomposed and falling back ops over a moved array. */
static mica_status compute(mica_device *device, float out[N]) {
    const float values[N] = {3, 1, 2, 6, 5, 4};
    mica_scope *s;
    mica_status status = mica_scope_open(device, &s);
    if (status != MICA_OK) return status;
    mica_array x = mica_from_data(s, values, MICA_F32, (const int64_t[]){2, 3}, 2);
    mica_array y = mica_add(s, mica_softmax(s, x, -1), mica_sort(s, mica_multiply(s, x, x), -1));
    mica_array z = mica_matmul(s, mica_transpose(s, y, NULL), x);
    status =
        mica_read(mica_slice_axis(s, mica_flatten(s, z, 0, -1), 0, 0, N), out, N * sizeof *out);
    mica_scope_close(&s);
    return status;
}

static void check_failures(witness_call call) {
    float want[N], got[N];
    uint64_t n = 1;
    bool failed;
    mica_device *device = open_witness();
    assert_int_equal(compute(device, want), MICA_OK);
    do {
        test_forget_plans(device); /* compiling may fail, too */
        witness_fail(device, call, n++);
        mica_status status = compute(device, got);
        failed = witness_has_failed(device, call);
        assert_true(failed ? status == MICA_EDEVICE || status == MICA_ENOMEM || status == MICA_OK
                           : status == MICA_OK);
        if (failed && status != MICA_OK && !strstr(mica_last_error(), "witness"))
            fail_msg("%s", mica_last_error());
        witness_fail(device, call, 0);
        assert_int_equal(mica_device_active_bytes(device), 0);
        if (compute(device, got) != MICA_OK)
            fail_msg("after failure %d: %s", (int)n, mica_last_error());
        assert_memory_equal(got, want, sizeof want);
    } while (failed);
    assert_true(n > 3);
    mica_device_close(&device);
}

static void test_each_launch_fails(void **state) {
    (void)state;
    check_failures(WITNESS_LAUNCH);
}

static void test_each_copy_fails(void **state) {
    (void)state;
    check_failures(WITNESS_COPY);
}

static void test_each_allocation_fails(void **state) {
    (void)state;
    check_failures(WITNESS_ALLOC);
}

/* ---- a session ---- */

static mica_status feed(const mc_session_model *shared, const int32_t *ids, float *logits) {
    mc_session *session = NULL;
    const float *last = NULL;
    mica_status status = mc_session_open(shared, 0, &session);
    if (status == MICA_OK) status = mc_session_feed(session, ids, IDS - 1, NULL);
    if (status == MICA_OK) status = mc_session_feed(session, ids + IDS - 1, 1, &last);
    if (status == MICA_OK) memcpy(logits, last, (size_t)shared->lm->spec.vocab * sizeof *logits);
    mc_session_close(&session);
    return status;
}

/* Every so-many-th call of each kind fails while a session computes. */
static void test_a_session_survives(void **state) {
    (void)state;
    char *path = fixture_path("qwen3_tied");
    mica_device *device = open_witness();
    mc_lm *lm;
    int32_t ids[IDS];
    if (mc_lm_open(path, device, NULL, &lm) != MICA_OK) fail_msg("%s", mica_last_error());
    mc_session_model shared = {.lm = lm, .device = device};
    size_t bytes = (size_t)lm->spec.vocab * sizeof(float);
    float *want = malloc(bytes), *got = malloc(bytes);
    assert_true(want && got);
    for (int i = 0; i < IDS; i++)
        ids[i] = (i * 7 + 3) % (int32_t)lm->spec.vocab;
    assert_int_equal(feed(&shared, ids, want), MICA_OK);
    uint64_t active = mica_device_active_bytes(device);
    for (int call = 0; call < WITNESS_CALLS; call++) {
        uint64_t before = witness_count(device, (witness_call)call);
        assert_int_equal(feed(&shared, ids, got), MICA_OK);
        uint64_t calls = witness_count(device, (witness_call)call) - before;
        for (uint64_t n = 1; n <= calls; n += 1 + calls / 12) {
            witness_fail(device, (witness_call)call, n);
            mica_status status = feed(&shared, ids, got);
            assert_true(status == MICA_EDEVICE || status == MICA_ENOMEM || status == MICA_OK);
            witness_fail(device, (witness_call)call, 0);
            assert_int_equal(mica_device_active_bytes(device), active);
        }
        assert_int_equal(feed(&shared, ids, got), MICA_OK);
        assert_memory_equal(got, want, bytes);
    }
    free(want);
    free(got);
    free(path);
    mc_lm_close(&lm);
    mica_device_close(&device);
}

/* ---- an executable ---- */

/* y = softmax(x) + sort(x w), of which one part is native, one decomposed, one the CPU's; and
 * state + 1, which feeds state. */
static mica_program *record_steps(mica_device *device) {
    const int64_t shape[2] = {2, 3};
    static const char *const names[] = {"y", "next"};
    mica_scope *s;
    mica_program *p;
    assert_int_equal(mica_scope_open(device, &s), MICA_OK);
    mica_array x = mica_program_param(s, MICA_F32, shape, 2);
    mica_array w = mica_program_param(s, MICA_F32, shape, 2);
    mica_array state = mica_program_param(s, MICA_F32, shape, 2);
    const mica_param params[] = {
        {.name = "x", .array = x}, {.name = "w", .array = w}, {.name = "state", .array = state}};
    const mica_array results[] = {
        mica_add(s, mica_softmax(s, x, -1), mica_sort(s, mica_multiply(s, x, w), -1)),
        mica_add(s, state, mica_f32(s, 1))};
    if (mica_program_build(s, params, 3, results, 2, &(mica_program_options){.result_names = names},
                           &p) != MICA_OK)
        fail_msg("%s", mica_last_error());
    mica_scope_close(&s);
    return p;
}

/* An executable, and between which numbers its state may be. */
typedef struct stepped {
    mica_program *p;
    mica_executable *x;
    float least, most;
} stepped;

static const float XS[N] = {3, 1, 2, 6, 5, 4};
static const int16_t WS[N] = {2, 2, 2, 2, 2, 2};

static mica_status set_weights(mica_executable *x) {
    return mica_executable_set(
        x, &(mica_input){
               .name = "w", .data = WS, .bytes = sizeof WS, .dtype = MICA_I16, .convert = true});
}

/* Sets values in every way, ends with those that are wanted, and counts from 0. */
static mica_status set_values(stepped *t, mica_scope *s) {
    mica_array w, old;
    MC_TRY(mica_executable_set_range(t->x, "w", 4, XS, 8));
    w = mica_from_data(s, XS, MICA_F32, (const int64_t[]){3, 2}, 2);
    MC_TRY(
        mica_executable_set(t->x, &(mica_input){.name = "w", .array = mica_transpose(s, w, NULL)}));
    MC_TRY(mica_executable_get(t->x, "w", s, &old));
    MC_TRY(mica_executable_unset(t->x, "w"));
    MC_TRY(set_weights(t->x));
    MC_TRY(mica_executable_fill(t->x, "state", 0));
    t->least = t->most = 0;
    return MICA_OK;
}

static mica_status count_run(stepped *t, mica_status status) {
    t->most += 1;
    t->least += status == MICA_OK;
    return status;
}

static mica_status run_queued(stepped *t, const mica_input *x, mica_scope *s, mica_array *results) {
    mica_ticket *ticket;
    MC_TRY(mica_executable_run_async(t->x, x, 1, &ticket));
    return count_run(t, mica_ticket_wait(&ticket, s, results));
}

/* Every way to run, and what asks. */
static mica_status run_steps(stepped *t, mica_scope *s) {
    const mica_input x = {.name = "x", .data = XS, .bytes = sizeof XS, .dtype = MICA_F32};
    const mica_input xs[2] = {x, x};
    const void *const inputs[3] = {XS, NULL, NULL};
    mica_array results[4];
    char *text;
    float got[N];
    MC_TRY(count_run(t, mica_executable_run(t->x, &x, 1, s, results)));
    MC_TRY(mica_read(results[0], got, sizeof got));
    MC_TRY(run_queued(t, &x, s, results));
    MC_TRY(mica_read(results[1], got, sizeof got));
    mica_status status = mica_executable_run_many(t->x, xs, 1, 2, s, results);
    t->most += 2;
    t->least += status == MICA_OK ? 2 : 0;
    MC_TRY(status);
    MC_TRY(count_run(t, mica_executable_run_slots(t->x, inputs, 3)));
    MC_TRY(mica_executable_check(t->x, &x, 1, &text));
    mica_free(text);
    MC_TRY(mica_executable_report(t->x, &text));
    mica_free(text);
    return MICA_OK;
}

/* Another executable, and a clone of it. */
static mica_status open_others(stepped *t) {
    mica_executable *x, *clone = NULL;
    const mica_input in = {.name = "x", .data = XS, .bytes = sizeof XS, .dtype = MICA_F32};
    MC_TRY(mica_executable_open(t->p, &(mica_executable_options){.mode = MICA_MODE_COMPILED}, &x));
    mica_status status = set_weights(x);
    if (status == MICA_OK) status = mica_executable_fill(x, "state", 0);
    if (status == MICA_OK) status = mica_executable_clone(x, &clone);
    if (status == MICA_OK) status = mica_executable_run(clone, &in, 1, NULL, NULL);
    mica_executable_close(&clone);
    mica_executable_close(&x);
    return status;
}

static mica_status step(stepped *t, mica_device *device) {
    mica_scope *s;
    MC_TRY(mica_scope_open(device, &s));
    mica_status status = set_values(t, s);
    if (status == MICA_OK) status = run_steps(t, s);
    if (status == MICA_OK) status = open_others(t);
    mica_scope_close(&s);
    return status;
}

/* What it gives now that nothing fails, and that its state is one that it was or got. */
static void expect_unharmed(stepped *t, mica_device *device, float want[N]) {
    const mica_input x = {.name = "x", .data = XS, .bytes = sizeof XS, .dtype = MICA_F32};
    mica_scope *s;
    mica_array results[2], state;
    float got[N];
    assert_int_equal(mica_scope_open(device, &s), MICA_OK);
    if (mica_executable_get(t->x, "state", s, &state) != MICA_OK ||
        mica_read(state, got, sizeof got) != MICA_OK)
        fail_msg("%s", mica_last_error());
    if (got[0] < t->least || got[0] > t->most || got[0] != got[N - 1])
        fail_msg("the state is %g and %g, not %g to %g", (double)got[0], (double)got[N - 1],
                 (double)t->least, (double)t->most);
    if (set_weights(t->x) != MICA_OK || mica_executable_run(t->x, &x, 1, s, results) != MICA_OK ||
        mica_read(results[0], got, sizeof got) != MICA_OK)
        fail_msg("%s", mica_last_error());
    if (*want == 0) memcpy(want, got, sizeof got);
    assert_memory_equal(got, want, sizeof got);
    mica_scope_close(&s);
}

/* Each call of a kind fails once, in all that takes an executable: a status, and what is set and
 * fed is what it was, or became. */
static void check_executable(mica_mode mode, witness_call call) {
    mica_device *device = open_witness();
    stepped t = {.p = record_steps(device)};
    float want[N] = {0};
    bool failed;
    uint64_t n = 1;
    assert_int_equal(mica_executable_open(t.p, &(mica_executable_options){.mode = mode}, &t.x),
                     MICA_OK);
    assert_int_equal(mica_executable_feed(t.x, "next", "state"), MICA_OK);
    if (step(&t, device) != MICA_OK) fail_msg("%s", mica_last_error());
    assert_true(t.least == 5 && t.most == 5);
    expect_unharmed(&t, device, want);
    do {
        t.most += 1; /* the run of expect_unharmed */
        t.least += 1;
        mica_device_clear_cache(device);
        witness_fail(device, call, n++);
        mica_status status = step(&t, device);
        failed = witness_has_failed(device, call);
        assert_true(failed ? status == MICA_EDEVICE || status == MICA_ENOMEM || status == MICA_OK
                           : status == MICA_OK);
        witness_fail(device, call, 0);
        expect_unharmed(&t, device, want);
    } while (failed);
    assert_true(n > 6);
    mica_executable_close(&t.x);
    mica_program_close(&t.p);
    test_forget_plans(device);
    assert_int_equal(mica_device_active_bytes(device), 0);
    mica_device_close(&device);
}

static void test_an_executable_survives(void **state) {
    (void)state;
    for (mica_mode mode = MICA_MODE_LAZY; mode <= MICA_MODE_COMPILED; mode++)
        for (int call = 0; call < WITNESS_CALLS; call++)
            check_executable(mode, (witness_call)call);
}

/* ---- what devices tell of themselves ---- */

static void test_what_it_tells(void **state) {
    (void)state;
    mica_device *device = open_witness(), *cpu;
    mica_device_info info = {.struct_bytes = sizeof info};
    mica_device_get_info(device, &info);
    assert_string_equal(info.name, "witness");
    assert_int_equal(info.unified_memory, 0);
    assert_int_equal(info.max_array_bytes, WITNESS_MAX_ARRAY);
    assert_int_equal(info.working_set_bytes, WITNESS_WORKING_SET);
    mica_device_close(&device);
    assert_int_equal(mica_device_open("cpu", NULL, &cpu), MICA_OK);
    mica_device_get_info(cpu, &info);
    assert_int_equal(info.unified_memory, 1);
    assert_true(info.max_array_bytes == 0 && info.working_set_bytes == 0);
    mica_device_close(&cpu);
}

/* ---- threads ---- */

static mica_program *shared_program;

static void *run_often(void *device) {
    mica_scope *s;
    intptr_t bad = mica_scope_open(device, &s) != MICA_OK;
    for (int i = 1; i <= 50 && !bad; i++) {
        const float value[2] = {(float)i, (float)-i};
        float out[2];
        mica_array x = mica_from_data(s, value, MICA_F32, (const int64_t[]){2}, 1), y;
        bad = mica_program_run(shared_program, s, &x, &y) != MICA_OK ||
              mica_read(y, out, sizeof out) != MICA_OK || out[0] != (float)(i * i + i) ||
              out[1] != (float)(i * i - i) || mica_scope_collect(s, NULL, 0) != MICA_OK;
    }
    mica_scope_close(&s);
    return (void *)bad;
}

/* Launches of several threads at once, each with arguments of its own. */
static void test_threads_share_it(void **state) {
    (void)state;
    enum { THREADS = 6 };
    pthread_t threads[THREADS];
    mica_device *device = open_witness();
    mica_scope *s;
    assert_int_equal(mica_scope_open(device, &s), MICA_OK);
    mica_array x = mica_program_param(s, MICA_F32, (const int64_t[]){2}, 1);
    mica_array y = mica_add(s, mica_square(s, x), x);
    const mica_param param = {.array = x, .donate = true};
    if (mica_program_build(s, &param, 1, &y, 1, NULL, &shared_program) != MICA_OK)
        fail_msg("%s", mica_last_error());
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run_often, device), 0);
    for (int i = 0; i < THREADS; i++) {
        void *bad;
        assert_int_equal(pthread_join(threads[i], &bad), 0);
        assert_null(bad);
    }
    mica_program_close(&shared_program);
    mica_scope_close(&s);
    assert_int_equal(mica_device_active_bytes(device), 0);
    mica_device_close(&device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_launch_fails),      cmocka_unit_test(test_each_copy_fails),
        cmocka_unit_test(test_each_allocation_fails),  cmocka_unit_test(test_a_session_survives),
        cmocka_unit_test(test_an_executable_survives), cmocka_unit_test(test_what_it_tells),
        cmocka_unit_test(test_threads_share_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
