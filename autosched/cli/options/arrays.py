"""Kernel arguments as text.

f32[64,32]        random array: normal distribution, or integers from -3 to 3
zeros f32[64]     constant array; also ones, range (0, 1, 2, ...), fill=7
out f32[64]       array that the kernel fills
data.npy          array in a numpy file
out data.npy      array that the kernel fills, with the shape and type of that file
5, 2.5, null      numbers and a null pointer
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from autosched.cli.terminal.errors import InputError, shortened
from measurements.files.npy import open_npy
from search_spaces.hardware.dtype_names import canonical
from search_spaces.hardware.dtypes import SCALAR_DTYPES, dtype_of

_ARRAY = re.compile(
    r"(?:(?P<how>out|zeros|ones|range|noise|fill=(?P<fill>\S+))\s+)?(?P<dtype>\w+)\[(?P<shape>\d{1,18}(?:\s*,\s*\d{1,18})*)\]"
)
_FILE = re.compile(r"(?P<out>out\s+)?(?P<file>\S.*\.npy)")


def read_arguments(
    texts: Sequence[str], rng: np.random.Generator, flag: str = "--argument"
) -> tuple[list[Any], tuple[int, ...]]:
    """Return the arguments, and the positions of the arguments that the kernel fills.

    Raises:
        InputError: An argument cannot be parsed or read.
    """
    values, filled = [], []
    for k, text in enumerate(texts):
        value, is_out = read_argument(text.strip(), rng, flag)
        values.append(value)
        if is_out:
            filled.append(k)
    return values, tuple(filled)


def read_argument(text: str, rng: np.random.Generator, flag: str) -> tuple[Any, bool]:
    """Return one argument, and True if the kernel fills it.

    Raises:
        InputError: The argument cannot be parsed or read.
    """
    array = _ARRAY.fullmatch(text)
    if array and canonical(array["dtype"]) in SCALAR_DTYPES:
        return _array_of_match(array, rng, flag), array["how"] == "out"
    if file := _FILE.fullmatch(text):
        return read_array(file["file"], flag), bool(file["out"])
    if text in ("null", "None", "nullptr"):
        return None, False
    try:
        return int(text, 0), False
    except ValueError:
        pass
    try:
        number = float(text)
    except ValueError:
        known = ", ".join(SCALAR_DTYPES)
        raise InputError(
            f'invalid {flag} "{shortened(text)}": write 5, 2.5, null, f32[64,32], '
            f"'out f32[64]', 'zeros f32[64]' (or ones, range, fill=7) or data.npy (types: {known})"
        ) from None
    if math.isinf(number) and "inf" not in text.lower():
        raise InputError(f'invalid {flag} "{shortened(text)}": the number is too large; for infinity write inf')
    return number, False


def _array_of_match(match: re.Match[str], rng: np.random.Generator, flag: str) -> npt.NDArray[Any]:
    dtype = dtype_of(match["dtype"])
    shape = tuple(int(n) for n in match["shape"].split(","))
    how = (match["how"] or "noise").partition("=")[0]
    if how == "fill":
        try:
            number = float(match["fill"])
        except ValueError:
            raise InputError(f'{flag} {match[0]}: invalid fill "{match["fill"]}": write a number') from None
        values = np.full(shape, number)
    elif how == "range":
        values = np.arange(np.prod(shape), dtype=np.float64).reshape(shape)
    elif how in ("zeros", "out"):
        values = np.zeros(shape)
    elif how == "ones":
        values = np.ones(shape)
    else:
        values = rng.standard_normal(shape)
    return np.ascontiguousarray(dtype.store(values)).reshape(shape)


def read_array(name: str, flag: str) -> npt.NDArray[Any]:
    """Read the array of a .npy file.

    Raises:
        InputError: The file cannot be read.
    """
    try:
        return np.array(open_npy(name), order="C")
    except ValueError as error:
        raise InputError(f"{flag} {name} cannot be read: {error}") from None
