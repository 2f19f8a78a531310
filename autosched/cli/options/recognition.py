"""Recognise the kind of a file passed to ``verify``, mainly by its content.

Binary files are recognised by their first bytes, PTX by its directives, Python by its syntax tree and imports, kernel
files by their table ``[kernel]``, and CUDA source by ``__global__``. If none of these matches, the extension decides:
.cu, .py, .toml or .mlir.
"""

from __future__ import annotations

import ast
import os
import re
import stat
import struct
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from autosched.cli.terminal.errors import InputError, shortened
from measurements.files.bounded import open_readable, read_bounded
from measurements.files.text import one_line

ACCEPTED = "CUDA source, PTX, a cubin, an executable, a Python script, a tile program or a kernel file"

_MOST_TEXT = 1 << 26  # size limit of a source file or PTX in bytes
_MOST_PYTHON = 1 << 24
_HEAD = 4096  # number of bytes at the start of a file that show whether it is a binary file
_ELF, _ELF64 = b"\x7fELF", b"\x7fELF\x02\x01"
_FATBIN = struct.pack("<I", 0xBA55ED50)
_ARCHIVE = b"!<arch>\n"
_SQLITE = b"SQLite format 3\0"
_CUDA_MACHINE = 190  # value of e_machine in the ELF header of a CUDA file (EM_CUDA)
_ET_EXEC, _ET_DYN, _PT_INTERP = 2, 3, 3
_CUDA_SUFFIXES = (".cu", ".cuh", ".cpp", ".cc", ".cxx", ".c", ".h", ".hpp")
_TILE_SUFFIXES = (".mlir", ".txt")
_KERNEL_TABLE = re.compile(r"^\s*\[kernel\]", re.MULTILINE)
_T1_TABLE = '"KernelSpecification"'  # top-level key of a JSON kernel file in the format T1
_TILE_MODULES = ("autosched.tile", "search_spaces.programs")
_LAUNCHED_MODULES = ("triton", "helion")
_KERNEL_IN_CUDA = re.compile(r"\b__global__\b")


class FileKind(StrEnum):
    """Kind of a file. The value is the kind's name in messages, such as "FILE is a Python script"."""

    CUDA = "CUDA source"
    PTX = "PTX"
    BINARY = "a binary with PTX"
    EXECUTABLE = "an executable"
    SCRIPT = "a Python script"
    TILE_PROGRAM = "a tile program"
    KERNEL_FILE = "a kernel file"


class UserFile(NamedTuple):
    """A recognised file.

    Attributes:
        kind: Kind of the file.
        path: Path of the file.
        name: Name after the colon of FILE:NAME: a kernel, a function or a tile program; "" if there is none.
        text: Content of CUDA source or PTX; kept because a pipe can be read only once.
    """

    kind: FileKind
    path: Path
    name: str = ""
    text: str = ""


def looks_like_a_file(word: str) -> bool:
    """Return True if a word on the command line names a file rather than an operator.

    A file name has a slash or a dot, or the file exists.
    """
    return "/" in word or "." in word or Path(word).exists()


def recognise(word: str) -> UserFile:
    """Recognise FILE or FILE:NAME.

    Args:
        word: Argument on the command line.

    Returns:
        The file with its kind.

    Raises:
        InputError: The file cannot be read, or ``verify`` does not accept it. The message says what to do.
    """
    path, name = _split(word)
    try:
        mode = os.stat(path).st_mode
        if stat.S_ISDIR(mode):
            raise InputError(
                f"{path} is a folder: name a file in it, or check a folder of tuned configurations with 'autosched "
                f"check {path}'"
            )
        if not stat.S_ISREG(mode):
            return _of_text(path, name, read_bounded(path, _MOST_TEXT), regular=False)
        with open_readable(path, regular=True) as file:
            head = file.read(_HEAD)
        if (kind := _binary_kind(path, head)) is not None:
            return UserFile(kind, path, name)
        return _of_text(path, name, read_bounded(path, _MOST_TEXT), regular=True)
    except InputError:
        raise
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None


def _split(word: str) -> tuple[Path, str]:
    """Split FILE:NAME at the first colon whose preceding text is the path of an existing file."""
    if not os.path.lexists(word):
        for colon in re.finditer(":", word):
            if os.path.lexists(word[: colon.start()]):
                return Path(word[: colon.start()]), word[colon.end() :]
    return Path(word), ""


def _binary_kind(path: Path, head: bytes) -> FileKind | None:
    """Return the kind of a binary file by its first bytes; None for text."""
    if not head:
        raise InputError(f"{path} is empty: give {ACCEPTED}")
    if head.startswith(_SQLITE):
        raise InputError(f"{path} is a database: 'autosched check --db {path}' checks it")
    if head.startswith(_ELF64):
        return FileKind.EXECUTABLE if _is_executable(head) else FileKind.BINARY
    if head.startswith((_ELF, _FATBIN, _ARCHIVE)):
        return FileKind.BINARY  # a file without PTX is reported later, when PTX is extracted
    if b"\0" in head:
        raise InputError(f"{path} is not recognised: give {ACCEPTED}")
    return None


def _is_executable(head: bytes) -> bool:
    """Return True if an ELF header belongs to a host program, not to a library or an object file."""
    try:
        kind, machine = struct.unpack_from("<HH", head, 16)
        (start,) = struct.unpack_from("<Q", head, 32)
        size, count = struct.unpack_from("<HH", head, 54)
        if machine == _CUDA_MACHINE:
            return False
        types = [struct.unpack_from("<I", head, start + k * size)[0] for k in range(count)]
    except struct.error:
        return False  # a truncated ELF file: the error is reported later, when the file is read
    return kind == _ET_EXEC or (kind == _ET_DYN and _PT_INTERP in types)


def _of_text(path: Path, name: str, content: bytes, *, regular: bool) -> UserFile:
    if not regular and content.startswith((_ELF, _FATBIN, _ARCHIVE)):
        raise InputError(f"{path} is a pipe with binary data: write the data to a file, and pass the file")
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise InputError(f"{path} cannot be read: it is not text; give {ACCEPTED}") from None
    if not text.strip():
        raise InputError(f"{path} is empty: give {ACCEPTED}")
    if "\0" in text:
        raise InputError(f"{path} is not recognised: give {ACCEPTED}")
    kind = _text_kind(path, text)
    if kind in (FileKind.CUDA, FileKind.PTX):
        return UserFile(kind, path, name, text)
    if not regular:
        raise InputError(f"{path} is a pipe with {kind}: write it to a file, and pass the file")
    return UserFile(kind, path, name)


def _text_kind(path: Path, text: str) -> FileKind:
    from autosched.verify.emulate.emulate import is_ptx

    suffix = path.suffix.lower()
    if is_ptx(text) and suffix != ".py":
        return FileKind.PTX
    if (
        suffix == ".toml"
        or (suffix == ".json" and _T1_TABLE in text)
        or (_KERNEL_TABLE.search(text) and _is_toml(text))
    ):
        return FileKind.KERNEL_FILE
    if suffix == ".py" or (suffix not in _CUDA_SUFFIXES and _front_end_imports(text)):
        return _python_kind(path, text)
    if suffix in _CUDA_SUFFIXES or _KERNEL_IN_CUDA.search(text):
        return FileKind.CUDA
    if suffix in _TILE_SUFFIXES:
        return FileKind.TILE_PROGRAM
    raise InputError(f"{path} is not recognised: give {ACCEPTED}")


def _is_toml(text: str) -> bool:
    import tomllib  # imported lazily, because most files are recognised without it

    try:
        tomllib.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _front_end_imports(text: str) -> bool:
    """Return True if the text of a file without a Python extension is a Python program with kernels."""
    from autosched.verify.emulate.kernel_files import any_of, imports

    if len(text) > _MOST_PYTHON:
        return False
    try:
        names = imports(ast.parse(text))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return any_of(names, (*_TILE_MODULES, *_LAUNCHED_MODULES))


def _python_kind(path: Path, text: str) -> FileKind:
    """Return the kind of a Python file.

    A file with tile programs that also launches Triton kernels is a script; use ``--program`` for its tile programs.

    Raises:
        InputError: The text is not valid Python, or its kernels use an unsupported front end.
    """
    from autosched.verify.emulate.kernel_files import any_of, front_end_that_uses, imports

    if len(text) > _MOST_PYTHON:
        raise InputError(f"{path} cannot be read: it has more than {_MOST_PYTHON:,} bytes")
    try:
        names = imports(ast.parse(text, str(path)))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        if _KERNEL_IN_CUDA.search(text):
            return FileKind.CUDA
        raise InputError(f"{path} is not valid Python ({shortened(one_line(str(error)), 200)}): correct it") from None
    if any_of(names, _LAUNCHED_MODULES):
        return FileKind.SCRIPT
    if any_of(names, _TILE_MODULES):
        return FileKind.TILE_PROGRAM
    front_end = front_end_that_uses(names)
    if front_end is not None and front_end.instead:
        raise InputError(f"{path} {front_end.refusal}")
    return FileKind.SCRIPT
