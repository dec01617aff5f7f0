#!/usr/bin/env python3
"""Asks a model one question and prints the answer while it is computed: libmica by Python's
standard library alone.

    python3 chat.py FOLDER [QUESTION]

Ctrl-C ends the answer. The library is found as the system finds libraries; where it is elsewhere,
LD_LIBRARY_PATH says where.
"""
import contextlib
import ctypes
import functools
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from ctypes import POINTER, byref, c_bool, c_char, c_char_p, c_float, c_int, c_int32, c_int64, \
    c_size_t, c_void_p


# ---- what is used of the headers: tests/examples/python.py compares it with them ----

class mica_model(ctypes.Structure):
    """Its members are the library's own, as those of the next two."""


class mica_session(ctypes.Structure):
    pass


class mica_stream(ctypes.Structure):
    pass


class mica_message(ctypes.Structure):
    """The first members, of a message alone: in an array each element would have to be whole."""
    _fields_ = [("struct_bytes", c_size_t), ("role", c_char_p), ("content", c_char_p)]


class mica_generate_options(ctypes.Structure):
    """The first members: struct_bytes tells where they end, and the library takes the others to be
    zero. Only structs of options and messages may be cut."""
    _fields_ = [("struct_bytes", c_size_t), ("max_tokens", c_int64), ("min_tokens", c_int64),
                ("temperature", c_float), ("top_k", c_int)]


class mica_token(ctypes.Structure):
    _fields_ = [("id", c_int32), ("text", POINTER(c_char)), ("len", c_size_t), ("prompt", c_bool),
                ("logprob", c_float), ("alternatives", c_void_p), ("alternative_count", c_size_t)]


mica_status = c_int

FUNCTIONS = {  # name: what it returns, and its parameters
    "mica_status_name": (c_char_p, mica_status),
    "mica_last_error": (c_char_p,),
    "mica_model_open": (mica_status, c_char_p, c_void_p, POINTER(POINTER(mica_model))),
    "mica_model_close": (None, POINTER(POINTER(mica_model))),
    "mica_session_open": (mica_status, POINTER(mica_model), c_void_p,
                          POINTER(POINTER(mica_session))),
    "mica_session_close": (None, POINTER(POINTER(mica_session))),
    "mica_chat": (mica_status, POINTER(mica_session), POINTER(mica_message), c_size_t,
                  POINTER(mica_generate_options), POINTER(POINTER(mica_stream))),
    "mica_stream_next": (c_bool, POINTER(mica_stream), POINTER(mica_token)),
    "mica_stream_status": (mica_status, POINTER(mica_stream)),
    "mica_stream_cancel": (None, POINTER(mica_stream)),
    "mica_stream_close": (None, POINTER(POINTER(mica_stream))),
}

# CDLL, unlike PyDLL, lets Python's other threads run during a call.
lib = ctypes.CDLL("libmica.0.dylib" if sys.platform == "darwin" else "libmica.so.0")
for name, (returned, *parameters) in FUNCTIONS.items():
    getattr(lib, name).restype = returned
    getattr(lib, name).argtypes = parameters


# ---- errors and ownership ----

class MicaError(Exception):
    """A call that failed. status is its name, such as "MICA_ENOENT"."""


def check(status):
    """Raises what a call returned. To be called in the thread of the call, which has the text."""
    if status:
        error = MicaError(lib.mica_last_error().decode())
        error.status = lib.mica_status_name(status).decode()
        raise error


@contextlib.contextmanager
def opened(kind, function, *arguments):
    """The handle that function(*arguments, &handle) opens, for a `with`, whose end closes it."""
    handle = POINTER(kind)()
    check(function(*arguments, byref(handle)))
    try:
        yield handle
    finally:
        getattr(lib, kind.__name__ + "_close")(byref(handle))


# ---- an answer ----

def compute(stream, write):
    """Gives the answer's pieces to `write`."""
    token = mica_token()
    while lib.mica_stream_next(stream, byref(token)):
        write(ctypes.string_at(token.text, token.len).decode())  # whole characters
    check(lib.mica_stream_status(stream))


def ask(folder, question, write, max_tokens=0):
    """Opens a model and gives the pieces of its answer to `write`.

    The answer is computed in another thread, for Python notices Ctrl-C between calls alone, and the
    first mica_stream_next reads the whole prompt. A stream belongs to one thread at a time: this
    one only cancels it until the other has ended.
    """
    message = mica_message(ctypes.sizeof(mica_message), b"user", question.encode())
    options = mica_generate_options(ctypes.sizeof(mica_generate_options), max_tokens)
    with opened(mica_model, lib.mica_model_open, os.fsencode(folder), None) as model, \
            opened(mica_session, lib.mica_session_open, model, None) as session, \
            opened(mica_stream, lib.mica_chat, session, message, 1, options) as stream, \
            ThreadPoolExecutor(1) as pool:  # its end, the first of these, waits for the thread
        try:
            pool.submit(compute, stream, write).result()
        except KeyboardInterrupt:
            lib.mica_stream_cancel(stream)
            raise


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit("usage: chat.py FOLDER [QUESTION]")
    question = sys.argv[2] if len(sys.argv) == 3 else "What is curl?"
    try:
        ask(sys.argv[1], question, functools.partial(print, end="", flush=True))
        print()
    except MicaError as error:
        sys.exit(f"{error.status}: {error}")
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
