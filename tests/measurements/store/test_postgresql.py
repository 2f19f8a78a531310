"""The trial store fulfils the same contract on a PostgreSQL server as in a file. Many processes may write at once."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import forked_python
import pytest
import sqlalchemy as sa
from cases import representative
from postgresql_server import server

import tests.measurements.store.test_store as contract
from autosched.cli import main
from measurements.store import maintenance
from measurements.store.merge import MergeOutcome, merge
from measurements.store.store import Store, StoreError

_NUMBERS = count()


@pytest.fixture(scope="module")
def urls() -> Iterator[str]:
    with server() as url:
        yield url


@pytest.fixture
def url(urls: str) -> str:
    name = f"test_{next(_NUMBERS)}"
    admin = sa.create_engine(urls.format("postgres"), isolation_level="AUTOCOMMIT")
    with admin.connect() as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {name}")
    admin.dispose()
    return urls.format(name)


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with Store.open(url) as opened:
        yield opened


class TestTrials(contract.TestTrials):
    test_the_database_itself_rejects_a_time_of_a_failure = None  # the test queries SQLite
    test_a_url_and_a_database_in_memory_work = None


class TestBest(contract.TestBest):
    test_agrees_with_the_definition = None  # the test uses a database in memory


class TestGuards(contract.TestGuards):
    test_an_unreadable_guard_is_reported = None  # only SQLite allows a value of any type in every cell


def test_entries_agree_with_the_trials(store: Store) -> None:
    for tile in (1, 2, 1, 3):
        store.append(contract.make_trial(tile, contract.ok(1e-6 * tile)))
    store.rank()
    assert maintenance.check(store) == [] and not store.in_memory
    stats = maintenance.stats(store)
    assert (stats.trials, stats.problems, stats.size) == (4, 1, None)
    assert maintenance.collect(store, keep=1).left == store.count() == 2


def test_a_server_and_a_file_are_merged(store: Store, tmp_path: Path) -> None:
    with Store.open(tmp_path / "a.db") as file:
        file.append(contract.make_trial(1))
        assert [e.verdict for e in merge(file, store).entries] == [MergeOutcome.NEW]
        assert [e.verdict for e in merge(store, file).entries] == [MergeOutcome.SAME]
    assert store.count() == 1


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'; "
        "CREATE TRIGGER t BEFORE INSERT ON trials FOR EACH ROW EXECUTE FUNCTION f()",
        "CREATE RULE r AS ON INSERT TO trials DO INSTEAD NOTHING",
    ],
)
def test_unknown_database_objects_are_rejected(url: str, statement: str) -> None:
    Store.open(url).close()
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        connection.exec_driver_sql(statement)
    engine.dispose()
    with pytest.raises(StoreError, match="has objects that autosched never creates"):
        Store.open(url, create=False)


@pytest.mark.parametrize("url_change", ["://autosched:se@cret@", "password=se@cret"])
def test_no_command_shows_a_password(
    url: str, url_change: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    database_url = url.replace("://autosched@", url_change) if url_change.startswith(":") else f"{url}&{url_change}"
    assert database_url != url
    Store.open(url).close()
    for command in (
        "export --out x",
        "db gc --json",
        "db stats --json",
        "check --static --json",
        "best copy",
    ):
        main([*command.split(), "--db", database_url])
    Store.open(url).append(contract.make_trial(1))
    for command in ("db stats", "db check", "best matmul", "export --out x", "check --static --no-emulate"):
        main([*command.split(), "--db", database_url])
    out, err = capsys.readouterr()
    assert "cret" not in out + err and "***" in out + err and "Traceback" not in err


def test_an_unreachable_server_is_reported(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="check that the database exists") as caught:
        Store.open(f"postgresql+psycopg://nobody:secret@/none?host={tmp_path}")
    assert "secret" not in str(caught.value) and "\n" not in str(caught.value)


WRITER = """
import sys
sys.path[:0] = PATHS
import tests.measurements.store.test_store as t
from measurements.store.store import Store
url, writer, number = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
with Store.open(url) as store:
    for i in range(number):
        store.append(t.make_trial(1000 * writer + i, t.ok(1e-6 * (1 + (i * 7919 + writer) % 1000))))
"""


@pytest.mark.timeout(1800)  # ten processes may share few cores
@pytest.mark.parametrize("kind", representative(["sqlite", "postgresql"], "postgresql"))
def test_concurrent_writers_neither_lose_nor_duplicate_trials(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path, nightly: bool
) -> None:
    location = str(tmp_path / "a.db") if kind == "sqlite" else request.getfixturevalue("url")
    writers, each = (10, 1000) if nightly else (2, 20)
    code = WRITER.replace("PATHS", json.dumps([str(Path(__file__).parents[3]), *(p for p in sys.path if p)]))
    started = [
        forked_python.Popen(
            [sys.executable, "-c", code, location, str(writer), str(each)], stderr=subprocess.PIPE, text=True
        )
        for writer in range(writers)
    ]
    for process in started:
        _, err = process.communicate()
        assert process.returncode == 0, err
    with Store.open(location, create=False) as store:
        tiles = Counter(trial.schedule["tile_m"] for trial in store.trials())
        assert tiles == {1000 * writer + i: 1 for writer in range(writers) for i in range(each)}
        assert maintenance.check(store) == []
        best = store.best(contract.PROBLEM, "h200")
        assert best is not None and best.seconds == min(r.seconds or 1 for r in store.trials())
