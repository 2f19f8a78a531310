"""Every command and function that takes a database is run with databases in every possible state.

For an unusable database a command prints one line and exits with 2. The database stays unchanged, and no file is
created next to it.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from cases import spread
from fake_cupy import FakeCupy
from store_trials import make_trial

import autosched
from autosched.cli import main
from autosched.dispatch import functions
from measurements.store import sqlite_file
from measurements.store.store import SCHEMA_VERSION, Store, StoreError
from measurements.trials.measurement import Measurement, Provenance, Resources, Status, Timing
from search_spaces.catalogue import template
from search_spaces.hardware.devices import device
from search_spaces.operators.transpose import Transpose
from search_spaces.spaces.schedule import Schedule

PROBLEM, H200 = Transpose(64, 64), device("h200")
TEMPLATE = template("transpose")


@cache
def schedule() -> Schedule:
    return TEMPLATE.space(PROBLEM, H200).sample(1, 0)[0]


SIZES = ("--rows", "64", "--columns", "64")
SUITE = '[[problem]]\noperator = "transpose"\nrows = 64\ncolumns = 64\n'
PLUGINS = "-p autosched.regression.pytest_plugin -p no:xdist -p no:cacheprovider -p no:timeout"


def stored(path: Path) -> Path:
    timing = Timing(1e-6, 1e-6, 1e-6, 9)
    measurement = Measurement(Status.OK, Provenance.MEASURED, timing=timing, resources=Resources(32, 0, 0, 0, 0, 4096))
    with Store.open(path) as store:
        store.append(make_trial(schedule(), measurement, PROBLEM))
    return path


def changed(path: Path, statements: str) -> None:
    with closing(sqlite3.connect(stored(path))) as raw, raw:
        raw.executescript(statements)


# -- commands


@dataclass(frozen=True)
class Command:
    """A command under test; ``ask`` runs the command on the database at a path and returns the exit status.

    ``makes`` is True if the command creates a missing database, and ``writes`` if it writes to an existing database.
    ``none`` is the exit status for a database without trials.
    """

    ask: Callable[[str], int]
    makes: bool = False
    writes: bool = False
    none: int | None = 0


def line(*arguments: str, makes: bool = False, writes: bool = False, none: int | None = 0) -> Command:
    return Command(lambda db: main([db if a == "DB" else a for a in arguments]), makes, writes, none)


def called(call: Callable[[str], object]) -> Command:
    """Return a Command that calls a Python function and prints an error as one line."""

    def ask(db: str) -> int:
        try:
            call(db)
        except StoreError as error:
            print(f"autosched: {error}", file=sys.stderr)
            return 2
        return 0

    return Command(ask, none=None)


def plugin(db: str) -> int:
    status = pytest.main(["--autosched-db", db, "--autosched-static", "--autosched-no-emulate", "--rootdir", "tests"])
    return 2 if status == pytest.ExitCode.USAGE_ERROR else int(status)


def function(db: str) -> None:
    try:
        autosched.transpose(autosched.dispatch.kernel.gpu_library().zeros((64, 64), "float32"), database=db)
    finally:
        functions.forget()


TUNE = ("--device", "h200", "--backend", "estimate", "--trials", "1", "--workers", "1", "--no-verify")
COMMANDS = {
    "tune": line("tune", "transpose", *SIZES, *TUNE, "--db", "DB", makes=True, writes=True, none=None),
    "tune --suite": line("tune", "--suite", "suite.toml", *TUNE, "--db", "DB", makes=True, writes=True, none=None),
    "best": line("best", "transpose", *SIZES, "--db", "DB", none=1),
    "best, all": line("best", "transpose", "--db", "DB", "--json", none=None),
    "verify": line("verify", "transpose", *SIZES, "--device", "h200", "--db", "DB", none=2),
    "train": line("train", "--db", "DB", "--out", "model.json", none=2),
    "check --static": line("check", "--static", "--no-emulate", "--db", "DB", none=2),
    "check": line("check", "--db", "DB", none=2),
    "check --learn-noise": line("check", "--learn-noise", "--db", "DB", none=2),
    "check --against": line("check", "--db", "good.db", "--against", "DB", none=2),
    "export": line("export", "--db", "DB", "--out", "made", none=1),
    "import": line("import", "configs", "--db", "DB", makes=True, writes=True),
    "merge": line("merge", "DB", "--into", "good.db"),
    "merge --into": line("merge", "good.db", "--into", "DB", makes=True, writes=True),
    "db stats": line("db", "stats", "--db", "DB"),
    "db gc": line("db", "gc", "--db", "DB"),
    "db gc --dry-run": line("db", "gc", "--dry-run", "--db", "DB"),
    "db check": line("db", "check", "--db", "DB"),
    "db threshold": line("db", "threshold", "transpose", *SIZES, "--db", "DB", none=1),
    "db threshold, set": line(
        "db", "threshold", "transpose", *SIZES, "--db", "DB", "--max-slowdown", "5%", writes=True, none=1
    ),
    "pytest": Command(plugin, none=2),
    "Database.best": called(lambda db: autosched.Database(db).best(PROBLEM, "h200")),
    "Database.look_up": called(lambda db: autosched.Database(db).look_up(PROBLEM, "h200")),
    "use": called(autosched.use),
    "a function": called(function),
}


# -- states


@dataclass(frozen=True)
class State:
    """A state of a database, and the message that commands print about it.

    ``prepare`` makes the database "x.db", or returns the path of another database. ``message`` is part of the expected
    line. ``makers`` is True if commands that create databases also print this line.
    """

    prepare: Callable[[], str | None]
    message: str
    makers: bool = True


def fill(content: bytes) -> None:
    Path("x.db").write_bytes(content)


def cut() -> None:
    content = stored(Path("x.db")).read_bytes()
    fill(content[: len(content) // 2])


def torn() -> None:
    content = stored(Path("x.db")).read_bytes()
    fill(content[:4096] + b"\xa5" * (len(content) - 4096))


def of_another_project() -> None:
    with closing(sqlite3.connect("x.db")) as raw, raw:
        raw.executescript("CREATE TABLE trials (id INTEGER PRIMARY KEY); CREATE TABLE users (name TEXT)")


def with_schema(version: object) -> Callable[[], None]:
    return lambda: changed(Path("x.db"), f"UPDATE meta SET value = '{version}' WHERE key = 'schema_version'")


def created_by(making: Callable[[Path], object]) -> Callable[[], None]:
    return lambda: (making(Path("x.db")), None)[1]


STATES = {
    "missing": State(lambda: None, "there is no database", makers=False),
    "missing folder": State(lambda: "none/x.db", "none"),
    "no bytes": State(lambda: fill(b""), "is empty and contains no trials", makers=False),
    "a folder": State(created_by(Path.mkdir), "is a folder"),
    "a pipe": State(created_by(lambda path: os.mkfifo(path)), "not a regular file"),
    "a dangling link": State(created_by(lambda path: path.symlink_to("none.db")), "there is no database", makers=False),
    "a text": State(lambda: fill(b"notes, and not few of them\n"), "is not an SQLite database"),
    "a compressed file": State(lambda: fill(b"\x1f\x8b\x08\0" * 99), "is not an SQLite database"),
    "cut off": State(cut, "is damaged"),
    "torn": State(torn, "is damaged"),
    "another project": State(of_another_project, "is not a database of autosched"),
    "newer": State(with_schema(SCHEMA_VERSION + 1), "newer"),
    "older": State(with_schema(SCHEMA_VERSION - 1), "older"),
    "a strange version": State(with_schema("x"), "x.db"),
    "a trigger": State(
        lambda: changed(Path("x.db"), "CREATE TRIGGER t AFTER INSERT ON trials BEGIN DELETE FROM trials; END"),
        "has objects that autosched never creates",
    ),
    "a view": State(
        lambda: changed(Path("x.db"), "CREATE VIEW v AS SELECT 1"), "has objects that autosched never creates"
    ),
    "no server": State(lambda: "postgresql+psycopg://a:secret@/x?host=/nonexistent", "cannot be"),
    "no dialect": State(lambda: "oracel://a:secret@b/x", "oracel"),
    "no URL": State(lambda: "://", "URL"),
    "an empty name": State(lambda: " ", "empty"),
    "memory": State(lambda: "sqlite://", "in memory", makers=False),
}


@pytest.fixture(scope="module")
def input_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the files that commands need in addition to a database."""
    folder = tmp_path_factory.mktemp("beside")
    (folder / "tests").mkdir()
    (folder / "suite.toml").write_text(SUITE)
    stored(folder / "good.db")
    assert main(["export", "--db", str(folder / "good.db"), "--out", str(folder / "configs")]) == 0
    return folder


@pytest.fixture
def here(tmp_path: Path, input_files: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(input_files, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTEST_ADDOPTS", PLUGINS)
    monkeypatch.setitem(sys.modules, "cupy", FakeCupy())
    monkeypatch.setattr(sqlite_file, "BUSY_SECONDS", 0.02)
    monkeypatch.setattr(sqlite_file, "NOTICE_SECONDS", 0.01)
    return tmp_path


def seen(folder: Path) -> dict[str, object]:
    """Return the names and contents of a folder's files."""
    return {
        str(path): path.read_bytes() if path.is_file() else path.lstat().st_mode
        for path in sorted(folder.rglob("*"))
        if "__pycache__" not in path.parts
    }


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    """Return stderr, which must be a single line."""
    out, err = capsys.readouterr()
    lines = [text for text in err.splitlines() if text.strip()]
    assert len(lines) == 1 and "Traceback" not in out + err, (out, err)
    assert lines[0].startswith(("autosched: ", "ERROR: ")) and len(lines[0]) < 800, lines[0]
    return lines[0]


def a_quarter(commands: list[str]) -> list[object]:
    return spread(commands, -(-len(COMMANDS) // 4))


@pytest.mark.parametrize("command", COMMANDS)
def test_unusable_databases_are_rejected_unchanged(
    here: Path, capsys: pytest.CaptureFixture[str], command: str, nightly: bool
) -> None:
    """By default only a tenth of all pairs of a command and a state is run."""
    case, position = COMMANDS[command], list(COMMANDS).index(command)
    for number, (state, description) in enumerate(STATES.items()):
        if (case.makes and not description.makers) or ((number + position) % 10 and not nightly):
            continue
        where = description.prepare() or "x.db"
        capsys.readouterr()
        before = seen(here)
        assert case.ask(where) == 2, state
        message = one_line(capsys)
        assert description.message in message and "secret" not in message, (state, message)
        assert seen(here) == before, state
        if (here / "x.db").is_dir():
            (here / "x.db").rmdir()
        (here / "x.db").unlink(missing_ok=True)


@pytest.mark.parametrize("command", a_quarter(list(COMMANDS)))
def test_held_by_another_process(here: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    path = stored(here / "x.db")
    before = seen(here)
    with closing(sqlite3.connect(path, isolation_level=None)) as holder:
        holder.execute("BEGIN EXCLUSIVE")
        capsys.readouterr()
        status = COMMANDS[command].ask("x.db")
        stderr = capsys.readouterr().err.strip().splitlines()
    assert status == 2 and "another process has locked it, try again" in stderr[-1]
    assert all("waiting" in text for text in stderr[:-1]), stderr
    assert seen(here) == before


@pytest.mark.parametrize("command", [name for name, its in COMMANDS.items() if its.none is not None])
@pytest.mark.parametrize("makes", [False, True])
def test_without_trials(here: Path, capsys: pytest.CaptureFixture[str], command: str, makes: bool) -> None:
    """Commands that create databases are also run without a database."""
    case = COMMANDS[command]
    if makes and not case.makes:
        pytest.skip("the command creates no database")
    if not makes:
        Store.open("x.db").close()
    capsys.readouterr()
    assert case.ask("x.db") == case.none
    out, err = capsys.readouterr()
    assert "Traceback" not in out + err and len(err.strip().splitlines()) <= 1 and (err or out), (out, err)


@pytest.fixture
def read_only(here: Path) -> Iterator[Path]:
    """Yield the current folder, which has "x.db" and "old.db". Only the folder's subfolder "made" is writable."""
    stored(here / "x.db")
    stored(here / "old.db")
    changed(here / "old.db", f"UPDATE meta SET value = '{SCHEMA_VERSION - 1}' WHERE key = 'schema_version'")
    (here / "made").mkdir()
    closed = [here, *(path for path in here.rglob("*") if path.name != "made")]
    if os.geteuid() == 0:  # file modes do not stop root from writing
        if shutil.which("chattr") is None or subprocess.run(["chattr", "+i", *closed], capture_output=True).returncode:
            pytest.skip("root may write everything here")
        yield here
        subprocess.run(["chattr", "-i", *closed], check=True)
        return
    modes = {path: path.stat().st_mode for path in closed}
    for path, mode in modes.items():
        path.chmod(mode & 0o555)
    yield here
    for path, mode in modes.items():
        path.chmod(mode)


# Commands that need a GPU or measured times.
NEEDS_MORE = ("train", "verify", "check", "check --learn-noise", "check --against", "a function")


def test_read_only(read_only: Path, capsys: pytest.CaptureFixture[str], nightly: bool) -> None:
    before = seen(read_only)
    for number, (name, command) in enumerate(COMMANDS.items()):
        if number % 3 and not nightly:
            continue
        capsys.readouterr()
        if name not in NEEDS_MORE:
            status = command.ask("x.db")
            out, err = capsys.readouterr()
            refused = command.writes or name == "merge"  # `merge` writes into another database
            assert (status == 2 and "only" in err) is refused, (name, err)
            assert len(err.strip().splitlines()) <= 1 and "Traceback" not in out + err, (name, err)
        if name != "merge":
            assert command.ask("old.db") == 2, name
            message = one_line(capsys)
            # `train` first checks that it can write its model.
            assert any(word in message for word in ("old.db", "GPU", "model.json")), (name, message)
    assert {k: v for k, v in seen(read_only).items() if "/made/" not in k} == before
