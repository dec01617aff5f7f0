#!/usr/bin/env python3
"""Makes tests/fixtures/ops/gradients.*: gradients of fused ops as JAX computes them, in f64.

    python3 tools/make_gradient_goldens.py  (needs the Python packages jax, numpy and safetensors;
                                             made with jax 0.10.2 on a CPU)

A record's outputs are the op's result and the gradients of sum(result * dy) by its float inputs, in
their order. Of `mlp` they are the gradient of the loss and its derivative in the direction u. The
ops are written here from their formulas.
"""
import hashlib
import json
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
from safetensors.numpy import save_file

jax.config.update("jax_enable_x64", True)
FIXTURES = pathlib.Path(__file__).resolve().parent.parent / "tests/fixtures"
random = np.random.default_rng(35)
cases, tensors = [], {}


def normal(*shape):
    return random.standard_normal(shape).astype(np.float32)


def save(op, args, inputs, outputs):
    name = f"{op}.{sum(case['op'] == op for case in cases)}"
    outputs = [np.ascontiguousarray(np.asarray(y, np.float32)) for y in outputs]
    for key, x in inputs.items():
        tensors[f"{name}/in/{key}"] = np.ascontiguousarray(x)
    for i, y in enumerate(outputs):
        tensors[f"{name}/out/{i}"] = y
    cases.append({"name": name, "op": op, "args": args, "in": list(inputs), "n_out": len(outputs),
                  "out_dtypes": ["f32"] * len(outputs)})


def add(op, args, f, inputs):
    """f takes the inputs by their names; dy is added to them."""
    floats = {k: jnp.asarray(x, jnp.float64) for k, x in inputs.items() if x.dtype == np.float32}
    rest = {k: x for k, x in inputs.items() if k not in floats}
    y, back = jax.vjp(lambda given: f(**given, **rest), floats)
    dy = normal(*y.shape)
    (grads,) = back(jnp.asarray(dy, jnp.float64))
    save(op, args, {**inputs, "dy": dy}, [y] + [grads[k] for k in inputs if k in floats])


def sdpa(q, k, v, args, mask=None, sinks=None):
    group, lq, lk = q.shape[1] // k.shape[1], q.shape[2], k.shape[2]
    k, v = jnp.repeat(k, group, 1), jnp.repeat(v, group, 1)
    s = jnp.einsum("bhqd,bhkd->bhqk", q, k) * (args.get("scale") or q.shape[-1] ** -0.5)
    if args.get("softcap"):
        s = args["softcap"] * jnp.tanh(s / args["softcap"])
    if mask is not None:
        s = jnp.where(mask, s, -jnp.inf) if mask.dtype == bool else s + mask
    if args.get("causal"):
        i, j = np.arange(lq)[:, None] + lk - lq, np.arange(lk)
        seen = j <= i
        if args.get("window"):
            seen &= (j > i - args["window"]) | (j < args.get("keep", 0))
        s = jnp.where(seen, s, -jnp.inf)
    all_scores = s
    if sinks is not None:
        sink = jnp.broadcast_to(sinks[:, None, None], s.shape[:3] + (1,))
        all_scores = jnp.concatenate([s, sink], -1)
    p = jnp.exp(s - jax.scipy.special.logsumexp(all_scores, -1, keepdims=True))
    return jnp.einsum("bhqk,bhkd->bhqd", p, v)


def add_sdpa(heads, kv_heads, lq, lk, d, dv, mask=None, sinks=False, **args):
    inputs = {"q": normal(2, heads, lq, d), "k": normal(2, kv_heads, lk, d),
              "v": normal(2, kv_heads, lk, dv)}
    if mask is not None:
        inputs["mask"] = mask
    if sinks:
        inputs["sinks"] = normal(heads)
    add("sdpa", args, lambda **given: sdpa(args=args, **given), inputs)


def dequantize(codes, scales, biases, bits, group):
    shifts = np.arange(0, 32, bits, dtype=np.uint32)
    numbers = (codes[..., None] >> shifts & np.uint32((1 << bits) - 1)).reshape(len(codes), -1)
    return (jnp.repeat(scales, group, -1) * numbers.astype(np.float64)
            + jnp.repeat(biases, group, -1))


def add_quantized(rows, n, k, bits, group, transpose):
    args = {"bits": bits, "group_size": group, "transpose": transpose}
    words = random.integers(0, 2 ** 32, (n, k * bits // 32), dtype=np.uint64).astype(np.uint32)
    inputs = {"x": normal(rows, k if transpose else n), "codes": words,
              "scales": normal(n, k // group) / 8, "biases": normal(n, k // group)}

    def f(x, codes, scales, biases):
        w = dequantize(codes, scales, biases, bits, group)
        return x @ (w.T if transpose else w)

    add("quantized_matmul", args, f, inputs)


def cross_entropy(logits, targets):
    taken = jnp.take_along_axis(logits, targets[..., None] % logits.shape[-1], -1)[..., 0]
    return jax.scipy.special.logsumexp(logits, -1) - taken


def rms_norm(x, w):
    return x / jnp.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * w


def layer_norm(x, w, b):
    x = x - x.mean(-1, keepdims=True)
    return rms_norm(x, w) + b


def rope(x, freqs, offset):
    half = len(freqs)
    angle = (np.arange(x.shape[-2]) + offset[:, None, None])[..., None] / freqs
    c, s, a, b = jnp.cos(angle), jnp.sin(angle), x[..., :half], x[..., half:2 * half]
    return jnp.concatenate([a * c - b * s, a * s + b * c, x[..., 2 * half:]], -1)


def mlp(w, x):
    h = rms_norm(jax.nn.silu(x @ w), 1)
    return ((jax.nn.softmax(h @ w.T, -1)) ** 2).mean()


def add_mlp():
    w, x, u = normal(6, 8), normal(4, 6), normal(6, 8)
    wide = [jnp.asarray(a, jnp.float64) for a in (w, x, u)]
    slope, curve = jax.jvp(lambda v: jax.grad(mlp)(v, wide[1]), (wide[0],), (wide[2],))
    save("mlp", {}, {"w": w, "x": x, "u": u}, [slope, curve])


def update_manifest(names):
    path = FIXTURES / "MANIFEST.sha256"
    lines = [line for line in path.read_text().splitlines() if line.split("  ")[1] not in names]
    lines += [f"{hashlib.sha256((FIXTURES / name).read_bytes()).hexdigest()}  {name}"
              for name in names]
    path.write_text("\n".join(sorted(lines, key=lambda line: line.split("  ")[1])) + "\n")


def main():
    add_sdpa(4, 4, 7, 7, 8, 8)
    add_sdpa(6, 2, 5, 20, 8, 12, scale=0.3)
    add_sdpa(4, 2, 30, 30, 8, 8, causal=True)
    add_sdpa(2, 1, 12, 20, 8, 8, causal=True)
    add_sdpa(2, 1, 30, 30, 8, 8, causal=True, window=7)
    add_sdpa(2, 1, 30, 30, 8, 8, causal=True, window=7, keep=3)
    add_sdpa(4, 2, 20, 20, 8, 8, causal=True, window=9, softcap=2.0)
    add_sdpa(2, 2, 6, 10, 8, 8, mask=random.random((2, 1, 6, 10)) < 0.6, softcap=3.0)
    add_sdpa(2, 2, 6, 10, 8, 8, mask=normal(2, 1, 10))
    add_sdpa(4, 2, 9, 9, 8, 8, causal=True, sinks=True)
    add_quantized(3, 8, 128, 4, 64, True)
    add_quantized(5, 16, 64, 4, 32, False)
    add_quantized(3, 8, 128, 2, 32, True)
    add_quantized(3, 8, 128, 8, 128, True)
    targets = random.integers(-50, 50, (3, 4)).astype(np.int32)
    add("cross_entropy", {}, cross_entropy, {"logits": 3 * normal(3, 4, 50), "targets": targets})
    add("rms_norm", {}, rms_norm, {"x": normal(2, 3, 40), "w": normal(40)})
    add("layer_norm", {}, layer_norm, {"x": normal(2, 3, 40), "w": normal(40), "b": normal(40)})
    add("rope", {}, rope, {"x": normal(2, 3, 5, 10), "freqs": (1 + random.random(4)).astype("f4"),
                           "offset": np.array([3, 0], np.int32)})
    add_mlp()
    save_file(tensors, FIXTURES / "ops/gradients.safetensors")
    (FIXTURES / "ops/gradients.json").write_text(json.dumps({"cases": cases}) + "\n")
    (FIXTURES / "ops/gradients.safetensors").chmod(0o644)
    update_manifest(["README.md", "ops/gradients.json", "ops/gradients.safetensors"])


if __name__ == "__main__":
    main()
