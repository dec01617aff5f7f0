"""mica's bridge to mlx-lm: JSON Lines on standard input and output.

A request is an object {"cmd": ..., "id": ...}; every line of its replies has its id.

    load      path, adapter?            -> {ok, model_type, vocab_size, ...}
    generate  prompt (text or ids), options? -> {token, token_id, ...} each, then {done, ...}
    chat      messages, options?        -> the same, through the tokenizer's chat template
    info                                -> {model_type, vocab_size, layers, hidden_size, ...}
    inspect   prompt, layers?           -> {layer, q, k, ...} each, then {done}
    cancel    target?                   -> no reply of its own: generate ends with {done}
    quit                                -> the process ends

`target` is the id of a request; without it all requests end that have come. Before its tokens,
generate tells of its prefill: {progress, total}, in tokens.

What fails is {error, kind}; kind is missing, invalid, unsupported, memory or failed. An option that
is not known, or that mlx-lm lacks, is an error by its name. A thread reads requests while another
computes, so cancel, quit and the end of the input are noticed at once.
"""

import sys

if sys.argv[0] == "-c" and sys.path[:1] == [""]:
    del sys.path[0]  # no module comes from the folder that the program happens to be in

import json
import os
import queue
import threading
import time

GENERATE = {
    "max_tokens", "min_tokens", "temperature", "top_k", "top_p", "min_p", "repetition_penalty",
    "presence_penalty", "frequency_penalty", "penalty_window", "logit_bias", "seed", "stop_ids",
    "logprobs", "top_logprobs", "prefill_chunk",
}
KEYS = {
    "load": {"path", "adapter"},
    "generate": {"prompt"} | GENERATE,
    "chat": {"messages", "template_variables", "tools"} | GENERATE,
    "info": set(),
    "inspect": {"prompt", "layers"},
}
DTYPES = {"bfloat16": "bf16", "float16": "f16", "float32": "f32"}


class Refused(Exception):
    def __init__(self, kind, text):
        super().__init__(text)
        self.kind = kind


class Cancelled(Exception):
    pass


def how_to_get_it():
    mlx = "" if sys.platform == "darwin" else "'mlx[cpu]' "
    return "install it with: %s -m pip install %smlx-lm" % (sys.executable, mlx)


def check():
    """Whether mlx-lm can be imported, without importing it."""
    import importlib.metadata
    import importlib.util

    for name in ("mlx.core", "mlx_lm"):
        try:
            found = importlib.util.find_spec(name) is not None
        except ModuleNotFoundError:
            found = False
        if not found:
            text = "%s has no module %s: %s" % (sys.executable, name, how_to_get_it())
            return {"error": text, "kind": "missing"}
    try:
        return {"ok": True, "version": importlib.metadata.version("mlx-lm")}
    except importlib.metadata.PackageNotFoundError:
        return {"ok": True, "version": ""}


class Request(dict):
    """What was asked; `cancelled` is set by the thread that reads."""

    cancelled = False


class Lines:
    """Both ends of the conversation. What libraries print goes to standard error."""

    def __init__(self):
        self.out = os.fdopen(os.dup(1), "w", encoding="ascii", newline="\n")
        os.dup2(2, 1)
        self.requests = queue.Queue()
        self.lock = threading.Lock()
        self.open = []  # requests that were not answered yet

    def send(self, request, **reply):
        if request.get("id") is not None:
            reply["id"] = request["id"]
        line = json.dumps(reply, allow_nan=False) + "\n"
        try:
            self.out.write(line)
            self.out.flush()
        except OSError:
            os._exit(0)

    def read(self):
        for line in sys.stdin:
            try:
                request = Request(json.loads(line))
            except (ValueError, TypeError) as error:
                request = Request(cmd=None, why="not a request: %s" % error)
            if request.get("cmd") == "quit":
                os._exit(0)
            with self.lock:
                if request.get("cmd") == "cancel":
                    self.cancel(request)
                else:
                    self.open.append(request)
                    self.requests.put(request)
        os._exit(0)

    def cancel(self, request):
        target = request.get("target")
        for one in self.open:
            if target is None or one.get("id") == target:
                one.cancelled = True

    def serve(self, bridge):
        threading.Thread(target=self.read, daemon=True).start()
        while True:
            request = self.requests.get()
            try:
                bridge.answer(request)
            except Refused as error:
                self.send(request, error=str(error), kind=error.kind)
            except MemoryError:
                self.send(request, error="out of memory", kind="memory")
            except Exception as error:
                kind = "memory" if "malloc" in str(error) else "failed"
                self.send(request, error="%s: %s" % (type(error).__name__, error), kind=kind)
            with self.lock:
                self.open.remove(request)


def get(config, *names):
    """The first of some keys that a config has, also in its text_config."""
    for part in (config, config.get("text_config") or {}):
        for name in names:
            if part.get(name) is not None:
                return part[name]
    return None


class Processor:
    """mica's bias, penalties and bans, and the model's own logits before them."""

    def __init__(self, request, ids, stops):
        import mlx.core as mx

        self.mx, self.ids = mx, ids
        self.raw = []  # logits of the tokens to come
        self.keep_raw = bool(request.get("logprobs") or request.get("top_logprobs"))
        self.calls = 0
        self.min_tokens = request.get("min_tokens") or 0
        self.stops = mx.array(sorted(stops)) if stops and self.min_tokens else None
        self.repetition = request.get("repetition_penalty") or 1.0
        self.presence = request.get("presence_penalty") or 0.0
        self.frequency = request.get("frequency_penalty") or 0.0
        self.window = request.get("penalty_window") or 20
        self.bias = None
        bias = request.get("logit_bias") or []
        if bias:
            values = [-float("inf") if value is None else value for _, value in bias]
            self.bias = mx.array([i for i, _ in bias]), mx.array(values)
        self.penalises = self.repetition != 1.0 or self.presence != 0.0 or self.frequency != 0.0
        self.before = None

    def is_needed(self):
        return self.keep_raw or self.stops is not None or self.bias is not None or self.penalises

    def __call__(self, tokens, logits):
        mx = self.mx
        if self.keep_raw:
            self.raw.append(logits)
        if self.bias is not None:
            logits = logits.at[:, self.bias[0]].add(self.bias[1].astype(logits.dtype))
        if self.penalises:
            logits = self.penalise(tokens, logits)
        if self.stops is not None and self.calls < self.min_tokens:
            logits = logits.at[:, self.stops].add(mx.array(-float("inf"), logits.dtype))
        self.calls += 1
        return logits

    def penalise(self, tokens, logits):
        mx = self.mx
        if self.before is None:  # the prompt's tokens that this call does not bring
            known = self.ids[: max(0, len(self.ids) - tokens.shape[0])]
            self.before = mx.array(known[-self.window :] or [0], tokens.dtype)[: len(known)]
        recent = mx.concatenate([self.before, tokens])[-self.window :]
        one = mx.array(1, logits.dtype)
        zeros = mx.zeros((logits.shape[-1],), logits.dtype)
        scaled = mx.where(logits < 0, logits * self.repetition, logits / self.repetition)
        logits = mx.where(zeros.at[recent].add(one) > 0, scaled, logits)
        said = recent[max(0, recent.shape[0] - self.calls) :]  # of the answer
        if not said.shape[0]:
            return logits
        counts = zeros.at[said].add(one)
        return mx.where(counts > 0, logits - self.presence - counts * self.frequency, logits)

    def logprobs(self, token, top):
        """Of a token and of the likeliest ones, by the model's own logits."""
        mx = self.mx
        logits = self.raw.pop(0).reshape(-1).astype(mx.float32)
        all_of_them = logits - mx.logsumexp(logits)
        best = []
        if top > 0:
            order = mx.argsort(-all_of_them)[:top].tolist()
            best = [[i, all_of_them[i].item()] for i in order]
        return all_of_them[token].item(), [pair for pair in best if pair[1] > -float("inf")]


class Bridge:
    def __init__(self, lines):
        self.lines = lines
        self.model = self.tokenizer = None
        self.cache, self.cached = None, []  # of the last answer: its caches, and their tokens

    def answer(self, request):
        command = request.get("cmd")
        if command not in KEYS:
            raise Refused("invalid", request.get("why") or "no command %r" % (command,))
        for key in request:
            if key not in KEYS[command] and key not in ("cmd", "id"):
                raise Refused("unsupported", "%s: no option %r" % (command, key))
        if command != "load" and self.model is None:
            raise Refused("invalid", "%s: no model is loaded" % command)
        getattr(self, command)(request)

    # ---- load, info ----

    def load(self, request):
        path = request.get("path")
        if not isinstance(path, str) or not os.path.isdir(path):
            raise Refused("missing", "cannot open model: no folder %r" % (path,))
        found = check()
        if "error" in found:
            raise Refused(found["kind"], found["error"])
        try:
            from mlx_lm import load
        except ImportError as error:
            raise Refused("missing", "cannot import mlx-lm: %s: %s" % (error, how_to_get_it()))
        self.cache, self.cached = None, []
        self.config = self.read_config(path)
        try:
            # Without trust_remote_code, transformers may ask on standard input.
            self.model, self.tokenizer = load(
                path, adapter_path=request.get("adapter"),
                tokenizer_config={"trust_remote_code": False})
        except FileNotFoundError as error:
            raise Refused("missing", "cannot open model: %s" % error)
        except (ValueError, KeyError, TypeError) as error:
            raise Refused("unsupported", "cannot open model: %s" % error)
        self.version = found["version"]
        self.lines.send(request, ok=True, **self.describe(), **self.weigh())

    def read_config(self, path):
        try:
            with open(os.path.join(path, "config.json"), encoding="utf-8") as file:
                config = json.load(file)
        except FileNotFoundError as error:
            raise Refused("missing", "cannot open model: %s" % error)
        except ValueError as error:
            raise Refused("unsupported", "cannot open model: config.json: %s" % error)
        if not isinstance(config, dict):
            raise Refused("unsupported", "cannot open model: config.json: want an object")
        if config.get("model_file") is not None:
            raise Refused(
                "unsupported", "cannot open model: config.json has model_file, code of its own, "
                "which is not run: convert the model to a kind that mlx-lm knows")
        return config

    def weigh(self):
        from mlx.utils import tree_flatten

        told = {"weight_bytes": sum(a.nbytes for _, a in tree_flatten(self.model.parameters()))}
        try:
            from mlx_lm.utils import get_total_parameters

            told["parameters"] = get_total_parameters(self.model)
        except ImportError:
            pass
        return told

    def describe(self):
        config = self.config
        quantization = config.get("quantization") or config.get("quantization_config") or {}
        dtype = get(config, "dtype", "torch_dtype")
        told = {
            "model_type": config.get("model_type") or "",
            "vocab_size": get(config, "vocab_size") or self.tokenizer.vocab_size,
            "layers": len(self.model.layers),
            "hidden_size": get(config, "hidden_size"),
            "heads": get(config, "num_attention_heads"),
            "kv_heads": get(config, "num_key_value_heads", "num_attention_heads"),
            "head_dim": get(config, "head_dim"),
            "intermediate_size": get(config, "intermediate_size"),
            "context_length": get(config, "max_position_embeddings"),
            "dtype": DTYPES.get(dtype, dtype),
            "bits": quantization.get("bits"),
            "group_size": quantization.get("group_size"),
            "mode": quantization.get("mode"),
            "version": self.version,
        }
        return {key: value for key, value in told.items() if value is not None}

    def info(self, request):
        self.lines.send(request, **self.describe())

    # ---- generate, chat ----

    def encode(self, prompt):
        if isinstance(prompt, str):
            bos = getattr(self.tokenizer, "bos_token", None)
            return list(self.tokenizer.encode(
                prompt, add_special_tokens=bos is None or not prompt.startswith(bos)))
        if not isinstance(prompt, list) or not all(isinstance(i, int) for i in prompt):
            raise Refused("invalid", "prompt: want a text or a list of ids")
        return prompt

    def generate(self, request):
        self.run(request, self.encode(request.get("prompt")))

    def chat(self, request):
        messages = request.get("messages")
        if not isinstance(messages, list) or not messages:
            raise Refused("invalid", "messages: want a list of messages")
        variables = request.get("template_variables") or {}
        ids = self.tokenizer.apply_chat_template(
            messages, tools=request.get("tools"), add_generation_prompt=True, tokenize=True,
            return_dict=False, **variables)
        self.run(request, list(ids))

    def take_cache(self, ids):
        """Caches for a prompt, and how many of its tokens they hold already."""
        from mlx_lm.models import cache as caches

        cache, cached = self.cache, self.cached
        self.cache, self.cached = None, []
        common = 0
        while common < min(len(cached), len(ids) - 1) and cached[common] == ids[common]:
            common += 1
        extra = len(cached) - common
        if cache is not None and common > 0:
            if extra == 0:
                return cache, common
            if caches.can_trim_prompt_cache(cache):
                if caches.trim_prompt_cache(cache, extra) == extra:
                    return cache, common
        return caches.make_prompt_cache(self.model), 0

    def keep_cache(self, cache, tokens):
        """For the next prompt, if the caches hold these tokens and no others."""
        sizes = {c.offset for c in cache if isinstance(getattr(c, "offset", None), int)}
        if not sizes or sizes == {len(tokens)}:
            self.cache, self.cached = cache, tokens

    def make_sampler(self, request):
        from mlx_lm.sample_utils import make_sampler

        temperature = request.get("temperature") or 0.0
        if temperature == 0.0:
            return None
        import mlx.core as mx

        mx.random.seed(request.get("seed") or 0)
        top_k = request.get("top_k") or 0
        options = {"top_p": request.get("top_p") or 0.0, "min_p": request.get("min_p") or 0.0,
                   "top_k": top_k if top_k < self.vocab() else 0}
        options = {key: value for key, value in options.items() if value}
        try:
            return make_sampler(temp=temperature, **options)
        except TypeError as error:
            raise Refused("unsupported", "this mlx-lm cannot sample so: %s" % error)

    def vocab(self):
        return self.describe()["vocab_size"]

    def run(self, request, ids):
        import mlx.core as mx
        from mlx_lm.generate import generate_step

        if not ids:
            raise Refused("invalid", "the prompt is empty")
        stops = request.get("stop_ids")
        stops = set(self.tokenizer.eos_token_ids if stops is None else stops)
        sampler = self.make_sampler(request)
        processor = Processor(request, ids, stops)
        cache, reused = self.take_cache(ids)
        options = {
            "max_tokens": request.get("max_tokens") or -1,
            "prompt_cache": cache,
            "prompt_progress_callback": lambda done, total: self.tick(request, reused, done, total),
        }
        if sampler is not None:
            options["sampler"] = sampler
        if processor.is_needed():
            options["logits_processors"] = [processor]
        if request.get("prefill_chunk"):
            options["prefill_step_size"] = request["prefill_chunk"]
        answer = Answer(self, request, processor, stops, ids, reused)
        try:
            answer.take(generate_step(mx.array(ids[reused:]), self.model, **options))
        except Cancelled:
            answer.finish = "cancelled"
        else:
            self.keep_cache(cache, ids + answer.computed)
        answer.send_done(mx)

    def tick(self, request, reused, done, total):
        if request.cancelled:
            raise Cancelled()
        self.lines.send(request, progress=reused + done, total=reused + total)

    # ---- inspect ----

    def inspect(self, request):
        """Queries and keys of each layer, as attention gets them: float32, little-endian."""
        import base64

        import mlx.core as mx
        import numpy as np
        from mlx_lm.models import cache as caches

        ids, seen = self.encode(request.get("prompt")), []
        attend = mx.fast.scaled_dot_product_attention

        def record(q, k, *args, **kwargs):
            seen.append((q, k))
            return attend(q, k, *args, **kwargs)

        mx.fast.scaled_dot_product_attention = record
        try:
            mx.eval(self.model(mx.array([ids]), cache=caches.make_prompt_cache(self.model)))
        finally:
            mx.fast.scaled_dot_product_attention = attend
        if len(seen) != len(self.model.layers):
            raise Refused("unsupported", "inspect: this model's attention cannot be seen")
        wanted = request.get("layers")
        for i in range(len(seen)) if wanted is None else wanted:
            if not 0 <= i < len(seen):
                raise Refused("invalid", "inspect: no layer %r" % (i,))
            q, k = (np.array(a[0].astype(mx.float32)) for a in seen[i])
            self.lines.send(
                request, layer=i, heads=q.shape[0], kv_heads=k.shape[0], tokens=q.shape[1],
                head_dim=q.shape[2], q=base64.b64encode(q.tobytes()).decode(),
                k=base64.b64encode(k.tobytes()).decode())
        self.lines.send(request, done=True)


class Answer:
    """The tokens of one request, as they come."""

    def __init__(self, bridge, request, processor, stops, ids, reused):
        self.bridge, self.request, self.processor, self.stops = bridge, request, processor, stops
        self.ids, self.reused = ids, reused
        self.computed = []  # tokens whose keys and values the caches hold
        self.given = 0
        self.finish = "length"
        self.begun = self.first = self.last = time.perf_counter()

    def take(self, steps):
        detokenizer = self.bridge.tokenizer.detokenizer
        detokenizer.reset()
        top = self.request.get("top_logprobs") or 0
        for token, _ in steps:
            token = int(token)
            self.last = time.perf_counter()
            if not self.computed:
                self.first = self.last
            self.computed.append(token)
            if self.request.cancelled:
                self.finish = "cancelled"
                return
            reply = {}
            if self.processor.keep_raw:
                reply["logprob"], reply["top"] = self.processor.logprobs(token, top)
            if token in self.stops:
                self.finish = "stop"
                return
            detokenizer.add_token(token)
            self.given += 1
            self.bridge.lines.send(
                self.request, token=detokenizer.last_segment, token_id=token, **reply)

    def send_done(self, mx):
        reply = {}
        for name in ("active", "peak"):
            function = getattr(mx, "get_%s_memory" % name, None)
            if function:
                reply[name + "_bytes"] = function()
        self.bridge.lines.send(
            self.request, done=True, finish=self.finish, prompt_tokens=len(self.ids),
            reused_tokens=self.reused, generated_tokens=self.given,
            prefill_seconds=self.first - self.begun, decode_seconds=self.last - self.first, **reply)


def main():
    if sys.argv[1:] == ["--check"]:
        print(json.dumps(check()), flush=True)
        return
    lines = Lines()
    lines.serve(Bridge(lines))


main()
