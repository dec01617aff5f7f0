/* Without protobuf-c. */
#include <mica/onnx.h>

#include "base/status.h"

static mica_status absent(mica_program **program) {
    if (program) *program = NULL;
    return mc_fail(MICA_EUNSUPPORTED, "this build of mica reads no ONNX: it was compiled without "
                                      "protobuf-c");
}

mica_status mica_onnx_load(mica_device *device, const char *path, const mica_onnx_options *options,
                           mica_program **program) {
    (void)device, (void)path, (void)options;
    return absent(program);
}

mica_status mica_onnx_decode(mica_device *device, const void *data, size_t bytes,
                             const mica_onnx_options *options, mica_program **program) {
    (void)device, (void)data, (void)bytes, (void)options;
    return absent(program);
}

mica_status mica_onnx_print(mica_device *device, const char *path, const mica_onnx_options *options,
                            char **text) {
    (void)device, (void)path, (void)options;
    if (text) *text = NULL;
    return absent(NULL);
}

size_t mica_onnx_op_count(void) {
    return 0;
}

const char *mica_onnx_op_name(size_t i) {
    (void)i;
    return NULL;
}
