"""Compile the runner, which executes bytecode, once per version of its sources and per compiler."""

from __future__ import annotations

import errno
import hashlib
import os
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from itertools import count
from pathlib import Path

from measurements.emulator.host.compiler import (
    FROM_STDIN,
    HostCompiler,
    HostFailure,
    check_host,
    check_nvrtc,
    compile_to,
    compiler_pool,
    emulator_folder,
    host_compiler,
    main_complaint,
)
from measurements.emulator.host.parts import RuntimePart, parts_of
from measurements.emulator.host.prebuilt import prebuilt_runner
from measurements.emulator.host.seal import intact, seal
from measurements.emulator.host.status import CompileStatus
from measurements.files.cache_folder import CacheUnusable, cannot_write, check_writable, put
from measurements.files.file_lock import lock
from measurements.files.text import harmless
from measurements.files.work_folders import build_folder
from measurements.interruptible import result_of
from search_spaces.launches.headers import SUFFIXES

HERE = Path(__file__).resolve().parents[1]
RUNTIME = HERE / "runtime"

COMPILE_SECONDS = 300.0
CACHE_BYTES = 512 * 2**20
# Files younger than this are never pruned, because another process may be about to load them.
CACHE_KEEP_SECONDS = 3600.0

CACHE_NOTE_SECONDS = 600.0  # minimum time between two updates of a file's modification time, which records its last use
# Seconds during which starting a new program is retried: a process that another thread has forked may still hold the
# file open for writing.
BUSY_SECONDS = 5.0
# headers are precompiled only if there are more parts than this: for fewer parts, precompiling saves no time
FEW_PARTS = 1
PRUNE_EVERY = 64  # number of bytecode files that a process adds between two scans of the cache

_RUNNER = "runner-"
_added = count()
_IN_THIS_PROCESS = threading.Lock()
# Functions are aligned: otherwise, the speed of a loop depends on the code before it (10% in the case of wgmma).
# Exceptions are disabled: no exception is caught, and the runner compiles 10% faster without them.
RUNTIME_FLAGS = (
    "-std=c++20",
    "-O2",
    "-ffp-contract=off",
    "-fno-trapping-math",
    "-falign-functions=64",
    "-fno-exceptions",
)
STATIC = "-static"  # linking is static if static libraries exist


def cache_folder() -> Path:
    """Return the folder of cached objects, created if missing. Raises HostFailure if it cannot be written."""
    try:
        folder = emulator_folder()
        folder.mkdir(parents=True, exist_ok=True)
    except CacheUnusable as error:
        raise HostFailure(str(error)) from error
    except OSError as error:
        raise HostFailure(str(cannot_write(folder, error))) from error
    return folder


def emulator_version() -> str:
    """Return the SHA-256 (hex) of the sources of the runner and of the PTX translator."""
    h = hashlib.sha256(sources_digest().encode())
    for file in sorted((HERE / "ptx").rglob("*.py")):  # sources of the PTX translator
        h.update(file.read_bytes())
    return h.hexdigest()


@contextmanager
def one_at_a_time(path: Path) -> Iterator[None]:
    """Lock ``path`` against other processes and threads, so that a slow compilation happens only once."""
    with path.open("a") as file:  # the lock belongs to the open file, so it also excludes other threads of this process
        lock(file)
        yield


def check_ready(*, source: bool = True) -> None:
    """Check that this machine can emulate launches, as ``check_host`` does, and build the runner if it is missing.

    Callers with their own progress display call this first. Raises HostFailure.
    """
    try:
        is_ready = brings_runner() or intact(emulator_folder() / _name_of(host_compiler(), RUNTIME_FLAGS))
        check_writable(emulator_folder())
    except (CacheUnusable, OSError):
        is_ready = False
    if is_ready:
        if source:
            check_nvrtc()
        return
    check_host(source=source)
    runner()


def _name_of(compiler: HostCompiler, flags: tuple[str, ...]) -> str:
    return f"{_RUNNER}{_digest(compiler, flags, STATIC, sources_digest())}"


def sources_digest() -> str:
    """Return the digest of the runner's sources, which is computed once per process."""
    return _digest_of(RUNTIME)


@cache
def _digest_of(folder: Path) -> str:
    h = hashlib.sha256()

    def fail(error: OSError) -> None:
        raise error

    # Uses os.walk, because listing the files with pathlib takes longer than reading and hashing them. Every command
    # waits for this digest.
    folders = os.walk(folder, onerror=fail)
    files = (os.path.join(directory, name) for directory, _, names in folders for name in names)
    for file in sorted(file for file in files if file.endswith(SUFFIXES)):
        with open(file, "rb") as source:
            content = source.read()
        h.update(f"{os.path.relpath(file, folder)}:{len(content)}:".encode())
        h.update(content)
    return h.hexdigest()


def brings_runner() -> bool:
    """Return True if this installation includes a compiled runner that matches its sources and this platform."""
    return prebuilt_runner(sources_digest()) is not None


def _brought() -> Path | None:
    """Copy the installation's compiled runner to the cache, and return the path; None if no runner works here."""
    file = prebuilt_runner(sources_digest())
    if file is None:
        return None
    path = cache_folder() / file.name
    if not intact(path) and not _copied(file, path):
        return None
    used(path)
    return path


def _copied(file: Path, path: Path) -> bool:
    """Copy a runner into the cache, and return True if it runs on this machine."""
    with one_at_a_time(path.parent / "runner.lock"), build_folder(path.parent) as folder:
        if intact(path):  # another process may have copied the runner meanwhile
            return True
        copied = folder / "runner"
        copied.write_bytes(file.read_bytes())
        copied.chmod(0o755)
        if _complaint(copied):
            return False
        put(copied, path)
        return True


def runner(extra_flags: tuple[str, ...] = ()) -> Path:
    """Return the path of the runner: the installed one, or one that is built at first use. Raises HostFailure."""
    brought = None if extra_flags else _brought()
    if brought is not None:
        return brought
    compiler = host_compiler()
    flags = (*RUNTIME_FLAGS, *extra_flags)
    path = cache_folder() / _name_of(compiler, flags)
    if not intact(path):
        with _IN_THIS_PROCESS:  # only one thread reports progress
            if not intact(path):
                _build(path, compiler, flags)
    used(path)
    return path


def _build(path: Path, compiler: HostCompiler, flags: tuple[str, ...]) -> None:
    """Compile and link the runner, or wait for another process that compiles it. Raises HostFailure.

    Each object is stored as soon as it is compiled, so an interrupted build continues where it stopped.
    """
    objects = {part: _object_path(compiler, part, flags) for part in parts_of(RUNTIME)}
    with (
        CompileStatus("the emulator", len(objects), lambda: sum(file.exists() for file in objects.values())),
        one_at_a_time(path.parent / "runner.lock"),
    ):
        if intact(path):
            return
        with build_folder(path.parent) as folder:
            _compile_parts(
                compiler,
                flags,
                folder,
                {part: file for part, file in objects.items() if not intact(file)},
            )
            built = folder / "runner"
            try:
                _link_runtime(compiler, built, flags, tuple(map(str, objects.values())))
                seal(built)
                _check_runs(built, compiler)
            except HostFailure:
                # An object may be damaged, so all objects are compiled again next time.
                for object_path in objects.values():
                    object_path.unlink(missing_ok=True)
                raise
            put(built, path)


def _object_path(compiler: HostCompiler, part: RuntimePart, flags: tuple[str, ...]) -> Path:
    """Return the path of a part's cached object. Its name is a digest of the sources that the part includes."""
    return cache_folder() / f"{part.name}-{_digest(compiler, flags, *part.contents(RUNTIME))}.o"


def _compile_parts(
    compiler: HostCompiler, flags: tuple[str, ...], folder: Path, missing: Mapping[RuntimePart, Path]
) -> None:
    """Compile parts in ``folder``, and store each object at its path in the cache. Raises HostFailure."""
    ready = _standard_headers(compiler, flags, folder) if len(missing) > FEW_PARTS else ()
    with compiler_pool(folder) as pool:
        compilations = [
            pool.submit(_compile_part, compiler, part, flags, folder, ready, target) for part, target in missing.items()
        ]
        for compilation in compilations:
            result_of(compilation)


def _standard_headers(compiler: HostCompiler, flags: tuple[str, ...], folder: Path) -> tuple[str, ...]:
    """Precompile the standard headers, and return the g++ options that use them.

    Returns () if precompiling fails. Each part of the emulator then compiles the headers that it includes.
    """
    if "clang" in compiler.identity:
        return ()
    header = folder / "standard.hpp"
    header.write_text((RUNTIME / "standard.hpp").read_text())
    try:
        log = compile_to(
            header.with_suffix(".hpp.gch"), compiler, [*flags, "-x", "c++-header", str(header)], COMPILE_SECONDS
        )
    except subprocess.TimeoutExpired:
        return ()
    return () if log is not None else ("-include", str(header))


def _compile_part(
    compiler: HostCompiler,
    part: RuntimePart,
    flags: tuple[str, ...],
    folder: Path,
    ready: tuple[str, ...],
    target: Path,
) -> None:
    """Compile a part in ``folder``, and cache its object. ``ready``: options for precompiled headers."""
    compiled = folder / f"{part.name}.o"
    _compile_runtime(compiler, compiled, [*flags, *ready, "-I", str(RUNTIME), "-c", *FROM_STDIN], part.text)
    if _object_path(compiler, part, flags) != target:
        raise HostFailure("the emulator's sources changed during compilation: try again")
    seal(compiled)  # linkers ignore trailing bytes
    put(compiled, target)


def _link_runtime(compiler: HostCompiler, built: Path, flags: tuple[str, ...], parts: tuple[str, ...]) -> None:
    """Link the runner. Link statically if possible, because loading shared libraries takes a millisecond per launch."""
    with suppress(subprocess.TimeoutExpired):
        if flags == RUNTIME_FLAGS and compile_to(built, compiler, [*flags, STATIC, *parts], COMPILE_SECONDS) is None:
            return
    _compile_runtime(compiler, built, [*flags, *parts])


def _compile_runtime(compiler: HostCompiler, built: Path, arguments: list[str], text: str = "") -> None:
    try:
        log: str | None = compile_to(built, compiler, arguments, COMPILE_SECONDS, text)
    except subprocess.TimeoutExpired:
        log = f"not done within {COMPILE_SECONDS:.0f} s"
    if log is not None:
        raise HostFailure(
            f"{compiler.path} cannot compile the emulator ({main_complaint(log)}), which needs C++20 "
            f"(g++ 11, clang++ 16 or newer) and free disk space in {built.parent.parent}"
        )


def _check_runs(program: Path, compiler: HostCompiler) -> None:
    """Check that a program runs before it is cached: the compiler may be broken, or the folder may be mounted noexec.

    Raises:
        HostFailure: If the program does not run.
    """
    complaint = _complaint(program)
    if complaint:
        raise HostFailure(
            f"programs compiled by {compiler.path} do not run ({main_complaint(complaint)}): repair the compiler, or "
            "set AUTOSCHED_CACHE_DIR to a folder that is not mounted noexec"
        )


def _complaint(program: Path) -> str:
    """Return why a runner does not run on this machine; "" if it runs."""
    until = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            done = subprocess.run([program], capture_output=True, text=True, errors="replace", timeout=60, check=False)
        except subprocess.TimeoutExpired as error:
            return str(error)
        except OSError as error:
            if error.errno != errno.ETXTBSY or time.monotonic() > until:
                return str(error)
            time.sleep(0.01)
        else:
            stderr = harmless(done.stderr)
            return "" if "usage: runner" in stderr else stderr or f"exit status {done.returncode}"


def _digest(compiler: HostCompiler, flags: tuple[str, ...], *parts: str) -> str:
    h = hashlib.sha256()
    for part in (compiler.identity, "\0".join((*flags, *compiler.flags)), *parts):
        h.update(f"{len(part)}:".encode())
        h.update(part.encode())
    return h.hexdigest()


def used(path: Path) -> None:
    """Update the modification time of a cached file, so that recently used files are pruned last."""
    if time.time() - path.stat().st_mtime > CACHE_NOTE_SECONDS:
        os.utime(path)


def prune_sometimes(folder: Path) -> None:
    """Call ``prune`` for the first bytecode file that this process adds, and then for every PRUNE_EVERY-th one.

    Pruning is slow, because it examines thousands of files.
    """
    if next(_added) % PRUNE_EVERY == 0:
        prune(folder)


def prune(folder: Path) -> None:
    """Delete the least recently used bytecode, objects and runners while their total size exceeds CACHE_BYTES."""
    entries = []
    with os.scandir(folder) as files:
        for file in files:
            if file.name.endswith((".program", ".o")) or file.name.startswith(_RUNNER):
                with suppress(FileNotFoundError):  # another process may have deleted the file
                    status = file.stat()
                    entries.append((status.st_mtime, status.st_size, file.path))
    total = sum(size for _, size, _ in entries)
    if total <= CACHE_BYTES:
        return
    for last_use, size, path in sorted(entries):
        if total <= CACHE_BYTES or time.time() - last_use < CACHE_KEEP_SECONDS:
            return
        with suppress(FileNotFoundError):
            os.unlink(path)
        total -= size
