"""Description of a texture object, through which a kernel reads an array."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from search_spaces.launches.operand import Operand

Mode = Literal["wrap", "clamp", "mirror", "border"]
MODES: tuple[Mode, ...] = ("wrap", "clamp", "mirror", "border")  # address modes, in the order of cudaTextureAddressMode


@dataclass(frozen=True)
class LinearTexture:
    """A ``cudaTextureObject_t`` over the linear memory of ``operand``.

    A texture with one dimension is read by ``tex1Dfetch``, one with two dimensions (height, width) by ``tex2D``. With 2
    or 4 ``channels``, the last dimension of the array is a texel. If ``normalized_read``, integers are read as
    fractions of the largest integer.

    Raises:
        ValueError: Textures do not support the array, or this combination of modes.
    """

    name: str
    operand: Operand
    filter: Literal["point", "linear"] = "point"
    mode: Mode = "clamp"
    normalized: bool = False  # True if coordinates range from 0 to 1
    normalized_read: bool = False
    channels: int = 1

    def __post_init__(self) -> None:
        shape, dtype = self.operand.shape, self.operand.dtype
        if self.channels not in (1, 2, 4) or (self.channels > 1 and shape[-1] != self.channels):
            raise ValueError(
                f"a texture of {self.channels} channels needs an array whose last dimension is {self.channels}"
            )
        if not 1 <= len(self.extent) <= 2:
            raise ValueError(f"a texture needs one or two dimensions, not {len(self.extent)}")
        if dtype.bytes > 4 or dtype.name not in _CHANNELS:
            raise ValueError(f"a texture needs floats or integers of at most 32 bits, not {dtype.name}")
        if len(self.extent) == 1 and (self.filter == "linear" or self.normalized or self.mode != "clamp"):
            raise ValueError(
                "tex1Dfetch supports only integer coordinates and no filter: use a texture with two dimensions"
            )
        if self.filter == "linear" and not (dtype.is_float or self.normalized_read):
            raise ValueError("a linear filter returns floats: set normalized_read to filter integers")
        if self.mode in ("wrap", "mirror") and not self.normalized:
            raise ValueError(f'the mode "{self.mode}" needs normalized coordinates')

    @property
    def extent(self) -> tuple[int, ...]:
        """Number of texels along each dimension, slowest first."""
        return self.operand.shape[:-1] if self.channels > 1 else self.operand.shape

    @property
    def kind(self) -> str:
        """Type of a channel: "f", "i" or "u"."""
        return _CHANNELS[self.operand.dtype.name]

    @property
    def row_bytes(self) -> int:
        """Number of bytes per row."""
        return self.extent[-1] * self.channels * self.operand.dtype.bytes


_CHANNELS = {"f32": "f", "f16": "f", **{f"{k}{n}": k for k in "iu" for n in (8, 16, 32)}}
