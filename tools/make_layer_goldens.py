#!/usr/bin/env python3
"""Makes tests/fixtures/ops/layer.*: layers, losses, quantised values, sampling and linear equations
of mica/nn.h and mica/ops.h.

    python3 tools/make_layer_goldens.py     (needs the Python packages torch, numpy, onnx, gguf, mlx
                                             and safetensors; made with torch 2.15.0, gguf 0.19.0,
                                             onnx 1.23.2, mlx 0.32.2 on a CPU)

PyTorch in f64 with gradients for layers, losses and solve; onnx's reference evaluator for int8;
gguf for ggml's blocks; torch.fake_quantize for codes; MLX's random numbers under a filter in NumPy
for sample.
"""
import gguf
import mlx.core as mx
import numpy as np
import torch
import torch.nn.functional as F
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from torch_goldens import TorchRecords, normal

torch.manual_seed(37)
random = np.random.default_rng(37)
records = TorchRecords("layer")
add = records.check


# ---- attention and layers ----

def attend(q, k, v, kind, window=0, mask=None, cap=0.0, heads=0):
    packed = q.dim() == 3
    if packed:
        q, k, v = (x.unflatten(-1, (heads, -1)).transpose(1, 2) for x in (q, k, v))
    rep = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(rep, 1), v.repeat_interleave(rep, 1)
    scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    if cap:
        scores = cap * torch.tanh(scores / cap)
    lq, lk = scores.shape[-2:]
    i, j = torch.arange(lq)[:, None] + lk - lq, torch.arange(lk)[None]
    seen = torch.ones(lq, lk, dtype=torch.bool)
    if kind in ("causal", "window"):
        seen = j <= i
    if kind == "window":
        seen = seen & (j > i - window)
    if kind == "custom":
        seen = mask if mask.dtype == torch.bool else mask >= 0.5
        while seen.dim() < 4:
            seen = seen.unsqueeze(1)
    if kind == "bias":
        scores = scores + mask
    scores = scores.masked_fill(~seen, -torch.inf)
    p = torch.nan_to_num(torch.softmax(scores, -1))
    y = p @ v
    return y.transpose(1, 2).flatten(2) if packed else y


def add_attention():
    def qkv(lq, lk, h=2, kv=2, d=4):
        return {"q": normal(2, h, lq, d), "k": normal(2, kv, lk, d), "v": normal(2, kv, lk, d)}

    add("attention", {"mask": "none"}, lambda q, k, v: attend(q, k, v, "none"), qkv(3, 5, 4, 2))
    add("attention", {"mask": "causal"}, lambda q, k, v: attend(q, k, v, "causal"), qkv(3, 5))
    add("attention", {"mask": "window", "window": 2, "softcap": 3.0},
        lambda q, k, v: attend(q, k, v, "window", 2, cap=3.0), qkv(6, 6))
    for mask in (torch.rand(2, 5) > 0.5, (torch.rand(2, 3, 5) > 0.4).to(torch.int32),
                 torch.rand(2, 2, 3, 5) > 0.3):
        mask[..., 0] = 1
        add("attention", {"mask": "custom"},
            lambda q, k, v, mask: attend(q, k, v, "custom", mask=mask), qkv(3, 5) | {"mask": mask})
    add("attention", {"mask": "bias"},
        lambda q, k, v, mask: attend(q, k, v, "bias", mask=mask), qkv(3, 5) |
        {"mask": normal(1, 2, 3, 5)})
    add("attention", {"mask": "causal", "heads": 3},
        lambda q, k, v: attend(q, k, v, "causal", heads=3),
        {"q": normal(2, 4, 12), "k": normal(2, 4, 12), "v": normal(2, 4, 12)})


def block(x, wqkv, bqkv, wo, bo, heads, kind, **more):
    q, k, v = (x @ wqkv + bqkv).chunk(3, -1)
    return attend(q, k, v, kind, heads=heads, **more) @ wo + bo


def layer(x, wqkv, bqkv, wo, bo, g1, b1, w1, bias1, w2, bias2, g2, b2, heads, kind, **more):
    d = x.shape[-1:]
    h = F.layer_norm(x + block(x, wqkv, bqkv, wo, bo, heads, kind, **more), d, g1, b1, 1e-5)
    return F.layer_norm(h + F.gelu(h @ w1 + bias1) @ w2 + bias2, d, g2, b2, 1e-5)


def add_layers():
    d, e, f = 6, 8, 10

    def weights():
        return {"wqkv": normal(d, 3 * e) / 2, "bqkv": normal(3 * e) / 9, "wo": normal(e, d) / 2,
                "bo": normal(d) / 9, "g1": normal(d), "b1": normal(d), "w1": normal(d, f) / 2,
                "bias1": normal(f) / 9, "w2": normal(f, d) / 2, "bias2": normal(d) / 9,
                "g2": normal(d), "b2": normal(d)}

    masks = {"none": {}, "causal": {}, "window": {"window": 2},
             "custom": {"mask": torch.tensor([[1, 1, 0, 1, 1], [1, 0, 1, 1, 0]])},
             "bias": {"mask": normal(1, 2, 5, 5)}}
    for kind, more in masks.items():
        inputs = {"x": normal(2, 5, d)} | weights()
        args = {"mask": kind, "heads": 2, "window": more.get("window", 0)}
        window = {"window": more["window"]} if "window" in more else {}
        if "mask" in more:
            inputs["mask"] = more["mask"]
        add("transformer_layer", args,
            lambda x, mask=None, **w: layer(x, *w.values(), heads=2, kind=kind, mask=mask,
                                            **window), inputs, gradients=kind == "none")
    add("matmul_bias_act", {"act": 3}, lambda x, w, b: F.gelu(x @ w + b, approximate="tanh"),
        {"x": normal(3, 4), "w": normal(4, 5), "b": normal(5)})
    add("residual_layer_norm", {},
        lambda x, r, b, g, beta: F.layer_norm(x + r + b, (6,), g, beta, 1e-5),
        {"x": normal(3, 6), "r": normal(3, 6), "b": normal(6), "g": normal(6), "beta": normal(6)})
    add("residual_rms_norm", {}, lambda x, r, g: F.rms_norm(x + r, (6,), g, 1e-5),
        {"x": normal(3, 6), "r": normal(3, 6), "g": normal(6)})
    for first in (False, True):
        def gate(x):
            a, b = x.chunk(2, -1)
            return b * F.silu(a) if first else a * F.silu(b)
        add("swiglu", {"gate_first": first}, gate, {"x": normal(3, 8)})
    add("lora_matmul", {"scale": 0.5}, lambda x, w, a, b: x @ w + 0.5 * (x @ a) @ b,
        {"x": normal(3, 4), "w": normal(4, 5), "a": normal(4, 2), "b": normal(2, 5)})


def add_losses():
    labels = torch.tensor([0, 3, -100, 2, -100], dtype=torch.int64)
    add("softmax_cross_entropy", {"ignore": -100},
        lambda x, labels: F.cross_entropy(x, labels, reduction="none", ignore_index=-100),
        {"x": 3 * normal(5, 4), "labels": labels})
    add("softmax_cross_entropy", {},
        lambda x, labels: F.cross_entropy(x, labels, reduction="none"),
        {"x": 3 * normal(3, 4), "labels": torch.tensor([1, 0, 3], dtype=torch.int64)})
    x = torch.cat([torch.linspace(-3, 3, 13), torch.tensor([0.0])])
    for kind, f in [(1, F.relu), (2, F.gelu), (3, lambda x: F.gelu(x, approximate="tanh")),
                    (4, F.silu), (5, torch.sigmoid), (6, torch.tanh), (7, torch.exp),
                    (8, torch.log), (9, torch.sqrt), (10, torch.rsqrt), (11, torch.neg),
                    (12, torch.abs), (13, torch.sin), (14, torch.cos), (15, torch.tan),
                    (16, torch.arctan)]:
        at = torch.linspace(0.3, 3, 8) if kind in (8, 9, 10) else x
        add("activate", {"kind": kind}, lambda x: f(x), {"x": at})
    for n in (1, 4):
        add("solve", {}, lambda a, b: torch.linalg.solve(a, b),
            {"a": normal(3, n, n) + 3 * torch.eye(n), "b": normal(3, n, 2)})
    add("solve", {}, lambda a, b: torch.linalg.solve(a, b), {"a": normal(5, 5), "b": normal(5)})
    a = torch.tensor([[0.0, 2.0], [3.0, 1.0]])
    add("solve", {}, lambda a, b: torch.linalg.solve(a, b), {"a": a, "b": normal(2, 2)})


# ---- quantised values ----

class Rounded(torch.autograd.Function):
    """y = clamp(round(x / s)) s, with an estimator's gradient by x and LSQ's by s."""

    @staticmethod
    def forward(ctx, x, s, q, ste, wide, k):
        ctx.save_for_backward(x, s)
        ctx.rest = q, ste, wide, k
        return torch.clamp(torch.round(x / s), -q, q) * s

    @staticmethod
    def backward(ctx, dy):
        x, s = ctx.saved_tensors
        q, ste, wide, k = ctx.rest
        within = (x.abs() <= q * s).to(dy)
        slope = {0: torch.ones_like(x), 1: within,
                 2: 1 - torch.tanh(x / (q * s if wide else s)) ** 2,
                 3: torch.clamp(1 - x.abs() / (q * s), min=0)}[ste]
        z = x / s
        psi = torch.where(z.abs() <= q, torch.round(z) - z, torch.sign(z) * q)
        ds = k * (psi * dy)
        axes = [i for i in range(x.dim()) if s.dim() == 0 or s.shape[i] == 1]
        return dy * slope, ds.sum(axes, keepdim=True).reshape(s.shape), None, None, None, None


def scale_of(x, axis, q):
    axes = [i for i in range(x.dim()) if axis is None or i != axis % x.dim()]
    return x.abs().amax(axes) / q if axes else x.abs() / q


def as_axis(s, x, axis):
    shape = [1] * x.dim()
    if axis is not None:
        shape[axis] = -1
    return s.reshape(shape)


def add_fake_quantize():
    def run(x, bits, axis, mode, ste, wide=False, decay=0.0, scale=None):
        q = 2 ** (bits - 1) - 1
        now = scale_of(x, axis, q).detach().reshape(-1)
        if mode == 1:
            now = scale.detach().expand_as(now)
        if mode == 2:
            old = scale.detach()
            now = torch.where(old <= 0, now, decay * old + (1 - decay) * now)
        s = as_axis(torch.clamp(now, min=1e-12), x, axis)
        return Rounded.apply(x, s.detach(), q, ste, wide, 0.0), now

    def record(x, bits, axis, mode, ste, **more):
        args = {"bits": bits, "mode": mode, "ste": ste} | {
            k: v for k, v in more.items() if k != "scale"}
        if axis is not None:
            args["axis"] = axis
        inputs = {"x": x} | ({"scale": more.pop("scale")} if "scale" in more else {})
        wide = {name: v.double() for name, v in inputs.items()}
        wide["x"].requires_grad_()
        dy = torch.randn(x.shape, dtype=torch.float32)
        y, state = run(wide["x"], bits, axis, mode, ste, scale=wide.get("scale"), **more)
        dx, = torch.autograd.grad(y, wide["x"], dy.double())
        records.add("fake_quantize", args,
                    {name: v.numpy() for name, v in inputs.items()} | {"dy": dy.numpy()},
                    [v.detach().float().numpy() for v in (y, state, dx)])

    for bits in (8, 4, 2, 5):
        record(normal(4, 6), bits, None, 0, 0)
    record(normal(3, 4, 5), 8, 1, 0, 1)
    scale = 0.1 + 0.1 * torch.rand(4)
    record(normal(4, 6), 4, 0, 1, 1, scale=scale)
    record(normal(4, 6), 4, 0, 1, 2, scale=scale)
    record(normal(4, 6), 4, 0, 1, 2, scale=scale, wide=True)
    record(normal(4, 6), 4, 0, 1, 3, scale=scale)
    record(normal(4, 6), 4, -1, 2, 0, scale=torch.tensor([0.0, 0.3, 0.1, 0, 0.2, 0.5]), decay=0.9)
    record(normal(7), 8, None, 2, 0, scale=torch.tensor([0.02]), decay=0.5)
    for axis, k in ((None, 0.0), (1, 1.0), (0, 0.0)):
        x = normal(4, 6)
        scale = 0.2 + 0.2 * torch.rand(1 if axis is None else x.shape[axis])
        n = x.numel() // scale.numel()
        factor = k if k else 1 / (n * 7) ** 0.5
        add("fake_quantize_lsq", {"bits": 4, "k": k} | ({} if axis is None else {"axis": axis}),
            lambda x, scale: Rounded.apply(x, as_axis(scale, x, axis), 7, 1, False, factor),
            {"x": x, "scale": scale})


def onnx_node(op, inputs, out_kind, **attributes):
    kinds = {"float32": TensorProto.FLOAT, "int8": TensorProto.INT8, "uint8": TensorProto.UINT8}
    values = [helper.make_tensor_value_info(name, kinds[str(x.dtype)], x.shape)
              for name, x in inputs.items()]
    out = helper.make_tensor_value_info("y", out_kind, None)
    graph = helper.make_graph([helper.make_node(op, list(inputs), ["y"], **attributes)], op, values,
                              [out])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    return ReferenceEvaluator(model).run(None, inputs)[0]


def add_int8():
    for axis in (None, 0, 1):
        x = (3 * random.standard_normal((4, 6))).astype(np.float32)
        x[0, 0], x[0, 1] = 2.5 * 0.05, 1e3  # a tie, and too large
        channels = () if axis is None else (x.shape[axis],)
        scale = np.full(channels, 0.05, np.float32)
        zero = random.integers(-20, 20, channels).astype(np.int8)
        more = {} if axis is None else {"axis": axis}
        q = onnx_node("QuantizeLinear", {"x": x, "s": scale, "z": zero}, TensorProto.INT8, **more)
        y = onnx_node("DequantizeLinear", {"q": q, "s": scale, "z": zero}, TensorProto.FLOAT,
                      **more)
        inputs = {"scale": scale, "zero": zero}
        records.add("quantize_int8", more, {"x": x} | inputs, [q])
        records.add("dequantize_int8", more, {"q": q} | inputs, [y])
    for k in (5, 1500):
        x, w = (random.integers(-128, 128, s).astype(np.int8) for s in ((3, k), (k, 4)))
        bias = random.integers(-1000, 1000, 4).astype(np.int32)
        factor = np.array([0.001, 0.002, 0.0005, 0.003], np.float32) / np.float32(k ** 0.5)
        sums = (x.astype(np.int64) - 3) @ (w.astype(np.int64) + 7) + bias
        y = np.rint(sums.astype(np.float32) * factor) + 5
        records.add("qmatmul", {"x_zero": 3, "w_zero": -7, "zero": 5},
                    {"x": x, "w": w, "bias": bias, "factor": factor},
                    [np.clip(y, -128, 127).astype(np.int8)])


def add_weights():
    kinds = gguf.GGMLQuantizationType
    x = random.standard_normal((2, 512)).astype(np.float32)

    def record(scheme, inputs, w):
        records.add("dequant_matmul", {"scheme": scheme},
                    {"x": x[:, :w.shape[0]].copy()} | inputs,
                    [w, (x[:, :w.shape[0]].astype(np.float64) @ w).astype(np.float32)])

    q = random.integers(-128, 128, (8, 6)).astype(np.int8)
    scale, zero = (random.random((2, 6)).astype(np.float32) for _ in range(2))
    spread = lambda v: np.repeat(v, 4, 0)
    record(0, {"codes": q, "scale": scale}, q * spread(scale))
    record(0, {"codes": q, "scale": scale, "zero": zero}, (q - spread(zero)) * spread(scale))
    q = random.integers(0, 16, (8, 6)).astype(np.uint8)
    packed = q[:, ::2] | q[:, 1::2] << 4
    record(1, {"codes": packed, "scale": scale, "zero": zero}, (q - spread(zero)) * spread(scale))
    signed = np.where(q > 7, q.astype(np.float32) - 16, q).astype(np.float32)
    record(1, {"codes": packed, "scale": scale}, signed * spread(scale))
    codes = random.integers(0, 0x78, (8, 6)).astype(np.uint8) | random.integers(0, 2, (8, 6)).astype(
        np.uint8) << 7
    for scheme, dtype in ((2, torch.float8_e4m3fn), (3, torch.float8_e5m2)):
        record(scheme, {"codes": codes}, torch.from_numpy(codes).view(dtype).float().numpy())
    w = mx.array(random.standard_normal((4, 32)).astype(np.float32))
    codes, scales = mx.quantize(w, mode="nvfp4", group_size=16, bits=4)
    y = mx.dequantize(codes, scales, mode="nvfp4", group_size=16, bits=4, dtype=mx.float32)
    record(4, {"codes": np.array(codes), "scale": np.array(scales),
               "global": np.array([0.75], np.float32)}, np.array(y).T * np.float32(0.75))
    blocks = [(5, kinds.Q4_0, 18, [0]), (6, kinds.Q8_0, 34, [0]), (7, kinds.Q2_K, 84, [80, 82]),
              (8, kinds.Q3_K, 110, [108]), (9, kinds.Q4_K, 144, [0, 2]),
              (10, kinds.Q5_K, 176, [0, 2]), (11, kinds.Q6_K, 210, [208])]
    for scheme, kind, size, halves in blocks:
        rows = random.integers(0, 256, (3, 2, size)).astype(np.uint8)
        for at in halves:
            rows[..., at:at + 2] = (random.standard_normal((3, 2, 1)) / 100).astype(
                np.float16).view(np.uint8)
        rows = rows.reshape(3, -1)
        record(scheme, {"codes": rows}, gguf.dequantize(rows, kind).astype(np.float32).T)
    rows = random.integers(0, 256, (3, 1, 292)).astype(np.uint8)
    rows[..., :4] = (random.standard_normal((3, 1, 1)) / 100).astype(np.float32).view(np.uint8)
    d, q = rows[..., :4].copy().view(np.float32), rows[..., 4:260].copy().view(np.int8)
    record(12, {"codes": rows.reshape(3, -1)}, (d * q).reshape(3, -1).T.astype(np.float32))


# ---- sampling ----

def filtered(z, top_k, top_p, min_p):
    """The logits that are left, in f64; others are -inf. The margin of the sums, as well."""
    order = np.argsort(-z, kind="stable")
    n = len(z) if top_k == 0 else min(top_k, len(z))
    p = np.exp(z[order[:n]] - z.max())
    p /= p.sum()
    before = np.concatenate([[0], np.cumsum(p)[:-1]])
    keep = (before < top_p) if top_p < 1 else np.ones(n, bool)
    keep[0] = True
    keep &= (p >= min_p * p[0])
    out = np.full_like(z, -np.inf)
    out[order[:n][keep]] = z[order[:n][keep]]
    return out


def add_sample():
    v = 50
    for number, (t, k, p, m) in enumerate([(1, 0, 1, 0), (0.7, 5, 1, 0), (1.5, 0, 0.8, 0),
                                           (1, 0, 1, 0.2), (0.9, 20, 0.9, 0.05), (0, 3, 0.5, 0),
                                           (1, 1, 1, 0), (1, 0, 0, 0)]):
        x = (2 * random.standard_normal((16, v))).astype(np.float32)
        x[0, :10] = 4.0  # equal ones
        x[1, 5:] = -np.inf
        key = mx.random.key(number)
        noise = np.array(mx.random.gumbel((16, v), key=key)).astype(np.float64)
        ids = []
        for row, g in zip(x.astype(np.float64), noise):
            if t == 0:
                ids.append(np.argmax(row))
                continue
            score = filtered(row / t, k, p, m) + g
            best = np.argsort(-score)[:2]
            assert score[best[0]] - score[best[1]] > 1e-3, "too close"
            ids.append(best[0])
        records.add("sample", {"temperature": t, "top_k": k, "top_p": p, "min_p": m},
                    {"key": np.array(key), "x": x}, [np.array(ids, np.int32)])


def main():
    add_attention()
    add_layers()
    add_losses()
    add_fake_quantize()
    add_int8()
    add_weights()
    add_sample()
    records.save()


if __name__ == "__main__":
    main()
