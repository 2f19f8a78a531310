"""Helion's configurations are compiled for a GPU and verified without one."""

# mypy: ignore-errors
from __future__ import annotations

import pytest
from needs import needs_compiler, needs_helion

pytestmark = [
    needs_compiler,
    needs_helion,
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


def verifier(name: str, *shape: int):
    """Return a verifier of configurations for a kernel of ``helion_kernels``, with 1, 2, 3 and so on as input."""
    import helion_kernels
    import torch

    from autosched.integrations.helion import verified

    x = torch.arange(1.0, 1.0 + torch.Size(shape).numel()).reshape(shape)
    return verified(helion_kernels.kernel_of(getattr(helion_kernels, name)), (x,), device="h100")


def config(block: int, **options: int | str):
    import helion

    return helion.Config(block_sizes=[block], **{"num_warps": 1, "num_stages": 1, **options})


def test_correct_configurations_pass_and_are_emulated_once() -> None:
    verify = verifier("row_sums", 32, 40)
    correct = config(8, num_warps=2)
    assert verify(correct) is correct and verify(correct) is correct
    assert verify.accepted == [correct] and verify.refused == []


def test_a_persistent_kernel_has_the_multiprocessors_of_the_device() -> None:
    verify = verifier("row_sums", 32, 40)
    persistent = config(8, pid_type="persistent_blocked")
    assert verify(persistent) is persistent, verify.refused


def test_wrong_results_are_rejected_with_a_reason() -> None:
    """In ``last_writer`` the last tile overwrites other tiles' sums, so only a tile of all elements is correct."""
    verify = verifier("last_writer", 32)
    correct, other, odd = config(32), config(4), config(3)
    assert verify(correct) is correct
    assert verify(other) is None
    ((refused, reason),) = verify.refused
    assert refused == other and reason
    assert verify(odd) is None, "a block size of 3 is not a power of two"
    assert len(verify.refused) == 2
