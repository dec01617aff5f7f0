#!/usr/bin/env python3
"""Dynamo's own indexer of KV events (python -m dynamo.indexer) reads those of mica serve: of each
prompt it knows how many tokens the server will find in its caches.

    dynamo_indexer.py MICA FOLDER
"""
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request

from cluster import MICA, MODEL, environment, free_port, none_left, skip

FOLDER = sys.argv[2] + "/dynamo"
BLOCK = 64
WORDS = ("curl", "tar", "grep", "sed", "make", "git", "ssh", "find")


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


def prompt_of(i, count):
    return f"{i} " + " ".join(WORDS[(i * 7 + k * k) % len(WORDS)] for k in range(count))


def known_to(indexer, tokens):
    """Tokens that the indexer says instance 1 has of a prompt"""
    found = ask(indexer, "/query", token_ids=tokens, model_name="default")
    scores = found["scores"].get("1", {})
    return max(scores.values(), default=0), found


def tokens_of(http, text):
    return ask(http, "/tokenize", prompt=text)["tokens"]


def complete(http, text):
    """The prompt's tokens that were in the caches"""
    usage = ask(http, "/v1/completions", prompt=text, max_tokens=1)["usage"]
    return usage["prompt_tokens_details"]["cached_tokens"]


def wait_until_known(indexer, tokens, seconds=30):
    """Whether the indexer gets to know all blocks of a prompt: it has all events before, then"""
    end = time.monotonic() + seconds
    while known_to(indexer, tokens)[0] < len(tokens) // BLOCK * BLOCK:
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def main():
    if not os.path.isdir(FOLDER):
        skip(f"there is no {FOLDER}: tools/setup-cluster")
    events, replay, http, indexer = (free_port() for _ in range(4))
    server = subprocess.Popen(
        [MICA, "serve", "--port", str(http), "--kv-events", f"@tcp://127.0.0.1:{events}",
         "--kv-events-replay", f"tcp://127.0.0.1:{replay}", "--cache-memory", "4", MODEL],
        env=environment(), stderr=subprocess.DEVNULL)
    reader = subprocess.Popen(
        [sys.executable, "-m", "dynamo.indexer", "--block-size", str(BLOCK), "--port",
         str(indexer), "--threads", "1", "--workers", f"1=tcp://127.0.0.1:{events}",
         "--model-name", "default"], env=environment(PYTHONPATH=FOLDER))
    try:
        wait_for(http, "/health")
        wait_for(indexer, "/workers")
        for i in range(100):  # until its subscription has come
            probe = prompt_of(i, 100) + " probe"
            complete(http, probe)
            if wait_until_known(indexer, tokens_of(http, probe), 0.3):
                break
        seen = {"known": 0, "unknown": 0}
        for i in list(range(8)) + [7, 3, 7] + list(range(8, 24)) + [23, 0, 22]:
            text = prompt_of(i, 150)
            tokens = tokens_of(http, text)
            known, found = known_to(indexer, tokens)
            cached = complete(http, text)
            # One token of a prompt at least is computed; the indexer counts all of its blocks.
            assert min(known, (len(tokens) - 1) // BLOCK * BLOCK) == cached, (i, found, cached)
            assert wait_until_known(indexer, tokens), i
            seen["known" if cached else "unknown"] += 1
        assert seen["known"] >= 4 and seen["unknown"] >= 20, seen
        print(f"Dynamo's indexer: {seen}, as the server says")
    finally:
        for process in (server, reader):
            process.terminate()
            process.wait(60)
    none_left()


if __name__ == "__main__":
    main()
