#!/usr/bin/env python3
"""Loads the GGUF files of embedders and rerankers with llama.cpp, and compares vectors and scores.

    python3 tools/check_gguf_embedders.py [MICA [FOLDERS...]]   (needs the Python packages
                                                                 llama-cpp-python, numpy and
                                                                 safetensors; MICA is build/mica)

Every model of tests/fixtures/embedders, or of FOLDERS, is written in f32. Of the tokens of the
goldens llama.cpp computes vectors, whose cosine with those of sentence-transformers is printed, and
logits of pairs; of their texts it makes tokens. llama.cpp's GELU is the tanh's, from a table of
f16, it does not normalise texts, and it takes no types of a pair's tokens.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import llama_cpp
import numpy as np
from llama_cpp import Llama
from safetensors.numpy import load_file

ROOT = pathlib.Path(__file__).resolve().parent.parent
MICA = sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/mica"
RANK = llama_cpp.LLAMA_POOLING_TYPE_RANK
failed = False


def report(what, value, limit):
    global failed
    failed |= not value <= limit
    print(f"{'ok  ' if value <= limit else 'FAIL'} {what}: {value:.2g}, limit {limit}")


def compute(model, ids, n):
    model._batch.reset()
    model._batch.add_sequence([int(i) for i in ids], 0, True)
    model._ctx.kv_cache_clear()
    model._ctx.decode(model._batch)
    return np.array(llama_cpp.llama_get_embeddings_seq(model._ctx.ctx, 0)[:n])


def cosine(a, b):
    return a @ b / np.sqrt((a @ a) * (b @ b))


def check_pairs(name, model, golden, pairs):
    got = [compute(model, golden[f"pair{i}.ids"], 1)[0] for i in range(len(pairs))]
    types = max(golden.get(f"pair{i}.type_ids", np.zeros(1)).max() for i in range(len(pairs)))
    report(f"{name}: logits of {len(pairs)} pairs differ by",
           np.abs(np.array(got) - golden["logits"].reshape(-1)).max(), 1e9 if types else 5e-3)


def check_texts(name, model, golden, info):
    texts, want = info["texts"], golden["embeddings"]
    apart = differing = 0
    for i, text in enumerate(texts):
        ids = golden[f"text{i}.ids"]
        apart = max(apart, 1 - cosine(compute(model, ids, want.shape[1]), want[i]))
        own = model.tokenize(text.encode(), add_bos=True, special=True)[:len(ids)]
        differing += list(own[:-1]) != [int(id) for id in ids[:-1]]
    report(f"{name}: 1 - cosine of {len(texts)} vectors", apart, 1e-4)
    print(f"     {name}: {differing} of {len(texts)} texts have other tokens")


def check(folder, temp):
    path = temp / f"{folder.name}.gguf"
    done = subprocess.run([MICA, "quantize", "--dequantize", "--dtype", "float32", str(folder),
                           str(path), "--quiet"], capture_output=True, text=True)
    if done.returncode:
        print(f"FAIL {folder.name}: {done.stderr.strip()}")
        return
    info = json.loads((folder / "golden.json").read_text())
    golden = load_file(folder / "golden.safetensors")
    model = Llama(str(path), embedding=True, n_ctx=128, n_batch=128, verbose=False,
                  flash_attn=False, type_k=0, type_v=0)
    if "pairs" in info:
        check_pairs(folder.name, model, golden, info["pairs"])
    else:
        check_texts(folder.name, model, golden, info)


def main():
    folders = [pathlib.Path(name) for name in sys.argv[2:]]
    if not folders:
        folders = sorted((ROOT / "tests/fixtures/embedders").iterdir())
    if len(folders) > 1:  # each in a process of its own: llama.cpp may abort
        codes = [subprocess.run([sys.executable, __file__, str(MICA), str(folder)]).returncode
                 for folder in folders if folder.is_dir()]
        sys.exit(any(codes))
    with tempfile.TemporaryDirectory() as temp:
        check(folders[0], pathlib.Path(temp))
    sys.exit(failed)


if __name__ == "__main__":
    main()
