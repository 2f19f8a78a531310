"""Run all checks and benchmarks that need a GPU, within a time limit.

    python -m benchmarks.gpu --minutes 25 --out OUT

These parts run in this order, or only those selected by ``--parts``:

- a probe of assumptions
- the tests marked gpu
- a comparison of candidates on the GPU and in the emulator
- random schedules, which must all be correct
- matmul shapes, compared with cuBLAS, torch and Triton
- the other operators

Operands are in DRAM, not in L2. For the comparison with cuBLAS, operands in L2 are measured too.
``docs/how-to/gpu-session.md`` describes the files in OUT. Earlier results in OUT are kept as ``results-N.json`` and
``table-N.txt``, and trials of a killed run are added to the recordings.

The exit status is 0 for success, and 2 for bad usage, such as a folder that cannot be written. It is 1, with one line
on stderr, if no GPU can be used, the GPU stopped responding, a check failed, or the run was interrupted.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import itertools
import json
import math
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from autosched.samplers import DEFAULT, sampler
from autosched.samplers.first_choices.portfolio import first_tried
from autosched.tuning.in_flight import InFlightLimit
from autosched.tuning.ledger import Generate, RunIdentity
from autosched.tuning.loop import Tuner, TunerParts
from autosched.tuning.near_winners import near_winners
from autosched.tuning.plan import SearchPlan
from autosched.tuning.result import TuneResult
from autosched.user_kernels.user_kernel import KernelSpec
from autosched.version import VERSION
from benchmarks.gpu import device_tests, probe
from benchmarks.gpu.agreement import AGREEMENT_PROBLEMS, agreement
from benchmarks.gpu.journal import Journal, read
from benchmarks.gpu.problems import SAMPLED, in_turns, matmuls, of_program, other_problems
from benchmarks.gpu.table import line, named, table
from cost_models.estimates import estimates_of
from measurements.compiler.cores import compile_workers
from measurements.compiler.pool import CompilePool, NvrtcMissing
from measurements.emulator import HostFailure, check_ready, emulate
from measurements.files.text import first_line
from measurements.runners.base import Candidate, Entrant, RunnerStopped
from measurements.runners.cuda.libraries.baselines import OTHER_BASELINES
from measurements.runners.cuda.runner import CudaOptions, CudaRunner, cuda_available, cuda_device
from measurements.trials import recording
from measurements.trials.measurement import Measurement, Status
from measurements.trials.recording import Recording
from measurements.trials.timing_statistics import Ratio, verdict
from measurements.trials.trial import Trial
from measurements.trials.vendor_library import is_library
from measurements.workers.worker import Worker, WorkerDied, WorkerTimeout
from search_spaces.catalogue import template, templates_for
from search_spaces.hardware.devices import Device
from search_spaces.launches.generated_kernel import GeneratedKernel as Compilable
from search_spaces.operators.problem import Problem
from search_spaces.search_task import SearchTask
from search_spaces.spaces.schedule import Schedule

ROOT = Path(__file__).resolve().parents[2]
FILES, FILE_BYTES = 4, 15 << 20  # maximum number and size of recording files, so that OUT has at most 8 files of 16 MiB

# The parts' shares of the total time. Time that a part does not use is added to the following parts.
SHARES = {"probe": 0.08, "tests": 0.15, "emulator": 0.07, "sampled": 0.15, "matmul": 0.45, "others": 0.15}
PARTS = tuple(SHARES)
RESERVE = 0.03  # share of the total time reserved for writing the last results
LEAST_SECONDS = 20.0  # minimum time per shape: if time is short, fewer shapes are tuned
REPORT_SECONDS = 5.0  # time in which interrupted tests can report the results so far
# Share of a shape's time for final comparisons. One half of it compares the finalists, and the other half compares the
# winner with libraries.
FINAL_SHARE = 0.25
# Entrants with which autosched's matmuls are compared, in addition to the library. A copy is not timed, because its
# time is a poor bound for a matmul.
MATMUL_ENTRANTS = ("cublaslt", "torch", "triton")
WARM_ENTRANTS = ("cublaslt",)  # entrants that are also measured with operands in L2


@dataclasses.dataclass(frozen=True)
class Plan:
    """Total ``seconds`` for ``parts``; maximum ``trials`` per shape; ``tests`` is the folder of the GPU tests."""

    seconds: float
    out: Path
    seed: int = 0
    trials: int = 2000
    rounds: int = 20
    tests: Path = ROOT / "tests" / "gpu"
    matmuls: tuple[tuple[str, Problem], ...] | None = None
    agreement: tuple[Problem, ...] = AGREEMENT_PROBLEMS
    sampled: tuple[Problem, ...] = SAMPLED
    per_problem: int = 4  # number of candidates per problem to run both on the GPU and in the emulator
    parts: tuple[str, ...] = PARTS
    own: tuple[tuple[str, Problem], ...] = ()  # problems of users' kernels, to be run instead of built-in operators


def _generate(problem: Problem, schedule: Schedule, device: Device) -> Compilable:
    return template(schedule.template).kernel(problem, schedule, device)


class Benchmark:
    """One run of the benchmark. ``runner`` measures kernels, and ``generate`` generates them."""

    def __init__(
        self,
        plan: Plan,
        device: Device,
        runner: CudaRunner,
        *,
        generate: Generate = _generate,
    ) -> None:
        self.plan, self.device, self.runner = plan, device, runner
        self._generate = generate
        self._began = time.monotonic()
        self._end = self._began + plan.seconds * (1.0 - RESERVE)
        self._file = 0
        self.failed = False
        plan.out.mkdir(parents=True, exist_ok=True)
        self._keep_earlier()
        self.results: dict[str, Any] = {
            "autosched": VERSION,
            "began": datetime.now(UTC).isoformat(timespec="seconds"),
            "minutes": plan.seconds / 60,
            "seed": plan.seed,
            "device": {},
            "left_out": [],
            "tests": None,
            "agreement": [],
            "sampled": [],
            "shapes": [],
            "stopped": "",
            "finished": None,
        }

    def run(self) -> int:
        """Run all parts of the plan, and return the exit status."""
        parts = self.plan.parts
        try:
            if "probe" in parts:
                self._probe(self._share("probe"))
            if "tests" in parts:
                self._tests(self._share("tests"))
            self.results["device"] = self.runner.fingerprint()
            if "emulator" in parts:
                self._agree(self._share("emulator"))
            if "sampled" in parts:
                self._sampled(self._share("sampled"))
            if "matmul" in parts:
                keep = self._share("others") if "others" in parts else 0.0
                shapes = self.plan.matmuls if self.plan.matmuls is not None else matmuls()
                self._shapes(shapes, self._end - keep, MATMUL_ENTRANTS)
            if "others" in parts:
                self._tune_other_operators()
        except RunnerStopped as error:
            self.results["stopped"] = str(error)
        except KeyboardInterrupt:
            self.results["stopped"] = "interrupted"
        self.results["finished"] = datetime.now(UTC).isoformat(timespec="seconds")
        self._write()
        print(table(self.results, self.device), flush=True)
        if self.results["stopped"]:
            print(f"benchmarks.gpu: stopped: {self.results['stopped']}", file=sys.stderr)
        elif self.failed:
            print("benchmarks.gpu: a check failed, see results.json", file=sys.stderr)
        return 1 if self.failed or self.results["stopped"] else 0

    # ---- parts ----

    def _probe(self, seconds: float) -> None:
        """Run ``probe``, and write its report as text and as JSON."""
        self._say(f"a check of assumptions, for at most {seconds:.0f} s")
        report = probe.probe(self.runner, self.device, time.monotonic() + seconds)
        text = probe.page(report, self.device)
        (self.plan.out / "probe.json").write_text(json.dumps(report, indent=1) + "\n")
        (self.plan.out / "probe.txt").write_text(text + "\n")
        print(text, flush=True)
        for reason in report["left_out"]:
            self._leave_out(f"of the probe: {reason}")

    def _tune_other_operators(self) -> None:
        """Tune the shapes of all operators except matmul, or of users' kernels."""
        shapes: list[tuple[str, Problem]] = []
        for name, problem in self.plan.own or other_problems():
            if isinstance(problem, str):
                self._leave_out(f"the operator {name}: {problem}")
            else:
                shapes.append((name, problem))
        self._shapes(shapes, self._end, OTHER_BASELINES)

    def _tests(self, seconds: float) -> None:
        """Run the tests marked gpu in a separate process.

        When the time is over, the process is interrupted as by Ctrl-C, so that it reports its results. If it does not
        end soon, it is killed.
        """
        if importlib.util.find_spec("pytest") is None:
            return self._leave_out("the tests: pytest is not installed")
        out = self.plan.out.resolve()
        ini = out / "pytest.ini"
        ini.write_text(device_tests.ini(ROOT))
        xml = out / "gpu-tests.xml"
        xml.unlink(missing_ok=True)
        arguments = [str(self.plan.tests), "-m", "gpu", "-q", "-c", str(ini), "--rootdir", str(ROOT)]
        arguments += ["-p", "no:cacheprovider", "--import-mode=importlib", f"--junitxml={xml}"]
        log = str(out / "gpu-tests.log")
        request = {"arguments": arguments, "folder": str(ROOT), "log": log, "seconds": seconds}
        self._say(f"tests marked gpu, for at most {seconds:.0f} s")
        row: dict[str, Any] = {"timed_out": False, "returncode": None}
        with Worker(device_tests.MODULE) as worker:
            try:
                row |= worker.request(request, seconds + min(REPORT_SECONDS, seconds))
            except WorkerTimeout:
                row["timed_out"] = True
            except WorkerDied as error:
                row["returncode"] = error.returncode
            finally:
                ini.unlink()
        row |= device_tests.counts(xml)
        self.results["tests"] = row
        if row["timed_out"]:  # the exit status only says that the process was interrupted
            self.failed |= row["failed"] > 0
            self._leave_out("some of the tests: no time was left")
        else:
            self.failed |= row["returncode"] not in (0, 5)  # exit status 5 of pytest: no test was selected
        self._write()

    def _agree(self, seconds: float) -> None:
        """Run the same candidates on the GPU and in the emulator, on the same inputs."""
        try:
            check_ready()
        except HostFailure as error:
            return self._leave_out(f"the emulator: {error}")
        until, late = time.monotonic() + seconds, "some comparisons with the emulator: no time was left"
        self._say(f"the GPU against the emulator, for at most {seconds:.0f} s")
        sampled = [
            [
                (p, s)
                for s in templates_for(p, self.device)
                .space(p, self.device)
                .sample(self.plan.per_problem, self.plan.seed)
            ]
            for p in self.plan.agreement
        ]
        for problem, schedule in in_turns(sampled):  # alternate problems, so that a short run covers every problem
            if time.monotonic() > until:
                return self._leave_out(late)
            try:
                row = self._agreed(problem, schedule, until)
            except ValueError as error:
                return self._leave_out(f"the emulator: {error}")
            if row is None:
                return self._leave_out(late)
            self.results["agreement"].append(row)
            self.failed |= not row["agrees"]
            self._write()

    def _agreed(self, problem: Problem, schedule: Schedule, until: float) -> dict[str, Any] | None:
        """Return whether the GPU and the emulator agree on one candidate, or None if the emulator ran out of time.

        Raises:
            ValueError: The candidate has no kernel.
        """
        kernel = self._generate(problem, schedule, self.device)
        ran = self.runner.outputs(Candidate(problem, schedule, kernel))
        row = {
            "problem": problem.to_json(),
            "template": schedule.template,
            "schedule": schedule.to_json(),
            "agrees": False,
            "reason": "",
        }
        if isinstance(ran, Measurement):
            return row | {"reason": f"{ran.status.value} on the GPU: {ran.reason}"}
        inputs = problem.random_inputs(self.runner.options.seed)
        emulated = emulate(kernel, inputs, time_limit=max(until - time.monotonic(), 1.0))
        # the emulator timed out on a slow kernel; an endless wait would have been a finding
        if emulated.status == "timeout":
            return None
        if emulated.status not in ("ok", "findings"):
            return row | {"reason": f"{emulated.status} in the emulator: {emulated.reason}"}
        return row | agreement(problem, inputs, ran, emulated.outputs)

    def _sampled(self, seconds: float) -> None:
        """Measure random schedules, which were not selected by a search, and check that their results are correct."""
        until = time.monotonic() + seconds
        problems = self.plan.sampled
        for i, problem in enumerate(problems):
            left = until - time.monotonic()
            if left < 0:
                self._leave_out(f"{named('sampled', problem)}: no time was left")
                continue
            self._say(f"{named('sampled', problem)}, for {left / (len(problems) - i):.0f} s")
            path = self.plan.out / f"trials-sampled-{i}.jsonl"
            journal = Journal(path)
            try:
                result = self._tuned(problem, left / (len(problems) - i), until, journal, "random", 0.0)
            finally:
                journal.close()
                self._record(journal.appended, path)
            wrong = [r for r in journal.appended if r.measurement.status is Status.WRONG_RESULT]
            self.failed |= bool(wrong)
            self.results["sampled"].append(
                {
                    "problem": problem.to_json(),
                    "trials": len(result.trials),
                    "failures": result.failures,
                    "wrong": [
                        {"template": r.schedule.template, "schedule": r.schedule.to_json()}
                        | {"reason": r.measurement.reason}
                        for r in wrong
                    ],
                }
            )
            self._write()
            if result.stopped:
                raise RunnerStopped(result.stopped)
            if result.interrupted:
                raise KeyboardInterrupt

    def _shapes(self, shapes: Sequence[tuple[str, Problem]], until: float, entrants: tuple[str, ...]) -> None:
        """Tune each shape in an equal share of the remaining time, and compare it with the library and ``entrants``."""
        least = min(LEAST_SECONDS, 0.1 * self.plan.seconds)
        for i, (purpose, problem) in enumerate(shapes):
            left = until - time.monotonic()
            seconds = max(left / (len(shapes) - i), least)
            if left < least:
                self._leave_out(f"{named(purpose, problem)}: no time was left")
                continue
            self._say(f"{named(purpose, problem)}, for {seconds:.0f} s")
            row = self._shape(purpose, problem, seconds, until, entrants)
            for why in self.runner.cpu_references:
                self._leave_out(f"references on the GPU (computed on the CPU instead): {why}")
            self.results["shapes"].append(row)
            self._write()
            print(f"    {line(row)}", flush=True)

    def _shape(
        self, purpose: str, problem: Problem, seconds: float, until: float, entrants: tuple[str, ...]
    ) -> dict[str, Any]:
        began = time.monotonic()
        path = self.plan.out / f"trials-{len(self.results['shapes'])}.jsonl"
        journal = Journal(path)
        try:
            result = self._tuned(problem, seconds, until, journal)
            row = self._row(purpose, problem, result)
            if result.stopped:
                raise RunnerStopped(result.stopped)
            if result.interrupted:
                raise KeyboardInterrupt
            if result.best is not None:
                row["compared"] = self._compared(result, entrants)
                warm = tuple(name for name in entrants if name in WARM_ENTRANTS)
                row["compared_warm"] = self._compared(result, warm, warm_cache=True)
            row["seconds"] = time.monotonic() - began
            return row
        finally:
            journal.close()
            self._record(journal.appended, path)

    def _tuned(
        self,
        problem: Problem,
        seconds: float,
        until: float,
        journal: Journal,
        how: str = DEFAULT,
        final_share: float = FINAL_SHARE,
    ) -> TuneResult:
        """Tune for ``seconds``, but at most until ``until``, with the sampler ``how``."""
        templates = templates_for(problem, self.device)
        space = templates.space(problem, self.device)
        task = SearchTask(problem, self.device, templates, space)
        estimates = estimates_of(task)
        tuner = Tuner(
            TunerParts(
                RunIdentity.of(task, self.runner.provenance, None, self.plan.seed),
                self.runner,
                journal,
                first_tried(
                    sampler(how, space, seed=self.plan.seed, estimates=estimates),
                    space,
                    estimates,
                    lambda: near_winners(problem, self.device, None),
                ),
                generate=self._generate,
                complexity=task.num_changed,
                in_flight=InFlightLimit(compilers=os.cpu_count() or 1),
            )
        )
        # On a new machine, cupy compiles kernels for the first reference of a type, which takes up to half a minute.
        # This time does not count as search time of the shape.
        self._prepare(problem, space)
        seconds = min(seconds, max(until - time.monotonic(), 1.0))
        return tuner.run(
            SearchPlan(
                trials=self.plan.trials, seconds=seconds * (1.0 - final_share), final_seconds=seconds * final_share / 2
            )
        )

    def _prepare(self, problem: Problem, space: Any) -> None:
        """Make the runner prepare and cache a problem's inputs and references.

        Raises RunnerStopped. Other errors are ignored, because the trials report them again.
        """
        try:
            schedule = space.sample(1, self.plan.seed)[0]
            self.runner.outputs(Candidate(problem, schedule, self._generate(problem, schedule, self.device)))
        except RunnerStopped:
            raise
        except Exception as error:
            self._say(f"not prepared: {first_line(error)}")

    def _row(self, purpose: str, problem: Problem, result: TuneResult) -> dict[str, Any]:
        row: dict[str, Any] = {
            "purpose": purpose,
            "problem": problem.to_json(),
            "trials": len(result.trials),
            "failures": result.failures,
            "best": None if result.best is None else result.best.to_json(),
            "screened": min((r.seconds for r in result.trials if r.seconds is not None), default=None),
            "remeasured": None,
            "compared": {},
            "compared_warm": {},
        }
        if result.remeasured is not None:
            remeasured = result.remeasured
            row["remeasured"] = {
                "clear": remeasured.clear,
                "rounds": remeasured.rounds,
                "entrants": len(remeasured.standings),
            }
            row["remeasured"]["failed"] = [f"{p.entrant.status.value}: {p.entrant.reason}" for p in remeasured.failed]
        if result.best is not None and result.best.seconds is not None:
            row["flops_per_second"] = problem.flops / result.best.seconds
            row["bytes_per_second"] = problem.min_bytes / result.best.seconds
        return row

    def _compared(
        self, result: TuneResult, entrants: tuple[str, ...], *, warm_cache: bool | None = None
    ) -> dict[str, Any]:
        """Return the winner's time divided by the times of the library and of ``entrants``, measured alternately.

        Operands are in DRAM as in tuning, or in L2 with ``warm_cache``. Entrants that are not available are reported.
        """
        if result.best is None:
            return {}
        schedule, problem = result.best.schedule, result.problem
        if is_library(schedule):  # the library won: compare with the fastest schedule of autosched instead
            if result.remeasured is None or not result.remeasured.standings:
                return {}
            schedule = result.entrants[result.remeasured.standings[0].position]
        candidate = Candidate(problem, schedule, self._generate(problem, schedule, self.device))
        winner, *baselines = self.runner.compare(
            [candidate], rounds=self.plan.rounds, library=True, other_baselines=entrants, warm_cache=warm_cache
        )
        compared = {
            name: _against(winner, entrant) for name, entrant in zip(("library", *entrants), baselines, strict=True)
        }
        for name, comparison in compared.items():
            if comparison["ratio"] is None:
                self._leave_out(f"the comparison with {name}: {comparison['reason']}")
        return compared

    # ---- what is written ----

    def _keep_earlier(self) -> None:
        """Preserve the files of an earlier run in the folder."""
        out = self.plan.out
        number = next(n for n in itertools.count(1) if not list(out.glob(f"*-{n}.json")))
        for name in ("results.json", "table.txt"):
            if (out / name).exists():
                (out / name).replace(out / f"{Path(name).stem}-{number}{Path(name).suffix}")
        for path in sorted(out.glob("trials-*.jsonl")):
            self._record(read(path), path)

    def _record(self, trials: Sequence[Trial], path: Path) -> None:
        """Move a shape's trials to a recording file of limited size."""
        recordings = Recording.of(trials)
        if recordings:
            target = self._recordings(self._file)
            if target.exists() and target.stat().st_size > FILE_BYTES * 0.8:
                self._file += 1
                target = self._recordings(self._file)
            if self._file >= FILES:
                self._leave_out(f"the recording of {path.name}: all recording files are full")
                return
            recording.append(target, recordings)
        path.unlink()

    def _recordings(self, number: int) -> Path:
        return self.plan.out / f"recordings-{number}{recording.SUFFIX}"

    def _share(self, part: str) -> float:
        """Return the seconds available to one part."""
        share = SHARES[part] / sum(SHARES[p] for p in self.plan.parts)
        return max(min(share * (1.0 - RESERVE) * self.plan.seconds, self._end - time.monotonic()), 1.0)

    def _leave_out(self, reason: str) -> None:
        """Record and print why something was skipped; do nothing if this reason was already recorded."""
        if reason not in self.results["left_out"]:
            self.results["left_out"].append(reason)
            self._say(f"left out: {reason}")

    def _say(self, line: str) -> None:
        print(f"[{time.monotonic() - self._began:6.0f} s] {line}", flush=True)

    def _write(self) -> None:
        for name, text in (
            ("results.json", json.dumps(self.results, indent=1)),
            ("table.txt", table(self.results, self.device)),
        ):
            temporary = self.plan.out / f".{name}"
            temporary.write_text(text + "\n")
            temporary.replace(self.plan.out / name)


def _against(winner: Entrant, other: Entrant) -> dict[str, Any]:
    for entrant in (winner, other):
        if entrant.status is not Status.OK:
            return {"ratio": None, "reason": entrant.reason}
    ratio = Ratio.paired(winner.seconds, other.seconds)
    median = statistics.median(other.seconds)
    return {"ratio": dataclasses.asdict(ratio), "verdict": verdict(ratio).value, "seconds": median, "reason": ""}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, required=True, help="total time limit")
    parser.add_argument("--out", type=Path, required=True, help="folder for the results, created if missing")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--trials", type=int, default=2000, help="maximum number of trials per shape (default 2000)")
    parser.add_argument(
        "--kernel", nargs="+", default=(), metavar="FILE", help="measure only the kernels of these files"
    )
    parser.add_argument(
        "--program", metavar="FILE[:NAME]", help="measure only this tile program, at the sizes given by --size"
    )
    parser.add_argument(
        "--size", action="append", default=[], metavar="NAME=N", help="with --program: a size of the program"
    )
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="parts to run (default: all)")
    parsed = parser.parse_args(arguments)
    if not (parsed.minutes > 0 and math.isfinite(parsed.minutes)):
        parser.error(f"--minutes must be positive, not {parsed.minutes}")
    if parsed.seed < 0 or parsed.trials < 1:
        parser.error("--seed must be at least 0 and --trials at least 1")
    try:
        kernels = [KernelSpec.from_file(path) for path in parsed.kernel]
        for kernel in kernels:
            kernel.register()
        own = [(kernel.file.name, problem) for kernel in kernels for problem in kernel.problems]
        if parsed.program is not None:
            own.append(of_program(parsed.program, parsed.size))
        elif parsed.size:
            parser.error("--size requires --program FILE[:NAME]")
    except ValueError as error:
        parser.error(str(error))
    began = time.monotonic()
    answers, why = cuda_available()
    if not answers:
        print(f"benchmarks.gpu: no GPU can be used: {why}", file=sys.stderr)
        return 1
    try:
        device = cuda_device()
        pool = CompilePool(workers=compile_workers(1))
    except (ValueError, NvrtcMissing) as error:
        print(f"benchmarks.gpu: nothing can be run: {error}", file=sys.stderr)
        return 1
    try:
        parsed.out.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=parsed.out).close()
    except OSError as error:
        parser.error(f"--out {parsed.out} cannot be written ({error.strerror})")
    for number in (signal.SIGTERM, signal.SIGHUP):  # handle like Ctrl-C: write trials in flight, then end
        signal.signal(number, signal.default_int_handler)
    seconds = parsed.minutes * 60 - (time.monotonic() - began)
    with pool:
        # no winner takes longer than a second, and a kernel that hangs must not cost a short run much time
        options = CudaOptions(seed=parsed.seed, launch_limit=1.0)
        runner = CudaRunner(device, pool, options=options)
        try:
            parts = ("others",) if own else tuple(parsed.parts)
            plan = Plan(seconds, parsed.out, seed=parsed.seed, trials=parsed.trials, parts=parts, own=tuple(own))
            return Benchmark(plan, device, runner).run()
        except OSError as error:
            print(f"benchmarks.gpu: {parsed.out} cannot be written ({error}); its files are unchanged", file=sys.stderr)
            return 1
        finally:
            runner.close()


if __name__ == "__main__":
    sys.exit(main())
