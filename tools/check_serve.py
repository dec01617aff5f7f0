#!/usr/bin/env python3
"""Puts `mica serve` under faults and load, and prints what it did: a line a check.

    tools/check_serve.py MICA [--model FOLDER] [--requests N] [--clients N] [CHECK...]

Each check has a server of its own:

    dropped    1,000 idle and 1,000 streaming connections are closed at once
    slow       50 clients read nothing of long streams: memory, and how others are served
    bodies     bodies of 10 MB and above, deep JSON, wrong keys, a full queue, repeated
    deleted    the model's files are deleted while it is served
    drain      SIGTERM while clients ask: each accepted request has its whole answer
    attacks    slowhttptest's three attacks, where that is installed: others are served
    soak       --requests (100,000) of all kinds: live bytes of the heap, memory, descriptors and
               threads, as they were after a hundredth of them. What has a bound holds other
               things by then; so before both, it is filled with the same

Without names all of them run. Returns 1 if one has failed. Needs Linux' /proc.
"""

import argparse
import asyncio
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
KEY = "sesame"
failures = []


def check(truth, what):
    if not truth:
        failures.append(what)
        print("FAILED:", what, flush=True)


# ---- the server ----

class Server:
    def __init__(self, args, *options, model=None, **environment):
        command = [args.mica, "serve", "--port", "0", "--model", model or args.model, *options]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True,
                                        env=dict(os.environ, MICA_API_KEY=KEY, **environment))
        line = self.process.stderr.readline()
        found = re.search(r" at http://([^:]+):(\d+)", line)
        if not found:
            sys.exit("the server does not start: " + line)
        self.host, self.port = found.group(1), int(found.group(2))
        self.process.stderr.readline()

    def number(self, name):
        text = open(f"/proc/{self.process.pid}/status", encoding="ascii").read()
        return int(re.search(rf"^{name}:\s*(\d+)", text, re.M).group(1))

    def files(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def stop(self, wanted=0):
        self.process.send_signal(signal.SIGTERM)
        said = self.process.communicate(timeout=120)[1]
        check(self.process.returncode == wanted,
              f"the server ends with {self.process.returncode}: {said}")


class Heap:
    """Counts a server's bytes on the heap, by tests/support/heap_count.c."""

    def __init__(self, folder):
        self.library, self.file = folder + "/heap_count.so", folder + "/bytes"
        subprocess.run(["cc", "-O2", "-fPIC", "-shared", "-o", self.library,
                        ROOT + "/tests/support/heap_count.c"], check=True)
        self.environment = {"LD_PRELOAD": self.library, "HEAP_COUNT": self.file}

    def bytes(self, server):
        if os.path.exists(self.file):
            os.unlink(self.file)
        server.process.send_signal(signal.SIGUSR2)
        while not os.path.exists(self.file):
            time.sleep(0.01)
        return int(open(self.file, encoding="ascii").read().split()[0])


class Answer:
    def __init__(self, status, head, body, whole):
        self.status, self.head, self.body, self.whole = status, head, body, whole

    def json(self):
        return json.loads(self.body)


class Client:
    """A connection, which asks one request after another."""

    def __init__(self, server, key=KEY, origin=None):
        self.server, self.key = server, key
        self.origin = (origin, 0) if origin else None
        self.reader = self.writer = None
        self.reopened = 0

    async def open(self):
        self.reader, self.writer = await asyncio.open_connection(
            self.server.host, self.server.port, local_addr=self.origin)
        return self

    def send(self, method, path, body=None, kind="application/json", length=None):
        data = body if isinstance(body, bytes) else json.dumps(body).encode() if body else b""
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n"
        if self.key:
            head += f"Authorization: Bearer {self.key}\r\n"
        if body is not None:
            head += f"Content-Type: {kind}\r\nContent-Length: {length or len(data)}\r\n"
        self.writer.write(head.encode() + b"\r\n" + data)

    async def read(self, parts=None):
        """An answer, or its first `parts` chunks. Status 0: there is none."""
        try:
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        except (asyncio.IncompleteReadError, ConnectionError):
            return Answer(0, "", b"", False)
        status, body = int(head.split()[1]), b""
        length = re.search(r"(?i)^content-length: (\d+)", head, re.M)
        try:
            if length:
                body = await self.reader.readexactly(int(length.group(1)))
            while not length and parts != 0:
                size = int(await self.reader.readuntil(b"\r\n"), 16)
                body += (await self.reader.readexactly(size + 2))[:-2]
                if size == 0:
                    return Answer(status, head, body, True)
                parts = parts - 1 if parts else parts
        except (asyncio.IncompleteReadError, ConnectionError):
            return Answer(status, head, body, False)
        return Answer(status, head, body, bool(length))

    async def ask(self, method, path, body=None, **more):
        kept = self.writer is not None
        if not kept:
            await self.open()
        self.send(method, path, body, **more)
        answer = await self.read()
        if kept and answer.status == 0:  # the server may close what asks nothing for long
            self.close()
            self.reopened += 1
            return await self.ask(method, path, body, **more)
        if not answer.whole or "connection: close" in answer.head.lower():
            self.close()
        return answer

    def close(self, abort=False):
        if self.writer:
            self.writer.transport.abort() if abort else self.writer.close()
        self.reader = self.writer = None


async def ask(server, method, path, body=None, key=KEY, origin=None, **more):
    client = Client(server, key, origin)
    try:
        return await client.ask(method, path, body, **more)
    except ConnectionError:
        return Answer(0, "", b"", False)
    finally:
        client.close()


def chat(text="What is curl?", **fields):
    return {"messages": [{"role": "user", "content": text}], **fields}


async def time_asks(server, seconds, origin=None):
    """Times, in ms, of short chats one after another: the median, and the longest."""
    times, statuses, end = [], set(), time.monotonic() + seconds
    while time.monotonic() < end:
        began = time.monotonic()
        answer = await ask(server, "POST", "/v1/chat/completions", chat(max_tokens=4),
                           origin=origin)
        statuses.add(answer.status)
        times.append((time.monotonic() - began) * 1000)
    check(statuses == {200}, f"others are served while that happens: {statuses}")
    times.sort()
    return f"others: {len(times)} chats, {times[len(times) // 2]:.0f} ms, at most {times[-1]:.0f}"


async def wait_for(condition, seconds):
    """Waits until it is true. Returns how long that took; None: too long."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > seconds:
            return None
        await asyncio.sleep(0.01)
    return time.monotonic() - began


# ---- the checks ----

async def check_dropped(args):
    server = Server(args, "--queue", "2000", "--max-connections-per-host", "4000")
    kept = [await Client(server).open() for _ in range(100)]
    for client in kept:
        check((await client.ask("GET", "/v1/models")).status == 200, "an idle connection answers")
    await ask(server, "POST", "/v1/chat/completions", chat(max_tokens=1))
    files = server.files()
    idle = [await Client(server).open() for _ in range(1000)]
    streams = [await Client(server).open() for _ in range(1000)]
    for i, client in enumerate(streams):
        client.send("POST", "/v1/chat/completions",
                    chat(stream=True, ignore_eos=True, n=1 + i % 2))
    begun = await asyncio.gather(*(client.read(1) for client in streams))
    check(all(answer.status == 200 for answer in begun), "1,000 streams begin")
    most = server.files()
    for i, client in enumerate(idle + streams):
        client.close(abort=i % 2 == 0)
    took = await wait_for(lambda: server.files() <= files, 10)
    check(took is not None and took <= 1, f"descriptors are back within a second: {took}")
    for client in kept:
        check((await client.ask("GET", "/v1/models")).status == 200, "a kept connection answers")
        client.close()
    others = await time_asks(server, 2)
    server.stop()
    return f"{most} descriptors, {files} again after {took:.2f} s, 100 idle ones work; {others}"


async def check_slow(args):
    server = Server(args, "--rows", "64")
    await time_asks(server, 1)
    before, count = server.number("VmRSS"), 50
    clients = [await Client(server).open() for _ in range(count)]
    for client in clients:
        client.writer.transport.pause_reading()
        client.send("POST", "/v1/chat/completions",
                    chat(stream=True, ignore_eos=True, logprobs=True, top_logprobs=20))
    others = await time_asks(server, 20)
    grown = (server.number("VmRSS") - before) / 1024
    check(grown / count < 4, f"{grown:.0f} MiB for {count} slow readers")
    for client in clients:
        client.close(abort=True)
    half = await Client(server).open()
    half.send("POST", "/v1/chat/completions", chat(stream=True, ignore_eos=True))
    await half.read(1)
    half.writer.write_eof()
    began = time.monotonic()
    while await half.reader.read(65536):
        pass
    took = time.monotonic() - began
    check(took < 2, f"a half-closed stream ends: {took:.1f} s")
    half.close()
    server.stop()
    return (f"{grown / count:.2f} MiB for each of {count}; {others}; half-closed ends in "
            f"{took:.2f} s")


async def check_bodies(args):
    server = Server(args, "--queue", "2", "--rows", "1")
    await time_asks(server, 1)
    seen = {}

    async def expect(what, wanted, *words, **more):
        status = (await ask(server, "POST", "/v1/chat/completions", *words, **more)).status
        seen.setdefault(what, set()).add(status)
        check(status in wanted, f"{what}: {status}")

    large = json.dumps(chat("word " * 2090000)).encode()
    deep = b'{"messages": ' + b"[" * 5000000 + b"}"
    for _ in range(3):
        await asyncio.gather(*(expect("10 MB", {400, 503}, large) for _ in range(16)))
        await asyncio.gather(*(expect("12 MB", {413}, large + b" " * 2000000) for _ in range(16)))
        await asyncio.gather(*(expect("deep", {400, 503}, deep) for _ in range(16)))
    for _ in range(300):
        await expect("key", {401}, chat(), key="sesamf")
    others = await time_asks(server, 1)
    full = [asyncio.create_task(ask(server, "POST", "/v1/chat/completions",
                                    chat(max_tokens=300, ignore_eos=True))) for _ in range(64)]
    answers = await asyncio.gather(*full)
    refused = [answer for answer in answers if answer.status in (429, 503)]
    check(refused and all("Retry-After: " in answer.head for answer in refused), "Retry-After")
    check(all(answer.status == 200 for answer in answers if answer not in refused), "the queue")
    most = server.number("VmHWM") / 1024
    server.stop()
    return (f"10 MB {seen['10 MB']}, 12 MB {seen['12 MB']}, deep {seen['deep']}, wrong key "
            f"{seen['key']}; {len(refused)} of 64 refused by a queue of 2; most memory "
            f"{most:.0f} MiB; {others}")


async def check_deleted(args):
    with tempfile.TemporaryDirectory() as folder:
        model = shutil.copytree(args.model, folder + "/default", symlinks=False)
        server = Server(args, model=model)
        shutil.rmtree(model)
        done = {}
        for path, body in ANSWERED:
            answer = await ask(server, "POST", path, body)
            done[path] = max(done.get(path, 0), answer.status)
        check(set(done.values()) == {200}, f"endpoints without the model's files: {done}")
        server.stop()
    return f"{len(done)} endpoints answer"


async def check_drain(args):
    lost, total, later, last = 0, 0, {}, 0.0
    for i in range(5):
        server, stopped = Server(args), []

        async def client(number):
            nonlocal lost, total
            random.seed(number + i * 100)
            while not stopped:
                await asyncio.sleep(random.random() / 20)
                mine = await Client(server).open() if not stopped else None
                if not mine or stopped:
                    break
                mine.send("POST", "/v1/chat/completions", chat(
                    stream=number % 2 == 0, max_tokens=random.randint(1, 30), ignore_eos=True))
                before = not stopped
                answer = await mine.read()
                good = answer.status == 200 and answer.whole
                good = good and (number % 2 or b"data: [DONE]" in answer.body)
                total += before
                lost += before and not good and answer.status != 503
                mine.close()

        async def late(number):
            while not stopped:
                await asyncio.sleep(0.01)
            for _ in range(20):
                status = (await ask(server, "POST", "/v1/chat/completions", chat(max_tokens=2)))
                later[status.status] = later.get(status.status, 0) + 1
                await asyncio.sleep(random.random() / 50)

        tasks = [asyncio.create_task(client(n)) for n in range(64)]
        tasks += [asyncio.create_task(late(n)) for n in range(8)]
        await asyncio.sleep(2)
        stopped.append(time.monotonic())
        server.process.send_signal(signal.SIGTERM)
        await asyncio.gather(*tasks)
        code = await asyncio.to_thread(server.process.wait, 60)
        last = max(last, time.monotonic() - stopped[0])
        check(code == 0, f"the server ends with {code}")
    check(lost == 0, f"{lost} of {total} requests lost by SIGTERM")
    check(set(later) <= {0, 200, 503}, f"later ones are refused: {later}")
    return f"5 times: {total} requests sent before it, {lost} lost; later {later}; {last:.1f} s"


async def check_attacks(args):
    if not shutil.which("slowhttptest"):
        return "slowhttptest is not installed"
    said = []
    for name, options in (("headers", ["-H", "-i", "5"]),
                          ("body", ["-B", "-i", "5", "-s", "100000"]),
                          ("read", ["-X", "-n", "5", "-w", "10", "-y", "20", "-z", "32"])):
        server = Server(args)
        url = f"http://{server.host}:{server.port}/"
        attack = subprocess.Popen(["slowhttptest", "-c", "3000", "-r", "500", "-l", "30", *options,
                                   "-u", url], stdout=subprocess.DEVNULL)
        await asyncio.sleep(6)
        files = server.files()  # from one address there are no more than half of them
        said.append(f"{name}: {files} descriptors, " + await time_asks(server, 20, "127.0.0.2"))
        attack.terminate()
        attack.wait()
        server.stop()
    return "; ".join(said)


# ---- soak ----

# How much more of each there may be after all requests than after 1 % of them. Blocks lie more
# scattered after a while, so that some pages that stay resident are partly free.
GROWTH = {"live": 0.05, "resident": 0.1, "descriptors": 0, "threads": 0}

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"],
          "additionalProperties": False}
NAMED = {"type": "object", "properties": {"one": {"type": "boolean"}}, "required": ["one"],
         "additionalProperties": False}


def tool(name, schema):
    return {"type": "function", "function": {"name": name, "parameters": schema}}


# A request of each endpoint that computes. Texts with "one" or "curl" are others each time, and so
# are the names of members in NAMED.
ANSWERED = [
    ("/v1/chat/completions", chat(max_tokens=1)),
    ("/v1/chat/completions", chat(max_tokens=20, response_format={
        "type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA, "strict": True}})),
    ("/v1/chat/completions", chat(max_tokens=20, response_format={
        "type": "json_schema", "json_schema": {"name": "a", "schema": NAMED, "strict": True}})),
    ("/v1/chat/completions", chat(max_tokens=20, response_format={"type": "json_object"})),
    ("/v1/chat/completions", chat(max_tokens=20, tools=[tool("a", SCHEMA), tool("b", NAMED)],
                                  tool_choice="required")),
    ("/v1/chat/completions", chat(max_tokens=4, tools=[tool("a", SCHEMA)])),
    ("/v1/messages", chat(max_tokens=20, model="default", tool_choice={"type": "any"}, tools=[
        {"name": "a", "input_schema": NAMED}])),
    ("/v1/completions", {"prompt": ["a", "b c"], "max_tokens": 1, "n": 2, "logprobs": 2}),
    ("/v1/completions", {"prompt": "one two three", "max_tokens": 0, "echo": True, "logprobs": 1}),
    ("/v1/embeddings", {"input": ["one", "two"], "model": "default"}),
    ("/v1/responses", {"input": "What is curl?", "max_output_tokens": 1}),
    ("/v1/score", {"input": "one two three"}),
    ("/v1/rerank", {"query": "a word", "documents": ["one", "two"]}),
    ("/v1/classify", {"input": "one", "labels": ["two", "three"]}),
    ("/v1/messages", chat(max_tokens=1, model="default")),
    ("/v1/messages/count_tokens", chat(model="default")),
    ("/api/chat", chat(model="default", stream=False, options={"num_predict": 1})),
    ("/api/generate", {"model": "default", "prompt": "a", "stream": False,
                       "options": {"num_predict": 1}}),
    ("/api/embed", {"model": "default", "input": "one"}),
    ("/tokenize", {"prompt": "one two"}),
    ("/detokenize", {"tokens": [5, 6, 7]}),
    ("/apply-template", chat()),
]
STREAMED = [
    ("/v1/chat/completions", chat(max_tokens=2, stream=True, n=2)),
    ("/v1/completions", {"prompt": "one", "max_tokens": 2, "stream": True}),
    ("/v1/responses", {"input": "one", "max_output_tokens": 1, "stream": True}),
    ("/v1/messages", chat(max_tokens=1, model="default", stream=True)),
    ("/v1/chat/completions", chat(max_tokens=20, stream=True, tools=[tool("a", NAMED)],
                                  tool_choice="required")),
    ("/api/chat", chat(model="default", options={"num_predict": 1})),
]
REFUSED = [
    ("POST", "/v1/chat/completions", chat(temprature=1)),
    ("POST", "/v1/chat/completions", b'{"messages": ['),
    ("POST", "/v1/completions", {"prompt": "word " * 5000}),
    ("POST", "/v1/responses", {"input": "a", "previous_response_id": "resp_none"}),
    ("POST", "/nowhere", {"a": 1}),
    ("POST", "/v1/chat/completions", chat(model="one")),
    ("POST", "/v1/chat/completions", chat(response_format={
        "type": "json_schema", "json_schema": {"name": "a", "schema": {"one": 1}}})),
    ("GET", "/v1/files/file-none", None),
    ("DELETE", "/v1/models", None),
]


def varied(body, number):
    """The same request with another prompt, so that caches change. All are equally long."""
    number += 1000000
    text = json.dumps(body).replace("one", f"one {number}").replace("curl", f"curl {number}")
    return text.encode()


async def send_file(client, lines):
    """Returns the id of a file of a batch's requests."""
    form = ('--b\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n--b\r\n'
            'Content-Disposition: form-data; name="file"; filename="a.jsonl"\r\n\r\n'
            f"{lines}\r\n--b--\r\n").encode()
    answer = await client.ask("POST", "/v1/files", form, kind="multipart/form-data; boundary=b")
    return answer.json()["id"]


async def run_batch(client, number):
    lines = "".join(json.dumps({"custom_id": str(i), "method": "POST", "url": "/v1/completions",
                                "body": {"prompt": f"batch {number}", "max_tokens": 1}}) + "\n"
                    for i in range(2))
    file = await send_file(client, lines)
    batch = (await client.ask("POST", "/v1/batches", {
        "input_file_id": file, "endpoint": "/v1/completions", "completion_window": "24h"})).json()
    while batch["status"] in ("validating", "in_progress", "finalizing"):
        await asyncio.sleep(0.05)
        batch = (await client.ask("GET", "/v1/batches/" + batch["id"])).json()
    check(batch["status"] == "completed" and batch["request_counts"]["completed"] == 2,
          f"a batch: {batch}")
    for id in (file, batch["output_file_id"]):
        check((await client.ask("DELETE", "/v1/files/" + id)).status == 200, "a file goes")


async def soak_file(client, number):
    file = await send_file(client, "{}\n" * (number % 1000))
    answer = await client.ask("GET", f"/v1/files/{file}/content")
    check(answer.status == 200 and answer.body.count(b"{}") == number % 1000, "a file")
    check((await client.ask("DELETE", "/v1/files/" + file)).status == 200, "a file goes")


async def soak_turn(client, number):
    """A turn of a conversation that the server keeps, one of five on average."""
    body = {"input": f"turn {number + 1000000}", "max_output_tokens": 2}
    if number // 20 % 5:  # of every 20 requests one is a turn
        body["previous_response_id"] = getattr(client, "previous", None)
    answer = await client.ask("POST", "/v1/responses", body)
    if b"previous_response_not_found" in answer.body:  # it has been forgotten meanwhile
        body.pop("previous_response_id")
        answer = await client.ask("POST", "/v1/responses", body)
    check(answer.status == 200, f"a turn: {answer.status} {answer.body[:200]}")
    client.previous = answer.json()["id"]


async def soak_cancelled(server, number, stream):
    other = await Client(server).open()
    other.send("POST", "/v1/chat/completions", chat(
        f"number {number + 1000000}", stream=stream, ignore_eos=True, n=1 + number % 3))
    if stream:
        await other.read(1)
    elif number % 4 < 2:
        await asyncio.sleep(random.random() / 100)
    other.close(abort=number % 3 == 0)


async def soak_listed(client, number, listed):
    path, body = random.choice(listed)
    answer = await client.ask("POST", path, varied(body, number))
    check(answer.status == 200 and answer.whole, f"{path}: {answer.status} {answer.body[:200]}")


async def soak_refused(client, number):
    method, path, body = random.choice(REFUSED)
    body = varied(body, number) if isinstance(body, dict) else body
    answer = await client.ask(method, path, body)
    check(400 <= answer.status < 500, f"{path}: {answer.status}")


async def soak_read(server):
    path = random.choice(("/", "/metrics", "/health", "/v1/models", "/v1/files", "/v1/batches"))
    answer = await ask(server, "GET", path)
    check(answer.status == 200, f"{path}: {answer.status}")


async def soak_one(server, client, number, counts):
    kind = number % 20
    if number % 500 == 499:
        kind, work = "batch", run_batch(client, number)
    elif number % 100 == 99:
        kind, work = "file", soak_file(client, number)
    elif kind < 9:
        kind, work = "whole", soak_listed(client, number, ANSWERED)
    elif kind < 10:
        kind, work = "turn", soak_turn(client, number)
    elif kind < 14:
        kind, work = "streamed", soak_listed(client, number, STREAMED)
    elif kind < 16:
        kind, work = "refused", soak_refused(client, number)
    elif kind < 18:
        kind, work = "cancelled", soak_cancelled(server, number, kind == 16)
    else:
        kind, work = "read", soak_read(server)
    await work
    counts[kind] = counts.get(kind, 0) + 1


async def fill_stores(server):
    """Fills what has a bound: the responses that are remembered, the plans of passes."""
    client = Client(server)
    for i in range(1100):
        path, body = "/v1/responses", {"input": f"one {i}", "max_output_tokens": 1}
        check((await client.ask("POST", path, body)).status == 200, path)
    for i in range(1, 400):
        path, body = "/v1/completions", {"prompt": [7] * i, "max_tokens": 1}
        check((await client.ask("POST", path, body)).status == 200, path)
    client.close()


async def check_soak(args):
    folder = tempfile.mkdtemp()
    heap = Heap(folder)
    server = Server(args, "--cache-memory", "16", "--queue", "1000", **heap.environment)
    number, counts, states = 0, {}, []
    began = time.monotonic()

    async def client():
        nonlocal number
        mine = Client(server)
        while number < end:
            number += 1
            await soak_one(server, mine, number, counts)
            if random.random() < 0.05:
                mine.close()
        mine.close()
        counts["reopened"] = counts.get("reopened", 0) + mine.reopened

    ends = [args.requests // part for part in (100, 50, 20, 10, 4, 2, 1)]
    ends.append(ends[-1] + ends[0])
    for end in ends:
        if end in (ends[0], ends[-1]):
            await fill_stores(server)
        await asyncio.gather(*(client() for _ in range(args.clients)))
        await asyncio.sleep(4)  # what was cancelled ends, and freed memory goes back
        states.append((end, heap.bytes(server) / 1e6, server.number("RssAnon") * 1024 / 1e6,
                       server.number("RssFile") * 1024 / 1e6, server.files(),
                       server.number("Threads")))
        print("  after {}: {:.1f} MB live, {:.1f} MB resident and {:.1f} MB of files, "
              "{} descriptors, {} threads".format(*states[-1]), flush=True)
    took = time.monotonic() - began
    for i, what in ((1, "live"), (2, "resident"), (4, "descriptors"), (5, "threads")):
        limit = states[0][i] * (1 + GROWTH[what])
        check(states[-1][i] <= limit, f"{what}: {states[0][i]:.1f}, then {states[-1][i]:.1f}")
    text = (await ask(server, "GET", "/metrics")).body.decode()
    running = [line for line in text.splitlines()
               if line.startswith(("mica_requests_running", "mica_requests_waiting"))]
    check(all(line.endswith(" 0") for line in running), f"nothing runs: {running}")
    server.stop()
    shutil.rmtree(folder)
    return f"{end} requests in {took:.0f} s ({counts})"


CHECKS = {name[6:]: value for name, value in globals().items() if name.startswith("check_")}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mica")
    parser.add_argument("checks", nargs="*", metavar="CHECK")
    parser.add_argument("--model", default=ROOT + "/models/default")
    parser.add_argument("--requests", type=int, default=100000)
    parser.add_argument("--clients", type=int, default=16)
    args = parser.parse_intermixed_args()
    unknown = set(args.checks) - set(CHECKS)
    if unknown:
        parser.error(f"there is no check {unknown.pop()}: they are {', '.join(CHECKS)}")
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    random.seed(1)
    for name in args.checks or CHECKS:
        print(f"{name}: {asyncio.run(CHECKS[name](args))}", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
