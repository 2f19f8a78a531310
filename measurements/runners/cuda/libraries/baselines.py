"""Baselines on the same arrays as candidates: the vendor's library, torch, Triton, cupy, and a plain copy.

Each library has a table from operators to functions. A function takes the problem, and arrays by operand name. The
function writes ``out`` and returns None. If its library cannot write into an existing array, it returns the result
instead.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from measurements.files.text import first_line
from measurements.runners.cuda.libraries.cublas import ELEMENTS, Gemm, multiplier
from measurements.runners.cuda.libraries.cublas_lt import BEST_OF, EIGHT_BIT, SCALES, Multiply, lt_multiplier
from search_spaces.hardware.dtypes import NAMES
from search_spaces.operators.problem import Problem

Arrays = Mapping[str, Any]
Entry = Callable[[Any, Any, Arrays], Any]  # arguments: the library's module, the problem, the arrays
Call = Callable[[int], None]

# Baselines other than "library". torch and Triton are optional. "cublaslt" times several algorithms of cuBLASLt and
# uses the fastest; "library" uses the algorithm that the library chooses.
OTHER_BASELINES = ("cublaslt", "torch", "triton", "cupy", "copy")
# Allowed error of a library's results, as a multiple of the tolerance for candidates. Libraries, unlike candidates, may
# round intermediate values.
TOLERANCES = 100.0

_COPY_ALIGNMENT = 256  # bytes


class Unable(Exception):
    """The library cannot compute this problem. The message is one line with the reason."""


def baseline_call(
    name: str, cp: Any, stream: Any, problem: Problem, copies: Sequence[Arrays], cold_bytes: int
) -> Call | str:
    """Return a function that launches a baseline on copy i of the operands.

    Before this function returns, it launches the baseline once on the first copy of the operands. The output in this
    copy then contains the result. The baseline "copy" is not launched.

    Args:
        name: Name of the baseline; "copy" is a plain copy of as many bytes as the problem must read and write.
        cp: The cupy module.
        stream: The cupy stream of the work.
        problem: Problem to compute.
        copies: The operands by name, shaped as in memory.
        cold_bytes: Memory for rotating copies, so that no operands are in the L2 cache.

    Returns:
        The function, or one line with the reason of a failure.
    """
    if name == "copy":
        return _copy_call(cp, stream, problem, cold_bytes)
    try:
        return _MAKERS[name](cp, stream, problem, copies)
    except Unable as error:
        return str(error)
    except Exception as error:  # an incomplete installation of a library may raise any error
        return f"{name} cannot be called: {type(error).__name__}: {first_line(error)}"


# ---- the vendor's library: cuBLAS, and the fastest algorithm of cuBLASLt ----


def _library_call(cp: Any, stream: Any, problem: Problem, copies: Sequence[Arrays]) -> Call:
    gemm, names = library_product(problem)
    return _product_call(library_multiplier(cp, stream, gemm), names, copies)


def _cublaslt_call(cp: Any, stream: Any, problem: Problem, copies: Sequence[Arrays]) -> Call:
    gemm, names = library_product(problem)
    return _product_call(lt_multiplier(cp, stream, gemm, best_of=BEST_OF), names, copies)


def library_multiplier(cp: Any, stream: Any, gemm: Gemm) -> Multiply:
    """Return a function that queues the product.

    The arguments of this function are the device addresses of the operands, in the order in which ``library_product``
    returns their names. The function calls cuBLAS, or cuBLASLt for types that cuBLAS does not support.

    Raises CublasError.
    """
    return lt_multiplier(cp, stream, gemm) if gemm.element in EIGHT_BIT else multiplier(cp, stream, gemm)


def _product_call(multiply: Multiply, names: Sequence[str], copies: Sequence[Arrays]) -> Call:
    addresses = [tuple(int(arrays[name].data.ptr) for name in names) for arrays in copies]

    def call(copy: int) -> None:
        multiply(*addresses[copy])

    call(0)
    return call


def library_product(problem: Any) -> tuple[Gemm, tuple[str, ...]]:
    """Return the matrix product that the library computes for ``problem``, and the names of its operands.

    The order of the operands is: factors, result, and scales if there are any.

    Raises Unable.
    """
    names: tuple[str, ...]
    if problem.operator == "matmul":
        names = ("a", "b", "out") if problem.scale == "none" else ("a", "b", "out", "scale_a", "scale_b")
        gemm = Gemm(
            *(problem.m, problem.n, problem.k, problem.batch, problem.a, problem.out),
            a_transposed=problem.order_a == "col",
            b_transposed=problem.order_b == "col",
            tf32=problem.a == "f32" and problem.precision == "tf32",
            scale=problem.scale,
            in_f16=problem.acc == "f16",
        )
    elif problem.operator == "matvec":
        names = ("x", "w", "out")
        gemm = Gemm(problem.m, problem.n, problem.k, 1, problem.x, problem.out, b_transposed=True)
    else:
        raise Unable(f"no vendor library computes {problem.operator}")
    _plain_product("the library", problem)
    if gemm.element not in ELEMENTS | EIGHT_BIT:
        raise Unable(f"the library does not multiply matrices of {gemm.element}")
    if gemm.in_f16 and gemm.out != "f16":
        raise Unable(f"the library accumulates in f16 only if out is f16, but out is {gemm.out}")
    if gemm.scale not in SCALES or (gemm.element == "i8" and gemm.out != "i32"):
        raise Unable(f"the library does not multiply {gemm.element} with scale={gemm.scale} and out={gemm.out}")
    return gemm, names


# ---- torch, and Triton on torch's tensors ----


def _torch_call(cp: Any, stream: Any, problem: Problem, copies: Sequence[Arrays]) -> Call:
    torch = importlib.import_module("torch")
    return _tensor_call("torch", torch, torch, _TORCH, stream, problem, copies)


def _triton_call(cp: Any, stream: Any, problem: Any, copies: Sequence[Arrays]) -> Call:
    torch = importlib.import_module("torch")
    if getattr(problem, "precision", "") == "ieee":
        raise Unable("the Triton kernel multiplies f32 as tf32")
    kernels = importlib.import_module("measurements.runners.cuda.libraries.triton_matmul")
    return _tensor_call("triton", torch, kernels, _TRITON, stream, problem, copies)


def _tensor_call(
    name: str, torch: Any, module: Any, table: Mapping[str, Entry], stream: Any, problem: Any, copies: Sequence[Arrays]
) -> Call:
    if problem.operator == "matmul" and problem.a == "f32":
        torch.backends.cuda.matmul.allow_tf32 = problem.precision == "tf32"
    operands = {o.name: o.dtype.name for o in problem.operands()}
    tensors = [{o: _tensor(torch, arrays[o], kind) for o, kind in operands.items()} for arrays in copies]
    queue = torch.cuda.ExternalStream(int(stream.ptr))
    entry = _entry(name, table, problem)

    def call(copy: int) -> Any:
        with torch.cuda.stream(queue):
            return entry(module, problem, tensors[copy])

    result = call(0)
    if result is not None:
        with torch.cuda.stream(queue):
            tensors[0]["out"].copy_(result.reshape(tensors[0]["out"].shape))
    return call


def _tensor(torch: Any, array: Any, kind: str) -> Any:
    """Return a torch tensor that shares the memory of a cupy array.

    cupy has no bf16 and stores it as unsigned integers, which are passed to torch as signed integers of the same size.
    """
    storage = np.dtype(array.dtype)
    signed = array.view(np.dtype(f"i{storage.itemsize}")) if storage.kind == "u" and storage.itemsize > 1 else array
    tensor = torch.as_tensor(signed, device="cuda")
    return tensor.view(getattr(torch, NAMES[kind])) if kind in NAMES else tensor


def _torch_matmul(torch: Any, p: Any, t: Arrays) -> None:
    a, b = _turned(t["a"], p.order_a), _turned(t["b"], p.order_b)
    torch.matmul(a, b, out=t["out"]) if p.batch > 1 else torch.matmul(a[0], b[0], out=t["out"][0])


def _torch_matvec(torch: Any, p: Any, t: Arrays) -> None:
    torch.matmul(t["x"], t["w"].T, out=t["out"])


def _torch_reduce(torch: Any, p: Any, t: Arrays) -> Any:
    x, out = _lines(p, t)
    if p.kind == "argmax":
        # returns the first maximum, as candidates do; torch's 64-bit indices do not fit into out
        return torch.argmax(x, 1)
    if p.kind == "sumsq":
        # vector_norm reads x once, and squaring adds a pass over out. x * x would write an array of the size of x.
        torch.square(torch.linalg.vector_norm(x, dim=1, dtype=torch.float32), out=out)
        return None
    {"sum": torch.sum, "mean": torch.mean, "max": torch.amax}[p.kind](x, 1, out=out)
    return None


def _torch_softmax(torch: Any, p: Any, t: Arrays) -> None:
    torch.softmax(t["x"], -1, out=t["out"])


def _torch_rmsnorm(torch: Any, p: Any, t: Arrays) -> Any:
    return torch.nn.functional.rms_norm(t["x"], (p.columns,), weight=t["weight"], eps=p.eps)


def _torch_layernorm(torch: Any, p: Any, t: Arrays) -> Any:
    return torch.nn.functional.layer_norm(t["x"], (p.columns,), weight=t["weight"], bias=t["bias"], eps=p.eps)


def _torch_transpose(torch: Any, p: Any, t: Arrays) -> None:
    t["out"].copy_(t["x"].swapaxes(1, 2))


def _torch_copy(torch: Any, p: Any, t: Arrays) -> None:
    t["out"].copy_(t["x"])


_TORCH: dict[str, Entry] = {
    "matmul": _torch_matmul,
    "matvec": _torch_matvec,
    "reduce": _torch_reduce,
    "softmax": _torch_softmax,
    "rmsnorm": _torch_rmsnorm,
    "layernorm": _torch_layernorm,
    "transpose": _torch_transpose,
    "copy": _torch_copy,
}


def _triton_matmul(kernels: Any, p: Any, t: Arrays) -> None:
    kernels.matmul(_turned(t["a"], p.order_a), _turned(t["b"], p.order_b), out=t["out"])


def _triton_matvec(kernels: Any, p: Any, t: Arrays) -> None:
    kernels.matmul(t["x"], t["w"].T, out=t["out"])


_TRITON: dict[str, Entry] = {"matmul": _triton_matmul, "matvec": _triton_matvec}


# ---- cupy, which compiles kernels with CUDA's headers ----


def _cupy_call(cp: Any, stream: Any, problem: Problem, copies: Sequence[Arrays]) -> Call:
    for operand in problem.operands():
        if operand.dtype.name == "bf16":
            raise Unable("cupy does not support bf16")
    entry = _entry("cupy", _CUPY, problem)

    def call(copy: int) -> None:
        with stream:
            entry(cp, problem, copies[copy])

    call(0)
    return call


def _cupy_reduce(cp: Any, p: Any, t: Arrays) -> None:
    reduce = {"sum": cp.sum, "mean": cp.mean, "max": cp.amax}.get(p.kind)
    if reduce is None:
        raise Unable(f"cupy has no single function for the reduction {p.kind}")
    x, out = _lines(p, t)
    reduce(x, axis=1, out=out)


def _cupy_softmax(cp: Any, p: Any, t: Arrays) -> None:
    x, out = t["x"], t["out"]
    cp.subtract(x, cp.amax(x, axis=-1, keepdims=True), out=out)
    cp.exp(out, out=out)
    cp.divide(out, cp.sum(out, axis=-1, keepdims=True), out=out)


def _cupy_transpose(cp: Any, p: Any, t: Arrays) -> None:
    cp.copyto(t["out"], t["x"].swapaxes(1, 2))


_CUPY: dict[str, Entry] = {"reduce": _cupy_reduce, "softmax": _cupy_softmax, "transpose": _cupy_transpose}


# ---- shared functions ----


_MAKERS: dict[str, Callable[[Any, Any, Any, Sequence[Arrays]], Call]] = {
    "library": _library_call,
    "cublaslt": _cublaslt_call,
    "torch": _torch_call,
    "triton": _triton_call,
    "cupy": _cupy_call,
}


def _entry(name: str, table: Mapping[str, Entry], problem: Problem) -> Entry:
    """Return the table's function for the problem's operator.

    Raises Unable if the library lacks the operator, the epilogue, the reduction, or the conversion to the type of
    ``out``.
    """
    if problem.operator not in table:
        raise Unable(f"{name} has no operator {problem.operator}")
    _plain_product(name, problem)
    first, *_, out = problem.operands()
    # The result of argmax is an index, so its type differs from the type of x.
    if first.dtype != out.dtype and getattr(problem, "kind", "") != "argmax":
        raise Unable(f"{name} does not convert {first.dtype.name} to {out.dtype.name}")
    return table[problem.operator]


def _plain_product(name: str, problem: Any) -> None:
    """Raise Unable for a matmul with an epilogue or a reduction."""
    if getattr(problem, "epilogue", "none") != "none":
        raise Unable(f"{name} cannot compute an epilogue in the same kernel")
    if getattr(problem, "reduction", "none") != "none":
        raise Unable(f"{name} cannot reduce a product in the same kernel")


def _turned(array: Any, order: str) -> Any:
    """Return a view of a factor (a matrix or a stack) that is indexed by row and column, for either storage order."""
    return array if order == "row" else array.swapaxes(-1, -2)


def _lines(p: Any, t: Arrays) -> tuple[Any, Any]:
    """Return x in a shape whose axis 1 is reduced, and out in the same shape without axis 1."""
    shape = (p.parallel_extent, p.length) if p.reduces_contiguous else (p.outer, p.length, p.inner)
    return t["x"].reshape(shape), t["out"].reshape((shape[0], *shape[2:]))


def _copy_call(cp: Any, stream: Any, problem: Problem, cold_bytes: int) -> Call | str:
    """Return a device-to-device copy that moves the minimum number of bytes that the problem must read and write."""
    half = max(-(-problem.min_bytes // (2 * _COPY_ALIGNMENT)), 1) * _COPY_ALIGNMENT
    pairs = max(math.ceil(cold_bytes / (2 * half)), 1)
    try:
        memory = cp.cuda.alloc(2 * half * pairs)
    except MemoryError as error:
        return f"the GPU has too little memory for a copy: {first_line(error)}"

    def call(copy: int) -> None:
        start = memory + 2 * half * (copy % pairs)
        (start + half).copy_from_device_async(start, half, stream)

    return call
