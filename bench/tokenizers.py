#!/usr/bin/env python3
"""Compares mica's tokenizers with the package `tokenizers`: loading, encoding and decoding 10 MB of
mixed text, one thread, ids compared.

    python3 bench/tokenizers.py BUILD_DIR [--rounds N] [--megabytes N] [NAME...]

NAME is a golden of tests/fixtures/tokenizers whose tokenizer tools/fetch_tokenizers has fetched
(default: gemma3 qwen3 llama3). BUILD_DIR was configured with MICA_BUILD_BENCH. The two libraries
run alternately; medians over the rounds are printed. Times are CPU time, which depends less on
other programs. The package's encoding time is that of encode_batch_fast (no offsets) or of encode,
whichever is less.
"""
import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"
sys.path = [p for p in sys.path if pathlib.Path(p or ".").resolve() != pathlib.Path(__file__).resolve().parent]
import tokenizers  # noqa: E402  (the package, not this file)

ROOT = pathlib.Path(__file__).resolve().parent.parent
GOLDENS = ROOT / "tests/fixtures/tokenizers"


def documents(megabytes):
    """Code, prose, many scripts, numbers and white space, 1 to 32 kB each; always the same."""
    rng = random.Random(1)
    files = sorted(p for d in ("src", "tests", "docs", "tools", "cli") for p in (ROOT / d).rglob("*")
                   if p.suffix in (".c", ".h", ".cpp", ".md", ".py") and p.stat().st_size > 1000)
    code = [p.read_text() for p in files]
    strings = json.loads((GOLDENS / "strings.json").read_text())["strings"]
    strings = [s for s in strings if 2 < len(s) < 2000 and "\0" not in s]
    words = sorted({w for text in code for w in text.split() if w.isalpha()})

    def prose():
        sentences = []
        for _ in range(rng.randint(3, 12)):
            s = " ".join(rng.choice(words).lower() for _ in range(rng.randint(4, 20)))
            sentences.append(s.capitalize() + rng.choice(".?!,;:"))
        return " ".join(sentences) + "\n\n"

    def source():
        text = rng.choice(code)
        at = rng.randrange(max(1, len(text) - 1500))
        return text[at:at + 1500]

    def numbers():
        return ", ".join(rng.choice(("%d", "%.3f", "%x", "-%e")) % rng.randint(0, 10**rng.randint(1, 9))
                         for _ in range(40)) + "\n"

    def spaces():
        return "".join(rng.choice((" ", "  ", "    ", "\n", "\t", "\r\n", "x", "}")) for _ in range(60))

    def scripts():
        return "".join(rng.choice(strings) + rng.choice((" ", "\n")) for _ in range(12))

    size, out = 0, []
    while size < megabytes * 1000000:
        want, parts = rng.randint(1000, 32000), []
        while sum(map(len, parts)) < want:
            parts.append(rng.choices((prose, source, numbers, spaces, scripts), (4, 4, 1, 1, 3))[0]())
        out.append("".join(parts)[:want])
        size += len(out[-1].encode())
    return out


def hash_ids(lists):
    value = 0xCBF29CE484222325
    for ids in lists:
        for i in ids:
            value = ((value ^ i) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return value


def timed(function):
    start = time.process_time()
    result = function()
    return time.process_time() - start, result


def theirs(path, docs):
    load, tok = timed(lambda: tokenizers.Tokenizer.from_file(path))
    one, encodings = timed(lambda: [tok.encode(d, add_special_tokens=False) for d in docs])
    fast, _ = timed(lambda: tok.encode_batch_fast(docs, add_special_tokens=False))
    ids = [e.ids for e in encodings]
    decode, _ = timed(lambda: [tok.decode(i, skip_special_tokens=False) for i in ids])
    return (load, min(one, fast), decode), ids


def ours(program, path, file):
    line = subprocess.run([program, path, file], check=True, capture_output=True, text=True).stdout.split()
    return tuple(map(float, line[:3])), int(line[3]), int(line[4], 16)


def compare(program, name, docs, file, rounds):
    golden = json.loads((GOLDENS / f"{name}.json").read_text())
    cache = pathlib.Path(os.environ.get("MICA_TEST_CACHE", pathlib.Path.home() / ".cache/mica-tests"))
    path = str(cache / golden["sha256"] / "tokenizer.json")
    size = sum(len(d.encode()) for d in docs) / 1e6
    a, b = [], []
    for _ in range(rounds):
        times, n, digest = ours(program, path, file)
        a.append(times)
        times, ids = theirs(path, docs)
        b.append(times)
        if n != sum(map(len, ids)) or digest != hash_ids(ids):
            sys.exit(f"{name}: the ids differ")
    a, b = ([statistics.median(column) for column in zip(*rows)] for rows in (a, b))
    print(f"{name:10} load {a[0] * 1e3:6.0f} ms {b[0] * 1e3:6.0f} ms {b[0] / a[0]:6.1f}x | "
          f"encode {size / a[1]:6.1f} MB/s {size / b[1]:6.2f} MB/s {b[1] / a[1]:6.1f}x | "
          f"decode {size / a[2]:6.1f} MB/s {size / b[2]:6.2f} MB/s {b[2] / a[2]:6.1f}x", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build_dir")
    parser.add_argument("names", nargs="*", default=["gemma3", "qwen3", "llama3"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--megabytes", type=float, default=10)
    args = parser.parse_args()
    docs = documents(args.megabytes)
    print(f"{len(docs)} documents, {args.rounds} rounds; mica, tokenizers {tokenizers.__version__}, how many times")
    with tempfile.NamedTemporaryFile() as file:
        file.write("\0".join(docs).encode())
        file.flush()
        for name in args.names:
            compare(os.path.join(args.build_dir, "bench/tokenizers"), name, docs, file.name, args.rounds)


main()
