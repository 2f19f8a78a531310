"""The program of docs/tutorial/tile-programs.md is written to a file, and the page's commands run."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from autosched.cli import main

PAGE = Path(__file__).parents[3] / "docs" / "tutorial" / "tile-programs.md"


def test_the_first_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    text = PAGE.read_text("utf-8")
    ((name, shown),) = re.findall(r"^`([^`\n]+)`:\n```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    (commands,) = re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text(shown)
    for line in commands.splitlines():
        words = shlex.split(line)
        assert words[0] == "autosched"
        assert main(words[1:]) == 0, (line, capsys.readouterr().err)
    assert "ok" in capsys.readouterr().out
