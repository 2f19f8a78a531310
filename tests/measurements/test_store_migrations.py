"""A database that an older autosched made: ``schema_2.sql`` is one that the version before kernel templates wrote."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from measurements import store_migrations
from measurements.store import SCHEMA_VERSION, Store, StoreError
from search_spaces.catalogue import template
from search_spaces.hardware.devices import device
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.row_reduction import Softmax

SOFTMAX, MATMUL = Softmax(64, 256), Matmul(64, 64, 64)


@pytest.fixture
def older(tmp_path: Path) -> Path:
    path = tmp_path / "older.db"
    with closing(sqlite3.connect(path)) as raw:
        raw.executescript(Path(__file__).with_name("schema_2.sql").read_text())
    return path


def schema(path: Path) -> str:
    with closing(sqlite3.connect(path)) as raw:
        return str(raw.execute("SELECT value FROM meta WHERE key = 'schema_version'").fetchone()[0])


@pytest.mark.parametrize("create", [True, False])
def test_every_trial_is_kept_under_its_operator_and_template(older: Path, create: bool) -> None:
    with Store.open(older, create=create) as store:
        softmax, matmul = store.trials(SOFTMAX), store.trials(MATMUL)
        assert (len(softmax), len(matmul)) == (2, 2) and store.count() == 4
        assert {r.schedule.template for r in softmax} == {"row_reduction"}
        assert {r.schedule.template for r in matmul} == {"matmul"}
        assert {r.template_version for r in (*softmax, *matmul)} == {""}
        assert [s.operator for s in store.problems()] == ["softmax", "matmul"]
        assert store.problem(store.problems("softmax")[0]) == SOFTMAX
        for problem, records in ((SOFTMAX, softmax), (MATMUL, matmul)):
            for record in records:
                template(record.schedule.template).config(problem, record.schedule, device("h200"))  # is valid
        assert store.best(MATMUL, "h200") is not None
    assert schema(older) == str(SCHEMA_VERSION)
    with Store.open(older) as again:
        assert again.trials(SOFTMAX) == softmax


def test_a_trial_of_before_is_one_with_a_trial_of_now(older: Path) -> None:
    with Store.open(older) as store:
        first = store.trials(SOFTMAX)[0]
        store.append(first)
        assert next(s for s in store.problems("softmax")).trials == 2


def test_a_migration_that_is_cut_short_leaves_the_database_as_it_was(
    older: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(store_migrations, "_row_of_3", cut)
    with pytest.raises(KeyboardInterrupt):
        Store.open(older)
    assert schema(older) == "2"
    monkeypatch.undo()
    with Store.open(older) as store:
        assert store.count() == 4


def test_a_damaged_trial_is_named_and_nothing_is_changed(older: Path) -> None:
    with closing(sqlite3.connect(older)) as raw, raw:
        raw.execute("UPDATE trials SET schedule = '[1]' WHERE id = 2")
    with pytest.raises(StoreError, match="trial 2 of the database"):
        Store.open(older)
    assert schema(older) == "2"
