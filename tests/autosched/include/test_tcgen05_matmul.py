"""Matmuls with tensor memory, compiled for GPUs that have it, are correct in the emulator."""

from __future__ import annotations

import numpy as np
import pytest
from cases import representative
from needs import needs_compiler, needs_nvrtc
from tcgen05_planted import SMALL

from autosched.verify.schedules import verify_one
from search_spaces.catalogue import candidates, template
from search_spaces.hardware.devices import device
from search_spaces.operators.matmul import EPILOGUES, Matmul
from search_spaces.spaces.schedule import Schedule

pytestmark = [needs_compiler, needs_nvrtc]
B200 = device("b200")
TYPES = ("bf16", "f16", "f32", "e4m3", "e5m2", "i8")
SAMPLES = 36  # schedules of each operand type in the nightly run

# Each case has a template, changes to a small schedule, and changes to its problem. In these cases, blocks share tiles
# or operands, or compute tiles that were assigned to other blocks.
CASES = {
    "splits of a pair": ("tcgen05_matmul", {"split_k": 2, "tile_m": 256}, {"m": 512, "k": 640}),
    "rows of b, which each block of a pair copies in two boxes": (
        "tcgen05_matmul",
        {"tile_m": 256, "tile_n": 256},
        {"n": 256, "order_b": "row"},
    ),
    "columns of a, rows of b": ("tcgen05_matmul", {}, {"order_a": "col", "order_b": "row"}),
    "stream-K of pairs": (
        "tcgen05_matmul",
        {"stream_k": 1, "tiles_per_block": 3, "sum_buffers": 2, "tile_m": 256},
        {"m": 256 * 160, "n": 64},
    ),
    "scales of blocks, stream-K": (
        "tcgen05_matmul",
        {"tile_k": 128, "stream_k": 1, "tiles_per_block": 3, "sum_buffers": 2},
        {"a": "e4m3", "scale": "block", "k": 400, "m": 128 * 300, "n": 64},
    ),
    "sides exchanged": ("tcgen05_matmul_transposed", {"tile_n": 32}, {"m": 24, "n": 400, "epilogue": "bias+gelu"}),
    "sides exchanged, splits, scales of rows": (
        "tcgen05_matmul_transposed",
        {"tile_n": 16, "split_k": 2, "tile_k": 128},
        {"a": "e4m3", "scale": "row_column", "m": 24, "n": 400, "k": 512, "epilogue": "bias"},
    ),
    "launch control of pairs": (
        "tcgen05_matmul",
        {"tile_scheduler": "launch_control", "tiles_per_block": 7, "sum_buffers": 2, "tile_m": 256},
        {"m": 256 * 500, "k": 128},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_kernels_are_right(case: str) -> None:
    name, changes, fields = CASES[case]
    problem = Matmul(**{"m": 256, "n": 128, "k": 320, "a": "bf16", "order_b": "col", **fields})  # type: ignore[arg-type]
    schedule = Schedule(name, SMALL.replace(**changes).items)
    verdict = verify_one(template(name), problem, schedule, B200, depth="quick")
    assert verdict.ok, verdict.reason


@pytest.mark.parametrize("name", representative(TYPES, "bf16", "i8"))
def test_sampled_schedules_of_random_problems_are_right(name: str, nightly: bool) -> None:
    rng = np.random.default_rng(19)
    for seed in range(SAMPLES if nightly else 1):
        few = seed % 4 == 3
        m, n, k = (int(x) for x in rng.integers((1, 1, 1), (90 if few else 900, 80, 60)))
        scales = ("none", "tensor", "row_column") + (("block",) if name in ("e4m3", "e5m2") and not few else ())
        chosen = {
            "batch": int(rng.choice((1, 3))),
            "epilogue": "none" if name == "i8" else str(rng.choice(EPILOGUES)),
            "scale": str(rng.choice(scales)) if name in ("e4m3", "e5m2") else "none",
            "order_b": str(rng.choice(("row", "col"))) if name in ("bf16", "f16") else "col",
        }
        problem = Matmul(m, 8 * n, 16 * k, a=name, **chosen)  # type: ignore[arg-type]
        kernel_template = template("tcgen05_matmul_transposed" if few else "tcgen05_matmul")
        (schedule,) = kernel_template.space(problem, B200).sample(1, seed=seed)
        verdict = verify_one(kernel_template, problem, schedule, B200, depth="quick")
        assert verdict.ok, (problem, schedule, verdict.reason)


def test_transposed_templates_accept_few_rows() -> None:
    def reasons(problem: Matmul) -> dict[str, str | None]:
        return {t.name: reason for t, reason in candidates(problem, B200)}

    assert reasons(Matmul(16, 4096, 4096, a="bf16"))["tcgen05_matmul_transposed"] is None
    many = reasons(Matmul(200, 4096, 4096, a="bf16"))["tcgen05_matmul_transposed"]
    assert many == "with a and b exchanged, tcgen05 computes at most 128 rows, not 200: use tcgen05_matmul"
    blocks = reasons(Matmul(16, 4096, 4096, a="e4m3", scale="block"))
    assert blocks["tcgen05_matmul"] is None
    assert blocks["tcgen05_matmul_transposed"] == (
        "block scales are not supported if a and b are exchanged: use tcgen05_matmul"
    )
