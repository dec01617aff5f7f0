#!/usr/bin/env python3
"""Makes models with goldens for tools/check_gguf.py, of shapes that llama.cpp can load.

    python3 tools/make_gguf_variants.py FOLDER      (needs the Python packages torch, transformers,
                                                     numpy and safetensors)

They have the configs of tests/fixtures/families with a few changes, and random weights of f32;
transformers computes the logits, and greedy answers.
"""
import json
import pathlib
import sys

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM

FAMILIES = pathlib.Path(__file__).resolve().parent.parent / "tests/fixtures/families"
NO_EXPERTS = dict.fromkeys(["n_routed_experts", "num_experts_per_tok", "moe_intermediate_size",
                            "moe_shared_expert_intermediate_size", "n_group", "topk_group",
                            "n_shared_experts"])
ATTENTION = dict(layer_types=["attention"] * 4, position_embedding_type="rope")
# Name, case, changes; None: without the key.
VARIANTS = [
    ("qwen3_5-narrow", "qwen3_5_hf", dict(linear_value_head_dim=16)),
    ("qwen3_5_moe-narrow", "qwen3_5_moe_hf", dict(linear_value_head_dim=16)),
    ("nemotron-experts", "nemotron_h_hf", dict(hybrid_override_pattern="MEM*EM")),
    ("nemotron-mlps", "nemotron_h_hf", dict(hybrid_override_pattern="M-M*-M", **NO_EXPERTS)),
    ("granite_swa-one-theta", "granite_swa_hf", dict(layer_rope_theta=[0] + [10000.0] * 3)),
    ("granite-attention", "granitehyb_dense_q4", ATTENTION),
    ("granite-attention-experts", "granitehyb_moe_hf", ATTENTION),
    ("granitehybrid-rope", "granitehyb_moe_hf", dict(position_embedding_type="rope")),
    ("granitehybrid-dense", "granitehyb_dense_q4", {}),
]


def make_config(case, changes):
    config = json.loads((FAMILIES / case / "config.json").read_text())
    config = config.get("text_config", config) | changes
    config = {k: v for k, v in config.items()
              if k not in ("quantization", "quantization_config") and changes.get(k, v) is not None}
    if "hybrid_override_pattern" in config:
        config["num_hidden_layers"] = len(config["hybrid_override_pattern"])
    return config


def randomise(model):
    for name, p in model.named_parameters():
        if p.ndim >= 2:
            p.normal_(0, 0.5 if "conv" in name else 1.2 / np.sqrt(p.shape[-1]))
        elif "A_log" in name:
            p.uniform_(0, 1.2)
        elif "norm" in name or name.endswith(".D"):
            p.add_(torch.randn_like(p) * 0.2)
        else:
            p.normal_(0, 0.4)


def stack_experts(path, config):
    """As the hub's files have them."""
    tensors, count = load_file(path), config["num_experts"]
    out = {k: v for k, v in tensors.items() if ".experts." not in k}
    for layer in range(config["num_hidden_layers"]):
        start = f"model.layers.{layer}.mlp.experts."
        part = lambda e, kind: tensors[f"{start}{e}.{kind}_proj.weight"]
        out[start + "down_proj"] = torch.stack([part(e, "down") for e in range(count)])
        out[start + "gate_up_proj"] = torch.stack(
            [torch.cat([part(e, "gate"), part(e, "up")]) for e in range(count)])
    save_file(out, path)


def greedy_of(model, ids, count):
    """[1, n] -> the likeliest tokens after them"""
    start = ids.shape[1]
    for _ in range(count):
        next_id = model(ids, use_cache=False).logits[:, -1:].argmax(-1)
        ids = torch.cat([ids, next_id], 1)
    return ids[0, start:].int()


@torch.no_grad()
def make(folder, config):
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    torch.manual_seed(5)
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder),
                                             dtype=torch.float32).eval()
    randomise(model)
    model.save_pretrained(folder)
    (folder / "config.json").write_text(json.dumps(config))
    if config["model_type"].startswith("qwen3_5_moe"):
        stack_experts(folder / "model.safetensors", config)
    golden = {}
    for i, length in enumerate((1, 7, 33, 71)):
        ids = torch.randint(0, config["vocab_size"], (1, length))
        golden[f"prompt{i}.ids"] = ids[0].int()
        golden[f"prompt{i}.logits"] = model(ids, use_cache=False).logits[0].contiguous()
        golden[f"prompt{i}.greedy"] = greedy_of(model, ids, 24)
    save_file(golden, folder / "golden.safetensors")


def main():
    for name, case, changes in VARIANTS:
        make(pathlib.Path(sys.argv[1]) / name, make_config(case, changes))


if __name__ == "__main__":
    main()
