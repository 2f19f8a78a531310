"""Rooflines, and the reported bottleneck of a schedule."""

from __future__ import annotations

import dataclasses
import datetime

import pytest

from autosched.reporting import formatting
from autosched.reporting.roofline import bound_by, roofline
from cost_models.analytic import busy, predict
from measurements.trials.measurement import Measurement, Provenance, Resources, Status, Timing
from measurements.trials.trial import Trial
from search_spaces.catalogue import template
from search_spaces.hardware.devices import device
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.matvec import Matvec
from search_spaces.operators.problem import Problem
from search_spaces.operators.row_reduction import Softmax
from search_spaces.operators.transpose import Transpose
from search_spaces.spaces.schedule import Schedule

H200 = device("h200")


@pytest.mark.parametrize(
    ("problem", "bound", "peak"),
    [
        (Matmul(4096, 4096, 4096, a="f16"), False, H200.tensor_peak("f16")),
        (Matmul(4096, 4096, 4096, a="f32"), False, H200.tensor_peak("tf32")),
        (Matmul(4096, 4096, 4096, a="f32", precision="ieee"), False, H200.fma_peak),
        (Matmul(16, 4096, 4096, a="f16"), True, H200.tensor_peak("f16")),
        (Matvec(4, 4096, 4096, x="bf16"), True, H200.tensor_peak("bf16")),
        (Softmax(4096, 4096), True, H200.fma_peak),
        (Transpose(4096, 4096), True, H200.fma_peak),
    ],
    ids=lambda value: formatting.one_line(value) if isinstance(value, Problem) else None,
)
def test_the_roof_over_a_problem(problem: Problem, bound: bool, peak: float) -> None:
    roof = roofline(problem, H200)
    assert (roof.memory_bound, roof.peak) == (bound, peak)
    least = max(problem.min_bytes / 4.8e12, problem.flops / peak)
    assert roof.share(least) == pytest.approx(1.0) and roof.share(4 * least) == pytest.approx(0.25)


def test_sums_in_f16_raise_the_roof_of_geforce_gpus() -> None:
    in_f32, in_f16 = Matmul(4096, 4096, 4096), Matmul(4096, 4096, 4096, acc="f16")
    for name, higher in (("rtx4090", 2.0), ("rtx3090", 2.0), ("l40s", 1.0), ("a100", 1.0), ("h200", 1.0)):
        assert roofline(in_f16, device(name)).peak == higher * roofline(in_f32, device(name)).peak
    assert device("rtx4090").tensor_peak("f16_f16") == pytest.approx(330.3e12, rel=1e-3)
    assert device("rtx3090").tensor_peak("f16_f16") == pytest.approx(142e12, rel=5e-3)


def test_memory_bound_times_are_shown_as_bandwidth_and_others_as_arithmetic() -> None:
    softmax, matmul = Softmax(4096, 4096), Matmul(4096, 4096, 4096)
    seconds = softmax.min_bytes / 2.4e12
    assert formatting.rate(softmax, seconds, "h200") == "2.400 TB/s"
    assert formatting.share_of_roof(softmax, seconds, "h200") == "50% of the bandwidth of DRAM"
    assert formatting.rate(matmul, 1e-3, "h200").endswith("TFLOP/s")
    assert formatting.share_of_roof(matmul, matmul.flops / H200.tensor_peak("f16") / 0.7, "h200") == "70% of the peak"
    assert formatting.rate(softmax, seconds, "a GPU of somebody").endswith("FLOP/s")
    assert formatting.share_of_roof(softmax, seconds, "a GPU of somebody") is None


def make_trial(problem: Problem, schedule: Schedule, name: str = "h200") -> Trial:
    measurement = Measurement(
        Status.OK, Provenance.ESTIMATED, timing=Timing.estimate(1e-3), resources=Resources(128, 0, 0, 0, 0, 0)
    )
    return Trial(
        problem_key=problem.key(), schedule=schedule, device=name, fingerprint="{}",
        template_version="", space_version="",
        kernel_digest=None, measurement=measurement, toolchain="", driver="", autosched_version="", sampler="random",
        created=datetime.datetime.now(datetime.UTC), seed=0,
    )  # fmt: skip


def test_the_bound_of_a_schedule_is_reported_in_one_line() -> None:
    problem = Softmax(4096, 4096)
    (schedule,) = template("row_reduction").space(problem, H200).sample(1, 3)
    message = bound_by(problem, make_trial(problem, schedule))
    assert message is not None and "\n" not in message and "% of the time" in message
    assert bound_by(problem, make_trial(problem, schedule, "somebody's GPU")) is None
    assert bound_by(problem, make_trial(problem, dataclasses.replace(schedule, template="gone"))) is None


def test_no_resource_is_busy_for_longer_than_the_launch_takes() -> None:
    problem = Matmul(1024, 1024, 1024, a="f16")
    row = template("matmul")
    assert row.counts is not None
    for schedule in row.space(problem, H200).sample(20, 3):
        shares = busy(row.counts(problem, row.config(problem, schedule, H200), H200), H200)
        assert all(0.0 <= share <= 1.0 for share in shares.values())
        assert "tensor cores" in shares and max(shares.values()) > 0.02


def test_moving_bytes_and_waiting_for_memory_are_two_things() -> None:
    problem = Softmax(4096, 4096)
    row = template("row_reduction")
    assert row.counts is not None
    for schedule in row.space(problem, H200).sample(20, 3):
        counts = row.counts(problem, row.config(problem, schedule, H200), H200)
        seconds = predict(counts, H200)
        shares = busy(counts, H200)
        moved = shares["moving bytes of DRAM"]
        assert moved == pytest.approx(counts.dram_bytes / H200.dram_bandwidth / seconds)
        assert "DRAM" not in shares
        assert 0.0 <= shares["waiting for memory (latency)"] <= 1.0 - moved
