/* Dimensions: lengths of axes, as expressions.
 *
 * A dimension is an int64_t: a number, or the handle of an expression that has symbols. Expressions
 * are polynomials of symbols, quotients and what is computed in f32, with whole factors, in one
 * form each: equal ones have equal handles, so that axes are compared and copied like numbers.
 * Arithmetic is what this header has. Numbers go the way of C's operators.
 *
 * A handle has bit 51 set and none above it, so a double holds it. The others are spread, that what
 * C's operators make of a handle is none, which mc_dim_check finds, and its low 32 bits are
 * recognised, too (mc_dim_lost). Symbols count as 0 or more, and a comparison that this
 * does not tell as false: what is recorded is checked when they get their values (exec/again.h).
 *
 * Expressions are in one table of the process, which is emptied when nobody uses it any more
 * (mc_dims_retain). Threads: any. */
#ifndef GRAPH_DIM_H
#define GRAPH_DIM_H

#include <mica/program.h>

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/status.h"

#define MC_DIM_FIRST ((int64_t)1 << 51)
#define MC_DIM_END ((int64_t)1 << 52)

/* What arithmetic gives that failed, which mc_dim_check then tells. */
#define MC_DIM_NONE (MC_DIM_END - 1)

/* A symbol, by its name, and its handle. */
typedef struct mc_symbol {
    char name[64];
    int64_t dim;
} mc_symbol;
enum { MC_MAX_SYMBOLS = 32 };

/* What symbols are: those of a program, and a value for each. */
typedef struct mc_dim_values {
    const mc_symbol *symbols; /* [n] */
    const int64_t *values;    /* [n] */
    size_t n;
} mc_dim_values;

/* From the first call of the one to the last of the other, handles hold. */
void mc_dims_retain(void);
void mc_dims_release(void);

/* The handle of the symbol of a name. errors  MC_DIM_NONE */
int64_t mc_dim_symbol(const char *name);
bool mc_dim_is_symbol(int64_t d);

/* Whether any handle is in use, and whether a dimension is one. */
bool mc_dims_live(void);
bool mc_dim_has_symbols(int64_t d);

/* Whether a number lies where handles do. */
static inline bool mc_dim_in_range(int64_t d) {
    return d >> 51 == 1;
}

/* errors  MICA_ESHAPE, MICA_ENOMEM what failed, of MC_DIM_NONE; MICA_EINVAL it was made from a
 *         handle by C's operators */
mica_status mc_dim_check(int64_t d);
/* Whether a number was made from a handle by C's operators, or cut to a float or 32 bits. */
bool mc_dim_lost(double number);

int64_t mc_dim_add_slow(int64_t a, int64_t b, int64_t factor);
bool mc_dim_less_slow(int64_t a, int64_t b);
int64_t mc_dim_mul_slow(int64_t a, int64_t b);
int64_t mc_dim_div_slow(int64_t a, int64_t b);

static inline bool mc_dim_numbers(int64_t a, int64_t b) {
    return !mc_dim_in_range(a) && !mc_dim_in_range(b);
}
static inline int64_t mc_dim_add(int64_t a, int64_t b) {
    return mc_dim_numbers(a, b) ? a + b : mc_dim_add_slow(a, b, 1);
}
static inline int64_t mc_dim_sub(int64_t a, int64_t b) {
    return mc_dim_numbers(a, b) ? a - b : mc_dim_add_slow(a, b, -1);
}
static inline int64_t mc_dim_mul(int64_t a, int64_t b) {
    return mc_dim_numbers(a, b) ? a * b : mc_dim_mul_slow(a, b);
}
/* a / b rounded down, b > 0, and rounded up, a >= 0. */
static inline int64_t mc_dim_div(int64_t a, int64_t b) {
    return mc_dim_numbers(a, b) && a >= 0 && b > 0 ? a / b : mc_dim_div_slow(a, b);
}
int64_t mc_dim_div_up_slow(int64_t a, int64_t b);
static inline int64_t mc_dim_div_up(int64_t a, int64_t b) {
    return mc_dim_numbers(a, b) && a >= 0 && b > 0 ? (a + b - 1) / b : mc_dim_div_up_slow(a, b);
}
/* *sum += d, *product *= d. False: it is above 2^63. */
static inline bool mc_dim_add_to(int64_t *sum, int64_t d) {
    if (mc_dim_numbers(*sum, d)) return !__builtin_add_overflow(*sum, d, sum);
    *sum = mc_dim_add_slow(*sum, d, 1);
    return true;
}
static inline bool mc_dim_mul_to(int64_t *product, int64_t d) {
    if (mc_dim_numbers(*product, d)) return !__builtin_mul_overflow(*product, d, product);
    *product = mc_dim_mul_slow(*product, d);
    return true;
}
/* What is left of a / b, b > 0: not 0 only where it is a number for all values of symbols. */
int64_t mc_dim_mod(int64_t a, int64_t b);

/* What lengths are computed by in f32, as networks do it that resize by a ratio: each step is
 * rounded as that of an array. What has a fraction is a handle, too, but no length: the last three
 * make one of it. Minimum and maximum are exact, and those of lengths are lengths. */
typedef enum mc_dim_op {
    MC_DIM_CONSTANT, /* for files */
    MC_DIM_ADD_F32,
    MC_DIM_SUB_F32,
    MC_DIM_MUL_F32,
    MC_DIM_DIV_F32,
    MC_DIM_MIN,
    MC_DIM_MAX,
    MC_DIM_FLOOR,
    MC_DIM_CEIL,
    MC_DIM_TRUNC,
    MC_DIM_OPS
} mc_dim_op;

/* Of one operand with b = 0. errors  MC_DIM_NONE */
int64_t mc_dim_compute(mc_dim_op op, int64_t a, int64_t b);
/* A number with a fraction; of a whole one the number itself. errors  MC_DIM_NONE it is not finite
 */
int64_t mc_dim_real(float x);
/* The same of the bits that a file has. */
int64_t mc_dim_real_of(int64_t bits);
/* Whether a dimension is a length, and not a number with a fraction. */
bool mc_dim_is_whole(int64_t d);
/* Whether it is the same number for all values of symbols: *x. */
bool mc_dim_is_constant(int64_t d, double *x);

/* 1: above 0, -1: below it, for all values of symbols but some small ones; 0: neither, and of
 * MC_DIM_NONE. */
int mc_dim_sign_slow(int64_t d);
static inline int mc_dim_sign(int64_t d) {
    return mc_dim_in_range(d) ? mc_dim_sign_slow(d) : (d > 0) - (d < 0);
}
/* Whether a < b for all values of symbols but some small ones. */
static inline bool mc_dim_less(int64_t a, int64_t b) {
    return mc_dim_numbers(a, b) ? a < b : mc_dim_less_slow(a, b);
}
/* x, or the limit where x lies beyond it whatever symbols are. */
static inline int64_t mc_dim_at_most(int64_t x, int64_t limit) {
    return limit == MC_DIM_NONE || mc_dim_less(limit, x) ? limit : x;
}
static inline int64_t mc_dim_at_least(int64_t x, int64_t limit) {
    return limit == MC_DIM_NONE || mc_dim_less(x, limit) ? limit : x;
}
/* Whether two lengths may be equal: quotients in them may hide it, and so may symbols that either
 * has alone. */
bool mc_dim_may_equal(int64_t a, int64_t b);

/* Whether an expression has a symbol in it, and whether all those that it has are among [n]. */
bool mc_dim_depends(int64_t d, int64_t symbol);
bool mc_dim_is_of(int64_t d, const mc_symbol *symbols, size_t n);
/* Whether some part of it is computed (mc_dim_compute). */
bool mc_dim_is_computed(int64_t d);

/* The value of a dimension. errors  MICA_ESHAPE it is above 2^63, or has another symbol, or divides
 * by 0 */
mica_status mc_dim_value(int64_t d, const mc_dim_values *values, int64_t *value);

/* The handle that a double is, or 0. */
int64_t mc_dim_of_real(double x);

/* "2*n*m+n/3+1"; a number. */
bool mc_dim_print(mc_buffer *text, int64_t d);
enum { MC_DIM_TEXT = 64 };
const char *mc_dim_text(int64_t d, char text[MC_DIM_TEXT]); /* cut to fit */

/* ---- what expressions consist of, for files ---- */

enum { MC_DIM_DEGREE = 6, MC_DIM_TERMS = 48, MC_DIM_DEPTH = 32, MC_DIM_WEIGHT = 512 };

typedef enum mc_dim_kind {
    MC_DIM_NUMBER,
    MC_DIM_SYMBOL,
    MC_DIM_QUOTIENT,
    MC_DIM_SUM,
    MC_DIM_COMPUTED
} mc_dim_kind;

/* factor times a product of symbols and quotients [degree], in their order. */
typedef struct mc_dim_term {
    int64_t factor, degree;
    int64_t atoms[MC_DIM_DEGREE];
} mc_dim_term;

typedef struct mc_dim_parts {
    mc_dim_kind kind;
    char name[64];       /* of a symbol */
    int64_t over, under; /* of a quotient, or the operands of op; a constant's bits */
    mc_dim_op op;
    int64_t n; /* of a sum */
    mc_dim_term terms[MC_DIM_TERMS];
} mc_dim_parts;

void mc_dim_get(int64_t d, mc_dim_parts *parts);

/* The sum of terms [n] whose atoms are any dimensions: one expression at most is added for it.
 * errors  MC_DIM_NONE */
int64_t mc_dim_of_terms(const mc_dim_term *terms, int64_t n);
/* How many expressions the thread has added so far: what others can add is limited by that. */
uint64_t mc_dims_made(void);

#endif
