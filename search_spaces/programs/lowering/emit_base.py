"""Base class of the emitters: distributions, memory plan, variable names, and the lines written so far."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from search_spaces.hardware.devices import Device
from search_spaces.hardware.dtypes import DType
from search_spaces.hardware.tensor_intrinsic import TensorIntrinsic
from search_spaces.programs.inference.inference import Inference, Spread, Staged
from search_spaces.programs.language import ir
from search_spaces.programs.language.distribution import Distribution
from search_spaces.programs.lowering.elements import Code
from search_spaces.programs.lowering.refs import Ref, register_type
from search_spaces.programs.planning.boxes import BoxedNumbers, has_copying_warp
from search_spaces.programs.planning.distributions import Distributions, distributions_of
from search_spaces.programs.planning.estimates import AFTER, sum_name
from search_spaces.programs.planning.instructions import fragments, is_boxed, is_wmma
from search_spaces.programs.planning.memory import EARLY_COPIES, SharedMemoryPlan, stages_of
from search_spaces.programs.planning.persistent import launched_blocks, waits_between_tiles
from search_spaces.programs.planning.scratch import exchanges
from search_spaces.programs.planning.splits import PARTS_OF_TILE, Split, combining_loop, count_code, split_of
from search_spaces.programs.planning.staging import StagedNumbers, bufferable, in_shared, staged_plan
from search_spaces.programs.planning.tails import peeled, reaches_beyond, without_last_iteration
from search_spaces.spaces.parameters import Value

SHARED_ALIGNMENT = 1024  # alignment in bytes of a block's dynamic shared memory (ptx/shared_memory.cuh)


@dataclass(frozen=True)
class EarlyLoads:
    """Loads for the next tile (stream-K) that start while the results of the current tile are stored.

    Attributes:
        ring: Name of the ring.
        offset: Byte offset of the ring in shared memory.
        loads: CUDA C++ expression that constructs the ring's loads.
    """

    ring: str
    offset: int
    loads: str


class EmitterBase:
    """Base class of emitters, for one schedule."""

    def __init__(self, inference: Inference, values: Mapping[str, Value], device: Device) -> None:
        self.inference, self.values, self.device = inference, values, device
        self.distributions: Distributions = distributions_of(inference, values)
        self.boxed = bool(inference.products) and is_boxed(str(values["intrinsic"]))
        self.row: TensorIntrinsic | None = fragments(str(values["intrinsic"])) if inference.products else None
        self.factor_bits = next((o.a.dtype.bits for o in inference.definitions.values() if isinstance(o, ir.Mma)), 0)
        self.wmma = bool(inference.products) and is_wmma(str(values["intrinsic"]))
        self.staged: dict[tuple[int, Spread], StagedNumbers | BoxedNumbers] = {
            key: staged_plan(staged, values, self.distributions) for key, staged in in_shared(inference, values).items()
        }
        self.stages = stages_of(inference, values)
        staged_by_name = {n.staged.name: n for n in self.staged.values()}
        self.memory = SharedMemoryPlan.of(inference, staged_by_name, self.stages, exchanges(inference, values), values)
        self.code = Code()
        self.refs: dict[tuple[int, Spread], Ref] = {}
        self.states: dict[int, str] = {}
        self.loop: int | None = None
        self.loops = 0  # number of loops around the code that is being emitted
        self._declared_in: dict[str, int] = {}  # number of loops around the declaration, by array name
        self.stores = 0
        # Arrays with the elements that argmax or argmin picked, for reuse by a maximum or minimum of the same value.
        # The key has the value, distribution, reduction, dimension, size and enclosing loops.
        self.picked: dict[tuple[int, Spread, str, int, int, tuple[int, ...]], str] = {}
        self.iterations = inference.trace.iterations()
        self.partial = {
            reduce.result.id: state
            for i, (state, reduce) in enumerate(inference.sums.items())
            if values[sum_name(i)] == AFTER
        }
        self._coordinates: dict[tuple[Distribution, int], str] = {}
        self._scopes: list[list[tuple[Distribution, int]]] = [[]]
        self._names = 0
        self.shared_read: set[str] = set()  # shared-memory tiles of the program that were read since the last barrier
        self.shared_written: set[str] = set()
        # True if the code so far writes shared memory. In persistent blocks, it is True from the beginning if other
        # threads may still use this memory for the previous tile.
        self._written = waits_between_tiles(values, self.memory.exchanges)
        self.launched = launched_blocks(values)  # number of persistent blocks; 0 if there is a block per tile
        self.inits: list[str] = []  # statements that initialise mbarriers
        self.producer: list[str] = []  # statements of the producer warp
        self.barriers = 0  # number of bytes that the mbarriers allocated so far occupy
        self.split: Split | None = split_of(inference, values)
        self.early = bool(values.get(EARLY_COPIES, 0))
        self.early_loads: EarlyLoads | None = None
        self.peeled = frozenset() if self.boxed else peeled(inference, values)
        self.buffered = bufferable(inference) if values.get("fragment_buffers", 1) == 2 else None

    def alignment(self, n: StagedNumbers) -> int:
        """Return the alignment in bytes that an operand's tile has in every stage of its ring."""
        name, loop = n.staged.name, n.staged.loop
        if loop is None:
            return math.gcd(SHARED_ALIGNMENT, self.memory.resident[name])
        ring = [o for o in self.staged.values() if o.staged.loop == loop]
        before = [o.staged.name for o in ring].index(name)
        stage, position = sum(o.bytes for o in ring), sum(o.bytes for o in ring[:before])
        return math.gcd(SHARED_ALIGNMENT, self.memory.rings[loop], stage, position)

    def in_bounds_until_last(self, n: StagedNumbers) -> bool | None:
        """Return True if a peeled loop's tiles are in bounds in all iterations except the last.

        Return None for loops that are not peeled.
        """
        loop = n.staged.loop
        if loop not in self.peeled or loop is None:
            return None
        window = n.staged.load.window
        line = ir.line_dimension(window)
        moved = {"minor": line, "major": 1 - line}.get(n.staged.advance)
        return moved is not None and not reaches_beyond(
            window, moved, self.inference, without_last_iteration(self.iterations, loop)
        )

    def new(self, prefix: str = "v") -> str:
        """Return an unused variable name."""
        self._names += 1
        return f"{prefix}{self._names}"

    def of(self, spread: Spread) -> Distribution:
        """Return the concrete distribution that this schedule gives to a symbolic distribution."""
        return self.distributions.of(spread)

    def coordinate(self, of: Distribution, dimension: int) -> str:
        """Return a variable with the coordinate of the thread's register 0 along a dimension; declare it if needed."""
        key = of, dimension
        if key not in self._coordinates:
            text = of.code(dimension, self.distributions.warps)
            if text == "0":
                return "0"
            name = self.new("at")
            self.code.add(f"const int {name} = {text};")
            self._coordinates[key] = name
            self._scopes[-1].append(key)
        return self._coordinates[key]

    def _enter(self, line: str, source: ir.Source | None = None) -> None:
        if line != "{":
            self.finish()  # emit pending products before the loop or condition that follows, not inside it
        self.code.open(line, source)
        self._scopes.append([])

    def _leave(self, line: str = "}") -> None:
        self.finish()
        self.code.close(line)
        for key in self._scopes.pop():
            del self._coordinates[key]

    def declare(self, prefix: str, type_: str, count: int) -> str:
        """Declare an array of registers, and return its name."""
        name = self.new(prefix)
        self._declared_in[name] = self.loops
        self.code.declare(f"{type_} {name}[{count}];")
        return name

    def spans_iterations(self, array: str) -> bool:
        """Return True if an array is declared outside of the innermost loop that is being emitted."""
        return self._declared_in[array] < self.loops

    def is_packed(self, dtype: DType, spread: Spread) -> bool:
        """Return True if a value is a tensor-core operand, with two 16-bit or four 8-bit elements per register."""
        return (
            spread.operand and dtype.bits == self.factor_bits < 32 and self.row is not None and self.row.unit == "mma"
        )

    def _array(self, ref: Ref, count: int, source: ir.Source, dtype: DType | None = None, type_: str = "") -> Ref:
        """Copy a value to a new array of registers."""
        dtype = dtype or ref.dtype
        name = self.declare("v", type_ or register_type(dtype), count)
        self.code.each(
            count,
            lambda r: f"{name}[{r}] = {ref.text(self.code, r)};",
            source,
            writes=name,
            scattered=ref.scattered,
        )
        return Ref("array", name, dtype, rough=dtype.bits == 16 and ref.dtype != dtype)

    def _pack(self, ref: Ref, count: int, source: ir.Source) -> Ref:
        if ref.kind == "packed" and ref.table is None:
            return ref
        in_word = 32 // ref.dtype.bits
        name = self.declare("w", "unsigned", count // in_word)
        raw = ref.raw() if ref.kind == "array" else ref
        type_ = ref.dtype.c_name

        def text(r: str) -> str:
            elements = [raw.text(self.code, r if i == 0 else f"({r} + {i})") for i in range(in_word)]
            return f"{name}[{r} / {in_word}] = tile::packed<{type_}>({', '.join(elements)});"

        self.code.each(
            count,
            text,
            source,
            width=in_word,
            writes=name,
            scattered=raw.scattered,
        )
        return Ref("packed", name, ref.dtype)

    _structs: str = ""

    def add_struct(self, text: str) -> None:
        """Add text before the kernel."""
        self._structs += text

    @property
    def structs(self) -> str:
        """Text before the kernel."""
        return self._structs

    def base(self, array: ir.Array) -> str:
        """Return CUDA C++ for a pointer to the matrix or vector that the leading indices of an array select."""
        name = f"{array.name}_array"
        stride = math.prod(array.full[-2:]) if array.pitch is None else array.full[-2]
        pitch = "" if array.pitch is None else f" * {array.pitch.code}"
        terms = []
        for extent, index in reversed(list(zip(array.full[: len(array.lead)], array.lead, strict=True))):
            terms.append(f"static_cast<long long>({index.code}) * {stride}{pitch}")
            stride *= extent
        return " + ".join([name, *reversed(terms)])

    def scalar(self, operation: ir.LoadScalar) -> str:
        """Return the statement that loads a scalar for use as an index."""
        array, terms, tests, stride = operation.array, list[str](), list[str](), 1
        for extent, position in reversed(list(zip(array.full, operation.at, strict=True))):
            terms.append(f"static_cast<long long>({position.code}) * {stride}")
            low, high = position.interval(self.inference.trace.most_blocks, self.inference.trace.iterations())
            # only the first dimension can be dynamic; this loop visits it last
            size = array.dynamic if len(terms) == len(array.full) else None
            if size is not None:
                tests.append(f"unsigned({position.code}) < unsigned({size.code})")
            elif low < 0 or high >= extent:
                tests.append(f"unsigned({position.code}) < {extent}u")
            stride *= extent
        pointer, inside = " + ".join([f"{array.name}_array", *reversed(terms)]), " && ".join(tests) or "true"
        value = f"tile::load_scalar({pointer}, {inside}, {operation.low}, {operation.high})"
        return f"[[maybe_unused]] const int {operation.index.code} = {value};"

    def tile_search(self, operation: ir.FindTile) -> tuple[str, ...]:
        """Return the statements that find the group that contains a tile."""
        name = f"found_{operation.group.number}"
        arguments = f"{operation.array.name}_array, {operation.tile.code}, {operation.high}, int(threadIdx.x) % 32"
        return (
            f"const tile::FoundTile {name} = tile::find_tile<{operation.groups}, {operation.size}>({arguments});",
            f"[[maybe_unused]] const int {operation.group.code} = {name}.group;",
            f"[[maybe_unused]] const int {operation.first.code} = {name}.first;",
        )

    @property
    def barrier(self) -> str:
        """The barrier of all threads except the threads of a producer warp, as CUDA C++."""
        if not has_copying_warp(self.values):
            return "ptx::barrier_sync();"
        return f"ptx::barrier_sync(1, {self.distributions.warps * 32});"

    def iteration_code(self, loop: int, own: str) -> str:
        """Return the declaration of a loop's iteration number.

        ``own`` is the iteration counted from the block's first iteration.
        """
        shared = self.split is not None and self.split.loop.number == loop
        return f"[[maybe_unused]] const int turn_{loop} = {f'first_turn + {own}' if shared else own};"

    def count_of(self, loop: ir.Loop) -> str:
        """Return CUDA C++ for the number of iterations of a loop, summed over all blocks that share the loop.

        The number may be negative for an empty loop.
        """
        if self.split is not None and self.split.only_long and loop.number == combining_loop(self.inference):
            return f"{PARTS_OF_TILE} - 1"
        return count_code(loop)

    def shares(self, loop: ir.Loop) -> bool:
        """Return True if the program splits the loop (``p.split``) and the schedule uses several blocks for it."""
        return self.split is not None and bool(self.split.combined) and self.split.loop.number == loop.number

    def share_lines(self, loop: ir.Loop, count: str) -> list[str]:
        """Return declarations of the block's first iteration and number of iterations in a split loop."""
        if not self.shares(loop):
            return []
        assert self.split is not None
        parts = self.split.count
        if self.split.only_long:
            return [
                f"const int first_turn = split * all_turns / {PARTS_OF_TILE};",
                f"const int own_turns = (split + 1) * all_turns / {PARTS_OF_TILE} - first_turn;",
            ]
        return [
            f"const int all_turns = max({count}, 0), first_turn = split * all_turns / {parts};",
            f"const int own_turns = (split + 1) * all_turns / {parts} - first_turn;",
        ]

    def iteration_parameter(self, loop: ir.Loop) -> str:
        """Return the iteration parameter of the C++ lambda that executes an iteration of a ring's loop."""
        own = "own_turn" if self.shares(loop) else f"turn_{loop.number}"
        return f"[[maybe_unused]] int {own}"

    def add_iteration(self, loop: ir.Loop) -> None:
        """Emit the iteration number of a split loop, computed from the parameter of ``iteration_parameter``."""
        if self.shares(loop):
            self.code.add(self.iteration_code(loop.number, "own_turn"))

    def positions(self, staged: Staged) -> tuple[str, str]:
        """Return CUDA C++ for the row and column in memory at which an operand's first tile begins."""
        window = staged.load.window
        start = [i.code for i in staged.start]
        shape = window.shape
        if window.turned:
            start, shape = start[::-1], (shape[1], shape[0])
        if window.array.order is not None:
            shape = window.array.order.shape(*shape)
        if self.split is not None and staged.advance in ("major", "minor") and staged.loop == self.split.loop.number:
            at = 0 if staged.advance == "major" else 1
            start[at] = f"{start[at]} + first_turn * {shape[at]}"
        return start[0], start[1]

    def _barrier(self, line: ir.Source) -> None:
        """Emit a barrier before a write to shared memory."""
        self.code.add(self.barrier, line)
        self._written = True

    def finish(self) -> None:
        """Emit the pending products. Later products then have a separate loop over k."""

    def ref(self, value: ir.Value, spread: Spread) -> Ref:
        """Return a reference to a value in registers."""
        return self.refs[value.id, spread]
