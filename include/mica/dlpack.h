/* Arrays as tensors of other programs, and these as arrays, by DLPack: without a copy.
 *
 * A tensor is a `struct DLManagedTensorVersioned` of version 1.0 or, of programs from before that,
 * a `struct DLManagedTensor`. Its deleter is called once by who took it.
 *
 * source  dmlc.github.io/dlpack, C API (v0.2, v1.0) */
#ifndef MICA_DLPACK_H
#define MICA_DLPACK_H

#include <mica/api.h>
#include <mica/array.h>
#include <mica/status.h>

#include <stdbool.h>

MICA_BEGIN

/** The memory of x as a tensor. Evaluates x first.
 *
 *  x          any strides.
 *  versioned  the tensor is of version 1.0: it says whether it is read-only. false: that of before
 *             cannot say so, and is never to be written to, either.
 *  writable   nothing else reads this memory, as of an array that was made for the receiver alone.
 *  tensor     receives it, owned by the caller; NULL after an error. It keeps the memory, not the
 *             scope of x. Its deleter takes no lock of the caller's and may be called by any
 *             thread, when the scope of x, and its device, are closed long since.
 *  errors     MICA_EUNSUPPORTED the host cannot see the device's memory; MICA_EINVAL tensor is
 *             NULL; those of mica_eval; MICA_ENOMEM */
MICA_API mica_status mica_array_to_dlpack(mica_array x, bool versioned, bool writable,
                                          void **tensor);

/** An array over a tensor of another program's. Its memory is not copied where the device reads the
 *  host's memory ("cpu") and an element is aligned; it must not change while it is used.
 *
 *  tensor     taken: its deleter is called once, when no array needs the memory any more; after an
 *             error before this returns.
 *  versioned  the tensor is of version 1.
 *  errors     MICA_EUNSUPPORTED the tensor is in the memory of a device, or of another version;
 *             MICA_EDTYPE mica has no dtype for its elements; MICA_EINVAL they are not in row-major
 *             order, or tensor is NULL; those of mica_from_host */
MICA_API mica_array mica_from_dlpack(mica_scope *s, void *tensor, bool versioned);

MICA_END

#endif
