#!/usr/bin/env python3
"""An example of examples/cluster answers 2,000 prompts, while mica and workers are killed: each
answer is there once, and is that of one process of one machine.

    examples.py MICA FOLDER NAME      NAME: ray, ray_http, spark, dask, parallel, slurm
"""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from cluster import (COUNT, EXAMPLES, MICA, MODEL, Killer, answer_here, compare, environment,
                     free_port, none_left, read, skip, write_prompts)
from slurm import slurm_node, text_of

FOLDER, NAME = sys.argv[2:4]


def python_of(package):
    """The environment of a package that tools/setup-cluster has installed"""
    folder = f"{FOLDER}/{package}"
    if not os.path.isdir(folder):
        skip(f"there is no {folder}: tools/setup-cluster")
    return environment(PYTHONPATH=folder, PYTHONUNBUFFERED="1", RAY_DEDUP_LOGS="0",
                       RAY_DISABLE_DOCKER_CPU_WARNING="1", RAY_USAGE_STATS_ENABLED="0",
                       RAY_TMPDIR=tempfile.gettempdir(), PYSPARK_PYTHON=sys.executable)


def program(*names):
    for name in names:
        if not shutil.which(name):
            skip(f"there is no {name}: tools/install-deps.sh cluster")


def run(command, env, killer, **options):
    with killer:
        subprocess.run(command, env=env, check=True, timeout=1500, **options)
    print(f"{NAME}: killed {killer.killed}")
    assert sum(killer.killed.values()) >= 3, "nothing was killed"


def by_python(package, script, folder, killer, model=MODEL):
    run([sys.executable, EXAMPLES + script, model, folder + "/prompts.jsonl",
         folder + "/answers"], python_of(package), killer, cwd=folder)


def ray(folder):
    by_python("ray", "ray_batch.py", folder, Killer(worker="ray::MapBatches"))
    return text_of(folder + "/answers")


def dask(folder):
    # Not its workers: of some of those that were killed one after another distributed 2026.8 waits
    # for tasks that it has cancelled itself, without end.
    by_python("dask", "dask_batch.py", folder, Killer())
    return text_of(folder + "/answers")


def spark(folder):
    program("java")
    by_python("spark", "spark_batch.py", folder, Killer(worker="pyspark.daemon"))
    assert os.path.exists(folder + "/answers/_SUCCESS")
    return text_of(folder + "/answers/part-*")


def parallel(folder):
    program("parallel")
    run([EXAMPLES + "parallel_batch.sh", MODEL, folder + "/prompts.jsonl", folder + "/answers",
         "4", "--jobs", "2"], environment(HOME=folder), Killer())
    return text_of(folder + "/answers/*.jsonl")


# ---- a server whose replica is killed and started again ----

class Restarted(Killer):
    """Kills the server, and starts it again at once, as a service manager does"""

    def __init__(self, port):
        super().__init__(limit=4, numbers=(signal.SIGKILL,))
        self.command = [MICA, "serve", "--port", str(port), MODEL]
        self.env = environment()
        self.server = self.start()

    def start(self):
        server = subprocess.Popen(self.command, env=self.env, stderr=subprocess.PIPE, text=True)
        assert " at http" in server.stderr.readline()
        return server

    def run(self):
        while not self.stopped.wait(self.random.uniform(6, 10)):
            if self.killed["mica"] < self.limit:
                self.server.kill()
                self.server.wait()
                self.killed["mica"] += 1
                self.server = self.start()
        self.server.terminate()
        assert self.server.wait(60) == 0


def ray_http(folder):
    env, port = python_of("ray"), free_port()
    killer = Restarted(port)
    run([sys.executable, EXAMPLES + "ray_http.py", f"http://127.0.0.1:{port}",
         folder + "/prompts.jsonl", folder + "/answers"], env, killer, cwd=folder)
    return text_of(folder + "/answers")


def slurm(folder):
    with slurm_node(folder) as env, Killer() as killer:
        made = subprocess.run(["sbatch", "--parsable", "--array=1-4", "--chdir", folder,
                               EXAMPLES + "slurm_batch.sh", MODEL, folder + "/prompts.jsonl",
                               folder + "/answers"], env=env, check=True, capture_output=True,
                              text=True)
        assert re.fullmatch(r"\d+\n", made.stdout), made.stdout
        for _ in range(1500):
            left = subprocess.run(["squeue", "-h"], env=env, capture_output=True, text=True)
            if left.returncode == 0 and not left.stdout.strip():
                break
            time.sleep(1)
        states = subprocess.run(["scontrol", "show", "jobs", "-o"], env=env, capture_output=True,
                                text=True).stdout
    again = sum(int(count) for count in re.findall(r"Restarts=(\d+)", states))
    print(f"{NAME}: killed {killer.killed}, jobs were queued again {again} times")
    assert sum(killer.killed.values()) >= 3
    assert set(re.findall(r"JobState=(\w+)", states)) == {"COMPLETED"}, states
    return text_of(folder + "/answers/*.jsonl")


def main():
    make = {one.__name__: one for one in (ray, ray_http, spark, dask, parallel, slurm)}[NAME]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        write_prompts(folder + "/prompts.jsonl", chats_only=NAME == "ray_http")
        began = time.monotonic()
        found = read(make(folder))
        took = time.monotonic() - began
        none_left()
        compare(found, answer_here(folder + "/prompts.jsonl"))
    print(f"{NAME}: {COUNT} prompts in {took:.0f} s, one process after it "
          f"{time.monotonic() - began - took:.0f} s")


if __name__ == "__main__":
    main()
