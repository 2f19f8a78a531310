"""Fragments of a tensor intrinsic. A fragment maps an operand's elements to lanes and registers."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from search_spaces.layouts.nested_layout import NestedLayout

WARP = 32


@dataclass(frozen=True)
class Fragment:
    """An operand in the registers of a warp (or of a warpgroup if ``lanes`` is 128).

    Attributes:
        registers: Number of 32-bit registers per lane.
        layout: Distribution of the elements to warps and lanes. None if the ISA does not specify it (wmma), or if the
            instruction reads shared memory directly (0 registers).
        register_order: Permutation from the instruction's order of a lane's values to the order of the NestedLayout
            (batch, outer, element). The instruction's value r is the layout's value ``register_order[r]``. () is the
            identity.
        lane_loads: Elements that each lane reads from shared memory, used to count bank conflicts; None if ldmatrix
            loads the fragment.
    """

    shape: tuple[int, int]
    registers: int
    layout: NestedLayout | None = None
    register_order: tuple[int, ...] = ()
    lanes: int = WARP
    lane_loads: NestedLayout | None = None

    def __post_init__(self) -> None:
        if self.lanes < WARP or self.lanes % WARP:
            raise ValueError(f"fragment: lanes must be whole warps of {WARP}, not {self.lanes}")
        if self.lane_loads is not None:
            self.lane_loads.verify(self.shape, WARP, self.lanes // WARP, replicate_threads=True)
        if self.layout is None:
            if self.register_order:
                raise ValueError("fragment: register_order needs a layout, and this fragment has none")
            return
        if self.layout.rounds(self.lanes // WARP) > 1:
            raise ValueError(
                f"fragment: the layout uses {self.layout.subgroups} warps, but the fragment has "
                f"{self.lanes // WARP} warps"
            )
        # Several lanes may hold the same element. For example, lanes that execute fma share elements of A and B.
        self.layout.verify(self.shape, WARP, self.lanes // WARP, replicate_threads=True)
        if sorted(self.register_order) not in ([], list(range(self.layout.elements_per_thread))):
            last = self.layout.elements_per_thread - 1
            raise ValueError(f"fragment: register_order must be a permutation of 0 to {last}")

    @cached_property
    def positions(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Rows and columns of all values, each of shape (lanes, values per lane in the instruction's order)."""
        if self.layout is None:
            raise ValueError("fragment: the ISA does not specify which lane holds which element")
        coordinates = self.layout.coordinates(self.lanes // WARP, WARP, replicate_threads=True).reshape(
            self.lanes, -1, 2
        )
        order = list(self.register_order or range(coordinates.shape[1]))
        return coordinates[:, order, 0], coordinates[:, order, 1]

    @property
    def values(self) -> int:
        """Number of elements per lane."""
        return int(self.positions[0].shape[1])

    @property
    def holders(self) -> int:
        """Number of lanes that hold a copy of each element."""
        return self.lanes * self.values // (self.shape[0] * self.shape[1])

    def distribute(self, tile: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
        """Distribute a tile to lanes. The result has shape (lanes, values), in the instruction's register order."""
        if tile.shape != self.shape:
            raise ValueError(f"fragment: the tile must have shape {self.shape}, not {tile.shape}")
        return tile[self.positions]

    def collect(self, fragments: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
        """Assemble a tile from the lanes' values (lanes, values). Raises ValueError if copies of an element differ."""
        if fragments.shape != (self.lanes, self.values):
            raise ValueError(f"fragment: registers must have shape {(self.lanes, self.values)}, not {fragments.shape}")
        tile = np.empty(self.shape, dtype=fragments.dtype)
        tile[self.positions] = fragments
        if self.holders > 1 and not np.array_equal(
            tile[self.positions], fragments, equal_nan=fragments.dtype.kind == "f"
        ):
            raise ValueError("fragment: the copies of an element in several lanes differ")
        return tile
