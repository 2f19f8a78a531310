"""Tile programs and schedules that multiply with wgmma."""

from __future__ import annotations

from pathlib import Path

from program_schedules import Values, filled

from autosched.programs.loading import load_program
from search_spaces.hardware.devices import device
from search_spaces.programs.builder import Builder, Input, Output, Program, program
from search_spaces.programs.language.ir import Array
from search_spaces.programs.problem import ProgramProblem
from search_spaces.programs.template import template
from search_spaces.spaces.schedule import Schedule

EXAMPLES = Path(__file__).parents[2] / "examples" / "programs"
H100 = device("h100")
GEMM, ATTENTION, CAUSAL = "gemm_relu.py", "attention.py:full_attention", "attention.py:causal_attention"


@program(
    at=Input("k m", "bf16"), bt=Input("n k", "bf16"), bias=Input("n", "f32"), out=Output("m n", "f32"),
)  # fmt: skip
def stored_transposed(p: Builder, at: Array, bt: Array, bias: Array, out: Array) -> None:
    """Multiply a by b, and add the bias. In memory, a is contiguous along m, and b along k."""
    m, n, k = at.shape[1], bt.shape[0], at.shape[0]
    i, j = p.blocks((m, n), (128, 64))
    x, y = p.window(at, (0, i), (32, 128)), p.window(bt, (j, 0), (64, 32))
    acc = p.state(p.zeros((128, 64)))
    for _ in p.steps(k, 32):
        acc.set(p.mma(p.transpose(p.load(x)), p.transpose(p.load(y)), acc))
        x.move(32, 0)
        y.move(0, 32)
    p.store(acc + p.load(p.window(bias, (0, j), (1, 64))), p.window(out, (i, j), (128, 64)))


@program(x=Input("m k", "f16"), w=Input("k n", "f16"), out=Output("m n", "f32"))
def scaled_rows(p: Builder, x: Array, w: Array, out: Array) -> None:
    """Multiply a function of the loaded x by w, so that wgmma takes its left operand from registers."""
    i, j = p.blocks(out.shape, (64, 64))
    rows, columns = p.window(x, (i, 0), (64, 64)), p.window(w, (0, j), (64, 64))
    acc = p.state(p.zeros((64, 64)))
    for _ in p.steps(x.shape[1], 64):
        acc.set(p.mma((p.load(rows).cast("f32") * 0.5).cast("f16"), p.load(columns), acc))
        rows.move(0, 64)
        columns.move(64, 0)
    p.store(acc, p.window(out, (i, j), (64, 64)))


def boxes(name: str, layout: str) -> Values:
    return {f"layout_{name}": layout, f"copy_{name}": "cp.async", f"vector_{name}": 1, f"copy_columns_{name}": 1}


def gemm(kind: str = "f16", stages: int = 3, **changes: int | str) -> Values:
    return {
        "bm": 128, "bn": 64, "bk": 64, "intrinsic": f"wgmma_m64k16_{kind}", "subgroups_m": 4, "subgroups_n": 1,
        **boxes("a", "swizzle(3,3,3)"), **boxes("b", "swizzle(3,3,3)"), "stages": stages, "filled_by": "warp",
        "in_flight": 0, "split_k": 1, "store_1": "direct", "exchange": "pad(4,1)", "min_blocks": 1, "raster": "row",
    } | changes  # fmt: skip


def attention(kind: str = "f16", **changes: int | str) -> Values:
    return {
        "bm": 128, "bn": 64, "intrinsic": f"wgmma_m64k16_{kind}", "subgroups_m_1": 4, "subgroups_n_1": 1,
        "subgroups_m_2": 4,
        "subgroups_n_2": 1, "home_q": "shared", **boxes("q", "swizzle(3,3,3)"), **boxes("k",
        "transpose+swizzle(3,3,3)"),
        **boxes("v", "swizzle(3,3,3)"), "stages": 2, "filled_by": "warp", "sum_1": "after_loop", "store_1": "direct",
        "exchange": "pad(4,1)", "min_blocks": 1, "raster": "row",
    } | changes  # fmt: skip


def program_at(source: str | Program) -> Program:
    return load_program(str(EXAMPLES / source)) if isinstance(source, str) else source


def legal(p: ProgramProblem, values: Values) -> Schedule:
    """Return the schedule of ``values``, and check that it breaks no rule of the space."""
    schedule = filled(p, values, H100)
    assert template(p.program).space(p, H100).valid.explain(schedule) == []
    return schedule
