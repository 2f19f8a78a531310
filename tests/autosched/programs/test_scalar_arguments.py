"""Scalars that a launch passes by value: one source serves all values, and results are right at the range limits."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from cases import representative

from autosched import emulate as emulate_launch
from autosched.aot.runtime.autosched_loader import ShippedKernel
from autosched.programs.loading import load_program, problem
from autosched.verify.schedules import ScheduleVerifier
from measurements.emulator import emulate
from measurements.trials.comparison import check
from search_spaces.hardware.devices import device
from search_spaces.launches.launch import ScalarArgument
from search_spaces.programs.builder import Builder, Input, Output, Scalar, program
from search_spaces.programs.language.index import Index
from search_spaces.programs.language.ir import Array, ProgramError
from search_spaces.programs.language.values import Tile
from search_spaces.programs.problem import computes
from search_spaces.programs.template import template


@program(x=Input("m n", "f32"), eps=Scalar("f32", 1e-5, low=0.0), gain=Scalar("f32", 1.0), out=Output("m n", "f32"))
def normed(p: Builder, x: Array, eps: Tile, gain: Tile, out: Array) -> None:
    (m, n), bm = x.shape, p.choose(bm=(4, 16))
    width = p.cover(n)
    (i,) = p.blocks((m,), (bm,))
    tile = p.load(p.window(x, (i, 0), (bm, width)))
    scale = p.rsqrt(p.reduction("add", tile * tile, 1) * (1.0 / n) + eps)
    p.store(tile * scale * gain, p.window(out, (i, 0), (bm, width)))


@program(
    a=Input("m k", "f16"),
    b=Input("k n", "f16"),
    used=Scalar("i32", 48, high=80),
    first=Scalar("i32", 0, high=40),
    rows=Scalar("i32", 30, low=-4, high=200),
    alpha=Scalar("f32", 1.0, low=-4.0, high=4.0),
    out=Output("m n", "f32"),
)
def part_of_product(
    p: Builder, a: Array, b: Array, used: Index, first: Index, rows: Index, alpha: Tile, out: Array
) -> None:
    """Compute alpha * a[:, first:first + used] @ b[:used], and zeros from ``rows`` on.

    The scalars are bounds of loops and windows.
    """
    (m, n), bn = out.shape, p.choose(bn=(32, 64))
    i, j = p.blocks((m, n), (32, bn))
    acc = p.state(p.zeros((32, bn)))
    for at in p.steps(used, 16):
        in_use = p.columns(at, 16) < used
        left = p.where(in_use, p.load(p.window(a, (i, first + at), (32, 16))).cast("f32"), 0.0).cast("f16")
        acc.set(p.mma(left, p.load(p.window(b, (at, j), (16, bn))), acc))
    p.store(p.where(p.rows(i, 32) < rows, acc * alpha, 0.0), p.window(out, (i, j), (32, bn)))


def test_results_agree_with_numpy() -> None:
    p = problem(normed, m=9, n=40, eps=0.5, gain=-2.0)
    inputs = p.random_inputs(1)
    x = inputs["x"].astype(np.float64)
    expected = -2.0 * x / np.sqrt((x * x).mean(1, keepdims=True) + 0.5)
    np.testing.assert_allclose(p.reference(inputs)["out"], expected, rtol=1e-6)


@pytest.mark.parametrize("where", representative(["t4", "a100", "h100", "b200"], "h100"))
def test_one_source_serves_all_values(where: str) -> None:
    gpu, kernel_template = device(where), template(part_of_product)
    usual = problem(part_of_product, m=40, n=72, k=80)
    assert kernel_template.why_not(usual, gpu) is None
    (schedule,) = kernel_template.space(usual, gpu).sample(1, 3)
    source = kernel_template.kernel(usual, schedule, gpu).source
    for values in (
        {},
        {"used": 0, "rows": -4},
        {"used": 80, "first": 40, "rows": 200, "alpha": -4.0},
        {"used": 1, "first": 39, "rows": 31, "alpha": 0.0},
    ):
        p = problem(part_of_product, m=40, n=72, k=80, **values)  # type: ignore[arg-type]
        kernel = kernel_template.kernel(p, schedule, gpu)
        assert kernel.source == source
        inputs = p.random_inputs(4)
        run = emulate(kernel, inputs, time_limit=60.0)
        assert run.status == "ok", run.reason
        result = check(p, inputs, run.outputs)
        assert result.ok, (result.reason, values)


def test_a_kernel_keeps_whole_numbers_within_their_range() -> None:
    """Even if the launcher does not check a value's range, the kernel accesses nothing outside its arrays."""
    gpu, kernel_template = device("a100"), template(part_of_product)
    usual = problem(part_of_product, m=40, n=72, k=80)
    (schedule,) = kernel_template.space(usual, gpu).sample(1, 3)
    kernel = kernel_template.kernel(usual, schedule, gpu)
    beyond = [
        ScalarArgument(a.name, a.dtype, 10**6) if isinstance(a, ScalarArgument) and a.name == "used" else a
        for a in kernel.arguments
    ]
    inputs = usual.random_inputs(4)
    run = emulate(type(kernel)(**{**vars(kernel), "arguments": tuple(beyond)}), inputs, time_limit=60.0)
    largest = problem(part_of_product, m=40, n=72, k=80, used=80)
    assert run.status == "ok", run.reason
    assert check(largest, inputs, run.outputs).ok


def test_a_verification_tries_the_ends_of_the_ranges() -> None:
    p, gpu = problem(part_of_product, m=40, n=72, k=80), device("a100")
    kernel_template = template(part_of_product)
    (schedule,) = kernel_template.space(p, gpu).sample(1, 1)
    verdict = ScheduleVerifier(kernel_template, p, gpu).verify(schedule)
    assert verdict.ok, verdict.reason
    run_names = " ".join(run.name for run in verdict.runs)
    assert all(
        f"{name}={value}" in run_names for name, value in (("used", 0), ("used", 80), ("rows", -4), ("first", 40))
    )


def test_emulate_takes_scalars_in_the_programs_order() -> None:
    x, out = np.random.default_rng(0).normal(size=(5, 24)).astype(np.float32), np.zeros((5, 24), np.float32)
    run = emulate_launch(normed, arguments=[x, 0.25, 3.0, out], device="a100")
    expected = 3.0 * x / np.sqrt((x * x).mean(1, keepdims=True) + 0.25)
    np.testing.assert_allclose(run.arrays[-1], expected, rtol=1e-5)
    with pytest.raises(ValueError, match="eps"):
        emulate_launch(normed, arguments=[x, -0.25, 3.0, out], device="a100")


@pytest.mark.parametrize("where", representative(["t4", "a100", "h100", "b200"], "a100"))
def test_the_example(where: str) -> None:
    program, gpu = load_program("examples/programs/any_rows_rmsnorm.py"), device(where)
    p, kernel_template = problem(program, m=12, n=72), template(program)
    (schedule,) = kernel_template.space(p, gpu).sample(1, 1)
    for other in (p, *p.at_other_sizes(schedule.values)):
        inputs = other.random_inputs(2)
        run = emulate(kernel_template.kernel(other, schedule, gpu), inputs, time_limit=60.0)
        assert run.status == "ok" and check(other, inputs, run.outputs).ok, other


def test_exported_kernels_take_other_scalars() -> None:
    scalar = {"kind": "scalar", "name": "eps", "dtype": "f32", "value": "0.5", "limits": ["0.0", "inf"]}
    count = {"kind": "scalar", "name": "count", "dtype": "i32", "value": "3", "limits": ["0", "8"]}
    launch = {"grid": ["1"] * 3, "block": ["1"] * 3, "cluster": ["1"] * 3, "dynamic_shared_bytes": "0"}
    entry = {"problem": "x", "verification": None, "provenance": {}, "launch": launch, "operands": []}
    kernel = ShippedKernel(Path("."), {**entry, "arguments": [scalar, count]}, {}, "exact", 0.0, False)
    for passed, expected in (({}, (0.5, 3)), ({"eps": 2, "count": 8}, (2.0, 8)), ({"eps": 1.5}, (1.5, 3))):
        parameters, _ = kernel._parameters([scalar, count], {}, passed)
        assert (struct.unpack("<f", parameters[0])[0], struct.unpack("<i", parameters[1])[0]) == expected
    for wrong in ({"eps": -1.0}, {"count": 9}, {"count": 1.0}, {"other": 1}, {"eps": True}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            kernel(**wrong)


def test_default_values_are_not_in_a_problems_key() -> None:
    p = problem(normed, m=8, n=8)
    assert "eps" not in p.to_json()
    other = problem(normed, m=8, n=8, eps=0.25)
    assert other.key() != p.key() and type(p).from_json(other.to_json()) == other
    assert "eps=0.25" in other.described
    with pytest.raises(ValueError, match="eps"):
        problem(normed, m=8, n=8, eps=-1.0)
    assert computes(normed)


@pytest.mark.parametrize(
    "options",
    [
        {"dtype": "f16", "default": 1.0},
        {"dtype": "i32", "default": 1},
        {"dtype": "i32", "default": 9, "high": 8},
        {"dtype": "i32", "default": 1.5, "high": 8},
        {"dtype": "f32", "default": 1.0, "low": 2.0, "high": 0.0},
        {"dtype": "f32", "default": 1e300},
    ],
)
def test_declarations_that_are_rejected(options: dict[str, object]) -> None:
    with pytest.raises(ProgramError):
        Scalar(**options)  # type: ignore[arg-type]


def test_a_scalar_with_the_name_of_a_size_is_rejected() -> None:
    with pytest.raises(ProgramError, match="rename"):
        program(x=Input("m n", "f32"), n=Scalar("f32", 1.0), out=Output("m n", "f32"))(lambda p, x, n, out: None)
