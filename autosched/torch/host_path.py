"""Operators of ``torch.ops`` whose launches come from a table in C++ (``csrc/host_path.cpp``), without Python.

A key of the table consists of the operator, its options, and the sizes, strides, types and device of its tensors. A
call that is not in the table runs in Python, which adds the call's launch to the table. Without a compiler every call
runs in Python. The table is cleared whenever kernels must be selected again: after ``autosched.use`` sets another
database, after ``functions.forget``, and when a call log is opened.
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
PYTHON = "python"  # value of the environment variable by which users disable the table

_DRIVER, _TORCH = "libcuda.so.1", "libtorch_cuda.so"
_LAUNCH, _BY_STREAM, _IN_PYTHON = range(3)  # values of Entry::Kind in C++
_ADDRESS, _TENSOR_MAP, _VALUE = range(3)  # values of Parameter::Kind in C++
_CODES = {"Tensor": "T", "Tensor?": "O", "str": "s", "int": "w", "float": "w", "bool": "w"}
_ARGUMENT = re.compile(r"(Tensor\??|str|int|float|bool)(?:\([a-z]!\))? \w+(?:=(?:\"[^\"]*\"|[^,)]*))?")


class HostLaunchTableUnavailable(RuntimeError):
    """The table cannot be used, so operators run in Python. The message is one line with the reason."""


class Called(NamedTuple):
    """Problem of a call, and the names of its arrays: first the tensors of the call in order, then its results."""

    problem: Problem
    names: tuple[str, ...]


Describe = Callable[..., Called]  # a function with the parameters of an operator, which describes a call


class HostLaunchTable:
    """Table that maps calls to launches, in the loaded extension.

    Args:
        path: The compiled extension.
        driver: Name or path of the CUDA driver's library.
        torch_library: Name or path of torch's library that returns the current stream.

    Raises:
        HostLaunchTableUnavailable: A library, or one of its functions, is missing.
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
        # Kernels in the table. They must stay loaded until the table is cleared.
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
            name: Name of the operator.
            schema: Schema of the operator, without its name.
            key: Dispatch key, such as "CUDA".
            in_python: Function that computes the operator, and launches kernels as ``autosched.dispatch.functions``
                does.
            describe: Returns the problem and arrays of a call.

        Raises:
            HostLaunchTableUnavailable: Torch rejects the operator, or its schema has types other than tensors, strings
                and numbers.
        """
        miss = f"_{name}_in_python"
        inputs, arrow, results = schema.rpartition(") ->")
        library.define(f"{miss}(bool fill, {inputs.removeprefix('(')}{arrow}{results}")
        outputs = results.count("Tensor")

        def compute(fill: bool, *arguments: Any) -> Any:
            try:
                result = in_python(*arguments)
                if fill:
                    self._fill(result if outputs > 1 else (result,), describe, arguments)
            except Exception as error:  # the exception is stored, and the C++ code raises it again
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(error))
                self._library.autosched_fail(id(type(error)), error, str(error).encode())
                nothing = torch.empty(0)
                return (nothing,) * outputs if outputs > 1 else nothing
            return result

        library.impl(miss, compute, key)
        library.impl(miss, torch.library.fallthrough_kernel, "Autograd")
        codes = "".join(_CODES[argument_type] for argument_type in _ARGUMENT.findall(inputs))
        if len(codes) != inputs.count(",") + 1 or self._library.autosched_register(
            *(text.encode() for text in (library.ns, key, name, f"{library.ns}::{miss}", codes))
        ):
            raise HostLaunchTableUnavailable(f"torch refuses the operator {library.ns}::{name} for {key}")

    def _fill(self, results: Sequence[Any], describe: Describe, arguments: Sequence[Any]) -> None:
        """Add the launch of this thread's latest call to the table, unless such calls must run in Python."""
        if call_log.active():  # with an open call log, calls must run in Python, which logs them
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
        """Empty the table, and wait until no thread launches a kernel from it."""
        with self._lock:
            kernels, self._kernels = self._kernels, []
        self._library.autosched_clear()
        del kernels  # modules may be unloaded only after the table is empty

    def counts(self) -> tuple[int, int]:
        """Return the number of calls launched from the table so far, and the number of calls that ran in Python."""
        launched, in_python = ctypes.c_uint64(), ctypes.c_uint64()
        self._library.autosched_counts(ctypes.byref(launched), ctypes.byref(in_python))
        return launched.value, in_python.value


@cache
def launch_table() -> HostLaunchTable | str:
    """Return this process's table, or one line with the reason why operators run in Python. The result is cached."""
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
    """Implement an operator for GPUs: with the table of launches, or in Python if there is no table.

    Args:
        library: Library that defines the operator.
        name: Name of the operator.
        schema: Schema of the operator, without its name.
        in_python: Function that computes the operator.
        describe: Returns the problem and arrays of a call.
    """
    table = launch_table()
    if not isinstance(table, str):
        with suppress(HostLaunchTableUnavailable):
            table.register(library, name, schema, "CUDA", in_python, describe)
            return
    library.impl(name, in_python, "CUDA")


def _words(step: DriverStep) -> list[int]:
    """Encode a driver step as the list of integers that ``autosched_fill`` decodes."""
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
