"""Orders of sums of tile programs, derived from a schedule's distributions.

A sum over a tile first adds the registers of each thread in order, then lanes, then warps. Sums with at most one
nonzero term have the same bits in every order. Products are added in ascending order of k, in steps of their
instruction's k extent. If a loop only accumulates products, this order covers the whole loop, otherwise one iteration.
If blocks share a loop, each has a range of iterations. Atomics add in the order in which blocks run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from math import prod

from search_spaces.hardware.devices import Device
from search_spaces.hardware.intrinsics import intrinsic as intrinsic_row
from search_spaces.programs.inference.inference import Inference
from search_spaces.programs.language import ir
from search_spaces.programs.language.distribution import Digit, Distribution
from search_spaces.programs.planning.block_order import may_share_long_tiles, uneven
from search_spaces.programs.planning.choices import Choices, choices_of
from search_spaces.programs.planning.distributions import Distributions
from search_spaces.programs.planning.estimates import AFTER, fitting, sum_name
from search_spaces.programs.planning.instructions import is_boxed
from search_spaces.programs.planning.splits import ALL, LONG, TILES, accumulating, shared_loop, splittable
from search_spaces.programs.problem import ProgramProblem
from search_spaces.programs.schedules.decisions import parameters, shaping_names
from search_spaces.programs.schedules.streams import is_splittable
from search_spaces.spaces.parameters import Value
from search_spaces.spaces.sum_order import EXACT, OrderPart
from search_spaces.sum_orders.matmul import PRODUCTS, RANGES, instruction
from search_spaces.sum_orders.single_terms import has_one_term

_ANY_ORDER = (
    "max",
    "min",
    "and",
    "or",
    "xor",
)  # reductions whose names contain these words do not depend on the order


def program_parts(problem: ProgramProblem, device: Device) -> tuple[OrderPart, ...]:
    """Return the components that describe the order in which schedules of a tile program add the terms of sums."""
    choices = choices_of(problem)
    domains = tuple(choices.domains)
    parts = [*_splits(choices, problem, device)]
    if choices.first.products:
        parts.insert(0, OrderPart(PRODUCTS, ("intrinsic", *domains), _products(choices)))
    if sums := list(_sums(choices.first)):
        carried = tuple(sum_name(i) for i in range(len(choices.first.sums)))
        names = tuple(dict.fromkeys((*domains, *shaping_names(problem, device), *carried)))
        parts += [OrderPart(f"sum {k + 1}", names, _sum(choices, k)) for k, _ in enumerate(sums)]
        if any(_depends_on_block(loop) for loop in choices.first.loops.values()):
            parts.append(OrderPart("iterations of a tile", domains, _tiles(choices)))
    if any(_is_atomic_sum(o) for o, _ in choices.first.trace.walk()):
        parts.append(OrderPart("atomics", (), lambda: "in the order of blocks", lambda: True))
    return tuple(parts)


def _depends_on_block(loop: ir.Loop) -> bool:
    """Return True if the iterations of a loop depend on the tile that the block computes."""
    return bool(loop.first.axes or loop.stop.axes)


def _tiles(choices: Choices) -> Callable[..., str]:
    """Return a function that describes tiles whose numbers of iterations may differ, as in causal attention.

    A row is also affected by iterations that only other rows of the tile need: for example, rescaling with a factor
    near 1 rounds the row's sums. So rows have the same bits only in tiles of the same size.
    """

    def tiles(**values: Value) -> str:
        inference = choices.inference(values)
        trace, loops = inference.trace, [loop for loop in inference.loops.values() if _depends_on_block(loop)]
        bounds = [bound for loop in loops for bound in (loop.first, loop.stop)]
        known = not trace.is_dynamic and not any(bound.scalars or bound.arguments for bound in bounds)
        if known and uneven(inference) is None:  # all tiles have the same number of iterations
            return ", ".join(str(trace.iterations()[loop.number]) for loop in loops)
        axes = sorted({axis for bound in bounds for axis in bound.axes})
        return "as of tiles of " + " x ".join(str(trace.tile[axis]) for axis in axes) if axes else ""

    return tiles


def _rounds(kind: str, value: ir.Value) -> bool:
    """Return True if additions of such values are rounded, so that the result depends on the order."""
    return value.dtype.is_float and not any(word in kind for word in _ANY_ORDER)


def _is_atomic_sum(operation: ir.Operation) -> bool:
    return isinstance(operation, ir.AtomicRmw) and _rounds(operation.kind, operation.value)


def _sums(inference: Inference) -> Iterator[ir.ReduceTile | ir.Scan]:
    for operation in inference.definitions.values():
        if isinstance(operation, ir.ReduceTile | ir.Scan) and _rounds(operation.kind, operation.value):
            yield operation


def _products(choices: Choices) -> Callable[..., str]:
    def value(intrinsic: str, **sizes: Value) -> str:
        inference = choices.inference(sizes)
        name = (
            f"{intrinsic.partition('_')[0]}_k16_{intrinsic.rpartition('_')[2]}"
            if is_boxed(intrinsic)
            else instruction(intrinsic_row(intrinsic))
        )
        alone = accumulating(inference)
        depths = [
            operation.a.shape[1]
            for id_, operation in inference.definitions.items()
            if isinstance(operation, ir.Mma) and not (inference.inside[id_] and inference.inside[id_][-1] in alone)
        ]
        return name + (f", {' and '.join(map(str, depths))} at a time" if depths else "")

    return value


def _sum(choices: Choices, number: int) -> Callable[..., str]:
    def value(**values: Value) -> str:
        inference = choices.inference(values)
        distributions = fitting(inference, values)
        if distributions is None:
            return ""
        operation = list(_sums(inference))[number]
        if has_one_term(inference, operation):
            return f"{EXACT}, one term"
        return _joined(inference, distributions, operation, values)

    return value


def _joined(
    inference: Inference, distributions: Distributions, operation: ir.ReduceTile | ir.Scan, values: Mapping[str, Value]
) -> str:
    size = ""
    if isinstance(operation, ir.Scan):
        spread = inference.natural[operation.result.id]
    else:
        spread = inference.sources[operation.result.id]
        size = "" if operation.size == operation.value.shape[operation.dimension] else f" of {operation.size}"
    try:
        of = distributions.of(spread)
    except ValueError:
        return ""
    after = ""
    carried = [k for k, reduced in enumerate(inference.sums.values()) if reduced is operation]
    # The sum starts at zero. So with a single iteration, combining threads in the loop gives the same result as
    # combining them after it.
    repeated = _own_iterations(inference, inference.inside[operation.result.id][-1]) > 1 if carried else False
    if repeated and values.get(sum_name(carried[0])) == AFTER:
        after = ", threads joined after the loop"
    digits = _digits(of, operation.dimension, in_pairs=isinstance(operation, ir.ReduceTile))
    return f"{operation.kind}{size} over {digits}{after}"


def _own_iterations(inference: Inference, number: int) -> int:
    """Return the maximum number of iterations of a loop in one block."""
    return -(-inference.trace.iterations()[number] // max(1, inference.loops[number].parts))


def _digits(of: Distribution, dimension: int, *, in_pairs: bool) -> str:
    """Return how elements along a dimension are added: (count, stride) for each level, the innermost first.

    Registers of a thread are added sequentially, lanes of a warp pairwise. Two warps are added pairwise, more than two
    warps sequentially.

    Args:
        of: Distribution of the elements over threads and registers.
        dimension: Dimension along which elements are added.
        in_pairs: True if lanes are added pairwise; False for a scan.
    """
    weighted = [(digit, weight) for digit, weight in of.weighted(dimension) if digit.size > 1]
    registers, lanes, warps = (
        sorted(((d, w) for d, w in weighted if d.unit == unit), key=lambda one: one[0].stride)
        for unit in ("register", "lane", "warp")
    )
    in_pairs = in_pairs and all(digit.size & (digit.size - 1) == 0 for digit, _ in lanes)
    if in_pairs and prod(digit.size for digit, _ in warps) == 2:
        lanes, warps = [*lanes, *warps], []
    named = (("registers", registers), ("threads" if in_pairs else "lanes", lanes), ("warps", warps))
    texts = [f"{name} {' '.join(f'{size}x{weight}' for size, weight in _merged(own))}" for name, own in named if own]
    return ", ".join(texts) or "one element"


def _merged(digits: Iterable[tuple[Digit, int]]) -> list[tuple[int, int]]:
    """Return (count, stride) of each level, with adjacent levels merged if one continues the other."""
    merged: list[tuple[int, int]] = []
    for digit, weight in digits:
        if merged and merged[-1][0] * merged[-1][1] == weight:
            merged[-1] = merged[-1][0] * digit.size, merged[-1][1]
        else:
            merged.append((digit.size, weight))
    return merged


def _splits(choices: Choices, problem: ProgramProblem, device: Device) -> Iterator[OrderPart]:
    domains = tuple(choices.domains)
    if shared_loop(choices.first) is not None:

        def parts(**values: Value) -> str:
            inference = choices.inference(values)
            shared = shared_loop(inference)
            assert shared is not None
            # Blocks without iterations contribute neutral values, which do not change the result.
            loop = shared[0]
            iterations = inference.trace.iterations()[loop.number]
            count, each = min(loop.parts, iterations), -(-iterations // loop.parts)
            if count <= 1:
                return ""
            if each > 1 and values.get(TILES, ALL) == LONG:
                return f"a block for every {each} iterations"
            return f"{count} blocks share the loop"

        long = any(may_share_long_tiles(i) for i in choices.inferences.values())
        yield OrderPart("blocks of a loop", (*domains, TILES) if long else domains, parts)
    if not is_splittable(choices):
        return

    def ranges(split_k: int, stream_k: int, **values: Value) -> str:
        inference = choices.inference(values)
        loop = splittable(inference)
        assert loop is not None
        if stream_k:
            return f"stream-K in steps of {loop.step}"
        iterations = inference.trace.iterations()[loop.number]
        each = -(-iterations // split_k)
        return "one range" if each >= iterations else f"ranges of {each * loop.step}"

    yield OrderPart(RANGES, ("split_k", "stream_k", *domains), ranges, lambda split_k, stream_k, **values: stream_k > 0)
    names = {p.name for p in parameters(problem, device)}
    for name in (*domains, *(n for n in ("min_blocks", "raster") if n in names)):

        def dealt(stream_k: int, _name: str = name, **values: Value) -> str:
            return str(values[_name]) if stream_k else ""

        yield OrderPart(f"stream-K {name}", ("stream_k", name), dealt, lambda stream_k, **values: stream_k > 0)
