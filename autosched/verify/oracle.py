"""Oracles, which provide a launch's expected outputs: a float64 reference, or a run of another configuration."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from measurements.emulator import Emulation

UNVERIFIED = "unverified"  # status of outputs that an oracle cannot check


class Comparison(NamedTuple):
    """Comparison of one run's outputs with an oracle.

    Attributes:
        worst: Largest ratio of an error to its tolerance; None if nothing was compared.
        reason: Description of the error in one line; "" if the outputs are correct.
        max_abs_error: Largest absolute error, if known.
        status: Status of the run if ``reason`` is not "".
        left_out: Description of elements that were not compared.
    """

    worst: float | None
    reason: str = ""
    max_abs_error: float | None = None
    status: str = "wrong_result"
    left_out: str = ""


class Oracle(Protocol):
    """Source of a launch's expected outputs."""

    def compare(self, emulation: Emulation) -> Comparison:
        """Compare the outputs of a run that ended without a fault with the expected outputs."""
        ...


class _NothingExpected:
    def compare(self, emulation: Emulation) -> Comparison:
        """Return a comparison without a result, because there are no expected outputs."""
        return Comparison(None)


NOTHING_EXPECTED: Oracle = _NothingExpected()
