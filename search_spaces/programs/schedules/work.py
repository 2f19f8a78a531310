"""Count the work of one block: instructions, products and memory traffic, operation by operation."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache

from search_spaces.hardware.costs.bank_conflicts import fragment_traffic
from search_spaces.hardware.costs.data_movement import CopyPlan
from search_spaces.hardware.costs.transactions import SECTOR_BYTES, WIDEST_BYTES
from search_spaces.hardware.dtypes import DType
from search_spaces.hardware.fragments import WARP
from search_spaces.programs.inference.inference import Inference, Spread, Staged
from search_spaces.programs.language import ir
from search_spaces.programs.language.distribution import Distribution
from search_spaces.programs.language.functions import FUNCTIONS
from search_spaces.programs.language.layout_distributions import transposed_distribution
from search_spaces.programs.language.moves import Renamed, Shuffled, move
from search_spaces.programs.planning.block_order import blocks_per_tile
from search_spaces.programs.planning.boxes import BoxedNumbers
from search_spaces.programs.planning.distributions import Distributions, ProductTiling
from search_spaces.programs.planning.exchange import reading, wavefronts
from search_spaces.programs.planning.instructions import WARPS, fragments, in_tensor_memory, is_boxed, is_wmma, rows_of
from search_spaces.programs.planning.memory import exchange_layout
from search_spaces.programs.planning.packed import packed_width
from search_spaces.programs.planning.scans import scan_instructions
from search_spaces.programs.planning.splits import TILES, combining_loop, split_of
from search_spaces.programs.planning.staging import StagedNumbers, in_shared, staged_plan
from search_spaces.programs.planning.tails import peeled, reaches_beyond, without_last_iteration
from search_spaces.programs.planning.tensor_memory import stored_bytes, sums_stay
from search_spaces.programs.planning.uniform import masking
from search_spaces.programs.planning.wmma import loop_to_read_after
from search_spaces.spaces.config import Config
from search_spaces.spaces.parameters import Value

ISSUED_PER_COPY = 4  # warp instructions per cp.async that fills a box, including the address
PICK_INSTRUCTIONS = 4  # instructions that compare two elements with their indices and select one
SEARCH = 30  # warp instructions of find_tile for every 32 groups: load offsets, count tiles, add
SCALAR = 8  # warp instructions to load and clamp a scalar, including the address
LINE_BYTES = 128  # bytes that shared memory transfers per cycle
# prefixes of the parameters that decide how an operand is copied and read
COPY_PREFIXES = (
    "layout",
    "copy",
    "vector",
    "copy_columns",
)
# prefixes of all other parameters that affect the work
OTHER_PREFIXES = (
    "store_",
    "home_",
    "split_k",
    TILES,
    "tail",
    "intrinsic",
)
# Instructions per element, counted in kernels that NVRTC 13.5 compiled for sm_90a. Elements are converted in pairs.
ROUNDED = 0.5  # from f32 to f16 or bf16
WIDENED = {("e4m3", "bf16"): 2.0, ("i8", "f16"): 1.25}  # from 8-bit to 16-bit types, with f32 as the intermediate type
# Instructions per e4m3 scale, by the type of the unpacked numbers, including 0.75 instructions to gather four
# scales in a word.
SCALE = {"f16": 1.25, "bf16": 3.25}
WMMA_WAVEFRONTS = 8  # shared-memory cycles to store a 16 x 16 fragment in f32, or to load it
WMMA_READ = 12  # instructions to store a 16 x 16 fragment, wait, and load it
STORE_WORD = 2  # assumption: instructions to store a word of a computed operand, including the address
MOST_SAMPLED = 64  # maximum number of blocks that are sampled to average their numbers of iterations


@dataclass
class BlockWork:
    """The work of a block.

    Attributes:
        instructions: Number of warp instructions.
        special: Number of results of the special-function unit.
        wavefronts: Number of shared-memory cycles.
        load_bytes: Bytes loaded from global memory.
        store_bytes: Bytes stored to global memory.
        flops: Number of floating-point operations of products.
    """

    instructions: float = 0.0
    special: float = 0.0
    wavefronts: float = 0.0
    load_bytes: float = 0.0
    store_bytes: float = 0.0
    flops: float = 0.0

    def times(self, count: float) -> BlockWork:
        """Return the work multiplied by ``count``."""
        return BlockWork(**{f.name: getattr(self, f.name) * count for f in dataclasses.fields(BlockWork)})

    def __add__(self, other: BlockWork) -> BlockWork:
        return BlockWork(**{f.name: getattr(self, f.name) + getattr(other, f.name) for f in dataclasses.fields(self)})


class _Counter(BlockWork):
    """Adds up the work of a block, operation by operation.

    ``of_values``: True to count the work on values in registers; False to count copies and reads of tiles in shared
    memory.
    """

    def __init__(
        self, inference: Inference, values: Mapping[str, Value], distributions: Distributions, of_values: bool
    ) -> None:
        super().__init__()
        self.inference, self.values, self.distributions, self.of_values = inference, values, distributions, of_values
        self.keys = in_shared(inference, values)
        self.staged: dict[str, StagedNumbers | BoxedNumbers] = (
            {} if of_values else {s.name: operand_plan(inference, s, values, distributions) for s in self.keys.values()}
        )
        self.stores = 0
        self.split = split_of(inference, values)
        self.read: set[tuple[int, str]] = set()
        self.iterations = inference.trace.iterations()
        self.peeled = peeled(inference, values)
        self.masking = masking(inference)
        self.scales = _scales_of_fp4(inference)
        self.inside = False  # True while operations in a loop are counted
        self.unstaged_bytes = 0.0  # bytes that are loaded in loops directly to registers, not through shared memory
        # Counted conversions: (source, target, number of repetitions).
        self.exchanges: list[tuple[Distribution, Distribution, float]] = []
        self._exchanged: dict[str, float] = {}  # cache: wavefronts of exchanges, by layout of the exchanged tiles

    def run(self, operations: tuple[ir.Operation, ...], times: float) -> None:
        iterations = self.iterations
        for operation in operations:
            match operation:
                case ir.Loop():
                    if self.split is not None and operation == self.split.loop:
                        # only the last of the blocks that share a loop executes the code after the loop
                        times /= blocks_per_tile(self.inference, self.split)
                    inside = times * average_iterations(self.inference, operation.number)
                    if self.split is not None and operation.number == combining_loop(self.inference):
                        inside = times * (blocks_per_tile(self.inference, self.split) - 1)
                    if operation.number in self.peeled:  # do not count masks of the peeled last iteration
                        self.iterations = without_last_iteration(iterations, operation.number)
                    outer, self.inside = self.inside, True
                    if self.of_values:
                        self.instructions += 16 * self.distributions.warps * inside
                    for n in self.staged.values():
                        if n.staged.loop == operation.number:
                            self._copy(n, inside)
                            self._mask(n, inside)
                    self.run(operation.body, inside)
                    self.iterations, self.inside = iterations, outer
                    if not self.of_values:
                        self._read_sums_after(operation, times)
                case ir.If():
                    self.run(operation.body, times)
                case ir.Set() | ir.Move() | ir.FetchPart():
                    pass
                case ir.FindTile():
                    if self.of_values:
                        searched = SEARCH * -(-operation.groups // WARP)
                        self.instructions += (SCALAR + searched) * self.distributions.warps * times
                case ir.LoadScalar() | ir.Uniform():
                    if self.of_values:
                        self.instructions += SCALAR * self.distributions.warps * times
                case ir.LoadTile(result) if not self.of_values:
                    self._resident(result, times)
                case ir.Mma():
                    if not self.of_values:
                        self._product(operation, times)
                case _ if not self.of_values:
                    pass
                case ir.StoreTile() | ir.AtomicRmw():
                    self._store(operation, times)
                case ir.Prefetch(window):
                    lines = math.prod(window.shape) * window.array.dtype.bytes / 128
                    self.instructions += 4 * lines / WARP * times
                case _:
                    self._value(operation, times)

    def _resident(self, result: ir.Value, times: float) -> None:
        """Count the copy of a tile that is loaded outside of loops, and the reads of a converted tile."""
        for spread in self.inference.computed_in(result):
            staged = self.keys.get((result.id, spread))
            if staged is not None and staged.loop is None:
                self._copy(self.staged[staged.name], times)
            if staged is not None and staged.converted:
                n, bytes_ = self.staged[staged.name], staged.load.window.array.dtype.bytes
                assert isinstance(n, StagedNumbers)
                order = staged.load.window.array.order
                read = reading(self.distributions.of(spread), n.layout, order, self.distributions.warps, bytes_)
                self.wavefronts += read.cycles * times
                self.instructions += read.accesses * times

    def _copy(self, n: StagedNumbers | BoxedNumbers, times: float) -> None:
        if isinstance(n, BoxedNumbers):
            self.instructions += (2.0 * n.boxes if n.tma else ISSUED_PER_COPY * n.bytes / n.access / WARP) * times
            self.wavefronts += n.bytes / LINE_BYTES * times
            self.load_bytes += n.bytes * times
            return
        self.instructions += n.copy.requests * (3 if n.copy.method == "ld.global" else 2) * times
        self.wavefronts += _copied(n.copy) * times
        self.load_bytes += n.copy.sectors * SECTOR_BYTES * times

    def _mask(self, n: StagedNumbers | BoxedNumbers, times: float) -> None:
        """Count bounds checks of copies: one per copy instruction and dimension that may be out of bounds."""
        if isinstance(n, StagedNumbers):
            masks = _masks(self.inference, n.staged.name, tuple(self.iterations.items()))
            self.instructions += masks * n.copy.requests * times

    def _product(self, operation: ir.Mma, times: float) -> None:
        number = self.inference.product_of[operation.result.id]
        product, row = self.distributions.products[number], fragments(str(self.values["intrinsic"]))
        fragments_m, fragments_n = product.fragments
        (m, k), n = operation.a.shape, operation.b.shape[1]
        self.flops += 2.0 * m * n * k * operation.a.dtype.values * times
        if is_boxed(product.intrinsic):
            self._boxed_product(operation, times)
            return
        if is_wmma(product.intrinsic) and loop_to_read_after(self.inference, operation) is None:
            self._read_sums(product, times)
        multiplies = fragments_m * fragments_n * (k // row.k) * self.distributions.warps * row.instructions
        self.instructions += multiplies * times
        for side, value in (("left", operation.a), ("right", operation.b)):
            for key, staged in self.keys.items():
                definition = self.inference.definitions[value.id]
                source = definition.value.id if isinstance(definition, ir.TransposeTile) else value.id
                if key[0] != source or (staged.name, side) in {(r[1], side) for r in self.read if r[0] == id(times)}:
                    continue
                numbers_ = self.staged[staged.name]
                assert isinstance(numbers_, StagedNumbers)
                traffic = fragment_traffic(row, staged.side, numbers_.layout, staged.load.window.array.dtype.bytes)
                sharers = product.groups[1] if side == "left" else product.groups[0]
                self.wavefronts += traffic.wavefronts * sharers * times
                self.instructions += 2 * traffic.instructions * sharers * times

    def _read_sums_after(self, loop: ir.Loop, times: float) -> None:
        for operation in loop.body:
            if isinstance(operation, ir.Mma) and loop_to_read_after(self.inference, operation) == loop.number:
                product = self.distributions.products[self.inference.product_of[operation.result.id]]
                if is_wmma(product.intrinsic):
                    self._read_sums(product, times)

    def _read_sums(self, product: ProductTiling, times: float) -> None:
        """Count the work of converting wmma accumulators.

        Each fragment (1 KiB) is written to shared memory and read back.
        """
        sums = math.prod(product.fragments) * self.distributions.warps
        self.wavefronts += 2 * WMMA_WAVEFRONTS * sums * times
        self.instructions += WMMA_READ * sums * times

    def _boxed_product(self, operation: ir.Mma, times: float) -> None:
        """Count a product whose operands are in boxes.

        Each multiplication reads all of b. If a is in shared memory, each multiplication also reads its rows of a. One
        warp issues tcgen05 instructions. Sums are read from tensor memory once, after the loop or after each product.
        """
        (m, k), n = operation.a.shape, operation.b.shape[1]
        name = str(self.values["intrinsic"])
        of_multiplication, warps = rows_of(name), 1 if in_tensor_memory(name) else WARPS
        multiplications = m // of_multiplication * (k // fragments(name).k)
        spread = Spread("left", operation.a.shape, self.inference.product_of[operation.result.id])
        rows = of_multiplication if (operation.a.id, spread) in self.keys else 0
        self.wavefronts += multiplications * 32 * (rows + n) / LINE_BYTES * times
        # Three instructions per warp, two of which compute descriptors.
        self.instructions += 3.0 * warps * multiplications * times
        if in_tensor_memory(name) and not sums_stay(self.inference):
            stored = stored_bytes(self.inference, operation)
            self.wavefronts += stored / LINE_BYTES * times
            # Instructions that read sums and store operand a.
            self.instructions += (m * n + stored / 4 * STORE_WORD) / WARP * times

    def _value(self, operation: ir.Computing, times: float) -> None:
        result = operation.result
        warps = self.distributions.warps
        for spread in self.inference.computed_in(result):
            if isinstance(operation, ir.TransposeTile | ir.Reshape) or (result.id, spread) in self.keys:
                continue
            of = self.distributions.of(spread)
            match operation:
                case ir.Map(_, function):
                    executed = of.registers * warps * times * self.masking.get(result.id, 1.0)
                    cost = self._cast(operation) if function == "cast" else FUNCTIONS[function].cost
                    self.instructions += cost * executed
                    if function != "cast":
                        self.special += FUNCTIONS[function].special * executed
                case ir.LoadTile(_, window):
                    self._direct(of, window, times, False)
                case ir.ReduceTile():
                    source = self.distributions.of(self.inference.sources[result.id])
                    lanes = [size for _, size in source.used("lane", WARP, operation.dimension)]
                    steps = sum(n - 1 if n & (n - 1) else n.bit_length() - 1 for n in lanes)
                    each = 1 if operation.index is None else PICK_INSTRUCTIONS
                    self.instructions += each * (source.registers + 2 * steps * of.registers) * warps * times
                case ir.Scan():
                    self.instructions += scan_instructions(of, operation.dimension) * warps * times
                case ir.Convert(_, value, shared):
                    self._move(self.distributions.of(self.inference.natural.get(value.id, spread)), of, times, shared)
                case ir.PadTile(_, value):
                    if operation.wide is None:
                        self._move(self.distributions.of(self.inference.natural[value.id]), of, times)
                    self.instructions += of.registers * warps * times  # instructions that append the zeros
                case _:
                    pass
        if not self.inference.light[result.id]:
            own = self.distributions.of(self.inference.natural[result.id])
            for spread in self.inference.wanted.get(result.id, []):
                if spread != self.inference.natural[result.id]:
                    self._move(own, self.distributions.of(spread), times)

    def _cast(self, operation: ir.Map) -> float:
        """Return the number of instructions per element of a cast."""
        to, (value,) = operation.result.dtype, operation.arguments
        if operation.result.id in self.scales:
            return SCALE[self.scales[operation.result.id].name]
        if to.bits != 16:
            return 0.0
        assert isinstance(value, ir.Value)
        definition = self.inference.definitions.get(value.id)
        if isinstance(definition, ir.Map) and definition.function == "cast":
            (value,) = definition.arguments
            assert isinstance(value, ir.Value)
        return WIDENED.get((value.dtype.name, to.name), ROUNDED)

    def _move(self, source: Distribution, target: Distribution, times: float, shared: bool = False) -> None:
        """Count the redistribution of a value. ``shared``: True if it always goes through shared memory."""
        route = move(source, target, self.distributions.warps)
        if isinstance(route, Shuffled) and not shared:
            self.instructions += 2 * len(route.table) * self.distributions.warps * times
        elif shared or not isinstance(route, Renamed):
            accesses = (source.registers + target.registers) * self.distributions.warps
            self.instructions += 1.5 * accesses * times
            self.exchanges.append((source, target, times))

    def exchanged(self, layout: str) -> float:
        """Return the wavefronts of all exchanges through shared memory, for a layout of exchanged tiles."""
        if layout not in self._exchanged:
            total, warps = 0.0, self.distributions.warps
            for source, target, times in self.exchanges:
                tile = exchange_layout(layout, target.shape)
                total += times * (wavefronts(source, tile, warps, True) + wavefronts(target, tile, warps, False))
            self._exchanged[layout] = total
        return self._exchanged[layout]

    def _direct(self, of: Distribution, window: ir.Window, times: float, store: bool) -> None:
        """Count loads from global memory to registers, or stores: instructions and touched sectors."""
        line = 0 if window.turned else 1
        element = window.array.dtype.bytes
        width = math.gcd(of.run(line), 16 // element, window.array.line_divisor)
        if window.array.order is not None:
            width = packed_width(window.array, of, self.distributions.warps)
        requests = of.registers // width * self.distributions.warps
        side_by_side = width if window.array.order is None else 128 // element  # tiles of packed arrays are contiguous
        for digit, weight in of.weighted(line):
            if digit.unit == "lane" and weight == side_by_side:
                side_by_side *= digit.size
        if line in window.indexed:  # each element is accessed separately, at an indexed position
            width = side_by_side = 1
            requests = of.registers * self.distributions.warps
        if window.array.order is not None:
            piece = side_by_side * element
        else:
            piece = min(side_by_side, window.shape[line]) * element
        moved = math.prod(window.shape) * element * max(1.0, SECTOR_BYTES / piece)
        if store:
            self.store_bytes += moved * times
        else:
            self.load_bytes += moved * times
            self.unstaged_bytes += moved * times * self.inside
        masks = sum(
            reaches_beyond(window, d, self.inference, self.iterations) for d in (0, 1) if d not in window.indexed
        )
        self.instructions += (2 + masks) * requests * times
        self.wavefronts += max(requests, moved / 128) * times

    def _store(self, operation: ir.StoreTile | ir.AtomicRmw, times: float) -> None:
        position = self.stores
        self.stores += 1
        of = self.distributions.of(self.inference.stored[position])
        if self.values.get(f"store_{position + 1}", "direct") == "turned":
            target = transposed_distribution(operation.window, self.distributions.warps)
            self._move(of, target, times)
            of = target
        self._direct(of, operation.window, times, True)


@cache
def _scales_of_fp4(inference: Inference) -> dict[int, DType]:
    """Return the casts whose results are scales of fp4 numbers, by id, with the type of the unpacked numbers."""
    scales = {}
    for operation in inference.definitions.values():
        if isinstance(operation, ir.Map) and operation.function.startswith("fp4_"):
            value = operation.arguments[-1]
            while isinstance(value, ir.Value) and isinstance(
                definition := inference.definitions.get(value.id), ir.Broadcast
            ):
                value = definition.value
            if isinstance(value, ir.Value):
                scales[value.id] = operation.result.dtype
    return scales


def operand_plan(
    inference: Inference, staged: Staged, values: Mapping[str, Value], distributions: Distributions
) -> StagedNumbers | BoxedNumbers:
    """Return the layout and copy of an operand. Cached, as these depend on few parameters."""
    names = *(f"{name}_{staged.name}" for name in COPY_PREFIXES), "intrinsic", "filled_by"
    return _plan_for(inference, staged.name, distributions.warps, tuple((n, values[n]) for n in names if n in values))


@lru_cache(maxsize=2**14)
def _plan_for(
    inference: Inference, name: str, warps: int, values: tuple[tuple[str, Value], ...]
) -> StagedNumbers | BoxedNumbers:
    return staged_plan(_operands(inference)[name], dict(values), Distributions(warps, (), (), ()))


@cache
def _operands(inference: Inference) -> dict[str, Staged]:
    return {s.name: s for s in inference.staged.values()}


@lru_cache(maxsize=2**12)
def _masks(inference: Inference, name: str, iterations: tuple[tuple[int, int], ...]) -> int:
    """Return the number of dimensions along which tiles of an operand may be out of bounds."""
    return sum(reaches_beyond(_operands(inference)[name].load.window, d, inference, dict(iterations)) for d in (0, 1))


@cache
def average_iterations(inference: Inference, number: int) -> float:
    """Return the average number of iterations of a loop, over blocks sampled from the first to the last."""
    trace, loop = inference.trace, inference.loops[number]
    zero = {n: 0 for n in trace.iterations()}
    last, positions = [b - 1 for b in trace.blocks], max(min(max(trace.blocks), MOST_SAMPLED), 2)
    iterations = (
        loop.iterations(tuple((b * at + (positions - 1) // 2) // (positions - 1) for b in last), zero)
        for at in range(positions)
    )
    return sum(iterations) / positions


@lru_cache(maxsize=2**14)
def _of_values(inference: Inference, distributions: Distributions, chosen: tuple[tuple[str, Value], ...]) -> _Counter:
    """Count the work on values in registers. Cached, as it depends on few parameters."""
    counter = _Counter(inference, dict(chosen), distributions, True)
    counter.run(inference.trace.operations, 1.0)
    return counter


def work_of_values(inference: Inference, config: Config, distributions: Distributions) -> _Counter:
    """Count the work on values in registers, except the wavefronts of exchanges through shared memory."""
    chosen = tuple((name, value) for name, value in config.items() if name.startswith(OTHER_PREFIXES))
    return _of_values(inference, distributions, chosen)


def work_of_block(inference: Inference, config: Config, distributions: Distributions) -> BlockWork:
    """Return the total work of one block in a schedule."""
    staged = _Counter(inference, config, distributions, False)
    staged.run(inference.trace.operations, 1.0)
    of_values = work_of_values(inference, config, distributions)
    exchanged = BlockWork(wavefronts=of_values.exchanged(str(config.get("exchange", ""))))
    return of_values + staged + exchanged


def _copied(plan: CopyPlan) -> int:
    """Return the cycles of L1 and shared memory for copying a tile. 16-byte cp.async bypasses L1."""
    if plan.method == "cp.async" and plan.vector * plan.region.element_bytes == WIDEST_BYTES:
        return max(plan.tags, plan.stores.wavefronts)
    return plan.tags + plan.stores.wavefronts
