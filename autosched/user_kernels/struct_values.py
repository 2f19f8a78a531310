"""Structs passed by value, given as objects of numpy or ctypes."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from search_spaces.hardware.dtype_names import canonical
from search_spaces.hardware.dtypes import SCALAR_DTYPES

_POINTERS = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_wchar_p, ctypes._Pointer)


def is_struct(value: Any) -> bool:
    """Return True for a value that is passed to a kernel as a struct.

    Such values are numpy scalars and zero-dimensional arrays of structured types, and ctypes structures and unions.
    """
    if isinstance(value, ctypes.Structure | ctypes.Union):
        return True
    return isinstance(value, np.void) or (isinstance(value, np.ndarray) and not value.shape and value.dtype.kind == "V")


def struct_bytes(value: Any) -> bytes:
    """Return the bytes of a struct, little-endian as on GPUs. Raises ValueError for fields that hold addresses."""
    if isinstance(value, ctypes.Structure | ctypes.Union):
        if _points(type(value)):
            raise ValueError(
                "a struct with a host pointer cannot be used on a GPU: pass the array as a separate argument"
            )
        return bytes(value)
    array = np.asarray(value)
    if array.dtype.hasobject:
        raise ValueError("a struct must not contain Python objects: give each field a numeric type")
    return array.astype(array.dtype.newbyteorder("<")).tobytes()


def number_fields(dtype: np.dtype[Any]) -> tuple[np.dtype[Any], int] | None:
    """Return type and count of a struct's numbers if all have one type and no padding lies between them."""
    leaves = list(_leaves(dtype))
    kinds = {canonical(leaf) for leaf in leaves}
    if len(kinds) != 1 or kinds.pop() not in SCALAR_DTYPES or len(leaves) * leaves[0].itemsize != dtype.itemsize:
        return None
    return leaves[0], len(leaves)


def _leaves(dtype: np.dtype[Any]) -> list[np.dtype[Any]]:
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return _leaves(base) * int(np.prod(shape))
    if dtype.names is None:
        return [dtype]
    return [leaf for name in dtype.names for leaf in _leaves(dtype[name])]


def _points(kind: Any) -> bool:
    if issubclass(kind, _POINTERS):
        return True
    if issubclass(kind, ctypes.Array):
        return _points(kind._type_)
    return any(_points(f[1]) for f in getattr(kind, "_fields_", ()))
