"""Verdicts of a regression check on entries whose machine has changed since tuning."""

import pytest

from autosched.regression.since_tuning import ALONE, AtTuning, since
from measurements.trials.measurement import Timing
from measurements.trials.timing_statistics import Ratio
from measurements.trials.trial import Control


def at_tuning(entry: float = 1.0, library: float = 2.0, spread: float = 0.0) -> AtTuning:
    entry_timing, library_timing = (Timing(t, t * (1 - spread), t * (1 + spread), 20) for t in (entry, library))
    return AtTuning(entry_timing, Control("library", library_timing, "cublas 13.2.0"), "580.65")


def ratio(median: float, width: float = 0.002) -> Ratio:
    return Ratio(median, median * (1 - width), median * (1 + width), 40)


@pytest.mark.parametrize(
    ("candidate", "library", "seconds", "slower", "num_reasons"),
    [
        (1.0, 2.0, 2.0, False, 0),  # nothing has changed since tuning
        (1.0, 2.02, 2.02, False, 0),  # a change as small as the differences between two sessions
        (1.0, 1.8, 2.0, True, 1),  # baseline and candidate are both 11% slower; the library is unchanged
        (1.0, 2.2, 2.0, False, 1),  # relative to the library, both are faster than at tuning
        (1.0, 2.0, 2.2, True, 1),  # baseline, candidate and library are all 10% slower
        (1.0, 2.0, 1.8, True, 1),  # all three are 10% faster: their times are not comparable with the times at tuning
        (1.02, 2.0, 2.0, False, 0),
        (1.06, 2.0, 2.0, True, 1),
    ],
)
def test_a_change_since_tuning_is_attributed(
    candidate: float, library: float, seconds: float, slower: bool, num_reasons: int
) -> None:
    change = since(at_tuning(), ratio(candidate), ratio(library), seconds, 0.01)
    assert (change.slower, len(change.reasons[:-1])) == (slower, num_reasons)
    assert change.against_control == pytest.approx(candidate / library / 0.5)
    assert change.control == pytest.approx(seconds / 2)
    assert (change.reasons[-1:] == ("the entry was tuned with driver 580.65",)) == bool(num_reasons)


def test_noise_and_the_allowed_slowdown_are_tolerated() -> None:
    assert since(at_tuning(), ratio(1.06), ratio(2.0), 2.0, 0.01).slower
    assert not since(at_tuning(), ratio(1.06), ratio(2.0), 2.0, 0.08).slower
    assert not since(at_tuning(spread=0.1), ratio(1.06), ratio(2.0), 2.0, 0.01).slower
    assert not since(at_tuning(), ratio(1.06, 0.03), ratio(2.0, 0.03), 2.0, 0.01).slower, "no significant change"
    beyond = 2.0 * (1 + 2 * ALONE)
    assert since(at_tuning(), ratio(1.0), ratio(2.0), beyond, 0.0).slower
    assert not since(at_tuning(spread=0.2), ratio(1.0), ratio(2.0), beyond, 0.0).slower
