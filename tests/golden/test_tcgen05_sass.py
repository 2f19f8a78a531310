"""Machine code of tcgen05_matmul's k-tile loop: consecutive multiplications, issued by one thread."""

from __future__ import annotations

from typing import Any

import pytest
from cases import spread
from tcgen05_planted import B200, SMALL

from measurements.compiler.disassembly import DisassemblerMissing, SassInstruction, disassemble, nvdisasm
from measurements.compiler.nvrtc import NvrtcMissing, compile_source, toolchain_version
from search_spaces.catalogue import template
from search_spaces.hardware.devices import device
from search_spaces.operators.matmul import Matmul

try:
    toolchain_version()
    nvdisasm()
except (NvrtcMissing, DisassemblerMissing) as missing:
    pytestmark = pytest.mark.skip(reason=str(missing))

CASES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "a block": ({"tile_n": 128, "stages": 4}, {}, "UTCHMMA"),
    "a pair": (
        {"tile_m": 256, "tile_n": 256, "stages": 4, "sum_buffers": 2, "tiles_per_block": 4, "store_buffers": 2},
        {},
        "UTCHMMA.2CTA",
    ),
    "fp8": ({"tile_n": 128, "tile_k": 128, "stages": 4}, {"a": "e4m3", "out": "bf16"}, "UTCQMMA"),
    "mxf8": (
        {"tile_n": 256, "tile_k": 128, "stages": 4},
        {"a": "mxf8", "out": "bf16", "scale_order": "tiled"},
        "UTCQMMA",
    ),
    "nvf4": (
        {"tile_m": 256, "tile_n": 256, "tile_k": 128, "stages": 4},
        {"a": "nvf4", "out": "bf16", "scale_order": "tiled"},
        "UTCOMMA.2CTA.4X",
    ),
    "i8": ({"tile_n": 128, "tile_k": 128}, {"a": "i8", "acc": "i32", "out": "i32"}, "UTCIMMA"),
}


def machine_code(name: str) -> tuple[tuple[SassInstruction, ...], str]:
    schedule, fields, _ = CASES[name]
    problem = Matmul(**{"m": 4096, "n": 4096, "k": 4096, "a": "bf16", "order_b": "col", **fields})
    kernel = template("tcgen05_matmul").kernel(problem, SMALL.replace(**schedule), B200)
    compiled = compile_source(kernel.source, kernel.entry, B200.arch, kernel.headers)
    assert compiled.cubin is not None, compiled.log
    return disassemble(compiled.cubin, compiled.entry), compiled.log


@pytest.mark.parametrize("name", spread(CASES, 3))
def test_multiplications_follow_each_other(name: str) -> None:
    body, log = machine_code(name)
    multiplications = [k for k, i in enumerate(body) if i.opcode.startswith("UTC") and "MMA" in i.opcode]
    assert len(multiplications) == 4 and all(body[k].opcode == CASES[name][2] for k in multiplications)
    between = {i.opcode for i in body[multiplications[0] : multiplications[-1]]} - {CASES[name][2]}
    assert all(opcode.startswith(("UMOV", "UIADD3", "ULOP3", "NOP")) for opcode in between), (
        between
    )  # only instructions of the uniform datapath
    assert len(body[multiplications[0] : multiplications[-1]]) <= 12
    assert " 0 bytes spill stores, 0 bytes spill loads" in log
    first_wait = next(k for k, i in enumerate(body) if i.opcode.startswith("SYNCS.PHASECHK"))
    loop = body[min(first_wait, multiplications[0]) : multiplications[-1]]
    assert not any(i.opcode.startswith(("MEMBAR.ALL.GPU", "CCTL")) for i in loop)


@pytest.mark.parametrize("name", ["b300", "jetson_thor"])
def test_the_family_compiles(name: str) -> None:
    problem = Matmul(m=4096, n=4096, k=4096, a="bf16", order_b="col")
    on = device(name)
    kernel = template("tcgen05_matmul").kernel(problem, SMALL, on)
    compiled = compile_source(kernel.source, kernel.entry, on.arch, kernel.headers)
    assert compiled.cubin is not None, compiled.log
