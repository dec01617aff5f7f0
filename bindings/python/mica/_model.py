"""Models, sessions, and what is asked of them."""
from __future__ import annotations

import ctypes
import json
import os
import sys
from typing import (TYPE_CHECKING, Any, Callable, Dict, Iterable, List, Mapping, NamedTuple,
                    Optional, Sequence, Tuple, Union, overload)

from . import _c, _progress
from ._array import Device, HostArray, Scope, ids_of, make_host
from ._library import (Cancel, Handle, InvalidError, MicaError, NotFoundError, Watch, bytes_at,
                       check, choice, error_of, ints, interruptible, lib, name_of, opened,
                       options, optional_text, path_of, record, text, texts_of)
from ._options import (GenerateOptions, Messages, Schema, Tool, generate_options, message_array,
                       message_list, tool_of)
from ._stream import Metrics, Stream, Token, arguments_of, read_answer, token_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._array import Array, Operand
    from ._tune import TuneResult

PathLike = Union[str, "os.PathLike[str]"]


class ModelInfo(NamedTuple):
    """What a model is (mica_model_info)."""

    path: str
    engine: str
    family: str
    architecture: str
    dtype: str
    quantization: str
    arithmetic: str
    parameters: int
    weight_bytes: int
    layers: int
    hidden_size: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate_size: int
    vocab_size: int
    context_length: int
    sliding_window: int
    sliding_layers: int
    adapter: Optional[str]
    adapter_parameters: int
    note: Optional[str]
    bits: int
    group_size: int
    active_parameters: int
    active_bytes: int
    call_format: Optional[str]
    thought_mark: Optional[str]
    thinking_variable: Optional[str]
    experts: int
    experts_per_token: int
    expert_size: int


class Completion(NamedTuple):
    """An answer of a batch. error is None, or what ended it: other answers are not affected."""

    text: str
    ids: List[int]
    logprobs: Optional[List[float]]
    finish: str
    metrics: Metrics
    error: Optional[MicaError]

    def __str__(self) -> str:
        return self.text


class Class(NamedTuple):
    """What follows a text. labels has the probability of each label's first token."""

    label: Optional[str]
    labels: Dict[str, float]
    token: int
    text: str
    probability: float
    error: Optional[MicaError]


class Score(NamedTuple):
    """How likely a text is by a model. logprobs[i] is of ids[i], by those before it."""

    ids: List[int]
    logprobs: List[float]
    total: float
    perplexity: float
    error: Optional[MicaError]


# ---- where models are ----

def default_model() -> str:
    """The model that is opened where none is named: $MICA_MODEL, $MICA_MODELS/default, else the
    small one that comes with mica."""
    named = os.environ.get("MICA_MODEL")
    if named:
        return find_model(named)
    places = [os.environ["MICA_MODELS"]] if os.environ.get("MICA_MODELS") else []
    places += [os.path.join(base, "share", "mica", "models")
               for base in dict.fromkeys([sys.prefix, *_installed()])]
    for place in places:
        folder = os.path.join(place, "default")
        if os.path.exists(os.path.join(folder, "config.json")):
            return folder
    raise NotFoundError("there is no default model: name a folder, or set MICA_MODEL to one")


def _installed() -> List[str]:
    """Where a wheel's data is: of a user's, or beside the package."""
    import site
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    # PREFIX/lib/pythonX.Y/site-packages, or the folder of pip install --target
    return [site.getuserbase() or sys.prefix, os.path.dirname(os.path.dirname(os.path.dirname(here))),
            here]


class FoundModel(NamedTuple):
    """A model of this machine."""

    name: str
    path: str
    family: Optional[str]
    architecture: str
    quantization: str
    weight_bytes: int


def discover(folder: Optional[PathLike] = None) -> List[FoundModel]:
    """The models of a folder, or of the Hugging Face cache."""
    found = ctypes.POINTER(_c.mica_model_list)()
    check(lib.mica_discover(None if folder is None else path_of(folder), ctypes.byref(found)))
    try:
        return [record(FoundModel, found.contents.models[i].contents)
                for i in range(found.contents.count)]
    finally:
        lib.mica_model_list_free(ctypes.byref(found))


def find_model(name: PathLike) -> str:
    """The folder of a model: a folder, a GGUF file, or a name of discover(). Nothing is downloaded:
    pull() does that."""
    path = os.path.expanduser(os.fspath(name))
    if os.path.isfile(path):
        return _taken(lib.mica_gguf_folder, path_of(path), None)
    if os.path.isdir(path) or os.sep in path and path.count("/") != 1:
        return path
    for found in discover():
        if found.name == path:
            return found.path
    if "/" in path and not path.startswith((".", "/")):
        raise NotFoundError("there is no folder %s, and no model of that name in the cache: "
                            "mica.pull(%r) downloads one" % (path, path))
    return path


def _taken(function: Any, *arguments: Any) -> str:
    """A text that a function gives, to be freed."""
    given = ctypes.c_void_p()

    def work() -> None:
        check(function(*arguments, ctypes.byref(given)))

    interruptible(work, lambda: None)
    try:
        return os.fsdecode(ctypes.string_at(given.value or 0))
    finally:
        lib.mica_free(given)


def pull(name: str, *, revision: Optional[str] = None, cache: Optional[PathLike] = None,
         token: Optional[str] = None, offline: bool = False, progress: _progress.Progress = None,
         cancel: Optional[Cancel] = None) -> str:
    """Downloads a model from Hugging Face, unless the cache has it, and gives its folder."""
    watch, given = Watch(cancel), ctypes.c_void_p()
    bar = _progress.bar_of(progress, name)
    struct = options(_c.mica_pull_options, {
        "revision": revision, "token": token, "offline": offline,
        "cache": None if cache is None else path_of(cache), "progress": watch.progress(bar),
        "cancel": watch.pointer()})
    try:
        watch.call(lib.mica_pull, text(name), ctypes.byref(struct), ctypes.byref(given))
        folder = os.fsdecode(ctypes.string_at(given.value or 0))
    finally:
        _progress.end(bar)
        lib.mica_free(given)
    return find_model(folder)


# ---- models ----

class Model(Handle):
    """A language model: weights and a tokenizer, which any number of threads may use at once.

        with mica.Model("~/models/qwen3-0.6b-4bit") as model:
            for token in model.chat("What is curl?"):
                print(token, end="", flush=True)

    path            a folder, a GGUF file, or a name that `mica list` shows; None: the default
    context_length  tokens in a session's caches; texts may be longer then (mica_model_options)
    device          "cpu", "cuda:0", "mlx", or an open Device
    engine          "native" or "mlx_lm"; None: the first that takes the folder
    threads         of its own device; 0: one per usable core
    adapter         the folder of a LoRA adapter
    arithmetic      of matmuls: "fast" or "exact"
    cache           of keys and values: "f32", "f16", "bf16" or "int8"
    progress        of loading: None, a bar where somebody looks; False, none; a function of bytes
                    that are read, and of how many there are"""

    _kind = "model"

    def __init__(self, path: Optional[PathLike] = None, *, context_length: int = 0,
                 device: Union[None, str, Device] = None, engine: Optional[str] = None,
                 threads: int = 0, adapter: Optional[PathLike] = None, arithmetic: str = "default",
                 cache: str = "default", no_mmap: bool = False, prefetch: bool = False,
                 mlock: bool = False, accelerator_layers: int = 0,
                 chat_template: Optional[str] = None, progress: _progress.Progress = None,
                 cancel: Optional[Cancel] = None) -> None:
        folder = default_model() if path is None else find_model(path)
        watch, bar = Watch(cancel), _progress.bar_of(progress, "loading")
        struct = options(_c.mica_model_options, {
            "engine": engine, "threads": threads, "context_length": context_length,
            "device_name": device if isinstance(device, str) else None,
            "adapter": None if adapter is None else path_of(adapter),
            "arithmetic": choice(_c.mica_arithmetic, arithmetic, "arithmetic"),
            "cache": choice(_c.mica_cache_type, cache, "type of caches"), "no_mmap": no_mmap,
            "prefetch": prefetch, "mlock": mlock, "accelerator_layers": accelerator_layers,
            "chat_template": chat_template, "progress": watch.progress(bar),
            "cancel": watch.pointer()})
        pointer = ctypes.c_void_p()
        arguments = (path_of(folder), ctypes.byref(struct), ctypes.byref(pointer))
        try:
            if isinstance(device, Device):
                with device._box as struct.device:
                    watch.call(lib.mica_model_open, *arguments)
            else:
                watch.call(lib.mica_model_open, *arguments)
        except BaseException:
            lib.mica_model_close(ctypes.byref(pointer))
            raise
        finally:
            _progress.end(bar)
        super().__init__(pointer.value, lib.mica_model_close)
        with self._box as model:
            info = _c.mica_model_info()
            info.struct_bytes = ctypes.sizeof(info)
            lib.mica_model_get_info(model, ctypes.byref(info))
            self._info = record(ModelInfo, info,
                                arithmetic=name_of(_c.mica_arithmetic, info.arithmetic))

    @property
    def info(self) -> ModelInfo:
        """What it is."""
        return self._info

    def __repr__(self) -> str:
        info = self._info
        return "<mica.Model %r: %s, %s, %s parameters, %s%s%s>" % (
            os.path.basename(os.path.normpath(info.path)), info.family,
            info.dtype if info.quantization == "none" else info.quantization,
            short(info.parameters), "context of %d" % info.context_length,
            ", adapter %r" % info.adapter if info.adapter else "", ", closed" if self.closed else "")

    # ---- answers ----

    def session(self, *, prefill_chunk: int = 0, draft_model: Optional["Model"] = None) -> "Session":
        """Caches and history: answers that begin alike are computed once."""
        return Session(self, prefill_chunk=prefill_chunk, draft_model=draft_model)

    def chat(self, messages: Messages, *, session: Optional["Session"] = None,
             **options: "Unpack[GenerateOptions]") -> Stream:
        """Answers a conversation: a text, or messages such as {"role": "user", "content": "Hi"}.

        Nothing is computed before the first token is asked for. With a session, what the prompt has
        in common with the one before is not computed again.

        Of the options (mica_generate_options), schema takes a JSON schema or a class of pydantic's,
        choice a list of texts, tools functions or their descriptions, stop texts or ids."""
        return self._answer(session, messages, True, dict(options))

    def generate(self, prompt: Union[str, Sequence[int]], *, session: Optional["Session"] = None,
                 **options: "Unpack[GenerateOptions]") -> Stream:
        """Continues a text, or token ids, without a chat format. Options as of chat()."""
        return self._answer(session, prompt, False, dict(options))

    def _answer(self, session: Optional["Session"], prompt: Any, chat: bool,
                values: Dict[str, Any]) -> Stream:
        own = session is None
        one = Session(self) if session is None else session
        if one.model is not self:
            raise InvalidError("the session is of another model")
        try:
            return one._open(prompt, chat, values, own)
        except BaseException:
            if own:
                one.close()
            raise

    def act(self, messages: Messages, tools: Sequence[Callable[..., Any]], *, rounds: int = 8,
            session: Optional["Session"] = None, **options: Any) -> List[Dict[str, Any]]:
        """A conversation in which the model calls functions: each is called with the arguments that
        the model gives, and the model goes on with what it returns, until it calls none, `rounds`
        times at most. What a function raises is told to the model.

        returns  the messages that came, the answer last."""
        functions = {tool_of(tool)["function"]["name"]: tool for tool in tools}
        talk = [dict(m) for m in message_list(messages)]
        came: List[Dict[str, Any]] = []
        own = Session(self) if session is None else session
        try:
            for _ in range(rounds):
                with self.chat(talk + came, session=own, tools=list(tools), **options) as stream:
                    came.append(stream.message)
                if not came[-1].get("tool_calls"):
                    break
                came += [_result_of(call, functions) for call in came[-1]["tool_calls"]]
        finally:
            if session is None:
                own.close()
        return came

    def batch(self, prompts: Iterable[Any], *, parallel: int = 0,
              token: Optional[Callable[[int, Token], Any]] = None,
              done: Optional[Callable[[int], Any]] = None, progress: _progress.Progress = None,
              cancel: Optional[Cancel] = None,
              **options: "Unpack[GenerateOptions]") -> List[Completion]:
        """Answers many prompts, `parallel` of them (8) together: the weights are read once for all.

        prompts  texts, which are continued; lists of messages, which are answered; or mappings with
                 "prompt" or "messages", and options of their own
        token    called with the number of the prompt and each token; False ends that answer
        done     called with the number of a prompt that is done"""
        items = [_item(prompt, dict(options)) for prompt in prompts]
        return _Batch(self, items, token, done, progress, Watch(cancel)).run(parallel)

    def render(self, messages: Messages, **options: "Unpack[GenerateOptions]") -> str:
        """The prompt of a conversation, as chat() gives it to the model."""
        raw, length = ctypes.c_void_p(), ctypes.c_size_t()
        array, count = message_array(messages)
        struct = generate_options(options)
        with self._box as model:
            check(lib.mica_model_render(model, array, count, ctypes.byref(struct), ctypes.byref(raw),
                                        ctypes.byref(length), None, None))
        try:
            return ctypes.string_at(raw.value or 0, length.value).decode()
        finally:
            lib.mica_free(raw)

    def _read_answer(self, messages: Any, values: Mapping[str, Any],
                     tokens: List[Token]) -> Dict[str, Any]:
        tools = values.get("tools")
        said = json.dumps([tool_of(tool) for tool in tools]) if tools else None
        ids, count = ctypes.POINTER(ctypes.c_int32)(), ctypes.c_size_t()
        with self._box as model:
            try:
                if messages is not None:
                    array, n = message_array(messages)
                    struct = generate_options(values)
                    check(lib.mica_model_render(model, array, n, ctypes.byref(struct), None, None,
                                                ctypes.byref(ids), ctypes.byref(count)))
                return read_answer(model, (ids, count.value), said, tokens)
            finally:
                lib.mica_free(ctypes.cast(ids, ctypes.c_void_p))

    # ---- tasks ----

    def embed(self, texts: Union[str, Iterable[str]], *, pooling: str = "default",
              normalise: bool = False, prompt_name: Optional[str] = None, dimensions: int = 0,
              progress: _progress.Progress = None, cancel: Optional[Cancel] = None) -> HostArray:
        """Embeddings: [n] f32 of a text, [texts, n] of many. numpy.asarray and torch.from_dlpack
        take it without a copy.

        pooling      "mean" or "last"; "default": as an embedder's files say
        prompt_name  of an embedder's prompts, such as "query"
        dimensions   only so many of the first numbers; 0: all"""
        one = isinstance(texts, str)
        said = [text(t) for t in ([texts] if isinstance(texts, str) else texts)]
        results = ctypes.POINTER(_c.mica_embed_results)()
        watch, bar = Watch(cancel), _progress.bar_of(progress, "embedding")
        struct = options(_c.mica_embed_options, {
            "pooling": choice(_c.mica_pooling, pooling, "pooling"), "normalise": normalise,
            "prompt_name": prompt_name, "dimensions": dimensions, "progress": watch.progress(bar),
            "cancel": watch.pointer()})
        try:
            self._call(watch, lib.mica_embed_texts, texts_of(said), len(said), ctypes.byref(struct),
                       ctypes.byref(results))
            return self._vectors(results.contents, one)
        finally:
            _progress.end(bar)
            lib.mica_embed_texts_free(ctypes.byref(results))

    @staticmethod
    def _vectors(results: Any, one: bool) -> HostArray:
        width = results.width
        memory = (ctypes.c_float * (results.count * width))()
        for i in range(results.count):
            row = results.rows[i]
            if row.status:
                raise error_of(row.status, "text %d: %s" % (i, row.error.decode()))
            ctypes.memmove(ctypes.byref(memory, 4 * i * width), row.vector, 4 * width)
        return make_host(memory, "f32", (width,) if one else (results.count, width))

    def rerank(self, query: str, documents: Iterable[str], *, logits: bool = False,
               instruction: Optional[str] = None, cancel: Optional[Cancel] = None) -> List[float]:
        """How relevant documents are to a query: larger is better."""
        said = [text(document) for document in documents]
        scores, watch = (ctypes.c_float * max(1, len(said)))(), Watch(cancel)
        struct = options(_c.mica_rerank_options, {
            "logits": logits, "instruction": instruction, "cancel": watch.pointer()})
        self._call(watch, lib.mica_rerank, text(query), texts_of(said), len(said),
                   ctypes.byref(struct), scores)
        return list(scores[:len(said)])

    @overload
    def score(self, texts: str, *,  # type: ignore[overload-overlap]
              progress: _progress.Progress = None,
              cancel: Optional[Cancel] = None) -> Score: ...
    @overload
    def score(self, texts: Iterable[str], *, progress: _progress.Progress = None,
              cancel: Optional[Cancel] = None) -> List[Score]: ...

    def score(self, texts: Union[str, Iterable[str]], *, progress: _progress.Progress = None,
              cancel: Optional[Cancel] = None) -> Union[Score, List[Score]]:
        """The log-probability of a text, or of each of many, and its perplexity."""
        said = [text(t) for t in ([texts] if isinstance(texts, str) else texts)]
        results = ctypes.POINTER(_c.mica_score_results)()
        watch, bar = Watch(cancel), _progress.bar_of(progress, "scoring")
        struct = options(_c.mica_task_options, {
            "progress": watch.progress(bar), "cancel": watch.pointer()})
        try:
            self._call(watch, lib.mica_score_texts, texts_of(said), len(said), ctypes.byref(struct),
                       ctypes.byref(results))
            rows = [_score(results.contents.rows[i]) for i in range(len(said))]
        finally:
            _progress.end(bar)
            lib.mica_score_texts_free(ctypes.byref(results))
        if not isinstance(texts, str):
            return rows
        if rows[0].error:
            raise rows[0].error
        return rows[0]

    def classify(self, texts: Union[str, Iterable[str]], labels: Sequence[str] = (), *,
                 as_chat: bool = False, template: str = "{}", temperature: float = 0.0,
                 top_k: int = 0, seed: int = 0, progress: _progress.Progress = None,
                 cancel: Optional[Cancel] = None) -> List[Class]:
        """The likeliest label of each text: by the first token of each label, one prefill a text.

        labels    tokenised alone: write the space before a word if the model's tokens include it
        template  what a prompt is made of: {} is the text"""
        values = [texts] if isinstance(texts, str) else list(texts)
        said = [text(template.replace("{}", value)) for value in values]
        results = ctypes.POINTER(_c.mica_classify_results)()
        watch, bar = Watch(cancel), _progress.bar_of(progress, "classifying")
        struct = options(_c.mica_classify_options, {
            "as_chat": as_chat, "temperature": temperature, "top_k": top_k, "seed": seed,
            "progress": watch.progress(bar), "cancel": watch.pointer()})
        struct.labels = texts_of([text(label) for label in labels])
        struct.label_count = len(labels)
        try:
            self._call(watch, lib.mica_classify, texts_of(said), len(said), ctypes.byref(struct),
                       ctypes.byref(results))
            return [_class(results.contents.rows[i], labels) for i in range(len(said))]
        finally:
            _progress.end(bar)
            lib.mica_classify_free(ctypes.byref(results))

    def _call(self, watch: Watch, function: Any, *arguments: Any) -> None:
        with self._box as model:
            watch.call(function, model, *arguments)

    # ---- tokens ----

    def encode(self, words: str, *, special: bool = True) -> List[int]:
        """Text to token ids; special: with those that the tokenizer puts around a text."""
        ids, count, data = ctypes.c_void_p(), ctypes.c_size_t(), words.encode()
        with self._box as model:
            check(lib.mica_tokenizer_encode(
                lib.mica_model_tokenizer(model), data, len(data), special,
                ctypes.cast(ctypes.byref(ids), ctypes.POINTER(ctypes.POINTER(ctypes.c_int32))),
                ctypes.byref(count)))
        try:
            return list((ctypes.c_int32 * count.value).from_address(ids.value)) if ids.value else []
        finally:
            lib.mica_free(ids)

    def decode(self, ids: Sequence[int], *, skip_special: bool = False) -> str:
        """Token ids to text."""
        raw, length = ctypes.c_void_p(), ctypes.c_size_t()
        with self._box as model:
            check(lib.mica_tokenizer_decode(
                lib.mica_model_tokenizer(model), ints(ids), len(ids), skip_special,
                ctypes.byref(raw), ctypes.byref(length)))
        try:
            return ctypes.string_at(raw.value, length.value).decode() if raw.value else ""
        finally:
            lib.mica_free(raw)

    # ---- as an op ----

    def forward(self, ids: Any, *, hidden: bool = False) -> "Array":
        """Records the model's pass over token ids [rows, tokens], or [tokens] of one row: logits
        [rows, tokens, vocab_size], or with hidden what the head reads [rows, tokens, hidden_size].
        ids may be embeddings [rows, tokens, hidden_size] in the place of tokens."""
        from ._array import record_pass
        return record_pass(self, "mica_model_forward", ids, hidden)

    def embeddings(self, ids: Any) -> "Array":
        """Records the embeddings of token ids, for forward(): [rows, tokens, hidden_size]."""
        from ._array import record_pass
        return record_pass(self, "mica_model_embed", ids, None)

    # ---- training ----

    def tune(self, data: Any, **options: Any) -> "TuneResult":
        """Trains a LoRA adapter of this model: mica.tune() with its folder. The model itself does
        not change: open another with adapter=..."""
        from ._tune import tune
        return tune(self._info.path, data, **options)


class Session(Handle):
    """The caches and the history of a conversation: Model.session() opens one, load() a saved one.
    It has one answer at a time."""

    _kind = "session"

    def __init__(self, model: Model, *, prefill_chunk: int = 0, draft_model: Optional[Model] = None,
                 path: Optional[PathLike] = None, _pointer: Optional[int] = None) -> None:
        self.model = model
        if _pointer is None:
            struct = options(_c.mica_session_options, {"prefill_chunk": prefill_chunk})
            with model._box as pointer:
                arguments = (pointer,) if path is None else (pointer, path_of(path))
                function = lib.mica_session_open if path is None else lib.mica_session_load
                if draft_model is None:
                    _pointer = opened(function, *arguments, ctypes.byref(struct))
                else:
                    with draft_model._box as struct.draft_model:
                        _pointer = opened(function, *arguments, ctypes.byref(struct))
        super().__init__(_pointer, lib.mica_session_close)

    @classmethod
    def load(cls, model: Model, path: PathLike, **options: Any) -> "Session":
        """A session that was saved: of the same model, adapter and context_length."""
        return cls(model, path=path, **options)

    def chat(self, messages: Messages, **options: "Unpack[GenerateOptions]") -> Stream:
        """Model.chat() in this session."""
        return self.model.chat(messages, session=self, **options)

    def generate(self, prompt: Union[str, Sequence[int]],
                 **options: "Unpack[GenerateOptions]") -> Stream:
        """Model.generate() in this session."""
        return self.model.generate(prompt, session=self, **options)

    def _open(self, prompt: Any, chat: bool, values: Dict[str, Any], own: bool) -> Stream:
        struct = generate_options(values)
        at = ctypes.byref(struct)
        with self._box as session:
            if chat:
                array, count = message_array(prompt)
                pointer = opened(lib.mica_chat, session, array, count, at)
            elif isinstance(prompt, str):
                data = prompt.encode()
                pointer = opened(lib.mica_generate, session, data, len(data), at)
            else:
                pointer = opened(lib.mica_generate_ids, session, ints(prompt), len(prompt),
                                 at)
        kept = [dict(m) for m in message_list(prompt)] if chat else None
        return Stream(self, pointer, kept, values, own)

    def fork(self) -> "Session":
        """Another one with the same history and caches: both go on from there."""
        with self._box as session:
            return Session(self.model, _pointer=opened(lib.mica_session_fork, session))

    def reset(self) -> None:
        """Forgets the history and frees the caches."""
        with self._box as session:
            lib.mica_session_reset(session)

    def save(self, path: PathLike) -> None:
        """Saves history and caches to a file, whole or not at all."""
        with self._box as session:
            check(lib.mica_session_save(session, path_of(path)))

    def __len__(self) -> int:
        """The tokens that it has computed."""
        with self._box as session:
            return int(lib.mica_session_count(session))

    def cut(self, count: int) -> int:
        """Goes back to the first `count` tokens, or as far below as its states can. Gives how many
        are left."""
        left = ctypes.c_int64()
        with self._box as session:
            check(lib.mica_session_cut(session, count, ctypes.byref(left)))
        return left.value

    def feed(self, ids: Sequence[int], *, hidden: bool = False) -> "Array":
        """Computes tokens behind those that it has, for one's own loops: logits [1, n, vocab]."""
        from ._array import feed
        return feed(self, ids, hidden)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return "<mica.Session of %r, %s>" % (
            os.path.basename(os.path.normpath(self.model.info.path)),
            "closed" if self.closed else "%d tokens" % len(self))


# ---- rows ----

def short(n: int) -> str:
    """A number in three digits: 1.5B."""
    for unit, size in (("B", 10**9), ("M", 10**6), ("K", 10**3)):
        if n >= size:
            return "%.3g%s" % (n / size, unit)
    return str(n)


def _error(row: Any) -> Optional[MicaError]:
    return error_of(row.status, row.error.decode()) if row.status else None


def _score(row: Any) -> Score:
    if row.status:
        return Score([], [], 0.0, float("nan"), _error(row))
    score = row.score.contents
    return Score(list(score.ids[:score.count]), list(score.logprobs[:score.count]), score.total,
                 score.perplexity, None)


def _class(row: Any, labels: Sequence[str]) -> Class:
    if row.status:
        return Class(None, {}, -1, "", 0.0, _error(row))
    shares = dict(zip(labels, row.labels[:len(labels)])) if labels else {}
    return Class(labels[row.label] if labels else None, shares, row.token,
                 row.text.decode("utf-8", "replace"), row.probability, None)


def _result_of(call: Dict[str, Any], functions: Mapping[str, Callable[..., Any]]) -> Dict[str, Any]:
    try:
        name, arguments = arguments_of(call)
        result = functions[name](**arguments)
        said = result if isinstance(result, str) else json.dumps(result)
    except Exception as error:  # pylint: disable=broad-except
        name, said = str(call["function"]["name"]), "error: %s" % error
    return {"role": "tool", "name": name, "content": said, "tool_call_id": call.get("id") or None}


def _item(prompt: Any, values: Dict[str, Any]) -> Tuple[Any, bool, Dict[str, Any]]:
    """(prompt, whether it is a conversation, options)"""
    if isinstance(prompt, str):
        return prompt, False, values
    if isinstance(prompt, Mapping) and ("prompt" in prompt or "messages" in prompt):
        rest = {**values, **prompt}
        if "messages" in rest:
            return rest.pop("messages"), True, rest
        return rest.pop("prompt"), False, rest
    return prompt, True, values


class _Batch:
    """A call of mica_batch_generate."""

    def __init__(self, model: Model, items: List[Tuple[Any, bool, Dict[str, Any]]], token: Any,
                 done: Any, progress: _progress.Progress, watch: Watch) -> None:
        self.model, self.items, self.watch = model, items, watch
        self.token, self.done = token, done
        self.bar = _progress.bar_of(progress, "answering")
        self.ended = 0

    def _token(self, _: Any, row: int, token: Any) -> bool:
        return self.token(row, token_of(token.contents)) is not False

    def _done(self, _: Any, row: int, __: Any) -> None:
        self.ended += 1
        if self.bar is not None:
            self.bar(self.ended, len(self.items))
        if self.done is not None:
            self.done(row)

    def run(self, parallel: int) -> List[Completion]:
        if not self.items:
            return []
        array = (_c.mica_batch_item * len(self.items))()
        kept = [_fill_item(*row) for row in zip(array, self.items)]
        struct = options(_c.mica_batch_options, {"parallel": parallel})
        guard = self.watch.guard
        if self.token is not None:
            struct.token = guard(_c.mica_batch_options_token_fn, self._token, False)
        if self.done is not None or self.bar is not None:
            struct.done = guard(_c.mica_batch_options_done_fn, self._done)
        struct.cancel = self.watch.pointer()
        results = ctypes.POINTER(_c.mica_batch_results)()
        try:
            self.model._call(self.watch, lib.mica_batch_generate, array, len(self.items),
                             ctypes.byref(struct), ctypes.byref(results))
            return [_completion(results.contents.rows[i]) for i in range(len(kept))]
        finally:
            _progress.end(self.bar)
            lib.mica_batch_free(ctypes.byref(results))


def _fill_item(item: Any, row: Tuple[Any, bool, Dict[str, Any]]) -> Any:
    prompt, chat, values = row
    made = generate_options(values)
    item.options = ctypes.pointer(made)
    if chat:
        array, count = message_array(prompt)
        item.messages, item.message_count = array, count
    else:
        item.prompt = optional_text(prompt)
    return made


def _completion(row: Any) -> Completion:
    n = row.count
    return Completion(
        bytes_at(row, "text", row.len).decode(), list(row.ids[:n]),
        list(row.logprobs[:n]) if row.logprobs else None, name_of(_c.mica_finish, row.finish),
        record(Metrics, row.metrics.contents), _error(row))


__all__ = ["Class", "Completion", "FoundModel", "Model", "ModelInfo", "Schema", "Score", "Session",
           "Tool", "default_model", "discover", "find_model", "ids_of", "pull", "Scope"]
