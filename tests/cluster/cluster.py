"""What the tests of examples/cluster have in common: a file of prompts, what one machine answers to
it, and processes that are killed on the way.

A test is called as TEST MICA FOLDER...; folders hold packages of PyPI's (tools/setup-cluster). MICA
is found as `mica` by what the test starts.
"""
import atexit
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

MICA = os.path.abspath(sys.argv[1])
ROOT = os.path.abspath(__file__ + "/../../..")
MODEL = ROOT + "/models/default"
EXAMPLES = ROOT + "/examples/cluster/"
COUNT = int(os.environ.get("MICA_CLUSTER_PROMPTS", "2000"))
WORDS = ("curl", "tar", "grep", "sed", "awk", "make", "git", "ssh", "find", "sort", "cat", "less")
MARK = "MICA_CLUSTER_TEST"  # of all processes of this test, by their environment


def skip(why):
    print(why)
    sys.exit(77)


def write_prompts(path, chats_only=False):
    """Chats and texts, whose answers have 1 to 5 tokens"""
    with open(path, "w", encoding="utf-8") as file:
        for i in range(COUNT):
            word, body = WORDS[i % len(WORDS)], {"max_tokens": 1 + i % 5, "temperature": 0}
            if i % 2 or chats_only:
                body["messages"] = [{"role": "user", "content": f"What is {word}, case {i}?"}]
            else:
                body["prompt"] = f"{word} number {i} is"
            path = "chat/completions" if "messages" in body else "completions"
            file.write(json.dumps({"custom_id": f"q{i}", "method": "POST", "url": f"/v1/{path}",
                                   "body": body}) + "\n")


def what_was_said(line):
    """The id of an answer, and what of it is the same wherever it was computed"""
    row = json.loads(line)
    assert row["error"] is None and row["response"]["status_code"] == 200, line
    body = row["response"]["body"]
    choice = body["choices"][0]
    text = choice["message"]["content"] if "message" in choice else choice["text"]
    usage = {name: body["usage"][name] for name in ("prompt_tokens", "completion_tokens")}
    return row["custom_id"], (text, choice["finish_reason"], usage)


def read(text):
    """Answers by their ids; each is there once, and every line is whole."""
    assert text.endswith("\n")
    rows = [what_was_said(line) for line in text.splitlines()]
    found = dict(rows)
    assert len(found) == len(rows), "an answer is there twice"
    return found


def answer_here(prompts):
    """What one process of this machine answers"""
    made = subprocess.run([MICA, "batch", "--quiet", "--shard", "1/1", MODEL, prompts], check=True,
                          capture_output=True, text=True)
    return read(made.stdout)


def compare(found, expected):
    assert found.keys() == expected.keys(), (len(found), len(expected))
    wrong = [one for one in expected if found[one] != expected[one]]
    assert not wrong, (len(wrong), wrong[0], found[wrong[0]], expected[wrong[0]])


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


# ---- processes ----

def environment(**more):
    """With `mica` in front, and the mark of this test"""
    folder = tempfile.mkdtemp(prefix="mica-bin-")
    atexit.register(shutil.rmtree, folder)
    os.symlink(MICA, folder + "/mica")
    return {**os.environ, "PATH": folder + ":" + os.environ["PATH"], MARK: str(os.getpid()),
            **more}


def processes():
    """Number, program and command of the processes that this test has started"""
    mark = f"{MARK}={os.getpid()}".encode()
    for number in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{number}/environ", "rb") as file:
                if mark not in file.read().split(b"\0"):
                    continue
            with open(f"/proc/{number}/cmdline", "rb") as file:
                command = file.read().replace(b"\0", b" ").decode(errors="replace")
            yield int(number), os.readlink(f"/proc/{number}/exe"), command
        except OSError:
            continue


def parent_of(number):
    try:
        with open(f"/proc/{number}/stat", encoding="utf-8", errors="replace") as file:
            return int(file.read().rsplit(")", 1)[1].split()[1])
    except OSError:
        return 0


class Killer:
    """Kills some processes, at random moments: mica, and workers that run it, whose commands have a
    word"""

    def __init__(self, limit=8, worker=None, numbers=(signal.SIGKILL, signal.SIGTERM)):
        self.limit, self.worker, self.numbers = limit, worker, numbers
        self.killed = {"mica": 0, "worker": 0}
        self.stopped = threading.Event()
        self.random = random.Random(7)
        self.thread = threading.Thread(target=self.run)

    def run(self):
        while not self.stopped.wait(self.random.uniform(0.3, 2.5)):
            found = {number: (program, command) for number, program, command in processes()}
            ours = [number for number, (program, _) in found.items() if program == MICA]
            kind = self.random.choice(["mica", "worker"] if self.worker else ["mica"])
            chosen = ours if kind == "mica" else [
                parent for parent in map(parent_of, ours)
                if parent in found and self.worker in found[parent][1]]
            if not chosen or self.killed[kind] >= self.limit:
                continue
            try:
                os.kill(self.random.choice(chosen), self.random.choice(self.numbers)
                        if kind == "mica" else signal.SIGKILL)
                self.killed[kind] += 1
            except OSError:
                pass  # it has ended

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *error):
        self.stopped.set()
        self.thread.join()


def none_left(seconds=20):
    """Nothing that the test has started stays."""
    end = time.monotonic() + seconds
    while (left := list(processes())) and time.monotonic() < end:
        time.sleep(0.2)
    assert not left, left
