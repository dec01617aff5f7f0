#!/usr/bin/env python3
"""Many short texts in one call: mica beside llama.cpp, in turns.

    python3 bench/peers/texts_rates.py MODEL GGUF [--mica build] [--texts 32] [--words 4]
                                       [--threads 2] [--rounds 7]

MODEL is a folder of bench/random_model, GGUF the same by bench/peers/convert.py. Needs the Python
package llama-cpp-python, whose sdist builds llama.cpp for this machine. Prints tokens a second of
classifying (the logits of each text's last token are wanted) and of scoring (all are), and the
median of the rounds' ratios. Both do one call before the one that counts. llama.cpp gets all texts
as sequences of one batch, with as many tokens as mica counts, and only its decoding counts, not
what mica does beside it: tokenizing, ranking labels, logarithms of probabilities.
"""
import argparse
import re
import statistics
import subprocess
import sys
import time


def decode_texts(args):
    """The rate of llama.cpp: this script's own child."""
    import llama_cpp as ll

    model = ll.llama_model_load_from_file(args.gguf.encode(), ll.llama_model_default_params())
    options = ll.llama_context_default_params()
    options.n_ctx = -(-args.tokens // 256) * 256
    options.n_batch = options.n_ubatch = args.tokens
    options.n_seq_max = args.texts
    options.n_threads = options.n_threads_batch = args.threads
    options.kv_unified = True
    context = ll.llama_init_from_model(model, options)
    batch = ll.llama_batch_init(args.tokens, 0, 1)
    each, more = divmod(args.tokens, args.texts)
    lengths = [each + (i < more) for i in range(args.texts)]
    places = [(text, at) for text, length in enumerate(lengths) for at in range(length)]
    batch.n_tokens = len(places)
    for i, (text, at) in enumerate(places):
        batch.token[i] = 300 + (text * 7 + at * 31) % 100
        batch.pos[i], batch.n_seq_id[i], batch.seq_id[i][0] = at, 1, text
        batch.logits[i] = args.score or at == lengths[text] - 1
    for _ in range(2):
        ll.llama_memory_clear(ll.llama_get_memory(context), True)
        start = time.perf_counter()
        if ll.llama_decode(context, batch):
            sys.exit("llama_decode failed")
        ll.llama_synchronize(context)
        seconds = time.perf_counter() - start
    print(f"rate {batch.n_tokens / seconds:.1f}")


def numbers(command):
    out = subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE,
                         stderr=subprocess.DEVNULL).stdout
    return [float(x) for x in re.findall(r"[0-9.]+", out)]


def compare(args, what):
    ours = [f"{args.mica}/bench/classify", args.model,
            *map(str, (args.words, args.texts, args.threads)), what]
    tokens = int(numbers(ours)[-2])
    theirs = [sys.executable, *sys.argv, "--child", "--tokens", str(tokens)]
    theirs += ["--score"] * (what == "score")
    rates = []
    for i in range(args.rounds):
        values = {k: numbers((ours, theirs)[k])[-1] for k in ((0, 1), (1, 0))[i % 2]}
        rates.append((values[0], values[1]))
    mica, peer = (statistics.median(r[k] for r in rates) for k in (0, 1))
    ratio = statistics.median(a / b for a, b in rates)
    low, high = min(a / b for a, b in rates), max(a / b for a, b in rates)
    print(f"{what:9} {tokens} tokens: mica {mica:8.1f}  llama.cpp {peer:8.1f}  ratio {ratio:.2f} "
          f"({low:.2f} to {high:.2f})", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("gguf")
    parser.add_argument("--mica", default="build")
    parser.add_argument("--texts", type=int, default=32)
    parser.add_argument("--words", type=int, default=4)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--tokens", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--score", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        return decode_texts(args)
    for what in ("classify", "score"):
        compare(args, what)


main()
