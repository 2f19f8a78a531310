"""Convert the arguments of a launch to device pointers, bytes, and memory regions of overlapping arrays."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from autosched.verify.emulate.kernel_signature import SignatureParameter
from autosched.verify.emulate.launch_values import Im2col, Struct, TensorMapOf, Texture, arrays_in
from measurements.emulator import Memory, StoredAddress
from measurements.emulator.memory import FIRST_HANDLE, Inside, TextureObject
from measurements.emulator.ptx.syntax import Variable
from search_spaces.arrays import Array
from search_spaces.hardware.dtypes import SCALAR_DTYPES, DType
from search_spaces.launches.launch import Argument, BytesArgument
from search_spaces.launches.operand import Operand
from search_spaces.launches.tensor_map import BoundingBox, TensorMap

_UNSIGNED = {1: "u8", 2: "u16", 4: "u32", 8: "u64"}
_POINTER_BYTES = 8


@dataclass(eq=False)
class _Region:
    """Memory of overlapping host arrays, passed as one array of the launch. ``start`` is its host address."""

    start: int
    end: int
    members: list[Array]
    operand: Operand | None = None


@dataclass(eq=False)
class LaunchMemory:
    """Result of ``pass_arguments``: ``arguments``, ``inputs`` by operand name, and ``memory``."""

    arguments: tuple[Argument, ...]
    inputs: dict[str, Array]
    memory: Memory
    _locations: dict[int, tuple[str, int, Array]] = field(default_factory=dict)  # keys are id(array)

    def names_of(self, values: Sequence[Any]) -> frozenset[str]:
        """Return the names of the operands to which these arguments point."""
        locations = (self._locations.get(id(a)) for value in values for a in arrays_in(value))
        return frozenset(entry[0] for entry in locations if entry is not None)

    def result(self, value: Any, outputs: Mapping[str, Array]) -> Any:
        """Return an argument's contents after the launch: an array, a tuple for a list or a struct, or None."""
        if isinstance(value, np.ndarray):
            entry = self._locations.get(id(value))
            if entry is None or entry[0] not in outputs:
                return None
            name, offset, like = entry
            flat = outputs[name].reshape(-1).view(np.uint8)[offset : offset + like.nbytes]
            return flat.view(like.dtype).reshape(like.shape) if like.nbytes else np.empty_like(like)
        if isinstance(value, TensorMapOf | Texture):
            return self.result(value.array, outputs)
        if isinstance(value, Struct | list | tuple):
            fields = value.fields if isinstance(value, Struct) else value
            return tuple(self.result(v, outputs) for v in fields)
        return None


def pass_arguments(
    parameters: Sequence[Variable],
    signature: Sequence[SignatureParameter],
    arguments: Sequence[Any],
    outputs: Sequence[int],
    symbols: Mapping[str, Array],
) -> LaunchMemory:
    """Lay out the arguments of a launch in memory.

    Args:
        parameters: Parameters of the kernel in the PTX.
        signature: Their types in the source or the mangled name; may be unknown.
        arguments: Arrays, numbers, structs and so on, one for each parameter.
        outputs: Positions of arrays without contents before the launch.
        symbols: Contents of module variables, by their names in the PTX.

    Returns:
        The operands of the launch, their contents, and the positions of pointers in them.

    Raises:
        ValueError: An argument does not fit its parameter; the message names both.
    """
    return _Passing(parameters, signature, arguments, outputs, symbols).done()


class _Passing:
    def __init__(
        self,
        parameters: Sequence[Variable],
        signature: Sequence[SignatureParameter],
        arguments: Sequence[Any],
        outputs: Sequence[int],
        symbols: Mapping[str, Array],
    ) -> None:
        self.parameters, self.signature, self.arguments, self.symbols = parameters, signature, arguments, symbols
        names = [p.name for p in signature]
        named = all(names) and len(set(names)) == len(names)
        self.names = [name if named else f"argument_{k}" for k, name in enumerate(names)]
        self.used_names = set(self.names)
        self.filled = {id(a) for k in outputs if 0 <= k < len(arguments) for a in arrays_in(arguments[k])}
        self.inputs: dict[str, Array] = {}
        self.extra_operands: list[Operand] = []
        self.offsets: dict[int, int] = {}
        self.addresses: list[StoredAddress] = []
        self.inside: list[Inside] = []
        self.textures: list[TextureObject] = []
        self.regions = self.all_regions()

    # Memory ---------------------------------------------------------------------------------------------------------

    def all_regions(self) -> dict[int, _Region]:
        """Return the region of each array, keyed by ``id(array)``. Arrays that overlap on the host share a region."""
        apart: list[_Region] = []
        for array in {id(a): a for value in self.arguments for a in arrays_in(value)}.values():
            start = array.__array_interface__["data"][0] if array.flags.c_contiguous and array.nbytes else -id(array)
            apart.append(_Region(start, start + max(array.nbytes, 1), [array]))
        apart.sort(key=lambda r: r.start)
        joined: list[_Region] = []
        for region in apart:
            if joined and region.start < joined[-1].end:
                joined[-1].members += region.members
                joined[-1].end = max(joined[-1].end, region.end)
            else:
                joined.append(region)
        return {id(a): region for region in joined for a in region.members}

    @staticmethod
    def offset_of(array: Array, region: _Region) -> int:
        """Return the offset of an array in its region, in bytes."""
        return int(array.__array_interface__["data"][0]) - region.start if len(region.members) > 1 else 0

    def operand(self, array: Array, name: str) -> tuple[Operand, int]:
        """Return the operand of the launch that contains ``array``, and the byte offset of ``array`` in it."""
        region = self.regions[id(array)]
        offset = self.offset_of(array, region)
        if region.operand is None:
            each = min(_unsigned_bytes(a.dtype.itemsize) for a in region.members)
            data = np.zeros(region.end - region.start if region.members[0].nbytes else 0, np.uint8)
            for a in region.members:
                at = self.offset_of(a, region)
                data[at : at + a.nbytes] = np.ascontiguousarray(a).reshape(-1).view(np.uint8) if a.nbytes else 0
            if data.size % each:
                each = 1
            values = data.view(SCALAR_DTYPES[_UNSIGNED[each]].storage)
            filled = np.zeros(data.size, bool)
            for a in region.members:
                if id(a) in self.filled:
                    at = self.offset_of(a, region)
                    filled[at : at + a.nbytes] = True
            # The kernel fills only part of the region: the remaining elements keep their input values.
            role = "output" if filled.all() and any(id(a) in self.filled for a in region.members) else "inout"
            dtype = SCALAR_DTYPES[_UNSIGNED[each]]
            region.operand = Operand(name, role, dtype, values.shape)  # type: ignore[arg-type]
            if role == "inout":
                self.inputs[name] = values
        return region.operand, offset

    def element(self, name: str, array: Array) -> DType:
        dtype = SCALAR_DTYPES.get(name)
        if dtype is None or dtype.bytes != array.dtype.itemsize:
            raise ValueError(f"a tensor map of type {name} needs an array of this type, not of {array.dtype.name}")
        return dtype

    def extra_operand(self, array: Array, name: str) -> tuple[str, int]:
        """Register an operand that is not an argument, and return it."""
        operand, offset = self.operand(array, self.fresh(name) if self.regions[id(array)].operand is None else name)
        self.note_extra_operand(operand)
        return operand.name, offset

    def note_extra_operand(self, operand: Operand) -> None:
        if operand not in self.extra_operands:
            self.extra_operands.append(operand)

    def fresh(self, name: str) -> str:
        name = "".join(name.split())
        while name in self.used_names:
            name += "_"
        self.used_names.add(name)
        return name

    # Arguments --------------------------------------------------------------------------------------------------------

    def done(self) -> LaunchMemory:
        passed = tuple(
            self.argument(k, p, v) for k, (p, v) in enumerate(zip(self.parameters, self.arguments, strict=True))
        )
        direct = {a for a in passed if isinstance(a, Operand)} | {a.operand for a in passed if isinstance(a, TensorMap)}
        bound = {}
        for symbol, content in self.symbols.items():
            each = _unsigned_bytes(content.dtype.itemsize)
            data = np.ascontiguousarray(content).reshape(-1).view(SCALAR_DTYPES[_UNSIGNED[each]].storage)
            name = self.fresh(f"symbol_{symbol}")
            self.note_extra_operand(Operand(name, "inout", SCALAR_DTYPES[_UNSIGNED[each]], data.shape))
            self.inputs[name] = data
            bound[symbol] = name
        memory = Memory(
            offsets=self.offsets,
            addresses=tuple(self.addresses),
            extra_operands=tuple(o for o in self.extra_operands if o not in direct),
            inside=tuple(self.inside),
            symbols=bound,
            textures=tuple(self.textures),
        )
        locations = {}
        for identity, region in self.regions.items():
            if region.operand is None:
                continue
            array = next(a for a in region.members if id(a) == identity)
            locations[identity] = (region.operand.name, self.offset_of(array, region), array)
        return LaunchMemory(passed, self.inputs, memory, locations)

    def shown(self, k: int) -> str:
        """Return the text by which messages refer to an argument."""
        name = self.signature[k].name
        return f"argument {k} ({name})" if name else f"argument {k}"

    def argument(self, k: int, parameter: Variable, value: Any) -> Argument:
        name = self.names[k]
        if isinstance(value, np.ndarray):
            if parameter.bytes != _POINTER_BYTES:
                raise ValueError(
                    f"{self.shown(k)} is an array, but its parameter has {parameter.bytes} bytes: pass a number"
                )
            if refused := self.signature[k].refuses(value):
                raise ValueError(f"{self.shown(k)} {refused}")
            operand, offset = self.operand(value, name)
            if offset:
                self.offsets[k] = offset
            return operand
        if isinstance(value, TensorMapOf):
            return self.tensor_map(k, parameter, value)
        if isinstance(value, Texture):
            return self.by_value(k, parameter, self.texture(value, name).to_bytes(8, "little"))
        if isinstance(value, Struct):
            return self.by_value(k, parameter, self.struct(k, value, 0, name))
        if isinstance(value, list | tuple):
            return self.table(k, parameter, value)
        return BytesArgument(name, self.number(k, parameter, value))

    def by_value(self, k: int, parameter: Variable, data: bytes) -> BytesArgument:
        if len(data) != parameter.bytes:
            raise ValueError(f"{self.shown(k)} has {len(data)} bytes, but its parameter has {parameter.bytes}")
        return BytesArgument(self.names[k], data)

    def table(self, k: int, parameter: Variable, values: Sequence[Any]) -> Argument:
        """Return the operand for an array of pointers."""
        if parameter.bytes != _POINTER_BYTES or not all(v is None or isinstance(v, np.ndarray) for v in values):
            raise ValueError(
                f"{self.shown(k)}: a list may only contain arrays and None (it becomes an array of pointers); use "
                "Struct(...) for a struct"
            )
        name = self.names[k]
        table = Operand(name, "inout", SCALAR_DTYPES["u64"], (len(values),))
        self.inputs[name] = np.zeros(len(values), np.uint64)
        for n, value in enumerate(values):
            if value is not None:
                target, offset = self.extra_operand(value, f"{name}[{n}]")
                self.addresses.append(StoredAddress(name, _POINTER_BYTES * n, target, offset))
        return table

    def struct(self, k: int, struct: Struct, start: int, name: str) -> bytes:
        """Return the bytes of a struct, padded to its alignment.

        Pointers are recorded at their offsets from ``start``.
        """
        data, alignment = bytearray(), 1
        for n, value in enumerate(struct.fields):
            own = _alignment(k, value)
            alignment = max(alignment, own)
            data += bytes(-len(data) % own)
            at = start + len(data)
            if isinstance(value, np.ndarray):
                target, offset = self.extra_operand(value, f"{name}.{n}")
                self.inside.append(Inside(k, at, target, offset))
                data += bytes(_POINTER_BYTES)
            elif value is None:
                data += bytes(_POINTER_BYTES)
            elif isinstance(value, Struct):
                data += self.struct(k, value, at, f"{name}.{n}")
            elif isinstance(value, Texture):
                data += self.texture(value, f"{name}.{n}").to_bytes(8, "little")
            else:
                data += value.tobytes() if isinstance(value, np.generic) else bytes(value)
        return bytes(data) + bytes(-len(data) % alignment)

    def tensor_map(self, k: int, parameter: Variable, value: TensorMapOf) -> TensorMap:
        if parameter.bytes != 128:
            raise ValueError(f"{self.shown(k)} is a tensor map, but its parameter has {parameter.bytes} bytes, not 128")
        array, name = value.array, self.names[k]
        operand, offset = self.operand(array, self.fresh(f"{name}.array"))
        if offset:
            self.offsets[k] = offset
        element = self.element(value.dtype, array) if value.dtype else _dtype_of(array)
        # The tensor map has the array's shape and type, and points into the memory of the region.
        seen = Operand(operand.name, operand.role, element, array.shape, operand.zeroed)
        dense = _of_pixels(name, seen, value, value.im2col) if value.im2col else _of_box(name, seen, value, value.box)
        if operand.dtype.bytes != element.bytes:
            raise ValueError(
                f"{self.shown(k)}: the array of this tensor map is also passed with elements of {operand.dtype.bytes} "
                f"bytes: use one element size"
            )
        fields = {f: getattr(dense, f) for f in dense.__dataclass_fields__}
        return TensorMap(**fields | {"operand": operand})

    def texture(self, value: Texture, name: str) -> int:
        """Return the handle of a texture or surface object for an array."""
        target, offset = self.extra_operand(value.array, f"{name}.array")
        shape = list(value.array.shape)
        if value.channels not in (1, 2, 4) or (value.channels > 1 and (not shape or shape.pop() != value.channels)):
            raise ValueError(
                "a texture must have 1, 2 or 4 channels, and 2 or 4 channels must be the array's last dimension; "
                f"got {value.channels} channels"
            )
        layers = shape.pop(0) if value.layered else 1
        kind = value.array.dtype.kind
        if not 1 <= len(shape) <= (2 if value.layered else 3) or kind not in "fiu" or value.array.dtype.itemsize > 4:
            raise ValueError(
                "a texture must have 1 to 3 dimensions (at most 2 if layered), and its elements must be floats or "
                "integers of at most 32 bits"
            )
        sizes = [*reversed(shape), 1, 1]
        texel = value.channels * value.array.dtype.itemsize
        extent = (sizes[0], sizes[1], layers if value.layered else sizes[2])
        handle = FIRST_HANDLE + len(self.textures)
        self.textures.append(
            TextureObject(
                handle=handle, array=target, offset=offset, dimensions=len(shape), extent=extent,
                pitch=extent[0] * texel, slice=extent[0] * extent[1] * texel, channels=value.channels,
                channel_bytes=value.array.dtype.itemsize, kind=kind, layered=value.layered,
                normalized_read=value.normalized_read, linear=value.filter == "linear",
                normalized_coordinates=value.normalized_coordinates, modes=(value.mode,) * 3, border=value.border,
            )
        )  # fmt: skip
        return handle

    def number(self, k: int, parameter: Variable, value: Any) -> bytes:
        """Convert a number or a struct to the bytes of its kernel parameter."""
        if value is None:
            if parameter.bytes != _POINTER_BYTES:
                raise ValueError(
                    f"{self.shown(k)} is None, but its parameter of {parameter.bytes} bytes is not a pointer: pass a "
                    "number"
                )
            return bytes(_POINTER_BYTES)
        if isinstance(value, bytes | bytearray | np.void):
            data = value.tobytes() if isinstance(value, np.void) else bytes(value)
            if len(data) != parameter.bytes:
                raise ValueError(f"{self.shown(k)} has {len(data)} bytes, but its parameter has {parameter.bytes}")
            return data
        if isinstance(value, np.generic):
            is_float = value.dtype.kind == "f"
            if value.nbytes == parameter.bytes and not (_is_integer(parameter) if is_float else _is_float(parameter)):
                return value.tobytes()
            value = value.item()
        if isinstance(value, float) and parameter.bytes in (2, 4, 8):
            if _is_integer(parameter):
                raise ValueError(
                    f"{self.shown(k)} is the float {value!r}, but its parameter is an integer: pass an int"
                )
            return self.float_bytes(k, parameter, value)
        if isinstance(value, int):
            if _is_float(parameter):
                return self.float_bytes(k, parameter, float(value))
            try:
                return value.to_bytes(parameter.bytes, "little", signed=value < 0)
            except OverflowError:
                pass
        raise ValueError(f"{self.shown(k)}: {value!r} does not fit a parameter of {parameter.bytes} bytes")

    def float_bytes(self, k: int, parameter: Variable, value: float) -> bytes:
        if self.signature[k].is_bfloat16:
            return np.ascontiguousarray(SCALAR_DTYPES["bf16"].store(np.asarray([value]))).tobytes()
        with np.errstate(over="ignore"):
            return np.array(value, dtype=f"f{parameter.bytes}").tobytes()


def _is_float(parameter: Variable) -> bool:
    return parameter.type in ("f32", "f64") and parameter.bytes == parameter.element_bytes


def _is_integer(parameter: Variable) -> bool:
    """Return True if PTX declares an integer parameter (as CUDA's compilers do) rather than one of untyped bits."""
    return parameter.type[0] in "us" and parameter.bytes == parameter.element_bytes


def _unsigned_bytes(size: int) -> int:
    return next(n for n in (8, 4, 2, 1) if size % n == 0 or n == 1)


def _alignment(k: int, value: Any) -> int:
    if value is None or isinstance(value, np.ndarray | Texture):
        return _POINTER_BYTES
    if isinstance(value, Struct):
        return max((_alignment(k, v) for v in value.fields), default=1)
    if isinstance(value, np.void):
        return int(value.dtype.alignment)
    if isinstance(value, np.generic):
        return int(value.dtype.itemsize)
    if isinstance(value, bytes | bytearray):
        return 1
    raise ValueError(
        f"argument {k}: {value!r} in a struct has no C type: use np.int32(...), np.float32(...), an array, None or "
        f"bytes"
    )


def _dtype_of(array: Array) -> DType:
    names = {f"{'iuf'['iuf'.index(k)]}{8 * n}": (k, n) for k in "iuf" for n in (1, 2, 4, 8)}
    dtype = next((name for name, (k, n) in names.items() if (array.dtype.kind, array.dtype.itemsize) == (k, n)), "")
    if dtype not in SCALAR_DTYPES:
        raise ValueError(f'a tensor map of {array.dtype.name} needs an element type: pass for example dtype="bf16"')
    return SCALAR_DTYPES[dtype]


def size_of(size: Any) -> tuple[int, int, int]:
    """Return a grid or a block as three sizes. Raises ValueError unless one to three sizes are passed."""
    sizes: tuple[int, ...]
    try:
        sizes = (operator.index(size),)
    except TypeError:
        sizes = tuple(operator.index(n) for n in size)
    if not 1 <= len(sizes) <= 3:
        raise ValueError(f"a grid or a block has one to three sizes, not {sizes}")
    x, y, z = (*sizes, 1, 1)[:3]
    return x, y, z


def _of_box(name: str, operand: Operand, value: TensorMapOf, box: tuple[int, ...]) -> TensorMap:
    """Check the box of a tensor map. Raise ValueError if it is invalid."""
    if value.interleave == "NONE":
        return TensorMap.dense(name, operand, box, swizzle=value.swizzle)
    return TensorMap.interleaved(name, operand, box, value.interleave, swizzle=value.swizzle)


def _of_pixels(name: str, operand: Operand, value: TensorMapOf, im2col: Im2col) -> TensorMap:
    """Check the box of pixels of an im2col tensor map. Raise ValueError if it is invalid."""
    interleaved = value.interleave != "NONE"
    ones = (1,) * (len(operand.shape) - 1 - interleaved)
    steps = (im2col.strides or ones[1:])[::-1]
    plain = _of_box(name, operand, value, (*ones, im2col.channels))
    return replace(
        plain,
        box=(im2col.channels, im2col.pixels, *ones)[: len(ones) + 1],
        element_strides=(*steps, 1, 1) if interleaved else (1, *steps, 1),
        im2col=BoundingBox(im2col.lower[::-1], im2col.upper[::-1]),
    )
