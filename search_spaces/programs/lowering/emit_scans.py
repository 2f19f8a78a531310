"""Emit argmax, argmin and scans."""

from __future__ import annotations

from search_spaces.hardware.fragments import WARP
from search_spaces.programs.inference.inference import Spread
from search_spaces.programs.language import ir
from search_spaces.programs.language.distribution import fold
from search_spaces.programs.language.functions import PICKED, PICKS, REDUCTIONS, number_code
from search_spaces.programs.lowering.emit_moves import Moves, lane_masks
from search_spaces.programs.lowering.refs import Ref, register_type
from search_spaces.programs.planning.memory import across_bytes
from search_spaces.programs.planning.scans import ScanStep, scan_steps


class Scans(Moves):
    """Emitter of argmax, argmin and scans. The code works within threads, then across lanes, then across warps."""

    def _pick(self, operation: ir.ReduceTile, spread: Spread) -> Ref:
        """Emit argmax or argmin, and return the index.

        The name of the array with the picked elements is stored in ``picked``, for a later maximum or minimum.
        """
        assert operation.index is not None
        source_spread, source = self.inference.sources[operation.result.id], operation.source
        of, dimension = self.of(source_spread), operation.dimension
        folded, table = fold(of, dimension, operation.size)
        value, index = self.ref(operation.value, source_spread), self.ref(operation.index, source_spread)
        count, code = folded.registers, PICKS[operation.kind].code
        element = self.declare("v", register_type(operation.value.dtype), count)
        position = self.declare("v", "int", count)
        first = tuple(table.index(q) for q in range(count))
        rest = tuple(r for r in range(of.registers) if r not in set(first))
        into = tuple(table[r] for r in rest)
        self.code.flush()

        def start(q: str) -> str:
            at = self.code.at(first, q)
            return f"{element}[{q}] = {value.text(self.code, at)}; {position}[{q}] = {index.text(self.code, at)};"

        def joined(i: str) -> str:
            q, r = self.code.at(into, i), self.code.at(rest, i)
            return code.format(
                f"{element}[{q}]", f"{position}[{q}]", value.text(self.code, r), index.text(self.code, r)
            )

        self.code.each(count, start, source)
        self.code.flush()
        if rest:
            self.code.each(len(rest), joined, source)
            self.code.flush()
        for mask in sorted(lane_masks(of, dimension) - lane_masks(folded, dimension)):

            def from_lane(q: str, mask: int = mask) -> str:
                received = (f"tile::exchanged({name}[{q}], {mask})" for name in (element, position))
                return code.format(f"{element}[{q}]", f"{position}[{q}]", *received)

            self.code.each(count, from_lane, source)
            self.code.flush()
        if across_bytes(of, dimension, folded):
            parts = {element: register_type(operation.value.dtype), position: "int"}

            def from_warp(q: str, parts: list[str]) -> str:
                return code.format(f"{element}[{q}]", f"{position}[{q}]", *parts)

            self._join_warps(parts, from_warp, operation, of, folded)
        around = self.inference.inside[operation.result.id]
        for kind in PICKED[operation.kind]:
            self.picked[operation.value.id, source_spread, kind, dimension, operation.size, around] = element
        return Ref("array", position, operation.result.dtype)

    def _scan(self, operation: ir.Scan, spread: Spread) -> Ref:
        source, of, type_ = operation.source, self.of(spread), operation.result.dtype
        ref, row = self.ref(operation.value, spread), REDUCTIONS[operation.kind]
        register, start = register_type(type_), number_code(row.start, type_)
        result = self.declare("v", register, of.registers)
        total = self.declare("total", register, of.registers)
        self.code.flush()
        self.code.each(
            of.registers,
            lambda r: (
                f"{total}[{r}] = {ref.text(self.code, r)}; "
                f"{result}[{r}] = {start if operation.exclusive else f'{total}[{r}]'};"
            ),
            source,
            scattered=ref.scattered,
        )
        self.code.flush()
        for step in scan_steps(of, operation.dimension):
            if step.digit.unit == "register":
                total = self._scan_registers(operation, step, result, total)
                continue
            before = self.declare("before", register, step.totals)
            self.code.each(step.totals, lambda q, name=before: f"{name}[{q}] = {start};", source)  # type: ignore[misc]
            self.code.flush()
            if step.digit.unit == "lane":
                self._scan_lanes(operation, step, before, total)
            else:
                self._scan_warps(operation, step, before, total)
            self.code.each(
                of.registers,
                lambda r, name=before, groups=step.groups: (  # type: ignore[misc]
                    f"{result}[{r}] = {row.code.format(f'{name}[{self.code.at(groups, r)}]', f'{result}[{r}]')};"
                ),
                source,
            )
            self.code.flush()
        return Ref("array", result, type_)

    def _scan_registers(self, operation: ir.Scan, step: ScanStep, result: str, total: str) -> str:
        """Emit the scan along a register digit; return the name of the array with the totals over this digit."""
        row, source, digit = REDUCTIONS[operation.kind], operation.source, step.digit
        count = len(set(step.after))
        sums = self.declare("total", register_type(operation.result.dtype), count)
        order = range(digit.size)[:: -1 if operation.reverse else 1]
        values = [r // digit.stride % digit.size for r in range(len(step.groups))]
        for at in order:
            mine = tuple(r for r, value in enumerate(values) if value == at)
            groups = tuple(dict.fromkeys(step.groups[r] for r in mine))
            into = tuple(step.after[g] for g in groups)
            if at != order[0]:
                after = tuple(step.after[step.groups[r]] for r in mine)
                self.code.each(
                    len(mine),
                    lambda i, mine=mine, after=after: (  # type: ignore[misc]
                        f"{result}[{self.code.at(mine, i)}] = "
                        + row.code.format(f"{sums}[{self.code.at(after, i)}]", f"{result}[{self.code.at(mine, i)}]")
                        + ";"
                    ),
                    source,
                )
                self.code.flush()
            self.code.each(
                len(groups),
                lambda i, at=at, groups=groups, into=into: (  # type: ignore[misc]
                    f"{sums}[{self.code.at(into, i)}] = "
                    + (
                        f"{total}[{self.code.at(groups, i)}]"
                        if at == order[0]
                        else row.code.format(f"{sums}[{self.code.at(into, i)}]", f"{total}[{self.code.at(groups, i)}]")
                    )
                    + ";"
                ),
                source,
            )
            self.code.flush()
        return sums

    def _scan_lanes(self, operation: ir.Scan, step: ScanStep, before: str, total: str) -> None:
        """Emit the scan across lanes, which sets ``before`` (total of earlier lanes) and ``total`` (of all lanes)."""
        row, digit = REDUCTIONS[operation.kind], step.digit
        for bit in range(digit.size.bit_length() - 1):
            mask = digit.stride << bit
            mine = f"{'!' if operation.reverse else ''}(lane & {mask})"

            def joined(q: str, mask: int = mask, mine: str = mine) -> str:
                combined, all_ = (row.code.format("other", f"{name}[{q}]") for name in (before, total))
                return (
                    f"{{ const auto other = tile::exchanged({total}[{q}], {mask}); "
                    f"if ({mine}) {before}[{q}] = {combined}; {total}[{q}] = {all_}; }}"
                )

            self.code.each(step.totals, joined, operation.source)
            self.code.flush()

    def _scan_warps(self, operation: ir.Scan, step: ScanStep, before: str, total: str) -> None:
        """Emit the scan across warps, through shared memory and with the results of ``_scan_lanes``.

        All warps combine the totals in the same order.
        """
        row, digit, source = REDUCTIONS[operation.kind], step.digit, operation.source
        warps = self.distributions.warps
        offset = self.memory.exchange(self.loop, operation.result.id)
        own, register = self.new("own"), register_type(operation.result.dtype)

        def address(q: str, warp: str) -> str:
            return f"shared + {offset}u + 4u * unsigned(({q} * {warps} + {warp}) * {WARP} + lane)"

        self._barrier(source)
        self.code.add(f"const int {own} = warp / {digit.stride} % {digit.size};", source)
        self.code.each(step.totals, lambda q: f"tile::put<1>({address(q, 'warp')}, &{total}[{q}]);", source)
        self.code.flush()
        self.code.add(self.barrier, source)
        order = list(range(digit.size))[:: -1 if operation.reverse else 1]

        def joined(q: str) -> str:
            lines = [f"{register} part;"]
            for at in order:
                lines.append(f"tile::get<1>(&part, {address(q, f'(warp + ({at} - {own}) * {digit.stride})')});")
                sign = ">" if operation.reverse else "<"
                combined = row.code.format(f"{before}[{q}]", "part")
                lines.append(f"if ({at} {sign} {own}) {before}[{q}] = {combined};")
                all_ = "part" if at == order[0] else row.code.format(f"{total}[{q}]", "part")
                lines.append(f"{total}[{q}] = {all_};")
            return "{ " + " ".join(lines) + " }"

        self.code.each(step.totals, joined, source)
        self.code.flush()
