"""Headers with their texts, so that ``#include`` finds the same texts on every machine."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Self

# For speed, the pattern starts with a rare character. A later check ensures that the match is at the start of a line.
_INCLUDE = re.compile(r'#[^\S\n]*include[^\S\n]*[<"]([^">\n]+)[">]')
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*", re.ASCII)
SUFFIXES = (".cuh", ".cu", ".h", ".hpp", ".inl", ".inc", ".cpp")
OUR_PACKAGE = "autosched"  # package whose headers every kernel may include


def package_folder(name: str) -> Path:
    """Return the folder of a package. ``importlib.resources`` would be slower, because it imports zipfile."""
    spec = find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"there is no package {name}", name=name)
    return Path(next(iter(spec.submodule_search_locations)))


@cache
def include_dir(package: str = OUR_PACKAGE) -> str:
    """Return the folder ``include`` of a package, which contains its headers."""
    return str(package_folder(package) / "include")


@lru_cache(maxsize=1024)  # cached, because most kernels include the same headers
def included(text: str) -> tuple[str, ...]:
    """Return the names in the ``#include`` lines of CUDA C++."""
    return tuple(match[1] for match in _INCLUDE.finditer(text) if _begins_line(text, match.start()))


def _begins_line(text: str, at: int) -> bool:
    return not text[text.rfind("\n", 0, at) + 1 : at].strip()


@lru_cache(maxsize=1024)
def identifiers(text: str) -> frozenset[str]:
    """Return every identifier in CUDA C++, including keywords and words in string literals, but not comments."""
    return frozenset(_IDENTIFIER.findall(_COMMENT.sub(" ", text)))


def has_identifier(text: str, name: str) -> bool:
    """Return True if ``name`` is in ``identifiers(text)``.

    This function is faster than ``identifiers``, because it only parses lines that contain the name.
    """
    start = text.find(name)
    if start >= 0 and ("/*" in text or not text.isascii()):
        return name in identifiers(text)
    while start >= 0:
        before, after = text[start - 1 : start], text[start + len(name) : start + len(name) + 1]
        if before.isdigit():  # skip a match inside a number or a longer name
            return name in identifiers(text)
        if not (before.isalpha() or before == "_" or after.isalnum() or after == "_"):
            line = text.rfind("\n", 0, start) + 1
            if text.find("//", line, start) < 0:
                return True
        start = text.find(name, start + 1)
    return False


@dataclass(frozen=True, eq=False)
class Headers:
    """Headers as (name, text), sorted by name. The names are as in ``#include`` lines.

    Equal headers have an equal ``digest``, the SHA-256 of ``encoded``.

    Raises:
        ValueError: A name is outside of the include folder, or occurs twice.
    """

    files: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        names = [name for name, _ in self.files]
        if names != sorted(set(names)):
            raise ValueError("headers must be sorted by name, without duplicates: create them with Headers.of")
        for name in names:
            path = PurePosixPath(name)
            if path.is_absolute() or ".." in path.parts or path.as_posix() != name or "\0" in name or name == ".":
                raise ValueError(f"a header's name must be a path below the include folder, not {name!r}")

    def __repr__(self) -> str:
        return f"Headers({len(self.files)} files, {sum(len(text) for _, text in self.files):,} characters)"

    @classmethod
    def of(cls, texts: Mapping[str, str]) -> Self:
        """Return the headers in ``texts``, a mapping from a header's name in ``#include`` to its text."""
        return cls(tuple(sorted(texts.items())))

    @staticmethod
    def from_folder(folder: str | os.PathLike[str]) -> Headers:
        """Return all C++ headers below ``folder``. Files are read again if a size or a modification time has changed.

        Raises:
            OSError: A header cannot be read.
            ValueError: A header is not UTF-8.
        """
        return _read(os.fspath(folder), tuple(sorted(_files(os.fspath(folder)))))

    def __or__(self, other: Headers) -> Headers:
        """Combine two sets of headers. For common names, ``other`` takes precedence."""
        return Headers.of(dict(self.files) | dict(other.files))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Headers) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    @cached_property
    def encoded(self) -> bytes:
        """The headers as canonical JSON, which ``decode`` reads."""
        return json.dumps(dict(self.files), separators=(",", ":")).encode()

    @cached_property
    def digest(self) -> str:
        """SHA-256 of ``encoded`` (hex)."""
        return hashlib.sha256(self.encoded).hexdigest()

    def has_identifier(self, name: str) -> bool:
        """Return True if ``name`` is among the ``identifiers`` of any header."""
        return _has_identifier(self, name)

    @classmethod
    def decode(cls, encoded: bytes) -> Self:
        """Parse the value of ``encoded``. Raises ValueError for other bytes."""
        texts = json.loads(encoded)
        if not isinstance(texts, dict) or not all(isinstance(text, str) for text in texts.values()):
            raise ValueError("these bytes are not encoded headers")
        return cls.of(texts)

    def write(self, folder: Path) -> None:
        """Write every header to a file below ``folder``. Raises OSError."""
        for name, text in self.files:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode())


@lru_cache(maxsize=4096)  # cached, because thousands of schedules look up the same names
def _has_identifier(headers: Headers, name: str) -> bool:
    return any(has_identifier(text, name) for _, text in headers.files)


@cache
def package_headers(package: str = OUR_PACKAGE) -> Headers:
    """Return the headers of an installed package. Like Python modules, they are read once per process.

    Raises:
        OSError: A header cannot be read.
        ValueError: A header is not UTF-8.
    """
    return Headers.from_folder(include_dir(package))


def _files(folder: str) -> Iterator[tuple[str, int, int]]:
    """Yield (path, modification time in ns, size) of every header below ``folder``."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                yield from _files(entry.path)
            elif entry.name.endswith(SUFFIXES) and entry.is_file():
                status = entry.stat()
                yield entry.path, status.st_mtime_ns, status.st_size


@lru_cache(maxsize=64)
def _read(folder: str, files: tuple[tuple[str, int, int], ...]) -> Headers:
    texts = {}
    for file, _, _ in files:
        try:
            with open(file, "rb") as content:
                texts[file[len(os.path.join(folder, "")) :].replace(os.sep, "/")] = content.read().decode()
        except UnicodeDecodeError as error:
            raise ValueError(f"{file} is not UTF-8 text: convert it") from error
    return Headers.of(texts)
