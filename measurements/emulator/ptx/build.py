"""From a kernel to the file that the runner executes: NVRTC's PTX, translated, kept by the digest of what went in."""

from __future__ import annotations

import hashlib
import os
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from measurements.cache_folder import publish
from measurements.emulator.build import CompiledKernel, KernelCompileError, cache_folder
from measurements.emulator.ptx.parser import PtxError, parse
from measurements.emulator.ptx.program import NotExecutable, Program, shown_frame, translate
from measurements.emulator.seal import intact, sealed
from measurements.emulator.twins import ORDINARY_ARCH
from measurements.nvrtc import PTX_OPTIONS, compile_to_ptx, toolchain_version
from search_spaces.templates.kernel import Kernel

SUFFIX = ".program"
_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Place:
    """What the report says of an instruction of the program."""

    ptx: str
    callers: tuple[str, ...]


def compile_to_program(kernel: Kernel, arch: str = ORDINARY_ARCH) -> CompiledKernel:
    """``kernel`` as a program for the runner.

    Raises KernelCompileError where NVRTC refuses it, or where it needs what the machine lacks (status unsupported);
    NvrtcMissing without NVRTC; HostFailure where the cache cannot be written.
    """
    started = time.monotonic()
    options = (*PTX_OPTIONS, *kernel.compile_options)
    path = _place(toolchain_version(), arch, *options, kernel.entry, kernel.source, kernel.headers.digest)
    if intact(path):
        os.utime(path)
        return CompiledKernel(path, time.monotonic() - started, True)
    output = compile_to_ptx(kernel.source, kernel.entry, arch, kernel.headers, options)
    if output.text is None:
        from measurements.compile import error_reason

        raise KernelCompileError("compile_error", error_reason(output.log), output.log, time.monotonic() - started)
    return _publish(path, output.text, output.entry, started)


def ptx_to_program(text: str, entry: str = "") -> CompiledKernel:
    """PTX text as a program for the runner. Raises KernelCompileError (compile_error, unsupported), HostFailure."""
    started = time.monotonic()
    path = _place("text", entry, text)
    if intact(path):
        os.utime(path)
        return CompiledKernel(path, time.monotonic() - started, True)
    return _publish(path, text, entry, started)


def _publish(path: Path, text: str, entry: str, started: float) -> CompiledKernel:
    try:
        program = translate(parse(text), entry)
    except PtxError as error:
        raise KernelCompileError("compile_error", str(error), "", time.monotonic() - started) from error
    except NotExecutable as error:
        raise KernelCompileError("unsupported", str(error), "", time.monotonic() - started) from error
    publish(path, sealed((program.text + _places_text(program)).encode()))
    return CompiledKernel(path, time.monotonic() - started, False)


def _place(*parts: str) -> Path:
    h = hashlib.sha256(_translator().encode())
    for part in parts:
        h.update(f"{len(part)}:".encode())
        h.update(part.encode())
    return cache_folder() / f"{h.hexdigest()}{SUFFIX}"


@cache
def _translator() -> str:
    """The digest of this translator: what another version has kept is not read."""
    h = hashlib.sha256()
    for file in sorted(_HERE.glob("*.py")):
        h.update(file.read_bytes())
    return h.hexdigest()


def _places_text(program: Program) -> str:
    """Lines that the runner skips: the PTX of each site, and the lines into which it is inlined."""
    lines = []
    for k, i in enumerate(program.sites):
        shown = shown_frame(i)
        later = i.frames[i.frames.index(shown) + 1 :] if shown in i.frames else ()
        lines.append(f"place {k}\t{i.line}: {i.text}\t{' '.join(map(str, later))}\n")
    return "".join((f"entry {program.entry}\n", *lines))


def read_places(path: Path) -> tuple[str, dict[int, Place]]:
    """The kernel's name, and what ``_publish`` wrote of each site."""
    places: dict[int, Place] = {}
    entry = ""
    for line in path.read_text(errors="replace").splitlines():  # the seal is no text
        if line.startswith("entry "):
            entry = line[6:]
        elif line.startswith("place "):
            number, text, callers = line[6:].split("\t")
            places[int(number)] = Place(f"PTX line {text}", tuple(callers.split()))
    return entry, places
