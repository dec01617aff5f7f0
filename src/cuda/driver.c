#include "cuda/driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define OLDEST 13000 /* CUDA 13.0, by which the kernels are compiled: driver 580 */

mc_cuda_driver mc_cuda;

static const struct {
    const char *name;
    size_t at;
} symbols[] = {
#define DRIVER(name, symbol, parameters) {#symbol, offsetof(mc_cuda_driver, name)},
#include "cuda/driver_list.h"
};

static mica_status find_symbols(void *handle, mc_cuda_driver *driver) {
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *symbol = dlsym(handle, symbols[i].name);
        if (!symbol)
            return mc_fail(MICA_EDEVICE, "cuda: the driver has no %s: a driver of CUDA 13 has it",
                           symbols[i].name);
        memcpy((char *)driver + symbols[i].at, &symbol, sizeof symbol);
    }
    return MICA_OK;
}

static mica_status start(const mc_cuda_driver *driver) {
    const char *name = "?";
    int version = 0, count = 0, error = driver->init(0);
    if (error != 0) {
        (void)driver->error_name(error, &name);
        return mc_fail(MICA_EDEVICE, "cuda: the driver does not start (%s): is there a GPU?", name);
    }
    if (driver->version(&version) != 0 || version < OLDEST)
        return mc_fail(MICA_EDEVICE, "cuda: the driver knows CUDA %d.%d; mica's kernels need 13.0",
                       version / 1000, version % 1000 / 10);
    if (driver->device_count(&count) != 0 || count < 1)
        return mc_fail(MICA_EDEVICE, "cuda: the driver finds no GPU");
    return MICA_OK;
}

static mica_status load(void) {
    /* $MICA_CUDA_LIBRARY: the file of NVIDIA's driver to load (default: libcuda.so.1; on Windows
     * nvcuda.dll) */
    const char *named = getenv("MICA_CUDA_LIBRARY");
    const char *file = named && named[0] != '\0' ? named : mc_cuda_library;
    mc_cuda_driver driver;
    void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return mc_fail(MICA_EDEVICE,
                       "cuda: there is no driver of NVIDIA's here (%s): it comes with the driver "
                       "package of the system, version 580 or later",
                       file);
    mica_status status = find_symbols(handle, &driver);
    if (status == MICA_OK) status = start(&driver);
    if (status != MICA_OK) {
        (void)dlclose(handle);
        return status;
    }
    mc_cuda = driver;
    return MICA_OK;
}

mica_status mc_cuda_load(void) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static bool loaded;
    (void)pthread_mutex_lock(&lock);
    mica_status status = loaded ? MICA_OK : load();
    loaded = status == MICA_OK;
    (void)pthread_mutex_unlock(&lock);
    return status;
}

mica_status mc_cuda_check(int error, const char *what) {
    const char *name = "?";
    if (error == 0) return MICA_OK;
    (void)mc_cuda.error_name(error, &name);
    return mc_fail(error == MC_CUDA_NO_MEMORY ? MICA_ENOMEM : MICA_EDEVICE, "cuda: %s: %s", what,
                   name);
}
