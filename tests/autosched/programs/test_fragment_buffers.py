"""Two buffers of fragments in tile programs.

The kernels' results are correct in two execution orders, and an iteration has as few instructions as in the
hand-written matmul. Programs whose steps cannot alternate between the buffers are rejected.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cases import spread
from compiling import shared_pool
from program_schedules import Values, filled, operand
from random_programs import random_program
from random_schedules import random_schedule

from autosched.programs.loading import load_program, problem
from measurements.compiler.disassembly import DisassemblerMissing, disassemble, main_loop, mix, nvdisasm
from measurements.compiler.pool import CompileFailure
from measurements.emulator import Order, emulate
from search_spaces.hardware.devices import device
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.operators.matmul import Matmul
from search_spaces.programs.problem import ProgramProblem
from search_spaces.programs.schedules.counts import counts
from search_spaces.programs.template import template
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.matmul.template import MATMUL

EXAMPLES = Path(__file__).parents[3] / "examples" / "programs"
A100 = device("a100")


def gemm(**changes: int | str) -> Values:
    return {
        "bm": 64, "bn": 64, "bk": 32, "intrinsic": "mma_m16n8k16_f16", "subgroups_m": 2, "subgroups_n": 2,
        **operand("a", "pad(8,1)", 4, 8), **operand("b", "pad(8,1)", 8, 4), "stages": 3, "fragment_buffers": 2,
        "split_k": 1, "stream_k": 0, "tail": "masked", "store_1": "direct", "exchange": "pad(4,1)", "min_blocks": 1,
        "raster": "row",
    } | changes  # fmt: skip


def check(p: ProgramProblem, schedule: Schedule, order: Order) -> None:
    kernel_template = template(p.program)
    assert kernel_template.space(p, A100).valid.explain(schedule) == []
    kernel, inputs = kernel_template.kernel(p, schedule, A100), p.random_inputs(1)
    assert "tile::fragment_pipeline<" in kernel.source
    run = emulate(kernel, inputs, time_limit=60.0, order=order)
    assert run.status == "ok", run.reason
    expected, bounds = p.expected(inputs)
    types = {o.name: o.dtype for o in p.operands()}
    for name, values in expected.items():
        assert np.all(np.abs(types[name].load(run.outputs[name]) - values) <= bounds[name])


ORDERS = pytest.mark.parametrize("order", [Order("ascending"), Order("random", 3)], ids=["ascending", "random"])


@ORDERS
@pytest.mark.parametrize(
    "changes",
    spread(
        [
            {"stages": 2},
            {"stages": 5, "bk": 64, "copy_columns_a": 8},
            {"stages": 4, "tail": "peeled"},
            {"stages": 3, "split_k": 2},
            {"stages": 3, "store_1": "turned", "tail": "peeled"},
        ],
        4,
    ),
    ids=["two stages", "more stages than turns", "peeled", "split", "turned"],
)
def test_gemm_is_right(changes: Values, order: Order) -> None:
    p = problem(load_program(str(EXAMPLES / "gemm_relu.py")), m=76, n=76, k=184)
    check(p, filled(p, gemm(**changes), A100), order)


@ORDERS
@pytest.mark.parametrize("name", ["gated_mlp.py", "narrow_matmul.py:int8_matmul", "narrow_matmul.py:tf32_matmul"])
def test_other_programs_are_right(name: str, order: Order) -> None:
    """The programs have products that share fragments, or types whose fragments are loaded or rounded differently."""
    p = problem(load_program(str(EXAMPLES / name)), m=70, n=80, k=144)
    schedules = template(p.program).space(p, A100).valid.sample(300, 1)
    check(p, next(s for s in schedules if s.integer("fragment_buffers") == 2), order)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"stages": 1}, "at least two stages, not 1"),
        ({"copy_a": "ld.global"}, "arrive too late"),
        ({"intrinsic": "wmma_m16n16k16_f16"}, "need mma.sync"),
    ],
)
def test_invalid_fragment_buffers_are_rejected(changes: Values, reason: str) -> None:
    p = problem(load_program(str(EXAMPLES / "gemm_relu.py")), m=76, n=76, k=184)
    violations = template(p.program).space(p, A100).valid.explain(filled(p, gemm(**changes), A100))
    assert any(reason in str(t) for t in violations), violations


def test_steps_that_do_not_alternate_are_rejected() -> None:
    """Use a random program whose loop step is k = 48: three steps of 16 cannot alternate between two buffers."""
    for seed in range(40):
        program = random_program(seed)
        p = problem(program, m=40, n=40, k=100)
        space = template(program).space(p, A100)
        schedule = random_schedule(space, seed)
        if schedule.text("intrinsic").startswith("mma") and space.config(schedule).integer("tile_k") == 48:
            violations = space.valid.explain(
                Schedule.from_json(program.name, {**schedule.values, "fragment_buffers": 2})
            )
            assert any("3 steps for a k of 48" in str(t) for t in violations), violations
            return
    raise AssertionError("no such program")


def test_larger_loops_have_no_fragment_buffers() -> None:
    p = problem(load_program(f"{EXAMPLES / 'attention.py'}:full_attention"), h=2, g=1, s=100, d=64)
    assert "fragment_buffers" not in {q.name for q in template(p.program).space(p, A100).parameters}


def test_older_schedules_have_one_fragment_buffer() -> None:
    p = problem(load_program(str(EXAMPLES / "gemm_relu.py")), m=76, n=76, k=184)
    kernel_template, values = template(p.program), gemm(fragment_buffers=1)
    del values["fragment_buffers"]
    first, second = (kernel_template.kernel(p, filled(p, v, A100), A100) for v in (values, gemm(fragment_buffers=1)))
    assert first.source == second.source and "fragment_pipeline" not in first.source


def test_the_time_model_includes_fragment_buffers() -> None:
    """With two buffers, tensor cores stay busy after a barrier, and fragments need more registers."""
    p = problem(load_program(str(EXAMPLES / "gemm_relu.py")), m=4096, n=4096, k=4096)
    space = template(p.program).space(p, A100)
    one, two = (counts(p, space.config(filled(p, gemm(fragment_buffers=n), A100)), A100) for n in (1, 2))
    assert (one.refills, two.refills) == (True, False)
    assert two.registers - one.registers == 2 * 4 + 4 * 2  # registers of a second set of a's and b's fragments


def test_an_iteration_has_hardly_more_instructions_than_the_template(nightly: bool) -> None:
    try:
        nvdisasm()
    except DisassemblerMissing as missing:
        pytest.skip(str(missing))
    p = problem(load_program(str(EXAMPLES / "gemm_relu.py")), m=4096, n=4096, k=4096)
    hand = Matmul(m=4096, n=4096, k=4096, a="f16", out="f16", epilogue="bias+relu")
    sizes = ((128, 3, "swizzle(3,3,4)"), (256, 4, "swizzle(3,3,5)"))
    for bn, stages, wide in sizes if nightly else sizes[:1]:
        copies = operand("a", "swizzle(2,3,3)", 4, 8) | operand("b", wide, 16, 8)
        common: Values = {"stages": stages, "fragment_buffers": 2, **copies}
        program_values = gemm(bm=128, bn=bn, subgroups_n=4, **common)
        template_values: Values = {
            "tile_m": 128, "tile_n": bn, "tile_k": 32, "intrinsic": "mma_m16n8k16_f16", "subgroups_m": 2,
            "subgroups_n": 4, "sg_data_m": 64, "sg_data_n": bn // 4, "unroll": 2, "epilogue": "registers",
            "min_blocks": 1, "raster": "row", "split_k": 1, "stream_k": 0, "batch_mapping": "outer", **common,
        }  # fmt: skip
        program_counts = iteration_of(template(p.program).kernel(p, filled(p, program_values, A100), A100))
        template_s = iteration_of(MATMUL.kernel(hand, Schedule.from_json("matmul", template_values), A100))
        assert program_counts[0] == template_s[0]  # tensor-core instructions
        assert program_counts[1] <= template_s[1] and program_counts[2] <= 1.02 * template_s[2], (
            program_counts,
            template_s,
        )


def iteration_of(kernel: GeneratedKernel) -> tuple[int, int, int]:
    """Return the tensor-core instructions and all instructions of an iteration, and the registers of a thread."""
    result = shared_pool().compile(kernel, A100.arch)
    assert not isinstance(result, CompileFailure), result.reason
    assert result.resources.spill_store_bytes == 0
    iteration = mix(main_loop(disassemble(result.cubin, result.entry)))
    return dict(iteration.kinds)["tensor"], iteration.instructions, result.resources.registers
