"""``autosched tune``: the options that it passes on, its output, and its exit status."""

import dataclasses
import errno
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import forked_python
import pytest
from needs import needs_nvrtc

from autosched.tuning import tune as tuner
from autosched.tuning.result import Progress, Start, TuneResult
from autosched.tuning.winner.paired_timing import Ranked, Remeasurement
from measurements.runners.base import Entrant
from measurements.store import sqlite_file
from measurements.store.store import Store
from measurements.trials.measurement import Measurement, Provenance, Status, Timing
from measurements.trials.trial import Trial
from search_spaces.catalogue import template
from search_spaces.hardware.devices import device
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.schedule import Schedule

Run = Callable[..., tuple[int, str, str]]

SMALL = ("-m", "64", "-n", "64", "-k", "64")
PROBLEM = Matmul(64, 64, 64)
TUNE = ("tune", "matmul", *SMALL, "--db", "b.db")


def schedule() -> Schedule:
    return template("matmul").space(PROBLEM, device("h200")).sample(1, 0)[0]


def make_trial(seconds: float | None) -> Trial:
    """Return an estimated trial. The trial has failed if ``seconds`` is None."""
    if seconds is None:
        measurement = Measurement(Status.COMPILE_ERROR, Provenance.ESTIMATED, "does not compile")
    else:
        measurement = Measurement(Status.OK, Provenance.ESTIMATED, timing=Timing.estimate(seconds))
    now = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
    return Trial(
        PROBLEM.key(),
        schedule(),
        "h200",
        "{}",
        "v1",
        "1",
        "d",
        measurement,
        "nvrtc 13.0",
        "",
        "0.1.0",
        now,
        "random",
        0,
    )


@dataclasses.dataclass
class FakeTune:
    """A fake tuner that reports ``trials`` to the observer at once."""

    trials: Sequence[Trial]
    earlier: int = 0
    interrupted: bool = False
    out_of_time: bool = False
    stopped: str = ""
    refuses: str = ""
    breaks: str = ""
    ends_by: type[BaseException] | None = None
    remeasured: Remeasurement | None = None
    passed: dict[str, Any] = dataclasses.field(default_factory=dict)

    def __call__(self, problem: Matmul, **options: Any) -> TuneResult:
        self.passed = {"problem": problem, **options}
        if self.refuses:
            raise ValueError(self.refuses)
        observer, best = options["progress"], None
        lines = ("times are ESTIMATED: no GPU answers",)
        observer.started(
            Start(problem, device("h200"), Provenance.ESTIMATED, lines, options["trials"], self.earlier, None)
        )
        if self.breaks:
            raise ValueError(self.breaks)
        failures: dict[str, int] = {}
        for done, r in enumerate(self.trials, 1):
            if not r.ok:
                failures[r.status.value] = failures.get(r.status.value, 0) + 1
            elif best is None or (best.seconds or 0) > (r.seconds or 0):
                best = r
            observer.trial(Progress(r, best, done, options["trials"], dict(failures), 2.0 * done))
        if self.ends_by is not None:
            raise self.ends_by
        return TuneResult(
            problem=problem,
            device=device("h200"),
            provenance=Provenance.ESTIMATED,
            best=best,
            trials=tuple(self.trials),
            earlier=self.earlier,
            lines=lines,
            seconds=2.0,
            interrupted=self.interrupted,
            out_of_time=self.out_of_time,
            stopped=self.stopped,
            remeasured=self.remeasured,
            entrants=(schedule(),) * 3,
        )


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeTune:
    trials = [
        dataclasses.replace(r, id=i) for i, r in enumerate((make_trial(None), make_trial(2e-6), make_trial(1e-6)), 1)
    ]
    fake_tune = FakeTune(trials)
    monkeypatch.setattr(tuner, "tune", fake_tune)
    return fake_tune


def test_tune_passes_its_options_on(run: Run, fake: FakeTune) -> None:
    more = ("--trials", "3", "--device", "a100", "--backend", "estimate", "--sampler", "tpe", "--seed", "9")
    more += (
        "--workers",
        "2",
        "--no-verify",
        "--warm-cache",
        "--eager",
        "--clocks",
        "1410",
        "--gpus",
        "0,2",
        "--model",
        "m.json",
    )
    more += ("--min-gain", "0.02", "--seconds", "30", "--verification-seconds", "2.5")
    more += ("--batch-invariant", "--same-bits-as", "other.db#3")
    assert run("tune", "matmul", *SMALL, "--db", "b.db", *more)[0] == 0
    passed = {k: v for k, v in fake.passed.items() if k != "progress"}
    assert passed == {
        "problem": PROBLEM,
        "trials": 3,
        "database": "b.db",
        "device": "a100",
        "backend": "estimate",
        "sampler": "tpe",
        "seed": 9,
        "workers": 2,
        "verify": False,
        "warm_cache": True,
        "eager": True,
        "clocks": 1410,
        "gpus": [0, 2],
        "objective": None,
        "recording": None,
        "ray": None,
        "effort": None,
        "templates": None,
        "model": "m.json",
        "min_gain": 0.02,
        "seconds": 30.0,
        "verification_seconds": 2.5,
        "batch_invariant": True,
        "same_bits_as": "other.db#3",
        "compiler_controls": False,
        "control_files": (),
    }
    assert run("tune", "matmul", *SMALL, "--db", "b.db", "--gpus", "all")[0] == 0
    assert fake.passed["gpus"] == "all"
    assert run("tune", "matmul", *SMALL, "--db", "b.db", "--template", "matmul")[0] == 0
    assert fake.passed["templates"] == ["matmul"]


def test_invalid_gpu_numbers_are_rejected_in_one_line(run: Run, fake: FakeTune) -> None:
    status, out, err = run("tune", "matmul", *SMALL, "--db", "b.db", "--gpus", "0,x")
    assert (status, out) == (2, "")
    assert err == "autosched: invalid --gpus '0,x': write all, or numbers such as 0,1\n"
    assert not fake.passed


def test_tune_reports_the_provenance_of_times_before_its_progress(run: Run, fake: FakeTune) -> None:
    status, out, err = run("tune", "matmul", *SMALL, "--db", "b.db", "--trials", "3")
    assert status == 0
    assert out.startswith("times are ESTIMATED: no GPU answers\n")
    assert "1.000 us" in out and "estimated by a model, not measured" in out
    assert "3 new in " in out and ", failed 1: compile_error 1" in out
    assert err.splitlines()[-1] == "3/3, best 1.000 us, 24.58 GB/s, estimated, trial 3, failed 1: compile_error 1"


def test_tune_json_is_one_document_on_stdout(run: Run, fake: FakeTune) -> None:
    status, out, err = run("tune", "matmul", *SMALL, "--db", "b.db", "--trials", "3", "--json")
    assert status == 0
    document = json.loads(out)
    assert document["provenance"] == document["best"]["provenance"] == "estimated"
    assert (document["trials"]["new"], document["trials"]["ok"], document["trials"]["earlier"]) == (3, 2, 0)
    assert document["trials"]["failures"] == {"compile_error": 1}
    assert document["best"]["timing"]["median"] == 1e-6 and document["best"]["schedule"] == schedule().to_json()
    assert "ESTIMATED" in err and "3/3" in err


def test_tune_exits_with_1_if_no_schedule_works(run: Run, fake: FakeTune) -> None:
    fake.trials = [make_trial(None)]
    status, out, _ = run("tune", "matmul", *SMALL, "--db", "b.db")
    assert status == 1
    assert "no schedule worked" in out
    status, out, _ = run("tune", "matmul", *SMALL, "--db", "b.db", "--json")
    assert (status, json.loads(out)["best"]) == (1, None)


def test_tune_reports_failed_entrants_of_the_final(run: Run, fake: FakeTune) -> None:
    ran = Ranked(0, Entrant("a", Status.OK, "", (1e-6,) * 20), (1e-6,) * 20)
    late = Ranked(1, Entrant("b", Status.TIMEOUT, "not in time", ()), ())
    fake.remeasured = Remeasurement((ran,), (late,), True, 20, None, "there is none")
    _, out, _ = run(*TUNE)
    assert re.search(r"1 finalist .* 20 rounds", out)
    assert "failed 1: timeout 1" in out
    document = json.loads(run(*TUNE, "--json")[1])
    (failed,) = document["remeasured"]["failed"]
    assert (failed["status"], failed["reason"]) == ("timeout", "not in time")
    fake.remeasured = Remeasurement((), (late, late), False, 0, None, "no entrant ran")
    _, out, _ = run(*TUNE)
    assert "failed 2: timeout 2" in out


def test_tune_reports_that_an_interrupted_run_is_stored(run: Run, fake: FakeTune) -> None:
    fake.interrupted, fake.earlier = True, 8
    status, out, _ = run("tune", "matmul", *SMALL, "--db", "b.db")
    assert status == 130
    assert "all trials so far are in b.db" in out and "8 in b.db" in out


def test_tune_reports_a_reached_time_limit(run: Run, fake: FakeTune) -> None:
    fake.out_of_time = True
    status, out, _ = run("tune", "matmul", *SMALL, "--db", "b.db", "--seconds", "1")
    assert status == 0
    assert "time limit reached" in out
    assert json.loads(run("tune", "matmul", *SMALL, "--db", "b.db", "--json")[1])["out_of_time"]


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf"])
def test_invalid_time_limits_are_rejected(run: Run, seconds: str) -> None:
    status, out, err = run("tune", "matmul", *SMALL, "--db", "b.db", "--seconds", seconds)
    assert (status, out) == (2, "")
    assert err.startswith("autosched: seconds (time limit of the search) must be more than 0")
    assert err.count("\n") == 1


def test_ctrl_c_outside_the_loop_still_gives_the_document(run: Run, fake: FakeTune) -> None:
    fake.ends_by = KeyboardInterrupt  # for example while the backend closes
    status, out, _ = run("tune", "matmul", *SMALL, "--db", "b.db", "--json")
    document = json.loads(out)
    assert (status, document["interrupted"], document["best"]["timing"]["median"]) == (130, True, 1e-6)
    assert document["trials"] == {
        "new": 3,
        "ok": 2,
        "failures": {"compile_error": 1},
        "earlier": 0,
        "guessed": 0,
        "verified": 0,
    }


def test_tune_reports_why_a_backend_stopped(run: Run, fake: FakeTune) -> None:
    fake.stopped = "the GPU no longer answers"
    status, out, err = run("tune", "matmul", *SMALL, "--db", "b.db", "--json")
    assert (status, json.loads(out)["stopped"]) == (1, "the GPU no longer answers")
    assert "the GPU no longer answers" in err


def test_the_default_database_is_the_one_that_calls_read(
    run: Run, fake: FakeTune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    status, _, _ = run("tune", "matmul", *SMALL)
    assert status == 0
    default_path = Path(os.environ["XDG_DATA_HOME"]) / "autosched" / "best.db"
    assert fake.passed["database"] == str(default_path) and default_path.parent.is_dir()
    fake.refuses = "the backend cuda cannot measure on this machine: use the backend estimate"
    assert run("tune", "matmul", *SMALL) == (2, "", f"autosched: {fake.refuses}\n")  # no other message
    fake.refuses = ""
    monkeypatch.setenv("AUTOSCHED_DB", str(tmp_path / "named.db"))
    assert run("tune", "matmul", *SMALL)[0] == 0
    assert fake.passed["database"] == str(tmp_path / "named.db")
    status, _, err = run("best", "matmul", *SMALL)
    assert status == 2 and "named.db" in err and err.count("\n") == 1
    (tmp_path / "file").touch()
    monkeypatch.delenv("AUTOSCHED_DB")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "file"))
    status, _, err = run("tune", "matmul", *SMALL)
    assert status == 2 and err.startswith("autosched: tune needs --db: ") and err.count("\n") == 1


def test_tune_distinguishes_invalid_input_from_bugs(run: Run, fake: FakeTune) -> None:
    fake.refuses = "the backend cuda cannot measure on this machine: use the backend estimate"
    assert run("tune", "matmul", *SMALL, "--db", "b.db") == (2, "", f"autosched: {fake.refuses}\n")
    fake.refuses, fake.breaks = "", "shapes do not match"
    with pytest.raises(ValueError, match="shapes do not match"):
        run("tune", "matmul", *SMALL, "--db", "b.db")


def test_an_exhausted_machine_limit_is_reported_in_one_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def tune(*_: object, **__: object) -> TuneResult:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(tuner, "tune", tune)
    status, _, err = run(*TUNE)
    assert (status, err) == (
        2,
        "autosched: a limit of this machine is reached (Too many open files): raise it (see ulimit -a)\n",
    )


@needs_nvrtc
def test_tune_then_best_then_tune_again(run: Run) -> None:
    more = ("--db", "b.db", "--backend", "estimate", "--device", "h200", "--sampler", "random", "--no-verify")
    status, out, _ = run("tune", "matmul", *SMALL, *more, "--trials", "3", "--json")
    first = json.loads(out)
    assert status == 0
    assert first["trials"]["new"] == 3 and first["provenance"] == "estimated"
    status, out, _ = run("best", "matmul", *SMALL, "--db", "b.db", "--json")
    assert status == 0
    assert json.loads(out)["best"][0]["schedule"] == first["best"]["schedule"]
    status, out, _ = run("tune", "matmul", *SMALL, *more, "--trials", "2", "--json")
    again = json.loads(out)
    assert (again["trials"]["earlier"], again["trials"]["new"]) == (3, 2)
    assert again["best"]["timing"]["median"] <= first["best"]["timing"]["median"]
    assert os.listdir() == ["b.db"]


@needs_nvrtc
@pytest.mark.parametrize(
    "problem_options",
    [
        pytest.param(("matmul", *SMALL), marks=pytest.mark.nightly, id="tune"),
        pytest.param(("--suite", "suite.toml"), id="suite"),
    ],
)
def test_ctrl_c_stops_a_real_tune_and_keeps_all_trials(tmp_path: Path, problem_options: tuple[str, ...]) -> None:
    problems = [f'[[problem]]\noperator = "matmul"\nm = {m}\nn = 64\nk = 64\n' for m in (64, 128)]
    (tmp_path / "suite.toml").write_text("".join(problems))
    arguments = ("--backend", "estimate", "--trials", "100000", "--sampler", "random", "--no-verify", "--json")
    child = forked_python.Popen(
        [sys.executable, "-m", "autosched", "tune", *problem_options, "--db", "b.db", *arguments],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        path = tmp_path / "b.db"
        deadline = time.monotonic() + 60
        while not (path.exists() and path.stat().st_size and Store.open(path, create=False).count() >= 3):
            assert child.poll() is None and time.monotonic() < deadline
            time.sleep(0.1)
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=60)
    finally:
        child.kill()
        child.wait()
    assert child.returncode == 130
    assert "Traceback" not in err
    document = json.loads(out)
    new = document["trials"] if "suite" in document else document["trials"]["new"]
    unseen = Store.open(tmp_path / "b.db", create=False).count() - new
    assert document["interrupted"] and unseen in (0, 1)  # Ctrl-C may come between storing and counting


@pytest.mark.parametrize("command", [pytest.param("tune", marks=needs_nvrtc), "best"])
def test_tune_reports_waiting_for_a_locked_database(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: str
) -> None:
    monkeypatch.setattr(sqlite_file, "NOTICE_SECONDS", 0.02)
    monkeypatch.setattr(sqlite_file, "BUSY_SECONDS", 0.1)
    with Store.open("b.db") as store:
        store.append(make_trial(1e-6))
    path = Path("b.db").resolve()
    with closing(sqlite3.connect(path, isolation_level=None)) as holder:
        holder.execute("BEGIN EXCLUSIVE")
        more = ("--backend", "estimate", "--no-verify") if command == "tune" else ()
        status, out, err = run(command, "matmul", *SMALL, "--db", "b.db", "--device", "h200", *more)
    waiting, refusal = err.splitlines()
    assert (status, out) == (2, "")
    assert waiting.startswith(f"autosched: another process has locked the database {path}: waiting ")
    assert refusal.endswith("another process has locked it, try again when that process has ended")
