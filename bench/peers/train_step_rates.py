#!/usr/bin/env python3
"""A step of training, forward and backward, of mica, PyTorch and MLX on a CPU, in turns.

    train_step_rates.py TRAIN_STEP MODEL PLAIN [--tokens 512] [--rank 8] [--threads 2] [--turns 3]
                        [--only mica,torch,mlx]

TRAIN_STEP is build/bench/train_step, MODEL what bench/random_model writes in 4 bits, PLAIN the same
shape in bf16 for PyTorch, which has no 4-bit weights on a CPU. Low-rank factors are on all seven
matrices of every layer. mica checkpoints no layer here, as the others do not. A turn is a process
of three steps, of which the last two count. Prints the medians of time by the clock and of all
threads, and the others' divided by mica's. Needs torch, transformers, peft, mlx and mlx_lm.
"""
import argparse
import os
import re
import statistics
import subprocess
import sys
import time

MATRICES = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
STEPS = 3


def timed(step):
    for _ in range(STEPS):
        start, work = time.perf_counter(), time.process_time()
        step()
        print(f"step {time.perf_counter() - start} {time.process_time() - work}", flush=True)


def run_torch(args):
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_pretrained(args.plain, dtype=torch.bfloat16)
    model = get_peft_model(model, LoraConfig(r=args.rank, target_modules=MATRICES))
    model.train()
    ids = torch.randint(1000, 100000, (1, args.tokens))

    def step():
        model(input_ids=ids, labels=ids).loss.backward()
        model.zero_grad()
    timed(step)


def run_mlx(args):
    import mlx.core as mx
    import mlx.nn as nn
    mx.set_default_device(mx.cpu)
    from mlx_lm import load
    from mlx_lm.tuner.utils import linear_to_lora_layers
    model, _ = load(args.model)
    model.freeze()
    keys = {("mlp." if name in MATRICES[4:] else "self_attn.") + name for name in MATRICES}
    linear_to_lora_layers(model, len(model.layers),
                          {"rank": args.rank, "scale": 16.0, "dropout": 0.0, "keys": keys})
    model.train()
    ids = mx.random.randint(1000, 100000, (1, args.tokens + 1))

    def loss(model, ids):
        logits = model(ids[:, :-1]).astype(mx.float32)
        return nn.losses.cross_entropy(logits, ids[:, 1:], reduction="mean")
    differentiate = nn.value_and_grad(model, loss)
    timed(lambda: mx.eval(differentiate(model, ids)))


def turn(args, who):
    """(time by the clock, time of all threads) of the steps that count."""
    command = [sys.executable, __file__, *sys.argv[1:], "--run", who]
    pattern = r"^step ([\d.]+) ([\d.]+)"
    if who == "mica":
        command = [args.train_step, args.model, str(args.tokens), str(STEPS), str(args.rank),
                   str(args.threads), "whole"]
        pattern = r"^step \d+: ([\d.]+) s, of all threads ([\d.]+) s"
    threads = str(args.threads)
    environment = {**os.environ, "OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads}
    output = subprocess.run(command, capture_output=True, text=True, env=environment)
    if output.returncode != 0:
        sys.exit(f"{who}: {output.stderr[-2000:]}")
    steps = re.findall(pattern, output.stdout, re.M)
    return [tuple(map(float, step)) for step in steps[1:]]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("train_step")
    parser.add_argument("model")
    parser.add_argument("plain")
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--rank", type=int, default=8)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--only", default="mica,torch,mlx")
    parser.add_argument("--run", help="be one of the programs")
    args = parser.parse_args()
    if args.run:
        {"torch": run_torch, "mlx": run_mlx}[args.run](args)
        return
    steps = {who: [] for who in args.only.split(",")}
    for _ in range(args.turns):
        for who in steps:
            steps[who] += turn(args, who)
    medians = {who: [statistics.median(s[i] for s in of) for i in (0, 1)]
               for who, of in steps.items()}
    for who, (clock, work) in medians.items():
        line = f"{who:6} {clock:8.2f} s, of all threads {work:8.2f} s"
        if "mica" in medians:
            line += f"; / mica {clock / medians['mica'][0]:.2f}, {work / medians['mica'][1]:.2f}"
        print(line)


main()
