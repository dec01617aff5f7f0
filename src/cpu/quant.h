/* Products with quantised weights: what a call says of them, and the kinds of them. */
#ifndef CPU_QUANT_H
#define CPU_QUANT_H

#include "cpu/matmul.h"
#include "graph/attr.h"

enum { MC_QUANT_CODES = MC_MATMUL_W, MC_QUANT_SCALES }; /* operands; biases are behind them */

/* x [..., m, k] times rows of weights, n of them where they are transposed, else k. */
typedef struct mc_quant_matmul {
    mc_matmul p; /* first, so that its address is that of the whole */
    const mk_kernels *kern;
    mk_qrows w;              /* row 0 of batch 0 */
    mc_layout codes, scales; /* with batch axes broadcast */
    bool transpose;
} mc_quant_matmul;

static inline const mc_quant_matmul *mc_quant_of(const mc_matmul *p) {
    return (const mc_quant_matmul *)(const void *)p;
}

/* All but the kind.
 * errors  MICA_EINVAL rows of weights that are not contiguous */
mica_status mc_quant_describe(const mc_call *call, mc_quant_matmul *q);
/* The rows of operands codes, scales, biases, at in[first] and behind it. errors as above */
mica_status mc_quant_describe_rows(const mc_call *call, int first, mk_qrows *w);

/* The rows of weights of batch element `batch`, from row `first` on. */
mk_qrows mc_quant_weights(const mc_quant_matmul *q, int64_t batch, int64_t first);

/* quant_int8.c: makes it one in integers, if it may be; quant_paired.c: in pairs of bf16, if
 * it may be and the machine is quicker so. */
bool mc_quant_set_fast(mc_quant_matmul *q);
bool mc_quant_set_paired(mc_quant_matmul *q);
/* Whether a matmul is made one of these. */
bool mc_quant_is_fast(const mc_attr_quant *attr);
bool mc_quant_is_paired(const mk_kernels *kern, const mc_attr_quant *attr);

#endif
