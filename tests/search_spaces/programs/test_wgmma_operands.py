"""If a loop needs a wgmma operand in registers in every iteration, machine code must not overwrite the registers."""

import pytest
from cases import representative
from compiling import shared_pool
from needs import needs_nvrtc
from overwritten_operands import overwritten

from autosched.programs.loading import load_program, problem
from measurements.compiler.cubin_cache import Compiled
from measurements.compiler.disassembly import DisassemblerMissing, SassInstruction, disassemble, nvdisasm
from search_spaces.hardware.devices import device
from search_spaces.programs.template import template
from search_spaces.spaces.schedule import Schedule

H100 = device("h100")
BOXED = {"layout_q": "swizzle(3,3,3)", "layout_k": "transpose+swizzle(3,3,3)", "layout_v": "swizzle(3,3,3)"}
EACH = {f"{option}_{name}": value for name in "qkv" for option, value in
        (("copy", "cp.async"), ("vector", 1), ("copy_columns", 1))}  # fmt: skip
# Kernels copy q for each product. Without the copy, the first three schedules gave wrong results on an H100 (CUDA
# 13.0).
SCHEDULES = {
    "64 columns, by TMA": {"bm": 64, "bn": 64, "stages": 3, "filled_by": "tma", "sum_1": "after_loop", "min_blocks": 2},
    "64 columns, warp": {"bm": 64, "bn": 64, "stages": 3, "filled_by": "warp", "sum_1": "after_loop", "min_blocks": 2},
    "two warpgroups": {"bm": 128, "bn": 64, "stages": 5, "filled_by": "tma", "sum_1": "in_loop", "min_blocks": 2},
    "32 columns": {"bm": 64, "bn": 32, "stages": 3, "filled_by": "tma", "sum_1": "after_loop", "min_blocks": 3},
}  # fmt: skip


def schedule_of(values: dict[str, int | str]) -> Schedule:
    rows = int(values["bm"]) // 16
    warps = {"subgroups_m_1": rows, "subgroups_n_1": 1, "subgroups_m_2": rows, "subgroups_n_2": 1}
    fixed = {"intrinsic": "wgmma_m64k16_f16", "home_q": "registers", "store_1": "turned", "exchange": "pad(4,1)",
             "raster": "column"}  # fmt: skip
    return Schedule.from_json("causal_attention", {**fixed, **warps, **BOXED, **EACH, **values})


@needs_nvrtc
@pytest.mark.parametrize("name", representative(SCHEDULES, "64 columns, by TMA", "two warpgroups"))
def test_q_in_registers_survives_an_iteration(name):
    try:
        nvdisasm()
    except DisassemblerMissing as missing:
        pytest.skip(str(missing))
    example = load_program("examples/programs/attention.py:causal_attention")
    own, p = template(example), problem(example, h=8, g=2, s=1024, d=64)
    schedule = schedule_of(SCHEDULES[name])
    own.space(p, H100).valid.validate(schedule)
    kernel = own.kernel(p, schedule, H100)
    compiled = shared_pool().compile(kernel, H100.arch)
    assert isinstance(compiled, Compiled), compiled.reason
    code = disassemble(compiled.cubin, compiled.entry)
    assert "copy_for_one" in kernel.source
    of_registers = [
        i for i in code if i.opcode.startswith("HGMMA") and i.operands.split(",")[1].strip().startswith("R")
    ]
    assert len(of_registers) >= 2, "both products read an operand from registers"
    assert overwritten(code) == []


def instructions(*lines: str) -> list[SassInstruction]:
    parts = [line.partition(" ") for line in lines]
    return [SassInstruction(16 * i, "", opcode, operands) for i, (opcode, _, operands) in enumerate(parts)]


OF_Q, OF_P = ("HGMMA.64x64x16.F32 R24,R100,gdesc[UR12],RZ,!UPT", "HGMMA.64x64x16.F32 R56,R100,gdesc[UR8],R56")
OF_SHARED = "HGMMA.64x64x16.F32 R24,gdesc[UR8],gdesc[UR12],R24"


@pytest.mark.parametrize(
    "write, registers",
    [
        ("F2FP.F16.F32.PACK_AB R100,R15,R14", 1),
        ("F2FP.F16.F32.PACK_AB R104,R15,R14", 0),
        ("LDS.128 R98,[R3]", 2),
        ("LDS.64 R98,[R3]", 0),
        ("LDSM.16.M88.4 R96,[R3]", 0),
        ("LDSM.16.M88.4 R100,[R3]", 4),
        ("STS.128 [R3],R100", 0),
        ("SHFL.BFLY PT,R101,R4,0x1,0x1f", 1),
        ("HMMA.16816.F32 R97,R4,R8,R97", 1),
        ("MUFU.EX2 R103,R9", 1),
    ],
)
@pytest.mark.parametrize("transposed", [False, True])
def test_overwritten_registers_are_counted(write, registers, transposed):
    """R100 to R103 hold q, which is loaded before the loop. The instruction ``write`` moves p into these registers."""
    lines = [write, OF_P, OF_Q] if transposed else [OF_Q, OF_SHARED, write, OF_P]
    assert len(overwritten(instructions(*lines, "BRA 0x0"))) == registers


def test_an_operand_loaded_in_its_iteration_is_not_overwritten():
    of_each = instructions("LDSM.16.M88.4 R100,[R2]", OF_Q, "LDSM.16.M88.4 R100,[R3]", OF_P, "BRA 0x0")
    assert overwritten(of_each) == []
    assert overwritten(instructions(OF_Q, OF_SHARED, "MOV R100,R9", "BRA 0x0")) == [], (
        "only this wgmma reads the moved q"
    )
