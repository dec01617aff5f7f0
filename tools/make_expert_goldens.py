#!/usr/bin/env python3
"""Makes tests/fixtures/ops/experts.*: mixtures of experts as MLX computes them.

    python3 tools/make_expert_goldens.py     (needs the Python packages mlx, numpy and safetensors;
                                              made with mlx 0.32.4 on a CPU)

gather_qmm of every mode, and a block of experts: tokens x [T, D] pick K of E experts by the softmax
of x @ router^T, whose weights are then made to add up to 1; an expert is down(silu(gate x) * up x).
"""
import mlx.core as mx
import mlx.nn as nn
import numpy as np

from nn_goldens import Records

mx.set_default_device(mx.cpu)
random = np.random.default_rng(51)
records = Records("experts")
MODES = [{"mode": "affine", "bits": bits, "group_size": group}
         for bits, group in ((2, 32), (3, 64), (4, 64), (5, 32), (6, 128), (8, 32))]
MODES += [{"mode": "mxfp4", "bits": 4, "group_size": 32},
          {"mode": "mxfp8", "bits": 8, "group_size": 32},
          {"mode": "nvfp4", "bits": 4, "group_size": 16}]


def normal(*shape):
    return random.standard_normal(shape).astype(np.float32)


def quantized(mode, *shape):
    """Its parts, by the names of the records; and what it stands for."""
    parts = mx.quantize(mx.array(normal(*shape)), **mode)
    return dict(zip(("wq", "scales", "biases"), parts))


def multiply(mode, x, w, picks, transpose=True):
    return mx.gather_qmm(mx.array(x), w["wq"], w["scales"], w.get("biases"), rhs_indices=picks,
                         transpose=transpose, **mode)


def arrays(parts):
    return {name: np.array(x) for name, x in parts.items()}


def add_gather(mode, transpose):
    w = quantized(mode, 4, 8 if transpose else 12, 128)
    x, picks = normal(5, 1, 1, 128 if transpose else 12), random.integers(0, 4, (5, 2))
    y = multiply(mode, x, w, mx.array(picks.astype(np.uint32)), transpose)
    records.add("gather_qmm", mode | {"transpose": transpose},
                {"x": x, "rhs": picks.astype(np.int32)} | arrays(w), [np.array(y)])


def add_block(mode, fast, tokens, experts, k):
    x, router = normal(tokens, 64), normal(experts, 64)
    gate, up = quantized(mode, experts, 96, 64), quantized(mode, experts, 96, 64)
    down = quantized(mode, experts, 64, 96)
    scores = mx.softmax(mx.array(x) @ mx.array(router).T, axis=-1, precise=True)
    picks = mx.argpartition(-scores, kth=k - 1, axis=-1)[:, :k]
    scores = mx.take_along_axis(scores, picks, axis=-1)
    scores = scores / scores.sum(axis=-1, keepdims=True)
    rows = mx.array(x)[:, None, None, :]
    h = nn.silu(multiply(mode, rows, gate, picks)) * multiply(mode, rows, up, picks)
    y = multiply(mode, h, down, picks).squeeze(-2)
    y = (y * scores[..., None]).sum(axis=-2)
    named = {f"{name}_{part}": np.array(x)
             for name, w in (("gate", gate), ("up", up), ("down", down)) for part, x in w.items()}
    records.add("block", mode | {"k": k, "fast": fast}, {"x": x, "router": router} | named,
                [np.array(y)])


for mode in MODES:
    add_gather(mode, True)
add_gather(MODES[2], False)
add_gather(MODES[6], False)
affine, mxfp4 = ({"mode": mode, "bits": 4, "group_size": 32} for mode in ("affine", "mxfp4"))
add_block(affine, False, 7, 4, 2)
add_block(affine, True, 7, 4, 2)
add_block(mxfp4, True, 1, 6, 4)
records.save()
