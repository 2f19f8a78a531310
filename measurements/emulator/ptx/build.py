"""Translate a kernel to the bytecode file that the runner executes, cached by the digest of its inputs."""

from __future__ import annotations

import hashlib
import time
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from measurements.compiler.nvcc import NvccMissing, toolchain_of
from measurements.compiler.nvrtc import NVCC, PTX_OPTIONS, NvrtcMissing, toolchain_version
from measurements.emulator.architecture import ptx_arch
from measurements.emulator.findings import Emulation, EmulationStatus
from measurements.emulator.host.build import cache_folder, prune_sometimes, used
from measurements.emulator.host.compiler import HostFailure, check_nvrtc
from measurements.emulator.host.seal import intact, sealed, unsealed
from measurements.emulator.ptx.digest import digest_of
from measurements.files.cache_folder import publish
from search_spaces.launches.control_file import for_ptx
from search_spaces.launches.generated_kernel import GeneratedKernel

if TYPE_CHECKING:
    from measurements.emulator.ptx.syntax import Module

# An option of NVRTC that omits textures and CUDA runtime types, and makes compilation 10% faster. Sources that need
# textures or these types are compiled without the option, and so are all sources if NVRTC does not support it.
_MINIMAL = "-minimal"
_SUFFIX = ".program"
_DIGEST = "digest "  # the first line of a bytecode file, which the runner skips
_SITES = b"\nplaces\n"  # the runner stops reading at this line, after which there is one line per site
_HERE = Path(__file__).parent


class KernelCompileError(Exception):
    """A kernel cannot be compiled or translated.

    The status is compile_error if NVRTC rejected the kernel, compile_timeout if NVRTC took too long, and unsupported if
    the kernel needs a feature that the emulator does not support. ``reason`` is one line, which names the failing line.
    ``log`` is the compiler's complete output.
    """

    def __init__(self, status: EmulationStatus, reason: str, log: str, seconds: float) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.log = log
        self.seconds = seconds

    @property
    def emulation(self) -> Emulation:
        """Emulation result with this status and reason, and without findings."""
        return Emulation(self.status, {}, (), (), (), reason=self.reason, log=self.log, compile_seconds=self.seconds)


class CompiledBytecode(NamedTuple):
    """A bytecode file for the runner, the duration of the compilation in seconds, and whether the file was cached."""

    path: Path
    seconds: float
    from_cache: bool


class SitePosition(NamedTuple):
    """Position of an instruction for reports.

    Attributes:
        source: Source line as "file:line".
        ptx: PTX line with its text.
        callers: Lines into which the source line is inlined, the innermost first.
    """

    source: str
    ptx: str
    callers: tuple[str, ...]


def compile_to_bytecode(kernel: GeneratedKernel) -> CompiledBytecode:
    """Compile ``kernel`` to bytecode, with a cache.

    Raises:
        KernelCompileError: If NVRTC rejects the kernel, or the emulator does not support a feature of the kernel.
        HostFailure: If NVRTC is missing, or the cache cannot be written.
    """
    started = time.monotonic()
    toolchain = _toolchain(kernel)
    path = _cache_path(
        toolchain, ptx_arch(kernel), *_options(kernel), kernel.entry, kernel.source, kernel.headers.digest
    )
    if intact(path):
        used(path)
        return CompiledBytecode(path, time.monotonic() - started, True)
    text, entry = compile_to_text(kernel)
    return _publish(path, text, entry, started)


def _options(kernel: GeneratedKernel) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*PTX_OPTIONS, *for_ptx(kernel.compile_options))))


def compile_to_text(kernel: GeneratedKernel) -> tuple[str, str]:
    """Compile a kernel, without using a cache, to the PTX that ``compile_to_bytecode`` translates.

    Returns:
        The PTX, and the mangled name of the entry in the PTX.

    Raises:
        KernelCompileError: If NVRTC rejects the kernel.
    """
    started = time.monotonic()
    arch, options = ptx_arch(kernel), _options(kernel)
    # Imported here, because cached bytecode does not need the compiler pool.
    from measurements.compiler.pool import error_reason
    from measurements.compiler.ptx import CompilerStopped, compile_to_ptx

    try:
        compiled = partial(compile_to_ptx, kernel.source, kernel.entry, arch, kernel.headers, limits=kernel.limits)
        output = compiled((*options, _MINIMAL))
        if output.text is None:
            output = compiled(options)
    except CompilerStopped as stopped:
        raise KernelCompileError(stopped.status, str(stopped), "", time.monotonic() - started) from stopped
    if output.text is None:
        raise KernelCompileError("compile_error", error_reason(output.log), output.log, time.monotonic() - started)
    return output.text, output.entry


def _toolchain(kernel: GeneratedKernel) -> str:
    if NVCC not in kernel.compile_options:
        return check_nvrtc()
    try:
        return toolchain_of(kernel.compile_options)
    except NvccMissing as error:
        raise HostFailure(str(error)) from None


def ptx_digest(kernel: GeneratedKernel) -> str | None:
    """Return the SHA-256 (hex) of the PTX of ``kernel`` that the emulator executes.

    Returns None if NVRTC is missing, or if NVRTC or the emulator rejects the kernel. Raises HostFailure if the cache
    cannot be written.
    """
    try:
        toolchain_version()
        digests = [_digest_of(compile_to_bytecode(step).path) for step in kernel.steps]
    except (NvrtcMissing, KernelCompileError):
        return None
    return digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()


def _digest_of(path: Path) -> str:
    with path.open(errors="replace") as file:
        return file.readline().removeprefix(_DIGEST).rstrip()


def ptx_to_bytecode(text: str, entry: str = "", module: Module | None = None) -> CompiledBytecode:
    """Translate PTX text to bytecode.

    Args:
        text: A PTX module.
        entry: Name of the kernel; "" for the only one.
        module: The parsed text, if the caller has parsed it.

    Raises:
        KernelCompileError: With status compile_error or unsupported.
        HostFailure: If the cache cannot be written.
    """
    started = time.monotonic()
    path = _cache_path("text", entry, text)
    if intact(path):
        used(path)
        return CompiledBytecode(path, time.monotonic() - started, True)
    return _publish(path, text, entry, started, module)


def _publish(path: Path, text: str, entry: str, started: float, module: Module | None = None) -> CompiledBytecode:
    from measurements.emulator.ptx.bytecode import NotExecutable, translate
    from measurements.emulator.ptx.parser import PtxError, parse

    try:
        program = translate(module or parse(text), entry)
    except PtxError as error:
        raise KernelCompileError("compile_error", str(error), "", time.monotonic() - started) from error
    except NotExecutable as error:
        raise KernelCompileError("unsupported", str(error), "", time.monotonic() - started) from error
    positions = "\n".join(program.sites)
    publish(path, sealed(f"{_DIGEST}{digest_of(text)}\n{program.text}".encode() + _SITES + positions.encode()))
    prune_sometimes(path.parent)
    return CompiledBytecode(path, time.monotonic() - started, False)


def _cache_path(*parts: str) -> Path:
    h = hashlib.sha256(_translator().encode())
    for part in parts:
        h.update(f"{len(part)}:".encode())
        h.update(part.encode())
    return cache_folder() / f"{h.hexdigest()}{_SUFFIX}"


@cache
def _translator() -> str:
    """Return the digest of this translator's sources, so that cached bytecode of other versions is not used."""
    h = hashlib.sha256()
    for file in sorted(_HERE.rglob("*.py")):
        h.update(file.read_bytes())
    return h.hexdigest()


class SitePositions(NamedTuple):
    """Positions of instructions by site number. A position is only parsed when it is requested."""

    lines: tuple[str, ...]

    def get(self, site: str) -> SitePosition | None:
        """Return the position of a site; None if ``site`` is not a valid number."""
        if not site.isdecimal() or int(site) >= len(self.lines):
            return None
        source, text, *callers = self.lines[int(site)].split("\t")
        return SitePosition(source, f"PTX line {text}", tuple(callers))

    def callers(self, site: str) -> tuple[str, ...]:
        """Return the lines into which the site is inlined."""
        position = self.get(site)
        return () if position is None else position.callers


class ProgramFacts(NamedTuple):
    """Facts about a kernel from its bytecode.

    Attributes:
        static_shared: Bytes of static shared memory.
        blocks_of_sm: Blocks per SM that the kernel requires (``.minnctapersm``), at least 1.
        instructions: Text of each distinct instruction.
    """

    static_shared: int
    blocks_of_sm: int
    instructions: tuple[str, ...]


def read_program_facts(path: Path) -> ProgramFacts:
    """Read the facts about a kernel from its bytecode file."""
    head, _, positions = unsealed(path.read_bytes()).partition(_SITES)
    numbers: dict[str, int] = {}
    for line in head[:400].decode(errors="replace").splitlines():
        name, _, value = line.partition(" ")
        if name in ("static_shared", "blocks_of_sm") and value.isdecimal():
            numbers[name] = int(value)
    texts = (line.split("\t")[1].partition(": ")[2] for line in positions.decode(errors="replace").splitlines())
    return ProgramFacts(
        numbers.get("static_shared", 0), max(1, numbers.get("blocks_of_sm", 1)), tuple(dict.fromkeys(texts))
    )


# Cached, because a verification runs a program several times; the file's name identifies its content.
@lru_cache(maxsize=8)
def read_sites(path: Path) -> SitePositions:
    """Read the positions of sites from a bytecode file."""
    _, _, positions = unsealed(path.read_bytes()).partition(_SITES)
    return SitePositions(tuple(positions.decode(errors="replace").split("\n")))
