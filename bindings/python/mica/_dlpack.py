"""DLPack's capsules, and what C keeps of Python's. The tensors themselves are C's (mica/dlpack.h):
whoever has taken one may give it back in any thread, with or without Python.

source  dmlc.github.io/dlpack"""
from __future__ import annotations

import ctypes
import itertools
import sys
import threading
from typing import Any, Dict, Tuple

from ._library import UnsupportedError

CPU = 1
_NAME, _VERSIONED_NAME = b"dltensor", b"dltensor_versioned"
_USED, _VERSIONED_USED = b"used_dltensor", b"used_dltensor_versioned"

_python = ctypes.pythonapi
_capsule_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p,
                                 ctypes.c_void_p)(("PyCapsule_New", _python))
_capsule_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", _python))
_capsule_is = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_IsValid", _python))
_capsule_rename = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_SetName", _python))


# ---- objects that C keeps ----

_numbers = itertools.count(1)
_held: Dict[int, Any] = {}


def hold(owner: Any) -> int:
    """A number that keeps an object until it is released."""
    number = next(_numbers)
    _held[number] = owner
    return number


def _release(number: int) -> None:
    """For C: what was held ends."""
    _held.pop(number, None)


release = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(_release)
ctypes.pythonapi.Py_IncRef(ctypes.py_object(release))  # C may call it until the process ends


# ---- tensors ----

class _Managed(ctypes.Structure):
    """DLManagedTensor, up to its deleter."""

    _fields_ = [("tensor", ctypes.c_char * 48), ("context", ctypes.c_void_p),
                ("deleter", ctypes.CFUNCTYPE(None, ctypes.c_void_p))]


class _Versioned(ctypes.Structure):
    """DLManagedTensorVersioned, up to its deleter."""

    _fields_ = [("version", ctypes.c_uint32 * 2), ("context", ctypes.c_void_p),
                ("deleter", ctypes.CFUNCTYPE(None, ctypes.c_void_p))]


_given: Dict[int, Any] = {}  # capsules that may not have been taken yet, by their tensors
_sweeping = threading.RLock()  # of who looks through these, or adds one


def _sweep() -> None:
    """Ends what nobody took of capsules that are here alone. They have no destructors: these would
    be called while an error of who did not take them is raised, and no Python can run then."""
    for address in list(_given):
        if address not in _given:  # a deleter has swept meanwhile
            continue
        alone = sys.getrefcount(_given[address]) <= 2  # _given's and the call's
        made = _given[address]
        name = next((n for n in (_NAME, _VERSIONED_NAME) if _capsule_is(made, n)), None)
        if name is not None and not alone:
            continue
        if _given.pop(address, None) is made and name is not None:
            kind: Any = _Managed if name == _NAME else _Versioned
            kind.from_address(address).deleter(address)


def capsule(address: int, versioned: bool) -> Any:
    """A capsule of a tensor."""
    with _sweeping:
        _sweep()
        made = _capsule_new(address, _VERSIONED_NAME if versioned else _NAME, None)
        _given[address] = made
        return made


def take(source: Any) -> Tuple[int, bool]:
    """The tensor of an object, and whether it is of version 1. It is the caller's then."""
    if source.__dlpack_device__()[0] != CPU:
        raise UnsupportedError("the tensor is not in the host's memory: copy it there first")
    try:
        given = source.__dlpack__(max_version=(1, 0))
    except TypeError:  # of before version 1
        given = source.__dlpack__()
    versioned = bool(_capsule_is(given, _VERSIONED_NAME))
    address = _capsule_pointer(given, _VERSIONED_NAME if versioned else _NAME)
    _capsule_rename(given, _VERSIONED_USED if versioned else _USED)
    return address, versioned
