"""Execute the statements of a listing by calling the builder."""

from __future__ import annotations

from search_spaces.programs.language.index import Index
from search_spaces.programs.language.ir import Shape, Source
from search_spaces.programs.language.values import State, Tile, WindowHandle, at_source
from search_spaces.programs.text.computations import Computations
from search_spaces.programs.text.listing import Combined, Expression, Statement
from search_spaces.programs.text.name_values import shape_of
from search_spaces.programs.text.survey import (
    LOADS,
    MAKES_TILE,
    PRODUCTS,
)

Held = Tile | State | WindowHandle | Index


class Execution(Computations):
    """Executes one listing with one choice of sizes."""

    def run(self) -> None:
        """Execute all statements."""
        survey = self.survey
        self._open_grid()
        self._read_scalars()
        for name in [n for n, a in survey.arrays.items() if a.role == "shared"]:
            self._make_shared(name)
        self._statements(survey.body)
        for name, array in survey.outputs.items():
            with at_source(Source(survey.listing.file, 1)):
                value = self.value_of[name]
                if isinstance(value, WindowHandle):
                    value = self.p.load(value)
                assert isinstance(value, Tile | State)
                shape = value.shape
                self.p.store(value, self.p.window(self.arrays[array.name], (0, 0), shape))

    # Statements

    def _statements(self, statements: tuple[Statement, ...]) -> None:
        waiting = iter(statements)
        for s in waiting:
            with at_source(Source(self.survey.listing.file, s.line)):
                if s.attribute("parts"):
                    self._shared_loop(s, next(waiting, None))
                else:
                    self._statement(s)

    def _statement(self, s: Statement) -> None:
        op = s.op
        if op in MAKES_TILE:
            self._make_tile(s)
        elif op in LOADS:
            self._give(s, self._load(s))
        elif op in ("xetile.store_tile", "xetile.atomic_rmw"):
            self._store(s)
        elif op == "xetile.prefetch_tile":
            self._prefetch(s)
        elif op == "xetile.update_tile_offset":
            self._move(s)
        elif op == "scf.for":
            self._loop(s)
        elif op == "scf.if":
            self._if(s)
        elif op == "assign" or (op in ("add", "mod") and isinstance(self.value_of.get(str(s.operands[0])), Index)):
            self._assign(s)
        elif op == "xetile.state":
            self.value_of[s.results[0]] = self.p.state(self._value(s, s.operands[0]))
        elif op == "xetile.set":
            state = self.value_of[str(s.operands[0])]
            assert isinstance(state, State)
            state.set(self._value(s, s.operands[1]))
        elif op == "xetile.get":
            state = self.value_of[str(s.operands[0])]
            assert isinstance(state, State)
            self._give(s, state.read())
        elif op == "gpu.barrier":
            self.survey.note(s, "the barrier is ignored: the compiler inserts all barriers that loads and stores need")
        elif op in ("memref.alloc", "memref.cast"):
            pass
        elif op in ("xetile.load_scalar", "xetile.uniform"):
            self.value_of[s.results[0]] = self._number_of(s)
        elif op == "xetile.load_gather":
            self._give(s, self._gather(s))
        elif op == "xetile.store_scatter":
            self._scatter(s)
        else:
            self._give(s, self._compute(s))

    # Loops

    def _loop(self, s: Statement) -> None:
        first, stop, step = s.operands
        name = s.results[0]
        size: Index | int
        if isinstance(stop, int) or (isinstance(stop, str) and stop.lstrip("%") in self.sizes):
            size = self._stop(name, stop)
        else:
            size = self._index(s, stop)
        each = self._step(s, name, step)
        self._carry(s)
        for at in self.p.steps(size, each, first=self._index(s, first)):
            self.value_of[name] = at
            if self._rings_in(s):
                self._open_rings(s, at // each)
            self._statements(s.body or ())
        self._store_products(s)

    def _shared_loop(self, s: Statement, combine: Statement | None) -> None:
        """Execute a split loop, and the following statement ``combine``, which combines the loop's states."""
        parts, named = s.attribute("parts"), s.attribute("states", ())
        names = named if isinstance(named, tuple) else ()
        states = [value for value in (self.value_of.get(f"%{name}") for name in names) if isinstance(value, State)]
        if combine is None or combine.op != "xetile.combine" or combine.body is None or len(states) != len(names):
            self.refuse(s, "a split loop needs a list of its states, and xetile.combine after it: add them")
        *body, last = combine.body
        if last.op != "xetile.yield" or not isinstance(parts, int):
            self.refuse(combine, "the body does not end with xetile.yield: add it")

        def combined(one: tuple[Tile, ...], other: tuple[Tile, ...]) -> tuple[Tile, ...]:
            self.value_of |= dict(zip(combine.results, (*one, *other), strict=True))
            self._statements(tuple(body))
            return tuple(self._value(last, operand) for operand in last.operands)

        first, stop, step = s.operands
        bounds = self._index(s, stop), self._number(s, step)
        for at in self.p.split(*bounds, parts=parts, states=states, combine=combined, first=self._index(s, first)):
            self.value_of[s.results[0]] = at
            self._statements(s.body or ())

    def _number_of(self, s: Statement) -> Index:
        """Execute load_scalar or uniform, and return the index."""
        low, high = s.attribute("low", 0), s.attribute("high")
        if not isinstance(low, int) or not isinstance(high, int) or not s.index:
            self.refuse(s, "expected a position in brackets, and whole numbers for high and low")
        at = [self._index(s, position) for position in s.index[0]]
        if s.op == "xetile.uniform":
            return self.p.uniform(self._value(s, s.operands[0]), high=high, low=low, usual=at[0])
        array = self._array(s, str(s.operands[0]))
        return self.p.load_scalar(array, *at, high=high, low=low, ordered=bool(s.attribute("ordered")))

    def _rings_in(self, s: Statement) -> bool:
        return any(b.op == "mod" for b in s.body or ())

    def _carry(self, s: Statement) -> None:
        """Create states for names that a loop's body assigns again.

        Products without an addend accumulate, starting at zero.
        """
        body = s.body or ()
        inner = {str(o) for b in body for o in b.operands}
        for b in body:
            if not b.results:
                continue
            name, value = b.results[0], self.value_of.get(b.results[0])
            if b.op in PRODUCTS and len(b.operands) == 2 and name not in inner:
                m, n = self._product_shape(b)
                self.value_of[name] = self.p.state(self.p.zeros((m, n), "f32"))
                self.survey.note(b, "a product in a loop has no accumulator: it is summed, starting at zero")
            elif isinstance(value, Tile) and name in inner and b.op not in MAKES_TILE:
                self.value_of[name] = self.p.state(value)
                self.survey.note(b, f"{name} is assigned again in the loop: it is interpreted as a state of the loop")

    def _product_shape(self, b: Statement) -> Shape:
        types = [t for t in (*b.gives, *b.takes) if t.kind == "vector"]
        result = b.gives[-1] if b.gives else types[-1]
        return shape_of(b, result)

    def _store_products(self, s: Statement) -> None:
        """Store products of a loop to tiles that the listing declares but never uses (``Survey.products``)."""
        own = {b.results[0] for b in s.body or () if b.op in PRODUCTS}
        for tile, product in self.survey.products.items():
            state, window = self.value_of.get(product), self.value_of.get(tile)
            if product in own and isinstance(state, State) and isinstance(window, WindowHandle):
                self.p.store(state.read().cast(window.window.array.dtype.name), window)

    def _if(self, s: Statement) -> None:
        condition = s.operands[0]
        if not isinstance(condition, Combined) or condition.sign != "==":
            self.refuse(s, "the condition is not a comparison of positions with ==")
        position, equals = condition.args
        index = self._index(s, position)
        if not isinstance(index, Index) or not isinstance(equals, int):
            self.refuse(s, "the condition does not compare a position with a number")
        counted = self._counted(s, position, index)
        with self.p.when(counted, equals):
            self._statements(s.body or ())

    def _counted(self, s: Statement, position: Expression, index: Index) -> Index:
        """Return the index that a condition compares.

        In the RFC (2.5), ``%k % 4`` for a counter %k with step 32 means every fourth iteration.
        """
        if not (isinstance(position, Combined) and position.sign == "mod" and isinstance(position.args[0], str)):
            return index
        every = position.args[1]
        loop = next(
            (t for t in self.survey.listing.walk() if t.op == "scf.for" and t.results[0] == position.args[0]), None
        )
        if loop is None or not isinstance(every, int) or not isinstance(loop.operands[2], int):
            return index
        step = loop.operands[2]
        if step % every or step == 1:
            return index
        loop_variable = position.args[0]
        self.survey.note(
            s,
            f"{loop_variable} increases by {step}, so {loop_variable} mod {every} is read as {loop_variable} mod "
            f"{step * every}, which is 0 in every {every} iterations",
        )
        return self.value_of[loop_variable] % (step * every)  # type: ignore[operator,return-value]
