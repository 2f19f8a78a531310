"""The command line, called in an empty folder."""

from collections.abc import Callable
from pathlib import Path

import pytest

from autosched.cli import main

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return the command line in an empty folder: (status, stdout, stderr)."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)

    def command(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        status = main(arguments)
        out = capsys.readouterr()
        return status, out.out, out.err

    return command
