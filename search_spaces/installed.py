"""Find installed packages by the names of their metadata folders.

Importing importlib.metadata, which uses a mail parser, takes a tenth of a small verification's time. The folder names
are sufficient for most commands.
"""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_METADATA = (".dist-info", ".egg-info", "egg-info")  # the last one is that of an unpacked egg


def metadata_folders() -> Iterator[tuple[str, str]]:
    """Yield the name and location of each package's metadata folder, in the order of ``sys.path``."""
    for folder in sys.path:
        with suppress(OSError):
            yield from (
                (name, folder) for name in sorted(os.listdir(folder or ".")) if name.lower().endswith(_METADATA)
            )


def metadata_folder(package: str) -> tuple[Path, str] | None:
    """Return the metadata folder of a package and its version; None if only importlib.metadata could find it."""
    start = f"{re.sub('[-_.]+', '_', package).lower()}-"
    for name, folder in metadata_folders():
        if name.lower().startswith(start) and name.endswith(".dist-info"):
            return Path(folder, name), name[len(start) :].removesuffix(".dist-info")
    return None


def entry_points(*, group: str) -> tuple[EntryPoint, ...]:
    """Return the entry points of a group, like ``importlib.metadata.entry_points``."""
    if not _may_offer(group):
        return ()
    from importlib import metadata

    return tuple(metadata.entry_points(group=group))


class UnusableEntryPoint(UserWarning):
    """An installed package has an entry point that cannot be loaded."""


def load_offers(group: str, kind: str, add: Callable[[Any], None]) -> None:
    """Load the entry points of a group, sorted by name, and pass each object to ``add``. Errors only cause a warning.

    Args:
        group: Group of entry points, each of which names an object or a function without arguments that returns one.
        kind: Name of the offered objects, for the warning.
        add: Receives one object; its exceptions are treated as errors of the package.
    """
    for point in sorted(entry_points(group=group), key=lambda p: (p.name, p.value)):
        try:
            offered = point.load()
            add(offered() if callable(offered) else offered)
        except (Exception, SystemExit) as error:  # a broken third-party package must not break the catalogue
            text = ascii(" ".join(f"{type(error).__name__}: {error}".split()))[
                1:-1
            ]  # escaped, so that it cannot control a terminal
            warnings.warn(
                f"the entry point {point.name} ({point.value}) provides no {kind} ({text}): fix its package",
                UnusableEntryPoint,
                stacklevel=3,
            )


def _may_offer(group: str) -> bool:
    """Return True if a package may have entry points of a group; True if the folders are not sufficient to decide."""
    if any(hasattr(finder, "find_distributions") and finder is not PathFinder for finder in sys.meta_path):
        return True
    if any(os.path.isfile(entry) for entry in sys.path):  # a zip file
        return True
    for name, folder in metadata_folders():
        with suppress(OSError), open(os.path.join(folder, name, "entry_points.txt"), "rb") as file:
            if group.encode() in file.read():
                return True
    return False
