"""``export``, ``import``, ``merge`` and ``db`` on the command line, with each kind of database."""

from __future__ import annotations

import dataclasses
import json
import os
import sqlite3
from contextlib import closing
from functools import cache
from pathlib import Path

import pytest
from store_trials import make_trial

from autosched.cli.app import run
from autosched.regression.entries import CheckedEntry, entries
from autosched.regression.slowdown import SlowdownLimits
from autosched.user_kernels.user_kernel import KernelSpec
from measurements.store.store import Store
from measurements.trials.measurement import Measurement, Provenance, Status, Timing
from measurements.trials.trial import Trial
from search_spaces.catalogue import template
from search_spaces.hardware.devices import device
from search_spaces.operators.transpose import Transpose
from search_spaces.spaces.schedule import Schedule

VECTOR_ADD = Path(__file__).parents[4] / "examples" / "vector_add" / "vector_add.toml"
PROBLEM, H200 = Transpose(64, 64), device("h200")


@cache
def schedules() -> list[Schedule]:
    return template("transpose").space(PROBLEM, H200).sample(2, 0)


def stored(path: Path, which: int = 0, time: float = 1e-6) -> Trial:
    measurement = Measurement(Status.OK, Provenance.MEASURED, timing=Timing(time, time, time, 9))
    with Store.open(path) as store:
        return store.append(make_trial(schedules()[which], measurement, PROBLEM))


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_round_trip_and_a_merge(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored(here / "a.db")
    assert run(["export", "--db", "a.db", "--out", "configs"]) == 0
    assert capsys.readouterr().out.split() == ["configs/h200.transpose.json"]
    assert run(["import", "configs", "--db", "b.db", "--json"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)["entries"]
    assert (entry["verdict"], entry["taken"]) == ("new", 1)
    stored(here / "c.db", 1, 2e-6)
    assert run(["merge", "a.db", "--into", "c.db"]) == 0
    out = capsys.readouterr().out
    assert "0 trials added" in out and "unclear: " in out and "never timed" in out
    assert run(["db", "stats", "--db", "c.db"]) == 0 and "transpose" in capsys.readouterr().out
    assert run(["db", "check", "--db", "c.db"]) == 0
    assert run(["db", "gc", "--db", "c.db", "--keep", "1", "--json"]) == 0
    capsys.readouterr()
    assert run(["export", "--db", "a.db", "--out", "configs", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"files": ["configs/h200.transpose.json"]}


def test_an_invalid_schedule_is_not_imported(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored(here / "a.db")
    run(["export", "--db", "a.db", "--out", "configs"])
    path = here / "configs" / "h200.transpose.json"
    document = json.loads(path.read_text())
    document["entries"][0]["best"]["schedule"] = {name: 12345 for name in schedules()[0]}
    path.write_text(json.dumps(document))
    assert run(["import", str(path), "--db", "b.db"]) == 2
    assert "cannot be used" in capsys.readouterr().err and not (here / "b.db").exists()


@pytest.mark.parametrize("out", ["a.db", "a.db/configs"])
def test_an_export_goes_into_a_folder(here: Path, capsys: pytest.CaptureFixture[str], out: str) -> None:
    stored(here / "a.db")
    before = (here / "a.db").read_bytes()
    assert run(["export", "--db", "a.db", "--out", out]) == 2
    stderr = capsys.readouterr().err
    assert stderr.count("\n") == 1 and f"{out} is not a folder" in stderr
    assert (here / "a.db").read_bytes() == before


OF_IT = ["db", "threshold", "transpose", "--rows", "64", "--columns", "64", "--db", "a.db"]


def test_a_threshold_is_set_and_removed(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored(here / "a.db")

    def stored_threshold() -> object:
        capsys.readouterr()
        assert run([*OF_IT, "--json"]) == 0
        return json.loads(capsys.readouterr().out)["threshold"]

    assert run(OF_IT) == 0
    assert "no thresholds of its own" in capsys.readouterr().out and stored_threshold() is None
    assert run([*OF_IT, "--max-slowdown", "5%", "--note", "bound by latency, noisy"]) == 0
    assert "allowed slowdown" in capsys.readouterr().out
    assert run([*OF_IT, "--floor", "2.5", "--device", "h200"]) == 0
    assert stored_threshold() == {
        "max_slowdown": 0.05,
        "floor_seconds": pytest.approx(2.5e-6),
        "noise": None,
        "notes": "bound by latency, noisy",
    }
    with Store.open(here / "a.db", create=False) as store:
        (entry,) = entries(store, SlowdownLimits())
    assert isinstance(entry, CheckedEntry) and entry.limits.max_slowdown == 0.05, (
        "`check` uses the entry's stored limit"
    )
    assert run([*OF_IT, "--forget"]) == 0 and stored_threshold() is None


def test_a_threshold_of_a_users_kernel(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    problem = KernelSpec.from_file(VECTOR_ADD).problem(n=1000)
    (schedule,) = template(problem.operator).space(problem, H200).sample(1, 0)
    timing = Measurement(Status.OK, Provenance.MEASURED, timing=Timing(1e-6, 1e-6, 1e-6, 9))
    with Store.open(here / "a.db") as store:
        store.append(make_trial(schedule, timing, problem))
    of_it = ["db", "threshold", "--kernel", str(VECTOR_ADD), "--size", "n=1000", "--db", "a.db"]
    assert run([*of_it, "--max-slowdown", "5%"]) == 0
    with Store.open(here / "a.db", create=False) as store:
        guard = store.guard(problem, "h200")
    assert guard is not None and guard.max_slowdown == 0.05
    capsys.readouterr()
    assert run([*of_it, "--json"]) == 0 and json.loads(capsys.readouterr().out)["threshold"]["max_slowdown"] == 0.05


@pytest.mark.parametrize(
    ("more", "status", "message"),
    [
        (["--max-slowdown", "-1%"], 2, "max_slowdown of a guard must be a finite number of at least 0"),
        (["--max-slowdown", "much"], 2, "invalid share"),
        (["--floor", "inf"], 2, "floor_seconds of a guard must be a finite number of at least 0"),
        (["--note", "\x1b[2J"], 2, "the note '\\x1b[2J' contains characters that cannot be printed"),
        (["--note", "n" * 201], 2, "200 characters at most, not 201"),
        (["--forget", "--floor", "1"], 2, "--forget removes all"),
        (["--device", "h201"], 2, "unknown device 'h201'"),
        (["--device", "a100", "--floor", "1"], 1, "no working schedule for transpose"),
        (["--rows", "65", "--floor", "1"], 1, "no working schedule for transpose"),
    ],
)
def test_invalid_thresholds_are_rejected(
    here: Path, capsys: pytest.CaptureFixture[str], more: list[str], status: int, message: str
) -> None:
    stored(here / "a.db")
    assert run([*OF_IT, *more]) == status
    captured = capsys.readouterr()
    assert message in captured.out + captured.err and "Traceback" not in captured.err
    with Store.open(here / "a.db", create=False) as store:
        assert store.guard(PROBLEM, "h200") is None


READING = (
    ["best", "transpose"],
    ["check", "--static", "--no-emulate"],
    ["export", "--out", "configs"],
    ["db", "stats"],
    ["db", "threshold", "transpose", "--rows", "64", "--columns", "64", "--max-slowdown", "5%"],
    ["db", "check"],
    ["db", "gc"],
)


STATES = {
    "missing": lambda path: None,
    "empty": lambda path: path.touch(),
    "corrupted": lambda path: path.write_bytes(b"SQLite format 3\0" + bytes(range(256)) * 40),
    "text": lambda path: path.write_text("a,b\n1,2\n"),
    "a folder": lambda path: path.mkdir(),
    "older": lambda path: changed(path, "UPDATE meta SET value = '8' WHERE key = 'schema_version'"),
    "newer": lambda path: changed(path, "UPDATE meta SET value = '99' WHERE key = 'schema_version'"),
    "of another project": lambda path: foreign(path),
    "with a trigger": lambda path: changed(path, "CREATE TRIGGER t AFTER INSERT ON trials BEGIN SELECT 1; END"),
}


def changed(path: Path, statement: str) -> None:
    stored(path)
    with closing(sqlite3.connect(path)) as raw, raw:
        raw.execute(statement)


def foreign(path: Path) -> None:
    with closing(sqlite3.connect(path)) as raw, raw:
        raw.execute("CREATE TABLE studies (study_id INTEGER)")


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("command", READING, ids=" ".join)
def test_an_unusable_database_is_rejected(
    here: Path, capsys: pytest.CaptureFixture[str], command: list[str], state: str
) -> None:
    STATES[state](here / "x.db")
    before = {path: path.read_bytes() for path in here.iterdir() if path.is_file()}
    assert run([*command, "--db", "x.db"]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("autosched: ") and err.count("\n") == 1 and "x.db" in err
    assert {path: path.read_bytes() for path in here.iterdir() if path.is_file()} == before


@pytest.mark.parametrize("command", [["merge", "x.db", "--into"], ["merge", "good.db", "x.db", "--into"]])
@pytest.mark.parametrize("state", STATES)
def test_an_unreadable_database_is_not_merged(
    here: Path, capsys: pytest.CaptureFixture[str], command: list[str], state: str
) -> None:
    stored(here / "good.db")
    STATES[state](here / "x.db")
    assert run([*command, "new.db"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and "x.db" in err and not (here / "new.db").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
@pytest.mark.parametrize("command", READING[:5], ids=" ".join)
def test_a_read_only_database_is_read(here: Path, command: list[str]) -> None:
    stored(here / "x.db")
    os.chmod(here / "x.db", 0o444)
    assert run([*command, "--db", "x.db"]) == 0


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    capsys.readouterr()
    assert run(arguments) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and "Traceback" not in err
    return err


def exported(here: Path, name: str = "a.db", folder: str = "configs") -> Path:
    assert run(["export", "--db", name, "--out", folder]) == 0
    return here / folder / "h200.transpose.json"


def test_only_files_are_imported(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored(here / "a.db")
    path = exported(here)
    odd = here / "configs" / "x.json"
    os.mkfifo(odd)
    assert "x.json is not a regular file" in refused(capsys, "import", "configs", "--db", "b.db")
    odd.unlink()
    odd.mkdir()
    assert "x.json is not a regular file" in refused(capsys, "import", "configs", "--db", "b.db")
    odd.rmdir()
    odd.symlink_to("/dev/zero")
    assert "x.json is not a regular file" in refused(capsys, "import", "configs", "--db", "b.db")
    assert "not a regular file" in refused(capsys, "import", "/dev/zero", "--db", "b.db")
    assert "does not exist" in refused(capsys, "import", "nothing.json", "--db", "b.db")
    odd.unlink()
    odd.symlink_to("nothing")
    assert "x.json cannot be read (No such file" in refused(capsys, "import", "configs", "--db", "b.db")
    odd.unlink()
    document = json.loads(path.read_text())
    document["entries"][0]["best"]["fingerprint"]["x"] = float("nan")
    path.write_text(json.dumps(document))
    assert "NaN is not a number" in refused(capsys, "import", "configs", "--db", "b.db")
    assert not (here / "b.db").exists()


def test_files_with_the_same_entry_are_merged_in_order(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A schedule with a smaller time wins only if both schedules were timed in alternation. No file is merged twice."""
    stored(here / "a.db", 0, 2e-6)
    stored(here / "c.db", 1, 1e-6)
    first, second = exported(here), exported(here, "c.db", "theirs")
    capsys.readouterr()
    assert run(["import", str(first), str(first), str(second), "--db", "b.db", "--json"]) == 0
    assert [e["verdict"] for e in json.loads(capsys.readouterr().out)["entries"]] == ["new", "unclear"]
    with Store.open(here / "b.db", create=False) as store:
        (trial,) = store.trials()
    assert trial.schedule.key() == schedules()[0].key()


def test_an_export_only_writes_into_its_folder(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored(here / "a.db")
    (here / "victim").write_text("mine")
    (here / "configs").mkdir()
    (here / "configs" / "h200.transpose.json").symlink_to(here / "victim")
    path = exported(here)
    assert (here / "victim").read_text() == "mine" and not path.is_symlink()
    assert os.listdir(here / "configs") == [path.name] and path.stat().st_mode & 0o777 == 0o666 & ~umask()
    path.unlink()
    path.mkdir()
    assert "is a folder" in refused(capsys, "export", "--db", "a.db", "--out", "configs")
    assert os.listdir(here / "configs") == [path.name]


def umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_invalid_file_names_and_contents_are_rejected(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored(here / "a.db")
    with closing(sqlite3.connect("a.db")) as raw, raw:
        raw.execute("UPDATE trials SET device = ?", ("x" * 300,))
        raw.execute("UPDATE entries SET device = ?", ("x" * 300,))
    assert "file name" in refused(capsys, "export", "--db", "a.db", "--out", "configs")
    stored(here / "b.db")
    with closing(sqlite3.connect("b.db")) as raw, raw:
        raw.execute("""UPDATE trials SET fingerprint = '{"x":Infinity}'""")
    assert "cannot be exported" in refused(capsys, "export", "--db", "b.db", "--out", "configs")
    with closing(sqlite3.connect("b.db")) as raw, raw:
        raw.execute("""UPDATE trials SET fingerprint = '{}', clock_mhz = 9e999""")
    assert "cannot be read" in refused(capsys, "export", "--db", "b.db", "--out", "configs")
    assert not (here / "configs").exists() or os.listdir(here / "configs") == []


def test_a_database_is_merged_into_itself(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored(here / "a.db")
    assert run(["merge", "a.db", "a.db", "--into", "a.db"]) == 0
    with Store.open(here / "a.db", create=False) as store:
        assert store.count() == 1


def test_an_invalid_schedule_never_replaces_the_best(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A stored rank of 1 does not make the invalid schedule the best, since anyone can write a rank into a database."""
    valid, other = schedules()
    stored(here / "mine.db")
    forged = other.replace(tile_m=12345)
    with Store.open(here / "theirs.db") as store:
        for rank, schedule in ((2, valid), (1, forged)):
            time = 1e-6 if rank == 2 else 1e-9
            measurement = Measurement(Status.OK, Provenance.MEASURED, timing=Timing(time, time, time, 9))
            store.append(dataclasses.replace(make_trial(schedule, measurement, PROBLEM), rank=rank))
    for target in ("mine.db", "new.db"):
        assert run(["merge", "theirs.db", "--into", target]) == 0
        out = capsys.readouterr().out
        assert "0 trials added" in out and "refused: " in out and "12345" in out
    with Store.open(here / "mine.db", create=False) as store:
        assert store.count() == 1 and store.best(PROBLEM, "h200") is not None
    assert run(["merge", "theirs.db", "--into", "mine.db", "--json"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)["entries"]
    assert (entry["verdict"], entry["taken"]) == ("refused", 0)


def of_a_kernel_file(path: Path) -> None:
    """Make a database with trials of a kernel that is unknown until the kernel's file is read."""
    trial = stored(path)
    path.unlink()
    foreign = Schedule("thrice", (("block_size_x", 64),))
    with Store.open(path) as store:
        store.append(
            dataclasses.replace(trial, problem_key='{"n":1000,"operator":"thrice"}', schedule=foreign, id=None)
        )


def test_user_kernels_are_exported_and_imported(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    of_a_kernel_file(here / "a.db")
    assert run(["export", "--db", "a.db", "--out", "configs"]) == 0
    assert run(["import", "configs", "--db", "b.db"]) == 0
    assert "1 trial added" in capsys.readouterr().out
    assert run(["merge", "b.db", "--into", "c.db"]) == 0
    capsys.readouterr()
    assert run(["db", "check", "--db", "c.db"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "nothing is wrong",
        "not checked: 1 best schedule of thrice, whose kernel files were not given",
    ]
    assert run(["db", "check", "--db", "c.db", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["not_judged"] == {"thrice": 1}
    assert run(["check", "--db", "c.db", "--static"]) == 2
    assert "give its kernel file (--kernel FILE)" in " ".join(capsys.readouterr().out.split())


def test_an_imported_unknown_template_does_not_replace_the_best(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored(here / "a.db")
    run(["export", "--db", "a.db", "--out", "configs"])
    document = json.loads((here / "configs" / "h200.transpose.json").read_text())
    best = document["entries"][0]["best"]
    best["template"] = "flying_transpose"
    best["timing"] = {name: value if name == "count" else value / 10 for name, value in best["timing"].items()}
    (here / "faster.json").write_text(json.dumps(document))
    assert run(["import", "faster.json", "--db", "a.db"]) == 2
    assert "cannot be used: " in capsys.readouterr().err
    with Store.open(here / "a.db") as store:
        best_trial = store.best(PROBLEM, "h200")
        assert best_trial is not None and best_trial.schedule.template == "transpose"
        forged = Schedule("flying_transpose", best_trial.schedule.items)
        store.append(dataclasses.replace(best_trial, schedule=forged, kernel_digest="k", id=None))
    stored(here / "b.db")
    with Store.open(here / "b.db") as store:
        timing = Measurement(Status.OK, Provenance.MEASURED, timing=Timing(1e-9, 1e-9, 1e-9, 9))
        store.append(dataclasses.replace(make_trial(forged, timing, PROBLEM), id=None))
    capsys.readouterr()
    assert run(["db", "check", "--db", "b.db"]) == 1
    assert "flying_transpose" in capsys.readouterr().out


def test_an_operator_name_from_a_file_is_escaped_for_the_terminal(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    of_a_kernel_file(here / "a.db")
    run(["export", "--db", "a.db", "--out", "configs"])
    text = (here / "configs" / "h200.thrice.json").read_text()
    (here / "odd.json").write_text(text.replace('"thrice"', json.dumps("a\n\x1b[31mb")))
    capsys.readouterr()
    if run(["import", "odd.json", "--db", "b.db"]) == 0:
        assert run(["db", "check", "--db", "b.db"]) == 0
    out, err = capsys.readouterr()
    assert "\x1b" not in out + err
    (here / "half.json").write_text(text.replace('"thrice"', r'"\ud800x"'))
    assert run(["import", "half.json", "--db", "c.db"]) == 2
    err = capsys.readouterr().err
    assert "half.json is not an export" in err and err.count("\n") == 1


def test_a_lone_surrogate_is_not_imported(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored(here / "a.db")
    run(["export", "--db", "a.db", "--out", "configs"])
    path = here / "configs" / "h200.transpose.json"
    document = json.loads(path.read_text())
    for name in ("toolchain", "kernel_digest", "sampler", "driver"):
        changed = json.loads(path.read_text())
        changed["entries"][0]["best"][name] = "\ud800"
        (here / "half.json").write_text(json.dumps(changed))
        capsys.readouterr()
        assert run(["import", "half.json", "--db", "b.db"]) == 2
        err = capsys.readouterr().err
        assert "half.json is not an export" in err and err.count("\n") == 1
    assert document["entries"] and not (here / "b.db").exists()


def test_an_impossible_output_path_is_rejected_in_one_line(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored(here / "a.db")
    for path in ("/proc/nothing", "x" * 300, "a.db/below"):
        capsys.readouterr()
        assert run(["export", "--db", "a.db", "--out", path]) == 2
        err = capsys.readouterr().err
        assert err.startswith("autosched: ") and err.count("\n") == 1


def test_a_check_without_matches_lists_the_existing_schedules(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored(here / "a.db")
    for options, message in (
        (["--operator", "matmull"], "transpose on h200"),
        (["--device", "a100"], "transpose on h200"),
        (["--floor", "nan"], "--floor must be a time in microseconds, such as 0.5, not nan"),
    ):
        assert run(["check", "--db", "a.db", "--static", *options]) == 2
        out, err = capsys.readouterr()
        assert message in err and err.count("\n") == 1 and not out
