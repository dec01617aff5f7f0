/* What a device implements: a backend, one row of device_list.h.
 *
 * A backend has memory, which the host need not see, and runs graphs: it says which ops it has
 * kernels for, makes an executable of a graph of those, and launches it on arrays. A device whose
 * kernels are C functions over addresses gets its executables from exec/steps/steps.h.
 *
 * A device does what it is told in order: launches and copies see what earlier ones wrote, and
 * memory that is freed behind a launch may be handed out again, for what uses it next comes later.
 * A launch may go on after it returned; mc_backend.wait ends it and tells what came of it.
 *
 * Threads: any may call any slot, several at once. */
#ifndef DEVICE_BACKEND_H
#define DEVICE_BACKEND_H

#include <mica/device.h>
#include <mica/executable.h>

#include <stdatomic.h>
#include <stdbool.h>

#include "base/status.h"
#include "device/pass.h"
#include "graph/graph.h"
#include "graph/layout.h"

/* A parameter of a lowered graph: data that a launch brings. */
typedef struct mc_lowered_param {
    bool scalar;   /* one number, given by its value: element `index` of the scalars */
    bool donated;  /* may be written over where nobody else holds its storage */
    bool fixed;    /* a constant of the graph */
    bool fallback; /* its memory is the fallback device's: no device sees such a one */
    uint32_t index;
    mc_storage
        *constant; /* a launch brings these bytes, always, and nobody writes to them; borrowed
                             as long as the executable; NULL: it brings any */
    int64_t offset_bytes; /* of the constant's first element */
} mc_lowered_param;

/* A graph that a device runs: every op is a view, a PART, or one that it supports over these
 * layouts.
 *
 * The strides of all nodes hold: those of a view say how it sees its operand's memory, every other
 * result is dense. A LEAF is a parameter, whose number is its `value`, or, where `scalar` is set,
 * the constant of that value. Nodes that no result needs may be there.
 *
 * The results of an op of several (mc_op_def.n_out) are the PARTs of its node, each of its own
 * memory: mc_attr_part.index says which, mc_node_results has the layouts. Nothing else reads the
 * node, and a PART moves no data. A result may have no PART. */
typedef struct mc_lowered {
    mica_scope *graph;
    uint32_t n_params, n_scalars, n_results;
    mc_lowered_param *params; /* [n_params] */
    uint32_t *results;        /* [n_results] nodes */
    uint32_t n_placed;        /* nodes that read what lies with the fallback; nor this */
    bool *stays;         /* [n_results] with the fallback, that made it; no device reads this */
    uint32_t passes_off; /* bits of mc_pass: what a device that has such passes leaves */
    mica_mode mode;      /* of the executable that it is for; default: the device's own choice */
} mc_lowered;

void mc_lowered_free(mc_lowered *lowered); /* takes NULL */

/* What an executable computes with: the memory of a parameter that is no scalar. */
typedef struct mc_binding {
    mc_storage *storage;  /* borrowed; NULL for a scalar */
    void *address;        /* the storage's, here for not having to look: weights are many */
    int64_t offset_bytes; /* of the first element */
    bool taken;           /* set by launch: a donated one was written over */
} mc_binding;

/* A result: storage is a reference for the caller. */
typedef struct mc_result {
    mc_storage *storage;
    int64_t offset_bytes;
} mc_result;

/* A graph made ready by a device, which extends this struct. It never changes: any number of
 * threads may launch it at once. */
typedef struct mc_executable {
    uint32_t n_params, n_results;
    const mc_layout *results; /* [n_results] with the strides that they have */
    size_t bytes;             /* of memory that it holds, about */
    atomic_size_t kept_bytes; /* beside these, of what the device notes of its launches */
    const uint32_t *changed;  /* [MC_PASS_COUNT] what each pass changed; NULL: nothing */
} mc_executable;

/* What a launch takes of the device's memory, in bytes as the device counts them, if all donated
 * arguments are taken. */
typedef struct mc_launch_memory {
    uint64_t results;  /* stays until the results go */
    uint64_t others;   /* what the launch needs beside, at most at once */
    uint64_t prepared; /* what kernels make of constants, and keep where these are known */
} mc_launch_memory;

/* Names a launch of a device; 0: one that is over. */
typedef uint64_t mc_fence;

typedef enum mc_direction { MC_TO_DEVICE, MC_TO_HOST, MC_WITHIN_DEVICE } mc_direction;

/* Of mc_support.dense: operand 31 and all behind it. */
#define MC_DENSE_REST (UINT32_C(1) << 31)

typedef struct mc_support {
    bool yes;       /* false: decompose the op, or let the CPU run it */
    uint32_t dense; /* yes, where these operands are dense: a bit each, and MC_DENSE_REST */
} mc_support;

/* What computes matmuls over one kind of weights, for people to read. */
typedef struct mc_kernel_choice {
    mica_dtype activations;          /* their type in the kernel; i8, i16: codes and scales */
    const char *one_row, *many_rows; /* names of the kernels for one row of them, and for many */
} mc_kernel_choice;

/* The accounts of a device that keeps them itself, in bytes: see the functions of their names in
 * mica/device.h. A limit that is set returns the old one. */
typedef struct mc_memory_ops {
    uint64_t (*active)(void *state);
    uint64_t (*peak)(void *state);
    uint64_t (*cached)(void *state);
    void (*reset_peak)(void *state);
    void (*clear_cache)(void *state);
    uint64_t (*set_cache_limit)(void *state, uint64_t bytes);
    uint64_t (*set_memory_limit)(void *state, uint64_t bytes);
    uint64_t (*set_wired_limit)(void *state, uint64_t bytes);
} mc_memory_ops;

struct mica_group;

typedef struct mc_backend {
    const char *name;

    /* ---- what holds of the device: others ask for this, never for its name ---- */

    /* The host sees the device's memory: address and host pointer are one. It reads and writes what
     * launches use only where these are over when they return; else by copies. */
    bool host_memory;

    /* A launch returns before its graph is computed, so that the next one is worth launching over
     * results that nobody waited for. */
    bool late;

    /* A launch that took a donated argument has moved its memory, and where it fails the argument
     * has none. Elsewhere it lies where it was, whatever was written into it. */
    bool moves_donated;

    /* Each op has a kernel, whatever its layouts, or a decomposition: none falls back to another
     * device. So it is with the first of device_list.h, which others fall back to. */
    bool complete;

    /* No kernel reads an element of a cache that nobody wrote: the memory of caches may begin with
     * anything. Others read whole tables, and want finite numbers there. */
    bool skips_unwritten;

    /* The thread that launches computes, too: what it ran for is the device's time. */
    bool on_caller;

    /* Steps that go by elements or rows run together, with nothing in memory between them. */
    bool joins_steps;

    /* Attention adds up values by so many keys, counted from the cache's beginning: a cache that
     * drops a multiple of it changes no bits. 0: any number. */
    int keys_together;

    /* How many tokens of a prompt are computed at once, unless somebody says it. 0: 512. */
    int prompt_tokens;

    /* Whether a variant can be opened here, without opening it: what open says first. NULL: it
     * always can. errors  MICA_EDEVICE, MICA_EINVAL as of open */
    mica_status (*available)(const char *variant);

    /* Opens what the device needs; *state is handed to the other slots.
     *
     *  variant  what the caller wrote behind the colon of the device's name, "gpu" of "mlx:gpu"; ""
     *           if nothing
     *  errors   MICA_EDEVICE no such variant, or it cannot be had here: the text says how it can */
    mica_status (*open)(const mica_device_options *options, const char *variant, void **state);
    void (*close)(void *state);
    void (*info)(const void *state, mica_device_info *info);

    /* Memory aligned to 64 bytes; NULL: none left. What is freed behind a launch, that uses until
     * its end. */
    void *(*alloc)(void *state, size_t bytes);
    void (*free)(void *state, void *address, size_t bytes);

    /* NULL: device/memory.h accounts for what alloc gives, and keeps what is freed for reuse. */
    const mc_memory_ops *memory;

    /* How many bytes of freed memory are kept, unless the options of the opening say it: more where
     * alloc and free take long. NULL, of a device without `memory`: none. */
    uint64_t (*cache_bytes)(const void *state);

    /* How many bytes alloc could still give, whoever has the others: processes beside this one, the
     * driver. NULL, or UINT64_MAX: nobody tells. */
    uint64_t (*free_bytes)(const void *state);

    /* Memory of the host, which stays as it is until the address is freed, and is read where it is:
     * the address is `host` itself, and free is not called, or what the device calls it, and free
     * returns when no launch reads it any more. NULL: it is copied to memory of alloc, which counts
     * as all of that.
     * errors  MICA_ENOMEM, MICA_EDEVICE */
    mica_status (*adopt)(void *state, const void *host, size_t bytes, void **address);

    /* Copies bytes between memory of the host and a device's, or within that; either side is a
     * pointer of the host, or an address, and an offset. When it returns, the host has what it
     * reads, and may change what was read of it.
     * errors  MICA_EDEVICE */
    mica_status (*copy)(void *state, mc_direction direction, void *to, size_t to_offset,
                        const void *from, size_t from_offset, size_t bytes);

    /* Copies to the host what copies left, or launches that were waited for, and does not wait for
     * launches that came behind them. NULL: copy does it.
     * errors  MICA_EDEVICE */
    mica_status (*read_ended)(void *state, void *to, const void *from, size_t from_offset,
                              size_t bytes);

    /* At most so many bytes in one copy from or to the host: what its staging buffer has room for.
     * 0: any number. */
    size_t staging_bytes;

    /* Whether the device has a kernel for an op, no view, over these layouts; absent operands are
     * NULL. The results out [n_out] are dense. PART is not asked for. attr, in and out NULL: for
     * some layouts. */
    mc_support (*supports)(const void *state, mc_op op, const void *attr,
                           const mc_layout *const *in, int n_in, const mc_layout *out, int n_out);

    /* Makes an executable of a graph, which it takes over, after an error too.
     * errors  MICA_ENOMEM; MICA_EDEVICE; MICA_EINTERNAL */
    mica_status (*compile)(mica_device *device, mc_lowered *graph, mc_executable **executable);
    void (*discard)(mc_executable *executable); /* takes NULL */

    /* Tells what launches will take, and runs nothing. NULL: the device cannot tell.
     * errors  MICA_ENOMEM */
    mica_status (*measure)(const mc_executable *executable, mc_launch_memory *memory);

    /* Starts an executable on args [n_params] and scalars [n_scalars], which it copies; results
     * [n_results] receives storages of its own, of args, or of donated args that it took.
     * After an error results is empty, and args may be taken all the same.
     * errors  MICA_ENOMEM; MICA_EDEVICE; of a device that computes at once, those of wait */
    mica_status (*launch)(mc_executable *executable, mc_binding *args, const uint64_t *scalars,
                          mc_result *results, mc_fence *fence);

    /* Waits for the end of a launch; once for each fence that is not 0. After an error results are
     * arrays all the same, of anything, and donated memory that was taken is what the launch left.
     * errors  what depends on data, such as MICA_EINVAL for an index out of range, with the op's
     *         name; MICA_EDEVICE */
    mica_status (*wait)(void *state, mc_fence fence);

    /* The kernels of MATMUL, QUANTIZED_MATMUL, or of SDPA's queries with keys. w, the second
     * operand, is of that dtype, its elements along k side by side, an even number of them. NULL:
     * the device cannot tell. */
    mc_kernel_choice (*kernel_choice)(const void *state, mc_op op, const void *attr, mica_dtype w);

    /* Prepares the device to compute collectives of a group itself, before the first graph with
     * one; all ranks call it together. NULL: the CPU computes them.
     * errors  MICA_EDEVICE a rank is gone; MICA_ENOMEM */
    mica_status (*join)(void *state, struct mica_group *group);
} mc_backend;

#define DEVICE(name) extern const mc_backend mc_backend_##name;
#include "device/device_list.h"

/* The open device's backend state, for tests and benches of that backend. */
void *mc_backend_state(mica_device *device);

#endif
