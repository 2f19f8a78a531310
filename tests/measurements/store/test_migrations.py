"""Databases that older versions of autosched made: ``schema_N.sql`` is one that it wrote when N was its schema."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from measurements.records.record import Budget
from measurements.store import schema as store_schema
from measurements.store.store import SCHEMA_VERSION, Guard, Store, StoreError
from search_spaces.catalogue import template
from search_spaces.hardware.devices import device
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.row_reduction import Softmax
from search_spaces.spaces.schedule import Schedule

SOFTMAX, MATMUL = Softmax(64, 256), Matmul(64, 64, 64)
SCHEMAS = range(store_schema.OLDEST_SCHEMA, SCHEMA_VERSION)


@pytest.fixture(params=SCHEMAS, ids=lambda n: f"schema {n}")
def schema_of(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def older(tmp_path: Path, schema_of: int) -> Path:
    path = tmp_path / "100%older.db"
    with closing(sqlite3.connect(path)) as raw:
        raw.executescript(Path(__file__).with_name(f"schema_{schema_of}.sql").read_text())
    return path


def schema(path: Path) -> int:
    with closing(sqlite3.connect(path)) as raw:
        return int(raw.execute("SELECT value FROM meta WHERE key = 'schema_version'").fetchone()[0])


@pytest.mark.parametrize("create", [True, False])
def test_every_trial_is_kept_under_its_operator_and_template(older: Path, create: bool, schema_of: int) -> None:
    with Store.open(older, create=create) as store:
        softmax, matmul = store.trials(SOFTMAX), store.trials(MATMUL)
        assert (len(softmax), len(matmul)) == (2, 2) and store.count() == 4
        assert {r.schedule.template for r in softmax} == {"row_reduction"}
        assert {r.schedule.template for r in matmul} == {"matmul"}
        assert {r.template_version == "" for r in (*softmax, *matmul)} == {schema_of < 3}
        code = {r.measurement.code is None for r in (*softmax, *matmul)}
        assert code == {schema_of < 4} and {r.budget for r in matmul} == {Budget(2) if schema_of >= 4 else None}
        assert [s.operator for s in store.problems()] == ["softmax", "matmul"]
        assert store.problem(store.problems("softmax")[0]) == SOFTMAX
        for problem, records in ((SOFTMAX, softmax), (MATMUL, matmul)):
            for record in records:
                template(record.schedule.template).config(problem, record.schedule, device("h200"))  # is valid
        assert store.best(MATMUL, "h200") is not None
        assert store.guard(MATMUL, "h200") == (Guard(0.05, 1e-6, None, "by hand") if schema_of >= 4 else None)
    assert schema(older) == SCHEMA_VERSION
    with Store.open(older) as again:
        assert again.trials(SOFTMAX) == softmax


def test_a_migrated_database_is_like_a_new_one(older: Path) -> None:
    Store.open(older).close()
    engine = sa.create_engine(f"sqlite:///{older}")
    with engine.connect() as connection:
        context = MigrationContext.configure(connection)
        assert context.get_current_revision() == str(SCHEMA_VERSION)
        assert compare_metadata(context, store_schema.META.metadata) == []
    engine.dispose()


def test_a_trial_of_before_is_one_with_a_trial_of_now(older: Path) -> None:
    with Store.open(older) as store:
        first = store.trials(SOFTMAX)[0]
        store.append(first)
        assert next(s for s in store.problems("softmax")).trials == 2


@pytest.mark.parametrize("schema_of", [2], indirect=True)
def test_a_migration_that_is_cut_short_leaves_the_database_as_it_was(
    older: Path, schema_of: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Schedule, "key", cut)
    with pytest.raises(KeyboardInterrupt):
        Store.open(older)
    assert schema(older) == schema_of
    monkeypatch.undo()
    with Store.open(older) as store:
        assert store.count() == 4


@pytest.mark.parametrize("schema_of", [2], indirect=True)
def test_a_damaged_trial_is_named_and_nothing_is_changed(older: Path, schema_of: int) -> None:
    with closing(sqlite3.connect(older)) as raw, raw:
        raw.execute("UPDATE trials SET schedule = '[1]' WHERE id = 2")
    before = older.read_bytes()
    with pytest.raises(StoreError, match="trial 2 of the database"):
        Store.open(older)
    assert schema(older) == schema_of
    assert older.read_bytes() == before


def test_a_column_that_its_schema_has_must_be_there(older: Path) -> None:
    with closing(sqlite3.connect(older)) as raw, raw:
        raw.execute("ALTER TABLE trials RENAME COLUMN reason TO cause")
    for create in (True, False):
        with pytest.raises(StoreError, match="is not a database of autosched"):
            Store.open(older, create=create)
