"""Search for installed packages by the names of their metadata folders.

This avoids importing importlib.metadata. That module imports a mail parser, which takes a tenth of the time of a small
verification. The names of the folders are sufficient for most commands.
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

_METADATA = (".dist-info", ".egg-info", "egg-info")  # "egg-info": in an unpacked egg


def metadata_folders() -> Iterator[tuple[str, str]]:
    """Yield the name and location of each package's metadata folder, in the order of ``sys.path``."""
    for folder in sys.path:
        with suppress(OSError):
            yield from (
                (name, folder) for name in sorted(os.listdir(folder or ".")) if name.lower().endswith(_METADATA)
            )


def metadata_folder(package: str) -> tuple[Path, str] | None:
    """Return the metadata folder and the version of a package; None if there is no such folder.

    In this case, importlib.metadata may still find the package, for example in a zip file or an egg.
    """
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
    """Warning: an installed package has an entry point that cannot be loaded."""


def load_offers(group: str, kind: str, add: Callable[[Any], None]) -> None:
    """Load the entry points of a group, sorted by name, and pass each object to ``add``. Errors become warnings.

    Args:
        group: Group of entry points. Each names an object, or a function without arguments that returns an object.
        kind: What the objects are called in warnings.
        add: Function that receives one object. Its exceptions are treated as errors of the package.
    """
    for point in sorted(entry_points(group=group), key=lambda p: (p.name, p.value)):
        try:
            offered = point.load()
            add(offered() if callable(offered) else offered)
        except (Exception, SystemExit) as error:  # a broken third-party package must not break the catalogue
            text = ascii(" ".join(f"{type(error).__name__}: {error}".split()))[
                1:-1
            ]  # escaped, because control characters could manipulate the terminal
            warnings.warn(
                f"the entry point {point.name} ({point.value}) provides no {kind} ({text}): fix its package",
                UnusableEntryPoint,
                stacklevel=3,
            )


def _may_offer(group: str) -> bool:
    """Return False if the metadata folders show that no package has entry points of the group; else True."""
    if any(hasattr(finder, "find_distributions") and finder is not PathFinder for finder in sys.meta_path):
        return True
    if any(os.path.isfile(entry) for entry in sys.path):  # the location may be a zip file
        return True
    for name, folder in metadata_folders():
        with suppress(OSError), open(os.path.join(folder, name, "entry_points.txt"), "rb") as file:
            if group.encode() in file.read():
                return True
    return False
