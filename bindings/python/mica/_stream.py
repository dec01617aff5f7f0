"""Answers while they are computed."""
from __future__ import annotations

import asyncio
import ctypes
import json
import threading
import weakref
from collections import deque
from typing import (TYPE_CHECKING, Any, AsyncIterator, Deque, Dict, Iterator, List, NamedTuple,
                    Optional, Tuple)

from . import _c
from ._library import (CANCELLED, ClosedError, bytes_at, check, error_of, interruptible, lib, name_of,
                       opened, record, text)
from ._options import Schema, message_array, parsed

if TYPE_CHECKING:
    from ._model import Session


class Token(str):
    """A piece of an answer: its text, and which token it is.

    id            of the token; -1: none, but text that was held back before the end
    prompt        whether it is a token of the prompt (echo=True)
    logprob       natural logarithm of its probability (logprobs=True), else 0
    alternatives  the likeliest tokens, as (id, logprob) (top_logprobs=n)"""

    __slots__ = ("id", "prompt", "logprob", "alternatives")
    id: int
    prompt: bool
    logprob: float
    alternatives: Tuple[Tuple[int, float], ...]


class Metrics(NamedTuple):
    """Counts and rates of an answer (mica_metrics)."""

    prompt_tokens: int
    reused_tokens: int
    truncated_tokens: int
    forgotten_tokens: int
    generated_tokens: int
    drafted_tokens: int
    accepted_tokens: int
    prefill_seconds: float
    decode_seconds: float
    prefill_rate: float
    decode_rate: float
    active_bytes: int
    peak_bytes: int
    fallback_ops: int
    total_seconds: float


_new = str.__new__


def token_of(struct: Any) -> Token:
    """A token of a mica_token."""
    token: Token = _new(Token, bytes_at(struct, "text", struct.len), "utf-8")
    token.id = struct.id
    token.prompt = struct.prompt
    token.logprob = struct.logprob
    count = struct.alternative_count
    token.alternatives = tuple((a.id, a.logprob) for a in struct.alternatives[:count]) if count \
        else ()
    return token


class _Lock:
    """What cancels a stream, and what closes it, never at once."""

    __slots__ = ("pointer", "busy", "guard")

    def __init__(self, pointer: int) -> None:
        self.pointer: Optional[int] = pointer
        self.busy = threading.Lock()   # of whoever computes, or closes
        self.guard = threading.Lock()  # of whoever cancels, or takes the pointer away

    def cancel(self) -> None:
        with self.guard:
            if self.pointer is not None:
                lib.mica_stream_cancel(self.pointer)

    def close(self) -> None:
        self.cancel()
        with self.busy:
            with self.guard:
                pointer, self.pointer = self.pointer, None
            if pointer is not None:
                lib.mica_stream_close(ctypes.byref(ctypes.c_void_p(pointer)))


class Stream:
    """An answer: an iterator of its tokens, which are computed as they are asked for.

        for token in model.chat("What is curl?"):
            print(token, end="", flush=True)

    `async for` computes in a thread. Ctrl-C, cancel() from any thread, and the end of a task end
    it within a token. It belongs to one thread at a time; another one waits. read() gives the whole
    text, message what to put into the conversation."""

    def __init__(self, session: "Session", pointer: int, messages: Any, options: Dict[str, Any],
                 owned: bool) -> None:
        self._lock = _Lock(pointer)
        self._finalizer = weakref.finalize(self, self._lock.close)
        self._session = session
        self._owned = owned  # the session was opened for this answer alone
        self._messages = messages
        self._options = options
        self._struct = _c.mica_token()
        self._at = ctypes.byref(self._struct)
        self._plain = not options.get("top_logprobs")
        self._started = False
        self._tokens: List[Token] = []
        self._next = lib.mica_stream_next
        self._finish: Optional[str] = None
        self._metrics: Optional[Metrics] = None

    # ---- tokens ----

    def __iter__(self) -> Iterator[Token]:
        return self

    def __next__(self) -> Token:
        try:
            if self._started:
                return self._step()
            self._started = True  # the prompt is computed, which may take long
            return interruptible(self._step, self.cancel)
        except StopIteration:
            if self._owned:  # nobody goes on from its caches
                self.close()
            raise
        except KeyboardInterrupt:
            self.cancel()
            raise

    def _step(self) -> Token:
        lock = self._lock
        with lock.busy:
            if self._finish is not None:
                raise StopIteration
            if lock.pointer is None:
                raise ClosedError("the answer is closed")
            if not self._next(lock.pointer, self._at):
                self._end(lock.pointer)
                raise StopIteration
            struct = self._struct
            data = struct.text
            if self._plain and len(data) == struct.len:
                token: Token = _new(Token, data, "utf-8")
                token.id = struct.id
                token.prompt = struct.prompt
                token.logprob = struct.logprob
                token.alternatives = ()
            else:
                token = token_of(struct)
            self._tokens.append(token)
            return token

    def _end(self, pointer: int) -> None:
        status = lib.mica_stream_status(pointer)
        error = error_of(status) if status and status != CANCELLED else None
        self._finish = name_of(_c.mica_finish, lib.mica_stream_finish(pointer))
        self._metrics = self._measure(pointer)
        if error is not None:
            raise error

    def __aiter__(self) -> AsyncIterator[Token]:
        return _pump(self)

    def read(self) -> str:
        """The whole text: what has come, and what is still to be computed."""
        for _ in self:
            pass
        return self.text

    # ---- what came of it ----

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(token for token in self._tokens if not token.prompt)

    @property
    def tokens(self) -> List[Token]:
        """The tokens so far."""
        return list(self._tokens)

    @property
    def finish(self) -> Optional[str]:
        """Why it ended: "stop", "length", "cancelled" or "error"; None: it has not."""
        return self._finish

    @property
    def metrics(self) -> Metrics:
        """Counts and rates so far."""
        if self._metrics is not None:
            return self._metrics
        with self._lock.busy:
            if self._lock.pointer is None:
                raise ClosedError("the answer is closed")
            return self._measure(self._lock.pointer)

    @staticmethod
    def _measure(pointer: int) -> Metrics:
        struct = _c.mica_metrics()
        struct.struct_bytes = ctypes.sizeof(struct)
        lib.mica_stream_metrics(pointer, ctypes.byref(struct))
        return record(Metrics, struct)

    @property
    def parsed(self) -> Any:
        """The whole answer by its schema: an object of pydantic's, if that is what schema=... was
        given, else what json makes of it."""
        self.read()
        return parsed(self._options.get("schema"), str(self.message["content"])
                      if self._messages is not None else self.text)

    @property
    def message(self) -> Dict[str, Any]:
        """The whole answer as a message of the assistant's, for the next prompt: its content, and
        where there are any its thoughts ("thoughts") and calls of tools ("tool_calls", as OpenAI's
        clients have them)."""
        self.read()
        return self._session.model._read_answer(  # pylint: disable=protected-access
            self._messages, self._options, self._tokens)

    # ---- ending ----

    def cancel(self) -> None:
        """Ends it within a token, or a chunk of the prompt. From any thread."""
        self._lock.cancel()

    def close(self) -> None:
        """Cancels and closes it; closing again does nothing."""
        self._lock.close()
        if self._owned:
            self._session.close()

    @property
    def closed(self) -> bool:
        return self._lock.pointer is None

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        words = self.text
        if len(words) > 60:
            words = words[:57] + "..."
        state = self._finish or (
            "closed" if self.closed else "%d tokens so far" % len(self._tokens))
        return "<mica.Stream %r, %s>" % (words, state)


# ---- in asyncio ----

_AHEAD = 64  # tokens that are computed before they are taken


async def _pump(stream: Stream) -> AsyncIterator[Token]:
    """Tokens from a thread of their own."""
    loop = asyncio.get_running_loop()
    ready, room = asyncio.Event(), threading.Semaphore(_AHEAD)
    came: Deque[Any] = deque()

    def tell(what: Any) -> None:
        came.append(what)
        if len(came) == 1 or not isinstance(what, Token):
            try:
                loop.call_soon_threadsafe(ready.set)
            except RuntimeError:  # the loop has ended
                stream.cancel()

    def compute() -> None:
        try:
            for token in stream:
                room.acquire()  # pylint: disable=consider-using-with
                tell(token)
            tell(None)
        except BaseException as error:  # pylint: disable=broad-except
            tell(error)

    thread = threading.Thread(target=compute, name="mica", daemon=True)
    thread.start()
    ended = False
    try:
        while True:
            await ready.wait()
            ready.clear()
            while came:
                what = came.popleft()
                if isinstance(what, Token):
                    room.release()
                    yield what
                    continue
                ended = True
                if what is None:
                    return
                raise what
    finally:
        if not ended:
            stream.cancel()
            room.release(_AHEAD)
        # The thread ends within a token: others of the loop go on meanwhile.
        if not loop.is_closed():
            await asyncio.shield(loop.run_in_executor(None, thread.join))


# ---- reading answers ----

def read_answer(model: int, prompt: Any, tools: Optional[str], tokens: List[Token]
                ) -> Dict[str, Any]:
    """The message that tokens are: prompt is (ids, count)."""
    struct = _c.mica_answer_options()
    struct.struct_bytes = ctypes.sizeof(struct)
    struct.tools = text(tools) if tools else None
    struct.prompt, struct.prompt_count = prompt
    answer = opened(lib.mica_answer_open, model, ctypes.byref(struct))
    try:
        one = _c.mica_token()
        for token in tokens:
            if not token.prompt:
                data = token.encode()
                one.id, one.text, one.len = token.id, data, len(data)
                check(lib.mica_answer_push_token(answer, ctypes.byref(one)))
        check(lib.mica_answer_end(answer))
        return _message_of(answer)
    finally:
        lib.mica_answer_close(ctypes.byref(ctypes.c_void_p(answer)))


def _message_of(answer: int) -> Dict[str, Any]:
    length = ctypes.c_size_t()
    said = lib.mica_answer_text(answer, ctypes.byref(length)).decode()
    thoughts = lib.mica_answer_thoughts(answer, ctypes.byref(length)).decode()
    calls = []
    for i in range(lib.mica_answer_call_count(answer)):
        call = _c.mica_tool_call()
        check(lib.mica_answer_get_call(answer, i, ctypes.byref(call)))
        calls.append({"id": call.id.decode() if call.id else None, "type": "function",
                      "function": {"name": call.name.decode(),
                                   "arguments": call.arguments.decode()}})
    message: Dict[str, Any] = {"role": "assistant", "content": said}
    if thoughts:
        message["thoughts"] = thoughts
    if calls:
        message["tool_calls"] = calls
    return message


def arguments_of(call: Dict[str, Any]) -> Tuple[str, Dict[str, Any]]:
    """The name of a call's tool, and its arguments."""
    function = call["function"]
    arguments = function["arguments"]
    return str(function["name"]), json.loads(arguments) if isinstance(arguments, str) else arguments


__all__ = ["Metrics", "Schema", "Stream", "Token", "message_array"]
