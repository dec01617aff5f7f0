#!/usr/bin/env python3
"""A rank of two that is lost at a random moment, its start among them: all that can end does so
with a status within 30 s, and says why; no process stays on either machine, and no file is written
by half. Half of the ranks generate, half train and save after each update.

    lost.py MICA HOW OVER [TRIALS [SEED]]      OVER: mpi, tcp; TRIALS: 3; SEED: one that is printed

HOW is one of
kill   SIGKILL
stop   SIGSTOP
cut    the link carries nothing any more
full   rank 0 writes to a file system that gets full
model  one rank has another model
"""
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

from cluster import MICA, MODEL, ROOT, none_left, processes, skip
from network import Link, check_possible

HOW, OVER = sys.argv[2:4]
LIMIT = 30.0
FIXTURE = ROOT + "/tests/fixtures/models/qwen3_tied"
# Long enough that they do not end by themselves.
LONG = ["generate", MODEL, "curl is a", "--max-tokens", "1900", "--ignore-eos", "-t", "1"]
TUNE = ["tune", FIXTURE, "--data", ROOT + "/examples/tune", "--iters", "100000", "--save-every",
        "1", "--batch-size", "1", "--num-layers", "1", "-t", "1", "-q", "--adapter-path"]


class Group:
    """What was started, with its errors in files: nobody has to read them meanwhile."""

    def __init__(self, link, *words, **options):
        self.said, self.lost = tempfile.TemporaryFile(mode="w+"), None
        found = link.ranks(*words, over=OVER, stderr=self.said, **options)
        self.processes = found if OVER == "tcp" else [found]
        self.link = link

    def ranks(self):
        """Their numbers; over MPI by the namespaces that they are in"""
        if OVER == "tcp":
            return [process.pid for process in self.processes]
        inodes = [os.stat(f"/run/netns/{name}").st_ino for name in self.link.names]
        for _ in range(200):
            found = {}
            for number, program, _ in processes():
                try:
                    inode = os.stat(f"/proc/{number}/ns/net").st_ino
                except OSError:
                    continue
                if program == MICA and inode in inodes:
                    found[inodes.index(inode)] = number
            if len(found) == 2:
                return [found[0], found[1]]
            time.sleep(0.1)
        raise AssertionError(f"{found} are the ranks: {self.text()}")

    def text(self):
        self.said.seek(0)
        return self.said.read()

    def finish(self, began, stopped=None):
        """Seconds until the last has ended, each with a status. Over TCP a rank that stands still
        is nobody's to end: it does so when it may go on."""
        codes = []
        try:
            for process in self.processes:
                if process.pid != stopped:
                    codes.append(process.wait(max(1, began + LIMIT - time.monotonic())))
            took = time.monotonic() - began
            for process in self.processes:
                if process.pid == stopped:
                    process.send_signal(signal.SIGCONT)
                    codes.append(process.wait(LIMIT))
        finally:
            for process in self.processes:
                process.kill()
        assert took < LIMIT and 0 not in codes, (took, codes, self.text())
        return took


def check_files(folder):
    """What has its own name is whole."""
    for name in os.listdir(folder):
        with open(f"{folder}/{name}", "rb") as file:
            data = file.read()
        if name.endswith(".safetensors"):
            (length,) = struct.unpack("<Q", data[:8])
            parts = [part["data_offsets"] for part in json.loads(data[8:8 + length]).values()
                     if "data_offsets" in part]
            assert max(end for _, end in parts) == len(data) - 8 - length, name
        elif name.endswith(".json"):
            json.loads(data)


def end_daemons(seconds):
    """Open MPI's daemon behind a cut link, once no rank is left there: where something was on its
    way to mpirun TCP finds out after minutes."""
    end = time.monotonic() + seconds
    while [one for one in processes() if one[1] == MICA] and time.monotonic() < end:
        time.sleep(0.1)
    for number, program, _ in processes():
        if os.path.basename(program) == "orted":
            os.kill(number, signal.SIGKILL)


def lose(link, chance, folder):
    """SIGKILL, SIGSTOP or a cut link, up to 5 s after the ranks are there"""
    words = [*TUNE, folder] if chance.randrange(2) else LONG
    group = Group(link, *words, stdout=subprocess.DEVNULL)
    ranks, stopped = group.ranks(), None
    time.sleep(chance.uniform(0, 5))
    began = time.monotonic()
    if HOW == "cut":
        link.cut()
    else:
        victim = chance.choice(ranks)
        stopped = victim if HOW == "stop" else None
        os.kill(victim, signal.SIGKILL if HOW == "kill" else signal.SIGSTOP)
    return group, group.finish(began, stopped)


def fill(link, chance, folder):
    """A file system with room for some text, or for some of the files of a training. (What goes
    through mpirun is written by mpirun, which says nothing where that fails.)"""
    tunes = chance.randrange(2)
    room = chance.randrange(1, 50) if tunes else 1  # pages: 53 have all files, and one anew
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={4096 * room}", "none", folder],
                   check=True)
    try:
        if not tunes:
            with open(folder + "/out", "wb") as file:
                file.write(b"\n" * chance.randrange(3600, 4096))
        with open(link.folder + "/ranks", "w", encoding="ascii") as file:
            out = "/dev/null" if tunes else folder + "/out"
            file.write(f'#!/bin/sh\nexec {MICA} "$@" >> {out}\n')
        os.chmod(link.folder + "/ranks", 0o755)
        began = time.monotonic()
        group = Group(link, *([*TUNE, folder] if tunes else LONG), stdout=subprocess.DEVNULL,
                      program=link.folder + "/ranks")
        took = group.finish(began)
        assert "No space left" in group.text(), group.text()
        check_files(folder)
        return group, took
    finally:
        subprocess.run(["umount", folder], check=True)


def mix(link, chance, folder):
    words = [["score", model, "curl is a"] for model in (MODEL, FIXTURE)]
    chance.shuffle(words)
    began = time.monotonic()
    group = Group(link, *words[0], second=words[1], stdout=subprocess.DEVNULL)
    took = group.finish(began)
    assert "rank 1" in group.text() and "rank 0" in group.text(), group.text()
    return group, took


def main():
    trials = int((sys.argv[4:] or ["3"])[0])
    seed = int((sys.argv[5:] or [str(random.randrange(1 << 30))])[0])
    check_possible()
    if OVER == "mpi" and not shutil.which("mpirun"):
        skip("there is no mpirun")
    print(f"seed {seed}", flush=True)
    chance, times = random.Random(seed), []
    for _ in range(trials):
        link, folder = Link(), tempfile.mkdtemp()
        try:
            group, took = {"full": fill, "model": mix}.get(HOW, lose)(link, chance, folder)
            if HOW == "cut" and OVER == "mpi":
                end_daemons(LIMIT - took)
            none_left(max(1, LIMIT - took))
            check_files(folder)
            times.append(took)
        finally:
            link.close()
            shutil.rmtree(folder)
    print("\n".join(line for line in group.text().splitlines() if "rank" in line))
    print(f"{HOW} over {OVER}: {trials} trials, ended after {min(times):.1f} to {max(times):.1f} s")


if __name__ == "__main__":
    main()
