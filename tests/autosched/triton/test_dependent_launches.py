"""Programmatic dependent launches in Triton: accesses before ``gdc_wait`` may conflict with a preceding kernel."""

# mypy: ignore-errors
from __future__ import annotations

from pathlib import Path

import pytest
from needs import needs_compiler

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'autosched[torch]'")
triton = pytest.importorskip("triton", reason="Triton is not installed: pip install 'autosched[triton]'")
pytest.importorskip("triton.language.extra.cuda.gdc", reason="this Triton has no dependent launches")
import triton.language as tl  # noqa: E402
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait  # noqa: E402

from autosched.triton import emulated  # noqa: E402

pytestmark = [needs_compiler, pytest.mark.filterwarnings("ignore::UserWarning")]

N = 256
BLOCK = tl.constexpr(128)


@triton.jit
def fill(x, y):
    """Write x and read y. The next kernel may start early, but must not read x or write y before ``gdc_wait``."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(y + i))
    gdc_launch_dependents()


@triton.jit
def scale(x, weight, out, EARLY: tl.constexpr, WAITS: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    w = tl.load(weight + i)  # no preceding kernel writes weight
    if EARLY:
        v = tl.load(x + i)
    if WAITS:
        gdc_wait()
    if not EARLY:
        v = tl.load(x + i)
    tl.store(out + i, v * w)


@triton.jit
def clear(y, WAITS: tl.constexpr):
    """Write memory that the preceding kernel reads."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if WAITS:
        gdc_wait()
    tl.store(y + i, tl.zeros((BLOCK,), tl.float32))


@triton.jit
def relay(weight, out, TRIGGERS_FIRST: tl.constexpr):
    """Wait for the preceding kernels. ``TRIGGERS_FIRST``: before the wait, allow the next kernel to start."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if TRIGGERS_FIRST:
        gdc_launch_dependents()
    gdc_wait()
    if not TRIGGERS_FIRST:
        gdc_launch_dependents()
    tl.store(out + i, tl.load(weight + i))


def faults(last, between=None):
    """Launch ``fill`` and then other kernels. Return the faults, and check that each names the line of its launch."""
    with emulated("h100", check=False) as session:
        x, y, weight, out = (torch.ones(N, device="cuda") for _ in range(4))
        fill[(2,)](x, y)
        if between is not None:
            between(weight)
        last(x, y, weight, out)
    lines = session.fault_lines()
    assert all(f"launched at {Path(__file__)}" in line for line in lines)
    return [str(f.kind) for f in session.findings if f.is_fault]


def scales(early, waits, **options):
    return lambda x, y, weight, out: scale[(2,)](x, weight, out, early, waits, **options)


def clears(waits, **options):
    return lambda x, y, weight, out: clear[(2,)](y, waits, **options)


@pytest.mark.parametrize(
    ("last", "between"),
    [
        (scales(False, False, launch_pdl=True), None),
        (scales(True, True, launch_pdl=True), None),
        (clears(False, launch_pdl=True), None),
        (
            lambda x, y, weight, out: (
                relay[(2,)](weight, out, True, launch_pdl=True),
                scale[(2,)](x, weight, torch.empty_like(out), True, False, launch_pdl=True),
            ),
            None,
        ),
    ],
    ids=["no_wait", "reads_before_it", "writes_what_is_read", "behind_one_that_triggers_before_its_wait"],
)
def test_accesses_before_the_wait_race_with_the_first_kernel(last, between) -> None:
    assert faults(last, between) == ["global_race"]


@pytest.mark.parametrize(
    ("last", "between"),
    [
        (scales(False, True, launch_pdl=True), None),
        (clears(True, launch_pdl=True), None),
        (scales(True, False), None),
        (clears(False), None),
        (scales(True, False, launch_pdl=True), lambda weight: weight.mul_(2)),
        (scales(True, False, launch_pdl=True), lambda weight: torch.cuda.synchronize()),
        (scales(True, False, launch_pdl=True), lambda weight: weight.sum().item()),
        (
            lambda x, y, weight, out: (
                relay[(2,)](weight, out, False, launch_pdl=True),
                scale[(2,)](x, weight, torch.empty_like(out), True, False, launch_pdl=True),
            ),
            None,
        ),
    ],
    ids=[
        "waits", "waits_before_it_writes", "ordinary", "ordinary_writer", "behind_an_operator",
        "behind_a_wait_of_the_host", "behind_a_number", "behind_one_that_waits_first",
    ],
)  # fmt: skip
def test_independent_accesses_before_the_wait_are_allowed(last, between) -> None:
    assert faults(last, between) == []
