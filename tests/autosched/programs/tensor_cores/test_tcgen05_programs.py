"""Tile programs that multiply with tcgen05 are emulated. Planted faults of tensor memory are reported."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest
from cases import representative, spread
from edited_kernel import edited_kernel
from program_outcome import outcome
from program_schedules import Values, filled
from random_schedules import random_start

from autosched.programs.loading import load_program, problem
from measurements.compiler.ptx import compile_to_ptx
from measurements.emulator import emulate_ptx
from measurements.emulator.architecture import ptx_arch
from search_spaces.hardware.devices import device
from search_spaces.programs.builder import Builder, Input, Output, Program, program
from search_spaces.programs.language.ir import Array
from search_spaces.programs.planning.choices import choices_of
from search_spaces.programs.problem import ProgramProblem
from search_spaces.programs.template import template
from search_spaces.spaces.schedule import Schedule

EXAMPLES = Path(__file__).parents[4] / "examples" / "programs"
B200 = device("b200")
SIZES = {"m": 136, "n": 72, "k": 200}
DECODE = {"b": 3, "g": 2, "r": 4, "d": 32, "pages": 7, "page": 32, "entries": 3}
TYPES = ("f16", "bf16", "tf32", "e4m3", "e5m2", "i8")


def gemm(rows: int = 128, **changes: int | str) -> Values:
    operands: Values = {}
    for name in "ab":
        operands |= {f"layout_{name}": "swizzle(3,3,3)", f"copy_{name}": "cp.async"}
        operands |= {f"vector_{name}": 1, f"copy_columns_{name}": 1}
    return {
        "bm": 128, "bn": 64, "bk": 64, "intrinsic": f"tcgen05_m{rows}k16_f16", "subgroups_m": 4, "subgroups_n": 1,
        **operands, "stages": 3, "filled_by": "warp", "in_flight": 1, "split_k": 1, "stream_k": 0, "early_copies": 0,
        "fragment_buffers": 1, "store_1": "direct", "exchange": "pad(4,1)", "min_blocks": 1, "raster": "row",
    } | changes  # fmt: skip


def of(name: str = "gemm_relu.py", **sizes: int) -> ProgramProblem:
    return problem(load_program(str(EXAMPLES / name)), **sizes)


def legal(p: ProgramProblem, values: Values) -> Schedule:
    """Return the schedule with these values, and check that the schedule breaks no rule of the space."""
    schedule = filled(p, values, B200)
    assert template(p.program).space(p, B200).valid.explain(schedule) == []
    return schedule


@pytest.mark.parametrize(
    "values",
    spread([
        gemm(),
        gemm(filled_by="tma", in_flight=0),
        gemm(filled_by="threads", in_flight=0),
        gemm(64, bm=64),
        gemm(bm=256),
        gemm(bm=256, subgroups_m=8, filled_by="tma", in_flight=0),
        gemm(64, bm=256, subgroups_m=8, filled_by="tma", in_flight=0, store_1="turned"),
        gemm(split_k=2),
    ], 4),
)  # fmt: skip
def test_schedules_are_right(values: Values) -> None:
    p = of(**SIZES)
    assert outcome(p, template(p.program).kernel(p, legal(p, values), B200)) == "ok"


def of_type(kind: str) -> Program:
    """Return a program that computes out = x @ weights.T, with operands of type ``kind``."""
    stored = "f32" if kind == "tf32" else kind
    sums = "i32" if kind == "i8" else "f32"

    @program(x=Input("m k", stored), weights=Input("n k", stored), out=Output("m n", sums))
    def product(p: Builder, x: Array, weights: Array, out: Array) -> None:
        (m, k), n = x.shape, weights.shape[0]
        bm, bn, bk = p.choose(bm=(64, 128), bn=(32, 64), bk=(32, 64, 128))
        i, j = p.blocks((m, n), (bm, bn))
        left, right = p.window(x, (i, 0), (bm, bk)), p.window(weights, (j, 0), (bn, bk))
        acc = p.state(p.zeros((bm, bn), sums))
        for _ in p.steps(k, bk):
            acc.set(p.mma(p.load(left), p.transpose(p.load(right)), acc, tf32=kind == "tf32"))
            left.move(0, bk)
            right.move(0, bk)
        p.store(acc, p.window(out, (i, j), (bm, bn)))

    return product


@pytest.mark.parametrize("kind", representative(TYPES, "f16", "tf32", "e4m3", "i8"))
def test_sampled_schedules_are_right(kind: str, nightly: bool) -> None:
    p = of(**SIZES) if kind == "f16" else problem(of_type(kind), m=136, n=72, k=208)
    space = template(p.program).space(p, B200)
    for rows in (64, 128):
        ranks = next(s.ranks for s in space.strata if str(s.value).startswith(f"tcgen05_m{rows}"))
        chosen = [ranks[i] for i in np.random.default_rng(5).integers(len(ranks), size=25 if nightly else 1)]
        for schedule in space.schedules(space.unrank(chosen)):
            assert outcome(p, template(p.program).kernel(p, schedule, B200)) == "ok", schedule


def narrow(kind: str) -> Values:
    """Return a schedule's values for a type other than f16 and bf16. Lines of tiles in shared memory have 128 bytes."""
    size, k, base = (4, 8, 2) if kind == "tf32" else (1, 32, 4)
    swizzle = f"swizzle(3,{base},3)"
    return gemm() | {
        "bm": 128, "bk": 128 // size, "intrinsic": f"tcgen05_m128k{k}_{kind}",
        "layout_x": swizzle, "layout_weights": f"transpose+{swizzle}",
        **{f"{key}_{name}": value for name in ("x", "weights")
           for key, value in (("copy", "cp.async"), ("vector", 1), ("copy_columns", 1))},
    }  # fmt: skip


DESCRIPTORS = "autosched/intrinsics/tcgen05.cuh"


@pytest.mark.parametrize(
    ("kind", "old", "new"),
    representative([
        ("tf32", "tf32;\n  static constexpr unsigned code = 2,", "tf32;\n  static constexpr unsigned code = 1,"),
        ("e4m3", "f8f6f4;\n  static constexpr unsigned code = 0,", "f8f6f4;\n  static constexpr unsigned code = 1,"),
        ("e5m2", "f8f6f4;\n  static constexpr unsigned code = 1,", "f8f6f4;\n  static constexpr unsigned code = 0,"),
        ("i8", "i8;\n  static constexpr unsigned code = 1,", "i8;\n  static constexpr unsigned code = 0,"),
    ], "tf32", "i8", ids=["tf32", "e4m3", "e5m2", "i8"]),
    ids=["tf32", "e4m3", "e5m2", "i8"],
)  # fmt: skip
def test_descriptors_of_other_types_are_reported(kind: str, old: str, new: str) -> None:
    p = problem(of_type(kind), m=128, n=64, k=128)
    kernel = template(p.program).kernel(p, legal(p, narrow(kind)), B200)
    assert outcome(p, edited_kernel(kernel, DESCRIPTORS, old, new)) != "ok"


def test_bytes_are_read_along_k_only() -> None:
    @program(x=Input("m k", "i8"), weights=Input("k n", "i8"), out=Output("m n", "i32"))
    def along_n(p: Builder, x: Array, weights: Array, out: Array) -> None:
        i, j = p.blocks(out.shape, (128, 64))
        left, right = p.window(x, (i, 0), (128, 64)), p.window(weights, (0, j), (64, 64))
        acc = p.state(p.zeros((128, 64), "i32"))
        for _ in p.steps(x.shape[1], 64):
            acc.set(p.mma(p.load(left), p.load(right), acc))
            left.move(0, 64)
            right.move(64, 0)
        p.store(acc, p.window(out, (i, j), (128, 64)))

    p = problem(along_n, m=128, n=64, k=128)
    space = template(p.program).space(p, B200)
    assert not any(str(s.value).startswith("tcgen05") for s in space.strata)
    layouts = {"layout_x": "swizzle(2,4,3)", "layout_weights": "swizzle(2,4,3)"}
    reasons = space.valid.explain(filled(p, narrow("i8") | {"bk": 64} | layouts, B200))
    assert any("must be contiguous along k" in str(reason) for reason in reasons), reasons


def test_i8_is_not_offered_on_gpus_without_it() -> None:
    p = problem(of_type("i8"), m=128, n=64, k=128)
    assert choices_of(p).boxed_instructions(B200) == ("tcgen05_m128k32_i8", "tcgen05_m64k32_i8")
    assert choices_of(p).boxed_instructions(device("b300")) == ()


RING, TENSOR = "autosched/tile/box_ring.cuh", "autosched/tile/tensor.cuh"
FAULTS = ["wait", "full", "column", "dealloc", "phase", "loads", "proxy_fence", "halves", "begun", "empty"]


@pytest.mark.parametrize(
    ("where", "old", "new", "filled_by"),
    representative([
        ("", "tile::wait_phase(barriers + 0u, 0);", "", "warp"),
        (TENSOR, "      while (!ptx::mbarrier_try_wait(stage.full(), stage.parity)) {\n      }\n", "", "warp"),
        ("", "(state1, tensor + 0u", "(state1, tensor + 16u", "warp"),
        ("", "ptx::tcgen05_dealloc<1>(tensor, 64);", "", "warp"),
        ("", "done_parity ^= 1u;", "", "tma"),
        (TENSOR, "  ptx::tcgen05_wait_loads();\n", "", "warp"),
        (RING, "      ptx::fence_async_proxy();  // makes this thread's copies visible to tensor cores\n", "",
         "threads"),
        (TENSOR, "unsigned(i % halves * 16)", "unsigned(0)", "warp"),
        ("", "begun = true;", "", "warp"),
        (TENSOR, "stage.empty());", "done);", "warp"),
    ], "wait", "column", "dealloc", "phase", "loads", ids=FAULTS),
    ids=FAULTS,
)  # fmt: skip
def test_faults_are_reported(where: str, old: str, new: str, filled_by: str) -> None:
    p = of(m=128, n=64, k=384)
    how = gemm(stages=2, filled_by=filled_by, in_flight=int(filled_by == "warp"))
    kernel = template(p.program).kernel(p, legal(p, how), B200)
    assert outcome(p, edited_kernel(kernel, where, old, new)) != "ok"


@pytest.mark.parametrize("filled_by", representative(["warp", "tma", "threads"], "warp"))
def test_every_fence_and_the_permit_are_missed(filled_by: str) -> None:
    """If any tcgen05.fence or relinquish_alloc_permit is removed from the compiled PTX, a fault is reported."""
    p = of(m=128, n=64, k=192)
    values = gemm(stages=2, filled_by=filled_by, in_flight=int(filled_by == "warp"))
    kernel = template(p.program).kernel(p, legal(p, values), B200)
    compiled = compile_to_ptx(kernel.source, kernel.entry, ptx_arch(kernel), kernel.headers)
    assert compiled.text is not None, compiled.log
    launch, inputs = dataclasses.replace(kernel, entry=compiled.entry), p.random_inputs(1)
    lines = compiled.text.splitlines(keepends=True)
    ordering = [i for i, line in enumerate(lines) if re.search(r"tcgen05\.(fence|relinquish)", line)]
    assert len(ordering) == 4  # relinquish_alloc_permit and three fences
    assert emulate_ptx(compiled.text, launch, inputs, time_limit=60.0).status == "ok"
    for missing in ordering:
        text = "".join(line for i, line in enumerate(lines) if i != missing)
        assert emulate_ptx(text, launch, inputs, time_limit=60.0).status == "findings", lines[missing]


def attention(rows: int = 128, **changes: int | str) -> Values:
    operands: Values = {}
    for name, layout in {"q": "swizzle(3,3,3)", "k": "transpose+swizzle(3,3,3)", "v": "swizzle(3,3,3)"}.items():
        operands |= {f"layout_{name}": layout, f"copy_{name}": "cp.async"}
        operands |= {f"vector_{name}": 1, f"copy_columns_{name}": 1}
    return {
        "bm": 128, "bn": 64, "intrinsic": f"tcgen05_m{rows}k16_f16", "home_q": "shared", **operands,
        "subgroups_m_1": 4, "subgroups_n_1": 1, "subgroups_m_2": 4, "subgroups_n_2": 1, "stages": 2,
        "filled_by": "warp", "sum_1": "after_loop", "store_1": "direct", "exchange": "pad(4,1)", "min_blocks": 1,
        "raster": "row",
    } | changes  # fmt: skip


def attends(s: int, head: str = "causal_attention") -> ProgramProblem:
    return of(f"attention.py:{head}", h=2, g=1, s=s, d=64)


@pytest.mark.parametrize("rows", [64, 128])
def test_sampled_schedules_of_attention_are_right(rows: int, nightly: bool) -> None:
    """Attention reads its accumulators after each product, and passes probabilities through shared memory."""
    p = attends(136)
    space = template(p.program).space(p, B200)
    ranks = next(s.ranks for s in space.strata if str(s.value).startswith(f"tcgen05_m{rows}"))
    chosen = [ranks[i] for i in np.random.default_rng(7).integers(len(ranks), size=25 if nightly else 1)]
    for schedule in space.schedules(space.unrank(chosen)):
        assert outcome(p, template(p.program).kernel(p, schedule, B200)) == "ok", schedule


_STORED = "ptx::fence_async_proxy();  // tensor cores read what this thread has stored\n"
_BARRIER = "ptx::barrier_sync(1, 128);  // everybody has stored operands, and has read earlier sums\n"
ATTENTION_FAULTS = {
    "stored_proxy": ("", _STORED, ""),
    "stored_row": (TENSOR, "row + r % 2 * 8,", "row,"),
    "stored_swizzle": (
        TENSOR,
        "tile + A::Boxes::at(row + r % 2 * 8, step",
        "tile + A::Boxes::at(row + r % 2 * 8 ^ 1, step",
    ),
    "barrier": ("", _BARRIER, ""),
    "phase": ("", "parity_2 ^= 1u;", ""),
    "done": ("", "tile::wait_phase(barriers + 56u, parity_2);", ""),
    "fence_after": ("", "ptx::tcgen05_fence_after_sync();", ""),
    "fence_before": ("", "ptx::tcgen05_fence_before_sync();", ""),
    "accumulates": ("", ", tile_v, false);", ", tile_v, true);"),
    "columns": ("", "tensor + 64u, shared", "tensor + 32u, shared"),
    "dealloc": ("", "ptx::tcgen05_dealloc<1>(tensor, 128);", ""),
}


@pytest.mark.parametrize(
    "name",
    representative(ATTENTION_FAULTS, "stored_proxy", "barrier", "accumulates"),
)
def test_faults_of_attention_are_reported(name: str) -> None:
    p, (where, old, new) = attends(192, "full_attention"), ATTENTION_FAULTS[name]
    kernel = template(p.program).kernel(p, legal(p, attention()), B200)
    assert outcome(p, edited_kernel(kernel, where, old, new)) != "ok"


def test_unsupported_programs_have_no_tcgen05_parameters() -> None:
    p = of("decode_attention.py", **DECODE)
    names = {q.name: q.values for q in template(p.program).space(p, B200).parameters}
    assert "filled_by" not in names
    assert not any(str(v).startswith("tcgen05") for v in names["intrinsic"])


@program(a=Input("m k", "f16"), b=Input("k n", "f16"), out=Output("m n", "f32"))
def also_read(p: Builder, a: Array, b: Array, out: Array) -> None:
    """Multiply a loaded tile by an operand, and then the tanh of this tile by the same operand."""
    i, j = p.blocks(out.shape, (64, 64))
    acc = p.state(p.zeros((64, 64)))
    for s in p.steps(a.shape[1], 32):
        left, right = p.load(p.window(a, (i, s), (64, 32))), p.load(p.window(b, (s, j), (32, 64)))
        x = p.mma(left, right, acc * 0.5)
        acc.set(p.tanh(p.mma(p.tanh(left.cast("f32")).cast("f16"), right, x)))
    p.store(acc, p.window(out, (i, j), (64, 64)))


def test_only_computed_operands_are_stored() -> None:
    p = problem(also_read, m=64, n=64, k=64)
    kernel_template = template(p.program)
    schedule = random_start(kernel_template.space(p, B200), 1, {"intrinsic": "tcgen05_m64k16_f16"})
    assert schedule is not None
    kernel = kernel_template.kernel(p, schedule, B200)
    assert kernel.source.count("tile::store_operand<") == 1 and outcome(p, kernel) == "ok"
