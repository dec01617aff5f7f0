/* Reads any bytes as an ONNX file. The result is an error, or a program that is well-formed and is
 * saved and loaded as the same text; each again with an allocation that fails. */
#include <mica/mica.h>

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static mica_device *device;

static void must(bool truth) {
    if (!truth) abort();
}

static mica_status read_model(const uint8_t *data, size_t size, mica_program **program) {
    return mica_onnx_decode(device, data, size, NULL, program);
}

/* Names of a file may be there twice, or be no UTF-8: then it cannot be saved. */
static void save_and_load(const mica_program *program) {
    void *file;
    size_t bytes;
    char *text, *other;
    mica_program *again;
    if (mica_program_encode(program, NULL, &file, &bytes) != MICA_OK) return;
    must(mica_program_decode(device, file, bytes, NULL, &again) == MICA_OK);
    must(mica_program_print(program, &text) == MICA_OK);
    must(mica_program_print(again, &other) == MICA_OK);
    must(strcmp(text, other) == 0);
    mica_free(text);
    mica_free(other);
    mica_free(file);
    mica_program_close(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    mica_program *program = NULL;
    if (!device) {
        const mica_device_options options = {.threads = 1, .memory_limit_bytes = 1 << 28};
        must(mica_device_open("cpu", &options, &device) == MICA_OK);
    }
    if (size == 0) return 0;
    if (read_model(data, size, &program) == MICA_OK) {
        must(mica_program_verify(program) == MICA_OK);
        save_and_load(program);
        mica_program_close(&program);
    } else {
        must(!program && *mica_last_error() != '\0');
    }
    mc_alloc_fail_at(1 + data[size - 1] * 4u);
    mica_status status = read_model(data, size, &program);
    mc_alloc_fail_at(0);
    must((status == MICA_OK) == (program != NULL));
    mica_program_close(&program);
    return 0;
}
