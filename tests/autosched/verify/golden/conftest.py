"""Golden verdicts: whether each entry point accepts or rejects a kernel, with the kinds and lines of findings.

``pytest tests/autosched/verify/golden -n 0 --update-golden`` accepts the present verdicts. Review the diff.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

VERDICTS = Path(__file__).parent / "verdicts.json"
Golden = Callable[..., None]


def _entry(verdict: str, findings: Iterable[Any], why: Iterable[str]) -> dict[str, Any]:
    """Return the data to compare, which are the verdict, the kind and line of each fault, and other reasons."""
    faults = sorted({f"{f.kind}:{f.line}" for f in findings if f.is_fault})
    return {"verdict": verdict, "found": [*faults, *sorted(set(why))]}


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Return a function that compares one verdict, "accepted", "refused" or "uncertain", with the golden verdict."""

    def compare(name: str, verdict: str, findings: Iterable[Any] = (), why: Iterable[str] = ()) -> None:
        assert verdict in ("accepted", "refused", "uncertain"), verdict
        actual = _entry(verdict, findings, why)
        verdicts = json.loads(VERDICTS.read_text()) if VERDICTS.exists() else {}
        if request.config.getoption("--update-golden"):
            verdicts[name] = actual
            lines = ",\n".join(f"  {json.dumps(key)}: {json.dumps(verdicts[key])}" for key in sorted(verdicts))
            VERDICTS.write_text(f"{{\n{lines}\n}}\n")
        assert actual == verdicts.get(name), f"the verdict on {name} differs: --update-golden accepts it"

    return compare
