"""cuBLAS through its C interface, which handles every float type, independently of the array library.

cupy's own matmul has no bf16 in most versions, and converts stacks of f16 matrices to f32 first, which would be an
unfair baseline. Names and numbers are those of NVIDIA's cuBLAS documentation (cublasGemmStridedBatchedEx).
"""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

_SONAMES = ("libcublas.so.13", "libcublas.so.12")
_INSTALL = "pip install nvidia-cublas (nvidia-cublas-cu12 for CUDA 12)"
# Bytes of workspace, recommended by cuBLAS for Hopper; cuBLAS would allocate its own inside graphs.
WORKSPACE = 32 << 20
_TYPES = {"f32": 0, "f16": 2, "bf16": 14}  # cudaDataType
ELEMENTS = frozenset(_TYPES)  # types of factors and of results
COMPUTE_F16, _COMPUTE_F32, _COMPUTE_TF32 = 64, 68, 77  # cublasComputeType_t
F16_ONE = 0x3C00
_NORMAL, _TRANSPOSED = 0, 1  # cublasOperation_t
_DEFAULT_ALGORITHM = -1
_VERSION_PARTS = (0, 1, 2)  # libraryPropertyType: major, minor, patch


class CublasError(RuntimeError):
    """cuBLAS cannot be loaded, or rejects a call."""


@dataclass(frozen=True)
class Gemm:
    """``out[i] = a[i] @ b[i]`` for ``batch`` row-major outputs of m x n; accumulated in f32, or ``in_f16``.

    If ``a_transposed``, a is stored as k x m, not m x k; if ``b_transposed``, b as n x k, not k x n. ``element`` is the
    type of a and b, ``out`` that of the result. ``tf32`` allows multiplying f32 on tensor cores. ``scale`` is the kind
    of f32 scales of 8-bit floats, as in ``Matmul``.
    """

    m: int
    n: int
    k: int
    batch: int
    element: str
    out: str
    a_transposed: bool = False
    b_transposed: bool = False
    tf32: bool = False
    scale: str = "none"
    in_f16: bool = False


def multiplier(cp: Any, stream: Any, gemm: Gemm) -> Callable[[int, int, int], None]:
    """Return a function of the device addresses of a, b and out that queues the product on the cupy stream ``stream``.

    Raises CublasError, as the function does.
    """
    library = _library()
    handle = _handle(cp, stream)
    one, zero = factors(gemm)
    compute = COMPUTE_F16 if gemm.in_f16 else _COMPUTE_TF32 if gemm.tf32 else _COMPUTE_F32
    element, out = _TYPES[gemm.element], _TYPES[gemm.out]
    m, n, k = gemm.m, gemm.n, gemm.k

    def multiply(a: int, b: int, result: int) -> None:
        # cuBLAS is column-major: it computes the transposed product out^T = b^T @ a^T of the unchanged arrays.
        _check(
            library.cublasGemmStridedBatchedEx(
                handle,
                _TRANSPOSED if gemm.b_transposed else _NORMAL,
                _TRANSPOSED if gemm.a_transposed else _NORMAL,
                *(n, m, k),
                ctypes.byref(one),
                *(ctypes.c_void_p(b), element, k if gemm.b_transposed else n, ctypes.c_longlong(k * n)),
                *(ctypes.c_void_p(a), element, m if gemm.a_transposed else k, ctypes.c_longlong(m * k)),
                ctypes.byref(zero),
                *(ctypes.c_void_p(result), out, n, ctypes.c_longlong(m * n)),
                *(gemm.batch, compute, _DEFAULT_ALGORITHM),
            )
        )

    return multiply


def factors(gemm: Gemm) -> tuple[Any, Any]:
    """Return 1 and 0 in the accumulator's type."""
    if gemm.in_f16:
        return ctypes.c_uint16(F16_ONE), ctypes.c_uint16(0)
    return ctypes.c_float(1.0), ctypes.c_float(0.0)


@cache
def _library() -> ctypes.CDLL:
    """Load libcublas from where cupy's own search finds it, or from the system."""
    names = list(_SONAMES)
    # cuda.pathfinder is not installed, or does not find the library and raises an error of its own.
    with suppress(Exception):
        names.insert(0, importlib.import_module("cuda.pathfinder").load_nvidia_dynamic_lib("cublas").abs_path)
    for name in filter(None, names):
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise CublasError(f"cuBLAS was not found ({' or '.join(_SONAMES)}): {_INSTALL}")


@cache
def library_version() -> str:
    """Return the version, such as "cublas 13.2.0". Raises CublasError if it cannot be loaded."""
    parts = []
    for part in _VERSION_PARTS:
        number = ctypes.c_int()
        _check(_library().cublasGetProperty(part, ctypes.byref(number)))
        parts.append(str(number.value))
    return f"cublas {'.'.join(parts)}"


# By GPU and stream, each with its workspace. The key contains the GPU because all default streams have one address.
_handles: dict[tuple[int, int], tuple[ctypes.c_void_p, Any]] = {}


def _handle(cp: Any, stream: Any) -> ctypes.c_void_p:
    """Return the handle of a stream of a GPU, which exists until the process ends."""
    address = int(stream.ptr)
    key = int(cp.cuda.runtime.getDevice()), address
    if key not in _handles:
        library, handle, workspace = _library(), ctypes.c_void_p(), cp.cuda.alloc(WORKSPACE)
        _check(library.cublasCreate_v2(ctypes.byref(handle)))
        _check(library.cublasSetStream_v2(handle, ctypes.c_void_p(address)))
        _check(library.cublasSetWorkspace_v2(handle, ctypes.c_void_p(int(workspace.ptr)), ctypes.c_size_t(WORKSPACE)))
        _handles[key] = handle, workspace
    return _handles[key][0]


def _check(status: int) -> None:
    if status:
        raise CublasError(f"cuBLAS returned status {status}")
