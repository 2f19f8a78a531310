"""Triton driver that runs every launch in the emulator. Only this file uses Triton's private hooks.

``triton.runtime.driver.set_active`` accepts any object with the methods of ``EmulatedDriver``. Triton 3.4 to 3.9 call
the same methods.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol
from weakref import WeakKeyDictionary

import triton
from triton.backends.compiler import GPUTarget
from triton.runtime import Autotuner
from triton.runtime.cache import get_cache_manager

from autosched.triton.cubin import cubin_resources
from search_spaces.hardware.devices import Device

_FILE = re.compile(r'^(\s*\.file\s+\d+\s+")([^"]*)(?=")', re.MULTILINE)
_FILE_NAME = 150  # Triton's cache truncates a kernel's name in file names to this number of characters


@dataclass(frozen=True, eq=False)
class TritonLaunch:
    """One launch, with the data that Triton passes to its driver."""

    name: str
    ptx: str
    cubin: bytes
    grid: tuple[int, int, int]
    metadata: Any
    names: tuple[str, ...]
    kinds: tuple[Any, ...]
    values: tuple[Any, ...]
    constants: Mapping[str, Any]
    scratch: Any = None
    function: Any = None  # the ``JITFunction`` that the kernel was compiled from, if any


class Launcher(Protocol):
    """Interface of objects that run launches."""

    device: Device

    def launch(self, launch: TritonLaunch) -> None:
        """Run a launch."""

    def benchmark(self, call: Callable[[], Any]) -> float:
        """Return the duration of one call in milliseconds."""
        ...

    def torch_device(self) -> Any:
        """Return the torch device that Triton uses."""

    def device_interface(self) -> Any:
        """Return the replacement of ``torch.cuda`` for Triton."""


class _KernelLauncher:
    """Callable that Triton creates for a compiled kernel and calls to launch the kernel.

    If the program changes Triton's cache folder, Triton creates another instance.
    """

    _programs: ClassVar[WeakKeyDictionary[Any, tuple[str, bytes]]] = (
        WeakKeyDictionary()
    )  # PTX and cubin of each compiled kernel

    def __init__(self, src: Any, metadata: Any) -> None:
        self._metadata = metadata
        if src not in self._programs:
            self._programs[src] = _cached_program(src, metadata)
        self._ptx, self._cubin = self._programs[src]
        self._function = getattr(src, "fn", None)
        self._names = tuple(_name(src, key) for key in src.signature)
        self._kinds = tuple(src.signature.values())
        self._constants = {_name(src, key): value for key, value in getattr(src, "constants", {}).items()}

    def __call__(
        self,
        grid_x: int,
        grid_y: int,
        grid_z: int,
        stream: int,
        function: Any,
        kernel_metadata: Any,
        launch_metadata: Any,
        enter_hook: Any,
        exit_hook: Any,
        *arguments: Any,
    ) -> None:
        if enter_hook is not None:
            enter_hook(launch_metadata)
        grid = (int(grid_x), int(grid_y), int(grid_z))
        if min(grid) > 0:
            ctas = cluster_of(self._metadata)
            scratch = _scratch(self._metadata, grid[0] * grid[1] * grid[2] * ctas, stream)
            launch = TritonLaunch(
                self._metadata.name,
                self._ptx,
                self._cubin,
                grid,
                self._metadata,
                self._names,
                self._kinds,
                arguments,
                self._constants,
                scratch,
                self._function,
            )
            _active().launch(launch)
        if exit_hook is not None:
            exit_hook(launch_metadata)


class _Utils:
    """Replaces the functions of the CUDA driver."""

    def __init__(self, device: Device) -> None:
        self._device = device

    def get_device_properties(self, _device: int) -> dict[str, int]:
        d = self._device
        # memory bus width in bits. The value is arbitrary, as the clock below makes the bandwidth correct in
        # triton.testing
        bus = 5120
        return {
            "max_shared_mem": d.shared_per_block,
            "max_num_regs": d.registers_per_sm,
            "multiprocessor_count": d.sm_count,
            "warpSize": d.warp_size,
            "sm_clock_rate": int(d.clock_hz / 1e3),
            "mem_clock_rate": int(d.dram_bandwidth / (2 * bus / 8) / 1e3),
            "mem_bus_width": bus,
        }

    def load_binary(self, name: str, binary: bytes, shared: int, device: int) -> tuple[Any, Any, int, int, int]:
        """Return module, function, registers, 32-bit words of local memory, and the maximum threads per block."""
        resources = cubin_resources(binary)
        registers, spills = (resources.registers, resources.local_bytes // 4) if resources is not None else (0, 0)
        warps = self._device.max_threads_per_block // self._device.warp_size
        if registers:  # registers limit the number of warps of a block, and are allocated in units
            unit = self._device.register_allocation_unit
            each = -(-registers * self._device.warp_size // unit) * unit
            warps = min(warps, self._device.registers_per_block // each)
        # Return None as the module, because Triton would unload a module through a driver that may no longer be active.
        return (None, name, registers, spills, self._device.warp_size * warps)

    def unload_module(self, _module: Any) -> None:
        pass


class DeviceNumber(int):
    """The integer 0, which is the device index of the emulated GPU in torch and Triton.

    Triton caches compiled kernels by device index, and must not return kernels compiled for another emulated GPU. Two
    device indices are therefore equal only if their GPUs are equal. A device index equals 0 only while its GPU is
    emulated.
    """

    device: str

    def __new__(cls, device: str) -> DeviceNumber:
        """Create the integer 0 with the device's name as an attribute."""
        number = super().__new__(cls, 0)
        number.device = device
        return number

    def __eq__(self, other: object) -> bool:
        if isinstance(other, DeviceNumber):
            return self.device == other.device
        launcher = emulated_launcher()
        return other == int(self) and launcher is not None and launcher.device.name == self.device

    __hash__ = int.__hash__


class EmulatedDriver:
    """Driver for ``launcher.device``; every launch calls ``launcher.launch``."""

    launcher_cls = _KernelLauncher

    def __init__(self, launcher: Launcher) -> None:
        self.launcher = launcher
        self.utils = _Utils(launcher.device)
        self._number = DeviceNumber(launcher.device.name)

    def get_current_target(self) -> GPUTarget:
        """Return the compute capability of the emulated device, with warps of 32 threads."""
        return GPUTarget("cuda", self.launcher.device.sm, 32)

    def get_current_device(self) -> int:
        """Return the device index of the emulated GPU."""
        return self._number

    def set_current_device(self, _device: int) -> None:
        """Ignore the call: there is only one device."""
        pass

    def get_current_stream(self, _device: int | None = None) -> int:
        """Return the default stream."""
        return 0

    def get_device_capability(self, _device: int | None = None) -> tuple[int, int]:
        """Return the compute capability of the emulated device."""
        return divmod(self.launcher.device.sm, 10)

    def get_active_torch_device(self) -> Any:
        """Return the launcher's torch device."""
        return self.launcher.torch_device()

    def get_device_interface(self) -> Any:
        """Return the launcher's replacement of ``torch.cuda``."""
        return self.launcher.device_interface()

    def get_benchmarker(self) -> Any:
        """Return the function that Triton's autotuner uses to time calls."""
        return self.do_bench

    def do_bench(self, fn: Callable[[], Any], *_: Any, quantiles: Sequence[float] | None = None, **more: Any) -> Any:
        """Return the time model's estimate in milliseconds, in the format of ``triton.testing.do_bench``.

        Args:
            fn: Launches the kernel.
            _: Triton's other parameters, which are ignored.
            quantiles: Quantiles to return, which are all equal; None returns one number.
            more: Other keywords of ``do_bench``; ``return_mode="all"`` returns a list.
        """
        milliseconds = self.launcher.benchmark(fn)
        if quantiles is not None:
            return [milliseconds] * len(quantiles) if len(quantiles) > 1 else milliseconds
        return [milliseconds] if more.get("return_mode") == "all" else milliseconds

    def get_empty_cache_for_benchmark(self) -> Any:
        """Return a tensor of one element, because the emulator has no L2 cache to flush."""
        import torch

        return torch.zeros(1, dtype=torch.int32)

    def clear_cache(self, _cache: Any) -> None:
        """Ignore the call: there is no L2 cache to flush."""
        pass

    def map_python_to_cpp_type(self, kind: str) -> str:
        """Return the type unchanged: no C++ is generated."""
        return kind

    def assemble_tensormap_to_arg(self, _tensormaps_info: Any, args: Any) -> Any:
        """Return the arguments unchanged, because tensor maps are created at the launch."""
        return args

    @classmethod
    def is_active(cls) -> bool:
        """Return True, since the emulated device is always available."""
        return True


@contextmanager
def activated(launcher: Launcher) -> Iterator[EmulatedDriver]:
    """Make this driver Triton's active driver within the context."""
    config = triton.runtime.driver
    attribute = "_active" if "_active" in vars(config) else "active"  # the attribute's name in Triton 3.6 and in 3.4
    before = vars(config)[attribute]  # do not call `reset_active`, which would query for a GPU
    driver = EmulatedDriver(launcher)
    _spend_fusion_warning()
    config.set_active(driver)
    try:
        with _testing_replaced(driver), _ptx_kept():
            yield driver
    finally:
        vars(config)[attribute] = before


@contextmanager
def first_configurations() -> Iterator[None]:
    """Make each autotuner use the first configuration after pruning, without timing."""
    prune = Autotuner.prune_configs
    Autotuner.prune_configs = lambda self, kwargs: prune(self, kwargs)[:1]
    try:
        yield
    finally:
        Autotuner.prune_configs = prune


def _spend_fusion_warning() -> None:
    """Trigger and hide Triton 3.9's warning about the default of FP fusion, which Triton shows once per process."""
    if triton.__version__.startswith("3.9."):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "TRITON_DEFAULT_FP_FUSION is unset", UserWarning)
            triton.knobs.language.fp_fusion_enabled(None)


@contextmanager
def _ptx_kept() -> Iterator[None]:
    """Make Triton keep PTX, which the emulator needs. Some autotuners (Helion's) make Triton keep only machine code."""
    name = "TRITON_STORE_BINARY_ONLY"
    before = os.environ.get(name)
    os.environ[name] = "0"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


@contextmanager
def _testing_replaced(driver: EmulatedDriver) -> Iterator[None]:
    """Replace the benchmarks of ``triton.testing``, which would emulate thousands of launches to no effect."""
    names = {"do_bench": driver.do_bench, "do_bench_cudagraph": driver.do_bench}
    before = {name: getattr(triton.testing, name) for name in names}
    run = triton.testing.Mark.run
    try:
        for name, replacement in names.items():
            setattr(triton.testing, name, replacement)
        triton.testing.Mark.run = _skip_benchmark
        yield
    finally:
        for name, original in before.items():
            setattr(triton.testing, name, original)
        triton.testing.Mark.run = run


def _skip_benchmark(self: Any, *_: Any, **__: Any) -> None:
    """Do nothing. Replaces ``triton.testing.Mark.run``, which prints tables and draws plots."""


def _cached_program(src: Any, metadata: Any) -> tuple[str, bytes]:
    """Return PTX and cubin from Triton's cache. Raises RuntimeError if the cache has no PTX."""
    files = get_cache_manager(metadata.hash).get_group(f"{src.name[:_FILE_NAME]}.json") or {}
    ptx, cubin = "", b""
    for name, path in files.items():
        if name.endswith(".ptx"):
            ptx = _with_own_file(Path(path).read_text(), src)
        elif name.endswith(".cubin"):
            cubin = Path(path).read_bytes()
    if not ptx:
        raise RuntimeError(
            f"Triton's cache has no PTX of {src.name}, which the emulator needs: empty the cache (TRITON_CACHE_DIR, "
            "~/.triton/cache), which was filled with TRITON_STORE_BINARY_ONLY"
        )
    return ptx, cubin


def _with_own_file(ptx: str, src: Any) -> str:
    """Replace the file name in a cached kernel by the name of the launched function's file.

    Triton's cache ignores file names, so a cached kernel may name another file with the same text.
    """
    function = getattr(getattr(src, "fn", None), "fn", None)
    if function is None:
        return ptx
    own = function.__code__.co_filename

    def renamed(file: re.Match[str]) -> str:
        return f"{file[1]}{own}" if Path(file[2]).name == Path(own).name else file[0]

    return _FILE.sub(renamed, ptx)


def cluster_of(metadata: Any) -> int:
    """Return the number of blocks of a cluster (``num_ctas``), which are adjacent along x."""
    ctas = getattr(metadata, "num_ctas", None)
    if ctas is None:
        x, y, z = getattr(metadata, "cluster_dims", (1, 1, 1))
        ctas = x * y * z
    return int(ctas)


def emulated_launcher() -> Launcher | None:
    """Return the launcher of the current ``emulated`` context; None outside of such a context."""
    attributes = vars(triton.runtime.driver)
    active = attributes.get("_active", attributes.get("active"))
    return active.launcher if isinstance(active, EmulatedDriver) else None


def _active() -> Launcher:
    launcher = emulated_launcher()
    if launcher is None:
        raise RuntimeError(
            "the kernel was loaded within `autosched.triton.emulated`, but launched after this context "
            "ended: launch it inside the context"
        )
    return launcher


def _name(src: Any, key: Any) -> str:
    """Return the name of a parameter that Triton specifies by name or by position."""
    position = key[0] if isinstance(key, tuple) else key
    if isinstance(position, int):
        names = getattr(getattr(src, "fn", None), "arg_names", ())
        rest = "".join(f"[{k}]" for k in key[1:]) if isinstance(key, tuple) else ""
        return f"{names[position]}{rest}" if position < len(names) else f"argument_{position}"
    return str(position)


def _scratch(metadata: Any, blocks: int, stream: int) -> Any:
    """Return the launch's global scratch memory, allocated by the allocator that the program has set in Triton."""
    size = int(getattr(metadata, "global_scratch_size", 0) or 0)
    if not size:
        return None
    from triton.runtime import _allocation

    allocator = _allocation._allocator
    allocate = allocator.get() if hasattr(allocator, "get") else allocator
    return allocate(blocks * size, int(getattr(metadata, "global_scratch_align", 128)), stream)
