"""Installed packages, as the names of their metadata folders say.

importlib.metadata, which reads them by a parser of mail, takes a tenth of a small verification to import: what most
commands ask is answered without it.
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

_METADATA = (".dist-info", ".egg-info", "egg-info")  # the last in an unpacked egg


def metadata_folders() -> Iterator[tuple[str, str]]:
    """Yield the name of each package's metadata folder and where that is, in the order of ``sys.path``."""
    for folder in sys.path:
        with suppress(OSError):
            yield from (
                (name, folder) for name in sorted(os.listdir(folder or ".")) if name.lower().endswith(_METADATA)
            )


def metadata_folder(package: str) -> tuple[Path, str] | None:
    """Return the metadata folder of a package and its version; None where only importlib.metadata could find it."""
    start = f"{re.sub('[-_.]+', '_', package).lower()}-"
    for name, folder in metadata_folders():
        if name.lower().startswith(start) and name.endswith(".dist-info"):
            return Path(folder, name), name[len(start) :].removesuffix(".dist-info")
    return None


def entry_points(*, group: str) -> tuple[EntryPoint, ...]:
    """Return the entry points of a group, as ``importlib.metadata.entry_points``."""
    if not _may_offer(group):
        return ()
    from importlib import metadata

    return tuple(metadata.entry_points(group=group))


class UnusableEntryPoint(UserWarning):
    """An installed package offers something that cannot be loaded."""


def load_offers(group: str, what: str, add: Callable[[Any], None]) -> None:
    """Hand what the packages of a group offer to ``add``, by name. A broken package gets a warning and nothing else.

    Args:
        group: Of entry points, each of which names an object or a function without arguments that returns one.
        what: They provide, for the warning.
        add: Takes one offer. What it raises counts as the package's.
    """
    for point in sorted(entry_points(group=group), key=lambda p: (p.name, p.value)):
        try:
            offered = point.load()
            add(offered() if callable(offered) else offered)
        except (Exception, SystemExit) as error:  # a broken third-party package must not break the catalogue
            text = ascii(" ".join(f"{type(error).__name__}: {error}".split()))[1:-1]  # nor act on a terminal
            warnings.warn(
                f"the entry point {point.name} ({point.value}) provides no {what} ({text}): fix its package",
                UnusableEntryPoint,
                stacklevel=3,
            )


def _may_offer(group: str) -> bool:
    """Whether a package has the entry points of a group; True as well where none of these folders would say so."""
    if any(hasattr(finder, "find_distributions") and finder is not PathFinder for finder in sys.meta_path):
        return True
    if any(os.path.isfile(place) for place in sys.path):  # zipped
        return True
    for name, folder in metadata_folders():
        with suppress(OSError), open(os.path.join(folder, name, "entry_points.txt"), "rb") as file:
            if group.encode() in file.read():
                return True
    return False
