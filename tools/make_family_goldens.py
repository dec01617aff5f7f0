"""Makes the goldens of families that the shared ones lack, in their form, with transformers 5 on
torch, in f32 from weights that are stored in bf16 (tests/fixtures/README.md says what is in them).

    make_family_goldens.py [CASE...]

granitemoe_hf: experts after the choice, without a shared MLP. kimi_k2_hf: MLA without a latent of
queries, with biases, yarn whose amplitude is not 1, one group of experts. The layers' experts are
spread, and a seed is taken for which no greedy choice, and no router's, is a close one.
"""
import hashlib
import json
import pathlib
import sys

import torch
import transformers
from safetensors.torch import save_file

FIXTURES = pathlib.Path(__file__).resolve().parent.parent / "tests/fixtures"
LENGTHS = [1, 7, 33, 71]
STEPS = 24
COMMON = dict(vocab_size=108, hidden_size=48, num_hidden_layers=2, num_attention_heads=4,
              hidden_act="silu", bos_token_id=0, eos_token_id=1, pad_token_id=0)
CASES = {
    "granitemoe_hf": dict(
        model_type="granitemoe", intermediate_size=24, num_key_value_heads=2,
        max_position_embeddings=4096, rms_norm_eps=1e-5, rope_theta=10000.0,
        attention_multiplier=0.09, embedding_multiplier=12.0, residual_multiplier=0.22,
        logits_scaling=0.5, num_local_experts=6, num_experts_per_tok=3, tie_word_embeddings=True),
    "kimi_k2_hf": dict(
        model_type="deepseek_v3", intermediate_size=64, num_key_value_heads=4,
        max_position_embeddings=131072, rms_norm_eps=1e-6, rope_theta=50000.0,
        rope_scaling={"type": "yarn", "factor": 32.0, "beta_fast": 1.0, "beta_slow": 1.0,
                      "mscale": 1.0, "mscale_all_dim": 0.5,
                      "original_max_position_embeddings": 4096},
        q_lora_rank=None, kv_lora_rank=32, qk_nope_head_dim=16, qk_rope_head_dim=8, v_head_dim=24,
        n_routed_experts=8, num_experts_per_tok=3, n_shared_experts=2, moe_intermediate_size=16,
        first_k_dense_replace=1, n_group=1, topk_group=1, routed_scaling_factor=2.827,
        norm_topk_prob=True, attention_bias=True, num_nextn_predict_layers=0,
        tie_word_embeddings=False),
}


def initialise(model, seed):
    """Weights of which activations stay near 1, rounded to bf16."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in list(model.named_parameters()) + list(model.named_buffers()):
            if "inv_freq" in name:
                continue
            noise = torch.randn(p.shape, generator=generator)
            if "norm" in name:
                value = 1 + 0.1 * noise
            elif "e_score_correction_bias" in name:
                value = 0.2 * noise
            elif p.ndim == 1:
                value = 0.1 * noise
            elif "embed" in name:
                value = 0.5 * noise / getattr(model.config, "embedding_multiplier", 1.0)
            else:
                loud = ("router", "mlp.gate.w", "o_proj", "output_linear", "down_proj")
                value = noise * (2 if any(x in name for x in loud) else 1) * p.shape[-1] ** -0.5
            if "correction" not in name:
                value = value.to(torch.bfloat16)
            p.copy_(value.to(p.dtype))


def watch_routers(model, margins):
    """Notes the gap between the last expert that is chosen and the next one."""
    def hook(module, args, out):
        x = args[0].reshape(-1, args[0].shape[-1])
        weight = module.weight if hasattr(module, "weight") else module.layer.weight
        scores = x @ weight.T
        k = getattr(module, "top_k", None)
        bias = getattr(module, "e_score_correction_bias", None)
        if bias is not None:
            scores = scores.sigmoid() + bias
        best = scores.topk(k + 1, dim=-1).values
        margins.append((best[:, k - 1] - best[:, k]).min().item())
    for name, module in model.named_modules():
        if name.endswith("mlp.gate") or name.endswith("block_sparse_moe.router"):
            if not hasattr(module, "top_k"):
                module.top_k = model.config.num_experts_per_tok
            module.register_forward_hook(hook)


def greedy(model, ids):
    rows, text, gap = [], list(ids), 9.0
    for _ in range(STEPS):
        logits = model(torch.tensor([text])).logits[0, -1]
        best = logits.topk(2)
        gap = min(gap, (best.values[0] - best.values[1]).item())
        rows.append(logits)
        text.append(best.indices[0].item())
    return torch.tensor(text[len(ids):], dtype=torch.int32), torch.stack(rows), gap


def cache_of(model, ids):
    """What is kept of a prompt, of the first layer of each kind."""
    cache = transformers.DynamicCache(config=model.config)
    model(torch.tensor([ids]), past_key_values=cache, use_cache=True)
    return {f"prompt2.layer0.{k}": t[0].contiguous()
            for k, t in (("k", cache.layers[0].keys), ("v", cache.layers[0].values))}


def attempt(name, config, seed):
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    model = model.float().eval()
    initialise(model, seed)
    margins = []
    watch_routers(model, margins)
    generator = torch.Generator().manual_seed(seed + 1)
    prompts = [torch.randint(2, config.vocab_size, (n,), generator=generator).tolist()
               for n in LENGTHS]
    golden, gap = {}, 9.0
    for i, ids in enumerate(prompts):
        golden[f"prompt{i}.ids"] = torch.tensor(ids, dtype=torch.int32)
        golden[f"prompt{i}.logits"] = model(torch.tensor([ids])).logits[0].contiguous()
        golden[f"prompt{i}.greedy"], rows, least = greedy(model, ids)
        gap = min(gap, least)
        if i == 3:
            golden["prompt3.greedy_logits"] = rows
    order = [2, 1, 3]
    batch = torch.zeros(3, max(LENGTHS), dtype=torch.int32)
    for row, i in enumerate(order):
        batch[row, :LENGTHS[i]] = golden[f"prompt{i}.ids"]
    golden["batch.ids"] = batch
    golden["batch.lengths"] = torch.tensor([LENGTHS[i] for i in order], dtype=torch.int32)
    golden["batch.last_logits"] = torch.stack([golden[f"prompt{i}.logits"][-1] for i in order])
    golden.update(cache_of(model, prompts[2]))
    return model, golden, gap, min(margins)


def make(name):
    keys = dict(COMMON, **CASES[name])
    kind = keys.pop("model_type")
    config = transformers.AutoConfig.for_model(kind, **keys)
    for seed in range(100, 400):
        model, golden, gap, margin = attempt(name, config, seed)
        if gap > 0.01 and margin > 2e-4:
            break
    else:
        sys.exit(f"{name}: no seed")
    out = FIXTURES / "families" / name
    out.mkdir(parents=True, exist_ok=True)
    model.to(torch.bfloat16).save_pretrained(out)
    (out / "model.safetensors").chmod(0o644)
    (out / "generation_config.json").unlink(missing_ok=True)
    # What is published has the keys of transformers 4.
    wanted = dict(architectures=[type(model).__name__], model_type=name.removesuffix("_hf"),
                  torch_dtype="bfloat16", **keys)
    (out / "config.json").write_text(json.dumps(wanted, indent=2, sort_keys=True) + "\n")
    save_file({k: v.contiguous() for k, v in golden.items()}, str(out / "golden.safetensors"))
    (out / "golden.safetensors").chmod(0o644)
    about = {
        "case": name, "family": kind, "model_type": wanted["model_type"], "stored_dtype": "bf16",
        "form": "hub", "seed": seed, "vocab": config.vocab_size, "prompt_lengths": LENGTHS,
        "min_top1_top2_margin_on_greedy_path": round(gap, 5), "min_router_margin": round(margin, 6),
        "cache_layers": {"0": "full_attention"}, "transformers": transformers.__version__,
        "tolerance": {"logits_max_abs_f32_compute": 1e-3, "cache_max_abs": 1e-4,
                      "greedy": "exact"}}
    (out / "golden.json").write_text(json.dumps(about, indent=1) + "\n")
    print(name, "seed", seed, "gap", gap, "router", margin,
          "logits", golden["prompt3.logits"].std().item())


def list_files(names):
    path = FIXTURES / "MANIFEST.sha256"
    own = tuple(f"families/{n}/" for n in names)
    lines = [x for x in path.read_text().splitlines() if not x.split("  ", 1)[1].startswith(own)]
    for name in names:
        for file in sorted((FIXTURES / "families" / name).iterdir()):
            digest = hashlib.sha256(file.read_bytes()).hexdigest()
            lines.append(f"{digest}  families/{name}/{file.name}")
    path.write_text("\n".join(sorted(lines, key=lambda x: x.split("  ", 1)[1])) + "\n")


names = sys.argv[1:] or list(CASES)
with torch.no_grad():
    for case in names:
        make(case)
list_files(names)
