"""Worker process that runs functions of a user's Python files, so that a crash ends only the worker."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Mapping
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from autosched import blas
from measurements.files.python_file import run_as_module, said
from measurements.workers.messages import Message
from measurements.workers.worker import serve

_MOST_TEXT = 10_000  # maximum length of a message in characters
_MOST_ARRAYS = 1000


def answer(function: Callable[..., Any], arguments: Mapping[str, Any], file: str = "") -> dict[str, Any]:
    """Call ``function`` with the ``arguments`` that are named like its parameters, and return the outcome.

    The outcome has one of three keys: ``result`` is the function's result, ``unknown`` a required parameter that is not
    in ``arguments``, and ``error`` a message. If the traceback has a line of ``file``, ``line`` is its number.
    """
    try:
        takes = inspect.signature(function).parameters
        anything = any(p.kind is p.VAR_KEYWORD for p in takes.values())
        unknown = [
            n for n, p in takes.items() if n not in arguments and p.default is p.empty and p.kind is not p.VAR_KEYWORD
        ]
        if unknown:
            return {"unknown": unknown[0]}
        return {"result": function(**{n: v for n, v in arguments.items() if anything or n in takes})}
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # the user's function may raise any exception, including SystemExit
        frames = traceback.extract_tb(error.__traceback__)
        lines = [f.lineno for f in frames if file and Path(f.filename).name == Path(file).name]
        return {"error": said(error), "line": lines[-1] if lines else None}


def handle(request: Message) -> Message:
    """Call the function that a request names, and return the reply.

    A request has ``path`` and ``name`` of the function, ``numbers`` and ``arrays`` (dtype, shape, blob) that it may
    use, and ``answer_bytes``, the limit for returned arrays.
    """
    arguments: dict[str, Any] = dict(request["numbers"])
    for name, (dtype, shape, blob) in request["arrays"].items():
        arguments[name] = np.frombuffer(bytes(request.blobs[blob]), np.dtype(dtype)).reshape(shape).copy()

    try:
        function = loaded(request["path"], request["content"], request["name"])
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return Message({"error": said(error), "line": None})
    with blas.single_thread():
        arrays = answer(function, arguments, request["path"])
    if "result" not in arrays:
        return Message(arrays)
    return _encoded(arrays["result"], request["answer_bytes"])


@lru_cache(maxsize=16)
def loaded(path: str, content: str, name: str) -> Callable[..., Any]:
    """Run a user's Python file and return its function ``name``. The file runs again only if ``content`` has changed.

    Exceptions of the file are not caught.
    """
    module = run_as_module(Path(path), f"autosched_{Path(path).stem}")
    loaded_function: Callable[..., Any] = getattr(module, name)
    return loaded_function


def _encoded(result: Any, most: int) -> Message:
    """Return the reply with a result.

    ``most`` is the number of bytes of a correct result. Once the arrays exceed this total, only the type and the shape
    of each further array are returned.
    """
    message = Message({})
    if result is None or isinstance(result, (str, bool, np.bool_)):
        message["plain"] = bool(result) if isinstance(result, np.bool_) else result
        if isinstance(result, str):
            message["plain"] = result[:_MOST_TEXT]
        return message
    arrays: dict[str, Any] = {}
    for name, value in islice(result.items(), _MOST_ARRAYS) if isinstance(result, Mapping) else [("", result)]:
        try:
            array = np.ascontiguousarray(value)
        except (TypeError, ValueError):  # for example, a list of rows with different lengths
            array = np.array(None)
        key = str(name)[:_MOST_TEXT]
        if array.dtype.kind not in "fiub":
            arrays[key] = None
            continue
        most -= array.nbytes
        arrays[key] = [array.dtype.str, list(np.shape(value)), message.attach(array.tobytes()) if most >= 0 else None]
    message["arrays"], message["mapping"] = arrays, isinstance(result, Mapping)
    return message


if __name__ == "__main__":
    # cache no arrays, because arrays of earlier requests would count towards the memory of later functions
    serve(handle, store_bytes=0)
