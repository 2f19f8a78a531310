"""Backend that measures on the GPUs of a Ray cluster, like ``CudaRunner`` on local GPUs."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from typing import Any

from measurements.compiler.cubin_cache import Compiled
from measurements.compiler.pool import CompileFailure, CompilePool
from measurements.runners.base import Candidate, Entrant, RunnerStopped, runnable
from measurements.runners.cuda import check_kernels
from measurements.runners.cuda.references import References, SentArrays
from measurements.runners.fleet.actors import Arrays, CandidateWork, Missing, SentModule, SentProblem
from measurements.runners.fleet.cluster import Fleet, stopped
from measurements.runners.fleet.dispatch import JobLost, WorkersLost
from measurements.runners.streams import PoolRunner, PoolStream
from measurements.trials.measurement import Measurement, Provenance, Status
from measurements.trials.policy import described
from search_spaces.arrays import Array
from search_spaces.hardware.devices import Device
from search_spaces.launches.launch import Launch
from search_spaces.operators.problem import Problem

_CHECKS_OUTPUTS = (
    "the kernel file's function that checks the outputs can only run in the tuning process: measure on one machine"
)


class FleetRunner(PoolRunner):
    """Runner on the GPUs of ``fleet`` whose kind is ``device``.

    The caller closes the fleet and the compile pool.
    """

    name = "ray"
    provenance = Provenance.MEASURED

    def __init__(self, fleet: Fleet, device: Device, pool: CompilePool) -> None:
        self.device = device
        self._fleet, self._pool = fleet, pool
        self._gpus = fleet.gpus(device)
        self._references = References()
        self._arrays: dict[str, Any] = {}  # references to arrays in Ray's object store, by data set
        self._computing = ThreadPoolExecutor(1, thread_name_prefix="references")
        self._lock = threading.Lock()
        self._streams: set[PoolStream] = set()
        self._checks: Any = None

    @property
    def gpus(self) -> int:
        """Number of GPUs that currently respond."""
        return self._gpus.members

    def describe(self) -> str:
        """Describe the cluster's GPUs, the timing policy and the compiler, in one line."""
        how = described(self._fleet.options.cuda.policy)
        where = f"{self.gpus} x {self.device.name} of the Ray cluster at {self._fleet.address}"
        run = f"candidates run on {where} and are verified and timed {how}"
        return f"backend ray: {run}, compiled by {self._pool.toolchain}"

    def fingerprint(self) -> dict[str, str]:
        """Return the fingerprint of any GPU that responds. Raises RunnerStopped."""
        checks = self._check_kernels()
        fingerprint: dict[str, str] = self._ask(lambda actor: actor.fingerprint.remote(self.device, checks))
        return {**fingerprint, "toolchain": self._pool.toolchain}

    def stream(self) -> PoolStream:
        """Return an empty stream. Iterating over it raises RunnerStopped if no GPU remains."""
        # called in this thread, because the threads that receive the cluster's replies must not block
        self._check_kernels()
        stream = PoolStream(self._pool, self.device.arch, self._compiled, closed=self._streams.discard)
        self._streams.add(stream)
        return stream

    def compare(
        self,
        candidates: Sequence[Candidate],
        *,
        rounds: int = 20,
        library: bool = True,
        other_baselines: Sequence[str] = (),
        seed: int | None = None,
    ) -> tuple[Entrant, ...]:
        """Time candidates in alternation on one GPU, as ``CudaRunner.compare`` does.

        If the GPU is lost, repeat on another GPU.

        Args:
            candidates: One or more candidates of the same problem.
            rounds: Number of times that each candidate is timed.
            library: If True, the vendor's library is also timed.
            other_baselines: Names of further baselines.
            seed: As in ``CudaRunner.compare``.

        Returns:
            An entrant for each candidate and each baseline.

        Raises:
            ValueError: As ``CudaRunner.compare``.
            RunnerStopped: No GPU of this kind remains.
        """
        compiled = [self._pool.submit(c.kernel, self.device.arch) for c in candidates]
        modules = [
            runnable(c, future.result(), self.device, self.provenance)
            for c, future in zip(candidates, compiled, strict=True)
        ]
        able = [i for i, module in enumerate(modules) if isinstance(module, Compiled)]
        options = {"rounds": rounds, "library": library, "other_baselines": tuple(other_baselines), "seed": seed}
        works = [self._work(candidates[i], modules[i]) for i in able]
        entrants: Sequence[Entrant] = self._answer(
            candidates[0].problem, "compare", lambda actor, *arguments: actor.compare.remote(*arguments, works, options)
        ).result()
        of_able = iter(entrants)
        first = [
            next(of_able) if isinstance(p, Compiled) else Entrant(f"candidate {i}", p.status, p.reason, ())
            for i, p in enumerate(modules)
        ]
        return (*first, *of_able)

    def outputs(self, candidate: Candidate) -> dict[str, Array] | Measurement:
        """Return the outputs of one launch, as ``CudaRunner.outputs`` does."""
        module = self._pool.submit(candidate.kernel, self.device.arch).result()
        ready = runnable(candidate, module, self.device, self.provenance)
        if isinstance(ready, Measurement):
            return ready
        work = self._work(candidate, ready)
        outputs: dict[str, Array] | Measurement = self._answer(
            candidate.problem, "outputs", lambda actor, *arguments: actor.outputs.remote(*arguments, work)
        ).result()
        return outputs

    def close(self) -> None:
        """End every iteration over results."""
        for stream in list(self._streams):
            stream.over = True
            stream.results.put(None)
        self._computing.shutdown(wait=False, cancel_futures=True)
        self._references.close()

    def _compiled(
        self, stream: PoolStream, position: int, candidate: Candidate, result: Compiled | CompileFailure
    ) -> None:
        module = runnable(candidate, result, self.device, self.provenance)
        if isinstance(module, Measurement):
            stream.results.put((position, module, 0.0))
            return
        if candidate.problem.checks_outputs:
            stream.results.put((position, Measurement(Status.CRASHED, self.provenance, _CHECKS_OUTPUTS), 0.0))
            return
        work = self._work(candidate, module)
        answer = self._answer(
            candidate.problem, "measure", lambda actor, *arguments: actor.measure.remote(*arguments, work)
        )

        def done(future: Future[Any]) -> None:
            try:
                measurement, seconds = future.result()
                stream.results.put((position, measurement, seconds))
            except CancelledError:
                stream.results.put(None)
            except BaseException as error:
                stream.results.put(error)

        answer.add_done_callback(done)

    def _work(self, candidate: Candidate, module: Compiled | Measurement) -> CandidateWork:
        assert isinstance(module, Compiled)
        kernel = candidate.kernel
        launch = Launch(**{name: getattr(kernel, name) for name in Launch.__dataclass_fields__})
        return CandidateWork(SentProblem.of(candidate.problem), launch, SentModule.of(module))

    def _check_kernels(self) -> Any:
        """Compile the check kernels for a GPU and put them into Ray's object store."""
        with self._lock:
            if self._checks is None:
                compiled = self._pool.submit(check_kernels.KERNEL, self.device.arch).result()
                if isinstance(compiled, CompileFailure):
                    raise RunnerStopped(f"the check kernels do not compile: {compiled.reason}")
                self._checks = self._fleet.put(SentModule.of(compiled))
            return self._checks

    def _answer(self, problem: Problem, method: str, call: Callable[..., Any]) -> Future[Any]:
        """Call any GPU and return its reply. If the GPU reports missing arrays, call it again with those arrays.

        If no GPU remains, the future raises RunnerStopped.
        """
        result: Future[Any] = Future()
        checks = self._check_kernels()

        def ask(arrays: Any) -> None:
            self._gpus.submit(lambda actor: call(actor, self.device, checks, arrays)).add_done_callback(done)

        def done(answer: Future[Any]) -> None:
            try:
                value = answer.result()
            except CancelledError:
                result.cancel()
            except JobLost as error:
                if method == "measure" and isinstance(error, WorkersLost):  # the candidate may have caused the losses
                    crashed = Measurement(Status.CRASHED, self.provenance, f"the GPU's machine: {error}")
                    result.set_result((crashed, 0.0))
                else:
                    result.set_exception(stopped(error))
            except BaseException as error:
                result.set_exception(error)
            else:
                if isinstance(value, Missing):
                    self._computing.submit(again, value)
                else:
                    result.set_result(value)

        def again(missing: Missing) -> None:
            try:
                ask(self._computed(problem, missing))
            except BaseException as error:
                result.set_exception(error)

        ask(self._known_arrays(problem))
        return result

    def _known_arrays(self, problem: Problem) -> Any:
        with self._lock:
            return self._arrays.get(problem.key())

    def _computed(self, problem: Problem, missing: Missing) -> Any:
        """Compute the arrays that a GPU reports as missing. Only one thread computes at a time."""
        data = dataclasses.replace(missing.data, problem=problem)
        sent = self._references.computed(data, missing.parts)
        plain = SentArrays(sent.digests, {digest: bytes(content) for digest, content in sent.blobs.items()})
        arrays = self._fleet.put(Arrays(data.key, plain))
        with self._lock:
            self._arrays[problem.key()] = arrays
        return arrays

    def _ask(self, call: Callable[[Any], Any]) -> Any:
        try:
            return self._gpus.submit(call).result()
        except JobLost as error:
            raise stopped(error) from error
