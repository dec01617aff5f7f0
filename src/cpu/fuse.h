/* Element-wise ops as one loop each, or several as one: the kernels of kern/elem. */
#ifndef CPU_FUSE_H
#define CPU_FUSE_H

#include "cpu/cpu.h"

/* Steps that a call takes at most: it loads, computes and stores. */
#define MC_FUSE_STEPS 3

/* Bytes that depend on other bytes alone: what each of the 256 becomes. */
typedef struct mc_table {
    const uint8_t *x;
    uint8_t *y, bytes[256];
} mc_table;

/* Calls that run as one loop over their elements. */
typedef struct mc_fused {
    const mk_kernels *kern;
    const mk_step *steps;
    int n_steps, n_tables; /* tables are read instead of steps, if there are any */
    const mc_table *tables;
} mc_fused;

enum { MC_MAX_TABLES = 8 };

/* What calls of a chain became. */
typedef struct mc_fusion {
    mk_step steps[MC_FUSE_STEPS * MC_MAX_CHAIN];
    mc_fused fused[MC_MAX_CHAIN];
    mc_table tables[MC_MAX_TABLES];
    int n_steps, n_fused, n_tables;
    bool dry; /* numbers are not there: tables are not filled */
} mc_fusion;

/* Whether a call can be a part of such a loop: its operands are f32, and dense, single numbers, or
 * dense rows that broadcasting repeats; or it converts dense integers to f32, or f32 to bytes. */
bool mc_can_fuse(const mc_call *call);

/* Whether call n can be in one loop with calls [0, n): of what these make it reads the elements
 * that it computes, in order. */
bool mc_can_follow(const mc_call *calls, int n);

/* The loop of calls [0, n), which all can, and in all chains of a fusion are MC_MAX_CHAIN at most;
 * calls [n, all) are those behind them in their span. Each has the bits that it has alone, but
 * those of a NaN; a result is stored where somebody else may read it. */
mc_fused *mc_fuse(mc_fusion *fusion, const mc_call *calls, int n, int all);

/* How many of calls [0, n), which can be one loop, should be one: those that tables of bytes can
 * stand for, or those before these. Others: as above. */
int mc_count_alike(const mc_call *calls, int n, int all);

/* Tells mc_run_touch, of the span that begins with `head`, what the loop reads and writes. */
void mc_fused_touch(const mc_fused *fused, const mc_call *head);

/* Whether the result of the first call is read by others than call `next`, of [0, all) of its span
 * or behind it. */
bool mc_is_read_behind(const mc_call *calls, int next, int all);

/* Calls that are mk_rounding. */
typedef struct mc_rounding {
    const float *scale, *zero; /* numbers, or NULL */
    const mc_operand *out;     /* bytes */
} mc_rounding;

/* How many calls from the first on, of [0, n), round the first operand of the first, f32, to bytes
 * alone, with results between that nobody else reads; 0: they do not. all: as above. */
int mc_match_rounding(const mc_call *calls, int n, int all, mc_rounding *r);

/* Runs elements of the mc_fused that `context` points to: an mc_range_fn. */
void mc_run_fused(void *context, int64_t begin, int64_t end, int worker);

#endif
