#!/usr/bin/env python3
"""Makes tests/fixtures/lora/peft_*: adapters with more than factors, by PEFT.

    python3 tools/make_peft_goldens.py [CASE...]    (needs torch, transformers and peft; made with
                                                     torch 2.15, transformers 5.23 and peft 0.21)

What is trained is moved at random, saved, and loaded again beside the model in f32; the logits are
those of that model. They are the same within rounding after PEFT has merged it, where PEFT can.
"""
import hashlib
import json
import pathlib
import shutil
import sys
import tempfile

import numpy as np
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.numpy import save_file
from safetensors.torch import load_file, save_file as save_torch
from transformers import AutoModelForCausalLM

FIXTURES = pathlib.Path(__file__).resolve().parent.parent / "tests/fixtures"
GRANITE_EXPERTS = ["block_sparse_moe.experts.gate_up_proj", "block_sparse_moe.experts.down_proj"]
CASES = {
    "peft_saves_qwen3": ("qwen3_tied", dict(
        target_modules=["q_proj"],
        modules_to_save=["lm_head", "input_layernorm", "k_norm", "model.norm"])),
    "peft_saves_llama": ("llama_untied_f32", dict(
        target_modules=["v_proj"], modules_to_save=["embed_tokens", "down_proj"])),
    "peft_tokens_qwen3": ("qwen3_tied", dict(
        target_modules=["v_proj"], trainable_token_indices=[3, 17, 250])),
    "peft_tokens_llama": ("llama_untied_f32", dict(
        target_modules=["v_proj"],
        trainable_token_indices={"embed_tokens": [3, 140], "lm_head": [9]})),
    "peft_ends_llama": ("llama_untied_f32", dict(
        target_modules=["embed_tokens", "lm_head", "o_proj"])),
    "peft_bias_llama": ("llama_v5cfg_bias", dict(target_modules=["q_proj", "up_proj"], bias="all")),
    "peft_bias_lora_qwen2": ("qwen2_tied", dict(target_modules=["q_proj"], bias="lora_only")),
    "peft_lora_bias_llama": ("llama_v5cfg_bias", dict(
        target_modules=["q_proj", "down_proj"], lora_bias=True)),
    # Experts, which transformers 5 has in one parameter, whatever the files have; and mixers.
    "peft_experts_qwen3_5": ("families/qwen3_5_moe_hf", dict(
        r=2, target_modules=["in_proj_qkv", "in_proj_b", "out_proj"],
        target_parameters=["mlp.experts.gate_up_proj", "mlp.experts.down_proj"])),
    "peft_experts_qwen3": ("families/qwen3_moe_hf", dict(
        r=2, target_modules=["k_proj"],
        target_parameters=["mlp.experts.gate_up_proj", "mlp.experts.down_proj"])),
    "peft_experts_mixtral": ("families/mixtral_hf", dict(
        r=2, target_modules=[], target_parameters=["mlp.experts.down_proj"])),
    "peft_experts_nemotron": ("families/nemotron_h_hf", dict(
        r=2, target_modules=["in_proj"],
        target_parameters=["mixer.experts.up_proj", "mixer.experts.down_proj"])),
    "peft_experts_granite": ("families/granitehyb_moe_hf", dict(
        r=2, target_modules=["in_proj"], target_parameters=GRANITE_EXPERTS)),
}


def open_base(base):
    folder = FIXTURES / base if "/" in base else FIXTURES / "models" / base
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32,
                                                attn_implementation="eager",
                                                experts_implementation="eager")


def logits(model, ids):
    with torch.no_grad():
        return model(torch.tensor(ids)[None].long()).logits[0].float().numpy()


def greedy(model, ids, n):
    ids, margin = ids.tolist(), np.inf
    for _ in range(n):
        row = logits(model, ids)[-1]
        last = np.sort(row)
        margin = min(margin, float(last[-1] - last[-2]))
        ids.append(int(row.argmax()))
    return np.array(ids[-n:], np.int32), margin


def update_manifest(name):
    path = FIXTURES / "MANIFEST.sha256"
    lines = [l for l in path.read_text().splitlines() if not l.split("  ")[1].startswith(name + "/")]
    for file in sorted((FIXTURES / name).iterdir()):
        lines.append(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {name}/{file.name}")
    path.write_text("\n".join(sorted(lines, key=lambda line: line.split("  ")[1])) + "\n")


def make(name, base, options, seed):
    out = FIXTURES / "lora" / name
    random = np.random.default_rng(seed)
    model = open_base(base)
    vocab = min(model.config.vocab_size, 480)
    ids = [np.array(random.integers(0, vocab, n), np.int32) for n in (1, 9, 37)]
    for row, token in enumerate((3, 17, 140, 9)):
        ids[2][3 + 2 * row] = min(token, vocab - 1)
    want_base = [logits(model, x) for x in ids]
    defaults = dict(r=4, lora_alpha=6, task_type="CAUSAL_LM")
    trained = get_peft_model(model, LoraConfig(**(defaults | options)))
    for key, p in trained.named_parameters():
        if not p.requires_grad:
            continue
        factor = ".lora_A." in key or ".lora_B." in key or "lora_embedding" in key
        noise = torch.tensor(random.normal(0, 0.2 if factor else 0.05, p.shape), dtype=p.dtype)
        p.data = noise if factor else p.data + noise
        if "trainable_tokens" in key or "target_parameters" in options:
            p.data = p.data.bfloat16().to(p.dtype)  # rows get the dtype of the table
    trained.save_pretrained(out)
    (out / "README.md").unlink(missing_ok=True)
    if "target_parameters" in options:
        tensors = load_file(out / "adapter_model.safetensors")
        save_torch({k: v.bfloat16() for k, v in tensors.items()}, out / "adapter_model.safetensors",
                   metadata={"format": "pt"})
    config = json.loads((out / "adapter_config.json").read_text())
    config["base_model_name_or_path"] = base
    for key in ("target_modules", "modules_to_save", "target_parameters"):
        if config.get(key):
            config[key] = sorted(config[key])
    (out / "adapter_config.json").write_text(json.dumps(config, indent=2) + "\n")
    loaded = PeftModel.from_pretrained(open_base(base), out).eval()
    want = [logits(loaded, x) for x in ids]
    worst = max(np.abs(logits(trained.eval(), x) - y).max() for x, y in zip(ids, want))
    assert worst < 1e-5, (name, worst)
    change = max(np.abs(a - b).max() for a, b in zip(want_base, want))
    assert change > 0.05, (name, change)
    tokens, margin = greedy(loaded, ids[1], 24)
    merged = loaded.merge_and_unload()
    if margin <= 0.01:
        print(name, seed, "greedy answers are too close", margin)
        return False
    apart = max(np.abs(logits(merged, x) - y).max() for x, y in zip(ids, want))
    tensors = {f"prompt{i}.ids": x for i, x in enumerate(ids)}
    tensors |= {f"prompt{i}.logits": x for i, x in enumerate(want)}
    tensors["prompt1.greedy"] = tokens
    save_file(tensors, out / "golden.safetensors")
    facts = {"base": base if "/" in base else f"models/{base}", "kind": "peft",
             "min_greedy_margin": margin,
             "greedy": tokens.tolist(), "max_abs_change_against_base": float(change),
             "merged_max_abs": float(apart), "tolerance": 0.002}
    (out / "golden.json").write_text(json.dumps(facts, indent=1) + "\n")
    update_manifest(f"lora/{name}")
    print(name, {k: v for k, v in facts.items() if k != "greedy"})
    return True


def make_listed(name="peft_listed_qwen3", base="families/qwen3_moe_hf"):
    """Experts that were modules: a pair for each, but for the last one. Merged into the weights by
    hand: PEFT reads no such adapter of a model whose experts are one parameter."""
    out = FIXTURES / "lora" / name
    out.mkdir(exist_ok=True)
    random = np.random.default_rng(83)
    weights = {k: v.float() for k, v in load_file(FIXTURES / base / "model.safetensors").items()}
    tensors, scale = {}, 1.5
    for key in sorted(weights):
        if ".experts." not in key or ".experts.7." in key:
            continue
        rows, columns = weights[key].shape
        module = "base_model.model." + key.removesuffix(".weight")
        a = torch.tensor(random.normal(0, 0.2, (2, columns))).bfloat16()
        b = torch.tensor(random.normal(0, 0.2, (rows, 2))).bfloat16()
        tensors |= {f"{module}.lora_A.weight": a, f"{module}.lora_B.weight": b}
        weights[key] += scale * b.float() @ a.float()
    save_torch(tensors, out / "adapter_model.safetensors", metadata={"format": "pt"})
    config = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "base_model_name_or_path": base,
              "r": 2, "lora_alpha": 2 * scale, "lora_dropout": 0.0, "bias": "none",
              "target_modules": ["down_proj", "gate_proj", "up_proj"]}
    (out / "adapter_config.json").write_text(json.dumps(config, indent=2) + "\n")
    with tempfile.TemporaryDirectory() as merged:
        shutil.copy(FIXTURES / base / "config.json", merged)
        save_torch(weights, pathlib.Path(merged) / "model.safetensors", metadata={"format": "pt"})
        loaded = AutoModelForCausalLM.from_pretrained(
            merged, dtype=torch.float32, attn_implementation="eager",
            experts_implementation="eager").eval()
    ids = [np.array(random.integers(0, loaded.config.vocab_size, n), np.int32) for n in (1, 9, 37)]
    tokens, margin = greedy(loaded, ids[1], 24)
    assert margin > 0.01, margin
    golden = {f"prompt{i}.ids": x for i, x in enumerate(ids)}
    golden |= {f"prompt{i}.logits": logits(loaded, x) for i, x in enumerate(ids)}
    golden["prompt1.greedy"] = tokens
    save_file(golden, out / "golden.safetensors")
    facts = {"base": base, "kind": "peft", "min_greedy_margin": margin, "greedy": tokens.tolist(),
             "tolerance": 0.002}
    (out / "golden.json").write_text(json.dumps(facts, indent=1) + "\n")
    update_manifest(f"lora/{name}")
    print(name, margin)


def main():
    if "peft_listed_qwen3" in sys.argv[1:] or len(sys.argv) == 1:
        make_listed()
    for seed, (name, (base, options)) in enumerate(CASES.items(), 64):
        if name in sys.argv[1:] or len(sys.argv) == 1:
            while not make(name, base, options, seed):
                seed += 100


if __name__ == "__main__":
    main()
