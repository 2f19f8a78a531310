"""Tensor maps, which describe arrays to the Tensor Memory Accelerator (TMA), as data that is validated without a GPU.

Fields and requirements are as for ``cuTensorMapEncodeTiled`` (CUDA Driver API, Tensor Map Object Management; PTX ISA,
Tensors). Dimension 0 is contiguous.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from search_spaces.launches.operand import Operand

# Bytes per element, by the driver's type names.
ELEMENT_BYTES = {
    "UINT8": 1, "UINT16": 2, "UINT32": 4, "INT32": 4, "UINT64": 8, "INT64": 8, "FLOAT16": 2, "FLOAT32": 4,
    "FLOAT64": 8, "BFLOAT16": 2, "FLOAT32_FTZ": 4, "TFLOAT32": 4, "TFLOAT32_FTZ": 4,
}  # fmt: skip
_ELEMENT_OF = {
    "u8": "UINT8", "u16": "UINT16", "u32": "UINT32", "i32": "INT32", "u64": "UINT64", "i64": "INT64",
    # Elements of types that the driver does not know are copied as bytes.
    "i8": "UINT8", "e4m3": "UINT8", "e5m2": "UINT8", "e2m1x2": "UINT8",
    "f16": "FLOAT16", "f32": "FLOAT32", "f64": "FLOAT64", "bf16": "BFLOAT16",
}  # fmt: skip
INTERLEAVE_BYTES = {"NONE": 0, "16B": 16, "32B": 32}  # bytes of one slice of channels in each interleaved layout
# largest number of bytes of a box along dimension 0, by swizzle; 0 for no limit
SWIZZLE_BYTES = {"NONE": 0, "32B": 32, "64B": 64, "128B": 128}
_BOX_BYTES = 232_448  # maximum bytes of a box: the largest shared memory of a block on sm_90
MOST_BOX = 256  # maximum elements of a box along one dimension
_MOST_PIXELS = 1024


@dataclass(frozen=True)
class BoundingBox:
    """The corners of the bounding box of a tensor map in im2col mode.

    ``lower`` is the offset of the box's first pixel from the tensor's first pixel. ``upper`` is the offset of the box's
    last pixel from the tensor's last pixel. Offsets have all dimensions except channels and images, fastest first.
    """

    lower: tuple[int, ...]
    upper: tuple[int, ...]


@dataclass(frozen=True)
class TensorMap:
    """A tensor map of ``operand``, passed as a ``const __grid_constant__`` parameter of 128 bytes.

    Attributes:
        element: Element type, a key of ELEMENT_BYTES.
        sizes: Number of elements in each dimension.
        strides: Strides in bytes of every dimension except dimension 0.
        box: Elements of a box in each dimension. In im2col mode, the first two are channels per pixel and pixels per
            column.
        element_strides: Traversal stride in elements in each dimension.
        interleave: "16B" or "32B" for the layouts NC/8HWC8 and NC/16HWC16, in which the channels of a pixel form slices
            of 16 or 32 bytes. Dimension 0 of ``sizes`` and ``box`` counts pixels, whose slices are adjacent in memory.
            The second last dimension counts the slices of a pixel. A copy reads only one slice of each pixel, for any
            box (undocumented behaviour of an H100).
        fill: Value of reads outside of the tensor: zeros for "NONE".

    Raises:
        ValueError: The driver would reject the tensor map, or the tensor is larger than its operand. The message names
            the violated requirement.
    """

    name: str
    operand: Operand
    element: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...]
    interleave: Literal["NONE", "16B", "32B"] = "NONE"
    swizzle: Literal["NONE", "32B", "64B", "128B"] = "NONE"
    l2_promotion: Literal["NONE", "L2_64B", "L2_128B", "L2_256B"] = "NONE"
    fill: Literal["NONE", "NAN_REQUEST_ZERO_FMA"] = "NONE"
    im2col: BoundingBox | None = None

    @classmethod
    def dense(
        cls,
        name: str,
        operand: Operand,
        box: tuple[int, ...],
        *,
        swizzle: Literal["NONE", "32B", "64B", "128B"] = "NONE",
        l2_promotion: Literal["NONE", "L2_64B", "L2_128B", "L2_256B"] = "NONE",
    ) -> TensorMap:
        """Return the tensor map of a whole operand, with the operand's dimensions.

        Args:
            name: Name of the kernel's parameter.
            operand: The array.
            box: Extents of a box in the order of ``operand.shape``, slowest first.
            swizzle: Swizzle of a box in shared memory.
            l2_promotion: Granularity of L2 reads.

        Raises:
            ValueError: As for the class; or tensor maps do not support the operand's type.
        """
        element = _ELEMENT_OF.get(operand.dtype.name)
        if element is None:
            raise ValueError(f"tensor map {name}: {operand.dtype.name} is not supported")
        sizes = operand.shape[::-1]
        strides = tuple(math.prod(sizes[:i]) * operand.dtype.bytes for i in range(1, len(sizes)))
        ones = (1,) * len(sizes)
        return cls(name, operand, element, sizes, strides, box[::-1], ones, "NONE", swizzle, l2_promotion)

    @classmethod
    def interleaved(
        cls,
        name: str,
        operand: Operand,
        box: tuple[int, ...],
        layout: Literal["16B", "32B"],
        *,
        swizzle: Literal["NONE", "32B", "64B", "128B"] = "NONE",
    ) -> TensorMap:
        """Return the tensor map of an operand with an interleaved layout.

        Args:
            name: Name of the kernel's parameter.
            operand: The array, with four to six axes: (images, slices, ..., width, channels of a slice). A slice is a
                group of channels that are adjacent in memory.
            box: Extents of a box in the order of ``operand.shape``, without the last axis. The width of a box in bytes
                must be a multiple of 16.
            layout: "16B" or "32B": the channels of a slice have 16 or 32 bytes.
            swizzle: Swizzle of a box in shared memory.

        Raises:
            ValueError: As for ``dense``; or the last axis does not have the 16 or 32 bytes that ``layout`` requires.
        """
        if layout not in INTERLEAVE_BYTES:
            raise ValueError(
                f"tensor map {name}: interleave must be one of {', '.join(INTERLEAVE_BYTES)}, not {layout!r}"
            )
        if len(operand.shape) < 4:
            raise ValueError(
                f"tensor map {name}: an interleaved layout needs 3 to 5 dimensions and a last axis of channels"
            )
        *axes, channels = operand.shape
        if channels * operand.dtype.bytes != INTERLEAVE_BYTES[layout]:
            raise ValueError(
                f"tensor map {name}: interleave {layout} needs a last axis of {INTERLEAVE_BYTES[layout]} bytes, "
                f"not {channels} elements of {operand.dtype.bytes} bytes"
            )
        element = _ELEMENT_OF.get(operand.dtype.name)
        if element is None:
            raise ValueError(f"tensor map {name}: {operand.dtype.name} is not supported")
        sizes = tuple(axes[::-1])
        strides = tuple(math.prod(sizes[:i]) * INTERLEAVE_BYTES[layout] for i in range(1, len(sizes)))
        return cls(name, operand, element, sizes, strides, box[::-1], (1,) * len(sizes), layout, swizzle)

    @classmethod
    def matrices(
        cls, name: str, operand: Operand, box: tuple[int, int], *, swizzle: Literal["NONE", "32B", "64B", "128B"]
    ) -> TensorMap:
        """Return the tensor map of an operand as a stack of matrices: three dimensions, and boxes within one matrix.

        Args:
            name: Name of the kernel's parameter.
            operand: The array; its leading axes are merged into one.
            box: Rows and columns of a box.
            swizzle: Swizzle of a box in shared memory.

        Raises:
            ValueError: As for ``dense``.
        """
        columns = operand.shape[-1]
        rows = operand.shape[-2] if len(operand.shape) > 1 else 1
        whole = Operand(operand.name, operand.role, operand.dtype, (math.prod(operand.shape[:-2]), rows, columns))
        tensor_map = cls.dense(name, whole, (1, *box), swizzle=swizzle)
        sizes = tensor_map.sizes if operand.columns is None else (operand.columns, *tensor_map.sizes[1:])
        return replace(tensor_map, operand=operand, sizes=sizes)

    def __post_init__(self) -> None:
        for reason in self._complaints():
            raise ValueError(f"tensor map {self.name}: {reason}")

    def _complaints(self) -> list[str]:
        rank = len(self.sizes)
        choices = (
            ("element", self.element, tuple(ELEMENT_BYTES)),
            ("interleave", self.interleave, tuple(INTERLEAVE_BYTES)),
            ("swizzle", self.swizzle, tuple(SWIZZLE_BYTES)),
            ("l2_promotion", self.l2_promotion, ("NONE", "L2_64B", "L2_128B", "L2_256B")),
            ("fill", self.fill, ("NONE", "NAN_REQUEST_ZERO_FMA")),
        )
        for field, value, known in choices:
            if value not in known:
                return [f"{field} must be one of {', '.join(known)}, not {value!r}"]
        if (len(self.strides), len(self.box), len(self.element_strides)) != (rank - 1, rank, rank):
            return [f"{rank} sizes need {rank - 1} strides, {rank} box sizes and {rank} element strides"]
        size = ELEMENT_BYTES[self.element]
        inner = self.box[0] * size if rank else 0
        slice_bytes = INTERLEAVE_BYTES[self.interleave]
        unit = max(slice_bytes, 16)
        widest = SWIZZLE_BYTES[self.swizzle]
        reach = self.sizes[0] * (slice_bytes or size) if rank else 0
        reach += sum((n - 1) * stride for n, stride in zip(self.sizes[1:], self.strides, strict=True))
        requirements = (
            (1 <= rank <= 5, f"a tensor map needs 1 to 5 dimensions, not {rank}"),
            (self.interleave == "NONE" or rank >= 3, "an interleaved layout needs 3 to 5 dimensions"),
            (all(1 <= n <= 2**32 for n in self.sizes), f"sizes must be 1 to 2^32, not {self.sizes}"),
            (
                all(0 < s < 2**40 and s % unit == 0 for s in self.strides),
                f"strides must be multiples of {unit} bytes below 2^40, not {self.strides}",
            ),
            (
                self.im2col is not None or all(1 <= n <= MOST_BOX for n in self.box),
                f"box sizes must be 1 to {MOST_BOX}, not {self.box}",
            ),
            *self._requirements_of_pixels(),
            (
                all(1 <= n <= 8 for n in self.element_strides),
                f"element strides must be 1 to 8, not {self.element_strides}",
            ),
            (inner % 16 == 0, f"dimension 0 of the box must be a multiple of 16 bytes, not {inner}"),
            (
                self.interleave != "NONE" or not widest or inner <= widest,
                f"with swizzle {self.swizzle}, dimension 0 of the box must have at most {widest} bytes, not {inner}",
            ),
            (
                self.fill == "NONE" or "FLOAT" in self.element,
                f"fill {self.fill} needs floating-point elements, not {self.element}",
            ),
            (
                size == self.operand.dtype.bytes,
                f"the sizes of {self.element} and {self.operand.dtype.name} differ",
            ),
            (
                self._box_bytes(size) <= _BOX_BYTES,
                f"a box of {self.box} does not fit into shared memory",
            ),
            (
                # Addresses wrap at 2^64. Tensor maps of ragged arrays extend past 2^64 on purpose: addresses of copies
                # wrap into the memory, and the map ends where the next array begins.
                reach <= self.operand.bytes or reach >= 2**64,
                f"the tensor reaches to byte {reach} of {self.operand.name}, which has {self.operand.bytes} bytes",
            ),
        )
        return [reason for holds, reason in requirements if not holds]

    def _box_bytes(self, element: int) -> int:
        """Return the bytes that one copy moves. For an interleaved layout, a copy moves one slice of channels."""
        slice_bytes = INTERLEAVE_BYTES[self.interleave]
        if self.im2col is not None:
            return self.box[1] * (slice_bytes or self.box[0] * element)
        return math.prod((*self.box[:-2], self.box[-1])) * slice_bytes if slice_bytes else math.prod(self.box) * element

    def _requirements_of_pixels(self) -> tuple[tuple[bool, str], ...]:
        if self.im2col is None:
            return ()
        lower, upper = self.im2col.lower, self.im2col.upper
        between = self.sizes[1:-1] if self.interleave == "NONE" else self.sizes[:-2]
        reach = {1: 2**15, 2: 2**7, 3: 2**4}.get(len(between), 0)
        known = len(lower) == len(upper) == len(between) and len(between) >= 1
        return (
            (
                known,
                f"im2col needs 3 to 5 dimensions, and corners with one entry per dimension of pixels, not {lower}",
            ),
            (all(-reach <= n < reach for n in (*lower, *upper)), f"corners must be -{reach} to {reach - 1}"),
            (
                not known or all(a < n + b for a, b, n in zip(lower, upper, between, strict=True)),
                "the bounding box is empty",
            ),
            (1 <= self.box[0] <= MOST_BOX, f"a pixel must have 1 to {MOST_BOX} channels, not {self.box[0]}"),
            (1 <= self.box[1] <= _MOST_PIXELS, f"a column must have 1 to {_MOST_PIXELS} pixels, not {self.box[1]}"),
        )
