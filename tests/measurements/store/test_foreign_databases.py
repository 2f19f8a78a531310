"""Contents of untrusted databases and recordings are never executed, and their text is escaped on a terminal."""

from __future__ import annotations

import gzip
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from store_trials import make_trial

from measurements.files.text import printable
from measurements.store.store import Store, StoreError
from measurements.trials import recording
from measurements.trials.measurement import Measurement, Provenance, Status, Timing
from measurements.trials.recording import Recording, RecordingError
from measurements.trials.trial import Trial
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.schedule import Schedule

PROBLEM = Matmul(m=64, n=48, k=32)
ESCAPES = ("\x1b]0;owned\x07", "a\x9b31m", "ab\u202ecba", "zero\0byte", "\x1b[2J")


def trial(tile: int = 1) -> Trial:
    measurement = Measurement(Status.OK, Provenance.MEASURED, timing=Timing(1e-6 * tile, 1e-6 * tile, 1e-6 * tile, 9))
    return make_trial(Schedule("matmul", (("tile_m", tile),)), measurement, PROBLEM)


@pytest.fixture
def database(tmp_path: Path) -> Path:
    with Store.open(tmp_path / "a.db") as store:
        for tile in (1, 2):
            store.append(trial(tile))
    return tmp_path / "a.db"


def change(path: Path, *statements: str, values: tuple[object, ...] = ()) -> None:
    with closing(sqlite3.connect(path)) as raw, raw:
        for statement in statements:
            raw.execute(statement, values)


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER t AFTER INSERT ON trials BEGIN DELETE FROM trials; END",
        "CREATE TRIGGER t AFTER INSERT ON trials BEGIN UPDATE trials SET median = 1e-9; END",
        "CREATE TRIGGER t AFTER UPDATE ON entries BEGIN UPDATE entries SET median = 1e-9; END",
        "CREATE VIEW v AS SELECT * FROM trials",
        "CREATE TABLE songs (title TEXT)",
        "CREATE VIRTUAL TABLE words USING fts5(word)",
        "CREATE INDEX i ON trials (length(hex(zeroblob(10000000))))",
        "ALTER TABLE trials ADD COLUMN shadow TEXT AS (hex(reason)) VIRTUAL",
    ],
)
@pytest.mark.parametrize("create", [True, False])
def test_unknown_database_objects_are_rejected_and_not_modified(database: Path, statement: str, create: bool) -> None:
    change(database, statement)
    before = database.read_bytes()
    with pytest.raises(StoreError, match="has objects that autosched never creates"):
        Store.open(database, create=create)
    assert database.read_bytes() == before


def test_a_trigger_in_the_write_ahead_log_is_rejected(database: Path) -> None:
    with closing(sqlite3.connect(database)) as raw:
        raw.execute("PRAGMA journal_mode = WAL")
        raw.execute("CREATE TRIGGER t AFTER INSERT ON trials BEGIN DELETE FROM trials; END")
        raw.commit()
        with pytest.raises(StoreError, match=r"never creates .trigger t"):
            Store.open(database)


@pytest.mark.parametrize("text", ESCAPES)
@pytest.mark.parametrize(
    "cell", ["toolchain", "driver", "sampler", "device", "autosched_version", "space_version", "template"]
)
def test_a_name_with_control_characters_is_rejected(database: Path, cell: str, text: str) -> None:
    change(database, f"UPDATE trials SET {cell} = ?", values=(text,))
    if cell == "device":
        change(database, "UPDATE entries SET device = ?", values=(text,))
    store = Store.open(database, create=False)
    for read in (store.trials, store.problems if cell == "device" else lambda: store.best(PROBLEM, "h200")):
        with pytest.raises(StoreError) as caught:
            read()
        assert printable(str(caught.value)), "and the message shows it escaped"


def test_a_reason_is_shown_escaped(database: Path) -> None:
    change(database, "UPDATE trials SET reason = ? WHERE id = 2", values=(f"warm {ESCAPES[0]}",))
    assert Store.open(database, create=False).trials()[1].measurement.reason == "warm \\x1b]0;owned\\x07"


@pytest.mark.parametrize("text", ESCAPES)
@pytest.mark.parametrize("field", ["device", "toolchain", "autosched_version"])
def test_a_recording_with_control_characters_in_names_is_rejected(tmp_path: Path, field: str, text: str) -> None:
    recording.write(tmp_path / "a.jsonl.gz", Recording.of([trial()]))
    lines = [json.loads(line) for line in gzip.decompress((tmp_path / "a.jsonl.gz").read_bytes()).splitlines()]
    changed = "\n".join(json.dumps({**line, field: text}) for line in lines)
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(changed.encode()))
    with pytest.raises(RecordingError) as caught:
        recording.read(tmp_path / "a.jsonl.gz")
    assert printable(str(caught.value))


def test_a_recording_of_an_operator_that_names_no_file_is_rejected() -> None:
    with pytest.raises(RecordingError, match="cannot be used in a file name"):
        recording.path_of('{"operator":"zero\\u0000byte"}', "h200")


@pytest.mark.parametrize("spaces", [0, 3000])
def test_a_recording_is_unpacked_no_further_than_it_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spaces: int
) -> None:
    recording.write(tmp_path / "a.jsonl.gz", Recording.of([trial()]))
    content = gzip.decompress((tmp_path / "a.jsonl.gz").read_bytes())
    most = len(content) + spaces - 1
    monkeypatch.setattr(recording, "MOST_BYTES", most)
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(content + b" " * spaces))
    with pytest.raises(RecordingError, match=f"has more than {most:,} bytes"):
        recording.read(tmp_path / "a.jsonl.gz")
