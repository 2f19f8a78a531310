"""``autosched check --static``: its findings, accepted changes, and exit status."""

from __future__ import annotations

import dataclasses
import json
import shutil
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from needs import needs_compiler, needs_nvrtc

from autosched.cli import main
from autosched.regression import static
from autosched.regression.check import CheckOptions, check_database
from autosched.regression.report import CheckReport, EntryStatus
from autosched.regression.static import StaticOptions
from autosched.tuning.backends import AnalyticEstimator
from autosched.verify import schedules as schedule_verification
from measurements.compiler.pool import CompileFailure
from measurements.emulator import HostCompilerMissing, HostFailure
from measurements.runners.base import Candidate
from measurements.store.store import Guard, Store
from measurements.trials.measurement import Provenance, Status
from measurements.trials.trial import Trial
from search_spaces.catalogue import template
from search_spaces.hardware.devices import device
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.template import TemplateSet

pytestmark = [needs_nvrtc]

PROBLEM = Matmul(m=64, n=64, k=64)
QUICK = CheckOptions(static=StaticOptions(emulate=False))
EXAMPLE = Path(__file__).parents[3] / "examples" / "vector_add"

MakeTrial = Callable[..., Trial]
MakeDatabase = Callable[..., Path]


def checked(database: Path, options: CheckOptions = QUICK) -> CheckReport:
    return check_database(database, options, static=True)


def test_an_unchanged_entry_is_the_same(
    make_trial: MakeTrial, database: MakeDatabase, schedules: list[Schedule]
) -> None:
    report = checked(database(make_trial(schedules[0])))
    (finding,) = report.findings
    assert (finding.verdict, finding.reasons, report.status) == (EntryStatus.SAME, (), 0)
    assert finding.name == "matmul m=64 n=64 k=64 a=f16 b=f16 acc=f32 out=f16 on h200"


@pytest.mark.parametrize("field", ["registers", "dynamic_shared_bytes", "sass_bytes"])
def test_larger_resources_than_recorded_are_reported_as_slower(
    make_trial: MakeTrial, database: MakeDatabase, schedules: list[Schedule], field: str
) -> None:
    trial = make_trial(schedules[0])
    resources, code = trial.measurement.resources, trial.measurement.code
    assert resources is not None and code is not None
    if field == "sass_bytes":
        less = make_trial(schedules[0], code={field: code.sass_bytes // 2})
        reason = f"bytes of machine code: {code.sass_bytes // 2} were recorded, now {code.sass_bytes}"
    else:
        before = getattr(resources, field)
        if not before:
            pytest.skip(f"this schedule needs no {field}")
        less = make_trial(schedules[0], resources={field: before - 1})
        reason = "were recorded, now"
    report = checked(database(less))
    (finding,) = report.findings
    assert (finding.verdict, report.status) == (EntryStatus.SLOWER, 1)
    assert reason in finding.reason
    tolerant = dataclasses.replace(QUICK, static=StaticOptions(emulate=False, growth=2.0))
    assert checked(database(less, name="again.db"), tolerant).status == 0


def test_a_new_spill_is_never_tolerated(
    make_trial: MakeTrial, database: MakeDatabase, schedules: list[Schedule], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = database(make_trial(schedules[0]))
    really = static.compiled_today

    def spilling(*arguments: Any) -> Any:
        program = really(*arguments)
        assert not isinstance(program, str)
        return dataclasses.replace(program, resources=dataclasses.replace(program.resources, spill_store_bytes=8))

    monkeypatch.setattr(static, "compiled_today", spilling)
    report = checked(path, dataclasses.replace(QUICK, static=StaticOptions(emulate=False, growth=9.0)))
    assert report.findings[0].verdict is EntryStatus.SLOWER
    assert "bytes of spills: 0 were recorded, now 8" in report.findings[0].reason


def test_smaller_resources_than_recorded_are_reported_as_faster(
    make_trial: MakeTrial, database: MakeDatabase, schedules: list[Schedule]
) -> None:
    resources = make_trial(schedules[0]).measurement.resources
    assert resources is not None
    report = checked(database(make_trial(schedules[0], resources={"registers": resources.registers + 8})))
    assert (report.findings[0].verdict, report.status) == (EntryStatus.FASTER, 0)


def test_an_invalid_schedule_is_broken(
    make_trial: MakeTrial, database: MakeDatabase, schedules: list[Schedule]
) -> None:
    good = make_trial(schedules[0])
    items = tuple((name, 999 if name == "tile_m" else value) for name, value in good.schedule.items)
    bad = dataclasses.replace(good, schedule=Schedule("matmul", items))
    report = checked(database(bad))
    assert (report.findings[0].verdict, report.status) == (EntryStatus.BROKEN, 1)
    assert report.findings[0].reason.startswith("the trial's schedule is no longer valid:")


def test_a_compile_failure_is_broken_with_the_compilers_message(
    make_trial: MakeTrial, database: MakeDatabase, schedules: list[Schedule], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = database(make_trial(schedules[0]))
    failure = CompileFailure(Status.COMPILE_ERROR, "matmul.cuh:7: no such thing")
    monkeypatch.setattr("measurements.compiler.pool.CompilePool.compile", lambda pool, kernel, arch: failure)
    report = checked(path)
    assert (report.findings[0].verdict, report.status) == (EntryStatus.BROKEN, 1)
    assert "matmul.cuh:7: no such thing" in report.findings[0].reason


@pytest.fixture
def predicted(make_trial: MakeTrial) -> Callable[[Schedule], float]:
    """Return the time in seconds that the present time model predicts for a schedule."""
    model = AnalyticEstimator(device("h200"), TemplateSet([template("matmul")]))

    def seconds(schedule: Schedule) -> float:
        kernel = template("matmul").kernel(PROBLEM, schedule, device("h200"))
        resources = make_trial(schedule).measurement.resources
        assert resources is not None
        estimate = model(Candidate(PROBLEM, schedule, kernel), resources)
        assert estimate is not None
        return estimate

    return seconds


def test_a_rival_now_predicted_to_be_faster_is_reported(
    make_trial: MakeTrial, database: MakeDatabase, schedules: list[Schedule], predicted: Callable[[Schedule], float]
) -> None:
    """One trial is faster by the stored estimates, and the other trial is faster by the model's present estimates."""
    fast, *_, slow = sorted(schedules, key=predicted)
    best = predicted(slow)
    assert best > 1.05 * predicted(fast)
    estimated = [
        make_trial(slow, best, provenance=Provenance.ESTIMATED),
        make_trial(fast, 1.1 * best, provenance=Provenance.ESTIMATED),
    ]
    path = database(*estimated)
    report = checked(path)
    assert (report.findings[0].verdict, report.status) == (EntryStatus.SLOWER, 1)
    assert "the predicted ranking changed: trial 2 is now faster" in report.findings[0].reason
    with Store.open(path) as store:
        store.set_guard(PROBLEM, "h200", Guard(max_slowdown=5.0))
    allowed = checked(path).findings[0]
    assert not allowed.verdict.fails, "the database may allow this entry a larger slowdown"
    right = make_trial(fast, predicted(fast), provenance=Provenance.ESTIMATED), make_trial(slow, best)
    assert not checked(database(*right, name="right.db")).findings[0].verdict.fails
    measured = make_trial(slow, 1e-6), make_trial(fast, 2e-6)
    assert checked(database(*measured, name="measured.db")).status == 0, (
        "measured times are not compared with predictions"
    )
    by_ptx = [dataclasses.replace(r, fingerprint=json.dumps({"model": "a model (PTX)"})) for r in estimated]
    elsewhere = checked(database(*by_ptx, name="by_ptx.db")).findings[0]
    assert not elsewhere.verdict.fails, "estimates from PTX and from machine code are not comparable"


def test_an_estimate_that_is_longer_now_is_slower(
    make_trial: MakeTrial, database: MakeDatabase, schedules: list[Schedule], predicted: Callable[[Schedule], float]
) -> None:
    half = make_trial(schedules[0], predicted(schedules[0]) / 2, provenance=Provenance.ESTIMATED)
    model = AnalyticEstimator(device("h200"), TemplateSet([template("matmul")])).name
    half = dataclasses.replace(half, fingerprint=json.dumps({"model": model}))
    report = checked(database(half))
    assert (report.findings[0].verdict, report.status) == (EntryStatus.SLOWER, 1)
    assert "estimated time: " in report.findings[0].reason and "was recorded, now" in report.findings[0].reason
    of_another = dataclasses.replace(half, autosched_version="0.0.1")
    assert not checked(database(of_another, name="of_another.db")).findings[0].verdict.fails
    by_ptx = dataclasses.replace(half, fingerprint=json.dumps({"model": f"{model} (PTX)"}))
    assert not checked(database(by_ptx, name="by_ptx.db")).findings[0].verdict.fails


def test_an_unverified_entry_is_uncertain_unless_it_was_measured(
    make_trial: MakeTrial, database: MakeDatabase, schedules: list[Schedule], predicted: Callable[[Schedule], float]
) -> None:
    seconds = predicted(schedules[0])
    estimated = checked(database(make_trial(schedules[0], seconds, provenance=Provenance.ESTIMATED)))
    assert (estimated.findings[0].verdict, estimated.status) == (EntryStatus.UNCERTAIN, 2)
    assert "no verification" in estimated.findings[0].reason
    assert checked(database(make_trial(schedules[0], seconds), name="measured.db")).status == 0


def test_entries_without_recorded_resources_cannot_be_compared(
    make_trial: MakeTrial, database: MakeDatabase, schedules: list[Schedule]
) -> None:
    old = make_trial(schedules[0])
    old = dataclasses.replace(old, measurement=dataclasses.replace(old.measurement, resources=None, code=None))
    report = checked(database(old))
    assert (report.findings[0].verdict, report.judged, report.status) == (EntryStatus.CANNOT_COMPARE, 0, 2)


def test_entries_that_cannot_be_checked_are_listed_and_do_not_pass(
    make_trial: MakeTrial, database: MakeDatabase, schedules: list[Schedule]
) -> None:
    good = make_trial(schedules[0])
    stranger = dataclasses.replace(good, problem_key='{"operator":"stencil","x":3}')
    elsewhere = dataclasses.replace(good, device="gtx-9000")
    report = checked(database(stranger, elsewhere))
    assert [f.verdict for f in report.findings] == [EntryStatus.CANNOT_COMPARE] * 2
    assert (report.judged, report.status) == (0, 2)
    assert "stencil" in report.findings[0].reason and "gtx-9000" in report.findings[1].reason
    mixed = checked(database(stranger, good, name="mixed.db"))
    assert [f.verdict for f in mixed.findings] == [EntryStatus.CANNOT_COMPARE, EntryStatus.SAME]
    assert mixed.status == 0
    only = dataclasses.replace(QUICK, operators=("matmul",))
    assert len(checked(database(stranger, good, name="only.db"), only).findings) == 1


def test_a_database_without_entries_never_passes(database: MakeDatabase, capsys: pytest.CaptureFixture[str]) -> None:
    path = database()
    assert main(["check", "--db", str(path), "--static"]) == 2
    assert "nothing was checked" in capsys.readouterr().out


@needs_compiler
def test_a_users_kernel_that_computes_something_else_now_is_wrong(
    tmp_path: Path,
    make_trial: MakeTrial,
    database: MakeDatabase,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from autosched.user_kernels.user_kernel import KernelSpec
    from search_spaces.catalogue import template
    from search_spaces.hardware.devices import device

    here = tmp_path / "kernel"
    shutil.copytree(EXAMPLE, here)
    (toml,) = here.glob("*.toml")
    toml.write_text(toml.read_text().replace("n = 10_000_019", "n = 4_099"))
    kernel = KernelSpec.from_file(toml)
    kernel.register()
    problem = kernel.problems[0]
    space = template(kernel.file.name).space(problem, device("h200"))
    schedule = next(s for s in space.sample(20, 0) if s["vector_width"] == 4)
    path = database(make_trial(schedule, problem=problem))
    command = ["check", "--db", str(path), "--static", "--growth", "100%", "--kernel", str(toml), "--json", "--github"]
    monkeypatch.chdir(tmp_path)
    assert main(command) == 0
    (entry,) = json.loads(capsys.readouterr().out)["entries"]
    assert entry["verdict"] == "same" and 0 < entry["numbers"]["error_over_tolerance"] <= 1
    (source,) = here.glob("*.cu")
    right = source.read_text()
    assert "load(a + i) + load(b + i)" in right, "the source has the code for the last elements"
    source.write_text(right.replace("load(a + i) + load(b + i)", "load(a + i) - load(b + i)"))
    capsys.readouterr()
    assert main(command) == 1
    captured = capsys.readouterr()
    (entry,) = json.loads(captured.out)["entries"]
    assert entry["verdict"] == "wrong" and "emulated:" in entry["reasons"][0]
    line = 1 + next(i for i, text in enumerate(right.splitlines()) if f" {kernel.file.entry}(" in text)
    (annotation,) = (text for text in captured.err.splitlines() if text.startswith("::error "))
    assert f"file=kernel/{source.name},line={line},title=" in annotation


def test_a_missing_host_compiler_is_reported_with_a_remedy(
    make_trial: MakeTrial,
    database: MakeDatabase,
    schedules: list[Schedule],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def missing() -> None:
        raise HostCompilerMissing("there is no C++ compiler")

    monkeypatch.setattr("autosched.regression.check.check_ready", missing)
    path = str(database(make_trial(schedules[0])))
    assert main(["check", "--db", path, "--static"]) == 2
    assert "or use --no-emulate" in capsys.readouterr().err
    assert main(["check", "--db", path, "--static", "--no-emulate"]) == 0


def test_an_emulation_without_a_verdict_is_uncertain(
    make_trial: MakeTrial, database: MakeDatabase, schedules: list[Schedule], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Late:
        status, reason, worst, ok, batch_invariant = "timeout", "not done in 60 s", None, False, False

    monkeypatch.setattr(static, "verify_one", lambda *arguments, **more: Late())
    report = checked(database(make_trial(schedules[0])), CheckOptions())
    assert (report.findings[0].verdict, report.status) == (EntryStatus.UNCERTAIN, 2)


@pytest.mark.parametrize("failure", [HostFailure("the disk is full: make room"), MemoryError()])
def test_a_host_failure_during_the_check_exits_with_2(
    failure: Exception,
    make_trial: MakeTrial,
    database: MakeDatabase,
    schedules: list[Schedule],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Entries before the failure keep their verdicts, the reports are written, and the exit status is 2."""
    larger = Matmul(m=128, n=64, k=64)
    failing = make_trial(template("matmul").space(larger, device("h200")).sample(1, 1)[0], problem=larger)
    path = database(make_trial(schedules[0]), failing)

    class Right:
        status, reason, worst, ok, batch_invariant = "ok", "", 0.1, True, False

    def verify(template: Any, problem: Any, *arguments: Any, **more: Any) -> Right:
        if problem == larger:
            raise failure
        return Right()

    monkeypatch.setattr(static, "verify_one", verify)
    junit, markdown = tmp_path / "check.xml", tmp_path / "check.md"
    command = ["check", "--db", str(path), "--static", "--junit", str(junit), "--markdown", str(markdown)]
    assert main(command) == 2
    assert capsys.readouterr().err.count("\n") == 1
    doubt = str(failure) or "MemoryError"
    assert "1 same" in markdown.read_text() and doubt in markdown.read_text()
    cases = {case.attrib["name"]: case for case in ET.parse(junit).iter("testcase")}
    (error,) = cases["the run"].iter("error")
    assert len(cases) == 3 and doubt in error.attrib["message"]


def test_a_problem_too_large_for_the_emulator_ends_no_other_check(
    make_trial: MakeTrial, database: MakeDatabase, schedules: list[Schedule], monkeypatch: pytest.MonkeyPatch
) -> None:
    larger = Matmul(m=128, n=64, k=64)
    large = make_trial(template("matmul").space(larger, device("h200")).sample(1, 1)[0], problem=larger)
    monkeypatch.setattr(schedule_verification, "MOST_BYTES", PROBLEM.min_bytes)
    report = checked(database(large, make_trial(schedules[0])), CheckOptions())
    assert [f.verdict for f in report.findings] == [EntryStatus.UNCERTAIN, EntryStatus.SAME]
    assert report.status == 0 and "[proxy]" in report.findings[0].reason


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "check needs a database"),
        (["--db", "no.db", "--static"], "no.db"),
        (["--db", "DB"], "use --static"),
        (["--db", "DB", "--static", "--against", "x.db"], "omit --static"),
        (["--db", "DB", "--against", "x.db", "--baseline", "python"], "two baselines"),
        (["--db", "DB", "--static", "--max-slowdown", "much"], "write 3% or 0.03"),
        (["--db", "DB", "--static", "--max-slowdown", "-3%"], "max_slowdown must be a fraction"),
        (["--db", "DB", "--rounds", "2"], "--rounds must be at least 8"),
        (["--db", "DB", "--static", "--junit", "no/folder/j.xml"], "name a file in an existing folder"),
        (["--db", "DB", "--static", "--kernel", "no.toml"], "no.toml"),
        (["--db", "DB", "--static", "--device", "h999"], "h999"),
        (["--db", "text", "--static"], "text"),
    ],
)
def test_invalid_input_is_rejected_in_one_line_without_side_effects(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    database: MakeDatabase,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    path = database(name="DB")
    (tmp_path / "text").write_text("no database")
    before = path.read_bytes()
    monkeypatch.setattr("autosched.regression.check.cuda_available", lambda: (False, "there is none"))
    assert main(["check", *arguments]) == 2
    err = capsys.readouterr().err
    assert message in err and len(err.splitlines()) == 1 and err.startswith("autosched: ")
    assert path.read_bytes() == before
