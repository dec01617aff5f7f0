/* Matmuls x w, x [..., m, k]: those that read one x are one parallel region, whatever their
 * weights are, and the chain of row by row steps before them ends in what they make of x.
 *
 * A kind of matmul (eval_matmul.c, eval_quant.c, quant_int8.c, quant_paired.c) says what form of x
 * its kernels meet and computes tiles of columns; what is common to all of them is in matmul.c. */
#ifndef CPU_MATMUL_H
#define CPU_MATMUL_H

#include "cpu/chain.h"
#include "cpu/matmul_call.h"

/* What becomes of the rows of x before they are multiplied. */
typedef struct mc_form {
    enum {
        MC_FORM_F32,      /* nothing, but for the widening of others than f32 */
        MC_FORM_ARRANGED, /* by arrange(k, row, to) */
        MC_FORM_BF16,     /* rounded */
        MC_FORM_CODES     /* quantised for weights of codes up to `max`: int8_quantize */
    } kind;
    void (*arrange)(int64_t k, const float *x, float *y);
    int group, max;
    bool crossed; /* codes: crossed tiles meet them as well */

    /* The rows, one after the other over the batch. */
    const float *floats; /* F32, ARRANGED */
    int64_t stride;      /* from a row of floats to the next */
    float *arranged;     /* [rows, k] */
    uint16_t *halves;    /* BF16: [rows, k], rows halves_stride apart */
    int64_t halves_stride;
    mk_xrows codes;
} mc_form;

typedef struct mc_matmul mc_matmul;

/* y [m, count], rows y_stride apart, = x times columns first .. first + count - 1 of the weights of
 * an element of the batch. x: its rows begin at batch * m. scratch: the worker's own,
 * [p->scratch_bytes]. */
typedef void (*mc_columns)(const mc_matmul *p, const mc_form *x, int64_t batch, int64_t first,
                           int64_t count, void *scratch, float *y, int64_t y_stride);

struct mc_matmul {
    const mc_call *call;
    mc_layout x;     /* with the batch axes of the result */
    int64_t batches; /* of different w; m counts all rows of x that meet one of them */
    int64_t m, n, k; /* of one matmul of the batch */
    mc_form form;    /* wanted: where its rows are is not set */
    int64_t tile;    /* columns a unit of work, > 0 */
    bool runs;       /* more than a tile at once is better, and needs no more scratch */
    size_t scratch_bytes;
    mc_columns columns;
};

/* Sets call, x, batches and the sizes. batched: whether w's batch axes count, else one w meets all
 * of x. */
void mc_matmul_init(mc_matmul *p, const mc_call *call, bool batched);
/* x's layout with the batch axes of out and its own last two, or a first one of 1 in a vector's. */
mc_layout mc_matmul_spread(const mc_layout *x, const mc_layout *out);

/* From a row of k elements to the next, where we place them: rows that fill pages would all lie in
 * the same sets of a first-level cache. One of a matmul's two is enough, for its kernels read a
 * few rows of each. */
static inline int64_t mc_matmul_apart(int64_t k, size_t item) {
    return k * (int64_t)item % 4096 == 0 ? k + 64 / (int64_t)item : k;
}

/* From a row of w to the next in a tile of it as f32. */
int64_t mc_matmul_tile_stride(const mc_matmul *p);

/* Columns, n at most, whose w as f32 stays in a second-level cache: a whole number of the kernels'
 * blocks. */
int64_t mc_matmul_tile(const mc_matmul *p);

/* Computes what the chain's stages do, and then n joint matmuls: those that meet one w together,
 * others one by one.
 * errors  MICA_ENOMEM */
mica_status mc_matmuls_run(const mc_matmul *const *matmuls, int n, mc_chain *chain);

/* Whether the matmul, if its kind makes something else of the activations, can make it row by row,
 * as they come. */
bool mc_matmul_goes_by_rows(const mc_layout *const *in);

/* The joint matmuls [0, call->joint), behind a chain that was measured. */
mica_status mc_matmul_after(mc_chain *chain, const mc_call *call);
mica_status mc_quantized_matmul_after(mc_chain *chain, const mc_call *call);

/* mc_backend.kernel_choice */
mc_kernel_choice mc_matmul_choice(const mk_kernels *kern, const void *attr, mica_dtype w);
mc_kernel_choice mc_quantized_matmul_choice(const mk_kernels *kern, const void *attr);

/* Whether a chain may end in the matmul. */
bool mc_matmul_ends_chain(const mc_cpu *cpu, const void *attr, const mc_layout *const *in);
bool mc_quantized_matmul_ends_chain(const void *attr, const mc_layout *const *in);

#endif
