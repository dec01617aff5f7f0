#!/usr/bin/env python3
"""Answers a file of prompts on a Ray cluster: each task gives a part of the lines to `mica batch`.

    ray_batch.py MODEL PROMPTS ANSWERS      lines of JSON, as mica help batch has them

Each machine needs mica and the model. Ray gives a task whose worker is lost to another one; mica
itself is started again where it was killed, and goes on. A line without an id needs one: its number
is that within a part.
"""
import os
import subprocess
import sys
import tempfile

import ray

LINES = 50  # of a task


def answer(batch, model):
    with tempfile.TemporaryDirectory() as folder:
        answers = folder + "/answers.jsonl"
        command = ["mica", "batch", "--quiet", "--shard", "1/1", "--output", answers, model]
        for _ in range(20):
            code = subprocess.run(command, input="\n".join(batch["text"]), text=True).returncode
            if code in (0, 1):  # 1: some lines are wrong, and their answers say so
                with open(answers, encoding="utf-8") as file:
                    return {"answer": file.read().splitlines()}
        raise RuntimeError(f"mica batch ends with {code}")


def main(model, prompts, answers):
    context = ray.data.DataContext.get_current()
    context.verbose_progress = False
    lines = ray.data.read_text(os.path.abspath(prompts))
    rows = lines.map_batches(answer, batch_size=LINES, num_cpus=1,
                             fn_kwargs={"model": os.path.abspath(model)})
    with open(answers + ".part", "w", encoding="utf-8") as file:
        for row in rows.iter_rows():
            file.write(row["answer"] + "\n")
    os.replace(answers + ".part", answers)


if __name__ == "__main__":
    main(*sys.argv[1:])
