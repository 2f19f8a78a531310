"""When Inductor chooses a kernel for a matmul, it also times the tuned kernel."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import forked_python
import pytest

torch = pytest.importorskip("torch")

from autosched.integrations.inductor.candidates import external_matmul  # noqa: E402

PROGRAM = """
import torch
from autosched.integrations.inductor.candidates import external_matmul
options = {"max_autotune": True, "external_matmul": [external_matmul]}
compiled = torch.compile(lambda a, b: a @ b, options=options)
a, b = torch.randn(64, 48), torch.randn(48, 32)
with torch.no_grad():
    torch.testing.assert_close(compiled(a, b), a @ b)
"""


RACING = """
import torch
import autosched.torch
from autosched.integrations.inductor.candidates import race_formulas
race_formulas()
def block(x, w):
    return 2 * torch.ops.autosched.rmsnorm(torch.ops.autosched.softmax(x), w)
x, w = torch.randn(64, 512), torch.randn(512)
with torch.no_grad():
    torch.testing.assert_close(torch.compile(block)(x, w), block(x, w))
"""


def _stderr_of(program: str, cache: Path) -> str:
    """Return the stderr of a process that runs ``program``. ``cache`` is Inductor's cache of earlier choices."""
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(cache)}
    command = [sys.executable, "-c", program]
    completed = forked_python.run(
        command, torch=True, capture_output=True, text=True, timeout=280, check=False, env=environment
    )
    assert completed.returncode == 0, completed.stderr
    return completed.stderr


@pytest.mark.nightly
def test_inductor_measures_a_kernel_and_its_formula(tmp_path: Path) -> None:
    assert _stderr_of(RACING, tmp_path).count('"num_choices": 2') == 2, (
        "each matmul has two choices: the kernel and the formula"
    )


def test_the_result_is_written_in_place() -> None:
    a, b, out = torch.randn(8, 16), torch.randn(16, 4), torch.zeros(8, 4)
    external_matmul(a, b, out)
    torch.testing.assert_close(out, a @ b)


@pytest.mark.nightly
def test_max_autotune_measures_the_external_kernel(tmp_path: Path) -> None:
    stderr = _stderr_of(PROGRAM, tmp_path)
    table = stderr[stderr.index("AUTOTUNE mm(64x48, 48x32)") :]
    assert any(line.split()[:1] == ["external_matmul"] and line.split()[2] == "ms" for line in table.splitlines())
