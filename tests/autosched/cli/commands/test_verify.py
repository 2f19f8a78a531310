"""``autosched verify``: the schedules that it emulates, its output, and its exit status."""

import dataclasses
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from kernels import space_of

from autosched.cli.commands.verification import schedules as command
from autosched.verify.launch_plan import LaunchRun
from autosched.verify.runs import VerifySettings
from autosched.verify.verdict import Subject, Verdict
from measurements.emulator import Emulation, Finding, FindingKind, GlobalSite, HostCompilerMissing, Order, SharedSite
from measurements.store.store import Store
from measurements.trials.measurement import Measurement, Provenance, Status, Timing
from measurements.trials.trial import Trial
from search_spaces.catalogue import template
from search_spaces.hardware.devices import device
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.problem import Problem
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.space import Space
from search_spaces.templates.template import TemplateSet

Run = Callable[..., tuple[int, str, str]]

SMALL = ("-m", "64", "-n", "64", "-k", "64")
PROBLEM = Matmul(64, 64, 64)


@cache
def schedules() -> list[Schedule]:
    return template("matmul").space(PROBLEM, device("h200")).sample(4, 0)


@pytest.mark.parametrize(
    ("status", "word", "counted", "exit_status"),
    [("compile_error", "FAIL", "failed", 1), ("timeout", "unverified", "unverified", 2)],
)
def test_verify_counts_failed_and_unverified_schedules_separately(
    run: Run, monkeypatch: pytest.MonkeyPatch, status: str, word: str, counted: str, exit_status: int
) -> None:
    def emulated(
        templates: TemplateSet, problem: Problem, schedules: Sequence[Schedule], *_: object, **__: object
    ) -> Iterator[Verdict]:
        for schedule in schedules:
            yield dataclasses.replace(passes(problem, schedule), status=status, reason="why")

    monkeypatch.setattr(command, "emulate_all", emulated)
    monkeypatch.setattr(command, "check_ready", lambda: None)
    assert (outcome := run("verify", "matmul", *SMALL, "--sample", "2"))[0] == exit_status
    assert f"2 of 2 {word}" in outcome[1]
    document = json.loads(run("verify", "matmul", *SMALL, "--sample", "2", "--json")[1])
    assert {name: document[name] for name in ("passed", "failed", "unverified")} == {
        **dict.fromkeys(("passed", "failed", "unverified"), 0),
        counted: 2,
    }


def passes(problem: Problem, schedule: Schedule) -> Verdict:
    run = Emulation(
        status="ok",
        outputs={},
        findings=(),
        shared_sites=(SharedSite("a.cuh", 3, (), "st.shared", 4, 10, 30, 20),),
        global_sites=(GlobalSite("a.cuh", 4, (), "ld.global", 4, 10, 45),),
        compile_seconds=0.25,
        run_seconds=0.25,
    )
    return Verdict(Subject(problem, schedule), "ok", "", 0.25, 1.5e-3, run)


def fails(problem: Problem, schedule: Schedule) -> Verdict:
    race = Finding(FindingKind.SHARED_RACE, "threads 0 and 32 touch byte 128", "autosched/kernels/matmul.cuh", 99, 7)
    run = dataclasses.replace(passes(problem, schedule).emulation, status="findings", findings=(race,))
    return Verdict(Subject(problem, schedule), "findings", str(race), float("inf"), float("inf"), run)


@dataclasses.dataclass
class FakeEmulator:
    """A fake emulator; the schedules whose numbers are in ``bad`` fail."""

    bad: tuple[int, ...] = ()
    interrupted_after: int | None = None
    calls: list[dict[str, Any]] = dataclasses.field(default_factory=list)

    def __call__(
        self,
        templates: TemplateSet,
        problem: Problem,
        schedules: Sequence[Schedule],
        device: object,
        settings: VerifySettings,
        **more: Any,
    ) -> Iterator[Verdict]:
        assert all(templates.of(s).name == s.template for s in schedules)
        self.calls.append(
            {"problem": problem, "schedules": list(schedules), "device": device, "settings": settings, **more}
        )
        for i, schedule in enumerate(schedules):
            if i == self.interrupted_after:
                raise KeyboardInterrupt
            yield (fails if i in self.bad else passes)(problem, schedule)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeEmulator:
    emulator = FakeEmulator()
    monkeypatch.setattr(command, "emulate_all", emulator)
    monkeypatch.setattr(command, "check_ready", lambda: None)
    return emulator


def stored(path: Path, *times: float | None, problem: Matmul = PROBLEM, again: bool = False) -> Path:
    """Return a database with one trial per time. None gives a failed trial. ``again`` stores each trial twice."""
    store = Store.open(path)
    for seconds, schedule in zip(times, schedules(), strict=False):
        timing = None if seconds is None else Timing.estimate(seconds)
        status = Status.OK if timing else Status.COMPILE_ERROR
        measurement = Measurement(status, Provenance.ESTIMATED, "" if timing else "no", timing)
        now = datetime(2026, 1, 2, tzinfo=UTC)
        trial = Trial(
            problem.key(),
            schedule,
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
        for _ in range(2 if again else 1):
            store.append(trial)
    return path


def test_all_pass(run: Run, fake: FakeEmulator) -> None:
    status, out, _ = run("verify", "matmul", *SMALL, "--sample", "3", "--seed", "7", "--workers", "2")
    assert status == 0
    assert "all 3 pass" in out and out.count(" pass ") == 3
    (call,) = fake.calls
    assert call["schedules"] == space_of(PROBLEM, device("h200")).sample(3, 7)
    assert (call["settings"].seed, call["workers"], call["device"]) == (7, 2, device("h200"))
    assert "0.250" in out and "1.5e-03" in out  # errors
    assert "1.50" in out and "4.5" in out  # 30 wavefronts instead of the ideal 20, and 45 sectors in 10 requests
    assert "findings" not in out
    assert "of tolerance" in out


def test_order_and_launches_are_options_except_for_stored_schedules(run: Run, fake: FakeEmulator) -> None:
    assert run("verify", "matmul", *SMALL, "--sample", "1")[0] == 0
    assert (
        run("verify", "matmul", *SMALL, "--sample", "1", "--order", "random", "--turns", "7", "--launches", "2")[0] == 0
    )
    assert [call["settings"].launch for call in fake.calls] == [None, LaunchRun("requested", Order("random", 7), 2)]
    status, _, err = run("verify", "matmul", *SMALL, "--db", "b.db", "--launches", "2")
    assert status == 2 and err.count("\n") == 1 and "--db" in err


def test_a_failure_exits_1_and_prints_finding_and_schedule(run: Run, fake: FakeEmulator) -> None:
    fake.bad = (1,)
    status, out, _ = run("verify", "matmul", *SMALL, "--sample", "3")
    assert status == 1
    assert "1 of 3 FAIL" in out and "shared_race 1" in out
    assert "2 fails: autosched/kernels/matmul.cuh:99: shared_race: threads 0 and 32 touch byte 128" in " ".join(
        out.split()
    )
    for name, value in fake.calls[0]["schedules"][1].items:
        assert name in out and str(value) in out


def test_verify_json_is_one_document(run: Run, fake: FakeEmulator) -> None:
    fake.bad = (0,)
    status, out, _ = run("verify", "matmul", *SMALL, "--sample", "2", "--json")
    assert status == 1
    document = json.loads(out)
    assert (document["passed"], document["failed"], document["device"]) == (1, 1, "h200")
    bad, good = document["candidates"]
    assert bad["findings"][0] == {
        "kind": "shared_race",
        "message": "threads 0 and 32 touch byte 128",
        "file": "autosched/kernels/matmul.cuh",
        "line": 99,
        "count": 7,
        "instruction": "",
        "callers": [],
        "grade": "fault",
        "other": "",
    }
    assert (bad["error_over_tolerance"], good["error_over_tolerance"]) == ("inf", 0.25)
    assert good["shared_sites"][0]["conflict_degree"] == 1.5
    assert good["global_sites"][0]["sectors_per_request"] == 4.5
    assert good["schedule"] == fake.calls[0]["schedules"][1].to_json()


def test_ctrl_c_reports_the_schedules_verified_so_far(run: Run, fake: FakeEmulator) -> None:
    fake.interrupted_after, fake.bad = 2, (1,)
    status, out, _ = run("verify", "matmul", *SMALL, "--sample", "4", "--json")
    document = json.loads(out)
    assert (status, document["interrupted"], document["passed"], document["failed"]) == (130, True, 1, 1)
    status, out, _ = run("verify", "matmul", *SMALL, "--sample", "4")
    assert status == 130
    assert "1 of 2 FAIL" in out
    fake.interrupted_after = 0
    status, out, _ = run("verify", "matmul", *SMALL, "--sample", "4")
    assert status == 130 and "nothing was verified" in out


def test_stored_schedules_are_verified_once_fastest_first(run: Run, fake: FakeEmulator) -> None:
    path = stored(Path("b.db"), 3e-6, None, 1e-6, 2e-6, again=True)
    before = path.read_bytes()
    assert run("verify", "matmul", *SMALL, "--db", "b.db")[0] == 0
    assert run("verify", "matmul", *SMALL, "--db", "b.db", "--sample", "1")[0] == 0
    assert [call["schedules"] for call in fake.calls] == [
        [schedules()[2], schedules()[3], schedules()[0]],
        [schedules()[2]],
    ]
    assert path.read_bytes() == before


def test_all_stored_problems_are_verified_by_default(run: Run, fake: FakeEmulator) -> None:
    other = Matmul(64, 64, 256)
    stored(Path("b.db"), 3e-6)
    stored(Path("b.db"), 2e-6, problem=other)
    status, out, err = run("verify", "matmul", "--db", "b.db")
    assert status == 0, err
    assert [call["problem"] for call in fake.calls] == [PROBLEM, other]
    assert "all 2 pass" in out


def test_verify_exits_with_2_without_stored_schedules(run: Run, fake: FakeEmulator) -> None:
    stored(Path("b.db"), None)
    status, out, err = run("verify", "matmul", *SMALL, "--db", "b.db")
    assert (status, out, err.count("\n"), fake.calls) == (2, "", 1, [])
    status, out, _ = run("verify", "matmul", "--db", "b.db", "--device", "a100", "--json")
    assert (status, json.loads(out)["candidates"]) == (2, [])


def test_a_schedule_of_a_file_is_verified_without_counting_a_space(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    schedule = schedules()[0]
    Path("mine.json").write_text(json.dumps({"template": schedule.template, "schedule": schedule.to_json()}))

    def counted(self: Space) -> int:
        raise AssertionError("the space was counted")

    monkeypatch.setattr(Space, "count", counted)
    status, out, err = run("verify", "matmul", *SMALL, "--schedule", "mine.json", "--device", "h200")
    assert (status, err) == (0, "")
    assert out.splitlines()[1] == "1 schedule from mine.json" and out.splitlines()[-1].startswith("all 1 pass")


@pytest.mark.parametrize(
    ("change", "more", "complaint"),
    [
        ({}, ("--sample", "1"), "leave out --sample and --db"),
        ({}, ("--db", "a.db"), "leave out --sample and --db"),
        ({"stages": 77}, (), "stages"),
        ({"tile_m": 8, "tile_n": 8}, (), ""),
    ],
)
def test_an_invalid_schedule_file_is_rejected(
    run: Run, change: dict[str, int], more: tuple[str, ...], complaint: str
) -> None:
    schedule = schedules()[0].replace(**change)
    Path("mine.json").write_text(json.dumps(schedule.to_json()))
    status, out, err = run("verify", "matmul", *SMALL, "--schedule", "mine.json", "--device", "h200", *more)
    assert (status, out, err.count("\n")) == (2, "", 1) and complaint in err


def test_a_missing_compiler_is_reported_in_one_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise HostCompilerMissing("the emulator needs a C++ compiler: install g++")

    monkeypatch.setattr(command, "check_ready", missing)
    assert run("verify", "matmul", *SMALL) == (2, "", "autosched: the emulator needs a C++ compiler: install g++\n")


def test_an_unwritable_cache_is_reported_in_one_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> Iterator[Verdict]:
        raise PermissionError(13, "Permission denied", "/cache/emulator")
        yield  # a generator, like the real function

    monkeypatch.setattr(command, "emulate_all", refused)
    monkeypatch.setattr(command, "check_ready", lambda: None)
    status, _, err = run("verify", "matmul", *SMALL, "--json")
    assert status == 2
    assert err.startswith("autosched: /cache/emulator cannot be written (Permission denied): ") and err.count("\n") == 1


def test_exhausted_memory_is_reported_in_one_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(*_: object, **__: object) -> Iterator[Verdict]:
        raise MemoryError("Unable to allocate 5.95 MiB")
        yield  # a generator, like the real function

    monkeypatch.setattr(command, "emulate_all", exhausted)
    monkeypatch.setattr(command, "check_ready", lambda: None)
    status, out, err = run("verify", "matmul", *SMALL, "--json")
    assert (status, out, err.count("\n")) == (2, "", 1) and "out of memory" in err


@pytest.mark.skipif(not (shutil.which("g++") or shutil.which("clang++")), reason="there is no host compiler")
def test_real_candidates_pass(run: Run) -> None:
    status, out, _ = run(
        "verify", "matmul", "-m", "19", "-n", "24", "-k", "40", "--sample", "2", "--seed", "1", "--json"
    )
    document = json.loads(out)
    assert (status, document["passed"]) == (0, 2)
    for candidate in document["candidates"]:
        assert candidate["status"] == "ok" and 0 <= candidate["error_over_tolerance"] <= 1
        assert candidate["global_sites"] and candidate["emulated_problem"] == candidate["problem"]
    assert os.listdir() == []


def test_all_kinds_of_verification_have_the_same_options(run: Run, fake: FakeEmulator) -> None:
    suppress = "shared_race:matmul.cuh:99:known"
    options = ("--sample", "1", "--perturb", "--suppress", suppress, "--time-limit", "7", "--full")
    assert run("verify", "matmul", *SMALL, *options)[0] == 0
    settings = fake.calls[0]["settings"]
    assert (settings.depth, settings.time_limit, settings.launch) == (
        "full", 7.0, LaunchRun("requested", perturb=True)
    )  # fmt: skip
    assert [str(expected) for expected in settings.suppressions] == [suppress]
    for option in (("--perturb",), ("--suppress", suppress)):
        status, _, err = run("verify", "matmul", *SMALL, "--db", "b.db", *option)
        assert status == 2 and err.count("\n") == 1 and "combined with --db" in err


def test_notes_are_failures_on_request(run: Run, monkeypatch: pytest.MonkeyPatch, fake: FakeEmulator) -> None:
    note = Finding(FindingKind.UNROUNDED_TF32, "a low bit", "a.cuh", 3, 1, grade="note")

    passing = passes

    def noted(problem: Problem, schedule: Schedule) -> Verdict:
        verdict = passing(problem, schedule)
        return dataclasses.replace(verdict, emulation=verdict.emulation.with_findings((note,)))

    monkeypatch.setattr(sys.modules[__name__], "passes", noted)
    assert run("verify", "matmul", *SMALL, "--sample", "1")[0] == 0
    assert run("verify", "matmul", *SMALL, "--sample", "1", "--fail-on", "note")[0] == 1
    assert run("verify", "matmul", *SMALL, "--sample", "1", "--fail-on", "moon")[0] == 2
