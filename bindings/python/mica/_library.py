"""The library, errors, handles that are closed once, and calls that Ctrl-C ends."""
from __future__ import annotations

import array
import ctypes
import os
import sys
import threading
import weakref
from typing import Any, Callable, Dict, Iterable, List, Optional, Type, TypeVar

from . import _c

T = TypeVar("T")


# ---- the library ----

def _find() -> str:
    """$MICA_LIBRARY, what is beside this file, or what the system finds."""
    name = "libmica.0.dylib" if sys.platform == "darwin" else "libmica.so.0"
    beside = os.path.join(os.path.dirname(os.path.abspath(__file__)), name)
    return os.environ.get("MICA_LIBRARY") or (beside if os.path.exists(beside) else name)


class _Library:
    """libmica: functions get their types when they are first used. CDLL, unlike PyDLL, lets
    Python's other threads run during a call."""

    def __init__(self) -> None:
        self._path = _find()
        self._cdll = ctypes.CDLL(self._path)

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._cdll, name)
        function.restype, *function.argtypes = _c.FUNCTIONS[name]
        setattr(self, name, function)
        return function


lib = _Library()


# ---- errors ----

class MicaError(Exception):
    """A call that failed. status is the name of its status, such as "MICA_ENOENT"."""

    status = ""


class InvalidError(MicaError, ValueError):
    """An argument is wrong."""


class ShapeError(MicaError, ValueError):
    """Shapes do not fit each other or the operation."""


class DtypeError(MicaError, TypeError):
    """The operation does not take this dtype."""


class OutOfMemoryError(MicaError, MemoryError):
    """No memory, or the memory limit is reached."""


class NotFoundError(MicaError, FileNotFoundError):
    """A file, folder, tensor or key does not exist."""


class FileError(MicaError, OSError):
    """The system could not open, read, map or write."""


class FormatError(MicaError, ValueError):
    """A file's content is malformed."""


class UnsupportedError(MicaError, NotImplementedError):
    """Well formed, but of a kind that mica does not know."""


class ContextError(MicaError, ValueError):
    """The prompt does not fit the context."""


class CancelledError(MicaError):
    """Stopped by the caller."""


class DeviceError(MicaError, RuntimeError):
    """A device failed or does not exist."""


class InternalError(MicaError, RuntimeError):
    """A broken invariant of mica's own: please report it."""


class BusyError(MicaError, RuntimeError):
    """Too much is under way already: try again later."""


class ClosedError(MicaError, ValueError):
    """What is used was closed before."""

    status = "MICA_EINVAL"


_ERRORS: Dict[str, Type[MicaError]] = {
    "einval": InvalidError, "eshape": ShapeError, "edtype": DtypeError,
    "enomem": OutOfMemoryError, "enoent": NotFoundError, "eio": FileError,
    "eformat": FormatError, "eunsupported": UnsupportedError, "econtext": ContextError,
    "ecancelled": CancelledError, "edevice": DeviceError, "einternal": InternalError,
    "ebusy": BusyError,
}
_KINDS: Dict[int, Type[MicaError]] = {
    number: _ERRORS[name] for name, number in _c.mica_status.items() if name in _ERRORS}
CANCELLED = _c.mica_status["ecancelled"]


def error_of(status: int, text: Optional[str] = None) -> MicaError:
    """What a status is raised as; its text, unless given, is the calling thread's last one."""
    if text is None:
        text = lib.mica_last_error().decode("utf-8", "replace")
    error = _KINDS.get(status, MicaError)(text)
    error.status = lib.mica_status_name(status).decode()
    return error


def check(status: int) -> None:
    """Raises what a call returned. To be called in the thread of the call, which has the text."""
    if status:
        raise error_of(status)


# ---- arguments ----

def text(value: str) -> bytes:
    """A text that ends where its NUL is."""
    data = value.encode()
    if b"\0" in data:
        raise InvalidError("a text has a NUL character: %r" % value[:40])
    return data


def optional_text(value: Optional[str]) -> Optional[bytes]:
    return None if value is None else text(value)


def path_of(value: "os.PathLike[str] | str") -> bytes:
    data = os.fsencode(value)
    if b"\0" in data:
        raise InvalidError("a path has a NUL character: %r" % value)
    return data


def texts_of(values: "list[bytes]") -> Any:
    return (ctypes.c_char_p * max(1, len(values)))(*values)


def ints(values: Iterable[int], kind: Any = ctypes.c_int32) -> Any:
    """Integers for C. ctypes alone would take the lower bits of larger ones."""
    try:
        numbers = array.array("i" if kind is ctypes.c_int32 else "q", list(values))
    except OverflowError:
        raise InvalidError("an integer has more than %d bits" % (8 * ctypes.sizeof(kind))) from None
    return (kind * max(1, len(numbers)))(*numbers)


def choice(values: Dict[str, int], name: str, what: str) -> int:
    """The number of an enum's value by its name."""
    if name not in values:
        raise InvalidError("there is no %s %r: it may be %s" % (what, name, ", ".join(values)))
    return values[name]


def name_of(values: Dict[str, int], number: int) -> str:
    return next((name for name, value in values.items() if value == number), "?")


def options(kind: Type[T], values: Dict[str, Any]) -> T:
    """A struct of options, of texts, numbers and what else its members take. None is left out."""
    struct: Any = kind()
    struct.struct_bytes = ctypes.sizeof(kind)  # type: ignore[arg-type]
    for name, value in values.items():
        if value is not None:
            try:
                setattr(struct, name, text(value) if isinstance(value, str) else value)
            except TypeError as error:
                raise TypeError("%s: %s" % (name, error)) from None
            kept = getattr(struct, name)
            if isinstance(value, int) and isinstance(kept, int) and kept != value:
                raise InvalidError("%s: %d is out of range" % (name, value))
    return struct  # type: ignore[no-any-return]


def record(kind: Type[T], struct: Any, **others: Any) -> T:
    """A named tuple of a struct's members, texts as str."""
    values = {}
    for name in kind._fields:  # type: ignore[attr-defined]
        value = others[name] if name in others else getattr(struct, name)
        values[name] = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    return kind(**values)


def bytes_at(struct: Any, name: str, length: int) -> bytes:
    """A text of a struct that may have NULs."""
    data: Optional[bytes] = getattr(struct, name)
    if data is not None and len(data) == length:
        return data
    at = ctypes.c_void_p.from_buffer(struct, getattr(type(struct), name).offset)
    return ctypes.string_at(at.value, length) if at.value else b""


# ---- handles ----

class Box:
    """A handle of C: closed once, when nobody is in a call with it any more.

    with box as pointer:    raises ClosedError where it was closed"""

    __slots__ = ("_pointer", "_users", "_closing", "_lock", "_close", "_name", "__weakref__")

    def __init__(self, pointer: int, close: Any, name: str) -> None:
        self._pointer: Optional[int] = pointer
        self._users = 0
        self._closing = False
        # Recursive: within it a finaliser may run, of what holds this very handle.
        self._lock = threading.RLock()
        self._close = close
        self._name = name

    def __enter__(self) -> int:
        with self._lock:
            pointer = self._pointer
            if pointer is None or self._closing:
                raise ClosedError("the %s is closed" % self._name)
            self._users += 1
            return pointer

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._users -= 1
            pointer = self._take()
        self._end(pointer)

    def close(self) -> None:
        with self._lock:
            self._closing = True
            pointer = self._take()
        self._end(pointer)

    def _take(self) -> Optional[int]:
        if not self._closing or self._users:
            return None
        pointer, self._pointer = self._pointer, None
        return pointer

    def _end(self, pointer: Optional[int]) -> None:
        if pointer is not None:
            self._close(ctypes.byref(ctypes.c_void_p(pointer)))

    @property
    def closed(self) -> bool:
        return self._closing

    @property
    def pointer(self) -> Optional[int]:
        """For whoever is within `with`: also where it is to be closed behind that."""
        return self._pointer


class Handle:
    """What is opened: closed by close(), at the end of a `with`, or with its last reference."""

    _kind = ""

    def __init__(self, pointer: Optional[int], close: Any) -> None:
        if not pointer:
            raise InternalError("the library gave no %s" % self._kind)
        self._box = Box(pointer, close, self._kind)
        self._finalizer = weakref.finalize(self, self._box.close)

    def close(self) -> None:
        """Closes it; closing again does nothing. Calls that are under way end before."""
        self._box.close()

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._box.closed

    def __enter__(self: T) -> T:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def opened(function: Any, *arguments: Any) -> Any:
    """The pointer that function(*arguments, &pointer) opens."""
    pointer = ctypes.c_void_p()
    check(function(*arguments, ctypes.byref(pointer)))
    return pointer.value


class Cancel(Handle):
    """A flag by which one thread ends the work of another: set() may be called from anywhere. Any
    number of calls may watch one flag."""

    _kind = "flag"

    def __init__(self) -> None:
        super().__init__(opened(lib.mica_cancel_open), lib.mica_cancel_close)
        self._set = False

    def set(self) -> None:
        """Calls that watch it end within a token, or a chunk of a prompt. It stays set."""
        self._set = True
        try:
            with self._box as pointer:
                lib.mica_cancel_set(pointer)
        except ClosedError:
            pass

    def __repr__(self) -> str:
        return "<mica.Cancel%s>" % (" set" if self._set else "")


# ---- calls that Ctrl-C ends ----

def interruptible(work: Callable[[], T], cancel: Callable[[], None]) -> T:
    """What work() gives. Python notices Ctrl-C between calls of its main thread alone, so there the
    work is done in another thread, and cancelled at KeyboardInterrupt, which is raised when it has
    ended."""
    if threading.current_thread() is not threading.main_thread():
        return work()
    done = threading.Event()
    result: List[T] = []
    failed: List[BaseException] = []

    def run() -> None:
        try:
            result.append(work())
        except BaseException as error:  # pylint: disable=broad-except
            failed.append(error)
        finally:
            done.set()

    thread = threading.Thread(target=run, name="mica", daemon=True)
    try:
        thread.start()
        done.wait()
    except BaseException:
        while thread.ident is not None and not done.is_set():
            try:  # what the work writes to is the caller's: it ends first
                cancel()
                done.wait()
            except BaseException:  # pylint: disable=broad-except
                pass
        raise
    if failed:
        try:
            raise failed[0]
        finally:
            failed.clear()
    return result[0]


class Watch:
    """What of the caller is called during a call: its first exception ends the call, and is raised
    behind it."""

    def __init__(self, cancel: Optional[Cancel] = None) -> None:
        self.cancel = cancel if cancel is not None else Cancel()
        self.failed: List[BaseException] = []

    def guard(self, kind: Any, function: Callable[..., Any], otherwise: Any = None) -> Any:
        """A function for C, of a type that CFUNCTYPE made."""
        def guarded(*arguments: Any) -> Any:
            if self.failed:
                return otherwise
            try:
                return function(*arguments)
            except BaseException as error:  # pylint: disable=broad-except
                self.failed.append(error)
                self.cancel.set()
                return otherwise

        return kind(guarded)

    def progress(self, function: Optional[Callable[[int, int], Any]]) -> Any:
        """A mica_progress of a function of what is done, and of how much there is."""
        if function is None:
            return _c.mica_progress()
        return self.guard(_c.mica_progress, lambda _, done, total: function(done, total))

    def call(self, function: Any, *arguments: Any) -> None:
        """Calls a function that returns a status and watches the flag."""
        def work() -> None:
            status = function(*arguments)
            if status:
                raise error_of(status)

        try:
            with self.cancel._box:  # pylint: disable=protected-access
                interruptible(work, self.cancel.set)
        except MicaError:
            if not self.failed:
                raise
        if self.failed:
            raise self.failed[0]

    def pointer(self) -> Any:
        """The flag, for a member of options. It is borrowed for call(), which keeps it open."""
        with self.cancel._box as pointer:  # pylint: disable=protected-access
            return pointer


def version() -> str:
    """The library's version, such as "0.1.0"."""
    return str(lib.mica_version().decode())
