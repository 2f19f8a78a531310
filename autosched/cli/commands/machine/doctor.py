"""``autosched doctor``: report what is installed, what can run, and how to install what is missing.

The command never fails. ``--json`` prints ``autosched``, ``python``, ``platform`` and ``no_gpu_reason``, and also:

- ``gpus``: ``name``, ``memory_bytes``, ``compute_capability``, ``device`` (its row in the device table), and ``note``
  (doubts about that row)
- ``parts``: ``name``, ``version`` (null if no version works) and ``note``
- ``abilities``: ``name``, ``runs`` and ``note``
- ``cache``: ``folder``, ``files``, ``bytes``, and ``problem`` (why the folder cannot be written, or "")
"""

import importlib
import importlib.util
import os
import platform
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from autosched.cli.terminal.console import stdout_console
from autosched.cli.terminal.output import print_json
from autosched.reporting import formatting
from autosched.version import VERSION
from measurements.compiler.cubin_cache import CompileCache
from measurements.compiler.nvrtc import NvrtcMissing, loaded_version
from measurements.emulator import HostFailure, brings_runner, check_compiler, emulator_folder
from measurements.files.cache_folder import CacheUnusable, cache_root, check_writable
from measurements.files.text import first_line
from measurements.runners.cuda.runner import cuda_available, cuda_device
from measurements.trials.recording import installed

_GET_CUDA = "pip install 'autosched[cuda13]', or [cuda12] for drivers before 580"
_PROBE_SECONDS = 10.0  # time limit of each program that is started, such as nvidia-smi
_LIBRARIES = ("numpy", "optuna", "sqlalchemy", "xgboost")
_EXTRAS = (  # (purpose, name of the extra, package that the extra installs)
    ("--plot, --picture", "pictures", "matplotlib"),
    ("--db postgresql://...", "postgresql", "psycopg"),
    ("NVIDIA's matmul heuristics", "heuristics", "nvidia-matmul-heuristics"),
)


@dataclass(frozen=True)
class InstalledPart:
    """A program or library that autosched can use.

    Attributes:
        version: None if no version works.
        note: Location of the part, or why it does not work.
    """

    name: str
    version: str | None
    note: str = ""


@dataclass(frozen=True)
class Cache:
    """Folder and size of the compile cache. ``problem`` is the reason why the folder cannot be written, or ""."""

    folder: str
    files: int
    bytes: int
    problem: str


@dataclass(frozen=True)
class Gpu:
    """A GPU, with the properties that its driver reports.

    Attributes:
        device: Name of the GPU's row in the device table; "" if its architecture is unknown.
        note: Doubts about that row, or why the table has no row for this GPU.
    """

    name: str
    memory_bytes: int
    compute_capability: str
    device: str
    note: str


@dataclass(frozen=True)
class Cuda:
    """GPUs that cupy finds. Without a GPU, ``gpus`` is empty and ``reason`` gives the reason."""

    driver: InstalledPart
    cupy: InstalledPart
    gpus: tuple[Gpu, ...]
    reason: str


@dataclass(frozen=True)
class Ability:
    """A feature of autosched, and whether it works on this machine. ``note`` describes it, or names what is missing."""

    name: str
    runs: bool
    note: str


def doctor(json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False) -> int:
    """Show what can run on this machine, and how to install what is missing.

    The report lists GPUs, driver, NVRTC, compilers and libraries, and the features that each of them enables.
    """
    with ThreadPoolExecutor() as pool:  # in parallel: each probe starts another process or loads a library
        pending = pool.submit(_cuda), pool.submit(_nvrtc), pool.submit(_host_compiler)
        cuda, nvrtc, compiler = pending[0].result(), pending[1].result(), pending[2].result()
    parts = (cuda.driver, cuda.cupy, nvrtc, compiler, *(_package(name) for name in _LIBRARIES))
    cache = _cache()
    abilities = _abilities(cuda, nvrtc, compiler, cache)
    if json:
        print_json(
            {
                "autosched": VERSION,
                "python": platform.python_version(),
                "platform": platform.platform(),
                "gpus": [asdict(gpu) for gpu in cuda.gpus],
                "no_gpu_reason": cuda.reason,
                "parts": [asdict(part) for part in parts],
                "abilities": [asdict(ability) for ability in abilities],
                "cache": asdict(cache),
            }
        )
        return 0
    _show(stdout_console(), cuda, parts, abilities, cache)
    return 0


def _show(
    console: Console, cuda: Cuda, parts: tuple[InstalledPart, ...], abilities: tuple[Ability, ...], cache: Cache
) -> None:
    python = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    console.print(f"autosched {VERSION}, {python}")
    console.print()
    gpus = [
        ", ".join(
            text
            for text in (
                g.name,
                formatting.size(g.memory_bytes),
                f"compute capability {g.compute_capability}",
                f"device {g.device}" if g.device else "",
                g.note,
            )
            if text
        )
        for g in cuda.gpus
    ]
    rows = [("GPU", text) for text in gpus] or [("GPU", f"no GPU responds: {cuda.reason}")]
    for part in parts:
        rows.append((part.name, ", ".join(text for text in (part.version or "none", part.note) if text)))
    contents = f"{formatting.count(cache.files)} files, {formatting.size(cache.bytes)}" if cache.files else "empty"
    rows.append(("cache", cache.problem or f"{cache.folder}: {contents}"))
    console.print(formatting.facts(rows))
    console.print()
    table = formatting.table("can run", "here", "", fold=("",))
    for ability in abilities:
        table.add_row(ability.name, "yes" if ability.runs else "no", ability.note)
    console.print(table)


def _abilities(cuda: Cuda, nvrtc: InstalledPart, compiler: InstalledPart, cache: Cache) -> tuple[Ability, ...]:
    no_cache = "needs a cache that can be written" if cache.problem else ""
    no_compile = no_cache if nvrtc.version else _GET_CUDA
    no_emulate = no_compile if compiler.version else compiler.note
    no_measure = no_compile
    if not cuda.gpus:
        no_measure = "needs an NVIDIA GPU" if cuda.cupy.version else f"needs an NVIDIA GPU and {_GET_CUDA}"
    recorded = installed()
    problems = formatting.plural(sum(recorded.values()), "problem")
    devices = ", ".join(f"{name} ({n})" for name, n in recorded.items())
    no_replay = (
        "" if recorded else "no recordings are installed: python -m measurements.trials.recording FILE adds them"
    )
    return (
        _ability("tune --backend cuda", no_measure, "times are measured on the GPU"),
        _ability("tune --backend replay", no_replay, f"{problems} measured earlier on {devices}, no GPU needed"),
        _ability("tune --backend estimate", no_compile, "times are estimated for a named device, no GPU needed"),
        _ability("verify", no_emulate, "candidates are emulated on the CPU, no GPU needed"),
        Ability("space, best", True, "need nothing more"),
        *(_of_an_extra(*extra) for extra in _EXTRAS),
    )


def _ability(name: str, why_not: str, note: str) -> Ability:
    return Ability(name, not why_not, why_not or note)


def _of_an_extra(name: str, extra: str, distribution: str) -> Ability:
    try:
        return Ability(name, True, f"{distribution} {version(distribution)}")
    except PackageNotFoundError:
        return Ability(name, False, f"pip install 'autosched[{extra}]'")


def _cuda() -> Cuda:
    answers, reason = cuda_available()
    driver = _driver()
    installed = _cupy()
    if not answers:  # do not import cupy, because the import would create a folder in the user's home
        return Cuda(driver, installed, (), reason)
    cupy = importlib.import_module("cupy")
    runtime = cupy.cuda.runtime
    try:
        gpus = tuple(_gpu(i, runtime.getDeviceProperties(i)) for i in range(runtime.getDeviceCount()))
    except Exception as error:  # the GPU became unavailable after it was counted
        return Cuda(driver, installed, (), first_line(error))
    return Cuda(driver, installed, gpus, "")


def _cupy() -> InstalledPart:
    if importlib.util.find_spec("cupy") is None:
        return InstalledPart("cupy", None, _GET_CUDA)
    wheels = packages_distributions().get("cupy", [])  # the distribution's name has a suffix, for example cupy-cuda13x
    return InstalledPart("cupy", version(wheels[0]) if wheels else "unknown version")


def _gpu(number: int, properties: dict[str, object]) -> Gpu:
    name = properties["name"]
    try:
        row = cuda_device(number)
        device, note = row.name, row.note
    except ValueError as error:
        device, note = "", first_line(error)
    return Gpu(
        name.decode() if isinstance(name, bytes) else str(name),
        int(str(properties["totalGlobalMem"])),
        f"{properties['major']}.{properties['minor']}",
        device,
        note,
    )


def _driver() -> InstalledPart:
    version_file = Path("/proc/driver/nvidia/version")
    if version_file.is_file():
        words = version_file.read_text().split()
        return InstalledPart(
            "NVIDIA driver", next((w for w in words if w[:1].isdigit() and "." in w), "unknown version")
        )
    answer = _answer("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
    return InstalledPart("NVIDIA driver", answer or None)


def _nvrtc() -> InstalledPart:
    try:
        return InstalledPart("NVRTC", loaded_version().removeprefix("nvrtc "))
    except NvrtcMissing:
        return InstalledPart("NVRTC", None, _GET_CUDA)


def _host_compiler() -> InstalledPart:
    try:
        compiler = check_compiler()
    except HostFailure as error:
        if brings_runner():
            return InstalledPart("host compiler", "none", "not needed: the emulator is installed precompiled")
        return InstalledPart("host compiler", None, str(error))
    return InstalledPart("host compiler", compiler.identity, compiler.path)


def _answer(program: str, *arguments: str) -> str:
    """Return the first line that a program prints; "" if it is missing or fails."""
    path = shutil.which(program)
    if path is None:
        return ""
    try:
        done = subprocess.run([path, *arguments], capture_output=True, text=True, timeout=_PROBE_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip().partition("\n")[0]


def _package(name: str) -> InstalledPart:
    for distribution in (name, f"{name}-cpu"):  # xgboost-cpu is imported as xgboost
        with suppress(PackageNotFoundError):
            return InstalledPart(name, version(distribution))
    return InstalledPart(name, None, f"pip install {name}")


def _cache() -> Cache:
    try:
        folder = cache_root()
    except CacheUnusable as error:
        return Cache("", 0, 0, str(error))
    files, used = _content(folder)
    try:
        CompileCache().check()
        check_writable(emulator_folder())
    except CacheUnusable as error:
        return Cache(str(folder), files, used, str(error))
    return Cache(str(folder), files, used, "")


def _content(folder: Path) -> tuple[int, int]:
    """Count the files below ``folder`` and their bytes. Unreadable files are skipped."""
    files = used = 0
    for directory, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):  # another process may have deleted the file
                used += os.stat(os.path.join(directory, name)).st_size
                files += 1
    return files, used
