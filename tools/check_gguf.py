#!/usr/bin/env python3
"""Loads the GGUF files that the command writes with llama.cpp, and compares the logits.

    python3 tools/check_gguf.py [MICA]    (needs the Python packages llama-cpp-python, numpy and
                                           safetensors; MICA is build/mica)

Every model of tests/fixtures that GGUF can describe is written twice: as it is, and dequantised in
f32. Of the second files llama.cpp computes the goldens of transformers (of Gemma's to
three digits: its table of GELU has f16). Of the first ones it differs
by its own arithmetic, which rounds activations to 8 bits beside quantised weights, to f16 or bf16
beside such ones. The default model's texts are tokenised and continued as mica does.
"""
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
from llama_cpp import Llama
from safetensors.numpy import load_file

ROOT = pathlib.Path(__file__).resolve().parent.parent
FIXTURES = ROOT / "tests/fixtures"
MICA = sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/mica"
TEXTS = ["Once upon a time", "The little dog  saw\n\n a b\u00f6rd 123!", "<end_of_turn>x \u4e16\u754c"]
failed = False


def report(what, value, limit):
    global failed
    failed |= not value <= limit
    print(f"{'ok  ' if value <= limit else 'FAIL'} {what}: {value:.2g}, limit {limit}")


def convert(source, target, dense):
    verb = ["quantize", "--dequantize", "--dtype", "float32"] if dense else ["convert"]
    done = subprocess.run([MICA, *verb, str(source), str(target), "-q"], capture_output=True,
                          text=True)
    return done.returncode == 0, (done.stdout + done.stderr).strip()


def mica(*words):
    return subprocess.run([MICA, *words], capture_output=True, text=True).stdout.strip()


def logits_of(model, ids):
    model.reset()
    model.eval([int(i) for i in ids])
    return np.array(model.scores[:len(ids)])


def check_fixture(folder, temp, dense):
    path = temp / f"{folder.name}-{dense}.gguf"
    done, text = convert(folder, path, dense)
    if not done:
        print(f"     {folder.name}: {text}")
        return
    golden = load_file(folder / "golden.safetensors")
    model = Llama(str(path), n_ctx=128, logits_all=True, verbose=False, flash_attn=False,
                  type_k=0, type_v=0)
    worst, differing, count = 0, 0, 0
    for i in range(4):
        ids, want = golden[f"prompt{i}.ids"], golden[f"prompt{i}.logits"]
        got = logits_of(model, ids)[:, :want.shape[1]]
        worst = max(worst, np.sqrt(np.mean((got - want) ** 2)) / want.std())
        differing += (got.argmax(1) != want.argmax(1)).sum()
        count += len(ids)
    name = f"{folder.name}, {'f32' if dense else 'as it is'}"
    report(f"{name}: rms of the difference, of the logits' own", worst,
           0.06 if not dense else 1e-3 if "gemma" in folder.name else 1e-5)
    report(f"{name}: {count} likeliest next tokens, of which differ", differing,
           0 if dense else 0.1 * count)


def check_again(folder, temp):
    """A GGUF file of another program, to a folder and back."""
    made, path = temp / folder.name, temp / f"{folder.name}-again.gguf"
    convert(folder / "model.gguf", made, False)
    print("    ", convert(made, path, True)[1])
    golden = load_file(folder / "golden.safetensors")
    model = Llama(str(path), n_ctx=128, logits_all=True, verbose=False, flash_attn=False,
                  type_k=0, type_v=0)
    got, want = logits_of(model, golden["ids"])[::6], golden["logits"]
    report(f"{folder.name} of GGUF, f32: rms of the difference, of the logits' own",
           np.sqrt(np.mean((got - want) ** 2)) / want.std(), 1e-3 if "gemma" in folder.name else 1e-5)


def check_default(temp):
    folder = str(ROOT / "models/default")
    for dense in (False, True):
        path = temp / f"default-{dense}.gguf"
        print("    ", convert(folder, path, dense)[1])
        model = Llama(str(path), n_ctx=256, verbose=False, flash_attn=False, type_k=0, type_v=0)
        for text in TEXTS:
            ids = list(model.tokenize(text.encode(), add_bos=True, special=True))
            want = [int(word) for word in mica("tokenize", "--ids", "-m", folder, text).split()]
            report(f"tokens of {text!r}: differ", int(ids != want), 0)
            got = model.create_completion(ids, max_tokens=24, temperature=0)["choices"][0]["text"]
            want = mica("generate", "-q", "-m", folder, "-n", "24", "-T", "0", "--arithmetic",
                        "exact", text)
            if dense:
                report(f"greedy {want[:40]!r}: differs", int(got.strip() != want), 0)


def main():
    with tempfile.TemporaryDirectory() as temp:
        temp = pathlib.Path(temp)
        for folder in sorted((FIXTURES / "models").iterdir()):
            check_fixture(folder, temp, False)
            check_fixture(folder, temp, True)
        for folder in sorted(path for path in (FIXTURES / "gguf").iterdir() if path.is_dir()):
            check_again(folder, temp)
        check_default(temp)
    sys.exit(failed)


if __name__ == "__main__":
    main()
