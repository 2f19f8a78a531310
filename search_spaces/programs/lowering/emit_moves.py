"""Emit redistributions of values by register moves, shuffles or shared memory, and reductions across threads.

Only exchanges through shared memory contain barriers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from search_spaces.hardware.fragments import WARP
from search_spaces.layouts.shared_layout import SharedLayout
from search_spaces.programs.inference.inference import Spread
from search_spaces.programs.language import ir
from search_spaces.programs.language.distribution import Digit, Distribution, fold
from search_spaces.programs.language.functions import REDUCTIONS
from search_spaces.programs.language.moves import Renamed, Shuffled, move
from search_spaces.programs.lowering.contraction import is_product
from search_spaces.programs.lowering.emit_base import EmitterBase
from search_spaces.programs.lowering.refs import Ref, constant, register_type
from search_spaces.programs.planning.exchange import access_width, steps
from search_spaces.programs.planning.memory import across_bytes, exchange_layout


class Moves(EmitterBase):
    """Emitter of conversions between distributions, and of reductions."""

    def _moved(
        self, ref: Ref, source: Distribution, target: Distribution, line: ir.Source, shared: bool = False
    ) -> Ref:
        """Emit the conversion of a value to another distribution; return a reference to the result."""
        if ref.kind == "constant" or (source == target and not shared):
            return ref
        route = None if shared else move(source, target, self.distributions.warps)
        if isinstance(route, Renamed):
            return ref.through(route.table)
        if isinstance(route, Shuffled):
            return self._shuffled(ref, route, line)
        return self._exchanged(ref, source, target, line)

    def _shuffled(self, ref: Ref, route: Shuffled, line: ir.Source) -> Ref:
        register = register_type(ref.dtype)
        name = self.declare("v", register, len(route.table))
        operand = ref.raw() if ref.kind == "array" else ref
        held = operand.through(route.table)
        self.code.each(
            len(route.table),
            lambda r: f"{name}[{r}] = tile::exchanged({held.text(self.code, r)}, {self.code.at(route.masks, r)});",
            line,
            writes=name,
            scattered=operand.scattered or (operand.name,),
        )
        return Ref("array", name, ref.dtype, rough=ref.rough and ref.kind == "array")

    def _padded(self, operation: ir.PadTile, spread: Spread) -> Ref:
        """Emit a value followed by zeros.

        Registers beyond the value may hold arbitrary data after the move; they are overwritten with zeros.
        """
        value, line, target = operation.value, operation.source, self.of(spread)
        if operation.wide is not None:
            ref = moved = self.ref(operation.wide, spread)
        else:
            own = self.inference.natural[value.id]
            ref, source = self.ref(value, own), self.of(own)
            if ref.kind != "constant" and move(source, target, self.distributions.warps) is None:
                return self._exchanged(ref, source, target, line, operation)
            moved = self._moved(ref, source, target, line)
        operand = moved.raw() if moved.kind == "array" else moved
        name, dtype = self.declare("v", register_type(ref.dtype), target.registers), ref.dtype
        inside = self._before_zeros(operation, target)
        zero = constant(0.0, dtype).name
        self.code.each(
            target.registers,
            lambda r: f"{name}[{r}] = {inside(r)} ? {operand.text(self.code, r)} : {zero};",
            line,
            writes=name,
            scattered=operand.scattered,
        )
        return Ref("array", name, dtype, rough=moved.rough and moved.kind == "array")

    def _before_zeros(self, operation: ir.PadTile, of: Distribution) -> Callable[[str], str]:
        """Return a function from a register's index to a C++ condition that is true for elements, false for zeros."""
        start, offsets = self.coordinate(of, operation.dimension), of.of_registers(operation.dimension)
        return lambda r: f"{start} + {self.code.at(offsets, r)} < {operation.depth}"

    def _exchanged(
        self, ref: Ref, source: Distribution, target: Distribution, line: ir.Source, pad: ir.PadTile | None = None
    ) -> Ref:
        """Emit a redistribution through shared memory: barrier, write, barrier, read.

        ``pad``: Operation whose zeros are appended during the read.
        """
        text = str(self.values["exchange"])
        layout = exchange_layout(text, target.shape)
        position = self.memory.exchange(self.loop, target.shape)
        operand = ref.raw() if ref.kind == "array" else ref
        operand = (
            operand
            if operand.kind == "array" and operand.table is None
            else self._array(operand, source.registers, line)
        )
        register = register_type(ref.dtype)
        self._barrier(line)
        leader = source.leader(self.distributions.warps)
        if leader:
            self._enter(f"if ({leader}) {{", line)
        self._words(operand.name, source, layout, position, "put", line)
        if leader:
            self._leave()
        self.code.add(self.barrier, line)
        name = self.declare("v", register, target.registers)
        if pad is not None:
            zero = constant(0.0, ref.dtype).name
            self.code.each(target.registers, lambda r: f"{name}[{r}] = {zero};", line, writes=name)
        self._words(name, target, layout, position, "get", line, pad)
        return Ref("array", name, ref.dtype, rough=ref.rough and ref.kind == "array")

    def _words(
        self,
        name: str,
        of: Distribution,
        layout: SharedLayout,
        position: int,
        function: str,
        line: ir.Source,
        pad: ir.PadTile | None = None,
    ) -> None:
        """Emit the widest possible accesses that copy registers to or from shared memory. Skip the zeros of ``pad``."""
        starts = [self.coordinate(of, d) for d in (0, 1)]
        width = access_width(of, layout)
        inside = None if pad is None else self._before_zeros(pad, of)
        if pad is not None:
            width = math.gcd(width, pad.depth)
        registers = of.of_registers(0), of.of_registers(1)
        between = steps(layout, of, self.distributions.warps)
        if between is not None:
            base = self.new("base")
            self.code.add(f"const int {base} = {layout.c_name}::offset({starts[0]}, {starts[1]});", line)

        def text(r: str) -> str:
            if between is None:
                at = ", ".join(f"{starts[d]} + {self.code.at(registers[d], r)}" for d in (0, 1))
                offset_of_r = f"{layout.c_name}::offset({at})"
            else:
                flips, adds = (self.code.at(numbers, r) for numbers in between)
                offset_of_r = f"{base if flips == '0' else f'({base} ^ {flips})'} + {adds}"
            address, array = f"shared + {position}u + 4u * unsigned({offset_of_r})", f"&{name}[{r}]"
            operands = f"{address}, {array}" if function == "put" else f"{array}, {address}"
            access = f"tile::{function}<{width}>({operands});"
            return access if inside is None else f"if ({inside(r)}) {access}"

        self.code.each(of.registers, text, line, width=width, writes=name if function == "get" else "")
        self.code.flush()

    def _reduce(self, operation: ir.ReduceTile, spread: Spread) -> Ref:
        source_spread = self.inference.sources[operation.result.id]
        of, source = self.of(source_spread), operation.source
        _, table = fold(of, operation.dimension, operation.size)
        held = self.picked.get(
            (
                operation.value.id, source_spread, operation.kind, operation.dimension, operation.size,
                self.inference.inside[operation.result.id],
            )
        )  # fmt: skip
        if held is not None:
            return Ref("array", held, operation.result.dtype)
        operand = self.ref(operation.value, source_spread)
        row = REDUCTIONS[operation.kind]
        count = self.of(spread).registers
        name = self.declare("v", register_type(operation.result.dtype), count)
        first = [table.index(q) for q in range(count)]
        rest = tuple(r for r in range(of.registers) if r not in set(first))
        into = tuple(table[r] for r in rest)
        self.code.flush()
        self.code.each(
            count, lambda q: f"{name}[{q}] = {operand.text(self.code, self.code.at(tuple(first), q))};", source
        )
        self.code.flush()
        if rest:
            self.code.each(
                len(rest),
                lambda i: self._added(f"{name}[{self.code.at(into, i)}]", operand, self.code.at(rest, i), row.code),
                source,
            )
            self.code.flush()
        if operation.result.id not in self.partial:
            self._join(name, operation, of, source)
        return Ref("array", name, operation.result.dtype)

    def _added(self, sum_: str, operand: Ref, register: str, code: str) -> str:
        """Return a C++ statement that combines a register of ``operand`` with the variable ``sum_``."""
        if is_product(operand):
            factors = (part.text(self.code, register) for part in operand.parts)
            return f"{sum_} = tile::multiply_add({', '.join(factors)}, {sum_});"
        return f"{sum_} = {code.format(sum_, operand.text(self.code, register))};"

    def _join(self, name: str, operation: ir.ReduceTile, of: Distribution, source: ir.Source) -> None:
        """Emit the combination of partial results across lanes, then across warps."""
        row, dimension, size = REDUCTIONS[operation.kind], operation.dimension, operation.size
        folded, _ = fold(of, dimension, size)
        count = folded.registers
        for digit, parts in _lane_parts(of, folded, dimension):
            if digit.stride & (digit.stride - 1) or parts & (parts - 1):
                self._join_lanes(name, operation, of, digit, parts)
                continue
            for mask in (digit.stride << bit for bit in range(parts.bit_length() - 1)):
                self.code.each(
                    count,
                    lambda q, mask=mask: (  # type: ignore[misc]
                        f"{name}[{q}] = "
                        + row.code.format(f"{name}[{q}]", f"tile::exchanged({name}[{q}], {mask})")
                        + ";"
                    ),
                    source,
                )
                self.code.flush()
        if across_bytes(of, dimension, folded):
            self._join_warps(
                {name: register_type(operation.result.dtype)},
                lambda q, parts: f"{name}[{q}] = {row.code.format(f'{name}[{q}]', *parts)};",
                operation,
                of,
                folded,
            )

    def _join_lanes(self, name: str, operation: ir.ReduceTile, of: Distribution, digit: Digit, parts: int) -> None:
        """Emit code that combines the partial results of ``parts`` lanes, which differ in one digit of their number.

        This code is used if ``parts`` or the digit's stride is not a power of two. All lanes combine the partial
        results in the same order. Each partial result is read from the first lane that holds it.
        """
        row, source, base = REDUCTIONS[operation.kind], operation.source, self.new("lane")
        register = register_type(operation.result.dtype)
        own = []
        for stride, size in of.used("lane", WARP):
            position = f"lane / {stride} % {size}"
            own.append(
                f"{position} / {parts} * {stride * parts}" if stride == digit.stride else f"{position} * {stride}"
            )
        self.code.flush()
        self.code.add(f"const int {base} = {' + '.join(own)};", source)

        def text(q: str) -> str:
            first, *rest = (f"tile::of_lane({name}[{q}], {base} + {i * digit.stride})" for i in range(parts))
            joined = " ".join(f"x = {row.code.format('x', other)};" for other in rest)
            return f"{{ {register} x = {first}; {joined} {name}[{q}] = x; }}"

        self.code.each(of.folded(operation.dimension, operation.size).registers, text, source)
        self.code.flush()

    def _join_warps(
        self,
        names: Mapping[str, str],
        joined: Callable[[str, list[str]], str],
        operation: ir.ReduceTile,
        of: Distribution,
        folded: Distribution,
    ) -> None:
        """Emit the combination of partial results across warps, through shared memory.

        All warps combine the partial results in the same order.

        Args:
            names: Register arrays with partial results, and their C++ types.
            joined: Function that returns the statement that combines register q of each array with another warp's
                partial results.
            operation: The reduction.
            of: Distribution of the reduction's operand.
            folded: Distribution of the reduction's result.
        """
        source = operation.source
        if operation.size != operation.value.shape[operation.dimension]:
            raise ir.ProgramError(
                f"{source}: reduction: groups of {operation.size} are split among subgroups: use a map that keeps each "
                "group in one subgroup"
            )
        dimension = operation.dimension
        digits = of.used("warp", 0, dimension)
        parts = math.prod(extent for _, extent in digits)
        bytes_ = across_bytes(of, dimension, folded)
        position = self.memory.exchange(self.loop, operation.result.id)
        elements = math.prod(folded.shape)
        part, weight = [], 1
        for stride, extent in digits:
            part.append(f"warp / {stride} % {extent} * {weight}")
            weight *= extent
        start = self.coordinate(folded, 1 - dimension)
        offsets = folded.of_registers(1 - dimension)
        # If several warps (or lanes) hold copies of a partial result, only the first of them writes it.
        tests = []
        for where, limit in (("warp", self.distributions.warps), ("lane", WARP)):
            used = folded.used(where, limit) + (digits if where == "warp" else [])  # type: ignore[arg-type]
            if math.prod(e for _, e in used) != limit:
                own = " + ".join(f"{where} / {s} % {e} * {s}" for s, e in used) or "0"
                tests.append(f"{where} == {own}")
        self._barrier(source)
        self._enter(f"if ({' && '.join(tests) or 'true'}) {{", source)

        held = {name: "part" if len(names) == 1 else f"part_{name}" for name in names}

        def address(array: int, part: str, q: str) -> str:
            at = f"{part} + {start} + {self.code.at(offsets, q)}"
            return f"shared + {position + array * bytes_}u + 4u * unsigned({at})"

        def put(q: str) -> str:
            own = f"({' + '.join(part)}) * {elements}"
            return " ".join(f"tile::put<1>({address(i, own, q)}, &{name}[{q}]);" for i, name in enumerate(names))

        def get(q: str) -> str:
            read = [
                f"tile::get<1>(&{held[name]}[{at}], {address(i, str(at * elements), q)});"
                for i, name in enumerate(names)
                for at in range(parts)
            ]
            first = [f"{name}[{q}] = {of}[0];" for name, of in held.items()]
            rest = [joined(q, [f"{of}[{at}]" for of in held.values()]) for at in range(1, parts)]
            return "{ " + " ".join([*read, *first, *rest]) + " }"

        self.code.each(folded.registers, put, source)
        self._leave()
        self.code.add(self.barrier, source)
        self._enter("{")
        for name, register in names.items():
            self.code.add(f"{register} {held[name]}[{parts}];")
        self.code.each(folded.registers, get, source)
        self._leave()


def _lane_parts(of: Distribution, folded: Distribution, dimension: int) -> list[tuple[Digit, int]]:
    """Return the lane digits along which partial results differ, each with the number of partial results to combine."""
    digits, remaining = [], folded.used("lane", WARP, dimension)
    for stride, size in of.used("lane", WARP, dimension):
        parts = size // next((n for s, n in remaining if stride <= s < stride * size), 1)
        if parts > 1:
            digits.append((Digit(size, "lane", stride), parts))
    return digits


def lane_masks(of: Distribution, dimension: int) -> set[int]:
    """Return the bits of the lane number that determine the coordinate along a dimension."""
    return {stride << bit for stride, size in of.used("lane", WARP, dimension) for bit in range(size.bit_length() - 1)}
