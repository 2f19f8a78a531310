"""Emit split loops: each block stores a partial result; the block that finishes last combines these and continues.

The partial result of a block is called a part. It consists of the states of the loop.
"""

from __future__ import annotations

from collections.abc import Mapping

from search_spaces.launches.operand import Operand
from search_spaces.programs.language import ir
from search_spaces.programs.lowering.emit_ahead import ProductsAhead
from search_spaces.programs.planning.boxes import has_copying_warp
from search_spaces.programs.planning.scratch import LAST_BLOCK
from search_spaces.programs.planning.splits import COUNTERS, PARTIALS, PARTS_OF_TILE, Split


class SharedLoops(ProductsAhead):
    """Emitter of the code that stores, loads and combines the parts of split loops."""

    def _fetch_part(self, operation: ir.FetchPart) -> None:
        """Emit the load of another block's part."""
        assert self.split is not None
        if self.split.keeps_last:
            self._take_other_part(operation)
            return
        for state, other in zip(operation.states, operation.copies, strict=True):
            self._get_part(state, self.states[other], operation.part.code, operation.source)

    def _get_part(self, state: int, array: str, part: str, source: ir.Source) -> None:
        """Emit the load of one state from the part of block number ``part``."""
        assert self.split is not None
        threads, counts = self.distributions.warps * 32, self._part_registers(self.split)
        position = sum(n for s, n in counts.items() if self.split.states.index(s) < self.split.states.index(state))
        at = f"parts + ({part}) * {sum(counts.values()) * threads} + {position * threads}"
        self.code.flush()
        self.code.add(f"tile::get_part<{counts[state]}, {threads}>({array}, {at}, thread);", source)

    def _take_other_part(self, operation: ir.FetchPart) -> None:
        """Emit the load of the other block's part, for a loop that two blocks share.

        Afterwards, the program's states have the values of part 0, and ``copies`` have the values of part 1, whichever
        block executes the code.
        """
        assert self.split is not None
        threads, before = self.distributions.warps * 32, 0
        copies = dict(zip(operation.states, operation.copies, strict=True))
        self.code.flush()
        for state, count in self._part_registers(self.split).items():
            self.code.add(
                f"tile::get_other_part<{count}, {threads}>({self.states[state]}, {self.states[copies[state]]}, "
                f"parts + {before * threads}, split, thread);",
                operation.source,
            )
            before += count

    def _part_registers(self, split: Split) -> dict[int, int]:
        """Return the number of registers per thread of each state of a part."""
        return {state: self.of(self.inference.states[state]).registers for state in split.states}

    def _join_splits(self, split: Split, source: ir.Source) -> None:
        """Emit the end of a split loop: blocks store parts; the last block to finish combines them and continues."""
        if split.launched:
            self._join_parts(split, source)
            return
        if split.keeps_last:
            self._join_two(split, source)
            return
        threads = self.distributions.warps * 32
        counts = list(self._part_registers(split).values())
        self.finish()
        self.code.flush()
        self._free_tensor(source)  # free it here: below, every block returns except the one that finishes last
        apart = sum(counts) * threads
        position = self.memory.exchange(None, LAST_BLOCK)
        only = [str(threads)] if has_copying_warp(self.values) else []
        self.code.add(
            f"float* const parts = {PARTIALS} + static_cast<long long>(tile_place) * {split.count * apart};", source
        )
        if split.only_long:  # if a tile has only one block, there is nothing to combine
            self._enter(f"if ({PARTS_OF_TILE} > 1) {{", source)
        before = 0
        for state, count in zip(split.states, counts, strict=True):
            at = f"parts + split * {apart} + {before * threads}"
            self.code.add(f"tile::put_part<{count}, {threads}>({at}, {self.states[state]}, thread);")
            before += count
        if split.launches > 1:
            return
        at = f"{COUNTERS} + tile_place, shared + {position}u"
        if split.only_long:
            of_threads = f"<{', '.join(only)}>" if only else ""
            self.code.add(f"if (!is_last_of{of_threads}({PARTS_OF_TILE}, {at})) return;")
        else:
            self.code.add(f"if (!is_last_block<{', '.join([str(split.count), *only])}>({at})) return;")
        if split.combined:
            for state in split.states:
                self._get_part(state, self.states[state], "0", source)
            if split.only_long:
                self._leave()
            return
        before = 0
        for state, count in zip(split.states, counts, strict=True):
            self.code.add(
                f"tile::add_parts<{split.count}, {count}, {threads}, {apart}>({self.states[state]}, "
                f"parts + {before * threads}, thread);"
            )
            before += count
        self._written = True

    def _join_two(self, split: Split, source: ir.Source) -> None:
        """Emit the end of a loop that two blocks share.

        The first block stores its part and exits, and the second block continues.
        """
        threads = self.distributions.warps * 32
        counts = self._part_registers(split)
        self.finish()
        self.code.flush()
        self._free_tensor(source)
        position = self.memory.exchange(None, LAST_BLOCK)
        self.code.add(
            f"float* const parts = {PARTIALS} + static_cast<long long>(tile_place) * {sum(counts.values()) * threads};",
            source,
        )
        self._enter(f"if ({PARTS_OF_TILE} > 1) {{" if split.only_long else "{", source)
        self._barrier(source)  # the flag reuses shared memory that other threads may still read
        barrier = 1 if has_copying_warp(self.values) else 0
        flags = f"{COUNTERS} + 2 * tile_place, shared + {position}u, thread, {barrier}"
        self.code.add(f"const SharedTile<{threads}> both{{{flags}}};", source)
        self._store_if_first(counts, "parts", source, "ticket")
        self.code.add("return;", source)
        self._leave()
        self.code.add("both.wait_stored();", source)
        self._leave()

    def _take_ticket(self, split: Split, source: ir.Source) -> None:
        """Emit a ticket before a loop that two blocks share: the block that starts first will store its part."""
        ticket = f"SharedTile<{self.distributions.warps * 32}>::ticket({COUNTERS} + 2 * tile_place, thread)"
        self.code.add(
            f"const unsigned ticket = {f'{PARTS_OF_TILE} > 1 ? {ticket} : 0u' if split.only_long else ticket};", source
        )

    def _store_if_first(self, counts: Mapping[int, int], array: str, source: ir.Source, ticket: str = "") -> None:
        """Emit the start of an ``if`` statement in which the first of two blocks stores its part.

        The caller emits the end of the ``if`` statement.
        """
        threads, before = self.distributions.warps * 32, 0
        self._enter(f"if (both.is_first({ticket})) {{", source)
        for state, count in counts.items():
            self.code.add(
                f"tile::put_part<{count}, {threads}>({array} + {before * threads}, {self.states[state]}, thread);"
            )
            before += count
        self.code.add("both.tell_stored();")

    def _join_parts(self, split: Split, source: ir.Source) -> None:
        """Emit the end of a loop with stream-K: of two blocks that share a tile, the last to finish adds both sums."""
        threads = self.distributions.warps * 32
        counts = [(self.states[s], self.of(self.inference.states[s]).registers) for s in split.states]
        self.finish()
        position = self.memory.exchange(None, LAST_BLOCK)
        self._barrier(source)
        if self.early:
            self.code.add("next = walk.next();")
            self.code.add("start(next);")
        self._enter(f"if (part.count < {split.iterations}) {{", source)
        self.code.add("const int cut = part.cut(int(blockIdx.x));")
        self.code.add(
            f"float* const sums = {PARTIALS} + static_cast<long long>(cut) * {sum(n for _, n in counts) * threads};"
        )
        self.code.add(f"const SharedTile<{threads}> both{{{COUNTERS} + 2 * cut, shared + {position}u, thread, 0}};")
        self._store_if_first(self._part_registers(split), "sums", source)
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
        """Arrays in global memory in which the blocks of a split loop store their parts."""
        if self.split is None:
            return ()
        registers = sum(self.of(self.inference.states[state]).registers for state in self.split.states)
        return self.split.workspaces(self.inference.trace.block_count, registers, self.distributions.warps * 32)
