"""The CUDA C++ of a schedule: every operation in the distributions that the inference and the schedule give it.

Registers of a value are an array in the order of its distribution, and what is read elsewhere is read through a table.
Barriers stand in rings and in exchanges alone: no operation of a program is divergent.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from search_spaces.hardware.devices import Device
from search_spaces.hardware.dtypes import F32, DType
from search_spaces.hardware.fragments import WARP
from search_spaces.hardware.intrinsics import TensorIntrinsic, intrinsic
from search_spaces.layouts.shared_layout import Axis, SharedLayout
from search_spaces.programs import ir
from search_spaces.programs.distribution import Distribution, Renamed, Shuffled, fold, move, turned
from search_spaces.programs.elements import Code
from search_spaces.programs.functions import FUNCTIONS, REDUCTIONS
from search_spaces.programs.infer import Inference, Spread, Staged
from search_spaces.programs.memory import Memory, across_bytes, exchange_bytes, exchange_layout, stages_of
from search_spaces.programs.numbers import Numbers, numbers
from search_spaces.programs.refs import Ref, constant, register_type
from search_spaces.programs.staging import StagedNumbers, in_shared, staged_numbers
from search_spaces.programs.uniform import always
from search_spaces.spaces.parameters import Value

WIDEST = 16  # bytes of an access
AFTER, INSIDE = "after_loop", "in_loop"


@dataclass
class _Waiting:
    """A product whose loop over k is not written yet: those behind it may share it."""

    operation: ir.Mma
    array: str
    sets: list[int] = field(default_factory=list)


class Emitter:
    """Writes the body of one schedule's kernel. ``memory.total`` is the shared memory that it uses."""

    def __init__(self, found: Inference, values: Mapping[str, Value], device: Device) -> None:
        self.found, self.values, self.device = found, values, device
        self.numbers: Numbers = numbers(found, values)
        self.row: TensorIntrinsic | None = intrinsic(str(values["intrinsic"])) if found.products else None
        self.staged: dict[tuple[int, Spread], StagedNumbers] = {
            key: staged_numbers(staged, values, self.numbers) for key, staged in in_shared(found, values).items()
        }
        self.stages = stages_of(found, values)
        self.memory = Memory.of(found, {n.staged.name: n for n in self.staged.values()}, self.stages)
        self.code = Code()
        self.refs: dict[tuple[int, Spread], Ref] = {}
        self.states: dict[int, str] = {}
        self.waiting: list[_Waiting] = []
        self.loop: int | None = None
        self.stores = 0
        self.turns = found.trace.turns()
        self.partial = {
            reduce.result.id: state
            for i, (state, reduce) in enumerate(found.sums.items())
            if values.get(f"sum_{i + 1}", INSIDE) == AFTER
        }
        self._coordinates: dict[tuple[Distribution, int], str] = {}
        self._scopes: list[list[tuple[Distribution, int]]] = [[]]
        self._names = 0
        self._written = False  # whether shared memory has been written before

    # Names and places

    def new(self, prefix: str = "v") -> str:
        self._names += 1
        return f"{prefix}{self._names}"

    def of(self, spread: Spread) -> Distribution:
        return self.numbers.of(spread)

    def coordinate(self, of: Distribution, dimension: int) -> str:
        """A variable: where the thread's register 0 lies along a dimension."""
        key = of, dimension
        if key not in self._coordinates:
            text = of.code(dimension, self.numbers.warps)
            if text == "0":
                return "0"
            name = self.new("at")
            self.code.add(f"const int {name} = {text};")
            self._coordinates[key] = name
            self._scopes[-1].append(key)
        return self._coordinates[key]

    def _enter(self, line: str, source: ir.Source | None = None) -> None:
        self.code.open(line, source)
        self._scopes.append([])

    def _leave(self, line: str = "}") -> None:
        self._finish_products()
        self.code.close(line)
        for key in self._scopes.pop():
            del self._coordinates[key]

    def declare(self, prefix: str, type_: str, count: int) -> str:
        name = self.new(prefix)
        self.code.add(f"{type_} {name}[{count}];")
        return name

    def is_packed(self, dtype: DType, spread: Spread) -> bool:
        """Whether a value is an operand of tensor cores: pairs of 16 bits in words."""
        return spread.operand and dtype.bits == 16 and self.row is not None and self.row.unit == "mma"

    # The program

    def run(self) -> None:
        self._operations(self.found.trace.operations)
        self._finish_products()
        self.code.flush()

    def _operations(self, operations: tuple[ir.Operation, ...]) -> None:
        for operation in operations:
            match operation:
                case ir.Loop():
                    self._finish_products()
                    self._loop(operation)
                case ir.Set():
                    self._set(operation)
                case ir.Store() | ir.AtomicRmw():
                    self._finish_products()
                    self._store(operation)
                case ir.Prefetch():
                    self._prefetch(operation)
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
        """What the value is wanted in besides its own distribution."""
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

    def ref(self, value: ir.Value, spread: Spread) -> Ref:
        """A value for arithmetic: operands that are in shared memory are read to registers."""
        self._finish_product(value.id)
        ref = self.refs[value.id, spread]
        if ref.kind != "staged":
            return ref
        return self._fragments(value, spread)

    def _value(self, operation: ir.Computing, spread: Spread) -> Ref:
        result, source = operation.result, operation.source
        match operation:
            case ir.Load():
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
            case ir.Transpose(_, value):
                return self.refs[value.id, spread.swap()]
            case ir.Broadcast(_, value, dimension):
                _, table = fold(self.of(spread), dimension, operation.size)
                return self.ref(value, spread.group(dimension, operation.size)).through(table)
            case ir.Convert(_, value, shared):
                own = self.found.natural.get(value.id, spread)
                return self._moved(self.ref(value, own), self.of(own), self.of(spread), source, shared)
            case ir.Reduce():
                return self._reduce(operation, spread)
            case ir.Map():
                return self._map(operation, spread)
        raise ir.ProgramError(f"{source}: {type(operation).__name__.lower()} is not compiled here")

    # Element-wise functions

    def _map(self, operation: ir.Map, spread: Spread) -> Ref:
        result, source = operation.result, operation.source
        given = [
            self.ref(a, spread) if isinstance(a, ir.Value) else constant(a, self._number_type(operation))
            for a in operation.arguments
        ]
        if operation.function == "cast":
            return self._cast(given[0], result.dtype, spread, source)
        code = FUNCTIONS[operation.function].code
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

    def _array(self, ref: Ref, count: int, source: ir.Source, dtype: DType | None = None, type_: str = "") -> Ref:
        """The value in an array of its own."""
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
        name = self.declare("w", "unsigned", count // 2)
        raw = ref.raw() if ref.kind == "array" else ref
        type_ = ref.dtype.c_name
        self.code.each(
            count,
            lambda r: (
                f"{name}[{r} / 2] = tile::packed<{type_}>"
                f"({raw.text(self.code, r)}, {raw.text(self.code, f'({r} + 1)')});"
            ),
            source,
            width=2,
            writes=name,
            scattered=raw.scattered,
        )
        return Ref("packed", name, ref.dtype)

    # States

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
                self._finish_products()
                break
        count, name = self.of(spread).registers, self.states[state]
        copy = self.declare("v", register_type(result.dtype), count)
        self.code.each(count, lambda r: f"{copy}[{r}] = {name}[{r}];", source, writes=copy)
        return Ref("array", copy, result.dtype)

    # Loops

    def _loop(self, loop: ir.Loop) -> None:
        ring = [n for n in self.staged.values() if n.staged.loop == loop.number]
        turns = loop.stop - loop.first + (loop.step - 1)
        count = (turns // loop.step).code
        for operation in loop.body:  # states that the loop sets first are declared around it
            if isinstance(operation, ir.Set) and operation.state not in self.states:
                type_, registers = (
                    register_type(operation.value.dtype),
                    self.of(self.found.states[operation.state]).registers,
                )
                self.states[operation.state] = self.declare("state", type_, registers)
        outside, self.loop = self.loop, loop.number if outside_ring(self.loop, ring) else self.loop
        if ring:
            self._ring(loop, ring, count)
        else:
            self._enter(
                f"for (int turn_{loop.number} = 0; turn_{loop.number} < {count}; ++turn_{loop.number}) {{", loop.source
            )
            self._operations(loop.body)
            self._leave()
        self.loop = outside
        for state, reduce in self.found.sums.items():
            if loop.number in self.found.inside[reduce.result.id] and reduce.result.id in self.partial:
                source = self.of(self.found.sources[reduce.result.id])
                self._join(self.states[state], reduce, source, reduce.source)
                del self.partial[reduce.result.id]

    def _ring(self, loop: ir.Loop, ring: list[StagedNumbers], count: str) -> None:
        types = ", ".join(f"Operand_{n.staged.name}" for n in ring)
        made = "{}"
        for n in reversed(ring):
            made = f"{{{self._copy(n.staged)}, {made}}}"
        bytes_ = sum(n.bytes for n in ring)
        self.structs_add(
            f"struct Ring_{loop.number} {{\n  static constexpr int stages = {self.stages[loop.number]}, "
            f"stage_bytes = {bytes_};\n}};\n"
        )
        if self._written:
            self.code.add("ptx::barrier_sync();  // everybody is done with what lies here")
        self._written = True
        self.code.add(f"tile::Loads<{types}> loads_{loop.number}{made};", loop.source)
        place = self.memory.rings[loop.number]
        self._enter(
            f"tile::pipeline<Ring_{loop.number}>(loads_{loop.number}, shared + {place}u, {count}, "
            f"[&](unsigned stage, [[maybe_unused]] int turn_{loop.number}) {{",
            loop.source,
        )
        offset = 0
        for n in ring:
            self.code.add(f"const unsigned tile_{n.staged.name} = stage + {offset}u;")
            offset += n.bytes
        self._operations(loop.body)
        self._leave("});")

    _structs: str = ""

    def structs_add(self, text: str) -> None:
        """Text in front of the kernel."""
        self._structs += text

    @property
    def structs(self) -> str:
        return self._structs

    def _copy(self, staged: Staged) -> str:
        """A TileCopy of the operand's tile, where it begins."""
        window = staged.load.window
        rows, columns = (i.code for i in staged.start)
        places = f"{columns}, {rows}" if window.turned else f"{rows}, {columns}"
        return f"Operand_{staged.name}::Copy({self.base(window.array)}, {places}, thread)"

    def base(self, array: ir.Array) -> str:
        """A pointer to the matrix that is left of an array."""
        name = f"{array.name}_array"
        stride = math.prod(array.full[-2:])
        terms = []
        for extent, place in reversed(list(zip(array.full[: len(array.lead)], array.lead, strict=True))):
            terms.append(f"static_cast<long long>({place.code}) * {stride}")
            stride *= extent
        return " + ".join([name, *reversed(terms)])

    # Memory

    def _access(self, window: ir.Window, of: Distribution, source: ir.Source) -> tuple[str, list[int], list[str]]:
        """A pointer to the thread's register 0; the distance of each register; and of each dimension a name for the
        coordinate in the array, "" where all of it is inside."""
        lines, inside = [], []
        strides = window.strides
        for d in (0, 1):
            start = self.coordinate(of, d)
            place = " + ".join(t for t in (window.at[d].code, start) if t != "0") or "0"
            low, high = window.at[d].interval(self.found.trace.blocks, self.turns)
            if low < 0:
                raise ir.ProgramError(f"{source}: a window begins {-low} elements before {window.array.name}")
            if high + window.shape[d] > window.extent[d]:
                name = self.new("place")
                self.code.add(f"const int {name} = {place};", source)
                inside.append(name)
                place = name
            else:
                inside.append("")
            if place != "0":
                lines.append(f"static_cast<long long>({place}) * {strides[d]}" if strides[d] != 1 else f"({place})")
        pointer = self.new("p")
        constness = "const " if window.array.role == "input" else ""
        self.code.add(
            f"{constness}{window.array.dtype.c_name}* const {pointer} = "
            f"{' + '.join([self.base(window.array), *lines])};",
            source,
        )
        distance = [
            a * strides[0] + b * strides[1] for a, b in zip(of.of_registers(0), of.of_registers(1), strict=True)
        ]
        return pointer, distance, inside

    def _inside(self, window: ir.Window, of: Distribution, names: list[str], index: str) -> str:
        tests = [
            f"{name} + {self.code.at(of.of_registers(d), index)} < {window.extent[d]}"
            for d, name in enumerate(names)
            if name
        ]
        return " && ".join(tests) or "true"

    def _width(self, window: ir.Window, of: Distribution, most: int) -> int:
        """Elements of an access: neighbours in memory and in registers, aligned."""
        line = 0 if window.turned else 1
        fits = math.gcd(window.array.matrix[1], window.at[line].divisor or window.array.matrix[1], most)
        return math.gcd(fits, of.run(line))

    def _load(self, operation: ir.Load, spread: Spread) -> Ref:
        window, result, source = operation.window, operation.result, operation.source
        n = self.staged.get((result.id, spread))
        if n is not None:
            if n.staged.loop is None:
                self._keep(n, source)
            return Ref("staged", n.staged.name, result.dtype)
        of = self.of(spread)
        pointer, distance, names = self._access(window, of, source)
        type_ = window.array.dtype

        def offset(r: str) -> str:
            return self.code.at(tuple(distance), r)

        base = spread.of if spread.kind == "swap" and spread.of is not None else spread
        if self.is_packed(type_, base) and operation.padding == 0.0:
            return self._load_words(operation, of, pointer, distance, names)
        width = self._width(window, of, WIDEST // type_.bytes)
        register = register_type(type_)
        name = self.declare("v", register, of.registers)
        padding = constant(operation.padding, type_ if not type_.is_float else F32).name
        self.code.each(
            of.registers,
            lambda r: (
                f"tile::load<{type_.c_name}, {width}, {register}>(&{name}[{r}], {pointer} + {offset(r)}, "
                f"{self._inside(window, of, names, r)}, {padding});"
            ),
            source,
            width=width,
            writes=name,
        )
        return Ref("array", name, result.dtype)

    def _load_words(
        self, operation: ir.Load, of: Distribution, pointer: str, distance: list[int], names: list[str]
    ) -> Ref:
        """Pairs of 16 bits, as tensor cores take them."""
        window, type_ = operation.window, operation.window.array.dtype
        width = self._width(window, of, 2)
        name = self.declare("w", "unsigned", of.registers // 2)
        apart = distance[1] - distance[0]
        self.code.each(
            of.registers,
            lambda r: (
                f"{name}[{r} / 2] = tile::load_pair<{type_.c_name}, {width}>({pointer} + "
                f"{self.code.at(tuple(distance), r)}, {apart}, {self._inside(window, of, names, r)}, "
                f"{self._inside(window, of, names, f'({r} + 1)')});"
            ),
            operation.source,
            width=2,
            writes=name,
        )
        return Ref("packed", name, operation.result.dtype)

    def _keep(self, n: StagedNumbers, source: ir.Source) -> None:
        """A tile that is copied to shared memory once."""
        name = n.staged.name
        self.code.add(f"const unsigned tile_{name} = shared + {self.memory.kept[name]}u;", source)
        self._enter("{")
        self.code.add(f"auto copy = {self._copy(n.staged)};", source)
        if n.copy.method == "cp.async":
            self.code.add(f"copy.start(tile_{name});")
            self.code.add("ptx::cp_async_commit_group();")
            self.code.add("ptx::cp_async_wait_group<0>();")
        else:
            self.code.add("copy.load();")
            self.code.add(f"copy.store(tile_{name});")
        self._leave()
        self.code.add("ptx::barrier_sync();")

    def _store(self, operation: ir.Store | ir.AtomicRmw) -> None:
        place, window, value, source = self.stores, operation.window, operation.value, operation.source
        self.stores += 1
        spread = self.found.stored[place]
        of, ref = self.of(spread), self.ref(value, spread)
        if self.values.get(f"store_{place + 1}", "direct") == "turned":
            target = turned(window, self.numbers.warps)
            ref, of = self._moved(ref, of, target, source), target
        pointer, distance, names = self._access(window, of, source)
        type_, leader = window.array.dtype, of.leader(self.numbers.warps)
        atomic = isinstance(operation, ir.AtomicRmw)
        width = 1 if atomic else self._width(window, of, WIDEST // type_.bytes)
        raw = ref.raw() if ref.kind == "array" else ref
        plain = raw.kind == "array" and raw.table is None

        def tested(r: str) -> str:
            tests = [t for t in (leader, self._inside(window, of, names, r)) if t not in ("", "true")]
            return " && ".join(tests) or "true"

        def text(r: str) -> str:
            to = f"{pointer} + {self.code.at(tuple(distance), r)}"
            if isinstance(operation, ir.AtomicRmw):
                call = {"addf": "add", "addi": "add", "maxs": "max", "mins": "min"}[operation.kind]
                return f"if ({tested(r)}) ptx::reduce_{call}({to}, {raw.text(self.code, r)});"
            call = f"tile::store<{type_.c_name}, {width}>({to}"
            if plain:
                return f"{call}, &{raw.name}[{r}], {tested(r)});"
            numbers_ = ", ".join(raw.text(self.code, r if i == 0 else f"({r} + {i})") for i in range(width))
            register = register_type(type_)
            return f"{{ const {register} x[{width}] = {{{numbers_}}}; {call}, x, {tested(r)}); }}"

        self.code.each(of.registers, text, source, width=width, scattered=raw.scattered)

    def _prefetch(self, operation: ir.Prefetch) -> None:
        """A thread for each line of 128 bytes of the window."""
        window, source = operation.window, operation.source
        if operation.locality == 0:
            return
        along = 0 if window.turned else 1
        element = window.array.dtype.bytes
        line = max(1, 128 // element)
        across, count = window.shape[1 - along], -(-window.shape[along] // line)
        strides = window.strides
        self._enter(f"for (int i = thread; i < {across * count}; i += {self.numbers.warps * WARP}) {{", source)
        self.code.add(f"const int across = {window.at[1 - along].code} + i / {count};", source)
        self.code.add(f"const int along = {window.at[along].code} + i % {count} * {line};", source)
        level = "l1" if operation.locality == 3 else "l2"
        self.code.add(
            f"if (across < {window.extent[1 - along]} && along < {window.extent[along]}) ptx::prefetch_{level}("
            f"{self.base(window.array)} + static_cast<long long>(across) * {strides[1 - along]} + along);",
            source,
        )
        self._leave()

    # Moves between threads

    def _moved(
        self, ref: Ref, source: Distribution, target: Distribution, line: ir.Source, shared: bool = False
    ) -> Ref:
        """The value in another distribution."""
        if ref.kind == "constant" or (source == target and not shared):
            return ref
        route = None if shared else move(source, target, self.numbers.warps)
        if isinstance(route, Renamed):
            return ref.through(route.table)
        if isinstance(route, Shuffled):
            return self._shuffled(ref, route, line)
        return self._exchanged(ref, source, target, line)

    def _shuffled(self, ref: Ref, route: Shuffled, line: ir.Source) -> Ref:
        register = register_type(ref.dtype)
        name = self.declare("v", register, len(route.table))
        given = ref.raw() if ref.kind == "array" else ref
        held = given.through(route.table)
        self.code.each(
            len(route.table),
            lambda r: f"{name}[{r}] = tile::exchanged({held.text(self.code, r)}, {self.code.at(route.masks, r)});",
            line,
            writes=name,
            scattered=given.scattered or (given.name,),
        )
        return Ref("array", name, ref.dtype, rough=ref.rough and ref.kind == "array")

    def _exchanged(self, ref: Ref, source: Distribution, target: Distribution, line: ir.Source) -> Ref:
        """Through shared memory: barrier, write, barrier, read."""
        text = str(self.values["exchange"])
        layout = exchange_layout(text, source.shape)
        place = self.memory.use(self.loop, exchange_bytes(text, source.shape))
        given = ref.raw() if ref.kind == "array" else ref
        given = given if given.kind == "array" and given.table is None else self._array(given, source.registers, line)
        register = register_type(ref.dtype)
        self._barrier(line)
        leader = source.leader(self.numbers.warps)
        if leader:
            self._enter(f"if ({leader}) {{", line)
        self._words(given.name, source, layout, place, "put", line)
        if leader:
            self._leave()
        self.code.add("ptx::barrier_sync();", line)
        name = self.declare("v", register, target.registers)
        self._words(name, target, layout, place, "get", line)
        return Ref("array", name, ref.dtype, rough=ref.rough and ref.kind == "array")

    def _barrier(self, line: ir.Source) -> None:
        """In front of what writes shared memory."""
        self.code.add("ptx::barrier_sync();", line)
        self._written = True

    def _words(
        self, name: str, of: Distribution, layout: SharedLayout, place: int, function: str, line: ir.Source
    ) -> None:
        """All registers of an array to shared memory, or from there, in the widest pieces."""
        starts = [self.coordinate(of, d) for d in (0, 1)]
        axes: tuple[Axis, Axis] = ("rows", "cols")
        width = max(math.gcd(of.run(d), layout.contiguity(axes[d]), 4) for d in (0, 1))
        registers = of.of_registers(0), of.of_registers(1)

        def text(r: str) -> str:
            at = ", ".join(f"{starts[d]} + {self.code.at(registers[d], r)}" for d in (0, 1))
            address, array = f"shared + {place}u + 4u * unsigned({layout.c_name}::offset({at}))", f"&{name}[{r}]"
            given = f"{address}, {array}" if function == "put" else f"{array}, {address}"
            return f"tile::{function}<{width}>({given});"

        self.code.each(of.registers, text, line, width=width, writes=name if function == "get" else "")
        self.code.flush()

    def _reduce(self, operation: ir.Reduce, spread: Spread) -> Ref:
        source_spread = self.found.sources[operation.result.id]
        of, source = self.of(source_spread), operation.source
        _, table = fold(of, operation.dimension, operation.size)
        given = self.ref(operation.value, source_spread)
        row = REDUCTIONS[operation.kind]
        count = self.of(spread).registers
        name = self.declare("v", register_type(operation.result.dtype), count)
        first = [table.index(q) for q in range(count)]
        rest = tuple(r for r in range(of.registers) if r not in set(first))
        into = tuple(table[r] for r in rest)
        self.code.flush()
        self.code.each(
            count, lambda q: f"{name}[{q}] = {given.text(self.code, self.code.at(tuple(first), q))};", source
        )
        self.code.flush()
        if rest:
            self.code.each(
                len(rest),
                lambda i: (
                    f"{name}[{self.code.at(into, i)}] = "
                    + row.code.format(f"{name}[{self.code.at(into, i)}]", given.text(self.code, self.code.at(rest, i)))
                    + ";"
                ),
                source,
            )
            self.code.flush()
        if operation.result.id not in self.partial:
            self._join(name, operation, of, source)
        return Ref("array", name, operation.result.dtype)

    def _join(self, name: str, operation: ir.Reduce, of: Distribution, source: ir.Source) -> None:
        """The parts of lanes, then those of warps."""
        row, dimension, size = REDUCTIONS[operation.kind], operation.dimension, operation.size
        folded, _ = fold(of, dimension, size)
        count = folded.registers
        for mask in sorted(_masks(of, dimension) - _masks(folded, dimension)):
            self.code.each(
                count,
                lambda q, mask=mask: (  # type: ignore[misc]
                    f"{name}[{q}] = " + row.code.format(f"{name}[{q}]", f"tile::exchanged({name}[{q}], {mask})") + ";"
                ),
                source,
            )
            self.code.flush()
        if across_bytes(of, dimension, folded):
            self._join_warps(name, operation, of, folded, source)

    def _join_warps(
        self, name: str, operation: ir.Reduce, of: Distribution, folded: Distribution, source: ir.Source
    ) -> None:
        """Each warp leaves its part in shared memory, and all add them up in one order."""
        if operation.size != operation.value.shape[operation.dimension]:
            raise ir.ProgramError(f"{source}: reduction: groups of {operation.size} are split over subgroups")
        row, dimension = REDUCTIONS[operation.kind], operation.dimension
        digits = of.used("warp", 0, dimension)
        parts = math.prod(extent for _, extent in digits)
        place = self.memory.use(self.loop, across_bytes(of, dimension, folded))
        register = register_type(operation.result.dtype)
        elements = math.prod(folded.shape)
        part, weight = [], 1
        for stride, extent in digits:
            part.append(f"warp / {stride} % {extent} * {weight}")
            weight *= extent
        start = self.coordinate(folded, 1 - dimension)
        offsets = folded.of_registers(1 - dimension)
        # Of the warps that hold copies of a result beside its parts, and of such lanes, the first one writes.
        tests = []
        for where, limit in (("warp", self.numbers.warps), ("lane", WARP)):
            used = folded.used(where, limit) + (digits if where == "warp" else [])  # type: ignore[arg-type]
            if math.prod(e for _, e in used) != limit:
                own = " + ".join(f"{where} / {s} % {e} * {s}" for s, e in used) or "0"
                tests.append(f"{where} == {own}")
        self._barrier(source)
        self._enter(f"if ({' && '.join(tests) or 'true'}) {{", source)
        self.code.each(
            folded.registers,
            lambda q: (
                f"tile::put<1>(shared + {place}u + 4u * unsigned(({' + '.join(part)}) * {elements} + {start} + "
                f"{self.code.at(offsets, q)}), &{name}[{q}]);"
            ),
            source,
        )
        self._leave()
        self.code.add("ptx::barrier_sync();", source)
        self._enter("{")
        self.code.add(f"{register} part[{parts}];")
        self.code.each(
            folded.registers,
            lambda q: (
                "{ "
                + " ".join(
                    f"tile::get<1>(&part[{i}], shared + {place}u + 4u * unsigned({i * elements} + {start} + "
                    f"{self.code.at(offsets, q)}));"
                    for i in range(parts)
                )
                + f" {name}[{q}] = part[0]; "
                + " ".join(f"{name}[{q}] = {row.code.format(f'{name}[{q}]', f'part[{i}]')};" for i in range(1, parts))
                + " }"
            ),
            source,
        )
        self._leave()

    # Products

    def _product(self, operation: ir.Mma) -> None:
        """The accumulators now; the loop over k when the result is read, so that products share fragments."""
        spread = self.found.natural[operation.result.id]
        count = self.of(spread).registers
        if self.waiting and self.waiting[0].operation.a.shape[1] != operation.a.shape[1]:
            self._finish_products()
        name = self.declare("acc", "float", count)
        if operation.c is None:
            self.code.each(count, lambda r: f"{name}[{r}] = 0.0f;", operation.source, writes=name)
        else:
            ref = self.ref(operation.c, spread)
            self.code.each(
                count,
                lambda r: f"{name}[{r}] = {ref.text(self.code, r)};",
                operation.source,
                writes=name,
                scattered=ref.scattered,
            )
        self.refs[operation.result.id, spread] = Ref("array", name, F32)
        self.waiting.append(_Waiting(operation, name))

    def _finish_product(self, value: int) -> None:
        if any(w.operation.result.id == value for w in self.waiting):
            self._finish_products()

    def _finish_products(self) -> None:
        if not self.waiting:
            return
        waiting, self.waiting = self.waiting, []
        assert self.row is not None
        row = self.row
        first = waiting[0].operation
        number = self.found.product_of
        operands: dict[tuple[int, Spread], str] = {}
        loaded: list[str] = []
        for w in waiting:
            product = number[w.operation.result.id]
            for side, value in (("left", w.operation.a), ("right", w.operation.b)):
                spread = Spread(side, value.shape, product)  # type: ignore[arg-type]
                if (value.id, spread) not in operands:
                    operands[value.id, spread] = self._operand(value, spread, w.operation.source, loaded)
        self.code.flush()
        self.code.add("#pragma unroll")
        self._scopes.append([])
        self.code.open(f"for (int step = 0; step < {first.a.shape[1] // row.k}; ++step) {{", first.source)
        for line in loaded:
            self.code.add(line)
        for w in waiting:
            o = w.operation
            n = self.numbers.products[number[o.result.id]]
            fragments_m, fragments_n = n.fragments
            a, b = (
                operands[v.id, Spread(side, v.shape, number[o.result.id])]  # type: ignore[arg-type]
                for side, v in (("left", o.a), ("right", o.b))
            )
            type_ = row.c_name(o.a.dtype.c_name, o.b.dtype.c_name)
            self.code.add(f"tile::multiply<{type_}, {fragments_m}, {fragments_n}>({w.array}, {a}, {b});", o.source)
        self.code.close()
        self._scopes.pop()
        for w in waiting:
            for state in w.sets:
                name, array = self.states[state], w.array
                count = self.of(self.found.natural[w.operation.result.id]).registers
                self.code.each(
                    count,
                    lambda r, name=name, array=array: f"{name}[{r}] = {array}[{r}];",  # type: ignore[misc]
                    w.operation.source,
                    writes=name,
                )
        self.code.flush()

    def _group(self, staged: Staged) -> str:
        """The place of a warp along m or n, among the subgroups of a product."""
        product, d = self.numbers.products[staged.product], 0 if staged.side == "a" else 1
        groups = min(product.groups[d], product.shape[d] // product.data[d])
        if groups == 1:
            return "0"
        own = f"warp / {product.groups[1]}" if d == 0 else f"warp % {product.groups[1]}"
        return own if product.groups[d] == groups else f"({own}) % {groups}"

    def _operand(self, value: ir.Value, spread: Spread, source: ir.Source, loaded: list[str]) -> str:
        """The fragments of a step: an expression of ``step``. What is in shared memory is loaded step by step."""
        assert self.row is not None
        ref = self.refs[value.id, spread]
        side, of = ("A" if spread.kind == "left" else "B"), self.of(spread)
        type_ = self.row.c_name(value.dtype.c_name, value.dtype.c_name)
        if ref.kind == "staged":
            staged = next(n.staged for n in self.staged.values() if n.staged.name == ref.name)
            kind = "Left" if side == "A" else "Right"
            name = self.new("fragments")
            loaded.append(f"tile::{kind}Fragments<Operand_{ref.name}> {name};")
            loaded.append(f"{name}.load(tile_{ref.name}, step, {self._group(staged)}, lane);")
            return f"{name}.x"
        if self.is_packed(value.dtype, spread):
            ref = self._pack(ref, of.registers, source)
        elif ref.kind != "array" or ref.table is not None or ref.rough:
            ref = self._array(ref, of.registers, source)
        n = self.numbers.products[spread.number]
        fragments = n.fragments[0 if side == "A" else 1]
        return f"reinterpret_cast<const typename {type_}::Fragment{side}*>({ref.name}) + step * {fragments}"

    def _fragments(self, value: ir.Value, spread: Spread) -> Ref:
        """All fragments of an operand in registers."""
        ref = self.refs[value.id, spread]
        n = next(n for n in self.staged.values() if n.staged.name == ref.name)
        base = spread.of if spread.kind == "swap" and spread.of is not None else spread
        count = self.of(base).registers
        packed = self.is_packed(value.dtype, base)
        name = self.declare("w" if packed else "v", "unsigned" if packed else "float", count // 2 if packed else count)
        self.code.add(
            f"tile::load_fragments<Operand_{ref.name}>({name}, tile_{ref.name}, {self._group(n.staged)}, lane);"
        )
        made = Ref("packed" if packed else "array", name, value.dtype)
        self.refs[value.id, spread] = made
        return made


def _masks(of: Distribution, dimension: int) -> set[int]:
    """The bits of the lane's number that belong to a dimension."""
    return {stride << bit for stride, size in of.used("lane", WARP, dimension) for bit in range(size.bit_length() - 1)}


def outside_ring(loop: int | None, ring: list[StagedNumbers]) -> bool:
    """Whether a loop's exchanges have a place of their own: those of inner loops without a ring are those around."""
    return loop is None or bool(ring)


def grid_code(trace: ir.Trace, raster: str) -> list[str]:
    """The block's coordinates."""
    blocks = trace.blocks
    if len(blocks) == 1:
        return ["const int block_0 = int(blockIdx.x);"]
    rows, columns = blocks[-2:]
    tile = "int(blockIdx.x)" if len(blocks) == 2 else f"int(blockIdx.x) % {rows * columns}"
    first = len(blocks) - 2
    lines = [] if len(blocks) == 2 else [f"const int block_0 = int(blockIdx.x) / {rows * columns};"]
    return [
        *lines,
        f'constexpr Choice order = "{raster}";',
        f"const TileIndex block = raster<raster_order(order), raster_group(order), {rows}, {columns}>({tile});",
        f"const int block_{first} = block.m, block_{first + 1} = block.n;",
    ]
