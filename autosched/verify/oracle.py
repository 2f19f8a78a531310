"""Oracles: sources of a launch's expected outputs, such as a float64 reference or a run of another configuration."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from measurements.emulator import Emulation

UNVERIFIED = "unverified"  # status of outputs that an oracle cannot check


class Comparison(NamedTuple):
    """Comparison of one run's outputs with an oracle.

    Attributes:
        worst: Largest error over its tolerance; None if nothing was compared.
        reason: The error in one line; "" if the outputs are correct.
        max_abs_error: Largest absolute error, if known.
        status: Status of the run if there is a reason.
        left_out: Elements that were not compared.
    """

    worst: float | None
    reason: str = ""
    max_abs_error: float | None = None
    status: str = "wrong_result"
    left_out: str = ""


class Oracle(Protocol):
    """Source of a launch's expected outputs."""

    def compare(self, emulation: Emulation) -> Comparison:
        """Compare the outputs of a run that ended without a fault."""
        ...


class _NothingExpected:
    def compare(self, emulation: Emulation) -> Comparison:
        """Return a comparison of nothing."""
        return Comparison(None)


NOTHING_EXPECTED: Oracle = _NothingExpected()
