"""The examples of the emulator's pages run as they stand, and find nothing in what is right."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from needs import needs_compiler, needs_nvrtc

DOCS = Path(__file__).parents[2] / "docs"

pytestmark = [needs_nvrtc, needs_compiler]


def example(page: str) -> dict[str, Any]:
    (code,) = re.findall(r"^```python\n(.*?)^```$", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)
    return names


def test_our_kernel_runs() -> None:
    assert example("explanation/emulator.md")["result"].status == "ok"


def test_anyones_kernel_runs() -> None:
    result = example("tutorial/check-a-kernel.md")["result"]
    assert result.status == "ok" and result.printed == "a is 2.0\n"
    assert (result.arrays[0] == np.float32(3.5)).all()
