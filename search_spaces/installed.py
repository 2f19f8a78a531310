"""Installed packages, as the names of their metadata folders say.

importlib.metadata, which reads them by a parser of mail, takes a tenth of a small proof to import: what most commands
ask is answered without it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_SUFFIXES = (".dist-info", ".egg-info")


def metadata_folders() -> Iterator[Path]:
    """Yield the metadata folder of each package, in the order of ``sys.path``."""
    for folder in sys.path:
        with suppress(OSError):
            for name in sorted(os.listdir(folder or ".")):
                if name.endswith(_SUFFIXES):
                    yield Path(folder, name)


def metadata_folder(package: str) -> tuple[Path, str] | None:
    """Return the metadata folder of a package and its version; None where only importlib.metadata could find it."""
    start = f"{package.replace('-', '_')}-"
    for folder in metadata_folders():
        if folder.name.lower().startswith(start) and folder.suffix == ".dist-info":
            return folder, folder.stem[len(start) :]
    return None


def entry_points(*, group: str) -> tuple[EntryPoint, ...]:
    """Return the entry points of a group, as ``importlib.metadata.entry_points``."""
    if not _may_offer(group):
        return ()
    from importlib import metadata

    return tuple(metadata.entry_points(group=group))


def _may_offer(group: str) -> bool:
    """Whether a package has the entry points of a group; True as well where none of these folders would say so."""
    if any(hasattr(finder, "find_distributions") and finder is not PathFinder for finder in sys.meta_path):
        return True
    if any(os.path.isfile(place) for place in sys.path):  # zipped
        return True
    for folder in metadata_folders():
        with suppress(OSError):
            if group.encode() in (folder / "entry_points.txt").read_bytes():
                return True
    return False
