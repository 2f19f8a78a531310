"""Output of `best` for a database."""

import dataclasses
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from store_trials import database
from store_trials import matmul_schedule as schedule
from store_trials import matmul_trial as make_trial

from measurements.trials.measurement import Provenance
from measurements.trials.trial import canonical_json
from search_spaces.catalogue import template
from search_spaces.hardware.devices import device
from search_spaces.operators.matmul import Matmul

Run = Callable[..., tuple[int, str, str]]

SMALL = ("-m", "64", "-n", "64", "-k", "64")


def test_best_prints_time_provenance_and_schedule(run: Run) -> None:
    path = database(
        Path("b.db"), make_trial(2e-6), make_trial(None, chosen=schedule(1)), make_trial(1e-6, chosen=schedule(2))
    )
    status, out, err = run("best", "matmul", *SMALL, "--db", str(path))
    assert (status, err) == (0, "")
    assert "1.000 us" in out and "24.58 GB/s (1% of the bandwidth of DRAM)" in out and "bound by" in out
    assert "estimated by a model, not measured" in out
    assert "2026-01-02 03:04 UTC" in out and "3 estimated, 2 of them ok" in out
    for name, value in schedule(2).items:
        assert name in out and str(value) in out


def test_best_json_contains_the_whole_trial(run: Run) -> None:
    path = database(Path("b.db"), make_trial(2e-6))
    status, out, _ = run("best", "matmul", *SMALL, "--db", str(path), "--json")
    assert status == 0
    (best,) = json.loads(out)["best"]
    assert best["schedule"] == schedule().to_json()
    assert best["provenance"] == "estimated"
    assert best["timing"]["median"] == 2e-6
    assert best["flops_per_second"] == pytest.approx(2 * 64**3 / 2e-6)


def test_best_separates_devices_and_provenances(run: Run) -> None:
    path = database(
        Path("b.db"),
        make_trial(1e-6),
        make_trial(5e-6, provenance=Provenance.MEASURED, chosen=schedule(1)),
        make_trial(2e-6, on="a100"),
    )
    _, out, _ = run("best", "matmul", *SMALL, "--db", str(path), "--json")
    best = {b["device"]: b for b in json.loads(out)["best"]}
    assert best["h200"]["provenance"] == "measured" and best["h200"]["timing"]["median"] == 5e-6
    assert best["a100"]["provenance"] == "estimated"
    _, out, _ = run("best", "matmul", *SMALL, "--db", str(path), "--device", "A100", "--json")
    assert [b["device"] for b in json.loads(out)["best"]] == ["a100"]


def test_best_without_a_problem_lists_all_problems(run: Run) -> None:
    other = Matmul(128, 64, 32, a="bf16", b="bf16", out="bf16", order_a="col")
    schedule = template("matmul").space(other, device("h200")).sample(1, 0)[0]
    path = database(Path("b.db"), make_trial(2e-6), make_trial(3e-6, problem=other, chosen=schedule))
    status, out, err = run("best", "matmul", "--db", str(path))
    assert (status, err) == (0, "")
    rows = [line for line in out.splitlines() if "estimated" in line]
    assert len(rows) == 2
    assert "2.000 us" in rows[0] and "3.000 us" in rows[1] and "128" in rows[1] and "bf16" in rows[1]


@pytest.mark.parametrize(
    "arguments", [("-m", "1", "-n", "1", "-k", "1"), (*SMALL, "--device", "a100"), (*SMALL, "--order-a", "col")]
)
def test_best_exits_with_1_without_a_valid_schedule(run: Run, arguments: tuple[str, ...]) -> None:
    path = database(Path("b.db"), make_trial(2e-6), make_trial(None, problem=Matmul(1, 1, 1)))
    status, out, err = run("best", "matmul", *arguments, "--db", str(path))
    assert (status, out) == (1, "")
    assert err.startswith("autosched: ") and err.count("\n") == 1
    status, out, err = run("best", "matmul", *arguments, "--db", str(path), "--json")
    assert (status, json.loads(out)["best"], err.count("\n")) == (1, [], 1)


def test_best_rejects_an_unknown_device(run: Run) -> None:
    path = database(Path("b.db"), make_trial(2e-6))
    status, _, err = run("best", "matmul", *SMALL, "--db", str(path), "--device", "h2x")
    assert status == 2
    assert "unknown device 'h2x'" in err and "b.db holds h200" in err


def test_best_reports_a_derived_device_row(run: Run) -> None:
    note = "derived from the driver's figures and sm_89; unconfirmed: rates"
    path = database(
        Path("b.db"),
        dataclasses.replace(make_trial(2e-6), fingerprint=canonical_json({"sm": "sm_89", "derived": note})),
    )
    status, out, _ = run("best", "matmul", *SMALL, "--db", str(path))
    assert status == 0
    assert note in " ".join(out.split())


def test_best_does_not_modify_the_database(run: Run) -> None:
    path = database(Path("b.db"), make_trial(2e-6))
    before = path.read_bytes(), path.stat().st_mtime_ns
    path.chmod(0o444)
    assert run("best", "matmul", "--db", str(path))[0] == 0
    assert run("best", "matmul", *SMALL, "--db", str(path), "--json")[0] == 0
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before
    assert os.listdir() == ["b.db"]
