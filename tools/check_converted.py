#!/usr/bin/env python3
"""Loads what the command writes with mlx-lm, transformers and peft, and compares.

    python3 tools/check_converted.py [MICA]    (needs the Python package mlx-lm, else it returns 77;
                                                what needs torch, transformers and peft is left out
                                                without them; MICA is build/mica)

Quantised models have the bytes of mlx_lm.convert, in every mode and number of bits, and with every
mixed recipe, and mlx-lm loads them; so does it one whose bits were chosen by measuring. Dequantised
ones have the bytes of mlx_lm's. Fused models in f32 have the logits of the adapters' goldens. A
quantised model that an adapter was fused into has the bytes of mlx_lm.fuse. Models of GGUF files
have the logits of their goldens, but for gemma2, whose window mlx-lm leaves out. Adapters that mica
trains have the same logits in mlx-lm, in peft, and fused by mica. Files of arrays are MLX's.
"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

try:
    import mlx.core as mx
    import numpy as np
    from mlx.utils import tree_flatten, tree_unflatten
    from mlx_lm.convert import mixed_quant_predicate_builder
    from mlx_lm.tuner.utils import load_adapters
    from mlx_lm.utils import dequantize_model, load_model, quantize_model
except ImportError as error:
    print(f"skipped: there is no mlx-lm: {error}")
    sys.exit(77)
try:
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM
except ImportError:
    torch = None

ROOT = pathlib.Path(__file__).resolve().parent.parent
FIXTURES = ROOT / "tests/fixtures"
MODELS = FIXTURES / "models"
MICA = sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/mica"
ADAPTERS = [("mlx_qwen3", "qwen3_tied"), ("peft_qwen3", "qwen3_tied"),
            ("mlx_dora_qwen3", "qwen3_tied"), ("mlx_on_q4_qwen3", "q4g64_qwen3")]
QUANTS = ([("affine", bits, group) for bits in (2, 3, 4, 5, 6, 8) for group in (32, 64)] +
          [("mxfp4", 4, 32), ("mxfp8", 8, 32), ("nvfp4", 4, 16)])
RECIPES = ("mixed_2_6", "mixed_3_4", "mixed_3_6", "mixed_4_6")
TEXT = "The quick brown fox jumps over the lazy dog, and what it does there is measured again. "
failed = False


def mica(*words):
    subprocess.run([MICA, *map(str, words), "--quiet"], check=True, stdout=subprocess.DEVNULL)


def by_mlx_lm(folder, ids):
    model, _ = load_model(folder)
    return np.array(model(mx.array(ids)).astype(mx.float32))[0]


def by_transformers(folder, ids):
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32,
                                                 attn_implementation="eager").eval()
    with torch.no_grad():
        return model(torch.from_numpy(np.asarray(ids))).logits[0].numpy()


def report(what, difference, limit):
    global failed
    failed |= not difference <= limit
    print(f"{'ok  ' if difference <= limit else 'FAIL'} {what}: {difference:.2g}, limit {limit}")


def arrays_of(folder):
    arrays = {}
    for file in folder.glob("*.safetensors"):
        if file.name != "golden.safetensors":
            arrays.update(mx.load(str(file)))
    return arrays


def differing_bytes(model, folder):
    raw = lambda x: np.array(mx.view(x, mx.uint8))
    want, got = dict(tree_flatten(model.parameters())), arrays_of(folder)
    if set(want) != set(got):
        return float("inf")
    return sum(float("inf") if want[name].shape != got[name].shape or want[name].dtype !=
               got[name].dtype else (raw(want[name]) != raw(got[name])).sum() for name in want)


def check_quantised(temp, dense, mode, bits, group):
    folder = temp / f"{mode}-{bits}-{group}"
    mica("quantize", dense, folder, "--mode", mode, "--bits", bits, "--group-size", group)
    model, config = load_model(dense)
    model, config = quantize_model(model, config, group, bits, mode=mode)
    got, _ = load_model(folder)
    ids = mx.array([[1, 2, 3, 4, 5, 6, 7]])
    what = f"{mode}, {bits} bits by {group}"
    report(f"{what}: bytes unlike mlx_lm.convert's", differing_bytes(model, folder), 0)
    report(f"{what}: logits in mlx-lm", mx.abs(model(ids) - got(ids)).max().item(), 0)


def check_recipe(temp, dense, recipe):
    folder = temp / recipe
    mica("quantize", dense, folder, "--recipe", recipe, "--group-size", 32)
    model, config = load_model(dense)
    predicate = mixed_quant_predicate_builder(recipe, model, 32)
    model, config = quantize_model(model, config, 32, 4, quant_predicate=predicate)
    load_model(folder)
    report(f"{recipe}: bytes unlike mlx_lm.convert's", differing_bytes(model, folder), 0)


def check_dequantised(temp, model_name):
    folder = temp / f"{model_name}-dense"
    mica("quantize", "--dequantize", MODELS / model_name, folder)
    model, _ = load_model(MODELS / model_name)
    report(f"{model_name} dequantised: bytes unlike mlx-lm's",
           differing_bytes(dequantize_model(model), folder), 0)


def check_fused(folder, adapter, base):
    mica("fuse", MODELS / base, folder, "-a", FIXTURES / "lora" / adapter,
         "--dtype", "float32", "--dequantize")
    golden = mx.load(str(FIXTURES / "lora" / adapter / "golden.safetensors"))
    ids, want = np.array(golden["prompt1.ids"])[None], np.array(golden["prompt1.logits"])
    report(f"{adapter} fused, by mlx-lm", np.abs(by_mlx_lm(folder, ids) - want).max(), 1e-3)
    if torch:
        report(f"{adapter} fused, by transformers",
               np.abs(by_transformers(folder, ids) - want).max(), 1e-3)


def check_fused_quantised(folder, adapter, base):
    mica("fuse", MODELS / base, folder, "-a", FIXTURES / "lora" / adapter)
    model, _ = load_model(MODELS / base)
    model = load_adapters(model, str(FIXTURES / "lora" / adapter))
    model.update_modules(tree_unflatten(
        [(name, m.fuse()) for name, m in model.named_modules() if hasattr(m, "fuse")]))
    report(f"{adapter} fused into {base}: bytes unlike mlx_lm.fuse's",
           differing_bytes(model, folder), 0)


def check_gguf(folder, family):
    mica("convert", FIXTURES / "gguf" / family / "model.gguf", folder)
    golden = mx.load(str(FIXTURES / "gguf" / family / "golden.safetensors"))
    want = np.array(golden["logits"])
    got = by_mlx_lm(folder, np.array(golden["ids"])[None])[::6]
    report(f"{family} of GGUF, by mlx-lm (f16)", np.abs(got - want).max() / want.std(), 0.02)


def check_calibrated(temp, dense):
    chosen, wide = temp / "chosen", temp / "chosen-f32"
    (temp / "text").write_text(TEXT * 4)
    mica("quantize", dense, chosen, "--calibrate", temp / "text", "--target-bits", "5",
         "--group-size", "32", "--dtype", "float32")
    mica("quantize", "--dequantize", chosen, wide, "--dtype", "float32")
    ids = np.arange(1, 40)[None]
    want = by_mlx_lm(wide, ids)
    report("bits chosen by measuring, by mlx-lm, and dequantised",
           np.abs(by_mlx_lm(chosen, ids) - want).max(), 1e-3)


def train(base, adapter, temp, kind, form):
    mica("tune", base, "--data", temp / "data", "--adapter-path", adapter, "--iters", 4,
         "--learning-rate", "1e-2", "--batch-size", 2, "--fine-tune-type", kind, "--format", form)


def check_trained(temp, kind):
    """An adapter that mica has just trained: beside its model in mlx-lm and peft, and fused."""
    base, fused = temp / "base", temp / f"fused-{kind}"
    adapter, for_peft = temp / f"adapter-{kind}", temp / f"adapter-{kind}-peft"
    if not base.exists():
        mica("convert", MODELS / "qwen3_tied", base, "--dtype", "float32")
        (temp / "data").mkdir()
        lines = "".join(json.dumps({"text": TEXT}) + "\n" for _ in range(8))
        (temp / "data/train.jsonl").write_text(lines)
    train(base, adapter, temp, kind, "mlx")
    mica("fuse", base, fused, "-a", adapter)
    ids = np.arange(1, 40)[None]
    want, before = by_mlx_lm(fused, ids), by_mlx_lm(base, ids)
    report(f"{kind} by mica: it changes the logits by less than 0.01",
           int(np.abs(want - before).max() < 1e-2), 0)
    model, _ = load_model(base)
    model = load_adapters(model, str(adapter))
    report(f"{kind} by mica: beside the model in mlx-lm, and fused by mica",
           np.abs(np.array(model(mx.array(ids)))[0] - want).max(), 1e-3)
    if not torch:
        return
    report(f"{kind} by mica: fused, by transformers",
           np.abs(by_transformers(fused, ids) - want).max(), 1e-3)
    train(base, for_peft, temp, kind, "peft")
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32,
                                                 attn_implementation="eager")
    model = PeftModel.from_pretrained(model, str(for_peft)).eval()
    with torch.no_grad():
        got = model(torch.from_numpy(ids)).logits[0].numpy()
    report(f"{kind} by mica: beside the model in peft", np.abs(got - want).max(), 1e-3)


def main():
    with tempfile.TemporaryDirectory() as temp:
        temp = pathlib.Path(temp)
        dense = temp / "dense" # the tiny model whose rows are whole groups
        mica("quantize", "--dequantize", FIXTURES / "gguf/llama/model.gguf", dense, "--dtype",
             "bfloat16")
        for quant in QUANTS:
            check_quantised(temp, dense, *quant)
        for recipe in RECIPES:
            check_recipe(temp, dense, recipe)
        for name in ("q4g64_qwen3", "q2g64_llama", "q6g64_gemma2", "qmxfp4_llama", "qmxfp8_qwen2",
                     "qnvfp4_qwen3", "qmixed_qwen3"):
            check_dequantised(temp, name)
        check_calibrated(temp, dense)
        for adapter, base in ADAPTERS:
            check_fused(temp / adapter, adapter, base)
        check_fused_quantised(temp / "quantised", "mlx_on_q4_qwen3", "q4g64_qwen3")
        for family in ("llama", "qwen2", "qwen3", "gemma3"):
            check_gguf(temp / family, family)
        for kind in ("lora", "dora"):
            check_trained(temp, kind)
    sys.exit(failed)


if __name__ == "__main__":
    main()
