#!/usr/bin/env python3
"""Makes tests/fixtures/ops/conv.*: convolutions and their gradients as PyTorch computes them.

    python3 tools/make_conv_goldens.py     (needs the Python packages torch, numpy and safetensors;
                                            made with torch 2.15.0 on a CPU)

Computed in f64 and rounded once. Outputs are the result and the gradients of sum(result * dy) by x
and w. Channels are first.
"""
import json
import pathlib

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.numpy import save_file

from make_parts_goldens import update_manifest

FIXTURES = pathlib.Path(__file__).resolve().parent.parent / "tests/fixtures"
random = np.random.default_rng(36)
cases, tensors = [], {}


def add(op, x_shape, w_shape, **args):
    n = len(x_shape) - 2
    groups = args.get("groups", 1)
    args = {k: v if isinstance(v, (list, tuple)) or k == "groups" else [v] * n
            for k, v in args.items()}
    x, w = (torch.tensor(random.standard_normal(s).astype(np.float32)).double().requires_grad_()
            for s in (x_shape, w_shape))
    y = getattr(F, f"{op}{n}d")(x, w, **args)
    dy = torch.tensor(random.standard_normal(tuple(y.shape)).astype(np.float32)).double()
    (y * dy).sum().backward()
    name = f"{op}.{sum(case['op'] == op for case in cases)}"
    for key, v in (("x", x), ("w", w), ("dy", dy)):
        tensors[f"{name}/in/{key}"] = v.detach().numpy().astype(np.float32)
    for i, v in enumerate((y, x.grad, w.grad)):
        tensors[f"{name}/out/{i}"] = v.detach().numpy().astype(np.float32)
    cases.append({"name": name, "op": op, "args": {**args, "groups": groups},
                  "in": ["x", "w", "dy"], "n_out": 3, "out_dtypes": ["f32"] * 3})


def main():
    conv = lambda *a, **k: add("conv", *a, **k)
    back = lambda *a, **k: add("conv_transpose", *a, **k)
    conv((2, 3, 7, 6), (4, 3, 3, 3))
    conv((2, 3, 7, 6), (4, 3, 3, 3), padding=1)
    conv((2, 3, 8, 7), (4, 3, 3, 3), stride=2, padding=1)
    conv((1, 2, 9, 8), (3, 2, 3, 3), dilation=2)
    conv((1, 2, 9, 8), (3, 2, 3, 2), dilation=[2, 1], stride=[1, 3], padding=[2, 1])
    conv((2, 5, 4, 3), (6, 5, 1, 1))
    conv((2, 5, 5, 5), (6, 5, 1, 1), stride=2)
    conv((2, 4, 6, 5), (6, 2, 3, 3), groups=2, padding=1)
    conv((2, 6, 6, 5), (6, 1, 3, 3), groups=6, padding=1)
    conv((1, 4, 6, 5), (8, 1, 3, 3), groups=4)
    conv((2, 6, 8, 7), (9, 2, 3, 3), groups=3, stride=2, padding=1)
    conv((1, 3, 12, 11), (2, 3, 7, 5), stride=[2, 3], padding=[3, 2])
    conv((2, 3, 11), (4, 3, 4))
    conv((2, 4, 12), (6, 2, 3), groups=2, stride=3, padding=2, dilation=2)
    conv((1, 8, 9), (8, 1, 4), groups=8, padding=3)
    conv((1, 2, 5, 4, 6), (3, 2, 2, 3, 2))
    conv((1, 4, 5, 4, 6), (6, 2, 3, 2, 3), groups=2, stride=2, padding=1)
    conv((2, 17, 10, 9), (35, 17, 3, 3), padding=1)
    conv((1, 40, 3, 3), (5, 40, 3, 3), padding=1)
    back((2, 3, 4, 5), (3, 4, 3, 3))
    back((2, 3, 4, 5), (3, 4, 3, 3), stride=2, padding=1, output_padding=1)
    back((2, 4, 4, 5), (4, 3, 3, 3), stride=2, padding=1, output_padding=1, groups=2)
    back((1, 3, 4, 4), (3, 2, 2, 3), stride=[3, 1], dilation=[1, 2])
    back((2, 3, 7), (3, 5, 4), stride=2, padding=1)
    back((2, 6, 7), (6, 1, 3), groups=6, stride=2)
    back((1, 2, 3, 3, 2), (2, 3, 2, 3, 2), stride=2, output_padding=[1, 0, 1])
    save_file(tensors, FIXTURES / "ops/conv.safetensors")
    (FIXTURES / "ops/conv.json").write_text(json.dumps({"cases": cases}) + "\n")
    (FIXTURES / "ops/conv.safetensors").chmod(0o644)
    update_manifest(["ops/conv.json", "ops/conv.safetensors"])


if __name__ == "__main__":
    main()
