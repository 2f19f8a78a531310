"""Element types: how they are stored in numpy arrays, and how values are rounded to them.

numpy has no bf16 and no 8-bit floats, so arrays of these types are stored as uint16 or uint8, with the same bits.
Values are rounded to nearest, ties to even, like ``cvt.rn``. For tf32, ties are rounded away from zero, like
``cvt.rna.tf32`` (PTX ISA, section cvt). e4m3 and e5m2 are types of the OCP 8-bit Floating Point Specification, revision
1.0. As in ml_dtypes and torch, numbers that are too large become infinity in e5m2. e4m3 has no infinity, so numbers
that are too large become NaN. e2m1 and ue8m0 are types of the OCP Microscaling Formats Specification, revision 1.0. A
byte holds two e2m1 values, the first in its lower half, like torch's ``float4_e2m1fn_x2``. ue4m3 is e4m3 without a
sign.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
import numpy.typing as npt

from search_spaces.arrays import FloatArray
from search_spaces.hardware.dtype_names import canonical, unknown_type


@dataclass(frozen=True)
class DType:
    """One element type. ``mantissa_bits`` counts the stored bits of the mantissa, without the implicit one."""

    name: str
    bits: int
    mantissa_bits: int
    storage: str  # numpy dtype in which arrays are stored
    c_name: str  # C++ element type of pointers in the .cuh files
    values: int = 1  # how many numbers, adjacent along the last axis, a stored element contains

    @property
    def bytes(self) -> int:
        """Bytes per element."""
        return self.bits // 8

    @property
    def unit_roundoff(self) -> float:
        """Largest relative error of rounding to this type."""
        return 2.0 ** -(self.mantissa_bits + 1)

    @property
    def overflow(self) -> float:
        """Smallest positive number that rounds to infinity; infinite for types without an infinity, and for f64."""
        exponent = _OVERFLOW_EXPONENTS.get(self.name)
        return np.inf if exponent is None else 2.0**exponent * (1 - 2.0 ** -(self.mantissa_bits + 2))

    @cached_property
    def is_float(self) -> bool:
        """True for floats, including types that numpy lacks, whose values are stored as integers."""
        return np.dtype(self.storage).kind == "f" or self.name in NAMES or self.name in _SCALES or self.values > 1

    @property
    def holds_nan(self) -> bool:
        """True if the type can represent NaN."""
        return self.is_float and self.values == 1

    def store(self, values: npt.ArrayLike) -> npt.NDArray[np.generic]:
        """Round real values to this type.

        For i8, e2m1 and the types of block scales, numbers out of range become the nearest finite value.

        Args:
            values: Real numbers.

        Returns:
            An array of numpy dtype ``storage``. If an element holds several numbers, the last axis is shorter by the
            factor ``self.values``.
        """
        if self.name == "bf16":
            return _bf16_bits(np.asarray(values, dtype=np.float32))
        if self.name in _EXPONENT_BITS:
            return _eight_bits(self.name, np.asarray(values, dtype=np.float64))
        if self.name == "e2m1x2":
            codes = _four_bits(np.asarray(values, dtype=np.float64))
            return np.asarray(codes[..., ::2] | codes[..., 1::2] << np.uint8(4))
        if self.name == "ue8m0":
            return _powers_of_two(np.asarray(values, dtype=np.float64))
        if self.name == "ue4m3":
            return E4M3.store(np.minimum(np.abs(np.asarray(values, dtype=np.float64)), 448.0))
        if self.name == "i8":
            return np.clip(np.rint(values), -128, 127).astype(np.int8)
        return np.asarray(values).astype(self.storage)

    def load(self, stored: npt.NDArray[np.generic]) -> FloatArray:
        """Convert a stored array of this type to float64, exactly. The last axis is longer by the factor ``values``."""
        if self.name == "bf16":
            return _widened((stored.astype(np.uint32) << np.uint32(16)).view(np.float32))
        if self.name == "e5m2":  # e5m2 is the upper half of an f16
            return _widened((stored.astype(np.uint16) << np.uint16(8)).view(np.float16))
        if self.name == "e4m3":  # e4m3's exponent has one bit less than f16's, and bias 7 instead of 15
            bits = stored.astype(np.uint16)
            magnitude = bits & np.uint16(0x7F)
            half = (bits & np.uint16(0x80)) << np.uint16(8) | magnitude << np.uint16(7)
            return np.where(magnitude == 0x7F, np.nan, half.view(np.float16).astype(np.float64) * 256.0)
        if self.name == "e2m1x2":
            bits = stored.astype(np.uint8)
            both = np.stack((_E2M1[bits & np.uint8(15)], _E2M1[bits >> np.uint8(4)]), axis=-1)
            return both.reshape(*bits.shape[:-1], 2 * bits.shape[-1])
        if self.name == "ue8m0":
            codes = stored.astype(np.int64)
            return np.where(codes == 255, np.nan, np.ldexp(1.0, codes - 127))
        if self.name == "ue4m3":
            return E4M3.load(stored.astype(np.uint8) & np.uint8(0x7F))
        return _widened(stored)


def _widened(numbers: npt.NDArray[np.generic]) -> FloatArray:
    """Convert numbers to float64. A signalling NaN becomes a quiet NaN, without a warning."""
    with np.errstate(invalid="ignore"):
        return numbers.astype(np.float64)


F16 = DType("f16", 16, 10, "float16", "autosched::f16")
BF16 = DType("bf16", 16, 7, "uint16", "autosched::bf16")
F32 = DType("f32", 32, 23, "float32", "float")
E4M3 = DType("e4m3", 8, 3, "uint8", "autosched::e4m3")
E5M2 = DType("e5m2", 8, 2, "uint8", "autosched::e5m2")
I8 = DType("i8", 8, 7, "int8", "signed char")
I32 = DType("i32", 32, 31, "int32", "int")
E2M1X2 = DType("e2m1x2", 8, 1, "uint8", "autosched::e2m1x2", values=2)
UE8M0 = DType("ue8m0", 8, 0, "uint8", "unsigned char")
UE4M3 = DType("ue4m3", 8, 3, "uint8", "unsigned char")
U8 = DType("u8", 8, 7, "uint8", "unsigned char")
U16 = DType("u16", 16, 15, "uint16", "unsigned short")
U32 = DType("u32", 32, 31, "uint32", "unsigned")

DTYPES = {t.name: t for t in (F16, BF16, F32, E4M3, E5M2, U8, U16, U32)}
FLOAT_DTYPES = {t.name: t for t in (F16, BF16, F32)}
EIGHT_BIT_DTYPES = {t.name: t for t in (E4M3, E5M2, I8)}  # 8-bit types that tensor cores multiply
MULTIPLIED_DTYPES = FLOAT_DTYPES | EIGHT_BIT_DTYPES  # types of the factors of a matrix product

# Types of parameters passed by value: the types of arrays, and the other arithmetic types of C++.
SCALAR_DTYPES = DTYPES | {
    t.name: t
    for t in (
        DType("bool", 8, 1, "bool", "bool"),
        I8,
        DType("i16", 16, 15, "int16", "short"),
        I32,
        DType("i64", 64, 63, "int64", "long long"),
        DType("u64", 64, 64, "uint64", "unsigned long long"),
        DType("f64", 64, 52, "float64", "double"),
    )
}


# Smallest positive values, including subnormals; 1 for integer types.
SMALLEST = {
    "f16": 2.0**-24,
    "bf16": 2.0**-133,
    "f32": 2.0**-149,
    "e4m3": 2.0**-9,
    "e5m2": 2.0**-16,
    "i32": 0.0,
    "e2m1x2": 0.5,
}

# Types that numpy lacks, by autosched's name, with their names in ml_dtypes and torch.
NAMES = {"bf16": "bfloat16", "e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2"}
_EXPONENT_BITS = {"e4m3": 4, "e5m2": 5}
_OVERFLOW_EXPONENTS = {"f16": 16, "bf16": 128, "f32": 128, "e5m2": 16}
_SCALES = ("ue8m0", "ue4m3")
_E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
_E2M1.setflags(write=False)


def dtype(name: object, known: Mapping[str, DType] = FLOAT_DTYPES) -> DType:
    """Return the type in ``known`` with this name, in any spelling of ``dtype_names``.

    Raises ValueError for other names.
    """
    own = canonical(name)
    if own not in known:
        raise ValueError(unknown_type(name, known))
    return known[own]


def dtype_of(name: object) -> DType:
    """Return the type of an array or a scalar with this name, in any spelling. Raises ValueError for other names."""
    return dtype(name, SCALAR_DTYPES)


def round_to_tf32(values: npt.ArrayLike) -> npt.NDArray[np.float32]:
    """Round f32 values to tf32 (10 mantissa bits): to nearest, ties away from zero.

    NaN and infinities are unchanged.
    """
    x = np.asarray(values, dtype=np.float32)
    bits = x.view(np.uint32)
    rounded = ((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)
    return np.where(np.isfinite(x), rounded, x)


def _bf16_bits(x: npt.NDArray[np.float32]) -> npt.NDArray[np.uint16]:
    bits = x.view(np.uint32)
    nearest_even = bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    quiet_nan = np.uint32(0x7FFF0000) | (bits & np.uint32(0x80000000))
    return (np.where(np.isnan(x), quiet_nan, nearest_even) >> np.uint32(16)).astype(np.uint16)


def _four_bits(x: FloatArray) -> npt.NDArray[np.uint8]:
    """Convert numbers to e2m1 codes: rounded to nearest, ties to even, saturated at 6."""
    magnitude, finite = np.abs(x), _E2M1[:8]
    high = np.searchsorted(finite, magnitude).clip(1, 7)
    middle = (finite[high - 1] + finite[high]) / 2
    up = (magnitude > middle) | ((magnitude == middle) & (high % 2 == 0))
    return np.asarray((high - 1 + up) | np.where(np.signbit(x), 8, 0)).astype(np.uint8)


def _powers_of_two(x: FloatArray) -> npt.NDArray[np.uint8]:
    with np.errstate(divide="ignore", invalid="ignore"):
        nearest = np.clip(np.rint(np.log2(np.abs(x))), -127, 127) + 127
    return np.asarray(np.where(np.isnan(x), 255, nearest).astype(np.uint8))


@cache
def _eight_bit_values(name: str) -> FloatArray:
    """Return the values of all 256 codes of an 8-bit float."""
    exponent_bits = _EXPONENT_BITS[name]
    mantissa_bits = 7 - exponent_bits
    codes = np.arange(256)
    exponent, mantissa = codes >> mantissa_bits & (1 << exponent_bits) - 1, codes & (1 << mantissa_bits) - 1
    bias = (1 << exponent_bits - 1) - 1
    normal = exponent > 0
    values: FloatArray = np.ldexp(
        mantissa + normal * 2.0**mantissa_bits, np.maximum(exponent, 1) - bias - mantissa_bits
    )
    if name == "e4m3":
        values[codes & 0x7F == 0x7F] = np.nan
    else:
        values[exponent == 31] = np.where(mantissa[exponent == 31] == 0, np.inf, np.nan)
    values *= np.where(codes < 128, 1.0, -1.0)
    values.setflags(write=False)
    return values


def _eight_bits(name: str, x: FloatArray) -> npt.NDArray[np.uint8]:
    # finite values of the codes with positive sign, in ascending order from 0
    finite = _eight_bit_values(name)[: 0x7F if name == "e4m3" else 0x7C]
    magnitude = np.abs(x)
    high = np.searchsorted(finite, magnitude).clip(1, len(finite) - 1)
    middle = (finite[high - 1] + finite[high]) / 2
    # a tie is rounded to the value whose code is even
    up = (magnitude > middle) | ((magnitude == middle) & (high % 2 == 0))
    codes = high - 1 + up
    # Values are rounded as if one more number followed the largest number. Values that round to this extra number
    # become infinity or NaN.
    limit = 1.5 * finite[-1] - 0.5 * finite[-2]
    past = (magnitude > limit) | ((magnitude == limit) & (len(finite) % 2 == 0))
    codes = np.where(past, len(finite), codes)  # code of infinity; for e4m3, of NaN
    codes = np.where(np.isnan(x), 0x7F, codes)
    return (codes | np.where(np.signbit(x), 0x80, 0)).astype(np.uint8)
