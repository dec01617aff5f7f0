/* One block of attention: the query heads that share one head of keys of one batch row, some
 * queries of each. Its three steps, scores, weights and sums, are dealt out by eval_attention.c. */
#ifndef CPU_ATTENTION_H
#define CPU_ATTENTION_H

#include "cpu/cpu.h"
#include "graph/attr.h"

#define MC_ATTN_KEYS 64             /* a tile of keys or values */
#define MC_ATTN_LINE 16             /* floats of a line of memory */
#define MC_ATTN_COLUMNS MK_Q8_GROUP /* of values: a step of mc_attn_sum; a line of memory in bf16 */

typedef struct mc_attention { /* what a call is */
    const mk_kernels *kern;
    const mc_call *call;
    const mc_attr_sdpa *attr;
    mc_layout mask; /* broadcast to [B, Hq, Lq, Lk]; read where there is one */
    int64_t heads, kv_heads, group, lq, lk, d, dv;
    bool pairs;              /* weights and values in bf16; so q and k, but for q8_direct */
    int64_t values_together; /* a block begins with a multiple of so many keys */
    int64_t lead;            /* those that hold the first `keep` of them; 0: none are kept */
    int64_t q8_bytes;        /* of a row, where keys and values are rows of 8 bits; else 0 */
    bool q8_direct;          /* such keys are multiplied by q in such rows */
    int64_t q_floats;        /* of a row of q in scratch, whatever that holds */
} mc_attention;

typedef struct mc_attn_block {
    const mc_attention *at;
    int64_t batch, head, kv_head; /* head: the first */
    int64_t query, queries;       /* the first, and how many */
    int64_t rows;                 /* queries * group; row = query * group + head */
    int64_t offset;               /* key position of query 0 */
    int64_t first;                /* of the keys that any row sees, or the block begins with */
    int64_t lead;   /* keys 0 .. lead - 1 come before these, where they are not the first of them */
    int64_t width;  /* how many there are, columns of scores */
    int64_t stride; /* of a row of scores */
    float *q;       /* the worker's, [rows, q_floats] */
    float *tile;    /* the worker's, of mc_attn_tile_floats */
    float *scores;  /* [rows, width], stride apart; weights in bf16 where pairs */
    float *y;       /* [rows, dv] */
    float *totals;  /* [rows] */
} mc_attn_block;

/* What a call is whose result is not empty. */
void mc_attn_describe(const mc_call *call, mc_attention *at);

/* Floats of the block's tile. */
int64_t mc_attn_tile_floats(const mc_attention *at);
/* Rows of scores begin with a line, and those that follow each other lie in other sets of a
 * cache. */
int64_t mc_attn_stride(int64_t width);

/* The key position of query 0 in this batch row. */
int64_t mc_attn_offset(const mc_attention *at, int64_t batch);
/* The keys that the query sees, as far as causal and window go: begin <= j < end; and where begin
 * is not 0 those that are kept, which lie before it. */
void mc_attn_seen(const mc_attn_block *b, int64_t query, int64_t *begin, int64_t *end);

/* Brings the first of a block's keys and values into caches: kernels ask for those behind them. */
void mc_attn_touch(const mc_attn_block *b);

/* Scores of the block's keys [begin, end), for the rows that may see them. */
void mc_attn_score(const mc_attn_block *b, int64_t begin, int64_t end);
/* A row's scores to weights: exp(score - largest), 0 for keys not seen; and their total. */
void mc_attn_weigh(const mc_attn_block *b, int64_t row);
/* Columns [begin, end) of the weighted values to the result; both multiples of MC_ATTN_COLUMNS, or
 * dv. */
void mc_attn_sum(const mc_attn_block *b, int64_t begin, int64_t end);

#endif
