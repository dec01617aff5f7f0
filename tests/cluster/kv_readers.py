#!/usr/bin/env python3
"""Routers' own readers of KV events read those of mica serve: of each prompt they know how many
tokens the server will find in its caches.

    kv_readers.py MICA FOLDER READER      READER: dynamo, llmd

dynamo  its indexer (python -m dynamo.indexer), which looks blocks up by its hashes of tokens
llmd    the reader and the index of llm-d's cache manager, which look blocks up by vLLM's hashes
"""
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request

from cluster import MICA, MODEL, environment, free_port, none_left, skip

FOLDER = f"{sys.argv[2]}/{sys.argv[3]}"
BLOCK = 64
WORDS = ("curl", "tar", "grep", "sed", "make", "git", "ssh", "find")
SEED = "42"


def ask(port, path, **body):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}",
                                     json.dumps(body).encode() if body else None,
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.loads(answer.read() or b"null")


def wait_for(port, path):
    for _ in range(600):
        try:
            return ask(port, path)
        except (OSError, urllib.error.URLError, json.JSONDecodeError):
            time.sleep(0.1)
    raise RuntimeError(f"nobody answers at {port}{path}")


class Dynamo:
    """It connects to the server."""
    topic = "{model}"

    def __init__(self, events):
        self.port, self.listens = free_port(), f"@tcp://127.0.0.1:{events}"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "dynamo.indexer", "--block-size", str(BLOCK), "--port",
             str(self.port), "--threads", "1", "--workers", f"1=tcp://127.0.0.1:{events}",
             "--model-name", "default"], env=environment(PYTHONPATH=FOLDER))

    def start(self):
        wait_for(self.port, "/workers")

    def known(self, tokens):
        found = ask(self.port, "/query", token_ids=tokens, model_name="default")
        return max(found["scores"].get("1", {}).values(), default=0)


class Llmd:
    """The server connects to it."""
    topic = "kv@pod-1@{model}"

    def __init__(self, events):
        self.listens = f"tcp://127.0.0.1:{events}"
        self.process = subprocess.Popen(
            [FOLDER + "/reader", f"tcp://127.0.0.1:{events}", str(BLOCK), SEED], env=environment(),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def start(self):
        pass

    def known(self, tokens):
        self.process.stdin.write(json.dumps({"model": "default", "tokens": tokens}) + "\n")
        self.process.stdin.flush()
        found = json.loads(self.process.stdout.readline())
        assert set(found) <= {"pod-1"}, found
        return found.get("pod-1", 0)


READERS = {"dynamo": Dynamo, "llmd": Llmd}


def prompt_of(i, count):
    return f"{i} " + " ".join(WORDS[(i * 7 + k * k) % len(WORDS)] for k in range(count))


def tokens_of(http, text):
    return ask(http, "/tokenize", prompt=text)["tokens"]


def complete(http, text):
    """The prompt's tokens that were in the caches"""
    usage = ask(http, "/v1/completions", prompt=text, max_tokens=1)["usage"]
    return usage["prompt_tokens_details"]["cached_tokens"]


def wait_until_known(reader, tokens, seconds=30):
    """Whether the reader gets to know all blocks of a prompt: it has all events before, then"""
    end = time.monotonic() + seconds
    while reader.known(tokens) < len(tokens) // BLOCK * BLOCK:
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def check(reader, http):
    for i in range(100):  # until its subscription has come
        probe = prompt_of(i, 100) + " probe"
        complete(http, probe)
        if wait_until_known(reader, tokens_of(http, probe), 0.3):
            break
    seen = {"known": 0, "unknown": 0}
    for i in list(range(8)) + [7, 3, 7] + list(range(8, 24)) + [23, 0, 22]:
        text = prompt_of(i, 150)
        tokens = tokens_of(http, text)
        known, cached = reader.known(tokens), complete(http, text)
        # One token of a prompt at least is computed; readers count all of its blocks.
        assert min(known, (len(tokens) - 1) // BLOCK * BLOCK) == cached, (i, known, cached)
        assert wait_until_known(reader, tokens), i
        seen["known" if cached else "unknown"] += 1
    assert seen["known"] >= 4 and seen["unknown"] >= 20, seen
    print(f"{sys.argv[3]}: {seen}, as the server says")


def main():
    if not os.path.isdir(FOLDER):
        skip(f"there is no {FOLDER}: tools/setup-cluster")
    events, replay, http = (free_port() for _ in range(3))
    reader = READERS[sys.argv[3]](events)
    server = subprocess.Popen(
        [MICA, "serve", "--port", str(http), "--kv-events", reader.listens, "--kv-events-topic",
         reader.topic, "--kv-events-seed", SEED, "--kv-events-replay", f"tcp://127.0.0.1:{replay}",
         "--cache-memory", "4", MODEL], env=environment(), stderr=subprocess.DEVNULL)
    try:
        wait_for(http, "/health")
        reader.start()
        check(reader, http)
    finally:
        for process in (server, reader.process):
            process.terminate()
            process.wait(60)
    none_left()


if __name__ == "__main__":
    main()
