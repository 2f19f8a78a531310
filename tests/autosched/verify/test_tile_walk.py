"""At the true size, all blocks of a launch report their tiles. Missing and duplicate tiles are findings."""

from __future__ import annotations

from dataclasses import replace

import pytest
from header_edits import edited
from needs import needs_compiler, needs_nvrtc
from tcgen05_planted import SMALL

from autosched.verify.runs import VerifySettings
from autosched.verify.tile_walk import run_walk, why_no_walk
from search_spaces.catalogue import template
from search_spaces.hardware.devices import Device, device
from search_spaces.launches.headers import Headers, include_dir
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.schedule import Schedule

pytestmark = [needs_compiler, needs_nvrtc]

H200 = device("h200")
LARGE = Matmul(4096, 4096, 4096, a="f16")
DEAL = "autosched/common/stream_k.cuh"


def walked(
    name: str, problem: Matmul, schedule: Schedule, edit: tuple[str, str, str] | None = None, on: Device = H200
) -> str:
    kernel_template = template(name)
    kernel = kernel_template.kernel(problem, schedule, on)
    if edit is not None:
        kernel = replace(kernel, headers=edited(Headers.from_folder(include_dir()), *edit))
    assert kernel_template.walk is not None and why_no_walk(kernel) == ""
    run = run_walk(
        kernel_template.walk, problem, kernel_template.config(problem, schedule, on), kernel, VerifySettings()
    )
    assert run.status == ("wrong_result" if run.reason else "ok")
    return run.reason


def schedule_of(name: str, problem: Matmul, **values: object) -> Schedule:
    schedules = template(name).space(problem, H200).sample(2000, 0)
    return next(s for s in schedules if all(s[p] == v for p, v in values.items()))


@pytest.mark.parametrize("name", ["matmul", "tma_matmul", "wgmma_matmul"])
def test_the_tile_order_of_stream_k_is_complete_and_its_faults_are_found(name: str) -> None:
    schedule = schedule_of(name, LARGE, stream_k=1)
    assert walked(name, LARGE, schedule) == ""
    skips = (DEAL, "whole += Workers;", "whole += whole >= 3 * Workers ? 2 * Workers : Workers;")
    assert "no block computes tile" in walked(name, LARGE, schedule, skips)


def test_a_pair_of_blocks_reports_all_its_tiles() -> None:
    """The report's buffer has room for twice as many tiles as a pair of blocks computes."""
    problem = Matmul(1024, 1024, 128, batch=64, a="f16", order_b="col")
    schedule = SMALL.replace(tile_m=256, tile_n=256, tiles_per_block=14, sum_buffers=2)
    assert walked("tcgen05_matmul", problem, schedule, on=device("b200")) == ""


@pytest.mark.nightly
def test_products_of_32_bits_are_found_without_multiplying() -> None:
    deep = Matmul(4096, 4096, 2**23, a="f16")
    schedule = schedule_of("matmul", LARGE, stream_k=1)
    narrow = (DEAL, "static_cast<long long>(worker) * (dealt_tiles * KTiles)", "worker * (dealt_tiles * KTiles)")
    assert walked("matmul", deep, schedule) == ""
    assert walked("matmul", deep, schedule, narrow) != ""
