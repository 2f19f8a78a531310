"""The CUDA C++ of a schedule: every operation in the distributions that the inference and the schedule give it.

Registers of a value are an array in the order of its distribution, and what is read elsewhere is read through a table.
Barriers stand in rings and in exchanges alone: no operation of a program is divergent.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from search_spaces.hardware.dtypes import F32, DType
from search_spaces.launches.operand import Operand
from search_spaces.programs.inference.inference import Inference, Spread
from search_spaces.programs.language import ir
from search_spaces.programs.language.distribution import fold
from search_spaces.programs.language.functions import FUNCTIONS
from search_spaces.programs.lowering.emit_base import EarlyLoads
from search_spaces.programs.lowering.emit_boxes import by_kind
from search_spaces.programs.lowering.emit_products import Products
from search_spaces.programs.lowering.in_place import read_in_place
from search_spaces.programs.lowering.placed import copy_type, place_lines
from search_spaces.programs.lowering.refs import Ref, constant, register_type
from search_spaces.programs.planning.block_order import FORWARD, order_code, order_of, uneven
from search_spaces.programs.planning.boxes import BoxedNumbers, copies_alone
from search_spaces.programs.planning.memory import ALIGNMENT
from search_spaces.programs.planning.opaque import read_behind
from search_spaces.programs.planning.splits import COUNTERS, PARTIALS, Split
from search_spaces.programs.planning.staging import StagedNumbers
from search_spaces.programs.planning.tails import but_the_last
from search_spaces.programs.planning.uniform import always
from search_spaces.programs.planning.unrolling import unroll_of
from search_spaces.spaces.parameters import Value


class Emitter(Products):
    """Writes the body of one schedule's kernel."""

    def run(self) -> None:
        self._operations(self.found.trace.operations)
        self.finish()
        self.code.flush()

    def _operations(self, operations: tuple[ir.Operation, ...]) -> None:
        for operation in operations:
            with self.code.standing(operation.source):
                self._operation(operation)

    def _operation(self, operation: ir.Operation) -> None:
        match operation:
            case ir.Loop(body=(ir.FetchPart(), *_)) if self.split is None:
                pass  # one block has all turns of the shared loop
            case ir.FetchPart():
                self._fetch_part(operation)
            case ir.Loop():
                self.finish()
                self._expect_body(operation.body)
                self._loop(operation)
            case ir.If():
                self.finish()
                self._enter(f"if ({operation.place.code} == {operation.equals}) {{", operation.source)
                self._operations(operation.body)
                self._leave()
            case ir.Set():
                self._set(operation)
            case ir.StoreTile() | ir.AtomicRmw():
                self.finish()
                self._store(operation)
            case ir.Prefetch():
                self._prefetch(operation)
            case ir.Scalar():
                self.code.add(self.scalar(operation), operation.source)
                if not self.loops:
                    self.producer.append(self.scalar(operation))
            case ir.Uniform(index, value):
                number = self.ref(value, self.found.uniform[index.number]).text(self.code, "0")
                low, high = (bound.number for bound in index.args[:2])
                self.code.flush()
                value_of = f"tile::minimum(tile::maximum({number}, {low}), {high})"
                self.code.add(f"[[maybe_unused]] const int {index.code} = {value_of};", operation.source)
            case ir.Move():
                pass
            case _:
                self._compute(operation)

    def _compute(self, operation: ir.Computing) -> None:
        result = operation.result
        if isinstance(operation, ir.Mma):
            if self.found.wanted.get(result.id):
                self._product(operation)
                self._convert_all(operation)
            return
        for spread in self.found.computed_in(result):
            self.refs[result.id, spread] = self._value(operation, spread)
        self._convert_all(operation)

    def _convert_all(self, operation: ir.Computing) -> None:
        """Convert the value to what it is wanted in besides its own distribution."""
        result = operation.result
        if self.found.light[result.id]:
            return
        for spread in self.found.wanted.get(result.id, []):
            own = self.found.natural[result.id]
            if spread != own:
                self._finish_product(result.id)
                ref = self._moved(self.refs[result.id, own], self.of(own), self.of(spread), operation.source)
                if self.is_packed(result.dtype, spread):
                    ref = self._pack(ref, self.of(spread).registers, operation.source)
                self.refs[result.id, spread] = ref

    def _value(self, operation: ir.Computing, spread: Spread) -> Ref:
        result, source = operation.result, operation.source
        match operation:
            case ir.LoadTile():
                return self._load(operation, spread)
            case ir.Fill(_, number):
                return constant(number, result.dtype)
            case ir.Coordinates(_, dimension, base):
                of = self.of(spread)
                start = self.coordinate(of, dimension)
                text = " + ".join(t for t in (base.code, start) if t != "0") or "0"
                return Ref("coordinate", f"({text})", result.dtype, of.of_registers(dimension))
            case ir.Read(_, state):
                return self._read(result, state, spread, source)
            case ir.TransposeTile(_, value):
                self._finish_product(value.id)  # under another name nobody would know that it waits
                return self.refs[value.id, spread.swap()]
            case ir.Reshape(_, value):
                self._finish_product(value.id)
                return self.refs[value.id, spread.reshape(value.shape)]
            case ir.Broadcast(_, value, dimension):
                _, table = fold(self.of(spread), dimension, operation.size)
                return self.ref(value, spread.group(dimension, operation.size)).through(table)
            case ir.Convert(_, value, shared):
                own = self.found.natural.get(value.id, spread)
                return self._moved(self.ref(value, own), self.of(own), self.of(spread), source, shared)
            case ir.ReduceTile():
                return self._reduce(operation, spread)
            case ir.Map():
                return self._map(operation, spread)
        raise ir.ProgramError(f"{source}: {ir.spelled(operation)} is not compiled here")

    def _map(self, operation: ir.Map, spread: Spread) -> Ref:
        result, source = operation.result, operation.source
        given = [
            self.ref(a, spread) if isinstance(a, ir.Value) else constant(a, self._number_type(operation))
            for a in operation.arguments
        ]
        if operation.function == "cast":
            return self._cast(given[0], result.dtype, spread, source)
        code, divisor = FUNCTIONS[operation.function].code, operation.arguments[-1]
        if operation.function == "divide" and isinstance(divisor, float | int) and _is_power_of_two(divisor):
            code, given[1] = FUNCTIONS["multiply"].code, constant(1.0 / divisor, F32)
        if result.dtype.name == "bool":  # a comparison costs no register
            return Ref("inline", code, result.dtype, parts=tuple(given))
        count = self.of(spread).registers
        uniform = always(operation, self.found, self.turns) if operation.function == "where" else None
        name = self.declare("v", register_type(result.dtype), count)
        if uniform is not None and given[2].kind == "constant":
            return self._masked(name, given, uniform, count, result, source)
        scattered = [n for g in given for n in g.scattered]
        self.code.each(
            count,
            lambda r: f"{name}[{r}] = {code.format(*(g.text(self.code, r) for g in given))};",
            source,
            writes=name,
            scattered=scattered,
        )
        return Ref("array", name, result.dtype)

    def _masked(
        self, name: str, given: list[Ref], uniform: str, count: int, result: ir.Value, source: ir.Source
    ) -> Ref:
        """``where`` with a constant, skipped by blocks in which the condition holds everywhere."""
        mask, kept, other = given
        self.code.each(count, lambda r: f"{name}[{r}] = {kept.text(self.code, r)};", source, writes=name)
        if uniform == "true":
            return Ref("array", name, result.dtype)
        self.code.open(f"if (!({uniform})) {{", source)
        self.code.each(
            count, lambda r: f"if (!{mask.text(self.code, r)}) {name}[{r}] = {other.name};", source, writes=name
        )
        self.code.close()
        return Ref("array", name, result.dtype)

    def _number_type(self, operation: ir.Map) -> DType:
        typed = [a.dtype for a in operation.arguments if isinstance(a, ir.Value) and a.dtype.name != "bool"]
        return typed[0] if typed else operation.result.dtype

    def _cast(self, given: Ref, to: DType, spread: Spread, source: ir.Source) -> Ref:
        code = _narrowing(given.dtype, to)
        if code:
            name, count = self.declare("v", register_type(to), self.of(spread).registers), self.of(spread).registers
            self.code.each(
                count, lambda r: f"{name}[{r}] = {code.format(given.text(self.code, r))};", source, writes=name,
                scattered=given.scattered,
            )  # fmt: skip
            made = Ref("array", name, to)
            return self._pack(made, count, source) if self.is_packed(to, spread) else made
        if given.kind == "constant":
            if given.dtype.is_float or not to.is_float:
                return Ref("constant", given.name, to)
            return Ref("constant", f"float({given.name})", to)
        if to.bits == 16:
            narrow = Ref(given.kind, given.name, to, given.table, True, given.parts)
            if given.rough or given.kind == "packed":  # rounded to another type before
                narrow = self._array(given, self.of(spread).registers, source, to)
            return self._pack(narrow, self.of(spread).registers, source) if self.is_packed(to, spread) else narrow
        if to.is_float and not given.dtype.is_float:
            return Ref("inline", "float({0})", to, parts=(given,))
        if given.rough or given.kind == "packed":
            return self._array(given, self.of(spread).registers, source, to)
        return Ref(given.kind, given.name, to, given.table, False, given.parts)

    def _set(self, operation: ir.Set) -> None:
        waiting = next((w for w in self.waiting if w.operation.result.id == operation.value.id), None)
        spread = self.found.states[operation.state]
        count = self.of(spread).registers
        if operation.state not in self.states:
            type_ = register_type(operation.value.dtype)
            self.states[operation.state] = self.declare("state", type_, count)
        if waiting is not None and self.found.natural[operation.value.id] == spread:
            waiting.sets.append(operation.state)
            return
        ref, name = self.ref(operation.value, spread), self.states[operation.state]
        if ref.name == name and ref.table is None:  # a product has added to the state where it lies
            return
        self.code.each(
            count,
            lambda r: f"{name}[{r}] = {ref.text(self.code, r)};",
            operation.source,
            writes=name,
            scattered=ref.scattered,
        )

    def _read(self, result: ir.Value, state: int, spread: Spread, source: ir.Source) -> Ref:
        for waiting in self.waiting:
            if state in waiting.sets:
                self.finish()
                break
        count, name = self.of(spread).registers, self.states[state]
        if result.id in read_in_place(self.found):
            return Ref("array", name, result.dtype)
        copy = self.declare("v", register_type(result.dtype), count)
        self.code.each(count, lambda r: f"{copy}[{r}] = {name}[{r}];", source, writes=copy)
        return Ref("array", copy, result.dtype)

    def _loop(self, loop: ir.Loop) -> None:
        ring, boxes = by_kind([n for n in self.staged.values() if n.staged.loop == loop.number])
        split, count = self.split, self.count_of(loop)
        for line in self.share_lines(loop, count):
            self.code.add(line, loop.source)
        if self.shares(loop):
            count = "own_turns"
        elif split is not None and split.launched:
            count = "part.count"
        elif split is not None and not split.combined:
            count = f"(first_turn + {split.each} < {split.turns} ? {split.each} : {split.turns} - first_turn)"
        for operation in loop.body:  # states that the loop sets first are declared around it
            if isinstance(operation, ir.Set) and operation.state not in self.states:
                type_, registers = (
                    register_type(operation.value.dtype),
                    self.of(self.found.states[operation.state]).registers,
                )
                self.states[operation.state] = self.declare("state", type_, registers)
        outside, self.loop = self.loop, loop.number if outside_ring(self.loop, [*ring, *boxes]) else self.loop
        self.loops += 1
        if ring or boxes:
            if boxes:
                self._box_ring(loop, boxes, count)
                self._turns(loop, boxes)
            else:
                self._ring(loop, ring, count)
        else:
            self._plain_turns(loop, count)
        self.loops -= 1
        self.loop = outside
        if split is not None and not split.combined:
            self._join_splits(split, loop.source)
        if self.opaque:
            self._read_behind(loop)
        for state, reduce in self.found.sums.items():
            if loop.number in self.found.inside[reduce.result.id] and reduce.result.id in self.partial:
                source = self.of(self.found.sources[reduce.result.id])
                self._join(self.states[state], reduce, source, reduce.source)
                del self.partial[reduce.result.id]
        if split is not None and self.shares(loop):
            self._join_splits(split, loop.source)

    def _plain_turns(self, loop: ir.Loop, count: str) -> None:
        """Emit a loop without a ring."""
        turn, first, end = f"turn_{loop.number}", "0", count
        if self.shares(loop):
            first, end = "first_turn", f"first_turn + {count}"
        if loop.number in self.peeled:
            self.code.add(f"const int last_{turn} = {end} - 1;", loop.source)
            self._unroll(loop)
            self._enter(f"for (int {turn} = {first}; {turn} < last_{turn}; ++{turn}) {{", loop.source)
            self._but_the_last(loop)
            self._leave()
            self._enter(
                f"for (int {turn} = max(last_{turn}, {first}); {turn} <= last_{turn}; ++{turn}) {{", loop.source
            )
        else:
            self._unroll(loop)
            self._enter(f"for (int {turn} = {first}; {turn} < {end}; ++{turn}) {{", loop.source)
        self._operations(loop.body)
        self._leave()

    def _fetch_part(self, operation: ir.FetchPart) -> None:
        """Load what another part of a shared loop has left."""
        for state, other in zip(operation.states, operation.others, strict=True):
            self._get_part(state, self.states[other], operation.part.code, operation.source)

    def _get_part(self, state: int, array: str, part: str, source: ir.Source) -> None:
        """Load the registers of a state that a part of a shared loop has left."""
        assert self.split is not None
        threads, counts = self.numbers.warps * 32, self._part_registers(self.split)
        place = sum(n for s, n in counts.items() if self.split.states.index(s) < self.split.states.index(state))
        at = f"parts + ({part}) * {sum(counts.values()) * threads} + {place * threads}"
        self.code.flush()
        self.code.add(f"tile::get_part<{counts[state]}, {threads}>({array}, {at}, thread);", source)

    def _part_registers(self, split: Split) -> dict[int, int]:
        """Return how many registers of a thread each state has that a part leaves."""
        return {state: self.of(self.found.states[state]).registers for state in split.states}

    def _unroll(self, loop: ir.Loop) -> None:
        count = unroll_of(self.found, self.values, loop.number)
        if count is not None:
            self.code.add(f"#pragma unroll {count}")

    def _read_behind(self, loop: ir.Loop) -> None:
        """Read the sums of a loop that wmma has added up."""
        for operation in loop.body:
            made = self.found.made[operation.value.id] if isinstance(operation, ir.Set) else None
            if isinstance(operation, ir.Set) and isinstance(made, ir.Mma) and read_behind(self.found, made) is not None:
                self._read_sums(made, self.states[operation.state])

    def _ring(self, loop: ir.Loop, ring: list[StagedNumbers], count: str) -> None:
        types = ", ".join(copy_type(n) for n in ring)
        made = "{}"
        for n in ring:
            for line in place_lines(self, n):
                self.code.add(line, loop.source)
        for n in reversed(ring):
            made = f"{{{self._copy(n.staged)}, {made}}}"
        bytes_ = sum(n.bytes for n in ring)
        self.structs_add(
            f"struct Ring_{loop.number} {{\n  static constexpr int stages = {self.stages[loop.number]}, "
            f"stage_bytes = {bytes_};\n}};\n"
        )
        if self._written:
            self.code.add(f"{self.barrier}  // everybody is done with what lies here")
        self._written = True
        name, place = f"Ring_{loop.number}", self.memory.rings[loop.number]
        if self.early:
            self.early_loads = EarlyLoads(name, place, f"tile::Loads<{types}>{made}")
            self.code.add(f"auto loads_{loop.number} = loads_of(part, {name}::stages - 1);", loop.source)
        else:
            self.code.add(f"tile::Loads<{types}> loads_{loop.number}{made};", loop.source)
        arguments = f"(loads_{loop.number}, shared + {place}u, {count}, "
        if loop == self.buffered:
            self._buffered_turns(loop, ring, arguments)
            return
        body = f"[&](unsigned stage, {self.turn_parameter(loop)}) {{"
        begun = ", true" if self.early else ""
        self._enter(f"tile::pipeline<{name}{begun}>{arguments}{body}", loop.source)
        self._turns(loop, ring)

    def _buffered_turns(self, loop: ir.Loop, ring: list[StagedNumbers], arguments: str) -> None:
        """Emit turns with two buffers of fragments: what reads a step of a stage, and what multiplies it."""
        steps, reads, multiplies = self._buffer_fragments(loop)
        types = (
            f"Ring_{loop.number}, {steps}, {str(loop.number in self.peeled).lower()}{', true' if self.early else ''}"
        )
        self._enter(
            f"tile::fragment_pipeline<{types}>{arguments}[&](unsigned stage, int step, int buffer) {{", loop.source
        )
        self._stage(ring)
        for line in reads:
            self.code.add(line)
        self._leave("},")
        self._enter("[&](int buffer) {", loop.source)
        for line, source in multiplies:
            self.code.add(line, source)
        self._leave("});")

    def _join_splits(self, split: Split, source: ir.Source) -> None:
        """Let the last block of those that share the turns go on, with the sums of all."""
        if split.launched:
            self._join_parts(split, source)
            return
        threads = self.numbers.warps * 32
        counts = list(self._part_registers(split).values())
        self.finish()
        self.code.flush()
        apart = sum(counts) * threads
        place = self.memory.use(None, ALIGNMENT)
        only = f"{split.count}, {threads}" if copies_alone(self.values) else f"{split.count}"
        self.code.add(
            f"float* const parts = {PARTIALS} + static_cast<long long>(tile_place) * {split.count * apart};", source
        )
        before = 0
        for state, count in zip(split.states, counts, strict=True):
            at = f"parts + split * {apart} + {before * threads}"
            self.code.add(f"tile::put_part<{count}, {threads}>({at}, {self.states[state]}, thread);")
            before += count
        self.code.add(f"if (!is_last_block<{only}>({COUNTERS} + tile_place, shared + {place}u)) return;")
        if split.combined:
            for state in split.states:
                self._get_part(state, self.states[state], "0", source)
            return
        before = 0
        for state, count in zip(split.states, counts, strict=True):
            self.code.add(
                f"tile::add_parts<{split.count}, {count}, {threads}, {apart}>({self.states[state]}, "
                f"parts + {before * threads}, thread);"
            )
            before += count
        self._written = True

    def _join_parts(self, split: Split, source: ir.Source) -> None:
        """Of two blocks that share a tile, let the one that comes last go on, with the sums of both."""
        threads = self.numbers.warps * 32
        counts = [(self.states[s], self.of(self.found.states[s]).registers) for s in split.states]
        self.finish()
        place = self.memory.use(None, ALIGNMENT)
        self._barrier(source)
        if self.early:
            self.code.add("next = walk.next();")
            self.code.add("start(next);")
        self._enter(f"if (part.count < {split.turns}) {{", source)
        self.code.add("const int cut = part.cut(int(blockIdx.x));")
        self.code.add(
            f"float* const sums = {PARTIALS} + static_cast<long long>(cut) * {sum(n for _, n in counts) * threads};"
        )
        self.code.add(f"const SharedTile<{threads}> both{{{COUNTERS} + 2 * cut, shared + {place}u, thread, 0}};")
        self._enter("if (both.is_first()) {")
        before = 0
        for state, count in counts:
            self.code.add(f"tile::put_part<{count}, {threads}>(sums + {before * threads}, {state}, thread);")
            before += count
        self.code.add("both.tell_stored();")
        self.code.add("continue;")
        self._leave()
        self.code.add("both.wait_stored();")
        before = 0
        for state, count in counts:
            self.code.add(f"tile::add_part<{count}, {threads}>({state}, sums + {before * threads}, thread);")
            before += count
        self._leave()

    @property
    def workspaces(self) -> tuple[Operand, ...]:
        """What blocks that share turns leave for the last one."""
        if self.split is None:
            return ()
        registers = sum(self.of(self.found.states[state]).registers for state in self.split.states)
        return self.split.workspaces(self.found.trace.block_count, registers, self.numbers.warps * 32)

    def _turns(self, loop: ir.Loop, ring: Sequence[StagedNumbers | BoxedNumbers]) -> None:
        """Emit what each turn of a ring's loop does with a stage."""
        self.add_turn(loop)
        if loop.number in self.peeled:
            self._stage(ring)
            self._but_the_last(loop)
            self._leave("},")
            self._enter(f"[&](unsigned stage, {self.turn_parameter(loop)}) {{", loop.source)
            self.add_turn(loop)
        self._stage(ring)
        if self.values.get("in_flight", 0) and self.boxed:
            self._flying_turns(loop)
            return
        self._operations(loop.body)
        self._leave("});")

    def _stage(self, ring: Sequence[StagedNumbers | BoxedNumbers]) -> None:
        offset = 0
        for n in ring:
            self.code.add(f"const unsigned tile_{n.staged.name} = stage + {offset}u;")
            offset += n.bytes

    def _but_the_last(self, loop: ir.Loop) -> None:
        """Emit the body for the turns of a loop but the last, which carry fewer masks; it follows once more."""
        turns, stores = self.turns, self.stores
        self.turns = but_the_last(turns, loop.number)
        self._operations(loop.body)
        self.finish()
        self.turns, self.stores = turns, stores


def _narrowing(given: DType, to: DType) -> str:
    """Return the function of a cast to a whole number or to 8 bits; "" of others, and where all numbers stay."""
    if to.is_float:
        return f"tile::narrowed<{to.c_name}>({{0}})" if to.bits == 8 else ""
    cut = "tile::truncated({0})" if given.is_float else "{0}"
    if to.bits == 8:
        return f"tile::saturated<{to.c_name}>({cut})"
    return cut if given.is_float else ""


def _is_power_of_two(number: float) -> bool:
    """Whether its reciprocal is exact, too."""
    fraction, exponent = math.frexp(abs(number))
    return fraction == 0.5 and -125 <= exponent <= 126


def outside_ring(loop: int | None, ring: Sequence[StagedNumbers | BoxedNumbers]) -> bool:
    """Whether a loop's exchanges have a place of their own: those of inner loops without a ring are those around."""
    return loop is None or bool(ring)


def grid_code(found: Inference, values: Mapping[str, Value], split: Split | None = None) -> list[str]:
    """Return the block's coordinates."""
    trace, of = found.trace, uneven(found)

    def at(axis: int, index: str) -> str:
        in_order = order_of(values) if of is not None and of.axis == axis else FORWARD
        return f"const int block_{axis} = {order_code(in_order, index, trace.blocks[axis])};"

    blocks, index, lines = trace.blocks, "int(blockIdx.x)", list[str]()
    if split is not None and split.launched:
        lines, index = ["const int tile_place = part.tile, first_turn = part.first;"], "tile_place"
    elif split is not None:
        lines = [
            f"const int tile_place = int(blockIdx.x) % {trace.block_count};",
            f"const int split = int(blockIdx.x) / {trace.block_count}"
            f"{';' if split.combined else f', first_turn = split * {split.each};'}",
        ]
        index = "tile_place"
    if len(blocks) == 1:
        return [*lines, at(0, index)]
    rows, columns = blocks[-2:]
    tile = index if len(blocks) == 2 else f"{index} % {rows * columns}"
    first = len(blocks) - 2
    if len(blocks) > 2:
        lines.append(at(0, f"{index} / {rows * columns}"))
    return [
        *lines,
        f'constexpr Choice order = "{values["raster"]}";',
        f"const TileIndex block = raster<raster_order(order), raster_group(order), {rows}, {columns}>({tile});",
        at(first, "block.m"),
        at(first + 1, "block.n"),
    ]
