/* The bytes of arrays, for writers of files. */
#ifndef IO_ARRAYS_ARRAYS_H
#define IO_ARRAYS_ARRAYS_H

#include "base/status.h"

#include <mica/array.h>

#include <stddef.h>

/* Gives the bytes of an evaluated array in row-major order to a function: in place if the host can
 * read them, else as a copy. errors  those of mica_read and of the function */
mica_status mc_array_bytes(mica_array x,
                           mica_status (*use)(void *context, const void *data, size_t bytes),
                           void *context);

#endif
