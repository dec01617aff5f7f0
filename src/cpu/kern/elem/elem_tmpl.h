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

INLINE float sigmoid(float x) {
    return 1.0f / (1.0f + mk_expf(-x));
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

/* The step's array from element `at` on; of a part of a tile a copy, with zeros behind it. */
INLINE const float *see(const mk_step *s, int64_t at, int64_t n, float *copy) {
    if (n == TILE) return s->x + at;
    memset(copy, 0, TILE * sizeof *copy);
    memcpy(copy, s->x + at, (size_t)n * sizeof *copy);
    return copy;
}

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
#define NUMBER c = SPREAD(*s->x)

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
        case MK_STEP_store:
            y = n == TILE ? s->y + at : memory;
            EACH(STORE, 0)
            if (n != TILE) memcpy(s->y + at, memory, (size_t)n * sizeof *y);
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

void FILL(mk_kernels *kernels) {
    kernels->elem_steps = elem_steps;
}
