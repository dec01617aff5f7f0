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
 * An op's operands are borrowed. An operand of another scope of the same device must be evaluated
 * already (a model's weights, a session's caches). An op with a wrong operand returns an invalid
 * array, and its scope keeps the first error. All later ops of that scope return invalid arrays,
 * too. Evaluating or reading an invalid array returns the scope's first error.
 *
 * Which errors a scope keeps: those of calls that return an array, or a number, in the place of a
 * status (mica_move, mica_array_file_load, mica_program_dim), and of ops that return the status of
 * several results (mica_split, mica_quantize, mica_layer_norm_backward and its like). A call that
 * returns a status otherwise returns its error and leaves the scope without it: evaluating and
 * reading, running programs, executables and functions, control flow, gradients, losses, updates,
 * loading files. What was recorded before then stays usable. An error that is kept stays until the
 * scope is closed: each call that takes the scope returns it.
 *
 * Threads: a scope belongs to one thread at a time. While no thread adds to a scope, its evaluated
 * arrays may be operands in any number of threads. */
#ifndef MICA_ARRAY_H
#define MICA_ARRAY_H

#include <mica/api.h>
#include <mica/device.h>
#include <mica/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

MICA_BEGIN

/** The maximum number of axes of an array. */
#define MICA_MAX_NDIM 8

/** The types of an element. */
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
    MICA_F32,
    MICA_C64, /* a complex number of two f32, the real part first: mica/signal.h */
    MICA_F64  /* of files, inputs and results: it is read, written and moved, and converted by
                 mica_astype, by way of f32: large integers, and doubles beyond f32's digits or
                 range, lose some. Ops that compute refuse it: MICA_EDTYPE */
} mica_dtype;
/** The number of dtypes. */
#define MICA_DTYPE_COUNT 14

/** The owner of arrays. Closing a scope frees everything made in it. */
typedef struct mica_scope mica_scope;

/** A handle on a node of a scope: plain data, valid until its scope closes. A copy of it is the
 *  same array, and assigning another to it changes no array. A value never changes, so nothing
 *  copies one: mica_detach gives another scope a share in it. */
typedef struct mica_array {
    mica_scope *scope; /* NULL in MICA_NONE */
    uint32_t node;     /* index in the scope; in an invalid array the index of no node */
} mica_array;

/** The invalid array of no scope. It stands for an absent optional operand. A failed op returns
 *  another invalid array, which has a scope and is not taken for an absent operand. */
#ifdef __cplusplus
#define MICA_NONE (mica_array{nullptr, 0})
#else
#define MICA_NONE ((mica_array){NULL, 0})
#endif

/** The name ("f32", "bf16", "u8", ...), the bytes per element and the kind of a dtype. Of a number
 *  that is no dtype "?", 0 and false. */
MICA_API const char *mica_dtype_name(mica_dtype dtype);
MICA_API size_t mica_dtype_bytes(mica_dtype dtype);
/** f16, bf16 and f32, which the headers call "float". Neither c64 nor f64, of which most ops take
 *  none. */
MICA_API bool mica_dtype_is_float(mica_dtype dtype);
/** Signed integers, floats, c64 and f64. */
MICA_API bool mica_dtype_is_signed(mica_dtype dtype);

/** The dtype of an op over a and b, as in MLX: u32 with i32 gives i64, u64 with a signed integer
 *  gives f32, f16 with bf16 gives f32, any integer with a float gives that float, anything with c64
 *  gives c64, and anything else with f64 f64, which ops that compute refuse. */
MICA_API mica_dtype mica_dtype_promote(mica_dtype a, mica_dtype b);

/* ---- scopes ---- */

struct mica_cancel; /* mica/model.h */

/** Opens a scope on a device.
 *
 *  scope   receives the scope, owned by the caller; NULL after an error.
 *  errors  MICA_EINVAL, MICA_ENOMEM */
MICA_API mica_status mica_scope_open(mica_device *device, mica_scope **scope);

/** Frees everything made in *scope and sets *scope to NULL. Does nothing for NULL. Waits for an
 *  evaluation that still runs. */
MICA_API void mica_scope_close(mica_scope **scope);

/** The scope's first error; MICA_OK: there was none. */
MICA_API mica_status mica_scope_status(const mica_scope *scope);
MICA_API mica_device *mica_scope_device(const mica_scope *scope);

/** Forgets the scope's first error, for a binding that raises it where it occurs. What was recorded
 *  before is usable again, and more may be; invalid arrays stay invalid, as does what is computed
 *  from them. Does nothing for NULL. */
MICA_API void mica_scope_clear_error(mica_scope *scope);

/** Drops everything made in s but some arrays, so that a scope may live for any number of steps.
 *
 *  live    [n] arrays of s; they are evaluated, and receive their new handles. All other handles on
 *          arrays of s are void afterwards.
 *  errors  those of mica_eval; MICA_EINVAL a function (mica_compile_fn) records into s or into a
 *          scope within it; MICA_ENOMEM. Nothing is dropped then */
MICA_API mica_status mica_scope_collect(mica_scope *s, mica_array *live, size_t n);

/** Sets what ends evaluations in s, and runs of programs into it: they ask it where control flow
 *  begins another round (mica/control.h), and are MICA_ECANCELLED.
 *
 *  cancel  NULL: nothing. Evaluations that are under way (mica_eval_async) keep theirs. Borrowed
 *          until another is set and they are over (mica_wait), or s is closed. */
MICA_API void mica_scope_set_cancel(mica_scope *s, const struct mica_cancel *cancel);

/* ---- evaluation ---- */

/** Evaluates arrays of the scope: afterwards they hold data. Intermediate arrays keep no data
 *  unless they were evaluated by a call of their own.
 *
 *  errors  the scope's first error; MICA_ENOMEM; MICA_EDEVICE */
MICA_API mica_status mica_eval(mica_scope *s, mica_array x);
MICA_API mica_status mica_eval_n(mica_scope *s, const mica_array *xs, size_t n);

/** Starts an evaluation in the background and returns. mica_wait, any evaluation, any reading of
 *  data in the scope, and closing it wait for the end.
 *
 *  errors  those of mica_eval that are found before the start; mica_wait returns those of the
 *          run */
MICA_API mica_status mica_eval_async(mica_scope *s, const mica_array *xs, size_t n);
MICA_API mica_status mica_wait(mica_scope *s);

/** Evaluates x and moves its value to the scope `outer`, so that it outlives its own scope.
 *
 *  returns the array in outer; an invalid array of outer after an error, which outer keeps. x must
 *          not be used again. */
MICA_API mica_array mica_materialize(mica_scope *outer, mica_array x);

/** Moves x into s. The op that reads the moved array may overwrite it in place: a cache grows
 *  without a copy by this. Evaluates x if needed. An evaluation may overwrite the moved array
 *  unless that array is among those it evaluates; using an overwritten array is an error.
 *
 *  returns the array in s; an invalid array of s after an error, which s keeps. x must not be used
 *          again. */
MICA_API mica_array mica_move(mica_scope *s, mica_array x);

/** Frees the value of x at once, before its scope closes. x must not be used again: it is an error,
 *  as is computing what is still to be computed from it. Memory that others share, as views, moved
 *  and detached arrays and programs do, is freed with the last of them. Does nothing for an array
 *  that has no value yet, which takes no memory, for a parameter, and for an invalid one.
 *
 *  returns  the bytes of the device's memory that were freed: 0 for memory that is still shared, or
 *           the host's, as a mapped weight's. A device may keep them for reuse
 *           (mica_device_clear_cache).
 *  Threads: as adding to the scope of x. Waits for an evaluation in it that still runs. */
MICA_API size_t mica_array_release(mica_array x);

/** x as a constant of s: the same data without a history. Gradients stop here. Evaluates x. Errors
 *  as of mica_move; x may be used further. */
MICA_API mica_array mica_detach(mica_scope *s, mica_array x);

/** x on the device of s: the same data if it is there (mica_detach), else a copy through the host.
 *  Evaluates x. */
MICA_API mica_array mica_to_device(mica_scope *s, mica_array x);

/* ---- making ---- */

/** An array from values in row-major order, copied.
 *
 *  data    product(shape) elements of dtype. Borrowed.
 *  shape   [ndim], each >= 0, ndim <= MICA_MAX_NDIM; NULL if ndim is 0. Borrowed.
 *  errors  MICA_EINVAL negative or overflowing shape; MICA_ENOMEM */
MICA_API mica_array mica_from_data(mica_scope *s, const void *data, mica_dtype dtype,
                                   const int64_t *shape, int ndim);

/** Called with what was given beside it, when memory is not read any more; by any thread. */
typedef void (*mica_release)(void *user);

/** An array over the caller's memory, which is not copied where the device reads the host's memory
 *  ("cpu"); else it is copied at once.
 *
 *  data     product(shape) elements of dtype in row-major order, aligned to an element (c64: to
 *           half of one). It must not change until release is called.
 *  shape    [ndim] as of mica_from_data. Borrowed for the call.
 *  release  called once, when neither s nor any other array or program needs the memory: after an
 *           error before this returns. NULL: the memory outlives the device.
 *  user     given to release.
 *  errors   those of mica_from_data; MICA_EINVAL data is NULL where there are elements, or is not
 *           aligned */
MICA_API mica_array mica_from_host(mica_scope *s, const void *data, mica_dtype dtype,
                                   const int64_t *shape, int ndim, mica_release release,
                                   void *user);

/** A 0-dimensional array. Its value is not part of the graph's structure: graphs that differ only
 *  in scalars run the same compiled plan. */
MICA_API mica_array mica_f32(mica_scope *s, float value);
MICA_API mica_array mica_i32(mica_scope *s, int32_t value);
MICA_API mica_array mica_scalar(mica_scope *s, double value, mica_dtype dtype);

/* ---- functions ---- */

/** Records what a function computes: results from args, in s. It is called while something is
 *  recorded, not when it runs. What it takes from elsewhere becomes a part of what it records:
 *  evaluated arrays, and numbers that it computes itself.
 *
 *  args     [n_args] arrays of s; they may have no values.
 *  results  [n_results] receives arrays of s.
 *  returns  MICA_OK, or an error, which the caller of the recording function gets. */
typedef mica_status (*mica_compile_fn)(void *user, mica_scope *s, const mica_array *args,
                                       size_t n_args, mica_array *results, size_t n_results);

/* ---- asking ---- */

/** False for MICA_NONE and for the result of a failed op. */
MICA_API bool mica_valid(mica_array x);
/** What is known without evaluating. Of an invalid array: MICA_BOOL, 0 and NULL. */
MICA_API mica_dtype mica_array_dtype(mica_array x);
MICA_API int mica_array_ndim(mica_array x);
/** The length of an axis; a negative axis counts from the end. 0: there is no such axis. */
MICA_API int64_t mica_array_dim(mica_array x, int axis);
MICA_API const int64_t *mica_array_shape(mica_array x); /* [ndim], lives with the scope */
MICA_API int64_t mica_array_size(mica_array x);         /* number of elements */
MICA_API size_t mica_array_bytes(mica_array x);         /* of all elements, side by side */
/** Whether the elements of an evaluated array are side by side in row-major order, so that
 *  mica_array_host takes it. false: it is a view that is not, has no value yet, or is invalid.
 *  mica_contiguous gives one that is. */
MICA_API bool mica_array_is_contiguous(mica_array x);

/** Copies the elements of x in logical (row-major) order, whatever its strides. Evaluates x first.
 *
 *  out     room for all elements: mica_array_size * mica_dtype_bytes.
 *  errors  MICA_EINVAL out_bytes is not exactly that size, or x is MICA_NONE; those of mica_eval;
 *          the scope's first error, if x is the result of a failed op */
MICA_API mica_status mica_read(mica_array x, void *out, size_t out_bytes);

/** Where the host can read x in place, without a copy; evaluates x first.
 *
 *  pointer  receives its first element, the others behind it in row-major order; NULL after an
 *           error, and for an array without elements. Borrowed: valid while x is, and never to be
 *           written to.
 *  errors   MICA_EUNSUPPORTED the host cannot see the device's memory: use mica_read; MICA_EINVAL
 *           the elements are not in row-major order; those of mica_eval */
MICA_API mica_status mica_array_host(mica_array x, const void **pointer);

/** The value of a one-element array as a double or an int64. Evaluates x first. To int64 floats are
 *  rounded towards zero, NaN is 0, and what is beyond the range, of u64 too, becomes its end.
 *
 *  errors  MICA_ESHAPE x has not one element; MICA_EDTYPE x is c64: mica_real and mica_imag give
 *          its parts; MICA_EINVAL out is NULL; those of mica_read */
MICA_API mica_status mica_item_f64(mica_array x, double *out);
MICA_API mica_status mica_item_i64(mica_array x, int64_t *out);

/** Options of mica_array_text; zero means the default. */
typedef struct mica_text_options {
    size_t struct_bytes; /* see mica/api.h */
    int64_t edge;        /* elements shown at either end of an axis that is longer than both
                            together; 0: 3; -1: all elements are shown */
    int64_t digits;      /* significant ones of a float, 1 to 17; 0: 6 */
} mica_text_options;
/** Writes x as text, as MLX does, in logical order whatever its strides: "array([[1, 2.5, 3],\n
 *  [4, 5, 6]], dtype=f32)". Booleans are True and False, complex numbers 1+2j, and what is left out
 *  of a long axis is "...". Evaluates x first.
 *
 *  options  NULL for the defaults. Borrowed.
 *  buffer   receives the text, always NUL-terminated, and cut where it does not fit; may be NULL
 *           where bytes is 0.
 *  bytes    room in buffer, the NUL included.
 *  length   receives the whole text's length, without the NUL: below bytes if nothing was cut; 0
 *           after an error. May be NULL.
 *  errors   MICA_EINVAL an option out of its range; those of mica_read */
MICA_API mica_status mica_array_text(mica_array x, const mica_text_options *options, char *buffer,
                                     size_t bytes, size_t *length);

/** An iterator over an array in logical order. Zero begins:
 *  `mica_iter it = {0}; while (mica_next(x, &it)) use(it.value);`. The first step evaluates x.
 *  After the last step, it.status is MICA_OK or the error that ended the iteration. */
typedef struct mica_iter {
    const void *value;             /* one element, dtype of the array, until the next step */
    int64_t index;                 /* logical position of value, counted from 0 */
    mica_status status;            /* of the whole iteration */
    int64_t next;                  /* private */
    int64_t coords[MICA_MAX_NDIM]; /* private */
    uint64_t element;              /* private */
} mica_iter;
/** Steps to the next element; false after the last one and on an error. */
MICA_API bool mica_next(mica_array x, mica_iter *it);

MICA_END

#endif
