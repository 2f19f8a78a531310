"""Builder operations for states, loops, conditions, and loops whose iterations are split among blocks."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

from search_spaces.programs.language import ir
from search_spaces.programs.language.index import ZERO, Index, constant
from search_spaces.programs.language.ir import Shape
from search_spaces.programs.language.named_functions import index_operand
from search_spaces.programs.language.scalars import Scalars
from search_spaces.programs.language.values import Recorder, State, Tile, caller, fail, tile_of

MOST_PARTS = 128  # largest number of blocks per split loop, limited because one block combines all partial results
Parts = tuple[Tile, ...]


class Loops(Scalars, Recorder):
    """Builder operations for states, loops and conditions."""

    def __init__(self) -> None:
        self.scopes: list[list[ir.Operation]] = [[]]

    @abstractmethod
    def full(self, shape: Shape, number: float, type_: str = "f32") -> Tile:
        """Return a tile filled with one number."""

    def add(self, operation: ir.Operation) -> None:
        """Append an operation to the program."""
        self.scopes[-1].append(operation)

    def state(self, value: Tile | State) -> State:
        """Return a state: a variable that loop iterations can read and set. ``value`` is its initial value."""
        tile = tile_of("state", value)
        state = State(self, self.new_id(), tile.shape, tile.value.dtype)
        self.add(ir.Set(state.number, tile.value, caller()))
        return state

    def steps(self, stop: Index | int, step: int, *, first: Index | int = 0) -> Iterator[Index]:
        """Loop over first, first + step, ... below ``stop``: ``for at in p.steps(k, bk):``.

        The body is traced once. ``first`` and ``stop`` may depend on the block and on scalars that the block loads.
        """
        yield from self._iterations("steps", stop, step, first, 0)

    def _iterations(
        self, operation: str, stop: Index | int, step: int, first: Index | int, parts: int
    ) -> Iterator[Index]:
        if type(step) is not int:
            fail(operation, f"invalid step {step!r}: use a whole number")
        if step < 1:
            fail(operation, f"invalid step {step}: use at least 1")
        source, number = caller(), self.new_id()
        begin, end = index_operand(operation, first), index_operand(operation, stop)
        self.scopes.append([])
        yield begin + Index("loop", number) * step
        body = tuple(self.scopes.pop())
        self.add(ir.Loop(number, begin, end, step, body, source, parts))

    def split(
        self,
        stop: Index | int,
        step: int,
        *,
        parts: int,
        states: Sequence[State],
        combine: Literal["add"] | Callable[[Parts, Parts], Parts],
        first: Index | int = 0,
    ) -> Iterator[Index]:
        """Split a loop among blocks: ``for at in p.split(k, bk, parts=4, states=(acc,), combine="add"):``.

        Each block starts with the values that the states have before the loop. It executes a range of consecutive
        iterations, which may be empty. The block that finishes last combines the states of all blocks in the order of
        the ranges, and executes the program after the loop.

        Args:
            stop: As in ``steps``.
            step: As in ``steps``.
            parts: Number of blocks that share the loop, such as ``p.choose(parts=(1, 2, 4, 8))``.
            states: The states that the loop sets. Before the loop they must have neutral values, such as 0 for sums.
            combine: Function that combines two tuples of values, in the order of ``states``; "add" adds the values.
            first: As in ``steps``.

        Raises:
            ProgramError: If the loop is inside a loop or condition, if it sets a state that is not in ``states``, or if
                the program stores before the end of the loop.
        """
        source, before = caller(), self.scopes[-1]
        self._check_split(parts, states, combine, before)
        yield from self._iterations("split", stop, step, first, parts)
        loop = before[-1]
        assert isinstance(loop, ir.Loop)
        for operation in ir.walk_body(loop.body):
            if isinstance(operation, ir.StoreTile | ir.AtomicRmw):
                fail(
                    "split",
                    "a store inside a split loop: move it after the loop, where the combined states are available",
                )
            outer = {o.state for o in before if isinstance(o, ir.Set)} - {state.number for state in states}
            if isinstance(operation, ir.Set) and operation.state in outer:
                fail("split", f"the loop also sets the state at {operation.source}: add it to states")
        copies = tuple(self.state(self.full(state.shape, 0.0, state.dtype.name)) for state in states)
        number = self.new_id()
        self.scopes.append([])
        numbers = tuple(tuple(state.number for state in of) for of in (states, copies))
        self.add(ir.FetchPart(numbers[0], numbers[1], Index("loop", number) + 1, source))
        one, other = (tuple(state.read() for state in of) for of in (states, copies))
        joined = tuple(a + b for a, b in zip(one, other, strict=True)) if combine == "add" else combine(one, other)
        if not isinstance(joined, tuple | list) or len(joined) != len(states):
            fail("split", f"combine returned {joined!r}: return a tuple of {len(states)} tiles")
        for state, value in zip(states, joined, strict=True):
            state.set(value)
        body = tuple(self.scopes.pop())
        self.add(ir.Loop(number, ZERO, constant(parts - 1), 1, body, source))

    def _check_split(self, parts: object, states: object, combine: object, before: list[ir.Operation]) -> None:
        if type(parts) is not int or not 1 <= parts <= MOST_PARTS:
            fail("split", f"invalid parts={parts!r}: use a whole number from 1 to {MOST_PARTS}")
        if not isinstance(states, tuple | list) or not states or not all(isinstance(s, State) for s in states):
            fail("split", f"invalid states={states!r}: use a tuple of states from p.state")
        if combine != "add" and not callable(combine):
            fail("split", f'invalid combine={combine!r}: use "add" or a function of two tuples of tiles')
        if len(self.scopes) > 1:
            fail("split", "a split loop inside another loop or a condition: move it to the top level of the program")
        for operation in ir.walk_body(tuple(before)):
            if isinstance(operation, ir.Loop) and operation.parts:
                fail("split", f"a second split loop, after {operation.source}: a program can have only one")
            if isinstance(operation, ir.StoreTile | ir.AtomicRmw):
                fail(
                    "split",
                    f"the store at {operation.source} is before the loop, so every block would repeat it: move it "
                    "after the loop",
                )

    @contextmanager
    def when(self, index: Index, equals: int = 0) -> Iterator[None]:
        """Run operations only if ``index`` equals ``equals``: ``with p.when(at % 128):`` (scf.if).

        The condition is the same for all threads of a block. The body is traced once. If the body moves a window inside
        a loop, the condition must hold periodically: in every n-th iteration for a fixed n.
        """
        source, number = caller(), self.new_id()
        if not isinstance(index, Index):
            fail("when", f"the condition {index!r} is not an index: use an index, such as at % 128")
        self.scopes.append([])
        yield
        body = tuple(self.scopes.pop())
        self.add(ir.If(number, index, equals, body, source))
