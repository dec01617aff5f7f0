#define _POSIX_C_SOURCE 200809L
#include "mlx/library.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_NAME "libmlxc" MICA_MLX_SUFFIX
#define HOW_TO_GET "`tools/setup-mlx` installs it; MICA_MLX_LIBRARY may name its file"

mc_mlx_library mc_mlx;

static const struct {
    const char *name;
    size_t at;
} symbols[] = {
#define SYMBOL(name) {"mlx_" #name, offsetof(mc_mlx_library, name)},
#include "mlx/symbol_list.h"
};

/* The library's handle, or NULL; *tried receives its file, and what is wrong with it. */
static void *open_file(char tried[512]) {
    /* $MICA_MLX_LIBRARY: the file of libmlxc to load for the device mlx */
    const char *named = getenv("MICA_MLX_LIBRARY");
    if (named && named[0] != '\0') {
        void *handle = dlopen(named, RTLD_NOW | RTLD_LOCAL);
        if (!handle) snprintf(tried, 512, "MICA_MLX_LIBRARY: %s", dlerror());
        return handle;
    }
    void *handle = dlopen(MICA_MLX_FOLDER "/" FILE_NAME, RTLD_NOW | RTLD_LOCAL);
    if (!handle) handle = dlopen(FILE_NAME, RTLD_NOW | RTLD_LOCAL);
    if (!handle) snprintf(tried, 512, "%s", dlerror());
    return handle;
}

static mica_status find_symbols(void *handle, mc_mlx_library *library) {
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *symbol = dlsym(handle, symbols[i].name);
        if (!symbol)
            return mc_fail(MICA_EDEVICE, "mlx: the library has no %s, so it is not mlx-c 0.7; %s",
                           symbols[i].name, HOW_TO_GET);
        memcpy((char *)library + symbols[i].at, &symbol, sizeof symbol);
    }
    return MICA_OK;
}

/* Two releases with the same first two numbers have the same interface. */
static mica_status check_version(const mc_mlx_library *library) {
    mlx_string text = library->string_new();
    bool known = library->version(&text) == 0;
    const char *found = known ? library->string_data(text) : "?";
    size_t len = strlen(MICA_MLX_VERSION) - strlen(strrchr(MICA_MLX_VERSION, '.')) + 1;
    mica_status status = MICA_OK;
    if (strncmp(found, MICA_MLX_VERSION, len) != 0)
        status = mc_fail(MICA_EDEVICE,
                         "mlx: this mica was built for MLX " MICA_MLX_VERSION
                         ", and the library is MLX %s; %s",
                         found, HOW_TO_GET);
    library->string_free(text);
    return status;
}

mica_status mc_mlx_load(void) {
    static bool loaded;
    char tried[512];
    mc_mlx_library library;
    if (loaded) return MICA_OK;
    /* MLX's CUDA counts the graphs that it captures, and fails for good at the 801st of a process,
     * unless it is told not to. */
    (void)setenv("MLX_ENABLE_CACHE_THRASHING_CHECK", "0", 0);
    void *handle = open_file(tried);
    if (!handle) return mc_fail(MICA_EDEVICE, "mlx: no library: %s; %s", tried, HOW_TO_GET);
    mica_status status = find_symbols(handle, &library);
    if (status == MICA_OK) status = check_version(&library);
    if (status != MICA_OK) {
        dlclose(handle);
        return status;
    }
    mc_mlx = library;
    loaded = true;
    return MICA_OK;
}
