/* Devices: arrays live and graphs run on them. They count the memory that arrays take.
 *
 * A device is opened by name and serves any number of scopes and models. A device that is closed
 * while scopes are open ends when the last of them closes.
 * Threads: every function here may be called from any thread. */
#ifndef MICA_DEVICE_H
#define MICA_DEVICE_H

#include <mica/api.h>
#include <mica/status.h>

#include <stddef.h>
#include <stdint.h>

MICA_BEGIN

/** An open device. */
typedef struct mica_device mica_device;

/** Options of mica_device_open; zero means the default. */
typedef struct mica_device_options {
    size_t struct_bytes;         /* see mica/api.h */
    int threads;                 /* threads that compute; 0: one per usable core (affinity, cgroup).
                                    Of "mlx", which has its own, those of ops that the CPU runs for
                                    it. On a machine of several memory (NUMA) nodes the threads are
                                    spread over the nodes, and each keeps to its node, unless the
                                    environment variable MICA_NUMA is off */
    uint64_t memory_limit_bytes; /* as mica_device_set_memory_limit; 0: none */
    uint64_t cache_limit_bytes;  /* as mica_device_set_cache_limit; 0: what the device finds right,
                                    32 MiB on "cpu", on "mlx" MLX's own */
} mica_device_options;

/** What a device is. Strings live as long as the device. */
typedef struct mica_device_info {
    size_t struct_bytes;        /* see mica/api.h */
    const char *name;           /* "cpu" */
    const char *description;    /* "AMD EPYC 9B14, 2 threads" */
    int threads;                /* threads that compute */
    int unified_memory;         /* 1: its arrays are in memory that the processor reads, too, as on
                                   Apple's machines: none is copied between the two */
    uint64_t memory_bytes;      /* physical memory that this process may use; of a GPU that has its
                                   own, all of that */
    const char *architecture;   /* what its kernels are for: a GPU as its maker calls it,
                                   "applegpu_g14s", or the best instruction set of the processor
                                   that has kernels here, "avx2". "": the device does not tell.
                                   mica_model_get_kernels tells which kernels a model uses */
    uint64_t max_array_bytes;   /* of one array; 0: no limit but the memory */
    uint64_t working_set_bytes; /* that arrays should not exceed, by the maker's recommendation; 0:
                                   there is none */
} mica_device_info;

/** Opens a device.
 *
 *  name    "cpu"; "mlx:gpu", "mlx:cpu", or "mlx" for the better of both; "cuda:1", or "cuda" for
 *          the first of NVIDIA's GPUs; NULL for "cpu", which is always there. Which device is the
 *          best depends on the program, and needs measuring: mica_pick_device (mica/cost.h)
 *          chooses.
 *  options NULL for the defaults. Borrowed.
 *  device  receives the device, owned by the caller; NULL after an error.
 *  errors  MICA_EDEVICE no device of that name, or it cannot start; MICA_EINVAL; MICA_ENOMEM
 *
 *  The environment of "cpu", and of what the CPU runs for other devices: MICA_CPU names the
 *  instruction set whose kernels are used (ref, avx2, avx512 ...; one that is unknown, or that the
 *  processor lacks, is MICA_EDEVICE), and MICA_AHEAD says how many bytes ahead they prefetch (out
 *  of range: MICA_EINVAL). */
MICA_API mica_status mica_device_open(const char *name, const mica_device_options *options,
                                      mica_device **device);

/** Closes *device and sets it to NULL. Does nothing for NULL. Scopes that are still open keep what
 *  they need of the device until they close.
 *
 *  Forks: a fork of the process has none of the device's threads. It should only close what it got
 *  (what is under way there is MICA_EDEVICE, and is not freed), and open a device of its own; and
 *  it must be made while no other thread uses the device, whose locks it would find held. */
MICA_API void mica_device_close(mica_device **device);

/** Whether mica_device_open can open a device here, without opening it. It may load the device's
 *  library, as that of "mlx".
 *
 *  name    as of mica_device_open.
 *  returns MICA_OK, or what mica_device_open returns: the text says what is missing and how to get
 *          it.
 *  errors  MICA_EDEVICE, MICA_EINVAL */
MICA_API mica_status mica_device_available(const char *name);

/** The number of devices of this build, and the name of the i-th; NULL: past the end. */
MICA_API size_t mica_device_count(void);
MICA_API const char *mica_device_name(size_t i);

/** Fills *info with what the device is; for a NULL device with empty strings and zeros. */
MICA_API void mica_device_get_info(const mica_device *device, mica_device_info *info);

/** How a device runs an op. */
typedef enum mica_op_support {
    MICA_OP_UNKNOWN = 0,    /* there is no such device or op */
    MICA_OP_NO_WORK = 1,    /* it moves no data: values given, and other views of an array */
    MICA_OP_NATIVE = 2,     /* the device has a kernel, if perhaps not for all dtypes and strides */
    MICA_OP_DECOMPOSED = 3, /* it is computed by other ops, of which any may be any of these */
    MICA_OP_FALLBACK = 4    /* the CPU computes it, and its operands are copied there and back */
} mica_op_support;

/** The number of ops, and the name of the i-th; NULL: past the end. */
MICA_API size_t mica_op_count(void);
MICA_API const char *mica_op_name(size_t i);

/** How the device runs the i-th op. */
MICA_API mica_op_support mica_device_op_support(const mica_device *device, size_t i);

/** How often an op was computed by the CPU, for the device has no kernel for it, since the device
 *  was opened. 0 for NULL. */
MICA_API uint64_t mica_device_fallback_ops(const mica_device *device);

/** Bytes held by live arrays now, the peak of that number since the last reset, and bytes of freed
 *  buffers that the device keeps for reuse. Mapped weights that the device reads where they are
 *  mapped are not counted: they belong to the page cache. What it has a copy of is. */
MICA_API uint64_t mica_device_active_bytes(const mica_device *device);
MICA_API uint64_t mica_device_peak_bytes(const mica_device *device);
MICA_API uint64_t mica_device_cached_bytes(const mica_device *device);

/** Sets the peak to the active bytes of now. */
MICA_API void mica_device_reset_peak(mica_device *device);

/** Gives the cached buffers back to the system. */
MICA_API void mica_device_clear_cache(mica_device *device);

/** Sets how many bytes of freed buffers the device may keep. 0: none. Returns the old limit. */
MICA_API uint64_t mica_device_set_cache_limit(mica_device *device, uint64_t bytes);

/** Sets how many bytes may be active. 0: no limit. Returns the old limit. An allocation that would
 *  exceed the limit fails with MICA_ENOMEM. What the CPU computes for another device takes its own
 *  memory, which may be as much again. */
MICA_API uint64_t mica_device_set_memory_limit(mica_device *device, uint64_t bytes);

/** Sets how many bytes of arrays the device keeps wired: in memory, whatever else the system wants
 *  to put there. Returns the old limit. It is for "mlx" with Metal, where a model that is wired is
 *  not paged out between two answers; everywhere else it does nothing and returns 0. */
MICA_API uint64_t mica_device_set_wired_limit(mica_device *device, uint64_t bytes);

MICA_END

#endif
