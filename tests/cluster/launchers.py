#!/usr/bin/env python3
"""Ranks that launchers of others start, without MPI and with that of Slurm: what they print is what
one process prints; where a rank is killed the launcher ends, with a status, and nothing stays.

    launchers.py MICA NAME      NAME: torchrun, srun
"""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from cluster import MICA, MODEL, environment, free_port, none_left, processes, skip
from slurm import slurm_node

WORDS = ["generate", MODEL, "curl is a", "-T", "0", "-t", "1", "--max-tokens"]
LIMIT = 60
RANKS = ("RANK", "WORLD_SIZE", "MASTER_", "SLURM_", "OMPI_", "PMI", "TORCHELASTIC_")


def text(command, env, **options):
    made = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300, **options)
    assert made.returncode == 0, (command, made.stdout, made.stderr)
    return re.sub(r"\[default\d+\]:", "", made.stdout)  # torchrun says whose each write is


def lose(command, env):
    """A rank of a long answer is killed: the launcher ends, with a status."""
    group = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                             text=True)
    ranks = []
    end = time.monotonic() + LIMIT
    while len(ranks) < 2 and time.monotonic() < end:
        ranks = [number for number, program, _ in processes() if program == MICA]
        time.sleep(0.05)
    assert len(ranks) == 2 and group.poll() is None, ranks
    os.kill(ranks[1], signal.SIGKILL)
    began = time.monotonic()
    said = group.communicate(timeout=LIMIT)[1]
    print(f"{sys.argv[2]}: ended {time.monotonic() - began:.1f} s after a rank was killed")
    assert group.returncode != 0, said
    while left := [one for one in processes() if one[1] == MICA]:
        assert time.monotonic() < began + LIMIT, left
        time.sleep(0.1)


def check(launch, env, plain, sizes=(2,)):
    """launch: the command before mica's, of so many ranks"""
    for size in sizes:
        for layout in [], ["--pipeline-parallel", str(size)]:
            command = [*launch(size), MICA, *WORDS, "20", *layout]
            found = text(command, env)
            assert found.strip() == plain.strip(), (command, found, plain)
    lose([*launch(2), MICA, *WORDS, "1900", "--ignore-eos"], env)


def torchrun(env, plain):
    if not shutil.which("torchrun"):
        skip("there is no torchrun: tools/install-deps.sh cluster")
    # Without -r and -t torch 1.13 fails in Python 3.11.
    options = ["--no_python", "-r", "1", "-t", "1"]

    def one_machine(size):
        return ["torchrun", *options, "--nproc_per_node", str(size), "--master_port",
                str(free_port())]

    def rendezvous(size):
        return ["torchrun", *options, "--nproc_per_node", str(size), "--rdzv_backend", "c10d",
                "--rdzv_endpoint", f"127.0.0.1:{free_port()}"]

    check(one_machine, env, plain, (2, 4))
    check(rendezvous, env, plain)


def srun(env, plain):
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, \
            slurm_node(folder) as slurm:
        env |= {"SLURM_CONF": slurm["SLURM_CONF"], "MASTER_ADDR": "127.0.0.1"}

        def tcp(size):
            env["MASTER_PORT"] = str(free_port())
            return ["srun", "--quiet", "--mpi=none", "--overcommit", "-K", "-n", str(size)]

        def pmix(size):
            return ["srun", "--quiet", "--mpi=pmix", "--overcommit", "-K", "-n", str(size)]

        check(tcp, env, plain, (2, 4))
        if os.environ.get("MICA_MPI_LIBRARY"):
            del env["MASTER_ADDR"], env["MASTER_PORT"]
            check(pmix, env, plain)


def main():
    env = {name: value for name, value in environment().items() if not name.startswith(RANKS)}
    plain = text([MICA, *WORDS, "20"], env)
    assert plain.strip()
    {"torchrun": torchrun, "srun": srun}[sys.argv[2]](env, plain)
    none_left()


if __name__ == "__main__":
    main()
