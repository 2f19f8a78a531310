"""Measure on local GPUs. Compilers fill a queue of kernels, which one worker process per GPU verifies and times.

This process does not use CUDA itself, so failures of a GPU do not affect it.
"""

from __future__ import annotations

import dataclasses
import json
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from measurements.compiler.cubin_cache import Compiled
from measurements.compiler.pool import CompileFailure, Compiler
from measurements.files.text import one_line
from measurements.runners.base import Candidate, Entrant, RunnerStopped, runnable
from measurements.runners.cuda import check_kernels
from measurements.runners.cuda.device import WORKER_MODULE, cuda_available, cuda_count, cuda_device
from measurements.runners.cuda.libraries.baselines import OTHER_BASELINES
from measurements.runners.cuda.race import RaceRule
from measurements.runners.cuda.references import PARTS, DataSet, References
from measurements.runners.cuda.requests import (
    Compare,
    Incumbent,
    Measure,
    Open,
    Outputs,
    Prepare,
    SentKernel,
    to_message,
)
from measurements.runners.cuda.supervisor import Outcome, Supervisor, TimeLimits
from measurements.runners.streams import Call, PoolRunner, PoolStream
from measurements.trials.comparison import check
from measurements.trials.measurement import Measurement, Provenance, Status, Timing
from measurements.trials.policy import Policy, described
from measurements.trials.timing_statistics import StopRule
from measurements.workers.messages import Message
from measurements.workers.transport import WorkerClosed
from measurements.workers.worker import Worker
from search_spaces.arrays import Array
from search_spaces.hardware.devices import Device
from search_spaces.launches.launch import operand_json
from search_spaces.operators.problem import Problem

__all__ = ["CudaOptions", "CudaRunner", "Entrant", "cuda_available", "cuda_count", "cuda_device"]


_CLOCK_TOLERANCE = 0.03  # allowed deviation from a locked clock, as a fraction; GPUs change clocks in steps of 15 MHz


@dataclass(frozen=True)
class CudaOptions:
    """Options of measurements.

    Attributes:
        policy: Timing policy. If the policy is a cold L2 cache, launches rotate over buffers of twice the L2 cache's
            size. If the policy locks the clock, times at another clock are rejected.
        launch_limit: Time limit of a launch, in seconds.
        graph_below: Launches shorter than this, in seconds, are timed in a CUDA graph. In comparisons, ten times this
            value applies.
        seed: Seed of the inputs.
        power: If True, also measure the GPU's power, which takes one additional second per candidate.
        race: Rule for timing each candidate in pairs with the fastest so far; if None, each candidate is timed alone.
    """

    rule: StopRule = field(default_factory=StopRule)
    limits: TimeLimits = field(default_factory=TimeLimits)
    launch_limit: float = 5.0
    graph_below: float = 1e-3
    policy: Policy = field(default_factory=Policy)
    seed: int = 0
    power: bool = False
    race: RaceRule | None = field(default_factory=RaceRule)


class CudaRunner(PoolRunner):
    """Measure on GPUs of one model. After RunnerStopped, the runner is unusable.

    Kernels that compile to the same module are measured once. The first candidate of a problem is timed alone. Each
    later candidate is timed in pairs with the fastest candidate so far. The times of the later candidate are the ratios
    of these pairs, multiplied by the fastest candidate's median. The ratios hardly depend on the GPU's clock.

    Args:
        device: Device row of the GPUs.
        compile_pool: Compilers. The caller closes this pool.
        gpus: CUDA indices of the GPUs.
        options: Timing options; None for the defaults.
        worker_module: Module of the processes that own a GPU.
        worker_env: Environment variables to add in these processes.
        worker_path: Folders to add to the ``sys.path`` of these processes.
        references: Provides the arrays that a worker cannot compute; None for the default.

    Raises:
        ValueError: ``gpus`` is empty or contains a GPU twice.
    """

    name = "cuda"
    provenance = Provenance.MEASURED

    def __init__(
        self,
        device: Device,
        compile_pool: Compiler,
        *,
        gpus: Sequence[int] = (0,),
        options: CudaOptions | None = None,
        worker_module: str = WORKER_MODULE,
        worker_env: Mapping[str, str] | None = None,
        worker_path: Sequence[str] = (),
        references: References | None = None,
    ) -> None:
        """Create the runner; see the class for the arguments."""
        if not gpus or len(set(gpus)) != len(gpus):
            raise ValueError(f"gpus must contain at least one GPU and no GPU twice, got {list(gpus)}")
        self.device = device
        self.options = options or CudaOptions()
        self._pool = compile_pool
        self._gpus = tuple(gpus)
        self._references = references or References()
        self._why_references: dict[str, None] = {}
        self._tasks: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._known: dict[tuple[object, ...], Measurement] = {}
        self._fastest: dict[str, _Fastest] = {}  # fastest candidate so far, by data set
        self._calls: set[Call] = set()
        self._closed = False

        self._workers = [Worker(worker_module, env=worker_env, python_path=worker_path) for _ in gpus]
        self._supervisors: dict[int, Supervisor] = {}
        self._threads: list[threading.Thread] = []
        self._checks: Future[Compiled | CompileFailure] | None = None

    def describe(self) -> str:
        """Return one line on the GPUs, the timing policy and the compiler."""
        count = f"{len(self._gpus)} x {self.device.name}" if len(self._gpus) > 1 else self.device.name
        row = f"; its row is {self.device.note}" if self.device.derived else ""
        timed = f"candidates run on {count} and are verified and timed {described(self.options.policy)}"
        return f"backend cuda: {timed}, compiled by {self._toolchain}{row}"

    def fingerprint(self) -> dict[str, str]:
        """Return the fingerprint, querying the first GPU if necessary. Raises RunnerStopped if it does not respond."""
        known = (s.info for s in self._supervisors.values() if s.info)
        answer = next(known, None) or self._ask(lambda supervisor: supervisor.ensure_healthy())
        return {
            "device": self.device.name,
            **({"derived": self.device.note} if self.device.derived else {}),
            "name": str(answer["name"]),
            "sm": self.device.arch,
            "sm_count": str(answer["attributes"]["MultiProcessorCount"]),
            "memory_bytes": str(answer["memory_bytes"]),
            "driver": str(answer["driver"]) or f"CUDA {answer['cuda_driver']}",
            "cuda": str(answer["cuda_runtime"]),
            "cupy": str(answer["cupy"]),
            "toolchain": self._toolchain,
            "cache": self.options.policy.cache,
            "launch": self.options.policy.launch,
            "clocks": self.options.policy.clocks,
        }

    def stream(self) -> PoolStream:
        """Return an empty stream. Iterating over it raises RunnerStopped if the GPU no longer responds."""
        stream = PoolStream(self._pool, self.device.arch, self._compiled, closed=self._forget)
        self._register(stream)
        return stream

    def compare(
        self,
        candidates: Sequence[Candidate],
        *,
        rounds: int = 20,
        library: bool = True,
        other_baselines: Sequence[str] = (),
        seed: int | None = None,
        warm_cache: bool | None = None,
    ) -> tuple[Entrant, ...]:
        """Time candidates of one problem, the vendor's library and other baselines in alternation.

        Each candidate is verified first, on inputs with a seed that ``measure`` does not use.

        Args:
            candidates: One or more candidates of the same problem.
            rounds: Number of times that each candidate is timed.
            library: If True, the vendor's library is also timed.
            other_baselines: Names of further baselines (``OTHER_BASELINES`` in libraries/baselines.py).
            seed: Seed of the inputs and of the order in each round; None for the default.
            warm_cache: If True, operands may be in the L2 cache; None for the policy of ``options``.

        Returns:
            An entrant for each candidate and each baseline. Entrants that failed have no times.

        Raises:
            ValueError: There are no candidates, or candidates of several problems; or ``rounds`` is below 1, or a name
                in ``other_baselines`` is unknown.
            RunnerStopped: The GPU can no longer be used.
        """
        unknown = sorted(set(other_baselines) - set(OTHER_BASELINES))
        if unknown:
            raise ValueError(f"unknown baselines {', '.join(unknown)}: use {', '.join(OTHER_BASELINES)}")
        if not candidates or rounds < 1 or len({c.problem.key() for c in candidates}) != 1:
            raise ValueError("a comparison needs candidates of one problem and at least one round")
        compiled = [
            runnable(c, future.result(), self.device, self.provenance)
            for c, future in [(c, self._pool.submit(c.kernel, self.device.arch)) for c in candidates]
        ]
        problem = candidates[0].problem
        data = self._data_key(problem, self.options.seed + 1 if seed is None else seed, warm_cache)
        baselines = [*(["library"] if library else []), *other_baselines]
        able = [i for i, program in enumerate(compiled) if isinstance(program, Compiled)]

        def run(supervisor: Supervisor) -> Outcome:
            programs = [(i, program) for i, program in enumerate(compiled) if isinstance(program, Compiled)]
            kernels = [_sent(candidates[i], program) for i, program in programs]
            request = Compare(data.key, kernels, rounds, baselines, self.options.launch_limit, self._graph_below)
            limit = self.options.limits.candidate * (len(able) + len(baselines) + 1)
            message = to_message(request, {program.digest: program.cubin for _, program in programs})
            return supervisor.run(data.key, partial(self._prepare, data), message, limit)

        outcome: Outcome = self._ask(run)
        self._refuse_other_clock(outcome.answer.get("clock_mhz"))
        answers = outcome.answer.get("entrants", [])
        entrants = []
        for i, program in enumerate(compiled):
            if isinstance(program, Measurement):
                entrants.append(Entrant(f"candidate {i}", program.status, program.reason, ()))
            else:
                entrants.append(_entrant(f"candidate {i}", answers, able.index(i), outcome))
        for i, name in enumerate(baselines):
            entrants.append(_entrant(name, answers, len(able) + i, outcome))
        return tuple(entrants)

    def outputs(self, candidate: Candidate) -> dict[str, npt.NDArray[Any]] | Measurement:
        """Launch once on the inputs of ``options.seed`` and return the unverified outputs, or a failed measurement.

        Outputs are arrays by name, in the types in which they are stored on the GPU.

        Raises:
            RunnerStopped: The runner was stopped.
        """
        program = runnable(
            candidate,
            self._pool.submit(candidate.kernel, self.device.arch).result(),
            self.device,
            self.provenance,
        )
        if isinstance(program, Measurement):
            return program
        ready, data = program, self._data_key(candidate.problem, self.options.seed)

        def run(supervisor: Supervisor) -> Outcome:
            return supervisor.run(data.key, partial(self._prepare, data), self._of_outputs(candidate, ready, data))

        outcome: Outcome = self._ask(run)
        if outcome.status is not Status.OK:
            return Measurement(outcome.status, self.provenance, outcome.reason)
        return _outputs(candidate, outcome)

    def close(self) -> None:
        """End the workers and every iteration. Safe to call twice and from any thread."""
        with self._lock:
            self._closed = True
            calls = list(self._calls)
        for call in calls:
            call.over = True
            call.results.put(None)
        for worker in self._workers:
            worker.close()
        for _ in self._threads:
            self._tasks.put(None)
        for thread in self._threads:
            thread.join(timeout=10.0)
        # closed last, because a running thread could still compute references
        if not any(thread.is_alive() for thread in self._threads):
            self._references.close()

    @property
    def pids(self) -> tuple[int, ...]:
        """Process ids of the running GPU workers."""
        return tuple(w.pid for w in self._workers if w.pid is not None)

    @property
    def restarts(self) -> int:
        """Number of times that a GPU worker was restarted."""
        return sum(s.restarts for s in self._supervisors.values())

    @property
    def cpu_references(self) -> tuple[str, ...]:
        """Reasons why references were computed on the CPU, which is slow; empty if the GPU computed all references."""
        return tuple(self._why_references)

    @property
    def _toolchain(self) -> str:
        return self._pool.toolchain

    # ---- the pipeline ----

    def _register(self, call: Call) -> None:
        """Register a call, so that the GPU threads work on its tasks."""
        with self._lock:
            if self._closed:
                raise RuntimeError("the runner is closed")
            self._calls.add(call)
            if not self._threads:
                # Compiled first, because each GPU thread waits for the check kernels.
                self._checks = self._pool.submit(check_kernels.KERNEL, self.device.arch)
                self._threads = [
                    threading.Thread(target=self._serve_gpu, args=(i,), name=f"gpu {gpu}", daemon=True)
                    for i, gpu in enumerate(self._gpus)
                ]
                for thread in self._threads:
                    thread.start()

    def _ask(self, work: Callable[[Supervisor], Any]) -> Any:
        """Run ``work`` on any free GPU, and return its result or raise its exception."""
        call = Call()
        self._register(call)
        try:
            self._tasks.put(_Task(call, work))
            result = call.results.get()
        finally:
            call.over = True
            self._forget(call)
        if result is None:
            raise RuntimeError("the runner was closed")
        if isinstance(result, BaseException):
            raise result
        return result

    def _forget(self, call: Call) -> None:
        with self._lock:
            self._calls.discard(call)

    def _compiled(
        self, stream: PoolStream, position: int, candidate: Candidate, result: Compiled | CompileFailure
    ) -> None:
        """Queue a compiled kernel for the GPUs, or report a failed compilation to the caller."""
        program = runnable(candidate, result, self.device, self.provenance)
        if isinstance(program, Measurement):
            stream.results.put((position, program, 0.0))
            return
        ready = program

        def work(supervisor: Supervisor) -> tuple[int, Measurement, float]:
            began = time.monotonic()
            measurement = self._measured(supervisor, candidate, ready)
            return position, measurement, time.monotonic() - began

        self._tasks.put(_Task(stream, work))

    def _serve_gpu(self, which: int) -> None:
        """Work on the tasks of one GPU until the runner stops. Each GPU has one thread, which runs this function."""
        while (task := self._tasks.get()) is not None:
            if task.call.over:
                continue
            try:
                supervisor = self._supervisors.get(which) or self._supervise(which)
                task.call.results.put(task.work(supervisor))
            except (WorkerClosed, CancelledError):
                task.call.results.put(None)
            except BaseException as error:
                task.call.results.put(error)

    def _supervise(self, which: int) -> Supervisor:
        checks = self._checks.result() if self._checks is not None else None
        if not isinstance(checks, Compiled):
            reason = "none were compiled" if checks is None else checks.reason
            raise RunnerStopped(f"the check kernels do not compile: {reason}")
        opening = to_message(Open(self._gpus[which], checks.digest), {checks.digest: checks.cubin})
        self._supervisors[which] = Supervisor(self._workers[which], opening, self.options.limits)
        return self._supervisors[which]

    def _measured(self, supervisor: Supervisor, candidate: Candidate, program: Compiled) -> Measurement:
        options = self.options
        kernel = _sent(candidate, program)
        data = self._data_key(candidate.problem, options.seed)
        identity = (program.digest, json.dumps(kernel.launch), data.key)
        with self._lock:
            known = self._known.get(identity)
            fastest = self._fastest.get(data.key)
        if known is None and candidate.problem.checks_outputs:
            known = self._checked_outputs(supervisor, candidate, program, data)
        if known is None:
            race = None if options.power else options.race
            request = Measure(
                data.key,
                kernel,
                options.rule,
                best=None if fastest is None else fastest.seconds,
                launch_limit=options.launch_limit,
                graph_below=self._graph_below,
                power=options.power,
                incumbent=None if fastest is None or race is None else Incumbent(fastest.kernel, fastest.seconds, race),
            )
            blobs = {program.digest: program.cubin}
            if request.incumbent is not None and fastest is not None:
                blobs[fastest.program.digest] = fastest.program.cubin
            message = to_message(request, blobs)
            outcome = supervisor.run(data.key, partial(self._prepare, data), message)
            ok = outcome.status is Status.OK
            error, clock, watts = (outcome.answer.get(name) for name in ("error", "clock_mhz", "watts"))
            known = Measurement(
                outcome.status,
                self.provenance,
                outcome.reason,
                timing=Timing.of([float(t) for t in outcome.answer["seconds"]]) if ok else None,
                error=None if error is None else float(error),
                clock_mhz=None if clock is None else float(clock),
                watts=None if watts is None else float(watts),
            )
            self._refuse_other_clock(known.clock_mhz)
            with self._lock:
                self._known[identity] = known
                best = self._fastest.get(data.key)
                if known.timing is not None and (best is None or known.timing.median < best.seconds):
                    self._fastest[data.key] = _Fastest(known.timing.median, kernel, program)
        return dataclasses.replace(
            known, resources=program.resources, compile_seconds=program.compile_seconds, code=program.code
        )

    @property
    def _graph_below(self) -> float:
        return 0.0 if self.options.policy.launch == "eager" else self.options.graph_below

    def _refuse_other_clock(self, clock: float | None) -> None:
        """Raise RunnerStopped if the GPU's clock differs from the clock to which the policy locks it."""
        clock_mhz = self.options.policy.clock_mhz
        if clock_mhz is not None and clock is not None and abs(float(clock) / clock_mhz - 1.0) > _CLOCK_TOLERANCE:
            raise RunnerStopped(
                f"the GPU runs at {float(clock):g} MHz, not at {clock_mhz}: lock it (nvidia-smi -lgc "
                f"{clock_mhz}), or omit --clocks"
            )

    def _checked_outputs(
        self,
        supervisor: Supervisor,
        candidate: Candidate,
        program: Compiled,
        data: DataSet,
    ) -> Measurement | None:
        """Launch once; return a failed measurement if the problem's check rejects the outputs, otherwise None."""
        message = self._of_outputs(candidate, program, data)
        outcome: Outcome = supervisor.run(data.key, partial(self._prepare, data), message)
        if outcome.status is not Status.OK:
            return Measurement(outcome.status, self.provenance, outcome.reason)
        outputs = _outputs(candidate, outcome)
        wrong = check(candidate.problem, candidate.problem.random_inputs(data.seed), outputs).reason
        return Measurement(Status.WRONG_RESULT, self.provenance, wrong) if wrong else None

    def _of_outputs(self, candidate: Candidate, program: Compiled, data: DataSet) -> Message:
        request = Outputs(data.key, _sent(candidate, program), self.options.launch_limit)
        return to_message(request, {program.digest: program.cubin})

    def _data_key(self, problem: Problem, seed: int, warm_cache: bool | None = None) -> DataSet:
        warm = self.options.policy.cache == "warm" if warm_cache is None else warm_cache
        return DataSet(problem, seed, 0 if warm else 2 * self.device.l2_bytes)

    def _prepare(self, data: DataSet, answer: Mapping[str, Any] | None) -> Message:
        """Return the request that prepares ``data``, with the arrays that the worker cannot compute."""
        if answer is None:
            sent = self._references.known(data)
        else:
            self._why_references[str(answer.get("why", "no reason was given"))] = None
            sent = self._references.computed(data, [part for part in PARTS if part in answer["missing"]])
        request = Prepare(
            data.key,
            data.problem.to_json(),
            data.seed,
            operands=[operand_json(o) for o in data.problem.operands()],
            arrays=sent.digests,
            cold_bytes=data.cold_bytes,
        )
        return to_message(request, sent.blobs)


@dataclass(frozen=True)
class _Task:
    call: Call
    work: Callable[[Supervisor], Any]


@dataclass(frozen=True)
class _Fastest:
    """The fastest candidate of a data set so far; ``seconds`` is its median time."""

    seconds: float
    kernel: SentKernel
    program: Compiled


def _outputs(candidate: Candidate, outcome: Outcome) -> dict[str, Array]:
    """Return the outputs of one launch in the shapes of the candidate's operands. Further elements are dropped."""
    operands = {o.name: o for o in candidate.kernel.operands}
    blobs = outcome.answer.blobs if isinstance(outcome.answer, Message) else {}
    outputs = {}
    for name, digest in outcome.answer["outputs"].items():
        flat = np.frombuffer(blobs[digest], operands[name].dtype.storage, operands[name].size)
        outputs[name] = flat.reshape(operands[name].shape)
    return outputs


def _sent(candidate: Candidate, program: Compiled) -> SentKernel:
    """Return a compiled candidate in the format in which it is sent to the worker."""
    return SentKernel(program.digest, candidate.kernel.with_entries(program.entries).launch_json())


def _entrant(label: str, answers: Sequence[Mapping[str, Any]], position: int, outcome: Outcome) -> Entrant:
    if outcome.status is not Status.OK:
        return Entrant(label, outcome.status, outcome.reason, ())
    entrant = answers[position] if position < len(answers) else {}
    if not entrant or (entrant["status"] == Status.OK.value and not entrant["seconds"]):
        return Entrant(label, Status.CRASHED, "not timed, because another entrant crashed the GPU worker", ())
    seconds, error, clock = entrant["seconds"], entrant.get("error"), outcome.answer.get("clock_mhz")
    return Entrant(
        label,
        Status(entrant["status"]),
        one_line(entrant.get("reason", "")),
        tuple(float(t) for t in seconds),
        error=None if error is None else float(error),
        clock_mhz=None if clock is None else float(clock),
        version=one_line(str(entrant.get("version", ""))),
    )
