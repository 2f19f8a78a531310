"""Results are independent along some dimensions: parts of a problem have the same results as the whole problem."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from autosched.programs.loading import load_program, problem
from search_spaces.programs.language.independence import independent


@pytest.mark.parametrize(
    ("program_path", "sizes", "expected"),
    [
        ("programs/gemm_relu.py", {"m": 300, "n": 200, "k": 64}, {"m": 0, "n": 1}),
        # softmax reduces along n, so only m is divided among blocks
        ("programs/matmul_softmax.py", {"m": 300, "n": 64, "k": 64}, {"m": 0}),
        ("seeds/gemm_reduction.py", {"m": 300, "n": 200, "k": 64}, {}),  # blocks add to the same elements
        # the program reads positions from a tile
        ("programs/embedding.py:embedding", {"tokens": 60, "words": 20, "d": 300}, {}),
        ("programs/cross_entropy.py", {"m": 40, "n": 1100}, {"m": 0}),
        (
            "seeds/matvec.py:matvec_plain",
            {"m": 4, "n": 30, "k": 1024},
            {"m": 0, "n": 1},
        ),  # a tile has one position along n
    ],
)
def test_extents_that_blocks_cut(program_path: str, sizes: dict[str, int], expected: dict[str, int]) -> None:
    p = problem(load_program(f"examples/{program_path}"), **sizes)
    extents = dict(independent(p.usual_trace()))
    assert {n: axis for n, axis in extents.items() if n in sizes} == expected


def test_parts_agree_with_the_whole() -> None:
    p = problem(load_program("examples/programs/gemm_relu.py"), m=150, n=140, k=40)
    inputs = p.random_inputs(1)
    full_output = p.reference(inputs)["out"].reshape(-1)
    positions = np.unique(np.random.default_rng(0).integers(0, 150, 9)[:, None] * 140 + np.array([0, 3, 90, 139]))
    seen = 0
    for part in p.parts(positions):
        part_inputs = {name: inputs[name].reshape(-1)[at] for name, at in part.inputs.items()}
        at = part.outputs["out"]
        np.testing.assert_allclose(part.problem.reference(part_inputs)["out"], full_output[at], rtol=1e-12, atol=1e-12)
        seen += at.size
    assert seen == positions.size


def test_parts_of_far_rows_are_small() -> None:
    """A part needs little memory, since it does not list all positions along a dimension that is divided."""
    rows = 1 << 29
    p = problem(load_program("examples/programs/gemm_relu.py"), m=rows, n=140, k=40)
    tracemalloc.start()
    (part,) = p.parts(np.array([(rows - 1) * 140 + 7], dtype=np.int64))
    assert tracemalloc.get_traced_memory()[1] < 1 << 22
    tracemalloc.stop()
    assert (part.problem.m, part.problem.n) == (1, 1)
