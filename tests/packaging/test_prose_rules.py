"""The linter of pages reports words and sentence openings banned by ``[tool.prose]``, except in code and questions."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(find_spec("pymarkdown") is None, reason="pymarkdown is not installed")

REPOSITORY = Path(__file__).parents[2]
PAGE = """# Garbage
What is left is mended. What is it?
Those who wait race. `garbage` and [a link](strangers.md) stay.
There is no race here; this is no race, and no longer one.
- Whether it holds
  Whether is a word that goes on here.

```text
garbage
```
"""
REPORTS = [(1, 3), (2, 1), (2, 17), (3, 1), (4, 29), (5, 3)]


def scanned(page: Path) -> list[tuple[int, int]]:
    """Return the line and column of the rule's reports for a page."""
    command = [sys.executable, "-m", "pymarkdown", "scan", str(page)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    return [(int(line), int(column)) for line, column in re.findall(r":(\d+):(\d+): PRO001:", done.stdout)]


def test_words_and_openings_are_reported_at_their_position(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    assert sorted(scanned(page)) == REPORTS
