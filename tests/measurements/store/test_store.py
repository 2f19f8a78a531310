import dataclasses
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import forked_python
import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from measurements.store import schema
from measurements.store.store import SCHEMA_VERSION, Guard, Store, StoreError
from measurements.trials.measurement import MachineCode, Measurement, Provenance, Resources, Status, Timing
from measurements.trials.trial import Budget, Control, Trial
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.problem import Problem
from search_spaces.spaces.schedule import Schedule

PROBLEM = Matmul(m=64, n=48, k=32)
OTHER = Matmul(m=64, n=48, k=33)
MEASURED, REPLAYED, ESTIMATED = Provenance.MEASURED, Provenance.REPLAYED, Provenance.ESTIMATED


def ok(median: float, provenance: Provenance = MEASURED, count: int = 30) -> Measurement:
    return Measurement(Status.OK, provenance, timing=Timing(median, median * 0.9, median * 1.2, count))


def failed(status: Status = Status.TIMEOUT, provenance: Provenance = MEASURED) -> Measurement:
    return Measurement(status, provenance, reason="it did")


def make_trial(
    tile: int = 32,
    measurement: Measurement | None = None,
    problem: Problem = PROBLEM,
    device: str = "h200",
    digest: str | None = "d",
) -> Trial:
    return Trial(
        problem_key=problem.key(),
        schedule=Schedule("matmul", (("tile_n", 64), ("layout_a", "pad(8, 1)"), ("tile_m", tile))),
        device=device,
        fingerprint='{"sm":90}',
        template_version="v1",
        space_version="s1",
        kernel_digest=digest and f"{digest}{tile}",
        measurement=ok(1e-5) if measurement is None else measurement,
        toolchain="NVRTC 13.0",
        driver="580.65",
        autosched_version="0.1.0",
        created=datetime(2026, 3, 4, 5, 6, 7, 89, tzinfo=UTC),
        sampler="random",
        seed=7,
    )


def best_seconds(store: Store, **arguments: object) -> float | None:
    best = store.best(PROBLEM, "h200", **arguments)
    return None if best is None else best.seconds


def closed_store(path: Path, *trials: Trial) -> Path:
    """Write a database with these trials, close it, and return its path."""
    with Store.open(path) as store:
        for one in trials:
            store.append(one)
    return path


class TestTrials:
    def test_stored_trials_round_trip(self, store: Store) -> None:
        full = dataclasses.replace(
            ok(3e-5),
            error=0.25,
            resources=Resources(96, 4, 8, 16, 32, 49152),
            compile_seconds=0.125,
            code=MachineCode("c" * 64, "5" * 64, 4096),
        )
        verified = dataclasses.replace(
            make_trial(256),
            budget=Budget(64, 30.0),
            verification='{"emulated":true,"worst":0.5}',
            control=Control("library", Timing(2e-6, 1e-6, 3e-6, 20), "cublas 13.2.0"),
        )
        stored = [
            store.append(r)
            for r in (
                make_trial(32, full),
                make_trial(64, failed()),
                make_trial(128, digest=None),
                make_trial(64, problem=OTHER),
                verified,
            )
        ]
        assert [r.id for r in stored] == [1, 2, 3, 4, 5]
        assert store.trials() == stored
        assert list(stored[0].schedule) == ["tile_n", "layout_a", "tile_m"], "the order of the parameters is kept"

    def test_stored_trials_persist(self, store: Store) -> None:
        stored = store.append(make_trial())
        assert Store.open(store.name, create=False).trials() == [stored]

    def test_an_infinite_error_survives(self, store: Store) -> None:
        wrong = dataclasses.replace(failed(Status.WRONG_RESULT), error=float("nan"))
        store.append(make_trial(32, wrong))
        assert store.trials()[0].measurement.error == float("inf")

    def test_filters(self, store: Store) -> None:
        store.append(make_trial(1))
        store.append(make_trial(2, failed()))
        store.append(make_trial(3, problem=OTHER))
        store.append(make_trial(4, device="a100"))
        store.append(make_trial(5, ok(1e-6, ESTIMATED)))

        def tiles(**filters: object) -> list[object]:
            return [r.schedule["tile_m"] for r in store.trials(**filters)]

        assert tiles(problem=PROBLEM) == [1, 2, 4, 5]
        assert tiles(problem=PROBLEM, device="h200") == [1, 2, 5]
        assert tiles(device="h200", provenance=MEASURED) == [1, 2, 3]
        assert tiles(status=Status.TIMEOUT) == [2]
        assert store.count(PROBLEM, "h200", MEASURED) == 2

    def test_summaries_count_a_schedule_once(self, store: Store) -> None:
        again = (make_trial(1), make_trial(2, failed()))
        for r in (*again, make_trial(3, problem=OTHER), make_trial(5, ok(1e-6, ESTIMATED)), *again):
            store.append(r)
        summaries = [(s.problem_key, s.device, s.provenance, s.trials, s.ok) for s in store.problems()]
        assert summaries == [
            (PROBLEM.key(), "h200", MEASURED, 2, 1),
            (OTHER.key(), "h200", MEASURED, 1, 1),
            (PROBLEM.key(), "h200", ESTIMATED, 1, 1),
        ]

    def test_devices_are_those_with_a_time(self, store: Store) -> None:
        for r in (make_trial(1, device="h200"), make_trial(2, device="a100"), make_trial(3, failed(), device="l4")):
            store.append(r)
        assert store.devices(PROBLEM) == ("a100", "h200")
        assert store.devices(OTHER) == ()

    def test_the_database_itself_rejects_a_time_of_a_failure(self, store: Store) -> None:
        store.append(make_trial(1, failed()))
        with closing(sqlite3.connect(store.name)) as raw, pytest.raises(sqlite3.IntegrityError):
            raw.execute("UPDATE trials SET median = 1e9, p25 = 1e9, p75 = 1e9, repeats = 1")

    def test_a_url_and_a_database_in_memory_work(self, tmp_path: Path) -> None:
        with Store.open(f"sqlite:///{tmp_path / 'by_url.db'}") as by_url:
            by_url.append(make_trial())
        assert Store.open(tmp_path / "by_url.db", create=False).count() == 1
        memory = Store.open("sqlite://")
        memory.append(make_trial())
        assert memory.count() == 1


class TestBest:
    def test_best_is_none_in_an_empty_database(self, store: Store) -> None:
        assert store.best(PROBLEM, "h200") is None

    def test_failures_are_never_ranked(self, store: Store) -> None:
        for tile, status in enumerate(s for s in Status if s is not Status.OK):
            store.append(make_trial(tile, failed(status)))
        assert store.best(PROBLEM, "h200") is None

    def test_the_smallest_median_wins(self, store: Store) -> None:
        for tile, median in ((1, 3e-6), (2, 2e-6), (3, 4e-6)):
            store.append(make_trial(tile, ok(median)))
        assert best_seconds(store) == 2e-6

    def test_the_median_ranks_and_not_another_statistic(self, store: Store) -> None:
        steady = Measurement(Status.OK, MEASURED, timing=Timing(2.0e-6, 1.9e-6, 2.1e-6, 9))
        lucky = Measurement(Status.OK, MEASURED, timing=Timing(2.1e-6, 0.1e-6, 2.1e-6, 9))
        store.append(make_trial(1, lucky))
        store.append(make_trial(2, steady))
        assert best_seconds(store) == 2.0e-6

    def test_the_first_wins_a_tie(self, store: Store) -> None:
        first = store.append(make_trial(2, ok(1e-6)))
        store.append(make_trial(1, ok(1e-6)))
        assert store.best(PROBLEM, "h200") == first

    def test_device_and_problem_must_match_exactly(self, store: Store) -> None:
        store.append(make_trial(1, device="h200_nvl"))
        store.append(make_trial(2, problem=OTHER))
        assert store.best(PROBLEM, "h200") is None
        assert store.best(PROBLEM, "H200_NVL") is None

    def test_provenances_are_never_mixed(self, store: Store) -> None:
        store.append(make_trial(1, ok(1e-6, ESTIMATED)))
        assert best_seconds(store) == 1e-6
        store.append(make_trial(2, ok(5e-6, REPLAYED)))
        assert best_seconds(store) == 5e-6
        store.append(make_trial(3, ok(9e-6, MEASURED)))
        assert best_seconds(store) == 9e-6
        assert best_seconds(store, provenance=REPLAYED) == 5e-6
        assert best_seconds(store, provenance=ESTIMATED) == 1e-6

    def test_a_schedule_measured_again_counts_with_its_median(self, store: Store) -> None:
        for median in (1e-6, 5e-6, 4e-6):  # the first measurement is unusually fast
            store.append(make_trial(1, ok(median, count=10)))
        newest = store.append(make_trial(1, ok(4.5e-6, count=10)))
        best = store.best(PROBLEM, "h200")
        assert best is not None
        assert best.measurement.timing is not None
        assert best.measurement.timing.median == pytest.approx(4.25e-6)
        assert best.measurement.timing.count == 40
        assert best.id == newest.id
        store.append(make_trial(2, ok(3e-6)))
        assert best_seconds(store) == 3e-6

    def test_only_the_newest_kernel_of_a_schedule_counts(self, store: Store) -> None:
        store.append(make_trial(1, ok(1e-6), digest="old"))
        store.append(make_trial(2, ok(2e-6), digest="old"))
        store.append(make_trial(1, ok(3e-6), digest="new"))
        assert best_seconds(store) == 2e-6
        store.append(make_trial(2, failed(Status.COMPILE_ERROR), digest="new"))
        assert best_seconds(store) == 3e-6

    def test_a_wrong_kernel_is_never_best_on_any_device(self, store: Store) -> None:
        store.append(make_trial(1, ok(1e-6)))
        store.append(make_trial(2, ok(2e-6)))
        store.append(make_trial(1, failed(Status.WRONG_RESULT, ESTIMATED), device="a100"))
        assert best_seconds(store) == 2e-6

    def test_a_kernel_whose_headers_were_repaired_may_be_best_again(self, store: Store) -> None:
        store.append(make_trial(1, failed(Status.WRONG_RESULT), digest="broken"))
        store.append(make_trial(1, ok(1e-6), digest="repaired"))
        assert best_seconds(store) == 1e-6

    @settings(max_examples=25)
    @given(st.lists(st.tuples(st.integers(1, 4), st.one_of(st.none(), st.integers(1, 9))), max_size=12))
    def test_agrees_with_the_definition(self, trials: list[tuple[int, int | None]]) -> None:
        store = Store.open("sqlite://")
        times: dict[int, list[float]] = {}
        for tile, time_us in trials:
            store.append(make_trial(tile, failed() if time_us is None else ok(time_us * 1e-6)))
            if time_us is not None:
                times.setdefault(tile, []).append(time_us * 1e-6)
        assert best_seconds(store) == min(map(statistics.median, times.values()), default=None)


class TestGuards:
    def test_each_entry_has_its_own_guard_and_the_last_one_counts(self, store: Store) -> None:
        assert store.guard(PROBLEM, "h200") is None
        store.set_guard(PROBLEM, "h200", Guard(max_slowdown=0.1))
        store.set_guard(PROBLEM, "h200", Guard(0.05, 1e-6, 0.004, "noisy host"))
        store.set_guard(OTHER, "h200", Guard(notes="library"))
        assert store.guard(PROBLEM, "h200") == Guard(0.05, 1e-6, 0.004, "noisy host")
        assert store.guard(OTHER, "h200") == Guard(notes="library")
        assert store.guard(PROBLEM, "a100") is None
        store.set_guard(PROBLEM, "h200", None)
        assert Store.open(store.name, create=False).guard(PROBLEM, "h200") is None

    @pytest.mark.parametrize("bad", [-0.1, float("nan"), float("inf"), True, "3%"])
    def test_invalid_guard_values_are_rejected(self, bad: object) -> None:
        with pytest.raises(ValueError, match="max_slowdown of a guard must be a finite number"):
            Guard(max_slowdown=bad)  # type: ignore[arg-type]

    def test_an_unreadable_guard_is_reported(self, store: Store) -> None:
        store.set_guard(PROBLEM, "h200", Guard())
        with closing(sqlite3.connect(store.name)) as raw:
            raw.execute("UPDATE guards SET noise = 'much'")
            raw.commit()
        with pytest.raises(StoreError, match=r"the guard of .* cannot be read .*noise.*set it again"):
            store.guard(PROBLEM, "h200")


def snapshot(folder: Path) -> dict[str, bytes | None]:
    return {str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None for p in sorted(folder.rglob("*"))}


def set_meta(path: Path, key: str, value: str) -> None:
    with closing(sqlite3.connect(path)) as raw:
        raw.execute("UPDATE meta SET value = ? WHERE key = ?", (value, key))
        raw.commit()


def refused(location: str | Path, folder: Path, *, create: bool = True) -> str:
    before = snapshot(folder)
    with pytest.raises(StoreError) as caught:
        Store.open(location, create=create)
    assert snapshot(folder) == before, "a rejected database must not change the disk"
    assert "\n" not in str(caught.value)
    return str(caught.value)


class TestInvalidPaths:
    def test_missing_folder(self, tmp_path: Path) -> None:
        assert "does not exist: create it" in refused(tmp_path / "no" / "a.db", tmp_path)

    def test_missing_file_for_reading(self, tmp_path: Path) -> None:
        assert "there is no database" in refused(tmp_path / "a.db", tmp_path, create=False)

    def test_a_folder(self, tmp_path: Path) -> None:
        assert "is a folder" in refused(tmp_path, tmp_path)
        assert "names a folder" in refused("..", tmp_path)

    def test_a_file_as_folder(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("x")
        assert "is not a folder" in refused(tmp_path / "file" / "a.db", tmp_path)

    def test_a_device_file(self, tmp_path: Path) -> None:
        assert "not a regular file" in refused("/dev/null", tmp_path)

    def test_a_zero_byte_in_the_path(self, tmp_path: Path) -> None:
        assert "zero byte" in refused("a\0b", tmp_path)

    @pytest.mark.parametrize("content", [b"hello", b"SQLite format 2\0" + bytes(100), b"\0"])
    def test_not_sqlite(self, tmp_path: Path, content: bytes) -> None:
        (tmp_path / "a.db").write_bytes(content)
        for create in (True, False):
            assert "is not an SQLite database" in refused(tmp_path / "a.db", tmp_path, create=create)

    def test_an_empty_file_is_rejected_for_reading_but_can_be_created(self, tmp_path: Path) -> None:
        (tmp_path / "a.db").touch()
        assert "is empty" in refused(tmp_path / "a.db", tmp_path, create=False)
        closed_store(tmp_path / "a.db", make_trial())
        assert Store.open(tmp_path / "a.db", create=False).count() == 1

    def test_damaged(self, tmp_path: Path) -> None:
        path = closed_store(tmp_path / "a.db", make_trial())
        path.write_bytes(path.read_bytes()[:100] + bytes(5000))
        assert "damaged" in refused(path, tmp_path) or "is not a database of autosched" in refused(path, tmp_path)

    @pytest.mark.parametrize("wal", [False, True])
    @pytest.mark.parametrize(
        "statement",
        [
            "CREATE TABLE songs (title TEXT)",
            "CREATE TABLE trials (number INTEGER)",  # Optuna has a table of the same name
            "CREATE TABLE meta (key TEXT, value TEXT)",
            "CREATE TABLE meta (name TEXT); CREATE TABLE trials (number INTEGER)",
            "CREATE TABLE meta (key TEXT, value TEXT); CREATE TABLE trials (id INTEGER);"
            "INSERT INTO meta VALUES ('schema_version', '1')",
            "PRAGMA user_version = 5",
        ],
    )
    def test_a_database_of_someone_else(self, tmp_path: Path, statement: str, wal: bool) -> None:
        path = tmp_path / "theirs.db"
        with closing(sqlite3.connect(path)) as raw:
            if wal:
                raw.execute("PRAGMA journal_mode = WAL")
            raw.executescript(statement)
        for create in (True, False):
            assert "is not a database of autosched" in refused(path, tmp_path, create=create)

    def test_a_foreign_database_in_use_is_rejected(self, tmp_path: Path) -> None:
        path = tmp_path / "theirs.db"
        with closing(sqlite3.connect(path)) as raw:
            raw.execute("PRAGMA journal_mode = WAL")
            raw.execute("CREATE TABLE songs (title TEXT)")
            before = snapshot(tmp_path)
            assert set(before) == {"theirs.db", "theirs.db-shm", "theirs.db-wal"}
            assert "is not a database of autosched" in refused(path, tmp_path)

    def test_a_newer_schema(self, tmp_path: Path) -> None:
        path = closed_store(tmp_path / "a.db", make_trial())
        set_meta(path, "schema_version", str(SCHEMA_VERSION + 1))
        for create in (True, False):
            assert "upgrade autosched" in refused(path, tmp_path, create=create)

    def test_a_newer_schema_in_wal_mode(self, tmp_path: Path) -> None:
        path = closed_store(tmp_path / "a.db", make_trial())
        set_meta(path, "schema_version", "12")
        with closing(sqlite3.connect(path)) as raw:
            raw.execute("PRAGMA journal_mode = WAL")
        assert "schema 12" in refused(path, tmp_path)

    def test_another_application(self, tmp_path: Path) -> None:
        path = closed_store(tmp_path / "a.db", make_trial())
        set_meta(path, "application", "else")
        assert "is not a database of autosched" in refused(path, tmp_path)

    def test_dangling_links_become_databases_at_their_target(self, tmp_path: Path) -> None:
        (tmp_path / "link.db").symlink_to(tmp_path / "real.db")
        closed_store(tmp_path / "link.db")
        assert sorted(os.listdir(tmp_path)) == ["link.db", "real.db"]

    def test_an_unwritable_folder_is_reported(self) -> None:
        with tempfile.TemporaryDirectory() as outer:
            os.chmod(outer, 0o755)
            folder = Path(outer) / "folder"
            folder.mkdir()
            closed_store(folder / "old.db", make_trial())
            (folder / "old.db").chmod(0o444)
            folder.chmod(0o555)
            try:
                message = open_without_privileges(folder / "new.db", folder / "old.db")
                assert os.listdir(folder) == ["old.db"]
            finally:
                folder.chmod(0o755)
        assert message[0].startswith("StoreError") and "cannot be created (Permission denied)" in message[0]
        assert message[1].startswith("StoreError") and "read-only" in message[1]
        assert message[2] == "1 trials", "reading a read-only database works"

    def test_a_full_disk_keeps_stored_trials(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = closed_store(tmp_path / "a.db", make_trial(1))
        real = sqlite3.connect

        def limited(*args: object, **kwargs: object) -> sqlite3.Connection:
            connection: sqlite3.Connection = real(*args, **kwargs)
            connection.execute("PRAGMA max_page_count = 20")
            return connection

        monkeypatch.setattr(sqlite3, "connect", limited)
        with Store.open(path) as full:
            with pytest.raises(StoreError, match="disk space"):
                for tile in range(1000):
                    full.append(make_trial(tile))
            stored = full.count()
        monkeypatch.undo()
        assert stored > 1
        with Store.open(path) as store:
            assert store.append(make_trial(7)).id == store.count() == stored + 1

    def test_urls(self, tmp_path: Path) -> None:
        assert "cannot be parsed" in refused("://", tmp_path)
        assert "give the path of a file" in refused("nosuchdatabase://host/name", tmp_path)
        assert "no dialect and driver http;" in refused("http://host/name", tmp_path)
        message = refused("postgresql+nosuchdriver://me:secret@host/name", tmp_path)
        assert "secret" not in message


def open_without_privileges(new: Path, old: Path) -> list[str]:
    """Create ``new`` as an ordinary user, and open ``old`` for writing and for reading.

    Returns:
        One line for each of the three attempts, in this order: the error, or the number of trials.
    """
    child = f"""
import os, sys
sys.path[:0] = {[p for p in sys.path if p]!r}
from measurements.store.store import Store
Store.open("sqlite://").count()  # loads everything while it may be read
if os.geteuid() == 0:
    os.setgroups([]), os.setgid(65534), os.setuid(65534)
for path, create in (({str(new)!r}, True), ({str(old)!r}, True), ({str(old)!r}, False)):
    try:
        print(Store.open(path, create=create).count(), 'trials')
    except Exception as error:
        print(type(error).__name__, error)
"""
    run = forked_python.run([sys.executable, "-c", child], capture_output=True, text=True, timeout=60, check=True)
    return run.stdout.splitlines()


def test_a_server_gets_the_partial_index_without_loading_its_dialect() -> None:
    created: list[str] = []
    server = sa.create_mock_engine(
        "postgresql://", lambda sql, *_: created.append(str(sql.compile(dialect=server.dialect)))
    )
    schema.create_tables(server)  # type: ignore[arg-type]
    (index,) = (text for text in created if "INDEX trials_wrong" in text)
    assert index.endswith("WHERE status = 'wrong_result'")
    code = "import sys, measurements.store.store; print('sqlalchemy.dialects.postgresql' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
