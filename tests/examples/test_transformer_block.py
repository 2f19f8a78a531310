"""``examples/transformer_block.py`` runs as documented. Every call of the transformer block uses a tuned kernel."""

from __future__ import annotations

import sys
from pathlib import Path

import forked_python
import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "transformer_block.py"


@pytest.mark.nightly
def test_the_block_runs_tuned_kernels(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    done = forked_python.run(
        [sys.executable, str(EXAMPLE), str(tmp_path)],
        torch=True,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "9 of 9 calls ran tuned kernels" in done.stdout
    assert "the block's result is right" in done.stdout
    assert (tmp_path / "shapes.csv").read_text().count("\n") == 9, "the file must have a header and eight problems"
