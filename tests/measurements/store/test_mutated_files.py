"""Mutated databases, exports and recordings give a clear error or load correctly, never an invalid best schedule.

With ``--nightly`` there are 10,000 mutated files. Each is derived from its number, so that failures can be reproduced.
"""

from __future__ import annotations

import copy
import gzip
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pytest
from store_trials import make_trial

from autosched.dispatch.database import Database, NoSchedule
from measurements.store import export, maintenance
from measurements.store.export import ExportError
from measurements.store.store import Store, StoreError
from measurements.trials import recording
from measurements.trials.measurement import Measurement, Provenance, Status, Timing
from measurements.trials.recording import Recording, RecordingError
from search_spaces.catalogue import template
from search_spaces.hardware.devices import device
from search_spaces.operators.transpose import Transpose

PROBLEM, H200 = Transpose(64, 64), device("h200")
TEMPLATE = template("transpose")
DEFAULT, NIGHTLY = 36, 3334  # mutated files of each kind
ODD: tuple[Any, ...] = (
    *(None, True, -1, 0, 1, 2**31, 2**63, -(2**70), 0.5, 1e308, float("inf"), float("nan")),
    *("", "x", "\x1b[2J", "\u202e", "\0", "h200", "measured", "ok", "wrong_result", "{", "[1]", "{}", "9" * 5000),
    *([], {}, [[]], {"a": {"b": []}}, "[" * 3000, '{"operator":"matmul"}', "2026-01-01T00:00:00+00:00"),
)


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    with Store.open(folder / "a.db") as store:
        for i, schedule in enumerate(TEMPLATE.space(PROBLEM, H200).sample(8, 0)):
            time = 1e-6 * (1 + i)
            outcome = Measurement(Status.OK, Provenance.MEASURED, timing=Timing(time, time, time, 9), error=0.5)
            if i == 3:
                outcome = Measurement(Status.WRONG_RESULT, Provenance.MEASURED, "it did")
            store.append(make_trial(schedule, outcome, PROBLEM))
    with Store.open(folder / "a.db", create=False) as store:
        export.write(store, folder)
        recording.write(folder / "a.jsonl.gz", Recording.of(store.trials()))
    return folder


def broken(content: bytes, random: Random) -> bytes:
    """Return the bytes after a mutation: some are changed, the end is cut off, or a piece is moved."""
    mutated = bytearray(content)
    kind = random.randrange(4)
    if kind == 0:
        return bytes(mutated[: random.randrange(len(mutated))])
    if kind == 1:
        start, size = random.randrange(len(mutated)), random.randrange(1, 200)
        mutated[start : start + size] = mutated[:size]
        return bytes(mutated)
    for _ in range(random.choice((1, 3, 30))):
        mutated[random.randrange(len(mutated))] = random.randrange(256)
    return bytes(mutated)


def changed(document: Any, random: Random) -> Any:
    """Return JSON in which one value is changed, removed, duplicated or swapped."""
    mutated = copy.deepcopy(document)
    positions: list[tuple[Any, Any]] = []

    def walk(node: Any) -> None:
        for key in list(node) if isinstance(node, dict) else range(len(node)):
            positions.append((node, key))
            if isinstance(node[key], (dict, list)):
                walk(node[key])

    walk(mutated)
    for _ in range(random.choice((1, 1, 2, 5))):
        node, key = random.choice(positions)
        kind = random.randrange(4)
        if kind == 0 and isinstance(node, dict):
            node.pop(key, None)
        elif kind == 1 and isinstance(node, list) and node:
            node.append(copy.deepcopy(node[0]))
        elif kind == 2 and isinstance(node, dict):
            other, name = random.choice(positions)
            if isinstance(other, dict) and name in other and not isinstance(other[name], (dict, list)):
                node[key] = other[name]
        elif not isinstance(node, list) or key < len(node):
            node[key] = random.choice(ODD)
    return mutated


def edited(path: Path, random: Random) -> None:
    """Change cells of a database with SQL."""
    with closing(sqlite3.connect(path)) as raw, raw:
        raw.execute("PRAGMA ignore_check_constraints = ON")
        for _ in range(random.choice((1, 2, 4))):
            table = random.choice(("trials", "trials", "entries", "meta"))
            columns = [row[1] for row in raw.execute(f"PRAGMA table_info({table})")]
            value = random.choice([odd for odd in ODD if not isinstance(odd, (list, dict)) and abs_fits(odd)])
            where = "" if table != "trials" else f" WHERE id = {random.randrange(1, 9)}"
            try:
                if random.random() < 0.1:
                    raw.execute(f"DELETE FROM {table}{where}")
                else:
                    raw.execute(f"UPDATE {table} SET {random.choice(columns)} = ?{where}", (value,))
            except sqlite3.IntegrityError:
                continue
        if random.random() < 0.3 and raw.execute("SELECT count(*) FROM entries").fetchone()[0]:
            raw.execute("UPDATE entries SET ranked_id = NULL")


def abs_fits(value: Any) -> bool:
    return not isinstance(value, int) or abs(value) < 2**63


def use(path: Path) -> None:
    """Read a database as programs and commands do. Raises StoreError or NoSchedule."""
    best = Database(path).best(PROBLEM, "h200")
    if best is not None:
        TEMPLATE.config(PROBLEM, best.schedule, H200)  # raises if the schedule is invalid
        assert best.ok and best.problem == PROBLEM and best.device == "h200"
    with Store.open(path, create=False) as store:
        for summary in store.problems():
            store.best_of(summary)
        store.trials()
        maintenance.check(store)


@pytest.fixture
def numbers(nightly: bool) -> range:
    return range(NIGHTLY if nightly else DEFAULT)


def test_databases(originals: Path, tmp_path: Path, numbers: range) -> None:
    loaded = 0
    for number in numbers:
        random, path = Random(number), tmp_path / "x.db"
        content = (originals / "a.db").read_bytes()
        path.write_bytes(broken(content, random) if number % 3 == 0 else content)
        if number % 3:
            edited(path, random)
        try:
            use(path)
            loaded += 1
        except (StoreError, NoSchedule) as error:
            assert "\n" not in str(error) and str(error).isprintable(), number
        except Exception as error:
            raise AssertionError(f"database {number}") from error
        for left in tmp_path.iterdir():
            left.unlink()
    assert 0 < loaded < len(numbers)


def test_exports(originals: Path, tmp_path: Path, numbers: range) -> None:
    original, loaded = json.loads((originals / "h200.transpose.json").read_text()), 0
    for number in numbers:
        random, path = Random(number), tmp_path / "x.json"
        if number % 3 == 0:
            path.write_bytes(broken((originals / "h200.transpose.json").read_bytes(), random))
        else:
            path.write_text(json.dumps(changed(original, random)))
        try:
            store = export.read([path])
            for summary in store.problems():
                best = store.best_of(summary)
                assert best is not None and best.ok
            loaded += 1
        except ExportError as error:
            assert "\n" not in str(error) and str(error).isprintable(), number
        except Exception as error:
            raise AssertionError(f"export {number}") from error
    assert 0 < loaded < len(numbers)


def test_recordings(originals: Path, tmp_path: Path, numbers: range) -> None:
    content, loaded = (originals / "a.jsonl.gz").read_bytes(), 0
    lines = [json.loads(line) for line in gzip.decompress(content).splitlines()]
    for number in numbers:
        random, path = Random(number), tmp_path / "x.jsonl.gz"
        if number % 3 == 0:
            path.write_bytes(broken(content, random))
        else:
            text = "\n".join(json.dumps(line) for line in changed(lines, random))
            path.write_bytes(gzip.compress(text.encode(), 1))
        try:
            for one in recording.read(path):
                assert one.trials
                recording.path_of(one.problem_key, one.device, tmp_path)
            loaded += 1
        except RecordingError as error:
            assert "\n" not in str(error) and str(error).isprintable(), number
        except Exception as error:
            raise AssertionError(f"recording {number}") from error
    assert 0 < loaded < len(numbers)
