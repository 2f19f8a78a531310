"""Emit products by mma.sync, wmma and FMA: accumulators, fragments, and a loop over k for several products."""

from __future__ import annotations

from collections.abc import Mapping

from search_spaces.hardware.devices import Device
from search_spaces.programs.inference.inference import Inference, Spread, Staged, scale_spreads
from search_spaces.programs.language import ir
from search_spaces.programs.lowering.emit_boxes import Boxes
from search_spaces.programs.lowering.emit_tensor import Waiting
from search_spaces.programs.lowering.in_place import read_in_place, summed, uses
from search_spaces.programs.lowering.refs import Ref, constant, register_type
from search_spaces.programs.planning.boxes import BoxedNumbers
from search_spaces.programs.planning.scratch import WMMA_SUMS
from search_spaces.programs.planning.staging import sides
from search_spaces.programs.planning.wmma import WARP_BYTES, loop_to_read_after
from search_spaces.spaces.parameters import Value

UNROLLED_FMA = 8  # unroll factor for FMA products, whose steps have hundreds of instructions each


class Products(Boxes):
    """Emitter of products. ``waiting`` has the pending products, whose loop over k has not been emitted yet."""

    def __init__(self, inference: Inference, values: Mapping[str, Value], device: Device) -> None:
        super().__init__(inference, values, device)
        self.waiting: list[Waiting] = []

    def ref(self, value: ir.Value, spread: Spread) -> Ref:
        """Return a reference to a value in registers. If the value is in shared memory, emit loads."""
        self._finish_product(value.id)
        ref = self.refs[value.id, spread]
        if ref.kind != "staged":
            return ref
        return self._fragments(value, spread)

    def _product(self, operation: ir.Mma) -> None:
        """Emit the accumulators of a product.

        The loop over k is emitted when the result is needed, so that several products can share this loop.
        """
        spread = self.inference.natural[operation.result.id]
        count = self.of(spread).registers
        if self.waiting and self.waiting[0].operation.a.shape[1] != operation.a.shape[1]:
            self.finish()
        type_ = operation.result.dtype
        own = self._addend(operation, spread)
        name = own or self.declare("acc", register_type(type_), count)
        zero = constant(0.0, type_).name
        if own or (operation.c is None and self.boxed):
            pass  # the first multiplication overwrites the accumulators
        elif operation.c is None:
            self.code.each(count, lambda r: f"{name}[{r}] = {zero};", operation.source, writes=name)
        else:
            ref = self.ref(operation.c, spread)
            self.code.each(
                count,
                lambda r: f"{name}[{r}] = {ref.text(self.code, r)};",
                operation.source,
                writes=name,
                scattered=ref.scattered,
            )
        self.refs[operation.result.id, spread] = Ref("array", name, type_)
        self.waiting.append(Waiting(operation, name))

    def _addend(self, operation: ir.Mma, spread: Spread) -> str | None:
        """Return the register array of a product's addend if the product can accumulate in this array, else None."""
        c = operation.c
        if (
            c is None
            or uses(self.inference)[c.id] != 1
            or self.inference.inside[c.id] != self.inference.inside[operation.result.id]
        ):
            return None
        producer = self.inference.definitions[c.id]
        if c.id in read_in_place(self.inference) and c.id not in summed(self.inference):
            return None  # the product must not overwrite the array of a state that may be read later
        if not isinstance(producer, ir.Read) and not (isinstance(producer, ir.Map) and producer.function != "cast"):
            return None  # the product must not overwrite an array that another value may share
        ref = self.ref(c, spread)
        return ref.name if ref.kind == "array" and ref.table is None and not ref.rough else None

    def _finish_product(self, value: int) -> None:
        if any(w.operation.result.id == value for w in self.waiting):
            self.finish()

    def finish(self) -> None:
        """Emit the pending products."""
        if not self.waiting:
            return
        waiting, self.waiting = self.waiting, []
        with self.code.default_source(waiting[0].operation.source):
            if self.boxed:
                self._box_products(waiting)
            else:
                self._fragment_products(waiting)
        for w in waiting:
            for state in w.sets:
                name, array = self.states[state], w.array
                if name == array:
                    continue
                count = self.of(self.inference.natural[w.operation.result.id]).registers
                self.code.each(
                    count,
                    lambda r, name=name, array=array: f"{name}[{r}] = {array}[{r}];",  # type: ignore[misc]
                    w.operation.source,
                    writes=name,
                )
        self.code.flush()

    def _fragment_products(self, waiting: list[Waiting]) -> None:
        """Emit the loop over k of several products. Each step loads the fragments of operands in shared memory."""
        assert self.row is not None
        row = self.row
        first = waiting[0].operation
        number = self.inference.product_of
        operands: dict[tuple[int, Spread], str] = {}
        loaded: list[str] = []
        for w in waiting:
            for value, spread in sides(self.inference, w.operation):
                if (value.id, spread) not in operands:
                    operands[value.id, spread] = self._operand(value, spread, w.operation.source, loaded)
        scales = [self._scales(w.operation) for w in waiting]
        self.code.flush()
        # operands in registers need full unrolling, as registers cannot be indexed at run time
        staged = all(self.refs[key].kind == "staged" for key in operands)
        self.code.add(f"#pragma unroll {UNROLLED_FMA}" if row.unit == "fma" and staged else "#pragma unroll")
        self._scopes.append([])
        self.code.open(f"for (int step = 0; step < {first.a.shape[1] // row.k}; ++step) {{", first.source)
        for line in loaded:
            self.code.add(line)
        for w, scaled in zip(waiting, scales, strict=True):
            o = w.operation
            n = self.distributions.products[number[o.result.id]]
            fragments_m, fragments_n = n.fragments
            a, b = (operands[v.id, s] for v, s in sides(self.inference, o))
            type_ = row.c_name(o.a.dtype.c_name, o.b.dtype.c_name)
            types = [type_, str(fragments_m), str(fragments_n)]
            if self.wmma:
                types += [f"Operand_{self.refs[v.id, s].name}" for v, s in sides(self.inference, o)]
            if scaled:
                # A lane holds the scales of this number of rows of a, and of this number of columns of b.
                counts = 2 * fragments_m, fragments_n
                own = [f"{name} + step * {count}" for name, count in zip(scaled, counts, strict=True)]
                call = f"tile::multiply_scaled<{', '.join(types)}>({w.array}, {a}, {b}, {', '.join(own)}, lane);"
                self.code.add(call, o.source)
                continue
            self.code.add(f"tile::multiply<{', '.join(types)}>({w.array}, {a}, {b});", o.source)
        self.code.close()
        self._scopes.pop()
        if self.wmma:
            for w in waiting:
                if loop_to_read_after(self.inference, w.operation) is None:
                    self._read_sums(w.operation, w.array)

    def _scales(self, operation: ir.Mma) -> list[str]:
        """Emit arrays with the scales of a and b, and return their names; none if there are no scales.

        An array has one word for each combination of a step along k, a fragment, and a row of a (or column of b) that
        has elements in the lane. The bytes of a word are the scales of the step's blocks.
        """
        assert self.row is not None
        codes, number = list[str](), self.inference.product_of[operation.result.id]
        scales, operands = scale_spreads(operation, number), sides(self.inference, operation)
        for d, ((scale, spread), (value, whole)) in enumerate(zip(scales, operands[: len(scales)], strict=True)):
            ref, of, held = self.ref(scale, spread), self.of(spread), self.of(whole)
            depth, steps = value.shape[1 - d], value.shape[1 - d] // self.row.k
            blocks, fragments = scale.shape[1 - d] // steps, self.distributions.products[number].fragments[d]
            each = held.registers // (steps * fragments)
            lines = held.of_registers(d)
            positions = list(zip(of.of_registers(d), of.of_registers(1 - d), strict=True))
            words = list[str]()
            for word in range(depth // self.row.k * fragments):
                first, step = word * each, word // fragments
                for line in sorted(set(lines[first : first + each])):
                    registers = [positions.index((line, step * blocks + block)) for block in range(blocks)]
                    parts = [f"unsigned({ref.text(self.code, str(r))}) << {8 * b}" for b, r in enumerate(registers)]
                    words.append(" | ".join(parts))
            name = self.declare("scales", "unsigned", len(words))
            self.code.flush()
            for position, text in enumerate(words):
                self.code.add(f"{name}[{position}] = {text};", operation.source)
            codes.append(name)
        return codes

    def _buffer_fragments(self, loop: ir.Loop) -> tuple[int, list[str], list[tuple[str, ir.Source]]]:
        """Emit the declarations of two buffers for the fragments of an iteration's products.

        Returns:
            The number of steps per iteration, the code that loads the fragments of a step to a buffer, and the code
            that multiplies the fragments of a buffer and adds the products to the states.
        """
        assert self.row is not None
        names: dict[tuple[int, Spread], str] = {}
        reads, multiplies = list[str](), list[tuple[str, ir.Source]]()
        depth = 0
        for operation, state in self._products_of(loop):
            a, b = operation.a, operation.b
            depth = a.shape[1]
            for value, spread in sides(self.inference, operation):
                if (value.id, spread) not in names:
                    names[value.id, spread] = self._buffer(self.refs[value.id, spread].name, spread, reads)
            arrays = ", ".join(f"{names[v.id, s]}[buffer].x" for v, s in sides(self.inference, operation))
            n = self.distributions.products[self.inference.product_of[operation.result.id]]
            types = f"{self.row.c_name(a.dtype.c_name, b.dtype.c_name)}, {n.fragments[0]}, {n.fragments[1]}"
            multiplies.append((f"tile::multiply<{types}>({self.states[state]}, {arrays});", operation.source))
        return depth // self.row.k, reads, multiplies

    def _buffer(self, operand: str, spread: Spread, reads: list[str]) -> str:
        """Emit the declaration of an array of two buffers for an operand's fragments, and return the array's name."""
        staged = next(n.staged for n in self.staged.values() if n.staged.name == operand)
        kind, name = "Left" if spread.kind == "left" else "Right", self.new("fragments")
        self.code.declare(f"tile::{kind}Fragments<tile::ReadEarly<Operand_{operand}>> {name}[2];")
        reads.append(f"{name}[buffer].load(tile_{operand}, step, {self._group(staged)}, lane);")
        return name

    def _read_sums(self, operation: ir.Mma, array: str) -> None:
        """Emit the conversion of wmma accumulators, whose layout is unspecified, to the distribution of the product."""
        assert self.row is not None
        n = self.distributions.products[self.inference.product_of[operation.result.id]]
        offset = self.memory.exchange(self.loop, WMMA_SUMS)
        self._barrier(operation.source)
        fragments_m, fragments_n = n.fragments
        type_ = self.row.c_name(operation.a.dtype.c_name, operation.b.dtype.c_name)
        self.code.add(
            f"tile::read_sums<{type_}, {fragments_m * fragments_n}>({array}, shared + {offset}u + {WARP_BYTES}u * "
            "unsigned(warp), lane);",
            operation.source,
        )

    def _group(self, staged: Staged) -> str:
        """Return CUDA C++ for the index of a warp's subgroup along m or n."""
        product, d = self.distributions.products[staged.product], 0 if staged.side == "a" else 1
        groups = min(product.groups[d], product.shape[d] // product.data[d])
        if groups == 1:
            return "0"
        own = f"warp / {product.groups[1]}" if d == 0 else f"warp % {product.groups[1]}"
        return own if product.groups[d] == groups else f"({own}) % {groups}"

    def _operand(self, value: ir.Value, spread: Spread, source: ir.Source, loaded: list[str]) -> str:
        """Return CUDA C++ for the fragments of an operand in iteration ``step`` of the loop over k.

        For operands in shared memory, append to ``loaded`` the statements that load the fragments.
        """
        assert self.row is not None
        ref = self.refs[value.id, spread]
        side = "A" if spread.kind == "left" else "B"
        type_ = self.row.c_name(value.dtype.c_name, value.dtype.c_name)
        if ref.kind == "staged":
            staged = next(n.staged for n in self.staged.values() if n.staged.name == ref.name)
            kind = "Left" if side == "A" else "Right"
            name = self.new("fragments")
            loaded.append(f"tile::{kind}Fragments<Operand_{ref.name}> {name};")
            loaded.append(f"{name}.load(tile_{ref.name}, step, {self._group(staged)}, lane);")
            return f"{name}.x"
        of = self.of(spread)
        if self.is_packed(value.dtype, spread):
            ref = self._pack(ref, of.registers, source)
        elif ref.kind != "array" or ref.table is not None or ref.rough:
            ref = self._array(ref, of.registers, source)
        if self.row.rounds:
            ref = self._rounded(ref, of.registers, source)
        n = self.distributions.products[spread.number]
        fragments = n.fragments[0 if side == "A" else 1]
        return f"reinterpret_cast<const typename {type_}::Fragment{side}*>({ref.name}) + step * {fragments}"

    def _rounded(self, ref: Ref, count: int, source: ir.Source) -> Ref:
        """Emit the rounding of f32 operands to tf32, stored as 32-bit words."""
        name = self.declare("w", "unsigned", count)
        self.code.each(
            count, lambda r: f"{name}[{r}] = ptx::cvt_rna_tf32(ptx::bits_of({ref.name}[{r}]));", source, writes=name
        )
        return Ref("array", name, ref.dtype)

    def _fragments(self, value: ir.Value, spread: Spread) -> Ref:
        """Emit loads of all fragments of an operand in shared memory to registers."""
        ref = self.refs[value.id, spread]
        n = next(n for n in self.staged.values() if n.staged.name == ref.name)
        base = spread.of if spread.kind == "swap" and spread.of is not None else spread
        if isinstance(n, BoxedNumbers):
            packed_ref = self._box_fragments(value, base, n.staged)
            self.refs[value.id, spread] = packed_ref
            return packed_ref
        count = self.of(base).registers
        packed = self.is_packed(value.dtype, base)
        words = count * value.dtype.bits // 32 if packed else count
        name = self.declare("w" if packed else "v", "unsigned" if packed else "float", words)
        self.code.add(
            f"tile::load_fragments<Operand_{ref.name}>({name}, tile_{ref.name}, {self._group(n.staged)}, lane);"
        )
        packed_ref = Ref("packed" if packed else "array", name, value.dtype)
        self.refs[value.id, spread] = packed_ref
        return packed_ref
