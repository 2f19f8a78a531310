"""Launch a compiled kernel on cupy's current stream, after converting its arguments to parameters."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from operator import itemgetter
from typing import Any

import numpy as np

from measurements.compiler.nvrtc import NvrtcMissing
from measurements.runners.attributed_launch import AttributedLaunch
from measurements.runners.launch_refused import LaunchRefused
from measurements.runners.tensor_map_builder import build_tensor_map
from measurements.runners.texture_objects import texture_object
from search_spaces.arrays import Array
from search_spaces.launches.launch import Argument, BytesArgument, Launch, ScalarArgument, Size3
from search_spaces.launches.tensor_map import TensorMap
from search_spaces.launches.texture import LinearTexture

_MAP_BYTES, _MAP_ALIGNMENT = 128, 64  # size and alignment of a CUtensorMap in bytes
# maximum number of encoded tensor maps that are cached per kernel; it exceeds the number of copies of an operand in
# measurements
_KEPT_MAPS = 4096
_PORTABLE_CLUSTER = 8  # blocks per cluster that every GPU with clusters supports


_Slot = tuple[str | None, dict[int, Array] | None, Any]
# maps addresses and scalars to the parameters of a launch
Encoder = Callable[[Sequence[Any]], tuple[Any, ...]]


class NoEncoder(LaunchRefused):
    """This machine's driver has no function that encodes tensor maps."""


class LoadedLaunch:
    """A launch whose functions are loaded on the current GPU.

    Args:
        cp: The cupy module.
        launch: The launch.
        cubin: File with the functions, which is not needed after loading.
        overlapping: If True, a dependent ``launch`` may start before the preceding launch has ended. Use False to time
            a kernel alone; otherwise consecutive launches would overlap.

    Raises:
        LaunchRefused: The function was compiled for a cluster that differs from ``launch.cluster``. If loading fails,
            cupy's errors are raised.

    ``grid`` is the grid of ``launch``. If the grid may shrink, it is limited to the blocks that this GPU can run at the
    same time.
    """

    def __init__(self, cp: Any, launch: Launch, cubin: str, *, overlapping: bool = False) -> None:
        self.launch, self._overlapping = launch, overlapping
        self._cupy = cp
        self._textures: list[Any] = []
        module = cp.RawModule(path=cubin)
        self._function = module.get_function(launch.entry)
        self._then = tuple(LoadedStep(module.get_function(step.entry), step) for step in launch.then)
        self._symbols = tuple((o, int(module.get_global(o.name).ptr)) for o in launch.symbols)
        # The carveout between L1 cache and shared memory is left to the driver. The driver chooses a carveout for each
        # kernel such that shared memory does not limit occupancy (CUDA C++ Programming Guide, compute capability 7.x,
        # Shared Memory).
        for function, step in ((self._function, launch), *((s.function, s.launch) for s in self._then)):
            if step.dynamic_shared_bytes:
                function.max_dynamic_shared_size_bytes = step.dynamic_shared_bytes
        self._attributed = self._with_attributes(self._function, launch)
        for further in self._then:
            further.attributed = self._with_attributes(further.function, further.launch)
        self.grid = _grid(cp, int(self._function.kernel.ptr), launch) if launch.grid_may_shrink else launch.grid
        # One item per parameter. cupy passes an int as 8 bytes, like a pointer, and a numpy array of one element as its
        # bytes.
        self._slots = [_slot(argument) for argument in launch.arguments]
        self._times, self._block, self._shared = range(launch.launches), launch.block, launch.dynamic_shared_bytes

    def _with_attributes(self, function: Any, launch: Launch) -> AttributedLaunch | None:
        """Return a launcher for a function that needs launch attributes; None if cupy can launch the function.

        Raises LaunchRefused.
        """
        compiled_for = launch.cluster == (1, 1, 1) or _check_cluster(int(function.kernel.ptr), launch.cluster)
        dependent = launch.dependent and self._overlapping
        if compiled_for and not launch.cooperative and not dependent:
            return None
        cluster = (1, 1, 1) if compiled_for else launch.cluster
        return AttributedLaunch(int(function.kernel.ptr), launch, cluster=cluster, dependent=dependent)

    @property
    def steps(self) -> tuple[LoadedStep, ...]:
        """Loaded functions of the launch, in order of execution."""
        own = LoadedStep(self._function, self.launch, self.grid, self.launch.launches)
        own.attributed, own.slots = self._attributed, self._slots
        return (own, *self._then)

    def __call__(self, arrays: Mapping[str, Any]) -> None:
        """Launch without waiting. ``arrays`` maps the name of each operand of ``launch`` to a cupy array."""
        self.launch_with(self.parameters(arrays))

    def shrunk(self) -> str:
        """Return a note if the launched grid is smaller than the grid of ``launch``; otherwise ""."""
        (blocks, *_), (described, *_) = self.grid, self.launch.grid
        return (
            f"launched {blocks} of {described} blocks: no more can run at the same time" if blocks < described else ""
        )

    def parameters(self, arrays: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return the first function's parameters in cupy's format, then one tuple of parameters per further function.

        Args:
            arrays: GPU arrays of cupy, or the addresses of GPU arrays, by operand name.
        """
        own = self._parameters(self._slots, arrays)
        return (*own, *(self._parameters(step.slots, arrays) for step in self._then))

    def _parameters(self, slots: Sequence[_Slot], arrays: Mapping[str, Any]) -> tuple[Any, ...]:
        parameters = []
        for name, maps, scalar in slots:
            if name is None or (maps is None and scalar is not None and name not in arrays):
                parameters.append(scalar)
                continue
            array = arrays[name]
            if maps is None:
                parameters.append(array)
                continue
            address = array if isinstance(array, int) else int(array.data.ptr)
            known = maps.get(address)
            parameters.append(self.encoded(maps, scalar, address) if known is None else known)
        return tuple(parameters)

    def encoder(self, names: Sequence[str]) -> Encoder:
        """Return a faster version of ``parameters``, which takes a sequence of addresses in the order of ``names``.

        ``names`` may include scalars that each call passes. A scalar is passed as an array of one element instead of an
        address.
        """
        own = self._encoder(self._slots, names)
        if not self._then:
            return own
        further = [self._encoder(step.slots, names) for step in self._then]
        return lambda starts: (*own(starts), *(encoded(starts) for encoded in further))

    def _encoder(self, slots_by_name: Sequence[_Slot], names: Sequence[str]) -> Encoder:
        slots = [
            (None if name is None or (maps is None and scalar is not None and name not in names) else names.index(name),
             maps, scalar)
            for name, maps, scalar in slots_by_name
        ]  # fmt: skip
        at = [position for position, maps, _ in slots if position is not None and maps is None]
        if len(at) == len(slots) > 1:  # a fast path for launches whose parameters are all pointers
            return itemgetter(*at)

        def encoded(starts: Sequence[Any]) -> tuple[Any, ...]:
            values = []
            for position, maps, scalar in slots:
                if position is None:
                    values.append(scalar)
                    continue
                value: Any = starts[position]
                if maps is not None:
                    known = maps.get(value)
                    value = self.encoded(maps, scalar, value) if known is None else known
                values.append(value)
            return tuple(values)

        return encoded

    def launch_with(self, parameters: tuple[Any, ...]) -> None:
        """Launch all functions with ``parameters`` on cupy's current stream, without waiting."""
        steps = self._then
        own = parameters[: len(parameters) - len(steps)] if steps else parameters
        for _ in self._times:
            if self._attributed is None:
                self._function(self.grid, self._block, own, shared_mem=self._shared)
            else:
                self._attributed(self.grid, own, self._stream())
        if steps:
            for step, passed in zip(steps, parameters[len(own) :], strict=True):
                if step.attributed is None:
                    shared = step.launch.dynamic_shared_bytes
                    step.function(step.launch.grid, step.launch.block, passed, shared_mem=shared)
                else:
                    step.attributed(step.launch.grid, passed, self._stream())

    def _stream(self) -> int:
        return int(self._cupy.cuda.get_current_stream().ptr)

    def fill_symbols(self, arrays: Mapping[str, Any]) -> None:
        """Copy the arrays of ``launch.symbols`` to constant memory, on cupy's current stream.

        This call is required before the first launch, and whenever the contents change.

        Args:
            arrays: GPU arrays of cupy, or the addresses of GPU arrays, by operand name.
        """
        cuda = self._cupy.cuda
        for operand, to in self._symbols:
            array = arrays[operand.name]
            start = array if isinstance(array, int) else int(array.data.ptr)
            stream = int(cuda.get_current_stream().ptr)
            cuda.runtime.memcpyAsync(to, start, operand.bytes, cuda.runtime.memcpyDeviceToDevice, stream)

    def encoded(self, maps: dict[int, Array], described: TensorMap | LinearTexture, address: int) -> Array:
        """Encode a tensor map, or create a texture, for the array at ``address``, and cache the result."""
        if len(maps) >= _KEPT_MAPS:
            maps.clear()
        if isinstance(described, LinearTexture):
            # Texture objects exist as long as this LoadedLaunch, because an earlier launch may still use one of them.
            try:
                self._textures.append(texture_object(self._cupy, described, address))
            except ValueError as error:
                raise LaunchRefused(str(error)) from None
            maps[address] = np.array([self._textures[-1].ptr], np.uint64)
        else:
            maps[address] = self._encoded_map(described, address)
        return maps[address]

    def _encoded_map(self, tensor_map: TensorMap, address: int) -> Array:
        """Encode a tensor map with the driver, or with a kernel on the GPU if the driver cannot encode tensor maps."""
        try:
            _encode_function()
        except NoEncoder as missing:
            _check_address(tensor_map, address)
            try:
                array = build_tensor_map(self._cupy, tensor_map, address)
            except (NvrtcMissing, ValueError) as error:
                raise LaunchRefused(f"{missing}, and a kernel on the GPU cannot encode the map: {error}") from error
            return _passed(array)
        return encode_tensor_map(tensor_map, address)


class LoadedStep:
    """A loaded function of a pipeline, with its launch, grid and number of consecutive launches.

    ``slots`` has a tuple of three items for each parameter:

    - the name of the array or scalar that each call passes, or None
    - for a tensor map or texture, a cache from address to encoded map, otherwise None
    - a fixed value, or the description of the tensor map or texture
    """

    def __init__(self, function: Any, launch: Launch, grid: Size3 | None = None, launches: int = 1) -> None:
        self.function, self.launch = function, launch
        self.grid, self.launches = grid or launch.grid, launches
        self.attributed: AttributedLaunch | None = None
        self.slots = [_slot(argument) for argument in launch.arguments]

    @property
    def handle(self) -> int:
        """Handle of the function in the driver API."""
        return int(self.function.kernel.ptr)


def _slot(argument: Argument) -> _Slot:
    """Return the slot of an argument; see ``LoadedStep``."""
    if isinstance(argument, BytesArgument):
        return None, None, argument.stored
    if isinstance(argument, ScalarArgument):
        return None if argument.limits is None else argument.name, None, argument.stored
    if isinstance(argument, TensorMap | LinearTexture):
        return argument.operand.name, {}, argument
    return argument.name, None, None


def encode_tensor_map(tensor_map: TensorMap, address: int) -> Array:
    """Encode the tensor map of the GPU array at ``address``: 128 bytes, in a numpy array of one element.

    Raises LaunchRefused if the driver rejects the tensor map or is missing.
    """
    from cuda.bindings import driver

    # The bindings align a tensor map to 16 bytes, but the driver requires 64. So the driver's C function is called with
    # memory that is aligned here. The launch copies the map into its parameters.
    memory = np.zeros(_MAP_BYTES + _MAP_ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _MAP_ALIGNMENT
    encoded = memory[start : start + _MAP_BYTES]
    rank = len(tensor_map.sizes)
    _check_address(tensor_map, address)
    corners = tensor_map.im2col
    box: tuple[Any, ...] = ((ctypes.c_uint32 * rank)(*tensor_map.box),)
    if corners is not None:  # for im2col, the box is replaced by channels per pixel and pixels per column
        between = ctypes.c_int * len(corners.lower)
        box = (between(*corners.lower), between(*corners.upper), *tensor_map.box[:2])
    status = (_encode_function() if corners is None else _encode_im2col_function())(
        encoded.ctypes.data,
        _number(driver.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{tensor_map.element}"),
        rank,
        address,
        (ctypes.c_uint64 * rank)(*tensor_map.sizes),
        (ctypes.c_uint64 * rank)(*tensor_map.strides),
        *box,
        (ctypes.c_uint32 * rank)(*tensor_map.element_strides),
        _number(driver.CUtensorMapInterleave, f"CU_TENSOR_MAP_INTERLEAVE_{tensor_map.interleave}"),
        _number(driver.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{tensor_map.swizzle}"),
        _number(driver.CUtensorMapL2promotion, f"CU_TENSOR_MAP_L2_PROMOTION_{tensor_map.l2_promotion}"),
        _number(driver.CUtensorMapFloatOOBfill, f"CU_TENSOR_MAP_FLOAT_OOB_FILL_{tensor_map.fill}"),
    )
    if status != 0:
        raise LaunchRefused(f"the driver rejects tensor map {tensor_map.name}: {driver.CUresult(status).name}")
    return _passed(encoded)


def _check_address(tensor_map: TensorMap, address: int) -> None:
    base = 32 if tensor_map.interleave == "32B" else 16
    if address % base:
        raise LaunchRefused(
            f"the address of {tensor_map.operand.name} must be a multiple of {base} bytes for its tensor map"
        )


def _passed(encoded: Array) -> Array:
    """Return the bytes of a tensor map as an array of one element, which cupy passes as a struct."""
    return encoded.view(np.dtype((np.void, _MAP_BYTES)))


def _number(names: Any, name: str) -> int:
    """Return the value of a driver enumerator, whose class differs between versions of the bindings."""
    return int(getattr(names, name))


@cache
def _encode_function() -> Any:
    """Return ``cuTensorMapEncodeTiled`` of the driver. Raises NoEncoder as ``_of_driver`` does."""
    return _of_driver("cuTensorMapEncodeTiled", (_NUMBERS,))


@cache
def _encode_im2col_function() -> Any:
    """Return the driver function ``cuTensorMapEncodeIm2col``. Raises NoEncoder.

    Four parameters describe its box: two corners, the number of channels and the number of pixels.
    """
    corners = ctypes.POINTER(ctypes.c_int)
    return _of_driver("cuTensorMapEncodeIm2col", (corners, corners, ctypes.c_uint32, ctypes.c_uint32))


_NUMBERS = ctypes.POINTER(ctypes.c_uint32)


def _of_driver(name: str, box: Sequence[Any]) -> Any:
    """Return a driver function that encodes tensor maps. ``box`` has the C types of the function's box parameters.

    Raises NoEncoder if the driver lacks the function (before CUDA 12), or if its library has an unexpected name.
    """
    try:
        encode = getattr(ctypes.CDLL("libcuda.so.1"), name)
    except (OSError, AttributeError) as error:
        raise NoEncoder(f"this machine's driver does not support tensor maps ({error})") from error
    pointer, sizes = ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint64)
    number = ctypes.c_int
    encode.restype = number
    encode.argtypes = [
        *(pointer, number, ctypes.c_uint32, pointer, sizes, sizes, *box, _NUMBERS),
        *(number, number, number, number),
    ]
    return encode


def _grid(cp: Any, function: int, launch: Launch) -> Size3:
    """Return the grid of ``launch``, limited to the blocks that the current GPU can run at the same time.

    If that limit is unknown or 0, the grid is unchanged; if no block can run, the launch will fail with an error.
    """
    clusters = _clusters_at_a_time(cp, function, launch)
    return launch.grid_of(clusters) if clusters else launch.grid


def _clusters_at_a_time(cp: Any, function: int, launch: Launch) -> int | None:
    """Return how many clusters the current GPU can run at the same time, or blocks if the launch has no clusters.

    Returns None if the driver does not report it (CUDA Driver API, Occupancy).
    """
    clustered = launch.cluster != (1, 1, 1)
    try:
        from cuda.bindings import driver

        handle = driver.CUfunction(function)
        if clustered:
            # no cluster attribute, because the function was compiled with its cluster dimensions
            config = driver.CUlaunchConfig()
            config.gridDimX, config.gridDimY, config.gridDimZ = launch.grid
            config.blockDimX, config.blockDimY, config.blockDimZ = launch.block
            config.sharedMemBytes = launch.dynamic_shared_bytes
            status, running = driver.cuOccupancyMaxActiveClusters(handle, config)
        else:
            status, running = driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(
                handle, launch.threads, launch.dynamic_shared_bytes
            )
    except (ImportError, RuntimeError):  # the bindings or the driver are missing, or the driver lacks the function
        return None
    if int(status) != 0:
        return None
    return int(running) if clustered else int(running) * int(cp.cuda.Device().attributes["MultiProcessorCount"])


def _check_cluster(function: int, cluster: Size3) -> bool:
    """Return True if the loaded ``function`` was compiled with ``__cluster_dims__``.

    Raises:
        LaunchRefused: The compiled dimensions differ from ``cluster``.
    """
    from cuda.bindings import driver

    attributes = driver.CUfunction_attribute
    handle = driver.CUfunction(function)
    compiled = []
    for side in (
        attributes.CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH,
        attributes.CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT,
        attributes.CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH,
    ):
        status, blocks = driver.cuFuncGetAttribute(side, handle)
        _checked(status, "cannot read the kernel's cluster dimensions from the driver")
        compiled.append(int(blocks))
    if tuple(compiled) not in (cluster, (0, 0, 0)):
        raise LaunchRefused(f"__cluster_dims__ is {tuple(compiled)} in the source, but {cluster} in the launch")
    if cluster[0] * cluster[1] * cluster[2] > _PORTABLE_CLUSTER:
        large = attributes.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
        (status,) = driver.cuFuncSetAttribute(handle, large, 1)
        _checked(status, f"the driver does not allow a cluster of {cluster}")
    return tuple(compiled) == cluster


def _checked(status: Any, complaint: str) -> None:
    if int(status) != 0:
        raise LaunchRefused(f"{complaint}: {status.name}")
