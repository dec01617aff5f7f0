#!/usr/bin/env python3
"""Makes tests/fixtures/ops/nn.*: the ops of mica/nn.h and their gradients, as PyTorch computes them
in f64.

    python3 tools/make_nn_goldens.py        (needs the Python packages torch, numpy and safetensors;
                                             made with torch 2.15.0 on a CPU)

Outputs are the results, then, where there is a dy, the gradients of sum(result * dy) by the float
inputs in their order.
"""
import numpy as np
import torch
import torch.nn.functional as F

from nn_goldens import Records

torch.manual_seed(36)
records = Records("nn")


def normal(*shape):
    return torch.randn(*shape, dtype=torch.float32)


def f32(x):
    return x.detach().to(torch.float32).numpy()


def add(op, args, f, inputs, gradients=True):
    """f(inputs...) in f64, and its gradients. inputs: by name; floats are f32."""
    wide = {name: x.double().requires_grad_(gradients) if x.is_floating_point() else x
            for name, x in inputs.items()}
    y = f(**wide)
    stored = {name: x.numpy() for name, x in inputs.items()}
    outputs = [f32(y)]
    if gradients:
        dy = torch.randn(y.shape, dtype=torch.float32)
        floats = [x for x in wide.values() if x.is_floating_point()]
        found = torch.autograd.grad(y, floats, dy.double(), allow_unused=True)
        outputs += [f32(torch.zeros_like(x) if dx is None else dx)
                    for x, dx in zip(floats, found)]
        stored["dy"] = dy.numpy()
    records.add(op, args, stored, outputs)


def channels_last(x, axis):
    return x.movedim(axis, -1)


def add_activations():
    x = torch.cat([torch.linspace(-12, 12, 40), torch.tensor([-90.0, 90.0])])
    for name, f in [("relu2", lambda x: F.relu(x) ** 2), ("softplus", lambda x: F.softplus(x, threshold=1e9)),
                    ("log_sigmoid", lambda x: F.logsigmoid(x)), ("mish", lambda x: F.mish(x)), ("softsign", lambda x: F.softsign(x)),
                    ("gelu_fast_approx", lambda x: x * torch.sigmoid(1.702 * x))]:
        add("activation", {"kind": name}, f, {"x": x})
    add("elu", {"alpha": 0.75}, lambda x: F.elu(x, 0.75), {"x": x})
    add("leaky_relu", {"slope": 0.2}, lambda x: F.leaky_relu(x, 0.2), {"x": x})


def add_norms():
    def rms(x, weight, axis):
        x = channels_last(x, axis)
        return channels_last(F.rms_norm(x, x.shape[-1:], weight, 1e-5), -1).movedim(-1, axis)

    def layer(x, weight, bias, axis):
        x = channels_last(x, axis)
        return F.layer_norm(x, x.shape[-1:], weight, bias, 1e-5).movedim(-1, axis)

    for axis in (0, 1, -2):
        x = normal(4, 5, 6)
        n = x.shape[axis]
        add("rms_norm_axis", {"axis": axis}, lambda x, weight: rms(x, weight, axis),
            {"x": x, "weight": normal(n)})
        add("layer_norm_axis", {"axis": axis},
            lambda x, weight, bias: layer(x, weight, bias, axis),
            {"x": x, "weight": normal(n), "bias": normal(n)})
    for shape, groups in (((2, 6, 5), 3), ((2, 4, 3, 4), 1), ((3, 4, 2, 2, 2), 4), ((4, 8), 2)):
        channels = shape[1]
        add("group_norm", {"groups": groups},
            lambda x, weight, bias: F.group_norm(x, groups, weight, bias, 1e-5),
            {"x": 3 + normal(*shape), "weight": normal(channels), "bias": normal(channels)})


def rotate(x, cos, sin):
    h = cos.shape[-1]
    length = x.shape[-2]
    cos, sin = cos[:length], sin[:length]
    a, b = x[..., :h], x[..., h:2 * h]
    return torch.cat([a * cos - b * sin, b * cos + a * sin, x[..., 2 * h:]], -1)


def axial(x, height, width):
    half = x.shape[-1] // 2
    freqs = 10000.0 ** (-torch.arange(0, half, 2, dtype=torch.float64) / half)
    rows = torch.arange(height, dtype=torch.float64).repeat_interleave(width)[:, None] * freqs
    columns = torch.arange(width, dtype=torch.float64).repeat(height)[:, None] * freqs
    return torch.cat([rotate(x[..., :half], rows.cos(), rows.sin()),
                      rotate(x[..., half:], columns.cos(), columns.sin())], -1)


def add_positions():
    for shape, p, h in (((2, 3, 5, 8), 5, 4), ((5, 8), 9, 2), ((1, 4, 7), 4, 3), ((2, 3, 4), 3, 0)):
        add("rope_tables", {}, rotate, {"x": normal(*shape), "cos": normal(p, h),
                                        "sin": normal(p, h)})
    add("axial_rope2d", {"height": 3, "width": 4}, lambda x: axial(x, 3, 4),
        {"x": normal(2, 2, 12, 8)})
    add("axial_rope2d", {"height": 1, "width": 5}, lambda x: axial(x, 1, 5), {"x": normal(5, 12)})
    add("resize_nearest2x", {}, lambda x: F.interpolate(x, scale_factor=2, mode="nearest"),
        {"x": normal(2, 3, 4, 5)})


def main():
    add_activations()
    add_norms()
    add_positions()
    records.save()


if __name__ == "__main__":
    main()
