"""Commands reject hostile input at once, with one line and exit status 2.

Inputs are endless files, deeply nested documents, and packages that exit.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import resource
import sqlite3
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from functools import cache
from pathlib import Path

import forked_python
import pytest

from autosched.cli import main
from measurements.files.bounded import read_bounded
from tests.support.snippets.kernel_file import FILE, SOURCE

SMALL = ("-m", "32", "-n", "32", "-k", "32", "--device", "h200")
SCALE = ("transpose", "--rows", "64", "--columns", "64")
Run = Callable[..., tuple[int, str, str]]

KERNEL = FILE + 'fill = { file = "x.npy" }\n'


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    monkeypatch.chdir(tmp_path)
    Path("zero").symlink_to("/dev/zero")

    def invoke(*arguments: str) -> tuple[int, str, str]:
        # Limit the address space to 1 GiB more than is reserved now. The present reservation is not counted, because
        # libraries and thread stacks reserve many addresses that they do not use.
        before = resource.getrlimit(resource.RLIMIT_AS)
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 30), before[1]))
        try:
            status = main(arguments)
        finally:
            resource.setrlimit(resource.RLIMIT_AS, before)
        out, err = capsys.readouterr()
        return status, out, err

    return invoke


@pytest.mark.parametrize("file", ["/dev/zero", "zero"])
@pytest.mark.parametrize(
    "command",
    [
        ("space", "--kernel", "FILE", "--device", "a100"),
        ("tune", "--suite", "FILE", "--db", "b.db", "--device", "h200", "--trials", "1"),
        ("tune", "--from", "FILE", "--db", "b.db", "--device", "h200", "--trials", "1"),
        ("tune", "matmul", *SMALL, "--trials", "1", "--db", "b.db", "--backend", "estimate", "--model", "FILE"),
        ("verify", "FILE"),
        ("judge", "FILE", "--task", "FILE"),
        ("run", "FILE"),
        ("train", "--recording", "FILE", "--out", "m"),
        ("train", "--update", "FILE", "--out", "m"),
        ("replay", "FILE"),
        ("best", "matmul", "--db", "FILE"),
    ],
)
def test_a_file_without_end_is_rejected(run: Run, command: tuple[str, ...], file: str) -> None:
    status, out, err = run(*(file if part == "FILE" else part for part in command))
    assert (status, out, err.count("\n")) == (2, "", 1), err
    assert "memory" not in err and not Path("b.db").exists()


@pytest.mark.parametrize(
    "command",
    [
        ("space", "--kernel", "pipe", "--device", "a100"),
        ("tune", "--suite", "pipe", "--db", "b.db", "--device", "h200", "--trials", "1"),
        ("tune", "--from", "pipe", "--db", "b.db", "--device", "h200", "--trials", "1"),
        ("tune", "matmul", *SMALL, "--trials", "1", "--db", "b.db", "--backend", "estimate", "--model", "pipe"),
        ("tune", "matmul", *SMALL, "--trials", "1", "--db", "b.db", "--backend", "replay", "--recording", "pipe"),
        ("verify", "matmul", *SMALL, "--schedule", "pipe"),
        ("verify", "pipe"),
        ("judge", "pipe", "--task", "pipe"),
        ("run", "pipe"),
        ("train", "--recording", "pipe", "--out", "m"),
        ("train", "--update", "pipe", "--out", "m"),
        ("replay", "pipe"),
    ],
)
def test_a_pipe_without_a_writer_is_rejected(
    run: Run, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("measurements.files.bounded.WAIT_SECONDS", 0.1)
    os.mkfifo("pipe")
    status, out, err = run(*command)
    assert (status, out, err.count("\n")) == (2, "", 1), err
    assert not Path("b.db").exists()


def test_a_pipe_with_a_writer_is_read() -> None:
    reading, writing = os.pipe()
    content = b"x" * 100_000  # more bytes than fit into the buffer of a pipe
    writer = threading.Thread(target=lambda: (time.sleep(0.05), os.write(writing, content), os.close(writing)))
    writer.start()
    actual = read_bounded(f"/dev/fd/{reading}", 1 << 20)
    writer.join()
    os.close(reading)
    assert actual == content


@cache
def bomb(line: bytes, times: int) -> bytes:
    return gzip.compress(line * times)


@pytest.mark.parametrize("command", [("replay",), ("train", "--out", "m", "--recording")])
@pytest.mark.parametrize(("line", "times"), [(b"\n", 10**8), (b'{"cache": 1}\n', 10**7)])
def test_recordings_that_unpack_without_bound(run: Run, command: tuple[str, ...], line: bytes, times: int) -> None:
    Path("r.gz").write_bytes(bomb(line, times))
    status, out, err = run(*command, "r.gz")
    assert (status, out, err.count("\n")) == (2, "", 1), err
    assert "memory" not in err


def test_a_recording_with_invalid_lines_is_rejected(run: Run) -> None:
    header = json.dumps({"recording": 1, "trials": 10**9, "spaces": {}})
    Path("r.gz").write_bytes(gzip.compress((header + "\n").encode() + b"1\n" * 10**6))
    status, _, err = run("train", "--recording", "r.gz", "--out", "m")
    assert status == 2 and err.count("\n") == 1


def test_train_recognises_a_kernel_tuner_cache(run: Run) -> None:
    cache = {"kernel_name": "k", "tune_params_keys": ["b"], "cache": {"1": {"b": 1, "time": 1.0}}}
    for name, content in (("r.json", json.dumps(cache).encode()), ("r.gz", gzip.compress(json.dumps(cache).encode()))):
        Path(name).write_bytes(content)
        status, _, err = run("train", "--recording", name, "--out", "m")
        assert status == 2 and "is a Kernel Tuner cache" in err and "autosched replay" in err


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[kernel]", "." .join("a" * 50_000) + " = 1\n[kernel]", "a key has more than 20 parts"),
        ("[kernel]", "[" + ".".join("a" * 50_000) + "]\n[kernel]", "a key has more than 20 parts"),
        ("n = 64", "n = " + "9" * 5000, "a number has too many digits"),
        ("n = 64", "n = 64\n" + "".join(f"s{i} = 1\n" for i in range(1001)), "sizes: there are more than 1000"),
        ("[launch]", "[[problem]]\n" * 1001 + "[launch]", "problem: there are more than 1000"),
        ("[launch]", "#" * (1 << 20) + "\n[launch]", "more than 1 MiB"),
        ("n = 64", "n = 64\n_ = 1", "a size cannot be named '_'"),
        ("n = 64", "n = 64\nself = 1", "a size cannot be named 'self'"),
        ("n = 64", "n = 64\noperator = 1", "a size cannot be named 'operator'"),
        ("n = 64", "n = 64\nsize = 1", "--size is an option of 'autosched space'"),
        ("n = 64", "n = 64\ndevice = 1", "--device is an option of 'autosched space'"),
        ('name = "x"', 'name = "b"', "the name 'b' is already used"),
        ("[kernel]", '[kernel]\nsummary = "\\u001b[2J"', "kernel.summary: .* has a character that cannot be printed"),
        ("[kernel]", '[kernel]\nsummary = "a\\u202eb"', "kernel.summary: .* has a character that cannot be printed"),
        ("[launch]", '[[rule]]\nexpr = "b > 1"\nreason = "\\u009b2J"\n[launch]', "rule.*reason: .* cannot be printed"),
        ("[launch]", '[metrics]\n"\\u001b[2J" = "1 / time"\n[launch]', "metrics: the key .* cannot be printed"),
        ("x.npy", "\\u001b[2J.npy", "argument.2..fill.file: .* has a character that cannot be printed"),
        ('shape = "n"', "shape = [" + '"n", ' * 900 + "]", "at most 16 dimensions, not 900"),
        ("[launch]", '[reference]\npython = "pipe:f"\n[launch]', "pipe is not a regular file"),
        ("[launch]", '[reference]\ntime_limit = -1\n[launch]', "a number of seconds, more than 0"),
        ("[launch]", '[reference]\ntime_limit = inf\n[launch]', "a number of seconds, more than 0"),
        ("[launch]", '[reference]\nmemory_limit = 1\n[launch]', "memory_limit does not apply"),
        ('source = "k.cu"', 'source = "k.cu"\nname = "' + "a" * 101 + '"', "invalid name"),
        ("[launch]", '[[rule]]\nexpr = "b > 1"\nname = "b > 2"\n[[rule]]\nexpr = "b > 2"\n[launch]', "another rule"),
        ("[launch]", '[[rule]]\nexpr = "b > 1"\nname = "launch.block"\n[launch]', "a rule of the launch is named"),
        ("x.npy", "../x.npy", "outside the folder"),
        ("x.npy", "/etc/passwd", "outside the folder"),
        ("x.npy", "huge.npy", "more than 2 GiB"),
        ("x.npy", "pickled.npy", "not a .npy file"),
        ("x.npy", "claims.npy", "not a .npy file"),
        ("x.npy", "archive.npz", "not a .npy file"),
        ("x.npy", "pipe", "is not a regular file"),
        ("x.npy", "five.npy", r"has the shape \(5,\), but x is \(64,\)"),
        ("k.cu", "outside.cu", "outside the folder of the source"),
        ("k.cu", "piped.cu", "is not a regular file"),
        ('[launch]', '[parameters.p]\nvalues = "range(1, 9000)"\n[parameters.q]\nvalues = "range(1, 9000)"\n'
         '[[rule]]\nexpr = "p * q * b % 7919 == 1"\n[launch]', "would take minutes"),
    ],
)  # fmt: skip
def test_hostile_kernel_files(run: Run, old: str, new: str, message: str) -> None:
    import numpy as np

    np.save("x.npy", np.zeros(64, np.float32))
    np.save("five.npy", np.zeros(5, np.float32))
    np.save("pickled.npy", np.array([{}] * 64, object), allow_pickle=True)
    np.savez("archive.npz", np.zeros(64, np.float32))
    complete = Path("x.npy").read_bytes()
    Path("claims.npy").write_bytes(complete.replace(b"(64,)", b"(99,)"))
    with Path("huge.npy").open("wb") as file:
        file.write(complete)
        file.truncate(1 << 36)
    os.mkfifo("pipe")
    Path("k.cu").write_text(SOURCE)
    Path("outside.cu").write_text('#include "/etc/passwd"\n' + SOURCE)
    Path("piped.cu").write_text('#include "pipe"\n' + SOURCE)
    assert old in KERNEL
    Path("k.toml").write_text(KERNEL.replace(old, new, 1))
    status, out, err = run("space", "--kernel", "k.toml", "--device", "a100")
    assert (status, out, err.count("\n")) == (2, "", 1), err
    assert re.search(message, err), err


@pytest.mark.parametrize("command", [("space",), ("verify",), ("tune", "--trials", "1", "--db", "b.db")])
def test_a_long_chain_of_references_is_rejected(run: Run, command: tuple[str, ...]) -> None:
    Path("k.cu").write_text(SOURCE)
    for number in range(1500):
        name, following = f'[kernel]\nname = "k{number}"', f'[reference]\nkernel = "k{number + 1}.toml"\n'
        Path(f"k{number}.toml").write_text(FILE.replace("[kernel]", name) + following)
    Path("k1500.toml").write_text(FILE)
    status, _, err = run(*command, "--kernel", "k0.toml", "--device", "a100")
    assert status == 2 and err.count("\n") == 1 and "20" in err


def test_a_reference_that_cannot_be_launched_is_named(run: Run) -> None:
    Path("k.cu").write_text(SOURCE)
    Path("k.toml").write_text(FILE.replace('block = "b"', 'block = "b - 32"'))
    status, _, err = run("verify", "--kernel", "k.toml", "--device", "a100")
    assert status == 2 and err.count("\n") == 1 and "{'b': 32}" in err


def test_a_scalar_that_its_type_cannot_hold_is_named(run: Run) -> None:
    import numpy as np

    np.save("x.npy", np.zeros(64, np.float32))
    Path("k.cu").write_text(SOURCE.replace("x) {", "x, int m) {"))
    scalar = '[[argument]]\nname = "m"\nkind = "scalar"\nvalue = "n * 2 ** 40"\n'
    Path("k.toml").write_text(KERNEL + scalar)
    status, _, err = run("verify", "--kernel", "k.toml", "--device", "a100")
    assert status == 2 and err.count("\n") == 1 and "m is 70368744177664, which i32 cannot hold" in err


def test_tune_and_best_reject_a_winner_of_a_missing_template(run: Run) -> None:
    tune = ("tune", *SCALE, "--device", "h200", "--backend", "estimate", "--trials", "2", "--db", "b.db")
    assert run(*tune, "--no-verify")[0] == 0
    with closing(sqlite3.connect("b.db")) as raw:
        raw.execute("UPDATE trials SET template = 'ghost' WHERE id = 1")
        raw.commit()
    status, _, err = run(*tune[:-3], "4", "--db", "b.db")
    assert status == 2 and "trial 1 of" in err and "template 'ghost', which is not installed" in err


@pytest.mark.parametrize(
    "command",
    [
        ("URL",),
        ("best", "URL"),
        ("best", "matmul", "URL"),
        ("space", "matmul", *SMALL[:-1], "URL"),
        ("tune", "matmul", *SMALL, "--trials", "URL", "--db", "b.db"),
        ("train", "--out", "m", "--recording", "URL"),
        ("space", "--kernel", "URL"),
    ],
)
def test_no_usage_error_repeats_a_password(run: Run, command: tuple[str, ...]) -> None:
    status, out, err = run(*("postgresql://me:hunter2@host/db" if part == "URL" else part for part in command))
    assert status == 2 and "hunter2" not in out + err and err.count("\n") == 1


def test_nested_verifications_and_other_operators_are_found(run: Run) -> None:
    tune = ("tune", *SCALE, "--device", "h200", "--backend", "estimate", "--trials", "1", "--db", "b.db", "--no-verify")
    assert run(*tune)[0] == 0
    with closing(sqlite3.connect("b.db")) as raw:
        raw.execute("UPDATE trials SET verification = ?", ('{"a":' * 600 + "1" + "}" * 600,))
        raw.commit()
    status, out, err = run("best", *SCALE, "--db", "b.db", "--json")
    assert (status, out) == (2, "") and "verification is" in err and err.count("\n") == 1
    with closing(sqlite3.connect("b.db")) as raw:
        raw.execute("UPDATE trials SET verification = NULL, operator = 'matmul'")
        raw.commit()
    status, out, _ = run("db", "check", "--db", "b.db")
    assert status == 1 and "'matmul'" in out


def test_a_plugin_that_exits_does_not_stop_the_command(tmp_path: Path) -> None:
    (tmp_path / "evil").mkdir()
    (tmp_path / "evil" / "__init__.py").write_text("raise SystemExit('\\x1b[2J gone')\n")
    metadata = tmp_path / "evil-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text("[autosched.templates]\nevil = evil:templates\n")
    completed = forked_python.run(
        [
            sys.executable,
            "-m",
            "autosched",
            "space",
            "transpose",
            "--rows",
            "64",
            "--columns",
            "64",
            "--device",
            "h200",
        ],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(Path(__file__).parents[3])])},
    )
    assert completed.returncode == 0 and "legal schedules" in completed.stdout
    assert "evil" in completed.stderr and "\x1b" not in completed.stderr
