"""A launch passes the right parameters to the kernel, and the right tensor maps and clusters to the driver."""

import ctypes
import dataclasses
import itertools
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from needs import needs_compiler, needs_nvrtc

import autosched
from measurements.compiler.nvrtc import NvrtcMissing, compile_source
from measurements.runners import launch, tensor_map_builder
from measurements.runners.launch import LoadedLaunch, encode_tensor_map
from measurements.runners.launch_refused import LaunchRefused
from search_spaces.hardware.dtypes import BF16, F16, F32, SCALAR_DTYPES
from search_spaces.launches.launch import Launch, ScalarArgument
from search_spaces.launches.operand import Operand
from search_spaces.launches.tensor_map import ELEMENT_BYTES, BoundingBox, TensorMap

A = Operand("a", "input", F16, (128, 256))
OUT = Operand("out", "output", F32, (64,))
MAP = TensorMap.dense("a_map", A, (64, 64), swizzle="128B", l2_promotion="L2_256B")
LAUNCH = Launch(
    entry="f",
    arguments=(OUT, MAP, ScalarArgument("n", SCALAR_DTYPES["i64"], -3)),
    grid=(4, 2, 1),
    block=(64, 1, 1),
    dynamic_shared_bytes=70_000,
    launches=2,
)


class Function:
    """Fake loaded function that records its calls."""

    def __init__(self):
        self.calls = []
        self.kernel = SimpleNamespace(ptr=77)

    def __call__(self, grid, block, parameters, *, shared_mem):
        self.calls.append((grid, block, parameters, shared_mem))


def loaded(described=LAUNCH, **options):
    function = Function()
    cupy = SimpleNamespace(
        RawModule=lambda path: SimpleNamespace(get_function=lambda name: function),
        cuda=SimpleNamespace(
            Device=lambda: SimpleNamespace(attributes={"MultiProcessorCount": 40}),
            get_current_stream=lambda: SimpleNamespace(ptr=5),
        ),
    )
    return LoadedLaunch(cupy, described, "f.cubin", **options), function


def array(address):
    return SimpleNamespace(data=SimpleNamespace(ptr=address))


@pytest.fixture
def driver(monkeypatch):
    """Replace cuTensorMapEncodeTiled by a fake, and return the fake's calls in order.

    The fake fills the first map with the byte 1, the second map with the byte 2, and so on.
    """
    calls, numbers = [], itertools.count(1)

    def encode(target, *values):
        assert target % 64 == 0
        rank = values[1]
        sizes, strides, *boxes = (tuple(v) for v in values[3:7])
        dimensions = [*values[:3], sizes, strides[: rank - 1], *boxes, *values[7:]]
        calls.append(dimensions)
        ctypes.memset(target, next(numbers), 128)
        return 0

    monkeypatch.setattr(launch, "_encode_function", lambda: encode)
    return calls


def test_further_launches_follow_with_arguments_of_their_own(driver):
    middle, total = Operand("middle", "workspace", F32, (8,)), Operand("total", "output", F32, (1,))
    first = Launch(entry="f", arguments=(middle, OUT), grid=(4, 1, 1), block=(64, 1, 1), dynamic_shared_bytes=8)
    second = Launch(
        entry="g",
        arguments=(total, middle, ScalarArgument("n", SCALAR_DTYPES["i32"], 8)),
        grid=(1, 1, 1),
        block=(32, 1, 1),
    )
    program, function = loaded(dataclasses.replace(first, then=(second,)))
    program({"middle": 1, "out": 2, "total": 3})
    (grid, block, passed, shared), (grid_2, block_2, passed_2, shared_2) = function.calls
    assert (grid, block, passed, shared) == ((4, 1, 1), (64, 1, 1), (1, 2), 8)
    assert (grid_2, block_2, passed_2[:2], shared_2) == ((1, 1, 1), (32, 1, 1), (3, 1), 0)
    assert len(passed_2) == 3


def test_addresses_replace_arrays(driver):
    program, function = loaded()
    program.launch_with(program.parameters({"out": 4096, "a": 8192}))
    out, a_map, _ = function.calls[0][2]
    assert (out, a_map.tobytes(), driver[0][2]) == (4096, b"\x01" * 128, 8192)


def test_parameters_are_pointers_maps_and_values_in_the_kernels_order(driver):
    program, function = loaded()
    arrays = {"out": array(4096), "a": array(8192)}
    program(arrays)
    assert function.max_dynamic_shared_size_bytes == 70_000
    assert len(function.calls) == 2
    for grid, block, (out, a_map, n), shared in function.calls:
        assert (grid, block, shared) == ((4, 2, 1), (64, 1, 1), 70_000)
        assert out is arrays["out"]
        assert (a_map.size, a_map.nbytes, a_map.tobytes()) == (1, 128, b"\x01" * 128)
        assert (n.size, n.dtype, int(n[0])) == (1, np.int64, -3)


def test_a_map_is_encoded_once_for_each_address(driver, monkeypatch):
    monkeypatch.setattr(launch, "_KEPT_MAPS", 2)
    program, function = loaded(dataclasses.replace(LAUNCH, launches=1))
    for address in (4096, 8192, 4096, 12288, 4096):
        program({"out": array(0), "a": array(address)})
    assert [values[2] for values in driver] == [4096, 8192, 12288, 4096], "at most two maps are cached"
    assert function.calls[0][2][1].tobytes() == function.calls[2][2][1].tobytes() != function.calls[1][2][1].tobytes()


def test_the_driver_receives_the_whole_map(driver):
    bindings = pytest.importorskip("cuda.bindings.driver")
    encode_tensor_map(MAP, 4096)
    element = bindings.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_FLOAT16
    swizzle = bindings.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_128B
    promotion = bindings.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_256B
    expected = [int(element), 2, 4096, (256, 128), (512,), (64, 64), (1, 1), 0, int(swizzle), int(promotion), 0]
    assert driver == [expected]


def test_the_driver_receives_the_corners_and_the_column_of_a_map_of_pixels(monkeypatch):
    bindings = pytest.importorskip("cuda.bindings.driver")
    image = Operand("image", "input", F16, (2, 8, 10, 16))
    dense = TensorMap.dense("pixels", image, (1, 1, 1, 16))
    box = BoundingBox((-1, -2), (0, 1))
    pixels = dataclasses.replace(dense, box=(16, 300, 1, 1), element_strides=(1, 2, 3, 1), im2col=box)
    calls = []

    def encode(target, *values):
        sizes, strides, lower, upper = (tuple(v) for v in values[3:7])
        calls.append([*values[:3], sizes, strides[:3], lower, upper, *values[7:9], tuple(values[9]), *values[10:]])
        ctypes.memset(target, 7, 128)
        return 0

    monkeypatch.setattr(launch, "_encode_im2col_function", lambda: encode)
    assert encode_tensor_map(pixels, 4096).tobytes() == b"\x07" * 128
    element = int(bindings.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_FLOAT16)
    sizes, strides = (16, 10, 8, 2), (32, 320, 2560)
    assert calls == [[element, 4, 4096, sizes, strides, (-1, -2), (0, 1), 16, 300, (1, 2, 3, 1), 0, 0, 0, 0]]


def test_every_option_of_a_map_is_accepted_by_the_driver(driver):
    wide = Operand("x", "input", SCALAR_DTYPES["f64"], (2, 64, 64))
    for element, size in ELEMENT_BYTES.items():
        x = dataclasses.replace(wide, dtype={1: SCALAR_DTYPES["i8"], 2: BF16, 4: F32, 8: SCALAR_DTYPES["f64"]}[size])
        strides = (64 * size, 4096 * size)
        encode_tensor_map(TensorMap("m", x, element, (64, 64, 2), strides, (16, 2, 2), (1, 1, 1)), 64)
    # One more matrix than in ``wide``, because a map with 32-byte slices of channels (interleave) reaches further.
    f32 = dataclasses.replace(wide, dtype=F32, shape=(3, 64, 64))
    plain = TensorMap("m", f32, "FLOAT32", (64, 64, 2), (256, 16384), (8, 2, 2), (1, 1, 1))
    changes = [
        *({"swizzle": s} for s in ("NONE", "32B", "64B", "128B")),
        *({"l2_promotion": p} for p in ("NONE", "L2_64B", "L2_128B", "L2_256B")),
        {"interleave": "16B"},
        {"interleave": "32B", "swizzle": "32B"},
        {"fill": "NAN_REQUEST_ZERO_FMA"},
    ]
    for change in changes:
        encode_tensor_map(dataclasses.replace(plain, **change), 64)
    assert len(driver) == len(ELEMENT_BYTES) + len(changes)


def test_a_tensor_map_rejected_by_the_driver_is_reported_in_one_line(monkeypatch):
    pytest.importorskip("cuda.bindings.driver")
    monkeypatch.setattr(launch, "_encode_function", lambda: lambda *_: 1)
    with pytest.raises(LaunchRefused, match="rejects tensor map a_map: CUDA_ERROR_INVALID_VALUE"):
        encode_tensor_map(MAP, 4096)
    with pytest.raises(LaunchRefused, match="the address of a must be a multiple of 16 bytes"):
        encode_tensor_map(MAP, 4104)


@pytest.fixture
def no_driver(monkeypatch):
    launch._encode_function.cache_clear()
    libraries = ctypes.CDLL

    def missing(name, *more, **named):
        if name != "libcuda.so.1":  # other libraries, such as NVRTC, are installed
            return libraries(name, *more, **named)
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", missing)


class EmulatedCupy:
    """Fake GPU that emulates the kernel that builds tensor maps."""

    def __init__(self):
        self.cuda = SimpleNamespace(Device=lambda: SimpleNamespace(id=0))
        self.function, self.loaded, self.maps = Function(), [], []

    def RawModule(self, path):
        self.loaded.append(Path(path).stem)
        builds = self.loaded[-1] == "fill_tensor_map"
        return SimpleNamespace(get_function=lambda name: self.build if builds else self.function)

    def zeros(self, size, dtype):
        return np.zeros(size, dtype)

    def asnumpy(self, array):
        return array

    def build(self, grid, block, parameters):
        tensor_map, fields = parameters
        assert (grid, block, tensor_map.nbytes, fields.size) == ((1,), (1,), 128, 1)
        self.maps.append(fields.view(tensor_map_builder.FIELDS)[0])
        text = dict(tensor_map_builder.headers().files)
        done = autosched.emulate(
            tensor_map_builder.SOURCE, arguments=(tensor_map, fields[0]), grid=1, block=1, headers=text
        )
        assert done.ok, done.reason
        tensor_map[:] = done.arrays[0]


@needs_compiler
@needs_nvrtc
def test_tensor_maps_are_built_on_the_gpu_for_old_drivers(no_driver):
    cupy = EmulatedCupy()
    program = LoadedLaunch(cupy, LAUNCH, "f.cubin")
    for address in (4096, 8192, 4096):
        program({"out": array(0), "a": array(address)})
    assert cupy.loaded == ["f", "fill_tensor_map"]
    assert [int(fields["address"]) for fields in cupy.maps] == [4096, 8192], "one map is made for each address"
    maps = [parameters[1] for _, _, parameters, _ in cupy.function.calls]
    assert {(m.size, m.nbytes) for m in maps} == {(1, 128)}
    assert maps[0].tobytes() == maps[4].tobytes() != maps[2].tobytes()
    of = cupy.maps[0]
    assert (of["rank"], of["element"], of["swizzle"], of["fill"]) == (2, 6, 3, 0)
    assert of["sizes"].tolist() == [256, 128, 0, 0, 0] and of["strides"].tolist() == [512, 0, 0, 0]
    with pytest.raises(LaunchRefused, match="the address of a must be a multiple of 16 bytes"):
        program({"out": array(0), "a": array(4104)})


def test_a_missing_driver_and_compiler_is_reported(no_driver, monkeypatch):
    def missing(*_):
        raise NvrtcMissing("no libnvrtc")

    monkeypatch.setattr(tensor_map_builder, "compile_source", missing)
    program = LoadedLaunch(EmulatedCupy(), LAUNCH, "f.cubin")
    with pytest.raises(
        LaunchRefused, match=r"does not support tensor maps .*kernel on the GPU cannot encode .*NVRTC was not"
    ):
        program({"out": array(0), "a": array(4096)})


@needs_nvrtc
def test_the_kernel_that_makes_maps_compiles_for_hopper():
    b = tensor_map_builder
    done = compile_source(b.SOURCE, b.ENTRY, b.ARCH, b.headers())
    assert done.cubin is not None and done.entry == b.ENTRY and "0 bytes spill stores" in done.log


def test_a_missing_driver_is_reported(no_driver):
    pytest.importorskip("cuda.bindings.driver")
    with pytest.raises(LaunchRefused, match=r"does not support tensor maps \(libcuda"):
        encode_tensor_map(MAP, 4096)


@pytest.mark.parametrize(("cluster", "large"), [((2, 1, 1), False), ((4, 2, 2), True)])
def test_the_cluster_size_is_read_from_the_compiled_function(monkeypatch, cluster, large):
    bindings = pytest.importorskip("cuda.bindings.driver")
    attributes = bindings.CUfunction_attribute
    sides = dict(zip([
        attributes.CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH,
        attributes.CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT,
        attributes.CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH,
    ], cluster, strict=True))  # fmt: skip
    allowed = []

    def set_attribute(function, attribute, value):
        allowed.append((int(function), attribute, value))
        return (bindings.CUresult.CUDA_SUCCESS,)

    monkeypatch.setattr(
        bindings, "cuFuncGetAttribute", lambda side, function: (bindings.CUresult.CUDA_SUCCESS, sides[side])
    )
    monkeypatch.setattr(bindings, "cuFuncSetAttribute", set_attribute)
    clustered = dataclasses.replace(LAUNCH, grid=(8, 2, 2), cluster=cluster)
    loaded(clustered)
    assert allowed == ([(77, attributes.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1)] if large else [])
    with pytest.raises(LaunchRefused, match=r"__cluster_dims__ is .* in the source, but"):
        loaded(dataclasses.replace(clustered, cluster=(2, 2, 1)))
    broken = bindings.CUresult.CUDA_ERROR_INVALID_HANDLE
    monkeypatch.setattr(bindings, "cuFuncGetAttribute", lambda *_: (broken, 0))
    with pytest.raises(LaunchRefused, match="from the driver: CUDA_ERROR_INVALID_HANDLE"):
        loaded(clustered)


@pytest.fixture
def launched_by_driver(monkeypatch):
    """Replace cuLaunchKernelEx by a fake, and return a list of the arguments of its calls."""
    bindings = pytest.importorskip("cuda.bindings.driver")
    launches = []

    def launch_kernel(config, function, parameters, extra):
        ids = bindings.CUlaunchAttributeID
        values = {
            ids.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION: lambda v: (v.clusterDim.x, v.clusterDim.y, v.clusterDim.z),
            ids.CU_LAUNCH_ATTRIBUTE_COOPERATIVE: lambda v: v.cooperative,
            ids.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION: lambda v: (
                v.programmaticStreamSerializationAllowed
            ),
        }
        first, *_ = (ctypes.c_uint64 * 1).from_address(parameters)
        launches.append({
            "grid": (config.gridDimX, config.gridDimY, config.gridDimZ), "block": config.blockDimX,
            "shared": config.sharedMemBytes, "stream": int(config.hStream), "function": int(function),
            "attributes": {a.id.name.split("_ATTRIBUTE_")[1]: values[a.id](a.value) for a in config.attrs},
            "first": ctypes.c_uint64.from_address(first).value,
        })  # fmt: skip
        return (bindings.CUresult.CUDA_SUCCESS,)

    monkeypatch.setattr(bindings, "cuLaunchKernelEx", launch_kernel)
    return launches


def test_attributes_are_passed_to_the_driver(driver, launched_by_driver, monkeypatch):
    monkeypatch.setattr(launch, "_check_cluster", lambda function, cluster: False)
    once = dataclasses.replace(LAUNCH, launches=1)
    cases = [
        (dataclasses.replace(once, cooperative=True), {"COOPERATIVE": 1}),
        (dataclasses.replace(once, cluster=(2, 1, 1)), {"CLUSTER_DIMENSION": (2, 1, 1)}),
        (dataclasses.replace(once, dependent=True), {"PROGRAMMATIC_STREAM_SERIALIZATION": 1}),
    ]
    for described, attributes in cases:
        program, function = loaded(described, overlapping=True)
        program.launch_with(program.parameters({"out": 4096, "a": 8192}))
        assert launched_by_driver.pop() == {
            "grid": (4, 2, 1), "block": 64, "shared": 70_000, "stream": 5, "function": 77, "attributes": attributes,
            "first": 4096,
        }  # fmt: skip
        assert not function.calls


def test_a_kernel_that_is_timed_alone_does_not_overlap_itself(driver, launched_by_driver):
    program, function = loaded(dataclasses.replace(LAUNCH, dependent=True))
    program({"out": array(4096), "a": array(8192)})
    assert len(function.calls) == LAUNCH.launches and not launched_by_driver


def test_a_launch_that_the_driver_rejects(driver, launched_by_driver, monkeypatch):
    bindings = pytest.importorskip("cuda.bindings.driver")
    refused = bindings.CUresult.CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE
    monkeypatch.setattr(bindings, "cuLaunchKernelEx", lambda *_: (refused,))
    program, _ = loaded(dataclasses.replace(LAUNCH, cooperative=True))
    with pytest.raises(LaunchRefused, match="COOPERATIVE_LAUNCH_TOO_LARGE"):
        program({"out": array(4096), "a": array(8192)})


SHRINKING = dataclasses.replace(LAUNCH, grid=(128, 1, 1), launches=1, grid_may_shrink=True)


@pytest.fixture
def occupancy(monkeypatch):
    """Return a fake driver that reports how many blocks per SM, or clusters per GPU, run concurrently."""
    bindings = pytest.importorskip("cuda.bindings.driver")
    fine, calls = bindings.CUresult.CUDA_SUCCESS, []
    answer = SimpleNamespace(status=fine, blocks_of_sm=2, clusters=31, calls=calls)

    def blocks(function, threads, shared_bytes):
        calls.append((int(function), threads, shared_bytes))
        return answer.status, answer.blocks_of_sm

    def clusters(function, config):
        sizes = (
            (config.gridDimX, config.gridDimY, config.gridDimZ),
            (config.blockDimX, config.blockDimY, config.blockDimZ),
        )
        calls.append((int(function), *sizes, config.sharedMemBytes, config.numAttrs))
        return answer.status, answer.clusters

    monkeypatch.setattr(bindings, "cuOccupancyMaxActiveBlocksPerMultiprocessor", blocks)
    monkeypatch.setattr(bindings, "cuOccupancyMaxActiveClusters", clusters)
    monkeypatch.setattr(launch, "_check_cluster", lambda function, cluster: True)
    return answer


def launched(described):
    """Launch a kernel twice with ``program.grid``. Return this grid and ``program.shrunk()``.

    The latter is the message about a smaller grid, or "" if the grid was not reduced.
    """
    program, function = loaded(described)
    parameters = program.parameters({"out": 4096, "a": 8192})
    for _ in range(2):
        program.launch_with(parameters)
    assert {call[0] for call in function.calls} == {program.grid}
    return program.grid, program.shrunk()


@pytest.mark.parametrize(
    ("cluster", "running", "blocks"),
    [(1, 4, 128), (1, 3, 120), (2, 31, 62), (4, 31, 124), (4, 32, 128), (4, 33, 128), (4, 1, 4)],
)
def test_no_more_blocks_are_launched_than_run_at_a_time(driver, occupancy, cluster, running, blocks):
    """40 SMs run ``running`` blocks each, or the GPU runs ``running`` clusters. The driver is queried only once."""
    occupancy.blocks_of_sm = occupancy.clusters = running
    grid, answer = launched(dataclasses.replace(SHRINKING, cluster=(cluster, 1, 1)))
    assert grid == (blocks, 1, 1)
    assert answer == ("" if blocks == 128 else f"launched {blocks} of 128 blocks: no more can run at the same time")
    clustered = (77, (128, 1, 1), (64, 1, 1), 70_000, 0)
    assert occupancy.calls == [(77, 64, 70_000) if cluster == 1 else clustered]


def test_a_fixed_grid_is_launched_without_querying_occupancy(driver, occupancy):
    assert launched(LAUNCH) == ((4, 2, 1), "")
    assert launched(dataclasses.replace(SHRINKING, grid_may_shrink=False)) == ((128, 1, 1), "")
    assert occupancy.calls == []


@pytest.mark.parametrize("cluster", [1, 4])
def test_the_described_grid_is_used_if_the_driver_reports_no_occupancy(driver, occupancy, monkeypatch, cluster):
    bindings = pytest.importorskip("cuda.bindings.driver")
    described = dataclasses.replace(SHRINKING, cluster=(cluster, 1, 1))
    occupancy.blocks_of_sm = occupancy.clusters = 0  # the kernel does not fit, so the launch will fail
    assert launched(described) == ((128, 1, 1), "")
    occupancy.blocks_of_sm = occupancy.clusters = 1
    assert launched(described)[1]
    occupancy.status = bindings.CUresult.CUDA_ERROR_INVALID_CLUSTER_SIZE
    assert launched(described) == ((128, 1, 1), "")

    def missing(*_):
        raise RuntimeError('Function "cuOccupancyMaxActiveClusters" not found')

    for name in ("cuOccupancyMaxActiveBlocksPerMultiprocessor", "cuOccupancyMaxActiveClusters"):
        monkeypatch.setattr(bindings, name, missing)
    assert launched(described) == ((128, 1, 1), "")
