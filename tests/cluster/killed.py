#!/usr/bin/env python3
"""mica batch that is killed at random moments, by SIGKILL, SIGTERM and SIGINT, and started again
with the same output: after each, all lines but the last are whole, and at the end each answer is
there once and is that of a run that nobody has disturbed. Exit codes are those that it promises.
From a file, and from standard input.

    killed.py MICA
"""
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("MICA_CLUSTER_PROMPTS", "300")
from cluster import COUNT, MICA, MODEL, answer_here, compare, read, write_prompts  # noqa: E402

KILLS = 20
CODES = {signal.SIGKILL: -signal.SIGKILL, signal.SIGTERM: 75, signal.SIGINT: 130}


def whole_lines(path):
    """The answers of an output, whose last line alone may be incomplete"""
    with open(path, encoding="utf-8") as file:
        lines = file.read().split("\n")
    ids = [json.loads(line)["custom_id"] for line in lines[:-1]]
    assert len(set(ids)) == len(ids), "an answer is there twice"
    return len(ids)


def start(prompts, output, by_stdin):
    command = [MICA, "batch", "--quiet", "--parallel", "4", "--shard", "1/1", "--output", output,
               "--model", MODEL, "-" if by_stdin else prompts]
    with open(prompts if by_stdin else os.devnull, "rb") as source:
        return subprocess.Popen(command, stdin=source, stderr=subprocess.PIPE)


def main():
    chance = random.Random(11)
    with tempfile.TemporaryDirectory() as folder:
        prompts, output = folder + "/prompts.jsonl", folder + "/answers.jsonl"
        write_prompts(prompts)
        began = time.monotonic()
        expected = answer_here(prompts)
        took = time.monotonic() - began
        codes = {}
        for kill in range(KILLS):
            process = start(prompts, output, kill % 2)
            time.sleep(chance.uniform(0, took / 8))
            number = chance.choice(list(CODES))
            process.send_signal(number)
            code = process.wait(60)
            # One that had not set up its handlers yet, or had answered all, ends otherwise.
            assert code in (CODES[number], -number, 0), (number, code, process.stderr.read())
            codes[code] = codes.get(code, 0) + 1
            if os.path.exists(output):
                whole_lines(output)
        process = start(prompts, output, False)
        assert process.wait(600) == 0, process.stderr.read()
        with open(output, encoding="utf-8") as file:
            compare(read(file.read()), expected)
        assert len(expected) == COUNT and len(codes) >= 3, codes
    print(f"{COUNT} prompts, {KILLS} kills, exit codes {codes}")


if __name__ == "__main__":
    main()
