"""Compile sources that have host code, or headers that NVRTC does not support, with nvcc (NVIDIA's compiler driver)."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path, PurePosixPath

from measurements.compiler.cuda_headers import refused_include
from measurements.compiler.nvrtc import NVCC, PROGRAM_NAME, CompilerOutput, PtxOutput, toolchain_version
from measurements.compiler.ptxas import control_file_written
from measurements.files.demangle import demangled
from measurements.files.work_folders import note_compiler, temporary_folder
from search_spaces.launches.headers import Headers

SECONDS = 300.0  # time limit of one compilation in seconds
_NOT_FOR_NVCC = (NVCC, "-default-device", "-minimal", "-dopt=on")  # options that only NVRTC or autosched understands
_SPELLED = {"-std=c++17": "-std=c++17", "--ptxas-options=-v": "-Xptxas=-v"}


class NvccMissing(ValueError):
    """nvcc is not installed. The message is one line."""


def find_nvcc() -> str:
    """Return the path of nvcc. Raises NvccMissing."""
    path = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
    if path is None:
        raise NvccMissing('nvcc was not found: install the CUDA toolkit, or remove the setting compiler = "nvcc"')
    return path


@cache
def nvcc_version() -> str:
    """Return the version of nvcc, such as "nvcc 13.0.88". The keys of cached cubins include it. Raises NvccMissing."""
    done = subprocess.run([find_nvcc(), "--version"], capture_output=True, text=True, check=False, timeout=60)
    match = re.search(r"V(\d+\.\d+\.\d+)", done.stdout)
    return f"nvcc {match[1] if match else 'of unknown version'}"


def toolchain_of(options: Sequence[str]) -> str:
    """Return name and version of the compiler that these options select. Raises NvrtcMissing, NvccMissing."""
    return nvcc_version() if NVCC in options else toolchain_version()


def run_nvcc(command: Sequence[str], seconds: float, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run nvcc with an empty standard input. At the time limit, nvcc and the programs that it started are killed.

    Args:
        command: Program and arguments.
        seconds: Time limit.
        folder: Working folder; None for the current one.

    Returns:
        The completed process, with its output.

    Raises:
        OSError: nvcc cannot be started.
        subprocess.TimeoutExpired: nvcc took longer than ``seconds``.
    """
    with subprocess.Popen(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        process_group=0,
    ) as process:
        if folder is not None:
            note_compiler(folder, process.pid)
        try:
            stdout, stderr = process.communicate(timeout=seconds)
        except BaseException:
            with suppress(ProcessLookupError):  # killpg fails if all processes of the group have already ended
                os.killpg(process.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(command, process.returncode, stdout, stderr)


def compile_source(
    source: str, entry: str, arch: str, headers: Headers, options: Sequence[str], then: Sequence[str] = ()
) -> CompilerOutput:
    """Compile CUDA C++ to a cubin with nvcc, for sources that NVRTC does not support.

    Args:
        source: Source text; its host code is also compiled.
        entry: Name of a kernel, or a name expression such as "f<int>".
        arch: For example "sm_90a".
        headers: Header texts by include name.
        options: Options of nvcc, without the architecture.
        then: Names of further kernels, which the launch executes after ``entry``.

    Returns:
        As ``nvrtc.compile_source``.

    Raises:
        NvccMissing: nvcc is not installed.
    """
    with control_file_written(options) as known:
        content, names, log, seconds = _compiled(source, (entry, *then), arch, headers, known, "-cubin")
    if content is None:
        return CompilerOutput(None, entry, log, seconds)
    return CompilerOutput(content, names[0], log, seconds, tuple(names[1:]))


def compile_to_ptx(
    source: str, entry: str, arch: str, headers: Headers, options: Sequence[str], then: Sequence[str] = ()
) -> PtxOutput:
    """Compile CUDA C++ to PTX with nvcc, for source text that NVRTC does not support.

    Args:
        source: Source text; its host code is also compiled.
        entry: Name of a kernel, or a name expression such as "f<int>"; may be empty.
        arch: For example "compute_80".
        headers: Header texts by include name.
        options: Options of nvcc, without the architecture.
        then: Further entries that must exist.

    Returns:
        As ``nvrtc.compile_to_ptx``.

    Raises:
        NvccMissing: nvcc is not installed.
    """
    content, names, log, seconds = _compiled(source, (entry, *then), arch, headers, options, "-ptx")
    return PtxOutput(None if content is None else content.decode(errors="replace"), names[0], log, seconds)


def _compiled(
    source: str, entries: Sequence[str], arch: str, headers: Headers, options: Sequence[str], kind: str
) -> tuple[bytes | None, list[str], str, float]:
    """Return the compiled code (None on failure), its functions' names, nvcc's messages, and the time in seconds."""
    nvcc, started = find_nvcc(), time.perf_counter()
    if refused := refused_include(source, headers, options):
        return None, list(entries), refused, 0.0
    # Taking the address of a template function instantiates it.
    instances = [e for e in dict.fromkeys(entries) if "<" in e]
    references = ", ".join(f"reinterpret_cast<const void*>(&{e})" for e in instances)
    text = source + (
        f"\n__attribute__((used)) static const void* autosched_instances[] = {{{references}}};\n" if references else ""
    )
    with temporary_folder("nvcc") as folder:
        for header, given_text in headers.files:
            header_path = PurePosixPath(header)
            if header_path.is_absolute() or ".." in header_path.parts:
                return None, list(entries), f"error: the header {header} is outside of the include folder", 0.0
            (folder / header_path).parent.mkdir(parents=True, exist_ok=True)
            (folder / header_path).write_text(given_text)
        (folder / PROGRAM_NAME).write_text(text)
        # The output is a file, not /dev/stdout, because for some architectures nvcc makes ptxas read the output.
        command = [nvcc, kind, f"-arch={arch}", "-I.", *_options_for_nvcc(options), "-o", "out", PROGRAM_NAME]
        try:
            done = run_nvcc(command, SECONDS, folder)
        except subprocess.TimeoutExpired:
            return None, list(entries), f"error: not compiled within {SECONDS:g} s", time.perf_counter() - started
        except OSError as error:
            why = f"error: nvcc cannot be run ({error.strerror or error})"
            return None, list(entries), why, time.perf_counter() - started
        log, seconds = (done.stdout + done.stderr).strip(), time.perf_counter() - started
        content = (folder / "out").read_bytes() if (folder / "out").is_file() else b""
        if done.returncode != 0 or not content:
            return (
                None,
                list(entries),
                log or f"error: nvcc failed with status {done.returncode}, no output",
                seconds,
            )
    listed_functions = _functions(content, log, kind)
    names = [_lowered(entry, listed_functions) for entry in entries]
    missing = next((e for e, n in zip(entries, names, strict=True) if e and not n), None)
    if missing is not None:
        return None, list(entries), f"error: no function {missing} was compiled", seconds
    return content, names, log, seconds


def _options_for_nvcc(options: Sequence[str]) -> list[str]:
    """Return NVRTC's options as nvcc spells them, with absolute include folders and only the last ``-std=`` option."""
    standards = [o for o in options if "-std=" in o]
    spelled = [_SPELLED.get(o, o) for o in options if o not in _NOT_FOR_NVCC and o not in standards[:-1]]
    return [f"-I{Path(o[2:]).absolute()}" if o.startswith("-I") and o[2:] else o for o in spelled]


def _functions(content: bytes, log: str, kind: str) -> list[str]:
    if kind == "-ptx":
        return re.findall(r"\.entry\s+([\w$]+)", content.decode(errors="replace"))
    return re.findall(r"Compiling entry function '([^']+)'", log)


def _lowered(entry: str, entries: Sequence[str]) -> str:
    """Return the mangled name of the function that ``entry`` names; "" if no function or several match."""
    plain = re.sub(r"\s+", "", entry)
    if plain in entries:
        return plain
    named = [
        name for name in entries if re.search(rf"(^|[\s:]){re.escape(entry.partition('<')[0])}[<(]", demangled(name))
    ]
    exact = [name for name in named if re.sub(r"\s+", "", demangled(name)).rpartition("(")[0].endswith(plain)]
    candidates = exact or named
    return candidates[0] if len(candidates) == 1 else ""
