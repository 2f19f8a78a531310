"""What types are called in kernel files: as here, in numpy, and in CUDA C++."""

from __future__ import annotations

from search_spaces.hardware.dtypes import SCALAR_DTYPES, DType

DTYPE_NAMES = {
    **{name: name for name in SCALAR_DTYPES},
    **{"float16": "f16", "half": "f16", "__half": "f16", "bfloat16": "bf16", "__nv_bfloat16": "bf16"},
    **{"float32": "f32", "float": "f32", "float64": "f64", "double": "f64", "char": "i8", "short": "i16", "int": "i32"},
    **{
        f"{sign}int{bits}{t}": f"{sign or 'i'}{bits}"
        for sign in ("", "u")
        for bits in (8, 16, 32, 64)
        for t in ("", "_t")
    },
    **{"unsigned": "u32", "unsigned int": "u32", "unsigned char": "u8", "long long": "i64", "size_t": "u64"},
}
# What C++ calls the types that go by other names, too.
_IN_SOURCES = {"f16": "half", "bf16": "__nv_bfloat16", "f32": "float", "f64": "double", "bool": "bool"}
_IN_SOURCES |= {"i8": "signed char", "i16": "short", "i32": "int", "i64": "long long"}
_IN_SOURCES |= {"u8": "unsigned char", "u16": "unsigned short", "u32": "unsigned int", "u64": "unsigned long long"}


def dtype_of(name: str) -> DType:
    """Return the type. Raises ValueError for a text that is no name of one."""
    if name not in DTYPE_NAMES:
        raise ValueError(f"{name!r} is not a type of arrays: use float, half, double, int, ...")
    return SCALAR_DTYPES[DTYPE_NAMES[name]]


def in_source(name: str) -> str:
    """Return what C++ calls the type, which it may be called already."""
    return _IN_SOURCES.get(dtype_of(name).name, name)
