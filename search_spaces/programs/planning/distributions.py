"""Evaluate symbolic distributions, which the inference returns, for one schedule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import gcd

from search_spaces.hardware.fragments import WARP
from search_spaces.layouts.nested_layout import NestedLayout
from search_spaces.layouts.wg_map import WgMap
from search_spaces.programs.inference.inference import Inference, Spread
from search_spaces.programs.language import layout_distributions
from search_spaces.programs.language.distribution import Distribution
from search_spaces.programs.planning.instructions import WARPS, fragments, is_boxed, rows_of
from search_spaces.spaces.parameters import Value

USER_MAP_VECTOR = 4  # consecutive elements per lane if the user gives a wg_map, because a wg_map does not specify lanes


@dataclass(frozen=True)
class ProductTiling:
    """How one schedule divides the result of a group of products among subgroups.

    ``groups`` is the number of subgroups along rows and columns; ``data`` is the shape of each subgroup's sub-tile.
    """

    shape: tuple[int, int]
    groups: tuple[int, int]
    data: tuple[int, int]
    intrinsic: str

    @property
    def fragments(self) -> tuple[int, int]:
        """Number of fragments of a subgroup along rows and columns, over all its sub-tiles."""
        row = fragments(self.intrinsic)
        rounds = [max(1, self.shape[d] // (self.groups[d] * self.data[d])) for d in (0, 1)]
        return rounds[0] * self.data[0] // row.m, rounds[1] * self.data[1] // row.n


@dataclass(frozen=True)
class AnchorTiling:
    """The arguments of ``layout_distributions.blocked`` with which a schedule distributes a tile."""

    shape: tuple[int, int]
    along: int
    columns: int
    across: int
    vector: int


Base = ProductTiling | AnchorTiling | WgMap | NestedLayout


@dataclass(frozen=True)
class Distributions:
    """All distributions of a schedule. ``user_maps`` has the user's maps with the ids of the values."""

    warps: int
    products: tuple[ProductTiling, ...]
    anchors: tuple[AnchorTiling, ...]
    user_maps: tuple[tuple[int, WgMap | NestedLayout], ...]

    @cached_property
    def _hash(self) -> int:
        return hash((self.warps, self.products, self.anchors, self.user_maps))

    def __hash__(self) -> int:  # cached: every count of a schedule looks up distributions
        return self._hash

    @cached_property
    def _of(self) -> dict[Spread, Distribution]:
        return {}

    def of(self, spread: Spread) -> Distribution:
        """Return the concrete distribution that the symbolic distribution ``spread`` stands for in this schedule."""
        distribution = self._of.get(spread)
        if distribution is None:
            distribution = self._of[spread] = _evaluate(spread, self._base(spread.base), self.warps)
            assert distribution.shape == spread.shape, f"{spread} distributes {distribution.shape}, not {spread.shape}"
        return distribution

    def _base(self, base: Spread) -> Base:
        """Return the parameters of an anchor's distribution."""
        match base.kind:
            case "blocked":
                return next(a for a in self.anchors if (a.shape, a.along) == (base.shape, base.number))
            case "user_map":
                return dict(self.user_maps)[base.number]
        return self.products[base.number]


@lru_cache(maxsize=2**14)
def _evaluate(spread: Spread, base: Base, warps: int) -> Distribution:
    if spread.of is not None:
        inner = _evaluate(spread.of, base, warps)
        match spread.kind:
            case "drop":
                return inner.drop(spread.number)
            case "group":
                return inner.group(spread.number, spread.size)
            case "expand":
                return inner.expand(spread.number, spread.size)
            case "reshape":
                return inner.reshape(spread.shape[0])
        return inner.swap()
    match base:
        case AnchorTiling():
            return layout_distributions.blocked(base.shape, warps, base.along, base.columns, base.across, base.vector)
        case NestedLayout():
            return layout_distributions.of_nested(base, spread.shape)
        case WgMap():
            return layout_distributions.of_wg_map(spread.shape, base, USER_MAP_VECTOR)
    return _fragments(base, spread)


def _fragments(product: ProductTiling, spread: Spread) -> Distribution:
    row = fragments(product.intrinsic)
    (subgroups_m, subgroups_n), (data_rows, data_columns) = product.groups, product.data
    of_rows, of_columns, of_steps = (subgroups_m, subgroups_n, data_rows), (subgroups_n, 1, data_columns), (0, 0, 0)
    match spread.kind:
        case "left":
            fragment, groups, slow = row.a, (of_rows, of_steps), 1
        case "right":
            fragment, groups, slow = row.b, (of_steps, of_columns), 0
        case _:
            fragment, groups, slow = row.c, (of_rows, of_columns), 0
    if fragment.layout is None:
        raise ValueError(
            f"{row.name} cannot read operands from registers, as its fragments are unspecified: load operands to "
            "shared memory"
        )
    return layout_distributions.of_fragment(fragment.layout, fragment.register_order, spread.shape, groups, slow)


def warps_across(pieces: int, lines: int, columns: int, warps: int) -> int:
    """Return the number of warps that share a line of a tile. Warps are first assigned to different lines.

    Args:
        pieces: Length of a line, in multiples of the elements that a warp handles at a time.
        lines: Number of lines of the tile.
        columns: Number of lanes that share a line.
        warps: Number of warps of the block.
    """
    lane_lines = gcd(lines, WARP // columns)
    return max(1, gcd(pieces, warps // gcd(lines // lane_lines, warps)))


def product_tilings(inference: Inference, values: Mapping[str, Value]) -> tuple[ProductTiling, ...]:
    """Return the tiling of each group of products, for the instruction and subgroups in ``values``."""
    if not inference.products:
        return ()
    intrinsic = str(values["intrinsic"])
    boxed, listed = is_boxed(intrinsic), []
    for p in inference.products:
        if isinstance(p.user_map, WgMap):
            groups, data = p.user_map.sg_layout, p.user_map.sg_data
        else:
            groups = int(values[f"subgroups_m{p.suffix}"]), int(values[f"subgroups_n{p.suffix}"])
            rows = rows_of(intrinsic) // WARPS if boxed else p.shape[0] // groups[0]
            data = rows, p.shape[1] // groups[1]
        listed.append(ProductTiling(p.shape, groups, data, intrinsic))
    return tuple(listed)


def warps_of(inference: Inference, values: Mapping[str, Value]) -> int:
    """Return the number of warps that compute, without a producer warp."""
    if not inference.products:
        return int(values["warps"])
    p = inference.products[-1]
    if isinstance(p.user_map, WgMap):
        return p.user_map.subgroups
    return int(values[f"subgroups_m{p.suffix}"]) * int(values[f"subgroups_n{p.suffix}"])


def anchor_tiling(inference: Inference, number: int, warps: int, values: Mapping[str, Value]) -> AnchorTiling:
    """Return the tiling of anchor ``number``, counted from 1, in one schedule."""
    anchor = inference.anchors[number - 1]
    columns, width = int(values[f"lanes_{number}"]), int(values[f"width_{number}"])
    line, lines = anchor.shape[anchor.along], anchor.shape[1 - anchor.along]
    across = warps_across(line // (columns * width), lines, columns, warps)
    return AnchorTiling(anchor.shape, anchor.along, columns, across, width)


def distributions_of(inference: Inference, values: Mapping[str, Value]) -> Distributions:
    """Return the distributions of a schedule. ``values`` are the schedule's values by parameter name."""
    warps = warps_of(inference, values)
    anchors = tuple(anchor_tiling(inference, number, warps, values) for number in range(1, len(inference.anchors) + 1))
    return Distributions(warps, product_tilings(inference, values), anchors, tuple(inference.user_maps.items()))
