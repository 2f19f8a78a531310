"""Conversion of a function that takes the values of one row to a function that takes columns."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any

import numpy as np
import numpy.typing as npt

from search_spaces.arrays import IntArray
from search_spaces.spaces.columns import Column, TextColumn

# up to this number of possible combinations, a flag per combination is cheaper than sorting
_DENSE_KEYS = 1 << 22
_FEW_ROWS = 8  # up to this number of rows, one call per row is cheaper than searching for equal rows


def each(fn: Callable[..., object]) -> Callable[..., Any]:
    """Return a function of columns with the parameters of ``fn``, which applies ``fn`` to every row.

    ``fn`` receives Python values (texts as str) and returns an int or a bool. If there are many rows, ``fn`` is called
    once per distinct combination of values. So ``fn`` may be slow, but its result must depend only on its arguments.
    Callers pass all columns by position or all by name; the columns must have at least one row.
    """
    positions = _positional(fn)

    @wraps(fn)
    def over(*columns: Column, **named: Column) -> npt.NDArray[Any]:
        if not named:
            return _spread(fn, columns)
        if named.keys() == positions.keys():  # calls with positional arguments are faster
            return _spread(fn, [named[name] for name in positions])
        names = tuple(named)
        return _spread(lambda *values: fn(**dict(zip(names, values, strict=True))), tuple(named.values()))

    return over


def _positional(fn: Callable[..., object]) -> Mapping[str, inspect.Parameter]:
    """Return the parameters of ``fn`` in order if all can be passed by position; otherwise an empty result."""
    parameters = inspect.signature(fn).parameters
    by_position = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return parameters if all(p.kind in by_position for p in parameters.values()) else {}


def _spread(fn: Callable[..., object], columns: Sequence[Column]) -> npt.NDArray[Any]:
    """Return the results of ``fn`` for every row, with one call per distinct combination of values."""
    if len(columns[0]) <= _FEW_ROWS:
        return np.array([fn(*values) for values in zip(*(column.tolist() for column in columns), strict=True)])
    coded = [_coded(column) for column in columns]
    keys, size = _keys([(codes, len(values)) for codes, values in coded])
    if size <= _DENSE_KEYS:
        row_of = np.full(size, -1, dtype=np.int64)
        row_of[keys] = np.arange(len(keys))
        distinct = np.flatnonzero(row_of >= 0)
        rows = row_of[distinct]
    else:
        _, rows, keys = np.unique(keys, return_index=True, return_inverse=True)
    arguments = [[values[code] for code in codes[rows].tolist()] for codes, values in coded]
    results = np.array([fn(*values) for values in zip(*arguments, strict=True)])
    if size <= _DENSE_KEYS:
        spread = np.empty(size, dtype=results.dtype)
        spread[distinct] = results
        return spread[keys]
    return results[keys]


def _coded(column: Column) -> tuple[IntArray, Sequence[object]]:
    """Return the codes of a column, and the value of each code."""
    if isinstance(column, TextColumn):
        return column.codes, column.values
    least, most = int(column.min()), int(column.max())
    if most - least > _DENSE_KEYS:
        distinct, codes = np.unique(column, return_inverse=True)
        return codes, distinct.tolist()
    occurs = np.zeros(most - least + 1, dtype=np.bool_)
    occurs[column - least] = True
    positions = np.flatnonzero(occurs)
    code_of = np.cumsum(occurs) - 1
    return code_of[column - least], (positions + least).tolist()


def _keys(coded: Sequence[tuple[IntArray, int]]) -> tuple[IntArray, int]:
    """Return one integer per row that identifies its combination of codes, and an exclusive upper bound."""
    keys, size = np.zeros(len(coded[0][0]), dtype=np.int64), 1
    for codes, count in coded:
        if size * count >= 2**62:  # keep keys small: replace each key by its index among the keys that occur
            distinct, keys = np.unique(keys, return_inverse=True)
            size = len(distinct)
        keys = keys * count + codes
        size *= count
    return keys, size
