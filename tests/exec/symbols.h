/* What tests of programs with symbols share. */
#ifndef EXEC_SYMBOLS_H
#define EXEC_SYMBOLS_H

#include <mica/mica.h>

#define SHAPE(...) (const int64_t[]){__VA_ARGS__}, sizeof((int64_t[]){__VA_ARGS__}) / 8

/* Arithmetic on lengths. */
#define PLUS(a, b) mica_dim_add(a, b)
#define TIMES(a, b) mica_dim_multiply(a, b)

enum { D = 8 };

/* Lengths, fixed or symbols. */
typedef struct lengths_of {
    int64_t b, l;
} lengths_of;

mica_scope *open_scope(void);

/* Numbers in [-1, 1), the same each time. */
mica_array numbers(mica_scope *s, const int64_t *shape, int ndim);

/* Bit for bit on the CPU; the failure names a program and a result. */
void expect_same(mica_array got, mica_array want, int record, int i);

/* Functions of control flow. A loop over x and a number that counts up to a length, user's l ... */
mica_status is_below(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                     mica_array *results, size_t n_results);
mica_status count_it(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                     mica_array *results, size_t n_results);
/* ... and branches. */
mica_status halve_it(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                     mica_array *results, size_t n_results);
mica_status keep_it(void *user, mica_scope *s, const mica_array *args, size_t n_args,
                    mica_array *results, size_t n_results);

void test_extents_of_rows_apart(void **state);
void test_rows_that_mix(void **state);

#endif
