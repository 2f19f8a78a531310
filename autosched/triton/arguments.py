"""Convert the arguments of a Triton launch to arguments of an emulated launch."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from autosched.triton.storages import Storages, storage_bytes
from measurements.emulator.memory import Memory, StoredAddress
from measurements.emulator.ptx.syntax import Variable
from search_spaces.arrays import Array
from search_spaces.hardware.dtypes import SCALAR_DTYPES, DType
from search_spaces.launches.launch import Argument, BytesArgument
from search_spaces.launches.operand import Operand
from search_spaces.launches.tensor_map import MOST_BOX, TensorMap

_UNSIGNED = {1: "u8", 2: "u16", 4: "u32", 8: "u64"}
_ADDRESS_BYTES = 8
_FLAGGED_BYTES = (
    2**26
)  # a fully defined storage above this size in bytes gets no flags: one per byte would double the memory
# Names of element types and of swizzles, indexed by Triton's codes. The codes of element types are also the codes of
# the PTX instruction tensormap.replace.
_ELEMENTS = (
    "UINT8", "UINT16", "UINT32", "INT32", "UINT64", "INT64", "FLOAT16", "FLOAT32", "FLOAT32_FTZ", "FLOAT64",
    "BFLOAT16", "TFLOAT32", "TFLOAT32_FTZ",
)  # fmt: skip
_SWIZZLES = ("NONE", "32B", "64B", "128B")


class ArgumentMismatch(ValueError):
    """An argument that the kernel or the GPU cannot accept. The message is one line."""


@dataclass
class LaunchArguments:
    """Collects the arguments of one launch; ``pointer``, ``raw`` and ``tensor_map`` are called in parameter order.

    ``arguments``, ``inputs`` and ``memory`` are passed to ``emulate_ptx``; ``tensors`` maps operand names to the
    tensors' storages.
    """

    storages: Storages
    arguments: list[Argument] = field(default_factory=list)
    offsets: dict[int, int] = field(default_factory=dict)
    tensors: dict[str, torch.UntypedStorage] = field(default_factory=dict)
    _operands: dict[int, Operand] = field(default_factory=dict)
    _addresses: list[StoredAddress] = field(default_factory=list)
    _names: set[str] = field(default_factory=set)

    def pointer(self, name: str, value: Any) -> None:
        """Pass a pointer: a tensor, a wrapper of a tensor, an address as a number, or None."""
        if value is None:
            return self.raw(name, b"\0" * _ADDRESS_BYTES)
        tensor = tensor_of(value)
        if tensor is None:  # the argument is a number, or an object that Triton treats as a tensor
            return self._number(name, value.data_ptr() if hasattr(value, "data_ptr") else value)
        if self.storages.host_of(tensor) == "plain":
            raise ArgumentMismatch(f"{name}: Pointer argument cannot be accessed from Triton (cpu tensor?): move it")
        address = int(value.data_ptr())
        storage = tensor.untyped_storage()
        if storage.nbytes() == 0:
            return self.raw(name, b"\0" * _ADDRESS_BYTES)
        operand = self._operand(name, storage, tensor.element_size())
        self.offsets[len(self.arguments)] = address - storage.data_ptr()
        self.arguments.append(operand)

    def raw(self, name: str, data: bytes) -> None:
        """Pass an argument by value, as bytes."""
        self.arguments.append(BytesArgument(self._unique(name), data))

    def tensor_map(self, name: str, descriptor: Any, meta: Mapping[str, Any]) -> None:
        """Pass a host-side tensor descriptor, encoded as specified by ``meta`` of the compiled kernel."""
        base = tensor_of(descriptor.base)
        if base is None:
            raise ArgumentMismatch(
                f"{name}: the tensor descriptor has a base of type {type(descriptor.base).__name__}: create it from "
                "a tensor"
            )
        storage = base.untyped_storage()
        each = int(meta["elem_size"])
        operand = self._operand(name, storage, each)
        sizes = [int(n) for n in descriptor.shape][::-1]
        strides = [int(n) * each for n in descriptor.strides][::-1]
        box = [int(n) for n in meta["block_size"]][::-1]
        if meta.get("fp4_padded") or meta.get("is_im2col"):
            raise ArgumentMismatch(f"{name}: the emulator does not support im2col or padded 4-bit tensor descriptors")
        element = "TFLOAT32" if getattr(descriptor, "round_f32_to_tf32", False) else _ELEMENTS[int(meta["elem_type"])]
        try:
            tensor_map = TensorMap(
                self._unique(f"{name} descriptor"),
                operand,
                element,
                tuple(sizes),
                tuple(strides[1:]),
                tuple(min(n, MOST_BOX) for n in box),
                (1,) * len(sizes),
                swizzle=_SWIZZLES[int(meta["swizzle"])],  # type: ignore[arg-type]
                fill="NAN_REQUEST_ZERO_FMA" if getattr(descriptor, "padding", "zero") == "nan" else "NONE",
            )
        except ValueError as error:
            raise ArgumentMismatch(str(error)) from error
        self.offsets[len(self.arguments)] = int(descriptor.base.data_ptr()) - storage.data_ptr()
        self.arguments.append(tensor_map)

    def inputs(self) -> dict[str, Array]:
        """Return the contents of the arrays before the launch."""
        return {
            o.name: storage_bytes(self.tensors[o.name]).view(o.dtype.storage).reshape(o.shape)
            for o in self._operands.values()
        }

    def memory(self) -> Memory:
        """Return the memory of the launch, including arrays that are only reached through addresses in other arrays."""
        defined = {}
        for name, storage in self.tensors.items():
            flags = self.storages.defined(storage)
            if flags is not None or storage.nbytes() <= _FLAGGED_BYTES:
                defined[name] = np.ones(storage.nbytes(), bool) if flags is None else flags
        return Memory(offsets=self.offsets, defined=defined, addresses=tuple(self._addresses))

    def follow_addresses(self) -> list[Operand]:
        """Add arrays whose addresses are elements of other arrays, as in grouped matmuls."""
        before = len(self._operands)
        for operand in [o for o in self._operands.values() if o.dtype.bytes == _ADDRESS_BYTES]:
            values = storage_bytes(self.tensors[operand.name]).view("<i8")
            for k in range(values.size):
                storage = self.storages.holding(int(values[k])) if values[k] > 2**16 else None
                if storage is not None:
                    target = self._operand(f"{operand.name}[{k}]", storage, 0)
                    offset = int(values[k]) - storage.data_ptr()
                    self._addresses.append(StoredAddress(operand.name, k * _ADDRESS_BYTES, target.name, offset))
        return list(self._operands.values())[before:]

    def _number(self, name: str, value: Any) -> None:
        storage = self.storages.holding(int(value))
        if storage is None:
            return self.raw(name, int(value).to_bytes(_ADDRESS_BYTES, "little", signed=int(value) < 0))
        operand = self._operand(name, storage, 0)
        self.offsets[len(self.arguments)] = int(value) - storage.data_ptr()
        self.arguments.append(operand)

    def _operand(self, name: str, storage: torch.UntypedStorage, each: int) -> Operand:
        if storage.device.type != "cpu":
            raise ArgumentMismatch(
                f"{name} is on {storage.device}: move it to the CPU, where emulated programs keep all tensors"
            )
        known = self._operands.get(storage.data_ptr())
        if known is not None:
            return known
        bytes_ = storage.nbytes()
        dtype = _unsigned(bytes_, each)
        operand = Operand(self._unique(name), "inout", dtype, (bytes_ // dtype.bytes,))
        self._operands[storage.data_ptr()] = operand
        self.tensors[operand.name] = storage
        return operand

    def _unique(self, name: str) -> str:
        plain, k = "_".join(name.split()), 1
        while (unique := plain if k == 1 else f"{plain}#{k}") in self._names:
            k += 1
        self._names.add(unique)
        return unique


def tensor_of(value: Any) -> torch.Tensor | None:
    """Return the tensor that an argument is or wraps (``triton.reinterpret``); None if it is something else."""
    while value is not None and not isinstance(value, torch.Tensor):
        value = getattr(value, "base", None)
    return value


def flattened(names: Sequence[Any], kinds: Sequence[Any], values: Sequence[Any]) -> Iterator[tuple[str, str, Any]]:
    """Yield name, type and value of each argument of the compiled kernel. Omit constants and flatten tuples."""
    for name, kind, value in zip(names, kinds, values, strict=False):
        if isinstance(kind, tuple | list):
            yield from flattened([f"{name}[{k}]" for k in range(len(kind))], kind, tuple(value))
        elif kind != "constexpr":
            yield str(name), str(kind), value


def scalar_bytes(name: str, kind: str, value: Any, parameter: Variable) -> bytes:
    """Return a number as the bytes of its parameter.

    Args:
        name: Name of the parameter, for the error.
        kind: Triton's name of the parameter's type, such as "i32" or "fp32".
        value: The number.
        parameter: The parameter in the PTX, with its size.

    Returns:
        Little-endian bytes.

    Raises:
        ArgumentMismatch: The number does not fit the type.
    """
    size = parameter.bytes
    if kind in ("fp16", "bf16", "fp32", "f32", "fp64"):
        if kind == "bf16" and size == 2:
            return struct.pack("<f", float(value))[2:]
        return struct.pack({2: "<e", 4: "<f", 8: "<d"}[size], float(value))
    number = int(value)
    if not -(1 << 8 * size - 1) <= number < 1 << 8 * size:
        raise ArgumentMismatch(f"{name}: {number} does not fit {kind}")
    return (number % (1 << 8 * size)).to_bytes(size, "little")


def _unsigned(bytes_: int, each: int) -> DType:
    width = next(n for n in (each, 8, 4, 2, 1) if n in _UNSIGNED and bytes_ % n == 0)
    return SCALAR_DTYPES[_UNSIGNED[width]]
