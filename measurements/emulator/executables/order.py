"""Track how the work of an executable's streams and host is ordered, and report unordered accesses to memory."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from measurements.emulator.findings import Finding, FindingKind
from measurements.emulator.host_order import HOST, LEGACY, Clock, HostAccess, HostOrder, HostRace, Ranges, Use
from measurements.files.demangle import demangled

_KINDS_OF_HOST = (1, 2)  # kinds of allocations in library/core.hpp: pinned and managed memory
# CUDA headers, and files that nvcc generates: calls in them are attributed to the calling line of the program.
_HEADERS = ("cuda_runtime.h", "cuda_runtime_api.h", "/crt/", "cooperative_groups", ".cudafe1.")
_MOST_RANGES = 4096  # maximum number of rows of a copy that are tracked individually

UsedStretch = tuple[int, int, int]  # address, number of bytes, use (host_order.Use)


@dataclass(frozen=True)
class CallSite:
    """An operation that uses memory, and the call in the program that submitted it.

    Attributes:
        operation: The operation, such as "cudaMemcpyAsync", "kernel fill(int*)" or "the host".
        frames: Addresses of calls in the program's file, innermost first.
        kernel: Demangled name of the kernel; "" for other operations.
        node: For a graph node: the id of the graph launch, and the frames of the call that created the node.
    """

    operation: str
    frames: tuple[int, ...]
    kernel: str = ""
    node: tuple[int, tuple[int, ...]] | None = field(default=None, compare=False)


@dataclass(frozen=True)
class _Allocation:
    name: str
    seen_by_host: bool


class CallSites:
    """Source locations of a program's calls, found by addr2line of binutils."""

    def __init__(self, program: Path) -> None:
        self._program = program
        self._known: dict[tuple[int, ...], list[tuple[str, str, int]]] = {}

    def location(self, frames: tuple[int, ...], kernel: str = "") -> tuple[str, str, int]:
        """Return function, file and line of the innermost call in the program's own code.

        Args:
            frames: Frames of a ``CallSite``.
            kernel: Kernel whose launch stub is skipped.

        Returns:
            Function, file and line; empty strings and line 0 if unknown.
        """
        if frames not in self._known:
            self._known[frames] = list(self._locations(frames))
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

    def called_at(self, frames: tuple[int, ...], kernel: str = "") -> str:
        """Return text with the location of the innermost call in the program's own code; "" if unknown."""
        return ", ".join(_words(*self.location(frames, kernel)))

    def _locations(self, frames: tuple[int, ...]) -> Iterator[tuple[str, str, int]]:
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


@dataclass(eq=False)
class _Node:
    """A node of a running graph. A node and its successor may share a timeline."""

    timeline: int
    run: int
    frames: tuple[int, ...]
    after: Clock | None = None  # vector clock at which the node's successors begin; None until the node has ended


class _Graphs:
    """Timelines of the nodes of running graphs. Nodes that may run concurrently have different timelines."""

    def __init__(self, order: HostOrder) -> None:
        self._order = order
        # Unused timelines by parent. The parent is the timeline of the stream, or of the graph's parent node.
        self._free: dict[int, list[int]] = {}
        self._begun: dict[int, tuple[int, Clock]] = {}  # id of the graph launch, and the clock at its start; by parent
        self._last: dict[int, int] = {}  # id of the last node, by timeline
        self._runs = 0
        self.nodes: dict[int, _Node] = {}
        self.stream_of: dict[int, int] = {}  # maps the timeline of a node to the timeline of its stream

    def begin(self, number: int, parent: int, after: Sequence[int], frames: tuple[int, ...]) -> int:
        """Begin a node, and return its timeline.

        Args:
            number: Id of the node.
            parent: Timeline of the stream, or of the graph's parent node.
            after: Ids of its predecessors.
            frames: Frames of the call that created the node.
        """
        if parent not in self._begun:
            outer = self.nodes.get(self._last.get(parent, 0))  # if set, the graph is a child graph of this node
            self._runs += outer is None
            self._order.begin(parent)
            self._begun[parent] = (outer.run if outer is not None else self._runs, self._order.clock(parent))
        run, clock = self._begun[parent]
        before = [self.nodes[n] for n in after]
        follows = [node for n, node in zip(after, before, strict=True) if self._last.get(node.timeline) == n]
        if follows:
            timeline = follows[0].timeline
        else:
            free = self._free.setdefault(parent, [])
            timeline = free.pop() if free else self._order.add_nodes()
            self.stream_of[timeline] = self.stream_of.get(parent, parent)
        self._order.begin_node(timeline, [clock, *(node.after for node in before if node.after is not None)])
        self.nodes[number] = _Node(timeline, run, frames)
        self._last[timeline] = number
        return timeline

    def end(self, number: int) -> None:
        """End a node, so that its successors may begin."""
        self.nodes[number].after = self._order.clock(self.nodes[number].timeline)

    def join(self, parent: int, numbers: Sequence[int]) -> None:
        """End a graph: later operations of its stream or parent happen after all its nodes."""
        nodes = [self.nodes.pop(n) for n in numbers]
        for node in nodes:
            if node.after is not None:
                self._order.wait(parent, node.after)
        timelines = {node.timeline for node in nodes}
        for timeline in timelines:
            self._last.pop(timeline, None)
        self._free.setdefault(parent, []).extend(timelines)
        self._begun.pop(parent, None)


class ExecutableOrder:
    """Tracks the streams of a program, and reports unordered accesses to memory.

    Args:
        program: Path of the executable.
        on_finding: Called with each finding, the kernel's name, and a key that identifies the two source locations.
    """

    def __init__(self, program: Path, on_finding: Callable[[Finding, str, tuple[object, ...]], None]) -> None:
        self.order = HostOrder()
        self.sites = CallSites(program)
        self._on_finding = on_finding
        self._streams = {LEGACY: LEGACY}  # timelines; the key is the number of the stream or of the running graph node
        self._graphs = _Graphs(self.order)
        self._events: dict[int, Clock] = {}
        self._blocks: dict[int, _Allocation] = {}

    def follow(self, lines: Iterable[str]) -> None:
        """Process the operations that the program submitted since the last call. Each line contains one operation."""
        for line in lines:
            event, *rest = line.split(" ")
            match event:
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
                case "node":
                    number, stream, site, *after = rest
                    self._streams[int(number)] = self._graphs.begin(
                        int(number), self._streams[int(stream)], [int(n) for n in after], frames_of(site)
                    )
                case "node_done":
                    self._graphs.end(int(rest[0]))
                case "joined":
                    numbers = [int(n) for n in rest[1:]]
                    self._graphs.join(self._streams[int(rest[0])], numbers)
                    for n in numbers:
                        self._streams.pop(n)
                case "work":
                    self._work(rest)

    def _work(self, rest: list[str]) -> None:
        stream, end = self._streams[int(rest[0])], 4 + 6 * int(rest[3])
        by = CallSite(" ".join(rest[end:]), frames_of(rest[2]), node=self._node(int(rest[0])))
        self.order.begin(stream)
        numbers = [int(n) for n in rest[4:end]]
        for k in range(0, len(numbers), 6):
            block, first, width, rows, pitch, use = numbers[k : k + 6]
            starts = first + pitch * np.arange(min(rows, _MOST_RANGES), dtype=np.int64)
            self._judge(stream, block, Use(use), np.stack([starts, starts + width], axis=1), by)
        if rest[1] == "1":
            self.order.synchronize(stream)

    def launch(self, stream: int, kernel: str, frames: tuple[int, ...], uses: Iterable[UsedStretch]) -> None:
        """Process a completed launch.

        Args:
            stream: Timeline of its stream.
            kernel: Demangled name of the kernel.
            frames: Frames of its ``CallSite``.
            uses: Memory that it used.
        """
        number, by = self._streams[stream], CallSite(f"kernel {kernel}", frames, kernel, self._node(stream))
        self.order.begin(number)
        starts = np.array(sorted(self._blocks), np.int64)
        by_block: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for address, count, use in uses:
            at = int(np.searchsorted(starts, address, side="right")) - 1
            if at >= 0:
                by_block.setdefault((int(starts[at]), use), []).append((address, address + count))
        for (block, use), ranges in by_block.items():
            self._judge(number, block, Use(use), np.array(ranges, np.int64), by)

    def _node(self, number: int) -> tuple[int, tuple[int, ...]] | None:
        node = self._graphs.nodes.get(number)
        return (node.run, node.frames) if node is not None else None

    def touch(self, block: int, address: int, use: int, frames: tuple[int, ...]) -> bool:
        """Process an access of the host.

        Args:
            block: Address of the allocation.
            address: Address of the access.
            use: Kind of access (``host_order.Use``).
            frames: Frames of its ``CallSite``.

        Returns:
            True if the access is not a race, but pending operations still use the memory, so that later accesses must
            be checked, too.
        """
        ranges = np.array([[address, address + 1]], np.int64)
        raced = self._judge(HOST, block, Use(use), ranges, CallSite("the host", frames))
        return not raced and bool(self.order.pending(block))

    def node_site(self, number: int) -> tuple[str, str, int]:
        """Return function, file and line of the call that created a running graph node (``CallSites.location``)."""
        return self.sites.location(self._graphs.nodes[number].frames)

    def pending(self) -> Iterator[UsedStretch]:
        """Yield the host-accessible memory that is used by operations for which the host has not waited."""
        for block in self.order.pending_blocks():
            known = self._blocks.get(block)
            for access in self.order.pending(block) if known is not None and known.seen_by_host else ():
                for first, end in access.ranges.tolist():
                    yield first, end - first, int(access.use & (Use.READ | Use.WRITE))

    def _judge(self, timeline: int, block: int, use: Use, ranges: Ranges, by: CallSite) -> bool:
        race = self.order.use(timeline, block, use, ranges, by)
        if race is None:
            return False
        uses: tuple[CallSite, CallSite] = (race.earlier.by, race.later.by)
        in_graph = uses[0].node is not None and uses[1].node is not None and uses[0].node[0] == uses[1].node[0]
        # If both accesses are by nodes of one graph, a single call launched them. So the calls that created the nodes
        # are shown.
        earlier, later = (
            self.sites.location(use.node[1] if in_graph and use.node is not None else use.frames, use.kernel)
            for use in uses
        )
        finding = Finding(
            FindingKind.HOST_RACE, self._message(race, block, earlier, later, in_graph), later[1], later[2],
            other=f"{earlier[1]}:{earlier[2]}" if earlier[1] else "",
        )  # fmt: skip
        key = (finding.kind, race.earlier.by, race.later.by, block, earlier, later)
        self._on_finding(finding, by.kernel, key)
        return True

    def _message(
        self, race: HostRace, block: int, earlier: tuple[str, str, int], later: tuple[str, str, int], in_graph: bool
    ) -> str:
        known = self._blocks.get(block)
        name = known.name if known is not None else "memory"
        first, end = race.first - block, race.end - block
        which = f"byte {first}" if end - first == 1 else f"bytes {first} to {end - 1}"
        by_host = race.later.timeline == HOST
        remedy = (
            "the host did not wait for the stream, an event or the device"
            if by_host
            else "no event orders the two accesses"
        )
        if in_graph:
            remedy = "no path along the graph's edges orders the two accesses"
        return (
            f"{self._actor(race.later, later)} {_verb(race.later.use)} {which} of {name}, which "
            f"{self._actor(race.earlier, earlier)} {_verb(race.earlier.use)}: {remedy}"
        )

    def _actor(self, access: HostAccess, call_site: tuple[str, str, int]) -> str:
        stream = ""
        if access.timeline == LEGACY:
            stream = " on the default stream"
        elif access.timeline != HOST:
            timeline = self._graphs.stream_of.get(access.timeline, access.timeline)
            numbers = [number for number, known in self._streams.items() if known == timeline]
            stream = f" on stream {numbers[0] - LEGACY}" if numbers else " on a destroyed stream"
        if access.by.node is not None:
            stream = f" in a graph{stream}"
        function, file, line = call_site
        return f"{access.by.operation}{stream}{where(function, file, line)}"


def where(function: str, file: str, line: int) -> str:
    """Return the text of a source location in brackets; "" if it is unknown."""
    words = _words(function, file, line)
    return f" ({', '.join(words)})" if words else ""


def _words(function: str, file: str, line: int) -> list[str]:
    words = [f"{Path(file).name}:{line}"] if file else []
    return words + ([f"in {demangled(function)}"] if function else [])


def frames_of(text: str) -> tuple[int, ...]:
    """Return the addresses in a message of the library: hexadecimal, separated by commas; "-" for none."""
    return () if text == "-" else tuple(int(part, 16) for part in text.split(","))


def _verb(use: Use) -> str:
    return "writes" if use & Use.WRITE else "reads"
