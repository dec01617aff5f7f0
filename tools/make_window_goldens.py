#!/usr/bin/env python3
"""Makes tests/fixtures/ops/window.*: pools and reduce_window as PyTorch and JAX compute them.

    python3 tools/make_window_goldens.py     (needs the Python packages torch, jax, numpy and
                                              safetensors; made with torch 2.15.0 and jax 0.10.2)

Pools of max and mean are PyTorch's, with gradients. Products and minima, and windows over any axes,
are lax.reduce_window, sums with gradients.
"""
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import torch
import torch.nn.functional as F
from jax import lax

from nn_goldens import Records

records = Records("window")
random = np.random.default_rng(37)


def pool(kind, shape, kernel, stride=1, padding=0, dilation=1, ceil=False, exclude=False,
         last=False, equals=False):
    n = len(shape) - 2
    each = lambda v: [v] * n if isinstance(v, int) else list(v)
    x = random.integers(-2, 3, shape) if equals else random.standard_normal(shape)
    x = torch.tensor(x.astype(np.float32)).requires_grad_()
    if kind == "max":
        y = getattr(F, f"max_pool{n}d")(x, each(kernel), each(stride), each(padding),
                                        each(dilation), ceil)
    else:
        y = getattr(F, f"avg_pool{n}d")(x, each(kernel), each(stride), each(padding), ceil,
                                        not exclude)
    dy = torch.tensor(random.standard_normal(tuple(y.shape)).astype(np.float32))
    y.backward(dy)
    move = lambda v: np.moveaxis(v.detach().numpy(), 1, -1) if last else v.detach().numpy()
    args = {"kind": kind, "kernel": each(kernel), "stride": each(stride),
            "padding_lo": each(padding), "padding_hi": each(padding), "dilation": each(dilation),
            "ceil": ceil, "exclude_padding": exclude, "last": last}
    records.add("pool", args, {"x": move(x), "dy": move(dy)}, [move(y), move(x.grad)])


INIT = {"max": (lax.max, -np.inf), "min": (lax.min, np.inf), "sum": (lax.add, 0),
        "prod": (lax.mul, 1)}


def window(kind, shape, size, stride=None, lo=None, hi=None, dilation=None, base=None,
           dtype=np.float32, special=None):
    n = len(shape)
    one = lambda v, d: list(v) if v else [d] * n
    stride, dilation, base = one(stride, 1), one(dilation, 1), one(base, 1)
    lo, hi = one(lo, 0), one(hi, 0)
    is_float = np.issubdtype(dtype, np.floating)
    low = -9 if is_float or np.iinfo(dtype).min < 0 else 0
    x = random.standard_normal(shape) if is_float else random.integers(low, 10, shape)
    x = x.astype(dtype)
    if special is not None:
        x.flat[special] = np.nan
    op, start = INIT[kind]
    if not is_float and kind in ("max", "min"):
        start = np.iinfo(dtype).min if kind == "max" else np.iinfo(dtype).max
    narrow = not is_float and kind in ("sum", "prod") and x.itemsize < 4
    wide = x.astype(np.uint32 if low == 0 else np.int32) if narrow else x

    def f(v):
        return lax.reduce_window(v, wide.dtype.type(start), op, size, stride,
                                 list(zip(lo, hi)), base, dilation)
    y = np.asarray(f(jnp.asarray(wide)))
    inputs, outputs = {"x": x}, [y]
    if kind == "sum" and is_float:
        dy = random.standard_normal(y.shape).astype(dtype)
        inputs["dy"] = dy
        outputs.append(np.asarray(jax.vjp(f, jnp.asarray(wide))[1](jnp.asarray(dy))[0]))
    records.add("reduce_window", {"kind": kind, "window": list(size), "stride": stride,
                                  "padding_lo": lo, "padding_hi": hi, "dilation": dilation,
                                  "base_dilation": base}, inputs, outputs)


def main():
    jax.config.update("jax_enable_x64", True)
    for n, last in itertools.product((1, 2, 3), (False, True)):
        shape = (1, 2, 6, 5, 5)[:n + 2]
        for kind in ("max", "mean"):
            pool(kind, shape, 2, stride=2, last=last)
            pool(kind, shape, 3, padding=1, last=last)
            pool(kind, shape, 3, stride=2, padding=1, ceil=True, last=last)
        pool("mean", shape, 3, stride=2, padding=1, ceil=True, exclude=True, last=last)
        pool("max", shape, 2, dilation=2, equals=True, last=last)
    pool("max", (1, 2, 9, 8), (3, 2), stride=(2, 3), padding=(1, 0), equals=True)
    pool("max", (1, 70, 5, 4), 5, padding=2)
    pool("mean", (1, 600, 4), 3, padding=1, exclude=True, last=True)
    pool("max", (1, 1, 1200), 4, stride=3, padding=2)
    for kind in INIT:
        window(kind, (3, 7), (1, 3))
        window(kind, (6, 5), (2, 3), (2, 1), (1, 0), (0, 2))
        window(kind, (5, 4), (2, 2), (1, 2), (2, 1), (1, 2), (2, 1), (2, 3))
        window(kind, (2, 6, 3), (1, 3, 2), dilation=(1, 2, 1))
        window(kind, (9,), (3,), lo=(-2,), hi=(-1,))
        window(kind, (4, 3), (5, 1))
        window(kind, (5, 4), (2, 2), lo=(1, 1), dtype=np.int32)
        window(kind, (5, 4), (2, 3), hi=(1, 1), dtype=np.uint8)
        window(kind, (5, 4), (2, 3), lo=(1, 1), hi=(1, 1), dtype=np.int64)
    window("max", (4, 5), (2, 2), special=7)
    window("min", (4, 5), (2, 2), lo=(1, 1), special=3)
    records.save()


if __name__ == "__main__":
    main()
