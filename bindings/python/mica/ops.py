"""Ops on arrays: mica/ops.h, mica/nn.h and mica/signal.h, one function each.

An op records a node in its scope and returns at once: that of the innermost `with mica.Scope()`,
else that of its first array. Numbers stand for arrays without axes. Each function's help is the
header's comment, in which s is the scope.

Made by tools/make_python_layouts.py: do not edit."""
from typing import Optional, Sequence

from ._array import Array, Operand, axes_of, begin, dtype_number, list_of, made, number_of, \
    numbers_of, order_of, shape_of


def zeros(shape: Sequence[int], dtype: str) -> Array:
    """Arrays filled with a value; shape [ndim]. errors MICA_EINVAL shape."""
    s = begin()
    return made(s, "mica_zeros", *shape_of(shape), dtype_number(dtype))


def ones(shape: Sequence[int], dtype: str) -> Array:
    """Arrays filled with a value; shape [ndim]. errors MICA_EINVAL shape."""
    s = begin()
    return made(s, "mica_ones", *shape_of(shape), dtype_number(dtype))


def full(shape: Sequence[int], value: Operand) -> Array:
    """Arrays filled with a value; shape [ndim]. errors MICA_EINVAL shape."""
    s = begin(value)
    return made(s, "mica_full", *shape_of(shape), number_of(s, value))


def arange(start: float, stop: float, step: float, dtype: str) -> Array:
    """start, start + step, ... below stop (above, where step < 0): [ceil((stop - start) /
    step)].
    errors  MICA_EINVAL step 0, or a result of 2^31 elements or more"""
    s = begin()
    return made(s, "mica_arange", start, stop, step, dtype_number(dtype))


def linspace(start: float, stop: float, n: int) -> Array:
    """n values from start to stop, both included: [n] f32."""
    s = begin()
    return made(s, "mica_linspace", start, stop, n)


def eye(rows: int, cols: int, k: int, dtype: str) -> Array:
    """[rows, cols] with ones on the diagonal column - row == k, else zeros."""
    s = begin()
    return made(s, "mica_eye", rows, cols, k, dtype_number(dtype))


def abs(x: Operand) -> Array:
    """One operand; the result has its shape. Dtype of the result: x's for abs, negative, square,
    sign,
    floor, ceil, round and bitwise_invert; bool for isnan, isinf, isfinite and logical_not;
    inexact
    for the others. f16 and bf16 are computed in f32 and rounded once. `round` is to nearest
    even.
    errors  MICA_EDTYPE negative of bool; invert of a float"""
    s = begin(x)
    return made(s, "mica_abs", number_of(s, x))


def negative(x: Operand) -> Array:
    """One operand; the result has its shape. Dtype of the result: x's for abs, negative, square,
    sign,
    floor, ceil, round and bitwise_invert; bool for isnan, isinf, isfinite and logical_not;
    inexact
    for the others. f16 and bf16 are computed in f32 and rounded once. `round` is to nearest
    even.
    errors  MICA_EDTYPE negative of bool; invert of a float"""
    s = begin(x)
    return made(s, "mica_negative", number_of(s, x))


def square(x: Operand) -> Array:
    """One operand; the result has its shape. Dtype of the result: x's for abs, negative, square,
    sign,
    floor, ceil, round and bitwise_invert; bool for isnan, isinf, isfinite and logical_not;
    inexact
    for the others. f16 and bf16 are computed in f32 and rounded once. `round` is to nearest
    even.
    errors  MICA_EDTYPE negative of bool; invert of a float"""
    s = begin(x)
    return made(s, "mica_square", number_of(s, x))


def sign(x: Operand) -> Array:
    """One operand; the result has its shape. Dtype of the result: x's for abs, negative, square,
    sign,
    floor, ceil, round and bitwise_invert; bool for isnan, isinf, isfinite and logical_not;
    inexact
    for the others. f16 and bf16 are computed in f32 and rounded once. `round` is to nearest
    even.
    errors  MICA_EDTYPE negative of bool; invert of a float"""
    s = begin(x)
    return made(s, "mica_sign", number_of(s, x))


def floor(x: Operand) -> Array:
    """One operand; the result has its shape. Dtype of the result: x's for abs, negative, square,
    sign,
    floor, ceil, round and bitwise_invert; bool for isnan, isinf, isfinite and logical_not;
    inexact
    for the others. f16 and bf16 are computed in f32 and rounded once. `round` is to nearest
    even.
    errors  MICA_EDTYPE negative of bool; invert of a float"""
    s = begin(x)
    return made(s, "mica_floor", number_of(s, x))


def ceil(x: Operand) -> Array:
    """One operand; the result has its shape. Dtype of the result: x's for abs, negative, square,
    sign,
    floor, ceil, round and bitwise_invert; bool for isnan, isinf, isfinite and logical_not;
    inexact
    for the others. f16 and bf16 are computed in f32 and rounded once. `round` is to nearest
    even.
    errors  MICA_EDTYPE negative of bool; invert of a float"""
    s = begin(x)
    return made(s, "mica_ceil", number_of(s, x))


def round(x: Operand) -> Array:
    """One operand; the result has its shape. Dtype of the result: x's for abs, negative, square,
    sign,
    floor, ceil, round and bitwise_invert; bool for isnan, isinf, isfinite and logical_not;
    inexact
    for the others. f16 and bf16 are computed in f32 and rounded once. `round` is to nearest
    even.
    errors  MICA_EDTYPE negative of bool; invert of a float"""
    s = begin(x)
    return made(s, "mica_round", number_of(s, x))


def exp(x: Operand) -> Array:
    """One operand; the result has its shape. Dtype of the result: x's for abs, negative, square,
    sign,
    floor, ceil, round and bitwise_invert; bool for isnan, isinf, isfinite and logical_not;
    inexact
    for the others. f16 and bf16 are computed in f32 and rounded once. `round` is to nearest
    even.
    errors  MICA_EDTYPE negative of bool; invert of a float"""
    s = begin(x)
    return made(s, "mica_exp", number_of(s, x))


def expm1(x: Operand) -> Array:
    """One operand; the result has its shape. Dtype of the result: x's for abs, negative, square,
    sign,
    floor, ceil, round and bitwise_invert; bool for isnan, isinf, isfinite and logical_not;
    inexact
    for the others. f16 and bf16 are computed in f32 and rounded once. `round` is to nearest
    even.
    errors  MICA_EDTYPE negative of bool; invert of a float"""
    s = begin(x)
    return made(s, "mica_expm1", number_of(s, x))


def log(x: Operand) -> Array:
    """One operand; the result has its shape. Dtype of the result: x's for abs, negative, square,
    sign,
    floor, ceil, round and bitwise_invert; bool for isnan, isinf, isfinite and logical_not;
    inexact
    for the others. f16 and bf16 are computed in f32 and rounded once. `round` is to nearest
    even.
    errors  MICA_EDTYPE negative of bool; invert of a float"""
    s = begin(x)
    return made(s, "mica_log", number_of(s, x))


def log2(x: Operand) -> Array:
    """One operand; the result has its shape. Dtype of the result: x's for abs, negative, square,
    sign,
    floor, ceil, round and bitwise_invert; bool for isnan, isinf, isfinite and logical_not;
    inexact
    for the others. f16 and bf16 are computed in f32 and rounded once. `round` is to nearest
    even.
    errors  MICA_EDTYPE negative of bool; invert of a float"""
    s = begin(x)
    return made(s, "mica_log2", number_of(s, x))


def log10(x: Operand) -> Array:
    """One operand; the result has its shape. Dtype of the result: x's for abs, negative, square,
    sign,
    floor, ceil, round and bitwise_invert; bool for isnan, isinf, isfinite and logical_not;
    inexact
    for the others. f16 and bf16 are computed in f32 and rounded once. `round` is to nearest
    even.
    errors  MICA_EDTYPE negative of bool; invert of a float"""
    s = begin(x)
    return made(s, "mica_log10", number_of(s, x))


def log1p(x: Operand) -> Array:
    """One operand; the result has its shape. Dtype of the result: x's for abs, negative, square,
    sign,
    floor, ceil, round and bitwise_invert; bool for isnan, isinf, isfinite and logical_not;
    inexact
    for the others. f16 and bf16 are computed in f32 and rounded once. `round` is to nearest
    even.
    errors  MICA_EDTYPE negative of bool; invert of a float"""
    s = begin(x)
    return made(s, "mica_log1p", number_of(s, x))


def sqrt(x: Operand) -> Array:
    """One operand; the result has its shape. Dtype of the result: x's for abs, negative, square,
    sign,
    floor, ceil, round and bitwise_invert; bool for isnan, isinf, isfinite and logical_not;
    inexact
    for the others. f16 and bf16 are computed in f32 and rounded once. `round` is to nearest
    even.
    errors  MICA_EDTYPE negative of bool; invert of a float"""
    s = begin(x)
    return made(s, "mica_sqrt", number_of(s, x))


def rsqrt(x: Operand) -> Array:
    """One operand; the result has its shape. Dtype of the result: x's for abs, negative, square,
    sign,
    floor, ceil, round and bitwise_invert; bool for isnan, isinf, isfinite and logical_not;
    inexact
    for the others. f16 and bf16 are computed in f32 and rounded once. `round` is to nearest
    even.
    errors  MICA_EDTYPE negative of bool; invert of a float"""
    s = begin(x)
    return made(s, "mica_rsqrt", number_of(s, x))


def reciprocal(x: Operand) -> Array:
    """One operand; the result has its shape. Dtype of the result: x's for abs, negative, square,
    sign,
    floor, ceil, round and bitwise_invert; bool for isnan, isinf, isfinite and logical_not;
    inexact
    for the others. f16 and bf16 are computed in f32 and rounded once. `round` is to nearest
    even.
    errors  MICA_EDTYPE negative of bool; invert of a float"""
    s = begin(x)
    return made(s, "mica_reciprocal", number_of(s, x))


def sin(x: Operand) -> Array:
    """One operand; the result has its shape. Dtype of the result: x's for abs, negative, square,
    sign,
    floor, ceil, round and bitwise_invert; bool for isnan, isinf, isfinite and logical_not;
    inexact
    for the others. f16 and bf16 are computed in f32 and rounded once. `round` is to nearest
    even.
    errors  MICA_EDTYPE negative of bool; invert of a float"""
    s = begin(x)
    return made(s, "mica_sin", number_of(s, x))


def cos(x: Operand) -> Array:
    """One operand; the result has its shape. Dtype of the result: x's for abs, negative, square,
    sign,
    floor, ceil, round and bitwise_invert; bool for isnan, isinf, isfinite and logical_not;
    inexact
    for the others. f16 and bf16 are computed in f32 and rounded once. `round` is to nearest
    even.
    errors  MICA_EDTYPE negative of bool; invert of a float"""
    s = begin(x)
    return made(s, "mica_cos", number_of(s, x))


def tan(x: Operand) -> Array:
    """One operand; the result has its shape. Dtype of the result: x's for abs, negative, square,
    sign,
    floor, ceil, round and bitwise_invert; bool for isnan, isinf, isfinite and logical_not;
    inexact
    for the others. f16 and bf16 are computed in f32 and rounded once. `round` is to nearest
    even.
    errors  MICA_EDTYPE negative of bool; invert of a float"""
    s = begin(x)
    return made(s, "mica_tan", number_of(s, x))


def sinh(x: Operand) -> Array:
    """One operand; the result has its shape. Dtype of the result: x's for abs, negative, square,
    sign,
    floor, ceil, round and bitwise_invert; bool for isnan, isinf, isfinite and logical_not;
    inexact
    for the others. f16 and bf16 are computed in f32 and rounded once. `round` is to nearest
    even.
    errors  MICA_EDTYPE negative of bool; invert of a float"""
    s = begin(x)
    return made(s, "mica_sinh", number_of(s, x))


def cosh(x: Operand) -> Array:
    """One operand; the result has its shape. Dtype of the result: x's for abs, negative, square,
    sign,
    floor, ceil, round and bitwise_invert; bool for isnan, isinf, isfinite and logical_not;
    inexact
    for the others. f16 and bf16 are computed in f32 and rounded once. `round` is to nearest
    even.
    errors  MICA_EDTYPE negative of bool; invert of a float"""
    s = begin(x)
    return made(s, "mica_cosh", number_of(s, x))


def tanh(x: Operand) -> Array:
    """One operand; the result has its shape. Dtype of the result: x's for abs, negative, square,
    sign,
    floor, ceil, round and bitwise_invert; bool for isnan, isinf, isfinite and logical_not;
    inexact
    for the others. f16 and bf16 are computed in f32 and rounded once. `round` is to nearest
    even.
    errors  MICA_EDTYPE negative of bool; invert of a float"""
    s = begin(x)
    return made(s, "mica_tanh", number_of(s, x))


def arcsin(x: Operand) -> Array:
    """One operand; the result has its shape. Dtype of the result: x's for abs, negative, square,
    sign,
    floor, ceil, round and bitwise_invert; bool for isnan, isinf, isfinite and logical_not;
    inexact
    for the others. f16 and bf16 are computed in f32 and rounded once. `round` is to nearest
    even.
    errors  MICA_EDTYPE negative of bool; invert of a float"""
    s = begin(x)
    return made(s, "mica_arcsin", number_of(s, x))


def arccos(x: Operand) -> Array:
    """One operand; the result has its shape. Dtype of the result: x's for abs, negative, square,
    sign,
    floor, ceil, round and bitwise_invert; bool for isnan, isinf, isfinite and logical_not;
    inexact
    for the others. f16 and bf16 are computed in f32 and rounded once. `round` is to nearest
    even.
    errors  MICA_EDTYPE negative of bool; invert of a float"""
    s = begin(x)
    return made(s, "mica_arccos", number_of(s, x))


def arctan(x: Operand) -> Array:
    """One operand; the result has its shape. Dtype of the result: x's for abs, negative, square,
    sign,
    floor, ceil, round and bitwise_invert; bool for isnan, isinf, isfinite and logical_not;
    inexact
    for the others. f16 and bf16 are computed in f32 and rounded once. `round` is to nearest
    even.
    errors  MICA_EDTYPE negative of bool; invert of a float"""
    s = begin(x)
    return made(s, "mica_arctan", number_of(s, x))


def arcsinh(x: Operand) -> Array:
    """One operand; the result has its shape. Dtype of the result: x's for abs, negative, square,
    sign,
    floor, ceil, round and bitwise_invert; bool for isnan, isinf, isfinite and logical_not;
    inexact
    for the others. f16 and bf16 are computed in f32 and rounded once. `round` is to nearest
    even.
    errors  MICA_EDTYPE negative of bool; invert of a float"""
    s = begin(x)
    return made(s, "mica_arcsinh", number_of(s, x))


def arccosh(x: Operand) -> Array:
    """One operand; the result has its shape. Dtype of the result: x's for abs, negative, square,
    sign,
    floor, ceil, round and bitwise_invert; bool for isnan, isinf, isfinite and logical_not;
    inexact
    for the others. f16 and bf16 are computed in f32 and rounded once. `round` is to nearest
    even.
    errors  MICA_EDTYPE negative of bool; invert of a float"""
    s = begin(x)
    return made(s, "mica_arccosh", number_of(s, x))


def arctanh(x: Operand) -> Array:
    """One operand; the result has its shape. Dtype of the result: x's for abs, negative, square,
    sign,
    floor, ceil, round and bitwise_invert; bool for isnan, isinf, isfinite and logical_not;
    inexact
    for the others. f16 and bf16 are computed in f32 and rounded once. `round` is to nearest
    even.
    errors  MICA_EDTYPE negative of bool; invert of a float"""
    s = begin(x)
    return made(s, "mica_arctanh", number_of(s, x))


def erf(x: Operand) -> Array:
    """One operand; the result has its shape. Dtype of the result: x's for abs, negative, square,
    sign,
    floor, ceil, round and bitwise_invert; bool for isnan, isinf, isfinite and logical_not;
    inexact
    for the others. f16 and bf16 are computed in f32 and rounded once. `round` is to nearest
    even.
    errors  MICA_EDTYPE negative of bool; invert of a float"""
    s = begin(x)
    return made(s, "mica_erf", number_of(s, x))


def erfinv(x: Operand) -> Array:
    """One operand; the result has its shape. Dtype of the result: x's for abs, negative, square,
    sign,
    floor, ceil, round and bitwise_invert; bool for isnan, isinf, isfinite and logical_not;
    inexact
    for the others. f16 and bf16 are computed in f32 and rounded once. `round` is to nearest
    even.
    errors  MICA_EDTYPE negative of bool; invert of a float"""
    s = begin(x)
    return made(s, "mica_erfinv", number_of(s, x))


def sigmoid(x: Operand) -> Array:
    """One operand; the result has its shape. Dtype of the result: x's for abs, negative, square,
    sign,
    floor, ceil, round and bitwise_invert; bool for isnan, isinf, isfinite and logical_not;
    inexact
    for the others. f16 and bf16 are computed in f32 and rounded once. `round` is to nearest
    even.
    errors  MICA_EDTYPE negative of bool; invert of a float"""
    s = begin(x)
    return made(s, "mica_sigmoid", number_of(s, x))


def isnan(x: Operand) -> Array:
    """One operand; the result has its shape. Dtype of the result: x's for abs, negative, square,
    sign,
    floor, ceil, round and bitwise_invert; bool for isnan, isinf, isfinite and logical_not;
    inexact
    for the others. f16 and bf16 are computed in f32 and rounded once. `round` is to nearest
    even.
    errors  MICA_EDTYPE negative of bool; invert of a float"""
    s = begin(x)
    return made(s, "mica_isnan", number_of(s, x))


def isinf(x: Operand) -> Array:
    """One operand; the result has its shape. Dtype of the result: x's for abs, negative, square,
    sign,
    floor, ceil, round and bitwise_invert; bool for isnan, isinf, isfinite and logical_not;
    inexact
    for the others. f16 and bf16 are computed in f32 and rounded once. `round` is to nearest
    even.
    errors  MICA_EDTYPE negative of bool; invert of a float"""
    s = begin(x)
    return made(s, "mica_isinf", number_of(s, x))


def isfinite(x: Operand) -> Array:
    """One operand; the result has its shape. Dtype of the result: x's for abs, negative, square,
    sign,
    floor, ceil, round and bitwise_invert; bool for isnan, isinf, isfinite and logical_not;
    inexact
    for the others. f16 and bf16 are computed in f32 and rounded once. `round` is to nearest
    even.
    errors  MICA_EDTYPE negative of bool; invert of a float"""
    s = begin(x)
    return made(s, "mica_isfinite", number_of(s, x))


def logical_not(x: Operand) -> Array:
    """One operand; the result has its shape. Dtype of the result: x's for abs, negative, square,
    sign,
    floor, ceil, round and bitwise_invert; bool for isnan, isinf, isfinite and logical_not;
    inexact
    for the others. f16 and bf16 are computed in f32 and rounded once. `round` is to nearest
    even.
    errors  MICA_EDTYPE negative of bool; invert of a float"""
    s = begin(x)
    return made(s, "mica_logical_not", number_of(s, x))


def bitwise_invert(x: Operand) -> Array:
    """One operand; the result has its shape. Dtype of the result: x's for abs, negative, square,
    sign,
    floor, ceil, round and bitwise_invert; bool for isnan, isinf, isfinite and logical_not;
    inexact
    for the others. f16 and bf16 are computed in f32 and rounded once. `round` is to nearest
    even.
    errors  MICA_EDTYPE negative of bool; invert of a float"""
    s = begin(x)
    return made(s, "mica_bitwise_invert", number_of(s, x))


def degrees(x: Operand) -> Array:
    """One operand; the result has its shape. Dtype of the result: x's for abs, negative, square,
    sign,
    floor, ceil, round and bitwise_invert; bool for isnan, isinf, isfinite and logical_not;
    inexact
    for the others. f16 and bf16 are computed in f32 and rounded once. `round` is to nearest
    even.
    errors  MICA_EDTYPE negative of bool; invert of a float"""
    s = begin(x)
    return made(s, "mica_degrees", number_of(s, x))


def radians(x: Operand) -> Array:
    """One operand; the result has its shape. Dtype of the result: x's for abs, negative, square,
    sign,
    floor, ceil, round and bitwise_invert; bool for isnan, isinf, isfinite and logical_not;
    inexact
    for the others. f16 and bf16 are computed in f32 and rounded once. `round` is to nearest
    even.
    errors  MICA_EDTYPE negative of bool; invert of a float"""
    s = begin(x)
    return made(s, "mica_radians", number_of(s, x))


def silu(x: Operand) -> Array:
    """Activations, inexact.
         silu         x * sigmoid(x)
         gelu         x * (1 + erf(x / sqrt 2)) / 2
         gelu_approx  x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) / 2
         relu         max(x, 0)
    source  Hendrycks & Gimpel 2016 (arXiv:1606.08415) for gelu"""
    s = begin(x)
    return made(s, "mica_silu", number_of(s, x))


def gelu(x: Operand) -> Array:
    """Activations, inexact.
         silu         x * sigmoid(x)
         gelu         x * (1 + erf(x / sqrt 2)) / 2
         gelu_approx  x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) / 2
         relu         max(x, 0)
    source  Hendrycks & Gimpel 2016 (arXiv:1606.08415) for gelu"""
    s = begin(x)
    return made(s, "mica_gelu", number_of(s, x))


def gelu_approx(x: Operand) -> Array:
    """Activations, inexact.
         silu         x * sigmoid(x)
         gelu         x * (1 + erf(x / sqrt 2)) / 2
         gelu_approx  x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) / 2
         relu         max(x, 0)
    source  Hendrycks & Gimpel 2016 (arXiv:1606.08415) for gelu"""
    s = begin(x)
    return made(s, "mica_gelu_approx", number_of(s, x))


def relu(x: Operand) -> Array:
    """Activations, inexact.
         silu         x * sigmoid(x)
         gelu         x * (1 + erf(x / sqrt 2)) / 2
         gelu_approx  x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) / 2
         relu         max(x, 0)
    source  Hendrycks & Gimpel 2016 (arXiv:1606.08415) for gelu"""
    s = begin(x)
    return made(s, "mica_relu", number_of(s, x))


def astype(x: Operand, dtype: str) -> Array:
    """x converted to a dtype: floats to integers are rounded towards zero and clamped to the
    range,
    NaN becomes 0; integers to integers keep their low bits; to bool is x != 0."""
    s = begin(x)
    return made(s, "mica_astype", number_of(s, x), dtype_number(dtype))


def view(x: Operand, dtype: str) -> Array:
    """The bytes of x read as another dtype. If the sizes differ, the last axis grows or shrinks.
    errors  MICA_ESHAPE the last axis does not divide"""
    s = begin(x)
    return made(s, "mica_view", number_of(s, x), dtype_number(dtype))


def to_fp8(x: Operand) -> Array:
    """Floats to the bits (u8) of E4M3 floats, rounded to nearest even and clamped to 448; and
    back to
    the given float dtype."""
    s = begin(x)
    return made(s, "mica_to_fp8", number_of(s, x))


def from_fp8(x: Operand, dtype: str) -> Array:
    """Floats to the bits (u8) of E4M3 floats, rounded to nearest even and clamped to 448; and
    back to
    the given float dtype."""
    s = begin(x)
    return made(s, "mica_from_fp8", number_of(s, x), dtype_number(dtype))


def to_q8(x: Operand) -> Array:
    """Quantises rows to int8: x [..., D] float to u8 [..., mica_q8_bytes(D)], x ~ code * scale.
    A row
    is D codes (i8), zeros up to a multiple of 4 bytes, a bf16 scale for every 32 codes, zeros
    up to
    a multiple of 4. A scale is the group's largest magnitude / 127, rounded up. Codes are
    rounded
    to nearest: an element is off by half a scale at most. A group with an infinity or a NaN
    becomes
    NaN, a group of magnitudes below 1e-34 becomes zeros.
    errors  MICA_EDTYPE x is not a float; MICA_ESHAPE x has no axis"""
    s = begin(x)
    return made(s, "mica_to_q8", number_of(s, x))


def from_q8(rows: Operand, length: int, dtype: str) -> Array:
    """Such rows back to [..., length] of a float dtype, exact in f32.
    errors  MICA_EDTYPE rows is not u8, or dtype not a float; MICA_ESHAPE the last axis is not
             mica_q8_bytes(length)"""
    s = begin(rows)
    return made(s, "mica_from_q8", number_of(s, rows), length, dtype_number(dtype))


def add(a: Operand, b: Operand) -> Array:
    """Two operands, broadcast against each other. Dtype of the result: inexact for divide,
    logaddexp
    and arctan2; bool for comparisons and logical_and/or; promoted for the others. Bit
    operations
    take integers and bool. floor_divide and remainder follow the sign of b (as Python). f16
    and
    bf16 are computed in f32. Integers wrap. An integer divided by 0 is 0 with the remainder
    a. A
    negative power of an integer is 0, except of 1 and -1. A shift by the width or more, or by
    less
    than 0, gives 0 (a right shift of a negative number: -1).
    errors  MICA_ESHAPE the shapes do not broadcast; MICA_EDTYPE"""
    s = begin(a, b)
    return made(s, "mica_add", number_of(s, a), number_of(s, b))


def subtract(a: Operand, b: Operand) -> Array:
    """Two operands, broadcast against each other. Dtype of the result: inexact for divide,
    logaddexp
    and arctan2; bool for comparisons and logical_and/or; promoted for the others. Bit
    operations
    take integers and bool. floor_divide and remainder follow the sign of b (as Python). f16
    and
    bf16 are computed in f32. Integers wrap. An integer divided by 0 is 0 with the remainder
    a. A
    negative power of an integer is 0, except of 1 and -1. A shift by the width or more, or by
    less
    than 0, gives 0 (a right shift of a negative number: -1).
    errors  MICA_ESHAPE the shapes do not broadcast; MICA_EDTYPE"""
    s = begin(a, b)
    return made(s, "mica_subtract", number_of(s, a), number_of(s, b))


def multiply(a: Operand, b: Operand) -> Array:
    """Two operands, broadcast against each other. Dtype of the result: inexact for divide,
    logaddexp
    and arctan2; bool for comparisons and logical_and/or; promoted for the others. Bit
    operations
    take integers and bool. floor_divide and remainder follow the sign of b (as Python). f16
    and
    bf16 are computed in f32. Integers wrap. An integer divided by 0 is 0 with the remainder
    a. A
    negative power of an integer is 0, except of 1 and -1. A shift by the width or more, or by
    less
    than 0, gives 0 (a right shift of a negative number: -1).
    errors  MICA_ESHAPE the shapes do not broadcast; MICA_EDTYPE"""
    s = begin(a, b)
    return made(s, "mica_multiply", number_of(s, a), number_of(s, b))


def divide(a: Operand, b: Operand) -> Array:
    """Two operands, broadcast against each other. Dtype of the result: inexact for divide,
    logaddexp
    and arctan2; bool for comparisons and logical_and/or; promoted for the others. Bit
    operations
    take integers and bool. floor_divide and remainder follow the sign of b (as Python). f16
    and
    bf16 are computed in f32. Integers wrap. An integer divided by 0 is 0 with the remainder
    a. A
    negative power of an integer is 0, except of 1 and -1. A shift by the width or more, or by
    less
    than 0, gives 0 (a right shift of a negative number: -1).
    errors  MICA_ESHAPE the shapes do not broadcast; MICA_EDTYPE"""
    s = begin(a, b)
    return made(s, "mica_divide", number_of(s, a), number_of(s, b))


def floor_divide(a: Operand, b: Operand) -> Array:
    """Two operands, broadcast against each other. Dtype of the result: inexact for divide,
    logaddexp
    and arctan2; bool for comparisons and logical_and/or; promoted for the others. Bit
    operations
    take integers and bool. floor_divide and remainder follow the sign of b (as Python). f16
    and
    bf16 are computed in f32. Integers wrap. An integer divided by 0 is 0 with the remainder
    a. A
    negative power of an integer is 0, except of 1 and -1. A shift by the width or more, or by
    less
    than 0, gives 0 (a right shift of a negative number: -1).
    errors  MICA_ESHAPE the shapes do not broadcast; MICA_EDTYPE"""
    s = begin(a, b)
    return made(s, "mica_floor_divide", number_of(s, a), number_of(s, b))


def remainder(a: Operand, b: Operand) -> Array:
    """Two operands, broadcast against each other. Dtype of the result: inexact for divide,
    logaddexp
    and arctan2; bool for comparisons and logical_and/or; promoted for the others. Bit
    operations
    take integers and bool. floor_divide and remainder follow the sign of b (as Python). f16
    and
    bf16 are computed in f32. Integers wrap. An integer divided by 0 is 0 with the remainder
    a. A
    negative power of an integer is 0, except of 1 and -1. A shift by the width or more, or by
    less
    than 0, gives 0 (a right shift of a negative number: -1).
    errors  MICA_ESHAPE the shapes do not broadcast; MICA_EDTYPE"""
    s = begin(a, b)
    return made(s, "mica_remainder", number_of(s, a), number_of(s, b))


def power(a: Operand, b: Operand) -> Array:
    """Two operands, broadcast against each other. Dtype of the result: inexact for divide,
    logaddexp
    and arctan2; bool for comparisons and logical_and/or; promoted for the others. Bit
    operations
    take integers and bool. floor_divide and remainder follow the sign of b (as Python). f16
    and
    bf16 are computed in f32. Integers wrap. An integer divided by 0 is 0 with the remainder
    a. A
    negative power of an integer is 0, except of 1 and -1. A shift by the width or more, or by
    less
    than 0, gives 0 (a right shift of a negative number: -1).
    errors  MICA_ESHAPE the shapes do not broadcast; MICA_EDTYPE"""
    s = begin(a, b)
    return made(s, "mica_power", number_of(s, a), number_of(s, b))


def maximum(a: Operand, b: Operand) -> Array:
    """Two operands, broadcast against each other. Dtype of the result: inexact for divide,
    logaddexp
    and arctan2; bool for comparisons and logical_and/or; promoted for the others. Bit
    operations
    take integers and bool. floor_divide and remainder follow the sign of b (as Python). f16
    and
    bf16 are computed in f32. Integers wrap. An integer divided by 0 is 0 with the remainder
    a. A
    negative power of an integer is 0, except of 1 and -1. A shift by the width or more, or by
    less
    than 0, gives 0 (a right shift of a negative number: -1).
    errors  MICA_ESHAPE the shapes do not broadcast; MICA_EDTYPE"""
    s = begin(a, b)
    return made(s, "mica_maximum", number_of(s, a), number_of(s, b))


def minimum(a: Operand, b: Operand) -> Array:
    """Two operands, broadcast against each other. Dtype of the result: inexact for divide,
    logaddexp
    and arctan2; bool for comparisons and logical_and/or; promoted for the others. Bit
    operations
    take integers and bool. floor_divide and remainder follow the sign of b (as Python). f16
    and
    bf16 are computed in f32. Integers wrap. An integer divided by 0 is 0 with the remainder
    a. A
    negative power of an integer is 0, except of 1 and -1. A shift by the width or more, or by
    less
    than 0, gives 0 (a right shift of a negative number: -1).
    errors  MICA_ESHAPE the shapes do not broadcast; MICA_EDTYPE"""
    s = begin(a, b)
    return made(s, "mica_minimum", number_of(s, a), number_of(s, b))


def logaddexp(a: Operand, b: Operand) -> Array:
    """Two operands, broadcast against each other. Dtype of the result: inexact for divide,
    logaddexp
    and arctan2; bool for comparisons and logical_and/or; promoted for the others. Bit
    operations
    take integers and bool. floor_divide and remainder follow the sign of b (as Python). f16
    and
    bf16 are computed in f32. Integers wrap. An integer divided by 0 is 0 with the remainder
    a. A
    negative power of an integer is 0, except of 1 and -1. A shift by the width or more, or by
    less
    than 0, gives 0 (a right shift of a negative number: -1).
    errors  MICA_ESHAPE the shapes do not broadcast; MICA_EDTYPE"""
    s = begin(a, b)
    return made(s, "mica_logaddexp", number_of(s, a), number_of(s, b))


def arctan2(a: Operand, b: Operand) -> Array:
    """Two operands, broadcast against each other. Dtype of the result: inexact for divide,
    logaddexp
    and arctan2; bool for comparisons and logical_and/or; promoted for the others. Bit
    operations
    take integers and bool. floor_divide and remainder follow the sign of b (as Python). f16
    and
    bf16 are computed in f32. Integers wrap. An integer divided by 0 is 0 with the remainder
    a. A
    negative power of an integer is 0, except of 1 and -1. A shift by the width or more, or by
    less
    than 0, gives 0 (a right shift of a negative number: -1).
    errors  MICA_ESHAPE the shapes do not broadcast; MICA_EDTYPE"""
    s = begin(a, b)
    return made(s, "mica_arctan2", number_of(s, a), number_of(s, b))


def equal(a: Operand, b: Operand) -> Array:
    """Two operands, broadcast against each other. Dtype of the result: inexact for divide,
    logaddexp
    and arctan2; bool for comparisons and logical_and/or; promoted for the others. Bit
    operations
    take integers and bool. floor_divide and remainder follow the sign of b (as Python). f16
    and
    bf16 are computed in f32. Integers wrap. An integer divided by 0 is 0 with the remainder
    a. A
    negative power of an integer is 0, except of 1 and -1. A shift by the width or more, or by
    less
    than 0, gives 0 (a right shift of a negative number: -1).
    errors  MICA_ESHAPE the shapes do not broadcast; MICA_EDTYPE"""
    s = begin(a, b)
    return made(s, "mica_equal", number_of(s, a), number_of(s, b))


def not_equal(a: Operand, b: Operand) -> Array:
    """Two operands, broadcast against each other. Dtype of the result: inexact for divide,
    logaddexp
    and arctan2; bool for comparisons and logical_and/or; promoted for the others. Bit
    operations
    take integers and bool. floor_divide and remainder follow the sign of b (as Python). f16
    and
    bf16 are computed in f32. Integers wrap. An integer divided by 0 is 0 with the remainder
    a. A
    negative power of an integer is 0, except of 1 and -1. A shift by the width or more, or by
    less
    than 0, gives 0 (a right shift of a negative number: -1).
    errors  MICA_ESHAPE the shapes do not broadcast; MICA_EDTYPE"""
    s = begin(a, b)
    return made(s, "mica_not_equal", number_of(s, a), number_of(s, b))


def less(a: Operand, b: Operand) -> Array:
    """Two operands, broadcast against each other. Dtype of the result: inexact for divide,
    logaddexp
    and arctan2; bool for comparisons and logical_and/or; promoted for the others. Bit
    operations
    take integers and bool. floor_divide and remainder follow the sign of b (as Python). f16
    and
    bf16 are computed in f32. Integers wrap. An integer divided by 0 is 0 with the remainder
    a. A
    negative power of an integer is 0, except of 1 and -1. A shift by the width or more, or by
    less
    than 0, gives 0 (a right shift of a negative number: -1).
    errors  MICA_ESHAPE the shapes do not broadcast; MICA_EDTYPE"""
    s = begin(a, b)
    return made(s, "mica_less", number_of(s, a), number_of(s, b))


def less_equal(a: Operand, b: Operand) -> Array:
    """Two operands, broadcast against each other. Dtype of the result: inexact for divide,
    logaddexp
    and arctan2; bool for comparisons and logical_and/or; promoted for the others. Bit
    operations
    take integers and bool. floor_divide and remainder follow the sign of b (as Python). f16
    and
    bf16 are computed in f32. Integers wrap. An integer divided by 0 is 0 with the remainder
    a. A
    negative power of an integer is 0, except of 1 and -1. A shift by the width or more, or by
    less
    than 0, gives 0 (a right shift of a negative number: -1).
    errors  MICA_ESHAPE the shapes do not broadcast; MICA_EDTYPE"""
    s = begin(a, b)
    return made(s, "mica_less_equal", number_of(s, a), number_of(s, b))


def greater(a: Operand, b: Operand) -> Array:
    """Two operands, broadcast against each other. Dtype of the result: inexact for divide,
    logaddexp
    and arctan2; bool for comparisons and logical_and/or; promoted for the others. Bit
    operations
    take integers and bool. floor_divide and remainder follow the sign of b (as Python). f16
    and
    bf16 are computed in f32. Integers wrap. An integer divided by 0 is 0 with the remainder
    a. A
    negative power of an integer is 0, except of 1 and -1. A shift by the width or more, or by
    less
    than 0, gives 0 (a right shift of a negative number: -1).
    errors  MICA_ESHAPE the shapes do not broadcast; MICA_EDTYPE"""
    s = begin(a, b)
    return made(s, "mica_greater", number_of(s, a), number_of(s, b))


def greater_equal(a: Operand, b: Operand) -> Array:
    """Two operands, broadcast against each other. Dtype of the result: inexact for divide,
    logaddexp
    and arctan2; bool for comparisons and logical_and/or; promoted for the others. Bit
    operations
    take integers and bool. floor_divide and remainder follow the sign of b (as Python). f16
    and
    bf16 are computed in f32. Integers wrap. An integer divided by 0 is 0 with the remainder
    a. A
    negative power of an integer is 0, except of 1 and -1. A shift by the width or more, or by
    less
    than 0, gives 0 (a right shift of a negative number: -1).
    errors  MICA_ESHAPE the shapes do not broadcast; MICA_EDTYPE"""
    s = begin(a, b)
    return made(s, "mica_greater_equal", number_of(s, a), number_of(s, b))


def logical_and(a: Operand, b: Operand) -> Array:
    """Two operands, broadcast against each other. Dtype of the result: inexact for divide,
    logaddexp
    and arctan2; bool for comparisons and logical_and/or; promoted for the others. Bit
    operations
    take integers and bool. floor_divide and remainder follow the sign of b (as Python). f16
    and
    bf16 are computed in f32. Integers wrap. An integer divided by 0 is 0 with the remainder
    a. A
    negative power of an integer is 0, except of 1 and -1. A shift by the width or more, or by
    less
    than 0, gives 0 (a right shift of a negative number: -1).
    errors  MICA_ESHAPE the shapes do not broadcast; MICA_EDTYPE"""
    s = begin(a, b)
    return made(s, "mica_logical_and", number_of(s, a), number_of(s, b))


def logical_or(a: Operand, b: Operand) -> Array:
    """Two operands, broadcast against each other. Dtype of the result: inexact for divide,
    logaddexp
    and arctan2; bool for comparisons and logical_and/or; promoted for the others. Bit
    operations
    take integers and bool. floor_divide and remainder follow the sign of b (as Python). f16
    and
    bf16 are computed in f32. Integers wrap. An integer divided by 0 is 0 with the remainder
    a. A
    negative power of an integer is 0, except of 1 and -1. A shift by the width or more, or by
    less
    than 0, gives 0 (a right shift of a negative number: -1).
    errors  MICA_ESHAPE the shapes do not broadcast; MICA_EDTYPE"""
    s = begin(a, b)
    return made(s, "mica_logical_or", number_of(s, a), number_of(s, b))


def bitwise_and(a: Operand, b: Operand) -> Array:
    """Two operands, broadcast against each other. Dtype of the result: inexact for divide,
    logaddexp
    and arctan2; bool for comparisons and logical_and/or; promoted for the others. Bit
    operations
    take integers and bool. floor_divide and remainder follow the sign of b (as Python). f16
    and
    bf16 are computed in f32. Integers wrap. An integer divided by 0 is 0 with the remainder
    a. A
    negative power of an integer is 0, except of 1 and -1. A shift by the width or more, or by
    less
    than 0, gives 0 (a right shift of a negative number: -1).
    errors  MICA_ESHAPE the shapes do not broadcast; MICA_EDTYPE"""
    s = begin(a, b)
    return made(s, "mica_bitwise_and", number_of(s, a), number_of(s, b))


def bitwise_or(a: Operand, b: Operand) -> Array:
    """Two operands, broadcast against each other. Dtype of the result: inexact for divide,
    logaddexp
    and arctan2; bool for comparisons and logical_and/or; promoted for the others. Bit
    operations
    take integers and bool. floor_divide and remainder follow the sign of b (as Python). f16
    and
    bf16 are computed in f32. Integers wrap. An integer divided by 0 is 0 with the remainder
    a. A
    negative power of an integer is 0, except of 1 and -1. A shift by the width or more, or by
    less
    than 0, gives 0 (a right shift of a negative number: -1).
    errors  MICA_ESHAPE the shapes do not broadcast; MICA_EDTYPE"""
    s = begin(a, b)
    return made(s, "mica_bitwise_or", number_of(s, a), number_of(s, b))


def bitwise_xor(a: Operand, b: Operand) -> Array:
    """Two operands, broadcast against each other. Dtype of the result: inexact for divide,
    logaddexp
    and arctan2; bool for comparisons and logical_and/or; promoted for the others. Bit
    operations
    take integers and bool. floor_divide and remainder follow the sign of b (as Python). f16
    and
    bf16 are computed in f32. Integers wrap. An integer divided by 0 is 0 with the remainder
    a. A
    negative power of an integer is 0, except of 1 and -1. A shift by the width or more, or by
    less
    than 0, gives 0 (a right shift of a negative number: -1).
    errors  MICA_ESHAPE the shapes do not broadcast; MICA_EDTYPE"""
    s = begin(a, b)
    return made(s, "mica_bitwise_xor", number_of(s, a), number_of(s, b))


def left_shift(a: Operand, b: Operand) -> Array:
    """Two operands, broadcast against each other. Dtype of the result: inexact for divide,
    logaddexp
    and arctan2; bool for comparisons and logical_and/or; promoted for the others. Bit
    operations
    take integers and bool. floor_divide and remainder follow the sign of b (as Python). f16
    and
    bf16 are computed in f32. Integers wrap. An integer divided by 0 is 0 with the remainder
    a. A
    negative power of an integer is 0, except of 1 and -1. A shift by the width or more, or by
    less
    than 0, gives 0 (a right shift of a negative number: -1).
    errors  MICA_ESHAPE the shapes do not broadcast; MICA_EDTYPE"""
    s = begin(a, b)
    return made(s, "mica_left_shift", number_of(s, a), number_of(s, b))


def right_shift(a: Operand, b: Operand) -> Array:
    """Two operands, broadcast against each other. Dtype of the result: inexact for divide,
    logaddexp
    and arctan2; bool for comparisons and logical_and/or; promoted for the others. Bit
    operations
    take integers and bool. floor_divide and remainder follow the sign of b (as Python). f16
    and
    bf16 are computed in f32. Integers wrap. An integer divided by 0 is 0 with the remainder
    a. A
    negative power of an integer is 0, except of 1 and -1. A shift by the width or more, or by
    less
    than 0, gives 0 (a right shift of a negative number: -1).
    errors  MICA_ESHAPE the shapes do not broadcast; MICA_EDTYPE"""
    s = begin(a, b)
    return made(s, "mica_right_shift", number_of(s, a), number_of(s, b))


def where(condition: Operand, a: Operand, b: Operand) -> Array:
    """condition ? a : b, all three broadcast; a and b promoted."""
    s = begin(condition, a, b)
    return made(s, "mica_where", number_of(s, condition), number_of(s, a), number_of(s, b))


def clip(x: Operand, lo: Operand, hi: Operand) -> Array:
    """min(max(x, lo), hi); lo or hi may be MICA_NONE."""
    s = begin(x, lo, hi)
    return made(s, "mica_clip", number_of(s, x), number_of(s, lo), number_of(s, hi))


def sum(x: Operand, axes: Optional[Sequence[int]] = None, keepdims: bool = False) -> Array:
    """Reductions over the axes listed ([n_axes]; none: all axes). keepdims leaves them with
    length 1.
    Dtype of the result: sum and prod widen bool and small integers to i32 (u32); mean, var,
    std and
    logsumexp are inexact, computed in f32; all and any are bool; max and min keep x's. NaN
    wins in
    max and min. The divisor of var and std is n - ddof.
    errors  MICA_EINVAL an axis is out of range or given twice; max, min, argmax of no
    elements"""
    s = begin(x)
    return made(s, "mica_sum", number_of(s, x), *axes_of(axes), keepdims)


def prod(x: Operand, axes: Optional[Sequence[int]] = None, keepdims: bool = False) -> Array:
    """Reductions over the axes listed ([n_axes]; none: all axes). keepdims leaves them with
    length 1.
    Dtype of the result: sum and prod widen bool and small integers to i32 (u32); mean, var,
    std and
    logsumexp are inexact, computed in f32; all and any are bool; max and min keep x's. NaN
    wins in
    max and min. The divisor of var and std is n - ddof.
    errors  MICA_EINVAL an axis is out of range or given twice; max, min, argmax of no
    elements"""
    s = begin(x)
    return made(s, "mica_prod", number_of(s, x), *axes_of(axes), keepdims)


def max(x: Operand, axes: Optional[Sequence[int]] = None, keepdims: bool = False) -> Array:
    """Reductions over the axes listed ([n_axes]; none: all axes). keepdims leaves them with
    length 1.
    Dtype of the result: sum and prod widen bool and small integers to i32 (u32); mean, var,
    std and
    logsumexp are inexact, computed in f32; all and any are bool; max and min keep x's. NaN
    wins in
    max and min. The divisor of var and std is n - ddof.
    errors  MICA_EINVAL an axis is out of range or given twice; max, min, argmax of no
    elements"""
    s = begin(x)
    return made(s, "mica_max", number_of(s, x), *axes_of(axes), keepdims)


def min(x: Operand, axes: Optional[Sequence[int]] = None, keepdims: bool = False) -> Array:
    """Reductions over the axes listed ([n_axes]; none: all axes). keepdims leaves them with
    length 1.
    Dtype of the result: sum and prod widen bool and small integers to i32 (u32); mean, var,
    std and
    logsumexp are inexact, computed in f32; all and any are bool; max and min keep x's. NaN
    wins in
    max and min. The divisor of var and std is n - ddof.
    errors  MICA_EINVAL an axis is out of range or given twice; max, min, argmax of no
    elements"""
    s = begin(x)
    return made(s, "mica_min", number_of(s, x), *axes_of(axes), keepdims)


def all(x: Operand, axes: Optional[Sequence[int]] = None, keepdims: bool = False) -> Array:
    """Reductions over the axes listed ([n_axes]; none: all axes). keepdims leaves them with
    length 1.
    Dtype of the result: sum and prod widen bool and small integers to i32 (u32); mean, var,
    std and
    logsumexp are inexact, computed in f32; all and any are bool; max and min keep x's. NaN
    wins in
    max and min. The divisor of var and std is n - ddof.
    errors  MICA_EINVAL an axis is out of range or given twice; max, min, argmax of no
    elements"""
    s = begin(x)
    return made(s, "mica_all", number_of(s, x), *axes_of(axes), keepdims)


def any(x: Operand, axes: Optional[Sequence[int]] = None, keepdims: bool = False) -> Array:
    """Reductions over the axes listed ([n_axes]; none: all axes). keepdims leaves them with
    length 1.
    Dtype of the result: sum and prod widen bool and small integers to i32 (u32); mean, var,
    std and
    logsumexp are inexact, computed in f32; all and any are bool; max and min keep x's. NaN
    wins in
    max and min. The divisor of var and std is n - ddof.
    errors  MICA_EINVAL an axis is out of range or given twice; max, min, argmax of no
    elements"""
    s = begin(x)
    return made(s, "mica_any", number_of(s, x), *axes_of(axes), keepdims)


def mean(x: Operand, axes: Optional[Sequence[int]] = None, keepdims: bool = False) -> Array:
    """Reductions over the axes listed ([n_axes]; none: all axes). keepdims leaves them with
    length 1.
    Dtype of the result: sum and prod widen bool and small integers to i32 (u32); mean, var,
    std and
    logsumexp are inexact, computed in f32; all and any are bool; max and min keep x's. NaN
    wins in
    max and min. The divisor of var and std is n - ddof.
    errors  MICA_EINVAL an axis is out of range or given twice; max, min, argmax of no
    elements"""
    s = begin(x)
    return made(s, "mica_mean", number_of(s, x), *axes_of(axes), keepdims)


def var(x: Operand, axes: Optional[Sequence[int]], keepdims: bool, ddof: int) -> Array:
    """Reductions over the axes listed ([n_axes]; none: all axes). keepdims leaves them with
    length 1.
    Dtype of the result: sum and prod widen bool and small integers to i32 (u32); mean, var,
    std and
    logsumexp are inexact, computed in f32; all and any are bool; max and min keep x's. NaN
    wins in
    max and min. The divisor of var and std is n - ddof.
    errors  MICA_EINVAL an axis is out of range or given twice; max, min, argmax of no
    elements"""
    s = begin(x)
    return made(s, "mica_var", number_of(s, x), *axes_of(axes), keepdims, ddof)


def std(x: Operand, axes: Optional[Sequence[int]], keepdims: bool, ddof: int) -> Array:
    """Reductions over the axes listed ([n_axes]; none: all axes). keepdims leaves them with
    length 1.
    Dtype of the result: sum and prod widen bool and small integers to i32 (u32); mean, var,
    std and
    logsumexp are inexact, computed in f32; all and any are bool; max and min keep x's. NaN
    wins in
    max and min. The divisor of var and std is n - ddof.
    errors  MICA_EINVAL an axis is out of range or given twice; max, min, argmax of no
    elements"""
    s = begin(x)
    return made(s, "mica_std", number_of(s, x), *axes_of(axes), keepdims, ddof)


def logsumexp(x: Operand, axes: Optional[Sequence[int]] = None, keepdims: bool = False) -> Array:
    """Reductions over the axes listed ([n_axes]; none: all axes). keepdims leaves them with
    length 1.
    Dtype of the result: sum and prod widen bool and small integers to i32 (u32); mean, var,
    std and
    logsumexp are inexact, computed in f32; all and any are bool; max and min keep x's. NaN
    wins in
    max and min. The divisor of var and std is n - ddof.
    errors  MICA_EINVAL an axis is out of range or given twice; max, min, argmax of no
    elements"""
    s = begin(x)
    return made(s, "mica_logsumexp", number_of(s, x), *axes_of(axes), keepdims)


def argmax(x: Operand, axis: int, keepdims: bool = False) -> Array:
    """Index (u32) of the largest, smallest value along an axis; of equals the first. NaN is
    never
    chosen; the index is 0 if all values are NaN."""
    s = begin(x)
    return made(s, "mica_argmax", number_of(s, x), axis, keepdims)


def argmin(x: Operand, axis: int, keepdims: bool = False) -> Array:
    """Index (u32) of the largest, smallest value along an axis; of equals the first. NaN is
    never
    chosen; the index is 0 if all values are NaN."""
    s = begin(x)
    return made(s, "mica_argmin", number_of(s, x), axis, keepdims)


def cumsum(x: Operand, axis: int, reverse: bool = False, inclusive: bool = False) -> Array:
    """Running sum, product, maximum, minimum, logsumexp along an axis. reverse: from the end.
    inclusive: y[i] contains x[i]; otherwise y starts with the neutral element."""
    s = begin(x)
    return made(s, "mica_cumsum", number_of(s, x), axis, reverse, inclusive)


def cumprod(x: Operand, axis: int, reverse: bool = False, inclusive: bool = False) -> Array:
    """Running sum, product, maximum, minimum, logsumexp along an axis. reverse: from the end.
    inclusive: y[i] contains x[i]; otherwise y starts with the neutral element."""
    s = begin(x)
    return made(s, "mica_cumprod", number_of(s, x), axis, reverse, inclusive)


def cummax(x: Operand, axis: int, reverse: bool = False, inclusive: bool = False) -> Array:
    """Running sum, product, maximum, minimum, logsumexp along an axis. reverse: from the end.
    inclusive: y[i] contains x[i]; otherwise y starts with the neutral element."""
    s = begin(x)
    return made(s, "mica_cummax", number_of(s, x), axis, reverse, inclusive)


def cummin(x: Operand, axis: int, reverse: bool = False, inclusive: bool = False) -> Array:
    """Running sum, product, maximum, minimum, logsumexp along an axis. reverse: from the end.
    inclusive: y[i] contains x[i]; otherwise y starts with the neutral element."""
    s = begin(x)
    return made(s, "mica_cummin", number_of(s, x), axis, reverse, inclusive)


def logcumsumexp(x: Operand, axis: int, reverse: bool = False, inclusive: bool = False) -> Array:
    """Running sum, product, maximum, minimum, logsumexp along an axis. reverse: from the end.
    inclusive: y[i] contains x[i]; otherwise y starts with the neutral element."""
    s = begin(x)
    return made(s, "mica_logcumsumexp", number_of(s, x), axis, reverse, inclusive)


def sort(x: Operand, axis: int) -> Array:
    """x sorted ascending along an axis, NaN last; the indices (u32) that sort x, stable."""
    s = begin(x)
    return made(s, "mica_sort", number_of(s, x), axis)


def argsort(x: Operand, axis: int) -> Array:
    """x sorted ascending along an axis, NaN last; the indices (u32) that sort x, stable."""
    s = begin(x)
    return made(s, "mica_argsort", number_of(s, x), axis)


def partition(x: Operand, kth: int, axis: int) -> Array:
    """x with its kth smallest element at index k and smaller ones before it (the result is
    sorted
    completely); the indices of that order."""
    s = begin(x)
    return made(s, "mica_partition", number_of(s, x), kth, axis)


def argpartition(x: Operand, kth: int, axis: int) -> Array:
    """x with its kth smallest element at index k and smaller ones before it (the result is
    sorted
    completely); the indices of that order."""
    s = begin(x)
    return made(s, "mica_argpartition", number_of(s, x), kth, axis)


def topk(x: Operand, k: int, axis: int) -> Array:
    """The k largest values along an axis, ascending. errors MICA_EINVAL k < 1 or > length"""
    s = begin(x)
    return made(s, "mica_topk", number_of(s, x), k, axis)


def softmax(x: Operand, axis: int) -> Array:
    """exp(x - max) / sum along an axis; inexact, computed in f32."""
    s = begin(x)
    return made(s, "mica_softmax", number_of(s, x), axis)


def softmax_axes(x: Operand, axes: Optional[Sequence[int]] = None) -> Array:
    """The same over several axes together ([n_axes]; none: all). errors as of the reductions"""
    s = begin(x)
    return made(s, "mica_softmax_axes", number_of(s, x), *axes_of(axes))


def median(x: Operand, axes: Optional[Sequence[int]] = None, keepdims: bool = False) -> Array:
    """The middle of the sorted elements over the axes listed, of an even number the mean of the
    two in
    the middle; NaN if there is one. Axes, keepdims and errors as the reductions; inexact."""
    s = begin(x)
    return made(s, "mica_median", number_of(s, x), *axes_of(axes), keepdims)


def searchsorted(x: Operand, values: Operand, right: bool = False) -> Array:
    """Where values belong in a sorted array, NaN last, so that it stays sorted.

    x        [N], ascending. If it is not, the result is some number of 0 .. N.
    values   any shape; both are compared in the promoted dtype.
    returns  u32, the shape of values: how many elements are below the value (right: not above
    it).
    errors   MICA_ESHAPE x has not one axis
    source   numpy.searchsorted."""
    s = begin(x, values)
    return made(s, "mica_searchsorted", number_of(s, x), number_of(s, values), right)


def reshape(x: Operand, shape: Sequence[int]) -> Array:
    """Same elements in logical order under another shape; one length may be -1.
    errors  MICA_ESHAPE the numbers of elements differ; MICA_EINVAL a length below -1, or two
    of
             -1"""
    s = begin(x)
    return made(s, "mica_reshape", number_of(s, x), *shape_of(shape))


def flatten(x: Operand, start_axis: int, end_axis: int) -> Array:
    """Axes start_axis to end_axis, both included, as one. Of a number: [1].
    errors  MICA_EINVAL there is no such axis, or start_axis is after end_axis"""
    s = begin(x)
    return made(s, "mica_flatten", number_of(s, x), start_axis, end_axis)


def unflatten(x: Operand, axis: int, shape: Sequence[int]) -> Array:
    """An axis as several: shape [ndim] in its place, of which one length may be -1.
    errors  MICA_ESHAPE their product is not the axis' length; MICA_EINVAL there is no such
    axis, a
             length below -1, two of -1, or more than MICA_MAX_NDIM axes in all"""
    s = begin(x)
    return made(s, "mica_unflatten", number_of(s, x), axis, *shape_of(shape))


def squeeze(x: Operand, axis: int) -> Array:
    """Removes, adds an axis of length 1.
    errors  MICA_EINVAL there is no such axis; MICA_ESHAPE squeeze of an axis of another
    length"""
    s = begin(x)
    return made(s, "mica_squeeze", number_of(s, x), axis)


def expand_dims(x: Operand, axis: int) -> Array:
    """Removes, adds an axis of length 1.
    errors  MICA_EINVAL there is no such axis; MICA_ESHAPE squeeze of an axis of another
    length"""
    s = begin(x)
    return made(s, "mica_expand_dims", number_of(s, x), axis)


def transpose(x: Operand, axes: Optional[Sequence[int]] = None) -> Array:
    """Axes in another order; axes NULL reverses them."""
    s = begin(x)
    return made(s, "mica_transpose", number_of(s, x), order_of(x, axes))


def swapaxes(x: Operand, a: int, b: int) -> Array:
    """Axes in another order; axes NULL reverses them."""
    s = begin(x)
    return made(s, "mica_swapaxes", number_of(s, x), a, b)


def moveaxis(x: Operand, source: int, to: int) -> Array:
    """Axes in another order; axes NULL reverses them."""
    s = begin(x)
    return made(s, "mica_moveaxis", number_of(s, x), source, to)


def broadcast_to(x: Operand, shape: Sequence[int]) -> Array:
    """x stretched to shape [ndim], without a copy: axes that x lacks are put in front, and its
    axes of
    length 1 take any length.
    errors  MICA_ESHAPE another length; MICA_EINVAL a length below 0. source
    numpy.broadcast_to."""
    s = begin(x)
    return made(s, "mica_broadcast_to", number_of(s, x), *shape_of(shape))


def slice(x: Operand, start: Optional[Sequence[int]] = None, stop: Optional[Sequence[int]] = None,
          step: Optional[Sequence[int]] = None) -> Array:
    """x[start:stop:step] along every axis, as Python's slices; start, stop and step are [ndim of
    x].
    Negative numbers count from the end, steps may be negative, a range beyond the axis is
    cut.
    start NULL: from the beginning; stop NULL or MICA_END_OF_AXIS: to the end (a negative step
    goes
    from the last element to the first); step NULL: 1. The result is a view without a copy.
    With symbols (mica_program_dim) it is cut only where that is known for all their values;
    else it
    is MICA_EINVAL once these are set: mica_take with mica_arange takes rows that may be too
    many.
    errors  MICA_EINVAL a step is 0"""
    s = begin(x)
    return made(s, "mica_slice", number_of(s, x), numbers_of(x, start), numbers_of(x, stop),
                                 numbers_of(x, step))


def slice_axis(x: Operand, axis: int, start: int, stop: int) -> Array:
    """x[start:stop] along one axis."""
    s = begin(x)
    return made(s, "mica_slice_axis", number_of(s, x), axis, start, stop)


def narrow(x: Operand, axis: int, start: int, length: int) -> Array:
    """`length` elements along one axis, from `start` on (negative: from the end). Unlike a slice
    it is
    never cut.
    errors  MICA_EINVAL they are not all there. source  torch.narrow."""
    s = begin(x)
    return made(s, "mica_narrow", number_of(s, x), axis, start, length)


def slice_update(x: Operand, update: Operand, start: Optional[Sequence[int]] = None,
                 stop: Optional[Sequence[int]] = None,
                 step: Optional[Sequence[int]] = None) -> Array:
    """x with update written at start:stop:step (as mica_slice). update broadcasts to that shape
    and is
    converted to x's dtype. Runs in place if x is a moved array or has no other reader."""
    s = begin(x, update)
    return made(s, "mica_slice_update", number_of(s, x), number_of(s, update),
                                        numbers_of(x, start), numbers_of(x, stop),
                                        numbers_of(x, step))


def slice_update_at(x: Operand, update: Operand, start: Operand, axis: int) -> Array:
    """The same along one axis from a start that is an array (i32 []), over update's length. The
    start's value is not part of the graph's structure: a growing cache runs one compiled
    plan.
    errors  MICA_EINVAL at evaluation: the update does not fit"""
    s = begin(x, update, start)
    return made(s, "mica_slice_update_at", number_of(s, x), number_of(s, update),
                                           number_of(s, start), axis)


def contiguous(x: Operand) -> Array:
    """The same elements in row-major order, in memory of their own. It copies, whatever the
    strides
    of x."""
    s = begin(x)
    return made(s, "mica_contiguous", number_of(s, x))


def concatenate(xs: Sequence[Operand], axis: int) -> Array:
    """Join n arrays along an axis (concatenate) or along a new axis (stack). The dtype is
    promoted."""
    s = begin(*xs)
    return made(s, "mica_concatenate", *list_of(s, xs), axis)


def stack(xs: Sequence[Operand], axis: int) -> Array:
    """Join n arrays along an axis (concatenate) or along a new axis (stack). The dtype is
    promoted."""
    s = begin(*xs)
    return made(s, "mica_stack", *list_of(s, xs), axis)


def pad(x: Operand, before: Optional[Sequence[int]], after: Optional[Sequence[int]],
        value: Operand) -> Array:
    """Adds before[k] and after[k] elements of value (converted to x's dtype) along axis k.
    mica_pad_edge repeats the edge elements instead.
    errors  MICA_EINVAL a number is negative; mica_pad_edge of an empty axis, which has no
    edge"""
    s = begin(x, value)
    return made(s, "mica_pad", number_of(s, x), numbers_of(x, before), numbers_of(x, after),
                               number_of(s, value))


def pad_edge(x: Operand, before: Optional[Sequence[int]] = None,
             after: Optional[Sequence[int]] = None) -> Array:
    """Adds before[k] and after[k] elements of value (converted to x's dtype) along axis k.
    mica_pad_edge repeats the edge elements instead.
    errors  MICA_EINVAL a number is negative; mica_pad_edge of an empty axis, which has no
    edge"""
    s = begin(x)
    return made(s, "mica_pad_edge", number_of(s, x), numbers_of(x, before), numbers_of(x, after))


def repeat(x: Operand, n: int, axis: int) -> Array:
    """mica_repeat: each element n times in a row along an axis. mica_tile: all of x reps[k]
    times
    along axis k."""
    s = begin(x)
    return made(s, "mica_repeat", number_of(s, x), n, axis)


def tile(x: Operand, reps: Sequence[int]) -> Array:
    """mica_repeat: each element n times in a row along an axis. mica_tile: all of x reps[k]
    times
    along axis k."""
    s = begin(x)
    return made(s, "mica_tile", number_of(s, x), *shape_of(reps))


def roll(x: Operand, shift: int, axis: int) -> Array:
    """The elements along an axis `shift` places later (negative: earlier), those behind the end
    at the
    beginning. errors  MICA_EINVAL there is no such axis. source  numpy.roll."""
    s = begin(x)
    return made(s, "mica_roll", number_of(s, x), shift, axis)


def flip(x: Operand, axis: int) -> Array:
    """The elements along an axis in the opposite order, without a copy.
    errors  MICA_EINVAL there is no such axis"""
    s = begin(x)
    return made(s, "mica_flip", number_of(s, x), axis)


def tril(x: Operand, k: int) -> Array:
    """Lower, upper triangle of the last two axes: elements with column - row > k (tril), < k
    (triu)
    become zero."""
    s = begin(x)
    return made(s, "mica_tril", number_of(s, x), k)


def triu(x: Operand, k: int) -> Array:
    """Lower, upper triangle of the last two axes: elements with column - row > k (tril), < k
    (triu)
    become zero."""
    s = begin(x)
    return made(s, "mica_triu", number_of(s, x), k)


def diag(x: Operand, k: int) -> Array:
    """mica_diag: [n] gives a square matrix with x on its k-th diagonal, [n, m] gives that
    diagonal of
    x. mica_diagonal: the diagonal of two axes, which becomes the last axis. k > 0 is above
    the main
    diagonal."""
    s = begin(x)
    return made(s, "mica_diag", number_of(s, x), k)


def diagonal(x: Operand, k: int, axis1: int, axis2: int) -> Array:
    """mica_diag: [n] gives a square matrix with x on its k-th diagonal, [n, m] gives that
    diagonal of
    x. mica_diagonal: the diagonal of two axes, which becomes the last axis. k > 0 is above
    the main
    diagonal."""
    s = begin(x)
    return made(s, "mica_diagonal", number_of(s, x), k, axis1, axis2)


def take(x: Operand, indices: Operand, axis: int) -> Array:
    """Slices of x at indices (any integer; negative from the end) along an axis:
    shape x[:axis] + indices + x[axis+1:]. errors MICA_EINVAL at evaluation: index out of
    range"""
    s = begin(x, indices)
    return made(s, "mica_take", number_of(s, x), number_of(s, indices), axis)


def take_along_axis(x: Operand, indices: Operand, axis: int) -> Array:
    """y[..., i, ...] = x[..., indices[..., i, ...], ...] along an axis; others broadcast."""
    s = begin(x, indices)
    return made(s, "mica_take_along_axis", number_of(s, x), number_of(s, indices), axis)


def put_along_axis(x: Operand, indices: Operand, values: Operand, axis: int) -> Array:
    """x with values written at those indices; of several writes to one element, the last wins."""
    s = begin(x, indices, values)
    return made(s, "mica_put_along_axis", number_of(s, x), number_of(s, indices),
                                          number_of(s, values), axis)


def gather_nd(x: Operand, indices: Operand, batch_dims: int) -> Array:
    """Slices of x at rows of indices: with B = batch_dims and m the last length of indices,

         y[b.., i.., r..] = x[b.., indices[b.., i.., 0], .., indices[b.., i.., m - 1], r..]

    x        [b_1 .. b_B, d_1 .. d_m, r..]
    indices  [b_1 .. b_B, i.., m] of any integer, negative from the end.
    returns  [b_1 .. b_B, i.., r..]
    errors   MICA_ESHAPE the shapes do not fit, or m is above 6; MICA_EDTYPE; MICA_EINVAL at
              evaluation: an index is out of range
    source   ONNX, GatherND."""
    s = begin(x, indices)
    return made(s, "mica_gather_nd", number_of(s, x), number_of(s, indices), batch_dims)


def matmul(a: Operand, b: Operand) -> Array:
    """Matrix multiplication over the last two axes; other axes broadcast, vectors as in numpy.
    Multiplied and accumulated in f32, rounded once to the promoted dtype. Operands are not
    converted in memory.
    errors  MICA_ESHAPE; MICA_EDTYPE not floats"""
    s = begin(a, b)
    return made(s, "mica_matmul", number_of(s, a), number_of(s, b))


def addmm(c: Operand, a: Operand, b: Operand, alpha: float, beta: float) -> Array:
    """alpha * a @ b + beta * c"""
    s = begin(c, a, b)
    return made(s, "mica_addmm", number_of(s, c), number_of(s, a), number_of(s, b), alpha, beta)


def outer(a: Operand, b: Operand) -> Array:
    """alpha * a @ b + beta * c"""
    s = begin(a, b)
    return made(s, "mica_outer", number_of(s, a), number_of(s, b))


def inner(a: Operand, b: Operand) -> Array:
    """alpha * a @ b + beta * c"""
    s = begin(a, b)
    return made(s, "mica_inner", number_of(s, a), number_of(s, b))


def tensordot(a: Operand, b: Operand, n: int) -> Array:
    """Contracts the last n axes of a with the first n axes of b."""
    s = begin(a, b)
    return made(s, "mica_tensordot", number_of(s, a), number_of(s, b), n)


def kron(a: Operand, b: Operand) -> Array:
    """Blocks of b, multiplied by each element of a: [.., a_k * b_k, ..].
    errors  MICA_ESHAPE more than four axes that are not 1. source  numpy.kron."""
    s = begin(a, b)
    return made(s, "mica_kron", number_of(s, a), number_of(s, b))


def solve(a: Operand, b: Operand) -> Array:
    """x in a x = b, by elimination with pivoting, on the host.

    a        [.., N, N] float
    b        [.., N, K] float, or vectors: [N], or one axis less than a. Batch axes broadcast.
    returns  of b's shape, with the batch axes of both; promoted dtype, computed in f64.
    errors   MICA_ESHAPE, MICA_EDTYPE; MICA_EINVAL at evaluation: a matrix is singular (the
    text has
              its number in the batch)"""
    s = begin(a, b)
    return made(s, "mica_solve", number_of(s, a), number_of(s, b))


def gather_mm(a: Operand, b: Operand, lhs_indices: Operand, rhs_indices: Operand) -> Array:
    """Products of matrices that indices pick, such as those of a token and its experts:

         y[i...] = a[lhs[i...]] @ b[rhs[i...]]

    a, b     [..., M, K] and [..., K, N] floats; the axes before the last two are counted as
    one.
    indices  any integers, negative from the end; they broadcast. MICA_NONE: all in their
    order.
    returns  [indices..., M, N], as mica_matmul. Matrices are read where they lie, on `cpu`
    and
              where MLX does it; other devices copy those that are picked. `cpu` sorts the
              rows of a
              by the matrix of b that they meet, so they may come in any order.
    errors   MICA_ESHAPE; MICA_EDTYPE; MICA_EINVAL at evaluation: an index is out of range
    grad     a and b
    source   mlx.core.gather_mm."""
    s = begin(a, b, lhs_indices, rhs_indices)
    return made(s, "mica_gather_mm", number_of(s, a), number_of(s, b), number_of(s, lhs_indices),
                                     number_of(s, rhs_indices))


def rms_norm(x: Operand, weight: Operand, eps: float) -> Array:
    """Root-mean-square normalisation over the last axis, then scale.

         y[..., i] = x[..., i] / sqrt(mean_j(x[..., j]^2) + eps) * weight[i]

    x       [..., D] float, any strides. Borrowed.
    weight  [D] float, or MICA_NONE for no scale. Borrowed.
    returns [..., D], promoted dtype. Computed in f32, rounded once.
    errors  MICA_ESHAPE weight is not [D]; MICA_EDTYPE not a float
    source  Zhang & Sennrich 2019 (arXiv:1910.07467), eq. 4."""
    s = begin(x, weight)
    return made(s, "mica_rms_norm", number_of(s, x), number_of(s, weight), eps)


def layer_norm(x: Operand, weight: Operand, bias: Operand, eps: float) -> Array:
    """Layer normalisation over the last axis: (x - mean) / sqrt(var + eps) * weight + bias.
    weight, bias [D] or MICA_NONE. Dtypes and errors as mica_rms_norm.
    source  Ba, Kiros & Hinton 2016 (arXiv:1607.06450)."""
    s = begin(x, weight, bias)
    return made(s, "mica_layer_norm", number_of(s, x), number_of(s, weight), number_of(s, bias),
                                      eps)


def kv_write(pool: Operand, x: Operand, slots: Operand) -> Array:
    """Writes rows into blocks of a pool: a KV cache whose sequences lie in blocks
    (mica_paged_sdpa).

         pool[h, slots[b, l] / P, slots[b, l] % P] = x[b, h, l]

    pool    [H, N, P, W]: N blocks of P entries, any dtype. Moved (mica_move) or donated, it
    is
             written in place.
    x       [B, H, L, W], converted to the pool's dtype.
    slots   i32 [B, L], -N * P to N * P - 1, negative from the end. Of rows with one slot any
    may
             stay.
    returns [H, N, P, W], dtype of pool.
    errors  MICA_ESHAPE also if N * P is 0 or above 2^31 - 1; MICA_EDTYPE; MICA_EINVAL at
             evaluation: a slot out of range
    grad    pool, x."""
    s = begin(pool, x, slots)
    return made(s, "mica_kv_write", number_of(s, pool), number_of(s, x), number_of(s, slots))


def cross_entropy(logits: Operand, targets: Operand) -> Array:
    """Negative log-likelihood of targets: logsumexp(logits) - logits[target] over the last axis.

    logits   [..., V] float, or integers, which become f32. Borrowed.
    targets  [...] integers from -V to V - 1, negative from the end. Borrowed.
    returns  [...], the logits' dtype, f32 of integers; computed in f32, rounded once.
    errors   MICA_EDTYPE targets are not integers, or logits are c64 or f64; MICA_ESHAPE;
              MICA_EINVAL at evaluation: a target is out of range
    grad     logits."""
    s = begin(logits, targets)
    return made(s, "mica_cross_entropy", number_of(s, logits), number_of(s, targets))


def random_key(seed: int) -> Array:
    """Keys are u32 [2]; the same key always gives the same numbers (threefry 2x32, as MLX and
    JAX).
    source  Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"."""
    s = begin()
    return made(s, "mica_random_key", seed)


def random_split(key: Operand, n: int) -> Array:
    """n new keys: [n, 2] u32."""
    s = begin(key)
    return made(s, "mica_random_split", number_of(s, key), n)


def random_bits(key: Operand, shape: Sequence[int], width_bytes: int) -> Array:
    """Random bits: u32 (width_bytes 4), u16 (2), u8 (1)."""
    s = begin(key)
    return made(s, "mica_random_bits", number_of(s, key), *shape_of(shape), width_bytes)


def random_uniform(key: Operand, shape: Sequence[int], dtype: str, lo: float, hi: float) -> Array:
    """Draws from distributions: uniform in [lo, hi); normal with mean and deviation; standard
    normal
    between lo and hi; integers in [lo, hi); true with probability p; standard Gumbel;
    standard
    Laplace; a random order of 0 .. n - 1."""
    s = begin(key)
    return made(s, "mica_random_uniform", number_of(s, key), *shape_of(shape), dtype_number(dtype),
                                          lo, hi)


def random_normal(key: Operand, shape: Sequence[int], dtype: str, mean: float,
                  deviation: float) -> Array:
    """Draws from distributions: uniform in [lo, hi); normal with mean and deviation; standard
    normal
    between lo and hi; integers in [lo, hi); true with probability p; standard Gumbel;
    standard
    Laplace; a random order of 0 .. n - 1."""
    s = begin(key)
    return made(s, "mica_random_normal", number_of(s, key), *shape_of(shape), dtype_number(dtype),
                                         mean, deviation)


def random_truncated_normal(key: Operand, shape: Sequence[int], lo: float, hi: float) -> Array:
    """Draws from distributions: uniform in [lo, hi); normal with mean and deviation; standard
    normal
    between lo and hi; integers in [lo, hi); true with probability p; standard Gumbel;
    standard
    Laplace; a random order of 0 .. n - 1."""
    s = begin(key)
    return made(s, "mica_random_truncated_normal", number_of(s, key), *shape_of(shape), lo, hi)


def random_randint(key: Operand, shape: Sequence[int], lo: int, hi: int) -> Array:
    """Draws from distributions: uniform in [lo, hi); normal with mean and deviation; standard
    normal
    between lo and hi; integers in [lo, hi); true with probability p; standard Gumbel;
    standard
    Laplace; a random order of 0 .. n - 1."""
    s = begin(key)
    return made(s, "mica_random_randint", number_of(s, key), *shape_of(shape), lo, hi)


def random_bernoulli(key: Operand, shape: Sequence[int], p: float) -> Array:
    """Draws from distributions: uniform in [lo, hi); normal with mean and deviation; standard
    normal
    between lo and hi; integers in [lo, hi); true with probability p; standard Gumbel;
    standard
    Laplace; a random order of 0 .. n - 1."""
    s = begin(key)
    return made(s, "mica_random_bernoulli", number_of(s, key), *shape_of(shape), p)


def random_gumbel(key: Operand, shape: Sequence[int], dtype: str) -> Array:
    """Draws from distributions: uniform in [lo, hi); normal with mean and deviation; standard
    normal
    between lo and hi; integers in [lo, hi); true with probability p; standard Gumbel;
    standard
    Laplace; a random order of 0 .. n - 1."""
    s = begin(key)
    return made(s, "mica_random_gumbel", number_of(s, key), *shape_of(shape), dtype_number(dtype))


def random_laplace(key: Operand, shape: Sequence[int], dtype: str) -> Array:
    """Draws from distributions: uniform in [lo, hi); normal with mean and deviation; standard
    normal
    between lo and hi; integers in [lo, hi); true with probability p; standard Gumbel;
    standard
    Laplace; a random order of 0 .. n - 1."""
    s = begin(key)
    return made(s, "mica_random_laplace", number_of(s, key), *shape_of(shape), dtype_number(dtype))


def random_permutation(key: Operand, n: int) -> Array:
    """Draws from distributions: uniform in [lo, hi); normal with mean and deviation; standard
    normal
    between lo and hi; integers in [lo, hi); true with probability p; standard Gumbel;
    standard
    Laplace; a random order of 0 .. n - 1."""
    s = begin(key)
    return made(s, "mica_random_permutation", number_of(s, key), n)


def random_categorical(key: Operand, logits: Operand, n: int) -> Array:
    """Indices (u32) drawn with probability softmax(logits) along the last axis: logits [..., V]
    gives
    [...] (n 0) or [..., n]. Gumbel-max, as MLX: the same key gives the same tokens."""
    s = begin(key, logits)
    return made(s, "mica_random_categorical", number_of(s, key), number_of(s, logits), n)


def elu(x: Operand, alpha: float) -> Array:
    """Activations, inexact.
         elu               x where x > 0, else alpha (exp(x) - 1)
         leaky_relu        x where x > 0, else slope x
         relu2             max(x, 0)^2
         softplus          log(1 + exp(x))
         log_sigmoid       -softplus(-x)
         mish              x tanh(softplus(x))
         softsign          x / (1 + |x|)
         gelu_fast_approx  x sigmoid(1.702 x)
    source  Clevert et al. 2015 (arXiv:1511.07289) for elu; So et al. 2021 (arXiv:2109.08668)
    for
             relu2; Misra 2019 (arXiv:1908.08681) for mish"""
    s = begin(x)
    return made(s, "mica_elu", number_of(s, x), alpha)


def leaky_relu(x: Operand, slope: float) -> Array:
    """Activations, inexact.
         elu               x where x > 0, else alpha (exp(x) - 1)
         leaky_relu        x where x > 0, else slope x
         relu2             max(x, 0)^2
         softplus          log(1 + exp(x))
         log_sigmoid       -softplus(-x)
         mish              x tanh(softplus(x))
         softsign          x / (1 + |x|)
         gelu_fast_approx  x sigmoid(1.702 x)
    source  Clevert et al. 2015 (arXiv:1511.07289) for elu; So et al. 2021 (arXiv:2109.08668)
    for
             relu2; Misra 2019 (arXiv:1908.08681) for mish"""
    s = begin(x)
    return made(s, "mica_leaky_relu", number_of(s, x), slope)


def relu2(x: Operand) -> Array:
    """Activations, inexact.
         elu               x where x > 0, else alpha (exp(x) - 1)
         leaky_relu        x where x > 0, else slope x
         relu2             max(x, 0)^2
         softplus          log(1 + exp(x))
         log_sigmoid       -softplus(-x)
         mish              x tanh(softplus(x))
         softsign          x / (1 + |x|)
         gelu_fast_approx  x sigmoid(1.702 x)
    source  Clevert et al. 2015 (arXiv:1511.07289) for elu; So et al. 2021 (arXiv:2109.08668)
    for
             relu2; Misra 2019 (arXiv:1908.08681) for mish"""
    s = begin(x)
    return made(s, "mica_relu2", number_of(s, x))


def softplus(x: Operand) -> Array:
    """Activations, inexact.
         elu               x where x > 0, else alpha (exp(x) - 1)
         leaky_relu        x where x > 0, else slope x
         relu2             max(x, 0)^2
         softplus          log(1 + exp(x))
         log_sigmoid       -softplus(-x)
         mish              x tanh(softplus(x))
         softsign          x / (1 + |x|)
         gelu_fast_approx  x sigmoid(1.702 x)
    source  Clevert et al. 2015 (arXiv:1511.07289) for elu; So et al. 2021 (arXiv:2109.08668)
    for
             relu2; Misra 2019 (arXiv:1908.08681) for mish"""
    s = begin(x)
    return made(s, "mica_softplus", number_of(s, x))


def log_sigmoid(x: Operand) -> Array:
    """Activations, inexact.
         elu               x where x > 0, else alpha (exp(x) - 1)
         leaky_relu        x where x > 0, else slope x
         relu2             max(x, 0)^2
         softplus          log(1 + exp(x))
         log_sigmoid       -softplus(-x)
         mish              x tanh(softplus(x))
         softsign          x / (1 + |x|)
         gelu_fast_approx  x sigmoid(1.702 x)
    source  Clevert et al. 2015 (arXiv:1511.07289) for elu; So et al. 2021 (arXiv:2109.08668)
    for
             relu2; Misra 2019 (arXiv:1908.08681) for mish"""
    s = begin(x)
    return made(s, "mica_log_sigmoid", number_of(s, x))


def mish(x: Operand) -> Array:
    """Activations, inexact.
         elu               x where x > 0, else alpha (exp(x) - 1)
         leaky_relu        x where x > 0, else slope x
         relu2             max(x, 0)^2
         softplus          log(1 + exp(x))
         log_sigmoid       -softplus(-x)
         mish              x tanh(softplus(x))
         softsign          x / (1 + |x|)
         gelu_fast_approx  x sigmoid(1.702 x)
    source  Clevert et al. 2015 (arXiv:1511.07289) for elu; So et al. 2021 (arXiv:2109.08668)
    for
             relu2; Misra 2019 (arXiv:1908.08681) for mish"""
    s = begin(x)
    return made(s, "mica_mish", number_of(s, x))


def softsign(x: Operand) -> Array:
    """Activations, inexact.
         elu               x where x > 0, else alpha (exp(x) - 1)
         leaky_relu        x where x > 0, else slope x
         relu2             max(x, 0)^2
         softplus          log(1 + exp(x))
         log_sigmoid       -softplus(-x)
         mish              x tanh(softplus(x))
         softsign          x / (1 + |x|)
         gelu_fast_approx  x sigmoid(1.702 x)
    source  Clevert et al. 2015 (arXiv:1511.07289) for elu; So et al. 2021 (arXiv:2109.08668)
    for
             relu2; Misra 2019 (arXiv:1908.08681) for mish"""
    s = begin(x)
    return made(s, "mica_softsign", number_of(s, x))


def gelu_fast_approx(x: Operand) -> Array:
    """Activations, inexact.
         elu               x where x > 0, else alpha (exp(x) - 1)
         leaky_relu        x where x > 0, else slope x
         relu2             max(x, 0)^2
         softplus          log(1 + exp(x))
         log_sigmoid       -softplus(-x)
         mish              x tanh(softplus(x))
         softsign          x / (1 + |x|)
         gelu_fast_approx  x sigmoid(1.702 x)
    source  Clevert et al. 2015 (arXiv:1511.07289) for elu; So et al. 2021 (arXiv:2109.08668)
    for
             relu2; Misra 2019 (arXiv:1908.08681) for mish"""
    s = begin(x)
    return made(s, "mica_gelu_fast_approx", number_of(s, x))


def rms_norm_axis(x: Operand, weight: Operand, axis: int, eps: float) -> Array:
    """mica_rms_norm and mica_layer_norm over an axis that need not be the last. weight and bias
    have
    one axis, of its length."""
    s = begin(x, weight)
    return made(s, "mica_rms_norm_axis", number_of(s, x), number_of(s, weight), axis, eps)


def layer_norm_axis(x: Operand, weight: Operand, bias: Operand, axis: int, eps: float) -> Array:
    """mica_rms_norm and mica_layer_norm over an axis that need not be the last. weight and bias
    have
    one axis, of its length."""
    s = begin(x, weight, bias)
    return made(s, "mica_layer_norm_axis", number_of(s, x), number_of(s, weight),
                                           number_of(s, bias), axis, eps)


def group_norm(x: Operand, weight: Operand, bias: Operand, groups: int, eps: float) -> Array:
    """Layer normalisation of each group of channels, over its C / groups channels and all
    places.

    x             [N, C, ...] float.
    weight, bias  [C] float or MICA_NONE.
    returns       x's shape, promoted dtype.
    errors        MICA_ESHAPE C is no multiple of groups, or weight and bias are not [C];
                   MICA_EDTYPE; MICA_EINVAL groups < 1, eps < 0
    source        Wu & He 2018 (arXiv:1803.08494)."""
    s = begin(x, weight, bias)
    return made(s, "mica_group_norm", number_of(s, x), number_of(s, weight), number_of(s, bias),
                                      groups, eps)


def rope_tables(x: Operand, cos: Operand, sin: Operand) -> Array:
    """Rotary position embedding by tables: with h = n_rot / 2, and position p of axis -2,

         y[.., p, i]     = x[.., p, i] cos[p, i] - x[.., p, i + h] sin[p, i]      i < h
         y[.., p, i + h] = x[.., p, i + h] cos[p, i] + x[.., p, i] sin[p, i]

    x         [.., L, D] float; elements from n_rot on are copied.
    cos, sin  [P, n_rot / 2] float, P >= L, n_rot <= D.
    returns   x's shape and dtype. Its gradient is the same with -sin.
    errors    MICA_ESHAPE; MICA_EDTYPE
    source    Su et al. 2021 (arXiv:2104.09864)."""
    s = begin(x, cos, sin)
    return made(s, "mica_rope_tables", number_of(s, x), number_of(s, cos), number_of(s, sin))


def resize_nearest2x(x: Operand) -> Array:
    """x [.., H, W] with each element twice along both: [.., 2 H, 2 W]. errors  MICA_ESHAPE"""
    s = begin(x)
    return made(s, "mica_resize_nearest2x", number_of(s, x))


def residual_layer_norm(x: Operand, r: Operand, bias: Operand, gamma: Operand, beta: Operand,
                        eps: float) -> Array:
    """norm(x + r + bias), by mica_layer_norm or mica_rms_norm over the last axis.

    x, r         [.., D] float
    bias         [D] float or MICA_NONE
    gamma, beta  weight and bias of the norm, [D] float or MICA_NONE
    eps          as of the norm
    returns      [.., D], promoted. The sums are rounded before they are normalised.
    errors       those of mica_add and of the norm"""
    s = begin(x, r, bias, gamma, beta)
    return made(s, "mica_residual_layer_norm", number_of(s, x), number_of(s, r),
                                               number_of(s, bias), number_of(s, gamma),
                                               number_of(s, beta), eps)


def residual_rms_norm(x: Operand, r: Operand, bias: Operand, gamma: Operand, eps: float) -> Array:
    """norm(x + r + bias), by mica_layer_norm or mica_rms_norm over the last axis.

    x, r         [.., D] float
    bias         [D] float or MICA_NONE
    gamma, beta  weight and bias of the norm, [D] float or MICA_NONE
    eps          as of the norm
    returns      [.., D], promoted. The sums are rounded before they are normalised.
    errors       those of mica_add and of the norm"""
    s = begin(x, r, bias, gamma)
    return made(s, "mica_residual_rms_norm", number_of(s, x), number_of(s, r), number_of(s, bias),
                                             number_of(s, gamma), eps)


def swiglu(x: Operand, gate_first: bool = False) -> Array:
    """up * silu(gate), of the halves of x.

    x        [.., 2 F] float: up, gate, or with gate_first gate, up.
    returns  [.., F], x's dtype.
    errors   MICA_ESHAPE the last axis is not even
    source   Shazeer 2020 (arXiv:2002.05202)."""
    s = begin(x)
    return made(s, "mica_swiglu", number_of(s, x), gate_first)


def lora_matmul(x: Operand, w: Operand, a: Operand, b: Operand, scale: float) -> Array:
    """x w + scale (x a) b.

    x        [.., K] float
    w, a, b  [K, N], [K, R], [R, N] float
    returns  [.., N], promoted. Each product is rounded.
    errors   those of mica_matmul
    source   Hu et al. 2021 (arXiv:2106.09685)."""
    s = begin(x, w, a, b)
    return made(s, "mica_lora_matmul", number_of(s, x), number_of(s, w), number_of(s, a),
                                       number_of(s, b), scale)


def relu_backward(x: Operand, dy: Operand) -> Array:
    """y = max(x, 0): dy where x > 0, else 0: at 0 and for NaN, too."""
    s = begin(x, dy)
    return made(s, "mica_relu_backward", number_of(s, x), number_of(s, dy))


def cumsum_backward(dy: Operand, axis: int, reverse: bool = False,
                    inclusive: bool = False) -> Array:
    """y = mica_cumsum(x, axis, reverse, inclusive): dy summed in the other direction."""
    s = begin(dy)
    return made(s, "mica_cumsum_backward", number_of(s, dy), axis, reverse, inclusive)


def take_backward(x: Operand, indices: Operand, dy: Operand, axis: int) -> Array:
    """y = mica_take(x, indices, axis): dy is added where it was taken. Of x only shape and dtype
    matter."""
    s = begin(x, indices, dy)
    return made(s, "mica_take_backward", number_of(s, x), number_of(s, indices), number_of(s, dy),
                                         axis)


def rope_tables_backward(dy: Operand, cos: Operand, sin: Operand) -> Array:
    """y = mica_rope_tables(x, cos, sin): dy is rotated back."""
    s = begin(dy, cos, sin)
    return made(s, "mica_rope_tables_backward", number_of(s, dy), number_of(s, cos),
                                                number_of(s, sin))


def complex(re: Operand, im: Operand) -> Array:
    """re + i im, c64. Both are converted to f32 and broadcast.
    errors  MICA_EDTYPE a part is c64; MICA_ESHAPE"""
    s = begin(re, im)
    return made(s, "mica_complex", number_of(s, re), number_of(s, im))


def real(x: Operand) -> Array:
    """The parts of c64, f32; of other dtypes x itself, and zeros."""
    s = begin(x)
    return made(s, "mica_real", number_of(s, x))


def imag(x: Operand) -> Array:
    """The parts of c64, f32; of other dtypes x itself, and zeros."""
    s = begin(x)
    return made(s, "mica_imag", number_of(s, x))


def conjugate(x: Operand) -> Array:
    """re - i im; of other dtypes x itself."""
    s = begin(x)
    return made(s, "mica_conjugate", number_of(s, x))


def fftshift(x: Operand, axes: Optional[Sequence[int]] = None) -> Array:
    """The zero frequency to the middle of the axes listed (axes NULL and n_axes 0: all), and
    back."""
    s = begin(x)
    return made(s, "mica_fftshift", number_of(s, x), *axes_of(axes))


def ifftshift(x: Operand, axes: Optional[Sequence[int]] = None) -> Array:
    """The zero frequency to the middle of the axes listed (axes NULL and n_axes 0: all), and
    back."""
    s = begin(x)
    return made(s, "mica_ifftshift", number_of(s, x), *axes_of(axes))


def fftfreq(n: int) -> Array:
    """The frequencies of fft's and rfft's results in cycles a sample: [n] and [n / 2 + 1] f32.
    That at
    n / 2 of an even n is -0.5 of fft, 0.5 of rfft, as numpy.fft has them.
    errors  MICA_EINVAL n is below 1 or above 2^30 - 1"""
    s = begin()
    return made(s, "mica_fftfreq", n)


def rfftfreq(n: int) -> Array:
    """The frequencies of fft's and rfft's results in cycles a sample: [n] and [n / 2 + 1] f32.
    That at
    n / 2 of an even n is -0.5 of fft, 0.5 of rfft, as numpy.fft has them.
    errors  MICA_EINVAL n is below 1 or above 2^30 - 1"""
    s = begin()
    return made(s, "mica_rfftfreq", n)


def psd(x: Operand, n: int) -> Array:
    """Power of a spectrum of n points: (re^2 + im^2) / n, of x's shape, f32.
    errors  MICA_EINVAL n is below 1 or above 2^30 - 1"""
    s = begin(x)
    return made(s, "mica_psd", number_of(s, x), n)


def fft_conv1d(a: Operand, b: Operand) -> Array:
    """Convolution of real rows a [..., A], b [..., B] by transforms: [..., A + B - 1] f32; other
    axes
    broadcast. errors MICA_ESHAPE a row is empty"""
    s = begin(a, b)
    return made(s, "mica_fft_conv1d", number_of(s, a), number_of(s, b))
