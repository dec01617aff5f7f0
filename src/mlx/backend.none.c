/* The mlx backend of a build without mlx-c's headers: it says what is missing. */
#include "device/backend.h"

static mica_status none_available(const char *variant) {
    (void)variant;
    return mc_fail(MICA_EDEVICE, "mlx: this mica was built without MLX: run `tools/setup-mlx` and "
                                 "build it again");
}

static mica_status none_open(const mica_device_options *options, const char *variant,
                             void **state) {
    (void)options;
    *state = NULL;
    return none_available(variant);
}

const mc_backend mc_backend_mlx = {.name = "mlx", .available = none_available, .open = none_open};
