"""Each value of a structural decision, however rare, occurs among the first schedules of a sample."""

from __future__ import annotations

import pytest

from search_spaces.catalogue import template
from search_spaces.hardware.devices import device
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.problem import Problem
from search_spaces.operators.row_reduction import LayerNorm, RmsNorm, Softmax
from search_spaces.spaces.union_space import UnionSpace

FIRST = 32
CASES = [
    ("row_reduction", RmsNorm(rows=4096, columns=65536), "h200", ("row_staging",)),
    ("row_reduction", LayerNorm(rows=4096, columns=65536), "h100", ("row_staging",)),
    ("row_reduction", Softmax(rows=64, columns=65536), "a100", ("row_staging",)),
    ("matmul", Matmul(m=1023, n=1025, k=1027), "a100", ("intrinsic", "stream_k")),
    ("matmul", Matmul(m=1024, n=1024, k=1024), "h200", ("intrinsic", "stream_k")),
    ("matmul", Matmul(m=2048, n=2048, k=2048, a="f32", b="f32", acc="f32", out="f32"), "h100", ("intrinsic",)),
    ("wgmma_matmul", Matmul(m=1023, n=1025, k=1027), "h200", ("stream_k", "ping_pong")),
    ("wgmma_matmul", Matmul(m=16, n=4096, k=4096), "h200", ("stream_k", "ping_pong")),
    ("tcgen05_matmul", Matmul(m=16, n=4096, k=4096), "b200", ("stream_k",)),
]


@pytest.mark.parametrize(("name", "problem", "gpu", "decisions"), CASES)
def test_each_value_occurs_among_the_first(name: str, problem: Problem, gpu: str, decisions: tuple[str, ...]) -> None:
    space = template(name).space(problem, device(gpu))
    legal = {decision: {s.values[space.stratifying.index(decision)] for s in space.strata} for decision in decisions}
    assert any(len(values) > 1 for values in legal.values())
    for seed in range(3):
        sample = UnionSpace([space]).sample(FIRST, seed)
        assert {decision: {s[decision] for s in sample} for decision in decisions} == legal
