"""Operators of ``torch.ops`` that launch from a table in C++ (``csrc/host_path.cpp``), without Python.

The table leads from an operator, its options, and sizes, strides, types and device of its tensors to a launch. A call
that it does not have runs in Python, as it does where there is no compiler, and leaves its launch there. The table is
cleared when calls must choose again: when ``autosched.use`` sets another database, after ``functions.forget``, and
when a call log is opened.
"""

from __future__ import annotations

import ctypes
import os
import re
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from autosched.dispatch import call_log, functions, launch_caches
from autosched.dispatch.kernel import LoadedKernel
from autosched.torch.extension import NotBuilt, extension
from measurements.runners.cuda.device import missing_driver
from measurements.runners.driver_steps import DriverParameter, DriverStep
from search_spaces.operators.problem import Problem

VARIABLE = "AUTOSCHED_HOST_PATH"
PYTHON = "python"  # value of the variable that turns the table off

_DRIVER, _TORCH = "libcuda.so.1", "libtorch_cuda.so"
_LAUNCH, _BY_STREAM, _IN_PYTHON = range(3)  # Entry::Kind
_ADDRESS, _TENSOR_MAP, _VALUE = range(3)  # Parameter::Kind
_CODES = {"Tensor": "T", "Tensor?": "O", "str": "s", "int": "w", "float": "w", "bool": "w"}
_ARGUMENT = re.compile(r"(Tensor\??|str|int|float|bool)(?:\([a-z]!\))? \w+(?:=(?:\"[^\"]*\"|[^,)]*))?")


class HostLaunchTableUnavailable(RuntimeError):
    """Operators run in Python. The message is one line with the reason."""


class Called(NamedTuple):
    """Problem of a call, and names of its arrays: those of its tensors in order, then those of its results."""

    problem: Problem
    names: tuple[str, ...]


Describe = Callable[..., Called]  # function of an operator's arguments


class HostLaunchTable:
    """The table from calls to launches, in the loaded extension.

    Args:
        path: The compiled extension.
        driver: Name or path of the CUDA driver's library.
        torch_library: Name or path of torch's library that knows the current stream.

    Raises:
        HostLaunchTableUnavailable: One of the libraries, or a function of theirs, is missing.
    """

    def __init__(self, path: Path, driver: str = _DRIVER, torch_library: str = _TORCH) -> None:
        try:
            self._library = library = ctypes.CDLL(str(path))
        except OSError as error:
            raise HostLaunchTableUnavailable(f"the extension for torch does not load: {error}") from error
        library.autosched_fail.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p]
        library.autosched_fill.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]
        message = ctypes.create_string_buffer(1000)
        of_python = ctypes.pythonapi
        library.autosched_open(
            *(driver.encode(), torch_library.encode(), of_python.PyErr_SetObject, of_python.Py_DecRef),
            *(message, ctypes.c_size_t(len(message))),
        )
        if message.value:
            raise HostLaunchTableUnavailable(message.value.decode("utf-8", "replace"))
        self._replaces_addresses = bool(library.autosched_replaces_addresses())
        # Kernels in the table, which must stay loaded until it is cleared.
        self._kernels: list[LoadedKernel] = []
        self._lock = threading.Lock()
        launch_caches.add(self.clear)

    def register(
        self,
        library: torch.library.Library,
        name: str,
        schema: str,
        key: str,
        in_python: Callable[..., Any],
        describe: Describe,
    ) -> None:
        """Implement a defined operator for a dispatch key.

        Args:
            library: Library of the operator.
            name: The operator.
            schema: Its schema, without the name.
            key: Dispatch key, such as "CUDA".
            in_python: Function that computes the operator, and launches as ``autosched.dispatch.functions`` does.
            describe: Returns problem and arrays of a call of it.

        Raises:
            HostLaunchTableUnavailable: Torch refuses the operator, or its schema has other types than tensors, strings
                and numbers.
        """
        miss = f"_{name}_in_python"
        inputs, arrow, results = schema.rpartition(") ->")
        library.define(f"{miss}(bool fill, {inputs.removeprefix('(')}{arrow}{results}")
        outputs = results.count("Tensor")

        def compute(fill: bool, *given: Any) -> Any:
            try:
                result = in_python(*given)
                if fill:
                    self._fill(result if outputs > 1 else (result,), describe, given)
            except Exception as error:  # C++ raises it again
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(error))
                self._library.autosched_fail(id(type(error)), error, str(error).encode())
                nothing = torch.empty(0)
                return (nothing,) * outputs if outputs > 1 else nothing
            return result

        library.impl(miss, compute, key)
        library.impl(miss, torch.library.fallthrough_kernel, "Autograd")
        codes = "".join(_CODES[found] for found in _ARGUMENT.findall(inputs))
        if len(codes) != inputs.count(",") + 1 or self._library.autosched_register(
            *(text.encode() for text in (library.ns, key, name, f"{library.ns}::{miss}", codes))
        ):
            raise HostLaunchTableUnavailable(f"torch refuses the operator {library.ns}::{name} for {key}")

    def _fill(self, results: Sequence[Any], describe: Describe, arguments: Sequence[Any]) -> None:
        """Describe the launch of the call that this thread has just made, unless it must stay in Python."""
        if call_log.active():  # every call must be logged
            return
        tensors = [a for a in arguments if isinstance(a, torch.Tensor)]
        called = describe(*arguments)
        kernel = functions.loaded_kernel(called.problem, tensors[0].get_device())
        if kernel is None:
            return
        starts = [int(tensor.data_ptr()) for tensor in (*tensors, *results)]
        steps = kernel.driver_steps(called.names, starts, torch)
        if steps is None or (self._has_maps(steps) and not self._replaces_addresses):
            words = [_IN_PYTHON, 0]
        else:
            words = [_BY_STREAM if kernel.by_stream else _LAUNCH, len(steps)]
            for step in steps:
                words += _words(step)
        with self._lock:
            self._kernels.append(kernel)
        packed = np.array(words, np.uint64)
        awaited = functions.awaited_database()
        self._library.autosched_fill(packed.ctypes.data, packed.size, None if awaited is None else os.fsencode(awaited))

    @staticmethod
    def _has_maps(steps: Sequence[DriverStep]) -> bool:
        return any(p.kind == "tensor_map" for step in steps for p in step.parameters)

    def clear(self) -> None:
        """Empty the table. Returns when no thread launches any of its kernels any more."""
        with self._lock:
            kernels, self._kernels = self._kernels, []
        self._library.autosched_clear()
        del kernels  # only now may their modules be unloaded

    def counts(self) -> tuple[int, int]:
        """Return how many calls were launched from the table so far, and how many ran in Python."""
        launched, in_python = ctypes.c_uint64(), ctypes.c_uint64()
        self._library.autosched_counts(ctypes.byref(launched), ctypes.byref(in_python))
        return launched.value, in_python.value


@cache
def launch_table() -> HostLaunchTable | str:
    """Return the table of this process, or one line on why operators run in Python. Decided once."""
    if os.environ.get(VARIABLE) == PYTHON:
        return f"{VARIABLE} is {PYTHON}"
    if torch.version.cuda is None:
        return f"torch {torch.__version__} is built without CUDA"
    if why := missing_driver():
        return why
    try:
        return HostLaunchTable(extension())
    except (NotBuilt, HostLaunchTableUnavailable) as error:
        return str(error)


def implement(
    library: torch.library.Library, name: str, schema: str, in_python: Callable[..., Any], describe: Describe
) -> None:
    """Implement an operator on GPUs: from the table where that can be used here, else in Python.

    Args:
        library: Library that has defined the operator.
        name: The operator.
        schema: Its schema, without the name.
        in_python: Function that computes it.
        describe: Returns problem and arrays of a call of it.
    """
    table = launch_table()
    if not isinstance(table, str):
        with suppress(HostLaunchTableUnavailable):
            table.register(library, name, schema, "CUDA", in_python, describe)
            return
    library.impl(name, in_python, "CUDA")


def _words(step: DriverStep) -> list[int]:
    """Return a step as ``autosched_fill`` reads it."""
    words = [step.function, *step.grid, *step.block, step.shared_bytes, step.launches, *step.cluster]
    words += [int(step.cooperative), int(step.dependent), len(step.parameters)]
    for parameter in step.parameters:
        words += _parameter_words(parameter)
    return words


def _parameter_words(parameter: DriverParameter) -> list[int]:
    content = parameter.content
    kind = {"address": _ADDRESS, "tensor_map": _TENSOR_MAP, "value": _VALUE}[parameter.kind]
    padded = content + bytes(-len(content) % 8)
    return [kind, parameter.array, parameter.encoded_address, len(content), *np.frombuffer(padded, np.uint64).tolist()]
