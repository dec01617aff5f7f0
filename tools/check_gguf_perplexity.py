#!/usr/bin/env python3
"""Compares the perplexity of a text in a GGUF file with llama.cpp's.

    python3 tools/check_gguf_perplexity.py TEXT MICA FILE.gguf...

Needs the Python packages llama-cpp-python and numpy. The text has one context of 2,048 tokens at
most. In exact arithmetic mica's may differ by 0.5 %.
"""
import json
import pathlib
import subprocess
import sys

import numpy as np
from llama_cpp import Llama

WINDOW = 2048


def of_llama(path, text):
    model = Llama(path, n_ctx=WINDOW, n_batch=WINDOW, logits_all=True, verbose=False,
                  flash_attn=False, type_k=0, type_v=0)
    ids = model.tokenize(text, add_bos=True, special=True)
    model.eval(ids)
    logits = np.array(model.scores[:len(ids)], np.float64)
    logits -= logits.max(1, keepdims=True)
    logits -= np.log(np.exp(logits).sum(1, keepdims=True))
    return np.exp(-logits[np.arange(len(ids) - 1), ids[1:]].mean())


def of_mica(program, path, file, arithmetic):
    done = subprocess.run([program, "eval", "--json", "-q", "-m", path, "-f", file,
                           "--arithmetic", arithmetic], capture_output=True, text=True)
    return json.loads(done.stdout)["perplexity"]


def main():
    file, program, failed = sys.argv[1], sys.argv[2], False
    text = pathlib.Path(file).read_bytes().rstrip(b"\n")
    for path in sys.argv[3:]:
        want = of_llama(path, text)
        exact, fast = (of_mica(program, path, file, way) for way in ("exact", "fast"))
        wrong = not abs(exact / want - 1) <= 0.005
        failed |= wrong
        print(f"{'FAIL' if wrong else 'ok  '} {pathlib.Path(path).name}: llama.cpp {want:.4f}, "
              f"exact {exact:.4f} ({exact / want - 1:+.2%}), fast {fast:.4f} "
              f"({fast / want - 1:+.2%})")
    sys.exit(failed)


if __name__ == "__main__":
    main()
