"""What a kernel's machine code says of its speed, as numbers that any kernel has: ours, Triton's, a stranger's.

All is read from a cubin without a GPU: what a turn of the main loop consists of, by itself and for the arithmetic that
it does, and what the registers and shared memory of a block leave room for on an SM.
"""

from __future__ import annotations

import math
import re
import struct
from collections import Counter
from collections.abc import Sequence

from measurements.compiler.disassembly import Instruction, disassemble, main_loop, mix
from search_spaces.hardware.devices import Device, occupancy

# Finer than ``disassembly.KINDS`` where machines differ: an opcode's first part, else its kind.
_GROUP_OF = {
    **dict.fromkeys(("LDS", "LDSM", "MOVM"), "shared_load"),
    **dict.fromkeys(("STS", "STSM"), "shared_store"),
    **dict.fromkeys(("LDGSTS", "UTMALDG", "UBLKCP"), "async_copy"),
    "BAR": "barrier",
    **dict.fromkeys(("DEPBAR", "LDGDEPBAR", "SYNCS", "WARPGROUP", "MEMBAR", "FENCE", "WARPSYNC"), "wait"),
}
GROUPS = (
    *("tensor", "float", "integer", "shared_load", "shared_store", "async_copy", "load", "store", "spill"),
    *("barrier", "wait", "lanes", "control"),
)
NAMES = (
    *(f"turn.{group}" for group in ("all", *GROUPS)),
    *(f"work.{group}" for group in ("all", *GROUPS)),
    *("turn.flops", "turn.flops_per_byte", "turn.barrier_to_arithmetic"),
    *("block.registers", "block.shared_bytes", "block.threads", "block.spills", "block.code_bytes"),
    *("sm.blocks", "sm.warps", "sm.bytes_in_flight"),
)
_UNIT_FLOPS = 4096  # of a warp: one mma.sync m16n8k16; ``work`` counts instructions for as much
# FFMA and its like: flops of a warp.
_SCALAR_FLOPS = {"FFMA": 64, "FADD": 32, "FMUL": 32, "HFMA2": 128, "DFMA": 64}
_MMA_SHAPE = {"884": 8 * 8 * 4, "1684": 16 * 8 * 4, "1688": 16 * 8 * 8, "16816": 16 * 8 * 16, "16832": 16 * 8 * 32}
_MMA_SHAPE |= {"8816": 8 * 8 * 16, "8832": 8 * 8 * 32, "16864": 16 * 8 * 64}
_WARPS_OF_WARPGROUP = 4
_REGISTER_COUNT = 0x2F  # EIATTR_REGCOUNT of .nv.info, as cuobjdump -elf calls it
_SIZED = 0x04  # EIFMT_SVAL: an attribute whose size precedes its value


def features(cubin: bytes, entry: str, chip: Device, threads: int, shared_bytes: int) -> dict[str, float]:
    """``NAMES`` with their values for a block of ``threads`` with ``shared_bytes`` of shared memory of both kinds.

    ``turn``: warp instructions of a turn of the main loop, the flops of a warp in it, and these for each byte loaded;
    ``work``: instructions for 4096 flops of a warp; ``block`` and ``sm``: what a block takes and how much an SM holds.
    NaN where the code does not say it: work of a loop without arithmetic, bytes that TMA loads. Raises
    DisassemblerMissing, and NotDisassembled for what is no cubin or has no such function.
    """
    body = disassemble(cubin, entry)
    loop = main_loop(body)
    turn = mix(loop)
    counted = Counter(_group(i) for i in loop)
    counted["all"] = len(loop)
    flops = _flops(loop)
    used = registers(cubin)
    blocks = occupancy(chip, threads, used, shared_bytes)
    loaded = math.nan if any(i.opcode.startswith(("UTMALDG", "UBLKCP")) for i in loop) else turn.loaded_bytes
    values = {f"turn.{group}": float(counted[group]) for group in ("all", *GROUPS)}
    values |= {
        f"work.{group}": counted[group] * _UNIT_FLOPS / flops if flops else math.nan for group in ("all", *GROUPS)
    }
    values |= {
        "turn.flops": float(flops),
        "turn.flops_per_byte": flops / (32 * loaded) if loaded else math.nan,
        "turn.barrier_to_arithmetic": math.nan if turn.after_barrier is None else float(turn.after_barrier),
        "block.registers": float(used),
        "block.shared_bytes": float(shared_bytes),
        "block.threads": float(threads),
        "block.spills": float(sum(i.kind == "spill" for i in body)),
        "block.code_bytes": float(body[-1].address - body[0].address) if body else 0.0,
        "sm.blocks": float(blocks),
        "sm.warps": blocks * threads / 32,
        "sm.bytes_in_flight": max(blocks, 1) * threads * loaded * _turns_in_flight(loop),
    }
    return {name: values[name] for name in NAMES}


def registers(cubin: bytes) -> int:
    """Registers of a thread: the most that a function of the cubin has. 0 for what does not say it.

    The cubin's section ``.nv.info`` is a row of attributes: a byte for its form, one for its meaning, two for a value
    or for the size of the one that follows; the count of registers is two words, the function's symbol and the count.
    """
    start, size, count, names = struct.unpack_from("<40xQ10xHHH", cubin)
    headers = [struct.unpack_from("<I20xQQ24x", cubin, start + i * size) for i in range(count)]
    found = 0
    for name, offset, length in headers:
        at = headers[names][1] + name
        if cubin[at : cubin.index(b"\0", at)] != b".nv.info":
            continue
        place, end = offset, offset + length
        while place + 4 <= end:
            form, meaning, short = struct.unpack_from("<BBH", cubin, place)
            if (form, meaning, short) == (_SIZED, _REGISTER_COUNT, 8):
                found = max(found, struct.unpack_from("<I", cubin, place + 8)[0])
            place += 4 + (short if form == _SIZED else 0)
    return found


def _group(instruction: Instruction) -> str:
    group = _GROUP_OF.get(instruction.opcode.partition(".")[0], instruction.kind)
    return "wait" if group == "barrier" and not instruction.opcode.startswith("BAR") else group


def _flops(loop: Sequence[Instruction]) -> int:
    """Flops of a warp in a turn: on tensor cores, or of scalars where it has none of those."""
    tensor = sum(_tensor_flops(i.opcode) for i in loop if i.kind == "tensor")
    return tensor or sum(_SCALAR_FLOPS.get(i.opcode.partition(".")[0], 0) for i in loop)


def _tensor_flops(opcode: str) -> int:
    """Of a warp: the shape is in the opcode, as m x n x k of a warpgroup or as digits of a warp."""
    if shape := re.search(r"\.(\d+)x(\d+)x(\d+)", opcode):
        m, n, k = map(int, shape.groups())
        return 2 * m * n * k // _WARPS_OF_WARPGROUP
    return 2 * next((_MMA_SHAPE[part] for part in opcode.split(".")[1:] if part in _MMA_SHAPE), 0)


def _turns_in_flight(loop: Sequence[Instruction]) -> float:
    """Turns whose copies are under way at most: those of groups that a turn's wait lets go on, and its own."""
    committed = sum(i.opcode.startswith("LDGDEPBAR") for i in loop)
    waits = [re.search(r"SB0,\s*0x([0-9a-f]+)", i.operands) for i in loop if i.opcode.startswith("DEPBAR")]
    allowed = max((int(wait[1], 16) for wait in waits if wait), default=0)
    return 1 + allowed / committed if committed else 1.0
