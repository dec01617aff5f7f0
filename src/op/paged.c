/* Keys and values in blocks: writing rows into a pool of them, and attention through tables. */
#include <mica/ops.h>

#include <stdio.h>

#include "graph/attr.h"
#include "graph/graph.h"
#include "op/attention.h"
#include "op/build.h"
#include "op/work.h"

/* The axes of a pool [H, N, P, W]: heads, blocks, entries of a block, elements of an entry. Of one
 * head, blocks that follow each other in memory are as good as keys in a row. */
enum { HEADS, BLOCKS, ENTRIES, WIDTH, POOL_AXES };

/* ---- kv_write ---- */

enum { POOL, ROWS, SLOTS, WRITE_OPERANDS };

static mica_status kv_write_infer(const void *attr, const mc_layout *const *in, int n_in,
                                  mc_layout *out) {
    (void)attr, (void)n_in;
    const mc_layout *pool = in[POOL], *x = in[ROWS], *slots = in[SLOTS];
    char a[MC_LAYOUT_TEXT], b[MC_LAYOUT_TEXT], c[MC_LAYOUT_TEXT];
    mica_status status = MICA_OK;
    if (pool->dtype != x->dtype || slots->dtype != MICA_I32) status = MICA_EDTYPE;
    bool fits = pool->ndim == POOL_AXES && x->ndim == POOL_AXES && slots->ndim == 2;
    fits = fits && x->shape[1] == pool->shape[HEADS] && x->shape[WIDTH] == pool->shape[WIDTH] &&
           slots->shape[0] == x->shape[0] && slots->shape[1] == x->shape[2];
    fits = fits && pool->shape[BLOCKS] >= 1 && pool->shape[ENTRIES] >= 1 &&
           !mc_dim_less(mc_dim_div(INT32_MAX, pool->shape[ENTRIES]), pool->shape[BLOCKS]);
    if (status == MICA_OK && !fits) status = MICA_ESHAPE;
    if (status != MICA_OK)
        return mc_fail(status,
                       "kv_write: pool %s, x %s and slots %s are not [H,N,P,W], [B,H,L,W] of one "
                       "dtype and i32[B,L], with 1 to 2147483647 slots",
                       mc_layout_text(pool, a), mc_layout_text(x, b), mc_layout_text(slots, c));
    *out = *pool;
    return MICA_OK;
}

static void kv_write_decompose(mica_scope *s, const void *attr, const mica_array *in, int n_in,
                               mica_array *out) {
    static const int by_token[] = {0, 2, 1, 3}, axes[] = {BLOCKS, ENTRIES};
    (void)attr, (void)n_in;
    mica_array block = mica_scalar(s, (double)mica_array_dim(in[POOL], ENTRIES), MICA_I32);
    const mica_array at[] = {mica_floor_divide(s, in[SLOTS], block),
                             mica_remainder(s, in[SLOTS], block)};
    mica_array x = in[ROWS]; /* invalid without memory: then its sizes are 0 */
    const int64_t shape[] = {mica_array_dim(x, 0), mica_array_dim(x, 2), mica_array_dim(x, 1), 1, 1,
                             mica_array_dim(x, 3)};
    mica_array rows = mica_reshape(s, mica_transpose(s, x, by_token), shape, 6);
    *out = mica_scatter(s, in[POOL], at, 2, axes, rows, MICA_SCATTER_SET);
}

MC_OP(kv_write, WRITE_OPERANDS, WRITE_OPERANDS, .infer = kv_write_infer,
      .decompose = kv_write_decompose, .work = mc_work_update, .in_place = 1);
MC_DECOMPOSED_GRADIENT(kv_write);

mica_array mica_kv_write(mica_scope *s, mica_array pool, mica_array x, mica_array slots) {
    mica_array in[] = {pool, x, slots};
    if (!mc_operands_ok(s, "kv_write", in, WRITE_OPERANDS)) return mc_invalid(s);
    in[ROWS] = mc_cast(s, x, mica_array_dtype(pool));
    return mc_record(s, MC_OP_KV_WRITE, NULL, in, WRITE_OPERANDS);
}

/* ---- paged_sdpa ---- */

/* The table is beside the operands of sdpa, of which there is no mask. */
enum { TABLE = MC_SDPA_TABLE, OPERANDS };

static mica_status check_paged(const void *attr, const mc_layout *const *in) {
    const mc_layout *q = in[MC_SDPA_Q], *k = in[MC_SDPA_K], *v = in[MC_SDPA_V], *table = in[TABLE];
    char a[MC_LAYOUT_TEXT], b[MC_LAYOUT_TEXT], c[MC_LAYOUT_TEXT];
    if (in[MC_SDPA_MASK] || !in[MC_SDPA_OFFSET] || ((const mc_attr_sdpa *)attr)->causal == 0)
        return mc_fail(MICA_EINVAL, "paged_sdpa: is causal, with an offset and without a mask");
    if (!table) return mc_fail(MICA_EINVAL, "paged_sdpa: there is no table");
    if (table->dtype != MICA_I32 || table->ndim != 2 || q->ndim < 1 ||
        table->shape[0] != q->shape[0])
        return mc_fail(table->dtype != MICA_I32 ? MICA_EDTYPE : MICA_ESHAPE,
                       "paged_sdpa: the table is %s, not i32[B,M] beside q %s",
                       mc_layout_text(table, a), mc_layout_text(q, b));
    if (k->ndim != POOL_AXES || v->ndim != POOL_AXES || k->shape[BLOCKS] != v->shape[BLOCKS] ||
        k->shape[BLOCKS] < 1 || k->shape[ENTRIES] != v->shape[ENTRIES] || k->shape[ENTRIES] < 1 ||
        mc_dim_less(mc_dim_div(INT32_MAX, k->shape[ENTRIES]), table->shape[1]))
        return mc_fail(MICA_ESHAPE,
                       "paged_sdpa: k %s and v %s are not [H,N,P,D] with a block or more, and "
                       "at most 2147483647 keys in a row of the table %s",
                       mc_layout_text(k, a), mc_layout_text(v, b), mc_layout_text(table, c));
    return MICA_OK;
}

/* The keys, or values, of the blocks that tables name: [B, H, M * P, W]. */
static mc_layout gathered_layout(const mc_layout *pool, const mc_layout *table) {
    mc_layout l = *pool;
    l.shape[0] = table->shape[0];
    l.shape[1] = pool->shape[HEADS];
    l.shape[2] = mc_dim_mul(table->shape[1], pool->shape[ENTRIES]);
    return l;
}

static mica_status paged_sdpa_infer(const void *attr, const mc_layout *const *in, int n_in,
                                    mc_layout *out) {
    (void)n_in;
    const mc_layout *seen[OPERANDS];
    char text[512];
    MC_TRY(check_paged(attr, in));
    mc_layout k = gathered_layout(in[MC_SDPA_K], in[TABLE]);
    mc_layout v = gathered_layout(in[MC_SDPA_V], in[TABLE]);
    for (int i = 0; i < OPERANDS; i++)
        seen[i] = in[i];
    seen[MC_SDPA_K] = &k;
    seen[MC_SDPA_V] = &v;
    mica_status status = mc_sdpa_infer(attr, seen, TABLE, out);
    if (status == MICA_OK) return MICA_OK;
    (void)snprintf(text, sizeof text, "%s", mica_last_error());
    return mc_fail(status, "paged_%s", text); /* of the keys as sdpa would have them */
}

static mica_array gather_blocks(mica_scope *s, mica_array pool, mica_array table) {
    static const int axes[] = {1, 0, 2, 3, 4};
    mica_array blocks = mica_transpose(s, mica_take(s, pool, table, BLOCKS), axes);
    const int64_t shape[] = {mica_array_dim(table, 0), mica_array_dim(pool, HEADS),
                             mc_dim_mul(mica_array_dim(table, 1), mica_array_dim(pool, ENTRIES)),
                             mica_array_dim(pool, WIDTH)};
    return mica_reshape(s, blocks, shape, 4);
}

static void paged_sdpa_decompose(mica_scope *s, const void *attr, const mica_array *in, int n_in,
                                 mica_array *out) {
    mica_array seen[OPERANDS];
    (void)n_in;
    for (int i = 0; i < TABLE; i++)
        seen[i] = in[i];
    seen[MC_SDPA_K] = gather_blocks(s, in[MC_SDPA_K], in[TABLE]);
    seen[MC_SDPA_V] = gather_blocks(s, in[MC_SDPA_V], in[TABLE]);
    *out = mc_record(s, MC_OP_SDPA, attr, seen, TABLE);
}

/* As sdpa over all keys of the table; of the pools the blocks in it are read. */
static MC_WORK_RULE(paged_sdpa_work) {
    const mc_layout *seen[OPERANDS];
    mc_layout k = gathered_layout(in[MC_SDPA_K], in[TABLE]);
    mc_layout v = gathered_layout(in[MC_SDPA_V], in[TABLE]);
    for (int i = 0; i < OPERANDS; i++)
        seen[i] = in[i];
    seen[MC_SDPA_K] = &k;
    seen[MC_SDPA_V] = &v;
    mc_sdpa_work(attr, seen, n_in, out, work);
    work->bytes = (double)mc_layout_bytes(out);
    for (int i = 0; i < n_in; i++)
        if (seen[i]) work->bytes += (double)mc_layout_bytes(seen[i]);
}

MC_OP(paged_sdpa, 3, OPERANDS, MC_ATTR(sdpa), .infer = paged_sdpa_infer,
      .decompose = paged_sdpa_decompose, .work = paged_sdpa_work);
MC_DECOMPOSED_GRADIENT(paged_sdpa);

mica_array mica_paged_sdpa(mica_scope *s, mica_array q, mica_array k, mica_array v,
                           mica_array table, const mica_sdpa_options *options) {
    mica_array in[OPERANDS] = {q, k, v};
    mc_attr_sdpa attr;
    if (!mc_operands_ok(s, "paged_sdpa", in, 3) || !mc_operands_ok(s, "paged_sdpa", &table, 1))
        return mc_invalid(s);
    if (!mc_sdpa_read_options(s, options, q, &attr, in)) return mc_invalid(s);
    in[TABLE] = table;
    return mc_record(s, MC_OP_PAGED_SDPA, &attr, in, OPERANDS);
}
