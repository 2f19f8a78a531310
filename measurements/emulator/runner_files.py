"""Files exchanged with the runner: the job, the data, and the report."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from measurements.emulator.emulate_options import EmulateOptions
from measurements.emulator.findings import (
    EmulationStatus,
    ExecutedLine,
    Finding,
    FindingKind,
    GlobalSite,
    SharedSite,
    status_of,
)
from measurements.emulator.inputs_file import InputsFile
from measurements.emulator.memory import FIRST_HANDLE, Flags, Memory, Unfinished, texture_object
from measurements.emulator.ptx.build import SitePositions
from search_spaces.arrays import Array
from search_spaces.hardware.costs.ptx_costs import IN_PLACE, costs
from search_spaces.launches.launch import BytesArgument, Launch, ScalarArgument
from search_spaces.launches.operand import Operand
from search_spaces.launches.tensor_map import ELEMENT_BYTES, INTERLEAVE_BYTES, SWIZZLE_BYTES, TensorMap
from search_spaces.launches.texture import LinearTexture

ALIGNMENT = 256  # bytes; buffers in the data file are aligned like allocations on a device

# Kinds of elements by the prefix of type names, in the order of ElementKind in runtime/isa/access/reduction.hpp.
_KINDS = (("UINT",), ("INT",), ("FLOAT16",), ("BFLOAT16",), ("FLOAT32", "TFLOAT32"), ("FLOAT64",))

_Site = TypeVar("_Site", SharedSite, GlobalSite)
# Names of the counters of a site.
_COUNTS = frozenset({"requests", "wavefronts", "ideal", "sectors", "unique", "fresh"})


@dataclass(frozen=True, kw_only=True)
class RunSettings(EmulateOptions):
    """Options of a launch and of its memory.

    Attributes:
        poison: Index of the poison pattern for undefined bytes (effect.py).
        contents: How the runner generates each input, if buffers are sparse (sparse.py).
        inputs: File with some of the inputs; None if the data file contains all.
    """

    poison: int = 0
    contents: Mapping[str, str] | None = None
    inputs: InputsFile | None = None


def offsets_of(operands: tuple[Operand, ...]) -> dict[str, int]:
    """Return the offset of each operand in the data file, by name."""
    offsets, end = {}, 0
    for operand in operands:
        offsets[operand.name] = end
        end = -(-(end + operand.bytes) // ALIGNMENT) * ALIGNMENT
    return offsets


def job_text(kernel: Launch, settings: RunSettings) -> str:
    """Return the text of the job: a launch and its settings, as lines that runtime/main.cpp reads."""
    memory, order, contents = settings.memory, settings.order, settings.contents
    operands = memory.operands(kernel)
    offsets = offsets_of(operands)

    def numbers(values: tuple[int, int, int]) -> str:
        return " ".join(map(str, values))

    lines = [
        f"grid {numbers(kernel.grid)}",
        f"launches {kernel.launches}",
        f"calls {settings.calls}",
        f"block {numbers(kernel.block)}",
        # Without this line, the code of the kernel determines the cluster size.
        *([f"cluster {numbers(kernel.cluster)}"] if kernel.cluster != (1, 1, 1) else []),
        f"dynamic_shared_bytes {kernel.dynamic_shared_bytes}",
        f"cooperative {int(kernel.cooperative)}",
        f"dependent {int(kernel.dependent)}",
        f"time_limit {settings.time_limit!r}",
        f"check {int(settings.check)}",
        f"perturb {int(settings.perturb)}",
        f"sparse {int(contents is not None)}",
        f"count {int(settings.count)}",
        f"poison {settings.poison}",
        f"order_seed {order.seed}",
        f"resident {order.resident}",
        f"interleaved {int(order.blocks == 'interleaved')}",
    ]
    if settings.inputs is not None:
        lines.append(f"inputs {settings.inputs.path}")
    if settings.blocks is not None:
        lines.append(f"blocks {len(settings.blocks)} {' '.join(map(str, settings.blocks))}")
    for operand in operands:
        name, zeroed = "".join(operand.name.split()) or "unnamed", int(operand.zeroed)
        size, offset = operand.bytes, offsets[operand.name]
        content = (contents or {}).get(operand.name, "none 0")
        lines.append(f"buffer {name} {operand.role} {size} {operand.dtype.bytes} {zeroed} {offset} {content}")
    numbers_of = {operand: k for k, operand in enumerate(operands)}
    if kernel.dependent:
        sizes = {o.name: (k, o.bytes) for o, k in numbers_of.items()}
        for u in memory.unfinished if memory.unfinished is not None else map(Unfinished, sizes):
            k, size = sizes[u.array]
            lines.append(f"unfinished {k} {u.first} {(size if u.end is None else u.end) - u.first} {int(u.only_read)}")
    textures = list(memory.textures)
    for position, argument in enumerate(kernel.arguments):
        start = memory.offsets.get(position, 0)
        match argument:
            case ScalarArgument() | BytesArgument():
                lines.append(f"value {argument.stored.tobytes().hex()}")
            case Operand():
                lines.append(f"pointer {numbers_of[argument]} {start}")
            case LinearTexture():
                textures.append(texture_object(argument, FIRST_HANDLE + len(textures)))
                lines.append(f"value {textures[-1].handle.to_bytes(8, 'little').hex()}")
            case TensorMap():
                lines.append(_tensor_map_line(argument, numbers_of[argument.operand], start))
    number_of = {operand.name: k for operand, k in numbers_of.items()}
    lines += [f"defined {number_of[name]} {at}" for name, at in _flags_at(kernel, memory).items()]
    lines += [f"address {number_of[a.array]} {a.at} {number_of[a.target]} {a.offset}" for a in memory.addresses]
    lines += [f"inside {a.position} {a.at} {number_of[a.target]} {a.offset}" for a in memory.inside]
    lines += [f"symbol {name} {number_of[array]}" for name, array in memory.symbols.items()]
    lines += [t.line(number_of[t.array]) for t in textures]
    lines += [f"fill {operand.name} {numbers_of[operand]}" for operand in kernel.symbols]
    return "\n".join(lines) + "\n"


def _flags_at(kernel: Launch, memory: Memory) -> dict[str, int]:
    """Return the offset of each array's flags in the data file. Flags are stored after all arrays."""
    operands = memory.operands(kernel)
    offsets = offsets_of(operands)
    end = max((offsets[o.name] + o.bytes for o in operands), default=0)
    offsets_of_flags = {}
    for name, flags in memory.defined.items():
        offsets_of_flags[name] = end
        end += flags.size
    return offsets_of_flags


def _tensor_map_line(m: TensorMap, buffer: int, start: int) -> str:
    """Return a line of the job that describes a tensor map (runtime/isa/async/tensor_map.hpp)."""
    box: tuple[int, ...] = m.box
    if m.im2col is not None:
        corners = (
            lower & 0xFFFF | (upper & 0xFFFF) << 16 for lower, upper in zip(m.im2col.lower, m.im2col.upper, strict=True)
        )
        box = (*m.box[:2], *corners)
    sizes = (*m.sizes, *m.strides, *box, *m.element_strides)
    head = (buffer, start, ELEMENT_BYTES[m.element], len(m.sizes))
    loaded_as = int(m.element.startswith("TFLOAT32")) | int(m.element.endswith("_FTZ")) << 1
    mode = (int(m.im2col is not None), INTERLEAVE_BYTES[m.interleave], loaded_as)
    tail = (SWIZZLE_BYTES[m.swizzle], int(m.fill != "NONE"), _kind(m.element), *mode)
    return " ".join(map(str, ("tensor_map", *head, *sizes, *tail)))


def _kind(element: str) -> int:
    return next(k for k, names in enumerate(_KINDS) if element.startswith(names))


def write_data(path: Path, kernel: Launch, arrays: Mapping[str, Array], memory: Memory) -> None:
    """Write the initial contents of operands: inputs, zeros, or 0xFF for undefined operands.

    Args:
        path: The file.
        kernel: The launch whose operands are written.
        arrays: The inputs, by name.
        memory: Provides additional operands, and flags that are written after the arrays.
    """
    operands = memory.operands(kernel)
    offsets = offsets_of(operands)
    with path.open("wb") as file:
        for operand in operands:
            file.seek(offsets[operand.name])
            if operand.role in ("input", "inout"):
                file.write(arrays[operand.name].tobytes())
            else:
                file.write((b"\0" if operand.zeroed else b"\xff") * operand.bytes)
        for name, at in _flags_at(kernel, memory).items():
            file.seek(at)
            file.write(memory.defined[name].tobytes())


def read_outputs(path: Path, operands: tuple[Operand, ...]) -> dict[str, Array]:
    """Return the final contents of operands of role output or inout, by name."""
    offsets = offsets_of(operands)
    outputs: dict[str, Array] = {}
    for operand in operands:
        if operand.role in ("output", "inout"):
            offset = offsets[operand.name]
            flat = np.fromfile(path, dtype=operand.dtype.storage, count=operand.size, offset=offset)
            outputs[operand.name] = flat.reshape(operand.shape)
    return outputs


def read_flags(
    path: Path, kernel: Launch, memory: Memory
) -> tuple[dict[str, Flags], dict[str, Flags], dict[str, npt.NDArray[np.uint8]]]:
    """Return flags per byte of arrays: whether the byte is defined or was written, and how the launch used it."""
    defined, written, used = {}, {}, {}
    for name, at in _flags_at(kernel, memory).items():
        flags = np.fromfile(path, dtype=np.uint8, count=memory.defined[name].size, offset=at)
        defined[name], written[name], used[name] = (
            (flags & 1).astype(bool),
            (flags & 2).astype(bool),
            flags >> np.uint8(2),
        )
    return defined, written, used


def _operation(shown: str) -> str:
    """Return the operation of a PTX line: ``fma.rn.f32`` for ``PTX line 12: @%p1 fma.rn.f32 %f1, %f2, ...``."""
    text = re.sub(r"^@!?\S+\s+", "", shown.partition(": ")[2].strip())
    operation = text.split(None, 1)[0].rstrip(";") if text else ""
    return operation + IN_PLACE if operation.startswith("ld.const") and "[%" not in text else operation


class RunnerReport:
    """The runner's report, which consists of JSON lines. If the runner was killed, the last line may be truncated.

    A site is a group of instructions with the same position. The report identifies a site by a number and a source
    line.
    """

    def __init__(self, text: str, positions: SitePositions) -> None:
        self.findings: list[Finding] = []
        shared: list[SharedSite] = []
        global_: list[GlobalSite] = []
        self.end: dict[str, Any] | None = None
        self.executed: dict[str, int] = {}
        lines: dict[tuple[str, int, str], tuple[int, int]] = {}
        self.chains = (0, 0)
        self.code = 0
        ids: list[int] = []
        counts: dict[int, int] = {}
        lowered: dict[int, str] = {}  # faults that were later downgraded to notes
        printed: list[str] = []
        unknown: list[tuple[int, int]] = []
        uses: list[tuple[int, int, int]] = []
        self.variables = 0
        self.waited = False
        complete = text.rpartition("\n")[0]
        # Parses all lines at once, which is faster than line by line.
        for event in json.loads(f"[{complete.replace(chr(10), ',')}]"):
            match event.pop("event"):
                case "finding":
                    kind = FindingKind(event["kind"])
                    position = positions.get(event["function"])
                    other = f"{event['other_file']}:{event['other_line']}" if "other_file" in event else ""
                    finding = Finding(
                        kind, event["message"], event["file"], event["line"], grade=event["grade"], other=other
                    )
                    if position is not None:
                        finding = replace(finding, instruction=position.ptx, callers=position.callers)
                    self.findings.append(finding)
                    ids.append(event["id"])
                case "note":
                    lowered[event["id"]] = event["why"]
                case "count":
                    counts[event["id"]] = event["count"]
                case "shared":
                    shared.append(SharedSite(callers=positions.callers(event.pop("function")), **event))
                case "global":
                    global_.append(GlobalSite(callers=positions.callers(event.pop("function")), **event))
                case "executed":
                    position = positions.get(event["function"])
                    operation = "" if position is None else _operation(position.ptx)
                    if event["shape"]:
                        operation = f"{operation}.{event['shape']}"
                    self.executed[operation] = self.executed.get(operation, 0) + event["times"]
                    line = (PurePath(event["file"]).name, event["line"], operation)
                    instructions, times = lines.get(line, (0, 0))
                    lines[line] = (instructions + 1, times + event["times"])
                    self.code += bool(costs(operation))
                case "chains":
                    self.chains = (event["warps"], event["cycles"])
                case "unknown":
                    unknown.append((event["address"], event["bytes"]))
                case "use":
                    uses.append((event["address"], event["bytes"], event["use"]))
                case "variables":
                    self.variables = event["digest"]
                case "waited":
                    self.waited = True
                case "print":
                    printed.append(event["text"])
                case "end":
                    self.end = event
        self.lines = tuple(ExecutedLine(*line, *counts) for line, counts in sorted(lines.items()))
        self.shared_sites, self.global_sites = tuple(_summed(shared)), tuple(_summed(global_))
        graded = []
        for i, f in zip(ids, self.findings, strict=True):
            finding = replace(f, count=counts.get(i, 1))
            if i in lowered:
                finding = replace(finding, grade="note", message=f"{finding.message}; {lowered[i]}")
            graded.append(finding)
        self.findings = sorted(_merged(graded), key=lambda f: not f.is_fault)
        self.printed, self.unknown, self.uses = "".join(printed), tuple(unknown), tuple(uses)

    def status(self, killed: bool, code: int, time_limit: float) -> tuple[EmulationStatus, str]:
        """Return the status and its reason, and add a finding for a crash or a timeout."""
        end = self.end or {"status": "timeout" if killed else "crashed", "file": "", "line": 0, "message": ""}
        if end["status"] == "crashed":
            message = end["message"] or f"the runner was ended by signal {-code}"
            self.findings.append(Finding(FindingKind.CRASH, message, end["file"], end["line"]))
            return "crashed", str(self.findings[-1])
        if end["status"] == "timeout":
            message = f"not done after {time_limit:g} s" + (f": {end['message']}" if end["message"] else "")
            self.findings.append(Finding(FindingKind.TIMEOUT, message, end["file"], end["line"]))
            return "timeout", str(self.findings[-1])
        return status_of(self.findings)


def _summed(sites: list[_Site]) -> Iterator[_Site]:
    """Combine the sites of the same kind on the same line, and yield them in the order of their first occurrence."""
    same: dict[tuple[object, ...], list[_Site]] = {}
    for s in sites:
        same.setdefault((s.file, s.line, s.callers, s.instruction, s.bytes), []).append(s)
    for first, *rest in same.values():
        if rest:
            sums = {name: sum(getattr(s, name) for s in (first, *rest)) for name in first._fields if name in _COUNTS}
            yield first._replace(**sums)
        else:
            yield first


def _merged(findings: list[Finding]) -> list[Finding]:
    """Merge findings of the same kind at the same line. A line of an unrolled loop has many instructions."""
    merged: dict[tuple[object, ...], Finding] = {}
    for f in findings:
        key = (f.kind, f.file, f.line, f.grade)
        known = merged.get(key)
        merged[key] = f if known is None else replace(known, count=known.count + f.count)
    return list(merged.values())
