/* Matmuls with quantised weights: their description, and their kinds. */
#ifndef CPU_QUANT_H
#define CPU_QUANT_H

#include "cpu/matmul.h"
#include "graph/attr.h"

enum { MC_QUANT_CODES = MC_MATMUL_W, MC_QUANT_SCALES }; /* operands; biases follow */

/* x [..., m, k] times rows of weights: n rows if they are transposed, else k. */
typedef struct mc_quant_matmul {
    mc_matmul p; /* first, so that both have the same address */
    const mk_kernels *kern;
    mk_qrows w;              /* row 0 of batch 0 */
    mc_layout codes, scales; /* with batch axes broadcast; of a picked matmul their own */
    bool transpose;
} mc_quant_matmul;

static inline const mc_quant_matmul *mc_quant_of(const mc_matmul *p) {
    return (const mc_quant_matmul *)(const void *)p;
}

/* Describes a call, without its kind. */
void mc_quant_describe(const mc_call *call, mc_quant_matmul *q);
/* Describes the matmul of m rows of GATHER_QMM by one of its matrices (mc_matmul_init_picked). */
void mc_quant_describe_picked(const mc_call *call, int64_t m, mc_quant_matmul *q);
/* Describes rows from the operands codes, scales and biases, beginning with in[first]. */
void mc_quant_describe_rows(const mc_call *call, int first, mk_qrows *w);

/* Which of these operands (a bit each) must be made dense for that. Rows must be contiguous, and
 * biases must have the strides of the scales. */
uint32_t mc_quant_dense_operands(const mc_layout *const *in, int n_in, int first);

/* The rows of weights of batch element `batch`, from row `first` on. */
mk_qrows mc_quant_weights(const mc_quant_matmul *q, int64_t batch, int64_t first);

/* Sets the kind: exact, or what the next two say. */
void mc_quant_set_kind(mc_quant_matmul *q);
/* Makes the matmul a fast one, if it may be: in int8 (quant_int8.c), or in pairs of bf16 if that is
 * faster on this machine (quant_paired.c). */
bool mc_quant_set_fast(mc_quant_matmul *q);
bool mc_quant_set_paired(mc_quant_matmul *q);
/* Whether mc_quant_set_fast makes the matmul a fast one. */
bool mc_quant_is_fast(const mc_attr_quant *attr);
bool mc_quant_is_paired(const mk_kernels *kern, const mc_attr_quant *attr);

#endif
