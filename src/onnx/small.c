/* Types of eight bits and fewer that mica has no dtype for. Integers of two and four bits keep
 * their values, as i8 and u8. Floats are their codes, u8: tables of what codes stand for, made
 * while importing, decode and encode them. Few operators read such values: those that convert, and
 * those that move elements. */
#include "onnx/import.h"

#include <mica/ops.h>

#include <math.h>
#include <string.h>

/* What codes of floats have beside numbers. */
typedef enum special {
    NO_SPECIAL, /* all codes are numbers */
    IEEE,       /* infinities and NaNs have the largest exponent */
    ONE_NAN,    /* the largest code of either sign is NaN */
    MINUS_NAN   /* what would be -0 is NaN */
} special;

struct mc_onnx_small {
    const char *name;
    int64_t number; /* ONNX's */
    mica_dtype dtype;
    int bits, exponent, mantissa, bias; /* exponent 0: an integer */
    special special;
};

static const mc_onnx_small rows[] = {
    {"float8e4m3fn", 17, MICA_U8, 8, 4, 3, 7, ONE_NAN},
    {"float8e4m3fnuz", 18, MICA_U8, 8, 4, 3, 8, MINUS_NAN},
    {"float8e5m2", 19, MICA_U8, 8, 5, 2, 15, IEEE},
    {"float8e5m2fnuz", 20, MICA_U8, 8, 5, 2, 16, MINUS_NAN},
    {"uint4", 21, MICA_U8, 4, 0, 0, 0, NO_SPECIAL},
    {"int4", 22, MICA_I8, 4, 0, 0, 0, NO_SPECIAL},
    {"float4e2m1", 23, MICA_U8, 4, 2, 1, 1, NO_SPECIAL},
    {"float8e8m0", 24, MICA_U8, 8, 8, 0, 127, ONE_NAN},
    {"uint2", 25, MICA_U8, 2, 0, 0, 0, NO_SPECIAL},
    {"int2", 26, MICA_I8, 2, 0, 0, 0, NO_SPECIAL},
};

const mc_onnx_small *mc_onnx_small_of(int64_t number) {
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].number == number) return &rows[i];
    return NULL;
}

const char *mc_onnx_small_name(const mc_onnx_small *t) {
    return t->name;
}

mica_dtype mc_onnx_small_dtype(const mc_onnx_small *t) {
    return t->dtype;
}

bool mc_onnx_small_is_float(const mc_onnx_small *t) {
    return t->exponent > 0;
}

int mc_onnx_small_bits(const mc_onnx_small *t) {
    return t->bits;
}

void mc_onnx_small_range(const mc_onnx_small *t, double *lo, double *hi) {
    bool is_signed = t->dtype == MICA_I8;
    *lo = is_signed ? -ldexp(1, t->bits - 1) : 0;
    *hi = ldexp(1, is_signed ? t->bits - 1 : t->bits) - 1;
}

/* ---- files ---- */

size_t mc_onnx_small_bytes(const mc_onnx_small *t, size_t n) {
    size_t each = (size_t)(8 / t->bits);
    return n / each + (n % each != 0);
}

void mc_onnx_small_unpack(const mc_onnx_small *t, const uint8_t *data, size_t n, uint8_t *out) {
    size_t each = (size_t)(8 / t->bits);
    unsigned mask = (1u << t->bits) - 1, sign = t->dtype == MICA_I8 ? 1u << (t->bits - 1) : 0;
    for (size_t i = 0; i < n; i++) {
        unsigned code = (unsigned)data[i / each] >> (i % each * (size_t)t->bits) & mask;
        out[i] = (uint8_t)((code ^ sign) - sign);
    }
}

/* ---- what codes are ---- */

static bool has_sign(const mc_onnx_small *t) {
    return t->exponent + t->mantissa < t->bits;
}

/* The number that a code without a sign stands for; were it one, of those that are none. */
static double magnitude(const mc_onnx_small *t, int code) {
    int e = code >> t->mantissa, f = code & ((1 << t->mantissa) - 1);
    bool normal = e > 0 || t->mantissa == 0;
    return ldexp(f + (normal ? 1 << t->mantissa : 0), (normal ? e : 1) - t->bias - t->mantissa);
}

/* The code of the largest number. */
static int max_code(const mc_onnx_small *t) {
    int codes = 1 << (t->exponent + t->mantissa);
    if (t->special == IEEE) return codes - (1 << t->mantissa) - 1;
    return t->special == ONE_NAN ? codes - 2 : codes - 1;
}

/* Of a type without NaN: -0. */
static int nan_code(const mc_onnx_small *t) {
    bool ones = t->special == IEEE || t->special == ONE_NAN;
    return ones ? (1 << (t->exponent + t->mantissa)) - 1 : 1 << (t->bits - 1);
}

static float value_of(const mc_onnx_small *t, int code) {
    bool negative = has_sign(t) && code >> (t->bits - 1);
    int rest = has_sign(t) ? code & ((1 << (t->bits - 1)) - 1) : code;
    if (t->special == MINUS_NAN && code == nan_code(t)) return NAN;
    float value = (float)magnitude(t, rest);
    if (rest > max_code(t)) value = t->special == IEEE && rest == max_code(t) + 1 ? INFINITY : NAN;
    return negative ? -value : value;
}

mica_array mc_onnx_small_decode(mica_scope *s, const mc_onnx_small *t, mica_array x) {
    float values[256];
    int64_t codes = INT64_C(1) << t->bits;
    if (t->exponent == 0) return x;
    for (int i = 0; i < codes; i++)
        values[i] = value_of(t, i);
    return mica_take(s, mica_from_data(s, values, MICA_F32, &codes, 1), x, 0);
}

/* The least number that rounds to a code rather than to the one before: to the nearest, of two the
 * even code; or up, or down. */
static float threshold(const mc_onnx_small *t, int code, mc_onnx_rounding rounding) {
    double lo = magnitude(t, code - 1), hi = magnitude(t, code), middle = (lo + hi) / 2;
    if (rounding == MC_ONNX_UP) return nextafterf((float)lo, INFINITY);
    if (rounding == MC_ONNX_DOWN) return (float)hi;
    return code % 2 == 0 ? (float)middle : nextafterf((float)middle, INFINITY);
}

/* Codes of x f32. Numbers beyond the largest become that, or what the type has for them. */
static mica_array encode(mica_scope *s, const mc_onnx_small *t, mica_array x, bool saturate,
                         mc_onnx_rounding rounding) {
    float thresholds[256];
    int64_t n = max_code(t) + (saturate ? 0 : 1);
    for (int i = 0; i < n; i++)
        thresholds[i] = threshold(t, i + 1, rounding);
    mica_array table = mica_from_data(s, thresholds, MICA_F32, &n, 1), zero = mica_i32(s, 0);
    mica_array code = mica_searchsorted(s, table, mica_abs(s, x), true);
    code = mica_astype(s, code, MICA_I32);
    if (has_sign(t)) {
        mica_array negative = mica_less(s, mica_view(s, x, MICA_I32), zero); /* -0, too */
        if (t->special == MINUS_NAN)
            negative = mica_logical_and(s, negative, mica_greater(s, code, zero));
        mica_array sign = mica_i32(s, 1 << (t->bits - 1));
        code = mica_where(s, negative, mica_bitwise_or(s, code, sign), code);
    }
    code = mica_where(s, mica_isnan(s, x), mica_i32(s, nan_code(t)), code);
    return mica_astype(s, code, MICA_U8);
}

/* The low bits of integers. */
static mica_array wrap(mica_scope *s, const mc_onnx_small *t, mica_array x) {
    mica_array mask = mica_i32(s, (1 << t->bits) - 1), sign = mica_i32(s, 1 << (t->bits - 1));
    x = mica_bitwise_and(s, mica_astype(s, x, MICA_I32), mask);
    if (t->dtype == MICA_I8) x = mica_subtract(s, mica_bitwise_xor(s, x, sign), sign);
    return mica_astype(s, x, t->dtype);
}

mica_array mc_onnx_small_encode(mica_scope *s, const mc_onnx_small *t, mica_array x, bool saturate,
                                mc_onnx_rounding rounding) {
    if (t->exponent == 0) return wrap(s, t, x);
    saturate = saturate || t->special == NO_SPECIAL;
    return encode(s, t, mica_astype(s, x, MICA_F32), saturate, rounding);
}

/* ---- which operators read them ---- */

/* Operators of such operands: some read any, the others move the elements of the first. */
static const struct {
    const char *name;
    bool moves;
} readers[] = {
    {"Cast", false},           {"CastLike", false},
    {"QuantizeLinear", false}, {"DequantizeLinear", false},
    {"Identity", true},        {"Reshape", true},
    {"Transpose", true},       {"Squeeze", true},
    {"Unsqueeze", true},       {"Flatten", true},
    {"Slice", true},           {"Gather", true},
    {"Concat", true},          {"Split", true},
    {"Expand", true},          {"Tile", true},
    {"Shape", false},          {"Size", false},
};

mica_status mc_onnx_check_small(const mc_onnx_node *n, const mc_onnx_small **moved) {
    const mc_onnx_small *first = n->n_in > 0 ? n->in[0].small : NULL;
    bool any = false, same = true;
    *moved = NULL;
    for (size_t i = 0; i < n->n_in; i++) {
        any = any || n->in[i].small;
        same = same && (n->in[i].small == first || !n->in[i].x.scope);
    }
    if (!any) return MICA_OK;
    for (size_t i = 0; i < sizeof readers / sizeof readers[0]; i++) {
        if (strcmp(readers[i].name, n->proto->op_type) != 0) continue;
        bool joins = strcmp(n->proto->op_type, "Concat") == 0;
        if (readers[i].moves && joins && !same) break;
        if (readers[i].moves) *moved = first;
        return MICA_OK;
    }
    return mc_onnx_refuse("this operator of types of eight bits or fewer");
}
