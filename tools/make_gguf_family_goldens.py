#!/usr/bin/env python3
"""Makes tests/fixtures/gguf/families.json: what llama.cpp's converter makes of the hub's cases of
tests/fixtures/families.

    python3 tools/make_gguf_family_goldens.py LLAMA_CPP [KEEP]

LLAMA_CPP is its source (made with that of llama-cpp-python 0.3.36); the Python packages torch,
transformers, numpy and safetensors are needed. With KEEP the files stay in that folder. Of each
case there are the numbers of the metadata, and of each tensor its shape and the sum of its elements
times sin(0.7 i + 0.3), which changes with their order. Left out is what mica says in other words:
RoPE's factors of yarn, blocks that guess tokens ahead, keys and values that no layer reads; gate
and up of experts are two tensors, as most architectures have them.
"""
import hashlib
import json
import pathlib
import re
import shutil
import sys
import tempfile

import numpy as np

FIXTURES = pathlib.Path(__file__).resolve().parent.parent / "tests/fixtures"
LLAMA = pathlib.Path(sys.argv[1])
sys.path[:0] = [str(LLAMA), str(LLAMA / "gguf-py")]

import conversion  # noqa: E402
import conversion.base as base  # noqa: E402
import gguf  # noqa: E402
from gguf.quants import dequantize  # noqa: E402

OTHER_WORDS = re.compile(r"nextn_predict_layers|yarn_|general\.|GGUF\.|tokenizer\."
                         r"|granitehybrid\.context_length")


def without_vocabulary(kind):
    for c in kind.__mro__:
        if "set_vocab" in c.__dict__:
            c.set_vocab = lambda self: self._set_vocab_none()


def convert(folder, out):
    with tempfile.TemporaryDirectory() as temp:
        temp = pathlib.Path(temp)
        for name in ("config.json", "model.safetensors"):
            shutil.copy(folder / name, temp)
        config = json.loads((temp / "config.json").read_text())
        count = config.get("text_config", config)["vocab_size"]
        vocab = {"model": {"vocab": {f"t{i}": i for i in range(count)}}, "added_tokens": []}
        (temp / "tokenizer.json").write_text(json.dumps(vocab))
        hparams = base.ModelBase.load_hparams(temp, False)
        kind = conversion.get_model_class(
            base.get_model_architecture(hparams, base.ModelType.TEXT))
        without_vocabulary(kind)
        if "linear_num_key_heads" in config:
            kind.no_mtp = True
        model = kind(temp, gguf.LlamaFileType.ALL_F32, out)
        if hasattr(model, "impl"):
            without_vocabulary(type(model.impl))
        model.write()


def weigh(values):
    values = values.reshape(-1).astype(np.float64)
    return float(f"{values @ np.sin(0.7 * np.arange(len(values)) + 0.3):.9g}")


def split(name, values):
    if "ffn_gate_up_exps" not in name:
        return {name: values}
    half = values.shape[1] // 2
    return {name.replace("gate_up", "gate"): values[:, :half],
            name.replace("gate_up", "up"): values[:, half:]}


def describe(path):
    reader = gguf.GGUFReader(path)
    numbers = {f.name: f.contents() for f in reader.fields.values()
               if not OTHER_WORDS.search(f.name)}
    arch = reader.fields["general.architecture"].contents()
    ahead = reader.fields.get(f"{arch}.nextn_predict_layers")
    layers = numbers[f"{arch}.block_count"] - (ahead.contents() if ahead else 0)
    numbers[f"{arch}.block_count"] = layers
    shared = layers - numbers.get(f"{arch}.attention.shared_kv_layers", 0)
    numbers = {k: v for k, v in numbers.items() if not isinstance(v, str)}
    for key, value in numbers.items():
        if isinstance(value, list) and len(value) > layers:
            numbers[key] = value[:layers] if "sections" not in key else value
    tensors = {}
    for t in reader.tensors:
        layer = int(t.name.split(".")[1]) if t.name.startswith("blk.") else -1
        spare = layer >= shared and re.search(r"attn_(k|v|k_norm)\.weight", t.name)
        if layer >= layers or spare:
            continue
        shape = [int(n) for n in reversed(t.shape)]
        values = dequantize(t.data, t.tensor_type).reshape(shape)
        for name, part in split(t.name, values).items():
            tensors[name] = [n for n in part.shape if n != 1] + [weigh(part)]
    return {"architecture": arch, "numbers": numbers, "tensors": tensors}


def update_manifest(name):
    path = FIXTURES / "MANIFEST.sha256"
    lines = [line for line in path.read_text().splitlines() if line.split("  ")[1] != name]
    lines.append(f"{hashlib.sha256((FIXTURES / name).read_bytes()).hexdigest()}  {name}")
    path.write_text("\n".join(sorted(lines, key=lambda line: line.split("  ")[1])) + "\n")


def main():
    keep = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else tempfile.mkdtemp())
    cases = {}
    for folder in sorted((FIXTURES / "families").iterdir()):
        golden = folder / "golden.json"
        if not golden.exists() or json.loads(golden.read_text())["form"] != "hub":
            continue
        try:
            convert(folder, keep / f"{folder.name}.gguf")
        except (AssertionError, NotImplementedError) as error:
            print(f"{folder.name}: not converted: {error!r}")
            continue
        cases[folder.name] = describe(keep / f"{folder.name}.gguf")
    lines = [f'"{name}": {json.dumps(case, separators=(",", ":"))}' for name, case in cases.items()]
    (FIXTURES / "gguf/families.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
    update_manifest("gguf/families.json")


if __name__ == "__main__":
    main()
