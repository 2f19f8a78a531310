"""CUDA files as people write them, with host code and headers of C++, for a compiler that knows device code alone.

Where nvcc is installed it makes the PTX. NVRTC knows no host code and has no standard library: it gets the device part
of a file, line by line where it was, and stand-ins of the headers that such files include.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from measurements.compiler.nvcc import run_nvcc

_HOST_CODE = re.compile(r"<<<|\bint\s+main\s*\(|\bcuda(Malloc|Memcpy|DeviceSynchronize|Free)\b")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_LITERAL = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'')
_DIRECTIVE = re.compile(r"[ \t]*#(?:[^\n\\]|\\\n|\\.)*")
_DEVICE_WORDS = re.compile(r"\b(__global__|__device__|__constant__|__managed__|__shared__|constexpr)\b")
_TYPES = re.compile(r"\s*(?:template\s*<.*>\s*)?(?:typedef\s+)?(struct|class|union|enum)\b", re.DOTALL)
_NESTED = re.compile(r'\s*(?:inline\s+)?(?:namespace\b[\w\s:]*|extern\s*"[^"]*"\s*)$')
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"\n]+)[>"]', re.MULTILINE)
_NVCC_SECONDS = 300.0

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
    "cuda_runtime_api.h", "device_launch_parameters.h", "cuda_profiler_api.h", "helper_cuda.h", "helper_functions.h",
    "helper_timer.h", "helper_string.h",
)  # fmt: skip
# By include name: what device code needs of them, which is little. Functions of <math.h> and printf are NVRTC's own.
_STANDARD_HEADERS = {name: _GUARD for name in _EMPTY} | {
    name: _GUARD + content for name, content in _WITH_CONTENT.items()
}


def standard_headers(source: str, headers: Mapping[str, str]) -> dict[str, str]:
    """Stand-ins, by include name, of the headers of a C++ compiler that a source and its own headers include."""
    texts = (source, *headers.values())
    included = {name for text in texts for name in _INCLUDE.findall(text)}
    return {name: content for name, content in _STANDARD_HEADERS.items() if name in included}


def has_host_code(text: str) -> bool:
    """Whether a CUDA file holds what runs on the host: a compiler of device code alone does not take it."""
    return _HOST_CODE.search(_COMMENT.sub(" ", text)) is not None


def nvcc() -> str | None:
    """Where nvcc is, if it is installed."""
    return shutil.which("nvcc")


def ptx_by_nvcc(file: Path, arch: str, options: Sequence[str] = ()) -> tuple[str | None, str]:
    """Return the PTX of a CUDA file, with the lines of its source, and what the compiler said; None where it
    refuses."""
    with tempfile.TemporaryDirectory(prefix="autosched-nvcc-") as folder:
        # A file, not /dev/stdout: for some architectures nvcc lets ptxas read what it has written.
        output = Path(folder, "out.ptx")
        command = [nvcc() or "nvcc", "-ptx", "-lineinfo", f"-arch={arch}", "-o", str(output), *options, str(file)]
        try:
            done = run_nvcc(command, _NVCC_SECONDS)
        except subprocess.TimeoutExpired:
            return None, f"error: nvcc did not finish within {_NVCC_SECONDS:.0f} s"
        except OSError as error:
            return None, f"error: nvcc cannot be run ({error.strerror or error})"
        log = (done.stdout + done.stderr).strip()
        if done.returncode != 0 or not output.is_file() or output.stat().st_size == 0:
            return None, log or f"error: nvcc exited with status {done.returncode} without output"
        return output.read_text(errors="replace"), log


def device_part(text: str) -> str:
    """Return a CUDA file without the functions and variables of the host; every line stays where it is."""
    blank = _blanked(text)
    return _kept(text, blank, 0, len(text))


def _blanked(text: str) -> str:
    """Return the same text with comments, literals and directives as blanks: what is left has true brackets."""

    def blanks(found: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", found[0])

    plain = re.compile(f"{_COMMENT.pattern}|{_LITERAL.pattern}", re.DOTALL)
    # Literals stay in directives (#include "x"), which are kept whole.
    return re.sub(r"(?m)^" + _DIRECTIVE.pattern, blanks, plain.sub(blanks, text))


def _kept(text: str, blank: str, start: int, end: int) -> str:
    """Return the items between two places, at one level of brackets: what is the host's, as empty lines."""
    out, at = [], start
    while at < end:
        stop, opening = _item(blank, at, end)
        head = blank[at : opening if opening >= 0 else stop]
        if opening >= 0 and _NESTED.match(_with_literals(text, blank, at, opening)):
            out.append(text[at : opening + 1] + _kept(text, blank, opening + 1, stop - 1) + text[stop - 1 : stop])
        elif _is_for_device(head, opening >= 0):
            out.append(text[at:stop])
        else:
            out.append(_lines_alone(text, blank, at, stop))
        at = stop
    return "".join(out)


def _with_literals(text: str, blank: str, start: int, end: int) -> str:
    """Return the head of an item: its words, with the literal of ``extern "C"``."""
    words = blank[start:end].strip()
    return 'extern "C"' if words == "extern" and '"' in text[start:end] else words


def _item(blank: str, start: int, end: int) -> tuple[int, int]:
    """Where the item that begins at ``start`` ends, and where its body opens (-1: none)."""
    depth, opening = 0, -1
    for at in range(start, end):
        c = blank[at]
        if c in "([{":
            if c == "{" and depth == 0 and opening < 0:
                opening = at
            depth += 1
        elif c in ")]}":
            depth -= 1
            if depth == 0 and c == "}" and opening >= 0 and _is_function_or_scope(blank[start:opening]):
                return at + 1, opening
        elif c == ";" and depth == 0:
            return at + 1, opening
    return end, opening


def _is_function_or_scope(head: str) -> bool:
    """Whether what ends with this bracket needs no semicolon behind it."""
    return not _TYPES.match(head) and "=" not in head.partition("(")[0]


def _is_for_device(head: str, has_body: bool) -> bool:
    if _DEVICE_WORDS.search(head) or _TYPES.match(head):
        return True
    words = head.split()
    if not words or words[0] in ("using", "typedef", "template", "static_assert"):
        return words[:2] != ["using", "namespace"] and (words[:1] != ["template"] or not has_body)
    if words[0] in ("const", "static") and "(" not in head.partition("=")[0]:
        return "std::" not in head  # constants that device code may use
    return False


def _lines_alone(text: str, blank: str, start: int, end: int) -> str:
    """Blanks for the host's, but for directives, which stay."""
    kept, at = [], start
    for found in re.finditer(r"(?m)^" + _DIRECTIVE.pattern, text[start:end]):
        here, behind = start + found.start(), start + found.end()
        if blank[here:behind].strip():
            continue  # within a comment, or no line of its own
        kept.append("\n" * text.count("\n", at, here) + text[here:behind])
        at = behind
    kept.append("\n" * text.count("\n", at, end))
    return "".join(kept)
