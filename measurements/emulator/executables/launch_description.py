"""Description of an executable's launch: parsed from a message of ``library/``, and written for the runner."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from measurements.emulator.executables.order import frames_of
from measurements.emulator.executables.writes import Stretch
from measurements.emulator.host_order import LEGACY
from measurements.emulator.order import Order
from measurements.files.demangle import demangled

ARENA_BASE, ARENA_BYTES = 0x3000_0000_0000, 2**43  # an address range that neither Linux nor sanitizers allocate
HEAP_BYTES = 2**40  # end of the arena: device heap and its bookkeeping (runtime/memory/global/heap.cpp)
_MOST_WATCHED = 256 * 2**20  # size of the largest allocation in which undefined bytes are tracked individually


@dataclass(eq=False)
class LaunchDescription:
    """One launch. ``read`` parses the message of the replacement library, and ``job`` writes the runner's input."""

    module: int = 0
    kernel: str = ""
    grid: tuple[int, ...] = ()
    block: tuple[int, ...] = ()
    cluster: tuple[int, ...] = ()  # empty if the launch has no cluster size
    shared: int = 0
    arguments: list[str] = field(default_factory=list)
    # name, role, address, bytes, and whether the buffer is a variable that was never set
    buffers: list[tuple[str, str, int, int, bool]] = field(default_factory=list)
    symbols: list[tuple[str, int]] = field(default_factory=list)
    textures: list[tuple[str, int, str]] = field(default_factory=list)  # handle, address, other fields
    on_device: list[Stretch] = field(default_factory=list)  # allocations that the host cannot access
    unknown: list[Stretch] = field(default_factory=list)  # ranges of memory with undefined values
    cooperative: bool = False
    stream: int = 0
    dependent: bool = False  # True if the launch may start before its predecessor in the stream has ended
    unfinished: tuple[Stretch, ...] = ()  # memory that predecessors may still write
    unfinished_reads: tuple[Stretch, ...] = ()  # memory that predecessors may still read, but not write
    timeline: int = LEGACY  # number of the stream's timeline in order.ExecutableOrder
    frames: tuple[int, ...] = ()  # call stack of the launch (order.CallSite)
    heap: tuple[int, int] = (8 << 20, 0)  # device heap: maximum allocated bytes, and number of resets

    @classmethod
    def read(cls, text: str) -> LaunchDescription:
        """Parse the message about a launch, which ``run`` in ``library/launches.cpp`` sends."""
        description = cls()
        for line in text.splitlines():
            key, _, rest = line.strip().partition(" ")
            words = rest.split()
            match key:
                case "module":
                    description.module = int(rest)
                case "kernel":
                    description.kernel = rest
                case "grid" | "block" | "cluster":
                    setattr(description, key, tuple(map(int, words)))
                case "shared" | "stream":
                    setattr(description, key, int(rest))
                case "cooperative" | "dependent":
                    setattr(description, key, rest == "1")
                case "heap":
                    description.heap = (int(words[0]), int(words[1]))
                case "site":
                    description.timeline, description.frames = int(words[0]), frames_of(words[1])
                case "argument":
                    description.arguments.append(rest)
                case "unknown":
                    description.unknown.append((int(words[0]), int(words[1])))
                case "buffer":
                    if words[1] == "device" and int(words[3]) <= _MOST_WATCHED:
                        description.on_device.append((int(words[2]), int(words[3])))
                    description.buffers.append((words[0], "variable", int(words[2]), int(words[3]), False))
                case "variable":
                    module, name, constant, unset, address, size = words
                    if int(module) == description.module:
                        description.symbols.append((name, len(description.buffers)))
                    shown = "".join(demangled(name).rpartition("::")[2].split())
                    role = "input" if constant == "1" else "variable"
                    description.buffers.append((shown, role, int(address), int(size), unset == "1"))
                case "texture":
                    description.textures.append((words[0], int(words[1]), " ".join(words[2:])))
        return description

    def is_on_device(self, stretch: Stretch) -> bool:
        """Return True if the bytes are within one allocation that the host cannot access."""
        first, count = stretch
        return any(begin <= first and first + count <= begin + size for begin, size in self.on_device)

    def job(self, order: Order, arena: str, *, launches: int, perturb: bool, copied: bool, list_copy: bool) -> str:
        """Return a description of the launch in the runner's job format (runtime/main.cpp).

        Args:
            order: Order of blocks and threads.
            arena: Path of the file with the program's device memory.
            launches: Number of back-to-back launches on the same memory.
            perturb: If True, approximate instructions have the largest error that the PTX ISA allows.
            copied: If True, the runner writes to a copy of the memory.
            list_copy: If True, the runner lists the bytes that it wrote to the copy.

        Returns:
            The text of the job.
        """

        def numbers(values: Sequence[int]) -> str:
            return " ".join(map(str, values))

        lines = [
            f"grid {numbers(self.grid)}", "launches 1", f"calls {launches}", f"block {numbers(self.block)}",
            *([f"cluster {numbers(self.cluster)}"] if self.cluster else []), f"dynamic_shared_bytes {self.shared}",
            f"cooperative {int(self.cooperative)}", f"dependent {int(self.dependent)}",
            *(f"unfinished -1 {first} {count} 0" for first, count in self.unfinished),
            *(f"unfinished -1 {first} {count} 1" for first, count in self.unfinished_reads),
            "check 1", f"perturb {int(perturb)}", "sparse 0",
            f"order_seed {order.seed}", f"resident {order.resident}",
            f"interleaved {int(order.blocks == 'interleaved')}",
            f"arena {arena} {ARENA_BASE} {ARENA_BYTES} {int(copied)} {int(list_copy)}",
            f"heap {ARENA_BASE + ARENA_BYTES - HEAP_BYTES} {HEAP_BYTES} {numbers(self.heap)} {int(copied)}",
        ]  # fmt: skip
        if order.blocks != "ascending":
            blocks = [int(b) for b in order.of(math.prod(self.grid))]
            lines.append(f"blocks {len(blocks)} {numbers(blocks)}")
        for name, role, address, size, unset in self.buffers:
            lines.append(f"placed {name} {role} {size} {1 if size % 4 else 4} {address} {int(unset)}")
        for first, count in self.unknown:
            for number, (_, _, start, size, _) in enumerate(self.buffers):
                if start <= first < start + size:
                    lines.append(f"unknown {number} {first - start} {count}")
        lines += [f"symbol {name} {buffer}" for name, buffer in self.symbols]
        for handle, address, rest in self.textures:
            for number, (_, _, start, size, _) in enumerate(self.buffers):
                if start <= address < start + max(size, 1):
                    lines.append(f"texture {handle} {number} {address - start} {rest}")
        lines += [f"value {argument}" for argument in self.arguments]
        return "\n".join(lines) + "\n"
