/* Times a region: 8 ops that go element by element over 64 MiB of f32, in place, as one loop over
 * blocks, beside one op that reads and writes as much, and the 8 ops one by one. What the region
 * reads and writes is counted; one thread and two; medians of 9, taking turns.
 *
 *     region */
#include <mica/mica.h>

#include <stdio.h>
#include <stdlib.h>

#include "base/system.h"
#include "timing.h"

enum { ROUNDS = 9, N = 1 << 24, MAX_THREADS = 2 };

/* A program of cheap ops, whose result is its parameter in the next run. */
static mica_executable *open_ops(mica_device *device, int ops, const char *off) {
    mica_scope *s;
    mica_program *program;
    mica_executable *x;
    must(mica_scope_open(device, &s));
    mica_array p = mica_program_param(s, MICA_F32, (const int64_t[]){N}, 1), y = p;
    for (int i = 0; i < ops; i++)
        y = i % 4 == 0   ? mica_multiply(s, y, mica_f32(s, 0.75f))
            : i % 4 == 1 ? mica_add(s, y, mica_f32(s, 1.25f))
            : i % 4 == 2 ? mica_abs(s, y)
                         : mica_minimum(s, y, mica_f32(s, 100));
    const mica_param params[] = {{.name = "out0", .array = p, .donate = true}};
    must(mica_program_build(s, params, 1, &y, 1, NULL, &program));
    must(mica_executable_open(program, &(mica_executable_options){.passes_off = off}, &x));
    must(mica_executable_fill(x, "out0", 0.5));
    mica_program_close(&program);
    mica_scope_close(&s);
    return x;
}

static double seconds(mica_executable *x) {
    uint64_t began = mc_now_us();
    must(mica_executable_run(x, NULL, 0, NULL, NULL));
    return (double)(mc_now_us() - began) / 1e6;
}

static void compare_threads(int threads) {
    mica_device *device;
    double each[3][ROUNDS];
    must(mica_device_open("cpu", &(mica_device_options){.threads = threads}, &device));
    mica_executable *one = open_ops(device, 1, NULL), *region = open_ops(device, 8, NULL);
    mica_executable *apart = open_ops(device, 8, "all");
    mica_executable *const xs[3] = {one, region, apart};
    for (int k = 0; k < 3; k++)
        (void)seconds(xs[k]);
    for (int i = 0; i < ROUNDS; i++)
        for (int k = 0; k < 3; k++)
            each[k][i] = seconds(xs[k]);
    double copy = median(each[0], ROUNDS), own = median(each[1], ROUNDS),
           single = median(each[2], ROUNDS);
    double bytes = 2.0 * N * sizeof(float);
    printf("%d threads: one op %.1f GB/s; region of 8 %.1f GB/s, %.2f of it; op by op %.1f GB/s\n",
           threads, bytes / copy / 1e9, bytes / own / 1e9, copy / own, bytes / single / 1e9);
    mica_executable_close(&one);
    mica_executable_close(&region);
    mica_executable_close(&apart);
    mica_device_close(&device);
}

int main(void) {
    for (int threads = 1; threads <= MAX_THREADS; threads++)
        compare_threads(threads);
    return 0;
}
