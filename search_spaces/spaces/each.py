"""Conversion of functions of single values to functions of columns."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any

import numpy as np
import numpy.typing as npt

from search_spaces.arrays import IntArray
from search_spaces.spaces.columns import Column, TextColumn

_DENSE_KEYS = 1 << 22  # up to this many possible combinations a flag per combination is cheaper than a sort
_FEW_ROWS = 8  # up to this many rows, one call per row is cheaper than a search for equal rows


def each(fn: Callable[..., object]) -> Callable[..., Any]:
    """Return a function of columns with the parameters of ``fn``, which applies ``fn`` to every row.

    ``fn`` receives Python values (texts as str) and returns an int or a bool. For many rows it is called once per
    distinct combination of values, so it may be slow, and must only depend on its arguments. The columns are passed all
    by position or all by name, and have at least one row.
    """
    positions = _positional(fn)

    @wraps(fn)
    def over(*columns: Column, **named: Column) -> npt.NDArray[Any]:
        if not named:
            return _spread(fn, columns)
        if named.keys() == positions.keys():  # a call by position is faster
            return _spread(fn, [named[name] for name in positions])
        names = tuple(named)
        return _spread(lambda *values: fn(**dict(zip(names, values, strict=True))), tuple(named.values()))

    return over


def _positional(fn: Callable[..., object]) -> Mapping[str, inspect.Parameter]:
    """Return the parameters of ``fn`` in their order, if all of them may be given by position; otherwise none."""
    parameters = inspect.signature(fn).parameters
    by_position = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return parameters if all(p.kind in by_position for p in parameters.values()) else {}


def _spread(fn: Callable[..., object], columns: Sequence[Column]) -> npt.NDArray[Any]:
    """Return ``fn`` of the values of every row, called once per distinct combination."""
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
    """Return the codes of a column and their values."""
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
    """Return one integer per combination of codes, and the exclusive upper bound of these integers."""
    keys, size = np.zeros(len(coded[0][0]), dtype=np.int64), 1
    for codes, count in coded:
        if size * count >= 2**62:  # compress to the combinations that occur
            distinct, keys = np.unique(keys, return_inverse=True)
            size = len(distinct)
        keys = keys * count + codes
        size *= count
    return keys, size
