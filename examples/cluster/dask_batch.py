#!/usr/bin/env python3
"""Answers a file of prompts on Dask: each task gives a part of the lines to `mica batch`.

    dask_batch.py MODEL PROMPTS ANSWERS [SCHEDULER]     SCHEDULER: tcp://HOST:8786; else two
                                                        processes of this machine

Each machine needs mica and the model. Dask gives a task whose worker is lost to another one; mica
itself is started again where it was killed, and goes on. A line without an id needs one: its number
is that within a part.
"""
import os
import subprocess
import sys
import tempfile

import dask
from distributed import Client, LocalCluster, as_completed

LINES = 50  # of a task


def answer(lines, model):
    with tempfile.TemporaryDirectory() as folder:
        answers = folder + "/answers.jsonl"
        command = ["mica", "batch", "--quiet", "--shard", "1/1", "--output", answers, model]
        for _ in range(20):
            code = subprocess.run(command, input="".join(lines), text=True).returncode
            if code in (0, 1):  # 1: some lines are wrong, and their answers say so
                with open(answers, encoding="utf-8") as file:
                    return file.read()
        raise RuntimeError(f"mica batch ends with {code}")


def main(model, prompts, answers, scheduler=None):
    # Of a task whose workers are lost, not because of it, one after another.
    dask.config.set({"distributed.scheduler.allowed-failures": 20})
    cluster = scheduler or LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
    with open(prompts, encoding="utf-8") as file:
        lines = file.readlines()
    parts = [lines[i:i + LINES] for i in range(0, len(lines), LINES)]
    with Client(cluster) as client, open(answers + ".part", "w", encoding="utf-8") as file:
        for task in as_completed(client.map(answer, parts, model=os.path.abspath(model))):
            file.write(task.result())
            task.release()  # else all that a lost worker had computed would be computed again
    if not scheduler:
        cluster.close()
    os.replace(answers + ".part", answers)


if __name__ == "__main__":
    main(*sys.argv[1:])
