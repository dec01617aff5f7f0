"""Programs: ONNX files, and what mica saves."""
from __future__ import annotations

import ctypes
import os
import sys
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple, Union

from . import _c
from ._array import Array, Device, Scope, _stack, asarray, default_device, raw
from ._library import Handle, InvalidError, check, lib, name_of, opened, options, path_of, text


class Port(NamedTuple):
    """A parameter or a result: an axis of a name has any length."""

    name: str
    dtype: str
    shape: Tuple[Union[int, str], ...]


class Outputs(Dict[str, Any]):
    """Results by their names; outputs[0] is the first."""

    def __getitem__(self, key: Any) -> Any:
        return list(self.values())[key] if isinstance(key, int) else super().__getitem__(key)


class Program(Handle):
    """A program: a network of an ONNX file, or one that mica has saved.

        program = mica.Program("net.onnx", dims={"batch": 8})
        outputs = program(x=numpy.zeros((8, 784), "f4"))
        outputs["y"]

    dims  lengths by the names that an ONNX file has for them

    Arguments are by position or by name: what mica.asarray takes. Where one is numpy's the results
    are, too, else they are arrays of mica's. Any number of threads may run one program."""

    _kind = "program"

    def __init__(self, path: "Union[str, os.PathLike[str]]", *,
                 dims: Optional[Mapping[str, int]] = None,
                 device: Union[None, str, Device] = None) -> None:
        self._device = device if isinstance(device, Device) else \
            default_device() if device is None else Device(device)
        self._path = os.fspath(path)
        with self._device._box as at:
            if self._path.endswith(".onnx"):
                lengths = (_c.mica_onnx_dim * max(1, len(dims or {})))(
                    *(_c.mica_onnx_dim(text(name), n) for name, n in (dims or {}).items()))
                struct = options(_c.mica_onnx_options, {})
                struct.dims, struct.n_dims = lengths, len(dims or {})
                pointer = opened(lib.mica_onnx_load, at, path_of(path), ctypes.byref(struct))
            elif dims:
                raise InvalidError("dims are of ONNX files")
            else:
                pointer = opened(lib.mica_program_load, at, path_of(path), None)
        super().__init__(pointer, lib.mica_program_close)
        self._params = self._ports(lib.mica_program_param_count, lib.mica_program_get_param)
        self._results = self._ports(lib.mica_program_result_count, lib.mica_program_get_result)

    def _ports(self, count: Any, get: Any) -> List[Port]:
        ports = []
        with self._box as program:
            for i in range(count(program)):
                struct = _c.mica_port()
                struct.struct_bytes = ctypes.sizeof(struct)
                check(get(program, i, ctypes.byref(struct)))
                shape = tuple(
                    struct.symbols[a].decode() if struct.symbols and struct.symbols[a] else
                    struct.shape[a] for a in range(struct.ndim))
                ports.append(Port(struct.name.decode(), name_of(_c.mica_dtype, struct.dtype), shape))
        return ports

    @property
    def params(self) -> List[Port]:
        """What it takes."""
        return list(self._params)

    @property
    def results(self) -> List[Port]:
        """What it gives."""
        return list(self._results)

    def __call__(self, *arguments: Any, **named: Any) -> Outputs:
        given = self._arrange(arguments, named)
        scope = _stack()[-1] if _stack() else Scope(self._device)
        arrays = [asarray(value) for value in given]
        results = (_c.mica_array * max(1, len(self._results)))()
        structs = (_c.mica_array * max(1, len(arrays)))(*(raw(scope, x) for x in arrays))
        with scope._lock, scope._box as into, self._box as program:
            check(lib.mica_program_run(program, into, structs, results))
        made = [Array(scope, type(r).from_buffer_copy(r)) for r in results[:len(self._results)]]
        numpy = sys.modules.get("numpy")
        if numpy is not None and any(isinstance(value, numpy.ndarray) for value in given):
            return Outputs(zip((port.name for port in self._results), (x.numpy() for x in made)))
        return Outputs(zip((port.name for port in self._results), made))

    def _arrange(self, arguments: Tuple[Any, ...], named: Dict[str, Any]) -> List[Any]:
        names = [port.name for port in self._params]
        if len(arguments) > len(names):
            raise TypeError("the program takes %d arguments, not %d" % (len(names), len(arguments)))
        values = dict(zip(names, arguments))
        for name, value in named.items():
            if name not in names or name in values:
                raise TypeError("the program takes %s, not %r%s" % (
                    ", ".join(names), name, " again" if name in values else ""))
            values[name] = value
        missing = [name for name in names if name not in values]
        if missing:
            raise TypeError("the program needs %s" % ", ".join(missing))
        return [values[name] for name in names]

    def save(self, path: "Union[str, os.PathLike[str]]") -> None:
        """Saves it to a file, whole or not at all."""
        with self._box as program:
            check(lib.mica_program_save(program, path_of(path), None))

    def __str__(self) -> str:
        """The program as text."""
        raw_text = ctypes.c_void_p()
        with self._box as program:
            check(lib.mica_program_print(program, ctypes.byref(raw_text)))
        try:
            return ctypes.string_at(raw_text.value or 0).decode()
        finally:
            lib.mica_free(raw_text)

    def __repr__(self) -> str:
        def words(ports: List[Port]) -> str:
            return ", ".join("%s %s[%s]" % (p.name, p.dtype, ", ".join(map(str, p.shape)))
                             for p in ports)

        return "<mica.Program %r: %s -> %s%s>" % (
            os.path.basename(self._path), words(self._params), words(self._results),
            ", closed" if self.closed else "")
