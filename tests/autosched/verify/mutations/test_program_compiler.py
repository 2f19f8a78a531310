"""Faults planted in the tile-program compiler give a finding, or results beyond the interpreter's bounds."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from cases import representative, spread
from mutation_testing import reported_by_verification
from program_outcome import outcome
from random_schedules import random_start

from autosched.programs.loading import load_program, problem
from autosched.verify.schedules import Depth
from search_spaces.hardware.devices import device
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.launches.headers import Headers
from search_spaces.programs.builder import Builder, Input, Output, Program, program
from search_spaces.programs.inference.inference import Inference
from search_spaces.programs.language import ir
from search_spaces.programs.language.distribution import Distribution
from search_spaces.programs.language.ir import Array, Source
from search_spaces.programs.lowering import emit_base, emit_boxes, emit_memory, emit_moves, emit_products, emit_shared
from search_spaces.programs.lowering.elements import Code
from search_spaces.programs.lowering.refs import Ref, constant
from search_spaces.programs.planning import memory, uniform
from search_spaces.programs.template import template
from search_spaces.spaces.schedule import Schedule

A100 = device("a100")
EXAMPLES = Path(__file__).parents[4] / "examples"
GEMM, LONG = "programs/gemm_relu.py", {"m": 64, "n": 64, "k": 256}
RING = "autosched/tile/ring.cuh"
Patch = Callable[[pytest.MonkeyPatch], None]


def outcome_of(
    source: str | Program,
    sizes: dict[str, int],
    changed: Callable[[GeneratedKernel], GeneratedKernel] = lambda kernel: kernel,
    schedule: Schedule | None = None,
) -> str:
    """Return "ok", another status of the emulator, or "wrong" for wrong results."""
    program = load_program(str(EXAMPLES / source)) if isinstance(source, str) else source
    p = problem(program, **sizes)
    schedule = schedule or template(program).space(p, A100).sample(1, 3)[0]
    return outcome(p, changed(template(program).kernel(p, schedule, A100)))


def no_leader(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Distribution, "leader", lambda self, warps: "")


def no_barriers(patch: pytest.MonkeyPatch) -> None:
    put = Code._put
    patch.setattr(Code, "_put", lambda self, line, source: None if "barrier" in line else put(self, line, source))


def zero_padding(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        emit_memory, "constant", lambda number, dtype: constant(number if np.isfinite(number) else 0.0, dtype)
    )


def turned_tables(patch: pytest.MonkeyPatch) -> None:
    through = Ref.through
    patch.setattr(Ref, "through", lambda self, table: through(self, (*table[1:], table[0])))


def no_joining(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(emit_moves, "_lane_parts", lambda of, folded, dimension: [])


def no_barriers_of_tiles(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(emit_shared.SharedTiles, "_synchronise", lambda self, array, before, line: None)


def no_iteration_barriers(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(emit_shared.SharedTiles, "_expect_body", lambda self, body: None)


def no_masks(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(emit_memory.MemoryAccess, "_inside", lambda *_, **__: "true")


def positions_of_other_threads(patch: pytest.MonkeyPatch) -> None:
    far = emit_memory.MemoryAccess._far
    patch.setattr(
        emit_memory.MemoryAccess, "_far", lambda self, window, places, index: far(self, window, places, index) + " + 1"
    )


def tables_off_by_one(patch: pytest.MonkeyPatch) -> None:
    table = Code.table
    patch.setattr(Code, "table", lambda self, numbers: table(self, (*numbers[:-1], numbers[-1] + 1)))


def short_masks(patch: pytest.MonkeyPatch) -> None:
    """Plant a fault: the analysis that decides where masks are needed assumes tiles with one element less."""
    original = uniform._range

    def shortened(argument: ir.Value | float, inference: Inference) -> uniform._Range | None:
        definition = inference.definitions[argument.id] if isinstance(argument, ir.Value) else None
        span = original(argument, inference)
        return uniform._Range(span.low, span.high - 1) if span and isinstance(definition, ir.Coordinates) else span

    patch.setattr(uniform, "_range", shortened)


def short_lives(patch: pytest.MonkeyPatch) -> None:
    """Plant a fault: the loop's exchange buffers in shared memory may overlap the loop's pipeline stages."""
    patch.setattr(memory.SharedMemoryPlan, "exchange", lambda self, outer_loop, which: self.scratch[None])


@pytest.mark.parametrize(
    ("patch", "source", "sizes"),
    spread(
        [
            (no_leader, "seeds/gemm_reduction.py", {"m": 150, "n": 264, "k": 72}),
            (no_barriers, "seeds/wg_maps.py:converted", {"m": 130, "n": 260}),
            (zero_padding, "programs/softmax_rows.py:row_softmax", {"m": 5, "n": 90}),
            (turned_tables, "programs/attention.py:full_attention", {"h": 1, "g": 1, "s": 64, "d": 32}),
            (no_joining, "programs/softmax_rows.py:row_softmax", {"m": 5, "n": 90}),
            (no_barriers_of_tiles, "seeds/gemm_shared.py", {"m": 64, "n": 64, "k": 160}),
            (no_masks, "programs/gemm_relu.py", {"m": 67, "n": 75, "k": 40}),
            (no_masks, "programs/embedding.py:embedding", {"tokens": 37, "words": 20, "d": 136}),
            (positions_of_other_threads, "programs/embedding.py:cache_append", {"tokens": 37, "places": 50, "d": 136}),
            (tables_off_by_one, "programs/gemm_relu.py", {"m": 64, "n": 64, "k": 64}),
        ],
        5,
    ),
    ids=["leader", "barriers", "padding", "tables", "joining", "tiles", "masks", "gather", "scatter", "offsets"],
)
def test_faults_are_reported(patch: Patch, source: str, sizes: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    patch(monkeypatch)
    assert outcome_of(source, sizes) != "ok"


@pytest.mark.parametrize("depth", representative(["quick", "full"], "quick"))
def test_a_key_beyond_the_end_is_reported(depth: Depth, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fault adds a score of 0.

    If the other scores are near 0, results change by under 1%. If the other scores are very negative, this score
    dominates.
    """
    p = problem(load_program(str(EXAMPLES / "programs/attention.py:full_attention")), h=1, g=1, s=319, d=32)
    schedule = template(p.program).space(p, A100).sample(1, 3)[0]
    short_masks(monkeypatch)
    assert "wrong_result" in reported_by_verification(p, template(p.program).kernel(p, schedule, A100), (depth,))


@program(x=Input("m n", "f32"), out=Output("n m", "f32"))
def through_a_tile(p: Builder, x: Array, out: Array) -> None:
    """Each iteration stores a tile to the same shared memory, and loads the tile transposed."""
    (i,) = p.blocks((x.shape[0],), (64,))
    tile = p.shared(64, 32, "f32")
    for j in p.steps(x.shape[1], 32):
        p.store(p.load(p.window(x, (i, j), (64, 32))), p.window(tile, (0, 0), (64, 32)))
        transposed = p.load(p.window(tile, (0, 0), (32, 64), turned=True))
        p.store(transposed * 2.0, p.window(out, (j, i), (32, 64)))


@program(a=Input("m k", "f16"), b=Input("k n", "f16"), out=Output("m n", "f32"))
def weighted(p: Builder, a: Array, b: Array, out: Array) -> None:
    """Reduce across subgroups in each iteration, which needs shared memory in addition to the pipeline stages."""
    (m, k), n = a.shape, b.shape[1]
    i, j = p.blocks((m, n), (64, 64))
    x, y = p.window(a, (i, 0), (64, 32)), p.window(b, (0, j), (32, 64))
    acc = p.state(p.zeros((64, 64)))
    for _ in p.steps(k, 32):
        z = p.mma(p.load(x), p.load(y))
        acc.set(acc + z * p.reduction("add", z, dim=1))
        x.move(0, 32)
        y.move(32, 0)
    p.store(acc, p.window(out, (i, j), (64, 64)))


@program(a=Input("m k", "f16"), b=Input("k n", "f16"), c=Input("m n", "f32"), out=Output("m n", "f32"))
def between(p: Builder, a: Array, b: Array, c: Array, out: Array) -> None:
    """Exchange a value between threads after a product is issued and before its result is used."""
    (m, k), n = a.shape, b.shape[1]
    i, j = p.blocks((m, n), (64, 64))
    acc, sums = p.state(p.zeros((64, 64))), p.state(p.zeros((64, 1)))
    for s in p.steps(k, 32):
        sums.set(sums + p.reduction("add", p.load(p.window(c, (i, j), (64, 64))), dim=1))
        z = p.mma(p.load(p.window(a, (i, s), (64, 32))), p.load(p.window(b, (s, j), (32, 64))), acc * 0.5)
        acc.set(p.broadcast(sums, dim=1, size=64) + z)
    p.store(acc, p.window(out, (i, j), (64, 64)))


@program(a=Input("m k", "f16"), b=Input("k n", "f16"), out=Output("m n", "f32"))
def turned_twice(p: Builder, a: Array, b: Array, out: Array) -> None:
    """Use a product's result through transposes, which rename the result's registers without copying."""
    (m, k), n = a.shape, b.shape[1]
    i, j = p.blocks((m, n), (64, 64))
    acc = p.state(p.zeros((64, 64)))
    for s in p.steps(k, 32):
        z = p.mma(p.load(p.window(a, (i, s), (64, 32))), p.load(p.window(b, (s, j), (32, 64))))
        acc.set(acc + p.transpose(p.transpose(z) * 0.5))
    p.store(acc, p.window(out, (i, j), (64, 64)))


def products_of_some_threads(patch: pytest.MonkeyPatch) -> None:
    """Plant a fault: threads wait for a pending product only inside a branch, which not all threads take."""
    enter = emit_base.EmitterBase._enter

    def entered(self: emit_base.EmitterBase, line: str, source: Source | None = None) -> None:
        finish, self.finish = self.finish, lambda: None  # type: ignore[method-assign]
        enter(self, line, source)
        self.finish = finish  # type: ignore[method-assign]

    patch.setattr(emit_base.EmitterBase, "_enter", entered)


def products_without_a_wait(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(emit_products.Products, "_finish_product", lambda self, value: None)


def accumulators_after_the_fence(patch: pytest.MonkeyPatch) -> None:
    """Plant a fault: write an accumulator after wgmma's fence. Without hold_register, the compiler may do this."""
    call = emit_boxes.Boxes._box_call

    def late(self: emit_boxes.Boxes, o: ir.Mma, array: str) -> tuple[str, Source]:
        line, source = call(self, o, array)
        return f"{array}[0] += float(thread == 1024); {line}", source

    patch.setattr(emit_boxes.Boxes, "_box_call", late)


@pytest.mark.parametrize(
    ("patch", "program", "where", "way"),
    [
        (products_of_some_threads, between, "a100", "mma_m16n8k16_f16"),
        (products_without_a_wait, turned_twice, "a100", "mma_m16n8k16_f16"),
        (accumulators_after_the_fence, between, "h100", "wgmma_m64k16_f16"),
    ],
)
def test_faults_of_products_that_wait(
    patch: Patch, program: Program, where: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    p, on = problem(program, m=64, n=64, k=96), device(where)
    schedule = random_start(template(program).space(p, on), 1, {"intrinsic": way})
    assert schedule is not None
    assert outcome(p, template(program).kernel(p, schedule, on)) == "ok"
    patch(monkeypatch)
    assert outcome(p, template(program).kernel(p, schedule, on)) != "ok"


def test_buffers_live_as_long_as_they_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {"m": 64, "n": 64, "k": 512}  # more iterations than stages
    p = problem(weighted, **sizes)
    schedules = template(weighted).space(p, A100).valid.sample(200, 1)
    schedule = next(s for s in schedules if s.integer("subgroups_n") > 1 and s.integer("stages") > 1)
    assert outcome_of(weighted, sizes, schedule=schedule) == "ok"
    short_lives(monkeypatch)
    assert outcome_of(weighted, sizes, schedule=schedule) != "ok"


def test_an_iteration_waits_for_the_previous_one(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {"m": 100, "n": 96}
    assert outcome_of(through_a_tile, sizes) == "ok"
    no_iteration_barriers(monkeypatch)
    assert outcome_of(through_a_tile, sizes) != "ok"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("C::stages >= 2 ? C::stages - 2 : 0", "C::stages - 1"),
        ("    ptx::barrier_sync();\n    const bool more", "    const bool more"),
        ("stage + 1 == C::stages ? 0 : stage + 1", "stage"),
    ],
    ids=["wait", "barrier", "slot"],
)
def test_faults_of_the_ring_are_reported(old: str, new: str) -> None:
    assert outcome_of(GEMM, LONG, schedule=ringed(1)) == "ok"
    assert outcome_of(GEMM, LONG, with_fault(RING, old, new), ringed(1)) != "ok"


def ringed(buffers: int) -> Schedule:
    """Return a schedule with ``buffers`` fragment buffers, whose loop has more iterations than stages."""
    p = problem(load_program(str(EXAMPLES / GEMM)), **LONG)
    required = {"fragment_buffers": buffers, "split_k": 1, "stages": 3, "bk": 32}
    schedules = template(p.program).space(p, A100).sample(1000, 3)
    return next(s for s in schedules if required.items() <= dict(s.values).items())


def with_fault(header: str, old: str, new: str) -> Callable[[GeneratedKernel], GeneratedKernel]:
    def changed(kernel: GeneratedKernel) -> GeneratedKernel:
        texts = dict(kernel.headers.files)
        assert texts[header].count(old) == 1
        texts[header] = texts[header].replace(old, new)
        return dataclasses.replace(kernel, headers=Headers.of(texts))

    return changed


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("cp_async_wait_group<ahead - 1>", "cp_async_wait_group<ahead>"),
        ("ahead - 1>();\n    ptx::barrier_sync();", "ahead - 1>();"),
        ("        tile = stage_at(stage);\n", ""),
        ("read(tile, step + 1, (step + 1) % 2);", "read(tile, step + 1, step % 2);"),
        ("multiply(step % 2);", "multiply(0);"),
        ("        fill = behind(fill);\n", ""),
        ("ahead) loads.template start<whole>(stage_at(fill));", "ahead) loads.template start<whole>(stage_at(stage));"),
        ("if (whole || left > ahead) loads", "if (whole || left > ahead + 1) loads"),
    ],
    ids=["wait", "barrier", "slot", "buffer", "multiplied", "filled", "overwritten", "last load"],
)
def test_faults_of_two_buffers_of_fragments_are_reported(old: str, new: str) -> None:
    assert outcome_of(GEMM, LONG, schedule=ringed(2)) == "ok"
    assert outcome_of(GEMM, LONG, with_fault(RING, old, new), ringed(2)) != "ok"
