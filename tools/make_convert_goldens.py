#!/usr/bin/env python3
"""Makes tests/fixtures/convert/quantized.json: what mlx_lm.convert makes of models of
tests/fixtures/models, as a hash of each matrix (64-bit FNV-1a of its bytes).

    python3 tools/make_convert_goldens.py      (needs the Python packages mlx and mlx-lm; made with
                                                mlx 0.32.2 on a CPU and mlx-lm 0.32.2)
"""
import hashlib
import importlib
import json
import pathlib
import tempfile

import mlx.core as mx
import numpy as np
from mlx_lm.utils import load_model

FIXTURES = pathlib.Path(__file__).resolve().parent.parent / "tests/fixtures"
NAME = "convert/quantized.json"
convert = importlib.import_module("mlx_lm.convert")

CASES = [
    ("gemma2_f32", {}),
    ("gemma2_f32", {"q_bits": 2, "q_group_size": 32}),
    ("qwen3_untied_f16", {"q_bits": 3, "q_group_size": 32, "dtype": "bfloat16"}),
    ("gemma2_f32", {"q_bits": 5, "q_group_size": 32, "dtype": "float16"}),
    ("gemma3_text_f32", {"q_bits": 6, "q_group_size": 64}),
    ("gemma3_text_f32", {"q_bits": 8, "q_group_size": 32, "dtype": "bfloat16"}),
    ("gemma2_f32", {"q_mode": "mxfp4"}),
    ("gemma2_f32", {"q_mode": "mxfp8"}),
    ("llama_untied_f32", {"q_mode": "nvfp4"}),
    ("qwen3_untied_f16", {"q_mode": "nvfp4"}),
    ("gemma2_f32", {"quant_predicate": "mixed_2_6", "q_group_size": 32}),
    ("gemma3_text_f32", {"quant_predicate": "mixed_3_4", "q_group_size": 32}),
    ("gemma3_text_f32", {"quant_predicate": "mixed_3_6", "q_group_size": 32}),
    ("gemma3_text_f32", {"quant_predicate": "mixed_4_6", "q_group_size": 32}),
    ("q4g64_qwen3", {"dequantize": True}),
    ("qmixed_qwen3", {"dequantize": True}),
    ("qmxfp4_llama", {"dequantize": True}),
    ("q2g64_llama", {"dequantize": True}),
    ("q5g32_qwen3", {"dtype": "float16"}),
]


class NoTokenizer:
    def save_pretrained(self, path):
        pass


def fnv(data):
    h = 0xCBF29CE484222325
    for byte in data:
        h = (h ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{h:016x}"


def tensors(folder):
    found = {}
    for file in sorted(folder.glob("model*.safetensors")):
        found.update(mx.load(str(file)))
    views = {1: mx.uint8, 2: mx.uint16, 4: mx.uint32}
    return {
        name: [str(x.dtype).split(".")[-1], list(x.shape),
               fnv(np.array(mx.view(x, views[x.dtype.size])).tobytes())]
        for name, x in sorted(found.items()) if x.ndim == 2
    }


def make(model, options):
    convert.load = lambda path, **_: (
        (loaded := load_model(pathlib.Path(path), lazy=True))[0], NoTokenizer(), loaded[1])
    with tempfile.TemporaryDirectory() as temp:
        folder = pathlib.Path(temp) / "model"
        quantize = not options.get("dequantize") and len(options.keys() - {"dtype"}) != 0
        convert.convert(str(FIXTURES / "models" / model), str(folder),
                        quantize=quantize or not options, **options)
        config = json.loads((folder / "config.json").read_text())
        return {"model": model, "quantize": quantize or not options, **options,
                "quantization": config.get("quantization"), "tensors": tensors(folder)}


def update_manifest(name):
    path = FIXTURES / "MANIFEST.sha256"
    lines = [line for line in path.read_text().splitlines() if line.split("  ")[1] != name]
    lines.append(f"{hashlib.sha256((FIXTURES / name).read_bytes()).hexdigest()}  {name}")
    path.write_text("\n".join(sorted(lines, key=lambda line: line.split("  ")[1])) + "\n")


def main():
    (FIXTURES / NAME).parent.mkdir(exist_ok=True)
    cases = [make(model, options) for model, options in CASES]
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
    (FIXTURES / NAME).write_text(f"[\n{lines}\n]\n")
    update_manifest(NAME)


if __name__ == "__main__":
    main()
