"""The notebooks run from top to bottom, and their results agree with the text."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import forked_python
import pytest
from needs import needs_compiler, needs_nvrtc

NOTEBOOKS = Path(__file__).parents[2] / "examples" / "notebooks"


@needs_compiler
@needs_nvrtc
def test_the_first_hour(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed: pip install 'autosched[pictures]'")
    notebook = json.loads((NOTEBOOKS / "first_hour.ipynb").read_text("utf-8"))
    assert (notebook["nbformat"], [c for c in notebook["cells"] if c.get("outputs")]) == (4, [])
    code = "\n".join("".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code")
    script = tmp_path / "first_hour.py"
    script.write_text(code, "utf-8")
    done = forked_python.run([sys.executable, str(script)], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    assert "estimated" in done.stdout and "shared_race" in done.stdout
    assert "ok findings: 0" in done.stdout
    assert Path(done.stdout.split()[-1]).read_text("utf-8").count("<svg") == 1
