"""Read the resources of a cubin's kernels (registers and local memory) without a driver."""

from __future__ import annotations

import struct
from dataclasses import dataclass

# Codes in the section .nv.info: a form of attributes, and two attributes of this form. The data of such an attribute
# are a symbol and a value, of four bytes each (cuobjdump -elf prints the names of attributes).
_FORMAT_SIZED = 4
_FRAME_SIZE, _REGISTERS = 0x11, 0x2F
_SECTION = struct.Struct("<IIQQQQIIQQ")


@dataclass(frozen=True)
class CubinResources:
    """Resources per thread, as the maximum over a cubin's kernels."""

    registers: int
    local_bytes: int


def cubin_resources(cubin: bytes) -> CubinResources | None:
    """Return the resources of a cubin; None if the bytes are not a cubin, or the cubin does not state its resources."""
    values: dict[int, list[int]] = {}
    try:
        for attribute, value in _attributes(_section(cubin, ".nv.info")):
            values.setdefault(attribute, []).append(value)
    except (struct.error, IndexError, ValueError):
        return None
    if _REGISTERS not in values:
        return None
    return CubinResources(max(values[_REGISTERS]), max(values.get(_FRAME_SIZE, [0])))


def _section(elf: bytes, name: str) -> bytes:
    if elf[:4] != b"\x7fELF":
        raise ValueError("no ELF file")
    (start,) = struct.unpack_from("<Q", elf, 0x28)
    size, count, names = struct.unpack_from("<HHH", elf, 0x3A)
    headers = [_SECTION.unpack_from(elf, start + k * size) for k in range(count)]
    texts = elf[headers[names][4] :][: headers[names][5]]
    for header in headers:
        if texts[header[0] :].split(b"\0", 1)[0] == name.encode():
            return elf[header[4] :][: header[5]]
    raise ValueError(f"no section {name}")


def _attributes(info: bytes) -> list[tuple[int, int]]:
    attributes, at = [], 0
    while at + 4 <= len(info):
        form, attribute, size = struct.unpack_from("<BBH", info, at)
        at += 4
        if form != _FORMAT_SIZED:
            continue  # no data follows: the attribute's value is in the header
        if attribute in (_FRAME_SIZE, _REGISTERS):
            attributes.append((attribute, struct.unpack_from("<II", info, at)[1]))
        at += size
    return attributes
