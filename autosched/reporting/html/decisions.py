"""Effect of each decision of the best schedule on the time, estimated from the trials of the search."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from measurements.trials.trial import Trial
from search_spaces.spaces.parameters import Value
from search_spaces.templates.compiler_controls import NAMES, shown_values

_MOST_VALUES = 12  # maximum number of alternatives per decision, the fastest first


@dataclass(frozen=True)
class Alternative:
    """Another value that a decision could have.

    ``trials`` trials have this value. ``ratio`` is their best time divided by the winner's time. ``alone`` is this
    ratio for the schedule that differs from the winner only in this value; None if it was not tried.
    """

    value: str
    chosen: bool
    ratio: float
    trials: int
    alone: float | None


@dataclass(frozen=True)
class Decision:
    """A decision of the best schedule: its template, or its value of one parameter.

    ``worth`` is the best time of trials with another value, divided by the winner's time; None if no other value was
    tried. It is an upper bound, because other values had fewer trials.
    """

    name: str
    worth: float | None
    alternatives: tuple[Alternative, ...]


def decisions(best: Trial, trials: Sequence[Trial]) -> tuple[Decision, ...]:
    """Return the decisions of the best schedule (template and parameters), in the order of decreasing ``worth``.

    Args:
        best: The best trial.
        trials: All trials. Parameters are compared among trials of the same template.

    Raises:
        ValueError: The best trial has no time.
    """
    if best.seconds is None:
        raise ValueError(f"trial {best.id} has no time: its status is {best.status}")
    timed = [(r, r.seconds) for r in trials if r.seconds is not None]
    templates = [(r.schedule.template, seconds, False) for r, seconds in timed]
    parts = [_decision("template", best.schedule.template, best.seconds, templates)]
    own = [(r.schedule, seconds) for r, seconds in timed if r.schedule.template == best.schedule.template]
    controls = [name for name in NAMES if any(name in schedule.values for schedule, _ in own)]
    alike = [({**dict.fromkeys(controls, "default"), **shown_values(schedule)}, seconds) for schedule, seconds in own]
    chosen = {**dict.fromkeys(controls, "default"), **shown_values(best.schedule)}
    for name, value in chosen.items():
        seen = [
            (values[name], seconds, all(values[o] == chosen[o] for o in chosen if o != name))
            for values, seconds in alike
            if values.keys() == chosen.keys()
        ]
        parts.append(_decision(name, value, best.seconds, seen))
    return tuple(sorted(parts, key=lambda d: -(d.worth or 0.0)))


def _decision(name: str, chosen: Value, best: float, seen: Sequence[tuple[Value, float, bool]]) -> Decision:
    times: dict[Value, list[float]] = {chosen: []}
    alone: dict[Value, float] = {}
    for value, seconds, only_this in seen:
        times.setdefault(value, []).append(seconds)
        if only_this and value != chosen:
            alone[value] = min(alone.get(value, math.inf), seconds)
    fastest = {value: best if value == chosen else min(them) for value, them in times.items()}
    alternatives = [
        Alternative(
            str(value),
            value == chosen,
            seconds / best,
            len(times[value]),
            alone[value] / best if value in alone else None,
        )
        for value, seconds in sorted(fastest.items(), key=lambda item: item[1])
    ]
    other_ratios = [a.ratio for a in alternatives if not a.chosen]
    return Decision(name, min(other_ratios, default=None), tuple(alternatives[:_MOST_VALUES]))
