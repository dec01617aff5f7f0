#!/usr/bin/env python3
"""Makes tests/fixtures/lora/mlx_dora_qwen3: an adapter of DoRA, by mlx-lm.

    python3 tools/make_dora_golden.py      (needs the Python packages mlx and mlx-lm; made with
                                            mlx-lm 0.32)

Factors and magnitudes are random, on the model qwen3_tied in f32. The logits are those of the model
that mlx-lm has fused the adapter into; that the adapter beside the model gives the same is checked
here.
"""
import hashlib
import json
import pathlib

import mlx.core as mx
import numpy as np
from mlx.utils import tree_flatten, tree_unflatten
from mlx_lm.tuner.utils import linear_to_lora_layers
from mlx_lm.utils import load_model

FIXTURES = pathlib.Path(__file__).resolve().parent.parent / "tests/fixtures"
NAME = "lora/mlx_dora_qwen3"
CONFIG = {"fine_tune_type": "dora", "num_layers": 2,
          "lora_parameters": {"rank": 4, "scale": 8.0, "dropout": 0.0,
                              "keys": ["self_attn.q_proj", "self_attn.v_proj", "mlp.down_proj"]}}


def logits(model, ids):
    return np.array(model(mx.array(ids)[None]).astype(mx.float32))[0]


def greedy(model, ids, n):
    ids, margin = ids.tolist(), np.inf
    for _ in range(n):
        last = np.sort(logits(model, ids)[-1])
        margin = min(margin, float(last[-1] - last[-2]))
        ids.append(int(logits(model, ids)[-1].argmax()))
    return np.array(ids[-n:], np.int32), margin


def update_manifest():
    path = FIXTURES / "MANIFEST.sha256"
    lines = [l for l in path.read_text().splitlines() if not l.split("  ")[1].startswith(NAME)]
    for file in sorted((FIXTURES / NAME).iterdir()):
        lines.append(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {NAME}/{file.name}")
    path.write_text("\n".join(sorted(lines, key=lambda line: line.split("  ")[1])) + "\n")


def main():
    out = FIXTURES / NAME
    out.mkdir(exist_ok=True)
    random = np.random.default_rng(37)
    model, _ = load_model(FIXTURES / "models/qwen3_tied")
    model.set_dtype(mx.float32)
    ids = [np.array(random.integers(0, 480, n), np.int32) for n in (1, 9, 37)]
    base = [logits(model, x) for x in ids]
    linear_to_lora_layers(model, CONFIG["num_layers"], CONFIG["lora_parameters"], use_dora=True)
    values = {}
    for name, x in tree_flatten(model.parameters()):
        part = name.rsplit(".", 1)[1]
        if part in ("lora_a", "lora_b"):
            values[name] = mx.array(random.normal(0, 0.2, x.shape).astype(np.float32))
        elif part == "m":
            values[name] = x * mx.array(random.uniform(0.7, 1.4, x.shape).astype(np.float32))
    model.load_weights(list(values.items()), strict=False)
    beside = [logits(model, x) for x in ids]
    fused = [(name, m.fuse()) for name, m in model.named_modules() if hasattr(m, "fuse")]
    model.update_modules(tree_unflatten(fused))
    want = [logits(model, x) for x in ids]
    worst = max(np.abs(a - b).max() for a, b in zip(beside, want))
    assert worst < 1e-3, worst
    tokens, margin = greedy(model, ids[1], 24)
    tensors = {f"prompt{i}.ids": mx.array(x) for i, x in enumerate(ids)}
    tensors |= {f"prompt{i}.logits": mx.array(x) for i, x in enumerate(want)}
    tensors["prompt1.greedy"] = mx.array(tokens)
    mx.save_safetensors(str(out / "adapters.safetensors"), values)
    mx.save_safetensors(str(out / "golden.safetensors"), tensors)
    (out / "adapter_config.json").write_text(json.dumps(CONFIG, indent=2) + "\n")
    facts = {"base": "models/qwen3_tied", "kind": "mlx", "min_greedy_margin": margin,
             "greedy": tokens.tolist(), "fused_and_beside_max_abs": float(worst),
             "max_abs_change_against_base": float(max(np.abs(a - b).max()
                                                      for a, b in zip(base, want))),
             "tolerance": 0.002}
    (out / "golden.json").write_text(json.dumps(facts, indent=1) + "\n")
    update_manifest()
    print(facts)


if __name__ == "__main__":
    main()
