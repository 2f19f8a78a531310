"""Check a whole program, after the builder has checked each operation. Errors name position, operation and rule."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import NoReturn

from search_spaces.hardware.tensor_intrinsic import TensorIntrinsic
from search_spaces.layouts.nested_layout import NestedLayout
from search_spaces.layouts.wg_map import WgMap
from search_spaces.layouts.wg_map_consistency import (
    check_broadcast,
    check_convert_layout,
    check_mma,
    check_reduction,
    check_transpose,
)
from search_spaces.programs.inference.inference import Inference
from search_spaces.programs.language import ir
from search_spaces.programs.language.index import Index
from search_spaces.programs.language.ir import ProgramError, Source
from search_spaces.programs.language.padding import check_padding
from search_spaces.programs.language.window_positions import indices
from search_spaces.programs.planning.choices import choices_of
from search_spaces.programs.planning.estimates import map_warps
from search_spaces.programs.planning.instructions import SUBGROUPS
from search_spaces.programs.problem import ProgramProblem


def _refuse(source: Source, operation: str, reason: str) -> NoReturn:
    raise ProgramError(f"{source}: {operation}: {reason}")


def verify(inference: Inference) -> None:
    """Check a program. Raises ProgramError if no schedule can execute it."""
    _check_scopes(inference)
    _check_windows(inference)
    _check_assigned(inference)
    _check_outputs(inference)
    _check_maps(inference)
    check_padding(inference.trace)


def _check_scopes(inference: Inference) -> None:
    """Check that no value computed inside a loop or condition is used after this loop or condition."""
    for operation, around in inference.trace.walk():
        loops = tuple(loop.number for loop in around)
        for value in ir.inputs(operation):
            inside = inference.inside.get(value.id, ())
            if loops[: len(inside)] != inside:
                name = ir.spelled(operation)
                region = "loop" if inside[-1] in inference.loops else "condition"
                reason = f"a value from inside a {region} is used after the {region}: carry the value in a p.state"
                _refuse(operation.source, name, reason)
        for number in {n for index in indices(operation) for n in index.scalars}:
            inside = inference.scalars_in.get(number, ())
            if loops[: len(inside)] != inside:
                region = "loop" if inside[-1] in inference.loops else "condition"
                reason = f"a number loaded inside a {region} is used after the {region}: load it again"
                _refuse(operation.source, ir.spelled(operation), reason)
        if isinstance(operation, ir.Read) and operation.state not in inference.states:
            _refuse(operation.source, "state", "a state is read before it is set: set it first")


def _check_windows(inference: Inference) -> None:
    """Check positions and indices.

    No position may be computed by dividing a negative number. Indices, and windows on shared memory, must be in bounds.
    """
    iterations = inference.trace.iterations()
    for operation, _ in inference.trace.walk():
        if isinstance(operation, ir.Loop):
            for end in (operation.first, operation.stop):
                _check_quotients(end, inference, iterations, operation.source, "steps")
        if not isinstance(operation, ir.LoadTile | ir.StoreTile | ir.AtomicRmw):
            continue
        window, name = operation.window, ir.spelled(operation)
        for d, axis in enumerate(("rows", "columns")):
            low, high = window.at[d].interval(inference.trace.most_blocks, iterations)
            _check_quotients(window.at[d], inference, iterations, operation.source, name)
            if low < 0 and window.index is not None and d in window.indexed:
                _refuse(operation.source, name, f"the window begins {-low} {axis} before {window.array.name}")
            if window.array.role == "shared" and (low < 0 or high + window.shape[d] > window.extent[d]):
                _refuse(
                    operation.source, name, f"the window reaches beyond {window.array.name}, a tile in shared memory"
                )
        for index, extent in zip(window.array.lead, window.array.full, strict=False):
            low, high = index.interval(inference.trace.most_blocks, iterations)
            if low < 0 or high >= extent:
                _refuse(
                    operation.source,
                    name,
                    f"the index of {window.array.name}[{index}] ranges from {low} to {high}, but the extent is "
                    f"{extent}: limit the index",
                )


def _check_quotients(index: Index, inference: Inference, iterations: dict[int, int], source: Source, name: str) -> None:
    """Check that only non-negative numbers are divided, as C++ and Python round negative quotients differently."""
    for inner in index.args:
        low, _ = inner.interval(inference.trace.most_blocks, iterations)
        if index.kind in ("floordiv", "mod") and low < 0:
            _refuse(source, name, f"{index} divides a number that may be {low}: apply p.maximum(.., 0) first")
        _check_quotients(inner, inference, iterations, source, name)


def notes(inference: Inference) -> tuple[str, ...]:
    """Return warnings about windows that are outside of their arrays in every block."""
    iterations, messages = inference.trace.iterations(), []
    for operation, _ in inference.trace.walk():
        if not isinstance(operation, ir.LoadTile | ir.StoreTile | ir.AtomicRmw) or operation.window.index is not None:
            continue
        window = operation.window
        for d, axis in enumerate(("rows", "columns")):
            low, high = window.at[d].interval(inference.trace.most_blocks, iterations)
            if low >= window.extent[d] or high + window.shape[d] <= 0:
                messages.append(
                    f"{operation.source}: {ir.spelled(operation)}: the window is entirely outside of "
                    f"{window.array.name}, which has {window.extent[d]} {axis}: the window begins between {axis} {low} "
                    f"and {high}"
                )
    return tuple(dict.fromkeys(messages))


def program_notes(problem: ProgramProblem) -> tuple[str, ...]:
    """Return notes on how ambiguous statements of a listing were interpreted, and warnings about windows."""
    try:
        return (*problem.program.notes, *notes(choices_of(problem).first))
    except ProgramError:
        return problem.program.notes


def _check_assigned(inference: Inference) -> None:
    """Check that no two blocks assign the same element, because its value would depend on the order of blocks."""
    blocks = inference.trace.blocks
    zero = {number: 0 for number in inference.trace.iterations()}
    for operation, _ in inference.trace.walk():
        if not isinstance(operation, ir.AtomicRmw) or operation.kind != "assign" or operation.window.index is not None:
            continue
        window = operation.window
        sizes = (*(1 for _ in window.array.lead), *window.shape)
        for axis, count in enumerate(blocks):
            first, second = (tuple(at if a == axis else 0 for a in range(len(blocks))) for at in (0, 1))
            positions = [[i.at(block, zero) for i in (*window.array.lead, *window.at)] for block in (first, second)]
            if count > 1 and all(abs(b - a) < size for a, b, size in zip(*positions, sizes, strict=True)):
                _refuse(
                    operation.source,
                    "atomic_rmw",
                    f"the {count} blocks along axis {axis} of the grid assign the same elements of "
                    f"{window.array.name} in an unspecified order: use another kind, or assign in one block",
                )


def _check_outputs(inference: Inference) -> None:
    written = {store.window.array.name for store in inference.stores}
    for array in inference.trace.arrays:
        if array.role != "input" and array.name not in written:
            raise ProgramError(
                f"{inference.trace.location}: store: {array.name} is never stored: store it, or declare it as an Input"
            )


def _check_maps(inference: Inference) -> None:
    """Check that the user's maps of operands and results of each operation agree (RFC, workgroup-level extension)."""
    states: dict[int, int] = {}
    for operation, _ in inference.trace.walk():
        if isinstance(operation, ir.Set):
            states[operation.state] = operation.value.id
    maps: dict[int, tuple[WgMap, Source]] = {}
    for operation, _ in inference.trace.walk():
        if not isinstance(operation, ir.Computing):
            continue
        result = operation.result
        if isinstance(operation, ir.Map):
            known = [maps[v.id] for v in ir.inputs(operation) if v.id in maps]
            if known:
                maps[result.id] = known[0]
        elif isinstance(operation, ir.Read):
            before = maps.get(states.get(operation.state, -1))
            if before is not None:
                maps[result.id] = before
        elif isinstance(result.map, WgMap):
            maps[result.id] = result.map, operation.source
        reasons = _disagreements(operation, {id_: m for id_, (m, _) in maps.items()})
        if reasons:
            sources = ", ".join(str(maps[v.id][1]) for v in ir.inputs(operation) if v.id in maps)
            name = ir.spelled(operation)
            _refuse(operation.source, name, f"{reasons[0]} (RFC, wg_map; the operands' maps are at {sources})")
    _check_subgroups(inference, maps)


def _disagreements(operation: ir.Computing, maps: dict[int, WgMap]) -> tuple[str, ...]:
    result = maps.get(operation.result.id)
    match operation:
        case ir.Mma(value, a, b):
            if result is not None and a.id in maps and b.id in maps:
                return check_mma(maps[a.id], maps[b.id], result, *value.shape, a.shape[1])
        case ir.ReduceTile(_, _, value, dimension):
            if result is not None and value.id in maps:
                size = None if operation.size == value.shape[dimension] else operation.size
                return check_reduction(maps[value.id], result, value.shape, dimension, size)
        case ir.Broadcast(output, value, dimension):
            if result is not None and value.id in maps:
                size = None if value.shape[dimension] == 1 else operation.size
                return check_broadcast(maps[value.id], result, output.shape, dimension, size)
        case ir.TransposeTile(output, value):
            if result is not None and value.id in maps:
                return check_transpose(maps[value.id], result, output.shape)
        case ir.Convert(output, value):
            if result is not None and value.id in maps:
                return check_convert_layout(maps[value.id], result, output.shape)
    return ()


def _check_subgroups(inference: Inference, maps: dict[int, tuple[WgMap, Source]]) -> None:
    """Check that all of the user's maps have the same number of subgroups."""
    counts = [(m.subgroups, source) for m, source in maps.values()]
    counts += [
        (map_warps(m), inference.definitions[id_].source)
        for id_, m in inference.user_maps.items()
        if isinstance(m, NestedLayout)
    ]
    for count, source in counts[1:]:
        if count != counts[0][0]:
            _refuse(
                source,
                "wg_map",
                f"the map has {count} subgroups, but the map at {counts[0][1]} has {counts[0][0]}: all "
                "maps need the same number",
            )


def why_not_divided(inference: Inference, instructions: Iterable[TensorIntrinsic]) -> str | None:
    """Return why a product cannot be divided among the subgroups of the user's maps; None if all products can."""
    for id_, user_map in inference.user_maps.items():
        for operation in inference.definitions.values():
            if not isinstance(operation, ir.Mma):
                continue
            product = inference.products[inference.product_of[operation.result.id]]
            count, (m, n) = map_warps(user_map), product.shape
            if product.user_map is None and not any(
                rows * columns == count and m % (rows * instruction.m) == 0 and n % (columns * instruction.n) == 0
                for rows, columns in itertools.product(SUBGROUPS, SUBGROUPS)
                for instruction in instructions
            ):
                source = inference.definitions[id_].source
                return (
                    f"{source}: wg_map: the map has {count} subgroups, but the {m}x{n} result of the mma at "
                    f"{operation.source} cannot be divided into whole fragments for {count} subgroups"
                )
    return None
