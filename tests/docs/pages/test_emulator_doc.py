"""The example of docs/explanation/emulator.md runs unchanged, and its correct kernel has no findings."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from needs import needs_compiler, needs_nvrtc

PAGE = Path(__file__).parents[3] / "docs" / "explanation" / "emulator.md"

pytestmark = [needs_nvrtc, needs_compiler]


def test_the_example_runs() -> None:
    (ours,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    exec(ours, names)
    assert names["result"].status == "ok"
