"""Generate the CUDA C++ of a schedule.

Inference and the schedule determine how each value is distributed to threads and registers. The registers of a value
are a C++ array in the order of the value's distribution. If a value is used in another register order, a constant table
maps the indices. Barriers never deadlock, because all threads of a block execute the same operations.
"""

from __future__ import annotations

from search_spaces.hardware.dtypes import F32, DType
from search_spaces.programs.inference.inference import Spread
from search_spaces.programs.language import ir
from search_spaces.programs.language.distribution import fold
from search_spaces.programs.language.functions import FUNCTIONS
from search_spaces.programs.lowering.contraction import fused_products, fused_sum, is_power_of_two, product
from search_spaces.programs.lowering.emit_loops import PipelinedLoops
from search_spaces.programs.lowering.function_code import function_code
from search_spaces.programs.lowering.in_place import read_in_place
from search_spaces.programs.lowering.packed_numbers import FROM_BYTE, fours, stored_bytes, widened
from search_spaces.programs.lowering.refs import Ref, argument_name, constant, register_type
from search_spaces.programs.planning.splits import fetched_states
from search_spaces.programs.planning.uniform import always


class Emitter(PipelinedLoops):
    """Emitter of one schedule's kernel body."""

    def run(self) -> None:
        """Generate the body."""
        operations = self.inference.trace.operations
        if self.split is not None and self.split.launches > 1:
            # The second kernel executes the remaining operations.
            operations = operations[: operations.index(self.split.loop) + 1]
        self._operations(operations)
        self.finish()
        self.code.flush()
        self._free_tensor(operations[-1].source)

    def _operations(self, operations: tuple[ir.Operation, ...]) -> None:
        for operation in operations:
            with self.code.default_source(operation.source):
                self._operation(operation)

    def _operation(self, operation: ir.Operation) -> None:
        match operation:
            case ir.Loop(body=(ir.FetchPart(), *_)) if self.split is None:
                pass  # one block executes the loop, so there is nothing to combine
            case ir.Set(state) if self.split is None and state in fetched_states(self.inference):
                pass  # one block executes the loop, so no other block has states
            case ir.FetchPart():
                self._fetch_part(operation)
            case ir.Loop():
                self.finish()
                self._expect_body(operation.body)
                self._loop(operation)
            case ir.If():
                self.finish()
                self._enter(f"if ({operation.index.code} == {operation.equals}) {{", operation.source)
                self._operations(operation.body)
                self._leave()
            case ir.Set():
                self._set(operation)
            case ir.StoreTile() | ir.AtomicRmw():
                self.finish()
                self._store(operation)
            case ir.Prefetch():
                self._prefetch(operation)
            case ir.LoadScalar():
                self.code.add(self.scalar(operation), operation.source)
                if not self.loops:
                    self.producer.append(self.scalar(operation))
            case ir.FindTile():
                for line in self.tile_search(operation):
                    self.code.add(line, operation.source)
                    if not self.loops:
                        self.producer.append(line)
            case ir.Uniform(index, value):
                number = self.ref(value, self.inference.uniform[index.number]).text(self.code, "0")
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
            if self.inference.wanted.get(result.id):
                self._product(operation)
                self._convert_all(operation)
            return
        for spread in self.inference.computed_in(result):
            self.refs[result.id, spread] = self._value(operation, spread)
        self._convert_all(operation)

    def _convert_all(self, operation: ir.Computing) -> None:
        """Convert an operation's result to all distributions in which the result is used."""
        result = operation.result
        if self.inference.light[result.id]:
            return
        for spread in self.inference.wanted.get(result.id, []):
            own = self.inference.natural[result.id]
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
            case ir.PassedScalar(_, name):
                return Ref("constant", argument_name(name), result.dtype)
            case ir.Coordinates(_, dimension, base):
                of = self.of(spread)
                start = self.coordinate(of, dimension)
                text = " + ".join(t for t in (base.code, start) if t != "0") or "0"
                return Ref("coordinate", f"({text})", result.dtype, of.of_registers(dimension))
            case ir.Read(_, state):
                return self._read(result, state, spread, source)
            case ir.TransposeTile(_, value):
                # Emit a pending product here, because this case does not call ``ref``, which would emit it.
                self._finish_product(value.id)
                return self.refs[value.id, spread.swap()]
            case ir.Reshape(_, value):
                self._finish_product(value.id)
                return self.refs[value.id, spread.reshape(value.shape)]
            case ir.Broadcast(_, value, dimension):
                _, table = fold(self.of(spread), dimension, operation.size)
                return self.ref(value, spread.group(dimension, operation.size)).through(table)
            case ir.Convert(_, value, shared):
                own = self.inference.natural.get(value.id, spread)
                return self._moved(self.ref(value, own), self.of(own), self.of(spread), source, shared)
            case ir.PadTile():
                return self._padded(operation, spread)
            case ir.ReduceTile():
                return (self._reduce if operation.index is None else self._pick)(operation, spread)
            case ir.Scan():
                return self._scan(operation, spread)
            case ir.Map():
                return self._map(operation, spread)
        raise ir.ProgramError(f"{source}: {ir.spelled(operation)} is not supported by the CUDA generator")

    def _map(self, operation: ir.Map, spread: Spread) -> Ref:
        result, source = operation.result, operation.source
        operands = [
            self.ref(a, spread) if isinstance(a, ir.Value) else constant(a, self._number_type(operation))
            for a in operation.arguments
        ]
        if operation.function == "cast":
            return self._cast(operands[0], result.dtype, spread, source)
        code, divisor = function_code(operation, self.inference, self.iterations), operation.arguments[-1]
        if operation.function == "divide" and isinstance(divisor, float | int) and is_power_of_two(divisor):
            code, operands[1] = FUNCTIONS["multiply"].code, constant(1.0 / divisor, F32)
        if result.id in fused_products(self.inference):
            return product(operands)
        fused = fused_sum(operation.function, operands)
        if fused is not None:
            code, operands = fused.name, list(fused.parts)
        if operation.function.startswith(("nibble", "fp4")) and self.is_packed(result.dtype, spread):
            return fours(self, operation, operands, self.of(spread))
        if result.dtype.name == "bool":  # a truth value is not stored in a register, but computed at each use
            return Ref("inline", code, result.dtype, parts=tuple(operands))
        count = self.of(spread).registers
        uniform = always(operation, self.inference, self.iterations) if operation.function == "where" else None
        name = self.declare("v", register_type(result.dtype), count)
        if uniform is not None and operands[2].kind == "constant":
            return self._masked(name, operands, uniform, count, result, source)
        scattered = [n for g in operands for n in g.scattered]
        self.code.each(
            count,
            lambda r: f"{name}[{r}] = {code.format(*(g.text(self.code, r) for g in operands))};",
            source,
            writes=name,
            scattered=scattered,
        )
        return Ref("array", name, result.dtype)

    def _masked(
        self, name: str, operands: list[Ref], uniform: str, count: int, result: ir.Value, source: ir.Source
    ) -> Ref:
        """Emit ``where`` with a constant as third argument.

        ``uniform`` is a C++ expression. If it is true, the condition holds for all elements of the tile, and the block
        skips the masks.
        """
        mask, value, other = operands
        self.code.each(count, lambda r: f"{name}[{r}] = {value.text(self.code, r)};", source, writes=name)
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

    def _cast(self, ref: Ref, to: DType, spread: Spread, source: ir.Source) -> Ref:
        code = _narrowing(ref.dtype, to)
        if code:
            name, count = self.declare("v", register_type(to), self.of(spread).registers), self.of(spread).registers
            self.code.each(
                count, lambda r: f"{name}[{r}] = {code.format(ref.text(self.code, r))};", source, writes=name,
                scattered=ref.scattered,
            )  # fmt: skip
            cast = Ref("array", name, to)
            return self._pack(cast, count, source) if self.is_packed(to, spread) else cast
        if ref.kind == "constant":
            if ref.dtype.is_float or not to.is_float:
                return Ref("constant", ref.name, to)
            return Ref("constant", f"float({ref.name})", to)
        stored = stored_bytes(ref)
        operand = spread.of if spread.kind == "swap" and spread.of is not None else spread
        if to.bits == 16 and stored is not None and self.is_packed(to, operand):
            return widened(self, stored, to, self.of(spread).registers, source)
        if to.is_float and ref.kind == "packed" and ref.dtype.bits == 8:
            return Ref("inline", FROM_BYTE, to, parts=(ref,))
        if to.bits == 16:
            narrow = Ref(ref.kind, ref.name, to, ref.table, True, ref.parts)
            if ref.rough or ref.kind == "packed":  # round twice, as the value is rounded to another type first
                narrow = self._array(ref, self.of(spread).registers, source, to)
            return self._pack(narrow, self.of(spread).registers, source) if self.is_packed(to, spread) else narrow
        if to.is_float and not ref.dtype.is_float:
            return Ref("inline", "float({0})", to, parts=(ref,))
        if ref.rough or ref.kind == "packed":
            return self._array(ref, self.of(spread).registers, source, to)
        return Ref(ref.kind, ref.name, to, ref.table, False, ref.parts)

    def _set(self, operation: ir.Set) -> None:
        waiting = next((w for w in self.waiting if w.operation.result.id == operation.value.id), None)
        spread = self.inference.states[operation.state]
        count = self.of(spread).registers
        if operation.state not in self.states:
            type_ = register_type(operation.value.dtype)
            self.states[operation.state] = self.declare("state", type_, count)
        if waiting is not None and self.inference.natural[operation.value.id] == spread:
            waiting.sets.append(operation.state)
            return
        ref, name = self.ref(operation.value, spread), self.states[operation.state]
        if ref.name == name and ref.table is None:  # the value is already in the state's array
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
        if result.id in read_in_place(self.inference):
            return Ref("array", name, result.dtype)
        copy = self.declare("v", register_type(result.dtype), count)
        self.code.each(count, lambda r: f"{copy}[{r}] = {name}[{r}];", source, writes=copy)
        return Ref("array", copy, result.dtype)


def _narrowing(from_: DType, to: DType) -> str:
    """Return the C++ function call that casts its argument ``{0}`` to ``to``; "" if the cast needs no call."""
    if to.is_float:
        return f"tile::narrowed<{to.c_name}>({{0}})" if to.bits == 8 else ""
    cut = "tile::truncated({0})" if from_.is_float else "{0}"
    if to.bits == 8:
        return f"tile::saturated<{to.c_name}>({cut})"
    return cut if from_.is_float else ""
