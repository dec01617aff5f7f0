/* One element of an array from its bytes. */
#ifndef EXEC_ELEMENT_H
#define EXEC_ELEMENT_H

#include <mica/array.h>

#include <string.h>

#include "base/half.h"

/* Whether an element is a real number that is no integer. */
static inline bool mc_element_is_real(mica_dtype dtype) {
    return mica_dtype_is_float(dtype) || dtype == MICA_F64;
}

/* The value of a float's bits. */
static inline double mc_element_real(mica_dtype dtype, uint64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return dtype == MICA_F64   ? value
           : dtype == MICA_F32 ? mc_f32_from_bits((uint32_t)bits)
           : dtype == MICA_F16 ? mc_f16_to_f32((uint16_t)bits)
                               : mc_bf16_to_f32((uint16_t)bits);
}

/* The value of a signed integer's bits. */
static inline int64_t mc_element_signed(mica_dtype dtype, uint64_t bits) {
    unsigned unused = 64u - 8u * (unsigned)mica_dtype_bytes(dtype);
    return (int64_t)(bits << unused) >> unused;
}

#endif
