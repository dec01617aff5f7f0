#!/usr/bin/env python3
"""A server whose models are over several ranks.

   ranks.py MICA MPIRUN bits N [OPTION...]      answers of N ranks are those of one, to the bit
   ranks.py MICA MPIRUN families N [OPTION...]  the same of a model of each family
   ranks.py MICA MPIRUN stop|kill|end [OPTION...]  a rank stands still, or is killed; mpirun ends
"""
import atexit
import concurrent.futures
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

MICA, MPIRUN = sys.argv[1:3]
ROOT = os.path.abspath(__file__ + "/../../..")
FIXTURES = ROOT + "/tests/fixtures"
MODELS = ["gemma3_text_f32", "llama3_rope_sharded", "qwen3_tied"]
LIMIT = 30.0
MARK = f"MICA_RANKS_TEST={os.getpid()}"


class Server:
    """mica serve, by mpirun if there is more than one rank"""

    def __init__(self, ranks, *words):
        command = [MPIRUN, "-n", str(ranks)] if ranks > 1 else []
        command += [MICA, "serve", "--port", "0", "-t", "1", "--arithmetic", "exact", *words]
        name, value = MARK.split("=")
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
                                        text=True, env={**os.environ, name: value})
        self.lines, self.address = [], None
        self.found = threading.Event()
        atexit.register(self.process.kill)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()
        self.found.wait(120)
        assert self.address, "".join(self.lines)

    def read(self):
        for line in self.process.stderr:
            self.lines.append(line)
            if match := re.search(r"mica: serving .* at (http://\S+)", line):
                self.address = match.group(1)
                self.found.set()
        self.found.set()

    def said(self):
        return "".join(self.lines)

    def end(self, number=signal.SIGINT):
        self.process.send_signal(number)
        return self.wait()

    def wait(self):
        code = self.process.wait(LIMIT)
        self.reader.join()
        return code

    def ask(self, path, body, seconds=120):
        """The status, and the answer or the error's text"""
        request = urllib.request.Request(self.address + path, json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=seconds) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def hang_up(self, body):
        """Asks for a stream, and goes after its first words"""
        host, port = self.address.removeprefix("http://").split(":")
        data = json.dumps({**body, "stream": True}).encode()
        with socket.create_connection((host, int(port))) as s:
            s.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
                      b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(data))
            s.sendall(data)
            assert s.recv(4000)


def left():
    """Processes that the test has started"""
    found = []
    for number in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{number}/environ", "rb") as file:
                if MARK.encode() not in file.read().split(b"\0"):
                    continue
            with open(f"/proc/{number}/stat", encoding="utf-8", errors="replace") as file:
                if file.read().rsplit(")", 1)[1].split()[0] != "Z":
                    found.append(int(number))
        except OSError:
            pass
    return found


def none_left():
    end = time.monotonic() + LIMIT
    while (found := left()) and time.monotonic() < end:
        time.sleep(0.1)
    assert not found, found


def ranks():
    """The processes of mica, by their ranks"""
    found = {}
    for number in left():
        try:
            if os.readlink(f"/proc/{number}/exe") != os.path.realpath(MICA):
                continue
            with open(f"/proc/{number}/environ", "rb") as file:
                rank = re.search(rb"\0OMPI_COMM_WORLD_RANK=(\d+)\0", file.read())
            if rank:
                found[int(rank.group(1))] = number
        except OSError:
            pass
    return found


# ---- the same bits ----

def requests():
    """Paths and bodies: whatever a schedule does with sessions"""
    with open(ROOT + "/models/default/golden.json", encoding="utf-8") as file:
        for case in json.load(file):
            yield "/v1/chat/completions", {"messages": case["messages"], "temperature": 0,
                                           "max_tokens": 24}
    long = " ".join(f"{word} {i}" for i in range(20) for word in ("curl", "tar", "grep", "sed"))
    for i in range(6):  # begin alike: the second one waits for the first, and goes on from it
        yield "/v1/completions", {"prompt": long + f" {i} is", "temperature": 1, "seed": i,
                                  "max_tokens": 12, "logprobs": 3}
    yield "/v1/completions", {"prompt": "curl is", "n": 3, "seed": 7, "temperature": 1.2,
                              "max_tokens": 10, "logprobs": 2}
    yield "/v1/completions", {"prompt": "one two one two one two one", "temperature": 0,
                              "max_tokens": 24, "stream": True}
    schema = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 12},
                                               "age": {"type": "integer"}},
              "required": ["name", "age"], "additionalProperties": False}
    yield "/v1/chat/completions", {
        "messages": [{"role": "user", "content": "What is curl?"}], "temperature": 0,
        "max_tokens": 40, "response_format": {
            "type": "json_schema", "json_schema": {"name": "a", "schema": schema}}}
    for name in MODELS + ["qwen3_tied:lora"]:
        yield "/v1/completions", {"model": name, "prompt": "abc def " * 30, "max_tokens": 8,
                                  "temperature": 0, "logprobs": 2}
        yield "/v1/completions", {"model": name, "prompt": "a", "n": 2, "max_tokens": 8, "seed": 3,
                                  "temperature": 1}


def family_requests(names):
    """Prompts of ids, for texts of a tokenizer would be beyond some vocabularies"""
    for name in names:
        begin = [3 + 7 * i % 97 for i in range(150)]
        for i in range(3):
            yield "/v1/completions", {"model": name, "prompt": begin + [3 + i, 5], "max_tokens": 6,
                                      "temperature": 0, "logprobs": 2, "ignore_eos": True}
        yield "/v1/completions", {"model": name, "prompt": begin[:9], "n": 2, "max_tokens": 6,
                                  "seed": 3, "temperature": 1, "logprobs": 2}


def make_families(folder):
    """The models of tests/fixtures/families, with a tokenizer, by their names"""
    found = {}
    for name in sorted(os.listdir(FIXTURES + "/families")):
        source = f"{FIXTURES}/families/{name}"
        if not os.path.exists(source + "/config.json"):
            continue
        found[name] = f"{folder}/{name}"
        os.mkdir(found[name])
        for file in os.listdir(source):
            os.symlink(f"{source}/{file}", f"{found[name]}/{file}")
        os.symlink(FIXTURES + "/tokenizers/small/llama-small/tokenizer.json",
                   found[name] + "/tokenizer.json")
    assert len(found) > 20
    return found


def what_was_said(answer):
    """All of an answer but its name, its time, and what the caches had"""
    status, text = answer
    assert status == 200, answer
    if "data: [DONE]" in text:
        rows = [json.loads(line[5:]) for line in text.splitlines()
                if line.startswith("data: {")]
        return [row["choices"] for row in rows]
    body = json.loads(text)
    return body["choices"], body["usage"]["completion_tokens"], body["usage"]["prompt_tokens"]


def bits(words, asked):
    count, options = int(sys.argv[4]), sys.argv[5:]
    alone = Server(1, *words)
    wanted = [what_was_said(alone.ask(*one)) for one in asked]
    assert alone.end() == 0, alone.said()
    several = Server(count, *words, "--draft-tokens", "3", *options)
    assert len(ranks()) == count
    for order in (asked, asked[::-1]):  # the second time, the caches have most
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            gone = [pool.submit(several.hang_up, {"prompt": [9, 8, i + 3], "max_tokens": 400})
                    for i in range(3)]
            found = list(pool.map(lambda one: what_was_said(several.ask(*one)), order))
            for one in gone:
                one.result()
        expected = wanted if order is asked else wanted[::-1]
        for one, got, want in zip(order, found, expected):
            assert got == want, (one, got, want, several.said())
    status, text = several.ask("/v1/embeddings", {"input": [5, 6]})
    assert status == 400 and "several processes" in text, (status, text)
    check_sockets(several)
    assert several.end(signal.SIGTERM) is not None
    none_left()
    print(f"{2 * len(asked)} answers of {count} ranks are those of one")


def check_sockets(server):
    """Ranks listen at the server's own address, and where MPI does: not at any that others reach"""
    port = int(server.address.rsplit(":", 1)[1])
    listening = set()
    for rank, number in ranks().items():
        inodes = set()
        for fd in os.listdir(f"/proc/{number}/fd"):
            try:
                if match := re.match(r"socket:\[(\d+)\]", os.readlink(f"/proc/{number}/fd/{fd}")):
                    inodes.add(match.group(1))
            except OSError:
                pass
        with open(f"/proc/{number}/net/tcp", encoding="ascii") as file:
            for row in map(str.split, list(file)[1:]):
                if row[3] == "0A" and row[9] in inodes:
                    listening.add((rank, *row[1].split(":")))
    own = {one for one in listening if int(one[2], 16) == port}
    assert own == {(0, "0100007F", f"{port:04X}")}, listening


# ---- ranks that go ----

def lose(how):
    """Clients of rank 0 get 503, and the process ends with a status that names the rank."""
    server = Server(2, ROOT + "/models/default", *sys.argv[4:])
    body = {"prompt": "curl is", "max_tokens": 1800, "temperature": 0, "ignore_eos": True}
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = [pool.submit(server.ask, "/v1/completions", {**body, "seed": i}, LIMIT)
                   for i in range(8)]
        end = time.monotonic() + LIMIT
        while steps(server) < 20:
            assert time.monotonic() < end, steps(server)
            time.sleep(0.05)
        began, number = time.monotonic(), ranks()[1]
        if how == "end":
            server.process.send_signal(signal.SIGINT)
        else:
            os.kill(number, signal.SIGSTOP if how == "stop" else signal.SIGKILL)
        found = [answer.result() for answer in answers]
    took = time.monotonic() - began
    code = server.wait()
    print(how, code, f"{took:.1f} s", found[0], server.said(), sep="\n")
    assert {status for status, _ in found} == {503}, found
    assert took < LIMIT and code != 0, (took, code)
    if how == "stop":
        assert f"rank 1 (process {number}" in server.said(), server.said()
    if how == "kill":
        assert "rank 1 with PID" in server.said(), server.said()
    none_left()


def steps(server):
    """Steps of decoding, so far"""
    with urllib.request.urlopen(server.address + "/metrics", timeout=LIMIT) as answer:
        found = re.search(r"^mica_steps_total\S* (\d+)", answer.read().decode(), re.M)
    return int(found.group(1)) if found else 0


if sys.argv[3] == "bits":
    bits([ROOT + "/models/default", *(FIXTURES + "/models/" + name for name in MODELS),
          "--adapter", f"lora={FIXTURES}/lora/mlx_qwen3", "--cache-memory", "6"], list(requests()))
elif sys.argv[3] == "families":
    with tempfile.TemporaryDirectory() as home:
        folders = make_families(home)
        bits([*folders.values(), "--cache-memory", "16"], list(family_requests(folders)))
else:
    lose(sys.argv[3])
