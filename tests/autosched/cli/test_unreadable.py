"""For a damaged or edited trial, or one of another version, commands print one line with its id and exit with 2."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from store_trials import tell_entries

from autosched.cli import main
from measurements.store.store import Store
from measurements.trials.measurement import Measurement, Provenance, Status, Timing
from measurements.trials.trial import Trial
from search_spaces.catalogue import template
from search_spaces.hardware.devices import device
from search_spaces.operators.matmul import Matmul

H200 = device("h200")
PROBLEM = Matmul(m=32, n=32, k=32)
SPACE = template("matmul").space(PROBLEM, H200)
SMALL = ("-m", "32", "-n", "32", "-k", "32")
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("measurements.runners.cuda.runner.cuda_available", lambda: (False, "no GPU"))

    def invoke(*arguments: str) -> tuple[int, str, str]:
        status = main(arguments)
        out, err = capsys.readouterr()
        return status, out, err

    return invoke


def database(*, edit: Callable[[dict[str, object]], object] = dict, **changes: str) -> None:
    """Write ``b.db`` with two trials. ``edit`` and ``changes`` damage the second trial."""
    with Store.open("b.db") as store:
        for number, chosen in enumerate(SPACE.sample(2, 5), 1):
            store.append(
                Trial(
                    problem_key=PROBLEM.key(),
                    schedule=chosen,
                    device="h200",
                    fingerprint="{}",
                    template_version="v1",
                    space_version=SPACE.fingerprint,
                    kernel_digest=f"d{number}",
                    measurement=Measurement(Status.OK, Provenance.ESTIMATED, timing=Timing.estimate(1e-6 * number)),
                    toolchain="nvrtc",
                    driver="",
                    autosched_version="0.1.0",
                    created=datetime.now(UTC),
                    sampler="random",
                    seed=0,
                )
            )
        changes.setdefault("schedule", json.dumps(edit(chosen.to_json())))
    with closing(sqlite3.connect("b.db")) as raw:
        for cell, text in changes.items():
            raw.execute(f"UPDATE trials SET {cell} = ? WHERE id = 2", (text,))
        tell_entries(raw)
        raw.commit()


def rows() -> list[tuple[object, ...]]:
    with closing(sqlite3.connect("b.db")) as raw:
        return raw.execute("SELECT * FROM trials").fetchall()


def refused(run: Run, *command: str) -> str:
    before = rows()
    status, out, err = run(*command, "--db", "b.db")
    assert (status, out, err.count("\n")) == (2, "", 1), err
    assert rows() == before
    return err


ODD_PROBLEMS = {
    "a field too many": json.dumps({**PROBLEM.to_json(), "sparsity": 2}, sort_keys=True, separators=(",", ":")),
    "a value of another version": PROBLEM.key().replace("f16", "f4"),
    "an impossible size": PROBLEM.key().replace('"m":32', '"m":-1'),
    "another operator": json.dumps({"operator": "convolution"}),
    "of another operator": PROBLEM.key().replace("matmul", "transpose"),
    "without spaces": PROBLEM.key().replace(",", ", "),
    "not whole": PROBLEM.key()[:-5],
}


@pytest.mark.parametrize("command", ["best", "verify"])
@pytest.mark.parametrize("problem", ODD_PROBLEMS.values(), ids=ODD_PROBLEMS)
def test_a_problem_of_another_form_is_named(run: Run, command: str, problem: str) -> None:
    database(problem=problem)
    assert "trial 2 of the database" in refused(run, command, "matmul")


@pytest.mark.parametrize("command", ["best", "verify"])
def test_an_unreadable_problem_of_another_operator_is_skipped(run: Run, command: str) -> None:
    database(problem='{"operator":"convolution"}', operator="convolution")
    status, _, err = run(command, "softmax", "--db", "b.db")
    assert status == (2 if command == "verify" else 1)  # `verify` finds no stored schedule of softmax
    assert err.count("\n") == 1


def test_a_problem_is_found_next_to_one_of_another_format(run: Run) -> None:
    database(problem=ODD_PROBLEMS["a field too many"])
    status, out, _ = run("best", "matmul", *SMALL, "--db", "b.db", "--json")
    assert status == 0
    assert [b["id"] for b in json.loads(out)["best"]] == [1]


@pytest.mark.parametrize("command", ["best", "verify", "tune"])
@pytest.mark.parametrize(
    ("cell", "text"),
    [("created", "soon"), ("provenance", "guessed"), ("fingerprint", "{"), ("schedule", "{"), ("median", "x")],
)
def test_a_bad_cell_is_named(run: Run, command: str, cell: str, text: str) -> None:
    if (command, cell) == ("tune", "provenance"):
        pytest.skip("tune continues only from trials of its own provenance")
    database(**{cell: text})
    with closing(sqlite3.connect("b.db")) as raw:  # so that `best` shows the damaged trial
        raw.execute("UPDATE trials SET median = 1e-3, p25 = 1e-3, p75 = 1e-3 WHERE id = 1")
        raw.commit()
    options = ("--backend", "estimate", "--trials", "1", "--workers", "1") if command == "tune" else ()
    err = refused(run, command, "matmul", *SMALL, *options, "--device", "h200")
    assert "trial 2 of the database" in err and cell in err


@pytest.mark.parametrize("command", ["verify", "tune"])
@pytest.mark.parametrize(
    "change",
    [
        lambda values: {**values, "warp_specialization": 1},
        lambda values: {**values, "tile_m": 7},
        lambda values: {**values, "intrinsic": "tcgen05"},
        lambda values: {name: value for name, value in values.items() if name != "tile_m"},
    ],
)
def test_a_schedule_of_another_space_is_named(
    run: Run, command: str, change: Callable[[dict[str, object]], object]
) -> None:
    database(edit=change)
    options = ("--backend", "estimate", "--trials", "1", "--workers", "1") if command == "tune" else ()
    assert "trial 2 of " in refused(run, command, "matmul", *SMALL, *options, "--device", "h200")


def swizzled(values: dict[str, object]) -> dict[str, object]:
    """Return parameter values within their domains, but with a layout of ``a`` that the intrinsic does not support."""
    return {**values, "intrinsic": "wmma_m16n16k16_f16", "layout_a": "swizzle(3,3,3)", "epilogue": "shared"}


UNUSABLE = pytest.mark.parametrize("edit", [lambda values: {**values, "warp_specialization": 1}, swizzled])


@UNUSABLE
def test_best_and_verify_reject_an_unusable_best_trial(run: Run, edit: Callable[[dict[str, object]], object]) -> None:
    database(edit=edit, median="1e-9", p25="1e-9", p75="1e-9")
    err = refused(run, "best", "matmul", *SMALL)
    assert "trial 2 of " in err and "cannot use" in err
    assert refused(run, "verify", "matmul", *SMALL, "--device", "h200") == err


@UNUSABLE
def test_best_excludes_unusable_trials_from_its_list(run: Run, edit: Callable[[dict[str, object]], object]) -> None:
    database(edit=edit, median="1e-9", p25="1e-9", p75="1e-9")
    with Store.open("b.db") as store:
        store.append(replace(next(r for r in store.trials() if r.id == 1), device="h100"))
    status, out, err = run("best", "matmul", "--db", "b.db", "--json")
    assert status == 0 and [b["device"] for b in json.loads(out)["best"]] == ["h100"]
    assert err.startswith("autosched: left out: trial 2 of ") and err.count("\n") == 1


def test_best_shows_trials_of_an_unknown_gpu(run: Run) -> None:
    database(device="some_gpu", median="1e-9", p25="1e-9", p75="1e-9")
    assert run("best", "matmul", *SMALL, "--db", "b.db")[0] == 0
