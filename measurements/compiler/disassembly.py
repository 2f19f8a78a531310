"""Disassemble a cubin, and find its loops and the instruction mix of its main loop.

This runs ``nvdisasm`` (CUDA Binary Utilities) from the wheel ``nvidia-cuda-nvdisasm`` or from a CUDA toolkit. No GPU is
needed.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import shutil
import subprocess
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePath
from typing import Any

from measurements.files.bounded import read_bounded
from measurements.files.cache_folder import LISTINGS, CacheUnusable, cache_root, publish
from measurements.files.text import first_line, one_line
from measurements.files.work_folders import temporary_folder

_SECONDS = 60  # time limit of nvdisasm in seconds; it takes 0.4 s for one of autosched's kernels
_MOST_BYTES = 1 << 28  # maximum bytes of a listing that is cached
INSTRUCTION_BYTES = 16  # size of a machine instruction in bytes, from sm_70 on

# Opcodes of each kind of instruction, up to the first dot (CUDA Binary Utilities, "Instruction Set Reference").
_KINDS: dict[str, tuple[str, ...]] = {
    "tensor": ("HMMA", "IMMA", "DMMA", "BMMA", "QMMA", "OMMA", "HGMMA", "IGMMA", "QGMMA", "BGMMA"),
    "float": (
        *("FADD", "FMUL", "FFMA", "FMNMX", "FSEL", "FSETP", "FSET", "FCHK", "FSWZADD", "FRND", "MUFU"),
        *("HADD2", "HMUL2", "HFMA2", "HMNMX2", "HSET2", "HSETP2", "DADD", "DMUL", "DFMA", "DSETP"),
        *("F2F", "F2FP", "F2I", "I2F", "I2FP", "F2IP"),
    ),
    "shared": ("LDS", "LDSM", "STS", "STSM", "ATOMS", "MOVM"),
    "load": ("LD", "LDG", "LDGSTS", "UTMALDG", "UBLKCP"),
    "store": ("ST", "STG", "RED", "REDG", "ATOM", "ATOMG", "UTMASTG", "UTMAREDG"),
    "spill": ("LDL", "STL"),
    "barrier": ("BAR", "LDGDEPBAR", "DEPBAR", "WARPSYNC", "SYNCS", "MEMBAR", "ERRBAR", "CCTL", "UCGABAR_ARV",
                "UCGABAR_WAIT", "FENCE", "WARPGROUP"),
    "lanes": ("SHFL", "VOTE", "VOTEU", "MATCH", "REDUX"),
    "control": ("BRA", "BRX", "BRXU", "JMP", "CALL", "RET", "EXIT", "BSSY", "BSYNC", "BREAK", "NOP", "NANOSLEEP",
                "YIELD"),
}  # fmt: skip
_KIND_OF = {opcode: kind for kind, opcodes in _KINDS.items() for opcode in opcodes}
# kind of all other instructions, such as arithmetic of addresses and counters, moves and predicates
INTEGER = "integer"
KINDS = (*_KINDS, INTEGER)
ARITHMETIC = ("tensor", "float")


class DisassemblerMissing(RuntimeError):
    """nvdisasm is not installed. The message is one line with the remedy."""


class NotDisassembled(ValueError):
    """nvdisasm cannot read a cubin, or the cubin does not contain the function. The message is one line."""


SourceLine = tuple[str, int]  # name of a file without its folder, and a line number


@dataclass(frozen=True)
class SassInstruction:
    """One SASS instruction. ``address`` is its offset in bytes from the start of the function.

    ``line`` is the source line of the instruction; None unless the cubin has line information (-lineinfo).
    """

    address: int
    predicate: str
    opcode: str
    operands: str
    line: SourceLine = ("", 0)

    @property
    def kind(self) -> str:
        """Kind of the instruction, one of ``KINDS``."""
        return _KIND_OF.get(self.opcode.partition(".")[0], INTEGER)

    @property
    def target(self) -> int | None:
        """Address of a jump or call; None for other instructions and indirect targets."""
        if self.opcode.partition(".")[0] not in ("BRA", "JMP", "CALL", "BSSY"):
            return None
        named = self.operands.rpartition(",")[2].strip()
        return int(named, 16) if named.startswith("0x") else None

    @property
    def never(self) -> bool:
        """True if the instruction never executes because its predicate is always false, as in ptxas's padding."""
        return self.predicate == "@!PT"

    @property
    def loaded_bytes(self) -> int:
        """Bytes that one lane loads from global memory; 0 for other instructions."""
        if self.kind != "load":
            return 0
        parts = self.opcode.split(".")
        widths = {"128": 16, "64": 8, "U16": 2, "S16": 2, "U8": 1, "S8": 1}
        return next((widths[part] for part in parts[1:] if part in widths), 4)


@dataclass(frozen=True)
class LoopMix:
    """Instruction mix of a loop of machine code, per iteration: instructions by kind, and bytes that a lane loads.

    ``after_barrier`` is the number of instructions from the last block-wide barrier of an iteration to the next
    arithmetic instruction, even if this instruction belongs to the next iteration; None without a barrier or without
    arithmetic.
    """

    instructions: int
    kinds: tuple[tuple[str, int], ...]
    loaded_bytes: int
    after_barrier: int | None

    def count(self, kind: str) -> int:
        """Return the number of instructions of a kind."""
        return dict(self.kinds).get(kind, 0)


@cache
def nvdisasm() -> Path:
    """Return the path of nvdisasm. Raises DisassemblerMissing."""
    for wheel in ("nvidia-cuda-nvdisasm", "nvidia-cuda-nvdisasm-cu12"):
        try:
            files = importlib.metadata.files(wheel) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        for file in files:
            if file.name in ("nvdisasm", "nvdisasm.exe"):
                return Path(str(file.locate()))
    path = shutil.which("nvdisasm")
    if path is None:
        raise DisassemblerMissing("nvdisasm was not found: pip install nvidia-cuda-nvdisasm")
    return Path(path)


def disassemble(cubin: bytes, entry: str) -> tuple[SassInstruction, ...]:
    """Return the instructions of the function ``entry``, except those that never execute.

    The output of nvdisasm is cached, because starting it takes 0.4 s of CPU time.

    Raises DisassemblerMissing. Raises NotDisassembled for an invalid cubin or an unknown function.
    """
    try:
        _, functions, *sources = _listing(cubin)
        files = [PurePath(row["file"]).name for table in sources for row in table["files"]]
        body = next(f["sass-instructions"] for f in functions if f["function-name"] == entry)
        instructions = []
        position = ("", 0)
        for i, row in enumerate(body):
            if "source-line" in row:  # a line entry applies to all instructions until the next entry
                position = (files[row["source-file-id"]], row["source-line"])
            operands = row.get("operands", "")
            instructions.append(
                SassInstruction(i * INSTRUCTION_BYTES, row.get("predicate", ""), row["opcode"], operands, position)
            )
    except StopIteration:
        raise NotDisassembled(f"the cubin has no function {entry}") from None
    except NotDisassembled:
        raise
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise NotDisassembled(
            f"the JSON of this version of nvdisasm has an unknown format ({first_line(error)}): use another version"
        ) from None
    return tuple(instruction for instruction in instructions if not instruction.never)


def _listing(cubin: bytes) -> Any:
    """Return the parsed JSON output of nvdisasm for a cubin, from the cache if possible."""
    program = nvdisasm()
    cached = _cached_listing(program, cubin)
    if cached is not None:
        with suppress(OSError, ValueError):
            return json.loads(read_bounded(cached, _MOST_BYTES))
    written = _run(program, cubin)
    document = json.loads(written)
    if cached is not None and len(written) <= _MOST_BYTES:
        with suppress(OSError):  # an unwritable cache is ignored
            cached.parent.mkdir(parents=True, exist_ok=True)
            publish(cached, written)
    return document


def _cached_listing(program: Path, cubin: bytes) -> Path | None:
    """Return the path of a cubin's listing in the cache; None if the cache or nvdisasm is unusable."""
    try:
        version = program.stat()
        folder = cache_root() / LISTINGS
    except (OSError, CacheUnusable):
        return None
    identity = hashlib.sha256(f"{program} {version.st_size} {version.st_mtime_ns}\n".encode() + cubin)
    return folder / f"{identity.hexdigest()}.json"


def _run(program: Path, cubin: bytes) -> bytes:
    with temporary_folder("sass") as folder:
        path = folder / "kernel.cubin"
        path.write_bytes(cubin)
        command = [str(program), "-json", "-g", str(path)]
        try:
            done = subprocess.run(command, capture_output=True, timeout=_SECONDS, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise NotDisassembled(f"nvdisasm: {first_line(error)}") from None
    if done.returncode:
        message = one_line(done.stderr.decode(errors="replace"))
        raise NotDisassembled(f"nvdisasm: {message or f'exit status {done.returncode}'}")
    return done.stdout


def loops(instructions: Sequence[SassInstruction]) -> list[tuple[SassInstruction, ...]]:
    """Return the instructions of every loop.

    A loop has the instructions from the target of a backward branch to the branch.

    Kernels end with a branch that jumps to itself. This branch is not counted as a loop.
    """
    bodies: dict[tuple[int, int], tuple[SassInstruction, ...]] = {}
    for branch in instructions:
        start = branch.target
        if branch.opcode.partition(".")[0] == "BRA" and start is not None and start < branch.address:
            body = tuple(i for i in instructions if start <= i.address <= branch.address)
            bodies[start, branch.address] = body
    return list(bodies.values())


def main_loop(instructions: Sequence[SassInstruction]) -> tuple[SassInstruction, ...]:
    """Return the main loop: the shortest loop with at least half as much work as the loop with the most work.

    The work of a loop is its number of arithmetic instructions outside of inner loops. If no loop has arithmetic,
    memory accesses are counted instead. Without loops, all instructions are returned.
    """
    bodies = loops(instructions)

    def amount(body: Sequence[SassInstruction], kinds: Sequence[str]) -> int:
        first, last = body[0].address, body[-1].address
        inner = {
            i.address
            for other in bodies
            if len(other) < len(body) and first <= other[0].address and other[-1].address <= last
            for i in other
        }
        return sum(i.kind in kinds and i.address not in inner for i in body)

    for kinds in (("tensor",), ("float",), ("load", "store", "shared")):
        most = max((amount(body, kinds) for body in bodies), default=0)
        if most:
            return min((body for body in bodies if 2 * amount(body, kinds) >= most), key=len)
    return tuple(instructions)


def mix(body: Sequence[SassInstruction]) -> LoopMix:
    """Return the instruction mix of a loop."""
    kinds = Counter(i.kind for i in body)
    barriers = [at for at, i in enumerate(body) if i.opcode.startswith("BAR")]
    after: int | None = None
    if barriers:
        around = [*body[barriers[-1] + 1 :], *body[: barriers[-1]]]
        after = next((at for at, i in enumerate(around) if i.kind in ARITHMETIC), None)
    return LoopMix(
        instructions=len(body),
        kinds=tuple((kind, kinds[kind]) for kind in KINDS if kinds[kind]),
        loaded_bytes=sum(i.loaded_bytes for i in body),
        after_barrier=after,
    )
