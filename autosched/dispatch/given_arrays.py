"""The arrays of a call: what is seen of them at a glance, and what a kernel would misread."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from search_spaces.hardware.dtypes import NAMES, DType
from search_spaces.launches.operand import Operand

ALIGNMENT = 16  # bytes: the widest access of any kernel; what cupy and torch allocate starts at multiples of 256
_CUDA = 2  # kDLCUDA of DLPack


def look_at(ndarray: type, arrays: Sequence[Any]) -> tuple[tuple[Any, ...], list[int], int] | None:
    """Return what tells arrays apart but for where they lie (shape, strides, type and GPU of each), where each begins,
    and the bits of these addresses. None where one is neither of cupy's ``ndarray`` nor a tensor.

    Every call of a kernel comes through here: a microsecond more is one for each of them.
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
    """``array`` itself if it is cupy's or a tensor on a GPU, else a cupy array over its memory, on its own GPU.

    Raises ValueError for what is on no GPU. cupy alone would copy what is not on the current one.
    """
    torch = torch_of(array)
    if isinstance(array, cp.ndarray) or (torch is not None and array.is_cuda):
        return array
    if torch is None and hasattr(array, "__cuda_array_interface__"):
        gpu = cp.cuda.runtime.pointerGetAttributes(array.__cuda_array_interface__["data"][0]).device
        with cp.cuda.Device(max(gpu, 0)):  # negative where there is no memory: an array without elements
            return cp.asarray(array)
    if torch is None and hasattr(array, "__dlpack__") and array.__dlpack_device__()[0] == _CUDA:
        return cp.from_dlpack(array)
    raise ValueError(f"{name} must be an array on the GPU (cupy or torch), not {type(array).__name__}")


def check_apart(names: Sequence[str], starts: Sequence[int], sizes: Sequence[int], written: int) -> None:
    """Refuse a written array that shares memory with another: kernels read inputs as if nothing wrote them.

    Args:
        names: Of the arrays, for the error.
        starts: Their first addresses.
        sizes: Their bytes.
        written: The position of the one that the kernel writes.

    Raises:
        ValueError: It overlaps one of the others.
    """
    low = starts[written]
    high = low + sizes[written]
    for i, start in enumerate(starts):
        if start < high and low < start + sizes[i] and i != written:
            raise ValueError(f"{names[written]} overlaps {names[i]} in memory: give it an array of its own")


def arguments(inputs: Sequence[Operand], arrays: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of a call by the names of the inputs. Raises TypeError as Python does for a function's arguments."""
    names = [o.name for o in inputs]
    if len(arrays) > len(names):
        raise TypeError(f"the kernel takes {', '.join(names)}, and {len(arrays)} arrays were given")
    given = dict(zip(names, arrays, strict=False))
    for name, array in named.items():
        if name not in names or name in given:
            raise TypeError(f"the kernel takes {', '.join(names)}, each once: {name} is one too many")
        given[name] = array
    missing = [name for name in names if name not in given]
    if missing:
        raise TypeError(f"the kernel takes {', '.join(names)}: {', '.join(missing)} is missing")
    return given


def split_outputs(outputs: Sequence[Operand], out: Any) -> tuple[Any, ...]:
    """Return the arrays of ``out``: itself for one output, its items for several. Raises ValueError for another
    number."""
    if len(outputs) == 1:
        return (out,)
    if not isinstance(out, (tuple, list)) or len(out) != len(outputs):
        raise ValueError(f"out must be a tuple of {len(outputs)} arrays: {', '.join(o.name for o in outputs)}")
    return tuple(out)


def check_array(operand: Operand, shape: tuple[int, ...], dtype: str, c_contiguous: bool, address: int) -> None:
    """Refuse an array that the kernel would misread.

    Args:
        operand: What the kernel takes there.
        shape: Of the array; one leading axis of extent 1 may be left out.
        dtype: The name of its type, numpy's or torch's.
        c_contiguous: Whether it is dense and C-contiguous.
        address: Of its first element, in bytes.

    Raises:
        ValueError: One line that says which of these is wrong, and what to do.
    """
    name, wanted = operand.name, operand.shape
    if dtype not in (operand.dtype.storage, torch_type(operand.dtype)):
        raise ValueError(f"{name} must hold {operand.dtype.name}, not {dtype}: convert it")
    if shape != wanted and (1, *shape) != wanted:
        raise ValueError(f"{name} must have the shape {wanted} in memory, not {shape}: the kernel is made for one size")
    if not c_contiguous:
        raise ValueError(f"{name} must be dense and C-contiguous: copy it, or pass a column-major operand transposed")
    if address % ALIGNMENT:
        raise ValueError(f"{name} must start at a multiple of {ALIGNMENT} bytes, which a view may not do: copy it")


def torch_type(dtype: DType) -> str:
    """Return what torch and ml_dtypes call the type: as numpy does, except for those that numpy lacks."""
    return NAMES.get(dtype.name, dtype.storage)


def torch_of(array: Any) -> Any:
    """Return the torch module if ``array`` is a tensor; torch is never imported here."""
    torch = sys.modules.get("torch")
    return torch if torch is not None and isinstance(array, torch.Tensor) else None
