/* The elem family: a template, compiled as FILL for each instruction set, whose registers have
 * BYTES bytes. A tile of 8 registers goes through all steps before the next one. Operations are
 * those of IEEE 754, which the compiler may not contract, so every width gives the same bits. */
#include <math.h>
#include <string.h>

#include "cpu/kern/elem/elem.h"
#include "cpu/kern/vmath.h"

enum { WIDTH = BYTES / sizeof(float), TILE = 8 * WIDTH };

typedef float vec __attribute__((vector_size(BYTES)));
typedef int32_t mask __attribute__((vector_size(BYTES)));
typedef uint8_t few __attribute__((vector_size(WIDTH), aligned(1), may_alias));
typedef float loose __attribute__((vector_size(BYTES), aligned(4), may_alias));

#define INLINE static inline __attribute__((always_inline))

#if BYTES == 16
#define SPREAD(x) ((vec){x, x, x, x})
#elif BYTES == 32
#define SPREAD(x) ((vec){x, x, x, x, x, x, x, x})
#else
#define SPREAD(x) ((vec){x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x})
#endif
#define ONE SPREAD(1.0f)
#define SELECT(which, yes, no) \
    ((vec)(((mask)(yes) & (mask)(which)) | ((mask)(no) & ~(mask)(which))))
#define ABS(x) ((vec)((mask)(x)&0x7fffffff))

/* ---- the ops: op_<name> of a register, costly_<name> of a tile ---- */

INLINE float one_over_sqrt(float x) {
    return 1.0f / sqrtf(x);
}

#define BINARY(op, name, expression)     \
    INLINE vec op_##name(vec a, vec b) { \
        return expression;               \
    }
#define ALIKE BINARY
#define UNARY(op, name, expression) \
    INLINE vec op_##name(vec a) {   \
        return expression;          \
    }
#define COSTLY(op, name, function)                 \
    static void costly_##name(float *restrict x) { \
        for (int i = 0; i < TILE; i++)             \
            x[i] = function(x[i]);                 \
    }
#include "cpu/kern/elem/elem_step_list.h"

/* ---- a tile ---- */

/* The same of an array of rows that repeat: where it lies, if that is in one row. */
static const float *see_rows(const mk_step *s, int64_t at, int64_t n, float *copy) {
    int64_t column = at % s->row, left = s->every - at % s->every;
    const float *from = (const float *)s->x + at / s->every * s->row;
    if (n == TILE && n <= s->row - column) return from + column;
    if (n < TILE) memset(copy, 0, TILE * sizeof *copy);
    for (int64_t done = 0, run; done < n; done += run) {
        run = s->row == 1 ? left : s->row - column;
        if (run > n - done) run = n - done;
        if (s->row == 1)
            for (int64_t i = 0; i < run; i++)
                copy[done + i] = *from;
        else
            memcpy(copy + done, from + column, (size_t)run * sizeof *copy);
        column = 0;
        left -= run;
        if (left > 0) continue;
        from += s->row;
        left = s->every;
    }
    return copy;
}

/* The step's array from element `at` on; of a part of a tile a copy, with zeros behind it. */
INLINE const float *see(const mk_step *s, int64_t at, int64_t n, float *copy) {
    if (s->row > 0) return see_rows(s, at, n, copy);
    const float *x = (const float *)s->x + at;
    if (n == TILE) return x;
    memset(copy, 0, TILE * sizeof *copy);
    memcpy(copy, x, (size_t)n * sizeof *copy);
    return copy;
}

/* The first n of them as floats; zeros behind. */
#define WIDEN(type, T)                                                               \
    INLINE void widen_##type(const mk_step *s, int64_t at, int64_t n, float *copy) { \
        const T *x = (const T *)s->x + at;                                           \
        T part[TILE] = {0};                                                          \
        if (n != TILE) x = memcpy(part, x, (size_t)n * sizeof *x);                   \
        for (int i = 0; i < TILE; i++)                                               \
            copy[i] = (float)x[i];                                                   \
    }
WIDEN(u8, uint8_t)
WIDEN(i8, int8_t)
WIDEN(i32, int32_t)

/* ---- bytes ---- */

INLINE vec saturated(vec v, vec lo, vec hi) {
    v = SELECT(v == v, v, SPREAD(0.0f));
    v = SELECT(v < hi, v, hi);
    return SELECT(v > lo, v, lo);
}

/* The tile, which is aligned, as bytes, which it becomes itself. */
INLINE void put_bytes(bool is_signed, float *x, int64_t n, uint8_t *to) {
    const vec lo = SPREAD(is_signed ? -128.0f : 0.0f), hi = SPREAD(is_signed ? 127.0f : 255.0f);
    _Alignas(64) uint8_t part[TILE], *bytes = n == TILE && to ? to : part;
    for (int i = 0; i < TILE; i += WIDTH) {
        mask whole = __builtin_convertvector(saturated(*(vec *)(x + i), lo, hi), mask);
        *(vec *)(x + i) = __builtin_convertvector(whole, vec);
        *(few *)(bytes + i) = __builtin_convertvector(whole, few);
    }
    if (n != TILE && to) memcpy(to, part, (size_t)n);
}

#ifndef ROUNDS /* the instruction set has a round_tile of its own */
/* The tile rounded; false: some are too near the middle of two integers to be sure. */
INLINE bool round_quickly(const mk_rounding *by, const float *restrict x, float *restrict y) {
    int32_t unsure = 0;
    for (int i = 0; i < TILE; i++) {
        float v = x[i] * by->inverse, whole = rintf(v);
        unsure |= fabsf(v - whole) > MK_ROUND_SURE;
        y[i] = whole + by->zero;
    }
    return !unsure;
}

static void round_tile(bool is_signed, const mk_step *s, float *x, int64_t n, uint8_t *to) {
    const mk_rounding by = mk_rounding_of(s->x, s->zero, is_signed);
    _Alignas(64) float y[TILE];
    if (!by.quick || !round_quickly(&by, x, y))
        for (int i = 0; i < TILE; i++)
            y[i] = rintf(x[i] / by.scale) + by.zero;
    put_bytes(is_signed, y, n, to);
    memcpy(x, y, sizeof y);
}
#endif

#define EACH(f, name) \
    f(0, name) f(1, name) f(2, name) f(3, name) f(4, name) f(5, name) f(6, name) f(7, name)
#define AT(k) (*(const loose *)(x + (k)*WIDTH))
#define ZERO(k, name) v##k = SPREAD(0.0f);
#define LOAD(k, name) v##k = AT(k);
#define LOAD_NUMBER(k, name) v##k = c;
#define STORE(k, name) *(loose *)(y + (k)*WIDTH) = v##k;
#define RELOAD(k, name) v##k = *(const vec *)(memory + (k)*WIDTH);
#define UNSTORE(k, name) *(vec *)(memory + (k)*WIDTH) = v##k;
#define WITH_ARRAY(k, name) v##k = op_##name(v##k, AT(k));
#define WITH_NUMBER(k, name) v##k = op_##name(v##k, c);
#define WITH_ITSELF(k, name) v##k = op_##name(v##k, v##k);
#define FROM_ARRAY(k, name) v##k = op_##name(AT(k), v##k);
#define FROM_NUMBER(k, name) v##k = op_##name(c, v##k);
#define OF_ONE(k, name) v##k = op_##name(v##k);

#define STEP(form, name, prepare, each) \
    case MK_STEP_##form:                \
        prepare;                        \
        EACH(each, name)                \
        break;
#define SEE x = see(s, at, n, memory)
#define NUMBER c = SPREAD(*(const float *)s->x)
#define BYTES_OF(s) ((s)->y ? (uint8_t *)(s)->y + at : NULL)

#define WITH_BYTES(type, is_signed)                       \
    case MK_STEP_store_##type:                            \
        EACH(UNSTORE, 0)                                  \
        put_bytes(is_signed, memory, n, BYTES_OF(s));     \
        EACH(RELOAD, 0)                                   \
        break;                                            \
    case MK_STEP_round_##type:                            \
        EACH(UNSTORE, 0)                                  \
        round_tile(is_signed, s, memory, n, BYTES_OF(s)); \
        EACH(RELOAD, 0)                                   \
        break;
#define WIDENED(type)                   \
    case MK_STEP_load_##type:           \
        widen_##type(s, at, n, memory); \
        EACH(RELOAD, 0)                 \
        break;

/* n is TILE, known to the compiler, or less. */
INLINE void run_tile(const mk_step *steps, int n_steps, int64_t at, int64_t n) {
    _Alignas(64) float memory[TILE];
    vec v0, v1, v2, v3, v4, v5, v6, v7, c;
    const float *x;
    float *y;
    EACH(ZERO, 0)
    for (const mk_step *s = steps; s < steps + n_steps; s++)
        switch (s->op) {
            STEP(load, 0, SEE, LOAD)
            STEP(load_number, 0, NUMBER, LOAD_NUMBER)
            WIDENED(u8)
            WIDENED(i8)
            WIDENED(i32)
            WITH_BYTES(u8, false)
            WITH_BYTES(i8, true)
        case MK_STEP_store:
            y = n == TILE ? (float *)s->y + at : memory;
            EACH(STORE, 0)
            if (n != TILE) memcpy((float *)s->y + at, memory, (size_t)n * sizeof *y);
            break;
#define ALIKE(op, name, expression)                \
    STEP(name##_array, name, SEE, WITH_ARRAY)      \
    STEP(name##_number, name, NUMBER, WITH_NUMBER) \
    STEP(name##_itself, name, (void)0, WITH_ITSELF)
#define BINARY(op, name, expression)               \
    ALIKE(op, name, expression)                    \
    STEP(name##_from_array, name, SEE, FROM_ARRAY) \
    STEP(name##_from_number, name, NUMBER, FROM_NUMBER)
#define UNARY(op, name, expression) STEP(name, name, (void)0, OF_ONE)
#define COSTLY(op, name, function) \
    case MK_STEP_##name:           \
        EACH(UNSTORE, 0)           \
        costly_##name(memory);     \
        EACH(RELOAD, 0)            \
        break;
#include "cpu/kern/elem/elem_step_list.h"
        case MK_STEP_COUNT:
            break;
        }
}

static void elem_steps(int64_t begin, int64_t end, const mk_step *steps, int n_steps) {
    int64_t at = begin;
    for (; at + TILE <= end; at += TILE)
        run_tile(steps, n_steps, at, TILE);
    if (at < end) run_tile(steps, n_steps, at, end - at);
}

static void elem_table(int64_t n, const uint8_t *restrict x, const uint8_t table[256],
                       uint8_t *restrict y) {
    for (int64_t i = 0; i < n; i++)
        y[i] = table[x[i]];
}

void FILL(mk_kernels *kernels) {
    kernels->elem_steps = elem_steps;
    kernels->elem_table = elem_table;
}
