"""tcgen05 as a way of tile programs: verified in the emulator, and planted faults of tensor memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cases import representative, spread
from edited_kernel import edited_kernel
from program_outcome import outcome
from program_schedules import Values, filled

from autosched.programs.loading import load_program, problem
from search_spaces.hardware.devices import device
from search_spaces.programs.problem import ProgramProblem
from search_spaces.programs.template import template
from search_spaces.spaces.schedule import Schedule

EXAMPLES = Path(__file__).parents[4] / "examples" / "programs"
B200 = device("b200")
SIZES = {"m": 136, "n": 72, "k": 200}


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
    """Return the schedule of ``values``, which no rule of the space forbids."""
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


@pytest.mark.parametrize("rows", [64, 128])
def test_sampled_schedules_are_right(rows: int, nightly: bool) -> None:
    p = of(**SIZES)
    space = template(p.program).space(p, B200)
    ranks = next(s.ranks for s in space.strata if str(s.value).startswith(f"tcgen05_m{rows}"))
    chosen = [ranks[i] for i in np.random.default_rng(5).integers(len(ranks), size=25 if nightly else 2)]
    for schedule in space.schedules(space.unrank(chosen)):
        assert outcome(p, template(p.program).kernel(p, schedule, B200)) == "ok", schedule


RING, TENSOR = "autosched/tile/box_ring.cuh", "autosched/tile/tensor.cuh"
FAULTS = ["wait", "full", "column", "dealloc", "phase", "loads", "proxy_fence", "halves", "begun", "empty"]


@pytest.mark.parametrize(
    ("where", "old", "new", "filled_by"),
    representative([
        ("", "tile::wait_phase(barriers + 0u, 0);", "", "warp"),
        (TENSOR, "      while (!ptx::mbarrier_try_wait(place.full(), place.parity)) {\n      }\n", "", "warp"),
        ("", "(state1, tensor + 0u", "(state1, tensor + 16u", "warp"),
        ("", "ptx::tcgen05_dealloc<1>(tensor, 64);", "", "warp"),
        ("", "done_parity ^= 1u;", "", "tma"),
        (TENSOR, "  ptx::tcgen05_wait_loads();\n", "", "warp"),
        (RING, "      ptx::fence_async_proxy();  // wgmma reads what this thread has copied\n", "",
         "threads"),
        (TENSOR, "unsigned(i % halves * 16)", "unsigned(0)", "warp"),
        ("", "begun = true;", "", "warp"),
        (TENSOR, "place.empty());", "done);", "warp"),
    ], "wait", "column", "dealloc", "phase", "loads", ids=FAULTS),
    ids=FAULTS,
)  # fmt: skip
def test_faults_are_reported(where: str, old: str, new: str, filled_by: str) -> None:
    p = of(m=128, n=64, k=384)
    how = gemm(stages=2, filled_by=filled_by, in_flight=int(filled_by == "warp"))
    kernel = template(p.program).kernel(p, legal(p, how), B200)
    assert outcome(p, edited_kernel(kernel, where, old, new)) != "ok"


def test_what_tcgen05_does_not_serve_is_spared_its_choices() -> None:
    p = of("attention.py:full_attention", h=1, g=1, s=128, d=64)
    names = {q.name: q.values for q in template(p.program).space(p, B200).parameters}
    assert "filled_by" not in names
    assert not any(str(v).startswith("tcgen05") for v in names["intrinsic"])
