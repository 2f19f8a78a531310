"""Commands print the texts of untrusted databases safely."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from rich.table import Table
from store_trials import make_trial

from autosched.cli.app import run
from autosched.cli.terminal.console import show, stdout_console
from autosched.dispatch.database import Database, NoSchedule
from measurements.store.store import Store
from measurements.trials.measurement import Measurement, Provenance, Status, Timing
from measurements.trials.trial import Trial
from search_spaces.catalogue import template
from search_spaces.hardware.devices import device
from search_spaces.operators.transpose import Transpose

PROBLEM, H200 = Transpose(64, 64), device("h200")
BEST = ["best", "transpose", "--rows", "64", "--columns", "64", "--db"]


def stored(path: Path, **changes: object) -> Trial:
    transpose = template("transpose")
    schedule = transpose.space(PROBLEM, H200).sample(1, 0)[0]
    measurement = Measurement(Status.OK, Provenance.MEASURED, timing=Timing(1e-6, 1e-6, 1e-6, 9))
    trial = make_trial(schedule, measurement, PROBLEM)
    trial = dataclasses.replace(
        trial, kernel_digest=transpose.kernel(PROBLEM, schedule, H200).digest, template_version=transpose.version
    )
    with Store.open(path) as store:
        return store.append(dataclasses.replace(trial, **changes))


def test_control_characters_of_arguments_are_shown_escaped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ([*BEST, f"{tmp_path}/\u202e\x1b[2Ja.db"], ["best", "\u202etranspose"], ["be\x1b[31mst"]):
        assert run(arguments) == 2
        out, err = capsys.readouterr()
        assert out == "" and err.rstrip("\n").isprintable() and ("\\u202e" in err or "\\x1b" in err)


def test_no_text_acts_on_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    console, table = stdout_console(), Table("\x1b]0;owned\x07")
    table.add_row("\u202etxt.exe")
    show(console, table)
    console.print("\x1b[2J cleared")
    assert all(line.isprintable() for line in capsys.readouterr().out.splitlines())


@pytest.mark.parametrize("where", ["h200", "h9000"])
def test_values_that_no_domain_holds_are_never_the_best(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], where: str
) -> None:
    valid = stored(tmp_path / "good.db", device=where).schedule
    name = next(name for name, value in valid.items if isinstance(value, int))
    stored(tmp_path / "a.db", schedule=valid.replace(**{name: 12345}), device=where)
    assert run([*BEST, str(tmp_path / "a.db")]) == 2
    assert "trial 1 of" in (err := capsys.readouterr().err) and "has a schedule that this version cannot use" in err
    with pytest.raises(NoSchedule, match="of trial 1, cannot be used"):
        Database(tmp_path / "a.db").best(PROBLEM, where)
    assert Database(tmp_path / "good.db").best(PROBLEM, where) is not None
    assert run([*BEST, str(tmp_path / "good.db")]) == 0


def test_best_reports_a_stale_kernel(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored(tmp_path / "now.db")
    stored(tmp_path / "then.db", kernel_digest="0" * 64)
    for name, stale in (("now", False), ("then", True)):
        assert run([*BEST, str(tmp_path / f"{name}.db")]) == 0
        assert ("the kernel's code" in capsys.readouterr().out) == stale
        assert run([*BEST, str(tmp_path / f"{name}.db"), "--json"]) == 0
        (best,) = json.loads(capsys.readouterr().out)["best"]
        assert bool(best["stale"]) == stale
