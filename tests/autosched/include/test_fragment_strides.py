"""Emulated wmma reads layouts whose leading dimension is constant within a fragment, but not within a tile."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autosched.verify.schedules import verify_one
from search_spaces.hardware.devices import Device, device
from search_spaces.layouts.shared_layout import SharedLayout
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.space import Space
from search_spaces.templates.matmul.space import space
from search_spaces.templates.matmul.template import MATMUL

H200 = device("h200")
LAYOUTS = ("pad(16,16)", "swizzle(1,4,5)", "swizzle(1,4,6)", "pad(32,32)", "swizzle(1,5,5)")
SCHEDULE = Schedule(
    "matmul",
    tuple(
        {
            **{"tile_m": 64, "tile_n": 64, "tile_k": 32, "intrinsic": "wmma_m16n16k16_f16"},
            **{"subgroups_m": 2, "subgroups_n": 2, "sg_data_m": 32, "sg_data_n": 32},
            **{"layout_a": "pad(16,16)", "layout_b": "pad(16,16)", "copy_a": "ld.global", "copy_b": "cp.async"},
            **{
                "vector_a": 2,
                "vector_b": 8,
                "copy_columns_a": 2,
                "copy_columns_b": 8,
                "stages": 2,
                "unroll": 1,
                "fragment_buffers": 1,
            },
            **{"epilogue": "shared", "min_blocks": 1, "split_k": 1, "raster": "row", "batch_mapping": "outer"},
        }.items()
    ),
)


def with_more_layouts(problem: Matmul, device: Device) -> Space:
    """Return the matmul template with additional layouts, which are legal but not in the original space."""
    usual = space(problem, device)
    parameters = [
        replace(p, values=tuple(dict.fromkeys((*p.values, *LAYOUTS)))) if p.name.startswith("layout_") else p
        for p in usual.parameters
    ]
    return Space(usual.name, parameters, usual.attributes, usual.constraints)


MORE_LAYOUTS = replace(MATMUL, space=with_more_layouts)


@pytest.mark.parametrize(
    ("m", "layout_a", "layout_b"),
    [
        (101, "pad(16,16)", "pad(16,16)"),
        (102, "swizzle(1,4,5)", "swizzle(1,4,6)"),
        (103, "pad(32,32)", "swizzle(1,5,5)"),
    ],
)
def test_the_kernel_finds_every_fragment(m: int, layout_a: str, layout_b: str) -> None:
    offsets = SharedLayout.parse(layout_a, (64, 32)).offsets()
    assert np.unique(np.diff(offsets[:, 0])).size > 1  # the distance between consecutive lines varies within the tile
    problem = Matmul(m, 136, 96, out="f32", epilogue="bias+relu")
    result = verify_one(MORE_LAYOUTS, problem, SCHEDULE.replace(layout_a=layout_a, layout_b=layout_b), H200)
    assert result.ok and not result.findings, result.reason
