"""Processes that share a trial store, killed processes, and the files of a closed store."""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path
from random import Random

import forked_python
import pytest

from measurements.store.store import Store, StoreError
from tests.measurements.store.test_store import closed_store, make_trial

WRITER = """
import sys
sys.path[:0] = PATHS
from datetime import UTC, datetime
from measurements.trials.measurement import Measurement, Provenance, Status, Timing
from measurements.trials.trial import Trial
from measurements.store.store import Store
from search_spaces.spaces.schedule import Schedule
store = Store.open(sys.argv[1])
outcome = Measurement(Status.OK, Provenance.MEASURED, timing=Timing.estimate(1e-6))
i = store.count()
while i < int(sys.argv[2]):
    i += 1
    schedule = Schedule('f', (('i', i), ('writer', sys.argv[3])))
    row = Trial('{}', schedule, 'd', '{}', 'v', 's', 'k', outcome, '', '', '0', datetime.now(UTC), 'r', 0)
    print(store.append(row).id, flush=True)
"""


class TestProcesses:
    def start(self, path: Path, until: int, name: str) -> subprocess.Popen[str]:
        code = WRITER.replace("PATHS", json.dumps([p for p in sys.path if p]))
        arguments = [sys.executable, "-c", code, str(path), str(until), name]
        return forked_python.Popen(arguments, stdout=subprocess.PIPE, text=True)

    def test_a_killed_writer_loses_no_stored_trials(self, tmp_path: Path, nightly: bool) -> None:
        path, random = tmp_path / "a.db", Random(5)
        acknowledged: list[int] = []
        for attempt in range(12 if nightly else 4):
            writer = self.start(path, 10**6, str(attempt))
            assert writer.stdout is not None
            acknowledged.append(int(writer.stdout.readline()))  # the writer has started
            time.sleep(random.random() * 0.15)
            writer.send_signal(signal.SIGKILL)
            acknowledged += [int(line) for line in writer.stdout.read().split("\n")[:-1]]
            writer.wait()
            writer.stdout.close()
            stored = [r.id for r in Store.open(path, create=False).trials()]
            with closing(sqlite3.connect(path)) as raw:
                assert raw.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            assert set(acknowledged) <= set(stored)
            assert len(stored) - len(acknowledged) <= attempt + 1, "at most one unacknowledged trial per kill"
            assert len(set(stored)) == len(stored)
        closed_store(path)
        assert os.listdir(tmp_path) == ["a.db"], "the next process that closes the database removes the log"

    def test_a_writer_killed_while_it_makes_the_database(self, tmp_path: Path, nightly: bool) -> None:
        random = Random(6)
        for attempt in range(12 if nightly else 3):
            path = tmp_path / f"{attempt}.db"
            writer = self.start(path, 10**6, "w")
            deadline = time.monotonic() + 30
            while not path.exists() and time.monotonic() < deadline:
                time.sleep(0.0005)
            time.sleep(random.random() * 0.01)
            writer.kill()
            writer.communicate()
            with Store.open(path) as store:
                assert store.append(make_trial()).id == store.count()

    def test_a_journal_of_a_killed_writer_is_rolled_back(self, tmp_path: Path) -> None:
        path = closed_store(tmp_path / "a.db", make_trial(1))
        copy = tmp_path / "copy"
        copy.mkdir()
        with closing(sqlite3.connect(path, isolation_level=None)) as raw:
            raw.execute("PRAGMA cache_size = 1")
            raw.execute("BEGIN IMMEDIATE")
            for _ in range(300):  # the rows exceed the page cache, so pages are written before the commit
                raw.execute("INSERT INTO meta VALUES (hex(randomblob(32)), hex(randomblob(400)))")
            for name in (str(path), f"{path}-journal"):
                shutil.copy(name, copy)
            raw.execute("ROLLBACK")
        left = copy / path.name
        assert left.stat().st_size > path.stat().st_size, "the copy must contain a part of the transaction"
        with Store.open(left) as store:
            assert store.append(make_trial(2)).id == 2
        assert os.listdir(copy) == [left.name]

    def test_two_processes_and_a_reader(self, tmp_path: Path) -> None:
        path = tmp_path / "a.db"
        writers = [self.start(path, 60, name) for name in ("a", "b")]
        printed: list[int] = []
        while any(w.poll() is None for w in writers):
            if path.exists() and path.stat().st_size:
                Store.open(path).count()
            time.sleep(0.005)
        for writer in writers:
            output, _ = writer.communicate()
            assert writer.returncode == 0
            printed += [int(line) for line in output.split()]
        ids = [r.id for r in Store.open(path).trials()]
        assert sorted(printed) == ids
        assert len(ids) >= 60

    def test_threads_share_a_store(self, store: Store) -> None:
        def write(tile: int) -> None:
            for _ in range(10):
                store.append(make_trial(tile))

        threads = [threading.Thread(target=write, args=(tile,)) for tile in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert store.count() == 40


class TestClosing:
    def test_a_closed_database_is_one_file_without_wal(self, tmp_path: Path) -> None:
        with Store.open(tmp_path / "a.db") as store, Store.open(tmp_path / "a.db") as second:
            store.append(make_trial(1))
            second.append(make_trial(2))
            store.close()
            assert second.append(make_trial(3)).id == 3
        assert os.listdir(tmp_path) == ["a.db"]
        with closing(sqlite3.connect(tmp_path / "a.db")) as raw:
            assert raw.execute("PRAGMA journal_mode").fetchone() == ("delete",)
            assert raw.execute("SELECT count(*) FROM trials").fetchone() == (3,)

    def test_a_forgotten_store_closes_itself_at_exit(self, tmp_path: Path) -> None:
        code = f"""
import sys
sys.path[:0] = {[p for p in sys.path if p]!r}
from measurements.store.store import Store
store = Store.open({str(tmp_path / "a.db")!r})
store.count()
"""
        subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, timeout=60)
        assert os.listdir(tmp_path) == ["a.db"]

    def test_a_closed_store_raises(self, tmp_path: Path) -> None:
        store = Store.open(tmp_path / "a.db")
        store.close()
        store.close()
        with pytest.raises(StoreError, match="open it again"):
            store.append(make_trial())

    def test_closing_a_database_that_was_deleted(self, tmp_path: Path) -> None:
        with Store.open(tmp_path / "a.db") as store:
            store.append(make_trial())
            for path in tmp_path.iterdir():
                path.unlink()
        assert os.listdir(tmp_path) == []

    def test_reading_leaves_no_open_files(self, tmp_path: Path) -> None:
        descriptors = Path("/proc/self/fd")
        if not descriptors.is_dir():
            pytest.skip("needs /proc")
        store = Store.open(closed_store(tmp_path / "a.db", make_trial()), create=False)
        assert store.count() == 1
        assert not [fd for fd in descriptors.iterdir() if fd.is_symlink() and str(fd.readlink()).startswith(store.name)]


def test_an_append_waits_for_no_disk(store: Store) -> None:
    store.append(make_trial())
    with store.writing() as connection:
        pragmas = [connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in ("journal_mode", "synchronous")]
    assert pragmas == ["wal", 1], "commits are appended to the log, and only checkpoints synchronise"
