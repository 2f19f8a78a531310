"""Timed checks: where baselines come from, the reported cause of failures, and confirmation by a second process."""

from __future__ import annotations

import dataclasses
import itertools
import json
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import instant_compiler
import noisy_gpu
import numpy as np
import pytest
from needs import needs_nvrtc

from autosched.cli import main
from autosched.regression import check as guard
from autosched.regression.baselines import BaselineError, KnownPrograms
from autosched.regression.check import CheckOptions, selected, timed_on
from autosched.regression.procedure import ComparisonEffort
from autosched.regression.report import CheckReport, EntryStatus
from measurements.compiler.pool import CompileCache
from measurements.emulator import HostFailure
from measurements.runners.base import Candidate, Entrant, RunnerStopped
from measurements.runners.cuda.runner import CudaRunner
from measurements.store.store import Store
from measurements.trials.measurement import Provenance, Status, Timing
from measurements.trials.trial import Control, Trial
from measurements.trials.vendor_library import LIBRARY_SCHEDULE
from search_spaces.catalogue import template
from search_spaces.hardware.devices import device
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.schedule import Schedule

pytestmark = [needs_nvrtc]

H200 = device("h200")
PROBLEMS = [Matmul(m=64, n=64, k=64), Matmul(m=64, n=64, k=128), Matmul(m=64, n=128, k=64)]
OPTIONS = CheckOptions(effort=ComparisonEffort(rounds=20, most_rounds=60))

MakeTrial = Callable[..., Trial]
MakeDatabase = Callable[..., Path]


def digest(trial: Trial) -> str:
    return template("matmul").kernel(trial.problem, trial.schedule, H200).digest


class Gpu:
    """Fake GPU on which every program takes 1 ms.

    Args:
        slow: Slowdown factor by kernel digest. If it is a list, it has one dict for each process.
        fates: Failure status by kernel digest. A crash makes the whole comparison fail.
        library: Status of the vendor's library.
        position_factors: Slowdown factor for each position of a program within a comparison.
        stops_after: Number of comparisons after which the GPU stops.
        stop: Exception raised when the GPU stops.
    """

    def __init__(
        self,
        slow: dict[str, float] | list[dict[str, float]] | None = None,
        *,
        fates: dict[str, Status] | None = None,
        library: Status = Status.OK,
        position_factors: Sequence[float] = (1.0, 1.0, 1.0),
        stops_after: int = 10**9,
        stop: Exception | None = None,
    ) -> None:
        self.stop = stop or RunnerStopped("GPU 0 does not answer")
        self.slow, self.fates, self.library, self.position_factors = slow or {}, fates or {}, library, position_factors
        self.sessions, self.comparisons, self.stops_after = [], itertools.count(), stops_after
        self.seeds = itertools.count()

    def start(self) -> Gpu.Session:
        self.sessions.append(Gpu.Session(self, len(self.sessions)))
        return self.sessions[-1]

    class Session:
        def __init__(self, gpu: Gpu, number: int) -> None:
            self.gpu, self.number, self.closed = gpu, number, False
            self.compared: list[str] = []
            self.controls: list[str] = []

        def close(self) -> None:
            self.closed = True

        def compare(
            self,
            candidates: Sequence[Candidate],
            *,
            rounds: int = 20,
            library: bool = True,
            other_baselines: Sequence[str] = (),
            seed: int | None = None,
        ) -> tuple[Entrant, ...]:
            gpu = self.gpu
            if next(gpu.comparisons) >= gpu.stops_after:
                raise gpu.stop
            rng = np.random.default_rng(next(gpu.seeds))
            slow = gpu.slow[min(self.number, len(gpu.slow) - 1)] if isinstance(gpu.slow, list) else gpu.slow
            self.compared.append(candidates[0].problem.key())
            machine = 1e-3 * (1 + 0.1 * rng.random()) * (1 + 0.1 * np.linspace(0, 1, rounds))
            noise = lambda: np.exp(0.002 * rng.standard_normal(rounds))  # noqa: E731
            fates = [gpu.fates.get(c.kernel.digest, Status.OK) for c in candidates]
            down = Status.CRASHED in fates or (library and gpu.library is Status.CRASHED)
            entrants = []
            for position, (candidate, fate) in enumerate(zip(candidates, fates, strict=True)):
                status = Status.CRASHED if down else fate
                factor = slow.get(candidate.kernel.digest, 1.0) * gpu.position_factors[position]
                seconds = tuple(machine * factor * noise()) if status is Status.OK else ()
                entrants.append(Entrant(f"candidate {position}", status, "" if seconds else "on demand", seconds))
            for control in [*(["library"] if library else []), *other_baselines]:
                self.controls.append(control)
                status = Status.CRASHED if down else gpu.library if control == "library" else Status.OK
                seconds = tuple(2 * machine * noise()) if status is Status.OK else ()
                entrants.append(Entrant(control, status, "" if seconds else "on demand", seconds))
            return tuple(entrants)


@pytest.fixture(scope="module")
def programs() -> Iterator[KnownPrograms]:
    with KnownPrograms(workers=1) as known:
        yield known


@pytest.fixture
def run(programs: KnownPrograms) -> Callable[..., CheckReport]:
    def check(path: Path, gpu: Gpu, options: CheckOptions = OPTIONS) -> CheckReport:
        with Store.open(path, create=False) as store:
            selection = selected(store, options)
        return timed_on(str(path), selection, options, lambda note: None, H200, programs, gpu.start)

    return check


@pytest.fixture
def measured(make_trial: MakeTrial, schedules: list[Schedule]) -> Callable[..., Trial]:
    def make(schedule: int = 0, problem: int = 0, **more: Any) -> Trial:
        return make_trial(schedules[schedule], problem=PROBLEMS[problem], provenance=Provenance.MEASURED, **more)

    return make


def test_every_entry_is_reported_once(measured, database, programs: KnownPrograms) -> None:
    notes: list[str] = []
    other = dataclasses.replace(measured(), device="a100")
    with Store.open(database(measured(), measured(problem=1), other), create=False) as store:
        selection = selected(store, OPTIONS)
    timed_on("b.db", selection, OPTIONS, notes.append, H200, programs, Gpu().start)
    assert sorted(notes) == ["", "", "cannot compare"]


def test_current_kernels_are_compared_with_recorded_ones(run, measured, database) -> None:
    gpu = Gpu()
    report = run(database(measured(), measured(problem=1)), gpu)
    assert [f.verdict for f in report.findings] == [EntryStatus.SAME] * 2
    assert (report.status, len(gpu.sessions)) == (0, 1)
    first = report.findings[0]
    assert first.ratio is not None and first.ratio.low < 1 < first.ratio.high and first.ratio.pairs == 20
    assert first.numbers["control_over_baseline"] == pytest.approx(2, rel=0.01)
    assert first.numbers["same_machine_code"] == "yes"
    assert gpu.sessions[0].closed and gpu.sessions[0].controls == ["library"] * 2


@pytest.mark.parametrize(("seconds", "verdict"), [(1.117e-3, EntryStatus.SAME), (0.95e-3, EntryStatus.UNCERTAIN)])
def test_a_driver_that_slows_both_programs_alike_is_seen_against_the_library(
    run, measured, database, seconds: float, verdict: EntryStatus
) -> None:
    """The library takes twice as long as the entry.

    If this ratio was larger at tuning, a change is reported.
    """
    library = 2.234e-3
    won = measured(seconds=seconds, rank=1, driver="570.12")
    beside = dataclasses.replace(
        won, schedule=LIBRARY_SCHEDULE, kernel_digest=None, rank=2,
        measurement=dataclasses.replace(won.measurement, timing=Timing(library, library, library, 20)),
    )  # fmt: skip
    report = run(database(beside, won), Gpu())
    (finding,) = report.findings
    assert (finding.verdict, report.status) == (verdict, 0 if verdict is EntryStatus.SAME else 2)
    assert finding.numbers["against_library_since_tuning"] == pytest.approx(1.117e-3 / seconds, rel=0.02)
    assert ("relative to the library, the entry takes 1.1" in finding.reason) == (verdict is EntryStatus.UNCERTAIN)
    assert ("driver 570.12" in finding.reason) == (verdict is EntryStatus.UNCERTAIN)


def test_without_a_library_the_copy_of_then_is_compared(run, measured, database) -> None:
    then = Control("copy", Timing(2.234e-3, 2.234e-3, 2.234e-3, 20))
    won = dataclasses.replace(measured(seconds=0.95e-3, rank=1), control=then)
    (finding,) = run(database(won), Gpu(library=Status.LAUNCH_ERROR)).findings
    assert finding.verdict is EntryStatus.UNCERTAIN and "copy, the entry takes 1.1" in finding.reason
    assert finding.numbers["against_copy_since_tuning"] == pytest.approx(1.117 / 0.95, rel=0.02)
    (finding,) = run(database(won), Gpu()).findings
    assert finding.verdict is EntryStatus.SAME and "against_copy_since_tuning" not in finding.numbers, "another control"


def test_the_same_machine_code_is_never_slower(run, measured, database) -> None:
    report = run(database(measured()), Gpu(position_factors=(1.0, 1.08, 1.0)))
    assert (report.findings[0].verdict, report.status) == (EntryStatus.UNCERTAIN, 2)
    assert "so the machine causes" in report.findings[0].reason


def test_a_kernel_that_cannot_be_generated_any_more_cannot_be_compared(run, measured, database) -> None:
    report = run(database(measured(kernel_digest="of old code", autosched_version="0.0.9")), Gpu())
    assert (report.findings[0].verdict, report.status) == (EntryStatus.CANNOT_COMPARE, 2)
    assert "autosched 0.0.9" in report.findings[0].reason and "--baseline" in report.findings[0].reason


def test_a_slower_schedule_is_found_in_two_processes(run, measured, database, tmp_path) -> None:
    new, old = measured(1), measured(0)
    before = database(old, measured(0, 1), name="before.db")
    gpu = Gpu({digest(new): 1.06})
    options = dataclasses.replace(OPTIONS, against=str(before))
    report = run(database(new, measured(0, 1)), gpu, options)
    slow, same = report.findings
    assert (slow.verdict, same.verdict, report.status) == (EntryStatus.SLOWER, EntryStatus.SAME, 1)
    assert "confirmed in a second process" in slow.reason and "before.db (trial 1)" in slow.reason
    assert slow.ratio is not None and slow.ratio.low <= 1.06 <= slow.ratio.high
    assert len(gpu.sessions) == 2
    assert set(gpu.sessions[1].compared) == {PROBLEMS[0].key()}, "only entries found slower are measured again"
    assert all(session.closed for session in gpu.sessions)
    assert run(database(old, name="old.db"), Gpu({digest(new): 1.06}), options).status == 0


def test_a_faster_entry_is_reported_and_passes(run, measured, database) -> None:
    options = dataclasses.replace(OPTIONS, against=str(database(measured(0), name="before.db")))
    report = run(database(measured(1)), Gpu({digest(measured(1)): 0.9}), options)
    assert (report.findings[0].verdict, report.status) == (EntryStatus.FASTER, 0)


def test_slowdowns_absent_in_the_second_process_are_cleared(run, measured, database) -> None:
    options = dataclasses.replace(OPTIONS, against=str(database(measured(0), name="before.db")))
    report = run(database(measured(1)), Gpu([{digest(measured(1)): 1.06}, {}]), options)
    assert (report.findings[0].verdict, report.status) == (EntryStatus.SAME, 0)
    assert "not in a second" in report.findings[0].reason


@pytest.mark.parametrize(
    ("fate", "verdict"),
    [
        (Status.WRONG_RESULT, EntryStatus.WRONG),
        (Status.CRASHED, EntryStatus.BROKEN),
        (Status.TIMEOUT, EntryStatus.BROKEN),
        (Status.OUT_OF_RESOURCES, EntryStatus.BROKEN),
    ],
)
def test_a_candidate_that_also_fails_alone_is_blamed(run, measured, database, fate, verdict) -> None:
    options = dataclasses.replace(OPTIONS, against=str(database(measured(0), measured(0, 1), name="before.db")))
    gpu = Gpu(fates={digest(measured(1)): fate})
    report = run(database(measured(1), measured(0, 1)), gpu, options)
    assert [f.verdict for f in report.findings] == [verdict, EntryStatus.SAME], (
        "a failure of one entry does not affect the other"
    )
    assert (report.status, str(fate) in report.findings[0].reason) == (1, True)


def test_a_failing_baseline_does_not_fail_the_entry(run, measured, database) -> None:
    options = dataclasses.replace(OPTIONS, against=str(database(measured(0), name="before.db")))
    report = run(database(measured(1)), Gpu(fates={digest(measured(0)): Status.CRASHED}), options)
    assert (report.findings[0].verdict, report.status) == (EntryStatus.CANNOT_COMPARE, 2)
    assert "its baseline fails" in report.findings[0].reason


@pytest.mark.parametrize("library", [Status.LAUNCH_ERROR, Status.CRASHED])
def test_without_a_library_the_control_is_a_copy(run, measured, database, library) -> None:
    gpu = Gpu(library=library)
    report = run(database(measured()), gpu)
    assert report.findings[0].verdict is EntryStatus.SAME
    assert gpu.sessions[0].controls[0] == "library" and set(gpu.sessions[0].controls[1:]) == {"copy"}


def test_entries_of_another_device_wait_for_that_device(run, measured, database) -> None:
    report = run(database(dataclasses.replace(measured(), device="a100")), Gpu())
    assert (report.findings[0].verdict, report.status) == (EntryStatus.CANNOT_COMPARE, 2)
    assert "a100, but this machine's GPU is h200" in report.findings[0].reason


def test_a_gpu_that_is_gone_ends_the_run_in_doubt(run, measured, database) -> None:
    report = run(database(*(measured(problem=i) for i in range(3))), Gpu(stops_after=1))
    assert [f.verdict for f in report.findings] == [
        EntryStatus.SAME,
        EntryStatus.CANNOT_COMPARE,
        EntryStatus.CANNOT_COMPARE,
    ]
    assert (report.status, report.doubt) == (2, "GPU 0 does not answer")


def test_the_baseline_of_another_environment_is_compiled_there(
    run, measured, database, programs: KnownPrograms
) -> None:
    """A second process of this environment acts as the other environment. It can compile the recorded kernel."""
    options = dataclasses.replace(OPTIONS, baseline=sys.executable)
    stale = dataclasses.replace(measured(0, 1), schedule=Schedule("matmul", (("tile_m", 3),)))
    gpu = Gpu()
    report = run(database(measured(), stale), gpu, options)
    assert [f.verdict for f in report.findings] == [EntryStatus.SAME, EntryStatus.BROKEN]
    assert report.findings[0].numbers["same_machine_code"] == "yes"
    for python, message in (
        ("/nowhere/python", "cannot be run"),
        ("/bin/false", "failed"),
        ("/bin/true", "did not return JSON"),
    ):
        with pytest.raises(BaselineError, match=message):
            run(database(measured(), name=f"{message}.db"), Gpu(), dataclasses.replace(options, baseline=python))


def test_a_users_kernel_is_compared_with_the_one_of_the_base_branch(run, make_trial, database, tmp_path) -> None:
    from autosched.user_kernels.user_kernel import KernelSpec

    example = Path(__file__).parents[3] / "examples" / "vector_add"
    for name in ("base", "head"):
        shutil.copytree(example, tmp_path / name)
    head, base = ((tmp_path / name / "vector_add.toml") for name in ("head", "base"))
    source = tmp_path / "head" / "vector_add.cu"
    source.write_text(source.read_text().replace("#pragma unroll", "#pragma unroll 1"))
    kernel = KernelSpec.from_file(head)
    kernel.register()
    schedule = template("vector_add").space(kernel.problems[0], H200).sample(1, 0)[0]
    trial = make_trial(schedule, problem=kernel.problems[0], provenance=Provenance.MEASURED)
    options = dataclasses.replace(
        OPTIONS, baseline=sys.executable, kernel_files=(str(head),), baseline_kernel_files=(str(base),)
    )
    report = run(database(trial), Gpu({str(trial.kernel_digest): 1.07}), options)
    assert (report.findings[0].verdict, report.status) == (EntryStatus.SLOWER, 1)
    assert "the code differs from the code" in report.findings[0].reason


@pytest.mark.parametrize(("factor", "verdict"), [(1.06, EntryStatus.SLOWER), (1.0, EntryStatus.SAME)])
def test_entries_are_timed_by_a_worker_process(
    measured, database, tmp_path: Path, factor: float, verdict: EntryStatus
) -> None:
    """Use the real runner with fake compilers and a worker that simulates times."""
    new, old = measured(1), measured(0)
    sources = [template("matmul").kernel(r.problem, r.schedule, H200).source for r in (new, old)]
    line = next(text for text in sources[0].splitlines() if "constexpr" in text and text not in sources[1])
    options = dataclasses.replace(OPTIONS, against=str(database(old, name="before.db")))
    pool = KnownPrograms(
        CompileCache(tmp_path / "cache"),
        workers=1,
        worker_module="instant_compiler",
        python_path=[instant_compiler.HERE],
    )

    def start() -> CudaRunner:
        return CudaRunner(
            H200,
            pool,
            worker_module=noisy_gpu.MODULE,
            worker_path=[noisy_gpu.HERE],
            worker_env={noisy_gpu.SLOW: f"{line}={factor}"},
        )

    with pool, Store.open(database(new), create=False) as store:
        selection = selected(store, options)
        report = timed_on("b.db", selection, options, lambda note: None, H200, pool, start)
    assert report.findings[0].verdict is verdict, report.findings[0]


@pytest.mark.parametrize("failure", [HostFailure("the disk is full: make room"), MemoryError()])
def test_a_host_failure_during_the_check_keeps_earlier_verdicts(
    failure: Exception, run, measured, database, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = database(*(measured(problem=i) for i in range(3)))
    report = run(path, Gpu(stops_after=1, stop=failure))
    assert [f.verdict for f in report.findings].count(EntryStatus.SAME) == 1 and report.status == 2
    assert report.doubt == (str(failure) or "MemoryError")

    def compile(self: KnownPrograms, kernel: Any, arch: Any) -> Any:
        raise failure

    monkeypatch.setattr(KnownPrograms, "compile", compile)
    report = run(path, Gpu())
    assert {f.verdict for f in report.findings} == {EntryStatus.CANNOT_COMPARE} and report.status == 2


def test_check_learns_the_noise_of_an_entry(
    measured, database, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path, gpu = database(measured()), Gpu()
    monkeypatch.setattr(guard, "cuda_available", lambda: (True, ""))
    monkeypatch.setattr(guard, "cuda_device", lambda: H200)
    monkeypatch.setattr(guard, "CudaRunner", lambda device, pool: gpu.start())
    summary = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    assert main(["check", "--db", str(path), "--rounds", "20", "--learn-noise", "--github", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    (entry,) = document["entries"]
    assert (document["kind"], entry["verdict"]) == ("timed", "same")
    assert "no confirmed regression" in summary.read_text()
    with Store.open(path, create=False) as store:
        limit = store.guard(PROBLEMS[0], "h200")
    assert limit is not None and limit.noise == pytest.approx(entry["numbers"]["noise"]) and 0 < limit.noise < 0.01
