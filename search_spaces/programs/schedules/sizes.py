"""Numbers that depend only on the values of ``p.choose``: shapes of products and operands, numbers of blocks."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from search_spaces.hardware.fragments import WARP
from search_spaces.programs.inference.inference import Inference
from search_spaces.programs.language import ir
from search_spaces.programs.language.functions import REDUCTIONS
from search_spaces.programs.planning.choices import Choices, choices_of, unique_operands
from search_spaces.programs.planning.memory import stage_names
from search_spaces.programs.planning.splits import PARTS, shared_loop
from search_spaces.programs.problem import ProgramProblem
from search_spaces.spaces.each import each
from search_spaces.spaces.rules import Attribute

# Operations whose generated code supports any number of lanes, not only powers of two. Before adding an operation to
# this tuple, check how its code combines the values of lanes.
_OF_ANY_LANES = (
    ir.LoadTile, ir.StoreTile, ir.AtomicRmw, ir.Prefetch, ir.Move, ir.TransposeTile, ir.Reshape, ir.PadTile, ir.Mma,
    ir.Fill, ir.PassedScalar, ir.Coordinates, ir.Map, ir.Broadcast, ir.Convert, ir.Read, ir.Set, ir.Loop, ir.If,
    ir.LoadScalar, ir.Uniform, ir.FindTile, ir.FetchPart,
)  # fmt: skip


@dataclass(frozen=True)
class Sizes:
    """A number that may depend on the values of ``p.choose``. If so, it is an attribute, otherwise a constant."""

    name: str
    size: Callable[[Inference], int]
    doc: str

    def constant(self, choices: Choices) -> dict[str, int]:
        """Return a mapping of the name to the number, or an empty mapping if the number depends on a chosen size."""
        names, table = choices.deciding(self.size)
        return {} if names else {self.name: next(iter(table.values()))}

    def attribute(self, choices: Choices) -> tuple[Attribute, ...]:
        """Return an attribute for a number that depends on a chosen size; an empty result for a constant number."""
        names, table = choices.deciding(self.size)
        if not names:
            return ()

        def size(**chosen: int) -> int:
            return table[tuple(chosen.values())]

        return (Attribute(self.name, each(size), self.doc, names={n: n for n in names}),)


def derived_sizes(problem: ProgramProblem) -> tuple[Sizes, ...]:
    """Return shapes of products, operands and anchors, and the numbers of blocks and iterations."""
    choices = choices_of(problem)
    sizes = []
    for p in choices.first.products:
        for d, axis in enumerate("mn"):
            sizes.append(
                Sizes(
                    f"tile_{axis}{p.suffix}",
                    lambda i, n=p.number, d=d: i.products[n].shape[d],  # type: ignore[misc]
                    f"{axis} of a product",
                )
            )
        sizes.append(Sizes(f"tile_k{p.suffix}", lambda i, n=p.number: _depth(i, n), "k of a product"))  # type: ignore[misc]
    for position, s in enumerate(unique_operands(choices.first)):
        for d, axis in enumerate(("rows", "cols")):
            sizes.append(
                Sizes(
                    f"{axis}_{s.name}",
                    lambda i, at=position, d=d: unique_operands(i)[at].shape[d],  # type: ignore[misc]
                    f"{axis} of the tile of {s.name}",
                )
            )
    for a in range(anchor_count(choices)):
        doc, doc_lines = (
            f"elements per memory line, in tiles of kind {a + 1}",
            f"number of memory lines, in tiles of kind {a + 1}",
        )
        sizes.append(Sizes(f"line_{a + 1}", lambda i, a=a: _anchor_line(i, a)[0], doc))  # type: ignore[misc]
        sizes.append(Sizes(f"lines_{a + 1}", lambda i, a=a: _anchor_line(i, a)[1], doc_lines))  # type: ignore[misc]
    shapes = sorted({shape for i in choices.inferences.values() for shape in i.exchangeable})
    for position, store in enumerate(choices.first.stores):
        if is_transposable(choices.first, position):
            sizes.append(
                Sizes(
                    f"shape_store_{position + 1}",
                    lambda i, at=position: shapes.index(i.stores[at].value.shape),  # type: ignore[misc]
                    f"index of the shape of the stored tile of {store.window.array.name}",
                )
            )
    sizes.append(Sizes("blocks", lambda i: i.trace.block_count, "blocks of the launch"))
    for position, name in enumerate(stage_names(choices.first).values()):
        sizes.append(
            Sizes(
                name.replace("stages", "turns"),
                lambda i, at=position: max(1, i.trace.iterations()[list(stage_names(i))[at]]),  # type: ignore[misc]
                "largest number of iterations of the loop",
            )
        )
    if shared_loop(choices.first) is not None:
        sizes.append(Sizes(PARTS, _parts, "number of blocks that share the loop"))
    if len(choices.first.trace.blocks) > 1:
        for d, axis in ((-2, "rows"), (-1, "columns")):
            sizes.append(Sizes(f"grid_{axis}", lambda i, d=d: i.trace.blocks[d], f"{axis} of the grid of tiles"))  # type: ignore[misc]
    return tuple(sizes)


def _parts(inference: Inference) -> int:
    shared = shared_loop(inference)
    return 1 if shared is None else shared[0].parts


def _depth(inference: Inference, number: int) -> int:
    """Return the greatest common divisor of the depths (extents along k) of a group's products."""
    depths = [
        o.a.shape[1]
        for o, _ in inference.trace.walk()
        if isinstance(o, ir.Mma) and inference.product_of[o.result.id] == number
    ]
    return math.gcd(*depths)


def anchor_count(choices: Choices) -> int:
    """Return the largest number of anchors over all combinations of sizes."""
    return max(len(i.anchors) for i in choices.inferences.values())


def _anchor_line(inference: Inference, number: int) -> tuple[int, int]:
    """Return an anchor's (elements per line, number of lines), or (1, 1) if there is no such anchor at these sizes."""
    if number >= len(inference.anchors):
        return 1, 1
    anchor = inference.anchors[number]
    return anchor.shape[anchor.along], anchor.shape[1 - anchor.along]


def lane_counts(choices: Choices, number: int) -> tuple[int, ...]:
    """Return the candidate numbers of lanes that share a memory line.

    The candidates are powers of two. If all operations support other numbers, the divisors of each line length that is
    not a multiple of 4 are also candidates.
    """
    lines = {_anchor_line(i, number)[0] for i in choices.inferences.values()}
    if not all(_takes_any_lanes(o) for o, _ in choices.first.trace.walk()):
        lines = set()
    odd = {n for n in range(3, WARP + 1) for line in lines if line % 4 and line % n == 0}
    return tuple(sorted({1, 2, 4, 8, 16, 32} | odd))


def _takes_any_lanes(operation: ir.Operation) -> bool:
    """Return True if the generated code of an operation supports numbers of lanes other than powers of two."""
    if isinstance(operation, ir.ReduceTile):
        return operation.kind in REDUCTIONS
    return type(operation) in _OF_ANY_LANES


def is_transposable(inference: Inference, position: int) -> bool:
    """Return True if a schedule may store through shared memory, in order to write whole lines."""
    store = inference.stores[position]
    return (
        isinstance(store, ir.StoreTile)
        and store.window.array.role != "shared"
        and store.window.index is None
        and inference.stored[position].kind in ("result", "swap")
    )
