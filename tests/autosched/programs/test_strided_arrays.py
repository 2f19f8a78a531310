"""Arrays with a row stride: the same source serves all strides with the same divisor, and its results are correct."""

from __future__ import annotations

import numpy as np
import pytest
from cases import representative

from autosched import emulate as emulate_launch
from autosched.programs.loading import load_program, problem
from autosched.verify.schedules import ScheduleVerifier
from measurements.emulator import Order, emulate
from measurements.trials.comparison import check
from search_spaces.hardware.devices import device
from search_spaces.launches.launch import launch_from_json
from search_spaces.operators.problem import divisor_of
from search_spaces.programs.builder import Builder, InOut, Input, Output, Program, program
from search_spaces.programs.language.ir import Array, ProgramError
from search_spaces.programs.template import template
from search_spaces.spaces.schedule import Schedule


@program(
    a=Input("m k", "f16", strided=True), b=Input("n k", "f16", strided=True), v=Input("m n", "f32", strided=True),
    out=Output("m n", "f32"),
)  # fmt: skip
def product(p: Builder, a: Array, b: Array, v: Array, out: Array) -> None:
    (m, n), k = out.shape, a.shape[1]
    i, j = p.blocks((m, n), (64, 64))
    acc = p.state(p.zeros((64, 64)))
    for at in p.steps(k, 32):
        right = p.transpose(p.load(p.window(b, (j, at), (64, 32))))
        acc.set(p.mma(p.load(p.window(a, (i, at), (64, 32))), right, acc))
    p.store(acc + p.load(p.window(v, (i, j), (64, 64))), p.window(out, (i, j), (64, 64)))


@program(
    dynamic="r", x=Input("h m n", "f16", strided=True), ids=Input("r", "i32"), w=Input("m n", "f32", strided=True),
    out=Output("r n", "f32"), transposed=Output("h m", "f32"),
)  # fmt: skip
def rows_of_matrices(p: Builder, x: Array, ids: Array, w: Array, out: Array, transposed: Array) -> None:
    """Gather rows of w, and store a column of each matrix in x. A thread's registers then belong to different lines."""
    (i,) = p.blocks((out.shape[0],), (16,))
    rows = p.load(p.window(ids, (i, 0), (16, 1), column=True), padding=-1)
    p.store(p.load(p.window(w, (rows, 0), (16, 32))), p.window(out, (i, 0), (16, 32)))
    with p.when(i):
        for head in p.steps(x.shape[0], 1):
            columns = p.load(p.window(x[head], (3, 0), (1, 32), turned=True)).cast("f32")
            p.store(columns, p.window(transposed, (head, 0), (1, 32)))


@program(
    a=Input("m k", "f16"), b=Input("k n", "f16"), out=InOut("m n", "f16", strided=True),
    sums=InOut("n m", "f32", strided=True),
)  # fmt: skip
def part_of_a_result(p: Builder, a: Array, b: Array, out: Array, sums: Array) -> None:
    """Store the product in out, and add the product's transpose to sums. Both arrays have a row stride."""
    (m, n), k = out.shape, a.shape[1]
    i, j = p.blocks((m, n), (32, 32))
    acc = p.state(p.zeros((32, 32)))
    for at in p.steps(k, 32):
        acc.set(p.mma(p.load(p.window(a, (i, at), (32, 32))), p.load(p.window(b, (at, j), (32, 32))), acc))
    p.store(acc.read().cast("f16"), p.window(out, (i, j), (32, 32)))
    window = p.window(sums, (i, j), (32, 32), turned=True)
    p.store(p.load(window) * 0.5 + acc, window)


@program(
    dynamic="r", x=Input("r n", "f32"), position=Input("r", "i32"), rows=InOut("s n", "f32", strided=True),
    total=InOut("s n", "f32", strided=True),
)  # fmt: skip
def scattered_rows(p: Builder, x: Array, position: Array, rows: Array, total: Array) -> None:
    """Store each row of x in the row of ``rows`` that ``position`` names, and add it to the same row of ``total``."""
    i, j = p.blocks(x.shape, (16, 32))
    at = p.load(p.window(position, (i, 0), (16, 1), column=True), padding=-1)
    tile = p.load(p.window(x, (i, j), (16, 32)))
    p.store(tile, p.window(rows, (at, j), (16, 32)))
    p.atomic_add(tile, p.window(total, (at, j), (16, 32)))


def run_at_strides(program: Program, where: str, sizes: dict[str, int], schedule: Schedule | None, seed: int) -> None:
    kernel_template, gpu = template(program), device(where)
    usual = problem(program, **sizes)
    assert kernel_template.why_not(usual, gpu) is None
    chosen = schedule or kernel_template.space(usual, gpu).sample(1, seed)[0]
    sources: dict[tuple[int, ...], str] = {}
    ran = 0
    for p in (usual, *usual.at_other_sizes(chosen.values)):
        try:
            kernel = kernel_template.kernel(p, chosen, gpu)
        except ValueError:  # the schedule's vectors do not divide the stride
            continue
        key = tuple(divisor_of(getattr(p, name)) for name in program.dynamic)
        assert sources.setdefault(key, kernel.source) == kernel.source
        inputs = p.random_inputs(seed)
        run = emulate(kernel, inputs, time_limit=60.0, order=Order("random", seed=seed))
        assert run.status == "ok", (run.reason, p)
        result = check(p, inputs, run.outputs)
        assert result.ok, (result.reason, p)
        ran += p != usual
    assert ran


@pytest.mark.parametrize("where", representative(["t4", "a100", "h100", "b200"], "a100"))
def test_products(where: str) -> None:
    run_at_strides(product, where, {"m": 70, "n": 72, "k": 80}, None, {"t4": 1, "a100": 2, "h100": 3, "b200": 4}[where])


@pytest.mark.parametrize("where", representative(["a100", "h100"], "a100"))
def test_rows_and_columns(where: str) -> None:
    run_at_strides(rows_of_matrices, where, {"h": 3, "m": 32, "n": 32, "r": 40}, None, 5)


@pytest.mark.parametrize("where", representative(["t4", "a100", "h100", "b200"], "h100"))
@pytest.mark.parametrize("seed", range(2))
def test_parts_of_results(where: str, seed: int) -> None:
    run_at_strides(part_of_a_result, where, {"m": 40, "n": 72, "k": 40}, None, seed)


@pytest.mark.parametrize("where", representative(["t4", "a100"], "a100"))
def test_rows_at_given_positions(where: str) -> None:
    run_at_strides(scattered_rows, where, {"r": 40, "n": 40, "s": 60}, None, 1)


def test_stores_between_rows_are_reported() -> None:
    p, gpu = problem(part_of_a_result, m=40, n=30, k=32, out_stride=48), device("a100")
    kernel_template = template(part_of_a_result)
    kernel = kernel_template.kernel(p, kernel_template.space(p, gpu).sample(1, 1)[0], gpu)
    inputs = p.random_inputs(1)
    outputs = dict(emulate(kernel, inputs, time_limit=60.0).outputs)
    assert check(p, inputs, outputs).ok
    outputs["out"] = outputs["out"].copy()
    outputs["out"][3, 30] += 1
    result = check(p, inputs, outputs)
    assert not result.ok and "out[3, 30]" in result.reason
    outputs["out"][3, 30] = inputs["out"][3, 30]
    outputs["out"][3, 29] += 1
    assert "out[3, 29]" in check(p, inputs, outputs).reason


@pytest.mark.parametrize("filled_by", representative(["tma", "warp"], "warp"))
def test_boxes_of_tma(filled_by: str) -> None:
    """A tensor map has the launch's row stride, but only the program's columns. Columns beyond them read as zero."""
    space = template(product).space(problem(product, m=70, n=72, k=80), device("h100"))
    by_wgmma = (s for s in space.sample(3000, 3) if s["intrinsic"] == "wgmma_m64k16_f16")
    schedule = next(s for s in by_wgmma if s["filled_by"] == filled_by)
    run_at_strides(product, "h100", {"m": 70, "n": 72, "k": 80}, schedule, 1)


@pytest.mark.parametrize("where", representative(["a100", "h100"], "h100"))
def test_the_example(where: str) -> None:
    program = load_program("examples/programs/columns_matmul.py")
    run_at_strides(program, where, {"m": 40, "n": 72, "k": 80, "x_stride": 112}, None, 1)


def test_a_view_is_emulated_with_its_numpy_strides() -> None:
    rng = np.random.default_rng(0)
    wide = rng.normal(size=(40, 100)).astype(np.float16)
    a, b = wide[:, :48], rng.normal(size=(24, 48)).astype(np.float16)
    v, out = rng.normal(size=(40, 24)).astype(np.float32), np.zeros((40, 24), np.float32)
    run = emulate_launch(product, arguments=[a, b, v, out], device="a100")
    np.testing.assert_allclose(run.arrays[-1], a.astype(np.float64) @ b.T + v, rtol=1e-2, atol=1e-2)
    with pytest.raises(ValueError, match="stride"):
        emulate_launch(product, arguments=[wide[:, :96:2], b, v, out], device="a100")


def test_a_view_is_written_in_place() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(40, 32)).astype(np.float16), rng.normal(size=(32, 24)).astype(np.float16)
    wide, sums = rng.normal(size=(40, 100)).astype(np.float16), np.ones((24, 40), np.float32)
    run = emulate_launch(part_of_a_result, arguments=[a, b, wide[:, 8:32], sums], device="a100")
    product_of = a.astype(np.float64) @ b
    np.testing.assert_allclose(run.arrays[2], product_of, rtol=1e-2, atol=1e-2)
    np.testing.assert_allclose(run.arrays[3], product_of.T + 0.5, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize(
    ("program", "sizes", "stride"),
    [(product, {"m": 70, "n": 72, "k": 80}, "a_stride"), (part_of_a_result, {"m": 40, "n": 72, "k": 40}, "out_stride")],
    ids=["input", "result"],
)
def test_a_verification_tries_other_strides(program: Program, sizes: dict[str, int], stride: str) -> None:
    p, gpu = problem(program, **sizes), device("a100")
    kernel_template = template(program)
    (schedule,) = kernel_template.space(p, gpu).sample(1, 1)
    verdict = ScheduleVerifier(kernel_template, p, gpu).verify(schedule)
    assert verdict.ok, verdict.reason
    usual = f"{stride}={getattr(p, stride)}"
    assert any(usual not in run.name and stride in run.name for run in verdict.runs)


def test_sizes_and_launches_have_the_stride() -> None:
    p = problem(product, m=4, n=8, k=16, a_stride=20)
    assert (p.a_stride, p.b_stride, p.v_stride) == (20, 16, 8)  # type: ignore[attr-defined]
    first = p.operands()[0]
    assert (first.shape, first.columns) == ((4, 20), 16)
    with pytest.raises(ValueError, match="a_stride"):
        problem(product, m=4, n=8, k=16, a_stride=15)
    gpu, kernel_template = device("a100"), template(product)
    kernel = kernel_template.kernel(p, kernel_template.space(p, gpu).sample(1, 1)[0], gpu)
    again = launch_from_json(kernel.launch_json())
    assert again.operands[0] == first


def test_vectors_and_other_names_are_rejected() -> None:
    for declare in (Input, InOut):
        with pytest.raises(ProgramError, match="two extents"):
            declare("n", "f16", strided=True)
    with pytest.raises(ProgramError, match="rename"):
        program(x=Input("m n", "f16", strided=True), x_stride=Input("m", "f16"), out=Output("m", "f16"))(lambda p: None)
