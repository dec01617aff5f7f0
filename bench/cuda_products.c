/* Times products of quantised weights on the device cuda, in the shapes of two models.
 *
 *     cuda_products [ROWS...]     rows of activations; 1 2 4 8 64 512 2048
 *
 * Each product is started as a step starts it, activations made planes included, over weights that
 * come from memory. What a layer and the head take is added up: us, GB/s of the weights or TFLOP/s,
 * and tokens a second of products alone. With one row ways to start them are compared first. */
#define _POSIX_C_SOURCE 200809L

#include <mica/mica.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/cuda.h"
#include "device/device.h"
#include "exec/steps/run.h"
#include "graph/attr.h"
#include "timing.h"

enum { MAX_PARTS = 3, PRODUCTS = 5, POOL = 512 << 20, SCALE_POOL = POOL / 16, GROUP = 64 };

typedef struct product {
    const char *name;
    int64_t k, n[MAX_PARTS];
} product;

typedef struct model {
    const char *name;
    int layers;
    product products[PRODUCTS]; /* the last is the head */
} model;

static const model models[] = {
    {"Qwen3-0.6B",
     28,
     {{"qkv", 1024, {2048, 1024, 1024}},
      {"o", 2048, {1024}},
      {"gate/up", 1024, {3072, 3072}},
      {"down", 3072, {1024}},
      {"head", 1024, {151936}}}},
    {"Llama-3.1-8B",
     32,
     {{"qkv", 4096, {4096, 1024, 1024}},
      {"o", 4096, {4096}},
      {"gate/up", 4096, {14336, 14336}},
      {"down", 14336, {4096}},
      {"head", 4096, {128256}}}},
};

typedef struct bench {
    mica_device *device;
    mc_cuda_state *state;
    char *codes, *scales, *biases, *x, *out;
    size_t at; /* in the pool */
    mc_plan plan;
    mc_run run;
    mc_attr_quant attr;
    void *begin, *end;
    int (*elapsed)(float *ms, void *begin, void *end);
} bench;

static void check(int error) {
    must(mc_cuda_check(error, "the bench"));
}

static char *reserve(size_t bytes, const void *pattern, size_t pattern_bytes, void *stream) {
    uint64_t address;
    check(mc_cuda.alloc(&address, bytes));
    for (size_t at = 0; pattern && at < bytes; at += pattern_bytes) {
        size_t left = bytes - at;
        check(mc_cuda.to_device(address + at, pattern, left < pattern_bytes ? left : pattern_bytes,
                                stream));
    }
    return (char *)(uintptr_t)address;
}

static void fill(bench *b) {
    enum { WORDS = 1 << 20 };
    static uint32_t words[WORDS];
    static uint16_t scales[WORDS];
    static float x[WORDS];
    void *stream = b->state->stream;
    uint32_t seed = 1;
    for (int i = 0; i < WORDS; i++) {
        seed = seed * 1664525u + 1013904223u;
        words[i] = seed ^ seed >> 15;
        scales[i] = (uint16_t)(0x3c00 + (seed >> 24)); /* bf16, about 0.01 */
        x[i] = (float)(int32_t)words[i] * 0x1p-31f;
    }
    b->codes = reserve(POOL, words, sizeof words, stream);
    b->scales = reserve(SCALE_POOL, scales, sizeof scales, stream);
    for (int i = 0; i < WORDS; i++)
        scales[i] ^= 0x8000;
    b->biases = reserve(SCALE_POOL, scales, sizeof scales, stream);
    b->x = reserve((size_t)2048 * 14336 * 4, x, sizeof x, stream);
    b->out = reserve((size_t)2048 * 151936 * 4, NULL, 0, stream);
    check(mc_cuda.stream_wait(stream));
}

static double bytes_of(const product *p) {
    double n = 0;
    for (int i = 0; i < MAX_PARTS; i++)
        n += (double)p->n[i];
    return n * (double)p->k * (0.5 + 4.0 / GROUP);
}

static mc_layout matrix(mica_dtype dtype, int64_t rows, int64_t columns) {
    mc_layout l = {.dtype = dtype, .ndim = 2, .shape = {rows, columns}, .strides = {columns, 1}};
    return l;
}

/* Starts a product over the weights that come next in the pool. */
static void start(bench *b, const product *p, int64_t rows) {
    mc_layout layouts[MAX_PARTS][5];
    mc_operand in[MAX_PARTS][4];
    mc_call calls[MAX_PARTS];
    char *out = b->out;
    int n = 0;
    size_t need = (size_t)bytes_of(p);
    if (b->at + need > POOL) b->at = 0;
    for (; n < MAX_PARTS && p->n[n] > 0; n++) {
        size_t codes = (size_t)(p->n[n] * p->k / 2), scales = codes / GROUP * 4;
        layouts[n][0] = matrix(MICA_F32, rows, p->k);
        layouts[n][1] = matrix(MICA_U32, p->n[n], p->k / 8);
        layouts[n][2] = layouts[n][3] = matrix(MICA_BF16, p->n[n], p->k / GROUP);
        layouts[n][4] = matrix(MICA_F32, rows, p->n[n]);
        void *data[] = {b->x, b->codes + b->at, b->scales + b->at / GROUP * 4,
                        b->biases + b->at / GROUP * 4};
        for (int i = 0; i < 4; i++)
            in[n][i] = (mc_operand){data[i], &layouts[n][i]};
        calls[n] = (mc_call){.op = MC_OP_QUANTIZED_MATMUL,
                             .attr = &b->attr,
                             .n_in = 4,
                             .in = in[n],
                             .out = {out, &layouts[n][4]},
                             .state = b->state,
                             .run = &b->run};
        out += (size_t)(rows * p->n[n]) * 4;
        b->at += (codes + scales + 4095) / 4096 * 4096;
    }
    calls[0].joint = n;
    must(mc_cuda_multiply(calls));
}

/* us of a product. Others are started first, so that the GPU has work while those that count are
 * put in its queue. */
static double time_of(bench *b, const product *p, int64_t rows, int times) {
    const product *gate = &models[1].products[4];
    float ms = 0;
    start(b, p, rows);
    for (int i = 0; rows <= 8 && i < 12; i++)
        start(b, gate, 1);
    check(mc_cuda.event_record(b->begin, b->state->stream));
    for (int i = 0; i < times; i++)
        start(b, p, rows);
    check(mc_cuda.event_record(b->end, b->state->stream));
    check(mc_cuda.stream_wait(b->state->stream));
    check(b->elapsed(&ms, b->begin, b->end));
    return ms * 1e3 / times;
}

/* us of all layers and of the head. */
static void run(bench *b, const model *m, int64_t rows, bool details) {
    double layer = 0, head = 0;
    bool many = rows > 8;
    for (int i = 0; i < PRODUCTS; i++) {
        const product *p = &m->products[i];
        bool is_head = i == PRODUCTS - 1;
        double us = time_of(b, p, is_head && many ? 1 : rows, many ? 3 : 60);
        double ops = 2 * (double)rows * bytes_of(p) / (0.5 + 4.0 / GROUP);
        if (is_head)
            head = us;
        else
            layer += us;
        if (details && (!many || is_head))
            printf("  %s %.1f us %.0f GB/s", p->name, us, bytes_of(p) / us * 1e-3);
        else if (details)
            printf("  %s %.0f us %.0f TFLOP/s", p->name, us, ops / us * 1e-6);
    }
    double all = layer * m->layers + head;
    printf("%s  all %.0f us: %.0f tok/s\n", details ? "\n      " : "", all,
           (double)rows * 1e6 / all);
    fflush(stdout);
}

static void tune(bench *b) {
    static const mc_cuda_tuning ways[] = {{8, 6, 1, false}, {8, 6, 1, true},  {8, 4, 1, false},
                                          {8, 3, 1, false}, {8, 2, 1, false}, {8, 2, 2, false},
                                          {4, 4, 2, false}, {4, 3, 3, false}, {4, 2, 4, false}};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        for (int m = 0; m < 2; m++) {
            mc_cuda_planes_tuning = ways[i];
            printf("%d warps, %d stages, %d blocks%s: %s\n", ways[i].warps, ways[i].stages,
                   ways[i].blocks, ways[i].apart ? ", planes apart" : "", models[m].name);
            run(b, &models[m], 1, true);
        }
    mc_cuda_planes_tuning = (mc_cuda_tuning){0};
}

int main(int argc, char **argv) {
    static const char *all[] = {"1", "2", "4", "8", "64", "512", "2048"};
    static mc_cuda_launch launch; /* of no graph */
    static bench b = {
        .attr = {
            .mode = MICA_QUANT_AFFINE, .bits = 4, .group_size = GROUP, .transpose = 1, .fast = 1}};
    const char *const *rows = argc > 1 ? (const char *const *)argv + 1 : all;
    int n = argc > 1 ? argc - 1 : (int)(sizeof all / sizeof *all);
    must(mica_device_open("cuda", NULL, &b.device));
    b.state = mc_backend_state(b.device);
    b.run.device = b.device;
    b.plan.fills_cache = true; /* as where a session reads a prompt */
    b.run.plan = &b.plan;
    b.run.launched = &launch;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (driver) *(void **)&b.elapsed = dlsym(driver, "cuEventElapsedTime");
    if (!b.elapsed) return 1;
    check(mc_cuda_enter(b.state));
    check(mc_cuda.event_new(&b.begin, 0));
    check(mc_cuda.event_new(&b.end, 0));
    fill(&b);
    if (argc == 1) tune(&b);
    for (int fast = 1; fast >= 0; fast--) {
        b.attr.fast = fast;
        for (int i = 0; i < 2; i++)
            for (int k = 0; k < n; k++) {
                printf("%s, %s rows, %s\n", models[i].name, rows[k], fast ? "fast" : "exact");
                run(&b, &models[i], strtol(rows[k], NULL, 10), true);
            }
    }
    mc_run_release_scratch(&b.run);
    mc_cuda_leave();
    mica_device_close(&b.device);
    return 0;
}
