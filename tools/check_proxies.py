#!/usr/bin/env python3
"""Runs replicas of `mica serve` behind the proxies of docs/serve.md, by the configurations there.

    tools/check_proxies.py MICA [--model FOLDER] [PROXY...]      PROXY: haproxy, nginx; both

For each proxy that is installed:

    stream     the pieces of an answer come as they are written
    refusing   a replica that says 503, as one that drains or is full: others answer in its place,
               to short and to long requests
    stopped    a replica is told to drain, and later killed, while clients ask
    affinity   requests with one x-session go to one replica, by the line that the comment names

It prints what it saw. Returns 1 if something is not as docs/serve.md says, 77 without proxies.
Needs openssl, for the proxies' certificates.
"""

import argparse
import contextlib
import http.client
import http.server
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
KEY = "sesame"
LONG = 300000  # bytes of a long prompt, several times a proxy's usual buffer
failures = []


def check(truth, what):
    if not truth:
        failures.append(what)
        print("FAILED:", what, flush=True)


# ---- replicas ----

def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Replica:
    """`mica serve`, each time at the same port"""

    def __init__(self, args):
        self.args, self.port, self.process = args, free_port(), None
        self.start()

    def start(self):
        command = [self.args.mica, "serve", "--port", str(self.port), "--model", self.args.model]
        self.process = subprocess.Popen(command, stderr=subprocess.DEVNULL,
                                        env=dict(os.environ, MICA_API_KEY=KEY))
        wait_for(self.port)

    def end(self, number):
        self.process.send_signal(number)
        return self.process.wait(120)


class Refusing(http.server.BaseHTTPRequestHandler):
    """A replica that looks well and answers nothing"""
    protocol_version = "HTTP/1.1"
    asked = 0

    def do_GET(self):
        self.answer(200, b"{}")

    def do_POST(self):
        Refusing.asked += 1
        self.rfile.read(int(self.headers["content-length"]))
        self.answer(503, b'{"error": {"message": "the server is stopping"}}')

    def answer(self, status, body):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words):
        pass


class Quiet(http.server.ThreadingHTTPServer):
    def handle_error(self, request, client_address):
        pass  # a check that ends its connection


def wait_for(port):
    for _ in range(1200):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.05)
    sys.exit(f"nobody listens at port {port}")


# ---- proxies ----

def documented(first):
    """The configuration in docs/serve.md that begins with that line"""
    text = open(ROOT + "/docs/serve.md", encoding="utf-8").read()
    found = re.search(rf"^    {re.escape(first)}\n((    .*)?\n)*", text, re.M)
    return re.sub(r"^    ", "", found.group(0), flags=re.M)


def replaced(text, *pairs):
    for old, new in pairs:
        if old not in text:
            sys.exit(f"the configuration of docs/serve.md has no {old}")
        text = text.replace(old, new)
    return text


def haproxy(folder, port, replicas):
    """Its command, and the configuration"""
    with open(folder + "/mica.pem", "w", encoding="ascii") as both:
        both.write(open(folder + "/cert", encoding="ascii").read())
        both.write(open(folder + "/key", encoding="ascii").read())
    text = replaced(documented("global"), (":443 ssl", f"127.0.0.1:{port} ssl"),
                    ("/etc/haproxy/mica.pem", folder + "/mica.pem"),
                    ("10.0.0.1:8080", f"127.0.0.1:{replicas[0]}"),
                    ("10.0.0.2:8080", f"127.0.0.1:{replicas[1]}"))
    return ["haproxy", "-db", "-f", folder + "/conf"], text


def nginx(folder, port, replicas):
    text = replaced(documented("upstream mica {"), ("listen 443", f"listen 127.0.0.1:{port}"),
                    ("/etc/nginx/mica.pem", folder + "/cert"),
                    ("/etc/nginx/mica.key", folder + "/key"),
                    ("10.0.0.1:8080", f"127.0.0.1:{replicas[0]}"),
                    ("10.0.0.2:8080", f"127.0.0.1:{replicas[1]}"))
    paths = "".join(f"{word}_temp_path {folder}/{word};\n" for word in
                    ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    text = (f"daemon off;\npid {folder}/pid;\nerror_log {folder}/log;\nevents {{}}\n"
            f"http {{\naccess_log off;\n{paths}{text}}}\n")
    return ["nginx", "-p", folder, "-e", folder + "/log", "-c", folder + "/conf"], text


@contextlib.contextmanager
def proxy(make, *replicas):
    """A proxy's port"""
    folder, port = tempfile.mkdtemp(), free_port()
    os.chmod(folder, 0o755)
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1",
                    "-subj", "/CN=localhost", "-keyout", folder + "/key", "-out",
                    folder + "/cert"], check=True, stderr=subprocess.DEVNULL)
    command, text = make(folder, port, replicas)
    with open(folder + "/conf", "w", encoding="ascii") as file:
        file.write(text)
    process = subprocess.Popen(command)
    wait_for(port)
    time.sleep(3)  # its first checks
    yield port
    process.terminate()
    process.wait(30)
    shutil.rmtree(folder)


# ---- clients ----

def ask(port, text, session=None, **fields):
    """The status of a chat's answer and its pieces with the times at which they came; status 0:
    the connection broke"""
    body = {"messages": [{"role": "user", "content": text}], "temperature": 0, "truncate": True,
            "max_tokens": 20, **fields}
    context = ssl._create_unverified_context()
    began = time.monotonic()
    try:
        client = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=60)
        client.request("POST", "/v1/chat/completions", json.dumps(body),
                       {"Content-Type": "application/json", "Authorization": "Bearer " + KEY,
                        **({"x-session": session} if session else {})})
        answer, pieces = client.getresponse(), []
        while piece := answer.read1():
            pieces.append((time.monotonic() - began, piece))
        return answer.status, pieces
    except (OSError, http.client.HTTPException):
        return 0, []
    finally:
        client.close()


def statuses(port, count, text):
    found = {}
    for _ in range(count):
        status = ask(port, text)[0]
        found[status] = found.get(status, 0) + 1
    return found


class Clients:
    """Clients that ask one chat after another"""

    def __init__(self, port, count):
        self.counts, self.stopped = {}, False
        self.threads = [threading.Thread(target=self.run, args=(port,)) for _ in range(count)]
        for thread in self.threads:
            thread.start()

    def run(self, port):
        while not self.stopped:
            status = ask(port, "What is curl?")[0]
            self.counts[status] = self.counts.get(status, 0) + 1

    def take(self):
        """The statuses since the last time"""
        counts, self.counts = self.counts, {}
        return counts

    def stop(self):
        self.stopped = True
        for thread in self.threads:
            thread.join()
        return self.take()


# ---- checks ----

def check_stream(name, make, replicas):
    with proxy(make, *(replica.port for replica in replicas)) as port:
        status, pieces = ask(port, "What is curl?", stream=True, max_tokens=1000, ignore_eos=True)
        check(status == 200 and pieces[-1][1].endswith(b"data: [DONE]\n\n"), f"{name}: no stream")
        first, last = pieces[0][0], pieces[-1][0]
        check(first < last / 2 and len(pieces) > 50, f"{name}: collects a stream")
        print(f"{name}: stream: {len(pieces)} pieces, from {first:.2f} to {last:.2f} s")


def check_refusing(name, make, replicas):
    server = Quiet(("127.0.0.1", 0), Refusing)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with proxy(make, server.server_address[1], replicas[1].port) as port:
        for what, text in (("short", "What is curl?"), ("long", "curl " * (LONG // 5))):
            Refusing.asked = 0
            found = statuses(port, 6, text)
            print(f"{name}: refusing: {what} requests: {found}, {Refusing.asked} asked in vain")
            check(found == {200: 6}, f"{name}: {what} requests are refused")
    server.shutdown()


def check_stopped(name, make, replicas):
    with proxy(make, *(replica.port for replica in replicas)) as port:
        clients = Clients(port, 8)
        for number in (signal.SIGTERM, signal.SIGKILL):
            time.sleep(2)
            code = replicas[0].end(number)
            time.sleep(5)
            found = clients.take()
            print(f"{name}: stopped: {number.name}, which ends it with {code}: {found}")
            check(set(found) == {200}, f"{name}: requests are lost by {number.name}")
            replicas[0].start()
            time.sleep(8)
            found = clients.take()
            print(f"{name}: stopped: started again: {found}")
            check(set(found) == {200}, f"{name}: requests are lost as a replica comes back")
        clients.stop()


def by_session(make):
    """A proxy with the line that the comment of its configuration names"""
    def changed(*args):
        command, text = make(*args)
        old, new = (("leastconn            # or: balance hash", "hash") if make is haproxy else
                    ("least_conn;           # or: hash", "hash"))
        return command, replaced(text, (old, new))
    return changed


def answered(replica):
    client = http.client.HTTPConnection("127.0.0.1", replica.port)
    client.request("GET", "/metrics", headers={"Authorization": "Bearer " + KEY})
    text = client.getresponse().read().decode()
    return int(re.search(r"^mica_generated_tokens_total{.*} (\d+)", text, re.M).group(1))


def check_affinity(name, make, replicas):
    with proxy(by_session(make), *(replica.port for replica in replicas)) as port:
        before, again = [answered(replica) for replica in replicas], 0
        for _ in range(3):
            for i in range(12):
                text = f"{name} {i} " + "curl and tar " * (50 + i)
                status, pieces = ask(port, text, f"session {i}")
                check(status == 200, f"{name}: no answer")
                usage = json.loads(b"".join(piece for _, piece in pieces))["usage"]
                again += usage["prompt_tokens_details"]["cached_tokens"] > 0
        shares = [answered(replica) - had for replica, had in zip(replicas, before)]
        print(f"{name}: affinity: {again} of 24 prompts were known, tokens {shares}")
        # A prompt of whole blocks may be read again where layers have windows.
        check(again >= 22 and min(shares) > 0, f"{name}: sessions change their replica")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mica")
    parser.add_argument("proxies", nargs="*", metavar="PROXY")
    parser.add_argument("--model", default=ROOT + "/models/default")
    args = parser.parse_intermixed_args()
    os.environ["PATH"] += ":/usr/sbin"
    chosen = [make for make in (haproxy, nginx) if shutil.which(make.__name__)
              and make.__name__ in (args.proxies or ("haproxy", "nginx"))]
    if not chosen:
        print("neither haproxy nor nginx is installed")
        return 77
    replicas = [Replica(args), Replica(args)]
    try:
        for make in chosen:
            for run in (check_stream, check_refusing, check_stopped, check_affinity):
                run(make.__name__, make, replicas)
    finally:
        for replica in replicas:
            replica.end(signal.SIGTERM)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
