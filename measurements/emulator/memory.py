"""Properties of initial memory other than array contents, such as pointers into arrays and undefined bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from search_spaces.launches.launch import BytesArgument, Launch, ScalarArgument
from search_spaces.launches.operand import Operand
from search_spaces.launches.tensor_map import TensorMap
from search_spaces.launches.texture import MODES, LinearTexture

Flags = npt.NDArray[np.bool_]
_ADDRESS_BYTES = 8


class StoredAddress(NamedTuple):
    """Eight bytes inside an array that are the address of a byte of another array.

    ``array`` and ``target`` are names of operands; ``at`` and ``offset`` are byte offsets. The array contains the
    address during the launch. Afterwards, the original bytes are restored, unless the kernel has overwritten the
    address.
    """

    array: str
    at: int
    target: str
    offset: int = 0


class Inside(NamedTuple):
    """Eight bytes of an argument passed by value that contain the address of a byte of the array ``target``.

    ``position`` is the position of the argument, ``at`` the byte offset in the argument.
    """

    position: int
    at: int
    target: str
    offset: int = 0


class TextureObject(NamedTuple):
    """A texture or surface object that fetches from an array of texels in row-major order.

    Attributes:
        handle: Value of the object in the kernel.
        extent: Texels per dimension, the contiguous dimension first. The last extent of a ``layered`` object is the
            number of layers.
        pitch: Bytes between the starts of rows.
        slice: Bytes between the starts of planes.
        kind: Type of a channel: "f", "i" or "u".
        modes: Address mode of each dimension: wrap, clamp, mirror or border.
    """

    handle: int
    array: str
    dimensions: int
    extent: tuple[int, int, int]
    pitch: int
    slice: int
    channels: int
    channel_bytes: int
    kind: str
    layered: bool = False
    normalized_read: bool = False
    linear: bool = False
    normalized_coordinates: bool = False
    modes: tuple[str, str, str] = ("clamp", "clamp", "clamp")
    border: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    offset: int = 0

    def line(self, buffer: int) -> str:
        """Return the line of a job that describes this texture (runtime/isa/access/texture.cpp)."""
        head = (
            self.handle,
            buffer,
            self.offset,
            self.dimensions,
            int(self.layered),
            *self.extent,
            self.pitch,
            self.slice,
        )
        texel = (self.channels, self.channel_bytes, self.kind, int(self.normalized_read), int(self.linear))
        tail = (int(self.normalized_coordinates), *map(MODES.index, self.modes), *self.border)
        return " ".join(map(str, ("texture", *head, *texel, *tail)))


FIRST_HANDLE = 0x7E57_0000_0001  # handle of the first texture object; it is never a valid address


def texture_object(texture: LinearTexture, handle: int) -> TextureObject:
    """Convert a texture argument of a launch to a texture object."""
    height, width = (1, *texture.extent)[-2:]
    return TextureObject(
        handle=handle, array=texture.operand.name, dimensions=len(texture.extent), extent=(width, height, 1),
        pitch=texture.row_bytes, slice=height * texture.row_bytes, channels=texture.channels,
        channel_bytes=texture.operand.dtype.bytes, kind=texture.kind, normalized_read=texture.normalized_read,
        linear=texture.filter == "linear", normalized_coordinates=texture.normalized, modes=(texture.mode,) * 3,
    )  # fmt: skip


class Unfinished(NamedTuple):
    """Bytes of an array that earlier launches may still use while a dependent launch runs.

    Attributes:
        array: Name of the array.
        first: First byte.
        end: Byte after the last one; None for all bytes from ``first`` on.
        only_read: True if earlier launches only read the bytes.
    """

    array: str
    first: int = 0
    end: int | None = None
    only_read: bool = False


@dataclass(frozen=True, eq=False)
class Memory:
    """Properties of a launch's initial memory other than array contents. ``check`` verifies that they fit the launch.

    Args:
        offsets: For a pointer or tensor map that does not point to the start of its array: the byte offset in the
            array, by the position of the argument.
        defined: For each inout array by name: a flag per byte, which is true if the byte is defined. Reading an
            undefined byte before it is written is a finding, as for an output. ``Emulation.defined`` and
            ``Emulation.written`` are the flags after the launch.
        addresses: Pointers stored in arrays.
        extra_operands: Arrays that are not arguments, to which ``addresses``, ``inside``, ``symbols`` and
            ``textures`` refer.
        inside: Pointers in arguments passed by value.
        symbols: For variables of the PTX, by name: the array with the variable's contents.
        textures: Texture and surface objects.
        unfinished: For a dependent launch, the bytes that earlier launches may still write or read. Default: earlier
            launches may still write all arrays.
    """

    offsets: Mapping[int, int] = field(default_factory=dict)
    defined: Mapping[str, Flags] = field(default_factory=dict)
    addresses: tuple[StoredAddress, ...] = ()
    extra_operands: tuple[Operand, ...] = ()
    inside: tuple[Inside, ...] = ()
    symbols: Mapping[str, str] = field(default_factory=dict)
    textures: tuple[TextureObject, ...] = ()
    unfinished: tuple[Unfinished, ...] | None = None

    def operands(self, launch: Launch) -> tuple[Operand, ...]:
        """Return all arrays of the launch. The arrays of its arguments come first."""
        return (*launch.operands, *self.extra_operands)

    def check(self, launch: Launch) -> None:
        """Raise ValueError if this memory does not fit the launch."""
        operands = {o.name: o for o in self.operands(launch)}
        if len(operands) < len(self.operands(launch)):
            raise ValueError("extra_operands: two arrays have the same name")
        for name in (
            *(i.target for i in self.inside),
            *self.symbols.values(),
            *(t.array for t in self.textures),
            *(u.array for u in self.unfinished or ()),
        ):
            if name not in operands:
                raise ValueError(f"{name} is not an array of the launch")
        for position, offset in self.offsets.items():
            if not 0 <= position < len(launch.arguments) or isinstance(
                launch.arguments[position], ScalarArgument | BytesArgument | LinearTexture
            ):
                raise ValueError(f"offsets: argument {position} is neither a pointer nor a tensor map")
            argument = launch.arguments[position]
            operand = argument.operand if isinstance(argument, TensorMap | LinearTexture) else operands[argument.name]
            if not 0 <= offset <= operand.bytes:
                raise ValueError(f"offsets: byte {offset} is outside {operand.name}, which has {operand.bytes} bytes")
        for name, flags in self.defined.items():
            if name not in operands or operands[name].role != "inout":
                raise ValueError(f"defined: {name} is not an array of role inout")
            if flags.dtype != np.bool_ or flags.shape != (operands[name].bytes,):
                raise ValueError(f"defined: {name} needs {operands[name].bytes} flags, one per byte")
        for a in self.addresses:
            if a.array not in operands or a.target not in operands:
                raise ValueError(f"addresses: {a.array} and {a.target} must both be arrays of the launch")
            if not 0 <= a.at <= operands[a.array].bytes - _ADDRESS_BYTES:
                raise ValueError(f"addresses: byte {a.at} of {a.array} cannot hold an address")
            if not 0 <= a.offset <= operands[a.target].bytes:
                raise ValueError(f"addresses: byte {a.offset} is outside {a.target}")


PLAIN_MEMORY = Memory()
