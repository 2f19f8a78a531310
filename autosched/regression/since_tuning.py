"""Detection of changes of the machine since an entry was tuned, such as a new driver that slows down every kernel.

The paired timing at the end of a search times the winner alternately with a control, and stores the times. The control
is the vendor's library, or a plain memory copy if no library can compute the problem. A check times winner and control
again. The check compares two values with the stored times: the ratio of the winner's time to the control's, and the
control's time. A change is reported and turns the verdict "same" into uncertain, because the machine's earlier state
cannot be timed again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from measurements.store.merge import remeasurements
from measurements.trials.measurement import Timing
from measurements.trials.policy import DEFAULT
from measurements.trials.timing_statistics import Ratio, error_of_median
from measurements.trials.trial import Control, Trial
from measurements.trials.vendor_library import is_library

AGAINST_CONTROL = 0.03  # accepted relative change of the ratio of two times, between sessions on the same GPU
ALONE = 0.05  # accepted relative change of absolute times, which also depend on clocks
_ERRORS = 3.0


@dataclass(frozen=True)
class AtTuning:
    """Times of the winner and of the control in the paired timing of a search, and the driver ("" if unknown)."""

    entry: Timing
    control: Control
    driver: str

    @classmethod
    def of(cls, trials: Sequence[Trial], best: Trial) -> AtTuning | None:
        """Return the times of the paired timing in which ``best`` won.

        In old databases, the trial does not contain the control's times; the control is then the library's trial.
        Returns None if there is no control, or if the times have another policy than the default, because checks use
        the default policy.
        """
        if best.control is not None and best.measurement.timing is not None:
            return None if best.policy != DEFAULT else cls(best.measurement.timing, best.control, best.driver)
        for run in reversed(remeasurements(trials)):
            winner = run[-1]
            if winner.schedule != best.schedule or winner.kernel_digest != best.kernel_digest or winner.rank != 1:
                continue
            library = next((r for r in run if is_library(r.schedule)), None)
            if library is None or winner.policy != DEFAULT:
                return None
            winner_timing, library_timing = winner.measurement.timing, library.measurement.timing
            if winner_timing is not None and library_timing is not None:
                return cls(winner_timing, Control("library", library_timing, library.toolchain), winner.driver)
        return None


@dataclass(frozen=True)
class Since:
    """Changes of the times of an entry and of its control since the entry was tuned.

    Changes are ratios of the present to the earlier value. ``against_control`` is the change of the entry's time
    relative to the control's time; ``control`` is the change of the control's time. ``reasons`` describes all changes.
    ``slower`` is True if the changes may hide a slowdown.
    """

    against_control: float
    control: float
    reasons: tuple[str, ...]
    slower: bool


def since(then: AtTuning, ratio: Ratio, control: Ratio, control_seconds: float, limit: float) -> Since:
    """Compare the times of an entry and of its control with the times when the entry was tuned.

    Args:
        then: Times of winner and control when the entry was tuned.
        ratio: Present ratio of the candidate's time to the baseline's.
        control: Present ratio of the control's time to the baseline's.
        control_seconds: Present median time of the control, in seconds.
        limit: Allowed slowdown of the entry, as a fraction.

    Returns:
        The changes.
    """
    timing, name = then.control.timing, then.control.name
    error = _ERRORS * math.hypot(error_of_median(then.entry), error_of_median(timing))
    before = then.entry.median / timing.median
    change = ratio.median / control.median / before
    low, high = ratio.low / control.high / before, ratio.high / control.low / before
    allowed = (1 + max(limit, AGAINST_CONTROL)) * math.exp(error)
    alone = control_seconds / timing.median
    reasons = []
    slower = low > allowed
    if slower or high < 1 / allowed:
        reasons.append(f"relative to the {name}, the entry takes {change:.3f}x as long as at tuning")
    moved = max(alone, 1 / alone) > (1 + ALONE) * math.exp(error)
    if moved:
        reasons.append(f"the {name} itself takes {alone:.3f}x as long as at tuning: clock, driver or version changed")
    if reasons and then.driver:
        reasons.append(f"the entry was tuned with driver {then.driver}")
    return Since(change, alone, tuple(reasons), slower or moved)
