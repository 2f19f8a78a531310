"""Compile with NVRTC, the CUDA runtime compiler, through ``cuda.bindings.nvrtc``. No GPU or driver is needed."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from measurements.compiler.cuda_headers import package_folders, refused_include
from measurements.compiler.ptxas import control_file_written
from measurements.files.text import first_line
from search_spaces.installed import metadata_folder
from search_spaces.launches.headers import Headers, included

PROGRAM_NAME = "kernel.cu"  # fixed, because names in cubins and messages depend on it
# Without -default-device, NVRTC 13.0 treats a lambda with auto parameters in a device function as host code.
OPTIONS = ("-std=c++17", "--ptxas-options=-v", "-default-device")
WHEEL = "nvidia-cuda-nvrtc"  # name of the wheel for CUDA 13; names for older versions have a suffix such as -cu12
NVCC = "--compiler=nvcc"  # kernels with this option are compiled by nvcc instead (nvcc.py)
PTX_OPTIONS = ("-std=c++17", "-lineinfo", "-default-device")


class NvrtcMissing(RuntimeError):
    """NVRTC is not installed. The message is one line with the remedy."""

    def __init__(self, detail: str) -> None:
        super().__init__(
            f"NVRTC was not found ({detail}): pip install 'autosched[cuda13]', or cuda12 for older drivers"
        )


class CompilerOutput(NamedTuple):
    """Result of a compilation.

    ``cubin`` is None if the compilation failed. ``entry`` is the name of the first kernel in the cubin, and ``then``
    are the names of further kernels.

    ``log`` holds the messages of NVRTC and, with -v, of ptxas.
    """

    cubin: bytes | None
    entry: str
    log: str
    seconds: float
    then: tuple[str, ...] = ()


def compile_source(
    source: str,
    entry: str,
    arch: str,
    headers: Headers,
    options: Sequence[str] = OPTIONS,
    then: Sequence[str] = (),
) -> CompilerOutput:
    """Compile CUDA C++ to a cubin. There is no time limit.

    Args:
        source: Source text.
        entry: Name of a kernel, or a name expression (NVRTC, "Accessing Lowered Names").
        arch: For example "sm_90a".
        headers: Header texts by include name; CUDA's headers are found if installed.
        options: Options of NVRTC, without the architecture.
        then: Names of further kernels, which the launch executes after ``entry``.

    Returns:
        The cubin (None if compiling failed), lowered names, log and seconds.

    Raises:
        NvrtcMissing: NVRTC is not installed.
    """
    nvrtc = _nvrtc()
    with (
        control_file_written(options) as options,
        _compiled(source, (entry, *then), arch, headers, options) as (program, log, seconds, failed),
    ):
        if failed:
            return CompilerOutput(None, entry, failed, seconds)
        lowered, *further = (_call(nvrtc, "nvrtcGetLoweredName", program, e.encode()).decode() for e in (entry, *then))
        cubin = bytearray(_call(nvrtc, "nvrtcGetCUBINSize", program))
        _call(nvrtc, "nvrtcGetCUBIN", program, cubin)
        return CompilerOutput(bytes(cubin), lowered, log, seconds, tuple(further))


@contextmanager
def _compiled(
    source: str, entries: Sequence[str], arch: str, headers: Headers, options: Sequence[str]
) -> Iterator[tuple[Any, str, float, str]]:
    """Yield a compiled program, NVRTC's log, the compile time in seconds, and the error ("" on success)."""
    nvrtc = _nvrtc()
    if refused := refused_include(source, headers, options):
        yield None, "", 0.0, refused
        return
    arguments = [f"--gpu-architecture={arch}", *_own_headers(source, headers), *options]
    names, texts = [n.encode() for n, _ in headers.files], [t.encode() for _, t in headers.files]
    started = time.perf_counter()
    program = _call(nvrtc, "nvrtcCreateProgram", source.encode(), PROGRAM_NAME.encode(), len(names), texts, names)
    try:
        for entry in dict.fromkeys(filter(None, entries)):
            _call(nvrtc, "nvrtcAddNameExpression", program, entry.encode())
        (status,) = nvrtc.nvrtcCompileProgram(program, len(arguments), [a.encode() for a in arguments])
        seconds = time.perf_counter() - started
        log = _text(nvrtc, program)
        failed = "" if status == nvrtc.nvrtcResult.NVRTC_SUCCESS else log or f"nvrtc: error: {status.name}"
        yield program, log, seconds, failed
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _own_headers(source: str, headers: Headers) -> tuple[str, ...]:
    """Return the include options for CUDA's headers; none if ``headers`` contains every included file."""
    texts = dict(headers.files)
    names = {name for text in (source, *texts.values()) for name in included(text)}
    return () if names <= texts.keys() else tuple(f"-I{folder}" for folder in cuda_include_folders())


def cuda_include_folders() -> tuple[str, ...]:
    """Return the folders of CUDA's headers on this machine.

    ``cuda_fp16.h`` comes from a toolkit or the wheel nvidia-cuda-runtime. CUB and libcu++ come from the toolkit or the
    wheel nvidia-cuda-cccl. cupy's headers are also included.
    """
    toolkits = [os.environ.get(name) for name in ("CUDA_PATH", "CUDA_HOME")]
    folders = [Path(toolkit) / "include" for toolkit in (*toolkits, "/usr/local/cuda") if toolkit]
    wheels = [Path(root) / "nvidia" for root in sys.path if root]
    folders += [folder for root in wheels for folder in sorted(root.glob("*/include"))]
    toolkit = next((folder for folder in folders if (folder / "cuda_fp16.h").is_file()), None)
    libraries = [path for folder in folders for path in (folder / "cccl", folder)]
    cccl = next((path for path in libraries if (path / "cuda" / "std" / "limits").is_file()), None)
    return (*(str(path) for path in (toolkit, cccl) if path is not None), *package_folders())


class PtxOutput(NamedTuple):
    """Result of a compilation to PTX. ``text`` is None if it failed.

    In the line information of the PTX, headers have their include names, and the source is called PROGRAM_NAME.
    ``entry`` is the name of the entry function in the PTX.
    """

    text: str | None
    entry: str
    log: str
    seconds: float


def compile_to_ptx(
    source: str,
    entry: str,
    arch: str,
    headers: Headers,
    options: Sequence[str] = PTX_OPTIONS,
    then: Sequence[str] = (),
) -> PtxOutput:
    """Compile CUDA C++ to PTX with source lines.

    Args:
        source: Source text.
        entry: As in ``compile_source``; may be empty for a source whose kernels are ``extern "C"``.
        arch: For example "compute_80".
        headers: As in ``compile_source``.
        options: Options of NVRTC, without the architecture.
        then: Further entries that must exist.

    Returns:
        The PTX (None if compiling failed), the lowered name, log and seconds.

    Raises:
        NvrtcMissing: NVRTC is not installed.
    """
    nvrtc = _nvrtc()
    with _compiled(source, (entry, *then), arch, headers, options) as (program, log, seconds, failed):
        if failed:
            return PtxOutput(None, entry, failed, seconds)
        lowered = _call(nvrtc, "nvrtcGetLoweredName", program, entry.encode()).decode() if entry else ""
        ptx = bytearray(_call(nvrtc, "nvrtcGetPTXSize", program))
        _call(nvrtc, "nvrtcGetPTX", program, ptx)
        # NVRTC prefixes file names in .file directives with the working folder; the prefix is removed.
        folder = re.escape(os.getcwd().rstrip("/") + "/")
        text = re.sub(rf'(\.file\s+\d+\s+"){folder}', r"\1", ptx.rstrip(b"\0").decode(errors="replace"))
        return PtxOutput(text, lowered, log, seconds)


@cache
def toolchain_version() -> str:
    """Return the version of NVRTC, such as "nvrtc 13.0.88". The keys of cached cubins include it. Raises NvrtcMissing.

    The version is read from the wheel's metadata if possible. Loading NVRTC takes as long as a small verification, and
    most verifications find their compiled kernels in the cache and do not need NVRTC.
    """
    wheel = _wheel_version()
    return loaded_version() if wheel is None else f"nvrtc {wheel}"


@cache
def loaded_version() -> str:
    """Load NVRTC to check that it works, and return its version in the format of ``toolchain_version``.

    Raises NvrtcMissing.
    """
    from importlib import metadata  # imported here because it is slow, and compiler processes do not need it

    major, minor = _call(_nvrtc(), "nvrtcVersion")
    version = f"{major}.{minor}"
    for wheel in (WHEEL, f"{WHEEL}-cu{major}"):
        try:
            about = metadata.metadata(wheel)
        except metadata.PackageNotFoundError:
            continue
        # A partly removed wheel has no version. A different version means that the library belongs to a CUDA toolkit.
        if "Version" in about and about["Version"].startswith(f"{version}."):
            return f"nvrtc {about['Version']}"
    return f"nvrtc {version}"


def _wheel_version() -> str | None:
    """Return the version of the NVRTC wheel if the bindings will load that wheel's library.

    The bindings find libraries by cuda.pathfinder, which prefers wheels. Returns None without such a wheel, or if the
    bindings are too old to use cuda.pathfinder.
    """
    try:
        if importlib.util.find_spec("cuda.bindings") is None or importlib.util.find_spec("cuda.pathfinder") is None:
            return None
    except ImportError:
        return None
    bindings = metadata_folder("cuda-bindings")
    major = "" if bindings is None else bindings[1].partition(".")[0]
    if not major.isdigit():
        return None
    wheel = metadata_folder(WHEEL if int(major) >= 13 else f"{WHEEL}-cu{major}")
    if wheel is None or not wheel[1].startswith(f"{major}."):
        return None
    folder, version = wheel
    try:
        files = [line.partition(",")[0] for line in (folder / "RECORD").read_text().splitlines()]
    except (OSError, ValueError):
        return None
    exists = any(name.endswith(f"/libnvrtc.so.{major}") and (folder.parent / name).is_file() for name in files)
    return version if exists else None


@cache
def _nvrtc() -> ModuleType:
    try:
        from cuda.bindings import nvrtc
    except ImportError as error:
        raise NvrtcMissing(f"cuda-bindings: {first_line(error)}") from None
    try:
        nvrtc.nvrtcVersion()
    except Exception as error:  # the bindings load libnvrtc lazily, and raise different errors if it is missing
        raise NvrtcMissing("libnvrtc does not load: " + first_line(error)) from None
    module: ModuleType = nvrtc
    return module


def _call(nvrtc: ModuleType, name: str, *arguments: Any) -> Any:
    """Call a function of the bindings and return its results. Raises RuntimeError if its status is an error."""
    status, *results = getattr(nvrtc, name)(*arguments)
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise RuntimeError(f"{name} failed with {status.name}")
    return results[0] if len(results) == 1 else tuple(results)


def _text(nvrtc: ModuleType, program: Any) -> str:
    log = bytearray(_call(nvrtc, "nvrtcGetProgramLogSize", program))
    _call(nvrtc, "nvrtcGetProgramLog", program, log)
    # a NUL separates NVRTC's messages from ptxas's messages
    return log.replace(b"\0", b"").decode(errors="replace").strip()
