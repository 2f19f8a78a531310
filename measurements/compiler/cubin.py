"""Digest and size of the machine instructions in a cubin.

A cubin is a 64-bit little-endian ELF file (System V ABI, chapter 4) whose instructions are in one section per function,
named ``.text.FUNCTION`` (CUDA Binary Utilities, "CUDA Binary Formats"). Other sections are ignored: they contain
compiler versions, so cubins with the same instructions may differ there.
"""

from __future__ import annotations

import hashlib
import struct

from measurements.trials.measurement import MachineCode

_ELF64_LITTLE = b"\x7fELF\x02\x01"
_SECTION_TABLE = struct.Struct("<40xQ10xHHH")  # ELF header: e_shoff, e_shentsize, e_shnum, e_shstrndx
_SECTION = struct.Struct("<I20xQQ24x")  # section header: sh_name, sh_offset, sh_size


def machine_code(cubin: bytes) -> MachineCode | None:
    """Return digest and size of the instructions in ``cubin``; None for other files and cubins without instructions."""
    try:
        sections = _instructions(cubin)
    except (struct.error, ValueError, IndexError):
        return None
    if not any(sections):
        return None
    code = hashlib.sha256(b"".join(sections)).hexdigest()
    return MachineCode(hashlib.sha256(cubin).hexdigest(), code, sum(map(len, sections)))


def _instructions(cubin: bytes) -> list[bytes]:
    if not cubin.startswith(_ELF64_LITTLE):
        raise ValueError("not a 64-bit little-endian ELF file")
    start, size, count, names = _SECTION_TABLE.unpack_from(cubin)
    headers = [_SECTION.unpack_from(cubin, start + i * size) for i in range(count)]
    _, names_at, names_size = headers[names]
    table = cubin[names_at : names_at + names_size]
    instructions = []
    for name, offset, length in headers:
        if table[name:].startswith(b".text"):
            section = cubin[offset : offset + length]
            if len(section) != length:
                raise ValueError("cut short")
            instructions.append(section)
    return instructions
