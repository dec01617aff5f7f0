#!/usr/bin/env python3
"""Training steps of LoRA on a CPU, in turns: mica tune, PyTorch with PEFT, mlx-lm.

    tune_rates.py MICA MODEL PLAIN [--tokens 256] [--rank 8] [--threads 2] [--turns 2]
                  [--mlx-tokens 256] [--only mica,torch-bfloat16,torch-float32,mlx] [--checkpoint]

MICA is the command, MODEL what bench/random_model writes in 4 bits, PLAIN the same shape in bf16
for PyTorch, which has no 4-bit weights on a CPU. Factors are on all seven matrices of every layer;
a step is forward, backward and Adam, of a batch of one row. A turn is a process: its first step is
not counted, but of mlx, whose steps take minutes: one step of --mlx-tokens. Prints the median of
tokens per second, mica's divided by it, and the peak of resident memory, of which mica's has the
mapped weights in it. --checkpoint: mica computes layers again in the backward pass. Needs torch,
transformers, peft, mlx and mlx_lm.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

MATRICES = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
RATE = 1e-4


def run_torch(args, dtype):
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_pretrained(args.plain, dtype=getattr(torch, dtype))
    model = get_peft_model(model, LoraConfig(r=args.rank, target_modules=MATRICES))
    model.train()
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=RATE)
    for _ in range(args.steps):
        ids = torch.randint(1000, 100000, (1, args.tokens))
        start = time.perf_counter()
        model(input_ids=ids, labels=ids).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print("rate", args.tokens / (time.perf_counter() - start), flush=True)


def run_mlx(args):
    import mlx.core as mx
    import mlx.nn as nn
    import mlx.optimizers as optimizers
    mx.set_default_device(mx.cpu)
    from mlx_lm import load
    from mlx_lm.tuner.trainer import default_loss
    from mlx_lm.tuner.utils import linear_to_lora_layers
    model, _ = load(args.model)
    model.freeze()
    linear_to_lora_layers(model, len(model.layers), {"rank": args.rank, "scale": 20, "dropout": 0})
    model.train()
    optimizer = optimizers.Adam(RATE)
    step = nn.value_and_grad(model, default_loss)
    ids = mx.random.randint(1000, 100000, (1, args.mlx_tokens + 1))
    mx.eval(ids)
    start = time.perf_counter()
    (loss, _), grads = step(model, ids, mx.array([[0, args.mlx_tokens]]))
    optimizer.update(model, grads)
    mx.eval(loss, model.parameters(), optimizer.state)
    print("rate", args.mlx_tokens / (time.perf_counter() - start), flush=True)


def mica_command(args, folder):
    data, log = folder / "data.jsonl", folder / "log.jsonl"
    log.unlink(missing_ok=True)
    words = "the quick tool that opens a file and prints lines of text to a server".split()
    text = " ".join(words[i * i % len(words)] for i in range(2 * args.tokens))
    data.write_text((json.dumps({"text": text}) + "\n") * 4)
    command = [args.mica, "tune", args.model, "--data", str(data), "--batch-size", "1",
               "--iters", str(args.steps), "--max-seq-length", str(args.tokens + 1),
               "--num-layers", "-1", "--rank", str(args.rank), "--learning-rate", str(RATE),
               "--steps-per-report", "1", "--threads", str(args.threads), "--log", str(log),
               "--adapter-path", str(folder / "adapter"), "--force", "-q"]
    return command + (["--grad-checkpoint"] if args.checkpoint else [])


def started(command, threads):
    """(output, peak of resident memory in MiB)"""
    threads = str(threads)
    environment = {**os.environ, "OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads}
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, stdout=output, stderr=errors, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
        output.seek(0), errors.seek(0)
        if status != 0:
            sys.exit(f"{command[0]}: {errors.read()[-2000:]}")
        return output.read(), usage.ru_maxrss / 1024


def turn(args, who, folder):
    """(rates of the steps that count, peak in MiB)"""
    if who == "mica":
        command = mica_command(args, folder)
        _, peak = started(command, args.threads)
        lines = [json.loads(line) for line in open(folder / "log.jsonl")]
        rates = [args.tokens * x["iterations_per_second"] for x in lines if x["event"] == "train"]
        return rates[1:], peak
    output, peak = started([sys.executable, __file__, *sys.argv[1:], "--run", who], args.threads)
    rates = [float(line.split()[1]) for line in output.splitlines() if line.startswith("rate ")]
    return rates if who == "mlx" else rates[1:], peak


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("mica")
    parser.add_argument("model")
    parser.add_argument("plain")
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--mlx-tokens", type=int, default=256)
    parser.add_argument("--rank", type=int, default=8)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--only", default="mica,torch-bfloat16,torch-float32,mlx")
    parser.add_argument("--checkpoint", action="store_true")
    parser.add_argument("--run", help="be one of the programs")
    args = parser.parse_args()
    if args.run:
        run_mlx(args) if args.run == "mlx" else run_torch(args, args.run.split("-")[1])
        return
    rates, peaks = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        for i in range(args.turns):
            for who in args.only.split(","):
                if who == "mlx" and i > 0:
                    continue
                found, peak = turn(args, who, pathlib.Path(folder))
                print(who, *(f"{rate:.2f}" for rate in found), file=sys.stderr, flush=True)
                rates[who] = rates.get(who, []) + found
                peaks[who] = max(peaks.get(who, 0), peak)
    weights = os.path.getsize(args.model + "/model.safetensors") / 2**20
    print(f"{args.tokens} tokens a step, rank {args.rank}; weights {weights:.0f} MiB")
    for who in rates:
        median = statistics.median(rates[who])
        line = f"{who:15} {median:8.2f} tokens/s, peak {peaks[who]:6.0f} MiB"
        if "mica" in rates:
            line += f"; mica / it {statistics.median(rates['mica']) / median:.2f}"
        print(line, flush=True)


main()
