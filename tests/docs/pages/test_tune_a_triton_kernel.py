"""The commands of docs/tutorial/tune-a-triton-kernel.md run, and the page's programs behave as stated."""

# mypy: ignore-errors
from __future__ import annotations

import json
import re
import runpy
import shlex
import sys
from pathlib import Path

import pytest
from needs import needs_compiler

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'autosched[torch]'")
pytest.importorskip("triton", reason="Triton is not installed: pip install 'autosched[triton]'")

from autosched.cli import main  # noqa: E402
from autosched.triton import emulated  # noqa: E402

pytestmark = [needs_compiler, pytest.mark.filterwarnings("ignore::UserWarning")]

PAGE = (Path(__file__).parents[3] / "docs" / "tutorial" / "tune-a-triton-kernel.md").read_text()
PROGRAM, DECORATED, STOCK, _ = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
TUNE, BEST = re.findall(r"```console\n\$ autosched (.*?)```", PAGE, re.DOTALL)
(LINES,) = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)


def test_the_page(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "matmul", raising=False)
    Path("matmul.py").write_text(PROGRAM)
    small = ["--size", "m=128", "--size", "n=256", "--size", "k=128"]

    tune = shlex.split(TUNE.replace("\\\n", " ").replace("--trials 16", "--trials 2"))
    assert main([*tune, *small, "--workers", "0", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    for line in LINES.splitlines():
        pattern = ".*".join(re.escape(part) for part in line.split("..."))
        assert any(re.fullmatch(pattern, backend) for backend in document["backend"]), line
    assert 0 < document["best"]["error"] <= 1

    assert main([*shlex.split(BEST), *small, "--json"]) == 0
    (best,) = json.loads(capsys.readouterr().out)["best"]
    assert best["schedule"] == document["best"]["schedule"]

    Path("in_python.py").write_text(DECORATED.replace("trials=4", "trials=1, workers=0"))
    ran = runpy.run_path("in_python.py")
    call, launch = ran["call"], ran["session"].launches[0]
    torch.testing.assert_close(call["c"].float(), call["a"].float() @ call["b"].float(), atol=0.05, rtol=0.01)
    with emulated("h100"):
        again = ran["arguments"](128, 128, 64)
    chosen = ran["tuned"].best(**again, device="h100").schedule
    assert dict(launch.constants)["BLOCK_M"] == chosen["BLOCK_M"]

    hooks = (
        STOCK
        + """
from autosched.triton import emulated
from matmul import arguments
with emulated("h100") as session:
    call = arguments(64, 64, 64)
    pruned[call.pop("grid")](**call)
"""
    )
    Path("stock.py").write_text(hooks)
    assert len(runpy.run_path("stock.py")["session"].launches) == 2 * 2 + 1, (
        "two remaining configurations are timed, twice each"
    )
    monkeypatch.delitem(sys.modules, "matmul", raising=False)
