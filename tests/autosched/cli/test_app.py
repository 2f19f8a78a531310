"""Behaviour of the command line: help, exit statuses, one line per error, and one JSON document."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autosched.cli import app
from autosched.cli.command_functions import FUNCTIONS, summary
from autosched.cli.options import spellings
from autosched.reporting.exit_status import ExitStatus
from measurements.emulator import HostFailure
from search_spaces import catalogue
from search_spaces.catalogue import operator, operators
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.operator import Operator, Option
from search_spaces.spaces.counting.limits import TooTightlyTied
from search_spaces.spaces.space import EmptySpace

Run = Callable[..., tuple[int, str, str]]

SMALL = ("-m", "64", "-n", "64", "-k", "64")
PROBLEM = Matmul(64, 64, 64)
COMMANDS = ("space", "tune", "best", "verify")


def process(*arguments: str, cwd: Path, **more: Any) -> "subprocess.CompletedProcess[str]":
    """Return a function that runs the command line in a separate process."""
    return subprocess.run(
        [sys.executable, "-m", "autosched", *arguments], cwd=cwd, capture_output=True, text=True, timeout=120, **more
    )


# -- help and errors ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", COMMANDS)
def test_operator_options_do_not_clash_with_command_options(run: Run, command: str) -> None:
    for each in operators():
        status, out, err = run(command, each.name, "--help")
        assert (status, err) == (0, "") and "Usage: autosched" in out, each.name


@pytest.mark.parametrize("arguments", [(), ("--help",), ("-h",), *((c, "-h") for c in COMMANDS), ("doctor", "-h")])
def test_help_exits_with_0(run: Run, arguments: tuple[str, ...]) -> None:
    status, out, err = run(*arguments)
    assert (status, err) == (0, "")
    assert "Usage: autosched" in out


def test_help_lists_the_summaries_of_all_commands(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Summaries that ``--help`` reads from the commands' source must equal the summaries of imported commands."""
    monkeypatch.setattr(app, "call_of", lambda name: pytest.fail(f"{name} was imported"))
    read = run("--help")
    monkeypatch.undo()
    monkeypatch.setattr(app, "outline", app.build)
    assert run("--help") == read
    assert all(FUNCTIONS[name] and summary(name) for name in FUNCTIONS if name not in spellings.HIDDEN)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_lists_operators_without_importing_the_command(
    run: Run, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """Help that is printed without importing any command must equal the help of the complete application."""
    lines = ((command, "--help"), (command, "gemm"), (command,), (command, "--rows", "3"))
    monkeypatch.setattr(app, "call_of", lambda name: pytest.fail(f"{name} was imported"))
    outlined = [run(*line) for line in lines if line != ("best",)]  # `best` without a problem prints the whole database
    monkeypatch.undo()
    monkeypatch.setattr(app, "outline", app.build)
    assert [run(*line) for line in lines if line != ("best",)] == outlined
    assert all(f"  {each.name}  " in outlined[0][1] for each in operators())


def test_completion_sees_the_options_of_commands(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "outline", lambda _=None: pytest.fail("the outline has no options"))
    monkeypatch.setenv("_AUTOSCHED_COMPLETE", "complete_zsh")
    monkeypatch.setenv("_TYPER_COMPLETE_ARGS", "autosched devices --")
    assert "--json" in run()[1]


def test_help_explains_exit_statuses_and_shows_an_example(run: Run) -> None:
    out = " ".join(run("--help")[1].split())
    assert "Example: autosched tune matmul" in out
    assert all(f"{status.value} {status.meaning}" in out for status in ExitStatus)
    for command in COMMANDS:
        _, _, example = run(command, "--help")[1].partition("Example: autosched ")
        assert example.startswith(command)


@pytest.mark.parametrize("name", [o.name for o in operators()])
@pytest.mark.parametrize("command", COMMANDS)
def test_every_operator_has_its_options_in_every_command(run: Run, command: str, name: str) -> None:
    status, out, _ = run(command, name, "--help")
    assert status == 0
    assert out.splitlines()[0] == f"Usage: autosched {command} {name} [PROBLEM] [OPTIONS]"
    for option in operator(name).options:
        for flag in option.flags:
            assert flag in out.replace(",", " ").split(), flag
    shown = [line.split()[0] for line in out.splitlines() if line.startswith("  -")]
    assert "--json" in shown and len(shown) == len(set(shown)), (
        "an option of the operator has the same name as an option of the command"
    )


def test_the_version_is_printed(run: Run) -> None:
    status, out, _ = run("--version")
    assert status == 0
    assert out.startswith("autosched ")


BAD = {
    "a share that is none": (
        ("check", "--db", "b.db", "--static", "--max-slowdown", "inf"),
        'invalid share "inf": write 3% or 0.03',
    ),
    "unknown command": (("frobnicate",), "use one of space, tune, best, "),
    "a command almost": (("tun",), "did you mean tune?"),
    "no command but an option": (("--json",), "--json"),
    "no operator": (("tune",), "matmul"),
    "unknown operator": (("tune", "matmull"), "unknown operator 'matmull', did you mean matmul?"),
    "an operator of a kernel file": (("best", "of_a_file"), ", or give --kernel FILE"),
    "options before the operator": (("tune", "--trials", "3", "matmul"), "options go after the operator, as in"),
    "options before the file": (("verify", "--grid", "3", "k.cu"), "options go after the operator or the file"),
    "no real number": (
        ("space", "rmsnorm", "--rows", "4", "--columns", "4", "--eps", "small"),
        'invalid value "small"',
    ),
    "missing size": (("verify", "matmul", "-m", "3"), "-n and -k: see 'autosched verify matmul --help'"),
    "a share without its sign": (("check", "--db", "x", "--max-slowdown", "3"), "3 would be 300%: write 3% or 0.03"),
    "no size": (("space", "matmul", "-m"), "-m"),
    "a size with two dashes": (("space", "matmul", "--m", "64"), "--m, did you mean -m?"),
    "an option almost": (("space", "matmul", "--devic", "h100"), "--devic, did you mean --device?"),
    "an architecture": (("space", "matmul", "-m", "8", "-n", "8", "-k", "8", "--device", "hopper"), "h100"),
    "negative size": (("space", "matmul", "-m", "-4", "-n", "4", "-k", "4"), "-4"),
    "zero size": (("space", "matmul", "-m", "4", "-n", "0", "-k", "4"), "n must be"),
    "no number": (("space", "matmul", "-m", "4k", "-n", "4", "-k", "4"), 'invalid value "4k"'),
    "a fraction": (("space", "matmul", "-m", "4.5", "-n", "4", "-k", "4"), "4.5"),
    "zero batch": (("space", "matmul", *SMALL, "--batch", "0"), "batch"),
    "unknown type": (("space", "matmul", *SMALL, "--dtype", "f64"), "e4m3, e5m2, i8, mxf8, mxf4 or nvf4"),
    "unknown order": (("space", "matmul", *SMALL, "--order-a", "diagonal"), "row or col"),
    "unknown epilogue": (("space", "matmul", *SMALL, "--epilogue", "tanh"), "gelu"),
    "unsupported combination": (("space", "matmul", *SMALL, "--dtype", "f16", "--precision", "ieee"), "precision"),
    "unknown device": (("space", "matmul", *SMALL, "--device", "h2x"), "h200"),
    "unknown option": (("space", "matmul", *SMALL, "--frobnicate"), "--frobnicate"),
    "surplus argument": (("space", "matmul", *SMALL, "more"), "more"),
    "negative sample": (("space", "matmul", *SMALL, "--sample", "-1"), "--sample"),
    "negative seed": (("space", "matmul", *SMALL, "--sample", "1", "--seed", "-1"), "--seed"),
    "too many samples": (("space", "matmul", *SMALL, "--sample", "99999999999999"), "at most 100,000"),
    "far too many digits": (("space", "matmul", *SMALL, "--sample", "9" * 5000), "write a whole number"),
    "space, seed too large": (("space", "matmul", *SMALL, "--seed", str(2**40)), "--seed"),
    "schedule file missing": (("space", "matmul", *SMALL, "--explain", "none.json"), "none.json"),
    "no trials": (("tune", "matmul", *SMALL, "--db", "b.db", "--trials", "0"), "--trials"),
    "negative trials": (("tune", "matmul", *SMALL, "--db", "b.db", "--trials", "-5"), "--trials"),
    "too many trials": (("tune", "matmul", *SMALL, "--db", "b.db", "--trials", "9" * 400), "at most 1,000,000,000"),
    "too many workers": (("tune", "matmul", *SMALL, "--db", "b.db", "--workers", "99999"), "at most 1,024"),
    "unknown backend": (("tune", "matmul", *SMALL, "--db", "b.db", "--backend", "hip"), "estimate"),
    "unknown sampler": (("tune", "matmul", *SMALL, "--db", "b.db", "--sampler", "cma"), "evolution"),
    "seed too large": (("tune", "matmul", *SMALL, "--db", "b.db", "--seed", str(2**40)), "seed"),
    "no workers": (("tune", "matmul", *SMALL, "--db", "b.db", "--workers", "0"), "--workers"),
    "tune on an unknown device": (("tune", "matmul", *SMALL, "--db", "b.db", "--device", "h2x"), "h200"),
    "best in a missing file": (("best", "matmul", "--db", "none.db"), "none.db"),
    "best, half a problem": (("best", "matmul", "-m", "3", "--db", "none.db"), "-n and -k"),
    "verify nothing": (("verify", "matmul", *SMALL, "--sample", "0"), "--sample"),
    "verify too much": (("verify", "matmul", *SMALL, "--sample", "99999999999999"), "at most 100,000"),
    "verify, too many workers": (("verify", "matmul", *SMALL, "--workers", "99999"), "at most 1,024"),
    "verify no problem": (("verify", "matmul"), "-m, -n and -k"),
    "verify a missing file": (("verify", "matmul", "--db", "none.db"), "none.db"),
    "verify, no workers": (("verify", "matmul", *SMALL, "--workers", "-1"), "--workers"),
}


@pytest.mark.parametrize("json_wanted", [False, True], ids=["text", "json"])
@pytest.mark.parametrize("name", BAD)
def test_invalid_input_is_rejected_in_one_line_without_side_effects(run: Run, name: str, json_wanted: bool) -> None:
    arguments, message = BAD[name]
    status, out, err = run(*arguments, *(("--json",) if json_wanted and len(arguments) > 2 else ()))
    assert status == 2
    assert out == ""
    assert err.startswith("autosched: ") and err.count("\n") == 1 and err.endswith("\n")
    assert message in err and len(err) < 800
    assert os.listdir() == []


@pytest.mark.parametrize("command", ["tune", "best", "verify"])
def test_a_foreign_database_is_rejected_and_not_modified(run: Run, command: str) -> None:
    Path("notes.txt").write_text("not a database")
    status, out, err = run(command, "matmul", *SMALL, "--db", "notes.txt")
    assert (status, out) == (2, "")
    assert err.startswith("autosched: ") and err.count("\n") == 1
    assert Path("notes.txt").read_text() == "not a database"
    assert os.listdir() == ["notes.txt"]


def test_a_real_process_reports_invalid_input_in_one_line(tmp_path: Path) -> None:
    completed = process("tune", "matmul", *SMALL, "--trials", "0", "--db", "b.db", cwd=tmp_path)
    assert (completed.returncode, completed.stdout) == (2, "")
    assert completed.stderr == "autosched: --trials must be at least 1, got 0\n"
    assert list(tmp_path.iterdir()) == []


def test_a_bug_prints_a_traceback(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ValueError("a bug of ours")

    monkeypatch.setattr("search_spaces.spaces.space.Space.count", broken)
    with pytest.raises(ValueError, match="a bug of ours"):
        run("space", "matmul", *SMALL)


def test_ctrl_c_prints_one_line_and_exits_with_130(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("search_spaces.spaces.space.Space.count", stopped)
    assert run("space", "matmul", *SMALL) == (130, "", "autosched: stopped\n")


# -- a new operator ----------------------------------------------------------------------------------------------------


def test_a_new_operator_needs_no_change_here(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    problems: list[dict[str, Any]] = []

    def problem(**fields: Any) -> Matmul:
        problems.append(fields)
        return PROBLEM

    other = Operator(
        name="outer",
        summary="y = a @ x",
        options=(
            Option("height", ("-r", "--rows"), int, "rows of a"),
            Option("device", ("--layout",), str, "a name that a command has too", "row", ("row", "col")),
        ),
        make=problem,
        from_json=Matmul.from_json,
    )
    new_catalogue = catalogue._Catalogue()
    monkeypatch.setattr(catalogue, "_catalogue", lambda: new_catalogue)
    catalogue.register(other)
    status, out, _ = run("space", "outer", "--rows", "8", "--layout", "col", "--device", "a100", "--json")
    assert status == 0
    assert json.loads(out)["device"] == "a100"
    assert problems == [{"height": 8, "device": "col"}]
    assert run("space", "outer", "-r", "8")[0] == 0
    assert problems[1] == {"height": 8}, "omitted options have the problem's defaults"
    assert "y = a @ x" in run("best", "outer", "--help")[1]
    assert "y = a @ x" in run("tune", "--help")[1]
    assert "router_topk" in run("tune", "conv")[2] and "outer" in run("tune", "conv")[2]


@pytest.mark.parametrize(
    "error", [EmptySpace("no way", ()), TooTightlyTied("no way"), HostFailure("no way")], ids=lambda e: type(e).__name__
)
def test_user_and_machine_errors_are_reported_in_one_line(
    run: Run, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(name: str) -> None:
        raise error

    monkeypatch.setattr(app, "call_of", fail)
    assert run("devices") == (2, "", "autosched: no way\n")


@pytest.mark.parametrize("kind", [ValueError, RuntimeError])
def test_internal_errors_are_not_reported_as_user_errors(
    run: Run, monkeypatch: pytest.MonkeyPatch, kind: type[Exception]
) -> None:
    def fail(name: str) -> None:
        raise kind("no way")

    monkeypatch.setattr(app, "call_of", fail)
    with pytest.raises(kind, match="no way"):
        run("devices")
