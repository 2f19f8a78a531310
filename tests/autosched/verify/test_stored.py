"""Verifications stored with trials: contents, when they become stale, and the commands that use them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from needs import needs_compiler, needs_nvrtc

from autosched.cli import main
from autosched.regression.check import CheckOptions, check_database
from autosched.regression.report import EntryStatus
from autosched.regression.static import StaticOptions
from autosched.tuning.result import TuneResult
from autosched.tuning.tune import tune
from autosched.verify import stored
from autosched.verify.schedules import verify_one
from autosched.verify.verdict import Verdict
from measurements.emulator import ptx_digest
from measurements.emulator.ptx.digest import instructions
from measurements.store.store import Store
from measurements.trials.measurement import Status
from search_spaces.catalogue import template
from search_spaces.hardware.devices import device
from search_spaces.launches.headers import Headers
from search_spaces.operators.row_reduction import Softmax

pytestmark = [needs_nvrtc, needs_compiler]

PROBLEM = Softmax(rows=4, columns=40)
H200 = device("h200")


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, TuneResult]:
    """Return a database and the tuning run that filled it. The run verified the best schedule only briefly."""
    path = tmp_path_factory.mktemp("verifications") / "best.db"
    return path, tune(
        PROBLEM, trials=2, database=path, backend="estimate", device="h200", seed=1, verification_seconds=1e-9
    )


@pytest.fixture
def database(tuned: tuple[Path, TuneResult], tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "copy.db"
    path.write_bytes(tuned[0].read_bytes())
    yield path


def verification_of(path: Path) -> dict[str, object]:
    with Store.open(path, create=False) as store:
        best = store.best(PROBLEM, "h200")
        assert best is not None and best.verification is not None
        return dict(json.loads(best.verification))


def changed(path: Path, **fields: object) -> None:
    """Change the stored verification of the best trial."""
    with Store.open(path, create=False) as store:
        best = store.best(PROBLEM, "h200")
        assert best is not None and best.verification is not None
        store.set_verification(best, json.dumps({**json.loads(best.verification), **fields}))


def test_tune_stores_a_full_verification_of_its_winner(tuned: tuple[Path, TuneResult]) -> None:
    path, result = tuned
    assert result.best is not None and result.best.verification is not None
    verification = verification_of(path)
    assert (verification["status"], verification["depth"], verification["whole"]) == ("ok", "full", False)
    kernel = template(result.best.schedule.template).kernel(PROBLEM, result.best.schedule, H200)
    assert verification["ptx"] == ptx_digest(kernel) and stored.stale_reason(result.best.verification, kernel) == ""
    assert not stored.is_full(result.best.verification), "the verification was cut short"
    assert "cut short" in result.verification and result.verification == stored.summary(result.best.verification)


def test_a_best_that_fails_its_full_verification_is_not_best(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store.open(database) as store:
        best = store.best(PROBLEM, "h200")
    assert best is not None
    wrong = best.schedule

    def verify(*arguments: object, **options: object) -> Verdict:
        verdict = verify_one(*arguments, **{**options, "depth": "quick"})  # type: ignore[arg-type]
        full = options.get("depth") == "full"
        return replace(verdict, status="findings", reason="a race") if full and verdict.schedule == wrong else verdict

    monkeypatch.setattr("autosched.tuning.winner.winner_verification.verify_one", verify)
    result = tune(
        PROBLEM, trials=1, database=database, backend="estimate", device="h200", seed=2, verification_seconds=30.0
    )
    assert result.best is not None and result.best.schedule != wrong
    with Store.open(database) as store:
        assert [r.measurement.reason for r in store.trials() if r.status is Status.WRONG_RESULT] == [
            "emulated: findings: a race"
        ]
        assert store.best(PROBLEM, "h200") == result.best
    assert result.verification.endswith("1 faster one failed")


def test_comments_and_line_numbers_do_not_change_the_digest(tuned: tuple[Path, TuneResult]) -> None:
    schedule = tuned[1].best.schedule  # type: ignore[union-attr]
    kernel = template(schedule.template).kernel(PROBLEM, schedule, H200)
    name = "autosched/kernels/row_reduction.cuh"
    text = dict(kernel.headers.files)[name]
    commented = replace(kernel, headers=Headers.of(dict(kernel.headers.files) | {name: f"// one more line\n{text}"}))
    assert ptx_digest(commented) == ptx_digest(kernel)
    other = replace(kernel, source=kernel.source + '\nextern "C" __global__ void g(float* p) { *p = 1.0f; }\n')
    assert ptx_digest(other) != ptx_digest(kernel)
    assert ptx_digest(replace(kernel, source="no C++")) is None
    assert instructions('// x\n\t.loc 1 2 3\n\tret;\n\t.file 1 "a.cu"\n') == ["\tret;"]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"ptx": "0" * 64}, "compiles to different PTX"),
        ({"emulator": "0" * 64}, "another version of the emulator"),
        ({"compiler": "nvrtc 9.1"}, "compiled by nvrtc 9.1"),
        ({"ptx": None}, "does not name the verified PTX"),
        ({"status": "timeout"}, "failed: timeout"),
    ],
)
def test_check_reports_stale_verifications(database: Path, fields: dict[str, object], message: str) -> None:
    changed(database, **fields)
    options = CheckOptions(static=StaticOptions(emulate=False))
    (finding,) = check_database(database, options, static=True).findings
    assert (
        finding.verdict is EntryStatus.UNCERTAIN
        and message in finding.reason
        and message in str(finding.numbers["verification"])
    )


def test_check_accepts_a_current_verification(database: Path) -> None:
    report = check_database(database, CheckOptions(static=StaticOptions(emulate=False)), static=True)
    assert report.findings[0].numbers["verification"] == "holds" and report.findings[0].verdict is EntryStatus.SAME


def test_verify_compares_renews_and_stores_verifications(database: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["verify", "softmax", "--rows", "4", "--columns", "40", "--db", str(database), "--sample", "1", "--json"]

    def stored_result() -> object:
        assert main(command) == 0
        return json.loads(capsys.readouterr().out)["candidates"][0]["stored_verification"]

    before = verification_of(database)
    assert stored_result() == {"before": "", "now": "holds", "why": ""} and verification_of(database) == before
    changed(database, ptx="0" * 64)
    assert stored_result() == {
        "before": "the kernel now compiles to different PTX",
        "now": "renewed",
        "why": "",
    }
    assert verification_of(database)["ptx"] == before["ptx"] and verification_of(database)["depth"] == "quick"
    with Store.open(database) as store, store.writing() as connection:
        connection.exec_driver_sql("UPDATE trials SET verification = NULL")
    assert stored_result() == {"before": stored.ABSENT, "now": "stored", "why": ""}
    with Store.open(database) as store, store.writing() as connection:
        connection.exec_driver_sql("UPDATE trials SET kernel_digest = 'other', verification = NULL")
    now = stored_result()
    assert isinstance(now, dict) and now["now"] == "not stored" and "has changed" in now["why"]


def test_a_full_verification_perturbs_approximate_functions() -> None:
    schedule = template("row_reduction").space(PROBLEM, H200).sample(1, 3)[0]
    verdict = verify_one(template("row_reduction"), PROBLEM, schedule, H200, depth="full")
    assert verdict.ok and verdict.whole
    edge = [run for run in verdict.runs if run.perturbed]
    assert len(edge) >= 2 and {"random"} in [set(run.cases) for run in edge]
    verification = json.dumps(verdict.stored())
    assert "perturbed" in stored.summary(verification) and stored.is_full(verification)


@pytest.mark.parametrize("text", ['"x"', "[]", "{}", '{"runs": 3, "status": 1, "emulator": 2}', "no JSON"])
def test_verifications_of_unknown_format_are_reported(text: str) -> None:
    schedule = template("row_reduction").space(PROBLEM, H200).sample(1, 3)[0]
    kernel = template("row_reduction").kernel(PROBLEM, schedule, H200)
    assert stored.summary(text) == "unknown format, see --json"
    assert stored.stale_reason(text, kernel) and not stored.is_full(text)
