"""``autosched doctor``: what this machine has, which backends can run on it, and how to get the rest."""

import platform
import shutil
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any

import typer

from autosched import report
from autosched.cli.output import print_json, stdout_console
from measurements.compile import cache_folder

INSTALL_CUDA = "pip install 'autosched[cuda13]' (or [cuda12] for a driver older than 580)"
INSTALL_COMPILER = "install g++ or clang++ (Debian, Ubuntu: apt install g++)"
_PROBE_SECONDS = 10.0


@dataclass(frozen=True)
class Part:
    """One thing that autosched may use. ``version`` is None where it is missing; ``note`` says where it is, or what to do."""

    name: str
    version: str | None
    note: str = ""

    @property
    def here(self) -> bool:
        return self.version is not None


@dataclass(frozen=True)
class Gpu:
    """A GPU as the driver names it."""

    name: str
    memory_bytes: int
    driver: str


@dataclass(frozen=True)
class Ability:
    """Whether something can run here; ``note`` says why not and what would change it."""

    name: str
    runs: bool
    note: str


def doctor(json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False) -> int:
    """What is here: GPUs, driver, NVRTC, compilers, backends that can run, and how to get the rest."""
    with ThreadPoolExecutor() as pool:  # each probe mostly waits for a process or for a library to load
        asked = [pool.submit(probe) for probe in (_nvidia_driver, _cuda_python, _host_compiler)]
        (driver, gpus), (cupy, nvrtc, runtime), compiler = (a.result() for a in asked)
    parts = (driver, cupy, nvrtc, compiler, *(_package(name) for name in ("xgboost", "optuna", "sqlalchemy", "numpy")))
    abilities = _abilities(gpus, driver, cupy, nvrtc, compiler, runtime)
    kernels, cached_bytes = _cache_content(cache_folder())
    if json:
        print_json(
            {
                "autosched": version("autosched"),
                "python": platform.python_version(),
                "platform": platform.platform(),
                "gpus": [asdict(g) for g in gpus],
                "parts": [asdict(p) for p in parts],
                "abilities": [asdict(a) for a in abilities],
                "cache": {"folder": str(cache_folder()), "files": kernels, "bytes": cached_bytes},
            }
        )
        return 0
    console = stdout_console()
    console.print(f"autosched {version('autosched')}, Python {platform.python_version()}, {platform.platform(terse=True)}")
    console.print()
    found = [("GPU", f"{g.name}, {report.size(g.memory_bytes)}") for g in gpus] or [("GPU", "none found")]
    known = [(p.name, f"{p.version or 'missing'}{': ' if p.note else ''}{p.note}") for p in parts]
    cache = f"{cache_folder()}: {report.count(kernels)} files, {report.size(cached_bytes)}"
    console.print(report.facts([*found, *known, ("compile cache", cache)]))
    console.print()
    abilities_table = report.table("what", "runs", "why", fold=("why",))
    for a in abilities:
        abilities_table.add_row(a.name, "yes" if a.runs else "no", a.note)
    console.print(abilities_table)
    return 0


