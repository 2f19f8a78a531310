"""Products of block-scaled factors: the instruction applies the scales, or the program applies them block by block."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cases import representative

from autosched.programs.loading import load_program, problem
from autosched.verify.schedules import ScheduleVerifier
from measurements.emulator import Order, emulate
from measurements.trials.comparison import check
from search_spaces.hardware.devices import device
from search_spaces.hardware.dtypes import BF16, E2M1X2, E4M3, UE4M3, UE8M0
from search_spaces.programs.builder import Builder, Input, Output, Program, program
from search_spaces.programs.language.ir import Array, ProgramError
from search_spaces.programs.template import template

MXF8, MXF4, NVF4 = (
    load_program(f"examples/programs/block_scaled_matmul.py:{name}_matmul") for name in ("mxf8", "mxf4", "nvf4")
)
SIZES = {"m": 70, "n": 72, "k": 160, "blocks": 5}


@pytest.mark.parametrize("where", representative(["rtx5090", "b200", "h100", "l40s"], "rtx5090", "b200"))
def test_mxf8(where: str) -> None:
    p, gpu, kernel_template = problem(MXF8, **SIZES), device(where), template(MXF8)
    assert kernel_template.why_not(p, gpu) is None
    schedules = kernel_template.space(p, gpu).sample(40, 3)
    expected = "mma_m16n8k32_mxf8" if where == "rtx5090" else "mma_m16n8k32_e4m3"
    assert {s["intrinsic"] for s in schedules} == {expected}
    for schedule in {s["bk"]: s for s in schedules}.values():
        inputs = p.random_inputs(1)
        run = emulate(kernel_template.kernel(p, schedule, gpu), inputs, time_limit=60.0, order=Order("random", seed=2))
        assert run.status == "ok", run.reason
        result = check(p, inputs, run.outputs)
        assert result.ok, (result.reason, schedule)


@pytest.mark.parametrize(("program", "blocks"), [(MXF4, 10), (NVF4, 20)], ids=["mxf4", "nvf4"])
def test_four_bits(program: Program, blocks: int) -> None:
    p, kernel_template = problem(program, m=70, n=72, pairs=160, blocks=blocks), template(program)
    gpu = device("rtx5090")
    assert kernel_template.why_not(p, gpu) is None
    for where in ("b200", "h100"):
        assert "sm_120" in (kernel_template.why_not(p, device(where)) or "")
    for schedule in {s["bk"]: s for s in kernel_template.space(p, gpu).sample(20, 4)}.values():
        assert schedule["intrinsic"] == f"mma_m16n8k64_{program.name.removesuffix('_matmul')}"
        inputs = p.random_inputs(1)
        run = emulate(kernel_template.kernel(p, schedule, gpu), inputs, time_limit=60.0, order=Order("random", seed=2))
        assert run.status == "ok", run.reason
        result = check(p, inputs, run.outputs)
        assert result.ok, (result.reason, schedule)
    verdict = ScheduleVerifier(kernel_template, p, gpu).verify(kernel_template.space(p, gpu).sample(1, 5)[0])
    assert verdict.ok, verdict.reason


@pytest.mark.parametrize(("program", "block"), [(MXF4, 16), (NVF4, 8)], ids=["mxf4", "nvf4"])
def test_four_bit_results_agree_with_numpy(program: Program, block: int) -> None:
    p = problem(program, m=9, n=10, pairs=64, blocks=64 // block)
    inputs = p.random_inputs(3)
    type_ = UE8M0 if block == 16 else UE4M3
    a, b = (E2M1X2.load(inputs[name]) * type_.load(inputs[f"scale_{name}"]).repeat(2 * block, 1) for name in ("a", "b"))
    values, bounds = p.expected(inputs)
    assert a.shape == (9, 128)
    assert np.all(np.abs(values["out"] - a @ b.T) <= bounds["out"])
    assert p.flops == 2.0 * 9 * 10 * 128


def test_packed_pairs_only_allow_scaled_products() -> None:
    def body(p: Builder, a: Array, out: Array) -> None:
        p.blocks((64,), (64,))
        p.load(p.window(a, (0, 0), (64, 64))).cast("f32")

    tile_program = program(a=Input("m k", "e2m1x2"), out=Output("m", "f32"))(body)
    with pytest.raises(ProgramError, match="scales"):
        problem(tile_program, m=64, k=64)
    with pytest.raises(ProgramError, match="e2m1x2"):
        Output("m k", "e2m1x2")


def test_results_agree_with_numpy() -> None:
    p = problem(MXF8, **SIZES)
    inputs = p.random_inputs(3)
    a, b = (E4M3.load(inputs[name]) * np.exp2(inputs[f"scale_{name}"].repeat(32, 1) - 127.0) for name in ("a", "b"))
    values, bounds = p.expected(inputs)
    assert np.all(np.abs(values["out"] - a @ b.T) <= bounds["out"])
    assert np.all(bounds["out"] <= BF16.unit_roundoff * 2 * (np.abs(a) @ np.abs(b).T) + 1e-3)


@pytest.mark.parametrize("where", ["rtx5090", "b200"])
def test_the_least_and_the_largest_scales(where: str) -> None:
    """Scales of type ue8m0 have only an exponent: 0 is the subnormal 2^-127, and 255 is NaN."""
    p, gpu, kernel_template = problem(MXF8, m=64, n=64, k=32, blocks=1), device(where), template(MXF8)
    schedule = kernel_template.space(p, gpu).sample(1, 1)[0]
    inputs = {
        **p.random_inputs(1),
        "scale_a": np.full((64, 1), 0, np.uint8),
        "scale_b": np.full((64, 1), 180, np.uint8),
    }
    inputs["scale_a"][3], inputs["scale_b"][5] = 255, 255
    run = emulate(kernel_template.kernel(p, schedule, gpu), inputs, time_limit=60.0)
    assert run.status == "ok", run.reason
    assert check(p, inputs, run.outputs).ok
    assert np.isnan(BF16.load(run.outputs["out"])[3]).all()


def test_a_verification_draws_scales_near_one() -> None:
    p, gpu = problem(MXF8, **SIZES), device("rtx5090")
    kernel_template = template(MXF8)
    assert set(np.unique(p.random_inputs(2)["scale_a"])) <= set(range(121, 134))
    verdict = ScheduleVerifier(kernel_template, p, gpu).verify(kernel_template.space(p, gpu).sample(1, 5)[0])
    assert verdict.ok, verdict.reason


def refused(scale_a: Any, scale_b: Any, type_: str = "e4m3", depth: int = 64) -> str:
    def body(p: Builder, a: Array, s: Array, out: Array) -> None:
        p.blocks((64,), (64,))
        x = p.load(p.window(a, (0, 0), (64, depth)))

        def scales(shape: tuple[int, int] | None) -> Any:
            return None if shape is None else p.load(p.window(s, (0, 0), shape))

        p.store(
            p.mma(x, p.transpose(x), scale_a=scales(scale_a), scale_b=scales(scale_b)), p.window(out, (0, 0), (64, 64))
        )

    tile_program = program(a=Input("m k", type_), s=Input("m b", "u8"), out=Output("m m", "f32"))(body)
    with pytest.raises(ProgramError) as raised:
        problem(tile_program, m=64, k=depth, b=64)
    return str(raised.value)


@pytest.mark.parametrize(
    ("arguments", "token"),
    [
        (((64, 2), None), "scale_b"),
        (((64, 1), (2, 64)), "64x1 u8"),
        (((64, 2), (64, 2)), "2x64 u8"),
        (((64, 2), (2, 64), "f16"), "e4m3"),
        (((64, 1), (1, 64), "e4m3", 48), "32"),
    ],
)
def test_mismatched_scales_are_rejected_in_one_line(arguments: tuple[Any, ...], token: str) -> None:
    text = refused(*arguments)
    assert "test_scaled_products.py:" in text and token in text and "\n" not in text
