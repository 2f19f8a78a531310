"""Infer the distribution of every value of a program, as a symbolic expression that is valid for all schedules.

Anchors are the results and operands of products, maps written by the user, and blocks along memory lines for values
that no other anchor determines. Every other value has the distribution of one of its operands. Cheap values (loads,
constants, index vectors, and functions of only those) are *light*: they are recomputed in each distribution in which
they are used. If a heavy value is used in another distribution than its own, a conversion is inserted, so inference
cannot fail.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import lru_cache

from search_spaces.layouts.wg_map import WgMap
from search_spaces.programs.inference.inference import Anchor, Inference, Product, Spread, of_index, scale_spreads
from search_spaces.programs.inference.partial_sums import find_sums
from search_spaces.programs.inference.staged_loads import stage_loads
from search_spaces.programs.language import ir
from search_spaces.programs.language.functions import ONE_OF_GROUP
from search_spaces.programs.language.ir import Shape, line_dimension
from search_spaces.programs.language.places import resolve

MOST_PASSES = 6  # passes over a program after which the distributions of states no longer change


@lru_cache(maxsize=4096)
def infer(trace: ir.Trace, classes: tuple[int, ...] = ()) -> Inference:
    """Infer the distributions of a trace; moves are resolved first.

    Args:
        trace: The program.
        classes: Class number of each product in program order; products of a class share their subgroups. By default
            products of the same shape do.
    """
    resolved = resolve(trace)
    if not classes:
        shapes = [(o.result.shape, o.result.map) for o, _ in resolved.walk() if isinstance(o, ir.Mma)]
        classes = tuple(shapes.index(s) for s in shapes)
    found = _settled_states(resolved, classes)
    _name_products(found)
    find_sums(found)
    _backward(found, resolved.operations)
    stage_loads(found)
    if any(staged.advance == "gathered" for staged in found.staged.values()):
        found.wanted.clear()  # copies compute row numbers, so the loads of these need no distribution
        _backward(found, resolved.operations)
    return found


def _settled_states(trace: ir.Trace, classes: tuple[int, ...]) -> Inference:
    """Repeat inference until each state has the distribution of the values that are assigned to it.

    A state whose distribution still changes after MOST_PASSES passes, or within one pass, keeps it; assigned values are
    then converted.
    """
    states: dict[int, Spread] = {}
    fixed: frozenset[int] = frozenset()
    kept = list[Anchor]()
    shapes = {o.state: o.value.shape for o, _ in trace.walk() if isinstance(o, ir.Set)}
    for turn in itertools.count():
        found = Inference(trace, classes, states=dict(states), fixed=fixed, anchors=list(kept))
        _forward(found, trace.operations, ())
        changed = {state for state, spread in found.states.items() if states.get(state) != spread}
        states = found.states
        if changed:
            fixed = fixed | changed if turn >= MOST_PASSES else fixed
            continue
        reads = [o for o in found.made.values() if isinstance(o, ir.Read) and o.state in states]
        changing = {o.state for o in reads if found.natural.get(o.result.id) != states[o.state]}
        if changing:
            fixed = fixed | changing
            continue
        undecided = [state for state in shapes if state not in states]
        if not undecided:
            break
        for state in undecided:  # no assignment determines their distribution
            states[state] = _anchored(found, shapes[state], 1)
        kept = found.anchors
    for state, spread in found.states.items():
        _check_shape(spread, shapes[state])
        found.anchor(spread)
    return found


# Forwards: the natural distribution of each value ---------------------------------------------------------------------


def _forward(found: Inference, operations: tuple[ir.Operation, ...], around: tuple[int, ...]) -> None:
    for operation in operations:
        match operation:
            case ir.Loop():
                found.loops[operation.number] = operation
                _forward(found, operation.body, (*around, operation.number))
            case ir.If():
                _forward(found, operation.body, (*around, operation.number))
            case ir.Set(state, value):
                own = found.natural.get(value.id)
                if own is not None and state not in found.fixed and (around or state not in found.states):
                    found.states[state] = own
            case ir.StoreTile(value, window) | ir.AtomicRmw(_, value, window):
                if value.id not in found.natural:
                    _settle(found, value, _anchored(found, value.shape, line_dimension(window)))
                if isinstance(operation, ir.AtomicFetch):
                    result = operation.result.id
                    found.made[result], found.inside[result] = operation, around
                    found.natural[result], found.light[result] = found.natural[value.id], False
                found.stored[len(found.stores)] = found.natural[value.id]
                found.stores.append(operation)
                found.stored_in.append(around)
            case ir.FetchPart(states, others):
                found.states |= {o: found.states[s] for s, o in zip(states, others, strict=True) if s in found.states}
            case ir.Uniform(index, value):
                if value.id not in found.natural:
                    _settle(found, value, _anchored(found, value.shape, 1))
                found.uniform[index.number] = found.natural[value.id]
                found.scalars_in[index.number] = around
            case ir.LoadScalar():
                found.scalars[operation.index.number] = operation
                found.scalars_in[operation.index.number] = around
            case ir.FindTile():
                found.scalars_in |= {operation.group.number: around, operation.first.number: around}
            case ir.Prefetch() | ir.Move():
                pass
            case _:
                found.made[operation.result.id] = operation
                found.inside[operation.result.id] = around
                own = _own(found, operation)
                if own is not None:
                    _check_shape(own, operation.result.shape)
                found.light[operation.result.id] = _is_light(found, operation)
                if own is not None:
                    found.natural[operation.result.id] = own


def _is_light(found: Inference, operation: ir.Computing) -> bool:
    match operation:
        case ir.Broadcast():
            return not _cuts_across(found, operation)
        case ir.Fill() | ir.PassedScalar() | ir.Coordinates() | ir.PadTile():
            return True
        case ir.LoadTile() | ir.Map() | ir.TransposeTile() | ir.Reshape():
            return all(found.light[v.id] for v in ir.inputs(operation))
    return False


def _own(found: Inference, operation: ir.Computing) -> Spread | None:
    result = operation.result
    match operation:
        case ir.Mma():
            return Spread("result", result.shape, _product(found, operation))
        case ir.Read(_, state):
            held = found.states.get(state)
            if held is not None:
                found.anchor(held)
            return held
        case ir.Convert(_, value):
            if result.map is not None:
                found.given[result.id] = result.map
                return Spread("given", result.shape, result.id)
            return _anchored(found, result.shape, 1)
        case ir.LoadTile() | ir.Broadcast() if result.map is not None:  # users of the value prefer the map
            found.given[result.id] = result.map
            return Spread("given", result.shape, result.id)
        case ir.LoadTile(_, window) if not all(found.light[v.id] for v in ir.inputs(operation)):
            return _anchored(found, result.shape, line_dimension(window))
        case ir.ReduceTile(_, _, value, dimension):
            source = found.natural.get(value.id)
            if _is_split(found, source, dimension, operation):
                small = _anchored(found, result.shape, 1)
                source = small.expand(dimension, operation.size)
            elif source is None:
                source = _anchored(found, value.shape, 1)
                _settle(found, value, source)
            found.sources[result.id] = source
            return source.group(dimension, operation.size)
        case ir.Scan(_, _, value):
            own = found.natural.get(value.id)
            if own is None:
                own = _anchored(found, value.shape, 1)
                _settle(found, value, own)
            return own
        case ir.PadTile(_, value):
            if operation.wide is None and value.id not in found.natural:
                _settle(found, value, _anchored(found, value.shape, 1))
            return None
        case ir.Broadcast(_, value, dimension):
            own = found.natural.get(value.id)
            if _cuts_across(found, operation):
                return (own or _anchored(found, value.shape, 1)).expand(dimension, operation.size)
            if own is not None and own.kind in ("drop", "group") and own.of is not None and own.number == dimension:
                return own.of if own.of.shape == result.shape else None
            return None
        case ir.TransposeTile(_, value):
            own = found.natural.get(value.id)
            return None if own is None else own.swap()
        case ir.Reshape(_, value):
            own = found.natural.get(value.id)
            return None if own is None else own.reshape(result.shape)
        case ir.Map():
            owns = [(v, found.natural[v.id]) for v in ir.inputs(operation) if v.id in found.natural]
            heavy = [own for v, own in owns if not found.light[v.id]]
            return heavy[0] if heavy else owns[0][1] if owns else None
    return None


def _is_split(found: Inference, source: Spread | None, dimension: int, operation: ir.ReduceTile) -> bool:
    """Return True if groups of a reduction may be split between warps, lanes or registers.

    That is so for sizes that are not powers of two, for groups across the memory lines of blocks, and for groups that
    a user's map divides among several subgroups.
    """
    size = operation.size
    if size == operation.value.shape[dimension]:
        return False
    if source is None and operation.kind == ONE_OF_GROUP:
        return True  # slices of a loaded value load their part again
    if source is not None and source.kind == "blocked" and source.number != dimension:
        return True
    given = found.given.get(source.number) if source is not None and source.kind == "given" else None
    return size & (size - 1) != 0 or (isinstance(given, WgMap) and given.sg_data[dimension] % size != 0)


def _cuts_across(found: Inference, operation: ir.Broadcast) -> bool:
    """Return True if copies of one element may belong to several threads, because of sizes or user maps."""
    if operation.value.shape[operation.dimension] == 1:
        return False
    return operation.size & (operation.size - 1) != 0 or bool(found.given) or found.trace.mapped


def _product(found: Inference, operation: ir.Mma) -> int:
    """Return the number of the group to which a product belongs."""
    place = len(found.product_of)
    given = _result_map(operation)
    known = list(dict.fromkeys(found.classes))
    number = known.index(found.classes[place])
    if number == len(found.products):
        found.products.append(Product(number, operation.result.shape, given, "", operation.source))
    found.product_of[operation.result.id] = number
    return number


def _result_map(operation: ir.Mma) -> ir.Given | None:
    """Return the map of a product's result: the program's own, or the one that follows from both operands' maps."""
    a, b = operation.a.map, operation.b.map
    if operation.result.map is None and isinstance(a, WgMap) and isinstance(b, WgMap):
        return WgMap(a.sg_layout, (a.sg_data[0], b.sg_data[1]))
    return operation.result.map


def _name_products(found: Inference) -> None:
    """Number the suffixes of the groups of products; a single group has no suffix."""
    if len(found.products) > 1:
        found.products = [replace(p, suffix=f"_{p.number + 1}") for p in found.products]


def _anchored(found: Inference, shape: Shape, along: int) -> Spread:
    """Distribute a tile in blocks along memory lines; tiles of the same shape share this distribution."""
    spread = Spread("blocked", shape, 1 - along if shape[along] == 1 else along)
    found.anchor(spread)
    return spread


def _check_shape(spread: Spread, shape: Shape) -> None:
    assert spread.shape == shape, f"{spread} distributes {spread.shape}, not {shape}"


def _settle(found: Inference, value: ir.Value, spread: Spread) -> None:
    """Assign ``spread`` to ``value`` and to the undistributed values of the same shape that it is computed from."""
    if value.id in found.natural or value.shape != spread.shape:
        return
    found.natural[value.id] = spread
    operation = found.made[value.id]
    if isinstance(operation, ir.Map):
        for argument in ir.inputs(operation):
            _settle(found, argument, spread)


# Backwards: the distributions in which each value is used -------------------------------------------------------------


def _want(found: Inference, value: ir.Value, spread: Spread) -> None:
    _check_shape(spread, value.shape)
    wanted = found.wanted.setdefault(value.id, [])
    if spread not in wanted:
        wanted.append(spread)


def _backward(found: Inference, operations: tuple[ir.Operation, ...]) -> None:
    stores = len(found.stores)
    for operation in reversed(_flat(operations)):
        match operation:
            case ir.StoreTile() | ir.AtomicRmw():
                stores -= 1
                _want(found, operation.value, found.stored[stores])
                _want_index(found, operation.window, found.stored[stores])
            case ir.Set(state, value):
                _want(found, value, found.states[state])
            case ir.Uniform(index, value):
                _want(found, value, found.uniform[index.number])
            case ir.Prefetch() | ir.Move() | ir.Loop() | ir.If() | ir.LoadScalar() | ir.FindTile() | ir.FetchPart():
                pass
            case _:
                for spread in found.computed_in(operation.result):
                    _want_inputs(found, operation, spread)


def _want_index(found: Inference, window: ir.Window, spread: Spread) -> None:
    if window.index is not None:
        _want(found, window.index, of_index(window, spread))


def _flat(operations: tuple[ir.Operation, ...]) -> list[ir.Operation]:
    flat: list[ir.Operation] = []
    for operation in operations:
        flat += _flat(operation.body) if isinstance(operation, ir.Region) else [operation]
    return flat


def _want_inputs(found: Inference, operation: ir.Computing, spread: Spread) -> None:
    match operation:
        case ir.LoadTile(result, window):
            if (result.id, spread) not in found.staged:
                _want_index(found, window, spread)
        case ir.Mma(result, a, b, c):
            number = found.product_of[result.id]
            _want(found, a, Spread("left", a.shape, number))
            _want(found, b, Spread("right", b.shape, number))
            if c is not None:
                _want(found, c, spread)
            for scale, scaled in scale_spreads(operation, number):
                _want(found, scale, scaled)
        case ir.ReduceTile(result):
            for value in ir.inputs(operation):
                _want(found, value, found.sources[result.id])
        case ir.Scan(result, _, value):
            _want(found, value, found.natural[result.id])
        case ir.Broadcast(_, value, dimension):
            _want(found, value, spread.group(dimension, operation.size))
        case ir.TransposeTile(_, value):
            _want(found, value, spread.swap())
        case ir.Reshape(_, value):
            _want(found, value, spread.reshape(value.shape))
        case ir.Convert(_, value):
            _want(found, value, found.natural.get(value.id, spread))
        case ir.PadTile(_, value):
            if operation.wide is not None:
                _want(found, operation.wide, spread)
            else:
                _want(found, value, found.natural[value.id])
        case ir.Map():
            for value in ir.inputs(operation):
                _want(found, value, spread)
