"""Operands in shared memory: how a schedule copies their tiles, and how instructions read fragments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal, TypeVar

from search_spaces.hardware.costs.data_movement import CopyPlan, Method, Region, copy_plan
from search_spaces.hardware.requirements import Access, Refusal
from search_spaces.hardware.tensor_intrinsic import TensorIntrinsic
from search_spaces.layouts.shared_layout import SharedLayout, parse_layout
from search_spaces.programs.inference.inference import Inference, Spread, Staged
from search_spaces.programs.language import ir
from search_spaces.programs.language.index import FIRST_OUTSIDE
from search_spaces.programs.planning.boxes import BoxedNumbers, boxed_numbers
from search_spaces.programs.planning.distributions import Distributions
from search_spaces.programs.planning.instructions import fragments, is_boxed
from search_spaces.programs.planning.splits import accumulating
from search_spaces.spaces.parameters import Value
from search_spaces.templates.common.shared_tiles import stage_bytes

Answer = TypeVar("Answer")
SHARED, REGISTERS = "shared", "registers"  # values of ``home_NAME``, for tiles loaded outside of loops


@dataclass(frozen=True)
class StagedNumbers:
    """An operand in shared memory.

    Attributes:
        access: How the instruction reads the tile; None for a tile that is converted in registers.
        bytes: Size of a tile in shared memory.
    """

    staged: Staged
    layout: SharedLayout
    copy: CopyPlan
    access: Access | None
    bytes: int


def in_shared(inference: Inference, values: Mapping[str, Value]) -> dict[tuple[int, Spread], Staged]:
    """Return the operands that a schedule copies to shared memory.

    These are operands loaded in loops, and operands outside of loops if ``home_NAME`` is "shared".

    If the instruction reads boxes, operands that must be converted are loaded to registers instead.
    """
    boxed = bool(inference.products) and is_boxed(str(values["intrinsic"]))
    return {
        key: staged
        for key, staged in inference.staged.items()
        if (not (staged.converted and boxed) if staged.loop is not None else values[f"home_{staged.name}"] == SHARED)
    }


def sides(inference: Inference, operation: ir.Mma) -> list[tuple[ir.Value, Spread]]:
    """Return both operands of a product with their symbolic distributions."""
    number = inference.product_of[operation.result.id]
    of: tuple[tuple[ir.Value, Literal["left", "right"]], ...] = (operation.a, "left"), (operation.b, "right")
    return [(value, Spread(side, value.shape, number)) for value, side in of]


@cache
def bufferable(inference: Inference) -> ir.Loop | None:
    """Return the loop whose fragments may be double-buffered, or None.

    The loop must be the only loop with a ring. Its body may only add products to states in place, and all these
    products must have the same depth.
    """
    rings = {staged.loop for staged in inference.staged.values()}
    if len(rings) != 1 or not rings <= accumulating(inference):
        return None
    (loop,) = (inference.loops[number] for number in rings if number is not None)
    products = [o for o in loop.body if isinstance(o, ir.Mma)]
    sums = {o.value.id: inference.states[o.state] for o in loop.body if isinstance(o, ir.Set)}
    in_place = all(inference.natural[o.result.id] == sums[o.result.id] for o in products)
    one_depth = len({o.a.shape[1] for o in products}) == 1
    read = all(_is_read(inference, *side) for o in products for side in sides(inference, o))
    return loop if in_place and one_depth and read else None


def _is_read(inference: Inference, value: ir.Value, spread: Spread) -> bool:
    """Return True if the fragments of an operand, or of its transpose, are read from a ring."""
    definition = inference.definitions[value.id]
    key = (definition.value.id, spread.swap()) if isinstance(definition, ir.TransposeTile) else (value.id, spread)
    return key in inference.staged


def staged_plan(
    staged: Staged, values: Mapping[str, Value], distributions: Distributions
) -> StagedNumbers | BoxedNumbers:
    """Return the plan of a staged operand, for boxes or fragments. Raises ValueError if the schedule is invalid."""
    return (
        boxed_numbers(staged, values)
        if is_boxed(str(values["intrinsic"]))
        else staged_numbers(staged, values, distributions)
    )


def staged_numbers(staged: Staged, values: Mapping[str, Value], distributions: Distributions) -> StagedNumbers:
    """Return the plan of a staged operand that is read as fragments. Raises ValueError if the schedule is invalid."""
    row, name = fragments(str(values["intrinsic"])), staged.name
    element_bytes = staged.load.window.array.dtype.bytes
    text = str(values[f"layout_{name}"])
    layout = _accepted(parse_layout(text, *staged.shape))
    method: Method = "cp.async" if values[f"copy_{name}"] == "cp.async" else "ld.global"
    region = Region(staged.shape, "cols" if staged.row_major else "rows", staged.alignment, element_bytes)
    threads, vector, columns = distributions.warps * 32, values[f"vector_{name}"], values[f"copy_columns_{name}"]
    assert isinstance(vector, int) and isinstance(columns, int)
    return StagedNumbers(
        staged,
        layout,
        _accepted(copy_plan(region, layout, threads, vector, columns, method)),
        None if staged.converted else _accepted(row.requirement(staged.side, layout, element_bytes)),
        stage_bytes(text, *staged.shape, element_bytes),
    )


def _accepted(answer: Answer | Refusal | str) -> Answer:
    """Return ``answer`` if it is a result. Raises ValueError if it is a refusal, which valid schedules never get."""
    if isinstance(answer, Refusal | str):
        raise ValueError(answer.reason if isinstance(answer, Refusal) else answer)
    return answer


def operand_struct(
    n: StagedNumbers,
    distributions: Distributions,
    row: TensorIntrinsic,
    alignment: int,
    in_bounds_until_last: bool | None = None,
) -> str:
    """Return the C++ type ``Operand_NAME`` of an operand in shared memory.

    Args:
        n: Layout and copy of the operand.
        distributions: All distributions of the kernel.
        row: The instruction that multiplies the operand.
        alignment: Alignment of the operand's tiles in bytes.
        in_bounds_until_last: For a peeled loop, True if all tiles before the last iteration lie inside the array along
            the dimension in which tiles advance. None for other loops.
    """
    staged = n.staged
    array = staged.load.window.array
    element = array.dtype.c_name
    types = [f"using T = {element};", f"using Layout = {n.layout.c_name};"]
    values: dict[str, int] = {
        "bool row_major": staged.row_major,
        "int rows": staged.shape[0],
        "int columns": staged.shape[1],
        "int array_major": array.stored[0] if array.dynamic is None else FIRST_OUTSIDE,
        "int array_minor": array.stored[1] if array.line is None else FIRST_OUTSIDE,
        "int threads": distributions.warps * 32,
        "bool copy_async": n.copy.method == "cp.async",
        "bool anywhere": staged.anywhere,
        "int copy_columns": n.copy.columns,
        "int vector": n.copy.vector,
        "int copy_store": n.copy.store,
        "int stage_bytes": n.bytes,
        "int alignment": alignment,
        "int advance": {"major": 1, "minor": 2}.get(staged.advance, 0),
    }
    if array.pitch is not None:
        values["bool pitched"] = True
    if in_bounds_until_last is not None:
        values["int whole"] = values["int advance"] if in_bounds_until_last else 0
    kind = "StoredTile"
    if n.access is not None:
        kind, product, left = "Operand", distributions.products[staged.product], staged.side == "a"
        at = 0 if left else 1
        data = product.data[at]
        types.insert(0, f"using I = {row.c_name(element, element)};")
        values |= {
            "bool left": left,
            "bool matrices": row.unit == "mma",
            "bool transposed": n.access.mode == "trans",
            "int access_vector": n.access.vector,
            "int groups": min(product.groups[at], product.shape[at] // data),
            "int group_size": data,
            "int fragments": product.fragments[at],
        }
        if n.access.leading_dimension is not None:
            values["unsigned leading_dimension"] = n.access.leading_dimension
            types.append(f"static constexpr ptx::Major order = ptx::Major::{n.access.mode};")
    lines = [*types, *(f"static constexpr {name} = {str(value).lower()};" for name, value in values.items())]
    members = "".join(f"  {line}\n" for line in lines)
    return (
        f"struct Load_{staged.name} {{\n{members}}};\n"
        f"using Operand_{staged.name} = tile::{kind}<Load_{staged.name}>;\n\n"
    )
