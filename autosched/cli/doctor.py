"""``autosched doctor``: what this machine has, what can run on it, and how to get the rest. It never fails.

``--json``: ``autosched``, ``python``, ``platform``, ``gpus`` (``name``, ``memory_bytes``, ``compute_capability``),
``no_gpu_reason``, ``parts`` (``name``, ``version`` or null, ``note``), ``abilities`` (``name``, ``runs``, ``note``) and
``cache`` (``folder``, ``files``, ``bytes``).
"""

import importlib
import platform
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from autosched import report
from autosched.cli.output import print_json, stdout_console
from measurements.compile_cache import default_folder
from measurements.nvrtc import NvrtcMissing, toolchain_version
from measurements.runners.cuda import cuda_available

_GET_CUDA = "pip install 'autosched[cuda13]', or [cuda12] for drivers before 580"
_GET_COMPILER = "install g++ or clang++"
_ASK_SECONDS = 10.0  # for another program to answer
_LIBRARIES = ("numpy", "optuna", "sqlalchemy", "xgboost")


@dataclass(frozen=True)
class Part:
    """One thing that autosched can use. ``version`` is None where it is missing; ``note`` is where it is or why not."""

    name: str
    version: str | None
    note: str = ""


@dataclass(frozen=True)
class Gpu:
    """A GPU as its driver names it."""

    name: str
    memory_bytes: int
    compute_capability: str


@dataclass(frozen=True)
class Cuda:
    """What cupy sees. ``gpus`` is empty with a ``reason`` where no GPU answers."""

    driver: Part
    cupy: Part
    gpus: tuple[Gpu, ...]
    reason: str


@dataclass(frozen=True)
class Ability:
    """Something that autosched does, and whether it can here; ``note`` is what it gives, or what it needs."""

    name: str
    runs: bool
    note: str


def doctor(json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False) -> int:
    """What is here: GPUs, driver, NVRTC, compilers, what can run, and how to get the rest."""
    with ThreadPoolExecutor() as pool:  # every probe waits for another process or for a library to load
        asked = pool.submit(_cuda), pool.submit(_nvrtc), pool.submit(_host_compiler)
        cuda, nvrtc, compiler = asked[0].result(), asked[1].result(), asked[2].result()
    parts = (cuda.driver, cuda.cupy, nvrtc, compiler, *(_package(name) for name in _LIBRARIES))
    abilities = _abilities(cuda, nvrtc, compiler)
    folder = default_folder().parent
    files, used = _content(folder)
    if json:
        print_json(
            {
                "autosched": version("autosched"),
                "python": platform.python_version(),
                "platform": platform.platform(),
                "gpus": [asdict(gpu) for gpu in cuda.gpus],
                "no_gpu_reason": cuda.reason,
                "parts": [asdict(part) for part in parts],
                "abilities": [asdict(ability) for ability in abilities],
                "cache": {"folder": str(folder), "files": files, "bytes": used},
            }
        )
        return 0
    cache = f"{folder}: {report.count(files)} files, {report.size(used)}" if files else f"{folder}: empty"
    _show(stdout_console(), cuda, parts, abilities, cache)
    return 0


def _show(console: Console, cuda: Cuda, parts: tuple[Part, ...], abilities: tuple[Ability, ...], cache: str) -> None:
    python = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    console.print(f"autosched {version('autosched')}, {python}")
    console.print()
    gpus = [f"{g.name}, {report.size(g.memory_bytes)}, compute capability {g.compute_capability}" for g in cuda.gpus]
    rows = [("GPU", text) for text in gpus] or [("GPU", f"none answers: {cuda.reason}")]
    for part in parts:
        rows.append((part.name, ", ".join(text for text in (part.version or "missing", part.note) if text)))
    console.print(report.facts([*rows, ("cache", cache)]))
    console.print()
    made = report.table("can run", "here", "", fold=("",))
    for ability in abilities:
        made.add_row(ability.name, "yes" if ability.runs else "no", ability.note)
    console.print(made)


def _abilities(cuda: Cuda, nvrtc: Part, compiler: Part) -> tuple[Ability, ...]:
    gpu, can_compile, can_emulate = bool(cuda.gpus), nvrtc.version is not None, compiler.version is not None
    if gpu and can_compile:
        measure = "times are measured on the GPU"
    else:
        measure = "needs an NVIDIA GPU" if not gpu and cuda.cupy.version else f"needs an NVIDIA GPU and {_GET_CUDA}"
    return (
        Ability("tune --backend cuda", gpu and can_compile, measure),
        Ability(
            "tune --backend estimate",
            can_compile,
            "times are estimated for a named device, no GPU needed" if can_compile else _GET_CUDA,
        ),
        Ability(
            "verify",
            can_emulate,
            "candidates are emulated on the CPU, no GPU needed" if can_emulate else _GET_COMPILER,
        ),
        Ability("space, best", True, "need nothing more"),
    )


def _cuda() -> Cuda:
    answers, reason = cuda_available()
    driver = _driver()
    try:
        cupy = importlib.import_module("cupy")
    except ModuleNotFoundError:
        return Cuda(driver, Part("cupy", None, _GET_CUDA), (), reason)
    except Exception as error:  # a broken installation raises whatever its libraries raise
        return Cuda(driver, Part("cupy", None, f"{_first_line(error)}; {_GET_CUDA}"), (), reason)
    here = Part("cupy", str(cupy.__version__))
    if not answers:
        return Cuda(driver, here, (), reason)
    runtime = cupy.cuda.runtime
    try:
        gpus = tuple(_gpu(runtime.getDeviceProperties(i)) for i in range(runtime.getDeviceCount()))
    except Exception as error:  # the GPU went away since it answered
        return Cuda(driver, here, (), _first_line(error))
    return Cuda(driver, here, gpus, "")


def _gpu(properties: dict[str, object]) -> Gpu:
    name = properties["name"]
    return Gpu(
        name.decode() if isinstance(name, bytes) else str(name),
        int(str(properties["totalGlobalMem"])),
        f"{properties['major']}.{properties['minor']}",
    )


def _driver() -> Part:
    version_file = Path("/proc/driver/nvidia/version")
    if version_file.is_file():
        words = version_file.read_text().split()
        return Part("NVIDIA driver", next((w for w in words if w[:1].isdigit() and "." in w), "unknown version"))
    answer = _answer("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
    return Part("NVIDIA driver", answer or None)


def _nvrtc() -> Part:
    try:
        return Part("NVRTC", toolchain_version().removeprefix("nvrtc "))
    except NvrtcMissing:
        return Part("NVRTC", None, _GET_CUDA)


def _host_compiler() -> Part:
    for name in ("g++", "clang++"):
        answer = _answer(name, "-dumpfullversion") if name == "g++" else _answer(name, "-dumpversion")
        if answer:
            return Part("host compiler", f"{name} {answer}", shutil.which(name) or "")
    return Part("host compiler", None, _GET_COMPILER)


def _answer(program: str, *arguments: str) -> str:
    """First line that a program prints, "" where it is missing or fails."""
    path = shutil.which(program)
    if path is None:
        return ""
    try:
        done = subprocess.run([path, *arguments], capture_output=True, text=True, timeout=_ASK_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip().partition("\n")[0]


def _package(name: str) -> Part:
    try:
        return Part(name, version(name))
    except PackageNotFoundError:
        return Part(name, None, f"pip install {name}")


def _content(folder: Path) -> tuple[int, int]:
    """Number of files below ``folder``, and their bytes; files that vanish meanwhile do not count."""
    files = used = 0
    for path in folder.rglob("*"):
        try:
            if path.is_file():
                used += path.stat().st_size
                files += 1
        except OSError:
            continue
    return files, used


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
