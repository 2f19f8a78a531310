"""Helion's configurations are compiled for a GPU and proven without one."""

# mypy: ignore-errors
from __future__ import annotations

import pytest
from needs import needs_compiler

torch = pytest.importorskip("torch")
pytest.importorskip("triton")
helion = pytest.importorskip("helion", reason="Helion is not installed: pip install helion")
import helion.language as hl  # noqa: E402

from autosched.integrations.helion import proven  # noqa: E402

pytestmark = [
    needs_compiler,
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@helion.kernel(static_shapes=True)
def row_sums(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty([x.size(0)], dtype=x.dtype, device=x.device)
    for tile in hl.tile(x.size(0)):
        out[tile] = x[tile, :].sum(-1)
    return out


@helion.kernel(static_shapes=True)
def last_writer(x: torch.Tensor) -> torch.Tensor:
    out = torch.zeros([1], dtype=torch.float32, device=x.device)
    for tile in hl.tile(x.size(0)):
        out[0] = hl.load(x, [tile]).sum()
    return out


def config(block: int, **others: int | str) -> helion.Config:
    return helion.Config(block_sizes=[block], **{"num_warps": 1, "num_stages": 1, **others})


def test_what_is_right_passes_and_is_emulated_once() -> None:
    judge = proven(row_sums, (torch.randn(32, 40),), device="h100")
    wanted = config(8, num_warps=2)
    assert judge(wanted) is wanted and judge(wanted) is wanted
    assert judge.accepted == [wanted] and judge.refused == []


def test_a_persistent_kernel_has_the_multiprocessors_of_the_device() -> None:
    judge = proven(row_sums, (torch.randn(32, 40),), device="h100")
    wanted = config(8, pid_type="persistent_blocked")
    assert judge(wanted) is wanted, judge.refused


def test_what_does_not_compute_the_same_is_refused_with_a_reason() -> None:
    """The last tile wins: another block size gives another sum."""
    judge = proven(last_writer, (torch.arange(1.0, 33.0),), device="h100")
    default = judge_default(judge)
    other = config(4 if default != 4 else 8)
    assert judge(other) is None
    ((refused, why),) = judge.refused
    assert refused == other and why
    assert judge(helion.Config(block_sizes=[3])) is None, "no power of two"
    assert len(judge.refused) == 2


def judge_default(judge) -> int:
    """Return the block of Helion's default, if that passes: it runs as one block of all elements or more."""
    small = config(32)
    assert judge(small) is small
    return 32
