/* What goldens of control flow share. */
#ifndef OP_GOLDEN_CONTROL_H
#define OP_GOLDEN_CONTROL_H

#include "op/golden.h"

/* A function of control flow, and what it does not use. */
#define FUNCTION(name)                                                                  \
    static mica_status name(void *user, mica_scope *s, const mica_array *x, size_t n_x, \
                            mica_array *y, size_t n_y)
#define UNUSED (void)user, (void)s, (void)x, (void)n_x, (void)y, (void)n_y

/* A failure is one of the record: the result is invalid. */
static inline void tell(const golden *g, mica_status status) {
    if (status != MICA_OK) print_error("%s: %s\n", g->name, mica_last_error());
}

/* Arrays side by side. */
static inline mica_array flat(mica_scope *s, const mica_array *xs, int n) {
    mica_array rows[4];
    for (int i = 0; i < n; i++)
        rows[i] = mica_reshape(s, xs[i], (const int64_t[]){mica_array_size(xs[i])}, 1);
    return n == 1 ? rows[0] : mica_concatenate(s, rows, n, 0);
}

#endif
