"""The program on the page docs/tutorial/verify-a-triton-kernel.md prints the output that the page shows."""

# mypy: ignore-errors
from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest
from needs import needs_compiler

pytest.importorskip("torch", reason="torch is not installed: pip install 'autosched[torch]'")
pytest.importorskip("triton", reason="Triton is not installed: pip install 'autosched[triton]'")

from autosched.cli import main

pytestmark = [needs_compiler, pytest.mark.filterwarnings("ignore::UserWarning")]

PAGE = Path(__file__).parents[3] / "docs" / "tutorial" / "verify-a-triton-kernel.md"
PROGRAM, IN_PYTHON = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
FAULTS, REPORT = re.findall(r"```text\n(.*?)```", PAGE.read_text(), re.DOTALL)
MASK = "mask=i <= columns"


def is_printed(expected: str, printed: list[str]) -> bool:
    """Return True if a line of the page was printed. ``...`` in the line matches any text."""
    pattern = ".*".join(re.escape(part) for part in expected.split("..."))
    return any(re.search(pattern, line) for line in printed)


def test_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = Path("softmax.py")
    assert MASK in PROGRAM
    path.write_text(PROGRAM)
    assert main(["verify", "softmax.py", "--device", "h100"]) == 1
    printed = capsys.readouterr().out.splitlines()
    for line in FAULTS.splitlines():
        assert is_printed(line, printed), (line, printed)

    path.write_text(PROGRAM.replace(MASK, "mask=i < columns"))
    assert main(["verify", "softmax.py", "--device", "h100"]) == 0
    printed = capsys.readouterr().out.splitlines()
    for line in REPORT.splitlines():
        expected = re.sub(r"\d+ exact, .* not supported", "...", line)  # output differs between versions of Triton
        assert is_printed(expected, printed), (line, printed)

    monkeypatch.syspath_prepend(tmp_path)
    program = tmp_path / "in_python.py"
    program.write_text(IN_PYTHON)
    assert len(runpy.run_path(str(program))["session"].launches[0].runs) == 5
