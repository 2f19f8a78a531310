"""wmma reads layouts whose leading dimension holds inside fragments only: whole kernels in the emulator."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.verify import verify_one
from search_spaces.hardware.devices import device
from search_spaces.layouts.shared_layout import SharedLayout, sampled_layouts
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.matmul import space as matmul_space

H200 = device("h200")
SCHEDULE = Schedule(
    "matmul",
    tuple(
        {
            **{"tile_m": 64, "tile_n": 64, "tile_k": 32, "intrinsic": "wmma_m16n16k16_f16"},
            **{"sg_layout_m": 2, "sg_layout_n": 2, "sg_data_m": 32, "sg_data_n": 32},
            **{"layout_a": "pad(16,16)", "layout_b": "pad(16,16)", "copy_a": "ld.global", "copy_b": "cp.async"},
            **{"vector_a": 2, "vector_b": 8, "copy_columns_a": 2, "copy_columns_b": 8, "stages": 2, "k_unroll": 1},
            **{"epilogue": "shared", "min_blocks": 1, "split_k": 1, "raster": "row", "batch_mapping": "outer"},
        }.items()
    ),
)


@pytest.mark.parametrize(
    ("m", "layout_a", "layout_b"),
    [
        (101, "pad(16,16)", "pad(16,16)"),
        (102, "swizzle(1,4,5)", "swizzle(1,4,6)"),
        (103, "pad(32,32)", "swizzle(1,5,5)"),
    ],
)
def test_the_kernel_finds_every_fragment(monkeypatch: pytest.MonkeyPatch, m: int, layout_a: str, layout_b: str) -> None:
    # Legal, but no search samples such layouts: they are put into the domain, for problems that no other test has.
    monkeypatch.setattr(
        matmul_space,
        "sampled_layouts",
        lambda size: tuple(dict.fromkeys((*sampled_layouts(size), layout_a, layout_b))),
    )
    offsets = SharedLayout.parse(layout_a, (64, 32)).offsets()
    assert np.unique(np.diff(offsets[:, 0])).size > 1  # lines are not equally far apart across the tile
    problem = Matmul(m, 136, 96, out="f32", epilogue="bias+relu")
    result = verify_one(problem, SCHEDULE.replace(layout_a=layout_a, layout_b=layout_b), H200)
    assert result.ok and not result.findings, result.reason
