/* Lazy arrays in scopes.
 *
 * An op (mica/ops.h) records a node in its scope and returns at once; nothing runs until a value is
 * asked for: mica_eval, or any function here that reads data. Everything made in a scope is freed
 * when the scope closes.
 *
 *     mica_scope *s = NULL;
 *     mica_scope_open(device, &s);
 *     mica_array y = mica_softmax(s, mica_matmul(s, x, w), -1);
 *     mica_status status = mica_eval(s, y);    // the first error of the whole scope surfaces here
 *     ...
 *     mica_scope_close(&s);
 *
 * An op's operands are borrowed. They may live in another scope of the same device where they are
 * evaluated already (a model's weights, a session's caches). Where an operand is wrong, the op
 * returns an invalid array and its scope keeps the first error. All ops that follow in this scope
 * return an invalid array too: the first error is what evaluating or reading any of them gives.
 *
 * Threads: a scope belongs to one thread at a time. Evaluated arrays of a scope to which nobody
 * adds may be operands in any number of threads. */
#ifndef MICA_ARRAY_H
#define MICA_ARRAY_H

#include <mica/api.h>
#include <mica/device.h>
#include <mica/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

MICA_BEGIN

/** The most axes that an array may have. */
#define MICA_MAX_NDIM 8

/** Types of an element. Ordered as MLX promotes: see mica_dtype_promote. */
typedef enum mica_dtype {
    MICA_BOOL,
    MICA_U8,
    MICA_U16,
    MICA_U32,
    MICA_U64,
    MICA_I8,
    MICA_I16,
    MICA_I32,
    MICA_I64,
    MICA_F16,
    MICA_BF16,
    MICA_F32
} mica_dtype;
/** How many there are. */
#define MICA_DTYPE_COUNT 12

/** What owns arrays: everything made in a scope goes with it. */
typedef struct mica_scope mica_scope;

/** A handle on a node of a scope: plain data, copied freely, valid until its scope closes. */
typedef struct mica_array {
    mica_scope *scope; /* NULL in MICA_NONE */
    uint32_t node;     /* index in the scope; that of no node in an invalid array */
} mica_array;

/** The invalid array that belongs to no scope: an absent optional operand. What a failed op returns
 *  is invalid too, but knows its scope, and is no absent operand. */
#ifdef __cplusplus
#define MICA_NONE (mica_array{nullptr, 0})
#else
#define MICA_NONE ((mica_array){NULL, 0})
#endif

/** Name ("f32", "bf16", "u8", ...), bytes an element, and kind of a dtype. */
MICA_API const char *mica_dtype_name(mica_dtype dtype);
MICA_API size_t mica_dtype_bytes(mica_dtype dtype);
MICA_API bool mica_dtype_is_float(mica_dtype dtype);
MICA_API bool mica_dtype_is_signed(mica_dtype dtype); /* signed integers and floats */

/** The dtype of an op over a and b, as MLX: u32 with i32 is i64, u64 with a signed one is f32,
 *  f16 with bf16 is f32, any integer with a float is that float. */
MICA_API mica_dtype mica_dtype_promote(mica_dtype a, mica_dtype b);

/* ---- scopes ---- */

/** Opens a scope on a device.
 *
 *  scope   receives it, owned by the caller; NULL after an error.
 *  errors  MICA_EINVAL, MICA_ENOMEM */
MICA_API mica_status mica_scope_open(mica_device *device, mica_scope **scope);

/** Frees everything made in *scope and sets it to NULL; nothing for NULL. Waits for an
 *  evaluation that still runs. */
MICA_API void mica_scope_close(mica_scope **scope);

/** The scope's first error, MICA_OK where there was none. */
MICA_API mica_status mica_scope_status(const mica_scope *scope);
MICA_API mica_device *mica_scope_device(const mica_scope *scope);

/* ---- evaluation ---- */

/** Evaluates arrays of the scope: afterwards they hold data. What they were computed from is not
 *  kept unless it was evaluated itself.
 *
 *  errors  the scope's first error; MICA_ENOMEM; MICA_EDEVICE */
MICA_API mica_status mica_eval(mica_scope *s, mica_array x);
MICA_API mica_status mica_eval_n(mica_scope *s, const mica_array *xs, size_t n);

/** Starts the same in the background and returns; mica_wait, any evaluation, any reading of data
 *  in the scope and its close wait for the end.
 *
 *  errors  as mica_eval for what is found at the start; mica_wait returns what the run returned */
MICA_API mica_status mica_eval_async(mica_scope *s, const mica_array *xs, size_t n);
MICA_API mica_status mica_wait(mica_scope *s);

/** Evaluates x and moves its value to the scope `outer`, so that it outlives its own scope.
 *
 *  returns the array in outer; x itself must not be used again. MICA_NONE after an error, which
 *          outer keeps. */
MICA_API mica_array mica_materialize(mica_scope *outer, mica_array x);

/** Moves x into s as an operand that the op that reads it may overwrite in place: how a cache grows
 *  without a copy. x is evaluated where it is not. An evaluation may overwrite the result unless it
 *  is asked for the result too; using it afterwards is an error.
 *
 *  returns the array in s; x must not be used again. */
MICA_API mica_array mica_move(mica_scope *s, mica_array x);

/** x as a constant of s: same data, no history; gradients stop here. Evaluates x. */
MICA_API mica_array mica_detach(mica_scope *s, mica_array x);

/* ---- making ---- */

/** An array from values in row-major order, copied.
 *
 *  data    product(shape) elements of dtype. Borrowed.
 *  shape   [ndim], each >= 0; NULL where ndim is 0. Borrowed. ndim <= MICA_MAX_NDIM.
 *  errors  MICA_EINVAL negative or overflowing shape; MICA_ENOMEM */
MICA_API mica_array mica_from_data(mica_scope *s, const void *data, mica_dtype dtype,
                                   const int64_t *shape, int ndim);

/** A 0-dimensional array. Its value is no part of a graph's structure: graphs that differ only in
 *  scalars replay one plan. */
MICA_API mica_array mica_f32(mica_scope *s, float value);
MICA_API mica_array mica_i32(mica_scope *s, int32_t value);
MICA_API mica_array mica_scalar(mica_scope *s, double value, mica_dtype dtype);

/* ---- asking ---- */

/** False for MICA_NONE and for what a failed op returned. */
MICA_API bool mica_valid(mica_array x);
MICA_API mica_dtype mica_array_dtype(mica_array x);
MICA_API int mica_array_ndim(mica_array x);
/** The length of an axis, counted from the end where negative; 0 for no such axis. */
MICA_API int64_t mica_array_dim(mica_array x, int axis);
MICA_API const int64_t *mica_array_shape(mica_array x); /* [ndim], lives with the scope */
MICA_API int64_t mica_array_size(mica_array x);         /* number of elements */

/** Copies the elements of x in logical (row-major) order, whatever its strides; evaluates x first.
 *
 *  out     room for size * bytes an element.
 *  errors  MICA_EINVAL out_bytes is not exactly that, or x is MICA_NONE; those of mica_eval; of
 *          what a failed op returned, its scope's first error */
MICA_API mica_status mica_read(mica_array x, void *out, size_t out_bytes);

/** The value of a one-element array as a double or an int64; evaluates x first. */
MICA_API mica_status mica_item_f64(mica_array x, double *out);
MICA_API mica_status mica_item_i64(mica_array x, int64_t *out);

/** Iteration in logical order. Begin with a zeroed iterator and the array;
 *  `while (mica_next(x, &it)) use(it.value)`. Evaluates x at the first step.
 *  After the end, it.status tells whether it was reached without an error. */
typedef struct mica_iter {
    const void *value;             /* one element, dtype of the array */
    int64_t index;                 /* logical position of value, counted from 0 */
    mica_status status;            /* of the whole iteration */
    int64_t next;                  /* private */
    int64_t coords[MICA_MAX_NDIM]; /* private */
} mica_iter;
/** Steps to the next element; false after the last one and on an error. */
MICA_API bool mica_next(mica_array x, mica_iter *it);

MICA_END

#endif
