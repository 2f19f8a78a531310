"""Read the outputs of a launch, and compute their errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from autosched.triton.tensor_errors import numbers_of, tensor_errors
from autosched.triton.tuning.compiling.candidate import CompiledCandidate
from measurements.emulator import Emulation
from measurements.emulator.findings import WrittenElements
from measurements.emulator.memory import Flags
from measurements.trials.comparison import magnitudes, root_mean_square
from search_spaces.arrays import Array, BoolArray, FloatArray
from search_spaces.hardware.dtypes import SCALAR_DTYPES, DType

# Allowed relative error by type of output. The allowed absolute error is the same fraction of the output's root mean
# square.
_RELATIVE = {torch.float64: 1e-9, torch.float32: 1e-4, torch.float16: 4e-3, torch.bfloat16: 3e-2}
_RELATIVE_OF_8_BITS = 0.15


@dataclass(frozen=True, eq=False)
class Expected:
    """Expected values of an output.

    Attributes:
        values: The values as float64; 64-bit integers are unchanged.
        where: Mask of the elements to compare.
        written: Flags of the bytes that the reference wrote, if known.
        rounded_to: Type to which the values were rounded.
    """

    values: FloatArray
    where: BoolArray
    written: Flags | None = None
    rounded_to: DType = SCALAR_DTYPES["f64"]

    def allowed(self, dtype: torch.dtype, tolerance: tuple[float, float] | None) -> FloatArray:
        """Return the allowed error of each element. The default depends on the type."""
        if tolerance is not None:
            relative, absolute = tolerance
        else:
            relative = _RELATIVE.get(dtype, _RELATIVE_OF_8_BITS if dtype.is_floating_point else 0.0)
            absolute = relative * root_mean_square(self.values[self.where])
        allowed: FloatArray = relative * magnitudes(self.values, self.rounded_to) + absolute
        return allowed

    def only(self, where: BoolArray) -> Expected:
        """Return a copy whose comparison only includes the elements for which ``where`` is True."""
        return Expected(self.values, self.where & where, rounded_to=self.rounded_to)


def operand_of(candidate: CompiledCandidate, tensor: torch.Tensor) -> str:
    """Return the name of the launch's array that contains the tensor, or ""."""
    address = tensor.untyped_storage().data_ptr()
    return next((name for name, s in candidate.arguments.tensors.items() if s.data_ptr() == address), "")


def values_of(candidate: CompiledCandidate, outputs: Mapping[str, Array], tensor: torch.Tensor) -> FloatArray:
    """Return the contents of the tensor after the launch."""
    content = outputs[operand_of(candidate, tensor)].reshape(-1).view(np.uint8)
    flat = torch.from_numpy(content.copy()).view(tensor.dtype)
    return numbers_of(flat.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset()))


def written_elements(candidate: CompiledCandidate, done: Emulation, tensor: torch.Tensor) -> BoolArray:
    """Return a flag per element of the tensor that is true if the launch wrote it."""
    flags = done.written.get(operand_of(candidate, tensor))
    if flags is None:
        return np.zeros(tuple(tensor.shape), np.bool_)
    each = tensor.element_size()
    first = flags[each * tensor.storage_offset() :]
    strides = tuple(each * n for n in tensor.stride())
    return np.asarray(np.lib.stride_tricks.as_strided(first, (*tensor.shape, each), (*strides, 1)).any(axis=-1))


def other_part(name: str, expected: Flags, written: Flags) -> str:
    """Describe bytes that only the default or only the configuration writes; "" if there are no such bytes."""
    missing, more = int(np.count_nonzero(expected & ~written)), int(np.count_nonzero(written & ~expected))
    if missing:
        num_expected = int(np.count_nonzero(expected))
        return (
            f"the configuration does not write {missing:,} of {num_expected:,} bytes of {name} that the default "
            f"configuration writes: these bytes would keep values of an earlier launch"
        )
    return (
        f"the configuration writes {more:,} bytes of {name} that the default configuration does not write"
        if more
        else ""
    )


def largest_error(
    dtype: torch.dtype, actual: FloatArray, expected: Expected, tolerance: tuple[float, float] | None
) -> tuple[float, tuple[int, ...]]:
    """Return the largest ratio of an error to the allowed error, and the position of this error."""
    compared = np.flatnonzero(expected.where)
    if not compared.size:
        return 0.0, ()
    actual, wanted, allowed = (
        array.reshape(-1)[compared] for array in (actual, expected.values, expected.allowed(dtype, tolerance))
    )
    ratio = tensor_errors(dtype, actual, wanted, allowed, rounded_to=expected.rounded_to).ratio
    most = int(np.argmax(ratio))
    return float(ratio[most]), tuple(int(k) for k in np.unravel_index(compared[most], expected.where.shape))


def values_at_positions(written: WrittenElements, tensor: torch.Tensor) -> tuple[FloatArray, BoolArray]:
    """Return the values that some blocks wrote, as a tensor, and a mask of the written elements.

    ``written`` has positions in the storage, in units of the tensor's elements.
    """
    each = tensor.element_size()
    size = tensor.untyped_storage().nbytes() // each
    flat, known = np.zeros(size, written.values.dtype), np.zeros(size, np.bool_)
    flat[written.positions], known[written.positions] = written.values, True
    laid = torch.from_numpy(flat.view(np.uint8)).view(tensor.dtype)
    shape, strides, first = tensor.shape, tensor.stride(), tensor.storage_offset()
    values = numbers_of(laid.as_strided(shape, strides, first))
    return values, torch.from_numpy(known).as_strided(shape, strides, first).numpy()
