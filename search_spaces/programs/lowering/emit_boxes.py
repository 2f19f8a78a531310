"""Emit products (wgmma, tcgen05) whose operands are boxes in shared memory, and the copies that fill the boxes.

A box is a tile in the layout that TMA writes and these instructions read.

The generated code waits for wgmma before it reads a result and at the end of an iteration. Schedules that keep
multiplications in flight wait later.
"""

from __future__ import annotations

from collections.abc import Iterator

from search_spaces.hardware.fragments import WARP
from search_spaces.programs.inference.inference import Spread, Staged
from search_spaces.programs.language import ir
from search_spaces.programs.lowering.emit_tensor import TensorMemory, Waiting
from search_spaces.programs.lowering.grid import grid_code, tile_loop
from search_spaces.programs.lowering.refs import Ref
from search_spaces.programs.lowering.staged_positions import copy_type, lead_code, located_per_iteration, position_code
from search_spaces.programs.planning.boxes import BoxedNumbers, has_copying_warp
from search_spaces.programs.planning.instructions import WARPGROUP_ROWS, rows_of
from search_spaces.programs.planning.ping_pong import alternates, alternating, phases
from search_spaces.programs.planning.products_ahead import Ahead, ahead, runs_ahead
from search_spaces.programs.planning.staging import StagedNumbers


class Boxes(TensorMemory):
    """Emitter of the code for products whose operands are boxes (swizzled tiles in shared memory)."""

    @property
    def phases(self) -> tuple[int, int] | None:
        """Ids of two products, or None if warpgroups do not alternate.

        A warpgroup releases the tensor cores after the first product, and waits for them before the second.
        """
        number = alternating(self.inference) if self.boxed and alternates(self.values) else None
        return None if number is None else phases(self.inference, number)

    @property
    def ahead(self) -> Ahead | None:
        """The loop whose first product is computed one iteration ahead; None if the schedule has no such loop."""
        return ahead(self.inference) if self.boxed and runs_ahead(self.values) else None

    @property
    def producing(self) -> bool:
        """True if a producer warp issues the copies."""
        return has_copying_warp(self.values)

    @property
    def head(self) -> list[str]:
        """Code before the body: thread numbers, initialisation of mbarriers, and the code of the producer warp."""
        if not self.boxed:
            return []
        # From the shuffle, ptxas infers that the warp number is the same in all lanes, and keeps descriptors in uniform
        # registers.
        lines = [
            "[[maybe_unused]] const int thread = int(threadIdx.x), lane = thread % 32, "
            "warp = int(ptx::shfl_idx(unsigned(thread) / 32u, 0));"
        ]
        if not self.inits:
            return lines
        lines += [
            f"const unsigned barriers = shared + {self.memory.barriers}u;",
            "if (thread == 0) {",
            *(f"  {line}" for line in self.inits),
            "  ptx::fence_mbarrier_init();",
            "}",
            *self.allocating(),
            "ptx::barrier_sync();",
            *self.allocated(),
        ]
        if self.producing:
            code = self.producer
            if self.launched:
                positions = grid_code(self.inference, self.values, self.split)
                code = [*self.begun, *tile_loop(self.inference), *(f"  {line}" for line in (*positions, *code)), "}"]
            lines += [
                f"if (warp == {self.distributions.warps}) {{",
                *(f"  {line}" for line in code),
                "  return;",
                "}",
            ]
        return lines

    @property
    def begun(self) -> list[str]:
        """Declarations of counters: how many iterations a persistent block has executed for earlier tiles."""
        names = [f"begun_{n}" for n in dict.fromkeys(s.staged.loop for s in self.staged.values())]
        return [f"int {name} = 0;" for name in names] if self.launched and self.boxed else []

    def _box_copy(self, n: BoxedNumbers) -> str:
        """Return the C++ initialiser of the object that copies an operand's tiles.

        It sets the position of the first tile, or the function that computes the position in each iteration.
        """
        staged = n.staged
        if located_per_iteration(staged):
            return f"{{&{staged.name}_map, place_{staged.name}}}" if n.tma else f"{{place_{staged.name}, thread}}"
        window, positions = staged.load.window, ", ".join(self.positions(staged))
        if not n.tma:
            return f"{{{', '.join(self._tile_position(staged))}, thread}}"
        lead = lead_code(window.array.lead, window.array.full)
        return f"{{&{staged.name}_map, {lead}, {positions}}}"

    def _copy_boxes_once(self, n: BoxedNumbers, source: ir.Source) -> None:
        """Emit the copy of a tile that is loaded once and stays in shared memory."""
        name = n.staged.name
        self.code.add(f"const unsigned tile_{name} = shared + {self.memory.resident[name]}u;", source)
        self._enter("{")
        self.code.add(f"const Operand_{name}::Copy copy = {self._box_copy(n)};", source)
        if n.tma:
            position = self._barriers_of(1)
            self.inits.append(f"ptx::mbarrier_init(barriers + {position}u, 1);")
            self._enter("if (warp == 0 && ptx::elect()) {")
            self.code.add(f"ptx::mbarrier_arrive_expect_tx(barriers + {position}u, Operand_{name}::tma_bytes);")
            self.code.add(f"copy.fetch(tile_{name}, barriers + {position}u);")
            self._leave()
            self.code.add(f"tile::wait_phase(barriers + {position}u, 0);")
            self._leave()
            return
        self.code.add(f"copy.begin(tile_{name});")
        self.code.add("ptx::cp_async_commit_group();")
        self.code.add("ptx::cp_async_wait_group<0>();")
        self.code.add("ptx::fence_async_proxy();  // tensor cores read what this thread has copied")
        self._leave()
        self.code.add(self.barrier)

    def _box_ring(self, loop: ir.Loop, ring: list[BoxedNumbers], count: str) -> None:
        positions = [line for n in ring for line in position_code(self, n)]
        before, after = list[str](), list[str]()  # statements of the producer warp before and after the copies
        if self.launched:
            iterations, begun = f"turns_of_{loop.number}", f"begun_{loop.number}"
            before, after = [f"const int {iterations} = tile::maximum({count}, 0);"], [f"{begun} += {iterations};"]
            self.code.add(before[0], loop.source)
            count = f"{iterations}, {begun}"
        name, stages, in_flight = f"Ring_{loop.number}", self.stages[loop.number], self.values.get("in_flight", 0)
        consumers = 1 if self.commits_stages else self.distributions.warps
        self.add_struct(
            f"struct {name} {{\n  static constexpr int stages = {stages}, stage_bytes = {sum(n.bytes for n in ring)}, "
            f"consumer_warps = {consumers}, in_flight = {in_flight};\n}};\n"
        )
        position, by_tma = 0, any(n.tma for n in ring)
        if by_tma:
            position = self._barriers_of(2 * stages)
            self.inits.append(f"tile::init_ring<{name}>(barriers + {position}u);")
        barriers = f"barriers + {position}u" if by_tma else "0"
        if self._written:
            if by_tma:
                self.code.add("ptx::fence_async_proxy();  // TMA writes where this thread may have read or written")
            everybody = f"ptx::barrier_sync(2, {(self.distributions.warps + 1) * WARP});"
            self.code.add(f"{everybody if self.producing else self.barrier}  // everybody is done with what lies here")
            if self.producing:
                self.producer.append(everybody)
        self._written = True
        shared = f"shared + {self.memory.rings[loop.number]}u"
        type_, copies = self._box_loads(ring)
        loads = f"{type_} loads_{loop.number}{copies};"
        arguments = f"[&](unsigned stage, {self.iteration_parameter(loop)}) {{"
        by = "" if self.ahead is None else "_ahead"
        if self.sums_stay:
            self._before_tensor_loop(loop)
        elif in_flight:
            self._hold_states(loop)  # the compiler must not move writes of states across the wgmma fence
        if self.producing:
            self.producer += [
                *self.share_lines(loop, self.count_of(loop)),
                *before,
                "if (ptx::elect()) {",
                *(f"  {line}" for line in positions),
                f"  {loads}",
                f"  tile::box_produce{by}<{name}>(loads_{loop.number}, {shared}, {barriers}, {count});",
                "}",
                "ptx::warp_sync();",
                *after,
            ]
            if self.phases is not None:
                self.code.add("tile::begin_turns(warp / 4);", loop.source)
            if self.commits_stages:
                ring_at = f"{shared}, {barriers}, {self.done}"
                self._enter(f"tile::tensor_consume<{name}>({ring_at}, {count}, warp, {arguments}", loop.source)
                return
            call = f"tile::box_consume{by}<{name}>({shared}, {barriers}, {count}, lane, "
        else:
            for line in (*positions, loads):
                self.code.add(line, loop.source)
            call = f"tile::box_pipeline{by}<{name}>(loads_{loop.number}, {shared}, {barriers}, {count}, warp, "
        if self.ahead is not None:
            self._first_product_of_loop(self.ahead, ring, call)
        else:
            self._enter(call + arguments, loop.source)

    def _box_loads(self, ring: list[BoxedNumbers]) -> tuple[str, str]:
        """Return the C++ type and initialiser of the object that copies the tiles of a ring."""

        def of(some: list[BoxedNumbers]) -> tuple[str, str]:
            initializer = "{}"
            for n in reversed(some):
                initializer = f"{{{self._box_copy(n)}, {initializer}}}"
            return f"tile::BoxLoads<{', '.join(copy_type(n) for n in some)}>", initializer

        if self.ahead is None:
            return of(ring)
        (first, of_first), (last, of_last) = of(ring[:1]), of(ring[1:])
        return f"tile::LoadsAhead<{first}, {last}>", f"{{{of_first}, {of_last}}}"

    def _first_product_of_loop(self, ahead: Ahead, ring: list[BoxedNumbers], call: str) -> None:
        """Emit the head of a loop whose first product is computed ahead (implemented in ``ProductsAhead``)."""
        raise NotImplementedError

    def _in_flight_iterations(self, loop: ir.Loop) -> None:
        """Emit the body of a loop that only accumulates products, with one group of multiplications per iteration.

        The accumulators are the registers of the states. The code of the ring waits for each group in a later
        iteration.
        """
        if self.columns:
            self._tensor_iterations(loop, list(self._products_of(loop)))
            return
        calls = [self._box_call(operation, self.states[state]) for operation, state in self._products_of(loop)]
        self.code.add("ptx::wgmma_fence();")
        for line, source in calls:
            self.code.add(line, source)
        self.code.add("ptx::wgmma_commit_group();")
        self._leave("});")
        self._hold_states(loop)
        self.code.flush()

    def _hold_states(self, loop: ir.Loop) -> None:
        """For a loop that only accumulates products: emit ``_hold`` for all accumulators."""
        for state in dict.fromkeys(o.state for o in loop.body if isinstance(o, ir.Set)):
            self._hold(self.states[state], self.of(self.inference.states[state]).registers, loop.source)

    def _products_of(self, loop: ir.Loop) -> Iterator[tuple[ir.Mma, int]]:
        """Emit the operands of an accumulating loop's products. Yield each product and the state it is added to."""
        states: dict[int, int] = {}
        for operation in loop.body:
            match operation:
                case ir.LoadTile(result) | ir.TransposeTile(result):
                    for spread in self.inference.computed_in(result):
                        self.refs[result.id, spread] = self._value(operation, spread)
                case ir.Read(result, state):
                    states[result.id] = state
                case ir.Mma(c=c):
                    assert c is not None
                    yield operation, states[c.id]

    def _value(self, operation: ir.Computing, spread: Spread) -> Ref:
        """Emit an operation (implemented in ``Emitter``)."""
        raise NotImplementedError

    def _box_products(self, waiting: list[Waiting]) -> None:
        """Emit the multiplications of several products as one wgmma group, and the wait for this group."""
        if self.columns:
            self._tensor_products(waiting)
            return
        calls = [self._box_call(w.operation, w.array) for w in waiting]
        results = {w.operation.result.id for w in waiting}
        for w in waiting:
            if w.operation.c is not None:  # addends must be in the accumulators before the wgmma fence
                self._hold(
                    w.array, self.of(self.inference.natural[w.operation.result.id]).registers, w.operation.source
                )
        self.code.flush()
        if self.phases is not None and self.phases[1] in results:
            self.code.add("tile::wait_for_turn(warp / 4);")
        self.code.add("ptx::wgmma_fence();")
        for line, source in calls:
            self.code.add(line, source)
        self.code.add("ptx::wgmma_commit_group();")
        self.code.add("ptx::wgmma_wait_group<0>();")
        if self.phases is not None and self.phases[0] in results:
            self.code.add("tile::pass_turn(warp / 4);")
        for w in waiting:
            self._hold(w.array, self.of(self.inference.natural[w.operation.result.id]).registers, w.operation.source)
        self.code.flush()

    def _hold(self, array: str, count: int, source: ir.Source) -> None:
        """Emit statements that keep the compiler from moving accesses to an array of registers across this point."""
        self.code.each(count, lambda r: f"ptx::hold_register({array}[{r}]);", source, writes=array)

    def _box_call(self, o: ir.Mma, array: str) -> tuple[str, ir.Source]:
        number = self.inference.product_of[o.result.id]
        fragments = self.distributions.products[number].shape[0] // (64 * self.distributions.warps // 4)
        b = self.refs[o.b.id, Spread("right", o.b.shape, number)]
        spread = Spread("left", o.a.shape, number)
        a, more = self.refs[o.a.id, spread], "false" if o.c is None else "true"
        if a.kind == "staged":
            of = f"Operand_{a.name}, Operand_{b.name}, {fragments}"
            return f"tile::multiply_boxes<{of}>({array}, tile_{a.name}, tile_{b.name}, warp / 4, {more});", o.source
        packed, words = self._pack(a, self.of(spread).registers, o.source), self.of(spread).registers // 2
        if self.spans_iterations(packed.name):
            whole, packed = packed.name, Ref("packed", self.declare("w", "unsigned", words), packed.dtype)
            copy = f"{packed.name}[{{0}}] = ptx::copy_for_one({whole}[{{0}}]);"
            self.code.each(words, copy.format, o.source, writes=packed.name)
        else:
            self._hold(packed.name, words, o.source)
        of = f"{o.a.dtype.c_name}, Operand_{b.name}, {fragments}"
        return f"tile::multiply_registers<{of}>({array}, {packed.name}, tile_{b.name}, {more});", o.source

    def _box_fragments(self, value: ir.Value, spread: Spread, staged: Staged) -> Ref:
        """Emit the load of a left operand from boxes to registers: each warp loads the rows that it multiplies."""
        name = self.declare("w", "unsigned", self.of(spread).registers // 2)
        rows = rows_of(str(self.values["intrinsic"]))
        of = f"Operand_{staged.name}" + (f", {rows}" if rows != WARPGROUP_ROWS else "")
        self.code.add(f"tile::load_box_fragments<{of}>({name}, tile_{staged.name}, warp);")
        return Ref("packed", name, value.dtype)


def by_kind(numbers: list[StagedNumbers | BoxedNumbers]) -> tuple[list[StagedNumbers], list[BoxedNumbers]]:
    """Split operands by Python type, for the type checker. In each schedule, one of the two lists is empty."""
    return [n for n in numbers if isinstance(n, StagedNumbers)], [n for n in numbers if isinstance(n, BoxedNumbers)]
