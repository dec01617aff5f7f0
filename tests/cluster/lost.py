#!/usr/bin/env python3
"""A rank of two that is lost at a random moment: the group ends with a status within 30 s, and says
what it lost; no process stays on either machine, and no file is written by half.

    lost.py MICA HOW [TRIALS]      HOW: kill, stop, cut, full, model; TRIALS: 3

kill   SIGKILL
stop   SIGSTOP
cut    the link carries nothing any more
full   rank 0 writes to a file system that is full
model  one rank has another model
"""
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

from cluster import MICA, MODEL, ROOT, none_left, processes
from network import Link, check_possible

LIMIT = 30.0
FIXTURE = ROOT + "/tests/fixtures/models/qwen3_tied"
# Long enough that it does not end by itself.
LONG = ["generate", MODEL, "curl is a", "--max-tokens", "1900", "--ignore-eos", "-t", "1"]


def ranks_of(link):
    """The ranks, by the namespaces that they are in"""
    inodes = [os.stat(f"/run/netns/{name}").st_ino for name in link.names]
    found = {}
    for number, program, _ in processes():
        try:
            inode = os.stat(f"/proc/{number}/ns/net").st_ino
        except OSError:
            continue
        if program == MICA and inode in inodes:
            found[inodes.index(inode)] = number
    return found


def finish(group, began):
    """What was said, and by when"""
    try:
        said = group.communicate(timeout=LIMIT + 5)[1]
    except subprocess.TimeoutExpired:
        group.kill()
        raise
    took = time.monotonic() - began
    assert took < LIMIT, (took, said)
    assert group.returncode not in (0, None), said
    return took, said


def lose(link, how, moment, chance):
    """One trial: seconds until the end, and what was said"""
    with tempfile.TemporaryFile() as out:
        group = link.ranks(*LONG, stdout=out, stderr=subprocess.PIPE, text=True)
        # A rank that stands still while MPI starts is MPI's to find: it has no limit for that.
        while how != "kill" and not os.fstat(out.fileno()).st_size and group.poll() is None:
            time.sleep(0.05)
        time.sleep(moment)
        ranks = {}
        for _ in range(200):
            ranks = ranks_of(link)
            if len(ranks) == 2:
                break
            time.sleep(0.1)
        if len(ranks) != 2:
            group.terminate()
            raise AssertionError(f"{ranks} are the ranks: {group.communicate()[1]}")
        began = time.monotonic()
        if how == "cut":
            link.cut()
        else:
            os.kill(ranks[chance.randrange(2)],
                    signal.SIGKILL if how == "kill" else signal.SIGSTOP)
        return finish(group, began)


def fill(link, moment):
    """Rank 0 writes to a file of which one page is there, with room for some text, and there are no
    more. (What goes through mpirun is written by mpirun, which says nothing where that fails.)"""
    folder = tempfile.mkdtemp()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4096", "none", folder], check=True)
    try:
        with open(folder + "/out", "wb") as file:
            file.write(b"\n" * (4095 - int(moment * 100)))
        with open(link.folder + "/ranks", "w", encoding="ascii") as file:
            file.write(f'#!/bin/sh\nexec {MICA} "$@" >> {folder}/out\n')
        os.chmod(link.folder + "/ranks", 0o755)
        began = time.monotonic()
        group = link.ranks(*LONG, program=link.folder + "/ranks", stdout=subprocess.DEVNULL,
                           stderr=subprocess.PIPE, text=True)
        took, said = finish(group, began)
        assert "No space left" in said, said
        return took, said
    finally:
        subprocess.run(["umount", folder], check=True)
        os.rmdir(folder)


def mix(link, swapped):
    words = [["score", MODEL, "curl is a"], ["score", FIXTURE, "curl is a"]]
    began = time.monotonic()
    group = link.ranks(*words[swapped], second=words[not swapped], stdout=subprocess.DEVNULL,
                       stderr=subprocess.PIPE, text=True)
    took, said = finish(group, began)
    assert "rank 1" in said and "rank 0" in said, said
    return took, said


def main():
    how, trials = sys.argv[2], int((sys.argv[3:] or ["3"])[0])
    check_possible()
    chance = random.Random(how)
    times, last = [], ""
    for trial in range(trials):
        link = Link()
        moment = chance.uniform(0, 4)
        try:
            if how == "full":
                took, last = fill(link, moment)
            elif how == "model":
                took, last = mix(link, trial % 2)
            else:
                took, last = lose(link, how, moment, chance)
            none_left(LIMIT - took)
            times.append(took)
        finally:
            link.close()
    print("\n".join(line for line in last.splitlines() if "mica:" in line or "rank" in line))
    print(f"{how}: {trials} trials, ended after {min(times):.1f} to {max(times):.1f} s")


if __name__ == "__main__":
    main()
