/* The cuda backend of a build without it, or for a system that has no driver of NVIDIA's. */
#include "device/backend.h"

static mica_status none_available(const char *variant) {
    (void)variant;
    return mc_fail(MICA_EDEVICE, "cuda: this mica was built without it (MICA_CUDA)");
}

static mica_status none_open(const mica_device_options *options, const char *variant,
                             void **state) {
    (void)options;
    *state = NULL;
    return none_available(variant);
}

const mc_backend mc_backend_cuda = {.name = "cuda", .available = none_available, .open = none_open};
