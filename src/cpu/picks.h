/* Matrices that indices pick: gather_mm, gather_qmm. The places of the result's batch, each a
 * matrix of x times one of w, sorted by the matrix of w. */
#ifndef CPU_PICKS_H
#define CPU_PICKS_H

#include "cpu/form.h"

typedef struct mc_picks {
    int64_t n;        /* places */
    int64_t n_x, n_w; /* matrices of x and of w */
    int64_t *x, *w;   /* [n] the matrices of each place, until mc_picks_sort */
    int64_t *places;  /* [n] the place of each pick: sorted by w, then rising */
    int64_t *w_first; /* [n_w + 1] the first pick of each matrix of w */
    int64_t *of_x;    /* [n] picks, sorted by x */
    int64_t *x_first; /* [n_x + 1] where those of each matrix of x begin in of_x */
} mc_picks;

/* Sets the sizes for a call, and cuts the memory. */
void mc_picks_cut(mc_picks *picks, const mc_call *call, mc_scratch *from);
/* Reads the indices: operand `lhs` of the call, if it is there, and the next one.
 *  errors  MICA_EINVAL an index is out of range */
mica_status mc_picks_read(mc_picks *picks, const mc_call *call, int lhs);
void mc_picks_sort(mc_picks *picks);

#endif
