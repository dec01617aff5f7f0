"""Devices, scopes and arrays."""
from __future__ import annotations

import ctypes
import importlib
import math
import operator
import struct as _struct
import sys
import threading
from typing import (TYPE_CHECKING, Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple,
                    Union)

from . import _c, _dlpack
from ._library import (Handle, InvalidError, ShapeError, UnsupportedError, check, choice, ints,
                       lib, name_of, opened, options, optional_text, record)

if TYPE_CHECKING:
    from ._model import Model, Session

Number = Union[bool, int, float]
Operand = Union["Array", Number]

# dtype: format of the buffer protocol, kind and bytes for numpy
_FORMATS: Dict[str, Tuple[str, str]] = {
    "bool": ("?", "|b1"), "u8": ("B", "|u1"), "u16": ("H", "<u2"), "u32": ("I", "<u4"),
    "u64": ("Q", "<u8"), "i8": ("b", "|i1"), "i16": ("h", "<i2"), "i32": ("i", "<i4"),
    "i64": ("q", "<i8"), "f16": ("e", "<f2"), "f32": ("f", "<f4"), "f64": ("d", "<f8"),
    "c64": ("Zf", "<c8"), "bf16": ("H", "<V2")}
_BYTES = {"bool": 1, "u8": 1, "i8": 1, "u16": 2, "i16": 2, "f16": 2, "bf16": 2, "u32": 4, "i32": 4,
          "f32": 4, "u64": 8, "i64": 8, "f64": 8, "c64": 8}


# ---- devices ----

class DeviceInfo(NamedTuple):
    """What a device is (mica_device_info)."""

    name: str
    description: str
    threads: int
    unified_memory: int
    memory_bytes: int
    architecture: str
    max_array_bytes: int
    working_set_bytes: int


class Device(Handle):
    """A device: "cpu", "cuda:0", "mlx". Models and scopes may share one, with its threads and its
    memory limit."""

    _kind = "device"

    def __init__(self, name: Optional[str] = None, *, threads: int = 0, memory_limit_bytes: int = 0,
                 cache_limit_bytes: int = 0) -> None:
        struct = options(_c.mica_device_options, {
            "threads": threads, "memory_limit_bytes": memory_limit_bytes,
            "cache_limit_bytes": cache_limit_bytes})
        super().__init__(opened(lib.mica_device_open, optional_text(name), ctypes.byref(struct)),
                         lib.mica_device_close)

    @property
    def info(self) -> DeviceInfo:
        """What it is."""
        struct = _c.mica_device_info()
        struct.struct_bytes = ctypes.sizeof(struct)
        with self._box as device:
            lib.mica_device_get_info(device, ctypes.byref(struct))
            return record(DeviceInfo, struct)

    @property
    def active_bytes(self) -> int:
        """Bytes of live arrays."""
        with self._box as device:
            return int(lib.mica_device_active_bytes(device))

    @property
    def peak_bytes(self) -> int:
        """The largest number of active bytes so far."""
        with self._box as device:
            return int(lib.mica_device_peak_bytes(device))

    def clear_cache(self) -> None:
        """Gives freed buffers back to the system."""
        with self._box as device:
            lib.mica_device_clear_cache(device)

    def __repr__(self) -> str:
        if self.closed:
            return "<mica.Device closed>"
        info = self.info
        return "<mica.Device %r: %s, %s>" % (info.name, info.description, info.architecture)


_default_device: Optional[Device] = None
_default_lock = threading.Lock()


def default_device() -> Device:
    """The processor, where no device is named."""
    global _default_device
    with _default_lock:
        if _default_device is None or _default_device.closed:
            _default_device = Device("cpu")
        return _default_device


# ---- scopes ----

_local = threading.local()


class Scope(Handle):
    """The owner of arrays. Ops in its `with` record into it, and its end frees them all:

        with mica.Scope():
            loss = ...
            loss.item()

    Without one, an op records into the scope of its first array; a scope that nobody refers to is
    freed. A scope belongs to one thread at a time; others wait."""

    _kind = "scope"

    def __init__(self, device: Union[None, Device, "Model"] = None) -> None:
        self._owner = device if device is not None else default_device()
        self._lock = threading.RLock()
        with self._owner._box as pointer:
            at = pointer if isinstance(self._owner, Device) else lib.mica_model_device(pointer)
            if not at:
                raise UnsupportedError("the model's engine computes elsewhere")
            super().__init__(opened(lib.mica_scope_open, at), lib.mica_scope_close)

    def _beside(self) -> "Scope":
        """Another one on its device, whatever of it is closed for others."""
        scope = Scope.__new__(Scope)
        scope._owner, scope._lock = self._owner, threading.RLock()
        Handle.__init__(scope, opened(lib.mica_scope_open, lib.mica_scope_device(self._box.pointer)),
                        lib.mica_scope_close)
        return scope

    def __enter__(self) -> "Scope":
        _stack().append(self)
        return self

    def __exit__(self, *_: object) -> None:
        stack = _stack()
        if self in stack:
            stack.remove(self)
        self.close()

    def __repr__(self) -> str:
        return "<mica.Scope on %r%s>" % (self._owner, ", closed" if self.closed else "")


def _stack() -> List[Scope]:
    if not hasattr(_local, "stack"):
        _local.stack = []
    return _local.stack  # type: ignore[no-any-return]


def begin(*operands: Any) -> Scope:
    """The scope that an op of these records into."""
    if _stack():
        return _stack()[-1]
    for operand in operands:
        if isinstance(operand, Array):
            return operand._scope
    return Scope()


# ---- what ops take ----

def raw(scope: Scope, x: Operand) -> Any:
    """The mica_array of an operand. One of another scope must have its value: it gets it."""
    if not isinstance(x, Array):
        return _scalar(scope, x)
    if x._scope is not scope:
        x.eval()
        one, other = sorted((x._scope, scope), key=id)  # in one order, that none waits for another
        with one._lock, other._lock, x._scope._box, scope._box as pointer:
            return lib.mica_to_device(pointer, x._raw)
    return x._raw


number_of = raw


def _scalar(scope: Scope, x: Number) -> Any:
    dtype = "bool" if isinstance(x, bool) else "i32" if isinstance(x, int) else "f32"
    if isinstance(x, int) and not -2**31 <= x < 2**31:
        dtype = "i64"
    if dtype == "i64" and not -2**53 <= x <= 2**53:  # not every one is a double
        number = (ctypes.c_int64 * 1)(int64_of(x))
        with scope._lock, scope._box as pointer:
            return lib.mica_from_data(pointer, number, _c.mica_dtype["i64"], *shape_of(()))
    with scope._lock, scope._box as pointer:
        return lib.mica_scalar(pointer, float(x), _c.mica_dtype[dtype])


def int64_of(x: Any) -> int:
    if not -2**63 <= x < 2**63:
        raise InvalidError("%d has more than 64 bits" % x)
    return int(x)


def dtype_number(dtype: str) -> int:
    return choice(_c.mica_dtype, dtype, "dtype")


def shape_of(shape: Union[int, Sequence[int]]) -> Tuple[Any, int]:
    lengths = (shape,) if isinstance(shape, int) else tuple(shape)
    if len(lengths) > _c.MICA_MAX_NDIM:
        raise InvalidError("an array has at most %d axes" % _c.MICA_MAX_NDIM)
    return ints(lengths, ctypes.c_int64), len(lengths)


def axes_of(axes: Union[None, int, Sequence[int]]) -> Tuple[Any, int]:
    values = () if axes is None else (axes,) if isinstance(axes, int) else tuple(axes)
    if axes is None:
        return None, 0
    return ints(values), len(values)


def _each_axis(x: Operand, values: Sequence[int]) -> List[int]:
    ndim = x.ndim if isinstance(x, Array) else 0
    if len(values) != ndim:
        raise ShapeError("%d numbers for the %d axes of the array" % (len(values), ndim))
    return list(values)


def order_of(x: Operand, axes: Optional[Sequence[int]]) -> Any:
    """An int for each axis of x."""
    return None if axes is None else ints(_each_axis(x, axes))


def numbers_of(x: Operand, values: Optional[Sequence[int]]) -> Any:
    """An int64_t for each axis of x."""
    return None if values is None else ints(_each_axis(x, values), ctypes.c_int64)


def list_of(scope: Scope, arrays: Sequence[Operand]) -> Tuple[Any, int]:
    return (_c.mica_array * max(1, len(arrays)))(*(raw(scope, x) for x in arrays)), len(arrays)


def made(scope: Scope, name: str, *arguments: Any) -> "Array":
    """What an op records. An error is raised at once, and the scope goes on without it."""
    with scope._lock, scope._box as pointer:
        result = getattr(lib, name)(pointer, *arguments)
        if not lib.mica_valid(result):
            status = lib.mica_scope_status(pointer)
            try:
                check(status)
                raise InvalidError("%s gave no array" % name)
            finally:
                lib.mica_scope_clear_error(pointer)
        return Array(scope, result)


# ---- memory of the host ----

def _numpy() -> Any:
    """numpy, which is not there for every checker of types."""
    return importlib.import_module("numpy")


class HostArray:
    """Values in the host's memory, side by side in row-major order.

    numpy.asarray(x) and torch.from_dlpack(x) are the same memory, as is x.view, a memoryview; from
    Python 3.12 on memoryview(x) is, too, but of bf16 and c64. They keep it."""

    def __init__(self, address: int, shape: Tuple[int, ...], dtype: str, owner: "_Hold",
                 read_only: bool, at: Tuple[int, ...] = ()) -> None:
        self.address, self.shape, self.dtype = address, shape, dtype
        self._owner, self._read_only = owner, read_only
        self._at = at  # which row of the owner's array it is

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * _BYTES[self.dtype]

    @property
    def view(self) -> memoryview:
        """The memory; bf16, and before Python 3.12 f16, as its 16 bits, c64 as pairs of f32."""
        memory: Any = (ctypes.c_char * self.nbytes).from_address(self.address)
        memory.owner = self._owner
        shape, code = self.shape, _FORMATS[self.dtype][0]
        if self.dtype == "c64":
            shape, code = (*shape, 2), "f"
        flat: Any = memoryview(memory).cast("B")
        if code == "e" and sys.version_info < (3, 12):
            code = "H"  # such a memoryview has no numbers of 16 bits but integers
        view: memoryview = flat.cast(code, shape) if self.size else flat.cast(code)
        return view.toreadonly() if self._read_only else view

    def __buffer__(self, flags: int) -> memoryview:
        if self.dtype in ("bf16", "c64"):  # numpy then asks for __array_interface__
            raise BufferError("memoryviews have no numbers of %s: x.view has parts" % self.dtype)
        return self.view

    @property
    def __array_interface__(self) -> Dict[str, Any]:
        return {"version": 3, "shape": self.shape, "typestr": _FORMATS[self.dtype][1],
                "data": (self.address, self._read_only)}

    def __dlpack__(self, *, stream: Any = None, max_version: Optional[Tuple[int, int]] = None,
                   dl_device: Any = None, copy: Optional[bool] = None) -> Any:
        if copy:
            raise BufferError("mica gives its memory, not a copy")
        return self._owner.tensor(self._at, max_version is not None and max_version[0] >= 1,
                                  not self._read_only)

    def __dlpack_device__(self) -> Tuple[int, int]:
        return _dlpack.CPU, 0

    def numpy(self) -> Any:
        """A numpy array of the same memory."""
        return _numpy().asarray(self)

    def tolist(self) -> Any:
        """Numbers in lists."""
        if self.dtype == "bf16":
            return _nested([_from_bf16(v) for v in self._flat("H")], self.shape)
        if self.dtype == "f16":
            return _nested(list(_struct.unpack("%de" % self.size, self.view.tobytes())), self.shape)
        if self.dtype == "c64":
            pairs = self._flat("f")
            return _nested([complex(*pairs[i:i + 2]) for i in range(0, len(pairs), 2)], self.shape)
        return self.view.tolist() if self.size else _nested([], self.shape)

    def _flat(self, code: Any) -> List[Any]:
        memory = (ctypes.c_char * self.nbytes).from_address(self.address)
        return memoryview(memory).cast("B").cast(code).tolist()

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("an array without axes has no length")
        return self.shape[0]

    def __getitem__(self, i: int) -> Any:
        """The i-th along the first axis: a number, or an array."""
        count = len(self)
        if not -count <= i < count:
            raise IndexError("%d of %d" % (i, count))
        rest = self.shape[1:]
        step = math.prod(rest) * _BYTES[self.dtype]
        row = HostArray(self.address + (i % count) * step, rest, self.dtype, self._owner,
                        self._read_only, (*self._at, i % count))
        return row if rest else _item(row)

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        shown = _ends(self)
        return "<mica.HostArray %s %s: %s>" % (self.dtype, list(self.shape), shown)


def _item(row: HostArray) -> Any:
    return HostArray(row.address, (1,), row.dtype, row._owner, True).tolist()[0]


def _ends(x: HostArray) -> str:
    flat = HostArray(x.address, (x.size,), x.dtype, x._owner, True)
    values = [flat[i] for i in (range(x.size) if x.size <= 6 else (0, 1, 2, -3, -2, -1))]
    words = ["%.6g" % v if isinstance(v, float) else str(v) for v in values]
    if x.size > 6:
        words.insert(3, "...")
    return " ".join(words)


def _nested(values: List[Any], shape: Tuple[int, ...]) -> Any:
    if not shape:
        return values[0]
    if len(shape) == 1:
        return values
    step = math.prod(shape[1:])
    return [_nested(values[i * step:(i + 1) * step], shape[1:]) for i in range(shape[0])]


def _from_bf16(bits: int) -> float:
    return ctypes.c_float.from_buffer(ctypes.c_uint32(bits << 16)).value


_keeper: Optional[Device] = None


def make_host(memory: Any, dtype: str, shape: Tuple[int, ...]) -> HostArray:
    """An array of the values of a ctypes array, which nobody else has."""
    global _keeper
    with _default_lock:
        if _keeper is None:
            _keeper = Device("cpu", threads=1)
    x = made(Scope(_keeper), "mica_from_data", memory, dtype_number(dtype), *shape_of(shape)).host()
    x._read_only = False
    return x


class _Hold:
    """An array whose scope stays open while somebody looks into its memory."""

    def __init__(self, x: "Array") -> None:
        x._scope._box.__enter__()
        self._box, self._scope, self._raw = x._scope._box, x._scope, x._raw

    def tensor(self, at: Tuple[int, ...], versioned: bool, writable: bool) -> Any:
        """DLPack's capsule of a row of it."""
        inner, tensor = self._scope._beside(), ctypes.c_void_p()
        with self._scope._lock, inner._box as pointer:
            x = Array(inner, lib.mica_detach(pointer, self._raw))
            x = x[at] if at else x
            check(lib.mica_array_to_dlpack(x._raw, versioned, writable, ctypes.byref(tensor)))
        return _dlpack.capsule(tensor.value or 0, versioned)

    def __del__(self) -> None:
        if hasattr(self, "_box"):  # the scope was not closed before
            self._box.__exit__()


# ---- arrays ----

class Array:
    """An array that is computed when its values are asked for. It never changes.

    mica.asarray makes one of lists, numpy's arrays, torch's tensors; the functions of mica.ops
    compute. numpy.asarray(x), torch.from_dlpack(x) and x.host() are its memory, without a copy."""

    __slots__ = ("_scope", "_raw", "__weakref__")
    __array_priority__ = 100

    def __init__(self, scope: Scope, struct: Any) -> None:
        self._scope, self._raw = scope, struct

    # ---- what is known without computing ----

    @property
    def dtype(self) -> str:
        with self._scope._lock, self._scope._box:
            return name_of(_c.mica_dtype, lib.mica_array_dtype(self._raw))

    @property
    def ndim(self) -> int:
        with self._scope._lock, self._scope._box:
            return int(lib.mica_array_ndim(self._raw))

    @property
    def shape(self) -> Tuple[int, ...]:
        with self._scope._lock, self._scope._box:
            return tuple(lib.mica_array_dim(self._raw, i)
                         for i in range(lib.mica_array_ndim(self._raw)))

    @property
    def size(self) -> int:
        with self._scope._lock, self._scope._box:
            return int(lib.mica_array_size(self._raw))

    @property
    def scope(self) -> Scope:
        return self._scope

    # ---- values ----

    def eval(self) -> "Array":
        """Computes it."""
        with self._scope._lock, self._scope._box as scope:
            check(lib.mica_eval(scope, self._raw))
        return self

    def host(self) -> HostArray:
        """Its memory, computed and in row-major order. It is kept, and the whole scope with it."""
        self.eval()
        with self._scope._lock, self._scope._box:
            straight = lib.mica_array_is_contiguous(self._raw)
        if not straight:
            return ops.contiguous(self).host()
        address, shape, dtype = ctypes.c_void_p(), self.shape, self.dtype
        with self._scope._lock, self._scope._box:
            status = lib.mica_array_host(self._raw, ctypes.byref(address))
            if status == _c.mica_status["eunsupported"]:  # the device's own memory
                memory = (ctypes.c_char * (self.size * _BYTES[dtype]))()
                check(lib.mica_read(self._raw, memory, len(memory)))
                return make_host(memory, dtype, shape)
            check(status)
        return HostArray(address.value or 0, shape, dtype, _Hold(self), True)

    def numpy(self) -> Any:
        """A numpy array of the same memory."""
        return self.host().numpy()

    def item(self) -> Any:
        """The value of an array of one element."""
        if self.size != 1:
            raise ShapeError("item() is of one element, not of %s" % list(self.shape))
        return _item(self.host())

    def tolist(self) -> Any:
        """Numbers in lists."""
        return self.host().tolist()

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> Any:
        values = _numpy().asarray(self.host())
        if dtype is not None and values.dtype != dtype:
            return values.astype(dtype)
        return values.copy() if copy else values

    def __dlpack__(self, *, stream: Any = None, max_version: Optional[Tuple[int, int]] = None,
                   dl_device: Any = None, copy: Optional[bool] = None) -> Any:
        return self.host().__dlpack__(max_version=max_version, copy=copy)

    def __dlpack_device__(self) -> Tuple[int, int]:
        return _dlpack.CPU, 0

    def __buffer__(self, flags: int) -> memoryview:
        return self.host().__buffer__(flags)

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __bool__(self) -> bool:
        return bool(self.item())

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("an array without axes has no length")
        return self.shape[0]

    def __iter__(self) -> Iterator["Array"]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        if self._scope.closed:
            return "<mica.Array closed>"
        length = ctypes.c_size_t()
        with self._scope._lock, self._scope._box:
            buffer = ctypes.create_string_buffer(4096)
            check(lib.mica_array_text(self._raw, None, buffer, 4096, ctypes.byref(length)))
        return buffer.value.decode("utf-8", "replace") + ("..." if length.value > 4095 else "")

    # ---- ops ----

    def __getitem__(self, key: Any) -> "Array":
        return _index(self, key)

    def __neg__(self) -> "Array":
        return ops.negative(self)

    def __abs__(self) -> "Array":
        return ops.abs(self)

    def __hash__(self) -> int:
        return id(self)

    @property
    def T(self) -> "Array":
        """Its axes in the reverse order."""
        return ops.transpose(self)

    def astype(self, dtype: str) -> "Array":
        return ops.astype(self, dtype)

    def reshape(self, *shape: Any) -> "Array":
        return ops.reshape(self, shape[0] if len(shape) == 1 else shape)

    def sum(self, axes: Any = None, keepdims: bool = False) -> "Array":
        return ops.sum(self, axes, keepdims)

    def mean(self, axes: Any = None, keepdims: bool = False) -> "Array":
        return ops.mean(self, axes, keepdims)

    def max(self, axes: Any = None, keepdims: bool = False) -> "Array":
        return ops.max(self, axes, keepdims)

    def min(self, axes: Any = None, keepdims: bool = False) -> "Array":
        return ops.min(self, axes, keepdims)

    def argmax(self, axis: int = -1, keepdims: bool = False) -> "Array":
        return ops.argmax(self, axis, keepdims)

    if TYPE_CHECKING:
        def __add__(self, other: Operand) -> "Array": ...
        def __radd__(self, other: Operand) -> "Array": ...
        def __sub__(self, other: Operand) -> "Array": ...
        def __rsub__(self, other: Operand) -> "Array": ...
        def __mul__(self, other: Operand) -> "Array": ...
        def __rmul__(self, other: Operand) -> "Array": ...
        def __truediv__(self, other: Operand) -> "Array": ...
        def __rtruediv__(self, other: Operand) -> "Array": ...
        def __floordiv__(self, other: Operand) -> "Array": ...
        def __mod__(self, other: Operand) -> "Array": ...
        def __pow__(self, other: Operand) -> "Array": ...
        def __matmul__(self, other: "Array") -> "Array": ...
        def __lt__(self, other: Operand) -> "Array": ...
        def __le__(self, other: Operand) -> "Array": ...
        def __gt__(self, other: Operand) -> "Array": ...
        def __ge__(self, other: Operand) -> "Array": ...
        def __and__(self, other: Operand) -> "Array": ...
        def __or__(self, other: Operand) -> "Array": ...




_OPERATORS = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide",
    "floordiv": "floor_divide", "mod": "remainder", "pow": "power", "matmul": "matmul",
    "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal", "eq": "equal",
    "ne": "not_equal", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor"}


def _define(python: str, op: str) -> None:
    def forward(self: Array, other: Any) -> Any:
        if not isinstance(other, (Array, bool, int, float)):
            return NotImplemented
        return getattr(ops, op)(self, other)

    def reverse(self: Array, other: Any) -> Any:
        if not isinstance(other, (bool, int, float)):
            return NotImplemented
        return getattr(ops, op)(other, self)

    setattr(Array, "__%s__" % python, forward)
    if python not in ("lt", "le", "gt", "ge", "eq", "ne"):
        setattr(Array, "__r%s__" % python, reverse)


for _python, _op in _OPERATORS.items():
    _define(_python, _op)


def _index(x: Array, key: Any) -> Array:
    """x[key]: integers, slices, None and ..., or an array of integers along the first axis."""
    if isinstance(key, Array):
        return ops.take(x, key, 0)
    keys = list(key) if isinstance(key, tuple) else [key]
    axes = [k for k in keys if k is not None and k is not Ellipsis]
    at = next((i for i, k in enumerate(keys) if k is Ellipsis), len(keys))
    keys[at:at + 1] = [slice(None)] * (x.ndim - len(axes))
    if len(axes) > x.ndim:
        raise IndexError("%d indices for %d axes" % (len(axes), x.ndim))
    shape = x.shape
    starts, stops, steps, dropped, added = [], [], [], [], []
    axis = place = 0
    for k in keys:
        if k is None:
            added.append(place)
        elif isinstance(k, slice):
            start, stop, step = k.indices(shape[axis])
            starts.append(start)
            # slices of C count from the end below 0: one that goes down to the first is -len - 1
            stops.append(stop if stop >= 0 else -shape[axis] - 1)
            steps.append(step)
        else:
            i = operator.index(k)
            if not -shape[axis] <= i < shape[axis]:
                raise IndexError("index %d of an axis of %d" % (i, shape[axis]))
            starts.append(i % shape[axis])
            stops.append(i % shape[axis] + 1)
            steps.append(1)
            dropped.append(axis)
            place -= 1
        axis += k is not None
        place += 1
    y = ops.slice(x, starts, stops, steps) if x.ndim else x
    for axis in reversed(dropped):
        y = ops.squeeze(y, axis)
    for place in added:
        y = ops.expand_dims(y, place)
    return y


# ---- making ----

def _scope_for() -> Scope:
    return _stack()[-1] if _stack() else Scope()


def _formats() -> Dict[str, str]:
    """What formats of the buffer protocol are."""
    formats = {code: dtype for dtype, (code, _) in _FORMATS.items() if dtype != "bf16"}
    sizes = {"l": "i%d", "L": "u%d", "n": "i%d", "N": "u%d"}
    for code, name in sizes.items():
        formats[code] = name % (8 * ctypes.sizeof(ctypes.c_long))
    return formats


_BUFFER_DTYPES = _formats()


def _share(address: int, shape: Tuple[int, ...], dtype: str, owner: Any) -> Array:
    scope = _scope_for()
    if address % _BYTES[dtype if dtype != "c64" else "f32"]:
        memory = ctypes.string_at(address, math.prod(shape) * _BYTES[dtype])
        return made(scope, "mica_from_data", memory, dtype_number(dtype), *shape_of(shape))
    return made(scope, "mica_from_host", address, dtype_number(dtype), *shape_of(shape),
                _release(), _dlpack.hold(owner))


def _release() -> Any:
    return ctypes.cast(_dlpack.release, _c.mica_release)


def asarray(values: Any, dtype: Optional[str] = None) -> Array:
    """An array of values: of another array's memory, which must not change while it is used, if
    that can be had (the buffer protocol, DLPack), else of numbers in lists.

    dtype  "f32", "i32" and so on; None: that of the values, of Python's numbers "f32", "i32" or
           "bool\""""
    x = _asarray(values)
    return x if dtype is None or x.dtype == dtype else x.astype(dtype)


def array(values: Any, dtype: Optional[str] = None) -> Array:
    """An array of a copy of values: asarray(), whose memory is its own."""
    x = asarray(values, dtype)
    if x is values or isinstance(values, (list, tuple, bool, int, float)):
        return x
    host = x.host()
    return made(_scope_for(), "mica_from_data", ctypes.c_void_p(host.address),
                dtype_number(x.dtype), *shape_of(x.shape))


def _asarray(values: Any) -> Array:
    if isinstance(values, Array):
        return values
    if isinstance(values, (bool, int, float)):
        scope = _scope_for()
        return Array(scope, _scalar(scope, values))
    if isinstance(values, HostArray):
        return _share(values.address, values.shape, values.dtype, values)
    view = _view(values)
    if view is not None and view.format in _BUFFER_DTYPES:
        dtype = _BUFFER_DTYPES[view.format]
        if view.c_contiguous and view.nbytes:
            address = _address(view)
            return _share(address, view.shape or (), dtype, view)
        return made(_scope_for(), "mica_from_data", view.tobytes(), dtype_number(dtype),
                    *shape_of(view.shape or ()))
    if hasattr(values, "__dlpack__"):
        scope = _scope_for()
        return made(scope, "mica_from_dlpack", *_dlpack.take(values))
    return _of_lists(values)


def _view(values: Any) -> Optional[memoryview]:
    try:
        return memoryview(values)
    except (TypeError, ValueError, BufferError):
        return None


class _PyBuffer(ctypes.Structure):
    _fields_ = [("buf", ctypes.c_void_p), ("obj", ctypes.c_void_p), ("len", ctypes.c_ssize_t),
                ("rest", ctypes.c_char * 64)]


def _address(view: memoryview) -> int:
    """Where a memoryview begins, of one that is read-only, too."""
    buffer = _PyBuffer()
    if ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(view), ctypes.byref(buffer), 0):
        raise BufferError("the memory cannot be had")
    address = buffer.buf or 0
    ctypes.pythonapi.PyBuffer_Release(ctypes.byref(buffer))
    return address


def _of_lists(values: Any) -> Array:
    shape: List[int] = []
    level = values
    while isinstance(level, (list, tuple)):
        shape.append(len(level))
        level = level[0] if level else None
    flat: List[Any] = []
    _flatten(values, tuple(shape), flat)
    kinds = {type(v) for v in flat}
    if kinds - {bool, int, float}:
        raise TypeError("an array cannot be made of %s" % sorted(k.__name__ for k in kinds)[0])
    dtype = "f32" if float in kinds or not kinds else "i32" if int in kinds else "bool"
    if dtype == "i32" and any(not -2**31 <= v < 2**31 for v in flat):
        dtype = "i64"
        flat = [int64_of(v) for v in flat]
    kind: Any = {"f32": ctypes.c_float, "i32": ctypes.c_int32, "i64": ctypes.c_int64,
                 "bool": ctypes.c_bool}[dtype]
    return made(_scope_for(), "mica_from_data", (kind * max(1, len(flat)))(*flat),
                dtype_number(dtype), *shape_of(shape))


def _flatten(values: Any, shape: Tuple[int, ...], flat: List[Any]) -> None:
    if not shape:
        flat.append(values)
        return
    if not isinstance(values, (list, tuple)) or len(values) != shape[0]:
        raise ShapeError("the lists have different lengths")
    for value in values:
        _flatten(value, shape[1:], flat)


def ids_of(ids: Any) -> Array:
    """Token ids [rows, tokens] of what a caller has; embeddings as they are."""
    x = asarray(ids)
    return x.reshape(1, x.shape[0]) if x.ndim == 1 else x


# ---- passes of a model ----

def record_pass(model: "Model", name: str, ids: Any, hidden: Optional[bool]) -> Array:
    scope = _stack()[-1] if _stack() else Scope(model)
    tokens = raw(scope, ids_of(ids))
    rest: Tuple[Any, ...] = ()
    if hidden is not None:
        struct = options(_c.mica_forward_options, {"hidden": hidden})
        rest = (ctypes.byref(struct),)
    with model._box as pointer:
        x = made(scope, name, pointer, tokens, *rest)
    return x.eval() if name == "mica_model_forward" and not _stack() else x


def feed(session: "Session", ids: Sequence[int], hidden: bool) -> Array:
    scope = _stack()[-1] if _stack() else Scope(session.model)
    struct = options(_c.mica_forward_options, {"hidden": hidden})
    result = _c.mica_array()
    with scope._lock, scope._box as into, session._box as pointer:
        check(lib.mica_session_feed(pointer, into, ints(ids), len(ids), ctypes.byref(struct),
                                    ctypes.byref(result)))
    return Array(scope, result)


# ---- gradients ----

def grad(y: Array, xs: Sequence[Array]) -> List[Array]:
    """The gradients of y, an array of one element, by arrays that it was computed from. They are
    recorded in y's scope, as y is: arrays of other scopes count as constants."""
    scope = y._scope
    n = len(xs)
    if any(x._scope is not scope for x in xs):
        raise InvalidError("gradients are by arrays of one scope: compute in a `with mica.Scope()`")
    given, grads = (_c.mica_array * max(1, n))(*(x._raw for x in xs)), (_c.mica_array * max(1, n))()
    none = _c.mica_array(None, 0)
    with scope._lock, scope._box as pointer:
        check(lib.mica_grad(pointer, y._raw, none, given, n, grads))
    return [Array(scope, _copied(grads[i])) for i in range(n)]


def _copied(struct: Any) -> Any:
    return type(struct).from_buffer_copy(struct)


from . import ops  # noqa: E402  pylint: disable=wrong-import-position,cyclic-import
