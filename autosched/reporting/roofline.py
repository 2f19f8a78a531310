"""Roofline of a problem on a device, and the resource that limits a schedule."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from measurements.trials.facts import ProblemFacts
from measurements.trials.vendor_library import is_library
from search_spaces.catalogue import templates_for
from search_spaces.hardware.block_scaling import UNIT_SCALED_AS
from search_spaces.hardware.devices import Device, UnknownDevice, device
from search_spaces.operators.matmul import FP8, Matmul
from search_spaces.operators.matvec import Matvec
from search_spaces.operators.problem import Problem

if TYPE_CHECKING:
    from measurements.trials.trial import Trial


Costed = Problem | ProblemFacts  # interface of objects with ``flops`` and ``min_bytes``


class Roofline(NamedTuple):
    """Roofline of one problem on one device, in flop/s and bytes/s.

    ``peak`` is the rate of the fastest unit for the operands. Williams, Waterman and Patterson, "Roofline: an
    insightful visual performance model", CACM 2009.
    """

    problem: Costed
    peak: float
    bandwidth: float

    @property
    def memory_bound(self) -> bool:
        """True if moving the operands once through DRAM takes longer than the arithmetic."""
        return self.problem.min_bytes / self.bandwidth >= self.problem.flops / self.peak

    def share(self, seconds: float) -> float:
        """Return the fraction of the roofline's rate that a time of ``seconds`` achieves, at most 1."""
        least = max(self.problem.min_bytes / self.bandwidth, self.problem.flops / self.peak)
        return least / seconds


def roofline(problem: Costed, chip: Device) -> Roofline:
    """Return the roofline of ``problem`` on a device.

    The peak is the tensor-core rate if tensor cores support the operands' types.
    """
    peak = chip.fma_peak
    if isinstance(problem, Matmul | Matvec):
        kind = problem.multiplied_as if isinstance(problem, Matmul) else problem.input_dtype.name
        rated = f"{kind}_f16" if isinstance(problem, Matmul) and problem.acc == "f16" else kind
        if kind in dict(chip.tensor_flops_per_cycle) and (
            kind != "tf32" or getattr(problem, "precision", "") == "tf32"
        ):
            peak = max(peak, chip.tensor_peak(rated))
        if isinstance(problem, Matmul) and kind in FP8 and chip.has("block_scale_mma"):
            peak = max(peak, chip.tensor_peak(UNIT_SCALED_AS))
    # only problems of tile programs have the field multiplied_as
    elif (multiplied := getattr(problem, "multiplied_as", "")) in dict(chip.tensor_flops_per_cycle):
        peak = max(peak, chip.tensor_peak(multiplied))
    return Roofline(problem, peak, chip.dram_bandwidth)


def known(name: str) -> Device | None:
    """Return the device called ``name``; None if it is not in the device table."""
    try:
        return device(name)
    except UnknownDevice:
        return None


def bound_by(problem: Problem, trial: Trial) -> str | None:
    """Format the largest of ``busy_shares``: ``tensor cores (busy 71% of the time, estimated), then L2 (52%)``."""
    shares = busy_shares(problem, trial)
    if shares is None:
        return None
    (first, most), (second, next_most), *_ = sorted(shares.items(), key=lambda item: -item[1])
    return f"{first} (busy {most:.0%} of the time, estimated), then {second} ({next_most:.0%})"


def busy_shares(problem: Problem, trial: Trial) -> dict[str, float] | None:
    """Return the fraction of the time, from 0 to 1, for which each resource is busy.

    The time model predicts the fractions, using the registers and spills of the compiled kernel. Returns None for the
    vendor's library, an unknown device, a template without cost counts, or a schedule of another version.
    """
    chip = known(trial.device)
    if chip is None or is_library(trial.schedule):
        return None
    try:
        template = templates_for(problem, chip).of(trial.schedule)
        if template.counts is None:
            return None
        counts = template.counts(problem, template.config(problem, trial.schedule, chip), chip)
        used = trial.measurement.resources
        registers = None if used is None else used.registers
        spilled = 0 if used is None else used.spill_store_bytes + used.spill_load_bytes
        from cost_models.analytic import busy  # imported here, because it imports the time model

        return busy(counts, chip, registers=registers, spill_bytes=spilled)
    except ValueError:
        return None
