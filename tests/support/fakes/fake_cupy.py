"""Fake of the cupy functions with which kernels are loaded and launched.

It has arrays with shapes, strides and addresses on simulated GPUs, and records launches. Arrays keep their contents in
numpy. Kernels are not executed. As in cupy, ``asarray`` copies an array that is not on the current GPU, allocations are
on the current GPU, and addresses are multiples of 256.
"""

from __future__ import annotations

import dataclasses
import itertools
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import device_attributes
import numpy as np

DRIVER_NAME = b"NVIDIA H200"
MEMORY_BYTES = 150_000_000_000


@dataclasses.dataclass(frozen=True)
class Launch:
    """A recorded launch: GPU, stream, file and function of the kernel, and parameters."""

    gpu: int
    stream: int
    cubin: bytes
    entry: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    parameters: tuple[Any, ...]
    shared: int


class FakeCupy:
    """Fake cupy, to be set as ``sys.modules["cupy"]``. ``launches`` lists the launches so far, in order."""

    __version__ = "fake"

    def __init__(self, gpus: int = 2, runtime: int = 13000) -> None:
        self.launches: list[Launch] = []
        self.properties = {"name": DRIVER_NAME, "totalGlobalMem": MEMORY_BYTES, "major": 9, "minor": 0}
        self.sm_count = 132
        self._free = itertools.count(1 << 24, 1 << 24)
        self._state = threading.local()
        cupy = self

        class Array:
            """An array of ``gpu`` with the contents, shape and strides of ``host``.

            The array is in an allocation that starts at address ``device`` of the GPU. On the host, the allocation's
            contents start at address ``origin``.
            """

            def __init__(self, host: np.ndarray, gpu: int, device: int, origin: int) -> None:
                self.host, self.gpu, self._device, self._origin = host, gpu, device, origin

            @classmethod
            def new(cls, host: np.ndarray, gpu: int) -> Array:
                address = (max(gpu, 0) << 44) + next(cupy._free)
                assert host.nbytes <= 1 << 24, "addresses are 16 MiB apart"
                return cls(host, gpu, address, host.ctypes.data)

            shape = property(lambda self: self.host.shape)
            dtype = property(lambda self: self.host.dtype)
            strides = property(lambda self: self.host.strides)
            ndim = property(lambda self: self.host.ndim)
            size = property(lambda self: self.host.size)
            nbytes = property(lambda self: self.host.nbytes)
            flags = property(lambda self: self.host.flags)
            T = property(lambda self: self._as(self.host.T))
            device = property(lambda self: SimpleNamespace(id=self.gpu))

            @property
            def data(self) -> SimpleNamespace:
                offset = self.host.ctypes.data - self._origin
                return SimpleNamespace(ptr=self._device + offset, device_id=self.gpu)

            @property
            def __cuda_array_interface__(self) -> dict[str, Any]:
                return {"data": (self.data.ptr, False), "shape": self.shape, "typestr": self.dtype.str, "version": 3}

            def _as(self, host: np.ndarray) -> Array:
                assert np.shares_memory(host, self.host) or not host.size
                return Array(host, self.gpu, self._device, self._origin)

            def reshape(self, *shape: Any) -> Array:
                return self._as(self.host.reshape(*shape))

            def swapaxes(self, a: int, b: int) -> Array:
                return self._as(self.host.swapaxes(a, b))

            def view(self, dtype: Any) -> Array:
                return self._as(self.host.view(dtype))

            def __getitem__(self, index: Any) -> Array:
                return self._as(self.host[index])

        class Device:
            def __init__(self, gpu: int | None = None) -> None:
                self.id = cupy.current_gpu if gpu is None else gpu
                self.attributes = device_attributes.ATTRIBUTES | {"MultiProcessorCount": cupy.sm_count}
                assert -1 <= self.id < gpus, "-1, torch's device number of the CPU, was used as a GPU"

            def __enter__(self) -> Device:
                cupy._stack("gpu").append(self.id)
                return self

            def __exit__(self, *_: object) -> None:
                cupy._stack("gpu").pop()

            def use(self) -> None:
                cupy._stack("gpu")[-1] = self.id

        class Stream:
            def __init__(self, ptr: int = 0) -> None:
                self.ptr = ptr

            def __enter__(self) -> Stream:
                cupy._stack("stream").append(self.ptr)
                return self

            def __exit__(self, *_: object) -> None:
                cupy._stack("stream").pop()

            @classmethod
            def from_external(cls, foreign: Any) -> Stream:
                return cls(foreign.__cuda_stream__()[1])

        class RawModule:
            def __init__(self, path: str) -> None:
                self.cubin = Path(path).read_bytes()

            def get_function(self, entry: str) -> Any:
                def function(grid: Any, block: Any, parameters: Any, shared_mem: int) -> None:
                    where = cupy.current_gpu, cupy._stack("stream")[-1]
                    cupy.launches.append(
                        Launch(*where, self.cubin, entry, tuple(grid), tuple(block), tuple(parameters), shared_mem)
                    )

                return _Function(function)

        def asarray(array: Any, dtype: Any = None) -> Array:
            array = getattr(array, "array", array)
            if isinstance(array, Array):
                here = array.gpu == cupy.current_gpu
                return array if here else Array.new(array.host.copy(), cupy.current_gpu)
            return Array.new(np.array(array, dtype), cupy.current_gpu)

        self.ndarray, self.asarray = Array, asarray
        self.empty = lambda shape, dtype=float: Array.new(np.empty(shape, dtype), cupy.current_gpu)
        self.zeros = lambda shape, dtype=float: Array.new(np.zeros(shape, dtype), cupy.current_gpu)
        self.from_dlpack = lambda array: array.array
        self.RawModule = RawModule
        self.cuda = SimpleNamespace(
            Device=Device,
            Stream=Stream,
            get_current_stream=lambda: Stream(cupy._stack("stream")[-1]),
            runtime=SimpleNamespace(
                getDevice=lambda: cupy.current_gpu,
                getDeviceProperties=lambda gpu: cupy.properties,
                runtimeGetVersion=lambda: runtime,
                pointerGetAttributes=lambda address: SimpleNamespace(device=address >> 44),
            ),
        )

    def _stack(self, name: str) -> list[int]:
        stacks: dict[str, list[int]] = self._state.__dict__
        return stacks.setdefault(name, [0])

    @property
    def current_gpu(self) -> int:
        """Return the current GPU of this thread."""
        return self._stack("gpu")[-1]


class _Function:
    """A loaded function with attributes that can be set."""

    def __init__(self, call: Any) -> None:
        self._call = call
        self.kernel = SimpleNamespace(ptr=77)
        self.max_dynamic_shared_size_bytes = 0

    def __call__(self, *arguments: Any, **named: Any) -> None:
        self._call(*arguments, **named)


class Foreign:
    """Another library's array in the memory of a cupy array. It supports only ``__cuda_array_interface__``."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self.__cuda_array_interface__ = array.__cuda_array_interface__


class Exchanged:
    """Fake array of another library, which shares the memory of a cupy array.

    It supports only DLPack. ``kind`` is its DLPack device type.
    """

    def __init__(self, array: Any, kind: int = 2) -> None:
        self.array, self._kind = array, kind
        self.shape = array.shape

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._kind, self.array.gpu

    def __dlpack__(self, **_: Any) -> Any:
        raise AssertionError("only from_dlpack of cupy reads it")
