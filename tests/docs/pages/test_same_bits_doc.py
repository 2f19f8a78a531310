"""The commands of docs/how-to/same-bits.md run, and give the stated output."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from needs import needs_compiler, needs_nvrtc

from autosched.cli import main

pytestmark = [needs_nvrtc, needs_compiler]

PAGE = (Path(__file__).parents[3] / "docs" / "how-to" / "same-bits.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
COMMANDS = [shlex.split(line)[1:] for kind, text in BLOCKS if kind == "sh" for line in text.splitlines()]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for kind, text in BLOCKS:
        named = re.match(r"(?://|#) file: (\S+)\n", text)
        if kind in ("cuda", "python") and named:
            (tmp_path / named[1]).write_text(text)
    return tmp_path


def test_tuning(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    of_tuning = [words for words in COMMANDS if words[0] in ("tune", "best")]
    assert len(of_tuning) == 4
    for words in of_tuning:
        assert main(words) == 0, words
    assert "verified to be batch-invariant" in " ".join(capsys.readouterr().out.split())


def test_files(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    of_files = [words for words in COMMANDS if words[0] == "verify"]
    assert len(of_files) == 2
    for words in of_files:
        if ".py" in words[1]:
            pytest.importorskip("triton")
        assert main(words) == 1
        stdout = capsys.readouterr().out
        named = [line for kind, text in BLOCKS if kind == "text" for line in text.splitlines() if line in stdout]
        assert any(re.match(r"rows\.\w+:\d+: ", line) for line in named), stdout
