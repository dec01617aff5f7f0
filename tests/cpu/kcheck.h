/* What kcheck's checks and timings share: guarded memory, numbers, quantised rows. */
#ifndef CPU_KCHECK_H
#define CPU_KCHECK_H

#include <stddef.h>

#include "cpu/kern/kern.h"

/* ---- memory whose neighbours may not be touched ---- */

/* Which end meets the forbidden page. LOOSE: the beginning, with some bytes behind the end that may
 * be read, for QEMU, whose masked loads of AVX2 read the lanes that are masked off. */
typedef enum placement { AT_END, AT_START, LOOSE } placement;

typedef struct guarded {
    void *data;
    size_t bytes;
    char *map;
    size_t map_bytes;
} guarded;

guarded guarded_new(size_t bytes, placement where);
/* False where a byte between the data and the forbidden page was written. Frees the memory. */
bool guarded_free(guarded *g);

/* ---- numbers ---- */

/* What operands look like: PLAIN in [-1, 1); CANCELLING large values of changing sign that all but
 * cancel; TINY near the smallest floats (f32); SPARSE mostly 0. */
typedef enum kind { PLAIN, CANCELLING, TINY, SPARSE, KINDS } kind;

uint64_t random_bits(void);
float random_float(void); /* in [-1, 1) */
void fill_floats(float *x, int64_t n, kind k);
/* Finite, and rounded to the type. */
void fill_halves(uint16_t *x, int64_t n, mk_type type);

/* n rows with guarded memory of their own. */
typedef struct qmatrix {
    mk_qrows rows;
    int64_t n;
    guarded codes, scales, biases;
} qmatrix;

qmatrix qmatrix_new(mk_mode mode, int bits, int group, mk_type type, int64_t n, int64_t k,
                    placement where);
bool qmatrix_free(qmatrix *m);

/* Weight l of row r in f64 by the format's definition, and the size of the terms that it is rounded
 * from. */
double qmatrix_value(const qmatrix *m, int64_t r, int64_t l, double *size);

/* Prints GB/s of every kernel for every instruction set, with 1 and with 2 threads. */
int kbench(void);
/* Prints how the fast products compare with the exact ones, and what more rows of x cost. */
int kbench_int8(void);

#endif
