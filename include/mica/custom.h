/* Ops of an application: functions over values in the host's memory, as nodes of graphs.
 *
 * An op is registered once, by name, and stays for the process. Its nodes run on the CPU; on other
 * devices values are copied there and back. They are a part of programs and compiled functions. A
 * file of a program holds the op's name: the process that loads it must have registered the op,
 * too, else it is MICA_EUNSUPPORTED.
 *
 * What can be said in ops of mica/ops.h needs no op of its own: a C function that records them is
 * enough, with mica_custom_vjp (mica/grad.h) where its gradient is to be another one.
 *
 * Threads: ops may be registered from any thread. Their functions are called from any thread, also
 * several at once. */
#ifndef MICA_CUSTOM_H
#define MICA_CUSTOM_H

#include <mica/array.h>

MICA_BEGIN

/** The maximum number of numbers of a node of such an op. */
#define MICA_CUSTOM_NUMBERS 8
/** The maximum number of its operands. */
#define MICA_CUSTOM_OPERANDS 8

/** The dtype and shape of an array. */
typedef struct mica_shape {
    mica_dtype dtype;             /* of an element */
    int ndim;                     /* axes, MICA_MAX_NDIM at most */
    int64_t shape[MICA_MAX_NDIM]; /* [ndim] their lengths */
} mica_shape;

/** An op. Its functions may not record into other scopes than the one they are given, evaluate, or
 *  keep what they are given. They return MICA_OK, or the status that the caller gets with a text
 *  that names the op. */
typedef struct mica_custom_op {
    size_t struct_bytes; /* see mica/api.h */
    const char *name;    /* 1 to 63 bytes; copied */
    void *user;          /* given to all functions; borrowed for good */
    /** The shape rule: sets out from the operands' shapes in [n_in] and numbers. It must give the
     *  same each time. */
    mica_status (*infer)(void *user, const int64_t *numbers, int n_numbers, const mica_shape *in,
                         int n_in, mica_shape *out);
    /** Computes the result, in row-major order, from the operands' values data [n_in], likewise. */
    mica_status (*run)(void *user, const int64_t *numbers, int n_numbers, const mica_shape *in,
                       const void *const *data, int n_in, const mica_shape *out, void *result);
    /** Records gradients dx [n_in] of sum(y * dy) into s, of the operands' shapes, linear in dy;
     *  what it leaves as it is stands for zeros. NULL: the op has no gradient. */
    mica_status (*vjp)(void *user, mica_scope *s, const int64_t *numbers, int n_numbers,
                       const mica_array *in, int n_in, mica_array y, mica_array dy, mica_array *dx);
} mica_custom_op;

/** Registers an op. errors  MICA_EINVAL a function but vjp is NULL, or the name is empty, too long
 *  or taken; MICA_ENOMEM */
MICA_API mica_status mica_custom_register(const mica_custom_op *op);

/** A node of a registered op.
 *
 *  numbers  [n_numbers] that are part of the graph's structure. Copied.
 *  in       [n] arrays, one at least.
 *  errors   MICA_EINVAL there is no op of that name, or too many numbers or operands; what infer
 *           returns. Evaluating returns what run returns; gradients return what vjp does, or
 *           MICA_EUNSUPPORTED where it is NULL */
MICA_API mica_array mica_custom(mica_scope *s, const char *name, const int64_t *numbers,
                                int n_numbers, const mica_array *in, int n);

MICA_END

#endif
