#!/usr/bin/env python3
"""Answers a file of prompts on Spark: each task gives the lines of its partition to `mica batch`.

    spark_batch.py MODEL PROMPTS ANSWERS     ANSWERS: a folder that Spark makes, of text files

By spark-submit, or by Python itself with pyspark; SPARK_MASTER names another master. Each machine
needs mica and the model. Spark gives a task whose worker is lost to another one, and keeps what one
of them has written whole; mica itself is started again where it was killed, and goes on. A line
without an id needs one: its number is that within a partition.
"""
import os
import subprocess
import sys
import tempfile

from pyspark.sql import SparkSession

LINES = 50  # of a task


def answerer(model):
    def answer(batches):
        import pandas
        lines = [line for batch in batches for line in batch["value"]]
        with tempfile.TemporaryDirectory() as folder:
            answers = folder + "/answers.jsonl"
            command = ["mica", "batch", "--quiet", "--shard", "1/1", "--output", answers, model]
            for _ in range(20):
                code = subprocess.run(command, input="\n".join(lines), text=True).returncode
                if code in (0, 1):  # 1: some lines are wrong, and their answers say so
                    with open(answers, encoding="utf-8") as file:
                        yield pandas.DataFrame({"value": file.read().splitlines()})
                    return
        raise RuntimeError(f"mica batch ends with {code}")
    return answer


def main(model, prompts, answers):
    spark = (SparkSession.builder.appName("mica batch")
             .master(os.environ.get("SPARK_MASTER", "local[2,20]")).getOrCreate())
    lines = spark.read.text(os.path.abspath(prompts))
    parts = lines.repartition(max(1, lines.count() // LINES))
    parts.mapInPandas(answerer(os.path.abspath(model)), "value string").write.text(answers)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
