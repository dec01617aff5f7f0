#!/usr/bin/env python3
"""Makes tests/fixtures/ops/nn.*: the ops of mica/nn.h and their gradients, as PyTorch computes them
in f64.

    python3 tools/make_nn_goldens.py        (needs the Python packages torch, numpy and safetensors;
                                             made with torch 2.15.0 on a CPU)

Outputs are the results, then, where there is a dy, the gradients of sum(result * dy) by the float
inputs in their order. The recurrences are step by step, as their papers say: selective_scan as in
mamba's selective_scan_ref.
"""
import torch
import torch.nn.functional as F

from torch_goldens import TorchRecords, normal

torch.manual_seed(36)
records = TorchRecords("nn")
add = records.check


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


def selective_scan(x, delta, a, b, c, d=None, z=None, initial=None, softplus=False):
    if softplus:
        delta = F.softplus(delta)
    h = initial if initial is not None else x.new_zeros(x.shape[0], x.shape[2], a.shape[1])
    ys = []
    for t in range(x.shape[1]):
        step = delta[:, t, :, None]
        h = torch.exp(step * a) * h + step * x[:, t, :, None] * b[:, t, None, :]
        ys.append((h * c[:, t, None, :]).sum(-1))
    y = torch.stack(ys, 1)
    if d is not None:
        y = y + d * x
    return y if z is None else y * F.silu(z), h


def gated_delta(q, k, v, g, beta, state=None):
    s = state if state is not None else q.new_zeros(q.shape[0], q.shape[2], q.shape[3], v.shape[3])
    os = []
    for t in range(q.shape[1]):
        s = s * torch.exp(g[:, t])[..., None, None]
        known = torch.einsum("bhn,bhnm->bhm", k[:, t], s)
        d = beta[:, t, :, None] * (v[:, t] - known)
        s = s + k[:, t, :, :, None] * d[:, :, None, :]
        os.append(torch.einsum("bhn,bhnm->bhm", q[:, t], s) / q.shape[3] ** 0.5)
    return torch.stack(os, 1), s


def add_recurrences():
    def operands(batch, length, h, n):
        return {"x": normal(batch, length, h), "delta": 0.5 * torch.rand(batch, length, h),
                "a": -0.1 - torch.rand(h, n), "b": normal(batch, length, n),
                "c": normal(batch, length, n)}

    add("selective_scan", {}, selective_scan, operands(1, 3, 2, 4))
    add("selective_scan", {"softplus": True},
        lambda **o: selective_scan(**o, softplus=True),
        operands(2, 9, 19, 3) | {"d": normal(19), "z": normal(2, 9, 19),
                                 "initial": normal(2, 19, 3)})
    add("selective_scan", {}, selective_scan, operands(1, 150, 5, 2) | {"initial": normal(1, 5, 2)})
    add("selective_scan", {}, selective_scan, operands(3, 1, 17, 1) | {"d": normal(17)})

    def heads(batch, length, h, n, m):
        return {"q": normal(batch, length, h, n), "k": F.normalize(normal(batch, length, h, n)),
                "v": normal(batch, length, h, m), "g": -torch.rand(batch, length, h),
                "beta": torch.rand(batch, length, h)}

    add("gated_delta", {}, gated_delta, heads(1, 4, 2, 3, 5))
    add("gated_delta", {}, gated_delta, heads(2, 1, 3, 4, 4) | {"state": normal(2, 3, 4, 4)})
    add("gated_delta", {}, gated_delta, heads(1, 70, 1, 6, 18) | {"state": normal(1, 1, 6, 18)})


def kv_write(pool, x, slots):
    pool, length = pool.clone(), pool.shape[2]
    for b in range(x.shape[0]):
        for l in range(x.shape[2]):
            slot = int(slots[b, l])
            pool[:, slot // length, slot % length] = x[b, :, l]
    return pool


def paged_sdpa(q, k, v, table, offset, window=0):
    rows = []
    for b in range(q.shape[0]):
        keys, values = (torch.cat([p[:, int(i)] for i in table[b]], 1) for p in (k, v))
        group = q.shape[1] // k.shape[0]
        keys, values = keys.repeat_interleave(group, 0), values.repeat_interleave(group, 0)
        at = int(offset[b]) + torch.arange(q.shape[2])[:, None]
        key = torch.arange(keys.shape[1])[None]
        seen = (key <= at) & (key > at - window) if window else key <= at
        rows.append(F.scaled_dot_product_attention(q[b], keys, values, attn_mask=seen))
    return torch.stack(rows)


def add_blocks():
    def ints(*values):
        return torch.tensor(values, dtype=torch.int32)

    add("kv_write", {}, kv_write, {"pool": normal(2, 3, 4, 5), "x": normal(2, 2, 3, 5),
                                   "slots": ints([11, 0, 5], [6, 1, 8])})
    table, offset = ints([4, 0, 2], [1, 3, 0]), ints(9, 4)
    for window in (0, 5):
        add("paged_sdpa", {"window": window}, lambda **o: paged_sdpa(**o, window=window),
            {"q": normal(2, 4, 3, 8), "k": normal(2, 5, 4, 8), "v": normal(2, 5, 4, 6),
             "table": table, "offset": offset})


def main():
    add_activations()
    add_norms()
    add_positions()
    add_recurrences()
    add_blocks()
    records.save()


if __name__ == "__main__":
    main()
