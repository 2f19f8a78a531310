"""Call cuBLAS through its C interface, which supports every float type, independently of the array library.

cupy's matmul is not used. It lacks bf16 in most versions, and it converts stacks of f16 matrices to f32 first, which
would be an unfair baseline. Names and numbers are from NVIDIA's cuBLAS documentation (cublasGemmStridedBatchedEx).
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
# Size of the workspace in bytes, as NVIDIA recommends for Hopper. Without it, cuBLAS would allocate memory inside
# graphs.
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
    """A batch of products ``out[i] = a[i] @ b[i]`` with row-major outputs of m x n.

    Sums are accumulated in f32, or in f16 if ``in_f16``. If ``a_transposed``, a is stored as k x m instead of m x k. If
    ``b_transposed``, b is stored as n x k instead of k x n. ``element`` is the type of a and b, ``out`` the type of the
    result. ``tf32`` allows tensor cores to multiply f32 as tf32. ``scale`` is the kind of the f32 scales of 8-bit
    floats, as in ``Matmul``.
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
    """Return a function that queues the product on ``stream``. The function takes the addresses of a, b and out.

    Both this call and the returned function raise CublasError.
    """
    library = _library()
    handle = _handle(cp, stream)
    one, zero = factors(gemm)
    compute = COMPUTE_F16 if gemm.in_f16 else _COMPUTE_TF32 if gemm.tf32 else _COMPUTE_F32
    element, out = _TYPES[gemm.element], _TYPES[gemm.out]
    m, n, k = gemm.m, gemm.n, gemm.k

    def multiply(a: int, b: int, result: int) -> None:
        # cuBLAS reads arrays as column-major, so each array appears transposed: it computes out^T = b^T @ a^T.
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
    """Return the factors alpha = 1 and beta = 0 in the accumulator's type."""
    if gemm.in_f16:
        return ctypes.c_uint16(F16_ONE), ctypes.c_uint16(0)
    return ctypes.c_float(1.0), ctypes.c_float(0.0)


@cache
def _library() -> ctypes.CDLL:
    """Load libcublas from where cuda.pathfinder finds it, as cupy does, or else from the system's library path."""
    names = list(_SONAMES)
    # cuda.pathfinder is not installed, or raises one of its errors because it does not find the library
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
    """Return the version of cuBLAS, such as "cublas 13.2.0". Raises CublasError if cuBLAS cannot be loaded."""
    parts = []
    for part in _VERSION_PARTS:
        number = ctypes.c_int()
        _check(_library().cublasGetProperty(part, ctypes.byref(number)))
        parts.append(str(number.value))
    return f"cublas {'.'.join(parts)}"


# Handles and workspaces by GPU and stream. Default streams of all GPUs have the same address, so the key includes the
# GPU.
_handles: dict[tuple[int, int], tuple[ctypes.c_void_p, Any]] = {}


def _handle(cp: Any, stream: Any) -> ctypes.c_void_p:
    """Return the cuBLAS handle for a stream of a GPU. Handles exist until the process ends."""
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
