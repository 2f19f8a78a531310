"""Tables of recorded measurements are read in each format, and invalid files are rejected."""

import dataclasses
import gzip
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from measurements.store.store import Store
from measurements.tables import kernel_tuner
from measurements.tables.kernel_tuner import to_t4
from measurements.tables.reading import read_table
from measurements.tables.table import Row, Table, TableError, table_of
from measurements.trials.measurement import Measurement, Provenance, Status, Timing
from measurements.trials.trial import Trial
from measurements.trials.vendor_library import LIBRARY_SCHEDULE
from search_spaces.operators.problem import Problem
from search_spaces.operators.transpose import Transpose
from search_spaces.spaces.schedule import Schedule

FAILURES = {"CompilationFailedConfig": Status.COMPILE_ERROR, "RuntimeFailedConfig": Status.LAUNCH_ERROR}


def cache(n: int = 12) -> dict[str, Any]:
    """Return a cache in Kernel Tuner's format: x is 1, 2, ...; y is 0.5, 1.5 or a text. Every fifth entry failed."""
    entries = {}
    for i in range(n):
        entry: dict[str, Any] = {"x": 2 ** (i // 2 % 60), "y": 0.5 + i % 2, "flag": i % 2 == 0, "layout": "ab"[i % 2]}
        failure = list(FAILURES)[i // 5 % 2]
        entry |= {"time": failure if i % 5 == 4 else 1.0 + i, "times": [1.0 + i, 2.0 + i, 3.0 + i]}
        entries[",".join(str(v) for v in entry.values())] = entry
    names = ["x", "y", "flag", "layout"]
    return {"device_name": "A GPU", "kernel_name": "k", "tune_params_keys": names, "tune_params": {}, "cache": entries}


def written(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


class TestKernelTunerCache:
    def test_a_cache_is_read_with_its_parameters_and_times(self, tmp_path: Path) -> None:
        table = read_table(written(tmp_path / "c.json", json.dumps(cache())))
        assert (table.kernel, table.device, len(table.measurements)) == ("k", "A GPU", 12)
        kinds = {p.name: (p.kind, p.values) for p in table.parameters["k"]}
        assert kinds["x"] == ("ordinal", (1, 2, 4, 8, 16, 32))
        assert kinds["y"] == ("ordinal", ("0.5", "1.5"))
        assert kinds["flag"] == ("ordinal", (0, 1))
        assert kinds["layout"] == ("categorical", ("a", "b"))
        measurements = list(table.measurements.values())
        assert [m.timing.median for m in measurements if m.timing][:3] == pytest.approx([1e-3, 2e-3, 3e-3])
        assert [measurements[4].status, measurements[9].status] == list(FAILURES.values())
        assert table.best_seconds == pytest.approx(1e-3)
        assert {m.provenance for m in measurements} == {Provenance.REPLAYED}

    def test_gzip_is_the_same(self, tmp_path: Path) -> None:
        plain = read_table(written(tmp_path / "c.json", json.dumps(cache())))
        packed = read_table(written(tmp_path / "c.json.gz", gzip.compress(json.dumps(cache()).encode())))
        assert packed.measurements == plain.measurements

    @pytest.mark.parametrize("cut", range(20, 1200, 97))
    def test_cut_off_at_the_tail(self, tmp_path: Path, cut: int) -> None:
        text = json.dumps(cache(), indent=0)
        complete = read_table(written(tmp_path / "whole.json", text))
        table = read_table(written(tmp_path / "c.json", text[:-cut]))
        assert 0 < len(table.measurements) < 12 or cut == 20
        assert table.measurements.items() <= complete.measurements.items()
        assert "truncated" in table.notes[0]

    def test_cut_off_gzip(self, tmp_path: Path) -> None:
        packed = gzip.compress(json.dumps(cache(400)).encode())
        table = read_table(written(tmp_path / "c.json.gz", packed[: len(packed) * 3 // 4]))
        assert 0 < len(table.measurements) < 400

    def test_a_gzip_of_many_members(self, tmp_path: Path) -> None:
        text = json.dumps(cache(400)).encode()
        members = b"".join(gzip.compress(text[i : i + 100]) for i in range(0, len(text), 100))
        complete = read_table(written(tmp_path / "c.json", text))
        from_gzip = read_table(written(tmp_path / "c.json.gz", members))
        assert from_gzip.measurements == complete.measurements and not from_gzip.notes

    def test_a_file_that_unpacks_to_too_much(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        text = json.dumps(cache()).encode()
        halves = gzip.compress(text[:500]) + gzip.compress(text[500:]) + bytes(64)
        assert len(read_table(written(tmp_path / "c.json.gz", halves)).measurements) == 12
        monkeypatch.setattr(kernel_tuner, "MOST_BYTES", 1000)
        for content in (halves, text):
            with pytest.raises(TableError, match="more than 1,000 bytes"):
                read_table(written(tmp_path / "c.json.gz", content))

    def test_the_space_contains_the_recorded_schedules(self, tmp_path: Path) -> None:
        table = read_table(written(tmp_path / "c.json", json.dumps(cache())))
        assert {s.key() for s in table.space().sample(100, 0)} == {s.key() for s in table.measurements}


class TestT4:
    def test_written_and_read(self, tmp_path: Path) -> None:
        table = read_table(written(tmp_path / "c.json", json.dumps(cache())))
        rows = [(s.to_json(), m, "2026-01-01T00:00:00+00:00") for s, m in table.measurements.items()]
        document = to_t4(rows, {"device": "A GPU"})
        again = read_table(written(tmp_path / "t4.json", json.dumps(document)))
        assert again.device == "A GPU"
        times = [None if m.timing is None else m.timing.median for m in table.measurements.values()]
        assert [None if m.timing is None else m.timing.median for m in again.measurements.values()] == pytest.approx(
            times
        )
        assert [m.status for m in again.measurements.values()] == [m.status for m in table.measurements.values()]

    def test_the_time_is_read_for_every_objective(self, tmp_path: Path) -> None:
        def result(x: int, *measurements: dict[str, object]) -> dict[str, object]:
            document = {"invalidity": "correct", "objectives": ["GFLOP/s"], "measurements": list(measurements)}
            return {"configuration": {"x": x}, **document}

        def rate(value: float) -> dict[str, object]:
            return {"name": "GFLOP/s", "value": value, "unit": "GFLOP/s"}

        def time(value: float) -> dict[str, object]:
            return {"name": "time", "value": value, "unit": "ms"}

        both = {"results": [result(1, rate(300.0), time(2.0)), result(2, rate(100.0), time(6.0))]}
        table = read_table(written(tmp_path / "both.json", json.dumps(both)))
        assert table.best_seconds == pytest.approx(2e-3)
        for unit in ("GFLOP/s", ""):
            alone = {"results": [result(1, {**rate(300.0), "unit": unit})]}
            with pytest.raises(TableError, match="result 1 has GFLOP/s"):
                read_table(written(tmp_path / "rate.json", json.dumps(alone)))

    def test_invalid_measurements_are_rejected(self, tmp_path: Path) -> None:
        results = [{"configuration": {"x": x}, "measurements": 3} for x in (1, 2)]
        with pytest.raises(TableError):  # rejected, since no configuration has a time
            read_table(written(tmp_path / "t4.json", json.dumps({"results": results})))

    def test_a_parameter_may_be_called_cache(self, tmp_path: Path) -> None:
        rows = [
            ({"cache": x, "results": 1}, Measurement(Status.OK, Provenance.MEASURED, timing=Timing.of([x])), "")
            for x in (1, 2)
        ]
        table = read_table(written(tmp_path / "t4.json", json.dumps(to_t4(rows, {"kernel": "cache"}))))
        assert (table.kernel, len(table.measurements), table.best_seconds) == ("cache", 2, pytest.approx(1.0))

    def test_has_the_fields_of_the_format(self) -> None:
        failed = Measurement(Status.WRONG_RESULT, Provenance.MEASURED, "off by one")
        (result,) = to_t4([({"x": 1}, failed, "2026-01-01T00:00:00+00:00")], {})["results"]
        assert (result["invalidity"], result["correctness"], result["measurements"]) == ("correctness", 0, [])
        assert result.keys() >= {"timestamp", "configuration", "objectives", "times"}


class TestDatabase:
    def make_trial(self, tile: int, problem: Problem) -> Trial:
        seconds = tile * 1e-6
        return Trial(
            problem_key=problem.key(),
            schedule=Schedule("fma", (("layout", "xor"), ("tile", tile))),
            device="h200",
            fingerprint="{}",
            template_version="v1",
            space_version="s1",
            kernel_digest=f"d{tile}",
            measurement=Measurement(
                Status.OK, Provenance.MEASURED, timing=Timing(seconds, seconds, seconds, 5), error=0.1
            ),
            toolchain="",
            driver="",
            autosched_version="0",
            created=datetime(2026, 1, 2, tzinfo=UTC),
            sampler="bayes",
            seed=0,
        )

    def test_a_database_of_one_problem_is_read_as_a_table(self, tmp_path: Path) -> None:
        with Store.open(tmp_path / "a.db") as store:
            for tile in (64, 32, 16):
                store.append(self.make_trial(tile, Transpose(rows=8, columns=8)))
        table = read_table(tmp_path / "a.db")
        assert (table.kernel, table.device, len(table.measurements)) == ("transpose", "h200", 3)
        assert table.best_seconds == pytest.approx(16e-6)
        assert [p.kind for p in table.parameters["fma"]] == ["categorical", "ordinal"]

    def test_the_library_is_not_a_configuration(self, tmp_path: Path) -> None:
        own = self.make_trial(64, Transpose(rows=8, columns=8))
        library = dataclasses.replace(own, schedule=LIBRARY_SCHEDULE, kernel_digest=None)
        with Store.open(tmp_path / "a.db") as store:
            store.append(own)
            store.append(library)
        assert list(read_table(tmp_path / "a.db").parameters) == ["fma"]

    def test_a_database_of_several_problems_is_rejected(self, tmp_path: Path) -> None:
        with Store.open(tmp_path / "a.db") as store:
            for rows in (8, 16):
                store.append(self.make_trial(32, Transpose(rows=rows, columns=8)))
        with pytest.raises(TableError, match="2 combinations of problem"):
            read_table(tmp_path / "a.db")


BAD: dict[str, str | bytes] = {
    "empty": "",
    "no JSON": "hello",
    "a list": "[1, 2]",
    "binary": b"\x00\xff\xfe{",
    "another document": '{"a": 1}',
    "no parameters": json.dumps({**cache(), "tune_params_keys": []}),
    "no configurations": json.dumps({**cache(), "cache": {}}),
    "a missing value": json.dumps({**cache(), "tune_params_keys": ["x", "z"]}),
    "a value that is none": json.dumps({**cache(), "cache": {"a": {"x": [1], "y": 1, "flag": 1, "layout": 1}}}),
    "all failed": json.dumps(
        {**cache(), "cache": {"a": {"x": 1, "y": 1, "flag": 1, "layout": 1, "time": "RuntimeFailedConfig"}}}
    ),
    "cut before the first": json.dumps(cache())[:120],
    "T4 without results": '{"results": []}',
    "T4 without configurations": '{"results": [{"a": 1}]}',
    "a recording truncated": '{"recording": 2}',
    "a number that is too large": json.dumps(cache()).replace('"x": 32', '"x": 1' + "0" * 30),
    "an integer that a float cannot represent, and a float": json.dumps(cache())
    .replace('"x": 32', '"x": 1' + "0" * 400)
    .replace('"x": 16', '"x": 0.5'),
    "no time is a number above 0": json.dumps(cache()).replace('"time": ', '"time": 1e-323, "was": '),
    "gzip of nothing": gzip.compress(b"x" * 100)[:12],
}


@pytest.mark.parametrize("content", BAD.values(), ids=BAD)
def test_invalid_tables_are_rejected_in_one_line(tmp_path: Path, content: str | bytes) -> None:
    with pytest.raises(TableError, match=r"^[^\n]+$"):
        read_table(written(tmp_path / "f", content))


def test_a_missing_file_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="cannot be read"):
        read_table(tmp_path / "none")


def test_rows_with_other_parameters_are_rejected() -> None:
    failed = Measurement(Status.TIMEOUT, Provenance.MEASURED, "slow")
    with pytest.raises(TableError, match="some have no z"):
        table_of("d", [Row("k", {"x": 1}, failed), Row("k", {"x": 1, "z": 2}, failed)])


def test_the_last_of_duplicate_configurations_counts(tmp_path: Path) -> None:
    table: Table = read_table(written(tmp_path / "c.json", json.dumps(cache())))
    measured = next(iter(table.measurements.values()))
    failed = Measurement(Status.TIMEOUT, Provenance.MEASURED, "slow")
    assert len(table_of("d", [Row("k", {"x": 1}, failed), Row("k", {"x": 1}, measured)]).measurements) == 1
