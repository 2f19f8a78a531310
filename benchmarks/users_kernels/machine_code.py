"""Counts of a launch by its machine code: how often warps execute it is told by a run of its PTX.

Nobody runs machine code here. Its basic blocks execute as often as the lines of the source that they are of: a line
loads and stores as many words and has as many floating-point instructions in machine code as in PTX, and so many times
more where ptxas has unrolled a loop. Integer arithmetic and branches are ptxas' own, and are what is counted so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from autosched.proofs.launch_counting import counted_runs
from measurements.compiler.disassembly import Instruction, NotDisassembled, Place, disassemble, loops
from measurements.emulator.findings import ExecutedLine
from measurements.emulator.inputs_file import InputsFile
from search_spaces.hardware.costs.launch_counts import LaunchCounts
from search_spaces.hardware.costs.ptx_costs import Pipe, costs
from search_spaces.operators.problem import Problem
from search_spaces.templates.kernel import Kernel

# Bounds on arithmetic in machine code over arithmetic in PTX: ptxas may execute both sides of a branch.
LEAST, MOST = 0.75, 2.0

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
    # Moves, too: ptxas gives them to the pipe that has less to do, so that they take an issue slot each.
    "control": (
        *("BRA", "BRX", "JMP", "CALL", "RET", "EXIT", "BSSY", "BSYNC", "BREAK", "BMOV", "NANOSLEEP", "YIELD", "BAR"),
        *("DEPBAR", "LDGDEPBAR", "WARPSYNC", "WARPGROUP", "SYNCS", "MEMBAR", "ERRBAR", "CCTL", "FENCE", "VOTE"),
        *("MATCH", "REDUX", "S2R", "R2UR", "MOV", "IMAD.MOV", "CS2R"),
    ),
}
_PIPE_OF = {opcode: pipe for pipe, opcodes in _PIPES.items() for opcode in opcodes}
_JUMPS = ("BRA", "BRX", "JMP", "CALL", "RET", "EXIT", "BREAK", "BSYNC")
# What PTX says better: sectors and bank conflicts are counted of its accesses.
_OF_PTX = ("memory", "constant", "tensor")
# A PTX operation that is one instruction of a pipe.
_OPERATIONS: dict[Pipe, str] = {
    "fma": "fma.rn.f32", "imad": "mad.lo.s32", "alu": "and.b32", "special": "popc.b32", "f64": "fma.rn.f64",
    "control": "bra",
}  # fmt: skip

# What a line has as often in machine code as in PTX.
_KEPT = {
    "LDG": "load", "LD": "load", "STG": "store", "ST": "store", "LDS": "load.shared", "STS": "store.shared",
    "FADD": "f32", "FMUL": "f32", "FFMA": "f32", "DADD": "f64", "DMUL": "f64", "DFMA": "f64",
}  # fmt: skip
_ARITHMETIC, _ACCESSES, _OTHER = ("f32", "f64"), ("load", "store"), "other"
_WIDTHS = {"64": 2, "128": 4}

_Kind = tuple[Place, str]


def in_machine_code(
    counts: LaunchCounts, cubin: bytes, entry: str, kernel: Kernel, problem: Problem
) -> LaunchCounts | None:
    """Return the counts of a launch with what the warps of a block execute of its machine code.

    Args:
        counts: Of its PTX.
        cubin: Compiled with -lineinfo.
        entry: The function in it.
        kernel: The same launch.
        problem: What it computes, with the parameters that are sizes.

    Returns:
        The counts; None where machine code and PTX cannot be matched.
    """
    runs = counted_runs(kernel, InputsFile(problem.random_inputs(0)))
    if runs is None:
        return None
    try:
        code = disassemble(cubin, entry)
    except NotDisassembled:
        return None
    pipes: Counter[Pipe] = Counter()
    for run in runs:
        found = executed_by_pipe(code, run.emulation.lines)
        if found is None:
            return None
        for pipe, n in found.items():
            pipes[pipe] += n * run.share / run.blocks
    return with_pipes(counts, pipes)


def with_pipes(counts: LaunchCounts, pipes: Mapping[Pipe, float]) -> LaunchCounts:
    """Return the counts with instructions of these ``pipes`` in place of the PTX operations that are of them."""
    kept = [(operation, n) for operation, n in counts.executed if {pipe for pipe, _ in costs(operation)} & {*_OF_PTX}]
    own = [(_OPERATIONS[pipe], n) for pipe, n in pipes.items() if pipe not in _OF_PTX]
    return replace(counts, executed=(*kept, *own))


def executed_by_pipe(code: Sequence[Instruction], lines: Sequence[ExecutedLine]) -> dict[Pipe, float] | None:
    """Return what warps execute of ``code``, whose PTX executed ``lines``.

    None where that cannot be told: no line is known, functions are called, or there would be far less or more
    arithmetic than the PTX has.
    """
    if any(line.operation.startswith("call") for line in lines):
        return None
    blocks = basic_blocks(_without_functions(code))
    times = _times(blocks, lines)
    if times is None:
        return None
    pipes: Counter[Pipe] = Counter()
    for block, executed in zip(blocks, times, strict=True):
        for i in block:
            if i.opcode != "NOP":
                pipes[pipe_of(i.opcode)] += executed
    return dict(pipes)


def pipe_of(opcode: str) -> Pipe:
    """Return the pipe of an instruction: "control" for those that are one for all lanes, "alu" for all others."""
    name, *qualifiers = opcode.split(".")
    if qualifiers and (found := _PIPE_OF.get(f"{name}.{qualifiers[0]}")):
        return found
    return _PIPE_OF.get(name) or ("control" if name.startswith("U") else "alu")


def basic_blocks(code: Sequence[Instruction]) -> list[tuple[Instruction, ...]]:
    """Return the code in pieces that are entered at their first instruction alone, and left at their last."""
    starts = {i.target for i in code if i.target is not None}
    blocks: list[list[Instruction]] = []
    ended = True
    for i in code:
        if ended or i.address in starts:
            blocks.append([])
        blocks[-1].append(i)
        ended = i.opcode.partition(".")[0] in _JUMPS
    return [tuple(block) for block in blocks]


def _without_functions(code: Sequence[Instruction]) -> list[Instruction]:
    """Leave out what is called: it is for rare operands (of a division), as functions of the source are inlined."""
    called = [i.target for i in code if i.opcode.startswith("CALL") and i.target is not None]
    return [i for i in code if i.address < min(called, default=i.address + 1)]


def _times(blocks: Sequence[Sequence[Instruction]], lines: Sequence[ExecutedLine]) -> list[float] | None:
    """Return how often each block is executed; None where no line of theirs was, or arithmetic does not come out.

    A block alone is judged by what its lines keep, or else by all that they have. Blocks of a loop that nothing jumps
    over execute as often as the one of them that does most often, and others no more often than that.
    """
    there = Counter[_Kind]()
    for block in blocks:
        for i in block:
            there[_kind_of(i)] += _words(i)
    instructions, executed = Counter[_Kind](), Counter[_Kind]()
    for line in lines:
        for kind, many in _kinds(line.operation):
            of = (line.file, line.line), kind
            instructions[of] += many * line.instructions
            executed[of] += many * line.times
    passes = {of: n / max(there[of], instructions[of]) for of, n in executed.items() if there[of]}
    if not passes:
        return None
    known = [[of for of in map(_kind_of, block) if of in passes] for block in blocks]
    kept = [[passes[of] for of in found if of[1] != _OTHER] for found in known]
    alone = [_upper(some or [passes[of] for of in found]) for some, found in zip(kept, known, strict=True)]
    loop_of, jumped_over = _innermost_loops(blocks), _jumped_over(blocks)
    turns: dict[Span | None, float] = {}
    for loop, times, some in zip(loop_of, alone, kept, strict=True):
        if some:
            turns[loop] = max(turns.get(loop, 0.0), times)
    found_times = []
    for block, loop, times, jumped in zip(blocks, loop_of, alone, jumped_over, strict=True):
        rare = jumped and block[-1].opcode.startswith("CALL") and not block[-1].predicate
        most = turns.get(loop, times)
        found_times.append(0.0 if rare else most if loop and not jumped else min(times, most))
    wanted = sum(n for (_, kind), n in executed.items() if kind in _ARITHMETIC)
    given = sum(n for block, n in zip(blocks, found_times, strict=True) for i in block if _kind_of(i)[1] in _ARITHMETIC)
    return found_times if LEAST * wanted <= given <= MOST * wanted else None


def _upper(passes: Sequence[float]) -> float:
    """Return what nine in ten do not exceed: ptxas executes what PTX jumps over, and takes little out of loops."""
    return sorted(passes)[int(0.9 * (len(passes) - 1))] if passes else 0.0


Span = tuple[int, int]  # bytes, and where they start


def _innermost_loops(blocks: Sequence[Sequence[Instruction]]) -> list[Span | None]:
    """Return the shortest loop that each block is in; None outside of all."""
    bodies = loops([i for block in blocks for i in block])
    spans = sorted((body[-1].address - body[0].address, body[0].address) for body in bodies)
    return [
        next(((length, start) for length, start in spans if start <= block[0].address <= start + length), None)
        for block in blocks
    ]


def _jumped_over(blocks: Sequence[Sequence[Instruction]]) -> list[bool]:
    """Tell of each block whether a branch leads from before it to behind it."""
    jumps = [(b[-1].address, b[-1].target) for b in blocks if b[-1].opcode.partition(".")[0] in ("BRA", "JMP")]
    return [any(start < b[0].address < end for start, end in jumps if end is not None) for b in blocks]


def _kind_of(i: Instruction) -> _Kind:
    return i.place, _KEPT.get(i.opcode.partition(".")[0], _OTHER)


def _words(i: Instruction) -> int:
    """Return words of four bytes that a lane loads or stores, as ptxas joins accesses; 1 for what does neither."""
    name, *qualifiers = i.opcode.split(".")
    return next((_WIDTHS[q] for q in qualifiers if q in _WIDTHS), 1) if _KEPT.get(name, "").startswith(_ACCESSES) else 1


@lru_cache(maxsize=4096)
def _kinds(operation: str) -> tuple[tuple[str, float], ...]:
    """Return what a PTX operation becomes in machine code, by kinds that a line keeps."""
    opcode, *qualifiers = operation.split(".")
    kind = qualifiers[-1] if qualifiers else ""
    if opcode in ("ld", "st") and not {"param", "local", "const"} & {*qualifiers}:
        shared = any(q.startswith("shared") for q in qualifiers)
        elements = next((int(q[1:]) for q in qualifiers if q in ("v2", "v4", "v8")), 1)
        words = max(1.0, elements * int(kind[1:]) / 32)
        return ((("load" if opcode == "ld" else "store") + (".shared" if shared else ""), words),)
    of_pipe = {"fma": "f32", "f64": "f64"} if kind in _ARITHMETIC else {}
    return tuple((of_pipe.get(pipe, _OTHER), many) for pipe, many in costs(operation))
