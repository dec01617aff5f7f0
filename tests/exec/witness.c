/* Failures of a device, wherever they come: a status, nothing lost, and the next call works. The
 * witness (support/witness.h) fails as it is told. */
#include "support/witness.h"

#include "device/device.h"
#include "exec/cache.h"
#include "model/fixture.h"
#include "session/session.h"
#include "support/support.h"

#include <mica/ops.h>
#include <mica/program.h>

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
        cmocka_unit_test(test_each_launch_fails),     cmocka_unit_test(test_each_copy_fails),
        cmocka_unit_test(test_each_allocation_fails), cmocka_unit_test(test_a_session_survives),
        cmocka_unit_test(test_threads_share_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
