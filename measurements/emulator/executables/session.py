"""Answer the requests of a running executable by emulating its launches.

The replacement libraries in the program send the requests (library/session.cpp). A request consists of two lengths,
followed by a text and by data of these lengths. An answer consists of a length and a text. Device memory is one file.
The program and the runner of each launch map the file at the same address, so pointers are valid in both, and nothing
is copied.
"""

from __future__ import annotations

import re
import resource
import socket
import struct
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from measurements.emulator.executables.executable_launch import (
    NOT_SUPPORTED,
    ExecutableLaunch,
    LaunchState,
    error_of,
    joined,
)
from measurements.emulator.executables.fatbin import FatBinaryError
from measurements.emulator.executables.launch_description import LaunchDescription
from measurements.emulator.executables.modules import PtxModule
from measurements.emulator.executables.order import ExecutableOrder, frames_of, where
from measurements.emulator.executables.reported import ReportedFindings
from measurements.emulator.executables.result import ExecutableOptions, LaunchFinding
from measurements.emulator.findings import Finding, FindingKind, Grade
from measurements.emulator.ptx.build import KernelCompileError
from measurements.emulator.ptx.parser import PtxError
from measurements.files.demangle import demangled

# Runs a launch several times. Only the last run changes the program's memory.
LaunchVerifier = Callable[[ExecutableLaunch], None]

_SIZES = struct.Struct("<QQ")
_NO_IMAGE, _INVALID_FUNCTION = 209, 98
_CLOCK_KHZ = 1000
_MANGLED = re.compile(r"\b_Z\w+")


class ExecutableSession:
    """State of a running program: its modules, launches and streams."""

    def __init__(
        self,
        options: ExecutableOptions,
        program: Path,
        state: LaunchState,
        report: ReportedFindings,
        verify: LaunchVerifier,
    ) -> None:
        self.options, self.state, self.report, self.verify = options, state, report, verify
        self.modules: dict[int, PtxModule] = {}
        self.order = ExecutableOrder(program, report.add_of_host)
        self.answers: Mapping[str, Callable[[str, bytes], str]] = {
            "hello": self.hello,
            "module": self.load,
            "kernel": self.kernel,
            "launch": self.launch,
            "iteration": self.iteration,
            "misuse": self.misuse,
            "lacking": self.lacking,
            "machine_code": self.machine_code,
            "used": self.used,
            "unwritten": self.unwritten,
            "order": self.follow,
            "touch": self.touch,
            "pending": self.pending,
        }
        self.refused_cubin = False
        # CPU seconds at which a loop in a graph began, by the id of the loop's node.
        self._loops: dict[int, float] = {}

    def serve(self, connection: socket.socket) -> None:
        """Answer requests until the program ends."""
        self.answer_all(connection)
        self.report.was_never_read()
        if self.refused_cubin:
            self.report.complain(
                "the program loads a cubin, which has only machine code: load PTX, which the emulator needs"
            )

    def end(self, status: int) -> None:
        """Process the program's exit status. If it failed, copies of undefined memory are reported as faults."""
        if status:
            self.report.has_failed()

    def answer_all(self, connection: socket.socket) -> None:
        """Answer each message of a connection until it closes."""
        while (head := _received(connection, _SIZES.size)) is not None:
            text_bytes, data_bytes = _SIZES.unpack(head)
            text, data = _received(connection, text_bytes), _received(connection, data_bytes)
            if text is None or data is None:
                return
            name, _, rest = text.decode(errors="replace").replace("\n", " \n", 1).partition(" ")
            answer = self.answers[name](rest, data).encode()
            try:
                connection.sendall(struct.pack("<Q", len(answer)) + answer)
            except OSError:
                return

    # Answers --------------------------------------------------------------------------------------------------------

    def hello(self, _: str, __: bytes) -> str:
        """Return the emulated device's properties, one per line."""
        d = self.options.device
        facts: dict[str, object] = {
            "name": f"{d.driver_names[0] if d.driver_names else d.name} (emulated by autosched)",
            "major": d.sm // 10,
            "minor": d.sm % 10,
            "sm_count": d.sm_count,
            "clock_khz": int(d.clock_hz / _CLOCK_KHZ),
            "undefined_memory": int(self.options.undefined_memory),
        }
        names = (
            "memory_bytes", "l2_bytes", "shared_per_block", "shared_per_sm", "max_threads_per_sm", "max_blocks_per_sm",
            "reserved_shared_per_block",
        )  # fmt: skip
        facts |= {name: getattr(d, name) for name in names}
        return "\n".join(f"{name} {value}" for name, value in facts.items())

    def load(self, rest: str, image: bytes) -> str:
        """Load a module, and return an error code and the module's variables."""
        try:
            loaded = PtxModule.from_image(image, self.options.device)
        except (FatBinaryError, PtxError) as error:
            prefix = "a module of the program " if isinstance(error, FatBinaryError) else ""
            self.report.complain(f"{prefix}{error}")
            return str(_NO_IMAGE)
        self.modules[int(rest)] = loaded
        self.refused_cubin = False  # the program has loaded this PTX instead of the cubin
        return "\n".join(["0", *loaded.variable_lines()])

    def kernel(self, rest: str, _: bytes) -> str:
        """Look up a kernel of a module, and return an error code and the kernel's facts."""
        number, name = rest.split()
        loaded = self.modules[int(number)]
        if not loaded.has_kernel(name):
            self.report.complain(f"the program's PTX has no kernel {demangled(name)}")
            return str(_INVALID_FUNCTION)
        try:
            facts = loaded.kernel_facts(name, self.options.device)
        except KernelCompileError as error:
            self.report.complain(f"{demangled(name)} cannot be emulated: {error.reason}")
            return str(NOT_SUPPORTED)
        return " ".join(map(str, (0, *facts)))

    def misuse(self, rest: str, _: bytes) -> str:
        """Report a misuse of CUDA's interface as a finding."""
        message = _MANGLED.sub(lambda name: demangled(name[0]), rest)
        self.report.add(LaunchFinding("api_misuse", message, None), ("api_misuse", message))
        return ""

    def lacking(self, rest: str, _: bytes) -> str:
        """Report that the program has called a function that is not emulated."""
        self.report.complain(f"{rest} is not emulated")
        return ""

    def machine_code(self, _: str, __: bytes) -> str:
        """Record that a cubin was rejected."""
        self.refused_cubin = True
        return ""

    def used(self, _: str, __: bytes) -> str:
        """Report delayed findings as faults, because the program reads undefined memory."""
        self.report.was_read()
        return ""

    def unwritten(self, rest: str, _: bytes) -> str:
        """Report that the host copies undefined memory, unless an unsupported function may have written the memory."""
        if self.report.result.lacking:
            return ""
        all_of_it, first, end, size, _stream, frames, name = rest.split(" ", 6)
        function, file, line = self.order.sites.location(frames_of(frames))
        at = where(function, file, line)
        if all_of_it == "1":
            message = f"the host{at} copies {name} ({size} bytes), of which no byte was written"
        else:
            message = (
                f"the host{at} copies bytes {first} to {int(end) - 1} of {name} ({size} bytes): these bytes were never "
                "written, and are replaced by 0xFF in the copy"
            )
        grade: Grade = "fault" if all_of_it == "1" else "note"
        finding = Finding(FindingKind.UNINITIALIZED_HOST_READ, message, file, line, grade=grade)
        self.report.add_of_host(finding, "", (finding.kind, name, grade))
        return ""

    def follow(self, rest: str, _: bytes) -> str:
        """Process operations that the program submits to streams."""
        self.order.follow(rest.split("\n")[1:])
        return ""

    def touch(self, rest: str, _: bytes) -> str:
        """Check an access of the host. Return "pending" if later accesses must be checked, too."""
        block, address, use, frames = rest.split()
        return "pending" if self.order.touch(int(block), int(address), int(use), frames_of(frames)) else ""

    def pending(self, _: str, __: bytes) -> str:
        """Return the memory ranges that pending operations use.

        The library must report host accesses to these ranges.
        """
        return _lines_of(self.order.pending())

    def launch(self, rest: str, _: bytes) -> str:
        """Run a launch, and return its error, its printed output and three lists of memory ranges.

        The first list contains memory with undefined contents. The second list contains memory with contents that the
        launch computed from undefined values. The third list contains memory that pending operations use.
        """
        result = self.report.result
        result.launches += 1
        described = LaunchDescription.read(rest)
        # GPUs before sm_90 ignore the attribute for dependent launches: the launch begins when its predecessor has
        # ended.
        described.dependent = described.dependent and self.options.device.has("programmatic_launch")
        module = self.modules[described.module]
        launch = ExecutableLaunch(result.launches, described, module, self.state, self.report, self.order.sites)
        self.verify(launch)
        done, doubtful = launch.conclude()
        error, is_sticky = error_of(done)
        self.order.launch(described.timeline, launch.kernel, described.frames, done.uses)
        stretches: list[list[tuple[int, ...]]]
        stretches = [[*joined(done.unknown)], [*joined(doubtful)], [*self.order.pending()]]
        head = " ".join(map(str, (error, int(is_sticky), *map(len, stretches))))
        lines = [head, *(_lines_of(each) for each in stretches if each)]
        return "\n".join(lines) + f"\n{done.printed}"

    def iteration(self, rest: str, _: bytes) -> str:
        """Return "ended" if the iterations of a loop in a graph have exceeded their time limit, otherwise ""."""
        node, iterations = map(int, rest.split())
        now, limit = _cpu_seconds(), self.options.loop_limit
        began = self._loops.setdefault(node, now)
        if now - began <= limit:
            return ""
        function, file, line = self.order.node_site(node)
        message = (
            f"a loop of a graph{where(function, file, line)} has not ended after {iterations:,} iterations and "
            f"{limit:g} s: check that its condition becomes 0, or raise --time-limit"
        )
        finding = Finding(FindingKind.TIMEOUT, message, file, line)
        self.report.add_of_host(finding, "", (finding.kind, file, line))
        return "ended"


def _cpu_seconds() -> float:
    """Return the CPU time in seconds of this process and of the processes that emulated its launches."""
    return time.process_time() + sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])


def _lines_of(stretches: Iterable[tuple[int, ...]]) -> str:
    return "\n".join(" ".join(map(str, stretch)) for stretch in stretches)


def _received(connection: socket.socket, count: int) -> bytes | None:
    """Return ``count`` bytes; None if the program has ended."""
    data = bytearray()
    while len(data) < count:
        try:
            more = connection.recv(min(count - len(data), 1 << 20))
        except OSError:
            return None
        if not more:
            return None
        data += more
    return bytes(data)
