#!/usr/bin/env python3
"""What a link costs a token of one model over two ranks: the model of docs/cluster.md against ranks
in two namespaces, by rates that tc sets and by delays.

    links.py MICA

A token sends half of each gathered vector each way, 4 bytes a number: 3 h + w of each layer, and
the logits; and waits four times a layer and once for the logits. So beside what it takes over a
link without limits it takes bytes / rate, or waits * delay.
"""
import json
import re
import subprocess

from cluster import MODEL
from network import Link, check_possible

TOKENS = 30


def cost_of(folder):
    """Bytes each way, and waits, of a token over two ranks"""
    with open(folder + "/config.json", encoding="utf-8") as file:
        config = json.load(file)
    layers, vocab = config["num_hidden_layers"], config["vocab_size"]
    numbers = layers * (3 * config["hidden_size"] + config["intermediate_size"]) + vocab
    return numbers * 4 / 2, layers * 4 + 1


def token_seconds(link):
    """The quickest of three: others are at work on this machine, too"""
    best = 0.0
    for _ in range(3):
        ranks = link.ranks("generate", MODEL, "curl is a", "--max-tokens", str(TOKENS), "-t", "1",
                           "--ignore-eos", stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
                           text=True)
        said = ranks.communicate(timeout=300)[1]
        assert ranks.returncode == 0, said
        best = max(best, float(re.search(r"generated at ([\d.]+) tok/s", said).group(1)))
    return 1 / best


def main():
    check_possible()
    byte_count, waits = cost_of(MODEL)
    print(f"a token: {byte_count / 1000:.1f} kB each way, {waits} waits")
    link = Link()
    try:
        alone = token_seconds(link)
        print(f"no limit: {alone * 1000:.1f} ms")
        cases = [("rate", mbit, byte_count * 8 / (mbit * 1e6)) for mbit in (20, 10, 5)]
        cases += [("delay", ms, waits * ms / 1000) for ms in (2, 5, 10)]
        for kind, value, cost in cases:
            link.limit(f"{value}mbit" if kind == "rate" else None)
            link.delay(value / 1000 if kind == "delay" else 0)
            took = token_seconds(link)
            told = f"{value} Mbit/s" if kind == "rate" else f"{value} ms"
            print(f"{told}: {took * 1000:.1f} ms, by the model {(alone + cost) * 1000:.1f}",
                  flush=True)
            # Where the link takes most of the time, whatever else this machine does.
            if cost > 0.09:
                assert 0.7 * cost < took < 1.5 * (alone + cost), (kind, value, took)
    finally:
        link.close()


if __name__ == "__main__":
    main()
