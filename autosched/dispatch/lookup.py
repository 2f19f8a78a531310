"""Selection of the kernel for a problem on a device: from the exact trial, the nearest trial, or the time model.

1. The database's best trial of exactly this problem and device, regardless of the model's prediction. If the vendor's
   library won the trial, the library is selected.
2. Otherwise the recording of this problem and device, if autosched includes one.
3. Otherwise the nearest trial by ``problem_distance`` whose schedule is valid for the requested problem. A schedule is
   skipped if the time model predicts that it is slower than ``default_choice``, unless the two problems differ only in
   dynamic sizes. If the library won the nearest trial, the library is selected. At most MOST_TRIED trials are
   considered. At equal distance, the database precedes the recordings. Recordings are used only for the device that
   they were measured on.
4. Otherwise the schedule that the time model chooses (``default_choice``). Without a database, the time model is used
   only if a recorded problem is near enough.

Every schedule is validated before a kernel is generated from it. Trials that cannot be used are skipped, and the result
lists the reasons. The selection needs no GPU.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from autosched.dispatch.provenance import KernelProvenance, Kind, NoSchedule, Origin
from autosched.dispatch.staleness import UNKNOWN, Environment, stale_reasons
from autosched.samplers.first_choices.model_choice import DefaultChoice, default_choice, predicted_seconds
from measurements.files.data_folder import VARIABLE
from measurements.files.text import one_line
from measurements.store.store import Store
from measurements.trials.problem_key import fields_of, problem_of
from measurements.trials.recording import RecordingError
from measurements.trials.shipped import SHIPPED, ShippedRecordings
from measurements.trials.trial import Trial
from measurements.trials.vendor_library import is_library
from search_spaces.catalogue import template, templates_for
from search_spaces.hardware.devices import Device, UnknownDevice
from search_spaces.hardware.devices import device as device_row
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.operators.distance import ProblemDistance, device_distance, problem_distance
from search_spaces.operators.problem import Problem
from search_spaces.short_repr import short_repr
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.template import TemplateSet

MOST_TRIED = 8
# Maximum slowdown that the time model may predict for the schedule of the nearest trial, relative to the default
# choice. In the median, the model's first choice is 2 to 3% slower than the best schedule (PyTorch's AutoHeuristic
# matmuls on A100 and H100). Smaller predicted differences are noise.
NEIGHBOUR_SLACK = 1.03

Source = Store | ShippedRecordings
Usable = Callable[[GeneratedKernel], str | None]
Library = Callable[[Problem], str]


@dataclass(frozen=True)
class Answer:
    """Selected kernel with its provenance. ``kernel`` is not compiled yet; None means to call the vendor's library."""

    kernel: GeneratedKernel | None
    provenance: KernelProvenance

    __repr__ = short_repr


@dataclass(frozen=True)
class Neighbour:
    """A recorded problem of the same operator, with its device, distance and database."""

    source: Source
    problem_key: str
    device: str
    distance: ProblemDistance


def look_up(
    store: Store | None,
    problem: Problem,
    device: Device,
    environment: Environment = UNKNOWN,
    *,
    exact: bool = False,
    usable: Usable = lambda kernel: None,
    library: Library = lambda problem: "",
    shipped: ShippedRecordings = SHIPPED,
) -> Answer:
    """Return the kernel for a problem, from its own trial, the nearest trial, the library or the time model.

    Args:
        store: Database. If None, only ``shipped`` has trials, and the time model is used only for problems near a
            recorded problem.
        problem: Problem to compute.
        device: GPU that the kernel will run on.
        environment: Current compiler, driver and CUDA versions, to compare with the versions in the trial.
        exact: Use only the database's trial of exactly this problem and device.
        usable: Function that returns why this machine cannot use a kernel, or None. It may compile the kernel.
        library: Function that returns the version of the vendor's library. It raises ValueError for a problem that the
            library cannot compute.
        shipped: Recordings that come with autosched.

    Returns:
        The kernel, or the library, with its provenance.

    Raises:
        NoSchedule: ``exact`` is True and the database has no usable trial, or no kernel can be used.
    """
    search = _LookUp(store, problem, device, environment, usable, library)
    for source in (store, None if exact else shipped):
        answer = None if source is None else search.exact(source)
        if answer is not None:
            return answer
    neighbours = search.neighbours(None if exact else shipped)
    if exact or (store is None and not any(n.distance.usable for n in neighbours)):
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
        raise NoSchedule(
            f"{search.miss(neighbours)} (the time model cannot choose a schedule: no template has cost counts)"
        )
    return search.model(neighbours, templates, default)


class _LookUp:
    """State of one look-up: the arguments, and the reasons why trials were skipped."""

    def __init__(
        self,
        store: Store | None,
        problem: Problem,
        device: Device,
        environment: Environment,
        usable: Usable,
        library: Library,
    ) -> None:
        self._store = store
        self._problem = problem
        self._device = device
        self._environment = environment
        self._usable = usable
        self._vendor = library
        self._refused: list[str] = []

    def exact(self, source: Source) -> Answer | None:
        trial = self._best(source, self._problem, self._device.name)
        if trial is None:
            return None
        if is_library(trial.schedule):
            return self._library(source, trial, ProblemDistance(0.0, ()))
        which = "its best schedule" if source is self._store else "the fastest schedule that autosched's recording has"
        try:
            current_template = template(trial.schedule.template)
            kernel = current_template.kernel(self._problem, trial.schedule, self._device)
        except ValueError as error:
            self._refused.append(f"{which} belongs to an older version ({error})")
            return None
        why = self._usable(kernel)
        if why is not None:
            self._refused.append(f"{which} cannot be used any more ({why})")
            return None
        if isinstance(source, ShippedRecordings) and (trial.rank or 1) > 1:
            self._skip(
                "the winner of the recorded comparison (for example the vendor's library) cannot be used, because it "
                "is not in the recording"
            )
        stale = stale_reasons(trial, self._device, self._environment, current_template, kernel)
        origin = _origin(source, trial)
        return Answer(kernel, self._provenance(Kind.EXACT, trial.schedule, origin=origin, stale=stale))

    def nearest(self, neighbour: Neighbour, templates: TemplateSet, default: DefaultChoice | None) -> Answer | None:
        trial = self._trial(neighbour)
        if trial is None:
            return None
        if is_library(trial.schedule):
            return self._library(neighbour.source, trial, neighbour.distance)
        predicted, why = None, None
        try:
            trial_template = templates.of(trial.schedule)
            kernel = templates.kernel(self._problem, trial.schedule, self._device)
            if default is not None and trial_template.counts is not None:
                (predicted,) = predicted_seconds(
                    TemplateSet([trial_template]), self._problem, [trial.schedule], self._device
                )
                if neighbour.distance.differences and predicted > NEIGHBOUR_SLACK * default.seconds:
                    times = predicted / default.seconds
                    why = f"the time model expects it to take {times:.3g} times as long as the model's choice"
            why = why or self._usable(kernel)
        except ValueError as error:
            why = str(error)
        if why is not None:
            self._refused.append(
                f"the nearest schedule ({', '.join(neighbour.distance.differences)}) cannot be used: {why}"
            )
            return None
        provenance = self._provenance(
            Kind.NEAREST,
            trial.schedule,
            origin=_origin(neighbour.source, trial),
            distance=neighbour.distance.doublings,
            differences=neighbour.distance.differences,
            stale=stale_reasons(trial, self._device, self._environment, trial_template, None),
            predicted_seconds=predicted,
            default_seconds=None if default is None else default.seconds,
        )
        return Answer(kernel, provenance)

    def _library(self, source: Source, trial: Trial, distance: ProblemDistance) -> Answer | None:
        """Return the library as the result. The time model cannot rank the library and is not used."""
        try:
            version = self._vendor(self._problem)
        except ValueError as error:
            self._refused.append(f"the vendor's library, which was fastest, cannot be used: {error}")
            return None
        environment = dataclasses.replace(self._environment, library=version)
        provenance = self._provenance(
            Kind.LIBRARY,
            trial.schedule,
            origin=_origin(source, trial),
            distance=distance.doublings,
            differences=distance.differences,
            stale=stale_reasons(trial, self._device, environment, None, None),
        )
        return Answer(None, provenance)

    def model(self, neighbours: Sequence[Neighbour], templates: TemplateSet, default: DefaultChoice) -> Answer:
        kernel = templates.kernel(self._problem, default.schedule, self._device)
        why = self._usable(kernel)
        if why is not None:
            raise NoSchedule(f"{self.miss(neighbours)} (the model's choice cannot be used: {why})")
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
        """Return a message for a problem that was not tuned, or whose trial cannot be used."""
        if self._refused:
            why = "; ".join(self._refused)
        elif neighbours:
            why = f"the nearest trial has another problem or device: {', '.join(neighbours[0].distance.differences)}"
        elif self._store is None:
            why = f"no recording has a problem of {self._problem.operator}"
        else:
            why = f"the database has no trial of {self._problem.operator}"
        if self._store is None:
            usable = "no recording that comes with autosched can be used"
            remedy = f"tune the problem, pass database=..., call autosched.use(...), or set {VARIABLE}"
            return f"no database, and {usable} on {self._device.name}: {remedy} ({why})"
        return f"{self._store.name} has no usable trial of this problem on {self._device.name}: {why}; tune it first"

    def _provenance(self, kind: Kind, schedule: Schedule, **details: Any) -> KernelProvenance:
        key = self._problem.key(), self._device.name, "" if self._store is None else self._store.name
        return KernelProvenance(kind, *key, schedule, refused=tuple(self._refused), **details)

    def _trial(self, neighbour: Neighbour) -> Trial | None:
        """Return the best trial of a neighbour; None if the trial is unreadable or of another device family."""
        try:
            recorded = problem_of(neighbour.problem_key)
        except ValueError:
            return None
        trial = self._best(neighbour.source, recorded, neighbour.device)
        if trial is None or neighbour.device == self._device.name or _row(neighbour.device) is not None:
            return trial
        return trial if trial.runner_info.arch == self._device.arch else None

    def _best(self, source: Source, problem: Problem, device: str) -> Trial | None:
        """Return the best trial of a problem. If a recording cannot be read, note the reason and return None."""
        try:
            return source.best(problem, device)
        except (RecordingError, OSError) as error:
            self._skip(one_line(str(error)))
            return None

    def _skip(self, why: str) -> None:
        if why not in self._refused:
            self._refused.append(why)

    def neighbours(self, shipped: ShippedRecordings | None) -> list[Neighbour]:
        """Return all problems of the operator that have a time in the database or ``shipped``, nearest first.

        The database contributes problems on every device, ``shipped`` only problems on this device. Problems whose
        schedules cannot be used for this problem come last, in ascending order of the number of differences.
        """
        operator, device = self._problem.operator, self._device
        neighbours_by_key: dict[tuple[bool, str, str], Neighbour] = {}

        def add(source: Source, problem_key: str, recorded_on: str) -> None:
            key = source is shipped, problem_key, recorded_on
            if key in neighbours_by_key or key[1:] == (self._problem.key(), device.name):
                return
            sizes = problem_distance(self._problem, fields_of(problem_key))
            apart = device_distance(device, recorded_on, _row(recorded_on))
            together = ProblemDistance(sizes.doublings + apart.doublings, sizes.differences + apart.differences)
            neighbours_by_key[key] = Neighbour(source, problem_key, recorded_on, together)

        if self._store is not None:
            for summary in self._store.problems(operator):
                if summary.works:
                    add(self._store, summary.problem_key, summary.device)
        if shipped is not None:
            keys, unreadable = shipped.problems(operator, device.name)
            for key in keys:
                add(shipped, key, device.name)
            for why in unreadable:
                self._skip(why)
        return [n for _, n in sorted(neighbours_by_key.items(), key=_nearness)]


def _nearness(item: tuple[tuple[bool, str, str], Neighbour]) -> tuple[float, bool, int, str]:
    (is_shipped, problem_key, _), neighbour = item
    return neighbour.distance.doublings, is_shipped, len(neighbour.distance.differences), problem_key


def _row(name: str) -> Device | None:
    try:
        return device_row(name)
    except UnknownDevice:
        return None


def _origin(source: Source, trial: Trial) -> Origin:
    assert trial.seconds is not None  # the best trial of a problem always has a time
    return Origin(
        database=source.name,
        trial=trial.id,
        problem=trial.problem_key,
        device=trial.device,
        time=trial.provenance.value,
        seconds=trial.seconds,
        created=trial.created.isoformat(),
        autosched_version=trial.autosched_version,
        toolchain=trial.toolchain,
        driver=trial.driver,
    )
