"""Actors on the machines of a cluster. An actor either compiles kernels, or controls a GPU through a worker process.

A GPU's actor is a ``CudaRunner`` of one GPU that receives compiled modules instead of compiling kernels. The actor
replaces workers that hang, crash or send malformed replies. If its worker cannot compute an array, for example because
a user's Python function computes it, the actor requests the array from the tuning process.

A GPU's actor accepts two calls at a time, so that the second call is unpacked while the first call is measured. The
runner executes the calls one after the other.
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

CALLS = 2  # maximum number of calls that a GPU's actor accepts at the same time
DATA_SETS = 4  # number of data sets whose arrays an actor keeps


@dataclass(frozen=True)
class FleetOptions:
    """Options of actors.

    ``describe`` names a function as "module:function". The function returns the Device of GPU 0 in an actor's process.
    ``path`` is added to the module search path. ``cache`` is the folder of the compilers' cache; "" selects the default
    folder of each machine.
    """

    cuda: CudaOptions = field(default_factory=CudaOptions)
    worker_module: str = WORKER_MODULE
    worker_env: Mapping[str, str] = field(default_factory=dict)
    compiler_module: str = COMPILER_MODULE
    cache: str = ""
    path: tuple[str, ...] = ()
    describe: str = "measurements.runners.cuda.device:cuda_device"


def installed_version() -> str:
    """Return the version of autosched in this process, which must be the same on all machines."""
    try:
        return importlib.metadata.version("autosched")
    except importlib.metadata.PackageNotFoundError:
        return ""


@dataclass(frozen=True)
class Hello:
    """Description of an actor. ``problem`` is the reason why the actor cannot be used, or ""."""

    device: Device | None = None
    toolchain: str = ""
    version: str = field(default_factory=installed_version)
    problem: str = ""


@dataclass(frozen=True)
class Arrays:
    """Arrays of the data set ``key``, which are sent after a worker reported them as missing."""

    key: str
    sent: SentArrays


@dataclass(frozen=True)
class SentProblem(Problem):
    """A problem as a GPU's actor receives it: its JSON, its key and its operands."""

    json: Mapping[str, Any]
    text: str
    arrays: tuple[Operand, ...]

    @classmethod
    def of(cls, problem: Problem) -> SentProblem:
        """Convert a problem to a problem that can be sent to an actor."""
        return cls(problem.to_json(), problem.key(), problem.operands())

    def key(self) -> str:
        """Return the original problem's key."""
        return self.text

    def to_json(self) -> dict[str, Any]:
        """Return the original problem's JSON."""
        return dict(self.json)

    def operands(self) -> tuple[Operand, ...]:
        """Return the original problem's operands."""
        return self.arrays

    def random_inputs(self, seed: int) -> dict[str, Array]:
        """Raise TypeError, because the tuning process generates the inputs and sends them."""
        raise TypeError("only the tuning process generates the inputs")

    def reference(self, inputs: Mapping[str, Array]) -> dict[str, FloatArray]:
        """Raise TypeError, because the tuning process computes the reference and sends it."""
        raise TypeError("only the tuning process computes the reference")

    def tolerance(self, inputs: Mapping[str, Array]) -> dict[str, FloatArray]:
        """Raise TypeError, because the tuning process computes the tolerance and sends it."""
        raise TypeError("only the tuning process computes the tolerance")

    @property
    def flops(self) -> float:
        """Always 0, because an actor does not use the number of operations."""
        return 0.0


@dataclass(frozen=True)
class SentModule(Compiled):
    """A compiled kernel that contains the bytes of its cubin instead of the path of a file."""

    content: bytes = b""

    @classmethod
    def of(cls, compiled: Compiled) -> SentModule:
        """Copy a compiled kernel, and read its cubin from the file."""
        values = {f.name: getattr(compiled, f.name) for f in dataclasses.fields(Compiled)}
        return cls(**values, content=compiled.cubin)

    @property
    def cubin(self) -> bytes:
        """Bytes of the cubin."""
        return self.content


@dataclass(frozen=True)
class _SentKernel(GeneratedKernel):
    """A kernel that another process compiled. ``source`` is the digest of the compiled module, not CUDA C++."""

    module: SentModule | None = None


@dataclass(frozen=True)
class CandidateWork:
    """A candidate for a GPU: its problem, its launch and its module."""

    problem: SentProblem
    launch: Launch
    module: SentModule

    @property
    def candidate(self) -> Candidate:
        """Candidate for the local runner. Its kernel is ``module``, the module that was sent."""
        launch = {f.name: getattr(self.launch, f.name) for f in dataclasses.fields(Launch)}
        kernel = _SentKernel(source=self.module.digest, module=self.module, **launch)
        return Candidate(self.problem, Schedule("sent", ()), kernel)


class Missing(Exception):
    """A worker cannot compute some arrays of a data set. ``parts`` lists the kinds of these arrays."""

    def __init__(self, data: DataSet, parts: tuple[str, ...]) -> None:
        super().__init__(data, parts)
        self.data, self.parts = data, parts


class _SentReferences(References):
    """Arrays of the last few data sets, as sent by the tuning process. Thread-safe."""

    def __init__(self) -> None:
        super().__init__()
        self._sent_arrays: dict[str, SentArrays] = {}
        self._giving = threading.Lock()

    def give(self, arrays: Arrays) -> None:
        with self._giving:
            self._sent_arrays = {**dict(list(self._sent_arrays.items())[1 - DATA_SETS :]), arrays.key: arrays.sent}

    def known(self, data: DataSet) -> SentArrays:
        return self._sent_arrays.get(data.key, NOTHING_SENT)

    def computed(self, data: DataSet, parts: Sequence[str]) -> SentArrays:
        known = self.known(data)
        if missing := tuple(part for part in parts if part not in known.digests):
            raise Missing(data, missing)
        return known


class _SentPrograms:
    """Stand-in for a compile pool, which returns the modules that another process compiled."""

    def __init__(self, checks: SentModule) -> None:
        self.toolchain = checks.toolchain
        self._checks = checks

    def submit(self, kernel: GeneratedKernel, arch: str) -> Future[Compiled | CompileFailure]:
        done: Future[Compiled | CompileFailure] = Future()
        done.set_result(getattr(kernel, "module", None) or self._checks)
        return done


class GpuActor:
    """Actor that controls one GPU. Its methods are thread-safe."""

    def __init__(self, options: FleetOptions) -> None:
        self._options = options
        self._runner: CudaRunner | None = None
        self._references = _SentReferences()
        self._equipping = threading.Lock()

    def hello(self) -> Hello:
        """Query the GPU, and return a description of this actor and its GPU."""
        sys.path.extend(p for p in self._options.path if p not in sys.path)
        module, _, function = self._options.describe.partition(":")
        try:
            return Hello(getattr(importlib.import_module(module), function)())
        except (ValueError, ImportError) as error:
            return Hello(problem=str(error))

    def measure(self, device: Device, checks: SentModule, arrays: Arrays | None, work: CandidateWork) -> Any:
        """Measure one candidate on the GPU of this actor.

        Args:
            device: Device row of the GPU.
            checks: Compiled check kernels, which compare results.
            arrays: Arrays that the worker cannot compute; None if no arrays are sent with this call.
            work: The compiled candidate.

        Returns:
            The measurement, and the seconds for which the GPU was busy; or Missing, which names the arrays that this
            actor lacks.
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
        checks: SentModule,
        arrays: Arrays | None,
        works: Sequence[CandidateWork],
        options: Mapping[str, Any],
    ) -> tuple[Entrant, ...] | Missing:
        """Time candidates in alternation, all on the GPU of this actor.

        Args:
            device: Device row of the GPU.
            checks: Compiled check kernels, which compare results.
            arrays: Arrays that the worker cannot compute; None if no arrays are sent with this call.
            works: The compiled candidates.
            options: Options of ``CudaRunner.compare``.

        Returns:
            The entrants of the comparison; or Missing, which names the arrays that this actor lacks.
        """
        runner = self._equipped(device, checks, arrays)
        try:
            return runner.compare([work.candidate for work in works], **options)
        except Missing as missing:
            return missing

    def outputs(
        self, device: Device, checks: SentModule, arrays: Arrays | None, work: CandidateWork
    ) -> Mapping[str, Array] | Measurement | Missing:
        """Launch one candidate and return its outputs.

        Args:
            device: Device row of the GPU.
            checks: Compiled check kernels, which compare results.
            arrays: Arrays that the worker cannot compute; None if no arrays are sent with this call.
            work: The compiled candidate.

        Returns:
            As ``CudaRunner.outputs``; or Missing, which names the arrays that this actor lacks.
        """
        try:
            return self._equipped(device, checks, arrays).outputs(work.candidate)
        except Missing as missing:
            return missing

    def fingerprint(self, device: Device, checks: SentModule) -> dict[str, str]:
        """Return the fingerprint of the runner on this machine."""
        return self._equipped(device, checks, None).fingerprint()

    def _equipped(self, device: Device, checks: SentModule, arrays: Arrays | None) -> CudaRunner:
        if arrays is not None:
            self._references.give(arrays)
        with self._equipping:
            if self._runner is None:
                self._runner = CudaRunner(
                    device,
                    _SentPrograms(checks),
                    options=self._options.cuda,
                    worker_module=self._options.worker_module,
                    worker_env=dict(self._options.worker_env),
                    worker_path=self._options.path,
                    references=self._references,
                )
            return self._runner


class CompileActor:
    """Actor that controls one compiler, with the compile cache of its machine."""

    def __init__(self, options: FleetOptions) -> None:
        self._options = options
        self._pool: CompilePool | None = None

    def hello(self) -> Hello:
        """Start the compiler, and return a description of this actor."""
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

    def compile(self, headers: Headers, kernel: GeneratedKernel, arch: str) -> SentModule | CompileFailure:
        """Compile ``kernel``. Headers are passed separately, so that each machine receives them once."""
        assert self._pool is not None  # ``hello`` is always called first
        result = self._pool.compile(dataclasses.replace(kernel, headers=headers), arch)
        return result if isinstance(result, CompileFailure) else SentModule.of(result)
