"""Find and check the C++ compiler and other requirements of the emulator."""

from __future__ import annotations

import os
import platform
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from measurements.compiler.nvrtc import NvrtcMissing
from measurements.files.cache_folder import CacheUnusable, cache_root, check_writable
from measurements.files.text import harmless
from measurements.files.work_folders import note_compiler, temporary_folder

FROM_STDIN = ("-x", "c++", "-")

_running: dict[int, Path | None] = {}  # process groups of running compilers, and their working folders
_ended: set[Path] = set()  # folders whose compilers have been terminated
_ANSWER_SECONDS = 60.0  # time limit for a compiler to print its version, or to compile an almost empty file
_PROBE = "#include <bit>\nint main() { return std::popcount(0u); }\n"
_REPAIR = "repair it, or put another C++20 compiler (g++ 11, clang++ 16 or newer) before it on the PATH"


class HostFailure(RuntimeError):
    """The emulator cannot work on this machine. The message is one line with the remedy."""


class HostCompilerMissing(HostFailure):
    """Neither g++ nor clang++ is on the PATH."""


class HostCompiler(NamedTuple):
    """A C++ compiler of this machine. ``identity`` is its version and target; ``flags`` suit this machine's CPU."""

    path: str
    identity: str
    flags: tuple[str, ...]


def host_compiler() -> HostCompiler:
    """Return g++ or, if it is not on the PATH, clang++.

    Raises:
        HostCompilerMissing: If neither is on the PATH.
        HostFailure: If the compiler is broken, or the system is not Linux.
    """
    if sys.platform != "linux":
        raise HostFailure(f"the emulator does not run on {sys.platform}: use a Linux machine, a container or WSL 2")
    for name in ("g++", "clang++"):
        path = shutil.which(name)
        if path is not None:
            return _describe(path)
    raise HostCompilerMissing(
        "the emulator needs a C++ compiler, but neither g++ nor clang++ is on the PATH: install one of them"
    )


def check_host(*, source: bool = True) -> HostCompiler:
    """Check that this machine can emulate launches, and return the compiler of the runner. Leaves no files behind.

    Args:
        source: True to emulate CUDA source, which needs NVRTC; False for PTX only.

    Raises:
        HostFailure: If something is missing or broken.
    """
    if source:
        check_nvrtc()
    compiler = check_compiler()
    try:
        check_writable(emulator_folder())
    except CacheUnusable as error:
        raise HostFailure(str(error)) from error
    return compiler


def check_compiler() -> HostCompiler:
    """Return the compiler after a test compilation. Raises HostFailure. Leaves no files behind."""
    compiler = host_compiler()
    try:
        with temporary_folder() as folder:
            probe(compiler, folder)
    except OSError as error:
        raise HostFailure(machine_sentence(error)) from error
    return compiler


def check_nvrtc() -> str:
    """Return the version of NVRTC. Raises HostFailure if it is missing."""
    # Imported here, because it needs numpy, which the build environment of setup.py lacks.
    from measurements.compiler.ptx import ptx_toolchain

    try:
        return ptx_toolchain()
    except NvrtcMissing as error:
        raise HostFailure(f"the emulator needs NVRTC to compile kernels to PTX: {error}") from error


def probe(compiler: HostCompiler, folder: Path) -> None:
    """Compile an empty program in ``folder``. Raises HostFailure."""
    built = folder / "probe"
    try:
        log = compile_to(built, compiler, ("-std=c++20", *FROM_STDIN), _ANSWER_SECONDS, _PROBE)
    except subprocess.TimeoutExpired:
        log = f"the compiler did not end within {_ANSWER_SECONDS:.0f} s"
    if log is not None:
        raise HostFailure(f"{compiler.path} cannot compile an empty program ({main_complaint(log)}): {_REPAIR}")


def compile_to(
    built: Path, compiler: HostCompiler, arguments: Sequence[str], seconds: float, text: str = ""
) -> str | None:
    """Compile C++ with the compiler of this machine.

    Args:
        built: The file to write.
        compiler: Path and flags.
        arguments: Inputs and options.
        seconds: Time limit. The compiler is killed when it is exceeded.
        text: Source text that replaces FROM_STDIN in ``arguments``.

    Returns:
        None after a successful compilation, otherwise the compiler's output.

    Raises:
        HostFailure: If the compiler cannot be started.
        subprocess.TimeoutExpired: If the compilation took longer than ``seconds``.
    """
    done = run_compiler([compiler.path, *compiler.flags, *arguments, "-o", str(built)], seconds, text, built.parent)
    if done.returncode != 0:
        return done.stderr
    if not built.is_file() or built.stat().st_size == 0:
        return f"{done.stderr}\nit reported success but wrote no output"
    return None


def run_compiler(
    command: Sequence[str], seconds: float, text: str = "", scratch: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a compiler with English messages, which ``first_error`` parses.

    The compiler runs in a process group of its own, so that its child processes can be killed with it.

    Args:
        command: The compiler and its arguments.
        seconds: Time limit. The compiler is killed when it is exceeded.
        text: Standard input.
        scratch: Folder for temporary files. ``_end_compilers`` terminates the compilers of a folder.

    Raises:
        HostFailure: If the compiler cannot be started.
        subprocess.TimeoutExpired: If the compiler took longer than ``seconds``.
    """
    environment = {} if scratch is None else {"TMPDIR": str(scratch)}
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env={**os.environ, "LC_ALL": "C", **environment},
            process_group=0,
        )
    except OSError as error:
        raise HostFailure(f"{command[0]} cannot be run ({error.strerror or error}): {_REPAIR}") from error
    with process:
        try:
            _running[process.pid] = scratch
            if scratch is not None:
                note_compiler(scratch, process.pid)
            if scratch in _ended:  # _end_compilers was called for this folder while the compiler was starting
                _kill_group(process.pid)
            stdout, complained = process.communicate(text, seconds)
        except BaseException:
            _kill_group(process.pid)
            raise
        finally:
            _running.pop(process.pid, None)
    return subprocess.CompletedProcess(command, process.returncode, harmless(stdout), harmless(complained))


def first_error(log: str) -> str | None:
    """Return the first error with a line number in a compiler's log, and that line's text; None if there is none."""
    lines = log.splitlines()
    for i, line in enumerate(lines):
        match = re.match(r"(.*?:\d+(?::\d+)?): (?:(?:fatal )?error|Error): (?!error writing to )(.*)", line)
        if match is None:
            continue
        # g++ displays the source line with its number (" 12 | text"). clang++ may omit the number.
        shown = lines[i + 1] if i + 1 < len(lines) else ""
        code = re.sub(r"^\s*\d*\s*\|", "", shown).strip()
        return f"{match[1]}: {match[2]}" + (f": {code}" if code else "")
    return None


def main_complaint(log: str) -> str:
    """Return the line of a compiler's log that best explains the failure."""
    complaint = next((line.strip() for line in log.splitlines() if "error" in line.lower()), "")
    return first_error(log) or complaint or last_line(log) or "the compiler gave no message"


def last_line(text: str) -> str:
    """Return the last non-empty line of ``text``; "" if there is none."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")


def machine_sentence(error: OSError) -> str:
    """Return the message of a HostFailure that an OSError causes."""
    location = f" at {error.filename}" if error.filename else ""
    return (
        f"the emulator cannot work on this machine ({error.strerror or error}{location}): free disk space, or fix "
        "the error"
    )


def emulator_folder() -> Path:
    """Return the emulator's folder in the cache, which may not exist. Raises CacheUnusable without a home folder."""
    return cache_root() / "emulator"


@lru_cache
def _describe(path: str) -> HostCompiler:
    version, target = _answer(path, "--version"), _answer(path, "-dumpmachine")
    flags = ("-ferror-limit=5",) if "clang" in version else ("-fmax-errors=5",)
    return HostCompiler(path, f"{version.splitlines()[0]} {target}", (*flags, *cpu_flags()))


def _answer(path: str, question: str) -> str:
    try:
        done = run_compiler([path, question], _ANSWER_SECONDS)
    except subprocess.TimeoutExpired:
        raise HostFailure(f"{path} {question} did not end within {_ANSWER_SECONDS:.0f} s: {_REPAIR}") from None
    if done.returncode != 0 or not done.stdout.strip():
        message = last_line(done.stderr) or f"exit status {done.returncode}, nothing printed"
        raise HostFailure(f"{path} {question} failed ({message}): {_REPAIR}")
    return done.stdout.strip()


@contextmanager
def compiler_pool(folder: Path) -> Iterator[ThreadPoolExecutor]:
    """Create a thread pool for compilations in ``folder``.

    After Ctrl-C or a failed compilation, other compilers are terminated, and pending compilations are cancelled.
    """
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            _end_compilers(folder)
            raise


def _end_compilers(folder: Path) -> None:
    """Terminate compilers in ``folder`` that other threads of this process run, or are about to start."""
    _ended.add(folder)
    for group, scratch in list(_running.items()):
        if scratch == folder:
            _kill_group(group)


def _kill_group(group: int) -> None:
    with suppress(ProcessLookupError):  # killpg fails if all processes of the group have ended
        os.killpg(group, signal.SIGKILL)


def cpu_flags() -> tuple[str, ...]:
    """Return compiler options for this machine's CPU. With the FMA instruction, fmaf is much faster."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return ()
    try:
        features = set(Path("/proc/cpuinfo").read_text().split())
    except OSError:
        return ()
    return ("-mfma", "-mavx2") if {"fma", "avx2"} <= features else ()
