"""Matmuls by mma.sync from stages filled by TMA are correct in the emulator, for every type and order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cases import representative
from needs import needs_compiler, needs_nvrtc
from static_asserts import asserted_rules

from autosched.verify.schedules import verify_one
from search_spaces.catalogue import template
from search_spaces.hardware.devices import device
from search_spaces.operators.matmul import EPILOGUES, Matmul
from search_spaces.templates.tma_matmul.space import validity_constraints

pytestmark = [needs_compiler, needs_nvrtc]
TMA = template("tma_matmul")
RTX5090 = device("rtx5090")
SAMPLES = 12  # schedules of each operand type in the nightly run

TYPES: dict[str, dict[str, Any]] = {
    "f16": {"a": "f16"},
    "bf16": {"a": "bf16"},
    "sums of f16": {"a": "f16", "acc": "f16"},
    "tf32": {"a": "f32", "precision": "tf32"},
    "e4m3": {"a": "e4m3", "scale": "row_column"},
    "i8": {"a": "i8", "out": "i32"},
    "mxf8": {"a": "mxf8", "out": "bf16"},
    "nvf4": {"a": "nvf4", "out": "bf16"},
}


@pytest.mark.parametrize("name", representative(TYPES, "f16", "tf32", "nvf4"))
def test_sampled_schedules_of_random_problems_are_right(name: str, nightly: bool) -> None:
    rng = np.random.default_rng(11)
    for seed in range(SAMPLES if nightly else 1):
        m, n, k = (8 * int(x) for x in rng.integers((2, 2, 4), (60, 60, 60)))
        fields = {"order_b": "col", "batch": int(rng.choice((1, 3))), **TYPES[name]}
        if fields["a"] in ("f16", "bf16"):
            fields |= {f"order_{side}": str(rng.choice(("row", "col"))) for side in "ab"}
        if fields["a"] != "i8":
            fields["epilogue"] = str(rng.choice(EPILOGUES))
        problem = Matmul(m, n, 16 * k if fields["a"] in ("mxf8", "nvf4", "e4m3", "i8") else k, **fields)
        (schedule,) = TMA.space(problem, RTX5090).sample(1, seed=seed)
        verdict = verify_one(TMA, problem, schedule, RTX5090, depth="quick")
        assert verdict.ok, (problem, schedule, verdict.reason)


@pytest.mark.parametrize(
    ("fields", "name", "reason"),
    [
        ({}, "a100", "TMA needs sm_90 or newer, but a100 is sm_80"),
        ({"reduction": "row_sum"}, "h200", "the kernel has no second output, which row_sum needs"),
        ({"k": 100}, "h200", "TMA needs a leading dimension that is a multiple of 16 bytes, but that of a is not"),
        ({"a": "e4m3", "order_a": "col"}, "rtx5090", "ldmatrix reads e4m3 along k only: store a with order_a = row"),
        ({"a": "f32", "precision": "ieee"}, "h200", "no mma.sync of h200 multiplies f32 in ieee precision"),
    ],
)
def test_unsupported_problems_are_rejected(fields: dict[str, Any], name: str, reason: str) -> None:
    assert reason in TMA.why_not(Matmul(**{"m": 256, "n": 256, "k": 256, **fields}), device(name))


def test_every_static_assert_of_the_kernel_is_a_rule_of_its_space() -> None:
    names = {rule.name for rule in validity_constraints(Matmul(256, 256, 256, a="mxf8"), RTX5090)}
    # Names in static_asserts that are not constraints of this template: attributes, parameters whose domains have only
    # valid values, rules for tile programs, and rules for copies by threads.
    shared = {"accumulators", "parts", "swizzle", "products_ahead", *asserted_rules("autosched/common/tile_copy.cuh")}
    for name in asserted_rules("autosched/kernels/tma_matmul.cuh") - shared:
        assert any(rule.startswith(name) for rule in names), name
