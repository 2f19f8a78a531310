"""Fake of the cupy functions that the GPU worker uses.

Device memory is simulated by numpy arrays, and only kernels advance the simulated clock.
"""

import math
import weakref
from pathlib import Path
from types import SimpleNamespace

import device_attributes
import numpy as np

from measurements.runners.cuda.check_kernels import HOLD

ATTRIBUTES = device_attributes.CUPY_ATTRIBUTES | {"MultiProcessorCount": 2}  # names as in cupy's Device.attributes


class Pointer:
    def __init__(self, memory, offset=0):
        self.memory, self.offset = memory, offset

    def __add__(self, offset):
        return Pointer(self.memory, self.offset + offset)

    def memset_async(self, value, size, stream):
        self.memory[self.offset : self.offset + size] = value

    def copy_from_device_async(self, source, size, stream):
        self.memory[self.offset : self.offset + size] = source.memory[source.offset : source.offset + size]


class Freed(Exception):
    """Error: a graph was replayed after memory or a module that the graph uses was freed."""


class DeviceArray:
    def __init__(self, shape, dtype=float, memptr=None):
        self.shape, self.dtype, self.data = shape, np.dtype(dtype), memptr

    def host(self):
        size = math.prod(self.shape) * self.dtype.itemsize
        return self.data.memory[self.data.offset : self.data.offset + size].view(self.dtype).reshape(self.shape)

    def reshape(self, shape):
        return FakeCupy.asarray(self.host().reshape(shape))

    def __getitem__(self, index):
        return FakeCupy.asarray(self.host()[index])


class Pinned(bytearray):
    ptr = 4096


class CudaError(Exception):
    def __init__(self, status, text):
        super().__init__(text)
        self.status = status


class Event:
    def __init__(self, **_):
        self.ptr = self

    def record(self, stream):
        self.at = stream.cupy.now

    def synchronize(self):
        raise CudaError(700, "cudaErrorIllegalAddress: an illegal memory access was encountered")


class Stream:
    def __init__(self, cupy):
        self.cupy, self.captured, self.spoiled = cupy, None, False

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def synchronize(self):
        pass

    def begin_capture(self):
        self.captured = []

    def end_capture(self):
        work, self.captured = self.captured, None
        if self.spoiled or work is None:
            raise CudaError(901, "cudaErrorStreamCaptureInvalidated")
        self.cupy.graphs.append(len(work))
        return Graph(work)


class Graph:
    """A graph that, like CUDA's, stores only handles and addresses, which do not keep objects alive."""

    def __init__(self, work):
        self.work = [(weakref.ref(function), grid, [weak(x) for x in arguments]) for function, grid, arguments in work]

    def launch(self, stream):
        for function, grid, arguments in self.work:
            if function() is None or any(memory() is None for memory, *_ in arguments):
                raise Freed
            function().run(grid, [DeviceArray(s, t, Pointer(memory(), at)) for memory, at, s, t in arguments])


def weak(array):
    return weakref.ref(array.data.memory), array.data.offset, array.shape, array.dtype


class FakeCupy:
    """Fake of the module cupy. ``time`` is the duration of one launch of a candidate."""

    __version__ = "0"
    ndarray = DeviceArray

    def __init__(self, time=1e-3, memory=1 << 30):
        self.time, self.free, self.now = time, memory, 0.0
        self.kept_by_pool = []  # allocations that were freed, which cupy's pool keeps
        self.modules = {}  # keyed by path, like cupy's cache
        self.query, self.graphs, self.launches, self.stream = 0, [], [], Stream(self)
        runtime = SimpleNamespace(
            getDeviceProperties=lambda i: {"name": b"NVIDIA H200", "totalGlobalMem": 150, "major": 9, "minor": 0},
            getDeviceCount=lambda: 1,
            driverGetVersion=lambda: 13000,
            runtimeGetVersion=lambda: 13000,
            eventQuery=lambda event: self.query,
            deviceSynchronize=self.synchronize,
            CUDARuntimeError=CudaError,
        )
        self.cuda = SimpleNamespace(
            runtime=runtime,
            driver=SimpleNamespace(CUDADriverError=CudaError),
            Device=lambda i: SimpleNamespace(id=i, use=lambda: None, attributes=dict(ATTRIBUTES), pci_bus_id="0"),
            Stream=lambda non_blocking: self.stream,
            Event=Event,
            get_elapsed_time=lambda start, stop: (stop.at - start.at) * 1e3,
            alloc=self.alloc,
            alloc_pinned_memory=Pinned,
        )

    def synchronize(self):
        if self.query not in (0, 600):
            raise CudaError(self.query, "sticky")

    def alloc(self, size):
        if size > self.free:
            raise MemoryError(f"{size} bytes")
        return Pointer(np.zeros(size, np.uint8))

    def get_default_memory_pool(self):
        return SimpleNamespace(free_all_blocks=self.kept_by_pool.clear)

    def clear_memo(self):
        self.modules.clear()

    @staticmethod
    def asarray(array):
        array = np.ascontiguousarray(array)
        return DeviceArray(array.shape, array.dtype, Pointer(array.reshape(-1).view(np.uint8).copy()))

    @staticmethod
    def asnumpy(array):
        return array.host().copy()

    def RawModule(self, path):
        return SimpleNamespace(get_function=lambda name: self.function(path, name))

    def function(self, path, name):
        """Return a function of a module. As in cupy, the file is read again unless the module is cached."""
        if path not in self.modules:
            if not Path(path).exists():
                raise CudaError(301, "CUDA_ERROR_FILE_NOT_FOUND: file not found")
            self.modules[path] = Path(path).read_bytes()
        assert self.modules[path] == b"a cubin"
        return Function(self, name)


class Function:
    """A fake kernel: numpy code of a kernel that checks outputs, or of a matmul whose name selects its behaviour."""

    def __init__(self, cupy, name):
        self.cupy, self.name, self.kernel = cupy, name, SimpleNamespace(ptr=77)
        if name == "missing":
            raise CudaError(500, "CUDA_ERROR_NOT_FOUND: named symbol not found")

    def __call__(self, grid, block, arguments, shared_mem=0):
        if self.cupy.stream.captured is not None:
            self.cupy.stream.captured.append((self, grid, arguments))
        else:
            self.run(grid, arguments)

    def run(self, grid, arguments):
        if self.name == HOLD:
            return None
        if self.name == "check_bytes":
            return self.check_bytes(grid[1], *arguments)
        if self.name.startswith("check_"):
            return self.check_output(*arguments)
        self.cupy.now += self.cupy.time * (2 if self.name == "slow" else 1)
        self.cupy.launches.append(arguments[0].data.offset)
        a, b, out = (x.host() for x in arguments[:3])
        out[...] = a.astype(np.float32) @ b.astype(np.float32)
        launch_number = len(self.cupy.launches)
        if self.name == "two_phases" and launch_number % 2:
            out[...] = 0  # after an odd number of launches, the result is incomplete
        if self.name == "wrong":
            out[0, 3, 4] += 1
        if self.name == "nothing":
            out.view(np.uint8)[...] = 0xFF
        if self.name == "partial":
            out[0, 16, 8] = np.float32(np.nan)
        if self.name == "sometimes" and launch_number > 5:
            out[0, 0, 0] = 0
        if self.name == "overwrites":
            b[0, 1, 1] = 0
        if self.name == "overruns":
            end = arguments[2].data
            end.memory[end.offset + out.nbytes + 7] = 0
        if self.name == "unclean":
            arguments[3].host()[2] = 1
        if self.name == "illegal":
            self.cupy.query = 700
        if self.name == "endless":
            self.cupy.query = 600
        if self.name == "large":
            raise CudaError(701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES: too many resources requested")
        return None

    def check_bytes(self, copies, slots, expected, size, stride, mode, guard, report):
        first = slots.data.offset
        rows = slots.data.memory[first : first + int(copies) * int(stride)].reshape(int(copies), int(stride))
        inside, outside = rows[:, : int(size)], rows[:, int(size) :]
        correct = {1: expected.host().reshape(-1).view(np.uint8), 2: 0}.get(int(mode))
        wrong = np.zeros(1) if correct is None else inside != correct
        report.host()[0] += np.uint64(wrong.sum())
        report.host()[2] += np.uint64((outside != int(guard)).sum())

    def check_output(self, actual, expected, allowed, count, report):
        limit = allowed.host().reshape(-1)
        with np.errstate(invalid="ignore"):
            error = np.abs(actual.host().astype(np.float64) - expected.host()).reshape(-1)
            bad = ~(error <= limit) | ((error > 0) & np.isinf(limit))
            ratio = np.nan_to_num(error / limit, nan=np.inf)
        answer = report.host()
        answer[0] += np.uint64(bad.sum())
        answer[1] = np.uint64(bad.argmax()) if bad.any() else answer[1]
        answer[2:3].view(np.float64)[0] = ratio.max()
