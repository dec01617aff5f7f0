/* The forms in which kernels of matmuls take the rows of x. */
#ifndef CPU_FORM_H
#define CPU_FORM_H

#include "cpu/cpu.h"

typedef struct mc_form {
    enum {
        MC_FORM_F32,      /* f32; other floats are widened */
        MC_FORM_ARRANGED, /* by arrange(k, row, to) */
        MC_FORM_BF16,     /* rounded to bf16 */
        MC_FORM_CODES     /* int8 codes, for weights of codes up to `max`: int8_quantize */
    } kind;
    void (*arrange)(int64_t k, const float *x, float *y);
    int group, max;
    int planes;    /* codes: rows of them for a row of x; 2: the second has what the first leaves */
    bool winograd; /* codes: also used with Winograd tiles */

    /* The rows. */
    const float *floats; /* F32, ARRANGED */
    int64_t stride;      /* floats from a row to the next */
    float *arranged;     /* ARRANGED: [rows, stride] */
    uint16_t *halves;    /* BF16: [rows, k], halves_stride apart */
    int64_t halves_stride;
    mk_xrows codes;
} mc_form;

/* The forms that joint matmuls of one x need. */
typedef struct mc_forms {
    mc_form all[MC_MAX_JOINT];
    int n;
} mc_forms;

/* Finds the form that a matmul wants, or adds it. */
const mc_form *mc_forms_find(mc_forms *forms, const mc_form *wanted);

/* Memory cut into pieces, aligned to 64 bytes. Without a block it is only measured. */
typedef struct mc_scratch {
    char *block;
    size_t bytes;
} mc_scratch;

size_t mc_scratch_pad(size_t bytes);
/* The next n items. */
void *mc_scratch_cut(mc_scratch *from, int64_t n, size_t item);

/* Cuts the memory of rows of k elements in every form but F32. */
void mc_forms_cut(mc_forms *forms, int64_t rows, int64_t k, mc_scratch *from);
/* Makes rows [first, first + n) of every form from x, the first of them, stride apart. */
void mc_forms_make(const mc_forms *forms, const mk_kernels *kern, int64_t k, const float *x,
                   int64_t stride, int64_t first, int64_t n);
/* Copies a row of every form but F32. */
void mc_forms_copy(const mc_forms *forms, int64_t k, int64_t from, int64_t to);

/* The rows from `row` on. */
static inline mc_form mc_form_at(const mc_form *form, int64_t row) {
    mc_form at = *form;
    if (form->kind == MC_FORM_CODES)
        at.codes = mk_xrows_at(&form->codes, row * form->planes);
    else if (form->kind == MC_FORM_BF16)
        at.halves += row * form->halves_stride;
    else
        at.floats += row * form->stride;
    return at;
}

/* The distance between rows of k elements, in memory that we allocate. Rows of whole pages would
 * all be in the same sets of a first-level cache. Changing the distance for one operand of a matmul
 * is enough, for its kernels read a few rows of each. */
static inline int64_t mc_matmul_row_stride(int64_t k, size_t item) {
    return k * (int64_t)item % 4096 == 0 ? k + 64 / (int64_t)item : k;
}

#endif
