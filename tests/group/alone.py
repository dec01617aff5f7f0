#!/usr/bin/env python3
"""A rank whose n-th allocation fails, for n over all of them: neither rank waits for ever, and the
other one gets a status that names it.

usage: alone.py TEST MPIRUN WHAT"""

import os
import subprocess
import sys
import tempfile

LIMIT = 90  # seconds, with the start of MPI
LINES = "".join(
    f'{{"prompt": "What is {name}?", "completion": "A thing, captain."}}\n'
    for name in ("curl", "a disk", "C", "a CPU", "tar"))


def run(test, mpirun, what, n, how):
    """What the two ranks came to: status, whether the allocation was made, text; and then"""
    with tempfile.TemporaryDirectory() as folder:
        with open(folder + "/train.jsonl", "w", encoding="utf-8") as file:
            file.write(LINES)
        command = [mpirun, "-n", "2", test, "alone", what, str(n), how, folder]
        with open(folder + "/said", "w", encoding="utf-8") as said:
            process = subprocess.Popen(command, stdout=said, stderr=said)
            try:
                process.wait(LIMIT)
            except subprocess.TimeoutExpired:
                process.terminate()
                process.wait()
        found = []
        for rank in range(2):
            if not os.path.exists(f"{folder}/{rank}"):
                with open(folder + "/said", encoding="utf-8") as said:
                    raise SystemExit(f"{what} {n} {how}: rank {rank} has not ended\n{said.read()}")
            with open(f"{folder}/{rank}", encoding="utf-8") as file:
                own, then = file.read().splitlines()
            status, reached, text = own.split(" ", 2)
            found.append((int(status), reached == "1", text, *then.split(" ", 1)))
        return found


def check(what, n, how, other, failing):
    """Rank 0 goes on where rank 1 did, and else hears of it: then, or in what comes next."""
    print(what, n, how, other, failing, flush=True)
    fails = failing[0] != 0 or failing[3] != "0"
    if not fails:
        assert other[0] == 0 and other[3] == "0"
        return
    named = [text for status, text in ((other[0], other[2]), (int(other[3]), other[4])) if status]
    assert named and "rank 1" in named[0]


def main():
    test, mpirun, what = sys.argv[1:4]
    for how in ("once", "all"):
        n = 1
        while True:
            other, failing = run(test, mpirun, what, n, how)
            check(what, n, how, other, failing)
            if not failing[1]:
                break
            n += 1 + n // 4 * 2  # all the first ones, then a sample
        assert n > 1


main()
