"""Fixtures that run the command line in an empty folder."""

from collections.abc import Callable
from pathlib import Path

import pytest

from autosched.cli import main

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command_line(capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a function that runs the command line and returns (status, stdout, stderr)."""

    def command(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        status = main(arguments)
        out = capsys.readouterr()
        return status, out.out, out.err

    return command


@pytest.fixture
def run(command_line: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs the command line in an empty folder and returns (status, stdout, stderr)."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return command_line
