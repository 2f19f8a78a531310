"""The Python examples of docs/how-to/language-models.md run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "language-models.md"
EXAMPLES = re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_examples_run(number: int) -> None:
    pytest.importorskip("torch", reason="torch is not installed: pip install 'autosched[torch]'")
    exec(EXAMPLES[number], {})
