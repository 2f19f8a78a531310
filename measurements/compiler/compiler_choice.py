"""Choose the compiler of a CUDA source: NVRTC, or nvcc if only nvcc can compile it."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

from measurements.compiler.cuda_headers import STAND_INS, missing_header
from measurements.compiler.nvcc import NvccMissing, find_nvcc
from measurements.compiler.nvrtc import NVCC, PTX_OPTIONS, NvrtcMissing, PtxOutput, cuda_include_folders
from measurements.compiler.ptx import CompilerStopped, compile_to_ptx
from measurements.files.text import one_line
from search_spaces.launches.generated_kernel import CompileLimits
from search_spaces.launches.headers import Headers, included

_LOG = logging.getLogger(__name__)
_MAY_INCLUDE_HOST = ("thrust/", "cub/device/")  # CUDA headers that may include host headers
_ARCH = "compute_80"  # architecture of the test compilation, which shows whether a compiler finds the headers
# An error at a source line: "k.cu(3): error: ..." from nvcc, "k.cu:3:1: error: ..." from the host compiler.
_ERROR_OF_SOURCE = re.compile(r"^\S.*?(?:\(\d+\)|:\d+:\d+): (?:fatal )?error", re.MULTILINE)


@dataclass(frozen=True)
class CompilerChoice:
    """The compiler chosen for a source, and the compiler's output.

    Attributes:
        by_nvcc: True for nvcc, False for NVRTC.
        output: The compiler's result, which may be a failure.
        reason: Why NVRTC cannot compile the source; "" if NVRTC was chosen.
    """

    by_nvcc: bool
    output: PtxOutput
    reason: str = ""


def choose_compiler(
    by_nvrtc: Callable[[], PtxOutput], by_nvcc: Callable[[], PtxOutput], *, host_code: bool = False
) -> CompilerChoice:
    """Compile a source with NVRTC, or with nvcc if NVRTC fails and nvcc can read the source.

    nvcc is tried if NVRTC does not find a header, or if NVRTC cannot compile a source that contains host code. If nvcc
    is not installed or also lacks a header, NVRTC's failure is returned: NVRTC's message names the options that add
    include folders. If nvcc reports errors in the source itself, nvcc's failure is returned.

    Args:
        by_nvrtc: Compiles the source with NVRTC.
        by_nvcc: Compiles the source with nvcc; only called if nvcc is installed.
        host_code: True if the source contains host code.

    Returns:
        The chosen compiler and its output.
    """
    output = by_nvrtc()
    header = missing_header(output.log) if output.text is None else ""
    if output.text is not None or not (header or host_code) or not _nvcc_installed():
        return CompilerChoice(False, output)
    other = by_nvcc()
    read = not missing_header(other.log) and _ERROR_OF_SOURCE.search(other.log) is not None
    if other.text is None and not read:
        return CompilerChoice(False, output)
    return CompilerChoice(True, other, f"NVRTC does not find {header}" if header else "NVRTC cannot compile it")


def may_lack_headers(source: str, headers: Headers) -> bool:
    """Return True if a source possibly includes a header that NVRTC does not find. Judge by names, without compiling.

    Args:
        source: Text of the source.
        headers: Header texts by include name, including the stand-ins.

    Returns:
        False if every included header is in ``headers`` or in CUDA's folders, and none of them is known to include host
        headers.
    """
    texts = dict(headers.files)
    names = {name for text in (source, *texts.values()) for name in included(text)} - texts.keys()
    folders = cuda_include_folders() if names else ()
    return any(n.startswith(_MAY_INCLUDE_HOST) or not any(Path(f, n).is_file() for f in folders) for n in names)


@lru_cache(maxsize=64)  # cached, because commands read the same kernel file several times
def compiler_of_headers(source: str, headers: Headers, limits: CompileLimits) -> CompilerChoice:
    """Choose the compiler that finds a source's headers. The macros that a schedule defines are not set.

    Args:
        source: Text of the source.
        headers: Header texts by include name, including the stand-ins.
        limits: Limits of a compilation.

    Returns:
        The compiler. If NVRTC is not installed, the result is still NVRTC, so that each kernel reports that NVRTC is
        missing.
    """

    def compiled(headers: Headers, *options: str) -> PtxOutput:
        try:
            return compile_to_ptx(source, "", _ARCH, headers, (*options, *PTX_OPTIONS), limits=limits)
        except (CompilerStopped, NvrtcMissing) as stopped:
            return PtxOutput(None, "", f"error: {stopped}", 0.0)

    return choose_compiler(lambda: compiled(headers), lambda: compiled(headers_for_nvcc(headers), NVCC))


def headers_for_nvcc(headers: Headers) -> Headers:
    """Return the headers without the stand-ins for NVRTC, because nvcc finds the original headers."""
    return Headers(tuple((name, text) for name, text in headers.files if STAND_INS.get(name) != text))


def report_nvcc(name: str, choice: CompilerChoice) -> None:
    """Log, once per process, that nvcc compiles a source, and why. Commands print this line to stderr.

    Args:
        name: Name of the source or of the kernel.
        choice: Compiler of the source; nothing is logged for NVRTC.
    """
    if choice.by_nvcc:
        _log_once(one_line(f"nvcc compiles {name}, as {choice.reason}"))


@cache
def _log_once(line: str) -> None:
    _LOG.warning("%s", line)


def _nvcc_installed() -> bool:
    try:
        find_nvcc()
    except NvccMissing:
        return False
    return True
