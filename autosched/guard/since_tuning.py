"""What the machine did to an entry since it was tuned: a new driver may slow baseline and candidate alike.

Tuning's last re-measurement timed the winner and the vendor's library in turns, and kept both times. A check times
them in turns again. The kernel may have moved against the library, and the library against its own time of then; each
is told, and makes a verdict that says "as fast as before" uncertain, because then nobody has looked at that "before".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from measurements.library_choice import is_library
from measurements.measurement import Timing
from measurements.record import Record
from measurements.store_merge import remeasurements
from measurements.timing import Ratio, error_of_median

AGAINST_LIBRARY = 0.03  # what two sessions on one GPU may differ by, as ratios of one session
ALONE = 0.05  # and as times, which see other clocks
_ERRORS = 3.0


@dataclass(frozen=True)
class AtTuning:
    """Times of the entry's winner and of the library, from one re-measurement; versions of that day, "" if unknown."""

    entry: Timing
    library: Timing
    library_version: str
    driver: str

    @classmethod
    def of(cls, trials: Sequence[Record], best: Record) -> AtTuning | None:
        """From the newest re-measurement that ``best`` won beside the library, of ``trials`` in their order. None where
        there is none: the operator has no library, or the times are those of a warm cache, which no check has."""
        for run in reversed(remeasurements(trials)):
            winner = run[-1]
            if winner.schedule != best.schedule or winner.kernel_digest != best.kernel_digest or winner.rank != 1:
                continue
            library = next((r for r in run if is_library(r.schedule)), None)
            if library is None or '"cache":"warm"' in winner.fingerprint:
                return None
            mine, theirs = winner.measurement.timing, library.measurement.timing
            if mine is not None and theirs is not None:
                return cls(mine, theirs, library.toolchain, winner.driver)
        return None


@dataclass(frozen=True)
class Since:
    """``against_library`` is the entry's time over the library's, now over then; ``library`` the library's time, now
    over then. ``reasons`` say what has moved, in words; ``slower`` whether that may hide a loss."""

    against_library: float
    library: float
    reasons: tuple[str, ...]
    slower: bool


def since(then: AtTuning, ratio: Ratio, control: Ratio, library_seconds: float, limit: float) -> Since:
    """``ratio`` is candidate over baseline and ``control`` library over baseline, both of now; ``limit`` is a slowdown
    that the entry may have."""
    error = _ERRORS * math.hypot(error_of_median(then.entry), error_of_median(then.library))
    before = then.entry.median / then.library.median
    change = ratio.median / control.median / before
    low, high = ratio.low / control.high / before, ratio.high / control.low / before
    allowed = (1 + max(limit, AGAINST_LIBRARY)) * math.exp(error)
    alone = library_seconds / then.library.median
    reasons = []
    slower = low > allowed
    if slower or high < 1 / allowed:
        reasons.append(f"against the library it takes {change:.3f} of what it took when it was tuned")
    moved = max(alone, 1 / alone) > (1 + ALONE) * math.exp(error)
    if moved:
        reasons.append(f"the library itself takes {alone:.3f} of its time of then: clock, driver or version are others")
    if reasons and then.driver:
        reasons.append(f"it was tuned with driver {then.driver}")
    return Since(change, alone, tuple(reasons), slower or moved)
