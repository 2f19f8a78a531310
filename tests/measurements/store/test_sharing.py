"""A database can be exported, imported, merged and maintained."""

from __future__ import annotations

import dataclasses
import json
import re
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from store_trials import make_trial

from measurements.store import export, maintenance
from measurements.store import merge as store_merge
from measurements.store.export import ExportError
from measurements.store.merge import Conflict, MergeOutcome, merge
from measurements.store.store import Guard, Store, StoreError
from measurements.trials.measurement import MachineCode, Measurement, Provenance, Resources, Status, Timing
from measurements.trials.trial import Budget, Control, Trial
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.problem import Problem
from search_spaces.operators.row_reduction import Softmax
from search_spaces.spaces.schedule import Schedule

PROBLEM, OTHER = Matmul(m=64, n=48, k=32), Softmax(64, 256)
MEASURED, ESTIMATED = Provenance.MEASURED, Provenance.ESTIMATED
NOW = datetime(2026, 3, 4, tzinfo=UTC)


def trial(
    tile: int,
    time: float | None = None,
    *,
    kind: Provenance = MEASURED,
    problem: Problem = PROBLEM,
    rank: int | None = None,
    day: int = 0,
    status: Status = Status.TIMEOUT,
    **changes: object,
) -> Trial:
    timing = None if time is None else Timing(time * 1e-6, time * 0.9e-6, time * 1.1e-6, 30)
    measurement = Measurement(Status.OK if timing else status, kind, "" if timing else "it did", timing=timing)
    new_trial = make_trial(Schedule("matmul", (("tile_m", tile),)), measurement, problem)
    return dataclasses.replace(new_trial, rank=rank, created=NOW + timedelta(days=day, seconds=tile), **changes)


def database(path: Path, *trials: Trial) -> Store:
    store = Store.open(path)
    for one in trials:
        store.append(one)
    return store


def tile_of(store: Store, problem: Problem = PROBLEM) -> object:
    best = store.best(problem, "h200")
    return None if best is None else best.schedule["tile_m"]


FULL = dataclasses.replace(
    trial(1, 3.0),
    measurement=Measurement(
        Status.OK,
        MEASURED,
        timing=Timing(3e-6, 2.9e-6, 3.1e-6, 30),
        error=0.5,
        resources=Resources(96, 0, 0, 0, 32, 49152),
        compile_seconds=0.5,
        clock_mhz=1980.0,
        code=MachineCode("c" * 64, "5" * 64, 4096),
    ),
    budget=Budget(64, 2.5),
    verification='{"emulated":true}',
    control=Control("copy", Timing(1e-6, 0.9e-6, 1.1e-6, 20)),
)


class TestExport:
    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        store = database(
            tmp_path / "a.db", FULL, trial(2, 5.0), trial(4, 1.0, kind=ESTIMATED), trial(1, 2, problem=OTHER)
        )
        store.set_guard(PROBLEM, "h200", Guard(0.05, 1e-6, None, "noisy"))
        return store

    def test_export_writes_one_valid_file_per_device_and_operator(self, store: Store, tmp_path: Path) -> None:
        jsonschema = pytest.importorskip("jsonschema")
        paths = export.write(store, tmp_path / "out")
        assert [path.name for path in paths] == ["h200.matmul.json", "h200.softmax.json"]
        schema = json.loads(export.SCHEMA.read_text())
        jsonschema.Draft202012Validator.check_schema(schema)
        for path in paths:
            jsonschema.validate(json.loads(path.read_text()), schema)
        entries = json.loads(paths[0].read_text())["entries"]
        assert [entry["best"]["provenance"] for entry in entries] == ["estimated", "measured"]
        with pytest.raises(jsonschema.ValidationError):
            entries[0]["best"]["timing"]["median"] = "fast"
            jsonschema.validate({"export": 1, "device": "h200", "operator": "matmul", "entries": entries}, schema)

    def test_exports_are_independent_of_the_order_of_trials(self, store: Store, tmp_path: Path) -> None:
        reversed_database = database(tmp_path / "b.db", *reversed(store.trials()))
        reversed_database.set_guard(PROBLEM, "h200", Guard(0.05, 1e-6, None, "noisy"))
        ours, reversed_documents = export.documents(store), export.documents(reversed_database)
        assert {k: export.text(v) for k, v in ours.items()} == {
            k: export.text(v) for k, v in reversed_documents.items()
        }

    def test_exports_round_trip(self, store: Store, tmp_path: Path) -> None:
        back = export.read(export.write(store, tmp_path / "out"))
        for summary in store.problems():
            ours, imported = store.best_of(summary), back.best_of(summary)
            assert ours is not None and imported is not None
            assert dataclasses.replace(imported, id=None) == dataclasses.replace(ours, id=None)
        assert back.guard(PROBLEM, "h200") == Guard(0.05, 1e-6, None, "noisy")

    @pytest.mark.parametrize(
        "change",
        [
            lambda d: d.pop("export"),
            lambda d: d.update(export=2),
            lambda d: d.update(device="a100"),
            lambda d: d.update(entries=[5]),
            lambda d: d["entries"].append(d["entries"][0]),
            lambda d: d["entries"][0]["best"].update(device="\x1b[2J"),
            lambda d: d["entries"][0]["best"].update(timing=None, status="timeout", reason="x"),
            lambda d: d["entries"][0]["best"]["timing"].update(median=-1),
            lambda d: d["entries"][0].update(guard={"max_slowdown": "3%"}),
            lambda d: d["entries"][0]["best"].pop("schedule"),
        ],
    )
    def test_invalid_exports_are_rejected(self, store: Store, tmp_path: Path, change: object) -> None:
        path = export.write(store, tmp_path / "out")[0]
        document = json.loads(path.read_text())
        change(document)  # type: ignore[operator]
        path.write_text(json.dumps(document))
        with pytest.raises(ExportError, match="is not an export of autosched"):
            export.read([path])

    def test_a_device_that_names_no_file(self, tmp_path: Path) -> None:
        store = database(tmp_path / "a.db", dataclasses.replace(trial(1, 1.0), device="../h200"))
        with pytest.raises(ExportError, match="cannot be part of a file name"):
            export.write(store, tmp_path / "out")
        assert not (tmp_path / "h200.matmul.json").exists()


class TestMerge:
    @pytest.mark.parametrize(
        ("imported", "ours", "verdict", "best"),
        [
            ([trial(1, 3.0)], [], MergeOutcome.NEW, 1),
            ([trial(1, 3.0)], [trial(2, 5.0)], MergeOutcome.UNCLEAR, 2),
            ([trial(1, 3.0)], [trial(2)], MergeOutcome.REPLACED, 1),
            ([trial(1)], [trial(2, 5.0)], MergeOutcome.KEPT, 2),
            ([trial(1, 3.0, day=3)], [trial(1, 5.0)], MergeOutcome.SAME, 1),
            ([trial(2, 5.0, rank=2), trial(1, 3.0, rank=1)], [trial(2, 2.0)], MergeOutcome.REPLACED, 1),
            ([trial(1, 3.0)], [trial(1, 4.0, rank=2), trial(2, 3.9, rank=1)], MergeOutcome.KEPT, 2),
            ([trial(1, 3.0, kind=ESTIMATED)], [trial(2, 5.0, kind=ESTIMATED)], MergeOutcome.REPLACED, 1),
            ([trial(1, 6.0, kind=ESTIMATED)], [trial(2, 5.0, kind=ESTIMATED)], MergeOutcome.KEPT, 2),
            (
                [dataclasses.replace(trial(1, 3.0, kind=ESTIMATED), fingerprint='{"model":"2"}')],
                [trial(2, 5.0, kind=ESTIMATED)],
                MergeOutcome.UNCLEAR,
                2,
            ),
            ([trial(1, 9.0)], [trial(2, 5.0, kind=ESTIMATED)], MergeOutcome.NEW, 1),
            ([trial(1, 1.0, kind=ESTIMATED)], [trial(2, 5.0)], MergeOutcome.NEW, 2),
        ],
    )
    def test_rules(
        self, tmp_path: Path, imported: list[Trial], ours: list[Trial], verdict: MergeOutcome, best: object
    ) -> None:
        source, target = database(tmp_path / "theirs.db", *imported), database(tmp_path / "ours.db", *ours)
        merged = merge(source, target)
        assert [entry.verdict for entry in merged.entries] == [verdict]
        assert tile_of(target) == best
        before = target.trials()
        again = merge(source, target)
        assert target.trials() == before and sum(entry.taken for entry in again.entries) == 0, (
            "no trial is merged twice"
        )
        assert source.count() == len(imported)

    def test_the_newer_guard_counts(self, tmp_path: Path) -> None:
        source = database(tmp_path / "a.db", trial(2, 5.0, rank=2, day=9), trial(1, 3.0, rank=1, day=9))
        target = database(tmp_path / "b.db", trial(1, 4.0, rank=2, day=1), trial(2, 3.9, rank=1, day=1))
        assert merge(source, target).entries[0].verdict is MergeOutcome.REPLACED and tile_of(target) == 1
        assert merge(target, database(tmp_path / "c.db", *source.trials())).entries[0].verdict is MergeOutcome.SAME

    def test_a_wrong_result_is_always_merged(self, tmp_path: Path) -> None:
        source = database(tmp_path / "a.db", trial(3, 1.0), trial(2, status=Status.WRONG_RESULT, day=1))
        target = database(tmp_path / "b.db", trial(2, 2.0), trial(4, 2.5))
        (entry,) = merge(source, target).entries
        assert (entry.verdict, entry.taken) == (MergeOutcome.UNCLEAR, 1) and tile_of(target) == 4

    def test_guards_that_differ_are_conflicts(self, tmp_path: Path) -> None:
        source, target = database(tmp_path / "a.db", trial(1, 3.0)), database(tmp_path / "b.db")
        source.set_guard(PROBLEM, "h200", Guard(0.1))
        assert merge(source, target).conflicts == () and target.guard(PROBLEM, "h200") == Guard(0.1)
        target.set_guard(PROBLEM, "h200", Guard(0.2))
        assert merge(source, target).conflicts == (Conflict(PROBLEM.key(), "h200"),)
        assert target.guard(PROBLEM, "h200") == Guard(0.2)

    def test_concurrent_merges_add_a_trial_once(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A second merge commits after the first merge has read the target and before the first merge writes."""
        source, target = database(tmp_path / "a.db", trial(1, 3.0), trial(2, 4.0)), database(tmp_path / "b.db")
        look = store_merge._guards

        def meanwhile(*stores: Store) -> Any:
            monkeypatch.setattr(store_merge, "_guards", look)
            with Store.open(tmp_path / "b.db") as other:
                assert merge(source, other).entries[0].taken == 2
                other.append(trial(3, 5.0))
            return look(*stores)

        monkeypatch.setattr(store_merge, "_guards", meanwhile)
        merge(source, target)
        assert [r.schedule["tile_m"] for r in target.trials()] == [1, 2, 3] and maintenance.check(target) == []

    def test_an_unreadable_guard_leaves_the_target_unchanged(self, tmp_path: Path) -> None:
        source, target = database(tmp_path / "a.db", trial(1, 3.0)), database(tmp_path / "b.db")
        source.set_guard(PROBLEM, "h200", Guard(0.1))
        with closing(sqlite3.connect(tmp_path / "a.db")) as raw, raw:
            raw.execute("UPDATE guards SET max_slowdown = 'much'")
        with pytest.raises(StoreError, match="cannot be read"):
            merge(source, target)
        assert target.count() == 0


class TestCare:
    def test_collect_removes_unused_trials_and_keeps_the_best(self, tmp_path: Path) -> None:
        trials = [trial(tile, 1.0 + tile) for tile in range(1, 9)] + [trial(20), trial(1, status=Status.WRONG_RESULT)]
        store = database(tmp_path / "a.db", trial(1, 0.5, kernel_digest="old"), *trials, trial(2, 2.5))
        best = store.best(PROBLEM, "h200")
        assert maintenance.collect(store, dry_run=True).removed == {"of an older kernel": 1} and store.count() == 12
        assert maintenance.collect(store).left == store.count() == 11
        assert store.best(PROBLEM, "h200") == best
        assert maintenance.collect(store, keep=2).removed == {"slower than those kept, or failed": 7}
        assert store.best(PROBLEM, "h200") == best and maintenance.check(store) == []
        assert {r.status for r in store.trials()} == {Status.OK, Status.WRONG_RESULT}
        with pytest.raises(ValueError, match="at least 1 schedule"):
            maintenance.collect(store, keep=0)

    @pytest.mark.parametrize(
        ("statement", "message"),
        [
            ("UPDATE entries SET ok = 7", "does not match its trials"),
            ("UPDATE entries SET winner_id = 2", "is not the fastest"),
            (
                "UPDATE trials SET schedule_digest = 'x' WHERE id = 2",
                "the problem or schedule digest of trial 2 is wrong",
            ),
            ("UPDATE trials SET created = 'soon' WHERE id = 2", "trial 2 of .* cannot be read"),
            ("DELETE FROM entries", "does not match its trials"),
            ("DELETE FROM trials", "entry has no trials"),
        ],
    )
    def test_inconsistencies_are_reported_and_repaired(self, tmp_path: Path, statement: str, message: str) -> None:
        with database(tmp_path / "a.db", trial(1, 3.0), trial(2, 5.0)) as store:
            assert maintenance.check(store) == []
        with closing(sqlite3.connect(tmp_path / "a.db")) as raw, raw:
            raw.execute(statement)
        with Store.open(tmp_path / "a.db") as store:
            (line,) = maintenance.check(store)
            assert re.search(message, line)
            if "entries" in statement or "DELETE" in statement:
                maintenance.repair(store)
                assert maintenance.check(store) == []

    def test_stats(self, tmp_path: Path) -> None:
        stats = maintenance.stats(database(tmp_path / "a.db", trial(1, 3.0), trial(2), trial(1, 2.0, problem=OTHER)))
        assert (stats.trials, stats.problems, stats.statuses) == (3, 2, {"ok": 2, "timeout": 1})
        assert stats.size is not None and len(stats.entries) == 2


def test_a_damaged_file_is_reported(tmp_path: Path) -> None:
    with database(tmp_path / "a.db", *(trial(tile, 1.0 * tile) for tile in range(1, 60))):
        pass
    content = bytearray((tmp_path / "a.db").read_bytes())
    for page in range(1, len(content) // 4096):
        content[page * 4096 + 8 : page * 4096 + 400] = bytes(392)
    (tmp_path / "a.db").write_bytes(content)
    try:
        assert maintenance.check(Store.open(tmp_path / "a.db", create=False))
    except StoreError as error:
        assert "damaged" in str(error)
