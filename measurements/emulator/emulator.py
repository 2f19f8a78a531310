"""Runs a kernel's launch on the CPU and reports what is wrong with it; see docs/explanation/emulator.md.

The launch runs in a process of its own: a kernel that crashes or never ends is a result, not an accident.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from measurements.emulator.build import runner
from measurements.emulator.findings import (
    Emulation,
    EmulationStatus,
    Finding,
    FindingKind,
    GlobalSite,
    SharedSite,
    status_of,
)
from measurements.emulator.host import HostFailure, last_line, machine_sentence
from measurements.emulator.inputs_file import InputsFile
from measurements.emulator.memory import FIRST_HANDLE, PLAIN_MEMORY, Flags, Memory, texture_object
from measurements.emulator.order import ASCENDING, Order
from measurements.emulator.pipeline import run_steps
from measurements.emulator.ptx.build import (
    CompiledKernel,
    KernelCompileError,
    Places,
    compile_to_program,
    ptx_to_program,
    read_places,
)
from measurements.emulator.work_folders import temporary_folder
from measurements.files.text import harmless
from search_spaces.hardware.costs.ptx_costs import IN_PLACE, costs
from search_spaces.hardware.dtypes import U32
from search_spaces.operators.problem import Array, Operand
from search_spaces.templates.kernel import Kernel, Launch, Scalar
from search_spaces.templates.tensor_map import ELEMENT_BYTES, SWIZZLE_BYTES, TensorMap
from search_spaces.templates.texture import Texture

ALIGNMENT = 256  # of buffers in the data file, and of pointers on a device
_CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT, signal.SIGTRAP)
GRACE_SECONDS = 10.0  # for the start and the report of a runner, which enforces the time limit itself
BUSY = 20.0  # wall-clock seconds that a busy machine may take for a CPU second of a launch


# Kinds of elements, by how their names begin; the order is that of ElementKind in runtime/memory/tensor_map.hpp.
_KINDS = (("UINT",), ("INT",), ("FLOAT16",), ("BFLOAT16",), ("FLOAT32", "TFLOAT32"), ("FLOAT64",))

_Site = TypeVar("_Site", SharedSite, GlobalSite)
_PROBE = """
.version 7.0
.target sm_80
.address_size 64
.visible .entry probe(.param .u64 out) {
  .reg .b32 %r<2>;
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [out];
  cvta.to.global.u64 %rd1, %rd1;
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd1, %rd1, %rd2;
  st.global.u32 [%rd1], %r1;
  ret;
}
"""
_PROBED = Launch(entry="probe", arguments=(Operand("out", "output", U32, (64,)),), grid=(1, 1, 1), block=(64, 1, 1))


@dataclass(frozen=True, eq=False)
class EmulationJob:
    """The arguments of one call of ``emulate``."""

    kernel: Kernel
    inputs: Mapping[str, Array]
    time_limit: float = 60.0
    check: bool = True


@contextmanager
def machine_failures() -> Iterator[None]:
    """Errors of this machine become HostFailure."""
    try:
        yield
    except OSError as error:
        raise HostFailure(machine_sentence(error)) from error
    except MemoryError as error:
        raise HostFailure("the emulator is out of memory: free some, or raise its limit (ulimit -v)") from error


def emulate(
    kernel: Kernel,
    inputs: Mapping[str, Array],
    *,
    time_limit: float = 60.0,
    check: bool = True,
    order: Order = ASCENDING,
    perturb: bool = False,
    calls: int = 1,
) -> Emulation:
    """Compile ``kernel`` to PTX with NVRTC and execute its launch, or those of a pipeline, once on the CPU.

    ``inputs`` holds an array for each operand of role input or inout, in its storage type and shape. Outputs, and
    workspaces that are not zeroed, hold bytes of 0xFF before the launch. ``time_limit`` is the CPU seconds of the
    launch, without the compile. ``check=False`` leaves out races and initialisation (bounds, alignment, deadlocks
    and counts stay) and is faster. ``order`` is that of the blocks and of the turns of threads. ``perturb``: the
    approximate functions of PTX err as much as the PTX ISA allows. ``calls``: how often all of that is done, each time
    on what the one before has left, but for outputs, which hold 0xFF again.

    Raises HostFailure where this machine is the problem (no NVRTC, no C++ compiler for the runner, a broken one, no
    memory, a full disk), and ValueError for inputs that do not fit or a launch that no GPU supports. A kernel that does
    not compile or does not terminate is a status of the result.
    """
    with machine_failures():
        arrays = _check(kernel, inputs, time_limit)
        lack = lacking(kernel)
        if lack:
            return Emulation("unsupported", {}, (), (), (), reason=lack)
        if kernel.then:

            def run(step: Kernel, given: Mapping[str, Array], memory: Memory) -> Emulation:
                compile_it = partial(compile_to_program, step)
                return _emulate(step, compile_it, given, time_limit, check, perturb, order, 1, memory)

            return run_steps(kernel, arrays, calls, run)
        compile_it = partial(compile_to_program, kernel)
        return _emulate(kernel, compile_it, arrays, time_limit, check, perturb, order, calls)


def emulate_ptx(
    text: str,
    launch: Launch,
    inputs: Mapping[str, Array],
    *,
    time_limit: float = 60.0,
    check: bool = True,
    order: Order = ASCENDING,
    perturb: bool = False,
    calls: int = 1,
    memory: Memory = PLAIN_MEMORY,
    count: bool = False,
    blocks: Sequence[int] | None = None,
) -> Emulation:
    """Execute PTX text of any compiler: the kernel ``launch.entry``, or the only one where that is empty.

    Needs no NVRTC; otherwise as ``emulate``. ``memory``: pointers into arrays, bytes that hold no value, and addresses
    that lie in arrays. ``count``: what is executed is counted. ``blocks``: only these of the grid run, and the rest of
    their clusters. Raises ValueError for those that it lacks.
    """
    if blocks is not None and not (blocks and min(blocks) >= 0 and max(blocks) < math.prod(launch.grid)):
        raise ValueError(f"blocks must be some of the {math.prod(launch.grid)} of the grid")
    with machine_failures():
        memory.check(launch)
        arrays = _check(launch, inputs, time_limit, memory)
        compile_it = partial(ptx_to_program, text, launch.entry)
        return _emulate(launch, compile_it, arrays, time_limit, check, perturb, order, calls, memory, count, blocks)


def _emulate(
    launch: Launch,
    compile_it: Callable[[], CompiledKernel],
    arrays: Mapping[str, Array],
    time_limit: float,
    check: bool,
    perturb: bool,
    order: Order,
    calls: int,
    memory: Memory = PLAIN_MEMORY,
    count: bool = False,
    blocks: Sequence[int] | None = None,
) -> Emulation:
    try:
        compiled = compile_it()
    except KernelCompileError as error:
        return error.emulation
    with temporary_folder() as folder:
        done = run_launch(
            launch, arrays, compiled, folder, time_limit, check, perturb, order, calls, memory, count, blocks
        )
    if done.status == "crashed" and launch != _PROBED:
        _check_runner()
    return done


def _check_runner() -> None:
    """Before a crash rejects a kernel, one that is known to be right must run. Raises HostFailure where it does not:
    then the runner is broken; it is compiled again next time."""
    done = emulate_ptx(_PROBE, _PROBED, {}, time_limit=GRACE_SECONDS)
    if done.status != "ok" or done.outputs["out"].tolist() != list(range(64)):
        runner().unlink(missing_ok=True)
        raise HostFailure(
            f"the emulator fails for a kernel that is right ({done.reason or 'wrong numbers'}): try again"
        )


def emulate_many(jobs: Iterable[EmulationJob], workers: int) -> Iterator[Emulation]:
    """Emulate ``jobs`` on ``workers`` cores; results come in the order of the jobs.

    Jobs are taken from the iterable only a few ahead, so that it may make their inputs as it goes. Raises as
    ``emulate`` does, at the result of the job in question.
    """
    if workers < 1:
        raise ValueError(f"workers must be at least 1, not {workers}")
    running: deque[Future[Emulation]] = deque()
    with ThreadPoolExecutor(workers, thread_name_prefix="emulator") as pool:
        try:
            for job in jobs:
                running.append(pool.submit(_emulate_job, job))
                if len(running) > 2 * workers:
                    yield running.popleft().result()
            while running:
                yield running.popleft().result()
        finally:
            for future in running:
                future.cancel()


def _emulate_job(job: EmulationJob) -> Emulation:
    return emulate(job.kernel, job.inputs, time_limit=job.time_limit, check=job.check)


def _check(
    kernel: Launch, inputs: Mapping[str, Array], time_limit: float, memory: Memory = PLAIN_MEMORY
) -> dict[str, Array]:
    expected = {o.name: o for o in memory.operands(kernel) if o.role in ("input", "inout")}
    if set(inputs) != set(expected):
        raise ValueError(f"inputs must be {sorted(expected)}, not {sorted(inputs)}")
    if not time_limit > 0:
        raise ValueError(f"time_limit must be more than 0 s, not {time_limit}")
    if kernel.threads > 1024 or math.prod(kernel.grid) >= 2**31:
        raise ValueError(
            f"a launch needs 1 to 2^31 - 1 blocks of 1 to 1024 threads, not grid {kernel.grid} x block {kernel.block}"
        )
    arrays = {}
    for name, operand in expected.items():
        array = np.ascontiguousarray(inputs[name])
        if array.dtype != np.dtype(operand.dtype.storage) or array.shape != operand.shape:
            raise ValueError(
                f"input {name} must be {operand.dtype.storage} of shape {operand.shape}, "
                f"not {array.dtype} of shape {array.shape}"
            )
        arrays[name] = array
    return arrays


def lacking(kernel: Kernel) -> str:
    """Return what the emulator lacks for the kernel, in one sentence; empty where it has everything."""
    passed = [a for step in (kernel, *kernel.then) for a in step.arguments]
    packed = [a.name for a in passed if isinstance(a, TensorMap) and a.interleave != "NONE"]
    return f"interleaved tensor maps are not emulated, and the kernel takes {', '.join(packed)}" if packed else ""


def offsets_of(operands: tuple[Operand, ...]) -> dict[str, int]:
    """Where each operand lies in the data file, by name."""
    offsets, end = {}, 0
    for operand in operands:
        offsets[operand.name] = end
        end = -(-(end + operand.bytes) // ALIGNMENT) * ALIGNMENT
    return offsets


def _job_text(
    kernel: Launch,
    offsets: Mapping[str, int],
    time_limit: float,
    check: bool,
    perturb: bool,
    blocks: Sequence[int] | None,
    order: Order,
    contents: Mapping[str, str] | None,
    calls: int,
    memory: Memory,
    count: bool,
    inputs: InputsFile | None,
) -> str:
    def numbers(values: tuple[int, int, int]) -> str:
        return " ".join(map(str, values))

    lines = [
        f"grid {numbers(kernel.grid)}",
        f"launches {kernel.launches}",
        f"calls {calls}",
        f"block {numbers(kernel.block)}",
        f"cluster {numbers(kernel.cluster)}",
        f"dynamic_shared_bytes {kernel.dynamic_shared_bytes}",
        f"time_limit {time_limit!r}",
        f"check {int(check)}",
        f"perturb {int(perturb)}",
        f"sparse {int(contents is not None)}",
        f"count {int(count)}",
        f"order_seed {order.seed}",
        f"resident {order.resident}",
        f"interleaved {int(order.blocks == 'interleaved')}",
    ]
    if inputs is not None:
        lines.append(f"inputs {inputs.path}")
    if blocks is not None:
        lines.append(f"blocks {len(blocks)} {' '.join(map(str, blocks))}")
    operands = memory.operands(kernel)
    for operand in operands:
        name, zeroed = "".join(operand.name.split()) or "unnamed", int(operand.zeroed)
        size, offset = operand.bytes, offsets[operand.name]
        content = (contents or {}).get(operand.name, "none 0")
        lines.append(f"buffer {name} {operand.role} {size} {operand.dtype.bytes} {zeroed} {offset} {content}")
    numbers_of = {operand: k for k, operand in enumerate(operands)}
    textures = list(memory.textures)
    for position, argument in enumerate(kernel.arguments):
        start = memory.offsets.get(position, 0)
        match argument:
            case Scalar():
                lines.append(f"value {argument.stored.tobytes().hex()}")
            case Operand():
                lines.append(f"pointer {numbers_of[argument]} {start}")
            case Texture():
                textures.append(texture_object(argument, FIRST_HANDLE + len(textures)))
                lines.append(f"value {textures[-1].handle.to_bytes(8, 'little').hex()}")
            case TensorMap():
                lines.append(_tensor_map_line(argument, numbers_of[argument.operand], start))
    number_of = {operand.name: k for operand, k in numbers_of.items()}
    lines += [f"defined {number_of[name]} {at}" for name, at in _flags_at(kernel, offsets, memory).items()]
    lines += [f"address {number_of[a.array]} {a.at} {number_of[a.target]} {a.offset}" for a in memory.addresses]
    lines += [f"inside {a.position} {a.at} {number_of[a.target]} {a.offset}" for a in memory.inside]
    lines += [f"symbol {name} {number_of[array]}" for name, array in memory.symbols.items()]
    lines += [t.line(number_of[t.array]) for t in textures]
    lines += [f"fill {operand.name} {numbers_of[operand]}" for operand in kernel.symbols]
    return "\n".join(lines) + "\n"


def _flags_at(kernel: Launch, offsets: Mapping[str, int], memory: Memory) -> dict[str, int]:
    """Where the flags of each array that has some lie in the data file: behind all arrays."""
    end = max((offsets[o.name] + o.bytes for o in memory.operands(kernel)), default=0)
    places = {}
    for name, flags in memory.defined.items():
        places[name] = end
        end += flags.size
    return places


def _tensor_map_line(m: TensorMap, buffer: int, start: int) -> str:
    """Return the numbers from which the runner encodes a tensor map (runtime/memory/tensor_map.hpp)."""
    sizes = (*m.sizes, *m.strides, *m.box, *m.element_strides)
    head = (buffer, start, ELEMENT_BYTES[m.element], len(m.sizes))
    tail = (SWIZZLE_BYTES[m.swizzle], int(m.fill != "NONE"), _kind(m.element))
    return " ".join(map(str, ("tensor_map", *head, *sizes, *tail)))


def _kind(element: str) -> int:
    return next(k for k, names in enumerate(_KINDS) if element.startswith(names))


def _write_data(
    path: Path, kernel: Launch, arrays: Mapping[str, Array], offsets: Mapping[str, int], memory: Memory
) -> None:
    with path.open("wb") as file:
        for operand in memory.operands(kernel):
            file.seek(offsets[operand.name])
            if operand.role in ("input", "inout"):
                file.write(arrays[operand.name].tobytes())
            else:
                file.write((b"\0" if operand.zeroed else b"\xff") * operand.bytes)
        for name, at in _flags_at(kernel, offsets, memory).items():
            file.seek(at)
            file.write(memory.defined[name].tobytes())


def _read_outputs(path: Path, operands: Sequence[Operand], offsets: Mapping[str, int]) -> dict[str, Array]:
    outputs: dict[str, Array] = {}
    for operand in operands:
        if operand.role in ("output", "inout"):
            offset = offsets[operand.name]
            flat = np.fromfile(path, dtype=operand.dtype.storage, count=operand.size, offset=offset)
            outputs[operand.name] = flat.reshape(operand.shape)
    return outputs


def _read_flags(
    path: Path, kernel: Launch, offsets: Mapping[str, int], memory: Memory
) -> tuple[dict[str, Flags], dict[str, Flags]]:
    """Of each byte, whether it holds a value now, and whether the launch has written it."""
    defined, written = {}, {}
    for name, at in _flags_at(kernel, offsets, memory).items():
        flags = np.fromfile(path, dtype=np.uint8, count=memory.defined[name].size, offset=at)
        defined[name], written[name] = (flags & 1).astype(bool), (flags & 2).astype(bool)
    return defined, written


def run_launch(
    kernel: Launch,
    arrays: Mapping[str, Array],
    compiled: CompiledKernel,
    folder: Path,
    time_limit: float,
    check: bool,
    perturb: bool,
    order: Order = ASCENDING,
    calls: int = 1,
    memory: Memory = PLAIN_MEMORY,
    count: bool = False,
    blocks: Sequence[int] | None = None,
) -> Emulation:
    """Run a compiled kernel with ``arrays`` as its inputs, in ``folder``: all blocks, or ``blocks``. Raises
    HostFailure, OSError."""
    if blocks is not None:
        blocks = [blocks[i] for i in order.of(len(blocks))]
    elif order.blocks != "ascending":
        blocks = [int(b) for b in order.of(math.prod(kernel.grid))]
    operands = memory.operands(kernel)
    offsets = offsets_of(operands)
    data = folder / "data"
    _write_data(data, kernel, arrays, offsets, memory)
    done = run_blocks(
        kernel,
        compiled,
        folder,
        offsets,
        time_limit,
        check,
        perturb,
        blocks,
        order,
        calls=calls,
        memory=memory,
        count=count,
    )
    if done.status not in ("ok", "findings"):
        return done
    defined, written = _read_flags(data, kernel, offsets, memory)
    return dataclasses.replace(done, outputs=_read_outputs(data, operands, offsets), defined=defined, written=written)


def run_blocks(
    kernel: Launch,
    compiled: CompiledKernel,
    folder: Path,
    offsets: Mapping[str, int],
    time_limit: float,
    check: bool,
    perturb: bool = False,
    blocks: Sequence[int] | None = None,
    order: Order = ASCENDING,
    contents: Mapping[str, str] | None = None,
    calls: int = 1,
    memory: Memory = PLAIN_MEMORY,
    count: bool = False,
    inputs: InputsFile | None = None,
) -> Emulation:
    """Run ``blocks`` (None: all) of a launch on the file ``data`` of ``folder``, which the runner rewrites; without
    outputs. With ``contents`` of the inputs, buffers are sparse (sparse.py), and ``data`` gets what was written.
    ``count``: what is executed is counted."""
    text = _job_text(kernel, offsets, time_limit, check, perturb, blocks, order, contents, calls, memory, count, inputs)
    return run_job(compiled, text, folder, time_limit)


def run_job(compiled: CompiledKernel, text: str, folder: Path, time_limit: float) -> Emulation:
    """Run the launch that ``text`` describes (runtime/main.cpp) on the file ``data`` of ``folder``."""
    program = runner()
    job, data, report = folder / "job", folder / "data", folder / "report"
    job.write_text(text)
    report.touch()
    started = time.monotonic()
    command = [str(program), str(compiled.path), str(job), str(data), str(report)]
    killed = False
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            timeout=BUSY * time_limit + GRACE_SECONDS,
            check=False,
        )
        code, said = done.returncode, harmless(done.stderr)
    except subprocess.TimeoutExpired:  # subprocess.run has killed it
        killed, code, said = True, 0, ""
    if code == 5:
        return _refused(compiled, said)
    events = _Events(report.read_text(errors="replace"), read_places(compiled.path))
    if events.end is None and not killed and -code not in _CRASHES:  # 0, 2: the report is cut short
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"
        why = f": {last_line(said)}" if said.strip() else ""
        raise HostFailure(f"an emulated launch {how}{why}; make room in memory and on disk, and try again")
    status, reason = events.status(killed, code, time_limit)
    return Emulation(
        status=status,
        outputs={},
        findings=tuple(events.findings),
        shared_sites=events.shared_sites,
        global_sites=events.global_sites,
        reason=reason,
        printed=events.printed,
        compile_seconds=compiled.seconds,
        run_seconds=time.monotonic() - started,
        from_cache=compiled.from_cache,
        executed=tuple(sorted(events.executed.items())),
        chains=events.chains,
        code=events.code,
    )


def _refused(compiled: CompiledKernel, said: str) -> Emulation:
    """Return the runner's answer to a program that it cannot execute, or whose parameters are not the arguments."""
    what, _, detail = last_line(said).partition(": ")
    if what == "lacking":
        return Emulation("unsupported", {}, (), (), (), reason=detail, compile_seconds=compiled.seconds)
    if what == "arguments":
        return Emulation("compile_error", {}, (), (), (), reason=detail, compile_seconds=compiled.seconds)
    place = read_places(compiled.path).get(detail)
    reason = f"{place.source}: not supported: {place.ptx}" if place else f"not supported: {said}"
    return Emulation("unsupported", {}, (), (), (), reason=reason, compile_seconds=compiled.seconds)


def _operation(shown: str) -> str:
    """``fma.rn.f32`` of ``PTX line 12: @%p1 fma.rn.f32 %f1, %f2, ...``."""
    text = re.sub(r"^@!?\S+\s+", "", shown.partition(": ")[2].strip())
    operation = text.split(None, 1)[0].rstrip(";") if text else ""
    return operation + IN_PLACE if operation.startswith("ld.const") and "[%" not in text else operation


class _Events:
    """The runner's report: JSON lines, of which the last may be cut short by a kill.

    Sites are numbers of instructions; the lines of the source that they are of come with them.
    """

    def __init__(self, text: str, places: Places) -> None:
        self.findings: list[Finding] = []
        shared: list[SharedSite] = []
        global_: list[GlobalSite] = []
        self.end: dict[str, Any] | None = None
        self.executed: dict[str, int] = {}
        self.chains = (0, 0)
        self.code = 0
        ids: list[int] = []
        counts: dict[int, int] = {}
        lowered: dict[int, str] = {}  # faults that have turned out to be notes
        printed: list[str] = []
        for line in text.splitlines(keepends=True):
            if not line.endswith("\n"):
                continue
            event = json.loads(line)
            match event.pop("event"):
                case "finding":
                    kind = FindingKind(event["kind"])
                    place = places.get(event["function"])
                    other = f"{event['other_file']}:{event['other_line']}" if "other_file" in event else ""
                    found = Finding(
                        kind, event["message"], event["file"], event["line"], grade=event["grade"], other=other
                    )
                    if place is not None:
                        found = dataclasses.replace(found, instruction=place.ptx, callers=place.callers)
                    self.findings.append(found)
                    ids.append(event["id"])
                case "note":
                    lowered[event["id"]] = event["why"]
                case "count":
                    counts[event["id"]] = event["count"]
                case "shared":
                    shared.append(SharedSite(callers=places.callers(event.pop("function")), **event))
                case "global":
                    global_.append(GlobalSite(callers=places.callers(event.pop("function")), **event))
                case "executed":
                    place = places.get(event["function"])
                    operation = "" if place is None else _operation(place.ptx)
                    if event["shape"]:
                        operation = f"{operation}.{event['shape']}"
                    self.executed[operation] = self.executed.get(operation, 0) + event["times"]
                    self.code += bool(costs(operation))
                case "chains":
                    self.chains = (event["warps"], event["cycles"])
                case "print":
                    printed.append(event["text"])
                case "end":
                    self.end = event
        self.shared_sites, self.global_sites = tuple(_summed(shared)), tuple(_summed(global_))
        graded = []
        for i, f in zip(ids, self.findings, strict=True):
            found = dataclasses.replace(f, count=counts.get(i, 1))
            if i in lowered:
                found = dataclasses.replace(found, grade="note", message=f"{found.message}; {lowered[i]}")
            graded.append(found)
        self.findings = sorted(_merged(graded), key=lambda f: not f.is_fault)
        self.printed = "".join(printed)

    def status(self, killed: bool, code: int, time_limit: float) -> tuple[EmulationStatus, str]:
        """Return the status and its reason; a crash and a timeout become findings too."""
        end = self.end or {"status": "timeout" if killed else "crashed", "file": "", "line": 0, "message": ""}
        if end["status"] == "crashed":
            message = end["message"] or f"the launch was ended by signal {-code}"
            self.findings.append(Finding(FindingKind.CRASH, message, end["file"], end["line"]))
            return "crashed", str(self.findings[-1])
        if end["status"] == "timeout":
            message = f"not done after {time_limit:g} s" + (f": {end['message']}" if end["message"] else "")
            self.findings.append(Finding(FindingKind.TIMEOUT, message, end["file"], end["line"]))
            return "timeout", str(self.findings[-1])
        return status_of(self.findings)


def _summed(sites: list[_Site]) -> Iterator[_Site]:
    """Instructions of one kind on one line as one site, in the order of their first visits."""
    same: dict[tuple[object, ...], list[_Site]] = {}
    for s in sites:
        same.setdefault((s.file, s.line, s.callers, s.instruction, s.bytes), []).append(s)
    for first, *others in same.values():
        if others:
            sums = {name: sum(getattr(s, name) for s in (first, *others)) for name in first.COUNTS}
            yield dataclasses.replace(first, **sums)
        else:
            yield first


def _merged(findings: list[Finding]) -> list[Finding]:
    """Return findings of one kind at one line as one: unrolled loops have many instructions there."""
    merged: dict[tuple[object, ...], Finding] = {}
    for f in findings:
        key = (f.kind, f.file, f.line, f.grade)
        known = merged.get(key)
        merged[key] = f if known is None else dataclasses.replace(known, count=known.count + f.count)
    return list(merged.values())
