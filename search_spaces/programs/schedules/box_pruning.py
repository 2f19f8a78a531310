"""Pruning rules for boxes: drop decisions that have no effect, and slower methods of filling boxes."""

from __future__ import annotations

from search_spaces.arrays import BoolArray, IntArray
from search_spaces.hardware.devices import Device
from search_spaces.layouts.shared_layout import hardware_swizzle
from search_spaces.programs.inference.inference import Staged
from search_spaces.programs.planning.boxes import BY_THREADS, can_use_tma, why_no_boxes
from search_spaces.programs.planning.choices import Choices, unique_operands
from search_spaces.programs.planning.instructions import is_boxed
from search_spaces.programs.schedules.boxes import boxed_operands
from search_spaces.spaces.columns import TextColumn
from search_spaces.spaces.each import each
from search_spaces.spaces.rules import Rule


def box_pruning(choices: Choices, device: Device) -> tuple[Rule, ...]:
    """Return the pruning rules for boxes. They exclude slower methods of filling, and decisions that have no effect."""
    if not choices.boxed_instructions(device) or not choices.first.products:
        return ()
    boxed, rules = each(is_boxed), list[Rule]()
    for s in unique_operands(choices.first):
        rules += _unused_rules(s)
    if any(map(can_use_tma, boxed_operands(choices))):
        rules.append(
            Rule(
                "by_tma",
                lambda filled_by, intrinsic: ~boxed(intrinsic) | (filled_by != BY_THREADS),
                "boxes are filled by {filled_by}, whose copies need more instructions than TMA",
            )
        )
    return tuple(rules)


def _unused_rules(s: Staged) -> list[Rule]:
    name, boxed, element_bytes = s.name, each(is_boxed), s.load.window.array.dtype.bytes

    def unused(vector: IntArray, columns: IntArray, copy: TextColumn, intrinsic: TextColumn) -> BoolArray:
        answer: BoolArray = ~boxed(intrinsic) | ((vector == 1) & (columns == 1) & (copy == "cp.async"))
        return answer

    def widest_swizzle(layout: str, rows: int, cols: int, intrinsic: str) -> str | None:
        if not is_boxed(intrinsic):
            return None
        wider = [hardware_swizzle(s, element_bytes).text for s in (128, 64, 32)]
        text = layout.removeprefix("transpose+")
        for other in wider[: wider.index(text)] if text in wider else []:
            if why_no_boxes(s, layout.replace(text, other), rows, cols) is None:
                return f"{name} can use {other}, which is wider than {text}"
        return None

    rules = [
        Rule.refusing(
            f"box_layout_{name}",
            lambda layout, intrinsic: (
                f"{intrinsic} has no shared-memory tile of {name}, so the layout {layout} has no effect"
                if is_boxed(intrinsic) and layout not in ("identity", "transpose")
                else None
            ),
            names={"layout": f"layout_{name}", "intrinsic": "intrinsic"},
        )
        if s.converted
        else Rule.refusing(
            f"box_swizzle_{name}",
            widest_swizzle,
            names={
                "layout": f"layout_{name}",
                "rows": f"rows_{name}",
                "cols": f"cols_{name}",
                "intrinsic": "intrinsic",
            },
        ),
        Rule(
            f"box_threads_{name}",
            unused,
            f"{{copy}} of {{vector}} elements in {{columns}} columns has no effect on boxes of {name}",
            names={
                "vector": f"vector_{name}",
                "columns": f"copy_columns_{name}",
                "copy": f"copy_{name}",
                "intrinsic": "intrinsic",
            },
        ),
    ]
    return rules
