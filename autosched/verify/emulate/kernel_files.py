"""Recognition of kernel files by their contents, and extraction of the PTX that the emulator executes.

PTX text and CUDA source are used unchanged. PTX is extracted from binary files: fat binaries, programs and object files
usually contain it, and so do cuTile's cubins. Python files are recognised by their imports.
"""

from __future__ import annotations

import ast
import importlib.util
import re
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from measurements.emulator.executables.fatbin import FatBinaryError, ptx_texts
from measurements.emulator.executables.link import link
from measurements.files.bounded import read_bounded
from measurements.files.text import one_line

_ELF = b"\x7fELF\x02\x01"  # first bytes of a 64-bit little-endian ELF file
_FATBIN = struct.pack("<I", 0xBA55ED50)
_ARCHIVE = b"!<arch>\n"
_CUDA_MACHINE = 190  # value of e_machine for CUDA files (EM_CUDA)
# fields of the ELF header: e_machine, e_shoff, e_shentsize, e_shnum, e_shstrndx
_HEADER = struct.Struct("<18xH20xQ10xHHH")
_SECTION = struct.Struct("<I20xQQ24x")  # fields of a section header: sh_name, sh_offset, sh_size
_TEXT_SECTION = ".nv_debug_ptx_txt"
_FATBIN_SECTIONS = (".nv_fatbin", "__nv_relfatbin", ".nvFatBinSegment")
_MOST_BYTES = 1 << 28  # maximum bytes of a binary file
_MOST_SOURCE = 1 << 24  # maximum bytes of a Python file
_HEAD = 4096  # number of first bytes that are checked to distinguish text from binary files
_INTERMEDIATE = ".nv_intermediate_source_section"
_TILELANG_HEADERS = "<tl_templates/"
_LANGUAGE = re.compile(r"^\.language\s+\d+\s*$", re.MULTILINE)


class NoKernelFile(ValueError):
    """A file that cannot be emulated. The message is one line with the remedy."""


@dataclass(frozen=True)
class FrontEnd:
    """A Python package for writing kernels.

    Programs written with the package import ``modules``. ``instead`` is the remedy if these programs cannot be verified
    directly. For Triton, whose programs can be verified directly, it is "".
    """

    name: str
    modules: tuple[str, ...]
    instead: str = ""

    @property
    def refusal(self) -> str:
        """Return the error message, without the file's name, for a file with kernels of this package."""
        return f"holds kernels of {self.name}: {self.instead}"


# The most specific packages come first, because a program of one package may import another: CuTe programs may import
# Triton.
FRONT_ENDS = (
    FrontEnd(
        "CuTe DSL",
        ("cutlass.cute", "cutlass"),
        "write the attribute __ptx__ of the result of cute.compile[cute.KeepPTX()] to a file, and verify that file",
    ),
    FrontEnd("cuTile", ("cuda.tile",), "write a cubin with cuda.tile.compilation.export_kernel, and verify that file"),
    FrontEnd("TileLang", ("tilelang",), "write tilelang.lower(...).kernel_source to a .cu file, and verify that file"),
    FrontEnd(
        "numba-cuda",
        ("numba.cuda", "numba"),
        "write the PTX of numba.cuda.compile_ptx(function, types, cc=(9, 0)) to a file, and verify that file",
    ),
    FrontEnd("Triton", ("triton", "helion")),
)


def ptx_of_file(path: Path) -> str | None:
    """Return the PTX for the newest architecture in a binary file, or None for a text file.

    Raises NoKernelFile for a binary file without PTX, and OSError.
    """
    if not path.is_file():
        return None  # for a pipe or a missing file, the error is reported later, when the text is read
    with path.open("rb") as file:
        data = file.read(_HEAD)
    if data.startswith((_FATBIN, b"\x7fELF")):
        try:
            data = read_bounded(path, _MOST_BYTES)
        except ValueError as error:
            raise NoKernelFile(f"{path}: {error}; extract its PTX (cuobjdump -ptx), and verify the PTX") from None
    if data.startswith(_FATBIN):
        return _of_fatbin(path, data)
    if not data.startswith(b"\x7fELF"):
        if data.startswith(_ARCHIVE):
            raise NoKernelFile(f"{path} is an archive: extract its object files (ar x {path.name}), and verify them")
        if b"\0" in data:
            raise NoKernelFile(
                f"{path} is not recognised: use PTX, CUDA source, a cubin, a fat binary, or an executable"
            )
        return None
    if not data.startswith(_ELF):
        raise NoKernelFile(f"{path} is an unsupported ELF file: only 64-bit little-endian files are supported")
    try:
        machine, sections = _sections(data)
    except (struct.error, IndexError, ValueError) as error:
        raise NoKernelFile(f"{path} is a damaged ELF file: {error}") from error
    if _TEXT_SECTION in sections:
        return _lines(sections[_TEXT_SECTION])
    for name in _FATBIN_SECTIONS:
        if sections.get(name, b"").startswith(_FATBIN):
            return _of_fatbin(path, sections[name])
    if machine == _CUDA_MACHINE:
        raise NoKernelFile(
            f"{path} has only machine code, but the emulator needs PTX: verify the PTX that it was compiled from "
            "(nvcc -ptx, or -gencode arch=compute_90,code=compute_90 for a program)"
        )
    raise NoKernelFile(f"{path} contains no CUDA kernel")


def front_end_of(path: Path) -> FrontEnd | None:
    """Return the front end that a Python file imports, or None if it imports none of ``FRONT_ENDS``.

    Raises NoKernelFile if the text is not valid Python, and OSError if the file cannot be read.
    """
    try:
        tree = ast.parse(read_bounded(path, _MOST_SOURCE), str(path))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise NoKernelFile(f"{path} is not valid Python ({one_line(str(error))}): correct it") from error
    return front_end_that_uses(imports(tree))


def front_end_that_uses(names: Iterable[str]) -> FrontEnd | None:
    """Return the front end whose modules are among these imported names, or None."""
    known = set(names)
    return next((front_end for front_end in FRONT_ENDS if any_of(known, front_end.modules)), None)


def any_of(names: Iterable[str], modules: Iterable[str]) -> bool:
    """Return True if an imported name is one of the modules, or a member of such a module."""
    prefixes = tuple(modules)
    return any(name == m or name.startswith(f"{m}.") for name in names for m in prefixes)


def include_folders(source: str) -> tuple[str, ...]:
    """Return the include folders that CUDA source needs if a front end, such as TileLang, has generated it."""
    spec = importlib.util.find_spec("tilelang") if _TILELANG_HEADERS in source else None
    folders = spec.submodule_search_locations or () if spec else ()
    return tuple(str(Path(f) / part) for f in folders for part in ("src", "3rdparty/cutlass/include"))


def imports(tree: ast.AST) -> set[str]:
    """Return the dotted names that a Python file imports, and every name ``autosched.X`` in its code."""
    modules: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            modules.update(f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "autosched":
            modules.add(f"autosched.{node.attr}")
    return modules


def _of_fatbin(path: Path, data: bytes) -> str:
    try:
        texts_by_arch = ptx_texts(data)
    except (FatBinaryError, struct.error) as error:
        raise NoKernelFile(f"{path} {error}") from error
    return link([texts[max(texts)] for texts in texts_by_arch])


def _sections(data: bytes) -> tuple[int, dict[str, bytes]]:
    machine, start, size, count, names = _HEADER.unpack_from(data)
    if not count:
        return machine, {}
    headers = [_SECTION.unpack_from(data, start + k * size) for k in range(count)]
    _, at, length = headers[names]
    table = data[at : at + length]
    return machine, {
        table[name:].split(b"\0", 1)[0].decode(errors="replace"): data[offset : offset + length]
        for name, offset, length in headers
    }


def _lines(section: bytes) -> str:
    """Return the zero-terminated lines of PTX, without the source text and language name that cuTile appends."""
    text = section.replace(b"\0", b"\n").decode(errors="replace")
    return _LANGUAGE.sub("", text.partition(_INTERMEDIATE)[0])
