/* Matmuls x w, x [..., m, k]. Joint matmuls of one x are one parallel region, whatever their
 * weights. The chain of row-by-row ops before them ends with the stage that makes the forms of x.
 *
 * A component for each kind of matmul (eval_matmul.c, eval_quant.c, quant_int8.c, quant_paired.c)
 * says which form of x its kernels take and computes tiles of columns. What all kinds share is in
 * matmul.c. */
#ifndef CPU_MATMUL_H
#define CPU_MATMUL_H

#include "cpu/chain.h"
#include "cpu/form.h"
#include "cpu/matmul_call.h"

typedef struct mc_matmul mc_matmul;

/* y [m, count], rows y_stride apart, = x times columns first .. first + count - 1 of the weights of
 * a batch element. x: its m rows. scratch: the worker's, [p->scratch_bytes]. */
typedef void (*mc_columns)(const mc_matmul *p, const mc_form *x, int64_t batch, int64_t first,
                           int64_t count, void *scratch, float *y, int64_t y_stride);

struct mc_matmul {
    const mc_call *call;
    mc_layout x; /* with the batch axes of the result */
    /* number of different w; m counts all rows of x that are multiplied by one of them */
    int64_t batches;
    int64_t m, n, k; /* of one matmul of the batch */
    mc_form form;    /* the wanted form, without its rows */
    int64_t tile;    /* columns of a unit of work, > 0 */
    bool runs;       /* several tiles at once are faster, and need no more scratch */
    size_t scratch_bytes;
    mc_columns columns;
};

/* Sets call, x, batches and the sizes. batched: w has batch axes; else one w multiplies all of
 * x. */
void mc_matmul_init(mc_matmul *p, const mc_call *call, bool batched);
/* The same of m rows by one matrix of those that indices pick: batch elements are w's. Without
 * x and batches. */
void mc_matmul_init_picked(mc_matmul *p, const mc_call *call, int64_t m);
/* x's layout with the batch axes of out and its own last two. A vector gets a first one of 1. */
mc_layout mc_matmul_spread(const mc_layout *x, const mc_layout *out);

/* The distance between rows in a tile of w as f32. */
int64_t mc_matmul_tile_stride(const mc_matmul *p);

/* Columns of a tile, at most n: w as f32 stays in a second-level cache. A whole number of the
 * kernels' blocks. */
int64_t mc_matmul_tile(const mc_matmul *p);

/* Runs the chain's stages, then n joint matmuls. Those with one w for all rows run together, others
 * one by one.
 *  errors  MICA_ENOMEM */
mica_status mc_matmuls_run(const mc_matmul *const *matmuls, int n, mc_chain *chain);

/* Whether a matmul that takes another form of x can make it row by row in the chain. */
bool mc_matmul_goes_by_rows(const mc_layout *const *in);

/* Runs the joint matmuls [0, call->joint), after a chain that was measured. */
mica_status mc_matmul_after(mc_chain *chain, const mc_call *call);
mica_status mc_quantized_matmul_after(mc_chain *chain, const mc_call *call);

/* mc_backend.kernel_choice */
mc_kernel_choice mc_matmul_choice(const mk_kernels *kern, const void *attr, mica_dtype w);
mc_kernel_choice mc_quantized_matmul_choice(const mk_kernels *kern, const void *attr);

/* Whether a chain may end in the matmul. */
bool mc_matmul_ends_chain(const mc_cpu *cpu, const void *attr, const mc_layout *const *in);
bool mc_quantized_matmul_ends_chain(const void *attr, const mc_layout *const *in);

#endif
