#!/usr/bin/env python3
"""Embeddings of many texts: mica beside sentence-transformers and onnxruntime, in turns.

    embed_rates.py [SHAPE ...] [--mica build/mica] [--models DIR] [--texts 1000] [--threads 2]
                   [--rounds 5] [--own-clock]

A SHAPE is one of encoders of family_models.py, which writes it to DIR/SHAPE if it is not there.
Texts have 8 to 256 tokens. mica runs `mica embed` in float32, bfloat16 and with weights of 8 bits
(`mica quantize --bits 8`), torch in float32 and bfloat16 by sentence-transformers, onnxruntime in
float32 (batches of 32, sorted by length, as sentence-transformers does). Of mica's time, that of a
run with one text is taken away: loading. `--own-clock` counts the processes' time instead of the
wall's, on one thread. Prints texts a second, medians of rounds, mica's ratio to each, and how far
mica's vectors are from torch's.

Needs torch, sentence-transformers, onnxruntime, onnx and onnxscript; without the last three
onnxruntime is left out.
"""
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from rates import parse_rates, rate_arguments

HERE = Path(__file__).parent
ENCODERS = ("minilm", "bge-base", "modernbert-base")


def children_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def mica_embed(args, folder, path):
    """The vectors, and seconds."""
    clock = children_seconds if args.own_clock else time.perf_counter
    start = clock()
    out = subprocess.run([args.mica, "embed", folder, path, "-t", str(args.threads), "-q"],
                         check=True, text=True, stdout=subprocess.PIPE).stdout
    seconds = clock() - start
    return [json.loads(line)["embedding"] for line in out.splitlines()], seconds


class Mica:
    def __init__(self, args, folder, files):
        self.args, self.folder, (self.all, self.one) = args, folder, files

    def run(self):
        vectors, whole = mica_embed(self.args, self.folder, self.all)
        return np.array(vectors), whole - mica_embed(self.args, self.folder, self.one)[1]


class Timed:
    """A peer in this process."""

    def __init__(self, args):
        self.clock = time.process_time if args.own_clock else time.perf_counter

    def run(self):
        start = self.clock()
        vectors = self.embed()
        return vectors, self.clock() - start


class Torch(Timed):
    def __init__(self, args, folder, texts, dtype):
        import sentence_transformers
        import torch

        super().__init__(args)
        torch.set_num_threads(args.threads)
        self.model = sentence_transformers.SentenceTransformer(str(folder), device="cpu")
        self.model = self.model.to(getattr(torch, dtype))
        self.texts = texts

    def embed(self):
        return self.model.encode(self.texts, batch_size=32, convert_to_tensor=True).float().numpy()


class Onnx(Timed):
    def __init__(self, args, folder, texts):
        import onnxruntime
        import torch
        from transformers import AutoModel, AutoTokenizer

        super().__init__(args)
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.texts = texts
        path = folder.with_suffix(".onnx")
        if not path.exists():
            model = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
            example = dict(self.tokenizer(["w7 w8", "w9 w10 w11"], padding=True,
                                          return_tensors="pt"))
            example = {k: example[k] for k in ("input_ids", "attention_mask")}
            sizes = {0: torch.export.Dim("texts"), 1: torch.export.Dim("tokens")}
            torch.onnx.export(model, (), str(path), kwargs=example, dynamo=True,
                              dynamic_shapes={k: sizes for k in example})
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = args.threads
        self.session = onnxruntime.InferenceSession(str(path), options)
        self.names = [i.name for i in self.session.get_inputs()]

    def embed(self):
        order = sorted(range(len(self.texts)), key=lambda i: -len(self.texts[i]))
        vectors = [None] * len(order)
        for at in range(0, len(order), 32):
            rows = order[at:at + 32]
            batch = self.tokenizer([self.texts[i] for i in rows], padding=True, return_tensors="np")
            states = self.session.run(None, {k: batch[k].astype(np.int64) for k in self.names})[0]
            mask = batch["attention_mask"][..., None]
            means = (states * mask).sum(1) / mask.sum(1)
            for i, mean in zip(rows, means):
                vectors[i] = mean / np.linalg.norm(mean)
        return np.array(vectors)


def make(args, shape):
    """Folders of float32, bfloat16 and 8 bits."""
    folder = args.models / shape
    half = args.models / f"{shape}-bf16"
    byte = args.models / f"{shape}-8bit"
    if not folder.exists():
        subprocess.run([sys.executable, HERE / "family_models.py", shape, folder], check=True)
    if not half.exists():
        subprocess.run([args.mica, "convert", folder, half, "--dtype", "bfloat16", "--quiet"],
                       check=True, stdout=subprocess.DEVNULL)
    if not byte.exists():
        subprocess.run([args.mica, "quantize", folder, byte, "--bits", "8", "--quiet"],
                       check=True, stdout=subprocess.DEVNULL)
    return folder, half, byte


def write_texts(args):
    """Texts and their files: of all, and of the first."""
    rng = np.random.default_rng(3)
    texts = [" ".join(f"w{i}" for i in rng.integers(5, 30000, n - 2))
             for n in rng.integers(8, 257, args.texts)]
    files = [args.models / "texts.txt", args.models / "text.txt"]
    for path, lines in zip(files, (texts, texts[:1])):
        path.write_text("".join(line + "\n" for line in lines))
    return texts, files


def compare(args, shape, texts, files):
    folder, half, byte = make(args, shape)
    contestants = {"mica f32": Mica(args, folder, files), "mica bf16": Mica(args, half, files),
                   "mica 8 bit": Mica(args, byte, files),
                   "torch f32": Torch(args, folder, texts, "float32"),
                   "torch bf16": Torch(args, folder, texts, "bfloat16")}
    try:
        contestants["onnxruntime"] = Onnx(args, folder, texts)
    except Exception as error:  # whatever an exporter throws: the others still run
        print(f"no onnxruntime: {type(error).__name__}: {error}"[:300], file=sys.stderr)
    rates, loads, vectors = {k: [] for k in contestants}, [], {}
    for i in range(args.rounds + 1):  # the first is not counted
        names = list(contestants)
        for name in names[::-1] if i % 2 else names:
            vectors[name], seconds = contestants[name].run()
            if i:
                rates[name].append(len(texts) / seconds)
        loads.append(os.getloadavg()[0])
    show(args, shape, rates, loads, vectors)


def show(args, shape, rates, loads, vectors):
    cosines = {k: (v * vectors["torch f32"]).sum(1).min() for k, v in vectors.items()}
    for name, values in rates.items():
        ratios = [statistics.median(m / v for m, v in zip(rates[mica], values))
                  for mica in ("mica f32", "mica bf16", "mica 8 bit")]
        print(f"{shape:16} {name:12} {statistics.median(values):8.1f} texts/s  mica f32 over it "
              f"{ratios[0]:.2f}  bf16 {ratios[1]:.2f}  8 bit {ratios[2]:.2f}  "
              f"cosine {cosines[name]:.5f}  "
              f"load {statistics.median(loads):.1f}", flush=True)


def main():
    parser = rate_arguments(__doc__)
    parser.add_argument("--texts", type=int, default=1000)
    args = parse_rates(parser)
    texts, files = write_texts(args)
    for shape in args.shapes or ENCODERS:
        compare(args, shape, texts, files)


main()
