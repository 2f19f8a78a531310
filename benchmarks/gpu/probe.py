"""Check the emulator's assumptions and the time model's constants on a GPU, in two minutes.

    python -m benchmarks.gpu --minutes 2 --parts probe --out OUT
    python -m benchmarks.gpu.probe OUT/probe.json

The first command runs kernels that are only correct if the emulator's assumptions hold. It also times variants of one
large matmul schedule, derives the time model's constants from these times, and writes ``probe.txt`` and ``probe.json``.
The second command compares a ``probe.json`` with the constants of the installed version. Its exit status is 1 if a
constant disagrees, and 2 if the file cannot be read.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from cost_models import analytic
from measurements.runners.base import Candidate, Entrant
from measurements.trials.measurement import Measurement, Status
from search_spaces.catalogue import template
from search_spaces.hardware.costs.cost_counts import CostCounts
from search_spaces.hardware.devices import Device
from search_spaces.operators.copy import Copy
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.problem import Problem
from search_spaces.spaces.schedule import Schedule, Value

TEMPLATE = "wgmma_matmul"
LARGE = Matmul(8192, 8192, 8192, a="bf16")
SCHEDULE: dict[str, Value] = {
    "tile_m": 128, "tile_n": 256, "tile_k": 64, "consumer_warpgroups": 2, "swizzle_a": 128, "swizzle_b": 128,
    "stages": 4,
    "in_flight": 1, "a_operand_source": "shared", "copy_a": "tma", "copy_b": "tma", "producer_registers": 40,
    "min_blocks": 1,
    "split_k": 1, "raster": "grouped_8", "store_buffers": 2, "tiles_per_block": 1, "ping_pong": 0, "stream_k": 0,
    "cluster_m": 2, "cluster_n": 1, "l2_promotion": 128, "l2_evict_last": "none",
}  # fmt: skip
BASE = "as it is"
VARIED: tuple[tuple[str, dict[str, Value]], ...] = (
    (BASE, {}),
    ("in_flight 0", {"in_flight": 0}),
    ("store_buffers 0", {"store_buffers": 0}),
    ("store_buffers 1", {"store_buffers": 1}),
    ("store_buffers 4", {"store_buffers": 4, "stages": 3}),
    ("kept a", {"l2_evict_last": "a"}),
    ("kept b", {"l2_evict_last": "b"}),
    ("no cluster", {"cluster_m": 1}),
    ("cluster 1x2", {"cluster_m": 1, "cluster_n": 2}),
    ("cluster 2x2", {"cluster_n": 2}),
    ("cluster 4x1", {"cluster_m": 4}),
)
SMALL: dict[str, Value] = {"tile_m": 64, "tile_n": 64, "consumer_warpgroups": 1, "stages": 3, "producer_registers": 0,
                           "raster": "row", "store_buffers": 0, "cluster_m": 1}  # fmt: skip
ROUNDS = 8
LONGEST_TRIP = 5000.0  # maximum number of cycles that the fit tries as the round-trip time of a store
AGREES = 0.25  # maximum relative difference at which a derived constant agrees with the assumed constant


@dataclass(frozen=True)
class Mechanism:
    """An assumption of the emulator, and a kernel (problem, schedule) that is only correct if the assumption holds."""

    name: str
    assumed: str
    problem: Problem
    changes: Mapping[str, Value]


def _clusters() -> Iterator[Mechanism]:
    for m, n in ((2, 1), (1, 2), (2, 2), (4, 1), (1, 4)):
        changes: dict[str, Value] = {"cluster_m": m, "cluster_n": n}
        yield Mechanism(f"clusters of {m}x{n}", "multicast to each block that its mask names", _SQUARE, changes)


_SQUARE = Matmul(512, 512, 512, a="bf16")
MECHANISMS: tuple[Mechanism, ...] = (
    Mechanism("boxes larger than the tensor", "TMA fills elements outside with zeros", Matmul(40, 48, 72), {}),
    *_clusters(),
    Mechanism("stmatrix and TMA stores", "TMA stores boxes of shared memory unchanged", _SQUARE, {"store_buffers": 1}),
    Mechanism(
        "sums of 8-bit floats", "truncation in tensor cores stays within the tolerances",
        Matmul(512, 512, 4096, a="e4m3", b="e4m3", out="f32", order_b="col"), {"tile_k": 128},
    ),
    Mechanism(
        "sums of tf32", "truncation in tensor cores stays within the tolerances",
        Matmul(512, 512, 4096, a="f32", b="f32", out="f32", order_b="col", precision="tf32"), {"tile_k": 32},
    ),
)  # fmt: skip


class NotKnown(ValueError):
    """The measured times do not determine a constant."""


@dataclass(frozen=True)
class Constant:
    """A constant of the time model: unit, assumed value, and a function that derives it from measured times.

    The first argument of ``estimate`` maps names to seconds: the names of the varied schedules, "tiny" (a tiny launch)
    and "copy" (a copy). ``estimate`` raises NotKnown if no value of the constant explains the times.
    """

    name: str
    unit: str
    assumed: Callable[[Device], float]
    estimate: Callable[[Mapping[str, float], Device], float]


class Measures(Protocol):
    """The part of a runner's interface that the probe needs."""

    def measure(self, candidates: Sequence[Candidate]) -> Iterator[tuple[int, Measurement]]: ...

    def compare(
        self,
        candidates: Sequence[Candidate],
        *,
        rounds: int = 20,
        library: bool = True,
        other_baselines: Sequence[str] = (),
    ) -> tuple[Entrant, ...]: ...


def schedule_of(changes: Mapping[str, Value]) -> Schedule:
    return Schedule(TEMPLATE, tuple({**SCHEDULE, **changes}.items()))


def counts_of(changes: Mapping[str, Value], device: Device) -> CostCounts:
    """Return the work counts of the large matmul. Raises ValueError if the schedule is illegal."""
    row = template(TEMPLATE)
    assert row.counts is not None
    return row.counts(LARGE, row.config(LARGE, schedule_of(changes), device), device)


def _with_round_trip(work: CostCounts, device: Device, cycles: float) -> CostCounts:
    """Return the work as if TMA took ``cycles`` to read a box from shared memory before storing it."""
    waited = work.boxed * analytic.waited_for_boxes(work, device, cycles)
    return dataclasses.replace(
        work, boxed=0, drain_instructions=work.drain_instructions + device.schedulers_per_sm * waited
    )


def _limited(device: Device, work: CostCounts, seconds: float) -> Device:
    """Return the device with another sustained clock, at which the model predicts ``seconds`` for ``work``."""

    def of(clock: float) -> Device:
        return dataclasses.replace(device, sustained_clock_hz=clock)

    return of(
        _halved(0.3 * device.tensor_clock_hz, device.tensor_clock_hz, lambda c: analytic.predict(work, of(c)) > seconds)
    )


def _halved(low: float, high: float, below: Callable[[float], bool]) -> float:
    """Return, by bisection, the largest number between ``low`` and ``high`` for which ``below`` is true."""
    for _ in range(24):
        middle = (low + high) / 2
        low, high = (middle, high) if below(middle) else (low, middle)
    return (low + high) / 2


@functools.lru_cache(maxsize=8)
def _fitted(base: float, one: float, device: Device) -> tuple[float, Device]:
    """Return the round trip of a store in cycles, and the device with the fitted sustained clock.

    With these two values, the model predicts ``base`` seconds for the schedule, and ``one`` seconds with one store
    buffer.
    """
    two_buffers, one_buffer = (counts_of(changes, device) for changes in ({}, dict(VARIED)["store_buffers 1"]))

    def limited(cycles: float) -> Device:
        return _limited(device, _with_round_trip(two_buffers, device, cycles), base)

    trip = _halved(
        0.0, LONGEST_TRIP, lambda c: analytic.predict(_with_round_trip(one_buffer, device, c), limited(c)) < one
    )
    return trip, limited(trip)


def _round_trip(times: Mapping[str, float], device: Device) -> float:
    trip = _fitted(times[BASE], times["store_buffers 1"], device)[0]
    if trip > 0.99 * LONGEST_TRIP:  # the schedule with one buffer is slow for another reason
        raise NotKnown(
            f"with one store buffer, the schedule takes longer than a round trip of {LONGEST_TRIP:.0f} cycles explains"
        )
    return trip


def _sustained(times: Mapping[str, float], device: Device) -> float:
    try:
        trip = _round_trip(times, device)
    except NotKnown:
        trip = analytic.STORE_ROUND_TRIP
    work = _with_round_trip(counts_of({}, device), device, trip)
    return _limited(device, work, times[BASE]).sustained_clock_hz / 1e6


def _launch(times: Mapping[str, float], device: Device) -> float:
    """Return the launch overhead in seconds: the time of a tiny launch minus the predicted time of the kernel."""
    return times["tiny"] - analytic.predict(_copy_counts(TINY, device), device) + analytic.LAUNCH_SECONDS


def _dram_efficiency(times: Mapping[str, float], device: Device) -> float:
    """Return the DRAM efficiency with which the model predicts the measured time of the copy."""
    work, seconds = _copy_counts(COPIED, device), times["copy"] - _launch(times, device) + analytic.LAUNCH_SECONDS

    def slower(part: float) -> bool:
        with_part = dataclasses.replace(device, dram_bandwidth=device.dram_bandwidth * part)
        return analytic.predict(work, with_part) > seconds

    return analytic.DRAM_EFFICIENCY * _halved(0.1, 1.0 / analytic.DRAM_EFFICIENCY, slower)


CONSTANTS = (
    Constant("LAUNCH_SECONDS", "us", lambda d: analytic.LAUNCH_SECONDS * 1e6, lambda t, d: _launch(t, d) * 1e6),
    Constant(
        "DRAM_EFFICIENCY", "of the data sheet", lambda d: analytic.DRAM_EFFICIENCY, _dram_efficiency,
    ),
    Constant("STORE_ROUND_TRIP", "cycles", lambda d: analytic.STORE_ROUND_TRIP, _round_trip),
    Constant(
        "sustained_clock_hz", "MHz", lambda d: (d.sustained_clock_hz or d.tensor_clock_hz) / 1e6, _sustained
    ),
)  # fmt: skip
COPIED = Copy(16384, 16384)
TINY = Copy(8, 8)


def probe(runner: Measures, device: Device, until: float = math.inf) -> dict[str, Any]:
    """Run the checks until ``time.monotonic`` reaches ``until``. The report lists checks that were not reached."""
    report: dict[str, Any] = {"device": device.name, "mechanisms": [], "times": {}, "constants": [], "left_out": []}
    if not device.has("wgmma"):
        report["left_out"].append(f"all checks: {device.name} has no wgmma")
        return report
    for mechanism in MECHANISMS:
        if time.monotonic() > until:
            report["left_out"].append(mechanism.name)
            continue
        report["mechanisms"].append(_tried(mechanism, runner, device))
    times: dict[str, float] = {}
    if time.monotonic() < until:
        times = _varied(runner, device, report)
    report["times"] = {
        name: {"seconds": seconds, "assumed": _assumed_seconds(name, device)} for name, seconds in times.items()
    }
    for constant in CONSTANTS:
        try:
            estimate: float | None = constant.estimate(times, device)
        except KeyError as missing:
            report["left_out"].append(f"{constant.name}: no time of {missing.args[0]}")
            estimate = None
        except NotKnown as why:
            report["left_out"].append(f"{constant.name}: not known: {why}")
            estimate = None
        report["constants"].append(
            {"name": constant.name, "unit": constant.unit, "assumed": constant.assumed(device), "found": estimate}
        )
    return report


def _candidate(problem: Problem, schedule: Schedule, device: Device) -> Candidate:
    return Candidate(problem, schedule, template(schedule.template).kernel(problem, schedule, device))


def _tried(mechanism: Mechanism, runner: Measures, device: Device) -> dict[str, Any]:
    """Run a mechanism's kernel. Return a row of the report; ``holds`` is True if the GPU's result is correct."""
    row: dict[str, Any] = {"name": mechanism.name, "assumed": mechanism.assumed, "holds": None, "reason": ""}
    try:
        candidate = _candidate(mechanism.problem, schedule_of({**SMALL, **mechanism.changes}), device)
    except ValueError as error:
        return row | {"reason": str(error)}
    ((_, measured),) = runner.measure([candidate])
    holds = {Status.OK: True, Status.WRONG_RESULT: False}.get(measured.status)
    return row | {"holds": holds, "reason": measured.reason or measured.status.value, "error": measured.error}


def _varied(runner: Measures, device: Device, report: dict[str, Any]) -> dict[str, float]:
    """Measure each varied schedule, cuBLAS, a tiny launch and a copy, and return their times in seconds."""
    names, candidates = [], []
    for name, changes in VARIED:
        try:
            candidates.append(_candidate(LARGE, schedule_of(changes), device))
            names.append(name)
        except ValueError as error:
            report["left_out"].append(f"{name}: {error}")
    entrants = runner.compare(candidates, rounds=ROUNDS, library=True)
    times = {}
    for name, entrant in zip([*names, "cuBLAS"], entrants, strict=True):
        if entrant.status is Status.OK and entrant.seconds:
            times[name] = statistics.median(entrant.seconds)
        else:
            report["left_out"].append(f"{name}: {entrant.reason or entrant.status.value}")
    for name, problem in (("tiny", TINY), ("copy", COPIED)):
        schedule = _copy_schedule(problem, device)
        ((_, measured),) = runner.measure([_candidate(problem, schedule, device)])
        if measured.timing is not None:
            times[name] = measured.timing.median
        else:
            report["left_out"].append(f"{name}: {measured.reason or measured.status.value}")
    return times


def _counts_of_copy(problem: Problem, schedule: Schedule, device: Device) -> CostCounts:
    row = template("copy")
    assert row.counts is not None
    return row.counts(problem, row.config(problem, schedule, device), device)


def _copy_schedule(problem: Problem, device: Device) -> Schedule:
    """Return the schedule with the shortest predicted time among some sampled schedules of a copy."""

    def seconds(schedule: Schedule) -> float:
        return analytic.predict(_counts_of_copy(problem, schedule, device), device)

    return min(template("copy").space(problem, device).sample(32, 0), key=seconds)


def _copy_counts(problem: Problem, device: Device) -> CostCounts:
    return _counts_of_copy(problem, _copy_schedule(problem, device), device)


def _assumed_seconds(name: str, device: Device) -> float | None:
    changes = dict(VARIED).get(name)
    return None if changes is None else analytic.predict(counts_of(changes, device), device)


def disagreements(report: Mapping[str, Any], device: Device) -> list[str]:
    """Return a line for each constant or assumption of this version that a report contradicts.

    Raises ValueError if the file is not a probe report.
    """
    try:
        lines = [f"{m['name']}: {m['reason']}" for m in report["mechanisms"] if m["holds"] is False]
        estimates = {c["name"]: c["found"] for c in report["constants"]}
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a probe report: {error!r} is missing") from None
    for constant in CONSTANTS:
        value, assumed = estimates.get(constant.name), constant.assumed(device)
        if value is not None and not abs(value - assumed) <= AGREES * assumed:
            lines.append(f"{constant.name}: assumed {assumed:.4g} {constant.unit}, found {value:.4g}")
    return lines


def page(report: Mapping[str, Any], device: Device) -> str:
    """Return the report as text."""
    lines = [f"Probe of {report['device']}", "", "Assumptions of the emulator:"]
    verdict = {True: "holds", False: "FAILS", None: "not known"}
    for row in report["mechanisms"]:
        reason = "" if row["holds"] else f": {row['reason']}"
        error = f", error {row['error']:.2f} of the tolerance" if row.get("error") is not None else ""
        lines.append(f"  {row['name']:32} {verdict[row['holds']]:9} {row['assumed']}{error}{reason}")
    lines += ["", f"{LARGE.m}^3 bf16, 128x256x64, 4 stages, cluster 2x1, varied:  us, TFLOP/s, time over the model's"]
    for name, row in report["times"].items():
        if name in ("tiny", "copy"):
            continue
        rate = LARGE.flops / row["seconds"] / 1e12
        over = "" if row["assumed"] is None else f"{row['seconds'] / row['assumed']:8.3f}"
        lines.append(f"  {name:32} {row['seconds'] * 1e6:9.1f} {rate:7.1f} {over}")
    lines += ["", "Constants of the time model:                assumed     found"]
    for row in report["constants"]:
        value = "not known" if row["found"] is None else f"{row['found']:9.4g}"
        lines.append(f"  {row['name']:24} {row['unit']:17} {row['assumed']:9.4g} {value}")
    against = disagreements(report, device)
    lines += ["", "Contradictions:", *(f"  {line}" for line in against or ["nothing"])]
    if report["left_out"]:
        lines += ["", "Left out:", *(f"  {omission}" for omission in report["left_out"])]
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> int:
    """Compare a stored report with the constants of this version."""
    from search_spaces.hardware.devices import device

    if len(arguments) != 1:
        print("usage: python -m benchmarks.gpu.probe OUT/probe.json", file=sys.stderr)
        return 2
    try:
        report = json.loads(Path(arguments[0]).read_text(encoding="utf-8"))
        against = disagreements(report, device(report["device"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"benchmarks.gpu.probe: {arguments[0]}: {error}", file=sys.stderr)
        return 2
    print("\n".join(against) or "as assumed")
    return 1 if against else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
