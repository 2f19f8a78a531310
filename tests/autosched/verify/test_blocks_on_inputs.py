"""If emulating a user's whole launch would take too long, sampled blocks run at the true size and are compared."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from autosched import KernelSpec
from autosched.verify import blocks_on_inputs
from autosched.verify.block_choice import chosen_blocks
from autosched.verify.run import Depth
from autosched.verify.schedules import verify_one
from autosched.verify.verdict import Verdict
from search_spaces.hardware.devices import device

A100 = device("a100")
SIDE = 256  # must equal SIDE in BLUR
BLUR = """
#define SIDE 256
__global__ void blur(float* out, const float* in) {
  int x = blockIdx.x * block_x + threadIdx.x, y = blockIdx.y;
  FIRST
  float sum = 0;
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 3; ++j) sum += in[(y + i) * (SIDE + 2) + x + j];
  THEN
  out[y * SIDE + x] = sum;
}
"""


def blurred(**arrays: Any) -> Any:
    wide = arrays["in"]
    return sum(wide[i : i + SIDE, j : j + SIDE] for i in range(3) for j in range(3))


def array(name: str, kind: str, *shape: str, dtype: str = "f32", **more: Any) -> dict[str, Any]:
    return {"name": name, "kind": kind, "dtype": dtype, "shape": list(shape), **more}


def blur(first: str = "", then: str = "", **changes: Any) -> KernelSpec:
    return KernelSpec(
        BLUR.replace("FIRST", first).replace("THEN", then),
        "blur",
        **{
            "parameters": {"block_x": [64]},
            "sizes": {"n": SIDE},
            "grid": ["n // block_x", "n"],
            "block": "block_x",
            "arguments": [array("out", "output", "n", "n"), array("in", "input", "n + 2", "n + 2")],
            "reference": blurred,
            **changes,
        },
    )


@pytest.fixture(autouse=True)
def whole_launches_take_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks_on_inputs, "WHOLE_SECONDS", -1.0)
    monkeypatch.setattr(blocks_on_inputs, "_SMALL_THREADS", 0)


def verified(kernel: KernelSpec, depth: Depth = "quick") -> Verdict:
    problem = kernel.problem()
    (schedule,) = kernel.template.space(problem, A100).sample(1, 0)
    return verify_one(kernel.template, problem, schedule, A100, depth=depth)


def test_some_blocks_in_several_orders_verify_a_kernel_of_fixed_sizes() -> None:
    verdict = verified(blur())
    assert verdict.ok and [(r.name, r.order.blocks) for r in verdict.runs] == [
        ("some blocks", "ascending"),
        ("some blocks", "random"),
    ]
    assert all(0 < (r.blocks or 0) <= 48 for r in verdict.runs)
    assert verdict.max_abs_error is not None and verdict.max_abs_error < 1e-4
    full = verified(blur(), "full")
    assert full.ok and {r.order.blocks for r in full.runs} == {"ascending", "random", "descending", "interleaved"}
    assert not any("true size" in lack for lack in full.lacks)


@pytest.mark.parametrize(
    ("first", "then", "status", "message"),
    [
        ("", "if (blockIdx.y == 255) sum += 1;", "wrong_result", "elements are wrong"),
        ("", "if (blockIdx.y % 2) sum *= 1.01f;", "wrong_result", "elements are wrong"),
        ("", "if (y == 255) { volatile float far = in[(SIDE + 2) * (SIDE + 2)]; }", "findings", "in, which has 266256"),
        ("if (threadIdx.x % 2) return;", "", "wrong_result", "cannot write all"),
    ],
)
def test_faults_are_found_by_sampled_blocks(first: str, then: str, status: str, message: str) -> None:
    verdict = verified(blur(first, then))
    assert verdict.status == status and message in verdict.reason and "of 1024 blocks" in verdict.reason
    assert verdict.runs[-1].blocks is not None


@pytest.mark.parametrize(
    "kernel",
    [
        pytest.param(blur("if (y > 4) return;"), id="blocks that write nothing"),
        pytest.param(blur("y /= 2;"), id="blocks that write to the same place"),
        pytest.param(blur(reference=None), id="itself is its reference"),
        pytest.param(blur(reference=None, verify=lambda out: True), id="outputs that are judged"),
    ],
)
def test_kernels_that_sampling_cannot_decide_are_emulated_entirely(kernel: KernelSpec) -> None:
    assert all(run.blocks is None for run in verified(kernel).runs)


def test_blocks_that_add_to_the_same_numbers_are_emulated_together() -> None:
    body = "{ atomicAdd(bins + x[blockIdx.x * b + threadIdx.x], 1); }"
    source = f"__global__ void count(int* bins, const int* x) {body}\n"
    kernel = KernelSpec(
        source,
        "count",
        parameters={"b": [32]},
        sizes={"n": 4096},
        grid="n // b",
        block="b",
        arguments=[
            array("bins", "output", "8", dtype="i32", zeroed=True),
            array("x", "input", "n", dtype="i32", fill={"integers": [0, 7]}),
        ],
        reference=lambda x: np.bincount(x, minlength=8),
    )
    verdict = verified(kernel)
    assert verdict.ok and all(run.blocks is None for run in verdict.runs)


RAGGED = """
__global__ void twice(float* out, const float* in, const int* starts) {
  const int last = LAST;
  for (int i = starts[blockIdx.x] + threadIdx.x; i < last; i += block_x) out[i] = 2 * in[i];
}
"""
STARTS = np.cumsum([0] + [3 if block != 77 else 65_536 - 3 * 255 for block in range(256)]).astype(np.int32)


def ragged(last: str = "starts[blockIdx.x + 1]") -> KernelSpec:
    """Return a kernel in which one block computes nearly all elements, and each of the other blocks computes three."""
    return KernelSpec(
        RAGGED.replace("LAST", last),
        "twice",
        parameters={"block_x": [32]},
        grid=256,
        block="block_x",
        arguments=[
            array("out", "output", "65536"),
            array("in", "input", "65536"),
            array("starts", "input", "257", dtype="i32", fill={"array": STARTS}),
        ],
        reference=lambda **arrays: 2 * arrays["in"],
    )


@pytest.mark.parametrize("depth", ["quick", "full"])
def test_small_blocks_do_not_limit_the_share_of_others(depth: Depth) -> None:
    verdict = verified(ragged(), depth)
    assert (verdict.status, verdict.reason) == ("ok", "")
    assert all(run.blocks for run in verdict.runs if run.name == "some blocks")


def test_elements_written_by_no_block_are_reported_for_unequal_shares() -> None:
    verdict = verified(ragged("min(starts[blockIdx.x + 1], starts[blockIdx.x] + 99)"))
    assert verdict.status == "wrong_result" and "no block writes more than 99 elements" in verdict.reason


def test_a_slow_search_for_blocks_falls_back_to_whole_emulation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks_on_inputs, "_SEARCH_SECONDS", {"quick": 1e-4, "full": 1e-4})
    verdict = verified(ragged())
    assert verdict.ok and all(run.blocks is None for run in verdict.runs)


@pytest.mark.parametrize("grid", [(1, 1, 1), (7, 1, 1), (1000, 1, 1), (33, 65, 2), (2**31 - 1, 1, 1)])
def test_blocks_at_the_edges_are_always_chosen(grid: tuple[int, int, int]) -> None:
    total = grid[0] * grid[1] * grid[2]
    blocks = chosen_blocks(grid, 16, 0)
    assert len(set(blocks)) == len(blocks) == min(16, total) and {0, total - 1} <= set(blocks)
    assert all(0 <= block < total for block in blocks) and blocks == chosen_blocks(grid, 16, 0)


def test_a_reference_for_reduced_sizes_is_not_called_at_the_true_size() -> None:
    def small_only(**arrays: Any) -> Any:
        assert arrays["in"].shape == (66, 66), "the reduced problem"
        return sum(arrays["in"][i : i + 64, j : j + 64] for i in range(3) for j in range(3))

    source = BLUR.replace("#define SIDE 256", "").replace("FIRST", "").replace("THEN", "")
    kernel = KernelSpec(
        source,
        "blur",
        parameters={"block_x": [64]},
        sizes={"n": 8 * SIDE},
        grid=["n // block_x", "n"],
        block="block_x",
        defines={"SIDE": "n"},
        proxy={"n": 64},
        arguments=[array("out", "output", "n", "n"), array("in", "input", "n + 2", "n + 2")],
        reference=small_only,
    )
    assert verified(kernel, "full").ok


def test_a_kernel_tuner_answer_is_compared_with_sampled_blocks() -> None:
    numbers = np.random.default_rng(0).standard_normal(65_536).astype(np.float32)

    def twice(right: bool) -> KernelSpec:
        return KernelSpec.from_arrays(
            "twice",
            "__global__ void twice(float* y, const float* x) {\n"
            "  int i = blockIdx.x * block_size_x + threadIdx.x;\n"
            "  if (i < 65536) y[i] = 2 * x[i];\n}\n",
            numbers.size,
            [np.zeros_like(numbers), numbers],
            {"block_size_x": [64]},
            answer=[numbers * (2 if right else 3), None],
        )

    verdict = verified(twice(True))
    assert verdict.ok and all(run.blocks for run in verdict.runs)
    assert verified(twice(False)).status == "wrong_result"
