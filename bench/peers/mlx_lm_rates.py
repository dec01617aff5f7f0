#!/usr/bin/env python3
"""mica on the device mlx against mlx_lm's own Python, on one model, in turns.

    mlx_lm_rates.py MICA MODEL [--device mlx:gpu] [--site FOLDER] [--prompt 512] [--tokens 128]
                    [--turns 5]

FOLDER holds the Python packages mlx and mlx_lm, if they are not installed. Prints the median rates
of prefill and decoding, and mica's divided by mlx_lm's.
"""
import argparse
import json
import random
import statistics
import subprocess
import sys
import time


def mica_rates(args):
    command = [args.mica, "bench", args.model, "--device", args.device,
               "--prompt", str(args.prompt), "--generate", str(args.tokens), "--repeat", "1", "--json"]
    output = subprocess.run(command, capture_output=True, check=True).stdout
    result = json.loads(output)["results"][0]
    return result["prefill_rate"], result["decode_rate"]


def mlx_lm_rates(args, model, prompt):
    """Of the loop that mlx_lm itself runs, without turning tokens to text."""
    import mlx.core as mx
    from mlx_lm.generate import generate_step
    times = [time.perf_counter()]
    for _ in generate_step(mx.array(prompt), model, max_tokens=args.tokens):
        times.append(time.perf_counter())
    return len(prompt) / (times[1] - times[0]), (len(times) - 2) / (times[-1] - times[1])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("mica")
    parser.add_argument("model")
    parser.add_argument("--device", default="mlx:gpu")
    parser.add_argument("--site")
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--turns", type=int, default=5)
    args = parser.parse_args()
    if args.site:
        sys.path.insert(0, args.site)
    import mlx.core as mx
    if args.device == "mlx:cpu":
        mx.set_default_device(mx.cpu)
    from mlx_lm import load
    model, _ = load(args.model)
    prompt = random.Random(1).sample(range(1000, 8000), args.prompt)
    mlx_lm_rates(args, model, prompt)
    rates = {"mica": [], "mlx_lm": []}
    for _ in range(args.turns):
        rates["mica"].append(mica_rates(args))
        rates["mlx_lm"].append(mlx_lm_rates(args, model, prompt))
    medians = {who: [statistics.median(r[i] for r in runs) for i in (0, 1)]
               for who, runs in rates.items()}
    for who, (prefill, decode) in medians.items():
        print(f"{who:8} prefill {prefill:10.1f} tok/s   decode {decode:8.1f} tok/s")
    ratios = [medians["mica"][i] / medians["mlx_lm"][i] for i in (0, 1)]
    print(f"{'ratio':8} prefill {ratios[0]:10.2f}         decode {ratios[1]:8.2f}")


main()
