/* The CUDA driver, found when it is first needed and never unloaded. mica is built without its
 * headers: driver_list.h declares what is called, as the driver's reference does. */
#ifndef CUDA_DRIVER_H
#define CUDA_DRIVER_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct mc_cuda_kernel_params { /* CUDA_KERNEL_NODE_PARAMS_v2 */
    void *kernel;
    unsigned grid[3], block[3], shared_bytes;
    void **params, **extra;
    void *other_kernel, *context;
} mc_cuda_kernel_params;

typedef struct mc_cuda_node_params { /* CUgraphNodeParams */
    int type, zero[3];               /* type 0: a kernel */
    union {
        mc_cuda_kernel_params kernel;
        int64_t room[29];
    } as;
    int64_t more;
} mc_cuda_node_params;

typedef struct mc_cuda_edge { /* CUgraphEdgeData */
    unsigned char from_port, to_port, type, zero[5];
} mc_cuda_edge;

typedef struct mc_cuda_driver {
#define DRIVER(name, symbol, parameters) int(*name) parameters;
#include "cuda/driver_list.h"
} mc_cuda_driver;

/* The functions, once mc_cuda_load has returned MICA_OK. */
extern mc_cuda_driver mc_cuda;

/* Of the driver's enumerations. */
enum {
    MC_CUDA_NO_MEMORY = 2,           /* CUDA_ERROR_OUT_OF_MEMORY */
    MC_CUDA_MULTIPROCESSORS = 16,    /* CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT */
    MC_CUDA_CAPABILITY_MAJOR = 75,   /* CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR */
    MC_CUDA_CAPABILITY_MINOR = 76,   /* CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR */
    MC_CUDA_SHARED_OF_BLOCK = 97,    /* CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN */
    MC_CUDA_KERNEL_MAX_SHARED = 8,   /* CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES */
    MC_CUDA_KERNEL_CARVEOUT = 9,     /* CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT */
    MC_CUDA_STREAM_NON_BLOCKING = 1, /* CU_STREAM_NON_BLOCKING */
    MC_CUDA_EVENT_UNTIMED = 2,       /* CU_EVENT_DISABLE_TIMING */
    MC_CUDA_HOST_MAPPED = 2,         /* CU_MEMHOSTALLOC_DEVICEMAP */
    MC_CUDA_PROGRAMMATIC = 1         /* CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC,
                                        CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC */
};

extern const char mc_cuda_library[]; /* the driver's file on this system */

/* Finds the driver, or the file that MICA_CUDA_LIBRARY names, and starts it. Only the first call
 * does anything, unless it fails.
 * errors  MICA_EDEVICE there is none, it is too old, or it finds no GPU: the text says what to do
 */
mica_status mc_cuda_load(void);

/* Fails with the driver's name of an error: MICA_ENOMEM where it has no memory, else MICA_EDEVICE.
 * 0: MICA_OK. */
mica_status mc_cuda_check(int error, const char *what);

#endif
