"""Bugs that others met on GPUs, each named by the number of its public report, found here without one."""

# mypy: ignore-errors
from __future__ import annotations

import pytest
from needs import needs_compiler

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'autosched[torch]'")
pytest.importorskip("triton", reason="Triton is not installed: pip install 'autosched[triton]'")
import triton  # noqa: E402
import triton_program_kernels as kernels  # noqa: E402

from autosched.triton import emulated  # noqa: E402
from measurements.emulator import FindingKind  # noqa: E402

pytestmark = [needs_compiler, pytest.mark.filterwarnings("ignore::UserWarning")]


def test_triton_10927_a_stride_of_a_descriptor_that_nobody_checks() -> None:
    triton.set_allocator(lambda size, alignment, stream: torch.empty(size, dtype=torch.int8, device="cuda"))
    with emulated("h100", check=False) as session:
        x, o = torch.ones(32, 511, dtype=torch.float16), torch.empty(32)
        kernels.row_sums_by_made_descriptor[(2,)](o, x, 32, 511, BM=16, BN=32)
    assert FindingKind.INVALID_ARGUMENT in {f.kind for f in session.findings}
    assert any("global_stride 0 is 1022 bytes, no multiple of 16" in line for line in session.fault_lines())
