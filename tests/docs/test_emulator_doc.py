"""The examples of docs/explanation/emulator.md run as they stand, and find nothing in what is right."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from needs import needs_compiler, needs_nvrtc

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "emulator.md"

pytestmark = [needs_nvrtc, needs_compiler]


def test_the_examples_run() -> None:
    own, anyones = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    of_ours: dict[str, Any] = {}
    exec(own, of_ours)
    assert of_ours["result"].status == "ok"
    of_anyone: dict[str, Any] = {}
    exec(anyones, of_anyone)
    assert of_anyone["result"].status == "ok" and (of_anyone["result"].arrays[0] == np.float32(3)).all()
