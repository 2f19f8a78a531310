"""Follow a value through the calls that pass it on.

A *stop* is a function of the project's packages that receives the value itself as an argument. Stops are in the order
of their first calls. The files with a stop are counted. All kernel templates count as one file, since a search reaches
them through one interface, ``KernelTemplate``. The files that define the value's own classes do not count. A *climb* is
a step from one stop to the next stop in a higher package.
"""

from __future__ import annotations

import inspect
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).parents[2]
FLOORS = {"search_spaces": 1, "cost_models": 2, "measurements": 2, "autosched": 3}  # levels of the packages
TEMPLATES = "search_spaces/templates/"


@dataclass(frozen=True)
class Stop:
    """A function that receives the followed value: its name, and its file (a path relative to the project)."""

    file: str
    function: str

    @property
    def counted_file(self) -> str:
        """Return the file, or the templates' folder if the file is part of a kernel template."""
        return TEMPLATES if self.file.startswith(TEMPLATES) else self.file

    @property
    def floor(self) -> int:
        """Return the level of the file's package, counted from the bottom."""
        return FLOORS[self.file.partition("/")[0]]


@dataclass
class Walk:
    """The functions ("stops") that receive a value, in the order of their first calls."""

    stops: list[Stop] = field(default_factory=list)

    @property
    def files(self) -> set[str]:
        """Return the distinct files of the stops, with all kernel templates as one file."""
        return {stop.counted_file for stop in self.stops}

    @property
    def climbs(self) -> list[tuple[Stop, Stop]]:
        """Return each pair of successive stops whose second stop is in a package of a higher level than the first."""
        return [(before, after) for before, after in pairwise(self.stops) if after.floor > before.floor]

    def __str__(self) -> str:
        """Return a line for each group of successive stops in the same file, and a line with the totals."""
        lines, floor = [], 0
        for file, stay in groupby(self.stops, key=lambda stop: stop.counted_file):
            stops = list(stay)
            up = "up" if floor and stops[0].floor > floor else ""
            floor = stops[0].floor
            lines.append(f"{floor} {up:2} {file}: {', '.join(stop.function for stop in stops[:4])}")
        return "\n".join([*lines, f"{len(self.files)} files, {len(self.climbs)} climbs"])


@contextmanager
def followed(value: object) -> Iterator[Walk]:
    """Follow ``value`` through the calls of the ``with`` block, in all threads.

    Yields:
        The walk, which is complete when the block ends.
    """
    walk, own = Walk(), {inspect.getsourcefile(cls) for cls in type(value).__mro__ if cls.__module__ != "builtins"}
    packages = tuple(f"{ROOT / name}{os.sep}" for name in FLOORS)
    arguments: dict[CodeType, tuple[str, ...]] = {}  # parameters to check; () outside of the packages

    def on_event(frame: FrameType, event: str, _: Any) -> None:
        if event != "call":
            return
        code = frame.f_code
        if code not in arguments:
            names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
            ours = code.co_filename.startswith(packages) and code.co_filename not in own
            arguments[code] = names if ours else ()
        if arguments[code] and any(frame.f_locals.get(name) is value for name in arguments[code]):
            arguments[code] = ()
            walk.stops.append(Stop(Path(code.co_filename).relative_to(ROOT).as_posix(), code.co_qualname))

    before = sys.getprofile()
    threading.setprofile(on_event)
    sys.setprofile(on_event)
    try:
        yield walk
    finally:
        sys.setprofile(before)
        threading.setprofile(None)
