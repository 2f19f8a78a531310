"""What a schedule of a program needs, from its distributions alone: registers, and shared memory of exchanges."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from search_spaces.hardware.fragments import WARP
from search_spaces.layouts.nested_layout import NestedLayout
from search_spaces.layouts.wg_map import WgMap
from search_spaces.programs.inference.inference import Inference, Spread
from search_spaces.programs.language import ir
from search_spaces.programs.language.distribution import Distribution, move, subgroup_lanes
from search_spaces.programs.planning.memory import across_bytes
from search_spaces.programs.planning.numbers import Numbers, numbers
from search_spaces.programs.planning.opaque import WARP_BYTES, is_staged, read_behind
from search_spaces.programs.planning.ways import fragments, is_boxed, is_opaque
from search_spaces.spaces.parameters import Value

OVERHEAD = 24  # registers for addresses and counters
AFTER, INSIDE = "after_loop", "in_loop"  # when the lanes' and warps' parts of a carried sum are joined


def sum_name(number: int) -> str:
    """Return the parameter of a carried sum."""
    return f"sum_{number + 1}"


def map_warps(given: WgMap | NestedLayout) -> int:
    """Count the warps: a subgroup of a NestedLayout may be several."""
    return given.subgroups * (subgroup_lanes(given) // WARP if isinstance(given, NestedLayout) else 1)


def may_exchange(found: Iterable[Inference]) -> bool:
    """Whether some schedule may bring a value to other threads through shared memory."""
    return any(
        i.conversions
        or any(isinstance(o, ir.Convert) for o in i.made.values())
        or any(i.stored[p].kind in ("result", "swap") for p in range(len(i.stores)))
        for i in found
    )


def fitting(found: Inference, values: Mapping[str, Value]) -> Numbers | None:
    """Return the distributions of a schedule; None where they do not fit the tiles, which rules refuse."""
    try:
        made = numbers(found, values)
        for p in made.products:
            row = fragments(p.intrinsic)
            for d, size in ((0, row.m), (1, row.n)):
                if p.data[d] == 0 or p.data[d] % size or p.shape[d] % p.data[d]:
                    return None
            if p.groups[0] * p.groups[1] != made.warps:
                return None
        for a in made.anchors:
            if a.shape[a.along] % (a.columns * a.across * a.vector) or made.warps % a.across:
                return None
        if found.products and any(k % fragments(str(values["intrinsic"])).k for k in found.depths):
            return None
    except ValueError:
        return None
    return made


@dataclass(frozen=True)
class Needs:
    """What a schedule needs.

    Attributes:
        registers: Of a thread, at least.
        fragments: Registers among them that hold the fragments of a step.
        tiles: Shapes of the tiles that are exchanged, by the outermost loop around (None: outside of loops).
        joined: Bytes of reductions across warps, likewise, without those of ``sums``.
        sums: Bytes to join each sum that a loop carries, by its number, in the loop or behind it.
        why_not: Why no kernel of it can be made, or None.
    """

    registers: int = 0
    fragments: int = 0
    tiles: Mapping[int | None, frozenset[tuple[int, int]]] = field(default_factory=dict)
    joined: Mapping[int | None, int] = field(default_factory=dict)
    sums: Mapping[int, int] = field(default_factory=dict)
    why_not: str | None = None


def needs(found: Inference, values: Mapping[str, Value]) -> Needs:
    """Of the parameters that distributions depend on."""
    return _needs(found, tuple(values.items()))


@lru_cache(maxsize=2**16)
def _needs(found: Inference, items: tuple[tuple[str, Value], ...]) -> Needs:
    made = fitting(found, dict(items))
    if made is None:
        return Needs()
    reason = _why_not(found, made)
    if reason is not None:
        return Needs(why_not=reason)
    return Needs(_registers(found, made), _fragments(found, made), *_exchanges(found, made))


def _why_not(found: Inference, made: Numbers) -> str | None:
    """Return what no rule about one distribution sees: maps of other blocks, groups that cut across digits or
    subgroups."""
    for id_, given in found.given.items():
        if map_warps(given) != made.warps:
            source = found.made[id_].source
            return f"the map at {source} has {map_warps(given)} subgroups, and the block {made.warps}"
    for id_, operation in found.made.items():
        if not found.wanted.get(id_):
            continue
        try:
            for spread in _in_registers(found, made, operation.result, found.wanted[id_]):
                made.of(spread)
            if isinstance(operation, ir.Reduce) and operation.size < operation.value.shape[operation.dimension]:
                of = made.of(found.sources[id_])
                folded = of.folded(operation.dimension, operation.size)
                if of.used("warp", 0, operation.dimension) != folded.used("warp", 0, operation.dimension):
                    return f"groups of {operation.size} of the reduction at {operation.source} are split over subgroups"
        except ValueError as error:
            return f"{operation.source}: {error}"
    return None


def _in_registers(found: Inference, made: Numbers, value: ir.Value, spreads: Iterable[Spread]) -> list[Spread]:
    """Of ``spreads``, those in which threads have the value: wmma's operands come from shared memory."""
    opaque = bool(made.products) and is_opaque(made.products[0].intrinsic)
    return [s for s in spreads if not (opaque and is_staged(found, value, s))]


def _registers(found: Inference, made: Numbers) -> int:
    """In a loop, its states, the widest other value and fragments; elsewhere the widest value of all."""
    states = sum(made.of(spread).registers for spread in found.states.values())
    inside = outside = 0
    for id_ in found.heavy:
        for spread in found.computed_in(found.made[id_].result):
            count = made.of(spread).registers
            if found.inside[id_]:
                inside = max(inside, count)
            else:
                outside = max(outside, count)
    if not states:
        outside = max(
            [
                outside,
                *(
                    made.of(s).registers
                    for i in found.made.values()
                    for s in _in_registers(found, made, i.result, found.computed_in(i.result))
                ),
            ],
        )
    return max(states + inside + _fragments(found, made), outside) + OVERHEAD


def _fragments(found: Inference, made: Numbers) -> int:
    """Of the operands of one step of products."""
    most = 0
    for number, product in enumerate(made.products):
        if is_boxed(product.intrinsic):
            continue  # a and b stay in shared memory
        row = fragments(product.intrinsic)
        lefts, rights = found.operand_counts[number]
        most = max(
            most, lefts * row.a.registers * product.fragments[0] + rights * row.b.registers * product.fragments[1]
        )
    return most


def outermost(found: Inference, around: Iterable[int]) -> int | None:
    """Return the loop whose ring lives while what is in all loops of ``around`` runs; None outside of loops."""
    return next((number for number in around if number in found.loops), None)


def _exchanges(
    found: Inference, made: Numbers
) -> tuple[dict[int | None, frozenset[tuple[int, int]]], dict[int | None, int], dict[int, int]]:
    """Return the ``tiles``, ``joined`` and ``sums`` of Needs."""
    shapes: dict[int | None, set[tuple[int, int]]] = {}
    joined: dict[int | None, int] = {}
    sums = {r.result.id: 0 for r in found.sums.values()}

    def exchange(id_: int, source: Distribution, target: Distribution, forced: bool = False) -> None:
        if forced or (source != target and move(source, target, made.warps) is None):
            shapes.setdefault(outermost(found, found.inside[id_]), set()).add(source.shape)

    def join(place: int | None, size: int) -> None:
        joined[place] = max(joined.get(place, 0), size)

    for value, source, target in found.conversions:
        exchange(value.id, made.of(source), made.of(target))
    if made.products and is_opaque(made.products[0].intrinsic):
        for operation in found.made.values():
            if isinstance(operation, ir.Mma):
                around = found.inside[operation.result.id]
                behind = around if read_behind(found, operation) is None else around[:-1]
                join(outermost(found, behind), WARP_BYTES * made.warps)
    for id_ in found.moving:
        operation = found.made[id_]
        if not found.wanted.get(id_):
            continue
        if isinstance(operation, ir.Reduce):
            of = made.of(found.sources[id_])
            size = across_bytes(of, operation.dimension, of.folded(operation.dimension, operation.size))
            if id_ in sums:
                sums[id_] = size
            else:
                join(outermost(found, found.inside[id_]), size)
        if isinstance(operation, ir.Convert):
            own: Spread = found.natural.get(operation.value.id, found.natural[id_])
            exchange(id_, made.of(own), made.of(found.natural[id_]), operation.shared)
    return {place: frozenset(of) for place, of in shapes.items()}, joined, dict(enumerate(sums.values()))
