/* Opens any bytes as a safetensors file: the result is an error, or tensors whose memory can be
 * read. */
#include "io/safetensors.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

#define DATA_BYTES 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile unsigned sum; /* sum of all bytes of the tensors, so that all are read */

static void parse(const uint8_t *bytes, size_t size) {
    mc_weights *w;
    if (mc_weights_parse(bytes, size, "fuzz", &w) != MICA_OK) {
        if (w || !*mica_last_error()) abort();
        return;
    }
    for (size_t i = 0; i < mc_weights_count(w); i++) {
        const mc_weight_tensor *t = mc_weights_at(w, i);
        if (mc_weights_find(w, t->name) != t) abort();
        for (size_t j = 0; j < t->bytes; j++)
            sum += ((const uint8_t *)t->data)[j];
    }
    mc_weights_close(&w);
}

/* The input as a header with the right length field, so that most mutations pass the length
 * check. */
static void parse_header(const uint8_t *header, size_t size) {
    size_t total = 8 + size + DATA_BYTES;
    uint8_t *bytes = calloc(1, total);
    if (!bytes) return;
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)((uint64_t)size >> 8 * i);
    if (size) memcpy(bytes + 8, header, size);
    parse(bytes, total);
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    parse(data, size);
    parse_header(data, size);
    if (size == 0) return 0;
    mc_alloc_fail_at(1 + data[size - 1] % 16);
    parse(data, size);
    mc_alloc_fail_at(1 + data[size / 2] % 16);
    parse_header(data, size);
    mc_alloc_fail_at(0);
    return 0;
}
