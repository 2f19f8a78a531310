"""A part of a problem has the same elements as the whole problem at the same positions."""

from __future__ import annotations

import numpy as np
import pytest

from search_spaces.operators.copy import Copy
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.matvec import Matvec
from search_spaces.operators.part import rectangles
from search_spaces.operators.problem import Problem
from search_spaces.operators.row_reduction import LayerNorm, Reduce, RmsNorm, Softmax
from search_spaces.operators.transpose import Transpose

PROBLEMS = (
    Matmul(9, 14, 5, batch=3, epilogue="bias+gelu"),
    Matmul(9, 14, 5, batch=2, order_a="col", order_b="col", a="bf16"),
    Matvec(3, 20, 7),
    Softmax(8, 20),
    RmsNorm(8, 20),
    LayerNorm(8, 20, out="f32"),
    Reduce(8, 20, kind="argmax"),
    Reduce(8, 20, reduction_size=5),
    Reduce(8, 20, axis="column", kind="max"),
    Reduce(12, 20, axis="column", reduction_size=4),
    Transpose(6, 10, batch=3, dtype="u8"),
    Transpose(6, 10, batch=2, dtype="u128"),
    Copy(6, 10, dtype="u64"),
)


@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
@pytest.mark.parametrize("share", [0.03, 0.6, 1.0])
def test_parts_have_the_elements_of_the_whole(problem: Problem, share: float) -> None:
    inputs = problem.random_inputs(3)
    reference, tolerance = (f(inputs)["out"].reshape(-1) for f in (problem.reference, problem.tolerance))
    positions = np.union1d([1], np.flatnonzero(np.random.default_rng(1).random(reference.size) <= share))
    missing = set(positions.tolist())
    for part in problem.parts(positions):
        operands = {o.name: o for o in part.problem.operands()}
        gathered = {name: inputs[name].reshape(-1)[at] for name, at in part.inputs.items()}
        assert {name: a.shape for name, a in gathered.items()} == {
            o.name: o.shape for o in operands.values() if o.role == "input"
        }
        at = part.outputs["out"]
        assert at.shape == operands["out"].shape
        np.testing.assert_allclose(part.problem.reference(gathered)["out"], reference[at], rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(part.problem.tolerance(gathered)["out"], tolerance[at], rtol=1e-9, atol=1e-15)
        missing -= set(at.reshape(-1).tolist())
    assert not missing


def test_rectangles_cover_the_positions() -> None:
    positions = np.array([1, 2, 11, 12, 25])
    actual = [(rows.tolist(), columns.tolist()) for rows, columns in rectangles(positions, 10)]
    assert actual == [([0, 1], [1, 2]), ([2], [5])]
