"""Planted faults that problems of a few tiles do not expose.

They are in long loops, in the order of many tiles, and in addresses beyond 32 bits.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

import pytest
from header_edits import edited
from mutation_testing import GOLDEN

from autosched.verify.large_runs import stress_runs
from autosched.verify.runs import VerifySettings
from autosched.verify.stress_sizes import stress_sizes
from search_spaces.catalogue import problem_from_json, template
from search_spaces.hardware.devices import Device, device
from search_spaces.launches.headers import Headers, include_dir
from search_spaces.operators.problem import Problem
from search_spaces.spaces.schedule import Schedule

MATMUL, ROWS, TRANSPOSE = "kernels/matmul.cuh", "kernels/row_reduction.cuh", "kernels/transpose.cuh"
WGMMA, WGMMA_MATMUL = "wgmma/f16_split_columns", "kernels/wgmma_matmul.cuh"
MMA, SOFTMAX, COLUMNS = "mma_f16_pipelined", "softmax_f16_registers", "reduce_bf16_columns"
MATRICES = "mma_tf32_split"
MATVEC, COPY, TRANSPOSED = "matvec_f16_odd", "copy_u8_tail", "transpose_u8_pipelined"


@dataclass(frozen=True)
class Planted:
    """A planted fault.

    ``new`` replaces ``old`` in ``header``. The emulator must report the fault when golden case ``case`` runs at stress
    size ``size``.
    """

    name: str
    case: str
    size: str
    header: str
    old: str
    new: str


FIRST = (
    Planted("32-bit rows of a copy", COPY, "far rows", "kernels/copy.cuh", "return index * round + int",
            "return int(index * round) + int"),
    Planted("32-bit rows of softmax", SOFTMAX, "far rows", ROWS,
            "static_cast<long long>(parallel_index(b)) * C::length", "parallel_index(b) * C::length"),
    Planted("32-bit rows of w", MATVEC, "far rows", "kernels/matvec.cuh", "static __forceinline__ long long row_of_w",
            "static __forceinline__ int row_of_w"),
    Planted("a reduction ends after 64 steps", "reduce_f16_argmax", "long rows", ROWS,
            "for (int s = 0; s < count; ++s) {", "for (int s = 0; s < count && s < 64; ++s) {"),
)  # fmt: skip
REST = (
    Planted("32-bit rows of out", MMA, "far rows", MATMUL,
            "out + static_cast<long long>(row0) * C::n", "out + row0 * C::n"),
    Planted("32-bit rows of a tile copy", MMA, "far rows", "common/tile_copy.cuh",
            "static_cast<long long>(major_origin + major) * pitch()", "(major_origin + major) * pitch()"),
    Planted("32-bit columns of a tile copy", MMA, "far columns", "common/tile_copy.cuh",
            "static_cast<long long>(major_origin + major) * pitch()", "(major_origin + major) * pitch()"),
    Planted("32-bit batches of a", MATRICES, "far matrices", MATMUL, "static_cast<long long>(work.batch) * C::m * C::k",
            "work.batch * C::m * C::k"),
    Planted("32-bit batches of out", MATRICES, "far matrices", MATMUL,
            "out += static_cast<long long>(batch) * C::m * C::n", "out += batch * C::m * C::n"),
    Planted("32-bit columns of a column reduction", COLUMNS, "far columns", ROWS,
            "static_cast<long long>(at) * C::inner", "at * C::inner"),
    Planted("32-bit rows of a transpose", TRANSPOSED, "far columns", TRANSPOSE,
            "tile.out + static_cast<long long>(tile.n + column + first * store_rows) * C::rows",
            "tile.out + (tile.n + column + first * store_rows) * int(C::rows)"),
    Planted("32-bit matrices of a transpose", TRANSPOSED, "far matrices", TRANSPOSE, "id / per_matrix * matrix",
            "id / per_matrix * int(matrix)"),
    Planted("a product ends after 64 steps", MMA, "long k", MATMUL,
            "(int left = tiles; left > 0; --left) {\n      const Words next = scales.take();\n      Loader",
            "(int left = tiles > 64 ? 64 : tiles; left > 0; --left) {\n      auto next = scales.take();\n      Loader"),
    Planted("a matvec ends after 64 steps", "matvec_f16_split", "long k", "kernels/matvec.cuh",
            "first + C::tiles_of_split : C::tiles_k;", "first + C::tiles_of_split : C::tiles_k % 64;"),
    Planted("32-bit rows of wgmma's out", WGMMA, "far rows", WGMMA_MATMUL,
            ": out + (static_cast<long long>(work.batch) * C::m + row0) * C::n + col0;",
            ": out + ((work.batch * C::m + row0) * C::n + col0);"),
    Planted("a wgmma ends after 64 steps", WGMMA, "long k", WGMMA_MATMUL,
            "tiles = C::tiles_k - first < C::tiles_of_split",
            "tiles = C::tiles_k > 64 ? 64 : C::tiles_k - first < C::tiles_of_split"),
    Planted("two matrices alternate", WGMMA, "far matrices", WGMMA_MATMUL,
            "batch = id / (of_matrix * C::split_k);", "batch = id / (of_matrix * C::split_k) % 2;"),
    Planted("an order of 16 rows of tiles", MMA, "many rows of tiles", "common/raster.cuh",
            "first + (inside & ((1 << launch.order) - 1)),", "(first + (inside & ((1 << launch.order) - 1))) % 16,"),
)  # fmt: skip

SIZES = tuple({(p.case, p.size): p for p in (*FIRST, *REST)}.values())


def golden(case: str) -> tuple[Problem, Schedule, Device]:
    data = json.loads((GOLDEN / f"{case}.json").read_text())
    schedule = Schedule.from_json(data["template"], data["schedule"])
    return problem_from_json(data["problem"]), schedule, device(data["device"])


def with_fault(planted: Planted) -> Headers:
    return edited(Headers.from_folder(include_dir()), f"autosched/{planted.header}", planted.old, planted.new)


def status_of(planted: Planted, broken: bool = True) -> str:
    """Return the status of the golden case's run at one stress size, with or without the fault."""
    problem, schedule, where = golden(planted.case)
    kernel_template = template(schedule.template)
    if broken:
        headers = with_fault(planted)
        lower = kernel_template.lower
        kernel_template = replace(kernel_template, lower=lambda p, c, d: replace(lower(p, c, d), headers=headers))
    runs = stress_runs(kernel_template, problem, schedule, where, VerifySettings("full"))
    run = next(run for run in runs if run.name == planted.size)
    assert run.make is not None, run.absent
    return run.make().status


@pytest.mark.parametrize("planted", [*FIRST, *REST], ids=lambda p: p.name)
def test_each_planted_fault_has_an_existing_line_and_size(planted: Planted) -> None:
    problem, schedule, _ = golden(planted.case)
    assert planted.size in {size.name for size in stress_sizes(problem, schedule)}
    with_fault(planted)


@pytest.mark.parametrize("planted", FIRST, ids=lambda p: p.name)
def test_a_fault_of_large_sizes_is_reported(planted: Planted) -> None:
    assert status_of(planted) in ("wrong_result", "findings")


@pytest.mark.nightly
@pytest.mark.parametrize("planted", REST, ids=lambda p: p.name)
def test_another_fault_of_large_sizes_is_reported(planted: Planted) -> None:
    assert status_of(planted) in ("wrong_result", "findings")


@pytest.mark.nightly
@pytest.mark.parametrize("planted", SIZES, ids=lambda p: f"{p.case} {p.size}")
def test_right_kernels_are_clean_at_these_sizes(planted: Planted) -> None:
    assert status_of(planted, broken=False) == "ok"


def test_every_size_keeps_the_remainders_of_powers_of_two() -> None:
    for path in sorted(GOLDEN.glob("*.json")):
        data = json.loads(path.read_text())
        problem = problem_from_json(data["problem"])
        schedule = Schedule.from_json(data["template"], data["schedule"])
        names = [size.name for size in stress_sizes(problem, schedule)]
        assert names and len(set(names)) == len(names), path.stem
