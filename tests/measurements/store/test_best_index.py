"""An entry's index of best trials agrees with its trials, for any trials in any order."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st
from store_trials import make_trial

from measurements.store import best_index
from measurements.store.schema import ENTRIES
from measurements.store.store import Store, StoreError
from measurements.trials.measurement import Measurement, Provenance, Status, Timing
from measurements.trials.trial import Trial
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.schedule import Schedule

PROBLEM = Matmul(m=64, n=48, k=32)
DEVICES = ("h200", "a100")


def trial(
    tile: int, status: Status, time: int, device: str, digest: str | None, rank: int | None, kind: Provenance
) -> Trial:
    timing = Timing(time * 1e-6, time * 0.9e-6, time * 1.2e-6, 30) if status is Status.OK else None
    measurement = Measurement(status, kind, "" if timing else "it did", timing=timing)
    new_trial = make_trial(Schedule("matmul", (("tile_m", tile),)), measurement, PROBLEM, device)
    return dataclasses.replace(new_trial, kernel_digest=digest, rank=rank if timing else None)


trials = st.builds(
    trial,
    st.integers(1, 4),
    st.sampled_from((Status.OK, Status.OK, Status.OK, Status.WRONG_RESULT, Status.UNVERIFIED, Status.TIMEOUT)),
    st.integers(1, 5),
    st.sampled_from(DEVICES),
    st.sampled_from(("a", "a", "b", None)),
    st.sampled_from((None, None, None, 1, 2)),
    st.sampled_from((Provenance.MEASURED, Provenance.ESTIMATED)),
)


@settings(max_examples=25)
@given(st.lists(trials, max_size=14))
def test_the_indexed_winner_agrees_with_the_trials(appended: list[Trial]) -> None:
    with Store.open("sqlite://") as store:
        for one in appended:
            store.append(one)
            _agrees(store)
        store.rank()
        _agrees(store)
        before = _cells(store)
        assert all(entry["ranked_id"] == entry["newest_id"] for entry in before)
        with store.writing() as connection:
            best_index.rebuild(connection, store.name)
        assert _cells(store) == before


def _agrees(store: Store) -> None:
    for entry in _cells(store):
        with store.reading() as connection:
            stored = best_index.stored_entry(connection, entry)
            assert stored is not None
            if stored.ranked:
                assert stored.winner == best_index.rank(connection, entry, store.name)


def _cells(store: Store) -> list[dict[str, object]]:
    with store.reading() as connection:
        order = (ENTRIES.c.device, ENTRIES.c.provenance)
        cells = [dict(row) for row in connection.execute(sa.select(ENTRIES).order_by(*order)).mappings()]
    for entry in cells:
        if entry["winner_id"] is None:
            entry["median"] = entry["p25"] = entry["p75"] = entry["repeats"] = None
    return cells


def test_trials_of_new_schedules_need_no_second_look(tmp_path: Path) -> None:
    with Store.open(tmp_path / "a.db") as store:
        for tile in range(1, 30):
            status = (Status.OK, Status.OK, Status.WRONG_RESULT, Status.TIMEOUT, Status.UNVERIFIED)[tile % 5]
            store.append(trial(tile, status, 1 + tile * 7 % 11, "h200", f"d{tile}", None, Provenance.MEASURED))
            with store.reading() as connection:
                stored = best_index.stored_entry(connection, _cells(store)[0])
            assert stored is not None and stored.ranked, (
                "an unranked entry would make `best` read all trials after a kill"
            )


@pytest.mark.parametrize("close", [True, False])
def test_a_remeasured_schedule_is_ranked_when_the_store_is_closed(tmp_path: Path, close: bool) -> None:
    store = Store.open(tmp_path / "a.db")
    for time in (3, 9):
        store.append(trial(1, Status.OK, time, "h200", "d", None, Provenance.MEASURED))
    if close:
        store.close()
    with Store.open(tmp_path / "a.db", create=False) as again, again.reading() as connection:
        stored = best_index.stored_entry(connection, _cells(again)[0])
        assert stored is not None and stored.ranked == close
    best = Store.open(tmp_path / "a.db", create=False).best(PROBLEM, "h200")
    assert best is not None and best.seconds == pytest.approx(6e-6)


def test_an_answer_is_remembered_until_the_file_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.db"
    with Store.open(path) as writer:
        writer.append(trial(1, Status.OK, 5, "h200", "d", None, Provenance.MEASURED))
    os.utime(path, (1e9, 1e9))
    reader, read = Store.open(path, create=False), []
    rank = best_index.entries_of
    monkeypatch.setattr(best_index, "entries_of", lambda *a: read.append(a) or rank(*a))
    first = reader.best(PROBLEM, "h200")
    assert first is not None and first.seconds == pytest.approx(5e-6)
    assert reader.best(PROBLEM, "h200") is reader.best(PROBLEM, "h200") is first and len(read) == 1
    with Store.open(path) as writer:
        writer.append(trial(2, Status.OK, 3, "h200", "d", None, Provenance.MEASURED))
        newer = reader.best(PROBLEM, "h200")
        assert newer is not None and newer.seconds == pytest.approx(3e-6), "the new trial is read from the log"
        writer.append(trial(3, Status.OK, 2, "h200", "d", None, Provenance.MEASURED))
        newer = reader.best(PROBLEM, "h200")
        assert newer is not None and newer.seconds == pytest.approx(2e-6), "a second new trial is also read immediately"
    reader.close()
    with pytest.raises(StoreError, match="has been closed"):
        reader.best(PROBLEM, "h200")
