"""A dry run of the probe in virtual time. Kernel times come from the time model with other hardware constants."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks.gpu import probe
from benchmarks.gpu.virtual_gpu import GAP, VirtualGpu, VirtualKernel
from cost_models import analytic
from measurements.runners.base import Candidate, Entrant
from measurements.runners.cuda.launch_timer import LaunchTimer, repeated
from measurements.trials.measurement import Measurement, Provenance, Status, Timing
from measurements.trials.timing_statistics import StopRule
from search_spaces.catalogue import template
from search_spaces.hardware.devices import device

H200 = device("h200")
ROUND_TRIP, SUSTAINED = 820.0, 1480e6  # L2 round trip in cycles and SM clock in Hz of the simulated GPU
WRONG = "boxes larger than the tensor"


class VirtualRunner:
    """Fake worker that times kernels in virtual time. Kernels of the mechanism WRONG return wrong results."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._patch = monkeypatch
        self._chip = dataclasses.replace(H200, sustained_clock_hz=SUSTAINED)
        self._wrong = next(m.problem for m in probe.MECHANISMS if m.name == WRONG)

    def _seconds(self, candidate: Candidate) -> list[float]:
        row = template(candidate.schedule.template)
        assert row.counts is not None
        config = row.config(candidate.problem, candidate.schedule, self._chip)
        with self._patch.context() as patch:
            patch.setattr(analytic, "STORE_ROUND_TRIP", ROUND_TRIP)
            seconds = analytic.predict(row.counts(candidate.problem, config, self._chip), self._chip)
        gpu = VirtualGpu(1)
        timer = LaunchTimer(gpu.cupy, gpu.stream, gpu.state, host=gpu.host)
        kernel = VirtualKernel(seconds - GAP)
        sampler = timer.sampler(lambda copy: gpu.launch(kernel), 2, 1.0, 1e-3)
        return repeated(timer, sampler, StopRule(), None).seconds

    def measure(self, candidates: Sequence[Candidate]) -> Iterator[tuple[int, Measurement]]:
        for i, candidate in enumerate(candidates):
            if candidate.problem == self._wrong:
                yield i, Measurement(Status.WRONG_RESULT, Provenance.MEASURED, "out[0, 39, 47] is nan", error=9.0)
            else:
                timing = Timing.of(self._seconds(candidate))
                yield i, Measurement(Status.OK, Provenance.MEASURED, timing=timing, error=0.2)

    def compare(
        self,
        candidates: Sequence[Candidate],
        *,
        rounds: int = 20,
        library: bool = True,
        other_baselines: Sequence[str] = (),
    ) -> tuple[Entrant, ...]:
        entrants = [Entrant(f"{i}", Status.OK, "", tuple(self._seconds(c))) for i, c in enumerate(candidates)]
        return (*entrants, Entrant("library", Status.LAUNCH_ERROR, "no cuBLAS here", ()))


@pytest.fixture(scope="module")
def report() -> Iterator[dict[str, Any]]:
    with pytest.MonkeyPatch.context() as patch:
        yield json.loads(json.dumps(probe.probe(VirtualRunner(patch), H200)))


def estimated_constants(report: dict[str, Any]) -> dict[str, float]:
    return {c["name"]: c["found"] for c in report["constants"]}


def test_every_mechanism_has_a_kernel(report: dict[str, Any]) -> None:
    for row in report["mechanisms"]:
        assert row["holds"] is (row["name"] != WRONG), row


def test_constants_of_another_chip_are_found(report: dict[str, Any]) -> None:
    constants = estimated_constants(report)
    assert constants["STORE_ROUND_TRIP"] == pytest.approx(ROUND_TRIP, rel=0.15)
    assert constants["sustained_clock_hz"] == pytest.approx(SUSTAINED / 1e6, rel=0.02)
    assert constants["LAUNCH_SECONDS"] == pytest.approx(analytic.LAUNCH_SECONDS * 1e6, rel=0.2)
    assert constants["DRAM_EFFICIENCY"] == pytest.approx(analytic.DRAM_EFFICIENCY, rel=0.02)


def test_an_implausible_round_trip_is_unknown(report: dict[str, Any]) -> None:
    times = {name: row["seconds"] for name, row in report["times"].items()}
    times["store_buffers 1"] = 1.1 * times[probe.BASE]
    constants = {c.name: c for c in probe.CONSTANTS}
    with pytest.raises(probe.NotKnown, match="5000 cycles"):
        constants["STORE_ROUND_TRIP"].estimate(times, H200)
    assert constants["sustained_clock_hz"].estimate(times, H200) == pytest.approx(SUSTAINED / 1e6, rel=0.05)


def test_disagreements_with_assumed_constants_are_reported(report: dict[str, Any]) -> None:
    against = probe.disagreements(report, H200)
    assert f"{WRONG}: out[0, 39, 47] is nan" in against
    assert any(line.startswith("STORE_ROUND_TRIP: assumed 500 cycles, found ") for line in against)
    assert not any(line.startswith("DRAM_EFFICIENCY") for line in against)


def test_the_page_lists_every_schedule_and_omitted_parts(report: dict[str, Any]) -> None:
    page = probe.page(report, H200)
    assert all(name in page for name, _ in probe.VARIED)
    assert "FAILS" in page
    assert "cuBLAS: no cuBLAS here" in page


def test_every_varied_schedule_is_one_decision_away_and_legal() -> None:
    for name, changes in probe.VARIED:
        assert probe.counts_of(changes, H200).blocks, name


def test_a_stored_report_is_compared_with_current_constants(
    report: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "probe.json"
    path.write_text(json.dumps(report))
    assert probe.main([str(path)]) == 1
    assert "STORE_ROUND_TRIP" in capsys.readouterr().out
    path.write_text(json.dumps({"device": "h200"}))
    assert probe.main([str(path)]) == 2
    assert probe.main([]) == 2


def test_a_probe_without_time_lists_omitted_parts() -> None:
    with pytest.MonkeyPatch.context() as patch:
        left = probe.probe(VirtualRunner(patch), H200, until=0.0)["left_out"]
    assert WRONG in left
    assert "STORE_ROUND_TRIP: no time of as it is" in left


def test_a_gpu_without_wgmma_has_nothing_to_probe() -> None:
    with pytest.MonkeyPatch.context() as patch:
        assert probe.probe(VirtualRunner(patch), device("a100"))["left_out"] == ["all checks: a100 has no wgmma"]
