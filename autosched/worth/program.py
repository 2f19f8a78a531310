"""Expected saving of a program: the share of each problem, and the total that tuning would save."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from autosched.worth.headroom import INTERVAL, Headroom
from search_spaces.arrays import FloatArray

LEAST_GAIN = 0.01  # minimum fraction of a program's time that tuning must save to be worthwhile
_MOST_OF_GAIN = 0.9  # fraction of the total gain that the problems in ``first`` must achieve together


@dataclass(frozen=True)
class ProgramPart:
    """Headroom of a problem, and the number of its launches in the program."""

    headroom: Headroom
    count: float

    @property
    def seconds(self) -> float:
        """Total time of all launches of the problem at present, in seconds."""
        return self.count * self.headroom.seconds

    @property
    def saved(self) -> float:
        """Seconds that tuning is expected to save."""
        return self.seconds * self.headroom.expected


@dataclass(frozen=True)
class ProgramWorth:
    """Expected saving of tuning a program.

    Attributes:
        parts: The program's problems, in descending order of expected saving.
        other_seconds: Seconds that the program spends outside the launches of these problems.
    """

    parts: tuple[ProgramPart, ...]
    other_seconds: float = 0.0

    @property
    def seconds(self) -> float:
        """Seconds of the whole program."""
        return sum(part.seconds for part in self.parts) + self.other_seconds

    def share(self, part: ProgramPart) -> float:
        """Return a problem's fraction of the program's time."""
        return part.seconds / self.seconds

    def gain(self, part: ProgramPart) -> float:
        """Return the fraction of the program's time that tuning one problem is expected to save."""
        return part.saved / self.seconds

    @cached_property
    def _draws(self) -> FloatArray:
        """Random draws of the fraction of the program's time that is saved. The problems' errors are independent."""
        generator = np.random.default_rng(0)
        total = sum(part.seconds * generator.permutation(part.headroom.draws) for part in self.parts)
        return np.asarray(total / self.seconds, dtype=np.float64)

    @property
    def expected(self) -> float:
        """Median fraction of the program's time that tuning saves."""
        return float(np.median(self._draws))

    @property
    def interval(self) -> tuple[float, float]:
        """Percentiles ``INTERVAL`` of the fraction of the program's time that tuning saves."""
        low, high = np.percentile(self._draws, INTERVAL)
        return float(low), float(high)

    def worth_it(self, least: float = LEAST_GAIN) -> bool:
        """Return True if tuning is expected to save at least the fraction ``least`` of the program's time."""
        return self.expected >= least

    @property
    def first(self) -> tuple[ProgramPart, ...]:
        """Problems that together account for most of the gain, largest gain first."""
        total, reached, named = sum(part.saved for part in self.parts), 0.0, []
        for part in self.parts:
            if reached >= _MOST_OF_GAIN * total:
                break
            named.append(part)
            reached += part.saved
        return tuple(named)


def program_worth(parts: Sequence[ProgramPart], program_seconds: float | None = None) -> ProgramWorth:
    """Compute how much time tuning is expected to save in a program, from the headroom of its problems.

    Args:
        parts: The program's problems with their numbers of launches; at least one.
        program_seconds: Run time of the program that made these calls, in seconds. None: use only the time of the
            calls.

    Raises:
        ValueError: The calls alone take longer than ``program_seconds``.
    """
    calls = sum(part.seconds for part in parts)
    if program_seconds is not None and program_seconds < calls:
        raise ValueError(
            f"the program took {program_seconds:.4g} s, but its calls alone take {calls:.4g} s: give the seconds of "
            "the run that wrote the log"
        )
    ordered = tuple(sorted(parts, key=lambda part: -part.saved))
    return ProgramWorth(ordered, 0.0 if program_seconds is None else program_seconds - calls)
