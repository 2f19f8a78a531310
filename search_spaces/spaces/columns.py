"""Configurations as columns: one array per parameter or attribute, all of equal length.

A rule on Columns handles one schedule (length 1) or a million schedules with the same code.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, cast

import numpy as np
import numpy.typing as npt

from search_spaces.arrays import BoolArray, IntArray
from search_spaces.spaces.parameters import Value

# The value of each code: a tuple, or an array for attributes, whose values are integers.
Values = tuple[Value, ...] | IntArray


def ceil_div(a: npt.ArrayLike, b: npt.ArrayLike) -> IntArray:
    """Return a / b, rounded up, for integers or for arrays that broadcast. b must be positive."""
    return -(-np.asarray(a, dtype=np.int64) // np.asarray(b, dtype=np.int64))


@dataclass(frozen=True, eq=False)
class TextColumn:
    """A column of texts: ``codes`` has one index into ``values`` per row.

    A comparison with a text returns one bool per row. ``each`` converts any function of texts to a function of columns.
    """

    codes: IntArray
    values: tuple[str, ...]

    def __eq__(self, text: object) -> BoolArray:  # type: ignore[override]
        return np.equal(self.codes, self.values.index(text) if text in self.values else -1)

    def __ne__(self, text: object) -> BoolArray:  # type: ignore[override]
        return np.logical_not(self == text)

    def __len__(self) -> int:
        return len(self.codes)

    def tolist(self) -> list[str]:
        """Return the text of every row."""
        return [self.values[code] for code in self.codes.tolist()]


Column = IntArray | TextColumn


class Columns:
    """Named columns of equal length, in which a row is a configuration. ``len()`` counts rows; iteration yields names.

    ``columns[name]`` is an int64 array: the values of an integer column, or the codes (indices into the parameter's
    values) of a text column. ``decode`` returns the values of either. Arrays must not be modified.
    """

    def __init__(self, arrays: Mapping[str, npt.ArrayLike], texts: Mapping[str, Sequence[str]] | None = None) -> None:
        """Create columns from arrays of values; for a name in ``texts``, the array has codes (indices of the texts).

        Raises ValueError if a column is not a 1-D integer array, if lengths differ, or if a code is out of range.
        """
        codes: dict[str, npt.NDArray[Any]] = {}
        values: dict[str, Values] = {}
        integers: dict[str, IntArray] = {}
        for name, array in arrays.items():
            array = np.asarray(array)
            if array.ndim != 1 or (array.dtype.kind not in "iu" and array.size):
                raise ValueError(f"column {name} must be a 1-D array of integers, not {array.dtype} {array.shape}")
            array = array.astype(np.int64)
            if texts is not None and name in texts:
                if array.size and (int(array.min()) < 0 or int(array.max()) >= len(texts[name])):
                    raise ValueError(f"column {name} has a code outside 0..{len(texts[name]) - 1}")
                codes[name], values[name] = array, tuple(texts[name])
            else:
                integers[name] = array
        lengths = {len(a) for a in (*codes.values(), *integers.values())}
        if len(lengths) > 1:
            raise ValueError(f"columns must have equal lengths, not {sorted(lengths)}")
        self._length = lengths.pop() if lengths else 0
        self._codes, self._values, self._integers = codes, values, integers

    @classmethod
    def coded(cls, codes: Mapping[str, npt.NDArray[Any]], values: Mapping[str, Values], length: int) -> Self:
        """Return columns from codes, which are indices into ``values[name]``. The codes are neither checked nor copied.

        Codes of integers are decoded on first use.
        """
        return cls._of_arrays(dict(codes), {name: values[name] for name in codes}, {}, length)

    @classmethod
    def _of_arrays(
        cls,
        codes: dict[str, npt.NDArray[Any]],
        values: dict[str, Values],
        integers: dict[str, IntArray],
        length: int,
    ) -> Self:
        columns = cls.__new__(cls)
        columns._codes, columns._values, columns._integers, columns._length = codes, values, integers, length
        return columns

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __contains__(self, name: object) -> bool:
        return name in self._codes or name in self._integers

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(self._codes) + tuple(n for n in self._integers if n not in self._codes)

    def is_text(self, name: str) -> bool:
        """Return True if ``self[name]`` contains codes that stand for strings."""
        return name in self._codes and isinstance(self._values[name][0], str)

    def __getitem__(self, name: str) -> IntArray:
        """Return the int64 column. Raises KeyError, which lists the existing columns."""
        if name in self._integers:
            return self._integers[name]
        if name not in self._codes:
            raise KeyError(f"no column {name!r} here, only {', '.join(self.names)}")
        codes = self._codes[name]
        array = codes if self.is_text(name) else np.asarray(self._values[name], dtype=np.int64)[codes]
        array = array.astype(np.int64, copy=False)
        self._integers[name] = array
        return array

    def column(self, name: str) -> Column:
        """Return the column as rules receive it, an int64 array or a TextColumn. Raises KeyError like ``[]``."""
        array = self[name]
        return TextColumn(array, cast(tuple[str, ...], self._values[name])) if self.is_text(name) else array

    def decode(self, name: str) -> list[Value]:
        """Return the values of a column as Python ints or strs."""
        return list(self.column(name).tolist())

    def take(self, rows: npt.NDArray[Any]) -> Columns:
        """Return the rows that an array of indices or a bool mask selects."""
        count = int(np.count_nonzero(rows)) if rows.dtype == np.bool_ else len(rows)
        codes = {n: c[rows] for n, c in self._codes.items()}
        integers = {n: a[rows] for n, a in self._integers.items() if n not in codes}
        return self._of_arrays(codes, self._values, integers, count)

    def select(self, names: Sequence[str]) -> Columns:
        """Return only the named columns. Raises KeyError for an unknown name."""
        codes: dict[str, npt.NDArray[Any]] = {}
        integers: dict[str, IntArray] = {}
        for name in names:
            if name in self._codes:
                codes[name] = self._codes[name]
            elif name not in self._integers:
                raise KeyError(f"no column {name!r} here, only {', '.join(self.names)}")
            if name in self._integers:
                integers[name] = self._integers[name]
        return self._of_arrays(codes, self._values, integers, len(self))

    def with_integers(self, name: str, array: IntArray) -> Columns:
        """Return the columns with another integer column of the same length added."""
        if len(array) != len(self):
            raise ValueError(f"column {name} has {len(array)} rows, but the other columns have {len(self)}")
        return self._of_arrays(self._codes, self._values, {**self._integers, name: array}, len(self))
