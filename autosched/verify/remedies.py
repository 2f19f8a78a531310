"""Remedies for findings whose usual cause is known."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from measurements.emulator import Finding, FindingKind


def remedy(findings: Sequence[Finding], of_unset: Callable[[str], str]) -> str:
    """Return the remedy of the first finding with a known one, in one sentence; "" if there is none.

    Args:
        findings: Findings of a launch.
        of_unset: Remedies for arrays that the kernel reads or adds to before they are written, by array name.

    Returns:
        The sentence.
    """
    for finding in findings:
        if finding.kind == FindingKind.UNINITIALIZED_GLOBAL_READ and finding.is_fault:
            named = re.search(r"(?:reads|updates) .* of (\w+), which", finding.message)
            if named and (sentence := of_unset(named[1])):
                return sentence
    return ""
