#!/usr/bin/env python3
"""Times mica and its peers side by side.

    compare.py --model qwen3-0.6b --cases prefill:512,decode:128@2048 --threads 1,2

Cases:
    prefill:N      tokens a second of reading a prompt of N
    decode:N[@D]   tokens a second of N tokens, one after the other, behind D of context (0)
    batch:NxR      the same for R sequences at once: tokens a second of all together
    classify:NxR   tokens a second of reading R prompts of N words, or tokens, by one call
    first:N        seconds from the start of the process to the end of it, with one token after
                   a prompt of N

Each measurement is a process of its own. Contestants run alternately, and the first one changes
from round to round, so that what else the machine does falls on all of them. Before, each has read
its weights anew, into a page cache that did not have them. `others` is the largest share of the
machine that other programs took during a run; a run where that is above --quiet percent is taken
again, up to twice, and the quietest counts. peak RSS is the process's, mapped files included.
GB/s is the size of the weights times how often they are read (a token need not read all of them
where the input embedding is not the head). "reading" does no more than that with mica's file, by a
plain loop (bench/roofline.c): about how many tokens a second the memory allows at the same time.

A contestant is an engine, a model under ROOT/models/MODEL, and a list of options; a row of
contestants.json has each of its models with each of its lists. NAME=VALUE is no option, but set in
the environment. Engines say there, for each kind of case, what to run and the expression whose last
match is the rate (null: the time of the process). --mica names a folder that mica was built in;
given twice, builds are compared.
"""
import argparse
import json
import os
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import product
from pathlib import Path

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parents[1]
LARGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")
SETTING = re.compile(r"[A-Z_][A-Z0-9_]*=")
WEIGHTS = (".safetensors", ".gguf", ".bin")


class Case:
    def __init__(self, text):
        match = re.fullmatch(r"(prefill|first):(\d+)|(decode):(\d+)(?:@(\d+))?|(batch|classify):(\d+)x(\d+)", text)
        if not match:
            sys.exit(f"compare: no case: {text}")
        kind, *numbers = [part for part in match.groups() if part is not None]
        a, b = [*map(int, numbers), 0][:2]
        self.text, self.kind, self.seconds = text, kind, kind == "first"
        self.values = {"prompt": a, "tokens": a, "depth": 0, "context": 1, "rows": 1}
        if kind == "decode":
            self.values |= {"depth": b, "context": max(b, 1)}
        if kind in ("batch", "classify"):
            cells = b * -(-(a + 4) // 256) * 256  # of the cache, in blocks
            self.values |= {"rows": b, "cells": cells}
        self.values["text"] = shlex.quote(" the" * a)


class Contestant:
    def __init__(self, engine, commands, model, options, values):
        self.name, self.commands = f"{engine} {Path(model).stem} {' '.join(options)}".strip(), commands
        settings = [o for o in options if SETTING.match(o)]
        self.values = values | {"settings": f"env {shlex.join(settings)} " if settings else "",
                                "options": " ".join(o for o in options if o not in settings)}
        self.path = Path(values["root"], "models", values["family"], model)

    def can(self, case):
        """Whether there is a command, and one that takes this contestant's options."""
        return case.kind in self.commands and (not self.values["options"] or "{options}" in self.commands[case.kind][0])

    def bytes(self):
        if self.path.is_file():
            return self.path.stat().st_size
        return sum(f.stat().st_size for f in self.path.iterdir() if f.name.endswith(WEIGHTS) and "tokenizer" not in f.name)

    def command(self, case, threads):
        """-> what to run and the expression that finds the rate"""
        values = self.values | case.values | {"threads": threads, "model": shlex.quote(str(self.path))}
        command, rate = self.commands[case.kind]
        rate = rate and re.sub(r"\{(\w+)\}", lambda m: str(values.get(m[1], m[0])), rate)
        return self.values["settings"] + command.format(**values), rate


class Run:
    """One process: .value (None: it failed), .rss_mib, .others, .output"""

    def __init__(self, command, rate, limit):
        before, start = busy_seconds(), time.monotonic()
        process = subprocess.Popen(["timeout", str(limit), *shlex.split(command)], text=True, errors="replace",
                                   cwd=tempfile.gettempdir(), # some leave a log where they run
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.output = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.monotonic() - start
        elsewhere = busy_seconds() - before - usage.ru_utime - usage.ru_stime
        self.others = max(0.0, elsewhere) / (seconds * os.cpu_count())
        self.rss_mib = usage.ru_maxrss / 1024
        found = re.findall(rate, self.output) if rate else [seconds]
        self.value = float(found[-1]) if found and process.returncode == 0 else None


def busy_seconds():
    """What all processors did but idle and wait, stolen time included."""
    user, nice, system, _, _, irq, softirq, steal = map(int, Path("/proc/stat").read_text().split("\n")[0].split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def quiet_run(contestant, case, threads, args):
    best = None
    for _ in range(3):
        run = Run(*contestant.command(case, threads), args.limit)
        if best is None or run.others < best.others:
            best = run
        if run.value is None or best.others <= args.quiet / 100:
            break
    return best


def read_anew(contestants, threads, args):
    """Weights lie in the page cache as they were written, most often in small pages, which are read
    slower. Drops them; then each reads its own in its own way, as after a restart (a file of
    several contestants lies as the first one read it)."""
    for file in {f for c in contestants for f in ([c.path] if c.path.is_file() else c.path.iterdir()) if f.is_file()}:
        with open(file, "rb") as opened:
            os.fsync(opened.fileno())
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    prompt = Case("prefill:16")
    for c in contestants:
        if c.can(prompt):
            Run(*c.command(prompt, threads), args.limit)


def measure(contestants, case, threads, args):
    """-> for each contestant its runs; the last one failed where its value is None"""
    runs = {c: [] for c in contestants}
    for turn in range(args.runs):
        first = turn % len(contestants)
        for c in contestants[first:] + contestants[:first]:
            if not runs[c] or runs[c][-1].value is not None:
                runs[c].append(quiet_run(c, case, threads, args))
    return runs


def print_table(contestants, runs, case, threads, args):
    unit = "seconds" if case.seconds else "tokens/s"
    model = contestants[0].values["family"]
    print(f"\n{model}, {case.text}, {threads} threads: {unit}, {args.runs} runs\n")
    print("| contestant | min | median | max | ratio | peak RSS MiB | weights MB | GB/s | others |")
    print("|---|---|---|---|---|---|---|---|---|")
    base, rows = None, []
    for c in contestants:
        values = [r.value for r in runs[c] if r.value is not None]
        if len(values) < args.runs:
            tail = " / ".join(runs[c][-1].output.strip().splitlines()[-2:])
            print(f"| {c.name} | failed: {tail[-200:]} |")
            continue
        median, size = statistics.median(values), c.bytes() / 1e6
        base = base or median
        ratio = base / median if case.seconds else median / base
        rate = f"{median * size / 1e3 / case.values['rows']:.1f}" if case.kind in ("decode", "batch") else ""
        rss, others = max(r.rss_mib for r in runs[c]), max(r.others for r in runs[c])
        print(f"| {c.name} | {min(values):.2f} | {median:.2f} | {max(values):.2f} | {ratio:.2f} | {rss:.0f} | {size:.0f} "
              f"| {rate} | {100 * others:.0f}% |", flush=True)
        rows.append({"model": model, "case": case.text, "threads": threads, "contestant": c.name,
                     "values": values, "rss_mib": rss, "weights_mb": size, "others": others})
    return rows


def find_contestants(model, args):
    spec = json.loads((HERE / "contestants.json").read_text())
    values = {"root": Path(args.root).resolve(), "here": HERE, "family": model}
    builds = [b.split("=", 1) if "=" in b else ["mica", b] for b in args.mica or [str(CHECKOUT / "build")]]
    found = []
    every = [(engine, *pair) for engine, models, ways in spec["contestants"] for pair in product(models, ways)]
    for engine, weights, options in every:
        for name, build in builds if engine == "mica" else [(engine, builds[-1][1])]:
            build = Path(build).resolve()
            own = {"mica": Path(build, "mica"), "mica_bench": Path(build, "bench")}
            c = Contestant(name, spec["engines"][engine], weights, options, values | own)
            if not re.search(args.only, c.name) or args.skip and re.search(args.skip, c.name):
                continue
            if c.path.exists():
                found.append(c)
            else:
                print(f"left out: {c.name}: no {c.path}", file=sys.stderr)
    return found


def compare(model, args, rows):
    """Adds to rows what contestants of a model do."""
    contestants = find_contestants(model, args)
    if not contestants:
        print(f"left out: {model}: nobody to compare", file=sys.stderr)
        return
    read_anew(contestants, int(args.threads.split(",")[0]), args)
    for threads in map(int, args.threads.split(",")):
        for case in map(Case, args.cases.split(",")):
            able = [c for c in contestants if c.can(case)]
            if not able:
                print(f"left out: {case.text}: nobody can", file=sys.stderr)
                continue
            rows += print_table(able, measure(able, case, threads, args), case, threads, args)
            if args.json:
                args.json.write_text(json.dumps(rows, indent=1))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", default=CHECKOUT / "build/peers", help="where `setup` put peers and models")
    parser.add_argument("--model", default="qwen3-0.6b", metavar="MODEL[,MODEL...]")
    parser.add_argument("--cases", default="prefill:512,decode:128")
    parser.add_argument("--threads", default="2")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--mica", action="append", metavar="[NAME=]BUILD", default=[])
    parser.add_argument("--only", default="", metavar="REGEX", help="contestants to take")
    parser.add_argument("--skip", metavar="REGEX", help="contestants to leave out")
    parser.add_argument("--quiet", type=float, default=5, metavar="PERCENT")
    parser.add_argument("--limit", type=int, default=600, metavar="SECONDS", help="for one process")
    parser.add_argument("--json", type=Path, metavar="FILE", help="the figures, added to what is there")
    args = parser.parse_args()
    rows = json.loads(args.json.read_text()) if args.json and args.json.exists() else []
    before = len(rows)
    if LARGE_PAGES.exists():
        print(f"large pages: {LARGE_PAGES.read_text().strip()}")
    for model in args.model.split(","):
        compare(model, args, rows)
    if len(rows) == before:
        sys.exit("compare: nothing was measured")


if __name__ == "__main__":
    main()
