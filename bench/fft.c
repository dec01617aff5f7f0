/* Times Fourier transforms of rows of complex numbers, through slots of a program: rows of powers
 * of two, three times such, and primes. One thread; medians of 9 batches.
 *
 *     fft [ROWS POINTS]...
 *
 * bench/peers/fft_rates.py compares with NumPy. */
#include <mica/mica.h>

#include <stdio.h>
#include <stdlib.h>

#include "base/system.h"
#include "timing.h"

enum { BATCHES = 9, BATCH_US = 20000 };

static double run_us(mica_executable *x, const void *const *inputs, int64_t runs) {
    uint64_t began = mc_now_us();
    for (int64_t i = 0; i < runs; i++)
        must(mica_executable_run_slots(x, inputs, 1));
    return (double)(mc_now_us() - began) / (double)runs;
}

static void time_rows(mica_device *device, int64_t rows, int64_t points) {
    mica_scope *s;
    mica_program *program;
    mica_executable *x;
    double us[BATCHES];
    must(mica_scope_open(device, &s));
    mica_array p = mica_program_param(s, MICA_C64, (const int64_t[]){rows, points}, 2);
    mica_array y = mica_fft(s, p, 0, 1, MICA_FFT_BACKWARD);
    must(mica_program_build(s, &(mica_param){.name = "x", .array = p}, 1, &y, 1, NULL, &program));
    must(mica_executable_open(program, NULL, &x));
    float *data = malloc((size_t)(2 * rows * points) * sizeof *data);
    if (!data) exit(1);
    for (int64_t i = 0; i < 2 * rows * points; i++)
        data[i] = (float)(i * 7919 % 1000) / 1000;
    const void *const inputs[1] = {data};
    (void)run_us(x, inputs, 1);
    int64_t runs = (int64_t)(BATCH_US / (run_us(x, inputs, 3) + 0.1)) + 1;
    for (int i = 0; i < BATCHES; i++)
        us[i] = run_us(x, inputs, runs);
    printf("%lld rows of %lld points: %.3f us\n", (long long)rows, (long long)points,
           median(us, BATCHES));
    free(data);
    mica_executable_close(&x);
    mica_program_close(&program);
    mica_scope_close(&s);
}

int main(int argc, char **argv) {
    static const int64_t all[] = {64, 1024, 16384, 96, 1536, 12288, 127, 1009, 10007};
    mica_device *device;
    must(mica_device_open("cpu", &(mica_device_options){.threads = 1}, &device));
    for (int i = 1; i + 1 < argc; i += 2)
        time_rows(device, atoll(argv[i]), atoll(argv[i + 1]));
    for (size_t i = 0; argc < 3 && i < sizeof all / sizeof *all; i++)
        time_rows(device, 1, all[i]);
    mica_device_close(&device);
    return 0;
}
