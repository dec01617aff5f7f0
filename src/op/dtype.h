/* Questions about dtypes that builders share. */
#ifndef OP_DTYPE_H
#define OP_DTYPE_H

#include <mica/array.h>

/* The dtype if it is a float or complex, else f32. */
static inline mica_dtype mc_inexact(mica_dtype dtype) {
    return mica_dtype_is_float(dtype) || dtype == MICA_C64 ? dtype : MICA_F32;
}

#endif
