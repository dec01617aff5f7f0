/* One block of attention: some queries of the heads that share one K and V head of one batch row.
 * Its three steps compute scores, weights and sums; eval_attention.c splits them into tasks. */
#ifndef CPU_ATTENTION_H
#define CPU_ATTENTION_H

#include "cpu/cpu.h"
#include "graph/attr.h"

#define MC_ATTN_KEYS 64 /* keys (or values) in a tile */
/* A multiple of the keys whose values any kernel sums together (mk_kernels.values_together). */
#define MC_KEYS_TOGETHER 32
#define MC_ATTN_LINE 16             /* floats in a cache line */
#define MC_ATTN_COLUMNS MK_Q8_GROUP /* step of the columns in mc_attn_sum; in bf16 a cache line */

typedef struct mc_attention { /* a call of attention */
    const mk_kernels *kern;
    const mc_call *call;
    const mc_attr_sdpa *attr;
    mc_layout mask; /* broadcast to [B, Hq, Lq, Lk], if there is one */
    int64_t heads, kv_heads, group, lq, lk, d, dv;
    int64_t page;            /* keys in a block of a pool (paged_sdpa); 0: they are in a row */
    bool pairs;              /* weights and values are bf16; q and k too, unless q8_direct */
    int64_t values_together; /* a block begins at a multiple of this many keys */
    int64_t lead;            /* `keep` rounded up to values_together; 0: no keys are kept */
    int64_t q8_bytes;        /* bytes of a key's or value's q8 row; 0: they are not q8 */
    bool q8_direct;          /* keys are multiplied as q8 rows, by queries in q8 rows */
    int64_t q_floats;        /* size in floats of a row of q in scratch, in any format */
} mc_attention;

typedef struct mc_attn_block {
    const mc_attention *at;
    int64_t batch, head, kv_head; /* head: the first one */
    int64_t query, queries;       /* the first query, and how many */
    int64_t rows;                 /* queries * group; row = query * group + head */
    int64_t offset;               /* position, among the keys, of query 0 */
    /* the first key that any row attends to, or a key before it where the block begins */
    int64_t first;
    int64_t lead;   /* if first > 0: keys 0 .. lead - 1 come before the keys from `first` on */
    int64_t width;  /* number of keys, columns of scores */
    int64_t stride; /* floats from a row of scores to the next */
    float *q;       /* the worker's scratch, [rows, q_floats] */
    float *tile;    /* the worker's scratch, mc_attn_tile_floats */
    float *scores;  /* [rows, width], `stride` apart; with pairs the weights are bf16 */
    float *y;       /* [rows, dv] */
    float *totals;  /* [rows] */
} mc_attn_block;

/* Sets up a call of attention, whose result is not empty, or of its gradient. */
void mc_attn_describe(const mc_call *call, mc_attention *at);

/* Floats of a block's tile. */
int64_t mc_attn_tile_floats(const mc_attention *at);
/* The stride of scores for a width. Rows begin with a cache line, and consecutive rows are in
 * different sets of a cache. */
int64_t mc_attn_stride(int64_t width);

/* The position, among the keys, of query 0 in a batch row. */
int64_t mc_attn_offset(const mc_attention *at, int64_t batch);
/* Of paged_sdpa: the pool's block with keys i * page ... of a batch row. */
int64_t mc_attn_table(const mc_attention *at, int64_t batch, int64_t i);
/* The keys that a query attends to, by causal and window: begin <= j < end, and the kept ones
 * before begin. */
void mc_attn_seen(const mc_attn_block *b, int64_t query, int64_t *begin, int64_t *end);

/* Applies the mask, if there is one, to a query's n scores of the keys from `begin` on. Of b only
 * `at` and `batch` are read. */
void mc_attn_mask(const mc_attn_block *b, int64_t head, int64_t query, int64_t begin, int64_t n,
                  float *scores);
/* A head's sink; -INFINITY: there is none. */
float mc_attn_sink(const mc_attention *at, int64_t head);

/* Loads the block's first keys and values into the caches; kernels prefetch the others. */
void mc_attn_touch(const mc_attn_block *b);

/* Computes scores of the block's keys [begin, end), for the rows that may attend to them. */
void mc_attn_score(const mc_attn_block *b, int64_t begin, int64_t end);
/* Turns a row's scores into weights: exp(score - largest), 0 for keys that it does not attend to.
 * Sets the row's total, and writes its logsumexp to the result of SDPA_LSE. */
void mc_attn_weigh(const mc_attn_block *b, int64_t row);
/* Writes columns [begin, end) of the weighted sums to the result. Both are multiples of
 * MC_ATTN_COLUMNS, or dv. */
void mc_attn_sum(const mc_attn_block *b, int64_t begin, int64_t end);

#endif
