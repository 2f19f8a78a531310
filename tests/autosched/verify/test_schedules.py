"""Verdicts on schedules. The counts of emulator, layout algebra and cost model agree."""

from __future__ import annotations

import json
import os
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from kernels import generate
from needs import needs_compiler, needs_nvrtc
from wgmma_cases import GOOD, SMALL

from autosched.verify.emulated_size import EMULATED_FLOPS
from autosched.verify.large_runs import at_true_size
from autosched.verify.sampled_blocks import QUICK_SHARE, sampled_blocks, sampled_flops, verify_blocks, why_not_sampled
from autosched.verify.schedule_runs import emulated_problem
from autosched.verify.schedules import verify, verify_one
from autosched.verify.stored import summary as verification_line
from measurements.emulator import emulate
from search_spaces.catalogue import template, templates_for
from search_spaces.hardware.costs.bank_conflicts import fragment_traffic
from search_spaces.hardware.devices import device
from search_spaces.hardware.intrinsics import intrinsic
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.launches.headers import Headers
from search_spaces.operators.copy import Copy
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.problem import Problem
from search_spaces.operators.row_reduction import Softmax
from search_spaces.operators.transpose import Transpose
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.matmul.lowering import SIDES, copy
from search_spaces.templates.matmul.space import space
from search_spaces.templates.matmul.template import MATMUL
from search_spaces.templates.template import TemplateSet

H200 = device("h200")


def test_a_sample_of_odd_schedules_passes() -> None:
    problem = Matmul(67, 45, 53, batch=2, order_a="col", epilogue="bias+silu")
    schedules = space(problem, H200).sample(4, seed=11)
    results = list(verify(TemplateSet([MATMUL]), problem, schedules, H200, workers=2))
    assert [r.schedule for r in results] == schedules
    for result in results:
        assert result.ok and result.status == "ok" and not result.findings, result.reason
        assert result.problem == problem
        assert result.worst is not None and 0 < result.worst <= 1
        assert result.max_abs_error is not None and result.max_abs_error < 0.1
        assert result.seconds > 0


def test_a_verification_is_json_that_names_every_run() -> None:
    problem = Matmul(20, 24, 40, order_a="col")
    (schedule,) = space(problem, H200).sample(1, seed=3)
    verification = json.loads(json.dumps(verify_one(MATMUL, problem, schedule, H200, seed=5).stored()))
    assert verification["status"] == "ok" and len(verification["emulator"]) == 64
    of_name = {run["name"]: run for run in verification["runs"]}
    first, edge = of_name["random inputs"], of_name["edge inputs"]
    assert first == verification["runs"][0]
    assert (first["cases"], first["order"], first["turns"]) == (["random"], "ascending", 0)
    assert {"integers", "nan"} <= set(edge["cases"]) and (edge["order"], edge["seed"]) == ("random", 5)
    assert first["problem"] == problem.to_json() and edge["blocks"] is None
    again = [run for run in verification["runs"] if run["name"] == "other random inputs"]
    assert {run["seed"] for run in again} == {6, 7, 8} and {run["order"] for run in again} == {"random"}
    line = verification_line(json.dumps(verification))
    assert (
        line.startswith(f"ok in {len(verification['runs'])} emulated runs: random, integers")
        and "blocks ascending, " in line
    )
    assert verification_line('{"runs": 3}') == verification_line('{"some": "other"}') == "unknown format, see --json"


def test_a_large_problem_is_cut() -> None:
    problem = Matmul(4096, 4096, 4096)
    (schedule,) = space(problem, H200).sample(1, seed=3)
    small = emulated_problem(MATMUL, problem, schedule)
    assert small.flops < problem.flops / 100
    assert emulated_problem(MATMUL, Matmul(64, 64, 64), schedule) == Matmul(64, 64, 64)
    assert Matmul(256, 256, 256).flops <= EMULATED_FLOPS
    assert verify_one(MATMUL, problem, schedule, H200).ok


def test_a_template_without_a_proxy_is_emulated_whole() -> None:
    problem = Matmul(4096, 4096, 4096)
    (schedule,) = space(problem, H200).sample(1, seed=3)
    assert emulated_problem(replace(MATMUL, proxy=None), problem, schedule) is problem


def test_a_schedule_that_breaks_a_constraint_is_rejected() -> None:
    problem = Matmul(64, 64, 64)
    schedule = next(s for s in space(problem, H200).sample(100, seed=3) if dict(s.items)["tile_m"] == 64)
    with pytest.raises(ValueError, match="wg_map_m"):
        verify_one(MATMUL, problem, schedule.replace(sg_data_m=96), H200)


def test_an_outdated_schedule_of_a_large_problem_is_rejected() -> None:
    problem = Matmul(4096, 4096, 4096)
    (schedule,) = space(problem, H200).sample(1, seed=3)
    older = Schedule("matmul", tuple((name, value) for name, value in schedule.items if name != "tile_m"))
    with pytest.raises(ValueError, match="lacks tile_m"):
        verify_one(MATMUL, problem, older, H200)


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32"])
def test_emulated_wavefronts_equal_the_prediction_of_the_layouts(dtype: str, nightly: bool) -> None:
    """Compare the numbers of wavefronts, summed over all fragment loads and over all copies to shared memory.

    The sizes are multiples of every tile, so that no lane is idle.
    """
    problem = Matmul(768, 768, 6144, a=dtype, b=dtype, out="f32")
    tried = 0
    for schedule in space(problem, H200).sample(60, seed=2):
        small = emulated_problem(MATMUL, problem, schedule)
        config = MATMUL.config(small, schedule, H200)
        tiles_k, split_k, blocks = config.integers("tiles_k", "split_k", "blocks")
        if tiles_k % split_k or small.flops > EMULATED_FLOPS:
            continue
        tried += 1
        steps = tiles_k // split_k * blocks
        copies = {side: copy(small, config, side) for side in SIDES}
        row, element = intrinsic(config.text("intrinsic")), problem.input_dtype.bytes
        readers = {"a": config.integer("subgroups_n"), "b": config.integer("subgroups_m")}
        reads = sum(
            fragment_traffic(row, side, copies[side].layout, element).wavefronts * readers[side] for side in SIDES
        )
        writes = sum(moved.stores.wavefronts for moved in copies.values())

        run = emulate(generate(small, schedule, H200), small.random_inputs(2))
        assert run.ok, run.reason
        counted = {"intrinsics": 0, "common": 0}
        for site in run.shared_sites:
            path = Path(site.file)
            if site.instruction == "wmma.store.d":
                continue  # stores of the epilogue are not predicted
            if path.parent.name == "intrinsics" or path.name == "tile_copy.cuh":
                counted[path.parent.name] += site.wavefronts
        assert counted == {"intrinsics": reads * steps, "common": writes * steps}, schedule
        if tried == (6 if nightly else 2):
            return
    raise AssertionError(f"only {tried} schedules were counted")


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs processor affinity")
def test_schedules_are_emulated_on_all_cores_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    at_work, most, lock = 0, 0, threading.Lock()

    def slow(*_: object, **__: object) -> None:
        nonlocal at_work, most
        with lock:
            at_work += 1
            most = max(most, at_work)
        time.sleep(0.02)
        with lock:
            at_work -= 1

    monkeypatch.setattr("autosched.verify.schedules.verify_one", slow)
    monkeypatch.setattr(os, "cpu_count", lambda: 8)  # the machine has more CPUs than the process may use
    everywhere = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(everywhere)})
        schedules = [Schedule("matmul", (("x", i),)) for i in range(8)]
        assert len(list(verify(TemplateSet([MATMUL]), Matmul(m=8, n=8, k=8), schedules, H200))) == 8
    finally:
        os.sched_setaffinity(0, everywhere)
    assert most == 1


def test_rows_that_many_blocks_finish_together_are_sampled() -> None:
    """Many blocks compute one row, but rows are independent, so blocks of some rows suffice."""
    rows = template("row_reduction")
    problem = Softmax(64, 1_000_000, "f16")
    split = next(s for s in rows.space(problem, H200).sample(2000, 0) if s.integer("split_k") >= 64)
    kernel = rows.kernel(problem, split, H200)
    assert kernel.cooperating[0] >= 64 and not why_not_sampled(problem, kernel)
    one = Softmax(1, 2**29, "f16")
    assert why_not_sampled(one, rows.kernel(one, split, H200)), "no remaining blocks are omitted"


@needs_nvrtc
@needs_compiler
@pytest.mark.parametrize("cluster_m", [1, 2])
def test_some_neighbours_of_a_stream_k_launch_are_run_at_its_true_size(cluster_m: int) -> None:
    """A tile is verified only if all blocks that share it are sampled.

    The second planted fault occurs only with more than 64 blocks.
    """
    problem = Matmul(2048, 1024, 192, a="bf16", order_b="col")
    schedule = SMALL.replace(tiles_per_block=8, stream_k=1, cluster_m=cluster_m)
    kernel = generate(problem, schedule, H200)
    blocks = sampled_blocks(problem, kernel, 0)
    units = {block // cluster_m for block in blocks}
    assert {0, 1, 132 // cluster_m - 1} <= units and len(blocks) < 132 / 2
    assert any({unit, unit + 1} <= units for unit in range(1, 131))
    verdict = verify_blocks(problem, kernel, 0)
    assert verdict.status == "ok" and verdict.reason == "", verdict.reason
    for right, wrong in (
        ()
        if cluster_m > 1
        else (
            ("registers[r + i] += Element<Sum>", "registers[r + i] -= Element<Sum>"),
            ("return first > 0 ? worker - 1 : worker;", "return first > 0 ? worker - 1 : worker & 63;"),
        )
    ):
        assert verify_blocks(problem, edited(kernel, right, wrong), 0).status == "wrong_result", wrong


def test_a_large_stream_k_problem_is_sampled() -> None:
    problem = Matmul(4096, 4096, 4096, a="bf16")
    wgmma = template("wgmma_matmul")
    streaming = next(s for s in wgmma.space(problem, H200).sample(100, 1) if s.integer("stream_k"))
    kernel = wgmma.kernel(problem, streaming, H200)
    assert not why_not_sampled(problem, kernel) and len(sampled_blocks(problem, kernel, 0)) >= 3


@needs_nvrtc
@needs_compiler
def test_blocks_with_only_narrow_tiles_do_not_limit_the_share_of_others() -> None:
    """Each block computes three tiles. A block with two narrow tiles writes less than the mean, which is no fault.

    The planted fault makes blocks stop half-way, so they write too little.
    """
    b200, persistent = device("b200"), template("tcgen05_matmul")
    problem = Matmul(227, 24, 256, batch=788360, a="e5m2", out="bf16", order_b="col", epilogue="gelu")
    values = {
        "l2_evict_last": "none", "l2_promotion": 128, "raster": "hilbert", "split_k": 1, "stages": 3,
        "store_buffers": 2,
        "stream_k": 0, "sum_buffers": 2, "swizzle_a": 128, "swizzle_b": 128, "tile_k": 128, "tile_m": 128, "tile_n": 16,
        "tile_scheduler": "static", "tiles_per_block": 3,
    }  # fmt: skip
    schedule = Schedule(persistent.name, tuple(values.items()))
    kernel = persistent.kernel(problem, schedule, b200)
    done = verify_blocks(problem, kernel, 0, share=QUICK_SHARE)
    assert (done.status, done.reason) == ("ok", "")
    half = edited(kernel, "next = id; next < works;", "next = id; next < works / 2;")
    verdict = verify_blocks(problem, half, 0, share=QUICK_SHARE)
    assert verdict.status == "wrong_result" and "no block writes more" in verdict.reason


@pytest.mark.parametrize("size", [4096, 16384])
def test_blocks_of_a_large_persistent_launch_have_a_shorter_k(size: int) -> None:
    """Emulating one cluster of a 16384^3 matmul would take minutes, so k is reduced. The grid of tiles is unchanged."""
    problem = Matmul(size, size, size, a="bf16")
    wgmma = template("wgmma_matmul")
    schedule = GOOD.replace(tiles_per_block=4 if size == 4096 else 32, cluster_m=4, stream_k=0, split_k=1)
    sampled, kernel = at_true_size(wgmma, problem, schedule, H200, seed=0)
    steps = schedule.integer("tile_k")
    assert sampled == replace(problem, k=sampled.k) and 2 * steps <= sampled.k < size and sampled.k % steps == 0
    assert sampled_flops(sampled, kernel, 0) <= 2**30 or sampled.k == 2 * steps
    assert kernel.grid == wgmma.kernel(problem, schedule, H200).grid


@pytest.mark.parametrize("problem", [Transpose(8192, 8192), Copy(8192, 8192)])
def test_problems_without_arithmetic_keep_their_size(problem: Problem) -> None:
    mover = templates_for(problem, H200)
    (schedule,) = mover.space(problem, H200).sample(1, seed=0)
    assert at_true_size(template(schedule.template), problem, schedule, H200, seed=0)[0] == problem


def edited(kernel: GeneratedKernel, right: str, wrong: str) -> GeneratedKernel:
    header, text = next((name, text) for name, text in kernel.headers.files if right in text)
    return replace(kernel, headers=kernel.headers | Headers.of({header: text.replace(right, wrong)}))


def test_stream_k_blocks_with_only_narrow_tiles_are_no_fault() -> None:
    """The first and last of 170 blocks have only tiles at the edge of n, which are a sixth as wide as other tiles."""
    problem = Matmul(2003, 1936, 2176, a="e4m3", batch=3, out="bf16", epilogue="silu")
    schedule = Schedule.from_json(
        "tma_matmul",
        {
            **{"tile_m": 128, "tile_n": 96, "tile_k": 64, "intrinsic": "mma_m16n8k32_e4m3", "subgroups_m": 4},
            **{"subgroups_n": 1, "sg_data_m": 16, "sg_data_n": 96, "swizzle_a": 64, "swizzle_b": 64, "stages": 5},
            **{"fragment_buffers": 1, "epilogue": "registers", "min_blocks": 1, "split_k": 1, "stream_k": 1},
            **{"raster": "grouped_8", "batch_mapping": "outer", "l2_promotion": 256},
        },
    )
    verification = verify_one(template("tma_matmul"), problem, schedule, device("rtx5090"))
    assert verification.ok, verification.reason
