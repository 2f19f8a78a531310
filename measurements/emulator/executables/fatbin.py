"""Extract PTX from a fat binary, which nvcc embeds in programs.

Magic numbers are from fatbinary_section.h; entries have the layout that nvcc 11 to 13 write.
"""

from __future__ import annotations

import importlib
import struct

_CONTAINER = struct.Struct("<IHHQ")  # magic, version, bytes of this header, bytes of all entries
_MAGIC = 0xBA55ED50
# kind, version, header size, payload size, compressed size, unused, minor, major, architecture
_ENTRY = struct.Struct("<HHIQIIHHI")
_FLAGS, _EXPANDED = 40, 56  # offsets in the header of an entry
_PTX, _MACHINE_CODE = 1, 2
_LZ4, _ZSTD = 0x2000, 0x8000


class FatBinaryError(ValueError):
    """The image is not a fat binary, or its PTX cannot be read. The message is one line with the remedy."""


def ptx_texts(image: bytes) -> list[dict[int, str]]:
    """Return the PTX texts of each container by architecture (90 for compute_90).

    An image has one container per separately compiled file. A plain PTX text counts as one container.

    Args:
        image: A fat binary, or PTX.

    Returns:
        One dict per container.

    Raises:
        FatBinaryError: The image is malformed.
    """
    if image.lstrip()[:2] in (b"//", b".v"):
        return [{0: image.rstrip(b"\0").decode(errors="replace")}]
    containers: list[dict[int, str]] = []
    machine_code = False
    at = 0
    while at + _CONTAINER.size <= len(image):
        magic, _, header, size = _CONTAINER.unpack_from(image, at)
        if magic != _MAGIC:
            break
        entry, end = at + header, at + header + size
        texts: dict[int, str] = {}
        while entry + _ENTRY.size <= end:
            kind, _, own, payload, compressed, *_, architecture = _ENTRY.unpack_from(image, entry)
            if not own:
                break
            if kind == _PTX:
                texts[architecture] = _text(
                    image[entry : entry + own], image[entry + own : entry + own + payload], compressed
                )
            machine_code = machine_code or kind == _MACHINE_CODE
            entry += own + payload
        if texts:
            containers.append(texts)
        at = (end + 7) // 8 * 8
    if not containers and machine_code:
        raise FatBinaryError(
            "has only machine code, but the emulator needs PTX: compile with -gencode arch=compute_90,code=compute_90"
        )
    if not containers:
        raise FatBinaryError("is neither a fat binary nor PTX")
    return containers


def _text(header: bytes, payload: bytes, compressed: int) -> str:
    (flags,) = struct.unpack_from("<Q", header, _FLAGS)
    expanded = struct.unpack_from("<Q", header, _EXPANDED)[0] if len(header) >= _EXPANDED + 8 else 0
    data = payload[:compressed] if compressed else payload
    if flags & _ZSTD:
        data = _library("zstandard").ZstdDecompressor().decompress(data, max_output_size=expanded)
    elif flags & _LZ4:
        data = _library("lz4.block").decompress(data, uncompressed_size=expanded)
    return bytes(data).rstrip(b"\0").decode(errors="replace")


def _library(name: str):  # type: ignore[no-untyped-def]
    try:
        return importlib.import_module(name)
    except ImportError:
        raise FatBinaryError(
            f"has compressed PTX: pip install {name.partition('.')[0]}, or compile with --no-compress"
        ) from None
