"""What an emulated launch finds in memory beyond whole arrays: pointers into them, and bytes that hold no value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from search_spaces.templates.kernel import Launch, Scalar
from search_spaces.templates.tensor_map import TensorMap

Flags = npt.NDArray[np.bool_]
_ADDRESS_BYTES = 8


@dataclass(frozen=True)
class Address:
    """Eight bytes inside an array that are the address of a byte of another array.

    ``array`` and ``target`` are names of operands; ``at`` and ``offset`` count bytes from their first. The host's bytes
    that stand there are put back after the launch, unless the kernel has overwritten them.
    """

    array: str
    at: int
    target: str
    offset: int = 0


@dataclass(frozen=True, eq=False)
class Memory:
    """Raises ValueError from ``check`` for what does not fit the launch.

    Args:
        offsets: by the position of a pointer or a tensor map among the arguments, the bytes from the first of its array
            to where it points.
        defined: by the name of an array of role inout, a flag for each byte: whether it holds a value. To read another
            one before it is written is a finding, as of an output. ``Emulation.defined`` and ``Emulation.written`` have
            the flags after the launch.
        addresses: pointers that lie in arrays.
    """

    offsets: Mapping[int, int] = field(default_factory=dict)
    defined: Mapping[str, Flags] = field(default_factory=dict)
    addresses: tuple[Address, ...] = ()

    def check(self, launch: Launch) -> None:
        operands = {o.name: o for o in launch.operands}
        for position, offset in self.offsets.items():
            if not 0 <= position < len(launch.arguments) or isinstance(launch.arguments[position], Scalar):
                raise ValueError(f"offsets: argument {position} is no pointer and no tensor map")
            argument = launch.arguments[position]
            operand = argument.operand if isinstance(argument, TensorMap) else operands[argument.name]
            if not 0 <= offset <= operand.bytes:
                raise ValueError(f"offsets: byte {offset} is outside {operand.name}, which has {operand.bytes}")
        for name, flags in self.defined.items():
            if name not in operands or operands[name].role != "inout":
                raise ValueError(f"defined: {name} is no array of role inout")
            if flags.dtype != np.bool_ or flags.shape != (operands[name].bytes,):
                raise ValueError(f"defined: {name} needs {operands[name].bytes} flags, one a byte")
        for a in self.addresses:
            if a.array not in operands or a.target not in operands:
                raise ValueError(f"addresses: {a.array} and {a.target} must both be arrays of the launch")
            if not 0 <= a.at <= operands[a.array].bytes - _ADDRESS_BYTES:
                raise ValueError(f"addresses: byte {a.at} of {a.array} is no place for an address")
            if not 0 <= a.offset <= operands[a.target].bytes:
                raise ValueError(f"addresses: byte {a.offset} is outside {a.target}")


PLAIN_MEMORY = Memory()
