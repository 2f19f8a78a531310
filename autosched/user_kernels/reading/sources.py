"""Files to which a kernel file refers: the CUDA C++ source with its headers, and the Python file of the reference."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from autosched.user_kernels.document import DocumentTable, read_text
from autosched.user_kernels.function_traits import traits
from autosched.user_kernels.kernel_file import KernelReference, UserFunction
from measurements.compiler.compiler_choice import (
    compiler_of_headers,
    headers_for_nvcc,
    may_lack_headers,
    report_nvcc,
)
from measurements.compiler.cuda_headers import STAND_INS
from measurements.compiler.nvcc import find_nvcc
from measurements.compiler.nvrtc import NVCC
from search_spaces.launches.generated_kernel import CompileLimits
from search_spaces.launches.headers import Headers, included

# Default limits for compiling to PTX. With NVRTC 13, all of CUB's headers take 2 CPU seconds and 370 MiB, and 8,000
# unrolled multiplications take 6 s. A macro bomb of a few lines takes 40 s and 4.5 GB.
COMPILE_SECONDS = 10.0
COMPILE_MEMORY = 448 << 20
_LARGEST_LIMIT = 1e5  # largest time limit (a day in seconds) and memory limit (in GiB) that a file may set
PASSINGS = ("define", "constexpr", "struct", "template")
_ENTRY = re.compile(r"((?:[A-Za-z_]\w*::)*([A-Za-z_]\w*))\s*(<.*>)?", re.ASCII | re.DOTALL)

# Options that only change the generated code (NVRTC's user guide, "Supported Compile Options"). Options that name files
# or folders are not supported: headers are read next to the source and from `include`.
_OPTIONS = re.compile(
    r"--?(use_fast_math|extra-device-vectorization|restrict|(ftz|prec-div|prec-sqrt|fmad)=(true|false)"
    r"|maxrregcount=\d+|std=c\+\+20)|-lineinfo|--generate-line-info|-dopt=on|-D[A-Za-z_]\w*(=[\w.+-]*)?"
)
_GLOBAL = re.compile(r"__global__|\b__kernel\b")
_IMPLIED = re.compile(
    r"--?(O[0-3]|std=c\+\+(03|11|14|17))"
)  # options that are accepted but dropped: NVRTC always optimises, and sources are always compiled as C++17


def read_entries(
    kernel: DocumentTable, steps: Sequence[DocumentTable], sources: Sequence[str], texts: list[str]
) -> tuple[str, tuple[str, ...]]:
    """Return how the source receives parameters, and the names of the entry functions.

    Args:
        kernel: Table of the kernel.
        steps: Tables of a pipeline's steps; empty for one launch.
        sources: The source and its headers, which must contain the functions.
        texts: Parameters whose values are texts.

    Returns:
        How parameters are passed, and the names of the entry functions.

    Raises:
        KernelFileError: A function is missing, or the source cannot receive parameters in the requested way.
    """
    if steps and "entry" in kernel:
        kernel.fail("each [[step]] has its own entry: leave out the entry of [kernel]", "entry")
    entries = [_entry(table, sources) for table in (steps or [kernel])]
    templates = any(arguments for _, arguments in entries)
    passing = kernel.choice("parameters_as", PASSINGS, "template" if templates else "define")
    if passing == "template" and not all(arguments for _, arguments in entries):
        (steps or [kernel])[0].fail('a template needs its arguments: entry = "conv<block_x, float>"', "entry")
    if texts and passing in ("constexpr", "struct"):
        kernel.fail(f'{texts[0]} is a text: use parameters_as = "define" or "template"', "parameters_as")
    return passing, tuple(name + arguments for name, arguments in entries)


def _entry(table: DocumentTable, sources: Sequence[str]) -> tuple[str, str]:
    """Return the name of the entry function, and its template arguments."""
    entry = table.text("entry")
    match = _ENTRY.fullmatch(entry)
    if match is None:
        table.fail(
            f'{entry!r} is not a function name: write a name, or an instance such as "conv<block_x, float>"', "entry"
        )
    if not any(re.search(rf"\b{match[2]}\b", source) for source in sources):
        table.fail(f"the source has no function {match[2]!r}", "entry")
    if not any(_GLOBAL.search(source) for source in sources):
        table.fail("the source has no __global__ function: give the source of a kernel, not only host code", "entry")
    return match[1], re.sub(r"\s+", " ", match[3] or "")


def read_compiler(
    kernel: DocumentTable, name: str, source: str, headers: tuple[tuple[str, str], ...]
) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Return the compiler and its headers. If the file does not name a compiler, choose one.

    If NVRTC certainly finds all headers of the source, NVRTC is chosen. Otherwise, the source is compiled to find out
    whether a header is missing. Other errors are ignored, because parameters are still undefined at this stage.

    Args:
        kernel: Table of the kernel.
        name: Name of the kernel, for the notice that nvcc was chosen.
        source: Text of the source.
        headers: Result of ``read_headers``.
    """
    if "compiler" in kernel:
        return kernel.choice("compiler", ("nvrtc", "nvcc")), headers
    own_headers = Headers.of(dict(headers))
    if not may_lack_headers(source, own_headers):
        return "nvrtc", headers
    choice = compiler_of_headers(source, own_headers, read_compile_limits(kernel))
    report_nvcc(name, choice)
    return ("nvcc", headers_for_nvcc(own_headers).files) if choice.by_nvcc else ("nvrtc", headers)


def read_options(kernel: DocumentTable, compiler: str) -> tuple[str, ...]:
    """Return the options for a compiler, except options without effect."""
    options = []
    if compiler == "nvcc":
        kernel.attempt("compiler", find_nvcc)
        options.append(NVCC)
    for option in kernel.listed("options"):
        if not isinstance(option, str) or not (_OPTIONS.fullmatch(option) or _IMPLIED.fullmatch(option)):
            hint = (
                "list folders in include"
                if str(option).startswith(("-I", "--include"))
                else "docs/reference/bring-your-own-kernel.md lists the supported ones"
            )
            kernel.fail(f"the option {option!r} is not supported: {hint}", "options")
        if not _IMPLIED.fullmatch(option):
            options.append(option)
    return tuple(options)


def read_headers(kernel: DocumentTable, source: str, folder: Path, source_folder: Path) -> tuple[tuple[str, str], ...]:
    """Return (name, text) of every included file next to the source or in a folder of ``include``.

    Args:
        kernel: Table of the kernel.
        source: Text of the source.
        folder: Folder of the kernel file, to which ``include`` is relative.
        source_folder: Folder of the source.

    Returns:
        The headers.

    Raises:
        KernelFileError: A folder is missing, or an included file is outside the folders.
    """
    folders = [source_folder]
    for include in kernel.listed("include"):
        if not isinstance(include, str) or not (folder / include).is_dir():
            kernel.fail(f"the folder {include!r} does not exist next to the kernel file", "include")
        folders.append(folder / include)
    headers: dict[str, str] = {}
    waiting = [source]
    while waiting:
        for name in included(waiting.pop()):
            path = next((f / name for f in folders if (f / name).exists() and not (f / name).is_dir()), None)
            if path is not None and (PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts):
                problem = f'#include "{name}" is outside the folder of the source'
                kernel.fail(f"{problem}: list its folder in include", "include")
            if path is None and name in STAND_INS and kernel.values.get("compiler") != "nvcc":
                headers[name] = STAND_INS[name]
            elif path is not None and name not in headers:
                headers[name] = read_text(path, kernel, "include")
                waiting.append(headers[name])
    return tuple(sorted(headers.items()))


def read_limits(table: DocumentTable, of: str = "") -> tuple[float, int]:
    """Return the limits of a function or kernel in seconds and bytes of memory; 0 if the table sets none.

    ``of`` is the prefix of the keys.
    """
    time, memory = f"{of}time_limit", f"{of}memory_limit"
    seconds = _positive(table, time, "seconds") if time in table else 0.0
    gib = _positive(table, memory, "GiB of memory") if memory in table else 0.0
    return seconds, math.ceil(gib * (1 << 30))


def read_compile_limits(kernel: DocumentTable) -> CompileLimits:
    """Return the limits that the table sets for a compilation."""
    seconds, memory = read_limits(kernel, "compile_")
    return CompileLimits(seconds or COMPILE_SECONDS, memory or COMPILE_MEMORY)


def _positive(table: DocumentTable, key: str, unit: str) -> float:
    value = float(table.get(key, (int, float), f"a number of {unit}"))
    if not 0 < value <= _LARGEST_LIMIT:
        table.fail(f"this must be a number of {unit}, more than 0 and at most {_LARGEST_LIMIT:g}", key)
    return value


def python_reference(
    table: DocumentTable, folder: Path, key: str = "python", text: Any = None, limits: tuple[float, int] = (0.0, 0)
) -> KernelReference:
    """Return the function that ``key = "file.py:function"`` names; the file runs when the function is first called.

    Args:
        table: Table with the key.
        folder: Folder to which files are relative.
        key: Name of the key.
        text: Value of the key; None to read it from the table.
        limits: Seconds and bytes of memory that the function may use; 0 for the defaults.

    Returns:
        The function.

    Raises:
        KernelFileError: The file is missing, or has no function of that name.
    """
    text = table.text(key) if text is None else text
    file, _, name = text.rpartition(":") if isinstance(text, str) else ("", "", "")
    if not file or not name.isidentifier():
        table.fail(f'{text!r} is not of the form "file.py:function"', key)
    path = folder / file
    content = read_text(path, table, key)
    if not re.search(rf"^(def|class)\s+{name}\b|^{name}\s*=|^from .* import .*\b{name}\b", content, re.MULTILINE):
        table.fail(f"{file} has no function {name!r}", key)
    position = table.positions.at((*table.path, key))
    seconds, memory = limits
    function = UserFunction(name, str(path.absolute()), content, time_limit=seconds, memory_limit=memory)
    return KernelReference(text, f"{text}\n{content}", function, position=position)


def callable_reference(function: Callable[..., Any]) -> KernelReference:
    """Return a reference to a function passed from Python.

    References to functions with the same traits are equal.
    """
    name = getattr(function, "__qualname__", type(function).__name__)
    return KernelReference(name, repr(traits(function)), UserFunction(name, callable_object=function))
