#!/usr/bin/env python3
"""Loads what the command makes of each decoder of tests/fixtures/families with mlx-lm.

    python3 tools/check_families_mlx.py [--wide] [MICA]    (needs the Python package mlx-lm; MICA
                                                            is build/mica)

Each model is converted to f32 (mica convert), and quantised to 8 and 4 bits and mxfp4 (mica
quantize). mlx-lm's logits of the former are compared with the goldens, those of the latter with
its own of the same folder dequantised by mica. Prints a row of a table for each.

The cases' experts are too narrow to be quantised. With --wide random models take their place, of
the configs with experts that are in floats, made wider, as transformers saves them (needs torch and
transformers); all logits are compared with mlx-lm's own.

mlx-lm rounds the range of yarn to whole dimensions always: here it does not where the config says
`truncate: false`, as transformers does.
"""
import json
import math
import pathlib
import subprocess
import sys
import tempfile
import types

import mlx.core as mx
import numpy as np
from mlx_lm.models import rope_utils
from mlx_lm.utils import load_model

ROOT = pathlib.Path(__file__).resolve().parent.parent
FAMILIES = ROOT / "tests/fixtures/families"
WIDE = "--wide" in sys.argv
PATHS = [word for word in sys.argv[1:] if word != "--wide"]
MICA = PATHS[0] if PATHS else ROOT / "build/mica"
QUANTS = [("8 bits", ("--bits", "8", "--group-size", "32")),
          ("4 bits", ("--bits", "4", "--group-size", "32")), ("mxfp4", ("--mode", "mxfp4"))]
PROMPT = "prompt2"
WIDTHS = {"hidden_size": 64, "intermediate_size": 128, "moe_intermediate_size": 64,
          "shared_intermediate_size": 64, "shared_expert_intermediate_size": 64,
          "moe_shared_expert_intermediate_size": 64}


def mica(*words):
    done = subprocess.run([MICA, *map(str, words), "--quiet"], stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])


def round_yarn(folder):
    """Lets mlx-lm's yarn round, or not, as the folder's config says."""
    scaling = json.loads((folder / "config.json").read_text()).get("rope_scaling") or {}
    own = types.SimpleNamespace(**{name: getattr(math, name) for name in dir(math)})
    if scaling.get("truncate") is False:
        own.floor = own.ceil = lambda x: x
    rope_utils.math = own


def logits(folder, ids):
    round_yarn(folder)
    model, _ = load_model(folder)
    return np.array(model(mx.array(ids)[None]).astype(mx.float32))[0]


def distance(got, want):
    return np.abs(got - want).max()


def check(name, temp, ids, want, folder=FAMILIES):
    """What is found, one text each: converted, if something is wanted, and by each way to quantise.
    """
    found, source = [], folder / name
    quantised = "quantization" in json.loads((source / "config.json").read_text())
    ways = [("f32", "convert", ())] if want is not None else []
    ways += [] if quantised else [(title, "quantize", words) for title, words in QUANTS]
    for title, verb, words in ways:
        try:
            made, wide = temp / f"{name}-{title}", temp / f"{name}-{title}-wide"
            if verb == "convert":
                mica(verb, source, made, "--dequantize", "--dtype", "float32")
                found.append(f"{distance(logits(made, ids), want):.1g}")
                continue
            mica(verb, source, made, *words, "--dtype", "float32")
            mica("quantize", "--dequantize", made, wide, "--dtype", "float32")
            found.append(f"{distance(logits(made, ids), logits(wide, ids)):.1g}")
        except Exception as error: # whatever mlx-lm says of a folder is a result
            found.append(f"{type(error).__name__}: {str(error).splitlines()[0][:70]}")
    return found


def stack(path):
    """Lays out Qwen 3.5's experts as its own files have them: transformers saves them apart."""
    w = mx.load(str(path))
    for name in [name for name in w if name.endswith(".experts.0.down_proj.weight")]:
        at = name.removesuffix("0.down_proj.weight")
        count = sum(other.startswith(at) for other in w) // 3
        take = lambda kind: mx.stack([w.pop(f"{at}{e}.{kind}_proj.weight") for e in range(count)])
        w[at + "gate_up_proj"] = mx.concatenate([take("gate"), take("up")], axis=1)
        w[at + "down_proj"] = take("down")
    mx.eval(w)
    mx.save_safetensors(str(path), w, {"format": "pt"})


def widen(source, folder):
    """Writes a random model of a case's kind, with wider experts. Returns False if it has none."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM
    config = json.loads((source / "config.json").read_text())
    text = config.get("text_config", config)
    if not any("experts" in key for key in text) or "quantization" in config:
        return False
    config.pop("quantization_config", None)
    text.update({key: width for key, width in WIDTHS.items() if key in text})
    if "mamba_n_heads" in text:
        text.update(mamba_n_heads=4, mamba_d_head=32)
    text.setdefault("attention_bias", False)
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    torch.manual_seed(3)
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder),
                                             dtype=torch.float32)
    for name, p in model.named_parameters():
        if p.ndim > 1 or "norm" in name:
            torch.nn.init.normal_(p, std=0.1)
    model.save_pretrained(folder)
    (folder / "config.json").write_text(json.dumps(config))
    if text["model_type"].startswith("qwen3_5_moe"):
        stack(folder / "model.safetensors")
    return True


def check_wide():
    print("| case | 8 bits | 4 bits | mxfp4 |\n|---|---|---|---|")
    for source in sorted(FAMILIES.iterdir()):
        with tempfile.TemporaryDirectory() as temp:
            temp = pathlib.Path(temp)
            try:
                if not widen(source, temp / source.name):
                    continue
            except Exception as error: # transformers may not know the family
                print("|", source.name, f"| {type(error).__name__} |", flush=True)
                continue
            found = check(source.name, temp, list(range(2, 60, 5)), None, temp)
        print("|", source.name, "|", " | ".join(found), "|", flush=True)


def main():
    print("| case | largest logit | f32 | 8 bits | 4 bits | mxfp4 |\n|---|---|---|---|---|---|")
    for source in sorted(FAMILIES.iterdir()):
        golden = mx.load(str(source / "golden.safetensors"))
        ids, want = np.array(golden[f"{PROMPT}.ids"]), np.array(golden[f"{PROMPT}.logits"])
        with tempfile.TemporaryDirectory() as temp:
            found = check(source.name, pathlib.Path(temp), ids, want)
        print("|", source.name, f"| {np.abs(want).max():.0f} |", " | ".join(found), "|", flush=True)


if __name__ == "__main__":
    check_wide() if WIDE else main()
