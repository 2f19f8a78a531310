"""Parameters for the cache hints of global-memory accesses (device code: autosched/common/cache_hints.cuh)."""

from __future__ import annotations

from search_spaces.hardware.devices import Device
from search_spaces.hardware.dtypes import SCALAR_DTYPES
from search_spaces.launches.launch import ScalarArgument
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.parameters import Parameter, categorical
from search_spaces.spaces.rules import Rule

LOAD_HINTS = ("none", "no_allocate", "evict_first", "no_allocate_l2_256b")
STORE_HINTS = ("none", "streaming")
# Cache policies in the encoding of createpolicy.fractional, equal to ptx::Evict
# (autosched/ptx/tensor_map/tensor_map.cuh).
_EVICT = {"normally": 0x1000000000000000, "first": 0x12F0000000000000, "last": 0x14F0000000000000}


def load_hint(name: str, arrays: str) -> Parameter:
    """Return the parameter ``name``: the cache hint of the loads of ``arrays``."""
    return categorical(name, LOAD_HINTS, f"cache hint of the loads of {arrays}")


def store_hint(name: str, arrays: str, offered: bool = True) -> Parameter:
    """Return the parameter ``name``: the cache hint of stores of ``arrays``. If not ``offered``, it has one value."""
    return categorical(name, STORE_HINTS if offered else STORE_HINTS[:1], f"cache hint of the stores of {arrays}")


def no_hint_rule(hint: str, how: str, by_copy: str) -> Rule:
    """Return the pruning rule that excludes hints if parameter ``how`` is ``by_copy``: cp.async has no hints."""
    return Rule(
        hint,
        lambda value, chosen: (value == "none") | (chosen != by_copy),
        f"{hint} is {{value}}, but loads use cp.async ({how} = {by_copy}), which has no such hint",
        names={"value": hint, "chosen": how},
    )


def l2_evict_last() -> Parameter:
    """Return the parameter ``l2_evict_last``, for operands that TMA loads."""
    return categorical(
        "l2_evict_last",
        ("none", "a", "b"),
        "operand that TMA loads with the L2 policy evict_last; the other operand uses evict_first",
        at_launch=True,
    )


def evict_arguments(l2_evict_last: str) -> tuple[ScalarArgument, ScalarArgument]:
    """Return the launch arguments that contain the L2 cache policies of the loads of a and b."""
    policies = [
        _EVICT["normally" if l2_evict_last == "none" else "last" if side == l2_evict_last else "first"] for side in "ab"
    ]
    a, b = (
        ScalarArgument(f"evict_{side}", SCALAR_DTYPES["u64"], policy)
        for side, policy in zip("ab", policies, strict=True)
    )
    return a, b


def l2_evict_last_rule(problem: Matmul, device: Device) -> Rule:
    """Return the pruning rule that neither operand gets priority in L2 if both fit into half of L2."""
    size = problem.batch * problem.depth * (problem.m + problem.n) * problem.input_dtype.bytes
    fits = size <= device.l2_bytes // 2
    return Rule.refusing(
        "l2_evict_last",
        lambda l2_evict_last: (
            f"{l2_evict_last} would be evicted last, but L2 has room for both a and b ({size} bytes)"
            if fits and l2_evict_last != "none"
            else None
        ),
    )
