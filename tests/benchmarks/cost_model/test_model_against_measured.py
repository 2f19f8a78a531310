"""The evaluation of the time model runs on a synthetic recording."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from triton_recording import recording

from benchmarks.cost_model import model_against_measured
from benchmarks.cost_model.autoheuristic import TritonConfig, counts, read
from benchmarks.cost_model.model_against_measured import comparable, judge, main, predicted
from cost_models.analytic import predict
from search_spaces.operators.matmul import Matmul


def test_a_recording_is_read_and_the_order_of_tiles_is_right(tmp_path: Path) -> None:
    problems = read(recording(tmp_path))
    assert [(r.problem.m, len(r.configs), r.library) for r in problems] == [(4096, 4, 5e-4), (2048, 4, 5e-4)]
    assert all(comparable(r) and r.device.name == "a100" for r in problems)
    judged = judge(problems)
    assert (judged.rank[0] > 0.7) and (judged.first[0] <= 1.0) and np.all(judged.first_five <= judged.first)
    seconds = problems[0].seconds
    assert seconds == (4e-3, 3e-3, 2e-3, 1e-3)
    assert predicted(problems[0])[2] > predict(counts(problems[0], problems[0].configs[2]), problems[0].device)


def test_a_flag_of_hopper_means_wgmma(tmp_path: Path) -> None:
    (large, _) = read(recording(tmp_path, capability=(9, 0)))
    assert [counts(large, c).unit for c in large.configs] == ["mma", "wgmma", "wgmma", "wgmma"]


def test_the_counts_of_a_triton_loop(tmp_path: Path) -> None:
    """Triton issues a load after the arithmetic that frees the load's buffer. wgmma reads shared memory directly.

    CUTLASS's loads have separate buffers, so they need not wait for the arithmetic.
    """
    (ampere, _), (hopper, _) = read(recording(tmp_path)), read(recording(tmp_path, capability=(9, 0)))
    config = next(c for c in ampere.configs if c.stages > 1 and c.block_m >= 64)
    mma, wgmma = counts(ampere, config), counts(hopper, config)
    assert mma.loads_last and mma.refills
    assert wgmma.loads_last and not wgmma.refills
    assert not counts(ampere, config, own_buffers=True).loads_last
    early = dataclasses.replace(mma, loads_last=False)
    assert predict(mma, ampere.device) >= predict(early, ampere.device)


def test_blocks_that_share_sms_drift_apart(tmp_path: Path) -> None:
    """Two blocks that share an SM drift apart, and reread panels that do not fit in L2.

    With one block per SM, blocks do not drift apart.
    """
    (hopper, _) = read(recording(tmp_path, capability=(9, 0)))
    large = dataclasses.replace(hopper, problem=Matmul(16384, 16384, 16384, a="f16"))
    alone, shared = (counts(large, TritonConfig(128, 128, 64, stages, 4)) for stages in (5, 3))
    assert shared.dram_bytes > 1.2 * alone.dram_bytes
    tiny_l2 = dataclasses.replace(large, device=dataclasses.replace(hopper.device, l2_bytes=6 << 20))
    alone, shared = (counts(tiny_l2, TritonConfig(128, 128, 64, stages, 4)) for stages in (5, 3))
    assert shared.dram_bytes < 2 * alone.dram_bytes  # each of the two blocks loads a panel at most once
    small = dataclasses.replace(hopper, problem=Matmul(1024, 1024, 1024, a="f16"))
    assert counts(small, TritonConfig(128, 128, 64, 3, 4)).dram_bytes == small.problem.min_bytes


def test_the_power_limit_only_binds_long_launches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (large, small) = read(recording(tmp_path))
    small = dataclasses.replace(small, problem=Matmul(256, 256, 256, a="f16"))
    limited = [predicted(r).min() for r in (large, small)]
    monkeypatch.setattr(model_against_measured, "SUSTAINED_FLOPS", {"a100": 1e18})
    free = [predicted(r).min() for r in (large, small)]
    assert limited[0] > 1.02 * free[0]
    assert limited[1] == pytest.approx(free[1], rel=1e-3)


def test_bf16_reaches_the_power_limit_later(tmp_path: Path) -> None:
    (large, _) = read(recording(tmp_path))
    halves = [dataclasses.replace(large, problem=dataclasses.replace(large.problem, a=t, b=t)) for t in ("f16", "bf16")]
    f16, bf16 = (predicted(r) for r in halves)
    assert np.all(bf16 < f16)


def test_results_that_overflow_l2_are_waited_for_on_h100(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only if its results exceed L2 (50 MB) does a launch wait until they are written to DRAM."""
    (hopper, _) = read(recording(tmp_path, capability=(9, 0)))
    wide, small = (dataclasses.replace(hopper, problem=Matmul(side, side, 512)) for side in (32768, 4096))
    waited = [predicted(r) for r in (wide, small)]
    monkeypatch.setattr(model_against_measured, "WRITES_WAIT", ())
    beside = [predicted(r) for r in (wide, small)]
    assert np.all(waited[0] > beside[0] + 0.2 * 32768**2 * 2 / hopper.device.dram_bandwidth)
    assert np.array_equal(waited[1], beside[1])


def test_warpgroups_wait_for_each_other(tmp_path: Path) -> None:
    """In Triton's loop all warpgroups meet at barriers. CUTLASS's warpgroups wait separately, at mbarriers."""
    (hopper, _) = read(recording(tmp_path, capability=(9, 0)))
    one, two = (TritonConfig(128, 128, 64, 5, warps) for warps in (4, 8))
    alone, together, cutlass = counts(hopper, one), counts(hopper, two), counts(hopper, two, own_buffers=True)
    assert not alone.refills and together.refills and not cutlass.refills
    assert together.barriers_per_iteration == 2 > alone.barriers_per_iteration == cutlass.barriers_per_iteration


def test_short_pieces_of_dram_cost_time_on_h100(tmp_path: Path) -> None:
    (ampere, _), (hopper, _) = read(recording(tmp_path)), read(recording(tmp_path, capability=(9, 0)))
    short, long = (TritonConfig(128, 128, step, 3, 4) for step in (32, 128))
    assert 64 < counts(hopper, short).run_bytes < 128  # between a's rows of 64 bytes and b's rows of 256 bytes
    assert counts(hopper, long).run_bytes == 256
    transposed_a = dataclasses.replace(hopper, problem=dataclasses.replace(hopper.problem, order_a="col"))
    assert counts(transposed_a, short).run_bytes == 256  # a is column-major: 128 elements are adjacent
    assert counts(ampere, short).run_bytes == counts(hopper, short, own_buffers=True).run_bytes == 128


def test_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recording(tmp_path)
    assert main([str(tmp_path)]) == 0
    stdout = capsys.readouterr().out
    assert "| a100, judging | 2 |" in stdout and "within 15%" in stdout


@pytest.mark.parametrize(
    "content", [None, "", "{}\n", '{"device_capa": [8, 0]}\nchoice\n', '{"device_capa": [7, 0]}\n']
)
def test_invalid_recordings_are_rejected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str | None
) -> None:
    if content is not None:
        (tmp_path / "some_mm.txt").write_text(content)
    assert main([str(tmp_path)]) == 2
    stderr = capsys.readouterr().err
    assert stderr.count("\n") == 1 and str(tmp_path) in stderr
