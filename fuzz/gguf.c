/* Opens any bytes as a GGUF file: the result is an error, or metadata and tensors that can be
 * read, and a tokenizer that can be written. */
#include "io/gguf.h"

#include "base/alloc.h"
#include "base/buffer.h"
#include "convert/gguf_model.h"
#include "convert/gguf_tokenizer.h"

#include "scratch.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile float sum; /* of what was read, so that all is */

static void read_array(const mc_gguf *g, const char *key) {
    for (mc_gguf_iter it = mc_gguf_begin(g, key); mc_gguf_next(&it);) {
        sum += (float)it.integer + (float)it.number;
        if (it.text.len) sum += (float)it.text.ptr[it.text.len - 1];
    }
}

static void read_tensor(const mc_gguf_tensor *t) {
    float out[256];
    uint8_t codes[MC_GGML_BLOCK];
    uint16_t scales[MC_GGML_GROUPS], biases[MC_GGML_GROUPS];
    for (size_t at = 0; at < t->bytes; at += t->type->bytes) {
        const uint8_t *block = (const uint8_t *)t->data + at;
        t->type->decode(block, out);
        sum += out[t->type->block - 1];
        if (t->type->bits) t->type->split(block, codes, scales, biases);
    }
}

/* Written are files of these names. */
static void write_tokenizer(const mc_gguf *g) {
    static const char *const names[] = {"tokenizer.json", "tokenizer_config.json",
                                        "generation_config.json"};
    char folder[128] = "";
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *path = fuzz_scratch(names[i]);
        memcpy(folder, path, (size_t)(strrchr(path, '/') - path));
    }
    if (mc_gguf_write_tokenizer(g, folder) != MICA_OK && !*mica_last_error()) abort();
}

static void parse(const uint8_t *bytes, size_t size) {
    const mc_gguf_arch *arch;
    mc_buffer config = {0};
    mc_gguf *g;
    if (mc_gguf_parse(bytes, size, "fuzz", &g) != MICA_OK) {
        if (g || !*mica_last_error()) abort();
        return;
    }
    for (size_t i = 0; i < mc_gguf_count(g); i++) {
        if (mc_gguf_find(g, mc_gguf_at(g, i)->name) != mc_gguf_at(g, i)) abort();
        read_tensor(mc_gguf_at(g, i));
    }
    read_array(g, "tokenizer.ggml.tokens");
    read_array(g, "a.strings");
    read_array(g, "a.numbers");
    if (mc_gguf_arch_find(g, &arch) == MICA_OK) (void)mc_gguf_config(g, arch, &config);
    if (config.len > 1 << 16) abort();
    mc_buffer_deinit(&config);
    write_tokenizer(g);
    mc_gguf_close(&g);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    parse(data, size);
    if (size == 0) return 0;
    mc_alloc_fail_at(1 + data[size - 1] % 32);
    parse(data, size);
    mc_alloc_fail_at(0);
    return 0;
}
