"""Orders in which the matmul and matvec templates add products.

All kernels add the products of a range of k in ascending order, in steps of their instruction's k extent. This holds
for every tile, pipeline and number of warps. With split-K, each block computes one range of k, and the last block adds
the ranges in ascending order. Stream-K divides k at the position where the work of a block ends. This position depends
on the number and the positions of tiles.
"""

from __future__ import annotations

from search_spaces.hardware.devices import Device
from search_spaces.hardware.intrinsics import intrinsic as intrinsic_row
from search_spaces.hardware.tensor_intrinsic import TensorIntrinsic
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.matvec import Matvec
from search_spaces.spaces.parameters import Value
from search_spaces.spaces.sum_order import EXACT, OrderPart
from search_spaces.templates.matvec.problem import as_matvec
from search_spaces.templates.matvec.space import FMA, tiling, widest_access
from search_spaces.templates.tcgen05_matmul.problem import row_of as tcgen05_row_of
from search_spaces.templates.wgmma_matmul.problem import row_of as wgmma_row_of

PRODUCTS, RANGES, THREADS = "products", "ranges of k", "threads along k"
_WHOLE = "one range"
_DEALT = {
    "matmul": ("tile_m", "tile_n", "min_blocks", "raster", "batch_mapping"),
    "tma_matmul": ("tile_m", "tile_n", "min_blocks", "raster", "batch_mapping"),
    "wgmma_matmul": ("tile_m", "tile_n", "min_blocks", "raster", "cluster_m", "cluster_n", "tiles_per_block"),
    "tcgen05_matmul": ("tile_m", "tile_n", "raster", "tiles_per_block"),
}


def tiled_parts(template: str, problem: Matmul, device: Device) -> tuple[OrderPart, ...]:
    """Return the components of the order for a matmul template that computes tiles of out.

    Args:
        template: Name of the template. A template that exchanges a and b has the same order.
        problem: Problem to compute.
        device: Device of the space.
    """
    if problem.acc == "i32":
        return (OrderPart(PRODUCTS, (), lambda: f"{EXACT} sums of whole numbers"), *_reduced(problem))
    kind = template.removesuffix("_transposed")
    return (_products(kind, problem), _ranges(problem.depth), *_dealt(kind), *_reduced(problem))


def _products(kind: str, problem: Matmul) -> OrderPart:
    if kind in ("matmul", "tma_matmul"):
        return OrderPart(PRODUCTS, ("intrinsic",), lambda intrinsic: instruction(intrinsic_row(str(intrinsic))))
    row = wgmma_row_of(problem, 16) if kind == "wgmma_matmul" else tcgen05_row_of(problem, 128, 256)
    blocks = ", scaled sums of 128" if problem.scale == "block" else ""
    return OrderPart(PRODUCTS, (), lambda: instruction(row) + blocks)


def instruction(row: TensorIntrinsic) -> str:
    """Return an instruction's name without m and n, which do not affect the order in which the instruction adds."""
    if row.unit == FMA:
        return FMA
    return row.name.replace(f"m{row.m}n{row.n}", "")


def _ranges(extent: int) -> OrderPart:
    def value(tile_k: int, split_k: int, stream_k: int = 0) -> str:
        return f"stream-K in steps of {tile_k}" if stream_k else _range(extent, tile_k, split_k)

    def dependent(tile_k: int, split_k: int, stream_k: int = 0) -> bool:
        return stream_k > 0

    return OrderPart(RANGES, ("tile_k", "split_k", "stream_k"), value, dependent)


def _range(extent: int, tile_k: int, split_k: int) -> str:
    tiles = -(-extent // tile_k)
    each = -(-tiles // split_k) * tile_k
    return _WHOLE if each >= extent else f"ranges of {each}"


def _dealt(kind: str) -> tuple[OrderPart, ...]:
    """Return one component for each parameter that influences where stream-K divides k.

    Schedules can be counted quickly because each component depends on few parameters.
    """

    def part(name: str) -> OrderPart:
        def value(stream_k: int, **values: Value) -> str:
            return str(values[name]) if stream_k else ""

        return OrderPart(f"stream-K {name}", ("stream_k", name), value, lambda stream_k, **values: stream_k > 0)

    return tuple(part(name) for name in _DEALT[kind])


def _reduced(problem: Matmul) -> tuple[OrderPart, ...]:
    """Return the components for the second output, which has the sum of each row or column of out."""
    if problem.reduction == "row_sum":
        return (OrderPart("row sums", ("tile_n",), lambda tile_n: f"tiles of {tile_n}"),)
    if problem.reduction != "column_sum":
        return ()

    def value(tile_m: int, tile_n: int, threads: int) -> str:
        return f"tiles of {tile_m} rows by {max(1, threads // tile_n)} threads"

    return (OrderPart("column sums", ("tile_m", "tile_n", "threads"), value, lambda **values: True),)


def matvec_parts(problem: Matvec | Matmul, device: Device) -> tuple[OrderPart, ...]:
    """Return the components of the order for matvec kernels, in which lanes and warps share the k range."""
    own = as_matvec(problem)
    extent, widest = tiling(own).extents[2], widest_access(own)

    def products(intrinsic: str) -> str:
        return instruction(intrinsic_row(intrinsic)) if intrinsic != FMA else FMA

    def ranges(tile_k: int, split_k: int) -> str:
        return _range(extent, tile_k, split_k)

    def threads(tile_k: int, subgroups_k: int, lanes_k: int, vector_w: int, expand_dims: str, intrinsic: str) -> str:
        vectors = tile_k // (subgroups_k * lanes_k * vector_w)
        apart = expand_dims == "no" and vector_w > 1
        if subgroups_k == lanes_k == vectors == 1 and not apart and intrinsic == FMA:
            return ""
        access = min(vector_w, widest)
        shape = f"{subgroups_k} warps, {lanes_k} lanes, {vectors} vectors of {vector_w} in loads of {access}"
        return shape + (", each element apart" if apart else "")

    columns = ("tile_k", "subgroups_k", "lanes_k", "vector_w", "expand_dims", "intrinsic")
    return (
        OrderPart(PRODUCTS, ("intrinsic",), products),
        OrderPart(RANGES, ("tile_k", "split_k"), ranges),
        OrderPart(THREADS, columns, threads),
    )
