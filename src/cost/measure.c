/* Measuring: small programs, each for one rate, run until their time is known. */
#include <mica/cost.h>
#include <mica/executable.h>
#include <mica/nn.h>
#include <mica/ops.h>
#include <mica/signal.h>

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/system.h"
#include "cost/rates.h"

/* A batch of runs is at least so long; the median of so many batches counts, or of fewer: after the
 * limit of a probe no further one begins. */
enum { BATCH_US = 2000, BATCHES = 5, PROBE_US = 60000, MAX_RUNS = 1000, MAX_OPERANDS = 4 };

/* Ops that depend on each other, in one program. */
enum { CHAIN = 16, LONG_CHAIN = 100 };

/* What a probe's program computes, and how much that is: operations or bytes, as its rate's unit
 * says. */
typedef struct sample {
    mica_scope *s;
    mica_array in[MAX_OPERANDS]; /* evaluated: the parameters */
    size_t n_in;
    mica_array out;
    double amount;
    int steps; /* ops, each of which takes its dispatch */
} sample;

typedef struct probe {
    mc_rate rate;
    void (*record)(sample *m, int64_t size);
    int64_t size;
} probe;

#define SHAPE(...) (const int64_t[]){__VA_ARGS__}, sizeof((int64_t[]){__VA_ARGS__}) / 8

/* A parameter: small numbers, all equal. */
static mica_array input(sample *m, mica_dtype dtype, const int64_t *shape, size_t ndim) {
    mica_array value = mica_astype(m->s, mica_scalar(m->s, 0.5, MICA_F32), dtype);
    mica_array x = mica_contiguous(m->s, mica_full(m->s, shape, (int)ndim, value));
    if (mica_eval(m->s, x) != MICA_OK) return mc_invalid(m->s);
    return m->in[m->n_in++] = x;
}

/* ---- products ---- */

static mica_array weight(sample *m, mica_dtype dtype, int64_t k, int64_t n) {
    return input(m, dtype, SHAPE(k, n));
}

static const mica_quant q4 = {MICA_QUANT_AFFINE, 4, 64};

/* x by a weight [k, n] of 4 bits, given as rows. */
static mica_array by_q4(sample *m, mica_array x, int64_t k, int64_t n) {
    if (m->n_in == 1) {
        (void)input(m, MICA_U32, SHAPE(n, k / 8));
        (void)input(m, MICA_F32, SHAPE(n, k / 64));
        (void)input(m, MICA_F32, SHAPE(n, k / 64));
    }
    return mica_quantized_matmul(m->s, x, m->in[1], m->in[2], m->in[3], q4, true);
}

static void small(sample *m, mica_dtype dtype, bool quantized) {
    m->out = input(m, dtype, SHAPE(8, 64));
    mica_array w = quantized ? MICA_NONE : weight(m, dtype, 64, 64);
    for (int i = 0; i < CHAIN; i++)
        m->out = quantized ? by_q4(m, m->out, 64, 64) : mica_matmul(m->s, m->out, w);
    m->steps = CHAIN;
    m->amount = CHAIN * 2.0 * 8 * 64 * 64;
}
static void small_of(sample *m, int64_t dtype) {
    small(m, (mica_dtype)dtype, false);
}
static void small_q4(sample *m, int64_t unused) {
    (void)unused;
    small(m, MICA_F32, true);
}

static void product(sample *m, mica_dtype dtype, bool quantized, int64_t rows, int64_t k,
                    int64_t n) {
    mica_array x = input(m, dtype, SHAPE(rows, k));
    m->out = quantized ? by_q4(m, x, k, n) : mica_matmul(m->s, x, weight(m, dtype, k, n));
    m->amount = 2.0 * (double)rows * (double)k * (double)n;
}
static void large_of(sample *m, int64_t dtype) {
    product(m, (mica_dtype)dtype, false, 256, 768, 3072);
}
static void large_q4(sample *m, int64_t unused) {
    (void)unused;
    product(m, MICA_F32, true, 256, 768, 3072);
}

/* Rows of other than 2^14 bytes: those would share places of the caches. */
static void matvec_of(sample *m, int64_t dtype) {
    product(m, (mica_dtype)dtype, false, 1, 4096, 4080);
    m->amount = 4096.0 * 4080 * (double)mica_dtype_bytes((mica_dtype)dtype);
}
static void matvec_q4(sample *m, int64_t unused) {
    (void)unused;
    product(m, MICA_F32, true, 1, 4096, 4080);
    m->amount = 4096.0 * 4080 * (0.5 + 8.0 / 64);
}

/* ---- convolutions, attention, the rest ---- */

/* 3 x 3 over `size` x `size` places of 3584 / size channels, or one filter a channel. */
static void conv(sample *m, int64_t size, bool depthwise) {
    const int64_t c = 3584 / size;
    const mica_conv_options options = {
        .padding_lo = {1, 1}, .padding_hi = {1, 1}, .groups = depthwise ? c : 1};
    mica_array x = input(m, MICA_F32, SHAPE(1, size, size, c));
    mica_array w = input(m, MICA_F32, SHAPE(c, 3, 3, depthwise ? 1 : c));
    m->out = mica_conv_general(m->s, x, w, &options);
    m->amount = 2.0 * (double)(size * size * c) * 9 * (double)(depthwise ? 1 : c);
}
static void conv_of(sample *m, int64_t size) {
    conv(m, size, false);
}
static void depthwise_of(sample *m, int64_t size) {
    conv(m, size, true);
}

static void attention(sample *m, int64_t length) {
    mica_array qkv[3];
    for (int i = 0; i < 3; i++)
        qkv[i] = input(m, MICA_F32, SHAPE(1, 4, length, 64));
    m->out = mica_sdpa(m->s, qkv[0], qkv[1], qkv[2], NULL);
    m->amount = 4.0 * 4 * (double)(length * length) * 64;
}

static void reduce(sample *m, int64_t size) {
    const int last = -1;
    m->out = mica_sum(m->s, input(m, MICA_F32, SHAPE(size, size)), &last, 1, false);
    m->amount = 4.0 * (double)(size * size);
}

static void function(sample *m, int64_t size) {
    m->out = mica_tanh(m->s, input(m, MICA_F32, SHAPE(size)));
    m->amount = MC_WORK_FUNCTION * (double)size;
}

/* Steps of a region. */
static void elements(sample *m, int64_t size) {
    enum { STEPS = 12 };
    m->out = input(m, MICA_F32, SHAPE(size));
    for (int i = 0; i < STEPS; i++)
        m->out = i % 2 ? mica_add(m->s, m->out, mica_f32(m->s, 1))
                       : mica_multiply(m->s, m->out, mica_f32(m->s, 0.5f));
    m->amount = STEPS * (double)size;
}

static void scan(sample *m, int64_t length) {
    enum { H = 128, N = 16 };
    mica_array x = input(m, MICA_F32, SHAPE(1, length, H));
    mica_array a = input(m, MICA_F32, SHAPE(H, N));
    mica_array b = input(m, MICA_F32, SHAPE(1, length, N));
    m->out = mica_selective_scan(m->s, x, x, mica_negative(m->s, a), b, b, NULL, NULL);
    m->amount = 8.0 * (double)length * H * N;
}

static void fft(sample *m, int64_t length) {
    m->out = mica_fft(m->s, input(m, MICA_C64, SHAPE(64, length)), length, -1, MICA_FFT_BACKWARD);
    double log2n = 0;
    for (int64_t n = length; n > 1; n /= 2)
        log2n++;
    m->amount = 64 * 5.0 * (double)length * log2n;
}

static void copy(sample *m, int64_t bytes) {
    m->out = mica_negative(m->s, input(m, MICA_F32, SHAPE(bytes / 8)));
    m->amount = (double)bytes;
}

/* ---- times ---- */

static void one_product(sample *m, int64_t unused) {
    (void)unused;
    mica_array x = input(m, MICA_F32, SHAPE(1, 2));
    m->out = mica_matmul(m->s, x, input(m, MICA_F32, SHAPE(2, 1)));
}

static void many_steps(sample *m, int64_t unused) {
    (void)unused;
    m->out = input(m, MICA_F32, SHAPE(4, 4));
    mica_array w = input(m, MICA_F32, SHAPE(4, 4));
    for (int i = 0; i < LONG_CHAIN; i++)
        m->out = mica_matmul(m->s, m->out, w);
}

/* ---- running ---- */

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static mica_status time_batch(mica_executable *x, size_t n_in, int runs, double *seconds) {
    static const void *const as_set[MAX_OPERANDS] = {NULL};
    uint64_t from = mc_now_us();
    for (int i = 0; i < runs; i++)
        MC_TRY(mica_executable_run_slots(x, as_set, n_in));
    *seconds = (double)(mc_now_us() - from) * 1e-6 / runs;
    return MICA_OK;
}

/* The time of a run, by the median. */
static mica_status time_runs(mica_executable *x, size_t n_in, mc_quiet *quiet, double *seconds) {
    double batches[BATCHES];
    int runs = 1, n = 1;
    MC_TRY(time_batch(x, n_in, 1, &batches[0])); /* compiles it */
    uint64_t from = mc_now_us();
    for (;;) {
        MC_TRY(time_batch(x, n_in, runs, &batches[0]));
        if (batches[0] * runs * 1e6 >= BATCH_US || runs >= MAX_RUNS) break;
        runs = runs * 4 < MAX_RUNS ? runs * 4 : MAX_RUNS;
    }
    for (; n < BATCHES && mc_now_us() - from < PROBE_US; n++)
        MC_TRY(time_batch(x, n_in, runs, &batches[n]));
    qsort(batches, (size_t)n, sizeof *batches, by_value);
    mc_quiet_add(quiet, batches, n);
    *seconds = batches[n / 2];
    return MICA_OK;
}

static mica_status open_sample(const sample *m, mica_executable **x) {
    mica_param params[MAX_OPERANDS] = {{0}};
    mica_program *program = NULL;
    for (size_t i = 0; i < m->n_in; i++)
        params[i].array = m->in[i];
    MC_TRY(mica_program_build(m->s, params, m->n_in, &m->out, 1, NULL, &program));
    mica_status status = mica_executable_open(program, NULL, x);
    static const char *const names[MAX_OPERANDS] = {"0", "1", "2", "3"};
    for (size_t i = 0; i < m->n_in && status == MICA_OK; i++)
        status = mica_executable_set(*x, &(mica_input){.name = names[i], .array = m->in[i]});
    mica_program_close(&program);
    return status;
}

static mica_status run_sample(mica_device *device, const probe *p, mc_quiet *quiet, sample *m,
                              double *seconds) {
    mica_executable *x = NULL;
    *m = (sample){.steps = 1};
    MC_TRY(mica_scope_open(device, &m->s));
    p->record(m, p->size);
    mica_status status = mica_scope_status(m->s);
    if (status == MICA_OK) status = open_sample(m, &x);
    if (status == MICA_OK) status = time_runs(x, m->n_in, quiet, seconds);
    mica_executable_close(&x);
    mica_scope_close(&m->s);
    return status;
}

/* What a run takes beyond its roundtrip and dispatches; these are no more than nine tenths of it.
 */
static double net(double seconds, double overhead) {
    return seconds - overhead > seconds / 10 ? seconds - overhead : seconds / 10;
}

static mica_status measure_times(mica_device *device, mc_rates *rates, mc_quiet *quiet) {
    static const probe one = {MC_RATE_ROUNDTRIP, one_product, 0};
    static const probe many = {MC_RATE_DISPATCH, many_steps, 0};
    double first, all;
    sample m;
    uint64_t wall = mc_now_us(), cpu = mc_thread_cpu_us();
    MC_TRY(run_sample(device, &one, quiet, &m, &first));
    /* Of such small products the calling thread computes all, if the device is the CPU. */
    uint64_t ran = mc_thread_cpu_us() - cpu;
    if (device->backend->on_caller && cpu > 0) mc_quiet_compare(quiet, ran, mc_now_us() - wall);
    MC_TRY(run_sample(device, &many, quiet, &m, &all));
    rates->of[MC_RATE_DISPATCH] = net(all, first) / LONG_CHAIN;
    rates->of[MC_RATE_ROUNDTRIP] = net(first, rates->of[MC_RATE_DISPATCH]);
    return MICA_OK;
}

/* Bytes between the host and a device that has memory of its own. */
static mica_status measure_copies(mica_device *device, mc_rates *rates) {
    enum { BYTES = 1 << 22 };
    void *host = mc_table_alloc(BYTES);
    mc_storage *storage = NULL;
    mica_status status = host ? MICA_OK : mc_fail_nomem("measuring a device");
    if (status == MICA_OK) memset(host, 0, BYTES);
    if (status == MICA_OK) status = mc_storage_new(device, BYTES, &storage);
    double times[2] = {0};
    for (int to_host = 0; to_host < 2; to_host++) {
        double batches[BATCHES];
        for (int i = 0; i < BATCHES && status == MICA_OK; i++) {
            uint64_t from = mc_now_us();
            status = to_host ? mc_storage_read(device, storage, 0, host, BYTES)
                             : mc_storage_write(device, storage, 0, host, BYTES);
            uint64_t us = mc_now_us() - from;
            batches[i] = (double)(us > 0 ? us : 1) * 1e-6;
        }
        if (status != MICA_OK) break;
        qsort(batches, BATCHES, sizeof *batches, by_value);
        times[to_host] = batches[BATCHES / 2];
    }
    if (status == MICA_OK) {
        rates->of[MC_RATE_UPLOAD] = BYTES / times[0];
        rates->of[MC_RATE_DOWNLOAD] = BYTES / times[1];
    }
    mc_storage_release(storage);
    mc_free(host);
    return status;
}

static const probe probes[] = {
    {MC_RATE_MATMUL_F32_SMALL, small_of, MICA_F32},
    {MC_RATE_MATMUL_F32_LARGE, large_of, MICA_F32},
    {MC_RATE_MATMUL_BF16_SMALL, small_of, MICA_BF16},
    {MC_RATE_MATMUL_BF16_LARGE, large_of, MICA_BF16},
    {MC_RATE_MATMUL_Q4_SMALL, small_q4, 0},
    {MC_RATE_MATMUL_Q4_LARGE, large_q4, 0},
    {MC_RATE_MATVEC_F32, matvec_of, MICA_F32},
    {MC_RATE_MATVEC_BF16, matvec_of, MICA_BF16},
    {MC_RATE_MATVEC_Q4, matvec_q4, 0},
    {MC_RATE_CONV_SMALL, conv_of, 7},
    {MC_RATE_CONV_LARGE, conv_of, 56},
    {MC_RATE_DEPTHWISE, depthwise_of, 56},
    {MC_RATE_ATTENTION, attention, 128},
    {MC_RATE_REDUCE, reduce, 1024},
    {MC_RATE_FUNCTION, function, 1 << 16},
    {MC_RATE_ELEMENT, elements, 1 << 16},
    {MC_RATE_SCAN, scan, 256},
    {MC_RATE_FFT, fft, 1024},
    {MC_RATE_MEMORY_SMALL, copy, 1 << 22},
    {MC_RATE_MEMORY_LARGE, copy, 1 << 28},
};

mica_status mc_rates_measure(mica_device *device, mc_rates *rates, mc_quiet *quiet) {
    *rates = (mc_rates){{0}};
    MC_TRY(measure_times(device, rates, quiet));
    for (size_t i = 0; i < sizeof probes / sizeof *probes; i++) {
        double seconds;
        sample m;
        mica_status status = run_sample(device, &probes[i], quiet, &m, &seconds);
        if (status != MICA_OK)
            return mc_fail_context(status, "measuring %s", mica_rate_name(probes[i].rate));
        double overhead = rates->of[MC_RATE_ROUNDTRIP] + m.steps * rates->of[MC_RATE_DISPATCH];
        rates->of[probes[i].rate] = m.amount / net(seconds, overhead);
    }
    return device->backend->host_memory ? MICA_OK : measure_copies(device, rates);
}

mica_status mica_device_calibrate(mica_device *device, bool anew) {
    mc_calibration mode;
    if (!device) return mc_fail(MICA_EINVAL, "device_calibrate: the device is NULL");
    MC_TRY(mc_calibration_mode(&mode));
    if (mode == MC_CALIBRATION_OFF)
        return mc_fail(MICA_EUNSUPPORTED,
                       "device_calibrate: MICA_CALIBRATION is off: nothing is measured");
    mica_status status = mc_calibrate_device(device, mode, anew, mc_rates_measure);
    mica_device *cpu = NULL; /* for what it has no kernel for */
    if (status == MICA_OK && !device->backend->complete) status = mc_device_fallback(device, &cpu);
    if (status == MICA_OK && cpu) status = mc_calibrate_device(cpu, mode, false, mc_rates_measure);
    return status == MICA_OK ? MICA_OK : mc_fail_context(status, "device_calibrate");
}
