#!/usr/bin/env python3
"""Makes tests/fixtures/ops/pool.*: pools of every kind in one, two and three axes, and their
gradients, as JAX computes them in f64.

    python3 tools/make_pool_goldens.py     (needs the Python packages jax, numpy and safetensors;
                                            made with jax 0.10.2 on a CPU)

A pool is written out: for each element of a window a slice of the padded array, which are stacked
and reduced. The gradient of a maximum and a minimum goes to the first extreme element. A mean
counts the padding that is asked for, but not what lies behind it, which windows reach where their
number is rounded up: PyTorch's rule, whose own numbers are in ops/window.*.
"""
import itertools

import jax
import jax.numpy as jnp
import numpy as np

from nn_goldens import Records

jax.config.update("jax_enable_x64", True)
records = Records("pool")
random = np.random.default_rng(40)
NEUTRAL = {"max": -np.inf, "min": np.inf, "sum": 0, "prod": 1, "mean": 0}


def counts(lengths, kernel, stride, lo, hi, dilation, ceil):
    """Windows along each axis. Rounded up, none begins behind the elements: PyTorch's rule."""
    out = []
    for n, k, s, l, h, d in zip(lengths, kernel, stride, lo, hi, dilation):
        room = n + l + h - ((k - 1) * d + 1)
        windows = -(-room // s) + 1 if ceil else room // s + 1
        if ceil and (windows - 1) * s >= n + l:
            windows -= 1
        out.append(max(windows, 0))
    return out


def taps(x, fill, kernel, stride, lo, dilation, windows):
    """[windows.., elements of a window] of x padded on all sides with as much as is needed."""
    n = len(kernel)
    far = [s * w + d * k + l for s, w, d, k, l in zip(stride, windows, dilation, kernel, lo)]
    x = jnp.pad(x, [(0, 0), (0, 0)] + list(zip(lo, far)), constant_values=fill)
    rows = []
    for at in itertools.product(*[range(k) for k in kernel]):
        index = [slice(None)] * 2
        for i in range(n):
            first = at[i] * dilation[i]
            index.append(slice(first, first + (windows[i] - 1) * stride[i] + 1, stride[i]))
        rows.append(x[tuple(index)])
    return jnp.stack(rows, -1)


def pool(kind, shape, kernel, stride=1, lo=0, hi=0, dilation=1, ceil=False, exclude=False,
         last=False, few=False, zeros=False):
    n = len(shape) - 2
    each = lambda v: [v] * n if isinstance(v, int) else list(v)
    kernel, stride, lo, hi, dilation = (each(v) for v in (kernel, stride, lo, hi, dilation))
    windows = counts(shape[2:], kernel, stride, lo, hi, dilation, ceil)
    x = random.integers(-2, 3, shape) if few else random.standard_normal(shape)
    x = x.astype(np.float32)
    if zeros:
        x[random.random(shape) < 0.2] = 0
    ones = jnp.ones(shape) if exclude else jnp.ones(
        shape[:2] + tuple(a + b + c for a, b, c in zip(shape[2:], lo, hi)))
    counted = taps(ones, 0, kernel, stride, lo if exclude else [0] * n, dilation, windows).sum(-1)

    def f(v):
        v = taps(v, NEUTRAL[kind], kernel, stride, lo, dilation, windows)
        if kind in ("max", "min"):
            at = (jnp.argmax if kind == "max" else jnp.argmin)(v, -1, keepdims=True)
            return jnp.take_along_axis(v, at, -1)[..., 0]
        if kind == "prod":
            return jnp.prod(v, -1)
        return v.sum(-1) / (1 if kind == "sum" else counted)

    y, back = jax.vjp(f, jnp.asarray(x, jnp.float64))
    dy = random.standard_normal(y.shape).astype(np.float32)
    (dx,) = back(jnp.asarray(dy, jnp.float64))
    move = lambda v: np.moveaxis(np.asarray(v, np.float32), 1, -1) if last else np.asarray(
        v, np.float32)
    records.add("pool", {"kind": kind, "kernel": kernel, "stride": stride, "padding_lo": lo,
                         "padding_hi": hi, "dilation": dilation, "ceil": ceil,
                         "exclude_padding": exclude, "last": last},
                {"x": move(x), "dy": move(dy)}, [move(y), move(dx)])


def main():
    for n, kind in itertools.product((1, 2, 3), NEUTRAL):
        shape = (2, 3, 7, 6, 5)[:n + 2]
        pool(kind, shape, 2, stride=2)
        pool(kind, shape, 3, lo=1, hi=1, last=True)
        pool(kind, shape, 3, stride=2, lo=1, hi=0, ceil=True)
        pool(kind, shape, (3, 2, 2)[:n], stride=(2, 1, 3)[:n], lo=(2, 0, 1)[:n], hi=(0, 1, 1)[:n],
             dilation=(1, 2, 1)[:n], last=True)
        pool(kind, shape, 1, stride=3)
        pool(kind, shape, 3, lo=1, hi=2, few=kind in ("max", "min"), exclude=True,
             zeros=kind == "prod")
    pool("mean", (1, 1, 2, 2), 2, lo=1, hi=1)
    pool("mean", (1, 1, 2, 2), 2, lo=1, hi=1, exclude=True)
    pool("mean", (1, 2, 5, 5), 3, stride=2, hi=1, ceil=True, exclude=True)
    pool("prod", (1, 1, 9), 5, lo=2, hi=2, zeros=True)
    records.save()


if __name__ == "__main__":
    main()
