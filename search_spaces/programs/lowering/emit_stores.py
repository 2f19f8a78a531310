"""Emit stores and atomics of tiles."""

from __future__ import annotations

from search_spaces.programs.language import ir
from search_spaces.programs.language.distribution import WIDEST, Distribution
from search_spaces.programs.language.functions import ATOMICS, REDUCTIONS
from search_spaces.programs.language.layout_distributions import transposed_distribution
from search_spaces.programs.lowering.emit_memory import MemoryAccess
from search_spaces.programs.lowering.refs import Ref, register_type


class Stores(MemoryAccess):
    """Emitter of stores and atomics."""

    def _store(self, operation: ir.StoreTile | ir.AtomicRmw) -> None:
        number, window, value, source = self.stores, operation.window, operation.value, operation.source
        self.stores += 1
        spread = self.inference.stored[number]
        if isinstance(operation, ir.StoreTile) and window.array.role == "shared":
            self._store_shared(operation, spread)
            return
        of, ref = self.of(spread), self.ref(value, spread)
        if self.values.get(f"store_{number + 1}", "direct") == "turned":
            target = transposed_distribution(window, self.distributions.warps)
            ref, of = self._moved(ref, of, target, source), target
        positions = self._positions(window, spread)
        pointer, distance, names = self._access(window, of, source)
        below = self._below(operation, of)
        type_, leader = window.array.dtype, of.leader(self.distributions.warps)
        atomic = isinstance(operation, ir.AtomicRmw)
        halves = isinstance(operation, ir.AtomicRmw) and operation.kind == "addf" and type_.bits == 16
        width = self._width(window, of, (2 if halves else 1) if atomic else WIDEST // type_.bytes)
        raw = ref.raw() if ref.kind == "array" else ref
        plain = raw.kind == "array" and raw.table is None

        def tested(r: str) -> str:
            inside = self._inside(window, of, names, r, positions, below)
            tests = [t for t in (leader, inside) if t not in ("", "true")]
            return " && ".join(tests) or "true"

        if self._may_conflict(window.array, operation) or (
            isinstance(operation, ir.AtomicRmw) and self._follows(operation, number)
        ):
            self.code.add(self.barrier, source)  # other threads may have accessed these elements: wait for them
        if isinstance(operation, ir.AtomicFetch):
            old = self.declare("old", register_type(type_), of.registers)
            scattered = (*raw.scattered, *(() if positions is None else positions.scattered))

            def fetched(r: str) -> str:
                to = f"{pointer} + {distance.code(self.code, r)}{self._far(window, positions, r)}"
                assignment = f"{old}[{r}] = "
                return f"{assignment}0; {self._combining(operation, to, tested(r), ref.text(self.code, r), assignment)}"

            self.code.each(of.registers, fetched, source, scattered=scattered)
            self.code.flush()
            result = Ref("array", old, type_)
            self.refs[operation.result.id, spread] = self._exchanged(result, of, of, source) if leader else result
            self._convert_all(operation)
            return

        def text(r: str) -> str:
            to = f"{pointer} + {distance.code(self.code, r)}{self._far(window, positions, r)}"
            if isinstance(operation, ir.AtomicRmw) and not halves:
                return self._combining(operation, to, tested(r), ref.text(self.code, r))
            call = f"tile::store<{type_.c_name}, {width}>({to}"
            if halves:
                native = str(type_.name == "f16" or self.device.has("bf16_atomics")).lower()
                call = f"if ({tested(r)}) tile::add_halves<{type_.c_name}, {width}, {native}>({to}"
                numbers_ = ", ".join(raw.text(self.code, r if i == 0 else f"({r} + {i})") for i in range(width))
                return f"{{ const float x[{width}] = {{{numbers_}}}; {call}, x); }}"
            if plain:
                return f"{call}, &{raw.name}[{r}], {tested(r)});"
            numbers_ = ", ".join(raw.text(self.code, r if i == 0 else f"({r} + {i})") for i in range(width))
            register = register_type(type_)
            return f"{{ const {register} x[{width}] = {{{numbers_}}}; {call}, x, {tested(r)}); }}"

        scattered = (*raw.scattered, *(() if positions is None else positions.scattered))
        self.code.each(of.registers, text, source, width=width, scattered=scattered)

    def _follows(self, operation: ir.AtomicRmw, position: int) -> bool:
        """Return True if the order of earlier atomics may affect the old value that this atomic fetches."""
        name, accesses = operation.window.array.name, list[int]()
        for number, store in enumerate(self.inference.stores):
            if isinstance(store, ir.AtomicRmw) and store.window.array.name == name:
                accesses.append(number)
        fetched = any(isinstance(self.inference.stores[number], ir.AtomicFetch) for number in accesses)
        return fetched and (len(accesses) > 1 or bool(self.inference.stored_in[position]))

    def _convert_all(self, operation: ir.Computing) -> None:
        """Convert a result to all distributions in which it is used (implemented in ``Emitter``)."""
        raise NotImplementedError

    def _below(self, operation: ir.StoreTile | ir.AtomicRmw, of: Distribution) -> str:
        """Emit a variable with the row of register 0 minus ``rows_below``, and return the variable's name.

        If the operation has no ``rows_below``, emit nothing and return "".
        """
        if not isinstance(operation, ir.StoreTile) or operation.rows_below is None:
            return ""
        name, at = self.new("below"), self.coordinate(of, 0)
        row = f"{operation.window.at[0].code} + {at} - {operation.rows_below.code}"
        self.code.add(f"const int {name} = {row};", operation.source)
        return name

    def _combining(self, operation: ir.AtomicRmw, to: str, inside: str, value: str, old: str = "") -> str:
        """Return a statement that atomically combines an element in memory with ``value``.

        ``old`` is the start of a statement that assigns the old element, such as ``x = ``; "" if it is not needed.
        """
        row, type_ = ATOMICS[operation.kind], operation.window.array.dtype
        if row.red and type_.bits == 32:
            return f"if ({inside}) {old}ptx::{'fetch' if old else 'reduce'}_{row.red}({to}, {value});"
        register = register_type(type_)
        joined = REDUCTIONS[row.reduction].code.format("y", "x") if row.reduction else "x"
        return (
            f"if ({inside}) {{ const {register} x = {value}; "
            f"{old}tile::combine({to}, [&]({register} y) {{ return {joined}; }}); }}"
        )
