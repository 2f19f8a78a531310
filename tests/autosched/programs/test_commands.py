"""Commands on a database that holds tile programs, with and without ``--program``."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from autosched.cli import main
from search_spaces import catalogue

PROGRAMS = Path(__file__).parents[3] / "examples" / "programs"
GEMM, MATMUL = str(PROGRAMS / "gemm_relu.py"), str(PROGRAMS / "matmul.py")
QUICK = ("--no-verify", "--verification-seconds", "0", "--device", "a100")
SIZES = ("--size", "m=96", "--size", "n=64", "--size", "k=64")


RunCommand = Callable[..., str]


@pytest.fixture(scope="module")
def command() -> RunCommand:
    """Return a function that runs a command, checks its exit status, and returns its output on one line.

    No tile programs are registered when the command runs.
    """

    def run(*arguments: str, status: int = 0) -> str:
        printed = io.StringIO()
        with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed):
            patch.setattr(catalogue, "_catalogue", cache(catalogue._Catalogue))
            with contextlib.redirect_stderr(printed):
                ended = main(arguments)
        assert ended == status, printed.getvalue()
        return " ".join(printed.getvalue().split())

    return run


@pytest.fixture(scope="module")
def database(command: RunCommand, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("programs") / "best.db")
    command("tune", "--program", GEMM, *SIZES, *QUICK, "--trials", "10", "--db", path)
    return path


def test_stored_programs_are_checked(command: RunCommand, database: str) -> None:
    unknown = command("check", "--static", "--db", database, status=2)
    assert "cannot compare" in unknown and "(--program FILE)" in unknown
    assert "same" in command("check", "--static", "--db", database, "--program", GEMM)
    assert "not checked: 1 best schedule of gemm_relu" in command("db", "check", "--db", database)
    assert command("db", "check", "--db", database, "--program", GEMM) == "nothing is wrong"
    assert "has no program other" in command(
        "check", "--static", "--db", database, "--program", f"{GEMM}:other", status=2
    )


def test_stored_programs_are_exported(command: RunCommand, database: str, tmp_path: Path) -> None:
    folder = tmp_path / "kernels"
    alone = command("export", "--cubin", str(folder), "--db", database, status=1)
    assert "gemm_relu is unknown: pass its kernel file with --kernel, or its program with --program" in alone
    command("export", "--cubin", str(folder), "--ptx", "--db", database, "--program", GEMM)
    (kernel,) = json.loads((folder / "manifest.json").read_text("utf-8"))["kernels"]
    assert "gemm_relu" in str(kernel["problem"])
    assert list((folder / "cubins").glob("*.cubin")) and list((folder / "ptx").glob("*.ptx"))
    assert "json" in command("export", "--out", str(tmp_path), "--db", database, "--program", GEMM)


def test_stored_programs_are_learned_from_and_reported(command: RunCommand, database: str, tmp_path: Path) -> None:
    model, page = str(tmp_path / "model.json"), tmp_path / "report.html"
    assert "gemm_relu" in command("train", "--estimated", "--db", database, "--program", GEMM, "--out", model)
    command("report", "--db", database, "--program", GEMM, "--out", str(page))
    assert "gemm_relu" in page.read_text("utf-8")


def test_a_winning_program_is_tuned_with_the_templates(command: RunCommand, tmp_path: Path) -> None:
    path = str(tmp_path / "union.db")
    command("tune", "--program", MATMUL, "--template", "matmul_program", *SIZES, *QUICK, "--trials", "2", "--db", path)
    unknown = command("check", "--static", "--db", path, status=2)
    assert "'matmul_program' of its best schedule is unknown: pass its tile program" in unknown
    assert "same" in command("check", "--static", "--db", path, "--program", MATMUL)
    assert "matmul_program" in command("best", "--program", MATMUL, *SIZES, "--device", "a100", "--db", path)


def test_warnings_about_a_listing_are_shown_by_each_command(command: RunCommand, tmp_path: Path) -> None:
    listing = str(PROGRAMS.parent / "seeds" / "strip_transpose.mlir")
    reading, where = "strip_transpose.mlir:3: %turned", ("--program", listing, "--device", "a100")
    assert reading in command("verify", *where, "--sample", "1")
    assert reading in command("tune", *where, "--trials", "1", "--no-verify", "--db", str(tmp_path / "best.db"))
    document = json.loads(command("verify", *where, "--sample", "1", "--json"))
    assert any(note.startswith(reading) for note in document["notes"])
