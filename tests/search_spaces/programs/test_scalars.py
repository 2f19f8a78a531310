"""Programs may read positions from data: loop bounds, starts of windows, expert numbers, entries of block tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from program_outcome import outcome

from autosched.programs.loading import problem
from search_spaces.hardware.devices import device
from search_spaces.programs.builder import Input, Output, Program, program
from search_spaces.programs.inference.inference import Staged
from search_spaces.programs.language.ir import ProgramError
from search_spaces.programs.language.scalar_inputs import ScalarInput, scalar_inputs
from search_spaces.programs.planning.choices import choices_of, unique_operands
from search_spaces.programs.problem import ProgramProblem
from search_spaces.programs.template import template
from search_spaces.spaces.schedule import Schedule

INFINITY = float("inf")


def verified(p: ProgramProblem, gpu: str, schedules: int = 2, seed: int = 1, edges: bool = True) -> None:
    """Emulate sampled schedules on random inputs, and the first schedule also on edge cases of the scalar inputs."""
    own, target = template(p.program), device(gpu)
    assert own.why_not(p, target) is None
    names = scalar_inputs(p.usual_trace())
    for number, schedule in enumerate(own.space(p, target).sample(schedules, seed)):
        kernel = own.kernel(p, schedule, target)
        assert outcome(p, kernel) == "ok", schedule
        if edges and number == 0:
            for input_set in p.stress_inputs(3):
                if input_set.cases[0].split(":")[0] in names:
                    assert outcome(p, kernel, input_set.inputs) == "ok", input_set.cases


def staged(p: ProgramProblem) -> dict[str, Staged]:
    return {operand.name: operand for operand in unique_operands(choices_of(p).first)}


@program(x=Input("b n", "f32"), lengths=Input("b", "i32"), out=Output("b", "f32"))
def sums_of_rows(p: Any, x: Any, lengths: Any, out: Any) -> None:
    """Add up a given number of elements of each row."""
    b, n = x.shape
    (row,) = p.blocks((b,), (1,))
    length = p.load_scalar(lengths, row, high=n)
    total = p.state(p.zeros((1, 1)))
    for j in p.steps(length, 16):
        x_tile = p.where(p.columns(j, 16) < length, p.load(p.window(x, (row, j), (1, 16))), 0.0)
        total.set(total + p.reduction("add", x_tile, dim=1))
    p.store(total, p.window(out, (row, 0), (1, 1), column=True))


def test_the_end_of_a_loop() -> None:
    verified(problem(sums_of_rows, b=7, n=40), "a100", 3)


def test_scalars_are_clamped_to_their_range() -> None:
    p = problem(sums_of_rows, b=5, n=40)
    x = np.ones((5, 40), dtype=np.float32)
    values, _ = p.expected({"x": x, "lengths": np.array([-9, 0, 1, 40, 2**31 - 1], dtype=np.int32)})
    assert values["out"].tolist() == [0, 0, 1, 40, 40]


def grouped(bm: int = 16, bn: int = 16, bk: int = 32) -> Program:
    @program(
        w=Input("experts k n", "f16"), a=Input("m k", "f16"), expert=Input("tiles", "i32"), out=Output("m n", "f32")
    )
    def experts(p: Any, w: Any, a: Any, expert: Any, out: Any) -> None:
        """Multiply each tile of rows by the matrix of its expert."""
        i, j = p.blocks(out.shape, (bm, bn))
        number = p.load_scalar(expert, i // bm, high=w.shape[0] - 1)
        rows, columns = p.window(a, (i, 0), (bm, bk)), p.window(w[number], (0, j), (bk, bn))
        acc = p.state(p.zeros((bm, bn)))
        for _ in p.steps(a.shape[1], bk):
            acc.set(p.mma(p.load(rows), p.load(columns), acc))
            rows.move(0, bk)
            columns.move(bk, 0)
        p.store(acc, p.window(out, (i, j), (bm, bn)))

    return Program(f"experts_{bm}", experts.function, experts.arguments, f"{bm} {bn}", "")


def test_the_number_of_an_expert() -> None:
    p = problem(grouped(), experts=3, m=40, n=24, k=72, tiles=3)
    assert staged(p)["w"].advance == "major"  # k advances, but not the expert's number
    verified(p, "a100")


def by_filling(p: ProgramProblem, samples: int) -> dict[str, Schedule]:
    """Return a wgmma schedule for each value of ``filled_by``."""
    schedules: dict[str, Schedule] = {}
    for schedule in template(p.program).space(p, device("h100")).sample(samples, 1):
        if "wgmma" in str(schedule.values["intrinsic"]):
            schedules.setdefault(str(schedule.values["filled_by"]), schedule)
    return schedules


def test_tma_copies_the_tiles_of_an_expert() -> None:
    p = problem(grouped(128, 128, 64), experts=3, m=140, n=136, k=72, tiles=2)
    kinds = by_filling(p, 100)
    assert {"tma", "warp"} <= kinds.keys()
    for schedule in kinds.values():
        assert outcome(p, template(p.program).kernel(p, schedule, device("h100"))) == "ok", schedule


def attention(bm: int, page: int) -> Program:
    """Return a program for attention of one query position over pages of keys and values."""
    of_cache = Input(f"pages h page_{page} d", "f16")

    @program(
        q=Input("b h r d", "f16"), k=of_cache, v=of_cache, table=Input("b entries", "i32"),
        lengths=Input("b", "i32"), o=Output("b h r d", "f16"),
    )  # fmt: skip
    def paged(p: Any, q: Any, k: Any, v: Any, table: Any, lengths: Any, o: Any) -> None:
        (b, h, r, d), bn = q.shape, p.choose(bn=(16, 32))
        seq, head, i = p.blocks((b, h, r), (1, 1, bm))
        length = p.load_scalar(lengths, seq, high=table.shape[1] * page)
        query = p.load(p.window(q[seq][head], (i, 0), (bm, d)))
        top, total = p.state(p.full((bm, 1), -INFINITY)), p.state(p.zeros((bm, 1)))
        acc = p.state(p.zeros((bm, d)))
        for j in p.steps(length, bn):
            at = p.load_scalar(table, seq, j // page, high=k.shape[0] - 1)
            keys, values = (p.window(t[at][head], (j % page, 0), (bn, d)) for t in (k, v))
            z = p.where(p.columns(j, bn) < length, p.mma(query, p.transpose(p.load(keys))), -INFINITY)
            peak = p.maximum(top, p.reduction("maximumf", z, dim=1))
            e, fade = p.exp2(z - peak), p.exp2(top - peak)
            total.set(total * fade + p.reduction("add", e, dim=1))
            acc.set(p.mma(e.cast("f16"), p.load(values), acc * fade))
            top.set(peak)
        p.store(p.where(total == 0.0, 0.0, acc / total).cast("f16"), p.window(o[seq][head], (i, 0), (bm, d)))

    return Program(f"paged_{bm}", paged.function, paged.arguments, f"{bm} {page}", "")


@pytest.mark.parametrize(("gpu", "bm"), [("a100", 16), ("t4", 16), ("h100", 64)])
def test_pages_of_a_table_go_through_a_ring(gpu: str, bm: int) -> None:
    p = problem(attention(bm, 32), b=3, h=2, r=4, d=32, pages=9, page_32=32, entries=3)
    assert {operand.advance for operand in staged(p).values() if operand.loop is not None} == {"placed"}
    verified(p, gpu, 2)


def test_pages_that_a_warp_of_its_own_copies() -> None:
    p = problem(attention(64, 32), b=3, h=2, r=4, d=64, pages=9, page_32=32, entries=3)
    kinds = by_filling(p, 200)
    assert {"tma", "warp"} <= kinds.keys()
    for schedule in kinds.values():
        assert outcome(p, template(p.program).kernel(p, schedule, device("h100"))) == "ok", schedule


@program(x=Input("total n", "f32"), offsets=Input("ends", "i32"), out=Output("total n", "f32"))
def numbered_rows(p: Any, x: Any, offsets: Any, out: Any) -> None:
    """Add each sequence's number to the sequence's rows, which start at the sequence's offset."""
    total, n = x.shape
    (sequence,) = p.blocks((offsets.shape[0] - 1,), (1,))
    first, end = (p.load_scalar(offsets, sequence + at, high=total, ordered=True) for at in (0, 1))
    for i in p.steps(end, 8, first=first):
        tile = p.load(p.window(x, (i, 0), (8, n))) + p.rows(sequence, 1).cast("f32")
        p.store(tile, p.window(out, (i, 0), (8, n)), rows_below=end)


def test_offsets_of_rows_and_stores_that_end_in_a_tile() -> None:
    verified(problem(numbered_rows, total=45, n=16, ends=5), "a100", 3)


@program(x=Input("total n", "f32"), offsets=Input("ends", "i32"), out=Output("total n", "f32"))
def numbered_tiles(p: Any, x: Any, offsets: Any, out: Any) -> None:
    """Add to each row the number of its group and 1024 times the number of the group's first tile."""
    (total, n), groups = x.shape, offsets.shape[0] - 1
    (i,) = p.blocks((total + groups * 7,), (8,))
    group, first = p.find_tile(offsets, i // 8, 8, high=total)
    begin, end = (p.load_scalar(offsets, group + at, high=total, ordered=True) for at in (0, 1))
    row = p.minimum(p.maximum(begin + (i // 8 - first) * 8, 0), total)
    numbers = p.rows(group, 1).cast("f32") + p.rows(first, 1).cast("f32") * 1024.0
    p.store(p.load(p.window(x, (row, 0), (8, n))) + numbers, p.window(out, (row, 0), (8, n)), rows_below=end)


@pytest.mark.parametrize("groups", [1, 5, 32, 70])
def test_the_group_of_a_tile(groups: int) -> None:
    """Groups may be empty, and there may be more groups than a warp has lanes."""
    p = problem(numbered_tiles, total=90, n=16, ends=groups + 1)
    verified(p, "a100", 2)
    cuts = np.sort(np.random.default_rng(groups).integers(0, 91, groups - 1))
    offsets = np.concatenate([[0], cuts, [90]]).astype(np.int32)
    values, _ = p.expected({"x": np.zeros((90, 16), np.float32), "offsets": offsets})
    sizes = np.diff(offsets)
    tiles = np.concatenate([[0], np.cumsum(-(-sizes // 8))])
    assert values["out"][:, 0].tolist() == np.repeat(np.arange(groups) + 1024 * tiles[:-1], sizes).tolist()


def test_a_dedicated_warp_finds_tiles_too() -> None:
    """The copying warp computes the tile's group and position itself."""

    @program(a=Input("m k", "f16"), b=Input("g k n", "f16"), offsets=Input("ends", "i32"), out=Output("m n", "f32"))
    def product(p: Any, a: Any, b: Any, offsets: Any, out: Any) -> None:
        """Multiply the rows of each group by its matrix."""
        i, j = p.blocks((a.shape[0] + b.shape[0] * 63, out.shape[1]), (64, 64))
        group, first = p.find_tile(offsets, i // 64, 64, high=a.shape[0])
        begin, end = (p.load_scalar(offsets, group + at, high=a.shape[0], ordered=True) for at in (0, 1))
        row = p.minimum(p.maximum(begin + (i // 64 - first) * 64, 0), a.shape[0])
        acc = p.state(p.zeros((64, 64)))
        own = b[p.minimum(group, b.shape[0] - 1)]
        for k in p.steps(a.shape[1], 64):
            acc.set(p.mma(p.load(p.window(a, (row, k), (64, 64))), p.load(p.window(own, (k, j), (64, 64))), acc))
        p.store(acc, p.window(out, (row, j), (64, 64)), rows_below=end)

    product_problem = problem(product, m=150, k=192, n=72, g=3, ends=4)
    own, gpu = template(product_problem.program), device("h100")
    schedules = [s for s in own.space(product_problem, gpu).sample(3000, 1) if s["filled_by"] == "warp"][:2]
    assert schedules
    for schedule in schedules:
        assert outcome(product_problem, own.kernel(product_problem, schedule, gpu)) == "ok", schedule


def shifted_product() -> Program:
    @program(a=Input("m k", "f16"), b=Input("k n", "f16"), at=Input("one", "i32"), out=Output("m n", "f32"))
    def shifted(p: Any, a: Any, b: Any, at: Any, out: Any) -> None:
        """Multiply by the rows of b from a position to the end of the array. The position is loaded from memory."""
        i, j = p.blocks(out.shape, (16, 16))
        first = p.load_scalar(at, 0, high=b.shape[0])
        acc = p.state(p.zeros((16, 16)))
        for k in p.steps(a.shape[1], 16):
            rows, columns = p.window(a, (i, k), (16, 16)), p.window(b, (first + k, j), (16, 16))
            acc.set(p.mma(p.load(rows), p.load(columns), acc))
        p.store(acc, p.window(out, (i, j), (16, 16)))

    return shifted


@pytest.mark.parametrize("gpu", ["a100", "h100"])
def test_tiles_at_any_position_are_cut_at_the_end_of_their_array(gpu: str) -> None:
    p = problem(shifted_product(), m=16, n=16, k=64, one=1)
    assert staged(p)["b"].anywhere
    verified(p, gpu, 3)


def refused(body: Any, **arrays: Any) -> str:
    all_arrays = {"x": Input("m n", "f32"), "index": Input("m", "i32"), "out": Output("m n", "f32"), **arrays}
    tile_program = Program("refused", body, tuple(all_arrays.items()), "refused", "")
    p = None
    try:
        p = problem(tile_program, m=40, n=16)
    except (ProgramError, ValueError) as error:
        return str(error)
    return template(tile_program).why_not(p, device("a100")) or ""


@pytest.mark.parametrize(
    ("load", "message"),
    [
        (lambda p, x, index: p.load_scalar(x, 0, 0, high=3), "i32"),
        (lambda p, x, index: p.load_scalar(index, 0, 0, high=3), "1 positions"),
        (lambda p, x, index: p.load_scalar(index, 0, low=4, high=3), "4 to 3"),
        (lambda p, x, index: p.load_scalar(index, 0, high=2**31), "32 bits"),
        (lambda p, x, index: p.load_scalar("index", 0, high=3), "array"),
        (lambda p, x, index: p.load_scalar(index, 0.5, high=3), "0.5"),
        (lambda p, x, index: p.find_tile(x, 0, 8, high=3), "i32"),
        (lambda p, x, index: p.find_tile("index", 0, 8, high=3), "array"),
        (lambda p, x, index: p.find_tile(index, 0, 0, high=3), "size 0"),
        (lambda p, x, index: p.find_tile(index, 0, 8, high=-1), "0 to -1"),
    ],
)
def test_refusals_of_scalars_name_the_line(load: Any, message: str) -> None:
    def body(p: Any, x: Any, index: Any, out: Any) -> None:
        p.blocks((1,), (1,))
        load(p, x, index)

    text = refused(body)
    assert text.startswith("test_scalars.py:")
    assert message in text


def test_a_scalar_of_a_loop_is_rejected_after_the_loop() -> None:
    def body(p: Any, x: Any, index: Any, out: Any) -> None:
        (i,) = p.blocks((40,), (8,))
        at: Any = 0
        for j in p.steps(40, 8):
            at = p.load_scalar(index, j, high=32)
        p.store(p.load(p.window(x, (at, 0), (8, 16))), p.window(out, (i, 0), (8, 16)))

    text = refused(body)
    assert "used after the loop" in text
    assert text.startswith("test_scalars.py:")


def test_a_matrix_that_a_scalar_may_miss_is_rejected() -> None:
    def body(p: Any, x: Any, index: Any, out: Any) -> None:
        (i,) = p.blocks((40,), (8,))
        page = p.load_scalar(index, 0, high=40)
        p.store(p.load(p.window(x[page], (0, 0), (8, 16))), p.window(out, (i, 0), (8, 16)))

    assert "ranges from 0 to 40" in refused(body, x=Input("m m n", "f32"))


def test_scalar_inputs_are_within_their_range() -> None:
    rng = np.random.default_rng(0)
    plain, offsets = ScalarInput(2, 9, False), ScalarInput(0, 9, True)
    drawn = plain.draw(rng, (40, 3))
    assert drawn.min() == 2
    assert drawn.max() == 9
    for numbers in (offsets.draw(rng, (2, 6)), *(array for _, array in offsets.edge_cases((2, 6)))):
        assert (np.diff(numbers, axis=-1) >= 0).all()
        assert (numbers[:, 0] == 0).all()
        assert (numbers[:, -1] == 9).all()
    assert [name for name, _ in plain.edge_cases((4,))] == ["least", "one", "largest", "descending", "alternating"]
    outside = plain.outside(rng, (100,))
    assert outside.min() < 2
    assert outside.max() > 9


def gathering(by: str) -> Program:
    """Return a product of gathered rows of x and rows of w. A table selects the rows of w, unless ``by`` is "rows"."""

    @program(
        x=Input("t k", "f16"), w=Input("places n", "f16"), token=Input("rows", "i32"), table=Input("pages", "i32"),
        out=Output("rows n", "f32"),
    )  # fmt: skip
    def gathered(p: Any, x: Any, w: Any, token: Any, table: Any, out: Any) -> None:
        i, j = p.blocks(out.shape, (64, 64))
        rows = p.load(p.window(token, (i, 0), (64, 1), column=True), padding=-1)
        acc = p.state(p.zeros((64, 64)))
        for at in p.steps(x.shape[1], 32):
            page = p.load(p.window(table, (p.rows(at, 32) >> 3), (32, 1), column=True), padding=-1)
            row = p.where(page < 0, -1, page * 8 + (p.rows(at, 32) & 7)) if by == "pages" else p.rows(at, 32)
            if by == "neighbours":  # one entry of the table for every 8 rows
                entry = p.load(p.window(table, (at // 8, 0), (4, 1), column=True), padding=-1)
                pages = p.broadcast(entry, dim=0, size=32)
                row = p.where(pages < 0, -1, pages * 8 + (p.rows(at, 32) & 7))
            left, right = p.window(x, (rows, at), (64, 32)), p.window(w, (row, j), (32, 64))
            acc.set(p.mma(p.load(left), p.load(right), acc))
        p.store(acc, p.window(out, (i, j), (64, 64)))

    return Program(f"gathered_{by}", gathered.function, gathered.arguments, by, "")


@pytest.mark.parametrize("gpu", ["a100", "t4", "h100"])
@pytest.mark.parametrize("by", ["rows", "pages", "neighbours"])
def test_gathered_rows_go_through_a_ring(by: str, gpu: str) -> None:
    p = problem(gathering(by), t=50, k=72, places=100, n=72, rows=90, pages=10)
    assert {operand.advance for operand in staged(p).values()} == {"gathered"}
    own, target = template(p.program), device(gpu)
    kinds = {}
    for schedule in own.space(p, target).sample(60, 1):
        kinds.setdefault(
            (schedule.values["intrinsic"], schedule.values.get("filled_by"), schedule.values["copy_x"]), schedule
        )
    for schedule in kinds.values():
        assert outcome(p, own.kernel(p, schedule, target)) == "ok", schedule
