"""Runs a CUDA program whose launches are emulated, and answers what its stand-in of libcudart asks (library/core.cpp).

A message is two lengths, a text and bytes; an answer is a length and a text. Device memory is one file that the program
and each launch map at the same addresses: pointers mean the same wherever they are stored, and nothing is copied.
"""

from __future__ import annotations

import math
import os
import re
import shutil
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from measurements.emulator.effect import (
    HARMLESS,
    KINDS_OF_GARBAGE,
    UNREAD,
    UNWRITTEN,
    as_notes,
    ends_as,
    may_go_nowhere,
    time_limit_of,
)
from measurements.emulator.emulator import machine_failures, run_job
from measurements.emulator.executables.fatbin import FatBinaryError, ptx_texts
from measurements.emulator.executables.launch import ARENA_BASE, ARENA_BYTES, HEAP_BYTES, ExecutableLaunch
from measurements.emulator.executables.libraries import (
    DRIVER,
    RUNTIMES,
    foreign_libraries,
    has_text,
    library_folder,
    missing_functions,
    needed_libraries,
    opens_driver,
)
from measurements.emulator.executables.link import link
from measurements.emulator.executables.order import ProgramOrder, frames_of, where
from measurements.emulator.executables.result import (
    ExecutableOptions,
    ExecutableRefused,
    ExecutableResult,
    LaunchFinding,
)
from measurements.emulator.executables.writes import Stretch, Writes, stretches
from measurements.emulator.findings import Emulation, Finding, FindingKind, Grade, of_compiled_code
from measurements.emulator.host.build import runner
from measurements.emulator.host.work_folders import temporary_folder
from measurements.emulator.host_order import Use
from measurements.emulator.order import Order
from measurements.emulator.ptx.build import CompiledBytecode, KernelCompileError, ptx_to_program
from measurements.emulator.ptx.bytecode import FUNCTION_BASE
from measurements.emulator.ptx.parser import PtxError, parse
from measurements.emulator.ptx.syntax import Module, Number, Symbol
from measurements.emulator.suppression import suppress
from measurements.files.bounded import open_readable
from measurements.files.demangle import demangled
from search_spaces.hardware.devices import Device

_SIZES = struct.Struct("<QQ")
_NO_IMAGE, _INVALID_FUNCTION, _LAUNCH_FAILURE, _TIMEOUT, _ASSERTION, _NOT_SUPPORTED = 209, 98, 719, 702, 710, 801
_CLOCK_KHZ = 1000
_DEPENDENT_SINCE = 90  # compute capability of programmatic dependent launch
_LAUNCH_WITH_ATTRIBUTES = b"LaunchKernelEx"
_MANGLED = re.compile(r"\b_Z\w+")
_STATIC_SHARED = re.compile(r"^static_shared (\d+)", re.M)
_USES_HEAP = re.compile(r"\bheap\.(?:malloc|free)\b")


def run_executable(
    command: Sequence[str], options: ExecutableOptions, told: Callable[[LaunchFinding | str], None]
) -> ExecutableResult:
    """Run a program with its arguments. ``told`` gets each finding the moment it is made, once for each kernel, kind
    and line, and each thing that is lacking, as a sentence.

    Raises ExecutableRefused for what is not a program linked with the shared runtime, HostFailure where this machine
    cannot compile or run the emulator.
    """
    program = _program(command[0])
    needed = needed_libraries(program)
    mine = [n for n in needed if n in RUNTIMES or n == DRIVER]
    if not mine and (options.driver or opens_driver(program)):
        mine = [DRIVER]
    if not mine:
        raise ExecutableRefused(
            f"{command[0]} is not linked with the shared CUDA runtime: compile it with nvcc -cudart shared -lineinfo"
        )
    if foreign := foreign_libraries(needed):
        raise ExecutableRefused(f"{command[0]} needs {', '.join(foreign)}, which nothing stands in for without a GPU")
    started = time.monotonic()
    result = ExecutableResult()
    with machine_failures(), temporary_folder() as work:
        folder = library_folder()
        runner()  # compiled before the program starts, if it is not there
        missing, _ = missing_functions(program, folder, work)
        arena = os.memfd_create("autosched-device-memory")
        ours, theirs = socket.socketpair()
        try:
            os.ftruncate(arena, ARENA_BYTES)
            preload = [str(folder / n) for n in mine] + ([str(missing)] if missing else [])
            environment = dict(os.environ)
            environment["LD_LIBRARY_PATH"] = ":".join(filter(None, (str(folder), environment.get("LD_LIBRARY_PATH"))))
            environment["LD_PRELOAD"] = ":".join([*preload, *filter(None, [environment.get("LD_PRELOAD")])])
            environment["AUTOSCHED_PROGRAM"] = f"{theirs.fileno()} {arena} {ARENA_BASE} {ARENA_BYTES} {HEAP_BYTES}"
            process = subprocess.Popen([str(program), *command[1:]], env=environment, pass_fds=(theirs.fileno(), arena))
            theirs.close()
            try:
                memory = f"/proc/{os.getpid()}/fd/{arena}"
                may_overlap = options.device.sm >= _DEPENDENT_SINCE and has_text(program, _LAUNCH_WITH_ATTRIBUTES)
                session = _ExecutableSession(options, program, work, memory, result, told, may_overlap)
                session.serve(ours)
                result.status = process.wait()
                session.end(result.status)
            finally:
                if process.poll() is None:
                    process.kill()
                    process.wait()
        finally:
            ours.close()
            theirs.close()
            os.close(arena)
    result.seconds = time.monotonic() - started
    return result


def _program(name: str) -> Path:
    path = Path(name)
    if "/" not in name and not path.exists():
        found = shutil.which(name)
        path = Path(found) if found else path
    try:
        with open_readable(path, regular=True) as file:
            head = file.read(4)
    except OSError as error:
        raise ExecutableRefused(f"{name} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ExecutableRefused(f"{name} cannot be run: {error}") from None
    if head != b"\x7fELF":
        raise ExecutableRefused(f"{name} is not a program of this machine (an ELF file)")
    return path.absolute()  # not what a link leads to: Python finds its environment by its own name


@dataclass(eq=False)
class _LoadedModule:
    """The PTX of a module of the program, its kernels' programs by name, and the kernels that use the device's heap."""

    text: str
    module: Module
    programs: dict[str, CompiledBytecode] = field(default_factory=dict)
    of_heap: set[str] = field(default_factory=set)


class _ExecutableSession:
    def __init__(
        self,
        options: ExecutableOptions,
        program: Path,
        work: Path,
        arena: str,
        result: ExecutableResult,
        told: Callable[[LaunchFinding | str], None],
        may_overlap: bool,
    ) -> None:
        self.options, self.work, self.arena, self.result, self.told = options, work, arena, result, told
        self.modules: dict[int, _LoadedModule] = {}
        self.seen: set[tuple[object, ...]] = set()
        self.order = ProgramOrder(program, self.raced)
        self.answers: Mapping[str, Callable[[str, bytes], str]] = {
            "hello": self.hello,
            "module": self.load,
            "kernel": self.kernel,
            "launch": self.launch,
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
        self.heap_was_used = False
        # By stream, what kernels write, and what they only read, that a dependent launch behind them may overlap; only
        # where there are such.
        self.may_overlap = may_overlap
        self.unfinished: dict[int, tuple[tuple[Stretch, ...], tuple[Stretch, ...]]] = {}
        self.unread: list[tuple[LaunchFinding, tuple[object, ...]]] = []  # faults, if anything is read that they left

    def serve(self, connection: socket.socket) -> None:
        """Answers until the program ends."""
        self.answer_all(connection)
        for found, key in self.unread:
            assert found.finding is not None
            message = f"{found.message}; {UNREAD}"
            note = replace(found.finding, grade="note", message=message)
            self.add(replace(found, message=message, finding=note), (*key, "note"))
        if self.refused_cubin:
            self.complain("a cubin is machine code alone, and PTX is emulated: have PTX beside it")

    def end(self, status: int) -> None:
        """Take the program's exit status: memory without a value that it has copied is a fault of one that fails."""
        copied = [
            f for f in self.result.findings if f.kind == str(FindingKind.UNINITIALIZED_HOST_READ) and not f.is_fault
        ]
        for found in copied if status else ():
            assert found.finding is not None
            message = f"{found.message}; the program has failed"
            finding = replace(found.finding, grade="fault", message=message)
            self.add(replace(found, message=message, finding=finding), (found.kind, found.message, "failed"))

    def answer_all(self, connection: socket.socket) -> None:
        while (head := _received(connection, _SIZES.size)) is not None:
            of_text, of_bytes = _SIZES.unpack(head)
            text, data = _received(connection, of_text), _received(connection, of_bytes)
            if text is None or data is None:
                return
            what, _, rest = text.decode(errors="replace").replace("\n", " \n", 1).partition(" ")
            answer = self.answers[what](rest, data).encode()
            try:
                connection.sendall(struct.pack("<Q", len(answer)) + answer)
            except OSError:
                return

    # Answers --------------------------------------------------------------------------------------------------------

    def hello(self, _: str, __: bytes) -> str:
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
        number = int(rest)
        try:
            text = link(_fitting(ptx_texts(image), self.options.device))
            module = parse(text)
        except (FatBinaryError, PtxError) as error:
            self.complain(f"a module of the program {error}" if isinstance(error, FatBinaryError) else str(error))
            return str(_NO_IMAGE)
        self.modules[number] = _LoadedModule(text, module)
        self.refused_cubin = False  # this stands for it
        lines = ["0"]
        numbers = {name: FUNCTION_BASE + number for number, name in enumerate(module.functions)}
        for v in module.variables:
            if v.space not in ("global", "const"):
                continue
            data = bytearray(v.bytes)
            for k, initial in enumerate(v.initial):
                at = k * v.element_bytes
                if isinstance(initial, Number):
                    bits = initial.bits
                    if initial.kind == "d" and v.element_bytes == 4:
                        bits = int.from_bytes(
                            struct.pack("<f", struct.unpack("<d", initial.bits.to_bytes(8, "little"))[0]), "little"
                        )
                    data[at : at + v.element_bytes] = (bits & (1 << 8 * v.element_bytes) - 1).to_bytes(
                        v.element_bytes, "little"
                    )
            functions = {
                k: numbers[initial.name] + initial.offset
                for k, initial in enumerate(v.initial)
                if isinstance(initial, Symbol) and initial.name in numbers
            }
            for k, address in functions.items():
                data[k * 8 : k * 8 + 8] = address.to_bytes(8, "little")
            # No host registers the table of a class's virtual functions, to which objects of later launches point, too.
            kind = "table" if functions else "variable"
            lines.append(f"{kind} {v.name} {v.bytes} {data.hex() if v.initial else '-'}")
            for k, initial in enumerate(v.initial):
                if isinstance(initial, Symbol) and k not in functions:
                    lines.append(f"relocation {v.name} {k * v.element_bytes} {initial.name} {initial.offset}")
        return "\n".join(lines)

    def kernel(self, rest: str, _: bytes) -> str:
        number, name = rest.split()
        loaded = self.modules[int(number)]
        function = loaded.module.functions.get(name)
        if function is None or not function.is_kernel:
            self.complain(f"the program's PTX has no kernel {demangled(name)}")
            return str(_INVALID_FUNCTION)
        try:
            program = loaded.programs[name] = ptx_to_program(loaded.text, name, loaded.module)
        except KernelCompileError as error:
            self.complain(f"{demangled(name)} cannot be emulated: {error.reason}")
            return str(_NOT_SUPPORTED)
        sizes = function.most_threads or function.exact_threads
        most = min(math.prod(sizes), 1024) if sizes else 1024
        text = program.path.read_text(errors="replace")
        found = _STATIC_SHARED.search(text)
        compiled_for = int("".join(c for c in loaded.module.target if c.isdecimal()) or self.options.device.sm)
        if _USES_HEAP.search(text) is not None:
            loaded.of_heap.add(name)
        facts = (0, most, int(found[1]) if found else 0, 0, int(name in loaded.of_heap), compiled_for)
        return " ".join(map(str, (*facts, *(p.bytes for p in function.parameters))))

    def misuse(self, rest: str, _: bytes) -> str:
        said = _MANGLED.sub(lambda name: demangled(name[0]), rest)
        self.add(LaunchFinding("api_misuse", said, None), ("api_misuse", said))
        return ""

    def lacking(self, rest: str, _: bytes) -> str:
        self.complain(f"{rest} is not emulated")
        return ""

    def machine_code(self, _: str, __: bytes) -> str:
        self.refused_cubin = True
        return ""

    def used(self, _: str, __: bytes) -> str:
        """Say of what was left in memory, and nobody has written, that the program takes it."""
        for found, key in self.unread:
            self.add(found, (*key, "fault"))
        self.unread.clear()
        return ""

    def unwritten(self, rest: str, _: bytes) -> str:
        """Take a copy to the host of memory that nobody has written."""
        all_of_it, first, end, size, _stream, frames, name = rest.split(" ", 6)
        function, file, line = self.order.sites.place(frames_of(frames))
        at = where(function, file, line)
        if all_of_it == "1":
            message = f"the host{at} copies {name}, which has {size} bytes, and nobody has written any of them"
        else:
            message = (
                f"the host{at} copies bytes {first} to {int(end) - 1} of {name}, which has {size}, and nobody has "
                "written them; it gets bytes of 0xFF"
            )
        grade: Grade = "fault" if all_of_it == "1" else "note"
        finding = Finding(FindingKind.UNINITIALIZED_HOST_READ, message, file, line, grade=grade)
        self.host_finding(finding, "", (finding.kind, name, grade))
        return ""

    def host_finding(self, finding: Finding, kernel: str, key: tuple[object, ...]) -> None:
        """Add a finding of what the host does, unless it is expected."""
        if not any(s.matches(finding) for s in self.options.suppressions):
            self.add(LaunchFinding(str(finding.kind), finding.message, finding, kernel), key)

    def raced(self, finding: Finding, kernel: str, key: tuple[object, ...]) -> None:
        self.host_finding(finding, kernel, key)

    def follow(self, rest: str, _: bytes) -> str:
        self.order.follow(rest.split("\n")[1:])
        return ""

    def touch(self, rest: str, _: bytes) -> str:
        block, address, use, frames = rest.split()
        return "pending" if self.order.touch(int(block), int(address), int(use), frames_of(frames)) else ""

    def pending(self, _: str, __: bytes) -> str:
        return _lines_of(self.order.pending())

    def complain(self, sentence: str) -> None:
        if sentence not in self.result.lacking:
            self.result.lacking.append(sentence)
            self.told(sentence)

    def add(self, finding: LaunchFinding, key: tuple[object, ...]) -> None:
        if key not in self.seen:
            self.seen.add(key)
            self.result.findings.append(finding)
            self.told(finding)

    # Launches -------------------------------------------------------------------------------------------------------

    def launch(self, rest: str, _: bytes) -> str:
        self.result.launches += 1
        asked = ExecutableLaunch.read(rest)
        self.may_overlap = self.may_overlap or asked.dependent
        if asked.dependent:
            asked.unfinished, asked.unfinished_reads = self.unfinished.get(asked.stream, ((), ()))
        self.heap_was_used = self.heap_was_used or asked.kernel in self.modules[asked.module].of_heap
        doubts = [self.run(asked, order, kept=False)[1] for order in self.options.more_orders]
        done, doubt = self.run(asked, self.options.order, kept=True)
        known = {key for _, key in doubt.findings}
        for found, key in (one for other in doubts for one in other.findings if one[1] not in known):
            self.add(found, (*key, "fault"))
        waiting = {key for _, key in self.unread}
        self.unread += [one for one in doubt.findings if one[1] not in waiting]
        error, stays = _error_of(done)
        self.order.launch(asked.timeline, demangled(asked.kernel), asked.frames, done.uses)
        stretches: list[list[tuple[int, ...]]]
        stretches = [[*_joined(done.unknown)], [*_joined(doubt.memory)], [*self.order.pending()]]
        head = " ".join(map(str, (error, int(stays), *map(len, stretches))))
        lines = [head, *(_lines_of(each) for each in stretches if each)]
        return "\n".join(lines) + f"\n{done.printed}"

    def run(self, asked: ExecutableLaunch, order: Order, *, kept: bool) -> tuple[Emulation, _Doubt]:
        """Emulate a launch; what it writes stays in memory where it is ``kept``."""
        raw = self.emulate(asked, order, kept=kept)
        writes = Writes.read(self.work / "data")
        doubt = _Doubt()
        open_ones = {(f.kind, f.file, f.line, asked.kernel, "fault") for f in raw.faults if f.kind in UNWRITTEN}
        if may_go_nowhere(raw) and not self.heap_was_used and not open_ones <= self.seen:
            left = self.left_differently(raw, writes, asked, order)
            if left is not None and not left:
                raw = as_notes(raw, HARMLESS)
            elif left is not None and not asked.textures and all(map(asked.is_on_device, left)):
                doubt.memory = left
        if kept and self.may_overlap:
            written, read = ((), ()) if raw.waited else (asked.unfinished, asked.unfinished_reads)
            reads = [(first, count) for first, count, use in raw.uses if use & Use.READ]
            self.unfinished[asked.stream] = (
                tuple(_joined((*written, *writes.pieces))),
                tuple(_joined((*read, *reads))),
            )
        if kept and not self.heap_was_used:
            self.write(writes)
        done = suppress(of_compiled_code(raw), self.options.suppressions)
        shape = f"grid ({', '.join(map(str, asked.grid))}), block ({', '.join(map(str, asked.block))})"
        if not kept:
            shape += f", order {order.name}"
        kernel = demangled(asked.kernel)
        called_at = self.order.sites.called_at(asked.frames, kernel) if done.findings else ""
        for f in done.findings:
            found = LaunchFinding(str(f.kind), f.message, f, kernel, self.result.launches, shape, called_at)
            key = (f.kind, f.file, f.line, asked.kernel)
            if doubt.memory and f.is_fault and f.kind in UNWRITTEN:
                doubt.findings.append((found, key))
                continue
            if f.is_fault and f.kind in UNWRITTEN:
                self.used("", b"")
            self.add(found, (*key, f.grade))
        if done.status in ("unsupported", "compile_error"):
            self.complain(f"{kernel} cannot be emulated: {done.reason}")
        return done, doubt

    def emulate(
        self, asked: ExecutableLaunch, order: Order, *, kept: bool, garbage: int = 0, limit: float = 0.0
    ) -> Emulation:
        limit = limit or self.options.time_limit
        copied = not kept or not self.heap_was_used
        job = asked.job(self.options, order, self.arena, copied=copied, kept=kept and copied)
        job += (
            f"garbage {garbage}\ntime_limit {limit!r}\nuses {int(kept)}\nlist_writes {int(kept and self.may_overlap)}\n"
        )
        (self.work / "data").write_bytes(b"")
        done = run_job(self.modules[asked.module].programs[asked.kernel], job, self.work, limit)
        self.result.emulated_seconds += done.run_seconds
        return done

    def left_differently(
        self, done: Emulation, writes: Writes, asked: ExecutableLaunch, order: Order
    ) -> list[Stretch] | None:
        """Return the memory that depends on values that nobody has written; None where the launch does."""
        differ = np.zeros(0, np.uint64)
        for garbage in KINDS_OF_GARBAGE:
            other = self.emulate(
                asked, order, kept=False, garbage=garbage, limit=time_limit_of(done, self.options.time_limit)
            )
            if not ends_as(done, other):
                return None
            differ = np.union1d(differ, writes.difference(Writes.read(self.work / "data")))
        return stretches(differ)

    def write(self, writes: Writes) -> None:
        """Write what a launch has left open into the program's memory."""
        with open(self.arena, "r+b", buffering=0) as memory:
            for address, data in writes.each():
                memory.seek(address - ARENA_BASE)
                memory.write(data)


@dataclass(eq=False)
class _Doubt:
    """Faults of values that nobody has written, with their keys, and the memory that alone depends on them."""

    findings: list[tuple[LaunchFinding, tuple[object, ...]]] = field(default_factory=list)
    memory: list[Stretch] = field(default_factory=list)


def _lines_of(stretches: Iterable[tuple[int, ...]]) -> str:
    return "\n".join(" ".join(map(str, stretch)) for stretch in stretches)


def _joined(unknown: Iterable[Stretch]) -> list[Stretch]:
    """Return stretches as ones that have nothing in common and do not lie side by side."""
    joined: list[Stretch] = []
    for address, count in sorted(unknown):
        if joined and address <= sum(joined[-1]):
            first, before = joined[-1]
            joined[-1] = (first, max(before, address + count - first))
        else:
            joined.append((address, count))
    return joined


def _fitting(containers: Sequence[Mapping[int, str]], device: Device) -> list[str]:
    """Return of each container the PTX for the newest architecture that the device can execute. One without is left out
    as long as another has some: libcudadevrt has PTX for the newest GPUs alone. Raises FatBinaryError."""
    fitting = [texts[max(found)] for texts in containers if (found := [a for a in texts if a <= device.sm])]
    if not fitting:
        oldest = min(a for texts in containers for a in texts)
        raise FatBinaryError(
            f"holds PTX for sm_{oldest} and newer, but the emulated device is {device.arch}: choose another --device"
        )
    return fitting


def _error_of(done: Emulation) -> tuple[int, bool]:
    """Return what the program gets, and whether it gets it ever after: launches that did not come to their end."""
    if done.status in ("unsupported", "compile_error"):
        return _NOT_SUPPORTED, False
    if done.status == "timeout":
        return _TIMEOUT, True
    if done.status == "crashed":
        return _LAUNCH_FAILURE, True
    kinds = {f.kind for f in done.findings if f.is_fault}
    if any(f.kind is FindingKind.TRAP and "the assertion '" in f.message for f in done.findings):
        return _ASSERTION, True
    if kinds & {FindingKind.TRAP, FindingKind.DEADLOCK, FindingKind.BARRIER_NOT_REACHED, FindingKind.MISSING_LANES}:
        return _LAUNCH_FAILURE, True
    return 0, False


def _received(connection: socket.socket, count: int) -> bytes | None:
    """So many bytes; None where the program has ended."""
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
