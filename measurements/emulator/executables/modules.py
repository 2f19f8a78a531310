"""Modules of an executable: their PTX, variables and kernels."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from measurements.emulator.executables.device_functions import with_device_functions
from measurements.emulator.executables.fatbin import FatBinaryError, ptx_texts
from measurements.emulator.executables.link import link
from measurements.emulator.ptx.build import CompiledBytecode, ptx_to_bytecode
from measurements.emulator.ptx.bytecode import FUNCTION_BASE
from measurements.emulator.ptx.parser import parse
from measurements.emulator.ptx.syntax import Module, Number, Symbol, Variable
from search_spaces.hardware.devices import Device

_MAX_THREADS = 1024
_STATIC_SHARED = re.compile(r"^static_shared (\d+)", re.M)
_USES_HEAP = re.compile(r"\bheap\.(?:malloc|free)\b")


@dataclass(eq=False)
class PtxModule:
    """A module of the program.

    Attributes:
        text: PTX of the module.
        module: The parsed PTX.
        bytecode: Bytecode of kernels that have been translated, by name.
        heap_kernels: Names of the kernels that use the device heap.
    """

    text: str
    module: Module
    bytecode: dict[str, CompiledBytecode] = field(default_factory=dict)
    heap_kernels: set[str] = field(default_factory=set)

    @classmethod
    def from_image(cls, image: bytes, device: Device) -> Self:
        """Parse the module in a fat binary.

        Args:
            image: A fat binary, or PTX.
            device: Emulated GPU. The module's PTX for this GPU is used.

        Returns:
            The module.

        Raises:
            FatBinaryError: The image has no PTX for the device.
            PtxError: The PTX is invalid.
        """
        text = link(with_device_functions(_fitting(ptx_texts(image), device)))
        return cls(text, parse(text))

    def variable_lines(self) -> list[str]:
        """Return the global and constant variables, and the addresses in their initial values, one per line."""
        lines = []
        numbers = {name: FUNCTION_BASE + number for number, name in enumerate(self.module.functions)}
        for v in self.module.variables:
            if v.space not in ("global", "const"):
                continue
            data = _initial_bytes(v)
            functions = {
                k: numbers[initial.name] + initial.offset
                for k, initial in enumerate(v.initial)
                if isinstance(initial, Symbol) and initial.name in numbers
            }
            for k, address in functions.items():
                data[k * 8 : k * 8 + 8] = address.to_bytes(8, "little")
            # Virtual function tables are included. The host does not register them, but objects in device memory point
            # to them and may outlive a launch.
            kind = "table" if functions else "variable"
            lines.append(f"{kind} {v.name} {v.bytes} {data.hex() if v.initial else '-'}")
            for k, initial in enumerate(v.initial):
                if isinstance(initial, Symbol) and k not in functions:
                    lines.append(f"relocation {v.name} {k * v.element_bytes} {initial.name} {initial.offset}")
        return lines

    def has_kernel(self, name: str) -> bool:
        """Return True if the module contains a kernel called ``name``."""
        function = self.module.functions.get(name)
        return function is not None and function.is_kernel

    def kernel_facts(self, name: str, device: Device) -> tuple[int, ...]:
        """Translate a kernel and return its facts.

        Args:
            name: Mangled name of a kernel of the module.
            device: Emulated GPU.

        Returns:
            Maximum number of threads per block, bytes of static shared memory, bytes of local memory (always reported
            as 0), 1 if the kernel uses the heap (else 0), the kernel's target architecture (90 for sm_90), and the
            bytes of each parameter.

        Raises:
            KernelCompileError: The kernel cannot be emulated.
        """
        function = self.module.functions[name]
        compiled = self.bytecode[name] = ptx_to_bytecode(self.text, name, self.module)
        sizes = function.most_threads or function.exact_threads
        max_threads = min(math.prod(sizes), _MAX_THREADS) if sizes else _MAX_THREADS
        text = compiled.path.read_text(errors="replace")
        static_shared = _STATIC_SHARED.search(text)
        if _USES_HEAP.search(text) is not None:
            self.heap_kernels.add(name)
        target = int("".join(c for c in self.module.target if c.isdecimal()) or device.sm)
        return (
            max_threads, int(static_shared[1]) if static_shared else 0, 0, int(name in self.heap_kernels), target,
            *(p.bytes for p in function.parameters),
        )  # fmt: skip


def _initial_bytes(v: Variable) -> bytearray:
    """Return the initial bytes of a variable, with zeros in place of addresses."""
    data = bytearray(v.bytes)
    for k, initial in enumerate(v.initial):
        if not isinstance(initial, Number):
            continue
        bits = initial.bits
        if initial.kind == "d" and v.element_bytes == 4:
            bits = int.from_bytes(struct.pack("<f", struct.unpack("<d", bits.to_bytes(8, "little"))[0]), "little")
        at = k * v.element_bytes
        data[at : at + v.element_bytes] = (bits & (1 << 8 * v.element_bytes) - 1).to_bytes(v.element_bytes, "little")
    return data


def _fitting(containers: Sequence[Mapping[int, str]], device: Device) -> list[str]:
    """Return the PTX of each container for the newest architecture that the device can execute.

    Containers without such PTX are skipped. For example, libcudadevrt only has PTX for the newest GPUs.

    Args:
        containers: PTX texts by architecture.
        device: Emulated GPU.

    Returns:
        One text for each container that was not skipped.

    Raises:
        FatBinaryError: No container has PTX for the device.
    """
    fitting = [texts[max(known)] for texts in containers if (known := [a for a in texts if a <= device.sm])]
    if not fitting:
        oldest = min(a for texts in containers for a in texts)
        raise FatBinaryError(
            f"has PTX for sm_{oldest} and newer, but the emulated device is {device.arch}: choose another --device"
        )
    return fitting
