"""Training: adapters of a model, and steps of one's own."""
from __future__ import annotations

import ctypes
import json
import os
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Optional, \
    Sequence, Tuple, Union

from . import _c, _progress
from ._array import Array, Device, Scope, _stack, default_device, ids_of, made, raw
from ._library import Cancel, Handle, InvalidError, MicaError, Watch, check, choice, \
    ints, lib, name_of, opened, options, path_of, record, text, texts_of

PathLike = Union[str, "os.PathLike[str]"]


class TuneReport(NamedTuple):
    """A report of a training: event is "plan", "train", "valid", "test", "saved" or "note"."""

    event: str
    iteration: int
    iterations: int
    loss: float
    rate: float
    norm: float
    tokens_per_second: float
    iterations_per_second: float
    trained_tokens: int
    memory_bytes: int
    seconds_left: float
    text: str


class TuneResult(NamedTuple):
    """What training came to."""

    iteration: int
    train_loss: float
    valid_loss: float
    test_loss: float
    trained_tokens: int
    peak_bytes: int
    seconds: float


Watcher = Callable[[TuneReport], Any]
_OPTIMIZER = {"optimizer": "name", "learning_rate": "learning_rate", "beta1": "beta1",
              "beta2": "beta2", "eps": "eps", "weight_decay": "weight_decay",
              "momentum": "momentum"}


class Tuner(Handle):
    """A model with parameters that are trained.

        with mica.Tuner("models/default") as tuner:
            tuner.lora(rank=8)
            tuner.train([{"prompt": "...", "completion": "..."}], iterations=60)
            tuner.save("adapter")"""

    _kind = "tuner"

    def __init__(self, path: PathLike, *, device: Union[None, str, Device] = None, threads: int = 0,
                 no_mmap: bool = False, arithmetic: str = "default",
                 chat_template: Optional[str] = None) -> None:
        from ._model import find_model
        struct = options(_c.mica_tuner_options, {
            "device_name": device if isinstance(device, str) else None, "threads": threads,
            "no_mmap": no_mmap, "arithmetic": choice(_c.mica_arithmetic, arithmetic, "arithmetic"),
            "chat_template": chat_template})
        self._folder = find_model(path)
        arguments = (path_of(self._folder), ctypes.byref(struct))
        if isinstance(device, Device):
            with device._box as struct.device:
                pointer = opened(lib.mica_tuner_open, *arguments)
        else:
            pointer = opened(lib.mica_tuner_open, *arguments)
        super().__init__(pointer, lib.mica_tuner_close)

    def lora(self, *, kind: str = "lora", modules: Sequence[str] = (), layers: int = 0,
             rank: int = 0, scale: float = 0.0, alpha: float = 0.0, dropout: float = 0.0,
             bf16: bool = False, seed: int = 0, memory_limit_bytes: int = 0) -> "Tuner":
        """Makes the parameters: factors of matrices ("lora", "dora"), or the weights ("full")."""
        struct = options(_c.mica_lora_options, {
            "kind": choice(_c.mica_tune_kind, kind, "kind of training"), "layers": layers,
            "rank": rank, "scale": scale, "alpha": alpha, "dropout": dropout, "bf16": bf16,
            "seed": seed, "memory_limit_bytes": memory_limit_bytes})
        struct.modules = texts_of([text(module) for module in modules])
        struct.n_modules = len(modules)
        with self._box as tuner:
            check(lib.mica_lora_apply(tuner, ctypes.byref(struct)))
        return self

    @property
    def trained(self) -> int:
        """The number of numbers that are trained."""
        with self._box as tuner:
            return int(lib.mica_tuner_trained(tuner))

    def parameters(self) -> Dict[str, Any]:
        """Copies of the parameters by their names, in memory of the host."""
        found = {}
        with self._box as tuner:
            for i in range(lib.mica_tuner_parameter_count(tuner)):
                struct = _c.mica_parameter()
                struct.struct_bytes = ctypes.sizeof(struct)
                check(lib.mica_tuner_get_parameter(tuner, i, ctypes.byref(struct)))
                found[struct.name.decode()] = _read(struct.value)
        return found

    def train(self, data: Union[PathLike, Iterable[Any]], *, adapter: Optional[PathLike] = None,
              valid: Iterable[Any] = (), watch: Optional[Watcher] = None,
              loss_fn: Optional[Callable[[Array, Array, Array], Array]] = None,
              schedule: Optional[Mapping[str, Any]] = None, format: str = "mlx",
              too_long: str = "cut", average: str = "tokens",
              progress: _progress.Progress = None, cancel: Optional[Cancel] = None,
              **others: Any) -> TuneResult:
        """Trains the parameters.

        data      a folder, a file, or examples: mappings as of a line of data ({"text"},
                  {"messages"}, {"prompt", "completion"}), or lists of token ids
        adapter   folder for the adapter and the state; None: nothing is saved
        watch     called with each TuneReport
        loss_fn   records a loss of logits [B, T, vocab], targets [B, T] and mask [B, T]
        schedule  {"name": "cosine_decay", "arguments": [1e-4, 100], "warmup": 10}

        Others are optimizer, learning_rate, weight_decay, ..., and the members of
        mica_tune_options: iterations, batch_size, max_seq_length, mask_prompt, pack, resume, seed,
        report_every, ... Ctrl-C and cancel save the state; cancel raises CancelledError."""
        call = _Training(Watch(cancel), watch, _progress.bar_of(progress, "training"))
        values = dict(others)
        optimizer = options(_c.mica_optimizer_options, {
            member: values.pop(name) for name, member in _OPTIMIZER.items() if name in values})
        unknown = set(values) - {member[0] for member in _c.mica_tune_options._fields_}
        if unknown:
            raise TypeError("there is no option %r of training" % sorted(unknown)[0])
        struct = options(_c.mica_tune_options, {
            **values, "format": choice(_c.mica_adapter_format, format, "format"),
            "too_long": choice(_c.mica_tune_long, too_long, "way with long examples"),
            "average": choice(_c.mica_tune_average, average, "average"),
            "adapter": None if adapter is None else path_of(adapter)})
        struct.optimizer = ctypes.pointer(optimizer)
        if schedule is not None:
            struct.schedule = ctypes.pointer(_schedule(schedule))
        if isinstance(data, (str, os.PathLike)):
            struct.data = path_of(data)
        else:
            struct.source = call.source({"train": iter(data), "valid": iter(valid)})
        if loss_fn is not None:
            struct.loss_fn = call.loss(self, loss_fn)
        struct.watch, struct.cancel = call.watcher(), call.watch.pointer()
        result = _c.mica_tune_result()
        result.struct_bytes = ctypes.sizeof(result)
        try:
            with self._box as tuner:
                call.watch.call(lib.mica_tune, tuner, ctypes.byref(struct), ctypes.byref(result))
        finally:
            _progress.end(call.bar)
        return record(TuneResult, result)

    def forward(self, ids: Any, params: Optional[Sequence[Array]] = None) -> Array:
        """Records the pass of the model with these parameters, or its own: logits."""
        scope = _stack()[-1] if _stack() else Scope(self)  # type: ignore[arg-type]
        tokens = raw(scope, ids_of(ids))
        given = None
        if params is not None:
            given = (_c.mica_array * max(1, len(params)))(*(raw(scope, p) for p in params))
        with self._box as tuner:
            if params is not None and len(params) != lib.mica_tuner_parameter_count(tuner):
                raise InvalidError("%d parameters, and there are %d" % (
                    len(params), lib.mica_tuner_parameter_count(tuner)))
            return made(scope, "mica_tuner_forward", tuner, given, tokens, None)

    def save(self, folder: PathLike, format: str = "mlx") -> None:
        """Saves the adapter: of mlx-lm's format, or PEFT's ("peft")."""
        with self._box as tuner:
            check(lib.mica_tuner_save(tuner, path_of(folder),
                                      choice(_c.mica_adapter_format, format, "format")))

    def load(self, path: PathLike) -> None:
        """Reads the parameters' values from an adapter."""
        with self._box as tuner:
            check(lib.mica_tuner_load(tuner, path_of(path)))

    def __repr__(self) -> str:
        from ._model import short
        return "<mica.Tuner of %r, %s>" % (
            os.path.basename(os.path.normpath(self._folder)),
            "closed" if self.closed else "%s numbers trained" % short(self.trained))


def _read(array: Any) -> Any:
    """A copy of an array's values."""
    from ._array import _BYTES, make_host
    shape = tuple(lib.mica_array_dim(array, i) for i in range(lib.mica_array_ndim(array)))
    dtype = name_of(_c.mica_dtype, lib.mica_array_dtype(array))
    memory = (ctypes.c_char * (lib.mica_array_size(array) * _BYTES[dtype]))()
    check(lib.mica_read(array, memory, len(memory)))
    return make_host(memory, dtype, shape)


def _schedule(values: Mapping[str, Any]) -> Any:
    struct = _c.mica_schedule()
    arguments = list(values.get("arguments", ()))
    if len(arguments) > 4:
        raise InvalidError("a schedule has at most 4 arguments")
    struct.name = text(values["name"]) if values.get("name") else None
    struct.arguments = (ctypes.c_double * 4)(*arguments)
    struct.n_arguments = len(arguments)
    struct.warmup = values.get("warmup", 0)
    struct.warmup_init = values.get("warmup_init", 0.0)
    return struct


class _Training:
    """What a call of mica_tune calls."""

    def __init__(self, watch: Watch, told: Optional[Watcher], bar: Any) -> None:
        self.watch, self.told, self.bar = watch, told, bar
        self._kept: List[Any] = []  # what an example points at, until the next one

    def watcher(self) -> Any:
        return self.watch.guard(_c.mica_tune_watch, self._tell)

    def _tell(self, _: Any, report: Any) -> None:
        struct = report.contents
        said = record(TuneReport, struct, event=name_of(_c.mica_tune_event, struct.event))
        if self.bar is not None and said.event == "train":
            if isinstance(self.bar, _progress.Bar):
                self.bar.label = "training, loss %.3f" % said.loss
            self.bar(said.iteration, said.iterations)
        if self.told is not None:
            self.told(said)

    def source(self, sets: Dict[str, Iterator[Any]]) -> Any:
        def give(_: Any, which: int, example: Any, there: Any) -> int:
            value = next(sets.get(name_of(_c.mica_tune_set, which), iter(())), None)
            there[0] = value is not None
            if value is not None:
                self._fill(example.contents, value)
            return 0

        return self.watch.guard(_c.mica_tune_source, give, _c.mica_status["ecancelled"])

    def _fill(self, example: Any, value: Any) -> None:
        if isinstance(value, Mapping):
            line = ctypes.create_string_buffer(text(json.dumps(value)))
            example.line = ctypes.cast(line, ctypes.c_char_p)
            self._kept = [line]
        else:
            ids = ints(value)
            example.ids, example.count = ids, len(value)
            self._kept = [ids]

    def loss(self, tuner: Tuner, function: Callable[[Array, Array, Array], Array]) -> Any:
        def compute(_: Any, scope: int, args: Any, n_args: int, results: Any, __: int) -> int:
            with _Borrowed(scope) as borrowed:
                arrays = [Array(borrowed, type(args[i]).from_buffer_copy(args[i]))
                          for i in range(n_args)]
                y = function(*arrays)
                results[0] = raw(borrowed, y)
            return 0

        return self.watch.guard(_c.mica_compile_fn, compute, _c.mica_status["ecancelled"])


class _Borrowed(Scope):
    """A scope of C's, for the time of a call."""

    def __init__(self, pointer: int) -> None:  # pylint: disable=super-init-not-called
        import threading
        self._lock = threading.RLock()
        Handle.__init__(self, pointer, lambda _: None)


def tune(path: PathLike, data: Any, *, adapter: Optional[PathLike] = None, rank: int = 0,
         layers: int = 0, kind: str = "lora", modules: Sequence[str] = (), scale: float = 0.0,
         dropout: float = 0.0, device: Union[None, str, Device] = None, threads: int = 0,
         **options: Any) -> TuneResult:
    """Trains an adapter of a model: Tuner, Tuner.lora() and Tuner.train() in one.

        mica.tune("models/default", "examples/tune", adapter="adapter", iterations=60)"""
    with Tuner(path, device=device, threads=threads) as tuner:
        tuner.lora(kind=kind, modules=modules, layers=layers, rank=rank, scale=scale,
                   dropout=dropout, seed=options.get("seed", 0))
        return tuner.train(data, adapter=adapter, **options)


class Optimizer(Handle):
    """An optimiser of arrays: "adamw", "adam", "sgd", "lion", "adafactor" or "muon"."""

    _kind = "optimizer"

    def __init__(self, name: str = "adam", *, device: Optional[Device] = None,
                 **values: Any) -> None:
        struct = options(_c.mica_optimizer_options, {"name": name, **values})
        owner = device if device is not None else default_device()
        with owner._box as at:
            pointer = opened(lib.mica_optimizer_open, at, ctypes.byref(struct))
        super().__init__(pointer, lib.mica_optimizer_close)

    def update(self, params: Sequence[Array], grads: Sequence[Array],
               rate: Optional[float] = None) -> List[Array]:
        """The parameters after a step; rate: the learning rate of this one."""
        if len(params) != len(grads):
            raise InvalidError("%d parameters and %d gradients" % (len(params), len(grads)))
        if not params:
            return []
        scope = _stack()[-1] if _stack() else params[0]._scope
        n = len(params)
        given: Tuple[Any, ...] = tuple(
            (_c.mica_array * n)(*(raw(scope, x) for x in xs)) for xs in (params, grads))
        after = (_c.mica_array * n)()
        with scope._lock, scope._box as into, self._box as optimizer:
            if rate is None:
                rate = lib.mica_optimizer_rate(optimizer)
            check(lib.mica_optimizer_update(optimizer, into, *given, n, rate, after))
        return [Array(scope, type(x).from_buffer_copy(x)) for x in after]

    @property
    def steps(self) -> int:
        """The number of updates."""
        with self._box as optimizer:
            return int(lib.mica_optimizer_steps(optimizer))

    def __repr__(self) -> str:
        return "<mica.Optimizer, %s>" % ("closed" if self.closed else "%d steps" % self.steps)


__all__ = ["MicaError", "Optimizer", "TuneReport", "TuneResult", "Tuner", "tune"]
