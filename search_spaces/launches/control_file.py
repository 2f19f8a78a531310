"""A ptxas control file as a compiler option that contains the file's content, so that no path is needed later."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Self

CONTROL_FILE = "--ptxas-control-file="  # autosched's own option: compilers get a temporary file instead
PTXAS = "--ptxas-options="
MOST_BYTES = 1 << 16
_NAME = re.compile(r"[\w.+-]{1,100}", re.ASCII)


@dataclass(frozen=True)
class ControlFile:
    """A control file that ptxas reads with ``--apply-controls``. Its format is NVIDIA's, and is not interpreted here.

    Attributes:
        name: Displayed name: letters, digits, and ``_ . + -``.
        content: Content of the file.

    Raises:
        ValueError: If the name is invalid, or the file is empty or has more than MOST_BYTES bytes.
    """

    name: str
    content: bytes

    def __post_init__(self) -> None:
        if _NAME.fullmatch(self.name) is None:
            raise ValueError(f"rename the control file {self.name!r:.80}: use letters, digits, and _ . + -")
        if not 0 < len(self.content) <= MOST_BYTES:
            raise ValueError(f"the control file {self.name} has {len(self.content):,} bytes, not 1 to {MOST_BYTES:,}")

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read a file. Raises ValueError, in one line, if it cannot be read or used."""
        try:
            with Path(path).open("rb") as file:
                content = file.read(MOST_BYTES + 1)
        except OSError as error:
            raise ValueError(f"cannot read the control file {path}: {error.strerror}") from None
        return cls(Path(path).name, content)

    @classmethod
    def of(cls, text: str) -> Self:
        """Return the file with this ``text``. Raises ValueError for invalid text."""
        name, _, encoded = text.partition(":")
        try:
            return cls(name, base64.b64decode(encoded, validate=True))
        except binascii.Error:
            raise ValueError(f"the content of the control file {name!r:.80} is damaged: tune again") from None

    @cached_property
    def text(self) -> str:
        """Name and content as one printable text, the value of a decision."""
        return f"{self.name}:{base64.b64encode(self.content).decode()}"

    @property
    def option(self) -> str:
        """The compiler option."""
        return CONTROL_FILE + self.text

    def __str__(self) -> str:
        digest = hashlib.sha256(self.content).hexdigest()
        return f"{self.name} ({len(self.content)} bytes, sha256 {digest[:12]})"


def control_file_of(options: Sequence[str]) -> ControlFile | None:
    """Return the control file among compiler options; None without one. Raises ValueError for a damaged one."""
    option = next((option for option in options if option.startswith(CONTROL_FILE)), None)
    return None if option is None else ControlFile.of(option.removeprefix(CONTROL_FILE))


def without_control_file(options: Sequence[str]) -> tuple[str, ...]:
    """Return the options without the control file: those that NVRTC and nvcc know."""
    return tuple(option for option in options if not option.startswith(CONTROL_FILE))


def for_ptx(options: Sequence[str]) -> tuple[str, ...]:
    """Return the options without those of ptxas, which is not run if PTX is not assembled."""
    return tuple(option for option in options if not option.startswith((CONTROL_FILE, PTXAS)))
