"""Demangling of C++ names."""

from __future__ import annotations

import ctypes
from functools import cache


@cache
def demangled(name: str) -> str:
    """Demangle a C++ name. The name is returned unchanged if it is not mangled, or if libstdc++ is missing."""
    if not name.startswith("_Z"):
        return name
    try:
        demangle = ctypes.CDLL("libstdc++.so.6").__cxa_demangle
        free = ctypes.CDLL(None).free
    except (OSError, AttributeError):
        return name
    demangle.restype = ctypes.c_void_p
    status = ctypes.c_int()
    text = demangle(name.encode(), None, None, ctypes.byref(status))
    if not text:
        return name
    try:
        return ctypes.string_at(text).decode(errors="replace")
    finally:
        free(ctypes.c_void_p(text))
