/* Times programs that are small, as control loops run them, and control flow.
 *
 *     program
 *
 * A program of 10 nodes over 8 numbers: through slots, and by inputs with names. A round of a loop
 * that counts, and a step of a scan over rows of 16. A step that writes a row of a state of 4 MiB
 * that is fed, without a slot for the state, and with one. One thread; medians of 9 batches. */
#include <mica/mica.h>

#include <stdio.h>
#include <stdlib.h>

#include "base/system.h"
#include "timing.h"

enum { BATCHES = 9, RUNS = 20000, ROUNDS = 100000 };

/* Microseconds of a call of run, which does `each` of what is timed. */
static double median_us(void (*run)(void *), void *arg, int calls, int each) {
    double us[BATCHES];
    run(arg);
    for (int b = 0; b < BATCHES; b++) {
        uint64_t began = mc_now_us();
        for (int i = 0; i < calls; i++)
            run(arg);
        us[b] = (double)(mc_now_us() - began) / calls / each;
    }
    return median(us, BATCHES);
}

static mica_executable *open_executable(mica_scope *s, const mica_param *params, size_t n,
                                        mica_array y) {
    mica_program *program;
    mica_executable *x;
    must(mica_program_build(s, params, n, &y, 1, NULL, &program));
    must(mica_executable_open(program, NULL, &x));
    mica_program_close(&program);
    return x;
}

/* ---- a program of 10 nodes ---- */

static mica_executable *open_small(mica_scope *s) {
    mica_array x = mica_program_param(s, MICA_F32, (const int64_t[]){1, 8}, 2);
    mica_array w = mica_program_param(s, MICA_F32, (const int64_t[]){8, 8}, 2), y = x;
    for (int i = 0; i < 3; i++)
        y = mica_tanh(s, mica_add(s, mica_matmul(s, y, w), x));
    y = mica_multiply(s, y, x);
    const mica_param params[] = {{.name = "x", .array = x}, {.name = "w", .array = w}};
    mica_executable *exe = open_executable(s, params, 2, y);
    must(mica_executable_fill(exe, "w", 0.125));
    return exe;
}

static const float numbers[8] = {1, 2, 3, 4, 5, 6, 7, 8};

static void run_slots(void *arg) {
    must(mica_executable_run_slots(arg, (const void *const[]){numbers, NULL}, 2));
}

static void run_named(void *arg) {
    const mica_input in = {.name = "x", .data = numbers, .bytes = sizeof numbers, MICA_F32};
    must(mica_executable_run(arg, &in, 1, NULL, NULL));
}

/* ---- control flow ---- */

static mica_status below(void *user, mica_scope *s, const mica_array *x, size_t n, mica_array *y,
                         size_t n_y) {
    (void)user, (void)n, (void)n_y;
    y[0] = mica_less(s, x[0], mica_i32(s, ROUNDS));
    return MICA_OK;
}

static mica_status next(void *user, mica_scope *s, const mica_array *x, size_t n, mica_array *y,
                        size_t n_y) {
    (void)user, (void)n, (void)n_y;
    y[0] = mica_add(s, x[0], mica_i32(s, 1));
    return MICA_OK;
}

static mica_status step(void *user, mica_scope *s, const mica_array *x, size_t n, mica_array *y,
                        size_t n_y) {
    (void)user, (void)n, (void)n_y;
    y[0] = y[1] = mica_tanh(s, mica_add(s, x[0], x[1]));
    return MICA_OK;
}

/* ---- a state that is fed ---- */

enum { STATE_ROWS = 131072, STATE_STEPS = 200 };

static void run_state(void *arg) {
    must(mica_executable_run_slots(arg, (const void *const[]){NULL, numbers}, 2));
}

/* Microseconds of a step that writes a row of `out0`. */
static double time_state(mica_scope *s, bool slot) {
    const mica_executable_options options = {.slots = slot ? NULL : (const char *const[]){"row"},
                                             .n_slots = 1};
    const char *const names[] = {"state", "row"};
    mica_array state = mica_program_param(s, MICA_F32, (const int64_t[]){STATE_ROWS, 8}, 2);
    mica_array x = mica_program_param(s, MICA_F32, (const int64_t[]){1, 8}, 2), results[2];
    const mica_param params[] = {{.name = "out0", .array = state, .donate = true},
                                 {.name = "x", .array = x}};
    mica_program *program;
    mica_executable *exe;
    results[0] = mica_slice_update_at(s, state, x, mica_i32(s, 3), 0);
    results[1] = mica_negative(s, x);
    must(mica_program_build(s, params, 2, results, 2,
                            &(mica_program_options){.result_names = names}, &program));
    must(mica_executable_open(program, &options, &exe));
    mica_program_close(&program);
    must(mica_executable_fill(exe, "out0", 0));
    double us = median_us(run_state, exe, STATE_STEPS, 1);
    mica_executable_close(&exe);
    return us;
}

int main(void) {
    mica_device *device;
    mica_scope *s;
    mica_array x, y, ys;
    must(mica_device_open("cpu", &(mica_device_options){.threads = 1}, &device));
    must(mica_scope_open(device, &s));
    mica_executable *small = open_small(s);
    printf("10 nodes, slots: %.2f us a run\n", median_us(run_slots, small, RUNS, 1));
    printf("10 nodes, by name: %.2f us a run\n", median_us(run_named, small, RUNS, 1));
    x = mica_program_param(s, MICA_I32, NULL, 0);
    must(mica_while(s, below, next, NULL, &x, 1, NULL, &y, NULL));
    mica_executable *loop = open_executable(s, &(mica_param){.name = "x", .array = x}, 1, y);
    must(mica_executable_fill(loop, "x", 0));
    const void *const none[1] = {NULL};
    must(mica_executable_run_slots(loop, none, 1));
    uint64_t began = mc_now_us();
    must(mica_executable_run_slots(loop, none, 1));
    printf("while: %.2f us a round\n", (double)(mc_now_us() - began) / ROUNDS);
    x = mica_program_param(s, MICA_F32, (const int64_t[]){ROUNDS, 16}, 2);
    mica_array zero = mica_zeros(s, (const int64_t[]){16}, 1, MICA_F32);
    must(mica_scan(s, step, NULL, &zero, 1, &x, 1, NULL, &y, &ys, 1));
    mica_executable *scan = open_executable(s, &(mica_param){.name = "x", .array = x}, 1, ys);
    must(mica_executable_fill(scan, "x", 0.5));
    must(mica_executable_run_slots(scan, none, 1));
    began = mc_now_us();
    must(mica_executable_run_slots(scan, none, 1));
    printf("scan: %.2f us a step\n", (double)(mc_now_us() - began) / ROUNDS);
    printf("4 MiB that are fed: %.2f us a step\n", time_state(s, false));
    printf("4 MiB that are fed, with a slot: %.2f us a step\n", time_state(s, true));
    mica_executable_close(&small);
    mica_executable_close(&loop);
    mica_executable_close(&scan);
    mica_scope_close(&s);
    mica_device_close(&device);
    return 0;
}
