"""The order of a program's streams and host, from what its stand-in of CUDA's libraries tells (library/order.cpp)."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from measurements.emulator.findings import Finding, FindingKind
from measurements.emulator.host_order import HOST, LEGACY, Clock, HostAccess, HostOrder, HostRace, Ranges, Use
from measurements.files.demangle import demangled

_KINDS_OF_HOST = (1, 2)  # library/core.hpp: pinned, managed
_HEADERS = ("cuda_runtime.h", "cuda_runtime_api.h", "/crt/", "cooperative_groups")
_MOST_RANGES = 4096  # of one copy with rows

UsedStretch = tuple[int, int, int]  # address, bytes, use (host_order.Use)


@dataclass(frozen=True)
class CallSite:
    """Who uses memory, and where the program calls it.

    Attributes:
        what: "cudaMemcpyAsync", "kernel fill(int*)", "the host".
        frames: Addresses of calls in the program's file, the nearest first.
        kernel: Name of the kernel, as demangled; "" for other work.
    """

    what: str
    frames: tuple[int, ...]
    kernel: str = ""


@dataclass(frozen=True)
class _Allocation:
    name: str
    seen_by_host: bool


class CallSites:
    """Where in a program's source its calls are, by binutils' addr2line."""

    def __init__(self, program: Path) -> None:
        self._program = program
        self._known: dict[tuple[int, ...], list[tuple[str, str, int]]] = {}

    def place(self, frames: tuple[int, ...], kernel: str = "") -> tuple[str, str, int]:
        """Return function, file and line of the nearest call that is the program's own.

        Args:
            frames: As of ``CallSite``.
            kernel: The stub of this kernel's launch is left out.

        Returns:
            Empty, and line 0, where they are not known.
        """
        if frames not in self._known:
            self._known[frames] = list(self._places(frames))
        name = kernel.partition("(")[0]
        for function, file, line in self._known[frames]:
            is_stub = "__device_stub__" in function or "__wrapper__" in function
            if (
                not is_stub
                and not (name and function.partition("(")[0] == name)
                and not any(h in file for h in _HEADERS)
            ):
                return function, file, line
        return "", "", 0

    def _places(self, frames: tuple[int, ...]) -> Iterator[tuple[str, str, int]]:
        path = shutil.which("addr2line")
        if path is None or not frames:
            return
        command = [path, "-C", "-f", "-i", "-e", str(self._program), *map(hex, frames)]
        lines = subprocess.run(
            command, capture_output=True, text=True, errors="replace", check=False
        ).stdout.splitlines()
        for function, at in zip(lines[::2], lines[1::2], strict=False):
            file, _, line = at.partition(" ")[0].rpartition(":")
            known = function != "??"
            yield (function if known else "", file if "?" not in file else "", int(line) if line.isdecimal() else 0)


class ProgramOrder:
    """Follows the streams of a program, and makes findings of uses of memory that nothing orders.

    Args:
        program: Its file.
        found: Gets each finding, with the kernel's name and a key that is the same for the same two places.
    """

    def __init__(self, program: Path, found: Callable[[Finding, str, tuple[object, ...]], None]) -> None:
        self.order = HostOrder()
        self.sites = CallSites(program)
        self._found = found
        self._streams = {LEGACY: LEGACY}
        self._events: dict[int, Clock] = {}
        self._blocks: dict[int, _Allocation] = {}

    def follow(self, lines: Iterable[str]) -> None:
        """Take what the program has done since the last call, one thing a line."""
        for line in lines:
            what, *rest = line.split(" ")
            match what:
                case "allocated":
                    self._blocks[int(rest[0])] = _Allocation(" ".join(rest[2:]), int(rest[1]) in _KINDS_OF_HOST)
                case "free":
                    self.order.forget(int(rest[0]))
                case "free_unordered":
                    first = int(rest[0])
                    ranges = np.array([[first, first + int(rest[1])]], np.int64)
                    self._judge(HOST, first, Use.WRITE, ranges, CallSite("cudaFree", frames_of(rest[2])))
                case "stream":
                    self._streams[int(rest[0])] = self.order.add_stream(blocking=rest[1] == "1")
                case "destroy":
                    self.order.destroy_stream(self._streams.pop(int(rest[0])))
                case "trial":
                    self._events[int(rest[0])] = self.order.record(self._streams[int(rest[1])])
                case "wait":
                    self.order.wait(self._streams[int(rest[0])], self._events.get(int(rest[1]), {}))
                case "event_done":
                    self.order.synchronize_event(self._events.get(int(rest[0]), {}))
                case "stream_done":
                    self.order.synchronize(self._streams[int(rest[0])])
                case "device_done":
                    self.order.synchronize_device()
                case "work":
                    self._work(rest)

    def _work(self, rest: list[str]) -> None:
        stream, end = self._streams[int(rest[0])], 4 + 6 * int(rest[3])
        by = CallSite(" ".join(rest[end:]), frames_of(rest[2]))
        self.order.begin(stream)
        numbers = [int(n) for n in rest[4:end]]
        for k in range(0, len(numbers), 6):
            block, first, width, rows, pitch, use = numbers[k : k + 6]
            starts = first + pitch * np.arange(min(rows, _MOST_RANGES), dtype=np.int64)
            self._judge(stream, block, Use(use), np.stack([starts, starts + width], axis=1), by)
        if rest[1] == "1":
            self.order.synchronize(stream)

    def launch(self, stream: int, kernel: str, frames: tuple[int, ...], uses: Iterable[UsedStretch]) -> None:
        """Take a launch that has run.

        Args:
            stream: Its number.
            kernel: Its name, demangled.
            frames: As of ``CallSite``.
            uses: What it has used.
        """
        number, by = self._streams[stream], CallSite(f"kernel {kernel}", frames, kernel)
        self.order.begin(number)
        starts = np.array(sorted(self._blocks), np.int64)
        by_block: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for address, count, use in uses:
            at = int(np.searchsorted(starts, address, side="right")) - 1
            if at >= 0:
                by_block.setdefault((int(starts[at]), use), []).append((address, address + count))
        for (block, use), ranges in by_block.items():
            self._judge(number, block, Use(use), np.array(ranges, np.int64), by)

    def touch(self, block: int, address: int, use: int, frames: tuple[int, ...]) -> bool:
        """Take a use of memory by the host.

        Returns:
            Whether other work may still use the memory, none of which this use races with.
        """
        ranges = np.array([[address, address + 1]], np.int64)
        raced = self._judge(HOST, block, Use(use), ranges, CallSite("the host", frames))
        return not raced and bool(self.order.pending(block))

    def pending(self) -> Iterator[UsedStretch]:
        """Yield the memory that the host can touch, and that work which it has not waited for uses."""
        for block in self.order.pending_blocks():
            known = self._blocks.get(block)
            for access in self.order.pending(block) if known is not None and known.seen_by_host else ():
                for first, end in access.ranges.tolist():
                    yield first, end - first, int(access.use & (Use.READ | Use.WRITE))

    def _judge(self, timeline: int, block: int, use: Use, ranges: Ranges, by: CallSite) -> bool:
        race = self.order.use(timeline, block, use, ranges, by)
        if race is None:
            return False
        earlier, later = (self.sites.place(a.by.frames, a.by.kernel) for a in (race.earlier, race.later))
        finding = Finding(
            FindingKind.HOST_RACE, self._message(race, block, earlier, later), later[1], later[2],
            other=f"{earlier[1]}:{earlier[2]}" if earlier[1] else "",
        )  # fmt: skip
        key = (finding.kind, race.earlier.by, race.later.by, block)
        self._found(finding, by.kernel, key)
        return True

    def _message(self, race: HostRace, block: int, earlier: tuple[str, str, int], later: tuple[str, str, int]) -> str:
        known = self._blocks.get(block)
        name = known.name if known is not None else "memory"
        first, end = race.first - block, race.end - block
        which = f"byte {first}" if end - first == 1 else f"bytes {first} to {end - 1}"
        by_host = race.later.timeline == HOST
        remedy = "the host has waited for neither stream, event nor device" if by_host else "no event orders the two"
        return (
            f"{self._who(race.later, later)} {_verb(race.later.use)} {which} of {name}, which "
            f"{self._who(race.earlier, earlier)} {_verb(race.earlier.use)}: {remedy}"
        )

    def _who(self, access: HostAccess, place: tuple[str, str, int]) -> str:
        stream = ""
        if access.timeline == LEGACY:
            stream = " on the default stream"
        elif access.timeline != HOST:
            numbers = [number for number, timeline in self._streams.items() if timeline == access.timeline]
            stream = f" on stream {numbers[0] - LEGACY}" if numbers else " on a stream that is destroyed"
        function, file, line = place
        return f"{access.by.what}{stream}{where(function, file, line)}"


def where(function: str, file: str, line: int) -> str:
    """Return the words for a place in the program's source, in brackets; "" where it is unknown."""
    words = [f"{Path(file).name}:{line}"] if file else []
    words += [f"in {demangled(function)}"] if function else []
    return f" ({', '.join(words)})" if words else ""


def frames_of(text: str) -> tuple[int, ...]:
    """Return addresses as the library sends them: hexadecimal, with commas; "-" for none."""
    return () if text == "-" else tuple(int(part, 16) for part in text.split(","))


def _verb(use: Use) -> str:
    return "writes" if use & Use.WRITE else "reads"
