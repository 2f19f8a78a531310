"""Measured times are not biased by delays of the host, the power limit, or the GPU's temperature.

The tests use a simulated GPU with virtual time, so the true kernel times are known.
"""

from __future__ import annotations

import statistics

import pytest

from benchmarks.gpu.virtual_gpu import GAP, VirtualGpu, VirtualGraph, VirtualKernel
from measurements.runners.cuda.launch_timer import LaunchTimer, NoGraph, Repeats, capture, repeated
from measurements.trials.timing_statistics import StopRule

SECONDS = (2e-6, 5e-6, 20e-6, 100e-6, 300e-6, 0.99e-3, 2e-3)
COPIES = 4
# Intervals in seconds. The GPU is hot for 40 ms in every 400 ms.
HOT = tuple((0.15 + 0.4 * i, 0.19 + 0.4 * i) for i in range(50))


def timer_of(gpu: VirtualGpu) -> LaunchTimer:
    return LaunchTimer(gpu.cupy, gpu.stream, gpu.state, gpu, gpu.host)  # type: ignore[arg-type]


def times_of(gpu: VirtualGpu, kernel: VirtualKernel) -> Repeats:
    timer = timer_of(gpu)
    sampler = timer.sampler(lambda copy: gpu.launch(kernel), COPIES, 1.0, 1e-3)
    return repeated(timer, sampler, StopRule(), None)


def bias(seconds: list[float], kernel: VirtualKernel) -> float:
    return statistics.median(seconds) / kernel.steady - 1.0


@pytest.mark.parametrize("sustained", [1.0, 0.75], ids=["unlimited", "limited by power"])
@pytest.mark.parametrize("seconds", SECONDS)
@pytest.mark.parametrize("hot", [(), HOT], ids=["cool", "hot at times"])
def test_times_equal_those_of_endless_back_to_back_launches(
    seconds: float, sustained: float, hot: tuple[tuple[float, float], ...], nightly: bool
) -> None:
    kernel = VirtualKernel(seconds, sustained)
    for seed in range(3 if nightly else 1):
        result = times_of(VirtualGpu(seed, hot), kernel)
        assert abs(bias(result.seconds, kernel)) < 0.005, result.reason


def test_a_late_host_does_not_affect_the_times() -> None:
    kernel = VirtualKernel(3e-6)
    for launch_seconds in (2e-6, 40e-6):
        gpu = VirtualGpu(1, launch_seconds=launch_seconds)
        gpu.host.late = 0.05
        assert abs(bias(times_of(gpu, kernel).seconds, kernel)) < 0.005


def test_replays_on_an_idle_stream_would_have_the_host_in_their_times() -> None:
    """The time between events around one launch includes host time.

    A graph whose length is derived from this time would be too short.
    """
    kernel = VirtualKernel(2e-6)
    gpu = VirtualGpu(1, launch_seconds=10e-6)
    timer = timer_of(gpu)
    single = timer._warmed_up(lambda: gpu.launch(kernel), 1.0)
    assert single > 1.5 * kernel.steady
    count = int(2e-3 / single)
    graph = capture(gpu.stream, [lambda: gpu.launch(kernel)] * count).graph
    idle = [timer.timed(1.0, [lambda: graph.launch(gpu.stream)])[0] / count for _ in range(15)]
    assert bias(idle, kernel) > 0.01


def test_repeats_slowed_by_heat_are_excluded_but_not_by_the_power_limit() -> None:
    kernel = VirtualKernel(100e-6)
    hot = times_of(VirtualGpu(3, ((0.0, 0.2), (0.21, 0.25))), kernel)
    assert "slowed by heat: excluded" in hot.reason
    assert times_of(VirtualGpu(3), VirtualKernel(100e-6, 0.75)).reason == ""


def test_an_always_hot_gpu_is_timed_and_reported() -> None:
    result = times_of(VirtualGpu(3, ((0.0, 1e9),)), VirtualKernel(100e-6))
    assert result.seconds
    assert "slowed by heat: included" in result.reason


def test_calls_that_no_graph_takes_are_timed_without_the_host() -> None:
    kernel = VirtualKernel(5e-6)
    gpu = VirtualGpu(2, launch_seconds=30e-6)
    timer = timer_of(gpu)
    held = repeated(timer, timer.held_sampler(lambda copy: gpu.launch(kernel), COPIES, 1.0), StopRule(), None)
    assert abs(bias(held.seconds, kernel)) < 0.005
    assert not timer.with_host


def test_calls_that_synchronize_are_timed_with_the_host() -> None:
    """The timer must not block the stream of a call that synchronises, since the call waits for the stream."""
    kernel = VirtualKernel(5e-6)
    gpu = VirtualGpu(2)
    timer = timer_of(gpu)

    def call(copy: int) -> None:
        gpu.launch(kernel)
        gpu.host.sleep(0.01)  # synchronises, as cudaFree does

    assert timer.held_sampler(call, COPIES, 1.0)()
    assert timer.with_host


def graphs_of(kernel: VirtualKernel) -> list[int]:
    """Return the lengths of the graphs that a timer captures on a GPU with a slow host."""
    gpu = VirtualGpu(1, launch_seconds=20e-6)
    lengths = []
    end = gpu.stream.end_capture

    def counted() -> object:
        graph = end()
        lengths.append(len(graph.kernels))
        return graph

    gpu.stream.end_capture = counted
    timer_of(gpu).sampler(lambda copy: gpu.launch(kernel), COPIES, 1.0, 1e-3)
    return lengths


def test_graphs_of_short_kernels_are_as_long_as_others() -> None:
    """The length is derived from the time of a short graph, because single launches would wait for the host."""
    assert graphs_of(VirtualKernel(2e-6))[-1] * (2e-6 + GAP) > 1.9e-3


@pytest.mark.parametrize("seconds", [200e-6, 900e-6])
def test_the_length_for_long_kernels_follows_from_the_warm_up(seconds: float) -> None:
    (length,) = graphs_of(VirtualKernel(seconds))
    assert length % COPIES == 0 and length * seconds > 1.9e-3


@pytest.mark.parametrize("seconds", [2e-6, 20e-6, 90e-6])
def test_the_length_of_a_graph_takes_few_launches(seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    replayed: list[int] = []
    launch = VirtualGraph.launch

    def counted(graph: VirtualGraph, stream: object) -> None:
        replayed.append(len(graph.kernels))
        launch(graph, stream)

    monkeypatch.setattr(VirtualGraph, "launch", counted)
    lengths = graphs_of(VirtualKernel(seconds))
    assert len(lengths) == 2
    assert sum(length for length in replayed if length == lengths[0]) <= 64
    assert replayed[-1] == lengths[1] > 0


def test_uncapturable_calls_raise_no_graph() -> None:
    gpu = VirtualGpu(0)

    def refuse() -> None:
        raise RuntimeError("operation not permitted when stream is capturing")

    with pytest.raises(NoGraph, match="not permitted"):
        capture(gpu.stream, [refuse])
