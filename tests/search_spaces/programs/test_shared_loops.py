"""Loops whose iterations several blocks share. The last block combines the partial results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from cases import representative
from program_outcome import outcome

from autosched.aot.portable import portable
from autosched.programs.loading import problem
from autosched.verify.schedules import ScheduleVerifier
from search_spaces.hardware.devices import device
from search_spaces.launches.launch import launch_from_json
from search_spaces.programs.builder import Input, Output, Program, program
from search_spaces.programs.language.ir import ProgramError
from search_spaces.programs.planning.choices import choices_of
from search_spaces.programs.planning.splits import split_of
from search_spaces.programs.problem import ProgramProblem
from search_spaces.programs.template import template
from search_spaces.spaces.schedule import Schedule

INFINITY = float("inf")


def schedules_of(p: ProgramProblem, gpu: str, count: int = 200) -> dict[tuple[object, ...], Schedule]:
    """Return one schedule for each combination of ``parts``, ``intrinsic`` and ``filled_by``."""
    own, schedules = template(p.program), dict[tuple[object, ...], Schedule]()
    assert own.why_not(p, device(gpu)) is None
    for schedule in own.space(p, device(gpu)).sample(count, 1):
        values = schedule.values
        # cover both values of ``split_launches`` on the A100 only
        of_launches = values["split_launches"] if gpu == "a100" else 1
        key = values["parts"], values.get("intrinsic"), values.get("filled_by"), of_launches
        schedules.setdefault(key, schedule)
    return schedules


def verified(p: ProgramProblem, gpu: str, inputs: Any = None) -> set[object]:
    """Emulate the schedules of ``schedules_of``, and return the values of ``parts`` that occurred."""
    schedules = schedules_of(p, gpu)
    for schedule in schedules.values():
        assert outcome(p, template(p.program).kernel(p, schedule, device(gpu)), inputs) == "ok", schedule
    return {key[0] for key in schedules}


@program(x=Input("m n", "f32"), out=Output("m", "f32"), most=Output("m", "f32"))
def sums_and_maxima(p: Any, x: Any, out: Any, most: Any) -> None:
    """Add up each row, and find its largest number."""
    m, n = x.shape
    parts = p.choose(parts=(1, 2, 3, 8))
    (i,) = p.blocks((m,), (8,))
    total, largest = p.state(p.zeros((8, 1))), p.state(p.full((8, 1), -INFINITY))

    def joined(one: Any, other: Any) -> Any:
        return one[0] + other[0], p.maximum(one[1], other[1])

    for j in p.split(n, 16, parts=parts, states=(total, largest), combine=joined):
        inside = p.columns(j, 16) < n
        tile = p.load(p.window(x, (i, j), (8, 16)))
        total.set(total + p.reduction("add", tile, dim=1))
        largest.set(p.maximum(largest, p.reduction("maximumf", p.where(inside, tile, -INFINITY), dim=1)))
    p.store(total, p.window(out, (i, 0), (8, 1), column=True))
    p.store(largest, p.window(most, (i, 0), (8, 1), column=True))


@pytest.mark.parametrize("n", [1, 200])
def test_blocks_that_share_a_row_join_its_sum_and_its_maximum(n: int) -> None:
    p = problem(sums_and_maxima, m=19, n=n)
    assert verified(p, "a100") == {1, 2, 3, 8}


def test_parts_without_iterations_are_neutral() -> None:
    p = problem(sums_and_maxima, m=8, n=1)
    x = np.full((8, 1), 3.0, dtype=np.float32)
    for values in choices_of(p).inferences:
        assert values[0] in (1, 2, 3, 8)
    actual, _ = p.expected({"x": x})
    assert actual["out"].tolist() == actual["most"].tolist() == [3.0] * 8


@program(a=Input("m k", "f16"), b=Input("k n", "f16"), out=Output("m n", "f32"))
def shared_product(p: Any, a: Any, b: Any, out: Any) -> None:
    """Multiply matrices. Several blocks share the loop over k of each tile, and their partial sums are added."""
    i, j = p.blocks(out.shape, (64, 64))
    acc = p.state(p.zeros((64, 64)))
    for k in p.split(a.shape[1], 32, parts=p.choose(parts=(1, 3)), states=(acc,), combine="add"):
        rows, columns = p.window(a, (i, k), (64, 32)), p.window(b, (k, j), (32, 64))
        acc.set(p.mma(p.load(rows), p.load(columns), acc))
    p.store(acc, p.window(out, (i, j), (64, 64)))


@pytest.mark.parametrize("gpu", ["a100", "t4", "h100"])
def test_products_split_along_k_between_blocks(gpu: str) -> None:
    p = problem(shared_product, m=72, n=72, k=152)
    assert verified(p, gpu) == {1, 3}


def attention(bm: int, length: bool) -> Program:
    """Return an attention program in which the keys are divided among several blocks.

    With ``length``, only the first keys of a sequence are used.
    """
    kinds = {"lengths": Input("b", "i32")} if length else {}
    of_keys = Input("b s d", "f16")

    def body(p: Any, q: Any, k: Any, v: Any, *arguments: Any) -> None:
        (b, r, d), s, bn = q.shape, k.shape[1], 32
        batch, i = p.blocks((b, r), (1, bm))
        end = p.load_scalar(arguments[0], batch, high=s) if length else s
        query = p.load(p.window(q[batch], (i, 0), (bm, d)))
        top, total = p.state(p.full((bm, 1), -INFINITY)), p.state(p.zeros((bm, 1)))
        acc = p.state(p.zeros((bm, d)))

        def centred(top: Any) -> Any:
            return p.where(top == -INFINITY, 0.0, top)

        def joined(one: Any, other: Any) -> Any:
            peak = p.maximum(one[0], other[0])
            first, second = (p.exp2(x[0] - centred(peak)) for x in (one, other))
            return peak, one[1] * first + other[1] * second, one[2] * first + other[2] * second

        parts = p.choose(parts=(1, 4))
        for j in p.split(end, bn, parts=parts, states=(top, total, acc), combine=joined):
            keys, values = (p.window(t[batch], (j, 0), (bn, d)) for t in (k, v))
            z = p.where(p.columns(j, bn) < end, p.mma(query, p.transpose(p.load(keys))), -INFINITY)
            peak = p.maximum(top, p.reduction("maximumf", z, dim=1))
            e, fade = p.exp2(z - centred(peak)), p.exp2(top - centred(peak))
            total.set(total * fade + p.reduction("add", e, dim=1))
            acc.set(p.mma(e.cast("f16"), p.load(values), acc * fade))
            top.set(peak)
        p.store(p.where(total == 0.0, 0.0, acc / total).cast("f16"), p.window(arguments[-1][batch], (i, 0), (bm, d)))

    arrays = {"q": Input("b r d", "f16"), "k": of_keys, "v": of_keys, **kinds, "o": Output("b r d", "f16")}
    return Program(f"shared_attention_{length}", body, tuple(arrays.items()), f"{bm} {length}", "")


@pytest.mark.parametrize(("gpu", "bm", "length"), [("a100", 16, False), ("a100", 16, True), ("h100", 64, True)])
def test_attention_split_along_keys_between_blocks(gpu: str, bm: int, length: bool) -> None:
    p = problem(attention(bm, length), b=3, r=4, s=150, d=64)
    assert verified(p, gpu) == {1, 4}


def test_lengths_of_zero_one_and_all_keys() -> None:
    p = problem(attention(16, True), b=5, r=4, s=150, d=32)
    own, a100 = template(p.program), device("a100")
    drawn = own.space(p, a100).sample(60, 1)
    inputs = {**p.random_inputs(2), "lengths": np.array([0, 150, 1, 33, 149], dtype=np.int32)}
    for launches in (1, 2):
        schedule = next(s for s in drawn if (s.values["parts"], s.values["split_launches"]) == (4, launches))
        assert outcome(p, own.kernel(p, schedule, a100), inputs) == "ok"


@pytest.mark.parametrize("gpu", representative(["a100", "t4", "h100", "b200"], "h100"))
def test_a_second_launch_combines_partial_results(gpu: str) -> None:
    """The two launches are two functions of one kernel, connected only by the partial results."""
    p, where = problem(shared_product, m=72, n=72, k=152), device(gpu)
    own = template(shared_product)
    drawn = own.space(p, where).sample(60, 2)
    assert all(s.values["split_launches"] == 1 for s in drawn if s.values["parts"] == 1)
    schedule = next(s for s in drawn if s.values["split_launches"] == 2)
    kernel = own.kernel(p, schedule, where)
    first, second = kernel.steps
    assert (first.grid[0], len({first.entry, second.entry})) == (3 * second.grid[0], 2)
    assert [a.name for a in kernel.arguments if getattr(a, "role", "") == "workspace"] == ["split_partials"]
    assert launch_from_json(kernel.launch_json()).then == kernel.then
    # the export writes grids as text
    assert [step.grid[0] for step in portable(p, schedule, kernel, where).steps] == ["12", "4"]
    verdict = ScheduleVerifier(own, p, where).verify(schedule)
    assert verdict.ok, verdict.reason
    assert own.counts is not None
    assert own.counts(p, own.config(p, schedule, where), where).launches == 2


def test_a_shared_loop_has_workspaces_and_blocks_for_each_part() -> None:
    p = problem(shared_product, m=72, n=72, k=152)
    own, a100 = template(shared_product), device("a100")
    drawn = own.space(p, a100).sample(80, 1)
    schedules = {s.values["parts"]: s for s in drawn if s.values["split_launches"] == 1}
    choices = choices_of(p)
    one, three = (split_of(choices.inference(schedules[parts].values), schedules[parts].values) for parts in (1, 3))
    assert one is None
    assert three is not None
    assert three.count == 3
    kernel = own.kernel(p, schedules[3], a100)
    assert kernel.grid[0] == 3 * own.kernel(p, schedules[1], a100).grid[0]
    assert [a.role for a in kernel.arguments if hasattr(a, "role")].count("workspace") == 2


def refused(body: Any) -> str:
    arrays = {"x": Input("m n", "f32"), "out": Output("m n", "f32")}
    tile_program = Program("refused", body, tuple(arrays.items()), "refused", "")
    with pytest.raises((ProgramError, ValueError)) as raised:
        problem(tile_program, m=40, n=16)
    return str(raised.value)


def shared(**options: Any) -> Any:
    def body(p: Any, x: Any, out: Any) -> None:
        (i,) = p.blocks((40,), (8,))
        total, other = p.state(p.zeros((8, 1))), p.state(p.zeros((8, 1)))
        settings = {"parts": 2, "states": (total,), "combine": "add", **options}
        for j in p.split(16, 16, **settings):
            tile = p.reduction("add", p.load(p.window(x, (i, j), (8, 16))), dim=1)
            total.set(total + tile)
            if settings.get("combine") is second:
                other.set(other + tile)

    return body


def second(one: Any, other: Any) -> Any:
    return one


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"parts": 0}, "1 to 128"),
        ({"parts": 2.0}, "2.0"),
        ({"states": ()}, "states"),
        ({"combine": "max"}, "combine"),
        ({"combine": lambda one, other: one[0]}, "1 tiles"),
        ({"combine": second}, "add it to states"),
    ],
)
def test_refusals_of_shared_loops_name_the_line(options: dict[str, Any], message: str) -> None:
    text = refused(shared(**options))
    assert text.startswith("test_shared_loops.py:")
    assert message in text


def test_a_store_of_partial_results_is_rejected() -> None:
    def body(p: Any, x: Any, out: Any) -> None:
        (i,) = p.blocks((40,), (8,))
        total = p.state(p.zeros((8, 16)))
        p.store(total, p.window(out, (i, 0), (8, 16)))
        for j in p.split(16, 16, parts=2, states=(total,), combine="add"):
            total.set(total + p.load(p.window(x, (i, j), (8, 16))))

    assert "before the loop" in refused(body)
