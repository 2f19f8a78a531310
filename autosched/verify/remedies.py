"""Remedies for findings whose usual cause is known."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from measurements.emulator import Finding, FindingKind


def remedy(findings: Sequence[Finding], of_unset: Callable[[str], str]) -> str:
    """Return the remedy, in one sentence, for the first finding that has a known remedy, or "".

    Args:
        findings: Findings of a launch.
        of_unset: Function that takes an array's name, and returns the remedy for a kernel that reads or updates this
            array before it is written.

    Returns:
        The remedy.
    """
    for finding in findings:
        if finding.kind == FindingKind.UNINITIALIZED_GLOBAL_READ and finding.is_fault:
            named = re.search(r"(?:reads|updates) .* of (\w+), which", finding.message)
            if named and (sentence := of_unset(named[1])):
                return sentence
    return ""
