"""Programs with dynamic sizes: the same source computes correct results for every value of a size."""

from __future__ import annotations

import numpy as np
import pytest
from cases import representative

from autosched.programs.loading import load_program, problem
from autosched.verify.schedules import ScheduleVerifier
from measurements.emulator import Order, emulate
from measurements.trials.comparison import check
from search_spaces.hardware.devices import device
from search_spaces.operators.problem import divisor_of
from search_spaces.programs.builder import Argument, Builder, InOut, Input, Output, Program, program
from search_spaces.programs.language.ir import Array, ProgramError
from search_spaces.programs.template import template
from search_spaces.spaces.schedule import Schedule


@program(dynamic="m", x=Input("m n", "f32"), v=Input("m", "f32"), out=Output("m n", "f32"), total=Output("m", "f32"))
def scaled_rows(p: Builder, x: Array, v: Array, out: Array, total: Array) -> None:
    (m, n), bm = x.shape, p.choose(bm=(4, 16))
    width = p.cover(n)
    (i,) = p.blocks((m,), (bm,))
    tile = p.load(p.window(x, (i, 0), (bm, width)))
    factor = p.load(p.window(v, (i, 0), (bm, 1), column=True))
    scaled = p.where(p.rows(i, bm) < m, tile * factor, 0.0)
    p.store(scaled, p.window(out, (i, 0), (bm, width)))
    p.store(p.reduction("add", scaled, 1), p.window(total, (i, 0), (bm, 1), column=True))


@program(dynamic="m", x=Input("m", "f16"), y=Input("m", "f16"), out=Output("m", "f16"))
def added(p: Builder, x: Array, y: Array, out: Array) -> None:
    (i,) = p.blocks(x.shape, (512,))
    one, two = (p.load(p.window(a, (0, i), (1, 512))).cast("f32") for a in (x, y))
    p.store((one + two).cast("f16"), p.window(out, (0, i), (1, 512)))


@program(dynamic="m", a=Input("m k", "f16"), b=Input("k n", "f16"), bias=Input("n", "f32"), out=Output("m n", "f16"))
def product(p: Builder, a: Array, b: Array, bias: Array, out: Array) -> None:
    (m, n), k = out.shape, a.shape[1]
    bm, bn = p.choose(bm=(32, 64), bn=(32, 64))
    i, j = p.blocks((m, n), (bm, bn))
    acc = p.state(p.zeros((bm, bn)))
    for at in p.steps(k, 32):
        left, right = p.load(p.window(a, (i, at), (bm, 32))), p.load(p.window(b, (at, j), (32, bn)))
        acc.set(p.mma(left, right, acc))
    p.store((acc + p.load(p.window(bias, (0, j), (1, bn)))).cast("f16"), p.window(out, (i, j), (bm, bn)))


@program(
    dynamic="m r", x=Input("m n", "f32"), ids=Input("r", "i32"), out=Output("r n", "f32"), sums=InOut("m n", "f32")
)
def rows_of_table(p: Builder, x: Array, ids: Array, out: Array, sums: Array) -> None:
    """Gather rows of a table by index, and add them to the rows of another array. Both row counts are dynamic."""
    i, j = p.blocks(out.shape, (8, 32))
    rows = p.load(p.window(ids, (i, 0), (8, 1), column=True), padding=-1)
    tile = p.load(p.window(x, (rows, j), (8, 32)))
    p.store(tile, p.window(out, (i, j), (8, 32)))
    p.atomic_add(tile, p.window(sums, (rows, j), (8, 32)))


def check_sizes(program: Program, where: str, sizes: list[dict[str, int]], seed: int, schedules: int = 1) -> None:
    """Run schedules sampled for ``sizes[0]`` at all sizes. Sizes with equal divisors must have the same source."""
    tuned = problem(program, **sizes[0])
    assert template(program).why_not(tuned, device(where)) is None
    for schedule in template(program).space(tuned, device(where)).sample(schedules, seed):
        run_at_sizes(program, where, sizes, seed, schedule)


def run_at_sizes(program: Program, where: str, sizes: list[dict[str, int]], seed: int, schedule: Schedule) -> None:
    sources: dict[tuple[int, ...], str] = {}
    for each in sizes:
        p = problem(program, **each)
        kernel = template(program).kernel(p, schedule, device(where))
        key = tuple(divisor_of(each[name]) for name in program.dynamic)
        assert sources.setdefault(key, kernel.source) == kernel.source, each
        inputs = p.random_inputs(seed)
        run = emulate(kernel, inputs, time_limit=60.0, order=Order("random", seed=seed))
        assert run.status == "ok", (run.reason, each, schedule)
        result = check(p, inputs, run.outputs)
        assert result.ok, (result.reason, each, schedule)


def by_wgmma(program: Program, sizes: dict[str, int], filled_by: str) -> Schedule:
    """Return a sampled schedule that multiplies with wgmma. The parameter ``filled_by`` has the given value."""
    space = template(program).space(problem(program, **sizes), device("h100"))
    for sampled in space.sample(1500, 3):
        if sampled["intrinsic"] == "wgmma_m64k16_f16":
            schedule = Schedule.from_json(program.name, {**sampled.values, "filled_by": filled_by})
            if not space.explain(schedule):
                return schedule
    raise AssertionError("no sampled schedule has the wanted values")


def around(tile: int, **fixed: int) -> list[dict[str, int]]:
    return [{"m": m, **fixed} for m in (4 * tile, 1, tile - 1, tile, tile + 1, 3 * tile + 5)]


@pytest.mark.parametrize("where", ["t4", "a100", "h100", "b200"])
def test_rows(where: str) -> None:
    check_sizes(scaled_rows, where, around(16, n=40), 1)


@pytest.mark.parametrize("where", ["a100", "t4"])
def test_vector_widths_divide_the_dynamic_length(where: str) -> None:
    """Accesses are as wide as the length allows: kernels differ for multiples of 16, of 8, and other sizes."""
    check_sizes(added, where, [{"m": m} for m in (2048, 16, 512, 8, 520, 1, 511, 513)], 2)
    kernel_template, gpu = template(added), device(where)
    (schedule,) = kernel_template.space(problem(added, m=2048), gpu).sample(1, 2)
    sources = [kernel_template.kernel(problem(added, m=m), schedule, gpu).source for m in (2048, 511)]
    assert schedule.integer("width_1") == 1 or sources[0] != sources[1]


@pytest.mark.parametrize("where", ["t4", "a100", "h100", "b200"])
def test_products(where: str) -> None:
    check_sizes(product, where, around(64, n=72, k=80), DEVICE_SEEDS[where])


DEVICE_SEEDS = {"t4": 1, "a100": 2, "h100": 3, "b200": 4}


@program(
    dynamic="m k", a=Input("m k0", "f16"), b=Input("k n", "f16"), out=Output("k0 n", "f32"), c=Input("k k0", "f16")
)
def of_columns(p: Builder, a: Array, b: Array, out: Array, c: Array) -> None:
    """Compute c.T @ b with a dynamic depth. The argument ``a`` does not affect the result: it only provides a size."""
    (k, k0), n = c.shape, b.shape[1]
    i, j = p.blocks((k0, n), (64, 64))
    acc = p.state(p.zeros((64, 64)))
    for at in p.steps(k, 64):
        left = p.transpose(p.load(p.window(c, (at, i), (64, 64))))
        acc.set(p.mma(left, p.load(p.window(b, (at, j), (64, 64))), acc))
    first = p.load(p.window(a, (0, 0), (1, 1))).cast("f32") * 0.0
    p.store(acc + first, p.window(out, (i, j), (64, 64)))


@program(dynamic="m", a=Input("m k", "f16"), b=Input("k n", "f16"), out=Output("m n", "f32"))
def wide_product(p: Builder, a: Array, b: Array, out: Array) -> None:
    (m, n), k = out.shape, a.shape[1]
    i, j = p.blocks((m, n), (64, 64))
    acc = p.state(p.zeros((64, 64)))
    for at in p.steps(k, 64):
        acc.set(p.mma(p.load(p.window(a, (i, at), (64, 64))), p.load(p.window(b, (at, j), (64, 64))), acc))
    p.store(acc, p.window(out, (i, j), (64, 64)))


@pytest.mark.parametrize("filled_by", representative(["threads", "tma", "warp"], "threads", "warp"))
def test_products_by_wgmma(filled_by: str) -> None:
    """Tensor maps are made for the launched size. Copies by threads test bounds with the size as a kernel argument."""
    sizes = around(64, n=76, k=134) if filled_by == "threads" else around(64, n=72, k=136)
    run_at_sizes(wide_product, "h100", sizes, 3, by_wgmma(wide_product, sizes[0], filled_by))


@pytest.mark.parametrize("filled_by", representative(["threads", "tma"], "tma"))
def test_a_dynamic_depth_by_wgmma(filled_by: str) -> None:
    rows, columns = (76, 60) if filled_by == "threads" else (72, 64)
    sizes = [{"m": 8, "k": k, "k0": rows, "n": columns} for k in (128, 1, 63, 64, 200)]
    run_at_sizes(of_columns, "h100", sizes, 2, by_wgmma(of_columns, sizes[0], filled_by))


@program(dynamic="m k", a=Input("m d", "f16"), b=Input("k d", "f16"), c=Input("k n", "f16"), out=Output("m n", "f32"))
def shared_depth(p: Builder, a: Array, b: Array, c: Array, out: Array) -> None:
    """Compute (a @ b.T) @ c with a dynamic depth, whose range several blocks divide among themselves."""
    (m, n), k, d = out.shape, b.shape[0], a.shape[1]
    i, j = p.blocks((m, n), (32, 32))
    rows = p.load(p.window(a, (i, 0), (32, d)))
    acc = p.state(p.zeros((32, 32)))
    for at in p.split(k, 16, parts=p.choose(parts=(2, 3)), states=(acc,), combine="add"):
        z = p.mma(rows, p.transpose(p.load(p.window(b, (at, 0), (16, d)))))
        acc.set(p.mma(z.cast("f16"), p.load(p.window(c, (at, j), (16, 32))), acc))
    p.store(acc, p.window(out, (i, j), (32, 32)))


@program(dynamic="k", a=Input("m k", "f16"), b=Input("k n", "f16"), out=Output("m n", "f32"))
def product_of_any_depth(p: Builder, a: Array, b: Array, out: Array) -> None:
    (m, n), k = out.shape, a.shape[1]
    i, j = p.blocks((m, n), (64, 64))
    acc = p.state(p.zeros((64, 64)))
    for at in p.steps(k, 32):
        acc.set(p.mma(p.load(p.window(a, (i, at), (64, 32))), p.load(p.window(b, (at, j), (32, 64))), acc))
    p.store(acc, p.window(out, (i, j), (64, 64)))


@program(
    dynamic="m n k", a=Input("m k", "f16"), b=Input("n k", "f16", strided=True), bias=Input("n", "f32"),
    out=Output("m n", "f16"),
)  # fmt: skip
def product_of_any_size(p: Builder, a: Array, b: Array, bias: Array, out: Array) -> None:
    (m, n), k = out.shape, a.shape[1]
    i, j = p.blocks((m, n), (64, 64))
    acc = p.state(p.zeros((64, 64)))
    for at in p.steps(k, 64):
        right = p.transpose(p.load(p.window(b, (j, at), (64, 64))))
        acc.set(p.mma(p.load(p.window(a, (i, at), (64, 64))), right, acc))
    p.store((acc + p.load(p.window(bias, (0, j), (1, 64)))).cast("f16"), p.window(out, (i, j), (64, 64)))


DEPTHS = [{"m": 70, "n": 72, "k": k} for k in (128, 48, 8, 40, 1, 33, 160)]
MIXED = [(70, 63, 31, 0), (1, 8, 24, 0), (65, 33, 1, 7), (40, 130, 96, 112)]
ALL_SIZES = [{"m": m, "n": n, "k": k, "b_stride": stride} for m, n, k, stride in MIXED]


def run_at_divisible_sizes(program: Program, where: str, sizes: list[dict[str, int]], schedule: Schedule) -> None:
    """Run a schedule at every size that the schedule's vector widths divide."""
    fitting = []
    for each in sizes:
        try:
            template(program).kernel(problem(program, **each), schedule, device(where))
        except ValueError:  # the schedule's vectors do not divide this size
            continue
        fitting.append(each)
    assert len(fitting) >= 2
    run_at_sizes(program, where, fitting, 1, schedule)


@pytest.mark.parametrize("where", representative(["t4", "a100", "h100", "b200"], "a100"))
@pytest.mark.parametrize(("program", "sizes"), [(product_of_any_depth, DEPTHS), (product_of_any_size, ALL_SIZES)])
def test_sizes_of_lines(program: Program, sizes: list[dict[str, int]], where: str) -> None:
    """The length of lines, and so the stride, is a dynamic size. An access's vector width must divide this length."""
    (schedule,) = template(program).space(problem(program, **sizes[0]), device(where)).sample(1, 3)
    assert (schedule["vector_a"] == 1) == (sizes[0]["k"] % 8 != 0)
    run_at_divisible_sizes(program, where, sizes, schedule)


@pytest.mark.parametrize("filled_by", representative(["tma", "warp"], "tma"))
def test_sizes_of_lines_by_wgmma(filled_by: str) -> None:
    schedule = by_wgmma(product_of_any_depth, DEPTHS[0], filled_by)
    run_at_divisible_sizes(product_of_any_depth, "h100", DEPTHS, schedule)


@program(dynamic="n", x=Input("m n", "f32"), out=Output("m n", "f32"), total=Output("m", "f32"))
def rows_of_any_length(p: Builder, x: Array, out: Array, total: Array) -> None:
    """Compute softmax without subtracting the maximum, in several passes over each row."""
    (m, n), bm, bn = x.shape, 4, 64
    (i,) = p.blocks((m,), (bm,))
    sums = p.state(p.zeros((bm, 1)))
    for at in p.steps(n, bn):
        sums.set(sums + p.reduction("add", p.exp2(p.load(p.window(x, (i, at), (bm, bn)), padding=-np.inf)), dim=1))
    for at in p.steps(n, bn):
        p.store(p.exp2(p.load(p.window(x, (i, at), (bm, bn)))) / sums, p.window(out, (i, at), (bm, bn)))
    p.store(sums, p.window(total, (i, 0), (bm, 1), column=True))


@pytest.mark.parametrize("where", representative(["t4", "a100", "h100", "b200"], "h100"))
def test_rows_of_any_length(where: str) -> None:
    sizes = [{"m": 9, "n": n} for n in (127, 1, 63, 64, 65, 300, 1000)]
    check_sizes(rows_of_any_length, where, sizes, 2)


def test_a_verification_runs_lines_of_other_lengths() -> None:
    """The verification runs the kernel with lines whose lengths are multiples of a vector, but not of a loop step."""
    p, gpu = problem(product_of_any_depth, **DEPTHS[0]), device("a100")
    kernel_template = template(product_of_any_depth)
    verdict = ScheduleVerifier(kernel_template, p, gpu).verify(kernel_template.space(p, gpu).sample(1, 1)[0])
    assert verdict.ok, verdict.reason
    assert {"k=24", "k=48"} <= {run.name for run in verdict.runs}


@pytest.mark.parametrize("where", representative(["t4", "a100", "h100", "b200"], "a100"))
def test_blocks_share_a_constant_depth(where: str) -> None:
    sizes = around(64, n=72, k=136)
    space = template(product).space(problem(product, **sizes[0]), device(where))
    schedule = next(s for s in space.sample(200, 1) if s["split_k"] == 2)
    run_at_sizes(product, where, sizes, 1, schedule)


@pytest.mark.parametrize("where", representative(["a100", "h100"], "h100"))
def test_blocks_share_a_dynamic_depth(where: str) -> None:
    sizes = [{"m": m, "k": k, "d": 32, "n": 40} for m, k in ((64, 96), (1, 1), (33, 15), (31, 17), (70, 100))]
    check_sizes(shared_depth, where, sizes, 2)


@pytest.mark.nightly
@pytest.mark.parametrize("where", ["t4", "a100", "h100", "b200"])
def test_many_products(where: str) -> None:
    check_sizes(product, where, around(64, n=72, k=80), 5, 40)


def test_the_example() -> None:
    program = load_program("examples/programs/any_rows_matmul.py")
    check_sizes(program, "a100", [{"m": m, "n": 72, "k": 80} for m in (64, 1, 17, 100)], 6)


def test_two_dynamic_sizes() -> None:
    sizes = [{"m": m, "r": r, "n": 40} for m, r in ((40, 50), (1, 1), (9, 8), (300, 7), (16, 129))]
    check_sizes(rows_of_table, "a100", sizes, 3)


def test_rows_outside_of_the_array_do_not_reach_memory() -> None:
    """Row indices that exist in the tuned size but not in the launched size read padding."""
    p = problem(rows_of_table, m=5, r=12, n=32)
    ids = np.array([0, 4, 5, 39, -1, 3, 2, 1, 0, 7, 4, 4], dtype=np.int32)
    inputs = {**p.random_inputs(1), "ids": ids}
    gpu, kernel_template = device("a100"), template(rows_of_table)
    (schedule,) = kernel_template.space(problem(rows_of_table, m=40, r=12, n=32), gpu).sample(1, 4)
    run = emulate(kernel_template.kernel(p, schedule, gpu), inputs, time_limit=60.0)
    assert run.status == "ok", run.reason
    expected = np.where(((ids >= 0) & (ids < 5))[:, None], inputs["x"][np.clip(ids, 0, 4)], 0.0)
    assert np.array_equal(run.outputs["out"], expected)


def test_a_sum_over_a_dynamic_size_requires_neutral_padding() -> None:
    def body(p: Builder, x: Array, out: Array) -> None:
        (i,) = p.blocks((x.shape[0],), (16,))
        tile = p.load(p.window(x, (i, 0), (16, 32)), padding=1.0)
        p.store(p.reduction("add", tile, 0), p.window(out, (0, 0), (1, 32)))

    tile_program = program(dynamic="m", x=Input("m n", "f32"), out=Output("one n", "f32"))(body)
    assert "reduction" in (
        template(tile_program).why_not(problem(tile_program, m=64, n=32, one=1), device("a100")) or ""
    )


@pytest.mark.parametrize(
    ("dynamic", "arrays", "token"),
    [
        ("b", {"x": Input("b m n", "f32"), "out": Output("m n", "f32")}, "at most two"),
        ("n", {"x": Input("b m n", "f32"), "out": Output("m n", "f32")}, "at most two"),
        ("q", {"x": Input("m n", "f32"), "out": Output("m n", "f32")}, "q"),
    ],
)
def test_other_extents_are_rejected(dynamic: str, arrays: dict[str, Argument], token: str) -> None:
    with pytest.raises(ProgramError, match=token):
        program(dynamic=dynamic, **arrays)(lambda p, x, out: None)


def test_a_tile_is_not_as_long_as_a_dynamic_size() -> None:
    def body(p: Builder, x: Array, out: Array) -> None:
        p.cover(x.shape[0])

    tile_program = program(dynamic="m", x=Input("m n", "f32"), out=Output("m n", "f32"))(body)
    with pytest.raises(ProgramError, match=r"test_dynamic_sizes\.py:\d+: cover"):
        problem(tile_program, m=8, n=8)


def test_a_verification_runs_the_kernel_at_other_sizes() -> None:
    p, gpu = problem(scaled_rows, m=64, n=40), device("a100")
    kernel_template = template(scaled_rows)
    (schedule,) = kernel_template.space(p, gpu).sample(1, 1)
    verdict = ScheduleVerifier(kernel_template, p, gpu).verify(schedule)
    assert verdict.ok, verdict.reason
    tile = schedule.integer("bm")
    names = {run.name for run in verdict.runs}
    assert {f"m={m}" for m in (1, tile - 1, tile, tile + 1)} <= names
