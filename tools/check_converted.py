#!/usr/bin/env python3
"""Loads what the command writes with mlx-lm and transformers, and compares the logits.

    python3 tools/check_converted.py [MICA]    (needs the Python packages mlx-lm, torch and
                                                transformers; MICA is build/mica)

Fused models in f32 have the logits of the adapters' goldens in both programs. A quantised model
that an adapter was fused into has the bytes of mlx_lm.fuse. Models of GGUF files have the logits of
their goldens in mlx-lm, but for gemma2, whose window mlx-lm leaves out.
"""
import pathlib
import subprocess
import sys
import tempfile

import mlx.core as mx
import numpy as np
import torch
from mlx.utils import tree_flatten, tree_unflatten
from mlx_lm.tuner.utils import load_adapters
from mlx_lm.utils import load_model
from transformers import AutoModelForCausalLM

ROOT = pathlib.Path(__file__).resolve().parent.parent
FIXTURES = ROOT / "tests/fixtures"
MICA = sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/mica"
ADAPTERS = [("mlx_qwen3", "qwen3_tied"), ("peft_qwen3", "qwen3_tied"),
            ("mlx_on_q4_qwen3", "q4g64_qwen3")]
failed = False


def mica(*words):
    subprocess.run([MICA, *map(str, words), "-q"], check=True, stdout=subprocess.DEVNULL)


def by_mlx_lm(folder, ids):
    model, _ = load_model(folder)
    return np.array(model(mx.array(ids)).astype(mx.float32))[0]


def by_transformers(folder, ids):
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32,
                                                 attn_implementation="eager").eval()
    with torch.no_grad():
        return model(torch.from_numpy(ids)).logits[0].numpy()


def report(what, difference, limit):
    global failed
    failed |= not difference <= limit
    print(f"{'ok  ' if difference <= limit else 'FAIL'} {what}: {difference:.2g}, limit {limit}")


def check_fused(folder, adapter, base):
    mica("fuse", FIXTURES / "models" / base, folder, "-a", FIXTURES / "lora" / adapter,
         "--dtype", "float32", "--dequantize")
    golden = mx.load(str(FIXTURES / "lora" / adapter / "golden.safetensors"))
    ids, want = np.array(golden["prompt1.ids"])[None], np.array(golden["prompt1.logits"])
    for name, run in (("mlx-lm", by_mlx_lm), ("transformers", by_transformers)):
        report(f"{adapter} fused, by {name}", np.abs(run(folder, ids) - want).max(), 1e-3)


def check_fused_quantised(folder, adapter, base):
    mica("fuse", FIXTURES / "models" / base, folder, "-a", FIXTURES / "lora" / adapter)
    model, _ = load_model(FIXTURES / "models" / base)
    model = load_adapters(model, str(FIXTURES / "lora" / adapter))
    model.update_modules(tree_unflatten(
        [(name, m.fuse()) for name, m in model.named_modules() if hasattr(m, "fuse")]))
    want, got = dict(tree_flatten(model.parameters())), {}
    for file in folder.glob("*.safetensors"):
        got.update(mx.load(str(file)))
    raw = lambda x: np.array(mx.view(x, mx.uint8))
    differing = sum((raw(want[name]) != raw(got[name])).sum() for name in want)
    report(f"{adapter} fused into {base}: bytes unlike mlx_lm.fuse's", differing, 0)


def check_gguf(folder, family):
    mica("convert", FIXTURES / "gguf" / family / "model.gguf", folder)
    golden = mx.load(str(FIXTURES / "gguf" / family / "golden.safetensors"))
    want = np.array(golden["logits"])
    got = by_mlx_lm(folder, np.array(golden["ids"])[None])[::6]
    report(f"{family} of GGUF, by mlx-lm (f16)", np.abs(got - want).max() / want.std(), 0.02)


def main():
    with tempfile.TemporaryDirectory() as temp:
        temp = pathlib.Path(temp)
        for adapter, base in ADAPTERS:
            check_fused(temp / adapter, adapter, base)
        check_fused_quantised(temp / "quantised", "mlx_on_q4_qwen3", "q4g64_qwen3")
        for family in ("llama", "qwen2", "qwen3", "gemma3"):
            check_gguf(temp / family, family)
    sys.exit(failed)


if __name__ == "__main__":
    main()
