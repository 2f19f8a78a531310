"""Subset of cupy's interface, implemented with ``cuda.core``, for kernel calls on torch tensors without cupy.

Modules, devices and memory are objects of ``cuda.core``. Kernels are launched by ``cuLaunchKernelEx`` of
``cuda.bindings``, because ``cuda.core.launch`` does not accept parameters of 128 bytes, such as tensor maps. The
context is the primary context of the device, which torch also uses.
"""

from __future__ import annotations

import math
import threading
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

from measurements.runners.attributed_launch import AttributedLaunch
from search_spaces.launches.launch import Launch, Size3

_ATTRIBUTES = {  # names of device attributes in cupy, and in CUDA (CUdevice_attribute without the prefix)
    "MultiProcessorCount": "MULTIPROCESSOR_COUNT",
    "L2CacheSize": "L2_CACHE_SIZE",
    "Integrated": "INTEGRATED",
    "ClockRate": "CLOCK_RATE",
    "MemoryClockRate": "MEMORY_CLOCK_RATE",
    "GlobalMemoryBusWidth": "GLOBAL_MEMORY_BUS_WIDTH",
    "MaxSharedMemoryPerBlockOptin": "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN",
    "MaxSharedMemoryPerMultiprocessor": "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR",
    "ReservedSharedMemoryPerBlock": "RESERVED_SHARED_MEMORY_PER_BLOCK",
    "MaxThreadsPerMultiProcessor": "MAX_THREADS_PER_MULTIPROCESSOR",
    "MaxBlocksPerMultiprocessor": "MAX_BLOCKS_PER_MULTIPROCESSOR",
    "MaxRegistersPerMultiprocessor": "MAX_REGISTERS_PER_MULTIPROCESSOR",
}
_NEEDS_CUPY = "arrays of libraries other than torch need cupy: pip install 'autosched[cuda13]'"


class CoreGpu:
    """Stand-in for the cupy module, one per process. Raises ImportError without cuda.core."""

    def __init__(self) -> None:
        import cuda.core
        from cuda.bindings import driver

        self.core, self.driver = cuda.core, driver
        self.__version__ = f"cuda.core {cuda.core.__version__}"
        self.ndarray = _NoArray
        self.cuda = SimpleNamespace(
            Device=partial(CoreDevice, self),
            Stream=CoreStream,
            get_current_stream=lambda: CoreStream(_stream_stack()[-1]),
            alloc=partial(CoreMemory, self),
            runtime=CoreRuntime(self),
        )

    def RawModule(self, path: str) -> Any:
        """Load a cubin on the current GPU."""
        return CoreModule(self, path)

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """Return an uninitialised array on the current GPU. Only its address is accessible."""
        size = math.prod(shape) * np.dtype(dtype).itemsize
        return SimpleNamespace(data=CoreMemory(self, max(size, 1)))

    def zeros(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """Return an array like ``empty``, filled with zeros on the current stream."""
        array = self.empty(shape, dtype)
        array.data.zero()
        return array

    def asarray(self, array: Any) -> Any:
        """Raise ValueError, because arrays of libraries other than torch need cupy."""
        raise ValueError(_NEEDS_CUPY)

    from_dlpack = asnumpy = asarray

    def checked(self, answer: tuple[Any, ...]) -> Any:
        """Return the results of a driver function. Raises RuntimeError unless its status is success."""
        status, *results = answer
        if int(status) != 0:
            raise RuntimeError(f"the driver returned {self.driver.CUresult(int(status)).name}")
        return results[0] if len(results) == 1 else results


class _NoArray:
    """Stand-in for ``cupy.ndarray``, so that isinstance checks return False."""


class CoreDevice:
    """A GPU, by default the current GPU. As a context manager, this object makes its GPU current."""

    def __init__(self, gpu: CoreGpu, number: int | None = None) -> None:
        self._gpu = gpu
        self._device = gpu.core.Device(number)
        self.id = int(self._device.device_id)
        self._outer: list[Any] = []

    def __enter__(self) -> CoreDevice:
        self._outer.append(self._gpu.core.Device())
        self._device.set_current()
        return self

    def __exit__(self, *_: object) -> None:
        self._outer.pop().set_current()

    @property
    def attributes(self) -> dict[str, int]:
        """Attributes of the device, by the names that cupy uses."""
        driver = self._gpu.driver
        attributes = {}
        for name, theirs in _ATTRIBUTES.items():
            attribute = getattr(driver.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{theirs}")
            attributes[name] = int(self._gpu.checked(driver.cuDeviceGetAttribute(attribute, self.id)))
        return attributes


class CoreStream:
    """A stream, identified by its address. As a context manager, this object makes the stream current."""

    def __init__(self, address: int = 0) -> None:
        self.ptr = address

    @classmethod
    def from_external(cls, stream: Any) -> CoreStream:
        """Wrap a stream of another library that implements the CUDA stream protocol (``__cuda_stream__``)."""
        return cls(stream.__cuda_stream__()[1])

    def __enter__(self) -> CoreStream:
        _stream_stack().append(self.ptr)
        return self

    def __exit__(self, *_: object) -> None:
        _stream_stack().pop()


_streams = threading.local()


def _stream_stack() -> list[int]:
    """Return the stack of this thread's stream addresses; the last one is the current stream."""
    stack: list[int] = _streams.__dict__.setdefault("stack", [0])
    return stack


class CoreRuntime:
    """Functions of the CUDA runtime, with the names that cupy uses."""

    memcpyDeviceToDevice = 3

    def __init__(self, gpu: CoreGpu) -> None:
        self._gpu = gpu

    def getDevice(self) -> int:
        """Return the index of the current device."""
        return int(self._gpu.core.Device().device_id)

    def getDeviceProperties(self, number: int) -> dict[str, Any]:
        """Return name, memory in bytes and compute capability of a device."""
        device, driver = self._gpu.core.Device(number), self._gpu.driver
        major, minor = device.compute_capability
        memory = int(self._gpu.checked(driver.cuDeviceTotalMem(number)))
        return {"name": device.name.encode(), "totalGlobalMem": memory, "major": major, "minor": minor}

    def runtimeGetVersion(self) -> int:
        """Return the version of the CUDA runtime."""
        from cuda.bindings import runtime

        return int(self._gpu.checked(runtime.cudaRuntimeGetVersion()))

    def pointerGetAttributes(self, address: int) -> Any:
        """Raise ValueError, because arrays of other libraries need cupy."""
        raise ValueError(_NEEDS_CUPY)

    def memcpyAsync(self, to: int, start: int, size: int, kind: int, stream: int) -> None:
        """Copy ``size`` bytes between device addresses on a stream."""
        self._gpu.checked(self._gpu.driver.cuMemcpyDtoDAsync(to, start, size, stream))


class CoreMemory:
    """An allocation on the current GPU, which is freed with this object."""

    def __init__(self, gpu: CoreGpu, size: int) -> None:
        self._gpu, self._size = gpu, size
        self._stream = gpu.core.Stream.from_handle(_stream_stack()[-1])
        self._buffer = gpu.core.Device().allocate(size, stream=self._stream)
        self.ptr = int(self._buffer.handle)

    def zero(self) -> None:
        """Fill the memory with zeros, on the stream that was current at the allocation."""
        self._buffer.fill(b"\0", stream=self._stream)


class CoreModule:
    """A module loaded from a cubin with cuda.core."""

    def __init__(self, gpu: CoreGpu, path: str) -> None:
        self._gpu = gpu
        self._code = gpu.core.ObjectCode.from_cubin(path)

    def get_function(self, entry: str) -> Any:
        """Return the function ``entry`` of the module, loaded on the current GPU."""
        return CoreFunction(self._gpu, self._code.get_kernel(entry))

    def get_global(self, name: str) -> Any:
        """Return an object with the address of the constant ``name``."""
        gpu = self._gpu
        address, _ = gpu.checked(gpu.driver.cuLibraryGetGlobal(name.encode(), int(self._code.handle)))
        return SimpleNamespace(ptr=int(address))


class CoreFunction:
    """A loaded function, which is called like a cupy RawKernel."""

    def __init__(self, gpu: CoreGpu, kernel: Any) -> None:
        self._gpu, self._kernel = gpu, kernel  # this reference keeps the library loaded
        handle = gpu.checked(gpu.driver.cuKernelGetFunction(int(kernel.handle)))
        self.kernel = SimpleNamespace(ptr=int(handle))
        self._launches: dict[tuple[Size3, int], AttributedLaunch] = {}

    @property
    def max_dynamic_shared_size_bytes(self) -> int:
        """Maximum dynamic shared memory of a launch of the function, in bytes."""
        attributes = self._gpu.driver.CUfunction_attribute
        which = attributes.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        return int(self._gpu.checked(self._gpu.driver.cuFuncGetAttribute(which, self.kernel.ptr)))

    @max_dynamic_shared_size_bytes.setter
    def max_dynamic_shared_size_bytes(self, size: int) -> None:
        attributes = self._gpu.driver.CUfunction_attribute
        which = attributes.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        self._gpu.checked(self._gpu.driver.cuFuncSetAttribute(self.kernel.ptr, which, size))

    def __call__(self, grid: Size3, block: Size3, parameters: Any, *, shared_mem: int = 0) -> None:
        """Launch the function on the current stream."""
        launch = self._launches.get((block, shared_mem))
        if launch is None:
            described = Launch(entry="", arguments=(), grid=(1, 1, 1), block=block, dynamic_shared_bytes=shared_mem)
            launch = self._launches[block, shared_mem] = AttributedLaunch(self.kernel.ptr, described)
        launch(grid, parameters, _stream_stack()[-1])
