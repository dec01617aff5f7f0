#!/usr/bin/env python3
"""Clients of two servers on loopback, in turns: mica serve and llama-server.

    serve_rates.py MICA MODEL LLAMA_SERVER GGUF [--clients 1,4,8,16] [--prompt 128] [--new 64]
                   [--shared 0] [--threads 2] [--turns 2] [--rounds 2]

MICA is the command, MODEL an MLX folder, GGUF the same weights (convert.py). A turn is a server of
its own. Each client asks --rounds times for --new tokens, streamed, after a prompt of its own of
--prompt token ids, which follow --shared ones that all prompts begin with. Prints for each number
of clients the tokens per second of all together, and the median and 99th percentile of the time to
the first token, then mica's divided by the other's. Needs nothing but Python.
"""
import argparse
import http.client
import json
import random
import socket
import statistics
import subprocess
import sys
import threading
import time


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    """A server that is started, asked and ended."""

    def __init__(self, name, command, port):
        self.name, self.port = name, port
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        while self.status() != 200:
            if self.process.poll() is not None:
                sys.exit(f"{name} has ended: {' '.join(command)}")
            time.sleep(0.1)

    def status(self):
        try:
            c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
            c.request("GET", "/health")
            return c.getresponse().status
        except OSError:
            return None

    def ask(self, ids, new):
        """Seconds to the first token and to the end, and the number of tokens."""
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=3600)
        body = {"prompt": ids, "max_tokens": new, "temperature": 0, "stream": True,
                "ignore_eos": True, "stream_options": {"include_usage": True}}
        start = time.perf_counter()
        c.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        answer = c.getresponse()
        if answer.status != 200:
            sys.exit(f"{self.name}: {answer.status} {answer.read()[:500]}")
        first, tokens = None, 0
        for line in answer:
            if not line.startswith(b"data: {"):
                continue
            event = json.loads(line[6:])
            if event.get("choices") and first is None:
                first = time.perf_counter() - start
            if event.get("usage"):
                tokens = event["usage"]["completion_tokens"]
        return first, time.perf_counter() - start, tokens

    def end(self):
        self.process.terminate()
        self.process.wait()


def load(server, clients, args, seed):
    """Tokens per second, and the times to the first token."""
    firsts, counts, lock = [], [], threading.Lock()
    shared = random.Random(1).choices(range(1000, 50000), k=args.shared)

    def client(i):
        numbers = random.Random(seed * 1000 + i)
        for _ in range(args.rounds):
            ids = shared + numbers.choices(range(1000, 50000), k=args.prompt)
            first, _, tokens = server.ask(ids, args.new)
            with lock:
                firsts.append(first)
                counts.append(tokens)

    threads = [threading.Thread(target=client, args=(i,)) for i in range(clients)]
    start = time.perf_counter()
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return sum(counts) / (time.perf_counter() - start), firsts


def percentile(values, p):
    return sorted(values)[min(len(values) - 1, int(len(values) * p))]


def main():
    a = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("mica", "model", "llama", "gguf"):
        a.add_argument(name)
    a.add_argument("--clients", default="1,4,8,16")
    for name, value in (("prompt", 128), ("new", 64), ("shared", 0), ("threads", 2), ("turns", 2),
                        ("rounds", 2)):
        a.add_argument(f"--{name}", type=int, default=value)
    args = a.parse_args()
    counts = [int(n) for n in args.clients.split(",")]
    results = {}
    most = max(counts)
    context = most * (args.shared + args.prompt + args.new + 32)
    for turn in range(args.turns):
        for name in ("mica", "llama"):
            port = free_port()
            command = [args.mica, "serve", "--port", str(port), "--threads", str(args.threads),
                       "--rows", str(most), args.model]
            if name == "llama":
                command = [args.llama, "-m", args.gguf, "--port", str(port), "-np", str(most), "-c",
                           str(context), "-t", str(args.threads), "-tb", str(args.threads)]
            server = Server(name, command, port)
            load(server, 1, args, 999)
            for clients in counts:
                rate, firsts = load(server, clients, args, 100 * turn + clients)
                result = results.setdefault((name, clients), ([], []))
                result[0].append(rate)
                result[1].extend(firsts)
                print(f"{name} {clients} clients: {rate:.1f} tokens/s, first token "
                      f"{statistics.median(firsts):.2f} s, {percentile(firsts, 0.99):.2f} s (p99)",
                      flush=True)
            server.end()
    for clients in counts:
        rates = [statistics.median(results[n, clients][0]) for n in ("mica", "llama")]
        last = [percentile(results[n, clients][1], 0.99) for n in ("mica", "llama")]
        print(f"{clients} clients: {rates[0] / rates[1]:.2f} times its tokens/s, "
              f"{last[0] / last[1]:.2f} of its time to the first token (p99)")


if __name__ == "__main__":
    main()
