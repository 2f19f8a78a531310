"""Read the verdicts that a database keeps, and decide whether each still applies to its kernel.

A stored verdict is a JSON object (``Verdict.stored``). ``emulator`` and ``ptx`` are digests of the emulator, and of the
PTX that ``compiler`` generated. A change of either makes the verdict stale.
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

if TYPE_CHECKING:  # most verifications require no order of sums
    from search_spaces.spaces.sum_order import SumOrder

ABSENT = "it has no verification"
UNSAID = "its coverage is unknown (stored by an older version): renew it with autosched verify"
FULL, QUICK = "full", "quick"


def identity(kernel: GeneratedKernel | None) -> dict[str, str | None]:
    """Return the identity of a verification made now. ``ptx`` and ``compiler`` are None without NVRTC."""
    digest = None if kernel is None else ptx_digest(kernel)
    return {
        "emulator": emulator_version(),
        "compiler": None if kernel is None or digest is None else toolchain_of(kernel.compile_options),
        "ptx": digest,
    }


def stale_reason(text: str | None, kernel: GeneratedKernel) -> str:
    """Return a reason if a stored verification (JSON text) does not apply to the current ``kernel``, or ""."""
    if text is None:
        return ABSENT
    said = _read(text)
    if said is None:
        return "its verification has an unknown format"
    if said.get("status") != "ok":
        return f"its verification failed: {str(said.get('status'))[:40]}"
    if said.get("emulator") != emulator_version():
        return "it was verified by another version of the emulator"
    if said.get("ptx") is None:
        return "its verification does not name the verified PTX"
    try:
        here = toolchain_of(kernel.compile_options)
    except NvrtcMissing:
        return "its PTX cannot be compared: NVRTC is not installed"
    except NvccMissing as error:
        return f"its PTX cannot be compared: {error}"
    if said.get("compiler") != here:
        return f"its PTX was compiled by {str(said.get('compiler'))[:40]}, but this is {here}"
    if said["ptx"] != ptx_digest(kernel):
        return "its kernel now compiles to different PTX"
    return ""


def is_full(text: str | None) -> bool:
    """Return True if a stored verification has all parts of a full one."""
    said = None if text is None else _read(text)
    return said is not None and said.get("depth") == FULL and said.get("whole") is True


def is_batch_invariant(text: str | None) -> bool:
    """Return True if a stored verification showed that a row has the same bits in every batch."""
    said = None if text is None else _read(text)
    return said is not None and said.get("batch_invariant") is True


def order(text: str | None) -> SumOrder | None:
    """Return the order of sums that a stored verification required; None if it required none."""
    said = None if text is None else _read(text)
    if said is None:
        return None
    from search_spaces.spaces.sum_order import SumOrder

    try:
        return SumOrder.from_json(said.get("sum_order"))
    except ValueError:
        return None


def brief(text: str | None) -> str:
    """Return a short description of a stored verdict.

    It is ``full``, ``quick``, ``cut short``, ``none``, or the status of its failure.
    """
    if text is None:
        return "none"
    said = _read(text)
    if said is None:
        return "of another kind"
    if said["status"] != "ok":
        return str(said["status"])[:40]
    if said["emulator"] != emulator_version():
        return "by another emulator"
    if said.get("depth") != FULL:
        return QUICK
    return FULL if said.get("whole") is True else "cut short"


def coverage(text: str | None) -> Coverage | None:
    """Return the coverage of a stored full verification, by role; None if it has none."""
    said = None if text is None else _read(text)
    if said is None or said.get("depth") != FULL:
        return None
    try:
        return Coverage.from_json(said["coverage"])
    except (KeyError, TypeError, ValueError):
        return None


def lacks(text: str | None) -> tuple[str, ...]:
    """Return the missing parts of a stored full verification, a short text each; ``UNSAID`` if unknown."""
    said = None if text is None else _read(text)
    if said is None or said.get("status") != "ok" or said.get("depth") != FULL:
        return ()
    if isinstance(said.get("lacks"), list):  # verifications of launches, such as Triton's, store the list itself
        return tuple(map(str, said["lacks"]))
    found = coverage(text)
    return (UNSAID,) if found is None else found.lacks


def summary(text: str) -> str:
    """Return one line on the verified parts. ``text`` may be any JSON, since it is read from a database."""
    said = _read(text)
    try:
        assert said is not None
        runs = said["runs"]
        cases = dict.fromkeys(str(case) for run in runs for case in run["cases"])
        orders = dict.fromkeys(str(run["order"]) for run in runs)
        depth = "" if said.get("whole", True) else " of a full verification, cut short by its time limit"
        edge = ", approximate functions perturbed" if any(run.get("perturbed") for run in runs) else ""
        ptx = f", PTX {said['ptx'][:12]}" if said.get("ptx") else ""
        launches = f"{len(runs)} emulated {'run' if len(runs) == 1 else 'runs'}"
        return one_line(
            f"{said['status']} in {launches}{depth}: {', '.join(cases)}{edge}; "
            f"blocks {', '.join(orders)}; emulator {said['emulator'][:12]}{ptx}"
        )
    except (AssertionError, AttributeError, KeyError, TypeError):
        return "unknown format, see --json"


def document(text: str) -> Any:
    """Return a stored verification of any kind. Raises ValueError for invalid JSON."""
    return json.loads(text)


def _read(text: str) -> dict[str, Any] | None:
    """Return the object of a stored verification; None if it is not of this version."""
    try:
        found = document(text)
    except ValueError:
        return None
    known = isinstance(found, dict) and {"status", "emulator", "runs"} <= found.keys()
    return found if known else None
