/* Opens any bytes as an npz or npy file: the result is an error, or arrays that can be read. */
#include "io/npz.h"

#include "base/alloc.h"

#include <stdlib.h>

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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    parse(data, size);
    if (size == 0) return 0;
    mc_alloc_fail_at(1 + data[size - 1] % 16);
    parse(data, size);
    mc_alloc_fail_at(0);
    return 0;
}
