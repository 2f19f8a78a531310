"""LoweringConfig: tiling and distribution of a reduction (IREE issue 22153, iree_gpu.lowering_config).

The iteration space of ``out[m, n] += a[m, k] * b[n, k]`` has the dimensions (m, n, k). Every field of a LoweringConfig
has one entry per dimension. A *parallel* dimension is tiled by ``workgroup``. A loop iterates over a *reduction*
dimension in steps of ``partial_reduction``. Each element of a step has its own accumulator until the loop ends.
``expand`` splits a reduction dimension k into (k / t, t). Then the t elements of a thread's vector are added inside the
loop, so that the loop needs t times fewer accumulators.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from search_spaces.layouts.nested_layout import NestedLayout
from search_spaces.layouts.text import TextReader, format_fields, integer_tuple, parse_attribute

_TILES = ("workgroup", "thread", "partial_reduction")
_BASES = ("lane_basis", "subgroup_basis")


@dataclass(frozen=True)
class Basis:
    """Distribution of lanes or subgroups over the dimensions of an iteration space.

    The id of a lane or subgroup is split into mixed-radix digits with the radices ``counts``. The last digit varies
    fastest. Digit ``mapping[i]`` is the index along dimension i, which thus has ``counts[mapping[i]]`` lanes. This is
    the interpretation in IREE's code. IREE's documentation states the inverse permutation, which differs if ``mapping``
    contains a 3-cycle. ``mapping`` contains each digit at most once. Ids that differ only in unmapped digits repeat the
    same work. Raises ValueError that names the invalid field.
    """

    counts: tuple[int, ...]
    mapping: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "counts", integer_tuple("counts", self.counts, 1))
        object.__setattr__(self, "mapping", integer_tuple("mapping", self.mapping, 0))
        if len(set(self.mapping)) != len(self.mapping) or any(d >= len(self.counts) for d in self.mapping):
            raise ValueError(
                f"mapping is {list(self.mapping)}: its elements must be distinct indices of counts, "
                f"0 to {len(self.counts) - 1}"
            )

    @classmethod
    def identity(cls, counts: Sequence[int]) -> Self:
        """Return the basis with ``counts[i]`` lanes (or subgroups) along dimension i."""
        return cls(tuple(counts), tuple(range(len(counts))))

    @property
    def rank(self) -> int:
        """Number of dimensions of the iteration space."""
        return len(self.mapping)

    @property
    def size(self) -> int:
        """Number of lanes (or subgroups)."""
        return math.prod(self.counts)

    @property
    def tile(self) -> tuple[int, ...]:
        """Number of lanes (or subgroups) along each dimension."""
        return tuple(self.counts[digit] for digit in self.mapping)

    @property
    def strides(self) -> tuple[int, ...]:
        """Weight of each dimension's digit in the id; 0 for dimensions with only one lane (or subgroup)."""
        return tuple(math.prod(self.counts[d + 1 :]) if self.counts[d] > 1 else 0 for d in self.mapping)

    def coordinates(self, ids: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Return the digit of each dimension, ``[..., rank]`` for ids ``[...]``. Ids wrap modulo the size."""
        linear = np.asarray(ids, dtype=np.int64) % self.size
        digits = np.stack(np.unravel_index(linear, self.counts), axis=-1)
        return digits[..., list(self.mapping)].astype(np.int64)

    def append(self, dimensions: int) -> Self:
        """Return the basis with ``dimensions`` further dimensions at the end, each with one lane (or subgroup)."""
        ones = (1,) * dimensions
        return type(self)(self.counts + ones, self.mapping + tuple(len(self.counts) + i for i in range(dimensions)))

    def to_lists(self) -> list[list[int]]:
        """Return ``[counts, mapping]``, as in the text of the attribute."""
        return [list(self.counts), list(self.mapping)]


@dataclass(frozen=True)
class LoweringConfig:
    """Tile sizes and distribution of a reduction, one entry per dimension of the iteration space (0: not tiled).

    - ``workgroup``: size of the tile of a parallel dimension that one workgroup computes.
    - ``partial_reduction``: step of a reduction dimension per iteration of the loop.
    - ``thread``: number of contiguous elements that a thread loads at once (0 means 1).
    - ``lane_basis``, ``subgroup_basis``: distribution of lanes and subgroups over the dimensions; empty for a single
      lane or subgroup.
    - ``expand_dims``: empty, or the sizes of the dimensions that ``expand`` appended (0 for the original ones).

    The longest field determines the number of dimensions. Shorter fields are padded with zeros, as in the IREE issue.
    Raises ValueError unless all of these conditions hold:

    - A basis is empty or maps every dimension.
    - No dimension has both ``workgroup`` and ``partial_reduction``.
    - Along each dimension, the tile is a multiple of subgroups * lanes * thread.
    - Appended dimensions come last, lie within one thread, and are not tiled.
    """

    workgroup: tuple[int, ...] = ()
    thread: tuple[int, ...] = ()
    lane_basis: Basis = Basis((), ())
    subgroup_basis: Basis = Basis((), ())
    partial_reduction: tuple[int, ...] = ()
    expand_dims: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        sizes = {name: integer_tuple(name, getattr(self, name), 0) for name in (*_TILES, "expand_dims")}
        bases = {name: getattr(self, name) for name in _BASES}
        for name, basis in bases.items():
            if not isinstance(basis, Basis):
                raise ValueError(f"{name} is {basis!r}: give a Basis(counts, mapping)")
        rank = max(*map(len, sizes.values()), *(basis.rank for basis in bases.values()))
        for name, basis in bases.items():
            if basis.rank not in (0, rank):
                raise ValueError(f"{name} maps {basis.rank} dimensions but the config has {rank}: map each of them")
            if basis.rank == 0:
                object.__setattr__(self, name, basis.append(rank))
        for name, values in sizes.items():
            full = values + (0,) * (rank - len(values))
            object.__setattr__(self, name, full if values or name in _TILES else ())
        self._check_expand_dims()
        for d in range(self.rank):
            if self.workgroup[d] and self.partial_reduction[d]:
                raise ValueError(
                    f"dimension {d} has workgroup {self.workgroup[d]} and partial_reduction "
                    f"{self.partial_reduction[d]}: a dimension is either parallel or reduced, so one of them must be 0"
                )
            for name in ("workgroup", "partial_reduction", "expand_dims"):
                values = getattr(self, name)
                if values and values[d]:
                    self._check_divides(d, values[d], name)

    def _check_expand_dims(self) -> None:
        first = next((d for d, size in enumerate(self.expand_dims) if size), None)
        if first is None:
            if self.expand_dims:
                raise ValueError("expand_dims has only zeros: leave it empty if no dimension is expanded")
            return
        for d in range(first, self.rank):
            size = self.expand_dims[d]
            if size < 2:
                raise ValueError(
                    f"expand_dims[{d}] is {size}: appended dimensions must be last and have a size of at least 2"
                )
            if self.thread[d] != size or self.workgroup[d] or self.partial_reduction[d]:
                raise ValueError(
                    f"expand_dims[{d}] is {size}: the appended dimension needs thread {size}, workgroup 0 "
                    "and partial_reduction 0, so that one thread sums over it inside the loop"
                )

    def _check_divides(self, d: int, size: int, name: str) -> None:
        subgroups, lanes, thread = self.subgroup_basis.tile[d], self.lane_basis.tile[d], max(1, self.thread[d])
        if size % (subgroups * lanes * thread):
            raise ValueError(
                f"{name}[{d}] is {size}, not a multiple of subgroups * lanes * thread = "
                f"{subgroups} * {lanes} * {thread} along that dimension"
            )

    @property
    def rank(self) -> int:
        """Number of dimensions of the iteration space."""
        return len(self.workgroup)

    @property
    def appended(self) -> int:
        """Number of dimensions that ``expand`` appended."""
        return sum(1 for size in self.expand_dims if size)

    # Expansion

    @property
    def expandable_dims(self) -> tuple[int, ...]:
        """Reduction dimensions that ``expand`` splits: their step and their thread vector are both above 1."""
        return tuple(d for d in range(self.rank) if self.partial_reduction[d] > 1 and self.thread[d] > 1)

    def expand(self) -> Self:
        """Return the config with each expandable dimension split into two.

        The dimension keeps its position, with step P / T and thread 1. A dimension of T elements, all in one thread, is
        appended (``512 -> 64, 8``). A config without expandable dimensions is returned unchanged.
        """
        dims = self.expandable_dims
        if not dims:
            return self
        if self.expand_dims:
            raise ValueError("this config is already expanded (expand_dims is set): expand the original config")
        inner = tuple(self.thread[d] for d in dims)
        zeros = (0,) * len(inner)
        step = tuple(p // self.thread[d] if d in dims else p for d, p in enumerate(self.partial_reduction))
        return type(self)(
            workgroup=self.workgroup + zeros,
            thread=tuple(1 if d in dims else t for d, t in enumerate(self.thread)) + inner,
            lane_basis=self.lane_basis.append(len(inner)),
            subgroup_basis=self.subgroup_basis.append(len(inner)),
            partial_reduction=step + zeros,
            expand_dims=(0,) * self.rank + inner,
        )

    def expanded_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Return the iteration space of the expanded config, given the iteration space ``shape`` of this config.

        For example, if the thread's vector has 8 elements, the size 16384 becomes 2048, and a last size 8 is appended.

        Raises:
            ValueError: A size is not a multiple of the thread's vector.
        """
        sizes = self._shape(shape)
        for d in self.expandable_dims:
            if sizes[d] % self.thread[d]:
                raise ValueError(f"shape[{d}] is {sizes[d]}, not a multiple of thread[{d}] = {self.thread[d]}")
        outer = tuple(n // self.thread[d] if d in self.expandable_dims else n for d, n in enumerate(sizes))
        return outer + tuple(self.thread[d] for d in self.expandable_dims)

    # Costs

    def accumulators(self, shape: Sequence[int] | None = None) -> tuple[int, ...]:
        """Return the shape of a workgroup's accumulators in the loop.

        The shape is that of the workgroup's tile without the dimensions that ``expand`` appended, which are summed
        inside the loop. For example, 2x1x512 becomes 2x1x64. ``shape`` is as for ``tile``.
        """
        return self.tile(shape)[: self.rank - sum(map(bool, self.expand_dims))]

    def tile(self, shape: Sequence[int] | None = None) -> tuple[int, ...]:
        """Return the number of elements along each dimension that a workgroup processes per iteration of the loop.

        A dimension that is neither tiled nor appended has its full size in the iteration space ``shape``. If there is
        such a dimension and ``shape`` is None, ValueError is raised.
        """
        sizes = None if shape is None else self._shape(shape)
        result = []
        for d in range(self.rank):
            size = self.workgroup[d] or self.partial_reduction[d] or (self.expand_dims[d] if self.expand_dims else 0)
            if not size:
                if sizes is None:
                    raise ValueError(
                        f"dimension {d} has neither workgroup nor partial_reduction: give the iteration space's shape"
                    )
                size = sizes[d]
                self._check_divides(d, size, "shape")
            result.append(size)
        return tuple(result)

    def accumulators_per_thread(self, shape: Sequence[int] | None = None) -> int:
        """Return the number of 32-bit accumulator registers per thread in the reduction loop."""
        layout = self.to_nested(shape=shape)
        return math.prod(layout.distributed_shape[: self.rank - self.appended])

    def loop_steps(self, shape: Sequence[int]) -> int:
        """Return the number of iterations of the reduction loops over the iteration space ``shape``.

        Raises:
            ValueError: A step does not divide its dimension.
        """
        sizes = self._shape(shape)
        steps = 1
        for d, step in enumerate(self.partial_reduction):
            if step and sizes[d] % step:
                raise ValueError(f"partial_reduction[{d}] is {step} but shape[{d}] is {sizes[d]}: choose a divisor")
            steps *= sizes[d] // step if step else 1
        return steps

    # Lowering

    def to_nested(self, dims: Sequence[int] | None = None, shape: Sequence[int] | None = None) -> NestedLayout:
        """Return the layout of a workgroup's tile per iteration: subgroups, batches, lanes and thread vectors.

        ``dims`` selects the dimensions that index an operand, such as (0, 2) for ``a[m, k]``; None selects all.
        ``shape`` is needed if a dimension is not tiled. The lanes of an unselected dimension hold copies.
        """
        subgroups, lanes = self.subgroup_basis.tile, self.lane_basis.tile
        elements = tuple(max(1, t) for t in self.thread)
        batches = tuple(
            size // (s * lane * e)
            for size, s, lane, e in zip(self.tile(shape), subgroups, lanes, elements, strict=True)
        )
        layout = NestedLayout(
            subgroup_tile=subgroups,
            batch_tile=batches,
            outer_tile=(1,) * self.rank,
            thread_tile=lanes,
            element_tile=elements,
            subgroup_strides=self.subgroup_basis.strides,
            thread_strides=self.lane_basis.strides,
        )
        return layout if dims is None else layout.select(dims)

    # Text

    def __str__(self) -> str:
        """Return the text ``#iree_gpu.lowering_config<{...}>`` with sorted keys, as MLIR prints it."""
        fields: dict[str, Sequence[int] | list[list[int]]] = {name: getattr(self, name) for name in _TILES}
        if self.expand_dims:
            fields["expand_dims"] = self.expand_dims
        fields |= {name: getattr(self, name).to_lists() for name in _BASES}
        return f"#iree_gpu.lowering_config<{{{format_fields(dict(sorted(fields.items())))}}}>"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse ``#iree_gpu.lowering_config<{...}>``.

        Keys may be in any order or missing; ``expand_dims`` may be called ``expand_iteration_space``.

        Raises:
            LayoutSyntaxError: The syntax is wrong. The message has the position.
            ValueError: The fields are not a valid config.
        """
        return parse_attribute(text, cls._read)

    @classmethod
    def _read(cls, reader: TextReader) -> Self:
        reader.expect("#iree_gpu.lowering_config")
        reader.expect("<")
        reader.expect("{")
        known: dict[str, Callable[[], tuple[int, ...] | Basis]] = {
            name: (lambda: _read_basis(reader)) if name in _BASES else reader.integers
            for name in (*(field.name for field in dataclasses.fields(cls)), "expand_iteration_space")
        }
        fields = reader.fields(known, "}", optional=known)
        reader.expect(">")
        if "expand_iteration_space" in fields:
            if "expand_dims" in fields:
                raise ValueError("expand_dims and expand_iteration_space are the same field: give only one of them")
            fields["expand_dims"] = fields.pop("expand_iteration_space")
        return cls(**fields)

    def _shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        sizes = integer_tuple("shape", shape, 1)
        if len(sizes) != self.rank:
            raise ValueError(f"shape has {len(sizes)} dimensions but the config has {self.rank}")
        return sizes


def _read_basis(reader: TextReader) -> Basis:
    reader.expect("[")
    counts = reader.integers()
    reader.expect(",")
    mapping = reader.integers()
    reader.expect("]")
    return Basis(counts, mapping)
