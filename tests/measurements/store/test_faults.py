"""Killed processes, full disks, edits by other programs and wrong names give clear errors or do no harm."""

import dataclasses
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import forked_python
import pytest

from measurements.store import sqlite_file
from measurements.store.store import SCHEMA_VERSION, Store, StoreError
from measurements.trials.measurement import Measurement, Provenance, Status, Timing
from measurements.trials.trial import Trial
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.schedule import Schedule

PROBLEM = Matmul(m=64, n=48, k=32)
PAGE = 4096
WITHOUT_INDEXES = "DROP INDEX trials_in_order; DROP INDEX trials_by_schedule; DROP INDEX trials_wrong"


def make_trial(tile: int) -> Trial:
    return Trial(
        problem_key=PROBLEM.key(),
        schedule=Schedule("matmul", (("tile_n", 64), ("tile_m", tile))),
        device="h200",
        fingerprint='{"sm":90}',
        template_version="v1",
        space_version="s1",
        kernel_digest=f"d{tile}",
        measurement=Measurement(Status.OK, Provenance.ESTIMATED, timing=Timing.estimate(1e-6 * tile)),
        toolchain="NVRTC 13.0",
        driver="",
        autosched_version="0.1.0",
        created=datetime(2026, 3, 4, 5, 6, 7, 89, tzinfo=UTC),
        sampler="random",
        seed=7,
    )


def database(path: Path, count: int = 3) -> Path:
    with Store.open(path) as store:
        for tile in range(1, count + 1):
            store.append(make_trial(tile))
    return path


def content(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in sorted(folder.iterdir()) if p.is_file()}


def refused(location: object, folder: Path, *, create: bool) -> str:
    before = content(folder)
    with pytest.raises(StoreError) as caught:
        Store.open(location, create=create)  # type: ignore[arg-type]
    assert content(folder) == before, "a rejected file is not modified"
    assert "\n" not in str(caught.value)
    return str(caught.value)


CHILD = """
import os, resource, signal, sys
sys.path[:0] = PATHS
from pathlib import Path
from measurements.store.store import SCHEMA_VERSION, Store, StoreError
import test_faults as t
path, action, number = sys.argv[1], sys.argv[2], int(sys.argv[3])
if action == "killed":
    store = Store.open(path)
    for tile in range(1, number + 1):
        store.append(t.make_trial(tile))
    os.kill(os.getpid(), signal.SIGKILL)
if action == "full":
    store = Store.open(path)
    # files of this process cannot grow beyond that; the log stands before the database itself
    resource.setrlimit(resource.RLIMIT_FSIZE, (number, number))
    stored = 0
    try:
        while True:
            store.append(t.make_trial(stored + 1))
            stored += 1
    except StoreError as error:
        print(stored, error)
if action == "restless":
    for tile in range(1, number + 1):
        with Store.open(path) as store:
            store.append(t.make_trial(tile))
        assert Store.open(path, create=False).count() >= tile
"""


def child(path: Path, action: str, number: int) -> "subprocess.Popen[str]":
    code = CHILD.replace("PATHS", json.dumps([str(Path(__file__).parent), *(p for p in sys.path if p)]))
    arguments = [sys.executable, "-c", code, str(path), action, str(number)]
    return forked_python.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


class TestAftermath:
    """Databases of killed processes. While a log is next to the file, the file alone is incomplete."""

    @pytest.mark.parametrize("create", [True, False])
    def test_the_log_of_a_killed_process_is_recovered(self, tmp_path: Path, create: bool) -> None:
        killed = child(tmp_path / "a.db", "killed", 40)
        killed.communicate()
        assert killed.returncode == -signal.SIGKILL
        assert (tmp_path / "a.db-wal").stat().st_size > 0
        with Store.open(tmp_path / "a.db", create=create) as store:
            assert store.count() == 40

    @pytest.mark.parametrize("create", [True, False])
    @pytest.mark.parametrize("pages", [1, 2, 9, 20])
    def test_a_checkpoint_that_got_only_so_far(self, tmp_path: Path, pages: int, create: bool) -> None:
        path, torn = tmp_path / "a.db", tmp_path / "torn"
        torn.mkdir()
        with Store.open(path) as store:
            for tile in range(1, 101):
                store.append(make_trial(tile))
            before = path.read_bytes()
            shutil.copy(f"{path}-wal", torn)
            with closing(sqlite3.connect(path)) as raw:
                assert raw.execute("PRAGMA wal_checkpoint").fetchone()[0] == 0
            after = path.read_bytes()
        assert max(pages * PAGE, len(before)) < len(after)
        (torn / "a.db").write_bytes(after[: pages * PAGE] + before[pages * PAGE :])
        with Store.open(torn / "a.db", create=create) as store:
            assert store.count() == 100
        assert os.listdir(torn) == ["a.db"]

    def test_a_full_disk(self, tmp_path: Path) -> None:
        path = database(tmp_path / "a.db", 0)
        for limit in (150_000, 400_000):
            num_trials = Store.open(path, create=False).count()
            full = child(path, "full", limit)
            stdout, err = full.communicate()
            assert full.returncode == 0, err
            stored, message = stdout.split(" ", 1)
            assert int(stored) > 1
            assert "check the disk, its quota and the limit on the size of files" in message
            assert Store.open(path, create=False).count() == num_trials + int(stored)
        with Store.open(path) as store:
            assert store.append(make_trial(7)).id == store.count()
        assert os.listdir(tmp_path) == ["a.db"]

    def test_four_processes_that_keep_opening_and_closing(self, tmp_path: Path, nightly: bool) -> None:
        path, each = tmp_path / "a.db", 100 if nightly else 6
        restless = [child(path, "restless", each) for _ in range(4)]
        for process in restless:
            _, err = process.communicate()
            assert process.returncode == 0, err
        assert Store.open(path, create=False).count() == 4 * each
        assert os.listdir(tmp_path) == ["a.db"]


class TestInUse:
    def test_an_opened_database_is_not_modified_before_the_first_trial(self, tmp_path: Path) -> None:
        path = database(tmp_path / "b.db")
        before = content(tmp_path)
        with Store.open(path) as store:
            store.trials(PROBLEM)
            assert content(tmp_path) == before
        assert content(tmp_path) == before

    @pytest.mark.parametrize("replaced", [False, True])
    def test_a_file_that_is_removed_or_replaced_takes_no_more_trials(self, tmp_path: Path, replaced: bool) -> None:
        path = database(tmp_path / "b.db")
        with Store.open(path) as store:
            store.append(make_trial(7))
            for file in tmp_path.iterdir():
                file.unlink()
            if replaced:
                database(path)
            with pytest.raises(StoreError, match="was removed or replaced while it was in use"):
                store.append(make_trial(8))


class TestForeignFiles:
    @pytest.mark.parametrize(
        "statement",
        [
            "DROP TABLE meta; CREATE TABLE meta (key TEXT, worth TEXT)",
            "DELETE FROM meta",
            "UPDATE meta SET value = x'ff00' WHERE key = 'schema_version'",
            "UPDATE meta SET value = printf('%.5000c', '9') WHERE key = 'schema_version'",
            "UPDATE meta SET value = 3.5 WHERE key = 'application'",
        ],
    )
    def test_a_similar_foreign_database_is_rejected_and_not_modified(self, tmp_path: Path, statement: str) -> None:
        path = database(tmp_path / "a.db")
        with closing(sqlite3.connect(path)) as raw:
            raw.executescript(f"{WITHOUT_INDEXES}; {statement}")
        for create in (True, False):
            assert "is not a database of autosched" in refused(path, tmp_path, create=create)

    @pytest.mark.parametrize(
        "statement",
        [
            "DROP TABLE trials; CREATE TABLE trials (id INTEGER PRIMARY KEY, name ODDTYPE(3))",
            "ALTER TABLE trials RENAME COLUMN verification TO proof",
        ],
    )
    def test_columns_of_another_version_are_rejected_and_not_modified(self, tmp_path: Path, statement: str) -> None:
        path = database(tmp_path / "a.db")
        with closing(sqlite3.connect(path)) as raw:
            raw.executescript(f"{WITHOUT_INDEXES}; {statement}")
        before = content(tmp_path)
        for create in (True, False):
            assert "another version of autosched" in refused(path, tmp_path, create=create)
        assert content(tmp_path) == before

    @pytest.mark.parametrize("version", range(1, SCHEMA_VERSION))
    def test_an_older_schema_is_rejected_with_a_remedy(self, tmp_path: Path, version: int) -> None:
        path = database(tmp_path / "a.db")
        with closing(sqlite3.connect(path)) as raw:
            raw.executescript(f"UPDATE meta SET value = '{version}' WHERE key = 'schema_version'")
        for create in (True, False):
            assert f"schema {version} of an older" in refused(path, tmp_path, create=create)

    def test_the_tables_of_an_older_schema_are_not_checked(self, tmp_path: Path) -> None:
        path = database(tmp_path / "a.db")
        with closing(sqlite3.connect(path)) as raw:
            raw.executescript(
                "UPDATE meta SET value = '8' WHERE key = 'schema_version'; ALTER TABLE trials DROP COLUMN facts"
            )
        assert "tune into a new database" in refused(path, tmp_path, create=False)


class TestCells:
    """SQLite allows a value of any type in every cell, so cells must be validated."""

    @pytest.mark.parametrize(
        ("cell", "value"),
        [
            ("created", "'yesterday'"),
            ("created", "'2026-01-01T00:00:00'"),
            ("schedule", "'[1]'"),
            ("schedule", "'{\"a schedule\": 1.5}'"),
            ("schedule", "'{\"tile_m\": '"),
            ("schedule", "printf('%.20000c', '[')"),
            ("problem", "'{\"m\": '"),
            ("problem", "'7'"),
            ("fingerprint", "'none'"),
            ("provenance", "'guessed'"),
            ("status", "'fine'"),
            ("median", "'fast'"),
            ("median", "5.0"),
            ("repeats", "'many'"),
            ("repeats", "NULL"),
            ("median", "NULL"),
            ("created", "'9999-12-31T23:59:59-23:59'"),
            ("schedule", "'{}'"),
            ("device", "x'00ff'"),
            ("registers", "12"),
        ],
    )
    def test_an_invalid_cell_is_reported_with_its_trial(self, tmp_path: Path, cell: str, value: str) -> None:
        path = database(tmp_path / "a.db")
        with closing(sqlite3.connect(path)) as raw:
            raw.execute("PRAGMA ignore_check_constraints = ON")
            raw.execute(f"UPDATE trials SET {cell} = {value} WHERE id = 2")
            raw.commit()
        with pytest.raises(StoreError, match=f"trial 2 of the database .*{cell}") as caught:
            Store.open(path, create=False).trials()
        assert "\n" not in str(caught.value) and len(str(caught.value)) < 400

    @pytest.mark.parametrize(("cell", "value"), [("median", "'fast'"), ("repeats", "NULL"), ("status", "'guessed'")])
    @pytest.mark.parametrize("trial", [1, 2])
    def test_best_rejects_unreadable_trials(self, tmp_path: Path, cell: str, value: str, trial: int) -> None:
        path = database(tmp_path / "a.db")
        with closing(sqlite3.connect(path)) as raw:
            raw.execute("PRAGMA ignore_check_constraints = ON")
            raw.execute(f"UPDATE trials SET {cell} = {value} WHERE id = {trial}")
            if trial == 2:  # this trial is not the winner, so it is read only if the entry is ranked again
                raw.execute("UPDATE entries SET ranked_id = NULL")
            raw.commit()
        with pytest.raises(StoreError, match=f"trial {trial} .*{cell}"):
            Store.open(path, create=False).best(PROBLEM, "h200")

    def test_a_winner_of_something_else_is_rejected(self, tmp_path: Path) -> None:
        path = database(tmp_path / "a.db")
        with Store.open(path) as store:
            other = store.append(dataclasses.replace(make_trial(1), device="a100"))
        with closing(sqlite3.connect(path)) as raw:
            raw.execute(f"UPDATE entries SET winner_id = {other.id} WHERE device = 'h200'")
            raw.commit()
        with pytest.raises(StoreError, match=f"trial {other.id} of .* under another problem, device or policy"):
            Store.open(path, create=False).best(PROBLEM, "h200")

    def test_trials_without_a_notification_are_seen(self, tmp_path: Path) -> None:
        path = database(tmp_path / "a.db")
        with closing(sqlite3.connect(path)) as raw:
            raw.execute("DELETE FROM trials WHERE id IN (1, 3)")
            raw.commit()
        best = Store.open(path, create=False).best(PROBLEM, "h200")
        assert best is not None and best.id == 2

    def test_a_problem_of_another_form(self, tmp_path: Path) -> None:
        with Store.open(tmp_path / "a.db") as store:
            store.append(make_trial(1))
            odd = json.dumps({**PROBLEM.to_json(), "sparsity": 2})
            store.append(dataclasses.replace(make_trial(2), problem_key=odd))
            good, bad = store.problems("matmul")
            assert store.problem(good) == PROBLEM
            with pytest.raises(StoreError, match=r"trial 2 of .*sparsity"):
                store.problem(bad)
            assert store.problems("softmax") == []

    def test_any_damage_is_a_store_error(self, tmp_path: Path, nightly: bool) -> None:
        content, random, path = database(tmp_path / "a.db", 60).read_bytes(), Random(3), tmp_path / "b.db"
        for attempt in range(240 if nightly else 60):
            damaged = bytearray(content)
            if attempt % 3 == 0:
                damaged = damaged[: random.randrange(len(content))]
            for _ in range(random.choice((0, 3, 200))):
                damaged[random.randrange(min(len(damaged), 3 * PAGE) if attempt % 2 else len(damaged))] = (
                    random.randrange(256)
                )
            path.write_bytes(damaged)
            for create in (False, True):
                try:
                    with Store.open(path, create=create) as store:
                        store.best(PROBLEM, "h200")
                        store.problems()
                        store.trials()
                except StoreError as error:
                    assert "\n" not in str(error)


class TestNames:
    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("", "is empty"),
            (" ", "is empty"),
            ("file:x.db", "is an SQLite URI: give only the path"),
            ("sqlite:///file:x.db", "is an SQLite URI"),
            ("x.db/", "names a folder"),
            ("x.db/.", "names a folder"),
            ("n" * 300, "File name too long): choose a shorter name"),
            ("n" * 250, "File name too long): choose a shorter name"),
            ("/".join(["n" * 100] * 5), "longer than 500 bytes: choose a shorter path"),
            ("sqlite:///x.db?mode=ro", "give only x.db"),
            ("http://x/y", "give the path of a file"),
            (None, "invalid database None: give a path or an SQLAlchemy URL"),
            (5, "database 5"),
            (b"x.db", "database b'x.db'"),
        ],
    )
    @pytest.mark.parametrize("create", [True, False])
    def test_invalid_database_names_are_rejected(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: object, message: str, create: bool
    ) -> None:
        monkeypatch.chdir(tmp_path)
        assert message in refused(name, tmp_path, create=create)

    def test_a_loop_of_links(self, tmp_path: Path) -> None:
        (tmp_path / "a.db").symlink_to(tmp_path / "b.db")
        (tmp_path / "b.db").symlink_to(tmp_path / "a.db")
        for create in (True, False):
            assert "Too many levels of symbolic links" in refused(tmp_path / "a.db", tmp_path, create=create)

    @pytest.mark.parametrize("name", ["sqlite://", ":memory:", "sqlite:///:memory:"])
    def test_an_in_memory_database_is_empty_and_writable(self, tmp_path: Path, name: str) -> None:
        assert "is empty" in refused(name, tmp_path, create=False)
        with Store.open(name) as store:
            assert store.in_memory
            assert store.append(make_trial(1)).id == 1
        with Store.open(tmp_path / "a.db") as on_disk:
            assert not on_disk.in_memory


UNPRIVILEGED = """
import os, sys
sys.path[:0] = PATHS
from measurements.store.store import Store
Store.open("sqlite://").count()  # loads everything while it may be read
if os.geteuid() == 0:
    os.setgroups([]), os.setgid(65534), os.setuid(65534)
for path in sys.argv[1:]:
    for create in (True, False):
        try:
            print(Store.open(path, create=create).count(), "trials")
        except Exception as error:
            print(type(error).__name__, error)
"""


def test_missing_permissions_are_reported() -> None:
    with tempfile.TemporaryDirectory() as outer:
        os.chmod(outer, 0o755)
        closed, file = Path(outer) / "closed", Path(outer) / "file.db"
        closed.mkdir()
        database(closed / "a.db")
        database(file).chmod(0)
        closed.chmod(0)
        code = UNPRIVILEGED.replace("PATHS", json.dumps([p for p in sys.path if p]))
        run = forked_python.run(
            [sys.executable, "-c", code, str(closed / "a.db"), str(file)], capture_output=True, text=True, timeout=60
        )
        closed.chmod(0o755)
    lines = run.stdout.splitlines()
    assert len(lines) == 4, run.stderr
    for line in lines:
        assert line.startswith("StoreError") and "(Permission denied): change the permissions" in line


@pytest.mark.parametrize("create", [True, False], ids=["to write", "to read"])
def test_waiting_for_a_locked_database_is_logged_once(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    create: bool,
) -> None:
    monkeypatch.setattr(sqlite_file, "NOTICE_SECONDS", 0.02)
    monkeypatch.setattr(sqlite_file, "BUSY_SECONDS", 0.1)
    path = database(tmp_path / "a.db")
    with closing(sqlite3.connect(path, isolation_level=None)) as holder, caplog.at_level("INFO", "measurements"):
        Store.open(path, create=create).close()
        assert not caplog.messages
        holder.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StoreError, match="another process has locked it"):
            Store.open(path, create=create)
    (message,) = caplog.messages
    assert message.startswith(f"another process has locked the database {path}: waiting")
    assert capfd.readouterr() == ("", "")
