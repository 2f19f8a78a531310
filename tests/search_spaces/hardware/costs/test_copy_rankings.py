"""Layouts that a copy and an intrinsic both accept are ranked by cost."""

from __future__ import annotations

import pytest

from search_spaces.hardware.costs.bank_conflicts import fragment_traffic
from search_spaces.hardware.costs.copy_rankings import copy_choices, layout_choices
from search_spaces.hardware.costs.data_movement import Region
from search_spaces.hardware.intrinsics import intrinsic
from search_spaces.hardware.requirements import Access, OperandSide
from search_spaces.layouts.shared_layout import SharedLayout, sampled_layouts


@pytest.mark.parametrize("name", ["mma_m16n8k16_f16", "wmma_m16n16k16_f16"])
@pytest.mark.parametrize("operand", ["a", "b"])
def test_layouts_that_both_sides_accept(name: str, operand: OperandSide) -> None:
    row, shape = intrinsic(name), (64, 32) if operand == "a" else (32, 64)
    region = Region(shape, "cols", 8, 2)
    layouts = [SharedLayout.parse(text, shape) for text in sampled_layouts(2)]
    choices = layout_choices(layouts, region, row, operand, 128, readers=2)
    accepted = {layout for layout in layouts if isinstance(row.requirement(operand, layout, 2), Access)}
    assert {c.layout for c in choices} == accepted
    costs = [(c.conflicts, c.wavefronts, c.layout.size) for c in choices]
    assert costs == sorted(costs)
    best = copy_choices(region, choices[0].layout, 128)[0]
    loads = fragment_traffic(row, operand, choices[0].layout, 2)
    assert (choices[0].copy, choices[0].loads) == (best, loads)


def test_layouts_of_a_method() -> None:
    shape, region = (128, 64), Region((128, 64), "cols", 8, 2)
    layouts = [SharedLayout.parse(text, shape) for text in ("pad(2,1)", "pad(8,1)", "transpose", "swizzle(3,3,3)")]
    row = intrinsic("mma_m16n8k16_f16")
    free = layout_choices(layouts, region, row, "a", 256, "cp.async")
    assert [c.layout.text for c in free] == ["swizzle(3,3,3)", "pad(8,1)"] and free[0].conflicts == 0
    through_registers = layout_choices(layouts, region, row, "a", 256, "ld.global")
    assert {c.layout.text for c in through_registers} == {"swizzle(3,3,3)", "pad(8,1)", "transpose"}
    with pytest.raises(ValueError, match="has shape"):
        layout_choices([SharedLayout((64, 64))], region, row, "a", 256)
