"""Compiling kernels for the host: find a compiler, compile, keep the object by the digest of all that went into it.

An object is published by renaming a finished file, so that processes which compile the same kernel at the same moment
do not disturb each other, and a killed one leaves nothing half-written behind.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from measurements.kernel import Kernel, headers_digest

HERE = Path(__file__).resolve().parent
INCLUDE = HERE / "include"
RUNTIME = HERE / "runtime"

COMPILE_SECONDS = 300.0
CACHE_BYTES = 512 * 2**20
CACHE_KEEP_SECONDS = 3600.0  # files younger than this are never pruned: somebody may be about to load them

# No contraction: a fused multiply-add rounds once only where the source says fmaf, on every host alike.
KERNEL_FLAGS = (
    "-std=c++20",
    "-O1",
    "-fPIC",
    "-shared",
    "-fno-exceptions",
    "-fno-rtti",
    "-fno-strict-aliasing",
    "-ffp-contract=off",
    "-fno-finite-loops",
    "-fvisibility=default",
    "-w",
)
RUNTIME_FLAGS = ("-std=c++20", "-O2", "-ffp-contract=off", "-rdynamic")


class HostCompilerMissing(RuntimeError):
    """Neither g++ nor clang++ is on the path."""


class KernelCompileError(Exception):
    """The host compiler refused a kernel. ``reason`` is one line with the failing line, ``log`` all it printed."""

    def __init__(self, reason: str, log: str, seconds: float) -> None:
        super().__init__(reason)
        self.reason = reason
        self.log = log
        self.seconds = seconds


@dataclass(frozen=True)
class HostCompiler:
    """A C++ compiler of this machine. ``identity`` is its version and target; ``flags`` suit this machine's CPU."""

    path: str
    identity: str
    flags: tuple[str, ...]


@dataclass(frozen=True)
class CompiledKernel:
    path: Path
    seconds: float
    from_cache: bool


def host_compiler() -> HostCompiler:
    """The first of g++ and clang++ on the path. Raises HostCompilerMissing."""
    for name in ("g++", "clang++"):
        path = shutil.which(name)
        if path is not None:
            return _describe_compiler(path)
    raise HostCompilerMissing(
        "the emulator needs a C++ compiler, and neither g++ nor clang++ is on the PATH: install one of them"
    )


@lru_cache
def _describe_compiler(path: str) -> HostCompiler:
    version = subprocess.run([path, "--version"], capture_output=True, text=True, check=True, timeout=60).stdout
    target = subprocess.run([path, "-dumpmachine"], capture_output=True, text=True, check=True, timeout=60).stdout
    clang = "clang" in version
    flags = ("-ferror-limit=5",) if clang else ("-fmax-errors=5",)
    return HostCompiler(path, f"{version.splitlines()[0]} {target.strip()}", (*flags, *_cpu_flags()))


def _cpu_flags() -> tuple[str, ...]:
    """Without the instruction, fmaf is a slow function; the flags are part of the digest of the objects."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return ()
    try:
        features = set(Path("/proc/cpuinfo").read_text().split())
    except OSError:
        return ()
    return ("-mfma", "-mavx2") if {"fma", "avx2"} <= features else ()


def cache_folder() -> Path:
    """AUTOSCHED_CACHE_DIR, or ``autosched`` below XDG_CACHE_HOME or ~/.cache; the emulator's part of it.

    Raises OSError, with the way out, where it cannot be made.
    """
    chosen = os.environ.get("AUTOSCHED_CACHE_DIR")
    root = Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "autosched"
    folder = root / "emulator"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(f"cannot make the cache folder {folder} ({error}): set AUTOSCHED_CACHE_DIR") from error
    return folder


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """One process and one thread at a time: the runtime is large enough to compile it only once."""
    with path.open("a") as file:  # each opening is a lock owner of its own, in threads too
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def runner(extra_flags: tuple[str, ...] = ()) -> Path:
    """The program that loads and runs compiled kernels; built on first use."""
    compiler = host_compiler()
    sources = sorted(RUNTIME.glob("*.cpp"))
    flags = (*RUNTIME_FLAGS, *compiler.flags, *extra_flags)
    digest = _digest(compiler, flags, headers_digest(str(RUNTIME)), headers_digest(str(INCLUDE)))
    path = cache_folder() / f"runner-{digest}"
    if path.exists():
        return path
    with _lock(path.parent / "runner.lock"):
        if path.exists():
            return path
        with tempfile.TemporaryDirectory(dir=path.parent, prefix="build-") as folder:
            built = Path(folder) / "runner"
            command = [compiler.path, *flags, f"-I{INCLUDE}", *map(str, sources), "-o", str(built), "-ldl"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_SECONDS, check=False)
            if done.returncode != 0:
                raise RuntimeError(
                    f"{compiler.identity} cannot compile the emulator's runtime, which needs C++20 "
                    f"(g++ 11, clang++ 16 or newer):\n{done.stderr}"
                )
            os.replace(built, path)
    return path


def compile_kernel(kernel: Kernel) -> CompiledKernel:
    """The kernel as a shared library for the runner.

    Raises KernelCompileError where the compiler refuses it, HostCompilerMissing, ValueError for a name that is no
    identifier.
    """
    if not re.fullmatch(r"[A-Za-z_]\w*", kernel.name, re.ASCII):
        raise ValueError(f"the kernel's name must be a C identifier, not {kernel.name!r}")
    started = time.monotonic()
    compiler = host_compiler()
    flags = (*KERNEL_FLAGS, *compiler.flags)
    digest = _digest(
        compiler,
        flags,
        kernel.name,
        str(len(kernel.arguments)),
        kernel.source,
        headers_digest(str(INCLUDE)),
        *(headers_digest(folder) for folder in kernel.include_dirs),
    )
    path = cache_folder() / f"{digest}.so"
    if path.exists():
        os.utime(path)  # recently used
        return CompiledKernel(path, time.monotonic() - started, True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix="build-") as folder:
        built = Path(folder) / "kernel.so"
        _compile(compiler, flags, kernel, Path(folder), built)
        os.replace(built, path)
    _prune(path.parent)
    return CompiledKernel(path, time.monotonic() - started, False)


def _compile(compiler: HostCompiler, flags: tuple[str, ...], kernel: Kernel, folder: Path, built: Path) -> None:
    source = folder / f"{kernel.name}.cu"
    source.write_text(kernel.source)
    unit = (
        "#include <autosched_emulator/prelude.hpp>\n"
        f'#include "{source}"\n'
        f'#line 1 "launch of {kernel.name}"\n'
        f"AUTOSCHED_EMULATOR_ENTRY({kernel.name}, {len(kernel.arguments)})\n"
    )
    includes = (str(INCLUDE), *kernel.include_dirs)
    # Sites are named relative to the include folders: the object depends on contents, not on where they lie.
    names = [f"-fmacro-prefix-map={prefix.rstrip('/')}/=" for prefix in (*includes, str(folder))]
    command = [compiler.path, *flags, *names, *(f"-I{d}" for d in includes), "-x", "c++", "-", "-o", str(built)]
    started = time.monotonic()
    try:
        done = subprocess.run(
            command,
            input=unit,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=COMPILE_SECONDS,
            check=False,
            env={**os.environ, "LC_ALL": "C"},  # messages in English, which _first_error reads
        )
    except subprocess.TimeoutExpired:
        reason = f"the host compiler did not end within {COMPILE_SECONDS:.0f} s"
        raise KernelCompileError(reason, "", time.monotonic() - started) from None
    if done.returncode != 0:
        log = done.stderr
        for prefix in (*includes, str(folder)):
            log = log.replace(prefix.rstrip("/") + "/", "")
        raise KernelCompileError(_first_error(log), log, time.monotonic() - started)


def _first_error(log: str) -> str:
    """The first error message of g++ or clang++, with the source line that it points at."""
    lines = log.splitlines()
    for i, line in enumerate(lines):
        found = re.match(r"(.*?): (?:fatal )?error: (.*)", line)
        if found is None:
            continue
        # g++ numbers the line it shows ("   12 |   text"); clang++ may not.
        shown = lines[i + 1] if i + 1 < len(lines) else ""
        code = re.sub(r"^\s*\d*\s*\|", "", shown).strip()
        return f"{found[1]}: {found[2]}" + (f": {code}" if code else "")
    return lines[-1] if lines else "the host compiler failed without a message"


def _digest(compiler: HostCompiler, flags: tuple[str, ...], *parts: str) -> str:
    h = hashlib.sha256()
    for part in (compiler.identity, "\0".join(flags), *parts):
        h.update(f"{len(part)}:".encode())
        h.update(part.encode())
    return h.hexdigest()


def _prune(folder: Path) -> None:
    """Deletes the objects used longest ago while there are more than CACHE_BYTES."""
    entries = []
    for path in folder.glob("*.so"):
        try:
            status = path.stat()
        except FileNotFoundError:
            continue  # another process prunes too
        entries.append((status.st_mtime, status.st_size, path))
    total = sum(size for _, size, _ in entries)
    for used, size, path in sorted(entries):
        if total <= CACHE_BYTES or time.time() - used < CACHE_KEEP_SECONDS:
            return
        path.unlink(missing_ok=True)
        total -= size
