/* The open device, and how steps start kernels. */
#ifndef CUDA_CUDA_H
#define CUDA_CUDA_H

#include <pthread.h>
#include <stdbool.h>

#include "cuda/driver.h"
#include "cuda/image.h"
#include "cuda/kern/args.h"
#include "exec/steps/step.h"
#include "graph/attr.h"

/* Every kernel: rows of kern/kernel_list.h. */
typedef enum mc_cuda_kernel {
#define KERNEL_ROW(file, ENUM, name) MC_CUDA_##ENUM##_KERNEL,
#include "cuda/kern/kernel_list.h"
    MC_CUDA_KERNELS
} mc_cuda_kernel;

/* What kernels found wrong, and for them where that is. */
typedef struct mc_cuda_told {
    mc_cuda_fault fault, *at;
} mc_cuda_told;

/* A launch that nobody has waited for: where its kernels say what they found wrong. */
typedef struct mc_cuda_launch {
    struct mc_cuda_launch *next;
    mc_fence fence;
    void *event;
    mc_cuda_told *told;          /* as the host sees it */
    mc_cuda_told *on_device;     /* the same, as kernels see it */
    struct mc_cuda_graph *graph; /* that notes its kernels; NULL: they are started one by one */
} mc_cuda_launch;

/* Pinned memory through which what is uploaded goes, and the end of its last copy. */
enum { MC_CUDA_BUFFERS = 2 };
typedef struct mc_cuda_buffer {
    void *host, *event; /* NULL: it was not used yet */
} mc_cuda_buffer;
/* A table of step_rows.c's. */
enum { MC_CUDA_RATES = 16, MC_CUDA_DONE = 1024 };
typedef struct mc_cuda_rates {
    double base, scale;
    int64_t half;
    uint64_t address;
} mc_cuda_rates;

typedef struct mc_cuda_state {
    int device;
    void *context, *stream, *modules[MC_CUDA_FILES];
    void *reads;  /* a stream for what is read of launches that are over */
    void *copied; /* the event behind the last copy on `stream` */
    void *kernels[MC_CUDA_KERNELS];
    int multiprocessors, shared_bytes; /* shared_bytes: that a block may have */
    bool has_wgmma;                    /* of Hopper: kern/gemm.cu runs */
    bool keeps_graphs;                 /* launches that are repeated become graphs */
    struct mc_cuda_profile *profile;   /* NULL: none is wanted (cuda/profile.h) */
    struct mc_cuda_comm *comms;        /* of groups (cuda/nccl.h) */
    size_t memory_bytes;
    char name[32], description[128], architecture[16];
    pthread_mutex_t lock; /* guards what follows */
    mc_cuda_launch *started, *spare;
    mc_fence fences;
    mc_cuda_rates rates[MC_CUDA_RATES];
    int n_rates;
    uint64_t done;               /* address of MC_CUDA_DONE counters that are 0 between kernels */
    pthread_mutex_t upload_lock; /* guards what follows */
    mc_cuda_buffer buffers[MC_CUDA_BUFFERS];
    int next_buffer;
} mc_cuda_state;

/* Makes the context that of the thread, as long as the driver is called; returns the driver's
 * error. */
int mc_cuda_enter(const mc_cuda_state *state);
void mc_cuda_leave(void);

/* ---- uploads: cuda/staging.c ---- */

/* Copies memory of the host, which may change when it returns, behind what the stream has to do;
 * returns the driver's error. The context is the thread's. */
int mc_cuda_upload(mc_cuda_state *state, uint64_t to, const char *from, size_t bytes);
void mc_cuda_buffers_free(mc_cuda_state *state);

/* ---- launches: cuda/launch.c ---- */

mica_status mc_cuda_begin(void *state, mc_run *run, void **launch);
bool mc_cuda_repeat(void *state, void *launch);
mc_fence mc_cuda_end(void *state, void *launch, mica_status *status);
void mc_cuda_forget(void *state, void *own);
size_t mc_cuda_kept_bytes(const void *own);
mica_status mc_cuda_wait(void *state, mc_fence fence);
void mc_cuda_launches_free(mc_cuda_state *state);

typedef struct mc_cuda_grid {
    int64_t x, y, z;        /* blocks */
    int threads, threads_y; /* of a block; 0: 256, 1 */
    int shared_bytes;
    bool early; /* it begins before the kernel before it has ended (kern/early.cuh) */
} mc_cuda_grid;

/* Starts a kernel on the device's stream; args, which the driver copies, is what it takes.
 * errors  MICA_EDEVICE */
#define mc_cuda_start(call, kernel, grid, args) \
    mc_cuda_start_kernel(call, kernel, grid, args, sizeof *(args))
mica_status mc_cuda_start_kernel(const mc_call *call, mc_cuda_kernel kernel, mc_cuda_grid grid,
                                 const void *args, size_t bytes);
/* The grid of a kernel whose threads take elements in turn. */
mc_cuda_grid mc_cuda_over(const mc_call *call, int64_t elements);
/* Where the kernels of a call's launch say what they found wrong. */
mc_cuda_fault **mc_cuda_fault_of(const mc_call *call);

/* An operand as kernels see it, with the strides of its layout. */
mc_cuda_view mc_cuda_view_of(const mc_call *call, const mc_operand *x);

/* The axes that n views of one shape have, joined where one stride covers both in all of them. */
int mc_cuda_join_axes(int ndim, int64_t *shape, mc_cuda_view *const *views, int n);

/* Whether numbers of this dtype have kernels: those of C64 do not. */
static inline bool mc_cuda_takes(const mc_layout *l) {
    return !l || l->dtype != MICA_C64;
}

/* ---- products of integers: step_planes.c ---- */

/* Whether kern/planes.cu computes a product: of rows that are joined where they can be. */
bool mc_cuda_fits_planes(const mc_call *call, const mc_cuda_matmul *a);
/* Whether another product has as many rows, and weights of the same form. */
bool mc_cuda_is_alike(const mc_call *call, const mc_cuda_matmul *a, const mc_call *other_call,
                      const mc_cuda_matmul *other);
/* Whether another product of the same x, which fits, can be computed by the same kernel. */
bool mc_cuda_joins_planes(const mc_call *call, const mc_cuda_matmul *a, const mc_call *other_call,
                          const mc_cuda_matmul *other);
/* Computes joint products [n] of the same x. Takes scratch. */
mica_status mc_cuda_run_planes(const mc_call *call, const mc_cuda_matmul *a, int n);

/* Whether weights lie across, as those of a gradient by x do, and become rows of bf16 first. */
bool mc_cuda_fits_across(const mc_call *call, const mc_cuda_matmul *a);
/* Computes such a product. Takes scratch. */
mica_status mc_cuda_run_across(const mc_call *call, const mc_cuda_matmul *a);

/* What kern/gemv.cu takes for products of one row that kern/planes.cu would have as `planes`, and
 * whether it computes these. stages: units of a warp on their way; 0: as fits. */
struct mc_cuda_gemv;
bool mc_cuda_gemv_of(const mc_call *call, const mc_cuda_matmul *a,
                     const mc_cuda_planes_matmul *planes, int stages, struct mc_cuda_gemv *args);
mica_status mc_cuda_run_gemv(const mc_call *call, const struct mc_cuda_gemv *args);

/* Which matrices of x and of w batches are of. x has lhs_count of them, which are evenly apart: lhs
 * picks of these, or, where it is absent, `each` batches in a row have the same. lhs_count 0: each
 * batch has its own, wherever that lies. */
typedef struct mc_cuda_picks {
    mc_cuda_view lhs, rhs; /* strides of the batch axes */
    int64_t lhs_count, rhs_count, each;
} mc_cuda_picks;

/* Computes joint products [n] of matrices that are picked, which have the same strides; with
 * lhs_count the strides of x are those of its matrices, rows and k. Takes scratch. */
mica_status mc_cuda_run_picked(const mc_call *call, const mc_cuda_matmul *a, int n,
                               const mc_cuda_picks *picks);
/* Whether kern/planes.cu knows scales of this layout. */
bool mc_cuda_scales_fit(const mc_attr_quant *quant, const mc_layout *scales);

/* How kern/planes.cu is started, for benches to change; 0: as fits. */
typedef struct mc_cuda_tuning {
    int warps, stages, blocks; /* blocks: of a multiprocessor */
    bool apart;                /* planes of x by a kernel of its own */
} mc_cuda_tuning;
extern mc_cuda_tuning mc_cuda_planes_tuning;

/* ---- steps: a row of step_list.h each ---- */

typedef bool (*mc_cuda_supports)(const void *attr, const mc_layout *const *in, int n_in,
                                 const mc_layout *out);

#define STEP(OP, function, supports) mica_status function(const mc_call *call);
#include "cuda/step_list.h"

/* What kernels of steps take, for a chain that has them (step_chain.c). */
mc_cuda_elements mc_cuda_elements_of(const mc_call *call);
mc_cuda_copy mc_cuda_contiguous_of(const mc_call *call);
mc_cuda_copy mc_cuda_slice_update_at_of(const mc_call *call);
mc_cuda_kv_write mc_cuda_kv_write_of(const mc_call *call);
mc_cuda_norm mc_cuda_norm_of(const mc_call *call);
mc_cuda_rope mc_cuda_rope_of(const mc_call *call);
mc_cuda_q8 mc_cuda_q8_of(const mc_call *call);

/* What is written over begins as its first operand, in whose memory it may be. */
mica_status mc_cuda_copy_base(const mc_call *call);

/* mc_step_ops.rows, enough_rows, chain */
mc_row_form mc_cuda_rows(const void *state, mc_op op, const void *attr, const mc_layout *const *in,
                         int n_in);
int64_t mc_cuda_enough_rows(const void *state);
mica_status mc_cuda_run_chain(const mc_call *call);

/* Whether the bytes that two operands lie in overlap. */
bool mc_cuda_overlap(const mc_operand *a, const mc_operand *b);

/* Of a chain: whether kern/heads.cu does it, and what it takes then. */
struct mc_cuda_heads;
bool mc_cuda_heads_of(const mc_call *call, struct mc_cuda_heads *heads);
mica_status mc_cuda_run_heads(const mc_call *call, const struct mc_cuda_heads *heads);

/* The row of kern/element_list.h for an op; -1: there is none. */
int mc_cuda_element_row(mc_op op);
mica_status mc_cuda_run_elements(const mc_call *call);

bool mc_cuda_supports_collective(const void *attr, const mc_layout *const *in, int n_in,
                                 const mc_layout *out);
bool mc_cuda_supports_reduce(const void *attr, const mc_layout *const *in, int n_in,
                             const mc_layout *out);
bool mc_cuda_supports_topk(const void *attr, const mc_layout *const *in, int n_in,
                           const mc_layout *out);
bool mc_cuda_supports_delta(const void *attr, const mc_layout *const *in, int n_in,
                            const mc_layout *out);
bool mc_cuda_supports_any(const void *attr, const mc_layout *const *in, int n_in,
                          const mc_layout *out);
bool mc_cuda_supports_attention(const void *attr, const mc_layout *const *in, int n_in,
                                const mc_layout *out);
bool mc_cuda_supports_sdpa_gradient(const void *attr, const mc_layout *const *in, int n_in,
                                    const mc_layout *out);
bool mc_cuda_supports_move(const void *attr, const mc_layout *const *in, int n_in,
                           const mc_layout *out);
bool mc_cuda_supports_gather(const void *attr, const mc_layout *const *in, int n_in,
                             const mc_layout *out);
bool mc_cuda_supports_quant(const void *attr, const mc_layout *const *in, int n_in,
                            const mc_layout *out);

#endif
