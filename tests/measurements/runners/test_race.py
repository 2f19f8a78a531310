"""Measured ratios of kernel times equal the true ratios.

The tests use a simulated GPU with virtual time, so the true kernel times are known.
"""

from __future__ import annotations

import statistics

import pytest

from benchmarks.gpu.virtual_gpu import VirtualGpu, VirtualKernel
from measurements.runners.cuda.launch_timer import LaunchTimer
from measurements.runners.cuda.race import Raced, RaceRule, race

COPIES = 4
# Intervals in seconds. The GPU is hot for 40 ms in every 400 ms.
HOT = tuple((0.15 + 0.4 * i, 0.19 + 0.4 * i) for i in range(50))


def raced(gpu: VirtualGpu, incumbent: VirtualKernel, challenger: VirtualKernel) -> Raced:
    timer = LaunchTimer(gpu.cupy, gpu.stream, gpu.state, gpu, gpu.host)  # type: ignore[arg-type]
    result = race(
        timer,
        lambda copy: gpu.launch(incumbent),
        lambda copy: gpu.launch(challenger),
        incumbent.steady,
        COPIES,
        1.0,
        RaceRule(),
    )
    assert result is not None
    return result


@pytest.mark.parametrize("seconds", [3e-6, 15e-6, 25e-6, 200e-6, 3e-3])
@pytest.mark.parametrize("factor", [0.8, 0.99, 1.0, 1.05])
@pytest.mark.parametrize("hot", [(), HOT], ids=["cool", "hot at times"])
def test_ratios_are_true_on_a_clock_that_moves(
    seconds: float, factor: float, hot: tuple[tuple[float, float], ...], nightly: bool
) -> None:
    incumbent, challenger = VirtualKernel(seconds, 0.8), VirtualKernel(seconds * factor, 0.8)
    for seed in range(3 if nightly else 1):
        result = raced(VirtualGpu(seed, hot), incumbent, challenger)
        assert not result.out
        # ``steady`` includes the gap between two launches, which does not scale with the clock.
        true = challenger.steady / incumbent.steady
        assert statistics.median(result.ratios) == pytest.approx(true, rel=0.006 + 0.04 * abs(1 - true))


@pytest.mark.parametrize("seconds", [3e-6, 200e-6])
def test_a_much_slower_kernel_loses_after_three_launches(seconds: float) -> None:
    gpu = VirtualGpu(1)
    result = raced(gpu, VirtualKernel(seconds), VirtualKernel(2 * seconds))
    assert result.out
    assert len(result.ratios) == 3
    assert gpu.host.now < 0.01


def test_a_race_takes_little_longer_than_its_time_limit() -> None:
    gpu = VirtualGpu(1)
    raced(gpu, VirtualKernel(300e-6), VirtualKernel(300e-6))
    assert gpu.host.now < 2 * RaceRule().seconds


def test_copies_are_shared_in_one_rotation() -> None:
    gpu = VirtualGpu(1)
    seen: list[int] = []
    timer = LaunchTimer(gpu.cupy, gpu.stream, gpu.state, gpu, gpu.host)  # type: ignore[arg-type]

    def launch(copy: int) -> None:
        seen.append(copy)
        gpu.launch(VirtualKernel(50e-6))

    race(timer, launch, launch, 50e-6, COPIES, 1.0, RaceRule())
    assert seen == [i % COPIES for i in range(len(seen))]


@pytest.mark.parametrize("wrong", [{"out_factor": 0.5}, {"min_rounds": 0}, {"min_rounds": 5, "max_rounds": 4}])
def test_invalid_race_rules_are_rejected(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError):
        RaceRule(**wrong)  # type: ignore[arg-type]


def test_a_race_that_is_lost_ends_early() -> None:
    gpu, other_gpu = VirtualGpu(1), VirtualGpu(1)
    lost = raced(gpu, VirtualKernel(200e-6), VirtualKernel(1.06 * 200e-6))
    near = raced(other_gpu, VirtualKernel(200e-6), VirtualKernel(1.001 * 200e-6))
    assert not lost.out
    assert len(lost.ratios) == 2 * RaceRule().min_rounds < len(near.ratios)
