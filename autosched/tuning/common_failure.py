"""Early end of a search whose first configurations all fail for the same reason."""

from __future__ import annotations

import re
from collections.abc import Sequence

from measurements.files.text import one_line
from measurements.trials.measurement import Status
from measurements.trials.trial import Trial

ENOUGH = 4  # the search ends if the first 4 configurations fail: the default and three more
_SHOWN = 300  # maximum characters of a reason

# If kernels fail because they are too slow or too large, the search continues: other configurations may be faster or
# smaller.
_REMEDIES = {
    Status.COMPILE_ERROR: "fix the source",
    Status.LAUNCH_ERROR: "fix the launch: its grid, block and arguments",
    Status.WRONG_RESULT: "fix the kernel or its reference; 'autosched verify' shows every finding",
    Status.CRASHED: "fix the kernel; 'autosched verify' shows every finding",
    Status.UNVERIFIED: "use --no-verify (verify=False) to search without verification",
    Status.UNRANKED: "state the kernel's costs, or tune on a GPU",
}
_NO_VERDICT_YET = re.compile("timeout|time limit|no time")
_VARIES = re.compile(r"0x[0-9a-f]+|\d[\d.,e+-]*|'[^']*'|\"[^\"]*\"", re.IGNORECASE)


def common_failure(trials: Sequence[Trial]) -> str:
    """Return the common reason why all ``trials`` fail, and the remedy, in one line.

    Args:
        trials: The first trials of a search, in order. Trials for which no kernel was generated are ignored.

    Returns:
        The reason. "" if there are fewer than ENOUGH different kernels, if a trial works, or if reasons differ.
    """
    tried = [trial for trial in trials if trial.kernel_digest is not None]
    if len({r.kernel_digest for r in tried}) < ENOUGH or len({_reason_class(trial) for trial in tried}) != 1:
        return ""
    first = tried[0]
    remedy = _REMEDIES.get(first.status)
    if remedy is None:
        return ""
    reason = one_line(first.measurement.reason or first.status.value)[:_SHOWN]
    return f"the first {len(tried)} configurations all fail for one reason, {first.status.value}: {reason}; {remedy}"


def _reason_class(trial: Trial) -> tuple[Status, str]:
    """Return the status and the first clause of the reason, without numbers and names, which vary by configuration."""
    reason = one_line(trial.measurement.reason)
    if trial.status is Status.UNVERIFIED and _NO_VERDICT_YET.search(reason):
        return trial.status, str(trial.id)
    return trial.status, re.split("[;,(]", _VARIES.sub("#", reason), maxsplit=1)[0]
