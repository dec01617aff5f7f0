/* Opens any bytes as an npz or npy file: the result is an error, or arrays that can be read, and
 * which, saved as npz, are read back as they are. */
#include <mica/mica.h>

#include "io/npz.h"

#include "base/alloc.h"
#include "scratch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile unsigned sum; /* of what was read, so that all is */

static void parse(const uint8_t *bytes, size_t size) {
    mc_npz *z;
    void *data;
    if (mc_npz_parse(bytes, size, "fuzz", &z) != MICA_OK) {
        if (z || !*mica_last_error()) abort();
        return;
    }
    for (size_t i = 0; i < mc_npz_count(z); i++) {
        size_t found;
        const mc_npz_array *a = mc_npz_at(z, i);
        if (!mc_npz_find(z, a->name, &found) || found != i) abort();
        if (mc_npz_read(z, i, &data) != MICA_OK) continue;
        for (uint64_t k = 0; k < a->npy.bytes; k++)
            sum += ((const uint8_t *)data)[k];
        mc_free(data);
    }
    mc_npz_close(&z);
}

static void must(bool truth) {
    if (!truth) abort();
}

/* Arrays of both files have the same names, layouts and bytes. */
static void expect_same(const char *a, const char *b) {
    mc_npz *x, *y;
    void *left, *right;
    must(mc_npz_open(a, &x) == MICA_OK && mc_npz_open(b, &y) == MICA_OK);
    must(mc_npz_count(x) == mc_npz_count(y));
    for (size_t i = 0; i < mc_npz_count(x); i++) {
        const mc_npz_array *one = mc_npz_at(x, i), *other = mc_npz_at(y, i);
        must(strcmp(one->name, other->name) == 0 && one->npy.bytes == other->npy.bytes);
        must(mc_npz_read(x, i, &left) == MICA_OK && mc_npz_read(y, i, &right) == MICA_OK);
        must(one->npy.bytes == 0 || memcmp(left, right, one->npy.bytes) == 0);
        mc_free(left);
        mc_free(right);
    }
    mc_npz_close(&x);
    mc_npz_close(&y);
}

/* What loads is saved once, loaded, and saved again: the same arrays. */
static void save_and_load(const uint8_t *data, size_t size) {
    static mica_device *device;
    const char *input = fuzz_scratch("in.npz");
    const char *first = fuzz_scratch("first.npz"), *second = fuzz_scratch("second.npz");
    mica_named_array *arrays = NULL, *again = NULL;
    size_t n, m;
    mica_scope *s;
    if (!device)
        must(mica_device_open("cpu", &(mica_device_options){.threads = 1}, &device) == MICA_OK);
    FILE *file = fopen(input, "wb");
    must(file && (size == 0 || fwrite(data, 1, size, file) == size));
    must(fclose(file) == 0);
    must(mica_scope_open(device, &s) == MICA_OK);
    if (mica_load_npz(input, s, &arrays, &n) == MICA_OK &&
        mica_save_npz(first, arrays, n, false) == MICA_OK) {
        must(mica_load_npz(first, s, &again, &m) == MICA_OK && m == n);
        must(mica_save_npz(second, again, m, false) == MICA_OK);
        expect_same(first, second);
    }
    mica_free(arrays);
    mica_free(again);
    mica_scope_close(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    parse(data, size);
    if (size == 0) return 0;
    save_and_load(data, size);
    mc_alloc_fail_at(1 + data[size - 1] % 16);
    parse(data, size);
    mc_alloc_fail_at(0);
    return 0;
}
