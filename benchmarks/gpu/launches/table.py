"""Compute errors of outputs, and print the table of results by test."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from search_spaces.arrays import Array
from search_spaces.hardware.dtypes import DType

STATUSES = ("equal", "differs", "refused", "fault", "hang", "error")
FAULTS = ("fault", "hang", "error")
UNKNOWN = "?"
_HEAD = ("test", *STATUSES, "largest error")


def largest_error(dtype: DType, actual: Array, expected: Array | None) -> float | None:
    """Return the largest relative error: the maximum of abs(found - expected) / max(abs(found), abs(expected)).

    An error is infinite if only one of the two values is a number, or if they are different infinities. The result is
    None if the expected result is unknown. Different NaNs, and zeros of both signs, differ by 0.
    """
    if expected is None:
        return None
    with np.errstate(all="ignore"):
        a, b = (dtype.load(np.ascontiguousarray(array)).reshape(-1) for array in (actual, expected))
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        relative = np.abs(a - b) / np.maximum(np.abs(a), np.abs(b))
        errors = np.where(same, 0.0, np.where(np.isfinite(relative), relative, np.inf))
    return float(errors.max(initial=0.0))


def table(rows: Sequence[Mapping[str, Any]], *, all_tests: bool = True) -> str:
    """Return a line for each test, with its parametrised cases combined, and a line for all tests.

    Args:
        rows: Rows of ``results.jsonl``.
        all_tests: If False, tests whose launches all have equal results are omitted.
    """
    by_test: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        by_test.setdefault(str(row["test"]).partition("[")[0], []).append(row)
    lines: list[tuple[str, ...]] = [_HEAD]
    for test, own in sorted(by_test.items()):
        if all_tests or any(row["status"] != "equal" for row in own):
            lines.append(_cells(test, own))
    lines.append(_cells("all", rows))
    widths = [max(len(line[i]) for line in lines) for i in range(len(_HEAD))]
    laid = ["  ".join([cells[0].ljust(widths[0]), *map(str.rjust, cells[1:], widths[1:])]).rstrip() for cells in lines]
    return "\n".join(laid)


def _cells(test: str, rows: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    counted = Counter(row["status"] for row in rows)
    return (test, *(str(counted[status] or "") for status in STATUSES), _largest(rows))


def _largest(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return the largest error, followed by a question mark if the error of an output is unknown."""
    errors = [error for row in rows for error in row.get("errors", {}).values()]
    known = [error for error in errors if error is not None]
    largest = f"{max(known):.2g}" if known else ""
    return largest + UNKNOWN * (len(known) < len(errors))
