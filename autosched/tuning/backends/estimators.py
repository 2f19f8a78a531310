"""Estimates of times without a GPU: by the time model, by emulated instruction counts, or by a trained model."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from autosched.tuning.backends.recorded_times import scale_of_estimates
from autosched.verify.launch_counting import counted
from autosched.verify.machine_counting import counted_in, in_program
from autosched.version import VERSION
from cost_models.analytic import predict
from cost_models.features import features
from cost_models.launch_time import CompiledResources, launch_time, least_seconds
from measurements.compiler.cubin_cache import Compiled
from measurements.runners.base import Candidate
from measurements.trials.measurement import Resources
from search_spaces.hardware.costs.cost_counts import CostCounts
from search_spaces.hardware.devices import Device
from search_spaces.templates.template import KernelTemplate, TemplateSet

if TYPE_CHECKING:
    from cost_models.trees.trained_model import OperatorModel

TRAINED = "the trained model"  # prefix of a trained model's name, followed by the model's digest


@dataclass(frozen=True)
class AnalyticEstimator:
    """Estimates the time of compiled candidates by the analytic models.

    The models need the work of each launch. Built-in templates compute this work (``counts``). For other templates and
    users' kernels, the emulator runs some blocks and counts their instructions. If a user's kernel states the number of
    its operations and bytes, the estimate is at least the time that these operations and bytes take.

    Attributes:
        device: GPU for which times are estimated.
        templates: Kernel templates of the candidates.
    """

    device: Device
    templates: TemplateSet

    @property
    def name(self) -> str:
        """Name of the model. Includes the kind of code (PTX or machine code) if the model counts instructions."""
        counts = any(map(is_counted, self.templates))
        return f"the analytic model of autosched {VERSION}" + (f" ({counted_in()})" if counts else "")

    def __call__(self, candidate: Candidate, resources: Resources, program: Compiled | None = None) -> float | None:
        """Estimate one candidate.

        Args:
            candidate: Compiled candidate.
            resources: Registers, spills and shared memory of the candidate's kernel.
            program: Compiled launches of a pipeline, whose times are added. Default: ``resources`` applies to all
                launches.

        Returns:
            Seconds under sustained load, scaled to match a recorded time (``recorded_times.py``). None if the template
            does not state the work of its kernels and the emulator cannot count the instructions.
        """
        seconds = self._modelled(candidate, resources, program)
        return None if seconds is None else seconds * scale_of_estimates(candidate.problem, self.device)

    def _modelled(self, candidate: Candidate, resources: Resources, program: Compiled | None) -> float | None:
        template, problem, schedule = self.templates.of(candidate.schedule), candidate.problem, candidate.schedule
        stated = None
        if template.counts is not None:
            stated = template.counts(problem, template.config(problem, schedule, self.device), self.device)
        if stated is not None and not is_counted(template):
            if program is None or not stated.then:
                return _seconds(stated, resources, self.device)
            works = dataclasses.replace(stated, then=()), *stated.then
            return sum(_seconds(w, step.resources, self.device) for w, step in zip(works, program.steps, strict=True))
        launches = counted(template, problem, schedule, self.device)
        if launches is not None:
            steps = () if program is None else program.steps
            allotted = [step.resources for step in steps] or [resources] * len(launches)
            counts = [launch.counts for launch in launches] if program is None else in_program(launches, program)
            each = zip(counts, allotted, strict=True)
            seconds = sum(launch_time(c, self.device, _allotted(r)).seconds for c, r in each)
            least = 0.0 if stated is None else max(least_seconds(c.counts, stated, self.device) for c in launches)
            return max(seconds, least)
        if stated is None:
            return None
        shared = stated.shared_bytes + resources.static_shared_bytes
        stated = dataclasses.replace(stated, shared_bytes=shared)
        return _seconds(stated, resources, self.device)


def code_of(model: str) -> str:
    """Return the code (PTX or machine code) whose instructions a model counts, as stated in its name; "" for none."""
    return model.partition(" (")[2].removesuffix(")")


def is_counted(template: KernelTemplate) -> bool:
    """Return True if a template's times are estimated from instructions that the emulator counts in some blocks."""
    return template.counts is None or template.counts_are_bounds


def _seconds(work: CostCounts, resources: Resources, device: Device) -> float:
    """Return the predicted time of one launch, given the registers and spills of its compiled kernel."""
    spilled = resources.spill_store_bytes + resources.spill_load_bytes
    return predict(work, device, registers=resources.registers, spill_bytes=spilled)


def _allotted(resources: Resources) -> CompiledResources:
    spilled = resources.spill_store_bytes + resources.spill_load_bytes
    return CompiledResources(resources.registers, spilled, resources.static_shared_bytes)


@dataclass(frozen=True)
class TrainedEstimator:
    """Estimates the time of candidates by a trained model.

    Attributes:
        device: GPU for which times are estimated.
        templates: Kernel templates of the candidates.
        model: Trained model of the operator.
        name: Name of the model.
    """

    device: Device
    templates: TemplateSet
    model: OperatorModel
    name: str

    def __call__(self, candidate: Candidate, resources: Resources, program: Compiled | None = None) -> float | None:
        """Estimate one candidate. The arguments are those of ``AnalyticEstimator``.

        Returns None if the template has no cost counts.
        """
        if self.templates.of(candidate.schedule).counts is None:
            return None
        table = features(self.templates, candidate.problem, [candidate.schedule], self.device)
        return math.exp(float(self.model.predict(table)[0]))
