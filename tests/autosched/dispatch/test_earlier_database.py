"""A database that commit c43736c wrote, before modules moved into rooms: everything reads it."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import autosched
from autosched.cli import main
from measurements.store.store import Store
from search_spaces.catalogue import template
from search_spaces.hardware.devices import device

ROOT = Path(__file__).parents[3]
WRITTEN = ROOT / "tests" / "measurements" / "store" / "written_by_c43736c.sql"
KERNEL = ROOT / "examples" / "vector_add" / "vector_add.toml"
SOFTMAX, MATMUL = autosched.Softmax(64, 256), autosched.Matmul(64, 64, 64)


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "best.db"
    with closing(sqlite3.connect(path)) as raw:
        raw.executescript(WRITTEN.read_text())
    return path


def test_every_record_is_read(database: Path) -> None:
    with Store.open(database, create=False) as store:
        found = [(s.operator, s.trials) for s in store.problems()]
        assert found == [("softmax", 2), ("matmul", 2), ("vector_add", 2), ("vector_add", 2)]
        for problem in (SOFTMAX, MATMUL):
            for record in store.trials(problem):
                assert record.measurement.timing is not None
                template(record.schedule.template).kernel(problem, record.schedule, device("h200"))


def test_the_best_is_looked_up_and_called_stale(database: Path) -> None:
    answer = autosched.Database(database).look_up(SOFTMAX, "h200")
    assert answer.provenance.kind == "exact" and answer.kernel is not None
    assert answer.provenance.stale, "the template has changed since"


@pytest.mark.parametrize("problem", ["softmax --rows 64 --columns 256", f"--kernel {KERNEL} --size n=1000000"])
def test_best_shows_it(database: Path, problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["best", *problem.split(), "--db", str(database), "--json"]) == 0
    (best,) = json.loads(capsys.readouterr().out)["best"]
    assert best["provenance"] == "estimated" and best["stale"]
