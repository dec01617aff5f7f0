#!/usr/bin/env python3
"""Rates of OpenVINO GenAI on the CPU, for compare.py.

    openvino_rates.py FOLDER --threads 2 --prompt 512 [--tokens 128] [--rows 8] [--precision f32]
                      [--cold]

Prompts are ids of no meaning. One short answer goes before, uncounted, unless --cold.
"""
import argparse
import os
import time

parser = argparse.ArgumentParser()
parser.add_argument("folder")
parser.add_argument("--threads", type=int, required=True)
parser.add_argument("--prompt", type=int, required=True)
parser.add_argument("--tokens", type=int, default=1)
parser.add_argument("--rows", type=int, default=1)
parser.add_argument("--precision", help="of what is not weights; what OpenVINO takes depends on the machine")
parser.add_argument("--cold", action="store_true")
args = parser.parse_args()

# Before the import: its threads inherit this, and the count below does not bind all of them.
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: args.threads])

import numpy as np
import openvino
import openvino_genai

options = {"INFERENCE_NUM_THREADS": args.threads}
if args.precision:
    options["INFERENCE_PRECISION_HINT"] = args.precision
pipeline = openvino_genai.LLMPipeline(args.folder, "CPU", **options)


def answer(prompt, tokens):
    ids = np.random.default_rng(1).integers(1000, 100000, (args.rows, prompt))
    inputs = openvino_genai.TokenizedInputs(openvino.Tensor(ids), openvino.Tensor(np.ones_like(ids)))
    config = openvino_genai.GenerationConfig(max_new_tokens=tokens, ignore_eos=True, do_sample=False)
    return pipeline.generate(inputs, config).perf_metrics


if not args.cold:
    answer(16, 4)
metrics = answer(args.prompt, args.tokens)
print(f"prefill {1000 * args.rows * args.prompt / metrics.get_ttft().mean:.2f}")
if args.tokens > 1 and args.rows == 1:
    print(f"decode {1000 / metrics.get_tpot().mean:.2f}")
elif args.tokens > 1:  # its own metrics count a step of several rows several times
    seconds = []
    for tokens in (1, args.tokens):
        start = time.perf_counter()
        answer(args.prompt, tokens)
        seconds.append(time.perf_counter() - start)
    print(f"decode {args.rows * (args.tokens - 1) / (seconds[1] - seconds[0]):.2f}")
