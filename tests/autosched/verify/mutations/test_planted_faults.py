"""Typical faults that need more than one edited token: fence order, scopes, stale pipeline stages, narrow types.

Each fault is planted in a correct kernel, and a full verification must report it. `benchmarks/results/mutations.md`
lists the faults with the findings.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from needs import needs_compiler, needs_nvrtc

from autosched.verify.schedules import verify_kernel
from search_spaces.hardware.dtypes import FLOAT_DTYPES, U32
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.launches.operand import Operand
from search_spaces.operators.row_reduction import Reduce

pytestmark = [needs_compiler, needs_nvrtc]

KERNELS = Path(__file__).parents[3] / "measurements" / "emulator" / "kernels"
SPLITS = 3
SPLIT, RING = "split_sum", "ring_sum"
OF_ROWS = Reduce(5, 1003, kind="sum", dtype="f16", out="f32")
OF_COLUMNS = Reduce(43, 192, kind="sum", axis="column", dtype="f16", out="f32")


@dataclass(frozen=True)
class Planted:
    """A planted fault in a kernel.

    ``new`` replaces the only occurrence of ``old`` in ``kernel``. The report must contain ``expected``.
    """

    name: str
    kernel: str
    old: str
    new: str
    expected: str


_PUBLISH = "    __threadfence();  // partial sums must be visible before they are counted\n"
_COUNT = "    last = atomicAdd(&counters[row], 1u) == SPLITS - 1;\n"
_COLLECT = "  __threadfence();  // partial sums are read after all of them were counted\n"
_ISSUE = "    if (t + STAGES - 1 < tiles) load(t + STAGES - 1);\n    commit();\n"
_ARRIVE = "    wait();\n    __syncthreads();\n"

PLANTED = (
    Planted("the fence is after the flag", SPLIT, _PUBLISH + _COUNT, _COUNT + _PUBLISH, "global_race"),
    Planted("the counter is not reset for the next launch", SPLIT, "  counters[row] = 0;\n", "", "workspace_not_zero"),
    Planted("sums are rounded to f16",
            SPLIT, "sum += value(line[i]);", "sum = rounded(sum + value(line[i]));", "wrong_result"),
    Planted("a tile is added without a load", RING, "t < tiles; ++t) {\n    wait", "t < tiles + 1; ++t) {\n    wait",
            "wrong_result"),
    Planted("the fence covers only the block",
            SPLIT, _PUBLISH, _PUBLISH.replace("fence()", "fence_block()"), "global_race"),
    Planted("the reader has no fence", SPLIT, _COLLECT, "", "global_race"),
    Planted("the atomic covers only the block",
            SPLIT, "atomicAdd(&counters", "atomicAdd_block(&counters", "global_race"),
    Planted("the last block is chosen by its index", SPLIT, _COUNT,
            _COUNT.replace("atomicAdd(&counters[row], 1u)", "split"), "global_race"),
    Planted("shuffles do not cross the halves of a warp", SPLIT, "sum, d);", "sum, d, 16);", "wrong_result"),
    Planted("not all lanes reach the shuffles", SPLIT, "  for (int d = 16;",
            "  if (first + threadIdx.x + 256 < end)\n  for (int d = 16;",
            "barrier_not_reached"),
    Planted("partial sums are added to values of the previous launch", SPLIT, "partials[row * SPLITS + split] = ",
            "partials[row * SPLITS + split] += ", "uninitialized_global_read"),
    Planted("sums are added to an output that is not initialised",
            SPLIT, "out[row] = total;", "atomicAdd(&out[row], total);",
            "uninitialized_global_read"),
    Planted("the last split extends into the next row", SPLIT, "end = first + part < COLUMNS ? first + part : COLUMNS",
            "end = first + part", "wrong_result"),
    Planted("vector loads are misaligned if rows have odd lengths", SPLIT, "i += 128) sum += value(line[i]);",
            "i += 128)\n    sum += value(static_cast<unsigned short>("
            "*reinterpret_cast<const unsigned*>(line + i / 2 * 2) >> i % 2 * 16));", "misaligned_access"),
    Planted("there is no barrier after the warps' sums",
            SPLIT, "sums[warp] = sum;\n  __syncthreads();", "sums[warp] = sum;",
            "uninitialized_shared_read"),
    Planted("every thread counts its block", SPLIT, "  if (threadIdx.x == 0) {\n    partials",
            "  if (threadIdx.x % 64 == 0) {\n    partials", "global_race"),
    Planted("a commit only after a load", RING, _ISSUE, _ISSUE.replace(") load(t + STAGES - 1);\n    commit();",
            ") {\n      load(t + STAGES - 1);\n      commit();\n    }"), "async_read_before_wait"),
    Planted("the wait for a copy follows the barrier",
            RING, _ARRIVE, "    __syncthreads();\n    wait();\n", "async_read_before_wait"),
    Planted("a stage is refilled while other threads still read it",
            RING, _ARRIVE + _ISSUE, f"    wait();\n{_ISSUE}    __syncthreads();\n",
            "race"),
    Planted("the last block returns early if tiles divide n", RING, "  if (column0 + threadIdx.x < COLUMNS) out",
            "  if (COLUMNS % WIDTH == 0 && blockIdx.x + 1 == gridDim.x) return;\n"
            "  if (column0 + threadIdx.x < COLUMNS) out", "wrong_result"),
    Planted("elements of the first row are copied for missing rows", RING, "inside ? 16 : 0", "16", "wrong_result"),
    Planted("subnormal halves are zero", RING, "sum += value(ring[t % STAGES][r][threadIdx.x]);",
            "sum += ring[t % STAGES][r][threadIdx.x] & 0x7c00 ? value(ring[t % STAGES][r][threadIdx.x]) : 0.0f;",
            "subnormal"),
    Planted("the row offset is in bytes instead of elements", RING, "x + static_cast<long long>(row) * COLUMNS",
            "x + static_cast<long long>(row) * COLUMNS * 2", "out_of_bounds_global"),
)  # fmt: skip


def kernel_of(name: str, source: str) -> tuple[Reduce, GeneratedKernel]:
    problem = OF_ROWS if name == SPLIT else OF_COLUMNS
    arguments = problem.operands()
    grid, threads = (SPLITS, problem.rows, 1), 128
    if name == SPLIT:
        partials = Operand("partials", "workspace", FLOAT_DTYPES["f32"], (problem.rows * SPLITS,))
        arguments = (*arguments, partials, Operand("counters", "workspace", U32, (problem.rows,), zeroed=True))
    else:
        grid, threads = (-(-problem.columns // 64), 1, 1), 64
    sizes = {"ROWS": problem.rows, "COLUMNS": problem.columns, "SPLITS": SPLITS}
    head = "".join(f"#define {macro} {value}\n" for macro, value in sizes.items())
    return problem, GeneratedKernel(
        entry=name, source=head + source, arguments=arguments, grid=grid, block=(threads, 1, 1)
    )


def verified(name: str, source: str) -> str:
    problem, kernel = kernel_of(name, source)
    *_, last = verify_kernel(problem, kernel, seed=1, time_limit=30, depth="full")
    return "" if last.status == "ok" else f"{last.status}: {last.reason}"


@pytest.mark.parametrize("name", [SPLIT, RING])
def test_the_kernels_are_right(name: str) -> None:
    assert verified(name, (KERNELS / f"{name}.cu").read_text()) == ""


def check_found(planted: Planted) -> None:
    source = (KERNELS / f"{planted.kernel}.cu").read_text()
    assert source.count(planted.old) == 1
    assert planted.expected in verified(planted.kernel, source.replace(planted.old, planted.new))


@pytest.mark.parametrize("planted", PLANTED[:4], ids=lambda p: p.name)
def test_a_planted_fault_is_reported(planted: Planted) -> None:
    check_found(planted)


@pytest.mark.nightly
@pytest.mark.parametrize("planted", PLANTED[4:], ids=lambda p: p.name)
def test_every_planted_fault_is_reported(planted: Planted) -> None:
    check_found(planted)
