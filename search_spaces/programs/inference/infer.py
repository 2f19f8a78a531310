"""Infer the distribution of every value of a program, as a symbolic expression that is valid for all schedules.

Inference starts at anchors, values whose distribution does not follow from other values. Anchors are the results and
operands of products, and values whose map the user wrote. If no such anchor determines the distribution of a value, the
value is distributed in blocks, along lines that are contiguous in memory. Every other value has the distribution of one
of the operands from which it is computed.

Cheap values are *light*: they are recomputed in each distribution in which they are used. Light values are loads,
constants, index vectors, and functions of only these values. All other values are *heavy*: they are computed in one
distribution. If a heavy value is used in another distribution, a conversion is inserted. So inference never fails.
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
from search_spaces.programs.language.window_positions import resolve

MOST_PASSES = 6  # maximum number of inference passes; afterwards, states keep their latest distribution


@lru_cache(maxsize=4096)
def infer(trace: ir.Trace, classes: tuple[int, ...] = ()) -> Inference:
    """Infer the distributions of a traced program. Moves of windows are first replaced by explicit positions.

    Args:
        trace: The program.
        classes: Class number of each product in program order. Products of one class are divided among subgroups alike.
            By default a class contains the products of one shape.
    """
    resolved = resolve(trace)
    if not classes:
        shapes = [(o.result.shape, o.result.map) for o, _ in resolved.walk() if isinstance(o, ir.Mma)]
        classes = tuple(shapes.index(s) for s in shapes)
    inference = _settled_states(resolved, classes)
    _name_products(inference)
    find_sums(inference)
    _backward(inference, resolved.operations)
    stage_loads(inference)
    if any(staged.advance == "gathered" for staged in inference.staged.values()):
        inference.wanted.clear()  # Copies compute row indices themselves, so loads of row indices need no distribution.
        _backward(inference, resolved.operations)
    return inference


def _settled_states(trace: ir.Trace, classes: tuple[int, ...]) -> Inference:
    """Infer distributions, pass by pass, until each state has the distribution of the values assigned to it.

    A state becomes fixed in two cases: if its distribution still changes from pass to pass after MOST_PASSES passes, or
    if a pass reads the state in another distribution than it has at the end of the pass. A fixed state keeps its
    distribution, and values assigned to it are converted.
    """
    states: dict[int, Spread] = {}
    fixed: frozenset[int] = frozenset()
    anchors = list[Anchor]()
    shapes = {o.state: o.value.shape for o, _ in trace.walk() if isinstance(o, ir.Set)}
    for number_of_passes in itertools.count():
        inference = Inference(trace, classes, states=dict(states), fixed=fixed, anchors=list(anchors))
        _forward(inference, trace.operations, ())
        changed = {state for state, spread in inference.states.items() if states.get(state) != spread}
        states = inference.states
        if changed:
            fixed = fixed | changed if number_of_passes >= MOST_PASSES else fixed
            continue
        reads = [o for o in inference.definitions.values() if isinstance(o, ir.Read) and o.state in states]
        changing = {o.state for o in reads if inference.natural.get(o.result.id) != states[o.state]}
        if changing:
            fixed = fixed | changing
            continue
        undecided = [state for state in shapes if state not in states]
        if not undecided:
            break
        for state in undecided:  # no distribution follows from the values assigned to these states: use the blocked one
            states[state] = _anchored(inference, shapes[state], 1)
        anchors = inference.anchors
    for state, spread in inference.states.items():
        _check_shape(spread, shapes[state])
        inference.anchor(spread)
    return inference


# Forward pass: infer the distribution in which each value is computed
# ---------------------------------------------------------------------


def _forward(inference: Inference, operations: tuple[ir.Operation, ...], around: tuple[int, ...]) -> None:
    for operation in operations:
        match operation:
            case ir.Loop():
                inference.loops[operation.number] = operation
                _forward(inference, operation.body, (*around, operation.number))
            case ir.If():
                _forward(inference, operation.body, (*around, operation.number))
            case ir.Set(state, value):
                own = inference.natural.get(value.id)
                if own is not None and state not in inference.fixed and (around or state not in inference.states):
                    inference.states[state] = own
            case ir.StoreTile(value, window) | ir.AtomicRmw(_, value, window):
                if value.id not in inference.natural:
                    _settle(inference, value, _anchored(inference, value.shape, line_dimension(window)))
                if isinstance(operation, ir.AtomicFetch):
                    result = operation.result.id
                    inference.definitions[result], inference.inside[result] = operation, around
                    inference.natural[result], inference.light[result] = inference.natural[value.id], False
                inference.stored[len(inference.stores)] = inference.natural[value.id]
                inference.stores.append(operation)
                inference.stored_in.append(around)
            case ir.FetchPart(states, copies):
                inference.states |= {
                    o: inference.states[s] for s, o in zip(states, copies, strict=True) if s in inference.states
                }
            case ir.Uniform(index, value):
                if value.id not in inference.natural:
                    _settle(inference, value, _anchored(inference, value.shape, 1))
                inference.uniform[index.number] = inference.natural[value.id]
                inference.scalars_in[index.number] = around
            case ir.LoadScalar():
                inference.scalars[operation.index.number] = operation
                inference.scalars_in[operation.index.number] = around
            case ir.FindTile():
                inference.scalars_in |= {operation.group.number: around, operation.first.number: around}
            case ir.Prefetch() | ir.Move():
                pass
            case _:
                inference.definitions[operation.result.id] = operation
                inference.inside[operation.result.id] = around
                own = _own(inference, operation)
                if own is not None:
                    _check_shape(own, operation.result.shape)
                inference.light[operation.result.id] = _is_light(inference, operation)
                if own is not None:
                    inference.natural[operation.result.id] = own


def _is_light(inference: Inference, operation: ir.Computing) -> bool:
    match operation:
        case ir.Broadcast():
            return not _cuts_across(inference, operation)
        case ir.Fill() | ir.PassedScalar() | ir.Coordinates() | ir.PadTile():
            return True
        case ir.LoadTile() | ir.Map() | ir.TransposeTile() | ir.Reshape():
            return all(inference.light[v.id] for v in ir.inputs(operation))
    return False


def _own(inference: Inference, operation: ir.Computing) -> Spread | None:
    result = operation.result
    match operation:
        case ir.Mma():
            return Spread("result", result.shape, _product(inference, operation))
        case ir.Read(_, state):
            held = inference.states.get(state)
            if held is not None:
                inference.anchor(held)
            return held
        case ir.Convert(_, value):
            if result.map is not None:
                inference.user_maps[result.id] = result.map
                return Spread("user_map", result.shape, result.id)
            return _anchored(inference, result.shape, 1)
        case ir.LoadTile() | ir.Broadcast() if result.map is not None:  # a map that the user wrote has priority
            inference.user_maps[result.id] = result.map
            return Spread("user_map", result.shape, result.id)
        case ir.LoadTile(_, window) if not all(inference.light[v.id] for v in ir.inputs(operation)):
            return _anchored(inference, result.shape, line_dimension(window))
        case ir.ReduceTile(_, _, value, dimension):
            source = inference.natural.get(value.id)
            if _is_split(inference, source, dimension, operation):
                small = _anchored(inference, result.shape, 1)
                source = small.expand(dimension, operation.size)
            elif source is None:
                source = _anchored(inference, value.shape, 1)
                _settle(inference, value, source)
            inference.sources[result.id] = source
            return source.group(dimension, operation.size)
        case ir.Scan(_, _, value):
            own = inference.natural.get(value.id)
            if own is None:
                own = _anchored(inference, value.shape, 1)
                _settle(inference, value, own)
            return own
        case ir.PadTile(_, value):
            if operation.wide is None and value.id not in inference.natural:
                _settle(inference, value, _anchored(inference, value.shape, 1))
            return None
        case ir.Broadcast(_, value, dimension):
            own = inference.natural.get(value.id)
            if _cuts_across(inference, operation):
                return (own or _anchored(inference, value.shape, 1)).expand(dimension, operation.size)
            if own is not None and own.kind in ("drop", "group") and own.of is not None and own.number == dimension:
                return own.of if own.of.shape == result.shape else None
            return None
        case ir.TransposeTile(_, value):
            own = inference.natural.get(value.id)
            return None if own is None else own.swap()
        case ir.Reshape(_, value):
            own = inference.natural.get(value.id)
            return None if own is None else own.reshape(result.shape)
        case ir.Map():
            owns = [(v, inference.natural[v.id]) for v in ir.inputs(operation) if v.id in inference.natural]
            heavy = [own for v, own in owns if not inference.light[v.id]]
            return heavy[0] if heavy else owns[0][1] if owns else None
    return None


def _is_split(inference: Inference, source: Spread | None, dimension: int, operation: ir.ReduceTile) -> bool:
    """Return True if groups of a reduction may be split between warps, lanes or registers.

    A group is the ``size`` elements that are reduced to one. A group may be split if ``size`` is not a power of two, if
    a blocked distribution vectorizes along the other dimension, or if a user's map divides the group among subgroups.
    """
    size = operation.size
    if size == operation.value.shape[dimension]:
        return False
    if source is None and operation.kind == ONE_OF_GROUP:
        return True  # its operand is a slice of a loaded value, which can be loaded again in any distribution
    if source is not None and source.kind == "blocked" and source.number != dimension:
        return True
    user_map = inference.user_maps.get(source.number) if source is not None and source.kind == "user_map" else None
    return size & (size - 1) != 0 or (isinstance(user_map, WgMap) and user_map.sg_data[dimension] % size != 0)


def _cuts_across(inference: Inference, operation: ir.Broadcast) -> bool:
    """Return True if several threads may hold copies of an element.

    This is possible if the number of copies is not a power of two, or if the user distributes values by maps.
    """
    if operation.value.shape[operation.dimension] == 1:
        return False
    return operation.size & (operation.size - 1) != 0 or bool(inference.user_maps) or inference.trace.mapped


def _product(inference: Inference, operation: ir.Mma) -> int:
    """Return the index of the group to which a product belongs."""
    position = len(inference.product_of)
    user_map = _result_map(operation)
    known = list(dict.fromkeys(inference.classes))
    number = known.index(inference.classes[position])
    if number == len(inference.products):
        inference.products.append(Product(number, operation.result.shape, user_map, "", operation.source))
    inference.product_of[operation.result.id] = number
    return number


def _result_map(operation: ir.Mma) -> ir.UserMap | None:
    """Return the user's distribution of a matrix product's result over threads, or None.

    A distribution that the user gives for the result has priority. Otherwise, the distributions of both operands are
    combined.
    """
    a, b = operation.a.map, operation.b.map
    if operation.result.map is None and isinstance(a, WgMap) and isinstance(b, WgMap):
        return WgMap(a.sg_layout, (a.sg_data[0], b.sg_data[1]))
    return operation.result.map


def _name_products(inference: Inference) -> None:
    """Number the groups of products, for the suffixes of their parameter names; a single group has no suffix."""
    if len(inference.products) > 1:
        inference.products = [replace(p, suffix=f"_{p.number + 1}") for p in inference.products]


def _anchored(inference: Inference, shape: Shape, along: int) -> Spread:
    """Return the blocked distribution with lines along a dimension. All tiles of this shape share this distribution."""
    spread = Spread("blocked", shape, 1 - along if shape[along] == 1 else along)
    inference.anchor(spread)
    return spread


def _check_shape(spread: Spread, shape: Shape) -> None:
    assert spread.shape == shape, f"{spread} distributes {spread.shape}, not {shape}"


def _settle(inference: Inference, value: ir.Value, spread: Spread) -> None:
    """Assign ``spread`` to ``value`` and, recursively, to operands of the same shape that have no distribution yet."""
    if value.id in inference.natural or value.shape != spread.shape:
        return
    inference.natural[value.id] = spread
    operation = inference.definitions[value.id]
    if isinstance(operation, ir.Map):
        for argument in ir.inputs(operation):
            _settle(inference, argument, spread)


# Backward pass: collect the distributions in which each value is used
# -------------------------------------------------------------


def _want(inference: Inference, value: ir.Value, spread: Spread) -> None:
    _check_shape(spread, value.shape)
    wanted = inference.wanted.setdefault(value.id, [])
    if spread not in wanted:
        wanted.append(spread)


def _backward(inference: Inference, operations: tuple[ir.Operation, ...]) -> None:
    stores = len(inference.stores)
    for operation in reversed(_flat(operations)):
        match operation:
            case ir.StoreTile() | ir.AtomicRmw():
                stores -= 1
                _want(inference, operation.value, inference.stored[stores])
                _want_index(inference, operation.window, inference.stored[stores])
            case ir.Set(state, value):
                _want(inference, value, inference.states[state])
            case ir.Uniform(index, value):
                _want(inference, value, inference.uniform[index.number])
            case ir.Prefetch() | ir.Move() | ir.Loop() | ir.If() | ir.LoadScalar() | ir.FindTile() | ir.FetchPart():
                pass
            case _:
                for spread in inference.computed_in(operation.result):
                    _want_inputs(inference, operation, spread)


def _want_index(inference: Inference, window: ir.Window, spread: Spread) -> None:
    if window.index is not None:
        _want(inference, window.index, of_index(window, spread))


def _flat(operations: tuple[ir.Operation, ...]) -> list[ir.Operation]:
    flat: list[ir.Operation] = []
    for operation in operations:
        flat += _flat(operation.body) if isinstance(operation, ir.Region) else [operation]
    return flat


def _want_inputs(inference: Inference, operation: ir.Computing, spread: Spread) -> None:
    match operation:
        case ir.LoadTile(result, window):
            if (result.id, spread) not in inference.staged:
                _want_index(inference, window, spread)
        case ir.Mma(result, a, b, c):
            number = inference.product_of[result.id]
            _want(inference, a, Spread("left", a.shape, number))
            _want(inference, b, Spread("right", b.shape, number))
            if c is not None:
                _want(inference, c, spread)
            for scale, scaled in scale_spreads(operation, number):
                _want(inference, scale, scaled)
        case ir.ReduceTile(result):
            for value in ir.inputs(operation):
                _want(inference, value, inference.sources[result.id])
        case ir.Scan(result, _, value):
            _want(inference, value, inference.natural[result.id])
        case ir.Broadcast(_, value, dimension):
            _want(inference, value, spread.group(dimension, operation.size))
        case ir.TransposeTile(_, value):
            _want(inference, value, spread.swap())
        case ir.Reshape(_, value):
            _want(inference, value, spread.reshape(value.shape))
        case ir.Convert(_, value):
            _want(inference, value, inference.natural.get(value.id, spread))
        case ir.PadTile(_, value):
            if operation.wide is not None:
                _want(inference, operation.wide, spread)
            else:
                _want(inference, value, inference.natural[value.id])
        case ir.Map():
            for value in ir.inputs(operation):
                _want(inference, value, spread)
