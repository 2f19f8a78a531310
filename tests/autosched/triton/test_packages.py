"""Triton kernels of pip packages agree with torch, and no fault is reported."""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from pathlib import Path

import forked_python
import pytest
from needs import needs_compiler

pytest.importorskip("torch", reason="torch is not installed: pip install 'autosched[torch]'")
pytest.importorskip("triton", reason="Triton is not installed: pip install 'autosched[triton]'")
pytestmark = [needs_compiler, pytest.mark.nightly, pytest.mark.timeout(900)]
PROGRAMS = Path(__file__).parent / "packages"


@pytest.mark.parametrize(
    ("name", "package", "kernels", "device"),
    [
        ("liger", "liger_kernel", 8, "a100"),
        ("linear_attention", "fla", 6, "h100"),
        ("quantization", "torchao", 3, "rtx5090"),
    ],
)
def test_kernels_of_a_package_agree_with_torch(name: str, package: str, kernels: int, device: str) -> None:
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed: see .github/workflows/nightly.yml")
    program = str(PROGRAMS / f"{name}.py")
    # In a separate process, because imports of the package look for a GPU and warn.
    command = [sys.executable, "-m", "autosched", "verify", program, "--device", device, "--json"]
    completed = forked_python.run(command, torch=True, capture_output=True, text=True, check=False)
    assert completed.returncode == 0, completed.stdout[-2000:] + completed.stderr[-2000:]
    assert len({launch["kernel"] for launch in json.loads(completed.stdout)["launches"]}) >= kernels


def test_stock_kernels_of_packages_are_tuned_once(tmp_path: Path) -> None:
    for package in ("fla", "liger_kernel"):
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed: see .github/workflows/nightly.yml")
    program = [sys.executable, str(PROGRAMS / "persisted.py")]
    command = [sys.executable, "-m", "autosched", "serve", "--db", str(tmp_path / "best.db"), "--", *program]
    starts = [forked_python.run(command, torch=True, capture_output=True, text=True, check=False) for _ in range(2)]
    assert all(completed.returncode == 0 for completed in starts), starts[-1].stderr[-2000:]
    first, second = (json.loads(completed.stdout.splitlines()[-1]) for completed in starts)
    assert len(first["choices"]) >= 3 and first["timed"] > 0 and second["timed"] == 0
    assert second["choices"] == first["choices"]


@pytest.mark.parametrize(
    ("function", "package"),
    [("liger_rms_norm", "liger_kernel"), ("liger_softmax", "liger_kernel"), ("fla_layer_norm", "fla")],
)
def test_batch_invariance_of_kernels_of_packages(function: str, package: str) -> None:
    """The command's answer agrees with an exhaustive comparison of all batches in a separate program."""
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed: see .github/workflows/nightly.yml")
    program = str(PROGRAMS / "batches.py")
    command = [sys.executable, "-m", "autosched", "verify", f"{program}:{function}", "--device", "h100", "--json"]
    command += ["--full", "--batch-invariant", "--size", "rows=1..16"]
    completed = forked_python.run(command, torch=True, capture_output=True, text=True, check=False)
    assert completed.returncode in (0, 1), completed.stderr[-2000:]
    every = [sys.executable, "-m", "autosched", "verify", program, "--device", "h100", "--", function]
    compared = forked_python.run(every, torch=True, capture_output=True, text=True, check=False).stdout.splitlines()
    report = next(json.loads(line) for line in compared if line.startswith("{"))
    assert json.loads(completed.stdout)["batch_invariant"] is report["exhaustive"]
