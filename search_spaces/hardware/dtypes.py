"""Element types: how they are stored, and how numpy arrays are rounded to them.

numpy has no bf16; a bf16 array is stored as the uint16 of its bits. Rounding is to nearest, ties to even, as
``cvt.rn`` does; tf32 rounds to nearest, ties away from zero, as ``cvt.rna.tf32`` does (PTX ISA, section cvt).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from search_spaces.arrays import FloatArray


@dataclass(frozen=True)
class DType:
    """One element type. ``mantissa_bits`` counts stored bits; the unit roundoff is ``2 ** -(mantissa_bits + 1)``."""

    name: str
    bits: int
    mantissa_bits: int
    storage: str  # numpy dtype of the array that holds it
    c_name: str  # type of a pointer to it in the .cuh files

    @property
    def bytes(self) -> int:
        return self.bits // 8

    @property
    def unit_roundoff(self) -> float:
        return 2.0 ** -(self.mantissa_bits + 1)

    def store(self, values: npt.ArrayLike) -> npt.NDArray[np.generic]:
        """Round real values to this type; the result has numpy dtype ``storage``."""
        if self.name == "bf16":
            return _bf16_bits(np.asarray(values, dtype=np.float32))
        return np.asarray(values).astype(self.storage)

    def load(self, stored: npt.NDArray[np.generic]) -> FloatArray:
        """The values of an array of this type as float64, exactly."""
        if self.name == "bf16":
            return (stored.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
        return stored.astype(np.float64)


F16 = DType("f16", 16, 10, "float16", "autosched::f16")
BF16 = DType("bf16", 16, 7, "uint16", "autosched::bf16")
F32 = DType("f32", 32, 23, "float32", "float")
U8 = DType("u8", 8, 7, "uint8", "unsigned char")
U16 = DType("u16", 16, 15, "uint16", "unsigned short")
U32 = DType("u32", 32, 31, "uint32", "unsigned")

DTYPES = {t.name: t for t in (F16, BF16, F32, U8, U16, U32)}
FLOAT_DTYPES = {t.name: t for t in (F16, BF16, F32)}

# Types of parameters that are passed by value: those of arrays, and C++'s other arithmetic ones.
SCALAR_DTYPES = DTYPES | {
    t.name: t
    for t in (
        DType("bool", 8, 1, "bool", "bool"),
        DType("i8", 8, 7, "int8", "signed char"),
        DType("i16", 16, 15, "int16", "short"),
        DType("i32", 32, 31, "int32", "int"),
        DType("i64", 64, 63, "int64", "long long"),
        DType("u64", 64, 64, "uint64", "unsigned long long"),
        DType("f64", 64, 52, "float64", "double"),
    )
}


SMALLEST = {"f16": 2.0**-24, "bf16": 2.0**-133, "f32": 2.0**-149}  # positive values, subnormal ones included


def dtype(name: str) -> DType:
    """The float type called ``name``. Raises ValueError that lists the known ones."""
    if name not in FLOAT_DTYPES:
        raise ValueError(f"unknown type {name!r}: use one of {', '.join(FLOAT_DTYPES)}")
    return FLOAT_DTYPES[name]


def round_to_tf32(values: npt.ArrayLike) -> npt.NDArray[np.float32]:
    """Round f32 values to tf32 (10 mantissa bits), nearest, ties away from zero; NaN and infinities stay."""
    x = np.asarray(values, dtype=np.float32)
    bits = x.view(np.uint32)
    rounded = ((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)
    return np.where(np.isfinite(x), rounded, x)


def _bf16_bits(x: npt.NDArray[np.float32]) -> npt.NDArray[np.uint16]:
    bits = x.view(np.uint32)
    nearest_even = bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    quiet_nan = np.uint32(0x7FFF0000)
    return (np.where(np.isnan(x), quiet_nan, nearest_even) >> np.uint32(16)).astype(np.uint16)
