"""Arguments of a launch that are neither arrays nor numbers: structs, tensor maps, textures and surfaces."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from search_spaces.arrays import Array
from search_spaces.short_repr import short_repr

Mode = Literal["wrap", "clamp", "mirror", "border"]


@dataclass(frozen=True, eq=False)
class Struct:
    """A struct passed by value.

    Its fields are arrays (as pointers), numpy scalars, bytes, None (null) and other structs. Fields are aligned as in
    C++.
    """

    fields: tuple[Any, ...]

    __repr__ = short_repr

    def __init__(self, *fields: Any) -> None:
        object.__setattr__(self, "fields", fields)


@dataclass(frozen=True)
class Im2col:
    """Boxes of a ``TensorMapOf`` in im2col mode, as for ``cuTensorMapEncodeIm2col``.

    The fields are the corners of the bounding box and the strides of the pixel dimensions, slowest first, like
    ``array.shape``.
    """

    lower: tuple[int, ...]
    upper: tuple[int, ...]
    pixels: int
    channels: int
    strides: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class TensorMapOf:
    """A ``const __grid_constant__ CUtensorMap`` parameter that describes ``array``, of one to five dimensions.

    ``box`` counts elements, slowest dimension first, like ``array.shape``. ``dtype`` is the element type if numpy lacks
    it: "bf16", "e4m3" and the like. ``im2col`` replaces the box. ``interleave`` selects the layouts NC/8HWC8 and
    NC/16HWC16. ``array`` then has four to six axes. The last axis is a slice of 16 or 32 bytes of channels, and ``box``
    omits it.
    """

    array: Array
    box: tuple[int, ...] = ()
    swizzle: Literal["NONE", "32B", "64B", "128B"] = "NONE"
    dtype: str = ""
    im2col: Im2col | None = None
    interleave: Literal["NONE", "16B", "32B"] = "NONE"

    __repr__ = short_repr


@dataclass(frozen=True, eq=False)
class Texture:
    """A ``cudaTextureObject_t`` of ``array``: (width,), (height, width) or (depth, height, width).

    If ``channels`` is 2 or 4, the array has an additional last dimension for the channels. If ``layered`` is True, the
    first dimension counts layers. If ``normalized_read`` is True, integers are read as fractions of the largest value
    (``cudaReadModeNormalizedFloat``).
    """

    array: Array
    filter: Literal["point", "linear"] = "point"
    mode: Mode = "clamp"
    normalized_coordinates: bool = False
    normalized_read: bool = False
    channels: int = 1
    layered: bool = False
    border: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)

    __repr__ = short_repr


@dataclass(frozen=True, eq=False)
class Surface(Texture):
    """A ``cudaSurfaceObject_t`` of ``array``, which the kernel may write."""

    __repr__ = short_repr


def arrays_in(value: Any) -> Iterator[Array]:
    """Yield the arrays of an argument, including arrays inside structs and lists."""
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, TensorMapOf | Texture):
        yield value.array
    elif isinstance(value, Struct):
        for one in value.fields:
            yield from arrays_in(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from arrays_in(one)
