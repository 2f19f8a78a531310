"""Read the verdicts stored in a database, and decide whether each still applies to its kernel.

A stored verdict is a JSON object (``Verdict.stored``). ``emulator`` is a digest of the emulator, and ``ptx`` is a
digest of the PTX that ``compiler`` generated. If either digest changes, the verdict is stale.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from autosched.verify.coverage import Coverage
from measurements.compiler.nvcc import NvccMissing, toolchain_of
from measurements.compiler.nvrtc import NvrtcMissing
from measurements.emulator import emulator_version, ptx_digest
from measurements.files.text import one_line
from search_spaces.launches.generated_kernel import GeneratedKernel

if TYPE_CHECKING:  # imported only for annotations, because most verifications do not check the order of sums
    from search_spaces.spaces.sum_order import SumOrder

ABSENT = "the trial has no verification"
UNKNOWN_COVERAGE = "the verification's coverage is unknown (stored by an older version): run autosched verify again"
FULL, QUICK = "full", "quick"


def identity(kernel: GeneratedKernel | None) -> dict[str, str | None]:
    """Return the digests that identify a verification made now. ``ptx`` and ``compiler`` are None without NVRTC."""
    digest = None if kernel is None else ptx_digest(kernel)
    return {
        "emulator": emulator_version(),
        "compiler": None if kernel is None or digest is None else toolchain_of(kernel.compile_options),
        "ptx": digest,
    }


def stale_reason(text: str | None, kernel: GeneratedKernel) -> str:
    """Return the reason why a stored verification (JSON text) does not apply to the current ``kernel``, or ""."""
    if text is None:
        return ABSENT
    entry = _read(text)
    if entry is None:
        return "the stored verification has an unknown format"
    if entry.get("status") != "ok":
        return f"the stored verification failed: {str(entry.get('status'))[:40]}"
    if entry.get("emulator") != emulator_version():
        return "the trial was verified by another version of the emulator"
    if entry.get("ptx") is None:
        return "the stored verification does not name the verified PTX"
    try:
        current = toolchain_of(kernel.compile_options)
    except NvrtcMissing:
        return "the verified PTX cannot be compared: NVRTC is not installed"
    except NvccMissing as error:
        return f"the verified PTX cannot be compared: {error}"
    if entry.get("compiler") != current:
        return f"the verified PTX was compiled by {str(entry.get('compiler'))[:40]}, but {current} is installed"
    if entry["ptx"] != ptx_digest(kernel):
        return "the kernel now compiles to different PTX"
    return ""


def is_full(text: str | None) -> bool:
    """Return True if a stored verification is a complete full verification."""
    entry = None if text is None else _read(text)
    return entry is not None and entry.get("depth") == FULL and entry.get("whole") is True


def is_batch_invariant(text: str | None) -> bool:
    """Return True if a stored verification showed that each row has the same bits in every batch."""
    entry = None if text is None else _read(text)
    return entry is not None and entry.get("batch_invariant") is True


def order(text: str | None) -> SumOrder | None:
    """Return the order of sums that a stored verification required, or None if it required none."""
    entry = None if text is None else _read(text)
    if entry is None:
        return None
    from search_spaces.spaces.sum_order import SumOrder

    try:
        return SumOrder.from_json(entry.get("sum_order"))
    except ValueError:
        return None


def brief(text: str | None) -> str:
    """Return a short description of a stored verdict.

    The description is ``full``, ``quick``, ``cut short``, ``none``, the status of a failure, or the reason why the
    verdict does not apply.
    """
    if text is None:
        return "none"
    entry = _read(text)
    if entry is None:
        return "of another kind"
    if entry["status"] != "ok":
        return str(entry["status"])[:40]
    if entry["emulator"] != emulator_version():
        return "by another emulator"
    if entry.get("depth") != FULL:
        return QUICK
    return FULL if entry.get("whole") is True else "cut short"


def coverage(text: str | None) -> Coverage | None:
    """Return the coverage of a stored full verification, or None if the verification is not full or has no coverage."""
    entry = None if text is None else _read(text)
    if entry is None or entry.get("depth") != FULL:
        return None
    try:
        return Coverage.from_json(entry["coverage"])
    except (KeyError, TypeError, ValueError):
        return None


def lacks(text: str | None) -> tuple[str, ...]:
    """Return the missing coverage of a stored full verification, as short texts. ``UNKNOWN_COVERAGE`` if unknown."""
    entry = None if text is None else _read(text)
    if entry is None or entry.get("status") != "ok" or entry.get("depth") != FULL:
        return ()
    # verifications of launches, such as Triton's, store this list instead of a coverage
    if isinstance(entry.get("lacks"), list):
        return tuple(map(str, entry["lacks"]))
    missing = coverage(text)
    return (UNKNOWN_COVERAGE,) if missing is None else missing.lacks


def summary(text: str) -> str:
    """Summarise a stored verification in one line. ``text`` may be any JSON, since it is read from a database."""
    entry = _read(text)
    try:
        assert entry is not None
        runs = entry["runs"]
        cases = dict.fromkeys(str(case) for run in runs for case in run["cases"])
        orders = dict.fromkeys(str(run["order"]) for run in runs)
        depth = "" if entry.get("whole", True) else " of a full verification, cut short by its time limit"
        edge = ", approximate functions perturbed" if any(run.get("perturbed") for run in runs) else ""
        ptx = f", PTX {entry['ptx'][:12]}" if entry.get("ptx") else ""
        launches = f"{len(runs)} emulated {'run' if len(runs) == 1 else 'runs'}"
        return one_line(
            f"{entry['status']} in {launches}{depth}: {', '.join(cases)}{edge}; "
            f"blocks {', '.join(orders)}; emulator {entry['emulator'][:12]}{ptx}"
        )
    except (AssertionError, AttributeError, KeyError, TypeError):
        return "unknown format, see --json"


def document(text: str) -> Any:
    """Return a stored verification in any format. Raises ValueError for invalid JSON."""
    return json.loads(text)


def _read(text: str) -> dict[str, Any] | None:
    """Return the JSON object of a stored verification, or None if the text has another format."""
    try:
        stored = document(text)
    except ValueError:
        return None
    known = isinstance(stored, dict) and {"status", "emulator", "runs"} <= stored.keys()
    return stored if known else None
