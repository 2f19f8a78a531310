"""Call cuBLASLt through its C interface: unlike cuBLAS, it has 8-bit types and selectable algorithms.

Names, numbers and structures are from NVIDIA's cuBLAS documentation ("Using the cuBLASLt API") and its header. On Ada
and Hopper, products of 8-bit floats require ``a`` in row-major and ``b`` in column-major order, and e5m2 times e5m2 is
not supported. The library rejects unsupported products. Sums of 8-bit floats are accumulated in the tensor cores
(``FAST_ACCUM``), as in autosched's kernels.
"""

from __future__ import annotations

import ctypes
import importlib
import math
import statistics
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache, partial
from typing import Any

from measurements.runners.cuda.launch_timer import NoGraph, capture
from measurements.runners.cuda.libraries.cublas import COMPUTE_F16, WORKSPACE, CublasError, Gemm, factors

EIGHT_BIT = frozenset({"e4m3", "e5m2", "i8"})  # types that cuBLASLt multiplies and cuBLAS does not
SCALES = frozenset({"none", "tensor", "row_column"})  # kinds of scales that are supported for 8-bit types
BEST_OF = 8  # number of algorithms to measure, in the order of the library's heuristics

_SONAMES = ("libcublasLt.so.13", "libcublasLt.so.12")
_INSTALL = "pip install nvidia-cublas (nvidia-cublas-cu12 for CUDA 12)"
_TYPES = {"f32": 0, "f16": 2, "i8": 3, "i32": 10, "bf16": 14, "e4m3": 28, "e5m2": 29}  # cudaDataType
_COMPUTE_F32, _COMPUTE_I32, _COMPUTE_TF32 = 68, 72, 77  # cublasComputeType_t
_TRANSA, _TRANSB, _A_SCALE_POINTER, _B_SCALE_POINTER, _FAST_ACCUM = 3, 4, 17, 18, 25  # cublasLtMatmulDescAttributes_t
_A_SCALE_MODE, _B_SCALE_MODE = 31, 32
_OUTER_VECTOR = 3  # cublasLtMatmulMatrixScale_t: one scale per row of op(A) and per column of op(B)
_BATCH_COUNT, _BATCH_STRIDE = 5, 6  # cublasLtMatrixLayoutAttribute_t
_MAX_WORKSPACE, _LEAST_ALIGNMENTS = 1, (5, 6, 7, 8)  # cublasLtMatmulPreferenceAttributes_t
_ALIGNMENT = 16  # alignment in bytes that callers guarantee for every array; TMA and kernels of 8-bit types require it
_NORMAL, _TRANSPOSED = 0, 1  # cublasOperation_t
_TIMED = 5  # replays of each algorithm; algorithms are compared by the median time
# Maximum number of launches in a replay. Slow kernels are launched fewer times, to fill about _REPLAY_MS milliseconds.
_TOGETHER, _REPLAY_MS = 20, 2.0

Multiply = Callable[..., None]  # arguments: device addresses of a, b, out, and of scale_a and scale_b if present


class _Heuristic(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t."""

    _fields_ = (
        ("algorithm", ctypes.c_uint64 * 8),
        ("workspace", ctypes.c_size_t),
        ("state", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    )


def lt_multiplier(cp: Any, stream: Any, gemm: Gemm, *, best_of: int = 1) -> Multiply:
    """Return a function that takes device addresses and queues the product with cuBLASLt.

    Args:
        cp: The cupy module.
        stream: The cupy stream.
        gemm: Sizes, types and storage orders.
        best_of: Number of algorithms to choose from, in the order of the library's heuristics. If more than 1, the
            first call measures the algorithms on its operands.

    Raises:
        CublasError: The library is missing, or does not support the product. The returned function also raises this
            error.
    """
    library = _library()
    handle, workspace = _handle(cp, stream)
    compute, sums = _COMPUTE_TF32 if gemm.tf32 else _COMPUTE_F32, "f32"
    if gemm.element == "i8":
        compute, sums = _COMPUTE_I32, "i32"
    elif gemm.in_f16:
        compute, sums = COMPUTE_F16, "f16"
    one, zero = (ctypes.c_int32(1), ctypes.c_int32(0)) if sums == "i32" else factors(gemm)
    operation = _description(library, compute, _TYPES[sums])
    # The library reads arrays as column-major, so each array appears transposed to it. Therefore the library computes
    # out^T = b^T @ a^T, and its operand A is b.
    _set(operation, "cublasLtMatmulDescSetAttribute", _TRANSA, ctypes.c_int32(int(gemm.b_transposed)))
    _set(operation, "cublasLtMatmulDescSetAttribute", _TRANSB, ctypes.c_int32(int(gemm.a_transposed)))
    if gemm.element in ("e4m3", "e5m2"):
        _set(operation, "cublasLtMatmulDescSetAttribute", _FAST_ACCUM, ctypes.c_int8(1))
    if gemm.scale == "row_column":
        for mode in (_A_SCALE_MODE, _B_SCALE_MODE):
            _set(operation, "cublasLtMatmulDescSetAttribute", mode, ctypes.c_int32(_OUTER_VECTOR))
    m, n, k = gemm.m, gemm.n, gemm.k
    b_layout = _matrix(library, gemm.element, *((k, n) if gemm.b_transposed else (n, k)), gemm.batch)
    a_layout = _matrix(library, gemm.element, *((m, k) if gemm.a_transposed else (k, m)), gemm.batch)
    out_layout = _matrix(library, gemm.out, n, m, gemm.batch)
    chosen: list[_Heuristic] = []

    def launch(algorithm: _Heuristic, a: int, b: int, out: int) -> None:
        _check(
            library.cublasLtMatmul(
                *(handle, operation, ctypes.byref(one)),
                *(ctypes.c_void_p(b), b_layout, ctypes.c_void_p(a), a_layout, ctypes.byref(zero)),
                *(ctypes.c_void_p(out), out_layout, ctypes.c_void_p(out), out_layout),
                *(ctypes.byref(algorithm.algorithm), ctypes.c_void_p(int(workspace.ptr)), ctypes.c_size_t(WORKSPACE)),
                ctypes.c_void_p(int(stream.ptr)),
            )
        )

    def multiply(a: int, b: int, out: int, *scales: int) -> None:
        if scales:
            _set(operation, "cublasLtMatmulDescSetAttribute", _A_SCALE_POINTER, ctypes.c_void_p(scales[1]))
            _set(operation, "cublasLtMatmulDescSetAttribute", _B_SCALE_POINTER, ctypes.c_void_p(scales[0]))
        if not chosen:  # chosen after the scales are set, because the choice depends on the scales
            algorithms = _algorithms(library, handle, operation, (b_layout, a_layout, out_layout), best_of)
            chosen.append(
                algorithms[0] if best_of == 1 else _fastest(cp, stream, algorithms, lambda f: launch(f, a, b, out))
            )
        launch(chosen[0], a, b, out)

    return multiply


def _algorithms(
    library: Any, handle: Any, operation: Any, layouts: tuple[Any, Any, Any], count: int
) -> list[_Heuristic]:
    preference = ctypes.c_void_p()
    _check(library.cublasLtMatmulPreferenceCreate(ctypes.byref(preference)))
    try:
        _set(preference, "cublasLtMatmulPreferenceSetAttribute", _MAX_WORKSPACE, ctypes.c_uint64(WORKSPACE))
        for alignment in _LEAST_ALIGNMENTS:
            _set(preference, "cublasLtMatmulPreferenceSetAttribute", alignment, ctypes.c_uint32(_ALIGNMENT))
        heuristics, returned = (_Heuristic * count)(), ctypes.c_int(0)
        factors, out = layouts[:2], layouts[2]
        _check(
            library.cublasLtMatmulAlgoGetHeuristic(
                *(handle, operation, *factors, out, out, preference),
                *(ctypes.c_int(count), heuristics, ctypes.byref(returned)),
            )
        )
    finally:
        library.cublasLtMatmulPreferenceDestroy(preference)
    usable = [one for one in heuristics[: returned.value] if one.state == 0]
    if not usable:
        raise CublasError("cuBLASLt has no algorithm for these types, orders and sizes")
    return usable


def _fastest(
    cp: Any, stream: Any, algorithms: Sequence[_Heuristic], launch: Callable[[_Heuristic], None]
) -> _Heuristic:
    """Return the algorithm with the lowest median time. Raises CublasError if no algorithm can be launched.

    Each algorithm is timed in a few replays of a graph of many launches. A single short launch on an idle GPU would
    only measure the host.
    """

    def elapsed(work: Callable[[], None]) -> float:
        start, stop = cp.cuda.Event(), cp.cuda.Event()
        start.record(stream)
        work()
        stop.record(stream)
        stop.synchronize()
        return float(cp.cuda.get_elapsed_time(start, stop))

    times: list[tuple[float, int]] = []
    for rank, algorithm in enumerate(algorithms):
        with suppress(CublasError, NoGraph):  # the heuristic may return algorithms that this GPU rejects
            once = partial(launch, algorithm)
            once()
            together = min(max(math.ceil(_REPLAY_MS / max(elapsed(once), 1e-3)), 1), _TOGETHER)
            captured = capture(stream, [once] * together)
            replay = partial(captured.graph.launch, stream)
            replay()
            times.append((statistics.median(elapsed(replay) for _ in range(_TIMED)) / together, rank))
    if not times:
        raise CublasError("cuBLASLt cannot launch any of the algorithms that its heuristic returns")
    return algorithms[min(times)[1]]


def _description(library: Any, compute: int, scale_type: int) -> ctypes.c_void_p:
    description = ctypes.c_void_p()
    _check(library.cublasLtMatmulDescCreate(ctypes.byref(description), compute, scale_type))
    return description


def _matrix(library: Any, element: str, rows: int, columns: int, batch: int) -> ctypes.c_void_p:
    """Return the layout of a contiguous stack of column-major matrices."""
    layout = ctypes.c_void_p()
    sizes = ctypes.c_uint64(rows), ctypes.c_uint64(columns), ctypes.c_int64(rows)
    _check(library.cublasLtMatrixLayoutCreate(ctypes.byref(layout), _TYPES[element], *sizes))
    if batch > 1:
        _set(layout, "cublasLtMatrixLayoutSetAttribute", _BATCH_COUNT, ctypes.c_int32(batch))
        _set(layout, "cublasLtMatrixLayoutSetAttribute", _BATCH_STRIDE, ctypes.c_int64(rows * columns))
    return layout


def _set(descriptor: ctypes.c_void_p, function: str, attribute: int, value: Any) -> None:
    _check(
        getattr(_library(), function)(descriptor, attribute, ctypes.byref(value), ctypes.c_size_t(ctypes.sizeof(value)))
    )


@cache
def _library() -> ctypes.CDLL:
    """Load libcublasLt from where cuda.pathfinder finds it, as cupy does, or else from the system's library path."""
    names = list(_SONAMES)
    # cuda.pathfinder is not installed, or raises one of its errors because it does not find the library
    with suppress(Exception):
        names.insert(0, importlib.import_module("cuda.pathfinder").load_nvidia_dynamic_lib("cublasLt").abs_path)
    for name in filter(None, names):
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise CublasError(f"cuBLASLt was not found ({' or '.join(_SONAMES)}): {_INSTALL}")


_handles: dict[tuple[int, int], tuple[ctypes.c_void_p, Any]] = {}  # handle and workspace, by GPU and stream


def _handle(cp: Any, stream: Any) -> tuple[ctypes.c_void_p, Any]:
    """Return the handle and the workspace for a stream of a GPU. Handles exist until the process ends."""
    key = int(cp.cuda.runtime.getDevice()), int(stream.ptr)
    if key not in _handles:
        handle = ctypes.c_void_p()
        _check(_library().cublasLtCreate(ctypes.byref(handle)))
        _handles[key] = handle, cp.cuda.alloc(WORKSPACE)
    return _handles[key]


def _check(status: int) -> None:
    if status:
        raise CublasError(f"cuBLASLt returned status {status}")
