"""The process that runs functions of a user's Python files: whatever ends it, ends nothing else."""

from __future__ import annotations

import importlib.util
import inspect
import traceback
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from measurements.workers.messages import Message
from measurements.workers.worker import serve


def answer(function: Callable[..., Any], given: Mapping[str, Any], file: str = "") -> dict[str, Any]:
    """Return what ``function`` returns for those of ``given`` that its parameters name, as ``result``; or ``unknown``,
    a parameter that nothing is given for; or ``error`` and ``line``, that of ``file`` where one passed through it."""
    try:
        takes = inspect.signature(function).parameters
        anything = any(p.kind is p.VAR_KEYWORD for p in takes.values())
        unknown = [
            n for n, p in takes.items() if n not in given and p.default is p.empty and p.kind is not p.VAR_KEYWORD
        ]
        if unknown:
            return {"unknown": unknown[0]}
        return {"result": function(**{n: v for n, v in given.items() if anything or n in takes})}
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # the user's code may raise anything, and may want to exit
        frames = traceback.extract_tb(error.__traceback__)
        lines = [f.lineno for f in frames if file and Path(f.filename).name == Path(file).name]
        said = " ".join(f"{type(error).__name__}: {error}".split())
        return {"error": said, "line": lines[-1] if lines else None}


def handle(request: Message) -> Message:
    """``path`` and ``name`` of the function, ``numbers`` and ``arrays`` (dtype, shape, blob) that it may ask for."""
    given: dict[str, Any] = dict(request["numbers"])
    for name, (dtype, shape, blob) in request["arrays"].items():
        given[name] = np.frombuffer(bytes(request.blobs[blob]), np.dtype(dtype)).reshape(shape).copy()

    try:
        function = loaded(request["path"], request["content"], request["name"])
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        said = " ".join(f"{type(error).__name__}: {error}".split())
        return Message({"error": said, "line": None})
    found = answer(function, given, request["path"])
    if "result" not in found:
        return Message(found)
    return _encoded(found["result"])


@lru_cache(maxsize=16)
def loaded(path: str, content: str, name: str) -> Callable[..., Any]:
    """Return the function of a user's Python file, which is run for it; again where its ``content`` is another one.
    Raises whatever that raises."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{Path(path).name} is not a Python file: give it a name that ends with .py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: Callable[..., Any] = getattr(module, name)
    return found


def _encoded(result: Any) -> Message:
    message = Message({})
    if result is None or isinstance(result, (str, bool, np.bool_)):
        message["plain"] = result if result is None or isinstance(result, str) else bool(result)
        return message
    arrays: dict[str, Any] = {}
    for name, value in result.items() if isinstance(result, Mapping) else [("", result)]:
        try:
            array = np.ascontiguousarray(value)
        except (TypeError, ValueError):  # rows of different lengths
            array = np.array(None)
        if array.dtype.kind not in "fiub":
            arrays[str(name)] = None
            continue
        arrays[str(name)] = [array.dtype.str, list(np.shape(value)), message.attach(array.tobytes())]
    message["arrays"], message["mapping"] = arrays, isinstance(result, Mapping)
    return message


if __name__ == "__main__":
    serve(handle)
