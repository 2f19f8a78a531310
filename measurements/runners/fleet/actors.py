"""What runs on the machines of a cluster: a compiler, or a GPU with its worker process.

A GPU's actor is a ``CudaRunner`` of one GPU that is given programs instead of compiling them: workers that hang, crash
or lie are replaced there, as everywhere. Arrays that its worker lacks are asked for, because what they are computed
from (a user's Python, say) is with whoever tunes.

A GPU's actor takes two calls at a time. Its runner does one after the other; the second is unpacked, and stands ready,
while the first is measured.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.metadata
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from measurements.compiler.cubin_cache import Compiled
from measurements.compiler.other_compiler import COMPILER_MODULE
from measurements.compiler.pool import CompileCache, CompileFailure, CompilePool, NvrtcMissing
from measurements.runners.base import Candidate, Entrant
from measurements.runners.cuda.device import WORKER_MODULE
from measurements.runners.cuda.references import NOTHING_SENT, DataSet, References, SentArrays
from measurements.runners.cuda.runner import CudaOptions, CudaRunner
from measurements.trials.measurement import Measurement
from search_spaces.arrays import Array, FloatArray
from search_spaces.hardware.devices import Device
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.launches.headers import Headers
from search_spaces.launches.launch import Launch
from search_spaces.launches.operand import Operand
from search_spaces.operators.problem import Problem
from search_spaces.spaces.schedule import Schedule

CALLS = 2  # that a GPU's actor takes at a time
DATA_SETS = 4  # whose arrays it keeps


@dataclass(frozen=True)
class FleetOptions:
    """``describe`` is "module:function", which gives the Device of GPU 0 as its process sees it. ``path`` is added to
    that on which modules are found. ``cache`` is the folder where compilers keep what they made, by default their
    machine's own."""

    cuda: CudaOptions = field(default_factory=CudaOptions)
    worker_module: str = WORKER_MODULE
    worker_env: Mapping[str, str] = field(default_factory=dict)
    compiler_module: str = COMPILER_MODULE
    cache: str = ""
    path: tuple[str, ...] = ()
    describe: str = "measurements.runners.cuda.device:cuda_device"


def installed_version() -> str:
    """Of autosched in this process: both ends must be of one."""
    try:
        return importlib.metadata.version("autosched")
    except importlib.metadata.PackageNotFoundError:
        return ""


@dataclass(frozen=True)
class Hello:
    """Who an actor is: ``problem`` says in one line why it cannot take part, or is empty."""

    device: Device | None = None
    toolchain: str = ""
    version: str = field(default_factory=installed_version)
    problem: str = ""


@dataclass(frozen=True)
class Arrays:
    """The arrays of the data set ``key``, sent along because a worker lacked them."""

    key: str
    sent: SentArrays


@dataclass(frozen=True)
class SentProblem(Problem):
    """A problem as far as a GPU's actor needs it: its JSON and its arrays."""

    json: Mapping[str, Any]
    text: str
    arrays: tuple[Operand, ...]

    @classmethod
    def of(cls, problem: Problem) -> SentProblem:
        return cls(problem.to_json(), problem.key(), problem.operands())

    def key(self) -> str:
        return self.text

    def to_json(self) -> dict[str, Any]:
        return dict(self.json)

    def operands(self) -> tuple[Operand, ...]:
        return self.arrays

    def random_inputs(self, seed: int) -> dict[str, Array]:
        raise TypeError("its inputs are drawn where it is tuned")

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, FloatArray]:
        raise TypeError("its reference is computed where it is tuned")

    def tolerance(self, inputs: Mapping[str, Array]) -> dict[str, FloatArray]:
        raise TypeError("its tolerance is computed where it is tuned")

    @property
    def flops(self) -> float:
        return 0.0


@dataclass(frozen=True)
class SentProgram(Compiled):
    """A compiled kernel with its bytes, which lie in no file here."""

    content: bytes = b""

    @classmethod
    def of(cls, compiled: Compiled) -> SentProgram:
        values = {f.name: getattr(compiled, f.name) for f in dataclasses.fields(Compiled)}
        return cls(**values, content=compiled.cubin)

    @property
    def cubin(self) -> bytes:
        return self.content


@dataclass(frozen=True)
class _SentKernel(GeneratedKernel):
    """A kernel that was compiled elsewhere; its source is its program's digest."""

    program: SentProgram | None = None


@dataclass(frozen=True)
class CandidateWork:
    """A candidate for a GPU: its problem, its launch and its program."""

    problem: SentProblem
    launch: Launch
    program: SentProgram

    @property
    def candidate(self) -> Candidate:
        launch = {f.name: getattr(self.launch, f.name) for f in dataclasses.fields(Launch)}
        kernel = _SentKernel(source=self.program.digest, program=self.program, **launch)
        return Candidate(self.problem, Schedule("sent", ()), kernel)


class Missing(Exception):
    """The parts of a data set that a worker cannot make itself."""

    def __init__(self, data: DataSet, parts: tuple[str, ...]) -> None:
        super().__init__(data, parts)
        self.data, self.parts = data, parts


class _SentReferences(References):
    """Those of the last few data sets. Safe for any number of threads."""

    def __init__(self) -> None:
        super().__init__()
        self._given: dict[str, SentArrays] = {}
        self._giving = threading.Lock()

    def give(self, arrays: Arrays) -> None:
        with self._giving:
            self._given = {**dict(list(self._given.items())[1 - DATA_SETS :]), arrays.key: arrays.sent}

    def known(self, data: DataSet) -> SentArrays:
        return self._given.get(data.key, NOTHING_SENT)

    def computed(self, data: DataSet, parts: Sequence[str]) -> SentArrays:
        known = self.known(data)
        if missing := tuple(part for part in parts if part not in known.digests):
            raise Missing(data, missing)
        return known


class _GivenPrograms:
    """In the place of a pool of compilers: what it is asked for was compiled elsewhere."""

    def __init__(self, checks: SentProgram) -> None:
        self.toolchain = checks.toolchain
        self._checks = checks

    def submit(self, kernel: GeneratedKernel, arch: str) -> Future[Compiled | CompileFailure]:
        done: Future[Compiled | CompileFailure] = Future()
        done.set_result(getattr(kernel, "program", None) or self._checks)
        return done


class GpuActor:
    """One GPU. Its methods may be called by any number of threads."""

    def __init__(self, options: FleetOptions) -> None:
        self._options = options
        self._runner: CudaRunner | None = None
        self._references = _SentReferences()
        self._equipping = threading.Lock()

    def hello(self) -> Hello:
        """Which GPU it is; asks it."""
        sys.path.extend(p for p in self._options.path if p not in sys.path)
        module, _, function = self._options.describe.partition(":")
        try:
            return Hello(getattr(importlib.import_module(module), function)())
        except (ValueError, ImportError) as error:
            return Hello(problem=str(error))

    def measure(self, device: Device, checks: SentProgram, arrays: Arrays | None, work: CandidateWork) -> Any:
        """Measure one candidate on the GPU of this actor.

        Args:
            device: Describes the GPU.
            checks: The program that compares results.
            arrays: The operands; None for those of the last call.
            work: The candidate, compiled.

        Returns:
            The measurement, and how many seconds the GPU was busy; or what is Missing here.
        """
        runner = self._equipped(device, checks, arrays)
        try:
            with closing(runner.stream()) as stream:
                stream.add([work.candidate])
                _, measurement = next(stream)
                return measurement, stream.seconds
        except Missing as missing:
            return missing

    def compare(
        self,
        device: Device,
        checks: SentProgram,
        arrays: Arrays | None,
        works: Sequence[CandidateWork],
        options: Mapping[str, Any],
    ) -> tuple[Entrant, ...] | Missing:
        """Time candidates in turns, all on the GPU of this actor.

        Args:
            device: Describes the GPU.
            checks: The program that compares results.
            arrays: The operands; None for those of the last call.
            works: The candidates, compiled.
            options: Those of ``CudaRunner.compare``.

        Returns:
            Its entrants, or what is Missing here.
        """
        runner = self._equipped(device, checks, arrays)
        try:
            return runner.compare([work.candidate for work in works], **options)
        except Missing as missing:
            return missing

    def outputs(
        self, device: Device, checks: SentProgram, arrays: Arrays | None, work: CandidateWork
    ) -> Mapping[str, Array] | Measurement | Missing:
        """Launch one candidate and return what it computes.

        Args:
            device: Describes the GPU.
            checks: The program that compares results.
            arrays: The operands; None for those of the last call.
            work: The candidate, compiled.

        Returns:
            As ``CudaRunner.outputs``, or what is Missing here.
        """
        try:
            return self._equipped(device, checks, arrays).outputs(work.candidate)
        except Missing as missing:
            return missing

    def fingerprint(self, device: Device, checks: SentProgram) -> dict[str, str]:
        return self._equipped(device, checks, None).fingerprint()

    def _equipped(self, device: Device, checks: SentProgram, arrays: Arrays | None) -> CudaRunner:
        if arrays is not None:
            self._references.give(arrays)
        with self._equipping:
            if self._runner is None:
                self._runner = CudaRunner(
                    device,
                    _GivenPrograms(checks),
                    options=self._options.cuda,
                    worker_module=self._options.worker_module,
                    worker_env=dict(self._options.worker_env),
                    worker_path=self._options.path,
                    references=self._references,
                )
            return self._runner


class CompileActor:
    """One compiler, with the cache of its machine."""

    def __init__(self, options: FleetOptions) -> None:
        self._options = options
        self._pool: CompilePool | None = None

    def hello(self) -> Hello:
        """Which compiler it is."""
        try:
            self._pool = CompilePool(
                CompileCache(self._options.cache) if self._options.cache else None,
                workers=1,
                worker_module=self._options.compiler_module,
                python_path=self._options.path,
            )
        except (NvrtcMissing, ValueError) as error:
            return Hello(problem=str(error))
        return Hello(toolchain=self._pool.toolchain)

    def compile(self, headers: Headers, kernel: GeneratedKernel, arch: str) -> SentProgram | CompileFailure:
        """Return the program of ``kernel``, whose headers come apart from it."""
        assert self._pool is not None  # hello comes first
        result = self._pool.compile(dataclasses.replace(kernel, headers=headers), arch)
        return result if isinstance(result, CompileFailure) else SentProgram.of(result)
