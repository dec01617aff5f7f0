#!/usr/bin/env python3
"""Ranks with a GPU each, on an emulated driver and NCCL: what one rank with a GPU prints.

   ranks.py MICA MPIRUN DRIVER nccl|host|stop

host: there is no NCCL, tensors go over the host; stop: a rank stands still while NCCL starts
"""
import os
import subprocess
import sys

MICA, MPIRUN, DRIVER, HOW = sys.argv[1:5]
ROOT = os.path.abspath(__file__ + "/../../..")
MODEL = ROOT + "/tests/fixtures/models/qwen3_tied"
LAYOUTS = [(2, []), (2, ["--pipeline-parallel", "2"]), (4, ["--tensor-parallel", "2"])]
SCORE = ["score", MODEL, "abc def ghi", "--tokens", "--device", "cuda", "-t", "1"]
GENERATE = ["generate", MODEL, "abc", "--max-tokens", "4", "--ignore-eos", "-T", "0", "--device",
            "cuda", "-t", "1"]


def run(command, name):
    made = subprocess.run(command, check=False, capture_output=True, text=True, timeout=500,
                          stdin=subprocess.DEVNULL,
                          env={**os.environ, "MICA_CUDA_LIBRARY": DRIVER,
                               "MICA_NCCL_LIBRARY": name, "MICA_EMULATED_TRACE": "1"})
    assert made.returncode == 0, (command, made.stdout, made.stderr)
    return made.stdout, made.stderr


def stop():
    """NCCL waits for the rank without a limit; the other one ends, and names it."""
    process = subprocess.Popen(
        [MPIRUN, "-n", "2", MICA, *SCORE], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
        env={**os.environ, "MICA_CUDA_LIBRARY": DRIVER, "MICA_NCCL_LIBRARY": DRIVER,
             "MICA_EMULATED_NCCL": "stop"})
    try:
        _, said = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode != 0 and "rank 1 (process " in said, said
    assert "no sign of life" in said, said
    print("the other rank has named it")


def main():
    if HOW == "stop":
        return stop()
    library = DRIVER if HOW == "nccl" else "/nowhere/libnccl.so.2"
    for words in SCORE, GENERATE:
        wanted, _ = run([MICA, *words], library)
        for count, layout in LAYOUTS:
            found, said = run([MPIRUN, "-n", str(count), MICA, *words, *layout], library)
            assert found == wanted, (words, layout, found, wanted, said)
            # What rank 0 calls: the others write nothing but errors.
            for name in ["ncclAllGather"] + ["ncclSend"] * bool(layout):
                assert (name in said) == (HOW == "nccl"), (name, layout)
    if HOW == "nccl":  # two models of one group: rank 0 joins it once
        _, said = run([MPIRUN, "-n", "2", MICA, *GENERATE, "--draft-model", MODEL], library)
        assert said.count("ncclCommInitRank\n") == said.count("ncclCommDestroy\n") == 1, said
    print(f"{len(LAYOUTS)} layouts are one rank, by {HOW}")
    return None


main()
