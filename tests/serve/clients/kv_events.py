#!/usr/bin/env python3
"""Readers of the events about a server's caches: pyzmq and msgspec, with the structures that vLLM
documents, and what gateways read of /metrics by Prometheus' own parser.

   kv_events.py MICA FOLDER
"""
import json
import socket
import time
import urllib.request

from serving import ROOT, find, served

msgspec = find("msgspec")
zmq = find("zmq")
parser = find("prometheus_client.parser")

FIXTURES = ROOT + "/tests/fixtures"
BLOCK = 64
WORDS = ("curl", "tar", "grep", "sed", "make", "git", "ssh", "find")


# ---- vLLM's structures, as its documentation has them ----

class Event(msgspec.Struct, array_like=True, omit_defaults=True, gc=False, tag=True):
    pass


class BlockStored(Event):
    block_hashes: list[int]
    parent_block_hash: int | None
    token_ids: list[int]
    block_size: int
    lora_id: int | None
    medium: str | None
    lora_name: str | None = None


class BlockRemoved(Event):
    block_hashes: list[int]
    medium: str | None


class AllBlocksCleared(Event):
    pass


class Batch(msgspec.Struct, array_like=True, omit_defaults=True, gc=False):
    ts: float
    events: list[BlockStored | BlockRemoved | AllBlocksCleared]
    data_parallel_rank: int | None = None


decoder = msgspec.msgpack.Decoder(Batch)


# ---- clients ----

def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def ask(address, path, **body):
    data = json.dumps(body).encode() if body else None
    request = urllib.request.Request(address + path, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.read().decode()


def complete(address, prompt, model="default"):
    """The prompt's tokens that were in the caches, and all of them"""
    answer = json.loads(ask(address, "/v1/completions", model=model, prompt=prompt, max_tokens=2))
    usage = answer["usage"]
    return usage["prompt_tokens_details"]["cached_tokens"], usage["prompt_tokens"]


def tokens_of(address, text):
    return json.loads(ask(address, "/tokenize", prompt=text))["tokens"]


class Reader:
    """An index of what a replica's caches have, by the tokens of texts"""

    def __init__(self, socket):
        self.socket, self.seen, self.topics = socket, {}, set()
        self.place = {}  # of a hash: all tokens up to its end
        self.adapters = {}
        self.next = 0
        self.removed = 0

    def read(self, wait_ms=500):
        while self.socket.poll(wait_ms):
            topic, number, payload = self.socket.recv_multipart()
            assert int.from_bytes(number, "big") == self.next, (number, self.next)
            self.next += 1
            self.seen[self.next - 1] = payload
            self.topics.add(topic.decode())
            batch = decoder.decode(payload)
            assert batch.ts > 1.7e9 and batch.data_parallel_rank == 0 and batch.events
            for event in batch.events:
                self.take(event)
        return self

    def take(self, event):
        if isinstance(event, BlockStored):
            assert event.medium == "GPU" and event.lora_id is None
            assert len(event.block_hashes) == 1 and event.block_hashes[0] not in self.place
            assert len(event.token_ids) == event.block_size == BLOCK
            before = self.place[event.parent_block_hash] if event.parent_block_hash else ()
            self.place[event.block_hashes[0]] = before + tuple(event.token_ids)
            self.adapters[event.block_hashes[0]] = event.lora_name
        else:
            assert isinstance(event, BlockRemoved)
            for one in event.block_hashes:
                del self.place[one]
                self.removed += 1

    def read_to(self, tokens):
        """Reads on until all blocks of a prompt are told of: nothing else is on its way then."""
        end = time.monotonic() + 60
        while self.whole(tokens) not in self.place.values() and time.monotonic() < end:
            self.read(20)
        assert self.whole(tokens) in self.place.values(), tokens

    @staticmethod
    def whole(tokens):
        return tuple(tokens[:len(tokens) // BLOCK * BLOCK])

    def known(self, tokens):
        """How many of a prompt's first tokens it has; one at least is computed"""
        texts = set(self.place.values())
        ends = range(BLOCK, len(tokens), BLOCK)
        return max((end for end in ends if tuple(tokens[:end]) in texts), default=0)


def gauges(address):
    """The samples of /metrics by their names"""
    found = {}
    for family in parser.text_string_to_metric_families(ask(address, "/metrics")):
        for sample in family.samples:
            found.setdefault(sample.name, []).append(sample)
    return found


def prompt_of(i):
    return f"{i} " + " ".join(WORDS[(i * 7 + k * k) % len(WORDS)] for k in range(150))


# ---- checks ----

def check_reader(context):
    """The server connects to a reader, and prompts fill its caches several times."""
    sub = context.socket(zmq.SUB)
    port = sub.bind_to_random_port("tcp://127.0.0.1")
    sub.setsockopt(zmq.SUBSCRIBE, b"kv@pod@default")
    replay_port = free_port()
    with served("--kv-events", f"tcp://127.0.0.1:{port}", "--kv-events-topic", "kv@pod@{model}",
                "--kv-events-replay", f"tcp://127.0.0.1:{replay_port}", "--vllm-metrics",
                "--cache-memory", "4") as address:
        reader, hits = Reader(sub), 0
        complete(address, "curl")
        reader.read(1000)  # the socket subscribes while it is waited for
        for i in list(range(24)) + [23, 22, 5] + list(range(24, 40)) + [39, 0]:
            text = prompt_of(i)
            tokens = tokens_of(address, text)
            expected = reader.known(tokens)
            cached, total = complete(address, text)
            assert cached == expected, (i, cached, expected, total)
            reader.read_to(tokens)
            hits += cached > 0
        reader.read()
        assert hits == 3 and reader.removed > 20, (hits, reader.removed)
        assert reader.topics == {"kv@pod@default"}
        check_replay(context, replay_port, reader)
        check_gauges(address)
    assert not reader.read().place
    print(f"{reader.next} messages, {reader.removed} blocks were removed, {hits} prompts known")


def check_replay(context, port, reader):
    """All messages again, and those from a number on; what is no request has no answer."""
    asked = context.socket(zmq.DEALER)
    asked.connect(f"tcp://127.0.0.1:{port}")
    for strange in ([b""], [b"", b"1"], [b"x", bytes(8)], [b"", bytes(8), b""], [b"", bytes(9000)]):
        asked.send_multipart(strange)
    for first in (0, reader.next - 3, reader.next + 5):
        asked.send_multipart([b"", first.to_bytes(8, "big")])
        for number in range(first, reader.next):
            empty, given, payload = asked.recv_multipart()
            assert empty == b"" and int.from_bytes(given, "big") == number
            assert payload == reader.seen[number], number
        empty, given, payload = asked.recv_multipart()
        assert (empty, given, payload) == (b"", b"\xff" * 8, b"")
    assert not asked.poll(200)
    lock_step = context.socket(zmq.REQ)  # as vLLM's example asks
    lock_step.connect(f"tcp://127.0.0.1:{port}")
    lock_step.send((reader.next - 1).to_bytes(8, "big"))
    given, payload = lock_step.recv_multipart()
    assert payload == reader.seen[reader.next - 1]


def check_gauges(address):
    """Those of the Gateway API Inference Extension's protocol for model servers"""
    found = gauges(address)
    for name in ("num_requests_waiting", "num_requests_running", "kv_cache_usage_perc"):
        (sample,) = found["vllm:" + name]
        assert sample.labels == {"model_name": "default"} and 0 <= sample.value <= 1, sample
    (config,) = found["vllm:cache_config_info"]
    assert config.value == 1 and config.labels["block_size"] == str(BLOCK)
    assert int(config.labels["num_gpu_blocks"]) > 10
    (adapters,) = found["vllm:lora_requests_info"]
    assert adapters.labels["running_lora_adapters"] == adapters.labels["waiting_lora_adapters"] == ""


def check_listening(context):
    """The server listens; an adapter is a model of its own, with its name in events and gauges."""
    port = free_port()
    with served("--kv-events", f"@tcp://127.0.0.1:{port}", "--vllm-metrics", "--adapter",
                f"pirate={FIXTURES}/lora/mlx_qwen3", "--name", "tiny",
                models=(FIXTURES + "/models/qwen3_tied",)) as address:
        sub = context.socket(zmq.SUB)
        sub.connect(f"tcp://127.0.0.1:{port}")
        sub.setsockopt(zmq.SUBSCRIBE, b"")
        for i in range(100):  # until the subscription has come
            complete(address, f"{i} abc" * 40, model="tiny")
            if sub.poll(50):
                break
        complete(address, "abc" * 50, model="tiny:pirate")
        found = set()
        while sub.poll(500):
            topic, number, payload = sub.recv_multipart()
            assert topic == b"" and len(number) == 8
            found |= {event.lora_name for event in decoder.decode(payload).events}
        assert found == {None, "pirate"}, found
        (adapters,) = gauges(address)["vllm:lora_requests_info"]
        assert adapters.labels["running_lora_adapters"] == "tiny:pirate", adapters
        assert adapters.labels["max_lora"] == "1" and adapters.value > 1.7e9


def main():
    context = zmq.Context()
    check_reader(context)
    check_listening(context)
    context.destroy(linger=0)


main()
