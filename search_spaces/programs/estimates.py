"""What a schedule of a program needs, from its distributions alone: registers, and shared memory of exchanges."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from search_spaces.hardware.intrinsics import intrinsic
from search_spaces.layouts.nested_layout import NestedLayout
from search_spaces.layouts.wg_map import WgMap
from search_spaces.programs import ir
from search_spaces.programs.distribution import Distribution, move, turned
from search_spaces.programs.infer import Inference, Spread
from search_spaces.programs.memory import across_bytes, exchange_bytes
from search_spaces.programs.numbers import Numbers, numbers
from search_spaces.programs.refs import fold
from search_spaces.spaces.parameters import Value

OVERHEAD = 24  # registers for addresses and counters


def map_warps(given: WgMap | NestedLayout) -> int:
    return given.subgroups


def may_exchange(found: Iterable[Inference]) -> bool:
    """Whether some schedule may bring a value to other threads through shared memory."""
    return any(
        i.conversions()
        or any(isinstance(o, ir.Convert) for o in i.made.values())
        or any(i.stored[p].kind in ("result", "swap") for p in range(len(i.stores)))
        for i in found
    )


def fitting(found: Inference, values: Mapping[str, Value]) -> Numbers | None:
    """The distributions of a schedule; None where they do not fit the tiles, which rules refuse."""
    try:
        made = numbers(found, values)
        for p in made.products:
            row = intrinsic(p.intrinsic)
            for d, size in ((0, row.m), (1, row.n)):
                if p.data[d] == 0 or p.data[d] % size or p.shape[d] % p.data[d]:
                    return None
            if p.groups[0] * p.groups[1] != made.warps:
                return None
        for a in made.anchors:
            if a.shape[a.along] % (a.columns * a.across * a.vector) or made.warps % a.across:
                return None
        for o, _ in found.trace.walk():
            if isinstance(o, ir.Mma) and o.a.shape[1] % intrinsic(str(values["intrinsic"])).k:
                return None
    except ValueError:
        return None
    return made


def why_not(found: Inference, values: Mapping[str, Value]) -> str | None:
    """What no rule about one distribution sees: groups that cut across digits or subgroups."""
    made = fitting(found, values)
    if made is None:
        return None
    for operation in found.made.values():
        if not found.wanted.get(operation.result.id):
            continue
        try:
            spreads = [*found.wanted[operation.result.id], *found.computed_in(operation.result)]
            for spread in spreads:
                made.of(spread)
            if isinstance(operation, ir.Reduce) and operation.size < operation.value.shape[operation.dimension]:
                of = made.of(found.sources[operation.result.id])
                folded, _ = fold(of, operation.dimension, operation.size)
                if of.used("warp", 0, operation.dimension) != folded.used("warp", 0, operation.dimension):
                    return f"groups of {operation.size} of the reduction at {operation.source} are split over subgroups"
        except ValueError as error:
            return f"{operation.source}: {error}"
    return None


def registers(found: Inference, values: Mapping[str, Value]) -> int:
    """Of a thread, at least: states, the widest other value, fragments, and operands that stay in registers."""
    made = fitting(found, values)
    if made is None:
        return 0
    try:
        return _registers(found, made)
    except ValueError:
        return 0


def _registers(found: Inference, made: Numbers) -> int:
    states = sum(made.of(spread).registers for spread in found.states.values())
    of_states = {o.value.id for o, _ in found.trace.walk() if isinstance(o, ir.Set)}
    widest, kept = 0, 0
    for id_, operation in found.made.items():
        if isinstance(operation, ir.Read | ir.Load | ir.Fill | ir.Coordinates | ir.Broadcast) or id_ in of_states:
            continue
        for spread in found.computed_in(operation.result):
            widest = max(widest, made.of(spread).registers)
    if not states:
        widest = max(
            [widest, *(made.of(s).registers for i in found.made.values() for s in found.computed_in(i.result))],
        )
    return states + widest + kept + _fragments(found, made) + OVERHEAD


def _fragments(found: Inference, made: Numbers) -> int:
    """Of the operands of one step of products."""
    if not made.products:
        return 0
    most = 0
    for number, product in enumerate(made.products):
        row = intrinsic(product.intrinsic)
        lefts = {id(o.a) for o, _ in found.trace.walk() if isinstance(o, ir.Mma) and found.product_of[o.result.id] == number}
        rights = {id(o.b) for o, _ in found.trace.walk() if isinstance(o, ir.Mma) and found.product_of[o.result.id] == number}
        most = max(
            most,
            len(lefts) * row.a.registers * product.fragments[0] + len(rights) * row.b.registers * product.fragments[1],
        )
    return most


def scratch(found: Inference, values: Mapping[str, Value], inside: bool) -> int:
    """Shared bytes of the exchanges in loops, or of those outside."""
    made = fitting(found, values)
    if made is None:
        return 0
    try:
        return max(_scratch(found, values, made, inside), default=0)
    except ValueError:
        return 0


def _scratch(found: Inference, values: Mapping[str, Value], made: Numbers, inside: bool) -> Iterable[int]:
    text = str(values.get("exchange", "identity"))
    around = found.inside

    def exchange(source: Distribution, target: Distribution, forced: bool = False) -> int:
        if not forced and (source == target or move(source, target, made.warps) is not None):
            return 0
        return exchange_bytes(text, source.shape)

    sums = {r.result.id for r in found.sums.values()}
    for value, source, target in found.conversions():
        if bool(around[value.id]) == inside:
            yield exchange(made.of(source), made.of(target))
    for id_, operation in found.made.items():
        if not found.wanted.get(id_):
            continue
        if isinstance(operation, ir.Reduce) and (bool(around[id_]) == inside or id_ in sums):
            of = made.of(found.sources[id_])
            yield across_bytes(of, operation.dimension, fold(of, operation.dimension, operation.size)[0])
        if isinstance(operation, ir.Convert) and bool(around[id_]) == inside:
            own: Spread = found.natural.get(operation.value.id, found.natural[id_])
            yield exchange(made.of(own), made.of(found.natural[id_]), operation.shared)
    for place, store in enumerate(found.stores):
        if values.get(f"store_{place + 1}") == "turned" and not inside:
            of = made.of(found.stored[place])
            yield exchange(of, turned(store.window, made.warps))
