"""On-disk cache of look-ups, so that a new process loads a kernel without querying the database again.

An entry contains all data that loading a kernel needs: the launch, the digest of its cubin in the compile cache, and
the provenance. The key of an entry covers all inputs of the look-up: the database file, the problem, the GPU, the
driver, CUDA, the compiler, and the code of autosched that selects kernels. After a change of any of these inputs, the
database is queried again. Only problems and templates of autosched itself are cached, because changes of other packages
and kernel files are not detected.

An entry that is damaged or cannot be read counts as missing. If the folder is not writable, nothing is cached.
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
from measurements.runners.cuda.device import CurrentGpu
from search_spaces.installed import metadata_folders
from search_spaces.launches.launch import Launch, launch_from_json
from search_spaces.operators.problem import Problem

_MOST_BYTES = 1 << 20  # maximum size of an entry, in bytes
_FORMAT = 1
_DIGEST = re.compile("[0-9a-f]{64}")
_HEADER = 100  # size in bytes of an SQLite header, which includes the change counter
_COMPILERS = re.compile(
    r"nvidia_cuda_nvrtc(_cu12)?-[^-]+\.dist-info"
)  # metadata folders of installed packages (PEP 427)
# Folders whose files affect the selection: code, and the recordings that come with autosched.
_CHOOSERS = ("search_spaces", "cost_models", "autosched", "measurements/trials")
_NO_DATABASE = "none"
_BUILT_IN_MODULES = "search_spaces."  # modules whose problems and templates are cached


@dataclass(frozen=True)
class Resolved:
    """A cached look-up. ``launch`` names the entry function. Launch and cubin are None for the vendor's library."""

    launch: Launch | None
    cubin: str | None  # path of the cubin
    provenance: KernelProvenance


class ResolvedCache:
    """Cached results of look-ups in one database file, or of look-ups without a database (``path`` is None).

    ``identity`` is "" if the database is not a file; then nothing is cached. ``dependent`` selects the entries of
    kernels with programmatic dependent launch (search_spaces/templates/dependent.py).
    """

    def __init__(self, path: str | Path | None, *, dependent: bool = False) -> None:
        self._dependent = dependent
        self.identity = _NO_DATABASE if path is None else file_identity(path)
        self._folder: Path | None = None
        with suppress(CacheUnusable):
            self._folder = cache_root() / "resolved" / self.identity if self.identity else None

    @property
    def known(self) -> bool:
        """True if this exact file was already opened as a database, so that it need not be checked again."""
        with suppress(OSError):  # reading the folder fails if the cache belongs to another user
            return self._folder is not None and self._folder.is_dir()
        return False

    def _entry(self, problem: Problem, gpu: CurrentGpu) -> str:
        return f"{_key(problem, gpu)}{'-dependent' if self._dependent else ''}.json"

    def load(self, problem: Problem, gpu: CurrentGpu) -> Resolved | None:
        """Return the entry of ``problem`` on ``gpu`` if its cubin is still in the compile cache."""
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

    def store(self, problem: Problem, gpu: CurrentGpu, resolved: Resolved, template_module: str) -> None:
        """Store an entry, unless its problem or template belongs to another package, whose changes are not detected.

        Args:
            problem: The requested problem.
            gpu: This machine's GPU.
            resolved: The entry.
            template_module: Module that defines the entry's template; "" for the vendor's library.
        """
        is_built_in = type(problem).__module__.startswith(_BUILT_IN_MODULES) and (
            template_module or _BUILT_IN_MODULES
        ).startswith(_BUILT_IN_MODULES)
        if self._folder is None or not is_built_in:
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
    """Return a digest of the state of a file and its write-ahead log; equal digests mean equal contents.

    Returns "" for anything but a regular file.
    """
    real_path = os.path.realpath(path)
    seen: list[Any] = [_FORMAT, real_path]
    try:
        for part in (real_path, f"{real_path}-wal"):
            with suppress(FileNotFoundError):
                status = os.stat(part)
                if not stat.S_ISREG(status.st_mode):  # opening a pipe would block
                    return ""
                seen.append([status.st_size, status.st_mtime_ns, status.st_ino])
        with open(real_path, "rb") as file:
            seen.append(file.read(_HEADER).hex())
    except (OSError, ValueError):
        return ""
    return hashlib.sha256(json.dumps(seen).encode()).hexdigest()


def _key(problem: Problem, gpu: CurrentGpu) -> str:
    row = gpu.device
    chip = (row.name, row.arch, row.sm_count, row.memory_bytes, gpu.driver, gpu.cuda)
    text = json.dumps([_FORMAT, VERSION, problem.key(), chip, _compilers(), _code()])
    return hashlib.sha256(text.encode()).hexdigest()


@cache
def _compilers() -> list[str]:
    """Return the names of the metadata folders of installed NVRTC packages. The names contain the version.

    This is faster than loading NVRTC to query its version, which would take a tenth of a second.
    """
    return sorted({name for name, _ in metadata_folders() if _COMPILERS.fullmatch(name.lower())})


@cache
def _code() -> str:
    """Return names, sizes and modification times of the files that select and generate kernels."""
    root = Path(__file__).resolve().parents[2]
    digest = hashlib.sha256()
    for folder in _CHOOSERS:
        for path, entry in sorted(_files(root / folder)):
            digest.update(f"{path}\0{entry.st_size}\0{entry.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def _files(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                if entry.name != "__pycache__":
                    yield from _files(Path(entry.path))
            else:
                yield entry.path, entry.stat()
