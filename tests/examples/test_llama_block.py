"""Nightly, ``examples/llama_block.py`` emulates prefill and decode steps with kernels that the time model chose."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import forked_python
import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "llama_block.py"


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_the_block_matches_numpy(tmp_path: Path) -> None:
    more = ["--torch"] if find_spec("torch") is not None else []
    command = [sys.executable, str(EXAMPLE), str(tmp_path), *more]
    done = forked_python.run(command, torch=True, capture_output=True, text=True, timeout=880, check=False)
    assert done.returncode == 0, done.stderr
    assert "14 kernels tuned" in done.stdout and ("torch.compile" in done.stdout) == bool(more)
