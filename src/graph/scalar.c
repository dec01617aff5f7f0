/* Scalars: nodes whose value is bound when they run. */
#include <mica/array.h>

#include <string.h>

#include "base/half.h"
#include "base/integer.h"
#include "graph/graph.h"

/* False: the number is no length with symbols, or what C's operators left of one; the error is in
 * s. */
static bool check_number(mica_scope *s, double number) {
    const mc_symbol *symbols;
    if (!s || !mc_dims_live() || mc_scope_symbols(s, &symbols) == 0) return true;
    if (number == (double)MC_DIM_NONE)
        return mc_scope_set_status(s, mc_dim_check(MC_DIM_NONE)) == MICA_OK;
    if (!mc_dim_lost(number)) return true;
    mc_scope_fail(s, MICA_EINVAL,
                  "scalar: the length of a symbol was cut to %g: mica_scalar takes "
                  "it as it is, and mica_reciprocal gives its inverse",
                  number);
    return false;
}

mica_array mica_f32(mica_scope *s, float value) {
    if (!check_number(s, (double)value)) return mc_invalid(s);
    return mc_scalar_bits(s, MICA_F32, mc_f32_bits(value));
}

mica_array mica_i32(mica_scope *s, int32_t value) {
    if (!check_number(s, (double)value)) return mc_invalid(s);
    return mc_scalar_bits(s, MICA_I32, (uint32_t)value);
}

static uint64_t to_u64(double value) {
    if (!(value >= 0x1p63)) return (uint64_t)mc_to_i64(value);
    return value < 0x1p64 ? (uint64_t)value : UINT64_MAX;
}

mica_array mica_scalar(mica_scope *s, double value, mica_dtype dtype) {
    uint64_t bits;
    if (mica_dtype_bytes(dtype) == 0)
        return mc_scope_fail(s, MICA_EINVAL, "scalar: dtype %d is unknown", (int)dtype);
    if (s && mc_dim_of_real(value)) return mc_scalar_length(s, dtype, mc_dim_of_real(value));
    if (!check_number(s, value)) return mc_invalid(s);
    switch (dtype) {
    case MICA_BOOL:
        bits = value != 0;
        break;
    case MICA_F16:
        bits = mc_f32_to_f16((float)value);
        break;
    case MICA_BF16:
        bits = mc_f32_to_bf16((float)value);
        break;
    case MICA_C64: /* the imaginary part is 0 */
    case MICA_F32:
        bits = mc_f32_bits((float)value);
        break;
    case MICA_F64:
        memcpy(&bits, &value, sizeof bits);
        break;
    case MICA_U64:
        bits = to_u64(value);
        break;
    default:
        bits = (uint64_t)mc_to_i64(value);
        break; /* the low bytes count */
    }
    return mc_scalar_bits(s, dtype, bits);
}
