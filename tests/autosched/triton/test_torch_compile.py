"""Within ``emulated``, Triton kernels that ``torch.compile`` generates are emulated in a separate process."""

# mypy: ignore-errors
from __future__ import annotations

import os
import sys
from pathlib import Path

import forked_python
from needs import needs_compiler, needs_inductor_choices

COMPILED_BEFORE = """
import torch
from autosched.triton import emulated

@torch.compile(fullgraph=True)
def scaled_softmax(x):
    assert x.is_cuda and x.device.type == "cuda"
    steps = torch.arange(x.shape[1], device=x.device)
    return torch.softmax(x * steps + torch.ones(x.shape, device="cuda"), dim=-1)

with emulated("h100") as session:
    x = torch.randn(8, 40, device="cuda", requires_grad=True)
    y = scaled_softmax(x)
    (grad,) = torch.autograd.grad(y[:, 0].sum(), x)
    steps = torch.arange(40)
    wanted = torch.softmax(x * steps + 1, dim=-1)
    (wanted_grad,) = torch.autograd.grad(wanted[:, 0].sum(), x)
    torch.testing.assert_close(y, wanted)
    torch.testing.assert_close(grad, wanted_grad)
    assert y.is_cuda
import torch._inductor.config as config
assert config.cpu_backend == "cpp" and not torch.cuda.is_available()
print(sorted({launch.kernel for launch in session.launches}))
"""
COMPILED_WITHIN = """
import torch
import triton
import triton.language as tl
from autosched.triton import emulated

@triton.jit
def double(y, x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, 2 * tl.load(x + i, mask=i < n), mask=i <= n)

def doubled(x):
    print("graph break")
    y = torch.empty_like(x)
    double[(triton.cdiv(x.numel(), 64),)](y, x, x.numel(), BLOCK=64)
    return torch.sin(y)

compiles = torch.compile
with emulated("h100", fake_cuda=False, check=False) as session:
    assert not torch.cuda.is_available()
    x = torch.randn(100)
    program = torch.compile(doubled)
    torch.testing.assert_close(program(x), torch.sin(2 * x))
assert torch.compile is compiles
with emulated("a100", fake_cuda=False, check=False) as other:
    program(x)
targets = [{t for t in ("sm_80", "sm_90") if f".target {t}" in r.ptx} for s in (session, other) for r in s.launches]
assert targets[0] == {"sm_90"} and targets[-1] == {"sm_80"} and not torch.utils._triton.has_triton(), targets
print([str(f.kind) for f in session.findings], sorted({launch.kernel for launch in session.launches}))
"""


@needs_compiler
@needs_inductor_choices
def test_kernels_generated_by_torch_compile_are_emulated(tmp_path: Path) -> None:
    """The two programs run in one process, because importing torch and its compiler takes longer than both runs."""
    files = [tmp_path / "within.py", tmp_path / "before.py"]
    for file, program in zip(files, (COMPILED_WITHIN, COMPILED_BEFORE), strict=True):
        file.write_text(program)
    code = "import runpy, sys\nfor file in sys.argv[1:]:\n    runpy.run_path(file, run_name='__main__')\n"
    fresh = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "inductor")}
    completed = forked_python.run(
        [sys.executable, "-c", code, *map(str, files)],
        torch=True,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
        env=fresh,
    )
    assert completed.returncode == 0, completed.stdout + completed.stderr
    *_, within, before = completed.stdout.splitlines()
    assert "graph break" in completed.stdout
    assert within.startswith("['out_of_bounds_global'] ['double', 'triton_poi_fused_sin_"), completed.stdout
    assert "_softmax_" in before and "backward" in before, completed.stdout
    assert "CPU backend" not in completed.stderr
