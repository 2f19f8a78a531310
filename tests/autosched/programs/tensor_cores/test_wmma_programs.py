"""Tile programs that multiply with wmma: emulation, reasons for rejections, and machine code for sm_80."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from compiling import shared_pool
from program_schedules import Values, filled, operand

from autosched.programs.loading import load_program, problem
from measurements.compiler.disassembly import DisassemblerMissing, disassemble, main_loop, mix, nvdisasm
from measurements.compiler.pool import CompileFailure
from measurements.emulator import emulate
from search_spaces.hardware.devices import device
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.launches.headers import Headers
from search_spaces.layouts.wg_map import WgMap
from search_spaces.operators.matmul import Matmul
from search_spaces.programs.builder import Builder, Input, Output, Program, program
from search_spaces.programs.language.ir import Array
from search_spaces.programs.problem import ProgramProblem
from search_spaces.programs.schedules import describe
from search_spaces.programs.schedules.counts import counts
from search_spaces.programs.template import template
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.matmul.template import MATMUL

EXAMPLES = Path(__file__).parents[4] / "examples" / "programs"
A100 = device("a100")
F16, BF16, TF32 = "wmma_m16n16k16_f16", "wmma_m16n16k16_bf16", "wmma_m16n16k8_tf32"


@program(x=Input("m k", "f32"), w=Input("k n", "f32"), out=Output("m n", "f32"))
def row_major_tf32(p: Builder, x: Array, w: Array, out: Array) -> None:
    """Multiply by a row-major w. The fragments of w need a transpose, which ldmatrix lacks for 32-bit elements."""
    bm, bn = p.choose(bm=(64, 128), bn=(32, 64))  # type: ignore[misc]
    i, j = p.blocks(out.shape, (bm, bn))
    rows, columns = p.window(x, (i, 0), (bm, 32)), p.window(w, (0, j), (32, bn))
    acc = p.state(p.full((bm, bn), 0.5))
    for _ in p.steps(x.shape[1], 32):
        acc.set(p.mma(p.load(rows), p.load(columns), acc, tf32=True))
        rows.move(0, 32)
        columns.move(32, 0)
    p.store(acc, p.window(out, (i, j), (bm, bn)))


@program(q=Input("m d", "bf16"), keys=Input("n d", "bf16"), out=Output("m", "f32"))
def largest_score(p: Builder, q: Array, keys: Array, out: Array) -> None:
    """Reduce a product in each iteration, so that its fragments are read inside the loop."""
    (m, d), n = q.shape, keys.shape[0]
    (i,) = p.blocks((m,), (64,))
    query, window = p.load(p.window(q, (i, 0), (64, d))), p.window(keys, (0, 0), (32, d))
    top = p.state(p.full((64, 1), -np.inf))
    for at in p.steps(n, 32):
        scores = p.mma(query, p.transpose(p.load(window)))
        valid_scores = p.where(p.columns(at, 32) < n, scores, -np.inf)
        top.set(p.maximum(top, p.reduction("maximumf", valid_scores, dim=1)))
        window.move(32, 0)
    p.store(top, p.window(out, (i, 0), (64, 1), column=True))


@program(a=Input("m k", "f16"), b=Input("k n", "f16"), out=Output("m n", "f32"))
def mapped(p: Builder, a: Array, b: Array, out: Array) -> None:
    """Multiply with a given wg_map, in which a warp has two separate sub-tiles along each axis."""
    i, j = p.blocks(out.shape, (64, 64))
    x, y = p.window(a, (i, 0), (64, 32)), p.window(b, (0, j), (32, 64))
    acc = p.state(p.zeros((64, 64)))
    for _ in p.steps(a.shape[1], 32):
        acc.set(p.mma(p.load(x), p.load(y), acc, map=WgMap((2, 2), (16, 16))))
        x.move(0, 32)
        y.move(32, 0)
    p.store(acc, p.window(out, (i, j), (64, 64)))


@program(a=Input("m k", "f16"), b=Input("k n", "f16"), c=Input("m n", "f32"), out=Output("m n", "f32"))
def on_top(p: Builder, a: Array, b: Array, c: Array, out: Array) -> None:
    """Initialise the accumulators with a loaded tile."""
    i, j = p.blocks(out.shape, (64, 64))
    x, y = p.window(a, (i, 0), (64, 32)), p.window(b, (0, j), (32, 64))
    acc = p.state(p.load(p.window(c, (i, j), (64, 64))))
    for _ in p.steps(a.shape[1], 32):
        acc.set(p.mma(p.load(x), p.load(y), acc))
        x.move(0, 32)
        y.move(32, 0)
    p.store(acc, p.window(out, (i, j), (64, 64)))


@program(a=Input("m k", "f16"), b=Input("k n", "f16"), out=Output("m n", "f32"))
def twice(p: Builder, a: Array, b: Array, out: Array) -> None:
    """Accumulate in one loop and continue in a second loop."""
    i, j = p.blocks(out.shape, (64, 64))
    acc = p.state(p.zeros((64, 64)))
    for _ in range(2):
        x, y = p.window(a, (i, 0), (64, 32)), p.window(b, (0, j), (32, 64))
        for _ in p.steps(a.shape[1], 32):
            acc.set(p.mma(p.load(x), p.load(y), acc))
            x.move(0, 32)
            y.move(32, 0)
    p.store(acc, p.window(out, (i, j), (64, 64)))


def gemm(**changes: int | str) -> Values:
    return {
        "bm": 128, "bn": 64, "bk": 32, "intrinsic": F16, "subgroups_m": 4, "subgroups_n": 2, **operand("a",
        "pad(8,1)", 4),
        **operand("b", "pad(8,1)", 8), "stages": 3, "split_k": 1, "tail": "masked", "store_1": "direct",
        "exchange": "pad(4,1)", "min_blocks": 1, "raster": "row",
    } | changes  # fmt: skip


def program_at(source: str | Program) -> Program:
    return load_program(str(EXAMPLES / source)) if isinstance(source, str) else source


def check(p: ProgramProblem, kernel: GeneratedKernel) -> None:
    inputs = p.random_inputs(1)
    run = emulate(kernel, inputs, time_limit=60.0)
    assert run.status == "ok", run.reason
    expected, bounds = p.expected(inputs)
    types = {o.name: o.dtype for o in p.operands()}
    for name, values in expected.items():
        assert np.all(np.abs(types[name].load(run.outputs[name]) - values) <= bounds[name]), name


@pytest.mark.parametrize(
    ("source", "sizes", "values"),
    [
        ("gemm_relu.py", {"m": 136, "n": 72, "k": 200}, gemm()),
        ("gemm_relu.py", {"m": 136, "n": 72, "k": 200}, gemm(split_k=2, stages=1)),
        ("gemm_relu.py", {"m": 136, "n": 72, "k": 200}, gemm(tail="peeled", store_1="turned", subgroups_m=8,
        subgroups_n=1)),
        (
            row_major_tf32, {"m": 70, "n": 40, "k": 72},
            gemm(bm=64, bn=32, intrinsic=TF32, split_k=2)
            | operand("x", "pad(4,1)", 8, 4) | operand("w", "pad(4,1)", 8, 4),
        ),
        (
            largest_score, {"m": 70, "n": 80, "d": 64},
            gemm(intrinsic=BF16, subgroups_m=2, subgroups_n=1, home_q="shared", width_1=1, lanes_1=1)
            | operand("q", "identity", 8) | operand("keys", "transpose+pad(8,1)", 8),
        ),
        (mapped, {"m": 70, "n": 72, "k": 72}, gemm(**operand("b", "pad(8,1)", 8))),
    ],
    ids=lambda value: value.name if isinstance(value, Program) else None,
)  # fmt: skip
def test_schedules_are_right(source: str | Program, sizes: dict[str, int], values: Values) -> None:
    p = problem(program_at(source), **sizes)
    schedule = filled(p, values, A100)
    assert template(p.program).space(p, A100).valid.explain(schedule) == []
    assert describe.values(p, schedule.values)
    check(p, template(p.program).kernel(p, schedule, A100))


@pytest.mark.parametrize("seed", range(3))
def test_sampled_schedules_are_right(seed: int) -> None:
    """Multiply f32 operands as tf32. As one operand is row-major, wmma is the only usable tensor-core instruction."""
    p = problem(row_major_tf32, m=70, n=40, k=72)
    space = template(p.program).space(p, A100)
    ranks = next(s.ranks for s in space.strata if s.value == TF32)
    assert not [s for s in space.strata if s.value == "mma_m16n8k8_tf32" and len(s.ranks)]
    (schedule,) = space.schedules(space.unrank([ranks[len(ranks) * (seed + 1) // 4]]))
    check(p, template(p.program).kernel(p, schedule, A100))


@pytest.mark.parametrize(
    ("source", "sizes", "reason"),
    [
        ("attention.py:full_attention", {"h": 1, "g": 1, "s": 128, "d": 64}, "a of the mma at"),
        (on_top, {"m": 64, "n": 64, "k": 64}, "adds to another value"),
        (twice, {"m": 64, "n": 64, "k": 64}, "adds to another value"),
    ],
    ids=lambda value: value.name if isinstance(value, Program) else None,
)
def test_unsupported_fragment_uses_are_rejected(source: str | Program, sizes: dict[str, int], reason: str) -> None:
    p = problem(program_at(source), **sizes)
    valid = template(p.program).space(p, A100).valid
    violations = valid.explain(
        Schedule.from_json(p.program.name, dict(valid.sample(1, 1)[0].values) | {"intrinsic": F16})
    )
    assert any(reason in str(t) for t in violations), violations
    assert not [s for s in valid.sample(50, 2) if s.text("intrinsic") == F16]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    I::store_c(scratch, *reinterpret_cast<const typename I::FragmentC*>(x), unsigned(stride));\n", ""),
        ("    ptx::warp_sync();\n#pragma", "#pragma"),
        ("    ptx::warp_sync();  // all lanes have read the fragment before the next one overwrites it\n", ""),
        ("half % 2 * 8", "half % 2 * 4"),
    ],
)
def test_planted_faults_are_reported(old: str, new: str) -> None:
    p = problem(program_at("gemm_relu.py"), m=128, n=64, k=96)
    kernel = template(p.program).kernel(p, filled(p, gemm(), A100), A100)
    header, texts = "autosched/tile/opaque.cuh", dict(kernel.headers.files)
    assert old in texts[header]
    changed = replace(kernel, headers=Headers.of({**texts, header: texts[header].replace(old, new)}))
    with pytest.raises(AssertionError):
        check(p, changed)


def test_wmma_is_pruned_in_favour_of_mma_sync() -> None:
    p = problem(program_at("gemm_relu.py"), m=256, n=256, k=256)
    space = template(p.program).space(p, A100)
    assert {s.text("intrinsic") for s in space.valid.sample(200, 1)} == {F16, "mma_m16n8k16_f16"}
    assert {s.text("intrinsic") for s in space.sample(200, 1)} == {"mma_m16n8k16_f16"}


def test_counts_have_the_way_through_shared_memory() -> None:
    p = problem(program_at("gemm_relu.py"), m=4096, n=4096, k=4096)
    space = template(p.program).space(p, A100)
    names = F16, "mma_m16n8k16_f16"
    by_wmma, by_mma = (counts(p, space.config(filled(p, gemm(intrinsic=name), A100)), A100) for name in names)
    assert (by_wmma.unit, by_mma.unit) == ("wmma", "mma")
    assert by_wmma.shared_wavefronts >= by_mma.shared_wavefronts + 128 * 64 * 4 * 2 / 128


def test_the_main_loop_is_as_short_as_the_templates() -> None:
    """Compare tile programs' main loops with the matmul template's, for 128x128x32 tiles, 8 warps and 3 stages."""
    try:
        nvdisasm()
    except DisassemblerMissing as missing:
        pytest.skip(str(missing))
    size, tiles = 4096, {"bm": 128, "bn": 128, "subgroups_m": 2, "subgroups_n": 4}
    common = operand("a", "pad(8,1)", 4) | operand("b", "pad(8,1)", 16)
    common |= {"intrinsic": F16, "stages": 3, "min_blocks": 1, "raster": "row"}
    template_schedule = Schedule.from_json(
        "matmul",
        {
            "tile_m": 128, "tile_n": 128, "tile_k": 32, "subgroups_m": 2, "subgroups_n": 4, "sg_data_m": 64,
            "sg_data_n": 32, "unroll": 2, "fragment_buffers": 1, "epilogue": "shared", "split_k": 1, "stream_k": 0,
            "batch_mapping": "outer", **common,
        },
    )  # fmt: skip
    p = problem(program_at("gemm_relu.py"), m=size, n=size, k=size)
    hand = Matmul(m=size, n=size, k=size, a="f16", out="f16", epilogue="bias+relu")
    kernels = (
        template(p.program).kernel(p, filled(p, gemm(**tiles, **common), A100), A100),
        MATMUL.kernel(hand, template_schedule, A100),
    )
    loops = []
    for kernel in kernels:
        result = shared_pool().compile(kernel, A100.arch)
        assert not isinstance(result, CompileFailure), result.reason
        loops.append((result.resources.registers, mix(main_loop(disassemble(result.cubin, result.entry)))))
    (registers, program_mix), (their_registers, their) = loops
    for kind in ("tensor", "shared", "load"):
        assert dict(program_mix.kinds).get(kind, 0) == dict(their.kinds).get(kind, 0), (program_mix, their)
    assert program_mix.instructions <= 1.05 * their.instructions, (program_mix, their)
    assert registers <= their_registers
