"""A ptxas control file as a compiler option. The option contains the file's content, so that it depends on no path."""

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

# option that only autosched understands; compilers get the path of a temporary file instead
CONTROL_FILE = "--ptxas-control-file="
PTXAS = "--ptxas-options="
MOST_BYTES = 1 << 16
_NAME = re.compile(r"[\w.+-]{1,100}", re.ASCII)


@dataclass(frozen=True)
class ControlFile:
    """A control file, which ptxas reads with ``--apply-controls``. autosched does not interpret its format.

    Attributes:
        name: Name to display, with letters, digits, and ``_ . + -``.
        content: Content of the file.

    Raises:
        ValueError: The name is invalid, or the file is empty or has more than MOST_BYTES bytes.
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
        """Read a control file. Raises ValueError with a message of one line if it cannot be read or used."""
        try:
            with Path(path).open("rb") as file:
                content = file.read(MOST_BYTES + 1)
        except OSError as error:
            raise ValueError(f"cannot read the control file {path}: {error.strerror}") from None
        return cls(Path(path).name, content)

    @classmethod
    def of(cls, text: str) -> Self:
        """Parse the result of ``text``. Raises ValueError for invalid text."""
        name, _, encoded = text.partition(":")
        try:
            return cls(name, base64.b64decode(encoded, validate=True))
        except binascii.Error:
            raise ValueError(f"the content of the control file {name!r:.80} is damaged: tune again") from None

    @cached_property
    def text(self) -> str:
        """Name and content as one printable text. Schedules store this text as the value of a parameter."""
        return f"{self.name}:{base64.b64encode(self.content).decode()}"

    @property
    def option(self) -> str:
        """The compiler option with the file's content."""
        return CONTROL_FILE + self.text

    def __str__(self) -> str:
        digest = hashlib.sha256(self.content).hexdigest()
        return f"{self.name} ({len(self.content)} bytes, sha256 {digest[:12]})"


def control_file_of(options: Sequence[str]) -> ControlFile | None:
    """Return the control file among compiler options, or None. Raises ValueError if its content is damaged."""
    option = next((option for option in options if option.startswith(CONTROL_FILE)), None)
    return None if option is None else ControlFile.of(option.removeprefix(CONTROL_FILE))


def without_control_file(options: Sequence[str]) -> tuple[str, ...]:
    """Return the options without the control file, which NVRTC and nvcc do not know."""
    return tuple(option for option in options if not option.startswith(CONTROL_FILE))


def for_ptx(options: Sequence[str]) -> tuple[str, ...]:
    """Return the options without options of ptxas, for compilations to PTX, which do not run ptxas."""
    return tuple(option for option in options if not option.startswith((CONTROL_FILE, PTXAS)))
