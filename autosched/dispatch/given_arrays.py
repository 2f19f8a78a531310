"""Checks of a call's arrays: a signature that recognises combinations checked before, and checks of layouts."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from search_spaces.hardware.dtypes import NAMES, DType
from search_spaces.launches.operand import Operand
from search_spaces.operators.problem import divisor_of

# bytes of the widest memory access of any kernel; new arrays of cupy and torch always have this alignment
ALIGNMENT = 16
_CUDA = 2  # DLPack's code of CUDA devices (kDLCUDA)


def signature_of(ndarray: type, arrays: Sequence[Any]) -> tuple[tuple[Any, ...], list[int], int] | None:
    """Return three values: a signature of the arrays, a list of their addresses, and the bitwise OR of the addresses.

    The signature consists of shape, strides, type and GPU of each array; addresses are not part of it. Returns None if
    an array is neither a cupy ``ndarray`` nor a tensor. This function must be fast, because every call of a kernel runs
    it.
    """
    torch = sys.modules.get("torch")
    looks: list[Any] = []
    starts, bits = [], 0
    for array in arrays:
        if isinstance(array, ndarray):
            pointer = array.data  # type: ignore[attr-defined]
            start = pointer.ptr
            looks += (array.shape, array.strides, array.dtype, pointer.device_id)  # type: ignore[attr-defined]
        elif torch is not None and isinstance(array, torch.Tensor):
            start = array.data_ptr()
            looks += (array.shape, array.stride(), array.dtype, array.get_device())
        else:
            return None
        starts.append(start)
        bits |= start
    return tuple(looks), starts, bits


def as_gpu_array(cp: Any, name: str, array: Any) -> Any:
    """Return ``array`` itself if it is a cupy array or GPU tensor, else a cupy array of the same memory on its GPU.

    Raises ValueError if the array is not on a GPU. Plain cupy conversion does not suffice: it would copy an array that
    is not on the current GPU.
    """
    torch = torch_of(array)
    if isinstance(array, cp.ndarray) or (torch is not None and array.is_cuda):
        return array
    if torch is None and hasattr(array, "__cuda_array_interface__"):
        gpu = cp.cuda.runtime.pointerGetAttributes(array.__cuda_array_interface__["data"][0]).device
        with cp.cuda.Device(max(gpu, 0)):  # negative for an empty array, which has no memory
            return cp.asarray(array)
    if torch is None and hasattr(array, "__dlpack__") and array.__dlpack_device__()[0] == _CUDA:
        return cp.from_dlpack(array)
    raise ValueError(f"{name} must be an array on the GPU (cupy or torch), not {type(array).__name__}")


def check_apart(names: Sequence[str], starts: Sequence[int], sizes: Sequence[int], written: int) -> None:
    """Raise ValueError if the written array shares memory with another array, because kernels assume constant inputs.

    Args:
        names: Names of the arrays, for the error.
        starts: Their first addresses.
        sizes: Their sizes in bytes.
        written: Index of the written array.

    Raises:
        ValueError: The written array overlaps another array.
    """
    low = starts[written]
    high = low + sizes[written]
    for i, start in enumerate(starts):
        if start < high and low < start + sizes[i] and i != written:
            raise ValueError(f"{names[written]} overlaps {names[i]} in memory: use separate arrays")


def arguments(inputs: Sequence[Operand], arrays: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """Map input names to the arguments of a call. Raises TypeError for superfluous, repeated or missing arguments."""
    names = [o.name for o in inputs]
    if len(arrays) > len(names):
        raise TypeError(f"too many arrays ({len(arrays)}): pass {', '.join(names)}")
    by_name = dict(zip(names, arrays, strict=False))
    for name, array in named.items():
        if name not in names or name in by_name:
            raise TypeError(f"unexpected or repeated argument {name}: pass each of {', '.join(names)} once")
        by_name[name] = array
    missing = [name for name in names if name not in by_name]
    if missing:
        raise TypeError(f"missing arguments {', '.join(missing)}: give {', '.join(names)}")
    return by_name


def split_outputs(outputs: Sequence[Operand], out: Any) -> tuple[Any, ...]:
    """Return ``out`` as a tuple of arrays, one for each output.

    Raises ValueError for a wrong number of arrays.
    """
    if len(outputs) == 1:
        return (out,)
    if not isinstance(out, (tuple, list)) or len(out) != len(outputs):
        raise ValueError(f"out must be a tuple of {len(outputs)} arrays: {', '.join(o.name for o in outputs)}")
    return tuple(out)


def check_array(operand: Operand, shape: tuple[int, ...], dtype: str, c_contiguous: bool, address: int) -> None:
    """Raise ValueError for an array whose type, shape, layout or alignment the kernel does not support.

    Args:
        operand: The kernel's operand.
        shape: Shape of the array; a leading axis of extent 1 may be omitted.
        dtype: Name of the array's type in numpy or torch.
        c_contiguous: True if the array is dense and C-contiguous.
        address: Address of the array's first element, in bytes.

    Raises:
        ValueError: The kernel does not support the array; the one-line message names the remedy.
    """
    name, expected_shape = operand.name, operand.shape
    if dtype not in (operand.dtype.storage, torch_type(operand.dtype)):
        raise ValueError(f"{name} must be of type {operand.dtype.name}, not {dtype}: convert it")
    if operand.columns is not None:
        expected_shape = (*expected_shape[:-1], operand.columns)
    if shape != expected_shape and (1, *shape) != expected_shape:
        raise ValueError(
            f"{name} must have the shape {expected_shape} in memory, not {shape}: load a kernel for this size"
        )
    if not c_contiguous:
        raise ValueError(f"{name} must be dense and C-contiguous: copy it, or pass a column-major operand transposed")
    aligned = ALIGNMENT if operand.columns is None or divisor_of(operand.shape[-1]) > 1 else operand.dtype.bytes
    if address % aligned:
        raise ValueError(f"{name} must start at a multiple of {aligned} bytes: copy the view")


def torch_type(dtype: DType) -> str:
    """Return the name of a type in torch and ml_dtypes. For types of numpy, this is also the name in numpy."""
    return NAMES.get(dtype.name, dtype.storage)


def torch_of(array: Any) -> Any:
    """Return the torch module if ``array`` is a tensor, else None. Never imports torch."""
    torch = sys.modules.get("torch")
    return torch if torch is not None and isinstance(array, torch.Tensor) else None
