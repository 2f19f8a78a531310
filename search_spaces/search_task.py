"""The task of a search: find the fastest schedule of some kernel templates for a problem on a device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from search_spaces.hardware.devices import Device
from search_spaces.operators.problem import Problem
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.search_space import SearchSpace
from search_spaces.templates.template import TemplateSet


@dataclass(frozen=True)
class SearchTask:
    """Task of a search, which is passed to samplers, models and trials.

    Attributes:
        problem: Problem to compute.
        device: GPU to search for.
        templates: Kernel templates to search.
        space: Legal schedules of all ``templates``.
    """

    problem: Problem
    device: Device
    templates: TemplateSet
    space: SearchSpace

    def num_changed(self, schedule: Schedule) -> int:
        """Return the number of parameters that do not have their default value in a schedule."""
        member = self.space.members.get(schedule.template)
        defaults = {} if member is None else {p.name: p.default for p in member.parameters}
        return sum(value != defaults.get(name) for name, value in schedule.items)

    @property
    def versions(self) -> Mapping[str, str]:
        """Version of each kernel template, by name."""
        return {template.name: template.version for template in self.templates}

    @property
    def space_versions(self) -> Mapping[str, str]:
        """Version of each template's space, by name."""
        return {name: member.fingerprint for name, member in self.space.members.items()}
