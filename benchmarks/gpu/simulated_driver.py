"""A simulated cupy whose launches return immediately, for timing the host code that precedes a launch.

No GPU is needed, and the arrays have no memory. Times exclude cupy's own code between ``RawKernel.__call__`` and the
driver, for all compared calls. Accessing attributes of arrays takes as long as with a GPU.
"""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import cupy
import numpy as np

ATTRIBUTES = {
    "MultiProcessorCount": 132,
    "L2CacheSize": 60 * 2**20,
}
_SPACING = 1 << 30  # distance between the addresses of two arrays, in bytes


def launch(grid: Any, block: Any, parameters: Any, shared_mem: int = 0) -> None:
    """Do nothing, in place of the driver's function that launches a kernel."""


class SimulatedDriver:
    """Replacement for ``sys.modules["cupy"]``. ``empty`` creates arrays; ``gpu`` is the index of the only GPU."""

    __version__ = cupy.__version__
    ndarray = cupy.ndarray

    def __init__(self, gpu: int = 0) -> None:
        self._free = itertools.count(_SPACING, _SPACING)
        stream = SimpleNamespace(ptr=0)
        properties = {"name": b"NVIDIA H200", "totalGlobalMem": 150_000_000_000, "major": 9, "minor": 0}
        self.cuda = SimpleNamespace(
            Device=lambda number=gpu: _Device(number),
            Stream=cupy.cuda.Stream,
            get_current_stream=lambda: stream,
            runtime=SimpleNamespace(
                getDevice=lambda: gpu,
                getDeviceProperties=lambda _gpu: properties,
                runtimeGetVersion=lambda: 13000,
            ),
        )

    def RawModule(self, path: str) -> Any:
        with open(path, "rb") as file:
            file.read()
        return SimpleNamespace(get_function=lambda name: _Function())

    def empty(self, shape: tuple[int, ...], dtype: Any = np.float32) -> Any:
        start = next(self._free)
        memory = cupy.cuda.UnownedMemory(start, _SPACING, None, 0)
        return cupy.ndarray(shape, dtype, memptr=cupy.cuda.MemoryPointer(memory, 0))


class _Device:
    attributes = ATTRIBUTES

    def __init__(self, gpu: int) -> None:
        self.id = gpu

    def __enter__(self) -> None: ...
    def __exit__(self, *_: object) -> None: ...


class _Function:
    max_dynamic_shared_size_bytes = 0
    kernel = SimpleNamespace(ptr=77)
    __call__ = staticmethod(launch)
