"""What a launch should compute: a float64 reference, another configuration, a task, or nothing that is known."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from measurements.emulator import Emulation

UNVERIFIED = "unverified"  # status of outputs of which an oracle can say nothing


class Comparison(NamedTuple):
    """Outputs of one run, compared with an oracle.

    Attributes:
        worst: Largest error over its tolerance; None where nothing was compared.
        reason: What is wrong, in one line; "" if the outputs are right.
        max_abs_error: Largest absolute error, where it is known.
        status: Status of the run if there is a reason.
        left_out: What was not compared.
    """

    worst: float | None
    reason: str = ""
    max_abs_error: float | None = None
    status: str = "wrong_result"
    left_out: str = ""


class Oracle(Protocol):
    """Knows what a launch should compute."""

    def compare(self, emulation: Emulation) -> Comparison:
        """Compare the outputs of a run that has ended without a fault."""
        ...


class _NothingExpected:
    def compare(self, emulation: Emulation) -> Comparison:
        """Return that nothing was compared."""
        return Comparison(None)


NOTHING_EXPECTED: Oracle = _NothingExpected()
