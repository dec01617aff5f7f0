#!/usr/bin/env python3
"""Compares the tokenizers that are made of GGUF files with llama.cpp's own answers.

    python3 tools/check_gguf_vocab.py FOLDER [MICA]   (needs the Python packages gguf and numpy;
                                                       MICA is build/mica)

FOLDER is llama.cpp's models/: ggml-vocab-NAME.gguf, with NAME.gguf.inp and NAME.gguf.out beside
those that have answers. It is in the source of llama-cpp-python, too. Each vocabulary becomes a
model of one layer, which the command converts; then each text gives the ids of the answers.
llama.cpp does not normalise: of texts that are not in NFC those differ whose tokenizer does.
"""
import pathlib
import subprocess
import sys
import tempfile
import unicodedata

import gguf
import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
MICA = sys.argv[2] if len(sys.argv) > 2 else ROOT / "build/mica"
WIDTH = 32
failed = False


def copy_field(writer, field):
    value, kind = field.contents(), field.types[0]
    if kind == gguf.GGUFValueType.ARRAY:
        writer.add_key_value(field.name, value, kind, sub_type=field.types[1])
    else:
        writer.add_key_value(field.name, value, kind)


def make_model(vocab, path):
    reader = gguf.GGUFReader(vocab)
    writer = gguf.GGUFWriter(path, "llama")
    count = len(reader.fields["tokenizer.ggml.tokens"].data)
    for name, field in reader.fields.items():
        if name.startswith("tokenizer.") or name == "general.name":
            copy_field(writer, field)
    writer.add_block_count(1)
    writer.add_context_length(128)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(WIDTH)
    writer.add_head_count(2)
    zeros = lambda *shape: np.zeros(shape, np.float16)
    tensors = {"token_embd": zeros(count, WIDTH), "output_norm": zeros(WIDTH)}
    for part in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"):
        tensors[f"blk.0.{part}"] = zeros(WIDTH, WIDTH)
    for part in ("attn_norm", "ffn_norm"):
        tensors[f"blk.0.{part}"] = zeros(WIDTH)
    for name, data in tensors.items():
        writer.add_tensor(f"{name}.weight", data)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def tokens_of(folder, text):
    done = subprocess.run([MICA, "tokenize", "--ids", "-m", str(folder), "-"],
                          input=text + "\n", capture_output=True, text=True)
    return [int(word) for word in done.stdout.split()]


def strip(ids, around):
    """The ids without those that are put around every text."""
    before, after = around
    return ids[len(before):len(ids) - len(after)]


def find_around(folder):
    """What a text begins and ends with: what two texts have in common."""
    a, b = tokens_of(folder, "x"), tokens_of(folder, "7")
    n = next((i for i in range(min(len(a), len(b))) if a[i] != b[i]), 0)
    m = next((i for i in range(min(len(a), len(b))) if a[-1 - i] != b[-1 - i]), 0)
    shared = [t for t in a[:n]]
    while shared and len(a) - m <= len(shared):
        shared.pop()
    return shared, a[len(a) - m:]


def check(vocab, temp):
    global failed
    model, folder = temp / f"{vocab.stem}.gguf", temp / vocab.stem
    make_model(vocab, model)
    done = subprocess.run([MICA, "convert", str(model), str(folder), "--quiet"],
                          capture_output=True, text=True)
    model.unlink()
    if done.returncode:
        failed = True
        print(f"FAIL {vocab.stem}: {done.stderr.strip()}")
        return
    inputs = vocab.with_suffix(".gguf.inp")
    if not inputs.exists():
        print(f"     {vocab.stem}: converted; there are no answers")
        return
    texts = inputs.read_bytes().decode().split("\n__ggml_vocab_test__\n")
    answers = vocab.with_suffix(".gguf.out").read_text().split("\n")
    around = find_around(folder)
    wrong, odd = [], 0
    for text, answer in zip(texts, answers):
        want = [int(word) for word in answer.split()]
        got = strip(tokens_of(folder, text), around)
        if got == want:
            continue
        if unicodedata.normalize("NFC", text) != text:
            odd += 1
        else:
            wrong.append(f"{text!r}: {got}, want {want}")
    failed |= bool(wrong)
    print(f"{'FAIL' if wrong else 'ok  '} {vocab.stem}: {len(texts)} texts, {len(wrong)} differ, "
          f"and {odd} that are not in NFC")
    for line in wrong[:3]:
        print("    ", line[:300])


def main():
    with tempfile.TemporaryDirectory() as temp:
        for vocab in sorted(pathlib.Path(sys.argv[1]).glob("ggml-vocab-*.gguf")):
            check(vocab, pathlib.Path(temp))
    sys.exit(failed)


if __name__ == "__main__":
    main()
