"""Count the machine instructions of a launch, with execution counts taken from a run of its PTX.

Machine code is not executed here. Each basic block is assumed to execute as often as its source lines. A line has as
many loads, stores and floating-point instructions in machine code as in PTX, or a multiple if ptxas has unrolled a
loop. The counts include instructions that only machine code has, such as ptxas's code for divisions, addresses and
spills.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from typing import Literal

from autosched.verify.launch_counting import CountedLaunch
from measurements.compiler.cubin_cache import Compiled
from measurements.compiler.disassembly import (
    DisassemblerMissing,
    NotDisassembled,
    SassInstruction,
    SourceLine,
    disassemble,
    loops,
    nvdisasm,
)
from measurements.emulator.findings import ExecutedLine
from measurements.files.text import first_line
from search_spaces.hardware.costs.launch_counts import LaunchCounts
from search_spaces.hardware.costs.ptx_costs import Pipe, by_pipe, costs

# Bounds on the number of arithmetic instructions in machine code, relative to PTX. There may be fewer, because ptxas
# may fuse a multiplication and an addition, or more, because it may execute both sides of a branch.
LEAST, MOST = 0.5, 2.0

_PIPES: dict[Pipe, tuple[str, ...]] = {
    "fma": ("FADD", "FMUL", "FFMA", "FSWZADD", "FADD2", "FMUL2", "FFMA2", "HADD2", "HMUL2", "HFMA2"),
    "imad": ("IMAD", "IDP", "IDP4A"),
    "special": ("MUFU", "FCHK", "I2F", "F2I", "F2F", "FRND", "POPC", "FLO", "BREV"),
    "f64": ("DADD", "DMUL", "DFMA", "DSETP", "DMNMX"),
    "tensor": ("HMMA", "IMMA", "DMMA", "BMMA", "QMMA", "OMMA", "HGMMA", "IGMMA", "QGMMA", "BGMMA"),
    "memory": (
        *("LD", "LDG", "LDS", "LDL", "LDSM", "LDGSTS", "ST", "STG", "STS", "STL", "STSM", "MOVM", "SHFL"),
        *("ATOM", "ATOMG", "ATOMS", "RED", "REDG", "TEX", "TLD", "TLD4", "TXD", "SULD", "SUST", "SURED", "SUATOM"),
    ),
    "constant": ("LDC",),
    # Register moves (MOV, IMAD.MOV) are counted here, because ptxas assigns them to the less busy pipe.
    "control": (
        *("BRA", "BRX", "JMP", "CALL", "RET", "EXIT", "BSSY", "BSYNC", "BREAK", "BMOV", "NANOSLEEP", "YIELD", "BAR"),
        *("DEPBAR", "LDGDEPBAR", "WARPSYNC", "WARPGROUP", "SYNCS", "MEMBAR", "ERRBAR", "CCTL", "FENCE", "VOTE"),
        *("MATCH", "REDUX", "S2R", "R2UR", "MOV", "IMAD.MOV", "CS2R"),
    ),
}
_CONVERSIONS = ("I2F", "F2I", "F2F", "FRND")
_PIPE_OF = {opcode: pipe for pipe, opcodes in _PIPES.items() for opcode in opcodes}
_JUMPS = ("BRA", "BRX", "JMP", "CALL", "RET", "EXIT", "BREAK", "BSYNC")
# Pipes whose counts are more accurate in machine code: the pipes that execute divisions, f64, indices, comparisons and
# conversions. f32 additions and multiplications, sectors and bank conflicts are the same in PTX. Register moves exist
# only in machine code and differ between compilers. Counting them makes the predicted ranking of the benchmark kernel
# pnpoly worse.
_OF_MACHINE_CODE: tuple[Pipe, ...] = ("imad", "alu", "special", "f64")
# PTX operations that correspond to one machine instruction of a pipe.
_OPERATIONS: dict[Pipe, str] = {
    "fma": "fma.rn.f32", "imad": "mad.lo.s32", "alu": "and.b32", "special": "popc.b32", "f64": "fma.rn.f64",
    "control": "bra",
}  # fmt: skip

# Instructions that occur equally often in the machine code and in the PTX of a source line.
_PRESERVED = {
    "LDG": "load", "LD": "load", "STG": "store", "ST": "store", "LDS": "load.shared", "STS": "store.shared",
    "FADD": "f32", "FMUL": "f32", "FFMA": "f32", "DADD": "f64", "DMUL": "f64", "DFMA": "f64",
}  # fmt: skip
_ARITHMETIC, _ACCESSES, _OTHER = ("f32", "f64"), ("load", "store"), "other"
_WIDTHS = {"64": 2, "128": 4}

_Kind = tuple[SourceLine, str]


class NotMatched(ValueError):
    """Execution counts of machine code cannot be derived from a run of its PTX.

    The message is one line with the reason.
    """


def in_program(launches: Sequence[CountedLaunch], program: Compiled) -> list[LaunchCounts]:
    """Return the counts of a program's launches, in machine code if possible, and otherwise in PTX.

    Each reason for not using machine code is logged once.
    """
    if why_ptx() is not None:
        return [launch.counts for launch in launches]
    counts = []
    for launch, entry in zip(launches, program.entries, strict=True):
        try:
            counts.append(in_machine_code(launch, disassemble(program.cubin, entry)))
        except (NotDisassembled, NotMatched, OSError) as error:
            _log_once(first_line(error))
            counts.append(launch.counts)
    return counts


def counted_in() -> Literal["machine code", "PTX"]:
    """Return the code whose instructions are counted on this machine.

    A launch whose machine code does not match its PTX is always counted in PTX.
    """
    return "machine code" if why_ptx() is None else "PTX"


def why_ptx() -> str | None:
    """Return the reason, in one line, why this machine cannot count machine instructions; None if it can."""
    try:
        nvdisasm()
    except DisassemblerMissing as missing:
        return str(missing)
    return None


@cache
def _log_once(reason: str) -> None:
    logging.getLogger(__name__).warning("instructions are counted in PTX: %s", reason)


def in_machine_code(launch: CountedLaunch, code: Sequence[SassInstruction]) -> LaunchCounts:
    """Return the counts of a launch, with machine instructions in place of PTX instructions.

    Args:
        launch: Launch counted in PTX.
        code: Machine code of its function, with source lines (-lineinfo).

    Returns:
        The counts.

    Raises:
        NotMatched: Machine code and PTX cannot be matched.
    """
    executed = defaultdict[str, float](float)
    for weight, lines in launch.lines:
        for opcode, times in executed_in(code, lines).items():
            executed[opcode] += weight * times
    pipes = defaultdict[Pipe, float](float)
    for opcode, times in executed.items():
        pipes[pipe_of(opcode)] += times
    local = sum(times * _words(opcode) for opcode, times in executed.items() if opcode.startswith(("LDL", "STL")))
    # Spills are counted only if the kernel has no local arrays, because accesses to such arrays look like spills.
    has_arrays = any(_is_local(operation) for operation, _ in launch.counts.executed)
    return replace(with_pipes(launch.counts, pipes), spilled_words=None if has_arrays else local)


def with_pipes(counts: LaunchCounts, pipes: Mapping[Pipe, float]) -> LaunchCounts:
    """Replace counts of PTX instructions by ``pipes``: the number of machine instructions in each pipe."""
    assigned, unassigned = dict[str, float](), dict[str, float]()
    for operation, times in counts.executed:
        named = any(pipe not in _OPERATIONS for pipe, _ in costs(operation))
        (assigned if named else unassigned)[operation] = times
    of_ptx = by_pipe(unassigned)
    own = [(name, (pipes if pipe in _OF_MACHINE_CODE else of_ptx).get(pipe, 0.0)) for pipe, name in _OPERATIONS.items()]
    return replace(counts, executed=(*assigned.items(), *((name, times) for name, times in own if times)))


def executed_in(code: Sequence[SassInstruction], lines: Sequence[ExecutedLine]) -> dict[str, float]:
    """Return how often warps executed each opcode of ``code``, from the execution counts ``lines`` of its PTX.

    Raises NotMatched if this cannot be derived: lines are unknown, functions are called, or the amount of arithmetic
    differs too much from the PTX.
    """
    if any(line.operation.startswith("call") for line in lines):
        raise NotMatched("a kernel calls functions")
    blocks = basic_blocks(_without_functions(code))
    executed = defaultdict[str, float](float)
    for block, times in zip(blocks, _times(blocks, lines, _functions(code)), strict=True):
        for i in block:
            if i.opcode != "NOP":
                executed[i.opcode] += times
    return dict(executed)


def pipe_of(opcode: str) -> Pipe:
    """Return the pipe of an instruction.

    The pipe is "control" for instructions shared by all lanes, and "alu" for instructions that are not listed.
    """
    name, *qualifiers = opcode.split(".")
    if qualifiers and (pipe := _PIPE_OF.get(f"{name}.{qualifiers[0]}")):
        return pipe
    # counted as f64: on GPUs with slow f64 arithmetic, conversions of f64 take as long as this arithmetic
    if name in _CONVERSIONS and "F64" in qualifiers:
        return "f64"
    return _PIPE_OF.get(name) or ("control" if name.startswith("U") else "alu")


def basic_blocks(code: Sequence[SassInstruction]) -> list[tuple[SassInstruction, ...]]:
    """Return the basic blocks, which are entered only at the first instruction and exited only at the last."""
    starts = {i.target for i in code if i.target is not None}
    blocks: list[list[SassInstruction]] = []
    ended = True
    for i in code:
        if ended or i.address in starts:
            blocks.append([])
        blocks[-1].append(i)
        ended = i.opcode.partition(".")[0] in _JUMPS
    return [tuple(block) for block in blocks]


def _without_functions(code: Sequence[SassInstruction]) -> list[SassInstruction]:
    """Drop called functions.

    ptxas inlines the functions of the source. The remaining called functions only handle rare cases, such as unusual
    operands of a division.
    """
    called = _functions(code)
    return [i for i in code if i.address < min(called, default=i.address + 1)]


def _functions(code: Sequence[SassInstruction]) -> set[int]:
    """Return the addresses of called functions that end with a return.

    ptxas also uses call instructions to jump to other code of the kernel. Such code ends with an exit, and is excluded.
    """
    called = {i.target for i in code if i.opcode.startswith("CALL") and i.target is not None}
    ends = [i for i in code if i.opcode.startswith(("RET", "EXIT")) and not i.predicate]
    first = {target: next((i for i in ends if i.address >= target), None) for target in called}
    return {target for target, end in first.items() if end is not None and end.opcode.startswith("RET")}


def _times(
    blocks: Sequence[Sequence[SassInstruction]], lines: Sequence[ExecutedLine], functions: Collection[int]
) -> list[float]:
    """Return the number of executions of each basic block.

    Raises NotMatched if no source line of the blocks ran, or the arithmetic does not match.

    The count of a block is derived from the instructions that occur as often in machine code as in PTX
    (``_PRESERVED``). If a block has no such instruction, all its instructions are used. Blocks of a loop that no branch
    skips get the highest count in the loop. The other blocks of the loop get at most this count.
    """
    expected = Counter[_Kind]()
    for block in blocks:
        for i in block:
            expected[_kind_of(i)] += _words(i.opcode)
    instructions, executed = defaultdict[_Kind, float](float), defaultdict[_Kind, float](float)
    for line in lines:
        for kind, many in _kinds(line.operation):
            of = (line.file, line.line), kind
            instructions[of] += many * line.instructions
            executed[of] += many * line.times
    passes = {of: n / max(expected[of], instructions[of]) for of, n in executed.items() if expected[of]}
    if not passes:
        raise NotMatched("no executed source line has machine code")
    known = [[of for of in map(_kind_of, block) if of in passes] for block in blocks]
    matched = [[passes[of] for of in parts if of[1] != _OTHER] for parts in known]
    alone = [_upper(some or [passes[of] for of in parts]) for some, parts in zip(matched, known, strict=True)]
    loop_of, jumped_over = _innermost_loops(blocks), _jumped_over(blocks)
    iterations: dict[Span | None, float] = {}
    for loop, times, some in zip(loop_of, alone, matched, strict=True):
        if some:
            iterations[loop] = max(iterations.get(loop, 0.0), times)
    found_times = []
    for block, loop, times, jumped in zip(blocks, loop_of, alone, jumped_over, strict=True):
        rare = jumped and block[-1].target in functions and not block[-1].predicate
        most = iterations.get(loop, times)
        found_times.append(0.0 if rare else most if loop and not jumped else min(times, most))
    target = sum(n for (_, kind), n in executed.items() if kind in _ARITHMETIC)
    arithmetic = sum(
        n for block, n in zip(blocks, found_times, strict=True) for i in block if _kind_of(i)[1] in _ARITHMETIC
    )
    if not LEAST * target <= arithmetic <= MOST * target:
        raise NotMatched("the arithmetic in machine code differs too much from the PTX")
    return found_times


def _upper(passes: Sequence[float]) -> float:
    """Return the 90th percentile of the counts.

    Low counts are less reliable, because the machine code may execute instructions that the PTX skips, and ptxas may
    move code out of a loop.
    """
    return sorted(passes)[int(0.9 * (len(passes) - 1))] if passes else 0.0


Span = tuple[int, int]  # (length, start address) of a loop, in bytes


def _innermost_loops(blocks: Sequence[Sequence[SassInstruction]]) -> list[Span | None]:
    """Return the innermost loop that contains each block; None for a block outside all loops."""
    bodies = loops([i for block in blocks for i in block])
    spans = sorted((body[-1].address - body[0].address, body[0].address) for body in bodies)
    return [
        next(((length, start) for length, start in spans if start <= block[0].address <= start + length), None)
        for block in blocks
    ]


def _jumped_over(blocks: Sequence[Sequence[SassInstruction]]) -> list[bool]:
    """Return for each block whether a branch skips it."""
    jumps = [(b[-1].address, b[-1].target) for b in blocks if b[-1].opcode.partition(".")[0] in ("BRA", "JMP")]
    return [any(start < b[0].address < end for start, end in jumps if end is not None) for b in blocks]


def _kind_of(i: SassInstruction) -> _Kind:
    return i.line, _PRESERVED.get(i.opcode.partition(".")[0], _OTHER)


def _words(opcode: str) -> int:
    """Return the number of 4-byte words that a lane loads or stores; 1 for other instructions."""
    name, *qualifiers = opcode.split(".")
    accesses = name in ("LDL", "STL") or _PRESERVED.get(name, "").startswith(_ACCESSES)
    return next((_WIDTHS[q] for q in qualifiers if q in _WIDTHS), 1) if accesses else 1


def _ptx_words(qualifiers: Sequence[str]) -> float:
    """Return the number of 4-byte words that a lane accesses, from the qualifiers of a PTX operation ("v2", "f32")."""
    elements = next((int(q[1:]) for q in qualifiers if q in ("v2", "v4", "v8")), 1)
    if not qualifiers[-1][1:].isdecimal():
        raise NotMatched(f"the width of the access {'.'.join(qualifiers)} is unknown")
    return max(1.0, elements * int(qualifiers[-1][1:]) / 32)


def _is_local(operation: str) -> bool:
    """Return True if a PTX operation accesses local memory.

    Such memory always belongs to an array of the source, because PTX has no spills.
    """
    opcode, *qualifiers = operation.split(".")
    return opcode in ("ld", "st") and "local" in qualifiers


@lru_cache(maxsize=4096)
def _kinds(operation: str) -> tuple[tuple[str, float], ...]:
    """Return the classes of machine instructions that implement a PTX operation, with the number of each."""
    opcode, *qualifiers = operation.split(".")
    kind = qualifiers[-1] if qualifiers else ""
    if opcode in ("ld", "st") and not {"param", "local", "const"} & {*qualifiers}:
        shared = any(q.startswith("shared") for q in qualifiers)
        return ((("load" if opcode == "ld" else "store") + (".shared" if shared else ""), _ptx_words(qualifiers)),)
    of_pipe = {"fma": "f32", "f64": "f64"} if kind in _ARITHMETIC else {}
    return tuple((of_pipe.get(pipe, _OTHER), many) for pipe, many in costs(operation))
