"""Run the C++ host path over a fake CUDA driver, with CPU tensors in place of GPU tensors.

``Driver`` records both sides: the launches that cupy would make for the Python path, and the calls of
``cuLaunchKernelEx`` by the C++ path.
"""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fake_cupy import FakeCupy

from autosched.dispatch import kernel as dispatch_kernel
from autosched.torch.extension import NotBuilt, extension
from autosched.torch.host_path import HostLaunchTable
from benchmarks.overhead.stand_in import compiled_stand_in
from benchmarks.overhead.torch_without_gpu import cpu_tensors_as_cuda
from measurements.files.work_folders import process_folder
from measurements.runners import attributed_launch, launch
from search_spaces.launches.launch import Launch


@dataclasses.dataclass(frozen=True)
class Launched:
    """The arguments of one launch, as the driver receives them."""

    function: int
    grid: tuple[int, ...]
    block: tuple[int, ...]
    shared: int
    cluster: tuple[int, ...] | None
    cooperative: bool
    dependent: bool
    stream: int
    parameters: tuple[bytes, ...]


class _Attribute(ctypes.Structure):
    _fields_ = [("id", ctypes.c_int), ("padding", ctypes.c_int), ("value", ctypes.c_uint * 16)]


class _Config(ctypes.Structure):
    _fields_ = [
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_Attribute)),
        ("attribute_count", ctypes.c_uint),
    ]


LISTENER = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.POINTER(_Config),
    ctypes.c_void_p,
    ctypes.POINTER(ctypes.c_void_p),
    ctypes.c_void_p,
)


def as_launched(config: Any, function: int, parameters: Any, sizes: Sequence[int]) -> Launched:
    """Return a record of a call of ``cuLaunchKernelEx``. ``sizes`` are the sizes of its parameters in bytes."""
    c = config.contents
    attributes: dict[int, Any] = {c.attributes[i].id: c.attributes[i].value for i in range(c.attribute_count)}
    return Launched(
        function,
        tuple(c.grid),
        tuple(c.block),
        c.shared,
        tuple(attributes[4][:3]) if 4 in attributes else None,
        2 in attributes and attributes[2][0] == 1,
        6 in attributes and attributes[6][0] == 1,
        c.stream or 0,
        tuple(ctypes.string_at(parameters[i], size) for i, size in enumerate(sizes)),
    )


class Driver(FakeCupy):
    """A fake cupy that records launches of the Python path, and a fake driver that records launches of the C++ path.

    ``from_python`` and ``from_table`` list the launches of the two paths. ``result`` is the return value of
    ``cuLaunchKernelEx``. ``on_launch`` is called with each launch, and with True for launches of the C++ path.
    """

    def __init__(self, library: Path) -> None:
        super().__init__(gpus=1)
        self.path = library
        self.library = ctypes.CDLL(str(library))
        self.library.stand_in_stream.argtypes = [ctypes.c_void_p]
        self.from_python: list[Launched] = []
        self.from_table: list[Launched] = []
        self.contexts: list[int] = []
        self.result = 0
        self.on_launch: Callable[[Launched, bool], None] = lambda *_: None
        self._stream = 0
        self._functions: dict[tuple[bytes, str], int] = {}
        self._sizes: dict[int, tuple[int, ...]] = {}
        self._listener = LISTENER(self._hear)
        self.library.stand_in_listen(self._listener)
        self.RawModule = functools.partial(_Module, self)

    @property
    def stream(self) -> int:
        """Return the current stream of torch and cupy."""
        return self._stream

    @stream.setter
    def stream(self, stream: int) -> None:
        self._stream = stream
        self.library.stand_in_stream(stream)

    def handle(self, cubin: bytes, entry: str) -> int:
        return self._functions.setdefault((cubin, entry), 0x7000_0000_0000 + len(self._functions))

    def launched(
        self, function: int, step: Launch, grid: Sequence[int], parameters: Sequence[Any], **more: Any
    ) -> None:
        """Record a launch by the Python path. The kernel's parameters are numpy scalars, or addresses as ints."""
        stored = tuple(np.uint64(p).tobytes() if isinstance(p, int) else p.tobytes() for p in parameters)
        self._sizes[function] = tuple(len(p) for p in stored)
        attributes = {"cluster": None, "cooperative": False, "dependent": False, **more}
        shared, block = step.dynamic_shared_bytes, tuple(step.block)
        stream = self._stack("stream")[-1]
        one = Launched(function, tuple(grid), block, shared, stream=stream, parameters=stored, **attributes)
        self.from_python.append(one)
        self.on_launch(one, False)

    def _hear(self, config: Any, function: int, parameters: Any, context: int | None) -> int:
        self.contexts.append(context or 0)
        if self.result:
            return self.result
        one = as_launched(config, function, parameters, self._sizes[function])
        self.from_table.append(one)
        self.on_launch(one, True)
        return 0


class _Module:
    def __init__(self, driver: Driver, path: str) -> None:
        self._driver, self._cubin = driver, Path(path).read_bytes()

    def get_function(self, entry: str) -> Any:
        return _Function(self._driver, self._driver.handle(self._cubin, entry))


class _Function:
    max_dynamic_shared_size_bytes = 0

    def __init__(self, driver: Driver, handle: int) -> None:
        self._driver = driver
        self.kernel = SimpleNamespace(ptr=handle)

    def __call__(self, grid: Any, block: Any, parameters: Any, shared_mem: int) -> None:
        step = SimpleNamespace(block=block, dynamic_shared_bytes=shared_mem)
        self._driver.launched(self.kernel.ptr, step, grid, parameters)


@functools.cache
def _opened() -> tuple[HostLaunchTable, Driver]:
    """Return the launch table of this process, and the fake driver that it calls.

    Both are created once per process, because torch keeps the registered operators.
    """
    library = compiled_stand_in(process_folder("stand-in"), "libstand_in.so")  # other tests must not load a driver
    try:
        return HostLaunchTable(extension(), str(library), str(library)), Driver(library)
    except NotBuilt as error:
        pytest.skip(f"the extension for torch is not built: {error}")


@contextmanager
def stand_in(patch: pytest.MonkeyPatch) -> Iterator[tuple[HostLaunchTable, Driver]]:
    """Yield the host path and the fake driver, which also replaces cupy. CPU tensors count as tensors of its GPU."""
    path, driver = _opened()
    driver.from_python, driver.from_table, driver.contexts, driver.result = [], [], [], 0
    driver.stream, driver.on_launch = 0, lambda *_: None
    path.clear()

    def launched(self: Any, grid: Any, parameters: Any, stream: int) -> None:
        cluster = None if self.cluster == (1, 1, 1) else self.cluster
        attributes = {"cluster": cluster, "cooperative": self.cooperative, "dependent": self.dependent}
        driver.launched(self.function, self.launch, grid, parameters, **attributes)

    def initialize(
        self: Any, function: int, launch: Launch, *, cluster: Any = (1, 1, 1), dependent: bool = False
    ) -> None:
        self.function, self.launch, self.cluster, self.dependent = function, launch, cluster, dependent
        self.cooperative = launch.cooperative

    patch.setattr(attributed_launch.AttributedLaunch, "__init__", initialize)
    patch.setattr(attributed_launch.AttributedLaunch, "__call__", launched)
    patch.setattr(launch, "_check_cluster", lambda function, cluster: function % 2 == 0)
    patch.setattr(launch, "_clusters_at_a_time", lambda *_: 6)
    patch.setattr(launch, "_encode_function", lambda: _encode(driver))
    patch.setattr(dispatch_kernel, "torch_stream", lambda torch, gpu: driver.stream)
    patch.setitem(sys.modules, "cupy", driver)
    with cpu_tensors_as_cuda():
        yield path, driver
    path.clear()


def _encode(driver: Driver) -> Any:
    encode = driver.library.cuTensorMapEncodeTiled
    pointer, sizes, numbers = ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint64), ctypes.POINTER(ctypes.c_uint32)
    number = ctypes.c_int
    encode.argtypes = [
        *(pointer, number, ctypes.c_uint32, pointer, sizes, sizes, numbers, numbers),
        *(number, number, number, number),
    ]
    return encode
