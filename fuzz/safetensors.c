/* Opens any bytes as a safetensors file: the result is an error, or tensors whose memory can be
 * read, and which, written to a file, are read back as they are. */
#include "io/safetensors_write.h"

#include "base/alloc.h"
#include "scratch.h"

#include <stdlib.h>
#include <string.h>

#define DATA_BYTES 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile unsigned sum; /* sum of all bytes of the tensors, so that all are read */

static void must(bool truth) {
    if (!truth) abort();
}

static void expect_same(const mc_weight_tensor *a, const mc_weight_tensor *b) {
    must(b && strcmp(a->kind, b->kind) == 0 && a->ndim == b->ndim && a->bytes == b->bytes);
    for (int k = 0; k < a->ndim; k++)
        must(a->shape[k] == b->shape[k]);
    must(a->bytes == 0 || memcmp(a->data, b->data, a->bytes) == 0);
}

/* Only some inputs: files take their time. */
static void write_and_read(const mc_weights *w) {
    enum { MAX_TENSORS = 32 };
    mc_weight_tensor tensors[MAX_TENSORS];
    mc_weights_writer *writer;
    mc_weights *again;
    size_t count = mc_weights_count(w);
    if (count > MAX_TENSORS) return;
    for (size_t i = 0; i < count; i++)
        tensors[i] = *mc_weights_at(w, i);
    const char *path = fuzz_scratch("fuzz.safetensors");
    must(mc_weights_writer_open(path, tensors, count, NULL, 0, &writer) == MICA_OK);
    for (size_t i = 0; i < count; i++)
        must(mc_weights_writer_add(writer, tensors[i].data, tensors[i].bytes) == MICA_OK);
    must(mc_weights_writer_close(&writer, MICA_OK) == MICA_OK);
    must(mc_weights_open(path, NULL, &again) == MICA_OK);
    must(mc_weights_count(again) == count);
    for (size_t i = 0; i < count; i++)
        expect_same(&tensors[i], mc_weights_find(again, tensors[i].name));
    mc_weights_close(&again);
}

static void parse(const uint8_t *bytes, size_t size, bool back) {
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
    if (back) write_and_read(w);
    mc_weights_close(&w);
}

/* The input as a header with the right length field, so that most mutations pass the length
 * check. */
static void parse_header(const uint8_t *header, size_t size, bool back) {
    size_t total = 8 + size + DATA_BYTES;
    uint8_t *bytes = calloc(1, total);
    if (!bytes) return;
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)((uint64_t)size >> 8 * i);
    if (size) memcpy(bytes + 8, header, size);
    parse(bytes, total, back);
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    parse(data, size, true);
    parse_header(data, size, true);
    if (size == 0) return 0;
    mc_alloc_fail_at(1 + data[size - 1] % 16);
    parse(data, size, false);
    mc_alloc_fail_at(1 + data[size / 2] % 16);
    parse_header(data, size, false);
    mc_alloc_fail_at(0);
    return 0;
}
