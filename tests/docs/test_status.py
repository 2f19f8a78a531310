"""docs/status.md consists of claims, and every claim has evidence."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
TEXT = (DOCS / "status.toml").read_text("utf-8")

spec = importlib.util.spec_from_file_location("status", DOCS / "status.py")
assert spec is not None and spec.loader is not None
status = importlib.util.module_from_spec(spec)
spec.loader.exec_module(status)


def test_the_status_page_is_current() -> None:
    assert (DOCS / "status.md").read_text("utf-8") == status.page(TEXT, DOCS.parent), "python docs/status.py writes it"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            '"benchmarks/results/guard_power.md"',
            '"benchmarks/results/gone.md"',
            "benchmarks/results/gone.md is missing",
        ),
        ('"0 of 3,000"', '"0 of 30,000"', "guard_power.md does not contain '0 of 30,000'"),
        ('state = "cpu"', 'state = "sure"', "unknown state sure"),
        ("date = 2026-11-22", 'date = "today"', "the date must be a TOML date"),
        ("figures =", "numbers =", "unknown key numbers"),
    ],
)
def test_a_claim_without_evidence_fails(old: str, new: str, message: str) -> None:
    assert old in TEXT
    with pytest.raises(ValueError, match=message.replace(".", r"\.")):
        status.page(TEXT.replace(old, new), DOCS.parent)
