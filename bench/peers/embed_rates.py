#!/usr/bin/env python3
"""Embeddings of many texts: mica beside sentence-transformers and onnxruntime, in turns.

    embed_rates.py [SHAPE ...] [--mica build/mica] [--models DIR] [--texts 1000] [--threads 2]
                   [--rounds 5] [--own-clock] [--only NAME,...] [--log FILE]

A SHAPE is one of encoders of family_models.py, which writes it to DIR/SHAPE if it is not there.
Texts have 8 to 256 tokens. mica runs `mica embed` in float32, bfloat16 and with weights of 8 bits
(`mica quantize --bits 8`), torch in float32 and bfloat16 by sentence-transformers, onnxruntime in
float32 (batches of 32, sorted by length, as sentence-transformers does). Of mica's time, that of a
run with one text is taken away: loading. Peers embed some texts before they are timed.
`--own-clock` counts the processor's time over the threads instead of the wall's, on one thread or
`--threads`, and those of peers sleep where they wait. `--only` runs some of the contestants, as
they are called in the table, to keep a run short. Prints texts a second, medians of rounds, mica's
ratio to each, and how far vectors are from those of torch in float32, or of the last contestant
that runs.

Needs torch, sentence-transformers, onnxruntime, onnx and onnxscript; without the last three
onnxruntime is left out.
"""
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

import numpy as np

from rates import parse_rates, rate_arguments, run_rounds

HERE = Path(__file__).parent
WARM = 32  # texts that a peer embeds before it is timed
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
    if args.own_clock:
        seconds /= args.threads
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
        own = lambda: time.process_time() / args.threads
        self.clock = own if args.own_clock else time.perf_counter

    def run(self):
        self.embed(self.texts[:WARM])
        start = self.clock()
        vectors = self.embed(self.texts)
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

    def embed(self, texts):
        return self.model.encode(texts, batch_size=32, convert_to_tensor=True).float().numpy()


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
        if args.own_clock:
            options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self.session = onnxruntime.InferenceSession(str(path), options)
        self.names = [i.name for i in self.session.get_inputs()]

    def embed(self, texts):
        order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
        vectors = [None] * len(order)
        for at in range(0, len(order), 32):
            rows = order[at:at + 32]
            batch = self.tokenizer([texts[i] for i in rows], padding=True, return_tensors="np")
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
    makers = {"mica f32": lambda: Mica(args, folder, files),
              "mica bf16": lambda: Mica(args, half, files),
              "mica 8 bit": lambda: Mica(args, byte, files),
              "onnxruntime": lambda: Onnx(args, folder, texts),
              "torch bf16": lambda: Torch(args, folder, texts, "bfloat16"),
              "torch f32": lambda: Torch(args, folder, texts, "float32")}
    contestants = {}
    for name in args.only.split(",") if args.only else makers:
        try:
            contestants[name] = makers[name]()
        except Exception as error:  # whatever an exporter throws: the others still run
            print(f"no {name}: {type(error).__name__}: {error}"[:300], file=sys.stderr)
    vectors = {}

    def time(name):
        vectors[name], seconds = contestants[name].run()
        return len(texts) / seconds

    rounds = run_rounds(args, (shape, len(texts)), {k: lambda k=k: time(k) for k in contestants})
    show(shape, rounds, contestants, vectors)


def show(shape, rounds, names, vectors):
    truth = vectors["torch f32" if "torch f32" in vectors else list(names)[-1]]
    load = median(r["load"] for r in rounds)
    for name in names:
        ratios = "  ".join(f"{mica} over it {median(r[mica] / r[name] for r in rounds):.2f}"
                           for mica in names if mica.startswith("mica"))
        print(f"{shape:16} {name:12} {median(r[name] for r in rounds):8.1f} texts/s  "
              f"{ratios}  cosine {(vectors[name] * truth).sum(1).min():.5f}  "
              f"{len(rounds)} rounds, load {load:.1f}", flush=True)


def main():
    if "--own-clock" in sys.argv:
        os.environ["OMP_WAIT_POLICY"] = "passive"  # before torch is loaded
    parser = rate_arguments(__doc__)
    parser.add_argument("--texts", type=int, default=1000)
    parser.add_argument("--only", help="contestants, with commas between")
    args = parse_rates(parser)
    texts, files = write_texts(args)
    for shape in args.shapes or ENCODERS:
        compare(args, shape, texts, files)


main()
