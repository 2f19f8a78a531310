"""Estimate the registers that distributions need, and the shared memory for exchanges."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from search_spaces.hardware.fragments import WARP
from search_spaces.layouts.nested_layout import NestedLayout
from search_spaces.layouts.wg_map import WgMap
from search_spaces.programs.inference.inference import Inference, Spread
from search_spaces.programs.language import ir
from search_spaces.programs.language.layout_distributions import subgroup_lanes
from search_spaces.programs.language.moves import move
from search_spaces.programs.planning.distributions import (
    Distributions,
    anchor_tiling,
    distributions_of,
    product_tilings,
    warps_of,
)
from search_spaces.programs.planning.instructions import fragments, in_tensor_memory, is_boxed, is_wmma
from search_spaces.programs.planning.memory import across_bytes
from search_spaces.programs.planning.products_ahead import ahead
from search_spaces.programs.planning.scans import scan_bytes
from search_spaces.programs.planning.splits import combining_loop, fetched_states
from search_spaces.programs.planning.tensor_memory import stored_bytes, sums_stay
from search_spaces.programs.planning.wmma import WARP_BYTES, is_staged, loop_to_read_after
from search_spaces.spaces.parameters import Value

OVERHEAD = 24  # assumed registers of a thread for addresses and counters
STORED_A = "stored_a"  # key in ``Needs.joined``: bytes of left operands of tcgen05 that are computed in registers
# Values of the parameter sum_N: partial sums of threads are combined after the loop, or in each iteration.
AFTER, INSIDE = "after_loop", "in_loop"


def sum_name(number: int) -> str:
    """Return the name of the parameter that decides when partial sums of a state are combined."""
    return f"sum_{number + 1}"


def map_warps(user_map: WgMap | NestedLayout) -> int:
    """Return the number of warps of a user's map. A subgroup of a NestedLayout may have several warps."""
    return user_map.subgroups * (subgroup_lanes(user_map) // WARP if isinstance(user_map, NestedLayout) else 1)


def may_exchange(inferences: Iterable[Inference]) -> bool:
    """Return True if some schedule may redistribute a value through shared memory."""
    return any(
        i.conversions
        or any(isinstance(o, ir.Convert | ir.AtomicFetch) for o in i.definitions.values())
        or any(i.stored[p].kind in ("result", "swap") for p in range(len(i.stores)))
        for i in inferences
    )


def products_fit(inference: Inference, values: Mapping[str, Value]) -> bool:
    """Return True if every product can be divided into whole fragments among the warps.

    ``values`` may lack the lanes and widths of anchors.
    """
    warps = warps_of(inference, values)
    for p in product_tilings(inference, values):
        row = fragments(p.intrinsic)
        if p.groups[0] * p.groups[1] != warps:
            return False
        for d, size in ((0, row.m), (1, row.n)):
            if p.data[d] == 0 or p.data[d] % size or p.shape[d] % p.data[d]:
                return False
            round_ = p.data[d] * p.groups[d]  # extent of the sub-tiles of all subgroups together
            if p.shape[d] % round_ and round_ % p.shape[d]:
                return False
    return not (inference.products and any(k % fragments(str(values["intrinsic"])).k for k in inference.depths))


def anchor_fits(inference: Inference, number: int, warps: int, values: Mapping[str, Value]) -> bool:
    """Return True if lanes and warps can divide the tile of anchor ``number`` (from 1) without remainder.

    A line of the tile, which runs along ``Anchor.along``, is divided among the lanes and warps that share it.
    """
    anchor = inference.anchors[number - 1]
    line = anchor.shape[anchor.along]
    if line % (int(values[f"lanes_{number}"]) * int(values[f"width_{number}"])):
        return False
    a = anchor_tiling(inference, number, warps, values)
    return line % (a.columns * a.across * a.vector) == 0 and warps % a.across == 0


def fitting(inference: Inference, values: Mapping[str, Value]) -> Distributions | None:
    """Return the distributions of a schedule, or None if they do not fit the tiles. Rules exclude such schedules."""
    try:
        warps, anchors = warps_of(inference, values), range(1, len(inference.anchors) + 1)
        if products_fit(inference, values) and all(anchor_fits(inference, number, warps, values) for number in anchors):
            return distributions_of(inference, values)
    except ValueError:
        pass
    return None


@dataclass(frozen=True)
class Needs:
    """Resources that a schedule needs.

    Attributes:
        registers: Lower bound of the registers per thread.
        fragments: Number of these registers that hold operand fragments of one step along k.
        in_flight: Additional registers for the left operand of an iteration's last product, if a product is computed
            ahead.
        tiles: Shapes of the tiles that are exchanged through shared memory. The key is the outermost loop around the
            exchange (None: outside of loops).
        joined: Bytes of other exchanges, by the outermost loop and then by the id of the reduction's or scan's result.
            The inner key None stands for the conversion of wmma accumulators, and STORED_A for a computed operand of
            tcgen05.
        sums: Bytes for combining each partial sum across warps, by the sum's number. The schedule decides whether a sum
            is combined in the loop or after the loop.
        why_not: The reason why no kernel can be generated, or None.
    """

    registers: int = 0
    fragments: int = 0
    in_flight: int = 0
    tiles: Mapping[int | None, frozenset[tuple[int, int]]] = field(default_factory=dict)
    joined: Mapping[int | None, Mapping[int | str | None, int]] = field(default_factory=dict)
    sums: Mapping[int, int] = field(default_factory=dict)
    why_not: str | None = None


NOTHING = Needs()


def needs(inference: Inference, values: Mapping[str, Value]) -> Needs:
    """Return the needs of a schedule. ``values`` must have the parameters that distributions depend on."""
    return _needs(inference, tuple(values.items())) if _divides_lines(inference, values) else NOTHING


@lru_cache(maxsize=2**17)
def _needs(inference: Inference, items: tuple[tuple[str, Value], ...]) -> Needs:
    distributions = fitting(inference, dict(items))
    if distributions is None:
        return NOTHING
    used = _used(inference, bool(distributions.products) and is_wmma(distributions.products[0].intrinsic))
    reason = _why_not(inference, distributions, used)
    if reason is not None:
        return Needs(why_not=reason)
    return Needs(
        _registers(inference, distributions, used),
        _fragments(inference, distributions),
        _in_flight(inference, distributions),
        *_exchanges(inference, distributions, used),
    )


def _divides_lines(inference: Inference, values: Mapping[str, Value]) -> bool:
    """Return True if, in each anchor's tile, every lane gets the same number of whole vectors of a line.

    Most schedules fail this test.
    """
    return all(
        a.shape[a.along] % (int(values[f"lanes_{number}"]) * int(values[f"width_{number}"])) == 0
        for number, a in enumerate(inference.anchors, 1)
    )


@dataclass(frozen=True)
class _Used:
    """The distinct uses of symbolic distributions in a program, the same for all schedules.

    Attributes:
        held: Every distribution of a value in registers, and a source line that uses it.
        states: The distribution of each state.
        inside: Distributions of values in loops. The values need registers in addition to the registers of the states.
        outside: The same for values outside of loops.
        grouped: For each reduction of groups: distribution, dimension, group size, source line.
        moved: For each conversion: outermost loop, old and new distribution, True if always through shared memory.
        joined: For each reduction: outermost loop, result, distribution, dimension, group size, words per element; the
            loop is None for partial sums of a state.
        scanned: For each scan: outermost loop, result, distribution, dimension.
        wmma_loops: Outermost loops in which wmma accumulators are converted through shared memory.
    """

    held: tuple[tuple[Spread, ir.Source], ...]
    states: tuple[Spread, ...]
    inside: tuple[Spread, ...]
    outside: tuple[Spread, ...]
    grouped: tuple[tuple[Spread, int, int, ir.Source], ...]
    moved: tuple[tuple[int | None, Spread, Spread, bool], ...]
    joined: tuple[tuple[int | None, int, Spread, int, int, int], ...]
    scanned: tuple[tuple[int | None, int, Spread, int], ...]
    wmma_loops: tuple[int | None, ...]


@lru_cache(maxsize=1024)
def _used(inference: Inference, wmma: bool) -> _Used:
    held: dict[Spread, ir.Source] = {}
    grouped, joined, moved, read = [], [], list[tuple[int | None, Spread, Spread, bool]](), []
    scanned = list[tuple[int | None, int, Spread, int]]()
    sums = {reduce.result.id for reduce in inference.sums.values()}
    for value, source, target in inference.conversions:
        moved.append((outermost(inference, inference.inside[value.id]), source, target, False))
    for id_, operation in inference.definitions.items():
        wanted, outer = inference.wanted.get(id_), outermost(inference, inference.inside[id_])
        if wmma and isinstance(operation, ir.Mma):
            around = inference.inside[id_]
            read.append(
                outermost(inference, around if loop_to_read_after(inference, operation) is None else around[:-1])
            )
        # One thread fetches an old value, and sends it to the threads that hold copies.
        if isinstance(operation, ir.AtomicFetch):
            moved.append((outer, inference.natural[id_], inference.natural[id_], True))
        if not wanted:
            continue
        for spread in _in_registers(inference, wmma, operation.result, wanted):
            held.setdefault(spread, operation.source)
        if isinstance(operation, ir.ReduceTile):
            of, d, size = inference.sources[id_], operation.dimension, operation.size
            if size < operation.value.shape[d]:
                grouped.append((of, d, size, operation.source))
            words = 1 if operation.index is None else 2
            joined.append((None if id_ in sums else outer, id_, of, d, size, words))
        if isinstance(operation, ir.Scan):
            scanned.append((outer, id_, inference.natural[id_], operation.dimension))
        if isinstance(operation, ir.Convert):
            own = inference.natural.get(operation.value.id, inference.natural[id_])
            moved.append((outer, own, inference.natural[id_], operation.shared))
    heavy = [
        (id_, spread) for id_ in inference.heavy for spread in inference.computed_in(inference.definitions[id_].result)
    ]
    outside = [spread for id_, spread in heavy if not inference.inside[id_]]
    # States of other blocks need no registers, as they are loaded and combined element by element.
    copies = fetched_states(inference)
    inside = [
        spread
        for id_, spread in heavy
        if inference.inside[id_] and combining_loop(inference) not in inference.inside[id_]
    ]
    if not inference.states:
        for operation in inference.definitions.values():
            outside += _in_registers(inference, wmma, operation.result, inference.computed_in(operation.result))
    return _Used(
        held=tuple(held.items()),
        states=tuple(spread for state, spread in inference.states.items() if state not in copies),
        inside=tuple(dict.fromkeys(inside)),
        outside=tuple(dict.fromkeys(outside)),
        grouped=tuple(dict.fromkeys(grouped)),
        moved=tuple(dict.fromkeys(moved)),
        joined=tuple(dict.fromkeys(joined)),
        scanned=tuple(dict.fromkeys(scanned)),
        wmma_loops=tuple(dict.fromkeys(read)),
    )


def _why_not(inference: Inference, distributions: Distributions, used: _Used) -> str | None:
    """Return why distributions conflict (wrong number of warps, or groups split among subgroups), or None."""
    for id_, user_map in inference.user_maps.items():
        if map_warps(user_map) != distributions.warps:
            source = inference.definitions[id_].source
            return f"the map at {source} has {map_warps(user_map)} subgroups, but the block has {distributions.warps}"
    for spread, source in used.held:
        try:
            distributions.of(spread)
        except ValueError as error:
            return f"{source}: {error}"
    for spread, dimension, size, source in used.grouped:
        try:
            of = distributions.of(spread)
            folded = of.folded(dimension, size)
        except ValueError as error:
            return f"{source}: {error}"
        if of.used("warp", 0, dimension) != folded.used("warp", 0, dimension):
            return f"groups of {size} of the reduction at {source} are split among subgroups"
    return None


def _in_registers(inference: Inference, wmma: bool, value: ir.Value, spreads: Iterable[Spread]) -> list[Spread]:
    """Return the distributions of a value that need registers. Operands of wmma stay in shared memory."""
    return [s for s in spreads if not (wmma and is_staged(inference, value, s))]


def _registers(inference: Inference, distributions: Distributions, used: _Used) -> int:
    """Return a lower bound of the registers per thread: the maximum over loops and the code outside of loops.

    Loops need registers for all states, for fragments, and for the largest of the other values. Code outside of loops
    needs registers for the largest value.
    """
    states = sum(distributions.of(spread).registers for spread in used.states)
    inside = max((distributions.of(spread).registers for spread in used.inside), default=0)
    outside = max((distributions.of(spread).registers for spread in used.outside), default=0)
    return max(states + inside + _fragments(inference, distributions), outside) + OVERHEAD


def _fragments(inference: Inference, distributions: Distributions) -> int:
    """Return the registers for the operands of products in one step along k."""
    most = 0
    for number, product in enumerate(distributions.products):
        if is_boxed(product.intrinsic):
            continue  # these instructions read a and b from shared memory, not from registers
        row = fragments(product.intrinsic)
        lefts, rights = inference.operand_counts[number]
        most = max(
            most, lefts * row.a.registers * product.fragments[0] + rights * row.b.registers * product.fragments[1]
        )
    return most


def _in_flight(inference: Inference, distributions: Distributions) -> int:
    """Return the number of registers that hold the left operand of the last product (``Ahead.last``).

    The product may still be in flight during the next iteration, so the registers cannot be used for other values.
    """
    loop = ahead(inference)
    if loop is None:
        return 0
    left = loop.last.a
    spread = Spread("left", left.shape, inference.product_of[loop.last.result.id])
    return distributions.of(spread).registers * left.dtype.bits // 32


def outermost(inference: Inference, around: Iterable[int]) -> int | None:
    """Return the outermost of the loops ``around``; None without loops.

    Its ring is in use during all inner loops. The loop that combines the partial results of a split loop has no ring
    and is ignored.
    """
    return next(
        (number for number in around if number in inference.loops and number != combining_loop(inference)), None
    )


def _exchanges(
    inference: Inference, distributions: Distributions, used: _Used
) -> tuple[dict[int | None, frozenset[tuple[int, int]]], dict[int | None, dict[int | str | None, int]], dict[int, int]]:
    """Return the attributes ``tiles``, ``joined`` and ``sums`` of ``Needs``."""
    shapes: dict[int | None, set[tuple[int, int]]] = {}
    joined: dict[int | None, dict[int | str | None, int]] = {
        outer: {None: WARP_BYTES * distributions.warps} for outer in used.wmma_loops
    }
    if distributions.products and in_tensor_memory(distributions.products[0].intrinsic) and not sums_stay(inference):
        for operation in inference.definitions.values():
            if isinstance(operation, ir.Mma) and (size := stored_bytes(inference, operation)):
                parts = joined.setdefault(outermost(inference, inference.inside[operation.result.id]), {})
                parts[STORED_A] = max(parts.get(STORED_A, 0), size)
    sums = {r.result.id: 0 for r in inference.sums.values()}
    for outer, from_, to, forced in used.moved:
        source, target = distributions.of(from_), distributions.of(to)
        if forced or (source != target and move(source, target, distributions.warps) is None):
            shapes.setdefault(outer, set()).add(target.shape)
    for outer, result, spread, dimension in used.scanned:
        needed = scan_bytes(distributions.of(spread), dimension, distributions.warps)
        if needed:
            joined.setdefault(outer, {})[result] = needed
    for outer, result, spread, dimension, size, words in used.joined:
        of = distributions.of(spread)
        needed = words * across_bytes(of, dimension, of.folded(dimension, size))
        if result in sums:
            sums[result] = needed
        elif needed:
            joined.setdefault(outer, {})[result] = needed
    return {outer: frozenset(of) for outer, of in shapes.items()}, joined, dict(enumerate(sums.values()))
