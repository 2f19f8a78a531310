"""The program of docs/how-to/keep-autotune-results.md is run twice, the second time with the command on the page."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import forked_python
import pytest
from needs import needs_compiler

pytest.importorskip("torch", reason="torch is not installed: pip install 'autosched[torch]'")
pytest.importorskip("triton", reason="Triton is not installed: pip install 'autosched[triton]'")
pytestmark = needs_compiler

PAGE = (Path(__file__).parents[3] / "docs" / "how-to" / "keep-autotune-results.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_the_program_prints_the_counts_of_the_page(tmp_path: Path) -> None:
    _, program = blocks("python")
    (tmp_path / "program.py").write_text(program)
    for printed in re.findall(r"`(\d answered, \d tuned)`", PAGE):
        command = [sys.executable, "program.py"]
        done = forked_python.run(command, torch=True, cwd=tmp_path, capture_output=True, text=True, check=True)
        assert done.stdout == f"{printed}\n"


def test_the_command_starts_the_program(tmp_path: Path) -> None:
    program = blocks("python")[1].replace(', autosched.triton.persist("best.db") as persistence', "")
    (tmp_path / "serve.py").write_text(program.rpartition("print(")[0])
    (command,) = blocks("sh")
    words = [sys.executable if word == "python" else word for word in shlex.split(command)[1:]]
    started = [sys.executable, "-m", "autosched", *words]
    done = subprocess.run(started, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "0 tunings answered, 1 new" in done.stderr
