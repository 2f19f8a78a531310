"""Which kernel a database gives for a problem on a device: the exact record's, the nearest one's, or the model's own.

1. The best record of exactly this problem and device, whatever the model says: it was tuned for it. Where the vendor's
   library won, that is the answer; so it is where it won the nearest problem.
2. Otherwise the nearest record by ``problem_distance``, if its schedule is valid for the problem as asked and the time
   model does not put it behind the default choice (``default_choice``). The nearest MOST_TRIED are asked.
3. Otherwise the default choice.

Every schedule is validated before a kernel is generated from it; a record that fails is passed over, and the answer
says why. Nothing here needs a GPU.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from autosched.dispatch.distance import ProblemDistance, device_distance, problem_distance
from autosched.dispatch.provenance import KernelProvenance, Kind, NoSchedule, Origin
from autosched.dispatch.staleness import UNKNOWN, Environment, stale_reasons
from autosched.samplers.first_choices.model_choice import DefaultChoice, default_choice, predicted_seconds
from measurements.store.store import Store
from measurements.trials.problem_key import fields_of, problem_of
from measurements.trials.trial import Trial
from measurements.trials.vendor_library import is_library
from search_spaces.catalogue import template, templates_for
from search_spaces.hardware.devices import Device, UnknownDevice
from search_spaces.hardware.devices import device as device_row
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.operators.problem import Problem
from search_spaces.short_repr import short_repr
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.template import TemplateSet

MOST_TRIED = 8
# Times the model's time of the default choice, beyond which it puts a schedule behind. The model's own first choice is
# 2 to 3 % from the best in the median (PyTorch's AutoHeuristic matmuls on A100 and H100): less than that says nothing.
NEIGHBOUR_SLACK = 1.03

Usable = Callable[[GeneratedKernel], str | None]
Library = Callable[[Problem], str]


@dataclass(frozen=True)
class Answer:
    """``kernel`` is generated, not compiled; None where the vendor's library is to be called."""

    kernel: GeneratedKernel | None
    provenance: KernelProvenance

    __repr__ = short_repr


@dataclass(frozen=True)
class Neighbour:
    """A recorded problem and device that could stand in, and how far they are."""

    problem_key: str
    device: str
    distance: ProblemDistance


def look_up(
    store: Store,
    problem: Problem,
    device: Device,
    here: Environment = UNKNOWN,
    *,
    exact: bool = False,
    usable: Usable = lambda kernel: None,
    library: Library = lambda problem: "",
) -> Answer:
    """Return the answer of ``store`` for a problem: a recorded kernel, the nearest one, the library, or the model's
    choice.

    Args:
        store: The database.
        problem: What is to be computed.
        device: The GPU that it runs on.
        here: Compiler, driver and CUDA of now, to say what is another one than when a record was timed.
        exact: Nothing but the record of this problem on this device.
        usable: Says why a kernel cannot be used here, or None. It may compile it.
        library: Gives the version of the vendor's library, and raises ValueError where a problem cannot be given to it.

    Returns:
        The kernel, or the library, with its provenance.

    Raises:
        NoSchedule: There is no record with ``exact``, or nothing can be used at all.
    """
    search = _LookUp(store, problem, device, here, usable, library)
    record = store.best(problem, device.name)
    answer = None if record is None else search.exact(record)
    if answer is not None:
        return answer
    neighbours = _neighbours(store, problem, device)
    if exact:
        raise NoSchedule(search.miss(neighbours))
    try:
        templates = templates_for(problem, device)
        default = default_choice(problem, device, templates)
    except ValueError as error:
        raise NoSchedule(str(error)) from error
    for neighbour in [n for n in neighbours if n.distance.usable][:MOST_TRIED]:
        answer = search.nearest(neighbour, templates, default)
        if answer is not None:
            return answer
    if default is None:
        raise NoSchedule(f"{search.miss(neighbours)} (the time model cannot choose: no template states its cost)")
    return search.model(neighbours, templates, default)


class _LookUp:
    """One look-up: what it is for, and why records were passed over so far."""

    def __init__(
        self,
        store: Store,
        problem: Problem,
        device: Device,
        here: Environment,
        usable: Usable,
        library: Library,
    ) -> None:
        self._store = store
        self._problem = problem
        self._device = device
        self._here = here
        self._usable = usable
        self._vendor = library
        self._refused: list[str] = []

    def exact(self, record: Trial) -> Answer | None:
        if is_library(record.schedule):
            return self._library(record, ProblemDistance(0.0, ()))
        try:
            its = template(record.schedule.template)
            kernel = its.kernel(self._problem, record.schedule, self._device)
        except ValueError as error:
            self._refused.append(f"its best schedule is of an older version ({error})")
            return None
        why = self._usable(kernel)
        if why is not None:
            self._refused.append(f"its best schedule cannot be used any more ({why})")
            return None
        stale = stale_reasons(record, self._device, self._here, its, kernel)
        return Answer(kernel, self._provenance(Kind.EXACT, record.schedule, origin=_origin(record), stale=stale))

    def nearest(self, neighbour: Neighbour, templates: TemplateSet, default: DefaultChoice | None) -> Answer | None:
        record = self._record(neighbour)
        if record is None:
            return None
        if is_library(record.schedule):
            return self._library(record, neighbour.distance)
        predicted, why = None, None
        try:
            its = templates.of(record.schedule)
            kernel = templates.kernel(self._problem, record.schedule, self._device)
            if default is not None and its.counts is not None:
                (predicted,) = predicted_seconds(TemplateSet([its]), self._problem, [record.schedule], self._device)
                if predicted > NEIGHBOUR_SLACK * default.seconds:
                    times = predicted / default.seconds
                    why = f"the time model expects it to take {times:.3g} times as long as its own choice"
            why = why or self._usable(kernel)
        except ValueError as error:
            why = str(error)
        if why is not None:
            self._refused.append(f"the schedule recorded where {', '.join(neighbour.distance.differences)}: {why}")
            return None
        provenance = self._provenance(
            Kind.NEAREST,
            record.schedule,
            origin=_origin(record),
            distance=neighbour.distance.doublings,
            differences=neighbour.distance.differences,
            stale=stale_reasons(record, self._device, self._here, its, None),
            predicted_seconds=predicted,
            default_seconds=None if default is None else default.seconds,
        )
        return Answer(kernel, provenance)

    def _library(self, record: Trial, distance: ProblemDistance) -> Answer | None:
        """No time model knows the library; it was the fastest there, and serves every size."""
        try:
            version = self._vendor(self._problem)
        except ValueError as error:
            self._refused.append(f"the vendor's library, which won: {error}")
            return None
        here = dataclasses.replace(self._here, library=version)
        provenance = self._provenance(
            Kind.LIBRARY,
            record.schedule,
            origin=_origin(record),
            distance=distance.doublings,
            differences=distance.differences,
            stale=stale_reasons(record, self._device, here, None, None),
        )
        return Answer(None, provenance)

    def model(self, neighbours: Sequence[Neighbour], templates: TemplateSet, default: DefaultChoice) -> Answer:
        kernel = templates.kernel(self._problem, default.schedule, self._device)
        why = self._usable(kernel)
        if why is not None:
            raise NoSchedule(f"{self.miss(neighbours)} (the model's own choice cannot be used: {why})")
        provenance = self._provenance(
            Kind.MODEL,
            default.schedule,
            differences=neighbours[0].distance.differences if neighbours else (),
            distance=neighbours[0].distance.doublings if neighbours and neighbours[0].distance.usable else 0.0,
            predicted_seconds=default.seconds,
            default_seconds=default.seconds,
        )
        return Answer(kernel, provenance)

    def miss(self, neighbours: Sequence[Neighbour]) -> str:
        """One line on a problem that was not tuned, or whose record cannot be used."""
        if self._refused:
            why = "; ".join(self._refused)
        elif neighbours:
            why = f"the nearest record differs: {', '.join(neighbours[0].distance.differences)}"
        else:
            why = f"it holds nothing of {self._problem.operator}"
        return f"{self._store.name} has no usable record of this problem on {self._device.name}: {why}; tune it first"

    def _provenance(self, kind: Kind, schedule: Schedule, **details: Any) -> KernelProvenance:
        asked = self._problem.key(), self._device.name, self._store.name
        return KernelProvenance(kind, *asked, schedule, refused=tuple(self._refused), **details)

    def _record(self, neighbour: Neighbour) -> Trial | None:
        """Return the best record of a neighbour; None where it cannot be read or is of another family of devices."""
        try:
            recorded = problem_of(neighbour.problem_key)
        except ValueError:
            return None
        record = self._store.best(recorded, neighbour.device)
        if record is None or neighbour.device == self._device.name or _row(neighbour.device) is not None:
            return record
        return record if record.runner_info.arch == self._device.arch else None


def _neighbours(store: Store, problem: Problem, device: Device) -> list[Neighbour]:
    """Every recorded problem of the operator that has a time, on every device, nearest first; those that cannot stand
    in come last, with the fewest differences first."""
    found: dict[tuple[str, str], Neighbour] = {}
    for summary in store.problems(problem.operator):
        place = summary.problem_key, summary.device
        if summary.works and place not in found and place != (problem.key(), device.name):
            sizes = problem_distance(problem, fields_of(summary.problem_key))
            there = device_distance(device, summary.device, _row(summary.device))
            together = ProblemDistance(sizes.doublings + there.doublings, sizes.differences + there.differences)
            found[place] = Neighbour(*place, together)
    return sorted(found.values(), key=lambda n: (n.distance.doublings, len(n.distance.differences), n.problem_key))


def _row(name: str) -> Device | None:
    try:
        return device_row(name)
    except UnknownDevice:
        return None


def _origin(record: Trial) -> Origin:
    assert record.seconds is not None  # Store.best gives ok records only
    return Origin(
        record=record.id,
        problem=record.problem_key,
        device=record.device,
        time=record.provenance.value,
        seconds=record.seconds,
        created=record.created.isoformat(),
        autosched_version=record.autosched_version,
        toolchain=record.toolchain,
        driver=record.driver,
    )
