"""The choice between NVRTC and nvcc, for sources of every origin: NVRTC first, nvcc where NVRTC cannot."""

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
_OF_HOST = ("thrust/", "cub/device/")  # CUDA's own headers that may include headers of the host
_ARCH = "compute_80"  # architecture for testing which compiler finds the headers
# Errors in a source: nvcc reports "k.cu(3): error: ...", the host's compiler "k.cu:3:1: error: ...".
_ERROR_OF_SOURCE = re.compile(r"^\S.*?(?:\(\d+\)|:\d+:\d+): (?:fatal )?error", re.MULTILINE)


@dataclass(frozen=True)
class CompilerChoice:
    """The compiler of a source, and what it made of it.

    Attributes:
        by_nvcc: True for nvcc, False for NVRTC.
        output: The compiler's result, which may be a failure.
        reason: Why NVRTC cannot compile the source; "" if it is the compiler.
    """

    by_nvcc: bool
    output: PtxOutput
    reason: str = ""


def choose_compiler(
    by_nvrtc: Callable[[], PtxOutput], by_nvcc: Callable[[], PtxOutput], *, host_code: bool = False
) -> CompilerChoice:
    """Return the compiler of a source: NVRTC, or nvcc if NVRTC lacks a header that nvcc finds.

    A source with host code, of which NVRTC compiles only the device part, may fail there for other reasons, and nvcc is
    asked too. Without nvcc, or where nvcc lacks a header as well, NVRTC's failure stands, since it names the options by
    which headers are found. Errors in a source that nvcc has read are nvcc's, as it compiles the whole.

    Args:
        by_nvrtc: Compiles the source with NVRTC.
        by_nvcc: Compiles it with nvcc; only called where nvcc is installed.
        host_code: True if the source contains host code.

    Returns:
        The compiler with its result.
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
    """Decide without a compiler if NVRTC may lack a header that a source includes.

    Args:
        source: Text of the source.
        headers: Texts that it is compiled with, stand-ins included.

    Returns:
        False if ``headers`` or CUDA's folders have all, and none of CUDA's own is for the host.
    """
    given = dict(headers.files)
    names = {name for text in (source, *given.values()) for name in included(text)} - given.keys()
    folders = cuda_include_folders() if names else ()
    return any(n.startswith(_OF_HOST) or not any(Path(f, n).is_file() for f in folders) for n in names)


@lru_cache(maxsize=64)  # kernel files are read more than once
def compiler_of_headers(source: str, headers: Headers, limits: CompileLimits) -> CompilerChoice:
    """Choose the compiler of a source whose macros are not defined yet: the one that finds its headers.

    Args:
        source: Text of the source.
        headers: Texts by the names in the includes, stand-ins included.
        limits: Limits of a compilation.

    Returns:
        The compiler. Without NVRTC it is NVRTC, as kernels are then refused by name.
    """

    def compiled(headers: Headers, *options: str) -> PtxOutput:
        try:
            return compile_to_ptx(source, "", _ARCH, headers, (*options, *PTX_OPTIONS), limits=limits)
        except (CompilerStopped, NvrtcMissing) as stopped:
            return PtxOutput(None, "", f"error: {stopped}", 0.0)

    return choose_compiler(lambda: compiled(headers), lambda: compiled(headers_for_nvcc(headers), NVCC))


def headers_for_nvcc(headers: Headers) -> Headers:
    """Return the headers without the stand-ins, whose originals nvcc has."""
    return Headers(tuple((name, text) for name, text in headers.files if STAND_INS.get(name) != text))


def report_nvcc(name: str, choice: CompilerChoice) -> None:
    """Log that nvcc compiles a source, if it does: one line, once a process, which commands print to stderr.

    Args:
        name: The source, or the kernel.
        choice: Its compiler.
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
