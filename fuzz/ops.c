/* Input: a program of tests/exec/any_op.c, 6 bytes an op: its kind, which of the earlier nodes it
 * reads (3) and its seed (2). Where the first byte is not below the number of kinds, the arrays are
 * large, so that loops for these run. The program is run optimised, without any pass and op by op,
 * with the same numbers, which must give the same bits. */
#include <mica/mica.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "exec/any_op.h"

enum { OP_BYTES = 6, MAX_OPS = 12, LEAVES = 3, LEAF = 600, MAX_BYTES = 8 * ANY_OP_MAX };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool truth) {
    if (!truth) abort();
}

static float numbers[LEAVES][LEAF];
static const char *const names[LEAVES] = {"a", "b", "c"};

static void fill_numbers(void) {
    any_op g = {NULL, 36};
    for (int i = 0; i < LEAVES; i++)
        for (int k = 0; k < LEAF; k++)
            numbers[i][k] = (float)(any_below(&g, 4001) - 2000) / 1000.0f;
}

/* The last node is the result, and one in the middle. The parameters have `leaf` elements. */
static mica_program *build(mica_scope *s, const uint8_t *data, int n, int leaf) {
    const int64_t shape[2] = {4, leaf / 4};
    mica_array nodes[LEAVES + MAX_OPS];
    mica_param params[LEAVES];
    mica_program *p = NULL;
    for (int i = 0; i < LEAVES; i++) {
        nodes[i] = mica_program_param(s, MICA_F32, shape, 2);
        params[i] = (mica_param){.name = names[i], .array = nodes[i]};
    }
    for (int i = 0; i < n; i++) {
        const uint8_t *at = data + i * OP_BYTES;
        any_op g = {s, (uint64_t)at[4] | (uint64_t)at[5] << 8};
        mica_array in[3];
        for (int k = 0; k < 3; k++)
            in[k] = nodes[at[1 + k] % (LEAVES + i)];
        nodes[LEAVES + i] = any_op_make(&g, at[0] % any_op_count(), in);
        must(mica_valid(nodes[LEAVES + i]));
    }
    const mica_array results[2] = {nodes[LEAVES + n - 1], nodes[LEAVES + n / 2]};
    must(mica_program_build(s, params, LEAVES, results, 2, NULL, &p) == MICA_OK);
    return p;
}

typedef struct outcome {
    mica_dtype dtype[2];
    size_t bytes[2];
    char values[2][MAX_BYTES];
} outcome;

static void run(mica_device *device, const mica_program *p, int leaf, mica_mode mode,
                const char *off, outcome *out) {
    mica_executable *x;
    mica_input in[LEAVES];
    mica_array ys[2];
    mica_scope *s;
    for (int i = 0; i < LEAVES; i++)
        in[i] = (mica_input){names[i], numbers[i], (size_t)leaf * sizeof(float),
                             MICA_F32, false,      MICA_NONE};
    const mica_executable_options options = {.mode = mode, .passes_off = off};
    must(mica_executable_open(p, &options, &x) == MICA_OK);
    must(mica_scope_open(device, &s) == MICA_OK);
    must(mica_executable_run(x, in, LEAVES, s, ys) == MICA_OK);
    for (int k = 0; k < 2; k++) {
        out->dtype[k] = mica_array_dtype(ys[k]);
        out->bytes[k] = (size_t)mica_array_size(ys[k]) * mica_dtype_bytes(out->dtype[k]);
        must(out->bytes[k] <= MAX_BYTES);
        must(mica_read(ys[k], out->values[k], out->bytes[k]) == MICA_OK);
    }
    mica_scope_close(&s);
    mica_executable_close(&x);
}

/* Only the bits of a NaN may differ. */
static void compare(const outcome *a, const outcome *b) {
    for (int k = 0; k < 2; k++) {
        must(a->bytes[k] == b->bytes[k] && a->dtype[k] == b->dtype[k]);
        if (a->dtype[k] != MICA_F32) {
            must(memcmp(a->values[k], b->values[k], a->bytes[k]) == 0);
            continue;
        }
        for (size_t i = 0; i < a->bytes[k]; i += sizeof(float)) {
            float x, y;
            memcpy(&x, a->values[k] + i, sizeof x);
            memcpy(&y, b->values[k] + i, sizeof y);
            must(memcmp(&x, &y, sizeof x) == 0 || (isnan(x) && isnan(y)));
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static mica_device *device;
    static outcome optimised, plain, singly;
    mica_scope *s;
    int n = (int)(size / OP_BYTES < MAX_OPS ? size / OP_BYTES : MAX_OPS);
    if (n == 0) return 0;
    if (!device)
        must(mica_device_open("cpu", &(mica_device_options){.threads = 1}, &device) == MICA_OK);
    fill_numbers();
    must(mica_scope_open(device, &s) == MICA_OK);
    int leaf = data[0] < any_op_count() ? 24 : LEAF;
    mica_program *p = build(s, data, n, leaf);
    run(device, p, leaf, MICA_MODE_COMPILED, NULL, &optimised);
    run(device, p, leaf, MICA_MODE_COMPILED, "all", &plain);
    run(device, p, leaf, MICA_MODE_EAGER, NULL, &singly);
    compare(&optimised, &plain);
    compare(&optimised, &singly);
    mica_program_close(&p);
    mica_scope_close(&s);
    return 0;
}
