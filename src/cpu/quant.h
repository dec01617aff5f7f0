/* Products with quantised weights: what a call says of them, and those in whole numbers. */
#ifndef CPU_QUANT_H
#define CPU_QUANT_H

#include "cpu/chain.h"
#include "graph/attr.h"

enum { MC_QUANT_X, MC_QUANT_CODES, MC_QUANT_SCALES }; /* operands; biases are behind them */

/* x [..., m, k] times rows of weights, n of them where they are transposed, else k. */
typedef struct mc_quant_product {
    const mk_kernels *kern;
    const mc_call *call;
    mk_qrows w;                 /* row 0 of batch 0 */
    mc_layout x, codes, scales; /* with batch axes broadcast */
    int64_t batches;
    int64_t m, n, k; /* of one product of the batch */
    bool transpose;
} mc_quant_product;

/* errors  MICA_EINVAL rows of weights that are not contiguous */
mica_status mc_quant_describe(const mc_call *call, mc_quant_product *q);
/* The rows of operands codes, scales, biases, at in[first] and behind it. errors as above */
mica_status mc_quant_describe_rows(const mc_call *call, int first, mk_qrows *w);

/* The rows of weights of batch element `batch`. */
mk_qrows mc_quant_weights(const mc_quant_product *q, int64_t batch);

static inline mc_operand mc_quant_x(const mc_quant_product *q) {
    return (mc_operand){q->call->in[MC_QUANT_X].data, &q->x};
}

/* quant_fast.c: whether x may be, and can be, quantised too; n such products of one x, which the
 * chain, where it has stages, computes. */
bool mc_quant_is_fast(const mc_quant_product *q);
mica_status mc_quant_fast(const mc_quant_product *products, int n, mc_chain *chain);

/* Whether the product, with those that are joint with it, is one parallel region. */
bool mc_quant_is_one_region(const mc_call *call);

/* Whether such a product quantises x row by row, as it comes; what a chain that was measured does
 * and then the joint products that it ends in. */
bool mc_quant_ends_chain(const mc_attr_quant *attr, const mc_layout *const *in);
mica_status mc_quant_after(mc_chain *chain, const mc_call *call);

/* quant_paired.c: whether x may be, and with profit is, rounded to bf16; such a product. */
bool mc_quant_is_paired(const mc_quant_product *q);
mica_status mc_quant_paired(const mc_quant_product *q);

#endif
