"""Compiling kernels for the host: find a compiler, compile, keep the object by the digest of all that went into it.

An object is published by renaming a finished file, so that processes which compile the same kernel at the same moment
do not disturb each other, and a killed one leaves nothing half-written behind.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from measurements.cache_folder import CacheUnusable, cannot_write, put
from measurements.emulator.build_folders import build_folder
from measurements.emulator.findings import Emulation
from measurements.emulator.host import (
    FROM_STDIN,
    INCLUDE,
    KERNEL_FLAGS,
    HostCompiler,
    HostFailure,
    compile_to,
    emulator_folder,
    first_error,
    host_compiler,
    main_complaint,
    probe,
)
from measurements.emulator.seal import intact, seal
from measurements.foreign_text import harmless
from search_spaces.templates.headers import Headers
from search_spaces.templates.kernel import Kernel, Scalar

HERE = Path(__file__).resolve().parent
RUNTIME = HERE / "runtime"

COMPILE_SECONDS = 300.0
CACHE_BYTES = 512 * 2**20
CACHE_KEEP_SECONDS = 3600.0  # files younger than this are never pruned: another process may be about to load them

_DYNAMIC_SHARED = re.compile(
    r"(?:\bextern\b(?P<more>[^;(){}\"]*?)\b__shared__|\b__shared__\s+extern)\b"
    r"(?P<type>(?:[^;=(){}]|\([^;=(){}]*\))*?)\b(?P<name>[A-Za-z_]\w*)\s*\[\s*\](?P<inner>[^;=(){}]*);"
)
RUNTIME_FLAGS = ("-std=c++20", "-O2", "-ffp-contract=off")
LINK_FLAGS = ("-rdynamic",)  # kernels compiled for the host call the runner's functions


class KernelCompileError(Exception):
    """The compiler rejected a kernel (status compile_error), did not finish (timeout), or the emulator lacks what the
    kernel needs (unsupported).

    ``reason`` is one line with the failing line, ``log`` all that the compiler printed.
    """

    def __init__(
        self, status: Literal["compile_error", "timeout", "unsupported"], reason: str, log: str, seconds: float
    ) -> None:
        super().__init__(reason)
        self.status: Literal["compile_error", "timeout", "unsupported"] = status
        self.reason = reason
        self.log = log
        self.seconds = seconds

    @property
    def emulation(self) -> Emulation:
        """What comes of a launch of it."""
        return Emulation(self.status, {}, (), (), (), reason=self.reason, log=self.log, compile_seconds=self.seconds)


@dataclass(frozen=True)
class CompiledKernel:
    path: Path
    seconds: float
    from_cache: bool


def cache_folder() -> Path:
    """Where objects are kept, made if missing. Raises HostFailure where it cannot be written."""
    try:
        folder = emulator_folder()
        folder.mkdir(parents=True, exist_ok=True)
    except CacheUnusable as error:
        raise HostFailure(str(error)) from error
    except OSError as error:
        raise HostFailure(str(cannot_write(folder, error))) from error
    return folder


def emulator_version() -> str:
    """SHA-256 (hex) of the emulator's own sources."""
    h = hashlib.sha256((Headers.from_folder(RUNTIME).digest + Headers.from_folder(INCLUDE).digest).encode())
    for file in sorted((HERE / "ptx").glob("*.py")):  # what translates PTX
        h.update(file.read_bytes())
    return h.hexdigest()


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """One process and one thread at a time: the runtime is large enough to compile it only once."""
    with path.open("a") as file:  # each opening is a lock owner of its own, in threads too
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def runner(extra_flags: tuple[str, ...] = ()) -> Path:
    """The program that loads and runs compiled kernels; built on first use. Raises HostFailure."""
    compiler = host_compiler()
    flags = (*RUNTIME_FLAGS, *extra_flags)
    digest = _digest(compiler, flags, Headers.from_folder(RUNTIME).digest, Headers.from_folder(INCLUDE).digest)
    path = cache_folder() / f"runner-{digest}"
    if intact(path):
        return path
    with _lock(path.parent / "runner.lock"):
        if intact(path):
            return path
        with build_folder(path.parent) as folder:
            built = folder / "runner"
            with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
                sources = sorted(RUNTIME.glob("*.cpp"))
                objects = list(pool.map(lambda source: _runtime_object(compiler, source, flags, folder), sources))
            parts = [str(made if made.exists() else kept) for kept, made in objects]
            try:
                _compile_runtime(compiler, built, [*flags, *LINK_FLAGS, *parts, "-ldl"])
                seal(built)
                _check_runs(built, compiler)
            except HostFailure:
                for kept, _ in objects:  # one of them may be damaged: all are compiled again next time
                    kept.unlink(missing_ok=True)
                raise
            put(built, path)
            for kept, made in objects:
                if made.exists():
                    put(made, kept)
    return path


def _runtime_object(compiler: HostCompiler, source: Path, flags: tuple[str, ...], folder: Path) -> tuple[Path, Path]:
    """Where one file of the runtime is kept compiled, as most of them stay when one of them changes, and where it has
    been compiled now if it was not there: it is kept only once the program that it is part of has run."""
    headers = "".join(header.read_text() for header in sorted(RUNTIME.glob("*.hpp")))
    digest = _digest(compiler, flags, source.read_text(), headers, Headers.from_folder(INCLUDE).digest)
    kept, made = cache_folder() / f"{source.stem}-{digest}.o", folder / f"{source.stem}.o"
    if not intact(kept):
        if source.stem.startswith("ptx_"):
            flags = (*flags, "-O1")  # many small functions: -O2 takes twice as long to compile and gains little
        _compile_runtime(compiler, made, [*flags, f"-I{INCLUDE}", "-c", str(source)])
        seal(made)  # a linker reads no further than the headers say
    return kept, made


def _compile_runtime(compiler: HostCompiler, built: Path, arguments: list[str]) -> None:
    try:
        log: str | None = compile_to(built, compiler, arguments, COMPILE_SECONDS)
    except subprocess.TimeoutExpired:
        log = f"not done within {COMPILE_SECONDS:.0f} s"
    if log is not None:
        raise HostFailure(
            f"{compiler.path} cannot compile the emulator ({main_complaint(log)}), which needs C++20 "
            f"(g++ 11, clang++ 16 or newer) and room in {built.parent.parent}"
        )


def _check_runs(program: Path, compiler: HostCompiler) -> None:
    """Raises HostFailure: a broken program, or one in a folder mounted noexec, must not stay in the cache."""
    try:
        done = subprocess.run([program], capture_output=True, text=True, errors="replace", timeout=60.0, check=False)
        said = harmless(done.stderr)
    except (OSError, subprocess.TimeoutExpired) as error:
        said = str(error)
    if "usage: runner" not in said:
        raise HostFailure(
            f"programs compiled by {compiler.path} do not run ({main_complaint(said)}): repair it, or set "
            "AUTOSCHED_CACHE_DIR to a folder whose programs may run"
        )


def compile_kernel(kernel: Kernel) -> CompiledKernel:
    """The kernel as a shared library for the runner.

    Raises KernelCompileError where the compiler refuses it, HostFailure where no kernel could be compiled.
    """
    started = time.monotonic()
    compiler = host_compiler()
    digest = _digest(
        compiler,
        (*KERNEL_FLAGS, *_macros(kernel)),
        kernel.entry,
        _argument_bytes(kernel),
        kernel.source,
        Headers.from_folder(INCLUDE).digest,
        kernel.headers.digest,
    )
    path = cache_folder() / f"{digest}.so"
    if intact(path):
        os.utime(path)  # recently used
        return CompiledKernel(path, time.monotonic() - started, True)
    with build_folder(path.parent) as folder:
        built = folder / "kernel.so"
        _compile(compiler, kernel, folder, built)
        seal(built)
        put(built, path)
    _prune(path.parent)
    return CompiledKernel(path, time.monotonic() - started, False)


def _for_host(source: str) -> str:
    """``source`` with each ``extern __shared__ T name[];`` as a pointer to the launch's dynamic shared memory.

    Nothing else of CUDA C++ needs to be rewritten; lines stay where they are.
    """
    pointer = r"\g<more> \g<type>(* const \g<name>)\g<inner> = ::autosched::emulator::DynamicShared{};"
    return _DYNAMIC_SHARED.sub(pointer, source)


def _compile(compiler: HostCompiler, kernel: Kernel, folder: Path, built: Path) -> None:
    own, headers = folder / "source", folder / "include"
    own.mkdir()
    source = own / f"{kernel.name}.cu"
    source.write_text(_for_host(kernel.source))
    kernel.headers.write(headers)
    argument_bytes = _argument_bytes(kernel)
    unit = (
        "#include <autosched_emulator/prelude.hpp>\n"
        f"#include <{source.name}>\n"  # not its whole path, which may hold quotes and line breaks
        f'#line 1 "launch of {kernel.name}"\n'
        f"constexpr auto& autosched_emulated_kernel = {kernel.entry};\n"  # a macro would split at commas
        f"AUTOSCHED_EMULATOR_ENTRY(autosched_emulated_kernel, {argument_bytes})\n"
    )
    includes = (str(own), str(INCLUDE), str(headers))
    # Sites are named relative to the include folders: the object depends on contents, not on where they lie.
    names = [f"-fmacro-prefix-map={prefix.rstrip('/')}/=" for prefix in includes]
    arguments = [*KERNEL_FLAGS, *_macros(kernel), *names, *(f"-I{d}" for d in includes), *FROM_STDIN]
    started = time.monotonic()
    try:
        log = compile_to(built, compiler, arguments, COMPILE_SECONDS, unit)
    except subprocess.TimeoutExpired:
        late = f"the host compiler did not finish within {COMPILE_SECONDS:.0f} s"
        raise KernelCompileError("timeout", late, "", time.monotonic() - started) from None
    if log is None:
        return
    probe(compiler, folder)  # if that fails too, the kernel is not to blame
    for prefix in includes:
        shown = harmless(os.fsencode(prefix).decode(errors="replace"))  # as the log has it
        log = log.replace(shown.rstrip("/") + "/", "")
    reason = first_error(log)
    if reason is None:  # killed, out of memory or disk, or its own bug
        said = main_complaint(log)
        raise HostFailure(
            f"{compiler.path} failed without an error in the kernel ({said}): make room, or use another one"
        )
    raise KernelCompileError("compile_error", reason, log, time.monotonic() - started)


def _argument_bytes(kernel: Kernel) -> str:
    """How AUTOSCHED_EMULATOR_ENTRY gets the arguments' sizes: 0, then the bytes of each value, 0 for a pointer."""
    return ", ".join(["0", *(str(a.dtype.bytes) if isinstance(a, Scalar) else "0" for a in kernel.arguments)])


def _macros(kernel: Kernel) -> tuple[str, ...]:
    """The kernel's own options that a host compiler understands, which are those that define macros."""
    options = kernel.compile_options
    written = (re.sub(r"^--(define|undefine)-macro=", lambda m: f"-{m[1][0].upper()}", o) for o in options)
    return tuple(option for option in written if option.startswith(("-D", "-U")))


def _digest(compiler: HostCompiler, flags: tuple[str, ...], *parts: str) -> str:
    h = hashlib.sha256()
    for part in (compiler.identity, "\0".join((*flags, *compiler.flags)), *parts):
        h.update(f"{len(part)}:".encode())
        h.update(part.encode())
    return h.hexdigest()


def _prune(folder: Path) -> None:
    """Deletes the objects used longest ago while there are more than CACHE_BYTES."""
    entries = []
    for path in (*folder.glob("*.so"), *folder.glob("*.program"), *folder.glob("*.o")):
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
