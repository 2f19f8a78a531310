"""Find the sizes along which results are independent of each other.

If rows are independent, for example, a problem with few rows is enough to verify a kernel.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from search_spaces.programs.language import ir
from search_spaces.programs.language.index import Index
from search_spaces.programs.language.window_positions import resolve


@lru_cache(maxsize=256)
def independent(trace: ir.Trace) -> Mapping[str, int]:
    """Return the sizes along which results are independent, with the grid axis that divides each size among blocks.

    No operation combines elements along such a size or uses positions along it.
    """
    plain = resolve(trace)
    names = dict.fromkeys(name for a in trace.arrays for name in a.sizes)
    axes = {name: _Along(plain, name).axis() for name in names}
    return {name: axis for name, axis in axes.items() if axis is not None}


class _Mixed(Exception):
    """Raised if the program combines elements along the size that ``_Along`` follows, or uses positions along it."""


class _Along:
    """Follow one size, such as "m", through a program.

    ``axes`` has, for each value, the dimension that runs along this size, or None.
    """

    def __init__(self, trace: ir.Trace, name: str) -> None:
        self.trace, self.name = trace, name
        self.block: int | None = None  # the grid axis that divides the size among blocks
        self.axes: dict[int, int | None] = {}
        self.states: dict[int, int | None] = {}

    def axis(self) -> int | None:
        """Return the grid axis that divides the size among blocks.

        Return None if results at different indices along the size depend on each other, or if no axis divides it.
        """
        try:
            for _ in range(2):  # second pass: an iteration reads states that the previous iteration has set
                self._run(self.trace.operations)
        except _Mixed:
            return None
        return self.block

    def _run(self, operations: tuple[ir.Operation, ...]) -> None:
        for operation in operations:
            match operation:
                case ir.Loop():
                    self._check_index(operation.first, operation.stop)
                    self._run(operation.body)
                case ir.If():
                    self._check_index(operation.index)
                    self._run(operation.body)
                case ir.StoreTile(value, window):
                    if operation.rows_below is not None:
                        raise _Mixed
                    along = self._window(window)
                    if along is None or self.axes[value.id] not in (None, along):
                        raise _Mixed
                case ir.AtomicRmw():
                    raise _Mixed
                case ir.Set(state, value):
                    self.states[state] = self._one(self.states.get(state), self.axes[value.id])
                case ir.FetchPart(states, copies):
                    self.states |= {o: self.states.get(s) for s, o in zip(states, copies, strict=True)}
                case ir.Uniform(_, value):
                    if self.axes[value.id] is not None:
                        raise _Mixed
                case ir.FindTile():
                    raise _Mixed
                case ir.LoadScalar():
                    if self.name in operation.array.sizes:
                        raise _Mixed
                    self._check_index(operation.index)
                case ir.Prefetch() | ir.Move():
                    pass
                case _:
                    self.axes[operation.result.id] = self._of(operation)

    def _of(self, operation: ir.Computing) -> int | None:
        match operation:
            case ir.LoadTile(_, window):
                along = self._window(window)
                # If the window has extent 1 in this dimension, the block covers only one index of the size, and no
                # dimension of the loaded value runs along the size.
                return None if along is None or window.shape[along] == 1 else along
            case ir.Coordinates(_, _, base):
                self._check_index(base)
                return None
            case ir.Read(_, state):
                return self.states.get(state)
            case ir.TransposeTile(_, value):
                own = self.axes[value.id]
                return None if own is None else 1 - own
            case ir.Reshape(_, value):
                if self.axes[value.id] is not None:
                    raise _Mixed
                return None
            case ir.ReduceTile(_, _, value, dimension) | ir.Scan(_, _, value, dimension):
                own = None
                for value in ir.inputs(operation):
                    own = self._one(own, self.axes[value.id])
                if own == dimension:
                    raise _Mixed
                return own
            case ir.Broadcast(_, value, dimension) | ir.PadTile(_, value, dimension):
                own = self.axes[value.id]
                if own == dimension:
                    raise _Mixed
                return own
            case ir.Mma() if operation.scales is not None:
                raise _Mixed
            case ir.Mma(_, a, b, c):
                left, right = self.axes[a.id], self.axes[b.id]
                if left == 1 or right == 0:
                    raise _Mixed
                own = self._one(left, right)
                return own if c is None else self._one(own, self.axes[c.id])
            case ir.Map() | ir.Convert():
                axis: int | None = None
                for value in ir.inputs(operation):
                    axis = self._one(axis, self.axes[value.id])
                return axis
        return None

    def _one(self, first: int | None, second: int | None) -> int | None:
        if first is not None and second is not None and first != second:
            raise _Mixed
        return second if first is None else first

    def _window(self, window: ir.Window) -> int | None:
        """Return the dimension of the window that runs along the size ``self.name``, or None if there is none.

        Raises _Mixed unless the window covers exactly the block's own tile in this dimension.
        """
        names = window.array.sizes
        if window.index is not None or window.array.role == "shared" or self.name in names[:-2]:
            raise _Mixed
        along = [d for d in (0, 1) if window.sizes[d] == self.name]
        if len(along) > 1:
            raise _Mixed
        for d in along:
            axes = [a for a, size in enumerate(self.trace.tile) if window.at[d] == Index("block", a) * size]
            fits = axes and window.shape[d] == self.trace.tile[axes[0]] and self.block in (None, axes[0])
            if not fits:
                raise _Mixed
            self.block = axes[0]
        self._check_index(*window.array.lead, *(window.at[d] for d in (0, 1) if d not in along))
        return along[0] if along else None

    def _check_index(self, *indices: Index) -> None:
        """Check that no index depends on the block's position along the size ``self.name``."""
        for index in indices:
            if index.kind == "block" and index.number == self.block:
                raise _Mixed
            self._check_index(*index.args)
