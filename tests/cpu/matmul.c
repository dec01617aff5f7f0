/* How joint matmuls are split: each column is computed once, in enough pieces for all threads, even
 * if the first matmul has few columns. */
#include "cpu/matmul.h"

#include "device/device.h"
#include "exec/steps/run.h"
#include "support/support.h"

#include <stdatomic.h>

enum { K = 1024, WIDE = 3072, NARROW = 1, TILE = 64, THREADS = 4 };

static atomic_int calls;
static atomic_bool wrong;

/* A result is its column's number plus 1, and more if it is computed twice. */
static void number_columns(const mc_matmul *p, const mc_form *x, int64_t batch, int64_t first,
                           int64_t count, void *scratch, float *y, int64_t y_stride) {
    (void)batch;
    (void)y_stride;
    if (x->kind != MC_FORM_F32 || scratch != NULL || first + count > p->n)
        atomic_store(&wrong, true);
    atomic_fetch_add(&calls, 1);
    for (int64_t i = 0; i < count; i++)
        y[i] += (float)(first + i + 1);
}

/* Columns of a matmul with one row of x. */
typedef struct columns {
    mc_operand in[2];
    mc_layout x, w, out;
    float y[WIDE];
} columns;

static void split(mica_device *device, int64_t n_first, int64_t n_second) {
    static const float x[K];
    static columns c[2];
    static mc_run run; /* that is not measured */
    mc_call call[2];
    mc_matmul p[2];
    const mc_matmul *both[] = {&p[0], &p[1]};
    for (int i = 0; i < 2; i++) {
        int64_t n = i == 0 ? n_first : n_second;
        c[i] = (columns){0};
        assert_int_equal(mc_layout_init(&c[i].x, MICA_F32, (int64_t[]){1, K}, 2), MICA_OK);
        assert_int_equal(mc_layout_init(&c[i].w, MICA_F32, (int64_t[]){n, K}, 2), MICA_OK);
        assert_int_equal(mc_layout_init(&c[i].out, MICA_F32, (int64_t[]){1, n}, 2), MICA_OK);
        c[i].in[MC_MATMUL_X] = (mc_operand){(void *)(uintptr_t)x, &c[i].x};
        c[i].in[MC_MATMUL_W] = (mc_operand){NULL, &c[i].w};
        call[i] = (mc_call){.op = MC_OP_MATMUL,
                            .n_in = 2,
                            .in = c[i].in,
                            .out = {c[i].y, &c[i].out},
                            .state = mc_backend_state(device),
                            .run = &run,
                            .left = 2 - i};
        mc_matmul_init(&p[i], &call[i], false);
        p[i].tile = n < TILE ? n : TILE;
        p[i].runs = true;
        p[i].columns = number_columns;
    }
    mc_chain none;
    assert_int_equal(mc_chain_measure(&none, call, 0), MICA_OK);
    atomic_store(&calls, 0);
    assert_int_equal(mc_matmuls_run(both, 2, &none), MICA_OK);
    for (int i = 0; i < 2; i++)
        for (int64_t k = 0; k < p[i].n; k++)
            assert_true(c[i].y[k] == (float)(k + 1));
    assert_false(atomic_load(&wrong));
    assert_true(atomic_load(&calls) >= THREADS);
}

static void few_columns_do_not_hold_the_others(void **state) {
    (void)state;
    mica_device *device = NULL;
    assert_int_equal(mica_device_open("cpu", &(mica_device_options){.threads = THREADS}, &device),
                     MICA_OK);
    split(device, NARROW, WIDE);
    split(device, WIDE, NARROW);
    split(device, WIDE, WIDE);
    mica_device_close(&device);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(few_columns_do_not_hold_the_others)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
