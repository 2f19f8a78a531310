"""Answers of databases on disk, so that a process that starts loads a kernel without asking the database again.

An entry holds all that loading needs: the launch, the digest of its cubin in the compile cache, the provenance. It is
found by everything the answer depends on: the database's file as it is now, the problem, the GPU with its driver and
CUDA, the compiler, and the code of autosched that chose. Whatever changes, the next look-up goes to the database again.
Entries are for problems and templates of autosched itself: what other packages and kernel files hold may change unseen.

A folder that cannot be read or written, and an entry that is damaged, are as if there were none.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from autosched.dispatch.provenance import KernelProvenance
from autosched.version import VERSION
from measurements.files.bounded import read_bounded
from measurements.files.cache_folder import CUBINS, CacheUnusable, cache_root, publish
from measurements.runners.cuda.device import GpuHere
from search_spaces.installed import metadata_folders
from search_spaces.launches.launch import Launch, launch_from_json
from search_spaces.operators.problem import Problem

_MOST_BYTES = 1 << 20  # of an entry
_FORMAT = 1
_DIGEST = re.compile("[0-9a-f]{64}")
_HEADER = 100  # bytes of an SQLite file, with the counter of its changes
_COMPILERS = re.compile(r"nvidia_cuda_nvrtc(_cu12)?-[^-]+\.dist-info")  # folders of installed packages, PEP 427
# Folders whose code takes part in the choice, and the recordings that come with autosched.
_CHOOSERS = ("search_spaces", "cost_models", "autosched", "measurements/trials")
_NO_DATABASE = "none"
_OURS = "search_spaces."  # modules of the problems and templates that entries are for


@dataclass(frozen=True)
class Resolved:
    """``launch`` names the entry function as it is in the cubin; both are None where the library is called."""

    launch: Launch | None
    cubin: str | None  # path
    provenance: KernelProvenance


class ResolvedCache:
    """The answers of one database file, or those without a database (None). ``identity`` is "" for what is not a file:
    nothing is kept then. ``dependent``: those of dependent launches (search_spaces/templates/dependent.py)."""

    def __init__(self, path: str | Path | None, *, dependent: bool = False) -> None:
        self._dependent = dependent
        self.identity = _NO_DATABASE if path is None else file_identity(path)
        self._folder: Path | None = None
        with suppress(CacheUnusable):
            self._folder = cache_root() / "resolved" / self.identity if self.identity else None

    @property
    def known(self) -> bool:
        """Whether this very file was opened and found to be a database before."""
        with suppress(OSError):  # the cache of somebody else
            return self._folder is not None and self._folder.is_dir()
        return False

    def _entry(self, problem: Problem, gpu: GpuHere) -> str:
        return f"{_key(problem, gpu)}{'-dependent' if self._dependent else ''}.json"

    def load(self, problem: Problem, gpu: GpuHere) -> Resolved | None:
        """Return the answer for ``problem`` on ``gpu``, if its cubin is still in the compile cache."""
        if self._folder is None:
            return None
        with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
            data = json.loads(read_bounded(self._folder / self._entry(problem, gpu), _MOST_BYTES))
            provenance = KernelProvenance.from_json(data["provenance"])
            if data["launch"] is None:
                return Resolved(None, None, provenance)
            path = cache_root() / CUBINS / f"{data['cubin']}.cubin"
            if _DIGEST.fullmatch(data["cubin"]) and hashlib.sha256(path.read_bytes()).hexdigest() == data["cubin"]:
                return Resolved(launch_from_json(data["launch"]), str(path), provenance)
        return None

    def store(self, problem: Problem, gpu: GpuHere, resolved: Resolved, template_module: str) -> None:
        """Keep an answer; one of a problem or template of another package is not kept, since its code is not watched.

        Args:
            problem: What was asked for.
            gpu: The GPU that is here.
            resolved: The answer.
            template_module: The module that states its template, "" for the library.
        """
        ours = type(problem).__module__.startswith(_OURS) and (template_module or _OURS).startswith(_OURS)
        if self._folder is None or not ours:
            return
        launch, cubin = resolved.launch, resolved.cubin
        document: dict[str, Any] = {
            "launch": None if launch is None else launch.launch_json(),
            "cubin": None if cubin is None else Path(cubin).stem,
            "provenance": resolved.provenance.to_json(),
        }
        with suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            publish(self._folder / self._entry(problem, gpu), json.dumps(document).encode())


def file_identity(path: str | Path) -> str:
    """Of a file as it is now, with what a writer has not folded into it yet: equal texts, equal contents. "" for what
    is not a file."""
    place = os.path.realpath(path)
    seen: list[Any] = [_FORMAT, place]
    try:
        for part in (place, f"{place}-wal"):
            with suppress(FileNotFoundError):
                found = os.stat(part)
                if not stat.S_ISREG(found.st_mode):  # a pipe would be waited for
                    return ""
                seen.append([found.st_size, found.st_mtime_ns, found.st_ino])
        with open(place, "rb") as file:
            seen.append(file.read(_HEADER).hex())
    except (OSError, ValueError):
        return ""
    return hashlib.sha256(json.dumps(seen).encode()).hexdigest()


def _key(problem: Problem, gpu: GpuHere) -> str:
    row = gpu.device
    chip = (row.name, row.arch, row.sm_count, row.memory_bytes, gpu.driver, gpu.cuda)
    text = json.dumps([_FORMAT, VERSION, problem.key(), chip, _compilers(), _code()])
    return hashlib.sha256(text.encode()).hexdigest()


@cache
def _compilers() -> list[str]:
    """Return the installed packages of NVRTC, by the names of their metadata, which have the version. The library
    itself takes a tenth of a second to load."""
    return sorted({name for name, _ in metadata_folders() if _COMPILERS.fullmatch(name.lower())})


@cache
def _code() -> str:
    """Names, sizes and times of the files that choose and generate kernels."""
    root = Path(__file__).resolve().parents[2]
    digest = hashlib.sha256()
    for folder in _CHOOSERS:
        for path, found in sorted(_files(root / folder)):
            digest.update(f"{path}\0{found.st_size}\0{found.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def _files(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                if entry.name != "__pycache__":
                    yield from _files(Path(entry.path))
            else:
                yield entry.path, entry.stat()
