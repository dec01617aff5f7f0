#!/usr/bin/env python3
"""Makes tests/fixtures/lora/mlx_experts_qwen3_5: PEFT's peft_experts_qwen3_5 as mlx-lm writes it.

    python3 tools/make_mlx_expert_golden.py     (needs torch and safetensors)

Gate and up, which PEFT's adapter has in one, get factors of their own: the same A, and half of B.
So the logits are those of PEFT's golden, which is copied.
"""
import json
import pathlib
import shutil

from safetensors.torch import load_file, save_file

LORA = pathlib.Path(__file__).resolve().parent.parent / "tests/fixtures/lora"
source, out = LORA / "peft_experts_qwen3_5", LORA / "mlx_experts_qwen3_5"
config = json.loads((source / "adapter_config.json").read_text())
rank, tensors = config["r"], {}


def put(module, a, b):
    tensors[module + ".lora_a"], tensors[module + ".lora_b"] = a.contiguous(), b.contiguous()


factors = load_file(source / "adapter_model.safetensors")
for name, a in factors.items():
    if ".lora_A." not in name:
        continue
    b = factors[name.replace(".lora_A.", ".lora_B.")]
    module = name.removeprefix("base_model.model.").removesuffix(".lora_A.weight")
    if ".experts" not in module:
        put(module, a.T, b.T)
        continue
    experts = a.shape[0] // rank
    a = a.reshape(experts, rank, -1)
    b = b.reshape(b.shape[0], rank, experts).permute(2, 0, 1)
    module = module.removesuffix(".base_layer").removesuffix("experts") + "switch_mlp."
    if name.endswith("experts.lora_A.weight"):
        put(module + "down_proj", a, b)
    else:
        half = b.shape[1] // 2
        put(module + "gate_proj", a, b[:, :half])
        put(module + "up_proj", a.clone(), b[:, half:])
out.mkdir(exist_ok=True)
save_file(tensors, out / "adapters.safetensors", metadata={"format": "mlx"})
facts = {"fine_tune_type": "lora", "num_layers": -1,
         "lora_parameters": {"rank": rank, "scale": config["lora_alpha"] / rank, "dropout": 0.0}}
(out / "adapter_config.json").write_text(json.dumps(facts, indent=2) + "\n")
for name in ("golden.json", "golden.safetensors"):
    shutil.copy(source / name, out / name)
golden = json.loads((out / "golden.json").read_text()) | {"kind": "mlx"}
(out / "golden.json").write_text(json.dumps(golden, indent=1) + "\n")
