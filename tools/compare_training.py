#!/usr/bin/env python3
"""Trains the default model on examples/tune by mica and by mlx-lm's own trainer, with the same
first factors, batches, order, optimizer and rate, and prints both validation losses.

    python3 tools/compare_training.py [build/mica [FOLDER]]   (needs mlx and mlx-lm; made with 0.32,
                                                               0.32)

FOLDER gets a log of each, which `mica plot` draws: the curves of docs/tuning.md are

    mica plot FOLDER/mica.jsonl FOLDER/mlx-lm.jsonl --output docs/tuning-curves.svg

Three things are unlike mlx-lm's defaults. Its loss counts the padding token behind each text: here
it does not. A validation draws from the random numbers that order the batches: here it gets its
own. The 4-bit weights are dequantised to f32, the same values, for MLX's products with codes are
slow on a CPU.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optimizers
import numpy as np
from mlx.utils import tree_flatten, tree_map
from mlx_lm import load
from mlx_lm.tuner import trainer
from mlx_lm.tuner.datasets import CompletionsDataset
from mlx_lm.tuner.utils import linear_to_lora_layers
from mlx_lm.utils import dequantize_model

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODEL, DATA = str(ROOT / "models/default"), ROOT / "examples/tune"
STEPS, EVERY, RATE, BATCH, SEED, RANK, SCALE = 60, 5, 3e-4, 4, 0, 8, 20.0


def mica(command, folder):
    """Trains, and keeps the factors from before the first step in FOLDER/first."""
    config = folder / "zero.json"
    config.write_text(json.dumps({"lr_schedule": {"name": "constant", "arguments": [0]}}))
    log = folder / "mica.jsonl"
    log.unlink(missing_ok=True)
    common = [command, "tune", "-m", MODEL, "--data", str(DATA), "--mask-prompt", "-q",
              "--batch-size", str(BATCH), "--seed", str(SEED), "--rank", str(RANK),
              "--arithmetic", "exact", "--average", "steps", "--force"]
    first = ["-c", str(config), "--iters", "1", "--adapter-path", str(folder / "first")]
    subprocess.run(common + first, check=True)
    subprocess.run(common + ["--iters", str(STEPS), "--learning-rate", str(RATE),
                             "--steps-per-eval", "1", "--steps-per-report", "1",
                             "--val-batches", "-1", "--log", str(log),
                             "--adapter-path", str(folder / "last")], check=True)
    lines = [json.loads(line) for line in open(log)]
    return {x["iteration"]: x["loss"] for x in lines if x["event"] == "valid"}


def examples(tokenizer, name):
    """Token ids and lengths of prompts: mlx-lm sorts a list of these by length, as mica does."""
    data = [json.loads(line) for line in open(DATA / name)]
    made = CompletionsDataset(data, tokenizer, "prompt", "completion", True)
    return [made.process(line) for line in data]


def loss(model, batch, lengths):
    """mlx-lm's default_loss, less the token behind each text."""
    steps = mx.arange(1, batch.shape[1])
    mask = mx.logical_and(steps >= lengths[:, 0:1], steps < lengths[:, 1:])
    losses = nn.losses.cross_entropy(model(batch[:, :-1]), batch[:, 1:]) * mask
    return losses.sum() / mask.sum(), mask.sum()


def iterate_batches(loop=False, **options):
    """mlx-lm's iterate_batches; what does not loop, a validation, draws no number of training."""
    kept = np.random.get_state()
    for batch in trainer.iterate_batches(loop=loop, **options):
        if not loop:
            np.random.set_state(kept)
        yield batch


class Curve(trainer.TrainingCallback):
    def __init__(self, path):
        self.file, self.losses = open(path, "w"), {}

    def add(self, event, iteration, value):
        line = {"event": event, "iteration": iteration, "loss": value}
        self.file.write(json.dumps(line) + "\n")

    def on_train_loss_report(self, report):
        self.add("train", report["iteration"], report["train_loss"])

    def on_val_loss_report(self, report):
        self.losses[report["iteration"]] = report["val_loss"]
        self.add("valid", report["iteration"], report["val_loss"])


def mlx_lm(folder):
    model, tokenizer = load(MODEL)
    floats = (mx.bfloat16, mx.float16)
    model.update(tree_map(lambda p: p.astype(mx.float32) if p.dtype in floats else p,
                          model.parameters()))
    model = dequantize_model(model)
    model.freeze()
    linear_to_lora_layers(model, len(model.layers), {"rank": RANK, "scale": SCALE, "dropout": 0.0})
    model.load_weights(str(folder / "first/adapters.safetensors"), strict=False)
    np.random.seed(SEED)
    curve = Curve(folder / "mlx-lm.jsonl")
    args = trainer.TrainingArgs(batch_size=BATCH, iters=STEPS, val_batches=-1, steps_per_eval=EVERY,
                                steps_per_report=1, adapter_file=folder / "theirs.safetensors")
    trainer.train(model, optimizers.Adam(RATE), examples(tokenizer, "train.jsonl"),
                  examples(tokenizer, "valid.jsonl"), args, loss, iterate_batches, curve)
    curve.file.close()
    return curve.losses, dict(tree_flatten(model.trainable_parameters()))


def main():
    mx.set_default_device(mx.cpu)
    command = sys.argv[1] if len(sys.argv) > 1 else str(ROOT / "build/mica")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else name)
        folder.mkdir(parents=True, exist_ok=True)
        ours = mica(command, folder)
        theirs, factors = mlx_lm(folder)
        last = mx.load(str(folder / "last/adapters.safetensors"))
        apart = max(mx.abs(factors[k] - last[k]).max().item() for k in last)
        size = max(mx.abs(last[k]).max().item() for k in last)
    print("steps    mica    mlx-lm")
    for i in sorted(theirs):
        print(f"{i:5}  {ours[i]:7.4f}  {theirs[i]:7.4f}")
    print(f"the largest difference of losses is "
          f"{max(abs(ours[i] - theirs[i]) for i in theirs):.2g}, of factors after {STEPS} steps "
          f"{apart:.2g}; the largest factor is {size:.2g}")


if __name__ == "__main__":
    main()
