"""Emit loads and prefetches of windows in global memory."""

from __future__ import annotations

import math
from dataclasses import dataclass

from search_spaces.hardware.dtypes import F32
from search_spaces.hardware.fragments import WARP
from search_spaces.programs.inference.inference import Spread, Staged, of_index
from search_spaces.programs.language import ir
from search_spaces.programs.language.distribution import WIDEST, Distribution, fold
from search_spaces.programs.language.index import FIRST_OUTSIDE
from search_spaces.programs.language.ir import line_dimension
from search_spaces.programs.lowering.elements import Code
from search_spaces.programs.lowering.emit_shared import SharedTiles
from search_spaces.programs.lowering.refs import Ref, constant, register_type
from search_spaces.programs.lowering.staged_positions import located_per_iteration
from search_spaces.programs.planning.boxes import BoxedNumbers
from search_spaces.programs.planning.packed import packed_distances, packed_width
from search_spaces.programs.planning.staging import StagedNumbers


@dataclass(frozen=True)
class Distances:
    """Distances in memory from the element in a thread's register 0 to the elements in the other registers.

    For each register, ``lines`` is the distance in rows of the array, and ``along`` the distance in elements of a row.
    """

    lines: tuple[int, ...]
    along: tuple[int, ...]
    array: ir.Array

    def code(self, code: Code, index: str) -> str:
        """Return CUDA C++ for the distance of register ``index`` from register 0, in elements of the array."""
        if self.array.pitch is None:
            line = self.array.matrix[1]
            return code.at(tuple(a * line + b for a, b in zip(self.lines, self.along, strict=True)), index)
        return _pitched(code.at(self.lines, index), code.at(self.along, index), self.array.pitch.code)

    @property
    def first_step(self) -> str:
        """Distance of register 1 from register 0 in elements of the array, as CUDA C++."""
        lines, along = (x[1] - x[0] for x in (self.lines, self.along))
        if self.array.pitch is None:
            return str(lines * self.array.matrix[1] + along)
        return _pitched(str(lines), str(along), self.array.pitch.code)


def _pitched(lines: str, along: str, pitch: str) -> str:
    terms = [] if lines == "0" else [f"static_cast<long long>({lines}) * {pitch}"]
    return " + ".join([*terms, *([along] if along != "0" or not terms else [])])


class MemoryAccess(SharedTiles):
    """Emitter of accesses to global memory, and of copies to shared memory outside of loops."""

    def _copy(self, staged: Staged) -> str:
        """Return the CUDA C++ expression that constructs the copy of an operand's tile."""
        if located_per_iteration(staged):
            return f"{{place_{staged.name}, thread}}"
        pitch = staged.load.window.array.pitch
        apart = "" if pitch is None else f", {pitch.code}"
        return f"Operand_{staged.name}::Copy({', '.join(self._tile_position(staged))}, thread{apart})"

    def _tile_position(self, staged: Staged) -> tuple[str, str, str]:
        """Return a pointer to an operand's matrix, and the row and column at which the first tile begins in memory.

        If the number of rows is dynamic, pointer and row are shifted such that the first row outside of the matrix has
        the number FIRST_OUTSIDE. A dynamic number of columns is treated in the same way.
        """
        array = staged.load.window.array
        base, (lines, along) = self.base(array), self.positions(staged)
        if array.dynamic is not None:
            before = f"({FIRST_OUTSIDE} - {array.dynamic.code})"
            base, lines = f"{base} - static_cast<long long>({before}) * {array.pitch_code}", f"{before} + {lines}"
        if array.line is not None:
            before = f"({FIRST_OUTSIDE} - {array.line.code})"
            base, along = f"{base} - {before}", f"{before} + {along}"
        return base, lines, along

    def _access(self, window: ir.Window, of: Distribution, source: ir.Source) -> tuple[str, Distances, list[str]]:
        """Return the C++ expressions with which a thread accesses a window.

        Returns:
            A pointer to the element of register 0; the distance of each register's element from this pointer; and, for
            each dimension, the variable with the position to compare with the array's extent, or "" if the access is
            always inside.
        """
        lines, inside = [], []
        strides = window.strides
        for d in (0, 1):
            if d in window.indexed:
                inside.append("")
                continue
            start = self.coordinate(of, d)
            position = " + ".join(t for t in (window.at[d].code, start) if t != "0") or "0"
            low, high = window.at[d].interval(self.inference.trace.most_blocks, self.iterations)
            if low < 0 or high + window.shape[d] > window.least[d]:
                name = self.new("place")
                self.code.add(f"const int {name} = {position};", source)
                inside.append(name)
                position = name
            else:
                inside.append("")
            if position != "0":
                lines.append(
                    f"static_cast<long long>({position}) * {strides[d]}" if strides[d] != "1" else f"({position})"
                )
        if window.array.order is not None:
            lines = [self._packed_position(window, of)]
        pointer = self.new("p")
        constness = "const " if window.array.role == "input" else ""
        self.code.add(
            f"{constness}{window.array.dtype.c_name}* const {pointer} = "
            f"{' + '.join([self.base(window.array), *lines])};",
            source,
        )
        if window.array.order is not None:
            packed = packed_distances(window.array, of)
            return pointer, Distances((0,) * len(packed), tuple(packed), window.array), inside
        along = line_dimension(window)
        numbers = [tuple(0 if d in window.indexed else n for n in of.of_registers(d)) for d in (1 - along, along)]
        return pointer, Distances(numbers[0], numbers[1], window.array), inside

    def _packed_position(self, window: ir.Window, of: Distribution) -> str:
        """Return the offset of the thread's register 0 in a packed array."""
        order, starts = window.array.order, [self.coordinate(of, d) for d in (0, 1)]
        assert order is not None
        line, position = order.code(*(f"{at.code} + {s}" for at, s in zip(window.at, starts, strict=True)))
        return f"static_cast<long long>({line}) * {window.array.stored[1]} + {position}"

    def _positions(self, window: ir.Window, spread: Spread) -> Ref | None:
        """Return the position that the window's index selects for each register of ``spread``; None if not indexed."""
        if window.index is None:
            return None
        ref = self.ref(window.index, of_index(window, spread))
        if len(window.indexed) == 2:
            return ref
        along = line_dimension(window)
        return ref.through(fold(self.of(spread), along, window.shape[along])[1])

    def _far(self, window: ir.Window, positions: Ref | None, index: str) -> str:
        """Return the term that an index tile adds to a register's address; "" for windows without an index."""
        if positions is None:
            return ""
        stride = "1" if len(window.indexed) == 2 else window.array.pitch_code
        return f" + static_cast<long long>({positions.text(self.code, index)}) * {stride}"

    def _inside(
        self,
        window: ir.Window,
        of: Distribution,
        names: list[str],
        index: str,
        positions: Ref | None = None,
        below: str = "",
    ) -> str:
        tests = []
        if positions is not None:
            extent: object = window.array.matrix[1] if len(window.indexed) == 2 else window.array.matrix[0]
            size = window.array.dynamic
            end = f"{extent}u" if size is None else f"unsigned({size.code})"
            tests.append(f"unsigned({positions.text(self.code, index)}) < {end}")
        for d, name in enumerate(names):
            if name:
                position = f"{name} + {self.code.at(of.of_registers(d), index)}"
                low, _ = window.at[d].interval(self.inference.trace.most_blocks, self.iterations)
                # comparing unsigned numbers also excludes negative positions
                tests.append(
                    f"unsigned({position}) < {_unsigned_extent(window, d)}"
                    if low < 0
                    else f"{position} < {window.extent_code(d)}"
                )
        if below:
            tests.append(f"{below} + {self.code.at(of.of_registers(0), index)} < 0")
        return " && ".join(tests) or "true"

    def _width(self, window: ir.Window, of: Distribution, most: int) -> int:
        """Return the number of elements per access, which must be adjacent and aligned in memory and in registers."""
        line = line_dimension(window)
        if line in window.indexed:
            return 1
        if window.array.order is not None:
            return packed_width(window.array, of, self.distributions.warps)
        whole = window.array.line_divisor
        fits = math.gcd(whole, window.at[line].divisor or whole, most)
        return math.gcd(fits, of.run(line))

    def _load(self, operation: ir.LoadTile, spread: Spread) -> Ref:
        window, result, source = operation.window, operation.result, operation.source
        if window.array.role == "shared":
            return self._load_shared(operation, spread)
        n = self.staged.get((result.id, spread))
        if n is not None:
            if isinstance(n, StagedNumbers) and n.staged.converted:
                return self._load_converted(n, operation, spread)
            if n.staged.loop is None:
                if isinstance(n, BoxedNumbers):
                    self._copy_boxes_once(n, source)
                else:
                    self._copy_once(n, source)
            return Ref("staged", n.staged.name, result.dtype)
        of, written = self.of(spread), window.array.role == "inout"
        if written and self._may_conflict(window.array, operation):
            self.code.add(self.barrier, source)
        pointer, distance, names = self._access(window, of, source)
        type_, function = window.array.dtype, "load_written" if written else "load"

        def offset(r: str) -> str:
            return distance.code(self.code, r)

        base = spread.of if spread.kind == "swap" and spread.of is not None else spread
        positions = self._positions(window, spread)
        lines = [of.of_registers(d) for d in window.indexed]
        in_pairs = len(lines) < 2 and all(x[r] == x[r + 1] for x in lines for r in range(0, of.registers - 1, 2))
        packed = self.is_packed(type_, base)
        if packed and type_.bits == 16 and operation.padding == 0.0 and in_pairs and not written:
            return self._load_words(operation, of, pointer, distance, names, positions)
        width = self._width(window, of, WIDEST // type_.bytes)
        register = register_type(type_)
        name = self.declare("v", register, of.registers)
        padding = constant(operation.padding, type_ if not type_.is_float else F32).name
        self.code.each(
            of.registers,
            lambda r: (
                f"tile::{function}<{type_.c_name}, {width}, {register}>(&{name}[{r}], {pointer} + {offset(r)}"
                f"{self._far(window, positions, r)}, {self._inside(window, of, names, r, positions)}, {padding});"
            ),
            source,
            width=width,
            writes=name,
            scattered=() if positions is None else positions.scattered,
        )
        self.code.flush()  # end the loop over registers, so that all loads are issued before any loaded value is used
        ref = Ref("array", name, result.dtype)
        packs = packed and (positions is not None or written or type_.bits == 8)
        return self._pack(ref, of.registers, source) if packs else ref

    def _load_words(
        self,
        operation: ir.LoadTile,
        of: Distribution,
        pointer: str,
        distance: Distances,
        names: list[str],
        positions: Ref | None,
    ) -> Ref:
        """Load pairs of 16-bit elements into words, as tensor cores require.

        A window's index may select rows of the array, but not single elements.
        """
        window, type_ = operation.window, operation.window.array.dtype
        width = self._width(window, of, 2)
        name = self.declare("w", "unsigned", of.registers // 2)
        apart = distance.first_step
        self.code.each(
            of.registers,
            lambda r: (
                f"{name}[{r} / 2] = tile::load_pair<{type_.c_name}, {width}>({pointer} + "
                f"{distance.code(self.code, r)}{self._far(window, positions, r)}, {apart}, "
                f"{self._inside(window, of, names, r, positions)}, "
                f"{self._inside(window, of, names, f'({r} + 1)', positions)});"
            ),
            operation.source,
            width=2,
            writes=name,
            scattered=() if positions is None else positions.scattered,
        )
        self.code.flush()
        return Ref("packed", name, operation.result.dtype)

    def _copy_boxes_once(self, n: BoxedNumbers, source: ir.Source) -> None:
        """Emit the copy of a tile to boxes in shared memory. The tile is loaded outside of loops."""
        raise NotImplementedError

    def _copy_once(self, n: StagedNumbers, source: ir.Source) -> None:
        """Emit the copy of a tile to shared memory. The tile is loaded outside of loops."""
        name = n.staged.name
        self.code.add(f"const unsigned tile_{name} = shared + {self.memory.resident[name]}u;", source)
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
        self.code.add(self.barrier)

    def _may_conflict(self, array: ir.Array, operation: ir.Operation) -> bool:
        """Return True if other threads of the block may have accessed the operation's elements before it."""
        earlier, loads, follows = 0, False, False
        for other, around in self.inference.trace.walk():
            if not isinstance(other, ir.LoadTile | ir.StoreTile | ir.AtomicRmw):
                continue
            if other.window.array.name != array.name or array.role != "inout":
                continue
            loads = loads or isinstance(other, ir.LoadTile)
            if other is operation:
                follows = earlier > 0 or bool(around)
            earlier += 1
        return loads and follows

    def _prefetch(self, operation: ir.Prefetch) -> None:
        """Emit a prefetch in which each thread prefetches 128-byte cache lines of the window."""
        window, source = operation.window, operation.source
        if operation.locality == 0:
            return
        along = 0 if window.turned else 1
        element = window.array.dtype.bytes
        line = max(1, 128 // element)
        across, count = window.shape[1 - along], -(-window.shape[along] // line)
        strides = window.strides
        self._enter(f"for (int i = thread; i < {across * count}; i += {self.distributions.warps * WARP}) {{", source)
        self.code.add(f"const int across = {window.at[1 - along].code} + i / {count};", source)
        self.code.add(f"const int along = {window.at[along].code} + i % {count} * {line};", source)
        level = "l1" if operation.locality == 3 else "l2"
        self.code.add(
            f"if (unsigned(across) < {_unsigned_extent(window, 1 - along)} && "
            f"unsigned(along) < {_unsigned_extent(window, along)}) "
            f"ptx::prefetch_{level}("
            f"{self.base(window.array)} + static_cast<long long>(across) * {strides[1 - along]} + along);",
            source,
        )
        self._leave()


def _unsigned_extent(window: ir.Window, dimension: int) -> str:
    """Return the array's extent along a dimension as an unsigned CUDA C++ number."""
    code = window.extent_code(dimension)
    return f"{code}u" if window.dynamic(dimension) is None else f"unsigned({code})"
