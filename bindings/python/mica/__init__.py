"""mica: language models in the MLX / Hugging Face layout, in this process.

    import mica

    with mica.Model() as model:
        for token in model.chat("What is curl?"):
            print(token, end="", flush=True)

docs/python.md describes it: answers, batches, embeddings, training, arrays, ONNX files."""
from . import ops
from ._array import (Array, Device, DeviceInfo, HostArray, Scope, array, asarray, default_device,
                     grad)
from ._files import load, save
from ._library import (BusyError, Cancel, CancelledError, ClosedError, ContextError, DeviceError,
                       DtypeError, FileError, FormatError, InternalError, InvalidError, MicaError,
                       NotFoundError, OutOfMemoryError, ShapeError, UnsupportedError, version)
from ._model import (Class, Completion, FoundModel, Model, ModelInfo, Score, Session,
                     default_model, discover, find_model, pull)
from ._options import GenerateOptions
from ._program import Outputs, Port, Program
from ._stream import Metrics, Stream, Token
from ._tune import Optimizer, TuneReport, TuneResult, Tuner, tune

__version__ = version()

__all__ = [
    "Array", "BusyError", "Cancel", "CancelledError", "Class", "ClosedError", "Completion",
    "ContextError", "Device", "DeviceError", "DeviceInfo", "DtypeError", "FileError", "FormatError",
    "FoundModel", "GenerateOptions", "HostArray", "InternalError", "InvalidError", "Metrics",
    "MicaError", "Model", "ModelInfo", "NotFoundError", "Optimizer", "OutOfMemoryError", "Outputs",
    "Port", "Program", "Scope", "Score", "Session", "ShapeError", "Stream", "Token", "TuneReport",
    "TuneResult", "Tuner", "UnsupportedError", "array", "asarray", "default_device",
    "default_model", "discover", "find_model", "grad", "load", "ops",
    "pull", "save", "tune", "version"]
