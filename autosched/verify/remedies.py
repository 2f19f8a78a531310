"""What a user can do about a finding whose usual cause is known."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from measurements.emulator import Finding, FindingKind


def remedy(findings: Sequence[Finding], of_unset: Callable[[str], str]) -> str:
    """Return a sentence with the remedy of the first finding that has one; "" where none has.

    Args:
        findings: Those of a launch.
        of_unset: The remedy for an array, by its name, that the kernel reads or adds to before anybody has written it.
    """
    for finding in findings:
        if finding.kind == FindingKind.UNINITIALIZED_GLOBAL_READ and finding.is_fault:
            named = re.search(r"(?:reads|updates) .* of (\w+), which", finding.message)
            if named and (sentence := of_unset(named[1])):
                return sentence
    return ""
