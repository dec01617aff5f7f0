#!/usr/bin/env python3
"""Makes tests/fixtures/ops/parts.*: ops of several results as JAX computes them.

    python3 tools/make_parts_goldens.py     (needs the Python packages jax, numpy and safetensors;
                                             made with jax 0.10.2 on a CPU)

topk_indices is jax.lax.top_k: the largest first, of equal ones the one with the lower index, NaN
before all. Zeros are left out, whose signs JAX tells apart. sdpa_lse is
jax.nn.dot_product_attention with return_residual, in f32; its heads are moved before the queries.
"""
import hashlib
import json
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
from safetensors.numpy import save_file

FIXTURES = pathlib.Path(__file__).resolve().parent.parent / "tests/fixtures"
DTYPES = {"float32": "f32", "float16": "f16", "int32": "i32", "uint8": "u8", "uint32": "u32"}
random = np.random.default_rng(33)
cases, tensors = [], {}


def add(op, args, inputs, outputs):
    name = f"{op}.{sum(case['op'] == op for case in cases)}"
    outputs = [np.ascontiguousarray(y) for y in outputs]
    for key, x in inputs.items():
        tensors[f"{name}/in/{key}"] = np.ascontiguousarray(x)
    for i, y in enumerate(outputs):
        tensors[f"{name}/out/{i}"] = y
    cases.append({"name": name, "op": op, "args": args, "in": list(inputs), "n_out": len(outputs),
                  "out_dtypes": [DTYPES[str(y.dtype)] for y in outputs]})


def add_topk(x, k, axis=-1):
    values, indices = jax.lax.top_k(jnp.asarray(x), k, axis=axis)
    add("topk_indices", {"k": k, "axis": axis}, {"a": x},
        [np.asarray(values), np.asarray(indices).astype(np.uint32)])


def add_sdpa(heads, kv_heads, lq, lk, d, scale=None, causal=False, window=0, mask=None, bias=None):
    q, k, v = (random.standard_normal((2, n, h, d)).astype(np.float32)
               for n, h in ((lq, heads), (lk, kv_heads), (lk, kv_heads)))
    y, lse = jax.nn.dot_product_attention(
        q, k, v, scale=scale, is_causal=causal, mask=mask, bias=bias,
        local_window_size=(window - 1, 0) if window else None, return_residual=True)
    inputs = {name: x.transpose(0, 2, 1, 3) for name, x in (("q", q), ("k", k), ("v", v))}
    if mask is not None or bias is not None:
        inputs["mask"] = mask if bias is None else bias
    add("sdpa_lse", {"scale": scale or 0, "causal": causal, "window": window}, inputs,
        [np.asarray(y).transpose(0, 2, 1, 3), np.asarray(lse).transpose(0, 2, 1)])


def update_manifest(names):
    path = FIXTURES / "MANIFEST.sha256"
    lines = [line for line in path.read_text().splitlines() if line.split("  ")[1] not in names]
    lines += [f"{hashlib.sha256((FIXTURES / name).read_bytes()).hexdigest()}  {name}"
              for name in names]
    path.write_text("\n".join(sorted(lines, key=lambda line: line.split("  ")[1])) + "\n")


def main():
    normal = lambda *shape: random.standard_normal(shape).astype(np.float32)
    few = lambda dtype, low, high: random.integers(low, high, (4, 50)).astype(dtype)
    add_topk(normal(3, 100), 7)
    add_topk(normal(5, 6, 2), 6, axis=1)
    add_topk(normal(40, 3).astype(np.float16), 1, axis=0)
    add_topk(few(np.int32, -5, 6), 20)
    add_topk(few(np.uint8, 0, 256), 50)
    add_topk(few(np.float32, 1, 4), 30)
    add_topk(np.array([[1, np.nan, 3, np.inf, np.nan, -np.inf, 3]], np.float32), 5)
    add_sdpa(4, 4, 9, 9, 16)
    add_sdpa(6, 2, 5, 40, 16, scale=0.3)
    add_sdpa(4, 2, 33, 33, 8, causal=True)
    add_sdpa(2, 1, 40, 40, 8, causal=True, window=7)
    add_sdpa(2, 2, 3, 50, 8, mask=random.random((1, 2, 3, 50)) < 0.3)
    add_sdpa(2, 2, 8, 20, 16, bias=normal(2, 1, 8, 20))
    save_file(tensors, FIXTURES / "ops/parts.safetensors")
    (FIXTURES / "ops/parts.json").write_text(json.dumps({"cases": cases}) + "\n")
    (FIXTURES / "ops/parts.safetensors").chmod(0o644)
    update_manifest(["README.md", "ops/parts.json", "ops/parts.safetensors"])


if __name__ == "__main__":
    main()
