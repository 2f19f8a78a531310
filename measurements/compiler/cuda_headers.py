"""Replacements for headers that CUDA sources include and NVRTC does not provide.

NVRTC has no C++ standard library. Device code needs little of the standard library. Integer types, limits and macros
are defined in this module. Templates such as ``std::numeric_limits`` come from libcu++, as ``cuda::std``. Host headers
are replaced by empty texts. ``cuda.h`` is replaced by the types that device code needs, mainly ``CUtensorMap``.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from search_spaces.launches.headers import Headers, included

_INTEGERS = "".join(
    f"typedef {kind} int{bits}_t; typedef unsigned {kind} uint{bits}_t;\n"
    for bits, kind in ((8, "signed char"), (16, "short"), (32, "int"), (64, "long long"))
).replace("unsigned signed char", "unsigned char")
_LIMITS = """#define CHAR_BIT 8
#define SCHAR_MAX 127
#define UCHAR_MAX 255
#define SHRT_MIN (-32768)
#define SHRT_MAX 32767
#define USHRT_MAX 65535
#define INT_MAX 2147483647
#define INT_MIN (-INT_MAX - 1)
#define UINT_MAX 4294967295u
#define LONG_MAX 9223372036854775807l
#define LONG_MIN (-LONG_MAX - 1)
#define ULONG_MAX 18446744073709551615ul
#define LLONG_MAX 9223372036854775807ll
#define LLONG_MIN (-LLONG_MAX - 1)
#define ULLONG_MAX 18446744073709551615ull
"""
_FLOATS = """#define FLT_MAX 3.402823466e+38f
#define FLT_MIN 1.175494351e-38f
#define FLT_EPSILON 1.192092896e-07f
#define DBL_MAX 1.7976931348623158e+308
#define DBL_MIN 2.2250738585072014e-308
#define DBL_EPSILON 2.2204460492503131e-16
"""
_MATH = """#ifndef M_PI
#define M_PI 3.14159265358979323846
#define M_E 2.7182818284590452354
#define M_SQRT2 1.41421356237309504880
#define M_LN2 0.69314718055994530942
#endif
#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fffffff)
#define HUGE_VALF INFINITY
#endif
"""
_ASSERT = """#ifndef assert
extern "C" __device__ void __assertfail(const char*, const char*, unsigned, const char*, size_t);
#ifdef NDEBUG
#define assert(condition) ((void)0)
#else
#define assert(condition) ((condition) ? (void)0 : __assertfail(#condition, __FILE__, __LINE__, __func__, 1))
#endif
#endif
"""
_GUARD = "#pragma once\n"
_WITH_CONTENT = {
    **dict.fromkeys(("stdint.h", "cstdint", "inttypes.h", "cinttypes"), _INTEGERS),
    **dict.fromkeys(("limits.h", "climits"), _LIMITS),
    **dict.fromkeys(("float.h", "cfloat"), _FLOATS),
    **dict.fromkeys(("math.h", "cmath"), _MATH),
    **dict.fromkeys(("assert.h", "cassert"), _ASSERT),
}
_EMPTY = (
    "stdio.h", "cstdio", "stdlib.h", "cstdlib", "string.h", "cstring", "stddef.h", "cstddef", "stdbool.h", "time.h",
    "ctime", "sys/time.h", "sys/types.h", "sys/stat.h", "unistd.h", "getopt.h", "memory.h", "malloc.h", "omp.h",
    "iostream", "iomanip", "fstream", "sstream", "ostream", "istream", "string", "vector", "map", "set", "list",
    "unordered_map", "unordered_set", "deque", "queue", "stack", "bitset", "algorithm", "numeric", "random", "chrono",
    "memory", "functional", "thread", "mutex", "atomic", "stdexcept", "exception", "iterator", "cuda_runtime.h",
    "cuda_runtime_api.h", "cudaTypedefs.h", "cuda_profiler_api.h", "device_launch_parameters.h", "helper_cuda.h",
    "helper_functions.h", "helper_timer.h", "helper_string.h",
)  # fmt: skip
# C++ headers that libcu++ provides. Their replacements import the names of ``cuda::std`` into ``std``.
_OF_LIBCUDACXX = (
    "limits", "type_traits", "utility", "tuple", "array", "bit", "concepts", "optional", "variant", "span", "ratio",
    "numbers", "complex",
)  # fmt: skip
# ``cub/cub.cuh`` includes host code, which NVRTC rejects. Its replacement includes only block and warp primitives.
_OF_CUB = (
    *("block/block_reduce", "block/block_scan", "block/block_load", "block/block_store", "block/block_radix_sort"),
    *("block/block_exchange", "block/block_histogram", "warp/warp_reduce", "warp/warp_scan"),
)
_DRIVER = """typedef unsigned int cuuint32_t;
typedef unsigned long long cuuint64_t;
typedef unsigned long long CUdeviceptr;
typedef struct CUstream_st* CUstream;
typedef struct CUtensorMap_st { alignas(64) cuuint64_t opaque[16]; } CUtensorMap;
"""
# Replacement texts by include name. They do not declare printf and the functions of <math.h>, which NVRTC provides.
STAND_INS: Mapping[str, str] = (
    {name: _GUARD for name in _EMPTY}
    | {name: _GUARD + content for name, content in _WITH_CONTENT.items()}
    | {
        name: f"{_GUARD}#include <cuda/std/{name}>\nnamespace std {{ using namespace cuda::std; }}\n"
        for name in _OF_LIBCUDACXX
    }
    | {
        "cuda.h": _GUARD + _DRIVER,
        "cub/cub.cuh": _GUARD + "".join(f"#include <cub/{name}.cuh>\n" for name in _OF_CUB),
    }
)


def stand_ins(texts: Iterable[str], options: Iterable[str] = ()) -> dict[str, str]:
    """Return the replacements of headers that ``texts`` include, by include name.

    A header that exists in an include folder of the compiler's options (``-IFOLDER``) is not replaced.
    """
    names = {name for text in texts for name in included(text)}
    folders = [Path(option[2:]) for option in options if option.startswith("-I")]
    own = {name for name in names for folder in folders if (folder / name).is_file()}
    return {name: content for name, content in STAND_INS.items() if name in names - own}


@cache
def package_folders() -> tuple[str, ...]:
    """Return the include folders of cupy's Python package, which contain ``cupy/complex.cuh``, CUB and libcu++."""
    spec = importlib.util.find_spec("cupy")
    if spec is None or not spec.submodule_search_locations:
        return ()
    own = Path(next(iter(spec.submodule_search_locations)), "_core", "include")
    parts = (own, *(own / "cupy" / "_cccl" / name for name in ("libcudacxx", "cub", "thrust")))
    return tuple(str(folder) for folder in parts if folder.is_dir())


def refused_include(source: str, headers: Headers, options: Iterable[str]) -> str:
    """Return an error if a source includes a pipe, device or other irregular file; "" otherwise.

    A compiler must not open such a file: a pipe may block the compiler, and a device may supply text without end.

    Args:
        source: Text of the source.
        headers: Header texts by include name; they take precedence over files.
        options: Options of the compiler (``-IFOLDER``).

    Returns:
        The error as one line of a compiler's log.
    """
    files = dict(headers.files)
    names = {name for text in (source, *files.values()) for name in included(text)} - files.keys()
    folders = ("", *(option[2:] for option in options if option.startswith("-I")))
    for name in sorted(names):
        for path in (Path(folder, name) for folder in folders):
            if path.exists() and not path.is_file() and not path.is_dir():
                return f'error: #include "{name}": not a regular file'
    return ""


_MISSING = re.compile(r"(?:cannot|could not) open source file \"([^\"]+)\"|fatal error: ([^:\s]+): No such file")


def missing_header(log: str) -> str:
    """Return the header that a compiler reported as missing; "" for other errors."""
    match = _MISSING.search(log)
    return "" if match is None else match[1] or match[2]
