#!/usr/bin/env python3
"""The newer families' prefill and decode: mica beside llama.cpp, in turns.

    family_rates.py [SHAPE ...] [--mica build/mica] [--models DIR] [--prompt 512] [--generate 32]
                    [--threads 2] [--rounds 5] [--own-clock] [--log FILE]

A SHAPE is one of decoders of family_models.py, which writes it to DIR/SHAPE if it is not there;
`mica convert` writes DIR/SHAPE.gguf, with the same numbers in the same bits. Needs numpy and the
package llama-cpp-python, whose sdist builds llama.cpp for this machine. A round runs mica and
llama.cpp as processes one after the other, the first of them in turns; each computes the whole
once before it is timed. Prints medians of tokens a second, of the rounds' ratios, and of loads.
Only llama_decode counts for llama.cpp, not the choice of a token.

`--own-clock` times one thread by the processes' own clocks, for machines that others keep busy:
threads of llama.cpp wait for each other in loops, and lose more there than their share. With
`--threads 2` these sleep instead, and rates are of the processor's time over the threads: what
llama.cpp would have if its threads never waited. mica's may wait in loops, and that counts.

`--alone` times SHAPE and qwen3.5-2b-attention by mica only, in turns: what a prompt costs with
delta nets, beside the same widths with attention in all layers.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from rates import parse_rates, rate_arguments, run_rounds

HERE = Path(__file__).parent
DECODERS = ("qwen3-30b-a3b", "gpt-oss-20b", "qwen3.5-2b", "lfm2-1.2b")


def decode(ll, context, tokens, clock):
    """Seconds of one pass."""
    ids = (ll.llama_token * len(tokens))(*tokens)  # the batch points to it
    batch = ll.llama_batch_get_one(ids, len(ids))
    start = clock()
    if ll.llama_decode(context, batch):
        sys.exit("llama_decode failed")
    ll.llama_synchronize(context)
    return clock() - start


def time_llama(args):
    """Rates of llama.cpp: this script's own child."""
    import llama_cpp as ll
    import numpy as np

    clock = (lambda: time.process_time() / args.threads) if args.own_clock else time.perf_counter
    model = ll.llama_model_load_from_file(args.child.encode(), ll.llama_model_default_params())
    options = ll.llama_context_default_params()
    options.n_ctx = -(-(args.prompt + args.generate) // 256) * 256
    options.n_batch = args.prompt
    options.n_ubatch = min(args.prompt, args.ubatch)
    options.n_threads = options.n_threads_batch = args.threads
    context = ll.llama_init_from_model(model, options)
    vocab = ll.llama_vocab_n_tokens(ll.llama_model_get_vocab(model))
    prompt = [int(i) for i in np.random.default_rng(1).integers(0, 256, args.prompt)]
    for _ in range(2):
        ll.llama_memory_clear(ll.llama_get_memory(context), True)
        prefill, generate = decode(ll, context, prompt, clock), 0.0
        for _ in range(args.generate):
            logits = np.ctypeslib.as_array(ll.llama_get_logits_ith(context, -1), (vocab,))
            generate += decode(ll, context, [int(np.argmax(logits))], clock)
    print(json.dumps([args.prompt / prefill, args.generate / generate]))


def output(command):
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL).stdout


def time_mica(args, shape):
    if args.own_clock:
        program = Path(args.mica).parent / "bench/own_clock"
        return json.loads(output([program, args.models / shape, str(args.prompt),
                                  str(args.generate), str(args.threads)]))
    row = json.loads(output([args.mica, "bench", args.models / shape, "-p", str(args.prompt), "-n",
                             str(args.generate), "-t", str(args.threads), "-r", "1", "--json"]))
    row = row["results"][0]
    return row["prefill_rate"], row["decode_rate"]


def time_peer(args, shape):
    if args.alone:
        return time_mica(args, "qwen3.5-2b-attention")
    child = [sys.executable, *sys.argv, "--child", args.models / f"{shape}.gguf"]
    return json.loads(output(child).splitlines()[-1])


def make(args, shape, gguf):
    folder = args.models / shape
    if not folder.exists():
        output([sys.executable, HERE / "family_models.py", shape, folder])
    if gguf and not folder.with_name(f"{shape}.gguf").exists():
        output([args.mica, "convert", folder, f"{folder}.gguf", "--quiet"])


def compare(args, shape):
    make(args, shape, not args.alone)
    peer = "attention" if args.alone else "llama.cpp"
    rounds = run_rounds(args, (shape, args.prompt, args.generate),
                        {"mica": lambda: time_mica(args, shape),
                         peer: lambda: time_peer(args, shape)})
    load = statistics.median(r["load"] for r in rounds)
    for i, what in enumerate((f"prefill {args.prompt}", f"decode at {args.prompt}")):
        ours, theirs = (statistics.median(r[k][i] for r in rounds) for k in ("mica", peer))
        ratios = sorted(r["mica"][i] / r[peer][i] for r in rounds)
        print(f"{shape:14} {what:14} mica {ours:7.1f}  {peer} {theirs:7.1f}  "
              f"ratio {statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})  "
              f"{len(rounds)} rounds, load {load:.1f}", flush=True)


def main():
    if "--own-clock" in sys.argv:
        os.environ["OMP_WAIT_POLICY"] = "passive"  # before llama.cpp is loaded
    parser = rate_arguments(__doc__)
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--generate", type=int, default=32)
    parser.add_argument("--ubatch", type=int, default=512, help="tokens of a pass of llama.cpp")
    parser.add_argument("--alone", action="store_true")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    args = parse_rates(parser)
    if args.child:
        return time_llama(args)
    if args.alone:
        make(args, "qwen3.5-2b-attention", False)
    for shape in args.shapes or DECODERS:
        compare(args, shape)


main()
