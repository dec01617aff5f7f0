"""Files of arrays: safetensors, npz, npy."""
from __future__ import annotations

import ctypes
import os
from typing import Any, Dict, Mapping, Optional, Union

from . import _c
from ._array import Array, Device, Scope, _stack, asarray, raw
from ._library import InvalidError, check, lib, opened, path_of, text

PathLike = Union[str, "os.PathLike[str]"]


def load(path: PathLike, *, device: Optional[Device] = None) -> Dict[str, Array]:
    """The arrays of a file by their names: safetensors (also a folder of them), npz, or npy, whose
    one is "arr_0"."""
    file = opened(lib.mica_array_file_open, path_of(path))
    try:
        scope = _stack()[-1] if _stack() else Scope(device)
        found = {}
        for i in range(lib.mica_array_file_count(file)):
            name = lib.mica_array_file_name(file, i).decode()
            with scope._lock, scope._box as into:
                array = lib.mica_array_file_load(file, i, into)
                if not lib.mica_valid(array):
                    status = lib.mica_scope_status(into)
                    try:
                        check(status)
                    finally:
                        lib.mica_scope_clear_error(into)
            found[name] = Array(scope, array)
        return found
    finally:
        lib.mica_array_file_close(ctypes.byref(ctypes.c_void_p(file)))


def save(path: PathLike, arrays: Mapping[str, Any], *, compress: bool = False) -> None:
    """Saves arrays to a file, whole or not at all: .safetensors, .npz, or .npy of one array."""
    name, n = os.fspath(path), len(arrays)
    scope = _stack()[-1] if _stack() else Scope()
    kept = [asarray(x) for x in arrays.values()]
    list_ = (_c.mica_named_array * max(1, n))()
    for struct, key, x in zip(list_, arrays, kept):
        struct.name, struct.array = text(key), raw(scope, x)
    with scope._lock, scope._box:
        if name.endswith(".safetensors"):
            check(lib.mica_save_safetensors(path_of(path), list_, n, None, 0))
        elif name.endswith(".npz"):
            check(lib.mica_save_npz(path_of(path), list_, n, compress))
        elif name.endswith(".npy") and n == 1:
            check(lib.mica_save_npy(path_of(path), list_[0].array))
        else:
            raise InvalidError("a file of arrays ends in .safetensors, .npz, or .npy of one array")


__all__ = ["load", "save"]
