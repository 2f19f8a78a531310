"""Disk cache of compiled kernels, keyed by source, headers, options, architecture and compiler version.

An entry is a file ``entries/KEY.json``, which names a file ``cubins/SHA256.cubin``. Each file is written under a
temporary name and then renamed, so that no process reads an incomplete file. A damaged entry is compiled again and
overwritten. Entries are never evicted; the folder may be deleted while no tuning runs.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from measurements.compiler.cubin import machine_code
from measurements.files.bounded import read_bounded
from measurements.files.cache_folder import CUBINS, cache_root, check_writable, make_folder, publish
from measurements.trials.measurement import MachineCode, Resources
from search_spaces.launches.generated_kernel import GeneratedKernel

_MOST_BYTES = 1 << 24  # size limit of an entry, including the compiler's log
_FORMAT = 3


@dataclass(frozen=True)
class CompiledStep:
    """One function of a pipeline (several kernels launched in order): its name in the cubin, and its resources."""

    entry: str
    resources: Resources


@dataclass(frozen=True)
class Compiled:
    """A cubin in the cache.

    Attributes:
        path: Path of the cubin.
        digest: SHA-256 of the cubin. Kernels with equal digests and launches are equal.
        entry: Mangled name of the entry function.
        resources: Resources of the function; for a pipeline, the maximum of each resource over the functions.
        compile_seconds: Compile time in seconds; if ``cached``, the time of the earlier compilation.
        log: Messages of the compiler.
        arch: Target architecture.
        toolchain: Compiler and version.
        cached: True if the cubin was in the cache.
        code: Digest and size of the instructions, if known.
        steps: Functions of a pipeline; empty for a single launch.
    """

    path: Path
    digest: str
    entry: str
    resources: Resources
    compile_seconds: float
    log: str
    arch: str
    toolchain: str
    cached: bool
    code: MachineCode | None = None
    steps: tuple[CompiledStep, ...] = ()

    @property
    def entries(self) -> tuple[str, ...]:
        """Names of the functions in the cubin, in launch order."""
        return tuple(step.entry for step in self.steps) or (self.entry,)

    @property
    def cubin(self) -> bytes:
        """Bytes of the cubin. Raises OSError if its file was deleted."""
        return self.path.read_bytes()


class CompileCache:
    """Compile cache, safe for threads and processes. The folder is created by ``prepare`` or by the first ``store``."""

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        self.folder = default_folder() if folder is None else Path(folder)
        self._entries, self._cubins = self.folder / "entries", self.folder / CUBINS.name

    def check(self) -> None:
        """Raise ValueError if the folder cannot be created or written. The check does not create the folder."""
        for part in (self._entries, self._cubins):
            check_writable(part)

    def prepare(self) -> None:
        """Create the folder. Raises ValueError if it cannot be created or written."""
        for part in (self._entries, self._cubins):
            make_folder(part)

    @staticmethod
    def key(kernel: GeneratedKernel, arch: str, options: Sequence[str], toolchain: str) -> str:
        """Return the cache key of a compilation. Compilations with equal keys produce equal cubins.

        Args:
            kernel: Kernel, whose source, headers, options, entries and dynamic shared memory are part of the key.
            arch: Architecture such as "sm_90a".
            options: Compiler options.
            toolchain: Compiler and version.

        Returns:
            SHA-256, hexadecimal.
        """
        identity = json.dumps([_FORMAT, kernel.code_digest, arch, list(options), toolchain])
        return hashlib.sha256(identity.encode()).hexdigest()

    def load(self, key: str) -> Compiled | None:
        """Return the entry of ``key``; None if it is missing or damaged."""
        try:
            entry = json.loads(read_bounded(self._entries / f"{key}.json", _MOST_BYTES))
            path = self._cubin_path(entry["digest"])
            cubin = path.read_bytes()
            if hashlib.sha256(cubin).hexdigest() != entry["digest"]:
                return None
            return Compiled(
                path=path,
                digest=entry["digest"],
                entry=str(entry["entry"]),
                resources=_resources(entry["resources"]),
                compile_seconds=float(entry["compile_seconds"]),
                log=str(entry["log"]),
                arch=str(entry["arch"]),
                toolchain=str(entry["toolchain"]),
                cached=True,
                code=machine_code(cubin),
                steps=tuple(CompiledStep(str(e), _resources(r)) for e, r in entry.get("steps", ())),
            )
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None

    def files(self, keys: Iterable[str]) -> list[str]:
        """Return the files of the entries of ``keys``, as paths within the folder. Unreadable entries are omitted."""
        entries = [(key, entry) for key in dict.fromkeys(keys) if (entry := self.load(key)) is not None]
        names = [f"{self._entries.name}/{key}.json" for key, _ in entries]
        return [*names, *dict.fromkeys(f"{self._cubins.name}/{entry.path.name}" for _, entry in entries)]

    def store(
        self,
        key: str,
        cubin: bytes,
        *,
        entry: str,
        resources: Resources,
        compile_seconds: float,
        log: str,
        arch: str,
        toolchain: str,
        steps: Sequence[CompiledStep] = (),
    ) -> Compiled:
        """Publish an entry, replacing an existing one.

        Args:
            key: Result of ``key``.
            cubin: The machine code.
            entry: Mangled name of its first kernel.
            resources: Registers and memory of that kernel.
            compile_seconds: Compile time in seconds.
            log: Messages of the compiler.
            arch: Target architecture.
            toolchain: Compiler and version.
            steps: Functions of a pipeline, in launch order; empty for a single kernel.

        Returns:
            The stored entry.

        Raises:
            OSError: The entry cannot be written, for example because the disk is full.
            ValueError: The folder cannot be used, as in ``prepare``.
        """
        # ``prepare`` creates this folder last, so if it exists, the other folders exist, too
        if not self._cubins.is_dir():
            self.prepare()
        digest = hashlib.sha256(cubin).hexdigest()
        path = self._cubin_path(digest)
        publish(path, cubin)
        document = {
            "digest": digest,
            "entry": entry,
            "resources": dataclasses.asdict(resources),
            "compile_seconds": compile_seconds,
            "log": log,
            "arch": arch,
            "toolchain": toolchain,
        }
        if steps:
            document["steps"] = [[step.entry, dataclasses.asdict(step.resources)] for step in steps]
        publish(self._entries / f"{key}.json", json.dumps(document, indent=1).encode())
        code = machine_code(cubin)
        return Compiled(
            path, digest, entry, resources, compile_seconds, log, arch, toolchain, cached=False, code=code,
            steps=tuple(steps),
        )  # fmt: skip

    def _cubin_path(self, digest: str) -> Path:
        return self._cubins / f"{digest}.cubin"


def default_folder() -> Path:
    """Return the subfolder ``cubin`` of this machine's cache. Raises CacheUnusable if there is no home folder."""
    return cache_root() / CUBINS.parent


def _resources(data: dict[str, int]) -> Resources:
    resources = Resources(**data)
    if not all(type(value) is int and value >= 0 for value in dataclasses.astuple(resources)):
        raise ValueError("resources must be non-negative integers")
    return resources
