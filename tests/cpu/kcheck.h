/* Shared by kcheck's checks and timings: guarded memory, random numbers, quantised rows. */
#ifndef CPU_KCHECK_H
#define CPU_KCHECK_H

#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/kern/kern.h"

/* ---- guarded memory: its neighbours may not be touched ---- */

/* Which end of the memory is at the forbidden page. LOOSE: the beginning, with some bytes behind
 * the end that may be read, for QEMU: its masked loads of AVX2 read masked lanes. */
typedef enum placement { AT_END, AT_START, LOOSE } placement;

typedef struct guarded {
    void *data;
    size_t bytes;
    char *map;
    size_t map_bytes;
} guarded;

guarded guarded_new(size_t bytes, placement where);
/* Frees the memory. false: a byte between the data and the forbidden page was written. */
bool guarded_free(guarded *g);

/* ---- numbers ---- */

/* Kinds of operands: PLAIN in [-1, 1); CANCELLING large values of changing sign that almost cancel;
 * TINY near the smallest floats (f32); SPARSE mostly 0. */
typedef enum kind { PLAIN, CANCELLING, TINY, SPARSE, KINDS } kind;

uint64_t random_bits(void);
float random_float(void); /* in [-1, 1) */
void fill_floats(float *x, int64_t n, kind k);
/* Finite numbers, rounded to the type. */
void fill_halves(uint16_t *x, int64_t n, mk_type type);

/* n rows of quantised weights in guarded memory. */
typedef struct qmatrix {
    mk_qrows rows;
    int64_t n;
    guarded codes, scales, biases;
} qmatrix;

qmatrix qmatrix_new(mk_mode mode, int bits, int group, mk_type type, int64_t n, int64_t k,
                    placement where);
bool qmatrix_free(qmatrix *m);

/* Weight l of row r in f64 by the format's definition, and the size of the terms in its
 * rounding. */
double qmatrix_value(const qmatrix *m, int64_t r, int64_t l, double *size);

/* ---- checks ---- */

#define UNIT 0x1p-24
#define COUNT(list) ((int)(sizeof(list) / sizeof *(list)))

/* The check of one instruction set's kernel, and its result. */
typedef struct check {
    const mk_kernels *kern;
    placement where;
    double worst; /* error / bound */
    int cases, failures;
    const char *what; /* of the first failure */
} check;

void fail_check(check *c, const char *what);
void judge(check *c, double got, double want, double bound);
guarded floats(const check *c, int64_t n); /* NaN until they are written */
void release(check *c, guarded *g);
void same_bits(check *c, const float *a, const float *b, int64_t n, const char *what);
/* Marks a kernel that another kernel's check compares as well. */
void with_another(check *c);

mk_kernels reference(void);
/* n bf16 of the kinds of fill_floats. */
void fill_bf16(uint16_t *x, int64_t n, kind kinds);

/* Element l of a q8 row of n elements, in f64. */
double q8_value(const uint8_t *row, int64_t n, int64_t l);

/* Another implementation of some of a set's kernels, which other machines use. fill NULL ends a
 * list. */
typedef struct variant {
    const char *isa;
    void (*fill)(mk_kernels *kernels);
} variant;

/* Runs a check with the machine's kernels, then with each variant of its set. */
void in_variants(check *c, const variant *variants, void (*run)(check *c, const void *what),
                 const void *what);

/* Sizes at the edges of blocks. Kinds whose sums have known values, also on machines without
 * subnormal numbers. */
static const int64_t sizes_m[] = {1, 2, 3, 5, 6, 7, 13};
static const int64_t sizes_n[] = {1, 3, 4, 9, 16, 67};
static const int64_t sizes_k[] = {1, 7, 8, 15, 16, 33, 64, 257};
static const kind judged[] = {PLAIN, CANCELLING, SPARSE};

/* y[m, n] = q[m, d] k[n, d]^T in pairs of bf16: attn_scores and matmul_bf16 (kcheck_attn.c). */
typedef void (*matmul_bf16)(int64_t m, int64_t n, int64_t d, const uint16_t *q, int64_t q_stride,
                            const uint16_t *k, int64_t k_stride, float *y, int64_t y_stride);
/* kinds: of q. Results of TINY ones are only compared with each other. */
void scores_of(check *c, matmul_bf16 matmul, int64_t m, int64_t n, int64_t d, kind kinds);
/* Rows with gaps between them give the bits of contiguous rows, and the gaps are not written. */
void strides_of(check *c, matmul_bf16 matmul, int64_t m, int64_t n, int64_t k);

/* ---- families ---- */

/* The checks of a family's list. A kernel without a check does not compile. */
typedef struct kcheck_row {
    const char *name;
    void (*run)(check *c);
} kcheck_row;

typedef struct kcheck_family {
    const kcheck_row *rows;
    int n;
    /* Whether two sets have the same kernels, so that one check is enough. Only for checks that
     * call no other family's kernels. NULL: never. */
    bool (*same)(const mk_kernels *a, const mk_kernels *b);
} kcheck_family;

extern const kcheck_family kcheck_attn, kcheck_conv, kcheck_dense, kcheck_elem, kcheck_fft,
    kcheck_int8, kcheck_integer, kcheck_quant, kcheck_row_ops, kcheck_scan;

/* Prints GB/s of every kernel of every instruction set, with 1 and 2 threads. */
int kbench(void);
/* Prints how fast matmuls compare with exact ones, and what more rows of x cost. */
int kbench_int8(void);

#endif
