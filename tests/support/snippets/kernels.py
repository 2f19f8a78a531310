"""Short functions for tests that use our templates through the catalogue."""

from __future__ import annotations

from typing import Any

from search_spaces.catalogue import template, templates_for
from search_spaces.hardware.devices import Device
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.operators.problem import Problem
from search_spaces.spaces.schedule import Schedule


def generate(problem: Problem, schedule: Schedule, device: Device) -> GeneratedKernel:
    return template(schedule.template).kernel(problem, schedule, device)


def space_of(problem: Problem, device: Device) -> Any:
    """Return the space that ``tune`` searches."""
    return templates_for(problem, device).space(problem, device)
