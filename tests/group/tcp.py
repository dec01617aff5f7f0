#!/usr/bin/env python3
"""Ranks that no MPI starts: RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT say where they are.

usage: tcp.py MICA TEST CASE      TEST: the program test_group; CASE: a function below"""

import contextlib
import os
import random
import re
import signal
import socket
import struct
import subprocess
import sys
import time

MICA, TEST, CASE = sys.argv[1:4]
ROOT = os.path.abspath(__file__ + "/../../..")
MODEL = ROOT + "/tests/fixtures/models/qwen3_tied"
SCORE = [MICA, "score", MODEL, "abc def ghi", "--tokens", "-t", "1"]
GENERATE = [MICA, "generate", MODEL, "abc", "--max-tokens", "4", "--ignore-eos", "-T", "0", "-t",
            "1"]
LIMIT = 600 if CASE == "ranks" else 120  # seconds
LAUNCHERS = ("RANK", "SLURM_", "OMPI_", "PMI", "MASTER_", "WORLD_SIZE", "TORCHELASTIC_")


def free_port():
    """A port that is free, with the one behind it, below those that connections get."""
    while True:
        port = random.randrange(10000, 30000)
        with contextlib.suppress(OSError), socket.socket() as found, socket.socket() as behind:
            found.bind(("127.0.0.1", port))
            behind.bind(("127.0.0.1", port + 1))
            return port


def start(command, rank, size, port, names=("RANK", "WORLD_SIZE"), **more):
    env = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHERS)}
    env |= {names[0]: str(rank), names[1]: str(size), "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port), **more}
    return subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)


def end(processes):
    """What they came to: exit code, output, errors"""
    try:
        found = []
        for process in processes:
            said = process.communicate(timeout=LIMIT)
            found.append((process.returncode, *said))
        return found
    finally:
        for process in processes:
            process.kill()


def run(command, size, **more):
    port = free_port()
    return end([start(command, rank, size, port, **more) for rank in reversed(range(size))])


def listens(port):
    with open("/proc/net/tcp", encoding="ascii") as sockets:
        rows = [line.split() for line in list(sockets)[1:]]
    return any(row[3] == "0A" and int(row[1].split(":")[1], 16) == port for row in rows)


def same():
    """What one rank prints, by each launcher's variables"""
    for command in SCORE, GENERATE:
        wanted = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        for size, layout, more in (
                (2, [], {}), (3, ["--pipeline-parallel", "3"], {}),
                (4, ["--tensor-parallel", "2"], {"TORCHELASTIC_USE_AGENT_STORE": "True"}),
                (2, [], {"names": ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS")})):
            found = run(command + layout, size, **more)
            assert [code for code, _, _ in found] == [0] * size, found
            assert found[-1][1] == wanted, (layout, found, wanted)
            assert not any(out for _, out, _ in found[:-1]), found


def ranks():
    """All that ranks do with MPI; what is read after it was freed is not what it was."""
    more = {"MALLOC_PERTURB_": "165"}
    for code, out, errors in run([TEST, "ranks"], 2, **more) + run([TEST, "ranks"], 4, **more):
        assert code == 0, out + errors


def left():
    """Nothing is waited for of a rank that has ended."""
    for code, out, errors in (run([TEST, "left"], 3) + run([TEST, "left", "group"], 2) +
                              run([TEST, "left", "last"], 2)):
        assert code == 0, out + errors


def connect(port):
    """A connection to who is about to listen."""
    until = time.monotonic() + LIMIT
    while not listens(port) and time.monotonic() < until:
        time.sleep(0.01)
    return socket.create_connection(("127.0.0.1", port))


def strangers():
    """What is no rank keeps nobody from starting, and afterwards nobody listens."""
    port = free_port()
    first = start(GENERATE[:4] + ["--max-tokens", "2000", *GENERATE[6:]], 0, 2, port)
    silent = [connect(port) for _ in range(100)]
    for words in b"GET / HTTP/1.1\r\n\r\n" * 30, b"":
        with socket.create_connection(("127.0.0.1", port)) as stranger:
            stranger.sendall(words)
    second = start(GENERATE[:4] + ["--max-tokens", "2000", *GENERATE[6:]], 1, 2, port)
    assert first.stdout.read(1)  # an answer begins
    assert not listens(port)
    for stranger in silent:
        stranger.close()
    found = end([first, second])
    assert [code for code, _, _ in found] == [0, 0], found


def crowd():
    """Those who come and go all the time do not keep rank 0 waiting for ever."""
    port = free_port()
    first = start(SCORE, 0, 2, port)
    connect(port).close()
    while first.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    [(code, _, errors)] = end([first])
    assert code != 0 and "rank 1 of 2 has not come to 127.0.0.1:" in errors, errors


def wrong():
    """Ranks that do not fit are named, on all sides."""
    port = free_port()
    for code, _, errors in end([start(SCORE, 0, 2, port), start(SCORE, 1, 3, port)]):
        assert code != 0 and "is one of 3 ranks, and rank 0 of 2" in errors, errors
    port = free_port()
    found = end([start(SCORE, 0, 3, port), start(SCORE, 1, 3, port), start(SCORE, 1, 3, port)])
    assert all(code != 0 and "is rank 1, which is here already" in errors
               for code, _, errors in found), found
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        [(code, _, errors)] = end([start(SCORE, 0, 2, taken.getsockname()[1])])
        assert code != 0 and "rank 0 cannot listen at 127.0.0.1:" in errors, errors
    for named in "abc", "0", "65536":
        [(code, _, errors)] = end([start(SCORE, 0, 2, named)])
        assert code != 0 and f"MASTER_PORT is '{named}': want 1 to 65535" in errors, errors
    port = free_port()
    other = [*SCORE[:3], "another text", *SCORE[4:]]
    for code, _, errors in end([start(SCORE, 0, 2, port), start(other, 1, 2, port)]):
        assert code != 0 and re.search("rank [01] ", errors), errors


def missing():
    """A rank that does not come is named by all that have, in time."""
    begun, port = time.monotonic(), free_port()
    found = end([start(SCORE, 0, 3, port), start(SCORE, 1, 3, port)])
    assert all(code != 0 and "rank 2 of 3 has not come to 127.0.0.1:" in errors
               for code, _, errors in found), found
    [(code, _, errors)] = end([start(SCORE, 1, 2, port)])
    assert code != 0 and f"rank 0 cannot be reached at 127.0.0.1:{port}" in errors, errors
    assert time.monotonic() - begun < LIMIT


def lose(how, said):
    """A rank of a long answer that is killed, or stands still: the other ends, and names it."""
    port = free_port()
    long = GENERATE[:4] + ["--max-tokens", "1000000", *GENERATE[6:]]
    first, second = start(long, 0, 2, port), start(long, 1, 2, port)
    assert first.stdout.read(1)
    second.send_signal(how)
    while first.stdout.read(1 << 12):
        pass
    errors = first.stderr.read()
    second.kill()
    end([first, second])
    assert first.returncode != 0 and f"rank 1 (process {second.pid} " in errors, errors
    assert said in errors, errors


def kill():
    lose(signal.SIGKILL, "has ended")


def stop():
    lose(signal.SIGSTOP, "has given no sign of life for 20 s")


globals()[CASE]()
