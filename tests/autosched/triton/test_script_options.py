"""A Python script with Triton launches accepts the options that every verification has."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from needs import needs_compiler

from autosched.cli import main

pytest.importorskip("triton", reason="Triton is not installed: pip install 'autosched[triton]'")
pytestmark = [needs_compiler, pytest.mark.filterwarnings("ignore")]

SCRIPT = """
import torch, triton
import triton.language as tl

@triton.jit
def twice(o, x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o + i, tl.load(x + i, mask=i < n) * 2, mask=i < n + 1)

x = torch.ones(200, device="cuda")
twice[(2,)](torch.empty_like(x), x, 200, BLOCK=128)
"""
EXPECTED = "out_of_bounds_global:beyond.py:*:the array has room behind it"


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("beyond.py").write_text(SCRIPT)
    return "beyond.py"


@pytest.mark.parametrize(
    ("options", "status"),
    [
        ((), 1),
        (("--suppress", EXPECTED), 0),
        (("--suppress", EXPECTED.replace("beyond", "other")), 1),
        (("--fail-on", "moon"), 2),
        (("--order", "moon"), 2),
    ],
)
def test_findings_that_are_expected(options: tuple[str, ...], status: int, script: str) -> None:
    assert main(["verify", script, "--device", "h100", *options]) == status


def test_the_requested_order(script: str, capsys: pytest.CaptureFixture[str]) -> None:
    order = ("--order", "interleaved", "--turns", "3", "--perturb", "--suppress", EXPECTED)
    assert main(["verify", script, "--device", "h100", *order, "--json"]) == 0
    (launch,) = json.loads(capsys.readouterr().out)["launches"]
    assert [run["name"] for run in launch["runs"]] == ["interleaved, thread seed 3"]
